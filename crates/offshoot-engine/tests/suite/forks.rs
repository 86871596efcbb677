//! Projects and forks through the engine, with every provider that works here.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ChangeKind, ErrorCode, RelPath};
use offshoot_engine::{Content, ForkOptions, Point, WriteOptions};
use offshoot_fs::ProviderName;

#[test]
fn a_fork_shows_its_base_and_keeps_its_changes_apart() {
    with_each(|rig| {
        let project = rig.project("web");
        let (one, path) = rig.fork(&project, "one");
        let (two, other) = rig.fork(&project, "two");
        assert_eq!(
            fs::read_to_string(path.join("README")).unwrap(),
            "read me\n"
        );
        fs::write(path.join("README"), "changed\n").unwrap();
        fs::write(path.join("new"), "new\n").unwrap();
        fs::remove_file(path.join("src/main.rs")).unwrap();
        fs::set_permissions(path.join("docs/a/b"), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(
            rig.changes(&one),
            [
                ("README".into(), ChangeKind::Modified),
                ("docs/a/b".into(), ChangeKind::Mode),
                ("new".into(), ChangeKind::Added),
                ("src/main.rs".into(), ChangeKind::Deleted),
            ]
        );
        assert!(rig.changes(&two).is_empty());
        assert_eq!(
            fs::read_to_string(other.join("README")).unwrap(),
            "read me\n"
        );
        // A later change of the project is not seen by either.
        rig.put(&project, "docs/a/b", "later\n");
        assert_eq!(
            fs::read_to_string(other.join("docs/a/b")).unwrap(),
            "deep\n"
        );
        let moved = rig
            .engine
            .sync
            .changes(&one, &user())
            .unwrap()
            .moved
            .unwrap();
        assert_eq!((moved.snapshots, moved.overlap), (1, vec![p("docs/a/b")]));
        // A file where the project has a directory by now meets it, too.
        rig.put(&project, "new/below", "of others\n");
        let moved = rig
            .engine
            .sync
            .changes(&one, &user())
            .unwrap()
            .moved
            .unwrap();
        assert_eq!(moved.overlap, [p("docs/a/b"), p("new")]);
        rig.check();
    });
}

#[test]
fn a_lazy_fork_is_rows_until_somebody_asks_for_its_path() {
    with_each(|rig| {
        let project = rig.project("web");
        let fork = rig
            .engine
            .forks
            .fork(&project, &ForkOptions::default(), &user())
            .unwrap();
        let id = fork.workspace.id;
        let path = rig.host.path().join("data/workspaces").join(id.as_str());
        assert!(!path.exists() && !fork.workspace.materialized);
        let (bytes, _) = rig.engine.workspaces.read_whole(&id, &p("README")).unwrap();
        assert_eq!(bytes, b"read me\n");
        rig.engine
            .workspaces
            .write_file(
                &id,
                &p("src/new.rs"),
                Content::Bytes(b"new"),
                &WriteOptions::default(),
                &user(),
            )
            .unwrap();
        let changes = [("src/new.rs".to_owned(), ChangeKind::Added)];
        assert_eq!(rig.changes(&id), changes);
        assert!(!path.exists());
        assert_eq!(rig.engine.workspaces.hand_out_path(&id).unwrap(), path);
        assert_eq!(fs::read(path.join("src/new.rs")).unwrap(), b"new");
        assert_eq!(fs::read(path.join("README")).unwrap(), b"read me\n");
        assert_eq!(rig.changes(&id), changes);
        rig.check();
    });
}

#[test]
fn snapshots_and_restores_of_a_fork() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        let base = rig.engine.forks.fork_of(&id).unwrap().unwrap().base;
        fs::write(path.join("README"), "first\n").unwrap();
        fs::remove_dir_all(path.join("docs")).unwrap();
        fs::create_dir(path.join("empty")).unwrap();
        let first = rig
            .engine
            .workspaces
            .snapshot(&id, Some("first"), false, &user())
            .unwrap();
        assert_eq!(first.snapshot.parent, Some(base));
        fs::write(path.join("README"), "second\n").unwrap();
        fs::create_dir_all(path.join("docs/a")).unwrap();
        fs::write(path.join("docs/a/b"), "other\n").unwrap();
        rig.engine
            .workspaces
            .restore(&id, &first.snapshot.id.to_hex(), None, &user())
            .unwrap();
        assert_eq!(fs::read(path.join("README")).unwrap(), b"first\n");
        assert!(!path.join("docs").exists() && path.join("empty").is_dir());
        rig.engine
            .workspaces
            .restore(&id, &base.to_hex(), None, &user())
            .unwrap();
        assert_eq!(fs::read(path.join("docs/a/b")).unwrap(), b"deep\n");
        assert!(rig.changes(&id).is_empty());
        let diff = rig
            .engine
            .workspaces
            .diff(&id, Point::Snapshot(&base.to_hex()), Point::Now, &user())
            .unwrap();
        assert!(diff.changes.is_empty(), "{diff:?}");
        rig.check();
    });
}

