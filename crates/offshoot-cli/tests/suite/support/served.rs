//! `offshoot serve` as a process, and requests to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use offshoot_testkit::Process;

/// The binary.
pub(crate) const OFFSHOOT: &str = env!("CARGO_BIN_EXE_offshoot");

/// A command over a data directory, not yet started.
pub(crate) fn command(data: &Path) -> Command {
    let mut command = Command::new(OFFSHOOT);
    command
        .arg("--data")
        .arg(data)
        .env_remove("OFFSHOOT_CONFIG");
    command
}

/// Runs one: its exit code, stdout and stderr.
pub(crate) fn run(data: &Path, args: &[&str]) -> (i32, String, String) {
    let output = command(data).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A server with a token for it.
pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) address: String,
    pub(crate) token: String,
}

impl Served {
    /// Starts it on a port of its own.
    pub(crate) fn start(data: &Path) -> Served {
        Served::start_with(data, |command| command.env("OFFSHOOT_LOG", "warn"))
    }

    /// Starts a server with another environment or stderr.
    pub(crate) fn start_with(
        data: &Path,
        also: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Served {
        let (code, token, _) = run(data, &["token", "issue", "--admin", "--quiet"]);
        assert_eq!(code, 0);
        let mut process = Process::spawn(also(
            command(data)
                .args(["serve", "--listen", "127.0.0.1:0", "--json"])
                .stdout(Stdio::piped()),
        ));
        let address = read_address(&mut process);
        Served {
            process,
            address,
            token: token.trim().to_owned(),
        }
    }

    /// A connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// The head of a request.
    pub(crate) fn head(&self, method: &str, target: &str, length: u64) -> String {
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\r\n",
            self.address, self.token
        )
    }

    /// One request; the status and the body.
    pub(crate) fn send(&self, method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = self.connect();
        stream
            .write_all(self.head(method, target, body.len() as u64).as_bytes())
            .unwrap();
        // It may be refused before all of it has come.
        let _ = stream.write_all(body);
        let (status, length, mut reader) = read_head(stream).unwrap();
        let mut body = vec![0; length as usize];
        reader.read_exact(&mut body).unwrap();
        (status, body)
    }

    /// The most memory that the process has had, and has now, in KiB.
    pub(crate) fn memory(&self, field: &str) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

/// The address that a server wrote to stdout.
pub(crate) fn read_address(process: &mut Process) -> String {
    let mut stdout = process.take_stdout().unwrap();
    let mut text = String::new();
    let told = loop {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
        if let Ok(told) = serde_json::from_str::<serde_json::Value>(&text) {
            break told;
        }
    };
    told["listen"].as_str().unwrap().to_owned()
}

/// The status and the length of an answer, and what it is read from.
pub(crate) fn read_head(stream: TcpStream) -> std::io::Result<(u16, u64, BufReader<TcpStream>)> {
    let mut reader = BufReader::new(stream);
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest[..3].parse().unwrap();
        }
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.trim().parse().unwrap();
        }
        if line == "\r\n" {
            return Ok((status, length, reader));
        }
    }
}
