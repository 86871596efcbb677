//! The routes that older specifications name, in one table. They are translations: each calls what
//! the routes of the API call and answers as its specification says.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use offshoot_core::{Error, RelPath, Result, WorkspaceId};
use offshoot_engine::{Expect, MAX_WINDOW};

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, Problem, ok};
use crate::extract::{Json, Params, Query, RequestKey};
use crate::handlers::forms::take_uploads;
use crate::handlers::{files, forks, snapshots};
use crate::route::{Kind, Route, delete, get, post};
use offshoot_wire as wire;

const SESSION_SNAPSHOTS: &str = "/api/session/workspace/snapshots";
const SESSION_HEADER: &str = "X-Session-Id";
const SESSION_ABOUT: &str =
    "The session, or the beginning of its id; not needed if it is the only one";

/// The table.
pub(crate) fn routes() -> Vec<Route> {
    let mut all = workspace_routes();
    all.extend(session_and_agent_routes());
    all
}

fn workspace_routes() -> Vec<Route> {
    let of = |rest: &str| format!("/api/workspace/{{workspace}}{rest}");
    vec![
        get(&of("/list"), "List a directory", list)
            .gives::<wire::Listing>()
            .query("path", Kind::Path, "The directory")
            .query(
                "sort",
                Kind::Words(&["name", "size", "modified"]),
                "What it is sorted by",
            )
            .query("descending", Kind::Flag, "From the last to the first")
            .query(
                "dirs_first",
                Kind::Flag,
                "Directories come before everything else",
            )
            .query(
                "after",
                Kind::Text,
                "Only what comes after this: `next` of the page before",
            )
            .query("limit", Kind::Count, "At most so many; without it 10,000"),
        get(&of("/tree"), "The directories, nested", files::tree)
            .gives::<wire::DirNode>()
            .query("path", Kind::Path, "Only below this directory")
            .query(
                "depth",
                Kind::Number,
                "At most so many levels; without it all",
            ),
        get(&of("/history"), "What happened, newest first", history)
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
            .takes_form()
            .gives::<wire::Upload>(),
        delete(&of("/delete/{path}"), "Delete a file", delete_file).gives::<wire::Deleted>(),
    ]
}

fn session_and_agent_routes() -> Vec<Route> {
    vec![
        post(
            "/api/upload",
            "Upload into the workspace of the credential",
            upload_to_own,
        )
        .takes_form()
        .gives::<wire::Upload>(),
        post(
            "/api/v1/workspace/{agent}/complete",
            "Merge the workspace of an agent into its project",
            complete_agent,
        )
        .takes::<wire::CompleteRequest>()
        .gives::<wire::Completed>(),
        get(
            SESSION_SNAPSHOTS,
            "List the snapshots of a session, newest first",
            session_snapshots,
        )
        .gives::<wire::Snapshots>()
        .limited()
        .header(SESSION_HEADER, SESSION_ABOUT),
        post(
            SESSION_SNAPSHOTS,
            "Take a snapshot of a session",
            take_session_snapshot,
        )
        .takes::<wire::SnapshotRequest>()
        .gives::<wire::Taken>()
        .also(201)
        .header(SESSION_HEADER, SESSION_ABOUT),
        post(
            "/api/session/workspace/restore",
            "Bring a snapshot of a session back; the present state is kept first",
            restore_session,
        )
        .takes::<wire::RestoreRequest>()
        .gives::<wire::Restored>()
        .header(SESSION_HEADER, SESSION_ABOUT),
        get(
            "/api/v1/workspace/{project}/path",
            "The directory of the fork that an agent has of a project",
            path_of_fork,
        )
        .gives::<wire::HostPath>()
        .query(
            "agent_id",
            Kind::Id,
            "The agent; not needed if there is only one fork",
        ),
    ]
}

