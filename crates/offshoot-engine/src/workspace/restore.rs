//! Bringing back a snapshot, whole or one path of it, and comparing states.

use std::collections::HashSet;
use std::io::Read as _;

use offshoot_core::{
    Cause, ChangeSet, EMPTY_BLOB, EntryKind, Error, ErrorCode, ObjectId, RelPath, Result,
    Timestamp, WorkspaceId,
};
use offshoot_fs::{SafeDir, Walk};
use offshoot_store::{
    Durability, EntryRow, HistoryOp, ReadTx, Via, WorkspaceRow, WorkspaceState, WriteTx,
};

use crate::content::change_set::{change_set, kind_of, op_of};
use crate::content::counters::CounterDelta;
use crate::content::diff::Point;
use crate::content::draft::is_same_index;
use crate::content::history_writer::{LineTemplate, changed_row};
use crate::content::index::Index;
use crate::content::objects::{PendingObjects, StoredObjects, missing_content};
use crate::content::rows::{last_row_in, no_file, open_row_by_key, state_of};
use crate::content::source::{OpenFile, Source};
use crate::content::state::{State, StateChange, StateEdit, StateEdits, StateEntry};
use crate::content::workspace_row::{dir_row, line_of, put_row};
use crate::workspace::Workspaces;

/// What a restore did.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The snapshot that was brought back.
    pub snapshot: ObjectId,
    /// The snapshot that holds the state before; none if there was nothing to keep.
    pub kept: Option<ObjectId>,
    /// The paths that changed.
    pub changes: ChangeSet,
}

/// What a workspace is to become.
pub(crate) struct TargetState {
    pub(crate) state: State,
    /// Only this path and what is below it changes.
    pub(crate) below: RelPath,
    pub(crate) op: HistoryOp,
    pub(crate) via: Via,
    /// The snapshot that holds the state before.
    pub(crate) kept: Option<ObjectId>,
    /// The snapshot that holds the target state, if there is one.
    pub(crate) snapshot: Option<ObjectId>,
}

impl Workspaces {
    /// Brings a workspace, or one path of it, back to a snapshot. Only what differs is written.
    ///
    /// Before that the present state is kept as a snapshot, which the answer names. Ignored files
    /// are left alone. An unknown snapshot is an error and changes nothing.
    pub fn restore(
        &self,
        id: &WorkspaceId,
        snapshot: &str,
        path: Option<&RelPath>,
        cause: &Cause,
    ) -> Result<Restored> {
        self.context.require_space()?;
        let (row, _lock) = self.sync.lock_exclusively(id)?;
        let target = self
            .store()
            .read(|tx| self.contents.find_snapshot(tx, &row, snapshot))?;
        if row.materialized {
            // A directory that cannot be opened is reported before anything is recorded.
            self.directories.dir_of(&row)?;
        }
        let below = path.cloned().unwrap_or_default();
        let target_state = state_of(&target);
        if !row.handed_out {
            self.refuse_absent_path(&row, &target_state, &below)?;
        }
        let kept = self.keep_last_state(&row, "before restore", cause)?;
        // After the sync the index has what outside programs put there.
        self.refuse_absent_path(&row, &target_state, &below)?;
        let goal = TargetState {
            state: target_state,
            below,
            op: HistoryOp::Restore,
            via: Via::Restore,
            kept,
            snapshot: Some(target.id),
        };
        let changes = self.move_to_state(&row, &goal, cause, |_| Ok(()))?;
        Ok(Restored {
            snapshot: target.id,
            kept,
            changes: change_set(&changes),
        })
    }

