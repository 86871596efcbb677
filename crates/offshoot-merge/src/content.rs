//! The content of one file on three sides, merged by the engine that the rules choose for its path.

use std::sync::Arc;

use crate::conflict::{Choice, Part, PartConflict, PartKind};
use crate::diff3::Region;
use crate::entries::EntryFormat;
use crate::json::{JsonFormat, is_sound, merge_json};
use crate::limits::Limits;
use crate::reason::{Reasons, ResolvedPart};
use crate::rules::MergeEngine;
use crate::text::{Piece, TextMerge, merge_text};
use crate::units::Granularity;

/// The bytes of the three sides.
#[derive(Clone, Debug)]
pub struct Sides {
    /// What both started from; empty where both added the file.
    pub base: Arc<[u8]>,
    /// What the project head has.
    pub ours: Arc<[u8]>,
    /// What the workspace has.
    pub theirs: Arc<[u8]>,
}

/// What came of merging one file's content.
#[derive(Debug)]
pub enum ContentMerge {
    /// Nothing conflicts.
    Clean(CleanContent),
    /// Some parts conflict.
    Conflict(ContentConflict),
}

/// Merged content, and how it was found.
#[derive(Debug, PartialEq, Eq)]
pub struct CleanContent {
    /// The merged bytes.
    pub bytes: Vec<u8>,
    /// The way that led to it.
    pub method: Method,
    /// The parts that git would have called a conflict, or that were put in an order of our own.
    pub parts: Vec<ResolvedPart>,
}

/// The way that led to a merged content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Both sides have the same content.
    Same,
    /// By line, with git's result.
    Lines,
    /// By line, and by word where lines conflict.
    Words,
    /// By JSON structure.
    Json,
}

impl Method {
    /// The word for it, which receipts keep.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Same => "same",
            Method::Lines => "lines",
            Method::Words => "words",
            Method::Json => "json",
        }
    }
}

/// Content with conflicting parts. Nothing of the three sides is lost in it.
#[derive(Debug)]
pub struct ContentConflict {
    /// The three contents.
    pub sides: Sides,
    /// What conflicts, in the order of the file.
    pub parts: Vec<PartConflict>,
    layout: Layout,
    allowed: Reasons,
    limits: Limits,
}

#[derive(Debug)]
enum Layout {
    Whole,
    Text(Vec<Piece>),
    Json(JsonFormat),
}

/// Merges the content of one file. Equal sides, and sides equal to the base, need no merge.
///
/// `allowed` says in which ways a part that both sides changed may be put together.
pub fn merge_content(
    sides: &Sides,
    engine: MergeEngine,
    allowed: Reasons,
    limits: &Limits,
) -> ContentMerge {
    let (base, ours, theirs) = (&*sides.base, &*sides.ours, &*sides.theirs);
    if ours == theirs || theirs == base {
        return clean(ours.to_vec(), Method::Same, Vec::new());
    }
    if ours == base {
        return clean(theirs.to_vec(), Method::Same, Vec::new());
    }
    let all = [base, ours, theirs];
    let too_large = all.iter().any(|side| side.len() as u64 > limits.bytes);
    if engine == MergeEngine::Binary || too_large || all.iter().any(|side| is_binary(side)) {
        return whole_conflict(sides, limits);
    }
    match engine {
        MergeEngine::Json => merge_json_file(sides, JsonFormat::Document, allowed, limits),
        MergeEngine::JsonLines => merge_json_file(sides, JsonFormat::Lines, allowed, limits),
        MergeEngine::Lines => merge_text_file(sides, engine, Reasons::none(), limits),
        _ => merge_text_file(sides, engine, allowed, limits),
    }
}

/// Whether git would call this content binary: a NUL among the first 8,000 bytes.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8000).any(|&byte| byte == 0)
}

fn clean(bytes: Vec<u8>, method: Method, parts: Vec<ResolvedPart>) -> ContentMerge {
    ContentMerge::Clean(CleanContent {
        bytes,
        method,
        parts,
    })
}

