//! Projects and forks through the engine, with every provider that works here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ChangeKind, ErrorCode, RelPath};
use offshoot_engine::{Content, Engine, EngineOptions, ForkOptions, Point, WriteOptions};
use offshoot_fs::ProviderName;

#[test]
fn a_fork_shows_its_base_and_keeps_its_changes_apart() {
    with_each(|test| {
        let project = test.project("web");
        let (one, path) = test.fork(&project, "one");
        let (two, other) = test.fork(&project, "two");
        assert_eq!(
            fs::read_to_string(path.join("README")).unwrap(),
            "read me\n"
        );
        fs::write(path.join("README"), "changed\n").unwrap();
        fs::write(path.join("new"), "new\n").unwrap();
        fs::remove_file(path.join("src/main.rs")).unwrap();
        fs::set_permissions(path.join("docs/a/b"), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(
            test.changes(&one),
            [
                ("README".into(), ChangeKind::Modified),
                ("docs/a/b".into(), ChangeKind::Mode),
                ("new".into(), ChangeKind::Added),
                ("src/main.rs".into(), ChangeKind::Deleted),
            ]
        );
        assert!(test.changes(&two).is_empty());
        assert_eq!(
            fs::read_to_string(other.join("README")).unwrap(),
            "read me\n"
        );
        // Neither fork sees a later change of the project.
        test.put(&project, "docs/a/b", "later\n");
        assert_eq!(
            fs::read_to_string(other.join("docs/a/b")).unwrap(),
            "deep\n"
        );
        let moved = test.engine.sync.changes(&one).unwrap().moved.unwrap();
        assert_eq!((moved.snapshots, moved.overlap), (1, vec![p("docs/a/b")]));
        // A file overlaps with a directory that the project has at its path by now.
        test.put(&project, "new/below", "of others\n");
        let moved = test.engine.sync.changes(&one).unwrap().moved.unwrap();
        assert_eq!(moved.overlap, [p("docs/a/b"), p("new")]);
        test.check();
    });
}

#[test]
fn a_lazy_fork_is_rows_until_somebody_asks_for_its_path() {
    with_each(|test| {
        let project = test.project("web");
        let fork = test
            .engine
            .forks
            .fork(&project, &ForkOptions::default(), &user())
            .unwrap();
        let id = fork.workspace.id;
        let path = test.host.path().join("data/workspaces").join(id.as_str());
        assert!(!path.exists() && !fork.workspace.materialized);
        let (bytes, _) = test
            .engine
            .workspaces
            .read_whole(&id, &p("README"))
            .unwrap();
        assert_eq!(bytes, b"read me\n");
        test.engine
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
        assert_eq!(test.changes(&id), changes);
        assert!(!path.exists());
        assert_eq!(test.engine.workspaces.hand_out_path(&id).unwrap(), path);
        assert_eq!(fs::read(path.join("src/new.rs")).unwrap(), b"new");
        assert_eq!(fs::read(path.join("README")).unwrap(), b"read me\n");
        assert_eq!(test.changes(&id), changes);
        test.check();
    });
}

#[test]
fn snapshots_and_restores_of_a_fork() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        let base = test.engine.forks.fork_of(&id).unwrap().unwrap().base;
        fs::write(path.join("README"), "first\n").unwrap();
        fs::remove_dir_all(path.join("docs")).unwrap();
        fs::create_dir(path.join("empty")).unwrap();
        let first = test
            .engine
            .workspaces
            .snapshot(&id, Some("first"), false, &user())
            .unwrap();
        assert_eq!(first.snapshot.parent, Some(base));
        fs::write(path.join("README"), "second\n").unwrap();
        fs::create_dir_all(path.join("docs/a")).unwrap();
        fs::write(path.join("docs/a/b"), "other\n").unwrap();
        test.engine
            .workspaces
            .restore(&id, &first.snapshot.id.to_hex(), None, &user())
            .unwrap();
        assert_eq!(fs::read(path.join("README")).unwrap(), b"first\n");
        assert!(!path.join("docs").exists() && path.join("empty").is_dir());
        test.engine
            .workspaces
            .restore(&id, &base.to_hex(), None, &user())
            .unwrap();
        assert_eq!(fs::read(path.join("docs/a/b")).unwrap(), b"deep\n");
        assert!(test.changes(&id).is_empty());
        let diff = test
            .engine
            .workspaces
            .diff(&id, Point::Snapshot(&base.to_hex()), Point::Now)
            .unwrap();
        assert!(diff.changes.is_empty(), "{diff:?}");
        test.check();
    });
}

