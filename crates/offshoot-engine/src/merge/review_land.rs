//! Landing what was decided about reviews, and with it the rest of a merge that lands whole.
//!
//! Such a merge waits for the last of its conflicts. That one may be decided, or it may be settled by
//! itself when the project comes to agree. However it ends, the merge lands then; if that could not be
//! done, it lands when its workspace is completed again or somebody asks for the review again.

use std::cell::RefCell;
use std::collections::BTreeSet;

use offshoot_core::{Cause, Error, ErrorCode, ObjectId, Operator, ProjectId, RelPath, Result};
use offshoot_git::ObjectReader;
use offshoot_merge::{Conflict, Edit, MergeOptions};
use offshoot_store::{
    Durability, HistoryOp, MergeRow, ReadTx, ReviewRow, ReviewState, Via, WorkspaceKey,
    WorkspaceRow, WorkspaceState, WriteTx,
};

use crate::content::credit::{Author, WorkOf};
use crate::content::left_out::{git_refuses_any, without_left_out};
use crate::content::objects::{PendingObjects, StoredObjects};
use crate::content::rows::{agent_of, state_of_row};
use crate::content::state::State;
use crate::content::workspace_row::line_of;
use crate::formats;
use crate::merge::Merges;
use crate::merge::authors::Authors;
use crate::merge::complete::receipt;
use crate::merge::fork_commits::{forget_kept, kept_for_landing};
use crate::merge::policy_decision::decide;
use crate::merge::protect::known_paths;
use crate::merge::review_decision::{CheckedResolution, choice_named};
use crate::merge::review_row::{Decision, details_of, find_review, mark_resolved, refuse_other};
use crate::merge::three_way::{ThreeStates, merge_into_project, state_edits};
use crate::project::head::{ChangeRecord, ProjectDraft, Proposal};
use crate::project::link::pulled_commit;
use crate::project::policy::{MergeSettings, settings_row};
use crate::project::protection::Protection;
use crate::workspace::snapshot::Snapshot;

/// A review, what was decided about it, and who did.
pub(crate) type DecidedReview = (ReviewRow, CheckedResolution, Decision);

/// Decisions that land together, and the merge whose rest lands with them.
pub(crate) struct LandingRequest<'a> {
    pub(crate) decided: &'a [DecidedReview],
    /// The merge whose rest waited for the decisions.
    pub(crate) merge: Option<&'a MergeRow>,
    pub(crate) cause: &'a Cause,
}

/// A merge whose conflicts have all ended, with the decisions about them.
struct ReadyMerge {
    merge: MergeRow,
    decided: Vec<ReviewRow>,
    /// Whether the workspace still is as it was merged; if not, it brings the rest itself.
    is_last: bool,
}

impl Merges {
    /// Lands the merges of a workspace whose conflicts are all decided or have settled by
    /// themselves.
    pub(crate) fn land_finished_merges(&self, workspace: WorkspaceKey) -> Result<Option<MergeRow>> {
        let (ready, last) = self.store().read(|tx| ready_to_land(tx, workspace))?;
        if ready.is_empty() {
            return Ok(last);
        }
        for ready in ready {
            let cause = self.store().read(|tx| cause_of_merge(tx, &ready.merge))?;
            let decided = self.as_decided(ready.decided)?;
            self.land(&LandingRequest {
                decided: &decided,
                merge: Some(&ready.merge).filter(|_| ready.is_last),
                cause: &cause,
            })?;
        }
        self.store().read(|tx| tx.last_merge(workspace))
    }

    /// Decided reviews with what was decided about them.
    pub(crate) fn as_decided(&self, reviews: Vec<ReviewRow>) -> Result<Vec<DecidedReview>> {
        let as_decided = |review: ReviewRow| {
            let decision = details_of(&review)?
                .decision
                .ok_or_else(|| Error::internal("a decided review has no decision"))?;
            let resolution = match (decision.content, &decision.parts) {
                (Some(content), _) => self.resolution_with_content(content)?,
                (None, Some(parts)) => CheckedResolution::Parts(parts.clone()),
                (None, None) => CheckedResolution::Choice(choice_named(&decision.choice)?),
            };
            Ok((review, resolution, decision))
        };
        reviews.into_iter().map(as_decided).collect()
    }

