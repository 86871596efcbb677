//! What a fork shows, and which changes are found in it.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, symlink};

use super::fixture::LayerItem::{Dir, File, FileMode, Link, Opaque, Whiteout, WhiteoutByAttribute};
use super::fixture::{Fixture, is_root, mode, names, rel, set_mode};
use crate::DifferenceKind;

pub(super) fn basic(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        File("foo", "foo"),
        File("a/b/c/deep", "deep"),
        File("a/kept", "kept"),
    ]);
    let fork = fixture.fork(&[&layer]);
    assert_eq!(fork.read("foo"), "foo");
    assert_eq!(fork.read("a/b/c/deep"), "deep");
    assert!(fork.lines().is_empty(), "nothing has changed yet");
    fork.write("bar", "bar");
    fork.write("foo", "changed");
    fs::remove_dir_all(fork.path("a/b")).unwrap();
    assert_eq!(fork.lines(), ["- a/b", "+ bar", "? foo"]);
    assert_eq!(names(&fork.dirs.target), ["a", "bar", "foo"]);
    let found = fork.changes();
    assert_eq!(found[2].base.unwrap().size, 3);
    assert_eq!(found[2].now.unwrap().size, 7);
    assert_eq!(found[0].base.unwrap().kind, crate::FileKind::Dir);
    // What changed can be frozen, and a fork of that shows the same.
    let delta = fixture.fresh("delta");
    fork.delta(&delta);
    let next = fixture.fork(&[&delta, &layer]);
    assert_eq!(next.image(), fork.image());
    assert!(next.lines().is_empty());
}

pub(super) fn newer_layers_win(fixture: &Fixture<'_>) {
    let oldest = fixture.layer(&[File("all", "1"), File("d/one", "1"), File("d/both", "1")]);
    let middle = fixture.layer(&[File("all", "2"), File("d/both", "2")]);
    let newest = fixture.layer(&[File("all", "3"), File("d/three", "3")]);
    let fork = fixture.fork(&[&newest, &middle, &oldest]);
    for (name, content) in [
        ("all", "3"),
        ("d/one", "1"),
        ("d/both", "2"),
        ("d/three", "3"),
    ] {
        assert_eq!(fork.read(name), content);
    }
    fs::remove_file(fork.path("all")).unwrap();
    fork.write("d/both", "now");
    assert_eq!(fork.lines(), ["- all", "? d/both"]);
}

pub(super) fn updated_in_many_layers(fixture: &Fixture<'_>) {
    let mut layers = Vec::new();
    for number in 0..6 {
        let own = format!("own-{number}");
        let content = format!("content {number}");
        let mut parts = vec![File("etc/hosts", &content), File(&own, &content)];
        let last = format!("own-{}", number - 1);
        if number > 0 {
            parts.push(Whiteout(&last));
        }
        layers.insert(0, fixture.layer(&parts));
    }
    let fork = fixture.fork(&layers.iter().collect::<Vec<_>>());
    assert_eq!(fork.read("etc/hosts"), "content 5");
    assert_eq!(names(&fork.dirs.target), ["etc", "own-5"]);
    fork.write("own-3", "back");
    assert_eq!(fork.lines(), ["+ own-3"], "it was gone in the layers");
}

pub(super) fn deleted_files(fixture: &Fixture<'_>) {
    let base = fixture.layer(&[File("gone", "x"), File("kept", "x"), File("dir/f", "x")]);
    let delta = fixture.layer(&[Whiteout("gone"), Whiteout("dir"), Whiteout("never-was")]);
    let empty = fixture.layer(&[]);
    let fork = fixture.fork(&[&empty, &delta, &base]);
    assert_eq!(names(&fork.dirs.target), ["kept"]);
    assert!(fork.lines().is_empty());
    fs::remove_file(fork.path("kept")).unwrap();
    fork.write("temporary", "x");
    fs::remove_file(fork.path("temporary")).unwrap();
    assert_eq!(fork.lines(), ["- kept"]);
    fork.write("gone", "new");
    fork.write("kept", "x");
    assert_eq!(fork.lines(), ["+ gone", "? kept"]);
}

