//! Projects and workspaces as git repositories that stock git clones and fetches from.

use std::io::Write;

use offshoot_core::{ObjectId, ProjectId, Result, WorkspaceId};
use offshoot_git::{AdvertisedRef, GitProtocol, UploadPack};

use crate::content::objects::StoredObjects;
use crate::content::rows::{open_project, open_row_in};
use crate::project::Projects;
use crate::workspace::export::{ProjectRefs, refs_of};

/// What can be cloned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repository {
    /// A project: its snapshots.
    Project(ProjectId),
    /// A workspace: its snapshots and, for a fork, those it came from.
    Workspace(WorkspaceId),
}

/// A repository as it was when it was asked for.
pub struct GitClone {
    projects: Projects,
    head: Option<ObjectId>,
    branch: String,
    refs: Vec<AdvertisedRef>,
}

impl Projects {
    /// Opens a project or a workspace for a client that speaks git. Without a snapshot it is an
    /// empty repository.
    pub fn open_clone(&self, repository: &Repository) -> Result<GitClone> {
        let (head, refs) = self.store().read(|tx| match repository {
            Repository::Project(id) => {
                let row = open_project(tx, id)?;
                Ok((row.head, refs_of(tx, row.key)?))
            }
            Repository::Workspace(id) => Ok((open_row_in(tx, id)?.head, ProjectRefs::default())),
        })?;
        let advertised = refs.others.into_iter().map(|row| AdvertisedRef {
            name: row.name,
            target: row.target,
            peeled: row.peeled,
        });
        Ok(GitClone {
            projects: self.clone(),
            head,
            branch: refs.branch,
            refs: advertised.collect(),
        })
    }
}

impl GitClone {
    /// Says what there is to fetch.
    pub fn advertise(&self, protocol: GitProtocol, out: &mut dyn Write) -> Result<()> {
        self.with_objects(|upload| upload.advertise(protocol, out))
    }

    /// Answers a request for references or for objects. It blocks as long as the client reads; the
    /// cost follows what the client does not have yet.
    pub fn answer(&self, protocol: GitProtocol, request: &[u8], out: &mut dyn Write) -> Result<()> {
        self.with_objects(|upload| upload.answer(protocol, request, out))
    }

    fn with_objects<T>(&self, work: impl FnOnce(&UploadPack<'_>) -> Result<T>) -> Result<T> {
        let reader = StoredObjects::new(self.projects.store(), None);
        work(&UploadPack {
            reader: &reader,
            head: self.head,
            branch: &self.branch,
            refs: &self.refs,
        })
    }
}
