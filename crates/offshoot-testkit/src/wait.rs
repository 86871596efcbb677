//! Waiting for something that another thread or process does, instead of for some time.

use std::time::{Duration, Instant};

/// Long enough for a machine that has much else to do; nobody waits for it when all is well.
const LIMIT: Duration = Duration::from_secs(60);
/// How long to leave the processor to the others between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until something is true.
///
/// # Panics
/// With `what`, if it does not become true within a minute.
#[track_caller]
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_true() {
        assert!(Instant::now() < end, "it does not come true that {what}");
        std::thread::sleep(PAUSE);
    }
}
