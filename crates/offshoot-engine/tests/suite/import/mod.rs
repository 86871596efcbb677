//! Importing projects, with git as the oracle: trees and commits have its ids, an export equals the
//! import, and a failed import leaves nothing.

mod directory;
mod refs;
mod repositories;
mod sources;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use offshoot_core::{ErrorCode, FaultPlan, RelPath};
use offshoot_engine::{Content, Engine, EngineOptions, ImportOptions, WriteOptions};
use offshoot_testkit::{HostDir, TreeSpec, dir_image, git, is_root, make_tree, skip};

use crate::fixture::{TestEngine, chmod, p, user};
use sources::{commit_all, dropped, id, write};

#[test]
fn a_directory_gets_the_tree_id_of_git_and_forks_give_it_back() {
    let test = TestEngine::best();
    let source = test.source("source");
    make_tree(&source, &TreeSpec::nasty(300), 7);
    write(&source, "large", &"0123456789abcdef".repeat(100_000));
    fs::create_dir_all(source.join("empty/inner")).unwrap();
    fs::create_dir(source.join("private")).unwrap();
    chmod(&source.join("private"), 0o700);
    write(&source, "secret", "bits\n");
    chmod(&source.join("secret"), 0o600);
    let oracle = test.host.path().join("oracle.git");
    git(test.host.path(), &["init", "-q", "--bare", "oracle.git"]);
    let worktree = format!("--work-tree={}", source.display());
    let with = |args: &[&str]| {
        let mut all = vec!["--git-dir=.", worktree.as_str()];
        all.extend(args);
        git(&oracle, &all)
    };
    with(&["add", "-A"]);
    let tree = with(&["write-tree"]);

    let mut told = Vec::new();
    let imported = test
        .engine
        .projects
        .import_dir(
            &id("p"),
            &source,
            &ImportOptions::default(),
            &mut |progress| told.push(progress),
            &user(),
        )
        .unwrap();
    assert_eq!(imported.snapshot.tree.to_hex(), tree);
    assert_eq!(imported.snapshot.label.as_deref(), Some("Import"));
    assert_eq!((imported.dropped, imported.unsettled), (vec![], vec![]));
    assert_eq!(imported.project.head, Some(imported.snapshot.id));
    assert!(told.iter().any(|one| one.done > 0 && one.done == one.total));
    let fork = test.fork_path("p");
    assert_eq!(dir_image(&fork), dir_image(&source));
    test.check();
}

#[test]
fn the_first_fork_finds_its_layer() {
    let test = TestEngine::best();
    let source = test.source("source");
    write(&source, "a", "a\n");
    test.import("p", &source).unwrap();
    let layers = || {
        fs::read_dir(test.host.path().join("data/layers"))
            .unwrap()
            .count()
    };
    let before = layers();
    assert!(before > 0, "the import makes the layer");
    test.fork_path("p");
    assert_eq!(layers(), before);
}

#[test]
fn what_a_project_must_not_hold_is_dropped_and_reported() {
    if !is_root() {
        return skip("devices and trusted attributes need root");
    }
    let test = TestEngine::best();
    let source = test.source("source");
    let outside = test.source("outside");
    write(&outside, "secret", "not yours\n");
    write(&source, "plain", "plain\n");
    write(&source, "setuid", "#!/bin/sh\n");
    chmod(&source.join("setuid"), 0o4755);
    fs::create_dir(source.join("setgid")).unwrap();
    chmod(&source.join("setgid"), 0o2755);
    let _socket = UnixListener::bind(source.join("socket")).unwrap();
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program)
            .current_dir(&source)
            .args(args)
            .status();
        assert!(status.unwrap().success(), "{program} {args:?}");
    };
    run("mkfifo", &["fifo"]);
    run("mknod", &["whiteout", "c", "0", "0"]);
    run("mknod", &["disk", "b", "7", "99"]);
    symlink(&outside, source.join("link-out")).unwrap();
    symlink("../outside/secret", source.join("link-up")).unwrap();
    fs::create_dir(source.join("opaque")).unwrap();
    let xattr = |path: &str, name: &std::ffi::CStr| {
        let file = fs::File::open(source.join(path)).unwrap();
        offshoot_sys::set_xattr(&file, name, b"y").unwrap();
    };
    xattr("opaque", c"trusted.overlay.opaque");
    xattr("plain", c"user.overlay.whiteout");
    xattr("plain", c"user.harmless");

    let imported = test.import("p", &source).unwrap();
    assert_eq!(
        dropped(&imported.dropped),
        [
            ("disk".to_owned(), "block device"),
            ("fifo".to_owned(), "FIFO"),
            ("opaque".to_owned(), "attribute `trusted.overlay.opaque`"),
            ("plain".to_owned(), "attribute `user.overlay.whiteout`"),
            ("setgid".to_owned(), "set-id bit"),
            ("setuid".to_owned(), "set-id bit"),
            ("socket".to_owned(), "socket"),
            ("whiteout".to_owned(), "character device"),
        ]
    );
    assert_eq!(
        test.paths("p"),
        ["link-out", "link-up", "opaque", "plain", "setgid", "setuid"]
    );
    let fork = test.fork_path("p");
    let mode = |path: &str| fs::metadata(fork.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("setuid"), mode("setgid")), (0o755, 0o755));
    assert_eq!(fs::read_link(fork.join("link-out")).unwrap(), outside);
    test.check();
}

