//! The receipt of a merge.

use offshoot_core::{ObjectId, RelPath, Result};
use serde::{Deserialize, Serialize};

use super::complete_options::StoredPush;
use super::{StoredFormat, parse_text, to_text};
use crate::content::as_text;
use crate::content::left_out::LeftOut;
use crate::merge::complete::{
    AutoResolved, BroughtCommits, Completed, LeftOutCommit, PendingConflict, PushedCommit,
};
use crate::merge::policy_decision::Decided;
use crate::project::policy::Policy;
use crate::sync::ignored::IgnoredFiles;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StoredReceipt {
    merge_id: Option<String>,
    project: String,
    workspace: String,
    #[serde(with = "as_text::optional")]
    snapshot: Option<ObjectId>,
    #[serde(with = "as_text::optional")]
    theirs: Option<ObjectId>,
    #[serde(default, with = "as_text::optional")]
    since: Option<ObjectId>,
    #[serde(with = "as_text::list")]
    merged: Vec<RelPath>,
    #[serde(default, with = "as_text::list", skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<RelPath>,
    conflicts: Vec<StoredConflict>,
    #[serde(with = "as_text::list")]
    unchanged: Vec<RelPath>,
    auto_resolved: Vec<StoredTogether>,
    decided: Vec<StoredDecided>,
    #[serde(default)]
    left_out: Vec<StoredLeftOut>,
    #[serde(default)]
    include_ignored: bool,
    #[serde(default)]
    ignored_removed: StoredIgnored,
    keep: bool,
    atomic: bool,
    #[serde(default)]
    landed_nothing: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pushed: Option<StoredPush>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(default, skip_serializing_if = "StoredCommits::is_empty")]
    commits: StoredCommits,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct StoredCommits {
    count: usize,
    #[serde(with = "as_text::list")]
    tips: Vec<ObjectId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<StoredLeftOutCommit>,
}

