//! Git objects as the git crate wants them, out of the store, and new ones on their way into it.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::sync::Arc;

use offshoot_core::{ObjectId, ObjectKind, RelPath, Result};
use offshoot_git::{Edit, EmptyDirs, ObjectReader, ObjectSink, ObjectStream};
use offshoot_store::{NewObject, ReadTx, Store};

/// Larger objects are read piece by piece where that is possible.
const LARGEST_WHOLE: u64 = 1 << 20;

/// Reads objects of the store, inside a transaction where there is one.
pub(crate) struct StoredObjects<'a> {
    pub(crate) store: &'a Store,
    pub(crate) tx: Option<&'a dyn ReadTx>,
}

impl ObjectReader for StoredObjects<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        match self.tx {
            Some(tx) => self.store.object_in(tx, id),
            None => self.store.object(id),
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
}

struct Written(Vec<(ObjectKind, ObjectId, Vec<u8>)>);

impl ObjectSink for Written {
    fn write(&mut self, kind: ObjectKind, id: ObjectId, bytes: Vec<u8>) -> Result<()> {
        self.0.push((kind, id, bytes));
        Ok(())
    }
}
