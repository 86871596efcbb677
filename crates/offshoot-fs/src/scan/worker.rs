//! The work of a scan on one directory: read its names, look at each, compare with the memo.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use offshoot_core::{EntryKind, MAX_PATH, ObjectId, RelPath, Result};
use offshoot_sys::{DirReader, FileKind, Stat, lstat_at};
use rustix::io::Errno;

use super::memo::{Essentials, MemoDir};
use super::{
    DirState, Job, Memo, Names, Refusal, Scan, ScanCounts, ScanEntry, ScanFilter, Seen, SeenDir,
};
use crate::STAGE_PREFIX;
use crate::errors::{is, read_error};
use crate::safe_dir::vanished;

/// A directory that waits to be scanned.
pub(super) struct Task<C> {
    path: RelPath,
    context: Arc<C>,
    /// How the parent saw it; none for the root.
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
            });
        })?;
        let mut index = std::mem::take(&mut self.index);
        index.sort_unstable_by(|&a, &b| self.name(a).cmp(self.name(b)));
        self.index = index;
        Ok(())
    }
}

/// An entry for the next memo.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreshEntry {
    pub(super) name_start: u32,
    pub(super) name_len: u32,
    pub(super) essentials: Essentials,
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
pub(super) struct Found {
    unknown: Vec<Seen>,
    missing: Vec<RelPath>,
    dirs: Vec<SeenDir>,
    refused: Vec<(RelPath, Refusal)>,
    ignored: Vec<RelPath>,
    counts: ScanCounts,
    listings: Vec<Listing>,
}

impl Found {
    pub(super) fn append(&mut self, mut other: Found) {
        self.unknown.append(&mut other.unknown);
        self.missing.append(&mut other.missing);
        self.dirs.append(&mut other.dirs);
        self.refused.append(&mut other.refused);
        self.ignored.append(&mut other.ignored);
        self.listings.append(&mut other.listings);
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
        }
    }

    /// Reports a directory of the memo with all below it.
    fn miss_tree(&mut self, memo: &Memo, dir: &RelPath) {
        self.missing.push(dir.clone());
        memo.for_each_below(dir, |path| self.missing.push(path));
    }
}

/// What became of one name.
enum Looked {
    /// It is for the memo.
    At(Stat, EntryKind),
    /// It was left out by the filter or refused; the memo's entry is not missing either.
    LeftOut,
    /// It went away.
    Gone,
}

