//! A workspace as a whole at one point in time, for archives.
//!
//! Its entries are those of the index, read in one transaction, and their content is that of the
//! store, which never changes: an archive is one state that existed, however long its reader takes
//! and whatever is written meanwhile. Outside changes are recorded first, as for a snapshot.
//! Ignored files, which only the directory has, are added one by one, each as it was at one moment.

use std::collections::HashSet;
use std::fs::File;
use std::io::Seek as _;
use std::io::{Cursor, Read, SeekFrom};

use offshoot_core::{
    EntryKind, Error, ErrorCode, ObjectId, RelPath, Result, Timestamp, WorkspaceId,
};
use offshoot_fs::{SafeDir, Stat, Walk};
use offshoot_store::WorkspaceRow;

use crate::content::incoming::unreadable;
use crate::content::index::Index;
use crate::content::objects::missing_content;
use crate::content::paths_with_history::PathsWithHistory;
use crate::content::rows::{no_file, open_row_by_key};
use crate::content::too_large::{TooLarge, largest_file};
use crate::content::workspace_row::is_session_metadata;
use crate::sync::disk::same_version;
use crate::sync::scan::Synced;
use crate::workspace::Workspaces;

/// Copies up to this size are held in memory.
const IN_MEMORY: u64 = 1 << 20;
/// A file that keeps changing is taken as it is after so many tries to find it at rest.
const TRIES: usize = 3;

/// One entry of a whole workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// Its path.
    pub path: RelPath,
    /// Whether it is a file, a link or a directory.
    pub kind: EntryKind,
    /// Permission bits.
    pub perm: u32,
    /// When it last changed, or the workspace if only that is known.
    pub modified_at: Timestamp,
    /// The content; none for directories, and for ignored files, which are not in the store.
    content: Option<ObjectId>,
}

/// A workspace, or a directory of it, as it was at one moment.
pub struct WorkspaceArchive {
    workspaces: Workspaces,
    row: WorkspaceRow,
    /// Parents before what is in them.
    pub entries: Vec<ArchiveEntry>,
    /// Files that are too large to be read, under the paths that were asked for. If one is among the
    /// entries, it is there with what it held when it was last recorded.
    pub too_large: Vec<TooLarge>,
}

/// The content of an entry: exactly `size` bytes, or an error before the last of them.
pub struct ArchiveContent {
    /// How many bytes there are.
    pub size: u64,
    /// The bytes.
    pub content: Box<dyn Read + Send>,
}

