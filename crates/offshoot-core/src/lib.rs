//! The shared types of Offshoot: ids, paths, entries, changes, errors. No I/O happens here.
//!
//! Every other crate builds on this one and this one builds on none of them. A type lives here
//! when two crates that do not know each other have to agree on it.

pub mod cancel;
mod cause;
mod change;
mod entry;
mod error;
mod fault;
mod id;
mod layout;
mod object_id;
mod object_kind;
mod path;
mod time;
mod unseen;

pub use cause::{Cause, Operator};
pub use change::{Change, ChangeKind, ChangeSet};
pub use entry::{DEFAULT_DIR_PERM, EXEC_FILE_PERM, EntryKind, GitMode, PLAIN_FILE_PERM};
pub use error::{Error, ErrorCode, Result};
pub use fault::FaultPlan;
pub use id::{AgentId, ProjectId, WorkspaceId};
pub use layout::{Layout, SESSION_DIRS, SESSION_METADATA};
pub use object_id::{EMPTY_BLOB, EMPTY_TREE, ObjectId, to_hex};
pub use object_kind::ObjectKind;
pub use path::{
    MAX_DEPTH, MAX_NAME, MAX_PATH, RelPath, escape_bytes, percent_decode, unescape_bytes,
};
pub use time::Timestamp;
pub use unseen::is_unseen;
