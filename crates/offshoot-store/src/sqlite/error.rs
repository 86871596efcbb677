//! Turns SQLite's errors into ours, by what the caller can do about them.

use std::io::{self, Write};
use std::path::Path;

use offshoot_core::{Error, ErrorCode, Result};
use rusqlite::ErrorCode as Sqlite;

/// Gives every `rusqlite::Result` a short way into [`Result`].
pub(super) trait SqlResult<T> {
    /// The value, or the error as an [`Error`].
    fn sql(self) -> Result<T>;
}

impl<T> SqlResult<T> for rusqlite::Result<T> {
    fn sql(self) -> Result<T> {
        self.map_err(translate)
    }
}

/// Says of an I/O error of SQLite whether it is that of a full disk.
///
/// SQLite distinguishes a full disk from other errors only where it writes to a file, and for a
/// full quota not even there: the file that its processes share, a sync and a new file fail with an
/// I/O error without its cause. So a page is written beside the database to find out.
pub(super) fn name_full_disk(error: Error, database: &Path) -> Error {
    let failed = std::error::Error::source(&error)
        .and_then(|source| source.downcast_ref::<rusqlite::Error>())
        .and_then(rusqlite::Error::sqlite_error_code);
    match failed {
        Some(Sqlite::SystemIoFailure | Sqlite::CannotOpen) => match write_beside(database) {
            Err(cause) if is_full(&cause) => error.with_source(cause),
            _ => error,
        },
        _ => error,
    }
}

fn is_full(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn write_beside(database: &Path) -> io::Result<()> {
    // As much as SQLite asks for at once where it does not say what went wrong.
    const PROBE: usize = 64 << 10;
    let dir = database.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut probe = tempfile::tempfile_in(dir.unwrap_or(Path::new(".")))?;
    probe.write_all(&vec![1; PROBE])?;
    probe.sync_all()
}

fn translate(error: rusqlite::Error) -> Error {
    if error.sqlite_error_code() == Some(Sqlite::DiskFull) {
        return Error::disk_full("the store cannot be written").with_source(error);
    }
    let (code, message, hint) = match error.sqlite_error_code() {
        Some(Sqlite::DatabaseBusy | Sqlite::DatabaseLocked) => (
            ErrorCode::StoreUnavailable,
            "the store is locked by another program",
            Some("nothing was changed; try again"),
        ),
        Some(
            Sqlite::SystemIoFailure
            | Sqlite::CannotOpen
            | Sqlite::ReadOnly
            | Sqlite::PermissionDenied
            | Sqlite::OutOfMemory,
        ) => (
            ErrorCode::StoreUnavailable,
            "the store cannot be read or written",
            Some("the log of the server has the system's own words"),
        ),
        Some(Sqlite::DatabaseCorrupt | Sqlite::NotADatabase) => (
            ErrorCode::Internal,
            "the database of the store is damaged",
            Some("stop all programs that use it and bring a backup back"),
        ),
        _ => (ErrorCode::Internal, "the store refused a statement", None),
    };
    let translated = Error::new(code, message).with_source(error);
    match hint {
        Some(hint) => translated.with_hint(hint),
        None => translated,
    }
}
