//! What must hold for every input: lazy directories, bytes in and out, refused paths, counters,
//! snapshots and restores.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::fixture::consistency::{cases, index_of, out_of_line, real_counts};
use crate::fixture::ops::{self, Op, OutsideOp};
use crate::fixture::{TestEngine, p, try_write, user};
use offshoot_core::{ErrorCode, Layout, RelPath, WorkspaceId};
use offshoot_engine::{Content, Engine, Quota, WriteOptions};
use offshoot_testkit::{DirImage, Node, NodePath, dir_image};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Runs a property on one data directory, with a workspace of its own for every case.
fn property<S: Strategy>(strategy: &S, check: impl Fn(&mut TestEngine, &WorkspaceId, S::Value)) {
    let test = RefCell::new(TestEngine::plain());
    let number = Cell::new(0);
    let config = Config {
        cases: cases(256),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(strategy, |value| {
        number.set(number.get() + 1);
        let mut test = test.borrow_mut();
        let ws = test.create(&format!("w{}", number.get()));
        check(&mut test, &ws, value);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// Any name that a file system accepts and that is not reserved.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 1..20);
    let long = (200_usize..256).prop_map(|length| vec![b'l'; length]);
    let dotted = "[.]{1,4}[a-z]{0,2}".prop_map(String::into_bytes);
    prop_oneof![8 => bytes, 1 => long, 2 => dotted].prop_map(|mut name| {
        name.iter_mut()
            .filter(|byte| [0, b'/'].contains(*byte))
            .for_each(|byte| *byte = b'_');
        if [&b"."[..], b"..", b".meta"].contains(&&name[..]) {
            name.push(b'x');
        }
        name
    })
}

fn any_path() -> impl Strategy<Value = RelPath> {
    prop::collection::vec(any_name(), 1..6).prop_map(|parts| {
        parts
            .iter()
            .fold(RelPath::root(), |path, name| path.join_name(name))
    })
}

fn any_content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..300),
        1 => (any::<u8>(), 30_000_usize..400_000).prop_map(|(byte, size)| {
            (0..size).map(|at| byte.wrapping_add((at / 251) as u8)).collect()
        }),
    ]
}

#[test]
fn property_assigned_is_a_row_and_the_first_need_makes_the_directory() {
    property(&(any_path(), any_content()), |test, ws, (path, bytes)| {
        let engine = &test.engine;
        let on_disk = test.path_of(ws);
        assert!(!on_disk.exists(), "assigned is a row and nothing more");
        // Operations that only read do not make it either.
        assert!(
            engine
                .workspaces
                .list(ws, &RelPath::root())
                .unwrap()
                .is_empty()
        );
        assert!(
            engine
                .workspaces
                .tree(ws, &RelPath::root(), None)
                .unwrap()
                .children
                .is_empty()
        );
        let info = engine.workspaces.info(ws).unwrap();
        assert_eq!(
            (info.file_count, info.dir_count, info.total_size),
            (0, 0, 0)
        );
        assert!(!info.materialized);
        assert!(engine.workspaces.read_whole(ws, &path).is_err());
        assert!(
            engine
                .workspaces
                .delete_file(ws, &path, true, &user())
                .is_err()
        );
        engine.sync.sync_workspace(ws).unwrap();
        assert!(!on_disk.exists(), "looking made a directory");
        // A refused write does not make it either.
        let refused = WriteOptions {
            expect: offshoot_engine::Expect::Content(offshoot_core::EMPTY_BLOB),
            ..WriteOptions::default()
        };
        engine
            .workspaces
            .write_file(ws, &path, Content::Bytes(&bytes), &refused, &user())
            .unwrap_err();
        assert!(!on_disk.exists(), "a refused write made a directory");
        try_write(engine, ws, &path, &bytes).unwrap();
        assert!(!on_disk.exists(), "nobody needs one yet");
        assert_eq!(engine.workspaces.read_whole(ws, &path).unwrap().0, bytes);
        let stored = test.image(ws);
        engine.workspaces.hand_out_path(ws).unwrap();
        assert!(engine.workspaces.info(ws).unwrap().materialized);
        assert_eq!(test.image(ws), stored, "it is there as a whole");
        assert_eq!(out_of_line(test, ws), None);
    });
}

