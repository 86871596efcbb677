//! The n-th call to store or disk fails, for every n: each operation happens whole or not at all,
//! nothing is damaged, and a retry works.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use crate::fixture::consistency::{out_of_line, prove_store};
use crate::fixture::{TestEngine, chmod, p, try_write, user};
use offshoot_core::{ErrorCode, Result, WorkspaceId};
use offshoot_engine::{Content, Engine, WriteOptions};
use offshoot_fs::PathResolver;
use offshoot_testkit::DirImage;

/// The most calls of any operation here; more mean that the test is broken.
const MOST_CALLS: u64 = 3_000;

/// What callers can see of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Observed {
    open: bool,
    image: DirImage,
    snapshots: usize,
}

fn observe(test: &TestEngine, ws: &WorkspaceId) -> Observed {
    let open = test.engine.workspaces.workspace(ws).is_ok();
    Observed {
        open,
        image: test.image(ws),
        snapshots: if open {
            test.engine.workspaces.snapshots(ws, 0).unwrap().len()
        } else {
            0
        },
    }
}

/// How a call fails: once, or together with every call after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    Once,
    FromThenOn,
}

impl Failing {
    fn arm(self, test: &TestEngine, n: u64) {
        match self {
            Failing::Once => test.plan.arm(n),
            Failing::FromThenOn => test.plan.arm_from(n),
        }
    }

    /// Every call is tried with a single failure. A disk that stays away has much the same effect
    /// from one call to the next, so outside of a soak some calls are enough.
    fn step(self) -> u64 {
        if self == Failing::Once || offshoot_testkit::soak() {
            1
        } else {
            5
        }
    }
}

/// An operation and its preparation.
struct Case<'a> {
    prepare: &'a dyn Fn(&TestEngine, &WorkspaceId),
    operate: &'a dyn Fn(&Engine, &WorkspaceId) -> Result<()>,
    /// Whether a complete part of the operation may remain: a restore and a deletion make a
    /// snapshot of the current state first.
    keeps_first: bool,
}

fn every_fault(form: Option<PathResolver>, case: &Case<'_>) {
    for failing in [Failing::Once, Failing::FromThenOn] {
        let mut test = TestEngine::with_form(form);
        let (before, after) = clean_run(&test, case);
        let step = failing.step();
        let mut n = 0;
        loop {
            n += if n == 0 { 1 } else { step };
            assert!(n < MOST_CALLS, "the fault strikes again and again");
            let ws = test.create(&format!("w{n}"));
            (case.prepare)(&test, &ws);
            failing.arm(&test, n);
            let outcome = (case.operate)(&test.engine, &ws);
            if !test.plan.disarm() {
                outcome.unwrap();
                assert_eq!(observe(&test, &ws), after);
                break;
            }
            let at = format!("{failing:?} at call {n}: {outcome:?}");
            if outcome.is_err() {
                test.reopen();
            }
            check_whole(&test, &ws, case, &before, &after, &at);
            let retried = (case.operate)(&test.engine, &ws);
            let now = observe(&test, &ws);
            assert_eq!(
                (now.open, &now.image),
                (after.open, &after.image),
                "retry after {at}: {retried:?}"
            );
            if now.open {
                assert_eq!(out_of_line(&test, &ws), None, "after the retry, {at}");
            }
        }
        assert!(n > 3, "an operation of {n} calls was not really tried");
        prove(&mut test);
    }
}

/// Nothing is damaged, by the engine's own check and by one that shares no code with it.
fn prove(test: &mut TestEngine) {
    let report = test.engine.upkeep.check().unwrap();
    assert_eq!(report.problems, []);
    assert!(report.objects > 0 && report.workspaces > 0);
    test.close();
    prove_store(test);
}

/// The states before and after if nothing fails.
fn clean_run(test: &TestEngine, case: &Case<'_>) -> (Observed, Observed) {
    let ws = test.create("clean");
    (case.prepare)(test, &ws);
    let before = observe(test, &ws);
    (case.operate)(&test.engine, &ws).unwrap();
    let after = observe(test, &ws);
    assert_ne!(before, after, "the operation must do something");
    if after.open {
        assert_eq!(out_of_line(test, &ws), None, "without any fault");
        (case.operate)(&test.engine, &ws).unwrap();
        assert_eq!(test.image(&ws), after.image, "done twice");
        assert_eq!(out_of_line(test, &ws), None, "done twice");
    }
    (before, after)
}

