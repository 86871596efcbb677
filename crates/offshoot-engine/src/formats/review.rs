//! The conflict and the decision of a review.

use offshoot_core::{ObjectId, RelPath};
use serde::{Deserialize, Serialize};

use super::StoredFormat;
use crate::content::as_text;
use crate::merge::regions::PartChoices;
use crate::merge::review_row::{LandsIn, Who};

/// The JSON of a review row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Details {
    pub(crate) kind: String,
    pub(crate) parts: Vec<String>,
    #[serde(with = "as_text::list")]
    pub(crate) related: Vec<RelPath>,
    /// The snapshot of the project that both sides began with.
    #[serde(with = "as_text")]
    pub(crate) base_snapshot: ObjectId,
    /// The snapshot of the workspace that was merged before, from the same base.
    #[serde(default, with = "as_text::optional")]
    pub(crate) since: Option<ObjectId>,
    /// The snapshot of the workspace with the conflicting changes.
    #[serde(with = "as_text::optional")]
    pub(crate) theirs_snapshot: Option<ObjectId>,
    /// The paths of the workspace that belong to the conflict.
    #[serde(with = "as_text::list")]
    pub(crate) paths: Vec<RelPath>,
    /// The content at the path of the decision when the review was opened.
    #[serde(
        default,
        with = "there",
        skip_serializing_if = "ContentAtOpening::is_unknown"
    )]
    pub(crate) there: ContentAtOpening,
    pub(crate) ours_by: Option<Who>,
    pub(crate) theirs_by: Option<Who>,
    pub(crate) decision: Option<Decision>,
    #[serde(default)]
    pub(crate) lands_in: LandsIn,
    /// Whether the conflict is about a protected path, so that only the owner or an admin decides.
    #[serde(default)]
    pub(crate) protected: bool,
}

/// The content at a path when its review was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum ContentAtOpening {
    /// The review was opened by an earlier version, which did not record it.
    #[default]
    Unknown,
    /// This content, or none.
    Content(Option<ObjectId>),
}

impl ContentAtOpening {
    fn is_unknown(&self) -> bool {
        matches!(self, ContentAtOpening::Unknown)
    }
}

mod there {
    use serde::{Deserializer, Serializer};

    use super::ContentAtOpening;
    use crate::content::as_text::optional;

    pub(super) fn serialize<S: Serializer>(
        there: &ContentAtOpening,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match there {
            ContentAtOpening::Unknown => to.serialize_none(),
            ContentAtOpening::Content(content) => optional::serialize(content, to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<ContentAtOpening, D::Error> {
        optional::deserialize(from).map(ContentAtOpening::Content)
    }
}

/// The decision of a person, or what closed the review without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) choice: String,
    #[serde(with = "as_text::optional")]
    pub(crate) content: Option<ObjectId>,
    /// The choices of a decision by parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parts: Option<PartChoices>,
    /// Whether the person who decided may change protected paths. The rights of the caller who lands
    /// the decision do not count.
    #[serde(default)]
    pub(crate) over_protected: bool,
    pub(crate) by: Who,
}

impl StoredFormat for Details {
    const NAME: &'static str = "a review";
    const VERSION: u32 = 2;
}

impl Details {
    /// Replaces the ids in every field that holds one.
    pub(crate) fn replace_ids(&mut self, new: &dyn Fn(ObjectId) -> ObjectId) {
        self.base_snapshot = new(self.base_snapshot);
        if let ContentAtOpening::Content(Some(content)) = &mut self.there {
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
