//! Workspace locks between threads and between processes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use offshoot_core::ErrorCode;
use offshoot_fs::WorkspaceLocks;
use offshoot_testkit::wait_until;

const NOW: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_secs(10);

fn locks() -> (WorkspaceLocks, tempfile::TempDir) {
    let host = tempfile::tempdir().unwrap();
    (
        WorkspaceLocks::new(host.path().join("locks")).unwrap(),
        host,
    )
}

#[test]
fn shared_with_shared_and_exclusive_with_none() {
    let (locks, _host) = locks();
    let first = locks.shared("ws", NOW).unwrap();
    let second = locks.shared("ws", NOW).unwrap();
    let busy = locks
        .exclusive("ws", Duration::from_millis(20))
        .unwrap_err();
    assert_eq!(busy.code(), ErrorCode::WorkspaceBusy);
    drop(locks.exclusive("other", NOW).unwrap());
    drop((first, second));
    let alone = locks.exclusive("ws", NOW).unwrap();
    for busy in [locks.shared("ws", NOW), locks.exclusive("ws", NOW)] {
        assert_eq!(busy.unwrap_err().code(), ErrorCode::WorkspaceBusy);
    }
    drop(alone);
    drop(locks.shared("ws", NOW).unwrap());
}

#[test]
fn a_failed_try_leaves_nothing_locked() {
    let (locks, _host) = locks();
    let reader = locks.shared("ws", NOW).unwrap();
    assert!(locks.exclusive("ws", NOW).is_err());
    drop(locks.shared("ws", NOW).unwrap());
    drop(reader);
    drop(locks.exclusive("ws", NOW).unwrap());
}

#[test]
fn timeouts_are_kept() {
    let (locks, _host) = locks();
    let _held = locks.exclusive("ws", NOW).unwrap();
    let started = Instant::now();
    assert!(locks.shared("ws", Duration::from_millis(100)).is_err());
    let took = started.elapsed();
    assert!(
        took >= Duration::from_millis(100) && took < Duration::from_secs(3),
        "{took:?}"
    );
}

#[test]
fn exclusive_holders_are_alone_among_many_threads() {
    let (locks, _host) = locks();
    let (readers, writers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (locks, readers, writers) = (&locks, &readers, &writers);
            scope.spawn(move || {
                for round in 0..150 {
                    if (round + thread) % 3 == 0 {
                        let _held = locks.exclusive("ws", SOON).unwrap();
                        assert_eq!(writers.fetch_add(1, Ordering::SeqCst), 0);
                        assert_eq!(readers.load(Ordering::SeqCst), 0);
                        writers.fetch_sub(1, Ordering::SeqCst);
                    } else {
                        let _held = locks.shared("ws", SOON).unwrap();
                        readers.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(writers.load(Ordering::SeqCst), 0);
                        readers.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
}

#[test]
fn a_stream_of_readers_does_not_starve_a_writer() {
    let (locks, _host) = locks();
    let (stop, entered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _held = locks.shared("ws", SOON).unwrap();
                    entered.fetch_add(1, Ordering::Relaxed);
                    // A reader that has the lock for a while is the case.
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
        }
        wait_until("the readers are at work", || {
            entered.load(Ordering::Relaxed) > 12
        });
        // Six readers of 3 ms each overlap all the time: without the gate there is never a gap.
        let got_in = (0..5).all(|_| locks.exclusive("ws", Duration::from_secs(5)).is_ok());
        stop.store(true, Ordering::Relaxed);
        assert!(got_in);
    });
}

#[test]
fn forgotten_locks_start_over() {
    let (locks, host) = locks();
    drop(locks.exclusive("ws", NOW).unwrap());
    let held = locks.shared("ws", NOW).unwrap();
    assert_eq!(
        locks.remove_files("ws", NOW).unwrap_err().code(),
        ErrorCode::WorkspaceBusy
    );
    drop(held);
    locks.remove_files("ws", NOW).unwrap();
    let left = std::fs::read_dir(host.path().join("locks")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["names"], "the one file of all names");
    // Removing the files while other threads wait for them gives no lock to two of them.
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let _held = locks.exclusive("ws", SOON).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..50 {
            locks.remove_files("ws", SOON).unwrap();
        }
    });
}

/// The revision is asked for when the lock is held: others may have changed it before.
#[test]
fn the_revision_of_a_holder_is_that_when_it_has_the_lock() {
    let (locks, _host) = locks();
    let held = locks.exclusive("ws", NOW).unwrap();
    let asked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let revision = || {
                asked.store(true, Ordering::SeqCst);
                Ok(7)
            };
            locks.exclusive_at("ws", SOON, revision).unwrap()
        });
        assert!(
            locks
                .exclusive_at("ws", Duration::from_millis(20), || Ok(1))
                .is_err()
        );
        assert!(!asked.load(Ordering::SeqCst));
        drop(held);
        drop(waits.join().unwrap());
    });
    assert!(asked.load(Ordering::SeqCst));
}

