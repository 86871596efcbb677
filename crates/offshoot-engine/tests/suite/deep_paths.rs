//! The limit of the depth of a path: what every call says about a deeper one, and what happens to
//! deeper ones that were stored before there was a limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::{
    EMPTY_BLOB, EntryKind, Error, ErrorCode, MAX_DEPTH, ProjectId, RelPath, WorkspaceId,
};
use offshoot_engine::{Content, ImportOptions, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_store::{Durability, EntryRow, MetaStore, SqliteOptions, SqliteStore};
use offshoot_testkit::git;

/// A path of so many parts.
fn deep(parts: usize) -> RelPath {
    p(&vec!["d"; parts].join("/"))
}

fn says_how_deep<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let error = answer.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidRequest);
    let text = error.to_string();
    assert!(text.contains("at most 256 are possible"), "{text}");
}

#[test]
fn deep_paths_are_refused_by_every_door() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let id = test.create("ws");
    let options = WriteOptions::default();
    let write = |path: &RelPath| {
        let content = Content::Bytes(b"x");
        test.engine
            .workspaces
            .write_file(&id, path, content, &options, &user())
    };
    write(&deep(MAX_DEPTH)).unwrap();
    says_how_deep(write(&deep(MAX_DEPTH + 1)));
    says_how_deep(
        test.engine
            .workspaces
            .make_dir_in(&id, &deep(MAX_DEPTH + 1), &user()),
    );
    says_how_deep(
        test.engine
            .workspaces
            .make_link(&id, &deep(MAX_DEPTH + 1), b"target", &user()),
    );
    // Entries below move with their directory.
    test.engine
        .workspaces
        .make_dir_in(&id, &p("top"), &user())
        .unwrap();
    let moved = test
        .engine
        .workspaces
        .move_file(&id, &p("d"), &p("top/d"), &user());
    says_how_deep(moved);
    test.engine
        .workspaces
        .move_file(&id, &p("d"), &p("other"), &user())
        .unwrap();
    let project: ProjectId = "web".parse().unwrap();
    test.engine
        .projects
        .create_project(&project, &user())
        .unwrap();
    let put = |path: &RelPath| {
        let content = Content::Bytes(b"x");
        test.engine
            .projects
            .put_in_project(&project, path, content, &options, &user())
    };
    put(&deep(MAX_DEPTH)).unwrap();
    says_how_deep(put(&deep(MAX_DEPTH + 1)));
    let import = test.engine.projects.begin_import(&project).unwrap();
    says_how_deep(import.write_file(&deep(MAX_DEPTH + 1), Content::Bytes(b"x"), false));
    test.check();
}

/// Makes nested directories, with a file in the last.
fn make_deep(root: &Path, levels: usize) -> PathBuf {
    let dir = root.join(deep(levels - 1).to_text());
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("file");
    fs::write(&file, "deep\n").unwrap();
    file
}

#[test]
fn deep_paths_that_others_made_are_left_out_and_said() {
    let too_deep = deep(MAX_DEPTH + 1);
    let why = "it is more than 256 levels deep".to_owned();
    let left_out = vec![(too_deep.clone(), why)];
    let test = TestEngine::in_memory(ProviderName::Copy);
    let id = test.create("ws");
    let path = test.engine.workspaces.hand_out_path(&id).unwrap();
    let file = make_deep(&path, MAX_DEPTH + 40);
    for _ in 0..2 {
        let synced = test.engine.sync.sync_workspace(&id).unwrap();
        assert_eq!(synced.refused, left_out);
        assert_eq!(synced.ignored, []);
        let workspace = test.engine.workspaces.workspace(&id).unwrap();
        assert_eq!((workspace.files, workspace.dirs), (0, MAX_DEPTH as i64));
    }
    let project: ProjectId = "imported".parse().unwrap();
    let options = ImportOptions::default();
    let source = offshoot_testkit::scratch();
    make_deep(source.path(), MAX_DEPTH + 40);
    let imported = test
        .engine
        .projects
        .import_dir(&project, source.path(), &options, &mut |_| {}, &user())
        .unwrap();
    assert_eq!(imported.dropped, left_out);
    let (fork, path) = test.fork(&project, "agent");
    make_deep(&path, MAX_DEPTH + 40);
    let synced = test.engine.sync.sync_workspace(&fork).unwrap();
    assert!(synced.changes.is_empty());
    assert!(
        synced.refused.contains(&left_out[0]),
        "{:?}",
        synced.refused
    );
    // Paths that were left out do not disturb other operations.
    test.engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap();
    assert!(file.exists());
    // No version holds them, so a deletion does not take them along (INV-5).
    let delete = || {
        let workspaces = &test.engine.workspaces;
        workspaces.delete_file(&id, &p("d/d/d"), true, &user())
    };
    assert_eq!(delete().unwrap_err().code(), ErrorCode::WorkspaceBusy);
    assert!(file.exists());
    fs::remove_dir_all(test.path_of(&id).join(too_deep.to_text())).unwrap();
    delete().unwrap();
    assert!(!file.exists());
    test.check();
}

