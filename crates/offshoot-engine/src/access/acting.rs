//! The use cases on behalf of a principal: each asks the one check first.
//!
//! The server and the tools hold an [`Access`] and nothing else, so that no call can go around the
//! check.

use std::path::PathBuf;
use std::sync::Arc;

use offshoot_core::{
    Cause, ChangeSet, Error, ErrorCode, Layout, ObjectId, Operator, RelPath, Result, WorkspaceId,
};
use offshoot_store::HistoryRow;

use super::{Operation, Principal, Reach};
use crate::access::AccessControl;
use crate::content::rows::no_workspace;
use crate::context::idempotency::Noting;
use crate::{
    Changes, Content, Deleted, DirNode, Expect, Info, ListEntry, ListOptions, ListPage, Metadata,
    OpenFile, Point, Quota, Restored, Snapshot, Synced, Taken, TooLarge, WalkEntry, Window,
    Workspace, WorkspaceArchive, WorkspaceImport, WriteOptions, Written,
};

/// The use cases, as one principal may call them.
#[derive(Clone)]
pub struct Access {
    pub(super) rooms: AccessControl,
    pub(super) principal: Arc<Principal>,
    pub(super) cause: Cause,
    /// Records what is made next under the idempotency key of the request.
    pub(super) noting: Option<Noting>,
}

impl AccessControl {
    /// The use cases for a principal, and why they are called.
    pub fn acting_as(&self, principal: Arc<Principal>, message_id: Option<String>) -> Access {
        let mut cause = Cause::by(principal.operator.clone());
        cause.message_id = message_id;
        Access {
            rooms: self.clone(),
            principal,
            cause,
            noting: None,
        }
    }
}

impl Access {
    /// Who is asking.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// The cause that the history records for changes.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// A copy of this access whose changes were led to by another message.
    #[must_use]
    pub fn for_message(&self, message_id: String) -> Access {
        let mut other = self.clone();
        other.cause.message_id = Some(message_id);
        other
    }

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

    /// See [`Workspaces::open_file`](crate::Workspaces::open_file).
    pub fn open_file(&self, id: &WorkspaceId, path: &RelPath) -> Result<OpenFile> {
        self.authorize(Operation::Read, id, path)?;
        self.rooms
            .workspaces
            .open_file_as(id, path, &self.line_filter())
    }

    /// See [`Workspaces::open_file_at`](crate::Workspaces::open_file_at).
    pub fn open_file_at(
        &self,
        id: &WorkspaceId,
        snapshot: &str,
        path: &RelPath,
    ) -> Result<OpenFile> {
        // The trees of a snapshot are asked for the very path: no link is followed.
        self.check(Operation::Read, id, path)?;
        self.rooms.workspaces.open_file_at(id, snapshot, path)
    }

    /// See [`History::open_file_version`](crate::History::open_file_version).
    pub fn open_file_version(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        version: i64,
    ) -> Result<OpenFile> {
        // The history is asked for the very path: no link is followed.
        self.check(Operation::Read, id, path)?;
        self.rooms.history.open_file_version(id, path, version)
    }

    /// See [`Workspaces::read_window`](crate::Workspaces::read_window).
    pub fn read_window(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        offset: u64,
        length: usize,
    ) -> Result<Window> {
        self.authorize(Operation::Read, id, path)?;
        let line_filter = self.line_filter();
        self.rooms
            .workspaces
            .read_window_as(id, path, offset, length, &line_filter)
    }

    /// See [`Workspaces::read_window_if_small`](crate::Workspaces::read_window_if_small).
    pub fn read_window_if_small(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        offset: u64,
        length: usize,
    ) -> Result<Option<Window>> {
        self.authorize(Operation::Read, id, path)?;
        let line_filter = self.line_filter();
        self.rooms
            .workspaces
            .read_window_if_small_as(id, path, offset, length, &line_filter)
    }

