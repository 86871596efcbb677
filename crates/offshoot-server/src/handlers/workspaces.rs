//! Workspaces as a whole.

use axum::extract::State;
use offshoot_core::{Error, Result, WorkspaceId, escape_bytes};
use offshoot_engine::{Access, EarlierResult, Quota, Workspace};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::projects::status_of;
use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, json, ok};
use crate::extract::{Json, Params, Query, RequestKey};
use offshoot_wire as wire;

/// The usual number of items on a page.
const PAGE: usize = 100;

fn quota_of(asked: wire::NewQuota) -> Quota {
    Quota {
        bytes: asked.bytes,
        inodes: asked.inodes,
    }
}

/// `POST /workspaces`
pub(crate) async fn create(
    caller: Caller,
    RequestKey(key): RequestKey,
    Json(asked): Json<wire::NewWorkspace>,
) -> Answer {
    let id: Option<WorkspaceId> = asked.id.as_deref().map(str::parse).transpose()?;
    let quota = quota_of(asked.quota);
    let (workspace, created) = blocking(move || {
        let find = |made: &EarlierResult| caller.workspace(made.workspace()?);
        let make = |caller: &Access, _: &[Workspace]| match &asked.from {
            Some(_) if asked.layout.is_some() => Err(Error::invalid(
                "`layout` and `from` exclude each other: the layout is that of the snapshot",
            )),
            Some(snapshot) => caller.create_workspace_from(id.clone(), snapshot, quota),
            None => caller.create_workspace(id.clone(), asked.layout.unwrap_or_default(), quota),
        };
        let (made, created) = caller.once("workspace", key.as_deref(), &asked, 1, find, make)?;
        Ok((only(made)?, created))
    })
    .await?;
    json(status_of(created), &wire::Workspace::from(&workspace))
}

/// The only thing that a request made.
pub(crate) fn only<T>(mut made: Vec<T>) -> Result<T> {
    let nothing = || Error::internal("a request made nothing");
    made.pop().ok_or_else(nothing)
}

/// `GET /workspaces`
pub(crate) async fn list(State(app): State<Shared>, caller: Caller, query: Query) -> Answer {
    let after: Option<WorkspaceId> = query.text("after")?.map(str::parse).transpose()?;
    let limit = query.limit(PAGE, app.options.limits.max_page)?;
    let found = blocking(move || caller.workspaces(after.as_ref(), limit)).await?;
    ok(&wire::Workspaces::from(found.as_slice()))
}

/// `GET /workspaces/{workspace}`
pub(crate) async fn show(caller: Caller, params: Params) -> Answer {
    let id = params.workspace()?;
    let workspace = blocking(move || caller.workspace(&id)).await?;
    ok(&wire::Workspace::from(&workspace))
}

/// `DELETE /workspaces/{workspace}`
pub(crate) async fn delete(caller: Caller, params: Params, query: Query) -> Answer {
    let id = params.workspace()?;
    let name = id.to_string();
    let include_ignored = query.flag("include_ignored")?;
    let deleted = blocking(move || caller.delete_workspace(&id, include_ignored)).await?;
    ok(&wire::DeletedWorkspace::new(&name, &deleted))
}

/// `GET /workspaces/{workspace}/quota`
pub(crate) async fn quota(caller: Caller, params: Params) -> Answer {
    let id = params.workspace()?;
    let workspace = blocking(move || caller.workspace(&id)).await?;
    ok(&wire::Quota::from(&workspace))
}

/// `PUT /workspaces/{workspace}/quota`
pub(crate) async fn set_quota(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::NewQuota>,
) -> Answer {
    let id = params.workspace()?;
    let workspace = blocking(move || caller.set_quota(&id, quota_of(asked))).await?;
    ok(&wire::Quota::from(&workspace))
}

/// `GET /workspaces/{workspace}/path`
pub(crate) async fn path(State(app): State<Shared>, caller: Caller, params: Params) -> Answer {
    let id = params.workspace()?;
    let (path, note) = blocking(move || caller.hand_out_path(&id)).await?;
    app.watcher.refresh();
    ok(&host_path(&path, note))
}

/// A directory of this machine, as answers have it.
pub(crate) fn host_path(path: &Path, note: Option<String>) -> wire::HostPath {
    wire::HostPath {
        path: escape_bytes(path.as_os_str().as_bytes()),
        note,
    }
}

/// `GET /workspaces/{workspace}/info`
pub(crate) async fn info(caller: Caller, params: Params) -> Answer {
    let id = params.workspace()?;
    let info = blocking(move || caller.info(&id)).await?;
    ok(&wire::Info::from(&info))
}
