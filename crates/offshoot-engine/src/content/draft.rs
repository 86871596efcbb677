//! A change of a workspace that is worked out before the transaction that writes it.
//!
//! SQLite has one writer, so whoever holds it makes every other tenant wait. Everything that can be
//! found out before is found out against a view of the store: what is there, what goes with it, how
//! many bytes that is. The transaction then only looks whether the workspace still is what the
//! change was made from, and writes rows; if it is not, the change is made again.

use offshoot_core::{Cause, EntryKind, Error, ErrorCode, RelPath, Result, Timestamp};
use offshoot_store::{
    Durability, EntryRow, NewHistory, NewObject, ReadTx, Store, Via, WorkspaceRow, WriteTx,
};

use crate::content::Contents;
use crate::content::counters::CounterDelta;
use crate::content::history_writer::{LineTemplate, changed_row};
use crate::content::index::{Entry, Index};
use crate::content::rows::open_row_by_key;
use crate::content::workspace_row::put_row;
use crate::context::idempotency::IdempotencyRecord;

/// How often a change is made again because the workspace changed meanwhile.
pub(crate) const TRIES: usize = 64;

/// A change on its way: the index as it will be, and what has to be written for that.
pub(crate) struct Draft<'a> {
    pub(crate) index: Index<'a>,
    /// The row of the workspace with the revision of the change.
    pub(crate) next: WorkspaceRow,
    /// What came and went.
    pub(crate) tally: CounterDelta,
    contents: Vec<NewObject>,
    rows: Vec<RowChange>,
    lines: Vec<NewHistory>,
    noted: Option<(usize, IdempotencyRecord)>,
}

/// What goes from an index: where, what, and its bytes.
pub(crate) type RemovedEntry = (RelPath, Entry, i64);

enum RowChange {
    Put(EntryRow),
    Remove(RelPath),
    RemoveBelow(RelPath),
}

/// A change that is ready to be written.
pub(crate) struct PreparedChange {
    /// The workspace that it was made from.
    base: WorkspaceRow,
    contents: Vec<NewObject>,
    rows: Vec<RowChange>,
    lines: Vec<NewHistory>,
    /// The line that a request with a key is noted to have made.
    noted: Option<(usize, IdempotencyRecord)>,
    tally: CounterDelta,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(
        store: &'a Store,
        tx: &'a dyn ReadTx,
        row: &'a WorkspaceRow,
        at: Timestamp,
    ) -> Self {
        Draft {
            index: Index::new(store, tx, row).with_tree_cache(),
            next: changed_row(row, at),
            tally: CounterDelta::default(),
            contents: Vec::new(),
            rows: Vec::new(),
            lines: Vec::new(),
            noted: None,
        }
    }

    /// Puts an entry in place of what the index has at its path.
    pub(crate) fn put(&mut self, row: EntryRow) -> Result<()> {
        let before = self.entry_with_size(&row.path)?;
        self.replace(before, row)
    }

    /// The same for who has looked already what is there.
    pub(crate) fn replace(&mut self, before: Option<(Entry, i64)>, row: EntryRow) -> Result<()> {
        self.tally.put(before, &row)?;
        self.set(row);
        Ok(())
    }

    /// What the index has at a path, with its bytes.
    pub(crate) fn entry_with_size(&self, path: &RelPath) -> Result<Option<(Entry, i64)>> {
        match self.index.entry(path)? {
            Some(entry) => Ok(Some((entry, self.index.size(&entry)?))),
            None => Ok(None),
        }
    }

    fn set(&mut self, row: EntryRow) {
        self.index.draft(&row.path, Some(row.clone()));
        self.rows.push(RowChange::Put(row));
    }

    /// Adds content that the change names and that nothing else may name.
    pub(crate) fn content(&mut self, object: NewObject) {
        self.contents.push(object);
    }

    /// Adds a line to the history.
    pub(crate) fn line(&mut self, line: NewHistory) {
        self.lines.push(line);
    }

    /// Adds a line to the history, and notes it as what a request with a key made.
    pub(crate) fn add_recorded_line(
        &mut self,
        line: NewHistory,
        noting: Option<&IdempotencyRecord>,
    ) {
        self.noted = noting.map(|noting| (self.lines.len(), noting.clone()));
        self.line(line);
    }

