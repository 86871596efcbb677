//! A state: all files of a workspace or snapshot, as a git tree and a sidecar tree.
//!
//! The *tree* is exactly what git could check out. The *sidecar* is a second, sparse tree in the
//! same format, never shown to git, that holds what git cannot:
//!
//! | in the sidecar | means |
//! |---|---|
//! | `d/.` with mode `0o100000 + perm` | the directory `d` exists with these permission bits although git's tree would not say so: it holds nothing that git tracks, or its bits are unusual |
//! | `f` with mode `0o100000 + perm` | the file `f` of the tree has unusual permission bits |
//! | a file or link that the tree does not have | one that git refuses, with its content: of a nested repository, or a `.gitmodules` that `git fsck` complains of |
//!
//! Because both are trees, equal parts are shared between snapshots and every operation costs what
//! it changes. The encoding is canonical: equal directories give equal ids.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use offshoot_core::{
    DEFAULT_DIR_PERM, EMPTY_BLOB, EMPTY_TREE, EXEC_FILE_PERM, EntryKind, Error, GitMode, ObjectId,
    PLAIN_FILE_PERM, RelPath, Result,
};
use offshoot_git::{Edit, ObjectReader, TreeEntry};

use crate::content::inherited::{InheritedFlag, add_dirs_above};
use crate::content::objects::PendingObjects;

const FILE_TYPE: u32 = 0o100_000;
const TYPE_MASK: u32 = 0o170_000;
const PERM_MASK: u32 = 0o7777;

/// What stands at one path of a state.
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
    /// What stood there.
    pub before: Option<StateEntry>,
    /// What stands there.
    pub after: Option<StateEntry>,
}

/// What to do at one path of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateEdit {
    /// Removes it with everything below.
    Remove,
    /// Puts this there. A directory over a directory keeps what is in it.
    Put(StateEntry),
    /// Removes what is there with everything below, then puts this there.
    Replace(StateEntry),
}

impl StateEdit {
    fn removes(&self) -> bool {
        matches!(self, StateEdit::Remove | StateEdit::Replace(_))
    }

    /// Whether nothing stays of what was below the path.
    pub(crate) fn hides(&self) -> bool {
        let leaf = |entry: &StateEntry| entry.kind != EntryKind::Dir;
        self.removes() || self.puts().is_some_and(leaf)
    }

    /// What stands there afterwards; none if nothing does.
    pub(crate) fn kind_after(&self) -> Option<EntryKind> {
        self.puts().map(|entry| entry.kind)
    }

    /// The content that stands there afterwards.
    pub(crate) fn content_after(&self) -> Option<ObjectId> {
        self.puts()?.id
    }

    pub(crate) fn puts(&self) -> Option<&StateEntry> {
        match self {
            StateEdit::Remove => None,
            StateEdit::Put(entry) | StateEdit::Replace(entry) => Some(entry),
        }
    }
}

/// Edits by path. What is done at `a` is done before what is done at `a/b`.
pub(crate) type StateEdits = BTreeMap<RelPath, StateEdit>;

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

/// Why git refuses a file or link, by its path or by what it holds. Content that cannot be read yet
/// is taken for harmless.
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

/// The directory that a nested repository is in, for a path of one. Ignore rules do not reach into
/// a repository, but an ignored directory is ignored with the repositories in it.
pub(crate) fn dir_of_nested_git(path: &RelPath) -> Option<RelPath> {
    let at = path.parts().position(offshoot_git::is_dot_git)?;
    path.ancestors().into_iter().nth(at)
}

impl State {
    /// What stands at `path`; the root is always a directory.
    pub fn entry(&self, objects: &dyn ObjectReader, path: &RelPath) -> Result<Option<StateEntry>> {
        if path.is_root() {
            return Ok(Some(StateEntry::dir(DEFAULT_DIR_PERM)));
        }
        let side = offshoot_git::lookup(objects, self.sidecar, path)?;
        let main = offshoot_git::lookup(objects, self.tree, path)?;
        self.combine(objects, path, main, side)
    }

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

    /// What stands at `path`, and the part of the state below it, if this is the part of the
    /// directory that it is in. To go down a path so costs a look into each directory, and not one
    /// into all above it for each.
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

