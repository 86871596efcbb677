//! Stock git against a running server: clone, fetch, shallow clones, and everything that is refused.

use std::path::Path;
use std::process::Output;

use offshoot_core::RelPath;
use offshoot_engine::{Content, ForkOptions, ImportOptions, PrincipalKind, Reach, Scope};
use offshoot_testkit::{git, git_command};

use crate::common::{Client, Running, cause};
use crate::paths;

/// The versions of the protocol, newest first.
pub(crate) const PROTOCOLS: [&str; 3] = ["2", "1", "0"];

pub(crate) fn url(running: &Running, token: &str, place: &str) -> String {
    format!("http://anyone:{token}@{}/git/{place}", running.address)
}

/// Runs git and gives what came of it; nobody is asked for a password.
pub(crate) fn try_git(dir: &Path, args: &[&str]) -> Output {
    git_command(dir).args(args).output().unwrap()
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The objects that a clone has, in packs or by themselves.
fn objects(clone: &Path) -> usize {
    let counted = git(clone, &["count-objects", "-v"]);
    let number = |name: &str| {
        let line = counted.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().parse::<usize>().unwrap()
    };
    number("in-pack: ") + number("count: ")
}

/// Fetches, and gives how many objects came. Packs are kept as they come, so each object that came counts.
fn fetched(clone: &Path, protocol: &str, more: &[&str]) -> usize {
    let before = objects(clone);
    let version = format!("protocol.version={protocol}");
    let mut args = vec!["-c", &version, "-c", "fetch.unpackLimit=1", "fetch", "-q"];
    args.extend_from_slice(more);
    git(clone, &args);
    git(clone, &["fsck", "--strict"]);
    objects(clone) - before
}

pub(crate) fn put(running: &Running, project: &str, path: &str, content: &str) -> String {
    let path = RelPath::parse(path.as_bytes()).unwrap();
    let content = Content::Bytes(content.as_bytes());
    let options = Default::default();
    let put = running.engine.projects.put_in_project(
        &project.parse().unwrap(),
        &path,
        content,
        &options,
        &cause(),
    );
    put.unwrap().id.to_string()
}

/// A repository with branches that were merged, a deep directory and two files of one content.
pub(crate) fn repository(dir: &Path) {
    git(dir, &["init", "-q"]);
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let commit = |message: &str| {
        git(dir, &["add", "-A"]);
        git(dir, &["commit", "-q", "-m", message]);
    };
    write("a/b/c/deep.txt", "deep\n");
    write("same-1", "same\n");
    write("same-2", "same\n");
    commit("first");
    git(dir, &["checkout", "-q", "-b", "side"]);
    write("side.txt", "side\n");
    commit("side");
    git(dir, &["checkout", "-q", "main"]);
    write("main.txt", "main\n");
    commit("main");
    git(dir, &["merge", "-q", "--no-ff", "-m", "merged", "side"]);
    write("a/b/c/deep.txt", "deeper\n");
    commit("last");
}

pub(crate) fn imported(data: &Path) -> (Running, tempfile::TempDir) {
    let source = tempfile::tempdir().unwrap();
    repository(source.path());
    let running = Running::start(data);
    let id = "p".parse().unwrap();
    running
        .engine
        .projects
        .import_git(&id, source.path(), &mut |_| {}, &cause())
        .unwrap();
    (running, source)
}

#[test]
fn an_imported_project_is_cloned_with_its_own_ids_and_fetched_by_what_is_new() {
    let data = offshoot_testkit::HostDir::new();
    let (running, source) = imported(data.path());
    let whole = git(source.path(), &["rev-list", "--objects", "HEAD"]);
    let place = tempfile::tempdir().unwrap();
    let url = url(&running, &running.admin, "p.git");
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        let clone = place.path().join(protocol);
        let name = clone.to_str().unwrap();
        git(place.path(), &["-c", &version, "clone", "-q", &url, name]);
        git(&clone, &["fsck", "--strict"]);
        assert_eq!(
            git(&clone, &["rev-parse", "HEAD"]),
            git(source.path(), &["rev-parse", "HEAD"])
        );
        assert_eq!(git(&clone, &["branch", "--show-current"]), "main");
        assert_eq!(
            objects(&clone),
            whole.lines().count(),
            "protocol {protocol}"
        );
        assert_eq!(git(&clone, &["status", "--porcelain"]), "");
    }
    // One file deep down: its blob, four trees, one commit. One at the top: three objects.
    put(&running, "p", "a/b/c/deep.txt", "deepest\n");
    for protocol in PROTOCOLS {
        assert_eq!(fetched(&place.path().join(protocol), protocol, &[]), 6);
    }
    let head = put(&running, "p", "top.txt", "top\n");
    for protocol in PROTOCOLS {
        let clone = place.path().join(protocol);
        assert_eq!(fetched(&clone, protocol, &[]), 3);
        assert_eq!(git(&clone, &["rev-parse", "origin/main"]), head);
        assert_eq!(fetched(&clone, protocol, &[]), 0);
    }
}

