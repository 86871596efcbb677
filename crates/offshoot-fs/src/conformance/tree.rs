//! Flattening a stack of layers gives the tree that a fork shows.

use std::fs;
use std::path::PathBuf;

use super::fixture::LayerItem::{Dir, File, Link, Opaque, Whiteout};
use super::fixture::{Fixture, Node, TreeImage, names, rel, remove, sign, write_layer};
use crate::{FileKind, ForkDirs, LayerStack, MAX_LAYERS};

/// What [`LayerStack::flatten`] shows, as a value.
fn flattened(layers: &[PathBuf]) -> TreeImage {
    let stack = LayerStack::open(layers).unwrap();
    let mut image = TreeImage::new();
    for entry in stack.flatten() {
        let entry = entry.unwrap();
        let above = entry.path.parent().unwrap();
        assert!(
            above.is_root() || image.contains_key(&above),
            "a directory comes first"
        );
        assert_eq!(stack.lookup(&entry.path).unwrap().as_ref(), Some(&entry));
        let node = match entry.stat.kind {
            FileKind::Dir => Node::Dir(entry.stat.perm),
            FileKind::Symlink => Node::Link(stack.read_link(&entry).unwrap()),
            _ => {
                let mut content = Vec::new();
                let mut file = stack.open_file(&entry).unwrap();
                std::io::Read::read_to_end(&mut file, &mut content).unwrap();
                Node::File(entry.stat.perm, content)
            }
        };
        assert_eq!(image.insert(entry.path, node), None, "each path once");
    }
    image
}

pub(super) fn flatten_is_the_fork(fixture: &Fixture<'_>) {
    let base = fixture.layer(&[
        File("d/f", "1"),
        File("d/g", "2"),
        Dir("empty", 0o700),
        Link("l", "d"),
        File("e/x/y", "3"),
        File("file", "4"),
        File("was-dir/f", "5"),
    ]);
    let delta = fixture.layer(&[
        Whiteout("d/f"),
        Opaque("e", 0o755),
        File("e/z", "6"),
        File("l/now-a-dir", "7"),
        File("was-dir", "8"),
        Whiteout("file"),
    ]);
    let newest = fixture.layer(&[
        File("d/f", "9"),
        File("file/in", "10"),
        Dir("was-dir", 0o711),
    ]);
    let fork = fixture.fork(&[&newest, &delta, &base]);
    assert_eq!(flattened(&fork.layers), fork.image());
    assert_eq!(names(&fork.path("was-dir")), [""; 0]);
    let stack = LayerStack::open(&fork.layers).unwrap();
    for absent in [
        "e/x",
        "e/x/y",
        "d/none",
        "none/none",
        "l/f",
        "was-dir/f",
        "d/f/below",
    ] {
        assert_eq!(stack.lookup(&rel(absent)).unwrap(), None, "{absent}");
    }
}

pub(super) fn many_layers(fixture: &Fixture<'_>) {
    let mut layers: Vec<PathBuf> = Vec::new();
    for number in 0..MAX_LAYERS {
        let own = format!("dir/own-{number}");
        let content = number.to_string();
        let older = format!("dir/own-{}", number.saturating_sub(2));
        let mut parts = vec![File(&own, &content), File("all", &content)];
        if number > 2 && number % 3 == 0 {
            parts.push(Whiteout(&older));
        }
        layers.insert(0, fixture.layer(&parts));
    }
    let fork = fixture.fork(&layers.iter().collect::<Vec<_>>());
    assert_eq!(fork.read("all"), "127");
    assert_eq!(fork.read("dir/own-0"), "0");
    assert_eq!(flattened(&layers), fork.image());
    fork.write("dir/own-0", "changed");
    fs::remove_file(fork.path("dir/own-2")).unwrap();
    assert_eq!(fork.lines(), ["? dir/own-0", "- dir/own-2"]);
    fixture.provider.close(&fork.dirs).unwrap();
    fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
    assert_eq!(fork.read("dir/own-0"), "changed");
}

pub(super) fn too_many_layers(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("f", "x")]);
    let dirs = ForkDirs::new(fixture.fresh("private"), fixture.fresh("target"));
    for count in [0, MAX_LAYERS + 1] {
        let layers = vec![layer.clone(); count];
        let error = fixture.provider.create(&layers, &dirs).unwrap_err();
        assert_eq!(error.code(), offshoot_core::ErrorCode::InvalidRequest);
        assert!(!dirs.private.exists() && !dirs.target.exists());
    }
    remove(&layer);
}

