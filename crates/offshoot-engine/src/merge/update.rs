//! Moving a fork onto a newer snapshot of its project.
//!
//! The changes of a fork are relative to its layers, so they cannot simply be shown on other ones: a
//! file that was copied up without a change would undo other people's work. A fresh directory is
//! made on the new layers, what the fork changed is written into it, and it takes the place of the
//! old one. The order makes it safe to be killed at any point:
//!
//! 1. The new directory is made and filled aside. Until the commit no row names it.
//! 2. The old one is closed, so that nobody changes it any more; if it is in use, nothing happens.
//! 3. The commit says that the new one is the fork's.
//! 4. Ignored files, which the store does not hold, move over; then the old one goes. This can be
//!    done again and again until it is done ([`Directories::finish_update`](crate::Directories::finish_update)).

use std::collections::HashSet;

use offshoot_core::{
    Cause, ChangeSet, EntryKind, Error, ErrorCode, ObjectId, ProjectId, RelPath, Result,
    WorkspaceId,
};
use offshoot_fs::{ForkDirs, Provider, SafeDir};
use offshoot_merge::MergeOptions;
use offshoot_store::{
    Durability, EntryRow, ForkRow, HistoryOp, ReadTx, ReviewRow, SnapshotRow, Via, WorkspaceKind,
    WorkspaceRow, WriteTx,
};

use crate::content::change_set::{change_set, kind_of, op_of, topmost};
use crate::content::counters::Tally;
use crate::content::draft::is_same;
use crate::content::history_writer::{LineFor, changed_row};
use crate::content::index::{Entry, Index, missing_of, new_dir_rows};
use crate::content::objects::Workbench;
use crate::content::rows::{
    fork_row, open_row_by_key, project_name, size_of, state_of, state_of_row,
};
use crate::content::state::{State, StateChange};
use crate::content::workspace_row::{line_of, put_row};
use crate::directory::fork_dir::Rows;
use crate::directory::layers::Stack;
use crate::directory::replacement::write_note;
use crate::formats::UpdateNote;
use crate::merge::Merges;
use crate::merge::base::{base_without_undone, merged_from_here, merged_state};
use crate::merge::complete::PendingConflict;
use crate::merge::review_update::reviews_of_update;
use crate::merge::three_way::{ThreeStates, merge_states};
use crate::sync::fork::{Closed, leaves_out_dirs};
use crate::workspace::snapshot::FoldedRows;

/// What an update did, or would do.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The base before.
    pub from: ObjectId,
    /// The base now: the head of the project.
    pub to: ObjectId,
    /// The snapshot that holds the state before; none if nothing was done.
    pub kept: Option<ObjectId>,
    /// What changed in the workspace.
    pub changes: ChangeSet,
    /// Paths that both the project and the workspace changed, and that were put together.
    pub merged: Vec<RelPath>,
    /// Paths that both changed so that somebody has to decide. The workspace has what the project
    /// has there, and each has a review that keeps what the workspace had.
    pub conflicts: Vec<PendingConflict>,
}

/// A path that differs from the layers with the fingerprint of its file; none if it is gone.
type PathFingerprint = (RelPath, Option<(u64, u64, u32, i128)>);

struct Plan {
    fork: ForkRow,
    project: ProjectId,
    head: SnapshotRow,
    desired: State,
    objects: Vec<offshoot_store::NewObject>,
    /// What changes in the workspace, with bytes before and after.
    changes: Vec<(StateChange, i64, i64)>,
    /// What the directory holds beyond the new layers.
    beyond: Vec<StateChange>,
    merged: Vec<RelPath>,
    conflicts: Vec<PendingConflict>,
    reviews: Vec<ReviewRow>,
    /// Reviews that close by themselves.
    closed: Vec<ReviewRow>,
}

