//! Editing a tree: only the directories that an edit touches are read and written anew.

use std::collections::BTreeMap;

use offshoot_core::{EMPTY_TREE, Error, GitMode, ObjectId, RelPath, Result};

use crate::object::{Kind, ObjectReader, ObjectSink, hash};
use crate::tree::{EntryRef, Tree, compare_entries, encode_tree, is_dir_mode, read_tree};

/// What to do at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Puts this there, instead of whatever there is.
    Put {
        /// The raw mode.
        mode: u32,
        /// The blob, or the tree for a mode of a directory.
        id: ObjectId,
    },
    /// Removes what is there, with all below; nothing happens when nothing is there.
    Remove,
}

/// What becomes of a directory without entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyDirs {
    /// It vanishes from its parent, as in git.
    Vanish,
    /// It stays, as in sidecar trees.
    Keep,
}

/// A directory that an edit touches.
struct Dir<'a> {
    /// What was there before, or was put there by an edit of the directory itself.
    tree: Tree,
    /// Its mode in the parent, and its id before; none when no directory was there.
    was: Option<(u32, ObjectId)>,
    /// What changes in it: the new mode and id, or none for what goes.
    changes: BTreeMap<&'a [u8], Option<(u32, ObjectId)>>,
}

/// Applies edits to the tree `root` and returns the new root.
///
/// Shallow edits come first: what is put or removed at `a` is there before the edit at `a/b`
/// happens. An edit that puts something below a file replaces the file by a directory. Trees
/// that did not exist before are written to the sink; each touched tree is read once.
///
/// Costs edits × depth, plus the width of each touched tree once.
pub fn edit(
    reader: &dyn ObjectReader,
    root: ObjectId,
    edits: &BTreeMap<RelPath, Edit>,
    empty_dirs: EmptyDirs,
    sink: &mut dyn ObjectSink,
) -> Result<ObjectId> {
    let root = match edits.get(&RelPath::root()) {
        None => root,
        Some(Edit::Remove) => EMPTY_TREE,
        Some(Edit::Put { mode, id }) if is_dir_mode(*mode) => *id,
        Some(Edit::Put { .. }) => {
            return Err(Error::invalid("the root of a tree can only be a directory"));
        }
    };
    let mut dirs = touched_dirs(edits, empty_dirs);
    if dirs.is_empty() {
        return Ok(root);
    }
    load(reader, root, &mut dirs)?;
    store(dirs, root, empty_dirs, sink)
}

/// The directories that hold an edited path, and all above them, with the edits grouped by
/// directory. In the order of the map a directory comes before everything below it.
fn touched_dirs(
    edits: &BTreeMap<RelPath, Edit>,
    empty_dirs: EmptyDirs,
) -> BTreeMap<&[u8], Dir<'_>> {
    let new_dir = || Dir {
        tree: Tree::empty(),
        was: None,
        changes: BTreeMap::new(),
    };
    let mut dirs: BTreeMap<&[u8], Dir<'_>> = BTreeMap::new();
    for (path, edit) in edits.iter().filter(|(path, _)| !path.is_root()) {
        let change = match *edit {
            Edit::Put { mode, id }
                if is_dir_mode(mode) && id == EMPTY_TREE && empty_dirs == EmptyDirs::Vanish =>
            {
                None
            }
            Edit::Put { mode, id } => Some((mode, id)),
            Edit::Remove => None,
        };
        let (mut above, name) = split_path(path.as_bytes());
        dirs.entry(above)
            .or_insert_with(new_dir)
            .changes
            .insert(name, change);
        while !above.is_empty() {
            above = split_path(above).0;
            if dirs.contains_key(above) {
                break;
            }
            dirs.insert(above, new_dir());
        }
    }
    dirs
}

/// The directory and the name of a path.
fn split_path(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// Reads each touched directory from where its parent says it is, parents first.
fn load(
    reader: &dyn ObjectReader,
    root: ObjectId,
    dirs: &mut BTreeMap<&[u8], Dir<'_>>,
) -> Result<()> {
    let order: Vec<&[u8]> = dirs.keys().copied().collect();
    for path in order {
        let was = if path.is_empty() {
            Some((GitMode::Dir as u32, root))
        } else {
            let (above, name) = split_path(path);
            dirs.get(above)
                .and_then(|parent| match parent.changes.get(name) {
                    Some(change) => *change,
                    None => parent.tree.get(name).map(|entry| (entry.mode, entry.id)),
                })
        };
        let was = was.filter(|(mode, _)| is_dir_mode(*mode));
        if let (Some((_, id)), Some(dir)) = (was, dirs.get_mut(path)) {
            dir.was = was;
            dir.tree = read_tree(reader, &id)?;
        }
    }
    Ok(())
}

/// Writes each touched directory and updates its parent, children first. Returns the new root.
fn store<'a>(
    mut dirs: BTreeMap<&'a [u8], Dir<'a>>,
    root: ObjectId,
    empty_dirs: EmptyDirs,
    sink: &mut dyn ObjectSink,
) -> Result<ObjectId> {
    let mut new_root = root;
    while let Some((path, dir)) = dirs.pop_last() {
        let Some(outcome) = store_dir(&dir, empty_dirs, sink)? else {
            continue;
        };
        if path.is_empty() {
            new_root = outcome.map_or(EMPTY_TREE, |(_, id)| id);
        } else {
            let (above, name) = split_path(path);
            if let Some(parent) = dirs.get_mut(above) {
                parent.changes.insert(name, outcome);
            }
        }
    }
    Ok(new_root)
}

/// Writes one directory. Returns what its parent shall hold, or none to leave the parent alone.
fn store_dir(
    dir: &Dir<'_>,
    empty_dirs: EmptyDirs,
    sink: &mut dyn ObjectSink,
) -> Result<Option<Option<(u32, ObjectId)>>> {
    let kept = dir
        .tree
        .iter()
        .filter(|entry| !dir.changes.contains_key(entry.name));
    let put = dir
        .changes
        .iter()
        .filter_map(|(name, change)| change.map(|(mode, id)| EntryRef { name, mode, id }));
    let mut entries: Vec<EntryRef<'_>> = kept.chain(put).collect();
    let Some((mode, old_id)) = dir
        .was
        .or_else(|| (!entries.is_empty()).then_some((GitMode::Dir as u32, EMPTY_TREE)))
    else {
        // Only removals below something that is no directory: it stays as it is.
        return Ok(None);
    };
    if entries.is_empty() && empty_dirs == EmptyDirs::Vanish {
        return Ok(Some(None));
    }
    entries.sort_by(compare_entries);
    let bytes = encode_tree(entries);
    let id = hash(Kind::Tree, &bytes)?;
    if id == old_id && dir.was.is_some() {
        return Ok(None);
    }
    sink.write(Kind::Tree, id, bytes)?;
    Ok(Some(Some((mode, id))))
}
