//! Lock files: `flock` on a file that exists for nothing else.
//!
//! The kernel releases the lock when the holder dies, however it dies. That is why no pid is ever
//! written into a lock file: it would only be a lie after a crash. What a lock file can record is
//! that its holder has not finished, because that is still true after the holder has died
//! ([`FileLock::set_unfinished`]).

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// How many holders a lock may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Any number of holders of this mode.
    Shared,
    /// One holder.
    Exclusive,
}

/// A held lock; dropping it releases it.
///
/// Every acquisition opens the file anew, so that two threads of one process exclude each other
/// like two processes do.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

impl FileLock {
    /// Takes the lock if it is free. `None` means that it is held.
    pub fn try_acquire(path: &Path, mode: LockMode) -> io::Result<Option<FileLock>> {
        loop {
            let file = open_lock_file(path)?;
            if !try_flock(&file, mode)? {
                return Ok(None);
            }
            if is_current(&file, path)? {
                return Ok(Some(FileLock {
                    file,
                    path: path.to_owned(),
                }));
            }
        }
    }

    /// Takes the lock, asking again until `timeout` has passed. `None` means that it was held
    /// all the time.
    ///
    /// `flock` cannot wait for a limited time, so this polls, at first every few microseconds:
    /// most locks are held for less than a millisecond.
    pub fn acquire(path: &Path, mode: LockMode, timeout: Duration) -> io::Result<Option<FileLock>> {
        let mut backoff = Backoff::new(timeout);
        let mut file = open_lock_file(path)?;
        loop {
            if !try_flock(&file, mode)? {
                if !backoff.pause() {
                    return Ok(None);
                }
            } else if is_current(&file, path)? {
                return Ok(Some(FileLock {
                    file,
                    path: path.to_owned(),
                }));
            } else {
                file = open_lock_file(path)?;
            }
        }
    }

    /// Notes in the file that its holder has not finished what it began at that number, or, with none,
    /// that it has. Only for a holder of the exclusive mode. The note is the length of the file, which
    /// takes no block on disk.
    pub fn set_unfinished(&self, began_at: Option<u64>) -> io::Result<()> {
        self.file
            .set_len(began_at.map_or(0, |number| number.saturating_add(1)))
    }

    /// The number at which an earlier holder began what it did not finish.
    pub fn unfinished(&self) -> io::Result<Option<u64>> {
        Ok(self.file.metadata()?.len().checked_sub(1))
    }

    /// Removes the lock file and releases the lock. Only for a holder of the exclusive mode.
    ///
    /// A call of [`Self::acquire`] that waits for the removed file notices and makes a new one.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

/// Pauses that double until a deadline has passed.
pub(crate) struct Backoff {
    deadline: Option<Instant>,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(timeout: Duration) -> Self {
        Backoff {
            deadline: Instant::now().checked_add(timeout),
            next: FIRST_PAUSE,
        }
    }

    /// Sleeps a little. False when there is no time left.
    pub(crate) fn pause(&mut self) -> bool {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return false;
        }
        let left = self.deadline.map_or(self.next, |deadline| deadline - now);
        std::thread::sleep(self.next.min(left));
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        true
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child that was forked in between and has not
        // called exec yet.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn try_flock(file: &File, mode: LockMode) -> io::Result<bool> {
    let operation = match mode {
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether `path` still names the locked file. It may have been removed while this call waited, and
/// another process may hold a lock on a new file of that name.
fn is_current(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
