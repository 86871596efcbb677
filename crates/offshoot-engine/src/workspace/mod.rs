//! Workspaces: their files, snapshots, archives, and their life.
//!
//! Everything that an agent or a person does to one workspace is a function here. A change goes to the
//! store first and to the directory, if there is one, after (see "How a write survives" in
//! ARCHITECTURE.md). This room knows nothing of projects and merges.

pub(crate) mod archive;
pub(crate) mod baseline;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod import;
pub(crate) mod life;
pub(crate) mod links;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod rearrange;
pub(crate) mod restore;
pub(crate) mod snapshot;
pub(crate) mod walk;
pub(crate) mod writes;

use std::sync::Arc;

use offshoot_store::Store;

use crate::content::Contents;
use crate::context::Context;
use crate::directory::Directories;
use crate::history::History;
use crate::sync::Synchronizer;

/// Workspaces: their files, snapshots, archives, and their life. Cheap to clone.
#[derive(Clone)]
pub struct Workspaces {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) sync: Arc<Synchronizer>,
    pub(crate) history: Arc<History>,
}

impl Workspaces {
    pub(crate) fn new(history: &Arc<History>) -> Workspaces {
        Workspaces {
            context: Arc::clone(&history.context),
            contents: Arc::clone(&history.contents),
            directories: Arc::clone(&history.directories),
            sync: Arc::clone(&history.sync),
            history: Arc::clone(history),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
