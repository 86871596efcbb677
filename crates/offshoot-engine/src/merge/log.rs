//! Merges that were done: the log, undoing one, and bringing back what lost.

use offshoot_core::{Cause, Error, ErrorCode, ObjectId, ProjectId, RelPath, Result, Timestamp};
use offshoot_merge::{Conflict, MergeOptions};
use offshoot_store::{Durability, HistoryOp, MergeRow, ReadTx, Via, WriteTx};

use crate::content::incoming::Content;
use crate::content::objects::StoredObjects;
use crate::content::rows::{open_project, state_of};
use crate::content::state::{State, StateEdits};
use crate::context::prefixes::{MIN_PREFIX_DIGITS, prefix_too_short, unique_match};
use crate::merge::Merges;
use crate::merge::complete::{Completed, receipt};
use crate::merge::review_row::{Who, who};
use crate::merge::three_way::{ThreeStates, merge_into_project};
use crate::project::head::ChangeRecord;
use crate::workspace::snapshot::Snapshot;

/// A merge and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeReceipt {
    /// What it did.
    pub completed: Completed,
    /// When it was made.
    pub at: Timestamp,
    /// Who asked for it.
    pub by: Who,
    /// The snapshot that undid it.
    pub undone_by: Option<ObjectId>,
}

impl Merges {
    /// Merges into a project, newest first: those before another, or from the newest; at most
    /// `limit`, 0 means all. Before one that the project does not have there is none.
    pub fn list_merges(
        &self,
        project: &ProjectId,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<MergeReceipt>> {
        self.store().read(|tx| {
            let rows = tx.merges(Some(open_project(tx, project)?.key), before, limit)?;
            rows.iter().map(as_receipt).collect()
        })
    }

    /// Like [`list_merges`](Self::list_merges), into all projects. The cost follows the page; where
    /// it passes merges into projects that were deleted since, it looks at these too.
    pub fn list_all_merges(&self, before: Option<&str>, limit: usize) -> Result<Vec<MergeReceipt>> {
        self.store().read(|tx| {
            let rows = tx.merges(None, before, limit)?;
            rows.iter().map(as_receipt).collect()
        })
    }

    /// One merge.
    pub fn receipt(&self, id: &str) -> Result<MergeReceipt> {
        self.store().read(|tx| as_receipt(&find_merge(tx, id)?))
    }

    /// Undoes a merge: a new snapshot without what it brought. What was changed since stays; if
    /// that cannot be told apart, nothing happens and the error names the paths.
    pub fn undo_merge(&self, id: &str, cause: &Cause) -> Result<Snapshot> {
        self.undo_merge_if(id, |_| Ok(()), cause)
    }

    /// Like [`undo_merge`](Self::undo_merge), if `allowed` accepts the edits of the project.
    pub(crate) fn undo_merge_if(
        &self,
        id: &str,
        allowed: impl Fn(&StateEdits) -> Result<()>,
        cause: &Cause,
    ) -> Result<Snapshot> {
        let (merge, project) = self.store().read(|tx| {
            let merge = find_merge(tx, id)?;
            let project = tx.workspace_by_key(merge.project)?;
            let project = project.ok_or_else(|| Error::internal("a project is gone"))?;
            Ok((merge, project))
        })?;
        if merge.undone_by.is_some() {
            return Err(Error::new(
                ErrorCode::AlreadyExists,
                "the merge was undone before",
            ));
        }
        let Some(landed) = merge.snapshot else {
            return Err(landed_nothing());
        };
        let (after, before) = self.store().read(|tx| {
            let gone = || Error::internal("a snapshot of a merge is gone");
            let landed = tx.snapshot(project.key, &landed)?.ok_or_else(gone)?;
            let before = match &landed.parent {
                Some(parent) => state_of(&tx.snapshot(project.key, parent)?.ok_or_else(gone)?),
                None => State::default(),
            };
            Ok((state_of(&landed), before))
        })?;
        let label = format!("Undo merge of {}", receipt(&merge)?.workspace);
        let record = ChangeRecord {
            label: &label,
            author: None,
            work: None,
            further_parents: &[],
            op: HistoryOp::MergeUndo,
            via: Via::Merge,
            cause,
            at: self.context.now(),
        };
        let make = |objects: &StoredObjects<'_>, head: &State| {
            let states = ThreeStates {
                base: &after,
                ours: head,
                theirs: &before,
            };
            let undo = merge_into_project(self.store(), objects, states, &MergeOptions::default())?;
            if undo.conflicts.is_empty() {
                allowed(&undo.proposal.edits)?;
                return Ok(undo.proposal);
            }
            Err(changed_since_merge(&undo.conflicts))
        };
        let project_id: ProjectId = project.id.as_str().parse()?;
        let note = |tx: &mut dyn WriteTx, snapshot: ObjectId| {
            tx.put_merge(&MergeRow {
                undone_by: Some(snapshot),
                ..merge.clone()
            })
        };
        let (snapshot, created) =
            self.projects
                .change_project(&project_id, &record, make, |tx, draft| {
                    note(tx, draft.snapshot.id)
                })?;
        if !created {
            self.store()
                .write(Durability::Synced, |tx| note(tx, snapshot.id))?;
        }
        Ok(snapshot)
    }

