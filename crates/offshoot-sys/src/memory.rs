//! Returning freed memory, which the allocator keeps, to the system.

use std::time::Duration;

/// How often the thread compares the processor time of the process.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// A process that used less processor time than this in an interval is idle.
const IDLE_CPU_TIME: Duration = Duration::from_millis(500);
/// After less processor time than this since the last trim, another one is not worth its cost.
const MIN_CPU_TIME: Duration = Duration::from_millis(100);

/// Starts a thread that gives freed memory back to the system once this process has been idle for
/// some seconds. The allocator of the C library keeps it otherwise, for each thread's part of the
/// heap, until the end of the process. Does nothing where the allocator has no such call.
pub fn trim_heap_when_idle() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let thread = std::thread::Builder::new().name("offshoot-memory".into());
        // Without the thread the process works, and is larger than it need be.
        let _ = thread.spawn(trim_when_idle);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim_when_idle() {
    let mut before = cpu_time();
    let mut since_trim = Duration::ZERO;
    loop {
        std::thread::sleep(CHECK_INTERVAL);
        let now = cpu_time();
        let used = now.saturating_sub(std::mem::replace(&mut before, now));
        since_trim += used;
        if used < IDLE_CPU_TIME && since_trim > MIN_CPU_TIME {
            trim_heap();
            since_trim = Duration::ZERO;
        }
    }
}

/// The processor time of this process since its start.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no safe form of this call")]
fn trim_heap() {
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
        trim_heap();
        let given = kept.saturating_sub(resident());
        assert!(
            given > BLOCK * BLOCKS / 2,
            "{given} bytes of {kept} were given back"
        );
        drop(newest);
    }
}
