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

/// No operation here makes more calls than this: beyond it the test itself is broken.
const MOST_CALLS: u64 = 3_000;

/// What can be seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
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
    fn new(rig: &TestEngine, number: &str) -> Case {
        let project: ProjectId = format!("p{number}").parse().unwrap();
        rig.engine
            .projects
            .create_project(&project, &user())
            .unwrap();
        for (path, text) in [
            (".gitignore", "target/\n"),
            ("README", "read me\n"),
            ("docs/a/b", "deep\n"),
            ("src/lib.rs", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"),
        ] {
            rig.put(&project, path, text);
        }
        rig.engine.context.wait_for_jobs();
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

    /// A fork with changes of several sorts, and a project that went on.
    fn fork_and_change(&self, rig: &TestEngine) {
        let (_, path) = rig
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
        rig.put(&self.project, "src/lib.rs", lib);
        rig.put(&self.project, "theirs", "theirs\n");
        rig.engine.context.wait_for_jobs();
    }

    /// The same with a file that both changed so that somebody has to decide.
    fn fork_and_clash(&self, rig: &TestEngine) {
        self.fork_and_change(rig);
        let path = rig.engine.workspaces.hand_out_path(&self.fork).unwrap();
        fs::write(path.join("README"), "mine\n").unwrap();
        rig.put(&self.project, "README", "theirs\n");
        rig.engine.context.wait_for_jobs();
    }

    fn look(&self, rig: &TestEngine) -> Seen {
        rig.engine.context.wait_for_jobs();
        let engine = &rig.engine;
        let fork = engine.workspaces.workspace(&self.fork).ok().map(|row| {
            if row.materialized {
                let shown = rig.host.path().join("data/workspaces");
                dir_image(&shown.join(self.fork.as_str()))
            } else {
                DirImage::new()
            }
        });
        let reviews = engine.merges.reviews(Some(&self.project), true).unwrap();
        Seen {
            project: rig.project_image(&self.project, None),
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
    /// Which parts of an operation may be done while others are not, because each is whole for
    /// itself and the next try does the rest.
    in_between: &'a dyn Fn(&Seen, &Seen, &Seen) -> bool,
    /// Every so many calls one fails, outside of a soak: some operations make hundreds of calls.
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
        // That a disk stays away looks much the same from one call to the next.
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
    let mut rig = TestEngine::in_memory(provider);
    let clean = Case::new(&rig, "clean");
    (faults.prepare)(&rig, &clean);
    let before = clean.look(&rig);
    (faults.operate)(&rig.engine, &clean).unwrap();
    let after = clean.look(&rig);
    assert_ne!(before, after, "the operation must do something");
    let mut n = 1;
    loop {
        assert!(n < MOST_CALLS, "the fault strikes again and again");
        let case = Case::new(&rig, &n.to_string());
        (faults.prepare)(&rig, &case);
        if lasting {
            rig.plan.arm_from(n);
        } else {
            rig.plan.arm(n);
        }
        let outcome = (faults.operate)(&rig.engine, &case);
        // What goes on in the background is part of it.
        rig.engine.context.wait_for_jobs();
        if !rig.plan.disarm() {
            outcome.unwrap();
            assert_eq!(case.look(&rig), after);
            rig.check();
            return n;
        }
        let at = format!("{provider}, call {n}, lasting {lasting}: {outcome:?}");
        rig.reopen();
        assert_eq!(rig.engine.forks.remount_handed_out().unwrap(), 0, "{at}");
        let now = case.look(&rig);
        let whole = now == before || now == after || (faults.in_between)(&now, &before, &after);
        assert!(
            whole && (outcome.is_err() || now == after),
            "half done, {at}:\n{now:#?}\nneither {before:#?}\nnor {after:#?}"
        );
        rig.check();
        let retried = (faults.operate)(&rig.engine, &case);
        let mut again = case.look(&rig);
        // A merge that was asked for twice may leave two receipts, the second of nothing.
        again.merges = again.merges.min(after.merges);
        assert_eq!(again, after, "retry after {at}: {retried:?}");
        rig.check();
        n += step;
    }
}

fn never(_: &Seen, _: &Seen, _: &Seen) -> bool {
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
        prepare: &|rig, case| {
            // The layer has to be built as well.
            rig.put(&case.project, "late", "late\n");
            rig.engine.context.wait_for_jobs();
            rig.engine
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
        prepare: &|rig, case| {
            rig.engine
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
        prepare: &|rig, case| {
            rig.engine
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
        prepare: &|rig, case| case.fork_and_change(rig),
        operate: &|engine, case| engine.merges.update(&case.fork, false, &user()).map(drop),
        in_between: &never,
        step: 61,
    });
}

/// The merge and the end of the fork are two things, in this order.
fn merged_first(now: &Seen, before: &Seen, after: &Seen) -> bool {
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
        prepare: &|rig, case| case.fork_and_change(rig),
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
        prepare: &|rig, case| case.fork_and_clash(rig),
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
        prepare: &|rig, case| {
            case.fork_and_clash(rig);
            let options = CompleteOptions::default();
            rig.engine
                .merges
                .complete(&case.fork, &options, &user())
                .unwrap();
            rig.engine.context.wait_for_jobs();
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
        prepare: &|rig, case| {
            case.fork_and_change(rig);
            let options = CompleteOptions::default();
            rig.engine
                .merges
                .complete(&case.fork, &options, &user())
                .unwrap();
            rig.put(&case.project, "later", "later\n");
            rig.engine.context.wait_for_jobs();
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