    /// The first directory above a path that is none here; nothing can be put below it.
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

    /// What is directly in `dir`, by name. Empty if there is no such directory.
    pub fn children(
        &self,
        objects: &dyn ObjectReader,
        dir: &RelPath,
    ) -> Result<BTreeMap<Vec<u8>, StateEntry>> {
        let listed = self.at(objects, dir)?.list(objects, dir)?.into_iter();
        Ok(listed.map(|(name, (entry, _))| (name, entry)).collect())
    }

    /// What is directly in `dir`, of which this is the part, each with the part below it.
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

    /// Applies edits and gives the state after them.
    ///
    /// Parents need not be named. A directory that loses its last entry stays; remove those that
    /// must go by name.
    pub(crate) fn edit(&self, bench: &mut PendingObjects<'_>, edits: &StateEdits) -> Result<State> {
        let mut main = BTreeMap::new();
        let mut side = BTreeMap::new();
        // Directories whose marker may have to come or go, with the bits they are given.
        let mut touched: BTreeMap<RelPath, Option<u32>> = BTreeMap::new();
        for (path, edit) in edits {
            // Where one is known, those above it are.
            let mut next = path.parent().filter(|dir| !dir.is_root());
            while let Some(dir) = next.filter(|dir| !touched.contains_key(dir)) {
                next = dir.parent().filter(|dir| !dir.is_root());
                touched.insert(dir, None);
            }
            if edit.removes() {
                main.insert(path.clone(), Edit::Remove);
                side.insert(path.clone(), Edit::Remove);
            }
            match edit.puts() {
                Some(entry) if entry.kind == EntryKind::Dir => {
                    touched.insert(path.clone(), Some(entry.perm));
                    // Whatever is no directory has to make room.
                    if self
                        .entry(bench, path)?
                        .is_some_and(|old| old.kind != EntryKind::Dir)
                    {
                        main.insert(path.clone(), Edit::Remove);
                        side.insert(path.clone(), Edit::Remove);
                    }
                }
                Some(entry) => {
                    let refused = refused_by_git(bench, path, entry)?.is_some();
                    put_leaf(path, entry, refused, &mut main, &mut side);
                }
                None => {}
            }
        }
        let tree = bench.edit_tree(self.tree, &main)?;
        self.update_dir_markers(bench, tree, edits, touched, &mut side)?;
        let sidecar = bench.edit_tree(self.sidecar, &side)?;
        Ok(State { tree, sidecar })
    }

