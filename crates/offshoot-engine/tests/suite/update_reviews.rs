//! Conflicts that an update finds: the workspace moves to the new base, nothing of it is lost, and
//! a decision is written to the workspace.

use std::fs;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ErrorCode, ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Content, LandsIn, ProviderName, Resolution, Review, Updated,
};

/// An updated fork that changed `README` and `docs/mine`, of a project that changed `README` too.
fn conflicting(test: &TestEngine) -> (ProjectId, WorkspaceId, std::path::PathBuf, Updated) {
    let project = test.project("web");
    let (id, path) = test.fork(&project, "one");
    fs::write(path.join("README"), "mine\n").unwrap();
    fs::write(path.join("docs/mine"), "only here\n").unwrap();
    test.put(&project, "README", "theirs\n");
    let updated = test.engine.merges.update(&id, false, &user()).unwrap();
    (project, id, path, updated)
}

/// The reviews that a merge reports as waiting.
fn waiting(completed: &Completed) -> Vec<&str> {
    let ids = completed.conflicts.iter();
    ids.map(|one| one.review_id.as_deref().unwrap()).collect()
}

/// The undecided reviews of a project.
fn open_reviews(test: &TestEngine, project: &ProjectId) -> Vec<String> {
    let open = test.engine.merges.reviews(Some(project), false).unwrap();
    open.into_iter().map(|review| review.id).collect()
}

fn the_review(test: &TestEngine, updated: &Updated) -> Review {
    let waiting: Vec<String> = updated
        .conflicts
        .iter()
        .map(|one| one.path.to_text())
        .collect();
    assert_eq!(waiting, ["README"]);
    let id = updated.conflicts[0].review_id.clone().unwrap();
    test.engine.merges.review(&id).unwrap()
}

#[test]
fn an_update_that_conflicts_moves_on_and_opens_a_review() {
    with_each(|test| {
        let (project, id, path, updated) = conflicting(&test);
        let review = the_review(&test, &updated);
        assert_eq!(
            (review.lands_in, review.state),
            (LandsIn::Workspace, "open")
        );
        assert_eq!(
            (review.merge_id.as_deref(), review.changed_since),
            (None, false)
        );
        assert_eq!(
            test.engine
                .workspaces
                .content_of(&review.theirs.unwrap())
                .unwrap(),
            b"mine\n"
        );
        assert_eq!(
            test.engine
                .workspaces
                .content_of(&review.ours.unwrap())
                .unwrap(),
            b"theirs\n"
        );
        // The fork has the changes of the project and its own, and the review keeps the rest.
        assert_eq!(fs::read(path.join("README")).unwrap(), b"theirs\n");
        assert_eq!(fs::read(path.join("docs/mine")).unwrap(), b"only here\n");
        let kept = updated.kept.unwrap().to_hex();
        assert_eq!(
            test.engine
                .workspaces
                .file_at(&id, &kept, &p("README"))
                .unwrap(),
            b"mine\n"
        );
        // A merge now reverts nothing in the project, and the workspace waits.
        let options = CompleteOptions::default();
        let completed = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(waiting(&completed), [review.id.as_str()]);
        assert_eq!(test.project_text(&project, "README"), "theirs\n");
        assert_eq!(test.project_text(&project, "docs/mine"), "only here\n");
        assert_eq!(fs::read(path.join("README")).unwrap(), b"theirs\n");
        test.check();
    });
}

#[test]
fn a_plan_of_an_update_opens_no_review() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (id, path) = test.fork(&project, "one");
    fs::write(path.join("README"), "mine\n").unwrap();
    test.put(&project, "README", "theirs\n");
    let plan = test.engine.merges.update(&id, true, &user()).unwrap();
    assert_eq!(plan.conflicts.len(), 1);
    assert_eq!((plan.kept, &plan.conflicts[0].review_id), (None, &None));
    assert!(
        test.engine
            .merges
            .reviews(Some(&project), true)
            .unwrap()
            .is_empty()
    );
    assert_eq!(fs::read(path.join("README")).unwrap(), b"mine\n");
    test.check();
}

#[test]
fn a_decision_goes_into_the_workspace_and_from_there_into_the_project() {
    with_each(|test| {
        let (project, id, path, updated) = conflicting(&test);
        let review = the_review(&test, &updated);
        let resolved = test
            .engine
            .merges
            .resolve(&review.id, Resolution::Theirs, &user())
            .unwrap();
        assert_eq!(
            (resolved.recomputed, resolved.snapshot.is_none()),
            (false, true)
        );
        assert_eq!(resolved.review.state, "resolved");
        assert_eq!(fs::read(path.join("README")).unwrap(), b"mine\n");
        assert_eq!(test.project_text(&project, "README"), "theirs\n");
        let again = test
            .engine
            .merges
            .resolve(&review.id, Resolution::Ours, &user());
        assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyExists);
        let options = CompleteOptions::default();
        let completed = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert!(completed.conflicts.is_empty());
        assert_eq!(test.project_text(&project, "README"), "mine\n");
        test.engine.context.wait_for_jobs();
        assert!(!path.exists(), "nothing waits any more");
        test.check();
    });
}

