//! Paths that a merge never brings into a project: git repositories under every name that git
//! accepts, what git refuses in a tree, and reserved directories.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ErrorCode, ObjectId, ProjectId, RelPath, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Content, ForkOptions, ImportOptions, LeftOut, Policy, Resolution,
    WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_testkit::{git, git_command};

const HOSTILE: &str = "[core]\n\tfsmonitor = touch ../pwned; false\n";

fn write(dir: &Path, path: &str, content: &str) {
    let place = dir.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, content).unwrap();
}

fn complete(test: &TestEngine, id: &WorkspaceId) -> Completed {
    test.engine
        .merges
        .complete(id, &CompleteOptions::default(), &user())
        .unwrap()
}

fn paths(left_out: &[LeftOut]) -> Vec<String> {
    assert!(left_out.iter().all(|one| !one.reason.is_empty()));
    left_out.iter().map(|one| one.path.to_text()).collect()
}

fn of_project(test: &TestEngine, project: &ProjectId) -> Vec<String> {
    let image = test.project_image(project, None);
    let text = |path: &[u8]| RelPath::from_normal(path).to_text();
    image.keys().map(|path| text(&path.0)).collect()
}

/// Stock git has nothing to say against the project or a workspace.
fn assert_clean(test: &TestEngine, project: &ProjectId, workspace: Option<&WorkspaceId>) {
    let target = test.host.path().join("exported.git");
    match workspace {
        Some(id) => test
            .engine
            .workspaces
            .snapshot(id, None, false, &user())
            .and_then(|_| test.engine.workspaces.export_git(id, &target, &mut |_| {}))
            .map(drop),
        None => test
            .engine
            .workspaces
            .export_project_git(project, &target, None, &mut |_| {})
            .map(drop),
    }
    .unwrap();
    let fsck = git_command(&target)
        .args(["fsck", "--strict", "--no-dangling"])
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&fsck.stderr);
    assert!(
        fsck.status.success() && !messages.contains("error"),
        "{messages}"
    );
    fs::remove_dir_all(&target).unwrap();
}

fn import(test: &TestEngine, name: &str, source: &Path) -> ProjectId {
    let id: ProjectId = name.parse().unwrap();
    test.engine
        .projects
        .import_dir(&id, source, &ImportOptions::default(), &mut |_| {}, &user())
        .unwrap();
    id
}

fn fork_at(
    test: &TestEngine,
    project: &ProjectId,
    agent: &str,
    at: ObjectId,
) -> (WorkspaceId, PathBuf) {
    let options = ForkOptions {
        agent: Some(agent.parse().unwrap()),
        at: Some(at.to_hex()),
        ..ForkOptions::default()
    };
    let (fork, path) = test
        .engine
        .forks
        .fork_out(project, &options, &user())
        .unwrap();
    (fork.workspace.id, path)
}

