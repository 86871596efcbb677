//! The life of a workspace: assigned, materialised, handed out, deleted.

use std::path::PathBuf;
use std::sync::Arc;

use offshoot_core::{
    AgentId, Cause, Error, ErrorCode, Layout, ObjectId, ProjectId, RelPath, Result, SESSION_DIRS,
    Timestamp, WorkspaceId,
};
use offshoot_fs::UseKind;
use offshoot_store::{
    Durability, ForkRow, HistoryOp, NewObject, ReadTx, SnapshotRow, WorkspaceKind, WorkspaceRow,
    WorkspaceState,
};

use crate::content::counters::CounterDelta;
use crate::content::find_snapshot::no_snapshot;
use crate::content::left_out::without_left_out;
use crate::content::objects::PendingObjects;
use crate::content::rows::{
    base_state, fork_row, no_workspace, open_row_by_key, open_row_in, project_name, state_of,
    state_of_row,
};
use crate::content::state::{State, belongs_to_nested_git};
use crate::content::too_large::TooLarge;
use crate::content::workspace_row::{Quota, check_quota, dir_row, line_of, new_row};
use crate::context::idempotency::ExtraWrite;
use crate::context::jobs::JobKind;
use crate::sync::ignored::IgnoredFiles;
use crate::workspace::Workspaces;

/// What is known about a workspace without looking at its files.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Its name.
    pub id: WorkspaceId,
    /// Which places may be written.
    pub layout: Layout,
    /// Its newest snapshot.
    pub head: Option<ObjectId>,
    /// Grows with every change.
    pub revision: i64,
    /// Whether its directory exists.
    pub materialized: bool,
    /// Whether its path was given to anyone.
    pub handed_out: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When a file in it last changed.
    pub changed_at: Timestamp,
    /// When outside changes were last looked for.
    pub last_sync: Option<Timestamp>,
    /// Files and links, as of the last change or sync.
    pub files: i64,
    /// Directories.
    pub dirs: i64,
    /// Bytes.
    pub bytes: i64,
    /// The most bytes it may hold.
    pub quota_bytes: Option<i64>,
    /// The most files, links and directories it may hold.
    pub quota_inodes: Option<i64>,
    /// What it is a fork of; none if it is no fork.
    pub fork_of: Option<ForkOf>,
}

/// What a fork is a fork of, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkOf {
    /// The project that it is merged into.
    pub project: ProjectId,
    /// The snapshot of the project that its changes are relative to.
    pub base: ObjectId,
    /// The agent that owns it.
    pub agent: Option<AgentId>,
}

impl Workspace {
    /// A workspace that is perhaps a fork.
    fn read(tx: &dyn ReadTx, row: WorkspaceRow) -> Result<Workspace> {
        if row.kind != WorkspaceKind::Fork {
            return Ok(Workspace::from(row));
        }
        let fork = fork_row(tx, &row)?;
        let project = project_name(tx, &fork)?;
        Ok(Workspace::of_fork(row, project, &fork))
    }

    /// A workspace that is a fork.
    pub(crate) fn of_fork(row: WorkspaceRow, project: ProjectId, fork: &ForkRow) -> Workspace {
        let fork_of = ForkOf {
            project,
            base: fork.base,
            agent: fork.agent.clone(),
        };
        Workspace {
            fork_of: Some(fork_of),
            ..Workspace::from(row)
        }
    }
}

/// A workspace that is no fork.
impl From<WorkspaceRow> for Workspace {
    fn from(row: WorkspaceRow) -> Self {
        Workspace {
            id: row.id,
            layout: row.layout,
            head: row.head,
            revision: row.revision,
            materialized: row.materialized,
            handed_out: row.handed_out,
            created_at: row.created_at,
            changed_at: row.changed_at,
            last_sync: row.last_sync,
            files: row.files,
            dirs: row.dirs,
            bytes: row.bytes,
            quota_bytes: row.quota_bytes,
            quota_inodes: row.quota_inodes,
            fork_of: None,
        }
    }
}

/// What a deletion left behind.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// Whether there was something to delete.
    pub existed: bool,
    /// Whether it is gone.
    pub gone: bool,
    /// The snapshot that holds the last state.
    pub snapshot: Option<ObjectId>,
    /// Ignored files that went with it.
    pub ignored: IgnoredFiles,
    /// Files that no snapshot holds for their size. It was not deleted because of them.
    pub(crate) too_large: Vec<TooLarge>,
}

impl Deleted {
    /// The answer of a deletion that was refused.
    pub(crate) fn not() -> Deleted {
        Deleted {
            existed: true,
            gone: false,
            snapshot: None,
            ignored: IgnoredFiles::default(),
            too_large: Vec::new(),
        }
    }
}

