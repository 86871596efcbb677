//! The system calls do what their wrappers say.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use offshoot_sys::{
    DirReader, FileKind, FileLock, LockMode, Special, boot_id, fstat, lstat_at, rename_exchange,
    rename_noreplace, syncfs,
};

#[test]
fn stat_agrees_with_the_standard_library() {
    let host = tempfile::tempdir().unwrap();
    let dir = File::open(host.path()).unwrap();
    fs::write(host.path().join("f"), vec![1; 5_000]).unwrap();
    symlink("f", host.path().join("l")).unwrap();
    let fifo = host.path().join("p");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(fifo)
            .status()
            .unwrap()
            .success()
    );
    for (name, c_name, kind) in [
        ("f", c"f", FileKind::File),
        ("l", c"l", FileKind::Symlink),
        ("p", c"p", FileKind::Other(Special::Fifo)),
        (".", c".", FileKind::Dir),
    ] {
        let stat = lstat_at(&dir, c_name).unwrap();
        let expected = fs::symlink_metadata(host.path().join(name)).unwrap();
        assert_eq!(stat.kind, kind);
        assert_eq!(stat.perm, expected.mode() & 0o7777);
        assert_eq!(
            (stat.ino, stat.dev, stat.nlink),
            (expected.ino(), expected.dev(), expected.nlink())
        );
        assert_eq!(
            (stat.size, stat.blocks),
            (expected.size(), expected.blocks())
        );
        let nanoseconds = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        assert_eq!(
            stat.mtime_ns,
            nanoseconds(expected.mtime(), expected.mtime_nsec())
        );
        assert_eq!(
            stat.ctime_ns,
            nanoseconds(expected.ctime(), expected.ctime_nsec())
        );
    }
    assert_eq!(fstat(&dir).unwrap().kind, FileKind::Dir);
    assert!(lstat_at(&dir, c"none").is_err());
}

#[test]
fn all_names_of_a_large_directory_are_read_once() {
    let host = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for number in 0..3_000 {
        let name = format!("a-rather-long-name-to-fill-the-buffer-{number:05}");
        File::create(host.path().join(&name)).unwrap();
        expected.push(name.into_bytes());
    }
    let mut reader = DirReader::default();
    for _ in 0..2 {
        let mut names = Vec::new();
        let dir = File::open(host.path()).unwrap();
        reader
            .for_each(&dir, |name, _| names.push(name.to_bytes().to_vec()))
            .unwrap();
        names.sort();
        assert_eq!(names, expected);
    }
}

#[test]
fn renames_with_conditions() {
    let host = tempfile::tempdir().unwrap();
    let dir = File::open(host.path()).unwrap();
    fs::write(host.path().join("a"), "a").unwrap();
    fs::write(host.path().join("b"), "b").unwrap();
    let taken = rename_noreplace(&dir, c"a", &dir, c"b").unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AlreadyExists);
    rename_noreplace(&dir, c"a", &dir, c"c").unwrap();
    rename_exchange(&dir, c"b", &dir, c"c").unwrap();
    assert_eq!(fs::read(host.path().join("b")).unwrap(), b"a");
    assert_eq!(fs::read(host.path().join("c")).unwrap(), b"b");
    syncfs(&dir).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_opened_above_the_directory() {
    use offshoot_sys::{DIR_HANDLE, FollowLinks, has_open_beneath, open_beneath};
    assert!(has_open_beneath());
    let host = tempfile::tempdir().unwrap();
    fs::create_dir_all(host.path().join("root/in")).unwrap();
    symlink("..", host.path().join("root/up")).unwrap();
    symlink("in", host.path().join("root/link")).unwrap();
    let root = File::open(host.path().join("root")).unwrap();
    let open = |path: &[u8], links| open_beneath(&root, path, DIR_HANDLE, links);
    assert!(open(b"", FollowLinks::Never).is_ok());
    assert!(open(b"link", FollowLinks::Beneath).is_ok());
    assert!(open(b"link", FollowLinks::Never).is_err());
    for out in [&b"up"[..], b"..", b"/", b"in/../.."] {
        assert!(open(out, FollowLinks::Beneath).is_err(), "{out:?}");
    }
    assert_eq!(boot_id().unwrap().len(), 36);
}

#[test]
fn locks_of_one_process_exclude_each_other() {
    let host = tempfile::tempdir().unwrap();
    let path = host.path().join("lock");
    let try_lock = |mode| FileLock::try_acquire(&path, mode).unwrap();
    let first = try_lock(LockMode::Shared).unwrap();
    let second = try_lock(LockMode::Shared).unwrap();
    assert!(try_lock(LockMode::Exclusive).is_none());
    drop(first);
    assert!(try_lock(LockMode::Exclusive).is_none());
    drop(second);
    let alone = try_lock(LockMode::Exclusive).unwrap();
    assert!(try_lock(LockMode::Shared).is_none());
    drop(alone);
    assert!(try_lock(LockMode::Shared).is_some());
}

/// A waiter for a lock file that is removed meanwhile does not get the lock of the removed file.
#[test]
fn a_removed_lock_file_is_noticed() {
    let host = tempfile::tempdir().unwrap();
    let path = host.path().join("lock");
    let old = FileLock::try_acquire(&path, LockMode::Exclusive)
        .unwrap()
        .unwrap();
    std::thread::scope(|scope| {
        let waiter = scope
            .spawn(|| FileLock::acquire(&path, LockMode::Exclusive, Duration::from_millis(400)));
        // Nothing shows from outside that a thread waits for the lock. If it has not begun by then,
        // the case is not tried, and the test still passes for the right reason.
        std::thread::sleep(Duration::from_millis(100));
        fs::remove_file(&path).unwrap();
        let new = FileLock::try_acquire(&path, LockMode::Exclusive).unwrap();
        assert!(new.is_some());
        drop(old);
        let got_in = waiter.join().unwrap().unwrap().is_some();
        assert!(!got_in, "two holders at once");
        drop(new);
    });
    let last = FileLock::try_acquire(&path, LockMode::Exclusive)
        .unwrap()
        .unwrap();
    last.remove().unwrap();
    assert!(!path.exists());
}
