//! Pushes of stock git, and of enemies, that are refused: with a reason, and with nothing left.

use std::io::Write as _;
use std::path::Path;

use offshoot_testkit::{git, git_with_input};

use crate::common::Client;
use crate::git::{errors, put, try_git, url};
use crate::git_push::{Pushed, commit, refused};

#[test]
fn protected_paths_are_for_the_owner() {
    let test = Pushed::new();
    let token = test.running.client_for_project("p", &[]).token;
    let clone = test.clone(&token, "of-project");
    commit(
        &clone,
        &[(".github/workflows/ci.yml", "on: push\n"), ("plain", "x\n")],
    );
    let head = test.head();
    let said = refused(&clone, &[]);
    assert!(said.contains("is protected in this project"), "{said}");
    assert!(said.contains("-o review"), "{said}");
    assert_eq!((test.head(), test.forks()), (head.clone(), 0));
    // Taken back before it is pushed is still in the history.
    git(&clone, &["rm", "-q", "-r", ".github"]);
    git(&clone, &["commit", "-q", "-m", "taken back"]);
    assert!(refused(&clone, &[]).contains("is protected"));
    // As a merge it changes nothing that is protected, and no snapshot has it.
    let pushed = try_git(&clone, &["push", "-o", "review"]);
    assert!(pushed.status.success(), "{}", errors(&pushed));
    let again = test.checked();
    assert!(again.join("plain").exists() && !again.join(".github").exists());
}

#[test]
fn the_first_push_asks_for_protected_paths_too() {
    let test = Pushed::new();
    let client = test.running.client();
    client.create_project("empty", &[]);
    let protect = br#"{"protect":[".github/**"]}"#;
    let set = client.put("/api/v1/projects/empty/policy", protect);
    assert!(set.status < 300, "{}", set.text());
    let token = test.running.client_for_project("empty", &[]).token;
    let clone = test.clone_of(&token, "empty.git", "of-project");
    commit(&clone, &[(".github/workflows/ci.yml", "on: push\n")]);
    git(&clone, &["rm", "-q", "-r", ".github"]);
    commit(&clone, &[("plain", "x\n")]);
    let head = || {
        let projects = &test.running.engine.projects;
        let project = projects.project(&"empty".parse().unwrap()).unwrap();
        project.head.map(|head| head.to_string())
    };
    for options in [&["origin", "main"][..], &["-o", "review", "origin", "main"]] {
        let said = refused(&clone, options);
        assert!(said.contains("is protected in this project"), "{said}");
        assert!(said.contains("an admin pushes first"), "{said}");
        assert_eq!(head(), None);
    }
    let admin = url(&test.running, &test.running.admin, "empty.git");
    git(&clone, &["push", "-q", &admin, "main"]);
    assert_eq!(head(), Some(git(&clone, &["rev-parse", "HEAD"])));
}

