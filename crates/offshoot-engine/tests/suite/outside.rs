//! Outside programs, links and ignored files together with calls: no change of a program is lost,
//! and the data directory can always be opened.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::fixture::consistency::out_of_line;
use crate::fixture::{TestEngine, p, try_write, user};
use offshoot_core::{ErrorCode, ObjectKind, WorkspaceId};
use offshoot_engine::{Content, WriteOptions};
use offshoot_store::{HistoryOp, Via};
use offshoot_testkit::skip;

/// A workspace whose path was handed out.
fn handed_out() -> (TestEngine, WorkspaceId, PathBuf) {
    let test = TestEngine::plain();
    let ws = test.create("w");
    let root = test.engine.workspaces.hand_out_path(&ws).unwrap();
    (test, ws, root)
}

/// Whether a content is in the history and can be read.
fn is_remembered(test: &TestEngine, ws: &WorkspaceId, bytes: &[u8]) -> bool {
    let id = offshoot_git::hash(ObjectKind::Blob, bytes).unwrap();
    test.engine
        .history
        .version(ws, &id)
        .is_ok_and(|found| found == bytes)
}

fn upload(test: &TestEngine, ws: &WorkspaceId) -> String {
    let options = WriteOptions::default();
    let content = Content::Bytes(b"mine");
    let written = test
        .engine
        .workspaces
        .upload(ws, b"a.txt", content, &options, &user());
    written.unwrap().path.to_text()
}

#[test]
fn an_upload_takes_no_name_that_an_outside_program_took() {
    let (test, ws, root) = handed_out();
    assert_eq!(upload(&test, &ws), "upload/a.txt");
    fs::write(root.join("upload/a (1).txt"), b"theirs").unwrap();
    fs::write(root.join("upload/a (2).txt"), b"theirs too").unwrap();
    assert_eq!(upload(&test, &ws), "upload/a (3).txt");
    assert_eq!(fs::read(root.join("upload/a (1).txt")).unwrap(), b"theirs");
}

#[test]
fn a_write_through_a_link_remembers_what_was_behind_it() {
    let (test, ws, root) = handed_out();
    fs::create_dir(root.join("real")).unwrap();
    test.engine.sync.sync_workspace(&ws).unwrap();
    // Both the link and its target are new to the index.
    fs::write(root.join("real/f"), b"theirs").unwrap();
    symlink("real", root.join("first")).unwrap();
    symlink("first", root.join("second")).unwrap();
    let written = test.write(&ws, "second/f", b"mine");
    assert_eq!(written.path, p("real/f"));
    assert_eq!(fs::read(root.join("real/f")).unwrap(), b"mine");
    assert!(
        is_remembered(&test, &ws, b"theirs"),
        "their content is lost"
    );
    test.engine.sync.sync_workspace(&ws).unwrap();
    assert_eq!(out_of_line(&test, &ws), None);
}

#[test]
fn a_directory_that_became_a_link_does_not_stop_a_sync() {
    for target in ["/nowhere-of-offshoot", "..", "other"] {
        let (test, ws, root) = handed_out();
        test.write(&ws, "d/f", b"mine");
        test.write(&ws, "other/f", b"theirs");
        fs::remove_dir_all(root.join("d")).unwrap();
        symlink(target, root.join("d")).unwrap();
        test.engine.sync.sync_workspace(&ws).unwrap();
        assert_eq!(out_of_line(&test, &ws), None, "{target}");
        assert_eq!(fs::read(root.join("other/f")).unwrap(), b"theirs");
    }
}

#[test]
fn ignored_files_are_not_overwritten_unseen() {
    let (test, ws, root) = handed_out();
    test.write(&ws, ".gitignore", b"*.log\n");
    test.write(&ws, "a", b"mine");
    fs::write(root.join("x.log"), b"theirs").unwrap();
    let taken = test
        .engine
        .workspaces
        .move_file(&ws, &p("a"), &p("x.log"), &user())
        .unwrap_err();
    assert_eq!(taken.code(), ErrorCode::AlreadyExists);
    assert_eq!(fs::read(root.join("x.log")).unwrap(), b"theirs");
    try_write(&test.engine, &ws, &p("x.log"), b"written over").unwrap();
    assert!(is_remembered(&test, &ws, b"theirs"));
    fs::write(root.join("y.log"), b"to be deleted").unwrap();
    test.engine
        .workspaces
        .delete_file(&ws, &p("y.log"), false, &user())
        .unwrap();
    assert!(!root.join("y.log").exists());
    assert!(is_remembered(&test, &ws, b"to be deleted"));
}

