//! Trees against git: ids, edits, differences, and what git cannot hold.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::common::{Git, Leaves, any_edits, any_leaves, any_path, apply, build, cases};
use offshoot_core::{EMPTY_BLOB, EMPTY_TREE, ErrorCode, ObjectId, RelPath};
use offshoot_git::{
    Edit, EmptyDirs, Kind, MemoryObjects, Tree, TreeBuilder, diff, diff_below, edit, encode_tree,
    hash, lookup, walk, walk_objects,
};
use proptest::prelude::*;

type Change = (RelPath, Option<(u32, ObjectId)>, Option<(u32, ObjectId)>);

fn path(text: &str) -> RelPath {
    if text.is_empty() {
        RelPath::root()
    } else {
        RelPath::parse(text.as_bytes()).unwrap()
    }
}

fn changes(objects: &MemoryObjects, a: ObjectId, b: ObjectId, below: &RelPath) -> Vec<Change> {
    let mut all = Vec::new();
    diff_below(objects, a, b, below, |path, a, b| {
        all.push((path, a.map(|e| (e.mode, e.id)), b.map(|e| (e.mode, e.id))));
        Ok(())
    })
    .unwrap();
    all
}

fn leaves_of(objects: &MemoryObjects, root: ObjectId) -> Vec<(RelPath, (u32, ObjectId))> {
    let mut all = Vec::new();
    walk(objects, root, |path, entry| {
        all.push((path, (entry.mode, entry.id)));
        Ok(())
    })
    .unwrap();
    all
}

/// `git diff-tree -r -z`, parsed. A type change is one record there and here.
fn git_diff(git: &Git, a: ObjectId, b: ObjectId) -> Vec<Change> {
    let out = git.run(&["diff-tree", "-r", "-z", &a.to_hex(), &b.to_hex()], b"");
    let mut fields = out.split(|&byte| byte == 0);
    let mut all = Vec::new();
    while let Some(head) = fields.next().filter(|head| !head.is_empty()) {
        let head = std::str::from_utf8(&head[1..]).unwrap();
        let words: Vec<&str> = head.split(' ').collect();
        let side = |mode: &str, id: &str| {
            let mode = u32::from_str_radix(mode, 8).unwrap();
            (mode != 0).then(|| (mode, id.parse().unwrap()))
        };
        let path = RelPath::parse(fields.next().unwrap()).unwrap();
        all.push((path, side(words[0], words[2]), side(words[1], words[3])));
    }
    all
}

#[test]
fn random_trees_edits_and_differences_are_those_of_git() {
    let git = Git::init();
    proptest!(cases(160), |(before in any_leaves(25), edits in any_edits(12))| {
        let objects = MemoryObjects::new();
        let a = build(&before, &objects);
        prop_assert_eq!(a, git.write_tree(&before));
        prop_assert_eq!(leaves_of(&objects, a), before.clone().into_iter().collect::<Vec<_>>());

        let mut after = before.clone();
        apply(&mut after, &edits);
        let b = edit(&objects, a, &edits, EmptyDirs::Vanish, &mut &objects).unwrap();
        prop_assert_eq!(b, git.write_tree(&after));
        prop_assert_eq!(b, build(&after, &MemoryObjects::new()));

        let mut theirs = git_diff(&git, a, b);
        prop_assert_eq!(changes(&objects, a, b, &RelPath::root()), theirs.clone());
        for ((_, old, new), (_, back_new, back_old)) in
            theirs.iter_mut().zip(changes(&objects, b, a, &RelPath::root()))
        {
            prop_assert_eq!((&*old, &*new), (&back_old, &back_new));
        }
    });
}

#[test]
fn lookup_finds_what_the_model_has_and_a_limited_diff_is_a_part_of_the_whole() {
    proptest!(cases(300), |(
        before in any_leaves(25), edits in any_edits(8), probes in prop::collection::vec(any_path(), 8)
    )| {
        let objects = MemoryObjects::new();
        let a = build(&before, &objects);
        let b = edit(&objects, a, &edits, EmptyDirs::Vanish, &mut &objects).unwrap();
        let all = changes(&objects, a, b, &RelPath::root());
        for probe in probes {
            let found = lookup(&objects, a, &probe).unwrap();
            let is_dir = before.keys().any(|key| key.starts_with(&probe) && *key != probe);
            match found {
                Some(entry) if entry.is_dir() => prop_assert!(is_dir),
                found => prop_assert_eq!(
                    found.map(|entry| (entry.mode, entry.id)),
                    before.get(&probe).copied().filter(|_| !is_dir)
                ),
            }
            let below: Vec<_> =
                all.iter().filter(|(path, ..)| path.starts_with(&probe)).cloned().collect();
            prop_assert_eq!(changes(&objects, a, b, &probe), below);
        }
    });
}

