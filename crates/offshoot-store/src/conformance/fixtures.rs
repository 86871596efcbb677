//! Rows to store, and short ways to run transactions.

use offshoot_core::{
    Cause, EMPTY_TREE, EntryKind, Layout, ObjectId, ObjectKind, Operator, RelPath, Result,
    Timestamp,
};

use crate::rows::PresenceCheck;
use crate::{
    Durability, EntryRow, HistoryOp, MetaStore, NewHistory, NewObject, ObjectPlace, ObjectRow,
    ReadTx, SnapshotRow, Via, WorkspaceKey, WorkspaceKind, WorkspaceRow, WorkspaceState, WriteTx,
};

pub(super) fn read<T>(meta: &dyn MetaStore, work: impl Fn(&dyn ReadTx) -> Result<T>) -> T {
    let mut value = None;
    meta.read(&mut |tx| {
        value = Some(work(tx)?);
        Ok(())
    })
    .unwrap();
    value.unwrap()
}

pub(super) fn try_write<T>(
    meta: &dyn MetaStore,
    mut work: impl FnMut(&mut dyn WriteTx) -> Result<T>,
) -> Result<T> {
    let mut value = None;
    // Relaxed: these suites are about rows, not about power cuts.
    meta.write(Durability::Relaxed, &mut |tx| {
        value = Some(work(tx)?);
        Ok(())
    })?;
    Ok(value.unwrap())
}

pub(super) fn write<T>(meta: &dyn MetaStore, work: impl FnMut(&mut dyn WriteTx) -> Result<T>) -> T {
    try_write(meta, work).unwrap()
}

pub(super) fn id(first: u8, last: u8) -> ObjectId {
    let mut bytes = [0x5a; 20];
    bytes[0] = first;
    bytes[19] = last;
    ObjectId::from_bytes(bytes)
}

pub(super) fn path(bytes: &[u8]) -> RelPath {
    RelPath::from_normal(bytes)
}

pub(super) fn workspace(name: &str) -> WorkspaceRow {
    WorkspaceRow {
        key: WorkspaceKey(0),
        id: name.parse().unwrap(),
        kind: WorkspaceKind::Standalone,
        layout: Layout::Plain,
        state: WorkspaceState::Open,
        head: None,
        tree: EMPTY_TREE,
        sidecar: EMPTY_TREE,
        revision: 0,
        synced_revision: 0,
        materialized: false,
        handed_out: false,
        created_at: Timestamp(1),
        changed_at: Timestamp(2),
        used_at: Timestamp(3),
        last_sync: None,
        files: 0,
        dirs: 0,
        bytes: 0,
        quota_bytes: None,
        quota_inodes: None,
    }
}

pub(super) fn add_workspace(meta: &dyn MetaStore, name: &str) -> WorkspaceKey {
    write(meta, |tx| tx.add_workspace(&workspace(name)))
}

/// Ends a workspace or a project.
pub(super) fn close(meta: &dyn MetaStore, key: WorkspaceKey) {
    write(meta, |tx| {
        let mut row = tx.workspace_by_key(key)?.unwrap();
        row.state = WorkspaceState::Closed;
        tx.update_workspace(&row)
    });
}

pub(super) fn entry(at: &[u8]) -> EntryRow {
    EntryRow {
        path: path(at),
        kind: Some(EntryKind::File),
        opaque: false,
        perm: 0o644,
        id: Some(id(7, at.len() as u8)),
        size: 12,
        revision: 1,
    }
}

pub(super) fn line(workspace: WorkspaceKey, at: &[u8]) -> NewHistory {
    NewHistory {
        workspace,
        revision: 1,
        at: Timestamp(1_700_000_000_000_000),
        op: HistoryOp::Write,
        via: Via::Call,
        path: path(at),
        from: None,
        cause: Cause::by(Operator::user()),
        kind: Some(EntryKind::File),
        before: None,
        after: Some(id(9, 9)),
        size: 12,
        mime: None,
        modified: None,
    }
}

pub(super) fn snapshot(workspace: WorkspaceKey, number: i64, commit: ObjectId) -> SnapshotRow {
    SnapshotRow {
        workspace,
        number,
        id: commit,
        parent: None,
        tree: EMPTY_TREE,
        sidecar: EMPTY_TREE,
        label: Some(format!("number {number}")),
        at: Timestamp(number),
        cause: Cause {
            operator: Operator::new("agent-7"),
            claim: Some("somebody".into()),
            message_id: Some("m-1".into()),
        },
        files: 1,
        dirs: 2,
        bytes: 3,
    }
}

pub(super) fn object(id: ObjectId, place: ObjectPlace, stored_at: Timestamp) -> NewObject {
    let (kind, size, compressed) = (ObjectKind::Blob, 3, false);
    let row = ObjectRow {
        id,
        kind,
        size,
        compressed,
        place,
        stored_at,
    };
    NewObject(row, PresenceCheck::NotNeeded)
}
