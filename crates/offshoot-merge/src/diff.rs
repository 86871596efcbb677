//! The difference of two token sequences: histogram anchors, then the hunks slid to where git puts
//! them.
//!
//! The result has to be git's, hunk by hunk, for where a hunk stands decides whether two edits
//! touch. That is why the histogram is written here and not taken from `imara-diff`: git neither
//! trims the common ends first nor caps the occurrences of a line, and both change which line
//! becomes the anchor. Myers, for ranges with nothing but frequent lines, comes from `imara-diff`.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, Token};

use crate::limits::Budget;

/// A line, word or element as a number; equal content has equal numbers.
pub(crate) type Symbol = u32;

/// A line that occurs more often than this in the base is no anchor, as in git.
const MAX_OCCURRENCES: u32 = 64;

/// A longer range of nothing but frequent lines counts as replaced: `imara-diff` 0.2 takes time
/// that grows with the square of such a range, for its look back at neighbours has no end.
pub(crate) const MAX_MYERS: usize = 20_000;

/// One replaced range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// What was replaced, in the base.
    pub(crate) before: Range<usize>,
    /// What stands there now, on the side.
    pub(crate) after: Range<usize>,
}

/// The hunks that turn `before` into `after`, in order; at least one equal symbol lies between two.
pub(crate) fn diff(
    before: &[Symbol],
    after: &[Symbol],
    symbols: usize,
    budget: &mut Budget,
) -> Vec<Hunk> {
    let mut removed = vec![false; before.len()];
    let mut added = vec![false; after.len()];
    Histogram::new(before, after, symbols).mark(&mut removed, &mut added, budget);
    slide(before, &mut removed, &mut added);
    slide(after, &mut added, &mut removed);
    hunks(&removed, &added)
}

/// Where one symbol occurs in the range under work.
#[derive(Clone, Copy, Default)]
struct Occurrences {
    /// The range this belongs to; an older one means that the symbol does not occur.
    generation: u32,
    first: u32,
    count: u32,
}

/// The run of equal symbols that splits a range in two.
struct Anchor {
    before: usize,
    after: usize,
    len: usize,
}

enum Found {
    Nothing,
    Anchor(Anchor),
    OnlyFrequent,
}

struct Histogram<'a> {
    before: &'a [Symbol],
    after: &'a [Symbol],
    occurrences: Vec<Occurrences>,
    /// For each position of `before` the next one with the same symbol, or `NONE`.
    next: Vec<u32>,
    generation: u32,
}

const NONE: u32 = u32::MAX;

impl<'a> Histogram<'a> {
    fn new(before: &'a [Symbol], after: &'a [Symbol], symbols: usize) -> Self {
        Histogram {
            before,
            after,
            occurrences: vec![Occurrences::default(); symbols],
            next: vec![NONE; before.len()],
            generation: 0,
        }
    }

    /// Marks what differs. A stack of ranges instead of recursion: depth follows the input.
    fn mark(&mut self, removed: &mut [bool], added: &mut [bool], budget: &mut Budget) {
        let mut stack = vec![(0..self.before.len(), 0..self.after.len())];
        while let Some((before, after)) = stack.pop() {
            if before.is_empty() || after.is_empty() {
                removed[before].fill(true);
                added[after].fill(true);
                continue;
            }
            match self.find_anchor(&before, &after, budget) {
                Found::Nothing => {
                    removed[before].fill(true);
                    added[after].fill(true);
                }
                Found::OnlyFrequent => self.mark_by_myers(before, after, removed, added),
                Found::Anchor(anchor) => {
                    stack.push((
                        anchor.before + anchor.len..before.end,
                        anchor.after + anchor.len..after.end,
                    ));
                    stack.push((before.start..anchor.before, after.start..anchor.after));
                }
            }
        }
    }

    fn count_occurrences(&mut self, before: &Range<usize>) {
        self.generation += 1;
        for at in before.clone().rev() {
            let seen = &mut self.occurrences[self.before[at] as usize];
            let known = seen.generation == self.generation;
            self.next[at] = if known { seen.first } else { NONE };
            *seen = Occurrences {
                generation: self.generation,
                first: at as u32,
                count: if known { seen.count + 1 } else { 1 },
            };
        }
    }

    fn occurrences_of(&self, symbol: Symbol) -> Option<Occurrences> {
        Some(self.occurrences[symbol as usize]).filter(|seen| seen.generation == self.generation)
    }

