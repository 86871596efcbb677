//! Locking a workspace for a change, and writing the change to its directory after the commit.

use offshoot_core::{Error, ErrorCode, RelPath, Result, WorkspaceId};
use offshoot_fs::{SafeDir, WorkspaceLock};
use offshoot_store::WorkspaceRow;

use crate::content::index::Index;
use crate::content::rows::open_row_by_key;
use crate::sync::Synchronizer;

/// A workspace that is locked for a change: shared with other callers while it has no directory,
/// exclusive otherwise.
pub(crate) struct LockedWorkspace {
    pub(crate) row: WorkspaceRow,
    /// None if its path was never handed out.
    pub(crate) dir: Option<SafeDir>,
    _lock: WorkspaceLock,
}

impl LockedWorkspace {
    /// The directory of a workspace that has one.
    pub(crate) fn directory(&self) -> Result<&SafeDir> {
        self.dir
            .as_ref()
            .ok_or_else(|| Error::internal("the workspace has no directory"))
    }
}

impl Synchronizer {
    /// Writes a committed change of these paths to the directory, if there is one.
    pub(crate) fn project_locked(&self, locked: &LockedWorkspace, paths: &[RelPath]) -> Result<()> {
        if locked.dir.is_none() || paths.is_empty() {
            return Ok(());
        }
        self.directories
            .project_paths(&locked.row, paths)
            .or_else(|error| self.retry_projection(&locked.row, paths, error))
    }

    /// Writes these paths to the directory once more. If that fails, the next start of a process does.
    pub(crate) fn project_or_recover(
        &self,
        locked: &LockedWorkspace,
        paths: &[RelPath],
    ) -> Result<()> {
        let retried = self.directories.project_paths(&locked.row, paths);
        if retried.is_err() {
            self.context.need_recovery();
        }
        retried
    }

    /// Locks a workspace for a change of one path. If it has a directory, what outside programs did to
    /// the path is recorded.
    pub(crate) fn lock_for_path(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
    ) -> Result<LockedWorkspace> {
        loop {
            let row = self.contents.open_row(id)?;
            let (now, lock) = match row.handed_out {
                true => self.directories.exclusive_open(&row)?,
                false => {
                    let lock = self.directories.shared(&row)?;
                    (self.store().read(|tx| open_row_by_key(tx, &row))?, lock)
                }
            };
            // Its path was handed out meanwhile, or its directory was cleaned up.
            if now.handed_out != row.handed_out {
                continue;
            }
            let locked = self.with_directory(now, lock)?;
            if let Some(dir) = &locked.dir {
                self.sync_path(&locked.row, dir, path)?;
            }
            return Ok(locked);
        }
    }

    /// Locks a workspace exclusively, with its directory if it has one, for many changes at once.
    pub(crate) fn lock_workspace(&self, id: &WorkspaceId) -> Result<LockedWorkspace> {
        let (row, lock) = self.lock_exclusively(id)?;
        self.with_directory(row, lock)
    }

    /// Opens the directory of a workspace whose lock was taken, if its path was handed out.
    fn with_directory(&self, row: WorkspaceRow, lock: WorkspaceLock) -> Result<LockedWorkspace> {
        let dir = match (row.handed_out, row.materialized) {
            (false, _) => None,
            (true, true) => Some(match self.directories.dir_of(&row) {
                Err(error) if error.code() == ErrorCode::FileNotFound => {
                    self.directories.ensure_directory_locked(&row)?;
                    self.directories.dir_of(&row)?
                }
                dir => dir?,
            }),
            // The path was handed out and the directory removed, such as by a purge that was killed.
            (true, false) => Some(self.directories.make_directory(&row)?),
        };
        Ok(LockedWorkspace {
            row,
            dir,
            _lock: lock,
        })
    }

    /// Locks a workspace exclusively, for changes of whole directories.
    pub(crate) fn lock_exclusively(
        &self,
        id: &WorkspaceId,
    ) -> Result<(WorkspaceRow, WorkspaceLock)> {
        let row = self.contents.open_row(id)?;
        let (now, lock) = self.directories.exclusive_open(&row)?;
        self.directories.ensure_directory_locked(&now)?;
        Ok((now, lock))
    }

    /// Writes paths to the directory after a first attempt failed with `error`.
    pub(crate) fn retry_projection(
        &self,
        row: &WorkspaceRow,
        paths: &[RelPath],
        error: Error,
    ) -> Result<()> {
        if self.directories.project_paths(row, paths).is_err() {
            self.context.need_recovery();
            return Err(error);
        }
        Ok(())
    }

    /// Writes both sides of a move path by path, after the rename in the directory failed.
    pub(crate) fn retry_projection_of_move(
        &self,
        row: &WorkspaceRow,
        from: &RelPath,
        to: &RelPath,
        error: Error,
    ) -> Result<()> {
        let mut paths = vec![from.clone(), to.clone()];
        let collected = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            Index::new(self.store(), tx, &now).walk(to, &mut |path, _| {
                paths.push(path.clone());
                let below = path.strip_prefix(to).unwrap_or_default();
                paths.push(from.join(&below));
                Ok(())
            })
        });
        match collected {
            Ok(()) => self.retry_projection(row, &paths, error),
            Err(_) => {
                self.context.need_recovery();
                Err(error)
            }
        }
    }
}
