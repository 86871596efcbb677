//! Opening the directory of a workspace.

use std::path::Path;

use offshoot_core::{ErrorCode, Result};
use offshoot_fs::SafeDir;
use offshoot_store::{WorkspaceKind, WorkspaceRow};

use crate::directory::Directories;

impl Directories {
    /// The directory of a materialised workspace, for paths of its index: no link is followed, or
    /// a directory that an outside program replaced by a link would lead to other files.
    pub(crate) fn dir_of(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        self.dir_to_read(row).map(SafeDir::following_no_links)
    }

    /// The same for paths that a caller gives and only reads: links that stay inside are followed.
    pub(crate) fn dir_to_read(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        let path = self.context.data.workspace(&row.id);
        if row.kind == WorkspaceKind::Fork && row.materialized {
            self.ensure_fork(row)?;
        }
        self.open_dir(&path)
    }

    /// The same for a reader, who holds no lock: a directory that is gone comes back first. Notes
    /// the use.
    pub(crate) fn dir_for_reader(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        self.note_use(row);
        match self.dir_to_read(row) {
            Err(error) if error.code() == ErrorCode::FileNotFound => {
                self.bring_back(row)?;
                self.dir_to_read(row)
            }
            answer => answer,
        }
    }

    pub(crate) fn open_dir(&self, path: &Path) -> Result<SafeDir> {
        let dir = match self.context.options.form {
            Some(form) => SafeDir::open_with(path, form)?,
            None => SafeDir::open(path)?,
        };
        Ok(match &self.context.options.faults {
            Some(plan) => dir.with_faults(plan.clone()),
            None => dir,
        })
    }
}
