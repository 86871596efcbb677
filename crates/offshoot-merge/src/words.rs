//! The second pass: a hunk that conflicts by line, merged word by word.
//!
//! It is right more often than not only where the two edits are unrelated, so it refuses whenever
//! they might be related. The signs of that were measured on the merge commits of public
//! repositories; `docs/reports/` has the figures.

use std::ops::Range;

use crate::diff3::{ChangedBy, Region};
use crate::limits::Budget;
use crate::reason::{Reason, Reasons};
use crate::split::{ThreeWay, word_length};
use crate::version::{Certainty, second_is_higher};
use crate::word_edits::WordEdits;

/// The three sides of one conflicting hunk.
#[derive(Clone, Copy)]
pub(crate) struct Texts<'a> {
    pub(crate) base: &'a [u8],
    pub(crate) ours: &'a [u8],
    pub(crate) theirs: &'a [u8],
}

/// The three sides of one conflicting hunk, cut into words.
pub(crate) struct HunkWords<'a> {
    pub(crate) texts: Texts<'a>,
    pub(crate) words: ThreeWay,
}

impl<'a> HunkWords<'a> {
    pub(crate) fn cut(texts: Texts<'a>) -> Self {
        let words = ThreeWay::cut(texts.base, texts.ours, texts.theirs, word_length);
        HunkWords { texts, words }
    }

    /// The merged bytes with the reason, or none where the two edits may be related.
    pub(crate) fn merge(&self, allowed: Reasons, budget: &mut Budget) -> Option<(Vec<u8>, Reason)> {
        let texts = self.texts;
        let regions = self.words.regions(budget);
        if !budget.spend(1) {
            return None;
        }
        let mut reason = Reason::Words;
        let mut merged = Vec::with_capacity(texts.ours.len().max(texts.theirs.len()));
        let mut done = 0;
        for region in &regions {
            let from_theirs = match region.changed_by {
                ChangedBy::Ours | ChangedBy::Both => false,
                ChangedBy::Theirs => true,
                ChangedBy::Conflict => {
                    let (theirs, why) = self.resolve_region(region, allowed)?;
                    reason = reason.max(why);
                    theirs
                }
            };
            if from_theirs {
                let ours_bytes = self.words.ours.bytes(&region.ours);
                merged.extend_from_slice(&texts.ours[done..ours_bytes.start]);
                merged.extend_from_slice(&texts.theirs[self.words.theirs.bytes(&region.theirs)]);
                done = ours_bytes.end;
            }
        }
        merged.extend_from_slice(&texts.ours[done..]);
        let edits = WordEdits {
            hunk: self,
            regions: &regions,
        };
        let one_side = merged == texts.ours || merged == texts.theirs;
        let related = edits.are_adjacent()
            || edits.share_words()
            || edits.edit_lost_lines()
            || (!one_side && edits.are_doubtful());
        (allowed.contains(reason) && !related).then_some((merged, reason))
    }

    /// Resolves a region that both sides changed in different ways: whether theirs is taken, and
    /// why.
    fn resolve_region(&self, region: &Region, allowed: Reasons) -> Option<(bool, Reason)> {
        let base = &self.texts.base[self.words.base.bytes(&region.base)];
        let ours = &self.texts.ours[self.words.ours.bytes(&region.ours)];
        let theirs = &self.texts.theirs[self.words.theirs.bytes(&region.theirs)];
        if allowed.contains(Reason::Blanks) && differ_in_blanks(ours, theirs) {
            let of_ours = line_around(self.texts.ours, self.words.ours.bytes(&region.ours));
            let of_theirs = line_around(self.texts.theirs, self.words.theirs.bytes(&region.theirs));
            let indented_alike = indents(of_ours).eq(indents(of_theirs));
            return indented_alike.then_some((false, Reason::Blanks));
        }
        if allowed.contains(Reason::HigherVersion) {
            let line = line_around(self.texts.ours, self.words.ours.bytes(&region.ours));
            let certainty = Certainty::of_text(line);
            let higher = second_is_higher(Some(base), ours, theirs, certainty)?;
            return Some((higher, Reason::HigherVersion));
        }
        None
    }
}

/// Whether two texts differ in blanks only.
fn differ_in_blanks(one: &[u8], two: &[u8]) -> bool {
    let mut words = (visible(one), visible(two));
    loop {
        match (words.0.next(), words.1.next()) {
            (None, None) => return true,
            (left, right) if left == right => {}
            _ => return false,
        }
    }
}

/// How far each line is indented, blank lines aside. In some languages it has a meaning.
fn indents(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|&byte| byte == b'\n');
    lines
        .filter(|line| !line.trim_ascii().is_empty())
        .map(|line| &line[..line.len() - line.trim_ascii_start().len()])
}

/// The words and signs of a text without its blanks.
fn visible(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let (token, after) = rest.split_at(word_length(rest));
            rest = after;
            if token.is_empty() {
                return None;
            }
            if !token[0].is_ascii_whitespace() {
                return Some(token);
            }
        }
    })
}

/// The whole lines that a range of bytes stands in.
fn line_around(text: &[u8], range: Range<usize>) -> &[u8] {
    let newline = |byte: &u8| *byte == b'\n';
    let start = text[..range.start]
        .iter()
        .rposition(newline)
        .map_or(0, |at| at + 1);
    let end = text[range.end..].iter().position(newline);
    &text[start..end.map_or(text.len(), |at| range.end + at)]
}
