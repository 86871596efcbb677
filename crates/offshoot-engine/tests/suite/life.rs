//! Directories that go and come back: removed by somebody, cleaned up, deleted with a process in
//! them, kept because somebody holds them.

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

/// A program that does what it is told, in a directory or with a file of it open.
struct Holder {
    _process: Process,
    stdin: ChildStdin,
}

impl Holder {
    /// Runs a shell script that must say `ready` and then reads lines.
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

    /// Appends what it is told to a file that it has open.
    fn writing(dir: &Path, file: &str) -> Holder {
        let script = format!(
            "exec 3>>\"$DIR/{file}\"; echo ready; while read line; do echo \"$line\" >&3; done"
        );
        Holder::start(&script, dir)
    }

    /// Stands in the directory.
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

/// Takes a file in as an archive does.
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

/// A second look at the rows.
fn store_of(rig: &TestEngine) -> SqliteStore {
    let database = rig.host.path().join("data/offshoot.db");
    SqliteStore::open(&database, SqliteOptions::default()).unwrap()
}

fn problems(engine: &Engine) -> Vec<String> {
    let found = engine.upkeep.check().unwrap().problems;
    found.iter().map(|one| format!("{one:?}")).collect()
}

/// A lock is called by a number, which says nothing to anybody.
#[test]
fn a_workspace_that_is_held_is_called_by_its_name() {
    let rig = TestEngine::new(ProviderName::Copy);
    let project = rig.project("web");
    let (id, _) = rig.fork(&project, "ada");
    let key = rig.store().read(|tx| tx.workspace(&id)).unwrap();
    let locks = offshoot_fs::WorkspaceLocks::new(rig.host.path().join("data/locks")).unwrap();
    let at_once = std::time::Duration::ZERO;
    let held = locks.exclusive(&key.unwrap().key.0.to_string(), at_once);
    let mut options = EngineOptions::new(rig.host.path().join("data"));
    options.provider = Some(ProviderName::Copy);
    options.lock_timeout = at_once;
    let other = Engine::open(options).unwrap();
    let error = other.sync.sync_workspace(&id, &user()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::WorkspaceBusy);
    assert!(error.message().contains("`ada`"), "{error}");
    drop(held.unwrap());
    other.sync.sync_workspace(&id, &user()).unwrap();
}

/// Whatever is done with a workspace whose path nobody was given, no directory appears.
#[test]
fn no_door_needs_a_directory() {
    let mut rig = TestEngine::new(ProviderName::Copy);
    let ws = create(&rig.engine, "w");
    let dir = rig.path_of(&ws);
    let nowhere = |door: &str| assert!(!dir.exists(), "{door}");
    write(&rig.engine, &ws, "d/f", "one");
    write(&rig.engine, &ws, "g", "two");
    nowhere("a write");
    let engine = &rig.engine;
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
    assert!(
        engine
            .sync
            .sync_workspace(&ws, &user())
            .unwrap()
            .changes
            .is_empty()
    );
    assert_eq!(rig.changes(&ws), []);
    let whole = engine
        .workspaces
        .open_archive(&ws, &p("."), &user())
        .unwrap();
    let paths: Vec<String> = whole.entries.iter().map(|one| one.path.to_text()).collect();
    assert_eq!(paths, ["d", "d/f", "g"]);
    let (content, options) = (Content::Bytes(b"four"), WriteOptions::default());
    let uploaded = engine
        .workspaces
        .upload(&ws, b"up", content, &options, &user());
    let up = uploaded.unwrap().path.to_text();
    import(engine, &ws, "imported", "five");
    nowhere("an upload or an archive");
    rig.reopen();
    for (path, content) in [("g", "two"), (&up, "four"), ("imported", "five")] {
        assert_eq!(read(&rig.engine, &ws, path), content);
    }
    nowhere("a start");
    let path = rig.engine.workspaces.hand_out_path(&ws).unwrap();
    assert_eq!(fs::read_to_string(path.join("d/f")).unwrap(), "one");
    assert_eq!(fs::read_to_string(path.join("imported")).unwrap(), "five");
    assert!(problems(&rig.engine).is_empty());
}

#[test]
fn a_restore_that_cannot_be_done_leaves_no_version() {
    let rig = TestEngine::new(ProviderName::Copy);
    let ws = create(&rig.engine, "w");
    write(&rig.engine, &ws, "f", "one");
    let first = rig
        .engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    write(&rig.engine, &ws, "f", "two");
    let dir = rig.engine.workspaces.hand_out_path(&ws).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    // Something that no directory can take the place of.
    fs::write(&dir, "in the way").unwrap();
    let before = rig.engine.history.lines(&ws, None, 0).unwrap().len();
    let id = first.snapshot.id.to_hex();
    rig.engine
        .workspaces
        .restore(&ws, &id, None, &user())
        .unwrap_err();
    assert_eq!(
        rig.engine.history.lines(&ws, None, 0).unwrap().len(),
        before
    );
    fs::remove_file(&dir).unwrap();
    rig.engine
        .workspaces
        .restore(&ws, &id, None, &user())
        .unwrap();
    assert_eq!(fs::read_to_string(dir.join("f")).unwrap(), "one");
}

#[test]
fn a_fork_whose_private_directory_is_gone_comes_back_as_it_was_recorded() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "ada");
        fs::write(path.join("new"), "recorded").unwrap();
        fs::write(path.join("README"), "changed").unwrap();
        rig.engine.sync.sync_workspace(&id, &user()).unwrap();
        fs::remove_dir_all(rig.host.path().join("data/forks/ada.1")).unwrap();
        let changes = rig.changes(&id);
        assert_eq!(changes.len(), 2, "{changes:?}");
        assert_eq!(fs::read_to_string(path.join("new")).unwrap(), "recorded");
        assert_eq!(read(&rig.engine, &id, "README"), "changed");
        fs::write(path.join("more"), "x").unwrap();
        assert_eq!(rig.changes(&id).len(), 3);
        assert!(problems(&rig.engine).is_empty());
    });
}