    /// Decides for every touched directory whether it needs a marker in the sidecar.
    fn update_dir_markers(
        &self,
        objects: &dyn ObjectReader,
        new_tree: ObjectId,
        edits: &StateEdits,
        touched: BTreeMap<RelPath, Option<u32>>,
        side: &mut BTreeMap<RelPath, Edit>,
    ) -> Result<()> {
        let hidden = InheritedFlag::default();
        for (dir, given) in touched {
            let became_a_leaf = edits
                .get(&dir)
                .and_then(StateEdit::puts)
                .is_some_and(|entry| entry.kind != EntryKind::Dir);
            if became_a_leaf {
                continue;
            }
            // A leaf above takes the directory with it, whatever else is removed below that leaf.
            let hides = |path: &RelPath| Ok(edits.get(path).is_some_and(StateEdit::hides));
            let old = if hidden.holds(&dir, hides)? {
                None
            } else {
                self.entry(objects, &dir)?
                    .filter(|entry| entry.kind == EntryKind::Dir)
            };
            if given.is_none() && old.is_none() && !puts_below(edits, &dir) {
                continue;
            }
            let perm = given
                .or(old.map(|entry| entry.perm))
                .unwrap_or(DEFAULT_DIR_PERM);
            let in_tree =
                offshoot_git::lookup(objects, new_tree, &dir)?.is_some_and(|entry| entry.is_dir());
            let marker = if in_tree && perm == DEFAULT_DIR_PERM {
                Edit::Remove
            } else {
                Edit::Put {
                    mode: FILE_TYPE | perm,
                    id: EMPTY_BLOB,
                }
            };
            side.insert(dir.dir_marker(), marker);
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
            // A marker speaks of its directory.
            let path = if path.name() == b"." {
                path.parent().unwrap_or_default()
            } else {
                path
            };
            // Where one is known, those above it are.
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
        // A path that is a directory on one side only has to be looked at as well.
        changes_at(
            candidates,
            |path| self.entry(objects, path),
            |path| other.entry(objects, path),
        )
    }

    /// What differs from `self` to `base` with these edits, as [`State::edit`] and [`State::diff`]
    /// together would say, without a tree being built for it.
    pub(crate) fn diff_edited(
        &self,
        objects: &dyn ObjectReader,
        base: &State,
        edits: &StateEdits,
    ) -> Result<Vec<StateChange>> {
        if edits.is_empty() {
            return self.diff(objects, base, &RelPath::root());
        }
        let mut candidates = base.paths_affected_by(objects, edits)?;
        for change in self.diff(objects, base, &RelPath::root())? {
            candidates.insert(change.path);
        }
        let hidden = InheritedFlag::default();
        changes_at(
            candidates,
            |path| self.entry(objects, path),
            |path| base.entry_edited(objects, edits, &hidden, path),
        )
    }

    /// Every path at which edits may change this state.
    pub(crate) fn paths_affected_by(
        &self,
        objects: &dyn ObjectReader,
        edits: &StateEdits,
    ) -> Result<BTreeSet<RelPath>> {
        let mut reached = BTreeSet::new();
        for (path, edit) in edits {
            add_dirs_above(&mut reached, path);
            if edit.hides() {
                self.walk(objects, path, &mut |below, _| {
                    reached.insert(below.clone());
                    Ok(())
                })?;
            }
            reached.insert(path.clone());
        }
        Ok(reached)
    }

    /// What stands at `path` after these edits.
    fn entry_edited(
        &self,
        objects: &dyn ObjectReader,
        edits: &StateEdits,
        hidden: &InheritedFlag,
        path: &RelPath,
    ) -> Result<Option<StateEntry>> {
        let edit = edits.get(path);
        if let Some(entry) = edit.and_then(StateEdit::puts) {
            return Ok(Some(*entry));
        }
        let hides = |dir: &RelPath| Ok(edits.get(dir).is_some_and(StateEdit::hides));
        let above = path.parent().unwrap_or_default();
        let old = match edit.is_some() || hidden.holds(&above, hides)? {
            true => None,
            false => self.entry(objects, path)?,
        };
        // Whatever is put somewhere has directories above it.
        let is_dir = |entry: &StateEntry| entry.kind == EntryKind::Dir;
        if !old.as_ref().is_some_and(is_dir) && puts_below(edits, path) {
            return Ok(Some(StateEntry::dir(DEFAULT_DIR_PERM)));
        }
        Ok(old)
    }
}

/// What differs at these paths.
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

/// Whether an edit puts something somewhere below `dir`.
fn puts_below(edits: &StateEdits, dir: &RelPath) -> bool {
    let first = dir.join_name(b"\0");
    edits
        .range(first..)
        .take_while(|(path, _)| path.starts_with(dir))
        .any(|(_, edit)| edit.puts().is_some())
}

fn put_leaf(
    path: &RelPath,
    entry: &StateEntry,
    refused_by_git: bool,
    main: &mut BTreeMap<RelPath, Edit>,
    side: &mut BTreeMap<RelPath, Edit>,
) {
    let id = entry.id.unwrap_or(EMPTY_BLOB);
    if refused_by_git {
        let mode = match entry.kind {
            EntryKind::Symlink => GitMode::Symlink as u32,
            _ => FILE_TYPE | entry.perm,
        };
        main.insert(path.clone(), Edit::Remove);
        side.insert(path.clone(), Edit::Put { mode, id });
        return;
    }
    let mode = GitMode::of(entry.kind, entry.perm);
    main.insert(
        path.clone(),
        Edit::Put {
            mode: mode as u32,
            id,
        },
    );
    let usual =
        entry.kind == EntryKind::Symlink || [PLAIN_FILE_PERM, EXEC_FILE_PERM].contains(&entry.perm);
    let unusual = Edit::Put {
        mode: FILE_TYPE | entry.perm,
        id: EMPTY_BLOB,
    };
    side.insert(path.clone(), if usual { Edit::Remove } else { unusual });
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