pub(super) fn whiteouts_of_both_forms(fixture: &Fixture<'_>) {
    let base = fixture.layer(&[
        File("d/one", "x"),
        File("d/two", "x"),
        File("top", "x"),
        File("sub/f", "x"),
        File("e/empty", ""),
    ]);
    let delta = fixture.layer(&[
        Whiteout("d/one"),
        WhiteoutByAttribute("d/two"),
        WhiteoutByAttribute("top"),
        WhiteoutByAttribute("sub"),
        File("d/empty", ""),
    ]);
    let fork = fixture.fork(&[&delta, &base]);
    assert_eq!(names(&fork.dirs.target), ["d", "e"]);
    assert_eq!(names(&fork.path("d")), ["empty"]);
    assert_eq!(names(&fork.path("e")), ["empty"]);
    assert!(fork.lines().is_empty());
    fork.write("d/two", "new");
    fork.write("top", "new");
    fs::remove_file(fork.path("d/empty")).unwrap();
    assert_eq!(fork.lines(), ["- d/empty", "+ d/two", "+ top"]);
}

pub(super) fn removed_then_made_again(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        File("d/old", "x"),
        File("d/sub/f", "x"),
        File("d/both", "x"),
    ]);
    let fork = fixture.fork(&[&layer]);
    fs::remove_dir_all(fork.path("d")).unwrap();
    assert_eq!(fork.lines(), ["- d"]);
    fs::create_dir(fork.path("d")).unwrap();
    set_mode(&fork.path("d"), 0o755);
    assert_eq!(fork.lines(), ["- d/both", "- d/old", "- d/sub"]);
    fork.write("d/new", "n");
    fork.write("d/both", "n");
    fs::create_dir(fork.path("d/sub")).unwrap();
    set_mode(&fork.path("d/sub"), 0o755);
    assert_eq!(
        fork.lines(),
        ["? d/both", "+ d/new", "- d/old", "- d/sub/f"]
    );
    assert_eq!(names(&fork.path("d")), ["both", "new", "sub"]);
}

pub(super) fn opaque_directories(fixture: &Fixture<'_>) {
    let base = fixture.layer(&[
        File("d/old", "x"),
        File("d/sub/f", "x"),
        File("e/kept", "x"),
    ]);
    let delta = fixture.layer(&[
        Opaque("d", 0o755),
        File("d/new", "x"),
        Dir("d/sub", 0o755),
        Opaque("e/inner", 0o755),
    ]);
    let newest = fixture.layer(&[File("d/newest", "x")]);
    let fork = fixture.fork(&[&newest, &delta, &base]);
    assert_eq!(names(&fork.path("d")), ["new", "newest", "sub"]);
    assert!(names(&fork.path("d/sub")).is_empty());
    assert_eq!(names(&fork.path("e")), ["inner", "kept"]);
    fork.write("d/old", "again");
    fork.write("d/sub/f", "again");
    assert_eq!(fork.lines(), ["+ d/old", "+ d/sub/f"]);
    fs::remove_dir_all(fork.path("d")).unwrap();
    assert_eq!(fork.lines(), ["- d"]);
}

pub(super) fn rename_files(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("d/one", "1"), File("two", "2"), File("three", "3")]);
    let fork = fixture.fork(&[&layer]);
    fs::rename(fork.path("d/one"), fork.path("moved")).unwrap();
    fs::rename(fork.path("two"), fork.path("three")).unwrap();
    assert_eq!(fork.lines(), ["- d/one", "+ moved", "? three", "- two"]);
    assert_eq!(
        (fork.read("moved"), fork.read("three")),
        ("1".into(), "2".into())
    );
    fs::rename(fork.path("moved"), fork.path("d/one")).unwrap();
    assert_eq!(fork.lines(), ["? d/one", "? three", "- two"]);
}

