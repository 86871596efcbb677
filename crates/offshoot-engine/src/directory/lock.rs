//! The locks of workspaces: shared for changes of single files of a workspace without a directory,
//! exclusive for everything that concerns a directory.

use std::time::Duration;

use offshoot_core::Result;
use offshoot_fs::WorkspaceLock;
use offshoot_store::WorkspaceRow;

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
        let mut lock = self.exclusive_unrepaired(row, timeout)?;
        if let Some(since) = lock.abandoned_since() {
            match self.repair_abandoned(row, since) {
                Ok(()) => lock.set_repaired(),
                // The next holder and the next start try again. It is no error here, because a
                // workspace can be deleted on a full disk.
                Err(error) => {
                    tracing::warn!(workspace = %row.id, ?error, "a directory cannot be repaired now");
                }
            }
        }
        Ok(lock)
    }

    /// Takes the exclusive lock for recovery, which repairs the directory itself.
    pub(crate) fn exclusive_unrepaired(
        &self,
        row: &WorkspaceRow,
        timeout: Duration,
    ) -> Result<WorkspaceLock> {
        let revision = u64::try_from(row.revision).unwrap_or_default();
        self.context
            .locks
            .exclusive_at(&Context::lock_name(row), revision, timeout)
            .map_err(|error| describe_busy(error, &format!("`{}`", row.id)))
    }

    /// Takes the lock under which several callers may change single files at once.
    pub(crate) fn shared(&self, row: &WorkspaceRow) -> Result<WorkspaceLock> {
        self.context
            .locks
            .shared(&Context::lock_name(row), self.context.options.lock_timeout)
            .map_err(|error| describe_busy(error, &format!("`{}`", row.id)))
    }
}
