//! Purging content that projects, forks, layers and merges hold.

use std::fs;
use std::path::Path;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ErrorCode, ObjectKind};
use offshoot_engine::CompleteOptions;
use offshoot_fs::ProviderName;
use offshoot_testkit::{git, git_with_input, skip};

const SECRET: &str = "the secret that nobody may find\n";

/// Files below a directory that contain the secret as plain text.
fn holders(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).unwrap();
                if bytes
                    .windows(SECRET.len())
                    .any(|part| part == SECRET.as_bytes())
                {
                    found.push(entry.path().display().to_string());
                }
            }
        }
    }
    found
}

#[test]
fn purged_content_is_in_no_layer_and_forks_and_merges_go_on() {
    with_each(|mut test| {
        let project = test.project("web");
        test.put(&project, "token", SECRET);
        // A later version hides it in the head, but a layer below still has it.
        test.put(&project, "other", SECRET);
        test.put(&project, "other", "harmless\n");
        let (old, old_path) = test.fork(&project, "old");
        fs::write(old_path.join("mine"), "mine\n").unwrap();
        fs::create_dir(old_path.join("target")).unwrap();
        fs::write(old_path.join("target/built"), "ignored\n").unwrap();
        let (merged, merged_path) = test.fork(&project, "merged");
        fs::write(merged_path.join("work"), "work\n").unwrap();
        let receipt = test
            .engine
            .merges
            .complete(&merged, &CompleteOptions::default(), &user())
            .unwrap();
        test.engine.context.wait_for_jobs();
        let data = test.host.path().join("data");
        assert!(
            !holders(&data.join("layers")).is_empty(),
            "the test tests nothing"
        );

        if test.provider == ProviderName::Overlay {
            let held = fs::File::open(old_path.join("README")).unwrap();
            let id = offshoot_git::hash(ObjectKind::Blob, SECRET.as_bytes()).unwrap();
            let busy = test.engine.upkeep.purge_content(id, &user()).unwrap_err();
            assert_eq!(busy.code(), ErrorCode::WorkspaceBusy);
            drop(held);
            assert_eq!(fs::read_to_string(old_path.join("token")).unwrap(), SECRET);
        }
        let id = offshoot_git::hash(ObjectKind::Blob, SECRET.as_bytes()).unwrap();
        let purged = test.engine.upkeep.purge_content(id, &user()).unwrap();
        assert!(!purged.snapshots.is_empty());
        assert_eq!(holders(&data), Vec::<String>::new());
        // The fork is at its path again, with its changes and its ignored files.
        let read = |name: &str| fs::read_to_string(old_path.join(name)).unwrap();
        assert!(read("token").contains("purged"));
        assert_eq!(
            (read("mine"), read("target/built")),
            ("mine\n".into(), "ignored\n".into())
        );
        let changes = test.changes(&old);
        assert_eq!(changes.len(), 1, "{changes:?}");
        // A restart must not take a project for a workspace whose directory is behind.
        test.reopen();
        test.check();
        let log = test.engine.merges.list_merges(&project, None, 0).unwrap();
        let snapshot = log[0].completed.snapshot.unwrap();
        assert_ne!(
            Some(snapshot),
            receipt.snapshot,
            "its snapshot was written anew"
        );
        let known = test
            .engine
            .projects
            .project_snapshots(&project, None, 0)
            .unwrap();
        assert!(known.iter().any(|one| one.id == snapshot));
        let done = test
            .engine
            .merges
            .complete(&old, &CompleteOptions::default(), &user())
            .unwrap();
        assert_eq!(done.merged, [p("mine")]);
        assert!(test.project_text(&project, "token").contains("purged"));
        test.check();
    });
}

