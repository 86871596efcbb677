//! A merge that lands whole lands with the last of its conflicts, whatever its outcome, and its
//! workspace is not removed before.

use std::fs;
use std::path::PathBuf;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::{ErrorCode, ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Landing, PathPolicy, Policy, ProviderName, Resolution,
};

struct Setup {
    test: TestEngine,
    project: ProjectId,
}

impl Setup {
    fn new() -> Setup {
        let test = TestEngine::in_memory(ProviderName::Copy);
        let project = test.project("web");
        Setup { test, project }
    }

    fn complete_as(&self, id: &WorkspaceId, atomic: bool, keep: bool) -> Completed {
        let options = CompleteOptions {
            atomic: Some(atomic),
            keep,
            ..CompleteOptions::default()
        };
        self.test
            .engine
            .merges
            .complete(id, &options, &user())
            .unwrap()
    }

    fn complete(&self, id: &WorkspaceId) -> Completed {
        self.complete_as(id, true, false)
    }

    /// A completed fork, landing whole, that changed some files in conflict with the project and
    /// one without conflict.
    fn waiting(&self, conflicting: &[&str]) -> (WorkspaceId, PathBuf, Completed) {
        let (id, path) = self.test.fork(&self.project, "one");
        for name in conflicting {
            fs::write(path.join(name), "mine\n").unwrap();
            self.test.put(&self.project, name, "theirs\n");
        }
        fs::write(path.join("fits"), "fits\n").unwrap();
        let done = self.complete(&id);
        let found = (done.snapshot, done.conflicts.len());
        assert_eq!(found, (None, conflicting.len()), "{done:?}");
        assert!(!self.has("fits"));
        (id, path, done)
    }

    /// Another agent merges the content that the first one wants at a path.
    fn agree(&self, name: &str) {
        let (id, path) = self.test.fork(&self.project, "two");
        fs::write(path.join(name), "mine\n").unwrap();
        let done = self.complete_as(&id, false, false);
        assert!(done.conflicts.is_empty(), "{done:?}");
    }

    fn has(&self, path: &str) -> bool {
        let engine = &self.test.engine;
        let file = engine
            .projects
            .open_project_file(&self.project, None, &p(path));
        file.is_ok()
    }

    fn open(&self) -> usize {
        let open = self.test.engine.merges.reviews(Some(&self.project), false);
        open.unwrap().len()
    }

    fn is_gone(&self, path: &std::path::Path) -> bool {
        self.test.engine.context.wait_for_jobs();
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
    let setup = Setup::new();
    let (id, path, done) = setup.waiting(&["README"]);
    setup.agree("README");
    assert_eq!(setup.open(), 0);
    assert_eq!(setup.test.project_text(&setup.project, "fits"), "fits\n");
    let merge = done.merge_id.unwrap();
    let landed = setup
        .test
        .engine
        .merges
        .receipt(&merge)
        .unwrap()
        .completed
        .snapshot;
    assert!(landed.is_some(), "the receipt tells where it went");
    let again = setup.complete(&id);
    assert_eq!((again.merge_id, again.snapshot), (Some(merge), landed));
    assert!(setup.is_gone(&path));
    setup.test.check();
}

#[test]
fn what_was_decided_lands_when_the_other_conflict_is_settled_by_itself() {
    let setup = Setup::new();
    let (_, path, done) = setup.waiting(&["README", "docs/a/b"]);
    let first = review(&done, "README");
    let decided = setup
        .test
        .engine
        .merges
        .resolve(&first, Resolution::Ours, &user());
    assert_eq!(decided.unwrap().review.state, "decided");
    setup.agree("docs/a/b");
    assert!(setup.has("fits"));
    assert_eq!(
        setup.test.project_text(&setup.project, "README"),
        "theirs\n"
    );
    let first = setup.test.engine.merges.review(&first).unwrap();
    assert_eq!(
        (first.state, first.decision.unwrap().0.as_str()),
        ("resolved", "ours")
    );
    // A second completion finds it resolved, and removes the workspace.
    let again = setup
        .test
        .engine
        .merges
        .resolve(&first.id, Resolution::Ours, &user());
    assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyExists);
    assert!(setup.is_gone(&path));
    setup.test.check();
}

