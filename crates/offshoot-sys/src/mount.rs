//! Overlay mounts by the kernel's newer interface, where every directory is passed as a descriptor.
//!
//! The option string of `mount(2)` breaks on `:` and `,` in a path and is cut silently at 4 KiB,
//! and the string form of `fsconfig` refuses paths of 256 bytes. A descriptor has none of these
//! limits, and it names the directory that was opened, whatever is renamed meanwhile.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, IFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen, mount_remount, move_mount, open_tree, unmount,
};

use crate::OverlayXattrs;

/// `f_type` of an overlay, from the kernel's `linux/magic.h`.
const OVERLAY_MAGIC: i64 = 0x794c_7630;

/// What an overlay is made of.
#[derive(Debug)]
pub struct Overlay<'a> {
    /// Read-only directories, the newest first; at least one and at most 500.
    pub lowers: &'a [BorrowedFd<'a>],
    /// Where changes go. No other program may write there while it is mounted.
    pub upper: BorrowedFd<'a>,
    /// An empty directory for the kernel, on the file system of the upper.
    pub work: BorrowedFd<'a>,
    /// Where the kernel keeps its metadata.
    pub xattrs: OverlayXattrs,
    /// Whether directories of a lower can be renamed. The kernel follows the redirects that this
    /// leaves in the upper without a check, so no other program may reach the upper.
    pub redirect_dir: bool,
}

impl Overlay<'_> {
    /// Makes the mount without a place; [`attach_mount`] gives it one. Dropping the descriptor
    /// before that ends the mount.
    ///
    /// `metacopy` is off, so that every file in the upper holds its data, and `index` is off,
    /// because it ties an upper to inode numbers that a copied data directory does not keep.
    /// Set-id bits and devices that an agent makes in it have no effect.
    pub fn mount(&self) -> io::Result<OwnedFd> {
        let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        for lower in self.lowers {
            set_dir(&context, c"lowerdir+", *lower)?;
        }
        set_dir(&context, c"upperdir", self.upper)?;
        set_dir(&context, c"workdir", self.work)?;
        let redirect_dir = if self.redirect_dir { "on" } else { "nofollow" };
        fsconfig_set_string(&context, c"redirect_dir", redirect_dir)?;
        fsconfig_set_string(&context, c"metacopy", "off")?;
        fsconfig_set_string(&context, c"index", "off")?;
        if self.xattrs == OverlayXattrs::User {
            fsconfig_set_flag(&context, c"userxattr")?;
        }
        fsconfig_create(&context)?;
        Ok(fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
        )?)
    }
}

/// Whether an overlay with this upper is mounted anywhere: here, in another mount namespace, or without
/// a place because a file of it is still open. Needs the right to mount.
///
/// The kernel knows, and tells only who asks for an exclusive mount (`index=on`). That mount is asked
/// for with the upper as its own working and lower directory: a free upper is refused for that, after
/// it was looked at and before anything is written.
pub fn is_upper_in_use(upper: BorrowedFd<'_>) -> io::Result<bool> {
    let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for role in [c"lowerdir+", c"upperdir", c"workdir"] {
        set_dir(&context, role, upper)?;
    }
    fsconfig_set_string(&context, c"index", "on")?;
    if OverlayXattrs::best() == OverlayXattrs::User {
        fsconfig_set_flag(&context, c"userxattr")?;
    }
    match fsconfig_create(&context) {
        Err(Errno::BUSY) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(()) => Err(Errno::INVAL.into()),
    }
}

/// Gives the context a directory. Linux takes descriptors here since 6.13; older kernels (from
/// 6.5, which has `lowerdir+`) take the short path that stands for the descriptor.
fn set_dir(context: &OwnedFd, key: &CStr, dir: BorrowedFd<'_>) -> io::Result<()> {
    match fsconfig_set_fd(context, key, dir) {
        Err(Errno::INVAL) => {
            let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
            Ok(fsconfig_set_string(context, key, path)?)
        }
        answer => Ok(answer?),
    }
}

