//! Forks: workspaces that begin as a snapshot of a project.
//!
//! This room makes and lists them. Their directories belong to the room `directory`, what changed in them
//! to `sync`, and bringing them back into their project to `merge`.

pub(crate) mod convert;
pub(crate) mod create;
mod of_commit;
pub(crate) mod visibility;

use std::sync::Arc;

use offshoot_store::Store;

use crate::content::Contents;
use crate::context::Context;
use crate::directory::Directories;
use crate::history::History;
use crate::project::Projects;
use crate::sync::Synchronizer;
use crate::workspace::Workspaces;

/// Forks: workspaces that begin as a snapshot of a project. Cheap to clone.
#[derive(Clone)]
pub struct Forks {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) sync: Arc<Synchronizer>,
    pub(crate) history: Arc<History>,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) projects: Arc<Projects>,
}

impl Forks {
    pub(crate) fn new(projects: &Arc<Projects>) -> Forks {
        Forks {
            context: Arc::clone(&projects.context),
            contents: Arc::clone(&projects.contents),
            directories: Arc::clone(&projects.directories),
            sync: Arc::clone(&projects.sync),
            history: Arc::clone(&projects.history),
            workspaces: Arc::clone(&projects.workspaces),
            projects: Arc::clone(projects),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
