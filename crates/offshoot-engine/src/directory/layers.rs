//! Layers: frozen directories that show a state, so that a fork of it is one mount.
//!
//! A layer is written from the store alone. It holds a whole state (a *base layer*) or the difference
//! between the state that the layer below shows and its own. Publishing a merge, compaction and
//! building a layer for an old snapshot all write the difference of two states (`layer_write.rs`).
//! Layers are a cache: a caller that needs a missing one builds it, under a lock per project. A layer
//! and those below it never change (INV-2).

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use offshoot_core::{EntryKind, ObjectId, RelPath, Result};
use offshoot_fs::{LayerState, SafeDir, WorkspaceLock, layer_state};
use offshoot_store::{Durability, LayerRow, ReadTx, WorkspaceKey, WorkspaceState};

use crate::content::incoming::hash_file;
use crate::content::rows::state_of_row;
use crate::content::state::{State, StateEntry};
use crate::context::describe_busy;
use crate::context::jobs::JobKind;
use crate::directory::Directories;
use crate::directory::git_layer::is_git_layer;

/// So many differences of one level are compacted into one of the next level.
const COMPACTION_RUN: usize = 16;
/// A stack this deep gets no further layer on top of it.
const MAX_DEPTH: i64 = 96;
/// A new base is written when the differences have more entries than this and than a quarter of the
/// base.
const NEW_BASE_FROM: i64 = 1_000;
/// The lock that collecting layers takes exclusively, and building them shared.
pub(crate) const COLLECTION_LOCK: &str = "layers";
/// How many snapshots are searched for one that has a layer.
const NEAREST_SNAPSHOTS: usize = 64;

/// Layers that show a state.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    /// The key of the topmost layer.
    pub(crate) top: i64,
    /// The state that they show.
    pub(crate) state: State,
    /// Their directories, the newest first.
    pub(crate) layers: Arc<[PathBuf]>,
    /// Their rows, in the same order.
    pub(crate) rows: Arc<[LayerRow]>,
    /// The setup layer, whose directory is the last and which has no row among these.
    pub(crate) setup: Option<i64>,
    /// The work tree of a person, whose `.worktreeinclude` names files for a fork.
    pub(crate) work_tree: Option<PathBuf>,
}

impl Stack {
    /// Whether its layers still have rows.
    pub(crate) fn has_rows(&self, tx: &dyn ReadTx) -> Result<bool> {
        let has_setup = match self.setup {
            Some(setup) => tx.layer(setup)?.is_some(),
            None => true,
        };
        Ok(has_setup && tx.layer(self.top)?.is_some())
    }
}

impl Directories {
    /// Makes the layer of a project's head in the background.
    pub(crate) fn publish(&self, project: WorkspaceKey) {
        let directories = self.clone();
        let kind = JobKind::Publish(project.0);
        (self.context).queue_job(kind, move || directories.publish_now(project));
    }

    /// Makes the layer of a project's head, and compacts its layers.
    pub(crate) fn publish_now(&self, project: WorkspaceKey) -> Result<()> {
        let row = self.store().read(|tx| tx.workspace_by_key(project))?;
        let Some(row) = row.filter(|row| row.state == WorkspaceState::Open) else {
            return Ok(());
        };
        self.stack_for(project, state_of_row(&row), row.head)?;
        self.compact(project)
    }

    /// Layers that show a state, built if there are none. The state is that of a snapshot of the
    /// project, or near one.
    pub(crate) fn stack_for(
        &self,
        project: WorkspaceKey,
        state: State,
        snapshot: Option<ObjectId>,
    ) -> Result<Stack> {
        if let Some(stack) = self.find_stack(state, false)? {
            return Ok(stack);
        }
        let _lock = self.layers_lock(project)?;
        if let Some(stack) = self.find_stack(state, true)? {
            return Ok(stack);
        }
        let below = self
            .store()
            .read(|tx| self.nearest_layer(tx, project, state, snapshot))?;
        let layer = self.build_layer(project, state, below, 0)?;
        self.open_stack(layer.key, true)?
            .ok_or_else(|| offshoot_core::Error::internal("a layer vanished while it was made"))
    }

