//! Editing a state: the trees after a set of edits, and what differs after them without building trees.

use std::collections::{BTreeMap, BTreeSet};

use offshoot_core::{
    DEFAULT_DIR_PERM, EMPTY_BLOB, EXEC_FILE_PERM, EntryKind, GitMode, ObjectId, PLAIN_FILE_PERM,
    RelPath, Result,
};
use offshoot_git::{Edit, ObjectReader};

use super::{FILE_TYPE, State, StateChange, StateEntry, changes_at, refused_by_git};
use crate::content::inherited::{InheritedFlag, add_dirs_above};
use crate::content::objects::PendingObjects;

/// An edit of one path of a state.
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

    /// Whether everything below the path is removed.
    pub(crate) fn hides(&self) -> bool {
        let leaf = |entry: &StateEntry| entry.kind != EntryKind::Dir;
        self.removes() || self.puts().is_some_and(leaf)
    }

    /// The kind of the entry after the edit; none if there is none.
    pub(crate) fn kind_after(&self) -> Option<EntryKind> {
        self.puts().map(|entry| entry.kind)
    }

    /// The content after the edit.
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

/// Edits by path. An edit of `a` is applied before an edit of `a/b`.
pub(crate) type StateEdits = BTreeMap<RelPath, StateEdit>;

impl State {
    /// The state after these edits.
    ///
    /// Missing parents are made. A directory that loses its last entry stays unless an edit removes it.
    pub(crate) fn edit(
        &self,
        new_objects: &mut PendingObjects<'_>,
        edits: &StateEdits,
    ) -> Result<State> {
        let mut main = BTreeMap::new();
        let mut side = BTreeMap::new();
        // Directories whose marker may change, with the permission bits that an edit gives them.
        let mut touched: BTreeMap<RelPath, Option<u32>> = BTreeMap::new();
        for (path, edit) in edits {
            // If a directory is in the map, so are its ancestors.
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
                    // A file or link in the way is removed.
                    if self
                        .entry(new_objects, path)?
                        .is_some_and(|old| old.kind != EntryKind::Dir)
                    {
                        main.insert(path.clone(), Edit::Remove);
                        side.insert(path.clone(), Edit::Remove);
                    }
                }
                Some(entry) => {
                    let refused = refused_by_git(new_objects, path, entry)?.is_some();
                    put_leaf(path, entry, refused, &mut main, &mut side);
                }
                None => {}
            }
        }
        let tree = new_objects.edit_tree(self.tree, &main)?;
        self.update_dir_markers(new_objects, tree, edits, touched, &mut side)?;
        let sidecar = new_objects.edit_tree(self.sidecar, &side)?;
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
            // A file or link that is put above the directory removes it.
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

    /// What differs from `self` to `base` after these edits. The result is that of [`State::edit`] and
    /// [`State::diff`], but no tree is built.
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

    /// Every path at which these edits may change this state.
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

    /// The entry at `path` after these edits.
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
        // An edit that puts something below `path` makes `path` a directory.
        let is_dir = |entry: &StateEntry| entry.kind == EntryKind::Dir;
        if !old.as_ref().is_some_and(is_dir) && puts_below(edits, path) {
            return Ok(Some(StateEntry::dir(DEFAULT_DIR_PERM)));
        }
        Ok(old)
    }
}

/// Whether an edit puts something below `dir`.
fn puts_below(edits: &StateEdits, dir: &RelPath) -> bool {
    let first = dir.join_name(b"\0");
    edits
        .range(first..)
        .take_while(|(path, _)| path.starts_with(dir))
        .any(|(_, edit)| edit.puts().is_some())
}

/// Adds the edits of both trees that put a file or link.
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
