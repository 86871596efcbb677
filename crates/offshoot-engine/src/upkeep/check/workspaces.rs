//! The index of a workspace against its counters, its content and its history.

use offshoot_core::{EntryKind, RelPath, Result};
use offshoot_store::{HistoryOp, ReadTx, WorkspaceRow, WorkspaceState};

use super::{Check, Findings, unless_busy};
use crate::content::index::Index;

impl Check<'_> {
    /// Every workspace and project.
    pub(super) fn workspaces(&mut self) -> Result<()> {
        let mut rows = Vec::new();
        self.look_repeatedly("workspace", |check, _| {
            rows = check.upkeep.store().read(|tx| tx.all_workspaces())?;
            Ok(())
        })?;
        for row in rows {
            self.report.workspaces += 1;
            self.snapshots(&row)?;
            self.refs(&row)?;
            self.history(&row)?;
            self.references(&row)?;
            if row.state == WorkspaceState::Open {
                self.look_repeatedly("workspace", |check, found| check.workspace(&row, found))?;
            }
        }
        Ok(())
    }

    /// What the row of a workspace and those of its merges and reviews name.
    fn references(&mut self, row: &WorkspaceRow) -> Result<()> {
        self.look_repeatedly("workspace", |check, found| {
            let named = check.upkeep.store().read(|tx| named_by_rows(tx, row))?;
            for (by, id) in named {
                let by = || format!("{by} of `{}`", row.id);
                check.named_by(&id, by, "workspace", found)?;
            }
            Ok(())
        })
    }

    /// The index of an open workspace, and whether it has the directory that somebody was given.
    fn workspace(&mut self, row: &WorkspaceRow, found: &mut Findings) -> Result<()> {
        // Nobody may be between a commit and its projection.
        let lock = unless_busy(self.upkeep.directories.exclusive(row))?;
        let store = self.upkeep.store();
        let mut entries = Vec::new();
        let mut stale = Vec::new();
        let row = store.read(|tx| {
            entries.clear();
            let row = tx.workspace_by_key(row.key)?;
            let Some(row) = row.filter(|row| row.state == WorkspaceState::Open) else {
                return Ok(None);
            };
            let index = Index::new(store, tx, &row);
            index.walk(&RelPath::root(), &mut |path, entry| {
                entries.push((path.clone(), *entry, index.size(entry)?));
                Ok(())
            })?;
            stale = not_in_history(tx, &row)?;
            Ok(Some(row))
        })?;
        // Closed or erased since.
        let Some(row) = row else { return Ok(()) };
        for path in stale {
            let message = format!("`{path}` of `{}` is not what its history says", row.id);
            found.add("entry", message);
        }
        let (mut files, mut dirs, mut bytes) = (0, 0, 0);
        for (path, entry, size) in &entries {
            if entry.is_dir() {
                dirs += 1;
            } else {
                files += 1;
                bytes += size;
            }
            if let Some(id) = entry.id {
                let by = || format!("`{path}` of `{}`", row.id);
                self.named_by(&id, by, "entry", found)?;
            }
        }
        if (files, dirs, bytes) != (row.files, row.dirs, row.bytes) {
            found.add(
                "workspace",
                format!(
                    "`{}` counts {} files, {} directories, {} bytes; its index has {files}, {dirs}, {bytes}",
                    row.id, row.files, row.dirs, row.bytes
                ),
            );
        }
        if !row.materialized || lock.is_none() {
            return Ok(());
        }
        if !self.upkeep.directories.has_directory(&row)? {
            let id = &row.id;
            let message =
                format!("the directory of `{id}` is missing; it comes back with its next use");
            found.add("directory", message);
        }
        Ok(())
    }
}

/// Objects that rows of a workspace name and that must be there: garbage collection keeps them.
fn named_by_rows(
    tx: &dyn ReadTx,
    row: &WorkspaceRow,
) -> Result<Vec<(String, offshoot_core::ObjectId)>> {
    let mut named = Vec::new();
    let mut add = |by: &str, id| named.extend(Some(id).flatten().map(|id| (by.to_owned(), id)));
    let Some(row) = tx.workspace_by_key(row.key)? else {
        return Ok(Vec::new());
    };
    add("the row", row.head);
    add("the row", Some(row.tree));
    add("the row", Some(row.sidecar));
    if let Some(fork) = tx.fork(row.key)? {
        add("the fork", Some(fork.base));
        add("the fork", Some(fork.base_tree));
        add("the fork", Some(fork.base_sidecar));
    }
    for review in tx.reviews(Some(row.key), false)? {
        let by = format!("review `{}`", review.id);
        add(&by, review.base);
        add(&by, review.ours);
        add(&by, review.theirs);
        for candidate in tx.candidates(&review.id)? {
            add(&by, Some(candidate.content));
        }
    }
    Ok(named)
}

/// Paths whose row has another content than the newest line of the history that gave them one.
fn not_in_history(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<Vec<RelPath>> {
    let mut stale = Vec::new();
    for entry in tx.entries_below(row.key, &RelPath::root())? {
        let Some(id) = entry.id.filter(|_| entry.kind != Some(EntryKind::Dir)) else {
            continue;
        };
        // A path that came with the workspace has no line.
        let Some(line) = tx.last_write(row.key, &entry.path)? else {
            continue;
        };
        let proposed = matches!(
            line.line.op,
            HistoryOp::ReviewPropose | HistoryOp::ReviewOpen | HistoryOp::ReviewResolve
        );
        if !proposed && line.line.after != Some(id) {
            stale.push(entry.path);
        }
    }
    Ok(stale)
}
