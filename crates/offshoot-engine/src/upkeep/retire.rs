//! Erasing the workspaces of sessions that nobody used for long, for an owner who switched that on.

use std::time::Duration;

use offshoot_core::{ErrorCode, Layout, Result, Timestamp, WorkspaceId};
use offshoot_fs::UseKind;
use offshoot_store::{Durability, WorkspaceKind, WorkspaceRow, WorkspaceState};

use crate::context::idempotency::micros;
use crate::directory::last_use::NOTED_FOR;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// Erases the workspaces of sessions, open or deleted, that nobody used for so long: row,
    /// history, snapshots, directory, and all content that nothing else names. For an owner who
    /// switched that on. Spares one in which somebody works, has files open or changed something.
    /// Returns their names.
    pub fn retire_sessions(&self, unused_for: Duration) -> Result<Vec<WorkspaceId>> {
        self.context.with_reserve(|| {
            // The time of a read may be recorded up to an hour late.
            let late = unused_for.min(Duration::from_micros(NOTED_FOR.unsigned_abs()));
            let unused_for = micros(unused_for.saturating_add(late));
            let before = Timestamp(self.context.now().0.saturating_sub(unused_for));
            let is_due = |row: &WorkspaceRow| {
                let of_session = row.layout == Layout::Session;
                of_session && row.kind == WorkspaceKind::Standalone && row.used_at <= before
            };
            let mut due = self.store().read(|tx| tx.all_workspaces())?;
            due.retain(&is_due);
            if due.is_empty() {
                return Ok(Vec::new());
            }
            let named = self.reachable()?;
            let mut gone = Vec::new();
            for row in due {
                match self.retire(&row, &is_due) {
                    Ok(true) => gone.push(row.id),
                    Ok(false) => {}
                    // Somebody uses it.
                    Err(error) if error.code() == ErrorCode::WorkspaceBusy => {}
                    // A session that cannot be erased does not keep the others.
                    Err(error) => tracing::warn!(workspace = %row.id, ?error, "a session stays"),
                }
            }
            if !gone.is_empty() {
                self.store()
                    .erase_incrementally(&self.unnamed_of(&named)?)?;
            }
            Ok(gone)
        })
    }

    /// Erases one of them if it may still go. Returns whether it did.
    fn retire(&self, row: &WorkspaceRow, is_due: &dyn Fn(&WorkspaceRow) -> bool) -> Result<bool> {
        let _name = self.context.name_lock(&row.id)?;
        let lock = self.directories.exclusive(row)?;
        let look = || -> Result<Option<WorkspaceRow>> {
            let now = self.store().read(|tx| tx.workspace_by_key(row.key))?;
            Ok(now.filter(is_due))
        };
        let Some(now) = look()? else {
            return Ok(false);
        };
        if now.state == WorkspaceState::Open {
            let detached = self.sync.detach(&now, UseKind::Any)?;
            // What outside programs changed is a use, and a sync notes it as one.
            let synced = detached.sync(false, Durability::Synced)?;
            if !synced.changes.is_empty() || look()?.is_none() {
                return Ok(false);
            }
            self.store()
                .write(Durability::Synced, |tx| tx.erase_workspace(now.key))?;
            detached.discard();
            self.directories.discard_dir(&now)?;
        } else {
            self.store()
                .write(Durability::Synced, |tx| tx.erase_workspace(now.key))?;
        }
        drop(lock);
        self.context.forget_locks(&now);
        Ok(true)
    }
}
