//! What a merge does to a project, worked out before anything is written, and how it is written.
//!
//! A merge is planned in a reading transaction and lands in a writing one, if the head is still what it
//! was planned on: snapshot, versions, history, reviews and receipt together (INV-6).

use offshoot_core::{Cause, EntryKind, Error, ErrorCode, ObjectId, Operator, Result, cancel};
use offshoot_git::ObjectReader;
use offshoot_merge::{Conflict, MergeOptions};
use offshoot_store::{
    CompletionRow, ForkRow, HistoryOp, Landing, MergeRow, ReadTx, ReviewRow, Via, WorkspaceRow,
    WorkspaceState, WriteTx,
};

use crate::content::credit::{Author, WorkOf};
use crate::content::history_writer::LineTemplate;
use crate::content::left_out::git_refuses_any;
use crate::content::objects::PendingObjects;
use crate::content::rows::{agent_of, state_of_row};
use crate::content::state::State;
use crate::content::workspace_row::line_of;
use crate::merge::Merges;
use crate::merge::authors::Authors;
use crate::merge::base::{merge_base, merged_from_here};
use crate::merge::complete::{AutoResolved, CompleteOptions, Completed, PendingConflict};
use crate::merge::fork_commits::{ForkCommits, keep_for_landing};
use crate::merge::policy_decision::{add_taken_away, decide, keep_lost, taken_away};
use crate::merge::protect::{self, ProtectedChange, decided_before, held_review};
use crate::merge::review_close::{closed_by_agreement, closed_by_merge, still_waiting};
use crate::merge::review_row::{ChangedPaths, ConflictContext, KnownReviews, LandsIn, new_review};
use crate::merge::three_way::{ThreeStates, ThreeWay, merge_into_project, state_edits};
use crate::project::head::{ChangeRecord, HeadChange, Proposal, land_draft};
use crate::project::link::pulled_commit;
use crate::project::policy::{MergeSettings, Policy, settings_row};
use crate::project::protection::Protection;
use crate::sync::ignored::IgnoredFiles;

/// A merge that is planned: what it does to the project, and what goes with it.
pub(crate) type MergePlan = HeadChange<MergeOutcome>;

/// What comes of a merge besides the new head of the project.
pub(crate) struct MergeOutcome {
    pub(crate) completed: Completed,
    /// What is stored of that.
    pub(crate) receipt: String,
    reviews: Vec<ReviewRow>,
    /// Commits that become parents of the merge when it lands.
    kept: Vec<ObjectId>,
    /// Reviews that close by themselves.
    pub(crate) closed: Vec<ReviewRow>,
}

/// One merge to plan: the workspace, its side, and how it was asked for.
pub(crate) struct MergeRequest<'a> {
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) fork: &'a ForkRow,
    pub(crate) theirs: State,
    /// The snapshot that holds it; none for a plan.
    pub(crate) snapshot: Option<ObjectId>,
    pub(crate) options: &'a CompleteOptions,
    /// What the agent committed with git.
    pub(crate) commits: &'a ForkCommits,
    /// The name of the merge.
    pub(crate) id: &'a str,
    pub(crate) cause: &'a Cause,
}

/// What deciding a conflict of a merge needs to know.
struct DecisionContext<'a> {
    request: &'a MergeRequest<'a>,
    settings: &'a MergeSettings,
    protection: &'a Protection,
    authors: &'a Authors<'a>,
    context: &'a ConflictContext<'a>,
    known: &'a KnownReviews,
    states: ThreeStates<'a>,
}

/// The result of a merge so far, while its conflicts are decided one by one.
struct DecisionsSoFar {
    proposal: Proposal,
    completed: Completed,
    reviews: Vec<ReviewRow>,
    /// The commit of git that the merge brings: of the linked repository, or pushed.
    pulled: Option<ObjectId>,
}

