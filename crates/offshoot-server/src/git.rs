//! `git clone`, `git fetch` and `git push` over HTTP: `/git/{project}.git` and
//! `/git/workspaces/{ws}.git`.
//!
//! What is spoken is git's own protocol, which the engine answers; here it meets HTTP. A token comes
//! as the password of basic authentication, because that is what git asks people for.

use std::io::Read;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use offshoot_core::{Error, ErrorCode, Result, percent_decode};
use offshoot_engine::{GitClone, GitProtocol, GitPush, PackLimits, Repository};

use crate::app::Shared;
use crate::auth::{self, Caller};
use crate::body::{BodyReader, blocking, collect, too_large, written};
use crate::error::{Answer, Problem};
use crate::extract::Query;

const UPLOAD: &str = "git-upload-pack";
const RECEIVE: &str = "git-receive-pack";
/// The most objects of one push. Larger repositories are imported where they are.
const MOST_OBJECTS: u32 = 1_000_000;

/// The routes, with a check of their own before them.
pub(crate) fn router(app: &Shared) -> Router<Shared> {
    let check = axum::middleware::from_fn_with_state(app.clone(), authenticate);
    Router::new()
        .route("/git/{*path}", axum::routing::any(answer))
        .route_layer(check)
}

/// Admits only requests with a valid token, and asks others for one in the way that git and its
/// helpers understand.
async fn authenticate(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let for_git = is_git(request.headers());
    let admitted = match auth::identify_basic(&app, &request) {
        Ok(mut caller) => {
            let asked = parse(request.uri().path()).ok().flatten();
            if let Some(Repository::Workspace(id)) = asked.map(|asked| asked.repository)
                && caller.access.check_reach(&id).is_ok()
            {
                caller.requester.workspace.get_or_insert(id);
            }
            auth::admit(&app, caller, &mut request).await
        }
        Err(error) => Err(error),
    };
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(error) => Problem::from(error).into_response(),
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        let how = HeaderValue::from_static("Basic realm=\"offshoot\", charset=\"UTF-8\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
    }
    if for_git && response.status().as_u16() >= 400 {
        response = as_plain_text(response).await;
    }
    response
}

fn is_git(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT);
    agent.is_some_and(|agent| agent.as_bytes().starts_with(b"git/"))
}

/// git shows the body of a refusal to the person in front of it if it is plain text.
async fn as_plain_text(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, 64 << 10).await;
    let error: serde_json::Value =
        serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default();
    let field = |name: &str| error["error"][name].as_str().unwrap_or_default();
    let mut text = format!("{} ({})\n", field("message"), field("code"));
    if !field("hint").is_empty() {
        text.push_str(&format!("hint: {}\n", field("hint")));
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    parts.headers.insert(header::CONTENT_TYPE, plain);
    Response::from_parts(parts, Body::from(text))
}

/// The repository and the git service that a URL names.
struct GitRequest {
    repository: Repository,
    service: String,
}

/// Every request below `/git/`.
async fn answer(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    let query = Query::parse(request.uri().query().unwrap_or_default())?;
    let Some(asked) = parse(request.uri().path())? else {
        return Err(no_such_file());
    };
    let protocol = protocol(request.headers());
    let service = query.text("service")?;
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    match (asked.service.as_str(), service) {
        ("info/refs", Some(RECEIVE)) if is_get => {
            let push = open_push(&caller, asked.repository).await?;
            let refs = blocking(move || {
                let mut refs = Vec::new();
                push.advertise(protocol, &mut refs).map(|()| refs)
            });
            Ok(with_type(RECEIVE, "advertisement", Body::from(refs.await?)))
        }
        (RECEIVE, _) if *request.method() == Method::POST => {
            let push = open_push(&caller, asked.repository).await?;
            receive(&app, push, request).await
        }
        ("info/refs", Some(UPLOAD)) if is_get => {
            let clone = open(&caller, asked.repository).await?;
            let refs = blocking(move || {
                let mut refs = Vec::new();
                clone.advertise(protocol, &mut refs).map(|()| refs)
            });
            Ok(with_type(UPLOAD, "advertisement", Body::from(refs.await?)))
        }
        ("info/refs", _) if is_get => {
            Err(Error::invalid("only git's smart protocol is spoken here")
                .with_hint("use a git that is not older than 1.6.6")
                .into())
        }
        (UPLOAD, _) if *request.method() == Method::POST => {
            upload(
                &app,
                open(&caller, asked.repository).await?,
                protocol,
                request,
            )
            .await
        }
        ("info/refs" | UPLOAD | RECEIVE, _) => Err(wrong_method(request.method())),
        _ => Err(no_such_file()),
    }
}

