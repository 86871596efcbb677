//! Forks after an unclean stop: what is on disk against what is in rows.
//!
//! A private directory belongs to an open fork, or a killed process was making, moving or removing
//! it, or a power cut took the rows of a fork before they were durable. The last is the only one
//! that is brought back, from the note beside it; it is told from the others by the boot in which
//! the note was written.

use std::path::Path;
use std::time::Duration;

use offshoot_core::{Cause, Error, ObjectId, Operator, ProjectId, Result, Timestamp, WorkspaceId};
use offshoot_fs::{ForkDirs, NameLock, ProviderName};
use offshoot_store::{
    Durability, ForkRow, HistoryOp, LayerRow, ReadTx, SnapshotRow, WorkspaceKey, WorkspaceKind,
    WorkspaceRow, WorkspaceState, WriteTx,
};

use crate::content::rows::{fork_row, open_project};
use crate::content::workspace_row::{Quota, line_of, new_row};
use crate::directory::fork_dir::parse_fork_dir_name;
use crate::directory::replacement::NEXT;
use crate::directory::setup_layer::SETUP_LEVEL;
use crate::formats;
use crate::formats::{ForkNote, LayerNote};
use crate::upkeep::Upkeep;

/// How long recovery waits for the lock of a fork: the process that holds it repairs it.
const MAX_WAIT: Duration = Duration::from_millis(200);

impl Upkeep {
    /// Puts forks right. Returns whether all went well, and the directories that are to go.
    pub(crate) fn recover_forks(&self) -> Result<(bool, Vec<(ForkDirs, NameLock)>)> {
        let mut all_well = true;
        let mut to_go = Vec::new();
        for name in names_in(&self.context.data.tmp()) {
            all_well &= self
                .directories
                .recover_moved_aside(&name, MAX_WAIT)
                .is_ok();
            all_well &= self.recover_next(&name).is_ok();
            all_well &= self.directories.recover_setup_run(&name).is_ok();
        }
        for name in names_in(&self.context.data.forks()) {
            if let Some((id, place)) = parse_fork_dir_name(&name) {
                match self.recover_fork(&id, place) {
                    Ok(orphan) => to_go.extend(orphan),
                    Err(_) => all_well = false,
                }
            }
        }
        Ok((all_well, to_go))
    }

    /// A directory that an update was filling.
    fn recover_next(&self, name: &str) -> Result<()> {
        let key = name
            .strip_prefix(NEXT)
            .and_then(|rest| rest.split('-').next())
            .and_then(|key| key.parse().ok());
        let Some(key) = key else {
            return Ok(());
        };
        let target = self.context.data.tmp().join(name);
        let Ok(_lock) = self
            .directories
            .exclusive_unrepaired(WorkspaceKey(key), MAX_WAIT)
        else {
            return Ok(());
        };
        // A committed update finishes with it; one that is not committed does not need it.
        let row = self
            .store()
            .read(|tx| tx.workspace_by_key(WorkspaceKey(key)))?;
        if let Some(row) = row.filter(|row| row.state == WorkspaceState::Open) {
            let fork = self.store().read(|tx| fork_row(tx, &row))?;
            self.directories.finish_update(&row, &fork)?;
        }
        if !target.exists() {
            return Ok(());
        }
        // What a killed clean-up of it leaves is named so that the next start throws it away.
        let trash = format!("trash-{}", uuid::Uuid::now_v7().simple());
        let dirs = ForkDirs::new(self.context.data.tmp().join(trash), &target);
        // An empty directory may be the bare target of a mount, which only its provider can remove.
        let bare = std::fs::read_dir(&target).is_ok_and(|mut names| names.next().is_none());
        let provider = if bare {
            self.directories.provider_that_made(ProviderName::Overlay)?
        } else {
            self.directories.provider_by_files(&dirs)?
        };
        provider.cleanup(&dirs)
    }

    /// Puts one right. Returns its directories, with its name, if they belong to nobody.
    fn recover_fork(&self, id: &WorkspaceId, place: i64) -> Result<Option<(ForkDirs, NameLock)>> {
        let Ok(name) = self.context.name_lock_within(id, MAX_WAIT) else {
            return Ok(None);
        };
        let row = self.store().read(|tx| tx.workspace(id))?;
        let open = row.filter(|row| row.state == WorkspaceState::Open);
        let dirs = ForkDirs::new(
            self.context.data.forks().join(format!("{id}.{place}")),
            self.context.data.workspace(id),
        );
        if let Some(row) = open {
            return self.recover_open_fork(&row, &dirs, place).map(|()| None);
        }
        let note = std::fs::read(dirs.private.join("fork.json"))
            .ok()
            .and_then(|bytes| formats::parse_text::<ForkNote>(bytes).ok());
        if let Some(note) = note
            && note.boot != offshoot_sys::boot_id()
            && !note.rows_on_disk
            && !self.store().read(|tx| was_known(tx, &note))?
        {
            let adopted = self
                .store()
                .write(Durability::Synced, |tx| self.adopt(tx, id, place, &note))?;
            if adopted {
                return Ok(None);
            }
        }
        Ok(Some((dirs, name)))
    }

