//! A directory that nothing escapes from: no path, no link and no race leads out of it.
//!
//! A path is opened by a [`PathResolver`]; every other call opens the parent directory by it and
//! then acts on a single name. No path is ever checked first and used later: a rename between the
//! two would let it escape.

mod change;
mod remove_tree;
mod stage;

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use offshoot_core::{Error, ErrorCode, FaultPlan, MAX_PATH, RelPath, Result};
use offshoot_sys::{DIR_HANDLE, DirReader, FileKind, FollowLinks, Stat, fstat, lstat_at};
use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use crate::errors::{is, lookup_error, read_error, require_file};
use crate::path_resolver::PathResolver;

pub use stage::{STAGE_PREFIX, Staged, Sync};

/// Flags for reading a file of unknown kind: a FIFO must not block, and a terminal must not become
/// the controlling one. The kind is checked after the open.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
const READ_DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// An open directory and everything beneath it.
///
/// Clones share the descriptor. Paths are relative to it; the empty path is the directory itself.
/// Links are followed on the way to a place as long as they stay inside; methods that change
/// something act on the last name itself and never follow it.
///
/// ```
/// use offshoot_core::RelPath;
/// use offshoot_fs::{SafeDir, Sync};
///
/// # let host = tempfile::tempdir()?;
/// let dir = SafeDir::open(host.path())?;
/// let path = RelPath::parse(b"notes/today.txt")?;
/// dir.write(&path, b"hello", 0o644, Sync::None)?;
/// assert_eq!(dir.read(&path)?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SafeDir {
    fd: Arc<OwnedFd>,
    resolver: PathResolver,
    links: FollowLinks,
    faults: FaultPlan,
}

/// How often a path must seem to escape before the open fails: a concurrent move looks like it.
const ESCAPE_RETRIES: usize = 16;

/// One name in a directory and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, as bytes.
    pub name: Vec<u8>,
    /// What it is; links are not followed.
    pub stat: Stat,
}

/// What a walk does after it has shown a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Go on, into this directory if it is one.
    Enter,
    /// Go on without looking into this directory.
    Skip,
    /// Show nothing more.
    Stop,
}

/// A directory to act in: the root itself, or one opened below it.
pub(crate) enum DirFd<'root> {
    Root(BorrowedFd<'root>),
    Opened(OwnedFd),
}

impl AsFd for DirFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            DirFd::Root(fd) => *fd,
            DirFd::Opened(fd) => fd.as_fd(),
        }
    }
}

/// An open directory and one name in it.
struct ParentAndName<'root> {
    dir: DirFd<'root>,
    name: CString,
}

impl SafeDir {
    /// Opens a directory of the host by the best resolver that this machine has.
    ///
    /// The host path is trusted; links in it are followed.
    pub fn open(path: impl AsRef<Path>) -> Result<SafeDir> {
        SafeDir::open_with(path, PathResolver::best())
    }

