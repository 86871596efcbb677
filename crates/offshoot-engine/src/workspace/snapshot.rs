//! Snapshots: states of a workspace that can be named, compared and brought back.

use offshoot_core::{
    Cause, EMPTY_TREE, EntryKind, Error, ObjectId, ObjectKind, RelPath, Result, Timestamp,
    WorkspaceId,
};
use offshoot_git::Commit;
use offshoot_store::{
    Durability, EntryRow, HistoryOp, NewObject, ReadTx, SnapshotRow, WorkspaceKey, WorkspaceRow,
    WriteTx,
};

use crate::content::credit::{message, signature};
use crate::content::draft::{is_same_index, keeps_changing};
use crate::content::index::Index;
use crate::content::objects::PendingObjects;
use crate::content::rows::{open_row_by_key, size_of, state_of};
use crate::content::snapshot_plan::SnapshotPlan;
use crate::content::state::State;
use crate::content::workspace_row::line_of;
use crate::workspace::Workspaces;

/// How often a snapshot is prepared while others may write, before they have to wait for it.
const OPTIMISTIC_TRIES: usize = 4;
/// The longest label, in bytes.
const MAX_LABEL: usize = 4096;

/// One snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The commit.
    pub id: ObjectId,
    /// Its place among the snapshots of the workspace, from 1.
    pub number: i64,
    /// What the user called it.
    pub label: Option<String>,
    /// When it was made.
    pub at: Timestamp,
    /// The one before it.
    pub parent: Option<ObjectId>,
    /// The tree that git sees.
    pub tree: ObjectId,
    /// Who and why.
    pub cause: Cause,
    /// Files and links in it.
    pub files: i64,
    /// Directories in it.
    pub dirs: i64,
    /// Bytes in it.
    pub bytes: i64,
}

impl From<SnapshotRow> for Snapshot {
    fn from(row: SnapshotRow) -> Self {
        Snapshot {
            id: row.id,
            number: row.number,
            label: row.label,
            at: row.at,
            parent: row.parent,
            tree: row.tree,
            cause: row.cause,
            files: row.files,
            dirs: row.dirs,
            bytes: row.bytes,
        }
    }
}

/// The answer to a request for a snapshot.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The snapshot that holds the present state.
    pub snapshot: Snapshot,
    /// False if nothing had changed since the newest snapshot, which is then the answer.
    pub created: bool,
}

/// A snapshot that is computed but not stored.
struct Draft {
    row: WorkspaceRow,
    snapshot: SnapshotRow,
    objects: Vec<NewObject>,
    folded: FoldedRows,
}

/// The rows of an index that became part of its base.
pub(crate) enum FoldedRows {
    /// All that there are.
    All,
    /// Those at these paths; the others, of ignored files, stay.
    At(Vec<RelPath>),
}

impl FoldedRows {
    pub(crate) fn new(pending: &SnapshotPlan) -> FoldedRows {
        match pending.ignored.is_empty() {
            true => FoldedRows::All,
            false => FoldedRows::At(pending.taken.clone()),
        }
    }

    pub(crate) fn remove(&self, tx: &mut dyn WriteTx, workspace: WorkspaceKey) -> Result<()> {
        match self {
            FoldedRows::All => tx.remove_entries_below(workspace, &RelPath::root()),
            FoldedRows::At(paths) => {
                let remove = |path| tx.remove_entry(workspace, path);
                paths.iter().try_for_each(remove)
            }
        }
    }
}

enum Preparation {
    /// Nothing changed and nobody asked for a new one.
    Unchanged(SnapshotRow),
    New(Box<Draft>),
}

impl Workspaces {
    /// Takes a snapshot of the present state. With a label it is always a new commit.
    ///
    /// It is a state that really was: writers through Offshoot are ordered by their transactions,
    /// and outside programs' changes are collected first (see `sync`). A file that a program changes
    /// again and again is in it as it was last found at rest; if it never was, there is no snapshot.
    pub fn snapshot(
        &self,
        id: &WorkspaceId,
        label: Option<&str>,
        include_ignored: bool,
        cause: &Cause,
    ) -> Result<Taken> {
        self.context.require_space()?;
        check_label(label)?;
        let row = self.contents.open_row(id)?;
        let try_it = || self.try_snapshot(&row, label, include_ignored, cause, Durability::Synced);
        if !row.handed_out
            && let Some(taken) = try_it()?
        {
            return Ok(taken);
        }
        // Outside programs may have changed the workspace, or its writers were quicker than every
        // try: this once they wait for the lock.
        let _lock = self.directories.exclusive(&row)?;
        let synced = self
            .sync
            .sync_locked_with(&row, include_ignored, Durability::Relaxed)?;
        self.sync
            .refuse_never_recorded(&row, &synced, &RelPath::root())?;
        try_it()?.ok_or_else(|| keeps_changing(&row))
    }

    /// Takes a snapshot of what the index says. The caller holds the exclusive lock, and chooses
    /// the durability.
    pub(crate) fn take_snapshot_with(
        &self,
        row: &WorkspaceRow,
        label: Option<&str>,
        include_ignored: bool,
        cause: &Cause,
        durability: Durability,
    ) -> Result<Taken> {
        self.try_snapshot(row, label, include_ignored, cause, durability)?
            .ok_or_else(|| keeps_changing(row))
    }

