//! directory

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
pub(crate) mod replacement;
