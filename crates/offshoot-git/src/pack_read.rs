//! Reading packs that git made: the index, whole objects, and deltas.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::bufread::ZlibDecoder;
use offshoot_core::{Error, ErrorCode, ObjectId, Result};

use crate::object::Kind;

/// The largest object that is read; an honest repository has none like it, a forged one may.
const MAX_OBJECT: u64 = 4 << 30;
/// git makes chains of at most 4095 deltas.
const MAX_CHAIN: usize = 5000;
/// How many bytes of objects are kept because deltas may build on them.
const CACHE_BYTES: usize = 96 << 20;

/// The bytes before the first id in an index: its mark, its version and the fanout table.
const INDEX_HEADER: u64 = 8 + 1024;

pub(crate) fn read_failed(error: io::Error) -> Error {
    Error::new(
        ErrorCode::ReadFailed,
        "the git repository could not be read",
    )
    .with_source(error)
}

pub(crate) fn damaged(what: &str) -> Error {
    Error::invalid(format!("the git repository is damaged: {what}"))
        .with_hint("`git fsck` in it says more")
}

/// How much is read of a repository before it is given up.
#[derive(Clone, Debug)]
pub(crate) struct ReadLimits {
    /// The largest object, and the most that a chain of deltas may take.
    pub(crate) object: u64,
    /// How many bytes of each pack are kept because deltas may build on them.
    pub(crate) cache: usize,
    /// The bytes that may still be inflated or built, of all packs together; none for no limit.
    pub(crate) left: Option<Arc<AtomicU64>>,
}

impl ReadLimits {
    /// Of a repository that the user named.
    pub(crate) fn trusted() -> Self {
        ReadLimits {
            object: MAX_OBJECT,
            cache: CACHE_BYTES,
            left: None,
        }
    }

    /// Refuses an object of this size, or counts it.
    fn spend(&self, size: u64) -> Result<()> {
        if size > self.object {
            return Err(too_large("an object is too large"));
        }
        let Some(left) = &self.left else {
            return Ok(());
        };
        let take = |left: u64| left.checked_sub(size);
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(too_large("there is too much to read")),
        }
    }
}

fn too_large(what: &str) -> Error {
    Error::new(ErrorCode::PayloadTooLarge, what)
}

/// The index of a pack: in memory where many objects are asked for, else in its file.
enum Index {
    Memory(Vec<u8>),
    File(File),
}

impl Index {
    fn read<const N: usize>(&self, at: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        let there = match self {
            Index::Memory(index) => {
                let from = usize::try_from(at).ok().and_then(|at| index.get(at..));
                from.and_then(|rest| rest.first_chunk::<N>())
                    .map(|found| bytes = *found)
                    .is_some()
            }
            Index::File(file) => read_up_to(file, &mut bytes, at)? == N,
        };
        match there {
            true => Ok(bytes),
            false => Err(damaged("a pack index is cut short")),
        }
    }

    fn number(&self, at: u64) -> Result<u32> {
        self.read(at).map(u32::from_be_bytes)
    }
}

/// One pack with its index. Safe to use from several threads.
pub(crate) struct Pack {
    index: Index,
    count: u64,
    file: File,
    limits: ReadLimits,
    cache: Mutex<Cache>,
}

/// Objects by their place in the pack. When it is full it starts anew: objects that build on each
/// other mostly lie close together.
#[derive(Default)]
struct Cache {
    objects: HashMap<u64, (Kind, Arc<[u8]>)>,
    bytes: usize,
}

/// What stands at a place in a pack.
enum Entry {
    Whole(Kind),
    /// A delta to the object at this place.
    Offset(u64),
    /// A delta to the object of this id.
    Reference(ObjectId),
}

/// What a delta in a pack builds on.
pub(crate) type FindBase<'f> = dyn Fn(&ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> + 'f;

impl Pack {
    /// Opens the pack that belongs to an index file.
    pub(crate) fn open(index_path: &Path) -> Result<Self> {
        let index = fs::read(index_path).map_err(read_failed)?;
        let size = index.len() as u64;
        let file = File::open(index_path.with_extension("pack")).map_err(read_failed)?;
        Pack::new(Index::Memory(index), size, file, ReadLimits::trusted())
    }

