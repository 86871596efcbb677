//! Garbage collection, erasing, sizes, and faults at every call.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use offshoot_core::{
    Cause, EMPTY_TREE, EntryKind, FaultPlan, Layout, ObjectId, ObjectKind, Operator, RelPath,
    Result, Timestamp,
};
use offshoot_store::{
    DiskBlobs, Durability, EntryRow, FaultyBlobs, FaultyMeta, HistoryOp, NewHistory, SqliteOptions,
    SqliteStore, Store, Via, WorkspaceKey, WorkspaceKind, WorkspaceRow, WorkspaceState,
};

const FUTURE: Timestamp = Timestamp(i64::MAX);
const PAST: Timestamp = Timestamp(1_000_000);

fn open_faulty(dir: &Path, plan: &FaultPlan) -> Store {
    let meta = SqliteStore::open(&dir.join("test.db"), SqliteOptions::default()).unwrap();
    let blobs = DiskBlobs::open(&dir.join("blobs")).unwrap();
    Store::without_hashing(
        Arc::new(FaultyMeta::new(Arc::new(meta), plan.clone())),
        Arc::new(FaultyBlobs::new(Arc::new(blobs), plan.clone())),
    )
}

fn open(dir: &Path) -> Store {
    open_faulty(dir, &FaultPlan::default())
}

fn id(number: u64) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

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

fn add_bulk(store: &Store, numbers: impl Iterator<Item = u64>, length: usize) -> Result<()> {
    let bulk = store.bulk();
    for number in numbers {
        bulk.add(ObjectKind::Blob, id(number), &noise(number, length))?;
    }
    let bulk = bulk.finish()?;
    store.write(Durability::Relaxed, |tx| bulk.insert(tx))
}

fn add_single(store: &Store, number: u64, length: usize) -> Result<()> {
    let object = store.prepare(ObjectKind::Blob, id(number), &noise(number, length))?;
    store.write(Durability::Relaxed, |tx| tx.put_object(&object).map(drop))
}

fn blob_keys(store: &Store) -> Vec<String> {
    let mut keys = Vec::new();
    store
        .blobs()
        .list("", &mut |info| {
            keys.push(info.key);
            Ok(())
        })
        .unwrap();
    keys
}

#[test]
fn collection_keeps_the_reachable_and_the_young() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    // Numbers below 100 are single (odd ones large), the others are in two packs.
    for number in 0..20 {
        add_single(&store, number, if number % 2 == 0 { 500 } else { 100_000 }).unwrap();
    }
    add_bulk(&store, 100..200, 4_000).unwrap();
    add_bulk(&store, 200..300, 4_000).unwrap();
    let everything: HashSet<ObjectId> = (0..300).map(id).collect();
    let reachable: HashSet<ObjectId> = (0..10).chain(100..120).chain(200..290).map(id).collect();

    assert_eq!(store.collect(&everything, FUTURE).unwrap().objects, 0);
    let young = store.collect(&reachable, PAST).unwrap();
    assert_eq!(young, offshoot_store::GarbageReport::default());

    let collected = store.collect(&reachable, FUTURE).unwrap();
    assert_eq!(collected.objects, 10 + 80 + 10);
    assert_eq!((collected.packs_rewritten, collected.packs_removed), (1, 0));
    // Five large singles and four fifths of a pack.
    assert_eq!(collected.blob_bytes, 5 * 100_000 + 80 * 4_000);
    assert_eq!(collected.row_bytes, 5 * 500);
    let fresh = open(dir.path());
    for number in (0..20).chain(100..300) {
        let found = fresh.object(&id(number)).unwrap();
        assert_eq!(found.is_some(), reachable.contains(&id(number)), "{number}");
        assert_eq!(
            store.object(&id(number)).unwrap().is_some(),
            found.is_some(),
            "{number}"
        );
        let length = if number >= 100 {
            4_000
        } else if number % 2 == 0 {
            500
        } else {
            100_000
        };
        assert!(found.is_none_or(|(_, bytes)| *bytes == *noise(number, length)));
    }
    assert_eq!(blob_keys(&store).len(), 5 + 2);

    let emptied = store.collect(&HashSet::new(), FUTURE).unwrap();
    assert_eq!((emptied.objects, emptied.packs_removed), (10 + 20 + 90, 2));
    assert!(blob_keys(&store).is_empty());
    assert!(store.read(|tx| tx.packs()).unwrap().is_empty());
}