impl Merges {
    /// Moves a fork onto the newest snapshot of its project. Paths that both changed are merged;
    /// one that needs a decision gets a review and, until then, what the project has.
    pub fn update(&self, id: &WorkspaceId, dry_run: bool, cause: &Cause) -> Result<Updated> {
        self.context.require_space()?;
        let (row, _lock) = self.sync.hold_alone(id)?;
        if row.kind != WorkspaceKind::Fork {
            return Err(Error::invalid(format!("`{id}` is no fork"))
                .with_hint("only forks of a project have a base to move"));
        }
        self.directories.refuse_unfinished_git(&row)?;
        let project = self
            .store()
            .read(|tx| project_name(tx, &fork_row(tx, &row)?))?;
        self.projects.clear_earlier_merges(&project)?;
        let fingerprints = self.fingerprints_on_disk(&row)?;
        let synced = self.sync.sync_held(&row, false, cause)?;
        let plan = || {
            self.store().read(|tx| {
                let merged = merged_from_here(tx, &row)?;
                self.plan_update(tx, &row, merged.as_ref())
            })
        };
        if dry_run && let Some(plan) = plan()? {
            return Ok(plan.answer(None));
        }
        let base = self.store().read(|tx| {
            let fork = fork_row(tx, &row)?;
            Ok(head_ahead(tx, &fork)?.is_none().then_some(fork.base))
        })?;
        if let Some(base) = base {
            return Ok(Updated {
                from: base,
                to: base,
                kept: None,
                changes: ChangeSet::default(),
                merged: Vec::new(),
                conflicts: Vec::new(),
            });
        }
        if let Some(file) = synced.too_large.first() {
            return Err(file.refuse());
        }
        synced.refuse_unrecorded()?;
        let kept = self
            .workspaces
            .keep_last_state(&row, "before update", cause)?;
        let Some(plan) = plan()? else {
            return Err(Error::internal("the plan of an update is gone"));
        };
        self.move_base(&row, &plan, &synced.ignored, fingerprints, kept, cause)?;
        Ok(plan.answer(kept))
    }

    /// Moves a fork that was merged onto the head of its project, with what it changed since that
    /// merge. Where a conflict of the merge waits for a decision, the fork takes what the project
    /// has: its own is kept by the review. Stays where it is if what it changed since conflicts, or if
    /// it holds a file that is too large to be kept. Returns whether it stands on the head.
    pub(crate) fn move_onto_head(
        &self,
        id: &WorkspaceId,
        merged: Option<ObjectId>,
        cause: &Cause,
    ) -> Result<bool> {
        let (row, _lock) = self.sync.hold_alone(id)?;
        self.directories.refuse_unfinished_git(&row)?;
        let fingerprints = self.fingerprints_on_disk(&row)?;
        let synced = self.sync.sync_held(&row, false, cause)?;
        let plan = self
            .store()
            .read(|tx| self.plan_update(tx, &row, merged.as_ref()))?;
        let Some(plan) = plan else {
            return Ok(true);
        };
        // The directory that it would move to has no copy of these.
        if let Some(file) = synced.too_large.first() {
            return Err(file.refuse());
        }
        synced.refuse_unrecorded()?;
        if !plan.conflicts.is_empty() {
            return Err(Error::new(
                ErrorCode::MergeConflict,
                "what the workspace changed since the merge conflicts with the project",
            ));
        }
        let kept = self
            .workspaces
            .keep_last_state(&row, "before update", cause)?;
        self.move_base(&row, &plan, &synced.ignored, fingerprints, kept, cause)?;
        Ok(true)
    }

    /// `merged` is a snapshot of the workspace that the project has already.
    fn plan_update(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        merged: Option<&ObjectId>,
    ) -> Result<Option<Plan>> {
        let row = open_row_by_key(tx, row)?;
        let fork = fork_row(tx, &row)?;
        let Some((project, head)) = head_ahead(tx, &fork)? else {
            return Ok(None);
        };
        let index = Index::new(self.store(), tx, &row).with_rows()?;
        let mut bench = Workbench::new(&index.objects);
        let theirs = index
            .base()
            .edit(&mut bench, &index.pending(false)?.edits)?;
        let ours = state_of_row(&project);
        // What the merge left out is the workspace's own and stays in it.
        let base = base_without_undone(tx, &mut bench, &fork)?;
        let since = merged_state(tx, &mut bench, &row, &base, merged)?.unwrap_or(base);
        let states = ThreeStates {
            base: &since,
            ours: &ours,
            theirs: &theirs,
        };
        let merge = merge_states(self.store(), &bench, states, &MergeOptions::default())?;
        let contents: std::collections::HashMap<ObjectId, i64> = merge
            .proposal
            .contents
            .iter()
            .map(|object| (object.id(), object.size() as i64))
            .collect();
        let desired = ours.edit(&mut bench, &merge.proposal.edits)?;
        let size = |entry: &Option<crate::StateEntry>| match entry {
            None => Ok(0),
            Some(entry) => match entry.id.and_then(|id| contents.get(&id)) {
                Some(size) => Ok(*size),
                None => size_of(tx, entry),
            },
        };
        let mut changes = Vec::new();
        for change in theirs.diff(&bench, &desired, &RelPath::root())? {
            let (before, after) = (size(&change.before)?, size(&change.after)?);
            changes.push((change, before, after));
        }
        let beyond = ours.diff(&bench, &desired, &RelPath::root())?;
        let sides = (&row, &theirs);
        let found = (&merge.conflicts[..], &merge.theirs[..]);
        let reviews = reviews_of_update(tx, &bench, found, &fork, sides, &project)?;
        let mut objects = bench.prepare(self.store())?;
        objects.extend(merge.proposal.contents);
        let auto = merge.auto_resolved.iter().map(|one| one.path.clone());
        Ok(Some(Plan {
            project: project_name(tx, &fork)?,
            merged: auto.collect(),
            conflicts: reviews.waiting,
            reviews: reviews.opened,
            closed: reviews.closed,
            fork,
            head,
            desired,
            objects,
            changes,
            beyond,
        }))
    }

