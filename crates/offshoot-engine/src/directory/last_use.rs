//! When a workspace was last used. Changes update that in their own transaction; reads write it at most
//! once an hour.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{Result, Timestamp};
use offshoot_store::{Durability, WorkspaceKey, WorkspaceRow};

use crate::context::jobs::JobKind;
use crate::directory::Directories;

/// How long, in microseconds, a further read does not write the time of use. A clean-up counts in days.
pub(crate) const NOTED_FOR: i64 = 3_600_000_000;
/// The most workspaces in the cache.
const MAX_NOTED: usize = 4_096;

/// When this process last wrote the time of use of each workspace, so that a row that cannot be written
/// is not tried with every read.
#[derive(Default)]
pub(crate) struct LastUse(Mutex<HashMap<WorkspaceKey, Timestamp>>);

impl Directories {
    /// Writes in the background that a workspace was read.
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
        if noted.len() >= MAX_NOTED {
            noted.clear();
        }
        noted.insert(row.key, now);
        drop(noted);
        let (directories, key) = (self.clone(), row.key);
        // A failure needs no recovery.
        let work = move || directories.note_use_now(key, now).or(Ok(()));
        self.context.queue_job(JobKind::Other, work);
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
