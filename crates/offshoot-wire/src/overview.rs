//! The open forks of a project, and which paths they both changed.

use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{HistoryLine, Project, Time, Workspace, texts, time};

/// One open fork beside the others of its project.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ForkOverview {
    /// The workspace.
    id: String,
    project: String,
    agent: Option<String>,
    base_snapshot: String,
    provider: Option<&'static str>,
    created_at: Time,
    changed_at: Time,
    /// How many paths it changed since its base.
    changed: usize,
    /// How many snapshots of the project are newer than its base.
    behind: i64,
    /// The other open forks that changed the same paths.
    overlap: Vec<ForkOverlap>,
    /// The first of the paths that it and the project changed since its base.
    overlap_with_project: Vec<String>,
    /// How many there are beyond these.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    overlap_with_project_more: usize,
    /// What happened last in it.
    #[schemars(with = "Option<HistoryLine>")]
    last_operation: Option<Value>,
    /// How many of its conflicts wait for a decision.
    open_reviews: usize,
    /// Why its directory could not be scanned, so that this is what was recorded before.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_looked_at: Option<String>,
}

/// What two forks both changed.
#[derive(Debug, Serialize, JsonSchema)]
struct ForkOverlap {
    /// The other fork.
    fork: String,
    /// The first of the paths.
    paths: Vec<String>,
    /// How many there are beyond these.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    more: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl From<&engine::ForkOverview> for ForkOverview {
    fn from(fork: &engine::ForkOverview) -> Self {
        let overlap = |one: &engine::ForkOverlap| ForkOverlap {
            fork: one.fork.to_string(),
            paths: texts(&one.paths),
            more: one.more,
        };
        ForkOverview {
            id: fork.workspace.id.to_string(),
            project: fork.project.to_string(),
            agent: fork.agent.as_ref().map(ToString::to_string),
            base_snapshot: fork.base.to_hex(),
            provider: fork.provider.map(engine::ProviderName::as_str),
            created_at: time(fork.workspace.created_at),
            changed_at: time(fork.workspace.changed_at),
            changed: fork.changed,
            behind: fork.behind,
            overlap: fork.overlap.iter().map(overlap).collect(),
            overlap_with_project: texts(&fork.overlap_with_project),
            overlap_with_project_more: fork.overlap_with_project_more,
            last_operation: fork.last_operation.as_ref().map(engine::history_as_json),
            open_reviews: fork.open_reviews,
            not_looked_at: fork.not_looked_at.clone(),
        }
    }
}

/// Several forks beside each other.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ForkOverviews {
    forks: Vec<ForkOverview>,
}

impl From<&[engine::ForkOverview]> for ForkOverviews {
    fn from(forks: &[engine::ForkOverview]) -> Self {
        ForkOverviews {
            forks: forks.iter().map(ForkOverview::from).collect(),
        }
    }
}

/// A workspace and, if it is a fork, what that means.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkspaceOrFork {
    #[serde(flatten)]
    workspace: Workspace,
    fork: Option<ForkOverview>,
}

impl WorkspaceOrFork {
    /// Finds a workspace among the forks.
    pub fn new(workspace: &engine::Workspace, forks: &[engine::ForkOverview]) -> Self {
        let fork = engine::ForkOverview::find(forks, &workspace.id);
        WorkspaceOrFork {
            workspace: Workspace::from(workspace),
            fork: fork.map(ForkOverview::from),
        }
    }
}

/// Several workspaces, some of which may be forks.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkspacesAndForks {
    workspaces: Vec<WorkspaceOrFork>,
}

impl WorkspacesAndForks {
    /// Finds each workspace among the forks.
    pub fn new(workspaces: &[engine::Workspace], forks: &[engine::ForkOverview]) -> Self {
        let one = |workspace| WorkspaceOrFork::new(workspace, forks);
        WorkspacesAndForks {
            workspaces: workspaces.iter().map(one).collect(),
        }
    }
}

/// All projects and their forks, for an administrator.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Overview {
    projects: Vec<ProjectOverview>,
    forks: Vec<ForkOverview>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProjectOverview {
    #[serde(flatten)]
    project: Project,
    /// How many forks of it are open.
    forks: usize,
    /// How many of its conflicts wait for a decision.
    open_reviews: usize,
}

impl From<&engine::Overview> for Overview {
    fn from(overview: &engine::Overview) -> Self {
        let project = |(project, open): &(engine::Project, usize)| {
            let own = |fork: &&engine::ForkOverview| fork.project == project.id;
            ProjectOverview {
                project: Project::from(project),
                forks: overview.forks.iter().filter(own).count(),
                open_reviews: *open,
            }
        };
        Overview {
            projects: overview.projects.iter().map(project).collect(),
            forks: overview.forks.iter().map(ForkOverview::from).collect(),
        }
    }
}