impl StoredCommits {
    fn is_empty(&self) -> bool {
        *self == StoredCommits::default()
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StoredLeftOutCommit {
    #[serde(with = "as_text::optional")]
    id: Option<ObjectId>,
    reason: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StoredConflict {
    #[serde(with = "as_text")]
    path: RelPath,
    parts: Vec<String>,
    kind: String,
    review_id: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StoredTogether {
    #[serde(with = "as_text")]
    path: RelPath,
    method: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StoredDecided {
    #[serde(with = "as_text")]
    path: RelPath,
    parts: Vec<String>,
    policy: Policy,
    winner: String,
    #[serde(with = "as_text::optional")]
    lost: Option<ObjectId>,
    lost_by: Option<String>,
    #[serde(default)]
    lost_message_id: Option<String>,
    #[serde(default)]
    ours_by: Option<String>,
    #[serde(default)]
    ours_message_id: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StoredLeftOut {
    #[serde(with = "as_text")]
    path: RelPath,
    reason: String,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct StoredIgnored {
    files: u64,
    bytes: u64,
}

impl StoredFormat for StoredReceipt {
    const NAME: &'static str = "the receipt of a merge";
    const VERSION: u32 = 2;
}

pub(crate) fn receipt_text(completed: &Completed) -> Result<String> {
    let done = completed.clone();
    to_text(&StoredReceipt {
        merge_id: done.merge_id,
        project: done.project,
        workspace: done.workspace,
        snapshot: done.snapshot,
        theirs: done.theirs,
        since: done.since,
        merged: done.merged,
        waiting: done.waiting,
        conflicts: done.conflicts.into_iter().map(conflict).collect(),
        unchanged: done.unchanged,
        auto_resolved: done.auto_resolved.into_iter().map(together).collect(),
        decided: done.decided.into_iter().map(decided).collect(),
        left_out: done.left_out.into_iter().map(left_out).collect(),
        include_ignored: done.include_ignored,
        ignored_removed: StoredIgnored {
            files: done.ignored_removed.files,
            bytes: done.ignored_removed.bytes,
        },
        keep: done.keep,
        atomic: done.atomic,
        landed_nothing: done.landed_nothing,
        pushed: done.pushed.map(StoredPush::from),
        label: done.label,
        commits: StoredCommits {
            count: done.commits.count,
            tips: done.commits.tips,
            left_out: (done.commits.left_out.into_iter())
                .map(|one| StoredLeftOutCommit {
                    id: one.id,
                    reason: one.reason,
                })
                .collect(),
        },
    })
}

pub(crate) fn parse_receipt(text: &str) -> Result<Completed> {
    let stored: StoredReceipt = parse_text(text)?;
    Ok(Completed {
        merge_id: stored.merge_id,
        project: stored.project,
        workspace: stored.workspace,
        snapshot: stored.snapshot,
        theirs: stored.theirs,
        since: stored.since,
        merged: stored.merged,
        waiting: stored.waiting,
        conflicts: stored
            .conflicts
            .into_iter()
            .map(PendingConflict::from)
            .collect(),
        unchanged: stored.unchanged,
        auto_resolved: stored
            .auto_resolved
            .into_iter()
            .map(AutoResolved::from)
            .collect(),
        decided: stored.decided.into_iter().map(Decided::from).collect(),
        left_out: stored.left_out.into_iter().map(LeftOut::from).collect(),
        include_ignored: stored.include_ignored,
        ignored_removed: IgnoredFiles {
            files: stored.ignored_removed.files,
            bytes: stored.ignored_removed.bytes,
        },
        keep: stored.keep,
        atomic: stored.atomic,
        landed_nothing: stored.landed_nothing,
        pushed: stored.pushed.map(PushedCommit::from),
        label: stored.label,
        commits: BroughtCommits {
            count: stored.commits.count,
            tips: stored.commits.tips,
            left_out: (stored.commits.left_out.into_iter())
                .map(|one| LeftOutCommit {
                    id: one.id,
                    reason: one.reason,
                })
                .collect(),
        },
        after: None,
    })
}

/// Replaces the ids in every field of a receipt that holds one.
pub(crate) fn replace_ids_in_receipt(
    completed: &mut Completed,
    new: &dyn Fn(ObjectId) -> ObjectId,
) {
    let Completed {
        snapshot,
        theirs,
        since,
        decided,
        pushed,
        commits,
        ..
    } = completed;
    for tip in &mut commits.tips {
        *tip = new(*tip);
    }
    let lost = decided.iter_mut().map(|one| &mut one.lost);
    let pushed = pushed.as_mut().map(|push| &mut push.commit);
    let named = [snapshot, theirs, since].into_iter().chain(lost).flatten();
    for id in named.chain(pushed) {
        *id = new(*id);
    }
}

fn conflict(one: PendingConflict) -> StoredConflict {
    StoredConflict {
        path: one.path,
        parts: one.parts,
        kind: one.kind,
        review_id: one.review_id,
    }
}

impl From<StoredConflict> for PendingConflict {
    fn from(one: StoredConflict) -> Self {
        PendingConflict {
            path: one.path,
            parts: one.parts,
            kind: one.kind,
            review_id: one.review_id,
        }
    }
}

fn together(one: AutoResolved) -> StoredTogether {
    StoredTogether {
        path: one.path,
        method: one.method,
    }
}

impl From<StoredTogether> for AutoResolved {
    fn from(one: StoredTogether) -> Self {
        AutoResolved {
            path: one.path,
            method: one.method,
        }
    }
}

fn decided(one: Decided) -> StoredDecided {
    StoredDecided {
        path: one.path,
        parts: one.parts,
        policy: one.policy,
        winner: one.winner,
        lost: one.lost,
        lost_by: one.lost_by,
        lost_message_id: one.lost_message_id,
        ours_by: one.ours_by,
        ours_message_id: one.ours_message_id,
    }
}

impl From<StoredDecided> for Decided {
    fn from(one: StoredDecided) -> Self {
        Decided {
            path: one.path,
            parts: one.parts,
            policy: one.policy,
            winner: one.winner,
            lost: one.lost,
            lost_by: one.lost_by,
            lost_message_id: one.lost_message_id,
            ours_by: one.ours_by,
            ours_message_id: one.ours_message_id,
        }
    }
}

fn left_out(one: LeftOut) -> StoredLeftOut {
    StoredLeftOut {
        path: one.path,
        reason: one.reason,
    }
}

impl From<StoredLeftOut> for LeftOut {
    fn from(one: StoredLeftOut) -> Self {
        LeftOut {
            path: one.path,
            reason: one.reason,
        }
    }
}
