//! Priority over random sequences of agents. A model knows for each line of a text and each member
//! of a JSON document who set it last, with what priority and because of which message. The project
//! must equal the model, and every decision must be reported as the model says: its parts, its
//! winner, the author of what lost, and what the project had.

use std::cell::{Cell, RefCell};
use std::fs;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::{AgentId, Cause, ObjectKind, ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Content, ForkOptions, Policy, Resolution, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_testkit::soak;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// How many lines and members can be set.
const SLOTS: usize = 5;
const CASES: u32 = 100;

/// Changes of the text and of the document at once: slots are set or removed.
type Edits = [Vec<(usize, bool)>; 2];

#[derive(Clone, Debug)]
struct Step {
    edits: Edits,
    /// Whether an outside program makes the change in the directory of the fork, instead of a call
    /// with a message.
    outside: bool,
}

#[derive(Clone, Debug)]
struct Agent {
    priority: i64,
    /// Whether the agent has the priority, and not its fork.
    is_known: bool,
    /// How many agents before it have completed when it forks.
    forked_after: usize,
    steps: Vec<Step>,
    /// What a person changes in the project before the agent completes.
    person: Option<Edits>,
    /// How a person decides its conflicts, if at all: for the agent, or for the project.
    decided_for_it: Option<bool>,
    /// Whether its merge is undone at once.
    undone: bool,
}

#[derive(Clone, Debug)]
struct Scenario {
    agents: Vec<Agent>,
    /// Whether the document is written in one line.
    minified: bool,
}

fn any_edits(most: usize) -> impl Strategy<Value = Edits> {
    let edits = move || prop::collection::vec((0..SLOTS, prop::bool::weighted(0.8)), 0..most);
    [edits(), edits()]
}

fn any_scenario() -> impl Strategy<Value = Scenario> {
    let step = (any_edits(4), prop::bool::weighted(0.3))
        .prop_map(|(edits, outside)| Step { edits, outside });
    let agent = (
        (0..4i64, any::<bool>()),
        any::<prop::sample::Index>(),
        prop::collection::vec(step, 1..3),
        prop::option::weighted(0.2, any_edits(2)),
        prop::option::weighted(0.7, any::<bool>()),
        prop::bool::weighted(0.2),
    );
    let agents = prop::collection::vec(agent, 2..7).prop_map(|agents| {
        let with_fork = agents.into_iter().enumerate();
        with_fork
            .map(
                |(at, ((priority, is_known), fork, steps, person, decided_for_it, undone))| Agent {
                    priority,
                    is_known,
                    // Often the first one, so that there are conflicts.
                    forked_after: fork.index(2 * at + 1).saturating_sub(at),
                    steps,
                    person,
                    decided_for_it,
                    undone,
                },
            )
            .collect()
    });
    (agents, any::<bool>()).prop_map(|(agents, minified)| Scenario { agents, minified })
}

/// Who set or removed something.
#[derive(Clone, Debug, PartialEq)]
struct Setter {
    name: String,
    priority: i64,
    message: Option<String>,
    /// When it was recorded; none if it is not recorded yet.
    at: Option<usize>,
}

/// The value of a line or member, and who set it.
#[derive(Clone, Debug, PartialEq)]
struct Slot {
    value: Option<String>,
    by: Setter,
}

type Slots = Vec<Slot>;

/// Words of letters alone and of one length, so that no two can be merged.
fn word(letter: char, number: usize) -> String {
    let digit = |number: usize| char::from(b'a' + (number % 26) as u8);
    let (high, low) = (digit(number / 26), digit(number));
    format!("{letter}{high}{letter}{low}{high}{low}")
}

fn person(message: Option<String>, at: usize) -> Setter {
    Setter {
        name: "user".to_owned(),
        priority: 0,
        message,
        at: Some(at),
    }
}

fn first_slots(letter: char) -> Slots {
    let slot = |_| Slot {
        value: Some(word(letter, 0)),
        by: person(None, 0),
    };
    (0..SLOTS).map(slot).collect()
}

/// Lines that are far enough from each other to be separate parts of a conflict.
fn as_text(slots: &Slots) -> String {
    let around = |at: usize| format!("before {at}\n{at} before\n");
    let line = |(at, slot): (usize, &Slot)| {
        let value = slot
            .value
            .as_ref()
            .map_or(String::new(), |value| format!("{value}\n"));
        format!("{}{value}", around(at))
    };
    let all: String = slots.iter().enumerate().map(line).collect();
    format!("{all}the end\nof it\n")
}

fn key(at: usize) -> String {
    format!("k{}", char::from(b'a' + at as u8))
}

fn as_json(slots: &Slots, minified: bool) -> String {
    let members = slots.iter().enumerate().filter_map(|(at, slot)| {
        let value = slot.value.as_ref()?;
        Some((key(at), value))
    });
    let members: serde_json::Map<String, serde_json::Value> = members
        .map(|(key, value)| (key, value.as_str().into()))
        .collect();
    match minified {
        true => serde_json::to_string(&members).unwrap(),
        false => serde_json::to_string_pretty(&members).unwrap() + "\n",
    }
}

/// One file, and its content in the model.
#[derive(Clone)]
struct File {
    path: &'static str,
    letter: char,
    slots: Slots,
}

/// What the report of a decision must say.
#[derive(Debug, PartialEq)]
struct DecisionReport {
    winner: &'static str,
    parts: Vec<String>,
    lost: Option<(String, Option<String>)>,
    ours: Option<(String, Option<String>)>,
}

/// The outcome of a merge for the slots of a file.
struct Outcome {
    merged: Slots,
    /// The slots that conflict, each with whether theirs wins; none if a person has to decide.
    conflicts: Vec<(usize, Option<bool>)>,
}

impl File {
    fn is_json(&self) -> bool {
        self.path == "f.json"
    }

    fn render(&self, slots: &Slots, minified: bool) -> String {
        match self.is_json() {
            true => as_json(slots, minified),
            false => as_text(slots),
        }
    }

    /// The file after a change, with words of this number.
    fn edit(&self, slots: &mut Slots, number: usize, by: &Setter, edits: &[(usize, bool)]) {
        for (at, keep) in edits {
            // A removed slot stays removed, because the model does not say where it would be
            // inserted.
            if slots[*at].value.is_some() {
                slots[*at] = Slot {
                    value: keep.then(|| word(self.letter, number)),
                    by: by.clone(),
                };
            }
        }
    }

    /// Merges the changes of an agent since a base, by priority or by the decision of a person.
    fn merge(&self, base: &Slots, theirs: &Slots, for_it: bool) -> Outcome {
        let mut outcome = Outcome {
            merged: self.slots.clone(),
            conflicts: Vec::new(),
        };
        for at in 0..SLOTS {
            let (base, theirs, ours) = (&base[at], &theirs[at], &mut outcome.merged[at]);
            if theirs.value == base.value || theirs.value == ours.value {
                continue;
            }
            let mut wins = Some(true);
            if ours.value != base.value {
                let (theirs, ours) = (theirs.by.priority, ours.by.priority);
                wins = (theirs != ours).then_some(theirs > ours);
                outcome.conflicts.push((at, wins));
            }
            if for_it || wins == Some(true) {
                *ours = theirs.clone();
            }
        }
        outcome
    }

    /// The name of a slot as a part of a conflict in the file of the project.
    fn part(&self, at: usize) -> String {
        if self.is_json() {
            return format!("/{}", key(at));
        }
        let above = self.slots[..at].iter().filter(|slot| slot.value.is_some());
        let above = above.count() + 2 * (at + 1);
        match self.slots[at].value {
            Some(_) => format!("line {}", above + 1),
            None => format!("after line {above}"),
        }
    }

    /// The report of the conflicts that one side wins; none if there are none.
    fn expected(&self, theirs: &Slots, outcome: &Outcome, wins: bool) -> Option<DecisionReport> {
        let at: Vec<usize> = (outcome.conflicts.iter())
            .filter(|(_, theirs)| *theirs == Some(wins))
            .map(|(at, _)| *at)
            .collect();
        let first = |slots: &Slots| {
            let setters = at.iter().map(|at| &slots[*at].by);
            let first = setters.max_by_key(|by| (by.priority, by.at));
            first.map(|by| (by.name.clone(), by.message.clone()))
        };
        let ours = first(&self.slots);
        (!at.is_empty()).then(|| DecisionReport {
            winner: if wins { "theirs" } else { "ours" },
            parts: at.iter().map(|at| self.part(*at)).collect(),
            lost: if wins { ours.clone() } else { first(theirs) },
            ours,
        })
    }
}

struct Fork {
    id: WorkspaceId,
    base: [Slots; 2],
    theirs: [Slots; 2],
}

impl Fork {
    /// Changes that the merge found are recorded now. Those without a message get the message of
    /// the merge.
    fn recorded(&mut self, name: &str, message: &str, at: usize) {
        let slots = self.theirs.iter_mut().flatten();
        for slot in slots.filter(|slot| slot.by.name == name) {
            slot.by.at.get_or_insert(at);
            slot.by.message.get_or_insert_with(|| message.to_owned());
        }
    }
}

struct Setup {
    test: TestEngine,
    projects: Cell<usize>,
    /// Counters for words and times that are unique in a scenario.
    numbers: Cell<usize>,
}

fn because_of(message: &str) -> Cause {
    Cause {
        message_id: Some(message.to_owned()),
        ..user()
    }
}

impl Setup {
    fn number(&self) -> usize {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    fn project(&self, files: &[File; 2], minified: bool) -> ProjectId {
        self.projects.set(self.projects.get() + 1);
        self.numbers.set(0);
        let id: ProjectId = format!("p{}", self.projects.get()).parse().unwrap();
        self.test
            .engine
            .projects
            .create_project(&id, &user())
            .unwrap();
        for file in files {
            self.test
                .put(&id, file.path, &file.render(&file.slots, minified));
        }
        id
    }

    fn fork(
        &self,
        project: &ProjectId,
        scenario: &Scenario,
        agent: usize,
        files: &[File; 2],
    ) -> Fork {
        let engine = &self.test.engine;
        let name = name_of(project, agent);
        let Agent {
            priority, is_known, ..
        } = scenario.agents[agent];
        let id: AgentId = name.parse().unwrap();
        if is_known {
            let spawned = engine.access.spawn_named(
                Some(&id),
                "root",
                "coder",
                None,
                Some(priority),
                &user(),
            );
            spawned.unwrap();
        }
        let options = ForkOptions {
            agent: Some(id),
            priority: (!is_known).then_some(priority),
            ..ForkOptions::default()
        };
        let made = engine.forks.fork(project, &options, &user()).unwrap();
        let base = [0, 1].map(|at: usize| files[at].slots.clone());
        let mut fork = Fork {
            id: made.workspace.id,
            theirs: base.clone(),
            base,
        };
        let steps = &scenario.agents[agent].steps;
        for (number, step) in steps.iter().enumerate() {
            let is_last = number + 1 == steps.len();
            self.work(&mut fork, files, (&name, priority), step, is_last, scenario);
        }
        fork
    }

    /// One step of an agent. The merge finds the last changes of an outside program.
    fn work(
        &self,
        fork: &mut Fork,
        files: &[File; 2],
        (name, priority): (&str, i64),
        step: &Step,
        is_last: bool,
        scenario: &Scenario,
    ) {
        let engine = &self.test.engine;
        for (at, file) in files.iter().enumerate() {
            let number = self.number();
            let message = (!step.outside).then(|| format!("m-{number}"));
            let setter = Setter {
                name: name.to_owned(),
                priority,
                message: message.clone(),
                at: (!step.outside || !is_last).then_some(number),
            };
            let before = fork.theirs[at].clone();
            file.edit(&mut fork.theirs[at], number, &setter, &step.edits[at]);
            if fork.theirs[at] == before {
                continue;
            }
            let text = file.render(&fork.theirs[at], scenario.minified);
            match &message {
                Some(message) => {
                    let (content, options) =
                        (Content::Bytes(text.as_bytes()), WriteOptions::default());
                    let (path, cause) = (p(file.path), because_of(message));
                    let written = engine
                        .workspaces
                        .write_file(&fork.id, &path, content, &options, &cause);
                    written.unwrap();
                }
                None => {
                    let dir = engine.workspaces.hand_out_path(&fork.id).unwrap();
                    fs::write(dir.join(file.path), text).unwrap();
                    if !is_last {
                        engine.sync.sync_workspace(&fork.id).unwrap();
                    }
                }
            }
        }
    }

    /// What a person changes in the project itself.
    fn put(&self, project: &ProjectId, files: &mut [File; 2], edits: &Edits, minified: bool) {
        for (file, edits) in files.iter_mut().zip(edits) {
            let number = self.number();
            let message = format!("p-{number}");
            let mut slots = file.slots.clone();
            file.edit(
                &mut slots,
                number,
                &person(Some(message.clone()), number),
                edits,
            );
            if slots == file.slots {
                continue;
            }
            file.slots = slots;
            let text = file.render(&file.slots, minified);
            let (content, options) = (Content::Bytes(text.as_bytes()), WriteOptions::default());
            let (path, cause) = (p(file.path), because_of(&message));
            let engine = &self.test.engine;
            let put = engine
                .projects
                .put_in_project(project, &path, content, &options, &cause);
            put.unwrap();
        }
    }

    fn check_text(&self, project: &ProjectId, file: &File, when: &str) {
        let text = self.test.project_text(project, file.path);
        match file.is_json() {
            true => {
                let expected = as_json(&file.slots, true);
                let now: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(now.to_string(), expected, "{when}");
            }
            false => assert_eq!(text, as_text(&file.slots), "{when}"),
        }
    }
}

fn name_of(project: &ProjectId, agent: usize) -> String {
    format!("{project}-w{agent}")
}

/// Compares the report about one file with the model.
fn check_told(done: &Completed, file: &File, fork: &Fork, at: usize, outcome: &Outcome) {
    let waits = outcome.conflicts.iter().any(|(_, wins)| wins.is_none());
    let waiting: Vec<&Vec<String>> = (done.conflicts.iter())
        .filter(|one| one.path == p(file.path))
        .map(|one| &one.parts)
        .collect();
    let decided: Vec<DecisionReport> = (done.decided.iter())
        .filter(|one| one.path == p(file.path))
        .map(|one| {
            assert_eq!(one.policy, Policy::Priority);
            let with = |name: &Option<String>, message: &Option<String>| {
                name.clone().map(|name| (name, message.clone()))
            };
            DecisionReport {
                winner: if one.winner == "theirs" {
                    "theirs"
                } else {
                    "ours"
                },
                parts: one.parts.clone(),
                lost: with(&one.lost_by, &one.lost_message_id),
                ours: with(&one.ours_by, &one.ours_message_id),
            }
        })
        .collect();
    if waits {
        let parts: Vec<String> = (outcome.conflicts.iter())
            .map(|(at, _)| file.part(*at))
            .collect();
        assert_eq!(waiting, [&parts], "{}", file.path);
        assert_eq!(decided, [], "{}", file.path);
        return;
    }
    assert_eq!(waiting, [] as [&Vec<String>; 0], "{}", file.path);
    let expected = [true, false].map(|wins| file.expected(&fork.theirs[at], outcome, wins));
    let expected: Vec<DecisionReport> = expected.into_iter().flatten().collect();
    assert_eq!(decided, expected, "{}", file.path);
    for one in done.decided.iter().filter(|one| one.path == p("f.txt")) {
        if !file.is_json() {
            let lost = match one.winner.as_str() {
                "theirs" => &file.slots,
                _ => &fork.theirs[at],
            };
            let id = offshoot_git::hash(ObjectKind::Blob, as_text(lost).as_bytes());
            assert_eq!(one.lost, Some(id.unwrap()));
        }
    }
}

/// One agent completes its fork, and its conflicts are decided.
fn complete(
    setup: &Setup,
    project: &ProjectId,
    scenario: &Scenario,
    turn: usize,
    fork: &mut Fork,
    files: &mut [File; 2],
) {
    let engine = &setup.test.engine;
    let options = CompleteOptions {
        policy: Some(Policy::Priority),
        ..CompleteOptions::default()
    };
    let message = format!("c-{turn}");
    let cause = because_of(&message);
    fork.recorded(&name_of(project, turn), &message, setup.number());
    let done = engine.merges.complete(&fork.id, &options, &cause).unwrap();
    let before = files.clone();
    for (at, file) in files.iter_mut().enumerate() {
        let outcome = file.merge(&fork.base[at], &fork.theirs[at], false);
        check_told(&done, file, fork, at, &outcome);
        let waiting = done.conflicts.iter().find(|one| one.path == p(file.path));
        let Some(waiting) = waiting else {
            file.slots = outcome.merged;
            continue;
        };
        if let Some(for_it) = scenario.agents[turn].decided_for_it {
            let how = match for_it {
                true => Resolution::Theirs,
                false => Resolution::Ours,
            };
            let review = waiting.review_id.as_deref().unwrap();
            engine.merges.resolve(review, how, &user()).unwrap();
            // A decision for the project leaves the whole file as it is.
            if for_it {
                let outcome = file.merge(&fork.base[at], &fork.theirs[at], true);
                file.slots = outcome.merged;
            }
        }
    }
    for file in files.iter() {
        setup.check_text(project, file, &format!("after w{turn}"));
    }
    let changed = before.iter().zip(&*files).any(|(a, b)| a.slots != b.slots);
    if scenario.agents[turn].undone && changed && done.conflicts.is_empty() {
        engine
            .merges
            .undo_merge(&done.merge_id.unwrap(), &user())
            .unwrap();
        *files = before;
        for file in files.iter() {
            setup.check_text(project, file, &format!("after w{turn} was undone"));
        }
    }
}

fn check(setup: &Setup, scenario: &Scenario) {
    let mut files = [('t', "f.txt"), ('j', "f.json")].map(|(letter, path)| File {
        path,
        letter,
        slots: first_slots(letter),
    });
    let project = setup.project(&files, scenario.minified);
    let mut forks: Vec<Option<Fork>> = scenario.agents.iter().map(|_| None).collect();
    for turn in 0..scenario.agents.len() {
        for (agent, fork) in forks.iter_mut().enumerate() {
            if scenario.agents[agent].forked_after == turn {
                *fork = Some(setup.fork(&project, scenario, agent, &files));
            }
        }
        if let Some(edits) = &scenario.agents[turn].person {
            setup.put(&project, &mut files, edits, scenario.minified);
        }
        let mut fork = forks[turn].take().unwrap();
        complete(setup, &project, scenario, turn, &mut fork, &mut files);
    }
}

#[test]
fn property_priority_is_that_of_each_line_and_member() {
    let setup = RefCell::new(Setup {
        test: TestEngine::in_memory(ProviderName::Copy),
        projects: Cell::new(0),
        numbers: Cell::new(0),
    });
    let config = Config {
        cases: if soak() { CASES * 50 } else { CASES },
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&any_scenario(), |scenario| {
        check(&setup.borrow(), &scenario);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
