//! What outside programs changed in directories, found and recorded.
//!
//! Whatever relies on a directory that somebody outside knows comes here first: for one path (`guard`),
//! for the whole directory (`scan`, `fork`), or for the last time before the directory goes (`detach`).
//! This room records what it finds and changes nothing in the directory.

pub(crate) mod changes;
pub(crate) mod changes_cache;
pub(crate) mod detach;
pub(crate) mod disk;
pub(crate) mod fork;
pub(crate) mod fork_memo;
pub(crate) mod guard;
pub(crate) mod ignored;
pub(crate) mod memo_cache;
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

/// What outside programs changed in directories, found and recorded. Cheap to clone.
#[derive(Clone)]
pub struct Synchronizer {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) directories: Arc<Directories>,
    memos: Arc<MemoCache>,
    told: Arc<ChangesCache>,
}

impl Synchronizer {
    pub(crate) fn new(directories: &Arc<Directories>) -> Synchronizer {
        Synchronizer {
            context: Arc::clone(&directories.context),
            contents: Arc::clone(&directories.contents),
            directories: Arc::clone(directories),
            memos: Arc::default(),
            told: Arc::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
