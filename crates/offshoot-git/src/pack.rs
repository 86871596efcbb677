//! Writing packs: objects one after the other, and the index that finds them.
//!
//! Objects are stored whole, not as deltas to each other: git reads such packs as well as any
//! (and makes deltas itself when it repacks), and writing needs no more than a piece of one object
//! at a time.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use offshoot_core::{Error, ErrorCode, ObjectId, Result};

use crate::object::{Kind, ObjectReader, ObjectStream, finish, open_object};

/// Where an object lies in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackEntry {
    /// The object.
    pub id: ObjectId,
    /// The checksum of its bytes in the pack, as the index wants it.
    pub crc: u32,
    /// Where it begins.
    pub offset: u64,
}

/// A pack that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackSummary {
    /// The checksum at its end, which also gives it its name.
    pub checksum: ObjectId,
    /// How long it is.
    pub bytes: u64,
    /// Its objects in the order in which they were written.
    pub entries: Vec<PackEntry>,
}

/// Counts and hashes everything that passes through.
struct HashingWriter<W> {
    inner: W,
    hasher: gix_hash::Hasher,
    /// The checksum of the object that is being written.
    crc: Crc,
    bytes: u64,
}

impl<W: Write> HashingWriter<W> {
    fn new(inner: W) -> Self {
        HashingWriter {
            inner,
            hasher: gix_hash::hasher(gix_hash::Kind::Sha1),
            crc: Crc::new(),
            bytes: 0,
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.write_all(bytes).map_err(write_failed)?;
        self.hasher.update(bytes);
        self.crc.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the checksum of everything so far as the last twenty bytes.
    fn finish(mut self) -> Result<(ObjectId, u64)> {
        let checksum = finish(self.hasher)?;
        self.inner
            .write_all(checksum.as_bytes())
            .map_err(write_failed)?;
        self.inner.flush().map_err(write_failed)?;
        Ok((checksum, self.bytes + 20))
    }
}

pub(crate) fn write_failed(error: io::Error) -> Error {
    Error::new(
        ErrorCode::WriteFailed,
        "the git repository could not be written",
    )
    .with_hint("check the space and the permissions of the target")
    .with_source(error)
}

/// Writes a pack with these objects, each once, in this order.
///
/// `progress` is called with the number of objects written so far. Memory follows the
/// number of objects, not their size.
pub fn pack_objects(
    writer: impl Write,
    reader: &dyn ObjectReader,
    ids: &[ObjectId],
    progress: &mut dyn FnMut(u64),
) -> Result<PackSummary> {
    let count = u32::try_from(ids.len())
        .map_err(|_| Error::invalid("a pack holds at most 4,294,967,295 objects"))?;
    let mut out = HashingWriter::new(writer);
    out.put(b"PACK")?;
    out.put(&2u32.to_be_bytes())?;
    out.put(&count.to_be_bytes())?;
    let mut entries = Vec::with_capacity(ids.len());
    // One encoder for all: its tables are larger than most objects.
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(LEVEL));
    for id in ids {
        let offset = out.bytes;
        out.crc = Crc::new();
        put_object(&mut out, &mut encoder, open_object(reader, id)?)?;
        entries.push(PackEntry {
            id: *id,
            crc: out.crc.sum(),
            offset,
        });
        progress(entries.len() as u64);
    }
    let (checksum, bytes) = out.finish()?;
    Ok(PackSummary {
        checksum,
        bytes,
        entries,
    })
}

/// Writes one object, piece by piece.
fn put_object<W: Write>(
    out: &mut HashingWriter<W>,
    encoder: &mut ZlibEncoder<Vec<u8>>,
    mut object: ObjectStream,
) -> Result<()> {
    let mut header = Vec::with_capacity(16);
    push_entry_header(&mut header, object.kind, object.size);
    out.put(&header)?;
    let mut piece = vec![0; PIECE.min(object.size as usize)];
    let mut left = object.size;
    while left > 0 {
        let wanted = piece.len().min(left as usize);
        object
            .content
            .read_exact(&mut piece[..wanted])
            .map_err(|error| {
                error.downcast::<Error>().unwrap_or_else(|error| {
                    Error::new(ErrorCode::ReadFailed, "an object could not be read")
                        .with_source(error)
                })
            })?;
        encoder.write_all(&piece[..wanted]).map_err(write_failed)?;
        // What is compressed so far goes out, so that memory does not follow the size.
        out.put(encoder.get_ref())?;
        encoder.get_mut().clear();
        left -= wanted as u64;
    }
    let rest = encoder.reset(Vec::new()).map_err(write_failed)?;
    out.put(&rest)
}

/// What is read of an object at a time.
const PIECE: usize = 256 << 10;
/// Fast enough not to be the bottleneck; git compresses further when it repacks.
const LEVEL: u32 = 3;

/// Kind and size, four bits of size in the first byte and seven in each that follows.
fn push_entry_header(header: &mut Vec<u8>, kind: Kind, size: u64) {
    let number = match kind {
        Kind::Commit => 1u8,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let mut byte = number << 4 | (size & 15) as u8;
    let mut rest = size >> 4;
    while rest > 0 {
        header.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    header.push(byte);
}

/// Writes the index (version 2) of a pack.
pub fn write_pack_index(writer: impl Write, pack: &PackSummary) -> Result<()> {
    let mut entries = pack.entries.clone();
    entries.sort_unstable_by_key(|entry| entry.id);
    let mut out = HashingWriter::new(writer);
    out.put(b"\xfftOc\0\0\0\x02")?;
    let mut counts = [0u32; 256];
    for entry in &entries {
        counts[usize::from(entry.id.as_bytes()[0])] += 1;
    }
    let mut total = 0;
    for count in counts {
        total += count;
        out.put(&u32::to_be_bytes(total))?;
    }
    for entry in &entries {
        out.put(entry.id.as_bytes())?;
    }
    for entry in &entries {
        out.put(&entry.crc.to_be_bytes())?;
    }
    let mut large: Vec<u64> = Vec::new();
    for entry in &entries {
        // An offset that needs 32 bits or more is in a table of its own, and its index here.
        let short = u32::try_from(entry.offset)
            .ok()
            .filter(|offset| offset >> 31 == 0);
        let offset = short.unwrap_or_else(|| {
            large.push(entry.offset);
            1 << 31 | (large.len() - 1) as u32
        });
        out.put(&offset.to_be_bytes())?;
    }
    for offset in large {
        out.put(&offset.to_be_bytes())?;
    }
    out.put(pack.checksum.as_bytes())?;
    out.finish().map(drop)
}

/// The ids in a pack index of version 2; an error for any other file.
pub(crate) fn read_index_ids(index: &[u8]) -> Result<impl Iterator<Item = ObjectId> + '_> {
    let bad = || Error::invalid("a pack index of the repository cannot be read");
    let body = index.strip_prefix(b"\xfftOc\0\0\0\x02").ok_or_else(bad)?;
    let (fanout, body) = body.split_at_checked(1024).ok_or_else(bad)?;
    let total = fanout
        .last_chunk::<4>()
        .map(|last| u32::from_be_bytes(*last))
        .ok_or_else(bad)?;
    let ids = (total as usize)
        .checked_mul(20)
        .and_then(|length| body.get(..length));
    let ids = ids.ok_or_else(bad)?;
    Ok(ids
        .chunks_exact(20)
        .filter_map(|id| ObjectId::from_slice(id).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_offsets_go_to_their_own_table() {
        let id = |byte| ObjectId::from_bytes([byte; 20]);
        let entry = |byte, offset| PackEntry {
            id: id(byte),
            crc: 7,
            offset,
        };
        let entries = vec![
            entry(9, 1 << 33),
            entry(2, 12),
            entry(5, (1 << 31) - 1),
            entry(7, 1 << 31),
        ];
        let pack = PackSummary {
            checksum: id(1),
            bytes: 0,
            entries,
        };
        let mut index = Vec::new();
        write_pack_index(&mut index, &pack).unwrap();
        assert_eq!(
            read_index_ids(&index).unwrap().collect::<Vec<_>>(),
            [id(2), id(5), id(7), id(9)]
        );
        let offsets = &index[8 + 1024 + 4 * 24..];
        let expected = [12, (1 << 31) - 1, 1 << 31, 1 << 31 | 1]
            .map(u32::to_be_bytes)
            .concat();
        assert_eq!(offsets[..16], expected[..]);
        assert_eq!(
            offsets[16..32],
            [1u64 << 31, 1 << 33].map(u64::to_be_bytes).concat()[..]
        );
        for cut in 0..index.len() - 60 {
            let _ = read_index_ids(&index[..cut]).map(Iterator::count);
        }
    }
}
