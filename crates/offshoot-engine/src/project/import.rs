//! Projects from elsewhere: from a directory of the host. Later changes of the directory come in by
//! [`crate::link::directory`].
//!
//! An import is read, hashed and stored before anything names it; then one transaction makes the
//! project with its snapshot and one line of history. A failure or a kill before that leaves nothing
//! but content that garbage collection takes. Afterwards the base layer is built at once, so that
//! the first fork is as quick as all others. Git repositories are read in [`crate::project::import_git`].

use std::path::Path;

use offshoot_core::{
    Cause, EMPTY_TREE, Error, ErrorCode, ObjectKind, ProjectId, RelPath, Result, Timestamp,
};
use offshoot_git::Commit;
use offshoot_store::{
    Bulk, Durability, HistoryOp, Landing, NewObject, ProjectRow, ReadTx, RefRow, SnapshotRow,
    WorkspaceKey, WorkspaceRow, WorkspaceState, WriteTx,
};

use crate::content::credit::{message, signature};
use crate::content::objects::{PendingObjects, StoredObjects};
use crate::content::rows::state_of;
use crate::content::state::{State, StateEdit, StateEdits, StateEntry};
use crate::content::workspace_row::line_of;
use crate::context::idempotency::ExtraWrite;
use crate::directory::disk_entry::DiskEntry;
use crate::project::Projects;
use crate::project::head::{Project, add_project};
use crate::project::import_source::SourceTree;
use crate::project::policy::settings_row;
use crate::project::source::{put_source, source_of};
use crate::workspace::snapshot::Snapshot;

/// How a directory is imported.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Leave out what `.gitignore` and `.offshootignore` name. Files that the project has already are
    /// taken whatever the rules say.
    pub ignore_rules: bool,
    /// What the snapshot is called.
    pub label: Option<String>,
}

/// What an import is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportStage {
    /// Reading files, or objects of a git repository.
    Reading,
    /// Writing the layer that the first fork will stand on.
    Layer,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// What it is doing.
    pub stage: ImportStage,
    /// Files or objects done.
    pub done: u64,
    /// How many there are; 0 while that is not known.
    pub total: u64,
}

/// What an import did.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The project.
    pub project: Project,
    /// Its newest snapshot.
    pub snapshot: Snapshot,
    /// How many snapshots it has.
    pub snapshots: usize,
    /// What a project cannot hold, or must not, with the reason.
    pub dropped: Vec<(RelPath, String)>,
    /// What the ignore rules left out; a directory stands for all below it.
    pub ignored: Vec<RelPath>,
    /// Files that kept changing while they were read, and are not in it.
    pub unsettled: Vec<RelPath>,
    /// Branches and tags that could not be read, with the reason.
    pub refs_left_out: Vec<(String, String)>,
}

/// Everything that makes a new project, ready to be named by a transaction.
pub(crate) struct NewProject<'a> {
    pub(crate) id: &'a ProjectId,
    pub(crate) landing: Landing,
    /// Patterns of its protected paths.
    pub(crate) protect: &'a [&'a str],
    /// The whole name of its branch; none is the usual one.
    pub(crate) branch: Option<&'a str>,
    /// Branches and tags beside it; their project is not known yet.
    pub(crate) refs: &'a [RefRow],
    pub(crate) bulk: &'a Bulk,
    pub(crate) objects: &'a [NewObject],
    /// The oldest first; their workspace is not known yet.
    pub(crate) snapshots: Vec<SnapshotRow>,
    pub(crate) cause: &'a Cause,
    pub(crate) at: Timestamp,
    /// What else the transaction writes.
    pub(crate) also: Option<ExtraWrite<'a>>,
}

impl Projects {
    /// Refuses a name that a project has, for callers that fetch much before they make the project.
    pub fn refuse_taken_project(&self, id: &ProjectId) -> Result<()> {
        self.store().read(|tx| refuse_taken(tx, id))
    }

