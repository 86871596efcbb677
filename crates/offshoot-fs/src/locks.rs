//! Locks on a workspace by name, for threads and processes alike.
//!
//! Readers share the main lock, an operation that needs the workspace for itself holds it alone.
//! Everybody passes a gate first, and holds it until the main lock is won: so whoever waits to be
//! alone stops newcomers, and a stream of readers cannot starve it. A third lock, the projection,
//! is held for the short time in which files are put in place.
//!
//! A lock on a file can only be asked for again and again by whoever does not want to wait for
//! ever. So the threads of one process queue in memory first, and only the first of them asks.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_sys::{FileLock, LockMode};

/// How long a projection may take; it is the work of milliseconds.
const PROJECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// How long even somebody in a hurry waits at the gate: others pass it in microseconds, and that
/// they do is no reason to call the workspace busy.
const GATE_GRACE: Duration = Duration::from_millis(5);

/// The lock files of all workspaces, in one directory.
#[derive(Clone, Debug)]
pub struct WorkspaceLocks {
    dir: PathBuf,
    turns: Arc<Turns>,
}

/// A held lock; dropping it releases it, and so does the end of the process.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct WorkspaceLock {
    // In this order: the file is released before the next thread of this process has its turn.
    _held: FileLock,
    _turn: Option<Turn>,
}

impl WorkspaceLocks {
    /// Locks with their files in `dir`, a private directory, which is made if it is missing.
    pub fn new(dir: impl Into<PathBuf>) -> Result<WorkspaceLocks> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir).map_err(cannot_lock)?;
        Ok(WorkspaceLocks {
            dir,
            turns: Arc::default(),
        })
    }

    /// Takes part in the workspace together with others.
    pub fn shared(&self, name: &str, timeout: Duration) -> Result<WorkspaceLock> {
        self.pass_gate(name, LockMode::Shared, timeout)
    }

    /// Takes the workspace alone. While it waits nobody else gets in.
    pub fn exclusive(&self, name: &str, timeout: Duration) -> Result<WorkspaceLock> {
        self.pass_gate(name, LockMode::Exclusive, timeout)
    }

    /// Takes the short lock for putting files in place.
    pub fn projection(&self, name: &str) -> Result<WorkspaceLock> {
        let path = self.file(name, "projection")?;
        self.alone(name, &path, PROJECTION_TIMEOUT)
    }

    /// Removes the lock files of a workspace that is gone. Waits for those who hold them.
    pub fn forget(&self, name: &str, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        for kind in ["projection", "main", "gate"] {
            let path = self.file(name, kind)?;
            let left = deadline.saturating_duration_since(Instant::now());
            acquire(name, &path, LockMode::Exclusive, left)?
                .remove()
                .map_err(cannot_lock)?;
        }
        Ok(())
    }

    fn pass_gate(&self, name: &str, mode: LockMode, timeout: Duration) -> Result<WorkspaceLock> {
        let started = Instant::now();
        let patience = timeout.max(GATE_GRACE);
        let gate = self.alone(name, &self.file(name, "gate")?, patience)?;
        let left = timeout.saturating_sub(started.elapsed());
        let held = acquire(name, &self.file(name, "main")?, mode, left)?;
        drop(gate);
        Ok(WorkspaceLock {
            _held: held,
            _turn: None,
        })
    }

    /// Takes a lock that only one may have: first among the threads here, then among processes.
    fn alone(&self, name: &str, path: &Path, timeout: Duration) -> Result<WorkspaceLock> {
        let deadline = Instant::now() + timeout;
        let turn = Turn::wait(&self.turns, path, deadline).ok_or_else(|| busy(name))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let held = acquire(name, path, LockMode::Exclusive, left)?;
        Ok(WorkspaceLock {
            _held: held,
            _turn: Some(turn),
        })
    }

    fn file(&self, name: &str, kind: &str) -> Result<PathBuf> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
        if name.is_empty() || name.len() > 128 || !name.bytes().all(fits) {
            return Err(Error::internal(
                "a lock needs the name of a workspace or project",
            ));
        }
        Ok(self.dir.join(format!("{name}.{kind}")))
    }
}

fn acquire(name: &str, path: &Path, mode: LockMode, timeout: Duration) -> Result<FileLock> {
    FileLock::acquire(path, mode, timeout)
        .map_err(cannot_lock)?
        .ok_or_else(|| busy(name))
}

fn busy(name: &str) -> Error {
    Error::new(
        ErrorCode::WorkspaceBusy,
        format!("`{name}` is held by another operation"),
    )
    .with_hint("wait until the other operation has ended and try again")
}

/// The queues of this process, by lock file; one that nobody stands in is not there.
#[derive(Debug, Default)]
struct Turns(Mutex<HashMap<PathBuf, Arc<Queue>>>);

/// The threads of this process that want one lock file: one holds it, the others wait.
#[derive(Debug, Default)]
struct Queue {
    held: Mutex<bool>,
    /// Wakes one at a time: to wake all of sixteen so that one can go on costs more than its work.
    freed: Condvar,
}

/// A thread's turn at a lock file; the next one has it when this is dropped.
#[derive(Debug)]
struct Turn {
    turns: Arc<Turns>,
    path: PathBuf,
    queue: Arc<Queue>,
}

impl Turn {
    /// Waits for the turn. None when the deadline passes first.
    fn wait(turns: &Arc<Turns>, path: &Path, deadline: Instant) -> Option<Turn> {
        let queue = Arc::clone(lock(&turns.0).entry(path.to_owned()).or_default());
        let mut held = lock(&queue.held);
        while *held {
            let left = deadline.checked_duration_since(Instant::now())?;
            (held, _) = queue
                .freed
                .wait_timeout(held, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *held = true;
        drop(held);
        Some(Turn {
            turns: Arc::clone(turns),
            path: path.to_owned(),
            queue,
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&self.queue.held) = false;
        self.queue.freed.notify_one();
        let mut queues = lock(&self.turns.0);
        // The map and this turn: whoever else wants it has taken its share under the same lock.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.path);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cannot_lock(error: io::Error) -> Error {
    Error::internal("a lock file could not be used")
        .with_hint("check that the data directory can be written")
        .with_source(error)
}
