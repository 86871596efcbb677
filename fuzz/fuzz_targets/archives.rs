//! An archive of somebody else, unpacked into a workspace: it comes in or is refused, and nothing
//! stands beside the workspace afterwards that was not there before.
#![no_main]

use std::collections::BTreeSet;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use offshoot_core::{Cause, Layout, Operator, WorkspaceId};
use offshoot_engine::{Access, Engine, EngineOptions, Principal, Quota};

/// A data directory with a neighbour that nobody may touch.
struct Scene {
    dir: tempfile::TempDir,
    engine: Engine,
    access: Access,
}

fuzz_target!(|bytes: &[u8]| {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    let scene = SCENE.get_or_init(scene);
    let id: WorkspaceId = "w".parse().expect("a valid id");
    let cause = Cause::by(Operator::user());
    scene
        .engine
        .create_workspace(Some(id.clone()), Layout::Plain, Quota::default(), &cause)
        .expect("a workspace");
    let mut archive = tempfile::tempfile().expect("scratch space");
    archive.write_all(bytes).expect("scratch space");
    archive.seek(SeekFrom::Start(0)).expect("scratch space");
    let _ = offshoot_server::unpack_into_workspace(&scene.access, &id, archive);
    let path = scene.engine.hand_out_path(&id).expect("a directory");
    stays_inside(&path);
    let top: BTreeSet<_> = names(scene.dir.path());
    assert_eq!(
        top,
        BTreeSet::from([b"data".to_vec(), b"neighbour".to_vec()])
    );
    let neighbour = scene.dir.path().join("neighbour");
    assert_eq!(names(&neighbour), BTreeSet::from([b"file".to_vec()]));
    assert_eq!(
        std::fs::read(neighbour.join("file")).expect("it is there"),
        b"mine"
    );
    assert_eq!(
        names(path.parent().expect("workspaces")),
        BTreeSet::from([b"w".to_vec()])
    );
    scene.engine.delete_workspace(&id, &cause).expect("it goes");
    scene.engine.purge_workspace(&id, &cause).expect("it goes");
    scene.engine.wait_for_upkeep();
});

fn scene() -> Scene {
    let dir = tempfile::tempdir().expect("scratch space");
    std::fs::create_dir(dir.path().join("neighbour")).expect("scratch space");
    std::fs::write(dir.path().join("neighbour/file"), "mine").expect("scratch space");
    let engine = Engine::open(EngineOptions::new(dir.path().join("data"))).expect("an engine");
    let owner = Principal::owner(Operator::user());
    let access = engine.access(Arc::new(owner), None);
    Scene {
        dir,
        engine,
        access,
    }
}

/// No link of the workspace leads out of it.
fn stays_inside(root: &Path) {
    let real = root.canonicalize().expect("it is there");
    let mut open = vec![real.clone()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a kind");
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_symlink()
                && let Ok(leads_to) = entry.path().canonicalize()
            {
                assert!(leads_to.starts_with(&real), "{}", leads_to.display());
            }
        }
    }
}

fn names(dir: &Path) -> BTreeSet<Vec<u8>> {
    std::fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().as_bytes().to_vec())
        .collect()
}
