//! Git repositories: commits become snapshots with their ids, and are exported as the same history.

use std::fs;
use std::path::{Path, PathBuf};

use offshoot_core::ErrorCode;
use offshoot_engine::{Content, WriteOptions};
use offshoot_testkit::{TreeSpec, git, make_tree};

use super::sources::{commit_all, dropped, id, write};
use crate::fixture::{TestEngine, p, user};

/// A repository with merges, deletions, a submodule, links and commits without a change.
fn repository(test: &TestEngine) -> PathBuf {
    let source = test.source("repository");
    git(&source, &["init", "-q"]);
    make_tree(&source, &TreeSpec::nasty(60), 3);
    commit_all(&source, "First line\n\nand a body that is no label");
    git(&source, &["checkout", "-q", "-b", "side"]);
    write(&source, "side/file", "from the side\n");
    commit_all(&source, "side work");
    git(&source, &["checkout", "-q", "main"]);
    write(&source, "docs/readme", "main work\n");
    fs::write(source.join("large"), "line\n".repeat(400_000)).unwrap();
    commit_all(&source, "main work");
    git(
        &source,
        &["merge", "-q", "--no-ff", "-m", "merge side", "side"],
    );
    let other = "160000,0123456789012345678901234567890123456789,modules/other";
    git(&source, &["update-index", "--add", "--cacheinfo", other]);
    git(&source, &["commit", "-q", "-m", "a submodule"]);
    fs::create_dir_all(source.join("modules/other")).unwrap();
    git(&source, &["rm", "-q", "side/file"]);
    git(&source, &["commit", "-q", "-m", "remove it"]);
    source
}

#[test]
fn commits_become_snapshots_with_the_ids_of_git_and_the_export_is_the_same_history() {
    let test = TestEngine::best();
    let source = repository(&test);
    // Some objects are packed, some are loose; uncommitted changes are not imported.
    git(&source, &["gc", "-q"]);
    git(&source, &["commit", "-q", "--allow-empty", "-m", "loose"]);
    write(&source, "not-committed", "no\n");
    let imported = test.import_git("p", &source).unwrap();
    let log = |repository: &Path, more: &[&str]| {
        let mut args = vec!["log", "--format=%H %T %ct %an %s"];
        args.extend(more);
        git(repository, &args)
    };
    let snapshots = test
        .engine
        .projects
        .project_snapshots(&id("p"), None, 0)
        .unwrap();
    let ours: Vec<String> = snapshots
        .iter()
        .map(|one| {
            format!(
                "{} {} {} {} {}",
                one.id,
                one.tree,
                one.at.seconds(),
                one.cause.claim.as_deref().unwrap_or_default(),
                one.label.as_deref().unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(ours.join("\n"), log(&source, &["--first-parent"]));
    assert_eq!(imported.snapshots, snapshots.len());
    assert_eq!(
        imported.project.landing,
        test.engine.projects.project(&id("p")).unwrap().landing
    );
    assert_eq!(format!("{:?}", imported.project.landing), "Atomic");
    assert_eq!(
        dropped(&imported.dropped),
        [(
            "modules/other".to_owned(),
            "submodule, taken as an empty directory"
        )]
    );
    // The counters of every snapshot fit what git lists.
    for one in &snapshots {
        let listed = git(&source, &["ls-tree", "-r", "-z", "-l", &one.id.to_hex()]);
        let listed = listed
            .split_terminator('\0')
            .filter(|line| !line.starts_with("160000"));
        let sizes = listed.map(|line| {
            let (fields, _) = line.split_once('\t').unwrap();
            fields
                .split_whitespace()
                .nth(3)
                .unwrap()
                .parse::<i64>()
                .unwrap()
        });
        let (files, bytes) = sizes.fold((0, 0), |(n, sum), size| (n + 1, sum + size));
        assert_eq!((one.files, one.bytes), (files, bytes));
    }
    let fork = test.fork_path("p");
    assert!(fork.join("modules/other").is_dir() && !fork.join("not-committed").exists());
    test.check();

    let target = test.host.path().join("export.git");
    test.export("p", None, &target).unwrap();
    git(&target, &["fsck", "--strict"]);
    assert_eq!(log(&target, &[]), log(&source, &[]));
    git(test.host.path(), &["clone", "-q", "export.git", "clone"]);
    assert_eq!(
        git(&test.host.path().join("clone"), &["status", "--porcelain"]),
        ""
    );
    // An edit of a person continues from git's own commit, and nothing of the history is collected.
    let content = Content::Bytes(b"edited\n");
    let edited = test
        .engine
        .projects
        .put_in_project(
            &id("p"),
            &p("a b"),
            content,
            &WriteOptions::default(),
            &user(),
        )
        .unwrap();
    test.engine
        .upkeep
        .collect_garbage(std::time::Duration::ZERO)
        .unwrap();
    test.export("p", None, &target).unwrap();
    git(&target, &["fsck", "--strict"]);
    assert_eq!(git(&target, &["rev-parse", "main"]), edited.id.to_hex());
    let parent = git(&target, &["rev-parse", "main^"]);
    assert_eq!(parent, imported.snapshot.id.to_hex());
    test.check();
}

#[test]
fn a_branch_of_an_existing_repository_moves_forward_only() {
    let test = TestEngine::best();
    let source = repository(&test);
    test.import_git("p", &source).unwrap();
    let head = git(&source, &["rev-parse", "main"]);
    let put = |path: &str| {
        let options = WriteOptions::default();
        let content = Content::Bytes(b"by offshoot\n");
        let made =
            test.engine
                .projects
                .put_in_project(&id("p"), &p(path), content, &options, &user());
        made.unwrap().id.to_hex()
    };
    let first = put("one");
    // The branch that is checked out stays as it is.
    let refused = test.export("p", Some("main"), &source).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::AlreadyExists, "{refused}");
    assert_eq!(git(&source, &["rev-parse", "main"]), head);

    test.export("p", Some("work/offshoot"), &source).unwrap();
    assert_eq!(git(&source, &["rev-parse", "work/offshoot"]), first);
    git(&source, &["fsck", "--strict"]);
    git(&source, &["pack-refs", "--all"]);
    let second = put("two");
    test.export("p", Some("work/offshoot"), &source).unwrap();
    test.export("p", Some("refs/heads/work/offshoot"), &source)
        .unwrap();
    assert_eq!(git(&source, &["rev-parse", "work/offshoot"]), second);
    // Only new commits were added.
    let log = git(&source, &["log", "--format=%H", "main..work/offshoot"]);
    assert_eq!(log, format!("{second}\n{first}"));
    git(&source, &["checkout", "-q", "main"]);
    git(&source, &["merge", "-q", "--ff-only", "work/offshoot"]);
    assert_eq!(git(&source, &["status", "--porcelain", "-uno"]), "");

    let theirs = git(
        &source,
        &["commit-tree", "-p", &second, "-m", "theirs", "main^{tree}"],
    );
    git(
        &source,
        &["update-ref", "refs/heads/work/offshoot", &theirs],
    );
    put("three");
    let refused = test
        .export("p", Some("work/offshoot"), &source)
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PreconditionFailed, "{refused}");
    assert_eq!(git(&source, &["rev-parse", "work/offshoot"]), theirs);
    for bad in ["work", "work/offshoot/x", "../x", "a..b", "", "x.lock"] {
        assert!(test.export("p", Some(bad), &source).is_err(), "{bad}");
    }
    let plain = test.source("plain");
    let refused = test.export("p", Some("main"), &plain).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    git(&source, &["fsck", "--strict"]);
}

#[test]
fn a_shallow_repository_is_taken_as_far_as_it_goes() {
    let test = TestEngine::best();
    let source = repository(&test);
    let url = format!("file://{}", source.display());
    git(
        test.host.path(),
        &[
            "clone",
            "-q",
            "--depth",
            "2",
            "--no-checkout",
            &url,
            "shallow",
        ],
    );
    let shallow = test.host.path().join("shallow");
    let imported = test.import_git("p", &shallow).unwrap();
    assert_eq!(imported.snapshots, 2);
    test.check();
    test.engine
        .upkeep
        .collect_garbage(std::time::Duration::ZERO)
        .unwrap();
    let target = test.host.path().join("export.git");
    test.export("p", None, &target).unwrap();
    git(&target, &["fsck", "--strict"]);
    assert_eq!(
        git(&target, &["log", "--format=%H"]),
        git(&shallow, &["log", "--format=%H"])
    );
    // A repository that has the first commits accepts the branch.
    test.export("p", Some("back"), &source).unwrap();
    let empty = test.source("other");
    git(&empty, &["init", "-q"]);
    let refused = test.export("p", Some("back"), &empty).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unsupported, "{refused}");
    test.check();
}

