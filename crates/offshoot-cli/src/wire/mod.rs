//! The JSON shapes of answers. They are not the engine's types: the two meet here and only here.
//!
//! Names of fields are promises to programs. Add to them, do not rename them. Paths are escaped
//! text, ids are 40 hexadecimal digits, times are RFC 3339 in UTC.

mod agents;
mod files;
mod machine;
mod merges;
mod projects;
mod reviews;
mod snapshots;
mod workspace;

pub(crate) use agents::{Agent, AgentEnded, AgentWorkspace, Agents};
pub(crate) use files::{Deleted, DirNode, Info, Listing, Made, Metadata, Moved, Window, Written};
pub(crate) use machine::{
    Check, CheckReport, Cleaned, Doctor, ProviderCheck, Purged, Setting, Settings,
};
pub(crate) use merges::{Blame, Completed, Merge, MergeSettings, Merges, TakenBack, Undone};
pub(crate) use projects::{
    DeletedProject, Fork, Forks, Imported, Project, ProjectEntries, ProjectSynced, Projects,
    Updated, Versions, landing,
};
pub(crate) use reviews::{Resolved, Review, Reviews};
pub(crate) use snapshots::{
    ChangedPath, Difference, FileDifference, History, HistoryLine, Restored, Snapshot, Snapshots,
    Status, Synced, Taken,
};
pub(crate) use workspace::{DeletedWorkspace, Exported, HostPath, Quota, Workspace, Workspaces};

use offshoot_core::{ObjectId, RelPath, Timestamp};

fn time(at: Timestamp) -> String {
    at.to_string()
}

fn hex(id: Option<ObjectId>) -> Option<String> {
    id.map(ObjectId::to_hex)
}

fn texts(paths: &[RelPath]) -> Vec<String> {
    paths.iter().map(RelPath::to_text).collect()
}