#[test]
fn a_fork_is_changed_and_completed_without_a_directory() {
    with_each(|rig| {
        let project = rig.project("web");
        let options = ForkOptions {
            agent: Some("ada".parse().unwrap()),
            ..ForkOptions::default()
        };
        let forked = rig.engine.forks.fork(&project, &options, &user()).unwrap();
        let id = forked.workspace.id;
        write(&rig.engine, &id, "src/new", "mine");
        rig.engine
            .workspaces
            .delete_file(&id, &p("README"), false, &user())
            .unwrap();
        assert_eq!(read(&rig.engine, &id, "src/new"), "mine");
        assert_eq!(read(&rig.engine, &id, "docs/a/b"), "deep\n");
        write(&rig.engine, &id, "src/more", "mine");
        assert_eq!(rig.changes(&id).len(), 3);
        assert!(!rig.path_of(&id).exists());
        assert!(problems(&rig.engine).is_empty());
        assert_eq!(complete(&rig, &id, false).merged.len(), 3);
    });
}

#[test]
fn clean_leaves_what_somebody_uses_and_says_so_beforehand() {
    let rig = TestEngine::new(ProviderName::Copy);
    let project = rig.project("web");
    let engine = &rig.engine;
    let ids: Vec<WorkspaceId> = ["open", "inside", "private", "free"]
        .iter()
        .map(|id| create(engine, id))
        .collect();
    for id in &ids {
        write(engine, id, "f", "x");
    }
    let (fork, fork_path) = rig.fork(&project, "held");
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
            engine.sync.sync_workspace(id, &user()).unwrap();
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
    with_each(|rig| {
        let project = rig.project("web");
        let (reader, reader_path) = rig.fork(&project, "reader");
        let (other, other_path) = rig.fork(&project, "other");
        fs::write(other_path.join("own"), "kept").unwrap();
        rig.engine.sync.sync_workspace(&other, &user()).unwrap();
        let held = Holder::start(
            "exec 3<\"$DIR/README\"; echo ready; read line",
            &reader_path,
        );
        let clean = |dry_run| {
            let cleaned = rig
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
        // It takes changes as before.
        fs::write(reader_path.join("after"), "x").unwrap();
        assert_eq!(rig.changes(&reader).len(), 1);
        drop(held);
        let path = rig.engine.workspaces.hand_out_path(&other).unwrap();
        assert_eq!(fs::read_to_string(path.join("own")).unwrap(), "kept");
        assert!(problems(&rig.engine).is_empty());
    });
}

#[test]
fn reading_is_a_use() {
    let mut rig = TestEngine::new(ProviderName::Copy);
    let (read_one, unread) = (create(&rig.engine, "read"), create(&rig.engine, "unread"));
    for id in [&read_one, &unread] {
        write(&rig.engine, id, "f", "x");
        rig.engine.workspaces.hand_out_path(id).unwrap();
    }
    // Both were last changed ten days ago.
    let store = store_of(&rig);
    for id in [&read_one, &unread] {
        let age = &mut |tx: &mut dyn WriteTx| {
            let mut row = tx.workspace(id)?.unwrap();
            row.used_at.0 -= 10 * 24 * 3_600_000_000;
            tx.update_workspace(&row)
        };
        store.write(Durability::Synced, age).unwrap();
    }
    drop(store);
    rig.reopen();
    assert_eq!(read(&rig.engine, &read_one, "f"), "x");
    rig.engine.context.wait_for_jobs();
    let days = Duration::from_secs(7 * 24 * 3600);
    for dry_run in [true, false] {
        let cleaned = rig.engine.upkeep.clean(days, dry_run, &user()).unwrap();
        let ids: Vec<WorkspaceId> = cleaned.workspaces.into_iter().map(|one| one.id).collect();
        assert_eq!(ids, std::slice::from_ref(&unread));
    }
}

#[test]
fn deleting_is_refused_while_somebody_could_write_in_vain() {
    with_each(|rig| {
        let project = rig.project("web");
        let (fork, fork_path) = rig.fork(&project, "ada");
        let plain = create(&rig.engine, "plain");
        let plain_path = rig.engine.workspaces.hand_out_path(&plain).unwrap();
        for (id, path) in [(&fork, &fork_path), (&plain, &plain_path)] {
            let mut holder = Holder::writing(path, "log.txt");
            let error = rig
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
            // Nothing is different from before.
            fs::write(path.join("more"), "x").unwrap();
            assert!(path.join("log.txt").exists());
            let deleted = rig.engine.workspaces.delete_workspace(id, &user()).unwrap();
            let kept = deleted.snapshot.unwrap().to_hex();
            rig.engine.context.wait_for_jobs();
            assert!(!path.exists());
            let back = rig
                .engine
                .workspaces
                .create_workspace_from(None, &kept, Quota::default(), &user())
                .unwrap();
            assert_eq!(read(&rig.engine, &back.id, "more"), "x");
            let log = read(&rig.engine, &back.id, "log.txt");
            assert_eq!(log, "after the refusal\n");
        }
        assert!(problems(&rig.engine).is_empty());
    });
}

fn complete(rig: &TestEngine, id: &WorkspaceId, keep: bool) -> Completed {
    let options = CompleteOptions {
        keep,
        ..CompleteOptions::default()
    };
    rig.engine.merges.complete(id, &options, &user()).unwrap()
}

#[test]
fn a_merge_that_landed_is_a_receipt_although_somebody_holds_the_workspace() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "ada");
        fs::write(path.join("work"), "done\n").unwrap();
        let holder = Holder::writing(&path, "work");
        let kept = complete(&rig, &id, true);
        assert!(kept.snapshot.is_some());
        assert_eq!(rig.project_text(&project, "work"), "done\n");
        let after = kept.after.unwrap();
        assert_eq!(after.moved, Some(false));
        let why = after.waits.unwrap();
        assert!(why.contains("offshoot update ada"), "{why}");
        // Asked again, it is the same merge, and still waits.
        let again = complete(&rig, &id, true);
        assert_eq!(again.merge_id, kept.merge_id);
        assert_eq!(again.after.unwrap().moved, Some(false));
        drop(holder);
        let updated = rig.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(Some(updated.to), kept.snapshot);
        assert!(updated.conflicts.is_empty());
        assert!(rig.changes(&id).is_empty());
        assert_eq!(complete(&rig, &id, true).after.unwrap().moved, Some(true));
        assert!(problems(&rig.engine).is_empty());
    });
}

