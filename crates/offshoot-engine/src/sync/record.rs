//! Writing what a sync found into the index and the history.

use std::collections::HashSet;

use offshoot_core::{EntryKind, RelPath, Result};
use offshoot_store::{EntryRow, HistoryOp};

use crate::content::draft::Draft;
use crate::content::history_writer::LineTemplate;
use crate::content::index::Entry;
use crate::directory::disk_entry::DiskEntry;
use crate::sync::renames::Renames;
use crate::sync::scan::{DiskChanges, OutsideChange};

/// Drafts what was found, path by path, in the order of paths.
pub(crate) struct Recorder<'a, 't> {
    pub(crate) draft: &'a mut Draft<'t>,
    pub(crate) line: LineTemplate<'a>,
    /// Directories that the index had nothing at and below: what is in them needs no look-up.
    pub(crate) new_dirs: HashSet<RelPath>,
    /// Files that were only renamed.
    pub(crate) renames: Renames,
}

impl Recorder<'_, '_> {
    /// Many files in a workspace that held nothing: they become the state below its rows, which is
    /// for the caller to write.
    pub(crate) fn all_new(&mut self, found: &DiskChanges, changes: &mut Vec<OutsideChange>) {
        for (path, entry) in found {
            let Some(entry) = entry else { continue };
            let op = match entry.kind {
                EntryKind::Dir => HistoryOp::Mkdir,
                _ => HistoryOp::Create,
            };
            let mut line = self.line.file(op, path, entry.kind);
            line.after = entry.id;
            line.size = entry.size;
            self.draft.line(line);
            self.draft.tally.came(entry.kind, entry.size);
            changes.push(OutsideChange {
                path: path.clone(),
                op,
                kind: entry.kind,
                from: None,
            });
        }
    }

    /// A path that is gone, with everything that the index has below it.
    pub(crate) fn gone(
        &mut self,
        path: &RelPath,
        found: &DiskChanges,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<()> {
        // Its parent went too and took it along.
        let parent = path.parent().unwrap_or_default();
        if !parent.is_root() && matches!(found.get(&parent), Some(None)) {
            return Ok(());
        }
        self.forget(path, changes)?;
        self.draft.keep_dir(&parent)
    }

    fn forget(&mut self, path: &RelPath, changes: &mut Vec<OutsideChange>) -> Result<()> {
        for (path, entry, _) in self.draft.remove(path)?.into_iter().rev() {
            // The line of where it is now tells it.
            if self.renames.moved_away(&path) {
                continue;
            }
            let mut line = self.line.file(HistoryOp::Delete, &path, entry.kind);
            line.before = entry.id;
            self.draft.line(line);
            changes.push(OutsideChange {
                path: path.clone(),
                op: HistoryOp::Delete,
                kind: entry.kind,
                from: None,
            });
        }
        Ok(())
    }

    /// What the index has at a path that is about to be recorded, with its bytes, and whether a
    /// directory there must hide what the base has. A directory that became a file, or the other way
    /// round, is forgotten first.
    fn replaced(
        &mut self,
        path: &RelPath,
        entry: &DiskEntry,
        changes: &mut Vec<OutsideChange>,
    ) -> Result<(Option<(Entry, i64)>, bool)> {
        let mut before = self.draft.entry_with_size(path)?;
        if before.is_some_and(|(before, _)| before.is_dir() != (entry.kind == EntryKind::Dir)) {
            self.forget(path, changes)?;
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

    /// Whether the index has a directory above a path. A walk sees one path after the other: what
    /// was a directory when its files were looked at may have been a link when it was itself. Then
    /// the next walk finds what really is there.
    fn is_in_a_directory(&self, path: &RelPath) -> Result<bool> {
        let parent = path.parent().unwrap_or_default();
        if parent.is_root() {
            return Ok(true);
        }
        let above = self.draft.index.entry(&parent)?;
        Ok(above.is_some_and(|above| above.is_dir()))
    }

    /// A path that is there and is not what the index says. Returns whether it could be recorded.
    pub(crate) fn there(
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
                // It went all the same.
                let mut line = self.line.file(HistoryOp::Delete, from, entry.kind);
                line.before = entry.id;
                self.draft.line(line);
            }
            return Ok(false);
        }
        let (before, opaque) = if in_new_dir {
            (None, false)
        } else {
            self.replaced(path, entry, changes)?
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
        self.draft.line(line);
        Ok(true)
    }
}
