//! Three-way merge of trees, text and JSON, without I/O.

mod conflict;
mod content;
mod diff;
mod diff3;
mod file;
mod json;
mod limits;
mod markers;
mod outcome;
mod rules;
mod split;
mod text;
mod tree;
mod words;

pub use conflict::{Choice, Part, PartConflict, PartKind, Side};
pub use content::{
    CleanContent, ContentConflict, ContentMerge, Method, Sides, is_binary, merge_content,
};
pub use file::{FileMerge, MergeFileOptions, merge_file};
pub use limits::Limits;
pub use markers::MarkerOptions;
pub use outcome::{AutoResolution, Conflict, ConflictKind, Edit, MergeOutcome, Merged};
pub use rules::{Engine, Pattern, Rules};
pub use tree::{
    Cell, Contents, Head, Kind, MergeOptions, PathChange, TreeEntry, decide, merge_trees,
};
