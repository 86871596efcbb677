//! Clean-up, garbage, purge, check and export.

use std::time::Duration;

use crate::fixture::{create, p, user, write};
use offshoot_core::{ErrorCode, Layout, WorkspaceId};
use offshoot_engine::{Content, Engine, EngineOptions, Quota, WriteOptions};
use offshoot_testkit::git::git;

fn engine() -> (tempfile::TempDir, Engine) {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(EngineOptions::new(dir.path().join("data"))).unwrap();
    (dir, engine)
}

fn assert_clean(engine: &Engine) {
    let report = engine.upkeep.check().unwrap();
    assert_eq!(report.problems, []);
}

/// All bytes of all files below a directory, as one haystack.
fn haystack(dir: &std::path::Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bytes.extend(haystack(&path));
        } else {
            bytes.extend(std::fs::read(&path).unwrap());
        }
    }
    bytes
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

#[test]
fn clean_keeps_the_last_state_and_ignored_files_if_asked_to() {
    let (dir, engine) = engine();
    let ws = create(&engine, "a1");
    write(&engine, &ws, "a.txt", b"one");
    let path = engine.workspaces.hand_out_path(&ws).unwrap();
    std::fs::write(path.join(".gitignore"), b".env\n").unwrap();
    std::fs::write(path.join(".env"), b"TOKEN=1").unwrap();
    std::fs::write(path.join("outside.txt"), b"two").unwrap();
    engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    let plan = engine.upkeep.clean(Duration::ZERO, true, &user()).unwrap();
    assert_eq!(plan.workspaces.len(), 1);
    let ignored = plan.workspaces[0].ignored;
    assert_eq!((ignored.files, ignored.bytes), (1, 7));
    assert!(
        path.exists() && plan.collected.is_none(),
        "a plan changes nothing"
    );
    let untouched = engine
        .upkeep
        .clean(Duration::from_secs(3600), false, &user())
        .unwrap();
    assert!(untouched.workspaces.is_empty() && path.exists());
    let done = engine
        .upkeep
        .clean_with(Duration::ZERO, true, false, &user())
        .unwrap();
    assert!(done.workspaces[0].snapshot.is_some());
    assert!(done.workspaces[0].ignored.is_empty());
    assert!(!dir.path().join("data/workspaces/a1").exists());
    assert_clean(&engine);
    // Reads come from the store, and the directory is built again when its path is requested.
    assert_eq!(
        engine
            .workspaces
            .read_whole(&ws, &p("outside.txt"))
            .unwrap()
            .0,
        b"two"
    );
    let path = engine.workspaces.hand_out_path(&ws).unwrap();
    assert_eq!(std::fs::read(path.join(".env")).unwrap(), b"TOKEN=1");
    assert_eq!(std::fs::read(path.join("a.txt")).unwrap(), b"one");
    let diff = engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    assert!(!diff.created, "nothing changed by going and coming back");
}

#[test]
fn delete_keeps_and_purge_erases() {
    let (dir, engine) = engine();
    let secret = b"correct-horse-battery-staple-42";
    let ws = create(&engine, "a1");
    write(&engine, &ws, "notes.txt", secret);
    let deleted = engine.workspaces.delete_workspace(&ws, &user()).unwrap();
    assert!(deleted.existed && deleted.snapshot.is_some());
    assert!(
        !engine
            .workspaces
            .delete_workspace(&ws, &user())
            .unwrap()
            .existed
    );
    assert_eq!(
        engine.workspaces.workspace(&ws).unwrap_err().code(),
        ErrorCode::WorkspaceNotFound
    );
    assert!(
        contains(&haystack(dir.path()), secret),
        "deleted is not erased"
    );
    assert_clean(&engine);
    engine.upkeep.purge_workspace(&ws).unwrap();
    assert_clean(&engine);
    drop(engine);
    assert!(!contains(&haystack(dir.path()), secret), "purged is erased");
}

#[test]
fn purged_content_is_gone_everywhere_and_snapshots_stay_whole() {
    let (dir, engine) = engine();
    let secret = b"correct-horse-battery-staple-43";
    let (one, two) = (create(&engine, "one"), create(&engine, "two"));
    write(&engine, &one, "d/.env", secret);
    write(&engine, &one, "a", b"harmless");
    engine
        .workspaces
        .snapshot(&one, Some("with secret"), false, &user())
        .unwrap();
    write(&engine, &one, "a", b"harmless 2");
    engine
        .workspaces
        .snapshot(&one, Some("later"), false, &user())
        .unwrap();
    write(&engine, &two, "copied", secret);
    engine
        .workspaces
        .delete_file(&one, &p("d/.env"), false, &user())
        .unwrap();
    let purged = engine
        .upkeep
        .purge_path(&one, &p("d/.env"), &user())
        .unwrap();
    assert_eq!(purged.snapshots.len(), 2);
    assert_eq!(purged.files, [(two.clone(), p("copied"))]);
    assert_clean(&engine);
    assert_eq!(
        engine.workspaces.read_whole(&two, &p("copied")).unwrap().0,
        b"This content was purged.\n"
    );
    let snapshots = engine.workspaces.snapshots(&one, 0).unwrap();
    let first = snapshots.last().unwrap().id.to_hex();
    assert_eq!(
        engine.workspaces.file_at(&one, &first, &p("a")).unwrap(),
        b"harmless"
    );
    let target = dir.path().join("out.git");
    engine
        .workspaces
        .export_git(&one, &target, &mut |_| {})
        .unwrap();
    git(&target, &["fsck", "--strict", "--full"]);
    drop(engine);
    std::fs::remove_dir_all(&target).unwrap();
    assert!(!contains(&haystack(dir.path()), secret));
}

