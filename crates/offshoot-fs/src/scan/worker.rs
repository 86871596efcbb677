//! The work of a scan on one directory: read its names, `stat` each, compare with the memo.

use std::cmp::Ordering;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use offshoot_core::{EntryKind, MAX_PATH, ObjectId, RelPath, Result};
use offshoot_sys::{DirReader, FileKind, Stat, lstat_at};
use rustix::io::Errno;

use super::memo::{Fingerprint, MemoDir, StoredEntry};
use super::{
    ChangedFile, DirNames, DirState, Job, Memo, Refusal, Scan, ScanCounts, ScanEntry, ScanFilter,
    ScannedDir,
};
use crate::STAGE_PREFIX;
use crate::errors::{is, read_error};
use crate::safe_dir::vanished;

/// A directory that waits to be scanned.
pub(super) struct Task<C> {
    path: RelPath,
    context: Arc<C>,
    /// Its permission bits and how it compares with the memo; none for the root.
    seen: Option<(u32, DirState)>,
}

impl<C> Task<C> {
    pub(super) fn root(context: Arc<C>) -> Self {
        Task {
            path: RelPath::root(),
            context,
            seen: None,
        }
    }
}

/// Buffers that live from one directory to the next.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    reader: DirReader,
    /// The names of the directory, each with its final NUL.
    bytes: Vec<u8>,
    index: Vec<NameRef>,
    path: Vec<u8>,
    entries: Vec<FreshEntry>,
}

#[derive(Clone, Copy, Debug)]
struct NameRef {
    start: u32,
    len: u32,
    kind: Option<FileKind>,
    /// The first eight bytes, which decide most comparisons without reading the name.
    key: u64,
}

impl Scratch {
    fn name(&self, name: NameRef) -> &[u8] {
        &self.bytes[name.start as usize..(name.start + name.len) as usize]
    }

    fn c_name(&self, name: NameRef) -> &CStr {
        let with_nul = &self.bytes[name.start as usize..=(name.start + name.len) as usize];
        CStr::from_bytes_with_nul(with_nul).unwrap_or_default()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.index.iter().map(|&name| self.name(name))
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        self.index
            .binary_search_by(|&other| self.name(other).cmp(name))
            .ok()
    }

    /// Reads and sorts the names of a directory.
    fn read(&mut self, dir: BorrowedFd<'_>, at_root: bool) -> io::Result<()> {
        self.bytes.clear();
        self.index.clear();
        let (bytes, index) = (&mut self.bytes, &mut self.index);
        self.reader.for_each(dir, |name, kind| {
            let plain = name.to_bytes();
            if at_root && plain.starts_with(STAGE_PREFIX) {
                return;
            }
            let start = bytes.len() as u32;
            bytes.extend_from_slice(name.to_bytes_with_nul());
            index.push(NameRef {
                start,
                len: plain.len() as u32,
                kind,
                key: sort_key(plain),
            });
        })?;
        let mut index = std::mem::take(&mut self.index);
        index.sort_unstable_by(|&a, &b| {
            let order = a.key.cmp(&b.key);
            order.then_with(|| self.name(a).cmp(self.name(b)))
        });
        self.index = index;
        Ok(())
    }
}

/// A number that orders names as their first eight bytes do; a shorter name is filled with NUL,
/// which no name holds.
fn sort_key(name: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = name.len().min(8);
    first[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(first)
}

/// An entry for the next memo.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreshEntry {
    pub(super) name_start: u32,
    pub(super) name_len: u32,
    pub(super) fingerprint: Fingerprint,
    pub(super) racy: bool,
    /// The content; none for directories and for what the caller has yet to hash.
    pub(super) id: Option<ObjectId>,
}

/// What a directory holds now, for the next memo.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) path: RelPath,
    pub(super) content: ListingContent,
}

#[derive(Debug)]
pub(super) enum ListingContent {
    /// Exactly what the memo says at this index.
    Same(usize),
    /// Something else.
    Fresh {
        names: Vec<u8>,
        entries: Vec<FreshEntry>,
    },
}

impl Listing {
    pub(super) fn is_same(&self) -> bool {
        matches!(self.content, ListingContent::Same(_))
    }
}

