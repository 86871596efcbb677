//! `update.json` beside the new directory of a fork that is being moved to another base.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::StoredFormat;

/// What is left to do after the move is committed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct UpdateNote {
    /// The path of the new directory until the move is finished.
    pub(crate) target: PathBuf,
    /// Ignored paths that move to the new directory, escaped.
    pub(crate) carry: Vec<String>,
    /// The previous base, for a fork with a `.git`.
    #[serde(default)]
    pub(crate) git_from: Option<String>,
}

impl StoredFormat for UpdateNote {
    const NAME: &'static str = "the note of an update";
    const VERSION: u32 = 2;
}
