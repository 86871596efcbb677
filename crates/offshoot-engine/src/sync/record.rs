//! Writing what a sync found into the index and the history.

use std::collections::HashSet;

use offshoot_core::{Cause, EMPTY_TREE, EntryKind, Operator, RelPath, Result, Timestamp};
use offshoot_fs::SafeDir;
use offshoot_store::{
    Bulk, Durability, EntryRow, HistoryOp, NewObject, ReadTx, Via, WorkspaceKind, WorkspaceRow,
};

use crate::content::draft::{Draft, PreparedChange, TRIES, keeps_changing};
use crate::content::history_writer::LineTemplate;
use crate::content::index::Entry;
use crate::content::objects::{PendingObjects, StoredObjects};
use crate::content::rows::{agent_claim, open_row_by_key};
use crate::content::state::{State, StateEdit, StateEntry};
use crate::directory::disk_entry::DiskEntry;
use crate::sync::Synchronizer;
use crate::sync::renames::Renames;
use crate::sync::scan::{DiskChanges, OutsideChange};

/// A state and the objects that it is made of.
pub(crate) type FoldedState = (State, Vec<NewObject>);

/// Outside changes that are ready to be written.
struct DraftedChanges<'f> {
    changes: Vec<OutsideChange>,
    /// Whether every path that was found could be recorded.
    all: bool,
    change: PreparedChange,
    /// The state of the workspace after a first sync of many files.
    folded: Option<&'f FoldedState>,
}

/// What was written into the index.
pub(crate) struct RecordedChanges {
    pub(crate) changes: Vec<OutsideChange>,
    /// The number of the last line of history after the changes were recorded.
    pub(crate) seq: i64,
    /// Whether every path that was found could be recorded.
    pub(crate) all: bool,
}

impl Synchronizer {
    /// The state after a first sync of many files. The workspace held nothing before, so the files
    /// become its state and need no rows.
    pub(crate) fn fold_first_sync(
        &self,
        dir: &SafeDir,
        found: &DiskChanges,
    ) -> Result<FoldedState> {
        let objects = StoredObjects::new(self.store(), None);
        let mut objects = PendingObjects::new(&objects);
        objects.add_files_git_checks(dir, found.keys())?;
        let put = |entry: &DiskEntry| {
            StateEdit::Put(StateEntry {
                kind: entry.kind,
                perm: entry.perm,
                id: entry.id,
            })
        };
        let edits = found
            .iter()
            .filter_map(|(path, entry)| Some((path.clone(), put(entry.as_ref()?))))
            .collect();
        let state = State::default().edit(&mut objects, &edits)?;
        Ok((state, objects.prepare(self.store())?))
    }

    /// Writes outside changes into the index and the history.
    pub(crate) fn record_changes(
        &self,
        row: &WorkspaceRow,
        found: &DiskChanges,
        bulk: Option<&Bulk>,
        folded: Option<&FoldedState>,
        durability: Durability,
    ) -> Result<RecordedChanges> {
        let at = self.context.now();
        if found.is_empty() {
            // Only the time of the sync is written, which need not be durable.
            return self.store().write(Durability::Relaxed, |tx| {
                let mut now = open_row_by_key(tx, row)?;
                now.last_sync = Some(at);
                tx.update_workspace(&now)?;
                Ok(RecordedChanges {
                    changes: Vec::new(),
                    seq: tx.last_seq()?,
                    all: true,
                })
            });
        }
        for _ in 0..TRIES {
            let drafted = self
                .store()
                .read(|tx| self.draft_found(tx, row, found, folded, at))?;
            let seq = self.store().write(durability, |tx| {
                let Some((_, mut next)) = drafted.change.write(tx, at)? else {
                    return Ok(None);
                };
                if let Some(bulk) = bulk {
                    bulk.insert(tx)?;
                }
                if let Some((state, objects)) = drafted.folded {
                    for object in objects {
                        tx.put_object(object)?;
                    }
                    (next.tree, next.sidecar) = (state.tree, state.sidecar);
                }
                next.last_sync = Some(at);
                // A quota does not stop outside programs; it refuses the next write through Offshoot.
                tx.update_workspace(&next)?;
                tx.last_seq().map(Some)
            })?;
            if let Some(seq) = seq {
                let DraftedChanges { changes, all, .. } = drafted;
                return Ok(RecordedChanges { changes, seq, all });
            }
        }
        Err(keeps_changing(row))
    }