impl Workspaces {
    /// Everything in and below a directory, as it is now. Costs a sync and a look at the index.
    pub fn open_archive(&self, id: &WorkspaceId, below: &RelPath) -> Result<WorkspaceArchive> {
        let row = self.contents.open_row(id)?;
        let (lock, synced) = match row.handed_out {
            true => {
                let lock = self.directories.exclusive(&row)?;
                let synced = self.sync.sync_locked(&row, false)?;
                (Some(lock), synced)
            }
            false => (None, Synced::default()),
        };
        let (row, top, mut entries) = self.index_below(&row, below)?;
        self.sync.refuse_never_recorded(&row, &synced, &top)?;
        let shown = |file: TooLarge| {
            let path = below.join(&file.path.strip_prefix(&top)?);
            Some(TooLarge { path, ..file })
        };
        let mut too_large: Vec<TooLarge> = synced.too_large.into_iter().filter_map(shown).collect();
        // A sync has brought a directory back that was gone; without one nobody holds the lock.
        let dir = match (row.materialized, &lock) {
            (true, Some(_)) => Some(self.directories.dir_of(&row)?),
            (true, None) => Some(self.directories.dir_for_reader(&row)?.following_no_links()),
            (false, _) => {
                self.directories.note_use(&row);
                None
            }
        };
        if let Some(dir) = &dir {
            for entry in &mut entries {
                note_time(dir, &top, below, entry)?;
            }
            let known: HashSet<RelPath> = entries.iter().map(|one| one.path.clone()).collect();
            let included = self.directories.included_of(&row)?;
            let limit = largest_file(&self.contents, &row);
            for ignored in &synced.ignored {
                each_ignored(dir, &row, (&top, below), ignored, &mut |found, stat| {
                    let inside = found.path.strip_prefix(below).unwrap_or_default();
                    if known.contains(&found.path) || included.contains(&top.join(&inside)) {
                        return;
                    }
                    if found.kind == EntryKind::File && stat.size > limit {
                        too_large.push(TooLarge {
                            path: found.path,
                            size: stat.size,
                            limit,
                        });
                        return;
                    }
                    entries.push(found);
                })?;
            }
        }
        too_large.sort_by(|a, b| a.path.cmp(&b.path));
        too_large.dedup();
        drop(lock);
        if entries.is_empty() && !self.is_dir_now(&row, dir.as_ref(), &top)? {
            return Err(no_file(below));
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(WorkspaceArchive {
            workspaces: self.clone(),
            row,
            entries,
            too_large,
        })
    }

    /// What the index has below a directory, under the path that was asked for, and where that
    /// leads.
    fn index_below(
        &self,
        row: &WorkspaceRow,
        below: &RelPath,
    ) -> Result<(WorkspaceRow, RelPath, Vec<ArchiveEntry>)> {
        self.store().read(|tx| {
            let row = open_row_by_key(tx, row)?;
            let mut entries = Vec::new();
            let top = {
                let index = Index::new(self.store(), tx, &row).with_rows()?;
                let top = index.resolve(below)?;
                if index.entry(&top)?.is_some_and(|entry| !entry.is_dir()) {
                    return Err(Error::new(
                        ErrorCode::NotADirectory,
                        format!("`{below}` is no directory"),
                    ));
                }
                index.walk(&top, &mut |path, entry| {
                    entries.push(ArchiveEntry {
                        path: below.join(&path.strip_prefix(&top).unwrap_or_default()),
                        kind: entry.kind,
                        perm: entry.perm,
                        modified_at: row.changed_at,
                        content: entry.id,
                    });
                    Ok(())
                })?;
                top
            };
            if !row.materialized {
                let touched = PathsWithHistory::read(tx, &row, &top, entries.len())?;
                for entry in entries.iter_mut().filter(|one| one.kind != EntryKind::Dir) {
                    let path = top.join(&entry.path.strip_prefix(below).unwrap_or_default());
                    if let Some(at) = touched.modified_at(tx, &row, &path)? {
                        entry.modified_at = at;
                    }
                }
            }
            Ok((row, top, entries))
        })
    }

    /// Whether there is a directory that may hold nothing at all.
    fn is_dir_now(&self, row: &WorkspaceRow, dir: Option<&SafeDir>, top: &RelPath) -> Result<bool> {
        if top.is_root() {
            return Ok(true);
        }
        if let Some(dir) = dir {
            return Ok(dir.stat(top)?.is_some_and(|stat| stat.is_dir()));
        }
        self.store()
            .read(|tx| Ok(Index::new(self.store(), tx, row).entry(top)?.is_some()))
    }
}

/// Takes the modification time of a file from the directory, where there is one.
fn note_time(
    dir: &SafeDir,
    top: &RelPath,
    below: &RelPath,
    entry: &mut ArchiveEntry,
) -> Result<()> {
    let path = top.join(&entry.path.strip_prefix(below).unwrap_or_default());
    if let Some(stat) = dir.stat(&path)?
        && stat.entry_kind() == Some(entry.kind)
    {
        entry.modified_at = stat.modified();
    }
    Ok(())
}

/// Calls back with an ignored path and all that is below it, as far as it lies in the archived
/// directory.
fn each_ignored(
    dir: &SafeDir,
    row: &WorkspaceRow,
    (top, below): (&RelPath, &RelPath),
    ignored: &RelPath,
    found: &mut dyn FnMut(ArchiveEntry, &Stat),
) -> Result<()> {
    let mut add = |path: &RelPath, stat: &Stat| {
        let (Some(kind), Some(inside)) = (stat.entry_kind(), path.strip_prefix(top)) else {
            return;
        };
        let path = below.join(&inside);
        if inside.is_root() || is_session_metadata(row, &path) {
            return;
        }
        let entry = ArchiveEntry {
            path,
            kind,
            perm: stat.perm,
            modified_at: stat.modified(),
            content: None,
        };
        found(entry, stat);
    };
    // It may have gone away meanwhile, as if it had never been there.
    let Some(stat) = dir.stat(ignored)? else {
        return Ok(());
    };
    add(ignored, &stat);
    if !stat.is_dir() || !(ignored.starts_with(top) || top.starts_with(ignored)) {
        return Ok(());
    }
    let walked = dir.walk(ignored, |path, stat| {
        add(path, stat);
        let on_the_way = path.starts_with(top) || top.starts_with(path);
        Ok(if on_the_way { Walk::Enter } else { Walk::Skip })
    });
    match walked {
        Err(error) if error.code() == ErrorCode::FileNotFound => Ok(()),
        other => other,
    }
}

impl WorkspaceArchive {
    /// Opens a file, or the target of a link. None if it is an ignored file that went away or is too
    /// large to be read.
    pub fn open(&self, entry: &ArchiveEntry) -> Result<Option<ArchiveContent>> {
        if let Some(id) = &entry.content {
            let found = self.workspaces.store().open_object(id)?;
            let (_, size, content) = found.ok_or_else(missing_content)?;
            return Ok(Some(ArchiveContent { size, content }));
        }
        match self.copy_of(&entry.path) {
            Err(error) if error.code() == ErrorCode::FileNotFound => Ok(None),
            other => other,
        }
    }

