//! What merges of earlier versions brought into projects and merges leave out today: it is taken
//! out once, before the next fork shows it to another agent.
//!
//! The history tells what a merge brought from what the owner did: a repository that came with an
//! imported directory stays, as it was before merges changed it.

use std::collections::BTreeMap;

use offshoot_core::{Cause, EntryKind, ObjectId, Operator, ProjectId, RelPath, Result};
use offshoot_store::{
    Durability, HistoryFilter, HistoryOp, ReadTx, Via, WorkspaceKey, WorkspaceRow, WriteTx,
};

use crate::content::objects::StoredObjects;
use crate::content::rows::open_project;
use crate::content::state::{State, StateEdit, StateEntry};
use crate::engine::Engine;
use crate::project::head::{Proposal, Recorded};

/// Says that a project holds nothing that a merge of an earlier version brought by mistake.
fn mark(project: WorkspaceKey) -> String {
    format!("project-{}-has-no-merged-git", project.0)
}

/// Marks a project in which no merge was made yet.
pub(crate) fn mark_new_project(tx: &mut dyn WriteTx, project: WorkspaceKey) -> Result<()> {
    tx.put_setting(&mark(project), "1")
}

/// Whether a project is known to hold nothing of the kind.
pub(crate) fn is_cleared(tx: &dyn ReadTx, project: WorkspaceKey) -> Result<bool> {
    Ok(tx.setting(&mark(project))?.as_deref() == Some("1"))
}

impl Engine {
    /// Takes out of a project what merges of earlier versions brought, unless that is done.
    pub(crate) fn clear_earlier_merges(&self, id: &ProjectId) -> Result<()> {
        let row = self.store().read(|tx| open_project(tx, id))?;
        if self.store().read(|tx| is_cleared(tx, row.key))? {
            return Ok(());
        }
        let brought = self.store().read(|tx| brought_by_merges(tx, &row))?;
        if !brought.is_empty() {
            let recorded = Recorded {
                label: "Take out what merges must not bring",
                further_parents: &[],
                // What the owner had there is put back, which only an import may put there.
                op: HistoryOp::Import,
                via: Via::Call,
                cause: &Cause::by(Operator::system()),
                at: self.now(),
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
            self.change_project(id, &recorded, make, |_, _| Ok(()))?;
        }
        self.store().write(Durability::Relaxed, |tx| {
            tx.put_setting(&mark(row.key), "1")
        })
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
