//! The merge of text: by line as git does it, then by word inside what conflicts.

use std::ops::Range;

use crate::brackets::bracket_balance;
use crate::diff3::{ChangedBy, Region};
use crate::entries::EntryFormat;
use crate::hunk::ConflictingHunk;
use crate::limits::{Budget, Limits};
use crate::reason::{Reason, Reasons};
use crate::removed::LineCounts;
use crate::split::{ThreeWay, line_length};
use crate::words::Texts;

/// A stretch of the merged text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes of ours: unchanged, changed by ours, or changed alike by both.
    Ours(Range<usize>),
    /// Bytes of theirs.
    Theirs(Range<usize>),
    /// Lines that both changed, put together.
    Resolved(Vec<u8>, Region, Reason),
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
                Piece::Resolved(bytes, ..) => merged.extend_from_slice(bytes),
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

/// Merges by line; what is `allowed` is then tried on each hunk that conflicts.
pub(crate) fn merge_text(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    format: EntryFormat,
    allowed: Reasons,
    limits: &Limits,
) -> TextMerge {
    let mut budget = Budget::new(limits);
    let mut refining = Budget::refining(limits);
    let lines = ThreeWay::cut(base, ours, theirs, line_length);
    let regions = lines.regions(&mut budget);
    let mut pieces = Vec::with_capacity(regions.len() * 2 + 1);
    let mut done = 0;
    for region in regions {
        let ours_bytes = lines.ours.bytes(&region.ours);
        match region.changed_by {
            ChangedBy::Ours | ChangedBy::Both => continue,
            ChangedBy::Theirs => {
                pieces.push(Piece::Ours(done..ours_bytes.start));
                pieces.push(Piece::Theirs(lines.theirs.bytes(&region.theirs)));
            }
            ChangedBy::Conflict => {
                pieces.push(Piece::Ours(done..ours_bytes.start));
                let hunk = ConflictingHunk {
                    texts: Texts {
                        base: &base[lines.base.bytes(&region.base)],
                        ours: &ours[ours_bytes.clone()],
                        theirs: &theirs[lines.theirs.bytes(&region.theirs)],
                    },
                    whole_base: base,
                    whole_ours: ours,
                    whole_theirs: theirs,
                    format,
                    lines: &lines,
                    region: &region,
                };
                pieces.push(match hunk.try_merge(allowed, &mut refining) {
                    Some((bytes, reason)) => Piece::Resolved(bytes, region, reason),
                    None => Piece::Conflict(region),
                });
            }
        }
        done = ours_bytes.end;
    }
    pieces.push(Piece::Ours(done..ours.len()));
    let mut merge = TextMerge { pieces, lines };
    merge.refuse_opposite_sides(ours, theirs);
    merge.refuse_open_blocks(base, ours, theirs);
    merge.refuse_removed_lines(base, ours, theirs);
    merge
}

impl TextMerge {
    /// Hunks of one file are not decided for opposite sides: where one side did more in one place
    /// and the other in another, they may have solved one thing in two ways. A higher version is
    /// higher wherever it stands, so it does not count.
    fn refuse_opposite_sides(&mut self, ours: &[u8], theirs: &[u8]) {
        let lines = &self.lines;
        let taken = |piece: &Piece| match piece {
            Piece::Resolved(bytes, region, reason) if *reason != Reason::HigherVersion => {
                let of_ours = *bytes == ours[lines.ours.bytes(&region.ours)];
                let of_theirs = *bytes == theirs[lines.theirs.bytes(&region.theirs)];
                (of_ours, of_theirs)
            }
            _ => (false, false),
        };
        let for_ours = self.pieces.iter().any(|piece| taken(piece).0);
        let for_theirs = self.pieces.iter().any(|piece| taken(piece).1);
        if for_ours && for_theirs {
            let decided = |piece: &Piece| taken(piece) != (false, false);
            let refused: Vec<bool> = self.pieces.iter().map(decided).collect();
            for (piece, refused) in self.pieces.iter_mut().zip(refused) {
                if refused {
                    piece.refuse();
                }
            }
        }
    }

    /// A block that both sides opened or closed, one of them in a hunk that conflicts by line,
    /// would be open or closed twice. The brackets of the whole text tell.
    fn refuse_open_blocks(&mut self, base: &[u8], ours: &[u8], theirs: &[u8]) {
        let resolved = |piece: &Piece| matches!(piece, Piece::Resolved(..));
        if !self.pieces.iter().any(resolved) {
            return;
        }
        let Some(merged) = self.clean_bytes(ours, theirs) else {
            return;
        };
        let before = bracket_balance(base);
        if before == bracket_balance(ours)
            && before == bracket_balance(theirs)
            && before != bracket_balance(&merged)
        {
            self.pieces.iter_mut().for_each(Piece::refuse);
        }
    }
}

impl TextMerge {
    /// What either side removed is gone from what was put together, or it is a conflict.
    fn refuse_removed_lines(&mut self, base: &[u8], ours: &[u8], theirs: &[u8]) {
        let resolved = |piece: &Piece| matches!(piece, Piece::Resolved(..));
        if !self.pieces.iter().any(resolved) {
            return;
        }
        let Some(merged) = self.clean_bytes(ours, theirs) else {
            return;
        };
        let counts = LineCounts::of(base, ours, theirs, &merged);
        for piece in &mut self.pieces {
            if matches!(piece, Piece::Resolved(bytes, ..) if counts.brings_back(bytes)) {
                piece.refuse();
            }
        }
    }
}

impl Piece {
    /// Makes what was put together a conflict again.
    fn refuse(&mut self) {
        if let Piece::Resolved(_, region, _) = self {
            *self = Piece::Conflict(region.clone());
        }
    }
}