    /// A pack of which only some objects are asked for: nothing of its index is held in memory.
    pub(crate) fn of_files(index: File, file: File, limits: ReadLimits) -> Result<Self> {
        let size = index.metadata().map_err(read_failed)?.len();
        Pack::new(Index::File(index), size, file, limits)
    }

    fn new(index: Index, size: u64, file: File, limits: ReadLimits) -> Result<Self> {
        if index.read(0).ok() != Some(*b"\xfftOc\0\0\0\x02") {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "a pack has an index of an old version",
            )
            .with_hint("run `git repack -ad` in the repository"));
        }
        let count = u64::from(index.number(INDEX_HEADER - 4)?);
        // Per object an id, a checksum and an offset; two checksums at the end.
        if size < INDEX_HEADER + count * 28 + 40 {
            return Err(damaged("a pack index is cut short"));
        }
        Ok(Pack {
            index,
            count,
            file,
            limits,
            cache: Mutex::default(),
        })
    }

    /// Where an object lies; none when it is not in this pack.
    pub(crate) fn find(&self, id: &ObjectId) -> Result<Option<u64>> {
        let first = u64::from(id.as_bytes()[0]);
        let start = match first {
            0 => 0,
            _ => self.index.number(8 + (first - 1) * 4)?,
        };
        let end = self.index.number(8 + first * 4)?;
        let (mut low, mut high) = (u64::from(start), u64::from(end).min(self.count));
        while low < high {
            let middle = low + (high - low) / 2;
            let there: [u8; 20] = self.index.read(INDEX_HEADER + middle * 20)?;
            match there[..].cmp(id.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.offset(middle).map(Some),
            }
        }
        Ok(None)
    }

    fn offset(&self, position: u64) -> Result<u64> {
        let offsets = INDEX_HEADER + self.count * 24;
        let short = self.index.number(offsets + position * 4)?;
        if short >> 31 == 0 {
            return Ok(u64::from(short));
        }
        let at = offsets + self.count * 4 + u64::from(short & 0x7fff_ffff) * 8;
        self.index.read(at).map(u64::from_be_bytes)
    }

    /// Reads the object at a place. `find_base` looks for bases by id, also in other packs.
    pub(crate) fn read(&self, offset: u64, find_base: &FindBase<'_>) -> Result<(Kind, Arc<[u8]>)> {
        let mut deltas: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut held = 0;
        let mut at = offset;
        let (kind, mut bytes) = loop {
            if let Some(found) = self.cached(at) {
                break found;
            }
            let (entry, size, data_at) = self.entry(at)?;
            self.limits.spend(size)?;
            held += size;
            if held > self.limits.object {
                return Err(too_large("a chain of deltas is too large"));
            }
            let data = inflate(self.from(data_at), size)?;
            let base = match entry {
                Entry::Whole(kind) => {
                    let bytes: Arc<[u8]> = data.into();
                    self.keep(at, kind, &bytes);
                    break (kind, bytes);
                }
                Entry::Offset(base) => Some(base),
                Entry::Reference(id) => match self.find(&id)? {
                    Some(base) => Some(base),
                    None => {
                        let found = find_base(&id)?;
                        deltas.push((at, data));
                        break found.ok_or_else(|| damaged("the base of a delta is missing"))?;
                    }
                },
            };
            deltas.push((at, data));
            at = base.unwrap_or(at);
            if deltas.len() > MAX_CHAIN {
                return Err(damaged("a chain of deltas does not end"));
            }
        };
        while let Some((at, delta)) = deltas.pop() {
            self.limits.spend(built_size(&delta)?)?;
            bytes = apply_delta(&bytes, &delta)?.into();
            self.keep(at, kind, &bytes);
        }
        Ok((kind, bytes))
    }

    /// The header of an entry: what it is, its size when inflated, and where its data begins.
    fn entry(&self, at: u64) -> Result<(Entry, u64, u64)> {
        // Longest: ten bytes of size, then an id.
        let mut buffer = [0; 32];
        let length = read_up_to(&self.file, &mut buffer, at)?;
        let mut bytes = Bytes {
            rest: &buffer[..length],
        };
        let first = bytes.next()?;
        let mut size = u64::from(first & 15);
        if first & 0x80 != 0 {
            let more = bytes.varint()?;
            if more > MAX_OBJECT {
                return Err(damaged("an object is too large"));
            }
            size |= more << 4;
        }
        let entry = match first >> 4 & 7 {
            1 => Entry::Whole(Kind::Commit),
            2 => Entry::Whole(Kind::Tree),
            3 => Entry::Whole(Kind::Blob),
            4 => Entry::Whole(Kind::Tag),
            6 => {
                let back = bytes.offset()?;
                let base = at.checked_sub(back).filter(|base| *base < at);
                Entry::Offset(base.ok_or_else(|| damaged("a delta builds on nothing"))?)
            }
            7 => Entry::Reference(ObjectId::from_slice(bytes.take(20)?)?),
            _ => return Err(damaged("an object of an unknown kind")),
        };
        Ok((entry, size, at + (length - bytes.rest.len()) as u64))
    }

    /// A reader of the file from a place on. Has its own position, so that threads can share.
    fn from(&self, at: u64) -> impl Read + '_ {
        ReadAt {
            file: &self.file,
            at,
        }
    }

    fn cached(&self, at: u64) -> Option<(Kind, Arc<[u8]>)> {
        self.cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .objects
            .get(&at)
            .cloned()
    }

    fn keep(&self, at: u64, kind: Kind, bytes: &Arc<[u8]>) {
        if bytes.len() > self.limits.cache / 4 {
            return;
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.bytes + bytes.len() > self.limits.cache {
            *cache = Cache::default();
        }
        // The overhead of an entry counts too: small objects are many.
        cache.bytes += bytes.len() + 64;
        cache.objects.insert(at, (kind, bytes.clone()));
    }
}

