//! Opening the directory of a workspace.

use std::path::Path;

use offshoot_core::{ErrorCode, Result};
use offshoot_fs::SafeDir;
use offshoot_store::{WorkspaceKind, WorkspaceRow};

use crate::directory::Directories;

impl Directories {
    /// The directory of a materialised workspace, for paths of its index. No link is followed: a
    /// directory that an outside program replaced by a link would lead to other files. The caller
    /// holds the exclusive lock.
    pub(crate) fn dir_of(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        if row.kind == WorkspaceKind::Fork && row.materialized {
            self.ensure_mounted(row)?;
        }
        let dir = self.open_dir(&self.context.data.workspace(&row.id))?;
        Ok(dir.following_no_links())
    }

    /// The directory for a reader that holds no lock. Links that stay inside are followed, a missing
    /// directory is built first, and the use is noted.
    pub(crate) fn dir_for_reader(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        self.note_use(row);
        let open = || {
            self.lock_and_mount(row)?;
            self.open_dir(&self.context.data.workspace(&row.id))
        };
        match open() {
            Err(error) if error.code() == ErrorCode::FileNotFound => {
                self.ensure_directory(row)?;
                open()
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
