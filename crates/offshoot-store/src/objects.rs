//! Objects, stored in rows, blobs or packs: the typed interface over both stores.

use std::collections::HashMap;
use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use offshoot_core::{Error, ErrorCode, ObjectId, ObjectKind, Result, Timestamp};

use crate::bulk::BulkWriter;
use crate::cache::ObjectCache;
use crate::compress::{Compression, LEVEL, damaged};
use crate::rows::PresenceCheck;
use crate::verify::{ContentHasher, NewHasher, VerifyingReader, verify_bytes};
use crate::{BlobStore, Durability, MetaStore, NewObject, ObjectPlace, ObjectRow, ReadTx, WriteTx};

/// Stored bytes up to this length are kept in the row: writing them with the commit that is
/// needed anyway takes less than half as long as a file with syncs of its own. Larger rows would
/// still be faster, but they are written twice (log and database) and bloat the database.
pub(crate) const MAX_INLINE_BYTES: usize = 64 << 10;
/// Streams up to this length are read into memory and handled like any small object.
const MAX_BUFFERED_STREAM: u64 = 256 << 10;
/// The bytes of the object cache.
const CACHE_BYTES: usize = 16 << 20;
/// How often an object is looked up again when its pack was rewritten in between.
const MAX_LOOKUPS: usize = 4;

/// Rows and blobs together. Cheap to clone; all clones share one cache.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    meta: Arc<dyn MetaStore>,
    blobs: Arc<dyn BlobStore>,
    cache: ObjectCache,
    compression: Compression,
    hasher: Option<NewHasher>,
    /// Keys of packs by number; numbers are never used again.
    packs: Mutex<HashMap<i64, Arc<str>>>,
}

impl Store {
    /// A store over these two that verifies everything it reads by its id.
    pub fn new(meta: Arc<dyn MetaStore>, blobs: Arc<dyn BlobStore>, hasher: NewHasher) -> Self {
        Store::build(meta, blobs, Some(hasher))
    }

    /// A store for tests whose ids need not fit the contents: nothing is verified but the length.
    #[doc(hidden)]
    pub fn without_hashing(meta: Arc<dyn MetaStore>, blobs: Arc<dyn BlobStore>) -> Self {
        Store::build(meta, blobs, None)
    }

    fn build(
        meta: Arc<dyn MetaStore>,
        blobs: Arc<dyn BlobStore>,
        hasher: Option<NewHasher>,
    ) -> Self {
        Store(Arc::new(Inner {
            meta,
            blobs,
            cache: ObjectCache::new(CACHE_BYTES),
            compression: Compression::default(),
            hasher,
            packs: Mutex::default(),
        }))
    }

    /// The rows.
    pub fn meta(&self) -> &dyn MetaStore {
        &*self.0.meta
    }

    /// The blobs.
    pub fn blobs(&self) -> &dyn BlobStore {
        &*self.0.blobs
    }

    pub(crate) fn compression(&self) -> &Compression {
        &self.0.compression
    }

    /// Runs `work` on a consistent view and returns what it returns.
    pub fn read<T>(&self, mut work: impl FnMut(&dyn ReadTx) -> Result<T>) -> Result<T> {
        let mut value = None;
        self.0.meta.read(&mut |tx| {
            value = Some(work(tx)?);
            Ok(())
        })?;
        value.ok_or_else(|| Error::internal("the store did not run the transaction"))
    }

    /// Runs `work` in a transaction, commits it and returns what it returned.
    pub fn write<T>(
        &self,
        durability: Durability,
        mut work: impl FnMut(&mut dyn WriteTx) -> Result<T>,
    ) -> Result<T> {
        let mut value = None;
        self.0.meta.write(durability, &mut |tx| {
            value = Some(work(tx)?);
            Ok(())
        })?;
        value.ok_or_else(|| Error::internal("the store did not run the transaction"))
    }

    /// An object with its content; none if the store does not have it.
    ///
    /// Small objects come from a cache, which may hold one that was collected a moment ago: ask
    /// [`ReadTx::has_objects`] when it matters whether it is still there.
    pub fn object(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        if let Some(found) = self.0.cache.get(id) {
            return Ok(Some(found));
        }
        self.load(id, self.read(|tx| tx.object(id))?, None)
    }

