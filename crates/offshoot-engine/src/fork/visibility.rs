//! Who sees the directory of a fork: every program, or only those in the namespace of an ordinary user.
//!
//! Whoever asks for a path gets a directory that every program sees. Only who enters the namespace, or
//! asks for the provider `overlay` by name, gets a mount there.

use std::path::PathBuf;

use offshoot_core::{Result, WorkspaceId};
use offshoot_fs::ProviderName;
use offshoot_store::{Durability, WorkspaceKind};

use crate::content::rows::{fork_row, open_row_by_key};
use crate::fork::Forks;
use crate::fork::create::Fork;

impl Forks {
    /// The path of a workspace for a program in the same namespace as this process. Unlike
    /// [`hand_out_path`](crate::Workspaces::hand_out_path) it lets a fork that has no directory yet be
    /// mounted.
    pub fn path_to_enter(&self, id: &WorkspaceId) -> Result<PathBuf> {
        let row = self.contents.open_row(id)?;
        let is_new = row.kind == WorkspaceKind::Fork && !row.materialized;
        let may_mount = is_new
            && self.context.options.private_mounts
            && self.context.options.provider.is_none()
            && self
                .directories
                .working_providers()?
                .contains(&ProviderName::Overlay);
        if may_mount {
            self.store().write(Durability::Relaxed, |tx| {
                let row = open_row_by_key(tx, &row)?;
                let mut fork = fork_row(tx, &row)?;
                if !row.materialized && fork.provider.is_none() {
                    fork.provider = Some(ProviderName::Overlay.as_str().to_owned());
                    tx.put_fork(&fork)?;
                }
                Ok(())
            })?;
        }
        self.workspaces.hand_out_path(id)
    }

    /// What to tell who gets the path of a workspace; none if every program sees it and a better
    /// directory could not be had.
    pub fn path_note(&self, id: &WorkspaceId) -> Result<Option<String>> {
        if !self.context.options.private_mounts {
            return Ok(None);
        }
        Ok(self.fork_of(id)?.and_then(|fork| self.note_of(&fork)))
    }

    /// Like [`path_note`](Self::path_note), of a fork that was read already.
    pub fn note_of(&self, fork: &Fork) -> Option<String> {
        let (id, private) = (&fork.workspace.id, self.context.options.private_mounts);
        match fork.provider.filter(|_| private)? {
            ProviderName::Overlay => Some(format!(
                "`{id}` is mounted in a namespace of your own: this path shows its files to programs \
                 in `offshoot shell {id}`, and to others an empty directory"
            )),
            made_by => Some(copy_note(made_by)),
        }
    }
}

/// What to tell an ordinary user whose fork was not mounted.
pub fn copy_note(made_by: ProviderName) -> String {
    let how = match made_by {
        ProviderName::Reflink => "made file by file, with shared blocks",
        _ => "a copy, made file by file",
    };
    format!(
        "this fork is {how}, so that every program sees it; with `--provider overlay` a fork is there \
         at once and is used in `offshoot shell`"
    )
}
