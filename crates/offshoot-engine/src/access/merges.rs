//! Merges on behalf of a principal: updating, completing, undoing, and single reviews.

use offshoot_core::{AgentId, Error, ErrorCode, ProjectId, RelPath, Result, WorkspaceId};

use super::{Access, Operation, Reach};
use crate::content::state::StateEdits;
use crate::merge::log::no_merge;
use crate::merge::protect::needs_owner;
use crate::merge::review_row::no_review;
use crate::{
    CompleteOptions, Completed, Content, LandsIn, MergeReceipt, MergeSettings, Resolution,
    Resolved, Review, Snapshot, Updated,
};

impl Access {
    /// See [`Merges::update`](crate::Merges::update).
    pub fn update(&self, id: &WorkspaceId, dry_run: bool) -> Result<Updated> {
        self.check_all_below(Operation::Restore, id, &RelPath::root())?;
        self.rooms.merges.update(id, dry_run, &self.cause)
    }

    /// See [`Merges::complete`](crate::Merges::complete) and [`Merges::plan_completion`](crate::Merges::plan_completion).
    pub fn complete(
        &self,
        id: &WorkspaceId,
        options: &CompleteOptions,
        dry_run: bool,
    ) -> Result<Completed> {
        self.check_completes(id)?;
        for operation in [Operation::Snapshot, Operation::Write] {
            self.principal
                .allows_all_below(operation, &RelPath::root())?;
        }
        let mut completed = match dry_run {
            true => self
                .rooms
                .merges
                .plan_completion(id, options, &self.cause)?,
            false => self.rooms.merges.complete(id, options, &self.cause)?,
        };
        if !dry_run && completed.snapshot.is_some() {
            self.rooms.links.push_if_auto(&completed.project.parse()?);
        }
        if self.sees_one_workspace() {
            for decided in &mut completed.decided {
                decided.lost_by = None;
                decided.lost_message_id = None;
                decided.ours_by = None;
                decided.ours_message_id = None;
            }
        }
        Ok(completed)
    }

