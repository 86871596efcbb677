//! Receiving a pack from a stranger: spooled to disk, taken apart, and every object hashed.
//!
//! Nothing that a pack says is believed. It goes to a file first; then each object is inflated once,
//! never beyond the size that it declares, and the sizes that are declared may not exceed a limit all
//! together. What a delta comes to is written to a second file, so that each is built once however
//! long its chain is, and so that memory does not grow with the objects. Both files belong to the
//! caller, who makes them without names: nothing is left of them when the process ends.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use offshoot_core::{Error, ErrorCode, ObjectId, Result, cancel};

use crate::fsck::check_object;
use crate::inflate::Inflate;
use crate::object::{Kind, ObjectHasher, ObjectReader, ObjectStream, finish};
use crate::pack_read::{Bytes, read_up_to};
use crate::push_check::VisibleHistory;

/// Objects up to this size are handled in memory.
pub(crate) const IN_MEMORY: u64 = 8 << 20;
/// The largest commit, tree or tag: they are read as a whole.
const LARGEST_READ_WHOLE: u64 = 64 << 20;
pub(crate) const CHUNK: usize = 64 << 10;
/// The mark, the version and the count.
const HEADER: u64 = 12;
/// The checksum at the end.
const TRAILER: u64 = 20;

/// What a received pack may hold at most.
#[derive(Clone, Debug)]
pub struct PackLimits {
    /// The bytes of the pack itself.
    pub pack_bytes: u64,
    /// The bytes of one object.
    pub object_bytes: u64,
    /// The bytes of all objects together, and of the deltas that they come in.
    pub unpacked_bytes: u64,
    /// The number of objects.
    pub objects: u32,
}

/// Two empty files for what is received and for what deltas come to.
#[derive(Debug)]
pub struct PackFiles {
    /// For the pack as it comes.
    pub pack: File,
    /// For objects that were sent as deltas.
    pub built: File,
}

/// A pack whose objects are all there and have the ids that they are asked for by.
pub struct ReceivedPack {
    pack: Arc<File>,
    /// Where its checksum begins.
    end: u64,
    built: Arc<File>,
    /// In the order of ids.
    entries: Vec<Entry>,
}

/// An object of a pack, and where its content is.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) id: ObjectId,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) place: Place,
}

#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// Where its stream begins in the pack.
    Packed(u64),
    /// Where its content begins in the file of what was built.
    Built(u64),
}

impl ReceivedPack {
    /// Receives the pack that the rest of `input` is. `history` is what deltas may build on beside
    /// the pack itself.
    pub fn receive(
        input: &mut dyn Read,
        files: PackFiles,
        limits: &PackLimits,
        history: &mut VisibleHistory<'_>,
    ) -> Result<ReceivedPack> {
        let (pack, built) = (Arc::new(files.pack), Arc::new(files.built));
        let (end, count) = spool(input, &pack, limits)?;
        let mut unpacking = Unpacking {
            inflate: Inflate::new(&pack, HEADER, end),
            pack,
            end,
            built,
            built_end: 0,
            limits,
            left: limits.unpacked_bytes,
            entries: Vec::new(),
            deltas: Vec::new(),
        };
        let wholes = unpacking.scan(count)?;
        unpacking.build_deltas(wholes, history)?;
        unpacking.finish()
    }

    /// How many objects it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What an object of this pack is; none if it is not in it.
    pub fn kind(&self, id: &ObjectId) -> Option<Kind> {
        self.find(id).map(|entry| entry.kind)
    }

    fn find(&self, id: &ObjectId) -> Option<&Entry> {
        let found = self.entries.binary_search_by_key(id, |entry| entry.id);
        found.ok().map(|index| &self.entries[index])
    }

    fn content(&self, entry: &Entry) -> Box<dyn Read + Send> {
        match entry.place {
            Place::Packed(at) => Box::new(Inflate::new(&self.pack, at, self.end)),
            Place::Built(at) => Box::new(FilePart {
                file: Arc::clone(&self.built),
                at,
                left: entry.size,
            }),
        }
    }
}

