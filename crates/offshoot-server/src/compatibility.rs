//! The routes that older specifications name, in one table. They are translations: each calls what
//! the routes of the API call and answers as its specification says.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use offshoot_core::{Error, Result, WorkspaceId};
use offshoot_engine::{Expect, MAX_WINDOW};

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, ok};
use crate::extract::{Params, Query};
use crate::handlers::{files, snapshots, transfer};
use crate::routes::Route;
use offshoot_wire as wire;

/// The table.
pub(crate) fn routes() -> Vec<Route> {
    let of = |rest: &str| format!("/api/workspace/{{workspace}}{rest}");
    vec![
        Route::new(Method::GET, &of("/list"), "List a directory", files::list)
            .gives::<wire::Listing>()
            .query("path", "string", "The directory"),
        Route::new(
            Method::GET,
            &of("/tree"),
            "The directories, nested",
            files::tree,
        )
        .gives::<wire::DirNode>(),
        Route::new(
            Method::GET,
            &of("/history"),
            "What happened, newest first",
            snapshots::history,
        )
        .gives::<wire::History>()
        .query("path", "string", "Only to this path")
        .query("limit", "integer", "At most so many lines"),
        Route::new(
            Method::GET,
            &of("/read/{path}"),
            "Read a part of a file",
            window,
        )
        .gives::<wire::Window>()
        .query(
            "offset",
            "integer",
            "Characters, or bytes of what is no text, to leave out",
        )
        .query(
            "length",
            "integer",
            "At most so many, and never more than 5000",
        ),
        Route::new(
            Method::POST,
            &of("/sync"),
            "Record what outside programs changed",
            snapshots::sync,
        )
        .gives::<wire::Synced>(),
        Route::new(
            Method::POST,
            &of("/upload"),
            "Upload one file or several",
            upload,
        )
        .takes_raw("multipart/form-data")
        .gives::<wire::Upload>(),
        Route::new(
            Method::DELETE,
            &of("/delete/{path}"),
            "Delete a file",
            delete,
        )
        .gives::<wire::Deleted>(),
        Route::new(
            Method::POST,
            "/api/upload",
            "Upload into the workspace of the credential",
            upload_to_own,
        )
        .takes_raw("multipart/form-data")
        .gives::<wire::Upload>(),
    ]
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
async fn delete(caller: Caller, params: Params) -> Answer {
    let (id, path) = (params.workspace()?, params.path()?);
    let text = path.to_text();
    let files = blocking(move || caller.delete_file(&id, &path, false, Expect::Anything)).await?;
    ok(&wire::Deleted { path: text, files })
}