#[test]
fn work_of_ones_own_in_the_clone_does_not_stand_in_the_way() {
    let data = offshoot_testkit::HostDir::new();
    let (running, _source) = imported(data.path());
    let place = tempfile::tempdir().unwrap();
    let url = url(&running, &running.admin, "p.git");
    for protocol in PROTOCOLS {
        git(place.path(), &["clone", "-q", &url, protocol]);
        let clone = place.path().join(protocol);
        // More than git tells in one request, so that it has to ask again.
        for n in 0..40 {
            let message = format!("mine {n}");
            git(&clone, &["commit", "-q", "--allow-empty", "-m", &message]);
        }
    }
    put(&running, "p", "top.txt", "top\n");
    for protocol in PROTOCOLS {
        let clone = place.path().join(protocol);
        assert_eq!(fetched(&clone, protocol, &[]), 3, "protocol {protocol}");
        git(&clone, &["merge", "-q", "-m", "both", "origin/main"]);
    }
    put(&running, "p", "top.txt", "top again\n");
    for protocol in PROTOCOLS {
        assert_eq!(fetched(&place.path().join(protocol), protocol, &[]), 3);
    }
}

#[test]
fn a_workspace_is_cloned_by_its_own_token() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let admin = running.client();
    admin.create("w");
    let agent = running.agent("w");
    let place = tempfile::tempdir().unwrap();
    let url = url(&running, &agent.token, "workspaces/w.git");
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        let name = format!("empty-{protocol}");
        git(place.path(), &["-c", &version, "clone", "-q", &url, &name]);
    }
    agent.put("/api/v1/workspaces/w/files/src/a.txt", b"one\n");
    agent.put("/api/v1/workspaces/w/files/empty", b"");
    let large: Vec<u8> = (0..3_000_000u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    agent.put("/api/v1/workspaces/w/files/large.bin", &large);
    let taken = agent.post("/api/v1/workspaces/w/snapshots", r#"{"label":"first"}"#);
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        git(
            place.path(),
            &["-c", &version, "clone", "-q", &url, protocol],
        );
        let clone = place.path().join(protocol);
        git(&clone, &["fsck", "--strict"]);
        let head = git(&clone, &["rev-parse", "HEAD"]);
        assert_eq!(taken.json()["id"], head.as_str());
        assert_eq!(std::fs::read(clone.join("large.bin")).unwrap(), large);
        assert_eq!(git(&clone, &["log", "-1", "--format=%s"]), "first");
        // What was cloned while it was empty finds the branch now.
        fetched(
            &place.path().join(format!("empty-{protocol}")),
            protocol,
            &[],
        );
    }
    agent.put("/api/v1/workspaces/w/files/src/a.txt", b"two\n");
    agent.post("/api/v1/workspaces/w/snapshots", r#"{"label":"second"}"#);
    for protocol in PROTOCOLS {
        assert_eq!(fetched(&place.path().join(protocol), protocol, &[]), 4);
    }
}

#[test]
fn a_fork_is_cloned_with_the_history_it_came_from() {
    let data = offshoot_testkit::HostDir::new();
    let (running, source) = imported(data.path());
    let options = ForkOptions {
        agent: Some("robin".parse().unwrap()),
        ..ForkOptions::default()
    };
    let project = "p".parse().unwrap();
    running
        .engine
        .forks
        .fork(&project, &options, &cause())
        .unwrap();
    let agent = running.agent("robin");
    let place = tempfile::tempdir().unwrap();
    let url = url(&running, &agent.token, "workspaces/robin.git");
    git(place.path(), &["clone", "-q", &url, "clone"]);
    let clone = place.path().join("clone");
    assert_eq!(
        git(&clone, &["rev-parse", "HEAD"]),
        git(source.path(), &["rev-parse", "HEAD"])
    );
    agent.put("/api/v1/workspaces/robin/files/robin.txt", b"mine\n");
    agent.post("/api/v1/workspaces/robin/snapshots", "{}");
    assert_eq!(fetched(&clone, "2", &[]), 3);
}

#[test]
fn shallow_clones() {
    let data = offshoot_testkit::HostDir::new();
    let (running, source) = imported(data.path());
    let place = tempfile::tempdir().unwrap();
    let url = url(&running, &running.admin, "p.git");
    let count = |clone: &Path| git(clone, &["rev-list", "--count", "HEAD"]);
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        let args = [
            "-c", &version, "clone", "-q", "--depth", "1", &url, protocol,
        ];
        git(place.path(), &args);
        let clone = place.path().join(protocol);
        git(&clone, &["fsck", "--strict"]);
        assert_eq!(count(&clone), "1", "protocol {protocol}");
        fetched(&clone, protocol, &["--depth", "2"]);
        assert_eq!(count(&clone), "2", "protocol {protocol}");
        fetched(&clone, protocol, &["--deepen", "1"]);
        // The second commit is a merge: both of its parents come.
        assert_eq!(count(&clone), "4", "protocol {protocol}");
        fetched(&clone, protocol, &["--unshallow"]);
        assert_eq!(
            count(&clone),
            git(source.path(), &["rev-list", "--count", "HEAD"])
        );
    }
    put(&running, "p", "top.txt", "top\n");
    for protocol in PROTOCOLS {
        assert_eq!(fetched(&place.path().join(protocol), protocol, &[]), 3);
    }
}