    fn rarity_at(&self, position: usize) -> u32 {
        self.occurrences[self.before[position] as usize].count
    }

    /// The longest common run among those with the rarest symbol.
    fn find_anchor(
        &mut self,
        before: &Range<usize>,
        after: &Range<usize>,
        budget: &mut Budget,
    ) -> Found {
        self.count_occurrences(before);
        let mut best: Option<Anchor> = None;
        let mut best_rarity = MAX_OCCURRENCES + 1;
        let mut common = false;
        let mut at = after.start;
        while at < after.end {
            let Some(seen) = self.occurrences_of(self.after[at]) else {
                at += 1;
                continue;
            };
            common = true;
            if seen.count > best_rarity {
                at += 1;
                continue;
            }
            let mut resume = at + 1;
            let mut candidate = seen.first;
            while candidate != NONE {
                let (run, rarity) = self.extend(candidate as usize, at, before, after, seen.count);
                if !budget.spend(run.len as u64) {
                    return Found::OnlyFrequent;
                }
                resume = resume.max(run.after + run.len);
                let end = run.before + run.len;
                let longer = run.len > best.as_ref().map_or(1, |best| best.len);
                if longer || rarity < best_rarity {
                    best = Some(run);
                    best_rarity = rarity;
                }
                while candidate != NONE && (candidate as usize) < end {
                    candidate = self.next[candidate as usize];
                }
            }
            at = resume;
        }
        match best {
            _ if !common => Found::Nothing,
            Some(anchor) if best_rarity <= MAX_OCCURRENCES => Found::Anchor(anchor),
            _ => Found::OnlyFrequent,
        }
    }

    /// Grows a match of one symbol in both directions; also tells how rare its rarest symbol is.
    fn extend(
        &self,
        before_at: usize,
        after_at: usize,
        before: &Range<usize>,
        after: &Range<usize>,
        mut rarity: u32,
    ) -> (Anchor, u32) {
        let (mut before_start, mut after_start) = (before_at, after_at);
        while before_start > before.start
            && after_start > after.start
            && self.before[before_start - 1] == self.after[after_start - 1]
        {
            before_start -= 1;
            after_start -= 1;
            rarity = rarity.min(self.rarity_at(before_start));
        }
        let (mut before_end, mut after_end) = (before_at + 1, after_at + 1);
        while before_end < before.end
            && after_end < after.end
            && self.before[before_end] == self.after[after_end]
        {
            rarity = rarity.min(self.rarity_at(before_end));
            before_end += 1;
            after_end += 1;
        }
        let run = Anchor {
            before: before_start,
            after: after_start,
            len: after_end - after_start,
        };
        (run, rarity)
    }

    fn without_common_ends(
        &self,
        mut before: Range<usize>,
        mut after: Range<usize>,
    ) -> (Range<usize>, Range<usize>) {
        let both =
            |before: &Range<usize>, after: &Range<usize>| !before.is_empty() && !after.is_empty();
        while both(&before, &after) && self.before[before.start] == self.after[after.start] {
            before.start += 1;
            after.start += 1;
        }
        while both(&before, &after) && self.before[before.end - 1] == self.after[after.end - 1] {
            before.end -= 1;
            after.end -= 1;
        }
        (before, after)
    }

    /// Marks a range in which every common symbol is frequent.
    fn mark_by_myers(
        &self,
        before: Range<usize>,
        after: Range<usize>,
        removed: &mut [bool],
        added: &mut [bool],
    ) {
        let (before, after) = self.without_common_ends(before, after);
        if before.len().max(after.len()) > MAX_MYERS {
            removed[before].fill(true);
            added[after].fill(true);
            return;
        }
        let tokens = |symbols: &[Symbol]| {
            symbols
                .iter()
                .map(|&symbol| Token(symbol))
                .collect::<Vec<_>>()
        };
        let (old, new) = (
            tokens(&self.before[before.clone()]),
            tokens(&self.after[after.clone()]),
        );
        let mut diff = Diff::default();
        diff.compute_with(Algorithm::Myers, &old, &new, self.occurrences.len() as u32);
        for hunk in diff.hunks() {
            removed[before.start..][hunk.before.start as usize..hunk.before.end as usize]
                .fill(true);
            added[after.start..][hunk.after.start as usize..hunk.after.end as usize].fill(true);
        }
    }
}

