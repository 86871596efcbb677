//! Projects from elsewhere, with git as the oracle: trees and commits have its ids, what is exported
//! is what was imported, and nothing is left of what fails.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use offshoot_core::{Cause, Error, ErrorCode, FaultPlan, Operator, ProjectId, RelPath};
use offshoot_engine::{
    Content, Engine, EngineOptions, ForkOptions, ImportOptions, Imported, ProjectSynced,
    WriteOptions,
};
use offshoot_testkit::{HostDir, TreeSpec, dir_image, git, is_root, make_tree, skip};

struct Bed {
    engine: Engine,
    host: HostDir,
}

impl Bed {
    fn new() -> Bed {
        let host = HostDir::new();
        let engine = Engine::open(EngineOptions::new(host.path().join("data"))).unwrap();
        Bed { engine, host }
    }

    /// An empty directory for a source.
    fn source(&self, name: &str) -> PathBuf {
        let path = self.host.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    }

    fn import(&self, name: &str, source: &Path) -> Result<Imported, Error> {
        self.import_with(name, source, &ImportOptions::default())
    }

    fn import_with(
        &self,
        name: &str,
        source: &Path,
        options: &ImportOptions,
    ) -> Result<Imported, Error> {
        self.engine
            .import_dir(&id(name), source, options, &mut |_| {}, &user())
    }

    fn import_git(&self, name: &str, source: &Path) -> Result<Imported, Error> {
        self.engine
            .import_git(&id(name), source, &mut |_| {}, &user())
    }

    fn sync(&self, name: &str, source: &Path, options: &ImportOptions) -> ProjectSynced {
        self.engine
            .sync_project_from(&id(name), source, options, &mut |_| {}, &user())
            .unwrap()
    }

    fn export(&self, name: &str, branch: Option<&str>, target: &Path) -> Result<(), Error> {
        self.engine
            .export_project_git(&id(name), target, branch, &mut |_| {})
            .map(drop)
    }

    fn fork(&self, name: &str) -> PathBuf {
        let options = ForkOptions::default();
        self.engine
            .fork_out(&id(name), &options, &user())
            .unwrap()
            .1
    }

    /// Everything that the head of a project holds, as text.
    fn paths(&self, name: &str) -> Vec<String> {
        self.engine
            .project_entries(&id(name), None, &RelPath::root(), true)
            .unwrap()
            .iter()
            .map(|entry| entry.path.to_text())
            .collect()
    }

    fn prove(&self) {
        self.engine.wait_for_upkeep();
        let report = self.engine.check().unwrap();
        assert_eq!(report.problems, []);
    }
}

fn id(name: &str) -> ProjectId {
    name.parse().unwrap()
}

