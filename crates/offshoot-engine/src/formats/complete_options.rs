//! The options of a merge that was requested and is not done yet.

use offshoot_core::Result;
use serde::{Deserialize, Serialize};

use super::{StoredFormat, parse_text, to_text};
use crate::merge::complete::CompleteOptions;
use crate::project::policy::Policy;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredOptions {
    pub(super) policy: Option<Policy>,
    pub(super) atomic: Option<bool>,
    pub(super) keep: bool,
    pub(super) include_ignored: bool,
    #[serde(default)]
    pub(super) label: Option<String>,
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
    })
}
