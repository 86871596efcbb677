//! What a project remembers of the directory that it took files from.

use std::path::Path;

use offshoot_core::Result;
use offshoot_store::{ReadTx, SnapshotRow, WorkspaceKey, WriteTx};

use crate::formats::{self, DirectorySource};
use crate::project::policy::settings_row;

/// What a project last took from a directory; none if nothing was.
pub(crate) fn source_in(tx: &dyn ReadTx, project: WorkspaceKey) -> Result<Option<DirectorySource>> {
    let row = settings_row(tx, project)?;
    row.source.as_ref().map(formats::parse_text).transpose()
}

/// Notes what a project took from a directory.
pub(crate) fn put_source(
    tx: &mut dyn WriteTx,
    project: WorkspaceKey,
    source: &DirectorySource,
) -> Result<()> {
    let mut row = settings_row(tx, project)?;
    row.source = Some(formats::to_text(source)?);
    tx.put_project(&row)
}

/// What to remember of a snapshot that holds what a directory held.
pub(crate) fn source_of(
    directory: Option<&Path>,
    ignore_rules: bool,
    snapshot: &SnapshotRow,
) -> DirectorySource {
    DirectorySource {
        directory: directory.and_then(Path::to_str).map(str::to_owned),
        ignore_rules,
        taken: snapshot.id,
        sidecar: snapshot.sidecar,
        pending: None,
    }
}