#[test]
fn blobs_that_no_row_names_go_when_they_are_old() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store
        .prepare(ObjectKind::Blob, id(1), &noise(1, 100_000))
        .unwrap();
    let bulk = store.bulk();
    bulk.add(ObjectKind::Blob, id(2), &noise(2, 2_000_000))
        .unwrap();
    drop(bulk.finish().unwrap());
    std::fs::write(dir.path().join("blobs/tmp/left"), b"over").unwrap();
    assert_eq!(blob_keys(&store).len(), 2);
    assert_eq!(
        store.collect(&HashSet::new(), PAST).unwrap(),
        Default::default()
    );
    let collected = store.collect(&HashSet::new(), FUTURE).unwrap();
    assert_eq!((collected.blobs_removed, collected.leftovers), (2, 1));
    assert_eq!(collected.blob_bytes, 2_100_000);
    assert!(blob_keys(&store).is_empty());
}

#[test]
fn readers_do_not_notice_that_packs_are_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let done = AtomicBool::new(false);
    add_bulk(&store, 0..243, 10_000).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let reader = open(dir.path());
                while !done.load(Ordering::SeqCst) {
                    // Too large for the cache, so it is really read.
                    let (_, bytes) = reader.object(&id(0)).unwrap().unwrap();
                    assert!(*bytes == *noise(0, 10_000));
                    let found = reader.read(|tx| {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                        reader.object_in(tx, &id(0))
                    });
                    assert!(found.unwrap().is_some());
                }
            });
        }
        let rewritten: Vec<_> = [81, 27, 9, 3, 1]
            .into_iter()
            .map(|kept| store.collect(&(0..kept).map(id).collect(), FUTURE))
            .collect();
        // Before anything is asserted, or the readers would go on for ever.
        done.store(true, Ordering::SeqCst);
        for collected in rewritten {
            assert_eq!(collected.unwrap().packs_rewritten, 1);
        }
    });
}

/// Everything that a row names can be read.
fn check_whole(dir: &Path) -> HashMap<ObjectId, u64> {
    let store = open(dir);
    let rows = store.read(|tx| tx.objects_after(None, 0, false)).unwrap();
    for row in &rows {
        assert!(
            store
                .verify(&row.id, &mut std::io::sink())
                .unwrap()
                .is_some()
        );
    }
    rows.into_iter().map(|row| (row.id, row.size)).collect()
}

#[test]
fn a_fault_at_any_call_leaves_the_store_whole() {
    let plan = FaultPlan::default();
    let mut n = 0;
    loop {
        n += 1;
        let dir = tempfile::tempdir().unwrap();
        let store = open_faulty(dir.path(), &plan);
        add_bulk(&store, 0..12, 20_000).unwrap();
        plan.arm(n);
        let reachable: HashSet<ObjectId> = (0..3).chain(50..53).map(id).collect();
        let results = [
            add_single(&store, 50, 300),
            add_single(&store, 51, 100_000),
            add_bulk(&store, 52..57, 30_000),
            store.collect(&reachable, FUTURE).map(drop),
        ];
        let struck = plan.disarm();
        let failed = results.iter().filter(|result| result.is_err()).count();
        assert_eq!(
            failed,
            usize::from(struck),
            "one fault, one failure, at call {n}"
        );
        let found = check_whole(dir.path());
        assert!(
            (0..3).all(|number| found.contains_key(&id(number))),
            "at call {n}"
        );
        for (number, result) in [(50, &results[0]), (51, &results[1]), (52, &results[2])] {
            assert_eq!(
                found.contains_key(&id(number)),
                result.is_ok(),
                "{number} at call {n}"
            );
        }
        // And what failed can simply be done again.
        store.collect(&reachable, FUTURE).unwrap();
        check_whole(dir.path());
        if !struck {
            break;
        }
    }
    assert!(n > 30, "only {n} calls were counted");
}

