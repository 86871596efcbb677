//! What is tried on a hunk that conflicts by line, in order, until something fits.

use std::collections::HashMap;

use crate::contained::containing_side;
use crate::diff::{Symbol, is_subsequence};
use crate::diff3::Region;
use crate::imports::ImportLines;
use crate::limits::Budget;
use crate::reason::{Reason, Reasons};
use crate::split::ThreeWay;
use crate::version::second_block_is_higher;
use crate::words::{HunkWords, Texts};

/// Lines with more bytes on the three sides are generated or were rewritten: to look for words in
/// them takes long and finds nothing that people would keep. A single long line is still tried.
const MAX_BYTES: usize = 256 << 10;

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
        let lines_are_large = self.is_large() && self.region.base.len() > 1;
        if allowed == Reasons::none() || lines_are_large || budget.is_spent() {
            return None;
        }
        let words = HunkWords::cut(self.texts);
        if let Some(merged) = words.merge(allowed, budget) {
            return Some(merged);
        }
        let attempts: [(Reason, &mut dyn FnMut() -> Option<Vec<u8>>); 3] = [
            (Reason::HigherVersion, &mut || self.higher_version()),
            (Reason::MoreOfTheSame, &mut || {
                let by_word = |budget| containing_side(&words, budget).map(<[u8]>::to_vec);
                let by_line = self.more_of_the_same();
                by_line.or_else(|| (!self.is_large()).then(|| by_word(budget)).flatten())
            }),
            (Reason::Imports, &mut || self.imports()),
        ];
        for (reason, attempt) in attempts {
            if let Some(bytes) = allowed.contains(reason).then(attempt).flatten() {
                return Some((bytes, reason));
            }
        }
        None
    }

    fn is_large(&self) -> bool {
        let Texts { base, ours, theirs } = self.texts;
        base.len() + ours.len() + theirs.len() > MAX_BYTES
    }

    /// The side with the higher version, where the hunk holds nothing but one.
    fn higher_version(&self) -> Option<Vec<u8>> {
        let Texts { base, ours, theirs } = self.texts;
        let theirs_is_higher = second_block_is_higher(base, ours, theirs)?;
        Some(if theirs_is_higher { theirs } else { ours }.to_vec())
    }

    /// Both sides' imports, sorted.
    fn imports(&self) -> Option<Vec<u8>> {
        let Texts { base, ours, theirs } = self.texts;
        ImportLines::around(self.lines, self.region, self.whole_ours).merge(base, ours, theirs)
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
