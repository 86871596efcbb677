//! history

pub(crate) mod blame;
pub(crate) mod blame_places;
pub(crate) mod blame_sources;
pub(crate) mod events;
pub(crate) mod file_version;
pub(crate) mod metadata;
pub(crate) mod past;
pub(crate) mod trail;
