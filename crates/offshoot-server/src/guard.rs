//! What every request passes first: where it comes from, how many there are, how long it takes, and
//! what is written down about it. Never a token, and never a query, which may hold one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use offshoot_core::{Error, ErrorCode, Result};
use tracing::Instrument as _;

use crate::app::{App, Shared};
use crate::compress;
use crate::drain::drain_on_drop;
use crate::error::Problem;
use crate::host;
use crate::in_flight::{InFlight, InFlightBody};
use crate::mcp;

/// Requests with a larger body may take as long as the body keeps coming.
pub(crate) const LARGE_BODY: u64 = 1 << 20;

/// Requests that may take as long as the work they ask for: they read directories of the host, or
/// wait for merges before them.
const LONG_RUNNING: [&str; 5] = [
    "/api/v1/projects",
    "/api/v1/projects/{project}/sync",
    "/api/v1/workspaces/{workspace}/complete",
    "/api/v1/workspace/{agent}/complete",
    "/git/{*path}",
];

/// The ids of requests: no two of any server are the same.
pub(crate) struct RequestIds {
    /// Random, asked of the kernel once and not with each request.
    server: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        RequestIds {
            server: uuid::Uuid::new_v4().as_u64_pair().0,
            next: AtomicU64::new(1),
        }
    }

    fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}{number:016x}", self.server)
    }
}

/// Counts, checks, times and logs a request.
pub(crate) async fn guard(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    let id = app.request_ids.next();
    let span = tracing::info_span!("request", id = %id, operator = tracing::field::Empty);
    app.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
    let takes_gzip = compress::takes_gzip(request.headers());
    let in_flight = Arc::new(InFlight::default());
    let request = request.map(drain_on_drop);
    let mut response = answer(&app, &in_flight, request, next)
        .instrument(span.clone())
        .await
        .unwrap_or_else(IntoResponse::into_response);
    response = compress::compress(&method, takes_gzip, response).await;
    app.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
    if in_flight.holds_slot() {
        response = response.map(|body| InFlightBody::of(body, in_flight));
    }
    if !method.is_safe() {
        app.events.wake();
    }
    add_headers(response.headers_mut(), &id);
    let (status, took) = (response.status().as_u16(), began.elapsed());
    app.metrics.count(method.as_str(), route, status, took);
    span.in_scope(|| {
        let micros = took.as_micros() as u64;
        // Our own failures are in the log already, with their causes.
        let code = response.extensions().get::<ErrorCode>();
        match code.filter(|_| response.status().is_client_error()) {
            Some(code) => {
                let code = code.as_str();
                tracing::warn!(code, %method, path, status, micros, "refused");
            }
            None => tracing::info!(%method, path, status, micros, "answered"),
        }
    });
    response
}

async fn answer(
    app: &App,
    in_flight: &Arc<InFlight>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let host = host::check(&app.options, request.headers(), request.uri())?;
    host::check_origin(&app.options, request.headers(), &host)?;
    request.extensions_mut().insert(in_flight.clone());
    if is_exempt_from_timeout(&request) {
        return Ok(in_flight.clone().scope(next.run(request)).await);
    }
    let limit = app.options.limits.request_timeout;
    let reads = only_reads(app, &request);
    let answering = in_flight.clone().scope(next.run(request));
    match tokio::time::timeout(limit, answering).await {
        Ok(response) => Ok(response),
        Err(_) => Err(too_late(limit.as_secs(), in_flight.cancel() && !reads).into()),
    }
}

/// The error of a request that took too long, which says whether it may have been done all the same.
fn too_late(seconds: u64, may_have_landed: bool) -> Error {
    let hint = match may_have_landed {
        true => {
            "it may still be done: look before you repeat it, or repeat it with the same \
             `Idempotency-Key` where one is taken, which does it once"
        }
        false => "nothing was changed; try again",
    };
    Error::new(
        ErrorCode::Timeout,
        format!("the request took longer than {seconds} s"),
    )
    .with_hint(hint)
    .with_details(serde_json::json!({ "may_have_landed": may_have_landed }))
}

/// Whether a request can change nothing.
fn only_reads(app: &App, request: &Request) -> bool {
    let tool = request.uri().path().strip_prefix("/api/v1/tools/");
    let tool = tool.and_then(|name| app.tools.get(name).ok());
    request.method().is_safe() || tool.is_some_and(|tool| tool.hints.read_only)
}

/// Requests with a large body take as long as that keeps coming, and some as long as their work
/// does. Those of MCP are documents, which are never large.
fn is_exempt_from_timeout(request: &Request) -> bool {
    let is_document = request.uri().path() == mcp::ROUTE;
    !is_document && declares_large_body(request.headers()) || is_long_running(request)
}

fn is_long_running(request: &Request) -> bool {
    let matched = request.extensions().get::<MatchedPath>();
    !request.method().is_safe()
        && matched.is_some_and(|route| LONG_RUNNING.contains(&route.as_str()))
}

/// A body of unknown length may be large too.
fn declares_large_body(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
        || content_length(headers).is_some_and(|length| length > LARGE_BODY)
}

/// The length that the request announces.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// Headers that every answer carries. What a handler has set stays.
fn add_headers(headers: &mut HeaderMap, id: &str) {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "SAMEORIGIN"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(HeaderName::from_static("x-request-id"), value);
    }
}
