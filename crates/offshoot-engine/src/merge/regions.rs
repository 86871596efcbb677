//! The parts of a file that conflict, each with its place in the three texts, and the merge of
//! three given texts.

use std::collections::BTreeMap;
use std::ops::Range;

use offshoot_core::{Error, ErrorCode, ObjectId, RelPath, Result};
use offshoot_merge::{
    Choice, Conflict, ContentConflict, FileMerge, MergeFileOptions, Part, PartConflict, PartKind,
    merge_file,
};
use serde::{Deserialize, Serialize};

use crate::content::as_text;
use crate::merge::review_row::part_name;

/// The most parts of a JSON document for which the answer says whether they can be joined: each is
/// tried by a merge of its own.
const MOST_TRIED: usize = 32;

/// What to take of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartChoice {
    /// What the project has.
    Ours,
    /// What the workspace has.
    Theirs,
    /// What both began with.
    Base,
    /// Both, ours first.
    Union,
}

impl From<PartChoice> for Choice {
    fn from(choice: PartChoice) -> Self {
        match choice {
            PartChoice::Ours => Choice::Ours,
            PartChoice::Theirs => Choice::Theirs,
            PartChoice::Base => Choice::Base,
            PartChoice::Union => Choice::Union,
        }
    }
}

/// A choice for each part of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartChoices {
    /// By the name of a part, such as `line 3` or `/scripts/build`, or by its number from 1.
    pub parts: BTreeMap<String, PartChoice>,
    /// For the parts that are not named; none means that all must be.
    pub rest: Option<PartChoice>,
    /// The content of ours that the choices were made for; parts may be others in another.
    #[serde(with = "as_text::optional")]
    pub ours: Option<ObjectId>,
}

/// One part that conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name; none if it is the file as a whole.
    pub part: Option<String>,
    /// What the two sides did.
    pub kind: &'static str,
    /// What the base has there; none where it has nothing.
    pub base: Option<Piece>,
    /// What ours has there.
    pub ours: Option<Piece>,
    /// What theirs has there.
    pub theirs: Option<Piece>,
    /// Whether both can be taken.
    pub can_join: bool,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The line that it begins in, from 1.
    pub line: usize,
    /// How many lines it has a part of; none if it is empty.
    pub lines: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What comes of three texts.
#[derive(Clone, Debug)]
pub struct MergedTexts {
    /// The merged content. Where parts conflict they are as was chosen, or as ours has them.
    pub content: Vec<u8>,
    /// Whether nothing waits for a choice.
    pub clean: bool,
    /// The parts that conflict, whether decided or not.
    pub regions: Vec<Region>,
}

/// Merges three texts, as a merge would merge a file of this name. Without choices the parts that
/// conflict are as ours has them.
pub fn merge_texts(
    path: &RelPath,
    [base, ours, theirs]: [&[u8]; 3],
    choices: Option<&PartChoices>,
) -> Result<MergedTexts> {
    let options = MergeFileOptions::default();
    match merge_file(path.as_bytes(), base, ours, theirs, &options) {
        FileMerge::Clean { bytes, .. } => Ok(MergedTexts {
            content: bytes,
            clean: true,
            regions: Vec::new(),
        }),
        FileMerge::Conflict { conflict, .. } => {
            let content = match choices {
                Some(choices) => conflict
                    .resolve(&choices.of(path, &conflict)?)
                    .ok_or_else(|| cannot_join_parts(path))?,
                None => with_ours(&conflict),
            };
            Ok(MergedTexts {
                content,
                clean: choices.is_some(),
                regions: regions_of(&conflict),
            })
        }
    }
}

/// What fits of both sides, and where they conflict what ours has.
pub(crate) fn with_ours(conflict: &ContentConflict) -> Vec<u8> {
    conflict
        .resolve_all(Choice::Ours)
        .unwrap_or_else(|| conflict.sides.ours.to_vec())
}

