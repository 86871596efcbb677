//! Workspaces as a whole.

use offshoot_core::Layout;
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::{LayoutName, Time, hex, texts, time};

/// A workspace without its files.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Workspace {
    id: String,
    #[schemars(with = "LayoutName")]
    layout: Layout,
    head: Option<String>,
    version: i64,
    materialized: bool,
    handed_out: bool,
    created_at: Time,
    changed_at: Time,
    last_sync: Option<Time>,
    file_count: i64,
    dir_count: i64,
    total_size: i64,
    quota: Quota,
    /// The project that it is merged into, if it is a fork.
    project: Option<String>,
    /// The agent that owns the fork.
    agent: Option<String>,
    /// The snapshot that the changes of the fork are told against.
    base_snapshot: Option<String>,
}

impl From<&engine::Workspace> for Workspace {
    fn from(workspace: &engine::Workspace) -> Self {
        let fork = workspace.fork_of.as_ref();
        let agent = fork.and_then(|fork| fork.agent.as_ref());
        Workspace {
            id: workspace.id.to_string(),
            layout: workspace.layout,
            head: hex(workspace.head),
            version: workspace.revision,
            materialized: workspace.materialized,
            handed_out: workspace.handed_out,
            created_at: time(workspace.created_at),
            changed_at: time(workspace.changed_at),
            last_sync: workspace.last_sync.map(time),
            file_count: workspace.files,
            dir_count: workspace.dirs,
            total_size: workspace.bytes,
            quota: Quota::from(workspace),
            project: fork.map(|fork| fork.project.to_string()),
            agent: agent.map(ToString::to_string),
            base_snapshot: fork.map(|fork| fork.base.to_hex()),
        }
    }
}

/// The limits of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Quota {
    bytes: Option<i64>,
    inodes: Option<i64>,
}

impl From<&engine::Workspace> for Quota {
    fn from(workspace: &engine::Workspace) -> Self {
        Quota {
            bytes: workspace.quota_bytes,
            inodes: workspace.quota_inodes,
        }
    }
}

/// Several workspaces.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Workspaces {
    workspaces: Vec<Workspace>,
}

impl From<&[engine::Workspace]> for Workspaces {
    fn from(workspaces: &[engine::Workspace]) -> Self {
        Workspaces {
            workspaces: workspaces.iter().map(Workspace::from).collect(),
        }
    }
}

/// The path of a workspace on this machine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostPath {
    /// Where.
    pub path: String,
    /// Who sees the files there, if not every program does, or what would be quicker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A deleted workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedWorkspace {
    id: String,
    deleted: bool,
    kept_snapshot: Option<String>,
    ignored_removed: IgnoredFiles,
}

/// Ignored files that are in no snapshot: they went with the directory, unread.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct IgnoredFiles {
    /// How many files and links.
    files: u64,
    /// Their bytes.
    bytes: u64,
}

impl From<engine::IgnoredFiles> for IgnoredFiles {
    fn from(ignored: engine::IgnoredFiles) -> Self {
        IgnoredFiles {
            files: ignored.files,
            bytes: ignored.bytes,
        }
    }
}

impl DeletedWorkspace {
    /// The answer to a deletion.
    pub fn new(id: &str, deleted: &engine::Deleted) -> Self {
        DeletedWorkspace {
            id: id.to_owned(),
            deleted: deleted.existed,
            kept_snapshot: hex(deleted.snapshot),
            ignored_removed: deleted.ignored.into(),
        }
    }
}

/// A fork that was turned into a copy.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConvertedFork {
    id: String,
    provider: &'static str,
    converted: bool,
    left_out: Vec<String>,
}

impl ConvertedFork {
    /// The answer to a conversion.
    pub fn new(id: &str, converted: &engine::Converted) -> Self {
        ConvertedFork {
            id: id.to_owned(),
            provider: converted.provider.as_str(),
            converted: converted.converted,
            left_out: texts(&converted.left_out),
        }
    }
}

/// An exported repository.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Exported {
    head: String,
    snapshots: usize,
    objects: u64,
    pack_bytes: u64,
}

impl From<&engine::Exported> for Exported {
    fn from(exported: &engine::Exported) -> Self {
        Exported {
            head: exported.head.to_hex(),
            snapshots: exported.snapshots,
            objects: exported.report.objects,
            pack_bytes: exported.report.pack_bytes,
        }
    }
}
