//! Merges that were done.

use axum::extract::State;

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, ok};
use crate::extract::{Params, Query, page};
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
    let found = blocking(move || {
        let wanted = if after.is_some() { 0 } else { limit };
        let found = caller.merges(&project, wanted)?;
        Ok(page(found, after.as_deref(), limit, |merge, id| {
            merge.completed.merge_id.as_deref() == Some(id)
        }))
    })
    .await?;
    ok(&wire::Merges::from(found.as_slice()))
}

/// `GET /merges/{merge}`
pub(crate) async fn show(caller: Caller, params: Params) -> Answer {
    let id = params.text("merge")?.to_owned();
    let merge = blocking(move || caller.merge(&id)).await?;
    ok(&wire::Merge::from(&merge))
}

/// `POST /merges/{merge}/undo`
pub(crate) async fn undo(caller: Caller, params: Params) -> Answer {
    let id = params.text("merge")?.to_owned();
    let shape = blocking(move || {
        let (project, snapshot) = caller.undo_merge(&id)?;
        Ok(wire::Undone::new(&id, &project, &snapshot))
    })
    .await?;
    ok(&shape)
}
