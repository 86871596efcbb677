//! All pairs of atomic tree edits, in both directions, against `git merge-tree --write-tree`.
#![allow(
    clippy::unwrap_used,
    clippy::semicolon_if_nothing_returned,
    reason = "test code"
)]

use std::collections::BTreeSet;

use crate::support::git::Repository;
use crate::support::{Store, Tree, entry, listing, merge, path};
use offshoot_core::GitMode;

const TEXT: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";

fn base(store: &Store) -> Tree {
    let mut tree = Tree::new();
    for (name, mode, content) in [
        ("a", GitMode::File, TEXT),
        ("d/b", GitMode::File, "bee\nbuzz\nhoney\nwax\nhive\n"),
        ("d/c", GitMode::File, "sea\nwave\nsalt\nsand\nshell\n"),
        ("link", GitMode::Symlink, "a"),
        ("p.json", GitMode::File, "{\n  \"a\": 1\n}\n"),
        (
            "w",
            GitMode::File,
            "the quick brown fox jumps over the lazy dog\n",
        ),
        (
            "run",
            GitMode::Exec,
            "#!/bin/sh\necho one\necho two\necho three\n",
        ),
    ] {
        tree.insert(path(name), entry(store, mode, content));
    }
    tree
}

/// A name and what it does to a tree.
type AtomicEdit = (&'static str, fn(&Store, &mut Tree));

fn set(store: &Store, tree: &mut Tree, name: &str, mode: GitMode, content: &str) {
    tree.insert(path(name), entry(store, mode, content));
}

fn rename(tree: &mut Tree, from: &str, to: &str) {
    let moved = tree.remove(&path(from)).expect("it is there");
    tree.insert(path(to), moved);
}

fn remove(tree: &mut Tree, name: &str) {
    tree.remove(&path(name)).expect("it is there");
}

fn replace(store: &Store, tree: &mut Tree, name: &str, from: &str, to: &str) {
    let old = tree[&path(name)];
    let content = String::from_utf8(store.get(&old.id).to_vec()).expect("text");
    set(store, tree, name, old.mode, &content.replace(from, to));
}

const EDITS: &[AtomicEdit] = &[
    ("nothing", |_, _| {}),
    ("change the top of a", |s, t| replace(s, t, "a", "two", "2")),
    ("change the top of a otherwise", |s, t| {
        replace(s, t, "a", "two", "zwei")
    }),
    ("change the end of a", |s, t| {
        replace(s, t, "a", "nine", "9")
    }),
    ("rewrite a", |s, t| {
        set(s, t, "a", GitMode::File, "quite\nanother\ntext\n")
    }),
    ("empty a", |s, t| set(s, t, "a", GitMode::File, "")),
    ("delete a", |_, t| remove(t, "a")),
    ("make a executable", |s, t| {
        set(s, t, "a", GitMode::Exec, TEXT)
    }),
    ("make a executable and change it", |s, t| {
        replace(s, t, "a", "five", "5");
        t.get_mut(&path("a")).expect("it is there").mode = GitMode::Exec;
    }),
    ("turn a into a link", |s, t| {
        set(s, t, "a", GitMode::Symlink, "d/b")
    }),
    ("turn a into a directory", |s, t| {
        t.remove(&path("a"));
        set(s, t, "a/x", GitMode::File, "x\n");
    }),
    ("rename a to z", |_, t| rename(t, "a", "z")),
    ("rename a to z and change it", |s, t| {
        rename(t, "a", "z");
        replace(s, t, "z", "five", "5");
    }),
    ("rename a to y", |_, t| rename(t, "a", "y")),
    ("rename a into d", |_, t| rename(t, "a", "d/a")),
    ("rename a to n", |_, t| rename(t, "a", "n")),
    ("rename a below itself", |_, t| rename(t, "a", "a/a")),
    ("add n", |s, t| set(s, t, "n", GitMode::File, "new\nfile\n")),
    ("add another n", |s, t| {
        set(s, t, "n", GitMode::File, "other\nthing\n")
    }),
    ("add an empty n", |s, t| set(s, t, "n", GitMode::File, "")),
    ("add an executable n", |s, t| {
        set(s, t, "n", GitMode::Exec, "new\nfile\n")
    }),
    ("add a link n", |s, t| set(s, t, "n", GitMode::Symlink, "a")),
    ("add another link n", |s, t| {
        set(s, t, "n", GitMode::Symlink, "d/b")
    }),
    ("add a directory n", |s, t| {
        set(s, t, "n/x", GitMode::File, "x\n")
    }),
    ("add z", |s, t| set(s, t, "z", GitMode::File, "new\nfile\n")),
    ("add a file to d", |s, t| {
        set(s, t, "d/new", GitMode::File, "new in d\n")
    }),
    ("add a directory to d", |s, t| {
        set(
            s,
            t,
            "d/sub/new",
            GitMode::File,
            "new in a directory of d\n",
        )
    }),
    ("rename d into g", |_, t| {
        rename(t, "d/b", "g/d/b");
        rename(t, "d/c", "g/d/c");
    }),
    ("rename all in d to different places", |_, t| {
        rename(t, "d/b", "g/b");
        rename(t, "d/c", "h/c");
    }),
    ("rename all in d to the top", |_, t| {
        rename(t, "d/b", "b");
        rename(t, "d/c", "c");
    }),
    ("change d/b", |s, t| replace(s, t, "d/b", "buzz", "hum")),
    ("delete d/b", |_, t| remove(t, "d/b")),
    ("delete d", |_, t| {
        t.retain(|at, _| !at.starts_with(&path("d")))
    }),
    ("turn d into a file", |s, t| {
        t.retain(|at, _| !at.starts_with(&path("d")));
        set(s, t, "d", GitMode::File, "flat\n");
    }),
    ("turn d into another file", |s, t| {
        t.retain(|at, _| !at.starts_with(&path("d")));
        set(s, t, "d", GitMode::File, "plain\n");
    }),
    ("rename d to g", |_, t| {
        rename(t, "d/b", "g/b");
        rename(t, "d/c", "g/c");
    }),
    ("rename d/b to d/q", |_, t| rename(t, "d/b", "d/q")),
    ("rename d/b to d/q and change it", |s, t| {
        rename(t, "d/b", "d/q");
        replace(s, t, "d/q", "wax", "propolis");
    }),
    ("rename d/b to z", |_, t| rename(t, "d/b", "z")),
    ("swap d/b and d/c", |_, t| {
        rename(t, "d/b", "d/t");
        rename(t, "d/c", "d/b");
        rename(t, "d/t", "d/c");
    }),
    ("aim link elsewhere", |s, t| {
        set(s, t, "link", GitMode::Symlink, "d/b")
    }),
    ("aim link at c", |s, t| {
        set(s, t, "link", GitMode::Symlink, "d/c")
    }),
    ("delete link", |_, t| remove(t, "link")),
    ("rename link", |_, t| rename(t, "link", "link2")),
    ("turn link into a file", |s, t| {
        set(s, t, "link", GitMode::File, "no link\n")
    }),
    ("make run plain", |_, t| {
        t.get_mut(&path("run")).expect("it is there").mode = GitMode::File
    }),
    ("add b to p.json", |s, t| {
        replace(s, t, "p.json", "1\n", "1,\n  \"b\": 2\n")
    }),
    ("add c to p.json", |s, t| {
        replace(s, t, "p.json", "1\n", "1,\n  \"c\": 3\n")
    }),
    ("set a of p.json to 2", |s, t| {
        replace(s, t, "p.json", "1", "2")
    }),
    ("change the second word of w", |s, t| {
        replace(s, t, "w", "quick", "slow")
    }),
    ("change the eighth word of w", |s, t| {
        replace(s, t, "w", "lazy", "busy")
    }),
    ("change the third word of w", |s, t| {
        replace(s, t, "w", "brown", "red")
    }),
    ("change run", |s, t| replace(s, t, "run", "two", "2")),
];

#[test]
fn every_pair_of_edits_comes_out_as_in_git_or_stands_in_the_list_of_differences() {
    let store = Store::default();
    let repository = Repository::new();
    let base = base(&store);
    let root = repository.commit(&store, &base, None);
    let sides: Vec<(&str, Tree, String)> = EDITS
        .iter()
        .map(|(name, edit)| {
            let mut tree = base.clone();
            edit(&store, &mut tree);
            let commit = repository.commit(&store, &tree, Some(&root));
            (*name, tree, commit)
        })
        .collect();
    let pairs: Vec<_> = sides
        .iter()
        .flat_map(|ours| sides.iter().map(move |theirs| (ours, theirs)))
        .collect();
    let commits: Vec<(&str, &str)> = pairs
        .iter()
        .map(|(ours, theirs)| (ours.2.as_str(), theirs.2.as_str()))
        .collect();
    let mut found = BTreeSet::new();
    for ((ours, theirs), by_git) in pairs.iter().zip(repository.merge_trees(&commits)) {
        let (outcome, merged) = merge(&store, &base, &ours.1, &theirs.1);
        let difference = match (by_git, outcome.conflicts.is_empty()) {
            (Some(tree), true) if listing(&store, &merged) == tree => continue,
            (None, false) => continue,
            (Some(_), true) => "both clean, different trees",
            (Some(_), false) => "git clean, a conflict here",
            (None, true) => "git conflicts, clean here",
        };
        found.insert(format!("| {} | {} | {difference} |", ours.0, theirs.0));
    }
    let document = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/merge-differences.md"
    ))
    .expect("the list of differences is there");
    let verdicts = ["both clean", "git clean", "git conflicts"];
    let listed: BTreeSet<String> = document
        .lines()
        .filter(|line| verdicts.iter().any(|verdict| line.contains(verdict)))
        .map(|line| {
            line.rsplitn(3, '|')
                .last()
                .unwrap_or_default()
                .trim_end()
                .to_owned()
        })
        .map(|line| format!("{line} |"))
        .collect();
    let new: Vec<&String> = found.difference(&listed).collect();
    let gone: Vec<&String> = listed.difference(&found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "not listed:\n{new:#?}\nno longer so:\n{gone:#?}"
    );
}
