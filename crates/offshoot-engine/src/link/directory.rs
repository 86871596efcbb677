//! Taking the changes of a directory into a project.
//!
//! The directory is one more agent. What it holds becomes a commit on top of what was taken from it
//! last. If the project has not changed since, that commit is its next snapshot. Otherwise it is merged
//! like the work of a fork, so that nothing that agents merged meanwhile is taken back.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use offshoot_core::{
    Cause, EMPTY_TREE, EntryKind, Error, ErrorCode, ObjectId, ObjectKind, ProjectId, RelPath,
    Result, WorkspaceId,
};
use offshoot_git::{Commit, ObjectReader, read_commit};
use offshoot_store::{
    CompletionRow, Durability, NewObject, ReadTx, WorkspaceKey, WorkspaceRow, WorkspaceState,
    WriteTx,
};

use crate::content::credit::{message, signature};
use crate::content::objects::{PendingObjects, StoredObjects};
use crate::content::rows::{open_project, state_of_row};
use crate::content::state::{State, StateEdit, StateEdits};
use crate::directory::disk_entry::DiskEntry;
use crate::formats::{DirectorySource, PendingDirectory};
use crate::link::Links;
use crate::link::incoming::{BothObjects, Fetched};
use crate::link::land::{Arriving, TRIES, workspace_name};
use crate::merge::complete::{CompleteOptions, Completed, PushedCommit};
use crate::project::import::{ImportOptions, ImportProgress, entry_of, refuse_empty};
use crate::project::import_source::{Source, SourceTree};
use crate::project::source::{put_source, source_in};
use crate::workspace::snapshot::Snapshot;

/// What a snapshot is called that holds what changed in a directory.
const DEFAULT_LABEL: &str = "Sync";

/// What taking the changes of a directory did.
#[derive(Clone, Debug)]
pub struct ProjectSynced {
    /// The newest snapshot of the project.
    pub snapshot: Snapshot,
    /// Whether it came with this: a directory without changes makes none.
    pub created: bool,
    /// Files and links that came or changed in the directory since it was last looked at.
    pub synced: u64,
    /// Files and links that are as they were then.
    pub skipped: u64,
    /// Files and links in the directory.
    pub total: u64,
    /// Files and links that went.
    pub removed: u64,
    /// The receipt of the merge, if the project had changed meanwhile, too.
    pub merge: Option<Box<Completed>>,
    /// What a project cannot hold, or must not, with the reason.
    pub dropped: Vec<(RelPath, String)>,
    /// What the ignore rules left out; a directory stands for all below it.
    pub ignored: Vec<RelPath>,
    /// Files that kept changing while they were read; the project has them as they were.
    pub unsettled: Vec<RelPath>,
}

/// What a directory held when it was last looked at, and holds now.
struct Taking<'a> {
    /// What was remembered before.
    known: Option<DirectorySource>,
    base: (ObjectId, Commit),
    tip: (ObjectId, Commit),
    /// What is remembered once it has come in.
    noted: DirectorySource,
    label: &'a str,
    cause: &'a Cause,
}

