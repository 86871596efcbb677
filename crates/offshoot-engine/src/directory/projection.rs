//! Bringing a directory in line with the index.
//!
//! A change is committed first and projected after, while its caller holds the workspace alone. What
//! is projected is what the index says by then.

use std::io::Read;

use offshoot_core::{EntryKind, Error, ErrorCode, ObjectId, RelPath, Result, Timestamp};
use offshoot_fs::{SafeDir, Staged, Sync};
use offshoot_store::WorkspaceRow;

use crate::content::index::{Entry, Index};
use crate::content::objects::missing_content;
use crate::content::rows::open_row_by_key;
use crate::content::state::StateChange;
use crate::directory::Directories;

const CHUNK: usize = 128 << 10;

impl Directories {
    /// Writes one entry of the index to disk, whatever is there. Parents must exist in the index;
    /// they are made on disk on the way. A file
    /// without a time of modification is modified now.
    pub(crate) fn put_on_disk(
        &self,
        dir: &SafeDir,
        path: &RelPath,
        entry: &Entry,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        let content = || {
            entry
                .id
                .ok_or_else(|| Error::internal(format!("`{path}` has no content in the index")))
        };
        match entry.kind {
            EntryKind::Dir => {
                make_room_for_dir(dir, path)?;
                dir.mkdir_all(path, offshoot_core::DEFAULT_DIR_PERM)
            }
            EntryKind::Symlink => {
                let target = self.contents.whole_object(&content()?)?;
                make_room_for_leaf(dir, path)?;
                dir.symlink(path, &target).map(drop)
            }
            EntryKind::File => {
                let mut staged = self.stage_object(dir, &content()?, entry.perm)?;
                if let Some(modified) = modified {
                    staged.set_modified(modified.to_system());
                }
                make_room_for_leaf(dir, path)?;
                dir.commit(staged, path, true, Sync::None).map(drop)
            }
        }
    }

    /// A staged file with the content of an object.
    pub(crate) fn stage_object(&self, dir: &SafeDir, id: &ObjectId, perm: u32) -> Result<Staged> {
        use std::io::Write as _;
        let mut staged = dir.stage(perm)?;
        let (_, _, mut content) = self.store().open_object(id)?.ok_or_else(missing_content)?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let n = content
                .read(&mut chunk)
                .map_err(crate::content::incoming::unreadable)?;
            if n == 0 {
                return Ok(staged);
            }
            staged.write_all(&chunk[..n]).map_err(|cause| {
                Error::new(ErrorCode::WriteFailed, "a file could not be written")
                    .with_hint("check the free space of the data directory")
                    .with_source(cause)
            })?;
        }
    }

    /// Brings paths of a directory in line with what the index says now. Each may be a file, a
    /// link or a directory that came, changed or went; what is below a directory is not looked at
    /// unless it is named too. The caller holds the exclusive lock.
    pub(crate) fn project_paths(&self, row: &WorkspaceRow, paths: &[RelPath]) -> Result<()> {
        let dir = self.dir_of(row)?;
        let mut wanted: Vec<(RelPath, Option<Entry>)> = Vec::with_capacity(paths.len());
        self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let index = Index::new(self.store(), tx, &now);
            wanted.clear();
            for path in paths {
                wanted.push((path.clone(), index.entry(path)?));
            }
            Ok(())
        })?;
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        // What went makes room first, the deepest first; then what came, parents first.
        for (path, entry) in wanted.iter().rev() {
            if entry.is_none() {
                remove_from_disk(&dir, path)?;
            }
        }
        for (path, entry) in &wanted {
            if let Some(entry) = entry {
                self.put_if_different(&dir, path, entry)?;
            }
        }
        for (path, entry) in wanted.iter().rev() {
            if let Some(entry) = entry.filter(Entry::is_dir) {
                dir.set_perm(path, entry.perm)?;
            }
        }
        Ok(())
    }

    fn put_if_different(&self, dir: &SafeDir, path: &RelPath, entry: &Entry) -> Result<()> {
        if let Some(now) = self.entry_on_disk(dir, path)?
            && now.kind == entry.kind
            && now.id == entry.id
        {
            if entry.kind == EntryKind::File && now.perm != entry.perm {
                return dir.set_perm(path, entry.perm);
            }
            return Ok(());
        }
        self.put_on_disk(dir, path, entry, None)
    }
}

/// Removes a file, a link or an empty directory. A directory that still holds something, such as
/// ignored files, stays.
pub(crate) fn remove_from_disk(dir: &SafeDir, path: &RelPath) -> Result<()> {
    let Some(stat) = dir.stat(path)? else {
        return Ok(());
    };
    let removed = if stat.is_dir() {
        match dir.list(path)?.is_empty() {
            true => dir.remove_dir(path),
            false => Ok(()),
        }
    } else {
        dir.remove_file(path)
    };
    match removed {
        Err(error) if error.code() == ErrorCode::FileNotFound => Ok(()),
        other => other,
    }
}

/// A file or link takes the place of an empty directory.
fn make_room_for_leaf(dir: &SafeDir, path: &RelPath) -> Result<()> {
    match dir.stat(path)? {
        Some(stat) if stat.is_dir() => dir.remove_dir(path),
        _ => Ok(()),
    }
}

/// A directory takes the place of a file or link.
fn make_room_for_dir(dir: &SafeDir, path: &RelPath) -> Result<()> {
    match dir.stat(path)? {
        Some(stat) if !stat.is_dir() => dir.remove_file(path),
        _ => Ok(()),
    }
}

impl Directories {
    /// Writes differences to a directory: what goes first, then what comes.
    pub(crate) fn project_changes(&self, dir: &SafeDir, changes: &[StateChange]) -> Result<()> {
        for change in changes.iter().rev() {
            let type_changed = matches!(
                (&change.before, &change.after),
                (Some(before), Some(after)) if before.kind != after.kind
            );
            if change.after.is_none() || type_changed {
                remove_from_disk(dir, &change.path)?;
            }
        }
        for change in changes {
            let Some(after) = change.after else { continue };
            let only_mode = change
                .before
                .is_some_and(|before| before.kind == after.kind && before.id == after.id);
            if only_mode {
                if after.kind == EntryKind::File {
                    dir.set_perm(&change.path, after.perm)?;
                }
            } else {
                self.put_on_disk(dir, &change.path, &Entry::of_state(after), None)?;
            }
        }
        for change in changes.iter().rev() {
            if let Some(after) = change.after.filter(|after| after.kind == EntryKind::Dir) {
                dir.set_perm(&change.path, after.perm)?;
            }
        }
        Ok(())
    }
}
