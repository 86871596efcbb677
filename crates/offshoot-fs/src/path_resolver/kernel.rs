//! Paths resolved by the kernel: `openat2` with `RESOLVE_BENEATH`.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use offshoot_sys::{FollowLinks, Stat};
use rustix::fs::OFlags;

#[cfg(target_os = "linux")]
pub(super) fn open(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    links: FollowLinks,
) -> io::Result<OwnedFd> {
    offshoot_sys::open_beneath(root, path, flags, links)
}

#[cfg(target_os = "linux")]
pub(super) fn stat_follow(root: BorrowedFd<'_>, path: &[u8]) -> io::Result<Stat> {
    offshoot_sys::fstat(open(root, path, OFlags::PATH, FollowLinks::Beneath)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open(
    _root: BorrowedFd<'_>,
    _path: &[u8],
    _flags: OFlags,
    _links: FollowLinks,
) -> io::Result<OwnedFd> {
    Err(rustix::io::Errno::NOSYS.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn stat_follow(_root: BorrowedFd<'_>, _path: &[u8]) -> io::Result<Stat> {
    Err(rustix::io::Errno::NOSYS.into())
}
