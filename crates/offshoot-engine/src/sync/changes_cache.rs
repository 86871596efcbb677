//! A cache of what forks changed since their base.
//!
//! The directory of a fork is always walked. The changes that follow from the walk are cached by what
//! the walk saw and by the rows, so that they are computed once while neither changes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_core::{ObjectId, RelPath, Timestamp};
use offshoot_fs::Difference;
use offshoot_store::{ForkRow, WorkspaceKey, WorkspaceRow};

use crate::sync::changes::Changes;

/// The most forks in the cache.
const MAX_FORKS: usize = 64;
/// A fork with more differences than this is not cached, to bound memory.
const MAX_DIFFERENCES: usize = 4_096;
/// A file that changed this recently may change again within the same tick of the clock.
const RACY_MICROS: i64 = 50_000;

/// Everything that the changes of a fork are computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangesKey {
    workspace: WorkspaceKey,
    revision: i64,
    head: Option<ObjectId>,
    fork: ForkRow,
    project_head: Option<ObjectId>,
    /// Where the directory differs from its layers, with the `stat` data of every file.
    differences: Vec<Difference>,
}

impl ChangesKey {
    /// None if a file may change again without a change of its `stat` data, or if there are too many
    /// differences.
    pub(crate) fn new(
        row: &WorkspaceRow,
        fork: &ForkRow,
        project_head: Option<ObjectId>,
        differences: &[Difference],
        walked_at: Timestamp,
    ) -> Option<ChangesKey> {
        let settled = |one: &Difference| {
            let changed = one.now.map(|now| (now.ctime_ns / 1_000) as i64);
            changed.is_none_or(|changed| changed + RACY_MICROS < walked_at.0)
        };
        let small = differences.len() <= MAX_DIFFERENCES;
        (small && differences.iter().all(settled)).then(|| ChangesKey {
            workspace: row.key,
            revision: row.revision,
            head: row.head,
            fork: fork.clone(),
            project_head,
            differences: differences.to_vec(),
        })
    }
}

/// An entry of the cache.
pub(crate) struct CachedChanges {
    key: ChangesKey,
    pub(crate) changes: Changes,
    /// What the ignore rules left out.
    pub(crate) ignored: Vec<RelPath>,
}

/// The changes that were computed last, the newest at the end.
#[derive(Default)]
pub(crate) struct ChangesCache(Mutex<VecDeque<Arc<CachedChanges>>>);

impl ChangesCache {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<CachedChanges>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &ChangesKey) -> Option<Arc<CachedChanges>> {
        let of_workspace = |one: &&Arc<CachedChanges>| one.key.workspace == key.workspace;
        let found = self.lock().iter().find(of_workspace).cloned()?;
        (found.key == *key).then_some(found)
    }

    pub(crate) fn put(&self, key: ChangesKey, changes: Changes, ignored: Vec<RelPath>) {
        let mut cache = self.lock();
        cache.retain(|one| one.key.workspace != key.workspace);
        while cache.len() >= MAX_FORKS {
            cache.pop_front();
        }
        cache.push_back(Arc::new(CachedChanges {
            key,
            changes,
            ignored,
        }));
    }
}
