//! How a safe directory is changed, checked with both resolvers.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;

use offshoot_core::{ErrorCode, FaultPlan};
use offshoot_fs::{FileKind, PathResolver, Sync};

use crate::common::{Fixture, code, mkfifo, rel, suite};

suite! {
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
    every_fault_leaves_the_old_content
    reserved_names_and_the_root_are_refused
}

fn staged_files_vanish_unless_committed(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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

fn commit_replaces_files_and_links_but_not_directories(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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

fn symlinks_are_made_at_once(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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

fn directories(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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
    // So deep that the link in the middle is passed over by a larger step.
    let deep = format!("link/n/link/{}", vec!["x"; 20].join("/"));
    dir.mkdir_all(&rel("a/b/n/real"), 0o755).unwrap();
    symlink("real", fixture.root.join("a/b/n/link")).unwrap();
    dir.mkdir_all(&rel(&deep), 0o755).unwrap();
    let end = format!("a/b/n/real/{}", vec!["x"; 20].join("/"));
    assert!(fixture.root.join(end).is_dir());
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

fn removing(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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

fn deep_trees_are_removed(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    // A thousand levels as a path, then deeper than any path can be by moving the tree down.
    let deep = rel(&vec!["d"; 1_000].join("/"));
    fixture.dir.mkdir_all(&deep, 0o755).unwrap();
    let file = deep.join_name(b"file");
    fixture.dir.write(&file, b"", 0o644, Sync::None).unwrap();
    let upper = rel(&vec!["longer-n"; 400].join("/"));
    fixture.dir.mkdir_all(&upper, 0o755).unwrap();
    fixture
        .dir
        .rename(&rel("d"), &upper.join_name(b"d"), false)
        .unwrap();
    fixture
        .dir
        .rename(&rel("longer-n"), &rel("d"), false)
        .unwrap();
    fixture.dir.remove_tree(&rel("d")).unwrap();
    assert!(fixture.dir.list(&rel(".")).unwrap().is_empty());
}

fn read_only_directories_are_removed(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
    fixture
        .dir
        .write(&rel("cache/m/file"), b"", 0o444, Sync::None)
        .unwrap();
    fixture.dir.set_perm(&rel("cache/m"), 0o555).unwrap();
    fixture.dir.remove_tree(&rel("cache")).unwrap();
    assert_eq!(fixture.dir.stat(&rel("cache")).unwrap(), None);
}

fn renames(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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

fn permissions(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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

fn copies(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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

fn every_fault_leaves_the_old_content(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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

fn reserved_names_and_the_root_are_refused(resolver: PathResolver) {
    let fixture = Fixture::new(resolver);
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