struct ReadAt<'a> {
    file: &'a File,
    at: u64,
}

impl Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(buffer, self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

pub(crate) fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], at + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_failed(error)),
        }
    }
    Ok(length)
}

/// Inflates exactly `size` bytes.
fn inflate(reader: impl Read, size: u64) -> Result<Vec<u8>> {
    // What a header claims is not believed before the bytes are there.
    let mut bytes = Vec::with_capacity(size.min(1 << 20) as usize);
    let buffered = BufReader::with_capacity(16 << 10, reader);
    let inflated = ZlibDecoder::new(buffered)
        .take(size + 1)
        .read_to_end(&mut bytes);
    match inflated {
        Ok(_) if bytes.len() as u64 == size => Ok(bytes),
        Ok(_) => Err(damaged("an object has another size than it says")),
        Err(error) => Err(damaged("an object cannot be inflated").with_source(error)),
    }
}

/// Reads a loose object: one file that holds a header and the content, deflated.
pub(crate) fn read_loose(path: &Path) -> Result<Option<(Kind, Vec<u8>)>> {
    match File::open(path) {
        Ok(file) => read_loose_file(&file, &ReadLimits::trusted()).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(read_failed(error)),
    }
}

/// The object in the file of a loose one.
pub(crate) fn read_loose_file(file: &File, limits: &ReadLimits) -> Result<(Kind, Vec<u8>)> {
    // Its header is at most 32 bytes long. What is larger is cut off, and its size does not fit.
    let mut reader = ZlibDecoder::new(BufReader::new(file)).take(limits.object + 33);
    let mut bytes = Vec::new();
    let inflated = reader.read_to_end(&mut bytes);
    inflated.map_err(|error| damaged("an object cannot be inflated").with_source(error))?;
    limits.spend((bytes.len() as u64).saturating_sub(32))?;
    let header = bytes.iter().take(32).position(|&byte| byte == 0);
    let parsed = header.and_then(|end| {
        let (kind, size) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
        Some((
            Kind::from_word(kind.as_bytes())?,
            size.parse::<usize>().ok()?,
            end + 1,
        ))
    });
    match parsed {
        Some((kind, size, start)) if bytes.len() - start == size => {
            bytes.drain(..start);
            Ok((kind, bytes))
        }
        _ => Err(damaged("a loose object has a bad header")),
    }
}

