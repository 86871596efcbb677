//! The data directory and the machine that it is on.

use std::ffi::OsString;
use std::path::Path;

use offshoot_core::{ObjectId, escape_bytes};
use offshoot_engine as engine;
use serde::Serialize;

use super::workspace::IgnoredFiles;
use super::{Time, hex, time};

/// The settings in force.
#[derive(Debug, Serialize)]
pub struct Settings {
    /// One by one.
    pub settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The section of the settings file that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<&'static str>,
    /// Its value; none if it is not set.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: &'static str,
    /// The variable of the environment that sets it.
    pub variable: &'static str,
}

impl Setting {
    /// Its name with its section.
    pub fn full_name(&self) -> String {
        match self.section {
            Some(section) => format!("{section}.{}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// What was found out about this machine.
#[derive(Debug, Serialize)]
pub struct Doctor {
    /// One by one.
    pub checks: Vec<Check>,
    /// Ways to make forks, the best first.
    pub providers: Vec<ProviderCheck>,
}

/// A way to make forks, and whether it works here.
#[derive(Debug, Serialize)]
pub struct ProviderCheck {
    /// Which one.
    pub name: &'static str,
    /// Whether it works.
    pub works: bool,
    /// Whether new forks are made by it.
    pub used: bool,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// What would make it work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Whether it works.
    pub ok: bool,
    /// What was found.
    pub value: String,
    /// What to change to get more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// What a clean-up did, or would do.
#[derive(Debug, Serialize)]
pub struct Cleaned {
    dry_run: bool,
    workspaces: Vec<CleanedWorkspace>,
    collected: Option<Collected>,
}

#[derive(Debug, Serialize)]
struct CleanedWorkspace {
    id: String,
    kept_snapshot: Option<String>,
    disk_usage: i64,
    last_used: Time,
    ignored_removed: IgnoredFiles,
}

#[derive(Debug, Serialize)]
struct Collected {
    objects: u64,
    packs_rewritten: u64,
    packs_removed: u64,
    blobs_removed: u64,
    leftovers: u64,
    bytes: u64,
}

impl From<&engine::Cleaned> for Cleaned {
    fn from(cleaned: &engine::Cleaned) -> Self {
        let workspace = |workspace: &engine::CleanedWorkspace| CleanedWorkspace {
            id: workspace.id.to_string(),
            kept_snapshot: hex(workspace.snapshot),
            disk_usage: workspace.disk_usage,
            last_used: time(workspace.last_used),
            ignored_removed: workspace.ignored.into(),
        };
        let collected = cleaned.collected.as_ref().map(|collected| Collected {
            objects: collected.objects,
            packs_rewritten: collected.packs_rewritten,
            packs_removed: collected.packs_removed,
            blobs_removed: collected.blobs_removed,
            leftovers: collected.leftovers,
            bytes: collected.blob_bytes + collected.row_bytes,
        });
        Cleaned {
            dry_run: collected.is_none(),
            workspaces: cleaned.workspaces.iter().map(workspace).collect(),
            collected,
        }
    }
}

/// What a check covered and what it found.
#[derive(Debug, Serialize)]
pub struct CheckReport {
    ok: bool,
    workspaces: u64,
    snapshots: u64,
    objects: u64,
    bytes: u64,
    problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct Problem {
    what: &'static str,
    message: String,
}

impl From<&engine::CheckReport> for CheckReport {
    fn from(report: &engine::CheckReport) -> Self {
        let problem = |problem: &engine::Problem| Problem {
            what: problem.what,
            message: problem.message.clone(),
        };
        CheckReport {
            ok: report.problems.is_empty(),
            workspaces: report.workspaces,
            snapshots: report.snapshots,
            objects: report.objects,
            bytes: report.bytes,
            problems: report.problems.iter().map(problem).collect(),
        }
    }
}

/// What a purge erased.
#[derive(Debug, Serialize)]
pub struct Purged {
    contents: Vec<String>,
    snapshots: Vec<Rewritten>,
    files: Vec<PurgedFile>,
    workspaces: usize,
    /// Tags that are gone, because what they named was written anew.
    tags: Vec<PurgedTag>,
    /// Whether remains of it may still be found in the files of the store, because the disk was too
    /// full to write them anew.
    remains: bool,
}

#[derive(Debug, Serialize)]
struct Rewritten {
    old: String,
    new: String,
}

#[derive(Debug, Serialize)]
struct PurgedTag {
    project: String,
    name: String,
}

#[derive(Debug, Serialize)]
struct PurgedFile {
    workspace: String,
    path: String,
}

impl From<&engine::Purged> for Purged {
    fn from(purged: &engine::Purged) -> Self {
        let rewritten = |(old, new): &(ObjectId, ObjectId)| Rewritten {
            old: old.to_hex(),
            new: new.to_hex(),
        };
        Purged {
            contents: purged.contents.iter().map(|id| id.to_hex()).collect(),
            snapshots: purged.snapshots.iter().map(rewritten).collect(),
            files: purged
                .files
                .iter()
                .map(|(workspace, path)| PurgedFile {
                    workspace: workspace.to_string(),
                    path: path.to_text(),
                })
                .collect(),
            workspaces: purged.workspaces,
            tags: purged
                .tags
                .iter()
                .map(|(project, name)| PurgedTag {
                    project: project.clone(),
                    name: name.clone(),
                })
                .collect(),
            remains: purged.remains,
        }
    }
}

/// A data directory that was removed.
#[derive(Debug, Serialize)]
pub struct RemovedData {
    path: String,
    workspaces: usize,
    mounts: usize,
    /// What is not Offshoot's and stays.
    left: Vec<String>,
    /// Whether the directory itself is gone.
    gone: bool,
}

impl RemovedData {
    /// The answer to a removal.
    pub fn new(path: &Path, removed: &engine::RemovedData) -> Self {
        let text = |name: &OsString| escape_bytes(name.as_encoded_bytes());
        RemovedData {
            path: escape_bytes(path.as_os_str().as_encoded_bytes()),
            workspaces: removed.workspaces,
            mounts: removed.mounts,
            left: removed.left.iter().map(text).collect(),
            gone: removed.gone,
        }
    }
}
