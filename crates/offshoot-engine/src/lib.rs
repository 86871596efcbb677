//! The use cases of Offshoot: every door calls these functions, and only these.
//!
//! An [`Engine`] is one data directory, opened. It composes the store, the git objects and the
//! safe directories, which do not know each other.

mod access;
mod agents;
mod as_text;
mod blame;
mod blame_places;
mod blame_sources;
mod check;
mod complete;
mod content_ids;
mod engine;
mod events;
mod export;
mod files;
mod fork;
mod fork_memo;
mod git_clone;
mod hold;
mod import;
mod import_git;
mod import_source;
mod incoming;
mod index;
mod layers;
mod lines;
mod memos;
mod merge_log;
mod metadata;
mod mime;
mod names;
mod objects;
mod once;
mod policy;
mod project;
mod project_import;
mod project_read;
mod projection;
mod providers;
mod purge;
mod read;
mod rearrange;
mod recovery;
mod recovery_forks;
mod restore;
mod retention;
mod review;
mod run;
mod server_lock;
mod snapshot;
mod source;
mod state;
mod sync;
mod sync_disk;
mod sync_fork;
mod sync_record;
mod three_way;
mod tokens;
mod update;
mod upkeep;
mod walk;
mod workspace;

pub use access::{
    Access, Operation, Pattern, Principal, PrincipalKind, ProjectSource, Reach, Rule, Scope, View,
};
pub use agents::Agent;
pub use blame::{BlameLine, BlameOf};
pub use check::{CheckReport, Problem};
pub use complete::{CompleteOptions, Completed, Decided, Together, Waiting};
pub use engine::{Engine, EngineOptions};
pub use events::{Event, HandedOut};
pub use export::Exported;
pub use files::{Expect, WriteOptions, Written};
pub use fork::{Fork, ForkOptions};
pub use git_clone::{GitClone, Repository};
pub use import::{ImportOptions, ImportProgress, ImportStage, Imported, ProjectSynced};
pub use incoming::Content;
pub use index::Entry;
pub use merge_log::MergeReceipt;
pub use metadata::{Metadata, history_as_json};
pub use mime::{mime_by_name, type_name};
pub use offshoot_fs::{Probe, ProviderName};
pub use offshoot_git::GitProtocol;
pub use offshoot_store::Landing;
pub use policy::{MergeSettings, PathPolicy, Policy};
pub use project::Project;
pub use project_import::ProjectImport;
pub use project_read::{FileVersion, ProjectEntry};
pub use providers::probe_providers_in;
pub use purge::Purged;
pub use read::{
    DirNode, Info, ListEntry, MAX_WINDOW, OpenFile, Window, WindowContent, listing_as_text,
};
pub use restore::{Point, Restored};
pub use retention::{AGE_GUARD, Cleaned, CleanedWorkspace};
pub use review::{Candidate, Resolution, Resolved, Review, Who};
pub use server_lock::ServerLock;
pub use snapshot::{Snapshot, Taken};
pub use state::{State, StateChange, StateEntry};
pub use sync::{OutsideChange, Synced};
pub use tokens::{IssuedToken, TOKEN_PREFIX, Token, new_secret};
pub use update::{BaseMoved, Changes, Updated};
pub use walk::WalkEntry;
pub use workspace::{Deleted, Quota, Workspace};
