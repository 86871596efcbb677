//! Links: projects that follow a branch of a git repository, and give back what was merged. What
//! people push with git comes in here too: both bring commits.
//!
//! The repository is one more agent. What is new in it is merged like the work of a fork, with the
//! commit that was taken last as the base; what was merged goes back as commits on a branch. The
//! work tree, the index, `HEAD` and the settings of the repository are never touched.
//!
//! A repository is a directory here. One of another machine is fetched into a directory of ours
//! first, and pushed from there: by the git that is installed, which the caller runs.

mod auto;
pub(crate) mod create;
pub(crate) mod directory;
pub(crate) mod incoming;
pub(crate) mod land;
pub(crate) mod pull;
pub(crate) mod push;
pub(crate) mod receive;
pub(crate) mod receive_project;
pub(crate) mod receive_workspace;
mod refs;
pub(crate) mod status;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use offshoot_core::{Error, ErrorCode, ProjectId, Result};
use offshoot_fs::WorkspaceLock;
use offshoot_git::GitRepository;
use offshoot_store::{Store, WorkspaceKey};

use crate::content::rows::open_project;
use crate::context::{Context, describe_busy};
use crate::directory::Directories;
use crate::fork::Forks;
use crate::formats::Link;
use crate::merge::Merges;
use crate::project::Projects;
use crate::project::link::link_in;
use crate::workspace::Workspaces;

/// How long a pull or push waits for another one.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Links: projects that follow a branch of a git repository. Cheap to clone.
#[derive(Clone)]
pub struct Links {
    pub(crate) context: Arc<Context>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) projects: Arc<Projects>,
    pub(crate) forks: Arc<Forks>,
    pub(crate) merges: Arc<Merges>,
}

impl Links {
    pub(crate) fn new(merges: &Arc<Merges>) -> Links {
        Links {
            context: Arc::clone(&merges.context),
            directories: Arc::clone(&merges.directories),
            workspaces: Arc::clone(&merges.workspaces),
            projects: Arc::clone(&merges.projects),
            forks: Arc::clone(&merges.forks),
            merges: Arc::clone(merges),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }

    /// Where what was fetched for a project is kept; the caller makes the repository.
    pub fn fetched_repository(&self, id: &ProjectId) -> Result<PathBuf> {
        let key = self.store().read(|tx| Ok(open_project(tx, id)?.key))?;
        Ok(self.context.data.links().join(format!("{}.git", key.0)))
    }

    /// The link of a project, which must have one, and whose commits the repository must know.
    fn usable_link(&self, id: &ProjectId) -> Result<(WorkspaceKey, Link)> {
        let (key, link) = self.store().read(|tx| {
            let key = open_project(tx, id)?.key;
            Ok((key, link_in(tx, key)?))
        })?;
        let link = link.ok_or_else(|| not_linked(id))?;
        if link.purged {
            return Err(Error::invalid(format!(
                "content that `{id}` and its repository had in common was purged here"
            ))
            .with_hint(
                "the repository still has it: remove it there too, and make a new project from it",
            ));
        }
        Ok((key, link))
    }

    /// The right to pull or push: one after the other.
    fn turn(&self, key: WorkspaceKey) -> Result<WorkspaceLock> {
        self.context
            .locks
            .exclusive(&format!("link-{}", key.0), MAX_WAIT)
            .map_err(|error| describe_busy(error, "the turn to use the link of the project"))
    }

    /// The repository of a link, or the one that stands for it.
    fn open_repository(&self, link: &Link, fetched: Option<&PathBuf>) -> Result<GitRepository> {
        let place = fetched.map_or_else(|| PathBuf::from(&link.repository), Clone::clone);
        if !place.is_absolute() {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "the repository of the project is on another machine",
            )
            .with_hint("use the command line here: it lets git fetch and push"));
        }
        GitRepository::open(&place).map_err(|cause| {
            Error::new(
                cause.code(),
                "the repository of the project cannot be opened",
            )
            .with_hint("`offshoot project show NAME` says where it should be")
            .with_source(cause)
        })
    }
}

pub(crate) fn not_linked(id: &ProjectId) -> Error {
    Error::invalid(format!("the project `{id}` is linked to no repository")).with_hint(
        "`offshoot init` in a repository makes a project that is; \
         `offshoot project sync NAME DIR` takes what a directory holds",
    )
}
