//! Projects that are linked to a repository.

use offshoot_core::Timestamp;
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::merges::PendingConflict;
use super::setup::ProjectDetails;
use super::{Time, hex, texts, time};

/// What a project is linked to, and how far the two are apart.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Link {
    /// A path of the machine, or an address.
    repository: String,
    /// The branch that is followed.
    branch: String,
    auto: bool,
    /// The commit of that branch that was taken last.
    taken: String,
    /// The newest commit of that branch.
    tip: Option<String>,
    /// How many commits the project has that the branch lacks.
    ahead: usize,
    /// How many commits the branch has that the project lacks.
    behind: usize,
    pulled_at: Option<Time>,
    pushed: Option<PushedBranch>,
    /// The workspace of a pull whose conflicts wait for a decision.
    waiting: Option<String>,
    /// Why the repository cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The branch that was pushed last.
#[derive(Debug, Serialize, JsonSchema)]
struct PushedBranch {
    branch: String,
    commit: String,
    at: Time,
}

impl From<&engine::LinkStatus> for Link {
    fn from(status: &engine::LinkStatus) -> Self {
        let link = &status.link;
        Link {
            repository: link.repository.clone(),
            branch: link.branch.clone(),
            auto: link.auto,
            taken: link.taken.to_hex(),
            tip: hex(status.tip.as_ref().ok().copied()),
            ahead: status.ahead,
            behind: status.behind,
            pulled_at: link.pulled().map(time),
            pushed: link.pushed.as_ref().map(|pushed| PushedBranch {
                branch: pushed.branch.clone(),
                commit: pushed.commit.to_hex(),
                at: time(Timestamp(pushed.at)),
            }),
            waiting: status.waiting.as_ref().map(ToString::to_string),
            problem: status.tip.as_ref().err().cloned(),
        }
    }
}

/// A project with what it is linked to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkedProject {
    #[serde(flatten)]
    project: ProjectDetails,
    /// The name of its branch for git.
    default_branch: String,
    /// Branches beside that one.
    other_branches: usize,
    tags: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<Link>,
}

impl LinkedProject {
    /// A project, its link if it has one, and its setup if it has one.
    pub fn new(
        project: &engine::Project,
        refs: &engine::RefCounts,
        link: Option<&engine::LinkStatus>,
        setup: Option<&engine::SetupStatus>,
    ) -> Self {
        LinkedProject {
            project: ProjectDetails::new(project, setup),
            default_branch: refs.branch.clone(),
            other_branches: refs.other_branches,
            tags: refs.tags,
            link: link.map(Link::from),
        }
    }
}

/// What a pull did, or would do.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pulled {
    project: String,
    branch: String,
    /// `nothing`, `fast_forward` or `merge`.
    way: &'static str,
    /// How many commits were new to the project.
    commits: usize,
    from: String,
    to: String,
    /// Whether the branch was rewritten since the last pull.
    rewritten: bool,
    snapshot: Option<String>,
    changed: Vec<String>,
    conflicts: Vec<PendingConflict>,
    merge_id: Option<String>,
    dry_run: bool,
}

impl Pulled {
    /// What a pull did, or would do.
    pub fn new(pulled: &engine::Pulled, dry_run: bool) -> Self {
        Pulled {
            project: pulled.project.to_string(),
            branch: pulled.branch.clone(),
            way: match pulled.way {
                engine::PullWay::Nothing => "nothing",
                engine::PullWay::FastForward => "fast_forward",
                engine::PullWay::Merge => "merge",
            },
            commits: pulled.commits,
            from: pulled.from.to_hex(),
            to: pulled.to.to_hex(),
            rewritten: pulled.rewritten,
            snapshot: hex(pulled.snapshot),
            changed: texts(&pulled.changed),
            conflicts: pulled.conflicts.iter().map(PendingConflict::from).collect(),
            merge_id: pulled.merge.as_ref().and_then(|one| one.merge_id.clone()),
            dry_run,
        }
    }
}

/// What a push did, or would do.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pushed {
    project: String,
    branch: String,
    /// What the branch pointed at before; none if it is new.
    before: Option<String>,
    commit: String,
    /// How many commits the branch got.
    commits: usize,
    dry_run: bool,
}

impl Pushed {
    /// What a push did, or would do.
    pub fn new(pushed: &engine::Pushed, dry_run: bool) -> Self {
        Pushed {
            project: pushed.project.to_string(),
            branch: pushed.branch.clone(),
            before: hex(pushed.before),
            commit: pushed.commit.to_hex(),
            commits: pushed.commits,
            dry_run,
        }
    }
}
