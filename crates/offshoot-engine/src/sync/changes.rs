//! What a workspace changed since its base.

use offshoot_core::{ChangeSet, ObjectId, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_store::{Durability, ForkRow, WorkspaceKind, WorkspaceRow};

use crate::content::change_set::{change_set, leaf_paths, overlapping_paths, topmost};
use crate::content::index::Index;
use crate::content::rows::{base_state, fork_row, open_row_by_key, state_of_row};
use crate::content::snapshot_plan::SnapshotPlan;
use crate::content::state::StateChange;
use crate::content::too_large::TooLarge;
use crate::sync::Synchronizer;
use crate::sync::scan::Synced;

/// How far a fork is behind its project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseMoved {
    /// The project.
    pub project: ProjectId,
    /// Its head.
    pub head: ObjectId,
    /// How many snapshots are newer than the base.
    pub snapshots: i64,
    /// Paths that both changed, as the fork has them. A file where the project has a directory
    /// counts.
    pub overlap: Vec<RelPath>,
}

/// What differs between the base of a workspace and now.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The snapshot that the changes are relative to; none if they are relative to nothing.
    pub base: Option<ObjectId>,
    /// What changed.
    pub set: ChangeSet,
    /// How far the project is ahead, if it is.
    pub moved: Option<BaseMoved>,
    /// What cannot be in the workspace although it is in its directory, with the reason.
    pub refused: Vec<(RelPath, String)>,
    /// Files that were not read for their size. They are in no snapshot.
    pub too_large: Vec<TooLarge>,
}

impl Synchronizer {
    /// What a workspace changed: a fork since its base, another workspace since its newest snapshot.
    /// Outside changes are recorded first.
    pub fn changes(&self, id: &WorkspaceId) -> Result<Changes> {
        let row = self.contents.open_row(id)?;
        if row.kind != WorkspaceKind::Fork {
            let synced = self.sync_workspace(id)?;
            let set = self
                .contents
                .diff_recorded(id, crate::Point::Head, crate::Point::Now)?;
            return Ok(Changes {
                base: row.head,
                set,
                moved: None,
                refused: synced.refused,
                too_large: synced.too_large,
            });
        }
        let mut seen = None;
        let synced = self.sync_and_collect_changes(&row, &mut seen)?;
        let mut changes = match seen {
            Some(changes) => changes,
            None => self.store().read(|tx| {
                let row = open_row_by_key(tx, &row)?;
                let index = Index::new(self.store(), tx, &row).with_rows()?;
                changes_of(&index, &index.plan_snapshot(false)?, &fork_row(tx, &row)?)
            })?,
        };
        let mut ignored = std::mem::take(&mut changes.set.ignored);
        ignored.extend(synced.ignored);
        ignored.sort();
        ignored.dedup();
        changes.set.ignored = topmost(ignored.into_iter());
        changes.refused = synced.refused;
        changes.too_large = synced.too_large;
        Ok(changes)
    }

    /// Records what outside programs changed in a fork. If that was nothing, `seen` gets what the fork
    /// changed since its base.
    fn sync_and_collect_changes(
        &self,
        row: &WorkspaceRow,
        seen: &mut Option<Changes>,
    ) -> Result<Synced> {
        if !row.handed_out {
            return Ok(Synced::default());
        }
        let _lock = self.directories.exclusive(row)?;
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        if !row.handed_out || !row.materialized {
            return Ok(Synced::default());
        }
        self.directories.ensure_directory_locked(&row)?;
        let dir = self.directories.dir_of(&row)?;
        let place = self.context.data.workspace(&row.id);
        self.sync_fork(&row, &dir, &place, false, Durability::Synced, Some(seen))
    }
}

/// What a fork changed since its base, by the index alone.
pub(crate) fn changes_of(
    index: &Index<'_>,
    plan: &SnapshotPlan,
    fork: &ForkRow,
) -> Result<Changes> {
    let changed = base_state(fork).diff_edited(&index.objects, &index.base(), &plan.edits)?;
    let mut set = change_set(&changed);
    set.ignored = plan.ignored.iter().map(|row| row.path.clone()).collect();
    Ok(Changes {
        base: Some(fork.base),
        set,
        moved: base_moved(index, fork, &changed)?,
        refused: Vec::new(),
        too_large: Vec::new(),
    })
}

/// How far the project of a fork is ahead of the fork's base.
fn base_moved(
    index: &Index<'_>,
    fork: &ForkRow,
    changed: &[StateChange],
) -> Result<Option<BaseMoved>> {
    let tx = index.tx;
    let Some(project) = tx.workspace_by_key(fork.project)? else {
        return Ok(None);
    };
    let Some(head) = project.head.filter(|head| *head != fork.base) else {
        return Ok(None);
    };
    let number = |id: &ObjectId| -> Result<i64> {
        Ok(tx.snapshot(project.key, id)?.map_or(0, |row| row.number))
    };
    let ours = base_state(fork).diff(&index.objects, &state_of_row(&project), &RelPath::root())?;
    Ok(Some(BaseMoved {
        project: project.id.as_str().parse()?,
        head,
        snapshots: number(&head)? - number(&fork.base)?,
        overlap: overlapping_paths(&leaf_paths(changed), &leaf_paths(&ours)),
    }))
}
