//! Git objects as the git crate wants them, out of the store, and new ones on their way into it.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError};

use offshoot_core::{ObjectId, ObjectKind, RelPath, Result};
use offshoot_git::{
    Edit, EmptyDirs, EntryRef, ObjectReader, ObjectSink, ObjectStream, Tree, TreeEntry,
};
use offshoot_store::{NewObject, ReadTx, Store};

/// So many trees are remembered at most; then it begins anew.
const TREES: usize = 4096;
/// Larger objects are read piece by piece where that is possible.
const LARGEST_WHOLE: u64 = 1 << 20;

/// Reads objects of the store, inside a transaction where there is one.
pub(crate) struct StoredObjects<'a> {
    store: &'a Store,
    tx: Option<&'a dyn ReadTx>,
    /// Trees that were read, for who looks many paths up.
    trees: Option<Mutex<HashMap<ObjectId, Tree>>>,
}

impl<'a> StoredObjects<'a> {
    pub(crate) fn new(store: &'a Store, tx: Option<&'a dyn ReadTx>) -> Self {
        StoredObjects {
            store,
            tx,
            trees: None,
        }
    }

    /// Remembers every tree that is read: a path then costs a search in each directory above it.
    pub(crate) fn remember_trees(&mut self) {
        self.trees = Some(Mutex::default());
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
        let parse = || Tree::parse(offshoot_git::tree_bytes(self, id)?);
        let Some(trees) = &self.trees else {
            return parse();
        };
        let remembered = || trees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = remembered().get(id) {
            return Ok(tree.clone());
        }
        let tree = parse()?;
        let mut trees = remembered();
        if trees.len() >= TREES {
            trees.clear();
        }
        trees.insert(*id, tree.clone());
        Ok(tree)
    }

    fn find(&self, tree: &ObjectId, name: &[u8]) -> Result<Option<TreeEntry>> {
        match self.trees {
            Some(_) => Ok(self.tree(tree)?.get(name).map(EntryRef::to_owned)),
            None => offshoot_git::find_in(&offshoot_git::tree_bytes(self, tree)?, name),
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
        // To read a small one whole takes a fraction of the time.
        Ok(self.read(id)?.map(|(kind, bytes)| ObjectStream {
            kind,
            size: bytes.len() as u64,
            content: Box::new(Cursor::new(bytes)),
        }))
    }
}

/// Objects of the store and, above them, new ones that are not stored yet.
pub(crate) struct Workbench<'a> {
    base: &'a dyn ObjectReader,
    new: HashMap<ObjectId, (ObjectKind, Arc<[u8]>)>,
}

impl<'a> Workbench<'a> {
    pub(crate) fn new(base: &'a dyn ObjectReader) -> Self {
        Workbench {
            base,
            new: HashMap::new(),
        }
    }

    /// Rebuilds the trees that the edits touch and gives the new root.
    pub(crate) fn edit_tree(
        &mut self,
        root: ObjectId,
        edits: &BTreeMap<RelPath, Edit>,
    ) -> Result<ObjectId> {
        if edits.is_empty() {
            return Ok(root);
        }
        let mut written = Written(Vec::new());
        let root = offshoot_git::edit(self, root, edits, EmptyDirs::Vanish, &mut written)?;
        for (kind, id, bytes) in written.0 {
            self.new.insert(id, (kind, bytes.into()));
        }
        Ok(root)
    }

    /// Adds an object that was made elsewhere and gives its id.
    pub(crate) fn add(&mut self, kind: ObjectKind, bytes: Vec<u8>) -> Result<ObjectId> {
        let id = offshoot_git::hash(kind, &bytes)?;
        self.new.insert(id, (kind, bytes.into()));
        Ok(id)
    }

    /// Makes the new objects ready to be named by a transaction.
    pub(crate) fn prepare(&self, store: &Store) -> Result<Vec<NewObject>> {
        self.new
            .iter()
            .map(|(id, (kind, bytes))| store.prepare(*kind, *id, bytes))
            .collect()
    }
}

impl ObjectReader for Workbench<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        match self.new.get(id) {
            Some(object) => Ok(Some(object.clone())),
            None => self.base.read(id),
        }
    }

    fn tree(&self, id: &ObjectId) -> Result<Tree> {
        match self.new.get(id) {
            Some((_, bytes)) => Tree::parse(bytes.clone()),
            None => self.base.tree(id),
        }
    }

    fn find(&self, tree: &ObjectId, name: &[u8]) -> Result<Option<TreeEntry>> {
        match self.new.get(tree) {
            Some((_, bytes)) => offshoot_git::find_in(bytes, name),
            None => self.base.find(tree, name),
        }
    }
}

struct Written(Vec<(ObjectKind, ObjectId, Vec<u8>)>);

impl ObjectSink for Written {
    fn write(&mut self, kind: ObjectKind, id: ObjectId, bytes: Vec<u8>) -> Result<()> {
        self.0.push((kind, id, bytes));
        Ok(())
    }
}
