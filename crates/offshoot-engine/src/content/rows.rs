//! Finding rows of workspaces, projects, forks and snapshots, and the state that each refers to.

use offshoot_core::{Error, ErrorCode, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_store::{
    ForkRow, ReadTx, SnapshotRow, WorkspaceKey, WorkspaceKind, WorkspaceRow, WorkspaceState,
};
use serde::{Deserialize, Serialize};

use crate::content::Contents;
use crate::content::index::Index;
use crate::content::state::{State, StateEntry};

/// The open workspace of that name, inside a transaction.
pub(crate) fn open_row_in(tx: &dyn ReadTx, id: &WorkspaceId) -> Result<WorkspaceRow> {
    match tx.workspace(id)? {
        Some(row) if row.state == WorkspaceState::Open => Ok(row),
        _ => Err(no_workspace(id)),
    }
}

/// The open workspace of that name, or else the one that was completed or deleted last. For callers
/// that only read what is recorded.
pub(crate) fn last_row_in(tx: &dyn ReadTx, id: &WorkspaceId) -> Result<WorkspaceRow> {
    tx.workspace(id)?.ok_or_else(|| no_workspace(id))
}

/// The current row of an open workspace whose name was looked up before its lock was taken.
pub(crate) fn open_row_by_key(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<WorkspaceRow> {
    match tx.workspace_by_key(row.key)? {
        Some(now) if now.state == WorkspaceState::Open => Ok(now),
        _ => Err(no_workspace(&row.id)),
    }
}

pub(crate) fn no_workspace(id: &WorkspaceId) -> Error {
    Error::new(
        ErrorCode::WorkspaceNotFound,
        format!("there is no workspace `{id}`"),
    )
    .with_hint("`offshoot workspace list` shows those there are; `offshoot fork PROJECT` makes one")
}

pub(crate) fn is_a_directory(path: &RelPath) -> Error {
    Error::new(ErrorCode::IsADirectory, format!("`{path}` is a directory"))
}

pub(crate) fn no_file(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::FileNotFound,
        format!("there is no file `{path}`"),
    )
}

/// The open project of that name.
pub(crate) fn open_project(tx: &dyn ReadTx, id: &ProjectId) -> Result<WorkspaceRow> {
    match tx.project(id)? {
        Some(row) if row.state == WorkspaceState::Open => Ok(row),
        _ => Err(no_project(id)),
    }
}

pub(crate) fn no_project(id: &ProjectId) -> Error {
    Error::new(
        ErrorCode::ProjectNotFound,
        format!("there is no project `{id}`"),
    )
    .with_hint("`offshoot project list` shows those there are")
}

/// The state below the rows of a workspace, or the whole state of a project.
pub(crate) fn state_of_row(row: &WorkspaceRow) -> State {
    State {
        tree: row.tree,
        sidecar: row.sidecar,
    }
}

/// The bytes of an entry's content.
pub(crate) fn size_of(tx: &dyn ReadTx, entry: &StateEntry) -> Result<i64> {
    match entry.id {
        None => Ok(0),
        Some(id) => Ok(tx.object_size(&id)?.unwrap_or(0) as i64),
    }
}

/// The fork row of a workspace that is a fork.
pub(crate) fn fork_row(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<ForkRow> {
    tx.fork(row.key)?
        .ok_or_else(|| Error::internal(format!("`{}` is a fork of nothing", row.id)))
}

/// The name of a fork's project.
pub(crate) fn project_name(tx: &dyn ReadTx, fork: &ForkRow) -> Result<ProjectId> {
    match tx.workspace_by_key(fork.project)? {
        Some(row) => row.id.as_str().parse(),
        None => Err(Error::internal("the project of a fork is gone")),
    }
}

/// The base of a fork as a state.
pub(crate) fn base_state(fork: &ForkRow) -> State {
    State {
        tree: fork.base_tree,
        sidecar: fork.base_sidecar,
    }
}

/// The state that a snapshot holds.
pub(crate) fn state_of(row: &SnapshotRow) -> State {
    State {
        tree: row.tree,
        sidecar: row.sidecar,
    }
}

/// The agent of a fork, to which changes by programs in its directory are attributed; none for other
/// workspaces.
pub(crate) fn agent_claim(tx: &dyn ReadTx, key: WorkspaceKey) -> Result<Option<String>> {
    let (row, fork) = (tx.workspace_by_key(key)?, tx.fork(key)?);
    Ok(match (row, fork) {
        (Some(row), Some(fork)) => Some(agent_of(&row, &fork)),
        _ => None,
    })
}

/// The agent of a fork, or the name of its workspace if it has none.
pub(crate) fn agent_of(row: &WorkspaceRow, fork: &ForkRow) -> String {
    let agent = fork.agent.as_ref().map(ToString::to_string);
    agent.unwrap_or_else(|| row.id.to_string())
}

/// The project that a workspace belongs to. Names are free again after a workspace or project is
/// closed, so a token for a name is also bound to this: it never reaches a workspace of the same name
/// in another project (INV-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParentProject {
    /// No project.
    None,
    /// The project with this number.
    Project(i64),
}

/// The project that a workspace belongs to, or the project itself.
pub(crate) fn parent_project(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<ParentProject> {
    if row.kind == WorkspaceKind::Project {
        return Ok(ParentProject::Project(row.key.0));
    }
    let fork = tx.fork(row.key)?;
    Ok(fork.map_or(ParentProject::None, |fork| {
        ParentProject::Project(fork.project.0)
    }))
}

impl Contents {
    /// The open workspace of that name.
    pub(crate) fn open_row(&self, id: &WorkspaceId) -> Result<WorkspaceRow> {
        self.store().read(|tx| open_row_in(tx, id))
    }

    /// Runs `work` with the index of an open workspace.
    pub(crate) fn with_index<T>(
        &self,
        id: &WorkspaceId,
        mut work: impl FnMut(&Index<'_>) -> Result<T>,
    ) -> Result<T> {
        self.store().read(|tx| {
            let row = open_row_in(tx, id)?;
            work(&Index::new(self.store(), tx, &row))
        })
    }
}
