//! Content that is compared with its id while it is read.
//!
//! Disks lie: a flipped bit comes back without an error. So a reader never gets all of a content that
//! is not what its id says: the last bytes are withheld until the hash is right, and what ends without
//! an error was right.

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

/// Begins the hash of an object of this kind and size. How ids are made is not the store's to know.
pub type NewHasher = fn(ObjectKind, u64) -> Box<dyn ContentHasher>;

/// Checks a content that is in memory.
pub(crate) fn check_whole(
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

/// A stream of an object that ends well only if it is what its row and its id say.
pub(crate) struct Checked {
    inner: Box<dyn Read + Send>,
    id: ObjectId,
    left: u64,
    /// None where nothing is hashed.
    hasher: Option<Box<dyn ContentHasher>>,
    found: Found,
}

/// What is known about the content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Nothing before its end.
    Nothing,
    Right,
    /// Whoever reads on after the error shall not take what comes for the end.
    Wrong,
}

impl Checked {
    pub(crate) fn new(
        inner: Box<dyn Read + Send>,
        id: ObjectId,
        size: u64,
        hasher: Option<Box<dyn ContentHasher>>,
    ) -> Self {
        Checked {
            inner,
            id,
            left: size,
            hasher,
            found: Found::Nothing,
        }
    }

    fn damaged(&self, why: &'static str) -> io::Error {
        io::Error::new(
            io::ErrorKind::InvalidData,
            damaged(&self.id).with_source(why),
        )
    }

    /// What cannot be decompressed is damaged as well.
    fn read_inner(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|cause| match cause.kind() {
            io::ErrorKind::Interrupted => cause,
            kind => io::Error::new(kind, damaged(&self.id).with_source(cause)),
        })
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
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
                // The bytes in hand must not be lost to whoever tries again.
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
        self.found = Found::Right;
        Ok(())
    }
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.found {
            _ if buffer.is_empty() => Ok(0),
            Found::Right => Ok(0),
            Found::Wrong => Err(self.damaged("the content was found to be damaged before")),
            Found::Nothing => {
                let read = self.read_some(buffer);
                if let Err(cause) = &read
                    && cause.kind() != io::ErrorKind::Interrupted
                {
                    self.found = Found::Wrong;
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
        let mut reader = Checked::new(Box::new(bytes), id, size, Some(Box::new(Sum(0))));
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
