//! Reading a directory of the host that is to become a snapshot of a project.
//!
//! One walk says what is there, two threads hash it and hand the content to the bulk writer. What a
//! project cannot hold, or must not, is left out and reported: devices, sockets and FIFOs, set-id
//! bits, and attributes by which a file could mean something to the kernel (a forged whiteout of an
//! overlay, a capability).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use offshoot_core::{EntryKind, Error, ErrorCode, RelPath, Result};
use offshoot_fs::{ChangedFile, DirNames, Memo, SafeDir, Scan, ScanEntry, ScanFilter};
use offshoot_git::IgnoreRules;
use offshoot_store::{Bulk, BulkWriter};

use crate::content::change_set::topmost;
use crate::content::state::belongs_to_nested_git;
use crate::directory::disk_entry::DiskEntry;
use crate::project::Projects;
use crate::project::import::{ImportOptions, ImportProgress, ImportStage};
use crate::sync::disk::{DiskRead, extract_too_deep, is_too_deep, rules_in};

const THREADS: usize = 2;
/// The number of files that a thread takes at a time.
const BLOCK: usize = 64;
/// The time between two reports of progress.
const TICK: Duration = Duration::from_millis(50);
/// The permission bits that a project keeps.
const KEPT_PERM: u32 = 0o1777;

/// Whether a project has a path already, so that the ignore rules do not matter for it.
pub(crate) type IsTracked<'a> = dyn Fn(&RelPath) -> bool + Sync + 'a;

/// A directory that may be imported.
pub(crate) struct Source {
    dir: SafeDir,
    path: PathBuf,
    /// Our own data directory, if it lies in there.
    own_data: Option<RelPath>,
}

/// What a directory holds. Its content is durable, but no row names it yet.
pub(crate) struct SourceTree {
    /// Every path but the root.
    pub(crate) entries: BTreeMap<RelPath, DiskEntry>,
    /// The content.
    pub(crate) bulk: Bulk,
    /// What a project cannot hold, or must not, with the reason.
    pub(crate) dropped: Vec<(RelPath, String)>,
    /// What the ignore rules left out.
    pub(crate) ignored: Vec<RelPath>,
    /// Files that kept changing while they were read.
    pub(crate) unsettled: Vec<RelPath>,
}

impl Projects {
    /// Opens a directory of the host for an import.
    pub(crate) fn open_source(&self, path: &Path) -> Result<Source> {
        let path = self.source_place(path)?;
        if !path.is_dir() {
            return Err(Error::new(
                ErrorCode::NotADirectory,
                "the source of the import is not a directory",
            )
            .with_hint("name a directory, or a git repository"));
        }
        let data = self.context.data.root();
        let data = data.canonicalize().unwrap_or(data);
        let own_data = data
            .strip_prefix(&path)
            .ok()
            .and_then(|below| RelPath::parse(below.as_os_str().as_encoded_bytes()).ok());
        Ok(Source {
            dir: self.directories.open_dir(&path)?.following_no_links(),
            path,
            own_data,
        })
    }

    /// The real path of a source, which must exist and be none of our own directories.
    pub(crate) fn source_place(&self, path: &Path) -> Result<PathBuf> {
        let path = path.canonicalize().map_err(|cause| {
            let error = if cause.kind() == std::io::ErrorKind::NotFound {
                Error::new(
                    ErrorCode::FileNotFound,
                    "the source of the import does not exist",
                )
            } else {
                Error::new(
                    ErrorCode::ReadFailed,
                    "the source of the import cannot be read",
                )
            };
            error.with_hint("check the path").with_source(cause)
        })?;
        let data = self.context.data.root();
        let data = data.canonicalize().unwrap_or(data);
        if path.starts_with(&data) {
            return Err(Error::invalid(
                "the source of the import lies inside the data directory",
            )
            .with_hint("name a directory of your own; workspaces are exported by `offshoot workspace export`"));
        }
        Ok(path)
    }

