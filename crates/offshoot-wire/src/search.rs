//! Files found by name and by content.

use schemars::JsonSchema;
use serde::Serialize;

/// What was found.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct FileMatches {
    /// File by file and line by line.
    pub matches: Vec<FileMatch>,
    /// Where to go on, to be given as `after`; not there when everything was searched. There may be
    /// one though nothing more is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A file, or a line of one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileMatch {
    /// The file.
    pub path: String,
    /// The number of the line, from 1; none if only names were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The line; a long one is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
