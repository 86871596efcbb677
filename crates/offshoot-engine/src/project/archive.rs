//! Many files into a project at once, from wherever they come: one snapshot.
//!
//! Content goes to the store as it arrives and is named by nothing until the end, when one
//! transaction makes the snapshot. An import that stops before that leaves only objects that
//! garbage collection removes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use offshoot_core::{
    Cause, DEFAULT_DIR_PERM, EXEC_FILE_PERM, EntryKind, Error, ErrorCode, PLAIN_FILE_PERM,
    ProjectId, RelPath, Result,
};
use offshoot_git::ObjectReader;
use offshoot_store::{Durability, HistoryOp, NewObject, Via};

use crate::content::incoming::Content;
use crate::content::left_out::{refuse_reserved_dir, refuse_what_git_refuses};
use crate::content::objects::StoredObjects;
use crate::content::rows::{open_project, state_of_row};
use crate::content::state::{State, StateEdit, StateEntry};
use crate::project::Projects;
use crate::project::head::{ChangeRecord, Proposal};
use crate::project::protection::{Protection, is_protected};
use crate::workspace::links::LINK_PERM;
use crate::workspace::snapshot::Snapshot;

/// Objects wait for a transaction until they are so many bytes.
const BATCH: u64 = 8 << 20;

/// Files on their way into a project.
pub struct ProjectImport {
    projects: Projects,
    project: ProjectId,
    head: State,
    /// Protected paths that this caller may not change.
    closed: Protection,
    taken: Mutex<PendingEntries>,
}

#[derive(Default)]
struct PendingEntries {
    entries: BTreeMap<RelPath, StateEntry>,
    objects: Vec<NewObject>,
    /// Content that has its rows, without the bytes.
    stored: Vec<NewObject>,
    waiting: u64,
}

impl Projects {
    /// Begins to take files into a project. Nothing changes before [`ProjectImport::finish`].
    pub fn begin_import(&self, project: &ProjectId) -> Result<ProjectImport> {
        self.context.require_space()?;
        let row = self.store().read(|tx| open_project(tx, project))?;
        Ok(ProjectImport {
            projects: self.clone(),
            project: project.clone(),
            head: state_of_row(&row),
            closed: Protection::new(&[]),
            taken: Mutex::default(),
        })
    }

    /// Like [`begin_import`](Self::begin_import), for a caller that may not change protected paths.
    pub(crate) fn begin_unprotected_import(&self, project: &ProjectId) -> Result<ProjectImport> {
        let mut import = self.begin_import(project)?;
        import.closed = self
            .store()
            .read(|tx| Protection::read(tx, open_project(tx, project)?.key))?;
        Ok(import)
    }
}

impl ProjectImport {
    /// Takes a file in. It replaces a file that is there. Returns its size.
    pub fn write_file(
        &self,
        path: &RelPath,
        content: Content<'_>,
        executable: bool,
    ) -> Result<u64> {
        self.refuse(path, EntryKind::File)?;
        let mut incoming = self.projects.contents.receive(content)?;
        let ruled = incoming.bytes_if_git_checks_content(path)?;
        refuse_what_git_refuses(path, EntryKind::File, ruled.as_deref())?;
        let entry = StateEntry {
            kind: EntryKind::File,
            perm: if executable {
                EXEC_FILE_PERM
            } else {
                PLAIN_FILE_PERM
            },
            id: Some(incoming.id),
        };
        let size = incoming.size as u64;
        let mut taken = self.lock();
        taken.add(path, entry)?;
        taken.waiting += size;
        taken.objects.push(incoming.object);
        if taken.waiting < BATCH {
            return Ok(size);
        }
        taken.waiting = 0;
        let full = std::mem::take(&mut taken.objects);
        taken
            .stored
            .extend(full.iter().map(NewObject::without_bytes));
        drop(taken);
        self.store(&full)?;
        Ok(size)
    }

    /// Takes a link in, as it is: nothing in a project follows it. It replaces a file or a link.
    pub fn make_link(&self, path: &RelPath, target: &[u8]) -> Result<()> {
        self.refuse(path, EntryKind::Symlink)?;
        let incoming = self.projects.contents.receive(Content::Bytes(target))?;
        let entry = StateEntry {
            kind: EntryKind::Symlink,
            perm: LINK_PERM,
            id: Some(incoming.id),
        };
        let mut taken = self.lock();
        taken.add(path, entry)?;
        taken.waiting += target.len() as u64;
        taken.objects.push(incoming.object);
        Ok(())
    }

    /// Takes a directory in; one that is there stays as it is.
    pub fn make_dir(&self, path: &RelPath) -> Result<()> {
        self.refuse(path, EntryKind::Dir)?;
        self.lock().add(path, StateEntry::dir(DEFAULT_DIR_PERM))
    }

