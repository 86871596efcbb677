//! A table of tree merges, black-box: three trees and the expected outcome.

use crate::support::{Store, Tree, apply, entry, merge, path};
use offshoot_core::GitMode;
use offshoot_merge::Choice;

/// A tree as `path=content`, with `!` before the path for an executable and `@` for a link.
fn tree(store: &Store, text: &str) -> Tree {
    let leaf = |leaf: &str| {
        let (name, content) = leaf.split_once('=').unwrap();
        let (mode, name) = match name.split_at(1) {
            ("!", name) => (GitMode::Exec, name),
            ("@", name) => (GitMode::Symlink, name),
            _ => (GitMode::File, name),
        };
        let content = content.replace('/', "\n");
        (path(name), entry(store, mode, &content))
    };
    text.split_ascii_whitespace().map(leaf).collect()
}

fn text(store: &Store, tree: &Tree) -> String {
    let leaf = |(path, entry): (&offshoot_core::RelPath, &offshoot_merge::TreeEntry)| {
        let sign = match entry.mode {
            GitMode::Exec => "!",
            GitMode::Symlink => "@",
            _ => "",
        };
        let content = String::from_utf8(store.get(&entry.id).to_vec()).unwrap();
        format!("{sign}{path}={}", content.replace('\n', "/"))
    };
    tree.iter().map(leaf).collect::<Vec<_>>().join(" ")
}

/// What it shows, base, ours, theirs, the tree afterwards, and the conflicts as `kind path`.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("both add different files", "a=1", "a=1 b=2", "a=1 c=3", "a=1 b=2 c=3", ""),
    ("both add the same file", "a=1", "a=1 b=2", "a=1 b=2", "a=1 b=2", ""),
    ("both add a file differently", "a=1", "a=1 b=2", "a=1 b=3", "a=1 b=2", "both_added b"),
    ("both remove", "a=1 b=2", "b=2", "b=2", "b=2", ""),
    ("ours removes, theirs leaves", "a=1 b=2", "b=2", "a=1 b=3", "b=3", ""),
    ("ours removes, theirs changes", "a=1 b=2", "b=2", "a=9 b=2", "b=2", "removed_by_ours a"),
    ("theirs removes, ours changes", "a=1 b=2", "a=9 b=2", "b=2", "a=9 b=2", "removed_by_theirs a"),
    ("both change alike", "a=1", "a=2", "a=2", "a=2", ""),
    ("both change differently", "a=1", "a=2", "a=3", "a=2", "both_changed a"),
    ("different lines", "a=1/2/3/4/5/", "a=x/2/3/4/5/", "a=1/2/3/4/y/", "a=x/2/3/4/y/", ""),
    ("content here, mode there", "a=1", "a=2", "!a=1", "!a=2", ""),
    ("both make it executable", "a=1", "!a=1", "!a=2", "!a=2", ""),
    ("both add it with different modes", "a=1", "a=1 b=2", "a=1 !b=2", "a=1 b=2", "modes_differ b"),
    ("a file here, a link there", "a=1", "a=1 b=2", "a=1 @b=a", "a=1 b=2", "types_differ b"),
    ("a link is aimed at two places", "@a=x", "@a=y", "@a=z", "@a=y", "both_changed a"),
    ("a link is aimed by one side", "@a=x b=1", "@a=x b=2", "@a=z b=1", "@a=z b=2", ""),
    ("a file here, a directory there", "a=1", "a=1 d=2", "a=1 d/x=3", "a=1 d=2", "file_or_directory d/x"),
    ("a directory here, a file there", "a=1", "a=1 d/x=3", "a=1 d=2", "a=1 d/x=3", "file_or_directory d"),
    ("theirs makes a directory of an unchanged file", "a=1 b=1", "a=1 b=2", "a/x=1 b=1", "a/x=1 b=2", ""),
    ("renamed here, changed there", "a=1/2/3/4/5/", "b=1/2/3/4/5/", "a=1/2/3/4/6/", "b=1/2/3/4/6/", ""),
    ("changed here, renamed there", "a=1/2/3/4/5/", "a=1/2/3/4/6/", "b=1/2/3/4/5/", "b=1/2/3/4/6/", ""),
    ("renamed and changed on both sides", "a=1/2/3/4/5/6/", "b=x/2/3/4/5/6/", "a=1/2/3/4/5/y/", "b=x/2/3/4/5/y/", ""),
    ("renamed here, removed there", "a=1/2/3/ z=1", "b=1/2/3/ z=1", "z=1", "b=1/2/3/ z=1", "removed_by_theirs b"),
    ("renamed to two names", "a=1/2/3/ z=1", "b=1/2/3/ z=1", "c=1/2/3/ z=1", "b=1/2/3/ z=1", "both_renamed a"),
    ("renamed alike", "a=1/2/3/ z=1", "b=1/2/3/ z=1", "b=1/2/3/ z=2", "b=1/2/3/ z=2", ""),
    ("a directory is renamed here, a file in it changes there", "d/a=1/2/3/ d/b=9", "e/a=1/2/3/ e/b=9", "d/a=1/2/4/ d/b=9", "e/a=1/2/4/ e/b=9", ""),
    ("a directory is renamed here, gets a file there", "d/a=1 d/b=2", "e/a=1 e/b=2", "d/a=1 d/b=2 d/c=3", "e/a=1 e/b=2", "directory_renamed e/c"),
    ("a directory gets a file here, is renamed there", "d/a=1 d/b=2", "d/a=1 d/b=2 d/c=3", "e/a=1 e/b=2", "d/c=3 e/a=1 e/b=2", "directory_renamed e/c"),
    ("a directory is removed here, gets a file there", "d/a=1 z=1", "z=1", "d/a=1 d/c=3 z=1", "d/c=3 z=1", ""),
    ("half of a directory moves here, it gets a file there", "d/a=1 d/b=2", "d/a=1 e/b=2", "d/a=1 d/b=2 d/c=3", "d/a=1 d/c=3 e/b=2", ""),
    ("an empty file", "a=1", "a=1 b=", "a=1 c=", "a=1 b= c=", ""),
    ("the last file goes", "a=1", "a=1", "", "", ""),
    ("names that differ in case", "a=1", "a=1 B=2", "a=1 b=3", "B=2 a=1 b=3", ""),
];

