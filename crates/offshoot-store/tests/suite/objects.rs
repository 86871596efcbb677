//! Objects in rows, in blobs and in packs: what was stored is what is read.

use std::io::Read;
use std::sync::Arc;

use offshoot_core::{ObjectId, ObjectKind};
use offshoot_store::{DiskBlobs, Durability, ObjectPlace, SqliteOptions, SqliteStore, Store};

fn open(dir: &tempfile::TempDir) -> Store {
    let meta = SqliteStore::open(&dir.path().join("test.db"), SqliteOptions::default()).unwrap();
    let blobs = DiskBlobs::open(&dir.path().join("blobs")).unwrap();
    Store::without_hashing(Arc::new(meta), Arc::new(blobs))
}

fn id(number: u64) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// Bytes that do not compress.
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

fn text(seed: u64, length: usize) -> Vec<u8> {
    let line = format!("line {seed} of a file that says the same thing again and again\n");
    line.bytes().cycle().take(length).collect()
}

fn check(store: &Store, id: &ObjectId, bytes: &[u8]) {
    let (kind, found) = store.object(id).unwrap().unwrap();
    assert_eq!((kind, &*found), (ObjectKind::Blob, bytes));
    let (_, size, mut reader) = store.open_object(id).unwrap().unwrap();
    let mut streamed = Vec::new();
    reader.read_to_end(&mut streamed).unwrap();
    assert!(size == bytes.len() as u64 && streamed == bytes);
    assert_eq!(
        store.verify(id, &mut std::io::sink()).unwrap(),
        Some(ObjectKind::Blob)
    );
}

#[test]
fn objects_of_every_size_come_back_from_rows_and_blobs() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    for (number, length) in [0, 1, 63, 64, 4096, 64 << 10, 66_000, 300_000, 3 << 20]
        .iter()
        .enumerate()
    {
        for (variant, bytes) in [noise(number as u64, *length), text(9, *length)]
            .iter()
            .enumerate()
        {
            let whole = id((number * 4 + variant) as u64);
            let streamed = id((number * 4 + variant + 2) as u64);
            let kind = ObjectKind::Blob;
            let first = store.prepare(kind, whole, bytes).unwrap();
            let second = store
                .prepare_stream(kind, streamed, bytes.len() as u64, &mut &bytes[..])
                .unwrap();
            store
                .write(Durability::Synced, |tx| {
                    assert!(tx.put_object(&first)?);
                    assert!(tx.put_object(&second)?);
                    assert!(!tx.put_object(&second)?);
                    Ok(())
                })
                .unwrap();
            check(&store, &whole, bytes);
            check(&open(&dir), &streamed, bytes);
        }
    }
    assert!(store.object(&id(999)).unwrap().is_none());
    assert!(store.open_object(&id(999)).unwrap().is_none());
    assert!(
        store
            .verify(&id(999), &mut std::io::sink())
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_stream_of_another_length_than_promised_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    for (promised, given) in [
        (10, 9),
        (10, 11),
        (1 << 20, (1 << 20) - 1),
        (1 << 20, (1 << 20) + 1),
    ] {
        for bytes in [noise(1, given), text(1, given)] {
            let result = store.prepare_stream(ObjectKind::Blob, id(1), promised, &mut &bytes[..]);
            assert!(result.is_err(), "{promised} {given}");
        }
    }
    let mut blobs = 0;
    store
        .blobs()
        .list("", &mut |_| {
            blobs += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(blobs, 0);
}

#[test]
fn a_bulk_comes_back_whole_and_known_objects_are_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    let contents: Vec<Vec<u8>> = (0..4000u64)
        .map(|n| {
            if n % 3 == 0 {
                noise(n, 900)
            } else {
                text(n, (n % 5000) as usize)
            }
        })
        .chain([noise(77, 5 << 20), text(78, 5 << 20), Vec::new()])
        .collect();
    for round in 0..2 {
        let bulk = store.bulk();
        for (number, bytes) in contents.iter().enumerate() {
            assert!(
                bulk.add(ObjectKind::Blob, id(number as u64), bytes)
                    .unwrap()
            );
            assert!(
                !bulk
                    .add(ObjectKind::Blob, id(number as u64), bytes)
                    .unwrap()
            );
        }
        let bulk = bulk.finish().unwrap();
        assert_eq!(
            bulk.stored_objects(),
            if round == 0 { contents.len() } else { 0 }
        );
        assert_eq!(
            bulk.known_objects(),
            if round == 0 { 0 } else { contents.len() }
        );
        store
            .write(Durability::Synced, |tx| {
                bulk.insert(tx)?;
                // Inside the transaction its packs are readable already.
                assert_eq!(&*store.object_in(tx, &id(7))?.unwrap().1, contents[7]);
                Ok(())
            })
            .unwrap();
    }
    let fresh = open(&dir);
    for (number, bytes) in contents.iter().enumerate() {
        check(&fresh, &id(number as u64), bytes);
    }
    assert_eq!(fresh.read(|tx| tx.packs()).unwrap().len(), 1);
}

#[test]
fn a_small_bulk_needs_no_pack_and_an_abandoned_one_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    let bulk = store.bulk();
    bulk.add(ObjectKind::Blob, id(1), &text(1, 2000)).unwrap();
    let bulk = bulk.finish().unwrap();
    store
        .write(Durability::Synced, |tx| bulk.insert(tx))
        .unwrap();
    check(&store, &id(1), &text(1, 2000));
    let row = store.read(|tx| tx.object(&id(1))).unwrap().unwrap();
    assert!(row.compressed && matches!(row.place, ObjectPlace::Row(_)));

    let abandoned = store.bulk();
    for number in 10..20 {
        abandoned
            .add(ObjectKind::Blob, id(number), &noise(number, 700_000))
            .unwrap();
    }
    drop(abandoned);
    let mut blobs = 0;
    store
        .blobs()
        .list("", &mut |_| {
            blobs += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(blobs, 0);
}

/// The sum of the bytes and their number as an id, so that ids tell contents apart.
struct Sum(u64, u64);

impl offshoot_store::ContentHasher for Sum {
    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(*byte));
            self.1 += 1;
        }
    }

    fn finish(self: Box<Self>) -> offshoot_core::Result<ObjectId> {
        Ok(id(self.0 ^ self.1))
    }
}

