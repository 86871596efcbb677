//! The merge policies of a project and the patterns of its protected paths.

use offshoot_core::Result;
use serde::{Deserialize, Serialize};

use super::{StoredFormat, parse_text, to_text};
use crate::project::policy::{PathPolicy, Policy};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredPolicies {
    pub(super) policies: Vec<StoredPolicy>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredPolicy {
    pub(super) path: String,
    pub(super) policy: Policy,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredPatterns {
    pub(super) patterns: Vec<String>,
}

impl StoredFormat for StoredPolicies {
    const NAME: &'static str = "the policies of a project";
    const VERSION: u32 = 2;

    /// Version 1 was the list alone.
    fn parse_earlier(_version: u32, text: &[u8]) -> serde_json::Result<Self> {
        let policies = serde_json::from_slice(text)?;
        Ok(StoredPolicies { policies })
    }
}

impl StoredFormat for StoredPatterns {
    const NAME: &'static str = "the protected paths of a project";
    const VERSION: u32 = 2;

    /// Version 1 was the list alone.
    fn parse_earlier(_version: u32, text: &[u8]) -> serde_json::Result<Self> {
        let patterns = serde_json::from_slice(text)?;
        Ok(StoredPatterns { patterns })
    }
}

pub(crate) fn policies_text(policies: &[PathPolicy]) -> Result<String> {
    let stored = |one: &PathPolicy| StoredPolicy {
        path: one.path.clone(),
        policy: one.policy,
    };
    to_text(&StoredPolicies {
        policies: policies.iter().map(stored).collect(),
    })
}

pub(crate) fn parse_policies(text: &str) -> Result<Vec<PathPolicy>> {
    let stored: StoredPolicies = parse_text(text)?;
    let policies = stored.policies.into_iter().map(|one| PathPolicy {
        path: one.path,
        policy: one.policy,
    });
    Ok(policies.collect())
}

pub(crate) fn protected_text(patterns: &[impl ToString]) -> Result<String> {
    to_text(&StoredPatterns {
        patterns: patterns.iter().map(ToString::to_string).collect(),
    })
}

pub(crate) fn parse_protected(text: &str) -> Result<Vec<String>> {
    let stored: StoredPatterns = parse_text(text)?;
    Ok(stored.patterns)
}
