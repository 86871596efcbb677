//! Workspaces as a whole.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use offshoot_core::{Error, ErrorCode, Result, WorkspaceId, escape_bytes};
use offshoot_engine::Quota;
use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt as _;

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, json, ok};
use crate::extract::{Json, Params, Query};
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
    headers: HeaderMap,
    Json(asked): Json<wire::NewWorkspace>,
) -> Answer {
    let mut id = asked.id.as_deref().map(str::parse).transpose()?;
    let key = headers.get("idempotency-key");
    let mut derived = false;
    if let (Some(key), None) = (key, &id) {
        id = Some(id_for_key(&caller, key.as_bytes())?);
        derived = true;
    }
    let quota = quota_of(asked.quota);
    let (workspace, created) = blocking(move || {
        let named = id.clone();
        let outcome = match &asked.from {
            Some(_) if asked.layout.is_some() => Err(Error::invalid(
                "`layout` and `from` exclude each other: the layout is that of the snapshot",
            )),
            Some(snapshot) => caller.create_workspace_from(id, snapshot, quota),
            None => caller.create_workspace(id, asked.layout.unwrap_or_default(), quota),
        };
        match (outcome, named) {
            // The same request came before: its answer is what it made.
            (Err(error), Some(named)) if derived && error.code() == ErrorCode::AlreadyExists => {
                Ok((caller.workspace(&named)?, false))
            }
            (outcome, _) => outcome.map(|workspace| (workspace, true)),
        }
    })
    .await?;
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    json(status, &wire::Workspace::from(&workspace))
}

/// The id of a workspace whose creation carries an idempotency key: the same for the same caller
/// and key, so that a repetition finds what the first request made, even after a restart.
fn id_for_key(caller: &Caller, key: &[u8]) -> Result<WorkspaceId> {
    if key.is_empty() || key.len() > 255 {
        return Err(Error::invalid(
            "the header `Idempotency-Key` has 1 to 255 bytes",
        ));
    }
    let mut hasher = Sha256::new();
    hasher.update(caller.principal().operator.as_str());
    hasher.update([0]);
    hasher.update(key);
    let digest = hasher.finalize();
    let hex: String = digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("ws-{hex}").parse()
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
pub(crate) async fn delete(caller: Caller, params: Params) -> Answer {
    let id = params.workspace()?;
    let name = id.to_string();
    let deleted = blocking(move || caller.delete_workspace(&id)).await?;
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
    ok(&wire::HostPath {
        path: escape_bytes(path.as_os_str().as_bytes()),
    })
}

/// `GET /workspaces/{workspace}/info`
pub(crate) async fn info(caller: Caller, params: Params) -> Answer {
    let id = params.workspace()?;
    let info = blocking(move || caller.info(&id)).await?;
    ok(&wire::Info::from(&info))
}
