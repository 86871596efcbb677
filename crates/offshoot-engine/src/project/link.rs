//! The link of a project to a repository: what is remembered about it.
//!
//! What happens over a link is the room `link`'s. This is below merges, because a merge of what a
//! repository brings names the commit that it brings.

use offshoot_core::{ObjectId, ProjectId, Result};
use offshoot_store::{ProjectRow, ReadTx, WorkspaceKey, WriteTx};

use crate::content::rows::open_project;
use crate::formats::{self, Link};
use crate::project::Projects;
use crate::project::policy::settings_row;

/// The link of a project; none if it has none.
pub(crate) fn link_in(tx: &dyn ReadTx, project: WorkspaceKey) -> Result<Option<Link>> {
    link_of(&settings_row(tx, project)?)
}

fn link_of(project: &ProjectRow) -> Result<Option<Link>> {
    project.link.as_ref().map(formats::parse_text).transpose()
}

/// Links a project, or notes what became of its link.
pub(crate) fn put_link(tx: &mut dyn WriteTx, project: WorkspaceKey, link: &Link) -> Result<()> {
    let mut row = settings_row(tx, project)?;
    row.link = Some(formats::to_text(link)?);
    tx.put_project(&row)
}

/// Changes what is remembered of a link, if the project is still linked.
pub(crate) fn change_link(
    tx: &mut dyn WriteTx,
    project: WorkspaceKey,
    change: impl FnOnce(&mut Link),
) -> Result<()> {
    match link_in(tx, project)? {
        Some(mut link) => {
            change(&mut link);
            put_link(tx, project, &link)
        }
        None => Ok(()),
    }
}

/// The commit that a snapshot of a workspace is, if the workspace brings commits of the repository
/// that its project is linked to. A merge of it has that commit as a further parent, and passes
/// protected paths: only the owner of a project pulls.
pub(crate) fn pulled_commit(
    project: &ProjectRow,
    workspace: WorkspaceKey,
    snapshot: ObjectId,
) -> Result<Option<ObjectId>> {
    let pending = link_of(project)?.and_then(|link| link.pending);
    let brings = pending.filter(|one| one.workspace == workspace.0 && one.tip == snapshot);
    Ok(brings.map(|one| one.tip))
}

impl Projects {
    /// What a project is linked to; none if it is not linked.
    pub fn link(&self, id: &ProjectId) -> Result<Option<Link>> {
        self.store()
            .read(|tx| link_in(tx, open_project(tx, id)?.key))
    }

    /// All projects that are linked, with what to.
    pub fn linked_projects(&self) -> Result<Vec<(ProjectId, Link)>> {
        self.store().read(|tx| {
            let mut linked = Vec::new();
            for row in tx.projects(None, 0)? {
                if let Some(link) = link_in(tx, row.key)? {
                    linked.push((row.id.as_str().parse()?, link));
                }
            }
            Ok(linked)
        })
    }
}
