//! Forks of a project: made, moved onto newer snapshots, merged.

use axum::extract::State;
use offshoot_core::{AgentId, Error, ProjectId, Result, WorkspaceId};
use offshoot_engine::{Access, EarlierResult};

use super::projects::status_of;
use super::workspaces::host_path;
use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, Problem, json, ok};
use crate::extract::{Json, Params, Query, RequestKey};
use offshoot_wire as wire;

/// The usual number of items on a page.
const PAGE: usize = 100;

/// `POST /projects/{project}/workspaces`
pub(crate) async fn create(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    RequestKey(key): RequestKey,
    Json(asked): Json<wire::NewFork>,
) -> Answer {
    let project = params.project()?;
    let (forks, created) =
        blocking(move || make(&caller, &project, key.as_deref(), &asked)).await?;
    app.watcher.refresh();
    json(status_of(created), &forks)
}

fn make(
    caller: &Caller,
    project: &ProjectId,
    key: Option<&[u8]>,
    asked: &wire::NewFork,
) -> Result<(wire::ForkOrForks, bool)> {
    let (options, count) = asked.options()?;
    // Out of reach before anything that the key leads to.
    caller.check_project(project)?;
    let find = |made: &EarlierResult| {
        let id = made.workspace()?;
        let fork = caller.fork_named(id)?;
        let (path, note) = caller.hand_out_path(id).ok().unzip();
        Ok(wire::Fork::new(&fork, path.as_deref()).with_note(note.flatten()))
    };
    let make = |caller: &Access, forks: &[wire::Fork]| {
        let (fork, path) = caller.fork(project, &options).map_err(|error| {
            // Forks that were made stay, and the error names them.
            let names: Vec<&str> = forks.iter().map(wire::Fork::id).collect();
            match names.is_empty() {
                true => error,
                false => error.with_details(serde_json::json!({ "workspaces": names })),
            }
        })?;
        Ok(wire::Fork::new(&fork, path.as_deref()).with_note(caller.path_note(&fork)))
    };
    let kind = format!("fork {project}");
    let (forks, created) = caller.once(&kind, key, asked, count.into(), find, make)?;
    Ok((
        wire::ForkOrForks::new(asked.count.is_some(), forks),
        created,
    ))
}

/// `GET /projects/{project}/workspaces`
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let (project, after) = (params.project()?, query.parsed::<WorkspaceId>("after")?);
    let limit = query.limit(PAGE, app.options.limits.max_page)?;
    let found = blocking(move || caller.forks_page(&project, after.as_ref(), limit)).await?;
    ok(&wire::Forks {
        workspaces: found
            .iter()
            .map(|fork| wire::Fork::new(fork, None))
            .collect(),
    })
}

/// `GET /projects/{project}/path`
pub(crate) async fn path(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let agent = query.parsed("agent_id")?.ok_or_else(|| {
        Error::invalid("the parameter `agent_id` is missing").with_hint("it names the agent")
    })?;
    answer_path(&app, caller, params.project()?, Some(agent)).await
}

/// The directory of the fork that an agent has; without an agent that of the only fork.
pub(crate) async fn answer_path(
    app: &Shared,
    caller: Caller,
    project: ProjectId,
    agent: Option<AgentId>,
) -> Answer {
    let (path, note) = blocking(move || caller.path_of_fork(&project, agent.as_ref())).await?;
    app.watcher.refresh();
    ok(&host_path(&path, note))
}

/// `POST /workspaces/{workspace}/update`
pub(crate) async fn update(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::UpdateRequest>,
) -> Answer {
    let id = params.workspace()?;
    let name = id.to_string();
    let updated = blocking(move || caller.update(&id, asked.dry_run)).await?;
    ok(&wire::Updated::new(&name, asked.dry_run, &updated))
}

/// `POST /workspaces/{workspace}/complete`
pub(crate) async fn complete(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::CompleteRequest>,
) -> Answer {
    answer_completion(caller, params.workspace()?, asked).await
}

/// Merges a workspace.
pub(crate) async fn answer_completion(
    caller: Caller,
    id: WorkspaceId,
    asked: wire::CompleteRequest,
) -> Answer {
    ok(&blocking(move || wire::complete(&caller, &id, &asked)).await?)
}

/// `GET /workspaces/{workspace}/blame/{path}`
pub(crate) async fn blame(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, path, at) = (params.workspace()?, params.path()?, query.owned("at")?);
    let shape = blocking(move || {
        let lines = caller.blame_workspace(&id, at.as_deref(), &path)?;
        Ok(wire::Blame::new(&path, &lines))
    })
    .await
    .map_err(Problem::in_url)?;
    ok(&shape)
}
