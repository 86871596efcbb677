//! The results of merges, the settings that decide them, and blame.

use offshoot_core::{Error, ErrorCode, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::workspace::IgnoredFiles;
use super::{CompleteRequest, Time, hex, texts, time};

/// What came of a merge, or would come of it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Completed {
    merge_id: Option<String>,
    project: String,
    workspace: String,
    snapshot: Option<String>,
    workspace_snapshot: Option<String>,
    merged: Vec<String>,
    /// What fits and waits with the conflicts, because nothing of an atomic merge lands before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<String>,
    conflicts: Vec<PendingConflict>,
    unchanged: Vec<String>,
    auto_resolved: Vec<AutoResolved>,
    decided: Vec<Decided>,
    left_out: Vec<LeftOut>,
    /// What the agent committed with git in its fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    commits: Option<BroughtCommits>,
    ignored_removed: IgnoredFiles,
    keep: bool,
    landing: &'static str,
    /// Whether a workspace that was to be kept stands on the merged head now.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<bool>,
    /// Whether the workspace is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<bool>,
    /// Why the workspace was not moved or removed although the merge landed, and what does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<String>,
}

/// A conflict that waits for a decision.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Conflict")]
pub(super) struct PendingConflict {
    path: String,
    /// All parts in one text; none means the whole path.
    part: Option<String>,
    parts: Vec<String>,
    kind: String,
    review_id: Option<String>,
}

impl From<&engine::PendingConflict> for PendingConflict {
    fn from(one: &engine::PendingConflict) -> Self {
        PendingConflict {
            path: one.path.to_text(),
            part: part(&one.parts),
            parts: one.parts.clone(),
            kind: one.kind.clone(),
            review_id: one.review_id.clone(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct AutoResolved {
    path: String,
    method: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Decided {
    path: String,
    part: Option<String>,
    parts: Vec<String>,
    policy: &'static str,
    winner: String,
    lost: Option<String>,
    /// The agent, or else the operator, that had written what lost.
    lost_by: Option<String>,
    /// The message that had led to it.
    lost_message_id: Option<String>,
    /// The agent, or else the operator, that had written what the project has, or had, there.
    ours_by: Option<String>,
    ours_message_id: Option<String>,
}

/// A change that no merge takes; a directory stands for all below it.
#[derive(Debug, Serialize, JsonSchema)]
struct LeftOut {
    path: String,
    reason: String,
}

/// Commits of an agent that came along as history.
#[derive(Debug, Serialize, JsonSchema)]
struct BroughtCommits {
    /// How many are new to the project.
    count: usize,
    /// The newest ones, which are parents of the merge that brought them.
    tips: Vec<String>,
    left_out: Vec<LeftOutCommit>,
}

/// A commit that did not come along; what its files became was merged all the same.
#[derive(Debug, Serialize, JsonSchema)]
struct LeftOutCommit {
    commit: Option<String>,
    reason: String,
}

impl BroughtCommits {
    fn new(commits: &engine::BroughtCommits) -> Option<Self> {
        let left_out = |one: &engine::LeftOutCommit| LeftOutCommit {
            commit: hex(one.id),
            reason: one.reason.clone(),
        };
        let any = !commits.tips.is_empty() || !commits.left_out.is_empty();
        any.then(|| BroughtCommits {
            count: commits.count,
            tips: commits.tips.iter().map(|id| id.to_hex()).collect(),
            left_out: commits.left_out.iter().map(left_out).collect(),
        })
    }
}

/// Several parts in one text; none for the whole path.
pub(super) fn part(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join(", "))
}

impl From<&engine::Completed> for Completed {
    fn from(done: &engine::Completed) -> Self {
        let auto_resolved = |one: &engine::AutoResolved| AutoResolved {
            path: one.path.to_text(),
            method: one.method.clone(),
        };
        let decided = |one: &engine::Decided| Decided {
            path: one.path.to_text(),
            part: part(&one.parts),
            parts: one.parts.clone(),
            policy: one.policy.as_str(),
            winner: one.winner.clone(),
            lost: hex(one.lost),
            lost_by: one.lost_by.clone(),
            lost_message_id: one.lost_message_id.clone(),
            ours_by: one.ours_by.clone(),
            ours_message_id: one.ours_message_id.clone(),
        };
        let left_out = |one: &engine::LeftOut| LeftOut {
            path: one.path.to_text(),
            reason: one.reason.clone(),
        };
        Completed {
            merge_id: done.merge_id.clone(),
            project: done.project.clone(),
            workspace: done.workspace.clone(),
            snapshot: hex(done.snapshot),
            workspace_snapshot: hex(done.theirs),
            merged: texts(&done.merged),
            waiting: texts(&done.waiting),
            conflicts: done.conflicts.iter().map(PendingConflict::from).collect(),
            unchanged: texts(&done.unchanged),
            auto_resolved: done.auto_resolved.iter().map(auto_resolved).collect(),
            decided: done.decided.iter().map(decided).collect(),
            left_out: done.left_out.iter().map(left_out).collect(),
            commits: BroughtCommits::new(&done.commits),
            ignored_removed: done.ignored_removed.into(),
            keep: done.keep,
            landing: if done.atomic { "atomic" } else { "partial" },
            moved: done.after.as_ref().and_then(|after| after.moved),
            removed: done.after.as_ref().map(|after| after.removed),
            waits: done.after.as_ref().and_then(|after| after.waits.clone()),
        }
    }
}

/// Merges a workspace. Conflicts are a result, not an error, unless an atomic merge was requested.
pub fn complete(
    access: &engine::Access,
    id: &WorkspaceId,
    asked: &CompleteRequest,
) -> Result<Completed> {
    let completed = access.complete(id, &asked.options(), asked.dry_run)?;
    let shape = Completed::from(&completed);
    // A merge that landed is no error, even if a conflict of an earlier merge is still pending.
    let has_landed = completed.snapshot.is_some();
    if !asked.asks_for_atomic() || has_landed || !access.still_waits(&completed)? {
        return Ok(shape);
    }
    let details = serde_json::to_value(&shape)
        .map_err(|cause| Error::internal("an answer could not be written").with_source(cause))?;
    Err(Error::new(
        ErrorCode::MergeConflict,
        format!(
            "nothing landed: {} paths of `{}` conflict with the project",
            completed.conflicts.len(),
            completed.workspace
        ),
    )
    .with_hint("decide the reviews that `details` names; with the last one all of it lands")
    .with_details(details))
}

/// The receipt of a merge.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Merge {
    #[serde(flatten)]
    completed: Completed,
    created_at: Time,
    operator: String,
    message_id: Option<String>,
    undone_by: Option<String>,
}

impl From<&engine::MergeReceipt> for Merge {
    fn from(merge: &engine::MergeReceipt) -> Self {
        Merge {
            completed: Completed::from(&merge.completed),
            created_at: time(merge.at),
            operator: merge.by.operator.clone(),
            message_id: merge.by.message_id.clone(),
            undone_by: hex(merge.undone_by),
        }
    }
}

/// Several merges, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Merges {
    merges: Vec<Merge>,
}

impl From<&[engine::MergeReceipt]> for Merges {
    fn from(merges: &[engine::MergeReceipt]) -> Self {
        Merges {
            merges: merges.iter().map(Merge::from).collect(),
        }
    }
}

/// The answer to undoing a merge.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Undone {
    merge_id: String,
    project: String,
    snapshot: String,
}

impl Undone {
    /// Converts the result of the engine.
    pub fn new(merge: &str, project: &str, snapshot: &engine::Snapshot) -> Self {
        Undone {
            merge_id: merge.to_owned(),
            project: project.to_owned(),
            snapshot: snapshot.id.to_hex(),
        }
    }
}

/// The answer to restoring content that lost by a policy.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TakenBack {
    merge_id: String,
    path: String,
    snapshot: String,
}

