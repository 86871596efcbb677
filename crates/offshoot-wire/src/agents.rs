//! Agents and their workspaces.

use offshoot_core::{AgentId, WorkspaceId};
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Time, time};

/// One agent.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Agent {
    id: String,
    /// `root`, or the agent above it.
    parent: String,
    role: String,
    workspace_id: Option<String>,
    owns_workspace: bool,
    /// The weight of its forks where a policy decides by priority, unless a fork has its own.
    priority: i64,
    created_at: Time,
}

impl From<&engine::Agent> for Agent {
    fn from(agent: &engine::Agent) -> Self {
        let parent = agent.parent.as_ref();
        Agent {
            id: agent.id.to_string(),
            parent: parent.map_or_else(|| "root".to_owned(), ToString::to_string),
            role: agent.role.clone(),
            workspace_id: agent.workspace.as_ref().map(ToString::to_string),
            owns_workspace: agent.owns_workspace,
            priority: agent.priority,
            created_at: time(agent.created_at),
        }
    }
}

/// A new agent with a token of its own, whose secret is shown this once.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SpawnedAgent {
    #[serde(flatten)]
    agent: Agent,
    /// The secret: the agent sends it as `Authorization: Bearer SECRET`.
    token: String,
}

impl SpawnedAgent {
    /// Converts the result of the engine.
    pub fn new(agent: &engine::Agent, token: &engine::IssuedToken) -> Self {
        SpawnedAgent {
            agent: Agent::from(agent),
            token: token.secret.clone(),
        }
    }
}

/// All agents, in the order of names.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Agents {
    agents: Vec<Agent>,
}

impl From<&[engine::Agent]> for Agents {
    fn from(agents: &[engine::Agent]) -> Self {
        Agents {
            agents: agents.iter().map(Agent::from).collect(),
        }
    }
}

/// The answer to ending an agent.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentEnded {
    id: String,
    ended: bool,
}

impl AgentEnded {
    /// Converts the result of the engine.
    pub fn new(id: &AgentId) -> Self {
        AgentEnded {
            id: id.to_string(),
            ended: true,
        }
    }
}

/// Where an agent works.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentWorkspace {
    id: String,
    workspace_id: String,
}

impl AgentWorkspace {
    /// Converts the result of the engine.
    pub fn new(id: &AgentId, workspace: &WorkspaceId) -> Self {
        AgentWorkspace {
            id: id.to_string(),
            workspace_id: workspace.to_string(),
        }
    }
}

/// Who the commits of agents are said to be by.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Authors {
    authors: Vec<AuthorSetting>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Author")]
struct AuthorSetting {
    /// None is every project.
    project: Option<String>,
    /// None is every agent.
    agent: Option<String>,
    name: String,
    email: String,
}

impl From<&[engine::AuthorSetting]> for Authors {
    fn from(authors: &[engine::AuthorSetting]) -> Self {
        let author = |one: &engine::AuthorSetting| AuthorSetting {
            project: one.project.as_ref().map(ToString::to_string),
            agent: one.agent.as_ref().map(ToString::to_string),
            name: one.author.name.clone(),
            email: one.author.email.clone(),
        };
        Authors {
            authors: authors.iter().map(author).collect(),
        }
    }
}
