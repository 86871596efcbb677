//! Recording what outside programs did to one path, before Offshoot changes or reads that path.

use offshoot_core::{RelPath, Result, WorkspaceId};
use offshoot_fs::SafeDir;
use offshoot_store::{Durability, WorkspaceRow};

use crate::content::index::Index;
use crate::content::rows::open_row_by_key;
use crate::content::too_large::largest_file;
use crate::sync::Synchronizer;
use crate::sync::disk::{DiskRead, is_too_deep};
use crate::sync::scan::{DiskChanges, differs, is_being_changed};

/// How often a path may turn out to lead elsewhere while its links are followed.
pub(crate) const MAX_DETOURS: usize = 8;

impl Synchronizer {
    /// Locks a workspace and records what outside programs did to one path.
    pub(crate) fn lock_and_sync_path(&self, id: &WorkspaceId, path: &RelPath) -> Result<()> {
        let row = self.contents.open_row(id)?;
        if !row.handed_out || !row.materialized {
            return Ok(());
        }
        let _lock = self.directories.exclusive(&row)?;
        self.directories.ensure_directory_locked(&row)?;
        let dir = self.directories.dir_of(&row)?;
        self.sync_path(&row, &dir, path)
    }

    /// Records a path that a caller names even if it is ignored, which a walk would leave out.
    pub(crate) fn sync_named_path(&self, row: &WorkspaceRow, path: &RelPath) -> Result<()> {
        if !row.handed_out || !row.materialized {
            return Ok(());
        }
        self.sync_path(row, &self.directories.dir_of(row)?, path)
    }

    /// Records outside changes to one path and to the directories above it, so that a change by
    /// Offshoot starts from what is on disk. The caller holds the exclusive lock.
    pub(crate) fn sync_path(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        path: &RelPath,
    ) -> Result<()> {
        // A link leads the change to another path, which must be recorded as well. Recording it may
        // show further new links, so this repeats until the path leads nowhere new.
        let mut at = path.clone();
        for _ in 0..MAX_DETOURS {
            self.directories.refuse_own_git(row, &at)?;
            let leads_to = match self.sync_steps_towards(row, dir, &at, Some(path))? {
                Some(known) => known,
                None => self.store().read(|tx| {
                    let now = open_row_by_key(tx, row)?;
                    Index::new(self.store(), tx, &now).resolve(path)
                }),
            };
            match leads_to {
                Ok(next) if next != at => at = next,
                // The change itself refuses a link that leaves the workspace.
                _ => break,
            }
        }
        Ok(())
    }

    /// Records outside changes to one path and the directories above it, without following links.
    pub(crate) fn sync_steps(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        path: &RelPath,
    ) -> Result<()> {
        self.sync_steps_towards(row, dir, path, None).map(drop)
    }

    /// Records outside changes like [`sync_steps`](Self::sync_steps). If there were none, it also
    /// resolves the path `from` in the same view of the store.
    fn sync_steps_towards(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        path: &RelPath,
        from: Option<&RelPath>,
    ) -> Result<Option<Result<RelPath>>> {
        let bulk = self.store().bulk();
        let mut found = DiskChanges::new();
        let largest = largest_file(&self.contents, row);
        let leads_to = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let index = Index::new(self.store(), tx, &now);
            found.clear();
            for step in path.dirs_above().into_iter().chain([path.clone()]) {
                if step.is_root() {
                    continue;
                }
                let known = index.entry(&step)?;
                if known.is_none() && is_too_deep(step.as_bytes()) {
                    break;
                }
                let known_step = known.as_ref();
                let there =
                    match self.read_from_disk(dir, &step, None, known_step, largest, &bulk)? {
                        DiskRead::Entry(entry, _) => Some(entry),
                        DiskRead::NoFile(dir) => dir,
                        // No version holds the file, so nothing may replace it.
                        DiskRead::TooLarge(file) => return Err(file.refuse()),
                        DiskRead::Unsettled => return Err(is_being_changed(&step)),
                    };
                if differs(there.as_ref(), known.as_ref()) {
                    found.insert(step, there);
                }
            }
            let from = from.filter(|_| found.is_empty());
            Ok(from.map(|from| index.resolve(from)))
        })?;
        if found.is_empty() {
            return Ok(leads_to);
        }
        let bulk = bulk.finish()?;
        self.record_changes(row, &found, Some(&bulk), None, Durability::Synced)?;
        Ok(None)
    }
}