    /// Whether a workspace still is where it was merged. One that was updated or merged again since
    /// brings what it has by itself.
    pub(crate) fn is_last_merge(&self, merge: &MergeRow) -> Result<bool> {
        self.store().read(|tx| is_last_merge(tx, merge))
    }

    /// Brings decisions into the project, and with them the rest of a merge that waited for them.
    /// A decision that does not fit any more is taken back, and its review is open again.
    pub(crate) fn land(&self, landing: &LandingRequest<'_>) -> Result<Option<Snapshot>> {
        let unfit: RefCell<Option<&ReviewRow>> = RefCell::new(None);
        let landed = self.try_to_land(landing, &unfit);
        let (Err(error), Some(review)) = (&landed, unfit.into_inner()) else {
            return landed;
        };
        // A decision that was never stored is refused, and nothing has to be taken back.
        if !is_about_the_decision(error) || review.state != ReviewState::Decided {
            return landed;
        }
        self.reopen(review)?;
        Err(Error::new(
            error.code(),
            format!(
                "what was decided about `{}` does not fit any more: {error}",
                review.path
            ),
        )
        .with_hint(format!(
            "the review `{}` is open again; decide it, and the merge lands",
            review.id
        )))
    }

    /// See [`Merges::land`]. Notes which review cannot be decided as it was.
    fn try_to_land<'r>(
        &self,
        landing: &LandingRequest<'r>,
        unfit: &RefCell<Option<&'r ReviewRow>>,
    ) -> Result<Option<Snapshot>> {
        let LandingRequest {
            decided,
            merge,
            cause,
        } = *landing;
        let of_review = decided.first().map(|(review, ..)| review.project);
        let Some(key) = of_review.or(merge.map(|merge| merge.project)) else {
            return Ok(None);
        };
        let project = self.store().read(|tx| {
            let row = tx.workspace_by_key(key)?;
            row.ok_or_else(|| Error::internal("the project of a review is gone"))
        })?;
        let project_id: ProjectId = project.id.as_str().parse()?;
        let label = label_of(decided, merge)?;
        let (parents, author, work) = self.store().read(|tx| {
            let work = work_of(tx, decided, merge)?;
            let mut parents: Vec<ObjectId> = pulled_by(tx, merge)?.into_iter().collect();
            if let Some(merge) = merge {
                parents.extend(kept_for_landing(tx, merge.project, merge.workspace)?);
            }
            Ok((parents, author_of(tx, key, decided, work.as_ref())?, work))
        })?;
        let record = ChangeRecord {
            label: &label,
            author,
            work,
            further_parents: &parents,
            op: match decided.is_empty() {
                true => HistoryOp::Merge,
                false => HistoryOp::ReviewResolve,
            },
            via: Via::Merge,
            cause,
            at: self.context.now(),
        };
        let make = |objects: &StoredObjects<'_>, head: &State| {
            let mut proposal = Proposal::default();
            if let Some(merge) = merge {
                proposal = self.rest_of_merge(objects, head, merge)?;
            }
            for one in decided {
                let more = self.decided_edits(objects, head, &project_id, one);
                let more = more.inspect_err(|_| *unfit.borrow_mut() = Some(&one.0))?;
                proposal.edits.extend(more.edits);
                proposal.contents.extend(more.contents);
            }
            Ok(proposal)
        };
        let mark = |tx: &mut dyn WriteTx, draft: Option<&ProjectDraft>| -> Result<()> {
            let snapshot = draft.map(|draft| draft.snapshot.id);
            for (review, resolution, decision) in decided {
                mark_resolved(tx, review, resolution, decision, snapshot)?;
            }
            let Some(merge) = merge else { return Ok(()) };
            forget_kept(tx, merge.project, merge.workspace)?;
            mark_landed(tx, merge, draft)
        };
        let (snapshot, created) =
            self.projects
                .change_project(&project_id, &record, make, |tx, draft| {
                    mark(tx, Some(draft))
                })?;
        if created {
            return Ok(Some(snapshot));
        }
        // The project has it already: the decision is recorded all the same.
        let line = line_of(&project, record.op, cause, record.at);
        self.store().write(Durability::Synced, |tx| {
            mark(tx, None)?;
            tx.add_history(&line).map(drop)
        })?;
        Ok(None)
    }

    /// The edits of a decision. Refused if they change protected paths and the decider may not; for
    /// a review of a protected path that right was checked before.
    pub(crate) fn decided_edits(
        &self,
        objects: &StoredObjects<'_>,
        head: &State,
        project: &ProjectId,
        (review, resolution, decision): &DecidedReview,
    ) -> Result<Proposal> {
        let proposal = self.edits_of_decision(objects, head, review, resolution)?;
        if !decision.over_protected && !details_of(review)?.protected {
            self.projects
                .refuse_protected(project, proposal.edits.keys())?;
        }
        Ok(proposal)
    }

    /// Refuses a decision that could not be carried out now. Nothing is changed.
    pub(crate) fn check_decision(&self, decided: &DecidedReview) -> Result<()> {
        self.store().read(|tx| {
            let project = tx
                .workspace_by_key(decided.0.project)?
                .filter(|row| row.state == WorkspaceState::Open)
                .ok_or_else(|| {
                    Error::new(
                        ErrorCode::ProjectNotFound,
                        "the project of the review was deleted",
                    )
                })?;
            let mut objects = self.contents.objects_in(tx);
            objects.cache_trees();
            let head = state_of_row(&project);
            let id: ProjectId = project.id.as_str().parse()?;
            self.decided_edits(&objects, &head, &id, decided).map(drop)
        })
    }

    /// Takes a decision back that has not landed.
    fn reopen(&self, review: &ReviewRow) -> Result<()> {
        self.store().write(Durability::Synced, |tx| {
            let mut now = find_review(tx, &review.id)?;
            if now.state != ReviewState::Decided || refuse_other(&now, review).is_err() {
                return Ok(());
            }
            let mut details = details_of(&now)?;
            details.decision = None;
            now.details = formats::to_text(&details)?;
            now.state = ReviewState::Open;
            tx.put_review(&now)
        })
    }

    /// What a merge that waited brings beside its conflicts, onto the head as it is now.
    fn rest_of_merge(
        &self,
        objects: &StoredObjects<'_>,
        head: &State,
        merge: &MergeRow,
    ) -> Result<Proposal> {
        let mut bench = PendingObjects::new(objects);
        let base = self.base_of(merge.project, merge.workspace, &merge.base)?;
        let theirs = self.state_at(merge.workspace, &merge.theirs)?;
        let base = match &receipt(merge)?.since {
            Some(since) => {
                let merged = self.state_at(merge.workspace, since)?;
                without_left_out(&mut bench, &base, &merged)?
            }
            None => base,
        };
        let objects: &dyn ObjectReader = &bench;
        let states = ThreeStates {
            base: &base,
            ours: head,
            theirs: &theirs,
        };
        let options = MergeOptions::default();
        let mut again = merge_into_project(self.store(), objects, states, &options)?;
        let mut proposal = Proposal::default();
        let new = self.store().read(|tx| {
            let known = known_paths(tx, merge.workspace, &merge.id)?;
            let settings = MergeSettings::read(tx, merge.project)?;
            let protection = Protection::new(&settings.protect);
            // What is protected lands by its own decision, like a conflict.
            let passes = match receipt(merge)?.pushed {
                Some(push) => push.over_protected,
                None => pulled_by(tx, Some(merge))?.is_some(),
            };
            let held = match passes {
                true => Vec::new(),
                false => protection.hold(objects, states, &mut again)?,
            };
            let held = held.into_iter().map(|one| one.path);
            let mut new: Vec<RelPath> = held.filter(|path| !known.contains(path)).collect();
            for conflict in &again.conflicts {
                if known.contains(&conflict.path) {
                    continue;
                }
                let is_protected = protection.concerns_conflict(conflict);
                let edits = match is_protected {
                    true => None,
                    false => decided_by_policy(tx, objects, states, merge, &settings, conflict)?,
                };
                match edits {
                    Some(edits) => {
                        let more = state_edits(self.store(), objects, states, &edits)?;
                        proposal.edits.extend(more.edits);
                        proposal.contents.extend(more.contents);
                    }
                    None => new.push(conflict.path.clone()),
                }
            }
            Ok(new)
        })?;
        if !new.is_empty() {
            return Err(Error::new(
                ErrorCode::MergeConflict,
                "the project has changed since, and more paths conflict now",
            )
            .with_hint("complete the workspace again: every conflict gets its review")
            .with_details(serde_json::json!({
                "conflicts": new.iter().map(RelPath::to_text).collect::<Vec<_>>(),
            })));
        }
        again.proposal.edits.extend(proposal.edits);
        again.proposal.contents.extend(proposal.contents);
        Ok(again.proposal)
    }
}

