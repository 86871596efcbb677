//! What the operations of this crate cost: `cargo bench -p offshoot-git`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints, and panics"
)]

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use offshoot_core::{ObjectId, RelPath};
use offshoot_git::{
    Edit, EmptyDirs, IgnoreRules, Kind, MemoryObjects, ObjectHasher, TreeBuilder, diff, edit, hash,
    lookup, pack_objects, walk, walk_objects,
};

const FILES: usize = 100_000;

/// The median time of some runs.
fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[runs / 2]
}

fn report(what: &str, time: Duration) {
    println!("{what:<48} {:>10.3} ms", time.as_secs_f64() * 1000.0);
}

fn throughput(what: &str, bytes: usize, time: Duration) {
    println!(
        "{what:<48} {:>10.0} MB/s",
        bytes as f64 / 1e6 / time.as_secs_f64()
    );
}

fn main() {
    let bytes: Vec<u8> = (0..32_000_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    throughput(
        "hash, 32 MB at once",
        bytes.len(),
        median(5, || drop(hash(Kind::Blob, &bytes))),
    );
    let pieces = median(5, || {
        let mut hasher = ObjectHasher::new(Kind::Blob, bytes.len() as u64);
        bytes
            .chunks(64 * 1024)
            .for_each(|chunk| hasher.update(chunk));
        hasher.finish().unwrap();
    });
    throughput("hash, 32 MB in pieces of 64 KiB", bytes.len(), pieces);
    let small = median(5, || {
        bytes
            .chunks(4096)
            .for_each(|chunk| drop(hash(Kind::Blob, chunk)));
    });
    throughput("hash, blobs of 4 KiB", bytes.len(), small);
    trees();
    ignore_rules();
    packs(&bytes);
}

fn path(index: usize) -> RelPath {
    let text = format!(
        "src/d{:03}/e{:02}/file{index}.rs",
        index % 100,
        index / 100 % 20
    );
    RelPath::parse(text.as_bytes()).unwrap()
}

fn trees() {
    let blob = hash(Kind::Blob, b"x").unwrap();
    let mut paths: Vec<RelPath> = (0..FILES).map(path).collect();
    paths.sort();
    let build = |objects: &MemoryObjects| {
        let mut sink = objects;
        let mut builder = TreeBuilder::new(&mut sink);
        paths
            .iter()
            .for_each(|path| builder.push(path, 0o100_644, blob).unwrap());
        builder.finish().unwrap()
    };
    let objects = MemoryObjects::new();
    let root = build(&objects);
    report(
        "build a tree of 100 k files",
        median(5, || drop(build(&MemoryObjects::new()).to_hex())),
    );
    let other = hash(Kind::Blob, b"y").unwrap();
    let put = Edit::Put {
        mode: 0o100_644,
        id: other,
    };
    let edits: BTreeMap<RelPath, Edit> = (0..10).map(|n| (path(n * 7919), put)).collect();
    let run = || edit(&objects, root, &edits, EmptyDirs::Vanish, &mut &objects).unwrap();
    let edited = run();
    report(
        "edit 10 files of 100 k",
        median(51, || drop(run().to_hex())),
    );
    let all: BTreeMap<RelPath, Edit> = paths.iter().map(|path| (path.clone(), put)).collect();
    let every = median(3, || {
        drop(edit(&objects, root, &all, EmptyDirs::Vanish, &mut &objects));
    });
    report("edit all of 100 k files", every);
    let compare = |a: ObjectId, b: ObjectId| {
        let mut count = 0;
        diff(&objects, a, b, |_, _, _| {
            count += 1;
            Ok(())
        })
        .unwrap();
        count
    };
    assert_eq!(compare(root, edited), 10);
    report(
        "diff with 10 changes in 100 k files",
        median(51, || drop(compare(root, edited).to_string())),
    );
    report(
        "walk 100 k files",
        median(5, || walk(&objects, root, |_, _| Ok(())).unwrap()),
    );
    let reach = || walk_objects(&objects, root, &mut HashSet::new(), |_, _| Ok(())).unwrap();
    report("walk the objects of 100 k files", median(5, reach));
    let probe = path(4711);
    report(
        "look a path up",
        median(101, || drop(lookup(&objects, root, &probe))),
    );
}

fn ignore_rules() {
    let rules = b"*.o\n*.log\n/target\nnode_modules/\n__pycache__/\n**/dist/**\n*.py[cod]\n!keep.log\n.env\nbuild/";
    let root = IgnoreRules::root().child(&RelPath::root(), Some(rules), None);
    let dir = RelPath::parse(b"src").unwrap();
    let inner = root.child(&dir, None, None);
    let paths: Vec<RelPath> = (0..FILES)
        .map(|n| dir.join_name(format!("file{n}.rs").as_bytes()))
        .collect();
    let ask = || assert!(!paths.iter().any(|path| inner.is_ignored(path, false)));
    report("ignore verdicts, 100 k files, 10 rules", median(5, ask));
}

fn packs(bytes: &[u8]) {
    let objects = MemoryObjects::new();
    // Text-like content: every byte from a small alphabet.
    let text: Vec<u8> = bytes
        .iter()
        .map(|byte| b"etaoin shrdlu\n{}"[usize::from(byte & 15)])
        .collect();
    let ids: Vec<ObjectId> = text
        .chunks(4096)
        .map(|chunk| objects.add(Kind::Blob, chunk).unwrap())
        .collect();
    let run = || drop(pack_objects(std::io::sink(), &objects, &ids, &mut |_| ()).unwrap());
    throughput("pack, blobs of 4 KiB", text.len(), median(3, run));
}