impl Links {
    /// Takes what changed in a directory of the host since it was last taken; none is the one that the
    /// project knows. A directory that the project never took anything from is merged as if all of it
    /// were new. Everything in the directory is read, because what is the same is known by its hash.
    pub fn sync_directory(
        &self,
        id: &ProjectId,
        directory: Option<&Path>,
        options: &ImportOptions,
        progress: &mut dyn FnMut(ImportProgress),
        cause: &Cause,
    ) -> Result<ProjectSynced> {
        self.context.require_space()?;
        let project = self.store().read(|tx| open_project(tx, id))?;
        let known = self.store().read(|tx| source_in(tx, project.key))?;
        let place = match directory {
            Some(directory) => directory.to_owned(),
            None => known_place(id, known.as_ref())?,
        };
        let source = self.projects.open_source(&place)?;
        let mut options = options.clone();
        // A directory that is known is read as it was last time.
        options.ignore_rules |=
            known.is_some_and(|one| one.is_of(source.path()) && one.ignore_rules);
        let head = state_of_row(&project);
        // A path that cannot be looked up counts as tracked, so that it is read.
        let tracked = |path: &RelPath| {
            let objects = StoredObjects::new(self.store(), None);
            head.entry(&objects, path)
                .map_or(true, |found| found.is_some())
        };
        let tree = self
            .projects
            .read_source(&source, &options, &tracked, progress)?;
        refuse_empty(&tree)?;
        let _turn = self.turn(project.key)?;
        let known = self.settled_source(project.key, cause)?;
        let project = self.store().read(|tx| open_project(tx, id))?;
        let known = known.filter(|known| known.is_of(source.path()));
        let objects = StoredObjects::new(self.store(), None);
        let mut bench = PendingObjects::new(&objects);
        bench.add_files_git_checks(source.dir(), tree.entries.keys())?;
        let (taking, counts) =
            self.commit_of(&mut bench, &project, &source, &tree, known, &options, cause)?;
        let total = tree.counts().0 as u64;
        let sizes = tree.entries.values();
        let sizes = sizes.filter_map(|entry| Some((entry.id?, entry.size)));
        let fetched = Fetched {
            sizes: sizes.collect(),
            bulk: tree.bulk,
        };
        let merge = match taking {
            Some(taking) => self.land_directory(id, &taking, &bench, &fetched)?,
            None => None,
        };
        let (snapshot, created) = self.newest_snapshot(id, project.head)?;
        Ok(ProjectSynced {
            snapshot,
            created,
            synced: total - counts.same,
            skipped: counts.same,
            total,
            removed: counts.removed,
            merge,
            dropped: tree.dropped,
            ignored: tree.ignored,
            unsettled: tree.unsettled,
        })
    }