impl Merges {
    /// What merging would do, given the project as it is in this transaction.
    pub(crate) fn plan_merge(
        &self,
        tx: &dyn ReadTx,
        objects: &dyn ObjectReader,
        request: &MergeRequest<'_>,
    ) -> Result<MergePlan> {
        let project = open_project_of(tx, request.fork)?;
        let settings_row = settings_row(tx, project.key)?;
        let settings = MergeSettings::of_row(&settings_row)?;
        let known = KnownReviews::read(tx, request.row.key)?;
        let since = merged_from_here(tx, request.fork)?;
        let mut bench = PendingObjects::new(objects);
        let forked = (request.row, request.fork);
        let base = merge_base(tx, &mut bench, forked, since.as_ref(), &known)?;
        let objects: &dyn ObjectReader = &bench;
        let ours = state_of_row(&project);
        let states = ThreeStates {
            base: &base,
            ours: &ours,
            theirs: &request.theirs,
        };
        let options = MergeOptions::default();
        let mut merge = merge_into_project(self.store(), objects, states, &options)?;
        let protection = Protection::new(&settings.protect);
        let pushed = request.options.push;
        let pulled = match (pushed, request.snapshot) {
            (Some(push), _) => Some(push.commit),
            (None, Some(theirs)) => pulled_commit(&settings_row, request.row.key, theirs)?,
            (None, None) => None,
        };
        let passes = pushed.map_or(pulled.is_some(), |push| push.over_protected);
        let held = match passes {
            true => Vec::new(),
            false => protection.hold(objects, states, &mut merge)?,
        };
        let changes = ChangedPaths::new(&merge.theirs);
        let lands_in = LandsIn::Project;
        let context = ConflictContext {
            project: &project,
            ours: &ours,
            objects,
            row: request.row,
            changes: &changes,
            waiting: &still_waiting(tx, objects, &known, lands_in, &request.theirs)?,
            base: request.fork.base,
            since,
            snapshot: request.snapshot,
            merge: request.id,
            lands_in,
        };
        let message_id = request.cause.message_id.as_deref();
        let deciding = DecisionContext {
            request,
            settings: &settings,
            protection: &protection,
            authors: &Authors::new(tx, objects, &project, forked, states, message_id),
            context: &context,
            known: &known,
            states,
        };
        let conflicts = std::mem::take(&mut merge.conflicts);
        let mut draft = DecisionsSoFar {
            completed: receipt_so_far(request, &settings, &project, since, &mut merge),
            proposal: merge.proposal,
            reviews: Vec::new(),
            pulled,
        };
        self.decide_conflicts(&deciding, &conflicts, &mut draft)?;
        review_protected(&deciding, &held, &mut draft)?;
        let closed = closed_by_merge(&known, request.fork, &changes, &draft.reviews)?;
        self.draft_head(tx, objects, request, project.clone(), draft, closed)
    }

    /// Decides by policy what can be, and opens a review for every other conflict.
    fn decide_conflicts(
        &self,
        deciding: &DecisionContext<'_>,
        conflicts: &[Conflict],
        draft: &mut DecisionsSoFar,
    ) -> Result<()> {
        let DecisionContext {
            request, context, ..
        } = deciding;
        let mut taken = Vec::new();
        for conflict in conflicts {
            cancel::check()?;
            let is_protected = deciding.protection.concerns_conflict(conflict);
            let policy = match (is_protected, request.options.policy) {
                (true, _) => Policy::Review,
                (false, Some(policy)) => policy,
                (false, None) => deciding.settings.policy(&conflict.path),
            };
            let sides = deciding.authors.sides(conflict)?;
            let verdict = decide(policy, conflict, &sides, request.fork.priority);
            let refused = match &verdict {
                Some(verdict) => git_refuses_any(context.objects, &verdict.edits)?,
                None => false,
            };
            let Some(verdict) = verdict.filter(|_| !refused) else {
                let review = new_review(conflict, context, sides.attributions(), is_protected)?;
                let waiting = PendingConflict::new(conflict, &review);
                draft.completed.conflicts.push(waiting);
                draft.reviews.push(review);
                continue;
            };
            let authors = deciding.authors;
            let lost = taken_away(policy, conflict, &verdict, authors, &draft.proposal)?;
            taken.extend(lost);
            let (objects, states) = (context.objects, deciding.states);
            let more = state_edits(self.store(), objects, states, &verdict.edits)?;
            draft.proposal.edits.extend(more.edits);
            draft.proposal.contents.extend(more.contents);
            draft.completed.decided.extend(verdict.decided);
        }
        add_taken_away(&mut draft.completed.decided, taken);
        Ok(())
    }

