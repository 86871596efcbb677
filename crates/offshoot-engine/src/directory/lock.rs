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
        let (mut lock, now) = self
            .lock_key(row.key, timeout)
            .map_err(|error| describe_busy(error, &format!("`{}`", row.id)))?;
        let Some(since) = lock.abandoned_since() else {
            return Ok((lock, now));
        };
        let repaired = self
            .repair_abandoned(row, since)
            .and_then(|()| self.set_repaired(row.key, &mut lock));
        if let Err(error) = repaired {
            // The next holder and the next start try again. It is no error here, because a
            // workspace can be deleted on a full disk.
            tracing::warn!(workspace = %row.id, ?error, "a directory cannot be repaired now");
        }
        Ok((lock, None))
    }

    /// Takes the exclusive lock for recovery, which repairs the directory itself.
    pub(crate) fn exclusive_unrepaired(
        &self,
        key: WorkspaceKey,
        timeout: Duration,
    ) -> Result<WorkspaceLock> {
        self.lock_key(key, timeout).map(|(lock, _)| lock)
    }

    /// Notes in the lock that its directory is repaired up to the revision of now.
    pub(crate) fn set_repaired(&self, key: WorkspaceKey, lock: &mut WorkspaceLock) -> Result<()> {
        let now = self.store().read(|tx| tx.workspace_by_key(key))?;
        lock.set_repaired(revision_of(now.as_ref()));
        Ok(())
    }

    /// Takes the exclusive lock, which notes the revision of the workspace. That is read under the lock:
    /// a row that the caller read before may be old.
    fn lock_key(
        &self,
        key: WorkspaceKey,
        timeout: Duration,
    ) -> Result<(WorkspaceLock, Option<WorkspaceRow>)> {
        let mut now = None;
        let revision = || {
            now = self.store().read(|tx| tx.workspace_by_key(key))?;
            Ok(revision_of(now.as_ref()))
        };
        let name = Context::lock_name(key);
        let lock = self.context.locks.exclusive_at(&name, timeout, revision)?;
        Ok((lock, now))
    }

    /// Takes the lock under which several callers may change single files at once.
    pub(crate) fn shared(&self, row: &WorkspaceRow) -> Result<WorkspaceLock> {
        self.context
            .locks
            .shared(
                &Context::lock_name(row.key),
                self.context.options.lock_timeout,
            )
            .map_err(|error| describe_busy(error, &format!("`{}`", row.id)))
    }
}

fn revision_of(row: Option<&WorkspaceRow>) -> u64 {
    row.and_then(|row| u64::try_from(row.revision).ok())
        .unwrap_or_default()
}
