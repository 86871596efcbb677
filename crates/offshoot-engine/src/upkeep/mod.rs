//! upkeep

pub(crate) mod check;
pub(crate) mod data_removal;
pub(crate) mod jobs;
pub(crate) mod purge;
pub(crate) mod recovery;
pub(crate) mod recovery_forks;
pub(crate) mod retention;
