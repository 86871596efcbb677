//! Projects from a local git repository: its commits become snapshots, and ids stay git's.
//!
//! The history of a project is linear, so the chain of first parents from `HEAD` down is what
//! becomes snapshots. Whatever else these commits reach is stored too, and so are the other branches
//! and the tags with what they reach: an export gives back all of it. Only what is committed is
//! imported, never the work tree.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use offshoot_core::{
    Cause, EMPTY_TREE, Error, ErrorCode, GitMode, MAX_DEPTH, ObjectId, ObjectKind, ProjectId,
    RelPath, Result, Timestamp, cancel, escape_bytes,
};
use offshoot_git::{
    Commit, GitRepository, Head, MAX_TAG_DEPTH, ObjectReader, Tree, check_ref_name, read_object,
    tag_target,
};
use offshoot_store::{BulkWriter, Landing, SnapshotRow, WorkspaceKey, WorkspaceRow, WriteTx};

use crate::context::idempotency::ExtraWrite;
use crate::project::Projects;
use crate::project::import::{
    ImportProgress, ImportStage, Imported, NewProject, newest_of, refuse_taken,
};
use crate::project::import_refs::{GitSource, read_refs};
use crate::project::source::{put_source, source_of};

/// Larger objects get a blob of their own instead of a place in a pack.
const LARGEST_IN_PACK: usize = 1 << 20;
/// The longest label, in characters; a first line can be very long.
const LONGEST_LABEL: usize = 1_000;
/// Progress is reported after so many objects.
const TELL_EVERY: u64 = 256;

/// What a tree holds, all the way down.
#[derive(Clone, Copy, Default)]
struct Totals {
    files: i64,
    dirs: i64,
    bytes: i64,
    /// Commits of other repositories.
    submodules: i64,
    /// Levels below it.
    depth: usize,
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.files += other.files;
        self.dirs += other.dirs;
        self.bytes += other.bytes;
        self.submodules += other.submodules;
        self.depth = self.depth.max(other.depth);
    }
}

impl Projects {
    /// Creates a project with the history of a local git repository: the first parents of `HEAD`
    /// become its snapshots. A shallow repository is taken as far as it goes. Commits of other
    /// repositories (submodules) are empty directories.
    ///
    /// Costs the reading of every object that a branch or tag reaches, once, and writing the base
    /// layer.
    pub fn import_git(
        &self,
        id: &ProjectId,
        source: &Path,
        progress: &mut dyn FnMut(ImportProgress),
        cause: &Cause,
    ) -> Result<Imported> {
        self.import_git_and(id, source, progress, None, cause)
    }

    /// Like [`import_git`](Self::import_git), for a clone that will be gone: where it was is not
    /// remembered.
    pub fn import_clone(
        &self,
        id: &ProjectId,
        clone: &Path,
        progress: &mut dyn FnMut(ImportProgress),
        cause: &Cause,
    ) -> Result<Imported> {
        self.import_head(id, (clone, false), progress, None, cause)
    }

