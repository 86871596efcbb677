//! Memory that the allocator keeps although nobody uses it.

use std::time::Duration;

/// How often the process looks at what it has done.
const LOOK: Duration = Duration::from_secs(10);
/// A process that needed less of the processor between two looks has nothing to do.
const IDLE: Duration = Duration::from_millis(500);
/// What is freed by less work than this is not worth a look through all of the heap.
const WORTH_IT: Duration = Duration::from_millis(100);

/// Starts a thread that gives freed memory back to the system once this process has been idle for
/// some seconds. The allocator of the C library keeps it otherwise, for each thread's part of the
/// heap, until the end of the process. Does nothing where the allocator has no such call.
pub fn give_back_when_idle() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let thread = std::thread::Builder::new().name("offshoot-memory".into());
        // Without the thread the process is larger than it need be, and works.
        let _ = thread.spawn(watch);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn watch() {
    let mut seen = processor_time();
    let mut worked = Duration::ZERO;
    loop {
        std::thread::sleep(LOOK);
        let now = processor_time();
        let used = now.saturating_sub(std::mem::replace(&mut seen, now));
        worked += used;
        if used < IDLE && worked > WORTH_IT {
            give_back();
            worked = Duration::ZERO;
        }
    }
}

/// What this process has used of the processors since it began.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no safe form of this call")]
fn give_back() {
    // SAFETY: the call takes the locks of the allocator by itself and moves no memory that is in
    // use; it may be made by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// What this process has in memory, in bytes.
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<usize>().unwrap() << 10
    }

    #[test]
    fn what_was_freed_goes_back_although_something_lies_above_it() {
        const BLOCK: usize = 16 << 10;
        const BLOCKS: usize = 4096;
        let mut blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| vec![1; BLOCK]).collect();
        // The newest lies at the end of the heap, so that freeing the others alone returns nothing.
        let newest = blocks.pop().unwrap();
        drop(blocks);
        let kept = resident();
        give_back();
        let given = kept.saturating_sub(resident());
        assert!(
            given > BLOCK * BLOCKS / 2,
            "{given} bytes of {kept} were given back"
        );
        drop(newest);
    }
}