    /// Carries out a plan. The caller holds the exclusive lock.
    fn move_base(
        &self,
        row: &WorkspaceRow,
        plan: &Plan,
        ignored: &[RelPath],
        fingerprints: Vec<PathFingerprint>,
        kept: Option<ObjectId>,
        cause: &Cause,
    ) -> Result<()> {
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        if !row.materialized {
            return self.commit_update(&row, plan, None, kept, cause);
        }
        let name = plan.fork.provider.as_deref().unwrap_or("copy");
        let provider = self.directories.provider_that_made(name.parse()?)?;
        let mut moved = plan.fork.clone();
        (moved.base, moved.base_tree) = (plan.head.id, plan.head.tree);
        let stack = self
            .directories
            .stack_for_fork(&moved, state_of(&plan.head))?;
        let old = self.directories.fork_dirs(&row, plan.fork.place);
        let next = self.directories.next_dirs(&row, &plan.fork);
        let committed = self
            .fill_next(&row, plan, &*provider, &stack, &next, ignored)
            .and_then(|()| provider.close(&next))
            .and_then(|()| provider.close(&old))
            .and_then(|()| self.refuse_late_changes(&row, fingerprints, ignored))
            .and_then(|()| self.commit_update(&row, plan, Some(&stack), kept, cause));
        if let Err(error) = committed {
            let _ = provider.cleanup(&next);
            let _ = self.directories.ensure_fork(&row);
            return Err(error);
        }
        let fork = self.store().read(|tx| fork_row(tx, &row))?;
        self.directories.finish_update(&row, &fork)?;
        self.directories.ensure_fork(&row)
    }

    /// What differs from the layers of a fork right now, and when each was last touched. Directories
    /// that the ignore rules leave out are not looked into.
    fn fingerprints_on_disk(&self, row: &WorkspaceRow) -> Result<Vec<PathFingerprint>> {
        let Ok(dir) = self
            .directories
            .open_dir(&self.context.data.workspace(&row.id))
        else {
            return self.fingerprints_now(row, &mut |_, _| false);
        };
        let dir = dir.following_no_links();
        let mut fingerprints = Vec::new();
        self.store().read(|tx| {
            let index = Index::new(self.store(), tx, row);
            leaves_out_dirs(&index, &dir, |closed| {
                fingerprints = self.fingerprints_now(row, closed)?;
                Ok(())
            })
        })?;
        Ok(fingerprints)
    }

    fn fingerprints_now(
        &self,
        row: &WorkspaceRow,
        closed: Closed<'_>,
    ) -> Result<Vec<PathFingerprint>> {
        if !row.materialized {
            return Ok(Vec::new());
        }
        let fork = self.store().read(|tx| fork_row(tx, row))?;
        let stack = self
            .directories
            .stack_of(fork.project, fork.layer.unwrap_or_default())?;
        let provider = self
            .directories
            .provider_that_made(fork.provider.as_deref().unwrap_or("copy").parse()?)?;
        let dirs = self.directories.fork_dirs(row, fork.place);
        let walked = provider.changes_pruned(&stack.layers, &dirs, closed)?;
        let fingerprints = |one: offshoot_fs::Difference| {
            let now = one.now;
            let stamp = now.map(|now| (now.ino, now.size, now.perm, now.ctime_ns));
            (one.path, stamp)
        };
        Ok(walked.differences.into_iter().map(fingerprints).collect())
    }

