//! What the tests of the engine share: an engine on scratch space, short calls, and one check that
//! compares what the store says with what is on disk.

// Each test binary uses its own part of this.
#![allow(dead_code)]

pub(crate) mod ops;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_core::{
    Cause, EntryKind, FaultPlan, Layout, ObjectId, ObjectKind, Operator, RelPath, Result,
    WorkspaceId,
};
use offshoot_engine::{Content, Engine, EngineOptions, Quota, WriteOptions, Written};
use offshoot_fs::Form;
use offshoot_store::{DiskBlobs, SqliteOptions, SqliteStore, Store};
use offshoot_testkit::{DirImage, Node, NodePath, dir_image};

/// A data directory of its own and an engine on it.
pub(crate) struct Bed {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) plan: FaultPlan,
    pub(crate) form: Option<Form>,
    engine: Option<Engine>,
}

impl Bed {
    pub(crate) fn new() -> Bed {
        Bed::with_form(None)
    }

    pub(crate) fn with_form(form: Option<Form>) -> Bed {
        let mut bed = Bed {
            dir: offshoot_testkit::scratch(),
            plan: FaultPlan::default(),
            form,
            engine: None,
        };
        bed.reopen();
        bed
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the engine is open")
    }

    /// Closes the engine and opens the data directory anew, as the next process would.
    pub(crate) fn reopen(&mut self) {
        self.engine = None;
        self.engine = Some(self.open_another().expect("the data directory opens"));
    }

    pub(crate) fn close(&mut self) {
        self.engine = None;
    }

    /// One more engine on the same data directory.
    pub(crate) fn open_another(&self) -> Result<Engine> {
        let mut options = EngineOptions::new(self.data());
        options.faults = Some(self.plan.clone());
        options.form = self.form;
        Engine::open(options)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn path_of(&self, ws: &WorkspaceId) -> PathBuf {
        self.data().join("workspaces").join(ws.as_str())
    }

    pub(crate) fn image(&self, ws: &WorkspaceId) -> DirImage {
        dir_image(&self.path_of(ws))
    }

    pub(crate) fn create(&self, id: &str) -> WorkspaceId {
        create(self.engine(), id)
    }

    pub(crate) fn write(&self, ws: &WorkspaceId, path: &str, bytes: &[u8]) -> Written {
        write(self.engine(), ws, &p(path), bytes).expect("a write")
    }

    /// A second, independent look at the rows and blobs.
    pub(crate) fn store(&self) -> Store {
        let meta = SqliteStore::open(&self.data().join("offshoot.db"), SqliteOptions::default())
            .expect("the database opens");
        let blobs = DiskBlobs::open(&self.data().join("blobs")).expect("the blobs open");
        Store::without_hashing(Arc::new(meta), Arc::new(blobs))
    }
}

pub(crate) fn user() -> Cause {
    Cause::by(Operator::user())
}

pub(crate) fn p(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).expect("a valid path")
}

pub(crate) fn create(engine: &Engine, id: &str) -> WorkspaceId {
    engine
        .create_workspace(
            Some(id.parse().expect("a valid id")),
            Layout::Plain,
            Quota::default(),
            &user(),
        )
        .expect("a workspace")
        .id
}

pub(crate) fn write(
    engine: &Engine,
    ws: &WorkspaceId,
    path: &RelPath,
    bytes: &[u8],
) -> Result<Written> {
    engine.write_file(
        ws,
        path,
        Content::Bytes(bytes),
        &WriteOptions::default(),
        &user(),
    )
}

/// How many cases a property runs: 256, and twenty times as many in a soak.
pub(crate) fn cases(normal: u32) -> u32 {
    if offshoot_testkit::soak() {
        normal * 20
    } else {
        normal
    }
}

/// What the index of a workspace says, by its `.meta/.meta` file, which looks at no directory.
pub(crate) fn index_of(
    engine: &Engine,
    ws: &WorkspaceId,
) -> BTreeMap<NodePath, (EntryKind, Option<String>)> {
    let text = engine
        .read_whole(ws, &p(".meta/.meta"))
        .expect("the index reads")
        .0;
    let value: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
    value["files"]
        .as_array()
        .expect("a list of files")
        .iter()
        .map(|file| {
            let path = RelPath::parse_text(file["path"].as_str().expect("a path")).expect("valid");
            let kind = match file["type"].as_str() {
                Some("file") => EntryKind::File,
                Some("dir") => EntryKind::Dir,
                _ => EntryKind::Symlink,
            };
            let id = file["id"].as_str().map(str::to_owned);
            (NodePath(path.as_bytes().to_vec()), (kind, id))
        })
        .collect()
}

