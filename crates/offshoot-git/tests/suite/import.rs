//! Repositories made by git, read without git.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use crate::common::Git;
use offshoot_core::{ErrorCode, ObjectId};
use offshoot_git::{
    GitRepository, Head, Kind, ObjectReader, export_bare, parents_first, peel_to_commit,
    read_commit,
};

/// A history with similar versions of a large file, a merge, tags, a link and a submodule.
fn history() -> Git {
    let git = Git::init();
    let mut lines: Vec<String> = (0..3000)
        .map(|n| format!("line {n} of a long text"))
        .collect();
    for round in 0..20 {
        lines[round * 70] = format!("changed in round {round}");
        lines.insert(round * 13, format!("new in round {round}"));
        std::fs::write(git.path().join("text"), lines.join("\n")).unwrap();
        std::fs::write(git.path().join(format!("file{round}")), round.to_string()).unwrap();
        git.run(&["add", "-A"], b"");
        git.run(&["commit", "-q", "-m", &format!("round {round}")], b"");
        if round == 10 {
            git.run(&["branch", "old"], b"");
            git.run(&["tag", "light"], b"");
            git.run(&["tag", "-a", "-m", "v1", "v1"], b"");
            git.run(&["tag", "-a", "-m", "v1 again", "v1-again", "v1"], b"");
        }
    }
    git.run(&["checkout", "-q", "old"], b"");
    std::os::unix::fs::symlink("text", git.path().join("link")).unwrap();
    let commit = git.text(&["rev-parse", "HEAD"], b"");
    git.run(
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{commit},sub"),
        ],
        b"",
    );
    git.run(&["add", "link"], b"");
    git.run(&["commit", "-q", "-m", "beside"], b"");
    git.run(&["checkout", "-q", "main"], b"");
    git.run(&["merge", "-q", "--no-ff", "-m", "merge", "old"], b"");
    git.run(
        &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/old"],
        b"",
    );
    let blob = git.text(&["rev-parse", "HEAD:file0"], b"");
    git.run(&["tag", "-a", "-m", "of a file", "file-tag", &blob], b"");
    git
}

/// Compares everything that can be seen of a repository with what git says of it.
fn compare(git: &Git, at: &Path) -> GitRepository {
    let repository = GitRepository::open(at).unwrap();
    let dir = at.to_str().unwrap();
    let git_refs: BTreeMap<String, ObjectId> = git
        .text(
            &[
                "-C",
                dir,
                "for-each-ref",
                "--format=%(refname) %(objectname)",
            ],
            b"",
        )
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, id)| (name.to_owned(), id.parse().unwrap()))
        .collect();
    assert!(git_refs.len() >= 2);
    assert_eq!(repository.refs().unwrap(), git_refs);

    let all = git.text(
        &[
            "-C",
            dir,
            "rev-list",
            "--objects",
            "--all",
            "--no-object-names",
        ],
        b"",
    );
    let checks = git.text(&["-C", dir, "cat-file", "--batch-check"], all.as_bytes());
    let mut kinds = HashMap::new();
    for line in checks.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (kind, bytes) = repository
            .read(&words[0].parse().unwrap())
            .unwrap()
            .unwrap();
        assert_eq!(
            (kind.as_str(), bytes.len().to_string().as_str()),
            (words[1], words[2])
        );
        *kinds.entry(kind).or_insert(0) += 1;
    }
    assert!(kinds.len() == 4 || kinds[&Kind::Commit] == 1, "{kinds:?}");
    assert!(
        repository
            .read(&ObjectId::from_bytes([7; 20]))
            .unwrap()
            .is_none()
    );

    let tips: Vec<ObjectId> = git_refs.values().copied().collect();
    let shallow = repository.shallow().unwrap();
    let order = parents_first(&repository, &tips, &shallow).unwrap();
    let theirs = git.text(&["-C", dir, "rev-list", "--all"], b"");
    let theirs: HashSet<ObjectId> = theirs.lines().map(|id| id.parse().unwrap()).collect();
    assert_eq!(order.iter().copied().collect::<HashSet<_>>(), theirs);
    assert_eq!(order.len(), theirs.len());
    let mut seen = HashSet::new();
    for id in order {
        let parents = read_commit(&repository, &id).unwrap().parents;
        assert!(shallow.contains(&id) || parents.iter().all(|parent| seen.contains(parent)));
        seen.insert(id);
    }
    repository
}

#[test]
fn loose_packed_shared_and_linked_repositories_are_read() {
    let git = history();
    let repository = compare(&git, git.path());
    assert_eq!(
        repository.head().unwrap(),
        Head::Branch("refs/heads/main".to_owned())
    );
    let refs = repository.refs().unwrap();
    let peeled = peel_to_commit(&repository, refs["refs/tags/v1-again"]).unwrap();
    assert_eq!(peeled, Some(refs["refs/tags/light"]));
    assert_eq!(
        peel_to_commit(&repository, refs["refs/tags/file-tag"]).unwrap(),
        None
    );

    // Deltas that name their base by its place, then by its id.
    git.run(&["gc", "-q", "--aggressive", "--prune=now"], b"");
    assert!(has_deltas(&git));
    compare(&git, git.path());
    git.run(
        &[
            "-c",
            "repack.useDeltaBaseOffset=false",
            "repack",
            "-q",
            "-a",
            "-d",
            "-f",
        ],
        b"",
    );
    assert!(has_deltas(&git));
    compare(&git, git.path());

    let temp = tempfile::tempdir().unwrap();
    let (shared, linked) = (temp.path().join("shared"), temp.path().join("linked"));
    git.run(
        &[
            "clone",
            "-q",
            "--shared",
            "--bare",
            ".",
            shared.to_str().unwrap(),
        ],
        b"",
    );
    assert!(shared.join("objects/info/alternates").exists());
    compare(&git, &shared);
    git.run(
        &[
            "worktree",
            "add",
            "-q",
            "--detach",
            linked.to_str().unwrap(),
            "old",
        ],
        b"",
    );
    let linked = compare(&git, &linked);
    assert_eq!(
        linked.head().unwrap(),
        Head::Detached(refs["refs/heads/old"])
    );
}