#[test]
fn property_what_is_written_is_read() {
    let strategy = (any_path(), any_content(), any_content(), any::<bool>());
    property(&strategy, |test, ws, (path, first, second, stream)| {
        let engine = &test.engine;
        for bytes in [&first, &second, &first] {
            let written = if stream {
                let content = Content::Stream(&mut &bytes[..]);
                let options = WriteOptions::default();
                engine
                    .workspaces
                    .write_file(ws, &path, content, &options, &user())
            } else {
                try_write(engine, ws, &path, bytes)
            }
            .unwrap();
            assert_eq!(written.size, bytes.len() as i64);
            let (read, id) = engine.workspaces.read_whole(ws, &path).unwrap();
            assert!(read == **bytes, "read something else");
            assert_eq!(id, written.id);
            let on_disk = test.image(ws);
            let node = &on_disk[&NodePath(path.as_bytes().to_vec())];
            assert_eq!(*node, Node::File(0o644, bytes.clone()));
            assert!(engine.history.version(ws, &id).unwrap() == **bytes);
        }
        let lines = engine.history.lines(ws, Some(&path), 0).unwrap();
        assert_eq!(lines.len(), 3, "every write is in the history");
    });
}

#[test]
fn property_parents_appear_and_info_is_a_real_count() {
    let files = prop::collection::vec((any_path(), any_content()), 1..6);
    property(&(files, any::<bool>()), |test, ws, (files, handed_out)| {
        let engine = &test.engine;
        if handed_out {
            engine.workspaces.hand_out_path(ws).unwrap();
        }
        for (path, bytes) in &files {
            match try_write(engine, ws, path, bytes) {
                Ok(written) => assert_eq!(written.path, *path),
                Err(error) => assert!(ops::is_an_answer(error.code()), "{error:?}"),
            }
            for parent in path.ancestors() {
                let known = engine.workspaces.list(ws, &parent);
                assert!(known.is_ok() || files.len() > 1, "{parent} did not appear");
            }
        }
        let counts = real_counts(&test.image(ws));
        let info = engine.workspaces.info(ws).unwrap();
        assert_eq!((info.file_count, info.dir_count, info.total_size), counts);
        let row = engine.workspaces.workspace(ws).unwrap();
        assert_eq!((row.files, row.dirs, row.bytes), counts);
        assert_eq!(out_of_line(test, ws), None);
    });
}

/// Everything that a refused call could have changed.
fn everything(test: &TestEngine) -> (DirImage, i64) {
    let seq = test.store().read(|tx| tx.last_seq()).unwrap();
    (dir_image(&test.data().join("workspaces")), seq)
}

#[test]
fn property_refused_paths_touch_nothing() {
    // Fragments that are refused at any position of a path.
    let bad = prop_oneof![
        Just(b"..".to_vec()),
        Just(b"a/..".to_vec()),
        Just(b"../a".to_vec()),
        Just(b"a\0b".to_vec()),
        (256_usize..400).prop_map(|length| vec![b'n'; length]),
        Just(vec![b'/'; 3]),
        Just(Vec::new()),
        (2_048_usize..2_200).prop_map(|depth| [b"d/".repeat(depth), b"x".to_vec()].concat()),
    ];
    let around = prop::collection::vec(prop::sample::select(vec!["a", ".", "b c", "x"]), 0..3);
    let strategy = (around.clone(), bad, around, 0..6_u8);
    let count = Cell::new(0_u32);
    property(&strategy, |test, ws, (before, bad, after, call)| {
        let mut bytes = before.join("/").into_bytes();
        let alone = bad.is_empty() || bad[0] == b'/';
        if alone {
            bytes.clear();
        } else if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(&bad);
        if !after.is_empty() && !bad.is_empty() {
            bytes.push(b'/');
            bytes.extend_from_slice(after.join("/").as_bytes());
        }
        let engine = &test.engine;
        if count.replace(count.get() + 1).is_multiple_of(2) {
            test.write(ws, "there", b"before");
        }
        // The whole data directory is compared now and then, the workspace always.
        let image = test.image(ws);
        let last = test.store().read(|tx| tx.last_seq()).unwrap();
        let outcome = RelPath::parse(&bytes).and_then(|path| match call {
            0 => try_write(engine, ws, &path, b"x").map(drop),
            1 => engine
                .workspaces
                .delete_file(ws, &path, true, &user())
                .map(drop),
            2 => engine
                .workspaces
                .move_file(ws, &p("there"), &path, &user())
                .map(drop),
            3 => engine.workspaces.make_dir_in(ws, &path, &user()).map(drop),
            4 => engine.workspaces.read_whole(ws, &path).map(drop),
            _ => engine.workspaces.list(ws, &path).map(drop),
        });
        let code = outcome.unwrap_err().code();
        assert!(
            [ErrorCode::PathTraversalBlocked, ErrorCode::InvalidRequest].contains(&code),
            "{code:?} for `{}`",
            bytes.escape_ascii()
        );
        assert_eq!(test.image(ws), image);
        assert_eq!(test.store().read(|tx| tx.last_seq()).unwrap(), last);
    });
}

