//! The opened data directory: keys of requests, prefixes of names, markers of processes, the server's
//! lock. This room knows nothing of workspaces, projects or merges but the rows that name them.

pub(crate) mod idempotency;
pub(crate) mod prefixes;
pub(crate) mod process_marker;
pub(crate) mod server_lock;