fn add_workspace(store: &Store, name: &str) -> WorkspaceKey {
    let row = WorkspaceRow {
        key: WorkspaceKey(0),
        id: name.parse().unwrap(),
        kind: WorkspaceKind::Standalone,
        layout: Layout::Plain,
        state: WorkspaceState::Open,
        head: None,
        tree: EMPTY_TREE,
        sidecar: EMPTY_TREE,
        revision: 0,
        synced_revision: 0,
        materialized: false,
        handed_out: false,
        created_at: Timestamp::now(),
        changed_at: Timestamp::now(),
        used_at: Timestamp::now(),
        last_sync: None,
        files: 0,
        dirs: 0,
        bytes: 0,
        quota_bytes: None,
        quota_inodes: None,
    };
    store
        .write(Durability::Synced, |tx| tx.add_workspace(&row))
        .unwrap()
}

fn edit(store: &Store, key: WorkspaceKey, path: &str, number: u64, bytes: &[u8]) {
    let object = store.prepare(ObjectKind::Blob, id(number), bytes).unwrap();
    let (path, size) = (RelPath::from_normal(path), bytes.len() as i64);
    let result = store.write(Durability::Relaxed, |tx| {
        let mut row = tx.workspace_by_key(key)?.unwrap();
        row.revision += 1;
        tx.update_workspace(&row)?;
        tx.put_object(&object)?;
        let entry = EntryRow {
            path: path.clone(),
            kind: Some(EntryKind::File),
            opaque: false,
            perm: 0o644,
            id: Some(id(number)),
            size,
            revision: row.revision,
        };
        tx.put_entry(key, &entry)?;
        tx.add_history(&NewHistory {
            workspace: key,
            revision: row.revision,
            at: Timestamp::now(),
            op: HistoryOp::Write,
            via: Via::Call,
            path: path.clone(),
            from: None,
            cause: Cause::by(Operator::new("agent-17")),
            kind: Some(EntryKind::File),
            before: Some(id(number + 1)),
            after: Some(id(number)),
            size,
            mime: None,
            modified: None,
        })
    });
    result.unwrap();
}

#[test]
fn a_thousand_edits_stay_within_their_budget() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let key = add_workspace(&store, "budget");
    for number in 0..1_000 {
        let path = format!("src/module{}/some/file{number}.rs", number % 20);
        edit(&store, key, &path, number, &noise(number, 4096));
    }
    store.meta().tidy().unwrap();
    let used = store.meta().disk_usage().unwrap();
    let budget = 4096 * 1_000 * 12 / 10 + 1024 * 1_000;
    assert!(used <= budget, "{used} bytes, {budget} are allowed");
}

#[test]
fn space_of_collected_rows_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for number in 0..500 {
        add_single(&store, number, 4_000).unwrap();
    }
    store.meta().tidy().unwrap();
    let before = store.meta().disk_usage().unwrap();
    store.collect(&HashSet::new(), FUTURE).unwrap();
    store.meta().tidy().unwrap();
    let after = store.meta().disk_usage().unwrap();
    assert!(after < before / 4, "{before} became {after}");
}

fn holds(dir: &Path, secret: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, secret);
        }
        std::fs::read(&path)
            .unwrap()
            .windows(secret.len())
            .any(|window| window == secret)
    })
}

#[test]
fn what_was_erased_and_scrubbed_cannot_be_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let kept = add_workspace(&store, "kept");
    let erased = add_workspace(&store, "erased");
    let secret = b"s3cr3t-7f1d0c";
    for number in 0..200 {
        edit(
            &store,
            kept,
            &format!("kept{number}"),
            1_000 + number,
            &noise(number, 300),
        );
        let content = [&secret[..], &noise(number, 40)].concat();
        edit(
            &store,
            erased,
            &format!("s3cr3t-7f1d0c/{number}"),
            number,
            &content,
        );
    }
    assert!(holds(dir.path(), secret));
    store
        .write(Durability::Synced, |tx| tx.erase_workspace(erased))
        .unwrap();
    let reachable: HashSet<ObjectId> = (1_000..1_200).map(id).collect();
    store.collect(&reachable, FUTURE).unwrap();
    assert!(
        holds(dir.path(), secret),
        "deleting alone leaves traces, or this test shows nothing"
    );
    store.meta().scrub().unwrap();
    assert!(!holds(dir.path(), secret));
    assert!(holds(dir.path(), b"kept17"));
    assert_eq!(store.object(&id(1_017)).unwrap().unwrap().1.len(), 300);
}
