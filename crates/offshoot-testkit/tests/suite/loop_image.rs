//! Loop images are real, leave nothing behind, and their copies are power cuts.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use offshoot_testkit::{FileSystem, LoopImage, skip, wait_until};

const MIB: u64 = 1 << 20;

/// Whether any mount or loop device of this machine still refers to `path`.
fn is_left_behind(path: &Path) -> bool {
    let text = path.to_str().expect("a UTF-8 path");
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let devices = fs::read_dir("/sys/block")
        .expect("sysfs")
        .filter_map(Result::ok);
    let mut backing =
        devices.filter_map(|entry| fs::read_to_string(entry.path().join("loop/backing_file")).ok());
    mounts.contains(text) || backing.any(|file| file.contains(text)) || path.exists()
}

fn write_synced(path: &Path, content: &[u8]) {
    let mut file = File::create(path).expect("create");
    file.write_all(content).expect("write");
    file.sync_all().expect("fsync");
    let parent = path.parent().expect("a parent");
    File::open(parent)
        .and_then(|dir| dir.sync_all())
        .expect("fsync of the directory");
}

fn create_use_and_drop(kind: FileSystem, bytes: u64) {
    if let Some(reason) = LoopImage::unavailable(kind) {
        return skip(&reason);
    }
    let image = LoopImage::create(kind, bytes);
    let point = image.path().to_owned();
    assert!(kind.holds(&point));
    assert!(
        is_left_behind(&point),
        "the check itself must be able to fail"
    );
    fs::write(point.join("file"), "content").expect("write");
    drop(image);
    assert!(!is_left_behind(point.parent().expect("a parent")));
}

#[test]
fn loop_ext4_is_mounted_and_cleaned_up() {
    create_use_and_drop(FileSystem::Ext4, 32 * MIB);
}

#[test]
fn loop_btrfs_is_mounted_and_cleaned_up() {
    create_use_and_drop(FileSystem::Btrfs, 160 * MIB);
}

#[test]
fn loop_xfs_is_mounted_and_cleaned_up() {
    create_use_and_drop(FileSystem::Xfs, 320 * MIB);
}

#[test]
fn loop_a_panicking_test_leaves_no_device() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let outcome = std::thread::spawn(move || {
        let image = LoopImage::create_for_power_cut(FileSystem::Ext4, 32 * MIB);
        let outer = fs::read_to_string(format!(
            "/sys/block/{}/loop/backing_file",
            image
                .device()
                .file_name()
                .expect("a name")
                .to_str()
                .expect("UTF-8")
        ));
        let outer = PathBuf::from(outer.expect("a backing file").trim());
        let outer = outer.parent().expect("the outer mount").to_owned();
        sender
            .send([image.path().to_owned(), outer])
            .expect("the other end lives");
        panic!("on purpose");
    })
    .join();
    assert!(outcome.is_err());
    for path in receiver.recv().expect("both mount points") {
        assert!(
            !is_left_behind(path.parent().expect("a parent")),
            "{}",
            path.display()
        );
    }
}

#[test]
fn loop_a_full_image_says_so() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let image = LoopImage::create(FileSystem::Ext4, 16 * MIB);
    let written = fs::write(image.path().join("large"), vec![1; 32 << 20]);
    assert_eq!(
        written.expect_err("it is too large").kind(),
        std::io::ErrorKind::StorageFull
    );
}

#[test]
fn power_copy_holds_what_was_synced_and_not_the_rest() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let image = LoopImage::create_for_power_cut(FileSystem::Ext4, 32 * MIB);
    let content = vec![7; 10_000];
    let mut lost = 0;
    // Another process may sync the whole machine at any time, so one round proves nothing.
    for round in 0..3 {
        let name = |what: &str| format!("{what}-{round}");
        write_synced(&image.path().join(name("synced")), &content);
        fs::write(image.path().join(name("unsynced")), &content).expect("write");
        // Commits the transaction that holds the name of the unsynced file, but not its content.
        write_synced(&image.path().join(name("synced-after")), &content);
        fs::write(image.path().join(name("last")), &content).expect("write");
        let after = image.copy_image().mount();
        for what in ["synced", "synced-after"] {
            let found = fs::read(after.path().join(name(what)));
            assert_eq!(found.expect("a synced file is there"), content);
        }
        for what in ["unsynced", "last"] {
            let found = fs::read(after.path().join(name(what)));
            lost += usize::from(found.map_or(true, |found| found != content));
            let live = fs::read(image.path().join(name(what)));
            assert_eq!(live.expect("the original lost nothing"), content);
        }
    }
    assert!(lost > 0, "a copy that loses nothing is not a power cut");
}

#[test]
fn power_copy_of_xfs_can_be_mounted_beside_it() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Xfs) {
        return skip(&reason);
    }
    let image = LoopImage::create_for_power_cut(FileSystem::Xfs, 320 * MIB);
    write_synced(&image.path().join("synced"), b"content");
    let after = image.copy_image().mount();
    assert_eq!(
        fs::read(after.path().join("synced")).expect("it is there"),
        b"content"
    );
}

/// The copy is of one instant: every file that was acknowledged before it is whole in it, and the
/// file system needs no repair beyond its journal.
#[test]
fn power_copies_under_load_are_consistent() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let image = LoopImage::create_for_power_cut(FileSystem::Ext4, 64 * MIB);
    let acknowledged = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let content_of = |number: usize| vec![number as u8; 3000 + number % 5000];
    std::thread::scope(|scope| {
        // The load ends also when an assertion below panics; the scope would wait for it forever.
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let dir = image.path().join(format!("dir{}", number % 7));
                fs::create_dir_all(&dir).expect("mkdir");
                File::open(image.path())
                    .and_then(|top| top.sync_all())
                    .expect("fsync");
                write_synced(&dir.join(number.to_string()), &content_of(number));
                acknowledged.store(number + 1, Ordering::SeqCst);
            }
        });
        for cut in 1..=4 {
            wait_until("the load advances", || {
                acknowledged.load(Ordering::SeqCst) >= cut * 15
            });
            let promised = acknowledged.load(Ordering::SeqCst);
            let copy = image.copy_image();
            assert_sound(copy.image());
            let after = copy.mount();
            for number in 0..promised {
                let path = after.path().join(format!("dir{}/{number}", number % 7));
                let found = fs::read(&path);
                assert!(
                    found.is_ok_and(|found| found == content_of(number)),
                    "{number} is lost"
                );
            }
        }
    });
}

/// Replays the journal in a copy of `image` and lets e2fsck look for anything it did not repair.
fn assert_sound(image: &Path) {
    let dir = tempfile::tempdir().expect("temp dir");
    let replayed = dir.path().join("replayed");
    fs::copy(image, &replayed).expect("copy");
    // 0: nothing to do; 1: the journal was replayed.
    let replay = e2fsck(&["-p", "-E", "journal_only"], &replayed);
    assert!(matches!(replay.status.code(), Some(0 | 1)), "{replay:?}");
    let check = e2fsck(&["-f", "-n"], &replayed);
    assert!(
        check.status.success(),
        "{}",
        String::from_utf8_lossy(&check.stdout)
    );
}

fn e2fsck(options: &[&str], image: &Path) -> Output {
    let mut command = Command::new("e2fsck");
    command
        .args(options)
        .arg(image)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    command.output().expect("e2fsck runs")
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
