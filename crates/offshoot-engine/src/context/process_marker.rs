//! Marker files of running processes, by which the next process sees that one was killed.
//!
//! Each engine keeps a locked file in `run/` while it runs and removes it when it ends. A file
//! that no process has locked belongs to a process that was killed. A power cut also shows in the
//! boot id, which is kept in the store (see `recovery`).

use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use offshoot_core::{Error, ErrorCode, Result};

/// What a marker says behind its mount once its process asked for a look at every directory.
const UNWRITTEN: &str = " unwritten";

/// What a start has to look at after a process that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeadProcess {
    /// Nothing but what the locks of workspaces say: the kernel has all that was written.
    LeftLocks,
    /// Every directory that may lack changes: the process could not write some, and does not hold their
    /// locks any more. That is also assumed where the kernel does not tell mounts apart.
    LeftUnwritten,
    /// Every directory that may lack changes, and the content of each file: the file system was mounted
    /// anew, or the marker itself lost its content, so the file system may have been cut off.
    WasCutOff,
}

/// The prefix of a marker's name until the marker is locked. Its process has changed nothing yet.
const UNLOCKED_PREFIX: &str = "new-";

/// The marker of this process.
pub(crate) struct ProcessMarker {
    path: PathBuf,
    held: File,
    mount: Option<u64>,
}

impl ProcessMarker {
    /// Creates the marker. `mount` is the number of the mount, if not as this process sees it. Also returns the markers of processes that were killed; the caller
    /// removes them after recovery.
    pub(crate) fn create(dir: &Path, mount: Option<u64>) -> Result<(ProcessMarker, Vec<PathBuf>)> {
        let set = || -> std::io::Result<(ProcessMarker, Vec<PathBuf>)> {
            let unclean = markers_of_dead_processes(dir)?;
            // The marker gets its final name after it is locked. Between its creation and its lock
            // another process would take it for the marker of a dead one and remove it.
            let name = uuid::Uuid::now_v7().simple().to_string();
            let unlocked = dir.join(format!("{UNLOCKED_PREFIX}{name}"));
            let mut held = offshoot_sys::create_private(&unlocked)?;
            held.lock()?;
            if let Some(text) = mount_of(&held, mount) {
                held.write_all(text.as_bytes())?;
            }
            let path = dir.join(name);
            std::fs::rename(unlocked, &path)?;
            Ok((ProcessMarker { path, held, mount }, unclean))
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

    /// Lets the next start look at every directory that may lack changes, because this process could not
    /// write some and does not hold their locks any more.
    pub(crate) fn ask_for_full_recovery(&self) {
        let Some(mount) = mount_of(&self.held, self.mount) else {
            return;
        };
        let says = format!("{mount}{UNWRITTEN}");
        if self.held.write_all_at(says.as_bytes(), 0).is_err() {
            // Emptying needs no space on a full disk, and asks for more than is needed.
            let _ = self.held.set_len(0);
        }
    }

    /// Removes the marker, because this process ends without anything to recover.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What the marker of a dead process says.
pub(crate) fn left_by_process(marker: &Path, mount: Option<u64>) -> DeadProcess {
    let Ok(mut file) = File::open(marker) else {
        // Another start has done all there was to do.
        return DeadProcess::LeftLocks;
    };
    let Some(mount) = mount_of(&file, mount) else {
        return DeadProcess::LeftUnwritten;
    };
    let mut text = String::new();
    if file.read_to_string(&mut text).is_err() {
        return DeadProcess::WasCutOff;
    }
    match text.strip_prefix(&mount) {
        Some("") => DeadProcess::LeftLocks,
        Some(UNWRITTEN) => DeadProcess::LeftUnwritten,
        _ => DeadProcess::WasCutOff,
    }
}

/// What tells the mount that a file lies on from all others since the start of the machine.
fn mount_of(file: &File, known: Option<u64>) -> Option<String> {
    #[cfg(target_os = "linux")]
    let seen = offshoot_sys::unique_mount_id(file);
    #[cfg(not(target_os = "linux"))]
    let seen = {
        let _ = file;
        None
    };
    known.or(seen).map(|number| number.to_string())
}

/// Whether a process has the data directory open right now.
pub(crate) fn has_running_process(dir: &Path) -> std::io::Result<bool> {
    if !dir.is_dir() {
        return Ok(false);
    }
    for entry in std::fs::read_dir(dir)? {
        // A process that ends removes its marker at any time.
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

fn markers_of_dead_processes(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut dead = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(UNLOCKED_PREFIX.as_bytes())
        {
            continue;
        }
        let path = entry.path();
        // A process that ends removes its marker at any time.
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