#[test]
fn property_links_to_outside_are_refused_and_touch_nothing() {
    let target = prop::sample::select(vec![
        &b"/tmp"[..],
        b"..",
        b"../..",
        b"a/../../..",
        b"../w1",
        b"/",
        b"l2",
    ]);
    let strategy = (target, any_path(), 0..6_u8);
    property(&strategy, |test, ws, (target, path, call)| {
        use std::os::unix::ffi::OsStrExt;
        let engine = &test.engine;
        test.write(ws, "a/there", b"before");
        let root = engine.workspaces.hand_out_path(ws).unwrap();
        let target = std::ffi::OsStr::from_bytes(target);
        std::os::unix::fs::symlink(target, root.join("l")).unwrap();
        std::os::unix::fs::symlink("..", root.join("l2")).unwrap();
        engine.sync.sync_workspace(ws).unwrap();
        let before = everything(test);
        let beyond = p("l").join(&path);
        let outcome = match call {
            0 => try_write(engine, ws, &beyond, b"x").map(drop),
            1 => engine
                .workspaces
                .delete_file(ws, &beyond, true, &user())
                .map(drop),
            2 => engine
                .workspaces
                .move_file(ws, &p("a/there"), &beyond, &user())
                .map(drop),
            3 => engine
                .workspaces
                .make_dir_in(ws, &beyond, &user())
                .map(drop),
            4 => engine.workspaces.read_whole(ws, &beyond).map(drop),
            _ => engine.workspaces.list(ws, &beyond).map(drop),
        };
        let code = outcome.unwrap_err().code();
        let not_there = call == 1 && code == ErrorCode::FileNotFound;
        assert!(
            not_there || code == ErrorCode::PathTraversalBlocked,
            "{code:?}"
        );
        assert_eq!(everything(test), before);
    });
}

#[test]
fn property_two_workspaces_never_share_a_path() {
    let id = "[a-zA-Z0-9][a-zA-Z0-9._~-]{0,20}";
    let strategy = (id, id, any_path(), any_content());
    let taken: RefCell<BTreeSet<String>> = RefCell::default();
    property(&strategy, |test, _, (one, two, path, bytes)| {
        let make = |id: &str| {
            let id = id.parse().ok()?;
            test.engine
                .workspaces
                .create_workspace(Some(id), Layout::Plain, Quota::default(), &user())
                .map_err(|error| assert_eq!(error.code(), ErrorCode::AlreadyExists))
                .ok()
        };
        let made: Vec<WorkspaceId> = [one, two]
            .iter()
            .filter_map(|id| make(id))
            .map(|ws| ws.id)
            .collect();
        for ws in &made {
            assert!(
                taken.borrow_mut().insert(ws.as_str().to_owned()),
                "{ws} was given twice"
            );
            assert!(
                test.engine
                    .workspaces
                    .list(ws, &RelPath::root())
                    .unwrap()
                    .is_empty()
            );
        }
        if let [one, two] = &made[..] {
            try_write(&test.engine, one, &path, &bytes).unwrap();
            assert!(!test.path_of(two).exists());
            let paths = [one, two].map(|ws| test.engine.workspaces.hand_out_path(ws).unwrap());
            assert!(!paths[0].starts_with(&paths[1]) && !paths[1].starts_with(&paths[0]));
            assert!(test.image(two).is_empty());
            test.engine
                .workspaces
                .delete_workspace(one, &user())
                .unwrap();
            taken.borrow_mut().remove(one.as_str());
            assert!(test.path_of(two).exists() && !test.path_of(one).exists());
        }
    });
}