pub(super) fn rename_directories(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        File("d/one", "1"),
        File("d/sub/two", "2"),
        Link("d/link", "one"),
        File("other/three", "3"),
    ]);
    let fork = fixture.fork(&[&layer]);
    let renamed = fs::rename(fork.path("d"), fork.path("e"));
    if !fixture.provider.capabilities().renames_base_dirs {
        assert_eq!(
            renamed.unwrap_err().kind(),
            std::io::ErrorKind::CrossesDevices
        );
        return;
    }
    renamed.unwrap();
    let moved = [
        "- d",
        "+ e",
        "+ e/link",
        "+ e/one",
        "+ e/sub",
        "+ e/sub/two",
    ];
    assert_eq!(fork.lines(), moved);
    assert_eq!(
        (fork.read("e/one"), fork.read("e/sub/two")),
        ("1".into(), "2".into())
    );
    for found in fork.changes() {
        let untouched = match found.path.to_text().as_str() {
            "e/one" => Some("d/one"),
            "e/sub/two" => Some("d/sub/two"),
            "e/link" => Some("d/link"),
            _ => None,
        };
        // Only an overlay knows where content comes from.
        let expected = untouched.filter(|_| fixture.mounts()).map(rel);
        assert_eq!(found.content_of, expected, "{}", found.path);
    }
    fork.write("e/one", "changed");
    fs::remove_file(fork.path("e/sub/two")).unwrap();
    fork.write("e/new", "n");
    let expected = ["- d", "+ e", "+ e/link", "+ e/new", "+ e/one", "+ e/sub"];
    assert_eq!(fork.lines(), expected);
    let one = fork
        .changes()
        .into_iter()
        .find(|found| found.path == rel("e/one"));
    assert_eq!(one.unwrap().content_of, None, "it was changed");
    // Over another directory of the base.
    fs::remove_dir_all(fork.path("other")).unwrap();
    fs::rename(fork.path("e"), fork.path("other")).unwrap();
    let expected = [
        "- d",
        "+ other/link",
        "+ other/new",
        "+ other/one",
        "+ other/sub",
        "- other/three",
    ];
    assert_eq!(fork.lines(), expected);
}

pub(super) fn rename_chains(fixture: &Fixture<'_>) {
    if !fixture.provider.capabilities().renames_base_dirs {
        return;
    }
    let oldest = fixture.layer(&[File("a/b/c/f", "1"), File("a/b/g", "2"), File("x/y", "3")]);
    let newest = fixture.layer(&[File("a/b/h", "4"), Whiteout("a/b/g")]);
    let fork = fixture.fork(&[&newest, &oldest]);
    fs::rename(fork.path("a/b"), fork.path("a/r")).unwrap();
    fs::rename(fork.path("a/r/c"), fork.path("x/c")).unwrap();
    fs::rename(fork.path("a"), fork.path("x/a")).unwrap();
    let expected = ["- a", "+ x/a", "+ x/a/r", "+ x/a/r/h", "+ x/c", "+ x/c/f"];
    assert_eq!(fork.lines(), expected);
    assert_eq!(
        (fork.read("x/c/f"), fork.read("x/a/r/h")),
        ("1".into(), "4".into())
    );
    // There and back again: only what is really elsewhere counts.
    fs::rename(fork.path("x/a"), fork.path("a")).unwrap();
    fs::rename(fork.path("a/r"), fork.path("a/b")).unwrap();
    fs::rename(fork.path("x/c"), fork.path("a/b/c")).unwrap();
    assert!(fork.lines().is_empty(), "{:?}", fork.lines());
    // Two directories change places.
    fs::rename(fork.path("a"), fork.path("swap")).unwrap();
    fs::rename(fork.path("x"), fork.path("a")).unwrap();
    fs::rename(fork.path("swap"), fork.path("x")).unwrap();
    let expected = [
        "- a/b",
        "+ a/y",
        "+ x/b",
        "+ x/b/c",
        "+ x/b/c/f",
        "+ x/b/h",
        "- x/y",
    ];
    assert_eq!(fork.lines(), expected);
}

pub(super) fn modes(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        FileMode("script", "x", 0o755),
        FileMode("secret", "x", 0o600),
        Dir("private", 0o700),
        Dir("sticky", 0o1777),
        File("private/f", "x"),
    ]);
    let fork = fixture.fork(&[&layer]);
    for (name, expected) in [
        ("script", 0o755),
        ("secret", 0o600),
        ("private", 0o700),
        ("sticky", 0o1777),
    ] {
        assert_eq!(mode(&fork.path(name)), expected, "{name}");
    }
    set_mode(&fork.path("script"), 0o644);
    set_mode(&fork.path("private"), 0o750);
    assert_eq!(fork.lines(), ["m private", "? script"]);
    let script = &fork.changes()[1];
    assert_eq!(
        (script.base.unwrap().perm, script.now.unwrap().perm),
        (0o755, 0o644)
    );
    set_mode(&fork.path("private"), 0o700);
    assert_eq!(fork.lines(), ["? script"]);
}

