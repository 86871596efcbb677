//! Projects: named trees with a linear history of snapshots, which agents fork and merge into.
//!
//! A project has no directory. Each change of it, a person's edit, an import or a merge, is one new
//! snapshot on the head that it was made from: if somebody else was quicker, the change is made
//! again on the new head ([`Projects::change_project`]).

use std::collections::HashMap;

use offshoot_core::{
    Cause, EMPTY_TREE, EXEC_FILE_PERM, EntryKind, Error, ErrorCode, Layout, ObjectId, ObjectKind,
    PLAIN_FILE_PERM, ProjectId, RelPath, Result, Timestamp, WorkspaceId,
};
use offshoot_git::Commit;
use offshoot_store::{
    Durability, HistoryOp, Landing, NewObject, ProjectRow, ReadTx, SnapshotRow, Via, WorkspaceKind,
    WorkspaceRow, WorkspaceState, WriteTx,
};

use crate::content::change_set::{kind_of, op_of};
use crate::content::counters::CounterDelta;
use crate::content::credit::{Author, WorkOf, committer, message};
use crate::content::history_writer::{LineTemplate, changed_row};
use crate::content::incoming::Content;
use crate::content::left_out::{refuse_reserved_dir, refuse_what_git_refuses};
use crate::content::objects::{PendingObjects, StoredObjects};
use crate::content::rows::{no_project, open_project, size_of, state_of, state_of_row};
use crate::content::state::{State, StateChange, StateEdit, StateEdits, StateEntry};
use crate::content::workspace_row::{Quota, line_of, new_row};
use crate::context::idempotency::ExtraWrite;
use crate::formats;
use crate::project::Projects;
use crate::workspace::files::{Expect, WriteOptions};
use crate::workspace::snapshot::Snapshot;

/// How often a change is made again because the head moved, before the caller gets an error.
const TRIES: usize = 64;

/// What is known about a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its name.
    pub id: ProjectId,
    /// Its newest snapshot.
    pub head: Option<ObjectId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// Files and links in its head.
    pub files: i64,
    /// Directories in its head.
    pub dirs: i64,
    /// Bytes in its head.
    pub bytes: i64,
    /// What lands when a merge has conflicts.
    pub landing: Landing,
    /// Whether merges take ignored files too.
    pub include_ignored: bool,
}

/// What a change of a project does, given its head.
#[derive(Default)]
pub(crate) struct Proposal {
    pub(crate) edits: StateEdits,
    /// Content that the edits name and that may be new.
    pub(crate) contents: Vec<NewObject>,
}

/// A change of a project that is ready to land on the head it was made from.
pub(crate) struct ProjectDraft {
    /// The row as it was.
    pub(crate) row: WorkspaceRow,
    /// The new snapshot.
    pub(crate) snapshot: SnapshotRow,
    /// What differs from the head.
    pub(crate) changes: Vec<StateChange>,
    objects: Vec<NewObject>,
    /// The row as it will be.
    pub(crate) next: WorkspaceRow,
    sizes: Vec<i64>,
}

impl ProjectDraft {
    /// The files and links that the change concerns, without directories.
    pub(crate) fn changed_files(&self) -> Vec<RelPath> {
        let is_file =
            |entry: Option<StateEntry>| entry.is_some_and(|one| one.kind != EntryKind::Dir);
        let changes = self.changes.iter();
        let files = changes.filter(|change| is_file(change.before) || is_file(change.after));
        files.map(|change| change.path.clone()).collect()
    }
}

/// How a change of a project is recorded.
pub(crate) struct ChangeRecord<'a> {
    pub(crate) label: &'a str,
    /// Who it is by; none is the operator.
    pub(crate) author: Option<Author>,
    /// Whose work it brings.
    pub(crate) work: Option<WorkOf>,
    /// Commits beside the head that the new one comes from.
    pub(crate) further_parents: &'a [ObjectId],
    pub(crate) op: HistoryOp,
    pub(crate) via: Via,
    pub(crate) cause: &'a Cause,
    pub(crate) at: Timestamp,
}

