//! Walking a tree: its leaves in the order of their paths, or every object it reaches.

use std::collections::HashSet;

use offshoot_core::{EMPTY_TREE, Error, GitMode, MAX_PATH, ObjectId, RelPath, Result};

use crate::object::{Kind, ObjectReader};
use crate::tree::{EntryRef, Tree, git_mode, read_tree};

/// Whether the entry of a directory holds metadata: that it is empty, or its permission bits. Such
/// entries exist only in sidecar trees.
pub(crate) fn has_own_metadata(entry: &EntryRef<'_>) -> bool {
    entry.is_dir() && (entry.id == EMPTY_TREE || entry.mode != GitMode::Dir as u32)
}

/// The path of a name below a directory, given as bytes; an error when it is too long to exist.
pub(crate) fn path_below(dir: &[u8], name: &[u8]) -> Result<Vec<u8>> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    if path.len() > MAX_PATH {
        return Err(Error::invalid(format!(
            "a path in a tree has more than {MAX_PATH} bytes, which no file system takes"
        )));
    }
    Ok(path)
}

/// Visits every leaf (file, link, submodule) in the order of the paths.
///
/// In sidecar trees, a directory that is empty or has unusual permission bits is visited too,
/// right before what is below it. An error of the visitor ends the walk.
pub fn walk(
    reader: &dyn ObjectReader,
    root: ObjectId,
    mut visit: impl FnMut(RelPath, EntryRef<'_>) -> Result<()>,
) -> Result<()> {
    walk_below(reader, Vec::new(), root, &mut visit)
}

/// The walk of a subtree whose path is already known.
pub(crate) fn walk_below(
    reader: &dyn ObjectReader,
    dir: Vec<u8>,
    tree: ObjectId,
    visit: &mut dyn FnMut(RelPath, EntryRef<'_>) -> Result<()>,
) -> Result<()> {
    // An explicit stack: a path may have two thousand parts, which is too deep for recursion.
    let mut stack: Vec<(Vec<u8>, Tree, usize)> = vec![(dir, read_tree(reader, &tree)?, 0)];
    while let Some((dir, tree, next)) = stack.last_mut() {
        let Some(entry) = tree.at(*next) else {
            stack.pop();
            continue;
        };
        *next += 1;
        let path = path_below(dir, entry.name)?;
        let subtree = entry.is_dir().then_some(entry.id);
        if subtree.is_none() || has_own_metadata(&entry) {
            visit(RelPath::from_normal(path.clone()), entry)?;
        }
        if let Some(id) = subtree {
            stack.push((path, read_tree(reader, &id)?, 0));
        }
    }
    Ok(())
}

/// Visits every object that a tree reaches (trees first, submodules left out) and that is not
/// in `seen`, and adds it there. What is in `seen` already is not entered again.
pub fn walk_objects(
    reader: &dyn ObjectReader,
    root: ObjectId,
    seen: &mut HashSet<ObjectId>,
    mut visit: impl FnMut(Kind, ObjectId) -> Result<()>,
) -> Result<()> {
    if !seen.insert(root) {
        return Ok(());
    }
    let mut trees = vec![root];
    while let Some(id) = trees.pop() {
        visit(Kind::Tree, id)?;
        for entry in read_tree(reader, &id)?.iter() {
            if git_mode(entry.mode) == Some(GitMode::Commit) || !seen.insert(entry.id) {
                continue;
            }
            if entry.is_dir() {
                trees.push(entry.id);
            } else {
                visit(Kind::Blob, entry.id)?;
            }
        }
    }
    Ok(())
}
