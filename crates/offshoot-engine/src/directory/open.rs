//! Opening the directory of a workspace.

use std::path::Path;

use offshoot_core::{ErrorCode, Result};
use offshoot_fs::SafeDir;
use offshoot_store::{WorkspaceKind, WorkspaceRow};

use crate::directory::Directories;

impl Directories {
    /// The directory of a materialised workspace, for paths of its index. No link is followed: a
    /// directory that an outside program replaced by a link would lead to other files.
    pub(crate) fn dir_of(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        self.dir_to_read(row).map(SafeDir::following_no_links)
    }

    /// The directory of a materialised workspace, for reading paths that a caller gives. Links that
    /// stay inside are followed.
    pub(crate) fn dir_to_read(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        let path = self.context.data.workspace(&row.id);
        if row.kind == WorkspaceKind::Fork && row.materialized {
            self.ensure_mounted(row)?;
        }
        self.open_dir(&path)
    }

    /// The directory for a reader that holds no lock. A missing directory is built first, and the use is
    /// noted.
    pub(crate) fn dir_for_reader(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        self.note_use(row);
        match self.dir_to_read(row) {
            Err(error) if error.code() == ErrorCode::FileNotFound => {
                self.ensure_directory(row)?;
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