/// Entries of a sidecar tree: odd modes, empty directories, nested `.git`.
fn any_sidecar() -> impl Strategy<Value = Leaves> {
    let names = prop::sample::select(vec!["a", "a-", ".git", "b", "a0"]);
    let paths = prop::collection::vec(names, 1..4).prop_map(|parts| path(&parts.join("/")));
    let modes = prop::sample::select(vec![
        (0o100_640, EMPTY_BLOB),
        (0o104_755, EMPTY_BLOB),
        (0o040_700, EMPTY_TREE),
        (0o040_000, EMPTY_TREE),
        (0o041_777, EMPTY_TREE),
    ]);
    prop::collection::btree_map(paths, modes, 0..12).prop_map(|puts| {
        // A file above another path cannot be built: drop what lies below files.
        let is_file = |path: &RelPath| {
            puts.get(path)
                .is_some_and(|(mode, _)| mode & 0o100_000 != 0)
        };
        let possible = |path: &RelPath| !path.ancestors().iter().any(&is_file);
        puts.iter()
            .filter(|(path, _)| possible(path))
            .map(|(path, leaf)| (path.clone(), *leaf))
            .collect()
    })
}

#[test]
fn the_difference_of_two_sidecars_is_that_of_what_they_say() {
    proptest!(cases(400), |(a in any_sidecar(), b in any_sidecar())| {
        let objects = MemoryObjects::new();
        let (a, b) = (build(&a, &objects), build(&b, &objects));
        // What a directory says is its mode and whether it is empty; a file is its mode and id.
        let said = |mode: u32, id: ObjectId| {
            let is_dir = mode & 0o170_000 == 0o040_000;
            (is_dir, mode, if is_dir && id != EMPTY_TREE { EMPTY_BLOB } else { id })
        };
        let list = |root| -> BTreeMap<(RelPath, bool), (bool, u32, ObjectId)> {
            leaves_of(&objects, root)
                .into_iter()
                .map(|(path, (mode, id))| (path, said(mode, id)))
                .map(|(path, said)| ((path, said.0), said))
                .collect()
        };
        let (in_a, in_b) = (list(a), list(b));
        let mut expected = BTreeMap::new();
        for key in in_a.keys().chain(in_b.keys()) {
            if in_a.get(key) != in_b.get(key) {
                expected.insert(key.clone(), (in_a.get(key).copied(), in_b.get(key).copied()));
            }
        }
        let mut found = BTreeMap::new();
        for (path, old, new) in changes(&objects, a, b, &RelPath::root()) {
            let (old, new) = (old.map(|(m, id)| said(m, id)), new.map(|(m, id)| said(m, id)));
            let is_dir = old.or(new).unwrap().0;
            prop_assert!(found.insert((path, is_dir), (old, new)).is_none());
        }
        prop_assert_eq!(found, expected);
    });
}

#[test]
fn sidecar_trees_hold_what_git_cannot_and_edits_agree_with_building() {
    proptest!(cases(300), |(puts in any_sidecar())| {
        let objects = MemoryObjects::new();
        let built = build(&puts, &objects);
        let edits: BTreeMap<_, _> = puts.iter()
            .map(|(path, (mode, id))| (path.clone(), Edit::Put { mode: *mode, id: *id })).collect();
        let edited = edit(&objects, EMPTY_TREE, &edits, EmptyDirs::Keep, &mut &objects).unwrap();
        prop_assert_eq!(built, edited);
        for (path, (mode, _)) in &puts {
            prop_assert_eq!(lookup(&objects, built, path).unwrap().unwrap().mode, *mode);
        }
        // The difference to nothing is the walk, and both visit every directory with metadata.
        let walked = leaves_of(&objects, built);
        let added: Vec<_> = changes(&objects, EMPTY_TREE, built, &RelPath::root())
            .into_iter().map(|(path, _, new)| (path, new.unwrap())).collect();
        prop_assert_eq!(&walked, &added);
        for (path, (mode, id)) in &puts {
            let open = puts.keys().any(|other| other != path && other.starts_with(path));
            if *mode != 0o040_000 || !open {
                let seen = walked.iter().find(|(other, _)| other == path);
                prop_assert_eq!(seen.unwrap().1.0, *mode);
                prop_assert!(open || seen.unwrap().1.1 == *id);
            }
        }
    });
}

