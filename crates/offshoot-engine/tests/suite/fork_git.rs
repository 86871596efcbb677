//! Forks with a `.git`: stock git works in them, and nothing below it is content.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ChangeKind, ErrorCode, ObjectId, ProjectId, WorkspaceId};
use offshoot_engine::{CompleteOptions, Content, ForkOptions, ImportOptions, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_testkit::git_command;

/// Runs git in a fork as an agent does, with the identity that the fork configures.
fn git(dir: &Path, args: &[&str]) -> String {
    let (ok, text) = try_git(dir, args);
    assert!(ok, "git {args:?}: {text}");
    text
}

fn try_git(dir: &Path, args: &[&str]) -> (bool, String) {
    let mut command = git_command(dir);
    for role in ["AUTHOR", "COMMITTER"] {
        command.env_remove(format!("GIT_{role}_NAME"));
        command.env_remove(format!("GIT_{role}_EMAIL"));
    }
    let output = command.args(args).output().unwrap();
    let text = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    let text = String::from_utf8(text).unwrap();
    (output.status.success(), text.trim_end().to_owned())
}

fn fork_at(
    test: &TestEngine,
    project: &ProjectId,
    agent: &str,
    at: Option<String>,
) -> (WorkspaceId, PathBuf) {
    let options = ForkOptions {
        agent: Some(agent.parse().unwrap()),
        git: true,
        at,
        ..ForkOptions::default()
    };
    let (fork, path) = test
        .engine
        .forks
        .fork_out(project, &options, &user())
        .unwrap();
    assert!(fork.git);
    (fork.workspace.id, path)
}

fn fork(test: &TestEngine, project: &ProjectId, agent: &str) -> (WorkspaceId, PathBuf) {
    fork_at(test, project, agent, None)
}

fn base(test: &TestEngine, id: &WorkspaceId) -> ObjectId {
    test.engine.forks.fork_of(id).unwrap().unwrap().base
}

#[test]
fn git_commands_of_an_agent_work() {
    with_each(|test| {
        let project = test.project("web");
        let first = test
            .engine
            .projects
            .project(&project)
            .unwrap()
            .head
            .unwrap();
        test.put(&project, "README", "second\n");
        let (id, path) = fork(&test, &project, "ada");
        assert_eq!(git(&path, &["status", "--porcelain"]), "");
        assert_eq!(git(&path, &["symbolic-ref", "--short", "HEAD"]), "ada");
        assert_eq!(
            git(&path, &["rev-parse", "HEAD"]),
            base(&test, &id).to_hex()
        );
        assert_eq!(git(&path, &["rev-list", "--count", "HEAD"]), "6");
        assert_eq!(git(&path, &["fsck", "--strict"]), "");

        fs::write(path.join("README"), "mine\n").unwrap();
        fs::write(path.join("new"), "new\n").unwrap();
        assert_eq!(git(&path, &["status", "--porcelain"]), " M README\n?? new");
        assert!(git(&path, &["diff"]).contains("-second\n+mine"));
        git(&path, &["add", "-A"]);
        git(&path, &["commit", "-q", "-m", "mine"]);
        assert_eq!(
            git(&path, &["log", "-1", "--format=%an %ae %s"]),
            "ada ada@offshoot.invalid mine"
        );
        git(&path, &["checkout", "-q", "-b", "side"]);
        fs::write(path.join("src/main.rs"), "fn main() { side() }\n").unwrap();
        git(&path, &["stash", "-q"]);
        assert_eq!(git(&path, &["status", "--porcelain"]), "");
        git(&path, &["stash", "pop", "-q"]);
        git(&path, &["checkout", "-q", "-f", &first.to_hex()]);
        assert_eq!(fs::read(path.join("README")).unwrap(), b"read me\n");
        git(&path, &["checkout", "-q", "ada"]);
        git(&path, &["gc", "-q"]);
        assert_eq!(git(&path, &["fsck", "--no-dangling"]), "");

        // Its files are changes of the fork, its `.git` is not.
        let expected = [
            ("README".to_owned(), ChangeKind::Modified),
            ("new".to_owned(), ChangeKind::Added),
        ];
        assert_eq!(test.changes(&id), expected);
        let taken = test
            .engine
            .workspaces
            .snapshot(&id, None, true, &user())
            .unwrap();
        let hex = taken.snapshot.id.to_hex();
        test.engine
            .workspaces
            .restore(&id, &hex, None, &user())
            .unwrap();
        assert_eq!(git(&path, &["status", "--porcelain"]), "");
        let done = test
            .engine
            .merges
            .complete(&id, &CompleteOptions::default(), &user())
            .unwrap();
        assert_eq!(done.merged.len(), 2, "{done:?}");
        let image = test.project_image(&project, None);
        assert!(image.keys().all(|path| !path.0.starts_with(b".git/")));
        assert_eq!(test.project_text(&project, "README"), "mine\n");
        test.check();
    });
}

#[test]
fn forks_share_one_layer_and_do_not_see_each_other() {
    with_each(|test| {
        let project = test.project("web");
        let (one, path) = fork(&test, &project, "one");
        let (_, other) = fork(&test, &project, "two");
        fs::write(path.join("README"), "one\n").unwrap();
        git(&path, &["commit", "-q", "-a", "-m", "one"]);
        assert_eq!(git(&other, &["status", "--porcelain"]), "");
        assert_eq!(git(&other, &["log", "--all", "--grep=^one$"]), "");
        assert_eq!(
            git(&other, &["branch", "--format=%(refname:short)"]),
            "main\ntwo"
        );
        // Another fork of the same agent, a fork without `.git`, and one of an older snapshot.
        let (again, second) = fork(&test, &project, "one");
        assert_eq!(again.as_str(), "one~2");
        assert_eq!(git(&second, &["symbolic-ref", "--short", "HEAD"]), "one-2");
        let (_, plain) = test.fork(&project, "plain");
        assert!(!plain.join(".git").exists());
        let layers = || {
            let names = fs::read_dir(test.host.path().join("data/layers")).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.ends_with(".own")).count()
        };
        assert_eq!(layers(), 1);
        let old = base(&test, &one);
        test.put(&project, "later", "later\n");
        let (_, newest) = fork(&test, &project, "newest");
        assert_eq!(
            git(&newest, &["log", "-1", "--name-only", "--format="]),
            "later"
        );
        let (_, older) = fork_at(&test, &project, "older", Some(old.to_hex()));
        assert_eq!(git(&older, &["rev-parse", "HEAD"]), old.to_hex());
        assert_eq!(git(&older, &["status", "--porcelain"]), "");
        assert_eq!(layers(), 2);
        test.check();
    });
}

