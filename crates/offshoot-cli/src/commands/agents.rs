//! `offshoot agent …`: the tree of agents under root.

use clap::Subcommand;
use offshoot_core::{AgentId, Error, ProjectId};
use offshoot_engine::{Agent, AuthorSetting};

use super::Context;
use crate::output::{Align, CommandResult, Exit, printable, when};
use offshoot_wire as wire;

/// What can be done with agents.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Let an agent come into being; prints its id
    ///
    /// A direct child of root gets a workspace of its own, a fork if a project is named; every
    /// other agent works in that of its nearest ancestor.
    Spawn {
        /// The agent above it, or `root`
        #[arg(long)]
        parent: String,
        /// What it is there for
        #[arg(long)]
        role: String,
        /// Fork this project for it
        #[arg(long, value_name = "P")]
        project: Option<String>,
        /// The weight of its forks where a policy decides by priority [default: that of the agent
        /// above it, or 0]
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        priority: Option<i64>,
    },
    /// Show the tree of agents
    List,
    /// Show or set who the commits of agents are said to be by
    ///
    /// Merges are authored so, and git in forks commits so. Without an AUTHOR it shows what is
    /// set. What is set for an agent goes before what is set for a project.
    Author {
        /// `Name <address>`; `{agent}` in it stands for the name of the agent
        #[arg(value_name = "AUTHOR", conflicts_with = "remove")]
        author: Option<String>,
        /// Of this agent, or of the operator of this name [default: of all agents]
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
        /// In this project [default: in all]
        #[arg(long, value_name = "P")]
        project: Option<String>,
        /// Forget what is set for that agent and project
        #[arg(long)]
        remove: bool,
    },
    /// Remove an agent from the tree; its workspace and the agents below it stay
    End {
        /// The agent
        id: String,
    },
    /// Print the workspace that an agent works in
    Workspace {
        /// The agent
        id: String,
    },
}

/// Runs one of them.
pub(super) fn run(cx: &mut Context<'_>, command: &AgentCommand) -> CommandResult {
    match command {
        AgentCommand::Spawn {
            parent,
            role,
            project,
            priority,
        } => spawn(cx, (parent, role), project.as_deref(), *priority),
        AgentCommand::List => list(cx),
        AgentCommand::Author {
            author,
            agent,
            project,
            remove,
        } => {
            let agent = agent.as_deref().map(str::parse).transpose()?;
            let project = project.as_deref().map(str::parse).transpose()?;
            set_author(cx, author.as_deref(), (agent, project), *remove)
        }
        AgentCommand::End { id } => end(cx, &id.parse()?),
        AgentCommand::Workspace { id } => workspace(cx, &id.parse()?),
    }
}

fn spawn(
    cx: &mut Context<'_>,
    (parent, role): (&str, &str),
    project: Option<&str>,
    priority: Option<i64>,
) -> CommandResult {
    let project = project.map(str::parse).transpose()?;
    let agent = cx
        .engine
        .access
        .spawn(parent, role, project.as_ref(), priority, &cx.cause)?;
    if cx.output.json() {
        cx.output.document(&wire::Agent::from(&agent))?;
        return Ok(Exit::Done);
    }
    cx.output.line(&agent.id)?;
    if let Some(workspace) = &agent.workspace {
        let path = cx.command_line(&["workspace", "path", workspace.as_str()]);
        cx.output.note(format_args!(
            "it works in `{workspace}`; its directory: {path}"
        ));
    }
    Ok(Exit::Done)
}

