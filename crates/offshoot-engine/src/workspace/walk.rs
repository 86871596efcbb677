//! All entries of a workspace or project in a fixed order, whole or by page, and files opened
//! without following links.

use std::cmp::Ordering;

use offshoot_core::{
    EntryKind, Error, ErrorCode, ProjectId, RelPath, Result, Timestamp, WorkspaceId, cancel,
};
use offshoot_fs::Walk;

use crate::content::index::Index;
use crate::content::objects::missing_content;
use crate::content::paths_with_history::{PathsWithHistory, modified_at};
use crate::content::rows::{no_file, open_project, state_of_row};
use crate::content::source::{OpenFile, Source};
use crate::workspace::Workspaces;

/// One entry of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Its path.
    pub path: RelPath,
    /// Whether it is a file, a link or a directory.
    pub kind: EntryKind,
    /// Permission bits.
    pub perm: u32,
    /// Bytes; for a link those of its target.
    pub size: u64,
    /// When it last changed, or the workspace if only that is known.
    pub modified_at: Timestamp,
}

/// Which of two files a walk shows first: all files of a directory come before what is below it.
fn walk_order(a: &RelPath, b: &RelPath) -> Ordering {
    let (mut left, mut right) = (a.parts().peekable(), b.parts().peekable());
    loop {
        let (one, other) = (left.next(), right.next());
        if one.is_none() || one != other {
            let is_last = (left.peek().is_none(), right.peek().is_none());
            return match (one, other, is_last) {
                (Some(_), Some(_), (true, false)) => Ordering::Less,
                (Some(_), Some(_), (false, true)) => Ordering::Greater,
                _ => one.cmp(&other),
            };
        }
    }
}

/// Whether a directory can hold a file that a walk shows after `after`.
fn holds_later(dir: &RelPath, after: &RelPath) -> bool {
    // All names in the directory compare alike with a file outside of it, so any name will do.
    after.starts_with(dir) || walk_order(&dir.join_name(b"x"), after).is_gt()
}

impl Workspaces {
    /// Everything below a directory, parents before what is in them. No link is followed.
    pub fn walk(&self, id: &WorkspaceId, below: &RelPath) -> Result<Vec<WalkEntry>> {
        let row = self.contents.open_row(id)?;
        let mut entries = Vec::new();
        if row.materialized {
            let dir = self.directories.dir_for_reader(&row)?.following_no_links();
            dir.walk(below, |path, stat| {
                let Some(kind) = stat.entry_kind() else {
                    return Ok(Walk::Skip);
                };
                if crate::content::workspace_row::is_session_metadata(&row, path) {
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
        self.directories.note_use(&row);
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
            })?;
            let touched = PathsWithHistory::read(tx, &row, below, entries.len())?;
            for entry in entries.iter_mut().filter(|one| one.kind != EntryKind::Dir) {
                if let Some(at) = touched.modified_at(tx, &row, &entry.path)? {
                    entry.modified_at = at;
                }
            }
            Ok(())
        })?;
        Ok(entries)
    }

    /// Some of the files of a project as it is now: those after `after` that the filter wants, at
    /// most `limit`, in the order of a walk. Costs the directories on the way to `after` and those
    /// that the page takes.
    pub fn walk_project_files(
        &self,
        id: &ProjectId,
        after: Option<&RelPath>,
        limit: usize,
        wanted: &dyn Fn(&RelPath) -> bool,
    ) -> Result<Vec<RelPath>> {
        self.store().read(|tx| {
            let state = state_of_row(&open_project(tx, id)?);
            let objects = self.contents.objects_in(tx);
            let mut files = Vec::new();
            let mut open = vec![RelPath::root()];
            while let Some(dir) = open.pop() {
                cancel::check()?;
                let first_below = open.len();
                for (name, entry) in state.children(&objects, &dir)? {
                    let path = dir.join_name(&name);
                    let is_later = || after.is_none_or(|after| walk_order(&path, after).is_gt());
                    match entry.kind {
                        EntryKind::Dir if after.is_none_or(|after| holds_later(&path, after)) => {
                            open.push(path);
                        }
                        EntryKind::File if is_later() && wanted(&path) => files.push(path),
                        _ => {}
                    }
                    if files.len() >= limit {
                        return Ok(files);
                    }
                }
                open[first_below..].reverse();
            }
            Ok(files)
        })
    }