    /// Brings back what lost at a path when a policy decided it in a merge: one new snapshot.
    pub fn take_lost(&self, merge: &str, path: &RelPath, cause: &Cause) -> Result<Snapshot> {
        let receipt = self.receipt(merge)?.completed;
        let mut decided = receipt.decided.iter().filter(|one| one.path == *path);
        let lost = decided.find_map(|one| one.lost).ok_or_else(|| {
            Error::new(
                ErrorCode::FileNotFound,
                format!("nothing was decided against at `{path}` in that merge"),
            )
            .with_hint(format!("`offshoot merge show {merge}` lists what was"))
        })?;
        if receipt.waits_whole() {
            return Err(landed_nothing());
        }
        let bytes = self.contents.whole_object(&lost)?;
        self.projects.put_in_project(
            &receipt.project.parse()?,
            path,
            Content::Bytes(&bytes),
            &crate::WriteOptions::default(),
            cause,
        )
    }
}

/// The error about an undo of a merge whose paths were changed since.
fn changed_since_merge(conflicts: &[Conflict]) -> Error {
    let paths: Vec<String> = conflicts.iter().map(|one| one.path.to_text()).collect();
    Error::new(
        ErrorCode::MergeConflict,
        "what the merge brought was changed since",
    )
    .with_hint(format!(
        "nothing was undone; undo the later merges first, or edit `{}`",
        paths.join("`, `")
    ))
    .with_details(serde_json::json!({ "conflicts": paths }))
}

fn landed_nothing() -> Error {
    Error::invalid("the merge has landed nothing")
        .with_hint("its conflicts are still waiting: `offshoot review list`")
}

fn as_receipt(row: &MergeRow) -> Result<MergeReceipt> {
    Ok(MergeReceipt {
        completed: receipt(row)?,
        at: row.at,
        by: who(&row.cause, row.at),
        undone_by: row.undone_by,
    })
}

fn find_merge(tx: &dyn ReadTx, id: &str) -> Result<MergeRow> {
    tx.merge(id)?.ok_or_else(|| no_merge(id))
}

pub(crate) fn no_merge(id: &str) -> Error {
    Error::new(
        ErrorCode::InvalidRequest,
        format!("there is no merge `{}`", id.escape_debug()),
    )
    .with_hint("`offshoot merge log PROJECT` shows those there were")
}

impl Merges {
    /// The whole name of a merge, of which at least four digits were given.
    pub fn merge_id(&self, text: &str) -> Result<String> {
        if text.len() < MIN_PREFIX_DIGITS {
            return Err(prefix_too_short(text));
        }
        let found = self.store().read(|tx| tx.merge_ids(text))?;
        unique_match(text, "merges", found)?.ok_or_else(|| no_merge(text))
    }
}
