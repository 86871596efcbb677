//! The table of routes. The router and the OpenAPI document are both made from it, so neither can
//! have a route that the other lacks.

use axum::Router;

use crate::app::Shared;
use crate::handlers::{
    files, forks, search, snapshots, system, tokens, tools, transfer, workspaces,
};
use crate::route::{BYTES, Kind, Route, delete, get, post, put};
use crate::{auth, compatibility, events, git, guard, mcp, project_routes, sign_in, tickets, ui};
use offshoot_wire as wire;

/// Where the API begins.
const API: &str = "/api/v1";

/// Routes that answer however busy the server is: they need no slot.
const ALWAYS: [&str; 2] = ["/healthz", "/metrics"];

/// `/a/{path}` as the router writes it: a path takes all that follows.
pub(crate) fn router_path(path: &str) -> String {
    path.replace("{path}", "{*path}")
}

/// The router of the whole server.
pub(crate) fn router(app: Shared) -> Router {
    let mut closed = Router::new();
    let mut open = Router::new();
    let mut always = Router::new();
    for route in table() {
        let path = router_path(&route.path);
        if ALWAYS.contains(&path.as_str()) {
            always = always.route(&path, route.into_handler());
        } else if route.open {
            open = open.route(&path, route.into_handler());
        } else {
            closed = closed.route(&path, route.into_handler());
        }
    }
    // An empty path is a wrong path, not a wrong route.
    for place in [
        "workspaces/{workspace}/files",
        "projects/{project}/files",
        "projects/{project}/versions",
        "projects/{project}/blame",
    ] {
        let path = format!("{API}/{place}/");
        closed = closed.route(&path, axum::routing::any(files::empty_path));
    }
    let mcp = mcp::service(&app);
    closed = closed.route_service(mcp::ROUTE, mcp);
    let check = axum::middleware::from_fn_with_state(app.clone(), auth::authenticate);
    let outer = axum::middleware::from_fn_with_state(app.clone(), guard::guard);
    // Handlers keep the limits themselves, each with its own error.
    let no_limit = axum::extract::DefaultBodyLimit::disable();
    let anyone = axum::middleware::from_fn_with_state(app.clone(), auth::admit_anyone);
    closed
        .route_layer(check)
        .merge(open.route_layer(anyone))
        .merge(always)
        .merge(git::router(&app))
        .method_not_allowed_fallback(system::wrong_method)
        .fallback(ui::other)
        .layer(no_limit)
        .layer(outer)
        .with_state(app)
}

