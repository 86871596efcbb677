//! fork

pub(crate) mod convert;
pub(crate) mod create;
