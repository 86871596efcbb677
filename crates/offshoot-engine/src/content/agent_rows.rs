//! Rows of agents: which workspace an agent of the tree works in.

use offshoot_core::{AgentId, Result};
use offshoot_store::{AgentRow, ReadTx, WorkspaceKind, WorkspaceRow, WorkspaceState, WriteTx};

/// Assigns a fork to the agent that it was made for, unless the agent works in another open fork
/// already. Returns whether the fork was assigned.
pub(crate) fn assign_fork(
    tx: &mut dyn WriteTx,
    agent: &AgentId,
    fork: &WorkspaceRow,
) -> Result<bool> {
    let Some(mut row) = tx.agent(agent)?.filter(|row| row.ended_at.is_none()) else {
        return Ok(false);
    };
    if let Some(own) = own_workspace(tx, &row)?.filter(is_open)
        && own.kind == WorkspaceKind::Fork
        && own.key != fork.key
    {
        return Ok(false);
    }
    row.workspace = Some(fork.id.clone());
    row.workspace_key = Some(fork.key);
    tx.put_agent(&row)?;
    Ok(true)
}

/// The workspace of an agent, open or closed, as long as no other workspace has taken its name: after
/// it is closed the name is free, and a new workspace of that name is not the agent's (INV-7).
pub(crate) fn own_workspace(tx: &dyn ReadTx, row: &AgentRow) -> Result<Option<WorkspaceRow>> {
    let Some(key) = row.workspace_key else {
        return Ok(None);
    };
    let Some(own) = tx.workspace_by_key(key)? else {
        return Ok(None);
    };
    let named = tx.workspace(&own.id)?;
    Ok(named.filter(|named| named.key == key))
}

pub(crate) fn is_open(row: &WorkspaceRow) -> bool {
    row.state == WorkspaceState::Open
}
