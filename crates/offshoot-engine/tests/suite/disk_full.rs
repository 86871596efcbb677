//! A full disk: operations that free space work, those that need some are refused with the right
//! code, nothing acknowledged is lost, and work continues by itself.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::fixture::{p, try_write, user};
use offshoot_core::{ErrorCode, Layout, ProjectId, Result, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Content, Engine, EngineOptions, ForkOptions, Quota, WriteOptions, reserve_in,
};
use offshoot_testkit::{FileSystem, LoopImage, Rng, skip};

const DISK: u64 = 64 << 20;

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    Rng::new(seed).fill(&mut noise);
    noise
}

fn workspace(engine: &Engine, name: &str) -> Result<WorkspaceId> {
    let id: WorkspaceId = name.parse().unwrap();
    engine.workspaces.create_workspace(
        Some(id.clone()),
        Layout::Plain,
        Quota::default(),
        &user(),
    )?;
    Ok(id)
}

/// Fills the disk to the last byte with a file outside of the data directory.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("foreign");
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(&path)
        .unwrap();
    let mut length = 0;
    loop {
        for step in [1 << 20, 64 << 10, 4 << 10, 512, 1] {
            let bytes = vec![7; step];
            while file
                .write_all(&bytes)
                .and_then(|()| file.sync_all())
                .is_ok()
            {}
        }
        // Space of a deleted file is free after the journal of the file system has recorded that.
        File::open(disk).unwrap().sync_all().unwrap();
        let now = file.metadata().unwrap().len();
        if std::mem::replace(&mut length, now) == now {
            return path;
        }
    }
}

#[track_caller]
fn assert_full<T>(answer: Result<T>) {
    let Err(error) = answer else {
        panic!("the disk was not full");
    };
    assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error:?}");
    assert!(error.is_disk_full(), "{error:?}");
    assert!(
        error.hint().is_some_and(|hint| hint.contains("purge")),
        "{error:?}"
    );
}

fn open(disk: &Path) -> Engine {
    Engine::open(EngineOptions::new(disk.join("data"))).unwrap()
}

fn assert_whole(engine: &Engine) {
    engine.context.wait_for_jobs();
    assert_eq!(engine.upkeep.check().unwrap().problems, []);
}

