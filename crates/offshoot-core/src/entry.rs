//! What can stand at a path, and how git writes it.

use serde::{Deserialize, Serialize};

/// Permission bits of an ordinary file.
pub const PLAIN_FILE_PERM: u32 = 0o644;
/// Permission bits of an executable file.
pub const EXEC_FILE_PERM: u32 = 0o755;
/// Permission bits of an ordinary directory.
pub const DEFAULT_DIR_PERM: u32 = 0o755;

/// The kinds of things that a workspace holds; FIFOs, sockets and devices are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A symbolic link; its content is its target.
    Symlink,
    /// A directory.
    Dir,
}

/// The mode that a git tree gives to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum GitMode {
    /// `40000`: a subtree.
    Dir = 0o040_000,
    /// `100644`: a file.
    File = 0o100_644,
    /// `100755`: an executable file.
    Exec = 0o100_755,
    /// `120000`: a symbolic link.
    Symlink = 0o120_000,
    /// `160000`: a commit of another repository (a submodule), kept as it is.
    Commit = 0o160_000,
}

impl GitMode {
    /// The mode that git gives to an entry with these permission bits.
    pub fn of(kind: EntryKind, perm: u32) -> Self {
        match kind {
            EntryKind::Dir => GitMode::Dir,
            EntryKind::Symlink => GitMode::Symlink,
            EntryKind::File if perm & 0o100 != 0 => GitMode::Exec,
            EntryKind::File => GitMode::File,
        }
    }

    /// The kind of entry; a submodule counts as a directory, except in git.
    pub fn kind(self) -> EntryKind {
        match self {
            GitMode::Dir | GitMode::Commit => EntryKind::Dir,
            GitMode::File | GitMode::Exec => EntryKind::File,
            GitMode::Symlink => EntryKind::Symlink,
        }
    }

    /// The permission bits that an entry of this mode gets on disk.
    pub fn perm(self) -> u32 {
        match self {
            GitMode::Dir | GitMode::Commit => DEFAULT_DIR_PERM,
            GitMode::File => PLAIN_FILE_PERM,
            GitMode::Exec => EXEC_FILE_PERM,
            GitMode::Symlink => 0o777,
        }
    }
}