const NAMES: &[&[u8]] = &[b"a", b"b", b"c", b"x.log", b"build", b"n\n\xff"];
const GIT_NAMES: &[&[u8]] = &[b"a", b"b", b".git", b"a", b"HEAD"];
const RULES: [&[u8]; 4] = [b"", b"*.log\n", b"build/\n*.log\n", b"build/\n"];

/// Whether the rules match this path or a directory above it.
fn ignored(rules: &[u8], path: &NodePath, image: &DirImage) -> bool {
    let rules = String::from_utf8_lossy(rules).into_owned();
    let full = RelPath::from_normal(path.0.clone());
    let mut steps = full.ancestors();
    steps.push(full);
    // Rules do not apply inside a nested repository.
    let outside = |step: &&RelPath| !step.has_part(b".git");
    steps.iter().skip(1).filter(outside).any(|step| {
        let node = image.get(&NodePath(step.as_bytes().to_vec()));
        let is_dir = matches!(node, Some(Node::Dir(_)));
        (rules.contains("*.log") && step.name().ends_with(b".log"))
            || (rules.contains("build/") && step.name() == b"build" && is_dir)
    })
}

/// What a snapshot of a directory takes, if `tracked` was in the snapshot before.
fn taken(image: &DirImage, tracked: &DirImage) -> DirImage {
    let rules = rules_of(image);
    let same_sort = |path: &NodePath, node: &Node| {
        let old = tracked.get(path);
        old.is_some_and(|old| matches!(old, Node::Dir(_)) == matches!(node, Node::Dir(_)))
    };
    image
        .iter()
        .filter(|(path, node)| same_sort(path, node) || !ignored(&rules, path, image))
        .map(|(path, node)| (path.clone(), node.clone()))
        .collect()
}

fn rules_of(image: &DirImage) -> Vec<u8> {
    match image.get(&NodePath(b".gitignore".to_vec())) {
        Some(Node::File(_, bytes)) => bytes.clone(),
        _ => Vec::new(),
    }
}

fn put_rules(engine: &Engine, ws: &WorkspaceId, rules: usize) {
    try_write(engine, ws, &p(".gitignore"), RULES[rules]).unwrap();
}

fn do_all(test: &TestEngine, ws: &WorkspaceId, handed_out: bool, steps: &[Op]) {
    for step in steps {
        match step {
            Op::Outside(step) => {
                if handed_out {
                    ops::run_outside(&test.path_of(ws), step);
                }
            }
            step => {
                if let Err(error) = ops::run(&test.engine, ws, step) {
                    assert!(ops::is_an_answer(error.code()), "{step:?}: {error:?}");
                }
            }
        }
    }
}

/// The expected directory after `target` was restored over `now`; none if an ignored file is where
/// a file or link must be written.
fn expected_after_restore(
    target: &DirImage,
    now: &DirImage,
    tracked: &DirImage,
) -> Option<DirImage> {
    let left_alone: Vec<&NodePath> = {
        let taken = taken(now, tracked);
        now.keys()
            .filter(|path| !taken.contains_key(path))
            .collect()
    };
    let mut expected = target.clone();
    for path in left_alone {
        let full = RelPath::from_normal(path.0.clone());
        for above in full.dirs_above() {
            let key = NodePath(above.as_bytes().to_vec());
            match expected.get(&key) {
                Some(Node::Dir(_)) => {}
                Some(_) => return None,
                None => {
                    expected.insert(key.clone(), now[&key].clone());
                }
            }
        }
        // A file of the snapshot replaces an ignored file or link at its path, whose content is
        // then in the history.
        expected
            .entry(path.clone())
            .or_insert_with(|| now[path].clone());
    }
    Some(expected)
}