#[test]
fn changes_that_are_undone_are_no_changes() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        fs::write(path.join("README"), "x").unwrap();
        fs::write(path.join("new"), "x").unwrap();
        rig.engine
            .workspaces
            .snapshot(&id, None, false, &user())
            .unwrap();
        fs::write(path.join("README"), "read me\n").unwrap();
        fs::remove_file(path.join("new")).unwrap();
        assert!(rig.changes(&id).is_empty());
        // Touching and opening for writing is none either.
        let file = fs::OpenOptions::new()
            .write(true)
            .open(path.join("src/lib.rs"))
            .unwrap();
        drop(file);
        assert!(rig.changes(&id).is_empty());
        // A directory of the base under another name, and back.
        if fs::rename(path.join("src"), path.join("lib")).is_ok() {
            let moved = rig.changes(&id);
            assert!(
                moved.contains(&("lib/main.rs".into(), ChangeKind::Added)),
                "{moved:?}"
            );
            assert!(
                moved.contains(&("src/main.rs".into(), ChangeKind::Deleted)),
                "{moved:?}"
            );
            rig.engine
                .workspaces
                .snapshot(&id, None, false, &user())
                .unwrap();
            rig.check();
            fs::rename(path.join("lib"), path.join("src")).unwrap();
        }
        assert!(rig.changes(&id).is_empty());
        rig.check();
    });
}

#[test]
fn ignored_files_are_listed_apart_and_not_walked() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        fs::create_dir_all(path.join("target/debug")).unwrap();
        fs::write(path.join("target/debug/app"), "x").unwrap();
        fs::write(path.join("build.log"), "x").unwrap();
        fs::write(path.join("code"), "x").unwrap();
        let changes = rig.engine.sync.changes(&id, &user()).unwrap();
        assert_eq!(changes.set.changes.len(), 1);
        assert_eq!(changes.set.ignored, [p("build.log"), p("target")]);
        rig.check();
    });
}

#[test]
fn forks_of_one_agent_and_names() {
    with_each(|rig| {
        let project = rig.project("web");
        let names: Vec<String> = (0..3)
            .map(|_| rig.fork(&project, "coder").0.to_string())
            .collect();
        assert_eq!(names, ["coder", "coder~2", "coder~3"]);
        rig.engine
            .workspaces
            .delete_workspace(&"coder~2".parse().unwrap(), &user())
            .unwrap();
        assert_eq!(rig.fork(&project, "coder").0.as_str(), "coder~2");
        let taken = rig.engine.forks.fork(
            &project,
            &ForkOptions {
                id: Some("coder".parse().unwrap()),
                ..ForkOptions::default()
            },
            &user(),
        );
        assert_eq!(taken.unwrap_err().code(), ErrorCode::AlreadyExists);
        assert_eq!(rig.engine.forks.list_forks(&project).unwrap().len(), 3);
        let busy = rig
            .engine
            .projects
            .delete_project(&project, &user())
            .unwrap_err();
        assert_eq!(busy.code(), ErrorCode::WorkspaceBusy);
        for name in ["coder", "coder~2", "coder~3"] {
            rig.engine
                .workspaces
                .delete_workspace(&name.parse().unwrap(), &user())
                .unwrap();
        }
        rig.engine.context.wait_for_jobs();
        assert!(rig.host.mounts().is_empty(), "{:?}", rig.host.mounts());
        rig.engine
            .projects
            .delete_project(&project, &user())
            .unwrap();
        rig.check();
    });
}

