//! Projects on behalf of a principal: their files, versions, imports, and blame.

use std::path::Path;

use offshoot_core::{
    Error, ErrorCode, ObjectId, Operator, ProjectId, RelPath, Result, WorkspaceId,
};

use super::{Access, Operation, Reach};
use crate::{
    BlameLine, BlameTarget, Content, DirNode, FileVersion, ImportOptions, Imported, LinkStatus,
    OpenFile, Project, ProjectDifference, ProjectEntry, ProjectImport, ProjectSynced, PullOptions,
    Pulled, PushOptions, Pushed, SetupStatus, Snapshot, WriteOptions,
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

    /// See [`Projects::setup`](crate::Projects::setup).
    pub fn project_setup(&self, id: &ProjectId) -> Result<Option<SetupStatus>> {
        self.check_project(id)?;
        self.rooms.projects.setup(id)
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

    /// See [`Links::sync_directory`](crate::Links::sync_directory); for admins alone, for it reads the host.
    pub fn sync_project(
        &self,
        id: &ProjectId,
        dir: Option<&Path>,
        options: &ImportOptions,
    ) -> Result<ProjectSynced> {
        self.check_project(id)?;
        self.principal.check_everything()?;
        self.rooms
            .links
            .sync_directory(id, dir, options, &mut |_| {}, &self.cause)
    }

    /// See [`Links::status`](crate::Links::status); for admins alone, because a link names a place of the host.
    pub fn link(&self, id: &ProjectId) -> Result<Option<LinkStatus>> {
        self.check_link(id)?;
        self.rooms.links.status(id, None)
    }

    /// See [`Links::pull`](crate::Links::pull); for admins alone, for it reads the host and passes
    /// protected paths.
    pub fn pull(&self, id: &ProjectId, options: &PullOptions) -> Result<Pulled> {
        self.check_link(id)?;
        let links = &self.rooms.links;
        links.pull(id, options, &mut |_| {}, &self.cause)
    }

    /// See [`Links::push`](crate::Links::push); for admins alone, for it writes to the host.
    pub fn push(&self, id: &ProjectId, options: &PushOptions) -> Result<Pushed> {
        self.check_link(id)?;
        self.rooms.links.push(id, options, &mut |_| {})
    }

    fn check_link(&self, id: &ProjectId) -> Result<()> {
        self.check_project(id)?;
        self.principal.check_everything()
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
        self.rooms.history.blame(BlameTarget::Project(id), at, path)
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
        let mut lines = self
            .rooms
            .history
            .blame(BlameTarget::Workspace(id), at, path)?;
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
}
