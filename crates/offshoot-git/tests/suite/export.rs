//! Exported repositories as stock git sees them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::{Git, Leaves, any_leaves, build, cases};
use offshoot_core::{EMPTY_TREE, ErrorCode, ObjectId, RelPath};
use offshoot_git::{
    Commit, Edit, EmptyDirs, Kind, MemoryObjects, ObjectReader, Signature, edit, export_bare, hash,
    pack_objects,
};
use proptest::prelude::*;

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {stderr}");
    // fsck reports what it finds on either stream and must find nothing.
    assert!(args[0] != "fsck" || stderr.is_empty(), "{stderr}");
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

fn commit(objects: &MemoryObjects, tree: ObjectId, parents: &[ObjectId], text: &str) -> ObjectId {
    let author = Signature::new("agent", "agent@offshoot", 1_700_000_000, 60);
    let mut commit = Commit {
        tree,
        parents: parents.to_vec(),
        committer: author.clone(),
        author,
        message: text.as_bytes().to_vec(),
        extra_headers: Vec::new(),
    };
    commit.set_sidecar(Some(EMPTY_TREE));
    objects
        .add(Kind::Commit, &commit.encode().unwrap())
        .unwrap()
}

fn export(target: &Path, objects: &MemoryObjects, refs: &[(&str, ObjectId)]) -> u64 {
    let refs: Vec<_> = refs
        .iter()
        .map(|(name, id)| ((*name).to_owned(), *id))
        .collect();
    let mut last = (0, 0);
    let report = export_bare(target, objects, &refs, "refs/heads/main", &mut |step| {
        assert!(step.done == last.0 + 1 && step.done <= step.total);
        last = (step.done, step.total);
    })
    .unwrap();
    assert_eq!((report.objects, report.objects), last);
    report.objects
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

#[test]
fn git_clones_what_was_exported_and_a_second_export_adds_only_what_is_new() {
    let temp = tempfile::tempdir().unwrap();
    let bare = temp.path().join("out/of/project.git");
    let objects = MemoryObjects::new();
    let big: Vec<u8> = (0..3_000_000u32)
        .flat_map(|n| (n ^ n >> 7).to_le_bytes())
        .collect();
    let blob = |bytes: &[u8]| objects.add(Kind::Blob, bytes).unwrap();
    let leaves = Leaves::from([
        (path("a/b.txt"), (0o100_644, blob(b"one\n"))),
        (path("big"), (0o100_755, blob(&big))),
        (path("empty"), (0o100_644, blob(b""))),
        (path("link"), (0o120_000, blob(b"a/b.txt"))),
    ]);
    let empty = commit(&objects, EMPTY_TREE, &[], "nothing yet\n");
    let tree = build(&leaves, &objects);
    let first = commit(&objects, tree, &[empty], "first\n");
    let tag = format!("object {first}\ntype commit\ntag v1\ntagger A <a@b> 1 +0000\n\nv1\n");
    let tag = objects.add(Kind::Tag, tag.as_bytes()).unwrap();
    let written = export(
        &bare,
        &objects,
        &[("refs/heads/main", first), ("refs/tags/v1", tag)],
    );
    assert_eq!(
        written,
        objects.len() as u64 + 1,
        "the empty tree is written too"
    );
    assert_eq!(git(&bare, &["fsck", "--strict", "--full"]), "");
    assert_eq!(
        git(&bare, &["log", "--format=%s|%an"]),
        "first|agent\nnothing yet|agent"
    );
    assert_eq!(git(&bare, &["rev-parse", "v1^{commit}"]), first.to_hex());

    let edits = BTreeMap::from([(
        path("a/new"),
        Edit::Put {
            mode: 0o100_644,
            id: blob(b"2\n"),
        },
    )]);
    let tree = edit(&objects, tree, &edits, EmptyDirs::Vanish, &mut &objects).unwrap();
    let second = commit(&objects, tree, &[first], "second\n");
    let refs = [
        ("refs/heads/main", second),
        ("refs/heads/agents/a-1", first),
    ];
    assert_eq!(
        export(&bare, &objects, &refs),
        4,
        "a commit, two trees and a blob"
    );
    assert_eq!(git(&bare, &["fsck", "--strict", "--full"]), "");
    assert_eq!(
        git(&bare, &["diff", "--name-status", "main~1", "main"]),
        "A\ta/new"
    );
    git(&bare, &["gc", "-q"]);
    assert_eq!(
        export(&bare, &objects, &refs),
        0,
        "also after git has repacked"
    );
    assert_eq!(git(&bare, &["fsck", "--strict", "--full"]), "");

    let clone = temp.path().join("clone");
    git(
        temp.path(),
        &[
            "clone",
            "-q",
            bare.to_str().unwrap(),
            clone.to_str().unwrap(),
        ],
    );
    assert_eq!(std::fs::read(clone.join("big")).unwrap(), big);
    assert_eq!(
        std::fs::read_link(clone.join("link")).unwrap(),
        Path::new("a/b.txt")
    );
    assert_eq!(std::fs::read(clone.join("a/new")).unwrap(), b"2\n");
    assert_eq!(git(&clone, &["status", "--porcelain"]), "");
    let left = std::fs::read_dir(bare.join("objects/pack")).unwrap();
    assert!(
        left.flatten()
            .all(|entry| !entry.file_name().to_string_lossy().starts_with("tmp_"))
    );
}

#[test]
fn a_target_that_is_not_ours_is_refused_and_left_alone() {
    let objects = MemoryObjects::new();
    let first = commit(&objects, EMPTY_TREE, &[], "first\n");
    let refs = [("refs/heads/main".to_owned(), first)];
    let try_export = |target: &Path| {
        export_bare(target, &objects, &refs, "refs/heads/main", &mut |_| ()).map(drop)
    };
    let theirs = Git::init();
    for taken in [
        theirs.path().to_owned(),
        theirs.path().join(".git"),
        theirs.path().join(".git/HEAD"),
    ] {
        let error = try_export(&taken).unwrap_err();
        assert_eq!(error.code(), ErrorCode::AlreadyExists);
        assert!(error.hint().is_some());
        assert!(
            !format!("{error} {}", error.to_json()).contains("/tmp"),
            "no host path"
        );
    }
    assert_eq!(theirs.text(&["for-each-ref"], b""), "");
    let empty = tempfile::tempdir().unwrap();
    try_export(empty.path()).unwrap();

    for bad in [
        "main",
        "refs/heads/../../x",
        "refs/heads/a b",
        "refs/heads/.a",
        "refs/heads/a.lock",
        "refs/heads/",
        "refs/heads",
        "/refs/heads/a",
        "refs/heads/a//b",
        "refs/heads/a@{1}",
    ] {
        let refs = [(bad.to_owned(), first)];
        let result = export_bare(
            empty.path(),
            &objects,
            &refs,
            "refs/heads/main",
            &mut |_| (),
        );
        assert_eq!(
            result.unwrap_err().code(),
            ErrorCode::InvalidRequest,
            "{bad}"
        );
    }
    // A ref below another one is refused in words, and so is the reverse.
    for (name, then) in [
        ("refs/heads/x", "refs/heads/x/y"),
        ("refs/heads/p/q", "refs/heads/p"),
    ] {
        let refs = [(name.to_owned(), first), (then.to_owned(), first)];
        let result = export_bare(
            empty.path(),
            &objects,
            &refs,
            "refs/heads/main",
            &mut |_| (),
        );
        assert_eq!(
            result.unwrap_err().code(),
            ErrorCode::AlreadyExists,
            "{then}"
        );
    }
    git(empty.path(), &["fsck", "--strict"]);
}

#[test]
fn a_missing_object_leaves_the_repository_as_it_was() {
    let objects = MemoryObjects::new();
    let first = commit(&objects, EMPTY_TREE, &[], "first\n");
    let missing = hash(Kind::Blob, b"not stored").unwrap();
    let tree = build(&Leaves::from([(path("a"), (0o100_644, missing))]), &objects);
    let second = commit(&objects, tree, &[first], "second\n");
    let temp = tempfile::tempdir().unwrap();
    export(temp.path(), &objects, &[("refs/heads/main", first)]);
    let refs = [("refs/heads/main".to_owned(), second)];
    let error = export_bare(temp.path(), &objects, &refs, "refs/heads/main", &mut |_| ());
    assert_eq!(error.unwrap_err().code(), ErrorCode::Internal);
    assert_eq!(git(temp.path(), &["rev-parse", "main"]), first.to_hex());
    assert_eq!(git(temp.path(), &["fsck", "--strict"]), "");
    assert_eq!(
        std::fs::read_dir(temp.path().join("objects/pack"))
            .unwrap()
            .count(),
        2
    );
}

#[test]
fn a_failed_export_leaves_nothing_where_nothing_was() {
    let objects = MemoryObjects::new();
    let missing = hash(Kind::Blob, b"not stored").unwrap();
    let tree = build(&Leaves::from([(path("a"), (0o100_644, missing))]), &objects);
    let broken = commit(&objects, tree, &[], "broken\n");
    let temp = tempfile::tempdir().unwrap();
    let (new, empty) = (temp.path().join("new"), temp.path().join("empty"));
    std::fs::create_dir(&empty).unwrap();
    for target in [&new, &empty] {
        let refs = [("refs/heads/main".to_owned(), broken)];
        let result = export_bare(target, &objects, &refs, "refs/heads/main", &mut |_| ());
        assert!(result.is_err());
    }
    assert!(!new.exists());
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn random_histories_pass_fsck() {
    proptest!(cases(12), |(trees in prop::collection::vec(any_leaves(12), 1..6))| {
        let temp = tempfile::tempdir().unwrap();
        let objects = MemoryObjects::new();
        for n in 0..6u8 {
            objects.add(Kind::Blob, &[n]).unwrap();
        }
        let mut parents = Vec::new();
        for leaves in &trees {
            let id = commit(&objects, build(leaves, &objects), &parents, "m");
            parents = vec![id];
            export(temp.path(), &objects, &[("refs/heads/main", id)]);
        }
        prop_assert_eq!(git(temp.path(), &["fsck", "--strict", "--full"]), "");
        let log = git(temp.path(), &["log", "--format=%T"]);
        let expected: Vec<String> =
            trees.iter().rev().map(|leaves| build(leaves, &objects).to_hex()).collect();
        prop_assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    });
}

#[test]
fn a_pack_alone_is_what_git_index_pack_takes() {
    let git = Git::init();
    let objects = MemoryObjects::new();
    let ids: Vec<ObjectId> = (0..300u32)
        .map(|n| {
            objects
                .add(Kind::Blob, &n.to_le_bytes().repeat(n as usize))
                .unwrap()
        })
        .collect();
    let mut pack = Vec::new();
    let summary = pack_objects(&mut pack, &objects, &ids, &mut |_| ()).unwrap();
    assert_eq!(summary.bytes, pack.len() as u64);
    let name = git.text(&["index-pack", "--strict", "--stdin"], &pack);
    assert_eq!(name, format!("pack\t{}", summary.checksum));
    let theirs = std::fs::read(
        git.path()
            .join(format!(".git/objects/pack/pack-{}.idx", summary.checksum)),
    );
    let mut ours = Vec::new();
    offshoot_git::write_pack_index(&mut ours, &summary).unwrap();
    assert_eq!(ours, theirs.unwrap());
    assert!(objects.read(&ids[0]).unwrap().is_some());
}
