//! Inflating one stream of a pack after the other, each to its exact end and in bounded memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use flate2::{Decompress, FlushDecompress, Status};

const BUFFER: usize = 16 << 10;

/// Reads a zlib stream that begins somewhere in a file.
///
/// It ends where the stream does. A stream that the file cuts short is an error, which
/// `flate2`'s own readers take for an end.
pub(crate) struct Inflate {
    file: Arc<File>,
    /// Where the next bytes of the file are read.
    next: u64,
    /// Where the streams of the file must have ended.
    end: u64,
    buffer: Vec<u8>,
    /// The part of the buffer that is not inflated yet.
    waiting: std::ops::Range<usize>,
    state: Decompress,
    has_ended: bool,
}

impl Inflate {
    pub(crate) fn new(file: &Arc<File>, at: u64, end: u64) -> Self {
        Inflate {
            file: Arc::clone(file),
            next: at,
            end,
            buffer: vec![0; BUFFER],
            waiting: 0..0,
            state: Decompress::new(true),
            has_ended: false,
        }
    }

    /// Goes to the beginning of another stream.
    pub(crate) fn restart(&mut self, at: u64) {
        let buffered = self.next - self.waiting.end as u64;
        match at.checked_sub(buffered) {
            Some(start) if start <= self.waiting.end as u64 => self.waiting.start = start as usize,
            _ => {
                self.next = at;
                self.waiting = 0..0;
            }
        }
        self.state.reset(true);
        self.has_ended = false;
    }

    /// Where in the file the stream has got to.
    pub(crate) fn position(&self) -> u64 {
        self.next - self.waiting.len() as u64
    }

    /// Whether the end of the stream was reached.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn fill(&mut self) -> io::Result<()> {
        let most = (self.end.saturating_sub(self.next)).min(BUFFER as u64) as usize;
        let count = self.file.read_at(&mut self.buffer[..most], self.next)?;
        self.next += count as u64;
        self.waiting = 0..count;
        Ok(())
    }
}

impl Read for Inflate {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.has_ended || out.is_empty() {
            return Ok(0);
        }
        loop {
            if self.waiting.is_empty() {
                self.fill()?;
            }
            let is_cut = self.waiting.is_empty();
            let (taken, made) = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(
                &self.buffer[self.waiting.clone()],
                out,
                FlushDecompress::None,
            )?;
            self.waiting.start += (self.state.total_in() - taken) as usize;
            let made = (self.state.total_out() - made) as usize;
            if status == Status::StreamEnd {
                self.has_ended = true;
                return Ok(made);
            }
            if made > 0 {
                return Ok(made);
            }
            if is_cut {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn streams_end_where_they_end_and_cut_ones_are_errors() {
        let mut packed = Vec::new();
        let mut starts = Vec::new();
        for size in [0usize, 1, 100_000] {
            starts.push((packed.len() as u64, size));
            let mut encoder =
                flate2::write::ZlibEncoder::new(&mut packed, flate2::Compression::fast());
            encoder.write_all(&vec![b'x'; size]).unwrap();
            encoder.finish().unwrap();
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&packed).unwrap();
        file.write_all(b"garbage").unwrap();
        let (file, end) = (Arc::new(file), packed.len() as u64);
        let mut inflate = Inflate::new(&file, 0, end + 7);
        for (at, size) in starts.iter().chain(starts.iter().rev()) {
            inflate.restart(*at);
            let mut content = Vec::new();
            inflate.read_to_end(&mut content).unwrap();
            assert_eq!(content.len(), *size);
            assert!(inflate.has_ended());
        }
        inflate.restart(starts[2].0);
        io::copy(&mut inflate, &mut io::sink()).unwrap();
        assert_eq!(inflate.position(), end);
        for cut in 1..20 {
            let mut inflate = Inflate::new(&file, starts[2].0, end - cut);
            assert!(io::copy(&mut inflate, &mut io::sink()).is_err(), "{cut}");
        }
    }
}