#[test]
fn deep_paths_of_a_git_repository_are_refused_as_a_whole() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    for (levels, fits) in [(MAX_DEPTH, true), (MAX_DEPTH + 1, false)] {
        let source = offshoot_testkit::scratch();
        make_deep(source.path(), levels);
        for args in [&["init"][..], &["add", "-A"], &["commit", "-m", "deep"]] {
            git(source.path(), args);
        }
        let project: ProjectId = format!("git{levels}").parse().unwrap();
        let imported =
            test.engine
                .projects
                .import_git(&project, source.path(), &mut |_| {}, &user());
        assert_eq!(imported.is_ok(), fits, "{levels}");
        if let Err(error) = imported {
            assert_eq!(error.code(), ErrorCode::InvalidRequest);
            assert!(error.to_string().contains("256 levels"), "{error}");
        }
    }
}

/// Rows of nested directories, as they were stored before there was a limit.
fn store_deep(test: &TestEngine, id: &WorkspaceId, levels: usize) {
    let database = test.host.path().join("data/offshoot.db");
    let store = SqliteStore::open(&database, SqliteOptions::default()).unwrap();
    let work = &mut |tx: &mut dyn offshoot_store::WriteTx| {
        let mut row = tx.workspace(id)?.unwrap();
        row.revision += 1;
        for level in 1..=levels {
            let leaf = level == levels;
            tx.put_entry(
                row.key,
                &EntryRow {
                    path: deep(level),
                    kind: Some(if leaf {
                        EntryKind::File
                    } else {
                        EntryKind::Dir
                    }),
                    opaque: false,
                    perm: if leaf { 0o644 } else { 0o755 },
                    id: leaf.then_some(EMPTY_BLOB),
                    size: 0,
                    revision: row.revision,
                },
            )?;
        }
        row.files += 1;
        row.dirs += levels as i64 - 1;
        tx.update_workspace(&row)
    };
    store.write(Durability::Synced, work).unwrap();
}

#[test]
fn deep_paths_that_are_stored_can_be_read_moved_up_and_deleted() {
    const LEVELS: usize = 600;
    let test = TestEngine::in_memory(ProviderName::Copy);
    let id = test.create("old");
    // The empty content is in the store from here on.
    let (content, options) = (Content::Bytes(b""), WriteOptions::default());
    let empty = test
        .engine
        .workspaces
        .write_file(&id, &p("empty"), content, &options, &user());
    assert_eq!(empty.unwrap().id, EMPTY_BLOB);
    test.engine
        .upkeep
        .clean(Duration::ZERO, false, &user())
        .unwrap();
    store_deep(&test, &id, LEVELS);
    let (bytes, _) = test
        .engine
        .workspaces
        .read_whole(&id, &deep(LEVELS))
        .unwrap();
    assert_eq!(bytes, b"");
    let first = test
        .engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap();
    test.engine
        .workspaces
        .move_file(&id, &p("d/d"), &p("up"), &user())
        .unwrap();
    test.engine
        .workspaces
        .restore(&id, &first.snapshot.id.to_hex(), None, &user())
        .unwrap();
    assert!(
        test.engine
            .workspaces
            .read_whole(&id, &deep(LEVELS))
            .is_ok()
    );
    let gone = test
        .engine
        .workspaces
        .delete_file(&id, &p("d"), true, &user())
        .unwrap();
    assert_eq!(gone.files, 1);
    assert_eq!(test.engine.workspaces.workspace(&id).unwrap().dirs, 0);
}
