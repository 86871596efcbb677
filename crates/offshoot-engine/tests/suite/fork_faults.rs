//! The n-th call to store or disk fails, for every n, while forks are made, moved and merged: each
//! operation happens whole or not at all, nothing is lost, and a retry works.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::fixture::{TestEngine, p, user, working};
use offshoot_core::{Error, ErrorCode, ProjectId, Result, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Content, Engine, ForkOptions, Resolution, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_testkit::{DirImage, dir_image, soak};

/// The most calls of any operation here; more mean that the test is broken.
const MOST_CALLS: u64 = 3_000;

/// What callers can see.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Observed {
    project: DirImage,
    /// The directory of the fork; none if there is no such fork.
    fork: Option<DirImage>,
    /// Paths and states of the reviews.
    reviews: Vec<(String, &'static str)>,
    merges: usize,
}

/// A project and a fork of it, under names of their own.
struct Case {
    project: ProjectId,
    fork: WorkspaceId,
}

impl Case {
    fn new(test: &TestEngine, number: &str) -> Case {
        let project: ProjectId = format!("p{number}").parse().unwrap();
        test.engine
            .projects
            .create_project(&project, &user())
            .unwrap();
        for (path, text) in [
            (".gitignore", "target/\n"),
            ("README", "read me\n"),
            ("docs/a/b", "deep\n"),
            ("src/lib.rs", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"),
        ] {
            test.put(&project, path, text);
        }
        test.engine.context.wait_for_jobs();
        Case {
            project,
            fork: format!("f{number}").parse().unwrap(),
        }
    }

    fn options(&self) -> ForkOptions {
        ForkOptions {
            id: Some(self.fork.clone()),
            ..ForkOptions::default()
        }
    }

    /// A fork with changes of several kinds, and a project that changed since.
    fn fork_and_change(&self, test: &TestEngine) {
        let (_, path) = test
            .engine
            .forks
            .fork_out(&self.project, &self.options(), &user())
            .unwrap();
        fs::write(path.join("mine"), "mine\n").unwrap();
        fs::remove_dir_all(path.join("docs")).unwrap();
        fs::create_dir(path.join("empty")).unwrap();
        let lib = "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n";
        fs::write(path.join("src/lib.rs"), lib).unwrap();
        fs::create_dir_all(path.join("target/debug")).unwrap();
        fs::write(path.join("target/debug/app"), "built").unwrap();
        fs::set_permissions(path.join("README"), PermissionsExt::from_mode(0o755)).unwrap();
        let lib = "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n";
        test.put(&self.project, "src/lib.rs", lib);
        test.put(&self.project, "theirs", "theirs\n");
        test.engine.context.wait_for_jobs();
    }

    /// A fork with changes of several kinds, and a file that fork and project changed in conflict.
    fn fork_and_clash(&self, test: &TestEngine) {
        self.fork_and_change(test);
        let path = test.engine.workspaces.hand_out_path(&self.fork).unwrap();
        fs::write(path.join("README"), "mine\n").unwrap();
        test.put(&self.project, "README", "theirs\n");
        test.engine.context.wait_for_jobs();
    }

    fn observe(&self, test: &TestEngine) -> Observed {
        test.engine.context.wait_for_jobs();
        let engine = &test.engine;
        let fork = engine.workspaces.workspace(&self.fork).ok().map(|row| {
            if row.materialized {
                let shown = test.host.path().join("data/workspaces");
                dir_image(&shown.join(self.fork.as_str()))
            } else {
                DirImage::new()
            }
        });
        let reviews = engine.merges.reviews(Some(&self.project), true).unwrap();
        Observed {
            project: test.project_image(&self.project, None),
            fork,
            reviews: reviews
                .iter()
                .map(|one| (one.path.to_text(), one.state))
                .collect(),
            merges: engine
                .merges
                .list_merges(&self.project, None, 0)
                .unwrap()
                .len(),
        }
    }
}

type Prepare = dyn Fn(&TestEngine, &Case);
type Operate = dyn Fn(&Engine, &Case) -> Result<()>;

struct Faults<'a> {
    prepare: &'a Prepare,
    operate: &'a Operate,
    /// Which parts of an operation may be done while others are not, because each is complete by
    /// itself and the retry does the rest.
    in_between: &'a dyn Fn(&Observed, &Observed, &Observed) -> bool,
    /// Outside of a soak every n-th call fails, because some operations make hundreds of calls.
    step: u64,
}

fn every_fault(faults: &Faults<'_>) {
    let place = TestEngine::in_memory(ProviderName::Copy);
    let mut providers = working(place.host.path());
    providers.retain(|name| *name != ProviderName::Reflink);
    for (provider, lasting) in providers
        .iter()
        .flat_map(|name| [(*name, false), (*name, true)])
    {
        // A disk that stays away has much the same effect from one call to the next.
        let step = match (soak(), lasting) {
            (true, _) => 1,
            (false, false) => faults.step,
            (false, true) => faults.step * 4 + 1,
        };
        let calls = fail_each(faults, provider, lasting, step);
        println!("with {provider}, lasting {lasting}: {calls} calls");
    }
}

fn fail_each(faults: &Faults<'_>, provider: ProviderName, lasting: bool, step: u64) -> u64 {
    let mut test = TestEngine::in_memory(provider);
    let clean = Case::new(&test, "clean");
    (faults.prepare)(&test, &clean);
    let before = clean.observe(&test);
    (faults.operate)(&test.engine, &clean).unwrap();
    let after = clean.observe(&test);
    assert_ne!(before, after, "the operation must do something");
    let mut n = 1;
    loop {
        assert!(n < MOST_CALLS, "the fault strikes again and again");
        let case = Case::new(&test, &n.to_string());
        (faults.prepare)(&test, &case);
        if lasting {
            test.plan.arm_from(n);
        } else {
            test.plan.arm(n);
        }
        let outcome = (faults.operate)(&test.engine, &case);
        // Background jobs are part of the operation.
        test.engine.context.wait_for_jobs();
        if !test.plan.disarm() {
            outcome.unwrap();
            assert_eq!(case.observe(&test), after);
            test.check();
            return n;
        }
        let at = format!("{provider}, call {n}, lasting {lasting}: {outcome:?}");
        test.reopen();
        assert_eq!(test.engine.forks.remount_handed_out().unwrap(), 0, "{at}");
        let now = case.observe(&test);
        let whole = now == before || now == after || (faults.in_between)(&now, &before, &after);
        assert!(
            whole && (outcome.is_err() || now == after),
            "half done, {at}:\n{now:#?}\nneither {before:#?}\nnor {after:#?}"
        );
        test.check();
        let retried = (faults.operate)(&test.engine, &case);
        let mut again = case.observe(&test);
        // A merge that was requested twice may leave two receipts, the second of which is empty.
        again.merges = again.merges.min(after.merges);
        assert_eq!(again, after, "retry after {at}: {retried:?}");
        test.check();
        n += step;
    }
}

fn never(_: &Observed, _: &Observed, _: &Observed) -> bool {
    false
}

fn or_exists(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.code() == ErrorCode::AlreadyExists => Ok(()),
        other => other,
    }
}

