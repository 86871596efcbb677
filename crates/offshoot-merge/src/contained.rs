//! One side's edits contained in the other's: the larger side made all of them and more.
//!
//! Looked for by line, then by word. Blanks count, for an edit that indents is an edit. The smaller
//! side's edit must stand in the larger one's as it is: what it removed is removed there too, what
//! it brought in stands there in one piece, and what the larger one has beside it neither opens nor
//! closes a block around it. If the larger side *replaced* text where the smaller one removed some,
//! the hunk stays a conflict: the smaller side wanted the rest of it kept.

use crate::brackets::{is_closed_run, opens_block};
use crate::diff::{Hunk, Symbol, diff};
use crate::limits::Budget;
use crate::split::{Split, ThreeWay};
use crate::words::Texts;

/// Fewer words and signs than this, brought in by both, may be chance.
const MIN_ADDED_WORDS: usize = 3;

/// What the pieces of a hunk are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Granularity {
    Lines,
    Words,
}

/// The side that did all that the other did in a hunk and more, as bytes.
pub(crate) fn containing_side<'a>(
    texts: Texts<'a>,
    pieces: &ThreeWay,
    granularity: Granularity,
    budget: &mut Budget,
) -> Option<&'a [u8]> {
    let ours = Edits::between(pieces, texts.ours, &pieces.ours, granularity, budget);
    let theirs = Edits::between(pieces, texts.theirs, &pieces.theirs, granularity, budget);
    if !budget.spend(1) {
        return None;
    }
    match (
        theirs.contain(&ours, texts.base, &pieces.base),
        ours.contain(&theirs, texts.base, &pieces.base),
    ) {
        (true, false) => Some(texts.theirs),
        (false, true) => Some(texts.ours),
        _ => None,
    }
}

/// What one side changed.
struct Edits<'a> {
    text: &'a [u8],
    after: &'a Split,
    hunks: Vec<Hunk>,
    granularity: Granularity,
}

impl<'a> Edits<'a> {
    fn between(
        pieces: &ThreeWay,
        text: &'a [u8],
        after: &'a Split,
        granularity: Granularity,
        budget: &mut Budget,
    ) -> Self {
        let hunks = diff(
            &pieces.base.symbols,
            &after.symbols,
            pieces.pieces(),
            budget,
        );
        Edits {
            text,
            after,
            hunks,
            granularity,
        }
    }

    /// Whether each edit of the other lies in one of these. A side that took everything away is
    /// not the larger one, for the other wanted something kept, unless it is all a comment.
    fn contain(&self, other: &Edits<'_>, base_text: &[u8], base: &Split) -> bool {
        let mut mine = self.hunks.iter().peekable();
        (!self.text.is_empty() || is_comment(base_text))
            && !other.text.is_empty()
            && !other.hunks.is_empty()
            && other.hunks.iter().all(|edit| {
                while let Some(around) = mine.peek() {
                    if around.before.end >= edit.before.end {
                        break;
                    }
                    mine.next();
                }
                // Each of these holds one edit of the other at most.
                mine.next().is_some_and(|around| {
                    let removed = !edit.before.is_empty();
                    let added = !edit.after.is_empty();
                    if removed && !added {
                        self.removes_as_well(around, edit, base_text, base)
                    } else if removed && self.granularity == Granularity::Words {
                        false
                    } else {
                        around.before == edit.before && self.adds_as_well(around, other, edit)
                    }
                })
            })
    }

    /// What the other removed, removed here with more around it, and nothing put in its place.
    fn removes_as_well(&self, around: &Hunk, edit: &Hunk, text: &[u8], base: &Split) -> bool {
        let covered =
            around.before.start <= edit.before.start && edit.before.end <= around.before.end;
        covered
            && around.after.is_empty()
            && are_separate_blocks([
                &text[base.bytes(&(around.before.start..edit.before.start))],
                &text[base.bytes(&edit.before)],
                &text[base.bytes(&(edit.before.end..around.before.end))],
            ])
    }