fn check_whole(
    test: &TestEngine,
    ws: &WorkspaceId,
    case: &Case<'_>,
    before: &Observed,
    after: &Observed,
    at: &str,
) {
    let now = observe(test, ws);
    let kept = Observed {
        snapshots: before.snapshots + 1,
        ..before.clone()
    };
    let whole = now == *before || now == *after || (case.keeps_first && now == kept);
    assert!(
        whole,
        "half done, {at}:\n{now:#?}\nneither {before:#?}\nnor {after:#?}"
    );
    // Without outside programs the directory equals the index. With them it may be ahead until the
    // next sync, which the retry does.
    if now.open && !test.engine.workspaces.workspace(ws).unwrap().handed_out {
        assert_eq!(out_of_line(test, ws), None, "{at}");
    }
}

fn put(engine: &Engine, ws: &WorkspaceId, path: &str, bytes: &[u8]) -> Result<()> {
    try_write(engine, ws, &p(path), bytes).map(drop)
}

fn some_files(test: &TestEngine, ws: &WorkspaceId) {
    test.write(ws, "a.txt", b"one");
    test.write(ws, "d/b.txt", b"two");
    test.write(ws, "d/e/c.txt", b"three");
    test.engine
        .workspaces
        .make_dir_in(ws, &p("empty/inner"), &user())
        .unwrap();
}

/// Changes of every kind that an outside program can make.
fn outside_edits(test: &TestEngine, ws: &WorkspaceId) {
    let root = test.engine.workspaces.hand_out_path(ws).unwrap();
    fs::write(root.join("a.txt"), b"eno").unwrap();
    chmod(&root.join("d/b.txt"), 0o600);
    fs::remove_dir_all(root.join("d/e")).unwrap();
    symlink("../a.txt", root.join("d/e")).unwrap();
    fs::create_dir_all(root.join("new/.git")).unwrap();
    fs::write(root.join("new/.git/HEAD"), b"ref").unwrap();
    fs::write(root.join("new/large"), vec![7; 40_000]).unwrap();
}

#[test]
fn fault_write_makes_the_directory_or_nothing() {
    every_fault(
        None,
        &Case {
            prepare: &|_, _| {},
            operate: &|engine, ws| put(engine, ws, "a.txt", b"first"),
            keeps_first: false,
        },
    );
}

#[test]
fn fault_write_over_a_file() {
    every_fault(
        None,
        &Case {
            prepare: &some_files,
            operate: &|engine, ws| put(engine, ws, "a.txt", b"second"),
            keeps_first: false,
        },
    );
}

#[test]
fn fault_write_below_new_directories() {
    every_fault(
        None,
        &Case {
            prepare: &some_files,
            operate: &|engine, ws| put(engine, ws, "x/y/z.txt", b"deep"),
            keeps_first: false,
        },
    );
}

#[test]
fn fault_write_of_a_blob() {
    let noise: Vec<u8> = {
        let mut bytes = vec![0; 300_000];
        offshoot_testkit::Rng::new(5).fill(&mut bytes);
        bytes
    };
    every_fault(
        None,
        &Case {
            prepare: &some_files,
            operate: &|engine, ws| put(engine, ws, "a.txt", &noise),
            keeps_first: false,
        },
    );
}

#[test]
fn fault_write_beside_outside_programs() {
    every_fault(
        None,
        &Case {
            prepare: &|test, ws| {
                some_files(test, ws);
                let root = test.engine.workspaces.hand_out_path(ws).unwrap();
                fs::write(root.join("d/b.txt"), b"from outside").unwrap();
            },
            operate: &|engine, ws| put(engine, ws, "d/b.txt", b"second"),
            keeps_first: false,
        },
    );
}

#[test]
fn fault_write_by_the_portable_form() {
    every_fault(
        Some(PathResolver::Portable),
        &Case {
            prepare: &some_files,
            operate: &|engine, ws| put(engine, ws, "x/y/z.txt", b"deep"),
            keeps_first: false,
        },
    );
}

#[test]
fn fault_upload() {
    every_fault(
        None,
        &Case {
            prepare: &|test, ws| {
                test.write(ws, "upload/a.txt", b"taken");
            },
            operate: &|engine, ws| {
                // A retry after a completed upload would rightly make another file.
                let options = WriteOptions::default();
                if engine
                    .workspaces
                    .read_whole(ws, &p("upload/a (1).txt"))
                    .is_ok()
                {
                    return Ok(());
                }
                engine
                    .workspaces
                    .upload(ws, b"a.txt", Content::Bytes(b"mine"), &options, &user())
                    .map(drop)
            },
            keeps_first: false,
        },
    );
}

