//! Trees in memory, a source of chance that repeats, and git as the oracle.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test support"
)]

pub mod git;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use offshoot_core::{EMPTY_BLOB, GitMode, ObjectId, RelPath, Result};
use offshoot_merge::{
    Contents, Head, MergeOptions, MergeOutcome, Merged, PathChange, TreeEntry, merge_trees,
};

/// Whether the long versions of the tests are asked for.
pub fn soak() -> bool {
    std::env::var_os("OFFSHOOT_SOAK").is_some_and(|value| value == "1")
}

/// Numbers that look random and are the same in every run (SplitMix64).
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Content by id. The ids are counted, not hashed: a merge only compares them.
#[derive(Default)]
pub struct Store {
    by_id: RefCell<HashMap<ObjectId, Arc<[u8]>>>,
    by_content: RefCell<HashMap<Vec<u8>, ObjectId>>,
}

impl Store {
    pub fn put(&self, bytes: &[u8]) -> ObjectId {
        if let Some(known) = self.by_content.borrow().get(bytes) {
            return *known;
        }
        let mut id = [7; 20];
        let count = self.by_id.borrow().len() as u64;
        id[..8].copy_from_slice(&count.to_be_bytes());
        let id = if bytes.is_empty() {
            EMPTY_BLOB
        } else {
            ObjectId::from_bytes(id)
        };
        self.by_id.borrow_mut().insert(id, bytes.into());
        self.by_content.borrow_mut().insert(bytes.to_vec(), id);
        id
    }

    pub fn get(&self, id: &ObjectId) -> Arc<[u8]> {
        Arc::clone(&self.by_id.borrow()[id])
    }
}

impl Contents for Store {
    fn read(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        Ok(self.get(id))
    }
}

/// A snapshot: leaves by path.
pub type Tree = BTreeMap<RelPath, TreeEntry>;

pub fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

pub fn entry(store: &Store, mode: GitMode, content: &str) -> TreeEntry {
    TreeEntry {
        mode,
        id: store.put(content.as_bytes()),
    }
}

pub fn changes(from: &Tree, to: &Tree) -> Vec<PathChange> {
    let paths: BTreeSet<&RelPath> = from.keys().chain(to.keys()).collect();
    let changes = paths.into_iter().map(|path| PathChange {
        path: path.clone(),
        before: from.get(path).copied(),
        after: to.get(path).copied(),
    });
    changes
        .filter(|change| change.before != change.after)
        .collect()
}

/// A head over a tree in memory, which counts what it is asked.
pub struct MemoryHead<'a> {
    pub base: &'a Tree,
    pub tree: &'a Tree,
    pub lookups: Cell<usize>,
}

impl<'a> MemoryHead<'a> {
    pub fn new(base: &'a Tree, tree: &'a Tree) -> Self {
        MemoryHead {
            base,
            tree,
            lookups: Cell::new(0),
        }
    }
}

fn below<'t>(tree: &'t Tree, directory: &'t RelPath) -> impl Iterator<Item = &'t RelPath> {
    tree.keys()
        .filter(move |path| *path != directory && path.starts_with(directory))
}

impl Head for MemoryHead<'_> {
    fn entry(&self, path: &RelPath) -> Result<Option<TreeEntry>> {
        self.lookups.set(self.lookups.get() + 1);
        let directory = || {
            let any = below(self.tree, path).next().is_some();
            any.then_some(TreeEntry {
                mode: GitMode::Dir,
                id: offshoot_core::EMPTY_TREE,
            })
        };
        Ok(self.tree.get(path).copied().or_else(directory))
    }

    fn leaves_below(&self, directory: &RelPath) -> Result<Vec<RelPath>> {
        Ok(below(self.tree, directory).cloned().collect())
    }

    fn changes(&self) -> Result<Vec<PathChange>> {
        Ok(changes(self.base, self.tree))
    }
}

/// Merges and gives the outcome with the tree after its edits.
pub fn merge(store: &Store, base: &Tree, ours: &Tree, theirs: &Tree) -> (MergeOutcome, Tree) {
    let head = MemoryHead::new(base, ours);
    let outcome = merge_trees(
        &changes(base, theirs),
        &head,
        store,
        &MergeOptions::default(),
    )
    .unwrap();
    let merged = apply(store, ours, &outcome.edits);
    (outcome, merged)
}

pub fn apply(store: &Store, tree: &Tree, edits: &[offshoot_merge::Edit]) -> Tree {
    let mut merged = tree.clone();
    for edit in edits {
        match &edit.to {
            None => {
                merged.remove(&edit.path);
            }
            Some(Merged::Existing(entry)) => {
                merged.insert(edit.path.clone(), *entry);
            }
            Some(Merged::New { mode, bytes }) => {
                let entry = TreeEntry {
                    mode: *mode,
                    id: store.put(bytes),
                };
                merged.insert(edit.path.clone(), entry);
            }
        }
    }
    assert_no_leaf_is_a_directory(&merged);
    merged
}

/// A tree in which a path is both a leaf and a directory cannot be written to disk.
fn assert_no_leaf_is_a_directory(tree: &Tree) {
    for path in tree.keys() {
        let above = path
            .ancestors()
            .into_iter()
            .find(|above| tree.contains_key(above));
        assert_eq!(above, None, "{path} stands below a leaf");
    }
}

/// A tree as text, for comparing with git's.
pub fn listing(store: &Store, tree: &Tree) -> Vec<String> {
    let line = |(path, entry): (&RelPath, &TreeEntry)| {
        let content = String::from_utf8_lossy(&store.get(&entry.id)).into_owned();
        format!("{:o} {path} {content:?}", entry.mode as u32)
    };
    tree.iter().map(line).collect()
}