fn p(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

fn user() -> Cause {
    Cause::by(Operator::user())
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn commit_all(repository: &Path, message: &str) -> String {
    git(repository, &["add", "-A"]);
    git(
        repository,
        &["commit", "-q", "--allow-empty", "-m", message],
    );
    git(repository, &["rev-parse", "HEAD"])
}

fn dropped(imported: &[(RelPath, String)]) -> Vec<(String, &str)> {
    imported
        .iter()
        .map(|(path, why)| (path.to_text(), why.as_str()))
        .collect()
}

#[test]
fn a_directory_gets_the_tree_id_of_git_and_forks_give_it_back() {
    let bed = Bed::new();
    let source = bed.source("source");
    make_tree(&source, &TreeSpec::nasty(300), 7);
    write(&source, "large", &"0123456789abcdef".repeat(100_000));
    fs::create_dir_all(source.join("empty/inner")).unwrap();
    fs::create_dir(source.join("private")).unwrap();
    chmod(&source.join("private"), 0o700);
    write(&source, "secret", "bits\n");
    chmod(&source.join("secret"), 0o600);
    let oracle = bed.host.path().join("oracle.git");
    git(bed.host.path(), &["init", "-q", "--bare", "oracle.git"]);
    let worktree = format!("--work-tree={}", source.display());
    let with = |args: &[&str]| {
        let mut all = vec!["--git-dir=.", worktree.as_str()];
        all.extend(args);
        git(&oracle, &all)
    };
    with(&["add", "-A"]);
    let tree = with(&["write-tree"]);

    let mut told = Vec::new();
    let imported = bed
        .engine
        .import_dir(
            &id("p"),
            &source,
            &ImportOptions::default(),
            &mut |progress| told.push(progress),
            &user(),
        )
        .unwrap();
    assert_eq!(imported.snapshot.tree.to_hex(), tree);
    assert_eq!(imported.snapshot.label.as_deref(), Some("Import"));
    assert_eq!((imported.dropped, imported.unsettled), (vec![], vec![]));
    assert_eq!(imported.project.head, Some(imported.snapshot.id));
    assert!(told.iter().any(|one| one.done > 0 && one.done == one.total));
    let fork = bed.fork("p");
    assert_eq!(dir_image(&fork), dir_image(&source));
    bed.prove();
}

#[test]
fn the_first_fork_finds_its_layer() {
    let bed = Bed::new();
    let source = bed.source("source");
    write(&source, "a", "a\n");
    bed.import("p", &source).unwrap();
    let layers = || {
        fs::read_dir(bed.host.path().join("data/layers"))
            .unwrap()
            .count()
    };
    let before = layers();
    assert!(before > 0, "the import makes the layer");
    bed.fork("p");
    assert_eq!(layers(), before);
}

#[test]
fn what_a_project_must_not_hold_is_dropped_and_reported() {
    if !is_root() {
        return skip("devices and trusted attributes need root");
    }
    let bed = Bed::new();
    let source = bed.source("source");
    let outside = bed.source("outside");
    write(&outside, "secret", "not yours\n");
    write(&source, "plain", "plain\n");
    write(&source, "setuid", "#!/bin/sh\n");
    chmod(&source.join("setuid"), 0o4755);
    fs::create_dir(source.join("setgid")).unwrap();
    chmod(&source.join("setgid"), 0o2755);
    let _socket = UnixListener::bind(source.join("socket")).unwrap();
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program)
            .current_dir(&source)
            .args(args)
            .status();
        assert!(status.unwrap().success(), "{program} {args:?}");
    };
    run("mkfifo", &["fifo"]);
    run("mknod", &["whiteout", "c", "0", "0"]);
    run("mknod", &["disk", "b", "7", "99"]);
    symlink(&outside, source.join("link-out")).unwrap();
    symlink("../outside/secret", source.join("link-up")).unwrap();
    fs::create_dir(source.join("opaque")).unwrap();
    let xattr = |path: &str, name: &std::ffi::CStr| {
        let file = fs::File::open(source.join(path)).unwrap();
        offshoot_sys::set_xattr(&file, name, b"y").unwrap();
    };
    xattr("opaque", c"trusted.overlay.opaque");
    xattr("plain", c"user.overlay.whiteout");
    xattr("plain", c"user.harmless");

    let imported = bed.import("p", &source).unwrap();
    assert_eq!(
        dropped(&imported.dropped),
        [
            ("disk".to_owned(), "block device"),
            ("fifo".to_owned(), "FIFO"),
            ("opaque".to_owned(), "attribute `trusted.overlay.opaque`"),
            ("plain".to_owned(), "attribute `user.overlay.whiteout`"),
            ("setgid".to_owned(), "set-id bit"),
            ("setuid".to_owned(), "set-id bit"),
            ("socket".to_owned(), "socket"),
            ("whiteout".to_owned(), "character device"),
        ]
    );
    assert_eq!(
        bed.paths("p"),
        ["link-out", "link-up", "opaque", "plain", "setgid", "setuid"]
    );
    let fork = bed.fork("p");
    let mode = |path: &str| fs::metadata(fork.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("setuid"), mode("setgid")), (0o755, 0o755));
    assert_eq!(fs::read_link(fork.join("link-out")).unwrap(), outside);
    bed.prove();
}

