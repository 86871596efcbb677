//! What lies beside the new directory of a fork that is being moved to another base: `update.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Stored;

/// What is left to do once the move is committed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct UpdateNote {
    /// Where the new directory stands meanwhile.
    pub(crate) target: PathBuf,
    /// Ignored paths that follow, escaped.
    pub(crate) carry: Vec<String>,
    /// The base before, for a fork that has a `.git`.
    #[serde(default)]
    pub(crate) git_from: Option<String>,
}

impl Stored for UpdateNote {
    const NAME: &'static str = "the note of an update";
    const VERSION: u32 = 2;
}