#[test]
fn fault_fork() {
    every_fault(&Faults {
        prepare: &|_, _| {},
        operate: &|engine, case| {
            let made = engine.forks.fork(&case.project, &case.options(), &user());
            or_exists(made.map(drop))
        },
        in_between: &never,
        step: 5,
    });
}

#[test]
fn fault_fork_out() {
    every_fault(&Faults {
        prepare: &|test, case| {
            // The layer has to be built as well.
            test.put(&case.project, "late", "late\n");
            test.engine.context.wait_for_jobs();
            test.engine
                .directories
                .collect_layers(std::time::Duration::ZERO)
                .unwrap();
        },
        operate: &|engine, case| {
            let made = engine
                .forks
                .fork_out(&case.project, &case.options(), &user());
            or_exists(made.map(drop))
        },
        in_between: &never,
        step: 5,
    });
}

#[test]
fn fault_fork_materialise_after_a_write() {
    every_fault(&Faults {
        prepare: &|test, case| {
            test.engine
                .forks
                .fork(&case.project, &case.options(), &user())
                .unwrap();
        },
        operate: &|engine, case| {
            let content = Content::Bytes(b"written\n");
            let options = WriteOptions::default();
            engine
                .workspaces
                .write_file(&case.fork, &p("x/y"), content, &options, &user())
                .and_then(|_| engine.workspaces.hand_out_path(&case.fork))
                .map(drop)
        },
        in_between: &never,
        step: 11,
    });
}

#[test]
fn fault_fork_materialise_by_a_path() {
    every_fault(&Faults {
        prepare: &|test, case| {
            test.engine
                .forks
                .fork(&case.project, &case.options(), &user())
                .unwrap();
        },
        operate: &|engine, case| engine.workspaces.hand_out_path(&case.fork).map(drop),
        in_between: &never,
        step: 7,
    });
}

