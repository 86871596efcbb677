//! The repository that a project is linked to.

use offshoot_core::{ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

use super::StoredFormat;
use crate::content::as_text;

/// The repository that a project is linked to, and how far both know each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its absolute path on this machine, or its address.
    pub repository: String,
    /// The branch whose commits come in.
    pub branch: String,
    /// Whether forks pull first and merges push.
    pub auto: bool,
    /// The commit of that branch that was taken last: all that it reaches is in the project.
    #[serde(with = "as_text")]
    pub taken: ObjectId,
    /// When commits were last asked for, in microseconds since 1970.
    pub pulled_at: Option<i64>,
    /// The branch that was pushed last.
    pub pushed: Option<PushedBranch>,
    /// The workspace that brings newer commits, from its making until all of them have landed.
    pub(crate) pending: Option<PendingPull>,
    /// Whether snapshots of the project were written anew, so that the repository does not know
    /// them.
    pub(crate) purged: bool,
}

/// A branch of the repository as it was pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushedBranch {
    /// Its name.
    pub branch: String,
    /// What it pointed at then.
    #[serde(with = "as_text")]
    pub commit: ObjectId,
    /// When that was, in microseconds since 1970.
    pub at: i64,
}

/// Commits that are being merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingPull {
    /// The number of the workspace that has them.
    pub(crate) workspace: i64,
    /// The newest of them.
    #[serde(with = "as_text")]
    pub(crate) tip: ObjectId,
}

impl Link {
    /// When commits were last asked for.
    pub fn pulled(&self) -> Option<Timestamp> {
        self.pulled_at.map(Timestamp)
    }

    /// Notes that a purge wrote commits anew that both had.
    pub(crate) fn replace_ids(&mut self, new: &dyn Fn(ObjectId) -> ObjectId) {
        self.purged |= new(self.taken) != self.taken;
    }
}

impl StoredFormat for Link {
    const NAME: &'static str = "the link of a project";
    const VERSION: u32 = 1;
}
