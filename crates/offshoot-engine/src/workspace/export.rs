//! Snapshots as a git repository, for people and tools that speak git.

use std::path::Path;

use offshoot_core::{Error, ObjectId, ProjectId, Result, WorkspaceId};
use offshoot_git::{BRANCHES, ExportProgress, ExportReport, export_branch, export_shallow};
use offshoot_store::{ReadTx, RefRow, WorkspaceKey, WorkspaceRow};

use crate::content::objects::StoredObjects;
use crate::content::rows::{open_project, open_row_in};
use crate::directory::git_layer::commits_without_parents;
use crate::workspace::Workspaces;

/// The branch of a workspace, and of a project that came with no other.
pub(crate) const BRANCH: &str = "refs/heads/main";
/// Where the names of branches and of tags begin.
pub(crate) const SHOWN_REFS: [&str; 2] = [BRANCHES, "refs/tags/"];

/// What git sees of a project beside its snapshots.
pub(crate) struct ProjectRefs {
    /// The whole name of its own branch.
    pub(crate) branch: String,
    /// Its other branches and its tags, in the order of names.
    pub(crate) others: Vec<RefRow>,
}

impl Default for ProjectRefs {
    fn default() -> Self {
        ProjectRefs {
            branch: BRANCH.to_owned(),
            others: Vec::new(),
        }
    }
}

/// The branches and tags of a project.
pub(crate) fn refs_of(tx: &dyn ReadTx, project: WorkspaceKey) -> Result<ProjectRefs> {
    let branch = tx.project_settings(project)?.and_then(|row| row.branch);
    let mut refs = ProjectRefs {
        branch: branch.unwrap_or_else(|| BRANCH.to_owned()),
        others: Vec::new(),
    };
    for names in SHOWN_REFS {
        refs.others.extend(tx.refs(project, names)?);
    }
    refs.others.retain(|row| row.name != refs.branch);
    Ok(refs)
}

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
        let refs = ProjectRefs::default();
        self.export(head, snapshots, &refs, (target, None), progress)
    }

    /// Writes the snapshots of a project with its branches and tags into a bare repository or, with a
    /// branch, the snapshots alone into that branch of an existing repository. The branch is made, or moved forward; if it has commits that the
    /// project does not have, nothing changes.
    pub fn export_project_git(
        &self,
        id: &ProjectId,
        target: &Path,
        branch: Option<&str>,
        progress: &mut dyn FnMut(ExportProgress),
    ) -> Result<Exported> {
        let ((head, snapshots), refs) = self.store().read(|tx| {
            let row = open_project(tx, id)?;
            Ok((head_and_count(tx, &row)?, refs_of(tx, row.key)?))
        })?;
        let head = head.ok_or_else(|| {
            Error::invalid(format!("the project `{id}` has no snapshot to export")).with_hint(
                format!("put a file into it with `offshoot project put {id} PATH`"),
            )
        })?;
        self.export(head, snapshots, &refs, (target, branch), progress)
    }

    fn export(
        &self,
        head: ObjectId,
        snapshots: usize,
        refs: &ProjectRefs,
        (target, branch): (&Path, Option<&str>),
        progress: &mut dyn FnMut(ExportProgress),
    ) -> Result<Exported> {
        let objects = StoredObjects::new(self.store(), None);
        let report = match branch {
            None => {
                let others = refs.others.iter();
                let mut tips: Vec<ObjectId> = others.clone().map(|row| row.peeled).collect();
                tips.push(head);
                let cut = commits_without_parents(&objects, &tips)?;
                let mut all = vec![(refs.branch.clone(), head)];
                all.extend(others.map(|row| (row.name.clone(), row.target)));
                export_shallow(target, &objects, &all, &refs.branch, &cut, progress)?
            }
            Some(name) => {
                let cut = || commits_without_parents(&objects, &[head]);
                export_branch(target, &objects, name, head, &cut, progress)?
            }
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
