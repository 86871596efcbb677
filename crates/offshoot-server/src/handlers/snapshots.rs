//! States of a workspace: history, differences, snapshots, restores, syncs.

use axum::extract::State;
use axum::http::StatusCode;
use offshoot_agent::status_part;
use offshoot_core::{Error, RelPath, WorkspaceId};
use offshoot_engine::{Point, Taken, history_as_json};

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, Problem, json, ok};
use crate::extract::{Json, Params, Query, UNASKED};
use offshoot_wire as wire;

/// The usual number of snapshots on a page.
pub(crate) const PAGE: usize = 50;
/// The usual number of lines of history.
pub(crate) const HISTORY_PAGE: usize = 100;

/// `GET …/history`
pub(crate) async fn history(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let (id, path) = (params.workspace()?, query.path("path")?);
    let limit = query.limit(HISTORY_PAGE, app.options.limits.max_page)?;
    let before = query.number("after")?;
    let (lines, next) =
        blocking(move || caller.history_page(&id, path.as_ref(), before, limit)).await?;
    ok(&wire::History {
        history: lines.iter().map(history_as_json).collect(),
        next,
    })
}

/// The newest lines of history, of a workspace or of one path.
pub(crate) async fn answer_history(
    caller: Caller,
    id: WorkspaceId,
    path: Option<RelPath>,
    limit: usize,
) -> Answer {
    let lines = blocking(move || caller.history(&id, path.as_ref(), limit)).await?;
    ok(&wire::History {
        history: lines.iter().map(history_as_json).collect(),
        next: None,
    })
}

/// `GET …/changes`
pub(crate) async fn changes(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let (id, after) = (params.workspace()?, query.owned("after")?);
    let limit = query.limit_if_given(UNASKED, app.options.limits.max_page)?;
    let part = blocking(move || status_part(&caller, &id, after.as_deref(), limit)).await?;
    ok(&part)
}

/// `GET …/diff`
pub(crate) async fn diff(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, below) = (params.workspace()?, query.path_or_root("path")?);
    let from = query.text("from")?.map(str::to_owned);
    let to = query.text("to")?.map(str::to_owned);
    let name_only = query.flag("name_only")?;
    let against = match (query.text("against")?, &from) {
        (None, _) => None,
        (Some("base"), None) => Some(Point::Base),
        (Some("head"), None) => Some(Point::Project),
        (Some(_), Some(_)) => {
            let message = "the parameters `from` and `against` exclude each other";
            return Err(Error::invalid(message).into());
        }
        (Some(other), None) => {
            let message = format!("the parameter `against` cannot be `{other}`");
            return Err(Error::invalid(message)
                .with_hint("use `base` or `head`")
                .into());
        }
    };
    let (shown_from, shown_to) = (from.clone(), to.clone());
    let changes = blocking(move || {
        let from = from.as_deref().map(Point::Snapshot);
        let from = from.or(against).unwrap_or(Point::Head);
        let to = to.as_deref().map_or(Point::Now, Point::Snapshot);
        let set = caller.diff(&id, from, to)?;
        wire::differences(&caller, &set.changes, &below, name_only)
    })
    .await
    .map_err(Problem::in_url)?;
    ok(&wire::Difference {
        from: shown_from,
        to: shown_to,
        changes,
    })
}

/// `GET …/snapshots`
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let id = params.workspace()?;
    let limit = query.limit(PAGE, app.options.limits.max_page)?;
    let found = blocking(move || caller.snapshots(&id, limit)).await?;
    ok(&wire::Snapshots::from(found.as_slice()))
}

/// `POST …/snapshots`
pub(crate) async fn take(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::SnapshotRequest>,
) -> Answer {
    let id = params.workspace()?;
    let taken =
        blocking(move || caller.snapshot(&id, asked.label.as_deref(), asked.include_ignored))
            .await?;
    answer_taken(&taken)
}

/// 201 for a new snapshot, 200 where nothing had changed since the newest.
pub(crate) fn answer_taken(taken: &Taken) -> Answer {
    let status = if taken.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    json(status, &wire::Taken::from(taken))
}

/// `POST …/restore`
pub(crate) async fn restore(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::RestoreRequest>,
) -> Answer {
    let id = params.workspace()?;
    let path = asked.path.as_deref().map(RelPath::parse_text).transpose()?;
    let restored = blocking(move || caller.restore(&id, &asked.snapshot, path.as_ref())).await?;
    ok(&wire::Restored::from(&restored))
}

/// `POST …/sync`
pub(crate) async fn sync(caller: Caller, params: Params) -> Answer {
    let id = params.workspace()?;
    let synced = blocking(move || caller.sync(&id)).await?;
    ok(&wire::Synced::from(&synced))
}