/// The same, read from a directory.
pub(crate) fn index_like(image: &DirImage) -> BTreeMap<NodePath, (EntryKind, Option<String>)> {
    let hash = |bytes: &[u8]| {
        let id = offshoot_git::hash(ObjectKind::Blob, bytes).expect("content hashes");
        Some(id.to_hex())
    };
    image
        .iter()
        .map(|(path, node)| {
            let entry = match node {
                Node::Dir(_) => (EntryKind::Dir, None),
                Node::File(_, bytes) => (EntryKind::File, hash(bytes)),
                Node::Symlink(target) => (EntryKind::Symlink, hash(target)),
            };
            (path.clone(), entry)
        })
        .collect()
}

/// Files and links, directories, bytes: really counted.
pub(crate) fn real_counts(image: &DirImage) -> (i64, i64, i64) {
    let mut counts = (0, 0, 0);
    for node in image.values() {
        match node {
            Node::Dir(_) => counts.1 += 1,
            Node::File(_, bytes) | Node::Symlink(bytes) => {
                counts.0 += 1;
                counts.2 += bytes.len() as i64;
            }
        }
    }
    counts
}

/// How the counters of a workspace differ from its index, if they do.
pub(crate) fn miscounted(bed: &Bed, ws: &WorkspaceId) -> Option<String> {
    let engine = bed.engine();
    let row = engine.workspace(ws).expect("the workspace");
    let index = index_of(engine, ws);
    let count = |kinds: &dyn Fn(EntryKind) -> bool| {
        index.values().filter(|(kind, _)| kinds(*kind)).count() as i64
    };
    let (files, dirs) = (
        count(&|kind| kind != EntryKind::Dir),
        count(&|kind| kind == EntryKind::Dir),
    );
    if (row.files, row.dirs) != (files, dirs) {
        return Some(format!(
            "the counters say {} files and {} directories, the index has {files} and {dirs}: {:?}",
            row.files,
            row.dirs,
            index.keys()
        ));
    }
    None
}

/// Why the directory of a workspace is not what its index says, if it is not. Looks at kinds,
/// content, permission bits and counters.
pub(crate) fn out_of_line(bed: &Bed, ws: &WorkspaceId) -> Option<String> {
    let engine = bed.engine();
    if let Some(why) = miscounted(bed, ws) {
        return Some(why);
    }
    let row = engine.workspace(ws).expect("the workspace");
    let index = index_of(engine, ws);
    let image = bed.image(ws);
    if !row.materialized {
        return (!image.is_empty()).then(|| format!("assigned only, but on disk: {image:?}"));
    }
    let on_disk = index_like(&image);
    if on_disk != index {
        return Some(format!("on disk: {on_disk:#?}\nin the index: {index:#?}"));
    }
    let counts = real_counts(&image);
    if (row.files, row.dirs, row.bytes) != counts {
        return Some(format!(
            "counters {:?}, really {counts:?}",
            (row.files, row.dirs, row.bytes)
        ));
    }
    if row.handed_out {
        let synced = engine.sync(ws, &user()).expect("a sync");
        return (!synced.changes.is_empty()).then(|| format!("sync found {:?}", synced.changes));
    }
    for (path, node) in &image {
        let (Node::Dir(perm) | Node::File(perm, _)) = node else {
            continue;
        };
        let known = engine
            .metadata(ws, &RelPath::from_normal(path.0.clone()))
            .expect("metadata")
            .perm;
        if known != *perm {
            return Some(format!("{path:?} has {perm:o}, the index says {known:o}"));
        }
    }
    None
}

/// Proves that everything the rows name is there and hashes to its id, down to the last blob.
pub(crate) fn prove_store(bed: &Bed) {
    let store = bed.store();
    let mut open: Vec<ObjectId> = Vec::new();
    store
        .read(|tx| {
            open.clear();
            tx.visit_roots(&mut |id| open.push(id))
        })
        .expect("the roots");
    let mut seen: BTreeSet<ObjectId> = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let found = store.object(&id).expect("an object reads");
        if found.is_none() && id == offshoot_core::EMPTY_TREE {
            continue;
        }
        let (kind, bytes) = found.unwrap_or_else(|| panic!("object {id} is named but not there"));
        assert_eq!(
            offshoot_git::hash(kind, &bytes).expect("content hashes"),
            id,
            "the content of {id} is not its own"
        );
        if kind == ObjectKind::Tree {
            let tree = offshoot_git::read_tree(&Reader(&store), &id).expect("a tree parses");
            open.extend(
                tree.iter()
                    .map(offshoot_git::EntryRef::to_owned)
                    .filter(|entry| entry.mode != 0o160_000 && entry.name.as_slice() != b".")
                    .map(|entry| entry.id)
                    // Bits of a file in the sidecar name the empty blob without storing it.
                    .filter(|id| *id != offshoot_core::EMPTY_BLOB),
            );
        }
    }
}

struct Reader<'a>(&'a Store);

impl offshoot_git::ObjectReader for Reader<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        self.0.object(id)
    }
}

/// Sets permission bits, as an outside program does.
pub(crate) fn chmod(path: &Path, perm: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(perm)).expect("chmod");
}
