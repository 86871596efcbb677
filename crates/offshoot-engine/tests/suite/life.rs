//! Directories that are removed and come back: removed by a program, cleaned up, deleted with a
//! process in them, or kept because a program uses them.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::fixture::{TestEngine, create, p, user, with_each, write};
use offshoot_core::{ErrorCode, Operator, WorkspaceId};
use offshoot_engine::{
    AfterMerge, CompleteOptions, Completed, Content, Engine, EngineOptions, ForkOptions, Principal,
    Quota, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_store::{Durability, MetaStore, SqliteOptions, SqliteStore, WriteTx};
use offshoot_testkit::{Process, wait_until};

/// A program that runs in a directory or has a file of it open, and reads commands.
struct Holder {
    _process: Process,
    stdin: ChildStdin,
}

impl Holder {
    /// Runs a shell script that must print `ready` and then reads lines.
    fn start(script: &str, dir: &Path) -> Holder {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .env("DIR", dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command);
        let mut line = String::new();
        let mut out = BufReader::new(process.take_stdout().unwrap());
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let stdin = process.take_stdin().unwrap();
        Holder {
            _process: process,
            stdin,
        }
    }

    /// Appends the lines that it reads to an open file.
    fn writing(dir: &Path, file: &str) -> Holder {
        let script = format!(
            "exec 3>>\"$DIR/{file}\"; echo ready; while read line; do echo \"$line\" >&3; done"
        );
        Holder::start(&script, dir)
    }

    /// Has the directory as its working directory.
    fn inside(dir: &Path) -> Holder {
        Holder::start(
            "cd \"$DIR\"; echo ready; read line; echo \"$line\" > late",
            dir,
        )
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }
}

/// Writes a file as an archive does.
fn import(engine: &Engine, id: &WorkspaceId, path: &str, text: &str) {
    let owner = Principal::owner(Operator::new("ann"));
    let access = engine.access.acting_as(Arc::new(owner), None);
    let import = access.begin_workspace_import(id).unwrap();
    access
        .import_file(&import, &p(path), Content::Bytes(text.as_bytes()), false)
        .unwrap();
    access.finish_workspace_import(import).unwrap();
}

fn read(engine: &Engine, id: &WorkspaceId, path: &str) -> String {
    String::from_utf8(engine.workspaces.read_whole(id, &p(path)).unwrap().0).unwrap()
}

/// A second connection to the database.
fn store_of(test: &TestEngine) -> SqliteStore {
    let database = test.host.path().join("data/offshoot.db");
    SqliteStore::open(&database, SqliteOptions::default()).unwrap()
}

fn problems(engine: &Engine) -> Vec<String> {
    let found = engine.upkeep.check().unwrap().problems;
    found.iter().map(|one| format!("{one:?}")).collect()
}

/// The error of a lock names the workspace, not the number in the name of the lock.
#[test]
fn a_workspace_that_is_held_is_called_by_its_name() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (id, _) = test.fork(&project, "ada");
    let key = test.store().read(|tx| tx.workspace(&id)).unwrap();
    let locks = offshoot_fs::WorkspaceLocks::new(test.host.path().join("data/locks")).unwrap();
    let at_once = std::time::Duration::ZERO;
    let held = locks.exclusive(&key.unwrap().key.0.to_string(), at_once);
    let mut options = EngineOptions::new(test.host.path().join("data"));
    options.provider = Some(ProviderName::Copy);
    options.lock_timeout = at_once;
    let other = Engine::open(options).unwrap();
    let error = other.sync.sync_workspace(&id).unwrap_err();
    assert_eq!(error.code(), ErrorCode::WorkspaceBusy);
    assert!(error.message().contains("`ada`"), "{error}");
    drop(held.unwrap());
    other.sync.sync_workspace(&id).unwrap();
}