    /// See [`Workspaces::write_file`](crate::Workspaces::write_file).
    pub fn write_file(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        content: Content<'_>,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.authorize(Operation::Write, id, path)?;
        self.rooms
            .workspaces
            .write_file(id, path, content, options, &self.cause)
    }

    /// See [`Workspaces::upload`](crate::Workspaces::upload).
    pub fn upload(
        &self,
        id: &WorkspaceId,
        name: &[u8],
        content: Content<'_>,
        options: &WriteOptions,
    ) -> Result<Written> {
        let dir = self.workspace(id)?.layout.upload_dir();
        self.check_all_below(Operation::Write, id, &dir)?;
        let options = &WriteOptions {
            noting: self.noting.clone(),
            ..options.clone()
        };
        self.rooms
            .workspaces
            .upload(id, name, content, options, &self.cause)
    }

    /// See [`Workspaces::edit_file`](crate::Workspaces::edit_file).
    pub fn edit_file(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        old: &str,
        new: &str,
        all: bool,
    ) -> Result<(usize, Written)> {
        self.authorize(Operation::Read, id, path)?;
        self.authorize(Operation::Write, id, path)?;
        self.rooms
            .workspaces
            .edit_file(id, path, old, new, all, &self.cause)
    }

    /// See [`Workspaces::delete_file_if`](crate::Workspaces::delete_file_if).
    pub fn delete_file(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        recursive: bool,
        expect: Expect,
    ) -> Result<usize> {
        self.authorize(Operation::Delete, id, path)?;
        if recursive {
            self.check_all_below(Operation::Delete, id, path)?;
        }
        self.rooms
            .workspaces
            .delete_file_if(id, path, recursive, expect, &self.cause)
    }

    /// See [`Workspaces::move_file`](crate::Workspaces::move_file).
    pub fn move_file(&self, id: &WorkspaceId, from: &RelPath, to: &RelPath) -> Result<Written> {
        self.authorize(Operation::Delete, id, from)?;
        self.authorize(Operation::Write, id, to)?;
        if self.principal.is_limited() {
            // What is moved may be a directory, with all that is in it.
            self.check_all_below(Operation::Delete, id, from)?;
            self.check_all_below(Operation::Write, id, to)?;
        }
        self.rooms.workspaces.move_file(id, from, to, &self.cause)
    }

    /// See [`Workspaces::make_dir_in`](crate::Workspaces::make_dir_in).
    pub fn make_dir(&self, id: &WorkspaceId, path: &RelPath) -> Result<RelPath> {
        self.authorize(Operation::Write, id, path)?;
        self.rooms.workspaces.make_dir_in(id, path, &self.cause)
    }

    /// See [`Workspaces::make_link`](crate::Workspaces::make_link). A token that is limited to some paths makes no links: others, who
    /// follow them, would be led from where it may write to where it may not.
    pub fn make_link(&self, id: &WorkspaceId, path: &RelPath, target: &[u8]) -> Result<RelPath> {
        self.authorize_link(id, path)?;
        self.rooms
            .workspaces
            .make_link(id, path, target, &self.cause)
    }

    fn authorize_link(&self, id: &WorkspaceId, path: &RelPath) -> Result<()> {
        self.authorize(Operation::Write, id, path)?;
        if self.principal.is_limited() {
            return Err(Error::new(
                ErrorCode::PermissionDenied,
                "a token that is limited to some paths makes no links",
            ));
        }
        Ok(())
    }

    /// Begins to take many files into a workspace, all of them or none; see [`WorkspaceImport`].
    pub fn begin_workspace_import(&self, id: &WorkspaceId) -> Result<WorkspaceImport> {
        self.check_reach(id)?;
        self.rooms
            .workspaces
            .begin_workspace_import(id, &self.cause)
    }

    /// Takes a file into an import and returns its size.
    pub fn import_file(
        &self,
        import: &WorkspaceImport,
        path: &RelPath,
        content: Content<'_>,
        executable: bool,
    ) -> Result<u64> {
        self.authorize(Operation::Write, import.workspace(), path)?;
        import.write_file(path, content, executable)
    }

