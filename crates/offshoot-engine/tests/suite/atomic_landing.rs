//! A merge that lands whole lands with the last of its conflicts, however that one ends, and its
//! workspace does not go before.

use std::fs;
use std::path::PathBuf;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::{ErrorCode, ProjectId, WorkspaceId};
use offshoot_engine::{CompleteOptions, Completed, ProviderName, Resolution};

struct Scene {
    rig: TestEngine,
    project: ProjectId,
}

impl Scene {
    fn new() -> Scene {
        let rig = TestEngine::in_memory(ProviderName::Copy);
        let project = rig.project("web");
        Scene { rig, project }
    }

    fn complete_as(&self, id: &WorkspaceId, atomic: bool, keep: bool) -> Completed {
        let options = CompleteOptions {
            atomic: Some(atomic),
            keep,
            ..CompleteOptions::default()
        };
        self.rig
            .engine
            .merges
            .complete(id, &options, &user())
            .unwrap()
    }

    fn complete(&self, id: &WorkspaceId) -> Completed {
        self.complete_as(id, true, false)
    }

    /// A fork that changed some files that the project changed too, and one that fits, completed
    /// as a whole.
    fn waiting(&self, conflicting: &[&str]) -> (WorkspaceId, PathBuf, Completed) {
        let (id, path) = self.rig.fork(&self.project, "one");
        for name in conflicting {
            fs::write(path.join(name), "mine\n").unwrap();
            self.rig.put(&self.project, name, "theirs\n");
        }
        fs::write(path.join("fits"), "fits\n").unwrap();
        let done = self.complete(&id);
        let found = (done.snapshot, done.conflicts.len());
        assert_eq!(found, (None, conflicting.len()), "{done:?}");
        assert!(!self.has("fits"));
        (id, path, done)
    }

    /// Another agent brings what the first one wants at a path.
    fn agree(&self, name: &str) {
        let (id, path) = self.rig.fork(&self.project, "two");
        fs::write(path.join(name), "mine\n").unwrap();
        let done = self.complete_as(&id, false, false);
        assert!(done.conflicts.is_empty(), "{done:?}");
    }

    fn has(&self, path: &str) -> bool {
        let engine = &self.rig.engine;
        let file = engine
            .projects
            .open_project_file(&self.project, None, &p(path));
        file.is_ok()
    }

    fn open(&self) -> usize {
        let open = self.rig.engine.merges.reviews(Some(&self.project), false);
        open.unwrap().len()
    }

    fn is_gone(&self, path: &std::path::Path) -> bool {
        self.rig.engine.context.wait_for_jobs();
        !path.exists()
    }
}

fn review(done: &Completed, path: &str) -> String {
    let mut found = done.conflicts.iter();
    let found = found.find(|one| one.path == p(path)).unwrap();
    found.review_id.clone().unwrap()
}

#[test]
fn it_lands_when_its_last_conflict_is_settled_by_somebody_elses_merge() {
    let scene = Scene::new();
    let (id, path, done) = scene.waiting(&["README"]);
    scene.agree("README");
    assert_eq!(scene.open(), 0);
    assert_eq!(scene.rig.project_text(&scene.project, "fits"), "fits\n");
    let merge = done.merge_id.unwrap();
    let landed = scene
        .rig
        .engine
        .merges
        .receipt(&merge)
        .unwrap()
        .completed
        .snapshot;
    assert!(landed.is_some(), "the receipt tells where it went");
    let again = scene.complete(&id);
    assert_eq!((again.merge_id, again.snapshot), (Some(merge), landed));
    assert!(scene.is_gone(&path));
    scene.rig.check();
}

#[test]
fn what_was_decided_lands_when_the_other_conflict_is_settled_by_itself() {
    let scene = Scene::new();
    let (_, path, done) = scene.waiting(&["README", "docs/a/b"]);
    let first = review(&done, "README");
    let decided = scene
        .rig
        .engine
        .merges
        .resolve(&first, Resolution::Ours, &user());
    assert_eq!(decided.unwrap().review.state, "decided");
    scene.agree("docs/a/b");
    assert!(scene.has("fits"));
    assert_eq!(scene.rig.project_text(&scene.project, "README"), "theirs\n");
    let first = scene.rig.engine.merges.review(&first).unwrap();
    assert_eq!(
        (first.state, first.decision.unwrap().0.as_str()),
        ("resolved", "ours")
    );
    // Whoever asks again finds it resolved, and takes the workspace away.
    let again = scene
        .rig
        .engine
        .merges
        .resolve(&first.id, Resolution::Ours, &user());
    assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyExists);
    assert!(scene.is_gone(&path));
    scene.rig.check();
}

