//! Upkeep of a data directory: recovery after an unclean stop, check, clean, purge, retention.
//!
//! Nothing here is part of a request for a file. What erases content does so only when it was asked for
//! by name (INV-5), and removes rows before bytes (INV-3).

pub(crate) mod check;
pub(crate) mod data_removal;
pub(crate) mod purge;
pub(crate) mod recovery;
pub(crate) mod recovery_forks;
pub(crate) mod retention;
mod retire;
mod tree_rewriter;

use std::sync::Arc;

use offshoot_store::Store;

use crate::content::Contents;
use crate::context::Context;
use crate::directory::Directories;
use crate::sync::Synchronizer;
use crate::workspace::Workspaces;

/// Upkeep of a data directory: recovery after an unclean stop, check, clean, purge, retention. Cheap to clone.
#[derive(Clone)]
pub struct Upkeep {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) sync: Arc<Synchronizer>,
    pub(crate) workspaces: Arc<Workspaces>,
}

impl Upkeep {
    pub(crate) fn new(workspaces: &Arc<Workspaces>) -> Upkeep {
        Upkeep {
            context: Arc::clone(&workspaces.context),
            contents: Arc::clone(&workspaces.contents),
            directories: Arc::clone(&workspaces.directories),
            sync: Arc::clone(&workspaces.sync),
            workspaces: Arc::clone(workspaces),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
