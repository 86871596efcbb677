//! The routes that older specifications name, in one table. They are translations: each calls what
//! the routes of the API call and answers as its specification says.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use offshoot_core::{Error, Result, WorkspaceId};
use offshoot_engine::{Expect, MAX_WINDOW};

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, ok};
use crate::extract::{Json, Params, Query};
use crate::handlers::{files, forks, snapshots, transfer};
use crate::route::{Kind, Route, delete, get, post};
use offshoot_wire as wire;

/// The table.
pub(crate) fn routes() -> Vec<Route> {
    let of = |rest: &str| format!("/api/workspace/{{workspace}}{rest}");
    vec![
        get(&of("/list"), "List a directory", files::list)
            .gives::<wire::Listing>()
            .query("path", Kind::Path, "The directory"),
        get(&of("/tree"), "The directories, nested", files::tree).gives::<wire::DirNode>(),
        get(
            &of("/history"),
            "What happened, newest first",
            snapshots::history,
        )
        .gives::<wire::History>()
        .query("path", Kind::Path, "Only to this path")
        .limited(),
        get(&of("/read/{path}"), "Read a part of a file", window)
            .gives::<wire::Window>()
            .query(
                "offset",
                Kind::Number,
                "Characters, or bytes of what is no text, to leave out",
            )
            .query(
                "length",
                Kind::Number,
                "At most so many, and never more than 5000",
            ),
        post(
            &of("/sync"),
            "Record what outside programs changed",
            snapshots::sync,
        )
        .gives::<wire::Synced>(),
        post(&of("/upload"), "Upload one file or several", upload)
            .takes_raw("multipart/form-data")
            .gives::<wire::Upload>(),
        delete(&of("/delete/{path}"), "Delete a file", delete_file).gives::<wire::Deleted>(),
        post(
            "/api/upload",
            "Upload into the workspace of the credential",
            upload_to_own,
        )
        .takes_raw("multipart/form-data")
        .gives::<wire::Upload>(),
        post(
            "/api/v1/workspace/{agent}/complete",
            "Merge the workspace of an agent into its project",
            complete_agent,
        )
        .takes::<wire::CompleteRequest>()
        .gives::<wire::Completed>(),
        get(
            "/api/v1/workspace/{project}/path",
            "The directory of the fork that an agent has of a project",
            forks::path,
        )
        .gives::<wire::HostPath>()
        .query("agent_id", Kind::Id, "The agent"),
    ]
}

/// `POST /api/v1/workspace/{agent}/complete`
async fn complete_agent(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::CompleteRequest>,
) -> Answer {
    let agent = params.agent()?;
    let asking = caller.clone();
    let id = blocking(move || asking.workspace_of_agent(&agent)).await?;
    forks::answer_completion(caller, id, asked).await
}

/// `GET /api/workspace/{workspace}/read/{path}`
async fn window(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, path) = (params.workspace()?, params.path()?);
    let offset = query.number::<u64>("offset")?.unwrap_or(0);
    let length = query.number::<usize>("length")?.unwrap_or(MAX_WINDOW);
    let window = blocking(move || caller.read_window(&id, &path, offset, length)).await?;
    ok(&wire::Window::from(window))
}

/// `POST /api/workspace/{workspace}/upload`
async fn upload(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    request: Request,
) -> Answer {
    answer_uploads(&app, &caller, params.workspace()?, request).await
}

/// `POST /api/upload`: the workspace is the credential's, or the one that the header names.
async fn upload_to_own(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    let id = own_workspace(&caller, &headers).await?;
    answer_uploads(&app, &caller, id, request).await
}

/// One file is answered by itself, several as a list.
async fn answer_uploads(
    app: &Shared,
    caller: &Caller,
    id: WorkspaceId,
    request: Request,
) -> Answer {
    let mut uploads = transfer::take_uploads(app, caller, id, request).await?;
    match uploads.pop() {
        Some(only) if uploads.is_empty() => ok(&only),
        last => {
            uploads.extend(last);
            ok(&wire::Uploads { files: uploads })
        }
    }
}

async fn own_workspace(caller: &Caller, headers: &HeaderMap) -> Result<WorkspaceId> {
    if let Some(value) = headers.get("x-session-id") {
        let text = value
            .to_str()
            .map_err(|_| Error::invalid("the header `X-Session-Id` is no id"))?;
        return text.parse();
    }
    let caller = caller.clone();
    blocking(move || caller.own_workspace()).await
}

/// `DELETE /api/workspace/{workspace}/delete/{path}`
async fn delete_file(caller: Caller, params: Params) -> Answer {
    let (id, path) = (params.workspace()?, params.path()?);
    let text = path.to_text();
    let files = blocking(move || caller.delete_file(&id, &path, false, Expect::Anything)).await?;
    ok(&wire::Deleted { path: text, files })
}
