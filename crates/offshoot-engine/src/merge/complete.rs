//! Completing a workspace: what it changed since its base is merged into its project.
//!
//! Who asks for a merge leaves a row first and then waits for the project's turn. Whoever has the
//! turn works off what waits, the oldest first, so that a merge that was asked for is done even if
//! the process that asked is gone. A merge lands in one transaction: snapshot, versions, history,
//! reviews and receipt, on the head that it was made from; if the head moved, it is made again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use offshoot_core::{
    Cause, EntryKind, Error, ErrorCode, ObjectId, Operator, RelPath, Result, WorkspaceId, cancel,
};
use offshoot_git::ObjectReader;
use offshoot_merge::{Conflict, MergeOptions};
use offshoot_store::{
    CompletionRow, Durability, ForkRow, HistoryOp, Landing, MergeRow, ReadTx, ReviewRow,
    ReviewState, Via, WorkspaceKey, WorkspaceKind, WorkspaceRow, WorkspaceState, WriteTx,
};

use crate::content::history_writer::LineTemplate;
use crate::content::left_out::{LeftOut, git_refuses_any};
use crate::content::objects::PendingObjects;
use crate::content::rows::{
    agent_of, fork_row, no_workspace, open_row_by_key, project_name, state_of_row,
};
use crate::content::state::State;
use crate::content::workspace_row::line_of;
use crate::context::describe_busy;
use crate::context::prefixes::random_name;
use crate::formats;
use crate::merge::Merges;
use crate::merge::after_merge::AfterMerge;
use crate::merge::authors::Authors;
use crate::merge::base::{merge_base, merged_from_here, undone_after};
use crate::merge::decide::{Decided, add_taken_away, decide, keep_lost, taken_away};
use crate::merge::protect;
use crate::merge::protect::{decided_before, held_review};
use crate::merge::review_close::{closed_by_agreement, closed_by_merge, still_waiting};
use crate::merge::review_land::needs_new_merge;
use crate::merge::review_row::{Changed, Finding, KnownReviews, LandsIn, new_review, parts_of};
use crate::merge::three_way::{ThreeStates, merge_into_project, settled};
use crate::project::head::{ProjectDraft, Proposal, Recorded, is_unmoved, land_draft};
use crate::project::policy::{MergeSettings, Policy};
use crate::project::protection::Protection;
use crate::sync::ignored::IgnoredFiles;
use crate::workspace::snapshot::check_label;

/// How often a merge is made again because the head moved.
const TRIES: usize = 64;
/// How long a merge waits for those before it.
const PATIENCE: Duration = Duration::from_secs(600);

/// How a workspace is merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompleteOptions {
    /// Decides every conflict, instead of the project's policies.
    pub policy: Option<Policy>,
    /// Nothing lands until every conflict is decided; none as the project says.
    pub atomic: Option<bool>,
    /// The workspace stays and moves onto the merged head.
    pub keep: bool,
    /// Ignored files are merged too.
    pub include_ignored: bool,
    /// What to call the snapshot that lands; none says which workspace it is of.
    pub label: Option<String>,
}

