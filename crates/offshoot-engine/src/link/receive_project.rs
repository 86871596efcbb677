//! A push to the main branch of a project: it lands as a merge does.
//!
//! If the head is in the history of what comes, the commits become snapshots as they are. If the
//! project moved since the client looked, they are merged like the work of a fork. Nothing is ever
//! taken back: what does not come after what the client saw is refused, forced or not. Only with
//! `-o review` it is merged too, from the newest commit that both sides have.

use offshoot_core::{
    Cause, EMPTY_TREE, Error, ErrorCode, ObjectId, ProjectId, RelPath, Result, WorkspaceId,
    cancel::Cancel,
};
use offshoot_git::{
    Commit, ObjectReader, VisibleHistory, connected_objects, read_commit, short_branch_name,
};
use offshoot_store::{
    CompletionRow, Durability, ForkRow, ReadTx, WorkspaceKey, WorkspaceKind, WorkspaceRow, WriteTx,
};

use crate::content::left_out::refuse_reserved_dir;
use crate::content::objects::StoredObjects;
use crate::content::rows::{fork_row, open_project, state_of_row};
use crate::content::state::State;
use crate::link::Links;
use crate::link::incoming::{
    BothObjects, Comparison, chain_or_tip, compare, refuse_moved_submodules,
};
use crate::link::land::{Arriving, TRIES, state_in, workspace_name};
use crate::link::receive::{Arrival, Landed, visible_tips};
use crate::merge::complete::{CompleteOptions, Completed, PushedCommit, receipt, refuse_conflicts};
use crate::merge::fork_commits::ForkCommits;
use crate::merge::plan_merge::MergeRequest;
use crate::project::advance::CommitChain;
use crate::project::protection::{self, Protection};

/// The most paths that the commits of one push change, all together. A tree of a few objects can
/// stand for any number of paths.
const MOST_PATHS: usize = 1_000_000;

const MERGE_YOURSELF: &str = "`git pull`, then push again; or `git push --force -o review`: then \
                              what fits is merged, nothing is taken back, and what does not fit \
                              waits for somebody to decide";

impl Links {
    /// Lands a push on a project. The cost follows what is pushed.
    pub(crate) fn land_on_project(&self, id: &ProjectId, arrival: &Arrival<'_>) -> Result<Landed> {
        for _ in 0..TRIES {
            let project = self.store().read(|tx| open_project(tx, id))?;
            let objects = BothObjects::new(StoredObjects::new(self.store(), None), arrival.pack);
            // All that the tip reaches is looked for before anything is decided or written.
            let stored = StoredObjects::new(self.store(), None);
            let tips = self.store().read(|tx| visible_tips(tx, &project))?;
            let mut history = VisibleHistory::new(&stored, tips);
            let new = connected_objects(arrival.pack, &mut history, arrival.tip)?;
            let way = self.way_into_project(&project, arrival, &objects, &mut history)?;
            let planned = match &way {
                Way::AlreadyThere => return Ok(Landed::default()),
                Way::Forward(_) => None,
                Way::Merge(compared) => {
                    Some(self.plan_received(id, &project, arrival, &objects, compared)?)
                }
            };
            let fetched = self.store_objects(&objects, &new, &mut |_| {})?;
            let arriving = Arriving {
                objects: &objects,
                fetched: &fetched,
                cause: arrival.cause,
                are_own: false,
            };
            let landed = match (&way, planned) {
                (Way::Forward(chain), _) => {
                    let landed = self.forward(&project, chain, &arriving, &|_| Ok(()))?;
                    landed.map(|_| Landed::default())
                }
                (Way::Merge(compared), Some(planned)) => {
                    let chain = chain_or_tip(&objects, planned.base_id, arrival.tip, compared)?;
                    Some(self.merge_received(id, &project, &planned, &chain, &arriving)?)
                }
                _ => None,
            };
            if let Some(landed) = landed {
                self.push_if_auto(id);
                return Ok(landed);
            }
        }
        Err(Error::new(
            ErrorCode::WorkspaceBusy,
            format!("the project `{id}` keeps changing"),
        )
        .with_hint("nothing was changed; try again"))
    }

