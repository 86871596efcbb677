//! Two lists of hunks over one base, joined into the regions of a three-way merge.

use std::ops::Range;

use crate::diff::{Hunk, Symbol};

/// Which side changed a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangedBy {
    Ours,
    Theirs,
    /// Both made the same change.
    Both,
    /// Both changed it, in different ways.
    Conflict,
}

/// A changed region; between two of them all three sequences are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) changed_by: ChangedBy,
    pub(crate) base: Range<usize>,
    pub(crate) ours: Range<usize>,
    pub(crate) theirs: Range<usize>,
}

/// The symbols of the three sequences.
#[derive(Clone, Copy)]
pub(crate) struct Sequences<'a> {
    pub(crate) ours: &'a [Symbol],
    pub(crate) theirs: &'a [Symbol],
}

/// Joins hunks of the two sides. Hunks that overlap or merely touch belong to one region, as in
/// git: adjacent edits conflict.
pub(crate) fn regions(ours: &[Hunk], theirs: &[Hunk], sequences: Sequences<'_>) -> Vec<Region> {
    let mut regions = Vec::new();
    let (mut next_ours, mut next_theirs) = (0, 0);
    while next_ours < ours.len() || next_theirs < theirs.len() {
        let (first_ours, first_theirs) = (next_ours, next_theirs);
        let start = |hunk: Option<&Hunk>| hunk.map_or(usize::MAX, |hunk| hunk.before.start);
        let begin = start(ours.get(next_ours)).min(start(theirs.get(next_theirs)));
        let mut end = begin;
        loop {
            if let Some(hunk) = ours.get(next_ours).filter(|hunk| hunk.before.start <= end) {
                end = end.max(hunk.before.end);
                next_ours += 1;
            } else if let Some(hunk) = theirs
                .get(next_theirs)
                .filter(|hunk| hunk.before.start <= end)
            {
                end = end.max(hunk.before.end);
                next_theirs += 1;
            } else {
                break;
            }
        }
        let base = begin..end;
        let region = Region {
            changed_by: ChangedBy::Conflict,
            ours: side_range(&base, ours, first_ours, next_ours),
            theirs: side_range(&base, theirs, first_theirs, next_theirs),
            base,
        };
        let changed_by = match (next_ours - first_ours, next_theirs - first_theirs) {
            (_, 0) => ChangedBy::Ours,
            (0, _) => ChangedBy::Theirs,
            (1, 1)
                if ours[first_ours].before == theirs[first_theirs].before
                    && sequences.ours[region.ours.clone()]
                        == sequences.theirs[region.theirs.clone()] =>
            {
                ChangedBy::Both
            }
            _ => ChangedBy::Conflict,
        };
        regions.push(Region {
            changed_by,
            ..region
        });
    }
    regions
}

/// What a side holds where the base holds `base`, given that its hunks `first..next` lie in it.
fn side_range(base: &Range<usize>, hunks: &[Hunk], first: usize, next: usize) -> Range<usize> {
    // The shift between base and side is that of the last hunk that ends before the position.
    let shift = |upto: usize| match upto.checked_sub(1).map(|last| &hunks[last]) {
        Some(hunk) => hunk.after.end as isize - hunk.before.end as isize,
        None => 0,
    };
    (base.start as isize + shift(first)) as usize..(base.end as isize + shift(next)) as usize
}
