//! Writing one file of a workspace: the plan, the rows, and the file in the directory.
//!
//! A workspace whose path nobody was given has no directory, and a write to it is one transaction.
//! Where there is a directory, the content is staged beside its place before the transaction and
//! renamed into it after. Writers that wait at the same time are gathered in one place, the group
//! commit of the store.

use std::sync::atomic::Ordering;

use offshoot_core::{
    Cause, EntryKind, Error, ErrorCode, ObjectId, PLAIN_FILE_PERM, RelPath, Result, Timestamp,
};
use offshoot_fs::{Staged, Sync};
use offshoot_store::{
    Durability, EntryRow, HistoryOp, NewHistory, NewObject, ReadTx, Via, WorkspaceRow,
};

use crate::content::draft::Draft;
use crate::content::history_writer::LineTemplate;
use crate::content::incoming::Incoming;
use crate::content::index::{Entry, Index, missing_dirs_in, new_dir_rows};
use crate::content::left_out::refuse_reserved_in;
use crate::content::workspace_row::check_quota;
use crate::directory::git_layer::refuse_own_git;
use crate::sync::guard::LockedWorkspace;
use crate::workspace::Workspaces;
use crate::workspace::files::{
    Target, WriteOptions, Written, check_expectation, refuse_unmakeable,
};

/// A file to be written: all that the transaction needs.
pub(crate) struct NewFile {
    pub(crate) target: Target,
    pub(crate) id: ObjectId,
    pub(crate) object: NewObject,
    pub(crate) size: i64,
    pub(crate) options: WriteOptions,
    pub(crate) via: Via,
    pub(crate) cause: Cause,
}

/// What a draft does with a file.
pub(crate) struct DraftedFile {
    /// The directories that come into being.
    pub(crate) new_dirs: Vec<RelPath>,
    /// Where the file is: links inside the workspace are followed.
    pub(crate) path: RelPath,
    perm: u32,
    revision: i64,
    created: bool,
}

/// What a write will do, known before anything is done.
struct WritePlan {
    /// What is there now, with its bytes.
    before: Option<(Entry, i64)>,
    new_dirs: Vec<EntryRow>,
    entry: EntryRow,
}

impl WritePlan {
    /// Its line of history.
    fn line(&self, lines: &LineTemplate<'_>, file: &NewFile) -> NewHistory {
        let op = match self.before {
            None => HistoryOp::Create,
            Some(_) => HistoryOp::Write,
        };
        let mut written = lines.file(op, &self.entry.path, EntryKind::File);
        written.before = self.before.and_then(|(entry, _)| entry.id);
        written.after = Some(file.id);
        written.size = file.size;
        written.mime = file.options.mime.clone();
        written.modified = file.options.modified.map(Timestamp::from_system);
        written
    }
}

impl Workspaces {
    /// Writes a file to a workspace that is held.
    pub(crate) fn write_held(
        &self,
        held: &LockedWorkspace,
        target: &Target,
        incoming: &mut Incoming,
        options: &WriteOptions,
        via: Via,
        cause: &Cause,
    ) -> Result<Written> {
        // The bytes go to disk before the commit, so that a full disk is found in time.
        let staged = self.stage_incoming(held, incoming, options)?;
        let file = NewFile {
            target: target.clone(),
            id: incoming.id,
            object: incoming.object.clone(),
            size: incoming.size,
            options: options.clone(),
            via,
            cause: cause.clone(),
        };
        let at = self.context.now();
        let drafted = self.store().write(Durability::Synced, |tx| {
            self.contents
                .change_in_transaction(tx, &held.row, at, |draft| draft_file(draft, &file))
        })?;
        if let Some(staged) = staged {
            self.put_in_place(held, staged, &drafted)?;
        }
        if crate::directory::Directories::checkpoint_is_due(&held.row, drafted.revision) {
            self.context.checkpoint_due.store(true, Ordering::Relaxed);
        }
        let path = drafted.path;
        let mime = crate::content::mime::of(options.mime.as_deref(), path.name(), &incoming.head);
        Ok(Written {
            path,
            size: incoming.size,
            mime,
            version: drafted.revision,
            id: incoming.id,
            created: drafted.created,
        })
    }