    /// Whether a conflict of a merge still waits: the receipt of an old merge also lists those that
    /// were decided since.
    pub fn still_waits(&self, completed: &Completed) -> Result<bool> {
        for conflict in &completed.conflicts {
            let Some(id) = &conflict.review_id else {
                return Ok(true);
            };
            if self.rooms.merges.review(id)?.state != "resolved" {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The workspace that a completion means which names none: the one that the credential stands
    /// for, also when it was merged before.
    pub fn workspace_to_complete(&self) -> Result<WorkspaceId> {
        match &self.principal.scope.reach {
            Reach::Agent(agent) => self.workspace_of_agent(&agent.clone()),
            _ => self.own_workspace(),
        }
    }

    /// The workspace that an agent completes, for routes that name the agent instead.
    pub fn workspace_of_agent(&self, agent: &AgentId) -> Result<WorkspaceId> {
        let none = || {
            Error::new(
                ErrorCode::WorkspaceNotAssigned,
                format!("the agent `{agent}` has no workspace"),
            )
        };
        let mut meant = vec![self.rooms.completed_by_agent(agent)?];
        if let Reach::Project(_) = self.principal.scope.reach {
            // A fork may have the name of an agent of another project.
            meant.push(Some(agent.as_str().parse()?));
        }
        for id in meant.into_iter().flatten() {
            let reached = self
                .check_completes(&id)
                .and_then(|()| self.rooms.knows(&id));
            match reached {
                Ok(true) => return Ok(id),
                Ok(false) => {}
                Err(error) if error.code() == ErrorCode::WorkspaceNotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(none())
    }

    /// See [`Merges::list_merges`](crate::Merges::list_merges).
    pub fn merges(
        &self,
        project: &ProjectId,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<MergeReceipt>> {
        self.check_whole_project(Operation::Read, project)?;
        self.rooms.merges.list_merges(project, before, limit)
    }

    /// See [`Merges::list_all_merges`](crate::Merges::list_all_merges); those of projects out of
    /// reach are left out. A principal that sees one workspace alone sees none.
    pub fn all_merges(&self, before: Option<&str>, limit: usize) -> Result<Vec<MergeReceipt>> {
        self.principal
            .allows_all_below(Operation::Read, &RelPath::root())?;
        match &self.principal.scope.reach {
            Reach::Everything => self.rooms.merges.list_all_merges(before, limit),
            Reach::Project(own) => match self.merges(own, before, limit) {
                Err(error) if error.code() == ErrorCode::ProjectNotFound => Ok(Vec::new()),
                found => found,
            },
            Reach::Agent(_) | Reach::Workspace(_) => Ok(Vec::new()),
        }
    }

    /// See [`Merges::receipt`](crate::Merges::receipt).
    pub fn merge(&self, id: &str) -> Result<MergeReceipt> {
        self.check_not_alone(no_merge(id))?;
        let found = self.rooms.merges.receipt(id)?;
        self.check_part_of(&found.completed.project, no_merge(id))?;
        Ok(found)
    }

    /// See [`Merges::undo_merge`](crate::Merges::undo_merge). Returns the name of the project too.
    pub fn undo_merge(&self, id: &str) -> Result<(String, Snapshot)> {
        let project = self.merge(id)?.completed.project;
        self.principal
            .allows_all_below(Operation::Write, &RelPath::root())?;
        let name = project.parse()?;
        let allowed = |edits: &StateEdits| self.refuse_protected(&name, edits);
        let snapshot = self.rooms.merges.undo_merge_if(id, allowed, &self.cause)?;
        Ok((project, snapshot))
    }

    /// Refuses edits of protected paths by those who may not change them.
    fn refuse_protected(&self, project: &ProjectId, edits: &StateEdits) -> Result<()> {
        match self.may_change_protected() {
            true => Ok(()),
            false => self.rooms.projects.refuse_protected(project, edits.keys()),
        }
    }

    /// See [`Merges::reviews`](crate::Merges::reviews), of one project.
    pub fn reviews(
        &self,
        project: &ProjectId,
        all: bool,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Review>> {
        self.check_whole_project(Operation::Read, project)?;
        self.rooms.merges.reviews_after(project, all, after, limit)
    }

    /// See [`Merges::review`](crate::Merges::review). A principal that sees one workspace alone
    /// sees what an update of it left to decide, and not who is on the other side.
    pub fn review(&self, id: &str) -> Result<Review> {
        let mut found = self.rooms.merges.review(id)?;
        if !self.sees_one_workspace() {
            self.check_part_of(&found.project, no_review(id))?;
            return Ok(found);
        }
        let own = found.lands_in == LandsIn::Workspace
            && self.check_reach(&found.workspace.parse()?).is_ok();
        if !own {
            return Err(no_review(id));
        }
        self.principal
            .allows_all_below(Operation::Read, &RelPath::root())?;
        found.ours_by = None;
        Ok(found)
    }

    /// See [`Merges::propose`](crate::Merges::propose).
    pub fn propose(&self, id: &str, content: Content<'_>, note: Option<&str>) -> Result<Review> {
        self.review(id)?;
        self.principal
            .allows_all_below(Operation::Write, &RelPath::root())?;
        self.rooms.merges.propose(id, content, note, &self.cause)?;
        self.review(id)
    }

    /// See [`Merges::resolve`](crate::Merges::resolve).
    pub fn resolve(&self, id: &str, how: Resolution<'_>) -> Result<Resolved> {
        self.review(id)?;
        self.principal
            .allows_all_below(Operation::Write, &RelPath::root())?;
        if !self.may_change_protected() && self.rooms.merges.is_protected_review(id)? {
            return Err(needs_owner(id));
        }
        let over_protected = self.may_change_protected();
        let mut resolved = self
            .rooms
            .merges
            .resolve_as(id, how, over_protected, &self.cause)?;
        resolved.review = self.review(id)?;
        if resolved.snapshot.is_some() {
            let project = resolved.review.project.parse()?;
            self.rooms.links.push_if_auto(&project);
        }
        Ok(resolved)
    }

    /// A principal that sees one workspace alone sees no merges and reviews, not even whether they
    /// exist.
    fn check_not_alone(&self, error: Error) -> Result<()> {
        match self.sees_one_workspace() {
            true => Err(error),
            false => Ok(()),
        }
    }

    fn check_part_of(&self, project: &str, error: Error) -> Result<()> {
        match self.check_project(&project.parse()?) {
            Ok(()) => self
                .principal
                .allows_all_below(Operation::Read, &RelPath::root()),
            Err(_) => Err(error),
        }
    }

    /// See [`Projects::merge_settings`](crate::Projects::merge_settings).
    pub fn merge_settings(&self, project: &ProjectId) -> Result<MergeSettings> {
        self.check_project(project)?;
        self.rooms.projects.merge_settings(project)
    }

    /// See [`Projects::set_merge_settings`](crate::Projects::set_merge_settings).
    pub fn set_merge_settings(&self, project: &ProjectId, settings: &MergeSettings) -> Result<()> {
        self.check_whole_project(Operation::Write, project)?;
        let allowed = |known: &MergeSettings| {
            if settings.protect == known.protect || self.may_change_protected() {
                return Ok(());
            }
            Err(Error::new(
                ErrorCode::PermissionDenied,
                "what is protected in a project is for its owner to say",
            )
            .with_hint("leave `protect` out, or use an admin token"))
        };
        self.rooms
            .projects
            .set_merge_settings_if(project, settings, allowed, &self.cause)
    }

    /// Whether protected paths, and what is protected, may be changed: by the owner and by admins.
    /// A token of a project or of an agent may not, or an agent that got one could let its own
    /// changes through.
    pub(super) fn may_change_protected(&self) -> bool {
        self.principal.check_everything().is_ok()
    }
}