#[test]
fn ignore_rules_are_followed_on_request_and_worktreeinclude_takes_nothing_back() {
    let test = TestEngine::best();
    let source = test.source("source");
    for (path, content) in [
        (".gitignore", "*.log\n/build/\nnode_modules/\n.env*\n"),
        (".offshootignore", "scratch/\n"),
        (".worktreeinclude", ".env\n/build/keep/\n!.env.example\n"),
        ("src/main.rs", "fn main() {}\n"),
        ("src/debug.log", "noise\n"),
        ("src/.gitignore", "!wanted.log\n"),
        ("src/wanted.log", "wanted\n"),
        ("build/out.o", "object\n"),
        ("build/keep/deep/a", "kept\n"),
        ("build/other/b", "not kept\n"),
        ("node_modules/x/index.js", "x\n"),
        ("node_modules/x/.git/HEAD", "nested in what is ignored\n"),
        ("scratch/note", "note\n"),
        (".env", "KEY=1\n"),
        (".env.example", "KEY=\n"),
        ("service/.env", "KEY=2\n"),
        ("vendor/lib/.git/HEAD", "nested\n"),
        (".git/HEAD", "ours\n"),
    ] {
        write(&source, path, content);
    }
    let all = test.import("all", &source).unwrap();
    assert_eq!(all.ignored, []);
    assert!(test.paths("all").contains(&"build/other/b".to_owned()));
    assert!(!test.paths("all").contains(&".git".to_owned()));

    let options = ImportOptions {
        ignore_rules: true,
        ..ImportOptions::default()
    };
    let some = test.import_with("some", &source, &options).unwrap();
    assert_eq!(
        test.paths("some"),
        [
            ".gitignore",
            ".offshootignore",
            ".worktreeinclude",
            "service",
            "src",
            "src/.gitignore",
            "src/main.rs",
            "src/wanted.log",
            "vendor",
            "vendor/lib",
            "vendor/lib/.git",
            "vendor/lib/.git/HEAD",
        ]
    );
    let ignored: Vec<String> = some.ignored.iter().map(RelPath::to_text).collect();
    assert_eq!(
        ignored,
        [
            ".env",
            ".env.example",
            "build",
            "node_modules",
            "scratch",
            "service/.env",
            "src/debug.log"
        ]
    );
    assert_eq!(some.dropped, []);
    test.check();
}

#[test]
fn a_sync_takes_what_changed_in_the_directory() {
    let test = TestEngine::best();
    let source = test.source("source");
    for (path, content) in [
        ("same", "same\n"),
        ("changed", "before\n"),
        ("gone/a", "a\n"),
        ("gone/b", "b\n"),
        ("becomes-dir", "file\n"),
        ("becomes-file/x", "x\n"),
        ("mode", "mode\n"),
    ] {
        write(&source, path, content);
    }
    test.import("p", &source).unwrap();
    let nothing = test.sync("p", &source, &ImportOptions::default());
    assert_eq!(
        (
            nothing.created,
            nothing.synced,
            nothing.skipped,
            nothing.total
        ),
        (false, 0, 7, 7)
    );
    // What came into the project meanwhile stays.
    let content = Content::Bytes(b"edited\n");
    let options = WriteOptions::default();
    test.engine
        .projects
        .put_in_project(&id("p"), &p("extra"), content, &options, &user())
        .unwrap();

    write(&source, "changed", "after\n");
    fs::remove_dir_all(source.join("gone")).unwrap();
    fs::remove_file(source.join("becomes-dir")).unwrap();
    write(&source, "becomes-dir/inner", "inner\n");
    fs::remove_dir_all(source.join("becomes-file")).unwrap();
    write(&source, "becomes-file", "file\n");
    chmod(&source.join("mode"), 0o755);
    write(&source, "new/deep/file", "new\n");
    let synced = test.sync("p", &source, &ImportOptions::default());
    assert!(synced.created);
    assert_eq!(
        (synced.synced, synced.skipped, synced.total, synced.removed),
        (5, 1, 6, 4)
    );
    let merge = synced.merge.as_deref().unwrap();
    assert!(merge.conflicts.is_empty(), "{merge:?}");
    let fork = test.fork_path("p");
    assert_eq!(fs::read(fork.join("extra")).unwrap(), b"edited\n");
    fs::remove_file(fork.join("extra")).unwrap();
    assert_eq!(dir_image(&fork), dir_image(&source));
    assert_eq!(
        test.engine
            .projects
            .project_snapshots(&id("p"), None, 0)
            .unwrap()
            .len(),
        3
    );
    test.check();

    // A file that the project has is imported although it is ignored now; others are not.
    write(&source, ".gitignore", "same\nother\n");
    write(&source, "same", "changed\n");
    write(&source, "other", "other\n");
    let options = ImportOptions {
        ignore_rules: true,
        label: Some("by the rules".to_owned()),
    };
    let synced = test.sync("p", &source, &options);
    assert_eq!((synced.synced, synced.removed), (2, 0));
    assert_eq!(synced.snapshot.label.as_deref(), Some("by the rules"));
    assert_eq!(synced.ignored, [p("other")]);

    fs::remove_dir_all(&source).unwrap();
    fs::create_dir(&source).unwrap();
    let refused = test.engine.links.sync_directory(
        &id("p"),
        Some(&source),
        &ImportOptions::default(),
        &mut |_| {},
        &user(),
    );
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidRequest);
    test.check();
}

