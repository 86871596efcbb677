//! Commits against git: ids, exact round trips, and what `git fsck --strict` says.

use crate::common::{Git, cases};
use offshoot_core::{EMPTY_TREE, ObjectId};
use offshoot_git::{Commit, Kind, Signature, hash};
use proptest::prelude::*;

fn commit(author: Signature, committer: Signature, message: &[u8]) -> Commit {
    let (message, extra_headers) = (message.to_vec(), Vec::new());
    Commit {
        tree: EMPTY_TREE,
        parents: Vec::new(),
        author,
        committer,
        message,
        extra_headers,
    }
}

/// Lets git check an object in the strictest way before it takes it.
fn fsck(git: &Git, bytes: &[u8]) -> Result<ObjectId, String> {
    let (ok, out, err) = git.try_run(&["hash-object", "-t", "commit", "-w", "--stdin"], bytes);
    if !ok {
        return Err(err);
    }
    Ok(String::from_utf8(out).unwrap().trim().parse().unwrap())
}

#[test]
fn the_id_is_that_of_git_commit_tree() {
    let git = Git::init();
    let tree = git.text(&["mktree"], b"");
    let mut ours = commit(
        Signature::new("Ada", "ada@example.com", 1_700_000_000, 90),
        Signature::new("Bob", "bob@example.com", 1_700_000_001, -480),
        "first\n\nwith \u{e9}\n".as_bytes(),
    );
    let first = git.text(&["commit-tree", &tree], &ours.message);
    assert_eq!(
        hash(Kind::Commit, &ours.encode().unwrap())
            .unwrap()
            .to_hex(),
        first
    );
    ours.message = b"second\n".to_vec();
    ours.parents = vec![first.parse().unwrap(); 1];
    let second = git.text(&["commit-tree", &tree, "-p", &first], &ours.message);
    assert_eq!(
        hash(Kind::Commit, &ours.encode().unwrap())
            .unwrap()
            .to_hex(),
        second
    );
    ours.parents.push(second.parse().unwrap());
    let args = ["commit-tree", &tree, "-p", &first, "-p", &second];
    let merge = git.text(&args, &ours.message);
    assert_eq!(
        hash(Kind::Commit, &ours.encode().unwrap())
            .unwrap()
            .to_hex(),
        merge
    );
    let raw = git.run(&["cat-file", "commit", &merge], b"");
    assert_eq!(Commit::parse(&raw).unwrap(), ours);
}

#[test]
fn the_sidecar_header_passes_fsck_and_comes_back() {
    let git = Git::init();
    git.run(&["mktree"], b"");
    let who = Signature::new("agent-1", "agent-1@offshoot", 1_700_000_000, 0);
    let mut ours = commit(who.clone(), who, b"snapshot\n");
    ours.set_sidecar(Some(EMPTY_TREE));
    ours.extra_headers
        .push(("gpgsig".to_owned(), b"-----BEGIN\n\nabc\n-----END".to_vec()));
    let bytes = ours.encode().unwrap();
    let id = fsck(&git, &bytes).unwrap();
    assert_eq!(id, hash(Kind::Commit, &bytes).unwrap());
    git.run(&["update-ref", "refs/heads/main", &id.to_hex()], b"");
    git.run(&["fsck", "--strict", "--full"], b"");
    let back = Commit::parse(&git.run(&["cat-file", "commit", &id.to_hex()], b"")).unwrap();
    assert_eq!((back.sidecar(), &back), (Some(EMPTY_TREE), &ours));
    ours.set_sidecar(None);
    assert_eq!((ours.sidecar(), ours.extra_headers.len()), (None, 1));
}

#[test]
fn any_name_makes_a_commit_that_fsck_accepts() {
    let git = Git::init();
    git.run(&["mktree"], b"");
    let mut names: Vec<String> = [
        "",
        " ",
        "<>",
        "a\nb",
        "a<b>c",
        "\0",
        ".,;",
        "\u{7f}",
        "e\u{301} x",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("n".repeat(10_000));
    for name in &names {
        let who = Signature::new(name, name, -5, 100_000);
        assert!(!who.name().is_empty() && !who.email().is_empty());
        let bytes = commit(who.clone(), who, b"m").encode().unwrap();
        assert_eq!(Commit::parse(&bytes).unwrap().encode().unwrap(), bytes);
        fsck(&git, &bytes).unwrap_or_else(|error| panic!("{name:?}: {error}"));
    }
}

#[test]
fn odd_commits_of_old_tools_keep_their_bytes() {
    let odd = [
        "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@b> 1 -0000\ncommitter A<a@b> 01 +0100\n\n",
        "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor  <> 1 +051800\ncommitter no date\nencoding latin-1\nmergetag object 1\n tree x\n \n y\n\nm\0m",
        "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a <b>> 99999999999999999999 +0000\ncommitter A <a> 5 +9999\nx \n\n\n\n",
    ];
    for text in odd {
        assert_eq!(
            Commit::parse(text.as_bytes()).unwrap().encode().unwrap(),
            text.as_bytes()
        );
    }
    let tree = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n";
    for bad in [
        "",
        "tree x\n",
        tree,
        &tree.to_uppercase(),
        &format!("{tree}author A <a> 1 +0000\n"),
        &format!("{tree}author A <a> 1 +0000\ncommitter A <a> 1 +0000\n"),
    ] {
        assert!(Commit::parse(bad.as_bytes()).is_err(), "{bad}");
    }
    let who = Signature::new("a", "a", 0, 0);
    let mut bad = commit(who.clone(), who, b"");
    bad.extra_headers.push(("two words".to_owned(), Vec::new()));
    assert!(bad.encode().is_err());
}

#[test]
fn garbage_never_panics_and_what_parses_comes_back() {
    let good = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nparent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@b> 1 +0000\ncommitter B <b> 2 -0130\ngpgsig x\n y\n\nmessage";
    proptest!(cases(3000), |(at in 0..good.len(), to: u8, cut in 0..good.len(), noise: Vec<u8>)| {
        let _ = Commit::parse(&noise);
        let mut bytes = good.to_vec();
        bytes[at] = to;
        for bytes in [&bytes[..], &bytes[..cut]] {
            if let Ok(Ok(again)) = Commit::parse(bytes).map(|commit| commit.encode()) {
                prop_assert_eq!(again, bytes);
            }
        }
    });
}
