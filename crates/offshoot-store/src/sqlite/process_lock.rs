//! The lock file at which the writers of several processes queue instead of polling SQLite.
//!
//! The process that holds it may be stopped, so waiting needs a deadline. The kernel has no
//! time-out for file locks, and polling would lose against processes that wait in the kernel. So a
//! thread waits in the kernel, and the writer waits for that thread until its deadline.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use offshoot_core::{Error, ErrorCode, Result};

/// The lock of one store. It is taken by one thread at a time.
pub(super) struct ProcessLock(Arc<Shared>);

struct Shared {
    file: File,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    /// Whether a writer still waits for the thread that waits in the kernel.
    wanted: bool,
}

enum Phase {
    Free,
    /// A thread waits in the kernel.
    Waiting,
    Held,
    Failed(std::io::Error),
}

impl ProcessLock {
    /// Opens `DATABASE-write.lock`.
    pub(super) fn open(database: &Path) -> Result<Self> {
        let mut name = database.as_os_str().to_owned();
        name.push("-write.lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(name)
            .map_err(lock_failed)?;
        Ok(ProcessLock(Arc::new(Shared {
            file,
            state: Mutex::new(State {
                phase: Phase::Free,
                wanted: false,
            }),
            changed: Condvar::new(),
        })))
    }

    /// Waits for the lock; `store_unavailable` if it was held until the deadline.
    pub(super) fn acquire(&self, deadline: Instant) -> Result<()> {
        let mut state = self.0.lock();
        if matches!(state.phase, Phase::Free) {
            match self.0.file.try_lock() {
                Ok(()) => {
                    state.phase = Phase::Held;
                    return Ok(());
                }
                Err(TryLockError::WouldBlock) => {
                    let shared = self.0.clone();
                    std::thread::Builder::new()
                        .name("offshoot-store-lock".into())
                        .spawn(move || shared.wait_in_kernel())
                        .map_err(lock_failed)?;
                    state.phase = Phase::Waiting;
                }
                Err(TryLockError::Error(error)) => return Err(lock_failed(error)),
            }
        }
        // If an earlier writer gave up, its thread still waits in the kernel, now for this one.
        state.wanted = true;
        while matches!(state.phase, Phase::Waiting) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.wanted = false;
                return Err(held_too_long());
            }
            let woken = self.0.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.wanted = false;
        match std::mem::replace(&mut state.phase, Phase::Held) {
            Phase::Failed(error) => {
                state.phase = Phase::Free;
                Err(lock_failed(error))
            }
            _ => Ok(()),
        }
    }

    /// Lets the next process in. Failing is not possible for a lock that is held.
    pub(super) fn release(&self) {
        let mut state = self.0.lock();
        let _ = self.0.file.unlock();
        state.phase = Phase::Free;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits in the kernel without a limit. Releases the lock at once if no writer wants it by
    /// then.
    fn wait_in_kernel(&self) {
        let locked = loop {
            match self.file.lock() {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                locked => break locked,
            }
        };
        let mut state = self.lock();
        state.phase = match (locked, state.wanted) {
            (Ok(()), true) => Phase::Held,
            (Ok(()), false) => {
                let _ = self.file.unlock();
                Phase::Free
            }
            (Err(error), true) => Phase::Failed(error),
            (Err(_), false) => Phase::Free,
        };
        drop(state);
        self.changed.notify_all();
    }
}

fn held_too_long() -> Error {
    Error::new(
        ErrorCode::StoreUnavailable,
        "another process writes to the store and does not let go",
    )
    .with_hint("nothing was changed; try again, and look for a process that hangs or was stopped")
}

fn lock_failed(error: std::io::Error) -> Error {
    Error::new(
        ErrorCode::StoreUnavailable,
        "the store cannot be locked for writing",
    )
    .with_hint("check that the data directory exists and is writable")
    .with_source(error)
}
