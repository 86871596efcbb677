//! The table of routes. The router and the OpenAPI document are both made from it, so neither can
//! have a route that the other lacks.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::Shared;
use crate::handlers::{files, snapshots, system, tokens, tools, transfer, workspaces};
use crate::{auth, compatibility, events, git, guard, mcp, sign_in};
use offshoot_wire as wire;

/// Where the API begins.
const API: &str = "/api/v1";

/// Makes the schema of a body.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a request or an answer carries.
#[derive(Clone, Copy)]
pub(crate) enum Payload {
    /// Nothing.
    Empty,
    /// A JSON document.
    Json(SchemaOf),
    /// Something else, of this media type.
    Raw(&'static str),
}

/// A parameter of the query or a header.
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) about: &'static str,
}

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) summary: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) params: Vec<Param>,
    pub(crate) request: Payload,
    pub(crate) answer: Payload,
    pub(crate) status: u16,
    /// Whether it answers without a credential.
    pub(crate) open: bool,
    handler: MethodRouter<Shared>,
}

impl Route {
    /// A route that answers 200 with JSON, unless said otherwise.
    pub(crate) fn new<H, T>(method: Method, path: &str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        // A GET handler also answers HEAD, as axum's own `get` has it.
        let filter = match method {
            Method::GET => filter.or(MethodFilter::HEAD),
            _ => filter,
        };
        Route {
            method,
            path: path.to_owned(),
            summary,
            tag: "",
            params: Vec::new(),
            request: Payload::Empty,
            answer: Payload::Raw("application/json"),
            status: 200,
            open: false,
            handler: on(filter, handler),
        }
    }

    /// The shape of its answer.
    pub(crate) fn gives<T: JsonSchema>(mut self) -> Self {
        self.answer = Payload::Json(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// The media type of its answer.
    pub(crate) fn gives_raw(mut self, media: &'static str) -> Self {
        self.answer = Payload::Raw(media);
        self
    }

    /// The shape of its request.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.request = Payload::Json(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// The media type of its request.
    pub(crate) fn takes_raw(mut self, media: &'static str) -> Self {
        self.request = Payload::Raw(media);
        self
    }

    /// A parameter of the query.
    pub(crate) fn query(
        mut self,
        name: &'static str,
        kind: &'static str,
        about: &'static str,
    ) -> Self {
        let place = "query";
        self.params.push(Param {
            name,
            place,
            kind,
            about,
        });
        self
    }

    /// A header.
    pub(crate) fn header(mut self, name: &'static str, about: &'static str) -> Self {
        let (place, kind) = ("header", "string");
        self.params.push(Param {
            name,
            place,
            kind,
            about,
        });
        self
    }

    /// The status of success.
    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Answers without a credential.
    fn open(mut self) -> Self {
        self.open = true;
        self
    }

    fn paged(self) -> Self {
        self.query("after", "string", "Only what comes after this id")
            .query("limit", "integer", "At most so many")
    }
}

/// `/a/{path}` as the router writes it: a path takes all that follows.
pub(crate) fn router_path(path: &str) -> String {
    path.replace("{path}", "{*path}")
}

/// The router of the whole server.
pub(crate) fn router(app: Shared) -> Router {
    let mut closed = Router::new();
    let mut open = Router::new();
    for route in table() {
        let path = router_path(&route.path);
        if route.open {
            open = open.route(&path, route.handler);
        } else {
            closed = closed.route(&path, route.handler);
        }
    }
    // An empty path is a wrong path, not a wrong route.
    closed = closed.route(
        &format!("{API}/workspaces/{{workspace}}/files/"),
        axum::routing::any(files::empty_path),
    );
    let mcp = mcp::service(&app);
    closed = closed.route_service("/mcp", mcp);
    let check = axum::middleware::from_fn_with_state(app.clone(), auth::authenticate);
    let outer = axum::middleware::from_fn_with_state(app.clone(), guard::guard);
    // Handlers keep the limits themselves, each with its own error.
    let no_limit = axum::extract::DefaultBodyLimit::disable();
    closed
        .route_layer(check)
        .merge(open)
        .merge(git::router(&app))
        .method_not_allowed_fallback(system::wrong_method)
        .fallback(system::no_route)
        .layer(no_limit)
        .layer(outer)
        .with_state(app)
}

/// Every route. Those of projects, forks, merges, reviews and agents join as one more group.
pub(crate) fn table() -> Vec<Route> {
    let mut all = Vec::new();
    all.extend(tagged("workspaces", workspace_routes()));
    all.extend(tagged("files", file_routes()));
    all.extend(tagged("snapshots", snapshot_routes()));
    all.extend(tagged("events", event_routes()));
    all.extend(tagged("tools", tool_routes()));
    all.extend(tagged("tokens", token_routes()));
    for route in &mut all {
        route.path = format!("{API}{}", route.path);
    }
    all.extend(tagged("system", system_routes()));
    all.extend(tagged("compatibility", compatibility::routes()));
    all
}

fn tagged(tag: &'static str, mut routes: Vec<Route>) -> Vec<Route> {
    for route in &mut routes {
        route.tag = tag;
    }
    routes
}

fn get<H: Handler<T, Shared>, T: 'static>(path: &str, summary: &'static str, handler: H) -> Route {
    Route::new(Method::GET, path, summary, handler)
}

fn post<H: Handler<T, Shared>, T: 'static>(path: &str, summary: &'static str, handler: H) -> Route {
    Route::new(Method::POST, path, summary, handler)
}

