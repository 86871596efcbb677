//! Locks on a workspace by name, for threads and processes alike.
//!
//! Readers share the main lock, an operation that needs the workspace for itself holds it alone.
//! Everybody passes a gate first, and holds it until the main lock is won: so whoever waits to be
//! alone stops newcomers, and a stream of readers cannot starve it.
//!
//! A lock on a file can only be asked for again and again by whoever does not want to wait for
//! ever. So the threads of one process queue in memory first, and only the first of them asks.
//!
//! A holder who is alone may die in the midst of a change. The next one who is alone learns that
//! from the lock ([`WorkspaceLock::is_abandoned`]) and puts it right.
//!
//! The threads of one process that share a workspace share one lock on its file as well. Whoever
//! comes while it is held joins without a call of the system, but not for long: after a moment
//! the next one passes the gate again, where somebody may wait to be alone.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_sys::{FileLock, LockMode, LockRange, RangeLock};

/// How long even somebody in a hurry waits at the gate: others pass it in microseconds, and that
/// they do is no reason to call the workspace busy.
const GATE_GRACE: Duration = Duration::from_millis(5);

/// How long others may join a shared lock after its gate was passed. Whoever waits to be alone
/// waits so much longer; it is the time of a few writes.
const JOINABLE: Duration = Duration::from_millis(2);

/// The file in which names are locked.
const NAMES: &str = "names";

/// The lock files of all workspaces, in one directory.
#[derive(Clone, Debug)]
pub struct WorkspaceLocks {
    dir: PathBuf,
    names: LockRange,
    turns: Arc<Turns>,
    parties: Arc<Parties>,
}

/// A held lock; dropping it releases it, and so does the end of the process.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct WorkspaceLock {
    // In this order: the file is released before the next thread of this process has its turn.
    held: Held,
    _turn: Option<Turn>,
}

impl WorkspaceLock {
    /// Whether somebody who held the workspace alone died, and nobody has called
    /// [`Self::set_repaired`] since: what that holder was doing may be half done.
    pub fn is_abandoned(&self) -> bool {
        matches!(
            self.held,
            Held::Alone {
                abandoned: true,
                ..
            }
        )
    }

    /// Says that what a dead holder left half done is put right.
    pub fn set_repaired(&mut self) {
        if let Held::Alone { abandoned, .. } = &mut self.held {
            *abandoned = false;
        }
    }
}

impl Drop for WorkspaceLock {
    fn drop(&mut self) {
        if let Held::Alone { file, abandoned } = &self.held
            && !abandoned
            && !std::thread::panicking()
        {
            // If it cannot be noted, the next holder looks for what is not there.
            let _ = file.set_unfinished(false);
        }
    }
}

/// A held name.
#[derive(Debug)]
#[must_use = "the name is free when this is dropped"]
pub struct NameLock {
    // In this order, as above.
    _held: RangeLock,
    _turn: Turn,
}

/// How a lock on a file is held.
#[derive(Debug)]
enum Held {
    /// By this thread alone, only to pass.
    Gate { _file: FileLock },
    /// By this thread alone, for work. The file says so until the work has ended.
    Alone { file: FileLock, abandoned: bool },
    /// Together with other threads of this process.
    Shared { _member: Member },
}