#[test]
fn ignore_rules_are_followed_on_request_and_worktreeinclude_takes_some_back() {
    let bed = Bed::new();
    let source = bed.source("source");
    for (path, content) in [
        (".gitignore", "*.log\n/build/\nnode_modules/\n.env*\n"),
        (".offshootignore", "scratch/\n"),
        (".worktreeinclude", ".env\n/build/keep/\n!.env.example\n"),
        ("src/main.rs", "fn main() {}\n"),
        ("src/debug.log", "noise\n"),
        ("src/.gitignore", "!wanted.log\n"),
        ("src/wanted.log", "wanted\n"),
        ("build/out.o", "object\n"),
        ("build/keep/deep/a", "kept\n"),
        ("build/other/b", "not kept\n"),
        ("node_modules/x/index.js", "x\n"),
        ("node_modules/x/.git/HEAD", "nested in what is ignored\n"),
        ("scratch/note", "note\n"),
        (".env", "KEY=1\n"),
        (".env.example", "KEY=\n"),
        ("service/.env", "KEY=2\n"),
        ("vendor/lib/.git/HEAD", "nested\n"),
        (".git/HEAD", "ours\n"),
    ] {
        write(&source, path, content);
    }
    let all = bed.import("all", &source).unwrap();
    assert_eq!(all.ignored, []);
    assert!(bed.paths("all").contains(&"build/other/b".to_owned()));
    assert!(!bed.paths("all").contains(&".git".to_owned()));

    let options = ImportOptions {
        ignore_rules: true,
        ..ImportOptions::default()
    };
    let some = bed.import_with("some", &source, &options).unwrap();
    assert_eq!(
        bed.paths("some"),
        [
            ".env",
            ".gitignore",
            ".offshootignore",
            ".worktreeinclude",
            "build",
            "build/keep",
            "build/keep/deep",
            "build/keep/deep/a",
            "service",
            "service/.env",
            "src",
            "src/.gitignore",
            "src/main.rs",
            "src/wanted.log",
            "vendor",
            "vendor/lib",
            "vendor/lib/.git",
            "vendor/lib/.git/HEAD",
        ]
    );
    let ignored: Vec<String> = some.ignored.iter().map(RelPath::to_text).collect();
    assert_eq!(
        ignored,
        [
            ".env.example",
            "build/other",
            "build/out.o",
            "node_modules",
            "scratch",
            "src/debug.log"
        ]
    );
    assert_eq!(some.dropped, []);

    // Without a file that takes some back, ignored directories are not even walked.
    fs::remove_file(source.join(".worktreeinclude")).unwrap();
    let fewer = bed.import_with("fewer", &source, &options).unwrap();
    assert!(!bed.paths("fewer").contains(&"build".to_owned()));
    assert!(fewer.ignored.contains(&p("build")));
    bed.prove();
}

