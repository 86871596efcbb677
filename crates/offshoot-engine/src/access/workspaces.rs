//! Workspaces on behalf of a principal: their life, history, snapshots and restores.
//!
//! Each function asks the check of `acting.rs` first; nothing else is decided here.

use std::path::PathBuf;

use offshoot_core::{
    Cause, ChangeSet, Error, ErrorCode, Layout, ObjectId, Operator, RelPath, Result, WorkspaceId,
};
use offshoot_store::HistoryRow;

use super::{Access, Operation, Reach};
use crate::content::rows::no_workspace;
use crate::{
    Changes, Deleted, Info, Metadata, Point, Quota, Restored, Snapshot, Synced, Taken, Workspace,
};

impl Access {
    /// The workspace that the credential stands for, for callers that name none.
    pub fn own_workspace(&self) -> Result<WorkspaceId> {
        match &self.principal.scope.reach {
            Reach::Workspace(id) => self.one_workspace()?.ok_or_else(|| no_workspace(id)),
            Reach::Agent(_) => {
                let id = self.one_workspace()?.ok_or_else(not_assigned)?;
                match self.rooms.workspaces.workspace(&id) {
                    Ok(open) => Ok(open.id),
                    Err(error) if error.code() == ErrorCode::WorkspaceNotFound => {
                        Err(not_assigned())
                    }
                    Err(error) => Err(error),
                }
            }
            Reach::Everything | Reach::Project(_) => Err(Error::new(
                ErrorCode::WorkspaceNotAssigned,
                "this token stands for no single workspace",
            )
            .with_hint("use a token of an agent or a workspace")),
        }
    }

    /// See [`Workspaces::list_workspaces`](crate::Workspaces::list_workspaces); those out of reach are left out.
    pub fn workspaces(&self, after: Option<&WorkspaceId>, limit: usize) -> Result<Vec<Workspace>> {
        let mut own = match &self.principal.scope.reach {
            Reach::Everything => return self.rooms.workspaces.list_workspaces(after, limit),
            Reach::Project(project) => self.rooms.fork_workspaces(project)?,
            Reach::Agent(_) | Reach::Workspace(_) => self.own_workspace_if_open()?,
        };
        own.retain(|workspace| after.is_none_or(|after| workspace.id > *after));
        if limit > 0 {
            own.truncate(limit);
        }
        Ok(own)
    }

