//! Making directories durable, so that recovery has less to look at after an unclean stop.

use std::sync::atomic::Ordering;

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

    /// Makes the directories durable, so that less has to be looked at after an unclean stop. For
    /// idle moments; costs one sync of the file system.
    pub fn checkpoint(&self) -> Result<()> {
        self.sync_dirs(|_| true)?;
        self.store().meta().tidy()
    }

    /// The same in the midst of work, for those that recovery would have to look at for long.
    ///
    /// Several writers may find this due at once; all but the first have nothing to do. The log
    /// of the store keeps its length, or the next commits would have to make it longer again.
    pub(crate) fn checkpoint_if_due(&self) -> Result<()> {
        let running = &self.context.checkpoint_running;
        if running.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let done = self.sync_dirs(|row| Self::checkpoint_is_due(row, row.revision));
        running.store(false, Ordering::SeqCst);
        done
    }

    pub(crate) fn sync_dirs(&self, wanted: impl Fn(&WorkspaceRow) -> bool) -> Result<()> {
        // What a failed projection left behind is found by what is not marked as durable.
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
            // Alone for a moment, so that nobody is between its commit and its projection.
            let Ok(lock) = self.exclusive(&row) else {
                continue;
            };
            // Nor has anybody died there: recovery has to find what that left.
            if lock.is_abandoned() {
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

    /// Whether so much is not known to be durable that a checkpoint is due at once.
    pub(crate) fn checkpoint_is_due(row: &WorkspaceRow, revision: i64) -> bool {
        revision - row.synced_revision > MOST_UNSYNCED
    }
}

/// A directory that so many revisions are not known to be durable of is synced at once.
pub(crate) const MOST_UNSYNCED: i64 = 8_000;
