//! The merge of text: by line as git does it, then by word inside what conflicts.

use std::ops::Range;

use crate::diff3::{Region, Who};
use crate::limits::{Budget, Limits};
use crate::split::{ThreeWay, line_length};
use crate::words::merge_words;

/// A stretch of the merged text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes of ours: unchanged, changed by ours, or changed alike by both.
    Ours(Range<usize>),
    /// Bytes of theirs.
    Theirs(Range<usize>),
    /// Lines that both changed, put together word by word.
    Words(Vec<u8>, Region),
    /// Lines that both changed in different ways.
    Conflict(Region),
}

/// The merged text of three sides.
pub(crate) struct TextMerge {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) lines: ThreeWay,
    /// How many regions both sides changed alike.
    pub(crate) same_changes: usize,
}

impl TextMerge {
    /// The merged bytes, unless something conflicts.
    pub(crate) fn clean_bytes(&self, ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
        let mut merged = Vec::with_capacity(ours.len().max(theirs.len()));
        for piece in &self.pieces {
            match piece {
                Piece::Ours(range) => merged.extend_from_slice(&ours[range.clone()]),
                Piece::Theirs(range) => merged.extend_from_slice(&theirs[range.clone()]),
                Piece::Words(bytes, _) => merged.extend_from_slice(bytes),
                Piece::Conflict(_) => return None,
            }
        }
        Some(merged)
    }

    /// The regions that conflict.
    pub(crate) fn conflicts(&self) -> impl Iterator<Item = &Region> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Conflict(region) => Some(region),
            _ => None,
        })
    }
}

/// Merges by line; `words` also lets the second pass work inside the conflicts.
pub(crate) fn merge_text(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    words: bool,
    limits: &Limits,
) -> TextMerge {
    let mut budget = Budget::new(limits);
    let lines = ThreeWay::cut(base, ours, theirs, line_length);
    let regions = lines.regions(&mut budget);
    let mut pieces = Vec::with_capacity(regions.len() * 2 + 1);
    let mut same_changes = 0;
    let mut done = 0;
    for region in regions {
        let ours_bytes = lines.ours.bytes(&region.ours);
        let theirs_bytes = lines.theirs.bytes(&region.theirs);
        match region.who {
            Who::Ours => continue,
            Who::Both => {
                same_changes += 1;
                continue;
            }
            Who::Theirs => {
                pieces.push(Piece::Ours(done..ours_bytes.start));
                pieces.push(Piece::Theirs(theirs_bytes));
            }
            Who::Conflict => {
                pieces.push(Piece::Ours(done..ours_bytes.start));
                let merged = words.then(|| {
                    let base_bytes = lines.base.bytes(&region.base);
                    merge_words(
                        &base[base_bytes],
                        &ours[ours_bytes.clone()],
                        &theirs[theirs_bytes],
                        &mut budget,
                    )
                });
                pieces.push(match merged.flatten() {
                    Some(bytes) => Piece::Words(bytes, region),
                    None => Piece::Conflict(region),
                });
            }
        }
        done = ours_bytes.end;
    }
    pieces.push(Piece::Ours(done..ours.len()));
    TextMerge { pieces, lines, same_changes }
}
