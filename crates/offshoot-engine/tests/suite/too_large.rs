//! A file of terabytes in a directory is never read and never removed, answers name it, and
//! everything else works.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::cancel::Cancel;
use offshoot_core::{ErrorCode, WorkspaceId};
use offshoot_engine::{CompleteOptions, Content, Engine, Quota, WriteOptions};
use offshoot_fs::ProviderName;

const HUGE: u64 = 15 << 40;

fn make_huge(path: &Path) {
    File::create(path).unwrap().set_len(HUGE).unwrap();
}

fn is_there(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() == HUGE)
}

fn workspace(engine: &Engine, name: &str, quota: Quota) -> (WorkspaceId, std::path::PathBuf) {
    let id: WorkspaceId = name.parse().unwrap();
    let made =
        engine
            .workspaces
            .create_workspace(Some(id.clone()), Default::default(), quota, &user());
    made.unwrap();
    let path = engine.workspaces.hand_out_path(&id).unwrap();
    (id, path)
}

fn write(engine: &Engine, id: &WorkspaceId, path: &str) -> Result<(), ErrorCode> {
    let (content, options) = (Content::Bytes(b"new"), WriteOptions::default());
    let written = engine
        .workspaces
        .write_file(id, &p(path), content, &options, &user());
    written.map(drop).map_err(|error| error.code())
}

/// Whether this process has a file open.
fn is_open(path: &Path) -> bool {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut open = open.filter_map(|one| fs::read_link(one.path()).ok());
    open.any(|open| open == path)
}

#[test]
fn a_workspace_with_a_huge_file_stays_usable_and_keeps_it() {
    let test = TestEngine::new(ProviderName::Copy);
    let engine = &test.engine;
    let (id, dir) = workspace(engine, "w", Quota::default());
    fs::write(dir.join("small"), "one").unwrap();
    // A file that was small at the last sync.
    fs::write(dir.join("grows"), "small").unwrap();
    let first = engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap()
        .snapshot;
    make_huge(&dir.join("grows"));
    make_huge(&dir.join("huge"));
    fs::write(dir.join("small"), "two").unwrap();

    let synced = engine.sync.sync_workspace(&id).unwrap();
    let changed: Vec<String> = synced
        .changes
        .iter()
        .map(|one| one.path.to_text())
        .collect();
    assert_eq!(changed, ["small"]);
    let named = |files: &[offshoot_engine::TooLarge]| {
        assert!(files.iter().all(|file| file.size == HUGE));
        files
            .iter()
            .map(|file| file.path.to_text())
            .collect::<Vec<_>>()
    };
    assert_eq!(named(&synced.too_large), ["grows", "huge"]);
    let changes = engine.sync.changes(&id).unwrap();
    assert_eq!(named(&changes.too_large), ["grows", "huge"]);
    assert_eq!(changes.set.changes.len(), 1);

    let second = engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap()
        .snapshot;
    assert_eq!(
        engine
            .workspaces
            .file_at(&id, &second.id.to_hex(), &p("small"))
            .unwrap(),
        b"two"
    );
    write(engine, &id, "other").unwrap();
    for path in ["huge", "grows"] {
        // Operations that would read or replace the file are refused.
        assert_eq!(write(engine, &id, path), Err(ErrorCode::PayloadTooLarge));
        let read = engine
            .workspaces
            .open_file(&id, &p(path))
            .map(drop)
            .unwrap_err();
        assert_eq!(read.code(), ErrorCode::PayloadTooLarge);
        let deleted = engine
            .workspaces
            .delete_file(&id, &p(path), false, &user())
            .unwrap_err();
        assert_eq!(deleted.code(), ErrorCode::PayloadTooLarge);
    }
    // The file is not removed with its directory either.
    fs::create_dir(dir.join("deep")).unwrap();
    make_huge(&dir.join("deep/huge"));
    fs::write(dir.join("deep/small"), "s").unwrap();
    let deleted = engine
        .workspaces
        .delete_file(&id, &p("deep"), true, &user());
    assert_eq!(deleted.unwrap_err().code(), ErrorCode::PayloadTooLarge);
    assert!(is_there(&dir.join("deep/huge")) && dir.join("deep/small").exists());
    fs::remove_dir_all(dir.join("deep")).unwrap();
    // A restore leaves other paths alone, and refuses to remove the file.
    engine
        .workspaces
        .restore(&id, &first.id.to_hex(), Some(&p("small")), &user())
        .unwrap();
    assert_eq!(fs::read(dir.join("small")).unwrap(), b"one");
    let empty = engine
        .workspaces
        .snapshots(&id, 0)
        .unwrap()
        .last()
        .unwrap()
        .id;
    assert_eq!(empty, first.id);
    fs::remove_file(dir.join("grows")).unwrap();
    engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap();
    make_huge(&dir.join("grows"));
    let restored = engine
        .workspaces
        .restore(&id, &first.id.to_hex(), None, &user())
        .unwrap_err();
    assert_eq!(restored.code(), ErrorCode::PayloadTooLarge);
    assert!(is_there(&dir.join("grows")) && is_there(&dir.join("huge")));

    let whole = engine.workspaces.open_archive(&id, &p(".")).unwrap();
    assert!(whole.entries.iter().all(|one| one.path != p("huge")));
    assert_eq!(named(&whole.too_large), ["grows", "huge"]);
    let deleted = engine
        .workspaces
        .delete_workspace(&id, &user())
        .unwrap_err();
    assert_eq!(deleted.code(), ErrorCode::PayloadTooLarge);
    let cleaned = engine.upkeep.clean(Duration::ZERO, false, &user()).unwrap();
    assert!(cleaned.workspaces.is_empty());
    assert!(is_there(&dir.join("grows")) && is_there(&dir.join("huge")));

    fs::remove_file(dir.join("grows")).unwrap();
    fs::remove_file(dir.join("huge")).unwrap();
    assert!(
        engine
            .sync
            .sync_workspace(&id)
            .unwrap()
            .too_large
            .is_empty()
    );
    engine.workspaces.delete_workspace(&id, &user()).unwrap();
    test.check();
}