pub(super) fn directory_modes_in_layers(fixture: &Fixture<'_>) {
    let base = fixture.layer(&[Dir("d", 0o700), Dir("d/in", 0o711), File("d/in/f", "x")]);
    let delta = fixture.layer(&[Dir("d", 0o755), Dir("d/in", 0o711), File("d/in/g", "x")]);
    let fork = fixture.fork(&[&delta, &base]);
    assert_eq!(
        (mode(&fork.path("d")), mode(&fork.path("d/in"))),
        (0o755, 0o711)
    );
    fork.write("d/in/f", "changed");
    assert_eq!(fork.lines(), ["? d/in/f"]);
}

pub(super) fn root_mode(fixture: &Fixture<'_>) {
    for perm in [0o755, 0o750, 0o777] {
        let layer = fixture.layer(&[Dir(".", perm), File("f", "x")]);
        let fork = fixture.fork(&[&layer]);
        assert_eq!(mode(&fork.dirs.target), perm);
    }
}

pub(super) fn owners(fixture: &Fixture<'_>) {
    if !is_root() {
        return;
    }
    let place = fixture.fresh("layer");
    let owner = crate::Owner {
        uid: 1234,
        gid: 2345,
    };
    let mut layer = crate::LayerWriter::for_owner(&place, Some(owner)).unwrap();
    layer.file(&rel("d/f"), 0o644, &mut &b"x"[..]).unwrap();
    layer.symlink(&rel("d/l"), b"f").unwrap();
    layer.finish().unwrap();
    let fork = fixture.fork(&[&place]);
    for name in [".", "d", "d/f", "d/l"] {
        let stat = fs::symlink_metadata(fork.path(name)).unwrap();
        assert_eq!((stat.uid(), stat.gid()), (1234, 2345), "{name}");
    }
    std::os::unix::fs::chown(fork.path("d/f"), Some(1), Some(2)).unwrap();
    let stat = fs::metadata(fork.path("d/f")).unwrap();
    assert_eq!((stat.uid(), stat.gid()), (1, 2));
    assert_eq!(fork.lines(), ["? d/f"]);
}

pub(super) fn symbolic_links(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        Link("link", "file"),
        Link("dangling", "nowhere/at all"),
        Link("dirlink", "d"),
        File("file", "x"),
        File("d/f", "x"),
    ]);
    let fork = fixture.fork(&[&layer]);
    assert_eq!(fork.read("link"), "x");
    assert_eq!(fork.read("dirlink/f"), "x");
    assert_eq!(
        fs::read_link(fork.path("dangling")).unwrap().to_str(),
        Some("nowhere/at all")
    );
    fork.write("link", "through the link");
    assert_eq!(fork.lines(), ["? file"]);
    fs::remove_file(fork.path("link")).unwrap();
    symlink("d/f", fork.path("link")).unwrap();
    fs::remove_file(fork.path("dirlink")).unwrap();
    fs::create_dir(fork.path("dirlink")).unwrap();
    fs::remove_file(fork.path("file")).unwrap();
    symlink("d/f", fork.path("file")).unwrap();
    assert_eq!(fork.lines(), ["t dirlink", "t file", "? link"]);
}

pub(super) fn hard_links(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("one", "x"), File("d/two", "x")]);
    let fork = fixture.fork(&[&layer]);
    fs::hard_link(fork.path("one"), fork.path("d/three")).unwrap();
    fs::hard_link(fork.path("d/three"), fork.path("four")).unwrap();
    fork.write("four", "all three");
    assert_eq!(fork.read("one"), "all three");
    assert_eq!(fork.read("d/three"), "all three");
    assert_eq!(fork.lines(), ["+ d/three", "+ four", "? one"]);
    fs::remove_file(fork.path("one")).unwrap();
    assert_eq!(fork.lines(), ["+ d/three", "+ four", "- one"]);
    // As a layer they are separate files.
    let delta = fixture.fresh("delta");
    fork.delta(&delta);
    let next = fixture.fork(&[&delta, &layer]);
    next.write("four", "alone");
    assert_eq!(next.read("d/three"), "all three");
}

