//! Merges that were done.

use axum::extract::State;
use offshoot_core::RelPath;

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, Problem, ok};
use crate::extract::{Json, Params, Query};
use offshoot_wire as wire;

/// The usual number of merges on a page.
const PAGE: usize = 50;

/// `GET /projects/{project}/merges`
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let (project, after) = (params.project()?, query.owned("after")?);
    let limit = query.limit(PAGE, app.options.limits.max_page)?;
    let found = blocking(move || caller.merges(&project, after.as_deref(), limit)).await?;
    ok(&wire::Merges::from(found.as_slice()))
}

/// `GET /merges`
pub(crate) async fn list_all(State(app): State<Shared>, caller: Caller, query: Query) -> Answer {
    let (project, after) = (query.parsed("project")?, query.owned("after")?);
    let limit = query.limit(PAGE, app.options.limits.max_page)?;
    let found = blocking(move || match &project {
        Some(project) => caller.merges(project, after.as_deref(), limit),
        None => caller.all_merges(after.as_deref(), limit),
    });
    ok(&wire::Merges::from(found.await?.as_slice()))
}

/// `GET /merges/{merge}`
pub(crate) async fn show(caller: Caller, params: Params) -> Answer {
    let id = params.text("merge")?.to_owned();
    let merge = blocking(move || caller.merge(&id)).await;
    ok(&wire::Merge::from(&merge.map_err(Problem::not_there)?))
}

/// `POST /merges/{merge}/undo`
pub(crate) async fn undo(caller: Caller, params: Params) -> Answer {
    let id = params.text("merge")?.to_owned();
    let (early, name) = (caller.clone(), id.clone());
    let known = blocking(move || early.merge(&name)).await;
    known.map_err(Problem::not_there)?;
    let shape = blocking(move || {
        let (project, snapshot) = caller.undo_merge(&id)?;
        Ok(wire::Undone::new(&id, &project, &snapshot))
    })
    .await?;
    ok(&shape)
}

/// `POST /merges/{merge}/take`
pub(crate) async fn take(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::TakeRequest>,
) -> Answer {
    let id = params.text("merge")?.to_owned();
    let path = RelPath::parse_text(&asked.path)?;
    let (early, name) = (caller.clone(), id.clone());
    let known = blocking(move || early.merge(&name)).await;
    known.map_err(Problem::not_there)?;
    let shape = blocking(move || {
        let snapshot = caller.take_lost(&id, &path)?;
        Ok(wire::TakenBack::new(&id, &path, &snapshot))
    })
    .await?;
    ok(&shape)
}

/// `POST /merge`
pub(crate) async fn texts(_: Caller, Json(asked): Json<wire::MergeTextsRequest>) -> Answer {
    let merged = blocking(move || asked.merge()).await?;
    ok(&wire::MergedTexts::from(&merged))
}