/// No operation makes a directory for a workspace whose path was not handed out.
#[test]
fn no_door_needs_a_directory() {
    let mut test = TestEngine::new(ProviderName::Copy);
    let ws = create(&test.engine, "w");
    let dir = test.path_of(&ws);
    let nowhere = |door: &str| assert!(!dir.exists(), "{door}");
    write(&test.engine, &ws, "d/f", "one");
    write(&test.engine, &ws, "g", "two");
    nowhere("a write");
    let engine = &test.engine;
    let taken = engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    let taken = taken.snapshot.id.to_hex();
    assert_eq!(read(engine, &ws, "d/f"), "one");
    assert_eq!(engine.workspaces.list(&ws, &p(".")).unwrap().len(), 2);
    assert_eq!(engine.workspaces.info(&ws).unwrap().file_count, 2);
    write(engine, &ws, "h", "three");
    engine
        .workspaces
        .make_dir_in(&ws, &p("e"), &user())
        .unwrap();
    engine
        .workspaces
        .make_link(&ws, &p("l"), b"h", &user())
        .unwrap();
    assert_eq!(read(engine, &ws, "l"), "three");
    nowhere("a directory or a link");
    engine
        .workspaces
        .move_file(&ws, &p("g"), &p("moved"), &user())
        .unwrap();
    assert_eq!(read(engine, &ws, "moved"), "two");
    engine
        .workspaces
        .delete_file(&ws, &p("h"), false, &user())
        .unwrap();
    nowhere("a move or a deletion");
    let restored = engine
        .workspaces
        .restore(&ws, &taken, None, &user())
        .unwrap();
    assert!(!restored.changes.changes.is_empty());
    assert_eq!(read(engine, &ws, "g"), "two");
    nowhere("a restore");
    let kept = engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    let kept = engine
        .workspaces
        .file_at(&ws, &kept.snapshot.id.to_hex(), &p("d/f"));
    assert_eq!(kept.unwrap(), b"one");
    assert!(engine.sync.sync_workspace(&ws).unwrap().changes.is_empty());
    assert_eq!(test.changes(&ws), []);
    let whole = engine.workspaces.open_archive(&ws, &p(".")).unwrap();
    let paths: Vec<String> = whole.entries.iter().map(|one| one.path.to_text()).collect();
    assert_eq!(paths, ["d", "d/f", "g"]);
    let (content, options) = (Content::Bytes(b"four"), WriteOptions::default());
    let uploaded = engine
        .workspaces
        .upload(&ws, b"up", content, &options, &user());
    let up = uploaded.unwrap().path.to_text();
    import(engine, &ws, "imported", "five");
    nowhere("an upload or an archive");
    test.reopen();
    for (path, content) in [("g", "two"), (&up, "four"), ("imported", "five")] {
        assert_eq!(read(&test.engine, &ws, path), content);
    }
    nowhere("a start");
    let path = test.engine.workspaces.hand_out_path(&ws).unwrap();
    assert_eq!(fs::read_to_string(path.join("d/f")).unwrap(), "one");
    assert_eq!(fs::read_to_string(path.join("imported")).unwrap(), "five");
    assert!(problems(&test.engine).is_empty());
}

#[test]
fn a_restore_that_cannot_be_done_leaves_no_version() {
    let test = TestEngine::new(ProviderName::Copy);
    let ws = create(&test.engine, "w");
    write(&test.engine, &ws, "f", "one");
    let first = test
        .engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    write(&test.engine, &ws, "f", "two");
    let dir = test.engine.workspaces.hand_out_path(&ws).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    // Something that no directory can replace.
    fs::write(&dir, "in the way").unwrap();
    let before = test.engine.history.lines(&ws, None, 0).unwrap().len();
    let id = first.snapshot.id.to_hex();
    test.engine
        .workspaces
        .restore(&ws, &id, None, &user())
        .unwrap_err();
    assert_eq!(
        test.engine.history.lines(&ws, None, 0).unwrap().len(),
        before
    );
    fs::remove_file(&dir).unwrap();
    test.engine
        .workspaces
        .restore(&ws, &id, None, &user())
        .unwrap();
    assert_eq!(fs::read_to_string(dir.join("f")).unwrap(), "one");
}

#[test]
fn a_fork_whose_private_directory_is_gone_comes_back_as_it_was_recorded() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "ada");
        fs::write(path.join("new"), "recorded").unwrap();
        fs::write(path.join("README"), "changed").unwrap();
        test.engine.sync.sync_workspace(&id).unwrap();
        fs::remove_dir_all(test.host.path().join("data/forks/ada.1")).unwrap();
        let changes = test.changes(&id);
        assert_eq!(changes.len(), 2, "{changes:?}");
        assert_eq!(fs::read_to_string(path.join("new")).unwrap(), "recorded");
        assert_eq!(read(&test.engine, &id, "README"), "changed");
        fs::write(path.join("more"), "x").unwrap();
        assert_eq!(test.changes(&id).len(), 3);
        assert!(problems(&test.engine).is_empty());
    });
}

