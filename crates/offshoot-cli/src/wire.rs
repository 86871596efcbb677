//! The JSON shapes of answers. They are not the engine's types: the two meet here and only here.
//!
//! Names of fields are promises to programs. Add to them, do not rename them. Paths are escaped
//! text, ids are 40 hexadecimal digits, times are RFC 3339 in UTC.

use offshoot_core::{
    Change, ChangeKind, ChangeSet, EntryKind, Layout, ObjectId, RelPath, Timestamp,
};
use offshoot_engine as engine;
use serde::{Deserialize, Serialize};
use serde_json::Value;

fn time(at: Timestamp) -> String {
    at.to_string()
}

fn hex(id: Option<ObjectId>) -> Option<String> {
    id.map(ObjectId::to_hex)
}

fn texts(paths: &[RelPath]) -> Vec<String> {
    paths.iter().map(RelPath::to_text).collect()
}

/// A workspace without its files.
#[derive(Debug, Serialize)]
pub(crate) struct Workspace {
    id: String,
    layout: Layout,
    head: Option<String>,
    version: i64,
    materialized: bool,
    handed_out: bool,
    created_at: String,
    changed_at: String,
    last_sync: Option<String>,
    file_count: i64,
    dir_count: i64,
    total_size: i64,
    quota: Quota,
}

impl From<&engine::Workspace> for Workspace {
    fn from(workspace: &engine::Workspace) -> Self {
        Workspace {
            id: workspace.id.to_string(),
            layout: workspace.layout,
            head: hex(workspace.head),
            version: workspace.revision,
            materialized: workspace.materialized,
            handed_out: workspace.handed_out,
            created_at: time(workspace.created_at),
            changed_at: time(workspace.changed_at),
            last_sync: workspace.last_sync.map(time),
            file_count: workspace.files,
            dir_count: workspace.dirs,
            total_size: workspace.bytes,
            quota: Quota::from(workspace),
        }
    }
}

/// The limits of a workspace.
#[derive(Debug, Serialize)]
pub(crate) struct Quota {
    bytes: Option<i64>,
    inodes: Option<i64>,
}

impl From<&engine::Workspace> for Quota {
    fn from(workspace: &engine::Workspace) -> Self {
        Quota {
            bytes: workspace.quota_bytes,
            inodes: workspace.quota_inodes,
        }
    }
}

/// Several workspaces.
#[derive(Debug, Serialize)]
pub(crate) struct Workspaces {
    workspaces: Vec<Workspace>,
}

impl From<&[engine::Workspace]> for Workspaces {
    fn from(workspaces: &[engine::Workspace]) -> Self {
        Workspaces {
            workspaces: workspaces.iter().map(Workspace::from).collect(),
        }
    }
}

/// The path of a workspace on this machine.
#[derive(Debug, Serialize)]
pub(crate) struct HostPath {
    pub(crate) path: String,
}

/// A deleted workspace.
#[derive(Debug, Serialize)]
pub(crate) struct DeletedWorkspace {
    id: String,
    deleted: bool,
    kept_snapshot: Option<String>,
}

impl DeletedWorkspace {
    pub(crate) fn new(id: &str, deleted: &engine::Deleted) -> Self {
        DeletedWorkspace {
            id: id.to_owned(),
            deleted: deleted.existed,
            kept_snapshot: hex(deleted.snapshot),
        }
    }
}

/// A listing.
#[derive(Debug, Serialize)]
pub(crate) struct Listing {
    entries: Vec<ListEntry>,
}

#[derive(Debug, Serialize)]
struct ListEntry {
    name: String,
    path: String,
    #[serde(rename = "type")]
    kind: EntryKind,
    size: i64,
    modified_at: String,
    mime_type: Option<String>,
    operator: Option<String>,
}

impl From<&[engine::ListEntry]> for Listing {
    fn from(entries: &[engine::ListEntry]) -> Self {
        let entry = |entry: &engine::ListEntry| ListEntry {
            name: offshoot_core::escape_bytes(entry.path.name()),
            path: entry.path.to_text(),
            kind: entry.kind,
            size: entry.size,
            modified_at: time(entry.modified_at),
            mime_type: entry.mime.clone(),
            operator: entry.operator.clone(),
        };
        Listing {
            entries: entries.iter().map(entry).collect(),
        }
    }
}

/// A directory with the directories in it.
#[derive(Debug, Serialize)]
pub(crate) struct DirNode {
    name: String,
    path: String,
    children: Vec<DirNode>,
}

impl From<&engine::DirNode> for DirNode {
    fn from(node: &engine::DirNode) -> Self {
        DirNode {
            name: offshoot_core::escape_bytes(node.path.name()),
            path: node.path.to_text(),
            children: node.children.iter().map(DirNode::from).collect(),
        }
    }
}

