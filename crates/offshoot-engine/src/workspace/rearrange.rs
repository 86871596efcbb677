//! Directories made, files and directories deleted and moved.

use offshoot_core::{Cause, Error, ErrorCode, RelPath, Result, WorkspaceId};
use offshoot_store::{Durability, EntryRow, HistoryOp, Via, WorkspaceRow};

use crate::content::draft::Draft;
use crate::content::history_writer::LineTemplate;
use crate::content::index::{Entry, Index, missing_dirs, new_dir_rows};
use crate::content::left_out::refuse_reserved_in;
use crate::content::rows::no_file;
use crate::directory::git_layer::refuse_own_git;
use crate::workspace::Workspaces;
use crate::workspace::files::{
    Expect, Written, check_expectation, refuse_unmakeable, refuse_unwritable,
};

/// A file, a link or a directory that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedPath {
    /// How many files and links went.
    pub files: usize,
    /// The revision of the workspace that this made. At the one before it, everything was there.
    pub version: i64,
}

impl Workspaces {
    /// Makes a directory and those above it. It is no error if it exists.
    pub fn make_dir_in(&self, id: &WorkspaceId, path: &RelPath, cause: &Cause) -> Result<RelPath> {
        self.context.require_space()?;
        refuse_unmakeable(&self.contents.open_row(id)?, path)?;
        let held = self.sync.lock_for_path(id, path)?;
        let at = self.context.now();
        let (path, made) = self.store().write(Durability::Synced, |tx| {
            self.contents
                .change_in_transaction(tx, &held.row, at, |draft| draft_dir(draft, path, cause))
        })?;
        self.sync.project_locked(&held, &made)?;
        Ok(path)
    }

    /// Deletes a file, a link or a directory; one that holds something only if `recursive`.
    /// Every content that goes stays in the history.
    pub fn delete_file(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        recursive: bool,
        cause: &Cause,
    ) -> Result<DeletedPath> {
        self.delete_file_if(id, path, recursive, Expect::Anything, cause)
    }

    /// Like [`delete_file`](Self::delete_file), if what is there is what the caller expects.
    pub fn delete_file_if(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        recursive: bool,
        expect: Expect,
        cause: &Cause,
    ) -> Result<DeletedPath> {
        self.context
            .with_reserve(|| self.delete_now(id, path, recursive, expect, cause))
    }

    fn delete_now(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        recursive: bool,
        expect: Expect,
        cause: &Cause,
    ) -> Result<DeletedPath> {
        let row = self.contents.open_row(id)?;
        refuse_unwritable(&row, path)?;
        let (row, _lock) = self.sync.lock_exclusively(id)?;
        self.sync.sync_before_deletion(&row, path)?;
        self.sync.sync_named_path(&row, path)?;
        let at = self.context.now();
        let (gone, deleted) = self.contents.change_workspace(&row, at, |draft| {
            draft_deletion(draft, path, recursive, expect, cause)
        })?;
        if row.materialized {
            self.project_deletion(&row, path, recursive, &gone)
                .or_else(|error| self.sync.retry_projection(&row, &gone, error))?;
        }
        Ok(deleted)
    }

    fn project_deletion(
        &self,
        row: &WorkspaceRow,
        path: &RelPath,
        recursive: bool,
        gone: &[RelPath],
    ) -> Result<()> {
        if !recursive {
            return self.directories.project_paths(row, gone);
        }
        let dir = self.directories.dir_of(row)?;
        match dir.stat(path)? {
            None => Ok(()),
            // Ignored files below go too: their deletion was asked for by name.
            Some(_) => dir.remove_tree(path),
        }
    }

    /// Moves a file, a link or a directory. Nothing is overwritten.
    pub fn move_file(
        &self,
        id: &WorkspaceId,
        from: &RelPath,
        to: &RelPath,
        cause: &Cause,
    ) -> Result<Written> {
        self.context.require_space()?;
        let row = self.contents.open_row(id)?;
        refuse_unwritable(&row, from)?;
        refuse_unmakeable(&row, to)?;
        if to.starts_with(from) {
            return Err(Error::invalid(format!(
                "`{from}` cannot be moved into itself"
            )));
        }
        let (row, _lock) = self.sync.lock_exclusively(id)?;
        self.sync.sync_locked(&row, false)?;
        self.sync.sync_named_path(&row, from)?;
        self.sync.sync_named_path(&row, to)?;
        let at = self.context.now();
        let (to, top, size, version) = self
            .contents
            .change_workspace(&row, at, |draft| draft_move(draft, from, to, cause))?;
        if row.materialized {
            let moved = self
                .directories
                .dir_of(&row)
                .and_then(|dir| dir.rename(from, &to, true));
            moved.or_else(|error| self.sync.retry_projection_of_move(&row, from, &to, error))?;
        }
        let mime = top.id.map(|id| self.contents.mime_in_store(&to, id));
        let mime = mime
            .and_then(Result::ok)
            .unwrap_or_else(|| crate::content::mime::UNKNOWN.to_owned());
        let id = top.id.unwrap_or(offshoot_core::EMPTY_TREE);
        Ok(Written {
            path: to,
            size,
            mime,
            version,
            id,
            created: true,
        })
    }
}

