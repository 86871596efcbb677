//! Putting right what an unclean stop left: the store is the truth, directories follow it (INV-8).
//!
//! A change is committed to the store, durably, and then written to the directory without waiting
//! for the disk. So after a kill a directory may lack the last change of a process, and after a
//! power cut it may lack, or hold empty, whatever the kernel had not written yet. Both are found
//! in the history after `synced_revision`, the revision up to which the directory is known to be
//! on disk.
//!
//! Before anybody may use the data directory, only that is done: its cost follows what was under
//! way. What takes long and changes nothing that anybody sees, such as removing what a killed
//! process left and waiting for the disk, is done behind the start ([`Engine::clear_up`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use offshoot_core::{EntryKind, ObjectId, RelPath, Result};
use offshoot_fs::{ForkDirs, NameLock, STAGE_PREFIX, SafeDir};
use offshoot_store::{Durability, HistoryFilter, HistoryOp, Via, WorkspaceRow};

use crate::content::history_writer::{LineFor, changed_row};
use crate::content::incoming::Content;
use crate::content::index::Index;
use crate::content::rows::open_row_by_key;
use crate::directory::disk_entry::DiskEntry;
use crate::engine::Engine;
use crate::upkeep::jobs::Job;

const BOOT_SETTING: &str = "boot_id";
/// What processes leave in `tmp/` is removed when it is this old, or when nobody else lives.
const LEFTOVER_SECONDS: u64 = 3_600;

/// A path that changed lately.
struct Recent {
    /// Every content it had.
    versions: BTreeSet<ObjectId>,
    /// Whether all of its changes were on disk before they were recorded: what a sync found there,
    /// and what an update put into the directory that it made.
    in_place: bool,
}

/// What is left to do once a data directory can be used again.
pub(crate) struct Leftovers {
    /// Of processes that did not end well.
    marks: Vec<PathBuf>,
    /// The start of the machine, if it is a new one.
    boot: Option<String>,
    /// Directories that belong to no open fork. Until they are gone, their names stay taken.
    forks: Vec<(ForkDirs, NameLock)>,
    /// Whether everything before went well.
    all_well: bool,
}

impl Engine {
    /// Called when the data directory is opened. `dead` are the marks of processes that did not
    /// end well.
    pub(crate) fn recover(&self, dead: Vec<PathBuf>) -> Result<()> {
        let boot = offshoot_sys::boot_id().unwrap_or_default();
        let last_boot = self.store().read(|tx| tx.setting(BOOT_SETTING))?;
        let rebooted = last_boot.as_deref() != Some(&boot);
        if dead.is_empty() && !rebooted {
            return Ok(());
        }
        // Where earlier versions tried providers.
        offshoot_fs::sweep_probes(&self.inner.data.forks());
        offshoot_fs::sweep_probes(&self.inner.data.place());
        let (mut all_well, forks) = self.recover_forks()?;
        // Not before every fork has its rows again: they name layers.
        if all_well {
            self.sweep_orphan_layers()?;
        }
        for row in self.store().read(|tx| tx.unsynced_workspaces())? {
            // A directory that cannot be put right, such as one on a disk that is full or that is
            // in use right now, must not keep everybody from all the others.
            let recovered = self
                .exclusive(&row)
                .and_then(|_lock| self.recover_workspace(&row, rebooted));
            all_well &= recovered.is_ok();
        }
        if !all_well {
            // The marks stay, so the next start tries again; so does ours, if it is the reason.
            self.inner.needs_recovery.store(true, Ordering::Relaxed);
        }
        let killed = !dead.is_empty();
        let leftovers = Leftovers {
            marks: dead,
            boot: rebooted.then_some(boot),
            forks,
            all_well,
        };
        if !killed {
            // A new data directory, or the machine was shut down in an orderly manner.
            return self.clear_up(leftovers);
        }
        self.later(Job::ClearUp(Box::new(leftovers)));
        Ok(())
    }

    /// The part of recovery that nobody has to wait for. The marks of dead processes go last: until
    /// then, the next start does it all again.
    pub(crate) fn clear_up(&self, leftovers: Leftovers) -> Result<()> {
        let mut all_well = leftovers.all_well;
        for (dirs, name) in leftovers.forks {
            let cleaned = self.provider_seen_in(&dirs);
            all_well &= cleaned.and_then(|by| by.cleanup(&dirs)).is_ok();
            drop(name);
        }
        self.clear_tmp();
        if !all_well {
            self.inner.needs_recovery.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.sync_dirs(|_| true)?;
        if !leftovers.marks.is_empty() {
            // Nobody waits for it, and nobody is refused anything meanwhile.
            self.later(Job::Recount);
        }
        if let Some(boot) = leftovers.boot {
            self.store()
                .write(Durability::Synced, |tx| tx.put_setting(BOOT_SETTING, &boot))?;
        }
        for mark in leftovers.marks {
            let _ = std::fs::remove_file(mark);
        }
        Ok(())
    }

    /// What was being built or thrown away is of no use to anyone.
    fn clear_tmp(&self) {
        let Ok(entries) = std::fs::read_dir(self.inner.data.tmp()) else {
            return;
        };
        let Ok(tmp) = SafeDir::open(self.inner.data.tmp()) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.as_encoded_bytes();
            let old = entry
                .metadata()
                .and_then(|meta| meta.modified())
                .ok()
                .and_then(|at| at.elapsed().ok())
                .is_some_and(|age| age.as_secs() > LEFTOVER_SECONDS);
            let may_be_in_use = name.starts_with(b"build-") || name.starts_with(STAGE_PREFIX);
            if name.starts_with(b"trash-") || (may_be_in_use && old) {
                let _ = tmp.remove_tree(&RelPath::from_normal(name));
            }
        }
    }

    fn recover_workspace(&self, row: &WorkspaceRow, rebooted: bool) -> Result<()> {
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        if !row.materialized {
            return self
                .discard_dir(&row)
                .and_then(|()| self.mark_synced(&row, row.revision));
        }
        if !self.inner.data.workspace(&row.id).exists() {
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
            EntryKind::Symlink => self.take_in_always(Content::Bytes(&dir.read_link(path)?))?,
            EntryKind::File => self.take_in_always(Content::Stream(&mut dir.open_file(path)?.0))?,
        };
        let at = self.now();
        let cause = offshoot_core::Cause::by(offshoot_core::Operator::outside());
        self.store().write(Durability::Synced, |tx| {
            let now = open_row_by_key(tx, row)?;
            let wanted = Index::new(self.store(), tx, &now).entry(path)?;
            let next = changed_row(&now, at);
            tx.put_object(&incoming.object)?;
            let line = LineFor {
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
            let line = LineFor {
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