#[test]
fn fault_fork_update() {
    every_fault(&Faults {
        prepare: &|test, case| case.fork_and_change(test),
        operate: &|engine, case| engine.merges.update(&case.fork, false, &user()).map(drop),
        in_between: &never,
        step: 61,
    });
}

/// An update that failed half way is finished, or was never begun, for the next use of the fork in the
/// same process: what it brings from the project is never taken for a change of the agent.
#[test]
fn fault_fork_update_shows_no_change_that_nobody_made() {
    let place = TestEngine::in_memory(ProviderName::Copy);
    let mut providers = working(place.host.path());
    providers.retain(|name| *name != ProviderName::Reflink);
    for provider in providers {
        let test = TestEngine::in_memory(provider);
        let mut failed = 0;
        for n in (1..MOST_CALLS).step_by(if soak() { 1 } else { 2 }) {
            let case = Case::new(&test, &n.to_string());
            case.fork_and_change(&test);
            let changes = test.changes(&case.fork);
            test.plan.arm(n);
            let outcome = test.engine.merges.update(&case.fork, false, &user());
            test.engine.context.wait_for_jobs();
            let struck = test.plan.disarm();
            let at = format!("{provider}, call {n}: {outcome:?}");
            test.engine.sync.sync_workspace(&case.fork).unwrap();
            assert_eq!(test.changes(&case.fork), changes, "{at}");
            if !struck {
                break;
            }
            failed += u32::from(outcome.is_err());
        }
        assert!(failed > 0, "{provider}");
        test.check();
    }
}

/// The merge and the removal of the fork are two operations, in this order.
fn merged_first(now: &Observed, before: &Observed, after: &Observed) -> bool {
    now.project == after.project
        && now.reviews == after.reviews
        && now.merges == after.merges
        && now.fork == before.fork
}

/// A merge that landed is no error, but its answer says what is not done.
fn all_done(completed: Completed) -> Result<()> {
    nothing_waits(completed.after.and_then(|after| after.waits))
}

fn nothing_waits(waits: Option<String>) -> Result<()> {
    match waits {
        Some(why) => Err(Error::new(ErrorCode::WorkspaceBusy, why)),
        None => Ok(()),
    }
}

#[test]
fn fault_fork_complete() {
    every_fault(&Faults {
        prepare: &|test, case| case.fork_and_change(test),
        operate: &|engine, case| {
            all_done(
                engine
                    .merges
                    .complete(&case.fork, &CompleteOptions::default(), &user())?,
            )
        },
        in_between: &merged_first,
        step: 61,
    });
}

#[test]
fn fault_fork_complete_and_keep() {
    every_fault(&Faults {
        prepare: &|test, case| case.fork_and_clash(test),
        operate: &|engine, case| {
            let options = CompleteOptions {
                keep: true,
                ..CompleteOptions::default()
            };
            all_done(engine.merges.complete(&case.fork, &options, &user())?)
        },
        in_between: &merged_first,
        step: 97,
    });
}

#[test]
fn fault_fork_resolve() {
    every_fault(&Faults {
        prepare: &|test, case| {
            case.fork_and_clash(test);
            let options = CompleteOptions::default();
            test.engine
                .merges
                .complete(&case.fork, &options, &user())
                .unwrap();
            test.engine.context.wait_for_jobs();
        },
        operate: &|engine, case| {
            let reviews = engine.merges.reviews(Some(&case.project), true)?;
            let how = Resolution::Theirs;
            let resolved = engine.merges.resolve(&reviews[0].id, how, &user());
            or_exists(resolved.and_then(|done| nothing_waits(done.waits)))
        },
        in_between: &merged_first,
        step: 31,
    });
}

#[test]
fn fault_fork_undo() {
    every_fault(&Faults {
        prepare: &|test, case| {
            case.fork_and_change(test);
            let options = CompleteOptions::default();
            test.engine
                .merges
                .complete(&case.fork, &options, &user())
                .unwrap();
            test.put(&case.project, "later", "later\n");
            test.engine.context.wait_for_jobs();
        },
        operate: &|engine, case| {
            let merges = engine.merges.list_merges(&case.project, None, 0)?;
            let merge = merges[0].completed.merge_id.clone().unwrap();
            or_exists(engine.merges.undo_merge(&merge, &user()).map(drop))
        },
        in_between: &never,
        step: 19,
    });
}