#[test]
fn export_is_a_repository_that_git_accepts() {
    let (dir, engine) = engine();
    let ws = create(&engine, "a1");
    let nothing = engine
        .workspaces
        .export_git(&ws, &dir.path().join("x.git"), &mut |_| {})
        .unwrap_err();
    assert_eq!(nothing.code(), ErrorCode::InvalidRequest);
    write(&engine, &ws, "src/main.rs", b"fn main() {}\n");
    engine
        .workspaces
        .make_dir_in(&ws, &p("empty"), &user())
        .unwrap();
    engine
        .workspaces
        .snapshot(&ws, Some("first"), false, &user())
        .unwrap();
    write(&engine, &ws, "src/main.rs", b"fn main() { println!() }\n");
    engine
        .workspaces
        .snapshot(&ws, Some("second"), false, &user())
        .unwrap();
    let bare = dir.path().join("out.git");
    let exported = engine
        .workspaces
        .export_git(&ws, &bare, &mut |_| {})
        .unwrap();
    assert_eq!(exported.snapshots, 2);
    git(dir.path(), &["clone", "-q", "out.git", "clone"]);
    let clone = dir.path().join("clone");
    git(&clone, &["fsck", "--strict", "--full"]);
    let log = git(&clone, &["log", "--format=%s"]);
    assert_eq!(log, "second\nfirst");
    assert_eq!(
        std::fs::read(clone.join("src/main.rs")).unwrap(),
        b"fn main() { println!() }\n"
    );
    assert!(!clone.join("empty").exists(), "git cannot hold it");
}

