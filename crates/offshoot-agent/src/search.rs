//! Finding a text in the files of a workspace.

use offshoot_core::{EntryKind, Error, RelPath, Result, WorkspaceId};
use offshoot_engine::{Access, Pattern};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tools::text_of;

/// Larger files are left out.
const LARGEST: u64 = 4 << 20;
/// The most matches in one answer.
const MOST: usize = 1000;
/// A longer line is cut.
const LINE: usize = 500;

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
    /// There are more than could be told.
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
    let glob = asked.glob.as_deref().map(Pattern::parse).transpose()?;
    let limit = asked.limit.unwrap_or(100).clamp(1, MOST);
    let mut matches = Vec::new();
    for entry in access.walk(id, &RelPath::root())? {
        let wanted = glob.as_ref().is_none_or(|glob| glob.matches(&entry.path));
        if entry.kind != EntryKind::File || !wanted || entry.size > LARGEST {
            continue;
        }
        // It may have gone away meanwhile.
        let Ok(file) = access.open_entry(id, &entry.path) else {
            continue;
        };
        let Some(text) = text_of(file, LARGEST) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            if !line.contains(&asked.pattern) {
                continue;
            }
            if matches.len() == limit {
                return Ok(Matches {
                    matches,
                    truncated: true,
                });
            }
            let line: String = line.chars().take(LINE).collect();
            matches.push(Match {
                path: entry.path.to_text(),
                line: number + 1,
                text: line,
            });
        }
    }
    Ok(Matches {
        matches,
        truncated: false,
    })
}
