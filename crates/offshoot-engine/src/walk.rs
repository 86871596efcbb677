//! All entries of a workspace, for whoever takes it as a whole, and entries without their links.

use offshoot_core::{EntryKind, Error, ErrorCode, RelPath, Result, Timestamp, WorkspaceId};
use offshoot_fs::Walk;

use crate::engine::{Engine, no_file};
use crate::index::Index;
use crate::projection::missing_content;
use crate::read::OpenFile;
use crate::source::Source;

/// One entry of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Where.
    pub path: RelPath,
    /// What.
    pub kind: EntryKind,
    /// Permission bits.
    pub perm: u32,
    /// Bytes; for a link those of its target.
    pub size: u64,
    /// When it last changed, or the workspace if only that is known.
    pub modified_at: Timestamp,
}

impl Engine {
    /// Everything below a directory, parents before what is in them. No link is followed.
    pub fn walk(&self, id: &WorkspaceId, below: &RelPath) -> Result<Vec<WalkEntry>> {
        let row = self.open_row(id)?;
        let mut entries = Vec::new();
        if row.materialized {
            self.dir_of(&row)?.walk(below, |path, stat| {
                let Some(kind) = stat.entry_kind() else {
                    return Ok(Walk::Skip);
                };
                if crate::workspace::is_session_metadata(&row, path) {
                    return Ok(Walk::Skip);
                }
                entries.push(WalkEntry {
                    path: path.clone(),
                    kind,
                    perm: stat.perm,
                    size: if kind == EntryKind::Dir { 0 } else { stat.size },
                    modified_at: stat.modified(),
                });
                Ok(Walk::Enter)
            })?;
            return Ok(entries);
        }
        self.store().read(|tx| {
            entries.clear();
            let index = Index::new(self.store(), tx, &row);
            index.walk(below, &mut |path, entry| {
                entries.push(WalkEntry {
                    path: path.clone(),
                    kind: entry.kind,
                    perm: entry.perm,
                    size: index.size(entry)? as u64,
                    modified_at: row.changed_at,
                });
                Ok(())
            })
        })?;
        Ok(entries)
    }

    /// Opens a file of a walk; for a link its target, as text. No link is followed on the way, so
    /// that one which an outside program put there meanwhile leads nowhere.
    pub fn open_entry(&self, id: &WorkspaceId, path: &RelPath) -> Result<OpenFile> {
        let row = self.open_row(id)?;
        if row.materialized {
            let dir = self.dir_of(&row)?;
            let kind = dir.stat(path)?.and_then(|stat| stat.entry_kind());
            let source = match kind {
                Some(EntryKind::Symlink) => Source::of_bytes(dir.read_link(path)?),
                Some(EntryKind::File) => {
                    let (file, stat) = dir.open_file(path)?;
                    Source::of_file(self.clone(), file, stat, !row.handed_out)
                }
                _ => return Err(no_file(path)),
            };
            return OpenFile::of(source, path);
        }
        let entry = self
            .store()
            .read(|tx| Index::new(self.store(), tx, &row).entry(path))?;
        let content = entry
            .filter(|entry| !entry.is_dir())
            .ok_or_else(|| no_file(path))?
            .id
            .ok_or_else(missing_content)?;
        OpenFile::of(Source::of_object(self.clone(), content)?, path)
    }

    /// Refuses a path on which a link lies, the last part included.
    pub(crate) fn refuse_links(&self, id: &WorkspaceId, path: &RelPath) -> Result<()> {
        let row = self.open_row(id)?;
        let steps = || path.dirs_above().into_iter().chain([path.clone()]);
        let is_link = |kind: Option<EntryKind>| kind == Some(EntryKind::Symlink);
        let mut linked = false;
        if row.materialized {
            let dir = self.dir_of(&row)?;
            for step in steps().filter(|step| !step.is_root()) {
                // Below a link nothing is found without following it, which this directory does not.
                match dir.stat(&step) {
                    Ok(Some(stat)) => linked |= is_link(stat.entry_kind()),
                    Ok(None) => break,
                    Err(_) if linked => break,
                    Err(error) => return Err(error),
                }
            }
        } else {
            self.store().read(|tx| {
                let index = Index::new(self.store(), tx, &row);
                for step in steps() {
                    linked |= is_link(index.entry(&step)?.map(|entry| entry.kind));
                }
                Ok(())
            })?;
        }
        if linked {
            return Err(Error::new(
                ErrorCode::PermissionDenied,
                format!(
                    "the token is limited to some paths and does not follow the link on `{path}`"
                ),
            ));
        }
        Ok(())
    }
}