#[test]
fn a_fork_of_a_fork_shows_what_differs_from_the_base() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        // The size stays the same, so only reading shows the change.
        fs::write(path.join("README"), "READ ME\n").unwrap();
        fs::remove_file(path.join("src/main.rs")).unwrap();
        fs::write(path.join("new"), "new\n").unwrap();
        let taken = test
            .engine
            .workspaces
            .snapshot(&id, None, false, &user())
            .unwrap();
        let (_, path) = fork_at(&test, &project, "two", Some(taken.snapshot.id.to_hex()));
        assert_eq!(
            git(&path, &["status", "--porcelain"]),
            " M README\n D src/main.rs\n?? new"
        );
        test.check();
    });
}

#[test]
fn git_reads_nothing_to_see_that_a_fork_is_clean() {
    with_each(|test| {
        let project = test.project("web");
        test.engine.context.wait_for_jobs();
        // Git reads files that are as young as the index, to be sure.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        let (id, path) = fork(&test, &project, "ada");
        let before = fs::metadata(path.join(".git/index"))
            .unwrap()
            .modified()
            .unwrap();
        assert_eq!(
            git(&path, &["diff-files", "--name-only"]),
            "",
            "no entry needs a look"
        );
        assert_eq!(git(&path, &["status", "--porcelain"]), "");
        let after = fs::metadata(path.join(".git/index"))
            .unwrap()
            .modified()
            .unwrap();
        assert_eq!(before, after, "git had nothing to note");
        if test.provider == ProviderName::Overlay {
            let upper = test
                .host
                .path()
                .join(format!("data/forks/{id}.1/upper/.git/index"));
            assert!(!upper.exists());
        }
    });
}

