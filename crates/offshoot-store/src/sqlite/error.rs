//! Turns SQLite's errors into ours, by what the caller can do about them.

use offshoot_core::{Error, ErrorCode, Result};
use rusqlite::ErrorCode as Sqlite;

/// Gives every `rusqlite::Result` a short way into [`Result`].
pub(super) trait SqlResult<T> {
    /// The value, or the error in our words.
    fn sql(self) -> Result<T>;
}

impl<T> SqlResult<T> for rusqlite::Result<T> {
    fn sql(self) -> Result<T> {
        self.map_err(translate)
    }
}

fn translate(error: rusqlite::Error) -> Error {
    let (code, message, hint) = match error.sqlite_error_code() {
        Some(Sqlite::DatabaseBusy | Sqlite::DatabaseLocked) => (
            ErrorCode::StoreUnavailable,
            "the store is locked by another program",
            Some("nothing was changed; try again"),
        ),
        Some(Sqlite::DiskFull) => (
            ErrorCode::StoreUnavailable,
            "the disk of the store is full",
            Some("nothing was changed; free some space and try again"),
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