fn has_deltas(git: &Git) -> bool {
    let all = git.text(
        &[
            "cat-file",
            "--batch-all-objects",
            "--batch-check=%(deltabase)",
        ],
        b"",
    );
    all.lines().any(|base| !base.starts_with("0000"))
}

#[test]
fn a_shallow_clone_says_where_it_ends() {
    let git = history();
    let temp = tempfile::tempdir().unwrap();
    let url = format!("file://{}", git.path().display());
    let target = temp.path().to_str().unwrap();
    git.run(
        &[
            "clone",
            "-q",
            "--depth",
            "1",
            "--no-tags",
            "--branch",
            "old",
            &url,
            target,
        ],
        b"",
    );
    let repository = compare(&git, temp.path());
    assert_eq!(repository.shallow().unwrap().len(), 1);
}

#[test]
fn what_was_imported_can_be_exported() {
    let git = history();
    git.run(&["gc", "-q"], b"");
    let repository = GitRepository::open(git.path()).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let refs: Vec<(String, ObjectId)> = repository.refs().unwrap().into_iter().collect();
    export_bare(
        temp.path(),
        &repository,
        &refs,
        "refs/heads/main",
        &mut |_| (),
    )
    .unwrap();
    let bare = temp.path().to_str().unwrap();
    let (ok, _, stderr) = git.try_run(&["-C", bare, "fsck", "--strict", "--full"], b"");
    assert!(ok && stderr.is_empty(), "{stderr}");
    assert_eq!(
        git.text(&["-C", bare, "rev-list", "--objects", "--all"], b""),
        git.text(&["rev-list", "--objects", "--all"], b"")
    );
}

#[test]
fn damage_is_an_error_and_never_other_content() {
    let git = history();
    git.run(&["gc", "-q"], b"");
    let ids: Vec<ObjectId> = git
        .text(
            &["rev-list", "--objects", "--all", "--no-object-names"],
            b"",
        )
        .lines()
        .map(|id| id.parse().unwrap())
        .collect();
    let packs = git.path().join(".git/objects/pack");
    let file = |ending: &str| {
        let found = std::fs::read_dir(&packs).unwrap().flatten();
        found
            .map(|entry| entry.path())
            .find(|path| path.extension().unwrap() == ending)
            .unwrap()
    };
    for (path, step) in [(file("pack"), 997), (file("idx"), 499)] {
        let good = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut failures = 0;
        for at in (0..good.len()).step_by(step) {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            std::fs::write(&path, &bad).unwrap();
            let Ok(repository) = GitRepository::open(git.path()) else {
                continue;
            };
            failures += ids
                .iter()
                .filter(|id| !matches!(repository.read(id), Ok(Some(_))))
                .count();
        }
        assert!(failures > 0, "the damage must have been felt");
        std::fs::write(&path, &good[..good.len() / 2]).unwrap();
        if let Ok(repository) = GitRepository::open(git.path()) {
            assert!(ids.iter().any(|id| repository.read(id).is_err()));
        }
        std::fs::write(&path, &good).unwrap();
    }
}

#[test]
fn an_object_under_another_id_is_refused() {
    let git = Git::init();
    let id = git.text(&["hash-object", "-w", "--stdin"], b"content");
    let objects = git.path().join(".git/objects");
    let place = |id: &str| objects.join(&id[..2]).join(&id[2..]);
    let other = ObjectId::from_bytes([7; 20]);
    std::fs::create_dir_all(place(&other.to_hex()).parent().unwrap()).unwrap();
    std::fs::copy(place(&id), place(&other.to_hex())).unwrap();
    let repository = GitRepository::open(git.path()).unwrap();
    let read = repository.read(&id.parse().unwrap()).unwrap().unwrap();
    assert_eq!((read.0, &read.1[..]), (Kind::Blob, &b"content"[..]));
    assert_eq!(
        repository.read(&other).unwrap_err().code(),
        ErrorCode::InvalidRequest
    );
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    let temp = tempfile::tempdir().unwrap();
    let refuse = |at: &Path| GitRepository::open(at).err().unwrap();
    assert_eq!(refuse(temp.path()).code(), ErrorCode::InvalidRequest);
    let git = Git::init();
    for (name, format) in [
        ("a", "--object-format=sha256"),
        ("b", "--ref-format=reftable"),
    ] {
        let dir = temp.path().join(name);
        git.run(&["init", "-q", format, dir.to_str().unwrap()], b"");
        let error = refuse(&dir);
        assert_eq!(error.code(), ErrorCode::Unsupported);
        assert!(
            !error.to_json().to_string().contains("/tmp"),
            "no host path"
        );
    }
    let unborn = GitRepository::open(git.path()).unwrap();
    assert_eq!(
        unborn.head().unwrap(),
        Head::Branch("refs/heads/main".to_owned())
    );
    assert!(unborn.refs().unwrap().is_empty());
}
