//! Finding a snapshot by its id or by a prefix of it.

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_store::{ReadTx, SnapshotRow, WorkspaceRow, WorkspaceState};

use crate::content::Contents;

impl Contents {
    /// The snapshot of a workspace with this id, or with this prefix of at least four digits.
    pub(crate) fn find_snapshot(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        text: &str,
    ) -> Result<SnapshotRow> {
        let prefix =
            hex_prefix(text).ok_or_else(|| no_snapshot(text, &format!("of `{}`", row.id)))?;
        unique_snapshot(
            text,
            &format!("of `{}`", row.id),
            tx.snapshots_by_prefix(row.key, &prefix)?,
        )
    }

    /// The snapshot of any workspace, open or deleted, with this id or prefix, and its workspace. If
    /// several workspaces have it, an open one comes before a deleted one and a newer before an older.
    pub(crate) fn find_snapshot_anywhere(
        &self,
        tx: &dyn ReadTx,
        text: &str,
    ) -> Result<(WorkspaceRow, SnapshotRow)> {
        let prefix = hex_prefix(text).ok_or_else(|| no_snapshot(text, "of any workspace"))?;
        let mut found = Vec::new();
        let mut rows = tx.all_workspaces()?;
        rows.sort_by_key(|row| {
            (
                row.state == WorkspaceState::Closed,
                std::cmp::Reverse(row.key),
            )
        });
        for row in rows {
            for snapshot in tx.snapshots_by_prefix(row.key, &prefix)? {
                found.push((row.clone(), snapshot));
            }
        }
        let snapshots = found.iter().map(|(_, snapshot)| snapshot.clone()).collect();
        let id = unique_snapshot(text, "of any workspace", snapshots)?.id;
        found
            .into_iter()
            .find(|(_, snapshot)| snapshot.id == id)
            .ok_or_else(|| no_snapshot(text, "of any workspace"))
    }
}

/// A prefix of an id as a caller typed it; none if it cannot be one.
pub(crate) fn hex_prefix(text: &str) -> Option<String> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && (4..=40).contains(&text.len())).then(|| text.to_ascii_lowercase())
}

pub(crate) fn no_snapshot(text: &str, whose: &str) -> Error {
    Error::new(
        ErrorCode::SnapshotNotFound,
        format!("there is no snapshot `{}` {whose}", text.escape_debug()),
    )
    .with_hint("nothing was changed; `offshoot snapshots WS` shows those there are")
}

/// The one snapshot that a prefix matches.
fn unique_snapshot(text: &str, whose: &str, mut found: Vec<SnapshotRow>) -> Result<SnapshotRow> {
    found.sort_by(|a, b| a.id.cmp(&b.id).then(b.number.cmp(&a.number)));
    found.dedup_by_key(|row| row.id);
    match found.len() {
        0 => Err(no_snapshot(text, whose)),
        1 => Ok(found.remove(0)),
        _ => {
            let matches: Vec<String> = found.iter().map(|row| row.id.to_hex()).collect();
            Err(Error::new(
                ErrorCode::AmbiguousPrefix,
                format!("`{text}` begins {} snapshots", matches.len()),
            )
            .with_details(serde_json::json!({ "matches": matches })))
        }
    }
}
