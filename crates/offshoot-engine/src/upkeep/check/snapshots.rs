//! Snapshots against their commits and trees, and the history against the content that it names.

use offshoot_core::{EMPTY_TREE, Error, ObjectId, ObjectKind, Result};
use offshoot_git::{Commit, MAX_TAG_DEPTH, ObjectReader, tag_target, walk_objects};
use offshoot_store::{HistoryFilter, RefRow, SnapshotRow, WorkspaceRow};

use super::{Check, Findings, missing};
use crate::content::objects::StoredObjects;

const STEP: usize = 1_000;

impl Check<'_> {
    /// The snapshots of a workspace, and whether its head is the newest.
    pub(super) fn snapshots(&mut self, row: &WorkspaceRow) -> Result<()> {
        let mut count = 0;
        self.look_repeatedly("snapshot", |check, found| {
            let (row, snapshots) = check.upkeep.store().read(|tx| {
                let now = tx.workspace_by_key(row.key)?;
                Ok((now, tx.snapshots(row.key, 0)?))
            })?;
            let Some(row) = row else { return Ok(()) };
            count = snapshots.len() as u64;
            for snapshot in &snapshots {
                if let Err(error) = check.snapshot(snapshot, found) {
                    let message = format!("`{}` of `{}`: {error}", snapshot.id, row.id);
                    found.add("snapshot", message);
                }
            }
            if row.head != snapshots.first().map(|snapshot| snapshot.id) {
                let message = format!("`{}` does not point at its newest snapshot", row.id);
                found.add("workspace", message);
            }
            Ok(())
        })?;
        self.report.snapshots += count;
        Ok(())
    }

    fn snapshot(&mut self, row: &SnapshotRow, found: &mut Findings) -> Result<()> {
        let objects = StoredObjects::new(self.upkeep.store(), None);
        let Some((_, bytes)) = objects.read(&row.id)? else {
            return Err(missing("commit"));
        };
        let commit = Commit::parse(&bytes)?;
        // A commit that was imported from git may name a sidecar that did not come along.
        let sidecar_fits =
            row.sidecar == EMPTY_TREE || commit.sidecar().unwrap_or(EMPTY_TREE) == row.sidecar;
        if commit.tree != row.tree || !sidecar_fits {
            return Err(Error::internal(
                "its row and its commit name different trees",
            ));
        }
        if commit.parents.first().copied() != row.parent {
            return Err(Error::internal(
                "its row and its commit name different parents",
            ));
        }
        let mut reached = vec![(offshoot_core::ObjectKind::Commit, row.id)];
        for tree in [row.tree, row.sidecar] {
            walk_objects(&objects, tree, &mut self.walked, |kind, id| {
                reached.push((kind, id));
                Ok(())
            })?;
        }
        for (kind, id) in reached {
            if !self.is_whole(&id)? {
                let message = format!("`{}` lacks the {} `{id}`", row.id, kind.as_str());
                found.add("snapshot", message);
            }
        }
        Ok(())
    }

    /// The branches and tags of a project, and whether what they point at is there with all that it
    /// holds.
    pub(super) fn refs(&mut self, row: &WorkspaceRow) -> Result<()> {
        self.look_repeatedly("ref", |check, found| {
            for one in check.upkeep.store().read(|tx| tx.refs(row.key, ""))? {
                if let Err(error) = check.reference(&one, found) {
                    found.add("ref", format!("`{}` of `{}`: {error}", one.name, row.id));
                }
            }
            Ok(())
        })
    }

    fn reference(&mut self, row: &RefRow, found: &mut Findings) -> Result<()> {
        let objects = StoredObjects::new(self.upkeep.store(), None);
        let mut at = row.target;
        let mut trees = Vec::new();
        for _ in 0..MAX_TAG_DEPTH {
            let Some((kind, bytes)) = objects.read(&at)? else {
                return Err(missing("target"));
            };
            match kind {
                ObjectKind::Tag => at = tag_target(&bytes)?,
                ObjectKind::Commit => trees.push(Commit::parse(&bytes)?.tree),
                ObjectKind::Tree => trees.push(at),
                ObjectKind::Blob => {}
            }
            if kind != ObjectKind::Tag {
                break;
            }
        }
        if at != row.peeled {
            return Err(Error::internal("its row says that it leads elsewhere"));
        }
        let mut reached = Vec::new();
        for tree in trees {
            walk_objects(&objects, tree, &mut self.walked, |kind, id| {
                reached.push((kind, id));
                Ok(())
            })?;
        }
        for (kind, id) in reached {
            if !self.is_whole(&id)? {
                let message = format!("`{}` lacks the {} `{id}`", row.name, kind.as_str());
                found.add("ref", message);
            }
        }
        Ok(())
    }

    /// The content that the history of a workspace names.
    pub(super) fn history(&mut self, row: &WorkspaceRow) -> Result<()> {
        self.look_repeatedly("history", |check, found| {
            let mut after_seq = 0;
            loop {
                let filter = HistoryFilter {
                    workspace: Some(row.key),
                    after_seq,
                    limit: STEP,
                    ..HistoryFilter::default()
                };
                let lines = check.upkeep.store().read(|tx| tx.history(&filter))?;
                let Some(last) = lines.last() else {
                    return Ok(());
                };
                after_seq = last.seq;
                for line in &lines {
                    for id in [line.line.before, line.line.after].into_iter().flatten() {
                        check.named_by(
                            &id,
                            || format!("line {} of `{}` (`{}`)", line.seq, row.id, line.line.path),
                            "history",
                            found,
                        )?;
                    }
                }
            }
        })
    }

    /// Finds fault with an object that somebody names and that is not there, or not whole.
    pub(super) fn named_by(
        &mut self,
        id: &ObjectId,
        by: impl Fn() -> String,
        what: &'static str,
        found: &mut Findings,
    ) -> Result<()> {
        if !self.is_whole(id)? {
            found.add(what, format!("{} names `{id}`, which is missing", by()));
        }
        Ok(())
    }
}
