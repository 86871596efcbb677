//! Waiting for a condition instead of sleeping for a fixed time.

use std::time::{Duration, Instant};

/// Long enough for a busy machine; a passing test never waits so long.
const LIMIT: Duration = Duration::from_secs(60);
/// How long to sleep between two checks.
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