    /// The plan of a merge whose conflicts are decided or reviewed.
    fn draft_head(
        &self,
        tx: &dyn ReadTx,
        objects: &dyn ObjectReader,
        request: &MergeRequest<'_>,
        project: WorkspaceRow,
        planned: DecisionsSoFar,
        mut closed: Vec<ReviewRow>,
    ) -> Result<MergePlan> {
        let DecisionsSoFar {
            mut proposal,
            mut completed,
            reviews,
            pulled,
        } = planned;
        let is_pull = pulled.is_some();
        let mut parents: Vec<ObjectId> = pulled.into_iter().collect();
        parents.extend(&request.commits.new_tips);
        let mut kept = Vec::new();
        if completed.atomic && !reviews.is_empty() {
            parents.clear();
            kept.extend(&request.commits.new_tips);
            let edits = std::mem::take(&mut proposal).edits.into_iter();
            let of_files = edits.filter(|(_, edit)| edit.kind_after() != Some(EntryKind::Dir));
            completed.waiting = of_files.map(|(path, _)| path).collect();
        }
        let given = request.options.label.clone();
        let label = given.unwrap_or_else(|| format!("Merge {}", request.row.id));
        let cause = merge_cause(request);
        let work = WorkOf::fork(request.row, request.fork);
        let author = match is_pull {
            true => Author::of_operator(tx, project.key, &request.cause.operator)?,
            false => Author::of_agent(tx, project.key, &work.agent)?,
        };
        let record = ChangeRecord {
            author: Some(author),
            work: Some(work).filter(|_| !is_pull),
            further_parents: &parents,
            ..record(&label, &cause, self.context.now())
        };
        let draft = match proposal.edits.is_empty() && parents.is_empty() {
            true => None,
            false => Some((self.projects).draft_project(tx, project.clone(), proposal, &record)?),
        };
        // A commit that comes in is part of the history even if it changes nothing.
        let draft = draft.filter(|draft| !draft.changes.is_empty() || !parents.is_empty());
        if let Some(draft) = &draft {
            completed.snapshot = Some(draft.snapshot.id);
            completed.merged = draft.changed_files();
            closed.extend(closed_by_agreement(tx, objects, draft, request.row.key)?);
        }
        Ok(HeadChange {
            project,
            draft,
            is_needed: true,
            outcome: MergeOutcome {
                completed,
                receipt: String::new(),
                reviews,
                closed,
                kept,
            },
        })
    }

    /// Writes a merge. The head is still what it was planned on.
    pub(crate) fn land_merge(
        &self,
        tx: &mut dyn WriteTx,
        plan: &MergePlan,
        fork: &ForkRow,
        waiting: &CompletionRow,
        theirs: ObjectId,
    ) -> Result<()> {
        let at = plan
            .draft
            .as_ref()
            .map_or_else(|| self.context.now(), |draft| draft.snapshot.at);
        keep_for_landing(tx, fork, &plan.outcome.kept)?;
        let cause = plan.draft.as_ref().map_or_else(
            || waiting.cause.clone(),
            |draft| draft.snapshot.cause.clone(),
        );
        let label = plan
            .draft
            .as_ref()
            .and_then(|draft| draft.snapshot.label.clone())
            .unwrap_or_default();
        let next = plan
            .draft
            .as_ref()
            .map_or(&plan.project, |draft| &draft.next);
        let line = LineTemplate {
            row: next,
            at,
            via: Via::Merge,
            cause: &cause,
        };
        // What lost is a version of the path, although it never stood there: before what won.
        for decided in &plan.outcome.completed.decided {
            keep_lost(tx, &line, decided, &waiting.id)?;
        }
        if let Some(draft) = &plan.draft {
            land_draft(tx, draft, &record(&label, &cause, at))?;
        }
        for review in &plan.outcome.closed {
            tx.put_review(review)?;
        }
        for review in &plan.outcome.reviews {
            tx.put_review(review)?;
            let mut opened = line.file(HistoryOp::ReviewOpen, &review.path, EntryKind::File);
            opened.before = review.ours;
            tx.add_history(&opened)?;
        }
        tx.put_merge(&MergeRow {
            id: waiting.id.clone(),
            project: plan.project.key,
            workspace: fork.workspace,
            base: fork.base,
            ours: plan.project.head,
            theirs,
            snapshot: plan.outcome.completed.snapshot,
            at,
            cause: waiting.cause.clone(),
            priority: fork.priority,
            outcome: plan.outcome.receipt.clone(),
            undone_by: None,
        })?;
        // In the workspace's own history too: it was merged.
        let row = tx
            .workspace_by_key(fork.workspace)?
            .ok_or_else(|| Error::internal("a workspace vanished"))?;
        let mut merged = line_of(&row, HistoryOp::Merge, &waiting.cause, at);
        merged.before = Some(theirs);
        merged.after = plan.outcome.completed.snapshot;
        tx.add_history(&merged)?;
        tx.put_completion(&CompletionRow {
            landed: true,
            ..waiting.clone()
        })
    }
}