#[test]
fn a_huge_file_is_left_out_of_a_merge_and_keeps_its_fork() {
    with_each(|test| {
        let project = test.project("app");
        let (id, dir) = test.fork(&project, "agent");
        fs::write(dir.join("README"), "changed\n").unwrap();
        make_huge(&dir.join("huge"));
        // The ignore rules of the project leave this file out of merges.
        make_huge(&dir.join("huge.log"));
        let changes = test.engine.sync.changes(&id).unwrap();
        assert_eq!(changes.too_large.len(), 1);
        assert_eq!(test.changes(&id).len(), 1);
        let options = CompleteOptions::default();
        let planned = test
            .engine
            .merges
            .plan_completion(&id, &options, &user())
            .unwrap();
        assert_eq!(planned.left_out[0].path, p("huge"));

        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(done.merged, [p("README")]);
        let left: Vec<String> = done.left_out.iter().map(|one| one.path.to_text()).collect();
        assert_eq!(left, ["huge"]);
        assert!(done.left_out[0].reason.contains(&HUGE.to_string()));
        assert_eq!(test.project_text(&project, "README"), "changed\n");
        assert!(is_there(&dir.join("huge")) && is_there(&dir.join("huge.log")));

        // The fork can be worked in, merged again and, without the files, removed.
        fs::write(dir.join("more"), "more\n").unwrap();
        test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(test.project_text(&project, "more"), "more\n");
        assert!(is_there(&dir.join("huge")));
        let moved = test.engine.merges.update(&id, false, &user()).unwrap_err();
        assert_eq!(moved.code(), ErrorCode::PayloadTooLarge);
        fs::remove_file(dir.join("huge")).unwrap();
        fs::remove_file(dir.join("huge.log")).unwrap();
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert!(done.left_out.is_empty());
        assert!(test.engine.workspaces.workspace(&id).is_err());
        test.check();
    });
}

#[test]
fn a_file_beyond_the_quota_is_not_read() {
    let test = TestEngine::new(ProviderName::Copy);
    let quota = Quota {
        bytes: Some(1 << 20),
        ..Quota::default()
    };
    let (id, dir) = workspace(&test.engine, "w", quota);
    fs::write(dir.join("fits"), vec![1; 1000]).unwrap();
    fs::write(dir.join("does not"), vec![1; (1 << 20) + 1]).unwrap();
    let synced = test.engine.sync.sync_workspace(&id).unwrap();
    assert_eq!(synced.changes.len(), 1);
    assert_eq!(
        (synced.too_large[0].size, synced.too_large[0].limit),
        ((1 << 20) + 1, 1 << 20)
    );
}