#[test]
fn fault_edit() {
    every_fault(
        None,
        &Case {
            prepare: &some_files,
            operate: &|engine, ws| {
                match engine
                    .workspaces
                    .edit_file(ws, &p("a.txt"), "one", "1", false, &user())
                {
                    // The first attempt had made the edit.
                    Err(error) if error.code() == ErrorCode::InvalidRequest => Ok(()),
                    other => other.map(drop),
                }
            },
            keeps_first: false,
        },
    );
}

#[test]
fn fault_mkdir() {
    every_fault(
        None,
        &Case {
            prepare: &some_files,
            operate: &|engine, ws| {
                engine
                    .workspaces
                    .make_dir_in(ws, &p("x/y"), &user())
                    .map(drop)
            },
            keeps_first: false,
        },
    );
}

/// The answer of a second attempt if the first one succeeded.
fn or_gone(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.code() == ErrorCode::FileNotFound => Ok(()),
        other => other,
    }
}

#[test]
fn fault_delete() {
    for (path, recursive) in [("a.txt", false), ("d", true), ("d/e/c.txt", true)] {
        for snapshot_first in [false, true] {
            every_fault(
                None,
                &Case {
                    prepare: &|test, ws| {
                        some_files(test, ws);
                        if snapshot_first {
                            test.engine
                                .workspaces
                                .snapshot(ws, None, false, &user())
                                .unwrap();
                        }
                    },
                    operate: &|engine, ws| {
                        let outcome =
                            engine
                                .workspaces
                                .delete_file(ws, &p(path), recursive, &user());
                        or_gone(outcome.map(drop))
                    },
                    keeps_first: false,
                },
            );
        }
    }
}

#[test]
fn fault_move() {
    for (from, to) in [("a.txt", "x/y.txt"), ("d", "n/m"), ("d/e", "e")] {
        every_fault(
            None,
            &Case {
                prepare: &|test, ws| {
                    some_files(test, ws);
                    test.engine
                        .workspaces
                        .snapshot(ws, None, false, &user())
                        .unwrap();
                },
                operate: &|engine, ws| {
                    or_gone(
                        engine
                            .workspaces
                            .move_file(ws, &p(from), &p(to), &user())
                            .map(drop),
                    )
                },
                keeps_first: false,
            },
        );
    }
}

#[test]
fn fault_snapshot() {
    every_fault(
        None,
        &Case {
            prepare: &some_files,
            operate: &|engine, ws| {
                engine
                    .workspaces
                    .snapshot(ws, None, false, &user())
                    .map(drop)
            },
            keeps_first: false,
        },
    );
}

#[test]
fn fault_snapshot_beside_outside_programs() {
    every_fault(
        None,
        &Case {
            prepare: &|test, ws| {
                some_files(test, ws);
                outside_edits(test, ws);
            },
            operate: &|engine, ws| {
                engine
                    .workspaces
                    .snapshot(ws, None, false, &user())
                    .map(drop)
            },
            keeps_first: false,
        },
    );
}

/// A state, then another one that differs from it in every way.
fn two_states(test: &TestEngine, ws: &WorkspaceId) -> String {
    some_files(test, ws);
    test.write(ws, "other/b.txt", b"not to be touched");
    outside_edits(test, ws);
    let first = test
        .engine
        .workspaces
        .snapshot(ws, None, false, &user())
        .unwrap();
    let root = test.engine.workspaces.hand_out_path(ws).unwrap();
    // A file becomes a directory, a directory a link to another one that has the same names.
    fs::remove_file(root.join("a.txt")).unwrap();
    fs::create_dir(root.join("a.txt")).unwrap();
    fs::write(root.join("a.txt/inside"), b"inside").unwrap();
    fs::remove_dir_all(root.join("d")).unwrap();
    symlink("other", root.join("d")).unwrap();
    fs::remove_dir_all(root.join("new")).unwrap();
    fs::write(root.join("late"), b"late").unwrap();
    first.snapshot.id.to_hex()
}

/// The snapshot that [`two_states`] took, also when restores have added newer ones.
fn oldest(engine: &Engine, ws: &WorkspaceId) -> Result<String> {
    let all = engine.workspaces.snapshots(ws, 0)?;
    Ok(all
        .last()
        .map_or_else(String::new, |oldest| oldest.id.to_hex()))
}