    /// Some of the files of a workspace: those after `after` that are wanted, at most `limit`.
    ///
    /// The order is that of a walk: the files of a directory by name, then what is below it. Costs
    /// the directories on the way to `after` and those that the page takes, not the workspace.
    pub fn walk_files(
        &self,
        id: &WorkspaceId,
        after: Option<&RelPath>,
        limit: usize,
        wanted: &dyn Fn(&RelPath) -> bool,
    ) -> Result<Vec<WalkEntry>> {
        let row = self.contents.open_row(id)?;
        let mut files: Vec<WalkEntry> = Vec::new();
        let takes = |path: &RelPath| {
            after.is_none_or(|after| walk_order(path, after).is_gt()) && wanted(path)
        };
        let enters = |path: &RelPath| after.is_none_or(|after| holds_later(path, after));
        if row.materialized {
            let dir = self.directories.dir_for_reader(&row)?.following_no_links();
            dir.walk(&RelPath::root(), |path, stat| {
                match stat.entry_kind() {
                    Some(EntryKind::Dir) if enters(path) => return Ok(Walk::Enter),
                    Some(EntryKind::File)
                        if takes(path)
                            && !crate::content::workspace_row::is_session_metadata(&row, path) => {}
                    _ => return Ok(Walk::Skip),
                }
                files.push(WalkEntry {
                    path: path.clone(),
                    kind: EntryKind::File,
                    perm: stat.perm,
                    size: stat.size,
                    modified_at: stat.modified(),
                });
                Ok(match files.len() < limit {
                    true => Walk::Skip,
                    false => Walk::Stop,
                })
            })?;
            return Ok(files);
        }
        self.directories.note_use(&row);
        self.store().read(|tx| {
            files.clear();
            let index = Index::new(self.store(), tx, &row);
            let mut open = vec![RelPath::root()];
            while let Some(dir) = open.pop() {
                let first_below = open.len();
                for (name, entry) in index.children(&dir)? {
                    let path = dir.join_name(&name);
                    match entry.kind {
                        EntryKind::Dir if enters(&path) => open.push(path),
                        EntryKind::File if takes(&path) => files.push(WalkEntry {
                            kind: EntryKind::File,
                            perm: entry.perm,
                            size: index.size(&entry)? as u64,
                            modified_at: modified_at(tx, &row, &path)?.unwrap_or(row.changed_at),
                            path,
                        }),
                        _ => {}
                    }
                    if files.len() >= limit {
                        return Ok(());
                    }
                }
                open[first_below..].reverse();
            }
            Ok(())
        })?;
        Ok(files)
    }

    /// Opens a file of a walk; for a link its target, as text. No link is followed on the way, so
    /// that one which an outside program put there meanwhile leads nowhere.
    pub fn open_entry(&self, id: &WorkspaceId, path: &RelPath) -> Result<OpenFile> {
        let row = self.contents.open_row(id)?;
        if row.materialized {
            let dir = self.directories.dir_for_reader(&row)?.following_no_links();
            let kind = dir.stat(path)?.and_then(|stat| stat.entry_kind());
            let source = match kind {
                Some(EntryKind::Symlink) => Source::of_bytes(dir.read_link(path)?),
                Some(EntryKind::File) => {
                    let (file, stat) = dir.open_file(path)?;
                    Source::of_file(&self.contents, file, stat)
                }
                _ => return Err(no_file(path)),
            };
            return OpenFile::of(source, path);
        }
        self.directories.note_use(&row);
        let entry = self
            .store()
            .read(|tx| Index::new(self.store(), tx, &row).entry(path))?;
        let content = entry
            .filter(|entry| !entry.is_dir())
            .ok_or_else(|| no_file(path))?
            .id
            .ok_or_else(missing_content)?;
        OpenFile::of(Source::of_object(&self.contents, content)?, path)
    }

    /// Refuses a path on which a link lies, the last part included.
    pub(crate) fn refuse_links(&self, id: &WorkspaceId, path: &RelPath) -> Result<()> {
        let row = self.contents.open_row(id)?;
        let steps = || path.dirs_above().into_iter().chain([path.clone()]);
        let is_link = |kind: Option<EntryKind>| kind == Some(EntryKind::Symlink);
        let mut linked = false;
        if row.materialized {
            let dir = self.directories.dir_for_reader(&row)?.following_no_links();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    /// The files in the order in which a walk shows them.
    const FILES: [&str; 9] = [
        "a.txt", "m", "z", "a/1", "a/2", "a/b/1", "a/c/d/1", "a.d/1", "m.d/1",
    ];

    #[test]
    fn files_of_a_directory_come_before_what_is_below_it() {
        for (n, one) in FILES.iter().enumerate() {
            for (m, other) in FILES.iter().enumerate() {
                let order = walk_order(&path(one), &path(other));
                assert_eq!(order, n.cmp(&m), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_page_enters_what_holds_later_files_and_nothing_else() {
        for (n, after) in FILES.iter().enumerate() {
            for dir in ["a", "a/b", "a/c", "a/c/d", "a.d", "m.d"] {
                let prefix = format!("{dir}/");
                let later = FILES[n + 1..].iter().any(|file| file.starts_with(&prefix));
                let above = after.starts_with(&prefix);
                assert_eq!(
                    holds_later(&path(dir), &path(after)),
                    later || above,
                    "{dir} {after}"
                );
            }
        }
    }
}
