//! Putting the directory of a workspace right after its holder died: the store is the truth, the
//! directory follows it (INV-8).
//!
//! A change is committed to the store, durably, and then written to the directory without waiting
//! for the disk. So after a kill a directory may lack the last change of a process, and after a
//! power cut it may lack, or hold empty, whatever the kernel had not written yet. Both are found
//! in the history after `synced_revision`, the revision up to which the directory is known to be
//! on disk.

use std::collections::{BTreeMap, BTreeSet};

use offshoot_core::{EntryKind, ErrorCode, ObjectId, RelPath, Result};
use offshoot_fs::{SafeDir, WorkspaceLock};
use offshoot_store::{Durability, HistoryFilter, HistoryOp, Via, WorkspaceRow};

use crate::content::history_writer::{LineTemplate, changed_row};
use crate::content::incoming::Content;
use crate::content::index::Index;
use crate::content::rows::open_row_by_key;
use crate::context::describe_busy;
use crate::directory::Directories;
use crate::directory::disk_entry::DiskEntry;

/// A path that changed lately.
struct Recent {
    /// Every content it had.
    versions: BTreeSet<ObjectId>,
    /// Whether all of its changes were on disk before they were recorded: what a sync found there,
    /// and what an update put into the directory that it made.
    in_place: bool,
}

impl Directories {
    /// The lock that keeps everyone else away from the workspace. What a holder who died left half
    /// done in its directory is put right.
    pub(crate) fn exclusive(&self, row: &WorkspaceRow) -> Result<WorkspaceLock> {
        let mut lock = self
            .context
            .locks
            .exclusive(
                &crate::context::Context::lock_name(row),
                self.context.options.lock_timeout,
            )
            .map_err(|error| describe_busy(error, &format!("`{}`", row.id)))?;
        // Where it cannot be put right now, the next holder or the next start tries again. It must
        // be possible to delete a workspace on a full disk.
        if lock.is_abandoned() && self.repair_abandoned(row).unwrap_or(false) {
            lock.set_repaired();
        }
        Ok(lock)
    }

    /// Repairs what a dead holder left, if that is the content of the directory. A directory that it
    /// was moving is left to the start of a process, which knows what is on disk. Returns whether all
    /// is right again.
    fn repair_abandoned(&self, row: &WorkspaceRow) -> Result<bool> {
        let row = match self.store().read(|tx| open_row_by_key(tx, row)) {
            Err(error) if error.code() == ErrorCode::WorkspaceNotFound => return Ok(true),
            row => row?,
        };
        let moving =
            row.materialized && (!self.shows_directory(&row)? || self.is_replaced(&row)?);
        if moving {
            return Ok(false);
        }
        self.repair_directory(&row, false)?;
        Ok(true)
    }

    /// Brings a directory in line with what was committed and may not have reached it. `rebooted`
    /// says that the machine was started since, so that nothing in it can be relied on.
    pub(crate) fn repair_directory(&self, row: &WorkspaceRow, rebooted: bool) -> Result<()> {
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        if !row.materialized {
            return self
                .discard_dir(&row)
                .and_then(|()| self.mark_synced(&row, row.revision));
        }
        if !self.context.data.workspace(&row.id).exists() {
            let mut absent = row.clone();
            absent.materialized = false;
            return self.materialize(&absent).map(drop);
        }
        let dir = self.dir_of(&row)?;
        dir.clear_stages()?;
        let recent = self.recent_paths(&row)?;
        let mut stale = Vec::new();
        for (path, Recent { versions, in_place }) in &recent {
            // What was on disk before it was recorded is there after a kill.
            if *in_place && !rebooted {
                continue;
            }
            let wanted = self
                .store()
                .read(|tx| Index::new(self.store(), tx, &row).entry(path))?;
            let there = self.entry_on_disk(&dir, path)?;
            let as_wanted = match (&wanted, &there) {
                (Some(wanted), Some(there)) => there.is(wanted),
                (None, None) => true,
                _ => false,
            };
            // What is too large to be read is the user's, and stays.
            let unread =
                there.is_some_and(|there| there.kind == EntryKind::File && there.id.is_none());
            if as_wanted || unread {
                continue;
            }
            let ours = there.is_none_or(|there| {
                there.kind == EntryKind::Dir
                    || there.size == 0
                    || there.id.is_some_and(|id| versions.contains(&id))
            });
            if !ours && !rebooted {
                // Somebody outside changed it after us; the next sync records that.
                continue;
            }
            if let (false, Some(there)) = (ours, there) {
                self.keep_found(&row, &dir, path, &there)?;
            }
            stale.push(path.clone());
        }
        if !stale.is_empty() {
            self.project_paths(&row, &stale)?;
        }
        Ok(())
    }

    /// The paths of changes that may not be on disk, each with every content it had.
    fn recent_paths(&self, row: &WorkspaceRow) -> Result<BTreeMap<RelPath, Recent>> {
        let lines = self.store().read(|tx| {
            tx.history(&HistoryFilter {
                workspace: Some(row.key),
                after_revision: row.synced_revision,
                ..HistoryFilter::default()
            })
        })?;
        let mut recent: BTreeMap<RelPath, Recent> = BTreeMap::new();
        for line in lines {
            let line = line.line;
            if line.kind.is_none() {
                continue;
            }
            for path in [Some(line.path), line.from].into_iter().flatten() {
                let recent = recent.entry(path).or_insert_with(|| Recent {
                    versions: BTreeSet::new(),
                    in_place: true,
                });
                let contents = [line.before, line.after].into_iter().flatten();
                recent.versions.extend(contents);
                recent.in_place &= matches!(line.via, Via::Sync | Via::Update);
            }
        }
        Ok(recent)
    }

    /// Keeps content that recovery found on disk and is about to replace, as a version (INV-5).
    fn keep_found(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        path: &RelPath,
        there: &DiskEntry,
    ) -> Result<()> {
        let incoming = match there.kind {
            EntryKind::Dir => return Ok(()),
            EntryKind::Symlink => self
                .contents
                .receive_on_full_disk(Content::Bytes(&dir.read_link(path)?))?,
            EntryKind::File => self
                .contents
                .receive_on_full_disk(Content::Stream(&mut dir.open_file(path)?.0))?,
        };
        let at = self.context.now();
        let cause = offshoot_core::Cause::by(offshoot_core::Operator::outside());
        self.store().write(Durability::Synced, |tx| {
            let now = open_row_by_key(tx, row)?;
            let wanted = Index::new(self.store(), tx, &now).entry(path)?;
            let next = changed_row(&now, at);
            tx.put_object(&incoming.object)?;
            let line = LineTemplate {
                row: &next,
                at,
                via: Via::Recovery,
                cause: &cause,
            };
            let mut found = line.file(HistoryOp::Write, path, there.kind);
            found.before = wanted.and_then(|entry| entry.id);
            found.after = Some(incoming.id);
            found.size = incoming.size;
            tx.add_history(&found)?;
            let system = offshoot_core::Cause::by(offshoot_core::Operator::system());
            let line = LineTemplate {
                row: &next,
                at,
                via: Via::Recovery,
                cause: &system,
            };
            let op = if wanted.is_some() {
                HistoryOp::Write
            } else {
                HistoryOp::Delete
            };
            let mut back = line.file(op, path, there.kind);
            back.before = Some(incoming.id);
            back.after = wanted.and_then(|entry| entry.id);
            tx.add_history(&back)?;
            tx.update_workspace(&next)
        })
    }
}