#[test]
fn a_fork_is_changed_and_completed_without_a_directory() {
    with_each(|test| {
        let project = test.project("web");
        let options = ForkOptions {
            agent: Some("ada".parse().unwrap()),
            ..ForkOptions::default()
        };
        let forked = test.engine.forks.fork(&project, &options, &user()).unwrap();
        let id = forked.workspace.id;
        write(&test.engine, &id, "src/new", "mine");
        test.engine
            .workspaces
            .delete_file(&id, &p("README"), false, &user())
            .unwrap();
        assert_eq!(read(&test.engine, &id, "src/new"), "mine");
        assert_eq!(read(&test.engine, &id, "docs/a/b"), "deep\n");
        write(&test.engine, &id, "src/more", "mine");
        assert_eq!(test.changes(&id).len(), 3);
        assert!(!test.path_of(&id).exists());
        assert!(problems(&test.engine).is_empty());
        assert_eq!(complete(&test, &id, false).merged.len(), 3);
    });
}

#[test]
fn clean_leaves_what_somebody_uses_and_says_so_beforehand() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let engine = &test.engine;
    let ids: Vec<WorkspaceId> = ["open", "inside", "private", "free"]
        .iter()
        .map(|id| create(engine, id))
        .collect();
    for id in &ids {
        write(engine, id, "f", "x");
    }
    let (fork, fork_path) = test.fork(&project, "held");
    let path = |n: usize| engine.workspaces.hand_out_path(&ids[n]).unwrap();
    let mut writing = Holder::writing(&path(0), "f");
    let mut inside = Holder::inside(&path(1));
    let _private = Holder::inside(&path(2));
    let _fork = Holder::inside(&fork_path);
    path(3);
    let names = |dry_run: bool| -> Vec<String> {
        let cleaned = engine
            .upkeep
            .clean(Duration::ZERO, dry_run, &user())
            .unwrap();
        let names = cleaned.workspaces.iter();
        names.map(|one| one.id.to_string()).collect()
    };
    assert_eq!(names(true), ["free"]);
    assert_eq!(names(false), ["free"]);
    writing.tell("written after the clean-up");
    inside.tell("so is this");
    let late = |id: &WorkspaceId, path: &str, text: &str| {
        wait_until(&format!("`{text}` is recorded"), || {
            engine.sync.sync_workspace(id).unwrap();
            let read = engine.workspaces.read_whole(id, &p(path));
            read.is_ok_and(|read| String::from_utf8(read.0).unwrap().contains(text))
        });
    };
    late(&ids[0], "f", "written after");
    late(&ids[1], "late", "so is this");
    assert!(fork_path.join("README").exists());
    assert!(engine.workspaces.workspace(&fork).unwrap().materialized);
    assert!(problems(engine).is_empty());
}

#[test]
fn clean_leaves_forks_that_somebody_uses() {
    with_each(|test| {
        let project = test.project("web");
        let (reader, reader_path) = test.fork(&project, "reader");
        let (other, other_path) = test.fork(&project, "other");
        fs::write(other_path.join("own"), "kept").unwrap();
        test.engine.sync.sync_workspace(&other).unwrap();
        let held = Holder::start(
            "exec 3<\"$DIR/README\"; echo ready; read line",
            &reader_path,
        );
        let clean = |dry_run| {
            let cleaned = test
                .engine
                .upkeep
                .clean(Duration::ZERO, dry_run, &user())
                .unwrap();
            let ids: Vec<WorkspaceId> = cleaned.workspaces.into_iter().map(|one| one.id).collect();
            ids
        };
        assert_eq!(clean(true), std::slice::from_ref(&other));
        assert_eq!(clean(false), std::slice::from_ref(&other));
        assert!(reader_path.join("README").exists());
        // The workspace can be changed as before.
        fs::write(reader_path.join("after"), "x").unwrap();
        assert_eq!(test.changes(&reader).len(), 1);
        drop(held);
        let path = test.engine.workspaces.hand_out_path(&other).unwrap();
        assert_eq!(fs::read_to_string(path.join("own")).unwrap(), "kept");
        assert!(problems(&test.engine).is_empty());
    });
}