    /// Opens a directory of the host by the given resolver.
    pub fn open_with(path: impl AsRef<Path>, resolver: PathResolver) -> Result<SafeDir> {
        if resolver == PathResolver::Kernel && !offshoot_sys::has_open_beneath() {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "this kernel does not offer `openat2`, or a sandbox forbids it",
            )
            .with_hint("use the portable resolver"));
        }
        let fd = rustix::fs::open(path.as_ref(), READ_DIR, Mode::empty())
            .map_err(|errno| read_error(&RelPath::root(), errno.into()))?;
        Ok(SafeDir {
            fd: Arc::new(fd),
            resolver,
            links: FollowLinks::Beneath,
            faults: FaultPlan::default(),
        })
    }

    /// Turns off following links on the way to a name.
    ///
    /// For paths that come from an index, where every parent is a directory. If a parent has become
    /// a link meanwhile, the path counts as absent, and nothing behind the link is touched.
    #[must_use]
    pub fn following_no_links(mut self) -> SafeDir {
        self.links = FollowLinks::Never;
        self
    }

    /// Makes calls fail by this plan, for tests.
    #[must_use]
    pub fn with_faults(mut self, faults: FaultPlan) -> SafeDir {
        self.faults = faults;
        self
    }

    /// The resolver in use.
    pub fn resolver(&self) -> PathResolver {
        self.resolver
    }

    /// Opens a regular file for reading. Links that stay inside are followed.
    pub fn open_file(&self, path: &RelPath) -> Result<(File, Stat)> {
        let mut tries = 0;
        let fd = loop {
            tries += 1;
            match self.resolve(path, READ) {
                // The kernel also reports a file that is moved away meanwhile as an escape.
                Err(error) if tries < ESCAPE_RETRIES && is(&error, Errno::XDEV) => {}
                answer => break answer.map_err(|error| lookup_error(path, error))?,
            }
        };
        let stat = fstat(&fd).map_err(|error| read_error(path, error))?;
        require_file(path, stat.kind)?;
        Ok((File::from(fd), stat))
    }

    /// Reads a whole file.
    pub fn read(&self, path: &RelPath) -> Result<Vec<u8>> {
        let (mut file, stat) = self.open_file(path)?;
        // One byte more than the size lets the end be seen without growing the buffer.
        let capacity = usize::try_from(stat.size).unwrap_or(0).saturating_add(1);
        let mut content = Vec::new();
        content.try_reserve(capacity).map_err(|error| {
            Error::new(
                ErrorCode::ReadFailed,
                format!("`{path}` is too large to be read at once"),
            )
            .with_hint("read it in windows")
            .with_source(error)
        })?;
        self.hit("read").map_err(|error| read_error(path, error))?;
        file.read_to_end(&mut content)
            .map_err(|error| read_error(path, error))?;
        Ok(content)
    }

    /// Reads at most `len` bytes from `offset` on; fewer only at the end of the file. The size of
    /// the whole is in the returned [`Stat`].
    pub fn read_window(&self, path: &RelPath, offset: u64, len: usize) -> Result<(Vec<u8>, Stat)> {
        let (file, stat) = self.open_file(path)?;
        let there = usize::try_from(stat.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut window = vec![0; len.min(there)];
        let mut filled = 0;
        while filled < window.len() {
            let answer = self
                .hit("read")
                .and_then(|()| file.read_at(&mut window[filled..], offset + filled as u64));
            match answer {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(path, error)),
            }
        }
        window.truncate(filled);
        Ok((window, stat))
    }

    /// The target of a link, as bytes.
    pub fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        let no_link = || Error::invalid(format!("`{path}` is not a link"));
        if path.is_root() {
            return Err(no_link());
        }
        let place = self
            .parent_and_name(path)
            .map_err(|error| lookup_error(path, error))?;
        match readlinkat(&place.dir, &place.name, Vec::new()) {
            Ok(target) => Ok(target.into_bytes()),
            Err(Errno::INVAL) => Err(no_link()),
            Err(errno) => Err(read_error(path, errno.into())),
        }
    }

    /// What stands at a path, a link itself and not what it leads to. None when nothing does,
    /// also when a directory above is missing or is none.
    pub fn stat(&self, path: &RelPath) -> Result<Option<Stat>> {
        let answer = if path.is_root() {
            fstat(&self.fd)
        } else {
            self.parent_and_name(path)
                .and_then(|place| lstat_at(&place.dir, &place.name))
        };
        match answer {
            Err(error) if self.links == FollowLinks::Never && is(&error, Errno::LOOP) => Ok(None),
            answer => absent_as_none(path, answer),
        }
    }

    /// What a path leads to; None when that does not exist.
    pub fn stat_follow(&self, path: &RelPath) -> Result<Option<Stat>> {
        let answer = self
            .hit("stat")
            .and_then(|()| self.resolver.stat_follow(self.fd.as_fd(), path.as_bytes()));
        absent_as_none(path, answer)
    }

    /// The names in a directory with what stands there, sorted by the bytes of the names.
    ///
    /// Costs one call per name. Staged files at the root are not shown.
    pub fn list(&self, path: &RelPath) -> Result<Vec<DirEntry>> {
        let fd = self.open_for_names(path)?;
        self.list_open(path, fd.as_fd())
    }

    /// The names in a directory with the kind of what stands there, in no order.
    ///
    /// Costs one call for about a thousand names, on file systems that tell the kind beside the
    /// name. Staged files at the root are not shown.
    pub fn names(&self, path: &RelPath) -> Result<Vec<(Vec<u8>, FileKind)>> {
        let fd = self.open_for_names(path)?;
        self.names_open(path, fd.as_fd())
    }

    /// What stands at some names of a directory, in their order; names that are gone are left out.
    ///
    /// Costs one call per name that is given, however many there are in the directory.
    pub fn stat_names(&self, path: &RelPath, names: Vec<Vec<u8>>) -> Result<Vec<DirEntry>> {
        let fd = self.open_for_names(path)?;
        // A text that is no name, such as `a/b`, is left out.
        let is_name = |name: &Vec<u8>| !name.contains(&b'/') && name != b"..";
        let named = names.into_iter().filter(is_name);
        let named = named.filter_map(|name| CString::new(name).ok());
        stat_each(path, fd.as_fd(), named)
    }

    fn open_for_names(&self, path: &RelPath) -> Result<OwnedFd> {
        self.resolve(path, READ_DIR)
            .map_err(|error| lookup_error(path, error))
    }

    fn names_open(&self, path: &RelPath, dir: BorrowedFd<'_>) -> Result<Vec<(Vec<u8>, FileKind)>> {
        let mut names = Vec::new();
        let mut unsaid = Vec::new();
        self.each_name(path, dir, |name, kind| match kind {
            Some(kind) => names.push((name.to_bytes().to_vec(), kind)),
            None => unsaid.push(name.to_owned()),
        })?;
        let looked_at = stat_each(path, dir, unsaid.into_iter())?;
        names.extend(
            looked_at
                .into_iter()
                .map(|entry| (entry.name, entry.stat.kind)),
        );
        Ok(names)
    }

    fn list_open(&self, path: &RelPath, dir: BorrowedFd<'_>) -> Result<Vec<DirEntry>> {
        let mut names = Vec::new();
        self.each_name(path, dir, |name, _| names.push(name.to_owned()))?;
        names.sort_unstable();
        stat_each(path, dir, names.into_iter())
    }

    fn each_name(
        &self,
        path: &RelPath,
        dir: BorrowedFd<'_>,
        mut visit: impl FnMut(&CStr, Option<FileKind>),
    ) -> Result<()> {
        self.hit("readdir")
            .and_then(|()| {
                DirReader::default().for_each(dir, |name, kind| {
                    if !(path.is_root() && name.to_bytes().starts_with(STAGE_PREFIX)) {
                        visit(name, kind);
                    }
                })
            })
            .map_err(|error| read_error(path, error))
    }

    /// Shows everything below a directory, each directory before what is in it.
    ///
    /// Names of one directory come in order. Links are shown and not followed, not even when a
    /// directory turns into one meanwhile. What vanishes during the walk is left out.
    pub fn walk(
        &self,
        from: &RelPath,
        mut visit: impl FnMut(&RelPath, &Stat) -> Result<Walk>,
    ) -> Result<()> {
        let start = self.open_for_names(from)?;
        // Paths relative to the start, so that links on the way to it do not matter below it.
        let mut pending = vec![RelPath::root()];
        while let Some(below) = pending.pop() {
            let dir = from.join(&below);
            let Some(fd) = self.open_below(start.as_fd(), &below, &dir)? else {
                continue;
            };
            let first_below = pending.len();
            for entry in self.list_open(&dir, fd.as_fd())? {
                check_length(&dir, &entry.name)?;
                let step = visit(&dir.join_name(&entry.name), &entry.stat)?;
                if step == Walk::Stop {
                    return Ok(());
                }
                if entry.stat.kind == FileKind::Dir && step == Walk::Enter {
                    pending.push(below.join_name(&entry.name));
                }
            }
            pending[first_below..].reverse();
        }
        Ok(())
    }

    /// Shows the directories below a directory, parents first and at most `depth` levels of them.
    ///
    /// Like [`SafeDir::walk`], but without a `stat` of files: these cost only their names.
    pub fn walk_dirs(
        &self,
        from: &RelPath,
        depth: usize,
        mut visit: impl FnMut(&RelPath),
    ) -> Result<()> {
        let start = self.open_for_names(from)?;
        let mut pending = vec![(RelPath::root(), depth)];
        while let Some((below, depth)) = pending.pop() {
            let dir = from.join(&below);
            if depth == 0 {
                continue;
            }
            let Some(fd) = self.open_below(start.as_fd(), &below, &dir)? else {
                continue;
            };
            for (name, kind) in self.names_open(&dir, fd.as_fd())? {
                if kind != FileKind::Dir {
                    continue;
                }
                check_length(&dir, &name)?;
                visit(&dir.join_name(&name));
                pending.push((below.join_name(&name), depth - 1));
            }
        }
        Ok(())
    }

    /// Opens a directory that a walk has found; none if it is gone, or has turned into a link.
    fn open_below(
        &self,
        start: BorrowedFd<'_>,
        below: &RelPath,
        dir: &RelPath,
    ) -> Result<Option<OwnedFd>> {
        let opened = self.hit("open").and_then(|()| {
            self.resolver
                .open(start, below.as_bytes(), READ_DIR, FollowLinks::Never)
        });
        match opened {
            Ok(fd) => Ok(Some(fd)),
            Err(error) if vanished(&error) => Ok(None),
            Err(error) => Err(lookup_error(dir, error)),
        }
    }

    /// The names of the extended attributes of a file or directory; no link is followed.
    pub fn xattr_names(&self, path: &RelPath) -> Result<Vec<Vec<u8>>> {
        self.hit("open")
            .and_then(|()| {
                self.resolver
                    .open(self.root(), path.as_bytes(), READ, FollowLinks::Never)
            })
            .and_then(offshoot_sys::xattr_names)
            .map_err(|error| lookup_error(path, error))
    }

    /// Whether the directory is the top of a mounted fork.
    pub fn is_mounted(&self) -> Result<bool> {
        #[cfg(target_os = "linux")]
        return offshoot_sys::is_mount_point(&self.fd)
            .and_then(|is_mount| Ok(is_mount && offshoot_sys::is_on_overlay(&self.fd)?))
            .map_err(|error| crate::read_error(&RelPath::root(), error));
        #[cfg(not(target_os = "linux"))]
        Ok(false)
    }

    /// Flushes the whole file system that the directory lies on.
    pub fn sync_all(&self) -> Result<()> {
        self.hit("fsync")
            .and_then(|()| offshoot_sys::syncfs(&self.fd))
            .map_err(|error| crate::write_error(&RelPath::root(), error))
    }

    pub(crate) fn hit(&self, call: &'static str) -> io::Result<()> {
        self.faults.hit(call)
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens a path, following links that stay inside.
    fn resolve(&self, path: &RelPath, flags: OFlags) -> io::Result<OwnedFd> {
        self.hit("open")?;
        self.resolver
            .open(self.root(), path.as_bytes(), flags, self.links)
    }

    /// Opens a directory for reading its names, through real directories only.
    pub(crate) fn open_dir_for_scan(&self, path: &RelPath) -> io::Result<OwnedFd> {
        self.hit("open")?;
        self.resolver
            .open(self.root(), path.as_bytes(), READ_DIR, FollowLinks::Never)
    }

    fn dir_handle(&self, path: &RelPath) -> io::Result<DirFd<'_>> {
        if path.is_root() {
            return Ok(DirFd::Root(self.root()));
        }
        self.resolve(path, DIR_HANDLE).map(DirFd::Opened)
    }

    /// The parent of a path, opened, and the last name. Not for the root.
    fn parent_and_name(&self, path: &RelPath) -> io::Result<ParentAndName<'_>> {
        let parent = path.parent().ok_or(Errno::INVAL)?;
        Ok(ParentAndName {
            dir: self.dir_handle(&parent)?,
            name: CString::new(path.name())?,
        })
    }
}