#[test]
fn an_export_that_is_imported_again_has_the_same_ids() {
    let test = TestEngine::best();
    let source = test.source("source");
    write(&source, "a", "a\n");
    fs::create_dir(source.join("empty")).unwrap();
    let first = test.import("p", &source).unwrap();
    let target = test.host.path().join("export.git");
    test.export("p", None, &target).unwrap();
    let again = test.import_git("q", &target).unwrap();
    assert_eq!(again.snapshot.id, first.snapshot.id);
    test.check();
    let elsewhere = TestEngine::best();
    let there = elsewhere.import_git("p", &target).unwrap();
    assert_eq!(there.snapshot.id, first.snapshot.id);
    elsewhere
        .engine
        .upkeep
        .collect_garbage(std::time::Duration::ZERO)
        .unwrap();
    elsewhere.check();
}

#[test]
fn forged_repositories_are_refused() {
    let test = TestEngine::best();
    for (number, name) in [".git", "..", ".", ".GIT"].into_iter().enumerate() {
        let source = test.source(&format!("forged{number}"));
        git(&source, &["init", "-q"]);
        write(&source, "evil", "evil\n");
        let blob = git(&source, &["hash-object", "-w", "evil"]);
        let mut bytes = format!("100644 {name}\0").into_bytes();
        let hex = |at: usize| u8::from_str_radix(&blob[at..at + 2], 16).unwrap();
        bytes.extend((0..40).step_by(2).map(hex));
        fs::write(source.join("tree"), bytes).unwrap();
        let tree = git(
            &source,
            &["hash-object", "-w", "-t", "tree", "--literally", "tree"],
        );
        let commit = git(&source, &["commit-tree", "-m", "forged", &tree]);
        git(&source, &["update-ref", "HEAD", &commit]);
        let error = test.import_git("p", &source).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidRequest, "{error}");
    }
    let source = repository(&test);
    // An object that is missing, as after a disk error, and one whose content does not fit its id.
    write(&source, "lost", "lost\n");
    commit_all(&source, "lost");
    let blob = git(&source, &["rev-parse", "HEAD:lost"]);
    let (first, rest) = blob.split_at(2);
    let place = source.join(".git/objects").join(first).join(rest);
    let other = git(&source, &["rev-parse", "HEAD^{tree}"]);
    let (first, rest) = other.split_at(2);
    let other = source.join(".git/objects").join(first).join(rest);
    fs::remove_file(&place).unwrap();
    for _ in 0..2 {
        let error = test.import_git("p", &source).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
        fs::copy(&other, &place).unwrap();
    }
    assert!(
        test.engine
            .projects
            .list_projects(None, 0)
            .unwrap()
            .is_empty()
    );
    test.check();
}
