//! What a system error means to a caller: one table from errno to error code.
//!
//! Messages name the path inside the workspace and nothing else; the system's own words stay in
//! the source, which is logged and never shown.

use std::io;

use offshoot_core::{Error, ErrorCode, RelPath};
use offshoot_sys::{FileKind, Special};
use rustix::io::Errno;

/// The error of a failed read at `path`.
pub fn read_error(path: &RelPath, error: io::Error) -> Error {
    describe(path, error, ErrorCode::ReadFailed)
}

/// The error of a failed change at `path`; what stood there is intact.
pub fn write_error(path: &RelPath, error: io::Error) -> Error {
    describe(path, error, ErrorCode::WriteFailed)
}

/// The error of a path that could not be resolved.
pub(crate) fn lookup_error(path: &RelPath, error: io::Error) -> Error {
    // Only the resolver returns EXDEV for an escape; from a rename it means another file system.
    if is(&error, Errno::XDEV) {
        return Error::new(
            ErrorCode::PathTraversalBlocked,
            format!("the path `{path}` is refused: a link on it leaves the workspace"),
        )
        .with_hint("links may only lead to places inside the workspace, by a relative target")
        .with_source(error);
    }
    read_error(path, error)
}

/// The error of a thing that workspaces do not hold.
pub(crate) fn special_error(path: &RelPath, special: Special) -> Error {
    Error::invalid(format!(
        "`{path}` is a {special}, which cannot be read or written here"
    ))
    .with_hint("use regular files, directories and links")
}

/// Refuses what is not a regular file.
pub(crate) fn require_file(path: &RelPath, kind: FileKind) -> Result<(), Error> {
    match kind {
        FileKind::File => Ok(()),
        FileKind::Dir => Err(Error::new(
            ErrorCode::IsADirectory,
            format!("`{path}` is a directory"),
        )),
        FileKind::Symlink => Err(Error::invalid(format!("`{path}` is a link"))),
        FileKind::Other(special) => Err(special_error(path, special)),
    }
}

/// Whether it is this system error.
pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn describe(path: &RelPath, error: io::Error, otherwise: ErrorCode) -> Error {
    // Content that comes from a stream may know better what is wrong with it.
    let error = match error.downcast::<Error>() {
        Ok(known) => return known,
        Err(error) => error,
    };
    let verb = if otherwise == ErrorCode::ReadFailed {
        "read"
    } else {
        "written"
    };
    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let described = match errno {
        Errno::NOENT => Error::new(ErrorCode::FileNotFound, format!("`{path}` does not exist")),
        Errno::NOTDIR => Error::new(
            ErrorCode::NotADirectory,
            format!("`{path}`, or a part of the path above it, is not a directory"),
        ),
        Errno::ISDIR => Error::new(ErrorCode::IsADirectory, format!("`{path}` is a directory")),
        Errno::EXIST => Error::new(ErrorCode::AlreadyExists, format!("`{path}` exists already")),
        Errno::NOTEMPTY => Error::new(
            ErrorCode::AlreadyExists,
            format!("the directory `{path}` is not empty"),
        )
        .with_hint("remove what is in it first"),
        Errno::LOOP => Error::invalid(format!("`{path}` leads through too many links"))
            .with_hint("a link probably leads to itself"),
        Errno::AGAIN => Error::new(
            ErrorCode::Timeout,
            format!("`{path}` could not be found while directories are being moved about"),
        )
        .with_hint("try again"),
        Errno::NXIO | Errno::NODEV => special_error(path, Special::Unknown),
        Errno::NAMETOOLONG => Error::invalid(format!("the path `{path}` is too long")),
        Errno::XDEV => Error::new(
            ErrorCode::Unsupported,
            format!("`{path}` cannot be moved there: the place is on another file system"),
        )
        .with_hint("copy it and remove the original"),
        Errno::ACCESS | Errno::PERM => Error::new(
            ErrorCode::PermissionDenied,
            format!("`{path}` may not be {verb}"),
        )
        .with_hint("its permission bits, or those of a directory above it, forbid it"),
        Errno::ROFS => Error::new(
            ErrorCode::PermissionDenied,
            format!("`{path}` may not be written: the place is read-only"),
        ),
        Errno::NOSPC | Errno::DQUOT => Error::new(
            ErrorCode::QuotaExceeded,
            format!("`{path}` was not written: there is no space left; what was there is intact"),
        )
        .with_hint("free space on the disk, or raise the quota, and try again"),
        Errno::MFILE | Errno::NFILE => Error::new(
            otherwise,
            format!("`{path}` could not be {verb}: too many open files"),
        )
        .with_hint("raise the limit of open files (`ulimit -n`)"),
        _ => Error::new(otherwise, format!("`{path}` could not be {verb}")),
    };
    described.with_source(error)
}
