//! The life of a workspace through the engine, step by step.

use crate::fixture::{create_as, p, user, write};
use offshoot_core::{ErrorCode, Layout, RelPath};
use offshoot_engine::{
    Content, Engine, EngineOptions, Expect, Point, Quota, WindowContent, WriteOptions,
};

fn engine() -> (tempfile::TempDir, Engine) {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(EngineOptions::new(dir.path().join("data"))).unwrap();
    (dir, engine)
}

#[test]
fn assigned_then_written_then_read() {
    let (dir, engine) = engine();
    let ws = create_as(&engine, "a1", Layout::Plain);
    let on_disk = dir.path().join("data/workspaces/a1");
    assert!(
        !on_disk.exists(),
        "an assigned workspace is a row and nothing more"
    );
    assert!(
        engine
            .workspaces
            .list(&ws, &RelPath::root())
            .unwrap()
            .is_empty()
    );
    write(&engine, &ws, "src/deep/main.py", b"print('hi')\n");
    assert!(!on_disk.exists(), "nobody needs a directory yet");
    let (bytes, _) = engine
        .workspaces
        .read_whole(&ws, &p("src/deep/main.py"))
        .unwrap();
    assert_eq!(bytes, b"print('hi')\n");
    let info = engine.workspaces.info(&ws).unwrap();
    assert_eq!(
        (info.file_count, info.dir_count, info.total_size),
        (1, 2, 12)
    );
    let tree = engine.workspaces.tree(&ws, &RelPath::root(), None).unwrap();
    assert_eq!(tree.children[0].children[0].path, p("src/deep"));
    let list = engine.workspaces.list(&ws, &p("src/deep")).unwrap();
    assert_eq!(list[0].operator.as_deref(), Some("user"));
    assert_eq!(list[0].mime.as_deref(), Some("text/x-python"));
    assert_eq!(engine.workspaces.hand_out_path(&ws).unwrap(), on_disk);
    assert_eq!(
        std::fs::read(on_disk.join("src/deep/main.py")).unwrap(),
        b"print('hi')\n"
    );
    let handed_out = engine.workspaces.list(&ws, &p("src/deep")).unwrap();
    assert_eq!(handed_out, list, "the directory shows the same times");
}

#[test]
fn snapshot_edit_restore() {
    let (_dir, engine) = engine();
    let ws = create_as(&engine, "a1", Layout::Plain);
    write(&engine, &ws, "a.txt", b"one");
    write(&engine, &ws, "d/b.txt", b"two");
    engine
        .workspaces
        .make_dir_in(&ws, &p("empty/inner"), &user())
        .unwrap();
    let first = engine
        .workspaces
        .snapshot(&ws, Some("first"), false, &user())
        .unwrap();
    assert!(first.created);
    let again = engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    assert!(!again.created);
    assert_eq!(again.snapshot.id, first.snapshot.id);
    write(&engine, &ws, "a.txt", b"changed");
    engine
        .workspaces
        .delete_file(&ws, &p("d"), true, &user())
        .unwrap();
    engine
        .workspaces
        .delete_file(&ws, &p("empty"), true, &user())
        .unwrap();
    engine
        .workspaces
        .move_file(&ws, &p("a.txt"), &p("x/y.txt"), &user())
        .unwrap();
    let restored = engine
        .workspaces
        .restore(&ws, &first.snapshot.id.to_hex(), None, &user())
        .unwrap();
    let kept = restored.kept.unwrap();
    assert_eq!(
        engine.workspaces.read_whole(&ws, &p("a.txt")).unwrap().0,
        b"one"
    );
    assert_eq!(
        engine.workspaces.read_whole(&ws, &p("d/b.txt")).unwrap().0,
        b"two"
    );
    assert!(
        engine
            .workspaces
            .list(&ws, &p("empty/inner"))
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        engine
            .workspaces
            .read_whole(&ws, &p("x/y.txt"))
            .unwrap_err()
            .code(),
        ErrorCode::FileNotFound
    );
    let diff = engine
        .workspaces
        .diff(
            &ws,
            Point::Snapshot(&first.snapshot.id.to_hex()),
            Point::Now,
        )
        .unwrap();
    assert_eq!(diff.changes, []);
    let info = engine.workspaces.info(&ws).unwrap();
    assert_eq!(
        (info.file_count, info.dir_count, info.total_size),
        (2, 3, 6)
    );
    // The state before the restore can be restored as well.
    engine
        .workspaces
        .restore(&ws, &kept.to_hex(), None, &user())
        .unwrap();
    assert_eq!(
        engine.workspaces.read_whole(&ws, &p("x/y.txt")).unwrap().0,
        b"changed"
    );
    let unknown = engine
        .workspaces
        .restore(&ws, "0000000", None, &user())
        .unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::SnapshotNotFound);
}

