//! Making directories durable, so that recovery has less to compare after an unclean stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use offshoot_core::Result;
use offshoot_fs::SafeDir;
use offshoot_store::{Durability, WorkspaceRow};

use crate::content::rows::open_row_by_key;
use crate::directory::Directories;

impl Directories {
    pub(crate) fn mark_synced(&self, row: &WorkspaceRow, revision: i64) -> Result<()> {
        self.store().write(Durability::Relaxed, |tx| {
            let Some(mut now) = tx.workspace_by_key(row.key)? else {
                return Ok(());
            };
            now.synced_revision = now.synced_revision.max(revision);
            tx.update_workspace(&now)
        })
    }

    /// Makes all directories durable, for idle moments. Costs one sync of the file system.
    pub fn checkpoint(&self) -> Result<()> {
        self.sync_dirs(|_| true)?;
        self.store().meta().tidy()
    }

    /// Makes directories durable that recovery would have to compare for long, in the midst of work.
    ///
    /// If several writers call this at once, the first one does the work. The write-ahead log keeps its
    /// length, or the next commits would have to extend it again.
    pub(crate) fn checkpoint_if_due(&self) -> Result<()> {
        /// Ends the checkpoint, also by a panic.
        struct Running<'a>(&'a AtomicBool);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::SeqCst);
            }
        }
        if self.context.checkpoint_running.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let _running = Running(&self.context.checkpoint_running);
        self.sync_dirs(|row| Self::checkpoint_is_due(row, row.revision))
    }

    pub(crate) fn sync_dirs(&self, wanted: impl Fn(&WorkspaceRow) -> bool) -> Result<()> {
        // Recovery finds what a failed projection left by the revisions that are not marked as synced.
        if self.context.needs_recovery() {
            return Ok(());
        }
        let mut rows = self.store().read(|tx| tx.unsynced_workspaces())?;
        rows.retain(wanted);
        if rows.is_empty() {
            return Ok(());
        }
        let mut reached = Vec::with_capacity(rows.len());
        for row in rows {
            // The lock is held for a moment, so that no caller is between its commit and its projection.
            let Ok(lock) = self.exclusive_within(&row, MAX_WAIT) else {
                continue;
            };
            // Recovery has to find what a holder who died between the two left.
            if lock.abandoned_since().is_some() {
                continue;
            }
            let Ok(now) = self.store().read(|tx| open_row_by_key(tx, &row)) else {
                continue;
            };
            reached.push(now);
        }
        let layers = self.store().read(|tx| tx.layers())?;
        self.sync_workspaces()?;
        for row in reached {
            self.mark_synced(&row, row.revision)?;
        }
        for layer in layers.iter().filter(|layer| !layer.synced) {
            self.store()
                .write(Durability::Relaxed, |tx| tx.mark_layer_synced(layer.key))?;
        }
        Ok(())
    }

    /// Waits until everything that was written to directories of workspaces is on disk.
    pub(crate) fn sync_workspaces(&self) -> Result<()> {
        SafeDir::open(self.context.data.workspaces())?.sync_all()
    }

    /// Whether so many revisions may not be durable that a checkpoint is due at once.
    pub(crate) fn checkpoint_is_due(row: &WorkspaceRow, revision: i64) -> bool {
        revision - row.synced_revision > MAX_UNSYNCED
    }
}

/// How long a checkpoint waits for a workspace that is held, which is left to the next one then.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// The most revisions of a directory that may not be durable.
pub(crate) const MAX_UNSYNCED: i64 = 8_000;
