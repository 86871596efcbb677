//! Remembers what was told of the changes of forks, so that nothing is worked out again as long as
//! nothing has changed. Whether that is so is looked at every time: only what follows from the look
//! is remembered, not the look.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_core::{ObjectId, RelPath, Timestamp};
use offshoot_fs::Difference;
use offshoot_store::{ForkRow, WorkspaceKey, WorkspaceRow};

use crate::sync::changes::Changes;

/// So many forks are remembered.
const MOST_FORKS: usize = 64;
/// With more differences than this a fork is not remembered: the memory follows the change, too.
const MOST_DIFFERENCES: usize = 4_096;
/// A file that changed so short a time ago may change again within the same tick of the clock.
const RACY_MICROS: i64 = 50_000;

/// All that the changes of a fork follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangesKey {
    key: WorkspaceKey,
    revision: i64,
    head: Option<ObjectId>,
    fork: ForkRow,
    project_head: Option<ObjectId>,
    /// What the directory shows that its layers do not, by path, with all times of every file.
    differences: Vec<Difference>,
}

impl ChangesKey {
    /// None if more may have changed than the look can show.
    pub(crate) fn new(
        row: &WorkspaceRow,
        fork: &ForkRow,
        project_head: Option<ObjectId>,
        differences: &[Difference],
        looked_at: Timestamp,
    ) -> Option<ChangesKey> {
        let settled = |one: &Difference| {
            let changed = one.now.map(|now| (now.ctime_ns / 1_000) as i64);
            changed.is_none_or(|changed| changed + RACY_MICROS < looked_at.0)
        };
        let small = differences.len() <= MOST_DIFFERENCES;
        (small && differences.iter().all(settled)).then(|| ChangesKey {
            key: row.key,
            revision: row.revision,
            head: row.head,
            fork: fork.clone(),
            project_head,
            differences: differences.to_vec(),
        })
    }
}

/// What was told.
pub(crate) struct CachedChanges {
    ground: ChangesKey,
    pub(crate) changes: Changes,
    /// What the ignore rules left out.
    pub(crate) ignored: Vec<RelPath>,
}

/// The newest answers, the last one at the end.
#[derive(Default)]
pub(crate) struct ChangesCache(Mutex<VecDeque<Arc<CachedChanges>>>);

impl ChangesCache {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<CachedChanges>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was told on the same ground.
    pub(crate) fn get(&self, ground: &ChangesKey) -> Option<Arc<CachedChanges>> {
        let of_key = |answer: &&Arc<CachedChanges>| answer.ground.key == ground.key;
        let found = self.lock().iter().find(of_key).cloned()?;
        (found.ground == *ground).then_some(found)
    }

    pub(crate) fn put(&self, ground: ChangesKey, changes: Changes, ignored: Vec<RelPath>) {
        let mut told = self.lock();
        told.retain(|answer| answer.ground.key != ground.key);
        while told.len() >= MOST_FORKS {
            told.pop_front();
        }
        told.push_back(Arc::new(CachedChanges {
            ground,
            changes,
            ignored,
        }));
    }
}
