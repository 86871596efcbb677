//! The tree of agents: where each of them works, over random trees and random steps.

use std::collections::HashMap;

use crate::fixture::{TestEngine, user};
use offshoot_core::{AgentId, ErrorCode, ProjectId, WorkspaceId};
use offshoot_engine::{CompleteOptions, Engine, ForkOptions};
use offshoot_fs::ProviderName;
use proptest::prelude::*;

/// One step; numbers are taken modulo the number of candidates.
#[derive(Clone, Debug)]
enum Event {
    Spawn { parent: usize, below_root: bool },
    End { agent: usize },
    DeleteWorkspace { agent: usize },
    Fork { agent: usize },
    Complete { agent: usize },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..64usize, prop::bool::weighted(0.25))
            .prop_map(|(parent, below_root)| Event::Spawn { parent, below_root }),
        1 => (0..64usize).prop_map(|agent| Event::End { agent }),
        1 => (0..64usize).prop_map(|agent| Event::DeleteWorkspace { agent }),
        2 => (0..64usize).prop_map(|agent| Event::Fork { agent }),
        1 => (0..64usize).prop_map(|agent| Event::Complete { agent }),
    ];
    prop::collection::vec(event, 1..24)
}

/// The model of the tree.
#[derive(Default)]
struct Model {
    order: Vec<AgentId>,
    parent: HashMap<AgentId, Option<AgentId>>,
    owned: HashMap<AgentId, WorkspaceId>,
    ended: Vec<AgentId>,
    forks: Vec<WorkspaceId>,
    deleted: Vec<WorkspaceId>,
}

impl Model {
    fn workspace(&self, agent: &AgentId) -> Option<&WorkspaceId> {
        let own = self
            .owned
            .get(agent)
            .filter(|own| !self.deleted.contains(own));
        match (own, &self.parent[agent]) {
            (Some(own), _) => Some(own),
            (None, Some(parent)) => self.workspace(parent),
            (None, None) => None,
        }
    }

    fn pick(&self, number: usize) -> Option<&AgentId> {
        self.order.get(number % self.order.len().max(1))
    }

    /// The fork that belongs to an agent.
    fn own_fork(&self, agent: &AgentId) -> Option<&WorkspaceId> {
        let own = self.owned.get(agent)?;
        (self.forks.contains(own) && !self.deleted.contains(own)).then_some(own)
    }

    fn apply(&mut self, engine: &Engine, project: &ProjectId, event: &Event) {
        match event {
            Event::Spawn { parent, below_root } => {
                let parent = self.pick(*parent).filter(|_| !below_root).cloned();
                let name = parent.as_ref().map_or("root", AgentId::as_str);
                let spawned = engine.access.spawn(name, "worker", None, None, &user());
                if let Some(parent) = parent.as_ref().filter(|one| self.ended.contains(one)) {
                    let error = spawned.unwrap_err();
                    assert_eq!(error.code(), ErrorCode::AgentNotFound, "{parent}");
                    return;
                }
                let agent = spawned.unwrap();
                assert_eq!(agent.parent, parent);
                if parent.is_none() {
                    // A direct child of root has a workspace of its own name.
                    let own = agent.workspace.clone().unwrap();
                    assert_eq!(own.as_str(), agent.id.as_str());
                    assert!(agent.owns_workspace);
                    self.owned.insert(agent.id.clone(), own);
                } else {
                    assert!(!agent.owns_workspace);
                }
                self.parent.insert(agent.id.clone(), parent);
                self.order.push(agent.id);
            }
            Event::End { agent } => {
                if let Some(agent) = self.pick(*agent).cloned() {
                    engine.access.end_agent(&agent, &user()).unwrap();
                    if !self.ended.contains(&agent) {
                        self.ended.push(agent);
                    }
                }
            }
            Event::DeleteWorkspace { agent } => {
                let owned = self.pick(*agent).and_then(|agent| self.owned.get(agent));
                if let Some(workspace) = owned.cloned() {
                    engine
                        .workspaces
                        .delete_workspace(&workspace, &user())
                        .unwrap();
                    self.deleted.push(workspace);
                }
            }
            Event::Fork { agent } => {
                let agent = self.pick(*agent).cloned();
                if let Some(agent) = agent.filter(|agent| !self.ended.contains(agent)) {
                    let options = ForkOptions {
                        agent: Some(agent.clone()),
                        ..ForkOptions::default()
                    };
                    let fork = engine.forks.fork(project, &options, &user()).unwrap();
                    let id = fork.workspace.id;
                    // The name of a removed workspace may be used again.
                    self.deleted.retain(|one| *one != id);
                    self.forks.push(id.clone());
                    // A further fork does not replace the one that the agent works in.
                    if self.own_fork(&agent).is_none() {
                        self.owned.insert(agent, id);
                    }
                }
            }
            Event::Complete { agent } => {
                let own = self.pick(*agent).and_then(|agent| self.own_fork(agent));
                if let Some(own) = own.cloned() {
                    let options = CompleteOptions::default();
                    engine.merges.complete(&own, &options, &user()).unwrap();
                    self.deleted.push(own);
                }
            }
        }
    }

