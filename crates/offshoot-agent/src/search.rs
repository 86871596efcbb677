//! Finding a text in the files of a workspace.

use offshoot_core::{Error, Result, WorkspaceId};
use offshoot_engine::{Access, Pattern};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::find::{SearchQuery, SearchScope, find};

/// The most matches in one answer.
const MOST: usize = 1000;

/// What to look for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    /// The text, as it stands in a line.
    pattern: String,
    /// Only paths like this, such as `src/**/*.rs`.
    #[serde(default)]
    glob: Option<String>,
    /// At most so many matches.
    #[serde(default)]
    limit: Option<usize>,
}

/// What was found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Matches {
    /// Line by line.
    matches: Vec<Match>,
    /// There are more matches than are listed.
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    path: String,
    /// The number of the line, from 1.
    line: usize,
    text: String,
}

/// Looks through every file that may be read.
pub(crate) fn search(access: &Access, id: &WorkspaceId, asked: &Search) -> Result<Matches> {
    if asked.pattern.is_empty() {
        return Err(Error::invalid(
            "`pattern` is empty, so there is nothing to look for",
        ));
    }
    let limit = asked.limit.unwrap_or(100).clamp(1, MOST);
    let mut wanted = SearchQuery {
        text: Some(asked.pattern.clone()),
        glob: asked.glob.as_deref().map(Pattern::parse).transpose()?,
        limit,
        ..SearchQuery::default()
    };
    let place = SearchScope::Workspace(id.clone());
    let mut matches = Vec::new();
    loop {
        let found = find(access, &place, &wanted, &|| false)?;
        matches.extend(found.matches.into_iter().map(|found| Match {
            path: found.path,
            line: found.line.unwrap_or_default(),
            text: found.text.unwrap_or_default(),
        }));
        // One call ends after so many bytes, although there may be more to find.
        let truncated = found.next.is_some() && matches.len() >= limit;
        if truncated || found.next.is_none() {
            return Ok(Matches { matches, truncated });
        }
        wanted.after = found.next;
        wanted.limit = limit - matches.len();
    }
}
