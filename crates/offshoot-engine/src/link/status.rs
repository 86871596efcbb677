//! What a project is linked to, and how far the two are apart.

use std::path::PathBuf;

use offshoot_core::{Error, ObjectId, ProjectId, Result, WorkspaceId};

use crate::content::objects::StoredObjects;
use crate::content::rows::open_project;
use crate::formats::Link;
use crate::link::Links;
use crate::link::incoming::{BothObjects, compare};
use crate::link::pull::waiting_name;

/// A link and how far the project and the branch are apart.
#[derive(Clone, Debug)]
pub struct LinkStatus {
    /// The link.
    pub link: Link,
    /// The newest commit of the followed branch; none if it cannot be read, with the reason.
    pub tip: std::result::Result<ObjectId, String>,
    /// How many commits the project has that the branch lacks.
    pub ahead: usize,
    /// How many commits the branch has that the project lacks.
    pub behind: usize,
    /// The workspace of a pull whose conflicts wait for a decision.
    pub waiting: Option<WorkspaceId>,
}

impl Links {
    /// What a project is linked to; none if it is not linked. `fetched` is what was fetched of a
    /// repository on another machine.
    pub fn status(&self, id: &ProjectId, fetched: Option<&PathBuf>) -> Result<Option<LinkStatus>> {
        let key = self.store().read(|tx| Ok(open_project(tx, id)?.key))?;
        if self.projects.link(id)?.is_none() {
            return Ok(None);
        }
        let link = self.settled_link(key)?;
        let mut status = LinkStatus {
            tip: Err(String::new()),
            ahead: 0,
            behind: 0,
            waiting: self.store().read(|tx| waiting_name(tx, &link))?,
            link,
        };
        match self.distance(id, &mut status, fetched) {
            Ok(tip) => status.tip = Ok(tip),
            Err(error) => status.tip = Err(error.to_string()),
        }
        Ok(Some(status))
    }

    fn distance(
        &self,
        id: &ProjectId,
        status: &mut LinkStatus,
        fetched: Option<&PathBuf>,
    ) -> Result<ObjectId> {
        let repository = self.open_repository(&status.link, fetched)?;
        let branch = &status.link.branch;
        let tip = repository.branch(branch)?;
        let tip = tip.ok_or_else(|| super::create::no_branch(branch))?;
        let head = self.store().read(|tx| Ok(open_project(tx, id)?.head))?;
        let head = head.ok_or_else(|| Error::internal("a linked project has no snapshot"))?;
        let objects = BothObjects::new(StoredObjects::new(self.store(), None), &repository);
        let compared = compare(&objects, head, tip, status.link.taken)?;
        status.ahead = compared.divergence.one;
        status.behind = compared.divergence.other;
        Ok(tip)
    }
}