#[test]
fn a_fork_of_an_old_snapshot_and_of_another_fork() {
    with_each(|rig| {
        let project = rig.project("web");
        let old = rig.engine.projects.project(&project).unwrap().head.unwrap();
        rig.put(&project, "README", "newer\n");
        let at = |at: String, agent: &str| {
            let options = ForkOptions {
                agent: Some(agent.parse().unwrap()),
                at: Some(at),
                ..ForkOptions::default()
            };
            rig.engine.forks.fork_out(&project, &options, &user())
        };
        let (fork, path) = at(old.to_hex(), "old").unwrap();
        assert_eq!(fork.base, old);
        assert_eq!(fs::read(path.join("README")).unwrap(), b"read me\n");
        fs::write(path.join("mine"), "mine\n").unwrap();
        let taken = rig
            .engine
            .workspaces
            .snapshot(&fork.workspace.id, None, false, &user())
            .unwrap();
        let (second, second_path) = at(taken.snapshot.id.to_hex(), "second").unwrap();
        assert_eq!(second.base, old, "the base is a snapshot of the project");
        assert_eq!(fs::read(second_path.join("mine")).unwrap(), b"mine\n");
        assert_eq!(
            rig.changes(&second.workspace.id),
            [("mine".to_owned(), ChangeKind::Added)]
        );
        rig.engine
            .workspaces
            .delete_workspace(&fork.workspace.id, &user())
            .unwrap();
        let (third, third_path) = at(taken.snapshot.id.to_hex(), "third").unwrap();
        assert_eq!(fs::read(third_path.join("mine")).unwrap(), b"mine\n");
        assert_eq!(third.base, old);
        assert_eq!(
            at("0".repeat(40), "none").unwrap_err().code(),
            ErrorCode::SnapshotNotFound
        );
        rig.check();
    });
}

#[test]
fn everything_is_found_again_after_a_restart() {
    with_each(|mut rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        fs::write(path.join("README"), "changed\n").unwrap();
        rig.engine.context.wait_for_jobs();
        for mount in rig.host.mounts() {
            // What a restart of the machine does.
            let done = std::process::Command::new("umount").arg(mount).status();
            assert!(done.unwrap().success());
        }
        if rig.provider == ProviderName::Overlay {
            assert!(
                fs::write(path.join("lost"), "x").is_err(),
                "a write was lost"
            );
        }
        rig.reopen();
        assert_eq!(rig.engine.forks.remount_handed_out().unwrap(), 0);
        assert_eq!(fs::read(path.join("README")).unwrap(), b"changed\n");
        assert_eq!(
            rig.changes(&id),
            [("README".to_owned(), ChangeKind::Modified)]
        );
        rig.check();
    });
}

