//! Whole workspaces as archives: packing while it is sent, unpacking with nothing trusted.

mod pack;
mod unpack;

pub(crate) use pack::{Format, pack};
pub(crate) use unpack::{IntoWorkspace, UnpackLimits, unpack};
