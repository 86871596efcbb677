//! A directory that was moved aside, or is gone: put back, built again, or thrown away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_fs::{ForkDirs, InUse, Provider};
use offshoot_store::{ForkRow, WorkspaceKey, WorkspaceKind, WorkspaceRow, WorkspaceState};

use crate::content::rows::{fork_row, open_row_by_key};
use crate::directory::Directories;

impl Directories {
    /// Whether somebody uses the directory of a workspace, or works in it, as seen by one look at
    /// all processes.
    pub(crate) fn is_used(&self, row: &WorkspaceRow, seen: &InUse) -> Result<bool> {
        match self.mount_of(row)? {
            Some((provider, dirs)) => provider.is_used(&dirs),
            None => Ok(seen
                .user_of(&self.context.data.workspace(&row.id))?
                .is_some()),
        }
    }

    /// The provider and the directories of a fork that is a mount.
    pub(crate) fn mount_of(
        &self,
        row: &WorkspaceRow,
    ) -> Result<Option<(Box<dyn Provider>, ForkDirs)>> {
        if row.kind != WorkspaceKind::Fork {
            return Ok(None);
        }
        let fork = self.store().read(|tx| fork_row(tx, row))?;
        let provider = self.provider_of(&fork)?;
        let mounts = provider.capabilities().mounts;
        Ok(mounts.then(|| (provider, self.fork_dirs(row, fork.place))))
    }

    pub(crate) fn provider_of(&self, fork: &ForkRow) -> Result<Box<dyn Provider>> {
        self.provider_that_made(fork.provider.as_deref().unwrap_or("copy").parse()?)
    }

    /// Where the directory of a workspace stands while it leaves.
    pub(crate) fn aside_of(&self, key: WorkspaceKey) -> PathBuf {
        self.context.data.tmp().join(format!("{LEAVING}{}", key.0))
    }

    /// Puts a directory back that a killed process had moved aside, or throws it away if it is
    /// known to be gone. For the start of a process.
    pub(crate) fn recover_leaving(&self, name: &str, patience: Duration) -> Result<()> {
        let Some(key) = name.strip_prefix(LEAVING).and_then(|key| key.parse().ok()) else {
            return Ok(());
        };
        let Ok(_lock) = self.context.locks.exclusive(&format!("{key}"), patience) else {
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

    pub(crate) fn takes_back(&self, row: &WorkspaceRow) -> bool {
        is_shown(row) && !self.context.data.workspace(&row.id).exists()
    }

    pub(crate) fn put_back(&self, row: &WorkspaceRow, aside: &Path) -> Result<()> {
        std::fs::rename(aside, self.context.data.workspace(&row.id)).map_err(cannot_move)
    }

    /// Removes a directory of ours.
    pub(crate) fn throw_away(&self, path: &Path) -> std::io::Result<()> {
        let trash = self.context.data.new_trash_path();
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
            return self.make_dir(&self.context.data.workspace(&row.id));
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
            None => Ok(self.context.data.workspace(&row.id).exists()),
        }
    }
}

/// How a directory that moved aside is called; the number of the workspace follows.
pub(crate) const LEAVING: &str = "leaving-";

/// Whether a workspace should have a directory.
pub(crate) fn is_shown(row: &WorkspaceRow) -> bool {
    row.state == WorkspaceState::Open && row.materialized
}

pub(crate) fn occupied() -> Error {
    Error::new(
        ErrorCode::AlreadyExists,
        "the workspace's path was taken by other files while its directory stood aside",
    )
    .with_hint("move them away and try again; then put them back")
}

pub(crate) fn cannot_move(cause: std::io::Error) -> Error {
    Error::new(
        ErrorCode::WriteFailed,
        "the directory of the workspace could not be moved",
    )
    .with_source(cause)
}