#[test]
fn a_sync_brings_a_project_to_what_the_directory_holds() {
    let bed = Bed::new();
    let source = bed.source("source");
    for (path, content) in [
        ("same", "same\n"),
        ("changed", "before\n"),
        ("gone/a", "a\n"),
        ("gone/b", "b\n"),
        ("becomes-dir", "file\n"),
        ("becomes-file/x", "x\n"),
        ("mode", "mode\n"),
    ] {
        write(&source, path, content);
    }
    bed.import("p", &source).unwrap();
    let nothing = bed.sync("p", &source, &ImportOptions::default());
    assert_eq!(
        (
            nothing.created,
            nothing.synced,
            nothing.skipped,
            nothing.total
        ),
        (false, 0, 7, 7)
    );
    // A person's edit is overwritten: the directory is what counts.
    let content = Content::Bytes(b"edited\n");
    let options = WriteOptions::default();
    bed.engine
        .put_in_project(&id("p"), &p("extra"), content, &options, &user())
        .unwrap();

    write(&source, "changed", "after\n");
    fs::remove_dir_all(source.join("gone")).unwrap();
    fs::remove_file(source.join("becomes-dir")).unwrap();
    write(&source, "becomes-dir/inner", "inner\n");
    fs::remove_dir_all(source.join("becomes-file")).unwrap();
    write(&source, "becomes-file", "file\n");
    chmod(&source.join("mode"), 0o755);
    write(&source, "new/deep/file", "new\n");
    let synced = bed.sync("p", &source, &ImportOptions::default());
    assert!(synced.created);
    assert_eq!(
        (synced.synced, synced.skipped, synced.total, synced.removed),
        (5, 1, 6, 5)
    );
    assert_eq!(dir_image(&bed.fork("p")), dir_image(&source));
    assert_eq!(
        bed.engine
            .project_snapshots(&id("p"), None, 0)
            .unwrap()
            .len(),
        3
    );
    bed.prove();

    // A file that the project has is taken although it is ignored now; others are not.
    write(&source, ".gitignore", "same\nother\n");
    write(&source, "same", "changed\n");
    write(&source, "other", "other\n");
    let options = ImportOptions {
        ignore_rules: true,
        label: Some("by the rules".to_owned()),
    };
    let synced = bed.sync("p", &source, &options);
    assert_eq!((synced.synced, synced.removed), (2, 0));
    assert_eq!(synced.snapshot.label.as_deref(), Some("by the rules"));
    assert_eq!(synced.ignored, [p("other")]);

    fs::remove_dir_all(&source).unwrap();
    fs::create_dir(&source).unwrap();
    let refused = bed.engine.sync_project_from(
        &id("p"),
        &source,
        &ImportOptions::default(),
        &mut |_| {},
        &user(),
    );
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidRequest);
    bed.prove();
}