#[test]
fn names_that_are_no_names_are_refused() {
    let (locks, _host) = locks();
    for bad in ["", "a/b", "a\0b", &"x".repeat(200)] {
        assert!(locks.shared(bad, NOW).is_err(), "{bad:?}");
    }
}

/// Starts this test program again as another process that takes the lock and keeps it.
fn holder_process(host: &tempfile::TempDir, mode: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "locks::holder_process_body", "--nocapture"])
        .env("OFFSHOOT_TEST_LOCK_DIR", host.path().join("locks"))
        .env("OFFSHOOT_TEST_LOCK_MODE", mode)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("lock is held")));
    child
}

/// Not a test by itself: the body of the process that [`holder_process`] starts.
#[test]
fn holder_process_body() {
    let Some(dir) = std::env::var_os("OFFSHOOT_TEST_LOCK_DIR") else {
        return;
    };
    let locks = WorkspaceLocks::new(dir).unwrap();
    let _held: Box<dyn std::fmt::Debug> =
        match std::env::var("OFFSHOOT_TEST_LOCK_MODE").unwrap().as_str() {
            "shared" => Box::new(locks.shared("ws", NOW).unwrap()),
            "name" => Box::new(locks.lock_name("ws", NOW).unwrap()),
            _ => Box::new(locks.exclusive("ws", NOW).unwrap()),
        };
    println!("lock is held");
    // Its parent kills it long before.
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn processes_exclude_each_other_and_kill_releases() {
    let (locks, host) = locks();
    let mut reader = holder_process(&host, "shared");
    drop(locks.shared("ws", NOW).unwrap());
    assert!(locks.exclusive("ws", Duration::from_millis(50)).is_err());
    reader.kill().unwrap();
    reader.wait().unwrap();

    let mut writer = holder_process(&host, "exclusive");
    assert!(locks.shared("ws", Duration::from_millis(50)).is_err());
    // `kill` sends SIGKILL: the process cannot clean up after itself.
    writer.kill().unwrap();
    let next = locks.exclusive("ws", SOON).unwrap();
    writer.wait().unwrap();
    // Every holder is told so until one says that the workspace is repaired.
    assert_eq!(next.abandoned_since(), Some(0));
    drop(next);
    let mut next = locks.exclusive("ws", NOW).unwrap();
    assert_eq!(next.abandoned_since(), Some(0));
    next.set_repaired(3);
    drop(next);
    let next = locks.exclusive("ws", NOW).unwrap();
    assert_eq!(next.abandoned_since(), None);

    let mut named = holder_process(&host, "name");
    assert!(locks.lock_name("ws", Duration::from_millis(50)).is_err());
    drop(locks.lock_name("other", NOW).unwrap());
    named.kill().unwrap();
    drop(locks.lock_name("ws", SOON).unwrap());
    named.wait().unwrap();
}

#[test]
fn names_exclude_threads_and_other_engines_and_need_no_file() {
    let (locks, host) = locks();
    let others = WorkspaceLocks::new(host.path().join("locks")).unwrap();
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let locks = if thread % 2 == 0 { &locks } else { &others };
            let inside = &inside;
            scope.spawn(move || {
                for n in 0..100 {
                    let _other = locks.lock_name(&format!("t{thread}-{n}"), SOON).unwrap();
                    let _held = locks.lock_name("one", Duration::from_secs(60)).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    let files = std::fs::read_dir(host.path().join("locks")).unwrap();
    assert_eq!(files.count(), 1);
}