#[test]
fn changes_that_are_undone_are_no_changes() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        fs::write(path.join("README"), "x").unwrap();
        fs::write(path.join("new"), "x").unwrap();
        test.engine
            .workspaces
            .snapshot(&id, None, false, &user())
            .unwrap();
        fs::write(path.join("README"), "read me\n").unwrap();
        fs::remove_file(path.join("new")).unwrap();
        assert!(test.changes(&id).is_empty());
        // Touching a file and opening it for writing are no changes either.
        let file = fs::OpenOptions::new()
            .write(true)
            .open(path.join("src/lib.rs"))
            .unwrap();
        drop(file);
        assert!(test.changes(&id).is_empty());
        // A directory of the base is renamed, and renamed back.
        if fs::rename(path.join("src"), path.join("lib")).is_ok() {
            let moved = test.changes(&id);
            assert!(
                moved.contains(&("lib/main.rs".into(), ChangeKind::Added)),
                "{moved:?}"
            );
            assert!(
                moved.contains(&("src/main.rs".into(), ChangeKind::Deleted)),
                "{moved:?}"
            );
            test.engine
                .workspaces
                .snapshot(&id, None, false, &user())
                .unwrap();
            test.check();
            fs::rename(path.join("lib"), path.join("src")).unwrap();
        }
        assert!(test.changes(&id).is_empty());
        test.check();
    });
}

#[test]
fn ignored_files_are_listed_apart_and_not_walked() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        fs::create_dir_all(path.join("target/debug")).unwrap();
        fs::write(path.join("target/debug/app"), "x").unwrap();
        fs::write(path.join("build.log"), "x").unwrap();
        fs::write(path.join("code"), "x").unwrap();
        let changes = test.engine.sync.changes(&id).unwrap();
        assert_eq!(changes.set.changes.len(), 1);
        assert_eq!(changes.set.ignored, [p("build.log"), p("target")]);
        test.check();
    });
}

#[test]
fn forks_of_one_agent_and_names() {
    with_each(|test| {
        let project = test.project("web");
        let names: Vec<String> = (0..3)
            .map(|_| test.fork(&project, "coder").0.to_string())
            .collect();
        assert_eq!(names, ["coder", "coder~2", "coder~3"]);
        test.engine
            .workspaces
            .delete_workspace(&"coder~2".parse().unwrap(), &user())
            .unwrap();
        assert_eq!(test.fork(&project, "coder").0.as_str(), "coder~2");
        let taken = test.engine.forks.fork(
            &project,
            &ForkOptions {
                id: Some("coder".parse().unwrap()),
                ..ForkOptions::default()
            },
            &user(),
        );
        assert_eq!(taken.unwrap_err().code(), ErrorCode::AlreadyExists);
        assert_eq!(test.engine.forks.list_forks(&project).unwrap().len(), 3);
        let busy = test
            .engine
            .projects
            .delete_project(&project, &user())
            .unwrap_err();
        assert_eq!(busy.code(), ErrorCode::WorkspaceBusy);
        for name in ["coder", "coder~2", "coder~3"] {
            test.engine
                .workspaces
                .delete_workspace(&name.parse().unwrap(), &user())
                .unwrap();
        }
        test.engine.context.wait_for_jobs();
        assert!(test.host.mounts().is_empty(), "{:?}", test.host.mounts());
        test.engine
            .projects
            .delete_project(&project, &user())
            .unwrap();
        test.check();
    });
}

