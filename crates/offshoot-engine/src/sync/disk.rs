//! Reading a workspace directory for a sync: what a file or link holds, and what to leave out.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{
    EntryKind, ErrorCode, Layout, MAX_DEPTH, ObjectKind, RelPath, Result, SESSION_METADATA,
};
use offshoot_fs::{Names, SafeDir, ScanEntry, ScanFilter, Stat};
use offshoot_git::IgnoreRules;
use offshoot_store::{BulkWriter, WorkspaceRow};

use crate::content::incoming::FileReader;
use crate::content::index::{Entry, Index};
use crate::content::too_large::TooLarge;
use crate::directory::disk_entry::DiskEntry;
use crate::sync::Synchronizer;

/// Files up to this size are read into memory and go into packs.
const IN_MEMORY: u64 = 1 << 20;
/// A file that keeps changing is left for the next sync after so many tries.
const TRIES: usize = 3;
/// A file of rules beyond this is none: git has such a limit too.
const LARGEST_RULE_FILE: u64 = 100 << 20;

impl Synchronizer {
    /// Reads one file or link. Its content goes into the bulk unless the index knows it.
    ///
    /// `seen` is what a walk has just seen there, which saves a look-up. A file of more than
    /// `largest` bytes is not read.
    pub(crate) fn read_from_disk(
        &self,
        dir: &SafeDir,
        path: &RelPath,
        mut seen: Option<Stat>,
        known: Option<&Entry>,
        largest: u64,
        bulk: &BulkWriter,
    ) -> Result<DiskRead> {
        for _ in 0..TRIES {
            let stat = match seen.take() {
                Some(stat) => stat,
                None => match dir.stat(path)? {
                    Some(stat) => stat,
                    None => return Ok(DiskRead::Gone),
                },
            };
            let content = match stat.entry_kind() {
                Some(EntryKind::Dir) | None => return Ok(DiskRead::Gone),
                Some(EntryKind::File) if stat.size > largest => {
                    return Ok(DiskRead::TooLarge(TooLarge {
                        path: path.clone(),
                        size: stat.size,
                        limit: largest,
                    }));
                }
                Some(EntryKind::Symlink) => self.read_link_entry(dir, path, &stat, bulk)?,
                Some(EntryKind::File) => self.read_file_entry(dir, path, &stat, known, bulk)?,
            };
            if let Some(entry) = content {
                return Ok(DiskRead::Entry(entry, stat));
            }
        }
        Ok(DiskRead::Unsettled)
    }

    fn read_link_entry(
        &self,
        dir: &SafeDir,
        path: &RelPath,
        stat: &Stat,
        bulk: &BulkWriter,
    ) -> Result<Option<DiskEntry>> {
        let Some(target) = none_if_gone(dir.read_link(path))? else {
            return Ok(None);
        };
        let after = dir.stat(path)?;
        if !after.is_some_and(|after| same_version(stat, &after)) {
            return Ok(None);
        }
        let id = offshoot_git::hash(ObjectKind::Blob, &target)?;
        bulk.add(ObjectKind::Blob, id, &target)?;
        Ok(Some(DiskEntry {
            kind: EntryKind::Symlink,
            perm: 0o777,
            id: Some(id),
            size: target.len() as i64,
        }))
    }

    /// None if the file is not the one that was seen, or if a writer was at work while it was
    /// read: what was read then never was.
    fn read_file_entry(
        &self,
        dir: &SafeDir,
        path: &RelPath,
        stat: &Stat,
        known: Option<&Entry>,
        bulk: &BulkWriter,
    ) -> Result<Option<DiskEntry>> {
        let Some((file, opened)) = none_if_gone(dir.open_file(path))? else {
            return Ok(None);
        };
        if !same_version(stat, &opened) {
            return Ok(None);
        }
        let is_known = |id| known.and_then(|known| known.id) == Some(id);
        let unreadable = crate::content::incoming::unreadable;
        let unchanged = |file: &std::fs::File| -> Result<bool> {
            let after = offshoot_sys::fstat(file).map_err(unreadable)?;
            Ok(same_version(&opened, &after))
        };
        let id = if opened.size > IN_MEMORY {
            let Some(id) =
                none_if_changing(crate::content::incoming::hash_file(&file, opened.size))?
            else {
                return Ok(None);
            };
            if !unchanged(&file)? {
                return Ok(None);
            }
            if !is_known(id) {
                let mut content = FileReader::new(&file, opened.size);
                let stored =
                    self.store()
                        .prepare_stream(ObjectKind::Blob, id, opened.size, &mut content);
                // Its times do not show what is written through a mapping of it.
                match none_if_changing(stored)? {
                    Some(stored) if unchanged(&file)? => bulk.add_prepared(stored),
                    _ => return Ok(None),
                }
            }
            id
        } else {
            let mut bytes = Vec::with_capacity(opened.size as usize + 1);
            (&file)
                .take(IN_MEMORY + 1)
                .read_to_end(&mut bytes)
                .map_err(unreadable)?;
            if bytes.len() as u64 != opened.size || !unchanged(&file)? {
                return Ok(None);
            }
            let id = offshoot_git::hash(ObjectKind::Blob, &bytes)?;
            if !is_known(id) {
                bulk.add(ObjectKind::Blob, id, &bytes)?;
            }
            id
        };
        Ok(Some(DiskEntry {
            kind: EntryKind::File,
            perm: opened.perm,
            id: Some(id),
            size: opened.size as i64,
        }))
    }
}

pub(crate) enum DiskRead {
    /// It is not there any more, or no file and no link.
    Gone,
    /// It kept changing.
    Unsettled,
    /// It was not read.
    TooLarge(TooLarge),
    Entry(DiskEntry, Stat),
}

