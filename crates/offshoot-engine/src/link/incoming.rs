//! What is new in a repository: which commits, and what they bring.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use offshoot_core::{Error, ErrorCode, GitMode, ObjectId, ObjectKind, Result};
use offshoot_git::{
    Commit, CommitGraph, Divergence, FetchRequest, GitRepository, ObjectReader, ObjectStream,
    git_mode, read_commit,
};
use offshoot_store::Bulk;

use crate::content::objects::StoredObjects;
use crate::link::Links;
use crate::project::advance::CommitChain;
use crate::project::import::ImportProgress;
use crate::project::import_git::{RepositoryReader, broken};

/// The most trees in the cache. A full cache is emptied.
const MAX_CACHED: usize = 4096;

/// Objects of the store and, beside them, of where commits come from: a repository, or a pack that
/// was pushed.
pub(crate) struct BothObjects<'a> {
    stored: StoredObjects<'a>,
    source: &'a dyn ObjectReader,
    /// Trees are read again and again where paths are looked up.
    trees: Mutex<HashMap<ObjectId, Arc<[u8]>>>,
}

impl<'a> BothObjects<'a> {
    pub(crate) fn new(stored: StoredObjects<'a>, source: &'a dyn ObjectReader) -> Self {
        BothObjects {
            stored,
            source,
            trees: Mutex::default(),
        }
    }
}

impl ObjectReader for BothObjects<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        let cached = |trees: &Mutex<HashMap<_, Arc<[u8]>>>| {
            let trees = trees.lock().unwrap_or_else(PoisonError::into_inner);
            trees.get(id).cloned()
        };
        if let Some(tree) = cached(&self.trees) {
            return Ok(Some((ObjectKind::Tree, tree)));
        }
        let found = match self.stored.read(id)? {
            Some(found) => Some(found),
            None => self.source.read(id)?,
        };
        if let Some((ObjectKind::Tree, bytes)) = &found {
            let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
            if trees.len() >= MAX_CACHED {
                trees.clear();
            }
            trees.insert(*id, Arc::clone(bytes));
        }
        Ok(found)
    }

    fn open(&self, id: &ObjectId) -> Result<Option<ObjectStream>> {
        match self.stored.open(id)? {
            Some(found) => Ok(Some(found)),
            None => self.source.open(id),
        }
    }
}

/// How the newest commit of a branch stands to the head of a project.
pub(crate) struct Comparison {
    pub(crate) divergence: Divergence,
    /// Whether the commit that was taken last is not in its history any more.
    pub(crate) rewritten: bool,
}

/// Compares what the project has (the one side) with what the repository has (the other).
pub(crate) fn compare(
    objects: &dyn ObjectReader,
    head: ObjectId,
    tip: ObjectId,
    taken: ObjectId,
) -> Result<Comparison> {
    let mut graph = CommitGraph::new(objects);
    Ok(Comparison {
        divergence: graph.divergence(head, tip)?,
        rewritten: !graph.is_ancestor(taken, tip)?,
    })
}

/// The commits from one up to another by first parents, without the first; none if it is not among
/// them. The oldest comes first.
fn chain_between(
    objects: &dyn ObjectReader,
    from: ObjectId,
    to: ObjectId,
    longest: usize,
) -> Result<Option<CommitChain>> {
    let mut chain = Vec::new();
    let mut next = Some(to);
    while let Some(id) = next {
        if id == from {
            chain.reverse();
            return Ok(Some(chain));
        }
        if chain.len() > longest {
            break;
        }
        let commit = read_commit(objects, &id)?;
        next = commit.parents.first().copied();
        // The beginning of a history that is cut off.
        if let Some(parent) = next
            && objects.read(&parent)?.is_none()
        {
            next = None;
        }
        chain.push((id, commit));
    }
    Ok(None)
}

/// The commits up to a tip, or the tip alone if it comes from somewhere else: where a person merged
/// the project with git, that merge alone comes next.
pub(crate) fn chain_or_tip(
    objects: &dyn ObjectReader,
    from: ObjectId,
    tip: ObjectId,
    compared: &Comparison,
) -> Result<CommitChain> {
    match chain_between(objects, from, tip, compared.divergence.other)? {
        Some(chain) => Ok(chain),
        None => Ok(vec![(tip, read_commit(objects, &tip)?)]),
    }
}

/// Refuses commits that change which commit of another repository (a submodule) stands somewhere:
/// such an entry is an empty directory here, and a merge would put the old commit back.
pub(crate) fn refuse_moved_submodules(
    objects: &dyn ObjectReader,
    base: &Commit,
    tip: &Commit,
) -> Result<()> {
    let mut moved = Vec::new();
    offshoot_git::diff(objects, base.tree, tip.tree, |path, before, after| {
        let sides = [before, after];
        let is_submodule = |mode: u32| git_mode(mode) == Some(GitMode::Commit);
        if sides.iter().flatten().any(|one| is_submodule(one.mode)) {
            moved.push(path.to_text());
        }
        Ok(())
    })?;
    if moved.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::Unsupported,
        "both sides have new commits, and those of the repository change submodules",
    )
    .with_hint(
        "`offshoot push`, merge the branch in the repository with git, and pull then: that needs no \
         merge here",
    )
    .with_details(serde_json::json!({ "submodules": moved })))
}

/// New objects that are durable and that no row names yet, and the sizes of the files among them.
pub(crate) struct Fetched {
    pub(crate) bulk: Bulk,
    pub(crate) sizes: HashMap<ObjectId, i64>,
}

impl Links {
    /// Stores what these reach and the project does not have.
    pub(crate) fn fetch_objects(
        &self,
        repository: &GitRepository,
        objects: &BothObjects<'_>,
        tips: Vec<ObjectId>,
        known: &[ObjectId],
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<Fetched> {
        let plan = CommitGraph::new(objects).plan(&FetchRequest {
            wants: tips,
            common: known.to_vec(),
            ..FetchRequest::default()
        })?;
        let cut: HashSet<ObjectId> = repository.shallow()?;
        if let Some(lone) = plan.shallow.iter().find(|id| !cut.contains(id)) {
            return Err(broken(&format!("a parent of `{lone}` is missing")));
        }
        self.store_objects(objects, &plan.objects, progress)
    }

    /// Stores these objects. Nothing names them yet.
    pub(crate) fn store_objects(
        &self,
        objects: &dyn ObjectReader,
        ids: &[ObjectId],
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<Fetched> {
        let bulk = self.store().bulk();
        let mut reading = RepositoryReader::new(&self.projects, objects, &bulk, progress);
        reading.objects(ids)?;
        let sizes = std::mem::take(&mut reading.blobs);
        drop(reading);
        Ok(Fetched {
            bulk: bulk.finish()?,
            sizes,
        })
    }
}
