//! What a merge compares a workspace with.
//!
//! That is the base of the fork, until the fork was merged and stayed where it is, because a program
//! stands in its directory. Then the project has what was merged, and comparing with the old base
//! would set the fork against its own work.

use offshoot_core::{ObjectId, Result};
use offshoot_store::{ForkRow, ReadTx, ReviewState, WorkspaceRow};

use crate::content::left_out::{edit_back, without_left_out};
use crate::content::objects::Workbench;
use crate::content::rows::{base_state, fork_row, state_of};
use crate::content::state::{State, StateEdits};
use crate::merge::review_row::{KnownReviews, LandsIn};

/// The snapshot of a fork whose changes its project got from the base that the fork still has, and
/// still has; none if it was not merged since it got that base, or if that was undone.
///
/// A fork is merged with all that it has. So what a merge brought that was undone later is in every
/// merge after it, up to the undoing: those do not count either. One that came after that brought it
/// again.
pub(crate) fn merged_from_here(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<Option<ObjectId>> {
    let fork = fork_row(tx, row)?;
    let number = |snapshot: &Option<ObjectId>| -> Result<Option<i64>> {
        let row = match snapshot {
            Some(id) => tx.snapshot(fork.project, id)?,
            None => None,
        };
        Ok(row.map(|row| row.number))
    };
    let mut undone = Vec::new();
    for merge in tx.undone_merges(row.key, &fork.base)? {
        undone.push((number(&merge.snapshot)?, number(&merge.undone_by)?));
    }
    let mut next = tx.last_landed(row.key, &fork.base, None)?;
    while let Some(merge) = next {
        let landed = number(&merge.snapshot)?;
        // Later merges are no part of this one, and earlier undoings were before it.
        let is_whole = |&(brought, taken): &(Option<i64>, Option<i64>)| {
            brought > landed || (taken.is_some() && taken < landed)
        };
        if undone.iter().all(is_whole) {
            return Ok(Some(merge.theirs));
        }
        next = tx.last_landed(row.key, &fork.base, Some(&merge.id))?;
    }
    Ok(None)
}

/// What a merge of a fork compares with: its base with what was merged from it since. Conflicts of
/// that merge which still wait were not, and neither was what the owner refused; each merge says
/// that again.
pub(crate) fn merge_base(
    tx: &dyn ReadTx,
    bench: &mut Workbench<'_>,
    (row, fork): (&WorkspaceRow, &ForkRow),
    since: Option<&ObjectId>,
    known: &KnownReviews,
) -> Result<State> {
    let base = base_state(fork);
    let Some(merged) = merged_state(tx, bench, row, &base, since)? else {
        return Ok(base);
    };
    let mut edits = StateEdits::new();
    for (row, details) in known.all() {
        let waits = row.state != ReviewState::Resolved;
        let choice = details.decision.as_ref().map(|one| one.choice.as_str());
        let is_refused = details.protected && matches!(choice, Some("ours" | "base"));
        if details.lands_in != LandsIn::Project || !(waits || is_refused) {
            continue;
        }
        for path in &details.paths {
            let (then, now) = (base.entry(bench, path)?, merged.entry(bench, path)?);
            edits.insert(path.clone(), edit_back(then, now));
        }
    }
    merged.edit(bench, &edits)
}

/// What a fork had when it was merged, without what no merge takes.
pub(crate) fn merged_state(
    tx: &dyn ReadTx,
    bench: &mut Workbench<'_>,
    row: &WorkspaceRow,
    base: &State,
    since: Option<&ObjectId>,
) -> Result<Option<State>> {
    let merged = match since {
        Some(since) => tx.snapshot(row.key, since)?,
        None => None,
    };
    match merged {
        Some(merged) => without_left_out(bench, base, &state_of(&merged)).map(Some),
        None => Ok(None),
    }
}