/// None if a writer changed the file while it was read.
fn none_if_changing<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(error) if error.code() == ErrorCode::WorkspaceBusy => Ok(None),
        other => other.map(Some),
    }
}

/// A file may go away, or be replaced, between two calls; that is no error.
fn none_if_gone<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if [
                ErrorCode::FileNotFound,
                ErrorCode::IsADirectory,
                ErrorCode::NotADirectory,
                ErrorCode::InvalidRequest,
                ErrorCode::PathTraversalBlocked,
                ErrorCode::WorkspaceBusy,
            ]
            .contains(&error.code()) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn same_version(before: &Stat, after: &Stat) -> bool {
    before.kind == after.kind
        && before.size == after.size
        && before.mtime_ns == after.mtime_ns
        && before.ctime_ns == after.ctime_ns
        && before.ino == after.ino
}

/// Leaves out what the ignore rules name, unless the workspace tracks it already.
pub(crate) struct SyncFilter<'a> {
    pub(crate) sync: &'a Synchronizer,
    pub(crate) dir: &'a SafeDir,
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) include_ignored: bool,
    /// What the layout has no place for.
    pub(crate) misplaced: Mutex<BTreeSet<RelPath>>,
}

impl SyncFilter<'_> {
    /// Whether a path is deeper than anything new may be and the index does not know it.
    fn is_too_deep(&self, path: &[u8]) -> bool {
        if !is_too_deep(path) {
            return false;
        }
        let path = RelPath::from_normal(path);
        let known = self.sync.store().read(|tx| {
            let index = Index::new(self.sync.store(), tx, self.row);
            Ok(index.entry(&path)?.is_some())
        });
        // When in doubt, look at it.
        !known.unwrap_or(true)
    }

    fn is_tracked(&self, path: &RelPath) -> bool {
        let tracked = self.sync.store().read(|tx| {
            let index = Index::new(self.sync.store(), tx, self.row);
            Ok(index.base().entry(&index.objects, path)?.is_some())
        });
        // When in doubt, look at it.
        tracked.unwrap_or(true)
    }

    /// Whether an outside program put something where a session workspace has no place for it.
    fn is_misplaced(&self, entry: &ScanEntry<'_>) -> bool {
        let is_dir = entry.kind == EntryKind::Dir;
        // Ours: one is a file that describes the workspace, the others are directories.
        match entry.path {
            path if path == SESSION_METADATA.as_bytes() => return true,
            b".logs" if is_dir => return true,
            b"skills" if is_dir => return false,
            _ => {}
        }
        let path = RelPath::from_normal(entry.path);
        if self.row.layout.may_hold(&path, is_dir) {
            return false;
        }
        let misplaced = self.misplaced.lock();
        let mut misplaced = misplaced.unwrap_or_else(PoisonError::into_inner);
        misplaced.insert(path);
        true
    }
}

impl ScanFilter for SyncFilter<'_> {
    type Context = IgnoreRules;

    fn root(&self) -> IgnoreRules {
        IgnoreRules::root()
    }

    fn enter(&self, rules: &IgnoreRules, path: &RelPath, names: &Names<'_>) -> Option<IgnoreRules> {
        rules_in(self.dir, rules, path, names)
    }

    fn skip(&self, rules: &IgnoreRules, entry: &ScanEntry<'_>) -> bool {
        if self.row.layout == Layout::Session && self.is_misplaced(entry) {
            return true;
        }
        if self.is_too_deep(entry.path) {
            return true;
        }
        if self.include_ignored || rules.is_empty() {
            return false;
        }
        let path = RelPath::from_normal(entry.path);
        if !self.row.layout.heeds_ignore_rules(&path) {
            return false;
        }
        let ignored = match crate::content::state::dir_of_nested_git(&path) {
            Some(around) => !around.is_root() && rules.is_ignored(&around, true),
            None => rules.is_ignored(&path, entry.kind == EntryKind::Dir),
        };
        ignored && !self.is_tracked(&path)
    }
}

/// Whether a path has more parts than a new one may have.
pub(crate) fn is_too_deep(path: &[u8]) -> bool {
    path.iter().filter(|&&byte| byte == b'/').count() >= MAX_DEPTH
}

/// Takes paths that were left out because they are too deep out of those that rules leave out, with
/// the reason.
pub(crate) fn extract_too_deep(left_out: &mut Vec<RelPath>) -> Vec<(RelPath, String)> {
    let too_deep = left_out.extract_if(.., |path| is_too_deep(path.as_bytes()));
    too_deep.map(|path| (path, too_deep_reason())).collect()
}

/// Why a path is left out.
pub(crate) fn too_deep_reason() -> String {
    format!("it is more than {MAX_DEPTH} levels deep")
}

/// The rules in a directory that has rule files of its own; none if those above it hold.
pub(crate) fn rules_in(
    dir: &SafeDir,
    rules: &IgnoreRules,
    path: &RelPath,
    names: &Names<'_>,
) -> Option<IgnoreRules> {
    let read = |name: &[u8]| {
        if !names.contains(name) {
            return None;
        }
        read_rule_file(dir, &path.join_name(name))
    };
    let (git, own) = (read(b".gitignore"), read(b".offshootignore"));
    if git.is_none() && own.is_none() {
        return None;
    }
    Some(rules.child(path, git.as_deref(), own.as_deref()))
}

/// The content of a file of rules; none if it is no regular file, absurdly large or cannot be read.
pub(crate) fn read_rule_file(dir: &SafeDir, path: &RelPath) -> Option<Vec<u8>> {
    let stat = dir.stat(path).ok()??;
    if stat.entry_kind() != Some(EntryKind::File) || stat.size > LARGEST_RULE_FILE {
        return None;
    }
    dir.read(path).ok()
}