    /// How a push gets into a project as it is now.
    fn way_into_project(
        &self,
        project: &WorkspaceRow,
        arrival: &Arrival<'_>,
        objects: &BothObjects<'_>,
        history: &mut VisibleHistory<'_>,
    ) -> Result<Way> {
        let (tip, old) = (arrival.tip, arrival.command.old);
        let before = state_of_row(project);
        let Some(head) = project.head else {
            if old.is_some() {
                return Err(fetch_first());
            }
            let chain = whole_chain(objects, tip)?;
            refuse_paths(objects, &before, chain.iter().map(|(_, commit)| commit))?;
            // There is nothing yet that a review could compare it with.
            return match self.protected_in(project, &before, objects, &chain, arrival)? {
                Some(path) => Err(protection::is_protected(&path)
                    .with_hint("the owner or an admin pushes first; then `git push -o review`")),
                None => Ok(Way::Forward(chain)),
            };
        };
        let old = old.ok_or_else(fetch_first)?;
        if history.first_unknown(&[old])?.is_some() {
            return Err(fetch_first());
        }
        let compared = compare(objects, head, tip, old)?;
        if compared.rewritten {
            // What the project has stays: it is merged like a fork of the newest common commit.
            let has_news = !compared.divergence.is_contained(tip);
            return match arrival.review && has_news && !compared.divergence.bases.is_empty() {
                true => Ok(Way::Merge(compared)),
                false => Err(not_forward()),
            };
        }
        if compared.divergence.is_contained(tip) {
            return Ok(Way::AlreadyThere);
        }
        // A commit of git holds no sidecar, so one cannot stand for a state that has one.
        if !compared.divergence.is_contained(head) || project.sidecar != EMPTY_TREE {
            return Ok(Way::Merge(compared));
        }
        let chain = chain_or_tip(objects, head, tip, &compared)?;
        refuse_paths(objects, &before, chain.iter().map(|(_, commit)| commit))?;
        match self.protected_in(project, &before, objects, &chain, arrival)? {
            Some(_) if arrival.review => Ok(Way::Merge(compared)),
            Some(path) => Err(is_protected(&path)),
            None => Ok(Way::Forward(chain)),
        }
    }

    /// A protected path that the commits change and whoever pushed may not.
    fn protected_in(
        &self,
        project: &WorkspaceRow,
        before: &State,
        objects: &dyn ObjectReader,
        chain: &CommitChain,
        arrival: &Arrival<'_>,
    ) -> Result<Option<RelPath>> {
        if arrival.over_protected {
            return Ok(None);
        }
        let protection = self.store().read(|tx| Protection::read(tx, project.key))?;
        if protection.is_empty() {
            return Ok(None);
        }
        let mut found = None;
        let mut tree = before.tree;
        for (_, commit) in chain {
            offshoot_git::diff(objects, tree, commit.tree, |path, _, _| {
                if found.is_none() && protection.concerns(&path) {
                    found = Some(path);
                }
                Ok(())
            })?;
            tree = commit.tree;
        }
        Ok(found)
    }

    /// Plans the merge of a push. Without `-o review` a conflict ends it here, so that nothing is
    /// left of what is refused.
    fn plan_received(
        &self,
        id: &ProjectId,
        project: &WorkspaceRow,
        arrival: &Arrival<'_>,
        objects: &BothObjects<'_>,
        compared: &Comparison,
    ) -> Result<PlannedMerge> {
        let base_id = self.newest_base(project.key, compared)?;
        let base_id = base_id.ok_or_else(fetch_first)?;
        let base = read_commit(objects, &base_id)?;
        let tip = read_commit(objects, &arrival.tip)?;
        refuse_moved_submodules(objects, &base, &tip)
            .map_err(|error| error.with_hint("`git pull`, then push again"))?;
        refuse_paths(objects, &state_in(&base), [&tip])?;
        let planned = PlannedMerge {
            name: workspace_name(id, "push"),
            tip: arrival.tip,
            base_id,
            base,
            options: CompleteOptions {
                atomic: (!arrival.review).then_some(true),
                label: Some(format!("Push {}", short_branch_name(&arrival.command.name))),
                push: Some(PushedCommit {
                    commit: arrival.tip,
                    over_protected: arrival.over_protected,
                    all_or_nothing: !arrival.review,
                }),
                ..CompleteOptions::default()
            },
        };
        if !arrival.review {
            let (row, fork) = planned.rows(project, &tip)?;
            let commits = ForkCommits::default();
            let request = MergeRequest {
                commits: &commits,
                row: &row,
                fork: &fork,
                theirs: state_in(&tip),
                snapshot: None,
                options: &planned.options,
                id: "",
                cause: arrival.cause,
            };
            let plan = |tx: &dyn ReadTx| self.merges.plan_merge(tx, objects, &request);
            let plan = self.store().read(plan)?;
            refuse_conflicts(&plan.outcome.completed).map_err(with_hint)?;
        }
        Ok(planned)
    }