/// The size of what a delta builds.
fn built_size(delta: &[u8]) -> Result<u64> {
    let mut delta = Bytes { rest: delta };
    delta.varint()?;
    delta.varint()
}

/// Builds an object from its base and a delta: pieces copied from the base, and new bytes.
fn apply_delta(base: &[u8], delta: &[u8]) -> Result<Vec<u8>> {
    let bad = || damaged("a delta does not fit its base");
    let mut delta = Bytes { rest: delta };
    let (base_size, size) = (delta.varint()?, delta.varint()?);
    if base_size != base.len() as u64 || size > MAX_OBJECT {
        return Err(bad());
    }
    let mut bytes: Vec<u8> = Vec::with_capacity(size.min(64 << 20) as usize);
    while !delta.rest.is_empty() {
        let command = delta.next()?;
        let piece = if command & 0x80 != 0 {
            let (start, length) = delta.copy(command)?;
            base.get(start..)
                .and_then(|rest| rest.get(..length))
                .ok_or_else(bad)?
        } else if command != 0 {
            delta.take(usize::from(command))?
        } else {
            return Err(bad());
        };
        if (bytes.len() + piece.len()) as u64 > size {
            return Err(bad());
        }
        bytes.extend_from_slice(piece);
    }
    if bytes.len() as u64 == size {
        Ok(bytes)
    } else {
        Err(bad())
    }
}

/// Bytes that are read from the front; the end is an error, never a panic.
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Bytes { rest: bytes }
    }

    /// What was not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn next(&mut self) -> Result<u8> {
        self.take(1).map(|byte| byte[0])
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let split = self.rest.split_at_checked(count);
        let (taken, rest) = split.ok_or_else(|| damaged("an object is cut short"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Seven bits a byte, the lowest first.
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("a number is too large"))
    }

    /// Seven bits a byte, the highest first, and one added at each step so that no number can be
    /// written in two ways.
    pub(crate) fn offset(&mut self) -> Result<u64> {
        let mut byte = self.next()?;
        let mut value = u64::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            if value >> 55 != 0 {
                return Err(damaged("a number is too large"));
            }
            byte = self.next()?;
            value = (value + 1) << 7 | u64::from(byte & 0x7f);
        }
        Ok(value)
    }

    /// Start and length of a piece to copy: the bits of the command say which bytes follow.
    fn copy(&mut self, command: u8) -> Result<(usize, usize)> {
        let mut numbers = [0usize; 2];
        for bit in 0..7 {
            if command >> bit & 1 != 0 {
                let byte = usize::from(self.next()?);
                let (which, shift) = if bit < 4 {
                    (0, bit * 8)
                } else {
                    (1, (bit - 4) * 8)
                };
                numbers[which] |= byte << shift;
            }
        }
        let [start, length] = numbers;
        Ok((start, if length == 0 { 0x10000 } else { length }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forged_deltas_are_refused_and_never_panic() {
        let base = b"0123456789";
        // Copy 4 bytes from 2, then insert `ab`.
        let good = [10, 6, 0b1001_0001, 2, 4, 2, b'a', b'b'];
        assert_eq!(apply_delta(base, &good).unwrap(), b"2345ab");
        for (at, value) in [(0, 9), (1, 5), (1, 7), (3, 7), (4, 11), (5, 3), (5, 0)] {
            let mut bad = good;
            bad[at] = value;
            assert!(apply_delta(base, &bad).is_err(), "{at} {value}");
        }
        let config = ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(5000)
        };
        proptest!(config, |(tail in prop::collection::vec(any::<u8>(), 0..40), size in 0u8..127)| {
            let _ = apply_delta(base, &[&[10, size], &tail[..]].concat());
            let _ = apply_delta(base, &tail);
            let mut bytes = Bytes { rest: &tail };
            let _ = bytes.offset();
            let _ = bytes.varint();
        });
    }
}