    fn own_workspace_if_open(&self) -> Result<Vec<Workspace>> {
        let found = self
            .own_workspace()
            .and_then(|id| self.rooms.workspaces.workspace(&id));
        let gone = [
            ErrorCode::WorkspaceNotAssigned,
            ErrorCode::WorkspaceNotFound,
        ];
        match found {
            Ok(workspace) => Ok(vec![workspace]),
            Err(error) if gone.contains(&error.code()) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// See [`Workspaces::workspace`](crate::Workspaces::workspace).
    pub fn workspace(&self, id: &WorkspaceId) -> Result<Workspace> {
        self.check_reach(id)?;
        self.rooms.workspaces.workspace(id)
    }

    /// See [`Workspaces::create_workspace`](crate::Workspaces::create_workspace).
    pub fn create_workspace(
        &self,
        id: Option<WorkspaceId>,
        layout: Layout,
        quota: Quota,
    ) -> Result<Workspace> {
        self.principal.check_everything()?;
        self.recording_key(|also| {
            self.rooms
                .workspaces
                .create_workspace_and(id, layout, quota, also, &self.cause)
        })
    }

    /// See [`Workspaces::create_workspace_from`](crate::Workspaces::create_workspace_from).
    pub fn create_workspace_from(
        &self,
        id: Option<WorkspaceId>,
        snapshot: &str,
        quota: Quota,
    ) -> Result<Workspace> {
        self.principal.check_everything()?;
        self.recording_key(|also| {
            self.rooms
                .workspaces
                .create_workspace_from_and(id, snapshot, quota, also, &self.cause)
        })
    }

    /// See [`Workspaces::delete_workspace`](crate::Workspaces::delete_workspace). A token of a
    /// project may delete its forks.
    pub fn delete_workspace(&self, id: &WorkspaceId, include_ignored: bool) -> Result<Deleted> {
        self.check_reach(id)?;
        self.check_owner()?;
        self.rooms
            .workspaces
            .delete_workspace_with(id, include_ignored, &self.cause)
    }

    /// See [`Workspaces::set_quota`](crate::Workspaces::set_quota).
    pub fn set_quota(&self, id: &WorkspaceId, quota: Quota) -> Result<Workspace> {
        self.check_reach(id)?;
        self.principal.check_everything()?;
        self.rooms.workspaces.set_quota(id, quota, &self.cause)
    }

    /// See [`Workspaces::hand_out_path`](crate::Workspaces::hand_out_path). Host paths are for
    /// admins; a token of a project gets those of its forks, an agent never.
    pub fn hand_out_path(&self, id: &WorkspaceId) -> Result<PathBuf> {
        self.check_reach(id)?;
        self.check_owner()?;
        self.rooms.workspaces.hand_out_path(id)
    }

    /// See [`Workspaces::info`](crate::Workspaces::info).
    pub fn info(&self, id: &WorkspaceId) -> Result<Info> {
        self.check_reach(id)?;
        self.rooms.workspaces.info(id)
    }

    /// See [`History::metadata`](crate::History::metadata).
    pub fn metadata(&self, id: &WorkspaceId, path: &RelPath) -> Result<Metadata> {
        self.authorize(Operation::Read, id, path)?;
        self.rooms
            .history
            .metadata_as(id, path, &self.line_filter())
    }

    /// See [`History::lines`](crate::History::lines); lines of paths that may not be read are left out.
    pub fn history(
        &self,
        id: &WorkspaceId,
        path: Option<&RelPath>,
        limit: usize,
    ) -> Result<Vec<HistoryRow>> {
        Ok(self.history_page(id, path, None, limit)?.0)
    }

    /// Like [`history`](Self::history), of those before the line of this number, and where the next
    /// page begins. What may not be seen is left out of a page.
    pub fn history_page(
        &self,
        id: &WorkspaceId,
        path: Option<&RelPath>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<(Vec<HistoryRow>, Option<i64>)> {
        match path {
            Some(path) => self.check(Operation::Read, id, path)?,
            None => self.check_reach(id)?,
        }
        let history = &self.rooms.history;
        let mut lines = history.lines_before(id, path, before, limit)?;
        let is_full = limit > 0 && lines.len() >= limit;
        let next = lines.last().filter(|_| is_full).map(|row| row.seq);
        lines.retain(|row| self.principal.sees_line(row));
        Ok((lines, next))
    }

    /// See [`Workspaces::diff`](crate::Workspaces::diff); changes of paths that may not be read are
    /// left out. A principal that sees one workspace alone does not see what its project has
    /// become.
    pub fn diff(&self, id: &WorkspaceId, from: Point<'_>, to: Point<'_>) -> Result<ChangeSet> {
        self.check_reach(id)?;
        let has_project = [from, to].iter().any(|one| matches!(one, Point::Project));
        if has_project && self.sees_one_workspace() {
            return Err(Error::new(
                ErrorCode::PermissionDenied,
                "the token does not reach the project of the workspace",
            )
            .with_hint("compare with the base, or update the workspace first"));
        }
        let mut set = self.rooms.workspaces.diff(id, from, to)?;
        set.changes
            .retain(|change| self.principal.reads(&change.path));
        set.ignored.retain(|path| self.principal.sees(path));
        Ok(set)
    }

    /// See [`Synchronizer::changes`](crate::Synchronizer::changes); changes of paths that may not be read are left out.
    pub fn changes(&self, id: &WorkspaceId) -> Result<Changes> {
        self.check_reach(id)?;
        let mut changes = self.rooms.sync.changes(id)?;
        let set = &mut changes.set;
        set.changes
            .retain(|change| self.principal.reads(&change.path));
        set.ignored.retain(|path| self.principal.sees(path));
        changes
            .refused
            .retain(|(path, _)| self.principal.reads(path));
        if let Some(moved) = &mut changes.moved {
            moved.overlap.retain(|path| self.principal.reads(path));
        }
        let too_large = &mut changes.too_large;
        too_large.retain(|file| self.principal.reads(&file.path));
        Ok(changes)
    }

    /// The content that a change of [`Access::diff`] names; empty for none.
    pub fn content_of(&self, id: Option<ObjectId>) -> Result<Vec<u8>> {
        id.map_or(Ok(Vec::new()), |id| self.rooms.workspaces.content_of(&id))
    }

    /// See [`Workspaces::snapshot`](crate::Workspaces::snapshot).
    pub fn snapshot(
        &self,
        id: &WorkspaceId,
        label: Option<&str>,
        include_ignored: bool,
    ) -> Result<Taken> {
        self.check_all_below(Operation::Snapshot, id, &RelPath::root())?;
        self.rooms
            .workspaces
            .snapshot(id, label, include_ignored, &self.cause)
    }

    /// See [`Workspaces::snapshots`](crate::Workspaces::snapshots).
    pub fn snapshots(&self, id: &WorkspaceId, limit: usize) -> Result<Vec<Snapshot>> {
        self.check_reach(id)?;
        let mut found = self.rooms.workspaces.snapshots(id, limit)?;
        if self.sees_one_workspace() && self.rooms.forks.last_fork_of(id)?.is_some() {
            // The first is a snapshot of the project, and tells who made it.
            for snapshot in found.iter_mut().filter(|one| one.number == 1) {
                snapshot.label = None;
                snapshot.cause = Cause::by(Operator::system());
            }
        }
        Ok(found)
    }

    /// See [`Workspaces::restore`](crate::Workspaces::restore).
    pub fn restore(
        &self,
        id: &WorkspaceId,
        snapshot: &str,
        path: Option<&RelPath>,
    ) -> Result<Restored> {
        let root = RelPath::root();
        self.check_all_below(Operation::Restore, id, path.unwrap_or(&root))?;
        self.rooms
            .workspaces
            .restore(id, snapshot, path, &self.cause)
    }

    /// See [`Synchronizer::sync_workspace`](crate::Synchronizer::sync_workspace).
    pub fn sync(&self, id: &WorkspaceId) -> Result<Synced> {
        self.check_reach(id)?;
        let mut synced = self.rooms.sync.sync_workspace(id)?;
        synced
            .changes
            .retain(|change| self.principal.reads(&change.path));
        for change in &mut synced.changes {
            change.from = change.from.take().filter(|from| self.principal.reads(from));
        }
        synced
            .refused
            .retain(|(path, _)| self.principal.reads(path));
        synced.ignored.retain(|path| self.principal.sees(path));
        synced.unsettled.retain(|path| self.principal.reads(path));
        synced
            .too_large
            .retain(|file| self.principal.reads(&file.path));
        Ok(synced)
    }
}

fn not_assigned() -> Error {
    Error::new(
        ErrorCode::WorkspaceNotAssigned,
        "no workspace is assigned to this agent",
    )
}
