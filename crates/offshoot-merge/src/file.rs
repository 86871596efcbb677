//! One file on three sides, for `offshoot merge-file` and git merge drivers.

use crate::conflict::{Choice, PartConflict};
use crate::content::{CleanContent, ContentConflict, ContentMerge, Method, Sides, merge_content};
use crate::limits::Limits;
use crate::markers::{MarkerOptions, render};
use crate::reason::{Reasons, ResolvedPart};
use crate::rules::{MergeEngine, Rules};

/// How one file is merged.
#[derive(Clone, Debug, Default)]
pub struct MergeFileOptions {
    /// The engine per path.
    pub rules: Rules,
    /// Bounds of the work.
    pub limits: Limits,
    /// Only what `git merge-file` does: lines, no words, no structure.
    pub lines_only: bool,
    /// Writes the conflicts into the text between markers; only where that was asked for.
    pub markers: Option<MarkerOptions>,
}

/// What came of one file.
#[derive(Debug)]
pub enum FileMerge {
    /// Merged.
    Clean {
        /// The merged bytes.
        bytes: Vec<u8>,
        /// How they were found.
        method: Method,
        /// The parts that git would have called a conflict, each with the reason.
        parts: Vec<ResolvedPart>,
    },
    /// Something conflicts.
    Conflict {
        /// The conflicting parts.
        conflict: Box<ContentConflict>,
        /// The text with markers, if asked for and if the content is text.
        marked: Option<Vec<u8>>,
    },
}

impl FileMerge {
    /// Whether nothing conflicts.
    pub fn is_clean(&self) -> bool {
        matches!(self, FileMerge::Clean { .. })
    }

    /// The merged bytes, if nothing conflicts.
    pub fn into_clean(self) -> Option<Vec<u8>> {
        match self {
            FileMerge::Clean { bytes, .. } => Some(bytes),
            FileMerge::Conflict { .. } => None,
        }
    }

    /// The conflicting parts; empty when clean.
    pub fn parts(&self) -> &[PartConflict] {
        match self {
            FileMerge::Clean { .. } => &[],
            FileMerge::Conflict { conflict, .. } => &conflict.parts,
        }
    }

    /// The bytes with every conflicting part resolved by one choice; none where it does not fit.
    pub fn resolve_all(&self, choice: Choice) -> Option<Vec<u8>> {
        match self {
            FileMerge::Clean { bytes, .. } => Some(bytes.clone()),
            FileMerge::Conflict { conflict, .. } => conflict.resolve_all(choice),
        }
    }
}

/// Merges three versions of one file. The path only decides the engine and is never opened.
pub fn merge_file(
    path: &[u8],
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    options: &MergeFileOptions,
) -> FileMerge {
    let sides = Sides {
        base: base.into(),
        ours: ours.into(),
        theirs: theirs.into(),
    };
    let (engine, allowed) = if options.lines_only {
        (MergeEngine::Lines, Reasons::none())
    } else {
        (options.rules.engine(path), options.rules.allowed)
    };
    match merge_content(&sides, engine, allowed, &options.limits) {
        ContentMerge::Clean(CleanContent {
            bytes,
            method,
            parts,
        }) => FileMerge::Clean {
            bytes,
            method,
            parts,
        },
        ContentMerge::Conflict(conflict) => {
            let marked = options
                .markers
                .as_ref()
                .and_then(|markers| render(&sides, markers, engine, allowed, &options.limits));
            FileMerge::Conflict {
                conflict: Box::new(conflict),
                marked,
            }
        }
    }
}
