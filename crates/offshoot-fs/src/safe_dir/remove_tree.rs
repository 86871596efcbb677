//! Removing a whole tree of any depth without following a link, even while it is changed.
//!
//! Directories are entered one name at a time. Only the lowest few of the way down are kept open,
//! because a tree may be deeper than the limit of open files. Going back up then uses `..`, and the
//! directory found must be the one that was entered before.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use offshoot_core::{RelPath, Result};
use offshoot_sys::{DirReader, FileKind, fstat, lstat_at};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use super::{ParentAndName, READ_DIR, SafeDir};
use crate::errors::{is, write_error};

/// Directories of the way down that stay open.
const OPEN_LEVELS: usize = 32;
/// How often the removal of a tree that changes meanwhile is tried again.
const RACE_RETRIES: usize = 64;

impl SafeDir {
    /// Removes a file, a link, or a directory with everything below it.
    ///
    /// If it fails half-way, what is left is still where it was.
    pub fn remove_tree(&self, path: &RelPath) -> Result<()> {
        let place = self.parent_and_name_to_change(path)?;
        let mut tries = 0;
        loop {
            match self.remove_place(&place) {
                // Another process changes the tree. Each try leaves less of it.
                Err(error) if raced(&error) && tries < RACE_RETRIES => tries += 1,
                Err(error) if is(&error, Errno::NOENT) && tries > 0 => return Ok(()),
                answer => return answer.map_err(|error| write_error(path, error)),
            }
        }
    }

    fn remove_place(&self, place: &ParentAndName<'_>) -> io::Result<()> {
        let answer = self.unlink(&place.dir, &place.name, AtFlags::empty());
        match answer {
            Err(error) if is(&error, Errno::ISDIR) => self.remove_dirs(place),
            // POSIX lets unlink answer EPERM for a directory; it may be a true refusal too.
            Err(error) if is(&error, Errno::PERM) => {
                match lstat_at(&place.dir, &place.name)?.kind {
                    FileKind::Dir => self.remove_dirs(place),
                    _ => Err(error),
                }
            }
            answer => answer,
        }
    }

    fn remove_dirs(&self, place: &ParentAndName<'_>) -> io::Result<()> {
        let mut descent = Descent {
            open: VecDeque::new(),
            levels: Vec::new(),
        };
        descent.enter(&place.dir, &place.name)?;
        while let Some(level) = descent.levels.last_mut() {
            if let Some(name) = level.subdirs.pop() {
                let here = descent.here()?;
                ignore_not_found(descent.enter(&here, &name))?;
            } else if !level.emptied {
                level.emptied = true;
                let here = descent.here()?;
                let subdirs = self.unlink_files(&here)?;
                if let Some(level) = descent.levels.last_mut() {
                    level.subdirs = subdirs;
                }
            } else if let Some((parent, name)) = descent.leave()? {
                ignore_not_found(self.unlink_inside(&parent, &name, AtFlags::REMOVEDIR))?;
            } else {
                return ignore_not_found(self.unlink(&place.dir, &place.name, AtFlags::REMOVEDIR));
            }
        }
        Ok(())
    }

    /// Removes everything but directories from an open directory. Returns the directories.
    fn unlink_files(&self, dir: &OwnedFd) -> io::Result<Vec<CString>> {
        let mut subdirs = Vec::new();
        let mut failure = None;
        let mut visit = |name: &CStr, kind: Option<FileKind>| -> io::Result<()> {
            if kind == Some(FileKind::Dir) {
                subdirs.push(name.to_owned());
                return Ok(());
            }
            match self.unlink_inside(dir, name, AtFlags::empty()) {
                Err(error) if is(&error, Errno::NOENT) => Ok(()),
                Err(error) if is(&error, Errno::ISDIR) || is(&error, Errno::PERM) => {
                    if lstat_at(dir, name)?.kind != FileKind::Dir {
                        return Err(error);
                    }
                    subdirs.push(name.to_owned());
                    Ok(())
                }
                answer => answer,
            }
        };
        DirReader::default().for_each(dir, |name, kind| {
            if failure.is_none() {
                failure = visit(name, kind).err();
            }
        })?;
        failure.map_or(Ok(subdirs), Err)
    }