impl TakenBack {
    /// Converts the result of the engine.
    pub fn new(merge: &str, path: &RelPath, snapshot: &engine::Snapshot) -> Self {
        TakenBack {
            merge_id: merge.to_owned(),
            path: path.to_text(),
            snapshot: snapshot.id.to_hex(),
        }
    }
}

/// How merges into a project are decided.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MergeSettings {
    project: String,
    policies: Vec<PathPolicy>,
    landing: &'static str,
    include_ignored: bool,
    /// Patterns of protected paths: what changes there waits for the owner or an admin.
    protect: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PathPolicy {
    path: String,
    policy: &'static str,
}

impl MergeSettings {
    /// Converts the result of the engine.
    pub fn new(project: &ProjectId, settings: &engine::MergeSettings) -> Self {
        let policy = |one: &engine::PathPolicy| PathPolicy {
            path: one.path.clone(),
            policy: one.policy.as_str(),
        };
        MergeSettings {
            project: project.to_string(),
            policies: settings.policies.iter().map(policy).collect(),
            landing: super::landing(settings.landing),
            include_ignored: settings.include_ignored,
            protect: settings.protect.clone(),
        }
    }
}

/// Who wrote each line of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Blame {
    path: String,
    lines: Vec<BlameLine>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BlameLine {
    line: usize,
    /// Without its newline; bytes that are no text are replaced.
    text: String,
    operator: String,
    agent: Option<String>,
    message_id: Option<String>,
    snapshot: Option<String>,
    at: Time,
}

impl Blame {
    /// Converts the result of the engine.
    pub fn new(path: &RelPath, lines: &[engine::BlameLine]) -> Self {
        Blame::part(path, lines, 0, usize::MAX, usize::MAX)
    }

    /// One page of a blame: without the first `offset` lines, and at most so many lines and
    /// characters. The first line is always included, truncated if it is longer.
    pub fn part(
        path: &RelPath,
        lines: &[engine::BlameLine],
        offset: usize,
        length: usize,
        characters: usize,
    ) -> Self {
        let shape = |(index, one): (usize, &engine::BlameLine)| {
            let text = one.text.strip_suffix(b"\n").unwrap_or(&one.text);
            BlameLine {
                line: index + 1,
                text: String::from_utf8_lossy(text)
                    .chars()
                    .take(characters)
                    .collect(),
                operator: one.operator.clone(),
                agent: one.agent.clone(),
                message_id: one.message_id.clone(),
                snapshot: hex(one.snapshot),
                at: time(one.at),
            }
        };
        let mut left = characters;
        let fits = |line: &BlameLine| {
            let used = line.text.chars().count();
            let fits = used <= left;
            left = left.saturating_sub(used);
            fits
        };
        let wanted = lines.iter().enumerate().skip(offset).take(length);
        Blame {
            path: path.to_text(),
            lines: wanted.map(shape).take_while(fits).collect(),
        }
    }
}
