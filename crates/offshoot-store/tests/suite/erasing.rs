//! Erasing beside writers of the same content: an object that is named after it was found unnamed
//! stays, wherever its bytes are and whatever the clock says.

use std::path::Path;
use std::sync::Arc;

use offshoot_core::{ErrorCode, ObjectId, ObjectKind, Result, Timestamp};
use offshoot_store::{DiskBlobs, Durability, NewObject, SqliteOptions, SqliteStore, Store};

/// One in a row, one as a blob of its own.
const SIZES: [(u64, usize); 2] = [(1, 500), (2, 100_000)];

fn open(dir: &Path) -> Store {
    let meta = SqliteStore::open(&dir.join("test.db"), SqliteOptions::default()).unwrap();
    let blobs = DiskBlobs::open(&dir.join("blobs")).unwrap();
    Store::without_hashing(Arc::new(meta), Arc::new(blobs))
}

fn id(number: u64) -> ObjectId {
    let mut bytes = [number as u8; 20];
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// Bytes that no compression makes smaller.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn prepare(store: &Store, (number, length): (u64, usize)) -> NewObject {
    let bytes = noise(number, length);
    store.prepare(ObjectKind::Blob, id(number), &bytes).unwrap()
}

fn put(store: &Store, object: &NewObject) -> Result<bool> {
    store.write(Durability::Synced, |tx| tx.put_object(object))
}

/// A look that finds everything unnamed.
fn look(store: &Store) -> Vec<(ObjectId, Timestamp)> {
    let rows = store.read(|tx| tx.objects_after(None, 0, false)).unwrap();
    rows.iter().map(|row| (row.id, row.stored_at)).collect()
}

fn is_whole(store: &Store, number: u64) -> bool {
    store
        .verify(&id(number), &mut std::io::sink())
        .unwrap()
        .is_some()
}

#[test]
fn what_nobody_names_again_is_erased() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let bulk = store.bulk();
    for number in 10..40 {
        let bytes = noise(number, 20_000);
        bulk.add(ObjectKind::Blob, id(number), &bytes).unwrap();
    }
    let bulk = bulk.finish().unwrap();
    store
        .write(Durability::Synced, |tx| bulk.insert(tx))
        .unwrap();
    for one in SIZES {
        put(&store, &prepare(&store, one)).unwrap();
    }
    let seen = look(&store);
    // One of the pack is named again.
    let named = store.write(Durability::Synced, |tx| tx.renew_object(&id(20)));
    assert!(named.unwrap());
    let erased = store.erase(&seen).unwrap();
    assert_eq!((erased.objects, erased.packs_rewritten), (31, 1));
    assert_eq!((erased.blobs_removed, erased.row_bytes), (2, 500));
    let left: Vec<ObjectId> = look(&store).into_iter().map(|(id, _)| id).collect();
    assert_eq!(left, [id(20)]);
    assert!(is_whole(&open(dir.path()), 20));
}

#[test]
fn what_is_put_again_after_the_look_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for one in SIZES {
        put(&store, &prepare(&store, one)).unwrap();
    }
    // A clock that was set back: the rows are younger than anything that comes.
    let database = rusqlite::Connection::open(dir.path().join("test.db")).unwrap();
    let future = Timestamp::now().0 + 3_600_000_000;
    let changed = database.execute("UPDATE object SET stored_at = ?1", [future]);
    assert_eq!(changed.unwrap(), 2);
    let seen = look(&store);
    for one in SIZES {
        assert!(!put(&store, &prepare(&store, one)).unwrap());
    }
    let erased = store.erase(&seen).unwrap();
    assert_eq!((erased.objects, erased.blobs_removed), (0, 0));
    assert!(is_whole(&store, 1) && is_whole(&store, 2));
}

#[test]
fn what_was_ready_before_and_is_named_after_it_is_refused_or_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for one in SIZES {
        put(&store, &prepare(&store, one)).unwrap();
    }
    let ready = SIZES.map(|one| prepare(&store, one));
    let stored = ready.clone().map(|object| object.without_bytes());
    let erased = store.erase(&look(&store)).unwrap();
    assert_eq!((erased.objects, erased.blobs_removed), (2, 1));
    for object in &stored {
        let refused = put(&store, object).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::StoreUnavailable);
    }
    assert!(put(&store, &ready[0]).unwrap(), "its bytes are in it");
    let refused = put(&store, &ready[1]).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::StoreUnavailable);
    assert!(is_whole(&store, 1) && !is_whole(&store, 2));
    // Once more, as the refusal says.
    assert!(put(&store, &prepare(&store, SIZES[1])).unwrap());
    assert!(is_whole(&store, 2));
    for object in &stored {
        assert!(!put(&store, object).unwrap());
    }
}