fn list(cx: &mut Context<'_>) -> CommandResult {
    let agents = cx.engine.access.agents()?;
    if cx.output.json() {
        cx.output.document(&wire::Agents::from(agents.as_slice()))?;
        return Ok(Exit::Done);
    }
    if agents.is_empty() {
        cx.output
            .note("there are no agents; `offshoot agent spawn --parent root --role R` makes one");
    }
    let mut rows = Vec::with_capacity(agents.len());
    for (agent, depth) in in_tree_order(&agents) {
        rows.push(vec![
            format!("{}{}", "  ".repeat(depth), agent.id),
            printable(&agent.role),
            match &agent.workspace {
                Some(workspace) if agent.owns_workspace => workspace.to_string(),
                Some(workspace) => format!("({workspace})"),
                None => "-".to_owned(),
            },
            when(agent.created_at),
        ]);
    }
    cx.output.table(
        &[
            ("AGENT", Align::Left),
            ("ROLE", Align::Left),
            ("WORKSPACE", Align::Left),
            ("SINCE", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

/// Each agent below the one above it, with its depth. Those whose parent has ended come at the top.
fn in_tree_order(agents: &[Agent]) -> Vec<(&Agent, usize)> {
    let known = |id: &AgentId| agents.iter().any(|agent| agent.id == *id);
    let is_top = |agent: &&Agent| !agent.parent.as_ref().is_some_and(known);
    let mut open: Vec<(&Agent, usize)> = agents
        .iter()
        .rev()
        .filter(is_top)
        .map(|one| (one, 0))
        .collect();
    let mut order = Vec::with_capacity(agents.len());
    while let Some((agent, depth)) = open.pop() {
        order.push((agent, depth));
        let below = agents.iter().rev();
        open.extend(
            below
                .filter(|one| one.parent.as_ref() == Some(&agent.id))
                .map(|one| (one, depth + 1)),
        );
    }
    order
}

/// Shows the authors, after changing them if that was asked for.
fn set_author(
    cx: &mut Context<'_>,
    author: Option<&str>,
    (agent, project): (Option<AgentId>, Option<ProjectId>),
    remove: bool,
) -> CommandResult {
    if let Some(author) = author {
        let author = author.parse()?;
        cx.engine.projects.set_author(&AuthorSetting {
            project,
            agent,
            author,
        })?;
    } else if remove {
        let removed = (cx.engine.projects).remove_author(project.as_ref(), agent.as_ref())?;
        if !removed {
            return Err(
                Error::invalid("no author is set for that agent and project")
                    .with_hint("`offshoot agent author` lists those that are")
                    .into(),
            );
        }
    }
    let authors = cx.engine.projects.authors()?;
    if cx.output.json() {
        cx.output
            .document(&wire::Authors::from(authors.as_slice()))?;
        return Ok(Exit::Done);
    }
    if authors.is_empty() {
        cx.output
            .note("none is set: an agent's commits are by its own name");
    }
    let row = |one: &AuthorSetting| {
        let all = || "all".to_owned();
        let name = format!("{} <{}>", one.author.name, one.author.email);
        vec![
            one.agent.as_ref().map_or_else(all, ToString::to_string),
            one.project.as_ref().map_or_else(all, ToString::to_string),
            printable(&name),
        ]
    };
    let rows: Vec<Vec<String>> = authors.iter().map(row).collect();
    let columns = [
        ("AGENT", Align::Left),
        ("PROJECT", Align::Left),
        ("AUTHOR", Align::Left),
    ];
    cx.output.table(&columns, &rows)?;
    Ok(Exit::Done)
}

fn end(cx: &mut Context<'_>, id: &AgentId) -> CommandResult {
    cx.engine.access.end_agent(id, &cx.cause)?;
    if cx.output.json() {
        cx.output.document(&wire::AgentEnded::new(id))?;
    } else {
        cx.output.line(format_args!("ended `{id}`"))?;
    }
    Ok(Exit::Done)
}

fn workspace(cx: &mut Context<'_>, id: &AgentId) -> CommandResult {
    let workspace = cx.engine.access.workspace_of_agent(id)?;
    if cx.output.json() {
        cx.output
            .document(&wire::AgentWorkspace::new(id, &workspace))?;
    } else {
        cx.output.line(workspace)?;
    }
    Ok(Exit::Done)
}
