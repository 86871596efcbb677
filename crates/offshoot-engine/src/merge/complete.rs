//! Completing a workspace: what it changed since its base is merged into its project.
//!
//! A request for a merge is a row first, and then waits for the lock of the project. The process
//! that holds the lock does all merges that wait, the oldest first, so that a merge is done even if
//! the process that asked for it is gone. A merge lands in one transaction: snapshot, versions,
//! history, reviews and receipt, on the head that it was made from; if the head moved, it is made
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use offshoot_core::{Cause, Error, ErrorCode, ObjectId, RelPath, Result, WorkspaceId};
use offshoot_merge::Conflict;
use offshoot_store::{
    CompletionRow, Durability, ForkRow, MergeRow, ReadTx, ReviewRow, ReviewState, WorkspaceKey,
    WorkspaceKind, WorkspaceRow, WorkspaceState,
};

use crate::content::left_out::LeftOut;
use crate::content::rows::{fork_row, no_workspace, open_row_by_key, project_name, state_of};
use crate::context::describe_busy;
use crate::context::prefixes::random_name;
use crate::formats;
use crate::merge::Merges;
use crate::merge::after_merge::AfterMerge;
use crate::merge::base::undone_after;
use crate::merge::plan_merge::MergeRequest;
use crate::merge::policy_decision::Decided;
use crate::merge::review_land::needs_new_merge;
use crate::merge::review_row::{KnownReviews, parts_of};
use crate::project::policy::{MergeSettings, Policy};
use crate::sync::ignored::IgnoredFiles;
use crate::workspace::snapshot::check_label;

/// How long a request waits for the merges before it.
const MAX_WAIT: Duration = Duration::from_secs(600);

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
    /// What the workspace brings, if it was made for a push.
    pub push: Option<PushedCommit>,
}

/// A commit that somebody pushed, on its way into a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedCommit {
    /// The commit, which what lands has as a further parent.
    pub commit: ObjectId,
    /// Whether who pushed may change protected paths.
    pub over_protected: bool,
    /// Whether a conflict is an error, so that nothing waits for a review.
    pub all_or_nothing: bool,
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
    /// Paths that fit and wait with the conflicts, because nothing of the merge lands before them.
    pub waiting: Vec<RelPath>,
    /// Paths that wait for somebody to decide.
    pub conflicts: Vec<PendingConflict>,
    /// Paths that the project had already in the same form.
    pub unchanged: Vec<RelPath>,
    /// Paths that both changed and that fit together.
    pub auto_resolved: Vec<AutoResolved>,
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
    /// The commit that somebody pushed and that the merge brings.
    pub pushed: Option<PushedCommit>,
    /// What to call the snapshot that lands, as it was asked for.
    pub label: Option<String>,
    /// What the agent committed with git in its fork, which is part of the history now, or will be
    /// when the merge lands.
    pub commits: BroughtCommits,
    /// What became of the workspace; none in a plan and in the log.
    pub after: Option<AfterMerge>,
}

/// Commits that an agent made with git in its fork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BroughtCommits {
    /// How many are new to the project.
    pub count: usize,
    /// The newest ones, which are parents of the merge that brought them.
    pub tips: Vec<ObjectId>,
    /// Those that did not come along.
    pub left_out: Vec<LeftOutCommit>,
}

/// A commit that did not come along. Only history is lost: its files were merged like all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutCommit {
    /// The commit; none if none could be read.
    pub id: Option<ObjectId>,
    /// Why.
    pub reason: String,
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
pub struct PendingConflict {
    /// Its path.
    pub path: RelPath,
    /// Which parts of it; empty for all of it.
    pub parts: Vec<String>,
    /// Why it conflicts.
    pub kind: String,
    /// Its review; none for a plan.
    pub review_id: Option<String>,
}

