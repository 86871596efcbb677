//! Projects: a head with a linear history, filled by imports and by people's edits.
//!
//! A project is kept like a workspace without a directory. Each change of it is one snapshot on the head
//! that it was made from. This room knows nothing of forks and merges; a change of a project passes the
//! rules on protected paths that are here.

pub(crate) mod archive;
pub(crate) mod clone;
pub(crate) mod earlier_merges;
pub(crate) mod head;
pub(crate) mod import;
pub(crate) mod import_git;
pub(crate) mod import_source;
pub(crate) mod policy;
pub(crate) mod protection;
pub(crate) mod read;