#[test]
fn loop_a_disk_that_somebody_filled_has_a_way_out() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let disk = LoopImage::create(FileSystem::Ext4, DISK);
    let engine = open(disk.path());
    let (wanted, held) = reserve_in(&disk.path().join("data"));
    assert!(
        wanted < 4 << 20,
        "a small disk has a small reserve: {wanted}"
    );
    assert_eq!(held, Some(wanted));
    let project: ProjectId = "web".parse().unwrap();
    engine.projects.create_project(&project, &user()).unwrap();
    let options = WriteOptions::default();
    let put = |path: &str, text: &[u8]| {
        engine
            .projects
            .put_in_project(&project, &p(path), Content::Bytes(text), &options, &user())
    };
    put("README", b"read me\n").unwrap();
    let fork = ForkOptions::default();
    let (mine, path) = engine.forks.fork_out(&project, &fork, &user()).unwrap();
    fs::write(path.join("README"), b"mine\n").unwrap();
    fs::write(path.join("big"), noise(300, 1_000_000)).unwrap();
    let one = workspace(&engine, "one").unwrap();
    let two = workspace(&engine, "two").unwrap();
    let three = workspace(&engine, "three").unwrap();
    for number in 0..8 {
        try_write(&engine, &one, &p(&format!("small-{number}")), b"small").unwrap();
        let large = noise(number, 300_000);
        try_write(&engine, &one, &p(&format!("large-{number}")), &large).unwrap();
        let path = p(&format!("large-{number}"));
        try_write(&engine, &two, &path, &noise(100 + number, 90_000)).unwrap();
    }
    try_write(&engine, &three, &p("f"), &noise(200, 500_000)).unwrap();

    let foreign = fill(disk.path());
    // Operations that need a block. A small commit may still fit into the existing log.
    let refused = || {
        assert_full(try_write(&engine, &one, &p("new"), b"small"));
        assert_full(try_write(&engine, &one, &p("small-7"), &noise(1, 70_000)));
        assert_full(try_write(&engine, &one, &p("new"), &noise(1, 3_000_000)));
        assert_full(engine.workspaces.make_dir_in(&one, &p("dir"), &user()));
        assert_full(engine.forks.fork_out(&project, &fork, &user()));
        assert_full(engine.merges.complete(
            &mine.workspace.id,
            &CompleteOptions::default(),
            &user(),
        ));
        assert_full(put("big", &noise(9, 1_000_000)));
        if let Err(error) = engine.workspaces.snapshot(&one, None, false, &user()) {
            assert_full::<()>(Err(error));
        }
    };
    refused();
    // Deleting single files, each on a completely full disk.
    for number in 0..4 {
        engine
            .workspaces
            .delete_file(&one, &p(&format!("small-{number}")), false, &user())
            .unwrap();
        fill(disk.path());
        refused();
    }
    let rest = engine
        .workspaces
        .delete_file(&one, &p("large-0"), false, &user());
    assert_eq!(rest.unwrap().files, 1);
    // The next process can open it, read and delete.
    fill(disk.path());
    let other = open(disk.path());
    assert_eq!(
        other.workspaces.read_whole(&one, &p("large-1")).unwrap().0,
        noise(1, 300_000)
    );
    other.workspaces.delete_workspace(&two, &user()).unwrap();
    fill(disk.path());
    engine.upkeep.clean(Duration::ZERO, false, &user()).unwrap();
    fill(disk.path());
    let purged = other.upkeep.purge_workspace(&two).unwrap();
    assert_eq!(purged.workspaces, 1);
    drop(other);
    fill(disk.path());
    engine.upkeep.purge_path(&three, &p("f"), &user()).unwrap();
    engine.context.wait_for_jobs();
    fill(disk.path());
    refused();

    // After space is freed, the same engine continues.
    fs::remove_file(&foreign).unwrap();
    try_write(&engine, &one, &p("new"), &noise(5, 3_000_000)).unwrap();
    assert_eq!(
        engine.workspaces.read_whole(&one, &p("new")).unwrap().0,
        noise(5, 3_000_000)
    );
    put("README", b"newer\n").unwrap();
    let done = engine
        .merges
        .complete(&mine.workspace.id, &CompleteOptions::default(), &user());
    assert_eq!(done.unwrap().conflicts.len(), 1);
    engine
        .upkeep
        .clean(Duration::from_secs(3600), false, &user())
        .unwrap();
    assert_eq!(reserve_in(&disk.path().join("data")).1, Some(wanted));
    assert_whole(&engine);
}

/// What has to be recorded first does not fit: the error says so, and `purge` still works.
#[test]
fn loop_what_needs_more_than_the_reserve_points_to_purge() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let disk = LoopImage::create(FileSystem::Ext4, DISK);
    let engine = open(disk.path());
    let id = workspace(&engine, "one").unwrap();
    try_write(&engine, &id, &p("f"), b"f").unwrap();
    let path = engine.workspaces.hand_out_path(&id).unwrap();
    // Changes of an outside program that no version holds yet.
    fs::write(path.join("outside"), noise(1, 12_000_000)).unwrap();
    fill(disk.path());
    let refused = engine
        .workspaces
        .delete_workspace(&id, &user())
        .unwrap_err();
    assert!(refused.is_disk_full(), "{refused:?}");
    assert!(
        refused.hint().unwrap().contains("purge workspace"),
        "{refused:?}"
    );
    assert_eq!(
        fs::read(path.join("outside")).unwrap(),
        noise(1, 12_000_000)
    );
    engine.upkeep.purge_workspace(&id).unwrap();
    assert!(!path.exists());
    let id = workspace(&engine, "two").unwrap();
    try_write(&engine, &id, &p("f"), &noise(2, 1_000_000)).unwrap();
    assert_whole(&engine);

    // Without a reserve it cannot be opened, and SQLite itself does not say why.
    drop(engine);
    fs::remove_file(disk.path().join("data/reserve")).unwrap();
    let foreign = fill(disk.path());
    assert_full(Engine::open(EngineOptions::new(disk.path().join("data"))).map(drop));
    fs::remove_file(foreign).unwrap();
    assert_whole(&open(disk.path()));
}

