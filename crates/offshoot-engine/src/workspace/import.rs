//! Many files into a workspace at once, from wherever they come: all of them or none.
//!
//! Content goes to the store as it arrives and is named by nothing until the end, when every entry,
//! its line of history and the counters are worked out and written as one change. An import that
//! stops before that, because the source broke off or the quota is too small, leaves only objects
//! that garbage collection removes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use offshoot_core::{Cause, RelPath, Result, WorkspaceId};
use offshoot_store::{Durability, NewObject, ReadTx, Via, WorkspaceRow};

use crate::content::draft::Draft;
use crate::content::incoming::{Content, Incoming};
use crate::content::index::Index;
use crate::content::rows::open_row_by_key;
use crate::sync::guard::LockedWorkspace;
use crate::workspace::Workspaces;
use crate::workspace::files::{Target, WriteOptions, refuse_unwritable};
use crate::workspace::links::{NewLink, check_target, draft_link, plan_link};
use crate::workspace::rearrange::{draft_dir, plan_dir};
use crate::workspace::writes::{NewFile, draft_file};

/// Objects wait for a transaction until they are so many bytes.
const BATCH: i64 = 8 << 20;

/// Files on their way into a workspace. Nothing changes before `finish`.
///
/// Each is refused as a single write of it would be, as far as that can be told when it comes. What
/// shows only at the end, such as a quota, ends the whole import.
pub struct WorkspaceImport {
    workspaces: Workspaces,
    id: WorkspaceId,
    row: WorkspaceRow,
    cause: Cause,
    taken: Mutex<PendingEntries>,
}

#[derive(Default)]
struct PendingEntries {
    /// Sorted, so that a directory comes before what is in it.
    entries: BTreeMap<RelPath, NewEntry>,
    waiting: Vec<RelPath>,
    waiting_bytes: i64,
}

enum NewEntry {
    File(Box<NewFile>),
    Dir,
    Link(Vec<u8>, Box<Incoming>),
}

impl Workspaces {
    /// Begins to take files into a workspace. What outside programs did there is recorded first, so
    /// that entries are compared with what is really there.
    pub(crate) fn begin_workspace_import(
        &self,
        id: &WorkspaceId,
        cause: &Cause,
    ) -> Result<WorkspaceImport> {
        self.sync.sync_if_handed_out(id)?;
        Ok(WorkspaceImport {
            workspaces: self.clone(),
            id: id.clone(),
            row: self.contents.open_row(id)?,
            cause: cause.clone(),
            taken: Mutex::default(),
        })
    }
}

impl WorkspaceImport {
    /// The workspace that it goes into.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.id
    }

    /// Takes a file in. It replaces a file that is there. Returns its size.
    pub(crate) fn write_file(
        &self,
        path: &RelPath,
        content: Content<'_>,
        executable: bool,
    ) -> Result<u64> {
        refuse_unwritable(&self.row, path)?;
        let incoming = self.workspaces.contents.receive(content)?;
        let file = NewFile {
            target: Target::Exactly(path.clone()),
            id: incoming.id,
            object: incoming.object,
            size: incoming.size,
            options: WriteOptions {
                executable: Some(executable),
                ..WriteOptions::default()
            },
            via: Via::Call,
            cause: self.cause.clone(),
        };
        self.look(|tx, row| self.workspaces.refuse_write(tx, row, &file))?;
        self.take(path, NewEntry::File(Box::new(file)), incoming.size)?;
        Ok(incoming.size as u64)
    }

    /// Takes a directory in; one that is there stays as it is.
    pub(crate) fn make_dir(&self, path: &RelPath) -> Result<()> {
        refuse_unwritable(&self.row, path)?;
        self.look(|tx, row| plan_dir(&self.index(tx, row), path).map(drop))?;
        self.lock()
            .entries
            .entry(path.clone())
            .or_insert(NewEntry::Dir);
        Ok(())
    }

    /// Takes a link in. See [`Workspaces::make_link`].
    pub(crate) fn make_link(&self, path: &RelPath, target: &[u8]) -> Result<()> {
        refuse_unwritable(&self.row, path)?;
        check_target(target)?;
        self.look(|tx, row| plan_link(&self.index(tx, row), path, target).map(drop))?;
        let incoming = self.workspaces.contents.receive(Content::Bytes(target))?;
        let size = incoming.size;
        let new = NewEntry::Link(target.to_vec(), Box::new(incoming));
        self.take(path, new, size)
    }

    /// Takes what has content. It waits in memory until there is enough of it for a transaction.
    fn take(&self, path: &RelPath, new: NewEntry, size: i64) -> Result<()> {
        let mut taken = self.lock();
        taken.entries.insert(path.clone(), new);
        taken.waiting.push(path.clone());
        taken.waiting_bytes += size;
        let full = match taken.waiting_bytes < BATCH {
            true => Vec::new(),
            false => taken.take_waiting(),
        };
        drop(taken);
        store_all(&self.workspaces, &full)
    }

    /// Writes all that was taken in: one transaction, then the directory if there is one. If it fails, nothing has
    /// changed.
    pub(crate) fn finish(self) -> Result<()> {
        let taken = self.taken.into_inner();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        if taken.entries.is_empty() {
            return Ok(());
        }
        let workspaces = &self.workspaces;
        let rest = taken.take_waiting();
        store_all(workspaces, &rest)?;
        let held = workspaces.sync.lock_workspace(&self.id)?;
        let changed = workspaces.land_import(&held, &taken.entries, &self.cause)?;
        workspaces.sync.project_locked(&held, &changed)?;
        workspaces.after_writes(held);
        Ok(())
    }

    /// Runs a check against the workspace as it is now.
    fn look(&self, mut look: impl FnMut(&dyn ReadTx, &WorkspaceRow) -> Result<()>) -> Result<()> {
        self.workspaces.store().read(|tx| {
            let row = open_row_by_key(tx, &self.row)?;
            look(tx, &row)
        })
    }

    fn index<'a>(&'a self, tx: &'a dyn ReadTx, row: &'a WorkspaceRow) -> Index<'a> {
        Index::new(self.workspaces.store(), tx, row)
    }

    fn lock(&self) -> MutexGuard<'_, PendingEntries> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores contents. They are named by nothing yet, and may get lost with a power cut until then.
