//! Merges: the work of forks brought into their project, and the conflicts that wait for a decision.
//!
//! The three-way merge itself is the crate `offshoot-merge`; this room gives it states, lands what comes
//! of it in one transaction (INV-6), and keeps what does not fit as reviews. Moving a fork onto a newer
//! base is a merge in the other direction and belongs here too.

pub(crate) mod after_merge;
pub(crate) mod authors;
pub(crate) mod base;
pub(crate) mod complete;
pub(crate) mod dry_run;
pub(crate) mod fork_commits;
pub(crate) mod log;
pub(crate) mod overview;
pub(crate) mod plan_merge;
pub(crate) mod policy_decision;
pub(crate) mod protect;
pub(crate) mod regions;
pub(crate) mod review_close;
pub(crate) mod review_content;
pub(crate) mod review_decision;
pub(crate) mod review_land;
pub(crate) mod review_list;
pub(crate) mod review_row;
pub(crate) mod review_update;
pub(crate) mod reviews;
pub(crate) mod three_way;
pub(crate) mod update;
mod update_commit;
mod update_dir;

use std::sync::Arc;

use offshoot_store::Store;

use crate::content::Contents;
use crate::context::Context;
use crate::directory::Directories;
use crate::fork::Forks;
use crate::history::History;
use crate::project::Projects;
use crate::sync::Synchronizer;
use crate::workspace::Workspaces;

/// Merges: the work of forks brought into their project, and the conflicts that wait for a decision. Cheap to clone.
#[derive(Clone)]
pub struct Merges {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) sync: Arc<Synchronizer>,
    pub(crate) history: Arc<History>,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) projects: Arc<Projects>,
    pub(crate) forks: Arc<Forks>,
}

impl Merges {
    pub(crate) fn new(forks: &Arc<Forks>) -> Merges {
        Merges {
            context: Arc::clone(&forks.context),
            contents: Arc::clone(&forks.contents),
            directories: Arc::clone(&forks.directories),
            sync: Arc::clone(&forks.sync),
            history: Arc::clone(&forks.history),
            workspaces: Arc::clone(&forks.workspaces),
            projects: Arc::clone(&forks.projects),
            forks: Arc::clone(forks),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}