fn put<H: Handler<T, Shared>, T: 'static>(path: &str, summary: &'static str, handler: H) -> Route {
    Route::new(Method::PUT, path, summary, handler)
}

fn delete<H: Handler<T, Shared>, T: 'static>(
    path: &str,
    summary: &'static str,
    handler: H,
) -> Route {
    Route::new(Method::DELETE, path, summary, handler)
}

fn workspace_routes() -> Vec<Route> {
    let one = "/workspaces/{workspace}";
    vec![
        post("/workspaces", "Create a workspace", workspaces::create)
            .takes::<wire::NewWorkspace>()
            .gives::<wire::Workspace>()
            .header("Idempotency-Key", "A repeated request with the same key creates nothing more")
            .status(201),
        get("/workspaces", "List workspaces", workspaces::list)
            .gives::<wire::Workspaces>()
            .paged(),
        get(one, "Show a workspace", workspaces::show).gives::<wire::Workspace>(),
        delete(one, "Delete a workspace; its last state is kept as a snapshot", workspaces::delete)
            .gives::<wire::DeletedWorkspace>(),
        get(&format!("{one}/quota"), "Show the limits of a workspace", workspaces::quota)
            .gives::<wire::Quota>(),
        put(&format!("{one}/quota"), "Set the limits of a workspace", workspaces::set_quota)
            .takes::<wire::NewQuota>()
            .gives::<wire::Quota>(),
        get(
            &format!("{one}/path"),
            "The directory of a workspace on the server's machine; from then on outside programs may change it",
            workspaces::path,
        )
        .gives::<wire::HostPath>(),
        get(&format!("{one}/info"), "Count what a workspace holds", workspaces::info)
            .gives::<wire::Info>(),
    ]
}

fn file_routes() -> Vec<Route> {
    let of = |rest: &str| format!("/workspaces/{{workspace}}{rest}");
    vec![
        get(&of("/files/{path}"), "Read a file", files::read)
            .gives_raw("application/octet-stream")
            .query("at", "string", "The file as it is in this snapshot")
            .query(
                "preview",
                "boolean",
                "Show it in a browser instead of saving it",
            )
            .header("If-None-Match", "Answer 304 if the content is still this")
            .header("If-Match", "Answer 412 if the content is not this")
            .header("Range", "A part, such as `bytes=0-99`")
            .header("If-Range", "Heed `Range` only if the content is still this"),
        put(&of("/files/{path}"), "Write a file, whole", files::write)
            .takes_raw("application/octet-stream")
            .gives::<wire::Written>()
            .query(
                "executable",
                "boolean",
                "Whether the file can be executed; without it that stays as it was",
            )
            .header("If-Match", "Only if the content is this; `*` means any")
            .header("If-None-Match", "`*`: only if nothing is there"),
        delete(
            &of("/files/{path}"),
            "Delete a file, a link or a directory",
            files::delete,
        )
        .gives::<wire::Deleted>()
        .query(
            "recursive",
            "boolean",
            "Also a directory that holds something",
        )
        .header("If-Match", "Only if the content is this"),
        get(&of("/list"), "List a directory", files::list)
            .gives::<wire::Listing>()
            .query(
                "path",
                "string",
                "The directory; without it the whole workspace's",
            ),
        get(
            &of("/tree"),
            "The directories of a workspace, nested",
            files::tree,
        )
        .gives::<wire::DirNode>(),
        get(
            &of("/metadata/{path}"),
            "Everything known about one path",
            files::metadata,
        )
        .gives::<wire::Metadata>(),
        post(
            &of("/mkdir"),
            "Make a directory and those above it",
            files::mkdir,
        )
        .takes::<wire::PathRequest>()
        .gives::<wire::Made>(),
        post(
            &of("/move"),
            "Move a file, a link or a directory; nothing is overwritten",
            files::rename,
        )
        .takes::<wire::MoveRequest>()
        .gives::<wire::Moved>(),
        post(
            &of("/uploads"),
            "Put files beside those there are; a taken name becomes `name (1).ext`",
            transfer::upload,
        )
        .takes_raw("multipart/form-data")
        .gives::<wire::Uploads>(),
        get(
            &of("/archive"),
            "Download a workspace or a directory of it",
            transfer::archive,
        )
        .gives_raw("application/zip")
        .query("format", "string", "`zip` or `tar.gz`")
        .query("path", "string", "Only this directory"),
        post(
            &of("/import"),
            "Unpack an archive (zip, tar or tar.gz) into a workspace",
            transfer::import,
        )
        .takes_raw("application/octet-stream")
        .gives::<wire::Imported>()
        .query("path", "string", "Into this directory"),
    ]
}

