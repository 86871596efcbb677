//! When entries of an index last changed, from the lines of history.

use offshoot_core::RelPath;

/// Up to so many entries their history is asked for one by one.
use offshoot_core::Result;
use offshoot_core::Timestamp;
use offshoot_store::ReadTx;
use offshoot_store::WorkspaceRow;
use std::collections::HashSet;
pub(crate) const ASKED_ONE_BY_ONE: usize = 256;

/// Which entries of a directory have lines of history. Most files of a fork have none, and to ask
/// for each takes longer than all the rest of a large listing.
#[derive(Default)]
pub(crate) struct PathsWithHistory(Option<HashSet<RelPath>>);

impl PathsWithHistory {
    pub(crate) fn read(
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        dir: &RelPath,
        entries: usize,
    ) -> Result<Self> {
        if entries <= ASKED_ONE_BY_ONE {
            return Ok(PathsWithHistory(None));
        }
        let limit = entries.saturating_mul(2);
        let known = tx.paths_with_history(row.key, dir, limit)?;
        // What lies deeper may have more lines than the entries are: then each is asked for.
        Ok(PathsWithHistory(
            (known.len() < limit).then(|| known.into_iter().collect()),
        ))
    }

    pub(crate) fn may_have(&self, path: &RelPath) -> bool {
        self.0.as_ref().is_none_or(|known| known.contains(path))
    }

    /// See [`modified_at`].
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

/// When an entry that is in the store alone last changed, or the workspace if only that is known.
pub(crate) fn changed_at(tx: &dyn ReadTx, row: &WorkspaceRow, path: &RelPath) -> Result<Timestamp> {
    Ok(modified_at(tx, row, path)?.unwrap_or(row.changed_at))
}

/// When a file that is in the store alone was last modified: as its last writer said, or else when
/// that was. None if it came with the workspace.
pub(crate) fn modified_at(
    tx: &dyn ReadTx,
    row: &WorkspaceRow,
    path: &RelPath,
) -> Result<Option<Timestamp>> {
    let last = tx.last_write(row.key, path)?;
    Ok(last.map(|last| last.line.modified.unwrap_or(last.line.at)))
}
