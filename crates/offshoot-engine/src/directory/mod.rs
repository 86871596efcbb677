//! The directories of workspaces: plain ones, and those of forks with their layers.
//!
//! A directory is a projection of the store. This room builds directories, opens them, writes entries
//! of the index into them, moves them aside and removes them. It does not look for changes of outside
//! programs, and it never changes an index: the rows that it writes say only whether a workspace has a
//! directory and which layers that has.

pub(crate) mod aside;
pub(crate) mod checkpoint;
pub(crate) mod disk_entry;
pub(crate) mod fork_dir;
pub(crate) mod git_layer;
pub(crate) mod git_move;
pub(crate) mod included;
pub(crate) mod last_use;
pub(crate) mod layer_collect;
pub(crate) mod layer_write;
pub(crate) mod layers;
pub(crate) mod lock;
pub(crate) mod materialize;
pub(crate) mod open;
pub(crate) mod projection;
pub(crate) mod providers;
pub(crate) mod read;
pub(crate) mod repair;
pub(crate) mod replacement;
pub(crate) mod setup_layer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use offshoot_store::Store;

use crate::content::Contents;
use crate::context::Context;
use crate::directory::last_use::LastUse;
use crate::directory::layers::Stack;
use crate::directory::providers::Providers;

/// The directories of workspaces: plain ones, and those of forks with their layers. Cheap to clone.
#[derive(Clone)]
pub struct Directories {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    stacks: Arc<Mutex<HashMap<i64, Stack>>>,
    providers: Arc<Providers>,
    last_use: Arc<LastUse>,
}

impl Directories {
    pub(crate) fn new(contents: &Arc<Contents>) -> Directories {
        Directories {
            context: Arc::clone(&contents.context),
            contents: Arc::clone(contents),
            stacks: Arc::default(),
            providers: Arc::default(),
            last_use: Arc::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