    /// A copy of a file that others may be writing, so that it has one size and one content.
    fn copy_of(&self, path: &RelPath) -> Result<Option<ArchiveContent>> {
        let directories = &self.workspaces.directories;
        let dir = directories.dir_for_reader(&self.row)?.following_no_links();
        let held = |bytes: Vec<u8>| ArchiveContent {
            size: bytes.len() as u64,
            content: Box::new(Cursor::new(bytes)),
        };
        match dir.stat(path)?.and_then(|stat| stat.entry_kind()) {
            Some(EntryKind::Symlink) => return Ok(Some(held(dir.read_link(path)?))),
            Some(EntryKind::File) => {}
            _ => return Ok(None),
        }
        let (mut file, opened) = dir.open_file(path)?;
        if opened.size > largest_file(&self.workspaces.contents, &self.row) {
            return Ok(None);
        }
        let mut seen = opened;
        for _ in 1..TRIES {
            let copy = copy(&self.workspaces, &mut file, seen.size)?;
            let after = offshoot_sys::fstat(&file).map_err(unreadable)?;
            if same_version(&seen, &after) {
                return Ok(Some(copy));
            }
            seen = after;
        }
        // The file never came to rest: its first bytes, up to the size seen, are what the writer
        // had written.
        copy(&self.workspaces, &mut file, seen.size).map(Some)
    }
}

/// The first bytes of a file, as many as there are up to `most`.
fn copy(workspaces: &Workspaces, file: &mut File, most: u64) -> Result<ArchiveContent> {
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let mut part = file.take(most);
    if most <= IN_MEMORY {
        let mut bytes = Vec::with_capacity(most as usize);
        part.read_to_end(&mut bytes).map_err(unreadable)?;
        return Ok(ArchiveContent {
            size: bytes.len() as u64,
            content: Box::new(Cursor::new(bytes)),
        });
    }
    let mut spool = workspaces.context.temp_file()?;
    let size = std::io::copy(&mut part, &mut spool).map_err(unreadable)?;
    spool.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok(ArchiveContent {
        size,
        content: Box::new(spool.take(size)),
    })
}
