//! Change sets: what differs between a base and now.

use serde::{Deserialize, Serialize};

use crate::{EntryKind, ObjectId, RelPath};

/// How a path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// Its content differs (and perhaps its mode).
    Modified,
    /// It is gone.
    Deleted,
    /// Only its permission bits differ.
    Mode,
    /// It became another kind of thing, such as a link instead of a file.
    Type,
}

/// One path that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: RelPath,
    /// How.
    pub change: ChangeKind,
    /// What stands there now, or stood there if it is gone.
    pub kind: EntryKind,
    /// The content before; none for what was added and for directories.
    pub before: Option<ObjectId>,
    /// The content now; none for what is gone and for directories.
    pub after: Option<ObjectId>,
}

/// Changes in the order of their paths, ignored ones apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// What a snapshot or a merge would take.
    pub changes: Vec<Change>,
    /// Paths that the ignore rules leave out; an ignored directory stands for all below it.
    pub ignored: Vec<RelPath>,
}