#[test]
fn a_fork_of_an_old_snapshot_and_of_another_fork() {
    with_each(|test| {
        let project = test.project("web");
        let old = test
            .engine
            .projects
            .project(&project)
            .unwrap()
            .head
            .unwrap();
        test.put(&project, "README", "newer\n");
        let at = |at: String, agent: &str| {
            let options = ForkOptions {
                agent: Some(agent.parse().unwrap()),
                at: Some(at),
                ..ForkOptions::default()
            };
            test.engine.forks.fork_out(&project, &options, &user())
        };
        let (fork, path) = at(old.to_hex(), "old").unwrap();
        assert_eq!(fork.base, old);
        assert_eq!(fs::read(path.join("README")).unwrap(), b"read me\n");
        fs::write(path.join("mine"), "mine\n").unwrap();
        let taken = test
            .engine
            .workspaces
            .snapshot(&fork.workspace.id, None, false, &user())
            .unwrap();
        let (second, second_path) = at(taken.snapshot.id.to_hex(), "second").unwrap();
        assert_eq!(second.base, old, "the base is a snapshot of the project");
        assert_eq!(fs::read(second_path.join("mine")).unwrap(), b"mine\n");
        assert_eq!(
            test.changes(&second.workspace.id),
            [("mine".to_owned(), ChangeKind::Added)]
        );
        test.engine
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
        test.check();
    });
}

/// A reader does not mount a fork while somebody holds it: an update may have unmounted the directory
/// that the fork leaves, and would take that one away behind the mount.
#[test]
fn a_reader_does_not_mount_a_fork_that_somebody_holds() {
    with_each(|test| {
        if test.provider != ProviderName::Overlay {
            return;
        }
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        let key = test.store().read(|tx| tx.workspace(&id)).unwrap();
        let locks = offshoot_fs::WorkspaceLocks::new(test.host.path().join("data/locks")).unwrap();
        let held = locks.exclusive(&key.unwrap().key.0.to_string(), Duration::from_secs(30));
        let done = std::process::Command::new("umount").arg(&path).status();
        assert!(done.unwrap().success());
        let mut options = EngineOptions::new(test.host.path().join("data"));
        options.provider = Some(ProviderName::Overlay);
        options.lock_timeout = Duration::ZERO;
        let other = Engine::open(options).unwrap();
        let read = || other.workspaces.open_file(&id, &p("README"));
        assert_eq!(read().err().unwrap().code(), ErrorCode::WorkspaceBusy);
        assert!(test.host.mounts().is_empty(), "the reader has mounted it");
        drop(held.unwrap());
        read().unwrap();
        assert!(path.join("README").exists());
    });
}

#[test]
fn everything_is_found_again_after_a_restart() {
    with_each(|mut test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        fs::write(path.join("README"), "changed\n").unwrap();
        test.engine.context.wait_for_jobs();
        for mount in test.host.mounts() {
            // What a restart of the machine does to mounts.
            let done = std::process::Command::new("umount").arg(mount).status();
            assert!(done.unwrap().success());
        }
        if test.provider == ProviderName::Overlay {
            assert!(
                fs::write(path.join("lost"), "x").is_err(),
                "a write was lost"
            );
        }
        test.reopen();
        assert_eq!(test.engine.forks.remount_handed_out().unwrap(), 0);
        assert_eq!(fs::read(path.join("README")).unwrap(), b"changed\n");
        assert_eq!(
            test.changes(&id),
            [("README".to_owned(), ChangeKind::Modified)]
        );
        test.check();
    });
}

