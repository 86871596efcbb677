//! Workspaces as a whole.

use axum::extract::State;
use axum::http::StatusCode;
use offshoot_core::{Error, Result, WorkspaceId, escape_bytes};
use offshoot_engine::Quota;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

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
    let (workspace, status) = blocking(move || {
        let mut made = None;
        let (names, _) = caller.once("workspace", key.as_deref(), &asked, || {
            let workspace = match &asked.from {
                Some(_) if asked.layout.is_some() => Err(Error::invalid(
                    "`layout` and `from` exclude each other: the layout is that of the snapshot",
                )),
                Some(snapshot) => caller.create_workspace_from(id, snapshot, quota),
                None => caller.create_workspace(id, asked.layout.unwrap_or_default(), quota),
            }?;
            let name = workspace.id.to_string();
            made = Some(workspace);
            Ok(vec![name])
        })?;
        match made {
            Some(workspace) => Ok((workspace, StatusCode::CREATED)),
            // The same request came before: its answer is what it made.
            None => Ok((caller.workspace(&first(&names)?)?, StatusCode::OK)),
        }
    })
    .await?;
    json(status, &wire::Workspace::from(&workspace))
}

/// The only name that a request noted.
pub(crate) fn first<T: std::str::FromStr<Err = Error>>(names: &[String]) -> Result<T> {
    let name = names.first().map_or("", String::as_str);
    name.parse()
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
    let path = blocking(move || caller.hand_out_path(&id)).await?;
    app.watcher.refresh();
    ok(&host_path(&path))
}

/// A directory of this machine, as answers have it.
pub(crate) fn host_path(path: &Path) -> wire::HostPath {
    wire::HostPath {
        path: escape_bytes(path.as_os_str().as_bytes()),
    }
}

/// `GET /workspaces/{workspace}/info`
pub(crate) async fn info(caller: Caller, params: Params) -> Answer {
    let id = params.workspace()?;
    let info = blocking(move || caller.info(&id)).await?;
    ok(&wire::Info::from(&info))
}
