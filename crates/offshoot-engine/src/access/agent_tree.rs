//! The tree of agents under `root`.
//!
//! A direct child of root owns a workspace under its own name; every descendant works in that of
//! its nearest ancestor. An agent that is given a fork works in it, wherever the agent stands in
//! the tree. Agents that ended stay in the tree for those below them.

use std::collections::HashSet;

use offshoot_core::{
    AgentId, Cause, Error, ErrorCode, Layout, ProjectId, Result, Timestamp, WorkspaceId, is_unseen,
};
use offshoot_store::{
    AgentRow, Durability, HistoryOp, MadeRow, ReadTx, TokenRow, WorkspaceRow, WriteTx,
};

use crate::access::AccessControl;
use crate::access::{Reach, Scope};
use crate::content::agent_rows::{is_open, own_workspace};
use crate::content::rows::{ParentProject, parent_project};
use crate::content::workspace_row::{Quota, line_of};
use crate::context::idempotency::{ExtraWrite, IdempotencyRecord};
use crate::fork::create::ForkOptions;

/// The name of the top of the tree.
pub(crate) const ROOT: &str = "root";
/// The levels of the tree below root: every call of an agent looks at those above it.
const MAX_DEPTH: usize = 32;
/// The longest role, in bytes.
const MAX_ROLE: usize = 256;

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub id: AgentId,
    /// The agent above it; none directly below root.
    pub parent: Option<AgentId>,
    /// What it is there for.
    pub role: String,
    /// The workspace it works in: its own or that of an agent above it; none if there is none.
    pub workspace: Option<WorkspaceId>,
    /// Whether that is its own.
    pub owns_workspace: bool,
    /// The weight of its forks where a policy decides by priority, unless a fork has its own.
    pub priority: i64,
    /// When it came into being.
    pub created_at: Timestamp,
}

impl AccessControl {
    /// Creates an agent below another one, or below `root`. A direct child of root gets a workspace
    /// under its own name: a fork if a project is named, else an empty one. Without a priority it
    /// has that of the agent above it, or none.
    pub fn spawn(
        &self,
        parent: &str,
        role: &str,
        project: Option<&ProjectId>,
        priority: Option<i64>,
        cause: &Cause,
    ) -> Result<Agent> {
        self.spawn_named(None, parent, role, project, priority, cause)
    }

    /// Like [`spawn`](Self::spawn), under a name that the caller chooses, such as the one that the
    /// agent has in another program. It must be new: no agent, ended ones included, and no
    /// workspace may have it.
    pub fn spawn_named(
        &self,
        id: Option<&AgentId>,
        parent: &str,
        role: &str,
        project: Option<&ProjectId>,
        priority: Option<i64>,
        cause: &Cause,
    ) -> Result<Agent> {
        self.spawn_noting(id, parent, role, project, priority, None, cause)
    }

