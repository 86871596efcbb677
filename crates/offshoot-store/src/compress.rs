//! Compression of single objects, with a small pool of working memory.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{Error, ErrorCode, ObjectId, ObjectKind, Result};
use zstd::bulk::{Compressor, Decompressor};

/// The fastest level with entropy coding: a commit waits for it, and text still shrinks to about a
/// third.
pub(crate) const LEVEL: i32 = 1;
/// Trees are names that repeat each other and ids that nothing compresses, so only repetition is
/// looked for: a third of the time for nearly the same size.
const TREE_LEVEL: i32 = -1;
/// Content shorter than this does not get smaller.
const MIN_BYTES: usize = 64;
/// How much of a large content is compressed to find out whether the rest is worth it.
const SAMPLE_BYTES: usize = 64 << 10;
/// Contexts that are kept; each takes some hundred kilobytes.
const POOL_SIZE: usize = 4;

/// Contexts of zstd, which are expensive to make and can be used again.
#[derive(Default)]
pub(crate) struct Compression {
    compressors: Mutex<Vec<Compressor<'static>>>,
    decompressors: Mutex<Vec<Decompressor<'static>>>,
}

impl Compression {
    /// The bytes to store, and whether they are compressed: only where that pays.
    pub(crate) fn compress<'a>(
        &self,
        kind: ObjectKind,
        bytes: &'a [u8],
    ) -> Result<(bool, Cow<'a, [u8]>)> {
        if bytes.len() < MIN_BYTES {
            return Ok((false, Cow::Borrowed(bytes)));
        }
        let mut compressor = match take(&self.compressors) {
            Some(compressor) => compressor,
            None => Compressor::new(LEVEL).map_err(cannot_compress)?,
        };
        let level = match kind {
            ObjectKind::Tree => TREE_LEVEL,
            _ => LEVEL,
        };
        compressor
            .set_compression_level(level)
            .map_err(cannot_compress)?;
        let mut try_one = |part: &[u8]| compressor.compress(part).map_err(cannot_compress);
        let hopeless = bytes.len() > 2 * SAMPLE_BYTES
            && !saves_enough(SAMPLE_BYTES, try_one(&bytes[..SAMPLE_BYTES])?.len());
        let smaller = if hopeless {
            None
        } else {
            Some(try_one(bytes)?)
        };
        put_back(&self.compressors, compressor);
        Ok(match smaller {
            Some(smaller) if saves_enough(bytes.len(), smaller.len()) => {
                (true, Cow::Owned(smaller))
            }
            _ => (false, Cow::Borrowed(bytes)),
        })
    }

    /// Whether the rest of a stream that begins so is worth compressing.
    pub(crate) fn is_worth_it(&self, beginning: &[u8]) -> Result<bool> {
        let beginning = &beginning[..beginning.len().min(SAMPLE_BYTES)];
        Ok(self.compress(ObjectKind::Blob, beginning)?.0)
    }

    /// The content of an object from its stored bytes; checks that it has the right length.
    pub(crate) fn decompress(&self, id: &ObjectId, stored: &[u8], size: u64) -> Result<Vec<u8>> {
        let mut decompressor = match take(&self.decompressors) {
            Some(decompressor) => decompressor,
            None => Decompressor::new().map_err(cannot_compress)?,
        };
        let bytes = decompressor
            .decompress(stored, size as usize)
            .map_err(|error| damaged(id).with_source(error))?;
        put_back(&self.decompressors, decompressor);
        if bytes.len() as u64 != size {
            return Err(damaged(id));
        }
        Ok(bytes)
    }
}

/// Reading compressed content costs time, so it has to save an eighth.
fn saves_enough(before: usize, after: usize) -> bool {
    after < before - before / 8
}

fn take<T>(pool: &Mutex<Vec<T>>) -> Option<T> {
    pool.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn put_back<T>(pool: &Mutex<Vec<T>>, context: T) {
    let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.len() < POOL_SIZE {
        pool.push(context);
    }
}

fn cannot_compress(error: std::io::Error) -> Error {
    Error::internal("content cannot be compressed").with_source(error)
}

/// The error for stored bytes that are not what their row says.
pub(crate) fn damaged(id: &ObjectId) -> Error {
    Error::new(
        ErrorCode::ReadFailed,
        format!("the stored content of object `{id}` is damaged"),
    )
    .with_hint("run `offshoot check` to see what else is affected")
}
