//! Paths that no snapshot can hold, because they are too deep or beside the directories of a
//! session, are not removed with their directory (INV-5).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ErrorCode, Layout, MAX_DEPTH, WorkspaceId};
use offshoot_engine::{CompleteOptions, Engine, Quota};
use offshoot_fs::ProviderName;

fn workspace(engine: &Engine, name: &str, layout: Layout) -> (WorkspaceId, PathBuf) {
    let id: WorkspaceId = name.parse().unwrap();
    let made =
        engine
            .workspaces
            .create_workspace(Some(id.clone()), layout, Quota::default(), &user());
    made.unwrap();
    let path = engine.workspaces.hand_out_path(&id).unwrap();
    (id, path)
}

/// Makes a file deeper than allowed. Returns it and the topmost of its directories.
fn too_deep(root: &Path) -> (PathBuf, PathBuf) {
    let dir = root.join(vec!["d"; MAX_DEPTH + 1].join("/"));
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("leaf");
    fs::write(&file, "precious").unwrap();
    (file, root.join("d"))
}

/// The directory stays until the path is removed.
fn stays(engine: &Engine, id: &WorkspaceId, file: &Path, in_the_way: &Path) {
    let error = engine.workspaces.delete_workspace(id, &user()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::WorkspaceBusy, "{error}");
    assert!(error.to_string().contains("cannot be kept"), "{error}");
    engine.upkeep.clean(Duration::ZERO, false, &user()).unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "precious");
    fs::remove_dir_all(in_the_way).unwrap();
    engine.workspaces.delete_workspace(id, &user()).unwrap();
}

#[test]
fn what_is_too_deep_is_not_taken_away() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let (id, root) = workspace(&test.engine, "w", Layout::Plain);
    let (file, top) = too_deep(&root);
    // Nor by a deletion of the directory that it is in.
    let deletion = test
        .engine
        .workspaces
        .delete_file(&id, &p("d"), true, &user());
    assert_eq!(deletion.unwrap_err().code(), ErrorCode::WorkspaceBusy);
    stays(&test.engine, &id, &file, &top);
}

#[test]
fn what_lies_beside_the_places_of_a_session_is_not_taken_away() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let (id, root) = workspace(&test.engine, "talk", Layout::Session);
    let beside = root.join("beside");
    fs::create_dir(&beside).unwrap();
    let file = beside.join("x");
    fs::write(&file, "precious").unwrap();
    stays(&test.engine, &id, &file, &beside);
}

#[test]
fn a_merged_fork_stays_with_what_is_too_deep() {
    with_each(|test| {
        let project = test.project("web");
        let (id, root) = test.fork(&project, "ada");
        fs::write(root.join("new"), "mine\n").unwrap();
        let (file, top) = too_deep(&root);
        let options = CompleteOptions::default();
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(done.merged.len(), 1, "{done:?}");
        let after = done.after.unwrap();
        assert!(!after.removed && after.waits.is_some(), "{after:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        test.put(&project, "later", "later\n");
        let error = test.engine.merges.update(&id, false, &user()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::WorkspaceBusy, "{error}");
        fs::remove_dir_all(&top).unwrap();
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert!(done.after.unwrap().removed);
    });
}
