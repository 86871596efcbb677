//! Projects, forks, merges and reviews on behalf of a principal.

use std::path::{Path, PathBuf};

use offshoot_core::{
    AgentId, Error, ErrorCode, ObjectId, Operator, ProjectId, RelPath, Result, WorkspaceId,
};
use offshoot_store::ReadTx;

use super::{Access, Operation, Reach};
use crate::access::agent_tree::workspace_reached;
use crate::content::state::StateEdits;
use crate::merge::log::no_merge;
use crate::merge::protect::needs_owner;
use crate::merge::review_row::no_review;
use crate::{
    BlameLine, BlameTarget, CompleteOptions, Completed, Content, DirNode, FileVersion, Fork,
    ForkOptions, ImportOptions, Imported, LandsIn, MergeReceipt, MergeSettings, OpenFile, Project,
    ProjectDifference, ProjectEntry, ProjectImport, ProjectSynced, Resolution, Resolved, Review,
    Snapshot, Updated, WriteOptions,
};

/// Where on the host a project comes from.
pub struct ProjectSource<'a> {
    /// The directory, or the git repository.
    pub path: &'a Path,
    /// Take the files of a git repository as they are, without its history.
    pub files: bool,
    /// How files are taken.
    pub options: ImportOptions,
}

impl Access {
    /// See [`Projects::list_projects`](crate::Projects::list_projects); those out of reach are left out.
    pub fn projects(&self, after: Option<&ProjectId>, limit: usize) -> Result<Vec<Project>> {
        match &self.principal.scope.reach {
            Reach::Everything => self.rooms.projects.list_projects(after, limit),
            Reach::Project(own) if after.is_none_or(|after| own > after) => {
                match self.rooms.projects.project(own) {
                    Ok(project) => Ok(vec![project]),
                    Err(error) if error.code() == ErrorCode::ProjectNotFound => Ok(Vec::new()),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(Vec::new()),
        }
    }

    /// See [`Projects::project`](crate::Projects::project).
    pub fn project(&self, id: &ProjectId) -> Result<Project> {
        self.check_project(id)?;
        self.rooms.projects.project(id)
    }

    /// See [`Projects::create_project`](crate::Projects::create_project).
    pub fn create_project(&self, id: &ProjectId) -> Result<Project> {
        self.principal.check_everything()?;
        self.recording_key(|also| {
            self.rooms
                .projects
                .create_project_and(id, also, &self.cause)
        })
    }

    /// Creates a project from a directory or a git repository of the host: for admins alone, who
    /// may read all of it anyway.
    pub fn import_project(&self, id: &ProjectId, source: &ProjectSource<'_>) -> Result<Imported> {
        self.principal.check_everything()?;
        let from = source.path;
        let is_git = from.join(".git").exists()
            || (from.join("HEAD").is_file() && from.join("objects").is_dir());
        if !is_git || source.files || source.options.ignore_rules {
            let options = &source.options;
            return self.recording_key(|also| {
                self.rooms.projects.import_dir_and(
                    id,
                    from,
                    options,
                    &mut |_| {},
                    also,
                    &self.cause,
                )
            });
        }
        if source.options.label.is_some() {
            return Err(
                Error::invalid("the commits of a git repository keep their messages")
                    .with_hint("leave `label` out, or import the files alone with `files`"),
            );
        }
        self.recording_key(|also| {
            self.rooms
                .projects
                .import_git_and(id, from, &mut |_| {}, also, &self.cause)
        })
    }

    /// See [`Projects::sync_project_from`](crate::Projects::sync_project_from); for admins alone, for it reads the host.
    pub fn sync_project(
        &self,
        id: &ProjectId,
        dir: &Path,
        options: &ImportOptions,
    ) -> Result<ProjectSynced> {
        self.check_project(id)?;
        self.principal.check_everything()?;
        self.rooms
            .projects
            .sync_project_from(id, dir, options, &mut |_| {}, &self.cause)
    }

    /// See [`Projects::delete_project`](crate::Projects::delete_project).
    pub fn delete_project(&self, id: &ProjectId) -> Result<Option<ObjectId>> {
        self.check_project(id)?;
        self.principal.check_everything()?;
        self.rooms.projects.delete_project(id, &self.cause)
    }

    /// See [`Projects::project_snapshots`](crate::Projects::project_snapshots).
    pub fn project_snapshots(
        &self,
        id: &ProjectId,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Snapshot>> {
        self.check_project(id)?;
        self.rooms.projects.project_snapshots(id, before, limit)
    }

    /// See [`Projects::project_tree`](crate::Projects::project_tree); what may not be seen is left out.
    pub fn project_tree(&self, id: &ProjectId, at: Option<&str>) -> Result<DirNode> {
        self.check_project(id)?;
        let mut root = self.rooms.projects.project_tree(id, at)?;
        self.prune(&mut root);
        Ok(root)
    }

    /// See [`Projects::project_entries`](crate::Projects::project_entries); what may not be seen is left out.
    pub fn project_entries(
        &self,
        id: &ProjectId,
        at: Option<&str>,
        dir: &RelPath,
        deep: bool,
    ) -> Result<Vec<ProjectEntry>> {
        self.check_project(id)?;
        if !self.principal.sees(dir) {
            self.principal.allows(Operation::Read, dir)?;
        }
        let mut entries = self.rooms.projects.project_entries(id, at, dir, deep)?;
        entries.retain(|entry| self.principal.sees(&entry.path));
        Ok(entries)
    }

    /// See [`Projects::open_project_file`](crate::Projects::open_project_file).
    pub fn open_project_file(
        &self,
        id: &ProjectId,
        at: Option<&str>,
        path: &RelPath,
    ) -> Result<OpenFile> {
        self.check_project(id)?;
        self.principal.allows(Operation::Read, path)?;
        self.rooms.projects.open_project_file(id, at, path)
    }

    /// See [`Projects::put_in_project`](crate::Projects::put_in_project).
    pub fn put_in_project(
        &self,
        id: &ProjectId,
        path: &RelPath,
        content: Content<'_>,
        options: &WriteOptions,
    ) -> Result<Snapshot> {
        self.check_project(id)?;
        self.principal.allows(Operation::Write, path)?;
        // An unknown project is told before its content is taken in.
        self.rooms.projects.project(id)?;
        if !self.may_change_protected() {
            self.rooms
                .projects
                .refuse_protected(id, [path].into_iter())?;
        }
        self.rooms
            .projects
            .put_in_project(id, path, content, options, &self.cause)
    }

    /// See [`Projects::project_difference`](crate::Projects::project_difference); paths that may not be read are left out.
    pub fn project_difference(
        &self,
        id: &ProjectId,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<ProjectDifference> {
        self.check_project(id)?;
        let mut found = self.rooms.projects.project_difference(id, from, to)?;
        let changes = &mut found.set.changes;
        changes.retain(|change| self.principal.reads(&change.path));
        Ok(found)
    }

    /// See [`Workspaces::walk_project_files`](crate::Workspaces::walk_project_files); those that may not be read are left out.
    pub fn walk_project_files(
        &self,
        id: &ProjectId,
        after: Option<&RelPath>,
        limit: usize,
    ) -> Result<Vec<RelPath>> {
        self.check_project(id)?;
        let reads = |path: &RelPath| self.principal.reads(path);
        self.rooms
            .workspaces
            .walk_project_files(id, after, limit, &reads)
    }

    /// See [`Projects::project_versions`](crate::Projects::project_versions).
    pub fn project_versions(&self, id: &ProjectId, path: &RelPath) -> Result<Vec<FileVersion>> {
        self.check_project(id)?;
        self.principal.allows(Operation::Read, path)?;
        self.rooms.projects.project_versions(id, path)
    }

    /// See [`History::blame`](crate::History::blame), of a project.
    pub fn blame_project(
        &self,
        id: &ProjectId,
        at: Option<&str>,
        path: &RelPath,
    ) -> Result<Vec<BlameLine>> {
        self.check_project(id)?;
        self.principal.allows(Operation::Read, path)?;
        self.rooms
            .history
            .blame(BlameTarget::Project(id), at, path, &self.cause)
    }

    /// See [`History::blame`](crate::History::blame), of a workspace. A principal that sees one
    /// workspace alone does not learn the names of others who wrote what it began with.
    pub fn blame_workspace(
        &self,
        id: &WorkspaceId,
        at: Option<&str>,
        path: &RelPath,
    ) -> Result<Vec<BlameLine>> {
        self.check_reach(id)?;
        self.principal.allows(Operation::Read, path)?;
        let mut lines =
            self.rooms
                .history
                .blame(BlameTarget::Workspace(id), at, path, &self.cause)?;
        if self.sees_one_workspace() {
            for line in &mut lines {
                self.hide_others(&mut line.operator, &mut line.agent, &mut line.message_id);
            }
        }
        Ok(lines)
    }

    /// Takes the names of others out of who wrote something and why.
    pub(super) fn hide_others(
        &self,
        operator: &mut String,
        claim: &mut Option<String>,
        message_id: &mut Option<String>,
    ) {
        let own = self.principal.operator.as_str();
        let agent = match &self.principal.scope.reach {
            Reach::Agent(agent) => agent.as_str(),
            _ => own,
        };
        let kinds = [Operator::user(), Operator::system(), Operator::outside()];
        if operator == own && claim.as_deref().is_none_or(|one| one == agent) {
            return;
        }
        if !kinds.iter().any(|kind| kind.as_str() == operator) {
            *operator = Operator::system().to_string();
        }
        *claim = claim.take().filter(|one| one == agent);
        *message_id = None;
    }

    /// Begins to take many files into a project; see [`Projects::begin_import`](crate::Projects::begin_import).
    pub fn begin_import(&self, id: &ProjectId) -> Result<ProjectImport> {
        self.check_whole_project(Operation::Write, id)?;
        match self.may_change_protected() {
            true => self.rooms.projects.begin_import(id),
            false => self.rooms.projects.begin_unprotected_import(id),
        }
    }

    /// See [`Forks::list_forks`](crate::Forks::list_forks).
    pub fn forks(&self, project: &ProjectId) -> Result<Vec<Fork>> {
        self.forks_page(project, None, 0)
    }

    /// See [`Forks::forks_page`](crate::Forks::forks_page).
    pub fn forks_page(
        &self,
        project: &ProjectId,
        after: Option<&WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<Fork>> {
        self.check_project(project)?;
        self.rooms.forks.forks_page(project, after, limit)
    }

    /// A fork of a project, as it is now.
    pub fn fork_named(&self, id: &WorkspaceId) -> Result<Fork> {
        self.check_reach(id)?;
        let fork = self.rooms.forks.fork_of(id)?;
        fork.ok_or_else(|| Error::invalid(format!("`{id}` is no fork")))
    }

    /// Forks a project. A principal that may know the path gets it; for others the directory is
    /// made when it is needed.
    pub fn fork(
        &self,
        project: &ProjectId,
        options: &ForkOptions,
    ) -> Result<(Fork, Option<PathBuf>)> {
        self.check_whole_project(Operation::Write, project)?;
        if let (Reach::Project(_), Some(at)) = (&self.principal.scope.reach, &options.at) {
            self.rooms.check_fork_point(project, at)?;
        }
        // A token of a project may neither move the agents of another one into its forks nor learn
        // their priority.
        let out_of_reach = |agent: &AgentId| self.agent(agent).is_err();
        let is_of_others = options.agent.as_ref().is_some_and(out_of_reach);
        let options = &ForkOptions {
            leave_agent: options.leave_agent || is_of_others,
            priority: options.priority.or(is_of_others.then_some(0)),
            ..options.clone()
        };
        if self.sees_host_paths() {
            let (fork, path) = self.recording_key(|also| {
                self.rooms
                    .forks
                    .fork_out_and(project, options, also, &self.cause)
            })?;
            return Ok((fork, Some(path)));
        }
        let fork = self.recording_key(|also| {
            self.rooms
                .forks
                .fork_and(project, options, also, &self.cause)
        })?;
        Ok((fork, None))
    }

    /// Whether this principal has a project, or all of them, to fork.
    pub fn may_fork(&self) -> bool {
        let root = RelPath::root();
        !self.sees_one_workspace()
            && self
                .principal
                .allows_all_below(Operation::Write, &root)
                .is_ok()
    }

    /// The path of the fork that an agent has of a project; without an agent that of the only fork.
    pub fn path_of_fork(&self, project: &ProjectId, agent: Option<&AgentId>) -> Result<PathBuf> {
        self.check_project(project)?;
        self.check_owner()?;
        let forks = self.rooms.forks.list_forks(project)?;
        let found = match (agent, &forks[..]) {
            (Some(agent), forks) => {
                let reached = |tx: &dyn ReadTx| workspace_reached(tx, agent);
                let own = self.rooms.store().read(reached)?;
                let named = forks.iter().find(|fork| fork.agent.as_ref() == Some(agent));
                named.or_else(|| {
                    let mut forks = forks.iter();
                    forks.find(|fork| Some(&fork.workspace.id) == own.as_ref())
                })
            }
            (None, [only]) => Some(only),
            (None, []) => None,
            (None, several) => return Err(several_forks(project, several)),
        };
        let fork = found.ok_or_else(|| {
            let message = match agent {
                Some(agent) => {
                    format!("the agent `{agent}` has no fork of the project `{project}`")
                }
                None => format!("the project `{project}` has no fork"),
            };
            Error::new(ErrorCode::WorkspaceNotAssigned, message)
                .with_hint("fork the project for an agent first")
        })?;
        self.rooms.workspaces.hand_out_path(&fork.workspace.id)
    }

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

/// The most forks that an error names where one was meant.
const MOST_NAMED: usize = 10;

fn several_forks(project: &ProjectId, forks: &[Fork]) -> Error {
    let names = forks.iter().map(|fork| fork.workspace.id.as_str());
    let names: Vec<&str> = names.take(MOST_NAMED).collect();
    Error::invalid(format!(
        "the project `{project}` has {} forks, and the request names none",
        forks.len()
    ))
    .with_hint(format!("give `agent_id`, such as {}", names.join(", ")))
    .with_details(serde_json::json!({ "workspaces": names }))
}