    /// Takes a snapshot unless somebody changes the workspace again and again meanwhile.
    fn try_snapshot(
        &self,
        row: &WorkspaceRow,
        label: Option<&str>,
        include_ignored: bool,
        cause: &Cause,
        durability: Durability,
    ) -> Result<Option<Taken>> {
        let at = self.context.now();
        for _ in 0..OPTIMISTIC_TRIES {
            let draft = match self
                .store()
                .read(|tx| self.draft_snapshot(tx, row, label, include_ignored, cause, at))?
            {
                Preparation::Unchanged(row) => return Ok(Some(unchanged(row))),
                Preparation::New(draft) => draft,
            };
            let stored = self.store().write(durability, |tx| {
                let now = open_row_by_key(tx, row)?;
                if !is_same_index(&now, &draft.row) {
                    return Ok(None);
                }
                store_draft(tx, &now, &draft, at).map(Some)
            })?;
            if let Some(row) = stored {
                return Ok(Some(Taken {
                    snapshot: row.into(),
                    created: true,
                }));
            }
        }
        Ok(None)
    }

    fn draft_snapshot(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        label: Option<&str>,
        include_ignored: bool,
        cause: &Cause,
        at: Timestamp,
    ) -> Result<Preparation> {
        let row = open_row_by_key(tx, row)?;
        let index = Index::new(self.store(), tx, &row).with_rows()?;
        let pending = index.plan_snapshot(include_ignored)?;
        let mut bench = PendingObjects::new(&index.objects);
        let state = index.base().edit(&mut bench, &pending.edits)?;
        let head = match &row.head {
            Some(head) => tx.snapshot(row.key, head)?,
            None => None,
        };
        if let (Some(head), None) = (&head, label)
            && state_of(head) == state
        {
            return Ok(Preparation::Unchanged(head.clone()));
        }
        let number = head.as_ref().map_or(0, |head| head.number) + 1;
        let commit = Commit {
            tree: state.tree,
            parents: row.head.into_iter().collect(),
            author: signature(cause, at),
            committer: signature(cause, at),
            message: message(label, number, cause, None),
            extra_headers: Vec::new(),
        };
        let mut commit = commit;
        commit.set_sidecar((state.sidecar != EMPTY_TREE).then_some(state.sidecar));
        let id = bench.add(ObjectKind::Commit, commit.encode()?)?;
        // Git needs the empty tree as an object when a snapshot names it.
        if state.tree == EMPTY_TREE {
            bench.add(ObjectKind::Tree, Vec::new())?;
        }
        let (files, dirs, bytes) = tracked_counts(&row, &pending.ignored);
        let snapshot = SnapshotRow {
            workspace: row.key,
            number,
            id,
            parent: row.head,
            tree: state.tree,
            sidecar: state.sidecar,
            label: label.map(str::to_owned),
            at,
            cause: cause.clone(),
            files,
            dirs,
            bytes,
        };
        let objects = bench.prepare(self.store())?;
        Ok(Preparation::New(Box::new(Draft {
            snapshot,
            objects,
            folded: FoldedRows::new(&pending),
            row: row.clone(),
        })))
    }

    /// A first snapshot that begins with another one and holds this state instead of its own.
    pub(crate) fn snapshot_on(
        &self,
        tx: &dyn ReadTx,
        bench: &mut PendingObjects<'_>,
        from: &SnapshotRow,
        state: State,
    ) -> Result<SnapshotRow> {
        let label = "Begin without what belongs to another workspace";
        let mut commit = Commit {
            tree: state.tree,
            parents: vec![from.id],
            author: signature(&from.cause, from.at),
            committer: signature(&from.cause, from.at),
            message: message(Some(label), 1, &from.cause, None),
            extra_headers: Vec::new(),
        };
        commit.set_sidecar((state.sidecar != EMPTY_TREE).then_some(state.sidecar));
        let id = bench.add(ObjectKind::Commit, commit.encode()?)?;
        if state.tree == EMPTY_TREE {
            bench.add(ObjectKind::Tree, Vec::new())?;
        }
        let mut counted = from.clone();
        for change in state_of(from).diff(bench, &state, &RelPath::root())? {
            for (entry, sign) in [(&change.before, -1), (&change.after, 1)] {
                let Some(entry) = entry else { continue };
                match entry.kind {
                    EntryKind::Dir => counted.dirs += sign,
                    EntryKind::File | EntryKind::Symlink => counted.files += sign,
                }
                counted.bytes += sign * size_of(tx, entry)?;
            }
        }
        Ok(SnapshotRow {
            id,
            parent: Some(from.id),
            tree: state.tree,
            sidecar: state.sidecar,
            label: Some(label.to_owned()),
            ..counted
        })
    }