/// The history ends where a date says, and a client that lacks a date within is told so.
#[test]
fn clones_since_a_date() {
    let data = offshoot_testkit::HostDir::new();
    let (running, source) = imported(data.path());
    let place = tempfile::tempdir().unwrap();
    let url = url(&running, &running.admin, "p.git");
    let times = git(source.path(), &["log", "--format=%ct", "HEAD"]);
    let mut times: Vec<i64> = times.lines().map(|line| line.parse().unwrap()).collect();
    times.sort_unstable();
    let since = times[times.len() / 2];
    let young = times.iter().filter(|time| **time >= since).count();
    assert!(young > 0);
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        let after = format!("--shallow-since=@{since}");
        git(
            place.path(),
            &["-c", &version, "clone", "-q", &after, &url, protocol],
        );
        let clone = place.path().join(protocol);
        git(&clone, &["fsck", "--strict"]);
        let count = git(&clone, &["rev-list", "--count", "HEAD"]);
        assert_eq!(count, young.to_string(), "protocol {protocol}");
        let later = format!("--shallow-since=@{}", times[times.len() - 1] + 86_400);
        let refused = try_git(
            place.path(),
            &["-c", &version, "clone", "-q", &later, &url, "x"],
        );
        assert!(!refused.status.success());
        assert!(
            errors(&refused).contains("as young"),
            "{}",
            errors(&refused)
        );
    }
}