/// The project that a workspace is merged into.
fn open_project_of(tx: &dyn ReadTx, fork: &ForkRow) -> Result<WorkspaceRow> {
    let project = tx.workspace_by_key(fork.project)?;
    project
        .filter(|row| row.state == WorkspaceState::Open)
        .ok_or_else(|| {
            Error::new(
                ErrorCode::ProjectNotFound,
                "the project of the workspace was deleted",
            )
        })
}

/// What the receipt of a merge says before its conflicts are looked at.
fn receipt_so_far(
    request: &MergeRequest<'_>,
    settings: &MergeSettings,
    project: &WorkspaceRow,
    since: Option<ObjectId>,
    merge: &mut ThreeWay,
) -> Completed {
    let together = merge.auto_resolved.iter().map(|one| AutoResolved {
        path: one.path.clone(),
        method: one.method.as_str().to_owned(),
    });
    Completed {
        merge_id: Some(request.id.to_owned()),
        project: project.id.to_string(),
        workspace: request.row.id.to_string(),
        snapshot: None,
        theirs: None,
        since,
        merged: Vec::new(),
        waiting: Vec::new(),
        conflicts: Vec::new(),
        auto_resolved: together.collect(),
        unchanged: std::mem::take(&mut merge.unchanged),
        decided: Vec::new(),
        left_out: std::mem::take(&mut merge.left_out),
        include_ignored: request.options.include_ignored || settings.include_ignored,
        ignored_removed: IgnoredFiles::default(),
        keep: request.options.keep,
        atomic: match request.options.atomic {
            Some(atomic) => atomic,
            None => settings.landing == Landing::Atomic,
        },
        landed_nothing: false,
        pushed: request.options.push,
        label: request.options.label.clone(),
        commits: request.commits.brought.clone(),
        after: None,
    }
}

/// Opens a review for every change of a protected path that nobody has decided about.
fn review_protected(
    deciding: &DecisionContext<'_>,
    held: &[ProtectedChange],
    draft: &mut DecisionsSoFar,
) -> Result<()> {
    let (authors, context) = (deciding.authors, deciding.context);
    for one in held {
        cancel::check()?;
        let theirs = &deciding.request.theirs;
        if one.is_decided(authors.tx, context.objects, deciding.known, theirs)? {
            draft.completed.decided.push(decided_before(authors, one)?);
            continue;
        }
        let review = held_review(authors, one, context)?;
        draft.completed.conflicts.push(PendingConflict {
            path: one.path.clone(),
            parts: Vec::new(),
            kind: protect::KIND.to_owned(),
            review_id: Some(review.id.clone()),
        });
        draft.reviews.push(review);
    }
    Ok(())
}

fn record<'a>(label: &'a str, cause: &'a Cause, at: offshoot_core::Timestamp) -> ChangeRecord<'a> {
    ChangeRecord {
        label,
        author: None,
        work: None,
        further_parents: &[],
        op: HistoryOp::Merge,
        via: Via::Merge,
        cause,
        at,
    }
}

/// A merge is done by the system; the agent is named as a claim.
fn merge_cause(request: &MergeRequest<'_>) -> Cause {
    Cause {
        operator: Operator::system(),
        claim: Some(agent_of(request.row, request.fork)),
        message_id: request.cause.message_id.clone(),
    }
}