#[test]
fn outside_changes_are_found_and_recorded() {
    let (_dir, engine) = engine();
    let ws = create_as(&engine, "a1", Layout::Plain);
    write(&engine, &ws, "a.txt", b"one");
    write(&engine, &ws, "gone/b.txt", b"two");
    assert!(!engine.sync.sync_workspace(&ws).unwrap().walked);
    let path = engine.workspaces.hand_out_path(&ws).unwrap();
    assert_eq!(engine.sync.sync_workspace(&ws).unwrap().changes, []);
    // A change of the same size within the same tick of the clock.
    std::fs::write(path.join("a.txt"), b"eno").unwrap();
    std::fs::remove_dir_all(path.join("gone")).unwrap();
    std::fs::create_dir(path.join("new")).unwrap();
    std::fs::write(path.join("new/c.txt"), b"three").unwrap();
    std::fs::write(path.join(".gitignore"), b"*.log\n").unwrap();
    std::fs::write(path.join("x.log"), b"noise").unwrap();
    let synced = engine.sync.sync_workspace(&ws).unwrap();
    let changes: Vec<String> = synced
        .changes
        .iter()
        .map(|c| format!("{} {}", c.op.as_str(), c.path))
        .collect();
    assert_eq!(
        changes,
        [
            "create .gitignore",
            "write a.txt",
            "delete gone",
            "delete gone/b.txt",
            "mkdir new",
            "create new/c.txt"
        ]
    );
    assert_eq!(synced.ignored, [p("x.log")]);
    let last = &engine.history.lines(&ws, Some(&p("a.txt")), 1).unwrap()[0];
    assert_eq!(last.line.cause.operator.as_str(), "outside");
    assert_eq!(last.line.via.as_str(), "sync");
    assert_eq!(engine.sync.sync_workspace(&ws).unwrap().changes, []);
    let taken = engine
        .workspaces
        .snapshot(&ws, None, false, &user())
        .unwrap();
    assert_eq!(taken.snapshot.files, 3);
}

#[test]
fn windows_never_split_characters() {
    let (_dir, engine) = engine();
    let ws = create_as(&engine, "a1", Layout::Plain);
    let text = "aé漢😀".repeat(3000);
    write(&engine, &ws, "t.txt", text.as_bytes());
    let window = engine
        .workspaces
        .read_window(&ws, &p("t.txt"), 11_998, 10_000)
        .unwrap();
    assert_eq!(
        (window.start, window.total, window.read_length),
        (11_998, 12_000, 2)
    );
    assert_eq!(window.content, WindowContent::Text("漢😀".to_owned()));
    let window = engine
        .workspaces
        .read_window(&ws, &p("t.txt"), 0, 10_000)
        .unwrap();
    assert_eq!(window.read_length, 5000);
    write(&engine, &ws, "b.bin", [0, 159, 146, 150, 7]);
    let window = engine
        .workspaces
        .read_window(&ws, &p("b.bin"), 1, 2)
        .unwrap();
    assert_eq!(window.content, WindowContent::Bytes(vec![159, 146]));
}

