//! The memo of a fork: the content ids of files that differ from its layers, by their `stat` data, so
//! that the next walk hashes only what changed since.

use std::collections::HashMap;
use std::path::Path;

use offshoot_core::{ObjectId, RelPath, Result};
use offshoot_fs::{RACY_WINDOW, Stat};

const HEADER: &[u8] = b"offshoot fork memo 1\n";
/// The bytes of one entry without its path.
const ENTRY_BYTES: usize = 8 + 8 + 16 + 16 + 20 + 4;

/// The `stat` data by which a change of a file shows.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    ino: u64,
    size: u64,
    mtime_ns: i128,
    ctime_ns: i128,
}

impl From<&Stat> for FileStamp {
    fn from(stat: &Stat) -> FileStamp {
        FileStamp {
            ino: stat.ino,
            size: stat.size,
            mtime_ns: stat.mtime_ns,
            ctime_ns: stat.ctime_ns,
        }
    }
}

/// Content ids of files by path and `stat` data.
#[derive(Default)]
pub(crate) struct ForkMemo {
    /// When the walk began, in nanoseconds. A file that changed about then may have changed again
    /// within the same tick of the clock.
    at_ns: i128,
    files: HashMap<RelPath, (FileStamp, ObjectId)>,
}

impl ForkMemo {
    /// An empty memo for a walk that begins now.
    pub(crate) fn begin() -> ForkMemo {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        ForkMemo {
            at_ns: now.map_or(0, |now| now.as_nanos() as i128),
            files: HashMap::new(),
        }
    }

    pub(crate) fn note(&mut self, path: &RelPath, stat: &Stat, id: ObjectId) {
        self.files.insert(path.clone(), (stat.into(), id));
    }

    /// The content id of a file, if the file certainly did not change since the walk.
    pub(crate) fn content(&self, path: &RelPath, stat: &Stat) -> Option<ObjectId> {
        let (stamp, id) = self.files.get(path)?;
        let racy_from = self.at_ns - RACY_WINDOW.as_nanos() as i128;
        let racy = stamp.ctime_ns >= racy_from || stamp.mtime_ns >= racy_from;
        (*stamp == FileStamp::from(stat) && !racy).then_some(*id)
    }

    pub(crate) fn load(place: &Path) -> ForkMemo {
        std::fs::read(place)
            .ok()
            .and_then(|bytes| ForkMemo::parse(&bytes))
            .unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Option<ForkMemo> {
        let (body, sum) = bytes.split_last_chunk::<20>()?;
        if checksum(body).ok()? != ObjectId::from_bytes(*sum) {
            return None;
        }
        let rest = body.strip_prefix(HEADER)?;
        let (at, mut rest) = rest.split_first_chunk::<16>()?;
        let mut memo = ForkMemo {
            at_ns: i128::from_le_bytes(*at),
            files: HashMap::new(),
        };
        while !rest.is_empty() {
            let stamp = FileStamp {
                ino: u64::from_le_bytes(take(&mut rest)?),
                size: u64::from_le_bytes(take(&mut rest)?),
                mtime_ns: i128::from_le_bytes(take(&mut rest)?),
                ctime_ns: i128::from_le_bytes(take(&mut rest)?),
            };
            let id = ObjectId::from_bytes(take(&mut rest)?);
            let length = u32::from_le_bytes(take(&mut rest)?) as usize;
            let (path, after) = rest.split_at_checked(length)?;
            rest = after;
            memo.files.insert(RelPath::parse(path).ok()?, (stamp, id));
        }
        Some(memo)
    }

    pub(crate) fn save(&self, place: &Path) -> Result<()> {
        let mut bytes = Vec::with_capacity(64 + self.files.len() * (ENTRY_BYTES + 40));
        bytes.extend_from_slice(HEADER);
        bytes.extend_from_slice(&self.at_ns.to_le_bytes());
        for (path, (stamp, id)) in &self.files {
            bytes.extend_from_slice(&stamp.ino.to_le_bytes());
            bytes.extend_from_slice(&stamp.size.to_le_bytes());
            bytes.extend_from_slice(&stamp.mtime_ns.to_le_bytes());
            bytes.extend_from_slice(&stamp.ctime_ns.to_le_bytes());
            bytes.extend_from_slice(id.as_bytes());
            bytes.extend_from_slice(&(path.as_bytes().len() as u32).to_le_bytes());
            bytes.extend_from_slice(path.as_bytes());
        }
        let sum = checksum(&bytes)?;
        bytes.extend_from_slice(sum.as_bytes());
        // Without a memo the next walk hashes again. The checksum shows a torn one.
        let _ = offshoot_sys::write_private(place, &bytes);
        Ok(())
    }
}

fn checksum(bytes: &[u8]) -> Result<ObjectId> {
    offshoot_git::hash(offshoot_core::ObjectKind::Blob, bytes)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat_of(path: &Path) -> Stat {
        let dir = std::fs::File::open(path.parent().unwrap()).unwrap();
        let name = std::ffi::CString::new(path.file_name().unwrap().as_encoded_bytes()).unwrap();
        offshoot_sys::lstat_at(&dir, &name).unwrap()
    }

    #[test]
    fn old_content_is_known_and_young_content_is_not() {
        let host = tempfile::tempdir().unwrap();
        let file = host.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let stat = stat_of(&file);
        let (path, id) = (RelPath::from_normal("file"), offshoot_core::EMPTY_BLOB);
        let mut memo = ForkMemo::begin();
        memo.note(&path, &stat, id);
        assert_eq!(memo.content(&path, &stat), None, "as young as the walk");
        memo.at_ns += 1_000_000_000;
        assert_eq!(memo.content(&path, &stat), Some(id));
        let place = host.path().join("memo");
        memo.save(&place).unwrap();
        assert_eq!(ForkMemo::load(&place).content(&path, &stat), Some(id));
        let whole = std::fs::read(&place).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&place, &whole[..length]).unwrap();
            assert_eq!(ForkMemo::load(&place).content(&path, &stat), None);
        }
        std::fs::write(&file, "y").unwrap();
        assert_eq!(memo.content(&path, &stat_of(&file)), None, "changed");
    }
}
