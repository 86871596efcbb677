//! What each route does: takes the request apart, calls the engine, shapes the answer.

pub(crate) mod files;
pub(crate) mod snapshots;
pub(crate) mod system;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod transfer;
pub(crate) mod workspaces;