/// Counts of a workspace.
#[derive(Debug, Serialize)]
pub(crate) struct Info {
    file_count: i64,
    dir_count: i64,
    total_size: i64,
    disk_usage: i64,
    last_modified: String,
    created_at: String,
    materialized: bool,
}

impl From<&engine::Info> for Info {
    fn from(info: &engine::Info) -> Self {
        Info {
            file_count: info.file_count,
            dir_count: info.dir_count,
            total_size: info.total_size,
            disk_usage: info.disk_usage,
            last_modified: time(info.last_modified),
            created_at: time(info.created_at),
            materialized: info.materialized,
        }
    }
}

/// Everything known about one path.
#[derive(Debug, Serialize)]
pub(crate) struct Metadata {
    path: String,
    #[serde(rename = "type")]
    kind: EntryKind,
    /// What a person would call the kind of file, such as `image`.
    file_type: Option<&'static str>,
    size: i64,
    mode: String,
    id: Option<String>,
    mime_type: Option<String>,
    created_at: Option<String>,
    modified_at: Option<String>,
    operator: Option<String>,
    message_ids: Vec<String>,
    history: Vec<Value>,
}

impl From<&engine::Metadata> for Metadata {
    fn from(metadata: &engine::Metadata) -> Self {
        let mut message_ids: Vec<String> = Vec::new();
        for row in &metadata.history {
            if let Some(message) = &row.line.cause.message_id
                && !message_ids.contains(message)
            {
                message_ids.push(message.clone());
            }
        }
        Metadata {
            path: metadata.path.to_text(),
            kind: metadata.kind,
            file_type: metadata
                .mime
                .as_deref()
                .map(|mime| engine::type_name(mime, metadata.path.name())),
            size: metadata.size,
            mode: format!("{:04o}", metadata.perm),
            id: hex(metadata.id),
            mime_type: metadata.mime.clone(),
            created_at: metadata.created_at.map(time),
            modified_at: metadata.modified_at.map(time),
            operator: metadata.operator.clone(),
            message_ids,
            history: metadata
                .history
                .iter()
                .map(engine::history_as_json)
                .collect(),
        }
    }
}

/// A part of a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Window {
    content: String,
    start: u64,
    total: u64,
    read_length: u64,
    mime_type: Option<String>,
    encoding: &'static str,
}

impl From<engine::Window> for Window {
    fn from(window: engine::Window) -> Self {
        let (content, encoding) = match window.content {
            engine::WindowContent::Text(text) => (text, "utf8"),
            engine::WindowContent::Bytes(bytes) => (base64(&bytes), "base64"),
        };
        Window {
            content,
            start: window.start,
            total: window.total,
            read_length: window.read_length,
            mime_type: Some(window.mime),
            encoding,
        }
    }
}

impl Window {
    /// The same over bytes at hand, such as those of a snapshot.
    pub(crate) fn of(bytes: &[u8], offset: u64, length: usize) -> Self {
        let length = length.min(engine::MAX_WINDOW);
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        match std::str::from_utf8(bytes)
            .ok()
            .filter(|text| !text.contains('\0'))
        {
            Some(text) => {
                let total = text.chars().count() as u64;
                let content: String = text.chars().skip(skip).take(length).collect();
                Window {
                    start: offset.min(total),
                    total,
                    read_length: content.chars().count() as u64,
                    mime_type: None,
                    encoding: "utf8",
                    content,
                }
            }
            None => {
                let rest = bytes.get(skip..).unwrap_or_default();
                let part = &rest[..rest.len().min(length)];
                Window {
                    content: base64(part),
                    start: offset.min(bytes.len() as u64),
                    total: bytes.len() as u64,
                    read_length: part.len() as u64,
                    mime_type: None,
                    encoding: "base64",
                }
            }
        }
    }
}

/// Base64 with padding, as RFC 4648 has it.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (group >> (18 - 6 * digit)) & 63;
            text.push(if digit <= chunk.len() {
                char::from(DIGITS[value as usize])
            } else {
                '='
            });
        }
    }
    text
}

/// A file that was written or moved.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Written {
    path: String,
    size: i64,
    mime_type: String,
    version: i64,
    id: String,
    created: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<usize>,
}

impl From<&engine::Written> for Written {
    fn from(written: &engine::Written) -> Self {
        Written {
            path: written.path.to_text(),
            size: written.size,
            mime_type: written.mime.clone(),
            version: written.version,
            id: written.id.to_hex(),
            created: written.created,
            replaced: None,
        }
    }
}

impl Written {
    /// The answer to an edit, which also says how many places were replaced.
    pub(crate) fn edited(written: &engine::Written, replaced: usize) -> Self {
        Written {
            replaced: Some(replaced),
            ..Written::from(written)
        }
    }
}

/// A moved file, link or directory.
#[derive(Debug, Serialize)]
pub(crate) struct Moved {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) version: i64,
}