#[test]
fn an_update_keeps_the_commits_of_the_agent() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = fork(&test, &project, "ada");
        let old = base(&test, &id);
        fs::write(path.join("mine"), "mine\n").unwrap();
        git(&path, &["add", "-A"]);
        git(&path, &["commit", "-q", "-m", "mine"]);
        let own = git(&path, &["rev-parse", "HEAD"]);
        git(&path, &["branch", "other", &old.to_hex()]);
        git(&path, &["config", "my.setting", "kept"]);
        git(&path, &["pack-refs", "--all"]);
        fs::write(path.join("not-committed"), "x\n").unwrap();
        test.put(&project, "theirs", "theirs\n");
        test.engine.merges.update(&id, false, &user()).unwrap();

        let now = base(&test, &id);
        assert_eq!(git(&path, &["symbolic-ref", "--short", "HEAD"]), "ada");
        for branch in ["HEAD", "main"] {
            assert_eq!(git(&path, &["rev-parse", branch]), now.to_hex());
        }
        assert_eq!(
            git(&path, &["status", "--porcelain"]),
            "?? mine\n?? not-committed"
        );
        let kept = format!("before-update-{}", &now.to_hex()[..8]);
        assert_eq!(git(&path, &["rev-parse", &kept]), own);
        assert_eq!(git(&path, &["show", &format!("{kept}:mine")]), "mine");
        assert_eq!(git(&path, &["rev-parse", "other"]), old.to_hex());
        assert_eq!(git(&path, &["config", "my.setting"]), "kept");
        assert_eq!(git(&path, &["fsck", "--no-dangling"]), "");
        git(&path, &["add", "-A"]);
        git(&path, &["commit", "-q", "-m", "again"]);
        assert_eq!(git(&path, &["log", "-1", "--format=%s"]), "again");
        assert_eq!(test.changes(&id).len(), 2);

        // Without commits of the agent there is nothing to keep.
        let (second, other) = fork(&test, &project, "bob");
        test.put(&project, "theirs", "newer\n");
        test.engine.merges.update(&second, false, &user()).unwrap();
        assert_eq!(git(&other, &["status", "--porcelain"]), "");
        assert_eq!(
            git(&other, &["branch", "--format=%(refname:short)"]),
            "bob\nmain"
        );
        assert_eq!(
            git(&other, &["log", "-1", "--format=%s", "--", "theirs"])
                .lines()
                .count(),
            1
        );
        test.check();
    });
}

#[test]
fn an_update_waits_for_what_git_has_not_finished() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = fork(&test, &project, "ada");
        fs::write(path.join("README"), "ada\n").unwrap();
        git(&path, &["commit", "-q", "-a", "-m", "ada"]);
        git(&path, &["checkout", "-q", "-b", "side", "main"]);
        fs::write(path.join("README"), "side\n").unwrap();
        git(&path, &["commit", "-q", "-a", "-m", "side"]);
        assert!(!try_git(&path, &["merge", "ada"]).0);
        test.put(&project, "theirs", "theirs\n");
        let refused = test.engine.merges.update(&id, false, &user()).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::WorkspaceBusy);
        assert!(refused.message().contains("MERGE_HEAD"), "{refused:?}");
        git(&path, &["merge", "--abort"]);
        test.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(git(&path, &["symbolic-ref", "--short", "HEAD"]), "side");
        assert_eq!(git(&path, &["status", "--porcelain"]), " M README");
        assert_eq!(git(&path, &["log", "-1", "--format=%s", "ada"]), "ada");
        test.check();
    });
}

#[test]
fn a_repository_that_the_agent_made_instead_stays_the_agents() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = fork(&test, &project, "ada");
        fs::remove_dir_all(path.join(".git")).unwrap();
        git(&path, &["init", "-q", "-b", "trunk"]);
        git(
            &path,
            &[
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "own",
            ],
        );
        test.put(&project, "theirs", "theirs\n");
        test.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(git(&path, &["log", "--format=%s", "--all"]), "own");
        assert_eq!(git(&path, &["symbolic-ref", "--short", "HEAD"]), "trunk");
        assert!(test.changes(&id).is_empty());
        // A `.git` that was removed comes back with the next update.
        fs::remove_dir_all(path.join(".git")).unwrap();
        assert!(test.changes(&id).is_empty());
        test.put(&project, "theirs", "newer\n");
        test.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(git(&path, &["status", "--porcelain"]), "");
        assert_eq!(git(&path, &["symbolic-ref", "--short", "HEAD"]), "ada");
        test.check();
    });
}

