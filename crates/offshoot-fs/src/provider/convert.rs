//! Turning the changes of an overlay fork into those of a copy, without mounting it: for a fork
//! that cannot be mounted any more.
//!
//! The upper is read by [`crate::upper`], so deleted, replaced and renamed directories come out as
//! the mount would show them. No workspace uses the copy yet, and the upper is only read: a failure
//! does it no harm.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::path::PathBuf;

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_sys::{FileKind, OverlayXattrs, Stat};
use rustix::fs::{Gid, SeekFrom, Timespec, Timestamps, Uid, fchown, futimens, seek};
use rustix::io::Errno;

use super::ForkDirs;
use super::overlay::recorded_xattrs;
use crate::stack::LayerStack;
use crate::tree_writer::KEPT_PERM;
use crate::upper::{UpperFormat, upper_differences};
use crate::{Difference, SafeDir, Staged, Sync, read_error, write_error};

/// Writes all changes of an overlay fork, also of ignored files and of its own layer, into a fresh
/// copy of its layers and syncs them. The overlay is not mounted.
///
/// Returns paths of sockets, devices and the like, which a copy does not have. The cost follows the
/// upper. `permission_denied` where this process cannot read the overlay attributes of the upper,
/// and `unsupported` where their namespace is not recorded: without them, replaced directories
/// would be taken for merged ones, and deleted files would come back.
pub fn copy_changes(layers: &[PathBuf], from: &ForkDirs, to: &ForkDirs) -> Result<Vec<RelPath>> {
    let xattrs = recorded_xattrs(from, OverlayXattrs::best())?.ok_or_else(|| {
        Error::new(
            ErrorCode::Unsupported,
            "it is not known how the overlay noted the changes of the workspace",
        )
        .with_hint("complete it where it was made, or fork again")
    })?;
    let stack = LayerStack::open_with(layers, xattrs)?.including_all();
    let upper = SafeDir::open(from.upper())?.following_no_links();
    let format = UpperFormat {
        xattrs,
        follow_redirects: xattrs == OverlayXattrs::Trusted,
    };
    let found = upper_differences(&stack, upper.root(), format, &mut |_, _| false)?;
    let copy = ChangeCopier {
        stack,
        upper,
        target: SafeDir::open(&to.target)?.following_no_links(),
    };
    let mut left_out = Vec::new();
    let mut dirs = Vec::new();
    for difference in &found.differences {
        if !copy.apply(difference)? {
            left_out.push(difference.path.clone());
        }
        dirs.extend(
            difference
                .now
                .filter(Stat::is_dir)
                .map(|now| (&difference.path, now)),
        );
    }
    // Last and from below: a read-only directory could not be filled.
    for (path, now) in dirs.into_iter().rev() {
        copy.target.set_perm(path, now.perm & KEPT_PERM)?;
    }
    copy.target.sync_all()?;
    Ok(left_out)
}

struct ChangeCopier {
    stack: LayerStack,
    upper: SafeDir,
    target: SafeDir,
}

impl ChangeCopier {
    /// Brings one path in line. Returns false if a copy cannot have what is there.
    fn apply(&self, difference: &Difference) -> Result<bool> {
        let path = &difference.path;
        let is_dir = difference.now.is_some_and(|now| now.is_dir());
        let was_dir = |kind| kind == FileKind::Dir;
        if let Some(base) = difference.base
            && !(is_dir && was_dir(base.kind))
        {
            self.target.remove_tree(path)?;
        }
        let Some(now) = difference.now else {
            return Ok(true);
        };
        match now.kind {
            FileKind::Dir => {
                self.target.mkdir_all(path, 0o700)?;
                let dir = self.target.open_dir_for_scan(path);
                let made = dir.map_err(|error| read_error(path, error))?;
                self.set_owner(path, &made, self.dir_owner(path)?)?;
            }
            FileKind::File => self.file(difference, &now)?,
            FileKind::Symlink => {
                let target = match &difference.content_of {
                    Some(origin) => self.stack.read_link(&self.in_layers(origin)?)?,
                    None => self.upper.read_link(path)?,
                };
                self.target.symlink(path, &target)?;
            }
            FileKind::Other(_) => return Ok(false),
        }
        Ok(true)
    }

    fn file(&self, difference: &Difference, now: &Stat) -> Result<()> {
        let path = &difference.path;
        let mut source = match &difference.content_of {
            Some(origin) => self.stack.open_file(&self.in_layers(origin)?)?,
            None => self.upper.open_file(path)?.0,
        };
        let owner = owner_of(&source).map_err(|error| read_error(path, error))?;
        let mut staged = self.target.stage(now.perm & KEPT_PERM)?;
        copy_sparsely(&mut source, &mut staged).map_err(|error| write_error(path, error))?;
        self.target.commit(staged, path, false, Sync::None)?;
        let (made, _) = self.target.open_file(path)?;
        self.set_owner(path, &made, owner)?;
        let mtime = Timespec {
            tv_sec: now.mtime_ns.div_euclid(1_000_000_000) as _,
            tv_nsec: now.mtime_ns.rem_euclid(1_000_000_000) as _,
        };
        let times = Timestamps {
            last_access: mtime,
            last_modification: mtime,
        };
        futimens(&made, &times).map_err(|errno| write_error(path, errno.into()))
    }

    /// The owner of a directory of the fork. A directory that only the layers have was moved with
    /// its parent; layers have one owner, which the root of the upper has too.
    fn dir_owner(&self, path: &RelPath) -> Result<(u32, u32)> {
        let owner = match self.upper.stat(path)? {
            Some(_) => self
                .upper
                .open_dir_for_scan(path)
                .and_then(|dir| owner_of(&dir)),
            None => owner_of(&self.upper.root()),
        };
        owner.map_err(|error| read_error(path, error))
    }

    fn set_owner(&self, path: &RelPath, made: &impl AsFd, (uid, gid): (u32, u32)) -> Result<()> {
        let found = owner_of(made).map_err(|error| read_error(path, error))?;
        if found == (uid, gid) {
            return Ok(());
        }
        fchown(made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
            .map_err(|errno| write_error(path, errno.into()))
    }

    fn in_layers(&self, origin: &RelPath) -> Result<crate::LayerEntry> {
        let found = self.stack.lookup(origin)?;
        found.ok_or_else(|| Error::internal("a moved file is not in the layers"))
    }
}

/// Copies a file and leaves its holes out: a disk image may be far larger than what it holds.
fn copy_sparsely(source: &mut File, to: &mut Staged) -> io::Result<()> {
    let size = source.metadata()?.len();
    let mut at = 0;
    while at < size {
        let data = match seek(&*source, SeekFrom::Data(at)) {
            // Only a hole follows.
            Err(Errno::NXIO) => size,
            // The file system does not know its holes.
            Err(Errno::INVAL | Errno::NOTSUP) => at,
            found => found?.min(size),
        };
        to.leave_hole(data - at)?;
        if data == size {
            break;
        }
        let hole = match seek(&*source, SeekFrom::Hole(data)) {
            Err(Errno::INVAL | Errno::NOTSUP) => size,
            found => found?.min(size),
        };
        seek(&*source, SeekFrom::Start(data))?;
        if io::copy(&mut source.take(hole - data), to)? < hole - data {
            // It became shorter.
            break;
        }
        at = hole;
    }
    Ok(())
}

fn owner_of(file: &impl AsFd) -> io::Result<(u32, u32)> {
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_uid, stat.st_gid))
}
