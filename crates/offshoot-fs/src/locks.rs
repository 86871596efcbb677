//! Locks on a workspace by name, for threads and processes alike.
//!
//! Each workspace has a readers-writer lock, the *main* lock: shared by most operations, exclusive
//! for those that need the workspace for themselves. Every operation first takes a second lock, the
//! *gate*, and holds it until it has the main lock. So an operation that waits for the exclusive
//! lock keeps newcomers out, and a stream of shared holders cannot starve it.
//!
//! `flock` has no time-out, so a lock file has to be polled. The threads of one process therefore
//! wait in a queue in memory, and only the first of them polls.
//!
//! A process may die while it holds the exclusive lock, in the midst of a change. The next
//! exclusive holder is told so ([`WorkspaceLock::abandoned_since`]) and repairs the workspace.
//!
//! The threads of one process that share a workspace also share one lock on its file. While it is
//! held, another thread joins it without a system call. Joining is possible for a few milliseconds
//! only; after that a thread has to pass the gate again, where an exclusive waiter may be first.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_sys::{ByteLock, ByteLockFile, FileLock, LockMode};

/// The least time that a call waits at the gate, even with a shorter time-out: other operations
/// pass it in microseconds, and that is no reason to call the workspace busy.
const GATE_GRACE: Duration = Duration::from_millis(5);

/// How long other threads may join a shared lock after its gate was passed. An exclusive waiter
/// waits longer by this much; it is the time of a few writes.
const JOIN_WINDOW: Duration = Duration::from_millis(2);

/// The file in which names are locked.
const NAMES: &str = "names";

/// The lock files of all workspaces, in one directory.
#[derive(Clone, Debug)]
pub struct WorkspaceLocks {
    dir: PathBuf,
    names: ByteLockFile,
    queues: Arc<WaitQueues>,
    shared_locks: Arc<SharedLocks>,
}

/// A held lock; dropping it releases it, and so does the end of the process.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct WorkspaceLock {
    // In this order: the file is released before the next thread in the queue goes on.
    held: Held,
    _queue: Option<QueueGuard>,
}

impl WorkspaceLock {
    /// The revision at which an earlier exclusive holder began that died, if no holder has called
    /// [`Self::set_repaired`] since: its changes from then on may be half done.
    pub fn abandoned_since(&self) -> Option<u64> {
        match self.held {
            Held::Exclusive {
                abandoned_since, ..
            } => abandoned_since,
            Held::Gate { .. } | Held::Shared { .. } => None,
        }
    }

    /// Says that the half-done change of a dead holder is repaired, and that this holder's changes
    /// begin after `revision`.
    pub fn set_repaired(&mut self, revision: u64) {
        if let Held::Exclusive {
            file,
            abandoned_since,
        } = &mut self.held
        {
            // If this fails, the next holder repairs more than it has to.
            let _ = file.set_unfinished(Some(revision));
            *abandoned_since = None;
        }
    }
}

impl Drop for WorkspaceLock {
    fn drop(&mut self) {
        if let Held::Exclusive {
            file,
            abandoned_since: None,
        } = &self.held
            && !std::thread::panicking()
        {
            // If this fails, the next holder looks for a half-done change and finds none.
            let _ = file.set_unfinished(None);
        }
    }
}

/// A held name.
#[derive(Debug)]
#[must_use = "the name is free when this is dropped"]
pub struct NameLock {
    // In this order: the byte is released before the next thread in the queue goes on.
    _held: ByteLock,
    _queue: QueueGuard,
}

/// The locks on files behind a [`WorkspaceLock`].
#[derive(Debug)]
enum Held {
    /// The gate, on the way to the main lock.
    Gate { _file: FileLock },
    /// The exclusive main lock. The file is marked as unfinished until the lock is released.
    Exclusive {
        file: FileLock,
        abandoned_since: Option<u64>,
    },
    /// The shared main lock, together with other threads of this process.
    Shared { _guard: SharedGuard },
}

