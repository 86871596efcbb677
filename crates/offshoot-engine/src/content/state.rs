//! A state: all files of a workspace or snapshot, as a git tree and a sidecar tree.
//!
//! The *tree* is exactly what git could check out. The *sidecar* is a second, sparse tree in the
//! same format, never shown to git, that holds what git cannot represent:
//!
//! | in the sidecar | means |
//! |---|---|
//! | `d/.` with mode `0o100000 + perm` | the directory `d` exists with these permission bits although git's tree would not say so: it holds nothing that git tracks, or its bits are unusual |
//! | `f` with mode `0o100000 + perm` | the file `f` of the tree has unusual permission bits |
//! | a file or link that the tree does not have | one that git refuses, with its content: of a nested repository, or a `.gitmodules` that `git fsck` complains of |
//!
//! Both are trees, so equal parts are shared between snapshots, and the cost of an operation follows
//! the change. The encoding is canonical: equal directories have equal ids.

mod edit;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use offshoot_core::{
    DEFAULT_DIR_PERM, EMPTY_TREE, EntryKind, Error, GitMode, ObjectId, RelPath, Result,
};
use offshoot_git::{ObjectReader, TreeEntry};

pub(crate) use edit::{StateEdit, StateEdits};

/// The type bits of a regular file in a git mode.
const FILE_TYPE: u32 = 0o100_000;
const TYPE_MASK: u32 = 0o170_000;
const PERM_MASK: u32 = 0o7777;

/// The entry at one path of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateEntry {
    /// What it is.
    pub kind: EntryKind,
    /// Its permission bits; always `0o777` for links.
    pub perm: u32,
    /// The content of a file or link.
    pub id: Option<ObjectId>,
}

impl StateEntry {
    /// A directory with these permission bits.
    pub fn dir(perm: u32) -> Self {
        StateEntry {
            kind: EntryKind::Dir,
            perm,
            id: None,
        }
    }
}

/// One path that differs between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Where.
    pub path: RelPath,
    /// The entry before.
    pub before: Option<StateEntry>,
    /// The entry after.
    pub after: Option<StateEntry>,
}

/// All files of a workspace or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// What git can hold.
    pub tree: ObjectId,
    /// What git cannot hold.
    pub sidecar: ObjectId,
}

impl Default for State {
    fn default() -> Self {
        State {
            tree: EMPTY_TREE,
            sidecar: EMPTY_TREE,
        }
    }
}

/// Whether this path is at or below what git, on some platform, takes for a `.git` of its own.
pub(crate) fn belongs_to_nested_git(path: &RelPath) -> bool {
    path.parts().any(offshoot_git::is_dot_git)
}

/// Why git refuses a file or link, by its path or by its content. Content that is not stored yet is
/// not checked.
pub(crate) fn refused_by_git(
    objects: &dyn ObjectReader,
    path: &RelPath,
    entry: &StateEntry,
) -> Result<Option<(RelPath, &'static str)>> {
    if let Some(refused) = offshoot_git::refuses_path(path, entry.kind) {
        return Ok(Some(refused));
    }
    let Some(id) = entry.id.filter(|_| {
        entry.kind == EntryKind::File && offshoot_git::has_rules_for_content(path.name())
    }) else {
        return Ok(None);
    };
    let content = objects.read(&id)?;
    let why = content.and_then(|(_, bytes)| offshoot_git::refuses_content(path.name(), &bytes));
    Ok(why.map(|why| (path.clone(), why)))
}

/// The directory that contains the nested `.git` of this path. Ignore rules do not apply inside a
/// `.git`, but an ignored directory is ignored with the repositories in it.
pub(crate) fn dir_of_nested_git(path: &RelPath) -> Option<RelPath> {
    let at = path.parts().position(offshoot_git::is_dot_git)?;
    path.ancestors().into_iter().nth(at)
}

impl State {
    /// The entry at `path`; the root is always a directory.
    pub fn entry(&self, objects: &dyn ObjectReader, path: &RelPath) -> Result<Option<StateEntry>> {
        if path.is_root() {
            return Ok(Some(StateEntry::dir(DEFAULT_DIR_PERM)));
        }
        let side = offshoot_git::lookup(objects, self.sidecar, path)?;
        let main = offshoot_git::lookup(objects, self.tree, path)?;
        self.combine(objects, path, main, side)
    }

