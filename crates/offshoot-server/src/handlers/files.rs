//! Files: raw content with conditions and ranges, listings, directories, moves.

use std::io::Read as _;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use offshoot_core::{Error, ErrorCode, ObjectId, RelPath, Result, WorkspaceId};
use offshoot_engine::{Content, ListOptions, ListSort, OpenFile, WriteOptions, is_computed};

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::{BodyReader, ReadBody, blocking, collect, too_large};
use crate::error::{Answer, Problem, json, ok};
use crate::etag::{self, Range, Verdict};
use crate::extract::{Json, Params, Query, UNASKED};
use crate::guard::{LARGE_BODY, content_length};
use offshoot_wire as wire;

/// Up to this size a file is read on the thread of the request: a hop to another thread costs more
/// than the read.
const INLINE: u64 = 64 << 10;
/// Up to this size its content is hashed there too, if it has to be.
const INLINE_HASH: u64 = 16 << 10;

/// `…/files/` without a path.
pub(crate) async fn empty_path() -> Answer {
    Err(RelPath::parse(b"").map_or_else(Problem::from, |_| {
        Problem::from(Error::internal("an empty path was accepted"))
    }))
}

/// `GET|HEAD …/files/{path}`
pub(crate) async fn read(
    caller: Caller,
    params: Params,
    query: Query,
    method: Method,
    headers: HeaderMap,
) -> Answer {
    let (id, path) = (params.workspace()?, params.path()?);
    let preview = query.flag("preview")?;
    let of = path.clone();
    let file = match (query.owned("at")?, query.number("version")?) {
        (Some(_), Some(_)) => {
            let message = "the parameters `at` and `version` exclude each other";
            return Err(Error::invalid(message).into());
        }
        (Some(at), None) => {
            let file = blocking(move || caller.open_file_at(&id, &at, &of)).await;
            file.map_err(Problem::in_url)?
        }
        (None, Some(version)) => {
            blocking(move || caller.open_file_version(&id, &of, version)).await?
        }
        (None, None) if is_computed(&path) => blocking(move || caller.open_file(&id, &of)).await?,
        (None, None) => match caller.open_file_if_ready(&id, &path)? {
            Some(file) => file,
            None => blocking(move || caller.open_file(&id, &of)).await?,
        },
    };
    serve(file, &path, preview, &method, &headers).await
}

/// Answers with an open file, as the conditions of the request have it.
pub(crate) async fn serve(
    file: OpenFile,
    path: &RelPath,
    preview: bool,
    method: &Method,
    headers: &HeaderMap,
) -> Answer {
    check_destination(headers)?;
    let (file, tag) = tagged(file).await?;
    let verdict = etag::decide_read(headers, path, &tag)?;
    let mut response = match verdict {
        Verdict::NotModified => {
            // A browser puts these headers in the place of those that it has with the content.
            let mut response = with_status(StatusCode::NOT_MODIFIED, Body::empty());
            describe(response.headers_mut(), &file.mime, path, preview);
            response
        }
        Verdict::Go => {
            let range = etag::range(headers, &tag, file.size);
            content(&range, file, method, path, preview).await?
        }
    };
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, value);
    }
    // A client may cache the content, but asks each time whether it is still current.
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-cache"),
    );
    Ok(response)
}

/// Refuses a browser that wants to run a file, or to style a page with it: files of agents are there
/// to be read and looked at.
fn check_destination(headers: &HeaderMap) -> Result<()> {
    const LOOKS: [&str; 8] = [
        "empty", "document", "iframe", "frame", "image", "audio", "video", "track",
    ];
    let wanted = headers.get("sec-fetch-dest");
    let wanted = wanted.map(|value| value.to_str().unwrap_or_default());
    if wanted.is_none_or(|wanted| LOOKS.contains(&wanted)) {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::PermissionDenied,
        "a file is no part of a page",
    ))
}

/// The tag of a file. To hash a large one takes a thread that may block.
async fn tagged(mut file: OpenFile) -> Result<(OpenFile, String)> {
    if file.size <= INLINE_HASH {
        let id = file.content_id()?;
        return Ok((file, etag::of(&id)));
    }
    if let Some(id) = file.known_content_id() {
        return Ok((file, etag::of(&id)));
    }
    blocking(move || {
        let id = file.content_id()?;
        Ok((file, etag::of(&id)))
    })
    .await
}

