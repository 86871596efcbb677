//! What every request passes first: where it comes from, how many there are, how long it takes, and
//! what is written down about it. Never a token, and never a query, which may hold one.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use offshoot_core::{Error, ErrorCode, Result};
use tracing::Instrument as _;

use crate::app::{App, Shared};
use crate::error::Problem;
use crate::options::ServerOptions;

/// Requests with a larger body may take as long as the body keeps coming.
pub(crate) const LARGE_BODY: u64 = 1 << 20;

/// Requests that may take as long as the work they ask for: they read directories of the host, or
/// wait for merges before them.
const PATIENT: [&str; 4] = [
    "/api/v1/projects",
    "/api/v1/projects/{project}/sync",
    "/api/v1/workspaces/{workspace}/complete",
    "/api/v1/workspace/{agent}/complete",
];

/// The ids of requests: no two of any server are the same.
pub(crate) struct RequestIds {
    /// What is random is asked of the kernel once, not with each request.
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
    let mut response = answer(&app, request, next)
        .instrument(span.clone())
        .await
        .unwrap_or_else(IntoResponse::into_response);
    app.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
    if !method.is_safe() {
        app.events.wake();
    }
    add_headers(response.headers_mut(), &id);
    let (status, took) = (response.status().as_u16(), began.elapsed());
    app.metrics.count(method.as_str(), route, status, took);
    span.in_scope(|| {
        let micros = took.as_micros() as u64;
        tracing::info!(%method, path, status, micros, "answered");
    });
    response
}

async fn answer(app: &App, request: Request, next: Next) -> Result<Response, Problem> {
    check_host(&app.options, request.headers(), request.uri().host())?;
    check_origin(&app.options, request.headers())?;
    let _permit = app.requests.try_acquire().map_err(|_| {
        Error::new(
            ErrorCode::RateLimited,
            "the server is busy with too many requests",
        )
    })?;
    if announces_large_body(request.headers()) || is_patient(&request) {
        return Ok(next.run(request).await);
    }
    let limit = app.options.limits.request_timeout;
    let answered = tokio::time::timeout(limit, next.run(request)).await;
    Ok(answered.map_err(|_| {
        Error::new(
            ErrorCode::Timeout,
            format!("the request took longer than {} s", limit.as_secs()),
        )
    })?)
}

fn is_patient(request: &Request) -> bool {
    let matched = request.extensions().get::<MatchedPath>();
    !request.method().is_safe() && matched.is_some_and(|route| PATIENT.contains(&route.as_str()))
}

/// A body of unknown length may be large too.
fn announces_large_body(headers: &HeaderMap) -> bool {
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

/// Refuses names that we do not have: a page of another site may have pointed its own name at this
/// machine (DNS rebinding), and the browser would then take us for that site.
fn check_host(options: &ServerOptions, headers: &HeaderMap, in_url: Option<&str>) -> Result<()> {
    let host = headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    let host = host.or(in_url).unwrap_or_default();
    let name = host_name(host);
    let is_own = match name.parse::<IpAddr>() {
        // An address cannot be pointed elsewhere, but a loopback server has only loopback ones.
        Ok(ip) => !options.listen.ip().is_loopback() || ip.is_loopback(),
        Err(_) => {
            name.eq_ignore_ascii_case("localhost")
                || options
                    .allowed_hosts
                    .iter()
                    .any(|allowed| name.eq_ignore_ascii_case(allowed))
        }
    };
    if is_own {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::PermissionDenied,
        "the `Host` of the request is none of this server's",
    )
    .with_hint("add the name to the setting `allowed_hosts`"))
}

/// The name in `name:port` or `[address]:port`.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// Refuses requests of pages that are not ours.
fn check_origin(options: &ServerOptions, headers: &HeaderMap) -> Result<()> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let origin = origin.to_str().unwrap_or_default();
    let host = headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let is_own = ["http://", "https://"]
        .iter()
        .filter_map(|scheme| origin.strip_prefix(scheme))
        .any(|name| !host.is_empty() && name.eq_ignore_ascii_case(host));
    if is_own
        || options
            .allowed_origins
            .iter()
            .any(|allowed| allowed == origin)
    {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::PermissionDenied,
        "the `Origin` of the request is another site",
    )
    .with_hint("add it to the setting `allowed_origins`"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, options: &ServerOptions) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, name.parse().unwrap());
        check_host(options, &headers, None).is_ok()
    }

    #[test]
    fn hosts() {
        let mut options = ServerOptions::default();
        options.allowed_hosts.push("box.example".into());
        for good in [
            "localhost",
            "localhost:7420",
            "127.0.0.1:7420",
            "[::1]:7420",
            "BOX.example:1",
        ] {
            assert!(host(good, &options), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "192.0.2.1",
            "",
            "127.0.0.1.evil",
        ] {
            assert!(!host(bad, &options), "{bad}");
        }
    }

    #[test]
    fn origins() {
        let options = ServerOptions::default();
        let check = |origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "localhost:7420".parse().unwrap());
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            check_origin(&options, &headers).is_ok()
        };
        assert!(check("http://localhost:7420"));
        for bad in [
            "http://evil.example",
            "null",
            "http://localhost:7421",
            "localhost:7420",
        ] {
            assert!(!check(bad), "{bad}");
        }
    }
}