/// Every route.
pub(crate) fn table() -> Vec<Route> {
    let mut all = Vec::new();
    all.extend(tagged("workspaces", workspace_routes()));
    all.extend(tagged("files", file_routes()));
    all.extend(tagged("files", transfer_routes()));
    all.extend(tagged("files", search_routes()));
    all.extend(tagged("snapshots", change_routes()));
    all.extend(tagged("snapshots", snapshot_routes()));
    for (tag, routes) in project_routes::groups() {
        all.extend(tagged(tag, routes));
    }
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

fn workspace_routes() -> Vec<Route> {
    let one = "/workspaces/{workspace}";
    vec![
        post("/workspaces", "Create a workspace", workspaces::create)
            .takes::<wire::NewWorkspace>()
            .gives::<wire::Workspace>()
            .creates(),
        get("/workspaces", "List workspaces", workspaces::list)
            .gives::<wire::Workspaces>()
            .paged(Kind::Id),
        get(one, "Show a workspace", workspaces::show).gives::<wire::Workspace>(),
        delete(one, "Delete a workspace; its last state is kept as a snapshot", workspaces::delete)
            .gives::<wire::DeletedWorkspace>()
            .query(
                "include_ignored",
                Kind::Flag,
                "Also keep what the ignore rules leave out, which goes unread otherwise",
            ),
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
            .serves_file()
            .query("version", Kind::Number, "As it was at this version of the workspace"),
        put(&of("/files/{path}"), "Write a file, whole", files::write)
            .takes_file()
            .gives::<wire::Written>()
            .also(201),
        delete(
            &of("/files/{path}"),
            "Delete a file, a link or a directory",
            files::delete,
        )
        .gives::<wire::Deleted>()
        .query(
            "recursive",
            Kind::Flag,
            "Also a directory that holds something",
        )
        .header("If-Match", "Only if the content is this"),
        get(&of("/list"), "List a directory", files::list)
            .gives::<wire::Listing>()
            .query(
                "path",
                Kind::Path,
                "The directory; without it the whole workspace's",
            )
            .query("sort", Kind::Words(&["name", "size", "modified"]), "What it is sorted by")
            .query("descending", Kind::Flag, "From the last to the first")
            .query("dirs_first", Kind::Flag, "Directories come before everything else")
            .query(
                "after",
                Kind::Text,
                "Only what comes after this: `next` of the page before, or by name the name of an entry",
            )
            .query("limit", Kind::Count, "At most so many; without it 10,000"),
        get(
            &of("/tree"),
            "The directories of a workspace, nested",
            files::tree,
        )
        .gives::<wire::DirNode>()
        .query("path", Kind::Path, "Only below this directory")
        .query("depth", Kind::Number, "At most so many levels; without it all"),
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
    ]
}

fn transfer_routes() -> Vec<Route> {
    let of = |rest: &str| format!("/workspaces/{{workspace}}{rest}");
    vec![
        post(
            &of("/uploads"),
            "Put files beside those there are; a taken name becomes `name (1).ext`",
            transfer::upload,
        )
        .takes_form()
        .gives::<wire::Uploads>()
        .query(
            "path",
            Kind::Path,
            "Into this directory, which is made if it is not there; without it `upload`, or in a session `uploads`",
        ),
        get(
            &of("/archive"),
            "Download a workspace or a directory of it",
            transfer::archive,
        )
        .gives_raw(&[BYTES, "application/zip", "application/gzip"])
        .query("format", Kind::Text, "`zip` or `tar.gz`")
        .query("path", Kind::Path, "Only this directory"),
        post(
            &of("/import"),
            "Unpack an archive (zip, tar or tar.gz) into a workspace",
            transfer::import,
        )
        .takes_raw(&[BYTES])
        .gives::<wire::Imported>()
        .query("path", Kind::Path, "Into this directory"),
    ]
}

fn search_routes() -> Vec<Route> {
    vec![
        get(
            "/search",
            "Find files of a workspace or a project by name, by content or by both",
            search::search,
        )
        .gives::<wire::FileMatches>()
        .query("workspace", Kind::Id, "Where to look")
        .query(
            "project",
            Kind::Id,
            "Or where else: in a project as it is now",
        )
        .query(
            "name",
            Kind::Text,
            "A part of the path, or with `*` or `?` a pattern; case does not matter",
        )
        .query("text", Kind::Text, "A text, as it stands in a line")
        .query(
            "ignore_case",
            Kind::Flag,
            "Case does not matter in `text` either",
        )
        .query(
            "path",
            Kind::Text,
            "Only paths like this, such as `src/**/*.rs`",
        )
        .query(
            "after",
            Kind::Text,
            "Go on here: `next` of the answer before",
        )
        .limited(),
    ]
}

fn change_routes() -> Vec<Route> {
    let of = |rest: &str| format!("/workspaces/{{workspace}}{rest}");
    vec![
        get(
            &of("/history"),
            "What happened, newest first",
            snapshots::history,
        )
        .gives::<wire::History>()
        .query("path", Kind::Path, "Only to this path")
        .query(
            "after",
            Kind::Number,
            "Only what is older than this: `next` of the page before",
        )
        .limited(),
        get(
            &of("/changes"),
            "What changed since the newest snapshot, or in a fork since its base",
            snapshots::changes,
        )
        .gives::<offshoot_agent::StatusPart>()
        .query(
            "after",
            Kind::Text,
            "Only paths after this one: `next` of the answer before",
        )
        .query(
            "limit",
            Kind::Count,
            "At most so many paths; without it 10,000",
        ),
        get(
            &of("/blame/{path}"),
            "Who wrote each line of a file",
            forks::blame,
        )
        .gives::<wire::Blame>()
        .at_snapshot(),
        post(
            &of("/update"),
            "Move a fork onto the newest snapshot of its project",
            forks::update,
        )
        .takes::<wire::UpdateRequest>()
        .gives::<wire::Updated>(),
        post(
            &of("/complete"),
            "Merge a fork into its project",
            forks::complete,
        )
        .takes::<wire::CompleteRequest>()
        .gives::<wire::Completed>(),
        get(
            &of("/diff"),
            "What differs between two snapshots, or between one and now",
            snapshots::diff,
        )
        .gives::<wire::Difference>()
        .query("from", Kind::Snapshot, "A snapshot; without it the newest")
        .query(
            "against",
            Kind::Words(&["base", "head"]),
            "Instead of `from`: the base of a fork, or what its project is now",
        )
        .query(
            "to",
            Kind::Snapshot,
            "A snapshot; without it the present state",
        )
        .query("path", Kind::Path, "Only below this path")
        .query("name_only", Kind::Flag, "Without the lines"),
    ]
}

fn snapshot_routes() -> Vec<Route> {
    let of = |rest: &str| format!("/workspaces/{{workspace}}{rest}");
    vec![
        get(
            &of("/snapshots"),
            "List snapshots, newest first",
            snapshots::list,
        )
        .gives::<wire::Snapshots>()
        .limited(),
        post(&of("/snapshots"), "Take a snapshot", snapshots::take)
            .takes::<wire::SnapshotRequest>()
            .gives::<wire::Taken>()
            .also(201),
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
        .gives_raw(&["text/event-stream"])
        .query("since", Kind::Number, "Begin after this event")
        .query("workspace", Kind::Id, "Only of this workspace")
        .query("project", Kind::Id, "Only of this project")
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
            .paged(Kind::Text),
        delete("/tokens/{token}", "Take a token back", tokens::revoke)
            .gives::<wire::RevokedToken>(),
        post(
            "/tickets",
            "Let a browser fetch an address once, within a minute, without a header",
            tickets::issue,
        )
        .takes::<wire::NewTicket>()
        .gives::<wire::Ticket>()
        .status(201),
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
            .gives_raw(&["text/plain"])
            .open(),
        get("/openapi.json", "This document", system::openapi).open(),
        get("/docs", "The routes, to read", system::docs)
            .gives_raw(&["text/html"])
            .open(),
        get("/", "The web UI", ui::page)
            .gives_raw(&["text/html"])
            .open(),
        get(
            "/sign-in",
            "Sign a browser in by the link that `offshoot serve` prints",
            sign_in::sign_in,
        )
        .gives_raw(&["text/html"])
        .query("code", Kind::Text, "The code of the link")
        .query("next", Kind::Text, "A path on this server to go to then")
        .open(),
        post(
            "/sign-in",
            "Sign a browser in by a token: half of it in a cookie, half for the page",
            sign_in::sign_in_by_token,
        )
        .takes::<wire::SignInRequest>()
        .gives::<wire::SignedIn>()
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
