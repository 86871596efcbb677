//! Bodies of requests about reviews and merges. An unknown field is refused.

use std::collections::BTreeMap;

use offshoot_core::{Error, RelPath, Result};
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Deserialize;

use super::ID_PATTERN;
use super::project_requests::Encoding;

/// What to take where the two sides conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChoiceWord {
    /// What the project has.
    Ours,
    /// What the workspace has.
    Theirs,
    /// What both began with.
    Base,
    /// Both, ours first.
    Union,
    /// The content of this request.
    Content,
    /// A proposed resolution.
    Candidate,
}

impl ChoiceWord {
    /// The choice for a part; none for a choice that is about the whole file.
    fn for_part(self) -> Option<engine::PartChoice> {
        match self {
            ChoiceWord::Ours => Some(engine::PartChoice::Ours),
            ChoiceWord::Theirs => Some(engine::PartChoice::Theirs),
            ChoiceWord::Base => Some(engine::PartChoice::Base),
            ChoiceWord::Union => Some(engine::PartChoice::Union),
            ChoiceWord::Content | ChoiceWord::Candidate => None,
        }
    }
}

/// What to take of one part, or of many reviews alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PartChoiceWord {
    /// What the project has.
    Ours,
    /// What the workspace has.
    Theirs,
    /// What both began with.
    Base,
    /// Both, ours first.
    Union,
}

impl From<PartChoiceWord> for engine::PartChoice {
    fn from(word: PartChoiceWord) -> Self {
        match word {
            PartChoiceWord::Ours => engine::PartChoice::Ours,
            PartChoiceWord::Theirs => engine::PartChoice::Theirs,
            PartChoiceWord::Base => engine::PartChoice::Base,
            PartChoiceWord::Union => engine::PartChoice::Union,
        }
    }
}

fn part_choices(parts: &BTreeMap<String, PartChoiceWord>) -> BTreeMap<String, engine::PartChoice> {
    let choice = |(name, word): (&String, &PartChoiceWord)| (name.clone(), (*word).into());
    parts.iter().map(choice).collect()
}

/// A decision: one `choice` for all of it, or a choice for each of its `parts`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// What to take; beside `parts` what to take of those that are not named there.
    #[serde(default)]
    pub choice: Option<ChoiceWord>,
    /// What to take of each part that conflicts, by its name in `parts` of the review, such as
    /// `line 3`, or by its number from 1.
    #[serde(default)]
    pub parts: Option<BTreeMap<String, PartChoiceWord>>,
    /// With `parts`: the id of the content of ours that they were chosen for. If it is another by
    /// now nothing is decided.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{40}$"))]
    pub ours: Option<String>,
    /// For `content`: the whole content of the file.
    #[serde(default)]
    pub content: Option<String>,
    /// How the content is written here.
    #[serde(default)]
    pub encoding: Encoding,
    /// For `candidate`: its number.
    #[serde(default)]
    pub candidate: Option<i64>,
}

impl ResolveRequest {
    /// The content that the decision brings along; empty for every other choice. Fails if the
    /// choice and what comes with it do not fit.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let needs = |what: &str| Err(Error::invalid(format!("`{what}` is missing")));
        match (self.choice, &self.content, self.candidate) {
            (Some(ChoiceWord::Content), Some(text), None) => self.encoding.bytes(text),
            (Some(ChoiceWord::Content), None, _) => needs("content"),
            (Some(ChoiceWord::Candidate), None, Some(_)) => Ok(Vec::new()),
            (Some(ChoiceWord::Candidate), _, None) => needs("candidate"),
            (_, None, None) => Ok(Vec::new()),
            _ => Err(Error::invalid(
                "`content` goes with the choice `content` alone, `candidate` with `candidate`",
            )),
        }
    }

    /// The options for the engine.
    pub fn resolution<'a>(&self, bytes: &'a [u8]) -> Result<engine::Resolution<'a>> {
        let Some(parts) = &self.parts else {
            if self.ours.is_some() {
                return Err(Error::invalid("`ours` goes with `parts` alone"));
            }
            let choice = self.choice.ok_or_else(|| {
                Error::invalid("`choice` is missing")
                    .with_hint("give one for all of it, or `parts` with one for each")
            })?;
            return Ok(match choice {
                ChoiceWord::Ours => engine::Resolution::Ours,
                ChoiceWord::Theirs => engine::Resolution::Theirs,
                ChoiceWord::Base => engine::Resolution::Base,
                ChoiceWord::Union => engine::Resolution::Union,
                ChoiceWord::Content => engine::Resolution::Content(engine::Content::Bytes(bytes)),
                ChoiceWord::Candidate => {
                    engine::Resolution::Candidate(self.candidate.unwrap_or_default())
                }
            });
        };
        let rest = match self.choice {
            None => None,
            Some(choice) => Some(choice.for_part().ok_or_else(|| {
                Error::invalid("`content` and `candidate` decide all of it, without `parts`")
            })?),
        };
        let ours = self.ours.as_deref().map(str::parse).transpose()?;
        Ok(engine::Resolution::Parts(engine::PartChoices {
            parts: part_choices(parts),
            rest,
            ours,
        }))
    }
}