/// What came of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Its name; none for a plan.
    pub merge_id: Option<String>,
    /// The project.
    pub project: String,
    /// The workspace.
    pub workspace: String,
    /// The snapshot of the project that landed; none if nothing did.
    pub snapshot: Option<ObjectId>,
    /// The snapshot of the workspace that was merged; none for a plan.
    pub theirs: Option<ObjectId>,
    /// The snapshot of the workspace that was merged before, from the same base; none if its
    /// changes are compared with the base.
    pub since: Option<ObjectId>,
    /// Paths of the project that changed.
    pub merged: Vec<RelPath>,
    /// Paths that wait for somebody to decide.
    pub conflicts: Vec<Waiting>,
    /// Paths that the project had already in the same form.
    pub unchanged: Vec<RelPath>,
    /// Paths that both changed and that fit together.
    pub auto_resolved: Vec<Together>,
    /// Conflicts that a policy decided, with what lost.
    pub decided: Vec<Decided>,
    /// What the workspace changed and no merge takes, with the reason. It stays in the snapshot of
    /// the workspace; a workspace with files that are too large for that stays itself.
    pub left_out: Vec<LeftOut>,
    /// Whether ignored files were merged, too.
    pub include_ignored: bool,
    /// Ignored files that went with the workspace, or would.
    pub ignored_removed: IgnoredFiles,
    /// Whether the workspace was asked to stay.
    pub keep: bool,
    /// Whether nothing lands before every conflict is decided.
    pub atomic: bool,
    /// Whether every conflict has ended by now and the project had all of it already.
    pub landed_nothing: bool,
    /// What became of the workspace; none in a plan and in the log.
    pub after: Option<AfterMerge>,
}

impl Completed {
    /// Whether all of it waits until its last conflict is decided.
    pub(crate) fn waits_whole(&self) -> bool {
        let has_ended = self.snapshot.is_some() || self.landed_nothing;
        self.atomic && !self.conflicts.is_empty() && !has_ended
    }
}

/// A conflict that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Where.
    pub path: RelPath,
    /// Which parts of it; empty for all of it.
    pub parts: Vec<String>,
    /// Why.
    pub kind: String,
    /// Its review; none for a plan.
    pub review_id: Option<String>,
}

impl Waiting {
    pub(crate) fn new(conflict: &Conflict, review: &ReviewRow) -> Waiting {
        Waiting {
            path: conflict.path.clone(),
            parts: parts_of(conflict),
            kind: conflict.kind.as_str().to_owned(),
            review_id: Some(review.id.clone()),
        }
    }
}

/// A path that both sides changed and that was put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together {
    /// Where.
    pub path: RelPath,
    /// How: `same`, `lines`, `words` or `json`.
    pub method: String,
}

/// What a merge would do to a project as it is now.
pub(crate) struct MergePlan {
    pub(crate) project: WorkspaceRow,
    draft: Option<ProjectDraft>,
    pub(crate) completed: Completed,
    reviews: Vec<ReviewRow>,
    /// Reviews that close by themselves.
    closed: Vec<ReviewRow>,
}

/// What is merged.
pub(crate) struct Merging<'a> {
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) fork: &'a ForkRow,
    pub(crate) theirs: State,
    /// The snapshot that holds it; none for a plan.
    pub(crate) snapshot: Option<ObjectId>,
    pub(crate) options: &'a CompleteOptions,
    /// The name of the merge.
    pub(crate) id: &'a str,
    pub(crate) cause: &'a Cause,
}

impl Merges {
    /// Merges a workspace into its project. Completing it again changes nothing and gives the same
    /// answer, also when the workspace is gone.
    pub fn complete(
        &self,
        id: &WorkspaceId,
        options: &CompleteOptions,
        cause: &Cause,
    ) -> Result<Completed> {
        self.context.require_space()?;
        check_label(options.label.as_deref())?;
        enum Asked {
            Open(WorkspaceRow, WorkspaceKey),
            Before(MergeRow),
        }
        let asked = self.store().read(|tx| {
            let row = tx.workspace(id)?.ok_or_else(|| no_workspace(id))?;
            if row.state == WorkspaceState::Closed {
                let last = tx.last_merge(row.key)?.ok_or_else(|| no_workspace(id))?;
                return Ok(Asked::Before(last));
            }
            let project = project_of_fork(tx, &row)?;
            Ok(Asked::Open(row, project))
        })?;
        let (row, project) = match asked {
            Asked::Open(row, project) => (row, project),
            Asked::Before(last) => {
                return Ok(Completed {
                    after: Some(AfterMerge::removed()),
                    ..receipt(&last)?
                });
            }
        };
        let completion = CompletionRow {
            id: random_name(),
            project,
            workspace: row.key,
            options: formats::complete_options_text(options)?,
            cause: cause.clone(),
            at: self.context.now(),
            landed: false,
        };
        self.store()
            .write(Durability::Relaxed, |tx| tx.put_completion(&completion))?;
        self.work_off(project, Some(&completion.id))?
            .ok_or_else(|| {
                Error::new(
                    ErrorCode::WorkspaceBusy,
                    format!("the merge of `{id}` could not be done"),
                )
                .with_hint("nothing was lost; try again")
            })
    }

