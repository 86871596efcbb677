//! Conflicts that wait for a decision.

use offshoot_core::Result;
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::merges::part;
use super::workspace::IgnoredFiles;
use super::{Time, hex, time};

/// One review.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Review {
    id: String,
    project: String,
    workspace: String,
    /// The merge that found it; none if an update of the workspace did.
    merge_id: Option<String>,
    /// Where the decision goes: `project` or `workspace`.
    lands_in: &'static str,
    path: String,
    /// All parts in one text; none means the whole path.
    part: Option<String>,
    parts: Vec<String>,
    /// Why; `protected` if it fits and waits because its path is protected.
    kind: String,
    /// Whether only the owner or an admin decides it.
    protected: bool,
    state: &'static str,
    base: Option<String>,
    ours: Option<String>,
    theirs: Option<String>,
    ours_by: Option<Who>,
    theirs_by: Option<Who>,
    changed_since: bool,
    opened_at: Time,
    decision: Option<Decision>,
    snapshot: Option<String>,
    candidates: Vec<Candidate>,
    /// What ours made of the base, in the unified format; only of a review shown by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_diff: Option<String>,
    /// What theirs made of the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    theirs_diff: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Who {
    operator: String,
    claim: Option<String>,
    message_id: Option<String>,
    at: Time,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Decision {
    choice: String,
    #[serde(flatten)]
    by: Who,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Candidate {
    number: i64,
    content: String,
    note: Option<String>,
    #[serde(flatten)]
    by: Who,
}

impl From<&engine::Who> for Who {
    fn from(who: &engine::Who) -> Self {
        Who {
            operator: who.operator.clone(),
            claim: who.claim.clone(),
            message_id: who.message_id.clone(),
            at: Time(who.at.clone()),
        }
    }
}

impl From<&engine::Review> for Review {
    fn from(review: &engine::Review) -> Self {
        let decision = |(choice, by): &(String, engine::Who)| Decision {
            choice: choice.clone(),
            by: Who::from(by),
        };
        let candidate = |one: &engine::Candidate| Candidate {
            number: one.number,
            content: one.content.to_hex(),
            note: one.note.clone(),
            by: Who::from(&one.by),
        };
        Review {
            id: review.id.clone(),
            project: review.project.clone(),
            workspace: review.workspace.clone(),
            merge_id: review.merge_id.clone(),
            lands_in: review.lands_in.as_str(),
            path: review.path.to_text(),
            part: part(&review.parts),
            parts: review.parts.clone(),
            kind: review.kind.clone(),
            protected: review.protected,
            state: review.state,
            base: hex(review.base),
            ours: hex(review.ours),
            theirs: hex(review.theirs),
            ours_by: review.ours_by.as_ref().map(Who::from),
            theirs_by: review.theirs_by.as_ref().map(Who::from),
            changed_since: review.changed_since,
            opened_at: time(review.opened_at),
            decision: review.decision.as_ref().map(decision),
            snapshot: hex(review.snapshot),
            candidates: review.candidates.iter().map(candidate).collect(),
            ours_diff: None,
            theirs_diff: None,
        }
    }
}

impl Review {
    /// A review with the changes of each side; none where there are no lines.
    pub fn with_differences(
        review: &engine::Review,
        ours: Option<Vec<u8>>,
        theirs: Option<Vec<u8>>,
    ) -> Self {
        let text = |hunks: Vec<u8>| String::from_utf8_lossy(&hunks).into_owned();
        Review {
            ours_diff: ours.map(text),
            theirs_diff: theirs.map(text),
            ..Review::from(review)
        }
    }
}

/// Several reviews, in the order in which they were opened.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Reviews {
    reviews: Vec<Review>,
}

impl Reviews {
    /// A single one.
    pub fn one(review: Review) -> Self {
        Reviews {
            reviews: vec![review],
        }
    }
}

impl From<&[engine::Review]> for Reviews {
    fn from(reviews: &[engine::Review]) -> Self {
        Reviews {
            reviews: reviews.iter().map(Review::from).collect(),
        }
    }
}

/// What a decision did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Resolved {
    review: Review,
    snapshot: Option<String>,
    recomputed: bool,
    /// Why the workspace that was kept for its reviews is not gone, and what removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<String>,
    /// Ignored files that went with the workspace, if it went with this decision.
    ignored_removed: IgnoredFiles,
}

impl From<&engine::Resolved> for Resolved {
    fn from(resolved: &engine::Resolved) -> Self {
        Resolved {
            review: Review::from(&resolved.review),
            snapshot: hex(resolved.snapshot.as_ref().map(|one| one.id)),
            recomputed: resolved.recomputed,
            waits: resolved.waits.clone(),
            ignored_removed: resolved.ignored_removed.into(),
        }
    }
}

/// What came of a decision about many reviews.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ManyResolved {
    /// Those that were decided; with `dry_run` those that would be.
    reviews: Vec<Review>,
    /// Those that could not be decided so, each with the reason; they are as they were.
    failed: Vec<NotResolved>,
    /// Whether the rule fits more of them: ask again.
    more: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NotResolved {
    id: String,
    code: String,
    message: String,
    hint: Option<String>,
}

impl ManyResolved {
    /// Converts the plan of the engine.
    pub fn planned(reviews: &[engine::Review], more: bool) -> Self {
        ManyResolved {
            reviews: reviews.iter().map(Review::from).collect(),
            failed: Vec::new(),
            more,
        }
    }

    /// Converts the results of the engine.
    pub fn new(outcomes: &[(String, Result<engine::Resolved>)], more: bool) -> Self {
        let mut all = ManyResolved::planned(&[], more);
        for (id, outcome) in outcomes {
            match outcome {
                Ok(resolved) => all.reviews.push(Review::from(&resolved.review)),
                Err(error) => all.failed.push(NotResolved {
                    id: id.clone(),
                    code: error.code().as_str().to_owned(),
                    message: error.to_string(),
                    hint: error.hint().map(str::to_owned),
                }),
            }
        }
        all
    }
}
