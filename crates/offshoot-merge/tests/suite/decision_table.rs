//! The decision table, cell by cell: as the docs print it, mirrored, and against git.

use crate::support::git::Repository;
use crate::support::{Store, Tree, entry, merge, path};
use offshoot_core::GitMode;
use offshoot_merge::{Decision, Kind, decide};

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Absent => "absent",
        Kind::File => "file",
        Kind::Executable => "executable",
        Kind::Link => "link",
        Kind::Directory => "directory",
    }
}

fn meaning(cell: Decision) -> &'static str {
    match cell {
        Decision::KeepOurs => "keep ours",
        Decision::TakeTheirs => "take theirs",
        Decision::MergeContent => "merge content",
        Decision::BothAdded => "conflict: both added",
        Decision::BothChanged => "conflict: both changed",
        Decision::TypesDiffer => "conflict: types differ",
        Decision::RemovedByOurs => "conflict: removed by ours",
        Decision::RemovedByTheirs => "conflict: removed by theirs",
        Decision::FileOrDirectory => "conflict: file or directory",
        Decision::Descend => "descend",
    }
}

fn cells() -> impl Iterator<Item = (Kind, Kind, Kind)> {
    let pairs = Kind::ALL
        .into_iter()
        .flat_map(|base| Kind::ALL.map(|ours| (base, ours)));
    pairs.flat_map(|(base, ours)| Kind::ALL.map(|theirs| (base, ours, theirs)))
}

#[test]
fn the_docs_print_every_cell() {
    let document =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/merge.md"))
            .expect("the docs are there");
    let mut rows = Vec::new();
    for base in Kind::ALL {
        for ours in Kind::ALL {
            let row: Vec<&str> = Kind::ALL
                .map(|theirs| meaning(decide(base, ours, theirs)))
                .to_vec();
            rows.push(format!(
                "| {} | {} | {} |",
                word(base),
                word(ours),
                row.join(" | ")
            ));
        }
    }
    for row in &rows {
        assert!(
            document.lines().any(|line| line == row),
            "docs/merge.md lacks\n{}",
            rows.join("\n")
        );
    }
}

#[test]
fn swapped_sides_mirror_the_decision() {
    for (base, ours, theirs) in cells() {
        let (cell, swapped) = (decide(base, ours, theirs), decide(base, theirs, ours));
        assert_eq!(cell.mirrored(), swapped, "{base:?} {ours:?} {theirs:?}");
    }
}

/// A tree with that kind of thing at `p`, different on each side.
fn tree(store: &Store, base: Kind, kind: Kind, side: &str) -> Tree {
    let mut tree = Tree::new();
    tree.insert(path("other"), entry(store, GitMode::File, "stays\n"));
    let content = format!("the {side} of it\n");
    match kind {
        Kind::Absent => {}
        Kind::File => {
            tree.insert(path("p"), entry(store, GitMode::File, &content));
        }
        Kind::Executable => {
            tree.insert(path("p"), entry(store, GitMode::Exec, &content));
        }
        Kind::Link => {
            tree.insert(path("p"), entry(store, GitMode::Symlink, side));
        }
        Kind::Directory => {
            if base == Kind::Directory {
                tree.insert(
                    path("p/x"),
                    entry(store, GitMode::File, "in the directory\n"),
                );
            }
            if side != "base" {
                let name = path(&format!("p/{side}"));
                tree.insert(
                    name,
                    entry(store, GitMode::File, &format!("added by {side}\n")),
                );
            }
        }
    }
    tree
}

#[test]
fn every_cell_is_as_clean_as_in_git() {
    let store = Store::default();
    let repository = Repository::new();
    let mut pairs = Vec::new();
    for base in Kind::ALL {
        let root = tree(&store, base, base, "base");
        let parent = repository.commit(&store, &root, None);
        let side = |side: &str| {
            Kind::ALL.map(|kind| {
                let tree = tree(&store, base, kind, side);
                let commit = repository.commit(&store, &tree, Some(&parent));
                (kind, tree, commit)
            })
        };
        for ours in side("ours") {
            for theirs in side("theirs") {
                pairs.push((base, root.clone(), ours.clone(), theirs.clone()));
            }
        }
    }
    assert_eq!(pairs.len(), 125);
    let commits: Vec<_> = pairs
        .iter()
        .map(|pair| (pair.2.2.as_str(), pair.3.2.as_str()))
        .collect();
    for (pair, by_git) in pairs.iter().zip(repository.merge_trees(&commits)) {
        let (base, root, (ours, ours_tree, _), (theirs, theirs_tree, _)) = pair;
        let cell = decide(*base, *ours, *theirs);
        let (outcome, merged) = merge(&store, root, ours_tree, theirs_tree);
        let case = format!(
            "{base:?} {ours:?} {theirs:?}: {cell:?}, {:?}",
            outcome.conflicts
        );
        let clean = matches!(
            cell,
            Decision::KeepOurs | Decision::TakeTheirs | Decision::Descend
        );
        assert_eq!(outcome.conflicts.is_empty(), clean, "{case}");
        assert_eq!(by_git.is_some(), clean, "git differs: {case}");
        if let Some(by_git) = by_git {
            assert_eq!(crate::support::listing(&store, &merged), by_git, "{case}");
        }
    }
}
