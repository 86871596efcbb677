//! What a safe directory promises, checked over both forms.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use offshoot_core::{ErrorCode, FaultPlan, RelPath, Result};
use offshoot_fs::{FileKind, Form, STAGE_PREFIX, SafeDir, Special, Sync, Walk};

/// A workspace beside a secret, as in real life.
struct Fixture {
    dir: SafeDir,
    root: PathBuf,
    outside: PathBuf,
    _host: tempfile::TempDir,
}

impl Fixture {
    fn new(form: Form) -> Fixture {
        let host = tempfile::tempdir().unwrap();
        let root = host.path().join("root");
        let outside = host.path().join("outside");
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        let dir = SafeDir::open_with(&root, form).unwrap();
        Fixture {
            dir,
            root,
            outside,
            _host: host,
        }
    }

    fn stages(&self) -> usize {
        let names = fs::read_dir(&self.root).unwrap();
        names
            .filter(|name| {
                name.as_ref()
                    .unwrap()
                    .file_name()
                    .as_bytes()
                    .starts_with(STAGE_PREFIX)
            })
            .count()
    }
}

fn rel(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

fn code<T: std::fmt::Debug>(answer: Result<T>) -> ErrorCode {
    answer.unwrap_err().code()
}

fn mkfifo(path: &Path) {
    let made = std::process::Command::new("mkfifo")
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}

macro_rules! suite {
    ($($test:ident)*) => {
        mod kernel { $(#[test] fn $test() { super::$test(offshoot_fs::Form::Kernel); })* }
        mod portable { $(#[test] fn $test() { super::$test(offshoot_fs::Form::Portable); })* }
    };
}

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
    staged_files_vanish_unless_committed
    commit_replaces_files_and_links_but_not_directories
    symlinks_are_made_at_once
    directories
    removing
    deep_trees_are_removed
    read_only_directories_are_removed
    renames
    permissions
    copies
    names_are_bytes
    longest_names
    errors_show_no_host_path
    every_fault_leaves_the_old_content
    reserved_names_and_the_root_are_refused
}

fn reads_and_writes(form: Form) {
    let fixture = Fixture::new(form);
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

fn windows(form: Form) {
    let fixture = Fixture::new(form);
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

fn links_inside_are_followed(form: Form) {
    let fixture = Fixture::new(form);
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

fn links_that_leave_are_refused(form: Form) {
    let fixture = Fixture::new(form);
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
    // The links themselves are ours to look at and to remove.
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

fn link_loops_end(form: Form) {
    let fixture = Fixture::new(form);
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

fn special_files_never_block(form: Form) {
    let fixture = Fixture::new(form);
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

fn stat_and_absence(form: Form) {
    let fixture = Fixture::new(form);
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

fn listing_is_sorted_and_hides_stages(form: Form) {
    let fixture = Fixture::new(form);
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

fn walk_shows_parents_first(form: Form) {
    let fixture = Fixture::new(form);
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

fn staged_files_vanish_unless_committed(form: Form) {
    let fixture = Fixture::new(form);
    let mut staged = fixture.dir.stage(0o644).unwrap();
    staged.write_all(b"half").unwrap();
    assert_eq!((fixture.stages(), staged.stat().unwrap().size), (1, 4));
    drop(staged);
    assert_eq!(fixture.stages(), 0);
    // What a killed process leaves behind:
    std::mem::forget(fixture.dir.stage(0o644).unwrap());
    assert_eq!(fixture.dir.clear_stages().unwrap(), 1);
    assert_eq!(fixture.stages(), 0);
}

fn commit_replaces_files_and_links_but_not_directories(form: Form) {
    let fixture = Fixture::new(form);
    let dir = &fixture.dir;
    fs::write(fixture.root.join("file"), "old").unwrap();
    let (mut reader, _) = dir.open_file(&rel("file")).unwrap();
    symlink("file", fixture.root.join("link")).unwrap();
    fs::create_dir(fixture.root.join("dir")).unwrap();
    for path in ["file", "link"] {
        dir.write(&rel(path), b"new", 0o600, Sync::None).unwrap();
        assert_eq!(dir.stat(&rel(path)).unwrap().unwrap().kind, FileKind::File);
    }
    let mut old = String::new();
    reader.read_to_string(&mut old).unwrap();
    assert_eq!(old, "old", "a reader keeps what it opened");
    assert_eq!(
        code(dir.write(&rel("dir"), b"", 0o600, Sync::None)),
        ErrorCode::IsADirectory
    );
    let staged = dir.stage(0o644).unwrap();
    assert_eq!(
        code(dir.commit(staged, &rel("no/parent"), false, Sync::None)),
        ErrorCode::FileNotFound
    );
    assert_eq!(dir.stat(&rel("no")).unwrap(), None);
    assert_eq!(fixture.stages(), 0);
}

fn symlinks_are_made_at_once(form: Form) {
    let fixture = Fixture::new(form);
    let dir = &fixture.dir;
    for target in [&b"one"[..], b"\xff\n", b"/etc/passwd"] {
        let stat = dir.symlink(&rel("d/link"), target).unwrap();
        assert_eq!(stat, dir.stat(&rel("d/link")).unwrap().unwrap());
        assert_eq!(dir.read_link(&rel("d/link")).unwrap(), target);
    }
    dir.write(&rel("file"), b"x", 0o644, Sync::None).unwrap();
    dir.symlink(&rel("file"), b"d").unwrap();
    assert_eq!(
        dir.stat(&rel("file")).unwrap().unwrap().kind,
        FileKind::Symlink
    );
    assert_eq!(code(dir.symlink(&rel("d"), b"x")), ErrorCode::IsADirectory);
    assert_eq!(code(dir.symlink(&rel("x"), b"")), ErrorCode::InvalidRequest);
    assert_eq!(fixture.stages(), 0);
}

fn directories(form: Form) {
    let fixture = Fixture::new(form);
    let dir = &fixture.dir;
    dir.mkdir_all(&rel("."), 0o755).unwrap();
    dir.mkdir_all(&rel("a/b/c"), 0o777).unwrap();
    dir.mkdir_all(&rel("a/b/c"), 0o700).unwrap();
    for path in ["a", "a/b", "a/b/c"] {
        assert_eq!(
            dir.stat(&rel(path)).unwrap().unwrap().perm,
            0o777,
            "{path}: no umask"
        );
    }
    symlink("a/b", fixture.root.join("link")).unwrap();
    dir.mkdir_all(&rel("link/d/e"), 0o755).unwrap();
    assert!(fixture.root.join("a/b/d/e").is_dir());
    dir.write(&rel("file"), b"", 0o644, Sync::None).unwrap();
    symlink("nowhere", fixture.root.join("dangling")).unwrap();
    for path in ["file", "file/x", "dangling", "dangling/x"] {
        assert_eq!(
            code(dir.mkdir_all(&rel(path), 0o755)),
            ErrorCode::NotADirectory,
            "{path}"
        );
    }
}

fn removing(form: Form) {
    let fixture = Fixture::new(form);
    let dir = &fixture.dir;
    dir.write(&rel("d/f"), b"", 0o644, Sync::None).unwrap();
    symlink("f", fixture.root.join("d/link")).unwrap();
    assert_eq!(code(dir.remove_file(&rel("d"))), ErrorCode::IsADirectory);
    assert_eq!(code(dir.remove_file(&rel("none"))), ErrorCode::FileNotFound);
    assert_eq!(code(dir.remove_dir(&rel("d"))), ErrorCode::AlreadyExists);
    assert_eq!(code(dir.remove_dir(&rel("d/f"))), ErrorCode::NotADirectory);
    dir.remove_file(&rel("d/link")).unwrap();
    assert!(
        dir.stat(&rel("d/f")).unwrap().is_some(),
        "the link went, not its target"
    );
    dir.remove_file(&rel("d/f")).unwrap();
    dir.remove_dir(&rel("d")).unwrap();
    dir.write(&rel("t/a/b/c"), b"", 0o644, Sync::None).unwrap();
    symlink(&fixture.outside, fixture.root.join("t/a/out")).unwrap();
    mkfifo(&fixture.root.join("t/fifo"));
    dir.remove_tree(&rel("t")).unwrap();
    assert_eq!(dir.stat(&rel("t")).unwrap(), None);
    assert!(
        fixture.outside.join("secret").exists(),
        "links are removed, not followed"
    );
    assert_eq!(code(dir.remove_tree(&rel("t"))), ErrorCode::FileNotFound);
    dir.write(&rel("single"), b"", 0o644, Sync::None).unwrap();
    dir.remove_tree(&rel("single")).unwrap();
    assert!(dir.list(&rel(".")).unwrap().is_empty());
}

fn deep_trees_are_removed(form: Form) {
    let fixture = Fixture::new(form);
    // A thousand levels as a path, then deeper than any path can be by moving trees into trees.
    let deep = rel(&vec!["d"; 1_000].join("/"));
    fixture.dir.mkdir_all(&deep, 0o755).unwrap();
    fixture
        .dir
        .write(&deep.join_name(b"file"), b"", 0o644, Sync::None)
        .unwrap();
    for level in ["e", "f", "g"] {
        let bottom = rel(&vec![level; 1_000].join("/"));
        fixture.dir.mkdir_all(&bottom, 0o755).unwrap();
        fixture
            .dir
            .rename(&rel("d"), &bottom.join_name(b"d"), false)
            .unwrap();
        fixture.dir.rename(&rel(level), &rel("d"), false).unwrap();
    }
    fixture.dir.remove_tree(&rel("d")).unwrap();
    assert!(fixture.dir.list(&rel(".")).unwrap().is_empty());
}

fn read_only_directories_are_removed(form: Form) {
    let fixture = Fixture::new(form);
    fixture
        .dir
        .write(&rel("cache/m/file"), b"", 0o444, Sync::None)
        .unwrap();
    fixture.dir.set_perm(&rel("cache/m"), 0o555).unwrap();
    fixture.dir.remove_tree(&rel("cache")).unwrap();
    assert_eq!(fixture.dir.stat(&rel("cache")).unwrap(), None);
}

fn renames(form: Form) {
    let fixture = Fixture::new(form);
    let dir = &fixture.dir;
    dir.write(&rel("a/f"), b"1", 0o644, Sync::None).unwrap();
    dir.write(&rel("g"), b"2", 0o644, Sync::None).unwrap();
    assert_eq!(
        code(dir.rename(&rel("a/f"), &rel("x/y/f"), false)),
        ErrorCode::FileNotFound
    );
    dir.rename(&rel("a/f"), &rel("x/y/f"), true).unwrap();
    assert_eq!(dir.read(&rel("x/y/f")).unwrap(), b"1");
    assert_eq!(
        code(dir.rename_noreplace(&rel("g"), &rel("x/y/f"), false)),
        ErrorCode::AlreadyExists
    );
    dir.rename(&rel("g"), &rel("x/y/f"), false).unwrap();
    assert_eq!(dir.read(&rel("x/y/f")).unwrap(), b"2");
    dir.rename_noreplace(&rel("x"), &rel("z"), false).unwrap();
    assert_eq!(dir.read(&rel("z/y/f")).unwrap(), b"2");
    assert_eq!(
        code(dir.rename(&rel("z"), &rel("z/y/z"), true)),
        ErrorCode::InvalidRequest
    );
    assert_eq!(
        code(dir.rename(&rel("none"), &rel("p/q"), true)),
        ErrorCode::FileNotFound
    );
    assert_eq!(dir.stat(&rel("p")).unwrap(), None, "no parents for nothing");
    assert_eq!(
        code(dir.rename(&rel("a"), &rel("z"), false)),
        ErrorCode::AlreadyExists
    );
    assert_eq!(
        code(dir.rename(&rel("z/y/f"), &rel("a"), false)),
        ErrorCode::IsADirectory
    );
    symlink("z", fixture.root.join("link")).unwrap();
    dir.rename(&rel("link"), &rel("moved"), false).unwrap();
    assert_eq!(dir.read_link(&rel("moved")).unwrap(), b"z");
}

fn permissions(form: Form) {
    let fixture = Fixture::new(form);
    let dir = &fixture.dir;
    let perm = |path: &str| dir.stat(&rel(path)).unwrap().unwrap().perm;
    dir.write(&rel("f"), b"", 0o644, Sync::None).unwrap();
    for wanted in [0o755, 0o000, 0o600] {
        dir.set_perm(&rel("f"), wanted).unwrap();
        assert_eq!(perm("f"), wanted);
    }
    dir.mkdir_all(&rel("d"), 0o755).unwrap();
    dir.set_perm(&rel("d"), 0o700).unwrap();
    dir.set_perm(&rel("."), 0o750).unwrap();
    assert_eq!((perm("d"), perm(".")), (0o700, 0o750));
    symlink("f", fixture.root.join("link")).unwrap();
    assert_eq!(
        code(dir.set_perm(&rel("link"), 0o777)),
        ErrorCode::InvalidRequest
    );
    assert_eq!(perm("f"), 0o600);
    assert_eq!(
        code(dir.set_perm(&rel("none"), 0o777)),
        ErrorCode::FileNotFound
    );
}

fn copies(form: Form) {
    let fixture = Fixture::new(form);
    let dir = &fixture.dir;
    let content: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    dir.write(&rel("a"), &content, 0o751, Sync::None).unwrap();
    let stat = dir.copy(&rel("a"), &rel("x/b"), Sync::None).unwrap();
    assert_eq!((stat.perm, stat.size), (0o751, content.len() as u64));
    assert_eq!(dir.read(&rel("x/b")).unwrap(), content);
    assert_eq!(
        code(dir.copy(&rel("x"), &rel("y"), Sync::None)),
        ErrorCode::IsADirectory
    );
}

fn names_are_bytes(form: Form) {
    let fixture = Fixture::new(form);
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

fn longest_names(form: Form) {
    let fixture = Fixture::new(form);
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

fn errors_show_no_host_path(form: Form) {
    let fixture = Fixture::new(form);
    symlink(&fixture.outside, fixture.root.join("out")).unwrap();
    let host = fixture.root.parent().unwrap().to_str().unwrap();
    let gone = SafeDir::open_with(fixture.root.join("not-there"), form);
    for error in [
        gone.map(drop).unwrap_err(),
        fixture.dir.read(&rel("none")).unwrap_err(),
        fixture.dir.read(&rel("out/secret")).unwrap_err(),
        fixture.dir.remove_dir(&rel(".")).unwrap_err(),
    ] {
        assert!(!error.to_json().to_string().contains(host), "{error:?}");
    }
}

fn every_fault_leaves_the_old_content(form: Form) {
    let fixture = Fixture::new(form);
    let plan = FaultPlan::default();
    let dir = fixture.dir.clone().with_faults(plan.clone());
    let path = rel("a/f");
    dir.write(&path, b"old", 0o644, Sync::None).unwrap();
    let mut struck = 0;
    for n in 1.. {
        plan.arm(n);
        let answer = dir.write(&path, b"new", 0o644, Sync::Durable);
        if !plan.disarm() {
            answer.unwrap();
            break;
        }
        struck += 1;
        let now = dir.read(&path).unwrap();
        // Only the flush of the directory comes after the rename.
        assert!(now == b"old" || n == struck && now == b"new", "fault {n}");
        assert!(answer.is_err(), "fault {n} was swallowed");
        assert_eq!(fixture.stages(), 0, "fault {n} left a stage");
        dir.write(&path, b"old", 0o644, Sync::None).unwrap();
    }
    assert!(struck >= 6, "only {struck} calls can fail");
    let new_path = rel("n/e/w");
    for n in 1.. {
        plan.arm(n);
        let answer = dir.write(&new_path, b"new", 0o644, Sync::None);
        if !plan.disarm() {
            answer.unwrap();
            break;
        }
        assert!(answer.is_err());
        assert_eq!(fixture.stages(), 0);
    }
}

fn reserved_names_and_the_root_are_refused(form: Form) {
    let fixture = Fixture::new(form);
    let dir = &fixture.dir;
    dir.write(&rel("f"), b"", 0o644, Sync::None).unwrap();
    let reserved = rel(".offshoot-stage-x");
    assert_eq!(
        code(dir.write(&reserved, b"", 0o644, Sync::None)),
        ErrorCode::InvalidRequest
    );
    assert_eq!(
        code(dir.mkdir_all(&reserved, 0o755)),
        ErrorCode::InvalidRequest
    );
    assert_eq!(
        code(dir.rename(&rel("f"), &reserved, false)),
        ErrorCode::InvalidRequest
    );
    assert_eq!(
        code(dir.symlink(&reserved, b"f")),
        ErrorCode::InvalidRequest
    );
    dir.write(&rel("d/.offshoot-stage-x"), b"", 0o644, Sync::None)
        .unwrap();
    let root = rel(".");
    assert_eq!(
        code(dir.write(&root, b"", 0o644, Sync::None)),
        ErrorCode::IsADirectory
    );
    assert_eq!(code(dir.remove_tree(&root)), ErrorCode::InvalidRequest);
    assert_eq!(code(dir.remove_file(&root)), ErrorCode::InvalidRequest);
    assert_eq!(
        code(dir.rename(&root, &rel("x"), false)),
        ErrorCode::InvalidRequest
    );
}
