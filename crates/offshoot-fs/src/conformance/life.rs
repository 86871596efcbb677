//! The life cycle of forks: create, mount again, close, move, clean up.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use offshoot_core::ErrorCode;

use super::fixture::LayerItem::{Dir, File, Link};
use super::fixture::{Fixture, image, is_root, names, rel, remove, set_mode, write_layer};
use crate::{Ensured, ForkDirs, LayerState, LayerWriter, layer_state};

pub(super) fn second_fork_refused(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("f", "x")]);
    let fork = fixture.fork(&[&layer]);
    fork.write("f", "changed");
    let error = fixture
        .provider
        .create(&fork.layers, &fork.dirs)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::AlreadyExists);
    assert_eq!(fork.read("f"), "changed", "the fork is unharmed");
    // An existing target of another program is refused as well.
    let taken = ForkDirs::new(fixture.fresh("private"), fixture.fresh("target"));
    fs::create_dir(&taken.target).unwrap();
    fs::write(taken.target.join("theirs"), "x").unwrap();
    let error = fixture.provider.create(&fork.layers, &taken).unwrap_err();
    assert_eq!(error.code(), ErrorCode::AlreadyExists);
    assert_eq!(names(&taken.target), ["theirs"]);
    assert!(!taken.private.exists(), "nothing is left");
}

pub(super) fn forks_are_isolated(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("f", "base"), File("d/g", "base")]);
    let (one, two) = (fixture.fork(&[&layer]), fixture.fork(&[&layer]));
    one.write("f", "one");
    fs::remove_dir_all(two.path("d")).unwrap();
    two.write("new", "two");
    assert_eq!(
        (one.read("f"), two.read("f")),
        ("one".into(), "base".into())
    );
    assert_eq!(one.read("d/g"), "base");
    assert_eq!(one.lines(), ["? f"]);
    assert_eq!(two.lines(), ["- d", "+ new"]);
}

/// Everything about a layer that a change could touch.
fn fingerprint(dir: &Path, into: &mut Vec<(PathBuf, u32, u64, i64, i64, u64)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stat = fs::symlink_metadata(&path).unwrap();
        into.push((
            path.clone(),
            stat.mode(),
            stat.size(),
            stat.ctime(),
            stat.ctime_nsec(),
            stat.nlink(),
        ));
        if stat.is_dir() {
            fingerprint(&path, into);
        }
    }
    into.sort();
}

pub(super) fn layers_do_not_change(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        File("f", "x"),
        File("d/g", "x"),
        Link("l", "f"),
        Dir("e", 0o755),
    ]);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    fingerprint(&layer, &mut before);
    let content = image(&layer);
    let fork = fixture.fork(&[&layer]);
    fork.write("f", "changed");
    fork.write("d/new", "new");
    set_mode(&fork.path("d/g"), 0o600);
    set_mode(&fork.path("e"), 0o700);
    let _ = fs::rename(fork.path("d"), fork.path("d2"));
    fs::hard_link(fork.path("f"), fork.path("f2")).unwrap();
    fs::remove_file(fork.path("l")).unwrap();
    fixture.provider.close(&fork.dirs).unwrap();
    drop(fork);
    fingerprint(&layer, &mut after);
    assert_eq!(before, after);
    assert_eq!(content, image(&layer));
}

