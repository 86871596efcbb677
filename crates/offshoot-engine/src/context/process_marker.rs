//! Marks of running processes, by which the next one sees that one of them did not end well.
//!
//! Each engine keeps a locked file in `run/` while it lives and removes it when it ends. A file
//! that nobody holds any more belongs to a process that was killed. A power cut also shows in the
//! boot id, which is kept in the store (see `recovery`).

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use offshoot_core::{Error, ErrorCode, Result};

/// How a mark is named until it is locked. Its process has changed nothing yet.
const UNBORN: &str = "new-";

/// The mark of this process.
pub(crate) struct RunMark {
    path: PathBuf,
    _held: File,
}

impl RunMark {
    /// Sets the mark. Returns also the marks of processes that did not end well; the caller
    /// removes them once everything is put right.
    pub(crate) fn begin(dir: &Path) -> Result<(RunMark, Vec<PathBuf>)> {
        let set = || -> std::io::Result<(RunMark, Vec<PathBuf>)> {
            let unclean = dead_marks(dir)?;
            // The mark gets its name when it is locked: between its creation and its lock it would
            // look like that of a dead process, and whoever looked then would remove it.
            let name = uuid::Uuid::now_v7().simple().to_string();
            let unborn = dir.join(format!("{UNBORN}{name}"));
            let held = offshoot_sys::create_private(&unborn)?;
            held.lock()?;
            let path = dir.join(name);
            std::fs::rename(unborn, &path)?;
            Ok((RunMark { path, _held: held }, unclean))
        };
        set().map_err(|cause| {
            Error::new(
                ErrorCode::StoreUnavailable,
                "the data directory cannot be written",
            )
            .with_hint("check its owner and free space")
            .with_source(cause)
        })
    }

    /// Removes the mark: this process ends well.
    pub(crate) fn end(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether a process has the data directory open right now.
pub(crate) fn has_living(dir: &Path) -> std::io::Result<bool> {
    if !dir.is_dir() {
        return Ok(false);
    }
    for entry in std::fs::read_dir(dir)? {
        // It may go away at any time: then its process has ended.
        let Ok(file) = File::open(entry?.path()) else {
            continue;
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(true),
            Err(TryLockError::Error(cause)) => return Err(cause),
        }
    }
    Ok(false)
}

fn dead_marks(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut dead = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(UNBORN.as_bytes())
        {
            continue;
        }
        let path = entry.path();
        // It may go away at any time: then its process ended well.
        let Ok(file) = File::open(&path) else {
            continue;
        };
        match file.try_lock() {
            Ok(()) => dead.push(path),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(cause)) => return Err(cause),
        }
    }
    Ok(dead)
}
