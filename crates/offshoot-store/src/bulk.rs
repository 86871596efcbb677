//! Bulk writes: many objects, compressed by several threads and written in sequence into packs.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use offshoot_core::{Error, ErrorCode, ObjectId, ObjectKind, Result};

use crate::objects::{
    MAX_INLINE_BYTES, Store, cannot_store, new_object, new_pack_key, removed_meanwhile,
};
use crate::{NewObject, ObjectPlace, WriteTx};

/// A pack is closed before it grows beyond this.
const MAX_PACK_BYTES: u64 = 256 << 20;
/// Content is handed to the compressing threads in chunks of about this size.
const CHUNK_BYTES: usize = 1 << 20;
/// A bulk that is no larger than this goes into rows: a pack would cost two syncs.
const MAX_INLINE_BULK_BYTES: usize = 128 << 10;
/// More threads than this do not help: one disk writes what they compress.
const MAX_THREADS: usize = 4;

/// Takes objects and writes them into packs. Threads run only once there is enough to do.
///
/// Any number of threads may call [`BulkWriter::add`]. Memory is bounded: `add` waits while the
/// disk is behind. Dropping it without [`BulkWriter::finish`] stores nothing.
pub struct BulkWriter {
    store: Store,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    chunk: Chunk,
    seen: HashSet<ObjectId>,
    prepared: Vec<NewObject>,
    workers: Option<Workers>,
}

/// Content on its way to be compressed.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    objects: Vec<(ObjectId, ObjectKind, usize)>,
}

/// Compressed content on its way to the disk.
#[derive(Default)]
struct PackedChunk {
    bytes: Vec<u8>,
    objects: Vec<PackedObject>,
    /// Objects that the store has already.
    known: Vec<ObjectId>,
}

struct PackedObject {
    id: ObjectId,
    kind: ObjectKind,
    size: u64,
    compressed: bool,
    /// In its chunk at first, then in its pack.
    offset: u64,
    length: u64,
}

/// A pack that is on disk and that no row names yet.
struct Pack {
    blob: String,
    size: u64,
    objects: Vec<PackedObject>,
}

/// What a bulk wrote, durable and ready to be named by a transaction.
pub struct Bulk {
    packs: Vec<Pack>,
    rows: Vec<NewObject>,
    known: Vec<ObjectId>,
    /// Where each packed object is, in the order of ids, which is how an index likes it.
    order: Vec<(u32, u32)>,
}

struct Workers {
    chunks: SyncSender<Chunk>,
    compressors: Vec<JoinHandle<Result<()>>>,
    writer: JoinHandle<Result<PackResult>>,
    aborted: Arc<AtomicBool>,
}

#[derive(Default)]
struct PackResult {
    packs: Vec<Pack>,
    known: Vec<ObjectId>,
}

impl BulkWriter {
    pub(crate) fn new(store: Store) -> Self {
        BulkWriter {
            store,
            pending: Mutex::default(),
        }
    }

    /// Adds an object. One that was added before is not written again. Returns whether it is new
    /// to this bulk.
    pub fn add(&self, kind: ObjectKind, id: ObjectId, bytes: &[u8]) -> Result<bool> {
        let mut pending = self.pending();
        if !pending.seen.insert(id) {
            return Ok(false);
        }
        pending.chunk.bytes.extend_from_slice(bytes);
        pending.chunk.objects.push((id, kind, bytes.len()));
        if pending.chunk.bytes.len() >= CHUNK_BYTES {
            let chunk = std::mem::take(&mut pending.chunk);
            let store = &self.store;
            let workers = pending.workers.get_or_insert_with(|| Workers::start(store));
            if workers.chunks.send(chunk).is_err() {
                // The workers have stopped, so one of them failed.
                return Err(pending
                    .workers
                    .take()
                    .map_or_else(stopped, Workers::failure));
            }
        }
        Ok(true)
    }

    /// Adds an object that was prepared on its own, such as a large stream.
    pub fn add_prepared(&self, object: NewObject) {
        let mut pending = self.pending();
        if pending.seen.insert(object.0.id) {
            pending.prepared.push(object);
        }
    }

