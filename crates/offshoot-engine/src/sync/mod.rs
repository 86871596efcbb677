//! sync

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