#[test]
fn fault_restore() {
    every_fault(
        None,
        &Case {
            prepare: &|test, ws| {
                two_states(test, ws);
            },
            operate: &|engine, ws| {
                let target = oldest(engine, ws)?;
                engine
                    .workspaces
                    .restore(ws, &target, None, &user())
                    .map(drop)
            },
            keeps_first: true,
        },
    );
}

#[test]
fn fault_restore_to_links() {
    every_fault(
        None,
        &Case {
            prepare: &|test, ws| {
                let first = two_states(test, ws);
                test.engine
                    .workspaces
                    .restore(ws, &first, None, &user())
                    .unwrap();
            },
            operate: &|engine, ws| {
                let all = engine.workspaces.snapshots(ws, 0)?;
                let kept = all.iter().find(|snapshot| snapshot.number == 2).unwrap().id;
                engine
                    .workspaces
                    .restore(ws, &kept.to_hex(), None, &user())
                    .map(drop)
            },
            keeps_first: true,
        },
    );
}

#[test]
fn fault_restore_of_one_path() {
    for path in ["d", "new/.git/HEAD", "late"] {
        every_fault(
            None,
            &Case {
                prepare: &|test, ws| {
                    two_states(test, ws);
                },
                operate: &|engine, ws| {
                    let target = oldest(engine, ws)?;
                    or_gone(
                        engine
                            .workspaces
                            .restore(ws, &target, Some(&p(path)), &user())
                            .map(drop),
                    )
                },
                keeps_first: true,
            },
        );
    }
}

#[test]
fn fault_restore_in_a_workspace_of_our_own() {
    for form in [None, Some(PathResolver::Portable)] {
        every_fault(
            form,
            &Case {
                prepare: &|test, ws| {
                    some_files(test, ws);
                    test.engine
                        .workspaces
                        .snapshot(ws, None, false, &user())
                        .unwrap();
                    test.engine
                        .workspaces
                        .delete_file(ws, &p("d"), true, &user())
                        .unwrap();
                    test.write(ws, "d", b"a file now");
                    test.engine
                        .workspaces
                        .delete_file(ws, &p("a.txt"), false, &user())
                        .unwrap();
                    test.write(ws, "a.txt/b", b"a directory now");
                },
                operate: &|engine, ws| {
                    let target = oldest(engine, ws)?;
                    engine
                        .workspaces
                        .restore(ws, &target, None, &user())
                        .map(drop)
                },
                keeps_first: true,
            },
        );
    }
}

#[test]
fn fault_sync() {
    for form in [None, Some(PathResolver::Portable)] {
        // The directory stays the same; only what is recorded changes.
        let mut test = TestEngine::with_form(form);
        for n in 1..MOST_CALLS {
            let ws = test.create(&format!("w{n}"));
            some_files(&test, &ws);
            outside_edits(&test, &ws);
            let image = test.image(&ws);
            let lines = test.engine.history.lines(&ws, None, 0).unwrap().len();
            test.plan.arm(n);
            let outcome = test.engine.sync.sync_workspace(&ws);
            let struck = test.plan.disarm();
            if outcome.is_err() {
                test.reopen();
                let now = test.engine.history.lines(&ws, None, 0).unwrap().len();
                assert_eq!(now, lines, "half a sync is in the history at call {n}");
            }
            assert_eq!(
                test.image(&ws),
                image,
                "a sync changed the directory at call {n}"
            );
            test.engine.sync.sync_workspace(&ws).unwrap();
            assert_eq!(out_of_line(&test, &ws), None, "at call {n}");
            if !struck {
                prove(&mut test);
                break;
            }
            assert!(n + 1 < MOST_CALLS, "the fault strikes again and again");
        }
    }
}

#[test]
fn fault_hand_out() {
    let mut test = TestEngine::plain();
    for n in 1..MOST_CALLS {
        let ws = test.create(&format!("w{n}"));
        if n % 2 == 0 {
            some_files(&test, &ws);
        }
        let image = test.image(&ws);
        test.plan.arm(n);
        let outcome = test.engine.workspaces.hand_out_path(&ws);
        let struck = test.plan.disarm();
        if outcome.is_err() {
            test.reopen();
            assert!(!test.engine.workspaces.workspace(&ws).unwrap().handed_out);
        }
        assert_eq!(test.image(&ws), image);
        test.engine.workspaces.hand_out_path(&ws).unwrap();
        assert_eq!(out_of_line(&test, &ws), None, "at call {n}");
        if !struck {
            return;
        }
    }
    panic!("the fault strikes again and again");
}