#[test]
fn a_purge_reaches_every_parent_of_an_imported_history() {
    let test = TestEngine::new(ProviderName::Copy);
    let source = test.host.path().join("source");
    fs::create_dir(&source).unwrap();
    let run = |args: &[&str]| git(&source, args);
    if std::process::Command::new("git")
        .arg("--version")
        .output()
        .is_err()
    {
        return skip("git is not installed");
    }
    run(&["init", "-q", "-b", "main"]);
    fs::write(source.join("a"), "a\n").unwrap();
    run(&["add", "-A"]);
    run(&["commit", "-q", "-m", "one"]);
    run(&["checkout", "-q", "-b", "side"]);
    fs::write(source.join("token"), SECRET).unwrap();
    run(&["add", "-A"]);
    run(&["commit", "-q", "-m", "leak"]);
    run(&["rm", "-q", "token"]);
    run(&["commit", "-q", "-m", "no leak"]);
    run(&["checkout", "-q", "main"]);
    fs::write(source.join("b"), "b\n").unwrap();
    run(&["add", "-A"]);
    run(&["commit", "-q", "-m", "two"]);
    run(&["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    let project = "imported".parse().unwrap();
    test.engine
        .projects
        .import_git(&project, &source, &mut |_| {}, &user())
        .unwrap();
    let id = offshoot_git::hash(ObjectKind::Blob, SECRET.as_bytes()).unwrap();
    test.engine.upkeep.purge_content(id, &user()).unwrap();
    let out = test.host.path().join("out.git");
    test.engine
        .workspaces
        .export_project_git(&project, &out, None, &mut |_| {})
        .unwrap();
    git(&out, &["fsck", "--strict"]);
    let parents = git(&out, &["log", "-1", "--format=%P", "main"]);
    assert_eq!(
        parents.split_whitespace().count(),
        2,
        "the merge has both parents"
    );
    let objects = git(&out, &["rev-list", "--objects", "--all"]);
    assert!(!objects.contains(&id.to_hex()));
    test.check();
}

/// Ids in stored JSON are replaced as values: a message id that looks like a content id stays.
#[test]
fn purging_changes_ids_and_no_other_text() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("web");
    test.put(&project, "token", "first\n");
    let id = offshoot_git::hash(ObjectKind::Blob, SECRET.as_bytes()).unwrap();
    let cause = offshoot_core::Cause {
        message_id: Some(id.to_hex()),
        ..user()
    };
    let (ada, path) = test.fork(&project, "ada");
    fs::write(path.join("token"), SECRET).unwrap();
    let (bob, path) = test.fork(&project, "bob");
    fs::write(path.join("token"), "bob's\n").unwrap();
    let options = CompleteOptions {
        policy: Some(offshoot_engine::Policy::Theirs),
        ..CompleteOptions::default()
    };
    let landed = test.engine.merges.complete(&ada, &options, &cause).unwrap();
    let decided = test
        .engine
        .merges
        .complete(&bob, &options, &user())
        .unwrap();
    assert_eq!(decided.decided[0].lost, Some(id));
    assert_eq!(decided.decided[0].lost_message_id, Some(id.to_hex()));
    let (cyd, _) = test.fork(&project, "cyd");
    let content = offshoot_engine::Content::Bytes(SECRET.as_bytes());
    let write = offshoot_engine::WriteOptions::default();
    let written = test
        .engine
        .workspaces
        .write_file(&cyd, &p("token"), content, &write, &cause);
    written.unwrap();
    test.put(&project, "token", "the owner's\n");
    let waits = CompleteOptions::default();
    let waits = test.engine.merges.complete(&cyd, &waits, &cause).unwrap();
    let purged = test.engine.upkeep.purge_content(id, &user()).unwrap();
    let now = |old| {
        let mut pairs = purged.snapshots.iter();
        let found = pairs.find(|(before, _)| Some(*before) == old);
        found.map(|(_, after)| *after)
    };
    let merge = |done: &offshoot_engine::Completed| {
        let id = done.merge_id.as_deref().unwrap();
        test.engine.merges.receipt(id).unwrap().completed
    };
    // The snapshots that held it have other ids, also in the receipt.
    let after = merge(&landed);
    assert!(after.snapshot.is_some() && after.snapshot == now(landed.snapshot));
    assert!(after.theirs.is_some() && after.theirs == now(landed.theirs));
    let after = merge(&decided);
    let lost = after.decided[0].lost.unwrap();
    assert!(
        lost != id
            && test
                .engine
                .workspaces
                .content_of(&lost)
                .unwrap()
                .starts_with(b"This content")
    );
    assert_eq!(after.decided[0].lost_message_id, Some(id.to_hex()));
    let review = waits.conflicts[0].review_id.clone().unwrap();
    let review = test.engine.merges.review(&review).unwrap();
    let by = review.theirs_by.unwrap();
    assert_eq!(by.message_id, Some(id.to_hex()), "{by:?}");
    test.engine
        .merges
        .resolve(&review.id, offshoot_engine::Resolution::Theirs, &user())
        .unwrap();
    test.check();
}

/// Commits that came from elsewhere can claim to be snapshots with a sidecar. What they name there is
/// not believed: one such commit must not stop the upkeep of the whole data directory.
#[test]
fn a_forged_sidecar_stops_neither_the_collector_nor_a_purge() {
    for forged in ["a commit", "a missing id", "a file", "a tree", "no id"] {
        let test = TestEngine::best();
        let source = test.source("repository");
        git(&source, &["init", "-q"]);
        fs::write(source.join("token"), SECRET).unwrap();
        fs::write(source.join("large"), "kept\n").unwrap();
        git(&source, &["add", "-A"]);
        git(&source, &["commit", "-q", "-m", "first"]);
        let named = match forged {
            "a commit" => git(&source, &["rev-parse", "HEAD"]),
            "a missing id" => "0123456789012345678901234567890123456789".to_owned(),
            "a file" => git(&source, &["rev-parse", "HEAD:large"]),
            "a tree" => git(&source, &["rev-parse", "HEAD^{tree}"]),
            _ => "nothing".to_owned(),
        };
        git(&source, &["commit", "-q", "--allow-empty", "-m", "second"]);
        let text = git(&source, &["cat-file", "commit", "HEAD"]);
        let text = text.replacen("\n\n", &format!("\noffshoot-sidecar {named}\n\n"), 1) + "\n";
        let args = ["hash-object", "-t", "commit", "-w", "--stdin"];
        let id = git_with_input(&source, &args, text.as_bytes());
        let id = String::from_utf8(id).unwrap();
        git(&source, &["reset", "-q", "--hard", id.trim()]);
        test.import_git("p", &source).unwrap();
        let upkeep = &test.engine.upkeep;
        let collect = || upkeep.collect_garbage(std::time::Duration::ZERO);
        collect().unwrap_or_else(|error| panic!("{forged}: {error}"));
        let secret = offshoot_git::hash(ObjectKind::Blob, SECRET.as_bytes()).unwrap();
        let purged = upkeep.purge_content(secret, &user());
        let purged = purged.unwrap_or_else(|error| panic!("{forged}: {error}"));
        assert_eq!(purged.snapshots.len(), 2, "{forged}");
        collect().unwrap_or_else(|error| panic!("{forged}: {error}"));
        let project = "p".parse().unwrap();
        assert!(test.project_text(&project, "token").contains("purged"));
        assert_eq!(test.project_text(&project, "large"), "kept\n");
        test.check();
    }
}