fn store_all(workspaces: &Workspaces, objects: &[NewObject]) -> Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    workspaces.store().write(Durability::Relaxed, |tx| {
        for object in objects {
            tx.put_object(object)?;
        }
        Ok(())
    })
}

impl PendingEntries {
    /// The contents that are only in memory. The caller must store them; from now on they count as
    /// stored.
    fn take_waiting(&mut self) -> Vec<NewObject> {
        self.waiting_bytes = 0;
        let mut objects = Vec::new();
        for path in std::mem::take(&mut self.waiting) {
            match self.entries.get_mut(&path) {
                Some(NewEntry::File(file)) => objects.push(take_bytes(&mut file.object)),
                Some(NewEntry::Link(_, target)) => objects.push(take_bytes(&mut target.object)),
                Some(NewEntry::Dir) | None => {}
            }
        }
        objects
    }
}

fn take_bytes(object: &mut NewObject) -> NewObject {
    let stored = object.without_bytes();
    std::mem::replace(object, stored)
}

impl Workspaces {
    /// Commits everything that an import brings. Returns the paths that changed.
    fn land_import(
        &self,
        held: &LockedWorkspace,
        entries: &BTreeMap<RelPath, NewEntry>,
        cause: &Cause,
    ) -> Result<Vec<RelPath>> {
        if let Some(dir) = &held.dir {
            for (path, new) in entries {
                self.sync.sync_path(&held.row, dir, path)?;
                if let NewEntry::Link(target, _) = new {
                    self.sync_target(held, path, target)?;
                }
            }
        }
        let at = self.context.now();
        let changed = self.contents.change_workspace(&held.row, at, |draft| {
            let mut changed = BTreeSet::new();
            for (path, new) in entries {
                changed.extend(draft_one(draft, path, new, cause)?);
            }
            Ok(changed)
        })?;
        Ok(changed.into_iter().filter(|path| !path.is_root()).collect())
    }
}

/// Returns what changes, without the directories above that are there.
fn draft_one(
    draft: &mut Draft<'_>,
    path: &RelPath,
    new: &NewEntry,
    cause: &Cause,
) -> Result<Vec<RelPath>> {
    match new {
        NewEntry::Dir => Ok(draft_dir(draft, path, cause)?.1),
        NewEntry::File(file) => {
            let drafted = draft_file(draft, file)?;
            let mut changed = drafted.new_dirs;
            changed.push(drafted.path);
            Ok(changed)
        }
        NewEntry::Link(target, incoming) => {
            let new = NewLink {
                path,
                target,
                incoming,
            };
            draft_link(draft, &new, cause)
        }
    }
}