    /// Merges what was pushed as the work of a workspace.
    fn merge_received(
        &self,
        id: &ProjectId,
        project: &WorkspaceRow,
        planned: &PlannedMerge,
        chain: &CommitChain,
        arriving: &Arriving<'_>,
    ) -> Result<Landed> {
        let options = &planned.options;
        let earlier = |tx: &dyn ReadTx| pushed_before(tx, project.key, planned);
        if let Some(earlier) = self.store().read(earlier)? {
            let merged = self.merges.complete(&earlier, options, arriving.cause)?;
            return Ok(told(&merged));
        }
        let completion = self
            .merges
            .completion(project.key, options, arriving.cause)?;
        // In one transaction: whoever comes next merges it if this process does not.
        let also = |tx: &mut dyn WriteTx, row: &WorkspaceRow| {
            tx.put_completion(&CompletionRow {
                workspace: row.key,
                ..completion.clone()
            })
        };
        let (name, onto) = (&planned.name, (planned.base_id, &planned.base));
        let workspace = self.fork_with(id, name, project, onto, chain, arriving, &also)?;
        match self.merges.run_requested(&completion, &workspace) {
            Ok(merged) => Ok(told(&merged)),
            Err(error) => match self.take_back(&completion.id, &workspace, arriving.cause) {
                Ok(Some(merged)) => Ok(told(&merged)),
                _ => Err(with_hint(error)),
            },
        }
    }

    /// Takes the request for a merge back, and its workspace, so that what a client hears as refused
    /// does not land later. If it has landed all the same, returns what came of it.
    fn take_back(
        &self,
        request: &str,
        workspace: &WorkspaceId,
        cause: &Cause,
    ) -> Result<Option<Completed>> {
        let merged = |tx: &dyn ReadTx| {
            let merge = tx.merge(request)?;
            merge.as_ref().map(receipt).transpose()
        };
        // Also for a client that went away: nobody hears of it then.
        Cancel::default().run(|| {
            self.store()
                .write(Durability::Relaxed, |tx| match merged(&*tx)?.is_none() {
                    true => tx.remove_completion(request).map(drop),
                    false => Ok(()),
                })?;
            // Whoever merges it at this moment has its lock, and is done when it can go.
            let may_go = |_: &WorkspaceRow| Ok(self.store().read(merged)?.is_none());
            (self.workspaces).delete_workspace_if(
                workspace,
                false,
                Durability::Synced,
                cause,
                may_go,
            )?;
            self.store().read(merged)
        })
    }
}

/// The merge of a push before it is written.
struct PlannedMerge {
    /// What its workspace is called.
    name: String,
    tip: ObjectId,
    base_id: ObjectId,
    base: Commit,
    options: CompleteOptions,
}

impl PlannedMerge {
    /// The rows of its workspace as they would be.
    fn rows(&self, project: &WorkspaceRow, tip: &Commit) -> Result<(WorkspaceRow, ForkRow)> {
        let row = WorkspaceRow {
            key: WorkspaceKey(0),
            id: self.name.parse()?,
            kind: WorkspaceKind::Fork,
            head: Some(self.tip),
            tree: tip.tree,
            sidecar: EMPTY_TREE,
            ..project.clone()
        };
        let fork = ForkRow {
            workspace: row.key,
            project: project.key,
            base: self.base_id,
            base_tree: self.base.tree,
            base_sidecar: EMPTY_TREE,
            agent: Some(self.name.parse()?),
            priority: 0,
            git: false,
            provider: None,
            layer: None,
            setup: None,
            place: 1,
        };
        Ok((row, fork))
    }
}

