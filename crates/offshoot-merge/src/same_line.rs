//! Lines that both sides edited by word: whether they are still the same line on both sides.
//!
//! A word can be put into a line only while that line is there. It is not the same line any more
//! once a side commented it out, made several lines of it, or replaced most of its words.

use std::ops::Range;

use crate::diff3::{ChangedBy, Region};
use crate::split::Split;
use crate::words::HunkWords;

/// What one side did inside the lines of the base.
struct SideEdits<'a> {
    changed_by: ChangedBy,
    text: &'a [u8],
    split: &'a Split,
}

/// The lines of the base of one hunk, for edits that are given in words.
pub(crate) struct BaseLines<'a> {
    hunk: &'a HunkWords<'a>,
    /// The line of each word, and of the end.
    line_of: Vec<usize>,
    /// How many words each line has.
    words: Vec<usize>,
}

/// What a side did to a line.
#[derive(Clone, Copy, Default)]
struct LineEdit {
    edited: bool,
    /// A newline came or went: the line was cut or joined.
    cut: bool,
    /// Another number of comment signs than before, or a comment where there was none.
    comment: bool,
    words_gone: usize,
}

impl<'a> BaseLines<'a> {
    pub(crate) fn new(hunk: &'a HunkWords<'a>) -> Self {
        let base = &hunk.words.base;
        let mut line_of = Vec::with_capacity(base.len() + 1);
        let mut words = vec![0];
        for place in 0..base.len() {
            line_of.push(words.len() - 1);
            let token = &hunk.texts.base[base.bytes(&(place..place + 1))];
            if token == b"\n" {
                words.push(0);
            } else if is_word(token) {
                words[line_of[place]] += 1;
            }
        }
        line_of.push(words.len() - 1);
        BaseLines {
            hunk,
            line_of,
            words,
        }
    }

    /// Whether a line that both sides edited is not the same line on both any more.
    pub(crate) fn has_lost_line(&self, regions: &[Region]) -> bool {
        let ours = self.edits_of(ChangedBy::Ours, regions);
        let theirs = self.edits_of(ChangedBy::Theirs, regions);
        let lines = ours.iter().zip(&theirs).zip(&self.words);
        lines
            .filter(|((ours, theirs), _)| ours.edited && theirs.edited)
            .any(|((ours, theirs), &words)| {
                [ours, theirs]
                    .iter()
                    .any(|edit| edit.cut || edit.comment || edit.words_gone * 2 > words)
            })
    }

    /// What a side did to each line. Lines that it brought in or removed whole are not edited.
    fn edits_of(&self, changed_by: ChangedBy, regions: &[Region]) -> Vec<LineEdit> {
        let side = self.side(changed_by);
        let mut lines = vec![LineEdit::default(); self.words.len()];
        for region in regions
            .iter()
            .filter(|region| region.changed_by == changed_by)
        {
            let after = side.range(region);
            if self.is_whole_lines(region.base.clone(), side.split, side.text, after.clone()) {
                continue;
            }
            let old = &self.hunk.texts.base[self.hunk.words.base.bytes(&region.base)];
            let new = &side.text[side.split.bytes(&after)];
            let cut = old.contains(&b'\n') || new.contains(&b'\n');
            let comment = comment_signs(old) != comment_signs(new)
                || (self.begins_a_line(region.base.start)
                    && comment_start(old) != comment_start(new));
            let last = region.base.end.max(region.base.start + 1) - 1;
            for line in &mut lines[self.line_of[region.base.start]..=self.line_of[last]] {
                line.edited = true;
                line.cut |= cut;
                line.comment |= comment;
            }
            for place in region.base.clone() {
                let token = &self.hunk.texts.base[self.hunk.words.base.bytes(&(place..place + 1))];
                lines[self.line_of[place]].words_gone += usize::from(is_word(token));
            }
        }
        lines
    }

    /// Whether only blanks stand before a word in its line.
    fn begins_a_line(&self, word: usize) -> bool {
        let base = &self.hunk.words.base;
        let before = (0..word).rev().map(|place| base.bytes(&(place..place + 1)));
        before
            .map(|bytes| &self.hunk.texts.base[bytes])
            .take_while(|token| *token != b"\n")
            .all(|token| token.iter().all(u8::is_ascii_whitespace))
    }

