//! Load over HTTP: connections that are kept, one request after the other on each.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use offshoot_core::{Error, Result};

use super::image::failed;

/// A connection that is used again and again.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).map_err(|cause| failed("connect", cause))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(30))))
            .map_err(|cause| failed("connect", cause))?;
        Ok(Connection {
            stream,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Sends a request and reads its answer to the end. Gives the body.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let (status, body) = self
            .exchange(request)
            .map_err(|cause| failed("get an answer", cause))?;
        if !(200..300).contains(&status) {
            let body = String::from_utf8_lossy(&body).into_owned();
            return Err(
                Error::internal(format!("a request was answered with status {status}"))
                    .with_source(body),
            );
        }
        Ok(body)
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        let end = loop {
            let n = self.stream.read(&mut self.buffer[filled..])?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += n;
            let head = self.buffer[..filled].windows(4);
            if let Some(at) = head.into_iter().position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .and_then(|text| text.trim().parse::<usize>().ok())
            .unwrap_or(0);
        let mut body = self.buffer[end..filled].to_vec();
        let there = body.len();
        body.resize(length.max(there), 0);
        self.stream.read_exact(&mut body[there..])?;
        Ok((status.unwrap_or(0), body))
    }
}

/// Requests in a second over so many connections. `request` gets the connection and a number.
pub(crate) fn rate(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    request: &(dyn Fn(usize, usize) -> Vec<u8> + Sync),
) -> Result<f64> {
    let (ended, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(address)?);
    }
    let began = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> = open
            .into_iter()
            .enumerate()
            .map(|(number, mut connection)| {
                let (ended, answered) = (&ended, &answered);
                scope.spawn(move || -> Result<()> {
                    let mut n = 0;
                    while !ended.load(Ordering::Relaxed) {
                        connection.ask(&request(number, n))?;
                        answered.fetch_add(1, Ordering::Relaxed);
                        n += 1;
                    }
                    Ok(())
                })
            })
            .collect();
        std::thread::sleep(time);
        ended.store(true, Ordering::Relaxed);
        for client in clients {
            client
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok::<(), Error>(())
    })?;
    Ok(answered.into_inner() as f64 / began.elapsed().as_secs_f64())
}
