//! Snapshots as a git repository, for people and tools that speak git.

use std::path::Path;

use offshoot_core::{Error, ObjectId, ProjectId, Result, WorkspaceId};
use offshoot_git::{ExportProgress, ExportReport, export_branch, export_shallow};
use offshoot_store::{ReadTx, WorkspaceRow};

use crate::content::objects::StoredObjects;
use crate::content::rows::{open_project, open_row_in};
use crate::directory::git_layer::commits_without_parents;
use crate::workspace::Workspaces;

pub(crate) const BRANCH: &str = "refs/heads/main";

/// What an export wrote.
#[derive(Clone, Copy, Debug)]
pub struct Exported {
    /// The newest snapshot, which the branch points at.
    pub head: ObjectId,
    /// How many snapshots there are.
    pub snapshots: usize,
    /// What was written.
    pub report: ExportReport,
}

impl Workspaces {
    /// Writes the snapshots of a workspace into a bare repository, which stock git can clone.
    /// No git binary is needed. Exporting again adds what is new.
    pub fn export_git(
        &self,
        id: &WorkspaceId,
        target: &Path,
        progress: &mut dyn FnMut(ExportProgress),
    ) -> Result<Exported> {
        let (head, snapshots) = self
            .store()
            .read(|tx| head_and_count(tx, &open_row_in(tx, id)?))?;
        let head = head.ok_or_else(|| {
            Error::invalid(format!("`{id}` has no snapshot to export"))
                .with_hint(format!("take one with `offshoot snapshot {id}`"))
        })?;
        self.export(head, snapshots, target, None, progress)
    }

    /// Writes the snapshots of a project into a bare repository or, with a branch, into that branch
    /// of an existing repository. The branch is made, or moved forward; if it has commits that the
    /// project does not have, nothing changes.
    pub fn export_project_git(
        &self,
        id: &ProjectId,
        target: &Path,
        branch: Option<&str>,
        progress: &mut dyn FnMut(ExportProgress),
    ) -> Result<Exported> {
        let (head, snapshots) = self
            .store()
            .read(|tx| head_and_count(tx, &open_project(tx, id)?))?;
        let head = head.ok_or_else(|| {
            Error::invalid(format!("the project `{id}` has no snapshot to export")).with_hint(
                format!("put a file into it with `offshoot project put {id} PATH`"),
            )
        })?;
        self.export(head, snapshots, target, branch, progress)
    }

    fn export(
        &self,
        head: ObjectId,
        snapshots: usize,
        target: &Path,
        branch: Option<&str>,
        progress: &mut dyn FnMut(ExportProgress),
    ) -> Result<Exported> {
        let objects = StoredObjects::new(self.store(), None);
        let cut = || commits_without_parents(&objects, head);
        let report = match branch {
            None => {
                let cut = cut()?;
                let refs = [(BRANCH.to_owned(), head)];
                export_shallow(target, &objects, &refs, BRANCH, &cut, progress)?
            }
            Some(name) => export_branch(target, &objects, name, head, &cut, progress)?,
        };
        Ok(Exported {
            head,
            snapshots,
            report,
        })
    }
}

fn head_and_count(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<(Option<ObjectId>, usize)> {
    Ok((row.head, tx.snapshots(row.key, 0)?.len()))
}
