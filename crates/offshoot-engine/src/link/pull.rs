//! Bringing the new commits of the followed branch into a project.
//!
//! If the project has nothing that the branch lacks, the commits become snapshots as they are.
//! Otherwise they are merged like the work of a fork: a workspace without a directory has them on
//! top of what both sides have, and is completed. Conflicts, policies, receipts and undoing are
//! those of every merge.
//!
//! A kill leaves the project as it was, or with all of it. Commits count as taken once they have
//! landed, which is found out by what the merge says and not by who asked for it.

use std::path::PathBuf;

use offshoot_core::{
    Cause, EMPTY_TREE, Error, ErrorCode, ObjectId, ProjectId, RelPath, Result, WorkspaceId,
};
use offshoot_git::{Commit, GitRepository, read_commit};
use offshoot_merge::MergeOptions;
use offshoot_store::{Durability, ReadTx, WorkspaceKey, WorkspaceRow, WorkspaceState, WriteTx};

use crate::content::objects::StoredObjects;
use crate::content::rows::{open_project, state_of_row};
use crate::formats::{Link, PendingPull};
use crate::link::Links;
use crate::link::create::no_branch;
use crate::link::incoming::{
    BothObjects, Comparison, Fetched, chain_or_tip, compare, refuse_moved_submodules,
};
use crate::link::land::{Arriving, TRIES, state_in, workspace_name};
use crate::merge::complete::{CompleteOptions, Completed, PendingConflict, receipt};
use crate::merge::review_row::parts_of;
use crate::merge::three_way::{ThreeStates, merge_into_project};
use crate::project::head::is_unmoved;
use crate::project::import::ImportProgress;
use crate::project::link::{change_link, link_in, put_link};
use crate::project::policy::Policy;

/// How a pull is done.
#[derive(Clone, Debug, Default)]
pub struct PullOptions {
    /// Say what would happen, and change nothing.
    pub dry_run: bool,
    /// Decides every conflict, instead of the project's policies.
    pub policy: Option<Policy>,
    /// What was fetched of a repository on another machine, which stands for it.
    pub fetched: Option<PathBuf>,
}

/// The way in which commits came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullWay {
    /// There was nothing to take.
    Nothing,
    /// The commits became snapshots as they are.
    FastForward,
    /// They were merged.
    Merge,
}

/// What a pull did, or would do.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// The project.
    pub project: ProjectId,
    /// The branch that it follows.
    pub branch: String,
    /// How the commits came in.
    pub way: PullWay,
    /// How many commits were new to the project.
    pub commits: usize,
    /// The commit that was taken before.
    pub from: ObjectId,
    /// The newest commit of the branch.
    pub to: ObjectId,
    /// Whether the branch was rewritten: its history lacks the commit that was taken before.
    pub rewritten: bool,
    /// The newest snapshot of the project, if it came with this.
    pub snapshot: Option<ObjectId>,
    /// Paths of the project that changed, or would.
    pub changed: Vec<RelPath>,
    /// Paths that wait for somebody to decide, or would.
    pub conflicts: Vec<PendingConflict>,
    /// The receipt of the merge, if there was one.
    pub merge: Option<Box<Completed>>,
}

/// One pull: the project, its link, and what the branch points at.
struct Pull<'a> {
    id: &'a ProjectId,
    key: WorkspaceKey,
    link: Link,
    repository: &'a GitRepository,
    tip: ObjectId,
    options: &'a PullOptions,
    cause: &'a Cause,
}

impl Pull<'_> {
    fn nothing(&self) -> Pulled {
        Pulled {
            project: self.id.clone(),
            branch: self.link.branch.clone(),
            way: PullWay::Nothing,
            commits: 0,
            from: self.link.taken,
            to: self.tip,
            rewritten: false,
            snapshot: None,
            changed: Vec::new(),
            conflicts: Vec::new(),
            merge: None,
        }
    }

    fn told(&self, way: PullWay, compared: &Comparison) -> Pulled {
        Pulled {
            way,
            commits: compared.divergence.other,
            rewritten: compared.rewritten,
            ..self.nothing()
        }
    }
}

