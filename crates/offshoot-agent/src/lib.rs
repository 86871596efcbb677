//! The tools that agents call: one registry for HTTP and MCP.
//!
//! A tool takes relative paths and no workspace: which one is meant comes from the caller's
//! identity. What a tool may do is decided by the [`Access`] it is called with.

mod bounds;
mod collaboration;
pub mod find;
mod registry;
pub mod resources;
mod search;
mod tools;

pub use bounds::{StatusPart, status_part};
pub use offshoot_engine::Access;
pub use registry::{Arguments, Hints, Registry, Tool, ToolAnswer};