/// What the policy makes of a conflict that has no review: the one that decided it when the merge was
/// asked for, or else that of the project.
fn decided_by_policy(
    tx: &dyn ReadTx,
    objects: &dyn ObjectReader,
    states: ThreeStates<'_>,
    merge: &MergeRow,
    settings: &MergeSettings,
    conflict: &Conflict,
) -> Result<Option<Vec<Edit>>> {
    let rows = (
        tx.workspace_by_key(merge.project)?,
        tx.workspace_by_key(merge.workspace)?,
        tx.fork(merge.workspace)?,
    );
    let (Some(project), Some(row), Some(fork)) = rows else {
        return Ok(None);
    };
    let decided = receipt(merge)?.decided;
    let then = decided.iter().find(|one| one.path == conflict.path);
    let policy = then.map_or_else(|| settings.policy(&conflict.path), |one| one.policy);
    let message_id = merge.cause.message_id.as_deref();
    let authors = Authors::new(tx, objects, &project, (&row, &fork), states, message_id);
    let sides = authors.sides(conflict)?;
    let Some(verdict) = decide(policy, conflict, &sides, merge.priority) else {
        return Ok(None);
    };
    let is_refused = git_refuses_any(objects, &verdict.edits)?;
    Ok((!is_refused).then_some(verdict.edits))
}

