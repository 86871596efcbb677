//! Projects and forks.

use std::path::Path;

use offshoot_core::{EntryKind, RelPath, escape_bytes};
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::merges::{Completed, PendingConflict};
use super::snapshots::{ChangedPath, Refused, Snapshot, changed_paths, refused};
use super::{EntryType, Time, hex, texts, time};

/// A project without its files.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Project {
    name: String,
    head: Option<String>,
    created_at: Time,
    changed_at: Time,
    file_count: i64,
    dir_count: i64,
    total_size: i64,
    landing: &'static str,
    include_ignored: bool,
}

impl From<&engine::Project> for Project {
    fn from(project: &engine::Project) -> Self {
        Project {
            name: project.id.to_string(),
            head: hex(project.head),
            created_at: time(project.created_at),
            changed_at: time(project.changed_at),
            file_count: project.files,
            dir_count: project.dirs,
            total_size: project.bytes,
            landing: landing(project.landing),
            include_ignored: project.include_ignored,
        }
    }
}

/// The word for what lands when a merge has conflicts.
pub fn landing(landing: engine::Landing) -> &'static str {
    match landing {
        engine::Landing::Partial => "partial",
        engine::Landing::Atomic => "atomic",
    }
}

/// Several projects.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Projects {
    projects: Vec<Project>,
}

impl From<&[engine::Project]> for Projects {
    fn from(projects: &[engine::Project]) -> Self {
        Projects {
            projects: projects.iter().map(Project::from).collect(),
        }
    }
}

/// A project that was imported.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImportedProject {
    #[serde(flatten)]
    project: Project,
    snapshots: usize,
    dropped: Vec<Refused>,
    ignored: Vec<String>,
    unsettled: Vec<String>,
}

impl From<&engine::Imported> for ImportedProject {
    fn from(imported: &engine::Imported) -> Self {
        ImportedProject {
            project: Project::from(&imported.project),
            snapshots: imported.snapshots,
            dropped: imported.dropped.iter().map(refused).collect(),
            ignored: texts(&imported.ignored),
            unsettled: texts(&imported.unsettled),
        }
    }
}

/// A project that was made: empty, or from something, with what came of that.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum NewlyMade {
    /// From a directory or a git repository.
    Imported(Box<ImportedProject>),
    /// Without anything in it.
    Empty(Project),
}

/// What taking the changes of a directory did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProjectSynced {
    synced: u64,
    skipped: u64,
    total: u64,
    removed: u64,
    snapshot: String,
    created: bool,
    dropped: Vec<Refused>,
    ignored: Vec<String>,
    unsettled: Vec<String>,
    /// The receipt of the merge, if the project had changed meanwhile, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    merge: Option<Completed>,
}

impl From<&engine::ProjectSynced> for ProjectSynced {
    fn from(synced: &engine::ProjectSynced) -> Self {
        ProjectSynced {
            synced: synced.synced,
            skipped: synced.skipped,
            total: synced.total,
            removed: synced.removed,
            snapshot: synced.snapshot.id.to_hex(),
            created: synced.created,
            dropped: synced.dropped.iter().map(refused).collect(),
            ignored: texts(&synced.ignored),
            unsettled: texts(&synced.unsettled),
            merge: synced.merge.as_deref().map(Completed::from),
        }
    }
}

/// What a project holds.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProjectEntries {
    entries: Vec<ProjectEntry>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProjectEntry {
    name: String,
    path: String,
    #[serde(rename = "type")]
    #[schemars(with = "EntryType")]
    kind: EntryKind,
    size: i64,
    mode: String,
    content_id: Option<String>,
}

impl From<&[engine::ProjectEntry]> for ProjectEntries {
    fn from(entries: &[engine::ProjectEntry]) -> Self {
        let entry = |entry: &engine::ProjectEntry| ProjectEntry {
            name: escape_bytes(entry.path.name()),
            path: entry.path.to_text(),
            kind: entry.entry.kind,
            size: entry.size,
            mode: format!("{:04o}", entry.entry.perm),
            content_id: hex(entry.entry.id),
        };
        ProjectEntries {
            entries: entries.iter().map(entry).collect(),
        }
    }
}

