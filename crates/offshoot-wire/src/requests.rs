//! Bodies of requests. An unknown field is refused: it is more often a mistake than a wish.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use offshoot_core::Layout;

use super::{ID_PATTERN, LayoutName, SNAPSHOT_PATTERN, object};

/// A workspace to create.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewWorkspace {
    /// Its id; without it a new one.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: Option<String>,
    /// Which places may be written.
    #[schemars(with = "Option<LayoutName>")]
    pub layout: Option<Layout>,
    /// Begin with this snapshot of any workspace, deleted ones too.
    #[schemars(regex(pattern = SNAPSHOT_PATTERN))]
    pub from: Option<String>,
    /// Its limits.
    #[serde(deserialize_with = "object")]
    pub quota: NewQuota,
}

/// Limits of a workspace; none means no limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewQuota {
    /// The most bytes.
    #[schemars(range(min = 0))]
    pub bytes: Option<i64>,
    /// The most files, links and directories.
    #[schemars(range(min = 0))]
    pub inodes: Option<i64>,
}

/// A path.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathRequest {
    /// Where.
    #[schemars(length(min = 1))]
    pub path: String,
}

/// A move.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// From where.
    #[schemars(length(min = 1))]
    pub from: String,
    /// To where; nothing may be there.
    #[schemars(length(min = 1))]
    pub to: String,
}

/// A snapshot to take.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotRequest {
    /// What to call it; with a label it is always a new snapshot.
    pub label: Option<String>,
    /// Also take what the ignore rules leave out.
    pub include_ignored: bool,
}

/// A snapshot to bring back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// Its id, or a prefix of it.
    #[schemars(regex(pattern = SNAPSHOT_PATTERN))]
    pub snapshot: String,
    /// Only this path.
    #[serde(default)]
    pub path: Option<String>,
}

/// What a browser wants to fetch without a header, once and soon.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTicket {
    /// A path of this API with its query.
    pub address: String,
}

/// A token that signs a browser in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignInRequest {
    /// Its secret.
    pub token: String,
}

/// A token to issue. Exactly one of `admin`, `agent`, `workspace` and `project` says what it
/// reaches.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewToken {
    /// Everything.
    pub admin: bool,
    /// The one workspace that this agent works in.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub agent: Option<String>,
    /// This workspace.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub workspace: Option<String>,
    /// This project and the workspaces forked from it.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub project: Option<String>,
    /// Only these paths and operations, each as `PATTERN:read,write`.
    pub allow: Vec<String>,
    /// What it is for; also the name of its holder in the history, unless that is an agent.
    pub label: Option<String>,
    /// How many seconds it is valid; without it until it is revoked.
    pub ttl_s: Option<u64>,
}
