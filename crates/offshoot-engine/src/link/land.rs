//! Commits on their way into a project, whoever brings them: a pull, or somebody who pushes.
//!
//! Either they become snapshots as they are, because the head is in their history, or a fork without
//! a directory has them, which is merged like the work of an agent.

use offshoot_core::{Cause, EMPTY_TREE, ObjectId, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_git::Commit;
use offshoot_store::{Durability, ReadTx, WorkspaceKey, WorkspaceRow, WriteTx};

use crate::content::state::State;
use crate::context::idempotency::ExtraWrite;
use crate::link::Links;
use crate::link::incoming::{BothObjects, Comparison, Fetched};
use crate::project::advance::{Advance, CommitChain, Incoming};
use crate::project::head::is_unmoved;

/// How often commits are compared again because the project moved meanwhile.
pub(crate) const TRIES: usize = 64;

/// Commits that arrive: where they can be read, what of them is stored, and who brings them.
pub(crate) struct Arriving<'a> {
    pub(crate) objects: &'a BothObjects<'a>,
    pub(crate) fetched: &'a Fetched,
    pub(crate) cause: &'a Cause,
    /// See [`Incoming::are_own`].
    pub(crate) are_own: bool,
}

impl Links {
    /// What a project or a workspace becomes with these commits.
    pub(crate) fn advance(
        &self,
        row: &WorkspaceRow,
        chain: &CommitChain,
        arriving: &Arriving<'_>,
    ) -> Result<Advance> {
        let incoming = self.incoming(arriving);
        self.store().read(|tx| {
            let number = newest_number(tx, row)?;
            incoming.advance(tx, row, number, chain)
        })
    }

    /// Lands commits as they are on a project whose head is in their history. Returns the files that
    /// changed; none if the project moved meanwhile.
    pub(crate) fn forward(
        &self,
        project: &WorkspaceRow,
        chain: &CommitChain,
        arriving: &Arriving<'_>,
        also: &dyn Fn(&mut dyn WriteTx) -> Result<()>,
    ) -> Result<Option<Vec<RelPath>>> {
        let advance = self.advance(project, chain, arriving)?;
        let landed = self.store().write(Durability::Synced, |tx| {
            if !is_unmoved(tx, project)? {
                return Ok(false);
            }
            arriving.fetched.bulk.insert(tx)?;
            advance.write(tx, project)?;
            also(tx)?;
            Ok(true)
        })?;
        if !landed {
            return Ok(None);
        }
        self.directories.publish(project.key);
        Ok(Some(advance.changed_files()))
    }

    /// Makes a fork without a directory that has these commits on top of one that the project has in
    /// its history.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a fork of commits is made of"
    )]
    pub(crate) fn fork_with(
        &self,
        id: &ProjectId,
        name: &str,
        project: &WorkspaceRow,
        onto: (ObjectId, &Commit),
        chain: &CommitChain,
        arriving: &Arriving<'_>,
        also: ExtraWrite<'_>,
    ) -> Result<WorkspaceId> {
        let incoming = self.incoming(arriving);
        let (start, advance) = self.store().read(|tx| {
            let (row, start) = incoming.start(tx, project, onto)?;
            let advance = incoming.advance(tx, &row, start.number, chain)?;
            Ok((start, advance))
        })?;
        let fill = |tx: &mut dyn WriteTx, row: &WorkspaceRow| {
            arriving.fetched.bulk.insert(tx)?;
            advance.write(tx, row)?;
            also(tx, row)
        };
        (self.forks).fork_of_commit(id, name, start, &fill, arriving.cause)
    }

    fn incoming<'a>(&self, arriving: &Arriving<'a>) -> Incoming<'a> {
        Incoming {
            objects: arriving.objects,
            sizes: &arriving.fetched.sizes,
            cause: arriving.cause,
            at: self.context.now(),
            are_own: arriving.are_own,
        }
    }

    /// The commit that a merge compares with: the last that both sides have. Where each side merged
    /// the other there are several; the newest of ours knows most of what agents did since.
    pub(crate) fn newest_base(
        &self,
        project: WorkspaceKey,
        compared: &Comparison,
    ) -> Result<Option<ObjectId>> {
        let mut newest = None;
        self.store().read(|tx| {
            for id in &compared.divergence.bases {
                let number = tx.snapshot(project, id)?.map(|row| row.number);
                newest = newest.max(number.map(|number| (number, *id)));
            }
            Ok(())
        })?;
        let first = compared.divergence.bases.first().copied();
        Ok(newest.map(|(_, id)| id).or(first))
    }
}

/// The number of the newest snapshot; 0 if there is none.
pub(crate) fn newest_number(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<i64> {
    let newest = tx.snapshots(row.key, 1)?;
    Ok(newest.first().map_or(0, |newest| newest.number))
}

/// What a commit of git holds.
pub(crate) fn state_in(commit: &Commit) -> State {
    State {
        tree: commit.tree,
        sidecar: EMPTY_TREE,
    }
}

/// What the workspace is called in which something from elsewhere is merged, which is also the agent
/// that its changes are told of.
pub(crate) fn workspace_name(project: &ProjectId, of: &str) -> String {
    let mut name = project.to_string();
    name.truncate(48);
    format!("{name}~{of}")
}