#[test]
fn empty_directories_vanish_or_stay() {
    let objects = MemoryObjects::new();
    let file = hash(Kind::Blob, b"x").unwrap();
    let put = Edit::Put {
        mode: 0o100_644,
        id: file,
    };
    let run = |root, edits: &[(&str, Edit)], empty_dirs| {
        let edits = edits
            .iter()
            .map(|(text, edit)| (path(text), *edit))
            .collect();
        edit(&objects, root, &edits, empty_dirs, &mut &objects).unwrap()
    };
    let root = run(EMPTY_TREE, &[("a/b/c", put), ("d", put)], EmptyDirs::Vanish);
    let gone = run(root, &[("a/b/c", Edit::Remove)], EmptyDirs::Vanish);
    assert_eq!(leaves_of(&objects, gone), [(path("d"), (0o100_644, file))]);
    let kept = run(root, &[("a/b/c", Edit::Remove)], EmptyDirs::Keep);
    assert_eq!(
        lookup(&objects, kept, &path("a/b")).unwrap().unwrap().id,
        EMPTY_TREE
    );
    assert_eq!(
        run(gone, &[("d", Edit::Remove)], EmptyDirs::Vanish),
        EMPTY_TREE
    );

    // Removing below nothing, or below a file, changes nothing and makes no directory.
    for empty_dirs in [EmptyDirs::Vanish, EmptyDirs::Keep] {
        for gone in ["x/y/z", "d/e", "a/b/c/d"] {
            assert_eq!(run(root, &[(gone, Edit::Remove)], empty_dirs), root);
        }
        // Shallow edits come first.
        let root = run(
            root,
            &[("a", Edit::Remove), ("a/n", put), ("d/e", put)],
            empty_dirs,
        );
        let left: Vec<_> = leaves_of(&objects, root)
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        assert_eq!(left, [path("a/n"), path("d/e")]);
    }

    // The mode of a directory stays when something below it changes.
    let dir = Edit::Put {
        mode: 0o040_700,
        id: EMPTY_TREE,
    };
    let root = run(EMPTY_TREE, &[("p", dir), ("p/q", put)], EmptyDirs::Keep);
    let root = run(root, &[("p/r", put)], EmptyDirs::Keep);
    assert_eq!(
        lookup(&objects, root, &path("p")).unwrap().unwrap().mode,
        0o040_700
    );
    let subtree = lookup(&objects, root, &path("p")).unwrap().unwrap().id;
    let edits = [
        (
            "",
            Edit::Put {
                mode: 0o040_000,
                id: subtree,
            },
        ),
        ("s", put),
    ];
    assert_eq!(
        leaves_of(&objects, run(root, &edits, EmptyDirs::Keep)).len(),
        3
    );
}

#[test]
fn only_touched_trees_are_written_and_equal_subtrees_are_not_read() {
    let objects = MemoryObjects::new();
    let blob = hash(Kind::Blob, b"x").unwrap();
    let leaves: Leaves = (0..10_000)
        .map(|n| {
            (
                path(&format!("d{}/e{}/f{n}", n % 10, n / 10 % 10)),
                (0o100_644, blob),
            )
        })
        .collect();
    let root = build(&leaves, &objects);
    assert_eq!(objects.len(), 1 + 10 + 100);
    let edits = BTreeMap::from([(
        path("d3/e4/new"),
        Edit::Put {
            mode: 0o100_644,
            id: blob,
        },
    )]);
    let new = edit(&objects, root, &edits, EmptyDirs::Vanish, &mut &objects).unwrap();
    assert_eq!(objects.len(), 111 + 3);
    assert_eq!(changes(&objects, root, new, &RelPath::root()).len(), 1);

    let mut seen = HashSet::new();
    let mut count = 0;
    let mut visit = |_: Kind, _: ObjectId| {
        count += 1;
        Ok(())
    };
    walk_objects(&objects, root, &mut seen, &mut visit).unwrap();
    walk_objects(&objects, new, &mut seen, &mut visit).unwrap();
    assert_eq!((seen.len(), count), (111 + 1 + 3, 115));
}

