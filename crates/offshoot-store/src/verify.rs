//! Verifying content by its id while it is read.
//!
//! A disk may return a flipped bit without an error. So the last bytes of a stream are withheld
//! until its hash is known to be right: a reader that gets to the end without an error has read the
//! right content.

use std::io::{self, Read};

use offshoot_core::{ObjectId, ObjectKind, Result};

use crate::compress::damaged;

/// Computes the id of a content that comes piece by piece.
pub trait ContentHasher: Send {
    /// Adds the next bytes.
    fn update(&mut self, bytes: &[u8]);

    /// The id of what was added.
    fn finish(self: Box<Self>) -> Result<ObjectId>;
}

/// Begins the hash of an object of this kind and size. The store itself does not know how ids are
/// made.
pub type NewHasher = fn(ObjectKind, u64) -> Box<dyn ContentHasher>;

/// Checks a content that is in memory.
pub(crate) fn verify_bytes(
    hasher: Option<NewHasher>,
    kind: ObjectKind,
    id: &ObjectId,
    bytes: &[u8],
) -> Result<()> {
    let Some(hasher) = hasher else { return Ok(()) };
    let mut hasher = hasher(kind, bytes.len() as u64);
    hasher.update(bytes);
    if hasher.finish()? == *id {
        return Ok(());
    }
    Err(damaged(id).with_source("the content does not hash to its id"))
}

/// A stream of an object that fails before its end if the content does not fit its row or its id.
pub(crate) struct VerifyingReader {
    inner: Box<dyn Read + Send>,
    id: ObjectId,
    left: u64,
    /// None in tests that do not hash.
    hasher: Option<Box<dyn ContentHasher>>,
    verdict: Verdict,
}

/// Whether the content is known to be right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Not read to its end yet.
    Unknown,
    Right,
    /// Every further read fails, so that a caller that goes on after the error sees no end.
    Wrong,
}

impl VerifyingReader {
    pub(crate) fn new(
        inner: Box<dyn Read + Send>,
        id: ObjectId,
        size: u64,
        hasher: Option<Box<dyn ContentHasher>>,
    ) -> Self {
        VerifyingReader {
            inner,
            id,
            left: size,
            hasher,
            verdict: Verdict::Unknown,
        }
    }

    fn damaged(&self, why: &'static str) -> io::Error {
        io::Error::new(
            io::ErrorKind::InvalidData,
            damaged(&self.id).with_source(why),
        )
    }

    /// Reads stored bytes; content that cannot be decompressed is reported as damaged.
    fn read_inner(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|cause| match cause.kind() {
            io::ErrorKind::Interrupted => cause,
            kind => io::Error::new(kind, damaged(&self.id).with_source(cause)),
        })
    }

    fn read_unverified(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        // An empty content has no last bytes that could be withheld.
        if wanted > 0 {
            let count = self.read_inner(&mut buffer[..wanted])?;
            if count == 0 {
                return Err(self.damaged("the stored content is shorter than its row says"));
            }
            if let Some(hasher) = &mut self.hasher {
                hasher.update(&buffer[..count]);
            }
            self.left -= count as u64;
            if self.left > 0 {
                return Ok(count);
            }
            self.check_end()?;
            return Ok(count);
        }
        self.check_end().map(|()| 0)
    }

    /// Called with the last bytes in hand, before they are given out.
    fn check_end(&mut self) -> io::Result<()> {
        loop {
            match self.read_inner(&mut [0]) {
                Ok(0) => break,
                Ok(_) => {
                    return Err(self.damaged("the stored content is longer than its row says"));
                }
                // Tried again here: a caller that does so would lose the withheld bytes.
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        if let Some(hasher) = self.hasher.take() {
            let hashed = hasher
                .finish()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if hashed != self.id {
                return Err(self.damaged("the content does not hash to its id"));
            }
        }
        self.verdict = Verdict::Right;
        Ok(())
    }
}

impl Read for VerifyingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.verdict {
            _ if buffer.is_empty() => Ok(0),
            Verdict::Right => Ok(0),
            Verdict::Wrong => Err(self.damaged("the content was found to be damaged before")),
            Verdict::Unknown => {
                let read = self.read_unverified(buffer);
                if let Err(cause) = &read
                    && cause.kind() != io::ErrorKind::Interrupted
                {
                    self.verdict = Verdict::Wrong;
                    buffer.fill(0);
                }
                read
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds all bytes up, which is all that these tests need of a hash.
    struct Sum(u8);

    impl ContentHasher for Sum {
        fn update(&mut self, bytes: &[u8]) {
            self.0 = bytes
                .iter()
                .fold(self.0, |sum, byte| sum.wrapping_add(*byte));
        }

        fn finish(self: Box<Self>) -> Result<ObjectId> {
            Ok(ObjectId::from_bytes([self.0; 20]))
        }
    }

    fn read(bytes: &'static [u8], size: u64, sum: u8, step: usize) -> (Vec<u8>, bool) {
        let id = ObjectId::from_bytes([sum; 20]);
        let mut reader = VerifyingReader::new(Box::new(bytes), id, size, Some(Box::new(Sum(0))));
        let (mut all, mut buffer) = (Vec::new(), vec![0; step]);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return (all, true),
                Ok(count) => all.extend_from_slice(&buffer[..count]),
                Err(_) => {
                    assert!(reader.read(&mut buffer).is_err(), "an error is no end");
                    return (all, false);
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_never_comes_whole() {
        for step in 1..6 {
            assert_eq!(read(&[1, 2, 3], 3, 6, step), (vec![1, 2, 3], true));
            for (bytes, size, sum) in [
                (&[1u8, 2, 4][..], 3, 6),
                (&[1, 2, 3, 0], 3, 6),
                (&[1, 2, 3], 4, 6),
                (&[], 1, 0),
            ] {
                let (given, whole) = read(bytes, size, sum, step);
                assert!(!whole && (given.len() as u64) < size, "{bytes:?} {given:?}");
            }
        }
        assert_eq!(read(&[], 0, 0, 1), (Vec::new(), true));
        assert!(!read(&[], 0, 1, 1).1);
        assert!(!read(&[1], 0, 0, 1).1);
    }
}
