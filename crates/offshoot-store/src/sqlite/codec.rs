//! How values are written in columns: small numbers for closed sets, blobs for ids and paths.

use offshoot_core::{
    Cause, EntryKind, Layout, ObjectId, ObjectKind, Operator, RelPath, Timestamp, WorkspaceId,
};
use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type};

use crate::{
    EntryRow, HistoryOp, HistoryRow, NewHistory, ObjectPlace, ObjectRow, PackRow, SnapshotRow,
    TokenRow, Via, WorkspaceKey, WorkspaceKind, WorkspaceRow, WorkspaceState,
};

/// The columns of one kind of row in the order in which its function here reads them. A macro,
/// because `concat!` takes literals only and statements should not be put together at run time.
macro_rules! columns {
    (workspace) => {
        "key, id, layout, state, head, tree, sidecar, revision, synced_revision, materialized, \
         handed_out, created_at, changed_at, used_at, last_sync, files, dirs, bytes, quota_bytes, \
         quota_inodes, kind"
    };
    (entry) => {
        "parent, name, kind, opaque, perm, id, size, revision"
    };
    (object_without_bytes) => {
        "id, kind, size, compressed, stored_at, pack, start, length, \
         CASE WHEN bytes IS NULL THEN NULL ELSE x'' END"
    };
    (object) => {
        "id, kind, size, compressed, stored_at, pack, start, length, bytes"
    };
    (pack) => {
        "key, blob, size, stored_at"
    };
    (snapshot) => {
        "workspace, number, id, parent, tree, sidecar, label, at, \
         (SELECT name FROM operator WHERE key = snapshot.operator), claim, message_id, files, \
         dirs, bytes"
    };
    (history) => {
        "seq, workspace, revision, at, op, via, path, source, \
         (SELECT name FROM operator WHERE key = history.operator), claim, message_id, kind, \
         before, after, size, mime, modified"
    };
    (token) => {
        "id, hash, scope, label, issued_by, created_at, expires_at, revoked_at"
    };
}
pub(super) use columns;

pub(super) type Decoded<T> = rusqlite::Result<T>;

pub(super) fn bad<T>(column: usize, kind: Type) -> Decoded<T> {
    Err(rusqlite::Error::FromSqlConversionFailure(
        column,
        kind,
        Box::new(FromSqlError::InvalidType),
    ))
}

pub(super) fn id(row: &Row<'_>, column: usize) -> Decoded<ObjectId> {
    row.get(column).map(ObjectId::from_bytes)
}

pub(super) fn optional_id(row: &Row<'_>, column: usize) -> Decoded<Option<ObjectId>> {
    Ok(row
        .get::<_, Option<[u8; 20]>>(column)?
        .map(ObjectId::from_bytes))
}