/// What one worker found.
#[derive(Default)]
pub(super) struct WorkerResult {
    unknown: Vec<ChangedFile>,
    missing: Vec<RelPath>,
    dirs: Vec<ScannedDir>,
    refused: Vec<(RelPath, Refusal)>,
    ignored: Vec<RelPath>,
    counts: ScanCounts,
    listings: Vec<Listing>,
    /// Directories that were listed and were gone when they were to be walked.
    vanished: Vec<RelPath>,
}

impl WorkerResult {
    pub(super) fn append(&mut self, mut other: WorkerResult) {
        self.unknown.append(&mut other.unknown);
        self.missing.append(&mut other.missing);
        self.dirs.append(&mut other.dirs);
        self.refused.append(&mut other.refused);
        self.ignored.append(&mut other.ignored);
        self.listings.append(&mut other.listings);
        self.vanished.append(&mut other.vanished);
        self.counts.files += other.counts.files;
        self.counts.symlinks += other.counts.symlinks;
        self.counts.dirs += other.counts.dirs;
        self.counts.bytes += other.counts.bytes;
        self.counts.disk_bytes += other.counts.disk_bytes;
    }

    pub(super) fn into_scan(mut self, memo: &Memo, started_ns: i64) -> Scan<'_> {
        self.unknown.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.missing.sort_unstable();
        self.dirs.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.refused.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        self.ignored.sort_unstable();
        self.listings.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Scan {
            unknown: self.unknown,
            missing: self.missing,
            dirs: self.dirs,
            refused: self.refused,
            ignored: self.ignored,
            counts: self.counts,
            memo,
            started_ns,
            listings: self.listings,
            vanished: self.vanished.into_iter().collect(),
        }
    }

    /// Reports a directory of the memo with all below it.
    fn report_missing_tree(&mut self, memo: &Memo, dir: &RelPath) {
        self.missing.push(dir.clone());
        memo.for_each_below(dir, |path| self.missing.push(path));
    }
}

/// An entry of the memo, by its number in its directory.
#[derive(Clone, Copy)]
struct OldEntry {
    index: usize,
    stored: StoredEntry,
}

/// What the memo knows about the directory being scanned, and how far it was compared.
struct MemoCursor<'memo> {
    memo: &'memo Memo,
    path: RelPath,
    dir: Option<(usize, MemoDir<'memo>)>,
    at: usize,
    /// Whether everything was so far exactly as the memo says.
    unchanged: bool,
}

impl<'memo> MemoCursor<'memo> {
    fn new(memo: &'memo Memo, path: RelPath) -> Self {
        let dir = memo.find_dir(&path).map(|index| (index, memo.dir(index)));
        MemoCursor {
            memo,
            unchanged: dir.is_some(),
            path,
            dir,
            at: 0,
        }
    }

    /// The memo's entry of this name; those before it are missing.
    fn advance_to(&mut self, name: &[u8], found: &mut WorkerResult) -> Option<OldEntry> {
        while let Some((_, dir)) = &self.dir
            && self.at < dir.len()
        {
            let index = self.at;
            let order = dir.name(index).cmp(name);
            if order == Ordering::Greater {
                return None;
            }
            let old = OldEntry {
                index,
                stored: dir.entry(index),
            };
            self.at += 1;
            if order == Ordering::Equal {
                return Some(old);
            }
            self.report_missing(Some(old), found);
        }
        None
    }

    fn report_missing(&mut self, old: Option<OldEntry>, found: &mut WorkerResult) {
        if let (Some(old), Some((_, dir))) = (old, &self.dir) {
            self.unchanged = false;
            let path = self.path.join_name(dir.name(old.index));
            if old.stored.fingerprint.is_dir() {
                found.report_missing_tree(self.memo, &path);
            } else {
                found.missing.push(path);
            }
        }
    }

    /// What the next memo says about this directory.
    fn finish(mut self, scratch: &Scratch, found: &mut WorkerResult) -> Listing {
        while let Some((_, dir)) = &self.dir
            && self.at < dir.len()
        {
            let old = OldEntry {
                index: self.at,
                stored: dir.entry(self.at),
            };
            self.at += 1;
            self.report_missing(Some(old), found);
        }
        let content = match self.dir {
            Some((index, _)) if self.unchanged => ListingContent::Same(index),
            _ => ListingContent::Fresh {
                names: scratch.bytes.clone(),
                entries: scratch.entries.clone(),
            },
        };
        Listing {
            path: self.path,
            content,
        }
    }
}