#[test]
fn wrong_sources_are_refused_and_leave_nothing() {
    let bed = Bed::new();
    let source = bed.source("source");
    let empty = bed.source("empty");
    write(&source, "a", "a\n");
    bed.import("taken", &source).unwrap();
    let missing = bed.host.path().join("missing");
    let inside = bed.host.path().join("data/workspaces");
    for (name, source, code, says) in [
        ("taken", &source, ErrorCode::AlreadyExists, "exists"),
        ("p", &missing, ErrorCode::FileNotFound, "does not exist"),
        (
            "p",
            &source.join("a"),
            ErrorCode::NotADirectory,
            "not a directory",
        ),
        (
            "p",
            &inside,
            ErrorCode::InvalidRequest,
            "inside the data directory",
        ),
        ("p", &empty, ErrorCode::InvalidRequest, "empty"),
    ] {
        let error = bed.import(name, source).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
    let plain = bed.source("plain");
    for (name, source, code, says) in [
        ("taken", &source, ErrorCode::AlreadyExists, "exists"),
        ("p", &missing, ErrorCode::FileNotFound, "does not exist"),
        (
            "p",
            &plain,
            ErrorCode::InvalidRequest,
            "not a git repository",
        ),
        (
            "p",
            &inside,
            ErrorCode::InvalidRequest,
            "inside the data directory",
        ),
    ] {
        let error = bed.import_git(name, source).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    git(&plain, &["init", "-q"]);
    let unborn = bed.import_git("p", &plain).unwrap_err();
    assert!(unborn.to_string().contains("no commit"), "{unborn}");
    assert_eq!(bed.engine.projects(None, 0).unwrap().len(), 1);
    bed.prove();
}

#[test]
fn the_data_directory_is_left_out_of_what_it_lies_in() {
    let bed = Bed::new();
    write(bed.host.path(), "a", "a\n");
    let imported = bed.import("p", bed.host.path()).unwrap();
    assert_eq!(
        dropped(&imported.dropped),
        [("data".to_owned(), "data directory of Offshoot")]
    );
    assert_eq!(bed.paths("p"), ["a"]);
    bed.prove();
}

/// A repository with merges, deletions, a submodule, links and commits without a change.
fn repository(bed: &Bed) -> PathBuf {
    let source = bed.source("repository");
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
    let bed = Bed::new();
    let source = repository(&bed);
    // Some packed, some loose; what is not committed does not come.
    git(&source, &["gc", "-q"]);
    git(&source, &["commit", "-q", "--allow-empty", "-m", "loose"]);
    write(&source, "not-committed", "no\n");
    let imported = bed.import_git("p", &source).unwrap();
    let log = |repository: &Path, more: &[&str]| {
        let mut args = vec!["log", "--format=%H %T %ct %an %s"];
        args.extend(more);
        git(repository, &args)
    };
    let snapshots = bed.engine.project_snapshots(&id("p"), None, 0).unwrap();
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
        bed.engine.project(&id("p")).unwrap().landing
    );
    assert_eq!(format!("{:?}", imported.project.landing), "Atomic");
    assert_eq!(
        dropped(&imported.dropped),
        [(
            "modules/other".to_owned(),
            "submodule, taken as an empty directory"
        )]
    );
    // Every snapshot counts what git lists.
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
    let fork = bed.fork("p");
    assert!(fork.join("modules/other").is_dir() && !fork.join("not-committed").exists());
    bed.prove();

    let target = bed.host.path().join("export.git");
    bed.export("p", None, &target).unwrap();
    git(&target, &["fsck", "--strict"]);
    assert_eq!(log(&target, &[]), log(&source, &[]));
    git(bed.host.path(), &["clone", "-q", "export.git", "clone"]);
    assert_eq!(
        git(&bed.host.path().join("clone"), &["status", "--porcelain"]),
        ""
    );
    // A person's edit goes on from git's own commit, and nothing of the rest is collected.
    let content = Content::Bytes(b"edited\n");
    let edited = bed
        .engine
        .put_in_project(
            &id("p"),
            &p("a b"),
            content,
            &WriteOptions::default(),
            &user(),
        )
        .unwrap();
    bed.engine
        .collect_garbage(std::time::Duration::ZERO)
        .unwrap();
    bed.export("p", None, &target).unwrap();
    git(&target, &["fsck", "--strict"]);
    assert_eq!(git(&target, &["rev-parse", "main"]), edited.id.to_hex());
    let parent = git(&target, &["rev-parse", "main^"]);
    assert_eq!(parent, imported.snapshot.id.to_hex());
    bed.prove();
}

#[test]
fn a_branch_of_an_existing_repository_moves_forward_only() {
    let bed = Bed::new();
    let source = repository(&bed);
    bed.import_git("p", &source).unwrap();
    let head = git(&source, &["rev-parse", "main"]);
    let put = |path: &str| {
        let options = WriteOptions::default();
        let content = Content::Bytes(b"by offshoot\n");
        let made = bed
            .engine
            .put_in_project(&id("p"), &p(path), content, &options, &user());
        made.unwrap().id.to_hex()
    };
    let first = put("one");
    // The branch that is checked out stays as it is.
    let refused = bed.export("p", Some("main"), &source).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::AlreadyExists, "{refused}");
    assert_eq!(git(&source, &["rev-parse", "main"]), head);

    bed.export("p", Some("work/offshoot"), &source).unwrap();
    assert_eq!(git(&source, &["rev-parse", "work/offshoot"]), first);
    git(&source, &["fsck", "--strict"]);
    git(&source, &["pack-refs", "--all"]);
    let second = put("two");
    bed.export("p", Some("work/offshoot"), &source).unwrap();
    bed.export("p", Some("refs/heads/work/offshoot"), &source)
        .unwrap();
    assert_eq!(git(&source, &["rev-parse", "work/offshoot"]), second);
    // Only what is new was added.
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
    let refused = bed.export("p", Some("work/offshoot"), &source).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PreconditionFailed, "{refused}");
    assert_eq!(git(&source, &["rev-parse", "work/offshoot"]), theirs);
    for bad in ["work", "work/offshoot/x", "../x", "a..b", "", "x.lock"] {
        assert!(bed.export("p", Some(bad), &source).is_err(), "{bad}");
    }
    let plain = bed.source("plain");
    let refused = bed.export("p", Some("main"), &plain).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    git(&source, &["fsck", "--strict"]);
}

