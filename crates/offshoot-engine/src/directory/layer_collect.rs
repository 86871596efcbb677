//! Removing layers that nothing uses (INV-3), and what killed builders left.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use offshoot_core::{Result, Timestamp};
use offshoot_fs::WorkspaceLock;
use offshoot_store::{Durability, LayerRow, ReadTx, WorkspaceKey};

use crate::content::rows::state_of_row;
use crate::directory::Directories;
use crate::directory::layers::COLLECTION_LOCK;
use crate::directory::setup_layer::{SETUP_LEVEL, setup_lock};

impl Directories {
    /// Removes layers that neither an open fork nor the head of a project uses: the rows first, then
    /// everything on disk that has no row (INV-3). Returns how many were removed. Layers are a cache, so
    /// nothing else is lost.
    pub fn collect_layers(&self, age_guard: Duration) -> Result<u64> {
        let micros = i64::try_from(age_guard.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp(self.context.now().0.saturating_sub(micros));
        // A layer that is being written has no row and must not lose files. If building takes long,
        // the next collection removes the garbage.
        let patience = self.context.options.lock_timeout;
        let Ok(alone) = self.context.locks.exclusive(COLLECTION_LOCK, patience) else {
            return Ok(0);
        };
        let unused = self.store().read(|tx| self.unused_layers(tx, before))?;
        let free = self.without_setup_run(&unused);
        let removed = self.store().write(Durability::Synced, |tx| {
            let mut rows = self.unused_layers(tx, before)?;
            rows.retain(|row| free.contains_key(&row.project));
            // The topmost first, because a layer below another one cannot be removed.
            rows.sort_by_key(|row| std::cmp::Reverse(row.depth));
            let mut removed = Vec::new();
            for row in rows {
                if tx.remove_layer(row.key)? {
                    removed.push(row);
                }
            }
            Ok(removed)
        })?;
        drop(free);
        for row in &removed {
            self.forget_stack(row.key);
            offshoot_fs::remove_layer(&self.layer_path(row))?;
        }
        let trash = self.move_unnamed_layers_to_trash()?;
        drop(alone);
        self.empty_trash(&trash);
        Ok(removed.len() as u64)
    }

    fn unused_layers(&self, tx: &dyn ReadTx, before: Timestamp) -> Result<Vec<LayerRow>> {
        let kept = self.layers_to_keep(tx)?;
        let mut rows = tx.layers()?;
        rows.retain(|row| !kept.contains(&row.key) && row.made_at < before);
        Ok(rows)
    }

    /// The projects of these layers whose setup does not run, and does not begin as long as the locks
    /// are held. The directory of a run stands on layers that no fork names.
    fn without_setup_run(&self, layers: &[LayerRow]) -> HashMap<WorkspaceKey, WorkspaceLock> {
        let projects: HashSet<WorkspaceKey> = layers.iter().map(|row| row.project).collect();
        let lock = |project| {
            let locks = &self.context.locks;
            let lock = locks.exclusive(&setup_lock(project), Duration::ZERO);
            Some((project, lock.ok()?))
        };
        projects.into_iter().filter_map(lock).collect()
    }

    /// Removes these unused layers without regard to their age.
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

    /// Moves what a killed process was building or removing to `tmp/`, unless a layer is being built
    /// right now. The clean-up of `tmp/` removes it.
    pub(crate) fn move_orphan_layers_to_trash(&self) -> Result<()> {
        match self
            .context
            .locks
            .exclusive(COLLECTION_LOCK, Duration::ZERO)
        {
            Ok(_alone) => self.move_unnamed_layers_to_trash().map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Moves everything that no row names out of the directory of layers, for the caller to remove after
    /// it released the lock. A builder holds that lock shared until its layer has a row, so nothing that
    /// is moved is being built.
    fn move_unnamed_layers_to_trash(&self) -> Result<Vec<PathBuf>> {
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

    /// Layers of open forks and of the heads of open projects, with all below them, and what each setup
    /// made last and for the head: a head that went back to earlier files has an older one.
    fn layers_to_keep(&self, tx: &dyn ReadTx) -> Result<HashSet<i64>> {
        let mut tops = tx.layers_in_use()?;
        for project in tx.projects(None, 0)? {
            let rows = tx.layers_showing(&project.tree, &project.sidecar)?;
            tops.extend(rows.first().map(|row| row.key));
            let settings = tx.project_settings(project.key)?;
            let Some(settings) = settings.filter(|settings| settings.setup.is_some()) else {
                continue;
            };
            let newest = tx.layers_of_level(project.key, SETUP_LEVEL)?;
            let ready = self.setups_for(tx, &settings, &state_of_row(&project))?;
            tops.extend(
                [newest, ready]
                    .iter()
                    .filter_map(|rows| Some(rows.first()?.key)),
            );
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
}