/// What the filter and the disk say about one name.
enum EntryOutcome {
    /// It exists and belongs in the memo.
    Present(Stat, EntryKind),
    /// The filter left it out, or it was refused. An entry of the memo is not reported missing.
    LeftOut,
    /// It is gone.
    Gone,
}

impl<F: ScanFilter> Job<'_, F> {
    /// Scans one directory; adds those below it to `new`.
    pub(super) fn scan_dir(
        &self,
        task: Task<F::Context>,
        scratch: &mut Scratch,
        found: &mut WorkerResult,
        new: &mut Vec<Task<F::Context>>,
    ) -> Result<()> {
        let opened = self.dir.open_dir_for_scan(&task.path).and_then(|fd| {
            self.dir.hit("readdir")?;
            scratch.read(fd.as_fd(), task.path.is_root())?;
            Ok(fd)
        });
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) if task.seen.is_some() && vanished(&error) => {
                found.report_missing_tree(self.memo, &task.path);
                found.vanished.push(task.path);
                return Ok(());
            }
            Err(error) if task.seen.is_some() && is(&error, Errno::ACCESS) => {
                found.refused.push((task.path, Refusal::Unreadable));
                return Ok(());
            }
            Err(error) => return Err(read_error(&task.path, error)),
        };
        if let Some((perm, state)) = task.seen {
            let empty = scratch.index.is_empty();
            found.dirs.push(ScannedDir {
                path: task.path.clone(),
                perm,
                state,
                empty,
            });
        }
        let own = self
            .filter
            .enter(&task.context, &task.path, &DirNames { scratch });
        let context = own.map_or(task.context, Arc::new);
        self.compare_dir(fd.as_fd(), task.path, &context, scratch, found, new)
    }

    /// Goes through the names on disk and those of the memo side by side.
    fn compare_dir(
        &self,
        fd: BorrowedFd<'_>,
        path: RelPath,
        context: &Arc<F::Context>,
        scratch: &mut Scratch,
        found: &mut WorkerResult,
        new: &mut Vec<Task<F::Context>>,
    ) -> Result<()> {
        let mut memo = MemoCursor::new(self.memo, path);
        scratch.entries.clear();
        begin_path(&mut scratch.path, &memo.path);
        for position in 0..scratch.index.len() {
            let name = scratch.index[position];
            let old = memo.advance_to(scratch.name(name), found);
            match self.stat_entry(fd, name, context, scratch, found)? {
                EntryOutcome::Present(stat, kind) => {
                    let dir = self.compare_entry(name, old, &stat, kind, &mut memo, scratch, found);
                    let task = |(path, seen)| Task {
                        path,
                        context: context.clone(),
                        seen,
                    };
                    new.extend(dir.map(task));
                }
                EntryOutcome::LeftOut => memo.unchanged &= old.is_none(),
                EntryOutcome::Gone => memo.report_missing(old, found),
            }
        }
        let listing = memo.finish(scratch, found);
        found.listings.push(listing);
        Ok(())
    }

    /// Compares one entry with what the memo says of it. Returns a directory to be scanned.
    fn compare_entry(
        &self,
        name: NameRef,
        old: Option<OldEntry>,
        stat: &Stat,
        kind: EntryKind,
        memo: &mut MemoCursor<'_>,
        scratch: &mut Scratch,
        found: &mut WorkerResult,
    ) -> Option<(RelPath, Option<(u32, DirState)>)> {
        let fingerprint = Fingerprint::of(stat, kind);
        let trusted = old.filter(|old| !old.stored.racy && old.stored.fingerprint == fingerprint);
        let same_class = old.filter(|old| old.stored.fingerprint.is_dir() == fingerprint.is_dir());
        if same_class.is_none() {
            memo.report_missing(old, found);
        }
        memo.unchanged &= trusted.is_some();
        scratch.entries.push(FreshEntry {
            name_start: name.start,
            name_len: name.len,
            fingerprint,
            racy: kind != EntryKind::Dir && self.is_racy(stat),
            id: trusted.and_then(|old| old.stored.id),
        });
        let path = || memo.path.join_name(scratch.name(name));
        if kind == EntryKind::Dir {
            let state = match (trusted, same_class) {
                (Some(_), _) => DirState::Known,
                (None, Some(_)) => DirState::PermChanged,
                (None, None) => DirState::New,
            };
            return Some((path(), Some((stat.perm, state))));
        }
        if trusted.is_none() {
            found.unknown.push(ChangedFile {
                path: path(),
                stat: *stat,
            });
        }
        None
    }

    /// Asks the filter and the disk about one name.
    fn stat_entry(
        &self,
        fd: BorrowedFd<'_>,
        name: NameRef,
        context: &Arc<F::Context>,
        scratch: &mut Scratch,
        found: &mut WorkerResult,
    ) -> Result<EntryOutcome> {
        let dir_len = scratch.path.len();
        let bytes = name.start as usize..(name.start + name.len) as usize;
        scratch.path.extend_from_slice(&scratch.bytes[bytes]);
        let outcome = self.stat_path(fd, name, context, scratch, dir_len, found);
        scratch.path.truncate(dir_len);
        outcome
    }

    fn stat_path(
        &self,
        fd: BorrowedFd<'_>,
        name: NameRef,
        context: &Arc<F::Context>,
        scratch: &Scratch,
        dir_len: usize,
        found: &mut WorkerResult,
    ) -> Result<EntryOutcome> {
        let path = scratch.path.as_slice();
        if path.len() > MAX_PATH {
            let dir = RelPath::from_normal(&path[..dir_len - 1]);
            found.refused.push((dir, Refusal::TooLong));
            return Ok(EntryOutcome::LeftOut);
        }
        let skip = |kind: EntryKind| {
            self.filter.skip(
                context,
                &ScanEntry {
                    path,
                    name: &path[dir_len..],
                    kind,
                },
            )
        };
        // The directory usually lists the kind, which saves a `stat` of what is left out.
        let listed_kind = name.kind.and_then(FileKind::entry_kind);
        if listed_kind.is_some_and(skip) {
            found.ignored.push(RelPath::from_normal(path));
            return Ok(EntryOutcome::LeftOut);
        }
        let stat = match lstat_at(fd, scratch.c_name(name)) {
            Ok(stat) => stat,
            Err(error) if is(&error, Errno::NOENT) => return Ok(EntryOutcome::Gone),
            // The directory may be read but not entered.
            Err(error) if is(&error, Errno::ACCESS) => {
                found
                    .refused
                    .push((RelPath::from_normal(path), Refusal::Unreadable));
                return Ok(EntryOutcome::LeftOut);
            }
            Err(error) => return Err(read_error(&RelPath::from_normal(path), error)),
        };
        let kind = match stat.kind {
            FileKind::Other(special) => {
                found
                    .refused
                    .push((RelPath::from_normal(path), Refusal::Special(special)));
                return Ok(EntryOutcome::Gone);
            }
            FileKind::File => EntryKind::File,
            FileKind::Symlink => EntryKind::Symlink,
            FileKind::Dir => EntryKind::Dir,
        };
        if listed_kind != Some(kind) && skip(kind) {
            found.ignored.push(RelPath::from_normal(path));
            return Ok(EntryOutcome::LeftOut);
        }
        count(&mut found.counts, kind, &stat);
        Ok(EntryOutcome::Present(stat, kind))
    }

    fn is_racy(&self, stat: &Stat) -> bool {
        stat.mtime_ns >= self.racy_from || stat.ctime_ns >= self.racy_from
    }
}

fn count(counts: &mut ScanCounts, kind: EntryKind, stat: &Stat) {
    match kind {
        EntryKind::File => {
            counts.files += 1;
            counts.bytes += stat.size;
            counts.disk_bytes += stat.disk_usage();
        }
        EntryKind::Symlink => counts.symlinks += 1,
        EntryKind::Dir => counts.dirs += 1,
    }
}

/// Fills the buffer with a directory's path and the slash after it.
fn begin_path(buffer: &mut Vec<u8>, dir: &RelPath) {
    buffer.clear();
    buffer.extend_from_slice(dir.as_bytes());
    if !dir.is_root() {
        buffer.push(b'/');
    }
}
