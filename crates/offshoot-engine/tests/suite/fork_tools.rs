//! Real programs in forks: what they write is read back byte for byte, git tracks the same files,
//! and their build output does not disturb merges.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::{TestEngine, user, with_each};
use offshoot_core::WorkspaceId;
use offshoot_engine::{CompleteOptions, Quota};
use offshoot_testkit::{DirImage, dir_image, git, git_command, skip};

/// Runs a program and expects success. It has a home directory of its own and no network.
fn run(home: &Path, dir: &Path, program: &str, args: &[&str]) {
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env("HOME", home)
        .env("npm_config_cache", home.join("npm-cache"))
        .env("npm_config_offline", "true")
        .env("npm_config_update_notifier", "false")
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET_DIR")
        .output()
        .unwrap_or_else(|error| panic!("{program} does not start: {error}"));
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// The inputs of the programs: a repository, an npm package, a crate and an archive.
struct Sources {
    dir: PathBuf,
}

impl Sources {
    fn new(dir: PathBuf) -> Sources {
        let at = |name: &str| {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        fs::write(at("repo/src/lib.rs"), "pub fn f() {}\n").unwrap();
        fs::write(at("repo/run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at("repo/run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
        symlink("run.sh", at("repo/link")).unwrap();
        let repo = at("repo");
        for args in [
            &["init", "--quiet"][..],
            &["add", "-A"],
            &["commit", "--quiet", "-m", "first"],
        ] {
            git(&repo, args);
        }
        fs::write(
            at("pkg/package.json"),
            r#"{"name":"small","version":"1.0.0","bin":{"small":"cli.js"}}"#,
        )
        .unwrap();
        fs::write(at("pkg/cli.js"), "#!/usr/bin/env node\n").unwrap();
        fs::write(at("pkg/lib/deep/index.js"), "module.exports = 1;\n").unwrap();
        let tree = at("tree");
        fs::create_dir_all(tree.join("empty/inner")).unwrap();
        fs::write(tree.join("private"), "secret\n").unwrap();
        fs::set_permissions(tree.join("private"), PermissionsExt::from_mode(0o600)).unwrap();
        symlink("../nowhere", tree.join("dangling")).unwrap();
        fs::create_dir(tree.join("closed")).unwrap();
        fs::write(tree.join("closed/file"), "in a closed directory\n").unwrap();
        fs::set_permissions(tree.join("closed"), PermissionsExt::from_mode(0o700)).unwrap();
        let archive = at("tree.tar");
        run(
            &dir,
            &dir,
            "tar",
            &["cf", archive.to_str().unwrap(), "tree"],
        );
        Sources { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().unwrap().to_owned()
    }

    /// Runs the programs in a fork. Returns those that cannot run here.
    fn work(&self, fork: &Path) -> Vec<&'static str> {
        let mut missing = Vec::new();
        let cloned = git_command(fork)
            .args(["clone", "--quiet", &self.path("repo"), "vendor/repo"])
            .status();
        assert!(cloned.unwrap().success());
        run(&self.dir, fork, "tar", &["xf", &self.path("tree.tar")]);
        make_crate(fork);
        if has("cargo") {
            build_crate(&self.dir, fork);
        } else {
            missing.push("cargo");
        }
        if has("npm") {
            self.install_package(fork);
        } else {
            missing.push("npm");
        }
        missing
    }

    fn install_package(&self, fork: &Path) {
        let app = fork.join("app");
        fs::create_dir_all(&app).unwrap();
        fs::write(
            app.join("package.json"),
            r#"{"name":"app","version":"1.0.0"}"#,
        )
        .unwrap();
        let package = self.path("pkg");
        let args = [
            "install",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--install-links",
            &package,
        ];
        run(&self.dir, &app, "npm", &args);
        assert!(app.join("node_modules/small/lib/deep/index.js").is_file());
    }
}

fn make_crate(fork: &Path) {
    fs::create_dir_all(fork.join("crate/src")).unwrap();
    fs::write(
        fork.join("crate/Cargo.toml"),
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    )
    .unwrap();
    fs::write(fork.join("crate/src/main.rs"), "fn main() {}\n").unwrap();
}

fn build_crate(home: &Path, fork: &Path) {
    // The programs of rustup look for their toolchain below the real home.
    let real_home = std::env::var_os("HOME").map(PathBuf::from);
    let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let rustup = rustup.or(real_home.map(|home| home.join(".rustup")));
    let output = Command::new("cargo")
        .args(["build", "--offline", "--quiet"])
        .current_dir(fork.join("crate"))
        .env("CARGO_HOME", home.join("cargo-home"))
        .env("RUSTUP_HOME", rustup.unwrap_or_default())
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(fork.join("crate/target/debug/small").is_file());
}

/// The tree that git computes for a directory, without nested repositories, of which git records
/// only the commit.
fn tree_by_git(scratch: &Path, work_tree: &Path) -> String {
    let copy = scratch.join("copy");
    let _ = fs::remove_dir_all(&copy);
    run(
        scratch,
        scratch,
        "cp",
        &["-a", work_tree.to_str().unwrap(), copy.to_str().unwrap()],
    );
    fs::remove_dir_all(copy.join("vendor/repo/.git")).unwrap();
    let git_dir = scratch.join("oracle.git");
    let _ = fs::remove_dir_all(&git_dir);
    let git = |args: &[&str]| {
        let output = git_command(scratch)
            .env("GIT_DIR", &git_dir)
            .env("GIT_WORK_TREE", &copy)
            .current_dir(&copy)
            .args(args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["add", "-A"]);
    git(&["write-tree"])
}

fn wipe(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let is_dir = fs::symlink_metadata(&path).unwrap().is_dir();
        let gone = if is_dir {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        gone.unwrap();
    }
}

/// The paths at which two images differ, which is more readable than both images.
fn differences(one: &DirImage, other: &DirImage) -> Vec<String> {
    let paths: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    paths
        .into_iter()
        .filter(|path| one.get(path) != other.get(path))
        .map(|path| format!("{path:?}: {:?} and {:?}", one.get(path), other.get(path)))
        .collect()
}

fn assert_same(now: &DirImage, wanted: &DirImage, what: &str) {
    let differ = differences(now, wanted);
    assert!(differ.is_empty(), "{what}: {differ:#?}");
}

#[test]
fn what_real_programs_write_in_a_fork_comes_back_byte_for_byte() {
    with_each(|test| {
        let sources = Sources::new(test.host.path().join("sources"));
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        for missing in sources.work(&path) {
            skip(&format!("{missing} is not installed"));
        }
        let image = dir_image(&path);
        // What git would track by the rules of the project.
        let tracked = test
            .engine
            .workspaces
            .snapshot(&id, None, false, &user())
            .unwrap();
        let scratch = test.host.path().join("scratch");
        fs::create_dir_all(&scratch).unwrap();
        assert_eq!(
            tracked.snapshot.tree.to_hex(),
            tree_by_git(&scratch, &path),
            "git computes another tree"
        );
        assert_same(&dir_image(&path), &image, "a snapshot changed the fork");
        let taken = test
            .engine
            .workspaces
            .snapshot(&id, Some("all"), true, &user())
            .unwrap();
        let all = taken.snapshot.id.to_hex();
        let copy: WorkspaceId = "copy".parse().unwrap();
        test.engine
            .workspaces
            .create_workspace_from(Some(copy.clone()), &all, Quota::default(), &user())
            .unwrap();
        let copied = test.engine.workspaces.hand_out_path(&copy).unwrap();
        // What git takes for a repository stays in the fork.
        let mut but_git = image.clone();
        but_git.retain(|path, _| {
            !path
                .0
                .split(|byte| *byte == b'/')
                .any(|name| name == b".git")
        });
        assert!(but_git.len() < image.len());
        assert_same(&dir_image(&copied), &but_git, "in a new workspace");
        wipe(&path);
        test.engine
            .workspaces
            .restore(&id, &all, None, &user())
            .unwrap();
        assert_same(&dir_image(&path), &image, "restored in place");
        let after = test
            .engine
            .workspaces
            .snapshot(&id, None, true, &user())
            .unwrap();
        assert_eq!(after.snapshot.tree, taken.snapshot.tree);
        still_works(&path);
        test.engine
            .workspaces
            .delete_workspace(&id, &user())
            .unwrap();
        test.engine.context.wait_for_jobs();
        test.engine
            .workspaces
            .create_workspace_from(Some(id.clone()), &all, Quota::default(), &user())
            .unwrap();
        let back = test.engine.workspaces.hand_out_path(&id).unwrap();
        assert_same(&dir_image(&back), &image, "taken up again");
        test.check();
    });
}

/// The programs continue with the restored files.
fn still_works(fork: &Path) {
    let repo = fork.join("vendor/repo");
    git(&repo, &["fsck", "--strict"]);
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
    if has("cargo") {
        let built = Command::new(fork.join("crate/target/debug/small")).status();
        assert!(built.unwrap().success());
    }
}

/// Twenty agents build at once, each with its own output in ignored directories.
#[test]
fn twenty_forks_that_build_complete_without_a_conflict() {
    with_each(|test| {
        let sources = Sources::new(test.host.path().join("sources"));
        let project = test.project("web");
        test.put(&project, ".gitignore", "target/\nnode_modules/\n*.log\n");
        let forks: Vec<(WorkspaceId, PathBuf)> = (0..20)
            .map(|number| test.fork(&project, &format!("agent{number}")))
            .collect();
        for (number, (_, path)) in forks.iter().enumerate() {
            build_in(&test, &sources, number, path);
        }
        for (number, (id, _)) in forks.iter().enumerate() {
            let done = test
                .engine
                .merges
                .complete(id, &CompleteOptions::default(), &user())
                .unwrap();
            assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
            let own = format!("work/{number}.rs");
            assert!(done.merged.iter().any(|path| path.to_text() == own));
        }
        let image = test.project_image(&project, None);
        let has_part = |part: &[u8]| {
            let mut paths = image.keys();
            paths.any(|path| path.0.split(|byte| *byte == b'/').any(|name| name == part))
        };
        assert!(!has_part(b"target") && !has_part(b"node_modules"));
        for number in 0..20 {
            let own = test.project_text(&project, &format!("work/{number}.rs"));
            assert_eq!(own, format!("// by {number}\n"));
        }
        test.check();
        assert!(test.host.mounts().is_empty());
    });
}

/// The first agents run the real programs, which take a second each; the others write what those
/// would. All outputs differ.
fn build_in(test: &TestEngine, sources: &Sources, number: usize, path: &Path) {
    fs::create_dir_all(path.join("work")).unwrap();
    fs::write(
        path.join(format!("work/{number}.rs")),
        format!("// by {number}\n"),
    )
    .unwrap();
    fs::write(path.join("build.log"), format!("built by {number}\n")).unwrap();
    make_crate(path);
    // With an overlay only, because the programs do not see which provider made the directory.
    let real = offshoot_testkit::soak() || number < 2;
    if real && test.provider != offshoot_fs::ProviderName::Copy && has("cargo") && has("npm") {
        build_crate(&test.host.path().join("sources"), path);
        sources.install_package(path);
        fs::remove_file(path.join("app/package-lock.json")).unwrap();
        fs::write(path.join("app/package.json"), "{}\n").unwrap();
    }
    for dir in ["crate/target/debug/deps", "app/node_modules/.bin"] {
        fs::create_dir_all(path.join(dir)).unwrap();
        for file in 0..20 {
            let output = path.join(dir).join(format!("out{file}"));
            fs::write(output, format!("{number} {file}\n")).unwrap();
        }
    }
}