    /// Drafts the rows and lines of outside changes. The state of a first sync is used only if the
    /// workspace still holds nothing.
    fn draft_found<'f>(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        found: &DiskChanges,
        folded: Option<&'f FoldedState>,
        at: Timestamp,
    ) -> Result<DraftedChanges<'f>> {
        let now = open_row_by_key(tx, row)?;
        let still_empty = folded.is_some()
            && (now.tree, now.sidecar) == (EMPTY_TREE, EMPTY_TREE)
            && tx.entries_below(now.key, &RelPath::root())?.is_empty();
        // Programs in the directory of a fork are taken to work for its agent.
        let mut cause = Cause::by(Operator::outside());
        if row.kind == WorkspaceKind::Fork {
            cause.claim = agent_claim(tx, row.key)?;
        }
        let mut draft = Draft::new(self.store(), tx, &now, at);
        let renames = Renames::find(&draft.index, found)?;
        let next = draft.next.clone();
        let mut recorder = Recorder {
            draft: &mut draft,
            line: LineTemplate {
                row: &next,
                at,
                via: Via::Sync,
                cause: &cause,
            },
            new_dirs: HashSet::new(),
            renames,
        };
        let mut changes = Vec::with_capacity(found.len());
        let mut all = true;
        let folded = folded.filter(|_| still_empty);
        if folded.is_some() {
            recorder.record_first_sync(found, &mut changes);
        } else {
            for (path, there) in found {
                match there {
                    None => recorder.record_deleted(path, found, &mut changes)?,
                    Some(entry) => all &= recorder.record_present(path, entry, &mut changes)?,
                }
            }
        }
        Ok(DraftedChanges {
            changes,
            all,
            change: draft.finish(),
            folded,
        })
    }
}

/// Drafts the rows and lines of outside changes, path by path in order.
pub(crate) struct Recorder<'a, 't> {
    pub(crate) draft: &'a mut Draft<'t>,
    pub(crate) line: LineTemplate<'a>,
    /// Directories that are new to the index. What is below them needs no look-up.
    pub(crate) new_dirs: HashSet<RelPath>,
    /// Files that were only renamed.
    pub(crate) renames: Renames,
}

impl Recorder<'_, '_> {
    /// Drafts the lines of a first sync of many files. They become the state below the rows, which the
    /// caller writes.
    pub(crate) fn record_first_sync(
        &mut self,
        found: &DiskChanges,
        changes: &mut Vec<OutsideChange>,
    ) {
        for (path, entry) in found {
            let Some(entry) = entry else { continue };
            let op = match entry.kind {
                EntryKind::Dir => HistoryOp::Mkdir,
                _ => HistoryOp::Create,
            };
            let mut line = self.line.file(op, path, entry.kind);
            line.after = entry.id;
            line.size = entry.size;
            self.draft.add_line(line);
            self.draft.counters.add(entry.kind, entry.size);
            changes.push(OutsideChange {
                path: path.clone(),
                op,
                kind: entry.kind,
                from: None,
            });
        }
    }

