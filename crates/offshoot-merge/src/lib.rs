//! Three-way merge of trees, text and JSON, without I/O.

mod diff;
mod diff3;
mod limits;
mod split;
mod text;
mod words;

pub use limits::Limits;
/// tmp
pub fn tmp(base: &[u8], ours: &[u8], theirs: &[u8], words: bool) -> Option<Vec<u8>> {
    text::merge_text(base, ours, theirs, words, &Limits::default()).clean_bytes(ours, theirs)
}
/// tmp
#[derive(Default)]
pub struct MergeFileOptions {
    /// tmp
    pub lines_only: bool,
}
/// tmp
pub enum FileMerge {
    /// tmp
    Clean {
        /// tmp
        bytes: Vec<u8>,
    },
    /// tmp
    Conflict {},
}
impl FileMerge {
    /// tmp
    pub fn is_clean(&self) -> bool {
        matches!(self, FileMerge::Clean { .. })
    }
    /// tmp
    pub fn into_clean(self) -> Option<Vec<u8>> {
        match self {
            FileMerge::Clean { bytes, .. } => Some(bytes),
            _ => None,
        }
    }
}
/// tmp
pub fn merge_file(_: &[u8], base: &[u8], ours: &[u8], theirs: &[u8], o: &MergeFileOptions) -> FileMerge {
    match tmp(base, ours, theirs, !o.lines_only) {
        Some(bytes) => FileMerge::Clean { bytes },
        None => FileMerge::Conflict {},
    }
}
