//! Scans: finding what outside programs changed, at the cost of one `stat` per name.
//!
//! A [`Memo`] remembers what every path looked like and which content it had. A scan walks the
//! directory, compares, and names only what must be hashed: what is new, what looks different,
//! and what was so young at the last scan that a change in the same tick of the clock could not
//! be seen (git calls such entries racy).
//!
//! One case is beyond every comparison of `stat` data: a program that writes through a shared
//! memory mapping, or in one very long `write` call, changes content after its time was set.
//! A caller that needs certainty pauses the writers first.

mod memo;
mod worker;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use offshoot_core::{EntryKind, ObjectId, RelPath, Result, Timestamp};
use offshoot_sys::{Special, Stat};

use crate::SafeDir;
use worker::{Listing, Scratch, Task, WorkerResult};

pub use memo::{Memo, MemoEntry};

/// How much older than the scan a time must be before it proves anything.
///
/// File times come from a clock that ticks every 1 to 10 ms, so two changes within one tick look
/// alike; two of the longest ticks leave room for the reading of the clock itself.
pub const RACY_WINDOW: Duration = Duration::from_millis(20);

/// Decides what a scan includes, one directory at a time.
///
/// A context carries what is known on the way down, such as the ignore rules that are in force.
/// Directories without a context of their own share that of their parent at no cost.
pub trait ScanFilter: Sync {
    /// What is known in a directory.
    type Context: Send + Sync;

    /// The context above the root.
    fn root(&self) -> Self::Context;

    /// Called once per directory, before its entries. Returns a new context for the directory and
    /// everything below it, or none when nothing changes; `names` shows at no cost whether a file
    /// of rules is there.
    fn enter(
        &self,
        context: &Self::Context,
        path: &RelPath,
        names: &DirNames<'_>,
    ) -> Option<Self::Context> {
        let _ = (context, path, names);
        None
    }

    /// Whether to leave an entry out. A directory left out is not walked.
    fn skip(&self, context: &Self::Context, entry: &ScanEntry<'_>) -> bool;
}

/// A filter that leaves nothing out.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFilter;

impl ScanFilter for NoFilter {
    type Context = ();

    fn root(&self) {}

    fn skip(&self, _context: &(), _entry: &ScanEntry<'_>) -> bool {
        false
    }
}

/// An entry as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub struct ScanEntry<'a> {
    /// The whole path, as in a [`RelPath`].
    pub path: &'a [u8],
    /// Its last part.
    pub name: &'a [u8],
    /// What it is.
    pub kind: EntryKind,
}

/// The names in one directory, in order.
#[derive(Debug)]
pub struct DirNames<'a> {
    scratch: &'a Scratch,
}

impl DirNames<'_> {
    /// Whether the directory has this name.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.scratch.find(name).is_some()
    }

    /// All names.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.scratch.names()
    }
}

/// A file or link whose content may differ from the memo and must be hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Where.
    pub path: RelPath,
    /// The result of its `stat`.
    pub stat: Stat,
}

/// A directory that the scan walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedDir {
    /// Where.
    pub path: RelPath,
    /// Its permission bits.
    pub perm: u32,
    /// How it compares with the memo.
    pub state: DirState,
    /// Whether there is nothing in it, not even something that was left out.
    pub empty: bool,
}

/// How a directory compares with the memo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirState {
    /// Unchanged; what is in it may differ.
    Known,
    /// Its permission bits differ.
    PermChanged,
    /// It was no directory before.
    New,
}

/// Why something on disk was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Workspaces do not hold such things.
    Special(Special),
    /// It may not be read. Neither it nor anything below it is reported missing.
    Unreadable,
    /// The path is longer than any call can take.
    TooLong,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Special(special) => write!(f, "{special}"),
            Refusal::Unreadable => f.write_str("unreadable entry"),
            Refusal::TooLong => f.write_str("path that is too long"),
        }
    }
}

/// How much a scan walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Regular files.
    pub files: u64,
    /// Links.
    pub symlinks: u64,
    /// Directories, without the root.
    pub dirs: u64,
    /// The sizes of all files.
    pub bytes: u64,
    /// The disk usage of all files.
    pub disk_bytes: u64,
}

/// What a scan found. All lists are sorted by path.
#[derive(Debug)]
pub struct Scan<'memo> {
    /// Files and links that are new, look different, or were too young last time.
    pub unknown: Vec<ChangedFile>,
    /// Paths of the memo that are gone from the disk. A directory is followed by all that was below
    /// it. A path that turned from a directory into a file, or back, is missing and also new.
    pub missing: Vec<RelPath>,
    /// All directories that were walked, without the root.
    pub dirs: Vec<ScannedDir>,
    /// What cannot be in a workspace.
    pub refused: Vec<(RelPath, Refusal)>,
    /// What the filter left out; a directory stands for all below it.
    pub ignored: Vec<RelPath>,
    /// How much was walked.
    pub counts: ScanCounts,
    memo: &'memo Memo,
    started_ns: i64,
    listings: Vec<Listing>,
    /// Directories that were listed and were gone when they were to be walked: the next memo must
    /// not know them.
    vanished: HashSet<RelPath>,
}

