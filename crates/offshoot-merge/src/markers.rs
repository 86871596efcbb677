//! Conflict markers like git's, for people who ask for them; never written otherwise.

use std::ops::Range;

use crate::content::{Sides, is_binary};
use crate::diff3::{ChangedBy, Region};
use crate::entries::EntryFormat;
use crate::limits::{Budget, Limits};
use crate::reason::Reasons;
use crate::rules::MergeEngine;
use crate::split::{Split, ThreeWay};
use crate::text::{Piece, merge_text};

/// Conflicts with at most this many equal lines between them are shown as one, as git does.
const JOIN_WITHIN: usize = 3;

/// How conflicts are written into a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerOptions {
    /// The name of ours behind the first marker.
    pub ours: String,
    /// The name of the base.
    pub base: String,
    /// The name of theirs behind the last marker.
    pub theirs: String,
    /// Shows the base as well, as git's `diff3` style does.
    pub show_base: bool,
    /// The length of a marker.
    pub size: usize,
}

impl Default for MarkerOptions {
    fn default() -> Self {
        MarkerOptions {
            ours: "ours".to_owned(),
            base: "base".to_owned(),
            theirs: "theirs".to_owned(),
            show_base: false,
            size: 7,
        }
    }
}

/// The merged text with its conflicts between markers; none for binary content.
///
/// A merge that is clean by line but was refused otherwise, such as one that yields a duplicate
/// key, is shown as one conflict of the whole.
pub(crate) fn render(
    sides: &Sides,
    options: &MarkerOptions,
    engine: MergeEngine,
    allowed: Reasons,
    limits: &Limits,
) -> Option<Vec<u8>> {
    let Sides { base, ours, theirs } = sides;
    if [base, ours, theirs].iter().any(|side| is_binary(side)) {
        return None;
    }
    let format = EntryFormat::of(engine);
    let merge = merge_text(base, ours, theirs, format, allowed, limits);
    let lines = &merge.lines;
    let changed = lines.regions(&mut Budget::new(limits)).into_iter();
    let changed = changed.filter(|region| region.changed_by == ChangedBy::Ours);
    let changed = changed.map(|region| region.ours).collect();
    let writer = Writer {
        sides,
        lines,
        options,
        changed,
    };
    let mut out = Vec::with_capacity(ours.len() + theirs.len());
    let mut pieces = merge.pieces;
    if !pieces
        .iter()
        .any(|piece| matches!(piece, Piece::Conflict(_)))
    {
        pieces = vec![Piece::Conflict(Region {
            changed_by: ChangedBy::Conflict,
            base: 0..lines.base.len(),
            ours: 0..lines.ours.len(),
            theirs: 0..lines.theirs.len(),
        })];
    }
    let mut budget = Budget::new(limits);
    for piece in writer.refined(pieces, &mut budget) {
        match piece {
            Piece::Ours(range) => out.extend_from_slice(&ours[range]),
            Piece::Theirs(range) => out.extend_from_slice(&theirs[range]),
            Piece::Resolved(bytes, ..) => out.extend_from_slice(&bytes),
            Piece::Conflict(region) => writer.conflict(&region, &mut out),
        }
    }
    Some(out)
}

struct Writer<'a> {
    sides: &'a Sides,
    lines: &'a ThreeWay,
    options: &'a MarkerOptions,
    /// Lines that ours alone changed: they keep the conflicts around them apart.
    changed: Vec<Range<usize>>,
}

