//! Locks on single bytes of a file (`fcntl`), so that a lock needs no file of its own.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::lock::Backoff;

/// The lock belongs to the open file and not to the process: closing another handle of the file
/// keeps it.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
const SET_LOCK: libc::c_int = libc::F_OFD_SETLK;
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
const SET_LOCK: libc::c_int = libc::F_SETLK;

/// A file whose bytes are locks. They need not exist: the file stays empty.
///
/// Locks exclude each other between processes and between two `ByteLockFile`s of one process. The
/// kernel does not tell the threads apart that share one `ByteLockFile`: they must not ask for a
/// number that another of them holds.
#[derive(Clone, Debug)]
pub struct ByteLockFile(Arc<File>);

/// A held lock; dropping it releases it, and so does the end of the process.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct ByteLock {
    file: Arc<File>,
    number: u64,
}

impl ByteLockFile {
    /// Opens the file, which is made if it is missing.
    pub fn open(path: &Path) -> io::Result<ByteLockFile> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        Ok(ByteLockFile(Arc::new(file)))
    }

    /// Takes the exclusive lock of a number, polling until `timeout` has passed. `None` means that
    /// it was held all the time. The highest bit of the number is ignored.
    pub fn acquire(&self, number: u64, timeout: Duration) -> io::Result<Option<ByteLock>> {
        let number = number & (u64::MAX >> 1);
        let mut backoff = Backoff::new(timeout);
        while !set(&self.0, number, libc::F_WRLCK)? {
            if !backoff.pause() {
                return Ok(None);
            }
        }
        Ok(Some(ByteLock {
            file: Arc::clone(&self.0),
            number,
        }))
    }
}

impl Drop for ByteLock {
    fn drop(&mut self) {
        let _ = set(&self.file, self.number, libc::F_UNLCK);
    }
}

/// Locks or unlocks one byte. False if another holder has it locked.
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_possible_wrap,
    reason = "the types of these fields differ between systems"
)]
fn set(file: &File, number: u64, kind: libc::c_int) -> io::Result<bool> {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    #[allow(unsafe_code, reason = "this lock is in no safe library")]
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as _;
    range.l_whence = libc::SEEK_SET as _;
    // A lock may not reach beyond the largest offset.
    range.l_start = number.min(i64::MAX as u64 - 1) as _;
    range.l_len = 1;
    loop {
        // SAFETY: the descriptor is open as long as `file` is borrowed, and the range lives until
        // the call returns.
        #[allow(unsafe_code, reason = "this lock is in no safe library")]
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), SET_LOCK, &raw const range) };
        if answer == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
            Some(libc::EINTR) => {}
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn a_number_is_held_once_and_the_others_are_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names");
        let (one, other) = (
            ByteLockFile::open(&path).unwrap(),
            ByteLockFile::open(&path).unwrap(),
        );
        for number in [0, 1, 77, u64::MAX, u64::MAX >> 1, (u64::MAX >> 1) - 2] {
            let held = one.acquire(number, SHORT).unwrap().unwrap();
            assert!(other.acquire(number, SHORT).unwrap().is_none(), "{number}");
            drop(other.acquire(number ^ 4, SHORT).unwrap().unwrap());
            drop(ByteLockFile::open(&path).unwrap());
            assert!(other.acquire(number, SHORT).unwrap().is_none(), "{number}");
            drop(held);
            assert!(other.acquire(number, SHORT).unwrap().is_some(), "{number}");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn every_waiter_gets_the_lock_and_it_excludes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names");
        let inside = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let range = ByteLockFile::open(&path).unwrap();
                    for _ in 0..200 {
                        let held = range.acquire(5, Duration::from_secs(60)).unwrap().unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
    }
}
