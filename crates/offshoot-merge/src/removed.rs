//! Lines that a side removed and that a merge would bring back.

use std::collections::HashMap;

use crate::same_line::is_word;
use crate::split::line_length;

/// How often a line is on each side and in the result.
#[derive(Clone, Copy, Default)]
struct Count {
    base: usize,
    ours: usize,
    theirs: usize,
    merged: usize,
}

impl Count {
    /// Whether a side removed the line and the result has it more often than the other side brought
    /// it in. That is also so where one side moves what the other removes, which is a conflict.
    fn is_too_often(&self) -> bool {
        let fewer = self.ours.min(self.theirs);
        let brought_in = self.ours.max(self.theirs).saturating_sub(self.base);
        fewer < self.base && self.merged > fewer + brought_in
    }
}

/// The lines of three sides and of what came of them, counted.
pub(crate) struct LineCounts<'a>(HashMap<&'a [u8], Count>);

impl<'a> LineCounts<'a> {
    pub(crate) fn of(base: &'a [u8], ours: &'a [u8], theirs: &'a [u8], merged: &'a [u8]) -> Self {
        let mut counts: HashMap<&[u8], Count> = HashMap::new();
        for line in lines(base) {
            counts.entry(line).or_default().base += 1;
        }
        // Only a line of the base can have been removed.
        for line in lines(ours) {
            counts.entry(line).and_modify(|count| count.ours += 1);
        }
        for line in lines(theirs) {
            counts.entry(line).and_modify(|count| count.theirs += 1);
        }
        for line in lines(merged) {
            counts.entry(line).and_modify(|count| count.merged += 1);
        }
        LineCounts(counts)
    }

    /// Whether a part of the result has a line that should be gone.
    pub(crate) fn brings_back(&self, part: &[u8]) -> bool {
        let too_often = |line| self.0.get(line).is_some_and(Count::is_too_often);
        lines(part).any(too_often)
    }
}

/// The lines that hold more than brackets and blanks, which are in every text.
fn lines(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = std::iter::from_fn(move || {
        let (line, after) = rest.split_at(line_length(rest));
        rest = after;
        (!line.is_empty()).then_some(line)
    });
    all.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
        .filter(|line| line.iter().any(|byte| is_word(&[*byte])))
}
