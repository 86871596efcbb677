//! Stock git pushes to a running server: what lands, what is refused, and what is left behind.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use offshoot_testkit::{Rng, git, git_with_input, soak};

use crate::common::{Client, Running, cause};
use crate::git::{PROTOCOLS, errors, imported, try_git, url};

/// A running server with the project `p`, and a place for clones.
pub(crate) struct Pushed {
    pub(crate) running: Running,
    pub(crate) place: tempfile::TempDir,
    _data: offshoot_testkit::HostDir,
}

impl Pushed {
    pub(crate) fn new() -> Pushed {
        let data = offshoot_testkit::HostDir::new();
        let (running, _source) = imported(data.path());
        Pushed {
            running,
            place: tempfile::tempdir().unwrap(),
            _data: data,
        }
    }

    pub(crate) fn clone(&self, token: &str, name: &str) -> PathBuf {
        self.clone_of(token, "p.git", name)
    }

    pub(crate) fn clone_of(&self, token: &str, repository: &str, name: &str) -> PathBuf {
        let url = url(&self.running, token, repository);
        git(self.place.path(), &["clone", "-q", &url, name]);
        self.place.path().join(name)
    }

    pub(crate) fn admin(&self, name: &str) -> PathBuf {
        self.clone(&self.running.admin.clone(), name)
    }

    pub(crate) fn head(&self) -> String {
        let project = self.running.engine.projects.project(&"p".parse().unwrap());
        project.unwrap().head.unwrap().to_string()
    }

    /// A fresh clone, which git finds nothing wrong with, and the store neither.
    pub(crate) fn checked(&self) -> PathBuf {
        let name = format!("checked-{}", self.head());
        let clone = self.place.path().join(&name);
        if !clone.exists() {
            self.admin(&name);
        }
        git(&clone, &["fsck", "--strict", "--no-dangling"]);
        let report = self.running.engine.upkeep.check().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        clone
    }

    pub(crate) fn forks(&self) -> usize {
        let forks = self.running.engine.forks.list_forks(&"p".parse().unwrap());
        forks.unwrap().len()
    }
}

pub(crate) fn commit(clone: &Path, files: &[(&str, &str)]) -> String {
    for (path, text) in files {
        let path = clone.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    git(clone, &["add", "-A"]);
    git(
        clone,
        &["commit", "-q", "-m", &format!("Change {}", files[0].0)],
    );
    git(clone, &["rev-parse", "HEAD"])
}

/// Pushes, and expects it to be refused. Gives what git showed.
pub(crate) fn refused(clone: &Path, args: &[&str]) -> String {
    let mut all = vec!["push"];
    all.extend_from_slice(args);
    let output = try_git(clone, &all);
    assert!(!output.status.success(), "{}", errors(&output));
    errors(&output)
}

/// Lets something happen after a push has seen the refs and before it sends anything.
fn meanwhile(clone: &Path, script: &str) {
    let hook = clone.join(".git/hooks/pre-push");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\nunset GIT_DIR\n{script}\n")).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_pushed_is_cloned_again_with_the_same_commits() {
    let test = Pushed::new();
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        let clone = test.admin(protocol);
        commit(&clone, &[(&format!("new-{protocol}"), "one\n")]);
        git(&clone, &["mv", "main.txt", "moved.txt"]);
        git(&clone, &["commit", "-q", "-m", "moved"]);
        git(&clone, &["mv", "moved.txt", "main.txt"]);
        let tip = commit(&clone, &[("a/b/c/deep.txt", protocol)]);
        git(&clone, &["-c", &version, "push", "-q"]);
        assert_eq!(test.head(), tip);
        let again = test.checked();
        assert_eq!(git(&again, &["rev-parse", "HEAD"]), tip);
        let log = ["log", "--format=%H %an %s"];
        assert_eq!(git(&again, &log), git(&clone, &log));
        // Nothing is sent when there is nothing new.
        let up_to_date = try_git(&clone, &["-c", &version, "push"]);
        assert!(errors(&up_to_date).contains("up-to-date"));
    }
    // Each commit is a snapshot, and the person behind it is told.
    let client = test.running.client();
    let snapshots = client.get("/api/v1/projects/p/snapshots?limit=3").json();
    assert_eq!(snapshots["snapshots"][1]["label"], "moved");
    // A merge that git made comes as it is.
    let clone = test.admin("merged");
    git(&clone, &["checkout", "-q", "-b", "side", "HEAD~2"]);
    commit(&clone, &[("side-2", "side\n")]);
    git(&clone, &["checkout", "-q", "main"]);
    git(&clone, &["merge", "-q", "--no-ff", "-m", "merged", "side"]);
    git(&clone, &["push", "-q"]);
    assert_eq!(test.head(), git(&clone, &["rev-parse", "HEAD"]));
    // Also if the project is the second parent.
    git(&clone, &["checkout", "-q", "side"]);
    commit(&clone, &[("side-3", "side\n")]);
    git(&clone, &["merge", "-q", "-m", "the other way", "main"]);
    git(&clone, &["push", "-q", "origin", "side:main"]);
    assert_eq!(test.head(), git(&clone, &["rev-parse", "side"]));
    test.checked();
    assert_eq!(test.forks(), 0);
}

