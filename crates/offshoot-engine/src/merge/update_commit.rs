//! The transaction of an update: new base, entries, history and reviews together.

use offshoot_core::{Cause, EntryKind, Error, ErrorCode, ObjectId, Result};
use offshoot_store::{Durability, EntryRow, HistoryOp, ReadTx, Via, WorkspaceRow, WriteTx};

use crate::content::change_set::{kind_of, op_of};
use crate::content::counters::CounterDelta;
use crate::content::draft::is_same_index;
use crate::content::history_writer::{LineTemplate, changed_row};
use crate::content::index::{Entry, Index, missing_dirs_in, new_dir_rows};
use crate::content::rows::{fork_row, open_row_by_key};
use crate::content::workspace_row::{line_of, put_row};
use crate::directory::layers::Stack;
use crate::merge::Merges;
use crate::merge::update::{UpdatePlan, ignored_in_the_way};
use crate::workspace::snapshot::FoldedRows;

impl Merges {
    /// Writes the update: the new base, the entries, the history and the reviews, in one transaction.
    pub(super) fn commit_update(
        &self,
        row: &WorkspaceRow,
        plan: &UpdatePlan,
        stack: Option<&Stack>,
        kept: Option<ObjectId>,
        cause: &Cause,
    ) -> Result<()> {
        let at = self.context.now();
        let (then, folded, ignored) = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let pending = Index::new(self.store(), tx, &now)
                .with_rows()?
                .plan_snapshot(false)?;
            Ok((now, FoldedRows::new(&pending), pending.ignored))
        })?;
        self.store().write(Durability::Synced, |tx| {
            let before = open_row_by_key(tx, row)?;
            let mut fork = fork_row(tx, &before)?;
            if before.revision != row.revision
                || !is_same_index(&before, &then)
                || fork.place != plan.fork.place
            {
                return Err(Error::new(
                    ErrorCode::WorkspaceBusy,
                    "the workspace was changed during the update",
                )
                .with_hint("nothing was updated; try again"));
            }
            for object in &plan.objects {
                tx.put_object(object)?;
            }
            let mut next = changed_row(&before, at);
            next.tree = plan.desired.tree;
            next.sidecar = plan.desired.sidecar;
            folded.remove(tx, before.key)?;
            let mut tally = record_update(tx, plan, &next, kept, cause)?;
            let line = LineTemplate {
                row: &next,
                at,
                via: Via::Update,
                cause,
            };
            let above = self.dirs_above_ignored(tx, &next, &ignored)?;
            for dir in &above {
                tally.replace(None, dir)?;
                tx.put_entry(before.key, dir)?;
                tx.add_history(&line.mkdir(&dir.path))?;
            }
            tally.add_to(&mut next);
            record_reviews(tx, plan, &next, cause)?;
            fork.base = plan.head.id;
            fork.base_tree = plan.head.tree;
            fork.base_sidecar = plan.head.sidecar;
            if let Some(stack) = stack {
                if !stack.has_rows(tx)? {
                    return Err(Error::new(
                        ErrorCode::WorkspaceBusy,
                        "the layers of the project changed during the update",
                    )
                    .with_hint("nothing was updated; try again"));
                }
                fork.layer = Some(stack.top);
                fork.setup = stack.setup;
                fork.place += 1;
            }
            tx.put_fork(&fork)?;
            put_row(tx, &before, &next)
        })
    }

    /// The directories above ignored entries that the project has no more. What it has at the path
    /// of one, or as a file above it, is in the way.
    fn dirs_above_ignored(
        &self,
        tx: &dyn ReadTx,
        next: &WorkspaceRow,
        ignored: &[EntryRow],
    ) -> Result<Vec<EntryRow>> {
        let index = Index::new(self.store(), tx, next).with_tree_cache();
        let mut above = Vec::new();
        for row in ignored {
            if index.shown_by_base(&row.path)?.is_some() {
                return Err(ignored_in_the_way(&row.path));
            }
            let parent = index.entry(&row.path.parent().unwrap_or_default())?;
            if parent.is_some_and(|parent| parent.is_dir()) {
                continue;
            }
            let steps = index.steps(&row.path)?;
            let is_file = |there: Option<Entry>| there.is_some_and(|there| !there.is_dir());
            let dirs = &steps[1..steps.len() - 1];
            if let Some((place, _)) = dirs.iter().find(|(_, there)| is_file(*there)) {
                return Err(ignored_in_the_way(place));
            }
            for dir in new_dir_rows(&index, &missing_dirs_in(&steps)?, next.revision)? {
                index.draft(&dir.path, Some(dir.clone()));
                above.push(dir);
            }
        }
        Ok(above)
    }
}

fn record_update(
    tx: &mut dyn WriteTx,
    plan: &UpdatePlan,
    next: &WorkspaceRow,
    kept: Option<ObjectId>,
    cause: &Cause,
) -> Result<CounterDelta> {
    let at = next.changed_at;
    let mut top = line_of(next, HistoryOp::Update, cause, at);
    top.via = Via::Update;
    top.before = kept;
    top.after = Some(plan.head.id);
    tx.add_history(&top)?;
    let line = LineTemplate {
        row: next,
        at,
        via: Via::Update,
        cause,
    };
    let mut tally = CounterDelta::default();
    for (change, size_before, size_after) in &plan.changes {
        let mut entry = line.file(op_of(change), &change.path, kind_of(change));
        entry.before = change.before.and_then(|entry| entry.id);
        entry.after = change.after.and_then(|entry| entry.id);
        entry.size = *size_after;
        tx.add_history(&entry)?;
        tally.apply(change, *size_before, *size_after);
    }
    Ok(tally)
}

/// Writes the reviews that an update opens and closes, with a line of history for each new one.
fn record_reviews(
    tx: &mut dyn WriteTx,
    plan: &UpdatePlan,
    next: &WorkspaceRow,
    cause: &Cause,
) -> Result<()> {
    for review in &plan.closed {
        tx.put_review(review)?;
    }
    let line = LineTemplate {
        row: next,
        at: next.changed_at,
        via: Via::Update,
        cause,
    };
    for review in &plan.reviews {
        tx.put_review(review)?;
        let mut opened = line.file(HistoryOp::ReviewOpen, &review.path, EntryKind::File);
        opened.before = review.theirs;
        tx.add_history(&opened)?;
    }
    Ok(())
}