/// A change of a project, planned on its head.
pub(crate) struct HeadChange<P> {
    /// The project as it was when the change was planned.
    pub(crate) project: WorkspaceRow,
    /// The snapshot that becomes its head; none if its content stays as it is.
    pub(crate) draft: Option<ProjectDraft>,
    /// What lands in the same transaction.
    pub(crate) outcome: P,
    /// Whether anything is to be written.
    pub(crate) is_needed: bool,
}

impl Projects {
    /// Creates an empty project.
    pub fn create_project(&self, id: &ProjectId, cause: &Cause) -> Result<Project> {
        self.create_project_and(id, None, cause)
    }

    /// Like [`create_project`](Self::create_project); `also` writes further rows in the same
    /// transaction.
    pub(crate) fn create_project_and(
        &self,
        id: &ProjectId,
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<Project> {
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            let row = add_project(tx, id, Landing::Partial, &[], at)?;
            tx.add_history(&line_of(&row, HistoryOp::ProjectCreate, cause, at))?;
            also.map_or(Ok(()), |also| also(tx, &row))
        })?;
        self.project(id)
    }

    /// Projects in the order of names.
    pub fn list_projects(&self, after: Option<&ProjectId>, limit: usize) -> Result<Vec<Project>> {
        self.store().read(|tx| {
            let rows = tx.projects(after, limit)?;
            rows.into_iter().map(|row| as_project(tx, row)).collect()
        })
    }

    /// One project.
    pub fn project(&self, id: &ProjectId) -> Result<Project> {
        self.store()
            .read(|tx| as_project(tx, open_project(tx, id)?))
    }

    /// Deletes a project that no open workspace is a fork of. Its snapshots stay until purged.
    /// Deleting it again changes nothing. Returns its last snapshot.
    pub fn delete_project(&self, id: &ProjectId, cause: &Cause) -> Result<Option<ObjectId>> {
        let at = self.context.now();
        self.context
            .with_reserve(|| self.close_project(id, at, cause))
    }

    fn close_project(
        &self,
        id: &ProjectId,
        at: Timestamp,
        cause: &Cause,
    ) -> Result<Option<ObjectId>> {
        self.store().write(Durability::Synced, |tx| {
            let Some(mut row) = tx.project(id)? else {
                return Err(no_project(id));
            };
            if row.state == WorkspaceState::Closed {
                return Ok(row.head);
            }
            let forks = tx.forks_of(row.key)?;
            if !forks.is_empty() {
                let names: Vec<String> = forks.iter().map(|row| row.id.to_string()).collect();
                return Err(Error::new(
                    ErrorCode::WorkspaceBusy,
                    format!("the project `{id}` has {} open forks", forks.len()),
                )
                .with_hint("complete or delete them first")
                .with_details(serde_json::json!({ "workspaces": names })));
            }
            row.state = WorkspaceState::Closed;
            row.used_at = at;
            tx.update_workspace(&row)?;
            let mut line = line_of(&row, HistoryOp::ProjectDelete, cause, at);
            line.after = row.head;
            tx.add_history(&line)?;
            Ok(row.head)
        })
    }

    /// A person's edit of one file: one new snapshot.
    pub fn put_in_project(
        &self,
        id: &ProjectId,
        path: &RelPath,
        content: Content<'_>,
        options: &WriteOptions,
        cause: &Cause,
    ) -> Result<Snapshot> {
        if path.is_root() {
            return Err(Error::invalid("the path of a file is missing"));
        }
        path.check_depth()?;
        refuse_what_git_refuses(path, EntryKind::File, None)?;
        let mut incoming = self.contents.receive(content)?;
        let ruled = incoming.bytes_if_git_checks_content(path)?;
        refuse_what_git_refuses(path, EntryKind::File, ruled.as_deref())?;
        let label = format!("Edit {path}");
        let record = ChangeRecord {
            label: &label,
            author: None,
            work: None,
            further_parents: &[],
            op: HistoryOp::Snapshot,
            via: Via::Call,
            cause,
            at: self.context.now(),
        };
        let make = |objects: &StoredObjects<'_>, head: &State| -> Result<Proposal> {
            refuse_reserved_dir(objects, head, path)?;
            let before = head.entry(objects, path)?;
            refuse_edit(objects, head, path, before.as_ref(), options)?;
            let kept = before.map_or(PLAIN_FILE_PERM, |entry| entry.perm);
            let perm = match options.executable {
                None => kept,
                Some(true) => EXEC_FILE_PERM,
                Some(false) => PLAIN_FILE_PERM,
            };
            let entry = StateEntry {
                kind: EntryKind::File,
                perm,
                id: Some(incoming.id),
            };
            Ok(Proposal {
                edits: StateEdits::from([(path.clone(), StateEdit::Put(entry))]),
                contents: vec![incoming.object.clone()],
            })
        };
        self.change_project(id, &record, make, |_, _| Ok(()))
            .map(|landed| landed.0)
    }

    /// Changes a project by one snapshot on its head. `make` says what changes, given the head;
    /// `land` adds to the transaction. Both are called again if the head moved meanwhile. Returns
    /// the snapshot, and whether it is new: a change that changes nothing makes none.
    pub(crate) fn change_project(
        &self,
        id: &ProjectId,
        record: &ChangeRecord<'_>,
        mut make: impl FnMut(&StoredObjects<'_>, &State) -> Result<Proposal>,
        mut land: impl FnMut(&mut dyn WriteTx, &ProjectDraft) -> Result<()>,
    ) -> Result<(Snapshot, bool)> {
        let plan = |tx: &dyn ReadTx| {
            let project = open_project(tx, id)?;
            let mut objects = self.contents.objects_in(tx);
            objects.cache_trees();
            let proposal = make(&objects, &state_of_row(&project))?;
            let draft = self.draft_project(tx, project.clone(), proposal, record)?;
            // A commit that comes in is part of the history even if it changes nothing.
            let changes_something = !draft.changes.is_empty()
                || project.head.is_none()
                || !record.further_parents.is_empty();
            Ok(HeadChange {
                project,
                draft: changes_something.then_some(draft),
                outcome: (),
                is_needed: changes_something,
            })
        };
        let landed = self.land_on_head(plan, |tx, change| match &change.draft {
            Some(draft) => {
                land_draft(tx, draft, record)?;
                land(tx, draft)
            }
            None => Ok(()),
        })?;
        if let Some(draft) = landed.draft {
            return Ok((draft.snapshot.into(), true));
        }
        let head = self.store().read(|tx| match landed.project.head {
            Some(head) => tx.snapshot(landed.project.key, &head),
            None => Ok(None),
        })?;
        let head = head.ok_or_else(|| Error::internal("the head has no row"))?;
        Ok((head.into(), false))
    }

    /// Plans a change of a project and lands it on the head that it was planned on. If the head moved
    /// meanwhile, it is planned again.
    pub(crate) fn land_on_head<P>(
        &self,
        mut plan: impl FnMut(&dyn ReadTx) -> Result<HeadChange<P>>,
        mut land: impl FnMut(&mut dyn WriteTx, &HeadChange<P>) -> Result<()>,
    ) -> Result<HeadChange<P>> {
        let mut name = String::new();
        for _ in 0..TRIES {
            let change = self.store().read(&mut plan)?;
            if !change.is_needed {
                return Ok(change);
            }
            let landed = self.store().write(Durability::Synced, |tx| {
                if !is_unmoved(tx, &change.project)? {
                    return Ok(false);
                }
                land(tx, &change)?;
                Ok(true)
            })?;
            if landed {
                if change.draft.is_some() {
                    self.directories.publish(change.project.key);
                }
                return Ok(change);
            }
            name = change.project.id.to_string();
        }
        let message = format!("the project `{name}` keeps changing");
        Err(Error::new(ErrorCode::WorkspaceBusy, message)
            .with_hint("nothing was changed; try again"))
    }

    /// The snapshot that edits of a project's head would make.
    pub(crate) fn draft_project(
        &self,
        tx: &dyn ReadTx,
        row: WorkspaceRow,
        proposal: Proposal,
        record: &ChangeRecord<'_>,
    ) -> Result<ProjectDraft> {
        let mut objects = self.contents.objects_in(tx);
        objects.cache_trees();
        let head = state_of_row(&row);
        // Only what the owner brings from a directory may hold repositories.
        if record.op != HistoryOp::Import {
            for (path, edit) in &proposal.edits {
                if let Some(entry) = edit.puts() {
                    refuse_what_git_refuses(path, entry.kind, None)?;
                }
            }
        }
        let mut bench = PendingObjects::new(&objects);
        let state = head.edit(&mut bench, &proposal.edits)?;
        let changes = head.diff(&bench, &state, &RelPath::root())?;
        let mut next = changed_row(&row, record.at);
        let (sizes, tally) = count_changes(tx, &changes, &proposal.contents)?;
        tally.add_to(&mut next);
        let number = tx
            .snapshots(row.key, 1)?
            .first()
            .map_or(1, |last| last.number + 1);
        let mut parents: Vec<ObjectId> = row.head.into_iter().collect();
        parents.extend(record.further_parents);
        let author = match &record.author {
            Some(author) => author.clone(),
            None => Author::of_operator(tx, row.key, &record.cause.operator)?,
        };
        let work = record.work.as_ref();
        let mut commit = Commit {
            tree: state.tree,
            parents,
            author: author.signature(record.at),
            committer: committer(record.at),
            message: message(Some(record.label), number, record.cause, work),
            extra_headers: Vec::new(),
        };
        commit.set_sidecar((state.sidecar != EMPTY_TREE).then_some(state.sidecar));
        let commit = bench.add(ObjectKind::Commit, commit.encode()?)?;
        if state.tree == EMPTY_TREE {
            bench.add(ObjectKind::Tree, Vec::new())?;
        }
        next.head = Some(commit);
        next.tree = state.tree;
        next.sidecar = state.sidecar;
        // There is no directory that could lag behind.
        next.synced_revision = next.revision;
        let snapshot = SnapshotRow {
            workspace: row.key,
            number,
            id: commit,
            parent: row.head,
            tree: state.tree,
            sidecar: state.sidecar,
            label: Some(record.label.to_owned()),
            at: record.at,
            cause: record.cause.clone(),
            files: next.files,
            dirs: next.dirs,
            bytes: next.bytes,
        };
        let mut objects = bench.prepare(self.store())?;
        objects.extend(proposal.contents);
        Ok(ProjectDraft {
            objects,
            row,
            snapshot,
            changes,
            next,
            sizes,
        })
    }

    /// The state of a project at a snapshot of it, or now.
    pub(crate) fn project_state(
        &self,
        tx: &dyn ReadTx,
        id: &ProjectId,
        at: Option<&str>,
    ) -> Result<State> {
        let row = open_project(tx, id)?;
        match at {
            None => Ok(state_of_row(&row)),
            Some(text) => Ok(state_of(&self.contents.find_snapshot(tx, &row, text)?)),
        }
    }
}

