//! Layers: frozen directories that show a state, so that a fork of it is one mount.
//!
//! A layer is made from the store alone: it holds a whole state (a *base layer*) or what differs
//! between the state that the layer below shows and its own. So publishing a merge, putting
//! differences together and building a layer for an old snapshot are the same act: write the
//! difference of two states. Layers are a cache. What is missing is built by whoever needs it, under
//! a lock per project; a layer and all below it never change (INV-2).

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use offshoot_core::{EntryKind, ObjectId, RelPath, Result, Timestamp};
use offshoot_fs::{LayerState, LayerWriter, SafeDir, WorkspaceLock, layer_state};
use offshoot_store::{Durability, LayerRow, ReadTx, WorkspaceKey, WorkspaceState};

use crate::content::incoming::hash_file;
use crate::content::inherited::add_dirs_above;
use crate::content::objects::missing_content;
use crate::content::rows::state_of_row;
use crate::content::state::{State, StateChange, StateEntry};
use crate::context::describe_busy;
use crate::context::jobs::JobKind;
use crate::directory::Directories;
use crate::directory::git_layer::is_git_layer;

/// So many differences of one size are put together into one.
const RUN: usize = 16;
/// A stack this deep gets no further layer on top of it.
const DEEPEST: i64 = 96;
/// Differences of at least so many entries, and a quarter of the base, call for a new base.
const NEW_BASE_FROM: i64 = 1_000;
/// Held alone by who collects layers, and together by all who build them.
const COLLECTING: &str = "layers";
/// So many snapshots are looked at for one that has a layer.
const NEIGHBOURS: usize = 64;

/// Layers that show a state.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    /// The number of the topmost.
    pub(crate) top: i64,
    /// What they show.
    pub(crate) state: State,
    /// Their directories, the newest first.
    pub(crate) layers: Arc<[PathBuf]>,
    /// Their rows, in the same order.
    pub(crate) rows: Arc<[LayerRow]>,
}

impl Directories {
    /// Makes the layer of a project's head soon.
    pub(crate) fn publish(&self, project: WorkspaceKey) {
        let directories = self.clone();
        let kind = JobKind::Publish(project.0);
        (self.context).later(kind, move || directories.publish_now(project));
    }

    /// Makes the layer of a project's head, and fewer where there are many.
    pub(crate) fn publish_now(&self, project: WorkspaceKey) -> Result<()> {
        let row = self.store().read(|tx| tx.workspace_by_key(project))?;
        let Some(row) = row.filter(|row| row.state == WorkspaceState::Open) else {
            return Ok(());
        };
        self.stack_for(project, state_of_row(&row), row.head)?;
        self.compact(project)
    }

