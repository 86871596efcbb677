//! The merge of trees: what the workspace changed, brought onto the project head.

mod blocked;
mod directory;
mod merge;
mod rename;
pub(crate) mod table;

use std::sync::Arc;

use offshoot_core::{GitMode, ObjectId, RelPath, Result};

pub use merge::{MergeOptions, merge_trees};
pub use table::{Decision, Kind, decide};

/// What stands at a path of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TreeEntry {
    /// How git writes it.
    pub mode: GitMode,
    /// Its content.
    pub id: ObjectId,
}

/// A path that differs from the base. Directories are implied by what is in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// Where.
    pub path: RelPath,
    /// What stood there in the base; none for what was added.
    pub before: Option<TreeEntry>,
    /// What stands there now; none for what is gone.
    pub after: Option<TreeEntry>,
}

/// The project head, asked only about paths that matter, so that the cost follows the change.
pub trait Head {
    /// What stands at a path: a leaf, or a directory with [`GitMode::Dir`] (its id is not used);
    /// none where nothing stands, also below a leaf. One lookup per path
    /// that the workspace changed, and per directory above those that it added.
    fn entry(&self, path: &RelPath) -> Result<Option<TreeEntry>>;

    /// All leaves below a directory. Asked only where the workspace put a leaf in its place or
    /// renamed it.
    fn leaves_below(&self, directory: &RelPath) -> Result<Vec<RelPath>>;

    /// What the head changed since the base. Asked only when a path that the workspace changed is
    /// gone from the head, or a directory that it added something to, or when it renamed a
    /// directory that the head still has; a walk that skips equal subtrees is enough.
    fn changes(&self) -> Result<Vec<PathChange>>;
}

/// Content by its id.
pub trait Contents {
    /// The bytes. Asked for files that both sides changed and for candidates of a rename.
    fn read(&self, id: &ObjectId) -> Result<Arc<[u8]>>;
}
