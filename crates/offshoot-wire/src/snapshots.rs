//! Snapshots, changes between them, and the history of a workspace.

use offshoot_core::{Change, ChangeKind, ChangeSet, EntryKind, RelPath, Result};
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::diff::{TextDiff, compare};

use super::{ChangeWord, EntryType, Time, hex, texts, time};

/// One path that differs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangedPath {
    path: String,
    #[schemars(with = "ChangeWord")]
    change: ChangeKind,
    #[serde(rename = "type")]
    #[schemars(with = "EntryType")]
    kind: EntryKind,
    before: Option<String>,
    after: Option<String>,
}

impl From<&Change> for ChangedPath {
    fn from(change: &Change) -> Self {
        ChangedPath {
            path: change.path.to_text(),
            change: change.change,
            kind: change.kind,
            before: hex(change.before),
            after: hex(change.after),
        }
    }
}

pub(super) fn changed_paths(set: &ChangeSet) -> Vec<ChangedPath> {
    set.changes.iter().map(ChangedPath::from).collect()
}

/// What changed since the newest snapshot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Status {
    workspace: String,
    base: Option<String>,
    changes: Vec<ChangedPath>,
    ignored: Vec<String>,
    /// What is in the directory and cannot be in the workspace.
    refused: Vec<Refused>,
    /// How far the project is ahead of a fork, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    base_moved: Option<BaseMoved>,
    /// Files that are too large to be read: no snapshot holds them.
    too_large: Vec<TooLarge>,
}

/// A file that was left out for its size.
#[derive(Debug, Serialize, JsonSchema)]
struct TooLarge {
    path: String,
    size: u64,
    /// The most bytes that would have been taken.
    limit: u64,
}

impl From<&engine::TooLarge> for TooLarge {
    fn from(file: &engine::TooLarge) -> Self {
        TooLarge {
            path: file.path.to_text(),
            size: file.size,
            limit: file.limit,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct BaseMoved {
    project: String,
    head: String,
    snapshots: i64,
    overlap: Vec<String>,
}

impl Status {
    /// The changes of a workspace.
    pub fn new(workspace: &str, changes: &engine::Changes) -> Self {
        let moved = |moved: &engine::BaseMoved| BaseMoved {
            project: moved.project.to_string(),
            head: moved.head.to_hex(),
            snapshots: moved.snapshots,
            overlap: texts(&moved.overlap),
        };
        Status {
            workspace: workspace.to_owned(),
            base: hex(changes.base),
            changes: changed_paths(&changes.set),
            ignored: texts(&changes.set.ignored),
            refused: changes.refused.iter().map(refused).collect(),
            base_moved: changes.moved.as_ref().map(moved),
            too_large: changes.too_large.iter().map(TooLarge::from).collect(),
        }
    }
}

/// What differs between two points.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Difference {
    /// From where.
    pub from: Option<String>,
    /// To where; none means now.
    pub to: Option<String>,
    /// Path by path.
    pub changes: Vec<FileDifference>,
}

/// What differs in one path.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileDifference {
    /// Which path, and how.
    #[serde(flatten)]
    pub change: ChangedPath,
    /// Whether the content is no text.
    pub binary: bool,
    /// Lines that came.
    pub added_lines: Option<u32>,
    /// Lines that went.
    pub removed_lines: Option<u32>,
    /// The hunks in the unified format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

impl FileDifference {
    /// Which path and how, without its lines.
    pub fn without_lines(change: &Change) -> Self {
        FileDifference {
            change: ChangedPath::from(change),
            binary: false,
            added_lines: None,
            removed_lines: None,
            diff: None,
        }
    }

    /// Adds the lines; none means that the content is no text.
    pub fn add_lines(&mut self, text: Option<TextDiff>) {
        let Some(text) = text else {
            self.binary = true;
            return;
        };
        self.added_lines = Some(text.added);
        self.removed_lines = Some(text.removed);
        self.diff = Some(String::from_utf8_lossy(&text.hunks).into_owned());
    }
}

/// What differs in each of these changes below a path, line by line unless only names are wanted.
pub fn differences(
    access: &engine::Access,
    changes: &[Change],
    below: &RelPath,
    name_only: bool,
) -> Result<Vec<FileDifference>> {
    let mut shapes = Vec::new();
    for change in changes
        .iter()
        .filter(|change| change.path.starts_with(below))
    {
        let mut shape = FileDifference::without_lines(change);
        if !name_only && change.before != change.after {
            let (before, after) = (
                access.content_of(change.before)?,
                access.content_of(change.after)?,
            );
            shape.add_lines(compare(&before, &after));
        }
        shapes.push(shape);
    }
    Ok(shapes)
}

/// A snapshot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Snapshot {
    id: String,
    number: i64,
    label: Option<String>,
    created_at: Time,
    parent: Option<String>,
    tree: String,
    operator: String,
    /// On whose behalf, such as the author of an imported commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    message_id: Option<String>,
    file_count: i64,
    dir_count: i64,
    total_size: i64,
}

impl From<&engine::Snapshot> for Snapshot {
    fn from(snapshot: &engine::Snapshot) -> Self {
        Snapshot {
            id: snapshot.id.to_hex(),
            number: snapshot.number,
            label: snapshot.label.clone(),
            created_at: time(snapshot.at),
            parent: hex(snapshot.parent),
            tree: snapshot.tree.to_hex(),
            operator: snapshot.cause.operator.as_str().to_owned(),
            claim: snapshot.cause.claim.clone(),
            message_id: snapshot.cause.message_id.clone(),
            file_count: snapshot.files,
            dir_count: snapshot.dirs,
            total_size: snapshot.bytes,
        }
    }
}

/// The answer to a request for a snapshot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Taken {
    #[serde(flatten)]
    snapshot: Snapshot,
    /// False if nothing had changed and the newest snapshot is the answer.
    created: bool,
}

