//! Building the directory of a workspace from the store, and removing it.

use std::path::PathBuf;

use offshoot_core::{
    DEFAULT_DIR_PERM, EntryKind, Error, ErrorCode, Layout, RelPath, Result, SESSION_METADATA,
    Timestamp,
};
use offshoot_fs::{SafeDir, Sync};
use offshoot_store::{Durability, WorkspaceKind, WorkspaceRow};

use crate::content::index::{Entry, Index};
use crate::content::paths_with_history::PathsWithHistory;
use crate::content::rows::open_row_by_key;
use crate::content::workspace_row::session_metadata;
use crate::directory::Directories;

impl Directories {
    /// Removes the directory of a workspace. Its content must be in the store (INV-3: the row first,
    /// the bytes after).
    pub(crate) fn discard_dir(&self, row: &WorkspaceRow) -> Result<()> {
        match row.kind {
            WorkspaceKind::Standalone => {}
            WorkspaceKind::Fork => return self.discard_fork_dir(row),
            // A project has no directory. A workspace of the same name may have one.
            WorkspaceKind::Project => return Ok(()),
        }
        let _ = std::fs::remove_file(self.context.data.memo(row.key));
        let from = self.context.data.workspace(&row.id);
        match self.discard_path(&from) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(Error::new(
                ErrorCode::WriteFailed,
                format!(
                    "the directory of workspace `{}` could not be removed",
                    row.id
                ),
            )
            .with_source(cause)),
            _ => Ok(()),
        }
    }

    /// Removes directories that were moved to `tmp/`. The clean-up after the next unclean stop removes
    /// what cannot be removed now.
    pub(crate) fn empty_trash(&self, trash: &[PathBuf]) {
        let Ok(tmp) = SafeDir::open(self.context.data.tmp()) else {
            return;
        };
        for name in trash.iter().filter_map(|path| path.file_name()) {
            let _ = tmp.remove_tree(&RelPath::from_normal(name.as_encoded_bytes()));
        }
    }

    /// Builds the directory of a workspace if it does not exist. The caller holds the exclusive lock
    /// and updates the row.
    pub(crate) fn materialize(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        if row.materialized {
            return self.dir_of(row);
        }
        self.discard_aside(row);
        if row.kind == WorkspaceKind::Fork {
            return self.materialize_fork_dir(row);
        }
        let target = self.context.data.workspace(&row.id);
        // An interrupted attempt, or the deletion of an earlier workspace of this name, may have left
        // files there.
        self.discard_dir(row)?;
        let build = self
            .context
            .data
            .tmp()
            .join(format!("build-{}", uuid::Uuid::now_v7().simple()));
        self.make_dir(&build)?;
        let dir = self.open_dir(&build)?.following_no_links();
        if let Err(error) = self.fill(row, &dir) {
            // A clean-up removes what cannot be removed now.
            let _ = std::fs::remove_dir_all(&build);
            return Err(error);
        }
        std::fs::rename(&build, &target).map_err(|cause| {
            Error::new(
                ErrorCode::WriteFailed,
                "the workspace directory could not be made",
            )
            .with_source(cause)
        })?;
        // The row may say that the directory exists only after all of it is on disk. Files that a power
        // cut took would look as if an outside program had deleted them.
        if row.files + row.dirs > 0 {
            self.sync_workspaces()?;
        }
        Ok(dir)
    }

    pub(crate) fn make_dir(&self, path: &std::path::Path) -> Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        match std::fs::DirBuilder::new()
            .mode(DEFAULT_DIR_PERM)
            .create(path)
        {
            Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::new(
                ErrorCode::WriteFailed,
                "the workspace directory could not be made",
            )
            .with_source(cause)),
            _ => Ok(()),
        }
    }

    /// Writes all entries of the index into an empty directory.
    pub(crate) fn fill(&self, row: &WorkspaceRow, dir: &SafeDir) -> Result<()> {
        let root = RelPath::root();
        let mut entries: Vec<(RelPath, Entry, Option<Timestamp>)> = Vec::new();
        self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            entries.clear();
            Index::new(self.store(), tx, &now).walk(&root, &mut |path, entry| {
                entries.push((path.clone(), *entry, None));
                Ok(())
            })?;
            let touched = PathsWithHistory::read(tx, &now, &root, entries.len())?;
            for (path, entry, modified) in &mut entries {
                if entry.kind == EntryKind::File {
                    *modified = touched.modified_at(tx, &now, path)?;
                }
            }
            Ok(())
        })?;
        for (path, entry, modified) in &entries {
            self.put_on_disk(dir, path, entry, *modified)?;
        }
        // Permission bits of directories come last, because a read-only one could not be filled.
        for (path, entry, _) in entries.iter().rev() {
            if entry.is_dir() && entry.perm != DEFAULT_DIR_PERM {
                dir.set_perm(path, entry.perm)?;
            }
        }
        if row.layout == Layout::Session {
            let path = RelPath::from_normal(SESSION_METADATA);
            dir.write(&path, session_metadata(row).as_bytes(), 0o444, Sync::None)?;
        }
        Ok(())
    }
}

impl Directories {
    /// Builds the directory of a workspace and marks its path as handed out, so that outside programs
    /// may change it from now on. The caller holds the exclusive lock.
    pub(crate) fn make_directory(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        let dir = self.materialize(row)?;
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            let mut row = open_row_by_key(tx, row)?;
            row.handed_out = true;
            row.materialized = true;
            row.used_at = at;
            tx.update_workspace(&row)
        })?;
        Ok(dir)
    }
}