    /// Does every merge that was asked for and not done, in all projects. For the start of a
    /// server. Returns how many are left because they could not be done now.
    pub fn work_off_completions(&self) -> Result<usize> {
        let waiting = self.store().read(|tx| tx.completions(None))?;
        let projects: BTreeSet<i64> = waiting.iter().map(|row| row.project.0).collect();
        for project in projects {
            self.work_off(WorkspaceKey(project), None)?;
        }
        self.waiting_completions()
    }

    /// How many merges were asked for and are not done.
    pub fn waiting_completions(&self) -> Result<usize> {
        Ok(self.store().read(|tx| tx.completions(None))?.len())
    }

    /// Works off what waits for a project, up to one merge or all. Returns what came of that one.
    fn work_off(&self, project: WorkspaceKey, until: Option<&str>) -> Result<Option<Completed>> {
        let _turn = self
            .context
            .locks
            .exclusive(&format!("merge-{}", project.0), PATIENCE)
            .map_err(|error| describe_busy(error, "the turn to merge into the project"))?;
        for row in self.store().read(|tx| tx.completions(Some(project)))? {
            let own = until == Some(row.id.as_str());
            match self.run_completion(&row) {
                Ok(completed) if own => return Ok(Some(completed)),
                Ok(_) => {}
                Err(error) => {
                    // What can succeed later waits for whoever asked for it.
                    let later = [
                        ErrorCode::WorkspaceBusy,
                        ErrorCode::StoreUnavailable,
                        ErrorCode::Timeout,
                        ErrorCode::QuotaExceeded,
                    ];
                    // Whoever asked for what takes too long is gone by now, and asks again if it
                    // matters; nobody else has to begin with it each time.
                    let too_long = error.code() == ErrorCode::Timeout
                        && self.context.now().seconds() - row.at.seconds()
                            > PATIENCE.as_secs() as i64;
                    if own || too_long || !later.contains(&error.code()) {
                        self.store()
                            .write(Durability::Relaxed, |tx| tx.remove_completion(&row.id))?;
                    }
                    if own {
                        return Err(error);
                    }
                }
            }
        }
        match until {
            // Somebody else did it.
            Some(id) => match self.store().read(|tx| tx.merge(id))? {
                Some(merge) => {
                    let mut completed = receipt(&merge)?;
                    completed.after = Some(self.seen_after(merge.workspace, completed.keep)?);
                    self.add_waiting(merge.workspace, &mut completed)?;
                    Ok(Some(completed))
                }
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    fn run_completion(&self, waiting: &CompletionRow) -> Result<Completed> {
        let options = formats::parse_complete_options(&waiting.options)?;
        let (row, settings) = self.store().read(|tx| {
            let row = tx.workspace_by_key(waiting.workspace)?;
            Ok((row, MergeSettings::read(tx, waiting.project)?))
        })?;
        let open = row.filter(|row| row.state == WorkspaceState::Open);
        let mut completed = match (&open, waiting.landed) {
            (Some(row), false) => {
                let (completed, closed) =
                    self.merge_workspace(row, &options, &settings, waiting)?;
                self.after_closing(row, &closed);
                completed
            }
            _ => match self.store().read(|tx| match tx.merge(&waiting.id)? {
                Some(own) => Ok(Some(own)),
                None => tx.last_merge(waiting.workspace),
            })? {
                Some(merge) => receipt(&merge)?,
                None => {
                    return Err(Error::new(
                        ErrorCode::WorkspaceNotFound,
                        "the workspace was deleted before it was merged",
                    ));
                }
            },
        };
        completed.after = Some(match open {
            Some(row) => self.after_merge(&row, &mut completed, &waiting.cause),
            None => AfterMerge::removed(),
        });
        self.add_waiting(waiting.workspace, &mut completed)?;
        // What landed has landed. Whoever comes next finds that there is nothing more to do.
        let _ = self
            .store()
            .write(Durability::Relaxed, |tx| tx.remove_completion(&waiting.id));
        Ok(completed)
    }

    /// Adds what waits of earlier merges and updates of a workspace, which this merge did not find
    /// again because the workspace has what the project has there.
    fn add_waiting(&self, workspace: WorkspaceKey, completed: &mut Completed) -> Result<()> {
        let known = self.store().read(|tx| KnownReviews::read(tx, workspace))?;
        for (row, details) in known.open() {
            let is_told = |one: &Waiting| one.review_id.as_ref() == Some(&row.id);
            if row.state == ReviewState::Open && !completed.conflicts.iter().any(is_told) {
                completed.conflicts.push(Waiting {
                    path: row.path.clone(),
                    parts: details.parts.clone(),
                    kind: details.kind.clone(),
                    review_id: Some(row.id.clone()),
                });
            }
        }
        Ok(())
    }

    /// Merges and lands. The workspace stays as it is. Also returns the reviews that closed with it.
    fn merge_workspace(
        &self,
        row: &WorkspaceRow,
        options: &CompleteOptions,
        settings: &MergeSettings,
        waiting: &CompletionRow,
    ) -> Result<(Completed, Vec<ReviewRow>)> {
        let _lock = self.directories.exclusive(row)?;
        let include_ignored = options.include_ignored || settings.include_ignored;
        let synced = self
            .sync
            .sync_locked_with(row, include_ignored, Durability::Relaxed)?;
        let too_large: Vec<LeftOut> = synced.too_large.iter().map(LeftOut::from).collect();
        let (row, fork) = self.store().read(|tx| {
            let row = open_row_by_key(tx, row)?;
            let fork = fork_row(tx, &row)?;
            Ok((row, fork))
        })?;
        // The merge that follows waits for the disk, and with it what is stored here.
        let taken = self.workspaces.take_snapshot_with(
            &row,
            None,
            include_ignored,
            &waiting.cause,
            Durability::Relaxed,
        )?;
        let theirs = taken.snapshot;
        if let Some(mut completed) = self.same_merge(&row, &fork, &theirs.id)? {
            // The same merge, but whether the workspace stays is for this request to say, and so is
            // what stands in its way: files that no snapshot holds.
            completed.keep = options.keep;
            self.drop_unheld(&row, &theirs.id, &mut completed.left_out)?;
            completed.left_out.extend(too_large);
            return Ok((completed, Vec::new()));
        }
        for _ in 0..TRIES {
            let plan = self.store().read(|tx| {
                let snapshot = tx.snapshot(row.key, &theirs.id)?;
                let snapshot = snapshot.ok_or_else(|| Error::internal("a snapshot has no row"))?;
                let merging = Merging {
                    row: &row,
                    fork: &fork,
                    theirs: crate::content::rows::state_of(&snapshot),
                    snapshot: Some(snapshot.id),
                    options,
                    id: &waiting.id,
                    cause: &waiting.cause,
                };
                let mut objects = self.contents.objects_in(tx);
                objects.cache_trees();
                let mut plan = self.plan_merge(tx, &objects, &merging)?;
                plan.completed.theirs = Some(theirs.id);
                plan.completed.left_out.extend_from_slice(&too_large);
                Ok(plan)
            })?;
            let outcome = formats::receipt_text(&plan.completed)?;
            let landed = self.store().write(Durability::Synced, |tx| {
                self.land_merge(tx, &plan, &outcome, &fork, waiting, theirs.id)
            })?;
            if landed {
                if plan.draft.is_some() {
                    self.directories.publish(plan.project.key);
                }
                return Ok((plan.completed, plan.closed));
            }
        }
        Err(
            Error::new(ErrorCode::WorkspaceBusy, "the project keeps changing")
                .with_hint("nothing was merged; try again"),
        )
    }

    /// What came of merging a workspace as it is now before; none if it has to be merged. What waits
    /// whole for nobody any more lands now.
    fn same_merge(
        &self,
        row: &WorkspaceRow,
        fork: &ForkRow,
        theirs: &ObjectId,
    ) -> Result<Option<Completed>> {
        // Also decisions about what the workspace merged before: they are not asked for again.
        let last = match self.land_what_waits(row.key) {
            Ok(last) => last,
            Err(error) if needs_new_merge(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let same = last.filter(|last| last.theirs == *theirs && last.base == fork.base);
        // What was undone since is merged again.
        let same = match same {
            Some(last)
                if self
                    .store()
                    .read(|tx| undone_after(tx, fork, last.ours.as_ref()))? =>
            {
                None
            }
            same => same,
        };
        same.as_ref().map(receipt).transpose()
    }

    /// Lands the merges of workspaces whose last conflict a merge has settled, and takes those
    /// workspaces away that stayed only for it. This is no part of that merge: what cannot be done now
    /// is done when those workspaces are completed again.
    fn after_closing(&self, merged: &WorkspaceRow, closed: &[ReviewRow]) {
        let reviews: BTreeMap<i64, &ReviewRow> =
            closed.iter().map(|row| (row.workspace.0, row)).collect();
        for (workspace, review) in reviews {
            let landed = self.land_what_waits(WorkspaceKey(workspace));
            // What becomes of the merged workspace itself is what its own request says.
            if landed.is_ok() && workspace != merged.key.0 {
                let _ = self.tidy_after_closing(review);
            }
        }
    }

    /// What merging would do, given the project as it is in this transaction.
    pub(crate) fn plan_merge(
        &self,
        tx: &dyn ReadTx,
        objects: &dyn ObjectReader,
        merging: &Merging<'_>,
    ) -> Result<MergePlan> {
        let fork = merging.fork;
        let project = tx
            .workspace_by_key(fork.project)?
            .filter(|row| row.state == WorkspaceState::Open)
            .ok_or_else(|| {
                Error::new(
                    ErrorCode::ProjectNotFound,
                    "the project of the workspace was deleted",
                )
            })?;
        let settings = MergeSettings::read(tx, project.key)?;
        let known = KnownReviews::read(tx, merging.row.key)?;
        let since = merged_from_here(tx, merging.row)?;
        let mut bench = PendingObjects::new(objects);
        let forked = (merging.row, fork);
        let base = merge_base(tx, &mut bench, forked, since.as_ref(), &known)?;
        let objects: &dyn ObjectReader = &bench;
        let ours = state_of_row(&project);
        let states = ThreeStates {
            base: &base,
            ours: &ours,
            theirs: &merging.theirs,
        };
        let options = MergeOptions::default();
        let mut merge = merge_into_project(self.store(), objects, states, &options)?;
        let protection = Protection::new(&settings.protect);
        let held = protection.hold(objects, states, &mut merge)?;
        let mut proposal = merge.proposal;
        let atomic = match merging.options.atomic {
            Some(atomic) => atomic,
            None => settings.landing == Landing::Atomic,
        };
        let mut completed = Completed {
            merge_id: Some(merging.id.to_owned()),
            project: project.id.to_string(),
            workspace: merging.row.id.to_string(),
            snapshot: None,
            theirs: None,
            since,
            merged: Vec::new(),
            conflicts: Vec::new(),
            unchanged: merge.unchanged,
            auto_resolved: merge
                .auto_resolved
                .iter()
                .map(|one| Together {
                    path: one.path.clone(),
                    method: one.method.as_str().to_owned(),
                })
                .collect(),
            decided: Vec::new(),
            left_out: merge.left_out,
            include_ignored: merging.options.include_ignored || settings.include_ignored,
            ignored_removed: IgnoredFiles::default(),
            keep: merging.options.keep,
            atomic,
            landed_nothing: false,
            after: None,
        };
        let mut reviews = Vec::new();
        let changes = Changed::new(&merge.theirs);
        let theirs = &merging.theirs;
        let finding = Finding {
            project: &project,
            ours: &ours,
            objects,
            row: merging.row,
            changes: &changes,
            waiting: &still_waiting(tx, objects, &known, LandsIn::Project, theirs)?,
            base: fork.base,
            since,
            snapshot: merging.snapshot,
            merge: merging.id,
            lands_in: LandsIn::Project,
        };
        let message_id = merging.cause.message_id.as_deref();
        let authors = Authors::new(tx, objects, &project, forked, states, message_id);
        let mut taken = Vec::new();
        for conflict in &merge.conflicts {
            cancel::check()?;
            let is_protected = protection.concerns_conflict(conflict);
            let policy = match (is_protected, merging.options.policy) {
                (true, _) => Policy::Review,
                (false, Some(policy)) => policy,
                (false, None) => settings.policy(&conflict.path),
            };
            let sides = authors.sides(conflict)?;
            let verdict = decide(policy, conflict, &sides, fork.priority);
            let refused = match &verdict {
                Some(verdict) => git_refuses_any(objects, &verdict.edits)?,
                None => false,
            };
            let Some(verdict) = verdict.filter(|_| !refused) else {
                let review = new_review(conflict, &finding, sides.whos(), is_protected)?;
                completed.conflicts.push(Waiting::new(conflict, &review));
                reviews.push(review);
                continue;
            };
            taken.extend(taken_away(policy, conflict, &verdict, &authors, &proposal)?);
            let more = settled(self.store(), objects, states, &verdict.edits)?;
            proposal.edits.extend(more.edits);
            proposal.contents.extend(more.contents);
            completed.decided.extend(verdict.decided);
        }
        add_taken_away(&mut completed.decided, taken);
        for one in &held {
            cancel::check()?;
            if one.is_decided(tx, objects, &known, theirs)? {
                completed.decided.push(decided_before(&authors, one)?);
                continue;
            }
            let review = held_review(&authors, one, &finding)?;
            completed.conflicts.push(Waiting {
                path: one.path.clone(),
                parts: Vec::new(),
                kind: protect::KIND.to_owned(),
                review_id: Some(review.id.clone()),
            });
            reviews.push(review);
        }
        let mut closed = closed_by_merge(&known, fork, &changes, &reviews)?;
        if atomic && !reviews.is_empty() {
            proposal = Proposal::default();
        }
        let given = merging.options.label.clone();
        let label = given.unwrap_or_else(|| format!("Merge {}", merging.row.id));
        let cause = merge_cause(merging);
        let recorded = recorded(&label, &cause, self.context.now());
        let draft = match proposal.edits.is_empty() {
            true => None,
            false => Some(
                self.projects
                    .draft_project(tx, project.clone(), proposal, &recorded)?,
            ),
        };
        let draft = draft.filter(|draft| !draft.changes.is_empty());
        if let Some(draft) = &draft {
            completed.snapshot = Some(draft.snapshot.id);
            let leaves = draft.changes.iter().filter(|change| {
                let is_dir = |entry: Option<crate::StateEntry>| {
                    entry.is_none_or(|entry| entry.kind == EntryKind::Dir)
                };
                !(is_dir(change.before) && is_dir(change.after))
            });
            completed.merged = leaves.map(|change| change.path.clone()).collect();
            closed.extend(closed_by_agreement(tx, objects, draft, merging.row.key)?);
        }
        Ok(MergePlan {
            project,
            draft,
            completed,
            reviews,
            closed,
        })
    }

    /// Writes a merge unless the head moved. Returns whether it did.
    fn land_merge(
        &self,
        tx: &mut dyn WriteTx,
        plan: &MergePlan,
        outcome: &str,
        fork: &ForkRow,
        waiting: &CompletionRow,
        theirs: ObjectId,
    ) -> Result<bool> {
        let at = plan
            .draft
            .as_ref()
            .map_or_else(|| self.context.now(), |draft| draft.snapshot.at);
        let cause = plan.draft.as_ref().map_or_else(
            || waiting.cause.clone(),
            |draft| draft.snapshot.cause.clone(),
        );
        let label = plan
            .draft
            .as_ref()
            .and_then(|draft| draft.snapshot.label.clone())
            .unwrap_or_default();
        if !is_unmoved(tx, &plan.project)? {
            return Ok(false);
        }
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
        for decided in &plan.completed.decided {
            keep_lost(tx, &line, decided, &waiting.id)?;
        }
        if let Some(draft) = &plan.draft {
            land_draft(tx, draft, &recorded(&label, &cause, at))?;
        }
        for review in &plan.closed {
            tx.put_review(review)?;
        }
        for review in &plan.reviews {
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
            snapshot: plan.completed.snapshot,
            at,
            cause: waiting.cause.clone(),
            priority: fork.priority,
            outcome: outcome.to_owned(),
            undone_by: None,
        })?;
        // In the workspace's own history too: it was merged.
        let row = tx
            .workspace_by_key(fork.workspace)?
            .ok_or_else(|| Error::internal("a workspace vanished"))?;
        let mut merged = line_of(&row, HistoryOp::Merge, &waiting.cause, at);
        merged.before = Some(theirs);
        merged.after = plan.completed.snapshot;
        tx.add_history(&merged)?;
        tx.put_completion(&CompletionRow {
            landed: true,
            ..waiting.clone()
        })?;
        Ok(true)
    }

    /// Takes out of a list what a snapshot does not hold.
    fn drop_unheld(
        &self,
        row: &WorkspaceRow,
        snapshot: &ObjectId,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<()> {
        self.store().read(|tx| {
            let Some(snapshot) = tx.snapshot(row.key, snapshot)? else {
                return Ok(());
            };
            let state = crate::content::rows::state_of(&snapshot);
            let objects = self.contents.objects_in(tx);
            let mut held = Vec::new();
            for file in left_out.iter() {
                if state.entry(&objects, &file.path)?.is_some() {
                    held.push(file.clone());
                }
            }
            *left_out = held;
            Ok(())
        })
    }

    pub(crate) fn project_of_fork(&self, row: &WorkspaceRow) -> Result<WorkspaceKey> {
        self.store().read(|tx| project_of_fork(tx, row))
    }
}

/// The project that a fork is merged into, which must be there.
fn project_of_fork(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<WorkspaceKey> {
    if row.kind != WorkspaceKind::Fork {
        return Err(Error::invalid(format!("`{}` is no fork", row.id))
            .with_hint("only forks of a project can be merged into it"));
    }
    let fork = fork_row(tx, row)?;
    project_name(tx, &fork)?;
    Ok(fork.project)
}

fn recorded<'a>(label: &'a str, cause: &'a Cause, at: offshoot_core::Timestamp) -> Recorded<'a> {
    Recorded {
        label,
        further_parents: &[],
        op: HistoryOp::Merge,
        via: Via::Merge,
        cause,
        at,
    }
}

/// A merge is done by the system; the agent is named as a claim.
fn merge_cause(merging: &Merging<'_>) -> Cause {
    Cause {
        operator: Operator::system(),
        claim: Some(agent_of(merging.row, merging.fork)),
        message_id: merging.cause.message_id.clone(),
    }
}

/// What a receipt says.
pub(crate) fn receipt(row: &MergeRow) -> Result<Completed> {
    formats::parse_receipt(&row.outcome)
}