    /// Makes a workspace what a state says, on disk too, and returns what changed. `also` writes
    /// into the same transaction. The caller holds the exclusive lock and has kept the present
    /// state, so that the index has no rows but ignored ones.
    pub(crate) fn move_to_state(
        &self,
        row: &WorkspaceRow,
        goal: &TargetState,
        cause: &Cause,
        also: impl Fn(&mut dyn WriteTx) -> Result<()>,
    ) -> Result<Vec<StateChange>> {
        let at = self.context.now();
        let plan = || {
            self.store()
                .read(|tx| self.plan_restore(tx, row, &goal.state, &goal.below))
        };
        let plan = plan().and_then(|first| match self.record_hidden(row, &first.changes)? {
            true => plan(),
            false => Ok(first),
        })?;
        let changes = &plan.changes;
        self.refuse_damaged(changes)?;
        self.store().write(Durability::Synced, |tx| {
            write_plan(tx, row, &plan, goal, at, cause)?;
            also(tx)
        })?;
        if row.materialized {
            let projected = self
                .directories
                .dir_of(row)
                .and_then(|dir| self.directories.project_changes(&dir, changes));
            projected.or_else(|error| {
                let paths: Vec<RelPath> =
                    changes.iter().map(|change| change.path.clone()).collect();
                self.sync.retry_projection(row, &paths, error)
            })?;
        }
        Ok(plan.changes)
    }

    /// Reads through all content that is to come before anything changes, so that damaged content
    /// is found while the old is still in place. What differs is read a second time for it.
    fn refuse_damaged(&self, changes: &[StateChange]) -> Result<()> {
        let mut seen = HashSet::new();
        for change in changes {
            let before = change.before.and_then(|before| before.id);
            let Some(content) = change.after.and_then(|after| after.id) else {
                continue;
            };
            if before == Some(content) || !seen.insert(content) {
                continue;
            }
            let found = self.store().verify(&content, &mut std::io::sink())?;
            // The empty content needs no object.
            if found.is_none() && content != EMPTY_BLOB {
                return Err(missing_content());
            }
        }
        Ok(())
    }