    fn recover_open_fork(&self, row: &WorkspaceRow, dirs: &ForkDirs, place: i64) -> Result<()> {
        let Ok(_lock) = self.directories.exclusive_unrepaired(row.key, MAX_WAIT) else {
            return Ok(());
        };
        let row = match self.store().read(|tx| tx.workspace_by_key(row.key))? {
            Some(row) if row.kind == WorkspaceKind::Fork => row,
            _ => return self.directories.provider_by_files(dirs)?.cleanup(dirs),
        };
        let fork = self.store().read(|tx| fork_row(tx, &row))?;
        if row.materialized && fork.place == place {
            // A process that died while removing the directory had made it refuse changes.
            self.directories.provider_by_files(dirs)?.thaw(dirs)?;
            return self.directories.finish_update(&row, &fork);
        }
        if !row.materialized {
            return self.directories.discard_fork_dir(&row);
        }
        if place + 1 == fork.place {
            // The old directory of an update that is committed.
            return self.directories.finish_update(&row, &fork);
        }
        // The new directory of one that is not.
        let nowhere = ForkDirs::new(&dirs.private, self.context.data.tmp().join("nowhere"));
        self.directories
            .provider_by_files(&nowhere)?
            .cleanup(&nowhere)
    }

    /// Brings back the rows of a fork that a power cut took. Returns false if its project or its
    /// snapshot is gone.
    fn adopt(
        &self,
        tx: &mut dyn WriteTx,
        id: &WorkspaceId,
        place: i64,
        note: &ForkNote,
    ) -> Result<bool> {
        let project: ProjectId = note.project.parse()?;
        let Ok(project) = open_project(tx, &project) else {
            return Ok(false);
        };
        let Some(base) = tx.snapshot(project.key, &parse_id(&note.base)?)? else {
            return Ok(false);
        };
        let origin = match &note.origin {
            Some(text) => match tx.snapshot(project.key, &parse_id(text)?)? {
                Some(row) => Ok(row),
                None => self
                    .contents
                    .find_snapshot_anywhere(tx, text)
                    .map(|found| found.1),
            },
            None => Ok(base.clone()),
        };
        let Ok(origin) = origin else {
            return Ok(false);
        };
        let at = Timestamp(note.created_at);
        let mut row = new_row(id, offshoot_core::Layout::Plain, Quota::default(), at);
        row.kind = WorkspaceKind::Fork;
        row.head = Some(origin.id);
        (row.tree, row.sidecar) = (origin.tree, origin.sidecar);
        (row.files, row.dirs, row.bytes) = (origin.files, origin.dirs, origin.bytes);
        row.materialized = true;
        // Whatever is in the directory came without us.
        row.handed_out = true;
        row.key = tx.add_workspace(&row)?;
        let layer = adopt_layers(tx, project.key, &note.layers, at)?;
        // The row of a setup layer is durable before a fork can stand on it.
        let setups = tx.layers_of_level(project.key, SETUP_LEVEL)?;
        let setup = setups
            .iter()
            .find(|row| Some(&row.name) == note.setup.as_ref());
        let setup = setup.map(|row| row.key);
        tx.put_fork(&ForkRow {
            workspace: row.key,
            project: project.key,
            base: base.id,
            base_tree: base.tree,
            base_sidecar: base.sidecar,
            agent: note.agent.as_deref().map(str::parse).transpose()?,
            priority: note.priority,
            git: note.git,
            provider: Some(note.provider.clone()),
            layer,
            setup,
            place,
        })?;
        tx.add_snapshot(&SnapshotRow {
            workspace: row.key,
            number: 1,
            ..origin
        })?;
        let cause = Cause::by(Operator::system());
        let mut line = line_of(&row, HistoryOp::WorkspaceCreate, &cause, at);
        line.after = Some(base.id);
        tx.add_history(&line)?;
        Ok(true)
    }
}

/// Whether there was ever a row for this fork: a name may be used by one after the other.
fn was_known(tx: &dyn ReadTx, note: &ForkNote) -> Result<bool> {
    let rows = tx.all_workspaces()?;
    Ok(rows
        .iter()
        .any(|row| row.id.as_str() == note.id && row.created_at.0 == note.created_at))
}

/// The rows of a stack of layers by their names, made again where they are missing. Returns the
/// number of the topmost.
fn adopt_layers(
    tx: &mut dyn WriteTx,
    project: WorkspaceKey,
    notes: &[LayerNote],
    at: Timestamp,
) -> Result<Option<i64>> {
    let known = tx.layers()?;
    let mut below: Option<(i64, i64)> = None;
    for note in notes.iter().rev() {
        if let Some(row) = known.iter().find(|row| row.name == note.name) {
            below = Some((row.key, row.depth));
            continue;
        }
        let depth = below.map_or(1, |(_, depth)| depth + 1);
        let key = tx.add_layer(&LayerRow {
            key: 0,
            name: note.name.clone(),
            project,
            below: below.map(|(key, _)| key),
            depth,
            level: note.level,
            tree: parse_id(&note.tree)?,
            sidecar: parse_id(&note.sidecar)?,
            entries: note.entries,
            bytes: note.bytes,
            made_at: at,
            synced: false,
        })?;
        below = Some((key, depth));
    }
    Ok(below.map(|(key, _)| key))
}

fn parse_id(text: &str) -> Result<ObjectId> {
    text.parse()
        .map_err(|_| Error::internal("a note of a fork cannot be read"))
}

/// The names in a directory; none if it cannot be read.
pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}