/// Every version of a file, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Versions {
    path: String,
    versions: Vec<Version>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Version {
    snapshot: Snapshot,
    /// None if that snapshot removed the file.
    content_id: Option<String>,
}

impl Versions {
    /// Converts the result of the engine.
    pub fn new(path: &RelPath, versions: &[engine::FileVersion]) -> Self {
        let version = |version: &engine::FileVersion| Version {
            snapshot: Snapshot::from(&version.snapshot),
            content_id: version.entry.and_then(|entry| hex(entry.id)),
        };
        Versions {
            path: path.to_text(),
            versions: versions.iter().map(version).collect(),
        }
    }
}

/// A deleted project.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedProject {
    /// Its name.
    pub name: String,
    /// The snapshot that holds its last state.
    pub kept_snapshot: Option<String>,
}

/// A workspace that is a fork.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Fork {
    id: String,
    project: String,
    base_snapshot: String,
    provider: Option<&'static str>,
    path: Option<String>,
    created_at: Time,
    materialized: bool,
    agent: Option<String>,
    priority: i64,
    git: bool,
    /// Who sees the files at its path, if not every program does, or what would be quicker.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Fork {
    /// Says something about its path.
    #[must_use]
    pub fn with_note(self, note: Option<String>) -> Self {
        Fork { note, ..self }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Converts the result of the engine.
    pub fn new(fork: &engine::Fork, path: Option<&Path>) -> Self {
        Fork {
            id: fork.workspace.id.to_string(),
            project: fork.project.to_string(),
            base_snapshot: fork.base.to_hex(),
            provider: fork.provider.map(engine::ProviderName::as_str),
            path: path.map(|path| escape_bytes(path.as_os_str().as_encoded_bytes())),
            created_at: time(fork.workspace.created_at),
            materialized: fork.workspace.materialized,
            agent: fork.agent.as_ref().map(ToString::to_string),
            priority: fork.priority,
            git: fork.git,
            note: None,
        }
    }
}

/// Several forks.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Forks {
    /// One by one.
    pub workspaces: Vec<Fork>,
}

/// One fork, or a list if a number of them was asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ForkOrForks {
    /// One.
    One(Box<Fork>),
    /// As many as were asked for.
    Many(Forks),
}

impl ForkOrForks {
    /// A list if a number was asked for, even if that is one.
    pub fn new(as_list: bool, mut forks: Vec<Fork>) -> Self {
        match forks.pop() {
            Some(fork) if !as_list => ForkOrForks::One(Box::new(fork)),
            last => {
                forks.extend(last);
                ForkOrForks::Many(Forks { workspaces: forks })
            }
        }
    }
}

/// What moving a fork onto the newest snapshot did, or would do.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Updated {
    /// The workspace.
    pub workspace: String,
    /// Whether this is a plan.
    pub dry_run: bool,
    from: String,
    to: String,
    kept_snapshot: Option<String>,
    changes: Vec<ChangedPath>,
    merged: Vec<String>,
    /// Paths at which the workspace now has what the project has; the reviews keep its own.
    conflicts: Vec<PendingConflict>,
}

impl Updated {
    /// Converts the result of the engine.
    pub fn new(workspace: &str, dry_run: bool, updated: &engine::Updated) -> Self {
        Updated {
            workspace: workspace.to_owned(),
            dry_run,
            from: updated.from.to_hex(),
            to: updated.to.to_hex(),
            kept_snapshot: hex(updated.kept),
            changes: changed_paths(&updated.changes),
            merged: texts(&updated.merged),
            conflicts: updated
                .conflicts
                .iter()
                .map(PendingConflict::from)
                .collect(),
        }
    }
}