    /// Makes a commit of what a directory holds, on top of what it held; none if that is the same.
    #[expect(clippy::too_many_arguments, reason = "what a commit is made of")]
    fn commit_of<'a>(
        &self,
        bench: &mut PendingObjects<'_>,
        project: &WorkspaceRow,
        source: &Source,
        tree: &SourceTree,
        known: Option<DirectorySource>,
        options: &'a ImportOptions,
        cause: &'a Cause,
    ) -> Result<(Option<Taking<'a>>, SyncCounts)> {
        let label = options.label.as_deref().unwrap_or(DEFAULT_LABEL);
        let base = match &known {
            // What was taken may be erased since; then everything is new again.
            Some(known) if bench.read(&known.taken)?.is_some() => {
                let mut commit = read_commit(bench, &known.taken)?;
                commit.set_sidecar((known.sidecar != EMPTY_TREE).then_some(known.sidecar));
                (known.taken, commit)
            }
            _ => {
                let nothing = self.new_commit(State::default(), None, "Nothing yet", cause);
                bench.add(ObjectKind::Tree, Vec::new())?;
                (bench.add(ObjectKind::Commit, nothing.encode()?)?, nothing)
            }
        };
        let before = State {
            tree: base.1.tree,
            sidecar: base.1.sidecar().unwrap_or(EMPTY_TREE),
        };
        let (edits, counts) = edits_to(bench, &before, tree)?;
        let after = before.edit(bench, &edits)?;
        if after == before {
            return Ok((None, counts));
        }
        // The first snapshot of an empty project comes after nothing.
        let parent = project.head.map(|_| base.0);
        let commit = self.new_commit(after, parent, label, cause);
        let tip = (bench.add(ObjectKind::Commit, commit.encode()?)?, commit);
        let noted = DirectorySource {
            directory: source.path().to_str().map(str::to_owned),
            ignore_rules: options.ignore_rules,
            taken: tip.0,
            sidecar: after.sidecar,
            pending: None,
        };
        let taking = Taking {
            known,
            base,
            tip,
            noted,
            label,
            cause,
        };
        Ok((Some(taking), counts))
    }

    fn new_commit(
        &self,
        state: State,
        parent: Option<ObjectId>,
        label: &str,
        cause: &Cause,
    ) -> Commit {
        let at = self.context.now();
        let mut commit = Commit {
            tree: state.tree,
            parents: parent.into_iter().collect(),
            author: signature(cause, at),
            committer: signature(cause, at),
            message: message(Some(label), 1, cause, None),
            extra_headers: Vec::new(),
        };
        commit.set_sidecar((state.sidecar != EMPTY_TREE).then_some(state.sidecar));
        commit
    }

    /// Brings the commit of a directory into its project: as its first snapshot, or merged, so that it
    /// can be undone like every merge.
    fn land_directory(
        &self,
        id: &ProjectId,
        taking: &Taking<'_>,
        bench: &PendingObjects<'_>,
        fetched: &Fetched,
    ) -> Result<Option<Box<Completed>>> {
        let objects = BothObjects::new(StoredObjects::new(self.store(), None), bench);
        let arriving = Arriving {
            objects: &objects,
            fetched,
            cause: taking.cause,
            are_own: true,
        };
        let made = bench.prepare(self.store())?;
        for _ in 0..TRIES {
            let project = self.store().read(|tx| open_project(tx, id))?;
            if project.head.is_some() {
                let merged = self.merge_directory(id, &project, taking, &arriving, &made)?;
                return Ok(Some(Box::new(merged)));
            }
            let also = |tx: &mut dyn WriteTx| {
                put_objects(tx, &made)?;
                put_source(tx, project.key, &taking.noted)
            };
            let chain = vec![taking.tip.clone()];
            if self.forward(&project, &chain, &arriving, &also)?.is_some() {
                return Ok(None);
            }
        }
        Err(Error::new(
            ErrorCode::WorkspaceBusy,
            format!("the project `{id}` keeps changing"),
        )
        .with_hint("nothing was changed; try again"))
    }

    /// Merges what a directory holds as the work of a workspace. What is remembered names the workspace
    /// from the transaction on that makes it, together with the request for its merge: whoever does that
    /// merge, and whenever, nothing is taken that was not merged, and nothing twice.
    fn merge_directory(
        &self,
        id: &ProjectId,
        project: &WorkspaceRow,
        taking: &Taking<'_>,
        arriving: &Arriving<'_>,
        made: &[NewObject],
    ) -> Result<Completed> {
        let options = merge_options(taking.tip.0, taking.label);
        let completion = (self.merges).completion(project.key, &options, taking.cause)?;
        let also = |tx: &mut dyn WriteTx, row: &WorkspaceRow| {
            let pending = PendingDirectory {
                workspace: row.key.0,
                taken: taking.noted.taken,
                sidecar: taking.noted.sidecar,
            };
            let before = taking.known.clone().unwrap_or_else(|| DirectorySource {
                taken: taking.base.0,
                sidecar: EMPTY_TREE,
                ..taking.noted.clone()
            });
            let noted = DirectorySource {
                directory: taking.noted.directory.clone(),
                ignore_rules: taking.noted.ignore_rules,
                pending: Some(pending),
                ..before
            };
            put_objects(tx, made)?;
            put_source(tx, project.key, &noted)?;
            tx.put_completion(&CompletionRow {
                workspace: row.key,
                ..completion.clone()
            })
        };
        let chain = vec![taking.tip.clone()];
        let onto = (taking.base.0, &taking.base.1);
        let name = workspace_name(id, "directory");
        let workspace: WorkspaceId =
            self.fork_with(id, &name, project, onto, &chain, arriving, &also)?;
        let merged = self.merges.run_requested(&completion, &workspace)?;
        self.settled_source(project.key, taking.cause)?;
        Ok(merged)
    }

    /// What was last taken, after looking at what became of the last merge. One that did not come to its
    /// end is done now.
    fn settled_source(&self, key: WorkspaceKey, cause: &Cause) -> Result<Option<DirectorySource>> {
        let (known, waits) = self.store().read(|tx| {
            let known = source_in(tx, key)?;
            let Some(pending) = known.as_ref().and_then(|known| known.pending.as_ref()) else {
                return Ok((known, None));
            };
            let row = tx.workspace_by_key(WorkspaceKey(pending.workspace))?;
            let is_open = |row: &WorkspaceRow| row.state == WorkspaceState::Open;
            let is_merged = is_merged(tx, pending)?;
            Ok((known, row.filter(is_open).filter(|_| !is_merged)))
        })?;
        let Some(mut known) = known else {
            return Ok(None);
        };
        let Some(pending) = known.pending.take() else {
            return Ok(Some(known));
        };
        if let Some(row) = waits {
            let options = merge_options(pending.taken, DEFAULT_LABEL);
            self.merges.complete(&row.id, &options, cause)?;
        }
        self.store().write(Durability::Synced, |tx| {
            // A workspace that somebody removed before it was merged brought nothing.
            let noted = match is_merged(tx, &pending)? {
                true => DirectorySource {
                    taken: pending.taken,
                    sidecar: pending.sidecar,
                    ..known.clone()
                },
                false => known.clone(),
            };
            put_source(tx, key, &noted)?;
            Ok(Some(noted))
        })
    }

    /// The newest snapshot of a project, and whether it is another one than before.
    fn newest_snapshot(
        &self,
        id: &ProjectId,
        before: Option<ObjectId>,
    ) -> Result<(Snapshot, bool)> {
        let row = self.store().read(|tx| {
            let project = open_project(tx, id)?;
            let head = project.head.map(|head| tx.snapshot(project.key, &head));
            Ok(head.transpose()?.flatten())
        })?;
        let row = row.ok_or_else(|| {
            Error::invalid("nothing of the directory has landed yet")
                .with_hint("`offshoot review list` shows what waits")
        })?;
        let created = Some(row.id) != before;
        Ok((row.into(), created))
    }
}

