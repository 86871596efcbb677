//! When entries of an index last changed, from the lines of history.

use std::collections::HashSet;

use offshoot_core::{RelPath, Result, Timestamp};
use offshoot_store::{ReadTx, WorkspaceRow};

/// Up to so many entries are looked up one by one.
pub(crate) const LOOKED_UP_SINGLY: usize = 256;

/// The entries of a directory that have lines of history; none if each has to be looked up. Most files
/// of a fork have no lines, and looking up each takes longer than the rest of a large listing.
#[derive(Default)]
pub(crate) struct PathsWithHistory(Option<HashSet<RelPath>>);

impl PathsWithHistory {
    pub(crate) fn read(
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        dir: &RelPath,
        entries: usize,
    ) -> Result<Self> {
        if entries <= LOOKED_UP_SINGLY {
            return Ok(PathsWithHistory(None));
        }
        let limit = entries.saturating_mul(2);
        let known = tx.paths_with_history(row.key, dir, limit)?;
        // If there are too many paths further down, each entry is looked up.
        Ok(PathsWithHistory(
            (known.len() < limit).then(|| known.into_iter().collect()),
        ))
    }

    pub(crate) fn may_have(&self, path: &RelPath) -> bool {
        self.0.as_ref().is_none_or(|known| known.contains(path))
    }

    /// When a file was last modified; see [`modified_at`].
    pub(crate) fn modified_at(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        path: &RelPath,
    ) -> Result<Option<Timestamp>> {
        match self.may_have(path) {
            true => modified_at(tx, row, path),
            false => Ok(None),
        }
    }
}

/// When an entry without a directory last changed, or else when its workspace did.
pub(crate) fn changed_at(tx: &dyn ReadTx, row: &WorkspaceRow, path: &RelPath) -> Result<Timestamp> {
    Ok(modified_at(tx, row, path)?.unwrap_or(row.changed_at))
}

/// When a file without a directory was last modified: the time that its last writer gave, or else that
/// of the write. None if the file is unchanged since the workspace was made.
pub(crate) fn modified_at(
    tx: &dyn ReadTx,
    row: &WorkspaceRow,
    path: &RelPath,
) -> Result<Option<Timestamp>> {
    let last = tx.last_write(row.key, path)?;
    Ok(last.map(|last| last.line.modified.unwrap_or(last.line.at)))
}
