//! What a copied fork looked like when it was made, so that its changes are found by one `stat`
//! per file.
//!
//! The record is a cache and not synced: one that is missing, torn or of another version is none,
//! and then everything in the fork may have changed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use offshoot_core::RelPath;
use offshoot_sys::{FileKind, Stat};

use crate::difference::BaseEntry;

const HEADER: &[u8] = b"offshoot fork record 1\n";

/// The parts of a stat that change with the file. No program can set the change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordedStat {
    pub(super) base: BaseEntry,
    pub(super) ino: u64,
    mtime_ns: i128,
    pub(super) ctime_ns: i128,
    /// Whether only the setup layer has it, see [`crate::SETUP_LAYER`].
    pub(super) of_setup: bool,
}

impl RecordedStat {
    pub(super) fn of(stat: &Stat) -> RecordedStat {
        RecordedStat {
            base: stat.into(),
            ino: stat.ino,
            mtime_ns: stat.mtime_ns,
            ctime_ns: stat.ctime_ns,
            of_setup: false,
        }
    }

    /// Whether the file was certainly not touched since.
    pub(super) fn untouched(&self, now: &Stat) -> bool {
        let now = RecordedStat {
            of_setup: self.of_setup,
            ..RecordedStat::of(now)
        };
        *self == now
    }
}

/// All files, links and directories of a fork as it was made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ForkRecord {
    pub(super) entries: BTreeMap<RelPath, RecordedStat>,
}

impl ForkRecord {
    pub(super) fn write(&self, place: &Path) -> io::Result<()> {
        let mut bytes = HEADER.to_vec();
        for (path, entry) in &self.entries {
            let kind = match entry.base.kind {
                FileKind::File => b'f',
                FileKind::Symlink => b'l',
                FileKind::Dir => b'd',
                FileKind::Other(_) => continue,
            };
            bytes.push(match entry.of_setup {
                true => kind.to_ascii_uppercase(),
                false => kind,
            });
            bytes.extend_from_slice(&entry.base.perm.to_le_bytes());
            bytes.extend_from_slice(&entry.base.size.to_le_bytes());
            bytes.extend_from_slice(&entry.ino.to_le_bytes());
            bytes.extend_from_slice(&entry.mtime_ns.to_le_bytes());
            bytes.extend_from_slice(&entry.ctime_ns.to_le_bytes());
            let path = path.as_bytes();
            bytes.extend_from_slice(&(path.len() as u32).to_le_bytes());
            bytes.extend_from_slice(path);
        }
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        offshoot_sys::write_private(place, &bytes)
    }

    /// None if there is no record that can be relied on.
    pub(super) fn read(place: &Path) -> Option<ForkRecord> {
        let bytes = fs::read(place).ok()?;
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(body) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut rest = body.strip_prefix(HEADER)?;
        let mut entries = BTreeMap::new();
        while !rest.is_empty() {
            let [letter] = take::<1>(&mut rest)?;
            let kind = match letter.to_ascii_lowercase() {
                b'f' => FileKind::File,
                b'l' => FileKind::Symlink,
                b'd' => FileKind::Dir,
                _ => return None,
            };
            let perm = u32::from_le_bytes(take(&mut rest)?);
            let size = u64::from_le_bytes(take(&mut rest)?);
            let ino = u64::from_le_bytes(take(&mut rest)?);
            let mtime_ns = i128::from_le_bytes(take(&mut rest)?);
            let ctime_ns = i128::from_le_bytes(take(&mut rest)?);
            let length = u32::from_le_bytes(take(&mut rest)?) as usize;
            let (path, after) = rest.split_at_checked(length)?;
            rest = after;
            let entry = RecordedStat {
                base: BaseEntry { kind, perm, size },
                ino,
                mtime_ns,
                ctime_ns,
                of_setup: letter.is_ascii_uppercase(),
            };
            entries.insert(RelPath::parse(path).ok()?, entry);
        }
        Some(ForkRecord { entries })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

/// FNV-1a, which is enough to detect a torn file; no other program writes here.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_written_and_a_torn_one_is_none() {
        let host = tempfile::tempdir().unwrap();
        let place = host.path().join("record");
        assert_eq!(ForkRecord::read(&place), None);
        let mut record = ForkRecord::default();
        for (number, name) in [&b"a"[..], b"a/\xff\n", b"z"].into_iter().enumerate() {
            let entry = RecordedStat {
                base: BaseEntry {
                    kind: FileKind::File,
                    perm: 0o644,
                    size: number as u64,
                },
                ino: 7,
                mtime_ns: -1,
                ctime_ns: i128::from(u64::MAX),
                of_setup: number == 1,
            };
            record.entries.insert(RelPath::from_normal(name), entry);
        }
        record.write(&place).unwrap();
        assert_eq!(ForkRecord::read(&place), Some(record));
        let whole = fs::read(&place).unwrap();
        for length in 0..whole.len() {
            fs::write(&place, &whole[..length]).unwrap();
            assert_eq!(ForkRecord::read(&place), None, "{length}");
        }
        let mut turned = whole.clone();
        turned[40] ^= 1;
        fs::write(&place, &turned).unwrap();
        assert_eq!(ForkRecord::read(&place), None);
    }
}
