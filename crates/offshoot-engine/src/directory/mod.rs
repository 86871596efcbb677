//! The directories of workspaces: plain ones, and those of forks with their layers.
//!
//! A directory is a projection of the store. This room makes it whole, opens it, writes entries of the
//! index into it, moves it aside and takes it away. It does not look for what outside programs changed,
//! and it never changes what the index says: rows that it writes say only where a directory is and which
//! layers it stands on.

pub(crate) mod aside;
pub(crate) mod checkpoint;
pub(crate) mod disk_entry;
pub(crate) mod fork_dir;
pub(crate) mod git_layer;
pub(crate) mod git_move;
pub(crate) mod last_use;
pub(crate) mod layers;
pub(crate) mod materialize;
pub(crate) mod open;
pub(crate) mod projection;
pub(crate) mod providers;
pub(crate) mod repair;
pub(crate) mod replacement;
