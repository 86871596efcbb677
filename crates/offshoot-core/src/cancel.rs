//! Cancelling work whose client has gone away.
//!
//! Blocking work cannot be interrupted from outside: it has to ask. The caller that starts it for a
//! client gives its thread a [`Cancel`], and long loops call [`check`] where they can stop without
//! leaving anything half done. Work without a [`Cancel`] is never cancelled.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, ErrorCode, Result};

thread_local! {
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// A flag that cancels work. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Runs work on this thread that can be cancelled by this.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Puts back what was there, also after a panic.
        struct Restore(Option<Cancel>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.with(|current| current.replace(self.0.take()));
            }
        }
        let _restore = Restore(CURRENT.with(|current| current.replace(Some(self.clone()))));
        work()
    }

    /// Cancels when it is dropped: for the side that waits.
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// See [`Cancel::on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// What cancels the work of this thread, to be given to threads that help with it.
pub fn current() -> Option<Cancel> {
    CURRENT.with(|current| current.borrow().clone())
}

/// An error if the work of this thread was cancelled.
pub fn check() -> Result<()> {
    let cancelled = CURRENT.with(|current| {
        let current = current.borrow();
        current
            .as_ref()
            .is_some_and(|cancel| cancel.0.load(Ordering::Relaxed))
    });
    if cancelled {
        let message = "nobody waits for this any more";
        return Err(Error::new(ErrorCode::Timeout, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_work_of_the_client_that_went_away_ends() {
        let cancel = Cancel::default();
        let waiting = cancel.on_drop();
        cancel.run(|| {
            check().unwrap();
            let other = Cancel::default();
            drop(other.on_drop());
            assert!(other.run(check).is_err());
            check().unwrap();
            drop(waiting);
            assert_eq!(check().unwrap_err().code(), ErrorCode::Timeout);
            let helper = current();
            let helped = std::thread::spawn(move || helper.map(|cancel| cancel.run(check)));
            assert!(helped.join().unwrap().unwrap().is_err());
        });
        check().unwrap();
    }
}