    /// Takes a directory into an import.
    pub fn import_dir(&self, import: &WorkspaceImport, path: &RelPath) -> Result<()> {
        self.authorize(Operation::Write, import.workspace(), path)?;
        import.make_dir(path)
    }

    /// Takes a link into an import. See [`Access::make_link`].
    pub fn import_link(
        &self,
        import: &WorkspaceImport,
        path: &RelPath,
        target: &[u8],
    ) -> Result<()> {
        self.authorize_link(import.workspace(), path)?;
        import.make_link(path, target)
    }

    /// Ends an import: now all of it is there, or nothing has changed.
    pub fn finish_workspace_import(&self, import: WorkspaceImport) -> Result<()> {
        self.check_reach(import.workspace())?;
        import.finish()
    }

    /// See [`Context::temp_file`](crate::Context::temp_file). It has no name, so nobody else gets to see it.
    pub fn temp_file(&self) -> Result<std::fs::File> {
        self.rooms.context.temp_file()
    }

    /// See [`Workspaces::list`](crate::Workspaces::list); what may not be seen is left out.
    pub fn list(&self, id: &WorkspaceId, path: &RelPath) -> Result<Vec<ListEntry>> {
        Ok(self.list_page(id, path, &ListOptions::default())?.entries)
    }

    /// See [`Workspaces::list_page`](crate::Workspaces::list_page); what may not be seen is left out.
    pub fn list_page(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        options: &ListOptions,
    ) -> Result<ListPage> {
        self.check_seen(id, path)?;
        let sees = |path: &RelPath| self.principal.sees(path);
        self.rooms.workspaces.list_page(id, path, options, &sees)
    }

    /// Whether the names in a directory may be shown.
    fn check_seen(&self, id: &WorkspaceId, path: &RelPath) -> Result<()> {
        self.check_reach(id)?;
        if !self.principal.sees(path) {
            self.check(Operation::Read, id, path)?;
        }
        if self.principal.is_limited() {
            self.rooms.workspaces.refuse_links(id, path)?;
        }
        Ok(())
    }

    /// See [`Workspaces::tree`](crate::Workspaces::tree); what may not be seen is left out.
    pub fn tree(&self, id: &WorkspaceId, path: &RelPath, depth: Option<usize>) -> Result<DirNode> {
        self.check_seen(id, path)?;
        let mut root = self.rooms.workspaces.tree(id, path, depth)?;
        self.prune(&mut root);
        Ok(root)
    }

    pub(super) fn prune(&self, node: &mut DirNode) {
        if self.principal.is_limited() {
            node.children
                .retain(|child| self.principal.sees(&child.path));
            node.children.iter_mut().for_each(|child| self.prune(child));
        }
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
        match path {
            Some(path) => self.check(Operation::Read, id, path)?,
            None => self.check_reach(id)?,
        }
        let mut lines = self.rooms.history.lines(id, path, limit)?;
        lines.retain(|row| self.principal.sees_line(row));
        Ok(lines)
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
        let mut set = self.rooms.workspaces.diff(id, from, to, &self.cause)?;
        set.changes
            .retain(|change| self.principal.reads(&change.path));
        set.ignored.retain(|path| self.principal.sees(path));
        Ok(set)
    }

