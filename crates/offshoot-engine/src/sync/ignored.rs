//! Files that the ignore rules leave out of a walk.
//!
//! An ignored file that only the disk holds is removed with its directory without being read, and the
//! answer counts it. An ignored file that was written through Offshoot has a row, and is compared path
//! by path.

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

/// Rows of the index that the ignore rules leave out of a walk.
pub(crate) struct Ignored<'a> {
    pub(crate) rows: &'a [EntryRow],
    /// Whether the walk saw a path all the same.
    pub(crate) seen: &'a dyn Fn(&RelPath) -> bool,
}

impl Synchronizer {
    /// Compares ignored entries that the index has with the disk, because the walk skips them.
    pub(crate) fn compare_ignored_rows(
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
            // No memo has an ignored file, and it may be large, so its content id is cached.
            let stat = dir.stat(path)?;
            let cached = stat.as_ref().and_then(|stat| {
                let id = self.contents.content_ids.get(stat)?;
                known.filter(|known| known.id == Some(id) && known.perm == stat.perm)
            });
            if cached.is_some() {
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
                    DiskRead::NoFile(dir) => dir,
                    DiskRead::Unsettled => continue,
                    DiskRead::TooLarge(file) => {
                        too_large.push(file);
                        continue;
                    }
                },
            };
            // An ignored directory in the place of a file, or the other way round, is another entry.
            let was_dir = row.kind == Some(EntryKind::Dir);
            let there = there.filter(|there| (there.kind == EntryKind::Dir) == was_dir);
            if differs(there.as_ref(), known.as_ref()) {
                found.insert(path.clone(), there);
            }
        }
        Ok(())
    }

    /// Counts the files at ignored paths, by one `stat` for each. Files that the index has, and those
    /// that came with the setup of the project, are not counted. Files that cannot be accessed are not counted either: they must not prevent the removal
    /// of the directory.
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
        let setup = self.directories.setup_of(row)?;
        for path in ignored {
            // Offshoot itself made what is beside the directories of a session.
            if row.layout == Layout::Session && !row.layout.may_hold(path, true) {
                continue;
            }
            let mut add = |path: &RelPath, stat: &Stat| {
                let came = setup.as_ref().is_some_and(|setup| setup.has(path, stat));
                if !stat.is_dir() && !came && !known.contains(path) {
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