#[test]
fn a_merged_workspace_stays_while_somebody_writes_to_it_and_goes_later() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "ada");
        fs::write(path.join("work"), "done\n").unwrap();
        let holder = Holder::writing(&path, "work");
        let done = complete(&rig, &id, false);
        assert!(done.snapshot.is_some());
        let after = done.after.unwrap();
        assert!(!after.removed);
        assert!(after.waits.unwrap().contains("in use"));
        assert!(path.join("work").exists());
        drop(holder);
        let again = complete(&rig, &id, false);
        assert_eq!(again.merge_id, done.merge_id);
        let gone = AfterMerge {
            removed: true,
            ..AfterMerge::default()
        };
        assert_eq!(again.after, Some(gone.clone()));
        assert_eq!(complete(&rig, &id, false).after, Some(gone));
        rig.engine.context.wait_for_jobs();
        assert!(!path.exists());
    });
}

/// A conflict that waits for a decision does not become a second one.
#[test]
fn an_update_after_a_merge_takes_what_landed_for_done() {
    let rig = TestEngine::new(ProviderName::Copy);
    let project = rig.project("web");
    let (id, path) = rig.fork(&project, "ada");
    rig.put(&project, "README", "theirs\n");
    fs::write(path.join("README"), "mine\n").unwrap();
    fs::write(path.join("work"), "done\n").unwrap();
    let holder = Holder::writing(&path, "work");
    let kept = complete(&rig, &id, true);
    assert_eq!((kept.merged.len(), kept.conflicts.len()), (1, 1));
    drop(holder);
    let updated = rig.engine.merges.update(&id, false, &user()).unwrap();
    assert!(updated.conflicts.is_empty());
    assert_eq!(fs::read_to_string(path.join("README")).unwrap(), "theirs\n");
    let reviews = rig.engine.merges.reviews(Some(&project), true).unwrap();
    assert_eq!(reviews.len(), 1);
}

