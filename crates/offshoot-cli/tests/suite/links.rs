//! Linked repositories through the real binary, with git as the oracle.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Place, Ran, ran};
use offshoot_testkit::git;
use serde_json::Value;

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn commit(repo: &Path, path: &str, content: &str) {
    write(repo, path, content);
    git(repo, &["add", "-A"]);
    git(repo, &["commit", "-q", "-m", &format!("Change {path}")]);
}

/// A place with a repository `shop`.
fn with_repository() -> (Place, PathBuf) {
    let place = Place::new();
    let repo = place.path().join("shop");
    fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q"]);
    commit(&repo, "README", "hello\n");
    (place, repo)
}

/// Runs a command in a directory.
fn run_in(place: &Place, dir: &Path, args: &[&str]) -> Ran {
    let mut command: Command = place.command(args);
    ran(command.current_dir(dir).output().unwrap())
}

fn done_in(place: &Place, dir: &Path, args: &[&str]) -> Ran {
    let ran = run_in(place, dir, args);
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.golden());
    ran
}

fn json_in(place: &Place, dir: &Path, args: &[&str]) -> Value {
    done_in(place, dir, &[&["--json"], args].concat()).json()
}

/// What an agent does, merged.
fn agent(place: &Place, repo: &Path, name: &str, path: &str, content: &str) {
    let fork = done_in(place, repo, &["fork", "--agent", name]).stdout;
    write(Path::new(fork.trim_end()), path, content);
    done_in(place, repo, &["complete", name]);
}

#[test]
fn a_repository_becomes_a_project_and_both_follow_each_other() {
    let (place, repo) = with_repository();
    let deep = repo.join("src/deep");
    fs::create_dir_all(&deep).unwrap();
    let ran = done_in(&place, &deep, &["init"]);
    assert_eq!(
        ran.golden(),
        "exit 0\n--- stdout\nID\n--- stderr\n\
         created `shop` with 1 file (6 B) in 1 snapshot\n\
         fork it with: offshoot fork shop\n\
         it follows the branch `main`: `offshoot pull` brings new commits, `offshoot push` gives \
         back what merged\n"
    );
    agent(&place, &deep, "ada", "agent", "work\n");
    let forks = json_in(&place, &deep, &["forks"]);
    assert_eq!(forks["forks"].as_array().unwrap().len(), 0);
    let plan = json_in(&place, &repo, &["push", "--dry-run"]);
    assert_eq!(plan["commits"], 1);
    assert!(!git(&repo, &["branch", "--list"]).contains("offshoot"));
    let ran = done_in(&place, &deep, &["push"]);
    assert!(
        ran.stdout.contains("pushed 1 commit of `shop`"),
        "{}",
        ran.golden()
    );
    assert!(
        ran.stderr.contains("git merge offshoot/main"),
        "{}",
        ran.golden()
    );
    git(&repo, &["fsck", "--strict"]);
    git(&repo, &["merge", "-q", "offshoot/main"]);
    assert_eq!(fs::read_to_string(repo.join("agent")).unwrap(), "work\n");

    commit(&repo, "README", "hello again\n");
    let shown = json_in(&place, &repo, &["project", "show"]);
    assert_eq!(shown["link"]["behind"], 1, "{shown}");
    assert_eq!(shown["link"]["branch"], "main");
    let pulled = json_in(&place, &repo, &["pull"]);
    assert_eq!(
        (&pulled["way"], &pulled["commits"]),
        (&"fast_forward".into(), &1.into())
    );
    let again = done_in(&place, &repo, &["pull"]);
    assert!(
        again.stderr.contains("nothing to pull"),
        "{}",
        again.golden()
    );
    let log = done_in(&place, &repo, &["project", "log"]);
    assert!(log.stdout.contains("Change README"), "{}", log.golden());
    let shown = done_in(&place, &repo, &["project", "show"]).stdout;
    assert!(shown.contains("0 ahead, 0 behind"), "{shown}");
    assert_eq!(done_in(&place, &repo, &["project", "sync"]).code, 0);
}

#[test]
fn a_conflict_of_a_pull_is_decided_like_any_other() {
    let (place, repo) = with_repository();
    done_in(&place, &repo, &["init"]);
    agent(&place, &repo, "ada", "README", "by ada\n");
    commit(&repo, "README", "by me\n");
    let ran = run_in(&place, &repo, &["pull", "--dry-run"]);
    assert_eq!(ran.code, 3, "{}", ran.golden());
    let ran = run_in(&place, &repo, &["pull"]);
    assert_eq!(ran.code, 3, "{}", ran.golden());
    let reviews = json_in(&place, &repo, &["review", "list"]);
    let review = reviews["reviews"][0]["id"].as_str().unwrap().to_owned();
    let shown = json_in(&place, &repo, &["project", "show"]);
    assert_eq!(shown["link"]["waiting"], "shop~repository", "{shown}");
    done_in(&place, &repo, &["review", "resolve", &review, "theirs"]);
    assert_eq!(
        place.done(&["project", "cat", "shop", "README"]).stdout,
        "by me\n"
    );
    let shown = json_in(&place, &repo, &["project", "show"]);
    assert_eq!(shown["link"]["waiting"], Value::Null);
    assert_eq!(shown["link"]["behind"], 0);
    let refused = run_in(&place, &repo, &["--json", "push", "--to", "main"]);
    assert_eq!(refused.code, 1);
    assert_eq!(refused.json()["error"]["code"], "already_exists");
    let hint = refused.json()["error"]["hint"].to_string();
    assert!(hint.contains("git merge offshoot/main"), "{hint}");
}

