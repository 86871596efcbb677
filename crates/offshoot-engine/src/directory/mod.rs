//! directory

pub(crate) mod git_layer;
pub(crate) mod git_move;
pub(crate) mod last_use;
pub(crate) mod layers;
pub(crate) mod projection;
pub(crate) mod providers;