/// What an earlier version left: all reviews are closed, and nothing has landed.
#[test]
fn what_did_not_land_with_its_last_review_lands_later() {
    for complete in [false, true] {
        let setup = Setup::new();
        let (id, path, done) = setup.waiting(&["README"]);
        let review = review(&done, "README");
        let store = setup.test.store();
        let mut row = store.read(|tx| tx.review(&review)).unwrap().unwrap();
        row.state = offshoot_store::ReviewState::Resolved;
        store
            .write(offshoot_store::Durability::Synced, |tx| tx.put_review(&row))
            .unwrap();
        setup.test.put(&setup.project, "README", "mine\n");
        if complete {
            let again = setup.complete(&id);
            assert!(again.snapshot.is_some(), "{again:?}");
        } else {
            let again = setup
                .test
                .engine
                .merges
                .resolve(&review, Resolution::Ours, &user());
            assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyExists);
        }
        assert!(setup.has("fits"), "by completing: {complete}");
        assert!(setup.is_gone(&path));
        setup.test.check();
    }
}

#[test]
fn a_workspace_stays_whose_last_conflict_an_update_settled() {
    let setup = Setup::new();
    let (id, path, done) = setup.waiting(&["README"]);
    let review = review(&done, "README");
    setup.test.put(&setup.project, "README", "mine\n");
    let updated = setup
        .test
        .engine
        .merges
        .update(&id, false, &user())
        .unwrap();
    assert!(updated.conflicts.is_empty());
    assert_eq!(setup.open(), 0, "the project agrees");
    // The files are those that were merged, so only the merge itself keeps the workspace.
    let again = setup
        .test
        .engine
        .merges
        .resolve(&review, Resolution::Ours, &user());
    assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyExists);
    assert!(!setup.is_gone(&path));
    assert!(setup.complete(&id).snapshot.is_some());
    assert!(setup.has("fits"));
    assert!(setup.is_gone(&path));
    setup.test.check();
}

#[test]
fn a_decision_lands_alone_when_its_workspace_was_updated_and_brings_the_rest_itself() {
    let setup = Setup::new();
    let (id, path, done) = setup.waiting(&["README", "docs/a/b"]);
    let decided = review(&done, "README");
    let engine = &setup.test.engine;
    engine
        .merges
        .resolve(&decided, Resolution::Theirs, &user())
        .unwrap();
    setup.test.put(&setup.project, "docs/a/b", "mine\n");
    engine.merges.update(&id, false, &user()).unwrap();
    // The fork now wants other content than the one that waited.
    fs::write(path.join("fits"), "fits better\n").unwrap();
    let done = setup.complete(&id);
    assert!(done.conflicts.is_empty(), "{done:?}");
    assert_eq!(setup.test.project_text(&setup.project, "README"), "mine\n");
    assert_eq!(
        setup.test.project_text(&setup.project, "fits"),
        "fits better\n"
    );
    assert_eq!(engine.merges.review(&decided).unwrap().state, "resolved");
    setup.test.check();
}

#[test]
fn what_an_undo_makes_fit_lands_with_its_decision() {
    let setup = Setup::new();
    let (id, path) = setup.test.fork(&setup.project, "one");
    let (other, theirs) = setup.test.fork(&setup.project, "two");
    fs::write(theirs.join("README"), "theirs\n").unwrap();
    let first = setup.complete_as(&other, false, false);
    fs::write(path.join("README"), "mine\n").unwrap();
    fs::write(path.join("fits"), "fits\n").unwrap();
    let done = setup.complete(&id);
    let review = review(&done, "README");
    let engine = &setup.test.engine;
    engine
        .merges
        .undo_merge(&first.merge_id.unwrap(), &user())
        .unwrap();
    setup.complete(&id);
    assert!(path.exists(), "nothing has landed");
    engine
        .merges
        .resolve(&review, Resolution::Theirs, &user())
        .unwrap();
    assert!(setup.has("fits"));
    assert_eq!(setup.test.project_text(&setup.project, "README"), "mine\n");
    assert!(setup.is_gone(&path));
    setup.test.check();
}

