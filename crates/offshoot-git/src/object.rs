//! Objects: their kinds, their ids, and where they come from and go to.

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::sync::{Arc, PoisonError, RwLock};

use offshoot_core::{EMPTY_BLOB, EMPTY_TREE, Error, ObjectId, RelPath, Result};

pub use offshoot_core::ObjectKind as Kind;

use crate::tree::{Tree, TreeEntry, find_in, tree_bytes, walk_to};

/// SHA-1 with collision detection, fed with the header that git puts before every object.
fn hasher(kind: Kind, size: u64) -> gix_hash::Hasher {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(format!("{} {size}\0", kind.as_str()).as_bytes());
    hasher
}

pub(crate) fn finish(hasher: gix_hash::Hasher) -> Result<ObjectId> {
    let id = hasher.try_finalize().map_err(|error| {
        Error::invalid("the content carries a SHA-1 collision attack and is refused, as git does")
            .with_hint("no honest file looks like this: find out where it comes from")
            .with_source(error.to_string())
    })?;
    ObjectId::from_slice(id.as_slice())
}

/// The id of an object. Content made for a SHA-1 collision is an error, as in git.
pub fn hash(kind: Kind, bytes: &[u8]) -> Result<ObjectId> {
    let mut hasher = hasher(kind, bytes.len() as u64);
    hasher.update(bytes);
    finish(hasher)
}

/// Computes the id of an object that is not in memory as a whole.
///
/// git hashes the size before the content, so the size must be known at the beginning.
pub struct ObjectHasher {
    hasher: gix_hash::Hasher,
    left: u64,
    overrun: bool,
}

impl ObjectHasher {
    /// Begins an object of exactly `size` bytes.
    pub fn new(kind: Kind, size: u64) -> Self {
        ObjectHasher {
            hasher: hasher(kind, size),
            left: size,
            overrun: false,
        }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => {
                self.left = left;
                self.hasher.update(bytes);
            }
            None => self.overrun = true,
        }
    }

    /// The id. An error when fewer or more bytes came than were announced: the file changed
    /// while it was read, and the id would name nothing.
    pub fn finish(self) -> Result<ObjectId> {
        if self.left != 0 || self.overrun {
            return Err(Error::new(
                offshoot_core::ErrorCode::WorkspaceBusy,
                "the file changed its size while it was read",
            )
            .with_hint("try again when nothing writes to it"));
        }
        finish(self.hasher)
    }
}