#[test]
fn a_shallow_repository_is_taken_as_far_as_it_goes() {
    let bed = Bed::new();
    let source = repository(&bed);
    let url = format!("file://{}", source.display());
    git(
        bed.host.path(),
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
    let shallow = bed.host.path().join("shallow");
    let imported = bed.import_git("p", &shallow).unwrap();
    assert_eq!(imported.snapshots, 2);
    bed.prove();
    bed.engine
        .collect_garbage(std::time::Duration::ZERO)
        .unwrap();
    let target = bed.host.path().join("export.git");
    bed.export("p", None, &target).unwrap();
    git(&target, &["fsck", "--strict"]);
    assert_eq!(
        git(&target, &["log", "--format=%H"]),
        git(&shallow, &["log", "--format=%H"])
    );
    // Where the beginning is, the branch can be written.
    bed.export("p", Some("back"), &source).unwrap();
    let empty = bed.source("other");
    git(&empty, &["init", "-q"]);
    let refused = bed.export("p", Some("back"), &empty).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unsupported, "{refused}");
    bed.prove();
}

#[test]
fn an_export_that_is_imported_again_has_the_same_ids() {
    let bed = Bed::new();
    let source = bed.source("source");
    write(&source, "a", "a\n");
    fs::create_dir(source.join("empty")).unwrap();
    let first = bed.import("p", &source).unwrap();
    let target = bed.host.path().join("export.git");
    bed.export("p", None, &target).unwrap();
    let again = bed.import_git("q", &target).unwrap();
    assert_eq!(again.snapshot.id, first.snapshot.id);
    bed.prove();
    let elsewhere = Bed::new();
    let there = elsewhere.import_git("p", &target).unwrap();
    assert_eq!(there.snapshot.id, first.snapshot.id);
    elsewhere
        .engine
        .collect_garbage(std::time::Duration::ZERO)
        .unwrap();
    elsewhere.prove();
}

#[test]
fn forged_repositories_are_refused() {
    let bed = Bed::new();
    for (number, name) in [".git", "..", ".", ".GIT"].into_iter().enumerate() {
        let source = bed.source(&format!("forged{number}"));
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
        let error = bed.import_git("p", &source).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidRequest, "{error}");
    }
    let source = repository(&bed);
    // An object that is missing, as after a disk error, and one that is another than it says.
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
        let error = bed.import_git("p", &source).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
        fs::copy(&other, &place).unwrap();
    }
    assert!(bed.engine.projects(None, 0).unwrap().is_empty());
    bed.prove();
}

#[test]
fn a_failing_call_at_any_point_leaves_the_whole_project_or_none() {
    let host = HostDir::new();
    let source = host.path().join("source");
    fs::create_dir(&source).unwrap();
    make_tree(&source, &TreeSpec::nasty(12), 5);
    git(&source, &["init", "-q"]);
    commit_all(&source, "first");
    let plan = FaultPlan::default();
    let mut options = EngineOptions::new(host.path().join("data"));
    options.faults = Some(plan.clone());
    let engine = Engine::open(options).unwrap();
    for from_git in [false, true] {
        let import = || match from_git {
            true => engine.import_git(&id("p"), &source, &mut |_| {}, &user()),
            false => {
                let options = ImportOptions::default();
                engine.import_dir(&id("p"), &source, &options, &mut |_| {}, &user())
            }
        };
        let mut struck = 0;
        for n in 1.. {
            assert!(n < 2_000, "the faults never end");
            plan.arm(n);
            let answer = import();
            engine.wait_for_upkeep();
            let hit = plan.disarm();
            struck += u32::from(hit);
            let there = engine.project(&id("p")).is_ok();
            if answer.is_ok() {
                assert!(there);
                engine.delete_project(&id("p"), &user()).unwrap();
            }
            if !hit {
                break;
            }
        }
        assert!(struck > 3, "{struck}");
        if engine.project(&id("p")).is_ok() {
            engine.delete_project(&id("p"), &user()).unwrap();
        }
        import().unwrap();
        assert_eq!(engine.check().unwrap().problems, []);
        engine.delete_project(&id("p"), &user()).unwrap();
    }
}
