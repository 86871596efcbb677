//! What differs between two recorded states of a workspace.

use offshoot_core::{ChangeSet, EntryKind, Error, RelPath, Result, WorkspaceId};
use offshoot_store::{WorkspaceKind, WorkspaceState};

use crate::content::Contents;
use crate::content::change_set::{change_set, topmost};
use crate::content::index::Index;
use crate::content::objects::PendingObjects;
use crate::content::rows::{base_state, fork_row, last_row_in, state_of, state_of_row};
use crate::content::state::State;

impl Contents {
    /// What differs between two recorded states, without a sync of the directory.
    pub(crate) fn diff_recorded(
        &self,
        id: &WorkspaceId,
        from: Point<'_>,
        to: Point<'_>,
    ) -> Result<ChangeSet> {
        self.store().read(|tx| {
            let row = last_row_in(tx, id)?;
            let index = Index::new(self.store(), tx, &row).with_rows()?;
            let plan = index.plan_snapshot(false)?;
            let ended = row.state == WorkspaceState::Closed;
            let state = |point: Point<'_>, new_objects: &mut PendingObjects<'_>| -> Result<State> {
                match point {
                    Point::Now => index.base().edit(new_objects, &plan.edits),
                    Point::Snapshot(text) => Ok(state_of(&self.find_snapshot(tx, &row, text)?)),
                    Point::Base | Point::Project if row.kind != WorkspaceKind::Fork => {
                        Err(Error::invalid(format!("`{id}` is no fork"))
                            .with_hint("compare it with a snapshot of its own"))
                    }
                    Point::Base => Ok(base_state(&fork_row(tx, &row)?)),
                    Point::Project => {
                        let project = tx.workspace_by_key(fork_row(tx, &row)?.project)?;
                        let gone = || Error::internal("the project of a fork is gone");
                        Ok(state_of_row(&project.ok_or_else(gone)?))
                    }
                    Point::Head if ended && row.kind == WorkspaceKind::Fork => {
                        Ok(base_state(&fork_row(tx, &row)?))
                    }
                    Point::Head => match &row.head {
                        None => Ok(State::default()),
                        Some(head) => {
                            let head = tx.snapshot(row.key, head)?;
                            Ok(head.map_or_else(State::default, |head| state_of(&head)))
                        }
                    },
                }
            };
            let mut new_objects = PendingObjects::new(&index.objects);
            let from = state(from, &mut new_objects)?;
            let changes = match to {
                // The current state is compared without building its trees.
                Point::Now => from.diff_edited(&new_objects, &index.base(), &plan.edits)?,
                _ => {
                    let to = state(to, &mut new_objects)?;
                    from.diff(&new_objects, &to, &RelPath::root())?
                }
            };
            let mut set = change_set(&changes);
            if matches!(to, Point::Now) {
                // Paths that the layout does not allow are not reported as ignored.
                let by_rules = plan.ignored.iter().filter(|one| {
                    let is_dir = one.kind == Some(EntryKind::Dir);
                    row.layout.may_hold(&one.path, is_dir)
                });
                set.ignored = topmost(by_rules.map(|one| one.path.clone()));
            }
            Ok(set)
        })
    }
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub enum Point<'a> {
    /// The state now.
    Now,
    /// The newest snapshot, or nothing if there is none.
    Head,
    /// A snapshot, by id or prefix.
    Snapshot(&'a str),
    /// Of a fork: the snapshot of its project that it began with, or was moved to.
    Base,
    /// Of a fork: what its project is now.
    Project,
}
