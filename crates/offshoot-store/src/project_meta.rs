//! The part of the store's traits that is about projects, layers, forks and agents.

use offshoot_core::{AgentId, ObjectId, ProjectId, Result};

use crate::project_rows::{AgentRow, AuthorRow, ForkRow, LayerRow, ProjectRow, RefRow};
use crate::rows::{WorkspaceKey, WorkspaceRow};

/// What can be asked about projects, layers, forks and agents.
pub trait ProjectReads {
    /// The open project of that name, or else the one of that name that was closed last.
    fn project(&self, id: &ProjectId) -> Result<Option<WorkspaceRow>>;

    /// Open projects in the order of their names (bytewise), those after `after` only; 0 means no
    /// limit.
    fn projects(&self, after: Option<&ProjectId>, limit: usize) -> Result<Vec<WorkspaceRow>>;

    /// The settings of a project.
    fn project_settings(&self, key: WorkspaceKey) -> Result<Option<ProjectRow>>;

    /// What makes a workspace a fork.
    fn fork(&self, workspace: WorkspaceKey) -> Result<Option<ForkRow>>;

    /// The open forks of a project in the order of their numbers.
    fn forks_of(&self, project: WorkspaceKey) -> Result<Vec<WorkspaceRow>>;

    /// Open forks of a project in the order of their numbers, with what makes them forks: those
    /// after a number only, and at most so many; 0 means all.
    fn forks_after(
        &self,
        project: WorkspaceKey,
        after: WorkspaceKey,
        limit: usize,
    ) -> Result<Vec<(WorkspaceRow, ForkRow)>>;

    /// A layer by its number.
    fn layer(&self, key: i64) -> Result<Option<LayerRow>>;

    /// Layers whose stack shows this state, the ones with the fewest layers below first. Those of a
    /// level below 0 show more than the state and are left out.
    fn layers_showing(&self, tree: &ObjectId, sidecar: &ObjectId) -> Result<Vec<LayerRow>>;

    /// Every layer, in the order of numbers.
    fn layers(&self) -> Result<Vec<LayerRow>>;

    /// The layers of a project that have this level, the newest first.
    fn layers_of_level(&self, project: WorkspaceKey, level: i64) -> Result<Vec<LayerRow>>;

    /// The layers that open forks name as their topmost or as their setup, without repetition.
    fn layers_in_use(&self) -> Result<Vec<i64>>;

    /// An agent by its name, the removed ones too.
    fn agent(&self, id: &AgentId) -> Result<Option<AgentRow>>;

    /// Every agent that was not removed, in the order of names.
    fn agents(&self) -> Result<Vec<AgentRow>>;

    /// The author that is closest to an agent in a project: the agent's in that project, the
    /// agent's everywhere, that of all agents of the project, that of all agents. One query.
    fn author(&self, project: WorkspaceKey, agent: Option<&AgentId>) -> Result<Option<AuthorRow>>;

    /// Every author, those of all projects first, then in the order of projects and agents.
    fn authors(&self) -> Result<Vec<AuthorRow>>;

    /// The refs of a project whose names begin so, in the order of names.
    fn refs(&self, project: WorkspaceKey, prefix: &str) -> Result<Vec<RefRow>>;
}

/// What can be changed about projects, layers, forks and agents.
pub trait ProjectWrites {
    /// Sets the settings of a project.
    fn put_project(&mut self, row: &ProjectRow) -> Result<()>;

    /// Sets what makes a workspace a fork.
    fn put_fork(&mut self, row: &ForkRow) -> Result<()>;

    /// Adds a layer and returns its number; the `key` of the row is ignored. The layer below
    /// must exist.
    fn add_layer(&mut self, row: &LayerRow) -> Result<i64>;

    /// Notes that a layer is on disk.
    fn mark_layer_synced(&mut self, key: i64) -> Result<()>;

    /// Forgets a layer. Returns false, and does nothing, while an open fork or another layer
    /// stands on it.
    fn remove_layer(&mut self, key: i64) -> Result<bool>;

    /// Sets an agent.
    fn put_agent(&mut self, row: &AgentRow) -> Result<()>;

    /// Sets an author.
    fn put_author(&mut self, row: &AuthorRow) -> Result<()>;

    /// Forgets an author. Returns whether there was one.
    fn remove_author(
        &mut self,
        project: Option<WorkspaceKey>,
        agent: Option<&AgentId>,
    ) -> Result<bool>;

    /// Sets a ref.
    fn put_ref(&mut self, row: &RefRow) -> Result<()>;

    /// Forgets the refs of a project whose names begin so. Returns how many there were.
    fn remove_refs(&mut self, project: WorkspaceKey, prefix: &str) -> Result<usize>;

    /// Forgets one ref. Returns whether there was one.
    fn remove_ref(&mut self, project: WorkspaceKey, name: &str) -> Result<bool>;
}