    /// See [`Synchronizer::changes`](crate::Synchronizer::changes); changes of paths that may not be read are left out.
    pub fn changes(&self, id: &WorkspaceId) -> Result<Changes> {
        self.check_reach(id)?;
        let mut changes = self.rooms.sync.changes(id, &self.cause)?;
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

    /// See [`Workspaces::walk`](crate::Workspaces::walk); what may not be read is left out.
    pub fn walk(&self, id: &WorkspaceId, below: &RelPath) -> Result<Vec<WalkEntry>> {
        self.check_reach(id)?;
        let mut entries = self.rooms.workspaces.walk(id, below)?;
        entries.retain(|entry| self.principal.reads(&entry.path));
        Ok(entries)
    }

    /// See [`Workspaces::open_archive`](crate::Workspaces::open_archive); what may not be read is left out.
    pub fn open_archive(&self, id: &WorkspaceId, below: &RelPath) -> Result<WorkspaceArchive> {
        self.check_reach(id)?;
        if self.principal.is_limited() {
            self.rooms.workspaces.refuse_links(id, below)?;
        }
        let mut whole = self.rooms.workspaces.open_archive(id, below, &self.cause)?;
        whole.entries.retain(|one| self.principal.reads(&one.path));
        let may_know = |one: &TooLarge| self.principal.reads(&one.path);
        whole.too_large.retain(may_know);
        Ok(whole)
    }

    /// See [`Workspaces::walk_files`](crate::Workspaces::walk_files); what may not be read is left out.
    pub fn walk_files(
        &self,
        id: &WorkspaceId,
        after: Option<&RelPath>,
        limit: usize,
    ) -> Result<Vec<WalkEntry>> {
        self.check_reach(id)?;
        let reads = |path: &RelPath| self.principal.reads(path);
        self.rooms.workspaces.walk_files(id, after, limit, &reads)
    }

    /// See [`Workspaces::open_entry`](crate::Workspaces::open_entry).
    pub fn open_entry(&self, id: &WorkspaceId, path: &RelPath) -> Result<OpenFile> {
        self.check(Operation::Read, id, path)?;
        self.rooms.workspaces.open_entry(id, path)
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
        let mut synced = self.rooms.sync.sync_workspace(id, &self.cause)?;
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

    /// The one check: may this be done with this path of this workspace?
    fn check(&self, operation: Operation, id: &WorkspaceId, path: &RelPath) -> Result<()> {
        self.check_reach(id)?;
        self.principal.allows(operation, path)
    }

    /// The one check for a path with everything below it.
    pub(super) fn check_all_below(
        &self,
        operation: Operation,
        id: &WorkspaceId,
        path: &RelPath,
    ) -> Result<()> {
        self.check_reach(id)?;
        self.principal.allows_all_below(operation, path)
    }

    /// The check for a path on which links may lie. An unlimited principal may follow the links of
    /// its workspace; a limited token may not, or a link in an allowed place would open every
    /// other.
    fn authorize(&self, operation: Operation, id: &WorkspaceId, path: &RelPath) -> Result<()> {
        self.check(operation, id, path)?;
        if self.principal.is_limited() {
            self.rooms.workspaces.refuse_links(id, path)?;
            self.check_described(operation, id, path)?;
        }
        Ok(())
    }

    /// What the principal sees of lines of history: none of paths that it may not read and, if it
    /// sees one workspace alone, no names of others in what that began with.
    fn line_filter(&self) -> impl Fn(&mut HistoryRow, bool) -> bool {
        |row, own| {
            let line = &mut row.line;
            line.from = line.from.take().filter(|from| self.principal.reads(from));
            if !own && self.sees_one_workspace() {
                let cause = &mut line.cause;
                let mut operator = cause.operator.to_string();
                self.hide_others(&mut operator, &mut cause.claim, &mut cause.message_id);
                cause.operator = Operator::new(&operator);
            }
            line.path.is_root() || self.principal.reads(&line.path)
        }
    }

    /// `.meta/PATH` tells about `PATH`, and `.meta/.meta` about all of them.
    fn check_described(
        &self,
        operation: Operation,
        id: &WorkspaceId,
        path: &RelPath,
    ) -> Result<()> {
        let meta = RelPath::from_normal(".meta");
        match path.strip_prefix(&meta) {
            None => Ok(()),
            Some(all) if all == meta => {
                let root = RelPath::root();
                self.check_all_below(operation, id, &root)
            }
            Some(described) => self.check(operation, id, &described),
        }
    }
}

fn not_assigned() -> Error {
    Error::new(
        ErrorCode::WorkspaceNotAssigned,
        "no workspace is assigned to this agent",
    )
}
