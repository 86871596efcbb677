//! Snapshots as a git repository, for people and tools that speak git.

use std::path::Path;

use offshoot_core::{Error, ObjectId, Result, WorkspaceId};
use offshoot_git::{ExportProgress, ExportReport, export_bare};

use crate::engine::{Engine, open_row_in};
use crate::objects::StoredObjects;

const BRANCH: &str = "refs/heads/main";

/// What an export wrote.
#[derive(Clone, Copy, Debug)]
pub struct Exported {
    /// The newest snapshot, which `main` points at.
    pub head: ObjectId,
    /// How many snapshots there are.
    pub snapshots: usize,
    /// What was written.
    pub report: ExportReport,
}

impl Engine {
    /// Writes the snapshots of a workspace into a bare repository, which stock git can clone.
    /// No git binary is needed. Exporting again adds what is new.
    pub fn export_git(
        &self,
        id: &WorkspaceId,
        target: &Path,
        progress: &mut dyn FnMut(ExportProgress),
    ) -> Result<Exported> {
        let (head, snapshots) = self.store().read(|tx| {
            let row = open_row_in(tx, id)?;
            let count = tx.snapshots(row.key, 0)?.len();
            Ok((row.head, count))
        })?;
        let head = head.ok_or_else(|| {
            Error::invalid(format!("`{id}` has no snapshot to export"))
                .with_hint(format!("take one with `offshoot snapshot {id}`"))
        })?;
        let objects = StoredObjects {
            store: self.store(),
            tx: None,
        };
        let refs = [(BRANCH.to_owned(), head)];
        let report = export_bare(target, &objects, &refs, BRANCH, progress)?;
        Ok(Exported {
            head,
            snapshots,
            report,
        })
    }
}
