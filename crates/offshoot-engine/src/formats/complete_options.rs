//! The options of a merge that was requested and is not done yet.

use offshoot_core::{ObjectId, Result};
use serde::{Deserialize, Serialize};

use super::{StoredFormat, parse_text, to_text};
use crate::content::as_text;
use crate::merge::complete::{CompleteOptions, PushedCommit};
use crate::project::policy::Policy;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredOptions {
    pub(super) policy: Option<Policy>,
    pub(super) atomic: Option<bool>,
    pub(super) keep: bool,
    pub(super) include_ignored: bool,
    #[serde(default)]
    pub(super) label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) push: Option<StoredPush>,
}

/// A pushed commit, also in receipts.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredPush {
    #[serde(with = "as_text")]
    commit: ObjectId,
    over_protected: bool,
    all_or_nothing: bool,
}

impl From<PushedCommit> for StoredPush {
    fn from(push: PushedCommit) -> Self {
        StoredPush {
            commit: push.commit,
            over_protected: push.over_protected,
            all_or_nothing: push.all_or_nothing,
        }
    }
}

impl From<StoredPush> for PushedCommit {
    fn from(push: StoredPush) -> Self {
        PushedCommit {
            commit: push.commit,
            over_protected: push.over_protected,
            all_or_nothing: push.all_or_nothing,
        }
    }
}

impl StoredFormat for StoredOptions {
    const NAME: &'static str = "the request of a merge";
    const VERSION: u32 = 2;
}

pub(crate) fn complete_options_text(options: &CompleteOptions) -> Result<String> {
    to_text(&StoredOptions {
        policy: options.policy,
        atomic: options.atomic,
        keep: options.keep,
        include_ignored: options.include_ignored,
        label: options.label.clone(),
        push: options.push.map(StoredPush::from),
    })
}

pub(crate) fn parse_complete_options(text: &str) -> Result<CompleteOptions> {
    let stored: StoredOptions = parse_text(text)?;
    Ok(CompleteOptions {
        policy: stored.policy,
        atomic: stored.atomic,
        keep: stored.keep,
        include_ignored: stored.include_ignored,
        label: stored.label,
        push: stored.push.map(PushedCommit::from),
    })
}
