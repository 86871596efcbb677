//! The counters of a workspace: the one place where a change of the index becomes a change of the
//! counters in its row, in the same transaction.

use std::collections::HashMap;

use offshoot_core::{EntryKind, Error, ObjectId, RelPath, Result};
use offshoot_store::{Durability, EntryRow, ReadTx, Store, WorkspaceRow, WorkspaceState};

use crate::content::Contents;
use crate::content::index::{Entry, Index};
use crate::content::state::StateChange;

/// A change of the counters of a workspace. `files` includes links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CounterDelta {
    pub(crate) files: i64,
    pub(crate) dirs: i64,
    pub(crate) bytes: i64,
}

/// The counters of states by their trees, because many workspaces share a base.
type CountedTrees = HashMap<(ObjectId, ObjectId), CounterDelta>;

impl CounterDelta {
    /// The counters of a workspace row.
    pub(crate) fn of_row(row: &WorkspaceRow) -> CounterDelta {
        CounterDelta {
            files: row.files,
            dirs: row.dirs,
            bytes: row.bytes,
        }
    }

    /// Applies the change to the counters of a workspace row.
    pub(crate) fn add_to(self, row: &mut WorkspaceRow) {
        row.files += self.files;
        row.dirs += self.dirs;
        row.bytes += self.bytes;
    }

    pub(crate) fn add(&mut self, kind: EntryKind, size: i64) {
        self.count(kind, size, 1);
    }

    pub(crate) fn remove(&mut self, kind: EntryKind, size: i64) {
        self.count(kind, size, -1);
    }

    fn count(&mut self, kind: EntryKind, size: i64, sign: i64) {
        match kind {
            EntryKind::Dir => self.dirs += sign,
            EntryKind::File | EntryKind::Symlink => {
                self.files += sign;
                self.bytes += sign * size;
            }
        }
    }

    /// Counts a row that replaces what the index has at its path.
    pub(crate) fn replace(&mut self, before: Option<(Entry, i64)>, after: &EntryRow) -> Result<()> {
        let is_dir = after.kind == Some(EntryKind::Dir);
        if before.is_some_and(|(before, _)| before.is_dir() != is_dir) {
            // The entries below would be hidden and still be counted.
            return Err(Error::internal(format!(
                "`{}` was not removed from the index before it became something else",
                after.path
            )));
        }
        if let Some((entry, size)) = before {
            self.remove(entry.kind, size);
        }
        if let Some(kind) = after.kind {
            self.add(kind, after.size);
        }
        Ok(())
    }

    /// Counts one difference between two states, with the sizes before and after.
    pub(crate) fn apply(&mut self, change: &StateChange, size_before: i64, size_after: i64) {
        if let Some(before) = change.before {
            self.remove(before.kind, size_before);
        }
        if let Some(after) = change.after {
            self.add(after.kind, size_after);
        }
    }
}

impl Contents {
    /// Counts every open workspace and project again and corrects wrong counters. Returns how many
    /// were wrong. Runs in the background after an unclean stop, and walks every tree once.
    pub(crate) fn recount_all(&self) -> Result<usize> {
        let rows = self.store().read(|tx| tx.all_workspaces())?;
        let mut trees = CountedTrees::new();
        let mut wrong = 0;
        for row in rows {
            match self.recount(&row, &mut trees) {
                Ok(was_wrong) => wrong += usize::from(was_wrong),
                // `check` reports damage that makes a workspace unreadable.
                Err(error) => {
                    tracing::warn!(workspace = %row.id, %error, "its counters were not compared");
                }
            }
        }
        Ok(wrong)
    }

    fn recount(&self, row: &WorkspaceRow, trees: &mut CountedTrees) -> Result<bool> {
        let mut counted = CounterDelta::default();
        let seen = self.store().read(|tx| {
            let now = tx.workspace_by_key(row.key)?;
            let Some(now) = now.filter(|now| now.state == WorkspaceState::Open) else {
                return Ok(None);
            };
            counted = count_index(self.store(), tx, &now, trees)?;
            Ok(Some(now))
        })?;
        let Some(seen) = seen.filter(|seen| CounterDelta::of_row(seen) != counted) else {
            return Ok(false);
        };
        self.store().write(Durability::Relaxed, |tx| {
            let Some(mut now) = tx.workspace_by_key(row.key)? else {
                return Ok(false);
            };
            // Changes since the count started from the wrong counters, so the error is the same.
            let off = CounterDelta {
                files: counted.files - seen.files,
                dirs: counted.dirs - seen.dirs,
                bytes: counted.bytes - seen.bytes,
            };
            off.add_to(&mut now);
            tracing::warn!(workspace = %now.id, ?off, "wrong counters were put right");
            tx.update_workspace(&now)?;
            Ok(true)
        })
    }
}

/// Counts the entries of an index: those of its base, plus what its rows add, minus what they hide.
fn count_index(
    store: &Store,
    tx: &dyn ReadTx,
    row: &WorkspaceRow,
    trees: &mut CountedTrees,
) -> Result<CounterDelta> {
    let index = Index::new(store, tx, row);
    let base = index.base();
    let size = |id: Option<ObjectId>| -> Result<i64> {
        Ok(match id {
            Some(id) => tx.object_size(&id)?.unwrap_or(0) as i64,
            None => 0,
        })
    };
    let mut counted = match trees.get(&(base.tree, base.sidecar)) {
        Some(known) => *known,
        None => {
            let mut all = CounterDelta::default();
            base.walk(&index.objects, &RelPath::root(), &mut |_, entry| {
                all.add(entry.kind, size(entry.id)?);
                Ok(())
            })?;
            trees.insert((base.tree, base.sidecar), all);
            all
        }
    };
    // In the order of paths, each row comes after the rows of the directories above it.
    let mut hiding: HashMap<RelPath, bool> = HashMap::new();
    for entry in tx.entries_below(row.key, &RelPath::root())? {
        let above = entry.path.dirs_above();
        let over = above.iter().filter_map(|dir| hiding.get(dir).copied());
        let over = over.reduce(|one, other| one && other);
        // A row below a file or a deletion does not count.
        if over == Some(false) {
            continue;
        }
        let hides = entry.opaque || entry.kind != Some(EntryKind::Dir);
        if over.is_none()
            && let Some(below) = base.entry(&index.objects, &entry.path)?
        {
            counted.remove(below.kind, size(below.id)?);
            if hides && below.kind == EntryKind::Dir {
                base.walk(&index.objects, &entry.path, &mut |_, entry| {
                    counted.remove(entry.kind, size(entry.id)?);
                    Ok(())
                })?;
            }
        }
        if let Some(kind) = entry.kind {
            counted.add(kind, entry.size);
        }
        if hides {
            hiding.insert(entry.path, entry.kind == Some(EntryKind::Dir));
        }
    }
    Ok(counted)
}
