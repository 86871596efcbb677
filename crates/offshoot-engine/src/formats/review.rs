//! What a review keeps of a conflict and of its decision.

use offshoot_core::{ObjectId, RelPath};
use serde::{Deserialize, Serialize};

use super::Stored;
use crate::content::as_text;
use crate::merge::regions::PartChoices;
use crate::merge::review_row::{LandsIn, Who};

/// What a review row keeps as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Details {
    pub(crate) kind: String,
    pub(crate) parts: Vec<String>,
    #[serde(with = "as_text::list")]
    pub(crate) related: Vec<RelPath>,
    /// The snapshot of the project that both began with.
    #[serde(with = "as_text")]
    pub(crate) base_snapshot: ObjectId,
    /// The snapshot of the workspace that the project had got before, from the same base.
    #[serde(default, with = "as_text::optional")]
    pub(crate) since: Option<ObjectId>,
    /// The snapshot of the workspace whose changes these are.
    #[serde(with = "as_text::optional")]
    pub(crate) theirs_snapshot: Option<ObjectId>,
    /// The paths of the workspace that belong to it.
    #[serde(with = "as_text::list")]
    pub(crate) paths: Vec<RelPath>,
    /// The content at the path where the decision goes, when the review was opened.
    #[serde(default, with = "there", skip_serializing_if = "There::is_unknown")]
    pub(crate) there: There,
    pub(crate) ours_by: Option<Who>,
    pub(crate) theirs_by: Option<Who>,
    pub(crate) decision: Option<Decision>,
    #[serde(default)]
    pub(crate) lands_in: LandsIn,
    /// Whether it is about a protected path, so that only the owner decides.
    #[serde(default)]
    pub(crate) protected: bool,
}

/// What stood at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum There {
    /// An earlier version opened the review, and did not note it.
    #[default]
    Unknown,
    /// This content, or none.
    Content(Option<ObjectId>),
}

impl There {
    fn is_unknown(&self) -> bool {
        matches!(self, There::Unknown)
    }
}

mod there {
    use serde::{Deserializer, Serializer};

    use super::There;
    use crate::content::as_text::optional;

    pub(super) fn serialize<S: Serializer>(there: &There, to: S) -> Result<S::Ok, S::Error> {
        match there {
            There::Unknown => to.serialize_none(),
            There::Content(content) => optional::serialize(content, to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<There, D::Error> {
        optional::deserialize(from).map(There::Content)
    }
}

/// What somebody decided, or what closed the review without anybody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) choice: String,
    #[serde(with = "as_text::optional")]
    pub(crate) content: Option<ObjectId>,
    /// For a choice by parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parts: Option<PartChoices>,
    /// Whether whoever decided may change protected paths. It is they who decided, so it is their
    /// rights that count, whoever makes it land.
    #[serde(default)]
    pub(crate) over_protected: bool,
    pub(crate) by: Who,
}

impl Stored for Details {
    const NAME: &'static str = "a review";
    const VERSION: u32 = 2;
}

impl Details {
    /// Puts other ids in the place of those that are named, in every field that holds one.
    pub(crate) fn replace_ids(&mut self, new: &dyn Fn(ObjectId) -> ObjectId) {
        self.base_snapshot = new(self.base_snapshot);
        if let There::Content(Some(content)) = &mut self.there {
            *content = new(*content);
        }
        let of_decision = self.decision.iter_mut().flat_map(|decision| {
            let ours = decision.parts.as_mut().map(|parts| &mut parts.ours);
            [Some(&mut decision.content), ours].into_iter().flatten()
        });
        let own = [&mut self.since, &mut self.theirs_snapshot];
        for id in own.into_iter().chain(of_decision).flatten() {
            *id = new(*id);
        }
    }
}