#[test]
fn wrong_sources_are_refused_and_leave_nothing() {
    let test = TestEngine::best();
    let source = test.source("source");
    let empty = test.source("empty");
    write(&source, "a", "a\n");
    test.import("taken", &source).unwrap();
    let missing = test.host.path().join("missing");
    let inside = test.host.path().join("data/workspaces");
    for (name, source, code, says) in [
        ("taken", &source, ErrorCode::AlreadyExists, "exists"),
        ("p", &missing, ErrorCode::FileNotFound, "does not exist"),
        (
            "p",
            &source.join("a"),
            ErrorCode::NotADirectory,
            "not a directory",
        ),
        (
            "p",
            &inside,
            ErrorCode::InvalidRequest,
            "inside the data directory",
        ),
        ("p", &empty, ErrorCode::InvalidRequest, "empty"),
    ] {
        let error = test.import(name, source).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
    let plain = test.source("plain");
    for (name, source, code, says) in [
        ("taken", &source, ErrorCode::AlreadyExists, "exists"),
        ("p", &missing, ErrorCode::FileNotFound, "does not exist"),
        (
            "p",
            &plain,
            ErrorCode::InvalidRequest,
            "not a git repository",
        ),
        (
            "p",
            &inside,
            ErrorCode::InvalidRequest,
            "inside the data directory",
        ),
    ] {
        let error = test.import_git(name, source).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    git(&plain, &["init", "-q"]);
    let unborn = test.import_git("p", &plain).unwrap_err();
    assert!(unborn.to_string().contains("no commit"), "{unborn}");
    assert_eq!(
        test.engine.projects.list_projects(None, 0).unwrap().len(),
        1
    );
    test.check();
}

#[test]
fn the_data_directory_is_left_out_of_what_it_lies_in() {
    let test = TestEngine::best();
    write(test.host.path(), "a", "a\n");
    let imported = test.import("p", test.host.path()).unwrap();
    assert_eq!(
        dropped(&imported.dropped),
        [("data".to_owned(), "data directory of Offshoot")]
    );
    assert_eq!(test.paths("p"), ["a"]);
    test.check();
}

#[test]
fn a_failing_call_at_any_point_leaves_the_whole_project_or_none() {
    let host = HostDir::new();
    let source = host.path().join("source");
    fs::create_dir(&source).unwrap();
    make_tree(&source, &TreeSpec::nasty(12), 5);
    git(&source, &["init", "-q"]);
    commit_all(&source, "first");
    let plan = FaultPlan::default();
    let mut options = EngineOptions::new(host.path().join("data"));
    options.faults = Some(plan.clone());
    let engine = Engine::open(options).unwrap();
    for from_git in [false, true] {
        let import = || match from_git {
            true => engine
                .projects
                .import_git(&id("p"), &source, &mut |_| {}, &user()),
            false => {
                let options = ImportOptions::default();
                engine
                    .projects
                    .import_dir(&id("p"), &source, &options, &mut |_| {}, &user())
            }
        };
        let mut struck = 0;
        for n in 1.. {
            assert!(n < 2_000, "the faults never end");
            plan.arm(n);
            let answer = import();
            engine.context.wait_for_jobs();
            let hit = plan.disarm();
            struck += u32::from(hit);
            let there = engine.projects.project(&id("p")).is_ok();
            if answer.is_ok() {
                assert!(there);
                engine.projects.delete_project(&id("p"), &user()).unwrap();
            }
            if !hit {
                break;
            }
        }
        assert!(struck > 3, "{struck}");
        if engine.projects.project(&id("p")).is_ok() {
            engine.projects.delete_project(&id("p"), &user()).unwrap();
        }
        import().unwrap();
        assert_eq!(engine.upkeep.check().unwrap().problems, []);
        engine.projects.delete_project(&id("p"), &user()).unwrap();
    }
}