#[test]
fn an_empty_project_and_a_large_file() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create_project("p", &[]);
    let test = Pushed {
        running,
        place: tempfile::tempdir().unwrap(),
        _data: data,
    };
    let clone = test.admin("first");
    commit(&clone, &[("a", "one\n")]);
    // Larger than git sends in one piece: it probes first and then streams.
    let mut large = vec![0; 3 << 20];
    Rng::new(7).fill(&mut large);
    std::fs::write(clone.join("large.bin"), &large).unwrap();
    git(&clone, &["add", "-A"]);
    git(&clone, &["commit", "-q", "-m", "large"]);
    let small = ["-c", "http.postBuffer=65536", "push", "-q"];
    git(&clone, &[&small[..], &["origin", "main"]].concat());
    large[1_000_000] ^= 1;
    std::fs::write(clone.join("large.bin"), &large).unwrap();
    git(&clone, &["commit", "-q", "-a", "-m", "large again"]);
    git(&clone, &small);
    let again = test.checked();
    assert_eq!(std::fs::read(again.join("large.bin")).unwrap(), large);
    assert_eq!(git(&again, &["rev-list", "--count", "HEAD"]), "3");
    // A commit without anything in it.
    git(&clone, &["rm", "-q", "-r", "."]);
    git(&clone, &["commit", "-q", "-m", "nothing left"]);
    git(&clone, &["push", "-q"]);
    assert_eq!(git(&test.checked(), &["ls-files"]), "");
}

#[test]
fn a_project_that_moved_meanwhile_is_merged_with() {
    let test = Pushed::new();
    let (mine, theirs) = (test.admin("mine"), test.admin("theirs"));
    commit(&theirs, &[("theirs.txt", "theirs\n")]);
    let tip = commit(&mine, &[("mine.txt", "mine\n")]);
    meanwhile(&mine, &format!("git -C {} push -q", theirs.display()));
    let pushed = try_git(&mine, &["push"]);
    assert!(pushed.status.success(), "{}", errors(&pushed));
    assert!(errors(&pushed).contains("remote: merged as"));
    let again = test.checked();
    assert_eq!(std::fs::read(again.join("mine.txt")).unwrap(), b"mine\n");
    assert_eq!(
        std::fs::read(again.join("theirs.txt")).unwrap(),
        b"theirs\n"
    );
    // The commit is in the history, and the merge in the log.
    git(&again, &["merge-base", "--is-ancestor", &tip, "HEAD"]);
    assert_eq!(git(&again, &["rev-parse", "HEAD^2"]), tip);
    let merges = test
        .running
        .client()
        .get("/api/v1/projects/p/merges")
        .json();
    assert_eq!(merges["merges"][0]["snapshot"], test.head());
    assert_eq!(test.forks(), 0);
    std::fs::remove_file(mine.join(".git/hooks/pre-push")).unwrap();
    git(&mine, &["pull", "-q", "--ff-only"]);
    assert_eq!(git(&mine, &["rev-parse", "HEAD"]), test.head());
}