fn sum(bytes: &[u8]) -> ObjectId {
    let mut sum = Box::new(Sum(0, 0));
    offshoot_store::ContentHasher::update(&mut *sum, bytes);
    offshoot_store::ContentHasher::finish(sum).unwrap()
}

/// A file may change between its hash and its storing. Content that is stored under the hash
/// already is not touched by that.
#[test]
fn content_that_does_not_hash_to_its_id_takes_the_place_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let meta = SqliteStore::open(&dir.path().join("test.db"), SqliteOptions::default()).unwrap();
    let blobs = DiskBlobs::open(&dir.path().join("blobs")).unwrap();
    let hasher: offshoot_store::NewHasher = |_, _| Box::new(Sum(0, 0));
    let store = Store::new(Arc::new(meta), Arc::new(blobs), hasher);
    for length in [100_000, 3 << 20] {
        let good = noise(7, length);
        let id = sum(&good);
        let size = good.len() as u64;
        let prepared = store.prepare_stream(ObjectKind::Blob, id, size, &mut &good[..]);
        let prepared = prepared.unwrap();
        store
            .meta()
            .write(Durability::Synced, &mut |tx| {
                tx.put_object(&prepared).map(drop)
            })
            .unwrap();
        let mut other = good.clone();
        other[length / 2] ^= 1;
        let refused = store.prepare_stream(ObjectKind::Blob, id, size, &mut &other[..]);
        let code = refused.map(drop).unwrap_err().code();
        assert_eq!(code, offshoot_core::ErrorCode::WorkspaceBusy);
        check(&store, &id, &good);
    }
}
