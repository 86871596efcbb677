//! Merges that land whole, with random outcomes of their conflicts: what only one agent changed is
//! in the project before its workspace is removed, and gets there once everything is decided.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::fixture::{TestEngine, user};
use offshoot_core::{ProjectId, WorkspaceId};
use offshoot_engine::{CompleteOptions, ProviderName, Resolution};
use offshoot_testkit::soak;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const AGENTS: usize = 2;
/// Paths that all agents write.
const SHARED: [&str; 2] = ["a", "d/c"];
/// So few texts that agents often write equal ones.
const TEXTS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// An agent writes one of few texts to a shared path, and a new one to its own path.
    Write(usize, usize, usize),
    Complete {
        agent: usize,
        atomic: bool,
        keep: bool,
    },
    /// Decides one of all reviews, also a resolved one.
    Resolve(usize, usize),
    Update(usize),
    /// The owner writes to a shared path.
    Put(usize, usize),
    /// Another agent writes to a shared path, in a fork of the current project.
    Bring(usize, usize),
    Undo(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    // Mostly the same agents, so that their changes often conflict.
    let agent = || prop_oneof![4 => Just(0), 1 => 1..AGENTS];
    let path = || prop_oneof![4 => Just(0), 1 => 1..SHARED.len()];
    prop_oneof![
        4 => (agent(), path(), 0..TEXTS).prop_map(|(a, b, c)| Step::Write(a, b, c)),
        5 => (agent(), prop::bool::weighted(0.8), prop::bool::weighted(0.3))
            .prop_map(|(agent, atomic, keep)| Step::Complete { agent, atomic, keep }),
        3 => (0_usize..8, 0_usize..2).prop_map(|(a, b)| Step::Resolve(a, b)),
        1 => agent().prop_map(Step::Update),
        2 => (path(), 0..TEXTS).prop_map(|(a, b)| Step::Put(a, b)),
        4 => (path(), 0..TEXTS).prop_map(|(a, b)| Step::Bring(a, b)),
        1 => (0_usize..4).prop_map(Step::Undo),
    ]
}

struct Agent {
    id: WorkspaceId,
    path: PathBuf,
    /// The path that only this agent writes, and its last content.
    own: String,
    text: Option<String>,
}

struct Setup<'a> {
    test: &'a TestEngine,
    project: ProjectId,
    agents: Vec<Agent>,
    /// Agents one of whose merges was undone: their work must not be in the project.
    undone: BTreeSet<String>,
    count: usize,
}

impl Setup<'_> {
    fn run(&mut self, step: Step) {
        let engine = &self.test.engine;
        self.count += 1;
        match step {
            Step::Write(agent, path, text) => {
                let agent = &mut self.agents[agent];
                if !agent.path.exists() {
                    return;
                }
                let path = agent.path.join(SHARED[path]);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{text}\n")).unwrap();
                let text = format!("{}\n", self.count);
                fs::write(agent.path.join(&agent.own), &text).unwrap();
                agent.text = Some(text);
            }
            Step::Complete {
                agent,
                atomic,
                keep,
            } => self.complete(agent, atomic, keep),
            Step::Resolve(number, choice) => {
                let all = engine.merges.reviews(Some(&self.project), true).unwrap();
                let Some(review) = all.get(number) else {
                    return;
                };
                let how = match choice {
                    0 => Resolution::Ours,
                    _ => Resolution::Theirs,
                };
                // The review may be resolved, or not land before the workspace is completed again.
                let _ = engine.merges.resolve(&review.id, how, &user());
            }
            Step::Update(agent) => {
                drop(engine.merges.update(&self.agents[agent].id, false, &user()));
            }
            Step::Put(path, text) => {
                let text = format!("{text}\n");
                self.test.put(&self.project, SHARED[path], &text);
            }
            Step::Bring(path, text) => {
                let agent = format!("other-{}-{}", self.project, self.count);
                let (id, at) = self.test.fork(&self.project, &agent);
                fs::write(at.join(SHARED[path]), format!("{text}\n")).unwrap();
                let done = engine
                    .merges
                    .complete(&id, &CompleteOptions::default(), &user());
                assert!(done.unwrap().conflicts.is_empty());
            }
            Step::Undo(number) => {
                let merges = engine.merges.list_merges(&self.project, None, 0).unwrap();
                let Some(merge) = merges.get(number) else {
                    return;
                };
                let id = merge.completed.merge_id.as_ref().unwrap();
                if engine.merges.undo_merge(id, &user()).is_ok() {
                    self.undone.insert(merge.completed.workspace.clone());
                }
            }
        }
    }

    fn complete(&self, agent: usize, atomic: bool, keep: bool) {
        let options = CompleteOptions {
            atomic: Some(atomic),
            keep,
            ..CompleteOptions::default()
        };
        let id = &self.agents[agent].id;
        match self.test.engine.merges.complete(id, &options, &user()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.code().as_str(), "workspace_not_found", "{error:?}"),
        }
    }

    /// The work of every agent whose workspace is gone is in the project.
    fn check(&self) {
        for agent in &self.agents {
            let is_open = self.test.engine.workspaces.workspace(&agent.id).is_ok();
            if !is_open {
                self.check_brought(agent);
            }
        }
    }

    fn check_brought(&self, agent: &Agent) {
        let Some(text) = &agent.text else {
            return;
        };
        if !self.undone.contains(agent.id.as_str()) {
            let there = self.test.project_text(&self.project, &agent.own);
            assert_eq!(there, *text, "of {}", agent.id);
        }
    }

    /// Decides all reviews until every workspace is merged.
    fn finish(&self) {
        let engine = &self.test.engine;
        for _ in 0..8 {
            for agent in 0..self.agents.len() {
                self.complete(agent, true, false);
            }
            for review in engine.merges.reviews(Some(&self.project), false).unwrap() {
                let _ = engine
                    .merges
                    .resolve(&review.id, Resolution::Theirs, &user());
            }
            self.check();
        }
        let open = engine.merges.reviews(Some(&self.project), false).unwrap();
        assert!(open.is_empty(), "{open:?}");
        for agent in &self.agents {
            self.check_brought(agent);
        }
    }
}

#[test]
fn no_work_of_one_agent_alone_is_lost() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let number = Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: if soak() { 600 } else { 30 },
        max_shrink_iters: 300,
        failure_persistence: None,
        ..Config::default()
    });
    let steps = prop::collection::vec(any_step(), 8..32);
    let outcome = runner.run(&steps, |steps| {
        number.set(number.get() + 1);
        let project = test.project(&format!("p{}", number.get()));
        for path in SHARED {
            test.put(&project, path, "first\n");
        }
        let agent = |n: usize| {
            let (id, path) = test.fork(&project, &format!("a{n}-{}", number.get()));
            let own = format!("own-{n}");
            Agent {
                id,
                path,
                own,
                text: None,
            }
        };
        let mut setup = Setup {
            test: &test,
            project: project.clone(),
            agents: (0..AGENTS).map(agent).collect(),
            undone: BTreeSet::new(),
            count: 0,
        };
        // One merge waits as a whole from the start.
        let waits = Step::Complete {
            agent: 0,
            atomic: true,
            keep: false,
        };
        let first = [Step::Write(0, 0, 1), Step::Put(0, 0), waits];
        for step in first.into_iter().chain(steps) {
            setup.run(step);
            setup.check();
        }
        setup.finish();
        Ok(())
    });
    outcome.unwrap();
    test.check();
}
