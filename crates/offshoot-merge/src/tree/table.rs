//! The decision table: what becomes of a path, by what stands there on the three sides.

/// What stands at a path on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing.
    Absent,
    /// An ordinary file.
    File,
    /// An executable file.
    Executable,
    /// A symbolic link; a submodule counts as one, for its content is an id as well.
    Link,
    /// A directory.
    Directory,
}

impl Kind {
    /// All kinds, in the order of the table.
    pub const ALL: [Kind; 5] = [
        Kind::Absent,
        Kind::File,
        Kind::Executable,
        Kind::Link,
        Kind::Directory,
    ];

    /// Whether its content can be merged by line.
    pub fn is_file(self) -> bool {
        matches!(self, Kind::File | Kind::Executable)
    }
}

/// What to do with a path whose content differs on all sides that have it.
///
/// The table is asked last: a side that left the path as it was in the base loses to the other,
/// and two sides that are equal need no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The head stays as it is.
    KeepOurs,
    /// The workspace's version is taken over.
    TakeTheirs,
    /// The contents are merged, and the modes.
    MergeContent,
    /// Both put a file there, with nothing to start from.
    BothAdded,
    /// Both changed a link, or put one there, to different targets.
    BothChanged,
    /// Both left different kinds of things there.
    TypesDiffer,
    /// Ours removed what theirs changed.
    RemovedByOurs,
    /// Theirs removed what ours changed.
    RemovedByTheirs,
    /// A leaf on one side, a directory on the other; what is below the directory decides.
    FileOrDirectory,
    /// Nothing to do here; what is below is decided path by path.
    Descend,
}

impl Decision {
    /// This decision with the sides swapped.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Decision::KeepOurs => Decision::TakeTheirs,
            Decision::TakeTheirs => Decision::KeepOurs,
            Decision::RemovedByOurs => Decision::RemovedByTheirs,
            Decision::RemovedByTheirs => Decision::RemovedByOurs,
            same => same,
        }
    }
}

/// The decision for a path; the docs print all 125.
pub fn decide(base: Kind, ours: Kind, theirs: Kind) -> Decision {
    use Kind::{Absent, Directory, Link};
    match (base, ours, theirs) {
        // Both removed it, or it was never there.
        (_, Absent, Absent) => Decision::Descend,
        (_, Directory, Directory) => Decision::Descend,
        // One side removed it and the other has a directory there: only its content matters.
        (_, Absent, Directory) | (_, Directory, Absent) => Decision::Descend,
        // Nothing, or a directory, was there before: one side put a leaf.
        (Absent | Directory, Absent, _) => Decision::TakeTheirs,
        (Absent | Directory, _, Absent) => Decision::KeepOurs,
        // A leaf was there before: removed here, changed there.
        (_, Absent, _) => Decision::RemovedByOurs,
        (_, _, Absent) => Decision::RemovedByTheirs,
        (_, Directory, _) | (_, _, Directory) => Decision::FileOrDirectory,
        // Two leaves from here on.
        (base, ours, theirs) if ours.is_file() && theirs.is_file() => {
            if base.is_file() {
                Decision::MergeContent
            } else {
                Decision::BothAdded
            }
        }
        (_, Link, Link) => Decision::BothChanged,
        _ => Decision::TypesDiffer,
    }
}
