//! A session workspace has its fixed directories for outside programs too.

use std::fs;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::Layout;
use offshoot_engine::{Point, Quota};

#[test]
fn what_outside_programs_put_beside_the_places_is_refused() {
    let test = TestEngine::plain();
    let engine = &test.engine;
    let id = engine
        .workspaces
        .create_workspace(
            Some("talk".parse().unwrap()),
            Layout::Session,
            Quota::default(),
            &user(),
        )
        .unwrap()
        .id;
    let root = engine.workspaces.hand_out_path(&id).unwrap();
    for dir in [
        "uploads",
        "outputs/deep",
        "temp",
        "skills/evil",
        "beside",
        ".logs",
    ] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in [
        "uploads/a",
        "outputs/deep/b",
        "temp/c",
        "skills/evil/SKILL.md",
        "beside/x",
        "loose",
        ".logs/run",
    ] {
        fs::write(root.join(file), "x\n").unwrap();
    }
    let refused = ["beside", "loose", "skills/evil"].map(p);
    let synced = engine.sync.sync_workspace(&id).unwrap();
    let reported: Vec<_> = synced
        .refused
        .iter()
        .map(|(path, _)| path.clone())
        .collect();
    assert_eq!(reported, refused);
    assert!(synced.refused[0].1.contains("`uploads`"));
    let found: Vec<_> = synced
        .changes
        .iter()
        .map(|one| one.path.to_text())
        .collect();
    assert_eq!(
        found,
        ["outputs/deep", "outputs/deep/b", "temp/c", "uploads/a"]
    );
    assert!(!synced.ignored.iter().any(|path| refused.contains(path)));
    let status = engine.sync.changes(&id).unwrap();
    assert_eq!(status.refused, synced.refused);
    assert_eq!(status.set.ignored, []);

    let taken = engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap()
        .snapshot;
    let diff = engine
        .workspaces
        .diff(&id, Point::Snapshot(&taken.id.to_hex()), Point::Now)
        .unwrap();
    assert!(diff.changes.is_empty(), "{diff:?}");
    assert_eq!((taken.files, taken.dirs), (3, 4));
    for path in ["skills", "beside", "loose", "skills/evil/SKILL.md"] {
        assert!(
            engine
                .workspaces
                .file_at(&id, &taken.id.to_hex(), &p(path))
                .is_err(),
            "{path}"
        );
    }
    let target = test.host.path().join("out.git");
    engine
        .workspaces
        .export_git(&id, &target, &mut |_| {})
        .unwrap();
    let tree = offshoot_testkit::git(&target, &["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(tree.trim_end(), "outputs/deep/b\ntemp/c\nuploads/a");

    // The directories are all there, also after a restore and in a new session.
    engine
        .workspaces
        .restore(&id, &taken.id.to_hex(), None, &user())
        .unwrap();
    assert!(root.join("skills").is_dir() && root.join("loose").exists());
    // No version holds what is beside the directories.
    engine
        .workspaces
        .delete_workspace(&id, &user())
        .unwrap_err();
    fs::remove_file(root.join("loose")).unwrap();
    for dir in ["beside", "skills/evil"] {
        fs::remove_dir_all(root.join(dir)).unwrap();
    }
    engine.workspaces.delete_workspace(&id, &user()).unwrap();
    let again = engine
        .workspaces
        .create_workspace_from(
            Some("again".parse().unwrap()),
            &taken.id.to_hex(),
            Quota::default(),
            &user(),
        )
        .unwrap();
    let names = engine.workspaces.list(&again.id, &p(".")).unwrap();
    let names: Vec<_> = names.iter().map(|one| one.path.to_text()).collect();
    assert_eq!(names, ["outputs", "skills", "temp", "uploads"]);
    assert_eq!((again.files, again.dirs), (3, 5));
    // A directory that is no longer allowed is refused as well.
    let root = engine.workspaces.hand_out_path(&again.id).unwrap();
    fs::remove_dir_all(root.join("temp")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("temp")).unwrap();
    let synced = engine.sync.sync_workspace(&again.id).unwrap();
    assert_eq!(synced.refused.len(), 1, "{synced:?}");
}