fn snapshot_routes() -> Vec<Route> {
    let of = |rest: &str| format!("/workspaces/{{workspace}}{rest}");
    vec![
        get(
            &of("/history"),
            "What happened, newest first",
            snapshots::history,
        )
        .gives::<wire::History>()
        .query("path", "string", "Only to this path")
        .query("limit", "integer", "At most so many lines"),
        get(
            &of("/changes"),
            "What changed since the newest snapshot",
            snapshots::changes,
        )
        .gives::<wire::Status>(),
        get(
            &of("/diff"),
            "What differs between two snapshots, or between one and now",
            snapshots::diff,
        )
        .gives::<wire::Difference>()
        .query("from", "string", "A snapshot; without it the newest")
        .query("to", "string", "A snapshot; without it the present state")
        .query("path", "string", "Only below this path")
        .query("name_only", "boolean", "Without the lines"),
        get(
            &of("/snapshots"),
            "List snapshots, newest first",
            snapshots::list,
        )
        .gives::<wire::Snapshots>()
        .query("limit", "integer", "At most so many"),
        post(&of("/snapshots"), "Take a snapshot", snapshots::take)
            .takes::<wire::SnapshotRequest>()
            .gives::<wire::Taken>(),
        post(
            &of("/restore"),
            "Bring back a snapshot, whole or one path; the present state is kept first",
            snapshots::restore,
        )
        .takes::<wire::RestoreRequest>()
        .gives::<wire::Restored>(),
        post(
            &of("/sync"),
            "Record what outside programs changed",
            snapshots::sync,
        )
        .gives::<wire::Synced>(),
    ]
}

fn event_routes() -> Vec<Route> {
    vec![
        get(
            "/events",
            "Follow what happens, as server-sent events",
            events::events,
        )
        .gives_raw("text/event-stream")
        .query("since", "integer", "Begin after this event")
        .query("workspace", "string", "Only of this workspace")
        .query("project", "string", "Only of this project")
        .header(
            "Last-Event-ID",
            "Begin after this event; goes before `since`",
        ),
    ]
}

fn tool_routes() -> Vec<Route> {
    vec![
        get(
            "/tools",
            "The tools that agents can call, with their schemas",
            tools::list,
        )
        .gives::<wire::Tools>(),
        post(
            "/tools/{tool}",
            "Call a tool on the workspace of the credential; the body is its arguments",
            tools::call,
        )
        .takes::<serde_json::Value>()
        .gives::<serde_json::Value>(),
    ]
}

fn token_routes() -> Vec<Route> {
    vec![
        post(
            "/tokens",
            "Issue a token; its secret is in the answer and nowhere else",
            tokens::issue,
        )
        .takes::<wire::NewToken>()
        .gives::<wire::IssuedToken>()
        .status(201),
        get("/tokens", "List tokens", tokens::list)
            .gives::<wire::Tokens>()
            .paged(),
        delete("/tokens/{token}", "Take a token back", tokens::revoke)
            .gives::<wire::RevokedToken>(),
        get("/me", "Who the credential stands for", tokens::me).gives::<wire::Me>(),
        get(
            "/capabilities",
            "What this server can do",
            system::capabilities,
        )
        .gives::<wire::Capabilities>(),
    ]
}

fn system_routes() -> Vec<Route> {
    vec![
        get(
            "/healthz",
            "Whether the server and its store answer",
            system::health,
        )
        .gives::<wire::Health>()
        .open(),
        get("/metrics", "Counters, for Prometheus", system::metrics)
            .gives_raw("text/plain")
            .open(),
        get("/openapi.json", "This document", system::openapi).open(),
        get("/docs", "The routes, to read", system::docs)
            .gives_raw("text/html")
            .open(),
        get("/", "Where to begin", system::home)
            .gives_raw("text/html")
            .open(),
        get(
            "/sign-in",
            "Sign a browser in by the link that `offshoot serve` prints",
            sign_in::sign_in,
        )
        .gives_raw("text/html")
        .query("code", "string", "The code of the link")
        .open(),
        post(
            "/sign-out",
            "End the sign-in of a browser",
            sign_in::sign_out,
        )
        .status(204)
        .open(),
    ]
}