/// Makes a directory and those above it. Returns where it is, and those that came into being.
pub(crate) fn draft_dir(
    draft: &mut Draft<'_>,
    path: &RelPath,
    cause: &Cause,
) -> Result<(RelPath, Vec<RelPath>)> {
    let (path, missing) = plan_dir(&draft.index, path)?;
    for dir in new_dir_rows(&draft.index, &missing, draft.next.revision)? {
        draft.make_dir(dir, Via::Call, cause)?;
    }
    Ok((path, missing))
}

/// Where a directory is made, and which ones are missing on the way and there; nothing if it
/// exists.
pub(crate) fn plan_dir(index: &Index<'_>, path: &RelPath) -> Result<(RelPath, Vec<RelPath>)> {
    let path = index.resolve(path)?;
    refuse_unmakeable(index.row, &path)?;
    refuse_own_git(index.tx, index.row, &path)?;
    refuse_reserved_in(index, &path)?;
    let mut missing = missing_dirs(index, &path)?;
    match index.entry(&path)? {
        Some(entry) if entry.is_dir() => return Ok((path, Vec::new())),
        Some(_) => {
            return Err(Error::new(
                ErrorCode::AlreadyExists,
                format!("`{path}` is a file"),
            ));
        }
        None => missing.push(path.clone()),
    }
    Ok((path, missing))
}

/// Removes a path with all below it. Returns the paths that go, it first, and what that made.
fn draft_deletion(
    draft: &mut Draft<'_>,
    path: &RelPath,
    recursive: bool,
    expect: Expect,
    cause: &Cause,
) -> Result<(Vec<RelPath>, DeletedPath)> {
    let top = draft.index.entry(path)?.ok_or_else(|| no_file(path))?;
    check_expectation(path, Some(&top), expect)?;
    let gone = draft.remove(path)?;
    if gone.len() > 1 && !recursive {
        let below = gone.len() - 1;
        return Err(Error::new(
            ErrorCode::IsADirectory,
            format!("`{path}` is a directory that holds {below} entries"),
        )
        .with_hint("ask for a recursive deletion"));
    }
    let next = draft.next.clone();
    let line = LineTemplate {
        row: &next,
        at: next.changed_at,
        via: Via::Call,
        cause,
    };
    for (path, entry, _) in gone.iter().rev() {
        let mut line = line.file(HistoryOp::Delete, path, entry.kind);
        line.before = entry.id;
        draft.add_line(line);
    }
    draft.keep_dir(&path.parent().unwrap_or_default())?;
    let deleted = DeletedPath {
        files: gone.iter().filter(|(_, entry, _)| !entry.is_dir()).count(),
        version: next.revision,
    };
    Ok((gone.into_iter().map(|(path, ..)| path).collect(), deleted))
}

/// Moves a path with all below it. Returns where it is then, what it is, its bytes and the revision.
fn draft_move(
    draft: &mut Draft<'_>,
    from: &RelPath,
    to: &RelPath,
    cause: &Cause,
) -> Result<(RelPath, Entry, i64, i64)> {
    let index = &draft.index;
    let top = index.entry(from)?.ok_or_else(|| no_file(from))?;
    let parent = index.resolve(&to.parent().unwrap_or_default())?;
    let to = parent.join_name(to.name());
    refuse_unmakeable(index.row, &to)?;
    refuse_own_git(index.tx, index.row, &to)?;
    refuse_reserved_in(index, &to)?;
    if to.starts_with(from) {
        return Err(Error::invalid(format!(
            "`{from}` cannot be moved into itself"
        )));
    }
    if index.entry(&to)?.is_some() {
        return Err(
            Error::new(ErrorCode::AlreadyExists, format!("`{to}` exists already"))
                .with_hint("delete it first, or choose another name"),
        );
    }
    let all = draft.remove(from)?;
    draft.keep_dir(&from.parent().unwrap_or_default())?;
    // What is too deep already may still be moved up.
    if to.depth() > from.depth()
        && let Some((deepest, ..)) = all.iter().max_by_key(|(path, ..)| path.depth())
    {
        to.join(&deepest.strip_prefix(from).unwrap_or_default())
            .check_depth()?;
    }
    let missing = missing_dirs(&draft.index, &to)?;
    let new_dirs = new_dir_rows(&draft.index, &missing, draft.next.revision)?;
    let next = draft.next.clone();
    let line = LineTemplate {
        row: &next,
        at: next.changed_at,
        via: Via::Call,
        cause,
    };
    for dir in new_dirs {
        draft.make_dir(dir, Via::Call, cause)?;
    }
    let base = draft.index.base();
    for (path, entry, size) in &all {
        let below = path.strip_prefix(from).unwrap_or_default();
        let target = to.join(&below);
        let hides = entry.is_dir() && base.entry(&draft.index.objects, &target)?.is_some();
        let mut moved = line.file(HistoryOp::Move, &target, entry.kind);
        moved.from = Some(path.clone());
        moved.before = entry.id;
        moved.after = entry.id;
        moved.size = *size;
        draft.add_line(moved);
        // There is nothing where it moves to.
        let row = EntryRow {
            path: target,
            kind: Some(entry.kind),
            opaque: hides,
            perm: entry.perm,
            id: entry.id,
            size: *size,
            revision: next.revision,
        };
        draft.replace(None, row)?;
    }
    let size = all.first().map_or(0, |(_, _, size)| *size);
    Ok((to, top, size, next.revision))
}
