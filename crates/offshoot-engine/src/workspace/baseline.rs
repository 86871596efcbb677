//! Baselines for benchmarks: the least that a write or a commit can do. Nothing else calls them.

use offshoot_core::{Cause, RelPath, Result, WorkspaceId};
use offshoot_store::{Durability, Via};

use crate::content::incoming::Content;
use crate::content::rows::open_row_in;
use crate::workspace::Workspaces;
use crate::workspace::files::{Target, WriteOptions};
use crate::workspace::writes::{NewFile, draft_file};

impl Workspaces {
    /// Commits one row without waiting for the disk. For benchmarks.
    #[doc(hidden)]
    pub fn baseline_commit(&self, value: &str) -> Result<()> {
        self.store()
            .write(Durability::Relaxed, |tx| tx.put_setting("bench", value))
    }

    /// Commits the rows of a write and does nothing else: no lock and no file. For benchmarks,
    /// on a workspace without a directory.
    #[doc(hidden)]
    pub fn baseline_write(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        content: &[u8],
        cause: &Cause,
    ) -> Result<()> {
        let incoming = self.contents.receive(Content::Bytes(content))?;
        let file = NewFile {
            target: Target::Exactly(path.clone()),
            size: incoming.size,
            id: incoming.id,
            object: incoming.object,
            options: WriteOptions::default(),
            via: Via::Call,
            cause: cause.clone(),
        };
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            let row = open_row_in(tx, id)?;
            self.contents
                .change_in_transaction(tx, &row, at, |draft| draft_file(draft, &file).map(drop))
        })
    }
}