    /// Drafts the deletion of a path, with everything that the index has below it.
    pub(crate) fn record_deleted(
        &mut self,
        path: &RelPath,
        found: &DiskChanges,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<()> {
        // The deletion of the parent includes this path.
        let parent = path.parent().unwrap_or_default();
        if !parent.is_root() && matches!(found.get(&parent), Some(None)) {
            return Ok(());
        }
        self.draft_removal(path, changes)?;
        self.draft.keep_dir(&parent)
    }

    /// Removes a path and everything below it from the index, with a line for each entry.
    fn draft_removal(&mut self, path: &RelPath, changes: &mut Vec<OutsideChange>) -> Result<()> {
        for (path, entry, _) in self.draft.remove(path)?.into_iter().rev() {
            // The line of its new path says that it moved.
            if self.renames.moved_away(&path) {
                continue;
            }
            let mut line = self.line.file(HistoryOp::Delete, &path, entry.kind);
            line.before = entry.id;
            self.draft.add_line(line);
            changes.push(OutsideChange {
                path: path.clone(),
                op: HistoryOp::Delete,
                kind: entry.kind,
                from: None,
            });
        }
        Ok(())
    }

    /// What the index has at a path that is about to be recorded, with its size, and whether a
    /// directory there must hide what the base has. A directory that became a file, or the other way
    /// round, is removed first.
    fn entry_before(
        &mut self,
        path: &RelPath,
        entry: &DiskEntry,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<(Option<(Entry, i64)>, bool)> {
        let mut before = self.draft.entry_with_size(path)?;
        if before.is_some_and(|(before, _)| before.is_dir() != (entry.kind == EntryKind::Dir)) {
            self.draft_removal(path, changes)?;
            before = None;
        }
        if entry.kind != EntryKind::Dir {
            return Ok((before, false));
        }
        let index = &self.draft.index;
        let hides = before.is_none() && index.base().entry(&index.objects, path)?.is_some();
        let hid = index.own_row(path)?.is_some_and(|row| row.opaque);
        Ok((before, hides || hid))
    }

    /// Whether the index has a directory above a path. A walk sees one path after the other, so a
    /// directory may have become a link before the walk came to its files. The next walk then finds
    /// what is there.
    fn is_in_a_directory(&self, path: &RelPath) -> Result<bool> {
        let parent = path.parent().unwrap_or_default();
        if parent.is_root() {
            return Ok(true);
        }
        let above = self.draft.index.entry(&parent)?;
        Ok(above.is_some_and(|above| above.is_dir()))
    }

    /// Drafts what is on disk at a path and differs from the index. Returns whether it could be
    /// recorded.
    pub(crate) fn record_present(
        &mut self,
        path: &RelPath,
        entry: &DiskEntry,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<bool> {
        let in_new_dir = path
            .parent()
            .is_some_and(|parent| self.new_dirs.contains(&parent));
        if !in_new_dir && !self.is_in_a_directory(path)? {
            if let Some(from) = self.renames.from(path) {
                // The source of the rename is gone also if its target cannot be recorded.
                let mut line = self.line.file(HistoryOp::Delete, from, entry.kind);
                line.before = entry.id;
                self.draft.add_line(line);
            }
            return Ok(false);
        }
        let (before, opaque) = if in_new_dir {
            (None, false)
        } else {
            self.entry_before(path, entry, changes)?
        };
        if entry.kind == EntryKind::Dir && before.is_none() && !opaque {
            self.new_dirs.insert(path.clone());
        }
        let row = EntryRow {
            path: path.clone(),
            kind: Some(entry.kind),
            opaque,
            perm: entry.perm,
            id: entry.id,
            size: entry.size,
            revision: self.draft.next.revision,
        };
        self.draft.replace(before, row)?;
        let before = before.map(|(before, _)| before);
        let from = self.renames.from(path).filter(|_| before.is_none());
        let op = match before {
            None if from.is_some() => HistoryOp::Move,
            None if entry.kind == EntryKind::Dir => HistoryOp::Mkdir,
            None => HistoryOp::Create,
            Some(before) if before.id == entry.id && before.kind == entry.kind => HistoryOp::Mode,
            Some(_) => HistoryOp::Write,
        };
        let mut line = self.line.file(op, path, entry.kind);
        line.before = match from {
            Some(_) => entry.id,
            None => before.and_then(|before| before.id),
        };
        line.from = from.cloned();
        line.after = entry.id;
        line.size = entry.size;
        changes.push(OutsideChange {
            path: path.clone(),
            op,
            kind: entry.kind,
            from: line.from.clone(),
        });
        self.draft.add_line(line);
        Ok(true)
    }
}
