//! What merges of earlier versions brought into projects and merges leave out today: it is taken
//! out once, before the next fork shows it to another agent. Only a store from before schema 7 with
//! merges in it has anything to look through; the migration says so in a setting.
//!
//! The history tells what a merge brought from what the owner did: a repository that came with an
//! imported directory stays, as it was before merges changed it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use offshoot_core::{Cause, EntryKind, ObjectId, Operator, ProjectId, RelPath, Result};
use offshoot_store::{Durability, HistoryFilter, HistoryOp, ReadTx, Via, WorkspaceRow};

use crate::content::objects::StoredObjects;
use crate::content::state::{State, StateEdit, StateEntry};
use crate::project::Projects;
use crate::project::head::{ChangeRecord, Proposal};

/// The setting that says that merges of earlier versions have not been looked through.
const UNCLEARED_MERGES: &str = "merges_to_look_through";

impl Projects {
    /// Takes out of all projects what merges of earlier versions brought, unless that is done. Fails
    /// if it cannot be done in this project, which is about to be forked.
    pub(crate) fn clear_earlier_merges(&self, wanted: &ProjectId) -> Result<()> {
        let done = &self.merges_looked_through;
        if done.load(Ordering::Relaxed) {
            return Ok(());
        }
        let setting = self.store().read(|tx| tx.setting(UNCLEARED_MERGES))?;
        if setting.as_deref() == Some("yes") {
            let mut failed = false;
            for row in self.store().read(|tx| tx.projects(None, 0))? {
                match self.clear_earlier_merges_of(&row) {
                    Ok(()) => {}
                    Err(error) if row.id.as_str() == wanted.as_str() => return Err(error),
                    // A project that cannot be read does not keep others from being forked. It is
                    // tried again.
                    Err(error) => {
                        tracing::warn!(project = %row.id, ?error, "merges are not looked through");
                        failed = true;
                    }
                }
            }
            if failed {
                return Ok(());
            }
            self.store().write(Durability::Relaxed, |tx| {
                tx.put_setting(UNCLEARED_MERGES, "no")
            })?;
        }
        done.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn clear_earlier_merges_of(&self, row: &WorkspaceRow) -> Result<()> {
        let brought = self.store().read(|tx| brought_by_merges(tx, row))?;
        if brought.is_empty() {
            return Ok(());
        }
        let record = ChangeRecord {
            label: "Take out what merges must not bring",
            author: None,
            work: None,
            further_parents: &[],
            // What the owner had there is put back, which only an import may put there.
            op: HistoryOp::Import,
            via: Via::Call,
            cause: &Cause::by(Operator::system()),
            at: self.context.now(),
        };
        let make = |objects: &StoredObjects<'_>, head: &State| {
            let mut proposal = Proposal::default();
            for (path, before) in &brought {
                let now = head.entry(objects, path)?;
                let edit = match (now, before) {
                    (None, _) => continue,
                    (Some(_), None) => StateEdit::Remove,
                    (Some(now), Some(before)) => StateEdit::Put(StateEntry {
                        id: Some(*before),
                        ..now
                    }),
                };
                proposal.edits.insert(path.clone(), edit);
            }
            Ok(proposal)
        };
        let id: ProjectId = row.id.as_str().parse()?;
        self.change_project(&id, &record, make, |_, _| Ok(()))
            .map(drop)
    }
}

/// Paths at which the last word of the history is a merge's, with what stood there before merges
/// touched it.
fn brought_by_merges(
    tx: &dyn ReadTx,
    project: &WorkspaceRow,
) -> Result<BTreeMap<RelPath, Option<ObjectId>>> {
    let lines = tx.history(&HistoryFilter {
        workspace: Some(project.key),
        ..HistoryFilter::default()
    })?;
    let mut brought = BTreeMap::new();
    for line in lines {
        let line = line.line;
        let changes = matches!(
            line.op,
            HistoryOp::Create | HistoryOp::Write | HistoryOp::Mkdir | HistoryOp::Delete
        );
        if !changes || line.path.is_root() {
            continue;
        }
        let is_git = offshoot_git::refuses_path(&line.path, EntryKind::File).is_some();
        // An imported `.meta` is there without a line of its own.
        let is_ours = [&b".meta"[..], b".logs"].contains(&line.path.as_bytes());
        match line.via {
            Via::Merge if is_git || is_ours => {
                brought.entry(line.path).or_insert(line.before);
            }
            _ => drop(brought.remove(&line.path)),
        }
    }
    Ok(brought)
}