/// The size of each path after its change, and what the changes do to the counters. Contents may not
/// be stored yet.
fn count_changes(
    tx: &dyn ReadTx,
    changes: &[StateChange],
    contents: &[NewObject],
) -> Result<(Vec<i64>, CounterDelta)> {
    let new: HashMap<ObjectId, i64> = contents
        .iter()
        .map(|object| (object.id(), object.size() as i64))
        .collect();
    let mut sizes = Vec::with_capacity(changes.len());
    let mut tally = CounterDelta::default();
    for change in changes {
        let size = |entry: &Option<StateEntry>| match entry {
            Some(entry) => match entry.id.and_then(|id| new.get(&id)) {
                Some(size) => Ok(*size),
                None => size_of(tx, entry),
            },
            None => Ok(0),
        };
        let after = size(&change.after)?;
        tally.apply(change, size(&change.before)?, after);
        sizes.push(after);
    }
    Ok((sizes, tally))
}

/// Whether a project is still as it was.
pub(crate) fn is_unmoved(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<bool> {
    let now = tx.workspace_by_key(row.key)?;
    Ok(now.is_some_and(|now| now.state == WorkspaceState::Open && now.revision == row.revision))
}

/// Writes a draft. The project must be as it was when the draft was made.
pub(crate) fn land_draft(
    tx: &mut dyn WriteTx,
    draft: &ProjectDraft,
    record: &ChangeRecord<'_>,
) -> Result<()> {
    for object in &draft.objects {
        tx.put_object(object)?;
    }
    tx.add_snapshot(&draft.snapshot)?;
    tx.update_workspace(&draft.next)?;
    let line = LineTemplate {
        row: &draft.next,
        at: record.at,
        via: record.via,
        cause: record.cause,
    };
    let mut top = line_of(&draft.next, record.op, record.cause, record.at);
    top.via = record.via;
    top.before = draft.snapshot.parent;
    top.after = Some(draft.snapshot.id);
    tx.add_history(&top)?;
    for (change, size) in draft.changes.iter().zip(&draft.sizes) {
        let mut entry = line.file(op_of(change), &change.path, kind_of(change));
        entry.before = change.before.and_then(|entry| entry.id);
        entry.after = change.after.and_then(|entry| entry.id);
        entry.size = *size;
        tx.add_history(&entry)?;
    }
    Ok(())
}

/// A new project's row and settings.
pub(crate) fn add_project(
    tx: &mut dyn WriteTx,
    id: &ProjectId,
    landing: Landing,
    protect: &[&str],
    at: Timestamp,
) -> Result<WorkspaceRow> {
    let name: WorkspaceId = id.as_str().parse()?;
    let mut row = new_row(&name, Layout::Plain, Quota::default(), at);
    row.kind = WorkspaceKind::Project;
    row.key = tx.add_workspace(&row)?;
    tx.put_project(&ProjectRow {
        key: row.key,
        landing,
        include_ignored: false,
        policy: formats::policies_text(&[])?,
        protect: formats::protected_text(protect)?,
        link: None,
        branch: None,
        source: None,
        setup: None,
    })?;
    Ok(row)
}

fn as_project(tx: &dyn ReadTx, row: WorkspaceRow) -> Result<Project> {
    let settings = tx.project_settings(row.key)?;
    Ok(Project {
        id: row.id.as_str().parse()?,
        head: row.head,
        created_at: row.created_at,
        changed_at: row.changed_at,
        files: row.files,
        dirs: row.dirs,
        bytes: row.bytes,
        landing: settings
            .as_ref()
            .map_or(Landing::Partial, |row| row.landing),
        include_ignored: settings.is_some_and(|row| row.include_ignored),
    })
}

/// A file takes the place of a file or of nothing.
fn refuse_edit(
    objects: &StoredObjects<'_>,
    head: &State,
    path: &RelPath,
    before: Option<&StateEntry>,
    options: &WriteOptions,
) -> Result<()> {
    if before.is_some_and(|entry| entry.kind == EntryKind::Dir) {
        return Err(Error::new(
            ErrorCode::IsADirectory,
            format!("`{path}` is a directory"),
        ));
    }
    if let Some(above) = head.leaf_above(objects, path)? {
        return Err(Error::new(
            ErrorCode::NotADirectory,
            format!("`{above}` is a file, so nothing can be below it"),
        ));
    }
    let as_expected = match options.expect {
        Expect::Anything => true,
        Expect::Absent => before.is_none(),
        Expect::Present => before.is_some(),
        Expect::Content(id) => before.is_some_and(|entry| entry.id == Some(id)),
    };
    if as_expected {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::PreconditionFailed,
        format!("`{path}` is not what was expected"),
    )
    .with_hint("read it again; nothing was changed"))
}
