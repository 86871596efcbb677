//! Forks on behalf of a principal: making, listing and finding them.

use std::path::PathBuf;

use offshoot_core::{AgentId, Error, ErrorCode, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_store::ReadTx;

use super::{Access, Operation, Reach};
use crate::access::agent_tree::workspace_reached;
use crate::{Fork, ForkOptions};

impl Access {
    /// See [`Forks::list_forks`](crate::Forks::list_forks).
    pub fn forks(&self, project: &ProjectId) -> Result<Vec<Fork>> {
        self.forks_page(project, None, 0)
    }

    /// See [`Forks::forks_page`](crate::Forks::forks_page).
    pub fn forks_page(
        &self,
        project: &ProjectId,
        after: Option<&WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<Fork>> {
        self.check_project(project)?;
        self.rooms.forks.forks_page(project, after, limit)
    }

    /// A fork of a project, as it is now.
    pub fn fork_named(&self, id: &WorkspaceId) -> Result<Fork> {
        self.check_reach(id)?;
        let fork = self.rooms.forks.fork_of(id)?;
        fork.ok_or_else(|| Error::invalid(format!("`{id}` is no fork")))
    }

    /// Forks a project. A principal that may know the path gets it; for others the directory is
    /// made when it is needed.
    pub fn fork(
        &self,
        project: &ProjectId,
        options: &ForkOptions,
    ) -> Result<(Fork, Option<PathBuf>)> {
        self.check_whole_project(Operation::Write, project)?;
        if let (Reach::Project(_), Some(at)) = (&self.principal.scope.reach, &options.at) {
            self.rooms.check_fork_point(project, at)?;
        }
        // A token of a project may neither move the agents of another one into its forks nor learn
        // their priority.
        let out_of_reach = |agent: &AgentId| self.agent(agent).is_err();
        let is_of_others = options.agent.as_ref().is_some_and(out_of_reach);
        let options = &ForkOptions {
            leave_agent: options.leave_agent || is_of_others,
            priority: options.priority.or(is_of_others.then_some(0)),
            ..options.clone()
        };
        if options.at.is_none() {
            self.rooms.links.pull_if_auto(project);
        }
        if self.sees_host_paths() {
            let (fork, path) = self.recording_key(|also| {
                self.rooms
                    .forks
                    .fork_out_and(project, options, also, &self.cause)
            })?;
            return Ok((fork, Some(path)));
        }
        let fork = self.recording_key(|also| {
            self.rooms
                .forks
                .fork_and(project, options, also, &self.cause)
        })?;
        Ok((fork, None))
    }

    /// Whether this principal has a project, or all of them, to fork.
    pub fn may_fork(&self) -> bool {
        let root = RelPath::root();
        !self.sees_one_workspace()
            && self
                .principal
                .allows_all_below(Operation::Write, &root)
                .is_ok()
    }

    /// The path of the fork that an agent has of a project, and what to say about it; without an agent
    /// that of the only fork.
    pub fn path_of_fork(
        &self,
        project: &ProjectId,
        agent: Option<&AgentId>,
    ) -> Result<(PathBuf, Option<String>)> {
        self.check_project(project)?;
        self.check_owner()?;
        let forks = self.rooms.forks.list_forks(project)?;
        let found = match (agent, &forks[..]) {
            (Some(agent), forks) => {
                let reached = |tx: &dyn ReadTx| workspace_reached(tx, agent);
                let own = self.rooms.store().read(reached)?;
                let named = forks.iter().find(|fork| fork.agent.as_ref() == Some(agent));
                named.or_else(|| {
                    let mut forks = forks.iter();
                    forks.find(|fork| Some(&fork.workspace.id) == own.as_ref())
                })
            }
            (None, [only]) => Some(only),
            (None, []) => None,
            (None, several) => return Err(several_forks(project, several)),
        };
        let fork = found.ok_or_else(|| {
            let message = match agent {
                Some(agent) => {
                    format!("the agent `{agent}` has no fork of the project `{project}`")
                }
                None => format!("the project `{project}` has no fork"),
            };
            Error::new(ErrorCode::WorkspaceNotAssigned, message)
                .with_hint("fork the project for an agent first")
        })?;
        let id = &fork.workspace.id;
        let path = self.rooms.workspaces.hand_out_path(id)?;
        Ok((path, self.rooms.forks.path_note(id)?))
    }

    /// What to say about the path of a fork to a principal that may know it.
    pub fn path_note(&self, fork: &Fork) -> Option<String> {
        let known = self.sees_host_paths().then_some(fork);
        known.and_then(|fork| self.rooms.forks.note_of(fork))
    }
}

/// The most forks that an error names where one was meant.
const MOST_NAMED: usize = 10;

fn several_forks(project: &ProjectId, forks: &[Fork]) -> Error {
    let names = forks.iter().map(|fork| fork.workspace.id.as_str());
    let names: Vec<&str> = names.take(MOST_NAMED).collect();
    Error::invalid(format!(
        "the project `{project}` has {} forks, and the request names none",
        forks.len()
    ))
    .with_hint(format!("give `agent_id`, such as {}", names.join(", ")))
    .with_details(serde_json::json!({ "workspaces": names }))
}
