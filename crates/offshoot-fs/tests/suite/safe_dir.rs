//! How a safe directory is read, and what it refuses, checked with both resolvers.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use offshoot_core::{ErrorCode, RelPath};
use offshoot_fs::{FileKind, PathResolver, SafeDir, Special, Sync, Walk};

use crate::common::{Fixture, code, mkfifo, rel, suite};

suite! {
    reads_and_writes
    windows
    links_inside_are_followed
    links_that_leave_are_refused
    link_loops_end
    special_files_never_block
    stat_and_absence
    listing_is_sorted_and_hides_stages
    walk_shows_parents_first
    names_are_bytes
    longest_names
    errors_show_no_host_path
}

fn reads_and_writes(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    let path = rel("a/b/c.txt");
    let stat = fixture
        .dir
        .write(&path, b"one", 0o640, Sync::Durable)
        .unwrap();
    assert_eq!(
        (stat.size, stat.perm, stat.kind),
        (3, 0o640, FileKind::File)
    );
    assert_eq!(fixture.dir.stat(&path).unwrap().unwrap(), stat);
    assert_eq!(fixture.dir.read(&path).unwrap(), b"one");
    fixture.dir.write(&path, b"", 0o644, Sync::None).unwrap();
    assert_eq!(fixture.dir.read(&path).unwrap(), b"");
    assert_eq!(
        fs::metadata(fixture.root.join("a"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o755
    );
    assert_eq!(
        code(fixture.dir.read(&rel("a/none"))),
        ErrorCode::FileNotFound
    );
    assert_eq!(code(fixture.dir.read(&rel("a/b"))), ErrorCode::IsADirectory);
    assert_eq!(code(fixture.dir.read(&rel("."))), ErrorCode::IsADirectory);
    assert_eq!(
        code(fixture.dir.read(&rel("a/b/c.txt/d"))),
        ErrorCode::NotADirectory
    );
    assert_eq!(
        code(
            fixture
                .dir
                .write(&rel("a/b/c.txt/d"), b"", 0o644, Sync::None)
        ),
        ErrorCode::NotADirectory
    );
    assert_eq!(fixture.stages(), 0);
}

fn windows(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    let path = rel("w");
    fixture
        .dir
        .write(&path, b"0123456789", 0o644, Sync::None)
        .unwrap();
    for (offset, len, expected) in [
        (0, 4, &b"0123"[..]),
        (8, 100, b"89"),
        (10, 1, b""),
        (u64::MAX, 9, b""),
        (3, 0, b""),
    ] {
        let (window, stat) = fixture.dir.read_window(&path, offset, len).unwrap();
        assert_eq!((window.as_slice(), stat.size), (expected, 10));
    }
}

fn links_inside_are_followed(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    fixture
        .dir
        .write(&rel("real/dir/file"), b"inner", 0o644, Sync::None)
        .unwrap();
    symlink("real/dir", fixture.root.join("down")).unwrap();
    symlink("../../real/./dir/file", fixture.root.join("real/dir/up")).unwrap();
    symlink("down/up", fixture.root.join("chain")).unwrap();
    symlink("real/dir/", fixture.root.join("slash")).unwrap();
    symlink("real/dir/file/", fixture.root.join("file-slash")).unwrap();
    for path in ["down/file", "real/dir/up", "down/up", "chain", "slash/file"] {
        assert_eq!(fixture.dir.read(&rel(path)).unwrap(), b"inner", "{path}");
    }
    assert_eq!(
        code(fixture.dir.read(&rel("file-slash"))),
        ErrorCode::NotADirectory
    );
    fixture
        .dir
        .write(&rel("down/new"), b"through", 0o644, Sync::None)
        .unwrap();
    assert_eq!(
        fs::read(fixture.root.join("real/dir/new")).unwrap(),
        b"through"
    );
    assert_eq!(
        fixture.dir.stat(&rel("chain")).unwrap().unwrap().kind,
        FileKind::Symlink
    );
    assert_eq!(
        fixture
            .dir
            .stat_follow(&rel("chain"))
            .unwrap()
            .unwrap()
            .kind,
        FileKind::File
    );
    assert_eq!(
        fixture.dir.stat_follow(&rel("down")).unwrap().unwrap().kind,
        FileKind::Dir
    );
    assert_eq!(fixture.dir.read_link(&rel("chain")).unwrap(), b"down/up");
    assert_eq!(
        code(fixture.dir.read_link(&rel("real"))),
        ErrorCode::InvalidRequest
    );
}

fn links_that_leave_are_refused(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    fs::create_dir(fixture.root.join("d")).unwrap();
    symlink(&fixture.outside, fixture.root.join("absolute")).unwrap();
    symlink("../outside", fixture.root.join("relative")).unwrap();
    symlink("../../outside/secret", fixture.root.join("d/file")).unwrap();
    symlink("d/../../outside", fixture.root.join("zigzag")).unwrap();
    symlink("..", fixture.root.join("up")).unwrap();
    symlink("/", fixture.root.join("slash")).unwrap();
    symlink(&fixture.root, fixture.root.join("absolute-inside")).unwrap();
    let dir = &fixture.dir;
    let refused = ErrorCode::PathTraversalBlocked;
    for path in [
        "absolute",
        "relative",
        "zigzag",
        "up",
        "slash",
        "absolute-inside",
    ] {
        let inner = rel(&format!("{path}/secret"));
        assert_eq!(code(dir.read(&inner)), refused, "{path}");
        assert_eq!(code(dir.stat(&inner)), refused, "{path}");
        assert_eq!(code(dir.stat_follow(&rel(path))), refused, "{path}");
        assert_eq!(code(dir.list(&rel(path))), refused, "{path}");
        assert_eq!(
            code(dir.walk(&rel(path), |_, _| Ok(Walk::Enter))),
            refused,
            "{path}"
        );
        assert_eq!(
            code(dir.write(&inner, b"x", 0o644, Sync::None)),
            refused,
            "{path}"
        );
        assert_eq!(code(dir.symlink(&inner, b"x")), refused, "{path}");
        assert_eq!(
            code(dir.mkdir_all(&rel(&format!("{path}/new")), 0o755)),
            refused,
            "{path}"
        );
        assert_eq!(code(dir.remove_file(&inner)), refused, "{path}");
        assert_eq!(code(dir.remove_tree(&inner)), refused, "{path}");
        assert_eq!(code(dir.set_perm(&inner, 0o777)), refused, "{path}");
        assert_eq!(
            code(dir.rename(&inner, &rel("stolen"), true)),
            refused,
            "{path}"
        );
        assert_eq!(
            code(dir.rename_noreplace(&rel("d"), &inner, true)),
            refused,
            "{path}"
        );
    }
    assert_eq!(code(dir.read(&rel("d/file"))), refused);
    assert_eq!(
        code(dir.copy(&rel("d/file"), &rel("copy"), Sync::None)),
        refused
    );
    // The links themselves can be read and removed.
    assert_eq!(
        dir.stat(&rel("absolute")).unwrap().unwrap().kind,
        FileKind::Symlink
    );
    dir.write(&rel("d/file"), b"mine", 0o644, Sync::None)
        .unwrap();
    dir.remove_tree(&rel("absolute")).unwrap();
    assert_eq!(fs::read(fixture.outside.join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&fixture.outside).unwrap().count(), 1);
}

fn link_loops_end(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    symlink("b", fixture.root.join("a")).unwrap();
    symlink("a", fixture.root.join("b")).unwrap();
    assert_eq!(code(fixture.dir.read(&rel("a"))), ErrorCode::InvalidRequest);
    assert_eq!(
        code(fixture.dir.read(&rel("a/x"))),
        ErrorCode::InvalidRequest
    );
    // Forty links are followed, one more is too many.
    fixture
        .dir
        .write(&rel("l0"), b"end", 0o644, Sync::None)
        .unwrap();
    for number in 1..=41 {
        symlink(
            format!("l{}", number - 1),
            fixture.root.join(format!("l{number}")),
        )
        .unwrap();
    }
    assert_eq!(fixture.dir.read(&rel("l40")).unwrap(), b"end");
    assert_eq!(
        code(fixture.dir.read(&rel("l41"))),
        ErrorCode::InvalidRequest
    );
}

fn special_files_never_block(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    mkfifo(&fixture.root.join("fifo"));
    symlink("fifo", fixture.root.join("to-fifo")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.root.join("socket")).unwrap();
    for path in ["fifo", "to-fifo", "socket"] {
        assert_eq!(
            code(fixture.dir.read(&rel(path))),
            ErrorCode::InvalidRequest,
            "{path}"
        );
        assert_eq!(
            code(fixture.dir.open_file(&rel(path))),
            ErrorCode::InvalidRequest,
            "{path}"
        );
    }
    let error = fixture.dir.read(&rel("fifo")).unwrap_err();
    assert!(error.message().contains("is a FIFO"), "{error}");
    assert_eq!(
        code(fixture.dir.set_perm(&rel("fifo"), 0o600)),
        ErrorCode::InvalidRequest
    );
    let kind = fixture.dir.stat(&rel("fifo")).unwrap().unwrap().kind;
    assert_eq!(kind, FileKind::Other(Special::Fifo));
    let kind = fixture
        .dir
        .stat_follow(&rel("to-fifo"))
        .unwrap()
        .unwrap()
        .kind;
    assert_eq!(kind, FileKind::Other(Special::Fifo));
    fixture
        .dir
        .write(&rel("fifo"), b"now a file", 0o644, Sync::None)
        .unwrap();
    assert_eq!(fixture.dir.read(&rel("fifo")).unwrap(), b"now a file");
}

fn stat_and_absence(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    fixture
        .dir
        .write(&rel("file"), b"x", 0o644, Sync::None)
        .unwrap();
    symlink("nowhere", fixture.root.join("dangling")).unwrap();
    for absent in ["none", "none/below", "file/below"] {
        assert_eq!(fixture.dir.stat(&rel(absent)).unwrap(), None, "{absent}");
        assert_eq!(
            fixture.dir.stat_follow(&rel(absent)).unwrap(),
            None,
            "{absent}"
        );
    }
    assert!(fixture.dir.stat(&rel("dangling")).unwrap().is_some());
    assert_eq!(fixture.dir.stat_follow(&rel("dangling")).unwrap(), None);
    assert_eq!(
        code(fixture.dir.read(&rel("dangling"))),
        ErrorCode::FileNotFound
    );
    for root in [
        fixture.dir.stat(&rel(".")),
        fixture.dir.stat_follow(&rel(".")),
    ] {
        assert_eq!(root.unwrap().unwrap().kind, FileKind::Dir);
    }
    let stat = fixture.dir.stat(&rel("file")).unwrap().unwrap();
    let host = fs::metadata(fixture.root.join("file")).unwrap();
    let modified = host
        .modified()
        .unwrap()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    assert_eq!(stat.mtime_ns as u128, modified.as_nanos());
    assert_eq!(stat.modified().0 as u128, modified.as_micros());
}

fn listing_is_sorted_and_hides_stages(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    for name in ["b", "a", "c/d"] {
        fixture
            .dir
            .write(&rel(name), b"", 0o644, Sync::None)
            .unwrap();
    }
    let _staged = fixture.dir.stage(0o644).unwrap();
    let names = |path: &str| -> Vec<Vec<u8>> {
        fixture
            .dir
            .list(&rel(path))
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect()
    };
    assert_eq!(names("."), [b"a", b"b", b"c"]);
    assert_eq!(names("c"), [b"d"]);
    assert_eq!(code(fixture.dir.list(&rel("a"))), ErrorCode::NotADirectory);
    assert_eq!(
        code(fixture.dir.list(&rel("none"))),
        ErrorCode::FileNotFound
    );
}

fn walk_shows_parents_first(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    for name in ["b/x", "a/y/z", "a/b", "a.b"] {
        fixture
            .dir
            .write(&rel(name), b"", 0o644, Sync::None)
            .unwrap();
    }
    symlink("a", fixture.root.join("link")).unwrap();
    let _staged = fixture.dir.stage(0o644).unwrap();
    let walk = |from: &str, skip: &str| {
        let mut seen = Vec::new();
        let visit = |path: &RelPath, _: &_| {
            seen.push(path.to_text());
            Ok(if path.to_text() == skip {
                Walk::Skip
            } else {
                Walk::Enter
            })
        };
        fixture.dir.walk(&rel(from), visit).unwrap();
        seen
    };
    assert_eq!(
        walk(".", "b"),
        ["a", "a.b", "b", "link", "a/b", "a/y", "a/y/z"]
    );
    assert_eq!(walk("a", ""), ["a/b", "a/y", "a/y/z"]);
    assert_eq!(walk("link", ""), ["link/b", "link/y", "link/y/z"]);
}

fn names_are_bytes(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    let dir = &fixture.dir;
    // NFC and NFD of the same letter are two files.
    let names: [&[u8]; 6] = [
        b"\xff\xfe",
        b"new\nline",
        b"esc\x1b[31m",
        b"\\",
        "\u{e9}".as_bytes(),
        "e\u{301}".as_bytes(),
    ];
    for name in names {
        let path = RelPath::parse(name).unwrap().join_name(name);
        dir.write(&path, name, 0o644, Sync::None).unwrap();
        assert_eq!(dir.read(&path).unwrap(), name);
    }
    let mut listed: Vec<_> = dir
        .list(&rel("."))
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .collect();
    let mut expected: Vec<_> = names.iter().map(|name| name.to_vec()).collect();
    expected.sort();
    assert_eq!(listed, expected);
    for name in listed.drain(..) {
        dir.remove_tree(&RelPath::parse(&name).unwrap()).unwrap();
    }
}

fn longest_names(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    let name = RelPath::parse(&[b'n'; 255]).unwrap();
    fixture
        .dir
        .write(&name, b"long", 0o644, Sync::None)
        .unwrap();
    assert_eq!(fixture.dir.read(&name).unwrap(), b"long");
    // The longest path that there is: 15 names of 255 bytes and one of 254, and 15 slashes.
    let dir = rel(&vec!["p".repeat(255); 15].join("/"));
    let longest = dir.join_name(&[b'q'; 255]);
    assert_eq!(longest.as_bytes().len(), 4_095);
    fixture
        .dir
        .write(&longest, b"deep", 0o644, Sync::None)
        .unwrap();
    assert_eq!(fixture.dir.read(&longest).unwrap(), b"deep");
    assert!(fixture.dir.stat(&longest).unwrap().is_some());
}

fn errors_show_no_host_path(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    symlink(&fixture.outside, fixture.root.join("out")).unwrap();
    let host = fixture.root.parent().unwrap().to_str().unwrap();
    let gone = SafeDir::open_with(fixture.root.join("not-there"), resolver);
    for error in [
        gone.map(drop).unwrap_err(),
        fixture.dir.read(&rel("none")).unwrap_err(),
        fixture.dir.read(&rel("out/secret")).unwrap_err(),
        fixture.dir.remove_dir(&rel(".")).unwrap_err(),
    ] {
        assert!(!error.to_json().to_string().contains(host), "{error:?}");
    }
}
