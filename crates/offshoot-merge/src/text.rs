//! The merge of text: by line as git does it, then by word inside what conflicts.

use std::collections::HashMap;
use std::ops::Range;

use crate::conflict::Side;
use crate::diff::{Symbol, is_subsequence};
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
    let mut done = 0;
    for region in regions {
        let ours_bytes = lines.ours.bytes(&region.ours);
        let theirs_bytes = lines.theirs.bytes(&region.theirs);
        match region.who {
            Who::Ours | Who::Both => continue,
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
                        &theirs[theirs_bytes.clone()],
                        &mut budget,
                    )
                });
                let merged = merged.flatten().or_else(|| {
                    let side = words.then(|| superset(&lines, &region)).flatten()?;
                    let range = if side == Side::Ours {
                        &ours_bytes
                    } else {
                        &theirs_bytes
                    };
                    let bytes = if side == Side::Ours { ours } else { theirs };
                    Some(bytes[range.clone()].to_vec())
                });
                pieces.push(match merged {
                    Some(bytes) => Piece::Words(bytes, region),
                    None => Piece::Conflict(region),
                });
            }
        }
        done = ours_bytes.end;
    }
    pieces.push(Piece::Ours(done..ours.len()));
    TextMerge { pieces, lines }
}

/// The side that did all that the other did and more: its lines hold the other's, in order, and it
/// keeps no line of the base that the other removed. Then nothing of either is lost by taking it.
fn superset(lines: &ThreeWay, region: &Region) -> Option<Side> {
    let base = &lines.base.symbols[region.base.clone()];
    let ours = &lines.ours.symbols[region.ours.clone()];
    let theirs = &lines.theirs.symbols[region.theirs.clone()];
    if holds_all(base, ours, theirs) {
        Some(Side::Ours)
    } else if holds_all(base, theirs, ours) {
        Some(Side::Theirs)
    } else {
        None
    }
}

fn holds_all(base: &[Symbol], more: &[Symbol], less: &[Symbol]) -> bool {
    if less.is_empty() || !is_subsequence(less, more) {
        return false;
    }
    let mut removed: HashMap<Symbol, isize> = HashMap::new();
    for &line in less {
        *removed.entry(line).or_default() += 1;
    }
    for &line in more {
        *removed.entry(line).or_default() -= 1;
    }
    base.iter()
        .all(|line| removed.get(line).is_none_or(|&count| count >= 0))
}
