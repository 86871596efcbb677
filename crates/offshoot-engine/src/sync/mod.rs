//! Finding and recording what outside programs changed in directories.
//!
//! Code that relies on a directory whose path was handed out syncs it first: one path (`paths`), the
//! whole directory (`scan`, or `fork` for forks), or for the last time before it is removed
//! (`detach`). This room writes what it finds to the store and never changes the content of a directory.
//!
//! A *memo* is what the last walk saw: `stat` data of files with the ids of their content, in
//! `cache/KEY.memo`, so that the next walk hashes only files whose `stat` data changed. Plain
//! directories and forks have different memos (`offshoot_fs::Memo` with `memo_cache`, and `fork_memo`).
//! Both are caches: one that is missing, torn or of another version counts as empty.

pub(crate) mod changes;
pub(crate) mod changes_cache;
pub(crate) mod compare;
pub(crate) mod detach;
pub(crate) mod disk;
pub(crate) mod fork;
pub(crate) mod fork_ignore;
pub(crate) mod fork_memo;
pub(crate) mod guard;
pub(crate) mod hash;
pub(crate) mod ignored;
pub(crate) mod memo_cache;
pub(crate) mod paths;
pub(crate) mod record;
pub(crate) mod renames;
pub(crate) mod scan;

use std::sync::Arc;

use offshoot_store::Store;

use crate::content::Contents;
use crate::context::Context;
use crate::directory::Directories;
use crate::sync::changes_cache::ChangesCache;
use crate::sync::memo_cache::MemoCache;

/// Finds and records what outside programs changed in directories. Cheap to clone.
#[derive(Clone)]
pub struct Synchronizer {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) directories: Arc<Directories>,
    memos: Arc<MemoCache>,
    changes_cache: Arc<ChangesCache>,
}

impl Synchronizer {
    pub(crate) fn new(directories: &Arc<Directories>) -> Synchronizer {
        Synchronizer {
            context: Arc::clone(&directories.context),
            contents: Arc::clone(&directories.contents),
            directories: Arc::clone(directories),
            memos: Arc::default(),
            changes_cache: Arc::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
