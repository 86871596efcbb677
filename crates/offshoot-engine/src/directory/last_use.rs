//! When a workspace was last used. Changes say so themselves; reads are noted now and then.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{Result, Timestamp};
use offshoot_store::{Durability, WorkspaceKey, WorkspaceRow};

use crate::context::jobs::JobKind;
use crate::directory::Directories;

/// For so many microseconds a use is as good as noted. A clean-up counts in days.
pub(crate) const NOTED_FOR: i64 = 3_600_000_000;
/// So many workspaces are remembered as noted.
const MOST_NOTED: usize = 4_096;

/// Workspaces whose use this process has noted, and when: a row that cannot be written is not tried
/// with every read.
#[derive(Default)]
pub(crate) struct LastUse(Mutex<HashMap<WorkspaceKey, Timestamp>>);

impl Directories {
    /// Notes that somebody reads a workspace. The reader does not wait for it.
    pub(crate) fn note_use(&self, row: &WorkspaceRow) {
        let now = self.context.now();
        if now.0 - row.used_at.0 < NOTED_FOR {
            return;
        }
        let mut noted = self
            .last_use
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let last = noted.get(&row.key);
        if last.is_some_and(|last| now.0 - last.0 < NOTED_FOR && row.used_at < *last) {
            return;
        }
        if noted.len() >= MOST_NOTED {
            noted.clear();
        }
        noted.insert(row.key, now);
        drop(noted);
        let (directories, key) = (self.clone(), row.key);
        // If it cannot be noted, nothing has to be put right.
        let work = move || directories.note_use_now(key, now).or(Ok(()));
        self.context.later(JobKind::Other, work);
    }

    pub(crate) fn note_use_now(&self, key: WorkspaceKey, at: Timestamp) -> Result<()> {
        self.store().write(Durability::Relaxed, |tx| {
            let Some(mut row) = tx.workspace_by_key(key)? else {
                return Ok(());
            };
            row.used_at = row.used_at.max(at);
            tx.update_workspace(&row)
        })
    }
}
