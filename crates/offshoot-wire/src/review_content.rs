//! The texts of a review, the parts that conflict, and what comes of three given texts.

use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::reviews::Review;
use super::{base64, hex};

/// The texts of a review and the parts that conflict, as they are now.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReviewContent {
    review: Review,
    /// What both began with; none where there was no file.
    base: Option<SideContent>,
    /// What the project has by now, or the workspace that the decision goes to.
    ours: Option<SideContent>,
    /// What the workspace has.
    theirs: Option<SideContent>,
    /// What fits of both, with ours where they conflict; none where it is decided as a whole.
    merged: Option<SideContent>,
    /// What was proposed.
    candidates: Vec<CandidateContent>,
    /// The parts that conflict; none where it is decided as a whole.
    regions: Vec<Region>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SideContent {
    /// The id of the content; none for what was merged just now.
    id: Option<String>,
    size: u64,
    /// How `content` is written.
    #[schemars(with = "Option<EncodingName>")]
    encoding: Option<&'static str>,
    /// The content; none if it is too large: `…/sides/{side}` has it.
    content: Option<String>,
}

/// How content is written in JSON.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema is used")]
enum EncodingName {
    Utf8,
    Base64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CandidateContent {
    number: i64,
    #[serde(flatten)]
    content: SideContent,
}

/// One part that conflicts.
#[derive(Debug, Serialize, JsonSchema)]
struct Region {
    /// Its number, from 1.
    number: usize,
    /// Its name, such as `line 3` or `/scripts/build`; none if it is the file as a whole.
    part: Option<String>,
    /// What the two sides did, such as `both_changed`.
    kind: &'static str,
    base: Option<Piece>,
    ours: Option<Piece>,
    theirs: Option<Piece>,
    /// What can be chosen for it.
    choices: Vec<&'static str>,
}

/// A piece of a text.
#[derive(Debug, Serialize, JsonSchema)]
struct Piece {
    /// The line that it begins in, from 1.
    line: usize,
    /// How many lines it has a part of.
    lines: usize,
    /// Bytes that are not UTF-8 are shown as `\u{FFFD}`.
    text: String,
}

fn encoded(bytes: &[u8]) -> (&'static str, String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => ("utf8", text.to_owned()),
        Err(_) => ("base64", base64(bytes)),
    }
}

impl From<&engine::SideContent> for SideContent {
    fn from(side: &engine::SideContent) -> Self {
        let told = side.bytes.as_ref().map(|bytes| encoded(bytes));
        SideContent {
            id: hex(side.id),
            size: side.size,
            encoding: told.as_ref().map(|(encoding, _)| *encoding),
            content: told.map(|(_, content)| content),
        }
    }
}

impl From<&engine::Piece> for Piece {
    fn from(piece: &engine::Piece) -> Self {
        Piece {
            line: piece.line,
            lines: piece.lines,
            text: String::from_utf8_lossy(&piece.bytes).into_owned(),
        }
    }
}

fn regions(regions: &[engine::Region]) -> Vec<Region> {
    let region = |(number, region): (usize, &engine::Region)| {
        let mut choices = vec!["ours", "theirs", "base"];
        if region.can_join {
            choices.push("union");
        }
        Region {
            number: number + 1,
            part: region.part.clone(),
            kind: region.kind,
            base: region.base.as_ref().map(Piece::from),
            ours: region.ours.as_ref().map(Piece::from),
            theirs: region.theirs.as_ref().map(Piece::from),
            choices,
        }
    };
    regions.iter().enumerate().map(region).collect()
}

impl From<&engine::ReviewContent> for ReviewContent {
    fn from(content: &engine::ReviewContent) -> Self {
        let side = |side: &Option<engine::SideContent>| side.as_ref().map(SideContent::from);
        let candidate = |(number, content): &(i64, engine::SideContent)| CandidateContent {
            number: *number,
            content: SideContent::from(content),
        };
        ReviewContent {
            review: Review::from(&content.review),
            base: side(&content.base),
            ours: side(&content.ours),
            theirs: side(&content.theirs),
            merged: side(&content.merged),
            candidates: content.candidates.iter().map(candidate).collect(),
            regions: regions(&content.regions),
        }
    }
}

/// What came of three texts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MergedTexts {
    /// Whether nothing waits for a choice.
    clean: bool,
    /// How `content` is written.
    #[schemars(with = "EncodingName")]
    encoding: &'static str,
    /// The merged content; parts that conflict are as was chosen, or as ours has them.
    content: String,
    /// The parts that conflict.
    regions: Vec<Region>,
}

impl From<&engine::MergedTexts> for MergedTexts {
    fn from(merged: &engine::MergedTexts) -> Self {
        let (encoding, content) = encoded(&merged.content);
        MergedTexts {
            clean: merged.clean,
            encoding,
            content,
            regions: regions(&merged.regions),
        }
    }
}