impl Writer<'_> {
    /// Takes lines that both sides have in common out of the conflicts, unless the base is shown.
    fn refined(&self, pieces: Vec<Piece>, budget: &mut Budget) -> Vec<Piece> {
        if self.options.show_base {
            return pieces;
        }
        let mut refined: Vec<Piece> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match piece {
                Piece::Conflict(region) => self.refine(&region, &mut refined, budget),
                other => refined.push(other),
            }
        }
        self.join_close_ones(refined)
    }

    fn refine(&self, region: &Region, refined: &mut Vec<Piece>, budget: &mut Budget) {
        if region.ours.is_empty() || region.theirs.is_empty() {
            refined.push(Piece::Conflict(region.clone()));
            return;
        }
        let mut done = region.ours.start;
        for hunk in self
            .lines
            .hunks_between(&region.ours, &region.theirs, budget)
        {
            let at = |range: &Range<usize>, start: usize| start + range.start..start + range.end;
            let ours = at(&hunk.before, region.ours.start);
            refined.push(Piece::Ours(self.lines.ours.bytes(&(done..ours.start))));
            done = ours.end;
            let theirs = at(&hunk.after, region.theirs.start);
            refined.push(Piece::Conflict(Region {
                ours,
                theirs,
                ..region.clone()
            }));
        }
        refined.push(Piece::Ours(self.lines.ours.bytes(&(done..region.ours.end))));
    }

    /// Joins conflicts that only a few lines of ours separate.
    fn join_close_ones(&self, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
        let mut between = Vec::new();
        for piece in pieces {
            match (piece, joined.last_mut()) {
                (Piece::Conflict(next), Some(Piece::Conflict(last)))
                    if next.ours.start - last.ours.end <= JOIN_WITHIN
                        && !self.changed_between(last.ours.end, next.ours.start)
                        && between.iter().all(|piece| matches!(piece, Piece::Ours(_))) =>
                {
                    last.ours.end = next.ours.end;
                    last.theirs.end = next.theirs.end;
                    between.clear();
                }
                (piece @ Piece::Conflict(_), _) => {
                    joined.append(&mut between);
                    joined.push(piece);
                }
                (piece, Some(Piece::Conflict(_))) => between.push(piece),
                (piece, _) => joined.push(piece),
            }
        }
        joined.append(&mut between);
        joined
    }

    fn changed_between(&self, start: usize, end: usize) -> bool {
        self.changed
            .iter()
            .any(|range| start <= range.start && range.end <= end)
    }

    fn conflict(&self, region: &Region, out: &mut Vec<u8>) {
        let Sides { base, ours, theirs } = self.sides;
        let newline: &[u8] = if self.is_crlf(region) { b"\r\n" } else { b"\n" };
        let marker = |out: &mut Vec<u8>, byte: u8, name: &str| {
            out.extend(std::iter::repeat_n(byte, self.options.size));
            if !name.is_empty() {
                out.push(b' ');
                out.extend_from_slice(name.as_bytes());
            }
            out.extend_from_slice(newline);
        };
        let text = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend_from_slice(bytes);
            if bytes.last().is_some_and(|&byte| byte != b'\n') {
                out.extend_from_slice(newline);
            }
        };
        marker(out, b'<', &self.options.ours);
        text(out, &ours[self.lines.ours.bytes(&region.ours)]);
        if self.options.show_base {
            marker(out, b'|', &self.options.base);
            text(out, &base[self.lines.base.bytes(&region.base)]);
        }
        marker(out, b'=', "");
        text(out, &theirs[self.lines.theirs.bytes(&region.theirs)]);
        marker(out, b'>', &self.options.theirs);
    }

    /// Markers end as the lines around them do, if all three sides agree on CRLF.
    fn is_crlf(&self, region: &Region) -> bool {
        let Sides { base, ours, theirs } = self.sides;
        let before = |start: usize| start.saturating_sub(1);
        let endings = [
            line_is_crlf(&self.lines.ours, ours, before(region.ours.start)),
            line_is_crlf(&self.lines.theirs, theirs, before(region.theirs.start)),
            line_is_crlf(&self.lines.base, base, 0),
        ];
        // A side that cannot tell leaves it to the others; the last one decides alone.
        !endings.contains(&Some(false)) && endings[2] == Some(true)
    }
}

/// Whether a line ends in CRLF; none where a single line has no ending at all.
fn line_is_crlf(split: &Split, bytes: &[u8], line: usize) -> Option<bool> {
    if split.len() == 0 {
        return None;
    }
    let text = &bytes[split.bytes(&(line..line + 1))];
    if text.ends_with(b"\n") {
        return Some(text.ends_with(b"\r\n"));
    }
    // The last line has no ending: the one before it tells.
    let previous = line.checked_sub(1)?;
    Some(bytes[split.bytes(&(previous..line))].ends_with(b"\r\n"))
}
