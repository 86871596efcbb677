//! The two ways of resolving a path beneath a directory: by the kernel, or part by part.

mod kernel;
mod portable;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use offshoot_sys::{FollowLinks, Stat};
use rustix::fs::OFlags;

/// How a [`crate::SafeDir`] resolves paths. Both resolvers behave alike and pass the same tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathResolver {
    /// One `openat2` call per path; Linux 5.6 and later.
    Kernel,
    /// One `openat` call per part of the path, links resolved by hand; every Unix.
    Portable,
}

impl PathResolver {
    /// The better resolver that this machine has.
    pub fn best() -> PathResolver {
        if offshoot_sys::has_open_beneath() {
            PathResolver::Kernel
        } else {
            PathResolver::Portable
        }
    }

    /// Opens `path` beneath `root`. EXDEV means that a link leaves.
    pub(crate) fn open(
        self,
        root: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
        links: FollowLinks,
    ) -> io::Result<OwnedFd> {
        match self {
            PathResolver::Kernel => kernel::open(root, path, flags, links),
            PathResolver::Portable => portable::open(root, path, flags, links),
        }
    }

    /// What `path` beneath `root` leads to, without opening it.
    pub(crate) fn stat_follow(self, root: BorrowedFd<'_>, path: &[u8]) -> io::Result<Stat> {
        match self {
            PathResolver::Kernel => kernel::stat_follow(root, path),
            PathResolver::Portable => portable::stat_follow(root, path),
        }
    }
}
