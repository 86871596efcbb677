//! Forks: workspaces that begin as a snapshot of a project.
//!
//! This room makes and lists them. Their directories belong to the room `directory`, what changed in them
//! to `sync`, and bringing them back into their project to `merge`.

pub(crate) mod convert;
pub(crate) mod create;
