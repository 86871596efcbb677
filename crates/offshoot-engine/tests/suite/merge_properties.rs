//! What must hold for every merge: every change of one side is in the project or in a review, the
//! project has no other change, and the order of disjoint merges does not matter.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::fixture::{TestEngine, p, user, working};
use offshoot_core::{ProjectId, RelPath, WorkspaceId};
use offshoot_engine::{CompleteOptions, Completed, Content, ForkOptions, Policy, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_testkit::{DirImage, Node, soak};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// The files of the project at first: eight lines each, so that edits can be far apart or close.
const BASE: [&str; 6] = ["a", "b.txt", "d/one", "d/two", "d/e/deep", "g/h"];
/// Paths that do not exist at first: one below a file, and two where directories are.
const FRESH: [&str; 6] = ["new", "d/new", "n/e/w", "b.txt/below", "g", "d"];

/// What an agent does to a path.
#[derive(Clone, Copy, Debug)]
enum Edit {
    /// Replaces this line.
    Line(usize),
    /// Replaces the whole content.
    Write,
    Remove,
    /// Removes the directory above, if there is one.
    RemoveDir,
    Executable,
}

#[derive(Clone, Debug)]
struct Agent {
    /// The path by its number, the edit, and whether it is made by a call or on disk.
    edits: Vec<(usize, Edit, bool)>,
    policy: Option<Policy>,
    keep: bool,
}

#[derive(Clone, Debug)]
struct Scenario {
    agents: Vec<Agent>,
    /// The order in which agents complete.
    order: Vec<usize>,
    atomic: bool,
    overlay: bool,
}

fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (0_usize..8).prop_map(Edit::Line),
        3 => Just(Edit::Write),
        2 => Just(Edit::Remove),
        1 => Just(Edit::RemoveDir),
        1 => Just(Edit::Executable),
    ]
}

fn any_agent() -> impl Strategy<Value = Agent> {
    let one = (0..BASE.len() + FRESH.len(), any_edit(), any::<bool>());
    let policy = prop_oneof![
        4 => Just(None),
        1 => prop::sample::select(&Policy::ALL[..]).prop_map(Some),
    ];
    (
        prop::collection::vec(one, 1..6),
        policy,
        prop::bool::weighted(0.2),
    )
        .prop_map(|(edits, policy, keep)| Agent {
            edits,
            policy,
            keep,
        })
}

fn any_scenario() -> impl Strategy<Value = Scenario> {
    let agents = prop::collection::vec(any_agent(), 2..7);
    (agents, prop::bool::weighted(0.2), any::<bool>()).prop_flat_map(|(agents, atomic, overlay)| {
        let order: Vec<usize> = (0..agents.len()).collect();
        Just(order).prop_shuffle().prop_map(move |order| Scenario {
            agents: agents.clone(),
            order,
            atomic,
            overlay,
        })
    })
}

fn path_of(number: usize) -> &'static str {
    BASE.iter().chain(&FRESH).nth(number).unwrap()
}

fn base_text(path: &str) -> String {
    (0..8).map(|line| format!("{path} {line}\n")).collect()
}

/// Engines in memory, one for each provider, and a fresh project for every case.
struct Setup {
    tests: Vec<TestEngine>,
    number: Cell<usize>,
}

impl Setup {
    fn new() -> Setup {
        let copy = TestEngine::in_memory(ProviderName::Copy);
        let best = working(copy.host.path())[0];
        Setup {
            tests: vec![copy, TestEngine::in_memory(best)],
            number: Cell::new(0),
        }
    }

    fn project(&self, overlay: bool) -> (&TestEngine, ProjectId) {
        let test = &self.tests[usize::from(overlay)];
        self.number.set(self.number.get() + 1);
        let id: ProjectId = format!("p{}", self.number.get()).parse().unwrap();
        test.engine.projects.create_project(&id, &user()).unwrap();
        for path in BASE {
            test.put(&id, path, &base_text(path));
        }
        (test, id)
    }
}

/// The fork of one agent, with its final content.
struct Worked {
    id: WorkspaceId,
    image: DirImage,
    completed: Option<Completed>,
}

