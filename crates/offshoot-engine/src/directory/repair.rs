//! Repairing the directory of a workspace after a process that held its lock died: the store is the
//! truth, and the directory follows it (INV-8).
//!
//! A change is committed to the store durably, and then written to the directory without waiting for
//! the disk. After a kill the directory may lack changes that the process made since it took the lock,
//! which says at which revision that was. After a power cut, files that the kernel had not written may
//! be missing or empty: the history after `synced_revision`, up to which the directory is known to be
//! on disk, has their paths.

use std::collections::{BTreeMap, BTreeSet};

use offshoot_core::{EntryKind, ErrorCode, ObjectId, RelPath, Result};
use offshoot_fs::SafeDir;
use offshoot_store::{Durability, HistoryFilter, HistoryOp, Via, WorkspaceRow};

use crate::content::history_writer::{LineTemplate, changed_row};
use crate::content::incoming::Content;
use crate::content::index::Index;
use crate::content::rows::open_row_by_key;
use crate::directory::Directories;
use crate::directory::disk_entry::DiskEntry;

/// Which changes of a workspace may not be in its directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairScope {
    /// Those of a holder that began at this revision and died. Earlier holders wrote theirs before they
    /// released the lock, and what outside programs did to those since must stay.
    After(i64),
    /// All that are not known to be on disk, because it is not known which of them were written.
    Unsynced,
    /// All that are not known to be on disk, and each of their files may be torn: the machine was
    /// restarted, or the file system mounted anew.
    Torn,
}

/// A path that changed lately.
struct RecentPath {
    /// Every content that it had.
    versions: BTreeSet<ObjectId>,
    /// Whether all of its changes were on disk before they were recorded, as those that a sync found and
    /// those that an update wrote into a new directory.
    in_place: bool,
}

impl Directories {
    /// Repairs the directory of a workspace whose last holder died: finishes or takes back a move of the
    /// whole directory, and writes what the holder committed after `since` and may not have written. The
    /// caller holds the exclusive lock.
    pub(crate) fn repair_abandoned(&self, row: &WorkspaceRow, since: u64) -> Result<()> {
        let row = match self.store().read(|tx| open_row_by_key(tx, row)) {
            Err(error) if error.code() == ErrorCode::WorkspaceNotFound => return Ok(()),
            row => row?,
        };
        if let (true, Some((provider, dirs))) = (row.materialized, self.mount_of(&row)?) {
            // A holder that was about to remove the directory had made it refuse changes.
            provider.thaw(&dirs)?;
        }
        self.ensure_directory_locked(&row)?;
        let since = i64::try_from(since).unwrap_or_default();
        self.repair_directory(&row, RepairScope::After(since))
    }

    /// Writes committed changes again that may not have reached the directory. The caller holds the
    /// exclusive lock.
    pub(crate) fn repair_directory(&self, row: &WorkspaceRow, scope: RepairScope) -> Result<()> {
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        let torn = scope == RepairScope::Torn;
        let may_be_empty = !matches!(scope, RepairScope::After(_));
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
        let after = match scope {
            RepairScope::After(revision) => revision.max(row.synced_revision),
            RepairScope::Unsynced | RepairScope::Torn => row.synced_revision,
        };
        let recent = self.recent_paths(&row, after)?;
        let mut stale = Vec::new();
        for (path, RecentPath { versions, in_place }) in &recent {
            // A kill does not take what was on disk before it was recorded.
            if *in_place && !torn {
                continue;
            }
            let wanted = self
                .store()
                .read(|tx| Index::new(self.store(), tx, &row).entry(path))?;
            let there = self.entry_on_disk(&dir, path)?;
            let as_wanted = match (&wanted, &there) {
                (Some(wanted), Some(there)) => there.equals(wanted),
                (None, None) => true,
                _ => false,
            };
            // A file that is too large to be read is the user's, and stays.
            let unread =
                there.is_some_and(|there| there.kind == EntryKind::File && there.id.is_none());
            // So is a directory with unrecorded entries where a file should be.
            let occupied = wanted.is_some_and(|wanted| !wanted.is_dir())
                && there.is_some_and(|there| there.kind == EntryKind::Dir)
                && dir
                    .names(path)?
                    .iter()
                    .any(|(name, _)| !recent.contains_key(&path.join_name(name)));
            if as_wanted || unread || occupied {
                continue;
            }
            let ours = there.is_none_or(|there| {
                there.kind == EntryKind::Dir
                    || (may_be_empty && there.size == 0)
                    || there.id.is_some_and(|id| versions.contains(&id))
            });
            if !ours && !torn {
                // An outside program changed it later; the next sync records that.
                continue;
            }
            if let (false, Some(there)) = (ours, there) {
                self.keep_as_version(&row, &dir, path, &there)?;
            }
            stale.push(path.clone());
        }
        if !stale.is_empty() {
            self.project_paths(&row, &stale)?;
        }
        Ok(())
    }

    /// The paths of changes after a revision.
    fn recent_paths(
        &self,
        row: &WorkspaceRow,
        after_revision: i64,
    ) -> Result<BTreeMap<RelPath, RecentPath>> {
        let lines = self.store().read(|tx| {
            tx.history(&HistoryFilter {
                workspace: Some(row.key),
                after_revision,
                ..HistoryFilter::default()
            })
        })?;
        let mut recent: BTreeMap<RelPath, RecentPath> = BTreeMap::new();
        for line in lines {
            let line = line.line;
            if line.kind.is_none() {
                continue;
            }
            for path in [Some(line.path), line.from].into_iter().flatten() {
                let recent = recent.entry(path).or_insert_with(|| RecentPath {
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

    /// Records content as a version that is on disk and about to be replaced (INV-5).
    fn keep_as_version(
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