impl Workspaces {
    /// Assigns a workspace: a row, nothing more. Its directory appears when somebody asks for
    /// its path.
    pub fn create_workspace(
        &self,
        id: Option<WorkspaceId>,
        layout: Layout,
        quota: Quota,
        cause: &Cause,
    ) -> Result<Workspace> {
        self.create_workspace_and(id, layout, quota, None, cause)
    }

    /// Like [`create_workspace`](Self::create_workspace); `also` writes further rows in the
    /// same transaction.
    pub(crate) fn create_workspace_and(
        &self,
        id: Option<WorkspaceId>,
        layout: Layout,
        quota: Quota,
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<Workspace> {
        self.context.require_space()?;
        quota.refuse_negative()?;
        let id = given_or_random_id(id)?;
        let at = self.context.now();
        let session_dirs = if layout == Layout::Session {
            &SESSION_DIRS[..]
        } else {
            &[]
        };
        self.refuse_case_twin(&id)?;
        let _name = self.context.name_lock(&id)?;
        self.store().write(Durability::Synced, |tx| {
            let mut row = new_row(&id, layout, quota, at);
            row.dirs = session_dirs.len() as i64;
            row.key = tx.add_workspace(&row)?;
            for name in session_dirs {
                tx.put_entry(row.key, &dir_row(RelPath::from_normal(*name), 1))?;
            }
            tx.add_history(&line_of(&row, HistoryOp::WorkspaceCreate, cause, at))?;
            also.map_or(Ok(()), |also| also(tx, &row))?;
            Ok(Workspace::from(row))
        })
    }

    /// Assigns a workspace that begins with a snapshot of any other, open or deleted. If that is
    /// the last state of a deleted one, its ignored files come back too. Still a row and nothing
    /// more: files are not copied.
    pub fn create_workspace_from(
        &self,
        id: Option<WorkspaceId>,
        snapshot: &str,
        quota: Quota,
        cause: &Cause,
    ) -> Result<Workspace> {
        self.create_workspace_from_and(id, snapshot, quota, None, cause)
    }

    /// Like [`create_workspace_from`](Self::create_workspace_from); `also` writes further rows in the
    /// same transaction.
    pub(crate) fn create_workspace_from_and(
        &self,
        id: Option<WorkspaceId>,
        snapshot: &str,
        quota: Quota,
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<Workspace> {
        self.context.require_space()?;
        quota.refuse_negative()?;
        let id = given_or_random_id(id)?;
        let at = self.context.now();
        self.refuse_case_twin(&id)?;
        let _name = self.context.name_lock(&id)?;
        // The search through all workspaces is slow, so it does not run in the write transaction.
        let (from, found) = self
            .store()
            .read(|tx| self.contents.find_snapshot_anywhere(tx, snapshot))?;
        self.store().write(Durability::Synced, |tx| {
            let is_gone = || no_snapshot(snapshot, "of any workspace");
            let from = tx.workspace_by_key(from.key)?.ok_or_else(is_gone)?;
            let snapshot = tx.snapshot(from.key, &found.id)?.ok_or_else(is_gone)?;
            let is_last_state = from.state == WorkspaceState::Closed
                && from.head == Some(snapshot.id)
                && (from.tree, from.sidecar) == (snapshot.tree, snapshot.sidecar);
            let (snapshot, objects) = self.for_another(tx, &id, &from, snapshot)?;
            for object in &objects {
                tx.put_object(object)?;
            }
            let mut row = new_row(&id, from.layout, quota, at);
            row.head = Some(snapshot.id);
            row.tree = snapshot.tree;
            row.sidecar = snapshot.sidecar;
            (row.files, row.dirs, row.bytes) = (snapshot.files, snapshot.dirs, snapshot.bytes);
            let mut kept = match is_last_state {
                true => tx.entries_below(from.key, &RelPath::root())?,
                false => Vec::new(),
            };
            if from.id != id {
                kept.retain(|entry| !belongs_to_nested_git(&entry.path));
            }
            if from.layout == Layout::Session {
                // The directory of a session that no snapshot holds.
                let skills = dir_row(RelPath::from_normal("skills"), 1);
                kept.retain(|entry| entry.path != skills.path);
                kept.push(skills);
            }
            let mut tally = CounterDelta::default();
            for entry in &kept {
                tally.replace(None, entry)?;
            }
            tally.add_to(&mut row);
            check_quota(&new_row(&id, from.layout, quota, at), &row)?;
            row.key = tx.add_workspace(&row)?;
            for entry in &kept {
                tx.put_entry(row.key, entry)?;
            }
            tx.add_snapshot(&SnapshotRow {
                workspace: row.key,
                number: 1,
                ..snapshot.clone()
            })?;
            let mut line = line_of(&row, HistoryOp::WorkspaceCreate, cause, at);
            line.after = Some(snapshot.id);
            tx.add_history(&line)?;
            also.map_or(Ok(()), |also| also(tx, &row))?;
            Ok(Workspace::from(row))
        })
    }

    /// A snapshot as a workspace of another name may begin with it: without what never gets from
    /// one agent to another. A workspace that takes the same name again continues the same work,
    /// and so gets all of it.
    fn for_another(
        &self,
        tx: &dyn ReadTx,
        id: &WorkspaceId,
        from: &WorkspaceRow,
        snapshot: SnapshotRow,
    ) -> Result<(SnapshotRow, Vec<NewObject>)> {
        if from.id == *id && from.kind != WorkspaceKind::Project {
            return Ok((snapshot, Vec::new()));
        }
        // What stands in the head of a project is its owner's.
        let head = match (from.kind, tx.fork(from.key)?) {
            (WorkspaceKind::Project, _) => state_of_row(from),
            (_, Some(fork)) => base_state(&fork),
            (_, None) => State::default(),
        };
        let objects = self.contents.objects_in(tx);
        let mut bench = PendingObjects::new(&objects);
        let state = without_left_out(&mut bench, &head, &state_of(&snapshot))?;
        if state == state_of(&snapshot) {
            return Ok((snapshot, Vec::new()));
        }
        let snapshot = self.snapshot_on(tx, &mut bench, &snapshot, state)?;
        Ok((snapshot, bench.prepare(self.store())?))
    }

    /// On a case-insensitive disk two names that differ only in case would share a directory.
    pub(crate) fn refuse_case_twin(&self, id: &WorkspaceId) -> Result<()> {
        let lower = self.context.data.tmp().join("case-probe");
        let upper = self.context.data.tmp().join("CASE-PROBE");
        // The probe is cheap where the answer is no: the first look-up fails.
        if std::fs::symlink_metadata(&lower).is_err() {
            let _ = offshoot_sys::create_private(&lower);
        }
        if std::fs::symlink_metadata(&upper).is_err() {
            return Ok(());
        }
        let twin = self.store().read(|tx| {
            Ok(tx
                .workspaces(None, 0)?
                .into_iter()
                .find(|row| row.id != *id && row.id.as_str().eq_ignore_ascii_case(id.as_str())))
        })?;
        match twin {
            None => Ok(()),
            Some(row) => Err(Error::new(
                ErrorCode::AlreadyExists,
                format!(
                    "`{id}` and the workspace `{}` would share a directory on this disk",
                    row.id
                ),
            )),
        }
    }

    /// Open workspaces in the order of names.
    pub fn list_workspaces(
        &self,
        after: Option<&WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<Workspace>> {
        self.store().read(|tx| {
            let rows = tx.workspaces(after, limit)?.into_iter();
            rows.map(|row| Workspace::read(tx, row)).collect()
        })
    }

    /// One open workspace.
    pub fn workspace(&self, id: &WorkspaceId) -> Result<Workspace> {
        self.store()
            .read(|tx| Workspace::read(tx, open_row_in(tx, id)?))
    }

    /// Sets the limits of a workspace. What it holds already stays, even if it is more.
    pub fn set_quota(&self, id: &WorkspaceId, quota: Quota, cause: &Cause) -> Result<Workspace> {
        quota.refuse_negative()?;
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            let mut row = open_row_in(tx, id)?;
            row.quota_bytes = quota.bytes;
            row.quota_inodes = quota.inodes;
            tx.update_workspace(&row)?;
            tx.add_history(&line_of(&row, HistoryOp::WorkspaceUpdate, cause, at))?;
            Workspace::read(tx, row)
        })
    }

    /// The host path of a workspace, for people and outside programs. From now on the directory
    /// may change behind our back, so it is looked at before anything relies on it.
    pub fn hand_out_path(&self, id: &WorkspaceId) -> Result<PathBuf> {
        let row = self.contents.open_row(id)?;
        if row.handed_out && row.materialized {
            // A restart of the machine took its mount away, or somebody its directory.
            self.directories.dir_for_reader(&row)?;
        } else {
            // The row as it is under the lock: someone else may have made the directory meanwhile.
            let (row, _lock) = self.sync.lock_exclusively(id)?;
            if !(row.handed_out && row.materialized) {
                self.directories.make_directory(&row)?;
            }
        }
        Ok(self.context.data.workspace(&row.id))
    }

    /// Deletes a workspace. Its last state is kept as a snapshot that can be brought back; only a
    /// purge erases it. Files that only the ignore rules name go unread. Deleting it again changes
    /// nothing.
    pub fn delete_workspace(&self, id: &WorkspaceId, cause: &Cause) -> Result<Deleted> {
        self.delete_workspace_with(id, false, cause)
    }

    /// Like [`delete_workspace`](Self::delete_workspace); with `include_ignored` the last state
    /// keeps ignored files too.
    pub fn delete_workspace_with(
        &self,
        id: &WorkspaceId,
        include_ignored: bool,
        cause: &Cause,
    ) -> Result<Deleted> {
        let deleted = self.context.with_reserve(|| {
            self.delete_workspace_if(id, include_ignored, Durability::Synced, cause, |_| Ok(true))
        })?;
        match deleted.too_large.first() {
            Some(file) => Err(file.refuse()),
            None => Ok(deleted),
        }
    }

    /// Deletes a workspace if, while nobody else can change it and all of it is recorded, it may
    /// go. The caller chooses the durability.
    pub(crate) fn delete_workspace_if(
        &self,
        id: &WorkspaceId,
        include_ignored: bool,
        durability: Durability,
        cause: &Cause,
        may_go: impl FnOnce(&WorkspaceRow) -> Result<bool>,
    ) -> Result<Deleted> {
        // Nobody takes the name, and with it the directory, before the directory is gone.
        let name = self.context.name_lock(id)?;
        let row = match self.store().read(|tx| tx.workspace(id))? {
            None => return Err(no_workspace(id)),
            Some(row) if row.state == WorkspaceState::Closed => {
                return Ok(Deleted {
                    existed: false,
                    gone: true,
                    snapshot: row.head,
                    ignored: IgnoredFiles::default(),
                    too_large: Vec::new(),
                });
            }
            Some(row) => row,
        };
        let lock = self.directories.exclusive(&row)?;
        // After this sync nobody may write to the directory: such a write would be lost.
        let detached = self.sync.detach(&row, UseKind::Write)?;
        let synced = detached.sync(include_ignored, Durability::Relaxed)?;
        if !may_go(&row)? {
            return Ok(Deleted::not());
        }
        // Content that no snapshot holds would be lost (INV-5).
        if !synced.too_large.is_empty() {
            return Ok(Deleted {
                too_large: synced.too_large,
                ..Deleted::not()
            });
        }
        synced.refuse_unrecorded()?;
        let ignored = detached.count_ignored(&synced)?;
        // The commit below waits for the disk if there is anything that was not there before.
        let durability = match synced.changes.is_empty() {
            true => durability,
            false => Durability::Synced,
        };
        let why = "before deletion";
        let kept = self.keep_recorded(&row, why, include_ignored, durability, cause)?;
        self.close_row(&row, kept, durability, cause)?;
        detached.discard();
        if row.kind == WorkspaceKind::Fork {
            // Unmounting may take its time; nobody has to wait for it.
            let (context, directories) = (Arc::clone(&self.context), Arc::clone(&self.directories));
            self.context.queue_job(JobKind::Other, move || {
                // Until then the name stays taken.
                let _name = name;
                let discarded = directories.discard_dir(&row);
                context.forget_locks(&row);
                discarded
            });
        } else {
            self.directories.discard_dir(&row)?;
            drop(lock);
            self.context.forget_locks(&row);
        }
        Ok(Deleted {
            existed: true,
            gone: true,
            snapshot: kept,
            ignored,
            too_large: Vec::new(),
        })
    }

    /// Closes the row of a workspace, with its line of history. `kept` is its last state.
    fn close_row(
        &self,
        row: &WorkspaceRow,
        kept: Option<ObjectId>,
        durability: Durability,
        cause: &Cause,
    ) -> Result<()> {
        let at = self.context.now();
        self.store().write(durability, |tx| {
            let mut row = open_row_by_key(tx, row)?;
            row.state = WorkspaceState::Closed;
            row.materialized = false;
            row.used_at = at;
            row.synced_revision = row.revision;
            tx.update_workspace(&row)?;
            let mut line = line_of(&row, HistoryOp::WorkspaceDelete, cause, at);
            line.after = kept;
            tx.add_history(&line)?;
            Ok(())
        })
    }
}

fn given_or_random_id(id: Option<WorkspaceId>) -> Result<WorkspaceId> {
    match id {
        Some(id) => Ok(id),
        None => format!("ws-{}", uuid::Uuid::now_v7().simple()).parse(),
    }
}
