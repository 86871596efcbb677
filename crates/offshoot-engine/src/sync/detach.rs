//! Removing the directory of a workspace without losing what a program writes to it meanwhile.
//!
//! After the last sync no program may change the directory, so programs that could are found before it
//! is removed (INV-5). A mount is made read-only, which the kernel grants only if no file is open for
//! writing. A plain directory is moved to another path, and processes that have a part of it open are
//! looked up. Then the directory is synced for the last time. If it is in use, or a later step fails,
//! it is put back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_fs::{ForkDirs, Provider, SafeDir, UseKind, find_process_using};
use offshoot_store::{Durability, WorkspaceRow};

use crate::content::rows::open_row_by_key;
use crate::directory::aside::{cannot_move, path_occupied};
use crate::sync::Synchronizer;
use crate::sync::ignored::IgnoredFiles;
use crate::sync::scan::Synced;

/// How long a directory may look used by chance: a process that a thread starts has all open files
/// until it executes another program.
const BUSY_GRACE: Duration = Duration::from_millis(200);

/// A directory that no program can change any more. Dropping this puts it back.
pub(crate) struct Detached<'a> {
    sync: &'a Synchronizer,
    row: WorkspaceRow,
    state: DetachState,
}

enum DetachState {
    /// There is no directory, or no program was given its path.
    Nothing,
    /// The mount is read-only.
    Frozen(Box<dyn Provider>, ForkDirs),
    /// The directory was moved to this path.
    Aside(PathBuf),
}

impl Synchronizer {
    /// Makes a directory unreachable for other programs; `workspace_busy` if one uses it. The caller
    /// holds the exclusive lock.
    pub(crate) fn detach(&self, row: &WorkspaceRow, uses: UseKind) -> Result<Detached<'_>> {
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        let known = row.handed_out || uses == UseKind::Any;
        let mut detached = Detached {
            sync: self,
            row,
            state: DetachState::Nothing,
        };
        let row = &detached.row;
        if !row.materialized || !known {
            return Ok(detached);
        }
        self.directories.ensure_directory_locked(row)?;
        // Removes the stage files of killed writers. Opening also mounts a fork that is not mounted.
        self.directories.dir_of(row)?.clear_stages()?;
        if let Some((provider, dirs)) = self.directories.mount_of(row)? {
            provider.freeze(&dirs)?;
            detached.state = DetachState::Frozen(provider, dirs);
            return Ok(detached);
        }
        let aside = self.directories.aside_of(row.key);
        if aside.exists() {
            return Err(path_occupied());
        }
        std::fs::rename(self.context.data.workspace(&row.id), &aside).map_err(cannot_move)?;
        detached.state = DetachState::Aside(aside.clone());
        let started = Instant::now();
        while let Some(who) = find_process_using(&aside, uses)? {
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
        // The row is still that of the detach: changing it needs the lock that the caller holds.
        let row = &self.row;
        if !row.handed_out || !row.materialized {
            return Ok(Synced::default());
        }
        let (dir, place) = self.open()?;
        self.sync
            .sync_directory(row, &dir, &place, include_ignored, durability)
    }

    /// Counts the ignored files that are removed with the directory.
    pub(crate) fn count_ignored(&self, synced: &Synced) -> Result<IgnoredFiles> {
        match synced.ignored.is_empty() {
            true => Ok(IgnoredFiles::default()),
            false => (self.sync).count_ignored(&self.row, &self.open()?.0, &synced.ignored),
        }
    }

    /// The directory and its current path.
    fn open(&self) -> Result<(SafeDir, PathBuf)> {
        let place = match &self.state {
            DetachState::Aside(aside) => aside.clone(),
            _ => self.sync.context.data.workspace(&self.row.id),
        };
        let dir = self.sync.directories.open_dir(&place)?.following_no_links();
        Ok((dir, place))
    }

    /// Unmounts the directory if it is a mount; `workspace_busy` if a program uses it.
    pub(crate) fn close(&self) -> Result<()> {
        match &self.state {
            DetachState::Frozen(provider, dirs) => provider.close(dirs),
            _ => Ok(()),
        }
    }

    /// Removes the directory for good, after the store says that it is gone.
    pub(crate) fn discard(mut self) {
        if let DetachState::Aside(aside) = std::mem::replace(&mut self.state, DetachState::Nothing)
        {
            let _ = self.sync.directories.discard_path(&aside);
        }
    }
}

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        let back = match &self.state {
            DetachState::Nothing => Ok(()),
            DetachState::Frozen(provider, dirs) => provider
                .thaw(dirs)
                .and_then(|()| self.sync.directories.ensure_mounted(&self.row)),
            DetachState::Aside(aside) => self.sync.directories.put_back(&self.row, aside),
        };
        if back.is_err() {
            // The next start of a process puts it back.
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