#[test]
fn very_deep_paths_need_no_deep_stack() {
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(|| {
            let objects = MemoryObjects::new();
            let deep = path(&vec!["d"; 2048].join("/"));
            let id = hash(Kind::Blob, b"x").unwrap();
            let edits = BTreeMap::from([(
                deep.clone(),
                Edit::Put {
                    mode: 0o100_644,
                    id,
                },
            )]);
            let root = edit(
                &objects,
                EMPTY_TREE,
                &edits,
                EmptyDirs::Vanish,
                &mut &objects,
            )
            .unwrap();
            assert_eq!(leaves_of(&objects, root).len(), 1);
            assert_eq!(
                changes(&objects, EMPTY_TREE, root, &RelPath::root()).len(),
                1
            );
            let built = build(&Leaves::from([(deep, (0o100_644, id))]), &objects);
            assert_eq!(root, built);
            // One level more is a path that cannot exist.
            let entry = offshoot_git::EntryRef {
                name: b"long name",
                mode: 0o040_000,
                id: root,
            };
            let root = objects.add(Kind::Tree, &encode_tree([entry])).unwrap();
            let error = walk(&objects, root, |_, _| Ok(())).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidRequest);
            assert!(diff(&objects, root, EMPTY_TREE, |_, _, _| Ok(())).is_err());
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn git_add_makes_the_same_tree() {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let git = Git::init();
    let mut leaves = Leaves::new();
    for (name, exec) in [
        (&b"a"[..], false),
        (b"a.b/c", true),
        (b"a-b", false),
        (b"x/\xff\n\x1b", false),
    ] {
        let file = git.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, name).unwrap();
        let (perm, mode) = if exec {
            (0o755, 0o100_755)
        } else {
            (0o644, 0o100_644)
        };
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(perm)).unwrap();
        leaves.insert(
            RelPath::parse(name).unwrap(),
            (mode, hash(Kind::Blob, name).unwrap()),
        );
    }
    symlink("a.b/c", git.path().join("x/link")).unwrap();
    leaves.insert(
        path("x/link"),
        (0o120_000, hash(Kind::Blob, b"a.b/c").unwrap()),
    );
    git.run(&["add", "-A"], b"");
    let theirs: ObjectId = git.text(&["write-tree"], b"").parse().unwrap();
    assert_eq!(build(&leaves, &MemoryObjects::new()), theirs);
}

#[test]
fn a_builder_refuses_what_cannot_be_a_tree() {
    let objects = MemoryObjects::new();
    let file = (0o100_644, EMPTY_BLOB);
    for bad in [
        &["b", "a"][..],
        &["a", "a"],
        &["a", "a/b"],
        &["a", "a-b", "a/b"],
        &["a/b/c", "a/b"],
    ] {
        let mut sink = &objects;
        let mut builder = TreeBuilder::new(&mut sink);
        let pushed = bad
            .iter()
            .try_for_each(|text| builder.push(&path(text), file.0, file.1));
        assert!(pushed.is_err(), "{bad:?}");
    }
    let mut sink = &objects;
    assert_eq!(TreeBuilder::new(&mut sink).finish().unwrap(), EMPTY_TREE);
}

#[test]
fn garbage_is_refused_and_never_panics() {
    let entry =
        |mode: &str, name: &str| [mode.as_bytes(), b" ", name.as_bytes(), &[0; 21]].concat();
    let parse = |bytes: Vec<u8>| Tree::parse(Arc::from(bytes));
    assert_eq!(parse(entry("100644", "a")).unwrap().len(), 1);
    for bad in [
        entry("100644", ""),
        entry("100644", ".."),
        entry("100644", "a/b"),
        entry("", "a"),
        entry("8", "a"),
        entry("-1", "a"),
        entry("1000000", "a"),
        entry("00000000100644", "a"),
        entry("100644", &"n".repeat(256)),
        [entry("100644", "b"), entry("100644", "a")].concat(),
        [entry("100644", "a"), entry("100644", "a")].concat(),
        [entry("40000", "a"), entry("100644", "a-")].concat(),
        [
            entry("100644", "a"),
            entry("100644", "a-"),
            entry("40000", "a"),
        ]
        .concat(),
        entry("100644", "a")[..20].to_vec(),
        b"100644".to_vec(),
        b"100644 a".to_vec(),
    ] {
        let error = parse(bad.clone()).expect_err(&String::from_utf8_lossy(&bad));
        assert_eq!(error.code(), ErrorCode::InvalidRequest);
    }
    let noise = prop::collection::vec(
        prop_oneof![
            Just(b'1'),
            Just(b'0'),
            Just(b' '),
            Just(0u8),
            Just(b'/'),
            any::<u8>()
        ],
        0..120,
    );
    proptest!(cases(2000), |(bytes in noise, cut in 0usize..60, flip in 0usize..60, to: u8)| {
        let _ = parse(bytes);
        let mut good = [entry("100644", "a"), entry("40000", "b")].concat();
        let at = flip.min(good.len() - 1);
        good[at] = to;
        good.truncate(good.len().saturating_sub(cut));
        if let Ok(tree) = parse(good.clone()) {
            // What is accepted is also what is written; only zeros before a mode are dropped.
            let again = encode_tree(tree.iter());
            prop_assert!(again == good || again.len() < good.len());
            prop_assert_eq!(encode_tree(parse(again.clone()).unwrap().iter()), again);
        }
    });
}