    /// Keeps the present state as a snapshot before something takes it away. None if there is
    /// nothing to keep. The caller holds the exclusive lock.
    pub(crate) fn keep_last_state(
        &self,
        row: &WorkspaceRow,
        why: &str,
        cause: &Cause,
    ) -> Result<Option<ObjectId>> {
        self.sync.sync_locked(row, false)?;
        self.keep_recorded(row, why, false, Durability::Synced, cause)
    }

    /// Like [`keep_last_state`](Self::keep_last_state), of what is recorded already.
    pub(crate) fn keep_recorded(
        &self,
        row: &WorkspaceRow,
        why: &str,
        include_ignored: bool,
        durability: Durability,
        cause: &Cause,
    ) -> Result<Option<ObjectId>> {
        let at = self.context.now();
        let drafted = self.store().read(|tx| {
            let row = open_row_by_key(tx, row)?;
            if row.head.is_none() && row.files == 0 && row.dirs == 0 {
                return Ok(None);
            }
            let draft = self.draft_snapshot(tx, &row, None, include_ignored, cause, at)?;
            Ok(Some((row, draft)))
        })?;
        let Some((row, draft)) = drafted else {
            return Ok(None);
        };
        if let Preparation::Unchanged(head) = draft {
            self.rebase_index_on_head(&row, &head, include_ignored)?;
            return Ok(Some(head.id));
        }
        self.take_snapshot_with(&row, Some(why), include_ignored, cause, durability)
            .map(|taken| Some(taken.snapshot.id))
    }

    /// Makes the newest snapshot the base of the index, of which the present state is known not to
    /// differ. Rows that undo each other, or undo a restore, would otherwise stay on top of it.
    fn rebase_index_on_head(
        &self,
        row: &WorkspaceRow,
        head: &SnapshotRow,
        include_ignored: bool,
    ) -> Result<()> {
        for _ in 0..OPTIMISTIC_TRIES {
            let (then, folded) = self.store().read(|tx| {
                let now = open_row_by_key(tx, row)?;
                let pending = Index::new(self.store(), tx, &now)
                    .with_rows()?
                    .plan_snapshot(include_ignored)?;
                let settled = pending.taken.is_empty()
                    && (now.tree, now.sidecar) == (head.tree, head.sidecar);
                Ok((now, (!settled).then(|| FoldedRows::new(&pending))))
            })?;
            let Some(folded) = folded else {
                return Ok(());
            };
            // This commit need not be durable: the state is the same before and after it.
            let done = self.store().write(Durability::Relaxed, |tx| {
                let mut now = open_row_by_key(tx, row)?;
                if !is_same_index(&now, &then) {
                    return Ok(false);
                }
                folded.remove(tx, now.key)?;
                now.tree = head.tree;
                now.sidecar = head.sidecar;
                tx.update_workspace(&now).map(|()| true)
            })?;
            if done {
                return Ok(());
            }
        }
        Err(keeps_changing(row))
    }

    /// The newest snapshots, newest first; 0 means all of them. Also of a workspace that was
    /// completed or deleted.
    pub fn snapshots(&self, id: &WorkspaceId, limit: usize) -> Result<Vec<Snapshot>> {
        self.store().read(|tx| {
            let row = crate::content::rows::last_row_in(tx, id)?;
            Ok(tx
                .snapshots(row.key, limit)?
                .into_iter()
                .map(Snapshot::from)
                .collect())
        })
    }
}

/// Refuses what cannot be the text of a snapshot.
pub(crate) fn check_label(label: Option<&str>) -> Result<()> {
    if label.is_some_and(|label| label.len() > MAX_LABEL || label.contains('\0')) {
        return Err(Error::invalid(format!(
            "a label has at most {MAX_LABEL} bytes and no NUL"
        )));
    }
    Ok(())
}

fn unchanged(row: SnapshotRow) -> Taken {
    Taken {
        snapshot: row.into(),
        created: false,
    }
}

fn store_draft(
    tx: &mut dyn WriteTx,
    now: &WorkspaceRow,
    draft: &Draft,
    at: Timestamp,
) -> Result<SnapshotRow> {
    for object in &draft.objects {
        tx.put_object(object)?;
    }
    tx.add_snapshot(&draft.snapshot)?;
    draft.folded.remove(tx, now.key)?;
    let mut next = now.clone();
    next.head = Some(draft.snapshot.id);
    next.tree = draft.snapshot.tree;
    next.sidecar = draft.snapshot.sidecar;
    next.used_at = at;
    tx.update_workspace(&next)?;
    let mut line = line_of(&next, HistoryOp::Snapshot, &draft.snapshot.cause, at);
    line.before = draft.snapshot.parent;
    line.after = Some(draft.snapshot.id);
    tx.add_history(&line)?;
    Ok(draft.snapshot.clone())
}

fn tracked_counts(row: &WorkspaceRow, ignored: &[EntryRow]) -> (i64, i64, i64) {
    let dirs = ignored
        .iter()
        .filter(|row| row.kind == Some(EntryKind::Dir))
        .count() as i64;
    let files = ignored.len() as i64 - dirs;
    let bytes: i64 = ignored.iter().map(|row| row.size).sum();
    (row.files - files, row.dirs - dirs, row.bytes - bytes)
}