impl<F: ScanFilter> Job<'_, F> {
    /// Scans one directory; adds those below it to `new`.
    pub(super) fn scan_dir(
        &self,
        task: Task<F::Context>,
        scratch: &mut Scratch,
        found: &mut Found,
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
                found.miss_tree(self.memo, &task.path);
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
            found.dirs.push(SeenDir {
                path: task.path.clone(),
                perm,
                state,
                empty,
            });
        }
        let own = self
            .filter
            .enter(&task.context, &task.path, &Names { scratch });
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
        found: &mut Found,
        new: &mut Vec<Task<F::Context>>,
    ) -> Result<()> {
        let known = self.memo.find_dir(&path);
        let known_dir = known.map(|index| self.memo.dir(index));
        let known_count = known_dir.as_ref().map_or(0, MemoDir::len);
        let mut at = 0;
        let mut same = known.is_some();
        let mut matched = 0;
        scratch.entries.clear();
        begin_path(&mut scratch.path, &path);
        for position in 0..scratch.index.len() {
            let name = scratch.index[position];
            let old = known_dir.as_ref().and_then(|dir| {
                let bytes = scratch.name(name);
                while at < known_count && dir.name(at) < bytes {
                    self.report_missing(dir, at, &path, found);
                    at += 1;
                }
                let hit = at < known_count && dir.name(at) == bytes;
                hit.then(|| {
                    at += 1;
                    dir.entry(at - 1)
                })
            });
            let (stat, kind) = match self.look_at(fd, name, context, scratch, found)? {
                Looked::At(stat, kind) => (stat, kind),
                Looked::LeftOut => {
                    same &= old.is_none();
                    continue;
                }
                Looked::Gone => {
                    if let (Some(dir), true) = (&known_dir, old.is_some()) {
                        self.report_missing(dir, at - 1, &path, found);
                    }
                    same = false;
                    continue;
                }
            };
            let essentials = Essentials::of(&stat, kind);
            let trusted = old.filter(|old| !old.racy && old.essentials == essentials);
            let full = || RelPath::from_normal([&scratch.path, scratch.name(name)].concat());
            let changed_class = old.filter(|old| (old.essentials.is_dir()) != essentials.is_dir());
            if let (Some(_), Some(dir)) = (changed_class, &known_dir) {
                self.report_missing(dir, at - 1, &path, found);
            }
            if kind == EntryKind::Dir {
                let state = match old {
                    Some(_) if trusted.is_some() => DirState::Known,
                    Some(_) if changed_class.is_none() => DirState::PermChanged,
                    _ => DirState::New,
                };
                let seen = Some((stat.perm, state));
                new.push(Task {
                    path: full(),
                    context: context.clone(),
                    seen,
                });
            } else if trusted.is_none() {
                found.unknown.push(Seen { path: full(), stat });
            }
            if trusted.is_some() {
                matched += 1;
            } else {
                same = false;
            }
            scratch.entries.push(FreshEntry {
                name_start: name.start,
                name_len: name.len,
                essentials,
                racy: kind != EntryKind::Dir && self.is_racy(&stat),
                id: trusted.and_then(|old| old.id),
            });
        }
        if let Some(dir) = &known_dir {
            for left in at..known_count {
                self.report_missing(dir, left, &path, found);
            }
        }
        let content = match known {
            Some(index) if same && matched == known_count => ListingContent::Same(index),
            _ => ListingContent::Fresh {
                names: scratch.bytes.clone(),
                entries: scratch.entries.clone(),
            },
        };
        found.listings.push(Listing { path, content });
        Ok(())
    }

    /// Asks the filter and the disk about one name.
    fn look_at(
        &self,
        fd: BorrowedFd<'_>,
        name: NameRef,
        context: &Arc<F::Context>,
        scratch: &mut Scratch,
        found: &mut Found,
    ) -> Result<Looked> {
        let dir_len = scratch.path.len();
        let bytes = name.start as usize..(name.start + name.len) as usize;
        scratch.path.extend_from_slice(&scratch.bytes[bytes]);
        let looked = self.look_at_path(fd, name, context, scratch, dir_len, found);
        scratch.path.truncate(dir_len);
        looked
    }

    fn look_at_path(
        &self,
        fd: BorrowedFd<'_>,
        name: NameRef,
        context: &Arc<F::Context>,
        scratch: &Scratch,
        dir_len: usize,
        found: &mut Found,
    ) -> Result<Looked> {
        let path = scratch.path.as_slice();
        if path.len() > MAX_PATH {
            let dir = RelPath::from_normal(&path[..dir_len - 1]);
            found.refused.push((dir, Refusal::TooLong));
            return Ok(Looked::LeftOut);
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
        // The directory usually tells the kind, which saves the look at what is left out.
        let told = name.kind.and_then(FileKind::entry_kind);
        if told.is_some_and(skip) {
            found.ignored.push(RelPath::from_normal(path));
            return Ok(Looked::LeftOut);
        }
        let stat = match lstat_at(fd, scratch.c_name(name)) {
            Ok(stat) => stat,
            Err(error) if is(&error, Errno::NOENT) => return Ok(Looked::Gone),
            Err(error) => return Err(read_error(&RelPath::from_normal(path), error)),
        };
        let kind = match stat.kind {
            FileKind::Other(special) => {
                found
                    .refused
                    .push((RelPath::from_normal(path), Refusal::Special(special)));
                return Ok(Looked::Gone);
            }
            FileKind::File => EntryKind::File,
            FileKind::Symlink => EntryKind::Symlink,
            FileKind::Dir => EntryKind::Dir,
        };
        if told != Some(kind) && skip(kind) {
            found.ignored.push(RelPath::from_normal(path));
            return Ok(Looked::LeftOut);
        }
        count(&mut found.counts, kind, &stat);
        Ok(Looked::At(stat, kind))
    }

    fn report_missing(&self, dir: &MemoDir<'_>, index: usize, path: &RelPath, found: &mut Found) {
        let missing = path.join_name(dir.name(index));
        if dir.entry(index).essentials.is_dir() {
            found.miss_tree(self.memo, &missing);
        } else {
            found.missing.push(missing);
        }
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
