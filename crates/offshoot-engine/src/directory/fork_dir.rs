//! The directory of a fork: made over layers, mounted again after a restart, removed.

use offshoot_core::{Error, ErrorCode, ObjectId, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_fs::{ForkDirs, Provider, ProviderName, SafeDir, is_fork_mounted};
use offshoot_store::{Durability, ForkRow, ReadTx, WorkspaceRow};

use crate::content::index::Index;
use crate::content::objects::PendingObjects;
use crate::content::rows::{base_state, fork_row, open_row_by_key, project_name, state_of};
use crate::content::state::State;
use crate::directory::Directories;
use crate::directory::layers::Stack;
use crate::directory::setup_layer::setup_place;
use crate::formats;
use crate::formats::{ForkNote, LayerNote};

impl Directories {
    /// The private directory and the shown directory of a fork.
    pub(crate) fn fork_dirs(&self, row: &WorkspaceRow, place: i64) -> ForkDirs {
        ForkDirs::new(
            self.context
                .data
                .forks()
                .join(format!("{}.{place}", row.id)),
            self.context.data.workspace(&row.id),
        )
    }

    /// Makes the directory of a fork. The caller holds the lock of its name or of the workspace.
    pub(crate) fn make_fork_dir(
        &self,
        provider: &dyn Provider,
        stack: &Stack,
        dirs: &ForkDirs,
        (row, fork, rows): (&WorkspaceRow, &ForkRow, ForkRows),
        project: &ProjectId,
    ) -> Result<()> {
        let note = ForkNote {
            id: row.id.to_string(),
            project: project.to_string(),
            base: fork.base.to_hex(),
            agent: fork.agent.as_ref().map(ToString::to_string),
            priority: fork.priority,
            provider: provider.name().as_str().to_owned(),
            created_at: row.created_at.0,
            handed_out: row.handed_out,
            git: fork.git,
            origin: row.head.map(ObjectId::to_hex),
            layers: stack.rows.iter().map(LayerNote::from).collect(),
            setup: setup_place(stack).and_then(|place| {
                let name = place.file_name()?;
                Some(name.to_string_lossy().into_owned())
            }),
            boot: offshoot_sys::boot_id(),
            rows_on_disk: rows == ForkRows::OnDisk,
        };
        let note = formats::to_text(&note)?;
        match provider.create(&stack.layers, dirs) {
            Err(error) if error.code() == ErrorCode::AlreadyExists => {
                // An interrupted attempt, or the removal of an earlier workspace of this name, left
                // files there.
                self.provider_by_files(dirs)?.cleanup(dirs)?;
                provider.create(&stack.layers, dirs)?;
            }
            other => drop(other?),
        }
        let written = offshoot_sys::write_private(&dirs.private.join("fork.json"), note.as_bytes());
        written.map_err(|cause| {
            let _ = provider.cleanup(dirs);
            Error::new(
                ErrorCode::WriteFailed,
                "the directory of the fork could not be made",
            )
            .with_source(cause)
        })
    }

    /// The provider that made a fork, judged by its files.
    pub(crate) fn provider_by_files(&self, dirs: &ForkDirs) -> Result<Box<dyn Provider>> {
        let overlay = dirs.upper().is_dir() || is_fork_mounted(&dirs.target)?;
        self.provider_that_made(if overlay {
            ProviderName::Overlay
        } else {
            ProviderName::Copy
        })
    }

    /// Makes the directory of a fork that has none, and updates its rows. The caller holds the
    /// exclusive lock.
    pub(crate) fn materialize_fork_dir(&self, row: &WorkspaceRow) -> Result<SafeDir> {
        let (fork, origin, project) = self.store().read(|tx| {
            let fork = fork_row(tx, row)?;
            let origin = origin_of(tx, row, &fork)?;
            let project = project_name(tx, &fork)?;
            Ok((fork, origin, project))
        })?;
        let required = fork.provider.as_deref().map(str::parse).transpose()?;
        let provider = self.provider_for_new(required)?;
        let mut tries = LAYER_TRIES;
        loop {
            self.discard_fork_dir(row)?;
            let stack = self.stack_for_fork(&fork, origin)?;
            let made = self.materialize_on_layers(row, &fork, &project, &*provider, &stack);
            tries -= 1;
            if made.is_ok() || !self.is_gone(&stack)? || tries == 0 {
                return made;
            }
        }
    }

    pub(crate) fn materialize_on_layers(
        &self,
        row: &WorkspaceRow,
        fork: &ForkRow,
        project: &ProjectId,
        provider: &dyn Provider,
        stack: &Stack,
    ) -> Result<SafeDir> {
        let dirs = self.fork_dirs(row, fork.place);
        self.make_fork_dir(
            provider,
            stack,
            &dirs,
            (row, fork, ForkRows::InNote),
            project,
        )?;
        let begun = self.write_new_fork_git(provider, stack, &dirs, row, fork);
        let filled = begun.and_then(|()| self.write_index_over_layers(row, stack, &dirs));
        let filled = filled.and_then(|dir| {
            self.copy_included(stack, &dirs)?;
            Ok(dir)
        });
        let noted = filled.and_then(|dir| {
            // The store refuses this if the layers were collected meanwhile.
            self.store().write(Durability::Relaxed, |tx| {
                let mut now = open_row_by_key(tx, row)?;
                now.materialized = true;
                now.handed_out = true;
                tx.update_workspace(&now)?;
                let mut fork = fork_row(tx, &now)?;
                fork.layer = Some(stack.top);
                fork.setup = stack.setup;
                fork.provider = Some(provider.name().as_str().to_owned());
                tx.put_fork(&fork)
            })?;
            Ok(dir)
        });
        if noted.is_err() {
            let _ = provider.cleanup(&dirs);
        }
        noted
    }

    /// Writes what differs between the layers and the index into the directory.
    pub(crate) fn write_index_over_layers(
        &self,
        row: &WorkspaceRow,
        stack: &Stack,
        dirs: &ForkDirs,
    ) -> Result<SafeDir> {
        let dir = self.open_dir(&dirs.target)?.following_no_links();
        let changes = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let index = Index::new(self.store(), tx, &now).with_rows()?;
            let mut new_objects = PendingObjects::new(&index.objects);
            let state = index
                .base()
                .edit(&mut new_objects, &index.plan_snapshot(true)?.edits)?;
            stack.state.diff(&new_objects, &state, &RelPath::root())
        })?;
        self.project_changes(&dir, &changes)?;
        if !changes.is_empty() {
            self.sync_workspaces()?;
        }
        Ok(dir)
    }

    /// Mounts a materialised fork that is not mounted, such as after a restart of the machine. The
    /// caller holds the exclusive lock.
    pub(crate) fn ensure_mounted(&self, row: &WorkspaceRow) -> Result<()> {
        let target = self.context.data.workspace(&row.id);
        if is_fork_mounted(&target)? {
            return Ok(());
        }
        let fork = self.store().read(|tx| fork_row(tx, row))?;
        let (Some(_), Some(provider)) = (fork.layer, &fork.provider) else {
            return Err(Error::internal("the fork has a directory but no layers"));
        };
        let provider = self.provider_that_made(provider.parse()?)?;
        self.finish_update(row, &fork)?;
        if !provider.capabilities().mounts {
            return Ok(());
        }
        let dirs = self.fork_dirs(row, fork.place);
        if !dirs.upper().is_dir() {
            return Err(Error::new(
                ErrorCode::FileNotFound,
                format!("the directory of the workspace `{}` is missing", row.id),
            ));
        }
        let stack = self.stack_of_fork(&fork)?;
        provider
            .ensure(&stack.layers, &dirs)
            .map(drop)
            .map_err(|error| cannot_be_shown(row, error))
    }

    /// Removes the directory of a fork. Its content must be in the store (INV-3).
    pub(crate) fn discard_fork_dir(&self, row: &WorkspaceRow) -> Result<()> {
        let _ = std::fs::remove_file(self.context.data.memo(row.key));
        let place = self
            .store()
            .read(|tx| Ok(tx.fork(row.key)?.map_or(1, |fork| fork.place)))?;
        // An interrupted update may have left the place before or after.
        for place in [place, place - 1, place + 1] {
            let dirs = self.fork_dirs(row, place);
            if dirs.private.is_dir() || dirs.target.exists() {
                self.provider_by_files(&dirs)?.cleanup(&dirs)?;
            }
        }
        Ok(())
    }
}

