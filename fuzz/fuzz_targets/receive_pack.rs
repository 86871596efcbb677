//! A push of somebody else: commands and options, and a pack with a right checksum. Whatever they say,
//! it is refused, or each object has the id that it is asked for by. The input is the length of the
//! request in two bytes, the request, the number of objects in one byte, and the objects.
#![no_main]

use std::fs::File;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use offshoot_core::{ObjectId, ObjectKind};
use offshoot_git::{
    MemoryObjects, PackFiles, PackLimits, PushRequest, ReceivedPack, VisibleHistory,
    connected_objects, hash,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_at_checked(2) else {
        return;
    };
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    let Some((mut request, rest)) = rest.split_at_checked(length) else {
        return;
    };
    let _ = PushRequest::read(&mut request);
    let Some((count, objects)) = rest.split_first() else {
        return;
    };
    let mut pack = b"PACK\0\0\0\x02\0\0\0".to_vec();
    pack.push(*count);
    pack.extend_from_slice(objects);
    pack.extend_from_slice(&checksum(&pack));
    static STORE: OnceLock<(MemoryObjects, ObjectId)> = OnceLock::new();
    let (store, head) = STORE.get_or_init(history);
    let limits = PackLimits {
        pack_bytes: 1 << 20,
        object_bytes: 1 << 20,
        unpacked_bytes: 8 << 20,
        objects: 200,
    };
    let mut visible = VisibleHistory::new(store, vec![*head]);
    let received = ReceivedPack::receive(&mut &pack[..], files(), &limits, &mut visible);
    if let Ok(received) = received {
        let _ = connected_objects(&received, &mut visible, *head);
    }
});

/// The sum at the end of a pack is a SHA-1 without the header of an object.
fn checksum(bytes: &[u8]) -> [u8; 20] {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(bytes);
    let sum = hasher.try_finalize().expect("no collision by chance");
    sum.as_slice().try_into().expect("twenty bytes")
}

/// Two empty files, the same each time.
fn files() -> PackFiles {
    static FILES: OnceLock<(File, File)> = OnceLock::new();
    let new = || tempfile::tempfile().expect("scratch space");
    let (pack, built) = FILES.get_or_init(|| (new(), new()));
    let empty = |file: &File| {
        file.set_len(0).expect("scratch space");
        file.try_clone().expect("a handle")
    };
    PackFiles {
        pack: empty(pack),
        built: empty(built),
    }
}

/// One commit with one file.
fn history() -> (MemoryObjects, ObjectId) {
    let store = MemoryObjects::new();
    let blob = store.add(ObjectKind::Blob, b"content").expect("small");
    let tree = [&b"100644 a\0"[..], blob.as_bytes()].concat();
    let tree = store.add(ObjectKind::Tree, &tree).expect("small");
    let who = "a <a@b> 1000000000 +0000";
    let commit = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nx\n");
    let head = store.add(ObjectKind::Commit, commit.as_bytes()).expect("small");
    assert_eq!(hash(ObjectKind::Commit, commit.as_bytes()).ok(), Some(head));
    (store, head)
}
