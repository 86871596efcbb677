//! Commits of a repository that become snapshots as they are, one after the other.
//!
//! Each is a change of its own in the history, by the author of the commit. The cost follows what
//! the commits change.

use std::collections::HashMap;

use offshoot_core::{Cause, EMPTY_TREE, ObjectId, RelPath, Result, Timestamp, cancel};
use offshoot_git::{Commit, ObjectReader};
use offshoot_store::{
    HistoryOp, NewHistory, ReadTx, SnapshotRow, Via, WorkspaceKey, WorkspaceRow, WriteTx,
};

use crate::content::change_set::{kind_of, op_of};
use crate::content::counters::CounterDelta;
use crate::content::history_writer::{LineTemplate, changed_row};
use crate::content::rows::{size_of, state_of_row};
use crate::content::state::{State, StateChange, StateEntry};
use crate::content::workspace_row::{check_quota, line_of};
use crate::project::import_git::label;

/// Commits, the oldest first, each the first parent of the next.
pub(crate) type CommitChain = Vec<(ObjectId, Commit)>;

/// Where the commits come from, and who brings them.
pub(crate) struct Incoming<'a> {
    /// Reads what the store has and what comes.
    pub(crate) objects: &'a dyn ObjectReader,
    /// Sizes of the files that come.
    pub(crate) sizes: &'a HashMap<ObjectId, i64>,
    pub(crate) cause: &'a Cause,
    pub(crate) at: Timestamp,
    /// Whether we made the commits, so that the sidecars that they name are theirs. A commit of git
    /// could name any tree.
    pub(crate) are_own: bool,
}

/// What becomes of a project or a workspace when commits come in.
pub(crate) struct Advance {
    /// The revision that it was worked out on.
    from: i64,
    /// The row as it will be.
    next: WorkspaceRow,
    snapshots: Vec<SnapshotRow>,
    lines: Vec<NewHistory>,
}

impl Incoming<'_> {
    /// The snapshots that commits become on top of what a row has, whose newest snapshot has this
    /// number.
    pub(crate) fn advance(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        mut number: i64,
        chain: &CommitChain,
    ) -> Result<Advance> {
        let mut advance = Advance {
            from: row.revision,
            next: row.clone(),
            snapshots: Vec::with_capacity(chain.len()),
            lines: Vec::new(),
        };
        for (id, commit) in chain {
            cancel::check()?;
            number += 1;
            let before = state_of_row(&advance.next);
            let after = self.state_of(commit);
            let changes = before.diff(self.objects, &after, &RelPath::root())?;
            let mut next = changed_row(&advance.next, self.at);
            let sizes = self.count(tx, &changes, &mut next)?;
            let was = next.head.replace(*id);
            (next.tree, next.sidecar) = (after.tree, after.sidecar);
            next.synced_revision = next.revision;
            let cause = self.cause_of(commit);
            let snapshot = snapshot_of(&next, number, (*id, commit), &cause);
            advance.note(&next, was, &changes, &sizes, &cause, self.at);
            advance.snapshots.push(snapshot);
            advance.next = next;
        }
        Ok(advance)
    }

    /// A row that holds what a commit does, and the snapshot that the commit is. The counters are
    /// those of a row near it and what differs from that.
    pub(crate) fn start(
        &self,
        tx: &dyn ReadTx,
        near: &WorkspaceRow,
        (id, commit): (ObjectId, &Commit),
    ) -> Result<(WorkspaceRow, SnapshotRow)> {
        let after = self.state_of(commit);
        let changes = state_of_row(near).diff(self.objects, &after, &RelPath::root())?;
        let mut row = near.clone();
        self.count(tx, &changes, &mut row)?;
        (row.tree, row.sidecar) = (after.tree, after.sidecar);
        row.head = Some(id);
        let snapshot = snapshot_of(&row, 1, (id, commit), &self.cause_of(commit));
        Ok((row, snapshot))
    }

    fn state_of(&self, commit: &Commit) -> State {
        let sidecar = commit.sidecar().filter(|_| self.are_own);
        State {
            tree: commit.tree,
            sidecar: sidecar.unwrap_or(EMPTY_TREE),
        }
    }

    /// The author of a commit of git is a claim.
    fn cause_of(&self, commit: &Commit) -> Cause {
        if self.are_own {
            return self.cause.clone();
        }
        let author = String::from_utf8_lossy(commit.author.name()).into_owned();
        Cause {
            claim: Some(author).filter(|name| !name.is_empty()),
            ..self.cause.clone()
        }
    }

    /// Counts changes, and gives the size of each path after them.
    fn count(
        &self,
        tx: &dyn ReadTx,
        changes: &[StateChange],
        row: &mut WorkspaceRow,
    ) -> Result<Vec<i64>> {
        let size = |entry: &Option<StateEntry>| match entry {
            Some(entry) => match entry.id.and_then(|id| self.sizes.get(&id)) {
                Some(size) => Ok(*size),
                None => size_of(tx, entry),
            },
            None => Ok(0),
        };
        let mut tally = CounterDelta::default();
        let mut sizes = Vec::with_capacity(changes.len());
        for change in changes {
            if change.after.is_some() {
                change.path.check_depth()?;
            }
            let after = size(&change.after)?;
            tally.apply(change, size(&change.before)?, after);
            sizes.push(after);
        }
        tally.add_to(row);
        Ok(sizes)
    }
}

