//! What is tried on a hunk that conflicts by line, in order, until something fits.

use std::collections::HashMap;

use crate::diff::{Symbol, is_subsequence};
use crate::diff3::Region;
use crate::imports::ImportLines;
use crate::limits::Budget;
use crate::reason::{Reason, Reasons};
use crate::split::ThreeWay;
use crate::words::{Texts, merge_words};

/// Lines that both sides changed in different ways.
pub(crate) struct ConflictingHunk<'a> {
    pub(crate) texts: Texts<'a>,
    /// The whole of ours, for the lines around the hunk.
    pub(crate) whole_ours: &'a [u8],
    pub(crate) lines: &'a ThreeWay,
    pub(crate) region: &'a Region,
}

impl ConflictingHunk<'_> {
    /// The merged bytes and why they are right, or none where someone has to decide.
    pub(crate) fn settle(
        &self,
        allowed: Reasons,
        budget: &mut Budget,
    ) -> Option<(Vec<u8>, Reason)> {
        if allowed == Reasons::none() {
            return None;
        }
        let Texts { base, ours, theirs } = self.texts;
        let alone = |reason: Reason, attempt: &dyn Fn() -> Option<Vec<u8>>| {
            let bytes = allowed.contains(reason).then(attempt).flatten()?;
            Some((bytes, reason))
        };
        merge_words(self.texts, allowed, budget)
            .or_else(|| alone(Reason::MoreOfTheSame, &|| self.more_of_the_same()))
            .or_else(|| {
                alone(Reason::Imports, &|| {
                    let around = ImportLines::around(self.lines, self.region, self.whole_ours);
                    around.merge(base, ours, theirs)
                })
            })
    }

    /// The side that did all that the other did and more: its lines hold the other's, in order,
    /// and it keeps no line of the base that the other removed. Then nothing of either is lost.
    fn more_of_the_same(&self) -> Option<Vec<u8>> {
        let base = &self.lines.base.symbols[self.region.base.clone()];
        let ours = &self.lines.ours.symbols[self.region.ours.clone()];
        let theirs = &self.lines.theirs.symbols[self.region.theirs.clone()];
        if holds_all(base, ours, theirs) {
            Some(self.texts.ours.to_vec())
        } else if holds_all(base, theirs, ours) {
            Some(self.texts.theirs.to_vec())
        } else {
            None
        }
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
