//! Who may clone what, and push to it.

use offshoot_core::{RelPath, Result};

use super::{Access, Operation};
use crate::link::receive::GitPush;
use crate::project::clone::{GitClone, Repository};

impl Access {
    /// See [`Projects::open_clone`](crate::Projects::open_clone). A clone holds every path of every snapshot, so a token
    /// that is limited to some paths does not get one.
    pub fn open_clone(&self, repository: &Repository) -> Result<GitClone> {
        match repository {
            Repository::Workspace(id) => {
                self.check_all_below(Operation::Read, id, &RelPath::root())?;
            }
            Repository::Project(id) => self.check_whole_project(Operation::Read, id)?,
        }
        self.rooms.projects.open_clone(repository)
    }

    /// Opens a project or a workspace for a push. It may change every path, so a token that is limited
    /// to some paths cannot push. Protected paths are for the owner and for admins.
    pub fn open_push(&self, repository: &Repository) -> Result<GitPush> {
        let changes = [Operation::Read, Operation::Write, Operation::Delete];
        for operation in changes {
            match repository {
                Repository::Workspace(id) => {
                    self.check_all_below(operation, id, &RelPath::root())?;
                }
                Repository::Project(id) => self.check_whole_project(operation, id)?,
            }
        }
        if let Repository::Workspace(id) = repository {
            for operation in [Operation::Snapshot, Operation::Restore] {
                self.check_all_below(operation, id, &RelPath::root())?;
            }
        }
        (self.rooms.links).open_push(repository, self.may_change_protected(), &self.cause)
    }
}