/// Applies the edits of an agent to a fork. Edits that make no sense there are skipped.
fn work(test: &TestEngine, project: &ProjectId, name: &str, agent: &Agent) -> Worked {
    let options = ForkOptions {
        agent: Some(format!("{project}-{name}").parse().unwrap()),
        ..ForkOptions::default()
    };
    let fork = test.engine.forks.fork(project, &options, &user()).unwrap();
    let id = fork.workspace.id;
    for (step, (number, edit, call)) in agent.edits.iter().enumerate() {
        let path = path_of(*number);
        let token = format!("<{name}.{step}>");
        if *call {
            by_call(test, &id, path, *edit, &token);
        } else {
            let root = test.engine.workspaces.hand_out_path(&id).unwrap();
            on_disk(&root.join(path), &root, *edit, &token);
        }
    }
    let root = test.engine.workspaces.hand_out_path(&id).unwrap();
    Worked {
        id,
        image: offshoot_testkit::dir_image(&root),
        completed: None,
    }
}

fn with_line(text: &str, at: usize, token: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.get_mut(at) {
        Some(line) => *line = token,
        None => lines.push(token),
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn by_call(test: &TestEngine, id: &WorkspaceId, path: &str, edit: Edit, token: &str) {
    let engine = &test.engine;
    let put = |text: String, executable: Option<bool>| {
        let options = WriteOptions {
            executable,
            ..WriteOptions::default()
        };
        let content = Content::Bytes(text.as_bytes());
        // A directory may be at the path; then the edit is skipped.
        drop(
            engine
                .workspaces
                .write_file(id, &p(path), content, &options, &user()),
        );
    };
    let now = || {
        let read = engine.workspaces.read_whole(id, &p(path)).ok();
        read.map(|(bytes, _)| String::from_utf8(bytes).unwrap())
    };
    match edit {
        Edit::Line(at) => put(with_line(&now().unwrap_or_default(), at, token), None),
        Edit::Write => put(format!("{token}\n").repeat(8), None),
        Edit::Executable => {
            if let Some(text) = now() {
                put(text, Some(true));
            }
        }
        Edit::Remove => drop(engine.workspaces.delete_file(id, &p(path), false, &user())),
        Edit::RemoveDir => {
            let above = p(path).parent().filter(|above| !above.is_root());
            if let Some(above) = above {
                drop(engine.workspaces.delete_file(id, &above, true, &user()));
            }
        }
    }
}

fn on_disk(path: &Path, root: &Path, edit: Edit, token: &str) {
    let put = |text: String| {
        // A file may be where a directory is needed; then the edit is skipped.
        if fs::create_dir_all(path.parent().unwrap()).is_ok() {
            let _ = fs::write(path, text);
        }
    };
    match edit {
        Edit::Line(at) => {
            let now = fs::read_to_string(path).unwrap_or_default();
            put(with_line(&now, at, token));
        }
        Edit::Write => put(format!("{token}\n").repeat(8)),
        Edit::Executable if path.is_file() => {
            fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Edit::Remove => {
            let _ = fs::remove_file(path);
        }
        Edit::RemoveDir if path.parent() != Some(root) => {
            let _ = fs::remove_dir_all(path.parent().unwrap());
        }
        _ => {}
    }
}

type Leaves = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// The files of an image.
fn leaves(image: &DirImage) -> Leaves {
    image
        .iter()
        .filter_map(|(path, node)| match node {
            Node::File(perm, bytes) => {
                let path = PathBuf::from(String::from_utf8(path.0.clone()).unwrap());
                Some((path, (*perm, bytes.clone())))
            }
            _ => None,
        })
        .collect()
}

/// Paths at which two sets of files differ.
fn changed(base: &Leaves, now: &Leaves) -> BTreeSet<PathBuf> {
    base.keys()
        .chain(now.keys())
        .filter(|path| base.get(*path) != now.get(*path))
        .cloned()
        .collect()
}

fn related(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Completes all forks in their order.
fn complete_all(test: &TestEngine, scenario: &Scenario, worked: &mut [Worked]) {
    for &at in &scenario.order {
        let agent = &scenario.agents[at];
        let options = CompleteOptions {
            policy: agent.policy,
            atomic: Some(scenario.atomic),
            keep: agent.keep,
            include_ignored: false,
            ..CompleteOptions::default()
        };
        let done = test
            .engine
            .merges
            .complete(&worked[at].id, &options, &user());
        worked[at].completed = Some(done.unwrap());
    }
}

/// Completing again gives an equal answer and changes nothing.
fn completing_twice(
    test: &TestEngine,
    project: &ProjectId,
    scenario: &Scenario,
    worked: &[Worked],
) {
    let head = test.engine.projects.project(project).unwrap().head;
    let reviews = test.engine.merges.reviews(Some(project), true).unwrap();
    for (agent, one) in scenario.agents.iter().zip(worked) {
        let options = CompleteOptions {
            policy: agent.policy,
            atomic: Some(scenario.atomic),
            keep: agent.keep,
            include_ignored: false,
            ..CompleteOptions::default()
        };
        let again = test
            .engine
            .merges
            .complete(&one.id, &options, &user())
            .unwrap();
        let first = one.completed.as_ref().unwrap();
        if !agent.keep {
            // Other agents may have closed the last conflict of this one since: then what waited as
            // a whole has landed, and the workspace that was kept for it is gone.
            let since = Completed {
                snapshot: first.snapshot.or(again.snapshot),
                landed_nothing: first.landed_nothing || again.landed_nothing,
                after: again.after.clone(),
                ..first.clone()
            };
            assert_eq!(again, since);
            let third = test
                .engine
                .merges
                .complete(&one.id, &options, &user())
                .unwrap();
            assert_eq!(third, again);
        }
        assert!(!agent.keep || again.merged.is_empty(), "{again:?}");
    }
    assert_eq!(test.engine.projects.project(project).unwrap().head, head);
    assert_eq!(
        test.engine.merges.reviews(Some(project), true).unwrap(),
        reviews
    );
}

/// The contents that wait in reviews, by path, and those that a policy decided against.
struct Elsewhere {
    waiting: BTreeMap<PathBuf, BTreeSet<String>>,
    lost: Vec<Vec<u8>>,
}

impl Elsewhere {
    fn of(test: &TestEngine, project: &ProjectId, worked: &[Worked]) -> Elsewhere {
        let mut waiting: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
        // A review that closed by itself keeps nothing, so the content must be in the project.
        for review in test.engine.merges.reviews(Some(project), false).unwrap() {
            let at = waiting.entry(host_path(&review.path)).or_default();
            at.insert(review.workspace);
        }
        let mut lost = Vec::new();
        for one in worked {
            for decided in &one.completed.as_ref().unwrap().decided {
                lost.extend(
                    decided
                        .lost
                        .map(|id| test.engine.workspaces.content_of(&id).unwrap()),
                );
            }
        }
        Elsewhere { waiting, lost }
    }

    /// Whether a change of a workspace at a path waits for a decision.
    fn waits(&self, workspace: &WorkspaceId, path: &Path) -> bool {
        self.waiting
            .iter()
            .any(|(at, of)| related(at, path) && of.contains(workspace.as_str()))
    }
}

fn host_path(path: &RelPath) -> PathBuf {
    PathBuf::from(path.to_text())
}

fn check_scenario(setup: &Setup, scenario: &Scenario) {
    let (test, project) = setup.project(scenario.overlay);
    let base = leaves(&test.project_image(&project, None));
    let mut worked: Vec<Worked> = scenario
        .agents
        .iter()
        .enumerate()
        .map(|(at, agent)| work(test, &project, &format!("w{at}"), agent))
        .collect();
    complete_all(test, scenario, &mut worked);
    let now = leaves(&test.project_image(&project, None));
    let elsewhere = Elsewhere::of(test, &project, &worked);
    let forks: Vec<Leaves> = worked.iter().map(|one| leaves(&one.image)).collect();
    let changes: Vec<BTreeSet<PathBuf>> = forks.iter().map(|fork| changed(&base, fork)).collect();
    for (at, own) in changes.iter().enumerate() {
        // A merge that lands whole waits with all of its changes, also those without conflict.
        let completed = worked[at].completed.as_ref().unwrap();
        let held_back = scenario.atomic && !completed.conflicts.is_empty();
        for path in own {
            let others = changes.iter().enumerate().filter(|(other, _)| *other != at);
            let alone = others
                .flat_map(|(_, paths)| paths)
                .all(|other| !related(other, path));
            let waits = held_back || elsewhere.waits(&worked[at].id, path);
            if alone && !waits {
                assert_eq!(
                    now.get(path),
                    forks[at].get(path),
                    "{path:?}, which `{}` alone changed",
                    worked[at].id
                );
            }
            let Some((_, bytes)) = forks[at].get(path) else {
                continue;
            };
            for token in own_tokens(bytes, at) {
                let found = waits
                    || now.values().any(|(_, bytes)| contains(bytes, &token))
                    || elsewhere.lost.iter().any(|bytes| contains(bytes, &token));
                assert!(found, "{token} of {path:?} is lost");
            }
        }
    }
    nothing_that_nobody_did(&base, &now, &forks, &changes);
    completing_twice(test, &project, scenario, &worked);
    // `check` reads the data of all cases so far.
    if setup.number.get().is_multiple_of(8) {
        test.check();
    }
}

/// The lines that an agent wrote.
fn own_tokens(bytes: &[u8], agent: usize) -> BTreeSet<String> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let own = format!("<w{agent}.");
    text.lines()
        .filter(|line| line.starts_with(&own))
        .map(str::to_owned)
        .collect()
}

fn contains(bytes: &[u8], token: &str) -> bool {
    bytes
        .windows(token.len())
        .any(|window| window == token.as_bytes())
}

fn nothing_that_nobody_did(
    base: &Leaves,
    now: &Leaves,
    forks: &[Leaves],
    changes: &[BTreeSet<PathBuf>],
) {
    let touched = |path: &PathBuf| changes.iter().any(|paths| paths.contains(path));
    for path in changed(base, now) {
        assert!(touched(&path), "nobody touched {path:?}");
        let Some((perm, bytes)) = now.get(&path) else {
            let removed = forks.iter().any(|fork| !fork.contains_key(&path));
            assert!(removed, "nobody removed {path:?}");
            continue;
        };
        let versions: Vec<&(u32, Vec<u8>)> = forks
            .iter()
            .chain([base])
            .filter_map(|side| side.get(&path))
            .collect();
        assert!(versions.iter().any(|version| version.0 == *perm));
        let text = String::from_utf8(bytes.clone()).unwrap();
        for line in text.lines() {
            let known = versions.iter().any(|version| contains(&version.1, line));
            assert!(known, "nobody wrote `{line}` into {path:?}");
        }
    }
}

fn run<S: Strategy>(normal: u32, strategy: &S, check: impl Fn(&Setup, S::Value)) {
    let setup = RefCell::new(Setup::new());
    let config = Config {
        cases: if soak() { normal * 50 } else { normal },
        failure_persistence: None,
        max_shrink_iters: 300,
        // Every run has the same cases, so that a failure is caused by a change; the soak looks for
        // new cases.
        rng_seed: match soak() {
            true => RngSeed::Random,
            false => RngSeed::Fixed(1),
        },
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(strategy, |value| {
        check(&setup.borrow(), value);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn property_merge_loses_nothing_and_invents_nothing() {
    run(40, &any_scenario(), |setup, scenario| {
        check_scenario(setup, &scenario);
    });
}

/// Agents that each work in a directory of their own complete in two orders.
#[test]
fn property_merge_of_disjoint_work_is_the_same_in_any_order() {
    let strategy = any_scenario().prop_flat_map(|scenario| {
        let other = Just(scenario.order.clone()).prop_shuffle();
        (Just(scenario), other)
    });
    run(15, &strategy, |setup, (scenario, other)| {
        let trees = [scenario.order.clone(), other].map(|order| {
            let (test, project) = setup.project(scenario.overlay);
            let scenario = Scenario {
                order,
                ..scenario.clone()
            };
            let mut worked: Vec<Worked> = scenario
                .agents
                .iter()
                .enumerate()
                .map(|(at, agent)| work_apart(test, &project, at, agent))
                .collect();
            complete_all(test, &scenario, &mut worked);
            for one in &worked {
                let done = one.completed.as_ref().unwrap();
                assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
            }
            let log = test
                .engine
                .projects
                .project_snapshots(&project, None, 1)
                .unwrap();
            (log[0].tree, test.project_image(&project, None))
        });
        assert_eq!(trees[0], trees[1]);
    });
}

/// Applies the edits of an agent to its share of the base, below a directory of its own.
fn work_apart(test: &TestEngine, project: &ProjectId, at: usize, agent: &Agent) -> Worked {
    let options = ForkOptions {
        agent: Some(format!("{project}-w{at}").parse().unwrap()),
        ..ForkOptions::default()
    };
    let (fork, root) = test
        .engine
        .forks
        .fork_out(project, &options, &user())
        .unwrap();
    for (step, (number, edit, _)) in agent.edits.iter().enumerate() {
        let token = format!("<w{at}.{step}>");
        let own = root.join(format!("own{at}")).join(path_of(*number));
        on_disk(&own, &root.join(format!("own{at}")), *edit, &token);
        if let Some(path) = BASE.get(at)
            && !matches!(edit, Edit::RemoveDir)
        {
            on_disk(&root.join(path), &root, *edit, &token);
        }
    }
    Worked {
        id: fork.workspace.id,
        image: DirImage::new(),
        completed: None,
    }
}