impl Links {
    /// Brings the new commits of the followed branch into a project. The cost follows what is new.
    pub fn pull(
        &self,
        id: &ProjectId,
        options: &PullOptions,
        progress: &mut dyn FnMut(ImportProgress),
        cause: &Cause,
    ) -> Result<Pulled> {
        if !options.dry_run {
            self.context.require_space()?;
        }
        let (key, _) = self.usable_link(id)?;
        let _turn = self.turn(key)?;
        let link = self.settled_link(key)?;
        let repository = self.open_repository(&link, options.fetched.as_ref())?;
        let tip = repository.branch(&link.branch)?;
        let pull = Pull {
            id,
            key,
            tip: tip.ok_or_else(|| no_branch(&link.branch))?,
            link,
            repository: &repository,
            options,
            cause,
        };
        let pulled = self.pull_tip(&pull, progress)?;
        if !options.dry_run {
            // Of a repository elsewhere, only the followed branch was fetched.
            if options.fetched.is_none() {
                self.pull_refs(key, &pull.link, &repository)?;
            }
            let at = self.context.now();
            self.store().write(Durability::Relaxed, |tx| {
                change_link(tx, key, |link| link.pulled_at = Some(at.0))
            })?;
        }
        Ok(pulled)
    }

    fn pull_tip(
        &self,
        pull: &Pull<'_>,
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<Pulled> {
        let waits = pull.link.pending.is_some();
        if pull.tip == pull.link.taken && !waits {
            return Ok(pull.nothing());
        }
        let mut fetched: Option<Fetched> = None;
        for _ in 0..TRIES {
            let objects = BothObjects::new(StoredObjects::new(self.store(), None), pull.repository);
            let project = self.store().read(|tx| open_project(tx, pull.id))?;
            let Some(head) = project.head else {
                return Err(Error::internal("a linked project has no snapshot"));
            };
            let compared = compare(&objects, head, pull.tip, pull.link.taken)?;
            if compared.divergence.is_contained(pull.tip) && !waits {
                self.note_taken(pull)?;
                return Ok(pull.nothing());
            }
            // A commit of git holds no sidecar, so one cannot stand for a state that has one.
            let is_behind = compared.divergence.is_contained(head) && project.sidecar == EMPTY_TREE;
            let chain = match is_behind {
                true => Some(chain_or_tip(&objects, head, pull.tip, &compared)?),
                false => None,
            };
            if fetched.is_none() && !pull.options.dry_run {
                let known = [head];
                let from = pull.repository;
                fetched =
                    Some(self.fetch_objects(from, &objects, vec![pull.tip], &known, progress)?);
            }
            let (chain, fetched) = match (chain, &fetched) {
                (Some(chain), Some(fetched)) => (chain, fetched),
                (None, Some(fetched)) => {
                    return self.merge_tip(pull, &objects, fetched, &project, &compared);
                }
                (Some(_), None) => return self.plan_forward(pull, &objects, &project, &compared),
                (None, None) => return self.plan_merge(pull, &objects, &project, &compared),
            };
            let arriving = Arriving {
                objects: &objects,
                fetched,
                cause: pull.cause,
                are_own: false,
            };
            let also = |tx: &mut dyn WriteTx| take(tx, pull);
            if let Some(changed) = self.forward(&project, &chain, &arriving, &also)? {
                return Ok(Pulled {
                    snapshot: Some(pull.tip),
                    changed,
                    ..pull.told(PullWay::FastForward, &compared)
                });
            }
        }
        Err(Error::new(
            ErrorCode::WorkspaceBusy,
            format!("the project `{}` keeps changing", pull.id),
        )
        .with_hint("nothing was changed; try again"))
    }

    /// Merges the newest commit as the work of a workspace.
    fn merge_tip(
        &self,
        pull: &Pull<'_>,
        objects: &BothObjects<'_>,
        fetched: &Fetched,
        project: &WorkspaceRow,
        compared: &Comparison,
    ) -> Result<Pulled> {
        let tip = read_commit(objects, &pull.tip)?;
        let (base_id, base) = self.base_commit(pull, objects, compared)?;
        refuse_moved_submodules(objects, &base, &tip)?;
        let arriving = Arriving {
            objects,
            fetched,
            cause: pull.cause,
            are_own: false,
        };
        let workspace = match self.waiting_workspace(pull)? {
            Some(row) => {
                let from = row.head.unwrap_or(base_id);
                let chain = chain_or_tip(objects, from, pull.tip, compared)?;
                let advance = self.advance(&row, &chain, &arriving)?;
                self.store().write(Durability::Synced, |tx| {
                    refuse_changed(tx, &row)?;
                    fetched.bulk.insert(tx)?;
                    if from != pull.tip {
                        advance.write(tx, &row)?;
                    }
                    set_pending(tx, pull, row.key)
                })?;
                row.id
            }
            None => {
                let chain = chain_or_tip(objects, base_id, pull.tip, compared)?;
                let also =
                    |tx: &mut dyn WriteTx, row: &WorkspaceRow| set_pending(tx, pull, row.key);
                let onto = (base_id, &base);
                let name = workspace_name(pull.id, "repository");
                self.fork_with(pull.id, &name, project, onto, &chain, &arriving, &also)?
            }
        };
        let options = CompleteOptions {
            policy: pull.options.policy,
            label: Some(format!("Pull {}", pull.link.branch)),
            ..CompleteOptions::default()
        };
        let merged = self.merges.complete(&workspace, &options, pull.cause)?;
        self.settled_link(pull.key)?;
        Ok(Pulled {
            snapshot: merged.snapshot,
            changed: merged.merged.clone(),
            conflicts: merged.conflicts.clone(),
            merge: Some(Box::new(merged)),
            ..pull.told(PullWay::Merge, compared)
        })
    }

    /// What a merge compares with: the newest commit that both sides have. If the branch was
    /// rewritten, that is what was taken last, so that what the rewriting removed goes here as well.
    fn base_commit(
        &self,
        pull: &Pull<'_>,
        objects: &BothObjects<'_>,
        compared: &Comparison,
    ) -> Result<(ObjectId, Commit)> {
        let mut base = pull.link.taken;
        if !compared.rewritten {
            base = self.newest_base(pull.key, compared)?.unwrap_or(base);
        }
        Ok((base, read_commit(objects, &base)?))
    }

    /// The workspace of an earlier pull whose conflicts wait, if nobody has changed it: it gets the
    /// newer commits too, so that nothing is asked twice.
    fn waiting_workspace(&self, pull: &Pull<'_>) -> Result<Option<WorkspaceRow>> {
        let Some(pending) = &pull.link.pending else {
            return Ok(None);
        };
        self.store().read(|tx| {
            let row = tx.workspace_by_key(WorkspaceKey(pending.workspace))?;
            let is_untouched = |row: &WorkspaceRow| {
                row.state == WorkspaceState::Open
                    && !row.materialized
                    && row.head == Some(pending.tip)
            };
            let Some(row) = row.filter(is_untouched) else {
                return Ok(None);
            };
            let is_same = tx.entries_below(row.key, &RelPath::root())?.is_empty();
            Ok(is_same.then_some(row))
        })
    }

    fn plan_forward(
        &self,
        pull: &Pull<'_>,
        objects: &BothObjects<'_>,
        project: &WorkspaceRow,
        compared: &Comparison,
    ) -> Result<Pulled> {
        let tip = read_commit(objects, &pull.tip)?;
        let changes = state_of_row(project).diff(objects, &state_in(&tip), &RelPath::root())?;
        Ok(Pulled {
            changed: crate::content::change_set::leaf_paths(&changes)
                .into_iter()
                .collect(),
            ..pull.told(PullWay::FastForward, compared)
        })
    }

    fn plan_merge(
        &self,
        pull: &Pull<'_>,
        objects: &BothObjects<'_>,
        project: &WorkspaceRow,
        compared: &Comparison,
    ) -> Result<Pulled> {
        let tip = read_commit(objects, &pull.tip)?;
        let (_, base) = self.base_commit(pull, objects, compared)?;
        refuse_moved_submodules(objects, &base, &tip)?;
        let states = ThreeStates {
            base: &state_in(&base),
            ours: &state_of_row(project),
            theirs: &state_in(&tip),
        };
        let options = MergeOptions::default();
        let merge = merge_into_project(self.store(), objects, states, &options)?;
        let conflicts = merge.conflicts.iter().map(|conflict| PendingConflict {
            path: conflict.path.clone(),
            parts: parts_of(conflict),
            kind: conflict.kind.as_str().to_owned(),
            review_id: None,
        });
        Ok(Pulled {
            changed: merge.proposal.edits.keys().cloned().collect(),
            conflicts: conflicts.collect(),
            ..pull.told(PullWay::Merge, compared)
        })
    }

    /// Notes that the project has the newest commit already.
    fn note_taken(&self, pull: &Pull<'_>) -> Result<()> {
        if pull.options.dry_run {
            return Ok(());
        }
        self.store().write(Durability::Synced, |tx| take(tx, pull))
    }

    /// The link of a project, after looking at what became of the last merge of commits.
    pub(crate) fn settled_link(&self, key: WorkspaceKey) -> Result<Link> {
        let settled = self.store().read(|tx| {
            let link = link_in(tx, key)?;
            let link = link.ok_or_else(|| Error::internal("a link is gone"))?;
            Ok((settle(tx, &link)?, link))
        })?;
        let (Some(new), old) = settled else {
            return Ok(settled.1);
        };
        self.store().write(Durability::Synced, |tx| {
            // Somebody else may have come first.
            if link_in(tx, key)?.as_ref() == Some(&old) {
                put_link(tx, key, &new)?;
            }
            Ok(())
        })?;
        Ok(new)
    }
}

/// What a link has become because its pending merge has landed or is gone; none if nothing has.
fn settle(tx: &dyn ReadTx, link: &Link) -> Result<Option<Link>> {
    let Some(pending) = &link.pending else {
        return Ok(None);
    };
    let key = WorkspaceKey(pending.workspace);
    let row = tx.workspace_by_key(key)?;
    let is_open = row.is_some_and(|row| row.state == WorkspaceState::Open);
    let has_landed = match tx.last_merge(key)? {
        Some(merge) => merge.theirs == pending.tip && !receipt(&merge)?.waits_whole(),
        None => false,
    };
    let new = Link {
        taken: if has_landed { pending.tip } else { link.taken },
        pending: link.pending.clone().filter(|_| is_open),
        ..link.clone()
    };
    Ok((new != *link).then_some(new))
}

fn take(tx: &mut dyn WriteTx, pull: &Pull<'_>) -> Result<()> {
    change_link(tx, pull.key, |link| link.taken = pull.tip)
}

fn set_pending(tx: &mut dyn WriteTx, pull: &Pull<'_>, workspace: WorkspaceKey) -> Result<()> {
    change_link(tx, pull.key, |link| {
        link.pending = Some(PendingPull {
            workspace: workspace.0,
            tip: pull.tip,
        });
    })
}

fn refuse_changed(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<()> {
    match is_unmoved(tx, row)? {
        true => Ok(()),
        false => Err(Error::new(
            ErrorCode::WorkspaceBusy,
            format!("the workspace `{}` was changed meanwhile", row.id),
        )
        .with_hint("nothing was changed; try again")),
    }
}

/// The name of the workspace whose conflicts wait; none if there is none.
pub(crate) fn waiting_name(tx: &dyn ReadTx, link: &Link) -> Result<Option<WorkspaceId>> {
    let Some(pending) = &link.pending else {
        return Ok(None);
    };
    let row = tx.workspace_by_key(WorkspaceKey(pending.workspace))?;
    let open = row.filter(|row| row.state == WorkspaceState::Open);
    Ok(open.map(|row| row.id))
}
