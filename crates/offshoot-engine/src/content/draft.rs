//! Drafting a change of a workspace before the transaction that writes it.
//!
//! SQLite has one writer, so a write transaction makes all other writers wait. A draft therefore reads
//! everything it needs in a read transaction. The write transaction only checks that the workspace is
//! still the one that the draft was made from, and writes rows. If it is not, the draft is made again.

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

/// How often a change is drafted again because the workspace changed meanwhile.
pub(crate) const TRIES: usize = 64;

/// A change that is being drafted: the index after the change, and the rows to write.
pub(crate) struct Draft<'a> {
    pub(crate) index: Index<'a>,
    /// The row of the workspace with the revision of the change.
    pub(crate) next: WorkspaceRow,
    pub(crate) counters: CounterDelta,
    contents: Vec<NewObject>,
    rows: Vec<RowChange>,
    lines: Vec<NewHistory>,
    recorded_line: Option<(usize, IdempotencyRecord)>,
}

/// An entry that was removed from an index: its path, the entry, and its size.
pub(crate) type RemovedEntry = (RelPath, Entry, i64);

enum RowChange {
    Put(EntryRow),
    Remove(RelPath),
    RemoveBelow(RelPath),
}

/// A change that is ready to be written.
pub(crate) struct PreparedChange {
    /// The workspace row that the change was drafted from.
    base: WorkspaceRow,
    contents: Vec<NewObject>,
    rows: Vec<RowChange>,
    lines: Vec<NewHistory>,
    /// The position of the line that is recorded as the result of a request with a key.
    recorded_line: Option<(usize, IdempotencyRecord)>,
    counters: CounterDelta,
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
            counters: CounterDelta::default(),
            contents: Vec::new(),
            rows: Vec::new(),
            lines: Vec::new(),
            recorded_line: None,
        }
    }

    /// Puts an entry in place of what the index has at its path.
    pub(crate) fn put(&mut self, row: EntryRow) -> Result<()> {
        let before = self.entry_with_size(&row.path)?;
        self.replace(before, row)
    }

    /// Puts an entry in place of `before`, which the caller has read from the index.
    pub(crate) fn replace(&mut self, before: Option<(Entry, i64)>, row: EntryRow) -> Result<()> {
        self.counters.replace(before, &row)?;
        self.set(row);
        Ok(())
    }

    /// What the index has at a path, with its size.
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

    /// Adds content that the change refers to.
    pub(crate) fn add_object(&mut self, object: NewObject) {
        self.contents.push(object);
    }

    /// Adds a line to the history.
    pub(crate) fn add_line(&mut self, line: NewHistory) {
        self.lines.push(line);
    }

    /// Adds a line to the history, and records it as the result of a request with a key.
    pub(crate) fn add_recorded_line(
        &mut self,
        line: NewHistory,
        record: Option<&IdempotencyRecord>,
    ) {
        self.recorded_line = record.map(|record| (self.lines.len(), record.clone()));
        self.add_line(line);
    }

    /// Removes a path with everything below it from the index. Returns the removed entries,
    /// directories before what is in them.
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
            self.counters.remove(entry.kind, *size);
        }
        Ok(gone)
    }

    /// Gives a directory a row of its own, so that it stays when its last entry is removed. Does
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

    /// Makes a directory that the index does not have, with its line of history.
    pub(crate) fn make_dir(&mut self, dir: EntryRow, via: Via, cause: &Cause) -> Result<()> {
        let line = self.line_for(via, cause).mkdir(&dir.path);
        self.add_line(line);
        self.replace(None, dir)
    }

    /// A template for the lines of history of this change.
    pub(crate) fn line_for<'l>(&'l self, via: Via, cause: &'l Cause) -> LineTemplate<'l> {
        LineTemplate {
            row: &self.next,
            at: self.next.changed_at,
            via,
            cause,
        }
    }

    /// Ends the draft.
    pub(crate) fn finish(self) -> PreparedChange {
        PreparedChange {
            base: self.index.row.clone(),
            counters: self.counters,
            contents: self.contents,
            rows: self.rows,
            lines: self.lines,
            recorded_line: self.recorded_line,
        }
    }
}

impl PreparedChange {
    /// Writes rows and lines. Returns the row of the workspace, and the changed row that the caller has
    /// to write; none, and nothing is written, if the index has changed since the draft.
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
            let recorded = self.recorded_line.as_ref();
            if let Some((_, record)) = recorded.filter(|(recorded, _)| *recorded == place) {
                record.write_for_line(tx, &now, number)?;
            }
        }
        // Columns of the row that do not concern files may have changed since the draft.
        let mut next = changed_row(&now, at);
        if self.rows.is_empty() && self.lines.is_empty() {
            next.revision = now.revision;
            next.synced_revision = now.synced_revision;
        }
        self.counters.add_to(&mut next);
        Ok(Some((now, next)))
    }
}

/// Whether two rows of a workspace have the same index: every change raises the revision, and a
/// snapshot, which moves rows into the tree, changes the tree.
pub(crate) fn is_same_index(now: &WorkspaceRow, then: &WorkspaceRow) -> bool {
    let what = |row: &WorkspaceRow| (row.revision, row.head, row.tree, row.sidecar);
    what(now) == what(then)
}

impl Contents {
    /// Drafts a change of a workspace and commits it. `make` is called again if the workspace changed
    /// meanwhile.
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

    /// Drafts a small change of a workspace inside a write transaction, and writes it there.
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

/// The error after [`TRIES`] drafts that other changes overtook.
pub(crate) fn keeps_changing(row: &WorkspaceRow) -> Error {
    Error::new(
        ErrorCode::WorkspaceBusy,
        format!("`{}` keeps changing", row.id),
    )
    .with_hint("nothing was changed; try again")
}