#[test]
fn a_restore_remembers_the_ignored_file_that_it_replaces() {
    let (test, ws, root) = handed_out();
    test.write(&ws, "x.log", b"tracked");
    let first = test
        .engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    test.engine
        .workspaces
        .delete_file(&ws, &p("x.log"), false, &user())
        .unwrap();
    test.write(&ws, ".gitignore", b"*.log\n");
    test.engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    fs::write(root.join("x.log"), b"only on disk").unwrap();
    let id = first.snapshot.id.to_hex();
    test.engine
        .workspaces
        .restore(&ws, &id, None, &user())
        .unwrap();
    assert_eq!(fs::read(root.join("x.log")).unwrap(), b"tracked");
    assert!(is_remembered(&test, &ws, b"only on disk"));
    assert_eq!(out_of_line(&test, &ws), None);
}

#[test]
fn a_restore_is_refused_where_ignored_files_are_in_the_way() {
    let (mut test, ws, root) = handed_out();
    test.write(&ws, "d", b"a file");
    let first = test
        .engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    let id = first.snapshot.id.to_hex();
    fs::remove_file(root.join("d")).unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/x.log"), b"ignored").unwrap();
    fs::write(root.join(".gitignore"), b"*.log\n").unwrap();
    let before = test.image(&ws);
    for _ in 0..2 {
        let refused = test
            .engine
            .workspaces
            .restore(&ws, &id, None, &user())
            .unwrap_err();
        assert_eq!(refused.code(), ErrorCode::AlreadyExists);
        assert_eq!(test.image(&ws), before);
        test.reopen();
    }
    fs::remove_file(root.join("d/x.log")).unwrap();
    test.engine
        .workspaces
        .restore(&ws, &id, None, &user())
        .unwrap();
    assert_eq!(fs::read(root.join("d")).unwrap(), b"a file");
}

#[test]
fn one_path_is_not_restored_below_a_file() {
    let mut test = TestEngine::plain();
    let ws = test.create("w");
    test.write(&ws, "d/f", b"deep");
    let first = test
        .engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    let id = first.snapshot.id.to_hex();
    test.engine
        .workspaces
        .delete_file(&ws, &p("d"), true, &user())
        .unwrap();
    test.write(&ws, "d", b"a file now");
    let refused = test
        .engine
        .workspaces
        .restore(&ws, &id, Some(&p("d/f")), &user())
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NotADirectory);
    assert_eq!(out_of_line(&test, &ws), None);
    test.reopen();
    test.engine
        .workspaces
        .restore(&ws, &id, Some(&p("d")), &user())
        .unwrap();
    assert_eq!(
        test.engine.workspaces.read_whole(&ws, &p("d/f")).unwrap().0,
        b"deep"
    );
    assert_eq!(out_of_line(&test, &ws), None);
}

#[test]
fn a_second_restore_of_the_same_snapshot_restores_again() {
    let test = TestEngine::plain();
    let ws = test.create("w");
    test.write(&ws, "a", b"1");
    let first = test
        .engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    let id = first.snapshot.id.to_hex();
    test.write(&ws, "a", b"2");
    for _ in 0..3 {
        test.engine
            .workspaces
            .restore(&ws, &id, None, &user())
            .unwrap();
        assert_eq!(
            test.engine.workspaces.read_whole(&ws, &p("a")).unwrap().0,
            b"1"
        );
        test.write(&ws, "a", b"2");
    }
    assert_eq!(out_of_line(&test, &ws), None);
}

#[test]
fn what_an_interrupted_deletion_left_is_not_shown_to_the_next_of_that_name() {
    let test = TestEngine::plain();
    let ws = test.create("w");
    test.write(&ws, "secret", b"of the first");
    test.engine
        .workspaces
        .delete_workspace(&ws, &user())
        .unwrap();
    // As if the process had been killed between its commit and the removal.
    fs::create_dir(test.path_of(&ws)).unwrap();
    fs::write(test.path_of(&ws).join("secret"), b"of the first").unwrap();
    let again = test.create("w");
    test.write(&again, "own", b"x");
    test.engine.workspaces.hand_out_path(&again).unwrap();
    assert_eq!(test.image(&again).len(), 1);
    assert_eq!(out_of_line(&test, &again), None);
}

