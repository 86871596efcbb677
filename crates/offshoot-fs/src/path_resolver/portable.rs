//! Paths resolved by hand: one `openat` with `O_NOFOLLOW` per part, links read and expanded.
//!
//! No call ever sees more than one name, and never `..`: a `..` in a link's target goes back to
//! the directory before by walking there again from the root. So whatever is renamed meanwhile,
//! every directory on the way was reached from the root by real names.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use offshoot_sys::{DIR_HANDLE, FileKind, FollowLinks, Stat, fstat, lstat_at};
use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;
/// How often a last part that turned into a link between two calls is looked up again.
const RACE_RETRIES: usize = 128;

pub(super) fn open(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    links: FollowLinks,
) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..RACE_RETRIES {
        let found = locate(root, path, links)?;
        match openat(found.dir(), found.name(), flags, Mode::empty()) {
            Ok(fd) => return Ok(fd),
            Err(Errno::INTR) => {}
            // With O_NOFOLLOW a link answers ELOOP, or ENOTDIR beside O_DIRECTORY (FreeBSD has
            // EMLINK). The last part was no link a moment ago: look again.
            Err(Errno::LOOP | Errno::MLINK | Errno::NOTDIR) if found.is_link_now() => {
                std::thread::yield_now();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::AGAIN.into())
}

pub(super) fn stat_follow(root: BorrowedFd<'_>, path: &[u8]) -> io::Result<Stat> {
    locate(root, path, FollowLinks::Beneath)?.stat()
}

/// The end of a walk: a directory and the last name in it, which is not a link.
struct Found<'root> {
    walker: Walker<'root>,
    /// None when the path leads to the directory itself.
    last: Option<(CString, Stat)>,
}

impl Found<'_> {
    fn dir(&self) -> BorrowedFd<'_> {
        self.walker.here()
    }

    fn name(&self) -> &CStr {
        self.last.as_ref().map_or(c".", |(name, _)| name)
    }

    fn stat(&self) -> io::Result<Stat> {
        match &self.last {
            Some((_, stat)) => Ok(*stat),
            None => fstat(self.dir()),
        }
    }

    fn is_link_now(&self) -> bool {
        lstat_at(self.dir(), self.name()).is_ok_and(|stat| stat.kind == FileKind::Symlink)
    }
}

fn locate<'root>(
    root: BorrowedFd<'root>,
    path: &[u8],
    links: FollowLinks,
) -> io::Result<Found<'root>> {
    let mut walker = Walker {
        root,
        here: None,
        trail: Vec::new(),
    };
    let mut pending = Vec::new();
    push_parts(&mut pending, path)?;
    let mut followed = 0;
    while let Some(part) = pending.pop() {
        match part.as_bytes() {
            b"." => continue,
            b".." => {
                walker.leave()?;
                continue;
            }
            _ => {}
        }
        if pending.is_empty() {
            let stat = lstat_at(walker.here(), &part)?;
            if stat.kind != FileKind::Symlink {
                return Ok(Found {
                    walker,
                    last: Some((part, stat)),
                });
            }
        } else {
            match walker.enter(&part) {
                Ok(()) => continue,
                Err(Errno::LOOP | Errno::MLINK | Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let target = match readlinkat(walker.here(), &part, Vec::new()) {
            Ok(target) => target,
            // It is no link, so it is a file where a directory is needed.
            Err(Errno::INVAL) => return Err(Errno::NOTDIR.into()),
            Err(error) => return Err(error.into()),
        };
        followed += 1;
        if links == FollowLinks::Never || followed > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if target.as_bytes().first() == Some(&b'/') {
            return Err(Errno::XDEV.into());
        }
        push_parts(&mut pending, target.as_bytes())?;
    }
    Ok(Found { walker, last: None })
}

/// Puts the parts of a path on the stack, the first on top. A `/` at the end demands a directory
/// like a `.` there would.
fn push_parts(pending: &mut Vec<CString>, path: &[u8]) -> io::Result<()> {
    if path.ends_with(b"/") {
        pending.push(c".".to_owned());
    }
    for part in path
        .rsplit(|&byte| byte == b'/')
        .filter(|part| !part.is_empty())
    {
        pending.push(CString::new(part)?);
    }
    Ok(())
}

/// A position somewhere beneath the root.
struct Walker<'root> {
    root: BorrowedFd<'root>,
    /// The directory reached; none at the root.
    here: Option<OwnedFd>,
    /// The names of the real directories that lead here.
    trail: Vec<CString>,
}

impl Walker<'_> {
    fn here(&self) -> BorrowedFd<'_> {
        self.here.as_ref().map_or(self.root, AsFd::as_fd)
    }

    fn enter(&mut self, name: &CStr) -> rustix::io::Result<()> {
        let flags = DIR_HANDLE | OFlags::NOFOLLOW;
        self.here = Some(openat(self.here(), name, flags, Mode::empty())?);
        self.trail.push(name.to_owned());
        Ok(())
    }

    /// Goes to the directory above, by names from the root: descriptors for all directories of a
    /// deep path would exceed the limit of open files, and `..` itself might lead out.
    fn leave(&mut self) -> io::Result<()> {
        let mut trail = std::mem::take(&mut self.trail);
        if trail.pop().is_none() {
            return Err(Errno::XDEV.into());
        }
        self.here = None;
        for name in &trail {
            self.enter(name)?;
        }
        Ok(())
    }
}