    /// Reads all of a directory.
    pub(crate) fn read_source(
        &self,
        source: &Source,
        options: &ImportOptions,
        tracked: &IsTracked<'_>,
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<SourceTree> {
        let filter = SourceFilter {
            source,
            ignore_rules: options.ignore_rules,
            tracked,
        };
        let memo = Memo::default();
        let scan = offshoot_fs::scan(&source.dir, &memo, &filter, THREADS)?;
        let bulk = self.store().bulk();
        let read = self.read_files(&source.dir, &scan.unknown, &bulk, progress)?;
        let mut tree = SourceTree {
            entries: read.entries.into_iter().collect(),
            bulk: bulk.finish()?,
            dropped: read.dropped,
            ignored: Vec::new(),
            unsettled: read.unsettled,
        };
        tree.take_dirs(source, &scan);
        tree.dropped.sort();
        tree.unsettled.sort();
        Ok(tree)
    }

    /// Hashes files and links on several threads while the caller's thread reports progress.
    fn read_files(
        &self,
        dir: &SafeDir,
        files: &[ChangedFile],
        bulk: &BulkWriter,
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<ReadFiles> {
        let done = AtomicU64::new(0);
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let worker = || -> Result<ReadFiles> {
            let mut read = ReadFiles::default();
            loop {
                let start = next.fetch_add(BLOCK, Ordering::Relaxed);
                if start >= files.len() || failed.load(Ordering::Relaxed) {
                    return Ok(read);
                }
                for seen in &files[start..files.len().min(start + BLOCK)] {
                    if let Err(error) = self.read_one(dir, seen, bulk, &mut read) {
                        failed.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let mut tell = || {
            progress(ImportProgress {
                stage: ImportStage::Reading,
                done: done.load(Ordering::Relaxed),
                total: files.len() as u64,
            });
        };
        let mut whole = ReadFiles::default();
        if files.len() <= BLOCK {
            whole.append(worker()?);
        } else {
            std::thread::scope(|scope| -> Result<()> {
                // A dropped sender wakes the thread that reports progress; a panic drops it too.
                let (ended, running) = channel::<()>();
                let workers: Vec<_> = (0..THREADS)
                    .map(|_| {
                        let (worker, ended) = (&worker, ended.clone());
                        scope.spawn(move || {
                            let answer = worker();
                            drop(ended);
                            answer
                        })
                    })
                    .collect();
                drop(ended);
                while running.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    tell();
                }
                for worker in workers {
                    let read = worker
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    whole.append(read?);
                }
                Ok(())
            })?;
        }
        tell();
        Ok(whole)
    }

    fn read_one(
        &self,
        dir: &SafeDir,
        seen: &ChangedFile,
        bulk: &BulkWriter,
        read: &mut ReadFiles,
    ) -> Result<()> {
        let path = &seen.path;
        let largest = self.context.options.max_file_bytes;
        let taken = match self
            .sync
            .read_from_disk(dir, path, Some(seen.stat), None, largest, bulk)
        {
            Err(error) if error.code() == ErrorCode::PermissionDenied => {
                read.drop(path, "unreadable file");
                return Ok(());
            }
            taken => taken?,
        };
        let mut entry = match taken {
            // It was removed meanwhile, which is as if it had never been there.
            DiskRead::NoFile(_) => return Ok(()),
            DiskRead::TooLarge(_) => {
                read.drop(path, "too large file");
                return Ok(());
            }
            DiskRead::Unsettled => {
                read.unsettled.push(path.clone());
                return Ok(());
            }
            DiskRead::Entry(entry, _) => entry,
        };
        if entry.kind == EntryKind::File {
            entry.perm = kept_perm(path, entry.perm, &mut read.dropped);
            report_xattrs(dir, path, &mut read.dropped);
        }
        read.entries.push((path.clone(), entry));
        Ok(())
    }
}

impl SourceTree {
    /// Adds the directories, and says what was left out.
    fn take_dirs(&mut self, source: &Source, scan: &Scan<'_>) {
        for (path, why) in &scan.refused {
            self.dropped.push((path.clone(), why.to_string()));
        }
        let mut ignored: Vec<RelPath> = scan
            .ignored
            .iter()
            .filter(|path| !source.is_left_out(path.as_bytes()))
            .cloned()
            .collect();
        self.dropped.extend(extract_too_deep(&mut ignored));
        if let Some(data) = &source.own_data
            && scan.ignored.contains(data)
        {
            let why = "data directory of Offshoot".to_owned();
            self.dropped.push((data.clone(), why));
        }
        for dir in &scan.dirs {
            let path = &dir.path;
            let perm = kept_perm(path, dir.perm, &mut self.dropped);
            report_xattrs(&source.dir, path, &mut self.dropped);
            let entry = DiskEntry {
                kind: EntryKind::Dir,
                perm,
                id: None,
                size: 0,
            };
            self.entries.insert(path.clone(), entry);
        }
        ignored.sort();
        self.ignored = topmost(ignored.into_iter());
    }

    /// Files and links, directories, and bytes.
    pub(crate) fn counts(&self) -> (i64, i64, i64) {
        let (mut files, mut dirs, mut bytes) = (0, 0, 0);
        for entry in self.entries.values() {
            match entry.kind {
                EntryKind::Dir => dirs += 1,
                _ => files += 1,
            }
            bytes += entry.size;
        }
        (files, dirs, bytes)
    }
}

/// What one thread read.
#[derive(Default)]
struct ReadFiles {
    entries: Vec<(RelPath, DiskEntry)>,
    dropped: Vec<(RelPath, String)>,
    unsettled: Vec<RelPath>,
}

impl ReadFiles {
    fn drop(&mut self, path: &RelPath, why: &str) {
        self.dropped.push((path.clone(), why.to_owned()));
    }

    fn append(&mut self, mut other: ReadFiles) {
        self.entries.append(&mut other.entries);
        self.dropped.append(&mut other.dropped);
        self.unsettled.append(&mut other.unsettled);
    }
}

fn kept_perm(path: &RelPath, perm: u32, dropped: &mut Vec<(RelPath, String)>) -> u32 {
    if perm & !KEPT_PERM != 0 {
        dropped.push((path.clone(), "set-id bit".to_owned()));
    }
    perm & KEPT_PERM
}

/// No attribute gets into a project. Those that could have meant something to the kernel are
/// named; what cannot be looked at holds none that got in.
fn report_xattrs(dir: &SafeDir, path: &RelPath, dropped: &mut Vec<(RelPath, String)>) {
    for name in dir.xattr_names(path).unwrap_or_default() {
        if is_dangerous(&name) {
            let name = offshoot_core::escape_bytes(&name);
            dropped.push((path.clone(), format!("attribute `{name}`")));
        }
    }
}

/// Labels of the whole machine stand on every file and say nothing about this one.
fn is_dangerous(name: &[u8]) -> bool {
    const OF_THE_MACHINE: [&[u8]; 3] = [b"security.selinux", b"security.ima", b"security.evm"];
    let prefixes: [&[u8]; 3] = [b"trusted.", b"security.", b"user.overlay."];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) && !OF_THE_MACHINE.contains(&name)
}

impl Source {
    pub(crate) fn dir(&self) -> &SafeDir {
        &self.dir
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The repository's own `.git` is history, not content; our data directory is nobody's.
    fn is_left_out(&self, path: &[u8]) -> bool {
        path == b".git"
            || self
                .own_data
                .as_ref()
                .is_some_and(|data| data.as_bytes() == path)
    }
}

/// Leaves out what the ignore rules name, unless the project has it already.
struct SourceFilter<'a> {
    source: &'a Source,
    ignore_rules: bool,
    tracked: &'a IsTracked<'a>,
}

impl SourceFilter<'_> {
    fn is_ignored(&self, rules: &IgnoreRules, path: &RelPath, is_dir: bool) -> bool {
        if !belongs_to_nested_git(path) {
            return rules.is_ignored(path, is_dir);
        }
        // A nested repository is ignored with the directory that it is in, never by itself.
        let above = path.ancestors().into_iter();
        let holder = above.take_while(|dir| !belongs_to_nested_git(dir)).last();
        holder.is_some_and(|dir| rules.is_ignored(&dir, true))
    }
}

impl ScanFilter for SourceFilter<'_> {
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
        if !self.ignore_rules {
            return None;
        }
        rules_in(&self.source.dir, rules, path, names)
    }

    fn skip(&self, rules: &IgnoreRules, entry: &ScanEntry<'_>) -> bool {
        if self.source.is_left_out(entry.path) || is_too_deep(entry.path) {
            return true;
        }
        if rules.is_empty() {
            return false;
        }
        let path = RelPath::from_normal(entry.path);
        let is_dir = entry.kind == EntryKind::Dir;
        self.is_ignored(rules, &path, is_dir) && !(self.tracked)(&path)
    }
}