/// A run of marked symbols between two unmarked neighbours; it may be empty.
#[derive(Clone, Copy)]
struct Group {
    start: usize,
    end: usize,
}

impl Group {
    fn first(marks: &[bool]) -> Self {
        Group {
            start: 0,
            end: marks.iter().take_while(|&&mark| mark).count(),
        }
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The group after the unmarked symbol that ends this one.
    fn next(self, marks: &[bool]) -> Option<Self> {
        if self.end >= marks.len() {
            return None;
        }
        let start = self.end + 1;
        Some(Group {
            start,
            end: start + marks[start..].iter().take_while(|&&mark| mark).count(),
        })
    }

    /// The group before the unmarked symbol that begins this one.
    fn previous(self, marks: &[bool]) -> Option<Self> {
        let end = self.start.checked_sub(1)?;
        let length = marks[..end].iter().rev().take_while(|&&mark| mark).count();
        Some(Group {
            start: end - length,
            end,
        })
    }

    /// Moves the group one symbol up if what it marks stays the same, joining one it runs into.
    fn slide_up(&mut self, symbols: &[Symbol], marks: &mut [bool]) -> bool {
        if self.start == 0 || symbols[self.start - 1] != symbols[self.end - 1] {
            return false;
        }
        self.start -= 1;
        self.end -= 1;
        marks[self.start] = true;
        marks[self.end] = false;
        self.start -= marks[..self.start]
            .iter()
            .rev()
            .take_while(|&&mark| mark)
            .count();
        true
    }

    /// Moves the group one symbol down, likewise.
    fn slide_down(&mut self, symbols: &[Symbol], marks: &mut [bool]) -> bool {
        if self.end >= symbols.len() || symbols[self.start] != symbols[self.end] {
            return false;
        }
        marks[self.start] = false;
        marks[self.end] = true;
        self.start += 1;
        self.end += 1;
        self.end += marks[self.end..].iter().take_while(|&&mark| mark).count();
        true
    }
}

/// Puts each movable group as far down as it goes, or next to a change of the other file.
///
/// Every unmarked symbol here has its equal there, so the groups of both files run in step: the
/// n-th of one faces the n-th of the other, and sliding past a symbol moves to the next facing one.
fn slide(symbols: &[Symbol], marks: &mut [bool], other: &mut [bool]) {
    let mut group = Group::first(marks);
    let mut facing = Group::first(other);
    loop {
        if !group.is_empty() {
            slide_one(symbols, marks, other, &mut group, &mut facing);
        }
        match (group.next(marks), facing.next(other)) {
            (Some(next), Some(next_facing)) => (group, facing) = (next, next_facing),
            _ => return,
        }
    }
}

fn slide_one(
    symbols: &[Symbol],
    marks: &mut [bool],
    other: &[bool],
    group: &mut Group,
    facing: &mut Group,
) {
    let mut faced;
    let highest_end = loop {
        let size = group.end - group.start;
        while group.slide_up(symbols, marks) {
            *facing = facing.previous(other).unwrap_or(*facing);
        }
        let highest_end = group.end;
        faced = !facing.is_empty();
        while group.slide_down(symbols, marks) {
            *facing = facing.next(other).unwrap_or(*facing);
            faced |= !facing.is_empty();
        }
        // Having joined a neighbour it may slide further.
        if size == group.end - group.start {
            break highest_end;
        }
    };
    if faced && group.end != highest_end {
        while facing.is_empty() && group.slide_up(symbols, marks) {
            *facing = facing.previous(other).unwrap_or(*facing);
        }
    }
}

fn hunks(removed: &[bool], added: &[bool]) -> Vec<Hunk> {
    let mut hunks = Vec::new();
    let (mut before, mut after) = (0, 0);
    while before < removed.len() || after < added.len() {
        let run_before = removed[before..].iter().take_while(|&&mark| mark).count();
        let run_after = added[after..].iter().take_while(|&&mark| mark).count();
        if run_before + run_after > 0 {
            hunks.push(Hunk {
                before: before..before + run_before,
                after: after..after + run_after,
            });
        }
        before += run_before + 1;
        after += run_after + 1;
    }
    hunks
}

/// Whether all of `part` occurs in `whole`, in that order.
pub(crate) fn is_subsequence(part: &[Symbol], whole: &[Symbol]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|symbol| rest.any(|other| other == symbol))
}
