//! Projects: a head with a linear history, filled by imports and by people's edits.
//!
//! A project is kept like a workspace without a directory. Each change of it is one snapshot on the head
//! that it was made from. This room knows nothing of forks and merges; a change of a project passes the
//! rules on protected paths that are here.

pub(crate) mod advance;
pub(crate) mod archive;
pub(crate) mod authors;
pub(crate) mod clone;
pub(crate) mod earlier_merges;
pub(crate) mod head;
pub(crate) mod import;
pub(crate) mod import_git;
pub(crate) mod import_refs;
pub(crate) mod import_source;
pub(crate) mod link;
pub(crate) mod policy;
pub(crate) mod protection;
pub(crate) mod read;
pub(crate) mod setup;
pub(crate) mod source;

use std::sync::Arc;

use offshoot_store::Store;

use crate::content::Contents;
use crate::context::Context;
use crate::directory::Directories;
use crate::history::History;
use crate::sync::Synchronizer;
use crate::workspace::Workspaces;
use std::sync::atomic::AtomicBool;

/// Projects: a head with a linear history, filled by imports and by people's edits. Cheap to clone.
#[derive(Clone)]
pub struct Projects {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) sync: Arc<Synchronizer>,
    pub(crate) history: Arc<History>,
    pub(crate) workspaces: Arc<Workspaces>,
    merges_looked_through: Arc<AtomicBool>,
}

impl Projects {
    pub(crate) fn new(workspaces: &Arc<Workspaces>) -> Projects {
        Projects {
            context: Arc::clone(&workspaces.context),
            contents: Arc::clone(&workspaces.contents),
            directories: Arc::clone(&workspaces.directories),
            sync: Arc::clone(&workspaces.sync),
            history: Arc::clone(&workspaces.history),
            workspaces: Arc::clone(workspaces),
            merges_looked_through: Arc::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