#[test]
fn an_update_moves_a_fork_onto_the_newest_snapshot() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        fs::write(path.join("mine"), "mine\n").unwrap();
        fs::remove_file(path.join("src/main.rs")).unwrap();
        let lib = "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n";
        fs::write(path.join("src/lib.rs"), lib).unwrap();
        // Copied up, but not changed: the later content of the project must survive.
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

        test.put(&project, "README", "newer\n");
        test.put(&project, "docs/a/b", "deeper\n");
        test.put(
            &project,
            "src/lib.rs",
            "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n",
        );
        test.put(&project, "added", "added\n");

        let plan = test.engine.merges.update(&id, true, &user()).unwrap();
        assert_eq!(fs::read(path.join("README")).unwrap(), b"read me\n");
        assert!(plan.conflicts.is_empty() && plan.merged.contains(&p("src/lib.rs")));
        let done = test.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(
            Some(done.to),
            test.engine.projects.project(&project).unwrap().head
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
            test.changes(&id),
            [
                ("docs/a/b".into(), ChangeKind::Mode),
                ("mine".into(), ChangeKind::Added),
                ("src/lib.rs".into(), ChangeKind::Modified),
                ("src/main.rs".into(), ChangeKind::Deleted),
            ]
        );
        let again = test.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!((again.from, again.kept), (again.to, None));
        // The state before is kept in a snapshot.
        test.engine
            .workspaces
            .restore(&id, &done.kept.unwrap().to_hex(), None, &user())
            .unwrap();
        assert_eq!(read("README"), "read me\n");
        test.check();
    });
}

#[test]
fn an_update_of_a_fork_in_use_changes_nothing() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        test.put(&project, "README", "theirs\n");
        if test.provider == ProviderName::Overlay {
            let held = fs::File::open(path.join("src/lib.rs")).unwrap();
            let error = test.engine.merges.update(&id, false, &user()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::WorkspaceBusy);
            drop(held);
        }
        test.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(fs::read(path.join("README")).unwrap(), b"theirs\n");
        test.check();
    });
}

#[test]
fn many_changes_of_a_project_make_few_layers_and_forks_stay_as_they_are() {
    with_each(|test| {
        let project = test.project("web");
        let (early, early_path) = test.fork(&project, "early");
        for round in 0..40 {
            test.put(
                &project,
                &format!("dir{}/file{round}", round % 5),
                &format!("{round}\n"),
            );
            test.engine.context.wait_for_jobs();
        }
        let (_, path) = test.fork(&project, "late");
        for round in 0..40 {
            let file = path.join(format!("dir{}/file{round}", round % 5));
            assert_eq!(fs::read_to_string(file).unwrap(), format!("{round}\n"));
        }
        assert!(!early_path.join("dir0").exists());
        assert!(test.changes(&early).is_empty());
        let removed = test
            .engine
            .directories
            .collect_layers(std::time::Duration::ZERO)
            .unwrap();
        assert!(removed > 16, "only {removed} layers were collected");
        let left = fs::read_dir(test.host.path().join("data/layers")).unwrap();
        let left = left
            .filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .count();
        assert!(left < 24, "{left} layers are left");
        assert_eq!(fs::read(early_path.join("README")).unwrap(), b"read me\n");
        assert_eq!(fs::read(path.join("dir1/file1")).unwrap(), b"1\n");
        assert_eq!(test.project_text(&project, "dir1/file1"), "1\n");
        test.check();
    });
}

#[test]
fn versions_and_listings_of_a_project() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    test.put(&project, "README", "second\n");
    let versions = test
        .engine
        .projects
        .project_versions(&project, &p("README"))
        .unwrap();
    assert_eq!(versions.len(), 2);
    let first = versions[1].snapshot.id.to_hex();
    let at_first = test
        .engine
        .projects
        .project_entries(&project, Some(&first), &RelPath::root(), true)
        .unwrap();
    assert_eq!(at_first.len(), 1);
    let now = test
        .engine
        .projects
        .project_entries(&project, None, &RelPath::root(), false)
        .unwrap();
    let names: Vec<String> = now.iter().map(|one| one.path.to_text()).collect();
    assert_eq!(names, [".gitignore", "README", "docs", "src"]);
    assert_eq!(now[1].size, 7);
    let log = test
        .engine
        .projects
        .project_snapshots(&project, None, 2)
        .unwrap();
    assert_eq!((log.len(), log[0].files), (2, 5));
    let diff = test
        .engine
        .projects
        .project_diff(&project, &first, None)
        .unwrap();
    assert!(diff.changes.iter().any(|one| one.path == p("README")));
    // A change to the same content makes no snapshot, and removing a missing file is an error.
    test.put(&project, "README", "second\n");
    assert_eq!(
        test.engine
            .projects
            .project_snapshots(&project, None, 0)
            .unwrap()
            .len(),
        6
    );
    let missing = test
        .engine
        .projects
        .project_versions(&project, &p("nothing"));
    assert_eq!(missing.unwrap_err().code(), ErrorCode::FileNotFound);
    test.check();
}