/// Every name under which git on some platform would find a repository.
fn disguise(dir: &Path) -> Vec<String> {
    git(dir, &["init", "-q"]);
    fs::write(dir.join(".git/config"), HOSTILE).unwrap();
    for name in [
        "a/b/.git/config",
        "caps/.GIT/config",
        "dots/.git. ./config",
        "hfs/.g\u{200c}it/config",
        "short/git~1/config",
        "stream/.git::$INDEX_ALLOCATION/config",
    ] {
        write(dir, name, HOSTILE);
    }
    write(dir, "file/.git", "gitdir: ../../elsewhere\n");
    write(dir, "windows/x\\.git\\config", HOSTILE);
    fs::create_dir(dir.join("link")).unwrap();
    symlink("../a/b/.git", dir.join("link/.git")).unwrap();
    [
        ".git",
        "a/b/.git",
        "caps/.GIT",
        "dots/.git. .",
        "file/.git",
        "hfs/.g\u{200c}it",
        "link/.git",
        "short/git~1",
        "stream/.git::$INDEX_ALLOCATION",
        "windows/x\\x5c.git\\x5cconfig",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn a_repository_of_one_agent_reaches_nobody() {
    with_each(|test| {
        let project = test.project("web");
        let (other, other_path) = test.fork(&project, "bob");
        write(&other_path, "bob.txt", "bob\n");
        let (id, path) = test.fork(&project, "ada");
        let hidden = disguise(&path);
        write(&path, "real.txt", "real\n");
        let plan = test
            .engine
            .merges
            .plan_completion(&id, &CompleteOptions::default(), &user())
            .unwrap();
        assert_eq!(paths(&plan.left_out), hidden);
        assert_clean(&test, &project, Some(&id));
        let options = CompleteOptions {
            include_ignored: true,
            ..CompleteOptions::default()
        };
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(paths(&done.left_out), hidden);
        assert_eq!(done.merged, [p("real.txt")]);
        assert_eq!(
            test.engine
                .merges
                .receipt(done.merge_id.as_ref().unwrap())
                .unwrap()
                .completed,
            // The log says what was merged; what became of the workspace is only in the answer.
            Completed {
                after: None,
                ..done
            }
        );
        let held = of_project(&test, &project);
        assert!(
            !held.iter().any(|one| hidden
                .iter()
                .any(|top| one.starts_with(top.as_str()) && one != ".gitignore")),
            "{held:?}"
        );
        assert_clean(&test, &project, None);

        // In a new fork, an updated one, and one with a repository of its own git runs nothing.
        let (_, fresh) = test.fork(&project, "eve");
        test.engine.merges.update(&other, false, &user()).unwrap();
        for dir in [&fresh, &other_path] {
            assert!(dir.join("real.txt").exists() && !dir.join(".git").exists());
            let _ = git_command(dir).arg("status").output().unwrap();
            assert!(!dir.join("../pwned").exists());
        }
        let git_fork = ForkOptions {
            git: true,
            ..ForkOptions::default()
        };
        let (_, with_git) = test
            .engine
            .forks
            .fork_out(&project, &git_fork, &user())
            .unwrap();
        assert_eq!(git(&with_git, &["status", "--porcelain"]), "");
        test.check();
    });
}

#[test]
fn a_workspace_keeps_its_own_and_no_fork_of_it_begins_with_it() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "ada");
        let hidden = disguise(&path);
        write(&path, "real.txt", "real\n");
        write(&path, ".meta/.meta", "forged\n");
        let snapshot = test
            .engine
            .workspaces
            .snapshot(&id, None, false, &user())
            .unwrap()
            .snapshot;
        let (beside, begun) = fork_at(&test, &project, "bob", snapshot.id);
        assert!(begun.join("real.txt").exists() && !begun.join(".git").exists());
        for top in ["short/git~1", "caps/.GIT", "file/.git", ".meta"] {
            assert!(!begun.join(top).exists(), "{top}");
        }
        let changed: Vec<String> = test.changes(&beside).into_iter().map(|one| one.0).collect();
        assert!(changed.contains(&"real.txt".to_owned()));
        let options = CompleteOptions {
            keep: true,
            ..CompleteOptions::default()
        };
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(done.left_out.len(), hidden.len() + 1);
        // The fork keeps its repositories, and the next merge leaves them out again.
        assert_eq!(
            fs::read_to_string(path.join(".git/config")).unwrap(),
            HOSTILE
        );
        write(&path, "more.txt", "more\n");
        let again = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(again.merged, [p("more.txt")]);
        assert_eq!(again.left_out, done.left_out);
        fs::remove_dir_all(path.join("short")).unwrap();
        test.engine
            .workspaces
            .restore(&id, &snapshot.id.to_hex(), None, &user())
            .unwrap();
        assert!(path.join("short/git~1/config").exists());

        assert_eq!(complete(&test, &beside).left_out, []);
        let elsewhere = test
            .engine
            .workspaces
            .create_workspace_from(
                Some("ws".parse().unwrap()),
                &snapshot.id.to_hex(),
                Default::default(),
                &user(),
            )
            .unwrap();
        let place = test.engine.workspaces.hand_out_path(&elsewhere.id).unwrap();
        assert!(place.join("real.txt").exists() && !place.join(".git").exists());
        assert_clean(&test, &project, Some(&elsewhere.id));
        test.check();
    });
}

#[test]
fn a_merge_that_waits_for_a_decision_leaves_the_same_out() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (id, path) = test.fork(&project, "ada");
    test.put(&project, "README", "the project's\n");
    write(&path, "README", "ada's\n");
    write(&path, "new.txt", "new\n");
    write(&path, "a/.git/hooks/post-checkout", "#!/bin/sh\n");
    let options = CompleteOptions {
        atomic: Some(true),
        ..CompleteOptions::default()
    };
    let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
    assert_eq!(
        (done.snapshot, paths(&done.left_out)),
        (None, vec!["a/.git".to_owned()])
    );
    let review = done.conflicts[0].review_id.clone().unwrap();
    test.engine
        .merges
        .resolve(&review, Resolution::Theirs, &user())
        .unwrap();
    assert_eq!(test.project_text(&project, "new.txt"), "new\n");
    assert!(
        !of_project(&test, &project)
            .iter()
            .any(|one| one.contains(".git/"))
    );
    let merge = done.merge_id.unwrap();
    test.engine.merges.undo_merge(&merge, &user()).unwrap();
    assert_clean(&test, &project, None);
}