impl Scan<'_> {
    /// Whether everything is as the memo says, so that there is nothing to do and the memo need
    /// not be saved again.
    pub fn is_unchanged(&self) -> bool {
        self.unknown.is_empty()
            && self.missing.is_empty()
            && self.dirs.iter().all(|dir| dir.state == DirState::Known)
            && self.listings.iter().all(Listing::is_same)
    }

    /// When the scan began.
    pub fn started(&self) -> Timestamp {
        Timestamp(self.started_ns / 1_000)
    }

    /// The memo for the next scan. `hashed` gives the content ids of [`Self::unknown`] files; one
    /// without an id will be unknown again.
    ///
    /// Directories in which nothing changed are copied as they are.
    pub fn finish(self, tag: u64, hashed: impl Fn(&RelPath) -> Option<ObjectId>) -> Memo {
        let listings = (&self.listings[..], &self.vanished);
        memo::build(self.memo, listings, self.started_ns, tag, hashed)
    }
}

/// Compares a directory with a memo, on `threads` threads.
///
/// Costs one open per directory and one `stat` per name that the filter does not leave out.
pub fn scan<'memo, F: ScanFilter>(
    dir: &SafeDir,
    memo: &'memo Memo,
    filter: &F,
    threads: usize,
) -> Result<Scan<'memo>> {
    let started_ns = now_ns();
    let job = Job {
        dir,
        memo,
        filter,
        racy_from: i128::from(started_ns) - window_ns(),
    };
    let root = Task::root(Arc::new(filter.root()));
    let queue = Queue {
        state: Mutex::new(QueueState {
            tasks: VecDeque::from([root]),
            working: 0,
            failed: false,
        }),
        changed: Condvar::new(),
    };
    let mut parts = Vec::new();
    if threads <= 1 {
        parts.push(run_worker(&job, &queue));
    } else {
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| scope.spawn(|| run_worker(&job, &queue)))
                .collect();
            for worker in workers {
                parts.push(
                    worker
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                );
            }
        });
    }
    let mut found = WorkerResult::default();
    for part in parts {
        found.append(part?);
    }
    Ok(found.into_scan(memo, started_ns))
}

/// What all workers of a scan share.
struct Job<'a, F> {
    dir: &'a SafeDir,
    memo: &'a Memo,
    filter: &'a F,
    /// Files with this time or a later one may have changed again without a trace.
    racy_from: i128,
}

struct Queue<C> {
    state: Mutex<QueueState<C>>,
    changed: Condvar,
}

struct QueueState<C> {
    tasks: VecDeque<Task<C>>,
    /// Workers that may still add tasks.
    working: usize,
    failed: bool,
}

impl<C> Queue<C> {
    fn lock(&self) -> MutexGuard<'_, QueueState<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task; waits while others may still add some.
    fn next(&self) -> Option<Task<C>> {
        let mut state = self.lock();
        loop {
            if state.failed {
                return None;
            }
            if let Some(task) = state.tasks.pop_back() {
                state.working += 1;
                return Some(task);
            }
            if state.working == 0 {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, new: &mut Vec<Task<C>>, failed: bool) {
        let mut state = self.lock();
        state.working -= 1;
        state.failed |= failed;
        let wake = state.failed || state.working == 0 || !new.is_empty();
        state.tasks.extend(new.drain(..));
        drop(state);
        if wake {
            self.changed.notify_all();
        }
    }
}

fn run_worker<F: ScanFilter>(job: &Job<'_, F>, queue: &Queue<F::Context>) -> Result<WorkerResult> {
    let mut scratch = Scratch::default();
    let mut found = WorkerResult::default();
    let mut new = Vec::new();
    while let Some(task) = queue.next() {
        // Even if a filter panics, the other workers must learn that this one has ended.
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            job.scan_dir(task, &mut scratch, &mut found, &mut new)
        }));
        match answer {
            Ok(answer) => {
                queue.done(&mut new, answer.is_err());
                answer?;
            }
            Err(panic) => {
                queue.done(&mut new, true);
                std::panic::resume_unwind(panic);
            }
        }
    }
    Ok(found)
}

fn now_ns() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

fn window_ns() -> i128 {
    i128::try_from(RACY_WINDOW.as_nanos()).unwrap_or(i128::MAX)
}
