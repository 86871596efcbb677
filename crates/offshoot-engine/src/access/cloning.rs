//! Who may clone what.

use offshoot_core::{RelPath, Result};

use super::{Access, Operation};
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
}
