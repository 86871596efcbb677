//! The content of workspaces and projects in the store.
//!
//! This room has the index of a workspace, the states that snapshots refer to, the objects behind both,
//! drafts of changes, and the rules about which names may be in a workspace. It reads and writes the
//! store only, and does not open the directory of a workspace: that is done in the room `directory`.

pub(crate) mod agent_rows;
pub(crate) mod as_text;
pub(crate) mod change_set;
pub(crate) mod content_ids;
pub(crate) mod counters;
pub(crate) mod credit;
pub(crate) mod diff;
pub(crate) mod draft;
pub(crate) mod find_snapshot;
pub(crate) mod history_writer;
pub(crate) mod incoming;
pub(crate) mod index;
pub(crate) mod inherited;
pub(crate) mod left_out;
pub(crate) mod mime;
pub(crate) mod objects;
pub(crate) mod paths_with_history;
pub(crate) mod pattern;
pub(crate) mod rows;
pub(crate) mod snapshot_plan;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod too_large;

pub(crate) mod workspace_row;

use std::sync::Arc;

use offshoot_store::Store;

use crate::content::content_ids::ContentIdCache;
use crate::context::Context;

/// The content of workspaces and projects in the store. Cheap to clone.
#[derive(Clone)]
pub struct Contents {
    pub(crate) context: Arc<Context>,
    pub(crate) content_ids: Arc<ContentIdCache>,
}

impl Contents {
    pub(crate) fn new(context: &Arc<Context>) -> Contents {
        Contents {
            context: Arc::clone(context),
            content_ids: Arc::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
