//! Directories made, files and directories deleted and moved.

use offshoot_core::{
    Cause, DEFAULT_DIR_PERM, EntryKind, Error, ErrorCode, RelPath, Result, Timestamp, WorkspaceId,
};
use offshoot_store::{Durability, EntryRow, HistoryOp, ReadTx, Via, WorkspaceRow, WriteTx};

use crate::engine::{Engine, no_file, open_row_by_key};
use crate::files::{Expect, Written, check_expectation, refuse_unwritable};
use crate::fork_git::refuse_own_git;
use crate::hold::Held;
use crate::index::{Entry, Index, missing_parents, new_dir_row};
use crate::left_out::refuse_ours_in;
use crate::lines::{LineFor, changed_row};
use crate::workspace::put_row;

impl Engine {
    /// Makes a directory and those above it. It is no error if it exists.
    pub fn make_dir_in(&self, id: &WorkspaceId, path: &RelPath, cause: &Cause) -> Result<RelPath> {
        self.require_space()?;
        refuse_unwritable(&self.open_row(id)?, path)?;
        let held = self.hold(id, path, cause)?;
        let outcome = self.make_dir_held(&held, path, cause);
        outcome.or_else(|error| self.unmake_dir(&held, error))
    }

    fn make_dir_held(&self, held: &Held, path: &RelPath, cause: &Cause) -> Result<RelPath> {
        let at = self.now();
        let (path, made) = self.store().write(Durability::Synced, |tx| {
            self.land_dir(tx, &held.row, path, cause, at)
        })?;
        if !made.is_empty() {
            self.turn(held)
                .and_then(|_turn| self.project_paths(&held.row, &made))
                .or_else(|error| self.projection_failed(held, &made, error))?;
        }
        Ok(path)
    }