/// How a push gets into a project.
enum Way {
    /// The project has it.
    AlreadyThere,
    /// These commits become snapshots.
    Forward(CommitChain),
    /// They are merged.
    Merge(Comparison),
}

/// All first parents of a commit, the oldest first.
pub(crate) fn whole_chain(objects: &dyn ObjectReader, tip: ObjectId) -> Result<CommitChain> {
    let mut chain = Vec::new();
    let mut next = Some(tip);
    while let Some(id) = next {
        let commit = read_commit(objects, &id)?;
        next = commit.parents.first().copied();
        chain.push((id, commit));
    }
    chain.reverse();
    Ok(chain)
}

/// Refuses paths that are too many, too deep, or kept for Offshoot. Nothing holds them all meanwhile.
pub(crate) fn refuse_paths<'c>(
    objects: &dyn ObjectReader,
    before: &State,
    commits: impl IntoIterator<Item = &'c Commit>,
) -> Result<()> {
    let mut left = MOST_PATHS;
    let mut tree = before.tree;
    for commit in commits {
        offshoot_git::diff(objects, tree, commit.tree, |path, _, after| {
            left = left.checked_sub(1).ok_or_else(|| {
                Error::new(
                    ErrorCode::PayloadTooLarge,
                    format!("the push changes more than {MOST_PATHS} paths"),
                )
                .with_hint("push fewer commits at once")
            })?;
            if after.is_none() {
                return Ok(());
            }
            path.check_depth()?;
            refuse_reserved_dir(objects, before, &path)
        })?;
        tree = commit.tree;
    }
    Ok(())
}

/// The workspace of an earlier push of the same commit whose conflicts wait.
fn pushed_before(
    tx: &dyn ReadTx,
    project: WorkspaceKey,
    planned: &PlannedMerge,
) -> Result<Option<WorkspaceId>> {
    for row in tx.forks_of(project)? {
        if row.head != Some(planned.tip) || row.materialized {
            continue;
        }
        let agent = fork_row(tx, &row)?.agent;
        if agent.is_some_and(|agent| agent.as_str() == planned.name) {
            return Ok(Some(row.id));
        }
    }
    Ok(None)
}

/// What the person who pushed is told of a merge.
fn told(merged: &Completed) -> Landed {
    let mut landed = Landed::default();
    let say = &mut landed.messages;
    if let Some(snapshot) = merged.snapshot {
        let short = &snapshot.to_hex()[..12];
        say.push(format!("merged as {short}; `git pull` brings it"));
    }
    for conflict in &merged.conflicts {
        let review = conflict.review_id.as_deref().unwrap_or_default();
        say.push(format!("waits for review {review}: {}", conflict.path));
    }
    for left_out in &merged.left_out {
        say.push(format!("left out: {} ({})", left_out.path, left_out.reason));
    }
    if merged.snapshot.is_none() && !merged.conflicts.is_empty() {
        landed.refused = Some(match merged.conflicts.len() {
            1 => "1 path waits for review, and all with it".to_owned(),
            count => format!("{count} paths wait for review, and all with them"),
        });
    }
    landed
}

fn with_hint(error: Error) -> Error {
    match error.code() {
        ErrorCode::MergeConflict => error.with_hint(MERGE_YOURSELF),
        _ => error,
    }
}

fn fetch_first() -> Error {
    Error::new(
        ErrorCode::PreconditionFailed,
        "fetch first: the branch is elsewhere than your push expects",
    )
    .with_hint("`git pull`, then push again")
}

fn not_forward() -> Error {
    Error::new(
        ErrorCode::PreconditionFailed,
        "not a fast-forward: nothing that landed is ever taken back, not by `--force` either",
    )
    .with_hint(
        "`git pull`, then push again; or `git push --force -o review`, which merges it and takes \
         nothing back; `offshoot merge undo` undoes what was merged",
    )
}

fn is_protected(path: &RelPath) -> Error {
    let base = protection::is_protected(path);
    base.with_hint("`git push -o review` lets the owner decide")
}