impl From<&engine::Taken> for Taken {
    fn from(taken: &engine::Taken) -> Self {
        Taken {
            snapshot: Snapshot::from(&taken.snapshot),
            created: taken.created,
        }
    }
}

/// Several snapshots, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Snapshots {
    snapshots: Vec<Snapshot>,
}

impl From<&[engine::Snapshot]> for Snapshots {
    fn from(snapshots: &[engine::Snapshot]) -> Self {
        Snapshots {
            snapshots: snapshots.iter().map(Snapshot::from).collect(),
        }
    }
}

/// What a restore did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Restored {
    snapshot: String,
    kept_snapshot: Option<String>,
    changes: Vec<ChangedPath>,
}

impl From<&engine::Restored> for Restored {
    fn from(restored: &engine::Restored) -> Self {
        Restored {
            snapshot: restored.snapshot.to_hex(),
            kept_snapshot: hex(restored.kept),
            changes: changed_paths(&restored.changes),
        }
    }
}

/// What happened, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct History {
    /// Line by line.
    #[schemars(with = "Vec<HistoryLine>")]
    pub history: Vec<Value>,
    /// Where the next page begins; none if this is the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// One line of the history, parsed back from its JSON.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct HistoryLine {
    /// Its number, which is also its event number.
    pub seq: i64,
    /// When.
    pub at: Time,
    /// What happened.
    pub op: String,
    /// How it came in.
    pub via: String,
    /// Where; empty for what concerns the workspace as a whole.
    pub path: String,
    /// The operator.
    pub operator: String,
    /// The revision of the workspace that it made.
    pub version: i64,
    /// For a move: where it came from.
    pub from: Option<String>,
    /// On whose behalf, as the caller merely claims.
    pub claim: Option<String>,
    /// The message that led to it.
    pub message_id: Option<String>,
    /// What stands or stood there.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The content before.
    pub before: Option<String>,
    /// The content after.
    pub after: Option<String>,
    /// Bytes after.
    pub size: Option<i64>,
    /// The MIME type that the caller gave.
    pub mime_type: Option<String>,
}

/// What a sync found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Synced {
    walked: bool,
    changes: Vec<OutsideChange>,
    refused: Vec<Refused>,
    ignored: Vec<String>,
    unsettled: Vec<String>,
    /// Files that are too large to be read: no snapshot holds them.
    too_large: Vec<TooLarge>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OutsideChange {
    path: String,
    op: &'static str,
    #[serde(rename = "type")]
    #[schemars(with = "EntryType")]
    kind: EntryKind,
    /// Where it was before, if it was only renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

/// What was left out, and why.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Refused {
    path: String,
    reason: String,
}

pub(super) fn refused((path, reason): &(RelPath, String)) -> Refused {
    Refused {
        path: path.to_text(),
        reason: reason.clone(),
    }
}

impl From<&engine::Synced> for Synced {
    fn from(synced: &engine::Synced) -> Self {
        let change = |change: &engine::OutsideChange| OutsideChange {
            path: change.path.to_text(),
            op: change.op.as_str(),
            kind: change.kind,
            from: change.from.as_ref().map(RelPath::to_text),
        };
        Synced {
            walked: synced.walked,
            changes: synced.changes.iter().map(change).collect(),
            refused: synced.refused.iter().map(refused).collect(),
            ignored: texts(&synced.ignored),
            unsettled: texts(&synced.unsettled),
            too_large: synced.too_large.iter().map(TooLarge::from).collect(),
        }
    }
}
