//! Filling a fresh private directory with a tree, for layers and for forks that are copies.
//!
//! No other process knows the directory yet, so there are no races. Still every name is made
//! through a descriptor of its parent and no link is followed, because agents chose the names.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use offshoot_core::{DEFAULT_DIR_PERM, RelPath};
use offshoot_sys::FollowLinks;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, fchmod, fchown, mkdirat, openat};

use crate::path_resolver::PathResolver;

/// The bits that a layer or a copy keeps: set-id bits never get in.
pub(crate) const KEPT_PERM: u32 = 0o1777;

const OPEN_DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The user and group that files get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

#[derive(Debug)]
pub(crate) struct TreeWriter {
    root: OwnedFd,
    resolver: PathResolver,
    owner: Option<Owner>,
    /// The directory that was last written to: most trees come directory by directory.
    last: Option<(RelPath, OwnedFd)>,
    /// What directories get at the end: a read-only one could not be filled otherwise.
    dirs: BTreeMap<RelPath, u32>,
}

impl TreeWriter {
    pub(crate) fn new(root: OwnedFd, owner: Option<Owner>) -> TreeWriter {
        let dirs = BTreeMap::from([(RelPath::root(), DEFAULT_DIR_PERM)]);
        TreeWriter {
            root,
            resolver: PathResolver::best(),
            owner,
            last: None,
            dirs,
        }
    }

    /// A directory and those above it; one that is there already gets the permission bits.
    pub(crate) fn dir(&mut self, path: &RelPath, perm: u32) -> io::Result<()> {
        self.make_dirs(path)?;
        self.dirs.insert(path.clone(), perm & KEPT_PERM);
        Ok(())
    }

    /// A new file, still empty and private; [`TreeWriter::set_metadata`] gives it its bits.
    pub(crate) fn file(&mut self, path: &RelPath) -> io::Result<File> {
        let name = self.enter_parent(path)?;
        let fd = openat(self.here(), &name, NEW_FILE, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(fd))
    }

    /// Owner and permission bits of a new file.
    pub(crate) fn set_metadata(&self, file: &File, perm: u32) -> io::Result<()> {
        if let Some(owner) = self.owner {
            fchown(file, Some(uid(owner)), Some(gid(owner)))?;
        }
        Ok(fchmod(file, Mode::from_raw_mode((perm & KEPT_PERM) as _))?)
    }

    pub(crate) fn symlink(&mut self, path: &RelPath, target: &[u8]) -> io::Result<()> {
        let name = self.enter_parent(path)?;
        rustix::fs::symlinkat(target, self.here(), &name)?;
        if let Some(owner) = self.owner {
            chownat(
                self.here(),
                &name,
                Some(uid(owner)),
                Some(gid(owner)),
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
        }
        Ok(())
    }

    /// Opens the directory above `path`, making it if need be. Returns the last name.
    pub(crate) fn enter_parent(&mut self, path: &RelPath) -> io::Result<CString> {
        let parent = path.parent().ok_or(rustix::io::Errno::ISDIR)?;
        self.enter(&parent)?;
        Ok(CString::new(path.name())?)
    }

    /// Opens a directory, making it if need be.
    pub(crate) fn enter(&mut self, dir: &RelPath) -> io::Result<()> {
        if self.last.as_ref().is_some_and(|(path, _)| path == dir) {
            return Ok(());
        }
        self.make_dirs(dir)?;
        let fd = self.resolver.open(
            self.root.as_fd(),
            dir.as_bytes(),
            OPEN_DIR,
            FollowLinks::Never,
        )?;
        self.last = Some((dir.clone(), fd));
        Ok(())
    }

    /// The directory that was entered last.
    pub(crate) fn here(&self) -> BorrowedFd<'_> {
        self.last
            .as_ref()
            .map_or(self.root.as_fd(), |(_, fd)| fd.as_fd())
    }

    fn make_dirs(&mut self, path: &RelPath) -> io::Result<()> {
        if self.dirs.contains_key(path) {
            return Ok(());
        }
        let name = self.enter_parent(path)?;
        mkdirat(self.here(), &name, Mode::RWXU)?;
        self.dirs.insert(path.clone(), DEFAULT_DIR_PERM);
        Ok(())
    }

    /// Gives all directories their owner and permission bits, the deepest first.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.last = None;
        for (path, perm) in self.dirs.iter().rev() {
            let dir = self.resolver.open(
                self.root.as_fd(),
                path.as_bytes(),
                OPEN_DIR,
                FollowLinks::Never,
            )?;
            if let Some(owner) = self.owner {
                fchown(&dir, Some(uid(owner)), Some(gid(owner)))?;
            }
            fchmod(&dir, Mode::from_raw_mode(*perm as _))?;
        }
        Ok(())
    }
}

fn uid(owner: Owner) -> Uid {
    Uid::from_raw(owner.uid)
}

fn gid(owner: Owner) -> Gid {
    Gid::from_raw(owner.gid)
}
