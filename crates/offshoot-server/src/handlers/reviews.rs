//! Conflicts that wait for a decision.

use axum::extract::State;
use axum::http::StatusCode;
use offshoot_core::{ObjectId, Result};
use offshoot_engine::Content;

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, json, ok};
use crate::extract::{Json, Params, Query};
use offshoot_wire as wire;

/// The usual number of reviews on a page.
const PAGE: usize = 50;

/// `GET /projects/{project}/reviews`
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let (project, after) = (params.project()?, query.owned("after")?);
    let all = query.flag("all")?;
    let limit = query.limit(PAGE, app.options.limits.max_page)?;
    let found = blocking(move || caller.reviews(&project, all, after.as_deref(), limit)).await?;
    ok(&wire::Reviews::from(found.as_slice()))
}

/// `GET /reviews/{review}`
pub(crate) async fn show(caller: Caller, params: Params) -> Answer {
    let id = params.text("review")?.to_owned();
    let shape = blocking(move || {
        let review = caller.review(&id)?;
        let ours = difference(&caller, review.base, review.ours)?;
        let theirs = difference(&caller, review.base, review.theirs)?;
        Ok(wire::Review::with_differences(&review, ours, theirs))
    })
    .await?;
    ok(&shape)
}

/// The hunks between two contents; none if there are no lines to compare.
fn difference(
    caller: &Caller,
    before: Option<ObjectId>,
    after: Option<ObjectId>,
) -> Result<Option<Vec<u8>>> {
    let (before, after) = (caller.content_of(before)?, caller.content_of(after)?);
    Ok(wire::diff::compare(&before, &after).map(|text| text.hunks))
}

/// `POST /reviews/{review}/candidates`
pub(crate) async fn propose(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::NewCandidate>,
) -> Answer {
    let id = params.text("review")?.to_owned();
    let review = blocking(move || {
        let bytes = asked.bytes()?;
        caller.propose(&id, Content::Bytes(&bytes), asked.note.as_deref())
    })
    .await?;
    json(StatusCode::CREATED, &wire::Review::from(&review))
}

/// `POST /reviews/{review}/resolve`
pub(crate) async fn resolve(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::ResolveRequest>,
) -> Answer {
    let id = params.text("review")?.to_owned();
    let resolved = blocking(move || {
        let bytes = asked.bytes()?;
        caller.resolve(&id, asked.resolution(&bytes))
    })
    .await?;
    ok(&wire::Resolved::from(&resolved))
}
