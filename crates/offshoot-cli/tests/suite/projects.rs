//! Projects, forks and updates through the real binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Place, Ran};
use offshoot_testkit::{Process, Rng, TreeSpec, dir_image, git, make_tree, skip, soak};
use serde_json::{Value, json};

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A place with a directory `source` and the project `p` made from it.
fn with_project() -> (Place, PathBuf) {
    let place = Place::new();
    let source = place.path().join("source");
    write(&source, "README", "read me\n");
    write(&source, "src/main.rs", "fn main() {}\n");
    place.done(&["project", "create", "p", "--from", "source"]);
    (place, source)
}

fn json(place: &Place, args: &[&str]) -> Value {
    place.done(&[&["--json"], args].concat()).json()
}

fn failed(ran: &Ran) -> String {
    assert_eq!(ran.code, 1, "{}", ran.golden());
    let error = &ran.json()["error"];
    assert!(error["hint"].is_string(), "{error}");
    error["code"].as_str().unwrap().to_owned()
}

fn put(place: &Place, path: &str, content: &str) -> String {
    let ran = place.run_with_input(&["project", "put", "p", path], content.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.golden());
    ran.stdout.trim().to_owned()
}

#[test]
fn a_project_from_a_directory() {
    let (place, source) = with_project();
    let ran = place.done(&["project", "create", "q", "--from", "source", "-m", "begin"]);
    assert_eq!(
        ran.golden(),
        "exit 0\n--- stdout\nID\n--- stderr\n\
         created `q` with 2 files (21 B) in 1 snapshot\n\
         fork it with: offshoot fork q\n"
    );
    assert_eq!(
        place.done(&["project", "list"]).golden(),
        "exit 0\n--- stdout\n\
         PROJECT  FILES  SIZE  CHANGED   SNAPSHOT\n\
         p            2  21 B  just now  ID\n\
         q            2  21 B  just now  ID\n--- stderr\n"
    );
    assert_eq!(
        place.done(&["project", "files", "p"]).golden(),
        "exit 0\n--- stdout\n\
         TYPE  SIZE  PATH\n\
         file   8 B  README\n\
         dir      -  src/\n\
         file  13 B  src/main.rs\n--- stderr\n"
    );
    let flat = json(&place, &["project", "files", "p", "--flat"]);
    assert_eq!(flat["entries"].as_array().unwrap().len(), 2);
    assert_eq!(flat["entries"][0]["mode"], "0644");
    assert_eq!(
        place.done(&["project", "cat", "p", "README"]).bytes,
        b"read me\n"
    );

    let first = json(&place, &["project", "show", "p"])["head"].clone();
    let first = first.as_str().unwrap();
    let second = put(&place, "README", "read me again\n");
    let at = place.done(&["project", "cat", "p", "README", "--at", first]);
    assert_eq!(at.bytes, b"read me\n");
    let log = json(&place, &["project", "log", "p"]);
    assert_eq!(log["snapshots"][0]["id"], second.as_str());
    assert_eq!(log["snapshots"][1]["id"], first);
    let versions = json(&place, &["project", "versions", "p", "README"]);
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2);
    let diff = place.done(&["project", "diff", "p"]).stdout;
    assert!(diff.contains("-read me\n+read me again\n"), "{diff}");
    let refused = place.run(&["--json", "project", "diff", "q"]);
    assert_eq!(failed(&refused), "invalid_request");

    // What is new in the directory comes, and what was changed here stays.
    write(&source, "new", "new\n");
    let synced = json(&place, &["project", "sync", "p", "source"]);
    assert_eq!(
        (&synced["synced"], &synced["skipped"], &synced["total"]),
        (&json!(1), &json!(2), &json!(3))
    );
    assert_eq!(synced["merge"]["merged"], json!(["new"]));
    let edited = place.done(&["project", "cat", "p", "README"]);
    assert_eq!(edited.bytes, b"read me again\n");
    let again = place.done(&["project", "sync", "p"]);
    assert!(again.stderr.contains("nothing changed"), "{}", again.stderr);

    assert_eq!(
        place.done(&["project", "delete", "q"]).golden(),
        "exit 0\n--- stdout\ndeleted `q`\n\
         its last state is kept as snapshot ID\n--- stderr\n\
         look at it again with: offshoot workspace create q --from ID\n"
    );
    assert_eq!(place.done(&["check"]).code, 0);
}

