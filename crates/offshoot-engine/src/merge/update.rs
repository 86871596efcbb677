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

use offshoot_core::{
    Cause, ChangeSet, Error, ErrorCode, ObjectId, ProjectId, RelPath, Result, WorkspaceId,
};
use offshoot_merge::MergeOptions;
use offshoot_store::{ForkRow, ReadTx, ReviewRow, SnapshotRow, WorkspaceKind, WorkspaceRow};

use crate::content::change_set::change_set;
use crate::content::index::Index;
use crate::content::objects::PendingObjects;
use crate::content::rows::{
    fork_row, open_row_by_key, project_name, size_of, state_of, state_of_row,
};
use crate::content::state::{State, StateChange};
use crate::merge::Merges;
use crate::merge::base::{base_without_undone, merged_from_here, merged_state};
use crate::merge::complete::PendingConflict;
use crate::merge::review_update::reviews_of_update;
use crate::merge::three_way::{ThreeStates, merge_states};
use crate::merge::update_dir::PathFingerprint;

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

/// An update that is worked out and not yet carried out.
pub(super) struct UpdatePlan {
    pub(super) fork: ForkRow,
    pub(super) project: ProjectId,
    pub(super) head: SnapshotRow,
    pub(super) desired: State,
    pub(super) objects: Vec<offshoot_store::NewObject>,
    /// What changes in the workspace, with bytes before and after.
    pub(super) changes: Vec<(StateChange, i64, i64)>,
    /// What the directory holds beyond the new layers.
    pub(super) beyond: Vec<StateChange>,
    pub(super) merged: Vec<RelPath>,
    pub(super) conflicts: Vec<PendingConflict>,
    pub(super) reviews: Vec<ReviewRow>,
    /// Reviews that close by themselves.
    pub(super) closed: Vec<ReviewRow>,
}

impl Merges {
    /// Moves a fork onto the newest snapshot of its project. Paths that both changed are merged;
    /// one that needs a decision gets a review and, until then, what the project has.
    pub fn update(&self, id: &WorkspaceId, dry_run: bool, cause: &Cause) -> Result<Updated> {
        self.context.require_space()?;
        let (row, _lock) = self.sync.lock_exclusively(id)?;
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
        let synced = self.sync.sync_locked(&row, false)?;
        let plan = || {
            self.store().read(|tx| {
                let merged = merged_from_here(tx, &fork_row(tx, &row)?)?;
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
        let (row, _lock) = self.sync.lock_exclusively(id)?;
        self.directories.refuse_unfinished_git(&row)?;
        let fingerprints = self.fingerprints_on_disk(&row)?;
        let synced = self.sync.sync_locked(&row, false)?;
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
    ) -> Result<Option<UpdatePlan>> {
        let row = open_row_by_key(tx, row)?;
        let fork = fork_row(tx, &row)?;
        let Some((project, head)) = head_ahead(tx, &fork)? else {
            return Ok(None);
        };
        let index = Index::new(self.store(), tx, &row).with_rows()?;
        let mut bench = PendingObjects::new(&index.objects);
        let theirs = index
            .base()
            .edit(&mut bench, &index.plan_snapshot(false)?.edits)?;
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
        Ok(Some(UpdatePlan {
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
        plan: &UpdatePlan,
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
            let _ = self.directories.ensure_mounted(&row);
            return Err(error);
        }
        let fork = self.store().read(|tx| fork_row(tx, &row))?;
        self.directories.finish_update(&row, &fork)?;
        self.directories.ensure_mounted(&row)
    }
}

impl UpdatePlan {
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

/// The error about an ignored path where the project has something else.
pub(super) fn ignored_in_the_way(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::AlreadyExists,
        format!("the project now has `{path}`, where ignored files of the workspace are"),
    )
    .with_hint("move or delete them first; nothing was updated")
}
