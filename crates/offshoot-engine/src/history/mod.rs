//! The past: every change with who made it, read back.
//!
//! Lines of history are written by `content::history_writer` in the transaction of the change that they
//! tell of; this room only reads them: as events, as versions of one file, as metadata, and as blame.

pub(crate) mod blame;
mod blame_commits;
pub(crate) mod blame_places;
pub(crate) mod blame_sources;
pub(crate) mod events;
pub(crate) mod file_version;
pub(crate) mod metadata;
pub(crate) mod past;
pub(crate) mod trail;

use std::sync::Arc;

use offshoot_store::Store;

use crate::content::Contents;
use crate::context::Context;
use crate::directory::Directories;
use crate::sync::Synchronizer;

/// The past: every change with who made it, read back. Cheap to clone.
#[derive(Clone)]
pub struct History {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) sync: Arc<Synchronizer>,
}

impl History {
    pub(crate) fn new(sync: &Arc<Synchronizer>) -> History {
        History {
            context: Arc::clone(&sync.context),
            contents: Arc::clone(&sync.contents),
            directories: Arc::clone(&sync.directories),
            sync: Arc::clone(sync),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