#[test]
fn mistakes_are_named_with_a_way_out() {
    let (place, source) = with_project();
    write(place.path(), "file", "no directory\n");
    fs::create_dir(place.path().join("empty")).unwrap();
    for (args, code) in [
        (&["create", "p", "--from", "source"][..], "already_exists"),
        (&["create", "q", "--from", "nowhere"], "file_not_found"),
        (&["create", "q", "--from", "file"], "not_a_directory"),
        (&["create", "q", "--from", "empty"], "invalid_request"),
        (
            &["create", "q", "--from", "data/workspaces"],
            "invalid_request",
        ),
        (&["show", "q"], "project_not_found"),
        (&["export", "p", "--git", "source"], "already_exists"),
    ] {
        let ran = place.run(&[&["--json", "project"], args].concat());
        assert_eq!(failed(&ran), code, "{args:?}");
    }
    place.done(&["project", "create", "bare"]);
    let ran = place.run(&["--json", "fork", "bare"]);
    assert_eq!(failed(&ran), "invalid_request");
    let ran = place.run(&["--json", "fork", "p", "--provider", "magic"]);
    assert_eq!(ran.json()["error"]["code"], "invalid_request");
    place.done(&["fork", "p", "--agent", "a"]);
    let busy = place.run(&["--json", "project", "delete", "p"]);
    assert_eq!(failed(&busy), "workspace_busy");
    assert_eq!(place.run(&["project", "create", "x", "--files"]).code, 2);
    drop(source);
}

#[test]
fn a_project_from_git_and_back_to_git() {
    let place = Place::new();
    let source = place.path().join("repo");
    write(&source, "a", "a\n");
    write(&source, ".gitignore", "*.log\n");
    git(&source, &["init", "-q"]);
    git(&source, &["add", "-A"]);
    git(&source, &["commit", "-q", "-m", "first commit"]);
    write(&source, "debug.log", "noise\n");
    write(&source, "b", "b\n");
    let ran = place.done(&["project", "create", "p", "--from", "repo"]);
    assert_eq!(ran.stdout.trim(), git(&source, &["rev-parse", "HEAD"]));
    assert!(ran.stderr.contains("not committed"), "{}", ran.stderr);
    let log = place.done(&["project", "log", "p"]).stdout;
    assert!(
        log.contains("Test Person") && log.contains("first commit"),
        "{log}"
    );

    let files = json(
        &place,
        &["project", "create", "files", "--from", "repo", "--files"],
    );
    assert_eq!(files["file_count"], 4);
    let rules = json(
        &place,
        &[
            "project",
            "create",
            "rules",
            "--from",
            "repo",
            "--ignore-rules",
        ],
    );
    assert_eq!(
        (&rules["file_count"], &rules["ignored"]),
        (&json!(3), &json!(["debug.log"]))
    );

    let head = put(&place, "c", "c\n");
    place.done(&["project", "export", "p", "--git", "out.git"]);
    let target = place.path().join("out.git");
    git(&target, &["fsck", "--strict"]);
    assert_eq!(git(&target, &["rev-parse", "main"]), head);
    place.done(&[
        "project", "export", "p", "--git", "repo", "--branch", "agents",
    ]);
    assert_eq!(git(&source, &["rev-parse", "agents"]), head);
}

#[test]
fn forks_are_private_and_catch_up() {
    let (place, source) = with_project();
    let fork = json(&place, &["fork", "p", "--agent", "ada", "--priority", "-3"]);
    for (field, value) in [
        ("id", json!("ada")),
        ("project", json!("p")),
        ("materialized", json!(true)),
        ("priority", json!(-3)),
    ] {
        assert_eq!(fork[field], value, "{field}");
    }
    let path = PathBuf::from(fork["path"].as_str().unwrap());
    assert_eq!(dir_image(&path), dir_image(&source));
    let head = json(&place, &["project", "show", "p"])["head"].clone();
    assert_eq!(fork["base_snapshot"], head);
    assert!(fork["provider"].is_string() && fork["created_at"].is_string());

    let second = place.done(&["fork", "p", "--agent", "ada"]).stdout;
    assert!(second.trim_end().ends_with("/ada~2"), "{second}");
    let many = json(&place, &["fork", "p", "--count", "3"]);
    assert_eq!(many["workspaces"].as_array().unwrap().len(), 3);
    let copied = json(&place, &["fork", "p", "--provider", "copy"]);
    assert_eq!(copied["provider"], "copy");
    let mut command = place.command(&["--json", "fork", "p"]);
    let output = command.env("OFFSHOOT_PROVIDER", "copy").output().unwrap();
    let copied: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(copied["provider"], "copy");

    write(&path, "src/new.rs", "new\n");
    write(&path, "README", "changed here\n");
    put(&place, "docs/guide", "guide\n");
    let status = place.done(&["status", "ada"]);
    assert_eq!(status.stdout, "M  README\nA  src/new.rs\n");
    assert!(
        status.stderr.contains("`p` is 1 snapshot ahead"),
        "{}",
        status.stderr
    );
    assert!(
        status.stderr.contains("offshoot update ada"),
        "{}",
        status.stderr
    );
    let document = json(&place, &["status", "ada"]);
    assert_eq!(document["base"], head);
    assert_eq!(document["base_moved"]["snapshots"], 1);

    let planned = json(&place, &["update", "ada", "--dry-run"]);
    assert_eq!(
        (&planned["dry_run"], &planned["conflicts"]),
        (&json!(true), &json!([]))
    );
    assert!(!path.join("docs/guide").exists());
    let updated = place.done(&["update", "ada"]).stdout;
    assert!(updated.contains("moved `ada`"), "{updated}");
    assert_eq!(
        fs::read_to_string(path.join("docs/guide")).unwrap(),
        "guide\n"
    );
    assert_eq!(
        fs::read_to_string(path.join("README")).unwrap(),
        "changed here\n"
    );
    let nothing = place.done(&["update", "ada"]);
    assert!(
        nothing.stderr.contains("newest snapshot"),
        "{}",
        nothing.stderr
    );

    put(&place, "README", "changed there\n");
    let status = place.done(&["status", "ada"]);
    assert!(
        status.stderr.contains("both changed README"),
        "{}",
        status.stderr
    );
    let planned = place.run(&["update", "ada", "--dry-run"]);
    assert_eq!(planned.code, 3, "{}", planned.golden());
    assert!(
        planned.stdout.contains("would move `ada`"),
        "{}",
        planned.stdout
    );
    let read = || fs::read_to_string(path.join("README")).unwrap();
    assert_eq!(read(), "changed here\n");
    let updated = place.run(&["--json", "update", "ada"]);
    assert_eq!(updated.code, 3, "{}", updated.golden());
    let updated = updated.json();
    let review = updated["conflicts"][0]["review_id"].as_str().unwrap();
    assert_eq!(read(), "changed there\n");
    let shown = place.done(&["review", "show", review]).stdout;
    assert!(shown.contains("an update of `ada`"), "{shown}");
    let resolved = place.done(&["review", "resolve", review, "theirs"]).stdout;
    assert!(resolved.contains("resolved in `ada`"), "{resolved}");
    assert_eq!(read(), "changed here\n");
    assert_eq!(place.done(&["check"]).code, 0);
}