    /// An object with its content, inside a transaction, whose own new objects are found as well.
    pub fn object_in(
        &self,
        tx: &dyn ReadTx,
        id: &ObjectId,
    ) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        if let Some(found) = self.0.cache.get(id) {
            return Ok(Some(found));
        }
        self.load(id, tx.object(id)?, Some(tx))
    }

    /// The content of an object that has at most so many bytes, inside a transaction; none if it
    /// has more, or the store does not have it.
    pub fn small_object_in(
        &self,
        tx: &dyn ReadTx,
        id: &ObjectId,
        most: u64,
    ) -> Result<Option<Arc<[u8]>>> {
        if let Some((_, found)) = self.0.cache.get(id) {
            return Ok((found.len() as u64 <= most).then_some(found));
        }
        let row = tx.object(id)?.filter(|row| row.size <= most);
        Ok(self.load(id, row, Some(tx))?.map(|(_, bytes)| bytes))
    }

    /// The kind, the size and the content of an object as a stream, in bounded memory whatever its
    /// size. Reading fails before the last bytes if the content does not fit its id: a caller that
    /// reads to the end has the right content, a caller that stops before cannot know. An error of
    /// the stream holds the [`Error`] to return.
    pub fn open_object(
        &self,
        id: &ObjectId,
    ) -> Result<Option<(ObjectKind, u64, Box<dyn Read + Send>)>> {
        let row = self.read(|tx| tx.object(id))?;
        let Some((row, reader)) = self.locate(id, row, None)? else {
            return Ok(None);
        };
        let stored: Box<dyn Read + Send> = match (row.place, reader) {
            (ObjectPlace::Row(bytes), _) => Box::new(Cursor::new(bytes)),
            (_, Some(reader)) => reader,
            (_, None) => return Err(damaged(id)),
        };
        let content: Box<dyn Read + Send> = if row.compressed {
            let decoder = zstd::Decoder::new(stored);
            Box::new(decoder.map_err(|error| damaged(id).with_source(error))?)
        } else {
            stored
        };
        let hasher = self.0.hasher.map(|hasher| hasher(row.kind, row.size));
        let checked = VerifyingReader::new(content, *id, row.size, hasher);
        Ok(Some((row.kind, row.size, Box::new(checked))))
    }

    /// Reads an object through and copies its content into `sink`. Fails with `read_failed` if the
    /// content is missing or damaged.
    pub fn verify(&self, id: &ObjectId, sink: &mut dyn Write) -> Result<Option<ObjectKind>> {
        let Some((kind, size, mut reader)) = self.open_object(id)? else {
            return Ok(None);
        };
        let copied =
            io::copy(&mut reader, sink).map_err(|error| match error.downcast::<Error>() {
                Ok(error) => error,
                Err(error) => damaged(id).with_source(error),
            })?;
        if copied == size {
            Ok(Some(kind))
        } else {
            Err(damaged(id))
        }
    }

    /// Makes the bytes of an object ready to be named by a transaction: compressed, and durable
    /// as a blob unless they are small enough for the row.
    pub fn prepare(&self, kind: ObjectKind, id: ObjectId, bytes: &[u8]) -> Result<NewObject> {
        let (compressed, stored) = self.0.compression.compress(kind, bytes)?;
        let size = bytes.len() as u64;
        if stored.len() <= MAX_INLINE_BYTES {
            let place = ObjectPlace::Row(stored.into_owned());
            return Ok(new_object(kind, id, size, compressed, place));
        }
        self.0.blobs.put(&object_key(&id), &mut |out| {
            out.write_all(&stored).map_err(cannot_store)
        })?;
        Ok(self.new_blob(kind, id, size, compressed))
    }

    /// Makes content that is too large for memory ready to be named by a transaction. `reader` must
    /// give `size` bytes that hash to `id`. A file may change between its hash and this call, and a
    /// blob of that id may exist, so the bytes are hashed again before they replace it:
    /// `workspace_busy` if the hash differs.
    pub fn prepare_stream(
        &self,
        kind: ObjectKind,
        id: ObjectId,
        size: u64,
        reader: &mut dyn Read,
    ) -> Result<NewObject> {
        let mut beginning = Vec::new();
        reader
            .take(MAX_BUFFERED_STREAM.min(size))
            .read_to_end(&mut beginning)
            .map_err(cannot_take)?;
        if size <= MAX_BUFFERED_STREAM {
            // There must not be one byte more.
            let more = reader
                .take(1)
                .read_to_end(&mut beginning)
                .map_err(cannot_take)?;
            check_length(beginning.len() as u64, size, more > 0)?;
            let mut passed =
                HashingReader::new(&beginning[..], self.0.hasher.map(|new| new(kind, size)));
            io::copy(&mut passed, &mut io::sink()).map_err(cannot_take)?;
            passed.check(&id)?;
            return self.prepare(kind, id, &beginning);
        }
        let compressed = self.0.compression.is_worth_it(&beginning)?;
        self.0.blobs.put(&object_key(&id), &mut |out| {
            let content = Cursor::new(&beginning).chain(&mut *reader).take(size + 1);
            let mut content = HashingReader::new(content, self.0.hasher.map(|new| new(kind, size)));
            let copied = if compressed {
                let mut encoder = zstd::Encoder::new(out, LEVEL).map_err(cannot_store)?;
                let copied = io::copy(&mut content, &mut encoder).map_err(cannot_store)?;
                encoder.finish().map_err(cannot_store)?;
                copied
            } else {
                io::copy(&mut content, out).map_err(cannot_store)?
            };
            check_length(copied, size, copied > size)?;
            content.check(&id)
        })?;
        Ok(self.new_blob(kind, id, size, compressed))
    }

    fn new_blob(&self, kind: ObjectKind, id: ObjectId, size: u64, compressed: bool) -> NewObject {
        let NewObject(row, _) = new_object(kind, id, size, compressed, ObjectPlace::Blob);
        NewObject(row, PresenceCheck::Blob(Arc::clone(&self.0.blobs)))
    }

    /// Begins a bulk write: many objects in few packs.
    pub fn bulk(&self) -> BulkWriter {
        BulkWriter::new(self.clone())
    }

    /// Drops an object from the cache, because it was removed or erased.
    pub(crate) fn evict(&self, id: &ObjectId) {
        self.0.cache.remove(id);
    }

    fn load(
        &self,
        id: &ObjectId,
        row: Option<ObjectRow>,
        tx: Option<&dyn ReadTx>,
    ) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        let Some((row, stored)) = self.stored_bytes(id, row, tx)? else {
            return Ok(None);
        };
        let bytes = if row.compressed {
            self.0.compression.decompress(id, &stored, row.size)?
        } else if stored.len() as u64 == row.size {
            stored
        } else {
            return Err(damaged(id));
        };
        verify_bytes(self.0.hasher, row.kind, id, &bytes)?;
        let bytes: Arc<[u8]> = bytes.into();
        self.0.cache.put(*id, row.kind, &bytes);
        Ok(Some((row.kind, bytes)))
    }

    fn stored_bytes(
        &self,
        id: &ObjectId,
        row: Option<ObjectRow>,
        tx: Option<&dyn ReadTx>,
    ) -> Result<Option<(ObjectRow, Vec<u8>)>> {
        let Some((mut row, reader)) = self.locate(id, row, tx)? else {
            return Ok(None);
        };
        let stored = match (&mut row.place, reader) {
            (ObjectPlace::Row(bytes), _) => std::mem::take(bytes),
            (_, Some(mut reader)) => {
                let mut stored = Vec::new();
                reader
                    .read_to_end(&mut stored)
                    .map_err(|error| damaged(id).with_source(error))?;
                stored
            }
            (_, None) => return Err(damaged(id)),
        };
        Ok(Some((row, stored)))
    }

    /// Opens the stored bytes of an object that are not in its row.
    ///
    /// Between reading the row and opening the blob the pack may have been rewritten. What an id
    /// names never changes, so a newer row is as good as the one of the caller's view.
    fn locate(
        &self,
        id: &ObjectId,
        mut row: Option<ObjectRow>,
        mut tx: Option<&dyn ReadTx>,
    ) -> Result<Option<(ObjectRow, Option<Box<dyn Read + Send>>)>> {
        for _ in 0..MAX_LOOKUPS {
            let Some(found) = row else { return Ok(None) };
            let reader = match found.place {
                ObjectPlace::Row(_) => return Ok(Some((found, None))),
                ObjectPlace::Blob => self.0.blobs.read(&object_key(id), 0, None)?,
                ObjectPlace::Pack {
                    pack,
                    offset,
                    length,
                } => match self.pack_key(pack, tx)? {
                    Some(key) => self.0.blobs.read(&key, offset, Some(length))?,
                    None => None,
                },
            };
            if reader.is_some() {
                return Ok(Some((found, reader)));
            }
            tx = None;
            row = self.read(|tx| tx.object(id))?;
        }
        Err(damaged(id))
    }

    /// The key of the blob of a pack. What only a transaction sees is not remembered: if it is
    /// rolled back, the number may be given to another pack.
    fn pack_key(&self, pack: i64, tx: Option<&dyn ReadTx>) -> Result<Option<Arc<str>>> {
        let remembered = || self.0.packs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = remembered().get(&pack) {
            return Ok(Some(key.clone()));
        }
        if let Some(tx) = tx {
            return Ok(tx.pack(pack)?.map(|row| row.blob.into()));
        }
        let Some(row) = self.read(|tx| tx.pack(pack))? else {
            return Ok(None);
        };
        let key: Arc<str> = row.blob.into();
        remembered().insert(pack, key.clone());
        Ok(Some(key))
    }
}

