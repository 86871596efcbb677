//! Giving space back: directories that nobody uses, and content that nothing names.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use offshoot_core::{Cause, ErrorCode, ObjectId, ObjectKind, Result, Timestamp, WorkspaceId};
use offshoot_fs::{ProcessUsage, UseKind};
use offshoot_git::{Commit, ObjectReader, tag_target, walk_objects};
use offshoot_store::{Durability, GarbageReport, HistoryOp, ReadTx, WorkspaceRow};

use crate::content::objects::StoredObjects;
use crate::content::rows::open_row_by_key;
use crate::content::too_large::largest_file;
use crate::content::workspace_row::line_of;
use crate::context::idempotency::micros;
use crate::directory::disk_entry::count_on_disk;
use crate::sync::ignored::IgnoredFiles;
use crate::upkeep::Upkeep;

/// Content that nothing names is kept this long, because a writer may be about to name it.
pub const AGE_GUARD: Duration = Duration::from_secs(24 * 3600);

/// Layers without a fork are kept this long, because a fork may be about to be made. They are a
/// cache: what goes too early is built again.
const LAYER_AGE_GUARD: Duration = Duration::from_secs(3600);

const STEP: usize = 2_000;

/// A workspace whose directory went away, or would.
#[derive(Clone, Debug)]
pub struct CleanedWorkspace {
    /// Its name.
    pub id: WorkspaceId,
    /// The snapshot that holds its last state; none in a plan, and for a workspace without files.
    pub snapshot: Option<ObjectId>,
    /// The bytes that its directory took on disk.
    pub disk_usage: i64,
    /// When it was last used.
    pub last_used: Timestamp,
    /// Ignored files that went with its directory, or would.
    pub ignored: IgnoredFiles,
}

/// What a clean-up did, or would do.
#[derive(Clone, Debug, Default)]
pub struct Cleaned {
    /// Workspaces whose directory went away.
    pub workspaces: Vec<CleanedWorkspace>,
    /// What garbage collection gave back; none in a plan.
    pub collected: Option<GarbageReport>,
}

impl Upkeep {
    /// Removes the directories of workspaces that nobody used for so long. Their last state is
    /// kept and comes back with the next request for the path, without what only the ignore
    /// rules name. Content that nothing names is collected, too. With `dry_run` nothing happens and
    /// the answer is the plan.
    pub fn clean(&self, unused_for: Duration, dry_run: bool, cause: &Cause) -> Result<Cleaned> {
        self.clean_with(unused_for, false, dry_run, cause)
    }

    /// Like [`clean`](Self::clean); with `include_ignored` the last state keeps ignored files too.
    pub fn clean_with(
        &self,
        unused_for: Duration,
        include_ignored: bool,
        dry_run: bool,
        cause: &Cause,
    ) -> Result<Cleaned> {
        self.context
            .with_reserve(|| self.clean_now(unused_for, include_ignored, dry_run, cause))
    }

    fn clean_now(
        &self,
        unused_for: Duration,
        include_ignored: bool,
        dry_run: bool,
        cause: &Cause,
    ) -> Result<Cleaned> {
        let before = Timestamp(self.context.now().0.saturating_sub(micros(unused_for)));
        let mut cleaned = Cleaned::default();
        if !dry_run {
            // First: to keep the last state of a workspace may need the space.
            cleaned.collected = Some(self.collect_garbage(AGE_GUARD)?);
            self.context.prune_idempotency_records()?;
        }
        for (row, planned) in self.plan_clean(before, include_ignored)? {
            if dry_run {
                cleaned.workspaces.push(planned);
                continue;
            }
            match self.clean_workspace(&row, before, include_ignored, cause) {
                Ok(None) => {}
                Ok(Some((snapshot, ignored))) => cleaned.workspaces.push(CleanedWorkspace {
                    snapshot,
                    ignored,
                    ..planned
                }),
                // Somebody has begun to use it.
                Err(error) if error.code() == ErrorCode::WorkspaceBusy => {}
                Err(error) => return Err(error),
            }
        }
        if !dry_run {
            self.directories.collect_layers(LAYER_AGE_GUARD)?;
        }
        Ok(cleaned)
    }

