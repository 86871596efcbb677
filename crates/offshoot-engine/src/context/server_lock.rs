//! The lock that allows one server per data directory.

use std::fs::{File, TryLockError};

use offshoot_core::{Error, ErrorCode, Result};

use crate::context::Context;
use crate::context::data_dir::DataDir;

/// Held by the one server of a data directory while it runs.
#[derive(Debug)]
pub struct ServerLock {
    _held: File,
}

impl Context {
    /// Takes the lock of the server; `workspace_busy` if another process has it.
    pub fn lock_for_server(&self) -> Result<ServerLock> {
        lock_server_of(&self.data)
    }
}

/// Takes the lock of the server of a data directory that is not opened.
pub(crate) fn lock_server_of(data: &DataDir) -> Result<ServerLock> {
    // The file is always empty, so creating it again loses nothing.
    let held = offshoot_sys::create_private(&data.server_lock()).map_err(cannot_lock)?;
    match held.try_lock() {
        Ok(()) => Ok(ServerLock { _held: held }),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            ErrorCode::WorkspaceBusy,
            "another server runs on this data directory",
        )
        .with_hint("use that one, stop it, or choose another directory with `--data DIR`")),
        Err(TryLockError::Error(cause)) => Err(cannot_lock(cause)),
    }
}

fn cannot_lock(cause: std::io::Error) -> Error {
    Error::new(
        ErrorCode::StoreUnavailable,
        "the data directory cannot be locked",
    )
    .with_source(cause)
}