/// What an earlier version left: all its reviews are closed, and nothing has landed.
#[test]
fn what_did_not_land_with_its_last_review_lands_later() {
    for complete in [false, true] {
        let scene = Scene::new();
        let (id, path, done) = scene.waiting(&["README"]);
        let review = review(&done, "README");
        let store = scene.rig.store();
        let mut row = store.read(|tx| tx.review(&review)).unwrap().unwrap();
        row.state = offshoot_store::ReviewState::Resolved;
        store
            .write(offshoot_store::Durability::Synced, |tx| tx.put_review(&row))
            .unwrap();
        scene.rig.put(&scene.project, "README", "mine\n");
        if complete {
            let again = scene.complete(&id);
            assert!(again.snapshot.is_some(), "{again:?}");
        } else {
            let again = scene
                .rig
                .engine
                .merges
                .resolve(&review, Resolution::Ours, &user());
            assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyExists);
        }
        assert!(scene.has("fits"), "by completing: {complete}");
        assert!(scene.is_gone(&path));
        scene.rig.check();
    }
}

#[test]
fn a_workspace_stays_whose_last_conflict_an_update_settled() {
    let scene = Scene::new();
    let (id, path, done) = scene.waiting(&["README"]);
    let review = review(&done, "README");
    scene.rig.put(&scene.project, "README", "mine\n");
    let updated = scene.rig.engine.merges.update(&id, false, &user()).unwrap();
    assert!(updated.conflicts.is_empty());
    assert_eq!(scene.open(), 0, "the project agrees");
    // The files are those that were merged, so nothing but the merge itself keeps them.
    let again = scene
        .rig
        .engine
        .merges
        .resolve(&review, Resolution::Ours, &user());
    assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyExists);
    assert!(!scene.is_gone(&path));
    assert!(scene.complete(&id).snapshot.is_some());
    assert!(scene.has("fits"));
    assert!(scene.is_gone(&path));
    scene.rig.check();
}

#[test]
fn a_decision_lands_alone_when_its_workspace_was_updated_and_brings_the_rest_itself() {
    let scene = Scene::new();
    let (id, path, done) = scene.waiting(&["README", "docs/a/b"]);
    let decided = review(&done, "README");
    let engine = &scene.rig.engine;
    engine
        .merges
        .resolve(&decided, Resolution::Theirs, &user())
        .unwrap();
    scene.rig.put(&scene.project, "docs/a/b", "mine\n");
    engine.merges.update(&id, false, &user()).unwrap();
    // What the fork wants is something else than what waited.
    fs::write(path.join("fits"), "fits better\n").unwrap();
    let done = scene.complete(&id);
    assert!(done.conflicts.is_empty(), "{done:?}");
    assert_eq!(scene.rig.project_text(&scene.project, "README"), "mine\n");
    assert_eq!(
        scene.rig.project_text(&scene.project, "fits"),
        "fits better\n"
    );
    assert_eq!(engine.merges.review(&decided).unwrap().state, "resolved");
    scene.rig.check();
}

#[test]
fn what_an_undo_makes_fit_lands_with_its_decision() {
    let scene = Scene::new();
    let (id, path) = scene.rig.fork(&scene.project, "one");
    let (other, theirs) = scene.rig.fork(&scene.project, "two");
    fs::write(theirs.join("README"), "theirs\n").unwrap();
    let first = scene.complete_as(&other, false, false);
    fs::write(path.join("README"), "mine\n").unwrap();
    fs::write(path.join("fits"), "fits\n").unwrap();
    let done = scene.complete(&id);
    let review = review(&done, "README");
    let engine = &scene.rig.engine;
    engine
        .merges
        .undo_merge(&first.merge_id.unwrap(), &user())
        .unwrap();
    scene.complete(&id);
    assert!(path.exists(), "nothing has landed");
    engine
        .merges
        .resolve(&review, Resolution::Theirs, &user())
        .unwrap();
    assert!(scene.has("fits"));
    assert_eq!(scene.rig.project_text(&scene.project, "README"), "mine\n");
    assert!(scene.is_gone(&path));
    scene.rig.check();
}

#[test]
fn completing_again_asks_about_what_conflicts_by_now() {
    let scene = Scene::new();
    let (id, path, done) = scene.waiting(&["README"]);
    scene.rig.put(&scene.project, "fits", "of others\n");
    let review = review(&done, "README");
    let engine = &scene.rig.engine;
    let refused = engine.merges.resolve(&review, Resolution::Theirs, &user());
    assert_eq!(refused.unwrap_err().code(), ErrorCode::MergeConflict);
    let again = scene.complete(&id);
    assert_eq!(again.conflicts.len(), 2, "{again:?}");
    for waiting in &again.conflicts {
        let id = waiting.review_id.as_ref().unwrap();
        engine
            .merges
            .resolve(id, Resolution::Theirs, &user())
            .unwrap();
    }
    assert_eq!(scene.rig.project_text(&scene.project, "fits"), "fits\n");
    assert!(scene.is_gone(&path));
    scene.rig.check();
}

#[test]
fn a_workspace_goes_with_its_last_decision_although_the_project_keeps_what_it_has() {
    let scene = Scene::new();
    let (id, path) = scene.rig.fork(&scene.project, "one");
    fs::write(path.join("README"), "mine\n").unwrap();
    scene.rig.put(&scene.project, "README", "theirs\n");
    let done = scene.complete(&id);
    let review = review(&done, "README");
    let resolved = scene
        .rig
        .engine
        .merges
        .resolve(&review, Resolution::Ours, &user());
    assert!(resolved.unwrap().snapshot.is_none());
    assert!(scene.is_gone(&path));
    scene.rig.check();
}