#[test]
fn a_decision_is_computed_against_the_workspace_as_it_is_by_then() {
    with_each(|test| {
        let (_, id, path, updated) = conflicting(&test);
        let review = the_review(&test, &updated);
        fs::write(path.join("README"), "later\n").unwrap();
        test.engine.sync.sync_workspace(&id).unwrap();
        assert!(test.engine.merges.review(&review.id).unwrap().changed_since);
        let content = Resolution::Content(Content::Bytes(b"decided\n"));
        let resolved = test
            .engine
            .merges
            .resolve(&review.id, content, &user())
            .unwrap();
        assert!(resolved.recomputed);
        assert_eq!(fs::read(path.join("README")).unwrap(), b"decided\n");
        // The content before the decision can be restored.
        let snapshots = test.engine.workspaces.snapshots(&id, 0).unwrap();
        let before = snapshots
            .iter()
            .find(|one| one.label.as_deref() == Some("before a decision"))
            .unwrap();
        let text = test
            .engine
            .workspaces
            .file_at(&id, &before.id.to_hex(), &p("README"));
        assert_eq!(text.unwrap(), b"later\n");
        test.check();
    });
}

#[test]
fn a_decision_for_a_workspace_that_is_gone_says_so() {
    let test = TestEngine::new(ProviderName::Copy);
    let (_, id, _, updated) = conflicting(&test);
    let review = the_review(&test, &updated);
    test.engine
        .workspaces
        .delete_workspace(&id, &user())
        .unwrap();
    let error = test
        .engine
        .merges
        .resolve(&review.id, Resolution::Theirs, &user())
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::WorkspaceNotFound);
    assert_eq!(test.engine.merges.review(&review.id).unwrap().state, "open");
    test.check();
}

#[test]
fn an_update_finds_the_review_of_the_merge_before_it() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        fs::write(path.join("README"), "mine\n").unwrap();
        test.put(&project, "README", "theirs\n");
        let complete = || {
            let options = CompleteOptions::default();
            test.engine.merges.complete(&id, &options, &user()).unwrap()
        };
        let first = complete();
        let review = waiting(&first)[0].to_owned();
        let plan = test.engine.merges.update(&id, true, &user()).unwrap();
        assert_eq!(plan.conflicts[0].review_id, None);
        let updated = test.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(updated.conflicts[0].review_id.as_ref(), Some(&review));
        assert_eq!(open_reviews(&test, &project), std::slice::from_ref(&review));
        assert_eq!(fs::read(path.join("README")).unwrap(), b"theirs\n");
        // Further merges report the review too, also when there is nothing else to merge.
        for _ in 0..2 {
            assert_eq!(waiting(&complete()), [review.as_str()]);
        }
        assert!(path.exists(), "a decision is awaited");
        test.engine
            .merges
            .resolve(&review, Resolution::Theirs, &user())
            .unwrap();
        assert_eq!(test.project_text(&project, "README"), "mine\n");
        assert!(open_reviews(&test, &project).is_empty());
        test.check();
    });
}

#[test]
fn an_update_asks_anew_about_what_the_workspace_changed_since_the_merge() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        let options = CompleteOptions::default();
        fs::write(path.join("README"), "mine\n").unwrap();
        test.put(&project, "README", "theirs\n");
        let first = test.engine.merges.complete(&id, &options, &user()).unwrap();
        fs::write(path.join("README"), "mine, newer\n").unwrap();
        let updated = test.engine.merges.update(&id, false, &user()).unwrap();
        let review = the_review(&test, &updated);
        assert_eq!(review.lands_in, LandsIn::Workspace);
        let newer = test
            .engine
            .workspaces
            .content_of(&review.theirs.unwrap())
            .unwrap();
        assert_eq!(newer, b"mine, newer\n");
        assert_eq!(
            open_reviews(&test, &project),
            std::slice::from_ref(&review.id)
        );
        let before = test.engine.merges.review(waiting(&first)[0]).unwrap();
        assert_eq!(before.state, "resolved");
        // The workspace changes the file once more, and a merge opens a review about that.
        test.put(&project, "README", "theirs, newer\n");
        fs::write(path.join("README"), "mine, newest\n").unwrap();
        let last = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(waiting(&last), open_reviews(&test, &project));
        assert_eq!(last.conflicts.len(), 1);
        assert_ne!(waiting(&last), [review.id]);
        test.check();
    });
}
