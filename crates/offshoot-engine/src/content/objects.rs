//! Git objects for the git crate: those of the store, and new ones that are not stored yet.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_core::{
    EMPTY_TREE, EntryKind, Error, ErrorCode, ObjectId, ObjectKind, RelPath, Result,
};
use offshoot_fs::SafeDir;
use offshoot_git::{
    Edit, EmptyDirs, EntryRef, ObjectHasher, ObjectReader, ObjectSink, ObjectStream, Tree,
    TreeEntry,
};
use offshoot_store::{ContentHasher, NewHasher, NewObject, ReadTx, Store};

use crate::content::Contents;

/// The most trees in a cache. A full cache is emptied.
const MAX_CACHED_TREES: usize = 4096;
/// Larger objects are streamed where that is possible.
const LARGEST_WHOLE: u64 = 1 << 20;

/// The hash by which the store checks what it reads: that of git's ids.
pub(crate) const HASHER: NewHasher = |kind, size| Box::new(Hasher(ObjectHasher::new(kind, size)));

struct Hasher(ObjectHasher);

impl ContentHasher for Hasher {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self: Box<Self>) -> Result<ObjectId> {
        self.0.finish()
    }
}

/// Reads objects of the store, inside a transaction if there is one.
pub(crate) struct StoredObjects<'a> {
    store: &'a Store,
    tx: Option<&'a dyn ReadTx>,
    tree_cache: Option<TreeCache>,
}

/// A cache of trees and of the tree of each directory, so that a look-up costs one search in the
/// directory of the path, at any depth.
#[derive(Default)]
struct TreeCache(Mutex<CachedTrees>);

#[derive(Default)]
struct CachedTrees {
    trees: HashMap<ObjectId, Tree>,
    /// For each root, the trees of directories below it; none where there is no directory.
    dirs: HashMap<ObjectId, HashMap<RelPath, Option<ObjectId>>>,
}

impl TreeCache {
    fn lock(&self) -> MutexGuard<'_, CachedTrees> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree(&self, id: &ObjectId, read: impl FnOnce() -> Result<Tree>) -> Result<Tree> {
        if let Some(tree) = self.lock().trees.get(id) {
            return Ok(tree.clone());
        }
        let tree = read()?;
        let mut cached = self.lock();
        if cached.trees.len() >= MAX_CACHED_TREES {
            cached.trees.clear();
        }
        cached.trees.insert(*id, tree.clone());
        Ok(tree)
    }

    fn subtree(
        &self,
        reader: &dyn ObjectReader,
        root: ObjectId,
        dir: &RelPath,
    ) -> Result<Option<ObjectId>> {
        // Starts at the nearest cached directory, which is mostly this one or its parent.
        let cached = self.lock();
        let known = cached.dirs.get(&root);
        let mut at = Some(root);
        let mut unknown = Vec::new();
        let mut next = Some(dir.clone()).filter(|dir| !dir.is_root());
        while let Some(path) = next {
            if let Some(known) = known.and_then(|dirs| dirs.get(&path)) {
                at = *known;
                break;
            }
            next = path.parent().filter(|above| !above.is_root());
            unknown.push(path);
        }
        drop(cached);
        for path in unknown.into_iter().rev() {
            let entry = match at {
                Some(above) if above != EMPTY_TREE => reader.find(&above, path.name())?,
                _ => None,
            };
            at = entry.filter(TreeEntry::is_dir).map(|entry| entry.id);
            let mut cached = self.lock();
            let dirs = cached.dirs.entry(root).or_default();
            if dirs.len() >= MAX_CACHED_TREES {
                dirs.clear();
            }
            dirs.insert(path, at);
        }
        Ok(at)
    }
}

impl<'a> StoredObjects<'a> {
    pub(crate) fn new(store: &'a Store, tx: Option<&'a dyn ReadTx>) -> Self {
        StoredObjects {
            store,
            tx,
            tree_cache: None,
        }
    }

    /// Caches every tree that is read from now on.
    pub(crate) fn cache_trees(&mut self) {
        self.tree_cache.get_or_insert_default();
    }
}

impl ObjectReader for StoredObjects<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        match self.tx {
            Some(tx) => self.store.object_in(tx, id),
            None => self.store.object(id),
        }
    }

    fn tree(&self, id: &ObjectId) -> Result<Tree> {
        let read = || Tree::parse(offshoot_git::tree_bytes(self, id)?);
        match &self.tree_cache {
            Some(tree_cache) => tree_cache.tree(id, read),
            None => read(),
        }
    }

    fn find(&self, tree: &ObjectId, name: &[u8]) -> Result<Option<TreeEntry>> {
        match self.tree_cache {
            Some(_) => Ok(self.tree(tree)?.get(name).map(EntryRef::to_owned)),
            None => offshoot_git::find_in(&offshoot_git::tree_bytes(self, tree)?, name),
        }
    }

    fn subtree(&self, root: ObjectId, dir: &RelPath) -> Result<Option<ObjectId>> {
        match &self.tree_cache {
            Some(tree_cache) => tree_cache.subtree(self, root, dir),
            None => offshoot_git::walk_to(self, root, dir),
        }
    }

    fn open(&self, id: &ObjectId) -> Result<Option<ObjectStream>> {
        let size = match self.tx {
            Some(tx) => tx.object_size(id)?,
            None => self.store.read(|tx| tx.object_size(id))?,
        };
        if size.is_some_and(|size| size > LARGEST_WHOLE) {
            let found = self.store.open_object(id)?;
            return Ok(found.map(|(kind, size, content)| ObjectStream {
                kind,
                size,
                content,
            }));
        }
        // Reading a small object whole takes a fraction of the time.
        Ok(self.read(id)?.map(|(kind, bytes)| ObjectStream {
            kind,
            size: bytes.len() as u64,
            content: Box::new(Cursor::new(bytes)),
        }))
    }
}