/// Whether what a directory held was merged, or waits for decisions.
fn is_merged(tx: &dyn ReadTx, pending: &PendingDirectory) -> Result<bool> {
    let merge = tx.last_merge(WorkspaceKey(pending.workspace))?;
    Ok(merge.is_some_and(|merge| merge.theirs == pending.taken))
}

fn merge_options(commit: ObjectId, label: &str) -> CompleteOptions {
    CompleteOptions {
        label: Some(label.to_owned()),
        push: Some(PushedCommit {
            commit,
            // Only somebody who may read the host takes a directory in.
            over_protected: true,
            all_or_nothing: false,
        }),
        ..CompleteOptions::default()
    }
}

/// The directory that a project took files from last.
fn known_place(id: &ProjectId, known: Option<&DirectorySource>) -> Result<PathBuf> {
    let directory = known.and_then(|known| known.directory.as_deref());
    directory.map(PathBuf::from).ok_or_else(|| {
        Error::invalid(format!(
            "the project `{id}` knows no directory to take changes from"
        ))
        .with_hint(format!("name one: `offshoot project sync {id} DIR`"))
    })
}

fn put_objects(tx: &mut dyn WriteTx, made: &[NewObject]) -> Result<()> {
    for object in made {
        tx.put_object(object)?;
    }
    Ok(())
}

fn edits_that_put(entries: &BTreeMap<RelPath, DiskEntry>) -> StateEdits {
    let put = |(path, entry): (&RelPath, &DiskEntry)| {
        let edit = StateEdit::Put(entry_of(entry));
        (path.clone(), edit)
    };
    entries.iter().map(put).collect()
}

#[derive(Clone, Copy, Default)]
struct SyncCounts {
    /// Files and links that are the same.
    same: u64,
    /// Files and links that are gone.
    removed: u64,
}

/// What has to be done to a state so that it is what a directory holds.
fn edits_to(
    objects: &dyn ObjectReader,
    before: &State,
    tree: &SourceTree,
) -> Result<(StateEdits, SyncCounts)> {
    let mut edits = edits_that_put(&tree.entries);
    let mut counts = SyncCounts::default();
    // The last path that made room for something else, or went: all below it went with it.
    let mut gone: Option<RelPath> = None;
    let mut old = BTreeMap::new();
    before.walk(objects, &RelPath::root(), &mut |path, entry| {
        old.insert(path.clone(), *entry);
        Ok(())
    })?;
    let unread = unread(tree);
    let keeps = |path: &RelPath| {
        let above = path.ancestors();
        unread.contains(path) || above.iter().any(|dir| unread.contains(dir))
    };
    for (path, entry) in &old {
        let is_dir = entry.kind == EntryKind::Dir;
        let went_along = gone.as_ref().is_some_and(|above| path.starts_with(above));
        let new = tree.entries.get(path).map(entry_of);
        if new.is_none() && !unread.is_empty() && keeps(path) {
            continue;
        }
        match new {
            Some(new) if new == *entry => {
                edits.remove(path);
                counts.same += u64::from(!is_dir);
            }
            Some(new) if is_dir != (new.kind == EntryKind::Dir) => {
                counts.removed += u64::from(!is_dir);
                edits.insert(path.clone(), StateEdit::Replace(new));
                gone = Some(path.clone());
            }
            Some(_) => {}
            None => {
                counts.removed += u64::from(!is_dir);
                if !went_along {
                    edits.insert(path.clone(), StateEdit::Remove);
                    gone = Some(path.clone());
                }
            }
        }
    }
    Ok((edits, counts))
}

/// Paths that could not be read, or that kept changing: what the project has there stays.
fn unread(tree: &SourceTree) -> HashSet<&RelPath> {
    let dropped = tree.dropped.iter().map(|(path, _)| path);
    dropped.chain(&tree.unsettled).collect()
}
