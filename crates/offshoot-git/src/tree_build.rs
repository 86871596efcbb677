//! Building a whole tree from sorted leaves in one pass.

use std::cmp::Ordering;

use offshoot_core::{EMPTY_TREE, Error, GitMode, ObjectId, RelPath, Result};

use crate::object::{Kind, ObjectSink, write_object};
use crate::tree::{TreeEntry, compare_entries, encode_tree, is_dir_mode};

/// Takes leaves in the order of their paths and writes each tree as soon as it is complete.
///
/// Holds only the directories on the way to the current path, so that memory follows the depth
/// and the width of the tree and not its size.
pub struct TreeBuilder<'s> {
    sink: &'s mut dyn ObjectSink,
    /// The open directories from the root down.
    open: Vec<OpenDir>,
    last: Option<RelPath>,
}

struct OpenDir {
    name: Vec<u8>,
    mode: u32,
    entries: Vec<TreeEntry>,
}

impl OpenDir {
    fn new(name: Vec<u8>, mode: u32) -> Self {
        OpenDir {
            name,
            mode,
            entries: Vec::new(),
        }
    }
}

impl<'s> TreeBuilder<'s> {
    /// An empty tree whose parts go to `sink`.
    pub fn new(sink: &'s mut dyn ObjectSink) -> Self {
        let root = OpenDir::new(Vec::new(), GitMode::Dir as u32);
        TreeBuilder {
            sink,
            open: vec![root],
            last: None,
        }
    }

    /// Adds a leaf: a file, a link, a submodule, or a whole subtree by its id.
    ///
    /// Paths come in the order of [`RelPath`]. For sidecar trees, a directory with the empty tree
    /// is kept, and when paths below it follow, they go into it and its mode remains.
    pub fn push(&mut self, path: &RelPath, mode: u32, id: ObjectId) -> Result<()> {
        if path.is_root() {
            return Err(Error::invalid(
                "the root cannot be an entry of its own tree",
            ));
        }
        if self.last.as_ref().is_some_and(|last| last >= path) {
            return Err(Error::invalid(format!(
                "`{path}` comes twice or out of order"
            )));
        }
        let above = path.parts().count() - 1;
        let common = self.open[1..]
            .iter()
            .zip(path.parts().take(above))
            .take_while(|(dir, part)| dir.name == *part)
            .count();
        while self.open.len() > common + 1 {
            self.close_last()?;
        }
        for part in path.parts().take(above).skip(common) {
            let mode = self.take_dir_mode(part, path)?;
            self.open.push(OpenDir::new(part.to_vec(), mode));
        }
        self.innermost().entries.push(TreeEntry {
            name: path.name().to_vec(),
            mode,
            id,
        });
        self.last = Some(path.clone());
        Ok(())
    }

    /// Writes what is still open and returns the id of the root.
    pub fn finish(mut self) -> Result<ObjectId> {
        while self.open.len() > 1 {
            self.close_last()?;
        }
        let root = self.open.pop().map(|root| root.entries).unwrap_or_default();
        write_entries(root, self.sink)
    }

    /// The mode of a directory that is about to be opened: that of the entry which was pushed for
    /// the directory itself, and which is removed here, or the usual one.
    fn take_dir_mode(&mut self, name: &[u8], path: &RelPath) -> Result<u32> {
        let entries = &mut self.innermost().entries;
        // Between `a` and `a/b` only names that begin with `a` can have come.
        let recent = entries
            .iter()
            .rev()
            .take_while(|entry| entry.name.starts_with(name));
        let Some(back) = recent.into_iter().position(|entry| entry.name == name) else {
            return Ok(GitMode::Dir as u32);
        };
        let index = entries.len() - 1 - back;
        let entry = entries.remove(index);
        if !is_dir_mode(entry.mode) || entry.id != EMPTY_TREE {
            return Err(Error::invalid(format!(
                "a part of `{path}` is not an open directory"
            )));
        }
        Ok(entry.mode)
    }

    fn close_last(&mut self) -> Result<()> {
        if let Some(dir) = self.open.pop() {
            let id = write_entries(dir.entries, self.sink)?;
            let entry = TreeEntry {
                name: dir.name,
                mode: dir.mode,
                id,
            };
            self.innermost().entries.push(entry);
        }
        Ok(())
    }

    fn innermost(&mut self) -> &mut OpenDir {
        if self.open.is_empty() {
            self.open
                .push(OpenDir::new(Vec::new(), GitMode::Dir as u32));
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }
}

/// Writes a tree. The order of paths is git's order of entries except for directories that are
/// pushed as such (`a` comes before `a-b`, but git compares `a/`), so they are sorted once more.
fn write_entries(mut entries: Vec<TreeEntry>, sink: &mut dyn ObjectSink) -> Result<ObjectId> {
    let order = |a: &TreeEntry, b: &TreeEntry| compare_entries(&a.as_ref(), &b.as_ref());
    if !entries.is_sorted_by(|a, b| order(a, b) == Ordering::Less) {
        entries.sort_by(order);
    }
    write_object(
        sink,
        Kind::Tree,
        encode_tree(entries.iter().map(TreeEntry::as_ref)),
    )
}
