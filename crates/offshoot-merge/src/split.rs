//! Three byte strings cut into lines or words, with equal pieces under equal numbers.

use std::ops::Range;

use imara_diff::Interner;

use crate::diff::{Hunk, Symbol, diff};
use crate::diff3::{Region, Sequences, regions};
use crate::limits::Budget;

/// One side in pieces.
pub(crate) struct Split {
    /// The number of each piece's content.
    pub(crate) symbols: Vec<Symbol>,
    /// Where each piece begins, and the end of the last one.
    starts: Vec<usize>,
}

impl Split {
    /// The bytes that a range of pieces covers.
    pub(crate) fn bytes(&self, pieces: &Range<usize>) -> Range<usize> {
        self.starts[pieces.start]..self.starts[pieces.end]
    }

    /// The number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.symbols.len()
    }
}

/// The three sides in pieces.
pub(crate) struct ThreeWay {
    pub(crate) base: Split,
    pub(crate) ours: Split,
    pub(crate) theirs: Split,
    /// How many different pieces there are.
    count: usize,
}

impl ThreeWay {
    /// Cuts all three by the length of the next piece, which `piece` tells.
    pub(crate) fn cut(
        base: &[u8],
        ours: &[u8],
        theirs: &[u8],
        piece: impl Fn(&[u8]) -> usize,
    ) -> Self {
        let mut interner = Interner::new(base.len() / 16 + 16);
        let base = split(base, &mut interner, &piece);
        let ours = split(ours, &mut interner, &piece);
        let theirs = split(theirs, &mut interner, &piece);
        ThreeWay {
            base,
            ours,
            theirs,
            count: interner.num_tokens() as usize,
        }
    }

    /// How many different pieces there are.
    pub(crate) fn pieces(&self) -> usize {
        self.count
    }

    /// The regions that differ from the base on either side.
    pub(crate) fn regions(&self, budget: &mut Budget) -> Vec<Region> {
        let (ours, theirs) = self.hunks(budget);
        let sequences = Sequences {
            ours: &self.ours.symbols,
            theirs: &self.theirs.symbols,
        };
        regions(&ours, &theirs, sequences)
    }

    /// The hunks of both sides against the base.
    pub(crate) fn hunks(&self, budget: &mut Budget) -> (Vec<Hunk>, Vec<Hunk>) {
        (
            diff(&self.base.symbols, &self.ours.symbols, self.count, budget),
            diff(&self.base.symbols, &self.theirs.symbols, self.count, budget),
        )
    }

    /// The hunks that turn a range of ours into a range of theirs.
    pub(crate) fn hunks_between(
        &self,
        ours: &Range<usize>,
        theirs: &Range<usize>,
        budget: &mut Budget,
    ) -> Vec<Hunk> {
        let (ours, theirs) = (
            &self.ours.symbols[ours.clone()],
            &self.theirs.symbols[theirs.clone()],
        );
        diff(ours, theirs, self.count, budget)
    }
}

fn split<'a>(
    bytes: &'a [u8],
    interner: &mut Interner<&'a [u8]>,
    piece: &impl Fn(&[u8]) -> usize,
) -> Split {
    let mut symbols = Vec::with_capacity(bytes.len() / 24 + 1);
    let mut starts = Vec::with_capacity(bytes.len() / 24 + 2);
    let mut at = 0;
    while at < bytes.len() {
        let length = piece(&bytes[at..]);
        starts.push(at);
        symbols.push(interner.intern(&bytes[at..at + length]).0);
        at += length;
    }
    starts.push(at);
    Split { symbols, starts }
}

/// The length of the first line with its newline; a carriage return is part of the line.
pub(crate) fn line_length(bytes: &[u8]) -> usize {
    memchr_newline(bytes).map_or(bytes.len(), |at| at + 1)
}

fn memchr_newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == b'\n')
}

/// The length of the first word: a run of word characters, of blanks, or a single other byte.
///
/// Numbers with dots are one word: of `1.2.3` the sides may not change a part each.
pub(crate) fn word_length(bytes: &[u8]) -> usize {
    let class = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | 0x80.. => 1,
        b' ' | b'\t' => 2,
        _ => 0,
    };
    let Some(first) = bytes.first().map(|&byte| class(byte)) else {
        return 0;
    };
    let run = |from: usize| {
        let rest = bytes[from..].iter();
        from + rest.take_while(|&&byte| class(byte) == first).count()
    };
    if first == 0 {
        return 1;
    }
    let mut length = run(0);
    while bytes[0].is_ascii_digit()
        && bytes.get(length) == Some(&b'.')
        && bytes.get(length + 1).is_some_and(u8::is_ascii_digit)
    {
        length = run(length + 1);
    }
    length
}
