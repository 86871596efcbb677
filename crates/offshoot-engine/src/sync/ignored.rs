//! What the ignore rules leave out. If only the disk holds it, it goes with its directory, unread, and
//! the answer says how much that was. If it came through us it is followed, path by path.

use std::collections::HashSet;

use offshoot_core::{EntryKind, Layout, RelPath, Result};
use offshoot_fs::{SafeDir, Stat, Walk};
use offshoot_store::{BulkWriter, EntryRow, WorkspaceRow};

use crate::content::index::Index;
use crate::content::rows::open_row_by_key;
use crate::content::too_large::{TooLarge, largest_file};
use crate::sync::Synchronizer;
use crate::sync::disk::DiskRead;
use crate::sync::scan::{DiskChanges, differs};

/// Ignored files that are in no snapshot and no version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredFiles {
    /// How many files and links.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl IgnoredFiles {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files == 0
    }
}

/// What the index has and the ignore rules leave out.
pub(crate) struct Ignored<'a> {
    pub(crate) rows: &'a [EntryRow],
    /// Whether a walk saw the path in spite of that.
    pub(crate) seen: &'a dyn Fn(&RelPath) -> bool,
}

impl Synchronizer {
    /// Ignored files that came through us are ours to follow although a walk skips them.
    pub(crate) fn follow_ignored(
        &self,
        index: &Index<'_>,
        dir: &SafeDir,
        bulk: &BulkWriter,
        ignored: &Ignored<'_>,
        found: &mut DiskChanges,
        too_large: &mut Vec<TooLarge>,
    ) -> Result<()> {
        let largest = largest_file(&self.contents, index.row);
        for row in ignored.rows {
            let path = &row.path;
            if found.contains_key(path) || (ignored.seen)(path) {
                continue;
            }
            let known = index.entry(path)?;
            // No memo of a walk knows it, and it may be large.
            let stat = dir.stat(path)?;
            let remembered = stat.as_ref().and_then(|stat| {
                let id = self.contents.content_ids.get(stat)?;
                known.filter(|known| known.id == Some(id) && known.perm == stat.perm)
            });
            if remembered.is_some() {
                continue;
            }
            let there = match row.kind {
                Some(EntryKind::Dir) => self.directories.entry_on_disk(dir, path)?,
                _ => match self.read_from_disk(dir, path, None, known.as_ref(), largest, bulk)? {
                    DiskRead::Entry(entry, stat) => {
                        if let Some(id) = entry.id.filter(|_| entry.kind == EntryKind::File) {
                            self.contents.content_ids.put(&stat, id);
                        }
                        Some(entry)
                    }
                    DiskRead::Gone => self.directories.entry_on_disk(dir, path)?,
                    DiskRead::Unsettled => continue,
                    DiskRead::TooLarge(file) => {
                        too_large.push(file);
                        continue;
                    }
                },
            };
            // An ignored directory that took the place of a file, or the other way round, is new.
            let was_dir = row.kind == Some(EntryKind::Dir);
            let there = there.filter(|there| (there.kind == EntryKind::Dir) == was_dir);
            if differs(there.as_ref(), known.as_ref()) {
                found.insert(path.clone(), there);
            }
        }
        Ok(())
    }

    /// Counts what lies at paths that a sync left out, by one `stat` for each file and no read.
    /// What came through us is in the index and is not counted. What cannot be looked at is not
    /// either: it must not keep its directory from going.
    pub(crate) fn count_ignored(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        ignored: &[RelPath],
    ) -> Result<IgnoredFiles> {
        let mut counted = IgnoredFiles::default();
        if ignored.is_empty() {
            return Ok(counted);
        }
        let known: HashSet<RelPath> = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let rows = Index::new(self.store(), tx, &now).with_rows()?.all_rows()?;
            Ok(rows.into_iter().map(|row| row.path).collect())
        })?;
        for path in ignored {
            // What a session has beside its directories is ours.
            if row.layout == Layout::Session && !row.layout.may_hold(path, true) {
                continue;
            }
            let mut add = |path: &RelPath, stat: &Stat| {
                if !stat.is_dir() && !known.contains(path) {
                    counted.files += 1;
                    counted.bytes = counted.bytes.saturating_add(stat.size);
                }
                Ok(Walk::Enter)
            };
            let Ok(Some(stat)) = dir.stat(path) else {
                continue;
            };
            let _ = match stat.is_dir() {
                true => dir.walk(path, add),
                false => add(path, &stat).map(drop),
            };
        }
        Ok(counted)
    }
}
