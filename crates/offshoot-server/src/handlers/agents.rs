//! The tree of agents.

use axum::extract::State;
use offshoot_core::AgentId;
use offshoot_engine::{Access, EarlierResult};

use super::projects::status_of;
use super::workspaces::only;
use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, json, ok};
use crate::extract::{Json, Params, RequestKey};
use offshoot_wire as wire;

/// `POST /agents`
pub(crate) async fn spawn(
    caller: Caller,
    RequestKey(key): RequestKey,
    Json(asked): Json<wire::NewAgent>,
) -> Answer {
    let project = asked.project.as_deref().map(str::parse).transpose()?;
    let id: Option<AgentId> = asked.id.as_deref().map(str::parse).transpose()?;
    let (shape, created) = blocking(move || {
        let find = |made: &EarlierResult| made.agent().cloned();
        let make = |caller: &Access, _: &[AgentId]| {
            let (parent, role) = (asked.parent.as_deref(), &asked.role);
            let agent =
                caller.spawn(id.as_ref(), parent, role, project.as_ref(), asked.priority)?;
            Ok(agent.id)
        };
        let (made, created) = caller.once("agent", key.as_deref(), &asked, 1, find, make)?;
        let id = only(made)?;
        // A secret is shown once, so that a repetition gets one of its own.
        let token = caller.token_for_agent(&id)?;
        let agent = caller.agent(&id)?;
        Ok((wire::SpawnedAgent::new(&agent, &token), created))
    })
    .await?;
    json(status_of(created), &shape)
}

/// `GET /agents`
pub(crate) async fn list(caller: Caller) -> Answer {
    let agents = blocking(move || caller.agents()).await?;
    ok(&wire::Agents::from(agents.as_slice()))
}

/// `DELETE /agents/{agent}`
pub(crate) async fn end(State(app): State<Shared>, caller: Caller, params: Params) -> Answer {
    let id = params.agent()?;
    let shape = wire::AgentEnded::new(&id);
    blocking(move || caller.end_agent(&id)).await?;
    // Its tokens ended with it.
    app.tokens.clear();
    ok(&shape)
}