    fn unlink(&self, dir: &impl AsFd, name: &CStr, flags: AtFlags) -> io::Result<()> {
        self.hit("unlink")?;
        Ok(unlinkat(dir, name, flags)?)
    }

    /// Removes one name of the tree. A read-only directory, as package caches have them, is made
    /// writable: it is about to go anyway.
    fn unlink_inside(&self, dir: &impl AsFd, name: &CStr, flags: AtFlags) -> io::Result<()> {
        match self.unlink(dir, name, flags) {
            Err(error) if is(&error, Errno::ACCESS) => {
                let mode = Mode::from_raw_mode(fstat(dir)?.perm as _) | Mode::RWXU;
                rustix::fs::fchmod(dir, mode)?;
                self.unlink(dir, name, flags)
            }
            answer => answer,
        }
    }
}

/// Whether the error is a lost race, so that another try may succeed: a name appeared in an emptied
/// directory, or a directory was replaced, or moved away during the removal of its content.
fn raced(error: &io::Error) -> bool {
    [
        Errno::NOTEMPTY,
        Errno::EXIST,
        Errno::NOTDIR,
        Errno::LOOP,
        Errno::STALE,
    ]
    .iter()
    .any(|&errno| is(error, errno))
}

fn ignore_not_found(answer: io::Result<()>) -> io::Result<()> {
    match answer {
        Err(error) if is(&error, Errno::NOENT) => Ok(()),
        answer => answer,
    }
}

/// Lets its owner read a directory that is about to go. An overlay leaves one without any permission,
/// and so may programs.
#[cfg(target_os = "linux")]
fn make_readable(parent: &impl AsFd, name: &CStr) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // A handle may be had without permission, and no link is followed to get it.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(parent, name, flags, Mode::empty())?;
    let handle = format!("/proc/self/fd/{}", dir.as_raw_fd());
    Ok(rustix::fs::chmod(handle, Mode::RWXU)?)
}

#[cfg(not(target_os = "linux"))]
fn make_readable(_parent: &impl AsFd, _name: &CStr) -> io::Result<()> {
    Err(Errno::ACCESS.into())
}

/// The way down to the directory that is being emptied.
struct Descent {
    /// The lowest levels, the deepest last.
    open: VecDeque<Rc<OwnedFd>>,
    levels: Vec<Level>,
}

struct Level {
    name: CString,
    identity: (u64, u64),
    /// Whether its files are gone and its directories are known.
    emptied: bool,
    subdirs: Vec<CString>,
}

impl Descent {
    fn enter(&mut self, parent: &impl AsFd, name: &CStr) -> io::Result<()> {
        let open = || openat(parent, name, READ_DIR | OFlags::NOFOLLOW, Mode::empty());
        let fd = match open() {
            Err(Errno::ACCESS) => {
                make_readable(parent, name)?;
                open()?
            }
            fd => fd?,
        };
        let stat = fstat(&fd)?;
        self.levels.push(Level {
            name: name.to_owned(),
            identity: (stat.dev, stat.ino),
            emptied: false,
            subdirs: Vec::new(),
        });
        self.open.push_back(Rc::new(fd));
        if self.open.len() > OPEN_LEVELS {
            self.open.pop_front();
        }
        Ok(())
    }

    fn here(&self) -> io::Result<Rc<OwnedFd>> {
        Ok(self.open.back().ok_or(Errno::STALE)?.clone())
    }

    /// Goes up. Returns the directory above and the name of the one that was left; none at the top.
    fn leave(&mut self) -> io::Result<Option<(Rc<OwnedFd>, CString)>> {
        let (Some(left), Some(file)) = (self.levels.pop(), self.open.pop_back()) else {
            return Ok(None);
        };
        let Some(above) = self.levels.last() else {
            return Ok(None);
        };
        if self.open.is_empty() {
            let fd = openat(&file, c"..", READ_DIR | OFlags::NOFOLLOW, Mode::empty())?;
            let stat = fstat(&fd)?;
            if (stat.dev, stat.ino) != above.identity {
                return Err(Errno::STALE.into());
            }
            self.open.push_back(Rc::new(fd));
        }
        Ok(Some((self.here()?, left.name)))
    }
}
