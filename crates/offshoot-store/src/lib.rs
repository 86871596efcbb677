//! Where everything is kept: rows in a [`MetaStore`], large content in a [`BlobStore`].
//!
//! # Vocabulary
//! An *object* is a git object: blob, tree or commit. Its row says where its bytes are: in the row
//! itself (small ones), in a blob of their own (large ones), or in a *pack*, a blob that holds many
//! objects one after the other (bulk writes). [`Store`] hides the difference.
//!
//! # Damage
//! What is read is hashed and compared with its id before its last byte is given out, wherever it
//! is stored: damaged content is an error and never a wrong answer (`checked.rs`).
//!
//! # Ordering (the numbers are those of ARCHITECTURE.md)
//! INV-1: bytes first, rows after. A blob or pack is durable before the transaction that names it
//! begins. INV-3: removal goes the other way round: the row first, the bytes after, and never bytes
//! younger than the age guard, because a writer may be about to name them.

mod blob;
mod bulk;
mod cache;
mod collect;
mod compress;
#[cfg(feature = "conformance")]
pub mod conformance;
mod disk;
mod faults;
mod merge_meta;
mod merge_rows;
mod meta;
mod objects;
mod project_meta;
mod project_rows;
mod request_meta;
mod rows;
mod sqlite;
mod verify;

pub use blob::{BlobInfo, BlobStore};
pub use bulk::{Bulk, BulkWriter};
pub use collect::GarbageReport;
pub use disk::DiskBlobs;
pub use faults::{FaultyBlobs, FaultyMeta};
pub use merge_meta::{MergeReads, MergeWrites};
pub use merge_rows::{CandidateRow, CompletionRow, MergeRow, ReviewRow, ReviewState};
pub use meta::{Durability, MetaStore, ReadTx, WriteTx};
pub use objects::Store;
pub use project_meta::{ProjectReads, ProjectWrites};
pub use project_rows::{AgentRow, AuthorRow, ForkRow, Landing, LayerRow, ProjectRow, RefRow};
pub use request_meta::{MadeRow, RequestReads, RequestRow, RequestWrites};
pub use rows::{
    EntryRow, HistoryFilter, HistoryOp, HistoryRow, NewHistory, NewObject, ObjectPlace, ObjectRow,
    PackRow, SnapshotRow, TokenRow, Via, WorkspaceKey, WorkspaceKind, WorkspaceRow, WorkspaceState,
};
pub use sqlite::{SqliteOptions, SqliteStore, StatementLog};
pub use verify::{ContentHasher, NewHasher};
