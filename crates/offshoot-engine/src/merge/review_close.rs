//! Reviews that close by themselves, because what they ask is asked anew or has no answer left.

use std::collections::{HashMap, HashSet};

use offshoot_core::{RelPath, Result};
use offshoot_git::ObjectReader;
use offshoot_store::{ForkRow, ReadTx, ReviewRow, ReviewState, WorkspaceKey};

use crate::content::rows::state_of_row;
use crate::content::state::{State, StateEntry};
use crate::formats;
use crate::merge::protect::has_same;
use crate::merge::review_row::{
    ChangedPaths, Decision, Details, KnownReviews, LandsIn, SETTLED, SUPERSEDED, details_of,
};
use crate::project::head::ProjectDraft;

/// Those that a merge or an update of the same workspace would only open again.
pub(crate) fn still_waiting<'a>(
    tx: &dyn ReadTx,
    objects: &dyn ObjectReader,
    known: &'a KnownReviews,
    lands_in: LandsIn,
    theirs: &State,
) -> Result<HashMap<&'a RelPath, &'a ReviewRow>> {
    let mut waiting = HashMap::new();
    for (row, details) in known.open() {
        // What the owner looks at must not become something else under the same name.
        let now = |path: &RelPath| theirs.entry(objects, path);
        let is_same_index = !details.protected || has_same(tx, objects, (row, details), now)?;
        if details.lands_in == lands_in && is_same_index {
            waiting.entry(&row.path).or_insert(row);
        }
    }
    Ok(waiting)
}

/// The reviews of merges that ask already what an update of the workspace finds: the workspace has at
/// their paths what it had when they were opened.
pub(crate) fn asked_by_merges<'a>(
    tx: &dyn ReadTx,
    objects: &dyn ObjectReader,
    known: &'a KnownReviews,
    theirs: &State,
) -> Result<HashMap<&'a RelPath, &'a ReviewRow>> {
    let mut asked = HashMap::new();
    for (row, details) in known.open() {
        let in_project = details.lands_in == LandsIn::Project;
        let now = |path: &RelPath| theirs.entry(objects, path);
        if in_project && agrees(tx, objects, (row, details), now)? {
            asked.entry(&row.path).or_insert(row);
        }
    }
    Ok(asked)
}

/// The reviews of a workspace that close with a merge of it, which opens or goes on with `asked`.
///
/// A protected change that is another one by now is asked about anew, and so is what an update had
/// found where the workspace put something else since. Any other conflict is settled if the same
/// merge does not find it any more, or if the workspace brings something else to its path that fits.
pub(crate) fn closed_by_merge(
    known: &KnownReviews,
    fork: &ForkRow,
    changes: &ChangedPaths,
    asked: &[ReviewRow],
) -> Result<Vec<ReviewRow>> {
    let (ids, paths) = ids_and_paths(asked);
    let mut closed = Vec::new();
    for (row, details) in known.open() {
        let in_project = details.lands_in == LandsIn::Project;
        if ids.contains(row.id.as_str()) {
            continue;
        }
        if paths.contains(&row.path) {
            let is_replaced = match in_project {
                true => details.protected,
                false => brings(changes, row, details),
            };
            if is_replaced {
                closed.push(close(row, details, SUPERSEDED)?);
            }
            continue;
        }
        let is_same_merge = in_project && details.base_snapshot == fork.base;
        if is_same_merge || brings(changes, row, details) {
            closed.push(close(row, details, SETTLED)?);
        }
    }
    Ok(closed)
}

/// The reviews of a workspace that close with an update of it, which opens or goes on with `asked`:
/// what waited for a decision in the workspace, which has put something else there by now, what the
/// project has come to agree with, and what a merge asked where the update asks about something newer.
pub(crate) fn closed_by_update(
    tx: &dyn ReadTx,
    objects: &dyn ObjectReader,
    known: &KnownReviews,
    changes: &ChangedPaths,
    head: &State,
    asked: &[ReviewRow],
) -> Result<Vec<ReviewRow>> {
    let (ids, paths) = ids_and_paths(asked);
    let mut closed = Vec::new();
    for (row, details) in known.open() {
        if ids.contains(row.id.as_str()) {
            continue;
        }
        if details.lands_in == LandsIn::Project && paths.contains(&row.path) {
            closed.push(close(row, details, SUPERSEDED)?);
            continue;
        }
        let is_settled = match details.lands_in {
            LandsIn::Workspace => brings(changes, row, details),
            LandsIn::Project => agrees(tx, objects, (row, details), |path| {
                head.entry(objects, path)
            })?,
        };
        if is_settled && !paths.contains(&row.path) {
            closed.push(close(row, details, SETTLED)?);
        }
    }
    Ok(closed)
}

/// The reviews of other workspaces that a change of their project settles: it has at their paths
/// what those workspaces wanted there.
pub(crate) fn closed_by_agreement(
    tx: &dyn ReadTx,
    objects: &dyn ObjectReader,
    draft: &ProjectDraft,
    but: WorkspaceKey,
) -> Result<Vec<ReviewRow>> {
    let changed = draft.changes.iter();
    let changed: HashMap<&RelPath, Option<StateEntry>> =
        changed.map(|change| (&change.path, change.after)).collect();
    let head = state_of_row(&draft.row);
    let after = |path: &RelPath| match changed.get(path) {
        Some(after) => Ok(*after),
        None => head.entry(objects, path),
    };
    let mut closed = Vec::new();
    for row in tx.reviews(Some(draft.row.key), true)? {
        if row.workspace == but || !changed.contains_key(&row.path) {
            continue;
        }
        let details = details_of(&row)?;
        if details.lands_in == LandsIn::Project && agrees(tx, objects, (&row, &details), after)? {
            closed.push(close(&row, &details, SETTLED)?);
        }
    }
    Ok(closed)
}

/// Whether a project has what a workspace wanted. A review that knows no paths says nothing of that.
fn agrees(
    tx: &dyn ReadTx,
    objects: &dyn ObjectReader,
    (row, details): (&ReviewRow, &Details),
    now: impl Fn(&RelPath) -> Result<Option<StateEntry>>,
) -> Result<bool> {
    Ok(!details.paths.is_empty() && has_same(tx, objects, (row, details), now)?)
}

fn ids_and_paths(rows: &[ReviewRow]) -> (HashSet<&str>, HashSet<&RelPath>) {
    let ids = rows.iter().map(|row| row.id.as_str()).collect();
    (ids, rows.iter().map(|row| &row.path).collect())
}

/// Whether a workspace has changes of its own where a review is: at its path, and for what the owner
/// decides at all that waits with it.
fn brings(changes: &ChangedPaths, row: &ReviewRow, details: &Details) -> bool {
    let brought = |path: &RelPath| changes.contains(path);
    brought(&row.path) && (!details.protected || details.paths.iter().all(brought))
}

fn close(row: &ReviewRow, details: &Details, choice: &str) -> Result<ReviewRow> {
    let details = Details {
        decision: Some(Decision::by_itself(choice)),
        ..details.clone()
    };
    Ok(ReviewRow {
        state: ReviewState::Resolved,
        details: formats::to_text(&details)?,
        ..row.clone()
    })
}