impl Advance {
    fn note(
        &mut self,
        next: &WorkspaceRow,
        was: Option<ObjectId>,
        changes: &[StateChange],
        sizes: &[i64],
        cause: &Cause,
        at: Timestamp,
    ) {
        let mut top = line_of(next, HistoryOp::Import, cause, at);
        (top.before, top.after) = (was, next.head);
        self.lines.push(top);
        let line = LineTemplate {
            row: next,
            at,
            via: Via::Call,
            cause,
        };
        for (change, size) in changes.iter().zip(sizes) {
            let mut entry = line.file(op_of(change), &change.path, kind_of(change));
            entry.before = change.before.and_then(|entry| entry.id);
            entry.after = change.after.and_then(|entry| entry.id);
            entry.size = *size;
            self.lines.push(entry);
        }
    }

    /// Writes the snapshots of a row that holds what they were worked out on. The objects must be
    /// stored.
    pub(crate) fn write(&self, tx: &mut dyn WriteTx, onto: &WorkspaceRow) -> Result<()> {
        self.write_snapshots(tx, onto.key)?;
        // A workspace that was made for them got its number and its revision meanwhile.
        let later = onto.revision - self.from;
        let revision = self.next.revision + later;
        tx.update_workspace(&WorkspaceRow {
            head: self.next.head,
            tree: self.next.tree,
            sidecar: self.next.sidecar,
            files: self.next.files,
            dirs: self.next.dirs,
            bytes: self.next.bytes,
            changed_at: self.next.changed_at,
            used_at: self.next.used_at,
            revision,
            synced_revision: revision,
            ..onto.clone()
        })?;
        for line in &self.lines {
            tx.add_history(&NewHistory {
                workspace: onto.key,
                revision: line.revision + later,
                ..line.clone()
            })?;
        }
        Ok(())
    }

    /// Refuses commits that make a workspace grow beyond its quota. `tracked` is what they were worked
    /// out on: the workspace without its ignored files.
    pub(crate) fn check_quota(&self, tracked: &WorkspaceRow, now: &WorkspaceRow) -> Result<()> {
        let after = WorkspaceRow {
            files: now.files + self.next.files - tracked.files,
            dirs: now.dirs + self.next.dirs - tracked.dirs,
            bytes: now.bytes + self.next.bytes - tracked.bytes,
            ..now.clone()
        };
        check_quota(now, &after)
    }

    /// Writes the snapshots alone.
    pub(crate) fn write_snapshots(&self, tx: &mut dyn WriteTx, onto: WorkspaceKey) -> Result<()> {
        for snapshot in &self.snapshots {
            tx.add_snapshot(&SnapshotRow {
                workspace: onto,
                ..snapshot.clone()
            })?;
        }
        Ok(())
    }

    /// The paths that differ, each once. Directories are left out.
    pub(crate) fn changed_files(&self) -> Vec<RelPath> {
        let is_file = |line: &&NewHistory| {
            line.kind
                .is_some_and(|kind| kind != offshoot_core::EntryKind::Dir)
                && !line.path.is_root()
        };
        let files = self.lines.iter().filter(is_file);
        let mut paths: Vec<RelPath> = files.map(|line| line.path.clone()).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

fn snapshot_of(
    row: &WorkspaceRow,
    number: i64,
    (id, commit): (ObjectId, &Commit),
    cause: &Cause,
) -> SnapshotRow {
    SnapshotRow {
        workspace: row.key,
        number,
        id,
        parent: commit.parents.first().copied(),
        tree: row.tree,
        sidecar: row.sidecar,
        label: label(&commit.message),
        at: Timestamp::from_stat(commit.committer.seconds().max(0), 0),
        cause: cause.clone(),
        files: row.files,
        dirs: row.dirs,
        bytes: row.bytes,
    }
}