/// The commit of git that a merge brings: pushed, or of the linked repository.
fn pulled_by(tx: &dyn ReadTx, merge: Option<&MergeRow>) -> Result<Option<ObjectId>> {
    match merge {
        Some(merge) => {
            if let Some(push) = receipt(merge)?.pushed {
                return Ok(Some(push.commit));
            }
            let project = settings_row(tx, merge.project)?;
            pulled_commit(&project, merge.workspace, merge.theirs)
        }
        None => Ok(None),
    }
}

/// Whether another decision would land.
fn is_about_the_decision(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::PreconditionFailed | ErrorCode::InvalidRequest | ErrorCode::PermissionDenied
    )
}

/// Whether the conflicts of a merge have to be found anew: as they were decided they cannot land.
pub(crate) fn needs_new_merge(error: &Error) -> bool {
    error.code() == ErrorCode::MergeConflict || is_about_the_decision(error)
}

/// Whose work decisions, or a merge, bring; none if a pull brings it.
fn work_of(
    tx: &dyn ReadTx,
    decided: &[DecidedReview],
    merge: Option<&MergeRow>,
) -> Result<Option<WorkOf>> {
    let of_review = decided.first().map(|(review, ..)| review.workspace);
    let Some(key) = of_review.or(merge.map(|merge| merge.workspace)) else {
        return Ok(None);
    };
    if pulled_by(tx, merge)?.is_some() {
        return Ok(None);
    }
    Ok(match (tx.workspace_by_key(key)?, tx.fork(key)?) {
        (Some(row), Some(fork)) => Some(WorkOf::fork(&row, &fork)),
        _ => None,
    })
}