    /// What the other brought in, brought in here in one piece at that place.
    fn adds_as_well(&self, around: &Hunk, other: &Edits<'_>, edit: &Hunk) -> bool {
        let wanted = &other.after.symbols[edit.after.clone()];
        let text = &self.text[self.after.bytes(&around.after)];
        let by_word = self.granularity == Granularity::Words;
        if by_word && (wanted.len() < MIN_ADDED_WORDS || text.contains(&b'\n')) {
            return false;
        }
        let here = &self.after.symbols[around.after.clone()];
        let Some(at) = position(here, wanted) else {
            return false;
        };
        let start = around.after.start + at;
        let end = start + wanted.len();
        are_separate_blocks([
            &self.text[self.after.bytes(&(around.after.start..start))],
            &self.text[self.after.bytes(&(start..end))],
            &self.text[self.after.bytes(&(end..around.after.end))],
        ])
    }
}

/// Whether an edit and the texts before and after it belong to no block together.
fn are_separate_blocks([before, edit, after]: [&[u8]; 3]) -> bool {
    [before, edit, after].into_iter().all(is_closed_run) && !opens_block(before)
}

/// Whether each line is a comment in one of the usual forms.
fn is_comment(text: &[u8]) -> bool {
    let mut lines = text.split_inclusive(|&byte| byte == b'\n');
    lines.all(|line| {
        let line = line.trim_ascii();
        let sign = [&b"//"[..], b"/*", b"* ", b"*/", b"# ", b"-- "];
        line == b"*" || sign.iter().any(|sign| line.starts_with(sign))
    })
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
    use crate::split::{line_length, word_length};

    fn larger(base: &str, ours: &str, theirs: &str) -> Option<String> {
        let texts = Texts {
            base: base.as_bytes(),
            ours: ours.as_bytes(),
            theirs: theirs.as_bytes(),
        };
        let mut budget = Budget::new(&Limits::default());
        let cut =
            |piece: fn(&[u8]) -> usize| ThreeWay::cut(texts.base, texts.ours, texts.theirs, piece);
        let side = containing_side(texts, &cut(line_length), Granularity::Lines, &mut budget)
            .or_else(|| {
                containing_side(texts, &cut(word_length), Granularity::Words, &mut budget)
            })?;
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
        assert_larger("one two three four\n", "one four\n", "one two four\n");
    }

    #[test]
    fn what_the_other_trimmed_is_not_dropped_with_the_rest() {
        // The larger side took all away; the other wanted the rest of it kept.
        assert_neither("/* a b c */\nf(x)\n", "", "/* a b */\nf(x)\n");
        assert_larger("// a\n// b c\n", "", "// a\n// b\n");
        assert_neither("#[cfg(x)]\nuse a;\n", "", "use a;\n");
        // The larger side put something else in its place.
        assert_neither("one two three\n", "1 three\n", "one three\n");
        assert_neither("3.12.0-rc.0\n", "3.11.3\n", "3.12.0\n");
    }

    #[test]
    fn an_addition_lies_in_a_larger_one_at_the_same_place() {
        assert_larger("f();\n", "f(); g(1); h();\n", "f(); g(1);\n");
        assert_larger("a\n", "a\nb\nc\n", "a\nb\n");
        assert_larger("a\n", "b\nc\n", "b\n");
        assert_neither("f();\n", "f(); g(1); h();\n", "g(1); f();\n");
        assert_neither("f();\n", "f(); g(2); h();\n", "f(); g(1);\n");
    }

    #[test]
    fn an_edit_that_indents_is_not_dropped() {
        assert_neither("a\n", "a\nif x\n    b c d\n", "a\nb c d\n");
        assert_neither("a\nb\n", "a\nc d e f\nb\n", "    a\n    c d e\n    b\n");
    }

    #[test]
    fn a_block_around_is_not_more_of_the_same() {
        assert_neither("a\n", "a\nif x {\nb\n}\n", "a\nb\n");
        assert_neither("a\n", "a\nif x:\n    b\n", "a\n    b\n");
        assert_neither("a\nb\n}\nc\n", "a\nc\n", "a\nb\nc\n");
        assert_larger("a\n", "a\nb\nif x {\n}\n", "a\nb\n");
        assert_neither("a\n", "a\n[t]\nb\n", "a\nb\n");
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
