//! The two ways of resolving a path beneath a directory: by the kernel, or part by part.

mod kernel;
mod portable;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use offshoot_sys::{Links, Stat};
use rustix::fs::OFlags;

/// How a [`crate::SafeDir`] resolves paths. Both forms behave alike and pass the same tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One `openat2` call per path; Linux 5.6 and later.
    Kernel,
    /// One `openat` call per part of the path, links resolved by hand; every Unix.
    Portable,
}

impl Form {
    /// The better form that this machine has.
    pub fn best() -> Form {
        if offshoot_sys::has_open_beneath() {
            Form::Kernel
        } else {
            Form::Portable
        }
    }

    /// Opens `path` beneath `root`. EXDEV means that a link leaves.
    pub(crate) fn open(
        self,
        root: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
        links: Links,
    ) -> io::Result<OwnedFd> {
        match self {
            Form::Kernel => kernel::open(root, path, flags, links),
            Form::Portable => portable::open(root, path, flags, links),
        }
    }

    /// What `path` beneath `root` leads to, without opening it.
    pub(crate) fn stat_follow(self, root: BorrowedFd<'_>, path: &[u8]) -> io::Result<Stat> {
        match self {
            Form::Kernel => kernel::stat_follow(root, path),
            Form::Portable => portable::stat_follow(root, path),
        }
    }
}