/// The parts of a conflict.
pub(crate) fn regions_of(conflict: &ContentConflict) -> Vec<Region> {
    let sides = &conflict.sides;
    let [base, ours, theirs] =
        [&sides.base, &sides.ours, &sides.theirs].map(|side| Lines::of(side));
    let region = |(number, part): (usize, &PartConflict)| Region {
        part: part_name(&part.part),
        kind: match part.kind {
            PartKind::BothChanged => "both_changed",
            PartKind::BothAdded => "both_added",
            PartKind::RemovedByOurs => "removed_by_ours",
            PartKind::RemovedByTheirs => "removed_by_theirs",
        },
        base: part.base.clone().map(|range| base.piece(range)),
        ours: part.ours.clone().map(|range| ours.piece(range)),
        theirs: part.theirs.clone().map(|range| theirs.piece(range)),
        can_join: match part.part {
            Part::Whole => false,
            Part::Lines { .. } => true,
            Part::Json { .. } => conflict.parts.len() <= MOST_TRIED && joins(conflict, number),
        },
    };
    conflict.parts.iter().enumerate().map(region).collect()
}

/// A text and where its lines end.
struct Lines<'a> {
    text: &'a [u8],
    ends: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        Lines {
            text,
            ends: ends.map(|(place, _)| place).collect(),
        }
    }

    fn piece(&self, range: Range<usize>) -> Piece {
        let line_of = |place: usize| self.ends.partition_point(|&end| end < place);
        let first = line_of(range.start);
        Piece {
            line: first + 1,
            lines: match range.is_empty() {
                true => 0,
                false => line_of(range.end - 1) - first + 1,
            },
            bytes: self.text.get(range).unwrap_or_default().to_vec(),
        }
    }
}

fn joins(conflict: &ContentConflict, number: usize) -> bool {
    let mut choices = vec![Choice::Ours; conflict.parts.len()];
    choices[number] = Choice::Union;
    conflict.resolve(&choices).is_some()
}

impl PartChoices {
    /// The choices for a conflict that was computed just now.
    pub(crate) fn for_conflict(&self, conflict: &Conflict) -> Result<Vec<Choice>> {
        let path = &conflict.path;
        if self.ours.is_some() && self.ours != conflict.ours.map(|entry| entry.id) {
            return Err(Error::new(
                ErrorCode::PreconditionFailed,
                format!("`{path}` has changed since the parts were looked at"),
            )
            .with_hint("look at the review again; nothing was decided"));
        }
        match &conflict.content {
            Some(content) => self.of(path, content),
            None => Err(no_parts(path)),
        }
    }

    fn of(&self, path: &RelPath, conflict: &ContentConflict) -> Result<Vec<Choice>> {
        let names: Vec<Option<String>> = conflict
            .parts
            .iter()
            .map(|part| part_name(&part.part))
            .collect();
        if names.iter().any(Option::is_none) && !self.parts.is_empty() {
            return Err(no_parts(path));
        }
        let known: Vec<String> = names.iter().flatten().cloned().collect();
        let is_known = |name: &str| {
            let numbered = name
                .parse()
                .is_ok_and(|n: usize| (1..=known.len()).contains(&n));
            numbered || known.iter().any(|known| known == name)
        };
        if let Some(unknown) = self.parts.keys().find(|name| !is_known(name)) {
            let message = format!("`{path}` has no part `{unknown}` that conflicts");
            return Err(Error::invalid(message)
                .with_hint(format!("its parts are: {}", known.join(", ")))
                .with_details(serde_json::json!({ "parts": known })));
        }
        let chosen = |(number, name): (usize, &Option<String>)| {
            let by_name = name.as_ref().and_then(|name| self.parts.get(name));
            let by_number = || self.parts.get(&(number + 1).to_string());
            let choice = by_name.or_else(by_number).copied().or(self.rest);
            choice.map(Choice::from).ok_or_else(|| {
                let name = name.clone().unwrap_or_default();
                Error::invalid(format!(
                    "nothing is chosen for the part `{name}` of `{path}`"
                ))
                .with_hint("name every part, or give a `choice` for the rest")
            })
        };
        names.iter().enumerate().map(chosen).collect()
    }
}

fn no_parts(path: &RelPath) -> Error {
    Error::invalid(format!("`{path}` is decided as a whole: it has no parts"))
        .with_hint("give one `choice`, or the `content`")
}

/// The answer to a choice that a part cannot have.
pub(crate) fn cannot_join_parts(path: &RelPath) -> Error {
    Error::invalid(format!(
        "a part of `{path}` cannot be settled by taking both"
    ))
    .with_hint("choose ours, theirs or base for it, or give the content of the file")
}
