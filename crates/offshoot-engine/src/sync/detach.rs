//! Taking the directory of a workspace away without losing what somebody writes to it meanwhile.
//!
//! After the last look nobody may change it, and whoever could still do so is found before it goes
//! (INV-5). A mount is made to refuse changes, which the kernel grants only if no file is open for
//! writing. A plain directory moves aside, where nobody finds it by its path; whoever holds a part
//! of it is found among the processes. Then it is looked at for the last time. If somebody uses it,
//! or the rest fails, it is put back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_fs::{ForkDirs, InUse, Provider, SafeDir, Uses, find_user};
use offshoot_store::{
    Durability, ForkRow, WorkspaceKey, WorkspaceKind, WorkspaceRow, WorkspaceState,
};

use crate::content::rows::{fork_row, open_row_by_key};
use crate::engine::Engine;
use crate::sync::ignored::IgnoredFiles;
use crate::sync::scan::Synced;

/// So long a directory may look used by chance: a process that any thread starts holds all open
/// files for the moment until it becomes another program.
const BUSY_GRACE: Duration = Duration::from_millis(200);

/// How a directory that moved aside is called; the number of the workspace follows.
pub(crate) const LEAVING: &str = "leaving-";

/// A directory that nobody changes any more. Dropping this puts it back.
pub(crate) struct Detached<'a> {
    engine: &'a Engine,
    row: WorkspaceRow,
    how: How,
}

enum How {
    /// There is none, or nobody outside knows of it.
    Nothing,
    /// It refuses changes.
    Frozen(Box<dyn Provider>, ForkDirs),
    /// It stands elsewhere.
    Aside(PathBuf),
}