fn edits() -> impl Strategy<Value = Vec<Op>> {
    let git = ops::op(GIT_NAMES, true);
    prop::collection::vec(prop_oneof![6 => ops::op(NAMES, true), 1 => git], 0..14)
}

#[test]
fn property_restore_gives_back_the_same_tree_sidecar_included() {
    let strategy = (edits(), edits(), 0..4_usize, 0..4_usize, any::<bool>());
    property(
        &strategy,
        |test, ws, (build, edits, rules, later_rules, handed_out)| {
            let engine = &test.engine;
            if handed_out {
                engine.workspaces.hand_out_path(ws).unwrap();
            }
            put_rules(engine, ws, rules);
            do_all(test, ws, handed_out, &build);
            let first = engine
                .workspaces
                .snapshot(ws, Some("first"), false, &user())
                .unwrap();
            let tracked = taken(&test.image(ws), &DirImage::new());
            put_rules(engine, ws, later_rules);
            do_all(test, ws, handed_out, &edits);
            let before = test.image(ws);
            let expected = expected_after_restore(&tracked, &before, &tracked);
            let outcome = engine
                .workspaces
                .restore(ws, &first.snapshot.id.to_hex(), None, &user());
            let Some(expected) = expected else {
                let error = outcome.unwrap_err();
                assert_eq!(error.code(), ErrorCode::AlreadyExists, "{error:?}");
                assert_eq!(
                    test.image(ws),
                    before,
                    "a refused restore changed something"
                );
                return;
            };
            let restored = outcome.unwrap_or_else(|error| panic!("{error:?} with {before:#?}"));
            assert_eq!(test.image(ws), expected);
            let now_rules = rules_of(&expected);
            let known: DirImage = taken(&expected, &tracked);
            let index = index_of(engine, ws);
            for path in known.keys() {
                // The next sync finds directories that hold only files that the index never had.
                assert!(
                    handed_out || index.contains_key(path),
                    "{path:?} is not in the index"
                );
            }
            if !handed_out {
                assert_eq!(out_of_line(test, ws), None);
            }
            let Some(kept) = restored.kept else { return };
            if now_rules != RULES[later_rules] {
                return;
            }
            // The state before the restore can be restored as well.
            let before_tracked = taken(&before, &tracked);
            let now = test.image(ws);
            let Some(expected) = expected_after_restore(&before_tracked, &now, &tracked) else {
                return;
            };
            engine
                .workspaces
                .restore(ws, &kept.to_hex(), None, &user())
                .unwrap();
            assert_eq!(test.image(ws), expected, "the kept state did not come back");
        },
    );
}

/// The model: the entry at every path of a workspace without links and rules.
type Model = BTreeMap<RelPath, Option<Vec<u8>>>;

fn model_dir(model: &Model, path: &RelPath) -> bool {
    path.is_root() || matches!(model.get(path), Some(None))
}