/// How often a fork is made again because its layers were collected meanwhile.
pub(crate) const LAYER_TRIES: usize = 20;

/// The workspace and the place in the name of a fork's private directory.
pub(crate) fn parse_fork_dir_name(directory: &str) -> Option<(WorkspaceId, i64)> {
    let (id, place) = directory.rsplit_once('.')?;
    Some((id.parse().ok()?, place.parse().ok()?))
}

/// Adds to the error of a mount that will not work later either how to convert the fork.
pub(crate) fn cannot_be_shown(row: &WorkspaceRow, error: Error) -> Error {
    let passes = [
        ErrorCode::WorkspaceBusy,
        ErrorCode::AlreadyExists,
        ErrorCode::QuotaExceeded,
    ];
    if passes.contains(&error.code()) {
        return error;
    }
    let id = &row.id;
    Error::new(
        error.code(),
        format!("the workspace `{id}` is an overlay, which cannot be mounted here: {error}"),
    )
    .with_hint(format!(
        "`offshoot doctor` says what overlays need; `offshoot workspace convert {id} --provider copy` \
         makes a copy of it, with all that was changed"
    ))
    .with_source(error)
}

/// The state that the layers of a fork should show: its newest snapshot if that is its first or has
/// layers already, else its base.
pub(crate) fn origin_of(tx: &dyn ReadTx, row: &WorkspaceRow, fork: &ForkRow) -> Result<State> {
    let head = match &row.head {
        Some(head) => tx.snapshot(row.key, head)?,
        None => None,
    };
    let Some(head) = head else {
        return Ok(base_state(fork));
    };
    let shared = head.number == 1 || !tx.layers_showing(&head.tree, &head.sidecar)?.is_empty();
    Ok(if shared {
        state_of(&head)
    } else {
        base_state(fork)
    })
}

/// Where the rows of a new fork are durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForkRows {
    /// In the store.
    OnDisk,
    /// Perhaps in the note beside the fork only.
    InNote,
}