impl ObjectReader for ReceivedPack {
    fn read(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> {
        let Some(entry) = self.find(id) else {
            return Ok(None);
        };
        let mut bytes = Vec::with_capacity(entry.size.min(IN_MEMORY) as usize);
        self.content(entry)
            .read_to_end(&mut bytes)
            .map_err(spool_failed)?;
        Ok(Some((entry.kind, bytes.into())))
    }

    fn open(&self, id: &ObjectId) -> Result<Option<ObjectStream>> {
        Ok(self.find(id).map(|entry| ObjectStream {
            kind: entry.kind,
            size: entry.size,
            content: self.content(entry),
        }))
    }
}

/// A part of a file, read without moving its position.
pub(crate) struct FilePart {
    pub(crate) file: Arc<File>,
    pub(crate) at: u64,
    pub(crate) left: u64,
}

impl Read for FilePart {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = self.left.min(out.len() as u64) as usize;
        let count = self.file.read_at(&mut out[..most], self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Copies the pack into its file, and checks its beginning and its checksum. Returns where its
/// objects end, and how many it says there are.
fn spool(input: &mut dyn Read, file: &File, limits: &PackLimits) -> Result<(u64, u32)> {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    let mut chunk = vec![0; CHUNK];
    // What may turn out to be the checksum is not hashed.
    let mut tail: Vec<u8> = Vec::with_capacity(CHUNK + TRAILER as usize);
    let mut size = 0;
    loop {
        let count = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(bad("it broke off").with_source(error)),
        };
        cancel::check()?;
        if size + count as u64 > limits.pack_bytes {
            return Err(too_much("it is larger than", limits.pack_bytes, "bytes"));
        }
        file.write_all_at(&chunk[..count], size)
            .map_err(spool_failed)?;
        size += count as u64;
        tail.extend_from_slice(&chunk[..count]);
        let known = tail.len().saturating_sub(TRAILER as usize);
        hasher.update(&tail[..known]);
        tail.drain(..known);
    }
    if size < HEADER + TRAILER {
        return Err(bad("it is cut short"));
    }
    let mut header = [0; HEADER as usize];
    file.read_exact_at(&mut header, 0).map_err(spool_failed)?;
    let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
    if !header.starts_with(b"PACK") || !matches!(number(4), 2 | 3) {
        return Err(bad("it is no pack of version 2"));
    }
    let count = number(8);
    if count > limits.objects {
        let most = u64::from(limits.objects);
        return Err(too_much("it has more than", most, "objects"));
    }
    if finish(hasher)? != ObjectId::from_slice(&tail)? {
        return Err(bad("its checksum is wrong"));
    }
    Ok((size - TRAILER, count))
}

/// What a delta builds on.
#[derive(Clone, Copy)]
pub(crate) enum DeltaBase {
    /// What stands at this place of the pack.
    At(u64),
    Id(ObjectId),
}

/// An object that was sent as what differs from another one.
pub(crate) struct Delta {
    /// Where it stands in the pack.
    pub(crate) at: u64,
    /// Where its stream begins.
    pub(crate) data_at: u64,
    pub(crate) base: DeltaBase,
}

/// A pack that is being taken apart.
pub(crate) struct Unpacking<'a> {
    inflate: Inflate,
    pub(crate) pack: Arc<File>,
    /// Where its objects end.
    pub(crate) end: u64,
    pub(crate) built: Arc<File>,
    /// Where the next object can be built.
    pub(crate) built_end: u64,
    limits: &'a PackLimits,
    /// How many bytes may still be unpacked.
    left: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) deltas: Vec<Delta>,
}

