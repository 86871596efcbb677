//! The entries that a directory has on disk, as opposed to those of the index.

use offshoot_core::{EntryKind, ObjectId, RelPath, Result, Timestamp};
use offshoot_fs::{SafeDir, Walk};
use offshoot_store::WorkspaceRow;

use crate::content::index::Entry;
use crate::content::workspace_row::is_session_metadata;
use crate::directory::Directories;

impl Directories {
    /// The entry at a path of a directory, with the id of its content.
    pub(crate) fn entry_on_disk(&self, dir: &SafeDir, path: &RelPath) -> Result<Option<DiskEntry>> {
        let Some(stat) = dir.stat(path)? else {
            return Ok(None);
        };
        let Some(kind) = stat.entry_kind() else {
            return Ok(None);
        };
        let (id, size) = match kind {
            EntryKind::Dir => (None, 0),
            EntryKind::Symlink => {
                let target = dir.read_link(path)?;
                let id = offshoot_git::hash(offshoot_core::ObjectKind::Blob, &target)?;
                (Some(id), target.len() as i64)
            }
            EntryKind::File => {
                let (file, stat) = dir.open_file(path)?;
                // A file that is too large to be read has no id, so it equals no entry of an index.
                let id = match stat.size > self.context.options.max_file_bytes {
                    true => None,
                    false => Some(crate::content::incoming::hash_file(&file, stat.size)?),
                };
                (id, stat.size as i64)
            }
        };
        let perm = if kind == EntryKind::Symlink {
            0o777
        } else {
            stat.perm
        };
        Ok(Some(DiskEntry {
            kind,
            perm,
            id,
            size,
        }))
    }
}

/// The entry at a path of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskEntry {
    pub(crate) kind: EntryKind,
    pub(crate) perm: u32,
    pub(crate) id: Option<ObjectId>,
    pub(crate) size: i64,
}

impl DiskEntry {
    /// Whether it equals the entry of an index.
    pub(crate) fn equals(&self, entry: &Entry) -> bool {
        self.kind == entry.kind && self.id == entry.id && self.perm == entry.perm
    }
}

/// Counts what is in a directory.
pub(crate) fn count_on_disk(row: &WorkspaceRow, dir: &SafeDir) -> Result<DiskUsage> {
    let mut counted = DiskUsage::default();
    dir.walk(&RelPath::root(), |path, stat| {
        if is_session_metadata(row, path) {
            return Ok(Walk::Skip);
        }
        counted.disk_usage += stat.disk_usage() as i64;
        match stat.entry_kind() {
            Some(EntryKind::Dir) => counted.dirs += 1,
            Some(_) => {
                counted.files += 1;
                counted.largest = counted.largest.max(stat.size);
                let size = i64::try_from(stat.size).unwrap_or(i64::MAX);
                counted.bytes = counted.bytes.saturating_add(size);
                counted.newest = counted.newest.max(stat.modified());
            }
            None => {}
        }
        Ok(Walk::Enter)
    })?;
    Ok(counted)
}

/// What is in a directory.
#[derive(Default)]
pub(crate) struct DiskUsage {
    pub(crate) files: i64,
    pub(crate) dirs: i64,
    pub(crate) bytes: i64,
    /// The bytes of the largest file.
    pub(crate) largest: u64,
    pub(crate) disk_usage: i64,
    pub(crate) newest: Timestamp,
}