/// Ignored files stay where they are, in a directory that the project has no more.
#[test]
fn an_update_counts_the_directories_that_only_ignored_files_keep() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "ada");
        // Through us, so that the index knows it.
        write(&rig.engine, &id, "docs/a/out.log", "ignored");
        let (other, other_path) = rig.fork(&project, "bob");
        fs::remove_dir_all(other_path.join("docs")).unwrap();
        complete(&rig, &other, false);
        rig.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(
            fs::read_to_string(path.join("docs/a/out.log")).unwrap(),
            "ignored"
        );
        assert!(!path.join("docs/a/b").exists());
        assert!(
            problems(&rig.engine).is_empty(),
            "{:?}",
            problems(&rig.engine)
        );
        rig.engine.sync.sync_workspace(&id, &user()).unwrap();
        assert!(problems(&rig.engine).is_empty());
    });
}

/// A process that takes a directory away may be killed while it stands aside.
#[test]
fn a_directory_that_stands_aside_is_put_back_with_all_that_is_in_it() {
    let mut rig = TestEngine::new(ProviderName::Copy);
    let ws = create(&rig.engine, "w");
    write(&rig.engine, &ws, "f", "one");
    let path = rig.engine.workspaces.hand_out_path(&ws).unwrap();
    fs::write(path.join("outside"), "not recorded yet").unwrap();
    let mut key = None;
    store_of(&rig)
        .read(&mut |tx| {
            key = tx.workspace(&ws)?.map(|row| row.key);
            Ok(())
        })
        .unwrap();
    let key = key.unwrap();
    let tmp = rig.host.path().join("data/tmp");
    let aside = tmp.join(format!("leaving-{}", key.0));
    fs::rename(&path, &aside).unwrap();
    assert_eq!(read(&rig.engine, &ws, "outside"), "not recorded yet");
    fs::rename(&path, &aside).unwrap();
    rig.close();
    fs::write(rig.host.path().join("data/run/0000"), b"").unwrap();
    rig.reopen();
    rig.engine.context.wait_for_jobs();
    assert!(path.join("outside").exists() && !aside.exists());
    // If it was known to be gone by then, it is thrown away.
    let copy = tmp.join("leaving-999999");
    fs::create_dir(&copy).unwrap();
    rig.close();
    fs::write(rig.host.path().join("data/run/0000"), b"").unwrap();
    rig.reopen();
    rig.engine.context.wait_for_jobs();
    assert!(!copy.exists());
    assert_eq!(read(&rig.engine, &ws, "outside"), "not recorded yet");
}
