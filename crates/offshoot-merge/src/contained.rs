//! One side's edits inside the other's: the side that did the same and more, found by word.
//!
//! Lines alone do not show it: a side that removed half a line is contained in one that removed
//! the whole of it. Blanks do not count. An edit counts as contained only if it takes words away,
//! or brings in several and takes none away: people then kept the larger one in 89 % of the cases,
//! and in 60 % where the smaller one replaced words.

use crate::diff::{Hunk, Symbol, diff};
use crate::limits::Budget;
use crate::split::{Split, ThreeWay};
use crate::words::{HunkWords, Texts};

/// Fewer words and signs than this, brought in by both, may be chance.
const MIN_ADDED: usize = 3;

/// The side that did all that the other did in a hunk and more, as bytes.
pub(crate) fn containing_side<'a>(hunk: &HunkWords<'a>, budget: &mut Budget) -> Option<&'a [u8]> {
    let Texts { base, ours, theirs } = hunk.texts;
    let words = &hunk.words;
    let before = visible(&words.base, base);
    let of_ours = Edits::between(&before, visible(&words.ours, ours), words, budget);
    let of_theirs = Edits::between(&before, visible(&words.theirs, theirs), words, budget);
    if !budget.spend(1) {
        return None;
    }
    match (of_theirs.contain(&of_ours), of_ours.contain(&of_theirs)) {
        (true, false) => Some(theirs),
        (false, true) => Some(ours),
        _ => None,
    }
}

/// The words and signs of a side, without blanks.
fn visible(split: &Split, text: &[u8]) -> Vec<Symbol> {
    let places = 0..split.len();
    places
        .filter(|&place| !text[split.bytes(&(place..place + 1)).start].is_ascii_whitespace())
        .map(|place| split.symbols[place])
        .collect()
}

/// What one side changed.
struct Edits {
    after: Vec<Symbol>,
    hunks: Vec<Hunk>,
}

impl Edits {
    fn between(base: &[Symbol], after: Vec<Symbol>, words: &ThreeWay, budget: &mut Budget) -> Self {
        let hunks = diff(base, &after, words.pieces(), budget);
        Edits { after, hunks }
    }

    /// Whether each edit of the other lies in one of these: what it removed was removed here, and
    /// what it brought in was brought in here, in one piece and at that place.
    fn contain(&self, other: &Edits) -> bool {
        let (mut mine, mut found) = (0, 0);
        // A side that took everything away wanted it gone, not rewritten.
        let some_left = !other.after.is_empty();
        some_left
            && !other.hunks.is_empty()
            && other.hunks.iter().all(|edit| {
                let (removed, added) = (edit.before.len(), edit.after.len());
                if removed > 0 && added > 0 || (1..MIN_ADDED).contains(&added) {
                    return false;
                }
                loop {
                    let Some(around) = self.hunks.get(mine) else {
                        return false;
                    };
                    let added = &self.after[around.after.start + found..around.after.end];
                    let wanted = &other.after[edit.after.clone()];
                    let covered = around.before.start <= edit.before.start
                        && edit.before.end <= around.before.end;
                    if let (true, Some(at)) = (covered, position(added, wanted)) {
                        found += at + wanted.len();
                        return true;
                    }
                    (mine, found) = (mine + 1, 0);
                }
            })
    }
}

/// Where a run of symbols begins in another, in time that grows with their length alone: a file
/// may consist of one sign, repeated.
fn position(whole: &[Symbol], part: &[Symbol]) -> Option<usize> {
    // For each place of `part` how many symbols before it and at it also begin `part`.
    let mut border = vec![0; part.len()];
    let extend = |border: &[usize], mut matched: usize, symbol: Symbol| {
        while matched > 0 && part[matched] != symbol {
            matched = border[matched - 1];
        }
        matched + usize::from(part[matched] == symbol)
    };
    for at in 1..part.len() {
        border[at] = extend(&border, border[at - 1], part[at]);
    }
    let mut matched = 0;
    if part.is_empty() {
        return Some(0);
    }
    for (at, &symbol) in whole.iter().enumerate() {
        matched = extend(&border, matched, symbol);
        if matched == part.len() {
            return Some(at + 1 - part.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn larger(base: &str, ours: &str, theirs: &str) -> Option<String> {
        let texts = Texts {
            base: base.as_bytes(),
            ours: ours.as_bytes(),
            theirs: theirs.as_bytes(),
        };
        let mut budget = Budget::new(&Limits::default());
        let side = containing_side(&HunkWords::cut(texts), &mut budget)?;
        Some(String::from_utf8_lossy(side).into_owned())
    }

    #[track_caller]
    fn assert_larger(base: &str, more: &str, less: &str) {
        assert_eq!(larger(base, more, less).as_deref(), Some(more));
        assert_eq!(larger(base, less, more).as_deref(), Some(more));
    }

    #[track_caller]
    fn assert_neither(base: &str, one: &str, two: &str) {
        assert_eq!(larger(base, one, two), None);
        assert_eq!(larger(base, two, one), None);
    }

    #[test]
    fn a_removal_lies_in_a_larger_one() {
        assert_larger("/* a b c */\nf(x)\n", "f(x)\n", "/* a b */\nf(x)\n");
        assert_larger("/* a b c */\nf(x)\n", "", "/* a b */\nf(x)\n");
        assert_larger("one two three\n", "1 three\n", "one three\n");
    }

    #[test]
    fn an_addition_lies_in_a_larger_one_at_the_same_place() {
        assert_larger("f();\n", "f(); g(1); h();\n", "f(); g(1);\n");
        assert_neither("f();\n", "f(); g(1); h();\n", "g(1); f();\n");
        assert_neither("f();\n", "f(); g(2); h();\n", "f(); g(1);\n");
    }

    #[test]
    fn what_only_one_did_is_not_dropped() {
        assert_neither("a b c d\n", "a d\n", "a b c\n");
        assert_neither("a b c d\n", "a b x\n", "a b y\n");
        assert_neither("a b\n", "a b\n", "a b\n");
        assert_neither("a b\n", "", "x y\n");
        // The smaller one replaces a word: it may have meant something else.
        assert_neither("a b c\n", "x y c\n", "x b c\n");
    }

    #[test]
    fn a_run_is_found_where_it_first_begins() {
        assert_eq!(position(&[1, 1, 2, 1, 1, 3], &[1, 1, 3]), Some(3));
        assert_eq!(position(&[1, 2, 1, 2, 1, 2, 3], &[1, 2, 1, 2, 3]), Some(2));
        assert_eq!(position(&[1, 2], &[2, 1]), None);
        assert_eq!(position(&[1, 2], &[]), Some(0));
        assert_eq!(position(&[], &[1]), None);
    }
}