    fn check(&self, engine: &Engine) {
        let listed = engine.access.agents().unwrap();
        let mut expected: Vec<AgentId> = self
            .order
            .iter()
            .filter(|id| !self.ended.contains(id))
            .cloned()
            .collect();
        expected.sort();
        let names: Vec<AgentId> = listed.iter().map(|agent| agent.id.clone()).collect();
        assert_eq!(names, expected);
        for id in &self.order {
            let found = engine.access.workspace_of_agent(id);
            match (self.ended.contains(id), self.workspace(id)) {
                (true, _) => assert_eq!(found.unwrap_err().code(), ErrorCode::AgentNotFound),
                (false, Some(workspace)) => {
                    assert_eq!(found.as_ref().unwrap(), workspace);
                    let agent = engine.access.agent(id).unwrap();
                    assert_eq!(agent.workspace.as_ref(), Some(workspace));
                    assert_eq!(agent.owns_workspace, self.owned.get(id) == Some(workspace));
                }
                (false, None) => {
                    let error = found.unwrap_err();
                    assert_eq!(error.code(), ErrorCode::WorkspaceNotAssigned);
                    assert!(error.hint().is_some());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if offshoot_testkit::soak() { 500 } else { 100 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_agent_works_in_the_nearest_workspace_above_it(events in events()) {
        let mut test = TestEngine::in_memory(ProviderName::Copy);
        let project = test.project("web");
        let mut model = Model::default();
        for event in &events {
            model.apply(&test.engine, &project, event);
        }
        model.check(&test.engine);
        // Everything is in the store.
        test.reopen();
        model.check(&test.engine);
    }
}

#[test]
fn a_project_is_forked_for_a_direct_child_of_root_alone() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let agent = test
        .engine
        .access
        .spawn("root", "Build & test", Some(&project), None, &user())
        .unwrap();
    assert!(
        agent.id.as_str().starts_with("build---test-"),
        "{}",
        agent.id
    );
    let workspace = agent.workspace.unwrap();
    let fork = test.engine.forks.fork_of(&workspace).unwrap().unwrap();
    assert_eq!(
        (fork.project, fork.agent),
        (project.clone(), Some(agent.id.clone()))
    );
    let below = test
        .engine
        .access
        .spawn(agent.id.as_str(), "helper", Some(&project), None, &user())
        .unwrap_err();
    assert_eq!(below.code(), ErrorCode::InvalidRequest);
    assert_eq!(test.engine.access.agents().unwrap().len(), 1);
    for role in ["", "a\nb", &"x".repeat(300)] {
        let refused = test
            .engine
            .access
            .spawn("root", role, None, None, &user())
            .unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    }
    let nobody = test
        .engine
        .access
        .spawn("nobody", "r", None, None, &user())
        .unwrap_err();
    assert_eq!(nobody.code(), ErrorCode::AgentNotFound);
    // Merging the workspace leaves the agents below without one.
    let helper = test
        .engine
        .access
        .spawn(agent.id.as_str(), "helper", None, None, &user())
        .unwrap();
    assert_eq!(
        test.engine.access.workspace_of_agent(&helper.id).unwrap(),
        workspace
    );
    test.engine
        .merges
        .complete(&workspace, &CompleteOptions::default(), &user())
        .unwrap();
    let none = test
        .engine
        .access
        .workspace_of_agent(&helper.id)
        .unwrap_err();
    assert_eq!(none.code(), ErrorCode::WorkspaceNotAssigned);
}

/// Every call of an agent looks up those above it, so the depth is limited.
#[test]
fn the_tree_has_a_depth() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("web");
    let mut last = test
        .engine
        .access
        .spawn("root", "first", Some(&project), None, &user())
        .unwrap();
    let mut depth = 1;
    let refused = loop {
        match test
            .engine
            .access
            .spawn(last.id.as_str(), "next", None, None, &user())
        {
            Ok(next) => last = next,
            Err(error) => break error,
        }
        depth += 1;
        assert!(depth <= 64, "there is no end");
    };
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    assert_eq!(depth, 32);
}
