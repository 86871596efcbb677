//! Conflicts that wait for a decision.

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use offshoot_core::{Error, ObjectId, Result};
use offshoot_engine::{Content, Pattern, Review, ReviewFilter, ReviewSide, ReviewStates};

use super::files::serve;
use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, json, ok};
use crate::extract::{Json, Params, Query};
use offshoot_wire as wire;

/// The usual number of reviews on a page.
const PAGE: usize = 50;
/// The most reviews that one request decides.
const MOST_AT_ONCE: usize = 200;

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

/// `GET /reviews`
pub(crate) async fn list_all(State(app): State<Shared>, caller: Caller, query: Query) -> Answer {
    let filter = ReviewFilter {
        states: match query.text("state")? {
            None => ReviewStates::Waiting,
            Some("open") => ReviewStates::Open,
            Some("decided") => ReviewStates::Decided,
            Some("resolved") => ReviewStates::Resolved,
            Some("all") => ReviewStates::All,
            Some(other) => {
                let message = format!("the parameter `state` cannot be `{other}`");
                let hint = "use `open`, `decided`, `resolved` or `all`";
                return Err(Error::invalid(message).with_hint(hint).into());
            }
        },
        project: query.parsed("project")?,
        workspace: query.parsed("workspace")?,
        agent: query.parsed("agent")?,
        path: query.text("path")?.map(Pattern::parse).transpose()?,
        kind: query.owned("kind")?,
        lands_in: None,
    };
    let after = query.owned("after")?;
    let limit = query.limit(PAGE, app.options.limits.max_page)?;
    let found = blocking(move || caller.find_reviews(&filter, after.as_deref(), limit)).await?;
    ok(&wire::Reviews::from(found.as_slice()))
}

/// `GET /reviews/{review}/content`
pub(crate) async fn content(caller: Caller, params: Params) -> Answer {
    let id = params.text("review")?.to_owned();
    let content = blocking(move || caller.review_content(&id)).await?;
    ok(&wire::ReviewContent::from(&content))
}

/// `GET|HEAD /reviews/{review}/sides/{side}`
pub(crate) async fn side(
    caller: Caller,
    params: Params,
    query: Query,
    method: Method,
    headers: HeaderMap,
) -> Answer {
    let id = params.text("review")?.to_owned();
    let side = match params.text("side")? {
        "base" => ReviewSide::Base,
        "ours" => ReviewSide::Ours,
        "theirs" => ReviewSide::Theirs,
        "merged" => ReviewSide::Merged,
        other => ReviewSide::Candidate(other.parse().map_err(|_| {
            Error::invalid("the side of a review in the URL is unknown")
                .with_hint("use `base`, `ours`, `theirs`, `merged` or the number of a candidate")
        })?),
    };
    let preview = query.flag("preview")?;
    let (file, path) = blocking(move || {
        let path = caller.review(&id)?.path;
        Ok((caller.open_review_side(&id, side)?, path))
    })
    .await?;
    serve(file, &path, preview, &method, &headers).await
}

/// `POST /reviews/resolve`
pub(crate) async fn resolve_many(
    caller: Caller,
    Json(asked): Json<wire::ResolveManyRequest>,
) -> Answer {
    let shape = blocking(move || {
        let rule = asked.rule()?;
        let (ids, more, reviews) = match (rule, asked.reviews) {
            (Some(rule), _) => {
                let mut found = caller.find_reviews(&rule, None, MOST_AT_ONCE + 1)?;
                let more = found.len() > MOST_AT_ONCE;
                found.truncate(MOST_AT_ONCE);
                let ids = found.iter().map(|review| review.id.clone()).collect();
                (ids, more, found)
            }
            (None, ids) => {
                let ids: Vec<String> = ids.unwrap_or_default();
                if ids.len() > MOST_AT_ONCE {
                    let message = format!("at most {MOST_AT_ONCE} reviews are decided at once");
                    return Err(Error::invalid(message).with_hint("send them in several requests"));
                }
                let reviews: Result<Vec<Review>> = match asked.dry_run {
                    true => ids.iter().map(|id| caller.review(id)).collect(),
                    false => Ok(Vec::new()),
                };
                (ids, false, reviews?)
            }
        };
        if asked.dry_run {
            return Ok(wire::ManyResolved::planned(&reviews, more));
        }
        let outcomes = caller.resolve_many(ids, asked.choice.into());
        Ok(wire::ManyResolved::new(&outcomes, more))
    })
    .await?;
    ok(&shape)
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
        caller.resolve(&id, asked.resolution(&bytes)?)
    })
    .await?;
    ok(&wire::Resolved::from(&resolved))
}