    /// The entry that a path has by its entries in the tree and the sidecar.
    fn combine(
        &self,
        objects: &dyn ObjectReader,
        path: &RelPath,
        main: Option<TreeEntry>,
        side: Option<TreeEntry>,
    ) -> Result<Option<StateEntry>> {
        let side_is_dir = side.as_ref().is_some_and(TreeEntry::is_dir);
        if side_is_dir || main.as_ref().is_some_and(TreeEntry::is_dir) {
            let marker = match &side {
                Some(entry) if entry.is_dir() => dir_marker_of(objects, entry.id)?,
                _ => None,
            };
            return Ok(Some(StateEntry::dir(marker.unwrap_or(DEFAULT_DIR_PERM))));
        }
        let Some(main) = main else {
            return Ok(side.map(|entry| content_entry(entry.mode, entry.id)));
        };
        let Some(mode) = main.git_mode() else {
            return Err(Error::internal(format!(
                "`{path}` has a mode that git does not know"
            )));
        };
        let perm = match side {
            Some(side) if mode.kind() == EntryKind::File => side.mode & PERM_MASK,
            _ => mode.perm(),
        };
        let id = (mode != GitMode::Commit).then_some(main.id);
        Ok(Some(StateEntry {
            kind: mode.kind(),
            perm,
            id,
        }))
    }

    /// The part of this state that is below `dir`; the empty one if there is no such directory.
    pub(crate) fn at(&self, objects: &dyn ObjectReader, dir: &RelPath) -> Result<State> {
        let part = |root| Ok(objects.subtree(root, dir)?.unwrap_or(EMPTY_TREE));
        Ok(State {
            tree: part(self.tree)?,
            sidecar: part(self.sidecar)?,
        })
    }

    /// The entry at `path` and the part of the state below it, where `self` is the part of its parent
    /// directory. Walking down a path in steps reads each directory once.
    pub(crate) fn step(
        &self,
        objects: &dyn ObjectReader,
        path: &RelPath,
    ) -> Result<(Option<StateEntry>, State)> {
        let find = |tree: ObjectId| match tree == EMPTY_TREE {
            true => Ok(None),
            false => objects.find(&tree, path.name()),
        };
        self.step_to(objects, path, find(self.tree)?, find(self.sidecar)?)
    }

    fn step_to(
        &self,
        objects: &dyn ObjectReader,
        path: &RelPath,
        main: Option<TreeEntry>,
        side: Option<TreeEntry>,
    ) -> Result<(Option<StateEntry>, State)> {
        let part = |entry: &Option<TreeEntry>| {
            let dir = entry.as_ref().filter(|entry| entry.is_dir());
            dir.map_or(EMPTY_TREE, |entry| entry.id)
        };
        let below = State {
            tree: part(&main),
            sidecar: part(&side),
        };
        Ok((self.combine(objects, path, main, side)?, below))
    }

    /// The first ancestor of a path that is a file or link, below which nothing can be put.
    pub(crate) fn leaf_above(
        &self,
        objects: &dyn ObjectReader,
        path: &RelPath,
    ) -> Result<Option<RelPath>> {
        let mut part = *self;
        for above in path.dirs_above() {
            let (entry, below) = part.step(objects, &above)?;
            match entry {
                Some(entry) if entry.kind != EntryKind::Dir => return Ok(Some(above)),
                Some(_) => part = below,
                None => break,
            }
        }
        Ok(None)
    }

    /// The entries of `dir` by name; empty if there is no such directory.
    pub fn children(
        &self,
        objects: &dyn ObjectReader,
        dir: &RelPath,
    ) -> Result<BTreeMap<Vec<u8>, StateEntry>> {
        let listed = self.at(objects, dir)?.list(objects, dir)?.into_iter();
        Ok(listed.map(|(name, (entry, _))| (name, entry)).collect())
    }