/// Splits `/git/{project}.git/{service}` and `/git/workspaces/{ws}.git/{service}`.
fn parse(path: &str) -> Result<Option<GitRequest>> {
    let rest = path.strip_prefix("/git/").unwrap_or_default();
    let (is_workspace, rest) = match rest.strip_prefix("workspaces/") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let Some((name, service)) = rest.split_once('/') else {
        return Ok(None);
    };
    let name = percent_decode(name)?;
    let Some(name) = name.strip_suffix(b".git") else {
        return Ok(None);
    };
    let name = std::str::from_utf8(name)
        .map_err(|_| Error::invalid("the name of the repository is not UTF-8"))?;
    Ok(Some(GitRequest {
        repository: if is_workspace {
            Repository::Workspace(name.parse()?)
        } else {
            Repository::Project(name.parse()?)
        },
        service: service.to_owned(),
    }))
}

fn protocol(headers: &HeaderMap) -> GitProtocol {
    let value = headers.get("git-protocol").map(HeaderValue::to_str);
    value.map_or_else(GitProtocol::default, |value| {
        GitProtocol::from_header(value.unwrap_or_default())
    })
}

async fn open(caller: &Caller, repository: Repository) -> Result<GitClone> {
    let caller = caller.clone();
    blocking(move || caller.open_clone(&repository)).await
}

/// Answers while it is being made: a pack is never in memory as a whole.
async fn upload(app: &Shared, clone: GitClone, protocol: GitProtocol, request: Request) -> Answer {
    let gzipped = is_gzipped(request.headers())?;
    let limits = &app.options.limits;
    let most = limits.max_json_bytes;
    let mut asked = collect(request.into_body(), most, limits.idle_timeout)
        .await?
        .to_vec();
    if gzipped {
        asked = unzip(&asked, most)?;
    }
    let body = written(move |writer| {
        // The client has been told in its own protocol; this is for the log.
        if let Err(error) = clone.answer(protocol, &asked, writer) {
            match error.code().http_status() {
                500 if error.code() != ErrorCode::WriteFailed => {
                    tracing::error!(?error, "a clone failed");
                }
                _ => tracing::info!(%error, "a clone ended early"),
            }
        }
        Ok(())
    });
    Ok(with_type(UPLOAD, "result", body))
}

async fn open_push(caller: &Caller, repository: Repository) -> Result<GitPush> {
    let caller = caller.clone();
    blocking(move || caller.open_push(&repository)).await
}

/// Takes a push as it comes: a pack is never in memory as a whole. The answer is small, and is sent
/// when everything is done.
async fn receive(app: &Shared, push: GitPush, request: Request) -> Answer {
    let gzipped = is_gzipped(request.headers())?;
    let limits = &app.options.limits;
    let most = limits.max_body_bytes;
    let pack_limits = PackLimits {
        pack_bytes: most,
        object_bytes: most,
        unpacked_bytes: limits.max_unpacked_bytes,
        objects: MOST_OBJECTS,
    };
    // Commands stand before the pack, whose limit is told in git's own words.
    let whole = most.saturating_add(limits.max_json_bytes);
    let mut reader = BodyReader::new(request.into_body(), whole, limits.idle_timeout);
    let report = blocking(move || {
        let mut report = Vec::new();
        let taken = {
            let mut unzipped;
            let input: &mut dyn Read = match gzipped {
                true => {
                    unzipped = flate2::read::MultiGzDecoder::new(&mut reader);
                    &mut unzipped
                }
                false => &mut reader,
            };
            push.receive(input, &pack_limits, &mut report)
        };
        reader.explain(taken).map(|()| report)
    });
    Ok(with_type(RECEIVE, "result", Body::from(report.await?)))
}

fn is_gzipped(headers: &HeaderMap) -> Result<bool> {
    match headers.get(header::CONTENT_ENCODING) {
        None => Ok(false),
        Some(coding) if coding == "gzip" || coding == "x-gzip" => Ok(true),
        Some(coding) if coding == "identity" => Ok(false),
        Some(_) => Err(Error::invalid("the body is encoded in an unknown way")),
    }
}

fn unzip(bytes: &[u8], most: u64) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes)
        .take(most + 1)
        .read_to_end(&mut plain)
        .map_err(|cause| Error::invalid("the body is not gzip").with_source(cause))?;
    if plain.len() as u64 > most {
        return Err(too_large(most));
    }
    Ok(plain)
}

fn with_type(service: &str, kind: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    if let Ok(value) = HeaderValue::from_str(&format!("application/x-{service}-{kind}")) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

fn no_such_file() -> Problem {
    let error = Error::invalid("there is nothing at this place of a git repository")
        .with_hint("clone or push to `/git/PROJECT.git` or `/git/workspaces/WORKSPACE.git`");
    Problem::with_status(error, StatusCode::NOT_FOUND)
}

fn wrong_method(method: &Method) -> Problem {
    let error = Error::invalid(format!("{method} is not how git asks for this"));
    Problem::with_status(error, StatusCode::METHOD_NOT_ALLOWED)
}