    /// Waits until everything is durable.
    pub fn finish(self) -> Result<Bulk> {
        let mut pending = std::mem::take(&mut *self.pending());
        let chunk = std::mem::take(&mut pending.chunk);
        let mut rows = std::mem::take(&mut pending.prepared);
        let written = match pending.workers.take() {
            Some(workers) => workers.finish(chunk)?,
            None => finish_small(&self.store, &chunk, &mut rows)?,
        };
        Ok(Bulk::new(written, rows))
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BulkWriter {
    fn drop(&mut self) {
        if let Some(workers) = self.pending().workers.take() {
            workers.abort();
        }
    }
}

impl Bulk {
    fn new(written: PackResult, mut rows: Vec<NewObject>) -> Self {
        rows.sort_unstable_by_key(|object| object.0.id);
        let mut order: Vec<(u32, u32)> = Vec::new();
        for (pack, content) in written.packs.iter().enumerate() {
            order.extend((0..content.objects.len()).map(|index| (pack as u32, index as u32)));
        }
        order.sort_unstable_by_key(|(pack, index)| {
            written.packs[*pack as usize].objects[*index as usize].id
        });
        Bulk {
            packs: written.packs,
            rows,
            known: written.known,
            order,
        }
    }

    /// Names everything. Fails with `store_unavailable` if objects that were there when the bulk
    /// was written have been collected since; doing the bulk again is safe then.
    pub fn insert(&self, tx: &mut dyn WriteTx) -> Result<()> {
        for id in &self.known {
            if !tx.renew_object(id)? {
                return Err(removed_meanwhile());
            }
        }
        for object in &self.rows {
            tx.put_object(object)?;
        }
        let mut keys = Vec::with_capacity(self.packs.len());
        for pack in &self.packs {
            keys.push(tx.add_pack(&pack.blob, pack.size)?);
        }
        for (pack, index) in &self.order {
            let object = &self.packs[*pack as usize].objects[*index as usize];
            let place = ObjectPlace::Pack {
                pack: keys[*pack as usize],
                offset: object.offset,
                length: object.length,
            };
            let (id, size) = (object.id, object.size);
            tx.put_object(&new_object(object.kind, id, size, object.compressed, place))?;
        }
        Ok(())
    }

    /// Names everything once more after [`insert`](Self::insert) in an earlier transaction, so that
    /// nothing of it is collected as unused. Fails as `insert` does.
    pub fn renew(&self, tx: &mut dyn WriteTx) -> Result<()> {
        let rows = self.rows.iter().map(|object| object.0.id);
        let packed = self.order.iter();
        let packed = packed.map(|(pack, at)| self.packs[*pack as usize].objects[*at as usize].id);
        for id in self.known.iter().copied().chain(rows).chain(packed) {
            if !tx.renew_object(&id)? {
                return Err(removed_meanwhile());
            }
        }
        Ok(())
    }

    /// How many objects it stored; those that the store had are not counted.
    pub fn stored_objects(&self) -> usize {
        self.order.len() + self.rows.len()
    }

    /// How many objects the store had already.
    pub fn known_objects(&self) -> usize {
        self.known.len()
    }

    /// The bytes of its packs.
    pub fn pack_bytes(&self) -> u64 {
        self.packs.iter().map(|pack| pack.size).sum()
    }
}

/// A bulk that never filled a chunk: into rows if small, else into one pack.
fn finish_small(store: &Store, chunk: &Chunk, rows: &mut Vec<NewObject>) -> Result<PackResult> {
    let packed = compress_chunk(store, chunk)?;
    let fits = packed.bytes.len() <= MAX_INLINE_BULK_BYTES
        && packed
            .objects
            .iter()
            .all(|object| object.length <= MAX_INLINE_BYTES as u64);
    if !fits {
        let (sender, receiver) = sync_channel(1);
        let sent = sender.send(packed);
        drop(sender);
        return sent
            .map_err(|_| stopped())
            .and_then(|()| write_packs(store, &receiver, &AtomicBool::new(false)));
    }
    for object in &packed.objects {
        let start = object.offset as usize;
        let bytes = packed.bytes[start..start + object.length as usize].to_vec();
        let (place, compressed) = (ObjectPlace::Row(bytes), object.compressed);
        rows.push(new_object(
            object.kind,
            object.id,
            object.size,
            compressed,
            place,
        ));
    }
    Ok(PackResult {
        packs: Vec::new(),
        known: packed.known,
    })
}

impl Workers {
    fn start(store: &Store) -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = threads.min(MAX_THREADS);
        let aborted = Arc::new(AtomicBool::new(false));
        let (chunks, to_compress) = sync_channel::<Chunk>(threads);
        let to_compress = Arc::new(Mutex::new(to_compress));
        let (packed, to_write) = sync_channel::<PackedChunk>(threads);
        let compressors = (0..threads)
            .map(|_| {
                let (store, chunks) = (store.clone(), to_compress.clone());
                let packed = packed.clone();
                thread::spawn(move || compress_chunks(&store, &chunks, &packed))
            })
            .collect();
        let (store, flag) = (store.clone(), aborted.clone());
        let writer = thread::spawn(move || write_packs(&store, &to_write, &flag));
        Workers {
            chunks,
            compressors,
            writer,
            aborted,
        }
    }

    fn finish(self, last: Chunk) -> Result<PackResult> {
        // If this fails, so does one of the joins below.
        let _ = self.chunks.send(last);
        self.join()
    }

    /// The error of the thread that stopped.
    fn failure(self) -> Error {
        self.aborted.store(true, Ordering::SeqCst);
        self.join().err().unwrap_or_else(stopped)
    }

    fn abort(self) {
        self.aborted.store(true, Ordering::SeqCst);
        let _ = self.join();
    }

    fn join(self) -> Result<PackResult> {
        drop(self.chunks);
        let mut result = Ok(());
        for compressor in self.compressors {
            let ended = compressor.join().unwrap_or_else(|_| Err(stopped()));
            if ended.is_err() {
                // A pack must not be finished without the chunks of a failed thread.
                self.aborted.store(true, Ordering::SeqCst);
                result = result.and(ended);
            }
        }
        // The compressors hold the other ends, so the writer has seen all of it by now.
        let written = self.writer.join().unwrap_or_else(|_| Err(stopped()));
        match (written, result) {
            (Ok(written), Ok(())) => Ok(written),
            (_, Err(error)) | (Err(error), Ok(())) => Err(error),
        }
    }
}

fn compress_chunks(
    store: &Store,
    chunks: &Mutex<Receiver<Chunk>>,
    packed: &SyncSender<PackedChunk>,
) -> Result<()> {
    loop {
        let next = chunks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(chunk) = next else { return Ok(()) };
        if packed.send(compress_chunk(store, &chunk)?).is_err() {
            // The writer failed and says why.
            return Ok(());
        }
    }
}

fn compress_chunk(store: &Store, chunk: &Chunk) -> Result<PackedChunk> {
    let ids: Vec<ObjectId> = chunk.objects.iter().map(|(id, ..)| *id).collect();
    let known = store.read(|tx| tx.has_objects(&ids))?;
    let mut packed = PackedChunk::default();
    packed.bytes.reserve(chunk.bytes.len() / 2);
    let mut start = 0;
    for ((id, kind, length), known) in chunk.objects.iter().zip(known) {
        let bytes = &chunk.bytes[start..start + length];
        start += length;
        if known {
            packed.known.push(*id);
            continue;
        }
        let (compressed, stored) = store.compression().compress(*kind, bytes)?;
        packed.objects.push(PackedObject {
            id: *id,
            kind: *kind,
            size: bytes.len() as u64,
            compressed,
            offset: packed.bytes.len() as u64,
            length: stored.len() as u64,
        });
        packed.bytes.extend_from_slice(&stored);
    }
    Ok(packed)
}

fn write_packs(
    store: &Store,
    chunks: &Receiver<PackedChunk>,
    aborted: &AtomicBool,
) -> Result<PackResult> {
    let mut written = PackResult::default();
    let mut next = chunks.recv().ok();
    while let Some(first) = next.take() {
        let mut pack = Pack {
            blob: new_pack_key(),
            size: 0,
            objects: Vec::new(),
        };
        let blob = pack.blob.clone();
        let mut current = Some(first);
        // A chunk in which every object is known brings nothing to write.
        if current
            .as_ref()
            .is_some_and(|chunk| chunk.objects.is_empty())
        {
            written
                .known
                .extend(current.take().into_iter().flat_map(|chunk| chunk.known));
            next = chunks.recv().ok();
            continue;
        }
        store.blobs().put(&blob, &mut |out| {
            while let Some(mut chunk) = current.take() {
                let size = chunk.bytes.len() as u64;
                if pack.size > 0 && pack.size + size > MAX_PACK_BYTES {
                    next = Some(chunk);
                    break;
                }
                out.write_all(&chunk.bytes).map_err(cannot_store)?;
                chunk
                    .objects
                    .iter_mut()
                    .for_each(|object| object.offset += pack.size);
                pack.objects.append(&mut chunk.objects);
                written.known.append(&mut chunk.known);
                pack.size += size;
                current = chunks.recv().ok();
            }
            if aborted.load(Ordering::SeqCst) {
                Err(stopped())
            } else {
                Ok(())
            }
        })?;
        written.packs.push(pack);
    }
    Ok(written)
}

fn stopped() -> Error {
    Error::new(ErrorCode::WriteFailed, "the bulk write was stopped").with_hint("try again")
}