    /// A path that neither side knows is a mistake of the caller.
    fn refuse_absent_path(&self, row: &WorkspaceRow, target: &State, path: &RelPath) -> Result<()> {
        self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let index = Index::new(self.store(), tx, &now);
            let known =
                target.entry(&index.objects, path)?.is_some() || index.entry(path)?.is_some();
            if known { Ok(()) } else { Err(no_file(path)) }
        })
    }

    fn plan_restore(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        target: &State,
        below: &RelPath,
    ) -> Result<Plan> {
        let row = open_row_by_key(tx, row)?;
        let index = Index::new(self.store(), tx, &row).with_rows()?;
        let now = index.base();
        let mut changes = now.diff(&index.objects, target, below)?;
        refuse_obstacles(&index, &changes)?;
        if changes.iter().any(|change| change.after.is_some()) {
            refuse_files_above(&index, below)?;
        }
        let staying = keep_dirs_of_ignored(&index, &mut changes)?;
        let mut replaced = Vec::new();
        for change in &changes {
            replaced.extend(index.own_row(&change.path)?);
        }
        let mut sizes = Vec::with_capacity(changes.len());
        let size = |entry: &Option<StateEntry>| -> Result<i64> {
            match entry.as_ref().and_then(|entry| entry.id) {
                Some(id) => Ok(tx.object_size(&id)?.unwrap_or(0) as i64),
                None => Ok(0),
            }
        };
        for change in &changes {
            sizes.push((size(&change.before)?, size(&change.after)?));
        }
        let mut bench = PendingObjects::new(&index.objects);
        let (state, new_parents) = if below.is_root() {
            (*target, Vec::new())
        } else {
            let edits: StateEdits = changes.iter().map(edit_of).collect();
            let mut missing = Vec::new();
            if changes.iter().any(|change| change.after.is_some()) {
                for above in below.dirs_above() {
                    if index.entry(&above)?.is_none() {
                        missing.push(above);
                    }
                }
            }
            (now.edit(&mut bench, &edits)?, missing)
        };
        let objects = bench.prepare(self.store())?;
        Ok(Plan {
            base: row.clone(),
            replaced,
            changes,
            sizes,
            state,
            objects,
            new_parents,
            staying,
        })
    }

    /// Records what a walk leaves out and a restore would replace: ignored files that only the
    /// directory knows. Returns whether there was anything.
    fn record_hidden(&self, row: &WorkspaceRow, changes: &[StateChange]) -> Result<bool> {
        if !row.handed_out || !row.materialized {
            return Ok(false);
        }
        let dir = self.directories.dir_of(row)?;
        let mut hidden: Vec<RelPath> = Vec::new();
        for change in changes {
            self.contents.refuse_too_large(row, &dir, &change.path)?;
            let Some(after) = change.after else { continue };
            match dir.stat(&change.path)? {
                None => {}
                Some(_) if change.before.is_none() => hidden.push(change.path.clone()),
                Some(stat) if stat.is_dir() && after.kind != EntryKind::Dir => {
                    hidden.extend(self.unknown_below(row, &dir, &change.path)?);
                }
                Some(_) => {}
            }
        }
        for path in &hidden {
            self.sync.sync_steps(row, &dir, path)?;
        }
        Ok(!hidden.is_empty())
    }

    /// One path below a directory on disk that the index does not know, if there is any.
    fn unknown_below(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        path: &RelPath,
    ) -> Result<Option<RelPath>> {
        let mut unknown = None;
        self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let index = Index::new(self.store(), tx, &now).with_tree_cache();
            dir.walk(path, |found, stat| {
                let there = stat.entry_kind().is_some() && unknown.is_none();
                if there && index.entry(found)?.is_none() {
                    unknown = Some(found.clone());
                }
                Ok(if unknown.is_none() {
                    Walk::Enter
                } else {
                    Walk::Skip
                })
            })
        })?;
        Ok(unknown)
    }

    /// What differs between two points of a workspace. Outside changes are recorded first if one
    /// of them is now.
    ///
    /// Of a workspace that was completed or deleted, now is its last state. Its newest snapshot
    /// is that too, so a fork is compared with its base instead.
    pub fn diff(&self, id: &WorkspaceId, from: Point<'_>, to: Point<'_>) -> Result<ChangeSet> {
        let is_open = |tx: &dyn ReadTx| -> Result<bool> {
            Ok(last_row_in(tx, id)?.state == WorkspaceState::Open)
        };
        let now = matches!(from, Point::Now) || matches!(to, Point::Now);
        if now && self.store().read(is_open)? {
            self.sync.sync_if_handed_out(id)?;
        }
        self.contents.diff_recorded(id, from, to)
    }

    /// The content of a file at a point, for showing a difference line by line. None if it is not
    /// there or no file.
    pub fn content_of(&self, id: &ObjectId) -> Result<Vec<u8>> {
        Ok(self.contents.whole_object(id)?.to_vec())
    }

    /// The bytes of one file in a snapshot, which must fit into memory.
    pub fn file_at(&self, id: &WorkspaceId, snapshot: &str, path: &RelPath) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file_at(id, snapshot, path)?
            .read_to_end(&mut bytes)
            .map_err(crate::content::incoming::unreadable)?;
        Ok(bytes)
    }

    /// Opens a file in a snapshot for streaming.
    pub fn open_file_at(
        &self,
        id: &WorkspaceId,
        snapshot: &str,
        path: &RelPath,
    ) -> Result<OpenFile> {
        let content = self.store().read(|tx| {
            let row = crate::content::rows::open_row_in(tx, id)?;
            let found = self.contents.find_snapshot(tx, &row, snapshot)?;
            let objects = StoredObjects::new(self.store(), Some(tx));
            let entry = state_of(&found)
                .entry(&objects, path)?
                .ok_or_else(|| no_file(path))?;
            entry.id.ok_or_else(|| {
                Error::new(ErrorCode::IsADirectory, format!("`{path}` is a directory"))
            })
        })?;
        OpenFile::of(Source::of_object(&self.contents, content)?, path)
    }
}

/// What a restore will do.
struct Plan {
    /// The workspace when it was made.
    base: WorkspaceRow,
    /// Rows of ignored files that make room.
    replaced: Vec<EntryRow>,
    changes: Vec<StateChange>,
    /// Bytes before and after, change by change.
    sizes: Vec<(i64, i64)>,
    state: State,
    objects: Vec<offshoot_store::NewObject>,
    /// Directories above the restored path that come into being with it.
    new_parents: Vec<RelPath>,
    /// Directories that the target lacks and that stay because ignored files are in them, with
    /// their permission bits.
    staying: Vec<(RelPath, u32)>,
}