    /// A file without a name, for what has to wait. See [`Context::temp_file`](crate::Context::temp_file).
    pub fn temp_file(&self) -> Result<std::fs::File> {
        self.projects.context.temp_file()
    }

    /// Makes the snapshot. Returns it, and whether it is new; none if nothing was taken in.
    pub fn finish(self, cause: &Cause) -> Result<Option<(Snapshot, bool)>> {
        let taken = self
            .taken
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if taken.entries.is_empty() {
            return Ok(None);
        }
        let record = ChangeRecord {
            label: "Import",
            author: None,
            work: None,
            further_parents: &[],
            op: HistoryOp::Import,
            via: Via::Upload,
            cause,
            at: self.projects.context.now(),
        };
        let make = |objects: &StoredObjects<'_>, head: &State| -> Result<Proposal> {
            let mut proposal = Proposal {
                contents: [&taken.objects[..], &taken.stored].concat(),
                ..Proposal::default()
            };
            for (path, entry) in &taken.entries {
                refuse_in(head, objects, path, entry.kind)?;
                let there = head.entry(objects, path)?;
                // What is there keeps bits that an archive does not know.
                if entry.kind == EntryKind::Dir && there.is_some() {
                    continue;
                }
                proposal.edits.insert(path.clone(), StateEdit::Put(*entry));
            }
            Ok(proposal)
        };
        self.projects
            .change_project(&self.project, &record, make, |_, _| Ok(()))
            .map(Some)
    }

    fn store(&self, objects: &[NewObject]) -> Result<()> {
        self.projects.store().write(Durability::Relaxed, |tx| {
            for object in objects {
                tx.put_object(object)?;
            }
            Ok(())
        })
    }

    fn refuse(&self, path: &RelPath, kind: EntryKind) -> Result<()> {
        if kind != EntryKind::Dir && self.closed.concerns(path) {
            return Err(is_protected(path));
        }
        self.projects.store().read(|tx| {
            let objects = self.projects.contents.objects_in(tx);
            refuse_in(&self.head, &objects, path, kind)
        })
    }

    fn lock(&self) -> MutexGuard<'_, PendingEntries> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingEntries {
    /// Two entries of one import must fit together too.
    fn add(&mut self, path: &RelPath, entry: StateEntry) -> Result<()> {
        for above in path.dirs_above() {
            let there = self.entries.get(&above);
            if there.is_some_and(|there| there.kind != EntryKind::Dir) {
                return Err(not_a_dir(&above));
            }
        }
        // The least of all names that can be below it.
        let first = path.join_name(b"\x01");
        let below = self.entries.range(first..).next();
        let has_below = below.is_some_and(|(one, _)| one.starts_with(path));
        match (entry.kind, self.entries.get(path)) {
            (EntryKind::Dir, Some(there)) if there.kind != EntryKind::Dir => {
                return Err(not_a_dir(path));
            }
            (EntryKind::Dir, _) => {}
            (_, Some(there)) if there.kind == EntryKind::Dir => return Err(is_a_dir(path)),
            _ if has_below => return Err(is_a_dir(path)),
            _ => {}
        }
        self.entries.insert(path.clone(), entry);
        Ok(())
    }
}

/// A file takes the place of a file or of nothing, and nothing is below a file.
fn refuse_in(
    head: &State,
    objects: &dyn ObjectReader,
    path: &RelPath,
    kind: EntryKind,
) -> Result<()> {
    if path.is_root() {
        return Err(Error::invalid("the path of a file is missing"));
    }
    path.check_depth()?;
    let kind_at = |path: &RelPath| -> Result<Option<EntryKind>> {
        Ok(head.entry(objects, path)?.map(|entry| entry.kind))
    };
    refuse_what_git_refuses(path, kind, None)?;
    refuse_reserved_dir(objects, head, path)?;
    if let Some(above) = head.leaf_above(objects, path)? {
        return Err(not_a_dir(&above));
    }
    match (kind, kind_at(path)?) {
        (EntryKind::Dir, Some(EntryKind::File | EntryKind::Symlink)) => Err(not_a_dir(path)),
        (EntryKind::File | EntryKind::Symlink, Some(EntryKind::Dir)) => Err(is_a_dir(path)),
        _ => Ok(()),
    }
}

fn not_a_dir(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::NotADirectory,
        format!("`{path}` is a file, so nothing can be below it"),
    )
}

fn is_a_dir(path: &RelPath) -> Error {
    Error::new(ErrorCode::IsADirectory, format!("`{path}` is a directory"))
}