/// Refuses a name that makes a path longer than paths can be.
fn check_length(dir: &RelPath, name: &[u8]) -> Result<()> {
    if dir.as_bytes().len() + 1 + name.len() > MAX_PATH {
        return Err(Error::invalid(format!("a path below `{dir}` is too long")));
    }
    Ok(())
}

/// What stands at names of a directory. What was removed since its name was read is left out.
fn stat_each(
    path: &RelPath,
    dir: BorrowedFd<'_>,
    names: impl Iterator<Item = CString>,
) -> Result<Vec<DirEntry>> {
    let mut entries = Vec::with_capacity(names.size_hint().0);
    for name in names {
        match lstat_at(dir, &name) {
            Ok(stat) => entries.push(DirEntry {
                name: name.into_bytes(),
                stat,
            }),
            Err(error) if is(&error, Errno::NOENT) => {}
            Err(error) => return Err(read_error(path, error)),
        }
    }
    Ok(entries)
}

/// Whether the error of an open that follows no links says that a directory which was found a
/// moment ago is gone or is no directory any more.
pub(crate) fn vanished(error: &io::Error) -> bool {
    // EXDEV where no links are followed: it was moved out of the directory between the look-up of
    // its name and the check that it lies beneath. Overlayfs does so with what it removes.
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::XDEV]
        .into_iter()
        .any(|errno| is(error, errno))
}

fn absent_as_none(path: &RelPath, answer: io::Result<Stat>) -> Result<Option<Stat>> {
    match answer {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if is(&error, Errno::NOENT) || is(&error, Errno::NOTDIR) => Ok(None),
        Err(error) => Err(lookup_error(path, error)),
    }
}

/// Opens a directory handle again for reading, so that it can be synced or changed.
fn reopen_dir(dir: impl AsFd) -> io::Result<File> {
    Ok(File::from(openat(dir, c".", READ_DIR, Mode::empty())?))
}