#[test]
fn a_repository_of_the_owner_is_nobody_elses_to_change() {
    let test = TestEngine::new(ProviderName::Copy);
    let source = test.host.path().join("source");
    for (file, text) in [
        ("src/main.rs", "fn main() {}\n"),
        ("vendor/x/.git/config", "[core]\n"),
        ("vendor/x/.git/HEAD", "ref: refs/heads/main\n"),
        ("vendor/x/lib.rs", "x\n"),
        ("vendor/y/.git/HEAD", "y\n"),
        ("vendor/y/lib.rs", "y\n"),
    ] {
        write(&source, file, text);
    }
    let project = import(&test, "app", &source);
    let (id, path) = test.fork(&project, "ada");
    assert!(path.join("vendor/x/.git/config").exists());
    fs::write(path.join("vendor/x/.git/config"), HOSTILE).unwrap();
    fs::rename(path.join("src/main.rs"), path.join("vendor/x/.git/main.rs")).unwrap();
    fs::rename(path.join("vendor/x/.git/HEAD"), path.join("taken")).unwrap();
    fs::remove_dir_all(path.join("vendor/y")).unwrap();
    let done = complete(&test, &id);
    assert_eq!(paths(&done.left_out), ["vendor/x/.git"]);
    let held = of_project(&test, &project);
    assert!(held.contains(&"taken".to_owned()) && !held.contains(&"src/main.rs".to_owned()));
    assert_eq!(
        test.project_text(&project, "vendor/x/.git/config"),
        "[core]\n"
    );
    assert_eq!(
        test.project_text(&project, "vendor/x/.git/HEAD"),
        "ref: refs/heads/main\n"
    );
    // A repository is removed with the directory that it is in.
    assert!(
        !held.iter().any(|one| one.starts_with("vendor/y")),
        "{held:?}"
    );

    // A directory becomes a file that points to a repository.
    let (id, path) = test.fork(&project, "bob");
    fs::remove_dir_all(path.join("vendor/x/.git")).unwrap();
    fs::write(path.join("vendor/x/.git"), "gitdir: ../../evil\n").unwrap();
    assert_eq!(paths(&complete(&test, &id).left_out), ["vendor/x/.git"]);
    assert_eq!(
        test.project_text(&project, "vendor/x/.git/config"),
        "[core]\n"
    );
    test.check();
}

#[test]
fn modules_that_git_refuses_stay_where_they_are() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (id, path) = test.fork(&project, "ada");
    write(
        &path,
        ".gitmodules",
        "[submodule \"x\"]\n\turl = -u./payload\n",
    );
    write(
        &path,
        "a/.gitmodules",
        "[submodule \"x\"]\n\tpath = x\n\turl = ../x\n",
    );
    write(&path, "b/.gitattributes", &"x".repeat(4_000));
    write(&path, "c/.gitmodules/file", "a directory\n");
    symlink("../README", path.join("docs/.gitmodules")).unwrap();
    symlink("README", path.join("gi7eba~1")).unwrap();
    assert_clean(&test, &project, Some(&id));
    let snapshot = test
        .engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap()
        .snapshot;
    fs::remove_file(path.join(".gitmodules")).unwrap();
    test.engine
        .workspaces
        .restore(&id, &snapshot.id.to_hex(), None, &user())
        .unwrap();
    assert!(path.join(".gitmodules").exists());
    assert_clean(&test, &project, Some(&id));
    let done = complete(&test, &id);
    let expected = [
        ".gitmodules",
        "b/.gitattributes",
        "c/.gitmodules",
        "docs/.gitmodules",
        "gi7eba~1",
    ];
    assert_eq!(paths(&done.left_out), expected);
    assert_eq!(done.merged, [p("a/.gitmodules")]);
    assert_clean(&test, &project, None);
    test.check();
}

