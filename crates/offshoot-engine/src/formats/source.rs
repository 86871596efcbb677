//! What a project last took from a directory of the host.

use std::path::Path;

use offshoot_core::ObjectId;
use serde::{Deserialize, Serialize};

use super::StoredFormat;
use crate::content::as_text;

/// What a project last took from a directory, or from the repository that it was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectorySource {
    /// The absolute path of the directory; none if it is no text, or did not stay.
    pub(crate) directory: Option<String>,
    /// Whether ignored files were left out.
    pub(crate) ignore_rules: bool,
    /// The snapshot that holds what was taken: the next sync looks at what is new since.
    #[serde(with = "as_text")]
    pub(crate) taken: ObjectId,
    /// Its sidecar. A commit of git could name any, so it is not read from there.
    #[serde(with = "as_text")]
    pub(crate) sidecar: ObjectId,
    /// What is being merged; it counts as taken once its merge is there.
    pub(crate) pending: Option<PendingDirectory>,
}

/// What a directory holds, on its way into the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingDirectory {
    /// The number of the workspace that has it.
    pub(crate) workspace: i64,
    /// The snapshot of that workspace.
    #[serde(with = "as_text")]
    pub(crate) taken: ObjectId,
    /// Its sidecar.
    #[serde(with = "as_text")]
    pub(crate) sidecar: ObjectId,
}

impl DirectorySource {
    /// Whether it was taken from this directory.
    pub(crate) fn is_of(&self, directory: &Path) -> bool {
        self.directory.is_some() && self.directory.as_deref() == directory.to_str()
    }

    /// Puts the ids that a purge gave in the place of those before it.
    pub(crate) fn replace_ids(&mut self, new: &dyn Fn(ObjectId) -> ObjectId) {
        self.taken = new(self.taken);
        self.sidecar = new(self.sidecar);
        if let Some(pending) = &mut self.pending {
            pending.taken = new(pending.taken);
            pending.sidecar = new(pending.sidecar);
        }
    }
}

impl StoredFormat for DirectorySource {
    const NAME: &'static str = "what a project took from a directory";
    const VERSION: u32 = 1;
}
