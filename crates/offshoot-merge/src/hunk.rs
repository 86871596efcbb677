//! The merge strategies for a hunk that conflicts by line, tried in order until one fits.

use std::collections::HashMap;

use crate::contained::{Granularity, containing_side};
use crate::diff::Symbol;
use crate::diff3::Region;
use crate::entries::{EntryFormat, SurroundingLines, merge_entries};
use crate::imports::ImportLines;
use crate::limits::Budget;
use crate::reason::{Reason, Reasons};
use crate::split::{ThreeWay, line_length};
use crate::version::second_block_is_higher;
use crate::words::{HunkWords, Texts};

/// Larger hunks (bytes of all three sides) are generated or rewritten: a merge by word takes long
/// there and finds nothing that people would keep. A single long line is still tried.
const MAX_BYTES: usize = 256 << 10;

/// Lines that both sides changed in different ways.
pub(crate) struct ConflictingHunk<'a> {
    pub(crate) texts: Texts<'a>,
    /// The whole sides, for the lines around the hunk.
    pub(crate) whole_base: &'a [u8],
    pub(crate) whole_ours: &'a [u8],
    pub(crate) whole_theirs: &'a [u8],
    pub(crate) format: EntryFormat,
    pub(crate) lines: &'a ThreeWay,
    pub(crate) region: &'a Region,
}

impl ConflictingHunk<'_> {
    /// The merged bytes and the reason, or none if the hunk stays a conflict.
    pub(crate) fn try_merge(
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
                self.containing_side(&words, budget)
            }),
            (Reason::Imports, &mut || self.imports()),
        ];
        for (reason, attempt) in attempts {
            if let Some(bytes) = allowed.contains(reason).then(attempt).flatten() {
                return Some((bytes, reason));
            }
        }
        self.entries(allowed, budget)
    }

    /// The entries of both sides, where the hunk is a list of them.
    fn entries(&self, allowed: Reasons, budget: &mut Budget) -> Option<(Vec<u8>, Reason)> {
        let reason = match self.format {
            EntryFormat::Program => Reason::Imports,
            _ => Reason::Joined,
        };
        if !allowed.contains(reason) || self.is_large() {
            return None;
        }
        let ours = self.lines.ours.bytes(&self.region.ours);
        let theirs = self.lines.theirs.bytes(&self.region.theirs);
        merge_entries(
            self.format,
            self.texts,
            SurroundingLines {
                before: &self.whole_ours[..ours.start],
                after: &self.whole_ours[ours.end..],
            },
            SurroundingLines {
                before: &self.whole_theirs[..theirs.start],
                after: &self.whole_theirs[theirs.end..],
            },
            &mut |texts| HunkWords::cut(texts).merge(allowed, budget),
        )
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

    /// The side that did all that the other did and more.
    fn containing_side(&self, words: &HunkWords<'_>, budget: &mut Budget) -> Option<Vec<u8>> {
        let texts = self.texts;
        let lines = ThreeWay::cut(texts.base, texts.ours, texts.theirs, line_length);
        let by_line = containing_side(texts, &lines, Granularity::Lines, budget);
        let larger = by_line.or_else(|| {
            let small = !self.is_large();
            small.then(|| containing_side(texts, &words.words, Granularity::Words, budget))?
        })?;
        self.stays_removed(larger).then(|| larger.to_vec())
    }

    /// Whether the lines that the smaller side removed are gone from the larger one for good, and
    /// not just moved to another place of the file.
    fn stays_removed(&self, larger: &[u8]) -> bool {
        let (more, less) = if larger == self.texts.ours {
            (
                &self.lines.ours,
                &self.lines.theirs.symbols[self.region.theirs.clone()],
            )
        } else {
            (
                &self.lines.theirs,
                &self.lines.ours.symbols[self.region.ours.clone()],
            )
        };
        let mut removed: HashMap<Symbol, isize> = HashMap::new();
        let before = self.region.base.clone();
        for place in before {
            let line = &self.whole_base[self.lines.base.bytes(&(place..place + 1))];
            if !line.trim_ascii().is_empty() {
                *removed.entry(self.lines.base.symbols[place]).or_default() += 1;
            }
        }
        for line in less {
            removed.entry(*line).and_modify(|count| *count -= 1);
        }
        removed.retain(|_, count| *count > 0);
        let mut left = removed.clone();
        for (symbols, step) in [(&self.lines.base.symbols, -1), (&more.symbols, 1)] {
            for line in symbols {
                left.entry(*line).and_modify(|count| *count += step);
            }
        }
        left.values().all(|&count| count <= 0)
    }
}
