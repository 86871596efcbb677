//! context

pub(crate) mod idempotency;
pub(crate) mod prefixes;
pub(crate) mod process_marker;
pub(crate) mod server_lock;