/// The key of the blob of an object that has one of its own.
pub(crate) fn object_key(id: &ObjectId) -> String {
    format!("object/{id}")
}

/// The key of a new pack. They sort by age.
pub(crate) fn new_pack_key() -> String {
    format!("pack/{}", uuid::Uuid::now_v7().simple())
}

pub(crate) fn new_object(
    kind: ObjectKind,
    id: ObjectId,
    size: u64,
    compressed: bool,
    place: ObjectPlace,
) -> NewObject {
    let row = ObjectRow {
        id,
        kind,
        size,
        compressed,
        place,
        stored_at: Timestamp::now(),
    };
    NewObject(row, PresenceCheck::NotNeeded)
}

/// The error of a transaction that names an object which was erased or collected meanwhile.
pub(crate) fn removed_meanwhile() -> Error {
    Error::new(
        ErrorCode::StoreUnavailable,
        "an object was removed while it was about to be used again",
    )
    .with_hint("nothing was changed; try again")
}

/// The error of a failed write. The error of a stream that was being stored is passed on.
pub(crate) fn cannot_store(error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|error| {
        Error::new(
            ErrorCode::WriteFailed,
            "the content of an object cannot be stored",
        )
        .with_source(error)
    })
}

fn cannot_take(error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|error| {
        Error::new(
            ErrorCode::ReadFailed,
            "the content to be stored cannot be read",
        )
        .with_source(error)
    })
}

fn check_length(given: u64, promised: u64, more: bool) -> Result<()> {
    if given == promised && !more {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::WorkspaceBusy,
        format!("the content has {given} bytes or more instead of {promised}"),
    )
    .with_hint("it was changed while it was read; try again"))
}

/// Hashes content while it is read into the store.
struct HashingReader<R> {
    inner: R,
    hasher: Option<Box<dyn ContentHasher>>,
}

impl<R: Read> HashingReader<R> {
    fn new(inner: R, hasher: Option<Box<dyn ContentHasher>>) -> Self {
        HashingReader { inner, hasher }
    }

    /// Fails unless the content read so far has this id.
    fn check(&mut self, id: &ObjectId) -> Result<()> {
        let hashed = self.hasher.take().map(ContentHasher::finish).transpose()?;
        if hashed.is_none_or(|hashed| hashed == *id) {
            return Ok(());
        }
        let message = "the content changed while it was read";
        Err(Error::new(ErrorCode::WorkspaceBusy, message)
            .with_hint("nothing was stored; try again"))
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..count]);
        }
        Ok(count)
    }
}