fn merge_text_file(
    sides: &Sides,
    engine: MergeEngine,
    allowed: Reasons,
    limits: &Limits,
) -> ContentMerge {
    let (ours, theirs) = (&sides.ours, &sides.theirs);
    let format = EntryFormat::of(engine);
    let merge = merge_text(&sides.base, ours, theirs, format, allowed, limits);
    match merge.clean_bytes(ours, theirs) {
        Some(bytes) => {
            let parts = resolved_parts(&merge);
            let method = if parts.is_empty() {
                Method::Lines
            } else {
                Method::Words
            };
            clean(bytes, method, parts)
        }
        None => text_conflict(sides, &merge, limits),
    }
}

/// JSON: git's result where it is clean and sound, else the structure, else words.
///
/// The line merge comes first so that a file which git merges comes out as git has it, byte for
/// byte; but lines know nothing of keys, so its result must be sound JSON if the sides were.
fn merge_json_file(
    sides: &Sides,
    form: JsonFormat,
    allowed: Reasons,
    limits: &Limits,
) -> ContentMerge {
    let (base, ours, theirs) = (&*sides.base, &*sides.ours, &*sides.theirs);
    let sound = |bytes: &[u8]| is_sound(bytes, form, limits.depth);
    let format = EntryFormat::Program;
    let lines =
        merge_text(base, ours, theirs, format, Reasons::none(), limits).clean_bytes(ours, theirs);
    let all_sound = || [base, ours, theirs].iter().all(|side| sound(side));
    if let Some(bytes) = lines
        && (sound(&bytes) || !all_sound())
    {
        return clean(bytes, Method::Lines, Vec::new());
    }
    if let Ok(merge) = merge_json(base, ours, theirs, form, &[], allowed, limits) {
        if merge.conflicts.is_empty() {
            return clean(merge.bytes, Method::Json, merge.resolved);
        }
        return ContentMerge::Conflict(ContentConflict {
            sides: sides.clone(),
            parts: merge.conflicts,
            layout: Layout::Json(form),
            allowed,
            limits: *limits,
        });
    }
    let merge = merge_text(base, ours, theirs, format, allowed, limits);
    match merge.clean_bytes(ours, theirs) {
        Some(bytes) if sound(&bytes) || !all_sound() => {
            clean(bytes, Method::Words, resolved_parts(&merge))
        }
        Some(_) => whole_conflict(sides, limits),
        None => text_conflict(sides, &merge, limits),
    }
}

fn resolved_parts(merge: &TextMerge) -> Vec<ResolvedPart> {
    let resolved = merge.pieces.iter().filter_map(|piece| match piece {
        Piece::Resolved(_, region, reason) => Some(ResolvedPart {
            part: lines_part(region),
            reason: *reason,
        }),
        _ => None,
    });
    resolved.collect()
}

fn lines_part(region: &Region) -> Part {
    Part::Lines {
        base: region.base.clone(),
        ours: region.ours.clone(),
        theirs: region.theirs.clone(),
    }
}

fn text_conflict(sides: &Sides, merge: &TextMerge, limits: &Limits) -> ContentMerge {
    let lines = &merge.lines;
    let parts = merge.conflicts().map(|region| {
        let base = lines.base.bytes(&region.base);
        let ours = lines.ours.bytes(&region.ours);
        let theirs = lines.theirs.bytes(&region.theirs);
        let kind = match (base.is_empty(), ours.is_empty(), theirs.is_empty()) {
            (true, ..) => PartKind::BothAdded,
            (_, true, _) => PartKind::RemovedByOurs,
            (_, _, true) => PartKind::RemovedByTheirs,
            _ => PartKind::BothChanged,
        };
        PartConflict {
            part: lines_part(region),
            kind,
            base: Some(base),
            ours: Some(ours),
            theirs: Some(theirs),
        }
    });
    ContentMerge::Conflict(ContentConflict {
        sides: sides.clone(),
        parts: parts.collect(),
        layout: Layout::Text(merge.pieces.clone()),
        allowed: Reasons::none(),
        limits: *limits,
    })
}

