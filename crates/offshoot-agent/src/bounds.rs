//! Answers of bounded size: one page of each list, and how many entries there are in all.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use offshoot_core::{Error, RelPath, Result, WorkspaceId};
use offshoot_engine::{Access, Changes};
use offshoot_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The most entries of a list in one answer.
pub(crate) const MAX_ENTRIES: usize = 1000;

/// The number of entries in an answer, limited to [`MAX_ENTRIES`].
pub(crate) fn page_size(asked: Option<usize>) -> usize {
    asked.unwrap_or(MAX_ENTRIES).clamp(1, MAX_ENTRIES)
}

/// A range of paths in their order: one page.
pub(crate) struct PathRange {
    after: Option<RelPath>,
    last: Option<RelPath>,
}

impl PathRange {
    /// The range with at most `limit` of these paths, beginning after the path `after`.
    pub(crate) fn of<'a>(
        paths: impl Iterator<Item = &'a RelPath>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<PathRange> {
        let after = after.map(RelPath::parse_text).transpose()?;
        let is_left = |path: &&RelPath| after.as_ref().is_none_or(|after| *path > after);
        let mut left: Vec<&RelPath> = paths.filter(is_left).collect();
        left.sort_unstable();
        left.dedup();
        let last = match left.len() > limit {
            true => left.get(limit - 1).map(|path| (*path).clone()),
            false => None,
        };
        Ok(PathRange { after, last })
    }

    pub(crate) fn contains(&self, path: &RelPath) -> bool {
        self.after.as_ref().is_none_or(|after| path > after)
            && self.last.as_ref().is_none_or(|last| path <= last)
    }

    /// The value of `after` for the next range; none if there is no more.
    pub(crate) fn next(&self) -> Option<String> {
        self.last.as_ref().map(RelPath::to_text)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusArguments {
    /// Only paths after this: `next` of the answer before.
    #[serde(default)]
    after: Option<String>,
    /// At most so many paths, never more than 1000.
    #[serde(default)]
    limit: Option<usize>,
}

/// One page of the changes.
#[derive(Serialize, JsonSchema)]
pub struct StatusPart {
    #[serde(flatten)]
    status: wire::Status,
    /// How many entries each list has in all.
    total: Totals,
    /// Where the next part begins, to be given as `after`; not there in the last part.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Totals {
    changes: usize,
    ignored: usize,
    refused: usize,
    too_large: usize,
    /// Of the paths in `base_moved`.
    overlap: usize,
}

fn overlap(changes: &Changes) -> &[RelPath] {
    let moved = changes.moved.as_ref();
    moved.map_or(&[], |moved| moved.overlap.as_slice())
}

/// The tool `status`: one range of paths, which all lists are limited to.
pub(crate) fn status(
    access: &Access,
    id: &WorkspaceId,
    asked: &StatusArguments,
) -> Result<StatusPart> {
    status_part(access, id, asked.after.as_deref(), page_size(asked.limit))
}

/// What changed at the first `limit` paths after one.
pub fn status_part(
    access: &Access,
    id: &WorkspaceId,
    after: Option<&str>,
    limit: usize,
) -> Result<StatusPart> {
    let mut changes = access.changes(id)?;
    let total = Totals {
        changes: changes.set.changes.len(),
        ignored: changes.set.ignored.len(),
        refused: changes.refused.len(),
        too_large: changes.too_large.len(),
        overlap: overlap(&changes).len(),
    };
    let changed = changes.set.changes.iter().map(|one| &one.path);
    let refused = changes.refused.iter().map(|(path, _)| path);
    let too_large = changes.too_large.iter().map(|one| &one.path);
    let all = changed.chain(&changes.set.ignored).chain(refused);
    let all = all.chain(too_large).chain(overlap(&changes));
    let range = PathRange::of(all, after, limit)?;
    changes.set.changes.retain(|one| range.contains(&one.path));
    changes.set.ignored.retain(|path| range.contains(path));
    changes.refused.retain(|(path, _)| range.contains(path));
    changes.too_large.retain(|one| range.contains(&one.path));
    if let Some(moved) = &mut changes.moved {
        moved.overlap.retain(|path| range.contains(path));
    }
    Ok(StatusPart {
        status: wire::Status::new(id.as_str(), &changes),
        total,
        next: range.next(),
    })
}

/// The answer to a change, with each list truncated. The rest cannot be requested, so the answer
/// says how long each list was.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Truncated<T> {
    #[serde(flatten)]
    #[schemars(with = "T")]
    answer: Map<String, Value>,
    /// The lists that were truncated to 1000 entries, and how many each has.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<BTreeMap<String, usize>>,
    #[serde(skip)]
    shape: PhantomData<T>,
}

impl<T: Serialize> Truncated<T> {
    pub(crate) fn of(answer: &T) -> Result<Self> {
        let unwritable =
            |cause| Error::internal("an answer could not be written").with_source(cause);
        let Value::Object(mut answer) = serde_json::to_value(answer).map_err(unwritable)? else {
            return Err(Error::internal("an answer is no object"));
        };
        let mut truncated = BTreeMap::new();
        for (name, value) in &mut answer {
            if let Value::Array(items) = value
                && items.len() > MAX_ENTRIES
            {
                truncated.insert(name.clone(), items.len());
                items.truncate(MAX_ENTRIES);
            }
        }
        Ok(Truncated {
            answer,
            truncated: (!truncated.is_empty()).then_some(truncated),
            shape: PhantomData,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse_text(text).unwrap()
    }

    #[test]
    fn parts_follow_each_other_without_a_gap() {
        let all: Vec<RelPath> = ["b", "a", "c/d", "b", "c"].map(path).to_vec();
        let mut after: Option<String> = None;
        let mut parts = Vec::new();
        loop {
            let range = PathRange::of(all.iter(), after.as_deref(), 2).unwrap();
            let held = all.iter().filter(|path| range.contains(path));
            parts.push(held.map(RelPath::to_text).collect::<Vec<_>>());
            after = range.next();
            if after.is_none() {
                break;
            }
        }
        assert_eq!(parts, [vec!["b", "a", "b"], vec!["c/d", "c"]]);
    }

    #[test]
    fn only_long_lists_are_cut() {
        let answer = BTreeMap::from([("long", vec![0; 1001]), ("short", vec![0; 1000])]);
        let cut = serde_json::to_value(Truncated::of(&answer).unwrap()).unwrap();
        assert_eq!(cut["long"].as_array().unwrap().len(), MAX_ENTRIES);
        assert_eq!(cut["short"].as_array().unwrap().len(), 1000);
        assert_eq!(cut["truncated"], serde_json::json!({ "long": 1001 }));
    }
}
