//! Directories that were moved aside or are missing: they are put back, built again, or removed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_fs::{ForkDirs, ProcessUsage, Provider};
use offshoot_store::{ForkRow, WorkspaceKey, WorkspaceKind, WorkspaceRow, WorkspaceState};

use crate::content::rows::{fork_row, open_row_by_key};
use crate::directory::Directories;

impl Directories {
    /// Whether a process uses the directory of a workspace. `seen` is a list of what all processes use.
    pub(crate) fn is_used(&self, row: &WorkspaceRow, seen: &ProcessUsage) -> Result<bool> {
        match self.mount_of(row)? {
            Some((provider, dirs)) => provider.is_used(&dirs),
            None => Ok(seen
                .process_using(&self.context.data.workspace(&row.id))?
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

    /// The path to which the directory of a workspace is moved before it is removed.
    pub(crate) fn aside_of(&self, key: WorkspaceKey) -> PathBuf {
        self.context
            .data
            .tmp()
            .join(format!("{MOVED_ASIDE}{}", key.0))
    }

    /// Puts a directory back that a killed process had moved aside, or removes it if its workspace has
    /// no directory any more. Runs at the start of a process.
    pub(crate) fn recover_moved_aside(&self, name: &str, patience: Duration) -> Result<()> {
        let Some(key) = name
            .strip_prefix(MOVED_ASIDE)
            .and_then(|key| key.parse().ok())
        else {
            return Ok(());
        };
        let Ok(_lock) = self.exclusive_unrepaired(WorkspaceKey(key), patience) else {
            return Ok(());
        };
        let aside = self.aside_of(WorkspaceKey(key));
        let row = self
            .store()
            .read(|tx| tx.workspace_by_key(WorkspaceKey(key)))?;
        match row {
            Some(row) if self.can_put_back(&row) => self.put_back(&row, &aside),
            // Another directory was made there meanwhile. Neither may be discarded.
            Some(row) if should_have_directory(&row) => Err(path_occupied()),
            _ => self.discard_path(&aside).map_err(cannot_move),
        }
    }

    /// Removes the earlier directory of a workspace that has none, which a killed process left. Its
    /// content is in the store.
    pub(crate) fn discard_aside(&self, row: &WorkspaceRow) {
        let _ = self.discard_path(&self.aside_of(row.key));
    }

    pub(crate) fn can_put_back(&self, row: &WorkspaceRow) -> bool {
        should_have_directory(row) && !self.context.data.workspace(&row.id).exists()
    }

    pub(crate) fn put_back(&self, row: &WorkspaceRow, aside: &Path) -> Result<()> {
        std::fs::rename(aside, self.context.data.workspace(&row.id)).map_err(cannot_move)
    }

    /// Moves a directory to `tmp/` and removes it there.
    pub(crate) fn discard_path(&self, path: &Path) -> std::io::Result<()> {
        let trash = self.context.data.new_trash_path();
        std::fs::rename(path, &trash)?;
        self.empty_trash(&[trash]);
        Ok(())
    }

    /// Finishes or takes back a move of the whole directory that a killed process left, or builds the
    /// directory again if it is missing. It is a projection of the store, so nothing is lost that was
    /// recorded. The caller holds the exclusive lock.
    pub(crate) fn ensure_directory_locked(&self, row: &WorkspaceRow) -> Result<()> {
        if !row.materialized || self.has_directory(row)? {
            return Ok(());
        }
        if row.kind == WorkspaceKind::Fork {
            // The directory may be on its way to another base.
            let fork = self.store().read(|tx| fork_row(tx, row))?;
            self.finish_update(row, &fork)?;
            if self.has_directory(row)? {
                return Ok(());
            }
        }
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        if !row.materialized {
            return Ok(());
        }
        let aside = self.aside_of(row.key);
        if aside.exists() && self.can_put_back(&row) {
            return self.put_back(&row, &aside);
        }
        if row.handed_out && self.mount_of(&row)?.is_none() {
            // A program that was given the path may remove the whole directory, which is a change like
            // any other: it becomes empty, and the next sync records that. The private directory
            // behind a mount was given to no program.
            return self.make_dir(&self.context.data.workspace(&row.id));
        }
        tracing::warn!(workspace = %row.id, "the directory of a workspace was gone and is built again");
        let mut absent = row;
        absent.materialized = false;
        self.materialize(&absent).map(drop)
    }

    /// Whether the directory of a materialised workspace is there, or can be mounted.
    pub(crate) fn has_directory(&self, row: &WorkspaceRow) -> Result<bool> {
        match self.mount_of(row)? {
            Some((_, dirs)) => Ok(dirs.upper().is_dir()),
            None => Ok(self.context.data.workspace(&row.id).exists()),
        }
    }
}

/// The prefix of the name of a directory that was moved aside; the key of the workspace follows.
pub(crate) const MOVED_ASIDE: &str = "leaving-";

/// Whether a workspace should have a directory.
pub(crate) fn should_have_directory(row: &WorkspaceRow) -> bool {
    row.state == WorkspaceState::Open && row.materialized
}

pub(crate) fn path_occupied() -> Error {
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
