//! Holding a workspace for a change: its locks, its directory, and what is done when the directory
//! does not take a change that is committed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use offshoot_core::{Cause, Error, ErrorCode, RelPath, Result, WorkspaceId};
use offshoot_fs::{SafeDir, WorkspaceLock};
use offshoot_store::{ReadTx, WorkspaceRow, WorkspaceState};

use crate::engine::{Engine, held_by_another, open_row_by_key};
use crate::index::{Entry, Index};

/// A workspace that is held for a change.
pub(crate) struct Held {
    pub(crate) row: WorkspaceRow,
    pub(crate) dir: SafeDir,
    /// Nobody else changes anything meanwhile.
    pub(crate) exclusive: bool,
    _lock: WorkspaceLock,
}

/// Whether a workspace is what it was when it was held. Its lock keeps it so. Its directory may have
/// come into being since, by whoever holds it.
pub(crate) fn is_still(held: &WorkspaceRow, now: &WorkspaceRow) -> bool {
    now.state == WorkspaceState::Open
        && now.handed_out == held.handed_out
        && (now.materialized || !held.materialized)
}

/// Rows of workspaces as they were when they were last held, so that a change need not ask which
/// lock to take. They may be out of date, and are nothing but a guess.
#[derive(Default)]
pub(crate) struct Hints(Mutex<HashMap<WorkspaceId, WorkspaceRow>>);

/// So many rows are remembered.
const MOST_HINTS: usize = 1_024;

impl Hints {
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkspaceId, WorkspaceRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, id: &WorkspaceId) -> Option<WorkspaceRow> {
        self.lock().get(id).cloned()
    }

    fn put(&self, row: &WorkspaceRow) {
        let mut hints = self.lock();
        if hints.len() >= MOST_HINTS {
            hints.clear();
        }
        hints.insert(row.id.clone(), row.clone());
    }
}

impl Engine {
    /// The open workspace of that name, possibly as it was some time ago.
    pub(crate) fn row_or_hint(&self, id: &WorkspaceId) -> Result<WorkspaceRow> {
        match self.inner.hints.get(id) {
            Some(row) => Ok(row),
            None => self.open_row(id),
        }
    }

    /// The right to project, one at a time unless the workspace is ours alone.
    pub(crate) fn turn(&self, held: &Held) -> Result<Option<WorkspaceLock>> {
        if held.exclusive {
            return Ok(None);
        }
        self.inner
            .locks
            .projection(&Self::lock_name(&held.row))
            .map_err(|error| held_by_another(error, &format!("`{}`", held.row.id)))
            .map(Some)
    }

    /// Whether the index still says this of the path.
    pub(crate) fn still(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        path: &RelPath,
        entry: Option<&Entry>,
    ) -> Result<bool> {
        let now = open_row_by_key(tx, row)?;
        let current = Index::new(self.store(), tx, &now).entry(path)?;
        Ok(current.map(Entry::to_state) == entry.map(|entry| entry.to_state()))
    }

    /// The change is committed but the directory did not take it. It is tried once more from the
    /// store; if that fails too, the next start of any process puts it right.
    pub(crate) fn projection_failed(
        &self,
        held: &Held,
        paths: &[RelPath],
        error: Error,
    ) -> Result<()> {
        self.project_again(held, paths).map_err(|_| error)
    }

    /// Brings paths in line with the store, now or at the next start of any process.
    pub(crate) fn project_again(&self, held: &Held, paths: &[RelPath]) -> Result<()> {
        let retried = self
            .turn(held)
            .and_then(|_turn| self.project_paths(&held.row, paths));
        if retried.is_err() {
            self.inner
                .needs_recovery
                .store(true, std::sync::atomic::Ordering::Relaxed);
        }
        retried
    }

    /// Holds a workspace as it was when it was last held, together with others. None if it cannot
    /// be held so. Whoever changes it has to look in its transaction whether it still is so
    /// ([`is_still`]), which saves a look of its own.
    pub(crate) fn hold_as_remembered(&self, id: &WorkspaceId) -> Result<Option<Held>> {
        let Some(row) = self.inner.hints.get(id) else {
            return Ok(None);
        };
        if row.handed_out || !row.materialized {
            return Ok(None);
        }
        let lock = self.shared(&row)?;
        let Ok(dir) = self.dir_of(&row) else {
            return Ok(None);
        };
        Ok(Some(Held {
            row,
            dir,
            exclusive: false,
            _lock: lock,
        }))
    }

