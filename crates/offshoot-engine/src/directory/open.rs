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

    /// The directory for a reader that holds no lock. Links that stay inside are followed. A directory
    /// that is missing or not mounted is shown first, and the use is noted.
    pub(crate) fn dir_for_reader(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        match self.dir_if_ready(row)? {
            Some(dir) => Ok(dir),
            None => self.show_directory(row),
        }
    }

    /// The directory for a reader that cannot wait for a lock; none if it would have to.
    pub(crate) fn dir_if_ready(&self, row: &WorkspaceRow) -> Result<Option<SafeDir>> {
        self.note_use(row);
        let dir = match self.open_dir(&self.context.data.workspace(&row.id)) {
            Err(error) if error.code() == ErrorCode::FileNotFound => return Ok(None),
            dir => dir?,
        };
        // The handle tells, because the mount may begin or end meanwhile.
        let is_shown =
            row.kind != WorkspaceKind::Fork || dir.is_mounted()? || self.mount_of(row)?.is_none();
        Ok(is_shown.then_some(dir))
    }

    /// Builds and mounts what is missing of a directory, and opens it. That takes the exclusive lock: an
    /// update unmounts the directory that the fork leaves, and a reader that mounted it again would
    /// show it for good.
    pub(crate) fn show_directory(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        let (now, _lock) = self.exclusive_open(row)?;
        self.ensure_directory_locked(&now)?;
        if now.kind == WorkspaceKind::Fork && now.materialized {
            self.ensure_mounted(&now)?;
        }
        self.open_dir(&self.context.data.workspace(&now.id))
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