/// A partial clone gets files when it needs them, and none that its branch does not hold.
#[test]
fn partial_clones() {
    let data = offshoot_testkit::HostDir::new();
    let (running, _source) = imported(data.path());
    put(&running, "p", "large.bin", &"x".repeat(5_000));
    put(&running, "p", "large.bin", &"y".repeat(5_000));
    let place = tempfile::tempdir().unwrap();
    let from = url(&running, &running.admin, "p.git");
    let whole = place.path().join("whole");
    git(place.path(), &["clone", "-q", &from, "whole"]);
    let blobs = |clone: &Path| {
        let all = git(
            clone,
            &[
                "cat-file",
                "--batch-all-objects",
                "--batch-check=%(objecttype)",
            ],
        );
        all.lines().filter(|line| *line == "blob").count()
    };
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        for (filter, more) in [
            ("blob:none", "--no-checkout"),
            ("blob:limit=1k", "--checkout"),
        ] {
            let name = format!("{protocol}-{}", filter.len());
            let filter_arg = format!("--filter={filter}");
            let mut args = vec!["-c", &version, "clone", "-q", &filter_arg];
            if more == "--no-checkout" {
                args.push(more);
            }
            args.extend([from.as_str(), name.as_str()]);
            git(place.path(), &args);
            let clone = place.path().join(&name);
            if filter == "blob:none" {
                assert_eq!(blobs(&clone), 0, "protocol {protocol}");
                git(&clone, &["-c", &version, "checkout", "-q", "HEAD"]);
            }
            assert_eq!(
                git(&clone, &["rev-parse", "HEAD^{tree}"]),
                git(&whole, &["rev-parse", "HEAD^{tree}"])
            );
            assert_eq!(git(&clone, &["status", "--porcelain"]), "");
            assert!(blobs(&clone) < blobs(&whole), "{protocol} {filter}");
            let old = git(&clone, &["-c", &version, "show", "HEAD~1:large.bin"]);
            assert_eq!(old, "x".repeat(5_000));
        }
    }
    // What another project holds is not to be had by its id.
    let other = running
        .engine
        .projects
        .create_project(&"other".parse().unwrap(), &cause());
    other.unwrap();
    put(&running, "other", "secret", "nobody else's\n");
    let clone = place.path().join("2-9");
    std::fs::write(place.path().join("secret"), "nobody else's\n").unwrap();
    let id = git(place.path(), &["hash-object", "secret"]);
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        let refused = try_git(&clone, &["-c", &version, "fetch", "origin", &id]);
        assert!(!refused.status.success());
        assert!(
            errors(&refused).contains("not our ref"),
            "{}",
            errors(&refused)
        );
    }
}

#[test]
fn a_project_from_a_shallow_repository_is_cloned_as_far_as_it_goes() {
    let data = offshoot_testkit::HostDir::new();
    let source = tempfile::tempdir().unwrap();
    repository(source.path());
    let place = tempfile::tempdir().unwrap();
    let from = format!("file://{}", source.path().display());
    git(place.path(), &["clone", "-q", "--depth", "2", &from, "cut"]);
    let running = Running::start(data.path());
    let id = "cut".parse().unwrap();
    let cut = place.path().join("cut");
    running
        .engine
        .projects
        .import_git(&id, &cut, &mut |_| {}, &cause())
        .unwrap();
    let url = url(&running, &running.admin, "cut.git");
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        git(
            place.path(),
            &["-c", &version, "clone", "-q", &url, protocol],
        );
        let clone = place.path().join(protocol);
        git(&clone, &["fsck", "--strict"]);
        assert_eq!(git(&clone, &["rev-list", "--count", "HEAD"]), "2");
    }
    put(&running, "cut", "top.txt", "top\n");
    for protocol in PROTOCOLS {
        assert_eq!(fetched(&place.path().join(protocol), protocol, &[]), 3);
    }
}

#[test]
fn ten_thousand_files() {
    let data = offshoot_testkit::HostDir::new();
    let source = tempfile::tempdir().unwrap();
    for dir in 0..100 {
        let dir = source.path().join(format!("dir-{dir}"));
        std::fs::create_dir(&dir).unwrap();
        for file in 0..100 {
            let name = format!("{file}.txt");
            std::fs::write(dir.join(name), format!("{dir:?} {file}\n")).unwrap();
        }
    }
    let running = Running::start(data.path());
    let id = "many".parse().unwrap();
    let options = ImportOptions::default();
    running
        .engine
        .projects
        .import_dir(&id, source.path(), &options, &mut |_| {}, &cause())
        .unwrap();
    let place = tempfile::tempdir().unwrap();
    let url = url(&running, &running.admin, "many.git");
    git(place.path(), &["clone", "-q", &url, "clone"]);
    let clone = place.path().join("clone");
    git(&clone, &["fsck", "--strict"]);
    assert_eq!(git(&clone, &["ls-files"]).lines().count(), 10_000);
    assert_eq!(objects(&clone), 10_000 + 100 + 2);
    put(&running, "many", "dir-7/7.txt", "changed\n");
    assert_eq!(fetched(&clone, "2", &[]), 4);
}

