//! Files of a workspace: directories that nothing escapes from, scans of what changed, locks.
//!
//! [`SafeDir`] is the one way to a workspace's files: every path is resolved by it and no path,
//! link or race leads out of it (INV-7). [`scan()`] finds what outside programs changed at the
//! cost of one walk. [`WorkspaceLocks`] keep operations on one workspace apart, across threads
//! and processes. Everything is synchronous.

mod errors;
mod form;
mod locks;
mod safe_dir;
mod scan;

pub use errors::{read_error, write_error};
pub use form::Form;
pub use locks::{WorkspaceLock, WorkspaceLocks};
pub use offshoot_sys::{FileKind, Special, Stat};
pub use safe_dir::{DirEntry, STAGE_PREFIX, SafeDir, Staged, Sync, Walk};
pub use scan::{
    DirState, Memo, MemoEntry, Names, NoFilter, RACY_WINDOW, Refusal, Scan, ScanCounts, ScanEntry,
    ScanFilter, Seen, SeenDir, scan,
};