impl WorkspaceLocks {
    /// Locks with their files in `dir`, a private directory, which is made if it is missing.
    pub fn new(dir: impl Into<PathBuf>) -> Result<WorkspaceLocks> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir).map_err(cannot_lock)?;
        let names = ByteLockFile::open(&dir.join(NAMES)).map_err(cannot_lock)?;
        Ok(WorkspaceLocks {
            dir,
            names,
            queues: Arc::default(),
            shared_locks: Arc::default(),
        })
    }

    /// Takes the shared lock of a workspace.
    pub fn shared(&self, name: &str, timeout: Duration) -> Result<WorkspaceLock> {
        let shared = self.shared_locks.get_or_insert(name);
        if let Some(guard) = SharedGuard::join(&self.shared_locks, name, &shared) {
            return Ok(guard.into_lock());
        }
        let guard = self.join_or_acquire(name, &shared, timeout);
        if guard.is_err() {
            self.shared_locks.remove_if_unused(name, &shared);
        }
        guard.map(SharedGuard::into_lock)
    }

    fn join_or_acquire(
        &self,
        name: &str,
        shared: &Arc<SharedLock>,
        timeout: Duration,
    ) -> Result<SharedGuard> {
        let (_gate, left) = self.gate(name, timeout)?;
        // Only the holder of the gate becomes the first holder, so no other thread can do so here.
        if let Some(guard) = SharedGuard::join_after_gate(&self.shared_locks, name, shared) {
            return Ok(guard);
        }
        let file = acquire(name, &self.file(name, "main")?, LockMode::Shared, left)?;
        Ok(SharedGuard::first(&self.shared_locks, name, shared, file))
    }

    /// Takes the exclusive lock. New holders of the shared lock wait until it is released.
    pub fn exclusive(&self, name: &str, timeout: Duration) -> Result<WorkspaceLock> {
        self.exclusive_at(name, timeout, || Ok(0))
    }

    /// Takes the exclusive lock of a workspace, for changes after the revision that `revision` gives once
    /// the lock is held. If this process dies meanwhile, the next holder learns that revision.
    pub fn exclusive_at(
        &self,
        name: &str,
        timeout: Duration,
        revision: impl FnOnce() -> Result<u64>,
    ) -> Result<WorkspaceLock> {
        let (gate, left) = self.gate(name, timeout)?;
        let file = acquire(name, &self.file(name, "main")?, LockMode::Exclusive, left)?;
        drop(gate);
        let abandoned_since = file.unfinished().map_err(cannot_lock)?;
        if abandoned_since.is_none() {
            // This may fail on a full disk, and freeing space must be possible there.
            let _ = file.set_unfinished(Some(revision()?));
        }
        let held = Held::Exclusive {
            file,
            abandoned_since,
        };
        Ok(WorkspaceLock { held, _queue: None })
    }

    /// Takes the exclusive lock of a name. It needs no file of its own: names come and go with
    /// every fork, and making and removing a file for each takes longer than the work under the
    /// lock.
    pub fn lock_name(&self, name: &str, timeout: Duration) -> Result<NameLock> {
        let deadline = Instant::now() + timeout;
        let place = self.dir.join(NAMES).join(name);
        let queued = QueueGuard::wait(&self.queues, &place, deadline).ok_or_else(|| busy(name))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let held = self.names.acquire(hash_name(name), left);
        Ok(NameLock {
            _held: held.map_err(cannot_lock)?.ok_or_else(|| busy(name))?,
            _queue: queued,
        })
    }

    /// Removes the lock files of a workspace that is gone. Waits for their holders.
    pub fn remove_files(&self, name: &str, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        // Both are held at once, and taken in the order in which every caller takes them. So no
        // caller has one of these files open and still relies on it.
        let mut held = Vec::new();
        for kind in ["gate", "main"] {
            let path = self.file(name, kind)?;
            let left = deadline.saturating_duration_since(Instant::now());
            held.push(acquire(name, &path, LockMode::Exclusive, left)?);
        }
        for lock in held.into_iter().rev() {
            lock.remove().map_err(cannot_lock)?;
        }
        // Earlier versions had a third lock file.
        let _ = std::fs::remove_file(self.file(name, "projection")?);
        Ok(())
    }

    /// Takes the gate. Also returns how much of the time is left for the main lock.
    fn gate(&self, name: &str, timeout: Duration) -> Result<(WorkspaceLock, Duration)> {
        let started = Instant::now();
        let timeout_at_gate = timeout.max(GATE_GRACE);
        let gate = self.acquire_exclusive(name, &self.file(name, "gate")?, timeout_at_gate)?;
        Ok((gate, timeout.saturating_sub(started.elapsed())))
    }

    /// Takes an exclusive lock: first among the threads of this process, then among processes.
    fn acquire_exclusive(
        &self,
        name: &str,
        path: &Path,
        timeout: Duration,
    ) -> Result<WorkspaceLock> {
        let deadline = Instant::now() + timeout;
        let queued = QueueGuard::wait(&self.queues, path, deadline).ok_or_else(|| busy(name))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let file = acquire(name, path, LockMode::Exclusive, left)?;
        Ok(WorkspaceLock {
            held: Held::Gate { _file: file },
            _queue: Some(queued),
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

/// The hash of a name (FNV-1a), which may not differ between versions of the program. Two names
/// with one hash merely exclude each other.
fn hash_name(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |number, byte| {
        (number ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
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

/// The shared locks of this process by the name of the workspace. A lock without holders or
/// joining threads has no entry.
#[derive(Debug, Default)]
struct SharedLocks(Mutex<HashMap<String, Arc<SharedLock>>>);

/// The shared lock of one workspace and the number of threads that hold it.
#[derive(Debug, Default)]
struct SharedLock {
    state: Mutex<SharedLockState>,
}

#[derive(Debug, Default)]
struct SharedLockState {
    holders: usize,
    /// The lock on the main file, while there are holders.
    main: Option<FileLock>,
    /// When a holder last passed the gate.
    gate_passed: Option<Instant>,
}

impl SharedLocks {
    fn get_or_insert(&self, name: &str) -> Arc<SharedLock> {
        let mut shared_locks = lock(&self.0);
        match shared_locks.get(name) {
            Some(shared) => shared.clone(),
            None => shared_locks.entry(name.to_owned()).or_default().clone(),
        }
    }

    /// Removes a shared lock that no thread holds or is about to join.
    fn remove_if_unused(&self, name: &str, shared: &Arc<SharedLock>) {
        let mut shared_locks = lock(&self.0);
        // One reference is the map's and one the caller's; any other thread that holds or joins
        // the lock has a third.
        if Arc::strong_count(shared) == 2 {
            shared_locks.remove(name);
        }
    }
}

/// A thread's hold on a shared lock; dropping the last one releases the lock.
#[derive(Debug)]
struct SharedGuard {
    shared_locks: Arc<SharedLocks>,
    name: String,
    shared: Arc<SharedLock>,
}

impl SharedGuard {
    /// Joins a held lock whose gate was passed within [`JOIN_WINDOW`].
    fn join(
        shared_locks: &Arc<SharedLocks>,
        name: &str,
        shared: &Arc<SharedLock>,
    ) -> Option<SharedGuard> {
        let mut state = lock(&shared.state);
        let fresh = state
            .gate_passed
            .is_some_and(|at| at.elapsed() < JOIN_WINDOW);
        if state.holders == 0 || !fresh {
            return None;
        }
        state.holders += 1;
        Some(SharedGuard::new(shared_locks, name, shared))
    }

    /// Joins a held lock, however old. The caller holds the gate.
    fn join_after_gate(
        shared_locks: &Arc<SharedLocks>,
        name: &str,
        shared: &Arc<SharedLock>,
    ) -> Option<SharedGuard> {
        let mut state = lock(&shared.state);
        if state.holders == 0 {
            return None;
        }
        state.holders += 1;
        state.gate_passed = Some(Instant::now());
        Some(SharedGuard::new(shared_locks, name, shared))
    }

    /// Becomes the first holder. The caller holds the gate and has locked the main file.
    fn first(
        shared_locks: &Arc<SharedLocks>,
        name: &str,
        shared: &Arc<SharedLock>,
        main: FileLock,
    ) -> SharedGuard {
        let mut state = lock(&shared.state);
        state.holders = 1;
        state.main = Some(main);
        state.gate_passed = Some(Instant::now());
        SharedGuard::new(shared_locks, name, shared)
    }

    fn new(shared_locks: &Arc<SharedLocks>, name: &str, shared: &Arc<SharedLock>) -> SharedGuard {
        SharedGuard {
            shared_locks: shared_locks.clone(),
            name: name.to_owned(),
            shared: shared.clone(),
        }
    }

    fn into_lock(self) -> WorkspaceLock {
        WorkspaceLock {
            held: Held::Shared { _guard: self },
            _queue: None,
        }
    }
}

impl Drop for SharedGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.holders -= 1;
        if state.holders > 0 {
            return;
        }
        // The lock files of a workspace without holders may be removed, so none may stay open.
        state.main.take();
        drop(state);
        self.shared_locks.remove_if_unused(&self.name, &self.shared);
    }
}

/// The queues of this process by lock file. A queue without threads has no entry.
#[derive(Debug, Default)]
struct WaitQueues(Mutex<HashMap<PathBuf, Arc<WaitQueue>>>);

/// The threads of this process that want one lock file: one holds it, the others wait.
#[derive(Debug, Default)]
struct WaitQueue {
    held: Mutex<bool>,
    /// Wakes one thread at a time: waking sixteen so that one can go on costs more than its work.
    freed: Condvar,
}

/// The front place of a queue; the next thread gets it when this is dropped.
#[derive(Debug)]
struct QueueGuard {
    queues: Arc<WaitQueues>,
    path: PathBuf,
    queue: Arc<WaitQueue>,
}

impl QueueGuard {
    /// Waits for the front place. None when the deadline passes first.
    fn wait(queues: &Arc<WaitQueues>, path: &Path, deadline: Instant) -> Option<QueueGuard> {
        let queue = Arc::clone(lock(&queues.0).entry(path.to_owned()).or_default());
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
        Some(QueueGuard {
            queues: Arc::clone(queues),
            path: path.to_owned(),
            queue,
        })
    }
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        *lock(&self.queue.held) = false;
        self.queue.freed.notify_one();
        let mut queues = lock(&self.queues.0);
        // One reference is the map's and one this guard's; a thread in the queue has a third, which
        // it took under the lock of the map.
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