    /// Like [`import_git`](Self::import_git); `also` writes further rows in the transaction that
    /// makes the project.
    pub(crate) fn import_git_and(
        &self,
        id: &ProjectId,
        source: &Path,
        progress: &mut dyn FnMut(ImportProgress),
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<Imported> {
        self.import_head(id, (source, true), progress, also, cause)
    }

    /// Imports what is checked out. The project remembers where the repository is if it `stays`.
    fn import_head(
        &self,
        id: &ProjectId,
        (source, stays): (&Path, bool),
        progress: &mut dyn FnMut(ImportProgress),
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<Imported> {
        self.store().read(|tx| refuse_taken(tx, id))?;
        let place = self.source_place(source)?;
        let repository = GitRepository::open(&place)?;
        let (head, branch) = head_commit(&repository)?;
        let from = GitSource {
            repository: &repository,
            place: stays.then_some(place.as_path()),
            head,
            branch,
            without: None,
        };
        self.import_commit(id, from, progress, also, cause)
    }

    /// Like [`import_git_and`](Self::import_git_and), from a commit of an opened repository.
    pub(crate) fn import_commit(
        &self,
        id: &ProjectId,
        from: GitSource<'_>,
        progress: &mut dyn FnMut(ImportProgress),
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<Imported> {
        self.context.require_space()?;
        self.store().read(|tx| refuse_taken(tx, id))?;
        self.directories.probe_providers_early();
        let bulk = self.store().bulk();
        let mut reading = RepositoryReader::new(self, from.repository, &bulk, progress);
        let cut = from.repository.shallow()?;
        let chain = reading.history(from.head, &cut)?;
        let snapshots = reading.snapshots(&chain, cause)?;
        let submodules = reading.submodules(&chain)?;
        let refs = read_refs(&mut reading, &from, &cut)?;
        drop(reading);
        let bulk = bulk.finish()?;
        let newest = newest_of(&snapshots)?.clone();
        // Ignored files are no part of what was taken.
        let noted = source_of(from.place, true, &newest);
        let remember = |tx: &mut dyn WriteTx, row: &WorkspaceRow| {
            put_source(tx, row.key, &noted)?;
            also.map_or(Ok(()), |also| also(tx, row))
        };
        let new = NewProject {
            id,
            landing: Landing::Atomic,
            protect: &crate::project::protection::FROM_GIT,
            branch: from.branch.as_deref(),
            refs: &refs.rows,
            bulk: &bulk,
            objects: &[],
            snapshots,
            cause,
            at: self.context.now(),
            also: Some(&remember),
        };
        let row = self.land_new_project(&new)?;
        let snapshots = new.snapshots;
        drop(bulk);
        let mut imported = self.show_new_project(&row, &snapshots, progress)?;
        let why = "submodule, taken as an empty directory";
        imported.dropped = submodules
            .into_iter()
            .map(|path| (path, why.to_owned()))
            .collect();
        imported.refs_left_out = refs.left_out;
        Ok(imported)
    }
}

/// The commit that is checked out, and the whole name of its branch, if it is on one.
fn head_commit(repository: &GitRepository) -> Result<(ObjectId, Option<String>)> {
    match repository.head()? {
        Head::Detached(id) => Ok((id, None)),
        Head::Branch(name) => match repository.refs()?.get(&name) {
            Some(id) => Ok((*id, Some(name).filter(|name| check_ref_name(name).is_ok()))),
            None => Err(Error::invalid(
                "the repository has no commit on the branch that is checked out",
            )
            .with_hint("commit something, or check out a branch that has commits")),
        },
    }
}

/// Reads every object once and hands it to the bulk writer.
pub(crate) struct RepositoryReader<'a> {
    projects: &'a Projects,
    repository: &'a dyn ObjectReader,
    bulk: &'a BulkWriter,
    progress: &'a mut dyn FnMut(ImportProgress),
    done: u64,
    /// Sizes of the blobs that were read.
    pub(crate) blobs: HashMap<ObjectId, i64>,
    /// Totals of the trees that were read.
    trees: HashMap<ObjectId, Totals>,
    /// Commits that were read with all that they reach.
    commits: HashSet<ObjectId>,
}

/// A tree that is being read, and how far.
struct OpenTree {
    id: ObjectId,
    tree: Tree,
    next: usize,
    totals: Totals,
}

impl<'a> RepositoryReader<'a> {
    pub(crate) fn new(
        projects: &'a Projects,
        repository: &'a dyn ObjectReader,
        bulk: &'a BulkWriter,
        progress: &'a mut dyn FnMut(ImportProgress),
    ) -> Self {
        RepositoryReader {
            projects,
            repository,
            bulk,
            progress,
            done: 0,
            blobs: HashMap::new(),
            trees: HashMap::new(),
            commits: HashSet::new(),
        }
    }

    /// Reads these objects, which have in them all that is new. The rules are those of an import.
    pub(crate) fn objects(&mut self, ids: &[ObjectId]) -> Result<()> {
        for id in ids {
            cancel::check()?;
            if self.take_large(id)? {
                continue;
            }
            let (kind, bytes) = self.take(id)?;
            match kind {
                ObjectKind::Tree => check_entries(&Tree::parse(bytes)?)?,
                ObjectKind::Blob => drop(self.blobs.insert(*id, bytes.len() as i64)),
                ObjectKind::Commit => drop(Commit::parse(&bytes)?),
                ObjectKind::Tag => drop(tag_target(&bytes)?),
            }
        }
        Ok(())
    }

    /// Reads all that a commit reaches. Returns the chain of first parents, the newest first.
    fn history(
        &mut self,
        head: ObjectId,
        cut: &HashSet<ObjectId>,
    ) -> Result<Vec<(ObjectId, Commit)>> {
        let mut chain = Vec::new();
        let mut expected = Some(head);
        let mut seen = HashSet::new();
        // The first parents first, so that they come in their order.
        let mut next = vec![head];
        while let Some(id) = next.pop() {
            if self.commits.contains(&id) || !seen.insert(id) {
                continue;
            }
            let commit = self.commit(&id)?;
            if !cut.contains(&id) {
                next.extend(commit.parents.iter().rev());
            }
            if expected == Some(id) {
                let parent = commit.parents.first().copied();
                expected = parent.filter(|_| !cut.contains(&id));
                chain.push((id, commit));
            }
        }
        // Only now: a history that cannot be read to its end must not pass for one that was.
        self.commits.extend(seen);
        Ok(chain)
    }

    /// Reads a commit with what it holds.
    fn commit(&mut self, id: &ObjectId) -> Result<Commit> {
        let (kind, bytes) = self.take(id)?;
        if kind != ObjectKind::Commit {
            return Err(broken(&format!("`{id}` should be a commit")));
        }
        let commit = Commit::parse(&bytes)?;
        self.tree(commit.tree)?;
        Ok(commit)
    }

    /// Reads all that a ref reaches. Returns what its tags lead to.
    pub(crate) fn target(&mut self, id: ObjectId, cut: &HashSet<ObjectId>) -> Result<ObjectId> {
        let mut at = id;
        for _ in 0..MAX_TAG_DEPTH {
            if self.commits.contains(&at) {
                return Ok(at);
            }
            let (kind, bytes) = self.take(&at)?;
            match kind {
                ObjectKind::Tag => at = tag_target(&bytes)?,
                ObjectKind::Commit => return self.history(at, cut).map(|_| at),
                ObjectKind::Tree => return self.tree(at).map(|()| at),
                ObjectKind::Blob => return self.blob(&at).map(|_| at),
            }
        }
        Err(broken("a tag leads to no end"))
    }

    /// Reads a tree with all below it.
    fn tree(&mut self, root: ObjectId) -> Result<()> {
        if self.trees.contains_key(&root) {
            return Ok(());
        }
        // An explicit stack: a path may have two thousand parts, which is too deep for recursion.
        let mut open = vec![self.open_tree(root)?];
        while let Some(top) = open.last_mut() {
            let Some(entry) = top.tree.at(top.next) else {
                let (id, totals) = (top.id, top.totals);
                self.trees.insert(id, totals);
                open.pop();
                continue;
            };
            check_name(entry.name)?;
            let mut add = Totals::default();
            match entry.git_mode() {
                None => return Err(unknown_mode()),
                Some(GitMode::Commit) => (add.dirs, add.submodules, add.depth) = (1, 1, 1),
                Some(GitMode::Dir) => match self.trees.get(&entry.id) {
                    Some(totals) => {
                        add = *totals;
                        add.dirs += 1;
                        add.depth += 1;
                    }
                    None => {
                        let below = self.open_tree(entry.id)?;
                        open.push(below);
                        continue;
                    }
                },
                Some(_) => (add.files, add.bytes, add.depth) = (1, self.blob(&entry.id)?, 1),
            }
            if add.depth > MAX_DEPTH {
                return Err(too_deep());
            }
            top.totals.add(add);
            top.next += 1;
        }
        Ok(())
    }

    fn open_tree(&mut self, id: ObjectId) -> Result<OpenTree> {
        let (kind, bytes) = self.take(&id)?;
        if kind != ObjectKind::Tree {
            return Err(broken(&format!("`{id}` should be a tree")));
        }
        Ok(OpenTree {
            id,
            tree: Tree::parse(bytes)?,
            next: 0,
            totals: Totals::default(),
        })
    }

    /// The size of a blob, which is read if it was not yet.
    fn blob(&mut self, id: &ObjectId) -> Result<i64> {
        if let Some(size) = self.blobs.get(id) {
            return Ok(*size);
        }
        let (kind, bytes) = self.take(id)?;
        if kind != ObjectKind::Blob {
            return Err(broken(&format!("`{id}` should be a blob")));
        }
        self.blobs.insert(*id, bytes.len() as i64);
        Ok(bytes.len() as i64)
    }

    /// Stores a file that is too large for memory, piece by piece. Returns whether it is one.
    fn take_large(&mut self, id: &ObjectId) -> Result<bool> {
        let Some(mut stream) = self.repository.open(id)? else {
            return Ok(false);
        };
        if stream.kind != ObjectKind::Blob || stream.size <= LARGEST_IN_PACK as u64 {
            return Ok(false);
        }
        let store = self.projects.store();
        let stored = store.prepare_stream(stream.kind, *id, stream.size, &mut stream.content)?;
        self.bulk.add_prepared(stored);
        self.blobs.insert(*id, stream.size as i64);
        Ok(true)
    }

    /// Reads one object and stores it.
    fn take(&mut self, id: &ObjectId) -> Result<(ObjectKind, Arc<[u8]>)> {
        let found = if *id == EMPTY_TREE {
            // git knows it without having it.
            (ObjectKind::Tree, Arc::from([]))
        } else {
            read_object(self.repository, id)
                .map_err(|error| broken(&format!("`{id}` cannot be read")).with_source(error))?
        };
        let (kind, bytes) = &found;
        if bytes.len() > LARGEST_IN_PACK {
            let stored = self.projects.store().prepare(*kind, *id, bytes)?;
            self.bulk.add_prepared(stored);
        } else {
            self.bulk.add(*kind, *id, bytes)?;
        }
        self.done += 1;
        if self.done.is_multiple_of(TELL_EVERY) {
            (self.progress)(ImportProgress {
                stage: ImportStage::Reading,
                done: self.done,
                total: 0,
            });
        }
        Ok(found)
    }

    /// The rows of a chain of commits, the oldest first.
    fn snapshots(&self, chain: &[(ObjectId, Commit)], cause: &Cause) -> Result<Vec<SnapshotRow>> {
        let mut rows = Vec::with_capacity(chain.len());
        for (id, commit) in chain.iter().rev() {
            let totals = self.trees.get(&commit.tree);
            let totals = totals.ok_or_else(|| Error::internal("a tree was not read"))?;
            let author = String::from_utf8_lossy(commit.author.name()).into_owned();
            rows.push(SnapshotRow {
                workspace: WorkspaceKey(0),
                number: rows.len() as i64 + 1,
                id: *id,
                parent: commit.parents.first().copied(),
                tree: commit.tree,
                // What an export of ours could not show to git did not come along.
                sidecar: EMPTY_TREE,
                label: label(&commit.message),
                at: Timestamp::from_stat(commit.committer.seconds().max(0), 0),
                cause: Cause {
                    claim: Some(author).filter(|name| !name.is_empty()),
                    ..cause.clone()
                },
                files: totals.files,
                dirs: totals.dirs,
                bytes: totals.bytes,
            });
        }
        Ok(rows)
    }

    /// Where the newest commit has commits of other repositories.
    fn submodules(&self, chain: &[(ObjectId, Commit)]) -> Result<Vec<RelPath>> {
        let mut found = Vec::new();
        let Some((_, head)) = chain.first() else {
            return Ok(found);
        };
        // Nearly nobody has any, and then nothing has to be read again.
        let totals = self.trees.get(&head.tree);
        if totals.is_some_and(|totals| totals.submodules > 0) {
            offshoot_git::walk(self.repository, head.tree, |path, entry| {
                if entry.git_mode() == Some(GitMode::Commit) {
                    found.push(path);
                }
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// Refuses a tree that an import would refuse.
fn check_entries(tree: &Tree) -> Result<()> {
    for entry in tree.iter() {
        check_name(entry.name)?;
        if entry.git_mode().is_none() {
            return Err(unknown_mode());
        }
    }
    Ok(())
}

fn unknown_mode() -> Error {
    broken("a tree has a mode that git does not know")
}

/// The first line of a message.
pub(crate) fn label(message: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(message);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let shown = line.chars().filter(|c| !c.is_control());
    Some(shown.take(LONGEST_LABEL).collect())
}

/// Names that mean something else to us, or to git, than a file of that name.
fn check_name(name: &[u8]) -> Result<()> {
    if name == b"." || name == b".." || name.eq_ignore_ascii_case(b".git") {
        let name = escape_bytes(name);
        return Err(broken(&format!("a tree holds the name `{name}`")));
    }
    Ok(())
}

/// A commit says what is in it, so nothing can be left out as in an import of a directory.
fn too_deep() -> Error {
    Error::invalid(format!(
        "the git repository holds a path of more than {MAX_DEPTH} levels"
    ))
    .with_hint("nothing was imported; import its working tree with the part that is less deep")
}

pub(crate) fn broken(what: &str) -> Error {
    Error::new(
        ErrorCode::InvalidRequest,
        format!("the git repository is damaged: {what}"),
    )
    .with_hint("`git fsck` in it says more; nothing was imported")
}