impl WorkspaceLocks {
    /// Locks with their files in `dir`, a private directory, which is made if it is missing.
    pub fn new(dir: impl Into<PathBuf>) -> Result<WorkspaceLocks> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir).map_err(cannot_lock)?;
        let names = LockRange::open(&dir.join(NAMES)).map_err(cannot_lock)?;
        Ok(WorkspaceLocks {
            dir,
            names,
            turns: Arc::default(),
            parties: Arc::default(),
        })
    }

    /// Takes part in the workspace together with others.
    pub fn shared(&self, name: &str, timeout: Duration) -> Result<WorkspaceLock> {
        let party = self.parties.of(name);
        if let Some(member) = Member::join(&self.parties, name, &party) {
            return Ok(member.into_lock());
        }
        let member = self.open_or_renew(name, &party, timeout);
        if member.is_err() {
            self.parties.leave(name, &party);
        }
        member.map(Member::into_lock)
    }

    fn open_or_renew(&self, name: &str, party: &Arc<Party>, timeout: Duration) -> Result<Member> {
        let (_gate, left) = self.gate(name, timeout)?;
        // Only who passes the gate opens a party, so nobody else can do so here.
        if let Some(member) = Member::renew(&self.parties, name, party) {
            return Ok(member);
        }
        let file = acquire(name, &self.file(name, "main")?, LockMode::Shared, left)?;
        Ok(Member::open(&self.parties, name, party, file))
    }

    /// Takes the workspace alone. While it waits nobody else gets in.
    pub fn exclusive(&self, name: &str, timeout: Duration) -> Result<WorkspaceLock> {
        let (gate, left) = self.gate(name, timeout)?;
        let file = acquire(name, &self.file(name, "main")?, LockMode::Exclusive, left)?;
        drop(gate);
        let abandoned = file.is_unfinished().map_err(cannot_lock)?;
        if !abandoned {
            // On a full disk this may fail, and what frees space must be possible.
            let _ = file.set_unfinished(true);
        }
        Ok(WorkspaceLock {
            held: Held::Alone { file, abandoned },
            _turn: None,
        })
    }

    /// Takes a name that is never shared. It needs no file of its own: names come and go with every
    /// fork, and to make and remove a file for each takes longer than what is done under it.
    pub fn name(&self, name: &str, timeout: Duration) -> Result<NameLock> {
        let deadline = Instant::now() + timeout;
        let place = self.dir.join(NAMES).join(name);
        let turn = Turn::wait(&self.turns, &place, deadline).ok_or_else(|| busy(name))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let held = self.names.acquire(number_of(name), left);
        Ok(NameLock {
            _held: held.map_err(cannot_lock)?.ok_or_else(|| busy(name))?,
            _turn: turn,
        })
    }

    /// Removes the lock files of a workspace that is gone. Waits for those who hold them.
    pub fn forget(&self, name: &str, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        // Both at once and in the order in which everybody takes them, so nobody is left who has one
        // of these files open and still counts on it.
        let mut held = Vec::new();
        for kind in ["gate", "main"] {
            let path = self.file(name, kind)?;
            let left = deadline.saturating_duration_since(Instant::now());
            held.push(acquire(name, &path, LockMode::Exclusive, left)?);
        }
        for lock in held.into_iter().rev() {
            lock.remove().map_err(cannot_lock)?;
        }
        // Earlier versions had a third one.
        let _ = std::fs::remove_file(self.file(name, "projection")?);
        Ok(())
    }

    /// Passes the gate. Returns also how much of the time is left for the main lock.
    fn gate(&self, name: &str, timeout: Duration) -> Result<(WorkspaceLock, Duration)> {
        let started = Instant::now();
        let patience = timeout.max(GATE_GRACE);
        let gate = self.alone(name, &self.file(name, "gate")?, patience)?;
        Ok((gate, timeout.saturating_sub(started.elapsed())))
    }

    /// Takes a lock that only one may have: first among the threads here, then among processes.
    fn alone(&self, name: &str, path: &Path, timeout: Duration) -> Result<WorkspaceLock> {
        let deadline = Instant::now() + timeout;
        let turn = Turn::wait(&self.turns, path, deadline).ok_or_else(|| busy(name))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let file = acquire(name, path, LockMode::Exclusive, left)?;
        Ok(WorkspaceLock {
            held: Held::Gate { _file: file },
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

/// A number for a name, the same in every version (FNV-1a). Two names of one number only wait for
/// each other.
fn number_of(name: &str) -> u64 {
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

/// The threads of this process that share a workspace, by its name; a party that nobody is in or
/// about to join is not there.
#[derive(Debug, Default)]
struct Parties(Mutex<HashMap<String, Arc<Party>>>);

/// The threads of this process that share one workspace, and its lock.
#[derive(Debug, Default)]
struct Party {
    state: Mutex<PartyState>,
}

#[derive(Debug, Default)]
struct PartyState {
    members: usize,
    /// The lock on the main file, while there are members.
    main: Option<FileLock>,
    /// When the gate was passed last.
    gate_passed: Option<Instant>,
}

impl Parties {
    fn of(&self, name: &str) -> Arc<Party> {
        let mut parties = lock(&self.0);
        match parties.get(name) {
            Some(party) => party.clone(),
            None => parties.entry(name.to_owned()).or_default().clone(),
        }
    }

    /// Removes a party that nobody came to join.
    fn leave(&self, name: &str, party: &Arc<Party>) {
        let mut parties = lock(&self.0);
        // The map and the caller: whoever else is in it or about to join holds a share.
        if Arc::strong_count(party) == 2 {
            parties.remove(name);
        }
    }
}

/// A thread's part in a shared lock; the last one to leave releases it.
#[derive(Debug)]
struct Member {
    parties: Arc<Parties>,
    name: String,
    party: Arc<Party>,
}

impl Member {
    /// Joins a party whose gate was passed a moment ago.
    fn join(parties: &Arc<Parties>, name: &str, party: &Arc<Party>) -> Option<Member> {
        let mut state = lock(&party.state);
        let fresh = state.gate_passed.is_some_and(|at| at.elapsed() < JOINABLE);
        if state.members == 0 || !fresh {
            return None;
        }
        state.members += 1;
        Some(Member::new(parties, name, party))
    }

    /// Joins a party of any age. The caller has passed the gate.
    fn renew(parties: &Arc<Parties>, name: &str, party: &Arc<Party>) -> Option<Member> {
        let mut state = lock(&party.state);
        if state.members == 0 {
            return None;
        }
        state.members += 1;
        state.gate_passed = Some(Instant::now());
        Some(Member::new(parties, name, party))
    }

    /// Opens a party. The caller has passed the gate and taken the lock.
    fn open(parties: &Arc<Parties>, name: &str, party: &Arc<Party>, main: FileLock) -> Member {
        let mut state = lock(&party.state);
        state.members = 1;
        state.main = Some(main);
        state.gate_passed = Some(Instant::now());
        Member::new(parties, name, party)
    }

    fn new(parties: &Arc<Parties>, name: &str, party: &Arc<Party>) -> Member {
        Member {
            parties: parties.clone(),
            name: name.to_owned(),
            party: party.clone(),
        }
    }

    fn into_lock(self) -> WorkspaceLock {
        WorkspaceLock {
            held: Held::Shared { _member: self },
            _turn: None,
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = lock(&self.party.state);
        state.members -= 1;
        if state.members > 0 {
            return;
        }
        // While nobody has the workspace, its files may be removed: none may stay open.
        state.main.take();
        drop(state);
        self.parties.leave(&self.name, &self.party);
    }
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
