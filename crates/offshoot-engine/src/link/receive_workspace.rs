//! A push into a workspace: its files become those of the newest commit, as a restore would do it.
//!
//! Only what comes after its newest snapshot is taken, and only while it holds nothing that is in no
//! snapshot: what an agent has not kept is never merged or overwritten behind its back.

use offshoot_core::{EMPTY_TREE, Error, ErrorCode, ObjectId, Result, WorkspaceId};
use offshoot_git::{CommitGraph, VisibleHistory, connected_objects};
use offshoot_store::{Durability, HistoryOp, ReadTx, SnapshotRow, Via, WorkspaceRow, WriteTx};

use crate::content::index::Index;
use crate::content::left_out::refuse_reserved_in;
use crate::content::objects::{PendingObjects, StoredObjects};
use crate::content::rows::{open_row_by_key, state_of};
use crate::content::state::State;
use crate::link::Links;
use crate::link::incoming::{BothObjects, Comparison, chain_or_tip};
use crate::link::land::{Arriving, state_in};
use crate::link::receive::{Arrival, Landed};
use crate::link::receive_project::{refuse_paths, whole_chain};
use crate::project::advance::CommitChain;
use crate::workspace::restore::TargetState;

impl Links {
    /// Lands a push in a workspace. The cost follows what is pushed, and what its directory takes to
    /// be looked through.
    pub(crate) fn land_in_workspace(
        &self,
        id: &WorkspaceId,
        arrival: &Arrival<'_>,
    ) -> Result<Landed> {
        let sync = &self.workspaces.sync;
        let (row, _lock) = sync.lock_exclusively(id)?;
        if row.materialized {
            // A directory that cannot be opened is reported before anything is recorded.
            self.directories.dir_of(&row)?;
        }
        if row.head == Some(arrival.tip) {
            return Ok(Landed::default());
        }
        if row.head != arrival.command.old {
            return Err(moved("its newest snapshot is another one"));
        }
        sync.sync_locked(&row, false)?;
        let (row, kept) = self.store().read(|tx| {
            let row = open_row_by_key(tx, &row)?;
            let kept = self.kept_state(tx, &row)?;
            Ok((row, kept))
        })?;
        let stored = StoredObjects::new(self.store(), None);
        let mut history = VisibleHistory::new(&stored, row.head.into_iter().collect());
        let new = connected_objects(arrival.pack, &mut history, arrival.tip)?;
        let objects = BothObjects::new(StoredObjects::new(self.store(), None), arrival.pack);
        let chain = chain_for(&objects, row.head, arrival.tip)?;
        let before = kept.as_ref().map(state_of).unwrap_or_default();
        refuse_paths(&objects, &before, chain.iter().map(|(_, commit)| commit))?;
        self.refuse_places(&row, &before, &objects, &chain)?;
        let fetched = self.store_objects(&objects, &new, &mut |_| {})?;
        // A row whose counters are those of its newest snapshot: ignored files are in none.
        let tracked = WorkspaceRow {
            files: kept.as_ref().map_or(0, |kept| kept.files),
            dirs: kept.as_ref().map_or(0, |kept| kept.dirs),
            bytes: kept.as_ref().map_or(0, |kept| kept.bytes),
            tree: before.tree,
            sidecar: before.sidecar,
            ..row.clone()
        };
        let arriving = Arriving {
            objects: &objects,
            fetched: &fetched,
            cause: arrival.cause,
            are_own: false,
        };
        let advance = self.advance(&tracked, &chain, &arriving)?;
        advance.check_quota(&tracked, &row)?;
        // Nothing names them until the next transaction, which reads their sizes.
        (self.store()).write(Durability::Relaxed, |tx| fetched.bulk.insert(tx))?;
        self.workspaces.keep_recorded(
            &row,
            "before push",
            false,
            Durability::Synced,
            arrival.cause,
        )?;
        let Some((_, newest)) = chain.last() else {
            return Ok(Landed::default());
        };
        let goal = TargetState {
            state: state_in(newest),
            below: offshoot_core::RelPath::root(),
            op: HistoryOp::Import,
            via: Via::Call,
            kept: row.head,
            snapshot: Some(arrival.tip),
        };
        let also = |tx: &mut dyn WriteTx| {
            fetched.bulk.renew(tx)?;
            advance.write_snapshots(tx, row.key)?;
            let mut now = open_row_by_key(tx, &row)?;
            now.head = Some(arrival.tip);
            tx.update_workspace(&now)
        };
        let changes = self
            .workspaces
            .move_to_state(&row, &goal, arrival.cause, also)?;
        let told = format!("{} paths of the workspace `{id}` changed", changes.len());
        Ok(Landed {
            messages: vec![told],
            refused: None,
        })
    }

    /// The newest snapshot of a workspace, which must hold all that the workspace does; none for an
    /// empty one without a snapshot.
    fn kept_state(&self, tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<Option<SnapshotRow>> {
        let index = Index::new(self.store(), tx, row).with_rows()?;
        let mut bench = PendingObjects::new(&index.objects);
        let pending = index.plan_snapshot(false)?;
        let now = index.base().edit(&mut bench, &pending.edits)?;
        let newest = match &row.head {
            Some(head) => tx.snapshot(row.key, head)?,
            None => None,
        };
        if newest.as_ref().map(state_of).unwrap_or_default() != now {
            return Err(moved("it has changes that are in no snapshot"));
        }
        if now.sidecar != EMPTY_TREE {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "the workspace holds what git cannot: empty directories, unusual permission bits \
                 or nested repositories",
            )
            .with_hint("a push would take it away; change the files by other means"));
        }
        Ok(newest)
    }

    /// Refuses paths that the layout of the workspace keeps closed, or Offshoot for itself.
    fn refuse_places(
        &self,
        row: &WorkspaceRow,
        before: &State,
        objects: &BothObjects<'_>,
        chain: &CommitChain,
    ) -> Result<()> {
        self.store().read(|tx| {
            let index = Index::new(self.store(), tx, row);
            let mut tree = before.tree;
            for (_, commit) in chain {
                offshoot_git::diff(objects, tree, commit.tree, |path, _, after| {
                    row.layout.check_writable(&path)?;
                    match after {
                        Some(_) => refuse_reserved_in(&index, &path),
                        None => Ok(()),
                    }
                })?;
                tree = commit.tree;
            }
            Ok(())
        })
    }
}

/// The commits that a push puts on top of the newest snapshot.
fn chain_for(
    objects: &BothObjects<'_>,
    head: Option<ObjectId>,
    tip: ObjectId,
) -> Result<CommitChain> {
    let Some(head) = head else {
        return whole_chain(objects, tip);
    };
    let divergence = CommitGraph::new(objects).divergence(head, tip)?;
    if !divergence.is_contained(head) {
        return Err(Error::new(
            ErrorCode::PreconditionFailed,
            "not a fast-forward: the newest snapshot of the workspace is not in your history",
        )
        .with_hint("`git pull --rebase`, then push again"));
    }
    let compared = Comparison {
        divergence,
        rewritten: false,
    };
    chain_or_tip(objects, head, tip, &compared)
}

fn moved(why: &str) -> Error {
    Error::new(
        ErrorCode::PreconditionFailed,
        format!("the workspace has moved: {why}"),
    )
    .with_hint("take a snapshot of it, `git pull`, then push again")
}