#[test]
fn session_layout_and_virtual_files() {
    let (_dir, engine) = engine();
    let ws = create_as(&engine, "s1", Layout::Session);
    let names: Vec<_> = engine
        .workspaces
        .list(&ws, &RelPath::root())
        .unwrap()
        .iter()
        .map(|e| e.path.to_text())
        .collect();
    assert_eq!(names, ["outputs", "skills", "temp", "uploads"]);
    let denied = engine
        .workspaces
        .write_file(
            &ws,
            &p("skills/x"),
            Content::Bytes(b""),
            &WriteOptions::default(),
            &user(),
        )
        .unwrap_err();
    assert_eq!(denied.code(), ErrorCode::PermissionDenied);
    for expected in [
        "uploads/data.csv",
        "uploads/data (1).csv",
        "uploads/data (2).csv",
    ] {
        let up = engine
            .workspaces
            .upload(
                &ws,
                b"data.csv",
                Content::Bytes(b"a,b"),
                &WriteOptions::default(),
                &user(),
            )
            .unwrap();
        assert_eq!(up.path.to_text(), expected);
    }
    let meta = engine
        .workspaces
        .read_whole(&ws, &p(".metadata.json"))
        .unwrap()
        .0;
    assert!(
        String::from_utf8(meta)
            .unwrap()
            .contains("\"session_id\": \"s1\"")
    );
    let meta = engine
        .workspaces
        .read_whole(&ws, &p(".meta/uploads/data.csv"))
        .unwrap()
        .0;
    assert!(
        String::from_utf8(meta)
            .unwrap()
            .contains("\"mime_type\": \"text/csv\"")
    );
    let info = engine.workspaces.info(&ws).unwrap();
    assert_eq!((info.file_count, info.dir_count), (3, 4));
}

#[test]
fn quotas_and_preconditions_leave_the_old_content() {
    let (_dir, engine) = engine();
    let ws = create_as(&engine, "a1", Layout::Plain);
    write(&engine, &ws, "a", b"12345");
    engine
        .workspaces
        .set_quota(
            &ws,
            Quota {
                bytes: Some(8),
                inodes: Some(2),
            },
            &user(),
        )
        .unwrap();
    let put = |path: &str, bytes: &[u8], expect| {
        let options = WriteOptions {
            expect,
            ..WriteOptions::default()
        };
        engine
            .workspaces
            .write_file(&ws, &p(path), Content::Bytes(bytes), &options, &user())
    };
    let full = put("a", b"123456789", Expect::Anything).unwrap_err();
    assert_eq!(full.code(), ErrorCode::QuotaExceeded);
    assert_eq!(
        engine.workspaces.read_whole(&ws, &p("a")).unwrap().0,
        b"12345"
    );
    put("b", b"x", Expect::Absent).unwrap();
    assert_eq!(
        put("c", b"", Expect::Anything).unwrap_err().code(),
        ErrorCode::QuotaExceeded
    );
    assert_eq!(
        put("b", b"y", Expect::Absent).unwrap_err().code(),
        ErrorCode::PreconditionFailed
    );
    let (_, id) = engine.workspaces.read_whole(&ws, &p("b")).unwrap();
    put("b", b"z", Expect::Content(id)).unwrap();
    assert_eq!(
        put("b", b"w", Expect::Content(id)).unwrap_err().code(),
        ErrorCode::PreconditionFailed
    );
}

#[test]
fn a_directory_whose_bits_change_and_change_back_is_followed() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_dir, engine) = engine();
    let ws = create_as(&engine, "a1", Layout::Plain);
    write(&engine, &ws, "d/a.txt", b"one");
    write(&engine, &ws, "e/b.txt", b"two");
    let path = engine.workspaces.hand_out_path(&ws).unwrap();
    let set = |mode| {
        std::fs::set_permissions(path.join("d"), std::fs::Permissions::from_mode(mode)).unwrap();
        engine.sync.sync_workspace(&ws).unwrap().changes.len()
    };
    engine.sync.sync_workspace(&ws).unwrap();
    assert_eq!(
        (set(0o700), set(0o755), set(0o755), set(0o700)),
        (1, 1, 0, 1)
    );
    std::fs::remove_dir_all(path.join("e")).unwrap();
    assert_eq!(engine.sync.sync_workspace(&ws).unwrap().changes.len(), 2);
    std::fs::create_dir(path.join("e")).unwrap();
    assert_eq!(engine.sync.sync_workspace(&ws).unwrap().changes.len(), 1);
}
