//! The `.git` of a fork as stock git sees it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::common::Git;
use offshoot_core::{ObjectId, RelPath, Result};
use offshoot_git::{GitRepository, IndexStat, read_commit, write_fork_git, write_index};

/// Names whose order differs between trees and paths, a link, a program, a deep directory.
fn origin() -> Git {
    let git = Git::init();
    let dir = git.path();
    fs::create_dir_all(dir.join("a/b/c")).unwrap();
    for name in ["a.txt", "a/z", "a/b/c/deep", "a-b", "a0", "empty"] {
        let text = if name == "empty" { "" } else { name };
        fs::write(dir.join(name), text).unwrap();
    }
    fs::write(dir.join("run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(dir.join("run"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("a/z", dir.join("link")).unwrap();
    git.run(&["add", "-A"], b"");
    git.run(&["commit", "-q", "-m", "first"], b"");
    git
}

fn head(git: &Git) -> ObjectId {
    git.text(&["rev-parse", "HEAD"], b"").parse().unwrap()
}

fn stat_in(root: &Path, path: &RelPath) -> Result<Option<IndexStat>> {
    let path = root.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
    let nanoseconds = |s: i64, n: i64| i128::from(s) * 1_000_000_000 + i128::from(n);
    Ok(path.symlink_metadata().ok().map(|meta| IndexStat {
        ctime_ns: nanoseconds(meta.ctime(), meta.ctime_nsec()),
        mtime_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
        dev: meta.dev(),
        ino: meta.ino(),
        uid: meta.uid(),
        gid: meta.gid(),
        size: meta.size(),
    }))
}

/// A directory with the files of a commit and a `.git` that this crate wrote.
fn fork_of(git: &Git, base: ObjectId, earlier: Option<&Path>) -> Git {
    let fork = Git {
        dir: tempfile::tempdir().unwrap(),
    };
    git.run(
        &[
            "--work-tree",
            fork.path().to_str().unwrap(),
            "checkout",
            "-q",
            "-f",
            &base.to_hex(),
            "--",
            ".",
        ],
        b"",
    );
    let from = GitRepository::open(git.path()).unwrap();
    let to = fork.path().join(".git");
    write_fork_git(&to, earlier, &from, base, &HashSet::new()).unwrap();
    let tree = read_commit(&from, &base).unwrap().tree;
    // Older than the second in which the index is written, or git reads them to be sure.
    run(
        fork.path(),
        "find . -path ./.git -prune -o -exec touch -h -d '1 hour ago' {} +",
    );
    let index = write_index(&from, tree, &mut |path| stat_in(fork.path(), path)).unwrap();
    fs::write(to.join("index"), index).unwrap();
    fork
}

fn run(dir: &Path, script: &str) {
    let mut shell = std::process::Command::new("sh");
    assert!(
        shell
            .current_dir(dir)
            .args(["-c", script])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn git_takes_the_repository_for_one_of_its_own() {
    let git = origin();
    let fork = fork_of(&git, head(&git), None);
    assert_eq!(fork.text(&["status", "--porcelain"], b""), "");
    assert_eq!(fork.text(&["fsck", "--full", "--strict"], b""), "");
    assert_eq!(fork.text(&["log", "--format=%s"], b""), "first");
    let tree = fork.text(&["rev-parse", "HEAD^{tree}"], b"");
    assert_eq!(fork.text(&["write-tree"], b""), tree);
    // The whole index, with modes and order, is what git itself makes of these files.
    let ours = fork.text(&["ls-files", "--stage", "--debug"], b"");
    fork.run(&["update-index", "--refresh"], b"");
    fs::remove_file(fork.path().join(".git/index")).unwrap();
    fork.run(&["read-tree", "HEAD"], b"");
    fork.run(&["update-index", "--refresh"], b"");
    let theirs = fork.text(&["ls-files", "--stage", "--debug"], b"");
    let without_flags = |text: &str| text.replace("flags: 0", "");
    assert_eq!(without_flags(&ours), without_flags(&theirs));
}

#[test]
fn git_reads_no_file_to_see_that_nothing_changed() {
    let git = origin();
    let base = head(&git);
    let fork = fork_of(&git, base, None);
    // A change that only reading the file can find: the size is equal, and so is the `stat` in the
    // index.
    fs::write(fork.path().join("a0"), "0a").unwrap();
    let from = GitRepository::open(git.path()).unwrap();
    let tree = read_commit(&from, &base).unwrap().tree;
    run(fork.path(), "touch -d '1 hour ago' a0");
    let index = write_index(&from, tree, &mut |path| stat_in(fork.path(), path)).unwrap();
    fs::write(fork.path().join(".git/index"), index).unwrap();
    assert_eq!(fork.text(&["status", "--porcelain"], b""), "");
    // Without stat data git reads, and sees it.
    let index = write_index(&from, tree, &mut |_| Ok(None)).unwrap();
    fs::write(fork.path().join(".git/index"), index).unwrap();
    assert_eq!(fork.text(&["status", "--porcelain"], b"").trim(), "M a0");
}

#[test]
fn the_next_snapshot_shares_the_packs_and_adds_what_is_new() {
    let git = origin();
    let first = fork_of(&git, head(&git), None);
    fs::write(git.path().join("a/z"), "newer").unwrap();
    git.run(&["commit", "-q", "-a", "-m", "second"], b"");
    let second = fork_of(&git, head(&git), Some(&first.path().join(".git")));
    assert_eq!(second.text(&["log", "--format=%s"], b""), "second\nfirst");
    assert_eq!(second.text(&["fsck", "--full"], b""), "");
    assert_eq!(second.text(&["status", "--porcelain"], b""), "");
    let packs = |git: &Git| -> Vec<u64> {
        let mut inodes: Vec<u64> = fs::read_dir(git.path().join(".git/objects/pack"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name().as_bytes().ends_with(b".pack"))
            .map(|entry| entry.metadata().unwrap().ino())
            .collect();
        inodes.sort_unstable();
        inodes
    };
    let (old, new) = (packs(&first), packs(&second));
    assert_eq!((old.len(), new.len()), (1, 2));
    assert!(new.contains(&old[0]), "the pack is the same file");
    // One commit, two trees, one blob.
    let counts = second.text(&["count-objects", "-v"], b"");
    let before = first.text(&["count-objects", "-v"], b"");
    let in_pack = |text: &str| -> u64 {
        let line = text
            .lines()
            .find(|line| line.starts_with("in-pack"))
            .unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(in_pack(&counts), in_pack(&before) + 4);
    // `git gc` leaves them alone.
    second.run(&["gc", "-q"], b"");
    assert!(packs(&second).iter().any(|inode| *inode == old[0]));
}