#[test]
fn fault_delete_workspace() {
    every_fault(
        None,
        &Case {
            prepare: &|test, ws| {
                some_files(test, ws);
                outside_edits(test, ws);
            },
            operate: &|engine, ws| engine.workspaces.delete_workspace(ws, &user()).map(drop),
            keeps_first: true,
        },
    );
}

/// Each call gets its own data directory, because a clean-up concerns all of it.
#[test]
fn fault_clean() {
    for failing in [Failing::Once, Failing::FromThenOn] {
        for n in (1..MOST_CALLS).step_by(failing.step() as usize) {
            let mut test = TestEngine::plain();
            let ws = test.create("w");
            some_files(&test, &ws);
            outside_edits(&test, &ws);
            test.engine.sync.sync_workspace(&ws).unwrap();
            let other = test.create("other");
            some_files(&test, &other);
            test.engine.workspaces.hand_out_path(&other).unwrap();
            let images = [test.image(&ws), test.image(&other)];
            failing.arm(&test, n);
            let clean =
                |test: &TestEngine| test.engine.upkeep.clean(Duration::ZERO, false, &user());
            let outcome = clean(&test);
            let struck = test.plan.disarm();
            let at = format!("{failing:?} at call {n}: {outcome:?}");
            if outcome.is_err() {
                test.reopen();
            }
            for (ws, image) in [&ws, &other].into_iter().zip(&images) {
                let now = test.image(ws);
                if test.engine.workspaces.workspace(ws).unwrap().materialized {
                    assert_eq!(now, *image, "{at}");
                }
                assert_eq!(out_of_line(&test, ws), None, "{at}");
            }
            clean(&test).unwrap();
            for (ws, image) in [&ws, &other].into_iter().zip(&images) {
                assert!(
                    !test.engine.workspaces.workspace(ws).unwrap().materialized,
                    "{at}"
                );
                assert!(!test.path_of(ws).exists(), "{at}");
                test.engine.workspaces.hand_out_path(ws).unwrap();
                assert_eq!(test.image(ws), *image, "it did not come back, {at}");
            }
            // Reading everything back is the slow part, and damage would stay.
            if !struck || n % 8 == 1 {
                prove(&mut test);
            }
            if !struck {
                break;
            }
        }
    }
}

/// Leaves the marker of a process that was killed.
fn mark_unclean(test: &TestEngine) {
    fs::write(test.data().join("run/0000"), b"").unwrap();
}

/// A kill or a power cut left the directory behind the store: files are missing, empty or old.
/// Opening repairs everything, also after the failure of any call on the way.
#[test]
fn fault_recovery() {
    for built_whole in [false, true] {
        for failing in [Failing::Once, Failing::FromThenOn] {
            for n in (1..MOST_CALLS).step_by(failing.step() as usize) {
                let mut test = TestEngine::plain();
                let ws = test.create("w");
                some_files(&test, &ws);
                if !built_whole {
                    test.engine.workspaces.hand_out_path(&ws).unwrap();
                }
                some_files(&test, &ws);
                test.engine.workspaces.hand_out_path(&ws).unwrap();
                test.write(&ws, "a.txt", b"the newest");
                test.engine
                    .workspaces
                    .delete_file(&ws, &p("empty"), true, &user())
                    .unwrap();
                test.engine
                    .workspaces
                    .move_file(&ws, &p("d/e"), &p("x/e"), &user())
                    .unwrap();
                let image = test.image(&ws);
                test.close();
                let root = test.path_of(&ws);
                fs::write(root.join("a.txt"), b"one").unwrap();
                // A directory that was built whole is on disk, so this file cannot be torn.
                if !built_whole {
                    fs::write(root.join("d/b.txt"), b"").unwrap();
                }
                fs::create_dir_all(root.join("empty/inner")).unwrap();
                fs::remove_dir_all(root.join("x")).unwrap();
                fs::create_dir_all(root.join("d/e")).unwrap();
                fs::write(root.join("d/e/c.txt"), b"three").unwrap();
                fs::write(root.join(".offshoot-stage-0"), b"half").unwrap();
                mark_unclean(&test);
                failing.arm(&test, n);
                drop(test.open_another());
                let struck = test.plan.disarm();
                test.reopen();
                assert_eq!(test.image(&ws), image, "{failing:?} at call {n}");
                assert_eq!(out_of_line(&test, &ws), None, "{failing:?} at call {n}");
                if !struck {
                    break;
                }
            }
        }
    }
}
