//! Power cuts under load: copies of a block image, mounted as the machine would find it after.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use offshoot_core::{Cause, Layout, Operator, RelPath, WorkspaceId};
use offshoot_engine::{Content, Engine, EngineOptions, Quota, WriteOptions};
use offshoot_testkit::{FileSystem, LoopImage, Rng, skip, soak};

const WRITERS: usize = 8;

fn cause() -> Cause {
    Cause::by(Operator::new("load"))
}

/// The versions of one path: each is written by one thread in order, so a later version may have
/// replaced an acknowledged one, and nothing else may.
#[derive(Default)]
struct Versions {
    acknowledged: BTreeMap<String, u64>,
}

fn content(path: &str, version: u64) -> Vec<u8> {
    let mut rng = Rng::new(version ^ path.len() as u64);
    let mut bytes = vec![0; rng.between(1, 6_000)];
    rng.fill(&mut bytes);
    let mut whole = format!("{path} {version} {}\n", bytes.len()).into_bytes();
    whole.extend(bytes);
    whole
}

/// The version that a file holds; none unless it is whole.
fn version_of(path: &str, bytes: &[u8]) -> Option<u64> {
    let line = bytes.split(|&byte| byte == b'\n').next()?;
    let version = std::str::from_utf8(line)
        .ok()?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    (content(path, version) == bytes).then_some(version)
}

fn load(
    engine: &Engine,
    ws: &WorkspaceId,
    writer: usize,
    stop: &AtomicBool,
    versions: &Mutex<Versions>,
    next: &AtomicU64,
) {
    let mut rng = Rng::new(writer as u64 + 99);
    while !stop.load(Ordering::Relaxed) {
        let path = format!("w{writer}/d{}/f{}", rng.below(3), rng.below(5));
        let version = next.fetch_add(1, Ordering::Relaxed);
        let bytes = content(&path, version);
        let rel = RelPath::parse(path.as_bytes()).unwrap();
        engine
            .workspaces
            .write_file(
                ws,
                &rel,
                Content::Bytes(&bytes),
                &WriteOptions::default(),
                &cause(),
            )
            .unwrap();
        versions.lock().unwrap().acknowledged.insert(path, version);
        if writer == 0 && rng.chance(100) {
            engine
                .workspaces
                .snapshot(ws, None, false, &cause())
                .unwrap();
        }
        if writer == 1 && rng.chance(20) {
            engine.directories.checkpoint().unwrap();
        }
    }
}

fn inspect(root: &Path, ws: &WorkspaceId, acknowledged: &BTreeMap<String, u64>) {
    let engine = Engine::open(EngineOptions::new(root.join("data"))).unwrap();
    for (path, version) in acknowledged {
        let rel = RelPath::parse(path.as_bytes()).unwrap();
        let (bytes, _) = engine.workspaces.read_whole(ws, &rel).unwrap();
        let found = version_of(path, &bytes);
        assert!(
            found >= Some(*version),
            "{path}: version {version} was acknowledged, {found:?} is there"
        );
        let on_disk = engine.workspaces.hand_out_path(ws).unwrap().join(path);
        let on_disk = std::fs::read(on_disk).unwrap();
        assert!(!on_disk.is_empty(), "{path} is empty");
        assert_eq!(on_disk, bytes, "{path} on disk");
    }
    assert_eq!(engine.upkeep.check().unwrap().problems, []);
}

#[test]
fn power_cut_loses_nothing_acknowledged() {
    power_cut(false);
}

#[test]
fn power_cut_loses_nothing_acknowledged_in_a_directory() {
    power_cut(true);
}

fn power_cut(handed_out: bool) {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let cuts = if soak() { 20 } else { 2 };
    let image = LoopImage::create_for_power_cut(FileSystem::Ext4, 512 << 20);
    let engine = Engine::open(EngineOptions::new(image.path().join("data"))).unwrap();
    let ws: WorkspaceId = "w".parse().unwrap();
    engine
        .workspaces
        .create_workspace(Some(ws.clone()), Layout::Plain, Quota::default(), &cause())
        .unwrap();
    if handed_out {
        engine.workspaces.hand_out_path(&ws).unwrap();
    }
    let (stop, versions, next) = (
        AtomicBool::new(false),
        Mutex::new(Versions::default()),
        AtomicU64::new(1),
    );
    let mut checked = 0;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (engine, ws, stop, versions, next) = (&engine, &ws, &stop, &versions, &next);
            scope.spawn(move || load(engine, ws, writer, stop, versions, next));
        }
        // Writers end also when an assertion below fails.
        let _end = StopOnDrop(&stop);
        let mut rng = Rng::new(7);
        for _ in 0..cuts {
            std::thread::sleep(Duration::from_millis(rng.between(150, 900) as u64));
            let acknowledged = versions.lock().unwrap().acknowledged.clone();
            let copy = image.copy_image().mount();
            inspect(copy.path(), &ws, &acknowledged);
            checked += acknowledged.len();
        }
    });
    let writes = next.into_inner();
    println!(
        "soak: power: {cuts} cuts during {writes} writes by {WRITERS} writers, {checked} acknowledged files looked at, none lost, none empty, check clean"
    );
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