#[test]
fn one_directory_that_cannot_be_put_right_does_not_keep_the_others_shut() {
    let mut test = TestEngine::plain();
    let (bad, good) = (test.create("bad"), test.create("good"));
    for ws in [&bad, &good] {
        test.engine.workspaces.hand_out_path(ws).unwrap();
    }
    test.write(&bad, "d/f", b"x");
    test.write(&good, "f", b"y");
    test.close();
    // A file is where the directory must be.
    fs::remove_dir_all(test.path_of(&bad)).unwrap();
    fs::write(test.path_of(&bad), b"in the way").unwrap();
    fs::remove_file(test.path_of(&good).join("f")).unwrap();
    fs::write(test.data().join("run/0000"), b"").unwrap();
    test.reopen();
    assert_eq!(
        test.engine.workspaces.read_whole(&good, &p("f")).unwrap().0,
        b"y"
    );
    // Once the obstacle is removed, the next start repairs the rest.
    fs::remove_file(test.path_of(&bad)).unwrap();
    test.reopen();
    assert_eq!(
        test.engine
            .workspaces
            .read_whole(&bad, &p("d/f"))
            .unwrap()
            .0,
        b"x"
    );
    assert_eq!(out_of_line(&test, &bad), None);
}

#[test]
fn only_somebody_who_is_given_its_path_sees_the_directory_of_a_session() {
    use offshoot_core::Layout;
    use offshoot_engine::{Expect, Quota};
    let test = TestEngine::plain();
    let id = Some("s".parse().unwrap());
    let made =
        test.engine
            .workspaces
            .create_workspace(id, Layout::Session, Quota::default(), &user());
    let ws = made.unwrap().id;
    let options = WriteOptions {
        expect: Expect::Content(offshoot_core::EMPTY_BLOB),
        ..WriteOptions::default()
    };
    let content = Content::Bytes(b"x");
    test.engine
        .workspaces
        .write_file(&ws, &p("outputs/f"), content, &options, &user())
        .unwrap_err();
    assert!(!test.path_of(&ws).exists());
    test.engine
        .workspaces
        .make_dir_in(&ws, &p("outputs/d"), &user())
        .unwrap();
    assert!(!test.path_of(&ws).exists());
    assert!(!test.engine.workspaces.workspace(&ws).unwrap().materialized);
    test.engine.workspaces.hand_out_path(&ws).unwrap();
    assert!(test.engine.workspaces.workspace(&ws).unwrap().materialized);
    assert!(test.path_of(&ws).join("outputs/d").is_dir());
}

#[test]
fn a_directory_that_was_removed_whole_is_empty_and_not_broken() {
    let (mut test, ws, root) = handed_out();
    test.write(&ws, "d/f", b"x");
    test.write(&ws, "g", b"y");
    let before = test.image(&ws);
    let first = test
        .engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    fs::remove_dir_all(&root).unwrap();
    let synced = test.engine.sync.sync_workspace(&ws).unwrap();
    assert_eq!(synced.changes.len(), 3);
    assert_eq!(out_of_line(&test, &ws), None);
    let id = first.snapshot.id.to_hex();
    test.engine
        .workspaces
        .restore(&ws, &id, None, &user())
        .unwrap();
    assert_eq!(test.image(&ws), before);
    fs::remove_dir_all(&root).unwrap();
    test.reopen();
    test.write(&ws, "new/file", b"z");
    test.engine.sync.sync_workspace(&ws).unwrap();
    assert_eq!(out_of_line(&test, &ws), None);
    fs::remove_dir_all(&root).unwrap();
    test.engine
        .workspaces
        .delete_workspace(&ws, &user())
        .unwrap();
}

#[test]
fn large_files_of_outside_programs_come_back_byte_for_byte() {
    let (test, ws, root) = handed_out();
    let mut bytes = vec![0; 3 << 20];
    offshoot_testkit::Rng::new(1).fill(&mut bytes);
    fs::write(root.join("large"), &bytes).unwrap();
    let first = test
        .engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    let mut changed = bytes.clone();
    changed[2 << 20] ^= 1;
    // A change of the same size, in place, perhaps within the same tick of the clock.
    fs::write(root.join("large"), &changed).unwrap();
    let id = first.snapshot.id.to_hex();
    let restored = test
        .engine
        .workspaces
        .restore(&ws, &id, None, &user())
        .unwrap();
    assert!(fs::read(root.join("large")).unwrap() == bytes);
    let kept = restored.kept.unwrap().to_hex();
    assert_ne!(kept, id);
    test.engine
        .workspaces
        .restore(&ws, &kept, None, &user())
        .unwrap();
    assert!(fs::read(root.join("large")).unwrap() == changed);
    assert_eq!(test.engine.upkeep.check().unwrap().problems, []);
}