    /// The content as a file beside its place, if the workspace has a directory.
    fn stage_incoming(
        &self,
        held: &LockedWorkspace,
        incoming: &mut Incoming,
        options: &WriteOptions,
    ) -> Result<Option<Staged>> {
        let Some(dir) = &held.dir else {
            return Ok(None);
        };
        let mut staged = dir.stage(PLAIN_FILE_PERM)?;
        incoming.copy_to(&mut staged)?;
        if let Some(modified) = options.modified {
            staged.set_modified(modified);
        }
        Ok(Some(staged))
    }

    /// Puts a file in place that is committed. If that fails, the file is written once more from
    /// the store; if that fails too, the next process to open the data directory repairs it.
    fn put_in_place(
        &self,
        held: &LockedWorkspace,
        mut staged: Staged,
        file: &DraftedFile,
    ) -> Result<()> {
        staged.set_perm(file.perm);
        let placed = held
            .directory()
            .and_then(|dir| dir.commit(staged, &file.path, true, Sync::None));
        match placed {
            Ok(_) => Ok(()),
            Err(_) => self
                .sync
                .project_or_recover(held, std::slice::from_ref(&file.path)),
        }
    }

    /// Releases a workspace after writes, and makes a checkpoint if one is due.
    pub(crate) fn after_writes(&self, held: LockedWorkspace) {
        drop(held);
        if self.context.checkpoint_due.swap(false, Ordering::Relaxed) {
            // The writes are done; a checkpoint that fails is tried again with a later one.
            let _ = self.directories.checkpoint_if_due();
        }
    }

    /// Says why a write would be refused, if it would be now.
    pub(crate) fn refuse_write(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        file: &NewFile,
    ) -> Result<()> {
        let mut draft = Draft::new(self.store(), tx, row, self.context.now());
        draft_file(&mut draft, file)?;
        let mut next = draft.next.clone();
        draft.counters.add_to(&mut next);
        check_quota(row, &next)
    }
}

/// Plans what a write does to an index. Quotas are checked later.
fn plan_file(index: &Index<'_>, revision: i64, file: &NewFile) -> Result<WritePlan> {
    let options = &file.options;
    let (path, steps) = file.target.resolve(index)?;
    refuse_unmakeable(index.row, &path)?;
    refuse_own_git(index.tx, index.row, &path)?;
    refuse_reserved_in(index, &path)?;
    let before = steps.last().and_then(|(_, entry)| *entry);
    check_expectation(&path, before.as_ref(), options.expect)?;
    if before.is_some_and(|entry| entry.is_dir()) {
        return Err(Error::new(
            ErrorCode::IsADirectory,
            format!("`{path}` is a directory"),
        ));
    }
    let perm = match (options.executable, before) {
        (Some(true), _) => offshoot_core::EXEC_FILE_PERM,
        (Some(false), _) => PLAIN_FILE_PERM,
        (None, Some(before)) if before.kind == EntryKind::File => before.perm,
        (None, _) => PLAIN_FILE_PERM,
    };
    let before = match before {
        Some(entry) => Some((entry, index.size(&entry)?)),
        None => None,
    };
    Ok(WritePlan {
        before,
        new_dirs: new_dir_rows(index, &missing_dirs_in(&steps)?, revision)?,
        entry: EntryRow {
            path,
            kind: Some(EntryKind::File),
            opaque: false,
            perm,
            id: Some(file.id),
            size: file.size,
            revision,
        },
    })
}

/// Writes a file as part of a change, which may be all of it; large content is stored already.
pub(crate) fn draft_file(draft: &mut Draft<'_>, file: &NewFile) -> Result<DraftedFile> {
    let planned = plan_file(&draft.index, draft.next.revision, file)?;
    let line = planned.line(&draft.line_for(file.via, &file.cause), file);
    let mut new_dirs = Vec::with_capacity(planned.new_dirs.len());
    for dir in planned.new_dirs {
        new_dirs.push(dir.path.clone());
        draft.make_dir(dir, file.via, &file.cause)?;
    }
    draft.add_object(file.object.clone());
    draft.add_recorded_line(line, file.options.noting.as_ref());
    let drafted = DraftedFile {
        new_dirs,
        path: planned.entry.path.clone(),
        perm: planned.entry.perm,
        revision: planned.entry.revision,
        created: planned.before.is_none(),
    };
    draft.replace(planned.before, planned.entry)?;
    Ok(drafted)
}
