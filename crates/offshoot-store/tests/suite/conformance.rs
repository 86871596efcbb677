//! The suites over the implementations of this crate, bare and behind wrappers.

use std::sync::{Arc, Mutex};

use offshoot_core::FaultPlan;
use offshoot_store::{
    BlobStore, DiskBlobs, FaultyBlobs, FaultyMeta, MetaStore, SqliteOptions, SqliteStore,
    conformance,
};
use tempfile::TempDir;

/// Makes stores in directories that live as long as this.
#[derive(Default)]
struct Dirs(Mutex<Vec<TempDir>>);

impl Dirs {
    fn meta(&self) -> Arc<dyn MetaStore> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.db");
        self.0.lock().unwrap().push(dir);
        Arc::new(SqliteStore::open(&path, SqliteOptions::default()).unwrap())
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blobs");
        self.0.lock().unwrap().push(dir);
        Arc::new(DiskBlobs::open(&path).unwrap())
    }
}

#[test]
fn sqlite() {
    let dirs = Dirs::default();
    conformance::meta_store(|| dirs.meta());
}

#[test]
fn sqlite_with_faults_that_never_strike() {
    let dirs = Dirs::default();
    conformance::meta_store(|| Arc::new(FaultyMeta::new(dirs.meta(), FaultPlan::default())));
}

#[test]
fn disk() {
    let dirs = Dirs::default();
    conformance::blob_store(|| dirs.blobs());
}

#[test]
fn disk_with_faults_that_never_strike() {
    let dirs = Dirs::default();
    conformance::blob_store(|| Arc::new(FaultyBlobs::new(dirs.blobs(), FaultPlan::default())));
}
