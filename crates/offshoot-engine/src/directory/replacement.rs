//! Replacing the directory of a fork: a new one is filled at another path, the commit makes it the
//! fork's, and ignored files move over after that.

use std::path::Path;

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_fs::ForkDirs;
use offshoot_store::{ForkRow, WorkspaceRow};

use crate::directory::Directories;
use crate::formats;
use crate::formats::UpdateNote;

impl Directories {
    /// The directories of a fork's replacement while it is being filled.
    pub(crate) fn next_dirs(&self, row: &WorkspaceRow, fork: &ForkRow) -> ForkDirs {
        let aside = format!("{NEXT}{}-{}", row.key.0, uuid::Uuid::now_v7().simple());
        ForkDirs::new(
            self.fork_dirs(row, fork.place + 1).private,
            self.context.data.tmp().join(aside),
        )
    }

    /// Removes what an interrupted attempt left where the replacement will be.
    pub(crate) fn clear_next(&self, next: &ForkDirs) -> Result<()> {
        let leftover = ForkDirs::new(&next.private, self.context.data.tmp().join("nowhere"));
        match next.private.is_dir() {
            true => self.provider_by_files(&leftover)?.cleanup(&leftover),
            false => Ok(()),
        }
    }

    /// Writes the note of a replacement that has everything already.
    pub(crate) fn note_next(&self, next: &ForkDirs) -> Result<()> {
        write_note(
            &next.private,
            &UpdateNote {
                target: next.target.clone(),
                carry: Vec::new(),
                git_from: None,
            },
        )
    }

    /// Moves ignored files of a fork to its new directory and removes the old one. Does nothing if that
    /// was done. The caller holds the exclusive lock, or is the recovery at the start of a process.
    pub(crate) fn finish_update(&self, row: &WorkspaceRow, fork: &ForkRow) -> Result<()> {
        let new = self.fork_dirs(row, fork.place);
        let Some(note) = read_note(&new.private) else {
            return Ok(());
        };
        let provider =
            self.provider_that_made(fork.provider.as_deref().unwrap_or("copy").parse()?)?;
        let old = self.fork_dirs(row, fork.place - 1);
        let aside = ForkDirs::new(&new.private, &note.target);
        if old.private.is_dir() {
            self.carry_included(&old, &new)?;
            for path in &note.carry {
                let path = RelPath::parse_text(path)?;
                provider.move_path(&old, &aside, &path)?;
            }
            if let Some(from) = &note.git_from {
                self.move_git(&*provider, &old, &aside, row, fork, from)?;
            }
            if !provider.capabilities().mounts {
                // The new copy moves to the path of the old copy, or of the mount point if the fork was
                // a mount before.
                self.provider_by_files(&old)?.cleanup(&old)?;
            } else {
                let nowhere = ForkDirs::new(&old.private, self.context.data.tmp().join("nowhere"));
                provider.cleanup(&nowhere)?;
            }
        }
        if provider.capabilities().mounts {
            let mount_point = ForkDirs::new(self.context.data.tmp().join("nowhere"), &note.target);
            provider.cleanup(&mount_point)?;
        } else if note.target.exists() {
            let stack = self.stack_of_fork(fork)?;
            provider.move_target(&stack.layers, &aside, &new.target)?;
        }
        let _ = std::fs::remove_file(self.context.data.memo(row.key));
        std::fs::remove_file(new.private.join(NOTE)).map_err(cannot_note)
    }
}

/// The note in the private directory of a fork while its replacement is not finished.
pub(crate) const NOTE: &str = "update.json";

/// The prefix of the name of a replacement; the key of the workspace follows.
pub(crate) const NEXT: &str = "next-";

pub(crate) fn write_note(private: &Path, note: &UpdateNote) -> Result<()> {
    let text = formats::to_text(note)?;
    let staged = private.join("update.json.new");
    offshoot_sys::write_private(&staged, text.as_bytes())
        .and_then(|()| std::fs::rename(&staged, private.join(NOTE)))
        .map_err(cannot_note)
}

pub(crate) fn read_note(private: &Path) -> Option<UpdateNote> {
    let bytes = std::fs::read(private.join(NOTE)).ok()?;
    formats::parse_text(bytes).ok()
}

pub(crate) fn cannot_note(cause: std::io::Error) -> Error {
    Error::new(
        ErrorCode::WriteFailed,
        "the new directory of the fork could not be noted",
    )
    .with_source(cause)
}
