//! Flattening a stack of layers gives the tree that a fork shows.

use std::fs;
use std::path::PathBuf;

use super::fixture::LayerItem::{Dir, File, Link, Opaque, Whiteout};
use super::fixture::{Fixture, Node, TreeImage, names, rel, remove};
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
