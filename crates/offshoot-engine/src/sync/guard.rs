//! Holding a workspace for a change: its locks, its directory, and what is done when the directory
//! does not take a change that is committed.

use offshoot_core::{Cause, Error, ErrorCode, RelPath, Result, WorkspaceId};
use offshoot_fs::{SafeDir, WorkspaceLock};
use offshoot_store::WorkspaceRow;

use crate::content::index::Index;
use crate::content::rows::open_row_by_key;
use crate::sync::Synchronizer;

/// A workspace that is held for a change: together with others as long as it has no directory, else
/// alone.
pub(crate) struct LockedWorkspace {
    pub(crate) row: WorkspaceRow,
    /// None as long as nobody was given its path.
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
    /// Brings paths of the directory, if there is one, in line with a change that is committed.
    pub(crate) fn project_locked(&self, held: &LockedWorkspace, paths: &[RelPath]) -> Result<()> {
        if held.dir.is_none() || paths.is_empty() {
            return Ok(());
        }
        self.directories
            .project_paths(&held.row, paths)
            .or_else(|error| self.retry_projection(&held.row, paths, error))
    }

    /// Brings paths in line with the store, now or at the next start of any process.
    pub(crate) fn project_or_recover(
        &self,
        held: &LockedWorkspace,
        paths: &[RelPath],
    ) -> Result<()> {
        let retried = self.directories.project_paths(&held.row, paths);
        if retried.is_err() {
            self.context.need_recovery();
        }
        retried
    }

    /// Holds a workspace for the change of one path. If it has a directory, what outside programs
    /// did to the path is recorded.
    pub(crate) fn lock_for_path(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        cause: &Cause,
    ) -> Result<LockedWorkspace> {
        loop {
            let row = self.contents.open_row(id)?;
            let lock = match row.handed_out {
                true => self.directories.exclusive(&row)?,
                false => self.context.shared(&row)?,
            };
            let now = self.store().read(|tx| open_row_by_key(tx, &row))?;
            // Somebody was given its path meanwhile, or its directory was cleaned up.
            if now.handed_out != row.handed_out {
                continue;
            }
            let held = self.held(now, lock)?;
            if let Some(dir) = &held.dir {
                self.sync_path(&held.row, dir, path, cause)?;
            }
            return Ok(held);
        }
    }

    /// Holds a workspace alone, with its directory if it has one, for many changes at once.
    pub(crate) fn lock_workspace(&self, id: &WorkspaceId) -> Result<LockedWorkspace> {
        let (row, lock) = self.lock_exclusively(id)?;
        self.held(row, lock)
    }

    /// A workspace whose lock was taken, with its directory if somebody was given the path.
    fn held(&self, row: WorkspaceRow, lock: WorkspaceLock) -> Result<LockedWorkspace> {
        let dir = match (row.handed_out, row.materialized) {
            (false, _) => None,
            (true, true) => Some(match self.directories.dir_of(&row) {
                Err(error) if error.code() == ErrorCode::FileNotFound => {
                    self.directories.bring_back_held(&row)?;
                    self.directories.dir_of(&row)?
                }
                dir => dir?,
            }),
            // Somebody has the path and lost the directory, such as by a purge that was killed.
            (true, false) => Some(self.directories.make_directory(&row)?),
        };
        Ok(LockedWorkspace {
            row,
            dir,
            _lock: lock,
        })
    }

    /// Holds a workspace alone, for changes of whole directories.
    pub(crate) fn lock_exclusively(
        &self,
        id: &WorkspaceId,
    ) -> Result<(WorkspaceRow, WorkspaceLock)> {
        let row = self.contents.open_row(id)?;
        let lock = self.directories.exclusive(&row)?;
        let now = self.store().read(|tx| open_row_by_key(tx, &row))?;
        self.directories.bring_back_held(&now)?;
        Ok((now, lock))
    }

    /// Records a path that a caller names even if it is ignored, which a walk leaves out.
    pub(crate) fn sync_named_path(
        &self,
        row: &WorkspaceRow,
        path: &RelPath,
        cause: &Cause,
    ) -> Result<()> {
        if !row.handed_out || !row.materialized {
            return Ok(());
        }
        self.sync_path(row, &self.directories.dir_of(row)?, path, cause)
    }

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

    /// A rename that the directory refused: each path is brought in line by itself.
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
