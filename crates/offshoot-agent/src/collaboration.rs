//! The tools by which agents work together: blame, updates and merges, reviews of conflicts, forks,
//! and agents below an agent.

use offshoot_core::{Error, ErrorCode, ObjectId, ProjectId, Result};
use offshoot_engine::{Access, Content, MAX_WINDOW, Reach, Review, ReviewFilter, ReviewStates};
use offshoot_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{StatusArguments, Truncated, status};
use crate::registry::Tool;
use crate::tools::{READS, REPLACES, WRITES, limit, path};

/// The most lines of a file in one answer of `blame`.
const MOST_LINES: usize = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BlameFile {
    /// The file, relative to the workspace.
    path: String,
    /// A snapshot of the workspace; without it the present state.
    #[serde(default)]
    at: Option<String>,
    /// How many lines to leave out.
    #[serde(default)]
    offset: usize,
    /// How many lines to tell, at most 500.
    #[serde(default = "most_lines")]
    length: usize,
}

fn most_lines() -> usize {
    MOST_LINES
}

/// A part of a file with the author of each line.
#[derive(Serialize, JsonSchema)]
struct Blamed {
    #[serde(flatten)]
    blame: wire::Blame,
    /// The lines that the file has; read on with `offset`.
    total: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListReviews {
    /// Only this review, with what each side did.
    #[serde(default)]
    review: Option<String>,
    /// Only those of this project, for credentials that have several.
    #[serde(default)]
    project: Option<String>,
    /// Decided ones too.
    #[serde(default)]
    all: bool,
    /// Those after this review.
    #[serde(default)]
    after: Option<String>,
    /// At most so many.
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProposeResolution {
    /// The review.
    review: String,
    /// The whole content that the file should have.
    content: String,
    /// How `content` is encoded.
    #[serde(default)]
    encoding: wire::Encoding,
    /// A note for the person or agent who decides.
    #[serde(default)]
    note: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForkProject {
    /// The project; a credential of a project stands for its own.
    #[serde(default)]
    project: Option<String>,
    /// The agent that shall work in the fork; the fork has its name.
    #[serde(default)]
    agent_id: Option<String>,
    /// The snapshot to begin with; without it the newest.
    #[serde(default)]
    base: Option<String>,
    /// Whether it has a `.git` at its base, so that git commands work in it.
    #[serde(default)]
    git: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpawnAgent {
    /// What it is for, in a word or two; its id begins with it.
    role: String,
}

/// All tools of this file.
pub(crate) fn tools() -> Vec<Tool> {
    let mut tools = project_tools();
    tools.extend(review_tools());
    tools.extend(agent_tools());
    tools
}

fn project_tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "status",
            "Show what changed in the workspace since its base, and how far the project is ahead of it: at most 1000 paths a call. `total` says how many there are; go on with `after`.",
            READS,
            |access, id, asked: StatusArguments| status(access, id, &asked),
        ),
        Tool::new(
            "update",
            "Bring what is new in the project into the workspace. Your own changes stay; where both changed the same, a review opens and the workspace has what the project has. The state before is kept as a snapshot.",
            REPLACES,
            |access, id, asked: wire::UpdateRequest| {
                let updated = access.update(id, asked.dry_run)?;
                Truncated::of(&wire::Updated::new(id.as_str(), asked.dry_run, &updated))
            },
        ),
        Tool::without_workspace(
            "complete",
            "Bring what changed in the workspace into its project. What fits lands at once, or, in a project that lands all or nothing, once every conflict is decided; conflicts are listed and wait for a review. The workspace ends unless `keep` is set. Calling it again gives the same answer.",
            REPLACES,
            |access, asked: wire::CompleteRequest| {
                let id = access.workspace_to_complete()?;
                Truncated::of(&wire::complete(access, &id, &asked)?)
            },
        ),
        Tool::new(
            "blame",
            "Tell who wrote each line of a file, when and for which message: at most 500 lines and 5000 characters a call. `total` says how many lines there are; read on with `offset`.",
            READS,
            |access, id, asked: BlameFile| {
                let path = path(access, id, &asked.path)?;
                let lines = access.blame_workspace(id, asked.at.as_deref(), &path)?;
                let length = asked.length.min(MOST_LINES);
                Ok(Blamed {
                    blame: wire::Blame::part(&path, &lines, asked.offset, length, MAX_WINDOW),
                    total: lines.len(),
                })
            },
        ),
    ]
}

fn review_tools() -> Vec<Tool> {
    vec![
        Tool::without_workspace(
            "list_reviews",
            "List the conflicts that wait for a decision: those that updates of the workspace opened, or those of the project for a credential of a project. With `review` one of them, with what each side did.",
            READS,
            |access, asked: ListReviews| list_reviews(access, &asked),
        ),
        Tool::without_workspace(
            "propose_resolution",
            "Propose what a file in conflict should hold. Nothing is decided by it: the person or agent who decides the review can take it.",
            WRITES,
            |access, asked: ProposeResolution| {
                let bytes = asked.encoding.bytes(&asked.content)?;
                let content = Content::Bytes(&bytes);
                let review = access.propose(&asked.review, content, asked.note.as_deref())?;
                Ok(wire::Review::from(&review))
            },
        ),
    ]
}

fn agent_tools() -> Vec<Tool> {
    vec![
        Tool::without_workspace(
            "fork",
            "Make a workspace that begins as the project is now. Answers with its id and, if you may know it, its directory.",
            WRITES,
            |access, asked: ForkProject| fork(access, &asked),
        )
        .for_projects(),
        Tool::new(
            "spawn_agent",
            "Let another agent come into being that works in the same workspace. Answers with its id and a token for it.",
            WRITES,
            |access, _, asked: SpawnAgent| {
                let Reach::Agent(_) = &access.principal().scope.reach else {
                    return Err(Error::new(
                        ErrorCode::PermissionDenied,
                        "only an agent can let another one come into being",
                    )
                    .with_hint("use the token of an agent"));
                };
                let agent = access.spawn(None, None, &asked.role, None, None)?;
                let token = access.token_for_agent(&agent.id)?;
                Ok(wire::SpawnedAgent::new(&agent, &token))
            },
        ),
    ]
}

fn list_reviews(access: &Access, asked: &ListReviews) -> Result<wire::Reviews> {
    if let Some(id) = &asked.review {
        let review = access.review(id)?;
        let ours = difference(access, &review, review.ours)?;
        let theirs = difference(access, &review, review.theirs)?;
        let shown = wire::Review::with_differences(&review, ours, theirs);
        return Ok(wire::Reviews::one(shown));
    }
    let (after, most) = (asked.after.as_deref(), limit(asked.limit));
    let filter = ReviewFilter {
        states: match asked.all {
            true => ReviewStates::All,
            false => ReviewStates::Waiting,
        },
        project: project(access, asked.project.as_deref())?,
        ..ReviewFilter::default()
    };
    let found = access.find_reviews(&filter, after, most)?;
    Ok(wire::Reviews::from(found.as_slice()))
}

/// What a side made of the base, as much of it as one answer shows.
fn difference(access: &Access, review: &Review, side: Option<ObjectId>) -> Result<Option<Vec<u8>>> {
    let (base, side) = (access.content_of(review.base)?, access.content_of(side)?);
    let Some(text) = wire::diff::compare(&base, &side) else {
        return Ok(None);
    };
    let whole = String::from_utf8_lossy(&text.hunks);
    let mut shown: String = whole.chars().take(MAX_WINDOW).collect();
    if shown.len() < whole.len() {
        shown.push_str("\n[cut; read the file for the rest]\n");
    }
    Ok(Some(shown.into_bytes()))
}

fn fork(access: &Access, asked: &ForkProject) -> Result<wire::Fork> {
    if !access.may_fork() {
        return Err(Error::new(
            ErrorCode::PermissionDenied,
            "this credential makes no forks",
        )
        .with_hint("use a token of the project, or of an admin"));
    }
    let project = project(access, asked.project.as_deref())?.ok_or_else(|| {
        Error::invalid("`project` is missing").with_hint("name the project to fork")
    })?;
    let (options, _) = wire::NewFork {
        agent_id: asked.agent_id.clone(),
        base: asked.base.clone(),
        git: asked.git,
        ..wire::NewFork::default()
    }
    .options()?;
    let (fork, path) = access.fork(&project, &options)?;
    Ok(wire::Fork::new(&fork, path.as_deref()).with_note(access.path_note(&fork)))
}

/// The project that a call means: the one that it names, or the credential's own.
fn project(access: &Access, named: Option<&str>) -> Result<Option<ProjectId>> {
    match (named, &access.principal().scope.reach) {
        (Some(name), _) => name.parse().map(Some),
        (None, Reach::Project(own)) => Ok(Some(own.clone())),
        (None, _) => Ok(None),
    }
}