#[test]
fn a_protected_change_waits_for_a_review_of_the_owner() {
    let test = Pushed::new();
    let token = test.running.client_for_project("p", &[]).token;
    let clone = test.clone(&token, "of-project");
    let tip = commit(
        &clone,
        &[(".github/workflows/ci.yml", "on: push\n"), ("plain", "x\n")],
    );
    let said = refused(&clone, &["-o", "review"]);
    assert!(said.contains("1 path waits for review"), "{said}");
    let of_project = Client::new(test.running.address, &token);
    let open = of_project.get("/api/v1/projects/p/reviews").json();
    let id = open["reviews"][0]["id"].as_str().unwrap().to_owned();
    let resolve = format!("/api/v1/reviews/{id}/resolve");
    let denied = of_project.post(&resolve, r#"{"choice":"theirs"}"#);
    assert_eq!(denied.code(), "permission_denied");
    test.running
        .client()
        .done(&resolve, r#"{"choice":"theirs"}"#);
    let again = test.checked();
    git(&again, &["merge-base", "--is-ancestor", &tip, "HEAD"]);
    assert!(again.join(".github/workflows/ci.yml").exists() && again.join("plain").exists());
    // The owner needs nobody.
    let admin = test.admin("admin");
    let tip = commit(&admin, &[(".github/workflows/ci.yml", "on: [push]\n")]);
    git(&admin, &["push", "-q"]);
    assert_eq!(test.head(), tip);
}

#[test]
fn what_cannot_be_pushed_is_refused_ref_by_ref() {
    let test = Pushed::new();
    let clone = test.admin("clone");
    let head = test.head();
    // Another branch and a tag are refused, the main branch lands.
    let tip = commit(&clone, &[("a.txt", "a\n")]);
    git(&clone, &["tag", "-a", "-m", "v1", "v1"]);
    let said = refused(&clone, &["origin", "main", "main:side", "v1"]);
    assert!(
        said.contains("[remote rejected] main -> side (only the branch `main`"),
        "{said}"
    );
    assert!(said.contains("[remote rejected] v1 -> v1"), "{said}");
    assert!(
        said.contains(&format!("{}..{}  main -> main", &head[..7], &tip[..7])),
        "{said}"
    );
    assert_eq!(test.head(), tip);
    // All or nothing.
    commit(&clone, &[("b.txt", "b\n")]);
    let said = refused(&clone, &["--atomic", "origin", "main", "main:side"]);
    assert!(said.contains("atomic"), "{said}");
    assert_eq!(test.head(), tip);
    // The history stays.
    let said = refused(&clone, &["origin", ":main"]);
    assert!(said.contains("cannot be deleted"), "{said}");
    git(&clone, &["reset", "-q", "--hard", "HEAD~2"]);
    let said = refused(&clone, &["--force"]);
    assert!(said.contains("not a fast-forward"), "{said}");
    commit(&clone, &[("a.txt", "another\n")]);
    assert!(refused(&clone, &["--force"]).contains("not a fast-forward"));
    git(&clone, &["checkout", "-q", "--orphan", "new"]);
    commit(&clone, &[("c.txt", "c\n")]);
    let said = refused(&clone, &["--force", "origin", "new:main"]);
    assert!(said.contains("not a fast-forward"), "{said}");
    assert_eq!(test.head(), tip);
    // Places that are kept for Offshoot.
    git(&clone, &["checkout", "-q", "-B", "main", "origin/main"]);
    git(&clone, &["pull", "-q"]);
    commit(&clone, &[(".meta/x", "x\n")]);
    assert!(refused(&clone, &[]).contains("is kept for Offshoot"));
    // A name that git does not know is told and does no harm.
    git(&clone, &["reset", "-q", "--hard", "HEAD~1"]);
    commit(&clone, &[("d.txt", "d\n")]);
    let told = try_git(&clone, &["push", "-o", "ci.skip"]);
    assert!(told.status.success() && errors(&told).contains("`ci.skip` is not known"));
    test.checked();
}

#[test]
fn a_shallow_clone_pushes_what_needs_nothing_older() {
    let test = Pushed::new();
    let from = url(&test.running, &test.running.admin, "p.git");
    git(
        test.place.path(),
        &["clone", "-q", "--depth", "1", &from, "cut"],
    );
    let cut = test.place.path().join("cut");
    let tip = commit(&cut, &[("from-cut", "x\n")]);
    git(&cut, &["push", "-q"]);
    assert_eq!(test.head(), tip);
    test.checked();
    // The beginning of another history that is cut off lacks its parents here.
    test.running.client().create_project("q", &[]);
    let to = url(&test.running, &test.running.admin, "q.git");
    let said = refused(&cut, &[&to, "main"]);
    assert!(said.contains("your clone is shallow"), "{said}");
    let project = test.running.engine.projects.project(&"q".parse().unwrap());
    assert_eq!(project.unwrap().head, None);
}

#[test]
fn who_may_not_push_is_told_before_anything_is_sent() {
    let test = Pushed::new();
    let admin = test.running.client();
    admin.create("w");
    admin.create("their");
    let clone = test.admin("clone");
    commit(&clone, &[("new.txt", "x\n")]);
    let reads = test.running.client_for_project("p", &["**:read"]);
    let writes = test
        .running
        .client_for_project("p", &["src/**:read,write,delete"]);
    let agent = test.running.agent("w");
    for (token, place, code) in [
        (&reads.token, "p.git", "permission_denied"),
        (&writes.token, "p.git", "permission_denied"),
        (&agent.token, "p.git", "project_not_found"),
        (&agent.token, "workspaces/their.git", "workspace_not_found"),
        (&agent.token, "workspaces/never.git", "workspace_not_found"),
    ] {
        let client = Client::new(test.running.address, token);
        let refs = format!("/git/{place}/info/refs?service=git-receive-pack");
        assert_eq!(client.get(&refs).code(), code, "{place}");
        let post = format!("/git/{place}/git-receive-pack");
        assert_eq!(client.post(&post, "0000").code(), code, "{place}");
        let said = refused(&clone, &[&url(&test.running, token, place), "main"]);
        assert!(said.contains(code), "{said}");
    }
    let nobody = Client::new(test.running.address, "");
    assert_eq!(
        nobody.post("/git/p.git/git-receive-pack", "0000").status,
        401
    );
    // The probe of a client that is about to send much.
    let probe = admin.post("/git/p.git/git-receive-pack", "0000");
    assert_eq!((probe.status, probe.body.as_slice()), (200, &b""[..]));
    assert_eq!(
        probe.header("content-type"),
        Some("application/x-git-receive-pack-result")
    );
    for bad in ["zzzz", "0009want", "0010not a command", "0004"] {
        assert_eq!(
            admin.post("/git/p.git/git-receive-pack", bad).status,
            400,
            "{bad}"
        );
    }
    assert_eq!(admin.get("/git/p.git/git-receive-pack").status, 405);
}

#[test]
fn objects_of_another_project_cannot_be_named() {
    let test = Pushed::new();
    let admin = test.running.client();
    admin.create_project("other", &[]);
    put(&test.running, "other", "secret", "nobody else's\n");
    let token = test.running.client_for_project("p", &[]).token;
    let clone = test.clone(&token, "clone");
    let old = git(&clone, &["rev-parse", "HEAD"]);
    // A tree that names the file by its id, and a pack without the file.
    let secret = git_with_input(
        &clone,
        &["hash-object", "-w", "--stdin"],
        b"nobody else's\n",
    );
    let secret = String::from_utf8(secret).unwrap();
    let secret = secret.trim();
    let listed = git(&clone, &["ls-tree", "HEAD"]);
    let entries = format!("{listed}\n100644 blob {secret}\tstolen\n");
    let tree = git_with_input(&clone, &["mktree"], entries.as_bytes());
    let tree = String::from_utf8(tree).unwrap();
    let tip = git(
        &clone,
        &["commit-tree", tree.trim(), "-p", &old, "-m", "steal"],
    );
    let without = format!("{tip}\n{}\n", tree.trim());
    let pack = git_with_input(
        &clone,
        &["pack-objects", "-q", "--stdout"],
        without.as_bytes(),
    );
    let said = post_pack(&test, &token, &old, &tip, &pack);
    assert!(
        said.contains(&format!(
            "the blob {secret} is neither in it nor in the history"
        )),
        "{said}"
    );
    assert_eq!(test.head(), old);
    // By the id of a commit of it.
    let project = test
        .running
        .engine
        .projects
        .project(&"other".parse().unwrap());
    let foreign = project.unwrap().head.unwrap().to_string();
    let said = post_pack(&test, &token, &old, &foreign, &empty_pack(&clone));
    assert!(
        said.contains(&format!("the commit {foreign} is neither")),
        "{said}"
    );
    assert_eq!(test.head(), old);
}

fn empty_pack(clone: &Path) -> Vec<u8> {
    git_with_input(clone, &["pack-objects", "-q", "--stdout"], b"")
}

fn post_pack(test: &Pushed, token: &str, old: &str, new: &str, pack: &[u8]) -> String {
    let first = format!("{old} {new} refs/heads/main\0report-status");
    let body = format!("{:04x}{first}\n0000", first.len() + 5);
    let body = [body.as_bytes(), pack].concat();
    let client = Client::new(test.running.address, token);
    let reply = client.send("POST", b"/git/p.git/git-receive-pack", &[], &body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.text()
}

/// A few objects that stand for more paths than there are atoms.
#[test]
fn a_tree_of_trees_of_trees_is_refused() {
    let test = Pushed::new();
    let clone = test.admin("clone");
    let old = git(&clone, &["rev-parse", "HEAD"]);
    let blob = git_with_input(&clone, &["hash-object", "-w", "--stdin"], b"boom\n");
    let mut below = format!("100644 blob {}", String::from_utf8(blob).unwrap().trim());
    let mut root = String::new();
    for _ in 0..12 {
        let entries: String = (0..10).map(|n| format!("{below}\tn{n}\n")).collect();
        let tree = git_with_input(&clone, &["mktree"], entries.as_bytes());
        root = String::from_utf8(tree).unwrap().trim().to_owned();
        below = format!("040000 tree {root}");
    }
    let bomb = git(&clone, &["commit-tree", &root, "-p", &old, "-m", "bomb"]);
    // Deeper than any path may be.
    let mut deep = below;
    for _ in 0..300 {
        let tree = git_with_input(&clone, &["mktree"], format!("{deep}\td\n").as_bytes());
        root = String::from_utf8(tree).unwrap().trim().to_owned();
        deep = format!("040000 tree {root}");
    }
    let deep = git(&clone, &["commit-tree", &root, "-p", &old, "-m", "deep"]);
    for (tip, reason) in [(bomb, "paths"), (deep, "levels")] {
        let said = refused(&clone, &["origin", &format!("{tip}:main")]);
        assert!(said.contains(reason), "{said}");
        assert_eq!(test.head(), old);
    }
}

#[test]
fn a_body_may_be_gzip_and_a_broken_one_leaves_nothing() {
    let test = Pushed::new();
    let clone = test.admin("clone");
    let old = git(&clone, &["rev-parse", "HEAD"]);
    let tip = commit(&clone, &[("new.txt", "x\n")]);
    let revs = format!("{tip}\n^{old}\n");
    let pack = git_with_input(
        &clone,
        &["pack-objects", "-q", "--revs", "--stdout"],
        revs.as_bytes(),
    );
    let first = format!("{old} {tip} refs/heads/main\0report-status");
    let body = format!("{:04x}{first}\n0000", first.len() + 5);
    let body = [body.as_bytes(), &pack].concat();
    let client = test.running.client();
    let send = |body: &[u8]| {
        let headers = [("Content-Encoding", "gzip")];
        client.send("POST", b"/git/p.git/git-receive-pack", &headers, body)
    };
    let zip = |body: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    };
    for cut in [body.len() - 1, body.len() - 30, first.len() + 20] {
        let text = send(&zip(&body[..cut])).text();
        assert!(text.contains("unpack the pack is refused"), "{text}");
        assert_eq!(test.head(), old);
    }
    // A client that goes away in the middle.
    let mut stream = client.connect();
    let length = body.len().to_string();
    let head = client.head(
        "POST",
        b"/git/p.git/git-receive-pack",
        &[("Content-Length", &length)],
    );
    stream.write_all(&head).unwrap();
    stream.write_all(&body[..body.len() - 10]).unwrap();
    drop(stream);
    let text = send(&zip(&body)).text();
    assert!(text.contains("ok refs/heads/main"), "{text}");
    assert_eq!(test.head(), tip);
    test.checked();
}
