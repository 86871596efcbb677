//! Changes of names: making, removing and moving, always by one name in an open directory.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;

use offshoot_core::{DEFAULT_DIR_PERM, Error, ErrorCode, RelPath, Result};
use offshoot_sys::{DIR_HANDLE, FileKind, fstat};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::stage::check_target;
use super::{DirFd, ParentAndName, READ, SafeDir, Sync, reopen_dir};
use crate::errors::{is, lookup_error, special_error, write_error};

impl SafeDir {
    /// Makes a directory and those above it that are missing, all with these permission bits.
    pub fn mkdir_all(&self, path: &RelPath, perm: u32) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        check_target(path)?;
        self.make_dirs(path, perm, Sync::None).map(drop)
    }

    /// Removes a file or a link.
    pub fn remove_file(&self, path: &RelPath) -> Result<()> {
        let place = self.parent_and_name_to_change(path)?;
        let answer = self
            .hit("unlink")
            .and_then(|()| Ok(unlinkat(&place.dir, &place.name, AtFlags::empty())?));
        match answer {
            // POSIX lets unlink answer EPERM for a directory; Linux says EISDIR.
            Err(error) if is(&error, Errno::PERM) && is_dir(&place) => {
                Err(write_error(path, Errno::ISDIR.into()))
            }
            answer => answer.map_err(|error| write_error(path, error)),
        }
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: &RelPath) -> Result<()> {
        let place = self.parent_and_name_to_change(path)?;
        self.hit("rmdir")
            .and_then(|()| Ok(unlinkat(&place.dir, &place.name, AtFlags::REMOVEDIR)?))
            .map_err(|error| write_error(path, error))
    }

    /// Moves a file, a link or a directory, replacing a file or an empty directory at once.
    pub fn rename(&self, from: &RelPath, to: &RelPath, make_parents: bool) -> Result<()> {
        self.rename_by(from, to, make_parents, |old, new| {
            Ok(renameat(&old.dir, &old.name, &new.dir, &new.name)?)
        })
    }

    /// Moves like [`SafeDir::rename`], but fails with `already_exists` when the place is taken.
    pub fn rename_noreplace(&self, from: &RelPath, to: &RelPath, make_parents: bool) -> Result<()> {
        self.rename_by(from, to, make_parents, |old, new| {
            offshoot_sys::rename_noreplace(&old.dir, &old.name, &new.dir, &new.name)
        })
    }

    fn rename_by(
        &self,
        from: &RelPath,
        to: &RelPath,
        make_parents: bool,
        rename: impl Fn(&ParentAndName<'_>, &ParentAndName<'_>) -> io::Result<()>,
    ) -> Result<()> {
        check_target(to)?;
        let old = self.parent_and_name_to_change(from)?;
        if to != from && to.starts_with(from) {
            return Err(Error::invalid(format!(
                "`{from}` cannot be moved into itself"
            )));
        }
        let parent = to.parent().unwrap_or_default();
        let dir = if make_parents {
            // The parents of a target are not worth making when there is nothing to move.
            offshoot_sys::lstat_at(&old.dir, &old.name)
                .map_err(|error| write_error(from, error))?;
            self.make_dirs(&parent, DEFAULT_DIR_PERM, Sync::None)?
        } else {
            self.dir_handle(&parent)
                .map_err(|error| lookup_error(&parent, error))?
        };
        let name = CString::new(to.name()).map_err(|error| write_error(to, error.into()))?;
        let new = ParentAndName { dir, name };
        match self.hit("rename").and_then(|()| rename(&old, &new)) {
            Ok(()) => Ok(()),
            Err(error) if is(&error, Errno::NOENT) => Err(write_error(from, error)),
            Err(error) if is(&error, Errno::INVAL) => Err(Error::invalid(format!(
                "`{from}` cannot be moved to `{to}`"
            ))
            .with_source(error)),
            Err(error) => Err(write_error(to, error)),
        }
    }

    /// Sets the permission bits of a file or a directory. A link is refused, not followed.
    pub fn set_perm(&self, path: &RelPath, perm: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(perm as _);
        if path.is_root() {
            return self
                .hit("chmod")
                .and_then(|()| Ok(rustix::fs::fchmod(self.root(), mode)?))
                .map_err(|error| write_error(path, error));
        }
        let place = self
            .parent_and_name(path)
            .map_err(|error| lookup_error(path, error))?;
        let opened = self.hit("open").and_then(|()| {
            Ok(openat(
                &place.dir,
                &place.name,
                READ | OFlags::NOFOLLOW,
                Mode::empty(),
            )?)
        });
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) if is(&error, Errno::LOOP) || is(&error, Errno::MLINK) => {
                return Err(Error::invalid(
                    format!("`{path}` is a link")
                        + ", and links have no permission bits of their own",
                ));
            }
            Err(error) if is(&error, Errno::ACCESS) => {
                return self.set_perm_unreadable(path, &place, mode);
            }
            Err(error) => return Err(write_error(path, error)),
        };
        let stat = fstat(&fd).map_err(|error| write_error(path, error))?;
        if let FileKind::Other(special) = stat.kind {
            return Err(special_error(path, special));
        }
        self.hit("chmod")
            .and_then(|()| Ok(rustix::fs::fchmod(&fd, mode)?))
            .map_err(|error| write_error(path, error))
    }

    /// Sets the bits of something that its owner may not read, such as a file with mode 000.
    ///
    /// A handle of `O_PATH` needs no permission, and its entry in `/proc` leads to exactly the
    /// thing that was opened, whatever is renamed meanwhile.
    #[cfg(target_os = "linux")]
    fn set_perm_unreadable(
        &self,
        path: &RelPath,
        place: &ParentAndName<'_>,
        mode: Mode,
    ) -> Result<()> {
        use std::os::fd::AsRawFd;
        let change = || -> io::Result<FileKind> {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = openat(&place.dir, &place.name, flags, Mode::empty())?;
            let kind = fstat(&fd)?.kind;
            if matches!(kind, FileKind::File | FileKind::Dir) {
                self.hit("chmod")?;
                rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), mode)?;
            }
            Ok(kind)
        };
        match change().map_err(|error| write_error(path, error))? {
            FileKind::File | FileKind::Dir => Ok(()),
            FileKind::Symlink => Err(write_error(path, Errno::LOOP.into())),
            FileKind::Other(special) => Err(special_error(path, special)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn set_perm_unreadable(
        &self,
        path: &RelPath,
        _place: &ParentAndName<'_>,
        _mode: Mode,
    ) -> Result<()> {
        Err(write_error(path, Errno::ACCESS.into()))
    }

    /// Opens a directory, making it and those above it that are missing.
    ///
    /// Looks for one that exists from the bottom up, in steps that grow: usually one or two
    /// levels are missing, and a thousand must not cost a thousand lookups of long paths.
    pub(super) fn make_dirs(&self, path: &RelPath, perm: u32, sync: Sync) -> Result<DirFd<'_>> {
        let mut below = Vec::new();
        let mut at = path.clone();
        let mut dir = loop {
            match self.dir_handle(&at) {
                Ok(dir) => break dir,
                Err(error) if is(&error, Errno::NOENT) && !at.is_root() => {}
                Err(error) => return Err(lookup_error(&at, error)),
            }
            for _ in 0..(below.len() / 2).max(1) {
                let Some(parent) = at.parent() else { break };
                below.push(std::mem::replace(&mut at, parent));
            }
        };
        for path in below.iter().rev() {
            dir = match self.make_dir_in(&dir, path.name(), perm, sync) {
                Ok(made) => made,
                // The steps passed over a link to a directory.
                Err(error) if is(&error, Errno::NOTDIR) || is(&error, Errno::LOOP) => {
                    self.dir_handle(path).map_err(|inner| {
                        // A link that leads nowhere is no directory either.
                        let nowhere = is(&inner, Errno::NOENT);
                        lookup_error(path, if nowhere { error } else { inner })
                    })?
                }
                Err(error) => return Err(write_error(path, error)),
            };
        }
        Ok(dir)
    }

    fn make_dir_in(
        &self,
        parent: &DirFd<'_>,
        name: &[u8],
        perm: u32,
        sync: Sync,
    ) -> io::Result<DirFd<'static>> {
        self.hit("mkdir")?;
        let mode = Mode::from_raw_mode(perm as _);
        let is_new = match mkdirat(parent, name, mode) {
            Ok(()) => true,
            // Another process made it at the same time, which is as good.
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let dir = openat(parent, name, DIR_HANDLE | OFlags::NOFOLLOW, Mode::empty())?;
        if is_new {
            // The process's umask must not decide what a restored directory looks like.
            if fstat(&dir)?.perm & 0o777 != perm & 0o777 {
                rustix::fs::fchmod(reopen_dir(&dir)?, mode)?;
            }
            if sync == Sync::Durable {
                self.sync_dir(&parent.as_fd())?;
            }
        }
        Ok(DirFd::Opened(dir))
    }

    /// The parent and name of a path that is to be removed or moved.
    pub(super) fn parent_and_name_to_change(&self, path: &RelPath) -> Result<ParentAndName<'_>> {
        if path.is_root() {
            return Err(Error::new(
                ErrorCode::InvalidRequest,
                "the workspace itself cannot be removed or moved",
            ));
        }
        self.parent_and_name(path)
            .map_err(|error| lookup_error(path, error))
    }
}

fn is_dir(place: &ParentAndName<'_>) -> bool {
    offshoot_sys::lstat_at(&place.dir, &place.name).is_ok_and(|stat| stat.kind == FileKind::Dir)
}
