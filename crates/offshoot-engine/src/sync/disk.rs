//! Reading files and links of a workspace directory for a sync, and deciding which paths to leave out.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{
    EntryKind, ErrorCode, Layout, MAX_DEPTH, ObjectKind, RelPath, Result, SESSION_METADATA,
};
use offshoot_fs::{DirNames, SafeDir, ScanEntry, ScanFilter, Stat};
use offshoot_git::IgnoreRules;
use offshoot_store::{BulkWriter, WorkspaceRow};

use crate::content::incoming::FileReader;
use crate::content::index::{Entry, Index};
use crate::content::too_large::TooLarge;
use crate::directory::disk_entry::DiskEntry;
use crate::sync::Synchronizer;

/// Files up to this size are read into memory and go into packs.
const IN_MEMORY: u64 = 1 << 20;
/// After so many attempts a file that keeps changing is left to the next sync.
const TRIES: usize = 3;
/// A larger rule file is ignored. Git has such a limit too.
const LARGEST_RULE_FILE: u64 = 100 << 20;

impl Synchronizer {
    /// Reads one file or link. Its content is added to `bulk` unless the index has it at this path.
    ///
    /// `seen` is the `stat` data that a walk has just read, which saves a call. A file of more than
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
                    None => return Ok(DiskRead::NoFile(None)),
                },
            };
            let content = match stat.entry_kind() {
                None => return Ok(DiskRead::NoFile(None)),
                Some(EntryKind::Dir) => {
                    return Ok(DiskRead::NoFile(Some(DiskEntry {
                        kind: EntryKind::Dir,
                        perm: stat.perm,
                        id: None,
                        size: 0,
                    })));
                }
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

    /// None if the file is another one than was seen, or if a program wrote to it while it was read:
    /// the bytes may then be a mixture that never existed.
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
                // The times of a file do not show writes through a memory mapping.
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

/// The outcome of reading a file or link.
pub(crate) enum DiskRead {
    /// The path has no file and no link any more, but perhaps a directory. Who looks again may find a
    /// file that came back, whose content is not stored.
    NoFile(Option<DiskEntry>),
    /// The file kept changing while it was read.
    Unsettled,
    /// The file is too large and was not read.
    TooLarge(TooLarge),
    Entry(DiskEntry, Stat),
}

/// Turns the error of a file that changed while it was read into none.
fn none_if_changing<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(error) if error.code() == ErrorCode::WorkspaceBusy => Ok(None),
        other => other.map(Some),
    }
}

/// Turns the errors of a file that was removed or replaced between two calls into none.
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

/// Whether a file was not written to and not replaced between two calls of `stat`.
pub(crate) fn same_version(before: &Stat, after: &Stat) -> bool {
    before.kind == after.kind
        && before.size == after.size
        && before.mtime_ns == after.mtime_ns
        && before.ctime_ns == after.ctime_ns
        && before.ino == after.ino
}

/// Leaves paths out of a walk that the ignore rules match, unless the workspace tracks them already.
pub(crate) struct SyncFilter<'a> {
    pub(crate) sync: &'a Synchronizer,
    pub(crate) dir: &'a SafeDir,
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) include_ignored: bool,
    /// Paths that the layout of the workspace does not allow.
    pub(crate) misplaced: Mutex<BTreeSet<RelPath>>,
}

impl SyncFilter<'_> {
    /// Whether a path is too deep for a new one and not in the index.
    fn is_too_deep(&self, path: &[u8]) -> bool {
        if !is_too_deep(path) {
            return false;
        }
        let path = RelPath::from_normal(path);
        let known = self.sync.store().read(|tx| {
            let index = Index::new(self.sync.store(), tx, self.row);
            Ok(index.entry(&path)?.is_some())
        });
        // After an error the path is walked.
        !known.unwrap_or(true)
    }

    fn is_tracked(&self, path: &RelPath) -> bool {
        let tracked = self.sync.store().read(|tx| {
            let index = Index::new(self.sync.store(), tx, self.row);
            Ok(index.base().entry(&index.objects, path)?.is_some())
        });
        // After an error the path is walked.
        tracked.unwrap_or(true)
    }

    /// Whether the layout of a session workspace does not allow a path.
    fn is_misplaced(&self, entry: &ScanEntry<'_>) -> bool {
        let is_dir = entry.kind == EntryKind::Dir;
        // Offshoot itself makes the file that describes the session, and these directories.
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

    fn enter(
        &self,
        rules: &IgnoreRules,
        path: &RelPath,
        names: &DirNames<'_>,
    ) -> Option<IgnoreRules> {
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
        if !self.row.layout.applies_ignore_rules(&path) {
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

/// Moves paths that were left out because they are too deep out of the list, and adds the reason.
pub(crate) fn extract_too_deep(left_out: &mut Vec<RelPath>) -> Vec<(RelPath, String)> {
    let too_deep = left_out.extract_if(.., |path| is_too_deep(path.as_bytes()));
    too_deep.map(|path| (path, too_deep_reason())).collect()
}

pub(crate) fn too_deep_reason() -> String {
    format!("it is more than {MAX_DEPTH} levels deep")
}

/// The ignore rules of a directory with rule files of its own; none if the rules of its parent apply.
pub(crate) fn rules_in(
    dir: &SafeDir,
    rules: &IgnoreRules,
    path: &RelPath,
    names: &DirNames<'_>,
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

/// The content of a rule file; none if it is no regular file, too large or unreadable.
pub(crate) fn read_rule_file(dir: &SafeDir, path: &RelPath) -> Option<Vec<u8>> {
    let stat = dir.stat(path).ok()??;
    if stat.entry_kind() != Some(EntryKind::File) || stat.size > LARGEST_RULE_FILE {
        return None;
    }
    dir.read(path).ok()
}