    /// Where a directory is made, and which ones are missing on the way and there; nothing if it
    /// exists.
    pub(crate) fn plan_dir(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        path: &RelPath,
    ) -> Result<(RelPath, Vec<RelPath>)> {
        let index = Index::new(self.store(), tx, row);
        let path = index.resolve(path)?;
        refuse_unwritable(row, &path)?;
        refuse_own_git(tx, row, &path)?;
        refuse_ours_in(&index, &path)?;
        let mut missing = missing_parents(&index, &path)?;
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

    /// Commits a new directory. Returns where it is, and the directories that came into being.
    pub(crate) fn land_dir(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        path: &RelPath,
        cause: &Cause,
        at: Timestamp,
    ) -> Result<(RelPath, Vec<RelPath>)> {
        let row = open_row_by_key(tx, row)?;
        let mut next = changed_row(&row, at);
        next.materialized = true;
        let (path, missing) = self.plan_dir(tx, &row, path)?;
        if missing.is_empty() {
            // Nothing changes, but the directory of the workspace is there now.
            next.revision = row.revision;
            tx.update_workspace(&next)?;
            return Ok((path, missing));
        }
        let rows: Result<Vec<EntryRow>> = {
            let index = Index::new(self.store(), tx, &row);
            let missing = missing.iter();
            missing
                .map(|dir| new_dir_row(&index, dir, next.revision))
                .collect()
        };
        let rows = rows?;
        next.dirs += rows.len() as i64;
        let line = LineFor {
            row: &next,
            at,
            via: Via::Call,
            cause,
        };
        line.make_dirs(tx, &rows)?;
        put_row(tx, &row, &next)?;
        Ok((path, missing))
    }

    /// Deletes a file, a link or a directory; one that holds something only if `recursive`.
    /// Every content that goes stays in the history. Returns how many files and links went.
    pub fn delete_file(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        recursive: bool,
        cause: &Cause,
    ) -> Result<usize> {
        self.delete_file_if(id, path, recursive, Expect::Anything, cause)
    }

    /// The same if what is there is what the caller expects.
    pub fn delete_file_if(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        recursive: bool,
        expect: Expect,
        cause: &Cause,
    ) -> Result<usize> {
        self.freeing(|| self.delete_now(id, path, recursive, expect, cause))
    }

    fn delete_now(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        recursive: bool,
        expect: Expect,
        cause: &Cause,
    ) -> Result<usize> {
        let row = self.open_row(id)?;
        refuse_unwritable(&row, path)?;
        let (row, _lock) = self.hold_alone(id)?;
        self.sync_below(&row, path, cause)?;
        self.sync_named(&row, path, cause)?;
        let at = self.now();
        let (gone, files) = self.store().write(Durability::Synced, |tx| {
            let row = open_row_by_key(tx, &row)?;
            let mut next = changed_row(&row, at);
            let (top, below, parent) = {
                let index = Index::new(self.store(), tx, &row);
                let top = index.entry(path)?.ok_or_else(|| no_file(path))?;
                check_expectation(path, Some(&top), expect)?;
                let mut below = Vec::new();
                if top.is_dir() {
                    index.walk(path, &mut |path, entry| {
                        below.push((path.clone(), *entry, index.size(entry)?));
                        Ok(())
                    })?;
                    if !below.is_empty() && !recursive {
                        return Err(Error::new(
                            ErrorCode::IsADirectory,
                            format!("`{path}` is a directory that holds {} entries", below.len()),
                        )
                        .with_hint("ask for a recursive deletion"));
                    }
                }
                let size = index.size(&top)?;
                below.insert(0, (path.clone(), top, size));
                (top, below, path.parent().unwrap_or_default())
            };
            let _ = top;
            let line = LineFor {
                row: &next,
                at,
                via: Via::Call,
                cause,
            };
            for (path, entry, _) in below.iter().rev() {
                let mut line = line.file(HistoryOp::Delete, path, entry.kind);
                line.before = entry.id;
                tx.add_history(&line)?;
            }
            self.remove_in_index(tx, &row, path, next.revision)?;
            self.keep_parent(tx, &row, &parent, next.revision)?;
            let files = below.iter().filter(|(_, entry, _)| !entry.is_dir()).count();
            next.files -= files as i64;
            next.dirs -= (below.len() - files) as i64;
            next.bytes -= below.iter().map(|(_, _, size)| size).sum::<i64>();
            put_row(tx, &row, &next)?;
            let paths: Vec<RelPath> = below.into_iter().map(|(path, ..)| path).collect();
            Ok((paths, files))
        })?;
        if row.materialized {
            self.project_deletion(&row, path, recursive, &gone)
                .or_else(|error| self.retry_projection(&row, &gone, error))?;
        }
        Ok(files)
    }

    fn project_deletion(
        &self,
        row: &WorkspaceRow,
        path: &RelPath,
        recursive: bool,
        gone: &[RelPath],
    ) -> Result<()> {
        if !recursive {
            return self.project_paths(row, gone);
        }
        let dir = self.dir_of(row)?;
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
        self.require_space()?;
        let row = self.open_row(id)?;
        refuse_unwritable(&row, from)?;
        refuse_unwritable(&row, to)?;
        if to.starts_with(from) {
            return Err(Error::invalid(format!(
                "`{from}` cannot be moved into itself"
            )));
        }
        let (row, _lock) = self.hold_alone(id)?;
        self.sync_below(&row, from, cause)?;
        self.sync_named(&row, from, cause)?;
        self.sync_named(&row, to, cause)?;
        let at = self.now();
        let (to, top, size, version) = self.store().write(Durability::Synced, |tx| {
            let row = open_row_by_key(tx, &row)?;
            let next = changed_row(&row, at);
            self.land_move(tx, &row, next, from, to, cause, at)
        })?;
        if row.materialized {
            let moved = self
                .dir_of(&row)
                .and_then(|dir| dir.rename(from, &to, true));
            moved.or_else(|error| self.retry_projection_of_move(&row, from, &to, error))?;
        }
        let mime = self
            .mime_of(&row.id, &to)
            .unwrap_or_else(|_| crate::mime::UNKNOWN.to_owned());
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

    fn land_move(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        mut next: WorkspaceRow,
        from: &RelPath,
        to: &RelPath,
        cause: &Cause,
        at: Timestamp,
    ) -> Result<(RelPath, Entry, i64, i64)> {
        let (to, top, all, new_dirs) = {
            let index = Index::new(self.store(), tx, row);
            let top = index.entry(from)?.ok_or_else(|| no_file(from))?;
            let parent = index.resolve(&to.parent().unwrap_or_default())?;
            let to = parent.join_name(to.name());
            refuse_unwritable(row, &to)?;
            refuse_own_git(tx, row, &to)?;
            refuse_ours_in(&index, &to)?;
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
            let missing = missing_parents(&index, &to)?;
            let mut all = vec![(from.clone(), top, index.size(&top)?)];
            if top.is_dir() {
                index.walk(from, &mut |path, entry| {
                    all.push((path.clone(), *entry, index.size(entry)?));
                    Ok(())
                })?;
            }
            let rows: Result<Vec<EntryRow>> = missing
                .iter()
                .map(|dir| new_dir_row(&index, dir, next.revision))
                .collect();
            (to, top, all, rows?)
        };
        next.dirs += new_dirs.len() as i64;
        let line = LineFor {
            row: &next,
            at,
            via: Via::Call,
            cause,
        };
        line.make_dirs(tx, &new_dirs)?;
        self.remove_in_index(tx, row, from, next.revision)?;
        self.keep_parent(tx, row, &from.parent().unwrap_or_default(), next.revision)?;
        for (path, entry, size) in &all {
            let below = path.strip_prefix(from).unwrap_or_default();
            let target = to.join(&below);
            let opaque = entry.is_dir()
                && Index::new(self.store(), tx, row)
                    .base()
                    .entry(
                        &crate::objects::StoredObjects::new(self.store(), Some(tx)),
                        &target,
                    )?
                    .is_some();
            tx.put_entry(
                row.key,
                &EntryRow {
                    path: target.clone(),
                    kind: Some(entry.kind),
                    opaque,
                    perm: entry.perm,
                    id: entry.id,
                    size: *size,
                    revision: next.revision,
                },
            )?;
            let mut moved = line.file(HistoryOp::Move, &target, entry.kind);
            moved.from = Some(path.clone());
            moved.before = entry.id;
            moved.after = entry.id;
            moved.size = *size;
            tx.add_history(&moved)?;
        }
        put_row(tx, row, &next)?;
        let size = all.first().map_or(0, |(_, _, size)| *size);
        Ok((to, top, size, next.revision))
    }

    /// Makes the index forget a path with everything below.
    pub(crate) fn remove_in_index(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        path: &RelPath,
        revision: i64,
    ) -> Result<()> {
        tx.remove_entries_below(row.key, path)?;
        tx.remove_entry(row.key, path)?;
        let shows_through = Index::new(self.store(), tx, row).entry(path)?.is_some();
        if shows_through {
            let gone = EntryRow {
                path: path.clone(),
                kind: None,
                opaque: false,
                perm: 0,
                id: None,
                size: 0,
                revision,
            };
            tx.put_entry(row.key, &gone)?;
        }
        Ok(())
    }

    /// A directory stays when its last entry goes, so the index has to say so by itself.
    pub(crate) fn keep_parent(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        parent: &RelPath,
        revision: i64,
    ) -> Result<()> {
        if parent.is_root() {
            return Ok(());
        }
        let has_row = tx
            .entries_on_path(row.key, parent)?
            .last()
            .is_some_and(|row| row.path == *parent);
        if has_row {
            return Ok(());
        }
        let perm = Index::new(self.store(), tx, row)
            .entry(parent)?
            .map_or(DEFAULT_DIR_PERM, |entry| entry.perm);
        let stays = EntryRow {
            path: parent.clone(),
            kind: Some(EntryKind::Dir),
            opaque: false,
            perm,
            id: None,
            size: 0,
            revision,
        };
        tx.put_entry(row.key, &stays)
    }
}
