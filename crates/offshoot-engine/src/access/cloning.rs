//! Who may clone what.

use offshoot_core::{RelPath, Result};

use super::{Access, Operation, Reach};
use crate::git_clone::{GitClone, Repository};
use crate::project::no_project;

impl Access {
    /// See [`crate::Engine::open_clone`]. A clone holds every path of every snapshot, so a token
    /// that is limited to some paths does not get one.
    pub fn open_clone(&self, repository: &Repository) -> Result<GitClone> {
        let principal = self.principal();
        match repository {
            Repository::Workspace(id) => {
                principal.check_all_below(Operation::Read, id, &RelPath::root())?;
            }
            Repository::Project(id) => {
                let within = match &principal.scope.reach {
                    Reach::Everything => true,
                    Reach::Project(own) => own == id,
                    Reach::Agent(_) | Reach::Workspace(_) => false,
                };
                if !within {
                    return Err(no_project(id));
                }
                principal.check_whole()?;
            }
        }
        self.engine().open_clone(repository)
    }
}