    /// Makes the index forget a path with everything below. Returns what goes, directories before
    /// what is in them.
    pub(crate) fn remove(&mut self, path: &RelPath) -> Result<Vec<RemovedEntry>> {
        let Some((top, size)) = self.entry_with_size(path)? else {
            return Ok(Vec::new());
        };
        let mut gone = vec![(path.clone(), top, size)];
        if top.is_dir() {
            let index = &self.index;
            index.walk(path, &mut |path, entry| {
                gone.push((path.clone(), *entry, index.size(entry)?));
                Ok(())
            })?;
            self.index.draft_clear_below(path);
            self.rows.push(RowChange::RemoveBelow(path.clone()));
        }
        if self.index.shown_by_base(path)?.is_some() {
            self.set(EntryRow {
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
        for (_, entry, size) in &gone {
            self.tally.went(entry.kind, *size);
        }
        Ok(gone)
    }

    /// A directory stays when its last entry goes, so the index has to say so by itself. Does
    /// nothing where the index has no directory.
    pub(crate) fn keep_dir(&mut self, dir: &RelPath) -> Result<()> {
        if dir.is_root() || self.index.own_row(dir)?.is_some() {
            return Ok(());
        }
        let Some(there) = self.index.entry(dir)?.filter(Entry::is_dir) else {
            return Ok(());
        };
        self.put(EntryRow {
            path: dir.clone(),
            kind: Some(EntryKind::Dir),
            opaque: false,
            perm: there.perm,
            id: None,
            size: 0,
            revision: self.next.revision,
        })
    }

    /// Makes a directory that the index has not, with its line of history.
    pub(crate) fn make_dir(&mut self, dir: EntryRow, via: Via, cause: &Cause) -> Result<()> {
        let line = self.line_for(via, cause).mkdir(&dir.path);
        self.line(line);
        self.replace(None, dir)
    }

    /// Makes lines of history for what came in some way.
    pub(crate) fn line_for<'l>(&'l self, via: Via, cause: &'l Cause) -> LineTemplate<'l> {
        LineTemplate {
            row: &self.next,
            at: self.next.changed_at,
            via,
            cause,
        }
    }

    /// What has to be written.
    pub(crate) fn finish(self) -> PreparedChange {
        PreparedChange {
            base: self.index.row.clone(),
            tally: self.tally,
            contents: self.contents,
            rows: self.rows,
            lines: self.lines,
            noted: self.noted,
        }
    }
}

impl PreparedChange {
    /// Writes rows and lines unless the workspace is not what the change was made from. Returns its
    /// row, and the one that the caller has to write.
    pub(crate) fn write(
        &self,
        tx: &mut dyn WriteTx,
        at: Timestamp,
    ) -> Result<Option<(WorkspaceRow, WorkspaceRow)>> {
        let now = open_row_by_key(tx, &self.base)?;
        if !is_same_index(&now, &self.base) {
            return Ok(None);
        }
        for object in &self.contents {
            tx.put_object(object)?;
        }
        for row in &self.rows {
            match row {
                RowChange::Put(row) => tx.put_entry(now.key, row)?,
                RowChange::Remove(path) => tx.remove_entry(now.key, path)?,
                RowChange::RemoveBelow(dir) => tx.remove_entries_below(now.key, dir)?,
            }
        }
        for (place, line) in self.lines.iter().enumerate() {
            let number = tx.add_history(line)?;
            if let Some((_, noting)) = self.noted.as_ref().filter(|(noted, _)| *noted == place) {
                noting.write_for_line(tx, &now, number)?;
            }
        }
        // What says nothing about files may have changed meanwhile.
        let mut next = changed_row(&now, at);
        if self.rows.is_empty() && self.lines.is_empty() {
            next.revision = now.revision;
            next.synced_revision = now.synced_revision;
        }
        self.tally.add_to(&mut next);
        Ok(Some((now, next)))
    }
}

/// Whether the index of a workspace is what it was: every change has a revision, and what a
/// snapshot takes out of the rows is in its tree.
pub(crate) fn is_same_index(now: &WorkspaceRow, then: &WorkspaceRow) -> bool {
    let what = |row: &WorkspaceRow| (row.revision, row.head, row.tree, row.sidecar);
    what(now) == what(then)
}

impl Contents {
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

    /// The same inside a transaction, for changes so small that nobody waits for them.
    pub(crate) fn change_in_transaction<T>(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        at: Timestamp,
        make: impl FnOnce(&mut Draft<'_>) -> Result<T>,
    ) -> Result<T> {
        let now = open_row_by_key(tx, row)?;
        let (made, change) = {
            let mut draft = Draft::new(self.store(), tx, &now, at);
            (make(&mut draft)?, draft.finish())
        };
        match change.write(tx, at)? {
            Some((before, next)) => put_row(tx, &before, &next).map(|()| made),
            None => Err(keeps_changing(row)),
        }
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
