//! Whole workspaces as archives: packing while it is sent, unpacking with nothing trusted.

mod names;
mod pack;
mod unpack;
mod unpack_tar;
mod unpack_zip;

pub(crate) use pack::{Format, pack};
pub(crate) use unpack::{IntoWorkspace, UnpackLimits, unpack};