/// A decision about many reviews: those that are named, or those that a rule fits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveManyRequest {
    /// What to take of each.
    pub choice: PartChoiceWord,
    /// These; nothing else may be given then.
    #[serde(default)]
    pub reviews: Option<Vec<String>>,
    /// Those of this project.
    #[serde(default)]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub project: Option<String>,
    /// Those of changes of this agent.
    #[serde(default)]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub agent: Option<String>,
    /// Those of changes of this workspace.
    #[serde(default)]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub workspace: Option<String>,
    /// Those of paths like this, such as `docs/**`.
    #[serde(default)]
    pub path: Option<String>,
    /// Those of this kind, such as `both_changed`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only tell which they are.
    #[serde(default)]
    pub dry_run: bool,
}

impl ResolveManyRequest {
    /// The rule; none if reviews are named. One of the two must be given, so that a request without
    /// either does not mean everything.
    pub fn rule(&self) -> Result<Option<engine::ReviewFilter>> {
        let filter = engine::ReviewFilter {
            states: engine::ReviewStates::Open,
            project: self.project.as_deref().map(str::parse).transpose()?,
            agent: self.agent.as_deref().map(str::parse).transpose()?,
            workspace: self.workspace.as_deref().map(str::parse).transpose()?,
            path: self
                .path
                .as_deref()
                .map(engine::Pattern::parse)
                .transpose()?,
            kind: self.kind.clone(),
            lands_in: None,
        };
        let has_rule = filter.project.is_some()
            || filter.agent.is_some()
            || filter.workspace.is_some()
            || filter.path.is_some()
            || filter.kind.is_some();
        match (&self.reviews, has_rule) {
            (Some(_), false) => Ok(None),
            (None, true) => Ok(Some(filter)),
            (Some(_), true) => Err(Error::invalid("`reviews` and a rule exclude each other")),
            (None, false) => Err(
                Error::invalid("nothing says which reviews are meant").with_hint(
                    "give `reviews`, or a rule: `project`, `agent`, `workspace`, `path`, `kind`",
                ),
            ),
        }
    }
}

/// A path whose content lost when a policy decided.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeRequest {
    /// The path.
    pub path: String,
}

/// Three texts to merge. Nothing is stored.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeTextsRequest {
    /// What both began with.
    pub base: String,
    /// One side, such as what is there now.
    pub ours: String,
    /// The other side, such as what was to be saved.
    pub theirs: String,
    /// How the three are written here.
    #[serde(default)]
    pub encoding: Encoding,
    /// The name of the file, which says how it is merged: `a.json` by its structure.
    #[serde(default)]
    pub path: Option<String>,
    /// What to take of each part that conflicts, by its name or its number from 1.
    #[serde(default)]
    pub parts: Option<BTreeMap<String, PartChoiceWord>>,
    /// What to take of the parts that are not named.
    #[serde(default)]
    pub choice: Option<PartChoiceWord>,
}

impl MergeTextsRequest {
    /// Merges them.
    pub fn merge(&self) -> Result<engine::MergedTexts> {
        let path = match &self.path {
            Some(path) => RelPath::parse_text(path)?,
            None => RelPath::from_normal("text"),
        };
        let [base, ours, theirs] =
            [&self.base, &self.ours, &self.theirs].map(|text| self.encoding.bytes(text));
        let (base, ours, theirs) = (base?, ours?, theirs?);
        let choices = engine::PartChoices {
            parts: self.parts.as_ref().map(part_choices).unwrap_or_default(),
            rest: self.choice.map(engine::PartChoice::from),
            ours: None,
        };
        let is_chosen = self.parts.is_some() || self.choice.is_some();
        engine::merge_texts(
            &path,
            [&base, &ours, &theirs],
            is_chosen.then_some(&choices),
        )
    }
}