pub(super) fn path(row: &Row<'_>, column: usize) -> Decoded<RelPath> {
    Ok(RelPath::from_normal(row.get_ref(column)?.as_blob()?))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> Decoded<Timestamp> {
    row.get(column).map(Timestamp)
}

pub(super) fn cause(row: &Row<'_>, first: usize) -> Decoded<Cause> {
    Ok(Cause {
        operator: Operator::new(row.get_ref(first)?.as_str()?),
        claim: row.get(first + 1)?,
        message_id: row.get(first + 2)?,
    })
}

pub(super) fn kind_number(kind: EntryKind) -> i64 {
    match kind {
        EntryKind::File => 1,
        EntryKind::Symlink => 2,
        EntryKind::Dir => 3,
    }
}

fn optional_kind(row: &Row<'_>, column: usize) -> Decoded<Option<EntryKind>> {
    match row.get::<_, Option<i64>>(column)? {
        None => Ok(None),
        Some(1) => Ok(Some(EntryKind::File)),
        Some(2) => Ok(Some(EntryKind::Symlink)),
        Some(3) => Ok(Some(EntryKind::Dir)),
        Some(_) => bad(column, Type::Integer),
    }
}

pub(super) fn layout_number(layout: Layout) -> i64 {
    match layout {
        Layout::Plain => 0,
        Layout::Session => 1,
    }
}

pub(super) fn workspace_kind_number(kind: WorkspaceKind) -> i64 {
    match kind {
        WorkspaceKind::Standalone => 0,
        WorkspaceKind::Fork => 1,
        WorkspaceKind::Project => 2,
    }
}

pub(super) fn state_number(state: WorkspaceState) -> i64 {
    match state {
        WorkspaceState::Open => 0,
        WorkspaceState::Closed => 1,
    }
}

pub(super) fn op_number(op: HistoryOp) -> i64 {
    match op {
        HistoryOp::Create => 1,
        HistoryOp::Write => 2,
        HistoryOp::Delete => 3,
        HistoryOp::Move => 4,
        HistoryOp::Mkdir => 5,
        HistoryOp::Mode => 6,
        HistoryOp::Snapshot => 7,
        HistoryOp::Restore => 8,
        HistoryOp::WorkspaceCreate => 9,
        HistoryOp::WorkspaceDelete => 10,
        HistoryOp::WorkspaceClean => 11,
        HistoryOp::Purge => 12,
        HistoryOp::WorkspaceUpdate => 13,
        HistoryOp::ProjectCreate => 14,
        HistoryOp::ProjectDelete => 15,
        HistoryOp::Import => 16,
        HistoryOp::Update => 17,
        HistoryOp::Merge => 18,
        HistoryOp::MergeUndo => 19,
        HistoryOp::ReviewOpen => 20,
        HistoryOp::ReviewResolve => 21,
        HistoryOp::AgentSpawn => 22,
        HistoryOp::AgentEnd => 23,
        HistoryOp::ReviewPropose => 24,
    }
}

fn op(row: &Row<'_>, column: usize) -> Decoded<HistoryOp> {
    let number: i64 = row.get(column)?;
    let found = HistoryOp::ALL
        .iter()
        .copied()
        .find(|op| op_number(*op) == number);
    found.map_or_else(|| bad(column, Type::Integer), Ok)
}

pub(super) fn via_number(via: Via) -> i64 {
    match via {
        Via::Call => 1,
        Via::Upload => 2,
        Via::Sync => 3,
        Via::Restore => 4,
        Via::Recovery => 5,
        Via::Merge => 6,
        Via::Update => 7,
    }
}

fn via(row: &Row<'_>, column: usize) -> Decoded<Via> {
    let number: i64 = row.get(column)?;
    let found = Via::ALL
        .iter()
        .copied()
        .find(|via| via_number(*via) == number);
    found.map_or_else(|| bad(column, Type::Integer), Ok)
}

pub(super) fn workspace(row: &Row<'_>) -> Decoded<WorkspaceRow> {
    let id: WorkspaceId = match row.get_ref(1)?.as_str()?.parse() {
        Ok(id) => id,
        Err(_) => return bad(1, Type::Text),
    };
    Ok(WorkspaceRow {
        key: WorkspaceKey(row.get(0)?),
        id,
        layout: match row.get(2)? {
            0i64 => Layout::Plain,
            1 => Layout::Session,
            _ => return bad(2, Type::Integer),
        },
        state: match row.get(3)? {
            0i64 => WorkspaceState::Open,
            1 => WorkspaceState::Closed,
            _ => return bad(3, Type::Integer),
        },
        head: optional_id(row, 4)?,
        tree: self::id(row, 5)?,
        sidecar: self::id(row, 6)?,
        revision: row.get(7)?,
        synced_revision: row.get(8)?,
        materialized: row.get(9)?,
        handed_out: row.get(10)?,
        created_at: time(row, 11)?,
        changed_at: time(row, 12)?,
        used_at: time(row, 13)?,
        last_sync: row.get::<_, Option<i64>>(14)?.map(Timestamp),
        files: row.get(15)?,
        dirs: row.get(16)?,
        bytes: row.get(17)?,
        quota_bytes: row.get(18)?,
        quota_inodes: row.get(19)?,
        kind: match row.get(20)? {
            0i64 => WorkspaceKind::Standalone,
            1 => WorkspaceKind::Fork,
            2 => WorkspaceKind::Project,
            _ => return bad(20, Type::Integer),
        },
    })
}

pub(super) fn entry(row: &Row<'_>) -> Decoded<EntryRow> {
    let (parent, name) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
    let path = if parent.is_empty() {
        name.to_vec()
    } else {
        [parent, b"/", name].concat()
    };
    Ok(EntryRow {
        path: RelPath::from_normal(path),
        kind: optional_kind(row, 2)?,
        opaque: row.get(3)?,
        perm: row.get(4)?,
        id: optional_id(row, 5)?,
        size: row.get(6)?,
        revision: row.get(7)?,
    })
}

pub(super) fn object(row: &Row<'_>) -> Decoded<ObjectRow> {
    let kind = match ObjectKind::try_from(row.get::<_, u8>(1)?) {
        Ok(kind) => kind,
        Err(_) => return bad(1, Type::Integer),
    };
    let bytes: Option<Vec<u8>> = row.get(8)?;
    let pack: Option<i64> = row.get(5)?;
    let place = match (bytes, pack) {
        (Some(bytes), _) => ObjectPlace::Row(bytes),
        (None, Some(pack)) => ObjectPlace::Pack {
            pack,
            offset: row.get::<_, i64>(6)? as u64,
            length: row.get::<_, i64>(7)? as u64,
        },
        (None, None) => ObjectPlace::Blob,
    };
    Ok(ObjectRow {
        id: id(row, 0)?,
        kind,
        size: row.get::<_, i64>(2)? as u64,
        compressed: row.get(3)?,
        place,
        stored_at: time(row, 4)?,
    })
}

pub(super) fn pack(row: &Row<'_>) -> Decoded<PackRow> {
    Ok(PackRow {
        key: row.get(0)?,
        blob: row.get(1)?,
        size: row.get::<_, i64>(2)? as u64,
        stored_at: time(row, 3)?,
    })
}

pub(super) fn snapshot(row: &Row<'_>) -> Decoded<SnapshotRow> {
    Ok(SnapshotRow {
        workspace: WorkspaceKey(row.get(0)?),
        number: row.get(1)?,
        id: id(row, 2)?,
        parent: optional_id(row, 3)?,
        tree: id(row, 4)?,
        sidecar: id(row, 5)?,
        label: row.get(6)?,
        at: time(row, 7)?,
        cause: cause(row, 8)?,
        files: row.get(11)?,
        dirs: row.get(12)?,
        bytes: row.get(13)?,
    })
}

pub(super) fn history(row: &Row<'_>) -> Decoded<HistoryRow> {
    let from = row.get_ref(7)?.as_blob_or_null()?.map(RelPath::from_normal);
    Ok(HistoryRow {
        seq: row.get(0)?,
        line: NewHistory {
            workspace: WorkspaceKey(row.get(1)?),
            revision: row.get(2)?,
            at: time(row, 3)?,
            op: op(row, 4)?,
            via: via(row, 5)?,
            path: path(row, 6)?,
            from,
            cause: cause(row, 8)?,
            kind: optional_kind(row, 11)?,
            before: optional_id(row, 12)?,
            after: optional_id(row, 13)?,
            size: row.get(14)?,
            mime: row.get(15)?,
            modified: row.get::<_, Option<i64>>(16)?.map(Timestamp),
        },
    })
}

pub(super) fn token(row: &Row<'_>) -> Decoded<TokenRow> {
    Ok(TokenRow {
        id: row.get(0)?,
        hash: row.get(1)?,
        scope: row.get(2)?,
        label: row.get(3)?,
        issued_by: Operator::new(row.get_ref(4)?.as_str()?),
        created_at: time(row, 5)?,
        expires_at: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        revoked_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
    })
}