#[test]
fn an_import_keeps_what_git_refuses_out_of_the_tree() {
    let test = TestEngine::new(ProviderName::Copy);
    let source = test.host.path().join("source");
    write(&source, "README", "read me\n");
    write(
        &source,
        ".gitmodules",
        "[submodule \"x\"]\n\tupdate = !evil\n",
    );
    write(&source, "n/GIT~1/HEAD", "x\n");
    let project = import(&test, "app", &source);
    assert_clean(&test, &project, None);
    assert!(test.project_text(&project, ".gitmodules").contains("!evil"));
    write(
        &source,
        ".gitmodules",
        "[submodule \"y\"]\n\tupdate = !evil\n",
    );
    test.engine
        .links
        .sync_directory(
            &project,
            Some(&source),
            &ImportOptions::default(),
            &mut |_| {},
            &user(),
        )
        .unwrap();
    assert_clean(&test, &project, None);
    assert!(test.project_text(&project, "n/GIT~1/HEAD").contains('x'));
    test.check();
}

#[test]
fn nobody_puts_them_into_a_project_by_hand() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let put = |path: &str, text: &str| {
        let content = Content::Bytes(text.as_bytes());
        let options = WriteOptions::default();
        test.engine
            .projects
            .put_in_project(&project, &p(path), content, &options, &user())
    };
    let bad = "[submodule \"..\"]\n\turl = x\n";
    for (path, text) in [
        (".git/config", "x"),
        ("a/.GIT", "x"),
        (".gitmodules", bad),
        (".meta/.meta", "x"),
        (".logs/x", "x"),
    ] {
        let refused = put(path, text).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::PermissionDenied, "{path}");
        assert!(refused.hint().is_some());
        let import = test.engine.projects.begin_import(&project).unwrap();
        let refused = import.write_file(&p(path), Content::Bytes(text.as_bytes()), false);
        assert_eq!(
            refused.unwrap_err().code(),
            ErrorCode::PermissionDenied,
            "{path}"
        );
    }
    put(".gitmodules", "[submodule \"x\"]\n\turl = ../x\n").unwrap();
    let import = test.engine.projects.begin_import(&project).unwrap();
    assert!(import.make_link(&p("x/.gitmodules"), b"y").is_err());
    assert!(import.make_dir(&p("x/.git")).is_err());

    // The decision of a conflict cannot bring one either.
    let (id, path) = test.fork(&project, "ada");
    put(".gitmodules", "[submodule \"x\"]\n\turl = ../y\n").unwrap();
    write(&path, ".gitmodules", "[submodule \"x\"]\n\turl = ../z\n");
    let done = complete(&test, &id);
    let review = done.conflicts[0].review_id.clone().unwrap();
    let content = Resolution::Content(Content::Bytes(bad.as_bytes()));
    let refused = test
        .engine
        .merges
        .resolve(&review, content, &user())
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PermissionDenied);
    test.engine
        .merges
        .resolve(&review, Resolution::Theirs, &user())
        .unwrap();
    assert_clean(&test, &project, None);
}

#[test]
fn places_of_ours_cannot_be_forged() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "ada");
        let write_file = |path: &str| {
            test.engine.workspaces.write_file(
                &id,
                &p(path),
                Content::Bytes(b"forged"),
                &WriteOptions::default(),
                &user(),
            )
        };
        for name in [".meta/.meta", ".meta/README", ".meta", ".logs/x"] {
            assert_eq!(
                write_file(name).unwrap_err().code(),
                ErrorCode::PermissionDenied,
                "{name}"
            );
        }
        let denied = |code| assert_eq!(code, ErrorCode::PermissionDenied);
        denied(
            test.engine
                .workspaces
                .make_dir_in(&id, &p(".meta"), &user())
                .unwrap_err()
                .code(),
        );
        denied(
            test.engine
                .workspaces
                .make_link(&id, &p(".meta"), b"src", &user())
                .unwrap_err()
                .code(),
        );
        denied(
            test.engine
                .workspaces
                .move_file(&id, &p("src"), &p(".meta"), &user())
                .unwrap_err()
                .code(),
        );
        write_file("a/.meta/x").unwrap();

        write(&path, ".meta/.meta", "{\"files\": []}");
        write(&path, ".logs/run", "log\n");
        write(&path, "real", "real\n");
        let read = |id: &WorkspaceId| {
            let (bytes, _) = test
                .engine
                .workspaces
                .read_whole(id, &p(".meta/.meta"))
                .unwrap();
            String::from_utf8(bytes).unwrap()
        };
        test.engine.sync.sync_workspace(&id).unwrap();
        assert!(read(&id).contains("real"));
        let done = complete(&test, &id);
        assert_eq!(paths(&done.left_out), [".logs", ".meta"]);
        let (next, place) = test.fork(&project, "bob");
        assert!(read(&next).contains("real") && !place.join(".meta").exists());
    });
}

