//! The tools of agents, as MCP describes them too.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The tools that can be called.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Tools {
    /// Tool by tool.
    pub tools: Vec<Tool>,
}

/// One tool.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does, for a model.
    pub description: &'static str,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// The JSON schema of its answer.
    pub output_schema: Value,
    /// What a caller should know.
    pub annotations: ToolAnnotations,
}

/// What a caller should know before it calls a tool.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// It changes nothing.
    pub read_only_hint: bool,
    /// It may take something away.
    pub destructive_hint: bool,
    /// Calling it twice does no more than calling it once.
    pub idempotent_hint: bool,
    /// It reaches beyond the workspace.
    pub open_world_hint: bool,
}