    /// Holds a workspace for the change of one path: its directory exists, and what outside
    /// programs did to the path is recorded.
    pub(crate) fn hold(&self, id: &WorkspaceId, path: &RelPath, cause: &Cause) -> Result<Held> {
        let mut hint = self.inner.hints.get(id);
        let mut brought_back = false;
        loop {
            // What is remembered only says which lock to take; the look after it decides.
            let hinted = hint.is_some();
            let row = match hint.take() {
                Some(row) => row,
                None => self.open_row(id)?,
            };
            let lone = row.handed_out || !row.materialized;
            let lock = if lone {
                self.exclusive(&row)?
            } else {
                self.shared(&row)?
            };
            let now = match self.store().read(|tx| open_row_by_key(tx, &row)) {
                Err(_) if hinted => continue,
                answer => answer?,
            };
            if now.handed_out != row.handed_out || now.materialized != row.materialized {
                continue;
            }
            self.inner.hints.put(&now);
            let dir = match self.materialize(&now) {
                // Its directory is gone. Others may be at work in it: whoever brings it back is
                // alone.
                Err(error)
                    if error.code() == ErrorCode::FileNotFound
                        && now.materialized
                        && !brought_back =>
                {
                    drop(lock);
                    self.bring_back(&now)?;
                    brought_back = true;
                    continue;
                }
                answer => answer?,
            };
            if now.handed_out {
                self.sync_path(&now, &dir, path, cause)?;
            }
            return Ok(Held {
                row: now,
                dir,
                exclusive: lone,
                _lock: lock,
            });
        }
    }

    /// Holds a workspace alone with its directory, for many changes at once.
    pub(crate) fn hold_whole(&self, id: &WorkspaceId) -> Result<Held> {
        let (row, lock) = self.hold_alone(id)?;
        let dir = self.materialize(&row)?;
        Ok(Held {
            row,
            dir,
            exclusive: true,
            _lock: lock,
        })
    }

    /// Holds a workspace alone, for changes of whole directories.
    pub(crate) fn hold_alone(&self, id: &WorkspaceId) -> Result<(WorkspaceRow, WorkspaceLock)> {
        let row = self.open_row(id)?;
        let lock = self.exclusive(&row)?;
        let now = self.store().read(|tx| open_row_by_key(tx, &row))?;
        self.bring_back_held(&now)?;
        Ok((now, lock))
    }

    /// Records a path that a caller names even if it is ignored, which a walk leaves out.
    pub(crate) fn sync_named(
        &self,
        row: &WorkspaceRow,
        path: &RelPath,
        cause: &Cause,
    ) -> Result<()> {
        if !row.handed_out || !row.materialized {
            return Ok(());
        }
        self.sync_path(row, &self.dir_of(row)?, path, cause)
    }

    pub(crate) fn retry_projection(
        &self,
        row: &WorkspaceRow,
        paths: &[RelPath],
        error: Error,
    ) -> Result<()> {
        if self.project_paths(row, paths).is_err() {
            self.inner
                .needs_recovery
                .store(true, std::sync::atomic::Ordering::Relaxed);
            return Err(error);
        }
        Ok(())
    }

    /// A rename that the directory refused: each path is brought in line by itself.
    pub(crate) fn retry_projection_of_move(
        &self,
        row: &WorkspaceRow,
        from: &RelPath,
        to: &RelPath,
        error: Error,
    ) -> Result<()> {
        let mut paths = vec![from.clone(), to.clone()];
        let collected = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            Index::new(self.store(), tx, &now).walk(to, &mut |path, _| {
                paths.push(path.clone());
                let below = path.strip_prefix(to).unwrap_or_default();
                paths.push(from.join(&below));
                Ok(())
            })
        });
        match collected {
            Ok(()) => self.retry_projection(row, &paths, error),
            Err(_) => {
                self.inner
                    .needs_recovery
                    .store(true, std::sync::atomic::Ordering::Relaxed);
                Err(error)
            }
        }
    }
}
