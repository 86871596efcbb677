//! Workspaces: their files, snapshots, archives, and their life.
//!
//! Everything that an agent or a person does to one workspace is a function here. A change goes to the
//! store first and to the directory, if there is one, after (see "How a write survives" in
//! ARCHITECTURE.md). This room knows nothing of projects and merges.

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