/// A history that is longer than the reserve can be erased.
#[test]
fn loop_a_long_history_is_purged_on_a_full_disk() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let disk = LoopImage::create(FileSystem::Ext4, DISK);
    let engine = open(disk.path());
    let id = workspace(&engine, "one").unwrap();
    let path = engine.workspaces.hand_out_path(&id).unwrap();
    let name = "n".repeat(200);
    fs::create_dir(path.join("d")).unwrap();
    for number in 0..4_500 {
        fs::write(path.join(format!("d/{name}-{number}")), b"same").unwrap();
    }
    engine.sync.sync_workspace(&id).unwrap();
    engine
        .workspaces
        .delete_file(&id, &p("d"), true, &user())
        .unwrap();
    engine.directories.checkpoint().unwrap();
    let rows = fs::metadata(disk.path().join("data/offshoot.db"));
    let (reserve, _) = reserve_in(&disk.path().join("data"));
    assert!(rows.unwrap().len() > 2 * reserve);
    fill(disk.path());
    engine.upkeep.purge_workspace(&id).unwrap();
    let id = workspace(&engine, "two").unwrap();
    try_write(&engine, &id, &p("f"), b"f").unwrap();
    assert_whole(&engine);
}

/// Writers fill the disk themselves. What was acknowledged is there, other writes are refused as
/// full, and after some files are deleted and erased writes continue.
#[test]
fn loop_our_own_writes_fill_the_disk_and_lose_nothing() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let disk = LoopImage::create(FileSystem::Ext4, DISK);
    let engine = open(disk.path());
    let ids: Vec<WorkspaceId> = (0..4)
        .map(|number| workspace(&engine, &format!("w{number}")).unwrap())
        .collect();
    let acknowledged: Mutex<BTreeMap<(usize, String), Vec<u8>>> = Mutex::default();
    std::thread::scope(|scope| {
        for (writer, id) in ids.iter().enumerate() {
            let (engine, acknowledged) = (&engine, &acknowledged);
            scope.spawn(move || {
                let mut refused = 0;
                for number in 0_u64.. {
                    let size = [900, 30_000, 100_000, 700_000][number as usize % 4];
                    let content = noise(writer as u64 * 10_000 + number, size);
                    let path = format!("d/{}", number % 60);
                    match try_write(engine, id, &p(&path), &content) {
                        Ok(_) => {
                            let mut all = acknowledged.lock().unwrap();
                            all.insert((writer, path), content);
                        }
                        refusal => {
                            assert_full(refusal);
                            refused += 1;
                        }
                    }
                    if refused > 8 {
                        return;
                    }
                }
            });
        }
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    let all_there = |engine: &Engine, except: usize| {
        for ((writer, path), content) in &acknowledged {
            if *writer != except {
                let (read, _) = engine
                    .workspaces
                    .read_whole(&ids[*writer], &p(path))
                    .unwrap();
                assert!(read == *content, "{path} of {writer}");
            }
        }
    };
    all_there(&engine, usize::MAX);
    // No process has it open any more, so the next one needs files that do not exist.
    drop(engine);
    fill(disk.path());
    let engine = open(disk.path());
    all_there(&engine, usize::MAX);
    assert_whole(&engine);
    // Opening moved the log of the last process into the database, which freed space.
    fill(disk.path());
    assert_full(try_write(&engine, &ids[1], &p("after"), &noise(1, 400_000)));
    engine
        .workspaces
        .delete_file(&ids[0], &p("d"), true, &user())
        .unwrap();
    engine
        .workspaces
        .delete_workspace(&ids[0], &user())
        .unwrap();
    engine.upkeep.purge_workspace(&ids[0]).unwrap();
    try_write(&engine, &ids[1], &p("after"), &noise(1, 400_000)).unwrap();
    all_there(&engine, 0);
    assert_whole(&engine);
    drop(engine);
    let engine = open(disk.path());
    all_there(&engine, 0);
    assert_whole(&engine);
}