    /// Like [`spawn_named`](Self::spawn_named); `noting` records the idempotency key in the
    /// transaction that makes the agent and its workspace.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of `spawn_named` and one more"
    )]
    pub(crate) fn spawn_noting(
        &self,
        id: Option<&AgentId>,
        parent: &str,
        role: &str,
        project: Option<&ProjectId>,
        priority: Option<i64>,
        noting: Option<&IdempotencyRecord>,
        cause: &Cause,
    ) -> Result<Agent> {
        let is_shown = |c: char| !c.is_control() && !is_unseen(c);
        if role.is_empty() || role.len() > MAX_ROLE || !role.chars().all(is_shown) {
            return Err(Error::invalid(format!(
                "a role has 1 to {MAX_ROLE} bytes and no characters that are not seen"
            )));
        }
        let id = match id {
            Some(id) => self.store().read(|tx| free_id(tx, id))?,
            None => fresh_id(role)?,
        };
        let parent = match parent {
            ROOT => None,
            name => Some(name.parse::<AgentId>()?),
        };
        let mut inherited = 0;
        if let Some(parent) = &parent {
            if project.is_some() {
                return Err(Error::invalid(
                    "only a direct child of root gets a workspace of its own",
                )
                .with_hint("leave the project out, or spawn it below root"));
            }
            // Before anything is made: the parent must be there.
            let above = self.store().read(|tx| {
                let row = find_agent(tx, parent)?;
                chain_of(tx, &row)
            })?;
            if above.len() >= MAX_DEPTH {
                return Err(Error::invalid(format!(
                    "`{parent}` has {MAX_DEPTH} agents above it, itself included, and cannot have \
                     one below it"
                ))
                .with_hint("spawn it below an agent that is nearer to root"));
            }
            inherited = above.first().map_or(0, |row| row.priority);
        }
        let row = AgentRow {
            id: id.clone(),
            parent,
            role: role.to_owned(),
            workspace: None,
            workspace_key: None,
            priority: priority.unwrap_or(inherited),
            created_at: self.context.now(),
            ended_at: None,
        };
        if row.parent.is_none() {
            self.workspace_for(
                &row,
                project,
                &|tx, own| {
                    let mut row = row.clone();
                    row.workspace = Some(own.id.clone());
                    row.workspace_key = Some(own.key);
                    add_agent(tx, &row, noting, cause)
                },
                cause,
            )?;
        } else {
            self.store()
                .write(Durability::Synced, |tx| add_agent(tx, &row, noting, cause))?;
        }
        self.agent(&id)
    }

    /// Makes the workspace of a new agent. `also` adds the agent, in the same transaction.
    fn workspace_for(
        &self,
        agent: &AgentRow,
        project: Option<&ProjectId>,
        also: ExtraWrite<'_>,
        cause: &Cause,
    ) -> Result<()> {
        let id: WorkspaceId = agent.id.as_str().parse()?;
        match project {
            Some(project) => {
                let options = ForkOptions {
                    id: Some(id),
                    agent: Some(agent.id.clone()),
                    priority: Some(agent.priority),
                    ..ForkOptions::default()
                };
                self.forks
                    .fork_and(project, &options, Some(also), cause)
                    .map(drop)
            }
            None => self
                .workspaces
                .create_workspace_and(Some(id), Layout::Plain, Quota::default(), Some(also), cause)
                .map(drop),
        }
    }

    /// Every agent that has not ended, in the order of names.
    pub fn agents(&self) -> Result<Vec<Agent>> {
        self.store().read(|tx| {
            let rows = tx.agents()?;
            rows.into_iter().map(|row| as_agent(tx, row)).collect()
        })
    }

    /// One agent.
    pub fn agent(&self, id: &AgentId) -> Result<Agent> {
        self.store().read(|tx| as_agent(tx, find_agent(tx, id)?))
    }

    /// Removes an agent from the tree and takes its tokens back. Its workspace stays, and so do the
    /// agents below it, which keep working in the workspace that they have. Ending it again
    /// changes nothing.
    pub fn end_agent(&self, id: &AgentId, cause: &Cause) -> Result<()> {
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            let Some(mut row) = tx.agent(id)? else {
                return Err(no_agent(id));
            };
            if row.ended_at.is_some() {
                return Ok(());
            }
            row.ended_at = Some(at);
            tx.put_agent(&row)?;
            for token in tx.tokens(None, 0)? {
                if token.revoked_at.is_none() && is_token_of(&token, id)? {
                    tx.revoke_token(&token.id, at)?;
                }
            }
            if let Some(found) = workspace_of(tx, &row)? {
                tx.add_history(&line_of(&found, HistoryOp::AgentEnd, cause, at))?;
            }
            Ok(())
        })
    }

    /// The workspace that an agent works in: its own, or that of its nearest ancestor that has one.
    pub fn workspace_of_agent(&self, id: &AgentId) -> Result<WorkspaceId> {
        self.store().read(|tx| {
            let row = find_agent(tx, id)?;
            let found = workspace_of(tx, &row)?.map(|found| found.id);
            found.ok_or_else(|| {
                Error::new(
                    ErrorCode::WorkspaceNotAssigned,
                    format!("neither `{id}` nor an agent above it has a workspace"),
                )
                .with_hint("spawn it below root, or fork a project for it")
            })
        })
    }
}