#[test]
fn reading_is_a_use() {
    let mut test = TestEngine::new(ProviderName::Copy);
    let (read_one, unread) = (create(&test.engine, "read"), create(&test.engine, "unread"));
    for id in [&read_one, &unread] {
        write(&test.engine, id, "f", "x");
        test.engine.workspaces.hand_out_path(id).unwrap();
    }
    // Both were last changed ten days ago.
    let store = store_of(&test);
    for id in [&read_one, &unread] {
        let age = &mut |tx: &mut dyn WriteTx| {
            let mut row = tx.workspace(id)?.unwrap();
            row.used_at.0 -= 10 * 24 * 3_600_000_000;
            tx.update_workspace(&row)
        };
        store.write(Durability::Synced, age).unwrap();
    }
    drop(store);
    test.reopen();
    assert_eq!(read(&test.engine, &read_one, "f"), "x");
    test.engine.context.wait_for_jobs();
    let days = Duration::from_secs(7 * 24 * 3600);
    for dry_run in [true, false] {
        let cleaned = test.engine.upkeep.clean(days, dry_run, &user()).unwrap();
        let ids: Vec<WorkspaceId> = cleaned.workspaces.into_iter().map(|one| one.id).collect();
        assert_eq!(ids, std::slice::from_ref(&unread));
    }
}

#[test]
fn deleting_is_refused_while_somebody_could_write_in_vain() {
    with_each(|test| {
        let project = test.project("web");
        let (fork, fork_path) = test.fork(&project, "ada");
        let plain = create(&test.engine, "plain");
        let plain_path = test.engine.workspaces.hand_out_path(&plain).unwrap();
        for (id, path) in [(&fork, &fork_path), (&plain, &plain_path)] {
            let mut holder = Holder::writing(path, "log.txt");
            let error = test
                .engine
                .workspaces
                .delete_workspace(id, &user())
                .unwrap_err();
            assert_eq!(error.code(), ErrorCode::WorkspaceBusy, "{error:?}");
            holder.tell("after the refusal");
            wait_until("the process still writes to its file", || {
                let log = fs::read_to_string(path.join("log.txt")).unwrap();
                log.contains("refusal")
            });
            drop(holder);
            // Nothing has changed.
            fs::write(path.join("more"), "x").unwrap();
            assert!(path.join("log.txt").exists());
            let deleted = test
                .engine
                .workspaces
                .delete_workspace(id, &user())
                .unwrap();
            let kept = deleted.snapshot.unwrap().to_hex();
            test.engine.context.wait_for_jobs();
            assert!(!path.exists());
            let back = test
                .engine
                .workspaces
                .create_workspace_from(None, &kept, Quota::default(), &user())
                .unwrap();
            assert_eq!(read(&test.engine, &back.id, "more"), "x");
            let log = read(&test.engine, &back.id, "log.txt");
            assert_eq!(log, "after the refusal\n");
        }
        assert!(problems(&test.engine).is_empty());
    });
}

fn complete(test: &TestEngine, id: &WorkspaceId, keep: bool) -> Completed {
    let options = CompleteOptions {
        keep,
        ..CompleteOptions::default()
    };
    test.engine.merges.complete(id, &options, &user()).unwrap()
}

#[test]
fn a_merge_that_landed_is_a_receipt_although_somebody_holds_the_workspace() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "ada");
        fs::write(path.join("work"), "done\n").unwrap();
        let holder = Holder::writing(&path, "work");
        let kept = complete(&test, &id, true);
        assert!(kept.snapshot.is_some());
        assert_eq!(test.project_text(&project, "work"), "done\n");
        let after = kept.after.unwrap();
        assert_eq!(after.moved, Some(false));
        let why = after.waits.unwrap();
        assert!(why.contains("offshoot update ada"), "{why}");
        // A repeated request returns the same merge, which still waits.
        let again = complete(&test, &id, true);
        assert_eq!(again.merge_id, kept.merge_id);
        assert_eq!(again.after.unwrap().moved, Some(false));
        drop(holder);
        let updated = test.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(Some(updated.to), kept.snapshot);
        assert!(updated.conflicts.is_empty());
        assert!(test.changes(&id).is_empty());
        assert_eq!(complete(&test, &id, true).after.unwrap().moved, Some(true));
        assert!(problems(&test.engine).is_empty());
    });
}

