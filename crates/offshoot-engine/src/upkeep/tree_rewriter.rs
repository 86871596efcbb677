//! Trees and commits with a placeholder in the stead of purged content. New objects are made in a
//! workbench; nothing is stored here.

use std::collections::{BTreeSet, HashMap, HashSet};

use offshoot_core::{EMPTY_TREE, ObjectId, ObjectKind, Result};
use offshoot_git::{Commit, ObjectReader, encode_tree, read_tree, walk_objects};

use crate::content::objects::PendingObjects;

/// Trees with a placeholder in the stead of purged content.
pub(super) struct TreeRewriter<'a> {
    contents: &'a HashSet<ObjectId>,
    placeholder: ObjectId,
    /// Trees that were looked at, and what became of them.
    trees: HashMap<ObjectId, ObjectId>,
    /// Commits that were looked at, and what became of them.
    commits: HashMap<ObjectId, ObjectId>,
}

impl<'a> TreeRewriter<'a> {
    pub(super) fn new(contents: &'a HashSet<ObjectId>, placeholder: ObjectId) -> Self {
        TreeRewriter {
            contents,
            placeholder,
            trees: HashMap::new(),
            commits: HashMap::new(),
        }
    }

    /// Commits that became others.
    pub(super) fn renamed(&self) -> Vec<(ObjectId, ObjectId)> {
        let changed = self.commits.iter().filter(|(old, new)| old != new);
        let mut pairs: Vec<_> = changed.map(|(old, new)| (*old, *new)).collect();
        pairs.sort();
        pairs
    }

    /// A commit with all that it comes from: an imported history has more parents than snapshots.
    /// What is not there, as in a shallow history, stays a name.
    pub(super) fn commit(
        &mut self,
        bench: &mut PendingObjects<'_>,
        tip: ObjectId,
    ) -> Result<ObjectId> {
        let mut stack = vec![(tip, false)];
        while let Some((id, parents_done)) = stack.pop() {
            if self.commits.contains_key(&id) {
                continue;
            }
            let Some((_, bytes)) = bench.read(&id)? else {
                self.commits.insert(id, id);
                continue;
            };
            let mut commit = Commit::parse(&bytes)?;
            if !parents_done {
                stack.push((id, true));
                stack.extend(commit.parents.iter().map(|parent| (*parent, false)));
                continue;
            }
            let sidecar = commit.sidecar().unwrap_or(EMPTY_TREE);
            // A commit that came from elsewhere may name anything there, also what is no tree or
            // never came with it.
            let kind = bench.open(&sidecar)?.map(|stream| stream.kind);
            let new_sidecar = match kind {
                Some(ObjectKind::Tree) => self.tree(bench, sidecar)?,
                _ => sidecar,
            };
            let tree = self.tree(bench, commit.tree)?;
            let new = |parent: &ObjectId| self.commits.get(parent).copied().unwrap_or(*parent);
            let parents: Vec<ObjectId> = commit.parents.iter().map(new).collect();
            let same = (tree, new_sidecar) == (commit.tree, sidecar) && parents == commit.parents;
            let new_id = if same {
                id
            } else {
                commit.tree = tree;
                commit.parents = parents;
                commit.set_sidecar((new_sidecar != EMPTY_TREE).then_some(new_sidecar));
                bench.add(ObjectKind::Commit, commit.encode()?)?
            };
            self.commits.insert(id, new_id);
        }
        Ok(self.commits.get(&tip).copied().unwrap_or(tip))
    }

    pub(super) fn tree(
        &mut self,
        bench: &mut PendingObjects<'_>,
        root: ObjectId,
    ) -> Result<ObjectId> {
        if let Some(known) = self.trees.get(&root) {
            return Ok(*known);
        }
        // Every tree below, each after those it names.
        let mut order = Vec::new();
        let mut seen: HashSet<ObjectId> = HashSet::new();
        let mut trees = BTreeSet::new();
        walk_objects(&*bench, root, &mut seen, |kind, id| {
            if kind == ObjectKind::Tree && trees.insert(id) {
                order.push(id);
            }
            Ok(())
        })?;
        // A tree is visited after the one that named it first, but perhaps before another that
        // names it: going through them until nothing changes is right in any order.
        loop {
            let mut settled = true;
            for id in order.iter().rev() {
                let new = self.one(bench, *id)?;
                if self.trees.insert(*id, new) != Some(new) {
                    settled = false;
                }
            }
            if settled {
                break;
            }
        }
        Ok(self.trees.get(&root).copied().unwrap_or(root))
    }

    fn one(&self, bench: &mut PendingObjects<'_>, id: ObjectId) -> Result<ObjectId> {
        let tree = read_tree(&*bench, &id)?;
        let mut changed = false;
        let entries: Vec<_> = tree
            .iter()
            .map(|mut entry| {
                let new = if entry.is_dir() {
                    self.trees.get(&entry.id).copied().unwrap_or(entry.id)
                } else if self.contents.contains(&entry.id) {
                    self.placeholder
                } else {
                    entry.id
                };
                changed |= new != entry.id;
                entry.id = new;
                entry
            })
            .collect();
        if !changed {
            return Ok(id);
        }
        let bytes = encode_tree(entries);
        bench.add(ObjectKind::Tree, bytes)
    }
}