    /// The workspaces whose directory nobody used for so long, and nobody uses now. What outside
    /// programs changed is recorded on the way, and is a use.
    fn plan_clean(
        &self,
        before: Timestamp,
        include_ignored: bool,
    ) -> Result<Vec<(WorkspaceRow, CleanedWorkspace)>> {
        let mut plan = Vec::new();
        let mut in_use = None;
        for row in self.store().read(|tx| tx.workspaces(None, 0))? {
            if !self.may_be_cleaned(&row, before)? {
                continue;
            }
            let Ok(_lock) = self.directories.exclusive(&row) else {
                continue;
            };
            // The row as it is under the lock: someone may have used the workspace meanwhile.
            let Ok(row) = self.store().read(|tx| open_row_by_key(tx, &row)) else {
                continue;
            };
            if !self.may_be_cleaned(&row, before)? {
                continue;
            }
            self.directories.ensure_directory_locked(&row)?;
            let synced = self
                .sync
                .sync_locked_with(&row, false, Durability::Relaxed)?;
            let in_use = in_use.get_or_insert_with(|| ProcessUsage::collect(UseKind::Any));
            if !synced.changes.is_empty() || self.directories.is_used(&row, in_use)? {
                continue;
            }
            let dir = self.directories.dir_of(&row)?;
            let counted = count_on_disk(&row, &dir)?;
            // What is too large to be kept keeps the directory.
            let is_kept = include_ignored && row.handed_out;
            let too_large = is_kept && counted.largest > largest_file(&self.contents, &row);
            if too_large || !synced.too_large.is_empty() || !synced.unrecorded.is_empty() {
                continue;
            }
            let ignored = match include_ignored {
                true => IgnoredFiles::default(),
                false => self.sync.count_ignored(&row, &dir, &synced.ignored)?,
            };
            let planned = CleanedWorkspace {
                id: row.id.clone(),
                snapshot: None,
                disk_usage: counted.disk_usage,
                last_used: row.used_at,
                ignored,
            };
            plan.push((row, planned));
        }
        Ok(plan)
    }

    fn may_be_cleaned(&self, row: &WorkspaceRow, before: Timestamp) -> Result<bool> {
        // Commits that somebody made in the `.git` of a fork are nowhere else.
        Ok(row.materialized && row.used_at <= before && !self.directories.has_git(row)?)
    }