/// The expected answer of the engine, and the model after it.
fn model_step(model: &mut Model, step: &Op) -> Result<(), ErrorCode> {
    let file_above = |model: &Model, path: &RelPath| {
        let above = path.ancestors();
        above
            .iter()
            .any(|dir| matches!(model.get(dir), Some(Some(_))))
    };
    let make_parents = |model: &mut Model, path: &RelPath| {
        for above in path.dirs_above() {
            model.entry(above).or_insert(None);
        }
    };
    match step {
        Op::Write(path, bytes) => {
            if file_above(model, path) {
                return Err(ErrorCode::NotADirectory);
            }
            if model_dir(model, path) {
                return Err(ErrorCode::IsADirectory);
            }
            make_parents(model, path);
            model.insert(path.clone(), Some(bytes.clone()));
        }
        Op::Mkdir(path) => {
            if file_above(model, path) {
                return Err(ErrorCode::NotADirectory);
            }
            if matches!(model.get(path), Some(Some(_))) {
                return Err(ErrorCode::AlreadyExists);
            }
            make_parents(model, path);
            model.insert(path.clone(), None);
        }
        Op::Delete(path, all) => {
            if !model.contains_key(path) {
                return Err(ErrorCode::FileNotFound);
            }
            let below = model.keys().filter(|key| key.starts_with(path)).count();
            if below > 1 && !all {
                return Err(ErrorCode::IsADirectory);
            }
            model.retain(|key, _| !key.starts_with(path));
        }
        Op::Move(from, to) => {
            if to.starts_with(from) {
                return Err(ErrorCode::InvalidRequest);
            }
            if !model.contains_key(from) {
                return Err(ErrorCode::FileNotFound);
            }
            if model.contains_key(to) {
                return Err(ErrorCode::AlreadyExists);
            }
            if file_above(model, to) {
                return Err(ErrorCode::NotADirectory);
            }
            make_parents(model, to);
            let moved: Vec<(RelPath, Option<Vec<u8>>)> = model
                .iter()
                .filter(|(key, _)| key.starts_with(from))
                .map(|(key, value)| (to.join(&key.strip_prefix(from).unwrap()), value.clone()))
                .collect();
            model.retain(|key, _| !key.starts_with(from));
            model.extend(moved);
        }
        Op::Outside(_) => {}
    }
    Ok(())
}

/// The model of the directory, with the changes of calls and of outside programs.
fn model_of(root: &Path) -> Model {
    let nodes = dir_image(root).into_iter();
    nodes
        .map(|(path, node)| {
            let content = match node {
                Node::Dir(_) => None,
                Node::File(_, bytes) | Node::Symlink(bytes) => Some(bytes),
            };
            (RelPath::from_normal(path.0), content)
        })
        .collect()
}

/// Reads a whole workspace through the engine: listings and contents.
fn read_all(engine: &Engine, ws: &WorkspaceId) -> Model {
    let mut model = Model::new();
    let mut open = vec![RelPath::root()];
    while let Some(dir) = open.pop() {
        for entry in engine.workspaces.list(ws, &dir).unwrap() {
            if entry.kind == offshoot_core::EntryKind::Dir {
                open.push(entry.path.clone());
                model.insert(entry.path, None);
            } else {
                let (bytes, _) = engine.workspaces.read_whole(ws, &entry.path).unwrap();
                assert_eq!(entry.size, bytes.len() as i64);
                model.insert(entry.path, Some(bytes));
            }
        }
    }
    model
}

/// One step of a longer sequence.
#[derive(Clone, Debug)]
enum Step {
    Op(Op),
    Snapshot,
    /// A restore of an earlier snapshot, perhaps of one path only.
    Restore(prop::sample::Index, Option<RelPath>),
    Sync,
    Reopen,
}