/// New objects that are not stored yet, above the objects of the store.
pub(crate) struct PendingObjects<'a> {
    base: &'a dyn ObjectReader,
    new: HashMap<ObjectId, (ObjectKind, Arc<[u8]>)>,
    /// Caches new trees only. `base` caches stored ones.
    tree_cache: TreeCache,
}

impl<'a> PendingObjects<'a> {
    pub(crate) fn new(base: &'a dyn ObjectReader) -> Self {
        PendingObjects {
            base,
            new: HashMap::new(),
            tree_cache: TreeCache::default(),
        }
    }

    /// Rebuilds the trees that the edits touch. Returns the new root.
    pub(crate) fn edit_tree(
        &mut self,
        root: ObjectId,
        edits: &BTreeMap<RelPath, Edit>,
    ) -> Result<ObjectId> {
        if edits.is_empty() {
            return Ok(root);
        }
        let mut written = CollectedObjects(Vec::new());
        let root = offshoot_git::edit(self, root, edits, EmptyDirs::Vanish, &mut written)?;
        for (kind, id, bytes) in written.0 {
            self.new.insert(id, (kind, bytes.into()));
        }
        Ok(root)
    }

    /// Adds an object. Returns its id.
    pub(crate) fn add(&mut self, kind: ObjectKind, bytes: Vec<u8>) -> Result<ObjectId> {
        let id = offshoot_git::hash(kind, &bytes)?;
        self.new.insert(id, (kind, bytes.into()));
        Ok(id)
    }

    /// Adds the files of a directory whose content git checks, for callers that build trees before the
    /// content is in the store.
    pub(crate) fn add_files_git_checks<'p>(
        &mut self,
        dir: &SafeDir,
        paths: impl Iterator<Item = &'p RelPath>,
    ) -> Result<()> {
        for path in paths.filter(|path| offshoot_git::has_rules_for_content(path.name())) {
            let is_file =
                dir.stat(path)?.and_then(|stat| stat.entry_kind()) == Some(EntryKind::File);
            // The next sync finds a change that is made now.
            if let Some(bytes) = is_file.then(|| dir.read(path).ok()).flatten() {
                self.add(ObjectKind::Blob, bytes)?;
            }
        }
        Ok(())
    }

    /// Prepares the new objects for a transaction that refers to them.
    pub(crate) fn prepare(&self, store: &Store) -> Result<Vec<NewObject>> {
        self.new
            .iter()
            .map(|(id, (kind, bytes))| store.prepare(*kind, *id, bytes))
            .collect()
    }
}

impl ObjectReader for PendingObjects<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        match self.new.get(id) {
            Some(object) => Ok(Some(object.clone())),
            None => self.base.read(id),
        }
    }

    fn open(&self, id: &ObjectId) -> Result<Option<ObjectStream>> {
        match self.new.get(id) {
            Some((kind, bytes)) => Ok(Some(ObjectStream {
                kind: *kind,
                size: bytes.len() as u64,
                content: Box::new(std::io::Cursor::new(bytes.clone())),
            })),
            None => self.base.open(id),
        }
    }

    fn tree(&self, id: &ObjectId) -> Result<Tree> {
        match self.new.get(id) {
            Some((_, bytes)) => self.tree_cache.tree(id, || Tree::parse(bytes.clone())),
            None => self.base.tree(id),
        }
    }

    fn find(&self, tree: &ObjectId, name: &[u8]) -> Result<Option<TreeEntry>> {
        match self.new.contains_key(tree) {
            true => Ok(self.tree(tree)?.get(name).map(EntryRef::to_owned)),
            false => self.base.find(tree, name),
        }
    }

    fn subtree(&self, root: ObjectId, dir: &RelPath) -> Result<Option<ObjectId>> {
        // A new root may lead to new trees; a stored one leads to stored trees only.
        match self.new.contains_key(&root) {
            true => self.tree_cache.subtree(self, root, dir),
            false => self.base.subtree(root, dir),
        }
    }
}

struct CollectedObjects(Vec<(ObjectKind, ObjectId, Vec<u8>)>);

impl ObjectSink for CollectedObjects {
    fn write(&mut self, kind: ObjectKind, id: ObjectId, bytes: Vec<u8>) -> Result<()> {
        self.0.push((kind, id, bytes));
        Ok(())
    }
}

impl Contents {
    pub(crate) fn objects_in<'a>(&'a self, tx: &'a dyn ReadTx) -> StoredObjects<'a> {
        StoredObjects::new(self.store(), Some(tx))
    }
}

impl Contents {
    /// The bytes of an object that is known to be small.
    pub(crate) fn whole_object(&self, id: &ObjectId) -> Result<std::sync::Arc<[u8]>> {
        self.store()
            .object(id)?
            .map(|(_, bytes)| bytes)
            .ok_or_else(missing_content)
    }
}

pub(crate) fn missing_content() -> Error {
    Error::new(ErrorCode::ReadFailed, "content is missing from the store")
        .with_hint("run `offshoot check` to see what is damaged")
}
