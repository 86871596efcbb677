//! `offshoot project setup` and `.worktreeinclude` through the real binary.

use std::fs;
use std::path::PathBuf;

use crate::support::Place;
use offshoot_testkit::git;

/// What `npm ci` would do, without a network.
const INSTALL: &str = "echo installing; mkdir -p node_modules/left-pad \
    && cp package-lock.json node_modules/left-pad/version && echo changed > README";

/// A place with a project that has a lock file.
fn with_project() -> Place {
    let place = Place::new();
    place.done(&["project", "create", "app"]);
    for (path, content) in [
        (".gitignore", "node_modules/\n"),
        ("package-lock.json", "lock 1\n"),
        ("README", "read me\n"),
    ] {
        let put = ["project", "put", "app", path];
        let ran = place.run_with_input(&put, content.as_bytes());
        assert_eq!(ran.code, 0, "{}", ran.golden());
    }
    place
}

fn fork(place: &Place, agent: &str) -> (PathBuf, String) {
    let ran = place.done(&["fork", "app", "--agent", agent]);
    (PathBuf::from(ran.stdout.trim_end()), ran.stderr)
}

fn version(fork: &std::path::Path) -> Option<String> {
    fs::read_to_string(fork.join("node_modules/left-pad/version")).ok()
}

#[test]
fn a_command_runs_once_and_every_fork_has_what_it_made() {
    let place = with_project();
    let none = place.done(&["project", "setup", "app"]);
    assert!(
        none.stderr.contains("`app` has no setup"),
        "{}",
        none.stderr
    );
    let set = ["project", "setup", "app", "--", "sh", "-c", INSTALL];
    let made = place.done(&set);
    assert!(
        !made.stdout.lines().any(|line| line == "installing"),
        "data alone is on stdout"
    );
    for told in [
        "installing",
        "forks begin with node_modules: 3 entries (7 B)",
        "left out README: the ignore rules do not name it",
    ] {
        assert!(made.stderr.contains(told), "{told}: {}", made.stderr);
    }
    let (ada, told) = fork(&place, "ada");
    assert_eq!(
        (version(&ada).as_deref(), told.as_str()),
        (Some("lock 1\n"), "")
    );
    assert_eq!(fs::read(ada.join("README")).unwrap(), b"read me\n");
    let status = place.done(&["--json", "status", "ada"]).json();
    assert_eq!(status["changes"].as_array().unwrap().len(), 0, "{status}");

    place.run_with_input(&["project", "put", "app", "package-lock.json"], b"lock 2\n");
    let shown = place.done(&["--json", "project", "show", "app"]).json();
    assert_eq!(shown["setup"]["state"], "stale", "{shown}");
    let (bob, told) = fork(&place, "bob");
    assert_eq!(version(&bob), None);
    assert!(told.contains("project setup app --refresh"), "{told}");
    let ran = place
        .done(&["--json", "project", "setup", "app", "--refresh"])
        .json();
    assert_eq!(ran["setup"]["state"], "ready", "{ran}");
    assert_eq!(ran["made"]["taken"][0], "node_modules", "{ran}");
    assert_eq!(ran["setup"]["layers"].as_array().unwrap().len(), 2, "{ran}");
    let (cyd, _) = fork(&place, "cyd");
    assert_eq!(version(&cyd).as_deref(), Some("lock 2\n"));
    place.done(&["update", "ada"]);
    assert_eq!(version(&ada).as_deref(), Some("lock 2\n"));
    place.done(&["project", "setup", "app", "--off"]);
    let (dan, told) = fork(&place, "dan");
    assert_eq!((version(&dan), told.as_str()), (None, ""));
    assert_eq!(
        version(&cyd).as_deref(),
        Some("lock 2\n"),
        "it keeps what it has"
    );
    place.done(&["check"]);
}

#[test]
fn a_command_that_fails_keeps_nothing() {
    let place = with_project();
    let script = "mkdir -p node_modules/half && exit 7";
    let failed = place.run(&["project", "setup", "app", "--", "sh", "-c", script]);
    assert_eq!(failed.code, 1, "{}", failed.golden());
    assert!(
        failed.stderr.contains("exit status: 7"),
        "{}",
        failed.stderr
    );
    let absent = place.run(&["project", "setup", "app", "--", "no-such-program"]);
    assert_eq!(absent.code, 1, "{}", absent.golden());
    assert_eq!(fs::read_dir(place.data().join("tmp")).unwrap().count(), 0);
    assert!(absent.stderr.contains("the setup is as before"));
    let none = place.done(&["--json", "project", "setup", "app"]).json();
    assert!(none["setup"].is_null(), "{none}");
    let (ada, told) = fork(&place, "ada");
    assert!(!ada.join("node_modules").exists() && told.is_empty());

    // One that works stays in its place.
    place.done(&["project", "setup", "app", "--", "sh", "-c", INSTALL]);
    let plain = "echo made > made; mkdir -p built && echo 1 > built/1";
    for (words, told) in [
        (vec!["no-such-program"], "could not be started"),
        (vec!["sh", "-c", script], "exit status: 7"),
        (vec!["sh", "-c", plain], "only `built`, `made`\n"),
    ] {
        let args = [&["project", "setup", "app", "--"], words.as_slice()].concat();
        let failed = place.run(&args);
        assert_eq!(failed.code, 1, "{}", failed.golden());
        for told in [told, "the setup is as before"] {
            assert!(failed.stderr.contains(told), "{told}: {}", failed.stderr);
        }
        let now = place.done(&["--json", "project", "setup", "app"]).json();
        assert_eq!(now["setup"]["command"][2], INSTALL, "{now}");
        assert_eq!(now["setup"]["state"], "ready", "{now}");
    }
    let (bob, told) = fork(&place, "bob");
    assert_eq!(version(&bob).as_deref(), Some("lock 1\n"));
    assert_eq!(told, "");
    let wrong = place.run(&["project", "setup", "app", "--refresh", "--off"]);
    assert_eq!(wrong.code, 2, "{}", wrong.golden());
}

#[test]
fn worktreeinclude_of_a_linked_repository_brings_env_files() {
    let place = Place::new();
    let repo = place.path().join("shop");
    fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q"]);
    fs::write(repo.join(".gitignore"), ".env\n").unwrap();
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "Begin"]);
    fs::write(repo.join(".env"), "KEY=1\n").unwrap();
    fs::write(repo.join(".worktreeinclude"), ".env\n").unwrap();
    place.done(&["init", repo.to_str().unwrap()]);
    let ran = place.done(&["fork", "shop", "--agent", "ada"]);
    let path = PathBuf::from(ran.stdout.trim_end());
    assert_eq!(fs::read(path.join(".env")).unwrap(), b"KEY=1\n");
    assert_eq!(ran.stderr, "copied 1 file that `.worktreeinclude` names\n");
    let beside = place.done(&["fork", "shop", "--agent", "bob"]);
    fs::write(beside.stdout.trim_end().to_owned() + "/new", "new\n").unwrap();
    let done = place.done(&["complete", "bob", "--include-ignored"]).stdout;
    assert!(
        done.contains("1 ignored file (6 B) went with it\n"),
        "{done}"
    );
    let out = place.path().join("out.git");
    place.done(&["snapshot", "ada"]);
    place.done(&["workspace", "export", "ada", "--git", out.to_str().unwrap()]);
    assert_eq!(git(&out, &["log", "--all", "--", ".env"]), "");
}
