//! What each route does: takes the request apart, calls the engine, shapes the answer.

pub(crate) mod agents;
pub(crate) mod files;
pub(crate) mod forks;
pub(crate) mod forms;
pub(crate) mod links;
pub(crate) mod merges;
pub(crate) mod project_files;
pub(crate) mod projects;
pub(crate) mod reviews;
pub(crate) mod search;
pub(crate) mod snapshots;
pub(crate) mod system;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod transfer;
pub(crate) mod workspaces;