/// So few values that states recur, and restores meet what was restored before.
const MODEL_NAMES: &[&[u8]] = &[b"a", b"b"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => ops::op(MODEL_NAMES, false).prop_map(Step::Op),
        3 => Just(Step::Snapshot),
        4 => (any::<prop::sample::Index>(), prop::option::of(ops::path(MODEL_NAMES)))
            .prop_map(|(index, path)| Step::Restore(index, path)),
        1 => Just(Step::Sync),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

/// Restores one path of a model. False if a file is in the way.
fn model_restore(model: &mut Model, target: &Model, path: &RelPath) -> bool {
    let comes = target.keys().any(|key| key.starts_with(path));
    if comes {
        for above in path.dirs_above() {
            if matches!(model.get(&above), Some(Some(_))) {
                return false;
            }
        }
    }
    model.retain(|key, _| !key.starts_with(path));
    for (key, value) in target.iter().filter(|(key, _)| key.starts_with(path)) {
        for above in key.dirs_above() {
            model.entry(above).or_insert(None);
        }
        model.insert(key.clone(), value.clone());
    }
    true
}

fn live(test: &mut TestEngine, ws: &WorkspaceId, steps: &[Step], handed_out: bool) {
    let mut model = Model::new();
    let mut snapshots: Vec<(String, Model)> = Vec::new();
    let mut acknowledged: Vec<(RelPath, Vec<u8>)> = Vec::new();
    if handed_out {
        test.engine.workspaces.hand_out_path(ws).unwrap();
    }
    for step in steps {
        let engine = &test.engine;
        match step {
            Step::Op(Op::Outside(step)) => {
                if handed_out {
                    ops::run_outside(&test.path_of(ws), step);
                    model = model_of(&test.path_of(ws));
                }
            }
            Step::Op(step) => {
                let expected = model_step(&mut model, step);
                let outcome = ops::run(engine, ws, step).map_err(|error| error.code());
                assert_eq!(outcome, expected, "{step:?}");
                if let (Op::Write(path, bytes), Ok(())) = (step, outcome) {
                    acknowledged.push((path.clone(), bytes.clone()));
                }
            }
            Step::Snapshot => {
                let taken = engine
                    .workspaces
                    .snapshot(ws, None, false, &user())
                    .unwrap();
                snapshots.push((taken.snapshot.id.to_hex(), model.clone()));
            }
            Step::Restore(index, path) if !snapshots.is_empty() => {
                let (id, target) = index.get(&snapshots);
                let whole = RelPath::root();
                let below = path.as_ref().unwrap_or(&whole);
                let known =
                    below.is_root() || target.contains_key(below) || model.contains_key(below);
                let outcome = engine.workspaces.restore(ws, id, path.as_ref(), &user());
                if !known {
                    assert_eq!(outcome.unwrap_err().code(), ErrorCode::FileNotFound);
                } else if model_restore(&mut model, target, below) {
                    let restored = outcome.unwrap();
                    if let Some(kept) = restored.kept {
                        let found = engine.workspaces.snapshots(ws, 0).unwrap();
                        assert!(found.iter().any(|snapshot| snapshot.id == kept));
                    }
                } else {
                    assert_eq!(outcome.unwrap_err().code(), ErrorCode::NotADirectory);
                }
            }
            Step::Restore(..) => {}
            Step::Sync => {
                engine.sync.sync_workspace(ws).unwrap();
            }
            Step::Reopen => test.reopen(),
        }
        assert_eq!(test.path_of(ws).exists(), handed_out);
        if handed_out {
            assert_eq!(
                model_of(&test.path_of(ws)),
                model,
                "on disk, after {step:?}"
            );
        }
        assert_eq!(read_all(&test.engine, ws), model, "after {step:?}");
    }
    let engine = &test.engine;
    engine.sync.sync_workspace(ws).unwrap();
    assert_eq!(out_of_line(test, ws), None);
    for (path, bytes) in &acknowledged {
        let lines = engine.history.lines(ws, Some(path), 0).unwrap();
        let id = offshoot_git::hash(offshoot_core::ObjectKind::Blob, bytes).unwrap();
        assert!(
            lines.iter().any(|line| line.line.after == Some(id)),
            "an acknowledged version of {path} is not in its history"
        );
        assert!(engine.history.version(ws, &id).unwrap() == *bytes);
    }
    for (id, state) in &snapshots {
        for (path, content) in state {
            if let Some(content) = content {
                assert!(engine.workspaces.file_at(ws, id, path).unwrap() == *content);
            }
        }
    }
}

#[test]
fn property_the_engine_behaves_like_the_model() {
    property(&steps(), |test, ws, steps| live(test, ws, &steps, false));
}

#[test]
fn property_the_engine_behaves_like_the_model_beside_outside_programs() {
    property(&steps(), |test, ws, steps| live(test, ws, &steps, true));
}

#[test]
fn property_outside_links_and_modes_are_found_and_kept() {
    let steps = prop::collection::vec(ops::op(NAMES, true), 0..16);
    property(&steps, |test, ws, steps| {
        let engine = &test.engine;
        engine.workspaces.hand_out_path(ws).unwrap();
        for step in &steps {
            do_all(test, ws, true, std::slice::from_ref(step));
            if matches!(
                step,
                Op::Outside(OutsideOp::Rename(..) | OutsideOp::Symlink(..) | OutsideOp::Swap(..))
            ) {
                engine.sync.sync_workspace(ws).unwrap();
            }
        }
        engine.sync.sync_workspace(ws).unwrap();
        assert_eq!(out_of_line(test, ws), None);
    });
}

/// Recovery counts any index like a walk over it.
#[test]
fn property_recovery_puts_wrong_counters_right() {
    let strategy = (edits(), edits(), 0..4_usize, any::<bool>());
    property(&strategy, |test, ws, (build, edits, rules, handed_out)| {
        if handed_out {
            test.engine.workspaces.hand_out_path(ws).unwrap();
        }
        do_all(test, ws, handed_out, &build);
        put_rules(&test.engine, ws, rules);
        test.engine
            .workspaces
            .snapshot(ws, None, false, &user())
            .unwrap();
        do_all(test, ws, handed_out, &edits);
        test.engine.sync.sync_workspace(ws).unwrap();
        let right = test.engine.workspaces.workspace(ws).unwrap();
        test.close();
        let wrong = |tx: &mut dyn offshoot_store::WriteTx| {
            let mut row = tx.workspace(ws)?.unwrap();
            (row.files, row.dirs, row.bytes) = (row.files + 3, row.dirs - 2, row.bytes + 5);
            tx.update_workspace(&row)
        };
        let durability = offshoot_store::Durability::Synced;
        test.store().write(durability, wrong).unwrap();
        // A process that was killed.
        std::fs::write(test.data().join("run/0000"), b"").unwrap();
        test.reopen();
        test.engine.context.wait_for_jobs();
        let now = test.engine.workspaces.workspace(ws).unwrap();
        let counters = |row: &offshoot_engine::Workspace| (row.files, row.dirs, row.bytes);
        assert_eq!(counters(&now), counters(&right));
    });
}

/// A program swaps files, directories and links for each other all the time while calls and syncs
/// go on. Any of its states may be recorded, and the counters fit the index.
#[test]
fn counters_hold_while_files_directories_and_links_are_swapped() {
    use crate::fixture::ops::Swapped;
    use std::sync::atomic::{AtomicBool, Ordering};
    const FORMS: [Swapped; 5] = [
        Swapped::Dir,
        Swapped::Holding(b"a", false),
        Swapped::Link,
        Swapped::Holding(b"b", true),
        Swapped::File,
    ];
    let test = TestEngine::plain();
    let ws = test.create("w");
    let engine = &test.engine;
    let root = engine.workspaces.hand_out_path(&ws).unwrap();
    let mut rng = offshoot_testkit::Rng::new(7);
    for _ in 0..cases(40) {
        let stop = AtomicBool::new(false);
        let path = ["a", "b", "a/b", "b/a"][rng.below(4)];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for form in FORMS.iter().cycle() {
                    ops::run_outside(&root, &OutsideOp::Swap(p(path), *form));
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            for call in 0..8 {
                // What is at the path at that moment may make the call fail.
                let deep = p(&format!("{path}/{}", ["a", "b/deep", "c"][call % 3]));
                let _ = match call % 4 {
                    0 => engine.sync.sync_workspace(&ws).map(drop),
                    1 => try_write(engine, &ws, &deep, b"through us").map(drop),
                    2 => engine
                        .workspaces
                        .delete_file(&ws, &deep, true, &user())
                        .map(drop),
                    _ => engine
                        .workspaces
                        .snapshot(&ws, None, false, &user())
                        .map(drop),
                };
                let wrong = crate::fixture::consistency::miscounted(&test, &ws);
                stop.store(wrong.is_some(), Ordering::Relaxed);
                assert_eq!(wrong, None, "after call {call}");
            }
            stop.store(true, Ordering::Relaxed);
        });
        engine.sync.sync_workspace(&ws).unwrap();
        assert_eq!(out_of_line(&test, &ws), None);
    }
}
