//! Measures the store in a directory of your choice: `store_bench DIR`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool for developers"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use offshoot_core::{
    Cause, EMPTY_TREE, EntryKind, Layout, ObjectId, ObjectKind, Operator, RelPath, Timestamp,
};
use offshoot_store::{
    DiskBlobs, Durability, EntryRow, HistoryOp, NewHistory, SqliteOptions, SqliteStore, Store, Via,
    WorkspaceKey, WorkspaceRow, WorkspaceState,
};

fn main() {
    let dir = std::env::args().nth(1).expect("usage: store_bench DIR");
    let dir = Path::new(&dir).join(format!("store_bench.{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    commits(&open(&dir, "commits", SqliteOptions::default()));
    bulk(&open(&dir, "bulk", SqliteOptions::default()));
    row_by_row(&open(&dir, "rows", SqliteOptions::default()));
    reads(&open(&dir, "bulk", SqliteOptions::default()));
    inline_or_blob(&open(&dir, "inline", SqliteOptions::default()));
    for page_size in [4096, 8192, 16384, 32768] {
        let options = SqliteOptions {
            page_size,
            ..SqliteOptions::default()
        };
        edits(
            &open(&dir, &format!("edits{page_size}"), options),
            page_size,
        );
    }
    println!("memory: {}", memory());
    std::fs::remove_dir_all(&dir).unwrap();
}

fn open(dir: &Path, name: &str, options: SqliteOptions) -> Store {
    let meta = SqliteStore::open(&dir.join(format!("{name}.db")), options).unwrap();
    let blobs = DiskBlobs::open(&dir.join(format!("{name}.blobs"))).unwrap();
    Store::without_hashing(Arc::new(meta), Arc::new(blobs))
}

fn id(number: u64) -> ObjectId {
    let mut bytes = [0; 20];
    for (index, part) in bytes.chunks_mut(8).enumerate() {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * index as u64);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        part.copy_from_slice(&mixed.to_le_bytes()[..part.len()]);
    }
    ObjectId::from_bytes(bytes)
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Looks like source: about 800 bytes that compress to a half.
fn source(number: u64) -> Vec<u8> {
    let mut text = String::new();
    for line in 0..14 {
        let value = noise(number * 31 + line, 5);
        text.push_str(&format!(
            "    let value_{line} = compute({value:?}, {number});\n"
        ));
    }
    text.truncate(800);
    text.into_bytes()
}

fn add_workspace(store: &Store, name: &str) -> WorkspaceKey {
    let row = WorkspaceRow {
        key: WorkspaceKey(0),
        id: name.parse().unwrap(),
        kind: offshoot_store::WorkspaceKind::Standalone,
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

/// What one `put` of a file does: object, entry, history, workspace.
fn edit(store: &Store, key: WorkspaceKey, number: u64, bytes: &[u8], durability: Durability) {
    let object = store.prepare(ObjectKind::Blob, id(number), bytes).unwrap();
    let path = RelPath::from_normal(format!("src/module{}/file{number}.rs", number % 50));
    let result = store.write(durability, |tx| {
        let mut row = tx.workspace_by_key(key)?.unwrap();
        row.revision += 1;
        tx.update_workspace(&row)?;
        tx.put_object(&object)?;
        tx.put_entry(
            key,
            &EntryRow {
                path: path.clone(),
                kind: Some(EntryKind::File),
                opaque: false,
                perm: 0o644,
                id: Some(id(number)),
                size: bytes.len() as i64,
                revision: row.revision,
            },
        )?;
        tx.add_history(&NewHistory {
            workspace: key,
            revision: row.revision,
            at: Timestamp::now(),
            op: HistoryOp::Create,
            via: Via::Call,
            path: path.clone(),
            from: None,
            cause: Cause::by(Operator::user()),
            kind: Some(EntryKind::File),
            before: None,
            after: Some(id(number)),
            size: bytes.len() as i64,
            mime: None,
            modified: None,
        })
    });
    result.unwrap();
}

fn commits(store: &Store) {
    let mut number = 0;
    for durability in [Durability::Synced, Durability::Relaxed] {
        for writers in [1, 16, 64u64] {
            let key = add_workspace(store, &format!("{durability:?}-{writers}"));
            let until = Instant::now() + Duration::from_secs(2);
            number += 10_000_000;
            let done: u64 = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..writers)
                    .map(|writer| {
                        let first = number + writer * 100_000;
                        scope.spawn(move || {
                            let mut done = 0;
                            while Instant::now() < until {
                                edit(
                                    store,
                                    key,
                                    first + done,
                                    &noise(first + done, 300),
                                    durability,
                                );
                                done += 1;
                            }
                            done
                        })
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .sum()
            });
            println!("edits/s, {durability:?}, {writers} writers: {}", done / 2);
        }
    }
}

fn bulk(store: &Store) {
    let contents: Vec<Vec<u8>> = (0..100_000).map(source).collect();
    let (start, cpu_before) = (Instant::now(), cpu());
    let bulk = store.bulk();
    for (number, bytes) in contents.iter().enumerate() {
        bulk.add(ObjectKind::Blob, id(number as u64), bytes)
            .unwrap();
    }
    let added = start.elapsed();
    let bulk = bulk.finish().unwrap();
    let durable = start.elapsed();
    store
        .write(Durability::Synced, |tx| bulk.insert(tx))
        .unwrap();
    let total = start.elapsed();
    println!(
        "bulk of 100,000 x 800 B: added {added:.2?}, durable {durable:.2?}, committed {total:.2?}, \
         processor {:.2?}; {} MB in packs, {} MB in rows",
        cpu() - cpu_before,
        bulk.pack_bytes() / 1_000_000,
        store.meta().disk_usage().unwrap() / 1_000_000,
    );
}

fn row_by_row(store: &Store) {
    let contents: Vec<Vec<u8>> = (0..100_000).map(source).collect();
    let (start, cpu_before) = (Instant::now(), cpu());
    let objects: Vec<_> = contents
        .iter()
        .enumerate()
        .map(|(number, bytes)| {
            store
                .prepare(ObjectKind::Blob, id(number as u64), bytes)
                .unwrap()
        })
        .collect();
    let prepared = start.elapsed();
    store
        .write(Durability::Synced, |tx| {
            objects
                .iter()
                .try_for_each(|object| tx.put_object(object).map(drop))
        })
        .unwrap();
    println!(
        "the same as rows: prepared {prepared:.2?}, committed {:.2?}, processor {:.2?}",
        start.elapsed(),
        cpu() - cpu_before
    );
}

fn reads(store: &Store) {
    let key = add_workspace(store, "reads");
    for number in 0..2_000 {
        edit(
            store,
            key,
            1_000_000 + number,
            &source(number),
            Durability::Relaxed,
        );
    }
    let time = |what: &str, work: &mut dyn FnMut(u64)| {
        let start = Instant::now();
        for round in 0..20_000u64 {
            work(round.wrapping_mul(7919));
        }
        println!("{what}: {:.2?}", start.elapsed() / 20_000);
    };
    time("read transaction without a look-up", &mut |_| {
        store.read(|_| Ok(())).unwrap();
    });
    time("read transaction with a workspace", &mut |_| {
        store.read(|tx| tx.workspace_by_key(key)).unwrap().unwrap();
    });
    time("entries on a path of three", &mut |round| {
        let number = 1_000_000 + round % 2_000;
        let path = RelPath::from_normal(format!("src/module{}/file{number}.rs", number % 50));
        assert_eq!(
            store
                .read(|tx| tx.entries_on_path(key, &path))
                .unwrap()
                .len(),
            1
        );
    });
    time("a directory of 40 entries", &mut |round| {
        let dir = RelPath::from_normal(format!("src/module{}", round % 50));
        assert_eq!(store.read(|tx| tx.entries_in(key, &dir)).unwrap().len(), 40);
    });
    time("object from a pack", &mut |round| {
        store.object(&id(round % 100_000)).unwrap().unwrap();
    });
    time("object from a row, 2,000 in turn (cached)", &mut |round| {
        store
            .object(&id(1_000_000 + round % 2_000))
            .unwrap()
            .unwrap();
    });
}

/// Where rows stop paying against blobs of their own.
fn inline_or_blob(store: &Store) {
    let mut number = 0;
    for kib in [4usize, 16, 32, 64, 128, 256] {
        let contents: Vec<_> = (0..40)
            .map(|seed| noise(seed + kib as u64, kib << 10))
            .collect();
        let start = Instant::now();
        for bytes in &contents {
            number += 1;
            let key = format!("object/{}", id(number));
            let put = store.blobs().put(&key, &mut |out| {
                out.write_all(bytes)
                    .map_err(|_| offshoot_core::Error::internal("put"))
            });
            put.unwrap();
            store
                .write(Durability::Synced, |tx| {
                    tx.put_setting("n", &number.to_string())
                })
                .unwrap();
        }
        let blob = start.elapsed() / 40;
        let start = Instant::now();
        for bytes in &contents {
            number += 1;
            let text: String = bytes
                .iter()
                .map(|byte| (b'a' + byte % 26) as char)
                .collect();
            store
                .write(Durability::Synced, |tx| {
                    tx.put_setting(&number.to_string(), &text)
                })
                .unwrap();
        }
        println!(
            "{kib} KiB: blob and commit {blob:.2?}, row {:.2?}",
            start.elapsed() / 40
        );
    }
}

fn edits(store: &Store, page_size: u32) {
    let key = add_workspace(store, "edits");
    let start = Instant::now();
    for number in 0..1_000 {
        edit(
            store,
            key,
            number,
            &noise(number, 4096),
            Durability::Relaxed,
        );
    }
    let took = start.elapsed() / 1_000;
    store.meta().tidy().unwrap();
    let bytes = store.meta().disk_usage().unwrap();
    println!(
        "1,000 edits of 4 KiB with {page_size} B pages: {} B each on disk, {took:.2?} each",
        bytes / 1_000
    );
}

/// Processor time of the whole process so far, for a machine that has other things to do.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = stat
        .split(' ')
        .skip(13)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap_or(0))
        .sum();
    Duration::from_millis(ticks * 10)
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let wanted = |line: &&str| line.starts_with("VmHWM") || line.starts_with("VmRSS");
    status.lines().filter(wanted).collect::<Vec<_>>().join(", ")
}