/// Puts a mount that has no place yet onto an open directory.
pub fn attach_mount(mount: impl AsFd, target: impl AsFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", target, c"", flags)?)
}

/// A second mount of what is mounted at `path`, without a place: a bind mount to attach elsewhere,
/// such as in the namespace of a sandbox.
pub fn clone_mount(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, path, flags)?)
}

/// Ends the mount at `path`; EBUSY if a process has a file open or its working directory there.
///
/// Syncs the file system of the upper: from a millisecond to a second and more.
pub fn unmount_idle(path: &Path) -> io::Result<()> {
    Ok(unmount(path, UnmountFlags::NOFOLLOW)?)
}

/// Takes the mount at `path` away at once; it ends when its last user is gone.
///
/// Without users it ends at once, at the cost of [`unmount_idle`].
pub fn unmount_lazily(path: &Path) -> io::Result<()> {
    Ok(unmount(
        path,
        UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    )?)
}

/// Makes the mount at `path`, one of [`Overlay::mount`], take changes or refuse them; EBUSY if a
/// file is open for writing. Other mounts of the same file system are not affected. One call.
pub fn set_read_only(path: &Path, read_only: bool) -> io::Result<()> {
    let mut flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, read_only);
    Ok(mount_remount(path, flags, c"")?)
}

/// Whether a process has a file open or its working directory in the mount at `path`. One call.
///
/// The kernel marks an unused mount as expired, and ends it at the second such call if it was not
/// accessed in between.
pub fn is_mount_used(path: &Path) -> io::Result<bool> {
    match unmount(path, UnmountFlags::NOFOLLOW | UnmountFlags::EXPIRE) {
        Err(Errno::BUSY) => Ok(true),
        Ok(()) | Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether an open directory is the root of a mount.
pub fn is_mount_point(dir: impl AsFd) -> io::Result<bool> {
    let answer = rustix::fs::statx(
        &dir,
        c"",
        AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT,
        StatxFlags::MNT_ID,
    )?;
    if answer
        .stx_attributes_mask
        .contains(StatxAttributes::MOUNT_ROOT)
    {
        return Ok(answer.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    }
    // Before Linux 5.8 the kernel does not say; a mount has another id than what it stands on.
    let above = rustix::fs::statx(&dir, c"..", AtFlags::NO_AUTOMOUNT, StatxFlags::MNT_ID)?;
    Ok((
        answer.stx_mnt_id,
        answer.stx_dev_major,
        answer.stx_dev_minor,
    ) != (above.stx_mnt_id, above.stx_dev_major, above.stx_dev_minor))
}

/// The number of the mount that an open file lies on, which no other mount gets before the next start of
/// the machine. None where the kernel has no such number (before Linux 6.8).
pub fn unique_mount_id(file: impl AsFd) -> Option<u64> {
    /// `STATX_MNT_ID_UNIQUE` of `linux/stat.h`.
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let answer = rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, UNIQUE).ok()?;
    let has_it = answer.stx_mask & UNIQUE.bits() != 0;
    has_it.then_some(answer.stx_mnt_id)
}

/// Whether an open directory lies on an overlay.
pub fn is_on_overlay(dir: impl AsFd) -> io::Result<bool> {
    #[allow(
        clippy::unnecessary_cast,
        reason = "the width of the field differs between architectures"
    )]
    Ok(rustix::fs::fstatfs(dir)?.f_type as i64 == OVERLAY_MAGIC)
}

/// Sets or clears the immutable flag of an open directory: with it, not even root makes or removes
/// a name there. A mount on top of it is not affected.
pub fn set_immutable(dir: impl AsFd, immutable: bool) -> io::Result<()> {
    let old = rustix::fs::ioctl_getflags(&dir)?;
    let mut new = old;
    new.set(IFlags::IMMUTABLE, immutable);
    if new != old {
        rustix::fs::ioctl_setflags(&dir, new)?;
    }
    Ok(())
}