pub(super) fn type_changes(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        File("file", "x"),
        File("dir/f", "x"),
        File("dir/sub/g", "x"),
    ]);
    let fork = fixture.fork(&[&layer]);
    fs::remove_file(fork.path("file")).unwrap();
    fs::create_dir(fork.path("file")).unwrap();
    fork.write("file/inside", "x");
    fs::remove_dir_all(fork.path("dir")).unwrap();
    fork.write("dir", "a file now");
    assert_eq!(fork.lines(), ["t dir", "t file", "+ file/inside"]);
    let delta = fixture.fresh("delta");
    fork.delta(&delta);
    let next = fixture.fork(&[&delta, &layer]);
    assert_eq!(next.image(), fork.image());
    fs::remove_file(next.path("dir")).unwrap();
    fs::create_dir_all(next.path("dir/sub")).unwrap();
    set_mode(&next.path("dir"), 0o755);
    assert_eq!(next.lines(), ["t dir", "+ dir/sub"]);
    assert!(
        names(&next.path("dir/sub")).is_empty(),
        "the oldest layer shows through"
    );
}

pub(super) fn touched_files(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        File("opened", "x"),
        File("bits", "x"),
        File("times", "x"),
        File("read", "x"),
    ]);
    let fork = fixture.fork(&[&layer]);
    drop(
        fs::File::options()
            .read(true)
            .write(true)
            .open(fork.path("opened"))
            .unwrap(),
    );
    set_mode(&fork.path("bits"), 0o600);
    set_mode(&fork.path("bits"), 0o644);
    let file = fs::File::options()
        .write(true)
        .open(fork.path("times"))
        .unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    fork.read("read");
    for found in fork.changes() {
        assert_eq!(found.kind(), DifferenceKind::Maybe);
        assert_ne!(found.path, rel("read"));
        assert_eq!(found.base.unwrap().size, found.now.unwrap().size);
    }
    // A change that keeps size and time is seen too.
    let before = fs::metadata(fork.path("read")).unwrap().modified().unwrap();
    let file = fs::File::options()
        .write(true)
        .open(fork.path("read"))
        .unwrap();
    (&file).write_all(b"y").unwrap();
    file.set_modified(before).unwrap();
    assert!(fork.changes().iter().any(|found| found.path == rel("read")));
}

pub(super) fn large_files(fixture: &Fixture<'_>) {
    let content = "0123456789abcdef".repeat(1 << 19);
    let layer = fixture.layer(&[File("large", &content)]);
    let fork = fixture.fork(&[&layer]);
    let mut file = fs::File::options()
        .append(true)
        .open(fork.path("large"))
        .unwrap();
    file.write_all(b"!").unwrap();
    let mut file = fs::File::options()
        .write(true)
        .open(fork.path("large"))
        .unwrap();
    file.seek(SeekFrom::Start(1 << 20)).unwrap();
    file.write_all(b"?").unwrap();
    let found = &fork.changes()[0];
    assert_eq!(found.now.unwrap().size, content.len() as u64 + 1);
    assert_eq!(found.base.unwrap().size, content.len() as u64);
    let now = fork.read("large");
    assert!(now.starts_with(&content[..1 << 20]) && now.ends_with('!'));
    assert_eq!(
        &now[(1 << 20) + 1..content.len()],
        &content[(1 << 20) + 1..]
    );
    assert!(fs::read(layer.join("large")).unwrap() == content.as_bytes());
}

pub(super) fn empty_directories(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[Dir("empty", 0o755), Dir("a/b/c", 0o755)]);
    let fork = fixture.fork(&[&layer]);
    assert!(names(&fork.path("empty")).is_empty());
    fs::remove_dir(fork.path("a/b/c")).unwrap();
    fs::create_dir_all(fork.path("new/deep")).unwrap();
    fs::remove_dir(fork.path("empty")).unwrap();
    assert_eq!(fork.lines(), ["- a/b/c", "- empty", "+ new", "+ new/deep"]);
}
