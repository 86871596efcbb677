//! The server from outside, through raw sockets. One binary, because linking takes longer than most
//! of the tests.

#![expect(clippy::unwrap_used, reason = "a test reports by panicking")]

mod agents;
mod archive_paths;
mod archives;
mod clients;
mod common;
mod completed;
mod compression;
mod damage;
mod document;
mod events;
mod every_door;
mod files;
mod git;
mod git_push;
mod git_push_refused;
mod git_push_review;
mod golden;
mod identity;
mod landed;
mod links;
mod listing;
mod log;
mod mcp;
mod names;
mod older_routes;
mod overview;
mod paths;
mod project_paths;
mod projects;
mod protected;
mod raw_archives;
mod reach;
mod refusals;
mod reviews;
mod sessions;
mod shares;
mod sign_in;
mod tenants;
mod tls;
mod together;
mod tools;
mod uploads;
mod whole;
mod work;