#[test]
fn what_is_written_during_an_update_is_not_left_behind() {
    with_each(|test| {
        if test.provider != ProviderName::Overlay {
            // A copy cannot be closed, so a program that writes to it during an update may fail for
            // a moment.
            return;
        }
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
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
                    // A program that writes at once, soon, and after a while: the case is the
                    // pause.
                    let pause = [0, 3, 700][(number % 3) as usize];
                    std::thread::sleep(std::time::Duration::from_millis(pause));
                }
                written
            });
            let mut moved = 0;
            for round in 0..10 {
                test.put(&project, "README", &format!("{round}\n"));
                match test.engine.merges.update(&id, false, &user()) {
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
        test.check();
    });
}

#[test]
fn workspaces_that_are_gone_leave_no_lock_files() {
    with_each(|test| {
        let project = test.project("web");
        let locks = || {
            let names = fs::read_dir(test.host.path().join("data/locks")).unwrap();
            let mut names: Vec<String> = names
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        // The layers of the project are published in the background, under a lock of their own.
        test.engine.context.wait_for_jobs();
        let before = locks();
        let (one, path) = test.fork(&project, "one");
        fs::write(path.join("README"), "changed\n").unwrap();
        test.changes(&one);
        test.engine
            .workspaces
            .delete_workspace(&one, &user())
            .unwrap();
        let plain = test
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
        test.engine
            .workspaces
            .write_file(
                &plain,
                &p("a"),
                Content::Bytes(b"a"),
                &WriteOptions::default(),
                &user(),
            )
            .unwrap();
        test.engine
            .workspaces
            .delete_workspace(&plain, &user())
            .unwrap();
        // A fork that was never made leaves nothing.
        test.engine
            .workspaces
            .delete_workspace(&"nobody".parse().unwrap(), &user())
            .unwrap_err();
        test.engine.context.wait_for_jobs();
        assert_eq!(locks(), before);
    });
}

/// Cached changes of a fork are used only if nothing has changed: an engine with a cache and one
/// that was just opened give equal answers after every step.
#[test]
fn changes_that_are_remembered_are_those_that_are_there() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
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
                test.engine
                    .workspaces
                    .write_file(&id, &p("docs/called"), content, &options, &user())
                    .unwrap();
            }),
            ("the project goes on", &|| {
                test.put(&project, "README", "theirs\n");
            }),
            ("it goes on where the fork changed", &|| {
                test.put(&project, "src/new.rs", "theirs\n");
            }),
            ("a snapshot is taken", &|| {
                test.engine
                    .workspaces
                    .snapshot(&id, None, false, &user())
                    .unwrap();
            }),
        ];
        let changes_of = |engine: &offshoot_engine::Engine| {
            let changes = engine.sync.changes(&id).unwrap();
            (changes.base, changes.set, changes.moved)
        };
        let mut before = None;
        for (what, step) in steps {
            step();
            let fresh = changes_of(&crate::fixture::open(test.host.path(), test.provider));
            assert_eq!(changes_of(&test.engine), fresh, "{what}");
            // The files are old enough to be cached; the second answer comes from the cache.
            std::thread::sleep(std::time::Duration::from_millis(60));
            for _ in 0..3 {
                assert_eq!(changes_of(&test.engine), fresh, "{what}, later");
            }
            let same = ["nothing", "a snapshot is taken"];
            if !same.contains(&what) {
                assert_ne!(Some(&fresh), before.as_ref(), "{what} was not seen");
            }
            before = Some(fresh);
        }
        test.check();
    });
}