/// What cannot be pulled or pushed is told, and the fork and the merge are done.
#[test]
fn an_automatic_link_pulls_before_forks_and_pushes_after_merges() {
    let (place, repo) = with_repository();
    done_in(&place, &repo, &["init", "auto", "--link", "auto"]);
    commit(&repo, "later", "later\n");
    let fork = done_in(&place, &repo, &["fork", "--agent", "ada"]).stdout;
    let fork = PathBuf::from(fork.trim_end());
    assert_eq!(fs::read_to_string(fork.join("later")).unwrap(), "later\n");
    write(&fork, "agent", "work\n");
    done_in(&place, &repo, &["complete", "ada"]);
    let text = git(&repo, &["show", "offshoot/main:agent"]);
    assert_eq!(text, "work");

    let away = place.path().join("away");
    fs::rename(&repo, &away).unwrap();
    let ran = place.done(&["fork", "auto", "--agent", "bob"]);
    assert!(
        ran.stderr.contains("forked without a whole pull"),
        "{}",
        ran.golden()
    );
    write(Path::new(ran.stdout.trim_end()), "agent", "more\n");
    let ran = place.done(&["complete", "bob"]);
    assert!(
        ran.stderr.contains("merged, and not pushed"),
        "{}",
        ran.golden()
    );
    fs::rename(&away, &repo).unwrap();
    agent(&place, &repo, "eve", "third", "third\n");
    assert_eq!(git(&repo, &["show", "offshoot/main:agent"]), "more");
}

#[test]
fn names_are_needed_where_no_repository_or_several_projects_say_which() {
    let (place, repo) = with_repository();
    let code = |dir: &Path, args: &[&str]| {
        let ran = run_in(&place, dir, &[&["--json"], args].concat());
        assert_eq!(ran.code, 1, "{}", ran.golden());
        let error = &ran.json()["error"];
        assert!(error["hint"].is_string(), "{error}");
        error["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(code(place.path(), &["init"]), "invalid_request");
    assert_eq!(code(place.path(), &["fork"]), "invalid_request");
    assert_eq!(code(&repo, &["pull"]), "project_not_found");
    done_in(&place, place.path(), &["init", "shop"]);
    let create = [
        "project",
        "create",
        "other",
        "--from",
        "shop",
        "--link=auto",
    ];
    place.done(&create);
    assert_eq!(code(&repo, &["pull"]), "invalid_request");
    done_in(&place, &repo, &["pull", "other"]);
    assert_eq!(code(&repo, &["init", "other"]), "already_exists");
    place.done(&["project", "create", "plain"]);
    assert_eq!(code(&repo, &["push", "plain"]), "invalid_request");
    // In a second work tree of the repository, too.
    place.done(&["project", "delete", "other"]);
    let side = place.path().join("side");
    git(
        &repo,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "side",
            side.to_str().unwrap(),
        ],
    );
    done_in(&place, &side, &["pull"]);
}

/// A repository that git reaches by an address: through a private copy, with git's own push.
#[test]
fn a_repository_elsewhere_is_fetched_and_pushed_by_git() {
    let (place, repo) = with_repository();
    git(
        place.path(),
        &["clone", "-q", "--bare", "shop", "there.git"],
    );
    let there = place.path().join("there.git");
    // A transport that needs no other machine: git asks this program instead of ssh.
    let ssh = place.path().join("ssh");
    let script = "#!/bin/sh\nshift $(($# - 1))\nexec sh -c \"$1\"\n";
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let address = format!("ssh://nowhere{}", there.display());
    let reach = |args: &[&str]| {
        let mut command = place.command(args);
        command
            .env("GIT_SSH_COMMAND", &ssh)
            .env("GIT_SSH_VARIANT", "simple");
        ran(command.output().unwrap())
    };
    let created = reach(&["project", "create", "far", "--from", &address, "--link"]);
    assert_eq!(created.code, 0, "{}", created.golden());
    commit(&repo, "README", "changed\n");
    git(&repo, &["push", "-q", there.to_str().unwrap(), "main"]);
    let pulled = reach(&["--json", "pull", "far"]);
    assert_eq!(pulled.code, 0, "{}", pulled.golden());
    assert_eq!(pulled.json()["way"], "fast_forward");
    place.run_with_input(&["project", "put", "far", "agent"], b"work\n");
    let pushed = reach(&["--json", "push", "far"]);
    assert_eq!(pushed.code, 0, "{}", pushed.golden());
    assert_eq!(git(&there, &["show", "offshoot/main:agent"]), "work");
    // The branch itself, and one that has moved.
    let pushed = reach(&["push", "far", "--to", "main"]);
    assert_eq!(pushed.code, 0, "{}", pushed.golden());
    assert_eq!(git(&there, &["show", "main:agent"]), "work");
    git(&repo, &["fetch", "-q", there.to_str().unwrap(), "main"]);
    git(&repo, &["merge", "-q", "FETCH_HEAD"]);
    commit(&repo, "README", "moved\n");
    git(&repo, &["push", "-q", there.to_str().unwrap(), "main"]);
    place.run_with_input(&["project", "put", "far", "agent"], b"more\n");
    let refused = reach(&["--json", "push", "far", "--to", "main"]);
    assert_eq!(refused.code, 1, "{}", refused.golden());
    assert_eq!(refused.json()["error"]["code"], "precondition_failed");
    assert_eq!(reach(&["pull", "far"]).code, 0);
    assert_eq!(reach(&["push", "far", "--to", "main"]).code, 0);
    git(&there, &["fsck", "--strict"]);
    let secret = "https://me:secret@example.com/a.git";
    let refused = reach(&["project", "create", "s", "--from", secret, "--link"]);
    assert_eq!(refused.code, 1);
    assert!(!refused.stderr.contains("me:secret"), "{}", refused.stderr);
}
