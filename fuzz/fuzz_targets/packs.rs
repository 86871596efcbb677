//! A repository of somebody else with one pack: whatever its index and its objects say, reading
//! every id in it ends with an object or an error. The input is the length of the index in two
//! bytes, the index, and the pack.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use offshoot_core::ObjectId;
use offshoot_git::{GitRepository, ObjectReader};

/// What stands before the ids in an index: its mark, its version and the fanout table.
const BEFORE_IDS: usize = 8 + 1024;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_at_checked(2) else {
        return;
    };
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    let Some((index, pack)) = rest.split_at_checked(length) else {
        return;
    };
    let place = repository();
    let packs = place.join("objects/pack");
    fs::write(packs.join("pack-1.idx"), index).expect("scratch space");
    fs::write(packs.join("pack-1.pack"), pack).expect("scratch space");
    let Ok(repository) = GitRepository::open(&place) else {
        return;
    };
    let ids = index.get(BEFORE_IDS..).unwrap_or_default();
    for id in ids.chunks_exact(20).take(64) {
        let id = ObjectId::from_slice(id).expect("twenty bytes");
        let _ = repository.read(&id);
    }
});

/// A bare repository without anything in it.
fn repository() -> PathBuf {
    static PLACE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("scratch space");
        fs::create_dir_all(dir.path().join("objects/pack")).expect("scratch space");
        fs::create_dir_all(dir.path().join("refs/heads")).expect("scratch space");
        fs::write(dir.path().join("HEAD"), "ref: refs/heads/main\n").expect("scratch space");
        fs::write(dir.path().join("config"), "[core]\n\tbare = true\n").expect("scratch space");
        dir
    });
    place.path().to_owned()
}
