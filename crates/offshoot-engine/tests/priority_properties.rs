//! Priority over random sequences of agents: the project is what a model says that knows, for each
//! line of a text and each member of a JSON document, who last set it and with what weight.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod rig;

use std::cell::{Cell, RefCell};

use offshoot_core::{ProjectId, WorkspaceId};
use offshoot_engine::{CompleteOptions, Content, ForkOptions, Policy, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_testkit::soak;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rig::{Rig, p, user};

/// How many lines and members can be set.
const SLOTS: usize = 5;
const CASES: u32 = 120;

/// What an agent does to the text and to the document: sets a slot, or takes it away.
#[derive(Clone, Debug)]
struct Agent {
    priority: i64,
    /// How many of those before it have completed when it forks.
    forked_after: usize,
    edits: [Vec<(usize, bool)>; 2],
}

#[derive(Clone, Debug)]
struct Scene {
    agents: Vec<Agent>,
    /// Whether the document stands in one line.
    minified: bool,
}

fn any_scene() -> impl Strategy<Value = Scene> {
    let edits = || prop::collection::vec((0..SLOTS, prop::bool::weighted(0.8)), 0..4);
    let agent = (0..4i64, any::<prop::sample::Index>(), edits(), edits());
    let agents = prop::collection::vec(agent, 2..7).prop_map(|agents| {
        let with_fork = agents.into_iter().enumerate();
        with_fork
            .map(|(at, (priority, fork, text, json))| Agent {
                priority,
                // Often from the start, so that there are conflicts.
                forked_after: fork.index(2 * at + 1).saturating_sub(at),
                edits: [text, json],
            })
            .collect()
    });
    (agents, any::<bool>()).prop_map(|(agents, minified)| Scene { agents, minified })
}

/// A line or member: what it is, and the agent that last set it or took it away.
#[derive(Clone, Debug, PartialEq)]
struct Slot {
    value: Option<String>,
    set_by: Option<usize>,
}

type Slots = Vec<Slot>;

/// Words of letters alone and of one length, so that no two can be put together.
fn word(letter: char, agent: usize) -> String {
    let agent = char::from(b'a' + agent as u8);
    format!("{letter}{agent}{letter}{agent}{agent}")
}

fn first_slots(letter: char) -> Slots {
    let slot = |_| Slot {
        value: Some(word(letter, 25)),
        set_by: None,
    };
    (0..SLOTS).map(slot).collect()
}

/// Lines far enough from each other that none of them share a part of a conflict.
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

fn as_json(slots: &Slots, minified: bool) -> String {
    let members = slots.iter().enumerate().filter_map(|(at, slot)| {
        let value = slot.value.as_ref()?;
        Some((format!("k{}", char::from(b'a' + at as u8)), value))
    });
    let members: serde_json::Map<String, serde_json::Value> = members
        .map(|(key, value)| (key, value.as_str().into()))
        .collect();
    match minified {
        true => serde_json::to_string(&members).unwrap(),
        false => serde_json::to_string_pretty(&members).unwrap() + "\n",
    }
}

/// One file, and what the model says it is.
struct File {
    path: &'static str,
    letter: char,
    slots: Slots,
}

impl File {
    fn render(&self, slots: &Slots, minified: bool) -> String {
        match self.path {
            "f.json" => as_json(slots, minified),
            _ => as_text(slots),
        }
    }

    /// What an agent makes of it.
    fn edited(&self, base: &Slots, agent: usize, edits: &[(usize, bool)]) -> Slots {
        let mut slots = base.clone();
        for (at, keep) in edits {
            // What is gone stays gone: where it would be put back is not for a model to say.
            if slots[*at].value.is_some() {
                slots[*at] = Slot {
                    value: keep.then(|| word(self.letter, agent)),
                    set_by: Some(agent),
                };
            }
        }
        slots
    }

    /// Merges what an agent made of a base. Returns whether somebody has to decide.
    fn merge(&mut self, base: &Slots, theirs: &Slots, agents: &[Agent]) -> bool {
        let mut merged = self.slots.clone();
        for at in 0..SLOTS {
            let (base, theirs, ours) = (&base[at], &theirs[at], &mut merged[at]);
            if theirs.value == base.value || theirs.value == ours.value {
                continue;
            }
            let weight = |slot: &Slot| slot.set_by.map_or(0, |agent| agents[agent].priority);
            let is_conflict = ours.value != base.value;
            if is_conflict && weight(theirs) == weight(ours) {
                return true;
            }
            if !is_conflict || weight(theirs) > weight(ours) {
                *ours = theirs.clone();
            }
        }
        self.slots = merged;
        false
    }
}

struct Fork {
    id: WorkspaceId,
    base: [Slots; 2],
    theirs: [Slots; 2],
}

struct Stage {
    rig: Rig,
    number: Cell<usize>,
}

impl Stage {
    fn project(&self, files: &[File; 2], minified: bool) -> ProjectId {
        self.number.set(self.number.get() + 1);
        let id: ProjectId = format!("p{}", self.number.get()).parse().unwrap();
        self.rig.engine.create_project(&id, &user()).unwrap();
        for file in files {
            self.rig
                .put(&id, file.path, &file.render(&file.slots, minified));
        }
        id
    }

    fn fork(&self, project: &ProjectId, scene: &Scene, agent: usize, files: &[File; 2]) -> Fork {
        let engine = &self.rig.engine;
        let options = ForkOptions {
            agent: Some(format!("{project}-w{agent}").parse().unwrap()),
            priority: Some(scene.agents[agent].priority),
            ..ForkOptions::default()
        };
        let id = engine
            .fork(project, &options, &user())
            .unwrap()
            .workspace
            .id;
        let base = [0, 1].map(|at: usize| files[at].slots.clone());
        let theirs = [0, 1]
            .map(|at: usize| files[at].edited(&base[at], agent, &scene.agents[agent].edits[at]));
        for at in 0..2 {
            if theirs[at] != base[at] {
                let text = files[at].render(&theirs[at], scene.minified);
                let content = Content::Bytes(text.as_bytes());
                let options = WriteOptions::default();
                engine
                    .write_file(&id, &p(files[at].path), content, &options, &user())
                    .unwrap();
            }
        }
        Fork { id, base, theirs }
    }
}

fn check(stage: &Stage, scene: &Scene) {
    let mut files = [('t', "f.txt"), ('j', "f.json")].map(|(letter, path)| File {
        path,
        letter,
        slots: first_slots(letter),
    });
    let project = stage.project(&files, scene.minified);
    let mut forks: Vec<Option<Fork>> = scene.agents.iter().map(|_| None).collect();
    for turn in 0..scene.agents.len() {
        for (agent, fork) in forks.iter_mut().enumerate() {
            if scene.agents[agent].forked_after == turn {
                *fork = Some(stage.fork(&project, scene, agent, &files));
            }
        }
        let fork = forks[turn].take().unwrap();
        let options = CompleteOptions {
            policy: Some(Policy::Priority),
            ..CompleteOptions::default()
        };
        let done = stage
            .rig
            .engine
            .complete(&fork.id, &options, &user())
            .unwrap();
        for (at, file) in files.iter_mut().enumerate() {
            let before = file.slots.clone();
            let waits = file.merge(&fork.base[at], &fork.theirs[at], &scene.agents);
            let told = done.conflicts.iter().any(|one| one.path == p(file.path));
            assert_eq!(
                told, waits,
                "{} of w{turn}: {:?}",
                file.path, done.conflicts
            );
            let text = stage.rig.project_text(&project, file.path);
            match file.path {
                "f.json" => {
                    let expected = as_json(&file.slots, true);
                    let now: serde_json::Value = serde_json::from_str(&text).unwrap();
                    assert_eq!(now.to_string(), expected, "after w{turn}");
                }
                _ => assert_eq!(text, as_text(&file.slots), "after w{turn}"),
            }
            for decided in done.decided.iter().filter(|one| one.path == p(file.path)) {
                let owners = before.iter().filter_map(|slot| slot.set_by);
                let mut owners = owners.map(|agent| format!("{project}-w{agent}"));
                let ours = decided.ours_by.as_ref();
                assert!(owners.any(|owner| Some(&owner) == ours), "{decided:?}");
            }
        }
    }
}

#[test]
fn property_priority_is_that_of_each_line_and_member() {
    let stage = RefCell::new(Stage {
        rig: Rig::in_memory(ProviderName::Copy),
        number: Cell::new(0),
    });
    let config = Config {
        cases: if soak() { CASES * 50 } else { CASES },
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&any_scene(), |scene| {
        check(&stage.borrow(), &scene);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