#[test]
fn nothing_below_git_is_content_by_any_door() {
    with_each(|mut test| {
        let project = test.project("web");
        let (id, path) = fork(&test, &project, "ada");
        std::os::unix::fs::symlink(".git", path.join("detour")).unwrap();
        let options = WriteOptions::default();
        for door in [".git/hooks/post-commit", ".git", "detour/x"] {
            let content = Content::Bytes(b"x");
            let refused =
                test.engine
                    .workspaces
                    .write_file(&id, &p(door), content, &options, &user());
            let code = refused.unwrap_err().code();
            assert!(
                matches!(code, ErrorCode::PermissionDenied | ErrorCode::IsADirectory),
                "{door}: {code:?}"
            );
            assert!(
                test.engine
                    .workspaces
                    .delete_file(&id, &p(door), true, &user())
                    .is_err()
            );
        }
        assert!(
            test.engine
                .workspaces
                .make_dir_in(&id, &p(".git/x"), &user())
                .is_err()
        );
        assert!(
            test.engine
                .workspaces
                .move_file(&id, &p("README"), &p(".git/README"), &user())
                .is_err()
        );
        assert_eq!(test.changes(&id).len(), 1, "the link");
        // It is not there after a restart either, and a lazy fork gets it when it needs it.
        test.reopen();
        assert_eq!(git(&path, &["status", "--porcelain"]), "?? detour");
        let lazy = ForkOptions {
            git: true,
            ..ForkOptions::default()
        };
        let lazy = test.engine.forks.fork(&project, &lazy, &user()).unwrap();
        let content = Content::Bytes(b"x");
        test.engine
            .workspaces
            .write_file(&lazy.workspace.id, &p("new"), content, &options, &user())
            .unwrap();
        test.check();
        let lazy = test
            .engine
            .workspaces
            .hand_out_path(&lazy.workspace.id)
            .unwrap();
        assert_eq!(git(&lazy, &["status", "--porcelain"]), "?? new");
        // Commits are stored nowhere else, so a clean-up leaves such forks alone.
        let cleaned = test
            .engine
            .upkeep
            .clean(std::time::Duration::ZERO, false, &user())
            .unwrap();
        assert!(cleaned.workspaces.is_empty(), "{cleaned:?}");
        test.check();
    });
}

#[test]
fn a_stray_repository_of_one_agent_spoils_no_fork_with_git() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "stray");
        git(&path, &["init", "-q"]);
        fs::write(path.join("mine"), "mine\n").unwrap();
        test.engine
            .merges
            .complete(&id, &CompleteOptions::default(), &user())
            .unwrap();
        let refused = test.engine.projects.put_in_project(
            &project,
            &p(".git/config"),
            Content::Bytes(b"content\n"),
            &WriteOptions::default(),
            &user(),
        );
        assert_eq!(refused.unwrap_err().code(), ErrorCode::PermissionDenied);
        let (_, path) = fork(&test, &project, "ada");
        assert_eq!(git(&path, &["status", "--porcelain"]), "");
        assert_eq!(git(&path, &["ls-files", "mine"]), "mine");
    });
}

/// What a fork with `.git` costs compared to a plain one, and the first `git status` in it.
#[test]
fn the_cost_of_a_fork_with_git_does_not_follow_the_project() {
    with_each(|test| {
        let source = test.host.path().join("source");
        for n in 0..2_000 {
            let dir = source.join(format!("d{}", n / 100));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(format!("f{n}")), format!("file {n}\n")).unwrap();
        }
        let project: ProjectId = "big".parse().unwrap();
        let options = ImportOptions::default();
        test.engine
            .projects
            .import_dir(&project, &source, &options, &mut |_| {}, &user())
            .unwrap();
        test.engine.context.wait_for_jobs();
        let started = Instant::now();
        fork(&test, &project, "first");
        let layer = started.elapsed();
        let mut plain = Vec::new();
        let mut with_git = Vec::new();
        for round in 0..5 {
            let started = Instant::now();
            test.fork(&project, &format!("plain{round}"));
            plain.push(started.elapsed());
            let started = Instant::now();
            fork(&test, &project, &format!("git{round}"));
            with_git.push(started.elapsed());
        }
        plain.sort();
        with_git.sort();
        let path = test.host.path().join("data/workspaces/git0");
        let started = Instant::now();
        assert_eq!(git(&path, &["status", "--porcelain"]), "");
        println!(
            "{} with 2,000 files: fork {:?}, with .git {:?}, the first one of a base {layer:?}, \
             first git status {:?}",
            test.provider,
            plain[2],
            with_git[2],
            started.elapsed()
        );
        if test.provider == ProviderName::Overlay {
            assert!(with_git[2] < plain[2] * 10, "{with_git:?} {plain:?}");
        }
    });
}