    /// Refuses to leave a directory behind that changed after it was synced: nothing would keep
    /// these changes. The directory is closed by now, so it cannot change any more. Ignored files
    /// are moved as they are then, so a build may have gone on writing them.
    fn refuse_late_changes(
        &self,
        row: &WorkspaceRow,
        mut fingerprints: Vec<PathFingerprint>,
        ignored: &[RelPath],
    ) -> Result<()> {
        let ignored: HashSet<&RelPath> = ignored.iter().collect();
        let follows = |path: &RelPath| {
            let mut above = std::iter::successors(Some(path.clone()), RelPath::parent);
            above.any(|one| ignored.contains(&one))
        };
        let mut now = self.fingerprints_now(row, &mut |path, _| ignored.contains(path))?;
        fingerprints.retain(|(path, _)| !follows(path));
        now.retain(|(path, _)| !follows(path));
        if now == fingerprints {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::WorkspaceBusy,
            format!("`{}` was changed during the update", row.id),
        )
        .with_hint("nothing was updated; try again when nobody writes to it"))
    }

    /// Makes the new directory aside and writes into it what the fork holds beyond its new base.
    fn fill_next(
        &self,
        row: &WorkspaceRow,
        plan: &Plan,
        provider: &dyn Provider,
        stack: &Stack,
        next: &ForkDirs,
        ignored: &[RelPath],
    ) -> Result<()> {
        self.directories.clear_next(next)?;
        // Merged content has to be readable to be written; garbage collection leaves it alone while
        // it is young.
        self.store().write(Durability::Relaxed, |tx| {
            plan.objects
                .iter()
                .try_for_each(|object| tx.put_object(object).map(drop))
        })?;
        let rows = (row, &plan.fork, Rows::InNote);
        self.directories
            .make_fork(provider, stack, next, rows, &plan.project)?;
        if plan.fork.git {
            self.directories
                .write_index_of_copy(provider, stack, next, plan.head.id)?;
        }
        let dir = self
            .directories
            .open_dir(&next.target)?
            .following_no_links();
        self.directories.project_changes(&dir, &plan.beyond)?;
        let known = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let pending = Index::new(self.store(), tx, &now).pending(false)?;
            Ok(pending
                .ignored
                .into_iter()
                .map(|row| row.path)
                .collect::<Vec<_>>())
        })?;
        let mut carry: Vec<RelPath> = known.into_iter().chain(ignored.iter().cloned()).collect();
        carry.sort();
        carry.dedup();
        let carry = topmost(carry.into_iter());
        for path in &carry {
            self.make_way(&dir, path)?;
        }
        let note = UpdateNote {
            target: next.target.clone(),
            carry: carry.iter().map(RelPath::to_text).collect(),
            git_from: plan.fork.git.then(|| plan.fork.base.to_hex()),
        };
        write_note(&next.private, &note)
    }

    /// Makes the directory above an ignored path a private one of the new directory.
    fn make_way(&self, dir: &SafeDir, path: &RelPath) -> Result<()> {
        if dir.stat(path)?.is_some() {
            return Err(ignored_in_the_way(path));
        }
        let above = path.parent().unwrap_or_default();
        if !above.is_root() {
            dir.mkdir_all(&above, offshoot_core::DEFAULT_DIR_PERM)?;
        }
        // An overlay copies a directory of the layers only when something is made in it.
        dir.write(path, b"", 0o600, offshoot_fs::Sync::None)?;
        dir.remove_file(path)
    }

    fn commit_update(
        &self,
        row: &WorkspaceRow,
        plan: &Plan,
        stack: Option<&Stack>,
        kept: Option<ObjectId>,
        cause: &Cause,
    ) -> Result<()> {
        let at = self.context.now();
        let (then, folded, ignored) = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let pending = Index::new(self.store(), tx, &now)
                .with_rows()?
                .pending(false)?;
            Ok((now, FoldedRows::new(&pending), pending.ignored))
        })?;
        self.store().write(Durability::Synced, |tx| {
            let before = open_row_by_key(tx, row)?;
            let mut fork = fork_row(tx, &before)?;
            if before.revision != row.revision
                || !is_same(&before, &then)
                || fork.place != plan.fork.place
            {
                return Err(Error::new(
                    ErrorCode::WorkspaceBusy,
                    "the workspace was changed during the update",
                )
                .with_hint("nothing was updated; try again"));
            }
            for object in &plan.objects {
                tx.put_object(object)?;
            }
            let mut next = changed_row(&before, at);
            next.tree = plan.desired.tree;
            next.sidecar = plan.desired.sidecar;
            folded.remove(tx, before.key)?;
            let mut tally = record_update(tx, plan, &next, kept, cause)?;
            let line = LineFor {
                row: &next,
                at,
                via: Via::Update,
                cause,
            };
            let above = self.dirs_above_ignored(tx, &next, &ignored)?;
            for dir in &above {
                tally.put(None, dir)?;
                tx.put_entry(before.key, dir)?;
                tx.add_history(&line.mkdir(&dir.path))?;
            }
            tally.add_to(&mut next);
            for review in &plan.closed {
                tx.put_review(review)?;
            }
            for review in &plan.reviews {
                tx.put_review(review)?;
                let line = LineFor {
                    row: &next,
                    at,
                    via: Via::Update,
                    cause,
                };
                let mut opened = line.file(HistoryOp::ReviewOpen, &review.path, EntryKind::File);
                opened.before = review.theirs;
                tx.add_history(&opened)?;
            }
            fork.base = plan.head.id;
            fork.base_tree = plan.head.tree;
            fork.base_sidecar = plan.head.sidecar;
            if let Some(stack) = stack {
                if tx.layer(stack.top)?.is_none() {
                    return Err(Error::new(
                        ErrorCode::WorkspaceBusy,
                        "the layers of the project changed during the update",
                    )
                    .with_hint("nothing was updated; try again"));
                }
                fork.layer = Some(stack.top);
                fork.place += 1;
            }
            tx.put_fork(&fork)?;
            put_row(tx, &before, &next)
        })
    }

    /// The directories above ignored entries that the project has no more. What it has at the path
    /// of one, or as a file above it, is in the way.
    fn dirs_above_ignored(
        &self,
        tx: &dyn ReadTx,
        next: &WorkspaceRow,
        ignored: &[EntryRow],
    ) -> Result<Vec<EntryRow>> {
        let index = Index::new(self.store(), tx, next).remembering();
        let mut above = Vec::new();
        for row in ignored {
            if index.shown_by_base(&row.path)?.is_some() {
                return Err(ignored_in_the_way(&row.path));
            }
            let parent = index.entry(&row.path.parent().unwrap_or_default())?;
            if parent.is_some_and(|parent| parent.is_dir()) {
                continue;
            }
            let steps = index.steps(&row.path)?;
            let is_file = |there: Option<Entry>| there.is_some_and(|there| !there.is_dir());
            let dirs = &steps[1..steps.len() - 1];
            if let Some((place, _)) = dirs.iter().find(|(_, there)| is_file(*there)) {
                return Err(ignored_in_the_way(place));
            }
            for dir in new_dir_rows(&index, &missing_of(&steps)?, next.revision)? {
                index.draft(&dir.path, Some(dir.clone()));
                above.push(dir);
            }
        }
        Ok(above)
    }
}

