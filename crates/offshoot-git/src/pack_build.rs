//! Building what the deltas of a received pack come to, each once, into a file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use offshoot_core::{Error, ObjectId, Result, cancel};

use crate::inflate::Inflate;
use crate::object::ObjectHasher;
use crate::pack_receive::{
    CHUNK, Delta, DeltaBase, Entry, FilePart, IN_MEMORY, Place, Unpacking, bad, cannot_inflate,
    spool_failed,
};
use crate::push_check::VisibleHistory;

/// The content that deltas build on.
enum BaseContent {
    Memory(Vec<u8>),
    /// From here on in the file of what was built.
    Built(u64),
}

/// A base whose deltas can be built: where it stands in the pack, if it does, and what it is.
type ReadyBase = (Option<u64>, Entry);

impl Unpacking<'_> {
    /// Builds what deltas come to, each after what it builds on.
    pub(crate) fn build_deltas(
        &mut self,
        places: Vec<u64>,
        history: &mut VisibleHistory<'_>,
    ) -> Result<()> {
        let mut at_place: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut on_id: HashMap<ObjectId, Vec<usize>> = HashMap::new();
        for (number, delta) in self.deltas.iter().enumerate() {
            match delta.base {
                DeltaBase::At(place) => at_place.entry(place).or_default().push(number),
                DeltaBase::Id(id) => on_id.entry(id).or_default().push(number),
            }
        }
        let wholes = places.into_iter().zip(&self.entries);
        let is_base = |place: &u64, entry: &Entry| {
            at_place.contains_key(place) || on_id.contains_key(&entry.id)
        };
        let mut ready: Vec<ReadyBase> = wholes
            .filter(|(place, entry)| is_base(place, entry))
            .map(|(place, entry)| (Some(place), *entry))
            .collect();
        let mut is_thin = false;
        loop {
            while let Some((place, base)) = ready.pop() {
                let by_place = place.and_then(|place| at_place.remove(&place));
                let by_id = on_id.remove(&base.id);
                let numbers: Vec<usize> = by_place.into_iter().chain(by_id).flatten().collect();
                if numbers.is_empty() {
                    continue;
                }
                let content = self.base_content(&base)?;
                for number in numbers {
                    cancel::check()?;
                    let built = self.build(&self.deltas[number], &base, &content)?;
                    let (built, end) = built;
                    self.built_end = end;
                    self.entries.push(built);
                    ready.push((Some(self.deltas[number].at), built));
                }
            }
            if is_thin || on_id.is_empty() {
                break;
            }
            is_thin = true;
            let wanted: Vec<ObjectId> = on_id.keys().copied().collect();
            ready = self.copy_bases(&wanted, history)?;
        }
        match at_place.is_empty() && on_id.is_empty() {
            true => Ok(()),
            false => Err(bad(
                "a delta builds on an object that is neither in it nor in the history, or on itself",
            )),
        }
    }

    /// Copies what a thin pack builds on out of the history. What the sender may not see is left
    /// out: a delta that copies all of its base would give it away.
    fn copy_bases(
        &mut self,
        wanted: &[ObjectId],
        history: &mut VisibleHistory<'_>,
    ) -> Result<Vec<ReadyBase>> {
        let mut bases = Vec::new();
        for id in history.contents_among(wanted)? {
            let Some(mut stream) = history.reader().open(&id)? else {
                continue;
            };
            self.take(stream.size)?;
            let start = self.built_end;
            self.built_end = copy_to(&mut stream.content, &self.built, start)?;
            let entry = Entry {
                id,
                kind: stream.kind,
                size: stream.size,
                place: Place::Built(start),
            };
            bases.push((None, entry));
        }
        Ok(bases)
    }

    fn base_content(&mut self, base: &Entry) -> Result<BaseContent> {
        let mut from: Box<dyn Read> = match base.place {
            Place::Built(at) if base.size > IN_MEMORY => return Ok(BaseContent::Built(at)),
            Place::Built(at) => Box::new(FilePart {
                file: Arc::clone(&self.built),
                at,
                left: base.size,
            }),
            Place::Packed(at) => Box::new(Inflate::new(&self.pack, at, self.end)),
        };
        if base.size > IN_MEMORY {
            self.take(base.size)?;
            let start = self.built_end;
            self.built_end = copy_to(&mut *from, &self.built, start)?;
            return Ok(BaseContent::Built(start));
        }
        let mut bytes = Vec::with_capacity(base.size as usize);
        from.read_to_end(&mut bytes).map_err(spool_failed)?;
        Ok(BaseContent::Memory(bytes))
    }

    /// Builds one object from its base. Returns it, and where the next one can begin.
    fn build(&self, delta: &Delta, base: &Entry, content: &BaseContent) -> Result<(Entry, u64)> {
        let mut input =
            BufReader::with_capacity(4 << 10, Inflate::new(&self.pack, delta.data_at, self.end));
        let base_size = read_varint(&mut input)?;
        let size = read_varint(&mut input)?;
        if base_size != base.size {
            return Err(does_not_fit());
        }
        let mut built = BuiltObject {
            file: &self.built,
            start: self.built_end,
            written: 0,
            size,
            buffer: Vec::new(),
            hasher: ObjectHasher::new(base.kind, size),
        };
        let mut piece = vec![0; CHUNK];
        while let Some(command) = next_byte(&mut input)? {
            if command & 0x80 != 0 {
                let (start, length) = read_copy(&mut input, command)?;
                if start + length > base.size {
                    return Err(does_not_fit());
                }
                content.copy(&self.built, (start, length), &mut piece, &mut built)?;
            } else if command != 0 {
                let literal = &mut piece[..usize::from(command)];
                input.read_exact(literal).map_err(cannot_inflate)?;
                built.add(literal)?;
            } else {
                return Err(does_not_fit());
            }
        }
        let end = built.start + size;
        let entry = Entry {
            place: Place::Built(built.start),
            id: built.finish()?,
            kind: base.kind,
            size,
        };
        Ok((entry, end))
    }
}