fn with_status(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// The content, or the part of it that was asked for.
async fn content(
    range: &Range,
    file: OpenFile,
    method: &Method,
    path: &RelPath,
    preview: bool,
) -> Answer {
    let (status, from, to) = match *range {
        Range::Whole => (StatusCode::OK, 0, file.size),
        Range::Part(from, to) => (StatusCode::PARTIAL_CONTENT, from, to),
        Range::Unsatisfiable => return Ok(beyond_the_end(file.size)),
    };
    let (size, mime, modified) = (file.size, file.mime.clone(), file.modified_at);
    let length = to - from;
    let body = if *method == Method::HEAD {
        Body::empty()
    } else if size <= INLINE || (to <= INLINE && !file.is_stored()) {
        Body::from(read_part(file, from, length)?)
    } else {
        blocking(move || {
            let mut file = file;
            if status == StatusCode::PARTIAL_CONTENT {
                file.select(from, length)?;
            }
            ReadBody::of(Box::new(file), length).map_err(unreadable)
        })
        .await?
    };
    let mut response = with_status(status, body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {from}-{}/{size}", to - 1);
        insert(headers, header::CONTENT_RANGE, &range);
    }
    if let Some(at) = modified {
        insert(headers, header::LAST_MODIFIED, &at.to_http_date());
    }
    describe(headers, &mime, path, preview);
    Ok(response)
}

fn read_part(mut file: OpenFile, from: u64, length: u64) -> Result<Vec<u8>> {
    if length < file.size {
        file.select(from, length)?;
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(length)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 != length {
        return Err(unreadable(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(bytes)
}

fn beyond_the_end(size: u64) -> Response {
    let error = Error::invalid(format!(
        "the range lies outside the {size} bytes of the file"
    ));
    let problem = Problem::with_status(error, StatusCode::RANGE_NOT_SATISFIABLE);
    let mut response = axum::response::IntoResponse::into_response(problem);
    insert(
        response.headers_mut(),
        header::CONTENT_RANGE,
        &format!("bytes */{size}"),
    );
    response
}

/// What the content is, and that a browser must not let it act for us: a stored page with a script
/// would otherwise run as a page of ours.
fn describe(headers: &mut HeaderMap, mime: &str, path: &RelPath, preview: bool) {
    let charset = if mime.starts_with("text/") && !mime.contains("charset") {
        "; charset=utf-8"
    } else {
        ""
    };
    insert(headers, header::CONTENT_TYPE, &format!("{mime}{charset}"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self' data:; \
             style-src 'unsafe-inline'; font-src data:",
        ),
    );
    let how = if preview { "inline" } else { "attachment" };
    let mut name = String::new();
    for &byte in path.name() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    insert(
        headers,
        header::CONTENT_DISPOSITION,
        &format!("{how}; filename*=UTF-8''{name}"),
    );
}

pub(crate) fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn unreadable(cause: std::io::Error) -> Error {
    cause.downcast::<Error>().unwrap_or_else(|cause| {
        Error::new(ErrorCode::ReadFailed, "the file could not be read").with_source(cause)
    })
}

/// `PUT …/files/{path}`
pub(crate) async fn write(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
    request: Request,
) -> Answer {
    let (id, path) = (params.workspace()?, params.path()?);
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let executable = query.choice("executable")?;
    let announced = content_length(&headers);
    let written = with_body(&app, announced, body, move |content| {
        let options = WriteOptions {
            mime: media_type(&headers),
            executable,
            expect: etag::expectation(&headers, &path, || current_id(&caller, &id, &path))?,
            ..WriteOptions::default()
        };
        caller.write_file(&id, &path, content, &options)
    })
    .await?;
    let status = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let mut response = json(status, &wire::Written::from(&written))?;
    insert(response.headers_mut(), header::ETAG, &etag::of(&written.id));
    Ok(response)
}

/// Gives the body of a request to blocking work, as one piece if it is known to be small: then no
/// thread waits while it arrives.
pub(crate) async fn with_body<T: Send + 'static>(
    app: &Shared,
    announced: Option<u64>,
    body: Body,
    work: impl FnOnce(Content<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let limits = &app.options.limits;
    if announced.is_some_and(|length| length > limits.max_body_bytes) {
        return Err(too_large(limits.max_body_bytes));
    }
    if announced.is_some_and(|length| length <= LARGE_BODY) {
        let bytes = collect(body, LARGE_BODY, limits.idle_timeout).await?;
        return blocking(move || work(Content::Bytes(&bytes))).await;
    }
    let mut reader = BodyReader::new(body, limits.max_body_bytes, limits.idle_timeout);
    blocking(move || {
        let outcome = work(Content::Stream(&mut reader));
        reader.explain(outcome)
    })
    .await
}

/// The type that the client gives, unless it is the one that programs send for want of a better.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let plain = given.split(';').next().unwrap_or_default().trim();
    let says_nothing = [
        "application/octet-stream",
        "application/x-www-form-urlencoded",
    ];
    let is_type = plain.split_once('/').is_some_and(|(kind, rest)| {
        !kind.is_empty() && !rest.is_empty() && plain.bytes().all(|byte| byte.is_ascii_graphic())
    });
    (is_type && !says_nothing.contains(&plain) && plain.len() <= 128).then(|| plain.to_owned())
}

/// The id of what is there now; none if nothing is.
fn current_id(caller: &Caller, id: &WorkspaceId, path: &RelPath) -> Result<Option<ObjectId>> {
    match caller.open_file(id, path) {
        Ok(mut file) => file.content_id().map(Some),
        Err(error) if error.code() == ErrorCode::FileNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// `DELETE …/files/{path}`
pub(crate) async fn delete(
    caller: Caller,
    params: Params,
    query: Query,
    headers: HeaderMap,
) -> Answer {
    let (id, path) = (params.workspace()?, params.path()?);
    let recursive = query.flag("recursive")?;
    let shape = blocking(move || {
        let expect = etag::expectation(&headers, &path, || current_id(&caller, &id, &path))?;
        let deleted = caller.delete_file(&id, &path, recursive, expect)?;
        Ok(wire::Deleted::new(&path, &deleted))
    })
    .await?;
    ok(&shape)
}

/// `GET …/list`
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let (id, path) = (params.workspace()?, query.path_or_root("path")?);
    refuse_at(&query)?;
    let options = list_options(&query, app.options.limits.max_page)?;
    let page = blocking(move || caller.list_page(&id, &path, &options)).await?;
    ok(&wire::Listing::from(page))
}

/// Refuses a request that asks for a snapshot: this route shows the present state.
fn refuse_at(query: &Query) -> Result<()> {
    match query.text("at")? {
        None => Ok(()),
        Some(_) => Err(Error::invalid("the parameter `at` is for single files").with_hint(
            "`…/diff?from=SNAP` names what differs from a snapshot, `…/files/PATH?at=SNAP` reads it",
        )),
    }
}

/// How a listing is to be sorted, and which part of it is wanted.
pub(crate) fn list_options(query: &Query, most: usize) -> Result<ListOptions> {
    let sort = match query.text("sort")?.unwrap_or("name") {
        "name" => ListSort::Name,
        "size" => ListSort::Size,
        "modified" => ListSort::Modified,
        other => {
            let message = format!("the parameter `sort` cannot be `{other}`");
            return Err(Error::invalid(message).with_hint("use `name`, `size` or `modified`"));
        }
    };
    Ok(ListOptions {
        sort,
        descending: query.flag("descending")?,
        dirs_first: query.flag("dirs_first")?,
        after: query.owned("after")?,
        limit: query.limit_if_given(UNASKED, most)?,
    })
}

/// `GET …/tree`
pub(crate) async fn tree(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, path) = (params.workspace()?, query.path_or_root("path")?);
    refuse_at(&query)?;
    let depth = query.number("depth")?;
    let root = blocking(move || caller.tree(&id, &path, depth)).await?;
    ok(&wire::DirNode::from(&root))
}

/// `GET …/metadata/{path}`
pub(crate) async fn metadata(caller: Caller, params: Params) -> Answer {
    let (id, path) = (params.workspace()?, params.path()?);
    let metadata = blocking(move || caller.metadata(&id, &path)).await?;
    ok(&wire::Metadata::from(&metadata))
}

/// `POST …/mkdir`
pub(crate) async fn mkdir(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::PathRequest>,
) -> Answer {
    let (id, path) = (params.workspace()?, RelPath::parse_text(&asked.path)?);
    let made = blocking(move || caller.make_dir(&id, &path)).await?;
    ok(&wire::Made {
        path: made.to_text(),
    })
}

/// `POST …/move`
pub(crate) async fn rename(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::MoveRequest>,
) -> Answer {
    let id = params.workspace()?;
    let (from, to) = (
        RelPath::parse_text(&asked.from)?,
        RelPath::parse_text(&asked.to)?,
    );
    let text = from.to_text();
    let moved = blocking(move || caller.move_file(&id, &from, &to)).await?;
    ok(&wire::Moved {
        from: text,
        to: moved.path.to_text(),
        version: moved.version,
    })
}
