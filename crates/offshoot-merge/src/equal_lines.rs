//! The lines that two texts have in common, for attributing lines to their authors.

use imara_diff::sources::byte_lines;
use imara_diff::{Algorithm, Diff, InternedInput};

use crate::diff::{MAX_MYERS, diff};
use crate::limits::{Budget, Limits};
use crate::split::{ThreeWay, line_length};

/// A run of lines that two texts have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualLines {
    /// The first of them in the older text, counted from 0.
    pub before: usize,
    /// The first of them in the newer text.
    pub after: usize,
    /// How many.
    pub len: usize,
}

/// The runs of lines that `after` has from `before`, in order: everything that a line merge would
/// not call changed. A line is what ends with a newline, or the rest.
pub fn equal_lines(before: &[u8], after: &[u8], limits: &Limits) -> Vec<EqualLines> {
    let cut = ThreeWay::cut(before, after, &[], line_length);
    let mut budget = Budget::new(limits);
    let hunks = diff(
        &cut.base.symbols,
        &cut.ours.symbols,
        cut.pieces(),
        &mut budget,
    );
    let mut runs = Vec::new();
    let (mut old, mut new) = (0, 0);
    let mut add = |old: usize, new: usize, len: usize| {
        if len > 0 {
            runs.push(EqualLines {
                before: old,
                after: new,
                len,
            });
        }
    };
    for hunk in &hunks {
        add(old, new, hunk.before.start - old);
        (old, new) = (hunk.before.end, hunk.after.end);
    }
    add(old, new, cut.base.len() - old);
    runs
}

/// Like [`equal_lines`], as `git blame` sees it: by Myers' algorithm, with hunks slid by the
/// indentation of lines. A merge has other wishes, so its hunks may stand elsewhere.
pub fn blamed_lines(before: &[u8], after: &[u8], limits: &Limits) -> Vec<EqualLines> {
    let input = InternedInput::new(byte_lines(before), byte_lines(after));
    if input.before.len().max(input.after.len()) > MAX_MYERS {
        return equal_lines(before, after, limits);
    }
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    let mut runs = Vec::new();
    let (mut old, mut new) = (0, 0);
    let mut add = |old: usize, new: usize, len: usize| {
        if len > 0 {
            runs.push(EqualLines {
                before: old,
                after: new,
                len,
            });
        }
    };
    for hunk in diff.hunks() {
        add(old, new, hunk.before.start as usize - old);
        (old, new) = (hunk.before.end as usize, hunk.after.end as usize);
    }
    add(old, new, input.before.len() - old);
    runs
}

/// A text cut into its lines, each with its newline.
pub fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(before: &str, after: &str) -> Vec<(usize, usize, usize)> {
        equal_lines(before.as_bytes(), after.as_bytes(), &Limits::default())
            .iter()
            .map(|run| (run.before, run.after, run.len))
            .collect()
    }

    #[test]
    fn runs_are_what_did_not_change() {
        assert_eq!(runs("", ""), []);
        assert_eq!(runs("a\n", ""), []);
        assert_eq!(runs("", "a\n"), []);
        assert_eq!(runs("a\nb\nc\n", "a\nb\nc\n"), [(0, 0, 3)]);
        assert_eq!(runs("a\nb\nc\n", "a\nX\nY\nc\n"), [(0, 0, 1), (2, 3, 1)]);
        assert_eq!(runs("a\nb", "a\nb\n"), [(0, 0, 1)]);
    }

    #[test]
    fn each_run_is_equal_on_both_sides() {
        let (before, after) = ("a\nb\nc\nd\ne\nf\n", "x\nb\nc\nq\ne\nf\ng");
        let (old, new) = (lines(before.as_bytes()), lines(after.as_bytes()));
        for (from, to, len) in runs(before, after) {
            assert_eq!(old[from..from + len], new[to..to + len]);
        }
        assert_eq!(new.last(), Some(&&b"g"[..]));
    }
}
