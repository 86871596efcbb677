//! The trait behind which large content is kept: files on disk, or objects in S3.

use std::io::{Read, Write};

use offshoot_core::{Result, Timestamp};

/// What a listing says of one blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobInfo {
    /// Its key.
    pub key: String,
    /// Its bytes.
    pub size: u64,
    /// When it was last written, for the age guard.
    pub written_at: Timestamp,
}

/// Keeps bytes under keys.
///
/// # Life of a blob
/// `put` writes it whole: a reader finds either nothing or all of it, also after a crash. When
/// `put` returns, the blob survives a power cut. Keys are content addresses or random, so that the
/// same key is never put with different bytes; putting it again is allowed and renews
/// only its age.
/// There is no rename, no append and no conditional put: the commit point is in the
/// [`crate::MetaStore`], and not every S3 server keeps its promises about conditions.
///
/// Keys have one to three parts of `a-z 0-9 . _ -` with `/` between them.
///
/// # Costs
/// On disk `put` costs one file, two fsyncs and a rename; `read` costs an open. In S3 each call is
/// one request (multipart for large puts), so callers cache what they read.
pub trait BlobStore: Send + Sync {
    /// Stores what `fill` writes. If `fill` fails nothing is stored.
    fn put(&self, key: &str, fill: &mut dyn FnMut(&mut dyn Write) -> Result<()>) -> Result<u64>;

    /// Opens a blob for reading from `offset`, at most `length` bytes; none if there is no blob.
    /// A range beyond the end reads as what is there.
    fn read(
        &self,
        key: &str,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Option<Box<dyn Read + Send>>>;

    /// The size of a blob; none if there is none.
    fn size(&self, key: &str) -> Result<Option<u64>>;

    /// Removes a blob. It is no error if there is none.
    fn delete(&self, key: &str) -> Result<()>;

    /// Removes a blob if it was last put before `before`. Returns whether it did.
    ///
    /// A `put` of the same key at the same time is either seen, and the blob stays, or comes after
    /// and puts it again: garbage collection never takes a blob from under a writer. (S3 can only
    /// ask and then delete; there the age guard has to be longer than any request.)
    fn delete_older(&self, key: &str, before: Timestamp) -> Result<bool>;

    /// Calls `visit` with every blob whose key begins with `prefix`, in the order of keys, and
    /// with leftovers of interrupted puts not at all.
    fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()>;

    /// Removes what interrupted puts left behind, if older than `before`. Returns how many.
    fn sweep_leftovers(&self, before: Timestamp) -> Result<u64>;
}
