//! What every fork of a project begins with beside its files.

use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::projects::Project;
use super::{Time, hex, texts, time};

/// The setup of a project: a command whose ignored results every fork begins with.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Setup {
    /// The program and its arguments.
    command: Vec<String>,
    /// Patterns of the files that decide whether it has to run again.
    on: Vec<String>,
    /// The hash of the command and of these files in the head of the project.
    hash: Option<String>,
    /// `ready`, `stale` (the files have changed since it ran) or `missing` (it never ran).
    state: &'static str,
    /// What it made, the newest first.
    layers: Vec<SetupLayer>,
}

/// What one run of a setup made.
#[derive(Debug, Serialize, JsonSchema)]
struct SetupLayer {
    made_at: Time,
    /// Files, links and directories.
    entries: i64,
    size: i64,
    /// Whether it is for the head of the project.
    current: bool,
}

impl From<&engine::SetupStatus> for Setup {
    fn from(status: &engine::SetupStatus) -> Self {
        let layer = |layer: &engine::SetupLayer| SetupLayer {
            made_at: time(layer.made_at),
            entries: layer.entries,
            size: layer.bytes,
            current: layer.is_current,
        };
        Setup {
            command: status.setup.command.clone(),
            on: status.setup.on.clone(),
            hash: hex(status.key),
            state: status.state.as_str(),
            layers: status.layers.iter().map(layer).collect(),
        }
    }
}

/// A project with its setup.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProjectDetails {
    #[serde(flatten)]
    project: Project,
    /// What every fork begins with beside its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    setup: Option<Setup>,
}

impl ProjectDetails {
    /// A project, and its setup if it has one.
    pub fn new(project: &engine::Project, setup: Option<&engine::SetupStatus>) -> Self {
        ProjectDetails {
            project: Project::from(project),
            setup: setup.map(Setup::from),
        }
    }
}

/// What `project setup` says: the setup of a project, and what a run made.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProjectSetup {
    setup: Option<Setup>,
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<SetupMade>,
}

/// What a run of a setup made.
#[derive(Debug, Serialize, JsonSchema)]
struct SetupMade {
    /// The ignored paths that every fork has from now on.
    taken: Vec<String>,
    left_out: Vec<LeftOut>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct LeftOut {
    path: String,
    reason: String,
}

impl ProjectSetup {
    /// The setup of a project, and what was made just now.
    pub fn new(status: Option<&engine::SetupStatus>, made: Option<&engine::SetupMade>) -> Self {
        let left_out = |made: &engine::SetupMade| {
            let one = |(path, why): &(offshoot_core::RelPath, String)| LeftOut {
                path: path.to_text(),
                reason: why.clone(),
            };
            made.left_out.iter().map(one).collect()
        };
        ProjectSetup {
            setup: status.map(Setup::from),
            made: made.map(|made| SetupMade {
                taken: texts(&made.taken),
                left_out: left_out(made),
            }),
        }
    }
}