#[test]
fn conflicts_refuse_a_push_or_wait_for_a_review() {
    let test = Pushed::new();
    let (mine, theirs) = (test.admin("mine"), test.admin("theirs"));
    commit(&theirs, &[("main.txt", "theirs\n")]);
    let tip = commit(&mine, &[("main.txt", "mine\n"), ("fits.txt", "fits\n")]);
    meanwhile(&mine, &format!("git -C {} push -q", theirs.display()));
    let said = refused(&mine, &[]);
    for part in [
        "[remote rejected] main -> main (1 path conflicts with the project)",
        "remote: conflict: main.txt",
        "-o review",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let head = git(&theirs, &["rev-parse", "HEAD"]);
    assert_eq!((test.head(), test.forks()), (head.clone(), 0));
    let reviews = || {
        let found = test
            .running
            .client()
            .get("/api/v1/projects/p/reviews")
            .json();
        found["reviews"].as_array().unwrap().len()
    };
    assert_eq!(reviews(), 0);
    // With the option a review opens. The project lands all or nothing, so nothing has moved.
    let other = commit(&theirs, &[("main.txt", "theirs again\n")]);
    git(&mine, &["fetch", "-q"]);
    git(&mine, &["reset", "-q", "--hard", &head]);
    let again = commit(&mine, &[("main.txt", "mine again\n")]);
    let said = refused(&mine, &["-o", "review"]);
    assert!(said.contains("waits for review"), "{said}");
    assert_eq!((test.head(), reviews(), test.forks()), (other, 1, 1));
    // Once more is the same push.
    std::fs::remove_file(mine.join(".git/hooks/pre-push")).unwrap();
    let old = git(&mine, &["rev-parse", "HEAD~1"]);
    let repeated = raw_push(
        &test,
        &test.running.admin,
        &mine,
        &old,
        &again,
        "push-options",
        &["review"],
    );
    assert!(repeated.contains("waits for review"), "{repeated}");
    assert_eq!((reviews(), test.forks()), (1, 1));
    let client = test.running.client();
    let open = client.get("/api/v1/projects/p/reviews").json();
    let id = open["reviews"][0]["id"].as_str().unwrap().to_owned();
    client.done(
        &format!("/api/v1/reviews/{id}/resolve"),
        r#"{"choice":"theirs"}"#,
    );
    let clone = test.checked();
    assert_eq!(
        std::fs::read(clone.join("main.txt")).unwrap(),
        b"mine again\n"
    );
    git(&clone, &["merge-base", "--is-ancestor", &again, "HEAD"]);
    assert!(!try_git(&clone, &["cat-file", "-e", &tip]).status.success());
    assert_eq!(test.forks(), 0);
}

/// Sends a push byte by byte: what stock git would not send.
fn raw_push(
    test: &Pushed,
    token: &str,
    clone: &Path,
    old: &str,
    new: &str,
    abilities: &str,
    options: &[&str],
) -> String {
    let revs = format!("{new}\n^{old}\n");
    let pack = git_with_input(
        clone,
        &["pack-objects", "-q", "--revs", "--stdout", "--thin"],
        revs.as_bytes(),
    );
    let line = |text: &str| format!("{:04x}{text}\n", text.len() + 5);
    let mut body = line(&format!(
        "{old} {new} refs/heads/main\0report-status {abilities}"
    ));
    body.push_str("0000");
    for option in options {
        body.push_str(&line(option));
    }
    if !options.is_empty() {
        body.push_str("0000");
    }
    let body = [body.as_bytes(), &pack].concat();
    let client = Client::new(test.running.address, token);
    client
        .send("POST", b"/git/p.git/git-receive-pack", &[], &body)
        .text()
}

/// A clone has what tags point at, so git does not send it again.
#[test]
fn a_merge_with_a_commit_that_only_a_tag_has() {
    let source = tempfile::tempdir().unwrap();
    let dir = source.path();
    git(dir, &["init", "-q"]);
    commit(dir, &[("main.txt", "main\n")]);
    git(dir, &["checkout", "-q", "--detach"]);
    let tagged = commit(dir, &[("tagged.txt", "tagged\n")]);
    git(dir, &["tag", "-a", "-m", "v1", "v1"]);
    git(dir, &["tag", "of-a-file", "HEAD:main.txt"]);
    git(dir, &["tag", "of-a-tree", "HEAD^{tree}"]);
    git(dir, &["checkout", "-q", "main"]);
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let projects = &running.engine.projects;
    projects
        .import_git(&"p".parse().unwrap(), dir, &mut |_| {}, &cause())
        .unwrap();
    let test = Pushed {
        running,
        place: tempfile::tempdir().unwrap(),
        _data: data,
    };
    let clone = test.admin("clone");
    commit(&clone, &[("more.txt", "more\n")]);
    git(&clone, &["merge", "-q", "-m", "with the tag", "v1"]);
    let pushed = try_git(&clone, &["push"]);
    assert!(pushed.status.success(), "{}", errors(&pushed));
    assert_eq!(test.head(), git(&clone, &["rev-parse", "HEAD"]));
    let again = test.checked();
    git(&again, &["merge-base", "--is-ancestor", &tagged, "HEAD"]);
}

#[test]
fn a_repeated_push_and_a_thin_pack() {
    let test = Pushed::new();
    let clone = test.admin("clone");
    let old = git(&clone, &["rev-parse", "HEAD"]);
    let text: String = (0..500).map(|n| format!("line {n}\n")).collect();
    let first = commit(&clone, &[("long.txt", &text)]);
    git(&clone, &["push", "-q"]);
    let tip = commit(&clone, &[("long.txt", &format!("{text}more\n"))]);
    let admin = test.running.admin.clone();
    let said = raw_push(&test, &admin, &clone, &first, &tip, "", &[]);
    assert!(
        said.contains("unpack ok") && said.contains("ok refs/heads/main"),
        "{said}"
    );
    assert_eq!(test.head(), tip);
    // The answer was lost, and the client sends it all again.
    for before in [&first, &old] {
        let said = raw_push(&test, &admin, &clone, before, &tip, "", &[]);
        assert!(said.contains("ok refs/heads/main"), "{said}");
        assert_eq!(test.head(), tip);
    }
    test.checked();
}

#[test]
fn an_agent_pushes_into_its_own_workspace() {
    let test = Pushed::new();
    let admin = test.running.client();
    let made = admin.fork("p", "robin");
    let agent = test.running.agent("robin");
    let clone = test.clone_of(&agent.token, "workspaces/robin.git", "robin");
    commit(&clone, &[("robin.txt", "one\n")]);
    git(&clone, &["rm", "-q", "main.txt"]);
    git(&clone, &["commit", "-q", "-m", "without main"]);
    let pushed = try_git(&clone, &["push"]);
    assert!(pushed.status.success(), "{}", errors(&pushed));
    let file = agent.get("/api/v1/workspaces/robin/files/robin.txt");
    assert_eq!(file.body, b"one\n");
    assert_eq!(
        agent.get("/api/v1/workspaces/robin/files/main.txt").status,
        404
    );
    // In its directory too, and in its history.
    let path = made["path"].as_str().map(PathBuf::from);
    if let Some(path) = path {
        assert_eq!(std::fs::read(path.join("robin.txt")).unwrap(), b"one\n");
        assert!(!path.join("main.txt").exists());
    }
    let snapshots = agent.get("/api/v1/workspaces/robin/snapshots").json();
    assert_eq!(snapshots["snapshots"][0]["label"], "without main");
    assert_eq!(snapshots["snapshots"][1]["label"], "Change robin.txt");
    // What is in no snapshot is not overwritten.
    agent.put("/api/v1/workspaces/robin/files/own.txt", b"mine\n");
    commit(&clone, &[("robin.txt", "two\n")]);
    let said = refused(&clone, &[]);
    assert!(said.contains("changes that are in no snapshot"), "{said}");
    agent.post("/api/v1/workspaces/robin/snapshots", "{}");
    let said = refused(&clone, &[]);
    assert!(said.contains("fetch first"), "{said}");
    git(&clone, &["pull", "-q", "--rebase"]);
    git(&clone, &["push", "-q"]);
    assert_eq!(
        agent.get("/api/v1/workspaces/robin/files/robin.txt").body,
        b"two\n"
    );
    assert_eq!(
        agent.get("/api/v1/workspaces/robin/files/own.txt").body,
        b"mine\n"
    );
    // Its merge takes what was pushed.
    let done = agent.done("/api/v1/workspaces/robin/complete", "{}");
    assert_eq!(done["conflicts"].as_array().unwrap().len(), 0, "{done}");
    let again = test.checked();
    assert_eq!(std::fs::read(again.join("robin.txt")).unwrap(), b"two\n");
    assert!(!again.join("main.txt").exists());
}

#[test]
fn files_of_every_size_are_pushed_into_a_workspace() {
    let test = Pushed::new();
    test.running.client().fork("p", "robin");
    let agent = test.running.agent("robin");
    let clone = test.clone_of(&agent.token, "workspaces/robin.git", "robin");
    // Objects of these sizes are kept in rows, in packs and in blobs of their own.
    for size in [1_000_u64, 70_000, 300_000, 3_000_000] {
        let mut rng = Rng::new(size);
        let content: String = (0..size)
            .map(|_| char::from(b'a' + rng.below(26) as u8))
            .collect();
        commit(&clone, &[("file", &content)]);
        let pushed = try_git(&clone, &["push"]);
        assert!(pushed.status.success(), "{size}: {}", errors(&pushed));
        let file = agent.get("/api/v1/workspaces/robin/files/file");
        assert!(file.body == content.as_bytes(), "{size}");
    }
}

#[test]
fn a_quota_holds_and_a_push_beyond_it_changes_nothing() {
    let test = Pushed::new();
    let admin = test.running.client();
    admin.create("w");
    let quota = admin.put("/api/v1/workspaces/w/quota", br#"{"bytes":1000}"#);
    assert!(quota.status < 300, "{}", quota.text());
    let agent = test.running.agent("w");
    let clone = test.clone_of(&agent.token, "workspaces/w.git", "w");
    commit(&clone, &[("a", "small\n")]);
    git(&clone, &["push", "-q", "origin", "main"]);
    commit(&clone, &[("b", &"x".repeat(2000))]);
    let said = refused(&clone, &[]);
    assert!(said.contains("its quota is 1000"), "{said}");
    assert_eq!(agent.get("/api/v1/workspaces/w/files/b").status, 404);
    let snapshots = agent.get("/api/v1/workspaces/w/snapshots").json();
    assert_eq!(snapshots["snapshots"].as_array().unwrap().len(), 1);
}

/// Random histories from several people at once, over every protocol: everything that was
/// acknowledged is there, and every clone is whole.
#[test]
fn push_race_of_random_histories() {
    let rounds = if soak() { 250 } else { 6 };
    let test = Pushed::new();
    let clones: Vec<PathBuf> = (0..4).map(|n| test.admin(&format!("c{n}"))).collect();
    let mut acknowledged: Vec<String> = Vec::new();
    let mut refusals = 0;
    for round in 0..rounds {
        let results: Vec<Option<String>> = std::thread::scope(|scope| {
            let pushing: Vec<_> = (clones.iter().enumerate())
                .map(|(n, clone)| {
                    scope.spawn(move || {
                        let mut rng = Rng::new(round as u64 * 97 + n as u64);
                        git(clone, &["fetch", "-q"]);
                        git(clone, &["reset", "-q", "--hard", "origin/main"]);
                        random_commits(clone, &mut rng, n, round);
                        let version = format!("protocol.version={}", rng.below(3));
                        let pushed = try_git(clone, &["-c", &version, "push", "origin", "main"]);
                        let said = errors(&pushed);
                        let fair = ["conflict", "fetch first", "keeps changing", "rejected"];
                        assert!(
                            pushed.status.success() || fair.iter().any(|why| said.contains(why)),
                            "{said}"
                        );
                        let tip = git(clone, &["rev-parse", "HEAD"]);
                        pushed.status.success().then_some(tip)
                    })
                })
                .collect();
            pushing.into_iter().map(|one| one.join().unwrap()).collect()
        });
        refusals += results.iter().filter(|result| result.is_none()).count();
        acknowledged.extend(results.into_iter().flatten());
    }
    let again = test.checked();
    for tip in &acknowledged {
        git(&again, &["merge-base", "--is-ancestor", tip, "HEAD"]);
    }
    assert_eq!(test.forks(), 0);
    assert!(acknowledged.len() >= rounds);
    println!(
        "soak: push-race: {} pushes by 4 at once, {} landed, {refusals} refused, every one that \
         landed is in a clone that fsck accepts",
        rounds * 4,
        acknowledged.len()
    );
}

/// A few commits on top of what is checked out: files of one's own, and now and then one of all.
fn random_commits(clone: &Path, rng: &mut Rng, who: usize, round: usize) {
    for n in 0..rng.between(1, 4) {
        let own = format!("own-{who}/d{}/f{}", rng.below(3), rng.below(5));
        let text = format!("{round} {n} {}\n", rng.below(1000));
        let mut files = vec![(own.as_str(), text.as_str())];
        if rng.below(4) == 0 {
            files.push(("shared.txt", &text));
        }
        if rng.below(6) == 0 {
            git(clone, &["checkout", "-q", "-b", "side"]);
            commit(clone, &files);
            git(clone, &["checkout", "-q", "main"]);
            commit(clone, &[(&format!("own-{who}/main"), &text)]);
            git(clone, &["merge", "-q", "--no-ff", "-m", "both", "side"]);
            git(clone, &["branch", "-q", "-D", "side"]);
        } else {
            let message = format!("{who} {round} {n}");
            for (path, text) in &files {
                let path = clone.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            git(clone, &["add", "-A"]);
            git(clone, &["commit", "-q", "--allow-empty", "-m", &message]);
        }
    }
}