pub(super) fn layers_are_frozen(fixture: &Fixture<'_>) {
    let place = fixture.fresh("layer");
    assert_eq!(layer_state(&place).unwrap(), LayerState::Incomplete);
    let mut first = LayerWriter::new(&place).unwrap();
    let mut second = LayerWriter::new(&place).unwrap();
    first.file(&rel("f"), 0o644, &mut &b"first"[..]).unwrap();
    second.file(&rel("f"), 0o644, &mut &b"second"[..]).unwrap();
    let again = first
        .file(&rel("f"), 0o644, &mut &b"again"[..])
        .unwrap_err();
    assert_eq!(again.code(), ErrorCode::AlreadyExists);
    assert_eq!(layer_state(&place).unwrap(), LayerState::Incomplete);
    let counts = first.finish().unwrap();
    assert_eq!((counts.files, counts.bytes), (1, 5));
    assert_eq!(
        second.finish().unwrap_err().code(),
        ErrorCode::AlreadyExists
    );
    assert_eq!(
        LayerWriter::new(&place).unwrap_err().code(),
        ErrorCode::AlreadyExists
    );
    assert_eq!(fs::read(place.join("f")).unwrap(), b"first");
    assert_eq!(layer_state(&place).unwrap(), LayerState::Complete);
    fs::write(place.with_extension("complete"), "another boot").unwrap();
    assert_eq!(layer_state(&place).unwrap(), LayerState::CompleteBeforeBoot);
    remove(&place);
    assert_eq!(layer_state(&place).unwrap(), LayerState::Incomplete);
    assert!(names(fixture.dir).is_empty(), "nothing is left");
}

pub(super) fn unfinished_layers(fixture: &Fixture<'_>) {
    let mut layer = LayerWriter::new(fixture.fresh("layer")).unwrap();
    layer.dir(&rel("read-only"), 0o500).unwrap();
    layer
        .file(&rel("read-only/f"), 0o400, &mut &b"x"[..])
        .unwrap();
    assert_eq!(names(fixture.dir).len(), 1);
    drop(layer);
    assert!(names(fixture.dir).is_empty());
}

pub(super) fn missing_layer(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("f", "x")]);
    let dirs = ForkDirs::new(fixture.fresh("private"), fixture.fresh("target"));
    let error = fixture
        .provider
        .create(&[layer, fixture.fresh("none")], &dirs)
        .unwrap_err();
    let shown = format!("{error}");
    assert!(!shown.contains('/'), "no host path: {shown}");
    assert!(!dirs.private.exists() && !dirs.target.exists());
}

pub(super) fn ensure_is_idempotent(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("f", "x")]);
    let fork = fixture.fork(&[&layer]);
    fork.write("f", "changed");
    for _ in 0..3 {
        let ensured = fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
        assert_eq!(ensured, Ensured::Present);
    }
    assert_eq!(fork.read("f"), "changed");
    let nowhere = ForkDirs::new(fixture.fresh("private"), fixture.fresh("target"));
    assert!(fixture.provider.ensure(&fork.layers, &nowhere).is_err());
    assert!(!nowhere.target.exists());
}

pub(super) fn close_and_ensure(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("f", "x"), File("d/g", "x")]);
    let fork = fixture.fork(&[&layer]);
    fork.write("f", "changed");
    fs::remove_dir_all(fork.path("d")).unwrap();
    let (before, lines) = (fork.image(), fork.lines());
    for _ in 0..2 {
        fixture.provider.close(&fork.dirs).unwrap();
        fixture.provider.close(&fork.dirs).unwrap();
        assert_eq!(fork.lines(), lines, "changes are known without a mount");
        let ensured = fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
        assert_eq!(ensured == Ensured::Mounted, fixture.mounts());
        assert_eq!(fork.image(), before);
    }
}

pub(super) fn bare_target(fixture: &Fixture<'_>) {
    if !fixture.mounts() {
        return;
    }
    let layer = fixture.layer(&[File("f", "x")]);
    let fork = fixture.fork(&[&layer]);
    fork.write("f", "changed");
    fixture.provider.close(&fork.dirs).unwrap();
    assert!(names(&fork.dirs.target).is_empty());
    if !is_root() {
        return;
    }
    assert!(fs::write(fork.path("lost"), "x").is_err());
    assert!(fs::write(fork.path("f"), "x").is_err());
    assert!(fs::create_dir(fork.path("lost")).is_err());
    assert!(std::os::unix::fs::symlink("f", fork.path("lost")).is_err());
    assert!(fs::rename(&layer, fork.path("lost")).is_err());
    assert!(fs::remove_dir(&fork.dirs.target).is_err());
    fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
    assert_eq!(names(&fork.dirs.target), ["f"]);
    assert_eq!(fork.read("f"), "changed");
    fork.write("works", "again");
}

