//! What a merge compares a workspace with.
//!
//! That is the base of the fork, until the fork was merged and stayed where it is, because a
//! program uses its directory. Then the project has what was merged, and comparing with the old
//! base would set the fork against its own work.

use offshoot_core::{EntryKind, Error, ObjectId, RelPath, Result};
use offshoot_store::{ForkRow, ReadTx, ReviewState, WorkspaceKey, WorkspaceRow};

use crate::content::left_out::{reverting_edit, without_left_out};
use crate::content::objects::PendingObjects;
use crate::content::rows::{base_state, state_of};
use crate::content::state::{State, StateEdit, StateEdits, StateEntry};
use crate::merge::review_row::{KnownReviews, LandsIn};

/// The snapshot of a fork whose changes its project got from the base that the fork still has, and
/// still has; none if it was not merged since it got that base, or if that was undone.
///
/// A fork is merged with all that it has. So what a merge brought that was undone later is in every
/// merge after it, up to the undoing: those do not count either. One that came after that brought it
/// again.
pub(crate) fn merged_from_here(tx: &dyn ReadTx, fork: &ForkRow) -> Result<Option<ObjectId>> {
    let number = |snapshot: &Option<ObjectId>| number_of(tx, fork.project, snapshot.as_ref());
    let mut undone = Vec::new();
    for merge in tx.undone_merges(fork.workspace)? {
        undone.push((number(&merge.snapshot)?, number(&merge.undone_by)?));
    }
    let mut next = tx.last_landed(fork.workspace, &fork.base, None)?;
    while let Some(merge) = next {
        let landed = number(&merge.snapshot)?;
        // Later merges are no part of this one, and earlier undoings were before it.
        let is_whole = |&(brought, taken): &(Option<i64>, Option<i64>)| {
            brought > landed || (taken.is_some() && taken < landed)
        };
        if undone.iter().all(is_whole) {
            return Ok(Some(merge.theirs));
        }
        next = tx.last_landed(fork.workspace, &fork.base, Some(&merge.id))?;
    }
    Ok(None)
}

fn number_of(
    tx: &dyn ReadTx,
    project: WorkspaceKey,
    snapshot: Option<&ObjectId>,
) -> Result<Option<i64>> {
    let row = match snapshot {
        Some(id) => tx.snapshot(project, id)?,
        None => None,
    };
    Ok(row.map(|row| row.number))
}

/// Whether a merge of a fork was undone after the project had this head.
pub(crate) fn undone_after(
    tx: &dyn ReadTx,
    fork: &ForkRow,
    head: Option<&ObjectId>,
) -> Result<bool> {
    let then = number_of(tx, fork.project, head)?;
    for merge in tx.undone_merges(fork.workspace)? {
        if number_of(tx, fork.project, merge.undone_by.as_ref())? > then {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The base of a fork without what earlier merges of the same fork had brought into it and somebody
/// undid since. Undoing takes it from the project; the fork, which was kept and moved onto the merged
/// head, still has it as its own change.
pub(crate) fn base_without_undone(
    tx: &dyn ReadTx,
    bench: &mut PendingObjects<'_>,
    fork: &ForkRow,
) -> Result<State> {
    let mut state = base_state(fork);
    let here = number_of(tx, fork.project, Some(&fork.base))?;
    for merge in tx.undone_merges(fork.workspace)?.iter().rev() {
        let (Some(brought), Some(undoing)) = (&merge.snapshot, &merge.undone_by) else {
            continue;
        };
        let is_in_base = number_of(tx, fork.project, Some(brought))? <= here
            && number_of(tx, fork.project, Some(undoing))? > here;
        if is_in_base {
            let merged = around(tx, fork.project, brought)?;
            let undone = around(tx, fork.project, undoing)?;
            state = take_back(bench, state, &merged, &undone)?;
        }
    }
    Ok(state)
}

/// The states of a project before and after a snapshot.
fn around(tx: &dyn ReadTx, project: WorkspaceKey, id: &ObjectId) -> Result<(State, State)> {
    let find = |id: &ObjectId| {
        let row = tx.snapshot(project, id)?;
        row.ok_or_else(|| Error::internal("a snapshot of a merge is gone"))
    };
    let after = find(id)?;
    let before = match &after.parent {
        Some(parent) => state_of(&find(parent)?),
        None => State::default(),
    };
    Ok((before, state_of(&after)))
}

/// Does to a state what undoing a merge did to the head. A path that was changed between the merge,
/// this state and the undoing stays as it is here.
fn take_back(
    bench: &mut PendingObjects<'_>,
    state: State,
    merged: &(State, State),
    undone: &(State, State),
) -> Result<State> {
    let is_dir =
        |entry: &Option<StateEntry>| entry.is_some_and(|entry| entry.kind == EntryKind::Dir);
    let changes = undone.0.diff(bench, &undone.1, &RelPath::root())?;
    let mut edits = StateEdits::new();
    for change in &changes {
        if is_dir(&change.before) || is_dir(&change.after) {
            continue;
        }
        let now = state.entry(bench, &change.path)?;
        let then = if now == change.before {
            change.after
        } else if now == merged.1.entry(bench, &change.path)? {
            merged.0.entry(bench, &change.path)?
        } else {
            continue;
        };
        edits.insert(change.path.clone(), reverting_edit(then, now));
    }
    let mut state = state.edit(bench, &edits)?;
    // Directories that the undoing removed, the inner ones first.
    for change in changes.iter().rev() {
        let is_here = is_dir(&state.entry(bench, &change.path)?);
        let mut is_empty = true;
        state.walk(bench, &change.path, &mut |_, _| {
            is_empty = false;
            Ok(())
        })?;
        if is_dir(&change.before) && change.after.is_none() && is_here && is_empty {
            let gone = StateEdits::from([(change.path.clone(), StateEdit::Remove)]);
            state = state.edit(bench, &gone)?;
        }
    }
    Ok(state)
}

/// What a merge of a fork compares with: its base with what was merged from it since. Conflicts of
/// that merge which still wait were not, and neither was what the owner refused; each merge says
/// that again.
pub(crate) fn merge_base(
    tx: &dyn ReadTx,
    bench: &mut PendingObjects<'_>,
    (row, fork): (&WorkspaceRow, &ForkRow),
    since: Option<&ObjectId>,
    known: &KnownReviews,
) -> Result<State> {
    let base = base_without_undone(tx, bench, fork)?;
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
            edits.insert(path.clone(), reverting_edit(then, now));
        }
    }
    merged.edit(bench, &edits)
}

/// What a fork had when it was merged, without what no merge takes.
pub(crate) fn merged_state(
    tx: &dyn ReadTx,
    bench: &mut PendingObjects<'_>,
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