/// Adds an agent, with its line of history.
fn add_agent(
    tx: &mut dyn WriteTx,
    row: &AgentRow,
    noting: Option<&IdempotencyRecord>,
    cause: &Cause,
) -> Result<()> {
    if let Some(parent) = &row.parent {
        find_agent(tx, parent)?;
    }
    if tx.agent(&row.id)?.is_some() {
        return Err(taken(&row.id));
    }
    tx.put_agent(row)?;
    if let Some(found) = workspace_of(tx, row)? {
        tx.add_history(&line_of(
            &found,
            HistoryOp::AgentSpawn,
            cause,
            row.created_at,
        ))?;
    }
    let Some(noting) = noting else {
        return Ok(());
    };
    let made = MadeRow {
        workspace: row.workspace_key,
        agent: Some(row.id.clone()),
        ..MadeRow::default()
    };
    noting.write(tx, made)
}

/// The workspace that a token of an agent reaches: the open one of the nearest agent, going up,
/// that has one, or else the nearest of all, for the receipt of its merge outlives it. An agent that
/// the tree does not know has the workspace of its name; one that ended has none.
pub(crate) fn workspace_reached(tx: &dyn ReadTx, id: &AgentId) -> Result<Option<WorkspaceId>> {
    match tx.agent(id)? {
        None => id.as_str().parse().map(Some),
        Some(row) if row.ended_at.is_some() => Ok(None),
        Some(row) => match workspace_of(tx, &row)? {
            Some(open) => Ok(Some(open.id)),
            None => {
                for row in chain_of(tx, &row)? {
                    if row.workspace_key.is_some() {
                        return Ok(own_workspace(tx, &row)?.map(|own| own.id));
                    }
                }
                Ok(None)
            }
        },
    }
}

/// The workspace that an agent completes: the one it works in, except that one of its own stays its
/// own when it was merged, although it works elsewhere from then on. So a completion that is asked
/// for again finds its receipt, and never merges the workspace of an agent above.
pub(crate) fn workspace_to_complete(tx: &dyn ReadTx, id: &AgentId) -> Result<Option<WorkspaceId>> {
    let row = match tx.agent(id)? {
        Some(row) if row.ended_at.is_none() => row,
        _ => return workspace_reached(tx, id),
    };
    for row in chain_of(tx, &row)? {
        let Some(key) = row.workspace_key else {
            continue;
        };
        let own = own_workspace(tx, &row)?;
        let is_open = own.as_ref().is_some_and(is_open);
        if is_open || tx.last_merge(key)?.is_some() {
            return Ok(own.map(|own| own.id));
        }
    }
    workspace_reached(tx, id)
}

/// What an agent works for: what the workspace that it works in belongs to, or else the last one that
/// it had.
pub(crate) fn home_of_agent(tx: &dyn ReadTx, id: &AgentId) -> Result<Option<ParentProject>> {
    let Some(row) = tx.agent(id)? else {
        return Ok(None);
    };
    if let Some(open) = workspace_of(tx, &row)? {
        return parent_project(tx, &open).map(Some);
    }
    for row in chain_of(tx, &row)? {
        if let Some(key) = row.workspace_key
            && let Some(last) = tx.workspace_by_key(key)?
        {
            return parent_project(tx, &last).map(Some);
        }
    }
    Ok(None)
}

/// The agent below root that an agent belongs to: itself or the last one above it.
pub(crate) fn top_of(tx: &dyn ReadTx, id: &AgentId) -> Result<AgentId> {
    let row = tx.agent(id)?;
    let chain = row.map_or(Ok(Vec::new()), |row| chain_of(tx, &row))?;
    Ok(chain
        .last()
        .map_or_else(|| id.clone(), |top| top.id.clone()))
}

