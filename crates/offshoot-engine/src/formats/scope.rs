//! The scope of a token: what the token may do.

use serde::{Deserialize, Serialize};

use super::StoredFormat;
use crate::access::{Operation, PrincipalKind};
use crate::content::rows::ParentProject;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredScope {
    pub(crate) kind: PrincipalKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) home: Option<ParentProject>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) allow: Vec<StoredRule>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredRule {
    pub(crate) pattern: String,
    pub(crate) operations: Vec<Operation>,
}

impl StoredFormat for StoredScope {
    const NAME: &'static str = "the scope of a token";
    const VERSION: u32 = 2;
}
