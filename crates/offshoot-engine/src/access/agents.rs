//! Agents on behalf of a principal.
//!
//! An admin has the whole tree, a token of a project the agents that work, or worked last, in its
//! forks, and an agent itself and those below it.

use offshoot_core::{AgentId, ErrorCode, ProjectId, Result};

use super::{Access, PrincipalKind, Reach, Scope};
use crate::access::agent_tree::{ROOT, home_of_agent, is_at_or_below, no_agent};
use crate::content::rows::{ParentProject, no_project};
use crate::{Agent, IssuedToken};

impl Access {
    /// See [`AccessControl::agents`](crate::AccessControl::agents); those out of reach are left out.
    pub fn agents(&self) -> Result<Vec<Agent>> {
        let mut reached = Vec::new();
        for agent in self.rooms.agents()? {
            if self.reaches_agent(&agent)? {
                reached.push(agent);
            }
        }
        Ok(reached)
    }

    /// One agent.
    pub fn agent(&self, id: &AgentId) -> Result<Agent> {
        let found = self.rooms.agent(id)?;
        match self.reaches_agent(&found)? {
            true => Ok(found),
            false => Err(no_agent(id)),
        }
    }

    /// See [`AccessControl::spawn_named`](crate::AccessControl::spawn_named). Below root it takes
    /// an admin or a token of the project, and so does a priority: an agent does not make its own
    /// work weigh more. So does a name, for a name that is taken tells of another agent. Without a
    /// parent an agent of the tree means itself, and everybody else root.
    pub fn spawn(
        &self,
        id: Option<&AgentId>,
        parent: Option<&str>,
        role: &str,
        project: Option<&ProjectId>,
        priority: Option<i64>,
    ) -> Result<Agent> {
        if priority.is_some() || id.is_some() {
            self.check_owner()?;
        }
        let parent = match (parent, &self.principal.scope.reach) {
            (Some(parent), _) => parent,
            (None, Reach::Agent(own)) if self.rooms.agent(own).is_ok() => own.as_str(),
            (None, _) => ROOT,
        };
        match (&self.principal.scope.reach, project) {
            (Reach::Everything, _) => self.principal.check_everything()?,
            (Reach::Project(own), Some(project)) if own != project => {
                return Err(no_project(project));
            }
            (_, Some(project)) => {
                self.check_project(project)?;
                self.check_owner()?;
            }
            (_, None) if parent == ROOT => self.principal.check_everything()?,
            (_, None) => {}
        }
        if parent != ROOT {
            self.agent(&parent.parse()?)?;
        }
        self.rooms.spawn_noting(
            id,
            parent,
            role,
            project,
            priority,
            self.noting.as_ref(),
            &self.cause,
        )
    }

    /// Issues a token for an agent that this principal has.
    pub fn token_for_agent(&self, id: &AgentId) -> Result<IssuedToken> {
        self.agent(id)?;
        let scope = Scope {
            kind: PrincipalKind::Agent,
            reach: Reach::Agent(id.clone()),
            // A new token allows no more than this principal may do.
            allow: self.principal.scope.allow.clone(),
        };
        // And it ends no later.
        let end = self.principal.expires_at;
        self.rooms.issue_token_until(&scope, None, end, &self.cause)
    }

    /// See [`AccessControl::end_agent`](crate::AccessControl::end_agent).
    pub fn end_agent(&self, id: &AgentId) -> Result<()> {
        match self.agent(id) {
            // One that ended before is not in the tree; for admins ending it again is done.
            Err(error)
                if error.code() == ErrorCode::AgentNotFound
                    && self.principal.scope.reach == Reach::Everything => {}
            other => drop(other?),
        }
        self.rooms.end_agent(id, &self.cause)
    }

    fn reaches_agent(&self, agent: &Agent) -> Result<bool> {
        match &self.principal.scope.reach {
            Reach::Everything => Ok(true),
            Reach::Workspace(_) => Ok(false),
            Reach::Agent(own) => self
                .rooms
                .store()
                .read(|tx| is_at_or_below(tx, &agent.id, own)),
            // Also while it has no workspace: the next fork is for it, and it can be ended.
            Reach::Project(own) => self.rooms.store().read(|tx| {
                let own = tx
                    .project(own)?
                    .map(|own| ParentProject::Project(own.key.0));
                Ok(own.is_some() && home_of_agent(tx, &agent.id)? == own)
            }),
        }
    }
}