impl PendingConflict {
    pub(crate) fn new(conflict: &Conflict, review: &ReviewRow) -> PendingConflict {
        PendingConflict {
            path: conflict.path.clone(),
            parts: parts_of(conflict),
            kind: conflict.kind.as_str().to_owned(),
            review_id: Some(review.id.clone()),
        }
    }
}

/// A path that both sides changed and that was put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoResolved {
    /// Its path.
    pub path: RelPath,
    /// How: `same`, `lines`, `words` or `json`.
    pub method: String,
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
        let completion = self.completion(project, options, cause)?;
        let completion = CompletionRow {
            workspace: row.key,
            ..completion
        };
        self.store()
            .write(Durability::Relaxed, |tx| tx.put_completion(&completion))?;
        self.run_requested(&completion, id)
    }

    /// A request for a merge that is not written yet. The caller says of which workspace.
    pub(crate) fn completion(
        &self,
        project: WorkspaceKey,
        options: &CompleteOptions,
        cause: &Cause,
    ) -> Result<CompletionRow> {
        Ok(CompletionRow {
            id: random_name(),
            project,
            workspace: WorkspaceKey(0),
            options: formats::complete_options_text(options)?,
            cause: cause.clone(),
            at: self.context.now(),
            landed: false,
        })
    }

    /// Does a merge whose request is written, after those before it.
    pub(crate) fn run_requested(
        &self,
        completion: &CompletionRow,
        id: &WorkspaceId,
    ) -> Result<Completed> {
        self.run_waiting(completion.project, Some(&completion.id))?
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
    pub fn run_waiting_completions(&self) -> Result<usize> {
        let waiting = self.store().read(|tx| tx.completions(None))?;
        let projects: BTreeSet<i64> = waiting.iter().map(|row| row.project.0).collect();
        for project in projects {
            self.run_waiting(WorkspaceKey(project), None)?;
        }
        self.waiting_completions()
    }

    /// How many merges were asked for and are not done.
    pub fn waiting_completions(&self) -> Result<usize> {
        Ok(self.store().read(|tx| tx.completions(None))?.len())
    }

    /// Works off what waits for a project, up to one merge or all. Returns what came of that one.
    fn run_waiting(&self, project: WorkspaceKey, until: Option<&str>) -> Result<Option<Completed>> {
        let _turn = self
            .context
            .locks
            .exclusive(&format!("merge-{}", project.0), MAX_WAIT)
            .map_err(|error| describe_busy(error, "the turn to merge into the project"))?;
        for row in self.store().read(|tx| tx.completions(Some(project)))? {
            let own = until == Some(row.id.as_str());
            match self.run_completion(&row) {
                Ok(completed) if own => return Ok(Some(completed)),
                Ok(_) => {}
                Err(error) => {
                    // A merge that can succeed later stays in the queue until it is requested
                    // again.
                    let later = [
                        ErrorCode::WorkspaceBusy,
                        ErrorCode::StoreUnavailable,
                        ErrorCode::Timeout,
                        ErrorCode::QuotaExceeded,
                    ];
                    // The caller of a merge that takes too long is gone by now and can ask again;
                    // later callers must not begin with it each time.
                    let too_long = error.code() == ErrorCode::Timeout
                        && self.context.now().seconds() - row.at.seconds()
                            > MAX_WAIT.as_secs() as i64;
                    if own || too_long || !later.contains(&error.code()) {
                        let removed = (self.store())
                            .write(Durability::Relaxed, |tx| tx.remove_completion(&row.id));
                        // The error of the merge says more than that of its row.
                        if !own {
                            removed?;
                        }
                    }
                    if own {
                        return Err(error);
                    }
                }
            }
        }
        match until {
            // Another process did it.
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
        // The merge has landed. If its row stays, the next process finds nothing more to do.
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
            let is_told = |one: &PendingConflict| one.review_id.as_ref() == Some(&row.id);
            if row.state == ReviewState::Open && !completed.conflicts.iter().any(is_told) {
                completed.conflicts.push(PendingConflict {
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
        // The commit of the merge makes this one durable too.
        let taken = self.workspaces.take_snapshot_with(
            &row,
            None,
            include_ignored,
            &waiting.cause,
            Durability::Relaxed,
        )?;
        let theirs = taken.snapshot;
        let commits = self.fork_commits(&row, &fork, true)?;
        let same = self.same_merge(&row, &fork, &theirs.id)?;
        // What was committed since is history that the earlier merge does not have.
        let same = same.filter(|same| same.commits.tips == commits.brought.tips);
        if let Some(mut completed) = same {
            // The merge is the earlier one, but this request says whether the workspace stays, and
            // which files that no snapshot holds keep it.
            completed.keep = options.keep;
            self.drop_paths_not_in(&row, &theirs.id, &mut completed.left_out)?;
            completed.left_out.extend(too_large);
            return Ok((completed, Vec::new()));
        }
        let plan = |tx: &dyn ReadTx| {
            let snapshot = tx.snapshot(row.key, &theirs.id)?;
            let snapshot = snapshot.ok_or_else(|| Error::internal("a snapshot has no row"))?;
            let request = MergeRequest {
                row: &row,
                fork: &fork,
                theirs: state_of(&snapshot),
                snapshot: Some(snapshot.id),
                options,
                commits: &commits,
                id: &waiting.id,
                cause: &waiting.cause,
            };
            let mut objects = self.contents.objects_in(tx);
            objects.cache_trees();
            let mut plan = self.plan_merge(tx, &objects, &request)?;
            if options.push.is_some_and(|push| push.all_or_nothing) {
                refuse_conflicts(&plan.outcome.completed)?;
            }
            plan.outcome.completed.theirs = Some(theirs.id);
            plan.outcome
                .completed
                .left_out
                .extend_from_slice(&too_large);
            plan.outcome.receipt = formats::receipt_text(&plan.outcome.completed)?;
            Ok(plan)
        };
        let landed = self.projects.land_on_head(plan, |tx, plan| {
            commits.insert(tx)?;
            self.land_merge(tx, plan, &fork, waiting, theirs.id)
        })?;
        Ok((landed.outcome.completed, landed.outcome.closed))
    }

    /// The earlier merge of a workspace as it is now; none if it has to be merged. An atomic merge
    /// whose conflicts are all decided lands now.
    fn same_merge(
        &self,
        row: &WorkspaceRow,
        fork: &ForkRow,
        theirs: &ObjectId,
    ) -> Result<Option<Completed>> {
        // Also decisions about what the workspace merged before: they are not asked for again.
        let last = match self.land_finished_merges(row.key) {
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
            let landed = self.land_finished_merges(WorkspaceKey(workspace));
            // What becomes of the merged workspace itself is what its own request says.
            if landed.is_ok() && workspace != merged.key.0 {
                let _ = self.tidy_after_closing(review);
            }
        }
    }

    /// Takes out of a list what a snapshot does not hold.
    fn drop_paths_not_in(
        &self,
        row: &WorkspaceRow,
        snapshot: &ObjectId,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<()> {
        self.store().read(|tx| {
            let Some(snapshot) = tx.snapshot(row.key, snapshot)? else {
                return Ok(());
            };
            let state = state_of(&snapshot);
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

/// Refuses a merge that leaves anything to decide.
pub(crate) fn refuse_conflicts(planned: &Completed) -> Result<()> {
    if planned.conflicts.is_empty() {
        return Ok(());
    }
    let paths: Vec<String> = (planned.conflicts.iter())
        .map(|conflict| conflict.path.to_text())
        .collect();
    Err(Error::new(
        ErrorCode::MergeConflict,
        match paths.len() {
            1 => "1 path conflicts with the project".to_owned(),
            count => format!("{count} paths conflict with the project"),
        },
    )
    .with_details(serde_json::json!({ "conflicts": paths })))
}

/// What a receipt says.
pub(crate) fn receipt(row: &MergeRow) -> Result<Completed> {
    formats::parse_receipt(&row.outcome)
}
