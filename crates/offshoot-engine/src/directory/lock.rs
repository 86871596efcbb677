//! The locks of workspaces: shared for changes of single files of a workspace without a directory,
//! exclusive for everything that concerns a directory.

use std::time::Duration;

use offshoot_core::Result;
use offshoot_fs::WorkspaceLock;
use offshoot_store::{WorkspaceKey, WorkspaceRow, WorkspaceState};

use crate::content::rows::open_row_by_key;
use crate::context::{Context, describe_busy};
use crate::directory::Directories;

impl Directories {
    /// Takes the exclusive lock of a workspace. If the last holder died, its directory is repaired
    /// before anything else is done with it.
    pub(crate) fn exclusive(&self, row: &WorkspaceRow) -> Result<WorkspaceLock> {
        self.exclusive_within(row, self.context.options.lock_timeout)
    }

    /// Takes the exclusive lock as [`Self::exclusive`] does, with a time limit of the caller's.
    pub(crate) fn exclusive_within(
        &self,
        row: &WorkspaceRow,
        timeout: Duration,
    ) -> Result<WorkspaceLock> {
        self.lock_and_repair(row, timeout).map(|(lock, _)| lock)
    }

    /// Takes the exclusive lock of an open workspace, and returns its row as it is then.
    pub(crate) fn exclusive_open(
        &self,
        row: &WorkspaceRow,
    ) -> Result<(WorkspaceRow, WorkspaceLock)> {
        let (lock, now) = self.lock_and_repair(row, self.context.options.lock_timeout)?;
        let now = match now {
            Some(now) if now.state == WorkspaceState::Open => now,
            _ => self.store().read(|tx| open_row_by_key(tx, row))?,
        };
        Ok((now, lock))
    }

    /// Returns also the row as it is under the lock, unless a repair may have changed it.
    fn lock_and_repair(
        &self,
        row: &WorkspaceRow,
        timeout: Duration,
    ) -> Result<(WorkspaceLock, Option<WorkspaceRow>)> {
        let (mut lock, now) = self.lock_at_revision(row, timeout)?;
        let Some(since) = lock.abandoned_since() else {
            return Ok((lock, now));
        };
        match self.repair_abandoned(row, since) {
            Ok(()) => lock.set_repaired(),
            // The next holder and the next start try again. It is no error here, because a
            // workspace can be deleted on a full disk.
            Err(error) => {
                tracing::warn!(workspace = %row.id, ?error, "a directory cannot be repaired now");
            }
        }
        Ok((lock, None))
    }

    /// Takes the exclusive lock for recovery, which repairs the directory itself.
    pub(crate) fn exclusive_unrepaired(
        &self,
        row: &WorkspaceRow,
        timeout: Duration,
    ) -> Result<WorkspaceLock> {
        self.lock_at_revision(row, timeout).map(|(lock, _)| lock)
    }

    /// Takes the exclusive lock, which notes the revision of the workspace. That is read under the lock:
    /// the row of the caller was read before others released it.
    fn lock_at_revision(
        &self,
        row: &WorkspaceRow,
        timeout: Duration,
    ) -> Result<(WorkspaceLock, Option<WorkspaceRow>)> {
        let mut now = None;
        let revision = || {
            now = self.store().read(|tx| tx.workspace_by_key(row.key))?;
            let revision = now.as_ref().map_or(row.revision, |now| now.revision);
            Ok(u64::try_from(revision).unwrap_or_default())
        };
        let name = Context::lock_name(row);
        let lock = self
            .context
            .locks
            .exclusive_at(&name, timeout, revision)
            .map_err(|error| describe_busy(error, &format!("`{}`", row.id)))?;
        Ok((lock, now))
    }

    /// Takes the exclusive lock of a workspace that is known by its key, for recovery.
    pub(crate) fn exclusive_by_key(
        &self,
        key: WorkspaceKey,
        timeout: Duration,
    ) -> Result<WorkspaceLock> {
        let revision = || {
            let row = self.store().read(|tx| tx.workspace_by_key(key))?;
            let revision = row.map_or(0, |row| row.revision);
            Ok(u64::try_from(revision).unwrap_or_default())
        };
        let name = key.0.to_string();
        self.context.locks.exclusive_at(&name, timeout, revision)
    }

    /// Takes the lock under which several callers may change single files at once.
    pub(crate) fn shared(&self, row: &WorkspaceRow) -> Result<WorkspaceLock> {
        self.context
            .locks
            .shared(&Context::lock_name(row), self.context.options.lock_timeout)
            .map_err(|error| describe_busy(error, &format!("`{}`", row.id)))
    }
}