/// On a file system without the flag a program may write to a bare target: that is not buried.
pub(super) fn occupied_target(fixture: &Fixture<'_>) {
    if !fixture.mounts() {
        return;
    }
    let layer = fixture.layer(&[File("f", "x")]);
    let fork = fixture.fork(&[&layer]);
    fixture.provider.close(&fork.dirs).unwrap();
    let bare = fs::File::open(&fork.dirs.target).unwrap();
    offshoot_sys::set_immutable(&bare, false).unwrap();
    drop(bare);
    fork.write("written", "to the bare target");
    let error = fixture
        .provider
        .ensure(&fork.layers, &fork.dirs)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::AlreadyExists);
    assert!(fixture.provider.cleanup(&fork.dirs).is_err());
    assert_eq!(fork.read("written"), "to the bare target");
    fs::remove_file(fork.path("written")).unwrap();
    fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
}

pub(super) fn close_while_in_use(fixture: &Fixture<'_>) {
    if !fixture.mounts() {
        return;
    }
    let layer = fixture.layer(&[File("f", "x")]);
    let fork = fixture.fork(&[&layer]);
    let open = fs::File::open(fork.path("f")).unwrap();
    let error = fixture.provider.close(&fork.dirs).unwrap_err();
    assert_eq!(error.code(), ErrorCode::WorkspaceBusy);
    assert_eq!(fork.read("f"), "x", "it is still mounted");
    drop(open);
    fixture.provider.close(&fork.dirs).unwrap();
}

/// A place that must not be mounted, and is not when this is dropped.
struct Unmounted<'a>(&'a Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = offshoot_sys::unmount_lazily(self.0);
        if let Ok(bare) = fs::File::open(self.0) {
            let _ = offshoot_sys::set_immutable(&bare, false);
        }
        let _ = fs::remove_dir(self.0);
    }
}

pub(super) fn one_mount_per_upper(fixture: &Fixture<'_>) {
    if !fixture.mounts() {
        return;
    }
    let layer = fixture.layer(&[File("f", "x")]);
    let fork = fixture.fork(&[&layer]);
    let elsewhere = ForkDirs::new(&fork.dirs.private, fixture.fresh("target"));
    let _guard = Unmounted(&elsewhere.target);
    let error = fixture
        .provider
        .ensure(&fork.layers, &elsewhere)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::WorkspaceBusy);
    assert!(names(&elsewhere.target).is_empty());
    let error = fixture
        .provider
        .create(&fork.layers, &elsewhere)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::AlreadyExists);
    // Concurrent calls get the same mount.
    for _ in 0..20 {
        fixture.provider.close(&fork.dirs).unwrap();
        let mounted = AtomicUsize::new(0);
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    let ensured = fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
                    let once = usize::from(ensured == Ensured::Mounted);
                    mounted.fetch_add(once, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(mounted.into_inner(), 1);
    }
    fixture.provider.close(&fork.dirs).unwrap();
    assert!(
        names(&fork.dirs.target).is_empty(),
        "there was one mount only"
    );
}

pub(super) fn moved_target(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("f", "x"), File("gone", "x")]);
    let mut fork = fixture.fork(&[&layer]);
    fork.write("f", "changed");
    fs::remove_file(fork.path("gone")).unwrap();
    let (before, lines) = (fork.image(), fork.lines());
    let move_to = |dirs: &ForkDirs, target: &Path| {
        fixture
            .provider
            .move_target(std::slice::from_ref(&layer), dirs, target)
    };
    let taken = fixture.fork(&[&layer]);
    let error = move_to(&fork.dirs, &taken.dirs.target).unwrap_err();
    assert_eq!(error.code(), ErrorCode::AlreadyExists);
    assert_eq!(fork.image(), before);
    // As when a fork takes the place of another one.
    let place = taken.dirs.target.clone();
    drop(taken);
    let old = fork.dirs.target.clone();
    fork.dirs = move_to(&fork.dirs, &place).unwrap();
    assert_eq!(fork.dirs.target, place);
    assert_eq!((fork.image(), fork.lines()), (before, lines));
    assert!(!old.exists());
    fixture.provider.close(&fork.dirs).unwrap();
    fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
    fork.write("works", "here");
}