/// `GET /api/v1/workspace/{project}/path`
async fn path_of_fork(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let agent = query.parsed("agent_id")?;
    forks::answer_path(&app, caller, params.project()?, agent).await
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

/// `GET /api/workspace/{workspace}/list`
async fn list(State(app): State<Shared>, caller: Caller, params: Params, query: Query) -> Answer {
    let id = params.workspace()?;
    let path = path_in_query(&caller, &id, &query)
        .await?
        .unwrap_or_default();
    let options = files::list_options(&query, app.options.limits.max_page)?;
    let page = blocking(move || caller.list_page(&id, &path, &options)).await?;
    ok(&wire::Listing::from(page))
}

/// `GET /api/workspace/{workspace}/history`
async fn history(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let id = params.workspace()?;
    let path = path_in_query(&caller, &id, &query).await?;
    let limit = query.limit(snapshots::HISTORY_PAGE, app.options.limits.max_page)?;
    snapshots::answer_history(caller, id, path, limit).await
}

/// The path that the query names.
async fn path_in_query(
    caller: &Caller,
    id: &WorkspaceId,
    query: &Query,
) -> Result<Option<RelPath>> {
    match query.bytes("path") {
        Some(given) => loose_path(caller, id, given).await.map(Some),
        None => Ok(None),
    }
}

/// The path that the URL names.
async fn path_of(caller: &Caller, params: &Params) -> Result<RelPath> {
    loose_path(caller, &params.workspace()?, params.bytes("path")).await
}

/// A path as it comes through these routes; see [`offshoot_engine::Access::loose_path`].
async fn loose_path(caller: &Caller, id: &WorkspaceId, bytes: &[u8]) -> Result<RelPath> {
    let (caller, id, bytes) = (caller.clone(), id.clone(), bytes.to_vec());
    blocking(move || caller.loose_path(&id, &bytes)).await
}

/// `GET /api/workspace/{workspace}/read/{path}`
async fn window(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, path) = (params.workspace()?, path_of(&caller, &params).await?);
    let offset = query.number::<u64>("offset")?.unwrap_or(0);
    let length = query.number::<usize>("length")?.unwrap_or(MAX_WINDOW);
    let window = blocking(move || caller.read_window(&id, &path, offset, length)).await?;
    ok(&wire::Window::from(window))
}

/// `POST /api/workspace/{workspace}/upload`: the form may name the same workspace once more.
async fn upload(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    RequestKey(key): RequestKey,
    request: Request,
) -> Answer {
    let id = params.workspace()?;
    answer_uploads(take_uploads(&app, caller, Some(id), None, key, request).await?)
}

/// `POST /api/upload`: the workspace is the one that the form or the header names, or else the
/// credential's.
async fn upload_to_own(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    RequestKey(key): RequestKey,
    request: Request,
) -> Answer {
    let named = session_header(&headers)?.map(str::parse).transpose()?;
    answer_uploads(take_uploads(&app, caller, named, None, key, request).await?)
}

/// One file is answered by itself, several as a list.
fn answer_uploads(mut uploads: Vec<wire::Upload>) -> Answer {
    match uploads.pop() {
        Some(only) if uploads.is_empty() => ok(&only),
        last => {
            uploads.extend(last);
            ok(&wire::Uploads { files: uploads })
        }
    }
}

/// `GET /api/session/workspace/snapshots`
async fn session_snapshots(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let limit = query.limit(snapshots::PAGE, app.options.limits.max_page)?;
    let work = move |caller: &Caller, id: &WorkspaceId| caller.snapshots(id, limit);
    let found = in_session(caller, &headers, work).await?;
    ok(&wire::Snapshots::from(found.as_slice()))
}

/// `POST /api/session/workspace/snapshots`
async fn take_session_snapshot(
    caller: Caller,
    headers: HeaderMap,
    Json(asked): Json<wire::SnapshotRequest>,
) -> Answer {
    let work = move |caller: &Caller, id: &WorkspaceId| {
        caller.snapshot(id, asked.label.as_deref(), asked.include_ignored)
    };
    let taken = in_session(caller, &headers, work).await?;
    snapshots::answer_taken(&taken)
}

/// `POST /api/session/workspace/restore`
async fn restore_session(
    caller: Caller,
    headers: HeaderMap,
    Json(asked): Json<wire::RestoreRequest>,
) -> Answer {
    let work = move |caller: &Caller, id: &WorkspaceId| {
        let path = asked.path.as_deref();
        let path = path.map(|path| caller.loose_path(id, path.as_bytes()));
        caller.restore(id, &asked.snapshot, path.transpose()?.as_ref())
    };
    let restored = in_session(caller, &headers, work).await?;
    ok(&wire::Restored::from(&restored))
}

/// Does something with the workspace of the session that the request means.
async fn in_session<T: Send + 'static>(
    caller: Caller,
    headers: &HeaderMap,
    work: impl FnOnce(&Caller, &WorkspaceId) -> Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let name = session_header(headers)?.map(str::to_owned);
    let done = blocking(move || {
        let id = caller.session_workspace(name.as_deref())?;
        work(&caller, &id)
    });
    done.await.map_err(Problem::of_state)
}

fn session_header(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut given = headers.get_all(SESSION_HEADER).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|text| !text.is_empty());
    match (text, given.next()) {
        (Some(text), None) => Ok(Some(text)),
        _ => Err(Error::invalid("the header `X-Session-Id` is no id")),
    }
}

/// `DELETE /api/workspace/{workspace}/delete/{path}`
async fn delete_file(caller: Caller, params: Params) -> Answer {
    let (id, path) = (params.workspace()?, path_of(&caller, &params).await?);
    let shape = blocking(move || {
        let deleted = caller.delete_file(&id, &path, false, Expect::Anything)?;
        Ok(wire::Deleted::new(&path, &deleted))
    })
    .await?;
    ok(&shape)
}
