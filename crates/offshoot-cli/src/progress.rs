//! Progress on stderr while much is copied. Shown only on a terminal, and only if it takes long.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use crate::output;

const FIRST: Duration = Duration::from_millis(400);
const NEXT: Duration = Duration::from_millis(100);

/// A reader that tells how far it is.
pub(crate) struct Progress<R> {
    inner: R,
    total: Option<u64>,
    done: u64,
    shown: bool,
    due: Option<Instant>,
}

impl<R> Progress<R> {
    /// Wraps a reader. `shows` says whether anyone is watching.
    pub(crate) fn new(inner: R, total: Option<u64>, shows: bool) -> Self {
        Progress {
            inner,
            total,
            done: 0,
            shown: false,
            due: shows.then(|| Instant::now() + FIRST),
        }
    }

    fn show(&mut self) {
        let done = output::size(self.done as i64);
        let _ = match self.total.filter(|total| *total > 0) {
            Some(total) => write!(
                io::stderr(),
                "\r\x1b[K{done} of {} ({} %)",
                output::size(total as i64),
                self.done.saturating_mul(100) / total
            ),
            None => write!(io::stderr(), "\r\x1b[K{done}"),
        };
        self.shown = true;
    }
}

impl<R: Read> Read for Progress<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.done += n as u64;
        if let Some(due) = self.due
            && Instant::now() >= due
        {
            self.due = Some(Instant::now() + NEXT);
            self.show();
        }
        Ok(n)
    }
}

impl<R> Drop for Progress<R> {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Tells how many of a known number of steps are done.
pub(crate) struct Steps {
    due: Option<Instant>,
    shown: bool,
}

impl Steps {
    /// `shows` says whether anyone is watching.
    pub(crate) fn new(shows: bool) -> Self {
        Steps {
            due: shows.then(|| Instant::now() + FIRST),
            shown: false,
        }
    }

    /// Called after each step.
    pub(crate) fn show(&mut self, done: u64, total: u64) {
        self.show_named("", done, total);
    }

    /// Like [`show`](Self::show), with what is being done; a total of 0 is not known yet.
    pub(crate) fn show_named(&mut self, what: &str, done: u64, total: u64) {
        if let Some(due) = self.due
            && Instant::now() >= due
        {
            self.due = Some(Instant::now() + NEXT);
            self.shown = true;
            let _ = match total {
                0 => write!(io::stderr(), "\r\x1b[K{what}{done}"),
                _ => write!(io::stderr(), "\r\x1b[K{what}{done} of {total}"),
            };
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