    /// Takes the directory of a workspace away and returns the snapshot that holds its last state.
    /// None, and nothing has changed, if somebody used it meanwhile.
    fn clean_workspace(
        &self,
        row: &WorkspaceRow,
        before: Timestamp,
        include_ignored: bool,
        cause: &Cause,
    ) -> Result<Option<(Option<ObjectId>, IgnoredFiles)>> {
        let _lock = self.directories.exclusive(row)?;
        let row = &self.store().read(|tx| open_row_by_key(tx, row))?;
        if !self.may_be_cleaned(row, before)? {
            return Ok(None);
        }
        let detached = self.sync.detach(row, UseKind::Any)?;
        let mut synced = detached.sync(false, Durability::Synced)?;
        if !synced.changes.is_empty() {
            // An outside program is at work in it.
            return Ok(None);
        }
        if include_ignored {
            // They come back with the directory as entries of the index.
            synced = detached.sync(true, Durability::Synced)?;
        }
        // What is too large to be kept keeps the directory (INV-5).
        if !synced.too_large.is_empty() || !synced.unrecorded.is_empty() {
            return Ok(None);
        }
        let ignored = detached.count_ignored(&synced)?;
        detached.close()?;
        let snapshot = self.workspaces.keep_recorded(
            row,
            "before clean-up",
            false,
            Durability::Synced,
            cause,
        )?;
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            let mut now = open_row_by_key(tx, row)?;
            now.materialized = false;
            now.handed_out = false;
            now.synced_revision = now.revision;
            tx.update_workspace(&now)?;
            if let Some(mut fork) = tx.fork(now.key)? {
                (fork.layer, fork.setup) = (None, None);
                tx.put_fork(&fork)?;
            }
            let mut line = line_of(&now, HistoryOp::WorkspaceClean, cause, at);
            line.after = snapshot;
            tx.add_history(&line).map(drop)
        })?;
        detached.discard();
        self.directories.discard_dir(row)?;
        Ok(Some((snapshot, ignored)))
    }

    /// Collects content that nothing names and that is older than the guard. Never needs twice
    /// the disk: packs are rewritten one at a time.
    pub fn collect_garbage(&self, age_guard: Duration) -> Result<GarbageReport> {
        let before = Timestamp(self.context.now().0.saturating_sub(micros(age_guard)));
        let reachable = self.reachable()?;
        self.store().collect(&reachable, before)
    }

    /// Every object that something names, directly or through trees and commits.
    pub(crate) fn reachable(&self) -> Result<HashSet<ObjectId>> {
        self.store().read(|tx| self.reachable_in(tx))
    }

    /// Those of `ids` that nothing names any more, each with the age of its row in the same view, for
    /// [`offshoot_store::Store::erase`].
    pub(crate) fn unnamed_of(&self, ids: &HashSet<ObjectId>) -> Result<Vec<(ObjectId, Timestamp)>> {
        self.store().read(|tx| {
            let named = self.reachable_in(tx)?;
            ages_in(tx, ids.difference(&named))
        })
    }

    fn reachable_in(&self, tx: &dyn ReadTx) -> Result<HashSet<ObjectId>> {
        // Blobs name nothing, so only trees and commits have to be read. Which objects those are is
        // read in the same view: a tree that came later would be taken for a blob, and what it
        // names for unnamed.
        let inner = objects_that_lead_on(tx)?;
        let mut seen = HashSet::new();
        let mut roots = Vec::new();
        tx.visit_roots(&mut |id| roots.push(id))?;
        let objects = StoredObjects::new(self.store(), Some(tx));
        let mut commits = Vec::new();
        while let Some(id) = roots.pop() {
            match inner.get(&id) {
                Some(ObjectKind::Tag) if seen.insert(id) => {
                    if let Some((_, bytes)) = objects.read(&id)? {
                        roots.push(tag_target(&bytes)?);
                    }
                }
                Some(ObjectKind::Commit) => commits.push(id),
                Some(ObjectKind::Tree) => {
                    walk_objects(&objects, id, &mut seen, |_, _| Ok(()))?;
                }
                _ => {
                    seen.insert(id);
                }
            }
        }
        while let Some(id) = commits.pop() {
            if !seen.insert(id) {
                continue;
            }
            let Some((_, bytes)) = objects.read(&id)? else {
                continue;
            };
            let commit = Commit::parse(&bytes)?;
            walk_objects(&objects, commit.tree, &mut seen, |_, _| Ok(()))?;
            // One that came from elsewhere may name anything there, also what is no tree or did not
            // come along.
            let is_tree = |id: &ObjectId| inner.get(id) == Some(&ObjectKind::Tree);
            let sidecar = commit.sidecar().filter(is_tree);
            if let Some(sidecar) = sidecar {
                walk_objects(&objects, sidecar, &mut seen, |_, _| Ok(()))?;
            }
            commits.extend(commit.parents);
        }
        Ok(seen)
    }
}

/// These objects with the ages of their rows; without those that have none.
pub(crate) fn ages_in<'a>(
    tx: &dyn ReadTx,
    ids: impl Iterator<Item = &'a ObjectId>,
) -> Result<Vec<(ObjectId, Timestamp)>> {
    let mut ages = Vec::new();
    for id in ids {
        ages.extend(tx.object(id)?.map(|row| (row.id, row.stored_at)));
    }
    Ok(ages)
}

fn objects_that_lead_on(tx: &dyn ReadTx) -> Result<HashMap<ObjectId, ObjectKind>> {
    let mut inner = HashMap::new();
    let mut after = None;
    loop {
        let rows = tx.objects_after(after.as_ref(), STEP, false)?;
        let Some(last) = rows.last() else {
            return Ok(inner);
        };
        after = Some(last.id);
        let leads_on = rows.into_iter().filter(|row| row.kind != ObjectKind::Blob);
        inner.extend(leads_on.map(|row| (row.id, row.kind)));
    }
}