#[test]
fn a_merged_workspace_stays_while_somebody_writes_to_it_and_goes_later() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "ada");
        fs::write(path.join("work"), "done\n").unwrap();
        let holder = Holder::writing(&path, "work");
        let done = complete(&test, &id, false);
        assert!(done.snapshot.is_some());
        let after = done.after.unwrap();
        assert!(!after.removed);
        assert!(after.waits.unwrap().contains("in use"));
        assert!(path.join("work").exists());
        drop(holder);
        let again = complete(&test, &id, false);
        assert_eq!(again.merge_id, done.merge_id);
        let gone = AfterMerge {
            removed: true,
            ..AfterMerge::default()
        };
        assert_eq!(again.after, Some(gone.clone()));
        assert_eq!(complete(&test, &id, false).after, Some(gone));
        test.engine.context.wait_for_jobs();
        assert!(!path.exists());
    });
}

/// A conflict that waits for a decision does not become a second review.
#[test]
fn an_update_after_a_merge_takes_what_landed_for_done() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (id, path) = test.fork(&project, "ada");
    test.put(&project, "README", "theirs\n");
    fs::write(path.join("README"), "mine\n").unwrap();
    fs::write(path.join("work"), "done\n").unwrap();
    let holder = Holder::writing(&path, "work");
    let kept = complete(&test, &id, true);
    assert_eq!((kept.merged.len(), kept.conflicts.len()), (1, 1));
    drop(holder);
    let updated = test.engine.merges.update(&id, false, &user()).unwrap();
    assert!(updated.conflicts.is_empty());
    assert_eq!(fs::read_to_string(path.join("README")).unwrap(), "theirs\n");
    let reviews = test.engine.merges.reviews(Some(&project), true).unwrap();
    assert_eq!(reviews.len(), 1);
}

/// Ignored files stay in a directory that the project has no more.
#[test]
fn an_update_counts_the_directories_that_only_ignored_files_keep() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "ada");
        // Written by a call, so that the index has it.
        write(&test.engine, &id, "docs/a/out.log", "ignored");
        let (other, other_path) = test.fork(&project, "bob");
        fs::remove_dir_all(other_path.join("docs")).unwrap();
        complete(&test, &other, false);
        test.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(
            fs::read_to_string(path.join("docs/a/out.log")).unwrap(),
            "ignored"
        );
        assert!(!path.join("docs/a/b").exists());
        assert!(
            problems(&test.engine).is_empty(),
            "{:?}",
            problems(&test.engine)
        );
        test.engine.sync.sync_workspace(&id).unwrap();
        assert!(problems(&test.engine).is_empty());
    });
}

/// A process that removes a directory may be killed after it moved the directory aside.
#[test]
fn a_directory_that_stands_aside_is_put_back_with_all_that_is_in_it() {
    let mut test = TestEngine::new(ProviderName::Copy);
    let ws = create(&test.engine, "w");
    write(&test.engine, &ws, "f", "one");
    let path = test.engine.workspaces.hand_out_path(&ws).unwrap();
    fs::write(path.join("outside"), "not recorded yet").unwrap();
    let mut key = None;
    store_of(&test)
        .read(&mut |tx| {
            key = tx.workspace(&ws)?.map(|row| row.key);
            Ok(())
        })
        .unwrap();
    let key = key.unwrap();
    let tmp = test.host.path().join("data/tmp");
    let aside = tmp.join(format!("leaving-{}", key.0));
    fs::rename(&path, &aside).unwrap();
    assert_eq!(read(&test.engine, &ws, "outside"), "not recorded yet");
    fs::rename(&path, &aside).unwrap();
    test.close();
    fs::write(test.host.path().join("data/run/0000"), b"").unwrap();
    test.reopen();
    test.engine.context.wait_for_jobs();
    assert!(path.join("outside").exists() && !aside.exists());
    // If the row says that the directory is gone, it is removed.
    let copy = tmp.join("leaving-999999");
    fs::create_dir(&copy).unwrap();
    test.close();
    fs::write(test.host.path().join("data/run/0000"), b"").unwrap();
    test.reopen();
    test.engine.context.wait_for_jobs();
    assert!(!copy.exists());
    assert_eq!(read(&test.engine, &ws, "outside"), "not recorded yet");
}