/// Writes a restore: entries, history and counters. The workspace must be as it was when the plan was
/// made.
fn write_plan(
    tx: &mut dyn WriteTx,
    row: &WorkspaceRow,
    plan: &Plan,
    goal: &TargetState,
    at: Timestamp,
    cause: &Cause,
) -> Result<()> {
    let before = open_row_by_key(tx, row)?;
    // A snapshot needs no lock, and one that takes ignored files changes what is tracked.
    if !is_same_index(&before, &plan.base) {
        return Err(
            Error::new(ErrorCode::WorkspaceBusy, "a snapshot was taken meanwhile")
                .with_hint("nothing was changed; try again"),
        );
    }
    let mut next = changed_row(&before, at);
    next.tree = plan.state.tree;
    next.sidecar = plan.state.sidecar;
    let line = LineTemplate {
        row: &next.clone(),
        at,
        via: goal.via,
        cause,
    };
    for object in &plan.objects {
        tx.put_object(object)?;
    }
    let mut top = line_of(&next, goal.op, cause, at);
    top.via = goal.via;
    top.path = goal.below.clone();
    top.before = goal.kept;
    top.after = goal.snapshot;
    tx.add_history(&top)?;
    for dir in &plan.new_parents {
        tx.add_history(&line.mkdir(dir))?;
    }
    let mut tally = CounterDelta::default();
    for _ in &plan.new_parents {
        tally.add(EntryKind::Dir, 0);
    }
    // An ignored file that a restored one replaces was counted already.
    for old in &plan.replaced {
        if let Some(kind) = old.kind {
            tally.remove(kind, old.size);
        }
        tx.remove_entry(before.key, &old.path)?;
    }
    for (change, (size_before, size_after)) in plan.changes.iter().zip(&plan.sizes) {
        let mut entry = line.file(op_of(change), &change.path, kind_of(change));
        entry.before = change.before.and_then(|entry| entry.id);
        entry.after = change.after.and_then(|entry| entry.id);
        entry.size = *size_after;
        tx.add_history(&entry)?;
        tally.apply(change, *size_before, *size_after);
    }
    for (path, perm) in &plan.staying {
        let mut dir = dir_row(path.clone(), next.revision);
        dir.perm = *perm;
        tx.put_entry(before.key, &dir)?;
    }
    tally.add_to(&mut next);
    put_row(tx, &before, &next)
}

/// Takes out of the changes the removal of directories that hold ignored files.
fn keep_dirs_of_ignored(
    index: &Index<'_>,
    changes: &mut Vec<StateChange>,
) -> Result<Vec<(RelPath, u32)>> {
    let mut staying = Vec::new();
    for change in &*changes {
        if let (Some(before), None) = (change.before, change.after)
            && before.kind == EntryKind::Dir
            && index.has_rows_below(&change.path)
        {
            staying.push((change.path.clone(), before.perm));
        }
    }
    changes.retain(|change| {
        staying
            .binary_search_by(|(path, _)| path.cmp(&change.path))
            .is_err()
    });
    Ok(staying)
}

/// Refuses a restore below a path that is a file now: the restore may not remove that file.
fn refuse_files_above(index: &Index<'_>, path: &RelPath) -> Result<()> {
    for above in path.dirs_above() {
        if index.entry(&above)?.is_some_and(|entry| !entry.is_dir()) {
            return Err(Error::new(
                ErrorCode::NotADirectory,
                format!("`{above}` is a file now, so nothing can be restored below it"),
            )
            .with_hint(format!("restore `{above}` instead; nothing was restored")));
        }
    }
    Ok(())
}

/// Ignored files are left alone, so a file cannot take the place of a directory that holds some.
fn refuse_obstacles(index: &Index<'_>, changes: &[StateChange]) -> Result<()> {
    for change in changes {
        let comes_as_leaf = change
            .after
            .is_some_and(|after| after.kind != EntryKind::Dir);
        if comes_as_leaf && index.has_rows_below(&change.path) {
            return Err(Error::new(
                ErrorCode::AlreadyExists,
                format!(
                    "`{}` holds ignored files, so no file can take its place",
                    change.path
                ),
            )
            .with_hint("move or delete them first; nothing was restored"));
        }
    }
    Ok(())
}

fn edit_of(change: &StateChange) -> (RelPath, StateEdit) {
    let edit = match change.after {
        Some(after) => StateEdit::Put(after),
        None => StateEdit::Remove,
    };
    (change.path.clone(), edit)
}
