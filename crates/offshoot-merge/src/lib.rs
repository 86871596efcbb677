//! Three-way merge of trees, text and JSON, without I/O.
//!
//! **ours** is the project head, **theirs** the workspace, **base** the snapshot that the workspace
//! was forked at. [`merge_trees`] merges a change set into a head behind [`Head`] and [`Contents`];
//! [`merge_content`] and [`merge_file`] merge one file. Conflicts are data, never errors: an error
//! comes only from what reads the inputs. The same inputs always give the same outcome, for work is
//! limited by steps and not by a clock.
//!
//! A change that only one side made is always in the outcome (INV-6).
//!
//! Deliberately absent: policies (the caller chooses per conflict, [`Conflict::resolve`] applies
//! it), storage of merged bytes, and history.

mod brackets;
mod conflict;
mod contained;
mod content;
mod diff;
mod diff3;
mod entries;
mod equal_lines;
mod file;
mod hunk;
mod imports;
mod json;
mod limits;
mod markers;
mod outcome;
mod reason;
mod removed;
mod rules;
mod same_line;
mod split;
mod text;
mod tree;
mod units;
mod version;
mod word_edits;
mod words;

pub use conflict::{Choice, Part, PartConflict, PartKind, Side};
pub use content::{
    CleanContent, ContentConflict, ContentMerge, Method, Sides, is_binary, merge_content,
};
pub use equal_lines::{EqualLines, blamed_lines, equal_lines, lines};
pub use file::{FileMerge, MergeFileOptions, merge_file};
pub use limits::Limits;
pub use markers::MarkerOptions;
pub use outcome::{AutoResolution, Conflict, ConflictKind, Edit, MergeOutcome, Merged};
pub use reason::{Reason, Reasons, ResolvedPart};
pub use rules::{MergeEngine, Pattern, Rules};
pub use tree::{
    Contents, Decision, Head, Kind, MergeOptions, PathChange, TreeEntry, decide, merge_trees,
};
pub use units::{Granularity, UnitMapping, Units};