    fn side(&self, changed_by: ChangedBy) -> SideEdits<'a> {
        let HunkWords { texts, words } = self.hunk;
        let (text, split) = match changed_by {
            ChangedBy::Theirs => (texts.theirs, &words.theirs),
            _ => (texts.ours, &words.ours),
        };
        SideEdits {
            changed_by,
            text,
            split,
        }
    }

    /// Whether an edit brings in or takes away whole lines: as it stands, or, as it only inserts or
    /// only removes, where it could stand as well.
    fn is_whole_lines(
        &self,
        before: Range<usize>,
        split: &Split,
        text: &[u8],
        after: Range<usize>,
    ) -> bool {
        let base = &self.hunk.words.base;
        let base_text = self.hunk.texts.base;
        if before.is_empty() {
            return whole_lines_start(split, text, after).is_some();
        }
        if after.is_empty() {
            return whole_lines_start(base, base_text, before).is_some();
        }
        let newline_before = |split: &Split, text: &[u8], at: usize| {
            at == 0 || text[split.bytes(&(at - 1..at))] == *b"\n"
        };
        newline_before(base, base_text, before.start)
            && newline_before(base, base_text, before.end)
            && newline_before(split, text, after.start)
            && newline_before(split, text, after.end)
    }

    /// Whether lines that a side brought in or removed stand right at an edit of the other side, so
    /// that which line that edit belongs to is open.
    pub(crate) fn has_ambiguous_line(&self, regions: &[Region]) -> bool {
        regions.windows(2).any(|pair| {
            let one_sided =
                |region: &Region| matches!(region.changed_by, ChangedBy::Ours | ChangedBy::Theirs);
            one_sided(&pair[0])
                && one_sided(&pair[1])
                && pair[0].changed_by != pair[1].changed_by
                && self.first_place(&pair[1]) <= pair[0].base.end
        })
    }

    /// Where in the base a region begins once its lines are shifted up to where they are whole.
    fn first_place(&self, region: &Region) -> usize {
        let side = self.side(region.changed_by);
        let after = side.range(region);
        let start = if region.base.is_empty() {
            let whole = whole_lines_start(side.split, side.text, after.clone());
            whole.map(|start| after.start - start)
        } else if after.is_empty() {
            let base = &self.hunk.words.base;
            let whole = whole_lines_start(base, self.hunk.texts.base, region.base.clone());
            whole.map(|start| region.base.start - start)
        } else {
            None
        };
        region.base.start - start.unwrap_or(0).min(region.base.start)
    }
}

impl SideEdits<'_> {
    fn range(&self, region: &Region) -> Range<usize> {
        match self.changed_by {
            ChangedBy::Theirs => region.theirs.clone(),
            _ => region.ours.clone(),
        }
    }
}

/// Where a run of words that was inserted or removed could begin at the start of a line and end at
/// the end of one, if it is shifted up within its own length.
fn whole_lines_start(split: &Split, text: &[u8], run: Range<usize>) -> Option<usize> {
    let is_newline = |at: usize| text[split.bytes(&(at..at + 1))] == *b"\n";
    let (mut start, mut end) = (run.start, run.end);
    loop {
        let begins = start == 0 || is_newline(start - 1);
        let ends = is_newline(end - 1) || end == split.len();
        if begins && ends {
            return Some(start);
        }
        let shifts = start > 0
            && split.symbols[start - 1] == split.symbols[end - 1]
            && run.start - start < run.len();
        if !shifts {
            return None;
        }
        (start, end) = (start - 1, end - 1);
    }
}

/// How many signs of a comment a text has, each kind by itself.
fn comment_signs(text: &[u8]) -> [usize; 8] {
    const SIGNS: [&[u8]; 8] = [
        b"//", b"/*", b"*/", b"<!--", b"-->", b"#", b"\"\"\"", b"'''",
    ];
    SIGNS.map(|sign| {
        let windows = text.windows(sign.len());
        windows.filter(|window| *window == sign).count()
    })
}

/// The sign that makes a line a comment where the line begins with it, and means something else
/// anywhere else: `i--`, `a % b`, the `;` at the end of a statement. A sign that a word is tied to,
/// as in `--flag value`, is part of that word.
fn comment_start(text: &[u8]) -> Option<&'static [u8]> {
    const SIGNS: [&[u8]; 3] = [b"--", b";", b"%"];
    let text = text.trim_ascii_start();
    let sign = SIGNS.into_iter().find(|sign| text.starts_with(sign))?;
    let after = text.iter().find(|byte| !sign.contains(byte));
    let only_signs = !text.iter().any(|byte| is_word(&[*byte]));
    (only_signs || after.is_some_and(u8::is_ascii_whitespace)).then_some(sign)
}

/// Whether edits of either side begin or end a comment over several lines.
pub(crate) fn turn_into_comment(old: &[u8], new: &[u8]) -> bool {
    let open = |text: &[u8]| {
        let [_, begin, end, html_begin, html_end, _, double, single] = comment_signs(text);
        (
            begin as isize - end as isize,
            html_begin as isize - html_end as isize,
            double % 2,
            single % 2,
        )
    };
    open(old) != open(new)
}

pub(crate) fn is_word(token: &[u8]) -> bool {
    token
        .first()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80)
}