#[test]
fn holes_are_hashed_as_zeros() {
    use std::os::unix::fs::FileExt as _;
    let test = TestEngine::new(ProviderName::Copy);
    let (id, dir) = workspace(&test.engine, "w", Quota::default());
    let file = File::create(dir.join("sparse")).unwrap();
    file.set_len(5 << 20).unwrap();
    file.write_all_at(b"in the middle", 2 << 20).unwrap();
    file.write_all_at(b"at the end", (5 << 20) - 10).unwrap();
    let taken = test
        .engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap();
    let stored = test
        .engine
        .workspaces
        .file_at(&id, &taken.snapshot.id.to_hex(), &p("sparse"));
    assert!(stored.unwrap() == fs::read(dir.join("sparse")).unwrap());
}

/// The bytes that this process has read from files so far, as the kernel counts them.
fn bytes_read() -> u64 {
    let account = fs::read_to_string("/proc/self/io").unwrap();
    let line = account
        .lines()
        .find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

#[test]
fn holes_are_not_read() {
    const SIZE: u64 = 200 << 20;
    let test = TestEngine::new(ProviderName::Copy);
    let (id, dir) = workspace(&test.engine, "w", Quota::default());
    let file = File::create(dir.join("sparse")).unwrap();
    file.set_len(SIZE).unwrap();
    let before = bytes_read();
    let synced = test.engine.sync.sync_workspace(&id).unwrap();
    assert_eq!(synced.changes.len(), 1);
    let read = bytes_read() - before;
    assert!(read < SIZE / 4, "{read} of {SIZE} bytes were read");
}

#[test]
fn a_huge_file_that_is_ignored_is_left_alone() {
    with_each(|test| {
        let project = test.project("app");
        let (id, dir) = test.fork(&project, "agent");
        fs::create_dir(dir.join("target")).unwrap();
        make_huge(&dir.join("target/huge"));
        fs::write(dir.join("README"), "changed\n").unwrap();
        let synced = test.engine.sync.sync_workspace(&id).unwrap();
        assert_eq!((synced.changes.len(), synced.too_large.len()), (1, 0));
        assert_eq!(test.changes(&id).len(), 1);
        test.engine
            .workspaces
            .snapshot(&id, None, false, &user())
            .unwrap();
        // An archive has ignored files too, and names those that it cannot have.
        let whole = test.engine.workspaces.open_archive(&id, &p(".")).unwrap();
        assert!(whole.entries.iter().any(|one| one.path == p("target")));
        assert!(whole.entries.iter().all(|one| one.path != p("target/huge")));
        let left: Vec<(String, u64)> = (whole.too_large.iter())
            .map(|one| (one.path.to_text(), one.size))
            .collect();
        assert_eq!(left, [("target/huge".to_owned(), HUGE)]);
        let below = test.engine.workspaces.open_archive(&id, &p("src")).unwrap();
        assert!(below.too_large.is_empty());
        assert!(is_there(&dir.join("target/huge")));
    });
}

/// The request is cancelled while the large file is being read.
#[test]
fn a_sync_that_nobody_waits_for_ends() {
    let test = TestEngine::new(ProviderName::Copy);
    let (id, dir) = workspace(&test.engine, "w", Quota::default());
    fs::write(dir.join("small"), "small").unwrap();
    let sparse = dir.join("sparse");
    File::create(&sparse).unwrap().set_len(12 << 30).unwrap();
    let cancel = Cancel::default();
    let error = std::thread::scope(|scope| {
        let sync = scope.spawn(|| cancel.run(|| test.engine.sync.sync_workspace(&id)));
        while !is_open(&sparse) && !sync.is_finished() {
            std::thread::yield_now();
        }
        drop(cancel.on_drop());
        sync.join().unwrap().unwrap_err()
    });
    assert_eq!(error.code(), ErrorCode::Timeout);
    fs::remove_file(dir.join("sparse")).unwrap();
    let synced = test.engine.sync.sync_workspace(&id).unwrap();
    assert_eq!(
        synced.changes.len(),
        1,
        "what was not recorded is found later"
    );
}
