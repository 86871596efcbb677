//! Opening a path so that no part of it, and no race on the way, leads out of a directory.

#[cfg(target_os = "linux")]
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
#[cfg(target_os = "linux")]
use rustix::fs::{Mode, ResolveFlags};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

/// Flags for a directory that is only used as the start of other calls.
///
/// `O_PATH` needs no read permission and touches nothing; where it is missing a directory opened
/// for reading serves as well.
#[cfg(target_os = "linux")]
pub const DIR_HANDLE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags for a directory that is only used as the start of other calls.
#[cfg(not(target_os = "linux"))]
pub const DIR_HANDLE: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// How often a lookup that raced with a rename is tried again.
///
/// The kernel answers EAGAIN when a rename happened anywhere while it walked a `..`; a storm of
/// renames can make several tries in a row fail, and 128 is what other careful callers use.
#[cfg(target_os = "linux")]
const RACE_RETRIES: usize = 128;

/// Which symbolic links a lookup follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowLinks {
    /// Links whose target stays beneath the directory.
    Beneath,
    /// None, not even on the way.
    Never,
}

/// `openat2` with `RESOLVE_BENEATH`: opens `path` only if all of it lies beneath `dir`.
///
/// A link that leaves answers EXDEV. Absolute links leave by definition.
#[cfg(target_os = "linux")]
pub fn open_beneath(
    dir: impl AsFd,
    path: &[u8],
    flags: OFlags,
    links: FollowLinks,
) -> io::Result<OwnedFd> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == FollowLinks::Never {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    let path = if path.is_empty() { b"." } else { path };
    let dir = dir.as_fd();
    for _ in 0..RACE_RETRIES {
        match rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
            answer => return Ok(answer?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// Whether this kernel has `openat2` and lets us call it; asked once per process.
pub fn has_open_beneath() -> bool {
    #[cfg(target_os = "linux")]
    {
        static AVAILABLE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *AVAILABLE.get_or_init(|| {
            // Old kernels answer ENOSYS and old seccomp profiles EPERM: either way it is no use.
            rustix::fs::open("/", DIR_HANDLE, Mode::empty()).is_ok_and(|root| {
                open_beneath(root, b".", DIR_HANDLE, FollowLinks::Beneath).is_ok()
            })
        })
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}
