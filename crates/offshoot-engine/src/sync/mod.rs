//! What outside programs changed in directories, found and recorded.
//!
//! Whatever relies on a directory that somebody outside knows comes here first: for one path (`guard`),
//! for the whole directory (`scan`, `fork`), or for the last time before the directory goes (`detach`).
//! This room records what it finds and changes nothing in the directory.

pub(crate) mod changes;
pub(crate) mod changes_cache;
pub(crate) mod detach;
pub(crate) mod disk;
pub(crate) mod fork;
pub(crate) mod fork_memo;
pub(crate) mod guard;
pub(crate) mod ignored;
pub(crate) mod memos;
pub(crate) mod record;
pub(crate) mod renames;
pub(crate) mod scan;
