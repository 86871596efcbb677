//! What becomes of a workspace once its merge has landed: it moves onto the merged head, or goes.
//! Nothing here can take the merge back, so what cannot be done now is reported and is no failure.

use offshoot_core::{Cause, ObjectId, Result};
use offshoot_store::{Durability, ReviewState, WorkspaceKey, WorkspaceRow, WorkspaceState};

use crate::content::index::Index;
use crate::content::left_out::LeftOut;
use crate::content::objects::PendingObjects;
use crate::content::rows::{fork_row, open_row_by_key};
use crate::content::too_large::TooLarge;
use crate::formats;
use crate::merge::Merges;
use crate::merge::complete::{Completed, receipt};
use crate::sync::ignored::IgnoredFiles;
use crate::workspace::life::Deleted;

/// What became of a workspace once its merge had landed. Nothing of this can take the merge back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AfterMerge {
    /// Whether it was moved onto the merged head; none if nobody asked for that.
    pub moved: Option<bool>,
    /// Whether it was removed.
    pub removed: bool,
    /// Why a requested step was not done, and the command that does it.
    pub waits: Option<String>,
}

impl AfterMerge {
    /// The workspace is gone.
    pub(crate) fn removed() -> AfterMerge {
        AfterMerge {
            removed: true,
            ..AfterMerge::default()
        }
    }
}

impl Merges {
    /// What became of a workspace that another process merged.
    pub(crate) fn seen_after(&self, workspace: WorkspaceKey, keep: bool) -> Result<AfterMerge> {
        self.store().read(|tx| {
            let row = tx.workspace_by_key(workspace)?;
            let Some(row) = row.filter(|row| row.state == WorkspaceState::Open) else {
                return Ok(AfterMerge::removed());
            };
            let fork = fork_row(tx, &row)?;
            let project = tx.workspace_by_key(fork.project)?;
            let on_head = project.is_some_and(|project| project.head == Some(fork.base));
            Ok(AfterMerge {
                moved: keep.then_some(on_head),
                ..AfterMerge::default()
            })
        })
    }

    /// Moves the workspace onto the merged head, or takes it away. The merge has landed: what
    /// cannot be done now is reported, and is no failure.
    pub(crate) fn after_merge(
        &self,
        row: &WorkspaceRow,
        completed: &mut Completed,
        cause: &Cause,
    ) -> AfterMerge {
        let id = &row.id;
        if completed.keep && completed.waits_whole() {
            return AfterMerge {
                moved: Some(false),
                removed: false,
                waits: Some(format!(
                    "nothing lands before every conflict is decided; `offshoot update {id}` moves it \
                     onto the head then"
                )),
            };
        }
        if completed.keep {
            let moved = self.move_onto_head(id, completed.theirs, cause);
            return AfterMerge {
                moved: Some(matches!(moved, Ok(true))),
                removed: false,
                waits: moved.err().map(|error| {
                    format!("{error}; `offshoot update {id}` moves it onto the merged head")
                }),
            };
        }
        let removal = self.remove_after_merge(row, completed, cause);
        let (removed, stays_for) = match removal {
            Ok(deleted) => {
                completed.ignored_removed = deleted.ignored;
                let unkept = deleted.too_large.iter().map(LeftOut::from);
                for file in unkept.collect::<Vec<_>>() {
                    if !completed.left_out.contains(&file) {
                        completed.left_out.push(file);
                    }
                }
                (
                    deleted.gone,
                    deleted.too_large.first().map(TooLarge::refuse),
                )
            }
            Err(error) => (false, Some(error)),
        };
        AfterMerge {
            moved: None,
            removed,
            waits: stays_for
                .map(|error| format!("{error}; `offshoot complete {id}` removes it later")),
        }
    }

    /// Takes a merged workspace away unless a decision is awaited, it holds more than was merged, or
    /// it holds files that no snapshot can hold. Returns whether it did.
    pub(crate) fn remove_after_merge(
        &self,
        row: &WorkspaceRow,
        completed: &Completed,
        cause: &Cause,
    ) -> Result<Deleted> {
        let (waiting, last) = self.store().read(|tx| {
            let reviews = tx.reviews_of(row.key)?;
            let mut states = reviews.iter().map(|review| review.state);
            let waiting = states.any(|state| state != ReviewState::Resolved);
            Ok((waiting, tx.last_merge(row.key)?))
        })?;
        // An atomic merge may wait although none of its reviews is open any more.
        let has_landed = match &last {
            Some(last) => !receipt(last)?.waits_whole(),
            None => true,
        };
        if waiting || !has_landed {
            return Ok(Deleted::not());
        }
        // The workspace may have changed since: after the merge, or because the process that merged
        // was killed before it came here. That is not merged, so the workspace stays (INV-6).
        let merged = last.map(|last| last.theirs).or(completed.theirs);
        let unchanged = |row: &WorkspaceRow| match &merged {
            Some(theirs) => Ok(!self.has_changed_since(row, theirs)?),
            None => Ok(true),
        };
        // This commit need not be durable: after a crash the workspace is still marked for removal,
        // or it stays.
        let deleted = self.workspaces.delete_workspace_if(
            &row.id,
            completed.include_ignored,
            Durability::Relaxed,
            cause,
            unchanged,
        )?;
        // The workspace is gone. If this fails, a repeated request only lacks these numbers.
        let _ = self.note_ignored(completed, deleted.ignored);
        Ok(deleted)
    }

    /// Notes in the receipt of a merge what went with its workspace, so that asking again gives the
    /// same answer.
    fn note_ignored(&self, completed: &Completed, ignored: IgnoredFiles) -> Result<()> {
        let Some(id) = completed
            .merge_id
            .as_deref()
            .filter(|_| !ignored.is_empty())
        else {
            return Ok(());
        };
        self.store().write(Durability::Relaxed, |tx| {
            let Some(mut merge) = tx.merge(id)? else {
                return Ok(());
            };
            let mut noted = receipt(&merge)?;
            noted.ignored_removed = ignored;
            merge.outcome = formats::receipt_text(&noted)?;
            tx.put_merge(&merge)
        })
    }

    /// Whether a workspace holds something else than a snapshot of it, as far as is recorded.
    fn has_changed_since(&self, row: &WorkspaceRow, snapshot: &ObjectId) -> Result<bool> {
        self.store().read(|tx| {
            let row = open_row_by_key(tx, row)?;
            let index = Index::new(self.store(), tx, &row).with_rows()?;
            let mut bench = PendingObjects::new(&index.objects);
            let now = index
                .base()
                .edit(&mut bench, &index.plan_snapshot(false)?.edits)?;
            let then = tx.snapshot(row.key, snapshot)?;
            Ok(then.is_none_or(|then| crate::content::rows::state_of(&then) != now))
        })
    }
}
