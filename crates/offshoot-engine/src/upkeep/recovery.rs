//! Putting right what an unclean stop left: the store is the truth, directories follow it (INV-8).
//!
//! Before anybody may use the data directory, forks are put right and so is every directory that
//! may lack what was committed (`directory::repair`): the cost follows what was under way. What
//! takes long and changes nothing that a caller can see, such as removing what a killed process
//! left and waiting for the disk, is done after the start ([`Upkeep::clear_up`]).

use std::path::PathBuf;
use std::sync::Arc;

use offshoot_core::{RelPath, Result};
use offshoot_fs::{ForkDirs, NameLock, STAGE_PREFIX, SafeDir};
use offshoot_store::{Durability, WorkspaceRow};

use crate::context::jobs::JobKind;
use crate::context::process_marker::{DeadProcess, left_by_process};
use crate::directory::repair::RepairScope;
use crate::upkeep::Upkeep;

const BOOT_SETTING: &str = "boot_id";
/// What processes leave in `tmp/` is removed when it is this old, or when nobody else lives.
const LEFTOVER_SECONDS: u64 = 3_600;

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

impl Upkeep {
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
        offshoot_fs::sweep_probes(&self.context.data.forks());
        offshoot_fs::sweep_probes(&self.context.data.root());
        let (mut all_well, forks) = self.recover_forks()?;
        // Not before every fork has its rows again: they name layers.
        if all_well {
            self.directories.move_orphan_layers_to_trash()?;
        }
        let mount = self.context.options.mount;
        let worst = dead
            .iter()
            .map(|marker| left_by_process(marker, mount))
            .max();
        let scope = match worst {
            _ if rebooted => Some(RepairScope::Torn),
            Some(DeadProcess::WasCutOff) => Some(RepairScope::Torn),
            Some(DeadProcess::LeftUnwritten) => Some(RepairScope::Unsynced),
            Some(DeadProcess::LeftLocks) | None => None,
        };
        for row in self.store().read(|tx| tx.unsynced_workspaces())? {
            // A directory that cannot be put right, such as one on a disk that is full or that is
            // in use right now, must not keep everybody from all the others.
            all_well &= self.recover_directory(&row, scope).is_ok();
        }
        if !all_well {
            // The marks stay, so the next start tries again; so does ours, if it is the reason.
            self.context.need_recovery();
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
        let upkeep = self.clone();
        let work = move || upkeep.clear_up(leftovers);
        self.context.queue_job(JobKind::ClearUp, work);
        Ok(())
    }

    /// Repairs the directory of a workspace, within the scope that all have or else if its last holder
    /// died.
    fn recover_directory(&self, row: &WorkspaceRow, scope: Option<RepairScope>) -> Result<()> {
        let timeout = self.context.options.lock_timeout;
        let mut lock = self.directories.exclusive_unrepaired(row.key, timeout)?;
        match (scope, lock.abandoned_since()) {
            (Some(scope), _) => self.directories.repair_directory(row, scope)?,
            (None, Some(since)) => self.directories.repair_abandoned(row, since)?,
            (None, None) => {}
        }
        self.directories.set_repaired(row.key, &mut lock)
    }

    /// The part of recovery that runs in the background. The marks of dead processes go last: until
    /// then, the next start does it all again.
    pub(crate) fn clear_up(&self, leftovers: Leftovers) -> Result<()> {
        let mut all_well = leftovers.all_well;
        for (dirs, name) in leftovers.forks {
            let cleaned = self.directories.provider_by_files(&dirs);
            all_well &= cleaned.and_then(|by| by.cleanup(&dirs)).is_ok();
            drop(name);
        }
        self.clear_tmp();
        if !all_well {
            self.context.need_recovery();
            return Ok(());
        }
        self.directories.sync_dirs(|_| true)?;
        if !leftovers.marks.is_empty() {
            // It runs in the background, and requests are served meanwhile.
            let contents = Arc::clone(&self.contents);
            let work = move || contents.recount_all().map(drop);
            self.context.queue_job(JobKind::Other, work);
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
        let Ok(entries) = std::fs::read_dir(self.context.data.tmp()) else {
            return;
        };
        let Ok(tmp) = SafeDir::open(self.context.data.tmp()) else {
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
}