impl Engine {
    /// Takes a directory out of everybody's reach; `workspace_busy` if somebody uses it. The caller
    /// holds the exclusive lock.
    pub(crate) fn detach(&self, row: &WorkspaceRow, uses: Uses) -> Result<Detached<'_>> {
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        let known = row.handed_out || uses == Uses::Any;
        let mut detached = Detached {
            engine: self,
            row,
            how: How::Nothing,
        };
        let row = &detached.row;
        if !row.materialized || !known {
            return Ok(detached);
        }
        self.bring_back_held(row)?;
        // What killed writers staged; also makes sure that it is there, or mounted.
        self.dir_of(row)?.clear_stages()?;
        if let Some((provider, dirs)) = self.mount_of(row)? {
            provider.freeze(&dirs)?;
            detached.how = How::Frozen(provider, dirs);
            return Ok(detached);
        }
        let aside = self.aside_of(row.key);
        if aside.exists() {
            return Err(occupied());
        }
        std::fs::rename(self.inner.data.workspace(&row.id), &aside).map_err(cannot_move)?;
        detached.how = How::Aside(aside.clone());
        let started = Instant::now();
        while let Some(who) = find_user(&aside, uses)? {
            if started.elapsed() > BUSY_GRACE {
                return Err(busy(&who));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(detached)
    }

    /// Whether somebody uses the directory of a workspace, or works in it, as seen by one look at
    /// all processes.
    pub(crate) fn is_used(&self, row: &WorkspaceRow, seen: &InUse) -> Result<bool> {
        match self.mount_of(row)? {
            Some((provider, dirs)) => provider.is_used(&dirs),
            None => Ok(seen.user_of(&self.inner.data.workspace(&row.id))?.is_some()),
        }
    }

    /// The provider and the directories of a fork that is a mount.
    fn mount_of(&self, row: &WorkspaceRow) -> Result<Option<(Box<dyn Provider>, ForkDirs)>> {
        if row.kind != WorkspaceKind::Fork {
            return Ok(None);
        }
        let fork = self.store().read(|tx| fork_row(tx, row))?;
        let provider = self.provider_of(&fork)?;
        let mounts = provider.capabilities().mounts;
        Ok(mounts.then(|| (provider, self.fork_dirs(row, fork.place))))
    }

    fn provider_of(&self, fork: &ForkRow) -> Result<Box<dyn Provider>> {
        self.provider_that_made(fork.provider.as_deref().unwrap_or("copy").parse()?)
    }

    /// Where the directory of a workspace stands while it leaves.
    fn aside_of(&self, key: WorkspaceKey) -> PathBuf {
        self.inner.data.tmp().join(format!("{LEAVING}{}", key.0))
    }

    /// Puts a directory back that a killed process had moved aside, or throws it away if it is
    /// known to be gone. For the start of a process.
    pub(crate) fn recover_leaving(&self, name: &str, patience: Duration) -> Result<()> {
        let Some(key) = name.strip_prefix(LEAVING).and_then(|key| key.parse().ok()) else {
            return Ok(());
        };
        let Ok(_lock) = self.inner.locks.exclusive(&format!("{key}"), patience) else {
            return Ok(());
        };
        let aside = self.aside_of(WorkspaceKey(key));
        let row = self
            .store()
            .read(|tx| tx.workspace_by_key(WorkspaceKey(key)))?;
        match row {
            Some(row) if self.takes_back(&row) => self.put_back(&row, &aside),
            // Somebody has made another directory there meanwhile: neither is ours to discard.
            Some(row) if is_shown(&row) => Err(occupied()),
            _ => self.throw_away(&aside).map_err(cannot_move),
        }
    }

    /// Removes what a killed process left of an earlier directory of a workspace that has none: its
    /// content is in the store.
    pub(crate) fn forget_aside(&self, row: &WorkspaceRow) {
        let _ = self.throw_away(&self.aside_of(row.key));
    }

    fn takes_back(&self, row: &WorkspaceRow) -> bool {
        is_shown(row) && !self.inner.data.workspace(&row.id).exists()
    }

    fn put_back(&self, row: &WorkspaceRow, aside: &Path) -> Result<()> {
        std::fs::rename(aside, self.inner.data.workspace(&row.id)).map_err(cannot_move)
    }

    /// Removes a directory of ours.
    pub(crate) fn throw_away(&self, path: &Path) -> std::io::Result<()> {
        let trash = self.inner.data.new_trash();
        std::fs::rename(path, &trash)?;
        self.empty_trash(&[trash]);
        Ok(())
    }

    /// Brings the directory of a workspace back if it is gone. The directory is a projection of the
    /// store, so nothing is lost that was recorded.
    pub(crate) fn bring_back(&self, row: &WorkspaceRow) -> Result<()> {
        let _lock = self.exclusive(row)?;
        self.bring_back_held(row)
    }

    /// The same while the caller holds the exclusive lock.
    pub(crate) fn bring_back_held(&self, row: &WorkspaceRow) -> Result<()> {
        if !row.materialized || self.shows_directory(row)? {
            return Ok(());
        }
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        if !row.materialized {
            return Ok(());
        }
        let aside = self.aside_of(row.key);
        if aside.exists() && self.takes_back(&row) {
            return self.put_back(&row, &aside);
        }
        if row.handed_out && self.mount_of(&row)?.is_none() {
            // Whoever was given the path may remove all of it, which is a change like any other:
            // it is empty then, which the next sync records. What is behind a mount nobody was
            // given.
            return self.make_dir(&self.inner.data.workspace(&row.id));
        }
        tracing::warn!(workspace = %row.id, "the directory of a workspace was gone and is built again");
        let mut absent = row;
        absent.materialized = false;
        self.materialize(&absent).map(drop)
    }

    /// Whether the directory of a materialised workspace is there, or can be mounted.
    pub(crate) fn shows_directory(&self, row: &WorkspaceRow) -> Result<bool> {
        match self.mount_of(row)? {
            Some((_, dirs)) => Ok(dirs.upper().is_dir()),
            None => Ok(self.inner.data.workspace(&row.id).exists()),
        }
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
        self.engine
            .sync_at(row, &dir, &place, include_ignored, durability)
    }

    /// How much of what that look left out goes with the directory.
    pub(crate) fn count_ignored(&self, synced: &Synced) -> Result<IgnoredFiles> {
        match synced.ignored.is_empty() {
            true => Ok(IgnoredFiles::default()),
            false => (self.engine).count_ignored(&self.row, &self.open()?.0, &synced.ignored),
        }
    }

    /// The directory, and where it stands.
    fn open(&self) -> Result<(SafeDir, PathBuf)> {
        let place = match &self.how {
            How::Aside(aside) => aside.clone(),
            _ => self.engine.inner.data.workspace(&self.row.id),
        };
        let dir = self.engine.open_dir(&place)?.following_no_links();
        Ok((dir, place))
    }

    /// Ends the mount, if it is one; `workspace_busy` if somebody works in it or reads.
    pub(crate) fn close(&self) -> Result<()> {
        match &self.how {
            How::Frozen(provider, dirs) => provider.close(dirs),
            _ => Ok(()),
        }
    }

    /// It is known to be gone: what stands aside is removed.
    pub(crate) fn discard(mut self) {
        if let How::Aside(aside) = std::mem::replace(&mut self.how, How::Nothing) {
            let _ = self.engine.throw_away(&aside);
        }
    }
}

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        let back = match &self.how {
            How::Nothing => Ok(()),
            How::Frozen(provider, dirs) => provider
                .thaw(dirs)
                .and_then(|()| self.engine.ensure_fork(&self.row)),
            How::Aside(aside) => self.engine.put_back(&self.row, aside),
        };
        if back.is_err() {
            // The next start of any process does it.
            let needs_recovery = &self.engine.inner.needs_recovery;
            needs_recovery.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// Whether a workspace should have a directory.
fn is_shown(row: &WorkspaceRow) -> bool {
    row.state == WorkspaceState::Open && row.materialized
}

fn occupied() -> Error {
    Error::new(
        ErrorCode::AlreadyExists,
        "the workspace's path was taken by other files while its directory stood aside",
    )
    .with_hint("move them away and try again; then put them back")
}

fn busy(who: &str) -> Error {
    Error::new(
        ErrorCode::WorkspaceBusy,
        format!("the workspace is in use: {who}"),
    )
    .with_hint("end what uses it and try again; nothing was changed")
}

fn cannot_move(cause: std::io::Error) -> Error {
    Error::new(
        ErrorCode::WriteFailed,
        "the directory of the workspace could not be moved",
    )
    .with_source(cause)
}