#[test]
fn an_update_moves_a_fork_onto_the_newest_snapshot() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        fs::write(path.join("mine"), "mine\n").unwrap();
        fs::remove_file(path.join("src/main.rs")).unwrap();
        let lib = "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n";
        fs::write(path.join("src/lib.rs"), lib).unwrap();
        // Copied up, but not changed: the project's later content must survive.
        let touched = fs::OpenOptions::new()
            .append(true)
            .open(path.join("README"))
            .unwrap();
        touched.set_modified(std::time::SystemTime::now()).unwrap();
        drop(touched);
        fs::set_permissions(path.join("docs/a/b"), PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir_all(path.join("target/debug")).unwrap();
        fs::write(path.join("target/debug/app"), "built").unwrap();
        fs::write(path.join("docs/x.log"), "log").unwrap();

        rig.put(&project, "README", "newer\n");
        rig.put(&project, "docs/a/b", "deeper\n");
        rig.put(
            &project,
            "src/lib.rs",
            "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n",
        );
        rig.put(&project, "added", "added\n");

        let plan = rig.engine.merges.update(&id, true, &user()).unwrap();
        assert_eq!(fs::read(path.join("README")).unwrap(), b"read me\n");
        assert!(plan.conflicts.is_empty() && plan.merged.contains(&p("src/lib.rs")));
        let done = rig.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(
            Some(done.to),
            rig.engine.projects.project(&project).unwrap().head
        );
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
        assert_eq!(read("README"), "newer\n");
        assert_eq!(read("docs/a/b"), "deeper\n");
        assert_eq!(
            read("src/lib.rs"),
            "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n"
        );
        assert_eq!(read("added"), "added\n");
        assert_eq!(read("mine"), "mine\n");
        assert_eq!(read("target/debug/app"), "built");
        assert_eq!(read("docs/x.log"), "log");
        assert!(!path.join("src/main.rs").exists());
        assert_eq!(
            rig.changes(&id),
            [
                ("docs/a/b".into(), ChangeKind::Mode),
                ("mine".into(), ChangeKind::Added),
                ("src/lib.rs".into(), ChangeKind::Modified),
                ("src/main.rs".into(), ChangeKind::Deleted),
            ]
        );
        let again = rig.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!((again.from, again.kept), (again.to, None));
        // The state before is kept.
        rig.engine
            .workspaces
            .restore(&id, &done.kept.unwrap().to_hex(), None, &user())
            .unwrap();
        assert_eq!(read("README"), "read me\n");
        rig.check();
    });
}

#[test]
fn an_update_of_a_fork_in_use_changes_nothing() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        rig.put(&project, "README", "theirs\n");
        if rig.provider == ProviderName::Overlay {
            let held = fs::File::open(path.join("src/lib.rs")).unwrap();
            let error = rig.engine.merges.update(&id, false, &user()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::WorkspaceBusy);
            drop(held);
        }
        rig.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(fs::read(path.join("README")).unwrap(), b"theirs\n");
        rig.check();
    });
}

#[test]
fn many_changes_of_a_project_make_few_layers_and_forks_stay_as_they_are() {
    with_each(|rig| {
        let project = rig.project("web");
        let (early, early_path) = rig.fork(&project, "early");
        for round in 0..40 {
            rig.put(
                &project,
                &format!("dir{}/file{round}", round % 5),
                &format!("{round}\n"),
            );
            rig.engine.context.wait_for_jobs();
        }
        let (_, path) = rig.fork(&project, "late");
        for round in 0..40 {
            let file = path.join(format!("dir{}/file{round}", round % 5));
            assert_eq!(fs::read_to_string(file).unwrap(), format!("{round}\n"));
        }
        assert!(!early_path.join("dir0").exists());
        assert!(rig.changes(&early).is_empty());
        let removed = rig
            .engine
            .directories
            .collect_layers(std::time::Duration::ZERO)
            .unwrap();
        assert!(removed > 16, "only {removed} layers were collected");
        let left = fs::read_dir(rig.host.path().join("data/layers")).unwrap();
        let left = left
            .filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .count();
        assert!(left < 24, "{left} layers are left");
        assert_eq!(fs::read(early_path.join("README")).unwrap(), b"read me\n");
        assert_eq!(fs::read(path.join("dir1/file1")).unwrap(), b"1\n");
        assert_eq!(rig.project_text(&project, "dir1/file1"), "1\n");
        rig.check();
    });
}

