//! Names, attributes and links that are meant to confuse.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use offshoot_core::RelPath;
use offshoot_sys::{get_xattr, make_whiteout, set_xattr};

use super::fixture::LayerItem::{File, FileMode};
use super::fixture::{Fixture, mode, names, set_mode, write_layer};
use crate::{ForkDirs, LayerWriter, ProviderName};

pub(super) fn odd_names(fixture: &Fixture<'_>) {
    let long = vec![b'n'; 255];
    let odd: [&[u8]; 8] = [
        b"\xff\xfe",
        b"new\nline",
        b"a:b,c",
        b" ",
        b"-rf",
        b"back\\slash",
        b"\x1b[31m",
        &long,
    ];
    let place = fixture.fresh("layer");
    let mut layer = LayerWriter::new(&place).unwrap();
    for name in odd {
        let dir = RelPath::parse(name).unwrap();
        layer
            .file(&dir.join_name(name), 0o644, &mut &b"x"[..])
            .unwrap();
        layer
            .file(&dir.join_name(b"gone"), 0o644, &mut &b"x"[..])
            .unwrap();
    }
    layer.finish().unwrap();
    let fork = fixture.fork(&[&place]);
    let mut expected = Vec::new();
    for name in odd {
        let dir = fork.dirs.target.join(OsStr::from_bytes(name));
        assert_eq!(fs::read(dir.join(OsStr::from_bytes(name))).unwrap(), b"x");
        fs::remove_file(dir.join("gone")).unwrap();
        expected.push(RelPath::parse(name).unwrap().join_name(b"gone"));
    }
    expected.sort();
    let found: Vec<RelPath> = fork.changes().into_iter().map(|found| found.path).collect();
    assert_eq!(found, expected);
}

pub(super) fn odd_layer_paths(fixture: &Fixture<'_>) {
    let odd = fixture
        .dir
        .join(OsStr::from_bytes(b"a:b,c d=\\e\"\n\xff,upperdir=x"));
    let long = fixture
        .dir
        .join("l".repeat(200))
        .join("o".repeat(200))
        .join("n".repeat(200));
    fs::create_dir_all(&odd).unwrap();
    fs::create_dir_all(&long).unwrap();
    let layers = [odd.join("one:two"), long.join("g"), fixture.fresh("plain")];
    for (number, layer) in layers.iter().enumerate() {
        let name = format!("from-{number}");
        write_layer(layer, &[File(&name, "x"), File("all", &name)]);
    }
    for dir in [&odd, &long] {
        let dirs = ForkDirs::new(dir.join("private:,"), dir.join("target:, \\"));
        let fork = fixture.fork_at(&layers.iter().collect::<Vec<_>>(), dirs);
        assert_eq!(fork.read("all"), "from-0");
        assert_eq!(
            names(&fork.dirs.target),
            ["all", "from-0", "from-1", "from-2"]
        );
        fork.write("all", "changed");
        fixture.provider.close(&fork.dirs).unwrap();
        fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
        assert_eq!(fork.lines(), ["? all"]);
    }
}

pub(super) fn forged_attributes(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        File("d/f", "x"),
        File("d/sub/g", "x"),
        File("other/secret", "x"),
        File("file", "x"),
    ]);
    let fork = fixture.fork(&[&layer]);
    fork.write("d/empty", "");
    let set = |name: &str, note: &std::ffi::CStr, value: &[u8]| {
        let file = fs::File::open(fork.path(name)).unwrap();
        let _ = set_xattr(&file, note, value);
    };
    for space in [crate::OverlayXattrs::User, crate::OverlayXattrs::Trusted] {
        set("d", space.opaque(), b"y");
        set("d/sub", space.redirect(), b"/other");
        set("d/empty", space.whiteout(), b"y");
        set("file", space.whiteout(), b"y");
    }
    set("d", c"user.overlay.opaque", b"x");
    set("file", c"trusted.overlay.metacopy", b"");
    set("file", c"user.overlay.metacopy", b"");
    let check = || {
        assert_eq!(names(&fork.path("d")), ["empty", "f", "sub"]);
        assert_eq!(names(&fork.path("d/sub")), ["g"]);
        assert_eq!(fork.read("file"), "x");
        let lines = fork.lines();
        assert!(lines.contains(&"+ d/empty".to_owned()), "{lines:?}");
        assert!(
            lines
                .iter()
                .all(|line| line == "+ d/empty" || line == "? file"),
            "an attribute of an agent was believed: {lines:?}"
        );
    };
    check();
    fixture.provider.close(&fork.dirs).unwrap();
    fixture.provider.ensure(&fork.layers, &fork.dirs).unwrap();
    check();
}

pub(super) fn forged_whiteouts(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[File("d/f", "x")]);
    let fork = fixture.fork(&[&layer]);
    let dir = fs::File::open(fork.path("d")).unwrap();
    let made = make_whiteout(&dir, c"forged");
    drop(dir);
    if fixture.is(ProviderName::Overlay) {
        assert!(made.is_err(), "the kernel keeps this device to itself");
        assert!(fork.lines().is_empty());
    } else if made.is_ok() {
        assert_eq!(fork.lines(), ["+ d/forged"]);
    }
    assert_eq!(fork.read("d/f"), "x");
}

pub(super) fn set_id_and_attributes(fixture: &Fixture<'_>) {
    let layer = fixture.layer(&[
        FileMode("setuid", "x", 0o6755),
        super::fixture::LayerItem::Dir("setgid", 0o2755),
        File("f", "x"),
    ]);
    let fork = fixture.fork(&[&layer]);
    assert_eq!(
        mode(&fork.path("setuid")),
        0o755,
        "set-id bits do not get into a layer"
    );
    assert_eq!(mode(&fork.path("setgid")), 0o755);
    set_mode(&fork.path("f"), 0o4755);
    let found = fork.changes();
    assert_eq!(
        found[0].now.unwrap().perm,
        0o4755,
        "and the caller sees those of an agent"
    );
    let file = fs::File::open(fork.path("f")).unwrap();
    if set_xattr(&file, c"user.mine", b"value").is_ok() {
        assert_eq!(get_xattr(&file, c"user.mine").unwrap().unwrap(), b"value");
    }
    drop(file);
    let delta = fixture.fresh("delta");
    fork.delta(&delta);
    let next = fixture.fork(&[&delta, &layer]);
    assert_eq!(mode(&next.path("f")), 0o755);
    let file = fs::File::open(next.path("f")).unwrap();
    assert_eq!(get_xattr(&file, c"user.mine").unwrap(), None);
}

pub(super) fn links_that_lead_out(fixture: &Fixture<'_>) {
    let outside = fixture.fresh("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    let target = outside.to_str().unwrap();
    let base = fixture.layer(&[super::fixture::LayerItem::Link("link", target)]);
    // A directory where a lower layer has a link: the link must not be walked through.
    let delta = fixture.layer(&[File("link/f", "x")]);
    let fork = fixture.fork(&[&delta, &base]);
    assert_eq!(names(&fork.path("link")), ["f"]);
    fs::remove_dir_all(fork.path("link")).unwrap();
    symlink(&outside, fork.path("link")).unwrap();
    fs::create_dir(fork.path("d")).unwrap();
    symlink(&outside, fork.path("d/out")).unwrap();
    assert_eq!(fork.lines(), ["+ d", "+ d/out", "t link"]);
    fixture.provider.cleanup(&fork.dirs).unwrap();
    assert_eq!(names(&outside), ["secret"], "nothing outside was removed");
}
