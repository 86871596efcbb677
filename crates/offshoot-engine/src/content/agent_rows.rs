//! Rows of agents: which workspace an agent of the tree works in.

use offshoot_core::AgentId;

/// Lets an agent of the tree work in a fork that was made for it, unless it works in one already:
/// further forks do not take it away from what it is about. Returns whether it does.
use offshoot_core::Result;
use offshoot_store::AgentRow;
use offshoot_store::ReadTx;
use offshoot_store::WorkspaceKind;
use offshoot_store::WorkspaceRow;
use offshoot_store::WorkspaceState;
use offshoot_store::WriteTx;
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

/// The workspace that is an agent's own, open or closed, while its name means it. Once it is closed
/// anybody may take the name, and the new workspace is not the agent's (INV-7).
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