#[test]
fn check_names_what_is_damaged() {
    let (dir, engine) = engine();
    let ws = create(&engine, "a1");
    // Large and random enough for a blob of its own.
    let mut state = 1u64;
    let big: Vec<u8> = (0..400_000)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .collect();
    write(&engine, &ws, "big.bin", &big);
    write(&engine, &ws, "small.txt", b"small");
    assert_clean(&engine);
    let on_disk = engine.workspaces.hand_out_path(&ws).unwrap();
    assert_clean(&engine);
    let away = dir.path().join("away");
    std::fs::rename(&on_disk, &away).unwrap();
    let report = engine.upkeep.check().unwrap();
    assert_eq!(report.problems.len(), 1);
    assert_eq!(report.problems[0].what, "directory");
    std::fs::rename(&away, &on_disk).unwrap();
    fn files(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut blobs = Vec::new();
    files(&dir.path().join("data/blobs"), &mut blobs);
    assert_eq!(blobs.len(), 1);
    let mut bytes = std::fs::read(&blobs[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&blobs[0], bytes).unwrap();
    let report = engine.upkeep.check().unwrap();
    assert!(
        report
            .problems
            .iter()
            .any(|problem| problem.what == "object"),
        "{report:?}"
    );
}

#[test]
fn a_name_is_not_used_again_before_its_directory_is_gone() {
    let (_dir, engine) = engine();
    let id: WorkspaceId = "again".parse().unwrap();
    let rounds = 40;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (engine, id) = (&engine, &id);
            scope.spawn(move || {
                for _ in 0..rounds {
                    let made = engine.workspaces.create_workspace(
                        Some(id.clone()),
                        Layout::Plain,
                        Quota::default(),
                        &user(),
                    );
                    if made.is_ok() {
                        let put = |name| {
                            engine.workspaces.write_file(
                                id,
                                &p(name),
                                Content::Bytes(b"x"),
                                &WriteOptions::default(),
                                &user(),
                            )
                        };
                        put("one").unwrap();
                        put("two").unwrap();
                        assert_eq!(engine.workspaces.read_whole(id, &p("one")).unwrap().0, b"x");
                        assert!(
                            engine
                                .workspaces
                                .delete_workspace(id, &user())
                                .unwrap()
                                .existed
                        );
                    } else {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_clean(&engine);
}

#[test]
fn a_deleted_workspace_comes_back_with_its_ignored_files_if_asked_to() {
    let (_dir, engine) = engine();
    let ws = create(&engine, "a1");
    write(&engine, &ws, "d/a.txt", b"one");
    let path = engine.workspaces.hand_out_path(&ws).unwrap();
    std::fs::write(path.join(".gitignore"), b".env\n").unwrap();
    std::fs::write(path.join(".env"), b"TOKEN=1").unwrap();
    let early = engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap()
        .snapshot;
    std::fs::write(path.join("late.txt"), b"two").unwrap();
    let kept = engine
        .workspaces
        .delete_workspace_with(&ws, true, &user())
        .unwrap()
        .snapshot
        .unwrap();
    let back = engine
        .workspaces
        .create_workspace_from(Some(ws.clone()), &kept.to_hex(), Quota::default(), &user())
        .unwrap();
    assert_eq!(back.files, 4);
    assert_clean(&engine);
    let path = engine.workspaces.hand_out_path(&ws).unwrap();
    assert_eq!(std::fs::read(path.join(".env")).unwrap(), b"TOKEN=1");
    assert_eq!(std::fs::read(path.join("late.txt")).unwrap(), b"two");
    let unchanged = engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    assert_eq!((unchanged.created, unchanged.snapshot.id), (false, kept));
    // A workspace from an older state, under another name.
    let other = engine
        .workspaces
        .create_workspace_from(None, &early.id.to_hex()[..12], Quota::default(), &user())
        .unwrap();
    assert_eq!(
        engine
            .workspaces
            .read_whole(&other.id, &p("d/a.txt"))
            .unwrap()
            .0,
        b"one"
    );
    assert_eq!(
        engine
            .workspaces
            .read_whole(&other.id, &p("late.txt"))
            .unwrap_err()
            .code(),
        ErrorCode::FileNotFound
    );
    assert_clean(&engine);
    let unknown = engine
        .workspaces
        .create_workspace_from(None, "0000", Quota::default(), &user());
    assert_eq!(unknown.unwrap_err().code(), ErrorCode::SnapshotNotFound);
}

#[test]
fn sessions_go_by_their_age_with_all_that_only_they_hold() {
    let (dir, engine) = engine();
    let session = |id: &str| {
        let id = Some(id.parse().unwrap());
        engine
            .workspaces
            .create_workspace(id, Layout::Session, Quota::default(), &user())
            .unwrap()
            .id
    };
    let secret = b"spoken-in-confidence-4711";
    let shared = b"known-to-others-too";
    let plain = create(&engine, "plain");
    write(&engine, &plain, "shared", shared);
    let old = session("old");
    write(&engine, &old, "outputs/secret", secret);
    write(&engine, &old, "outputs/shared", shared);
    engine
        .workspaces
        .snapshot(&old, None, false, &user())
        .unwrap();
    let deleted = session("deleted");
    write(&engine, &deleted, "temp/x", b"gone before");
    engine
        .workspaces
        .delete_workspace(&deleted, &user())
        .unwrap();
    let open = session("open");
    let open_path = engine.workspaces.hand_out_path(&open).unwrap();
    let mut worker = std::process::Command::new("sleep")
        .arg("600")
        .current_dir(open_path.join("temp"))
        .spawn()
        .unwrap();
    let changed = session("changed");
    let changed_path = engine.workspaces.hand_out_path(&changed).unwrap();
    std::fs::write(changed_path.join("temp/new"), "by an outside program").unwrap();

    let day = Duration::from_secs(24 * 3600);
    assert_eq!(
        engine.upkeep.retire_sessions(day).unwrap(),
        [] as [WorkspaceId; 0]
    );
    let mut gone = engine.upkeep.retire_sessions(Duration::ZERO).unwrap();
    gone.sort();
    assert_eq!(gone, [deleted.clone(), old.clone()]);
    assert!(!dir.path().join("data/workspaces/old").exists());
    let all = haystack(&dir.path().join("data"));
    assert!(!contains(&all, secret), "its content is nowhere");
    assert_eq!(
        engine
            .workspaces
            .read_whole(&plain, &p("shared"))
            .unwrap()
            .0,
        shared
    );
    let never = engine
        .workspaces
        .delete_workspace(&old, &user())
        .unwrap_err();
    assert_eq!(never.code(), ErrorCode::WorkspaceNotFound);
    // Neither a workspace that a program uses nor one that was used since is cleaned up.
    assert!(open_path.exists() && changed_path.join("temp/new").exists());
    worker.kill().unwrap();
    worker.wait().unwrap();
    let mut gone = engine.upkeep.retire_sessions(Duration::ZERO).unwrap();
    gone.sort();
    assert_eq!(gone, [changed, open]);
    assert!(engine.workspaces.workspace(&plain).is_ok());
    assert_clean(&engine);
}
