//! Writing entries of the index into a directory.
//!
//! A change is committed first and projected after it, while its caller holds the exclusive lock. The
//! projection writes what the index has at that moment.

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
    /// Writes one entry of the index to disk and replaces what is there. Parents must exist in the
    /// index, and are made on disk. A file without a modification time gets the current one.
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

    /// Stages a file with the content of an object.
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

    /// Makes paths of a directory equal to the index. Each may be a file, link or directory that was
    /// added, changed or removed. Paths below a directory are written only if they are named too. The
    /// caller holds the exclusive lock.
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
        // Removals come first, the deepest first; then additions, parents first.
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

/// Removes an empty directory that a file or link replaces.
fn make_room_for_leaf(dir: &SafeDir, path: &RelPath) -> Result<()> {
    match dir.stat(path)? {
        Some(stat) if stat.is_dir() => dir.remove_dir(path),
        _ => Ok(()),
    }
}

/// Removes a file or link that a directory replaces.
fn make_room_for_dir(dir: &SafeDir, path: &RelPath) -> Result<()> {
    match dir.stat(path)? {
        Some(stat) if !stat.is_dir() => dir.remove_file(path),
        _ => Ok(()),
    }
}

impl Directories {
    /// Writes differences to a directory: removals first, then additions.
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
