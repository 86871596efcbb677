//! Files of a project: content, edits by people, versions, who wrote what.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use offshoot_core::{ErrorCode, ObjectId, ProjectId, RelPath, Result};
use offshoot_engine::WriteOptions;

use super::files::{insert, serve, with_body};
use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, Problem, ok};
use crate::etag;
use crate::extract::{Params, Query};
use crate::guard::content_length;
use offshoot_wire as wire;

/// `GET|HEAD /projects/{project}/files/{path}`
pub(crate) async fn read(
    caller: Caller,
    params: Params,
    query: Query,
    method: Method,
    headers: HeaderMap,
) -> Answer {
    let (id, path) = (params.project()?, params.path()?);
    let (at, preview) = (query.owned("at")?, query.flag("preview")?);
    let of = path.clone();
    let file = blocking(move || caller.open_project_file(&id, at.as_deref(), &of)).await;
    let file = file.map_err(Problem::in_url)?;
    serve(file, &path, preview, &method, &headers).await
}

/// `PUT /projects/{project}/files/{path}`
pub(crate) async fn write(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
    request: Request,
) -> Answer {
    let (id, path) = (params.project()?, params.path()?);
    let executable = query.choice("executable")?;
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let announced = content_length(&headers);
    let (snapshot, content) = with_body(&app, announced, body, move |content| {
        let options = WriteOptions {
            mime: None,
            executable,
            expect: etag::expectation(&headers, &path, || current_id(&caller, &id, &path))?,
            ..WriteOptions::default()
        };
        let snapshot = caller.put_in_project(&id, &path, content, &options)?;
        let hex = snapshot.id.to_hex();
        // A caller that may write the file may not be allowed to read it.
        let written = caller.open_project_file(&id, Some(&hex), &path);
        let content = written.ok().and_then(|file| file.known_content_id());
        Ok((snapshot, content))
    })
    .await?;
    let mut response = ok(&wire::Snapshot::from(&snapshot))?;
    if let Some(content) = content {
        insert(response.headers_mut(), header::ETAG, &etag::of(&content));
    }
    Ok(response)
}

/// The id of what is there now; none if nothing is.
fn current_id(caller: &Caller, id: &ProjectId, path: &RelPath) -> Result<Option<ObjectId>> {
    match caller.open_project_file(id, None, path) {
        Ok(mut file) => file.content_id().map(Some),
        Err(error) if error.code() == ErrorCode::FileNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// `GET /projects/{project}/versions/{path}`
pub(crate) async fn versions(caller: Caller, params: Params) -> Answer {
    let (id, path) = (params.project()?, params.path()?);
    let shape = blocking(move || {
        let versions = caller.project_versions(&id, &path)?;
        Ok(wire::Versions::new(&path, &versions))
    })
    .await?;
    ok(&shape)
}

/// `GET /projects/{project}/blame/{path}`
pub(crate) async fn blame(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, path, at) = (params.project()?, params.path()?, query.owned("at")?);
    let shape = blocking(move || {
        let lines = caller.blame_project(&id, at.as_deref(), &path)?;
        Ok(wire::Blame::new(&path, &lines))
    })
    .await
    .map_err(Problem::in_url)?;
    ok(&shape)
}

/// `GET /projects/{project}/diff`
pub(crate) async fn diff(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, below) = (params.project()?, query.path_or_root("path")?);
    let (from, to) = (query.snapshot("from")?, query.snapshot("to")?);
    let name_only = query.flag("name_only")?;
    let shape = blocking(move || {
        let found = caller.project_difference(&id, from.as_deref(), to.as_deref())?;
        let changes = wire::differences(&caller, &found.set.changes, &below, name_only)?;
        Ok(wire::Difference {
            from: found.from.map(ObjectId::to_hex),
            to: found.to.map(ObjectId::to_hex),
            changes,
        })
    })
    .await
    .map_err(Problem::in_url)?;
    ok(&shape)
}