/// What only the setup layer has is shown and can be changed, and is no part of what the fork is
/// compared with.
pub(super) fn setup_layer(fixture: &Fixture<'_>) {
    let base = fixture.layer(&[File("src/a", "a"), File("packages/p", "p")]);
    let setup = fixture.fresh("layer").with_extension(crate::SETUP_LAYER);
    let parts = [
        File("src/a", "hidden"),
        File("nm/x/index", "1"),
        File("nm/y", "y"),
        Link("nm/out", "/etc"),
        File("packages/nm/z", "z"),
    ];
    write_layer(&setup, &parts);
    let fork = fixture.fork(&[&base, &setup]);
    assert_eq!(fork.read("src/a"), "a", "it hides nothing");
    assert_eq!(fork.read("nm/x/index"), "1");
    assert!(fork.lines().is_empty(), "{:?}", fork.lines());
    fork.write("nm/y", "changed");
    fs::remove_dir_all(fork.path("nm/x")).unwrap();
    fork.write("packages/p", "changed");
    assert_eq!(fork.lines(), ["+ nm/y", "? packages/p"]);
    fs::create_dir(fork.path("nm/new")).unwrap();
    fork.write("nm/new/file", "");
    assert_eq!(
        fork.lines(),
        ["+ nm/new", "+ nm/new/file", "+ nm/y", "? packages/p"]
    );
    let pruned = |names: &[&str]| -> Vec<String> {
        let mut prune = |path: &offshoot_core::RelPath, _: &_| {
            names.iter().any(|name| path.as_bytes() == name.as_bytes())
        };
        let seen = (fixture.provider).changes_pruned(&fork.layers, &fork.dirs, &mut prune);
        let found = seen.unwrap().differences;
        let line = |found: &crate::Difference| format!("{} {}", sign(found), found.path);
        found.iter().map(line).collect()
    };
    assert_eq!(pruned(&["nm"]), ["+ nm", "? packages/p"]);
    // A project directory is never asked for.
    assert_eq!(pruned(&["nm", "packages"]), ["+ nm", "? packages/p"]);
    fs::remove_dir_all(fork.path("nm")).unwrap();
    assert_eq!(fork.lines(), ["? packages/p"], "nothing of it is gone");
    fs::create_dir(fork.path("nm")).unwrap();
    fork.write("nm/k", "");
    assert_eq!(fork.lines(), ["+ nm/k", "? packages/p"]);
    if fixture.provider.capabilities().renames_base_dirs {
        fs::rename(fork.path("packages/nm"), fork.path("moved")).unwrap();
        let lines = ["+ moved", "+ moved/z", "+ nm/k", "? packages/p"];
        assert_eq!(fork.lines(), lines);
    }
    assert_eq!(fs::read(setup.join("nm/y")).unwrap(), b"y");
    moves_over_setup(fixture, &base);
}

/// What a fork has of its own moves to one whose setup layer had something at the path.
fn moves_over_setup(fixture: &Fixture<'_>, base: &std::path::PathBuf) {
    let setup = fixture.fresh("layer").with_extension(crate::SETUP_LAYER);
    write_layer(&setup, &[File("nm/dir/theirs", "1"), File("nm/file", "1")]);
    let from = fixture.fork(&[base]);
    let to = fixture.fork(&[base, &setup]);
    fs::create_dir_all(from.path("nm/dir")).unwrap();
    from.write("nm/dir/mine", "2");
    from.write("nm/file", "2");
    for name in ["nm/dir", "nm/file"] {
        let path = to.path(name);
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        removed.unwrap();
    }
    for fork in [&from, &to] {
        fixture.provider.close(&fork.dirs).unwrap();
    }
    for name in ["nm/dir", "nm/file"] {
        let moved = (fixture.provider).move_path(&from.dirs, &to.dirs, &rel(name));
        moved.unwrap();
    }
    fixture.provider.ensure(&to.layers, &to.dirs).unwrap();
    assert_eq!(names(&to.path("nm/dir")), ["mine"]);
    assert_eq!(to.read("nm/file"), "2");
}
