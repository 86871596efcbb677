//! Giving what was merged back to the repository, as commits on a branch.
//!
//! Only objects and one ref are written, by our own code: no hook and no setting of the repository
//! runs. The branch moves forward or not at all, and never under a work tree.

use std::path::PathBuf;

use offshoot_core::{Error, ErrorCode, ObjectId, ProjectId, Result};
use offshoot_git::{
    CommitGraph, ExportProgress, GitRepository, full_branch_name, short_branch_name,
};
use offshoot_store::{Durability, WorkspaceKey};

use crate::content::objects::StoredObjects;
use crate::content::rows::open_project;
use crate::formats::{Link, PushedBranch};
use crate::link::Links;
use crate::link::incoming::BothObjects;
use crate::project::link::change_link;

/// The branch that is pushed to if none is named: one of our own.
pub(crate) const OWN_BRANCH: &str = "offshoot/main";

/// How a push is done.
#[derive(Clone, Debug, Default)]
pub struct PushOptions {
    /// The branch; none is `offshoot/main`.
    pub to: Option<String>,
    /// Say what would happen, and change nothing.
    pub dry_run: bool,
    /// What was fetched of a repository on another machine. The branch is written there; the
    /// caller lets git push it and calls [`Links::note_pushed`] then.
    pub fetched: Option<PathBuf>,
}

/// What a push did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The project.
    pub project: ProjectId,
    /// The branch.
    pub branch: String,
    /// What it pointed at before; none if it is new.
    pub before: Option<ObjectId>,
    /// The newest snapshot of the project, which it points at now.
    pub commit: ObjectId,
    /// How many commits the branch got.
    pub commits: usize,
    /// Objects that were new to the repository.
    pub objects: u64,
}

impl Links {
    /// Makes a branch of the repository point at the newest snapshot of a project. If the branch
    /// has commits that the project does not have, or is checked out, nothing changes and the
    /// error says what to do. The cost follows what the repository lacks.
    pub fn push(
        &self,
        id: &ProjectId,
        options: &PushOptions,
        progress: &mut dyn FnMut(ExportProgress),
    ) -> Result<Pushed> {
        let (key, _) = self.usable_link(id)?;
        let _turn = self.turn(key)?;
        let link = self.settled_link(key)?;
        let branch = options.to.as_deref().unwrap_or(OWN_BRANCH);
        let branch = short_branch_name(branch).to_owned();
        let name = full_branch_name(&branch)?;
        let repository = self.open_repository(&link, options.fetched.as_ref())?;
        if repository.checked_out()?.contains(&name) {
            return Err(checked_out(&branch));
        }
        let (mut pushed, from) = self.plan_push(id, &branch, &repository)?;
        if options.dry_run {
            return Ok(pushed);
        }
        let place = options.fetched.clone();
        let place = place.unwrap_or_else(|| PathBuf::from(&link.repository));
        let exported = (self.workspaces).export_project_git(id, &place, Some(&branch), progress);
        let exported = exported.map_err(|error| match error.code() {
            ErrorCode::PreconditionFailed => moved(&branch, &link),
            _ => error,
        })?;
        if exported.head != pushed.commit {
            // A merge landed meanwhile, and went along.
            pushed.commit = exported.head;
            let objects = BothObjects::new(StoredObjects::new(self.store(), None), &repository);
            let apart = CommitGraph::new(&objects).divergence(exported.head, from)?;
            pushed.commits = apart.one;
        }
        pushed.objects = exported.report.objects;
        if options.fetched.is_none() {
            self.note_pushed_in(key, &pushed)?;
        }
        Ok(pushed)
    }

    /// Notes that git has pushed a branch to the repository.
    pub fn note_pushed(&self, pushed: &Pushed) -> Result<()> {
        let (key, _) = self.usable_link(&pushed.project)?;
        let _turn = self.turn(key)?;
        self.note_pushed_in(key, pushed)
    }

    fn note_pushed_in(&self, key: WorkspaceKey, pushed: &Pushed) -> Result<()> {
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            change_link(tx, key, |link| {
                // The followed branch has what the project has: there is nothing to take from it.
                if pushed.branch == link.branch {
                    link.taken = pushed.commit;
                }
                link.pushed = Some(PushedBranch {
                    branch: pushed.branch.clone(),
                    commit: pushed.commit,
                    at: at.0,
                });
            })
        })
    }

    /// What a push would do, and the commit that the branch grows out of.
    fn plan_push(
        &self,
        id: &ProjectId,
        branch: &str,
        repository: &GitRepository,
    ) -> Result<(Pushed, ObjectId)> {
        let head = self.store().read(|tx| Ok(open_project(tx, id)?.head))?;
        let head = head.ok_or_else(|| Error::internal("a linked project has no snapshot"))?;
        let before = repository.branch(branch)?;
        let objects = BothObjects::new(StoredObjects::new(self.store(), None), repository);
        let mut graph = CommitGraph::new(&objects);
        let link = self.projects.link(id)?;
        let link = link.ok_or_else(|| Error::internal("a link is gone"))?;
        // A branch that is new grows out of the one that is followed.
        let from = match before {
            Some(before) => before,
            None => repository.branch(&link.branch)?.unwrap_or(link.taken),
        };
        let apart = graph.divergence(head, from)?;
        if before.is_some() && !apart.is_contained(from) {
            return Err(moved(branch, &link));
        }
        let pushed = Pushed {
            project: id.clone(),
            branch: branch.to_owned(),
            before,
            commit: head,
            commits: apart.one,
            objects: 0,
        };
        Ok((pushed, from))
    }
}

fn checked_out(branch: &str) -> Error {
    Error::new(
        ErrorCode::AlreadyExists,
        format!("the branch `{branch}` is checked out in the repository"),
    )
    .with_hint(format!(
        "`offshoot push` writes the branch `{OWN_BRANCH}`; bring it into `{branch}` there with \
         `git merge {OWN_BRANCH}`"
    ))
}

fn moved(branch: &str, link: &Link) -> Error {
    let error = Error::new(
        ErrorCode::PreconditionFailed,
        format!("the branch `{branch}` has commits that the project does not have"),
    );
    error.with_hint(match branch == link.branch {
        true => "pull first: `offshoot pull`, and push again".to_owned(),
        false => format!(
            "nothing was changed; pull follows `{}`: bring those commits there, or push to \
             another branch with `--to`",
            link.branch
        ),
    })
}
