//! What differs between two trees, leaf by leaf. Equal subtrees are never read.

use std::cmp::Ordering;

use offshoot_core::{EMPTY_TREE, ObjectId, RelPath, Result};

use crate::object::ObjectReader;
use crate::tree::{EntryRef, Tree, compare_entries, lookup, read_tree};
use crate::tree_walk::{has_own_metadata, path_below};

/// Called with a path, what `a` has there and what `b` has there.
type Visit<'v> = dyn FnMut(RelPath, Option<EntryRef<'_>>, Option<EntryRef<'_>>) -> Result<()> + 'v;

/// Visits every leaf (file, link, submodule) that differs between the trees `a` and `b`, in the
/// order of the paths, as `git diff-tree -r` does.
///
/// A directory against a file gives the file on the one side and every leaf of the directory on
/// the other. In sidecar trees, a directory that is empty or has unusual permission bits is
/// visited when that differs, right before what is below it. An error of the visitor ends it.
///
/// Costs the trees that differ, whatever the size of the rest.
pub fn diff(
    reader: &dyn ObjectReader,
    a: ObjectId,
    b: ObjectId,
    mut visit: impl FnMut(RelPath, Option<EntryRef<'_>>, Option<EntryRef<'_>>) -> Result<()>,
) -> Result<()> {
    diff_trees(reader, Vec::new(), a, b, &mut visit)
}

/// Like [`diff`], for `below` and what is under it only. The paths are still those of the root.
pub fn diff_below(
    reader: &dyn ObjectReader,
    a: ObjectId,
    b: ObjectId,
    below: &RelPath,
    mut visit: impl FnMut(RelPath, Option<EntryRef<'_>>, Option<EntryRef<'_>>) -> Result<()>,
) -> Result<()> {
    if below.is_root() {
        return diff_trees(reader, Vec::new(), a, b, &mut visit);
    }
    let (a, b) = (lookup(reader, a, below)?, lookup(reader, b, below)?);
    let (a, b) = (
        a.as_ref().map(|entry| entry.as_ref()),
        b.as_ref().map(|entry| entry.as_ref()),
    );
    if a == b {
        return Ok(());
    }
    let (file_a, file_b) = (a.filter(|e| !e.is_dir()), b.filter(|e| !e.is_dir()));
    if file_a.is_some() || file_b.is_some() {
        visit(below.clone(), file_a, file_b)?;
    }
    let (dir_a, dir_b) = (a.filter(EntryRef::is_dir), b.filter(EntryRef::is_dir));
    if dir_a.is_none() && dir_b.is_none() {
        return Ok(());
    }
    visit_dirs(below.as_bytes(), dir_a, dir_b, &mut visit)?;
    let id = |dir: Option<EntryRef<'_>>| dir.map_or(EMPTY_TREE, |dir| dir.id);
    diff_trees(
        reader,
        below.as_bytes().to_vec(),
        id(dir_a),
        id(dir_b),
        &mut visit,
    )
}

/// A pair of directories of the same path, and how far each was compared.
struct Pair {
    path: Vec<u8>,
    a: Tree,
    b: Tree,
    next_a: usize,
    next_b: usize,
}

impl Pair {
    fn read(reader: &dyn ObjectReader, path: Vec<u8>, a: ObjectId, b: ObjectId) -> Result<Self> {
        let (a, b) = (read_tree(reader, &a)?, read_tree(reader, &b)?);
        Ok(Pair {
            path,
            a,
            b,
            next_a: 0,
            next_b: 0,
        })
    }

    /// The next entry of either side, or of both when they stand at the same place in git's
    /// order. A file and a directory of the same name do not.
    fn next(&mut self) -> Option<(Option<EntryRef<'_>>, Option<EntryRef<'_>>)> {
        let (a, b) = (self.a.at(self.next_a), self.b.at(self.next_b));
        let order = match (&a, &b) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => compare_entries(a, b),
        };
        self.next_a += usize::from(order != Ordering::Greater);
        self.next_b += usize::from(order != Ordering::Less);
        Some((
            a.filter(|_| order != Ordering::Greater),
            b.filter(|_| order != Ordering::Less),
        ))
    }
}

fn diff_trees(
    reader: &dyn ObjectReader,
    path: Vec<u8>,
    a: ObjectId,
    b: ObjectId,
    visit: &mut Visit<'_>,
) -> Result<()> {
    if a == b {
        return Ok(());
    }
    // An explicit stack: a path may have two thousand parts, which is too deep for recursion.
    let mut stack = vec![Pair::read(reader, path, a, b)?];
    while let Some(pair) = stack.last_mut() {
        let dir = std::mem::take(&mut pair.path);
        let mut below = None;
        let step = pair.next();
        let done = step.is_none();
        if let Some((a, b)) = step.filter(|(a, b)| a != b) {
            let name = a.or(b).map_or(&[][..], |entry| entry.name);
            let path = path_below(&dir, name)?;
            if a.or(b).is_some_and(|entry| entry.is_dir()) {
                visit_dirs(&path, a, b, visit)?;
                let id = |entry: Option<EntryRef<'_>>| entry.map_or(EMPTY_TREE, |entry| entry.id);
                below = Some((path, id(a), id(b))).filter(|(_, a, b)| a != b);
            } else {
                visit(RelPath::from_normal(path), a, b)?;
            }
        }
        pair.path = dir;
        if done {
            stack.pop();
        }
        if let Some((path, a, b)) = below {
            stack.push(Pair::read(reader, path, a, b)?);
        }
    }
    Ok(())
}

/// Visits a directory itself when its metadata differs.
fn visit_dirs(
    path: &[u8],
    a: Option<EntryRef<'_>>,
    b: Option<EntryRef<'_>>,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let (a, b) = (a.filter(has_own_metadata), b.filter(has_own_metadata));
    let said = |dir: Option<EntryRef<'_>>| dir.map(|dir| (dir.mode, dir.id == EMPTY_TREE));
    if said(a) == said(b) {
        return Ok(());
    }
    visit(RelPath::from_normal(path), a, b)
}