impl BaseContent {
    /// Adds a part of the base to an object. The part lies within the base.
    fn copy(
        &self,
        file: &File,
        (start, length): (u64, u64),
        piece: &mut [u8],
        to: &mut BuiltObject<'_>,
    ) -> Result<()> {
        let base = match self {
            BaseContent::Memory(bytes) => {
                let part = bytes.get(start as usize..(start + length) as usize);
                return to.add(part.ok_or_else(does_not_fit)?);
            }
            BaseContent::Built(base) => base,
        };
        let (mut at, mut left) = (base + start, length);
        while left > 0 {
            let most = left.min(piece.len() as u64) as usize;
            file.read_exact_at(&mut piece[..most], at)
                .map_err(spool_failed)?;
            to.add(&piece[..most])?;
            at += most as u64;
            left -= most as u64;
        }
        Ok(())
    }
}

/// An object that is being built from a delta.
struct BuiltObject<'a> {
    file: &'a File,
    start: u64,
    /// Bytes that are in the file or in the buffer.
    written: u64,
    /// The size that the delta declared.
    size: u64,
    buffer: Vec<u8>,
    hasher: ObjectHasher,
}

impl BuiltObject<'_> {
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        if self.written + bytes.len() as u64 > self.size {
            return Err(does_not_fit());
        }
        self.written += bytes.len() as u64;
        self.hasher.update(bytes);
        self.buffer.extend_from_slice(bytes);
        match self.buffer.len() >= CHUNK {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let at = self.start + self.written - self.buffer.len() as u64;
        self.file
            .write_all_at(&self.buffer, at)
            .map_err(spool_failed)?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<ObjectId> {
        if self.written != self.size {
            return Err(does_not_fit());
        }
        self.flush()?;
        self.hasher.finish()
    }
}

fn next_byte(input: &mut impl Read) -> Result<Option<u8>> {
    let mut byte = [0];
    match input.read(&mut byte).map_err(cannot_inflate)? {
        0 => Ok(None),
        _ => Ok(Some(byte[0])),
    }
}

fn needed_byte(input: &mut impl Read) -> Result<u8> {
    next_byte(input)?.ok_or_else(does_not_fit)
}

/// Seven bits a byte, the lowest first.
fn read_varint(input: &mut impl Read) -> Result<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = needed_byte(input)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(does_not_fit())
}

/// Start and length of a piece to copy: the bits of the command say which bytes follow.
fn read_copy(input: &mut impl Read, command: u8) -> Result<(u64, u64)> {
    let mut numbers = [0u64; 2];
    for bit in 0..7 {
        if command >> bit & 1 != 0 {
            let byte = u64::from(needed_byte(input)?);
            match bit {
                0..4 => numbers[0] |= byte << (bit * 8),
                _ => numbers[1] |= byte << ((bit - 4) * 8),
            }
        }
    }
    let [start, length] = numbers;
    Ok((start, if length == 0 { 0x10000 } else { length }))
}

/// Copies a stream into a file. Returns where it ends there.
fn copy_to(from: &mut dyn Read, file: &File, start: u64) -> Result<u64> {
    let mut chunk = vec![0; CHUNK];
    let mut at = start;
    loop {
        let count = from.read(&mut chunk).map_err(spool_failed)?;
        if count == 0 {
            return Ok(at);
        }
        file.write_all_at(&chunk[..count], at)
            .map_err(spool_failed)?;
        at += count as u64;
    }
}

fn does_not_fit() -> Error {
    bad("a delta does not fit its base")
}