#[test]
fn completing_again_asks_about_what_conflicts_by_now() {
    let setup = Setup::new();
    let (id, path, done) = setup.waiting(&["README"]);
    setup.test.put(&setup.project, "fits", "of others\n");
    let review = review(&done, "README");
    let engine = &setup.test.engine;
    let refused = engine.merges.resolve(&review, Resolution::Theirs, &user());
    assert_eq!(refused.unwrap_err().code(), ErrorCode::MergeConflict);
    let again = setup.complete(&id);
    assert_eq!(again.conflicts.len(), 2, "{again:?}");
    for waiting in &again.conflicts {
        let id = waiting.review_id.as_ref().unwrap();
        engine
            .merges
            .resolve(id, Resolution::Theirs, &user())
            .unwrap();
    }
    assert_eq!(setup.test.project_text(&setup.project, "fits"), "fits\n");
    assert!(setup.is_gone(&path));
    setup.test.check();
}

#[test]
fn a_workspace_goes_with_its_last_decision_although_the_project_keeps_what_it_has() {
    let setup = Setup::new();
    let (id, path) = setup.test.fork(&setup.project, "one");
    fs::write(path.join("README"), "mine\n").unwrap();
    setup.test.put(&setup.project, "README", "theirs\n");
    let done = setup.complete(&id);
    let review = review(&done, "README");
    let resolved = setup
        .test
        .engine
        .merges
        .resolve(&review, Resolution::Ours, &user());
    assert!(resolved.unwrap().snapshot.is_none());
    assert!(setup.is_gone(&path));
    setup.test.check();
}

/// A conflict that a policy decides has no review; it is decided again when the last review is.
#[test]
fn what_a_policy_decides_lands_with_the_last_review() {
    for (policy, expected) in [
        (Policy::Theirs, "mine\n"),
        (Policy::Ours, "theirs\n"),
        (Policy::LastWriterWins, "mine\n"),
    ] {
        let setup = Setup::new();
        let engine = &setup.test.engine;
        let mut settings = engine.projects.merge_settings(&setup.project).unwrap();
        settings.policies = vec![PathPolicy {
            path: "*.lock".to_owned(),
            policy,
        }];
        settings.landing = Landing::Atomic;
        engine
            .projects
            .set_merge_settings(&setup.project, &settings, &user())
            .unwrap();
        setup.test.put(&setup.project, "notes.lock", "both\n");
        let (id, path) = setup.test.fork(&setup.project, "one");
        for name in ["README", "notes.lock"] {
            fs::write(path.join(name), "mine\n").unwrap();
            setup.test.put(&setup.project, name, "theirs\n");
        }
        fs::write(path.join("fits"), "fits\n").unwrap();
        let done = setup.complete(&id);
        assert_eq!((done.snapshot, done.conflicts.len()), (None, 1), "{done:?}");
        let review = engine.merges.reviews(Some(&setup.project), false).unwrap();
        let resolved = engine
            .merges
            .resolve(&review[0].id, Resolution::Theirs, &user());
        assert!(resolved.unwrap().snapshot.is_some(), "{policy:?}");
        let text = |path| setup.test.project_text(&setup.project, path);
        assert_eq!(text("README"), "mine\n");
        assert_eq!(text("notes.lock"), expected, "{policy:?}");
        assert_eq!(text("fits"), "fits\n");
        setup.test.check();
    }
}