#[test]
fn versions_and_listings_of_a_project() {
    let rig = TestEngine::new(ProviderName::Copy);
    let project = rig.project("web");
    rig.put(&project, "README", "second\n");
    let versions = rig
        .engine
        .projects
        .project_versions(&project, &p("README"))
        .unwrap();
    assert_eq!(versions.len(), 2);
    let first = versions[1].snapshot.id.to_hex();
    let at_first = rig
        .engine
        .projects
        .project_entries(&project, Some(&first), &RelPath::root(), true)
        .unwrap();
    assert_eq!(at_first.len(), 1);
    let now = rig
        .engine
        .projects
        .project_entries(&project, None, &RelPath::root(), false)
        .unwrap();
    let names: Vec<String> = now.iter().map(|one| one.path.to_text()).collect();
    assert_eq!(names, [".gitignore", "README", "docs", "src"]);
    assert_eq!(now[1].size, 7);
    let log = rig
        .engine
        .projects
        .project_snapshots(&project, None, 2)
        .unwrap();
    assert_eq!((log.len(), log[0].files), (2, 5));
    let diff = rig
        .engine
        .projects
        .project_diff(&project, &first, None)
        .unwrap();
    assert!(diff.changes.iter().any(|one| one.path == p("README")));
    // A change that changes nothing makes no snapshot, and a missing one is an error.
    rig.put(&project, "README", "second\n");
    assert_eq!(
        rig.engine
            .projects
            .project_snapshots(&project, None, 0)
            .unwrap()
            .len(),
        6
    );
    let missing = rig
        .engine
        .projects
        .project_versions(&project, &p("nothing"));
    assert_eq!(missing.unwrap_err().code(), ErrorCode::FileNotFound);
    rig.check();
}

#[test]
fn what_is_written_during_an_update_is_not_left_behind() {
    with_each(|rig| {
        if rig.provider != ProviderName::Overlay {
            // Nothing closes a copy; whoever writes to it during an update meets a moment.
            return;
        }
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        fs::create_dir(path.join("late")).unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let (moved, written) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = std::collections::BTreeMap::new();
                for number in 0u64.. {
                    if over.load(relaxed) {
                        break;
                    }
                    let file = path.join(format!("late/{}", number % 7));
                    if fs::write(&file, number.to_string()).is_ok() {
                        written.insert(file, number.to_string());
                    }
                    // A program that writes at once, soon, and after a while: the pause is the case.
                    let pause = [0, 3, 700][(number % 3) as usize];
                    std::thread::sleep(std::time::Duration::from_millis(pause));
                }
                written
            });
            let mut moved = 0;
            for round in 0..10 {
                rig.put(&project, "README", &format!("{round}\n"));
                match rig.engine.merges.update(&id, false, &user()) {
                    Ok(_) => moved += 1,
                    Err(error) => assert_eq!(error.code(), ErrorCode::WorkspaceBusy),
                }
            }
            over.store(true, relaxed);
            (moved, writer.join().unwrap())
        });
        for (file, last) in &written {
            assert_eq!(
                &fs::read_to_string(file).unwrap(),
                last,
                "{}",
                file.display()
            );
        }
        println!("{moved} updates while somebody wrote");
        rig.check();
    });
}