fn whole_conflict(sides: &Sides, limits: &Limits) -> ContentMerge {
    let part = PartConflict {
        part: Part::Whole,
        kind: PartKind::BothChanged,
        base: Some(0..sides.base.len()),
        ours: Some(0..sides.ours.len()),
        theirs: Some(0..sides.theirs.len()),
    };
    ContentMerge::Conflict(ContentConflict {
        sides: sides.clone(),
        parts: vec![part],
        layout: Layout::Whole,
        allowed: Reasons::none(),
        limits: *limits,
    })
}

impl ContentConflict {
    /// The content with each part resolved by its choice, in the order of [`Self::parts`].
    ///
    /// None if a choice is missing or does not fit its part, such as the union of two numbers.
    /// Everything outside the parts is the clean merge of both sides.
    pub fn resolve(&self, choices: &[Choice]) -> Option<Vec<u8>> {
        if choices.len() != self.parts.len() {
            return None;
        }
        let Sides { base, ours, theirs } = &self.sides;
        match &self.layout {
            Layout::Whole => match choices[0] {
                Choice::Ours => Some(ours.to_vec()),
                Choice::Theirs => Some(theirs.to_vec()),
                Choice::Base => Some(base.to_vec()),
                Choice::Union => None,
            },
            Layout::Json(form) => {
                let merge = merge_json(
                    base,
                    ours,
                    theirs,
                    *form,
                    choices,
                    self.allowed,
                    &self.limits,
                )
                .ok()?;
                is_sound(&merge.bytes, *form, self.limits.depth).then_some(merge.bytes)
            }
            Layout::Text(pieces) => Some(self.resolve_text(pieces, choices)),
        }
    }

    /// What the parts are made of.
    pub fn granularity(&self) -> Granularity {
        match self.layout {
            Layout::Whole | Layout::Text(_) => Granularity::Lines,
            Layout::Json(JsonFormat::Document) => Granularity::Json,
            Layout::Json(JsonFormat::Lines) => Granularity::JsonLines,
        }
    }

    /// The content with all parts resolved by one choice; none where that does not fit.
    pub fn resolve_all(&self, choice: Choice) -> Option<Vec<u8>> {
        self.resolve(&vec![choice; self.parts.len()])
    }

    fn resolve_text(&self, pieces: &[Piece], choices: &[Choice]) -> Vec<u8> {
        let Sides { base, ours, theirs } = &self.sides;
        let mut merged = Vec::with_capacity(ours.len().max(theirs.len()));
        let mut conflicts = self.parts.iter().zip(choices);
        let none = 0..0;
        for piece in pieces {
            match piece {
                Piece::Ours(range) => append(&mut merged, &ours[range.clone()]),
                Piece::Theirs(range) => append(&mut merged, &theirs[range.clone()]),
                Piece::Resolved(bytes, ..) => append(&mut merged, bytes),
                Piece::Conflict(_) => {
                    let Some((part, choice)) = conflicts.next() else {
                        continue;
                    };
                    let of_base = &base[part.base.clone().unwrap_or(none.clone())];
                    let of_ours = &ours[part.ours.clone().unwrap_or(none.clone())];
                    let of_theirs = &theirs[part.theirs.clone().unwrap_or(none.clone())];
                    match choice {
                        Choice::Base => append(&mut merged, of_base),
                        Choice::Ours => append(&mut merged, of_ours),
                        Choice::Theirs => append(&mut merged, of_theirs),
                        Choice::Union => {
                            append(&mut merged, of_ours);
                            append(&mut merged, of_theirs);
                        }
                    }
                }
            }
        }
        merged
    }
}

/// Adds lines. One that had no newline because it ended its file gets one when others follow.
fn append(merged: &mut Vec<u8>, bytes: &[u8]) {
    if merged.last().is_some_and(|&byte| byte != b'\n') && !bytes.is_empty() {
        merged.push(b'\n');
    }
    merged.extend_from_slice(bytes);
}