/// Whether `above` is the agent itself or one above it.
pub(crate) fn is_at_or_below(tx: &dyn ReadTx, id: &AgentId, above: &AgentId) -> Result<bool> {
    match tx.agent(id)? {
        Some(row) => Ok(chain_of(tx, &row)?.iter().any(|one| one.id == *above)),
        None => Ok(false),
    }
}

/// The open workspace of the nearest agent, going up, that has one.
fn workspace_of(tx: &dyn ReadTx, row: &AgentRow) -> Result<Option<WorkspaceRow>> {
    for row in chain_of(tx, row)? {
        let own = own_workspace(tx, &row)?.filter(is_open);
        if own.is_some() {
            return Ok(own);
        }
    }
    Ok(None)
}

/// An agent and those above it, the nearest first.
fn chain_of(tx: &dyn ReadTx, row: &AgentRow) -> Result<Vec<AgentRow>> {
    let mut chain = Vec::new();
    let mut seen = HashSet::new();
    let mut at = Some(row.clone());
    while let Some(row) = at {
        // A tree has no cycles, but a damaged store must not make this an endless loop.
        if !seen.insert(row.id.clone()) {
            break;
        }
        at = match &row.parent {
            Some(parent) => tx.agent(parent)?,
            None => None,
        };
        chain.push(row);
    }
    Ok(chain)
}

fn is_token_of(token: &TokenRow, id: &AgentId) -> Result<bool> {
    Ok(Scope::from_stored(&token.scope)?.reach == Reach::Agent(id.clone()))
}

fn as_agent(tx: &dyn ReadTx, row: AgentRow) -> Result<Agent> {
    let workspace = workspace_of(tx, &row)?;
    let key = workspace.as_ref().map(|found| found.key);
    Ok(Agent {
        owns_workspace: key.is_some() && key == row.workspace_key,
        workspace: workspace.map(|found| found.id),
        id: row.id,
        parent: row.parent,
        role: row.role,
        priority: row.priority,
        created_at: row.created_at,
    })
}

fn find_agent(tx: &dyn ReadTx, id: &AgentId) -> Result<AgentRow> {
    match tx.agent(id)? {
        Some(row) if row.ended_at.is_none() => Ok(row),
        _ => Err(no_agent(id)),
    }
}

pub(crate) fn no_agent(id: &AgentId) -> Error {
    Error::new(
        ErrorCode::AgentNotFound,
        format!("there is no agent `{id}`"),
    )
    .with_hint("`offshoot agent list` shows those there are")
}

/// Refuses an agent that nobody knows: one that is in the tree and has not ended is known, and one
/// outside of it that has, or had, the workspace of its name.
pub(crate) fn check_known(tx: &dyn ReadTx, id: &AgentId) -> Result<()> {
    let known = match tx.agent(id)? {
        Some(row) => row.ended_at.is_none(),
        None => tx.workspace(&id.as_str().parse()?)?.is_some(),
    };
    match known {
        true => Ok(()),
        false => Err(no_agent(id).with_hint("spawn it, or fork a project for it, first")),
    }
}

/// A name that somebody chose, if nobody has it. A workspace of that name would be taken for the
/// agent's own.
fn free_id(tx: &dyn ReadTx, id: &AgentId) -> Result<AgentId> {
    let is_taken = tx.agent(id)?.is_some() || tx.workspace(&id.as_str().parse()?)?.is_some();
    match is_taken {
        true => Err(taken(id)),
        false => Ok(id.clone()),
    }
}

fn taken(id: &AgentId) -> Error {
    Error::new(
        ErrorCode::AlreadyExists,
        format!("an agent or a workspace has, or had, the name `{id}`"),
    )
    .with_hint("choose another `id`, or leave it out")
}

/// A name made of the role and something that no other has.
fn fresh_id(role: &str) -> Result<AgentId> {
    let mut name: String = role
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    name = name.trim_matches('-').to_owned();
    if name.is_empty() {
        name.push_str("agent");
    }
    let random = uuid::Uuid::now_v7().simple().to_string();
    format!("{name}-{}", &random[24..]).parse()
}