#[test]
fn tree_cases() {
    let mut wrong = String::new();
    for (name, base, ours, theirs, expected, conflicts) in CASES {
        let store = Store::default();
        let sides = [base, ours, theirs].map(|side| tree(&store, side));
        let (outcome, merged) = merge(&store, &sides[0], &sides[1], &sides[2]);
        let conflict =
            |one: &offshoot_merge::Conflict| format!("{} {}", one.kind.as_str(), one.path);
        let found: Vec<String> = outcome.conflicts.iter().map(conflict).collect();
        let found = (text(&store, &merged), found.join(", "));
        if found != ((*expected).to_owned(), (*conflicts).to_owned()) {
            wrong +=
                &format!("{name}\n  expected {expected:?} {conflicts:?}\n  found    {found:?}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn a_file_goes_along_with_its_directory_when_that_is_chosen() {
    let store = Store::default();
    let [base, renamed, added] =
        ["d/a=1 d/b=2", "e/a=1 e/b=2", "d/a=1 d/b=2 d/c=3"].map(|text| tree(&store, text));
    for (ours, theirs) in [(&renamed, &added), (&added, &renamed)] {
        let (outcome, merged) = merge(&store, &base, ours, theirs);
        let [conflict] = outcome.conflicts.as_slice() else {
            panic!("{outcome:#?}")
        };
        let resolved = |choice| {
            let edits = conflict.resolve(choice).unwrap();
            text(&store, &apply(&store, &merged, &edits))
        };
        assert_eq!(resolved(Choice::Theirs), "e/a=1 e/b=2 e/c=3");
        assert_eq!(resolved(Choice::Ours), text(&store, &merged));
        assert_eq!(resolved(Choice::Base), "e/a=1 e/b=2");
    }
}