#[test]
fn a_mount_that_is_gone_comes_back_with_the_path() {
    let (place, source) = with_project();
    let fork = json(&place, &["fork", "p", "--agent", "ada"]);
    if fork["provider"] != "overlay" {
        return skip("only overlays are mounts, and none can be made here");
    }
    let path = PathBuf::from(fork["path"].as_str().unwrap());
    write(&path, "new", "new\n");
    let unmounted = std::process::Command::new("umount").arg(&path).status();
    assert!(unmounted.unwrap().success());
    assert!(
        fs::write(path.join("lost"), "lost").is_err(),
        "a write must fail"
    );
    let shown = place.done(&["workspace", "path", "ada"]).stdout;
    assert_eq!(Path::new(shown.trim_end()), path);
    fs::remove_file(path.join("new")).unwrap();
    assert_eq!(dir_image(&path), dir_image(&source));
}

#[test]
fn doctor_names_every_provider() {
    let place = Place::new();
    let report = json(&place, &["doctor"]);
    let providers = report["providers"].as_array().unwrap();
    let names: Vec<&str> = providers
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["overlay", "reflink", "copy"]);
    let used = providers.iter().filter(|one| one["used"] == true).count();
    assert_eq!(used, 1);
    for one in providers {
        assert_eq!(one["works"] == false, one["advice"].is_string(), "{one}");
    }
    let text = place.done(&["doctor"]).stdout;
    assert!(
        text.contains("large files") && text.contains("fork copy"),
        "{text}"
    );
    assert!(!place.data().exists(), "a look makes nothing");
    let mut command = place.command(&["--json", "doctor"]);
    let output = command.env("OFFSHOOT_PROVIDER", "magic").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_import_that_is_killed_leaves_the_whole_project_or_none() {
    let place = Place::new();
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    make_tree(&source, &TreeSpec::source_code(600), 11);
    let mut rng = Rng::new(5);
    let (mut killed, mut whole) = (0, 0);
    for round in 0..if soak() { 200 } else { 12 } {
        let name = format!("p{round}");
        let mut command = place.command(&["project", "create", &name, "--from", "source"]);
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        let mut process = Process::spawn(&mut command);
        let limit = Duration::from_micros(rng.below(300_000) as u64);
        let status = process.wait_at_most(limit).unwrap_or_else(|| {
            killed += 1;
            process.kill_hard()
        });
        let there = place.run(&["--json", "project", "show", &name]);
        assert!(there.code == 0 || !status.success(), "{}", there.golden());
        if there.code == 0 {
            whole += 1;
            assert_eq!(there.json()["file_count"], 600);
        }
    }
    assert!(killed > 0, "nothing was killed");
    let projects = json(&place, &["project", "list"]);
    assert_eq!(projects["projects"].as_array().unwrap().len(), whole);
    place.done(&["check"]);
    place.done(&["project", "create", "last", "--from", "source"]);
    let fork = json(&place, &["fork", "last"]);
    let path = PathBuf::from(fork["path"].as_str().unwrap());
    assert_eq!(dir_image(&path), dir_image(&source));
    place.done(&["check"]);
}