    /// Layers that show a state, built if there are none. The state is that of a snapshot of the
    /// project, or not far from it.
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
            .read(|tx| self.layer_near(tx, project, state, snapshot))?;
        let layer = self.build_layer(project, state, below, 0)?;
        self.open_stack(layer.key, true)?
            .ok_or_else(|| offshoot_core::Error::internal("a layer vanished while it was made"))
    }

    /// The stack whose topmost layer has this number.
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

    /// Whether somebody collected the layers of a stack that was found or remembered. Then what a
    /// fork of it shows is worth nothing, and all is done again with other layers.
    pub(crate) fn is_gone(&self, stack: &Stack) -> Result<bool> {
        self.forget_stack(stack.top);
        let row = self.store().read(|tx| tx.layer(stack.top))?;
        Ok(row.is_none() || !stack.layers.iter().all(|layer| layer.is_dir()))
    }

    /// Forgets what was remembered about a stack, whose layers turned out to be gone.
    pub(crate) fn forget_stack(&self, top: i64) {
        self.stacks().remove(&top);
    }

    fn stacks(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<i64, Stack>> {
        self.stacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What whoever builds layers of a project holds: nobody else builds them, and nobody collects
    /// what is not in a row yet or is about to be stood on.
    pub(crate) fn layers_lock(
        &self,
        project: WorkspaceKey,
    ) -> Result<(WorkspaceLock, WorkspaceLock)> {
        // Building a base layer of a large project takes its time.
        let patience = self
            .context
            .options
            .lock_timeout
            .max(Duration::from_secs(600));
        let locks = &self.context.locks;
        let what = "the layers of the project";
        let own = locks.exclusive(&format!("layers-{}", project.0), patience);
        let own = own.map_err(|error| describe_busy(error, what))?;
        let collecting = locks.shared(COLLECTING, patience);
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

    /// A stack whose layers are all on disk. With `repair`, under the lock, those that an unclean
    /// stop may have torn are looked at and made again.
    pub(crate) fn open_stack(&self, top: i64, repair: bool) -> Result<Option<Stack>> {
        if let Some(stack) = self.stacks().get(&top) {
            return Ok(Some(stack.clone()));
        }
        let rows = self.store().read(|tx| stack_rows(tx, top))?;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let state = shown_by(first);
        // From below: what stands on others may be made from them.
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
        };
        self.stacks().insert(top, stack.clone());
        Ok(Some(stack))
    }

    pub(crate) fn layer_path(&self, row: &LayerRow) -> PathBuf {
        self.context.data.layers().join(&row.name)
    }

    fn layer_is_usable(&self, row: &LayerRow, below: &[LayerRow], repair: bool) -> Result<bool> {
        let place = self.layer_path(row);
        match layer_state(&place)? {
            LayerState::Complete => return Ok(true),
            LayerState::CompleteBeforeBoot if row.synced => return Ok(true),
            LayerState::CompleteBeforeBoot | LayerState::Incomplete if !repair => {
                return Ok(false);
            }
            LayerState::CompleteBeforeBoot => {
                // A difference is written again as quickly as it is compared.
                if row.below.is_none() && self.layer_is_whole(row)? {
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
            self.write_layer(place, below.first().map(shown_by), shown_by(row))?;
        }
        Ok(true)
    }

    /// Compares a base layer with the state that it should show.
    pub(crate) fn layer_is_whole(&self, row: &LayerRow) -> Result<bool> {
        let dir = SafeDir::open(self.layer_path(row))?.following_no_links();
        let mut whole = true;
        self.for_each_entry(shown_by(row), &mut |path, entry| {
            if whole {
                whole = self.is_as_expected(&dir, path, entry)?;
            }
            Ok(())
        })?;
        Ok(whole)
    }

    pub(crate) fn is_as_expected(
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

    fn for_each_entry(
        &self,
        state: State,
        visit: &mut dyn FnMut(&RelPath, &StateEntry) -> Result<()>,
    ) -> Result<()> {
        // Not while a transaction is open: writing a layer of many files takes seconds.
        let mut entries = Vec::new();
        self.store().read(|tx| {
            entries.clear();
            state.walk(
                &self.contents.objects_in(tx),
                &RelPath::root(),
                &mut |path, entry| {
                    entries.push((path.clone(), *entry));
                    Ok(())
                },
            )
        })?;
        for (path, entry) in &entries {
            visit(path, entry)?;
        }
        Ok(())
    }

    /// A layer that shows a state near this one, on which a difference can stand.
    fn layer_near(
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
        let newest = number.map_or(i64::MAX, |number| number + NEIGHBOURS as i64 + 1);
        let snapshots = tx.snapshots_before(project, newest, 2 * NEIGHBOURS)?;
        let at = snapshots
            .iter()
            .position(|row| number.is_none_or(|number| row.number == number))
            .unwrap_or(0);
        let (newer, older) = snapshots.split_at(at);
        for snapshot in older.iter().chain(newer.iter().rev()).take(NEIGHBOURS) {
            let rows = tx.layers_showing(&snapshot.tree, &snapshot.sidecar)?;
            let usable = rows.into_iter().find(|row| row.depth < DEEPEST);
            let Some(row) = usable else { continue };
            let mut objects = self.contents.objects_in(tx);
            objects.cache_trees();
            let changes = shown_by(&row).diff(&objects, &state, &RelPath::root())?;
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
        let (entries, bytes) = self.write_layer(place, below.as_ref().map(shown_by), state)?;
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

    /// Writes the difference of two states, or a whole one. Returns its entries and bytes.
    fn write_layer(&self, place: PathBuf, from: Option<State>, to: State) -> Result<(i64, i64)> {
        let mut writer = LayerWriter::new(place)?;
        let mut dirs = 0;
        match from {
            None => self.for_each_entry(to, &mut |path, entry| {
                dirs += i64::from(entry.kind == EntryKind::Dir);
                self.write_entry(&mut writer, path, entry, false)
            })?,
            Some(from) => dirs = self.write_difference(&mut writer, &from, &to)?,
        }
        let counts = writer.finish()?;
        let entries = counts.files + counts.links + counts.whiteouts;
        Ok((entries as i64 + dirs, counts.bytes as i64))
    }

    fn write_difference(&self, writer: &mut LayerWriter, from: &State, to: &State) -> Result<i64> {
        let mut changes: Vec<StateChange> = Vec::new();
        let mut parents: Vec<(RelPath, u32)> = Vec::new();
        self.store().read(|tx| {
            let mut objects = self.contents.objects_in(tx);
            objects.cache_trees();
            changes = from.diff(&objects, to, &RelPath::root())?;
            // Directories on the way are part of the layer, with the bits that they have.
            let mut above: BTreeSet<RelPath> = BTreeSet::new();
            for change in &changes {
                add_dirs_above(&mut above, &change.path);
            }
            parents.clear();
            for dir in above {
                if let Some(entry) = to.entry(&objects, &dir)?
                    && entry.kind == EntryKind::Dir
                {
                    parents.push((dir, entry.perm));
                }
            }
            Ok(())
        })?;
        let mut todo: Vec<(&RelPath, Todo<'_>)> = parents
            .iter()
            .map(|(path, perm)| (path, Todo::Parent(*perm)))
            .chain(
                changes
                    .iter()
                    .map(|change| (&change.path, Todo::Change(change))),
            )
            .collect();
        // A directory before what is in it; one that is both is made by its change.
        todo.sort_by(|a, b| a.0.cmp(b.0).then(a.1.order().cmp(&b.1.order())));
        todo.dedup_by(|later, earlier| later.0 == earlier.0);
        let mut hidden: Option<&RelPath> = None;
        let mut dirs = 0;
        for (path, what) in todo {
            if hidden.is_some_and(|above| path.starts_with(above)) {
                continue;
            }
            match what {
                Todo::Parent(perm) => {
                    dirs += 1;
                    writer.dir(path, perm)?;
                }
                Todo::Change(change) => {
                    let was_dir = change
                        .before
                        .is_some_and(|before| before.kind == EntryKind::Dir);
                    match &change.after {
                        None => writer.whiteout(path)?,
                        Some(entry) => {
                            dirs += i64::from(entry.kind == EntryKind::Dir);
                            let hides = change.before.is_some() && !was_dir;
                            self.write_entry(writer, path, entry, hides)?;
                        }
                    }
                    // One whiteout, or a file, hides all that was below.
                    let is_dir = change
                        .after
                        .is_some_and(|after| after.kind == EntryKind::Dir);
                    if was_dir && !is_dir {
                        hidden = Some(path);
                    }
                }
            }
        }
        Ok(dirs)
    }

    fn write_entry(
        &self,
        writer: &mut LayerWriter,
        path: &RelPath,
        entry: &StateEntry,
        hides: bool,
    ) -> Result<()> {
        let content = || entry.id.ok_or_else(missing_content);
        match entry.kind {
            EntryKind::Dir if hides => writer.opaque_dir(path, entry.perm),
            EntryKind::Dir => writer.dir(path, entry.perm),
            EntryKind::Symlink => writer.symlink(path, &self.contents.whole_object(&content()?)?),
            EntryKind::File => {
                let (_, _, mut bytes) = self
                    .store()
                    .open_object(&content()?)?
                    .ok_or_else(missing_content)?;
                writer.file(path, entry.perm, &mut bytes).map(drop)
            }
        }
    }

    /// Puts layers of a project's head together where there are many. Tiered: so many of one size
    /// become one of the next, and the base is written anew when what stands on it is a quarter of
    /// it.
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

    /// Removes layers that nothing stands on: neither an open fork nor the head of a project. Rows
    /// first, then what is on disk and in no row (INV-3). Returns how many went; a cache is lost,
    /// nothing else.
    pub fn collect_layers(&self, age_guard: Duration) -> Result<u64> {
        let micros = i64::try_from(age_guard.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp(self.context.now().0.saturating_sub(micros));
        // A layer that is being written is in no row, and would lose files under the writer's
        // hands. If somebody builds for long, garbage can wait for the next time.
        let patience = self.context.options.lock_timeout;
        let Ok(alone) = self.context.locks.exclusive(COLLECTING, patience) else {
            return Ok(0);
        };
        let removed = self.store().write(Durability::Synced, |tx| {
            let kept = layers_to_keep(tx)?;
            let mut rows = tx.layers()?;
            rows.retain(|row| !kept.contains(&row.key) && row.made_at < before);
            // Those on top first: one that others stand on cannot go.
            rows.sort_by_key(|row| std::cmp::Reverse(row.depth));
            let mut removed = Vec::new();
            for row in rows {
                if tx.remove_layer(row.key)? {
                    removed.push(row);
                }
            }
            Ok(removed)
        })?;
        for row in &removed {
            self.forget_stack(row.key);
            offshoot_fs::remove_layer(&self.layer_path(row))?;
        }
        let trash = self.sweep_layers()?;
        drop(alone);
        self.empty_trash(&trash);
        Ok(removed.len() as u64)
    }

    /// Removes these layers, which nobody stands on, whatever their age.
    pub(crate) fn drop_layers(&self, layers: &HashSet<i64>) -> Result<()> {
        if layers.is_empty() {
            return Ok(());
        }
        let removed = self.store().write(Durability::Synced, |tx| {
            let mut rows = tx.layers()?;
            rows.retain(|row| layers.contains(&row.key));
            rows.sort_by_key(|row| std::cmp::Reverse(row.depth));
            for row in &rows {
                tx.remove_layer(row.key)?;
            }
            Ok(rows)
        })?;
        for row in &removed {
            self.forget_stack(row.key);
            offshoot_fs::remove_layer(&self.layer_path(row))?;
        }
        Ok(())
    }

    /// Takes away what a killed process was building or removing, if nobody builds right now. It is
    /// in `tmp/` then, to be removed with what else is there.
    pub(crate) fn sweep_orphan_layers(&self) -> Result<()> {
        match self.context.locks.exclusive(COLLECTING, Duration::ZERO) {
            Ok(_alone) => self.sweep_layers().map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Takes out of the directory of layers what no row names, for the caller to remove when it has
    /// let the builders in again. Whoever builds a layer holds the lock that we have alone until
    /// its row is there, so none of it has a living builder.
    fn sweep_layers(&self) -> Result<Vec<PathBuf>> {
        let mut trash = Vec::new();
        let known: HashSet<String> = self
            .store()
            .read(|tx| tx.layers())?
            .into_iter()
            .map(|row| row.name)
            .collect();
        let dir = self.context.data.layers();
        let unreadable = crate::content::incoming::unreadable;
        for entry in std::fs::read_dir(&dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let layer = name.strip_suffix(".complete").unwrap_or(&name);
            if known.contains(layer) {
                continue;
            }
            if entry.path().is_dir() {
                let away = self.context.data.new_trash_path();
                std::fs::rename(entry.path(), &away).map_err(unreadable)?;
                trash.push(away);
            } else {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(trash)
    }
}

enum Todo<'a> {
    Change(&'a StateChange),
    Parent(u32),
}

impl Todo<'_> {
    fn order(&self) -> u8 {
        match self {
            Todo::Change(_) => 0,
            Todo::Parent(_) => 1,
        }
    }
}

pub(crate) fn shown_by(row: &LayerRow) -> State {
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

/// The next layer to build so that a project's head has fewer: what it shows, what it stands on,
/// and its level.
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
    if run < RUN {
        return Ok(None);
    }
    let below = rows.into_iter().nth(run).unwrap_or(base);
    Ok(Some((head, Some(below), level + 1)))
}

/// Layers whose state a test is true of, and those that stand on one: their stacks show it, or hold
/// it below what hides it.
pub(crate) fn layers_holding(
    tx: &dyn ReadTx,
    holds: &mut dyn FnMut(offshoot_core::ObjectId) -> Result<bool>,
) -> Result<HashSet<i64>> {
    let mut rows = tx.layers()?;
    rows.sort_by_key(|row| row.depth);
    let mut found = HashSet::new();
    for row in rows {
        let below = row.below.is_some_and(|below| found.contains(&below));
        // A `.git` holds a whole history, and whatever was committed on top of it.
        if below || is_git_layer(&row) || holds(row.tree)? || holds(row.sidecar)? {
            found.insert(row.key);
        }
    }
    Ok(found)
}

/// Layers of open forks and of the heads of open projects, with all below them.
fn layers_to_keep(tx: &dyn ReadTx) -> Result<HashSet<i64>> {
    let mut tops = tx.layers_in_use()?;
    for project in tx.projects(None, 0)? {
        let rows = tx.layers_showing(&project.tree, &project.sidecar)?;
        tops.extend(rows.first().map(|row| row.key));
    }
    let mut kept = HashSet::new();
    for top in tops {
        let mut next = Some(top);
        while let Some(key) = next.filter(|key| kept.insert(*key)) {
            next = tx.layer(key)?.and_then(|row| row.below);
        }
    }
    Ok(kept)
}