#[test]
fn workspaces_that_are_gone_leave_no_lock_files() {
    with_each(|rig| {
        let project = rig.project("web");
        let locks = || {
            let names = fs::read_dir(rig.host.path().join("data/locks")).unwrap();
            let mut names: Vec<String> = names
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        // The layers of the project are published in the background, with a lock of their own.
        rig.engine.context.wait_for_jobs();
        let before = locks();
        let (one, path) = rig.fork(&project, "one");
        fs::write(path.join("README"), "changed\n").unwrap();
        rig.changes(&one);
        rig.engine
            .workspaces
            .delete_workspace(&one, &user())
            .unwrap();
        let plain = rig
            .engine
            .workspaces
            .create_workspace(
                None,
                offshoot_core::Layout::Plain,
                offshoot_engine::Quota::default(),
                &user(),
            )
            .unwrap()
            .id;
        rig.engine
            .workspaces
            .write_file(
                &plain,
                &p("a"),
                Content::Bytes(b"a"),
                &WriteOptions::default(),
                &user(),
            )
            .unwrap();
        rig.engine
            .workspaces
            .delete_workspace(&plain, &user())
            .unwrap();
        // What never was leaves nothing either.
        rig.engine
            .workspaces
            .delete_workspace(&"nobody".parse().unwrap(), &user())
            .unwrap_err();
        rig.engine.context.wait_for_jobs();
        assert_eq!(locks(), before);
    });
}

/// What is remembered of a fork's changes is only told again if nothing has changed: an engine that
/// remembers and one that was just opened say the same after every step.
#[test]
fn changes_that_are_remembered_are_those_that_are_there() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        let base = fs::read(path.join("README")).unwrap();
        let times = |file: &str, like: &fs::Metadata| {
            let file = fs::File::options().write(true).open(path.join(file));
            file.unwrap()
                .set_modified(like.modified().unwrap())
                .unwrap();
        };
        let steps: [(&str, &dyn Fn()); 14] = [
            ("nothing", &|| {}),
            ("a file changes", &|| {
                fs::write(path.join("README"), "changed\n").unwrap();
            }),
            ("it changes with its size and time", &|| {
                let before = fs::metadata(path.join("README")).unwrap();
                fs::write(path.join("README"), "chanGED\n").unwrap();
                times("README", &before);
            }),
            ("it is what it was", &|| {
                fs::write(path.join("README"), &base).unwrap();
            }),
            ("a file comes", &|| {
                fs::write(path.join("src/new.rs"), "new\n").unwrap();
            }),
            ("a mode changes", &|| {
                fs::set_permissions(path.join("docs/a/b"), PermissionsExt::from_mode(0o755))
                    .unwrap();
            }),
            ("it is ignored", &|| {
                fs::write(path.join(".gitignore"), "*.log\nout/\n").unwrap();
            }),
            ("ignored files come", &|| {
                fs::write(path.join("a.log"), "log\n").unwrap();
                fs::create_dir(path.join("out")).unwrap();
                fs::write(path.join("out/x"), "x\n").unwrap();
            }),
            ("they are no more ignored", &|| {
                fs::write(path.join(".gitignore"), "*.lag\nout/\n").unwrap();
            }),
            ("a file goes", &|| {
                fs::remove_file(path.join("src/main.rs")).unwrap();
            }),
            ("a file is written by a call", &|| {
                let options = WriteOptions::default();
                let content = Content::Bytes(b"called\n");
                rig.engine
                    .workspaces
                    .write_file(&id, &p("docs/called"), content, &options, &user())
                    .unwrap();
            }),
            ("the project goes on", &|| {
                rig.put(&project, "README", "theirs\n");
            }),
            ("it goes on where the fork changed", &|| {
                rig.put(&project, "src/new.rs", "theirs\n");
            }),
            ("a snapshot is taken", &|| {
                rig.engine
                    .workspaces
                    .snapshot(&id, None, false, &user())
                    .unwrap();
            }),
        ];
        let told = |engine: &offshoot_engine::Engine| {
            let changes = engine.sync.changes(&id, &user()).unwrap();
            (changes.base, changes.set, changes.moved)
        };
        let mut before = None;
        for (what, step) in steps {
            step();
            let fresh = told(&crate::fixture::open(rig.host.path(), rig.provider));
            assert_eq!(told(&rig.engine), fresh, "{what}");
            // Long enough ago to be remembered, then from what is.
            std::thread::sleep(std::time::Duration::from_millis(60));
            for _ in 0..3 {
                assert_eq!(told(&rig.engine), fresh, "{what}, later");
            }
            let same = ["nothing", "a snapshot is taken"];
            if !same.contains(&what) {
                assert_ne!(Some(&fresh), before.as_ref(), "{what} was not seen");
            }
            before = Some(fresh);
        }
        rig.check();
    });
}
