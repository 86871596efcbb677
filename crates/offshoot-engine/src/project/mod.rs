//! project

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
