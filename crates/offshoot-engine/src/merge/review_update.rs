//! Conflicts that an update of a workspace found: their reviews, and decisions about them.
//!
//! The workspace moves on all the same and has what the project has at those paths, so that merging
//! it again takes nothing back that the project got meanwhile. What it had itself is kept by the
//! review and by the snapshot before the update; a decision puts it, or something else, into the
//! workspace.

use offshoot_core::{Cause, Error, ErrorCode, RelPath, Result};
use offshoot_git::ObjectReader;
use offshoot_merge::Conflict;
use offshoot_store::{ForkRow, HistoryOp, ReadTx, ReviewRow, Via, WorkspaceRow, WorkspaceState};

use crate::content::index::Index;
use crate::content::objects::PendingObjects;
use crate::content::rows::{base_state, open_row_by_key, state_of_row};
use crate::content::state::{State, StateChange};
use crate::merge::Merges;
use crate::merge::authors::Authors;
use crate::merge::complete::PendingConflict;
use crate::merge::review_close::{asked_by_merges, closed_by_update, still_waiting};
use crate::merge::review_decision::CheckedResolution;
use crate::merge::review_row::{
    ChangedPaths, ConflictContext, Decision, KnownReviews, LandsIn, mark_resolved, new_review,
};
use crate::merge::three_way::ThreeStates;
use crate::workspace::restore::TargetState;

/// What an update cannot decide.
pub(crate) struct UpdateReviews {
    /// One for each conflict.
    pub(crate) waiting: Vec<PendingConflict>,
    /// Those that it opens or goes on with. A conflict that a merge asks about already has none.
    pub(crate) opened: Vec<ReviewRow>,
    /// Those that close by themselves.
    pub(crate) closed: Vec<ReviewRow>,
}

/// The reviews of what an update cannot decide, and those that close with it.
pub(crate) fn reviews_of_update(
    tx: &dyn ReadTx,
    objects: &dyn ObjectReader,
    (conflicts, changes): (&[Conflict], &[StateChange]),
    fork: &ForkRow,
    sides: (&WorkspaceRow, &State),
    project: &WorkspaceRow,
) -> Result<UpdateReviews> {
    let (row, theirs) = sides;
    let known = KnownReviews::read(tx, row.key)?;
    let changes = ChangedPaths::new(changes);
    let head = state_of_row(project);
    let context = ConflictContext {
        project,
        ours: &head,
        objects,
        row,
        changes: &changes,
        waiting: &still_waiting(tx, objects, &known, LandsIn::Workspace, theirs)?,
        base: fork.base,
        since: None,
        // The state before an update is its newest snapshot.
        snapshot: row.head,
        merge: "",
        lands_in: LandsIn::Workspace,
    };
    let base = base_state(fork);
    let states = ThreeStates {
        base: &base,
        ours: &head,
        theirs,
    };
    let authors = Authors::new(tx, objects, project, (row, fork), states, None);
    let asked = asked_by_merges(tx, objects, &known, theirs)?;
    let (mut waiting, mut found, mut opened) = (Vec::new(), Vec::new(), Vec::new());
    for conflict in conflicts {
        let review = match asked.get(&conflict.path) {
            Some(&review) => review.clone(),
            None => {
                let by = authors.sides(conflict)?.attributions();
                let review = new_review(conflict, &context, by, false)?;
                opened.push(review.clone());
                review
            }
        };
        waiting.push(PendingConflict::new(conflict, &review));
        found.push(review);
    }
    let closed = closed_by_update(tx, objects, &known, &changes, &head, &found)?;
    Ok(UpdateReviews {
        waiting,
        opened,
        closed,
    })
}

impl Merges {
    /// Brings a decision into the workspace whose update found the conflict.
    pub(crate) fn decide_in_workspace(
        &self,
        review: &ReviewRow,
        resolution: &CheckedResolution,
        decision: &Decision,
        cause: &Cause,
    ) -> Result<()> {
        let row = self
            .store()
            .read(|tx| tx.workspace_by_key(review.workspace))?
            .filter(|row| row.state == WorkspaceState::Open)
            .ok_or_else(|| {
                Error::new(
                    ErrorCode::WorkspaceNotFound,
                    "the workspace that the decision is for was deleted",
                )
                .with_hint("its files are kept: `offshoot workspace create --from SNAP`")
            })?;
        let (row, _lock) = self.sync.lock_exclusively(&row.id)?;
        let kept = self
            .workspaces
            .keep_last_state(&row, "before a decision", cause)?;
        let (state, objects) = self.store().read(|tx| {
            let now = open_row_by_key(tx, &row)?;
            let index = Index::new(self.store(), tx, &now);
            let base = index.base();
            let proposal = self.edits_of_decision(&index.objects, &base, review, resolution)?;
            let mut bench = PendingObjects::new(&index.objects);
            let state = base.edit(&mut bench, &proposal.edits)?;
            let mut objects = bench.prepare(self.store())?;
            objects.extend(proposal.contents);
            Ok((state, objects))
        })?;
        // The content has to be readable to be written to the directory; garbage collection leaves
        // it alone while it is young.
        self.store()
            .write(offshoot_store::Durability::Relaxed, |tx| {
                objects
                    .iter()
                    .try_for_each(|object| tx.put_object(object).map(drop))
            })?;
        let goal = TargetState {
            state,
            below: RelPath::root(),
            op: HistoryOp::ReviewResolve,
            via: Via::Merge,
            kept,
            snapshot: None,
        };
        self.workspaces
            .move_to_state(&row, &goal, cause, |tx| {
                mark_resolved(tx, review, resolution, decision, None)
            })
            .map(drop)
    }
}