#[test]
fn a_real_one_that_was_imported_stays_a_plain_directory() {
    let test = TestEngine::new(ProviderName::Copy);
    let source = test.host.path().join("source");
    write(&source, ".meta/.meta", "the owner's\n");
    write(&source, "README", "read me\n");
    let project = import(&test, "app", &source);
    let (id, path) = test.fork(&project, "ada");
    assert_eq!(
        test.engine
            .workspaces
            .read_whole(&id, &p(".meta/.meta"))
            .unwrap()
            .0,
        b"the owner's\n"
    );
    test.engine
        .workspaces
        .write_file(
            &id,
            &p(".meta/a"),
            Content::Bytes(b"a"),
            &WriteOptions::default(),
            &user(),
        )
        .unwrap();
    write(&path, ".meta/b", "b");
    let done = complete(&test, &id);
    assert_eq!(
        (done.merged, done.left_out),
        (vec![p(".meta/a"), p(".meta/b")], vec![])
    );
    test.put(&project, ".meta/c", "c");
}

#[test]
fn what_earlier_merges_brought_is_taken_out_once() {
    use offshoot_store::{Durability, HistoryOp, NewHistory, Via};
    let test = TestEngine::new(ProviderName::Copy);
    let source = test.host.path().join("source");
    for (file, text) in [
        ("lib/.git/HEAD", "the owner's\n"),
        ("lib/.git/config", HOSTILE),
        ("lib/.git/hooks/x", "evil\n"),
        ("app/.git/config", HOSTILE),
        ("README", "read me\n"),
    ] {
        write(&source, file, text);
    }
    let project = import(&test, "app", &source);
    // As if merges of an earlier version had brought some of these paths.
    let before = offshoot_git::hash(offshoot_core::ObjectKind::Blob, b"the owner's\n").unwrap();
    let store = test.store();
    store
        .write(Durability::Synced, |tx| {
            let row = tx.project(&project)?.unwrap();
            tx.put_setting("merges_to_look_through", "yes")?;
            let mut line = |op, path: &str, before| {
                tx.add_history(&NewHistory {
                    workspace: row.key,
                    revision: row.revision,
                    at: row.created_at,
                    op,
                    via: Via::Merge,
                    path: p(path),
                    from: None,
                    cause: user(),
                    kind: None,
                    before,
                    after: None,
                    size: 0,
                    mime: None,
                    modified: None,
                })
                .map(drop)
            };
            line(HistoryOp::Mkdir, "app/.git", None)?;
            line(HistoryOp::Create, "app/.git/config", None)?;
            line(HistoryOp::Write, "lib/.git/config", Some(before))?;
            line(HistoryOp::Create, "lib/.git/hooks/x", None)
        })
        .unwrap();
    let (_, path) = test.fork(&project, "ada");
    assert!(!path.join("app/.git").exists() && path.join("app").exists());
    assert!(!path.join("lib/.git/hooks/x").exists());
    assert_eq!(
        fs::read_to_string(path.join("lib/.git/config")).unwrap(),
        "the owner's\n"
    );
    let head = test.engine.projects.project(&project).unwrap().head;
    test.fork(&project, "bob");
    assert_eq!(test.engine.projects.project(&project).unwrap().head, head);
    test.check();
}

/// A rename gives content to a name under which git refuses it.
#[test]
fn a_decision_brings_no_gitmodules_that_git_refuses() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("web");
    let text = |url: &str| {
        format!("[submodule \"a\"]\n\tpath = a\n\tbranch = main\n\turl = {url}\n\tshallow = true\n")
    };
    test.put(&project, "modules", &text("https://example.org/a"));
    let (hostile, path) = test.fork(&project, "hostile");
    write(&path, "modules", &text("-u./run-this"));
    let (other, path) = test.fork(&project, "other");
    fs::remove_file(path.join("modules")).unwrap();
    write(&path, ".gitmodules", &text("https://example.org/b"));
    assert!(complete(&test, &other).conflicts.is_empty());
    let options = CompleteOptions {
        policy: Some(Policy::Theirs),
        ..CompleteOptions::default()
    };
    let done = test
        .engine
        .merges
        .complete(&hostile, &options, &user())
        .unwrap();
    assert_eq!(done.conflicts.len(), 1, "{done:?}");
    assert_clean(&test, &project, None);
    let review = done.conflicts[0].review_id.clone().unwrap();
    let refused = test
        .engine
        .merges
        .resolve(&review, Resolution::Theirs, &user());
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PermissionDenied);
    let good = text("https://example.org/b");
    assert_eq!(test.project_text(&project, ".gitmodules"), good);
    test.check();
}
