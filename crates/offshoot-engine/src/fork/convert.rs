//! Turning a fork that is a mount into a copy: the way out for one that cannot be mounted any more.

use offshoot_core::{Error, ErrorCode, RelPath, Result, WorkspaceId};
use offshoot_fs::{ForkDirs, ProviderName};
use offshoot_store::{Durability, ForkRow, WorkspaceKind, WorkspaceRow};

use crate::content::rows::{fork_row, open_row_by_key, project_name};
use crate::directory::fork_dir::ForkRows;
use crate::fork::Forks;

/// What turning a fork into a copy did.
#[derive(Clone, Debug)]
pub struct Converted {
    /// How its directory is made now.
    pub provider: ProviderName,
    /// Whether something had to be done.
    pub converted: bool,
    /// Sockets, devices and the like, which a copy does not have.
    pub left_out: Vec<RelPath>,
}

impl Forks {
    /// Turns the directory of a fork into a copy, with all that was changed in it, recorded or not,
    /// ignored or not. A mount is not needed for it and, if there is one, ends; `workspace_busy` if
    /// somebody uses it. What the fork is, its base and its history, stays as it is.
    pub fn convert_fork(&self, id: &WorkspaceId, to: ProviderName) -> Result<Converted> {
        self.context.require_space()?;
        if to == ProviderName::Overlay {
            return Err(Error::invalid("a fork can be turned into a copy only")
                .with_hint("use `--provider copy` or `--provider reflink`"));
        }
        let row = self.contents.open_row(id)?;
        let _lock = self.directories.exclusive(&row)?;
        let row = self.store().read(|tx| open_row_by_key(tx, &row))?;
        if row.kind != WorkspaceKind::Fork {
            return Err(Error::invalid(format!("`{id}` is no fork"))
                .with_hint("only forks of a project are made by a provider"));
        }
        let fork = self.store().read(|tx| fork_row(tx, &row))?;
        let made_by = fork.provider.as_deref().map(str::parse).transpose()?;
        let mut done = Converted {
            provider: made_by.unwrap_or(to),
            converted: made_by == Some(ProviderName::Overlay),
            left_out: Vec::new(),
        };
        if done.converted {
            done.provider = to;
            done.left_out = self.convert_mount(&row, &fork, to)?;
        }
        Ok(done)
    }

    fn convert_mount(
        &self,
        row: &WorkspaceRow,
        fork: &ForkRow,
        to: ProviderName,
    ) -> Result<Vec<RelPath>> {
        let provider = self.directories.provider_for_new(Some(to))?;
        if !row.materialized {
            self.commit_conversion(row, fork, to, fork.place)?;
            return Ok(Vec::new());
        }
        self.directories.finish_update(row, fork)?;
        let overlay = self.directories.provider_that_made(ProviderName::Overlay)?;
        let old = self.directories.fork_dirs(row, fork.place);
        overlay.close(&old)?;
        let stack = self.directories.stack_of_fork(fork)?;
        let project = self.store().read(|tx| project_name(tx, fork))?;
        let next = self.directories.next_dirs(row, fork);
        let filled = self
            .directories
            .clear_next(&next)
            .and_then(|()| {
                self.directories.make_fork_dir(
                    &*provider,
                    &stack,
                    &next,
                    (row, fork, ForkRows::InNote),
                    &project,
                )
            })
            .and_then(|()| copy_changes(&stack.layers, &old, &next))
            .and_then(|left_out| self.directories.note_next(&next).map(|()| left_out))
            .and_then(|left_out| {
                self.commit_conversion(row, fork, to, fork.place + 1)
                    .map(|()| left_out)
            });
        let left_out = match filled {
            Ok(left_out) => left_out,
            Err(error) => {
                let _ = provider.cleanup(&next);
                return Err(error);
            }
        };
        let fork = self.store().read(|tx| fork_row(tx, row))?;
        self.directories.finish_update(row, &fork)?;
        Ok(left_out)
    }

    /// Says that the fork is a copy from now on.
    fn commit_conversion(
        &self,
        row: &WorkspaceRow,
        fork: &ForkRow,
        to: ProviderName,
        place: i64,
    ) -> Result<()> {
        self.store().write(Durability::Synced, |tx| {
            let mut now = fork_row(tx, &open_row_by_key(tx, row)?)?;
            if now != *fork {
                return Err(Error::new(
                    ErrorCode::WorkspaceBusy,
                    "the workspace was changed meanwhile",
                )
                .with_hint("nothing was converted; try again"));
            }
            now.provider = Some(to.as_str().to_owned());
            now.place = place;
            tx.put_fork(&now)
        })
    }
}

#[cfg(target_os = "linux")]
fn copy_changes(
    layers: &[std::path::PathBuf],
    from: &ForkDirs,
    to: &ForkDirs,
) -> Result<Vec<RelPath>> {
    offshoot_fs::copy_changes(layers, from, to)
}

#[cfg(not(target_os = "linux"))]
fn copy_changes(
    _layers: &[std::path::PathBuf],
    _from: &ForkDirs,
    _to: &ForkDirs,
) -> Result<Vec<RelPath>> {
    Err(Error::new(
        ErrorCode::Unsupported,
        "overlays exist on Linux only",
    ))
}
