//! Writing what a sync found into the index and the history.

use std::collections::HashSet;

use offshoot_core::{EntryKind, RelPath, Result};
use offshoot_store::{EntryRow, HistoryOp, WorkspaceRow, WriteTx};

use crate::engine::Engine;
use crate::index::{Entry, Index};
use crate::lines::LineFor;
use crate::read::DiskEntry;
use crate::sync::{Folding, Found, OutsideChange};

/// Writes found changes into the index, one by one, in the order of paths.
pub(crate) struct Recorder<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) next: &'a mut WorkspaceRow,
    pub(crate) line: LineFor<'a>,
    /// Directories that the index had nothing at and below: what is in them needs no look-up.
    pub(crate) new_dirs: HashSet<RelPath>,
}

impl Recorder<'_> {
    /// Many files in a workspace that held nothing: they become the state below its rows.
    pub(crate) fn all_new(
        &mut self,
        tx: &mut dyn WriteTx,
        found: &Found,
        folding: &mut Folding,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<()> {
        for (path, entry) in found {
            let Some(entry) = entry else { continue };
            let op = match entry.kind {
                EntryKind::Dir => HistoryOp::Mkdir,
                _ => HistoryOp::Create,
            };
            let mut line = self.line.file(op, path, entry.kind);
            line.after = entry.id;
            line.size = entry.size;
            tx.add_history(&line)?;
            match entry.kind {
                EntryKind::Dir => self.next.dirs += 1,
                _ => self.next.files += 1,
            }
            self.next.bytes += entry.size;
            changes.push(OutsideChange {
                path: path.clone(),
                op,
                kind: entry.kind,
            });
        }
        let (state, objects) = folding.wait()?;
        for object in objects {
            tx.put_object(object)?;
        }
        self.next.tree = state.tree;
        self.next.sidecar = state.sidecar;
        Ok(())
    }

    /// A path that is gone, with everything that the index has below it.
    pub(crate) fn gone(
        &mut self,
        tx: &mut dyn WriteTx,
        path: &RelPath,
        found: &Found,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<()> {
        // Its parent went too and took it along.
        let parent = path.parent().unwrap_or_default();
        if !parent.is_root() && matches!(found.get(&parent), Some(None)) {
            return Ok(());
        }
        self.forget(tx, path, changes)?;
        if !matches!(found.get(&parent), Some(Some(entry)) if entry.kind != EntryKind::Dir) {
            self.engine
                .keep_parent(tx, self.row, &parent, self.next.revision)?;
        }
        Ok(())
    }

    fn forget(
        &mut self,
        tx: &mut dyn WriteTx,
        path: &RelPath,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<()> {
        let mut all = Vec::new();
        {
            let index = Index::new(self.engine.store(), tx, self.row);
            let Some(top) = index.entry(path)? else {
                return Ok(());
            };
            all.push((path.clone(), top, index.size(&top)?));
            if top.is_dir() {
                index.walk(path, &mut |path, entry| {
                    all.push((path.clone(), *entry, index.size(entry)?));
                    Ok(())
                })?;
            }
        }
        for (path, entry, size) in all.iter().rev() {
            let mut line = self.line.file(HistoryOp::Delete, path, entry.kind);
            line.before = entry.id;
            tx.add_history(&line)?;
            if entry.is_dir() {
                self.next.dirs -= 1;
            } else {
                self.next.files -= 1;
                self.next.bytes -= size;
            }
            changes.push(OutsideChange {
                path: path.clone(),
                op: HistoryOp::Delete,
                kind: entry.kind,
            });
        }
        self.engine
            .remove_in_index(tx, self.row, path, self.next.revision)
    }

    /// What the index has at a path that is about to be recorded: the entry, its bytes, and
    /// whether a directory there must hide what the base has. A directory that became a file, or
    /// the other way round, is forgotten first.
    fn replaced(
        &mut self,
        tx: &mut dyn WriteTx,
        path: &RelPath,
        entry: &DiskEntry,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<(Option<Entry>, i64, bool)> {
        let (mut before, mut size_before) = {
            let index = Index::new(self.engine.store(), tx, self.row);
            let before = index.entry(path)?;
            (before, before.map_or(Ok(0), |entry| index.size(&entry))?)
        };
        if before.is_some_and(|before| before.is_dir() != (entry.kind == EntryKind::Dir)) {
            self.forget(tx, path, changes)?;
            (before, size_before) = (None, 0);
        }
        if entry.kind != EntryKind::Dir {
            return Ok((before, size_before, false));
        }
        let index = Index::new(self.engine.store(), tx, self.row);
        let hides = before.is_none() && index.base().entry(&index.objects, path)?.is_some();
        let hid = tx
            .entries_on_path(self.row.key, path)?
            .last()
            .is_some_and(|row| row.path == *path && row.opaque);
        Ok((before, size_before, hides || hid))
    }

    /// A path that is there and is not what the index says.
    pub(crate) fn there(
        &mut self,
        tx: &mut dyn WriteTx,
        path: &RelPath,
        entry: &DiskEntry,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<()> {
        let in_new_dir = path
            .parent()
            .is_some_and(|parent| self.new_dirs.contains(&parent));
        let (before, size_before, opaque) = if in_new_dir {
            (None, 0, false)
        } else {
            self.replaced(tx, path, entry, changes)?
        };
        if entry.kind == EntryKind::Dir && before.is_none() && !opaque {
            self.new_dirs.insert(path.clone());
        }
        tx.put_entry(
            self.row.key,
            &EntryRow {
                path: path.clone(),
                kind: Some(entry.kind),
                opaque,
                perm: entry.perm,
                id: entry.id,
                size: entry.size,
                revision: self.next.revision,
            },
        )?;
        let op = match before {
            None if entry.kind == EntryKind::Dir => HistoryOp::Mkdir,
            None => HistoryOp::Create,
            Some(before) if before.id == entry.id && before.kind == entry.kind => HistoryOp::Mode,
            Some(_) => HistoryOp::Write,
        };
        let mut line = self.line.file(op, path, entry.kind);
        line.before = before.and_then(|before| before.id);
        line.after = entry.id;
        line.size = entry.size;
        tx.add_history(&line)?;
        match (before, entry.kind) {
            (None, EntryKind::Dir) => self.next.dirs += 1,
            (None, _) => self.next.files += 1,
            _ => {}
        }
        self.next.bytes += entry.size - size_before;
        changes.push(OutsideChange {
            path: path.clone(),
            op,
            kind: entry.kind,
        });
        Ok(())
    }
}