pub(super) fn other_layers_refused(fixture: &Fixture<'_>) {
    if !fixture.mounts() {
        return;
    }
    let (layer, other) = (
        fixture.layer(&[File("f", "x")]),
        fixture.layer(&[File("f", "y")]),
    );
    let fork = fixture.fork(&[&layer]);
    fixture.provider.close(&fork.dirs).unwrap();
    assert!(
        fixture
            .provider
            .ensure(std::slice::from_ref(&other), &fork.dirs)
            .is_err()
    );
    assert!(
        fixture
            .provider
            .ensure(&[other, layer], &fork.dirs)
            .is_err()
    );
    fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
}

pub(super) fn cleanup_twice(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("f", "x"), Dir("read-only", 0o555)]);
    let fork = fixture.fork(&[&layer]);
    fork.write("f", "changed");
    fs::write(fork.dirs.private.join("fork.json"), "{}").unwrap();
    fixture.provider.cleanup(&fork.dirs).unwrap();
    assert!(!fork.dirs.target.exists() && !fork.dirs.private.exists());
    fixture.provider.cleanup(&fork.dirs).unwrap();
    // The names of a removed fork can be used again.
    fixture.provider.create(&fork.layers, &fork.dirs).unwrap();
    assert_eq!(fork.read("f"), "x");
    // Half of it is gone, as after a killed clean-up.
    fixture.provider.close(&fork.dirs).unwrap();
    fs::remove_dir_all(&fork.dirs.private).unwrap();
    fixture.provider.cleanup(&fork.dirs).unwrap();
    assert!(!fork.dirs.target.exists());
}

pub(super) fn cleanup_while_in_use(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("f", "content")]);
    let fork = fixture.fork(&[&layer]);
    let mut open = fs::File::open(fork.path("f")).unwrap();
    fixture.provider.cleanup(&fork.dirs).unwrap();
    assert!(!fork.dirs.target.exists() && !fork.dirs.private.exists());
    let mut content = String::new();
    std::io::Read::read_to_string(&mut open, &mut content).unwrap();
    assert_eq!(content, "content");
}

pub(super) fn lost_record(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("same", "x"), File("changed", "x"), File("gone/f", "x")]);
    let fork = fixture.fork(&[&layer]);
    fork.write("changed", "y");
    fs::remove_dir_all(fork.path("gone")).unwrap();
    let _ = fs::remove_file(fork.dirs.private.join("record"));
    let lines = fork.lines();
    assert!(lines.contains(&"? changed".to_owned()) && lines.contains(&"- gone".to_owned()));
    assert!(
        lines
            .iter()
            .all(|line| line == "? same" || line.ends_with("changed") || line == "- gone")
    );
}

pub(super) fn changes_under_load(fixture: &Fixture<'_>) {
    let place = fixture.fresh("layer");
    write_layer(&place, &[File("steady", "x"), File("d/e/f", "x")]);
    let fork = fixture.fork(&[&place]);
    fork.write("steady", "changed");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let dir = fork.path(&format!("busy{}/in", number % 3));
                let _ = fs::create_dir_all(&dir);
                let _ = fs::write(dir.join("f"), "x");
                let _ = fs::remove_dir_all(fork.path(&format!("busy{}", (number + 1) % 3)));
                let _ = fs::remove_dir_all(fork.path("d"));
                let _ = fs::create_dir_all(fork.path("d/e"));
            }
        });
        for _ in 0..100 {
            let found = fixture.provider.changes(&fork.layers, &fork.dirs);
            let seen = found.map(|found| found.iter().any(|found| found.path == rel("steady")));
            if !matches!(seen, Ok(true)) {
                stop.store(true, Ordering::SeqCst);
                panic!("a change was not seen: {seen:?}");
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
}
