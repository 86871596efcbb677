//! workspace

pub(crate) mod archive;
pub(crate) mod bare;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod import;
pub(crate) mod life;
pub(crate) mod links;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod rearrange;
pub(crate) mod restore;
pub(crate) mod snapshot;
pub(crate) mod walk;
pub(crate) mod writes;
