//! Asking the kernel who has a file open.

use std::fs::File;

/// Chooses the signal that tells of a lease somebody wants broken: the number that all these
/// processors have in common.
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
const F_SETSIG: libc::c_int = 10;

/// Whether nobody but this handle has the file open, in any process. A file that is mapped counts
/// as open. False where the kernel cannot tell.
///
/// A lease for writing is granted only then. It is given back at once, so whoever opens the file
/// in this moment waits no longer than that.
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
pub fn is_open_only_here(file: &File) -> bool {
    use std::os::fd::AsRawFd;

    let fd = file.as_raw_fd();
    let fcntl = |command, argument: libc::c_int| {
        // SAFETY: the descriptor is open as long as `file` is borrowed, and none of these commands
        // takes a pointer.
        #[allow(unsafe_code, reason = "leases are in no safe library")]
        unsafe {
            libc::fcntl(fd, command, argument)
        }
    };
    // Whoever opens the file while the lease is held makes the kernel send a signal. The usual one
    // would end the process; this one is ignored by those who have not asked for it.
    if fcntl(F_SETSIG, libc::SIGURG) != 0 {
        return false;
    }
    let granted = fcntl(libc::F_SETLEASE, libc::F_WRLCK) == 0;
    // Whoever opened it since gets on when the lease is gone, so it was the only one until then.
    granted && fcntl(libc::F_SETLEASE, libc::F_UNLCK) == 0
}

/// Whether nobody but this handle has the file open. Here nobody can tell.
#[cfg(not(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
)))]
pub fn is_open_only_here(_file: &File) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_open_only_here_until_somebody_else_opens_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "content").unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let file = open();
        assert!(is_open_only_here(&file));
        let reader = File::open(&path).unwrap();
        assert!(!is_open_only_here(&file));
        drop(reader);
        assert!(is_open_only_here(&file));
        let writer = open();
        assert!(!is_open_only_here(&file));
        drop(writer);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .stdin(File::open(&path).unwrap())
            .spawn()
            .unwrap();
        let alone = is_open_only_here(&file);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!alone, "another process has it open");
        assert!(is_open_only_here(&file));
    }

    /// The signal for a broken lease must not end the process.
    #[test]
    fn somebody_who_opens_the_file_meanwhile_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "content").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let ended = std::sync::atomic::AtomicBool::new(false);
        let (mut alone, mut shared) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    assert_eq!(std::fs::read(&path).unwrap(), b"content");
                }
            });
            let began = std::time::Instant::now();
            let enough = |alone: usize, shared: usize| alone.min(shared) >= 1_000;
            while !enough(alone, shared) && began.elapsed().as_secs() < 60 {
                if is_open_only_here(&file) {
                    alone += 1;
                } else {
                    shared += 1;
                }
            }
            ended.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(alone > 0 && shared > 0, "{alone} {shared}");
    }
}
