//! Lines of history of one change, and the workspace row with its next revision.

use offshoot_core::{Cause, EntryKind, RelPath, Timestamp};
use offshoot_store::{HistoryOp, NewHistory, Via, WorkspaceRow};

/// The workspace row with the next revision. A workspace without a directory is synced at once, because
/// it has nothing to write to disk.
pub(crate) fn changed_row(row: &WorkspaceRow, at: Timestamp) -> WorkspaceRow {
    let mut next = row.clone();
    next.revision += 1;
    if !row.materialized {
        next.synced_revision = next.revision;
    }
    next.changed_at = at;
    next.used_at = at;
    next
}

/// What all lines of history of one change have in common.
pub(crate) struct LineTemplate<'a> {
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) at: Timestamp,
    pub(crate) via: Via,
    pub(crate) cause: &'a Cause,
}

impl LineTemplate<'_> {
    pub(crate) fn file(&self, op: HistoryOp, path: &RelPath, kind: EntryKind) -> NewHistory {
        NewHistory {
            workspace: self.row.key,
            revision: self.row.revision,
            at: self.at,
            op,
            via: self.via,
            path: path.clone(),
            from: None,
            cause: self.cause.clone(),
            kind: Some(kind),
            before: None,
            after: None,
            size: 0,
            mime: None,
            modified: None,
        }
    }

    pub(crate) fn mkdir(&self, path: &RelPath) -> NewHistory {
        self.file(HistoryOp::Mkdir, path, EntryKind::Dir)
    }
}
