//! Files of a workspace on behalf of a principal: reading, writing, listing, archives.
//!
//! Each function asks the check of `acting.rs` first; nothing else is decided here.

use offshoot_core::{Error, ErrorCode, RelPath, Result, WorkspaceId};

use super::{Access, Operation};
use crate::{
    Content, DeletedPath, DirNode, Expect, ListEntry, ListOptions, ListPage, OpenFile, TooLarge,
    WalkEntry, Window, WorkspaceArchive, WorkspaceImport, WriteOptions, Written,
};

impl Access {
    /// See [`Workspaces::open_file`](crate::Workspaces::open_file).
    pub fn open_file(&self, id: &WorkspaceId, path: &RelPath) -> Result<OpenFile> {
        self.authorize(Operation::Read, id, path)?;
        self.rooms
            .workspaces
            .open_file_as(id, path, &self.line_filter())
    }

    /// Opens a file; none if that would have to wait, so that the caller needs a thread for it.
    pub fn open_file_if_ready(&self, id: &WorkspaceId, path: &RelPath) -> Result<Option<OpenFile>> {
        self.authorize(Operation::Read, id, path)?;
        self.rooms
            .workspaces
            .open_file_if_ready_as(id, path, &self.line_filter())
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

    /// See [`Workspaces::upload_into`](crate::Workspaces::upload_into); without a directory it is the
    /// one where uploads go.
    pub fn upload(
        &self,
        id: &WorkspaceId,
        dir: Option<&RelPath>,
        name: &[u8],
        content: Content<'_>,
        options: &WriteOptions,
    ) -> Result<Written> {
        let dir = match dir {
            Some(dir) => dir.clone(),
            None => self.workspace(id)?.layout.upload_dir(),
        };
        // The name that is free is not known yet, so all names must be allowed.
        self.check_all_below(Operation::Write, id, &dir)?;
        if self.principal.is_limited() {
            self.rooms.workspaces.refuse_links(id, &dir)?;
        }
        let options = &WriteOptions {
            noting: self.noting.clone(),
            ..options.clone()
        };
        self.rooms
            .workspaces
            .upload_into(id, &dir, name, content, options, &self.cause)
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
    ) -> Result<DeletedPath> {
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
        let mut whole = self.rooms.workspaces.open_archive(id, below)?;
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
}
