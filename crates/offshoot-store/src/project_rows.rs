//! What the store holds about projects, layers, forks and agents. Persisted formats, like
//! `rows.rs`.

use offshoot_core::{AgentId, ObjectId, Timestamp, WorkspaceId};

use crate::rows::WorkspaceKey;

/// What lands when a merge has conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Landing {
    /// What does not conflict lands at once, the rest waits for a decision.
    Partial,
    /// Nothing lands until every conflict is decided.
    Atomic,
}

/// The settings of a project. Everything else about it is in its [`crate::WorkspaceRow`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRow {
    /// The project.
    pub key: WorkspaceKey,
    /// What lands when a merge has conflicts.
    pub landing: Landing,
    /// Whether snapshots and merges take ignored files too.
    pub include_ignored: bool,
    /// Its merge policies as JSON; what they mean is not the store's business.
    pub policy: String,
    /// The patterns of its protected paths as JSON.
    pub protect: String,
    /// The repository that it is linked to as JSON; none if it is not.
    pub link: Option<String>,
    /// The whole name of its branch, as it was where the project came from; none is the usual one.
    pub branch: Option<String>,
    /// What was last taken from a directory as JSON; none if nothing was.
    pub source: Option<String>,
    /// The command that prepares its forks as JSON; none if there is none.
    pub setup: Option<String>,
}

/// A branch or a tag of a project beside its own branch, or a commit that is kept for a merge that
/// waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefRow {
    /// The project.
    pub project: WorkspaceKey,
    /// Its whole name, such as `refs/tags/v1`.
    pub name: String,
    /// What it points at.
    pub target: ObjectId,
    /// What an annotated tag leads to in the end; for everything else the same as `target`.
    pub peeled: ObjectId,
}

/// Under which name the work of agents is in the history of projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorRow {
    /// In which project; none for all of them.
    pub project: Option<WorkspaceKey>,
    /// Of which agent; none for all of them.
    pub agent: Option<AgentId>,
    /// The name.
    pub name: String,
    /// The e-mail address.
    pub email: String,
}

/// One layer: a frozen directory that holds a state, or what differs from the layer below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRow {
    /// Its number.
    pub key: i64,
    /// Its directory below `layers/`; never used twice.
    pub name: String,
    /// The project whose snapshots it shows.
    pub project: WorkspaceKey,
    /// The layer below it; none for a base layer. A layer and what is below never change.
    pub below: Option<i64>,
    /// How many layers its stack has, itself included.
    pub depth: i64,
    /// 0 for a base layer or the difference of one merge, one more for each time that differences
    /// were put together; less than 0 for a layer that shows no state of the project.
    pub level: i64,
    /// The tree that the stack shows.
    pub tree: ObjectId,
    /// The sidecar tree that the stack shows.
    pub sidecar: ObjectId,
    /// Files, links, directories and whiteouts in this layer alone.
    pub entries: i64,
    /// Bytes in this layer alone.
    pub bytes: i64,
    /// When it was written.
    pub made_at: Timestamp,
    /// Whether it is known to be on disk, so that it need not be checked after a power cut.
    pub synced: bool,
}

/// What makes a workspace a fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkRow {
    /// The workspace.
    pub workspace: WorkspaceKey,
    /// The project it is merged into.
    pub project: WorkspaceKey,
    /// The snapshot it began with.
    pub base: ObjectId,
    /// The tree of that.
    pub base_tree: ObjectId,
    /// The sidecar of that.
    pub base_sidecar: ObjectId,
    /// The agent that owns it.
    pub agent: Option<AgentId>,
    /// Its weight where a policy decides by priority.
    pub priority: i64,
    /// Whether its directory has a `.git` of its own at the base.
    pub git: bool,
    /// The provider that made its directory, or that was required for it; none before that.
    pub provider: Option<String>,
    /// The topmost layer that its directory stands on, once there is a directory.
    pub layer: Option<i64>,
    /// The layer with what the setup of its project made, if its directory stands on one.
    pub setup: Option<i64>,
    /// The number of its private directory, which grows when the fork moves to another base.
    pub place: i64,
}

/// One node of the tree of agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    /// Its name.
    pub id: AgentId,
    /// The agent above it; none directly below root.
    pub parent: Option<AgentId>,
    /// What it is there for.
    pub role: String,
    /// The name of the workspace that is its own; none if it works in that of an agent above it.
    /// Once that workspace is closed, another one may get its name.
    pub workspace: Option<WorkspaceId>,
    /// The workspace that is its own.
    pub workspace_key: Option<WorkspaceKey>,
    /// The weight of its forks where a policy decides by priority, unless a fork has its own.
    pub priority: i64,
    /// When it came into being.
    pub created_at: Timestamp,
    /// When it was removed from the tree. Its name stays taken, because history names it.
    pub ended_at: Option<Timestamp>,
}
