//! The row of a workspace: a new row, its quota, and lines of history about the whole workspace.

use offshoot_core::{
    Cause, DEFAULT_DIR_PERM, EMPTY_TREE, EntryKind, Error, ErrorCode, Layout, RelPath, Result,
    SESSION_METADATA, Timestamp, WorkspaceId,
};
use offshoot_store::{
    EntryRow, HistoryOp, NewHistory, Via, WorkspaceKey, WorkspaceKind, WorkspaceRow,
    WorkspaceState, WriteTx,
};

/// Limits of a workspace; none means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// The most bytes.
    pub bytes: Option<i64>,
    /// The most files, links and directories.
    pub inodes: Option<i64>,
}

impl Quota {
    pub(crate) fn refuse_negative(self) -> Result<()> {
        if self.bytes.is_some_and(|n| n < 0) || self.inodes.is_some_and(|n| n < 0) {
            return Err(Error::invalid("a quota cannot be negative"));
        }
        Ok(())
    }
}

/// The row of an empty workspace.
pub(crate) fn new_row(
    id: &WorkspaceId,
    layout: Layout,
    quota: Quota,
    at: Timestamp,
) -> WorkspaceRow {
    WorkspaceRow {
        key: WorkspaceKey(0),
        id: id.clone(),
        kind: WorkspaceKind::Standalone,
        layout,
        state: WorkspaceState::Open,
        head: None,
        tree: EMPTY_TREE,
        sidecar: EMPTY_TREE,
        revision: 1,
        synced_revision: 1,
        materialized: false,
        handed_out: false,
        created_at: at,
        changed_at: at,
        used_at: at,
        last_sync: None,
        files: 0,
        dirs: 0,
        bytes: 0,
        quota_bytes: quota.bytes,
        quota_inodes: quota.inodes,
    }
}

pub(crate) fn dir_row(path: RelPath, revision: i64) -> EntryRow {
    EntryRow {
        path,
        kind: Some(EntryKind::Dir),
        opaque: false,
        perm: DEFAULT_DIR_PERM,
        id: None,
        size: 0,
        revision,
    }
}

/// A line of history about the whole workspace.
pub(crate) fn line_of(
    row: &WorkspaceRow,
    op: HistoryOp,
    cause: &Cause,
    at: Timestamp,
) -> NewHistory {
    NewHistory {
        workspace: row.key,
        revision: row.revision,
        at,
        op,
        via: Via::Call,
        path: RelPath::root(),
        from: None,
        cause: cause.clone(),
        kind: None,
        before: None,
        after: None,
        size: 0,
        mime: None,
        modified: None,
    }
}

/// Refuses a change that makes a workspace grow beyond its quota.
pub(crate) fn check_quota(before: &WorkspaceRow, after: &WorkspaceRow) -> Result<()> {
    let exceeded = |what: &str, now: i64, limit: i64| {
        Error::new(
            ErrorCode::QuotaExceeded,
            format!("the workspace would hold {now} {what}; its quota is {limit}"),
        )
        .with_hint("delete files, or raise the quota")
        .with_details(serde_json::json!({ "limit": limit, "wanted": now }))
    };
    if let Some(limit) = after.quota_bytes
        && after.bytes > limit
        && after.bytes > before.bytes
    {
        return Err(exceeded("bytes", after.bytes, limit));
    }
    let (inodes, inodes_before) = (after.files + after.dirs, before.files + before.dirs);
    if let Some(limit) = after.quota_inodes
        && inodes > limit
        && inodes > inodes_before
    {
        return Err(exceeded("files and directories", inodes, limit));
    }
    Ok(())
}

/// Writes the changed workspace row after checking its quota.
pub(crate) fn put_row(
    tx: &mut dyn WriteTx,
    before: &WorkspaceRow,
    after: &WorkspaceRow,
) -> Result<()> {
    check_quota(before, after)?;
    tx.update_workspace(after)
}

/// Whether the path is the file that describes a session workspace.
pub(crate) fn is_session_metadata(row: &WorkspaceRow, path: &RelPath) -> bool {
    row.layout == Layout::Session && path.as_bytes() == SESSION_METADATA.as_bytes()
}

/// The content of `.metadata.json`.
pub(crate) fn session_metadata(row: &WorkspaceRow) -> String {
    let value = serde_json::json!({
        "session_id": row.id.as_str(),
        "created_at": row.created_at.to_string(),
    });
    format!("{value:#}\n")
}