#[test]
fn who_may_not_clone_is_told_so_in_words_of_git() {
    let data = offshoot_testkit::HostDir::new();
    let (running, _source) = imported(data.path());
    running.client().create("w");
    running.client().create("their");
    let refs = |place: &str| format!("/git/{place}/info/refs?service=git-upload-pack");
    let nobody = Client::new(running.address, "").get(&refs("p.git"));
    assert_eq!(
        (nobody.status, nobody.code().as_str()),
        (401, "unauthorized")
    );
    assert!(
        nobody
            .header("www-authenticate")
            .unwrap()
            .starts_with("Basic ")
    );
    let place = tempfile::tempdir().unwrap();
    let wrong = try_git(
        place.path(),
        &["clone", "-q", &url(&running, "ofs_wrong", "p.git"), "x"],
    );
    assert!(
        errors(&wrong).contains("Authentication failed"),
        "{}",
        errors(&wrong)
    );

    // What is not theirs answers as what does not exist.
    let agent = running.agent("w");
    let secret = |reply: crate::common::Reply, name: &str| {
        let mut same = reply.comparable();
        same.body = same.text().replace(name, "NAME").into_bytes();
        same
    };
    for (theirs, none) in [("their", "never"), ("w", "w")] {
        let theirs = agent.get(&refs(&format!("workspaces/{theirs}.git")));
        let none = agent.get(&refs(&format!("workspaces/{none}.git")));
        assert_eq!(secret(theirs, "their"), secret(none, "never"));
    }
    assert_eq!(agent.get(&refs("workspaces/w.git")).status, 200);
    let theirs = agent.get(&refs("p.git"));
    assert_eq!(theirs.code(), "project_not_found");
    assert_eq!(
        secret(theirs, "`p`"),
        secret(agent.get(&refs("q.git")), "`q`")
    );
    // A token of the project reads the project; one for some paths does not get them all.
    let scope = Scope {
        kind: PrincipalKind::Service,
        reach: Reach::Project("p".parse().unwrap()),
        allow: Vec::new(),
    };
    let issued = running
        .engine
        .access
        .issue_token(&scope, None, None, &cause())
        .unwrap();
    let of_project = Client::new(running.address, &issued.secret);
    assert_eq!(of_project.get(&refs("p.git")).status, 200);
    let limited = running.client_for("w", &["src/**:read"]);
    assert_eq!(
        limited.get(&refs("workspaces/w.git")).code(),
        "permission_denied"
    );
}

#[test]
fn wrong_requests_are_refused_with_a_code() {
    let data = offshoot_testkit::HostDir::new();
    let (running, _source) = imported(data.path());
    let client = running.client();
    for (target, status) in [
        ("/git/p.git/info/refs", 400),
        ("/git/p.git/info/refs?service=git-archive", 400),
        ("/git/p.git/HEAD", 404),
        ("/git/p.git/objects/info/packs", 404),
        ("/git/p/info/refs?service=git-upload-pack", 404),
        ("/git/p.git", 404),
        ("/git/nothing.git/info/refs?service=git-upload-pack", 404),
        ("/git/.git/info/refs?service=git-upload-pack", 400),
        ("/git/p.git/git-upload-pack", 405),
    ] {
        let reply = client.get(target);
        assert_eq!(reply.status, status, "{target} {}", reply.text());
        assert!(!reply.code().is_empty(), "{target}");
    }
    let upload = |protocol: &str, encoding: &str, body: &[u8]| {
        let headers = [("Git-Protocol", protocol), ("Content-Encoding", encoding)];
        client.send("POST", b"/git/p.git/git-upload-pack", &headers, body)
    };
    assert_eq!(upload("version=2", "br", b"0000").status, 400);
    assert_eq!(upload("version=2", "gzip", b"0000").status, 400);
    for protocol in ["version=2", ""] {
        assert_eq!(upload(protocol, "identity", b"0000").body, b"");
        for bad in [
            &b"zzzz"[..],
            b"0009want",
            b"0032want 0123456789012345678901234567890123456789\n00000009done\n",
            b"0011command=push\n0000",
            b"0012command=fetch\n0001000ewant zzzz\n0000",
            b"0012command=fetch\n00010032want 0123456789012345678901234567890123456789\n0000",
        ] {
            let reply = upload(protocol, "identity", bad);
            let text = reply.text();
            let refused = text.get(4..8) == Some("ERR ");
            let is_other_protocol = bad.starts_with(b"0032") || bad.contains(&b'=');
            assert!(refused || is_other_protocol, "{protocol} {bad:?} {text}");
            assert!(!text.contains("PACK"), "{protocol} {bad:?}");
        }
    }
}

