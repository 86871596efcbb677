//! Offshoot over HTTP: routes, live events, tokens.
//!
//! A request passes `guard` (host, origin, limits, log), then `auth`, and reaches a handler with an
//! [`offshoot_engine::Access`]: the use cases as its credential may call them. Handlers translate
//! between HTTP and that; they decide nothing about permissions or paths.

mod app;
mod archive;
mod auth;
mod baseline;
mod body;
mod compatibility;
mod compress;
mod connections;
mod drain;
mod error;
mod etag;
mod events;
mod extract;
mod git;
mod guard;
mod handlers;
mod host;
mod in_flight;
mod mcp;
mod metrics;
mod openapi;
mod options;
mod project_routes;
mod retention;
mod route;
mod routes;
mod server;
mod shares;
mod show_events;
mod sign_in;
mod tickets;
mod tls;
mod tool_dispatch;
mod ui;
mod watch;
mod write_timeout;

#[cfg(feature = "fuzzing")]
pub use archive::unpack_into_workspace;
pub use baseline::baseline_file_server;
pub use mcp::serve_stdio;
pub use offshoot_agent::Registry;
pub use options::{Limits, ServerOptions};
pub use server::{Server, serve};
