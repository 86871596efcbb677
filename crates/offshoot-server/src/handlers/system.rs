//! The server itself: health, metrics, documents, and requests that no route takes.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use offshoot_core::{Error, ErrorCode, Result};
use offshoot_engine::Policy;

use crate::app::Shared;
use crate::body::blocking;
use crate::error::{Answer, Problem, ok};
use crate::openapi;
use offshoot_wire as wire;

/// How long the store may take to say that it is there.
const HEALTH_PATIENCE: Duration = Duration::from_secs(5);
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Pages of ours have a style of their own and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// `GET /healthz`
pub(crate) async fn health(State(app): State<Shared>) -> Answer {
    last_event(&app).await?;
    ok(&wire::Health {
        status: "ok",
        version: VERSION,
    })
}

/// Asks the store, but not for long: a health check needs an answer, also a bad one.
async fn last_event(app: &Shared) -> Result<i64> {
    let engine = app.engine.clone();
    let asked = blocking(move || engine.history.last_event());
    match tokio::time::timeout(HEALTH_PATIENCE, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::new(
            ErrorCode::StoreUnavailable,
            "the store does not answer",
        )),
    }
}

/// `GET /metrics`
pub(crate) async fn metrics(State(app): State<Shared>) -> Answer {
    let last_event = last_event(&app).await?;
    let text = app.metrics.render(last_event);
    let mut response = text.into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    Ok(response)
}

/// `GET /openapi.json`
pub(crate) async fn openapi() -> Answer {
    static DOCUMENT: OnceLock<serde_json::Value> = OnceLock::new();
    ok(DOCUMENT.get_or_init(openapi::document))
}

/// `GET /docs`
pub(crate) async fn docs() -> Response {
    static PAGE: OnceLock<String> = OnceLock::new();
    page(PAGE.get_or_init(openapi::page))
}

fn page(html: &'static str) -> Response {
    let mut response = Html(html).into_response();
    response.headers_mut().insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(PAGE_POLICY),
    );
    response
}

/// `GET /capabilities`
pub(crate) async fn capabilities(State(app): State<Shared>) -> Answer {
    let outside_changes = match app.metrics.unwatched.load(Ordering::Relaxed) {
        _ if !app.options.watch => "off",
        0 => "watching",
        _ => "syncing",
    };
    let shared = app.clone();
    let providers = blocking(move || shared.engine.directories.working_providers()).await?;
    ok(&wire::Capabilities {
        providers: providers.iter().map(|name| name.as_str()).collect(),
        policies: Policy::ALL.iter().map(|policy| policy.as_str()).collect(),
        tools: app
            .tools
            .tools()
            .iter()
            .map(|tool| tool.name.into())
            .collect(),
        version: VERSION,
        layouts: vec!["plain", "session"],
        archives: vec!["zip", "tar.gz"],
        imports: vec!["zip", "tar", "tar.gz"],
        outside_changes,
        max_body_bytes: app.options.limits.max_body_bytes,
        max_page: app.options.limits.max_page,
    })
}

/// A request for which there is no route.
pub(crate) async fn no_route(method: Method, uri: Uri) -> Problem {
    let error = Error::invalid(format!("there is no route `{method} {}`", uri.path()))
        .with_hint("`GET /docs` lists the routes");
    Problem::with_status(error, StatusCode::NOT_FOUND)
}

/// A request whose route takes other methods only.
pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let error = Error::invalid(format!("`{}` does not take {method}", uri.path()))
        .with_hint("`GET /docs` lists the routes");
    Problem::with_status(error, StatusCode::METHOD_NOT_ALLOWED)
}