#[test]
fn no_path_in_the_url_leads_outside() {
    let data = offshoot_testkit::HostDir::new();
    let (running, _source) = imported(data.path());
    let client = running.client();
    let mut stream = client.connect();
    for path in paths::table() {
        for spelled in paths::spellings(&path) {
            if spelled.iter().any(|byte| b" \r\n\0".contains(byte)) {
                continue;
            }
            for (before, after) in [
                ("/git/", ".git/info/refs?service=git-upload-pack"),
                ("/git/workspaces/", ".git/info/refs?service=git-upload-pack"),
                ("/git/p.git/", ""),
            ] {
                let target = [before.as_bytes(), &spelled, after.as_bytes()].concat();
                let reply = client.send_on(&mut stream, "GET", &target, &[], b"", false);
                if reply.status == 0 || reply.body.is_empty() {
                    stream = client.connect();
                }
                paths::check("clone", &path, &reply);
                assert!(reply.status >= 400 || reply.status == 0, "{target:?}");
            }
        }
    }
}

/// Branches and tags of every kind are in a clone, over each version of the protocol.
#[test]
fn a_clone_has_the_branches_and_tags_of_an_imported_project() {
    let data = offshoot_testkit::HostDir::new();
    let source = tempfile::tempdir().unwrap();
    repository(source.path());
    git(source.path(), &["branch", "-m", "main", "trunk"]);
    git(source.path(), &["tag", "light", "HEAD~1"]);
    git(
        source.path(),
        &["tag", "-a", "v1", "-m", "annotated", "HEAD~2"],
    );
    git(source.path(), &["tag", "-a", "v2", "-m", "of a tag", "v1"]);
    git(source.path(), &["tag", "of-a-tree", "HEAD^{tree}"]);
    git(source.path(), &["checkout", "-q", "-b", "apart", "HEAD~1"]);
    std::fs::write(source.path().join("apart"), "apart\n").unwrap();
    git(source.path(), &["add", "-A"]);
    git(source.path(), &["commit", "-q", "-m", "apart"]);
    git(source.path(), &["checkout", "-q", "trunk"]);
    let running = Running::start(data.path());
    let id = "p".parse().unwrap();
    let projects = &running.engine.projects;
    projects
        .import_git(&id, source.path(), &mut |_| {}, &cause())
        .unwrap();
    let place = tempfile::tempdir().unwrap();
    let url = url(&running, &running.admin, "p.git");
    let listed = |from: &str| git(source.path(), &["ls-remote", "--symref", from]);
    let refs = |dir: &Path| {
        let format = "--format=%(refname) %(objectname) %(*objectname)";
        git(dir, &["for-each-ref", format])
    };
    for protocol in PROTOCOLS {
        let version = format!("protocol.version={protocol}");
        let clone = place.path().join(format!("{protocol}.git"));
        let name = clone.to_str().unwrap();
        git(
            place.path(),
            &["-c", &version, "clone", "-q", "--mirror", &url, name],
        );
        git(&clone, &["fsck", "--strict", "--full"]);
        assert_eq!(refs(&clone), refs(source.path()), "protocol {protocol}");
        assert_eq!(git(&clone, &["symbolic-ref", "HEAD"]), "refs/heads/trunk");
        // A clone of one branch, and a tag that is asked for later.
        let single = place.path().join(format!("single-{protocol}"));
        let name = single.to_str().unwrap();
        let one = ["clone", "-q", "--single-branch", "--no-tags", &url, name];
        git(place.path(), &[&["-c", &version], &one[..]].concat());
        assert_eq!(git(&single, &["branch", "--show-current"]), "trunk");
        let wanted = "refs/tags/v2:refs/tags/v2";
        git(&single, &["-c", &version, "fetch", "-q", "origin", wanted]);
        assert_eq!(
            git(&single, &["cat-file", "tag", "v2"]),
            git(source.path(), &["cat-file", "tag", "v2"])
        );
        git(&single, &["fsck", "--strict"]);
    }
    assert_eq!(listed(&url), listed("."));
    // What merges later is on the branch of that name.
    let head = put(&running, "p", "later", "later\n");
    let clone = place.path().join("2.git");
    git(&clone, &["fetch", "-q"]);
    assert_eq!(git(&clone, &["rev-parse", "trunk"]), head);
}