    /// Creates a project with what a directory of the host holds.
    ///
    /// A `.git` at the top is left out. No link is followed; links are taken as they are. Costs the
    /// reading and hashing of every file, and writing each once as content and once as base layer.
    pub fn import_dir(
        &self,
        id: &ProjectId,
        source: &Path,
        options: &ImportOptions,
        progress: &mut dyn FnMut(ImportProgress),
        cause: &Cause,
    ) -> Result<Imported> {
        self.import_dir_and(id, source, options, progress, None, cause)
    }

    /// Like [`import_dir`](Self::import_dir); `also` writes further rows in the transaction that
    /// makes the project.
    pub(crate) fn import_dir_and(
        &self,
        id: &ProjectId,
        source: &Path,
        options: &ImportOptions,
        progress: &mut dyn FnMut(ImportProgress),
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<Imported> {
        self.context.require_space()?;
        self.store().read(|tx| refuse_taken(tx, id))?;
        let source = self.open_source(source)?;
        self.directories.probe_providers_early();
        let mut tree = self.read_source(&source, options, &|_| false, progress)?;
        refuse_empty(&tree)?;
        let at = self.context.now();
        let objects = StoredObjects::new(self.store(), None);
        let mut bench = PendingObjects::new(&objects);
        bench.add_files_git_checks(source.dir(), tree.entries.keys())?;
        let (files, dirs, bytes) = tree.counts();
        // A million paths are some 100 MB each time that they are held: each step gives back what
        // it took before the next one begins.
        let entries = std::mem::take(&mut tree.entries).into_iter();
        let edits: StateEdits = entries
            .map(|(path, entry)| (path, StateEdit::Put(entry_of(&entry))))
            .collect();
        let state = State::default().edit(&mut bench, &edits)?;
        drop(edits);
        let label = options.label.as_deref().unwrap_or("Import");
        let mut commit = Commit {
            tree: state.tree,
            parents: Vec::new(),
            author: signature(cause, at),
            committer: signature(cause, at),
            message: message(Some(label), 1, cause, None),
            extra_headers: Vec::new(),
        };
        commit.set_sidecar((state.sidecar != EMPTY_TREE).then_some(state.sidecar));
        let commit = bench.add(ObjectKind::Commit, commit.encode()?)?;
        if state.tree == EMPTY_TREE {
            bench.add(ObjectKind::Tree, Vec::new())?;
        }
        let snapshot = SnapshotRow {
            workspace: WorkspaceKey(0),
            number: 1,
            id: commit,
            parent: None,
            tree: state.tree,
            sidecar: state.sidecar,
            label: Some(label.to_owned()),
            at,
            cause: cause.clone(),
            files,
            dirs,
            bytes,
        };
        let made = bench.prepare(self.store())?;
        drop(bench);
        let noted = source_of(Some(source.path()), options.ignore_rules, &snapshot);
        let remember = |tx: &mut dyn WriteTx, row: &WorkspaceRow| {
            put_source(tx, row.key, &noted)?;
            also.map_or(Ok(()), |also| also(tx, row))
        };
        let new = NewProject {
            id,
            landing: Landing::Partial,
            protect: &[],
            branch: None,
            refs: &[],
            bulk: &tree.bulk,
            objects: &made,
            snapshots: vec![snapshot],
            cause,
            at,
            also: Some(&remember),
        };
        let row = self.land_new_project(&new)?;
        let snapshots = new.snapshots;
        drop((made, tree.bulk));
        let mut imported = self.show_new_project(&row, &snapshots, progress)?;
        imported.dropped = tree.dropped;
        imported.ignored = tree.ignored;
        imported.unsettled = tree.unsettled;
        Ok(imported)
    }

    /// Makes the project in one transaction.
    pub(crate) fn land_new_project(&self, new: &NewProject<'_>) -> Result<WorkspaceRow> {
        let head = newest_of(&new.snapshots)?;
        self.store().write(Durability::Synced, |tx| {
            refuse_taken(tx, new.id)?;
            new.bulk.insert(tx)?;
            for object in new.objects {
                tx.put_object(object)?;
            }
            let mut row = add_project(tx, new.id, new.landing, new.protect, new.at)?;
            for snapshot in &new.snapshots {
                tx.add_snapshot(&SnapshotRow {
                    workspace: row.key,
                    ..snapshot.clone()
                })?;
            }
            if let Some(branch) = new.branch {
                let settings = settings_row(tx, row.key)?;
                tx.put_project(&ProjectRow {
                    branch: Some(branch.to_owned()),
                    ..settings
                })?;
            }
            for one in new.refs {
                tx.put_ref(&RefRow {
                    project: row.key,
                    ..one.clone()
                })?;
            }
            show_snapshot(&mut row, head);
            tx.update_workspace(&row)?;
            let mut line = line_of(&row, HistoryOp::Import, new.cause, new.at);
            line.after = Some(head.id);
            tx.add_history(&line)?;
            new.also.map_or(Ok(()), |also| also(tx, &row))?;
            Ok(row)
        })
    }

    /// Makes the base layer of a project that was imported, and says what came of the import.
    pub(crate) fn show_new_project(
        &self,
        row: &WorkspaceRow,
        snapshots: &[SnapshotRow],
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<Imported> {
        let head = newest_of(snapshots)?;
        let layer = |done| ImportProgress {
            stage: ImportStage::Layer,
            done,
            total: (head.files + head.dirs) as u64,
        };
        progress(layer(0));
        if self
            .directories
            .stack_for(row.key, state_of(head), Some(head.id))
            .is_err()
        {
            // The project exists. Its layer is a cache that the next fork builds again.
            self.directories.publish(row.key);
        }
        progress(layer((head.files + head.dirs) as u64));
        Ok(Imported {
            project: self.project(&row.id.as_str().parse()?)?,
            snapshot: head.clone().into(),
            snapshots: snapshots.len(),
            dropped: Vec::new(),
            ignored: Vec::new(),
            unsettled: Vec::new(),
            refs_left_out: Vec::new(),
        })
    }
}

pub(crate) fn newest_of(snapshots: &[SnapshotRow]) -> Result<&SnapshotRow> {
    let newest = snapshots.last();
    newest.ok_or_else(|| Error::internal("an import without a snapshot"))
}

/// A project holds what its newest snapshot holds.
fn show_snapshot(row: &mut WorkspaceRow, head: &SnapshotRow) {
    row.head = Some(head.id);
    row.tree = head.tree;
    row.sidecar = head.sidecar;
    row.files = head.files;
    row.dirs = head.dirs;
    row.bytes = head.bytes;
}

/// Refuses the name of an open project.
pub(crate) fn refuse_taken(tx: &dyn ReadTx, id: &ProjectId) -> Result<()> {
    let open = |row: WorkspaceRow| row.state == WorkspaceState::Open;
    if !tx.project(id)?.is_some_and(open) {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::AlreadyExists,
        format!("the project `{id}` exists"),
    )
    .with_hint(format!(
        "choose another name, or bring it up to date: `offshoot pull {id}` if it is linked to a \
         repository, `offshoot project sync {id} DIR` if not"
    )))
}

/// A directory without anything to take is a mistake more often than not: one that is not mounted,
/// or rules that ignore all of it.
pub(crate) fn refuse_empty(tree: &SourceTree) -> Result<()> {
    if !tree.entries.is_empty() {
        return Ok(());
    }
    Err(if tree.ignored.is_empty() {
        Error::invalid("the source of the import is empty")
            .with_hint("`offshoot project create NAME` makes an empty project")
    } else {
        Error::invalid("the ignore rules leave nothing of the source")
            .with_hint("import without them")
    })
}

pub(crate) fn entry_of(entry: &DiskEntry) -> StateEntry {
    StateEntry {
        kind: entry.kind,
        perm: entry.perm,
        id: entry.id,
    }
}