impl Unpacking<'_> {
    /// Counts bytes that are about to be unpacked.
    pub(crate) fn take(&mut self, size: u64) -> Result<()> {
        if size > self.limits.object_bytes {
            let most = self.limits.object_bytes;
            return Err(too_much("it holds an object of more than", most, "bytes"));
        }
        match self.left.checked_sub(size) {
            Some(left) => self.left = left,
            None => {
                let most = self.limits.unpacked_bytes;
                return Err(too_much("it unpacks to more than", most, "bytes"));
            }
        }
        Ok(())
    }

    /// Goes through the pack once: hashes whole objects, and notes where deltas are. Returns the
    /// places of the whole ones, in the order of `entries`.
    fn scan(&mut self, count: u32) -> Result<Vec<u64>> {
        let mut places = Vec::new();
        let mut at = HEADER;
        for _ in 0..count {
            cancel::check()?;
            let (what, size, data_at) = read_entry_header(&self.pack, at, self.end)?;
            self.take(size)?;
            self.inflate.restart(data_at);
            match what {
                EntryHead::Whole(kind) => {
                    let mut hasher = ObjectHasher::new(kind, size);
                    self.inflate_exactly(size, |bytes| hasher.update(bytes))?;
                    self.entries.push(Entry {
                        id: hasher.finish()?,
                        kind,
                        size,
                        place: Place::Packed(data_at),
                    });
                    places.push(at);
                }
                EntryHead::Delta(base) => {
                    let mut first = Vec::with_capacity(20);
                    self.inflate_exactly(size, |bytes| {
                        let missing = 20 - first.len();
                        first.extend_from_slice(&bytes[..bytes.len().min(missing)]);
                    })?;
                    let mut sizes = Bytes::new(&first);
                    sizes.varint().map_err(as_bad)?;
                    self.take(sizes.varint().map_err(as_bad)?)?;
                    self.deltas.push(Delta { at, data_at, base });
                }
            }
            at = self.inflate.position();
        }
        match at == self.end {
            true => Ok(places),
            false => Err(bad("there is more in it than its objects")),
        }
    }

    /// Inflates a stream that must have exactly this size.
    fn inflate_exactly(&mut self, size: u64, mut each: impl FnMut(&[u8])) -> Result<()> {
        let mut chunk = [0; 16 << 10];
        let mut seen = 0;
        loop {
            let count = self.inflate.read(&mut chunk).map_err(cannot_inflate)?;
            seen += count as u64;
            if seen > size {
                break;
            }
            each(&chunk[..count]);
            if self.inflate.has_ended() {
                break;
            }
        }
        match seen == size {
            true => Ok(()),
            false => Err(bad("an object has another size than it says")),
        }
    }

    /// Puts the objects in order, and checks each that git's `fsck` has rules for.
    fn finish(mut self) -> Result<ReceivedPack> {
        self.entries.sort_unstable_by_key(|entry| entry.id);
        if let Some(two) = self.entries.windows(2).find(|two| two[0].id == two[1].id) {
            return Err(bad(&format!("the object {} is in it twice", two[0].id)));
        }
        let received = ReceivedPack {
            pack: self.pack,
            end: self.end,
            built: self.built,
            entries: self.entries,
        };
        let has_rules = |entry: &&Entry| entry.kind != Kind::Blob;
        for entry in received.entries.iter().filter(has_rules) {
            cancel::check()?;
            if entry.size > LARGEST_READ_WHOLE {
                let what = format!("it holds a {} of more than", entry.kind.as_str());
                return Err(too_much(&what, LARGEST_READ_WHOLE, "bytes"));
            }
            if let Some((kind, bytes)) = received.read(&entry.id)? {
                check_object(kind, &entry.id, &bytes)?;
            }
        }
        Ok(received)
    }
}

enum EntryHead {
    Whole(Kind),
    Delta(DeltaBase),
}

/// The head of the entry at a place: what it is, the size of its stream when inflated, and where
/// that begins.
fn read_entry_header(pack: &File, at: u64, end: u64) -> Result<(EntryHead, u64, u64)> {
    // Longest: ten bytes of size, then an id.
    let mut buffer = [0; 32];
    let most = end.saturating_sub(at).min(32) as usize;
    let length = read_up_to(pack, &mut buffer[..most], at)?;
    let mut bytes = Bytes::new(&buffer[..length]);
    let first = bytes.next().map_err(as_bad)?;
    let mut size = u64::from(first & 15);
    if first & 0x80 != 0 {
        let more = bytes.varint().map_err(as_bad)?;
        if more >> 59 != 0 {
            return Err(bad("an object is too large"));
        }
        size |= more << 4;
    }
    let head = match first >> 4 & 7 {
        1 => EntryHead::Whole(Kind::Commit),
        2 => EntryHead::Whole(Kind::Tree),
        3 => EntryHead::Whole(Kind::Blob),
        4 => EntryHead::Whole(Kind::Tag),
        6 => {
            let back = bytes.offset().map_err(as_bad)?;
            let base = at.checked_sub(back).filter(|base| *base < at);
            let base = base.ok_or_else(|| bad("a delta builds on nothing"))?;
            EntryHead::Delta(DeltaBase::At(base))
        }
        7 => {
            let id = ObjectId::from_slice(bytes.take(20).map_err(as_bad)?)?;
            EntryHead::Delta(DeltaBase::Id(id))
        }
        _ => return Err(bad("it holds an object of an unknown kind")),
    };
    Ok((head, size, at + (length - bytes.rest().len()) as u64))
}

pub(crate) fn bad(what: &str) -> Error {
    Error::invalid(format!("the pack is refused: {what}"))
        .with_hint("nothing was taken; `git fsck --strict` in your repository may say more")
}

fn as_bad(error: Error) -> Error {
    bad("an object is cut short").with_source(error)
}

pub(crate) fn cannot_inflate(error: io::Error) -> Error {
    bad("an object cannot be inflated").with_source(error)
}

fn too_much(what: &str, most: u64, unit: &str) -> Error {
    Error::new(
        ErrorCode::PayloadTooLarge,
        format!("the pack is refused: {what} {most} {unit}"),
    )
    .with_hint("nothing was taken; push less at once, or import the repository on the server")
}

pub(crate) fn spool_failed(error: io::Error) -> Error {
    Error::new(ErrorCode::WriteFailed, "the pack could not be received").with_source(error)
}