/// A decision is by who decided last, a merge that lands by itself by its agent; none is who asked.
fn author_of(
    tx: &dyn ReadTx,
    project: WorkspaceKey,
    decided: &[DecidedReview],
    work: Option<&WorkOf>,
) -> Result<Option<Author>> {
    match (decided.last(), work) {
        (Some((.., decision)), _) => {
            let by = Operator::new(&decision.by.operator);
            Author::of_operator(tx, project, &by).map(Some)
        }
        (None, Some(work)) => Author::of_agent(tx, project, &work.agent).map(Some),
        (None, None) => Ok(None),
    }
}

fn label_of(decided: &[DecidedReview], merge: Option<&MergeRow>) -> Result<String> {
    let receipt = merge.map(receipt).transpose()?;
    if let Some(label) = receipt.as_ref().and_then(|receipt| receipt.label.clone()) {
        return Ok(label);
    }
    match receipt.filter(|_| decided.is_empty()) {
        Some(receipt) => Ok(format!("Merge {}", receipt.workspace)),
        None => {
            let paths: Vec<String> = decided.iter().map(|one| one.0.path.to_text()).collect();
            Ok(format!("Resolve {}", paths.join(", ")))
        }
    }
}

/// Notes where a merge that waited has gone; nothing if somebody else landed it meanwhile.
fn mark_landed(tx: &mut dyn WriteTx, merge: &MergeRow, draft: Option<&ProjectDraft>) -> Result<()> {
    let Some(now) = tx.merge(&merge.id)? else {
        return Err(Error::internal("a review belongs to no merge"));
    };
    let mut completed = receipt(&now)?;
    if !completed.waits_whole() {
        return Ok(());
    }
    let snapshot = draft.map(|draft| draft.snapshot.id);
    completed.snapshot = snapshot;
    completed.landed_nothing = snapshot.is_none();
    completed.waiting.clear();
    completed.merged = draft.map(ProjectDraft::changed_files).unwrap_or_default();
    tx.put_merge(&MergeRow {
        snapshot,
        outcome: formats::receipt_text(&completed)?,
        ..now
    })
}

/// The merges of a workspace whose conflicts have all ended, and that have not landed.
fn ready_to_land(
    tx: &dyn ReadTx,
    workspace: WorkspaceKey,
) -> Result<(Vec<ReadyMerge>, Option<MergeRow>)> {
    let mut reviews = tx.reviews_of(workspace)?;
    reviews.retain(|review| review.state != ReviewState::Resolved);
    let mut ids: BTreeSet<String> = reviews.iter().map(|review| review.merge.clone()).collect();
    let last = tx.last_merge(workspace)?;
    ids.extend(last.as_ref().map(|last| last.id.clone()));
    let mut ready = Vec::new();
    for id in ids {
        let Some(merge) = tx.merge(&id)? else {
            continue;
        };
        let of_merge = reviews.iter().filter(|review| review.merge == id);
        let decided: Vec<ReviewRow> = of_merge.cloned().collect();
        let is_open = |review: &ReviewRow| review.state == ReviewState::Open;
        let is_last = is_last_merge(tx, &merge)? && receipt(&merge)?.waits_whole();
        if !decided.iter().any(is_open) && (is_last || !decided.is_empty()) {
            ready.push(ReadyMerge {
                merge,
                decided,
                is_last,
            });
        }
    }
    Ok((ready, last))
}

fn is_last_merge(tx: &dyn ReadTx, merge: &MergeRow) -> Result<bool> {
    let last = tx.last_merge(merge.workspace)?;
    let fork = tx.fork(merge.workspace)?;
    let is_newest = last.is_none_or(|last| last.id == merge.id);
    Ok(is_newest && fork.is_none_or(|fork| fork.base == merge.base))
}

/// A merge that lands by itself is done by the system; its agent is named as a claim.
fn cause_of_merge(tx: &dyn ReadTx, merge: &MergeRow) -> Result<Cause> {
    let row: Option<WorkspaceRow> = tx.workspace_by_key(merge.workspace)?;
    let claim = match (row, tx.fork(merge.workspace)?) {
        (Some(row), Some(fork)) => Some(agent_of(&row, &fork)),
        _ => merge.cause.claim.clone(),
    };
    Ok(Cause {
        operator: Operator::system(),
        claim,
        message_id: merge.cause.message_id.clone(),
    })
}
