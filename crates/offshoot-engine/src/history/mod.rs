//! The past: every change with who made it, read back.
//!
//! Lines of history are written by `content::history_writer` in the transaction of the change that they
//! tell of; this room only reads them: as events, as versions of one file, as metadata, and as blame.

pub(crate) mod blame;
pub(crate) mod blame_places;
pub(crate) mod blame_sources;
pub(crate) mod events;
pub(crate) mod file_version;
pub(crate) mod metadata;
pub(crate) mod past;
pub(crate) mod trail;
