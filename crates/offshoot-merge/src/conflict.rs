//! The types for conflicting parts of one file and for the choices that resolve them.

use std::ops::Range;

/// One of the three versions of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The snapshot that the workspace was forked at.
    Base,
    /// The project head.
    Ours,
    /// The workspace.
    Theirs,
}

/// How one conflicting part is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Choice {
    /// What the project head has there.
    Ours,
    /// What the workspace has there.
    Theirs,
    /// What both started from.
    Base,
    /// Both, ours first; only lines and elements of a list can be joined so.
    Union,
}

/// Which part of a file conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The file as a whole.
    Whole,
    /// A range of lines on each side, counted from 0, the end not included.
    Lines {
        /// Lines of the base.
        base: Range<usize>,
        /// Lines of ours.
        ours: Range<usize>,
        /// Lines of theirs.
        theirs: Range<usize>,
    },
    /// A JSON value by its pointer (RFC 6901); for JSON lines the first token is the line.
    Json {
        /// The pointer, such as `/scripts/build`; empty for the whole document.
        pointer: String,
    },
}

/// What the two sides did to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// Both changed it, in different ways.
    BothChanged,
    /// Both added it, with different content.
    BothAdded,
    /// Ours removed what theirs changed.
    RemovedByOurs,
    /// Theirs removed what ours changed.
    RemovedByTheirs,
}

impl PartKind {
    /// This conflict with the sides swapped.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            PartKind::RemovedByOurs => PartKind::RemovedByTheirs,
            PartKind::RemovedByTheirs => PartKind::RemovedByOurs,
            same => same,
        }
    }
}

/// One conflicting part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartConflict {
    /// Where.
    pub part: Part,
    /// What happened.
    pub kind: PartKind,
    /// The bytes of the base that it covers; none where the base lacks it.
    pub base: Option<Range<usize>>,
    /// The bytes of ours.
    pub ours: Option<Range<usize>>,
    /// The bytes of theirs.
    pub theirs: Option<Range<usize>>,
}
