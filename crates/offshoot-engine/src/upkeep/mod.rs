//! Upkeep of a data directory: recovery after an unclean stop, check, clean, purge, retention.
//!
//! Nothing here is part of a request for a file. What erases content does so only when it was asked for
//! by name (INV-5), and removes rows before bytes (INV-3).

pub(crate) mod check;
pub(crate) mod data_removal;
pub(crate) mod jobs;
pub(crate) mod purge;
pub(crate) mod recovery;
pub(crate) mod recovery_forks;
pub(crate) mod retention;
