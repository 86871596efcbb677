//! The second pass: a hunk that conflicts by line, merged word by word.
//!
//! It is right more often than not only where the two edits have nothing to do with each other,
//! so it refuses whenever they might. What counts as a sign of that was measured on the merge
//! commits of public repositories; `docs/reports/` has the figures.

use std::collections::HashSet;
use std::ops::Range;

use crate::diff3::{Region, Who};
use crate::limits::Budget;
use crate::reason::{Reason, Reasons};
use crate::split::{Split, ThreeWay, word_length};
use crate::version::{Certainty, second_is_higher};

/// This many signs and blanks keep two edits apart even without a word among them.
const SEPARATING_TOKENS: usize = 4;

/// The three sides of one conflicting hunk.
#[derive(Clone, Copy)]
pub(crate) struct Texts<'a> {
    pub(crate) base: &'a [u8],
    pub(crate) ours: &'a [u8],
    pub(crate) theirs: &'a [u8],
}

/// The merged bytes of one conflicting hunk with the reason, or none where the sides' words touch.
pub(crate) fn merge_words(
    texts: Texts<'_>,
    allowed: Reasons,
    budget: &mut Budget,
) -> Option<(Vec<u8>, Reason)> {
    let words = ThreeWay::cut(texts.base, texts.ours, texts.theirs, word_length);
    let pass = WordPass { texts, words };
    let regions = pass.words.regions(budget);
    if !budget.spend(1) {
        return None;
    }
    let mut reason = Reason::Words;
    let mut merged = Vec::with_capacity(texts.ours.len().max(texts.theirs.len()));
    let mut done = 0;
    for region in &regions {
        let from_theirs = match region.who {
            Who::Ours | Who::Both => false,
            Who::Theirs => true,
            Who::Conflict => {
                let (theirs, why) = pass.settle(region, allowed)?;
                reason = reason.max(why);
                theirs
            }
        };
        if from_theirs {
            let ours_bytes = pass.words.ours.bytes(&region.ours);
            merged.extend_from_slice(&texts.ours[done..ours_bytes.start]);
            merged.extend_from_slice(&texts.theirs[pass.words.theirs.bytes(&region.theirs)]);
            done = ours_bytes.end;
        }
    }
    if !allowed.contains(reason) || pass.touch(&regions) || pass.share_words(&regions) {
        return None;
    }
    merged.extend_from_slice(&texts.ours[done..]);
    Some((merged, reason))
}

struct WordPass<'a> {
    texts: Texts<'a>,
    words: ThreeWay,
}

impl WordPass<'_> {
    /// What both sides changed in different ways: whether theirs is taken, and why.
    fn settle(&self, region: &Region, allowed: Reasons) -> Option<(bool, Reason)> {
        let base = &self.texts.base[self.words.base.bytes(&region.base)];
        let ours = &self.texts.ours[self.words.ours.bytes(&region.ours)];
        let theirs = &self.texts.theirs[self.words.theirs.bytes(&region.theirs)];
        if allowed.contains(Reason::Blanks) && differ_in_blanks(ours, theirs) {
            return Some((false, Reason::Blanks));
        }
        if allowed.contains(Reason::HigherVersion) {
            let line = line_around(self.texts.ours, self.words.ours.bytes(&region.ours));
            let certainty = Certainty::of_text(line);
            let higher = second_is_higher(Some(base), ours, theirs, certainty)?;
            return Some((higher, Reason::HigherVersion));
        }
        None
    }

    /// Whether edits of different sides stand next to each other: no word of the base between them.
    ///
    /// Blanks and brackets alone do not keep edits apart. People merged such hunks as this pass
    /// would in 43 % of the cases, and in 67 % with a word between.
    fn touch(&self, regions: &[Region]) -> bool {
        let one_sided = |region: &Region| matches!(region.who, Who::Ours | Who::Theirs);
        regions
            .windows(2)
            .filter(|pair| {
                pair[0].who != pair[1].who && (one_sided(&pair[0]) || one_sided(&pair[1]))
            })
            .any(|pair| {
                let between = pair[0].base.end..pair[1].base.start;
                between.len() < SEPARATING_TOKENS
                    && !between.clone().any(|place| {
                        is_word(&self.texts.base[self.words.base.bytes(&(place..place + 1))])
                    })
            })
    }

    /// Whether the edits of the two sides speak of the same words.
    ///
    /// A word that both brought in is the same change made twice, and both would be written: right
    /// in 19 % of the cases. A word that one side brings in and the other takes away is a use of
    /// what is gone or has another name: right in 57 %.
    fn share_words(&self, regions: &[Region]) -> bool {
        let Texts { base, ours, theirs } = self.texts;
        let split = &self.words;
        let words = |who: Who, text, split: &Split, range: fn(&Region) -> Range<usize>| {
            let edits = regions.iter().filter(|region| region.who == who);
            words_of(text, split, edits.map(range))
        };
        let new_ours = words(Who::Ours, ours, &split.ours, |region| region.ours.clone());
        let new_theirs = words(Who::Theirs, theirs, &split.theirs, |region| {
            region.theirs.clone()
        });
        let gone = |who: Who| words(who, base, &split.base, |region| region.base.clone());
        !new_ours.is_disjoint(&new_theirs)
            || !new_ours.is_disjoint(&gone(Who::Theirs))
            || !new_theirs.is_disjoint(&gone(Who::Ours))
    }
}

/// The words of more than one letter in some ranges of pieces.
fn words_of<'t>(
    text: &'t [u8],
    split: &Split,
    ranges: impl Iterator<Item = Range<usize>>,
) -> HashSet<&'t [u8]> {
    ranges
        .flatten()
        .map(|place| &text[split.bytes(&(place..place + 1))])
        .filter(|word| word.len() > 1 && is_word(word))
        .collect()
}

/// Whether two texts have the same words and signs.
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

fn is_word(token: &[u8]) -> bool {
    token
        .first()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80)
}
