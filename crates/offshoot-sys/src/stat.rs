//! The result of `stat` as a plain struct.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::AsFd;

use offshoot_core::{EntryKind, Timestamp};
use rustix::fs::{AtFlags, FileType};

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A directory.
    Dir,
    /// Something that a workspace does not hold.
    Other(Special),
}

/// The kinds of things that a workspace does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Special {
    /// A named pipe; opening one can hang.
    Fifo,
    /// A socket.
    Socket,
    /// A character device; one with number 0:0 is a whiteout in the upper of an overlay.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// Anything else that some Unix has.
    Unknown,
}

impl FileKind {
    pub(crate) fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => FileKind::File,
            FileType::Symlink => FileKind::Symlink,
            FileType::Directory => FileKind::Dir,
            FileType::Fifo => FileKind::Other(Special::Fifo),
            FileType::Socket => FileKind::Other(Special::Socket),
            FileType::CharacterDevice => FileKind::Other(Special::CharDevice),
            FileType::BlockDevice => FileKind::Other(Special::BlockDevice),
            FileType::Unknown => FileKind::Other(Special::Unknown),
        }
    }

    /// The kind of entry, if it is one that a workspace holds.
    pub fn entry_kind(self) -> Option<EntryKind> {
        match self {
            FileKind::File => Some(EntryKind::File),
            FileKind::Symlink => Some(EntryKind::Symlink),
            FileKind::Dir => Some(EntryKind::Dir),
            FileKind::Other(_) => None,
        }
    }
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Special::Fifo => "FIFO",
            Special::Socket => "socket",
            Special::CharDevice => "character device",
            Special::BlockDevice => "block device",
            Special::Unknown => "special file",
        })
    }
}

/// The result of a `stat` call; times in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits with set-id and sticky bits: `mode & 0o7777`.
    pub perm: u32,
    /// Bytes of content; of a link, the length of its target.
    pub size: u64,
    /// When the content last changed. Any program may set it.
    pub mtime_ns: i128,
    /// When content or metadata last changed. Only the kernel sets it.
    pub ctime_ns: i128,
    /// The inode number.
    pub ino: u64,
    /// The device of the file system.
    pub dev: u64,
    /// The number of names.
    pub nlink: u64,
    /// Disk usage in units of 512 bytes.
    pub blocks: u64,
    /// The device that a device node stands for.
    pub rdev: u64,
}

impl Stat {
    /// The kind of entry, if it is one that a workspace holds.
    pub fn entry_kind(&self) -> Option<EntryKind> {
        self.kind.entry_kind()
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Dir
    }

    /// Whether it is a whiteout of an overlay: a character device with the number 0:0. Overlays
    /// make all of theirs as links of one file, so the inode and the number of names say nothing.
    pub fn is_whiteout(&self) -> bool {
        self.kind == FileKind::Other(Special::CharDevice) && self.rdev == 0
    }

    /// When the content last changed.
    pub fn modified(&self) -> Timestamp {
        Timestamp(i64::try_from(self.mtime_ns.div_euclid(1_000)).unwrap_or(i64::MAX))
    }

    /// Bytes on disk, which differ from the size for sparse and compressed files.
    pub fn disk_usage(&self) -> u64 {
        self.blocks * 512
    }
}

/// The fields differ in width between architectures and systems, so each cast is a no-op somewhere.
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the width of the fields differs between systems"
)]
fn plain(raw: &rustix::fs::Stat) -> Stat {
    let nanoseconds =
        |seconds: i64, part: i64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
    Stat {
        kind: FileKind::of(FileType::from_raw_mode(raw.st_mode as _)),
        perm: raw.st_mode as u32 & 0o7777,
        size: raw.st_size as u64,
        mtime_ns: nanoseconds(raw.st_mtime as i64, raw.st_mtime_nsec as i64),
        ctime_ns: nanoseconds(raw.st_ctime as i64, raw.st_ctime_nsec as i64),
        ino: raw.st_ino as u64,
        dev: raw.st_dev as u64,
        nlink: raw.st_nlink as u64,
        blocks: raw.st_blocks as u64,
        rdev: raw.st_rdev as u64,
    }
}

/// `fstat`: what an open file is.
pub fn fstat(fd: impl AsFd) -> io::Result<Stat> {
    Ok(plain(&rustix::fs::fstat(fd)?))
}

/// `fstatat` without following a link: what one name in an open directory is.
pub fn lstat_at(dir: impl AsFd, name: &CStr) -> io::Result<Stat> {
    Ok(plain(&rustix::fs::statat(
        dir,
        name,
        AtFlags::SYMLINK_NOFOLLOW,
    )?))
}
