//! A change of a workspace that is worked out before the transaction that writes it.
//!
//! SQLite has one writer, so whoever holds it makes every other tenant wait. Everything that can be
//! found out before is found out against a view of the store: what is there, what goes with it, how
//! many bytes that is. The transaction then only looks whether the workspace still is what the
//! change was made from, and writes rows; if it is not, the change is made again.

use offshoot_core::{DEFAULT_DIR_PERM, EntryKind, Error, ErrorCode, RelPath, Result, Timestamp};
use offshoot_store::{Durability, EntryRow, NewHistory, ReadTx, Store, WorkspaceRow, WriteTx};

use crate::engine::{Engine, open_row_by_key};
use crate::index::Index;
use crate::lines::changed_row;
use crate::workspace::put_row;

/// How often a change is made again because the workspace changed meanwhile.
pub(crate) const TRIES: usize = 64;

/// A change on its way: the index as it will be, and what has to be written for that.
pub(crate) struct Draft<'a> {
    pub(crate) index: Index<'a>,
    /// The row of the workspace with the revision of the change.
    pub(crate) next: WorkspaceRow,
    rows: Vec<RowChange>,
    lines: Vec<NewHistory>,
}

enum RowChange {
    Put(EntryRow),
    Remove(RelPath),
    RemoveBelow(RelPath),
}

/// A change that is ready to be written.
pub(crate) struct Change {
    /// The workspace that it was made from.
    base: WorkspaceRow,
    rows: Vec<RowChange>,
    lines: Vec<NewHistory>,
    /// What it adds to the counters.
    files: i64,
    dirs: i64,
    bytes: i64,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(
        store: &'a Store,
        tx: &'a dyn ReadTx,
        row: &'a WorkspaceRow,
        at: Timestamp,
    ) -> Self {
        Draft {
            index: Index::new(store, tx, row).remembering(),
            next: changed_row(row, at),
            rows: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Sets the row at a path.
    pub(crate) fn put(&mut self, row: EntryRow) {
        self.index.draft(&row.path, Some(row.clone()));
        self.rows.push(RowChange::Put(row));
    }

    /// Adds a line to the history.
    pub(crate) fn line(&mut self, line: NewHistory) {
        self.lines.push(line);
    }

    /// Makes the index forget a path with everything below.
    pub(crate) fn remove(&mut self, path: &RelPath) -> Result<()> {
        if self.index.entry(path)?.is_none_or(|entry| entry.is_dir()) {
            self.index.draft_clear(path);
            self.rows.push(RowChange::RemoveBelow(path.clone()));
        }
        if self.index.shown_by_base(path)?.is_some() {
            self.put(EntryRow {
                path: path.clone(),
                kind: None,
                opaque: false,
                perm: 0,
                id: None,
                size: 0,
                revision: self.next.revision,
            });
        } else if self.index.own_row(path)?.is_some() {
            self.index.draft(path, None);
            self.rows.push(RowChange::Remove(path.clone()));
        }
        Ok(())
    }

    /// A directory stays when its last entry goes, so the index has to say so by itself.
    pub(crate) fn keep_dir(&mut self, dir: &RelPath) -> Result<()> {
        if dir.is_root() || self.index.own_row(dir)?.is_some() {
            return Ok(());
        }
        let there = self.index.entry(dir)?;
        self.put(EntryRow {
            path: dir.clone(),
            kind: Some(EntryKind::Dir),
            opaque: false,
            perm: there.map_or(DEFAULT_DIR_PERM, |entry| entry.perm),
            id: None,
            size: 0,
            revision: self.next.revision,
        });
        Ok(())
    }

    /// What has to be written.
    pub(crate) fn finish(self) -> Change {
        let base = self.index.row;
        Change {
            base: base.clone(),
            files: self.next.files - base.files,
            dirs: self.next.dirs - base.dirs,
            bytes: self.next.bytes - base.bytes,
            rows: self.rows,
            lines: self.lines,
        }
    }
}

impl Change {
    /// Writes rows and lines unless the workspace is not what the change was made from. Returns its
    /// row, and the one that the caller has to write.
    pub(crate) fn write(
        &self,
        tx: &mut dyn WriteTx,
        at: Timestamp,
    ) -> Result<Option<(WorkspaceRow, WorkspaceRow)>> {
        let now = open_row_by_key(tx, &self.base)?;
        if !is_same(&now, &self.base) {
            return Ok(None);
        }
        for row in &self.rows {
            match row {
                RowChange::Put(row) => tx.put_entry(now.key, row)?,
                RowChange::Remove(path) => tx.remove_entry(now.key, path)?,
                RowChange::RemoveBelow(dir) => tx.remove_entries_below(now.key, dir)?,
            }
        }
        for line in &self.lines {
            tx.add_history(line)?;
        }
        // What says nothing about files may have changed meanwhile.
        let mut next = changed_row(&now, at);
        next.files += self.files;
        next.dirs += self.dirs;
        next.bytes += self.bytes;
        Ok(Some((now, next)))
    }
}

/// Whether the index of a workspace is what it was: every change has a revision, and what a
/// snapshot takes out of the rows is in its tree.
pub(crate) fn is_same(now: &WorkspaceRow, then: &WorkspaceRow) -> bool {
    let what = |row: &WorkspaceRow| (row.revision, row.head, row.tree, row.sidecar);
    what(now) == what(then)
}

impl Engine {
    /// Makes a change of a workspace and commits it. `make` is called again if the workspace
    /// changed meanwhile.
    pub(crate) fn change_workspace<T>(
        &self,
        row: &WorkspaceRow,
        at: Timestamp,
        mut make: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..TRIES {
            let (made, change) = self.store().read(|tx| {
                let now = open_row_by_key(tx, row)?;
                let mut draft = Draft::new(self.store(), tx, &now, at);
                let made = make(&mut draft)?;
                Ok((made, draft.finish()))
            })?;
            let landed =
                self.store()
                    .write(Durability::Synced, |tx| match change.write(tx, at)? {
                        Some((before, next)) => put_row(tx, &before, &next).map(|()| true),
                        None => Ok(false),
                    })?;
            if landed {
                return Ok(made);
            }
        }
        Err(keeps_changing(row))
    }
}

/// Others were quicker each time.
pub(crate) fn keeps_changing(row: &WorkspaceRow) -> Error {
    Error::new(
        ErrorCode::WorkspaceBusy,
        format!("`{}` keeps changing", row.id),
    )
    .with_hint("nothing was changed; try again")
}