/// A made directory.
#[derive(Debug, Serialize)]
pub(crate) struct Made {
    pub(crate) path: String,
}

/// A deleted path.
#[derive(Debug, Serialize)]
pub(crate) struct Deleted {
    pub(crate) path: String,
    /// Files and links that went with it.
    pub(crate) files: usize,
}

/// One path that differs.
#[derive(Debug, Serialize)]
pub(crate) struct ChangedPath {
    path: String,
    change: ChangeKind,
    #[serde(rename = "type")]
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

fn changed_paths(set: &ChangeSet) -> Vec<ChangedPath> {
    set.changes.iter().map(ChangedPath::from).collect()
}

/// What changed since the newest snapshot.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    workspace: String,
    base: Option<String>,
    changes: Vec<ChangedPath>,
    ignored: Vec<String>,
}

impl Status {
    pub(crate) fn new(workspace: &engine::Workspace, set: &ChangeSet) -> Self {
        Status {
            workspace: workspace.id.to_string(),
            base: hex(workspace.head),
            changes: changed_paths(set),
            ignored: texts(&set.ignored),
        }
    }
}

/// What differs between two points.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) changes: Vec<FileDifference>,
}

/// What differs in one path.
#[derive(Debug, Serialize)]
pub(crate) struct FileDifference {
    #[serde(flatten)]
    pub(crate) change: ChangedPath,
    /// Whether the content is no text.
    pub(crate) binary: bool,
    pub(crate) added_lines: Option<u32>,
    pub(crate) removed_lines: Option<u32>,
    /// The hunks in the unified format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diff: Option<String>,
}

/// A snapshot.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot {
    id: String,
    number: i64,
    label: Option<String>,
    created_at: String,
    parent: Option<String>,
    tree: String,
    operator: String,
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
            message_id: snapshot.cause.message_id.clone(),
            file_count: snapshot.files,
            dir_count: snapshot.dirs,
            total_size: snapshot.bytes,
        }
    }
}

/// The answer to a request for a snapshot.
#[derive(Debug, Serialize)]
pub(crate) struct Taken {
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
#[derive(Debug, Serialize)]
pub(crate) struct Snapshots {
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
#[derive(Debug, Serialize)]
pub(crate) struct Restored {
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
#[derive(Debug, Serialize)]
pub(crate) struct History {
    pub(crate) history: Vec<Value>,
}

/// One line of the history, read back from the shape that every door shows.
#[derive(Debug, Deserialize)]
pub(crate) struct HistoryLine {
    pub(crate) op: String,
    pub(crate) via: String,
    pub(crate) path: String,
    pub(crate) operator: String,
    pub(crate) version: i64,
    pub(crate) from: Option<String>,
    pub(crate) message_id: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) size: Option<i64>,
}

/// What a sync found.
#[derive(Debug, Serialize)]
pub(crate) struct Synced {
    walked: bool,
    changes: Vec<OutsideChange>,
    refused: Vec<Refused>,
    ignored: Vec<String>,
    unsettled: Vec<String>,
}

#[derive(Debug, Serialize)]
struct OutsideChange {
    path: String,
    op: &'static str,
    #[serde(rename = "type")]
    kind: EntryKind,
}

#[derive(Debug, Serialize)]
struct Refused {
    path: String,
    reason: String,
}

impl From<&engine::Synced> for Synced {
    fn from(synced: &engine::Synced) -> Self {
        let change = |change: &engine::OutsideChange| OutsideChange {
            path: change.path.to_text(),
            op: change.op.as_str(),
            kind: change.kind,
        };
        let refused = |(path, reason): &(RelPath, String)| Refused {
            path: path.to_text(),
            reason: reason.clone(),
        };
        Synced {
            walked: synced.walked,
            changes: synced.changes.iter().map(change).collect(),
            refused: synced.refused.iter().map(refused).collect(),
            ignored: texts(&synced.ignored),
            unsettled: texts(&synced.unsettled),
        }
    }
}

/// The settings in force.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) value: Option<String>,
    pub(crate) origin: &'static str,
    pub(crate) variable: &'static str,
}

/// What was found out about this machine.
#[derive(Debug, Serialize)]
pub(crate) struct Doctor {
    pub(crate) checks: Vec<Check>,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) ok: bool,
    pub(crate) value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length() {
        for (plain, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"\xff\xfe\xfd\xfc", "//79/A=="),
        ] {
            assert_eq!(base64(plain), text);
        }
    }

    #[test]
    fn windows_never_split_a_character() {
        let window = Window::of("aéz".as_bytes(), 1, 1);
        assert_eq!((window.content.as_str(), window.total), ("é", 3));
        let window = Window::of(b"\xff\x00\x01", 1, 5);
        assert_eq!((window.content.as_str(), window.read_length), ("AAE=", 2));
    }
}