/// A restore of one path makes the directories above it. They are in the history, and what is
/// removed with them is recorded.
#[test]
fn directories_that_a_restore_made_are_known_to_go() {
    let (test, ws, path) = handed_out();
    let engine = &test.engine;
    test.write(&ws, "b/b/b", b"deep");
    let taken = engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    fs::remove_dir_all(path.join("b")).unwrap();
    fs::create_dir(path.join("b")).unwrap();
    fs::write(path.join("b/a"), "other").unwrap();
    let id = taken.snapshot.id.to_hex();
    engine
        .workspaces
        .restore(&ws, &id, Some(&p("b/b/b")), &user())
        .unwrap();
    let lines = engine.history.lines(&ws, Some(&p("b/b")), 1).unwrap();
    let made = (lines[0].line.op, lines[0].line.via);
    assert_eq!(made, (HistoryOp::Mkdir, Via::Restore));
    fs::remove_dir_all(path.join("b")).unwrap();
    fs::create_dir(path.join("b")).unwrap();
    engine.sync.sync_workspace(&ws).unwrap();
    assert_eq!(out_of_line(&test, &ws), None);
}

/// A directory that the ignore rules match replaces a file that they do not match.
#[test]
fn a_file_that_an_ignored_directory_replaced_is_gone() {
    let (test, ws, path) = handed_out();
    let engine = &test.engine;
    test.write(&ws, ".gitignore", b"build/\n");
    test.write(&ws, "build", b"a file");
    // Both with a memo that has the file, and without one.
    for name in ["build", "again/build"] {
        test.write(&ws, name, b"a file");
        engine.sync.sync_workspace(&ws).unwrap();
        fs::remove_file(path.join(name)).unwrap();
        fs::create_dir(path.join(name)).unwrap();
        fs::write(path.join(name).join("made"), "x").unwrap();
        let synced = engine.sync.sync_workspace(&ws).unwrap();
        let gone: Vec<_> = synced.changes.iter().map(|one| one.op).collect();
        assert_eq!(gone, [HistoryOp::Delete], "{name}");
        assert_eq!(crate::fixture::consistency::miscounted(&test, &ws), None);
        let taken = engine
            .workspaces
            .snapshot(&ws, None, false, &user())
            .unwrap();
        let id = taken.snapshot.id.to_hex();
        engine.workspaces.file_at(&ws, &id, &p(name)).unwrap_err();
    }
}

/// A directory is moved away for a moment, in which a call records its deletion. What comes back
/// has the same inodes.
#[test]
fn what_was_away_for_a_moment_is_found_again() {
    let (test, ws, path) = handed_out();
    let engine = &test.engine;
    fs::create_dir_all(path.join("d/e")).unwrap();
    fs::write(path.join("d/e/f"), "x").unwrap();
    // Files as young as the memo are read again anyway.
    std::thread::sleep(2 * offshoot_fs::RACY_WINDOW);
    engine.sync.sync_workspace(&ws).unwrap();
    fs::rename(path.join("d"), path.join("away")).unwrap();
    test.write(&ws, "d/e/new", b"through us");
    fs::remove_dir_all(path.join("d")).unwrap();
    fs::rename(path.join("away"), path.join("d")).unwrap();
    engine.sync.sync_workspace(&ws).unwrap();
    assert_eq!(out_of_line(&test, &ws), None);
}

/// A killed process had committed a write and not yet written it to the directory, while this
/// engine was open. The lock shows that, so that neither the next writer nor a checkpoint takes the
/// old file for a change of an outside program.
#[test]
fn what_a_killed_process_had_committed_is_put_in_place_by_the_next_holder() {
    for next in ["a write", "a checkpoint"] {
        let (mut test, ws, path) = handed_out();
        test.write(&ws, "f", b"before");
        test.write(&ws, "f", b"committed");
        fs::write(path.join("f"), b"before").unwrap();
        let locks = fs::read_dir(test.host.path().join("data/locks")).unwrap();
        let held = locks.flatten().map(|entry| entry.path());
        for lock in held.filter(|path| path.extension().is_some_and(|kind| kind == "main")) {
            fs::File::options()
                .write(true)
                .open(lock)
                .unwrap()
                .set_len(1)
                .unwrap();
        }
        match next {
            "a write" => drop(test.write(&ws, "other", b"x")),
            _ => test.engine.directories.checkpoint().unwrap(),
        }
        assert_eq!(fs::read(path.join("f")).unwrap(), b"committed", "{next}");
        test.close();
        test.reopen();
        test.engine.sync.sync_workspace(&ws).unwrap();
        assert_eq!(fs::read(path.join("f")).unwrap(), b"committed", "{next}");
        assert_eq!(out_of_line(&test, &ws), None);
    }
}

