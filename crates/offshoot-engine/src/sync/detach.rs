//! Taking the directory of a workspace away without losing what somebody writes to it meanwhile.
//!
//! After the last look nobody may change it, and whoever could still do so is found before it goes
//! (INV-5). A mount is made to refuse changes, which the kernel grants only if no file is open for
//! writing. A plain directory moves aside, where nobody finds it by its path; whoever holds a part
//! of it is found among the processes. Then it is looked at for the last time. If somebody uses it,
//! or the rest fails, it is put back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_fs::{ForkDirs, Provider, SafeDir, Uses, find_user};
use offshoot_store::{Durability, WorkspaceRow};

use crate::content::rows::open_row_by_key;
use crate::directory::aside::{cannot_move, occupied};
use crate::sync::Synchronizer;
use crate::sync::ignored::IgnoredFiles;
use crate::sync::scan::Synced;

/// So long a directory may look used by chance: a process that any thread starts holds all open
/// files for the moment until it becomes another program.
const BUSY_GRACE: Duration = Duration::from_millis(200);

/// A directory that nobody changes any more. Dropping this puts it back.
pub(crate) struct Detached<'a> {
    sync: &'a Synchronizer,
    row: WorkspaceRow,
    how: DetachState,
}

enum DetachState {
    /// There is none, or nobody outside knows of it.
    Nothing,
    /// It refuses changes.
    Frozen(Box<dyn Provider>, ForkDirs),
    /// It stands elsewhere.
    Aside(PathBuf),
}

impl Synchronizer {
    /// Takes a directory out of everybody's reach; `workspace_busy` if somebody uses it. The caller
    /// holds the exclusive lock.
    pub(crate) fn detach(&self, row: &WorkspaceRow, uses: Uses) -> Result<Detached<'_>> {
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        let known = row.handed_out || uses == Uses::Any;
        let mut detached = Detached {
            sync: self,
            row,
            how: DetachState::Nothing,
        };
        let row = &detached.row;
        if !row.materialized || !known {
            return Ok(detached);
        }
        self.directories.bring_back_held(row)?;
        // What killed writers staged; also makes sure that it is there, or mounted.
        self.directories.dir_of(row)?.clear_stages()?;
        if let Some((provider, dirs)) = self.directories.mount_of(row)? {
            provider.freeze(&dirs)?;
            detached.how = DetachState::Frozen(provider, dirs);
            return Ok(detached);
        }
        let aside = self.directories.aside_of(row.key);
        if aside.exists() {
            return Err(occupied());
        }
        std::fs::rename(self.context.data.workspace(&row.id), &aside).map_err(cannot_move)?;
        detached.how = DetachState::Aside(aside.clone());
        let started = Instant::now();
        while let Some(who) = find_user(&aside, uses)? {
            if started.elapsed() > BUSY_GRACE {
                return Err(busy(&who));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(detached)
    }
}

impl Detached<'_> {
    /// Records what outside programs changed, for the last time.
    pub(crate) fn sync(&self, include_ignored: bool, durability: Durability) -> Result<Synced> {
        // As it was when it was detached: nobody else has changed it since, who would need the lock.
        let row = &self.row;
        if !row.handed_out || !row.materialized {
            return Ok(Synced::default());
        }
        let (dir, place) = self.open()?;
        self.sync
            .sync_directory(row, &dir, &place, include_ignored, durability)
    }

    /// DetachState much of what that look left out goes with the directory.
    pub(crate) fn count_ignored(&self, synced: &Synced) -> Result<IgnoredFiles> {
        match synced.ignored.is_empty() {
            true => Ok(IgnoredFiles::default()),
            false => (self.sync).count_ignored(&self.row, &self.open()?.0, &synced.ignored),
        }
    }

    /// The directory, and where it stands.
    fn open(&self) -> Result<(SafeDir, PathBuf)> {
        let place = match &self.how {
            DetachState::Aside(aside) => aside.clone(),
            _ => self.sync.context.data.workspace(&self.row.id),
        };
        let dir = self.sync.directories.open_dir(&place)?.following_no_links();
        Ok((dir, place))
    }

    /// Ends the mount, if it is one; `workspace_busy` if somebody works in it or reads.
    pub(crate) fn close(&self) -> Result<()> {
        match &self.how {
            DetachState::Frozen(provider, dirs) => provider.close(dirs),
            _ => Ok(()),
        }
    }

    /// It is known to be gone: what stands aside is removed.
    pub(crate) fn discard(mut self) {
        if let DetachState::Aside(aside) = std::mem::replace(&mut self.how, DetachState::Nothing) {
            let _ = self.sync.directories.throw_away(&aside);
        }
    }
}

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        let back = match &self.how {
            DetachState::Nothing => Ok(()),
            DetachState::Frozen(provider, dirs) => provider
                .thaw(dirs)
                .and_then(|()| self.sync.directories.ensure_fork(&self.row)),
            DetachState::Aside(aside) => self.sync.directories.put_back(&self.row, aside),
        };
        if back.is_err() {
            // The next start of any process does it.
            self.sync.context.need_recovery();
        }
    }
}

fn busy(who: &str) -> Error {
    Error::new(
        ErrorCode::WorkspaceBusy,
        format!("the workspace is in use: {who}"),
    )
    .with_hint("end what uses it and try again; nothing was changed")
}
