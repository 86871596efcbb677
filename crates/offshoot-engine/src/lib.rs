//! The use cases of Offshoot: every door calls these functions, and only these.
//!
//! An [`Engine`] is one data directory, opened. It composes the store, the git objects and the
//! safe directories, which do not know each other.

mod access;
mod content;
mod context;
mod directory;
mod engine;
mod fork;
mod formats;
mod history;
mod link;
mod merge;
mod project;
mod sync;
mod upkeep;
mod workspace;

pub use access::AccessControl;
pub use access::agent_tree::Agent;
pub use access::once::EarlierResult;
pub use access::tokens::{IssuedToken, TOKEN_PREFIX, Token, new_secret, random_bytes, random_hex};
pub use access::{
    Access, Operation, Overview, Principal, PrincipalKind, ProjectSource, Reach, Rule, Scope, View,
};
pub use content::Contents;
pub use content::credit::Author;
pub use content::diff::Point;
pub use content::incoming::Content;
pub use content::index::Entry;
pub use content::left_out::LeftOut;
pub use content::mime::{mime_by_name, type_name};
pub use content::pattern::Pattern;
pub use content::rows::ParentProject;
pub use content::source::OpenFile;
pub use content::state::{State, StateChange, StateEntry};
pub use content::too_large::TooLarge;
pub use content::workspace_row::Quota;
pub use context::idempotency::{IDEMPOTENCY_RETENTION, IdempotencyRecord};
pub use context::server_lock::ServerLock;
#[cfg(target_os = "linux")]
pub use context::user_namespace_of;
pub use context::{Context, EngineOptions, MAX_FILE_BYTES, create_data_dir, reserve_in};
pub use directory::Directories;
pub use directory::included::Included;
pub use directory::providers::probe_providers_in;
pub use engine::Engine;
pub use fork::Forks;
pub use fork::convert::Converted;
pub use fork::create::{Fork, ForkOptions};
pub use fork::visibility::copy_note;
pub use formats::{Link, PushedBranch, Setup};
pub use history::History;
pub use history::blame::{BlameLine, BlameTarget};
pub use history::events::{Event, EventPage, EventScope, HandedOutWorkspace};
pub use history::metadata::{Metadata, history_as_json};
pub use link::Links;
pub use link::create::LinkOptions;
pub use link::directory::ProjectSynced;
pub use link::pull::{PullOptions, PullWay, Pulled};
pub use link::push::{PushOptions, Pushed};
pub use link::receive::GitPush;
pub use link::status::LinkStatus;
pub use merge::Merges;
pub use merge::after_merge::AfterMerge;
pub use merge::complete::{
    AutoResolved, BroughtCommits, CompleteOptions, Completed, LeftOutCommit, PendingConflict,
    PushedCommit,
};
pub use merge::log::MergeReceipt;
pub use merge::overview::{ForkOverlap, ForkOverview};
pub use merge::policy_decision::Decided;
pub use merge::regions::{MergedTexts, PartChoice, PartChoices, Piece, Region, merge_texts};
pub use merge::review_content::{ReviewContent, ReviewSide, SideContent};
pub use merge::review_list::{ReviewFilter, ReviewStates};
pub use merge::review_row::{LandsIn, Who};
pub use merge::reviews::{Candidate, Resolution, Resolved, Review};
pub use merge::update::Updated;
#[cfg(target_os = "linux")]
pub use offshoot_fs::{Entered, UserNamespace, forbidding_setting, try_user_namespace};
pub use offshoot_fs::{Probe, ProviderName};
pub use offshoot_git::{GitProtocol, PackLimits};
pub use offshoot_store::Landing;
pub use project::Projects;
pub use project::archive::ProjectImport;
pub use project::authors::AuthorSetting;
pub use project::clone::{GitClone, Repository};
pub use project::head::Project;
pub use project::import::{ImportOptions, ImportProgress, ImportStage, Imported};
pub use project::policy::{MergeSettings, PathPolicy, Policy};
pub use project::read::{FileVersion, ProjectDifference, ProjectEntry, RefCounts};
pub use project::setup::{SetupLayer, SetupMade, SetupRun, SetupState, SetupStatus};
pub use sync::Synchronizer;
pub use sync::changes::{BaseMoved, Changes};
pub use sync::ignored::IgnoredFiles;
pub use sync::scan::{OutsideChange, Synced};
pub use upkeep::Upkeep;
pub use upkeep::check::{CheckReport, Problem};
pub use upkeep::data_removal::{RemovedData, remove_data};
pub use upkeep::purge::Purged;
pub use upkeep::retention::{AGE_GUARD, Cleaned, CleanedWorkspace};
pub use workspace::Workspaces;
pub use workspace::archive::{ArchiveContent, ArchiveEntry, WorkspaceArchive};
pub use workspace::export::Exported;
pub use workspace::files::{Expect, WriteOptions, Written};
pub use workspace::import::WorkspaceImport;
pub use workspace::life::{Deleted, ForkOf, Workspace};
pub use workspace::list::{DirNode, ListOptions, ListPage, ListSort};
pub use workspace::read::{
    Info, ListEntry, MAX_WINDOW, Window, WindowContent, is_computed, listing_as_text,
};
pub use workspace::rearrange::DeletedPath;
pub use workspace::restore::Restored;
pub use workspace::snapshot::{Snapshot, Taken};
pub use workspace::walk::WalkEntry;