/// How this crate gets objects.
pub trait ObjectReader {
    /// The object, or none when there is no such object.
    fn read(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>>;

    /// A tree that must exist. A reader may cache trees.
    fn tree(&self, id: &ObjectId) -> Result<Tree> {
        tree_bytes(self, id).and_then(Tree::parse)
    }

    /// One entry of a tree that must be there. Costs what stands before it; nothing is parsed for
    /// later.
    fn find(&self, tree: &ObjectId, name: &[u8]) -> Result<Option<TreeEntry>> {
        find_in(&tree_bytes(self, tree)?, name)
    }

    /// The tree of a directory below a root; none if there is no such directory. A reader may cache
    /// the directories of a root.
    fn subtree(&self, root: ObjectId, dir: &RelPath) -> Result<Option<ObjectId>> {
        walk_to(self, root, dir)
    }

    /// What [`ObjectReader::read`] gives as a stream, for objects that may be too large for memory.
    fn open(&self, id: &ObjectId) -> Result<Option<ObjectStream>> {
        Ok(self.read(id)?.map(|(kind, bytes)| ObjectStream {
            kind,
            size: bytes.len() as u64,
            content: Box::new(Cursor::new(bytes)),
        }))
    }
}

/// An object that is read piece by piece.
pub struct ObjectStream {
    /// What it is.
    pub kind: Kind,
    /// How many bytes `content` gives.
    pub size: u64,
    /// Its content.
    pub content: Box<dyn Read + Send>,
}

impl<R: ObjectReader + ?Sized> ObjectReader for &R {
    fn read(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> {
        (**self).read(id)
    }

    fn tree(&self, id: &ObjectId) -> Result<Tree> {
        (**self).tree(id)
    }

    fn find(&self, tree: &ObjectId, name: &[u8]) -> Result<Option<TreeEntry>> {
        (**self).find(tree, name)
    }

    fn subtree(&self, root: ObjectId, dir: &RelPath) -> Result<Option<ObjectId>> {
        (**self).subtree(root, dir)
    }

    fn open(&self, id: &ObjectId) -> Result<Option<ObjectStream>> {
        (**self).open(id)
    }
}

/// Where this crate puts the objects that it makes.
pub trait ObjectSink {
    /// Keeps an object. `id` is the id of exactly these bytes. The same object may come twice.
    fn write(&mut self, kind: Kind, id: ObjectId, bytes: Vec<u8>) -> Result<()>;
}

impl<S: ObjectSink + ?Sized> ObjectSink for &mut S {
    fn write(&mut self, kind: Kind, id: ObjectId, bytes: Vec<u8>) -> Result<()> {
        (**self).write(kind, id, bytes)
    }
}

/// Reads an object that must be there. The empty tree and the empty blob always are, as in git.
pub fn read_object<R: ObjectReader + ?Sized>(
    reader: &R,
    id: &ObjectId,
) -> Result<(Kind, Arc<[u8]>)> {
    match reader.read(id)? {
        Some(found) => Ok(found),
        None if *id == EMPTY_TREE => Ok((Kind::Tree, Arc::default())),
        None if *id == EMPTY_BLOB => Ok((Kind::Blob, Arc::default())),
        None => Err(Error::internal(format!("the object `{id}` is missing"))),
    }
}

/// Opens an object that must be there.
pub(crate) fn open_object(reader: &dyn ObjectReader, id: &ObjectId) -> Result<ObjectStream> {
    match reader.open(id)? {
        Some(stream) => Ok(stream),
        None => read_object(reader, id).map(|(kind, bytes)| ObjectStream {
            kind,
            size: bytes.len() as u64,
            content: Box::new(Cursor::new(bytes)),
        }),
    }
}

/// Hashes an object, puts it into the sink and returns its id.
pub fn write_object(sink: &mut dyn ObjectSink, kind: Kind, bytes: Vec<u8>) -> Result<ObjectId> {
    let id = hash(kind, &bytes)?;
    sink.write(kind, id, bytes)?;
    Ok(id)
}

/// Objects in memory: for tests, and as a sink whose content is stored later in one go.
#[derive(Debug, Default)]
pub struct MemoryObjects(RwLock<HashMap<ObjectId, (Kind, Arc<[u8]>)>>);

impl MemoryObjects {
    /// No objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object and returns its id.
    pub fn add(&self, kind: Kind, bytes: &[u8]) -> Result<ObjectId> {
        let id = hash(kind, bytes)?;
        self.insert(kind, id, bytes.into());
        Ok(id)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn insert(&self, kind: Kind, id: ObjectId, bytes: Arc<[u8]>) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, (kind, bytes));
    }
}

impl ObjectReader for MemoryObjects {
    fn read(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> {
        Ok(self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned())
    }
}

impl ObjectSink for MemoryObjects {
    fn write(&mut self, kind: Kind, id: ObjectId, bytes: Vec<u8>) -> Result<()> {
        self.insert(kind, id, bytes.into());
        Ok(())
    }
}

/// A shared reference is a sink too, so that one set of objects can be read and extended at once.
impl ObjectSink for &MemoryObjects {
    fn write(&mut self, kind: Kind, id: ObjectId, bytes: Vec<u8>) -> Result<()> {
        self.insert(kind, id, bytes.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ids() {
        assert_eq!(hash(Kind::Blob, b"").unwrap(), EMPTY_BLOB);
        assert_eq!(hash(Kind::Tree, b"").unwrap(), EMPTY_TREE);
        assert_eq!(
            hash(Kind::Blob, b"hello\n").unwrap().to_hex(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
    }

    #[test]
    fn a_blob_in_pieces_has_the_same_id_and_a_wrong_size_is_refused() {
        let bytes: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        for piece in [1, 7, 63, 64, 65, 4096, 200_000] {
            let mut hasher = ObjectHasher::new(Kind::Blob, bytes.len() as u64);
            bytes.chunks(piece).for_each(|chunk| hasher.update(chunk));
            assert_eq!(hasher.finish().unwrap(), hash(Kind::Blob, &bytes).unwrap());
        }
        for size in [99_999, 100_001] {
            let mut hasher = ObjectHasher::new(Kind::Blob, size);
            bytes.chunks(1000).for_each(|chunk| hasher.update(chunk));
            assert!(hasher.finish().is_err());
        }
    }
}