/// A process that is killed while it holds a workspace leaves only its own changes to be repaired: what
/// outside programs did to earlier ones is theirs.
#[test]
fn a_repair_leaves_what_outside_programs_did_to_earlier_changes() {
    let (test, ws, path) = handed_out();
    for name in ["removed", "emptied", "reverted"] {
        test.write(&ws, name, b"first");
        test.write(&ws, name, b"second");
    }
    fs::remove_file(path.join("removed")).unwrap();
    fs::write(path.join("emptied"), b"").unwrap();
    fs::write(path.join("reverted"), b"first").unwrap();
    lock_of_dead_holder(&test, &ws, 0);
    test.write(&ws, "other", b"x");
    assert!(!path.join("removed").exists(), "a deletion was undone");
    assert_eq!(fs::read(path.join("emptied")).unwrap(), b"");
    assert_eq!(fs::read(path.join("reverted")).unwrap(), b"first");
    test.engine.sync.sync_workspace(&ws).unwrap();
    assert_eq!(out_of_line(&test, &ws), None);
}

/// A directory that an outside program made where a killed process was about to write a file is the
/// program's, and does not keep the rest from being repaired.
#[test]
fn a_repair_goes_on_beside_a_directory_in_its_way() {
    let (test, ws, path) = handed_out();
    test.write(&ws, "taken", b"of the dead");
    test.write(&ws, "zlost", b"of the dead");
    for name in ["taken", "zlost"] {
        fs::remove_file(path.join(name)).unwrap();
    }
    fs::create_dir(path.join("taken")).unwrap();
    fs::write(path.join("taken/inside"), b"of a program").unwrap();
    let lock = lock_of_dead_holder(&test, &ws, 2);
    test.write(&ws, "other", b"x");
    assert_eq!(fs::metadata(lock).unwrap().len(), 0, "it is repaired");
    assert_eq!(fs::read(path.join("zlost")).unwrap(), b"of the dead");
    assert_eq!(
        fs::read(path.join("taken/inside")).unwrap(),
        b"of a program"
    );
    test.engine.sync.sync_workspace(&ws).unwrap();
    assert_eq!(out_of_line(&test, &ws), None);
}

/// Leaves the lock of a workspace as a holder does that began so many revisions ago and died. Returns
/// the file of the lock.
fn lock_of_dead_holder(test: &TestEngine, ws: &WorkspaceId, revisions_ago: u64) -> PathBuf {
    let row = test.store().read(|tx| tx.workspace(ws)).unwrap().unwrap();
    let lock = test
        .host
        .path()
        .join("data/locks")
        .join(format!("{}.main", row.key.0));
    let began_at = u64::try_from(row.revision).unwrap() - revisions_ago;
    let file = fs::File::options().write(true).open(&lock).unwrap();
    file.set_len(began_at + 1).unwrap();
    lock
}

/// After a power cut a file may hold anything. Whether there was one shows in the mount; as long as the
/// file system stays mounted, what is in a file was written by somebody.
#[test]
fn what_a_cut_off_file_system_holds_is_replaced_and_kept() {
    for was_cut_off in [true, false] {
        let mut test = TestEngine::plain();
        let ws = test.create("w");
        let path = test.engine.workspaces.hand_out_path(&ws).unwrap();
        test.write(&ws, "f", b"acknowledged");
        test.close();
        fs::write(path.join("f"), b"ackn\0\0\0\0\0\0\0\0").unwrap();
        let marker = test.data().join("run/0000");
        let file = fs::File::create(&marker).unwrap();
        let Some(mount) = offshoot_sys::unique_mount_id(&file) else {
            return skip("the kernel does not tell mounts apart");
        };
        let says = match was_cut_off {
            true => format!("{}", mount + 1),
            false => format!("{mount} unwritten"),
        };
        fs::write(marker, says).unwrap();
        test.reopen();
        test.engine.sync.sync_workspace(&ws).unwrap();
        let now = test.engine.workspaces.read_whole(&ws, &p("f")).unwrap().0;
        assert_eq!(now == b"acknowledged", was_cut_off);
        for kept in [&b"acknowledged"[..], b"ackn\0\0\0\0\0\0\0\0"] {
            let id = offshoot_git::hash(ObjectKind::Blob, kept).unwrap();
            assert_eq!(test.engine.history.version(&ws, &id).unwrap(), kept);
        }
        assert_eq!(out_of_line(&test, &ws), None);
    }
}
