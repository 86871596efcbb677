//! The JSON shapes of answers and requests, which the command line, HTTP and MCP share. They are
//! not the engine's types: only this crate converts between the two.
//!
//! Names of fields are promises to programs. Add to them, do not rename them. Paths are escaped
//! text, ids are 40 hexadecimal digits, times are RFC 3339 in UTC.

mod agents;
pub mod diff;
mod files;
mod links;
mod machine;
mod merges;
mod overview;
mod project_requests;
mod projects;
mod requests;
mod review_content;
mod review_requests;
mod reviews;
mod search;
mod setup;
mod snapshots;
mod tokens;
mod tools;
mod transfer;
mod workspace;

pub use agents::{Agent, AgentEnded, AgentWorkspace, Agents, Authors, SpawnedAgent};
pub use files::{
    Deleted, DirNode, Info, Listing, Made, Metadata, Moved, Window, Written, base64, base64_decode,
};
pub use links::{Link, LinkedProject, Pulled, Pushed};
pub use machine::{
    Check, CheckReport, Cleaned, Doctor, ProviderCheck, Purged, RemovedData, Setting, Settings,
};
pub use merges::{Blame, Completed, Merge, MergeSettings, Merges, TakenBack, Undone, complete};
pub use overview::{ForkOverview, ForkOverviews, Overview, WorkspaceOrFork, WorkspacesAndForks};
pub use project_requests::{
    CompleteRequest, Encoding, NewAgent, NewCandidate, NewFork, NewProject, PolicyRequest,
    PullRequest, PushRequest, SyncRequest, UpdateRequest,
};
pub use projects::{
    DeletedProject, Fork, ForkOrForks, Forks, ImportedProject, NewlyMade, Project, ProjectEntries,
    ProjectSynced, Projects, Updated, Versions, landing,
};
pub use requests::{
    MoveRequest, NewQuota, NewTicket, NewToken, NewWorkspace, PathRequest, RestoreRequest,
    SignInRequest, SnapshotRequest,
};
pub use review_content::{MergedTexts, ReviewContent};
pub use review_requests::{MergeTextsRequest, ResolveManyRequest, ResolveRequest, TakeRequest};
pub use reviews::{ManyResolved, Resolved, Review, Reviews};
pub use search::{FileMatch, FileMatches};
pub use setup::{ProjectDetails, ProjectSetup, Setup};
pub use snapshots::{
    ChangedPath, Difference, FileDifference, History, HistoryLine, Restored, Snapshot, Snapshots,
    Status, Synced, Taken, differences,
};
pub use tokens::{
    Capabilities, Health, IssuedToken, Me, RevokedToken, SignedIn, Ticket, Token, Tokens,
};
pub use tools::{Tool, ToolAnnotations, Tools};
pub use transfer::{Imported, ProjectImported, RefusedEntry, Upload, UploadedFile, Uploads};
pub use workspace::{
    ConvertedFork, DeletedWorkspace, Exported, HostPath, Quota, Workspace, Workspaces,
};

use offshoot_core::{ObjectId, RelPath, Timestamp};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// What the name of a project, a workspace or an agent looks like.
pub const ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$";
/// What the id of a snapshot, or a prefix of it, looks like.
pub const SNAPSHOT_PATTERN: &str = "^[0-9a-fA-F]{4,40}$";

/// Reads a field that is an object. Without this a list would be taken for its fields in order.
fn object<'de, D, T>(source: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let fields = serde_json::Map::deserialize(source)?;
    T::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

/// Reads a list of objects, or nothing.
fn objects<'de, D, T>(source: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let items: Option<Vec<serde_json::Map<String, Value>>> = Option::deserialize(source)?;
    let read = |fields| T::deserialize(Value::Object(fields)).map_err(D::Error::custom);
    items
        .map(|items| items.into_iter().map(read).collect())
        .transpose()
}

/// A moment, in UTC as RFC 3339 writes it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("format" = "date-time"))]
pub struct Time(String);

impl Time {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn time(at: Timestamp) -> Time {
    Time(at.to_string())
}

fn hex(id: Option<ObjectId>) -> Option<String> {
    id.map(ObjectId::to_hex)
}

fn texts(paths: &[RelPath]) -> Vec<String> {
    paths.iter().map(RelPath::to_text).collect()
}

/// What stands at a path. This type is only for schemas: values are those of the core.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema is used")]
enum EntryType {
    File,
    Dir,
    Symlink,
}

/// How a path differs.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema is used")]
enum ChangeWord {
    Added,
    Modified,
    Deleted,
    Mode,
    Type,
}

/// Which places of a workspace may be written.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema is used")]
enum LayoutName {
    Plain,
    Session,
}