impl Plan {
    fn answer(&self, kept: Option<ObjectId>) -> Updated {
        let mut conflicts = self.conflicts.clone();
        if kept.is_none() {
            conflicts.iter_mut().for_each(|one| one.review_id = None);
        }
        let changes: Vec<StateChange> = self.changes.iter().map(|one| one.0.clone()).collect();
        Updated {
            from: self.fork.base,
            to: self.head.id,
            kept,
            changes: change_set(&changes),
            merged: self.merged.clone(),
            conflicts,
        }
    }
}

/// The project of a fork and its newest snapshot, if the fork does not stand on that.
fn head_ahead(tx: &dyn ReadTx, fork: &ForkRow) -> Result<Option<(WorkspaceRow, SnapshotRow)>> {
    let project = tx
        .workspace_by_key(fork.project)?
        .ok_or_else(|| Error::internal("the project of a fork is gone"))?;
    let head = match project.head {
        Some(head) if head != fork.base => tx.snapshot(project.key, &head)?,
        _ => None,
    };
    Ok(head.map(|head| (project, head)))
}

fn record_update(
    tx: &mut dyn WriteTx,
    plan: &Plan,
    next: &WorkspaceRow,
    kept: Option<ObjectId>,
    cause: &Cause,
) -> Result<Tally> {
    let at = next.changed_at;
    let mut top = line_of(next, HistoryOp::Update, cause, at);
    top.via = Via::Update;
    top.before = kept;
    top.after = Some(plan.head.id);
    tx.add_history(&top)?;
    let line = LineFor {
        row: next,
        at,
        via: Via::Update,
        cause,
    };
    let mut tally = Tally::default();
    for (change, size_before, size_after) in &plan.changes {
        let mut entry = line.file(op_of(change), &change.path, kind_of(change));
        entry.before = change.before.and_then(|entry| entry.id);
        entry.after = change.after.and_then(|entry| entry.id);
        entry.size = *size_after;
        tx.add_history(&entry)?;
        tally.change(change, *size_before, *size_after);
    }
    Ok(tally)
}

fn ignored_in_the_way(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::AlreadyExists,
        format!("the project now has `{path}`, where ignored files of the workspace are"),
    )
    .with_hint("move or delete them first; nothing was updated")
}