    /// The entries of `dir` by name, each with the part of the state below it, where `self` is the part
    /// of `dir`.
    pub(crate) fn list(
        &self,
        objects: &dyn ObjectReader,
        dir: &RelPath,
    ) -> Result<BTreeMap<Vec<u8>, (StateEntry, State)>> {
        let mut main = tree_entries(objects, self.tree)?;
        let mut side = tree_entries(objects, self.sidecar)?;
        side.remove(&b"."[..]);
        let names: BTreeSet<Vec<u8>> = main.keys().chain(side.keys()).cloned().collect();
        let mut children = BTreeMap::new();
        for name in names {
            let path = dir.join_name(&name);
            let (main, side) = (main.remove(&name), side.remove(&name));
            let (entry, below) = self.step_to(objects, &path, main, side)?;
            if let Some(entry) = entry {
                children.insert(name, (entry, below));
            }
        }
        Ok(children)
    }

    /// Calls `visit` with everything below `dir`, directories before what is in them.
    pub fn walk(
        &self,
        objects: &dyn ObjectReader,
        dir: &RelPath,
        visit: &mut dyn FnMut(&RelPath, &StateEntry) -> Result<()>,
    ) -> Result<()> {
        let mut open = vec![(dir.clone(), self.at(objects, dir)?)];
        while let Some((dir, part)) = open.pop() {
            let mut below = Vec::new();
            for (name, (entry, part)) in part.list(objects, &dir)? {
                let path = dir.join_name(&name);
                visit(&path, &entry)?;
                if entry.kind == EntryKind::Dir {
                    below.push((path, part));
                }
            }
            open.extend(below.into_iter().rev());
        }
        Ok(())
    }

    /// What differs from `self` to `other`, directories included, in the order of paths; only at
    /// and below `below`.
    pub fn diff(
        &self,
        objects: &dyn ObjectReader,
        other: &State,
        below: &RelPath,
    ) -> Result<Vec<StateChange>> {
        let mut candidates: BTreeSet<RelPath> = BTreeSet::new();
        let mut note = |path: RelPath| {
            // A marker stands for its directory.
            let path = if path.name() == b"." {
                path.parent().unwrap_or_default()
            } else {
                path
            };
            // If a path is in the set, so are its ancestors.
            let mut next = Some(path).filter(|path| path.starts_with(below));
            while let Some(path) = next.filter(|path| !path.is_root()) {
                next = path.parent().filter(|above| above.starts_with(below));
                if !candidates.insert(path) {
                    break;
                }
            }
        };
        for (old, new) in [(self.tree, other.tree), (self.sidecar, other.sidecar)] {
            offshoot_git::diff_below(objects, old, new, below, |path, _, _| {
                note(path);
                Ok(())
            })?;
        }
        changes_at(
            candidates,
            |path| self.entry(objects, path),
            |path| other.entry(objects, path),
        )
    }
}

/// The paths among these at which two states differ.
fn changes_at(
    paths: BTreeSet<RelPath>,
    before: impl Fn(&RelPath) -> Result<Option<StateEntry>>,
    after: impl Fn(&RelPath) -> Result<Option<StateEntry>>,
) -> Result<Vec<StateChange>> {
    let mut changes = Vec::new();
    for path in paths {
        let (before, after) = (before(&path)?, after(&path)?);
        if before != after {
            changes.push(StateChange {
                path,
                before,
                after,
            });
        }
    }
    Ok(changes)
}

fn content_entry(mode: u32, id: ObjectId) -> StateEntry {
    if mode & TYPE_MASK == GitMode::Symlink as u32 {
        StateEntry {
            kind: EntryKind::Symlink,
            perm: 0o777,
            id: Some(id),
        }
    } else {
        StateEntry {
            kind: EntryKind::File,
            perm: mode & PERM_MASK,
            id: Some(id),
        }
    }
}

fn tree_entries(
    objects: &dyn ObjectReader,
    tree: ObjectId,
) -> Result<BTreeMap<Vec<u8>, TreeEntry>> {
    if tree == EMPTY_TREE {
        return Ok(BTreeMap::new());
    }
    let tree = offshoot_git::read_tree(objects, &tree)?;
    Ok(tree
        .iter()
        .map(|entry| (entry.name.to_vec(), entry.to_owned()))
        .collect())
}

/// The permission bits that the marker in a sidecar directory gives, if it has one.
fn dir_marker_of(objects: &dyn ObjectReader, sidecar_dir: ObjectId) -> Result<Option<u32>> {
    let tree = offshoot_git::read_tree(objects, &sidecar_dir)?;
    Ok(tree.get(b".").map(|marker| marker.mode & PERM_MASK))
}