    /// The stack whose topmost layer has this key.
    pub(crate) fn stack_of(&self, project: WorkspaceKey, top: i64) -> Result<Stack> {
        if let Some(stack) = self.open_stack(top, false)? {
            return Ok(stack);
        }
        let _lock = self.layers_lock(project)?;
        self.open_stack(top, true)?.ok_or_else(|| {
            offshoot_core::Error::internal("the layers of the workspace are gone")
                .with_hint("its files are in the store: `offshoot check` says more")
        })
    }

    /// Whether layers of a stack were collected after the stack was found. The caller then has to make
    /// its fork again on other layers.
    pub(crate) fn is_gone(&self, stack: &Stack) -> Result<bool> {
        self.forget_stack(stack.top);
        let has_rows = self.store().read(|tx| stack.has_rows(tx))?;
        Ok(!has_rows || !stack.layers.iter().all(|layer| layer.is_dir()))
    }

    /// Removes a stack from the cache, because its layers are gone.
    pub(crate) fn forget_stack(&self, top: i64) {
        self.stacks().remove(&top);
    }

    fn stacks(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<i64, Stack>> {
        self.stacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The locks for building layers of a project. No other caller builds them meanwhile, and no
    /// layer is collected that has no row yet or is about to get one above it.
    pub(crate) fn layers_lock(
        &self,
        project: WorkspaceKey,
    ) -> Result<(WorkspaceLock, WorkspaceLock)> {
        // Building the base layer of a large project takes minutes.
        let patience = self
            .context
            .options
            .lock_timeout
            .max(Duration::from_secs(600));
        let locks = &self.context.locks;
        let what = "the layers of the project";
        let own = locks.exclusive(&format!("layers-{}", project.0), patience);
        let own = own.map_err(|error| describe_busy(error, what))?;
        let collecting = locks.shared(COLLECTION_LOCK, patience);
        let collecting = collecting.map_err(|error| describe_busy(error, what))?;
        Ok((own, collecting))
    }

    fn find_stack(&self, state: State, repair: bool) -> Result<Option<Stack>> {
        let rows = self
            .store()
            .read(|tx| tx.layers_showing(&state.tree, &state.sidecar))?;
        for row in rows {
            if let Some(stack) = self.open_stack(row.key, repair)? {
                return Ok(Some(stack));
            }
        }
        Ok(None)
    }

    /// A stack whose layers are all on disk. With `repair`, under the lock, layers that an unclean stop
    /// may have torn are compared or written again.
    pub(crate) fn open_stack(&self, top: i64, repair: bool) -> Result<Option<Stack>> {
        if let Some(stack) = self.stacks().get(&top) {
            return Ok(Some(stack.clone()));
        }
        let rows = self.store().read(|tx| stack_rows(tx, top))?;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let state = state_of_layer(first);
        // From the lowest up, because a `.git` layer is written from those below it.
        for at in (0..rows.len()).rev() {
            if !self.layer_is_usable(&rows[at], &rows[at + 1..], repair)? {
                return Ok(None);
            }
        }
        let stack = Stack {
            top,
            state,
            layers: rows.iter().map(|row| self.layer_path(row)).collect(),
            rows: rows.into(),
            setup: None,
            work_tree: None,
        };
        self.stacks().insert(top, stack.clone());
        Ok(Some(stack))
    }

    pub(crate) fn layer_path(&self, row: &LayerRow) -> PathBuf {
        self.context.data.layers().join(&row.name)
    }

    /// Whether a layer is whole on disk; with `repair`, writes it again if it is not.
    fn layer_is_usable(&self, row: &LayerRow, below: &[LayerRow], repair: bool) -> Result<bool> {
        let place = self.layer_path(row);
        match layer_state(&place)? {
            LayerState::Complete => return Ok(true),
            LayerState::CompleteBeforeBoot if row.synced => return Ok(true),
            LayerState::CompleteBeforeBoot | LayerState::Incomplete if !repair => {
                return Ok(false);
            }
            LayerState::CompleteBeforeBoot => {
                // Writing a difference again takes no longer than comparing it.
                if row.below.is_none() && self.layer_is_intact(row)? {
                    let note = |tx: &mut dyn offshoot_store::WriteTx| tx.mark_layer_synced(row.key);
                    self.store().write(Durability::Relaxed, note)?;
                    return Ok(true);
                }
            }
            LayerState::Incomplete => {}
        }
        offshoot_fs::remove_layer(&place)?;
        if is_git_layer(row) {
            self.write_git_layer_again(row, below)?;
        } else {
            self.write_layer(
                place,
                below.first().map(state_of_layer),
                state_of_layer(row),
            )?;
        }
        Ok(true)
    }

    /// Compares a base layer with the state that it should show.
    pub(crate) fn layer_is_intact(&self, row: &LayerRow) -> Result<bool> {
        let dir = SafeDir::open(self.layer_path(row))?.following_no_links();
        let mut whole = true;
        self.for_each_state_entry(state_of_layer(row), &mut |path, entry| {
            if whole {
                whole = self.entry_is_intact(&dir, path, entry)?;
            }
            Ok(())
        })?;
        Ok(whole)
    }

    /// Whether a path of a layer has the expected entry.
    pub(crate) fn entry_is_intact(
        &self,
        dir: &SafeDir,
        path: &RelPath,
        entry: &StateEntry,
    ) -> Result<bool> {
        let Some(stat) = dir.stat(path)? else {
            return Ok(false);
        };
        if stat.entry_kind() != Some(entry.kind) {
            return Ok(false);
        }
        match entry.kind {
            EntryKind::Dir => Ok(stat.perm == entry.perm),
            EntryKind::Symlink => {
                let target = dir.read_link(path)?;
                let id = offshoot_git::hash(offshoot_core::ObjectKind::Blob, &target)?;
                Ok(Some(id) == entry.id)
            }
            EntryKind::File => {
                let (file, stat) = dir.open_file(path)?;
                Ok(stat.perm == entry.perm && Some(hash_file(&file, stat.size)?) == entry.id)
            }
        }
    }

    /// The layer of a near snapshot, if a difference to this state may stand on it.
    fn nearest_layer(
        &self,
        tx: &dyn ReadTx,
        project: WorkspaceKey,
        state: State,
        snapshot: Option<ObjectId>,
    ) -> Result<Option<LayerRow>> {
        let number = match &snapshot {
            Some(id) => tx.snapshot(project, id)?.map(|row| row.number),
            None => None,
        };
        let newest = number.map_or(i64::MAX, |number| number + NEAREST_SNAPSHOTS as i64 + 1);
        let snapshots = tx.snapshots_before(project, newest, 2 * NEAREST_SNAPSHOTS)?;
        let at = snapshots
            .iter()
            .position(|row| number.is_none_or(|number| row.number == number))
            .unwrap_or(0);
        let (newer, older) = snapshots.split_at(at);
        for snapshot in older
            .iter()
            .chain(newer.iter().rev())
            .take(NEAREST_SNAPSHOTS)
        {
            let rows = tx.layers_showing(&snapshot.tree, &snapshot.sidecar)?;
            let usable = rows.into_iter().find(|row| row.depth < MAX_DEPTH);
            let Some(row) = usable else { continue };
            let mut objects = self.contents.objects_in(tx);
            objects.cache_trees();
            let changes = state_of_layer(&row).diff(&objects, &state, &RelPath::root())?;
            let base = stack_rows(tx, row.key)?.pop();
            let limit = base.map_or(0, |base| base.entries) / 4;
            if (changes.len() as i64) < limit.max(NEW_BASE_FROM) {
                return Ok(Some(row));
            }
            return Ok(None);
        }
        Ok(None)
    }

    /// Writes a layer and its row. Under the lock.
    fn build_layer(
        &self,
        project: WorkspaceKey,
        state: State,
        below: Option<LayerRow>,
        level: i64,
    ) -> Result<LayerRow> {
        let name = uuid::Uuid::now_v7().simple().to_string();
        let place = self.context.data.layers().join(&name);
        let (entries, bytes) =
            self.write_layer(place, below.as_ref().map(state_of_layer), state)?;
        let mut row = LayerRow {
            key: 0,
            name,
            project,
            below: below.as_ref().map(|below| below.key),
            depth: below.as_ref().map_or(1, |below| below.depth + 1),
            level,
            tree: state.tree,
            sidecar: state.sidecar,
            entries,
            bytes,
            made_at: self.context.now(),
            synced: false,
        };
        row.key = self
            .store()
            .write(Durability::Relaxed, |tx| tx.add_layer(&row))?;
        Ok(row)
    }

    /// Compacts the layers of a project's head in tiers: a run of differences of one level becomes one
    /// of the next level, and a new base is written when the differences reach a quarter of it.
    pub(crate) fn compact(&self, project: WorkspaceKey) -> Result<()> {
        loop {
            let _lock = self.layers_lock(project)?;
            let plan = self.store().read(|tx| plan_compaction(tx, project))?;
            let Some((state, below, level)) = plan else {
                return Ok(());
            };
            self.build_layer(project, state, below, level)?;
        }
    }
}

/// The state that a layer and those below it show.
pub(crate) fn state_of_layer(row: &LayerRow) -> State {
    State {
        tree: row.tree,
        sidecar: row.sidecar,
    }
}

/// A layer and those below it, the newest first; empty if there is no such layer.
fn stack_rows(tx: &dyn ReadTx, top: i64) -> Result<Vec<LayerRow>> {
    let mut rows = Vec::new();
    let mut next = Some(top);
    while let Some(key) = next {
        let Some(row) = tx.layer(key)? else {
            return Ok(Vec::new());
        };
        next = row.below;
        rows.push(row);
    }
    Ok(rows)
}

/// The next layer to build in a compaction: its state, the layer below it, and its level.
fn plan_compaction(
    tx: &dyn ReadTx,
    project: WorkspaceKey,
) -> Result<Option<(State, Option<LayerRow>, i64)>> {
    let Some(row) = tx.workspace_by_key(project)? else {
        return Ok(None);
    };
    let head = state_of_row(&row);
    let Some(top) = tx
        .layers_showing(&head.tree, &head.sidecar)?
        .into_iter()
        .next()
    else {
        return Ok(None);
    };
    let mut rows = stack_rows(tx, top.key)?;
    let Some(base) = rows.pop() else {
        return Ok(None);
    };
    let above: i64 = rows.iter().map(|row| row.entries).sum();
    if above > NEW_BASE_FROM.max(base.entries / 4) {
        return Ok(Some((head, None, 0)));
    }
    let Some(level) = rows.first().map(|row| row.level) else {
        return Ok(None);
    };
    let run = rows.iter().take_while(|row| row.level == level).count();
    if run < COMPACTION_RUN {
        return Ok(None);
    }
    let below = rows.into_iter().nth(run).unwrap_or(base);
    Ok(Some((head, Some(below), level + 1)))
}

/// Layers for whose trees `holds` is true, and those above them, whose stacks show or hide the content.
pub(crate) fn layers_holding(
    tx: &dyn ReadTx,
    holds: &mut dyn FnMut(offshoot_core::ObjectId) -> Result<bool>,
) -> Result<HashSet<i64>> {
    let mut rows = tx.layers()?;
    rows.sort_by_key(|row| row.depth);
    let mut found = HashSet::new();
    for row in rows {
        let below = row.below.is_some_and(|below| found.contains(&below));
        // A `.git` layer holds a whole history.
        if below || is_git_layer(&row) || holds(row.tree)? || holds(row.sidecar)? {
            found.insert(row.key);
        }
    }
    Ok(found)
}
