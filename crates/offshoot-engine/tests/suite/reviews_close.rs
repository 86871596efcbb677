//! Reviews close by themselves when nothing is left to decide, and not before.

use std::fs;
use std::path::PathBuf;

use crate::fixture::{TestEngine, user};
use offshoot_core::{ErrorCode, ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Content, Landing, ProviderName, Resolution, Review,
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

    fn fork(&self, agent: &str) -> (WorkspaceId, PathBuf) {
        self.test.fork(&self.project, agent)
    }

    fn complete(&self, id: &WorkspaceId, keep: bool) -> Completed {
        let options = CompleteOptions {
            keep,
            ..CompleteOptions::default()
        };
        self.test
            .engine
            .merges
            .complete(id, &options, &user())
            .unwrap()
    }

    /// The paths of the open reviews.
    fn waiting(&self) -> Vec<String> {
        let waiting = self
            .test
            .engine
            .merges
            .reviews(Some(&self.project), false)
            .unwrap();
        waiting.iter().map(|one| one.path.to_text()).collect()
    }

    /// The only review that there ever was, which must have closed by itself.
    fn assert_closed_by_itself(&self) {
        let all = self
            .test
            .engine
            .merges
            .reviews(Some(&self.project), true)
            .unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        let decision = all[0].decision.as_ref().unwrap();
        assert_eq!((all[0].state, &decision.0[..]), ("resolved", "settled"));
        assert_eq!(decision.1.operator, "system");
        self.test.check();
    }

    /// A fork whose `README` conflicts with the project's, completed.
    fn conflicting(&self, keep: bool) -> (WorkspaceId, PathBuf) {
        let (id, path) = self.fork("one");
        fs::write(path.join("README"), "mine\n").unwrap();
        self.test.put(&self.project, "README", "theirs\n");
        assert_eq!(self.complete(&id, keep).conflicts.len(), 1);
        assert_eq!(self.waiting(), ["README"]);
        (id, path)
    }
}

#[test]
fn a_completion_that_fits_settles_the_conflict_of_the_one_before() {
    let setup = Setup::new();
    let (id, path) = setup.conflicting(false);
    // The agent reverts its change, so that its file equals that of the project.
    fs::write(path.join("README"), "theirs\n").unwrap();
    fs::write(path.join("more"), "more\n").unwrap();
    let done = setup.complete(&id, false);
    assert!(done.conflicts.is_empty());
    setup.assert_closed_by_itself();
    setup.test.engine.context.wait_for_jobs();
    assert!(!path.exists(), "nothing waits any more");
}

#[test]
fn a_conflict_stays_while_the_workspace_brings_other_things() {
    let setup = Setup::new();
    let (id, path) = setup.conflicting(true);
    fs::write(path.join("more"), "more\n").unwrap();
    setup.complete(&id, true);
    assert_eq!(setup.waiting(), ["README"]);
    // A new change of the agent at that path decides the review.
    fs::write(path.join("README"), "both of us\n").unwrap();
    setup.complete(&id, true);
    assert_eq!(
        setup.test.project_text(&setup.project, "README"),
        "both of us\n"
    );
    setup.assert_closed_by_itself();
}

#[test]
fn a_conflict_that_an_update_found_is_settled_by_what_the_workspace_puts_there() {
    let setup = Setup::new();
    let (id, path) = setup.fork("one");
    fs::write(path.join("README"), "mine\n").unwrap();
    setup.test.put(&setup.project, "README", "theirs\n");
    let update = |times: usize| {
        let updated = setup
            .test
            .engine
            .merges
            .update(&id, false, &user())
            .unwrap();
        assert_eq!(updated.conflicts.len(), times);
    };
    update(1);
    setup.test.put(&setup.project, "other", "1\n");
    update(0);
    assert_eq!(setup.waiting(), ["README"], "nobody has answered");
    fs::write(path.join("README"), "both of us\n").unwrap();
    setup.test.put(&setup.project, "other", "2\n");
    update(0);
    setup.assert_closed_by_itself();
}

#[test]
fn a_conflict_is_settled_when_the_project_comes_to_agree() {
    let setup = Setup::new();
    let (id, mine) = setup.conflicting(false);
    let (other, path) = setup.fork("two");
    fs::write(path.join("README"), "something else\n").unwrap();
    setup.complete(&other, true);
    assert_eq!(setup.waiting(), ["README"]);
    fs::write(path.join("README"), "mine\n").unwrap();
    setup.complete(&other, false);
    setup.assert_closed_by_itself();
    // There is nothing more to merge, and the workspace waits for nothing.
    setup.complete(&id, false);
    setup.test.engine.context.wait_for_jobs();
    assert!(!mine.exists());
    assert!(setup.waiting().is_empty());
}

#[test]
fn a_plan_closes_nothing() {
    let setup = Setup::new();
    let (id, path) = setup.conflicting(false);
    fs::write(path.join("README"), "theirs\n").unwrap();
    let options = CompleteOptions::default();
    let plan = setup
        .test
        .engine
        .merges
        .plan_completion(&id, &options, &user());
    assert!(plan.unwrap().conflicts.is_empty());
    assert_eq!(setup.waiting(), ["README"]);
}

/// Every kind of conflict, from a merge and from an update.
#[test]
fn a_fresh_review_does_not_say_that_its_path_has_changed() {
    type Change = fn(&std::path::Path);
    let kinds: [(&str, Change, Change); 6] = [
        (
            "content",
            |ours| fs::write(ours.join("README"), "ours\n").unwrap(),
            |theirs| fs::write(theirs.join("README"), "theirs\n").unwrap(),
        ),
        (
            "removed here",
            |ours| fs::remove_file(ours.join("README")).unwrap(),
            |theirs| fs::write(theirs.join("README"), "theirs\n").unwrap(),
        ),
        (
            "removed there",
            |ours| fs::write(ours.join("README"), "ours\n").unwrap(),
            |theirs| fs::remove_file(theirs.join("README")).unwrap(),
        ),
        (
            "renamed apart",
            |ours| fs::rename(ours.join("src/lib.rs"), ours.join("src/a.rs")).unwrap(),
            |theirs| fs::rename(theirs.join("src/lib.rs"), theirs.join("src/b.rs")).unwrap(),
        ),
        (
            "renamed and removed",
            |ours| fs::rename(ours.join("src/lib.rs"), ours.join("src/a.rs")).unwrap(),
            |theirs| fs::remove_file(theirs.join("src/lib.rs")).unwrap(),
        ),
        (
            "a file and a directory",
            |ours| {
                fs::create_dir(ours.join("new")).unwrap();
                fs::write(ours.join("new/file"), "ours\n").unwrap();
            },
            |theirs| fs::write(theirs.join("new"), "theirs\n").unwrap(),
        ),
    ];
    for (kind, ours, theirs) in kinds {
        for update in [false, true] {
            let setup = Setup::new();
            let (first, ours_path) = setup.fork("one");
            let (second, theirs_path) = setup.fork("two");
            ours(&ours_path);
            theirs(&theirs_path);
            setup.complete(&first, false);
            if update {
                setup
                    .test
                    .engine
                    .merges
                    .update(&second, false, &user())
                    .unwrap();
            } else {
                setup.complete(&second, false);
            }
            let all: Vec<Review> = setup.test.engine.merges.reviews(None, true).unwrap();
            assert!(!all.is_empty(), "{kind}, by an update: {update}");
            for review in all {
                assert!(
                    !review.changed_since,
                    "{kind}, by an update: {update}: {review:?}"
                );
            }
        }
    }
}

/// Content whose reader completes the workspace before it gives the first byte.
struct Late<'a> {
    setup: &'a Setup,
    id: &'a WorkspaceId,
    path: &'a std::path::Path,
    given: bool,
}

impl std::io::Read for Late<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.given {
            return Ok(0);
        }
        self.given = true;
        fs::write(self.path.join("README"), "something else of mine\n").unwrap();
        assert_eq!(self.setup.complete(self.id, false).conflicts.len(), 1);
        buffer[0] = b'x';
        Ok(1)
    }
}

#[test]
fn a_decision_about_what_is_something_else_by_now_is_refused() {
    for atomic in [false, true] {
        let setup = Setup::new();
        if atomic {
            let mut settings = setup
                .test
                .engine
                .projects
                .merge_settings(&setup.project)
                .unwrap();
            settings.landing = Landing::Atomic;
            let engine = &setup.test.engine;
            let set = engine
                .projects
                .set_merge_settings(&setup.project, &settings, &user());
            set.unwrap();
        }
        let (id, path) = setup.conflicting(false);
        let review = setup
            .test
            .engine
            .merges
            .reviews(None, false)
            .unwrap()
            .remove(0);
        let mut late = Late {
            setup: &setup,
            id: &id,
            path: &path,
            given: false,
        };
        let how = Resolution::Content(Content::Stream(&mut late));
        let refused = setup.test.engine.merges.resolve(&review.id, how, &user());
        assert_eq!(refused.unwrap_err().code(), ErrorCode::PreconditionFailed);
        let now = setup.test.engine.merges.review(&review.id).unwrap();
        assert_eq!((now.state, now.theirs == review.theirs), ("open", false));
        assert_eq!(
            setup.test.project_text(&setup.project, "README"),
            "theirs\n"
        );
        setup.test.check();
    }
}

/// The paths of the conflicts that a merge reports.
fn conflict_paths(completed: &Completed) -> Vec<String> {
    let paths = completed.conflicts.iter();
    paths.map(|one| one.path.to_text()).collect()
}

#[test]
fn a_protected_change_waits_while_only_another_path_of_it_is_touched() {
    let setup = Setup::new();
    let engine = &setup.test.engine;
    setup.test.put(&setup.project, "ci/b.yml", "run: 1\n");
    let mut settings = engine.projects.merge_settings(&setup.project).unwrap();
    settings.protect = vec![".github/**".to_owned()];
    let set = engine
        .projects
        .set_merge_settings(&setup.project, &settings, &user());
    set.unwrap();
    let (id, path) = setup.fork("one");
    fs::create_dir(path.join(".github")).unwrap();
    fs::rename(path.join("ci/b.yml"), path.join(".github/b.yml")).unwrap();
    fs::write(path.join("more"), "more\n").unwrap();
    assert_eq!(setup.complete(&id, true).conflicts.len(), 1);
    assert_eq!(setup.waiting(), [".github/b.yml"]);
    // The fork is updated, and changes what it has there now.
    fs::write(path.join("ci/b.yml"), "run: 2\n").unwrap();
    let again = setup.complete(&id, true);
    assert_eq!(
        conflict_paths(&again),
        [".github/b.yml"],
        "it is said again"
    );
    assert_eq!(
        setup.test.project_text(&setup.project, "ci/b.yml"),
        "run: 2\n"
    );
    assert_eq!(setup.waiting(), [".github/b.yml"], "nobody has decided");
    setup.test.check();
}

#[test]
fn a_conflict_waits_while_only_what_is_beside_it_is_touched() {
    let setup = Setup::new();
    let (other, theirs) = setup.fork("two");
    let (id, path) = setup.fork("one");
    fs::rename(theirs.join("src/lib.rs"), theirs.join("src/a.rs")).unwrap();
    setup.complete(&other, false);
    fs::rename(path.join("src/lib.rs"), path.join("src/b.rs")).unwrap();
    let done = setup.complete(&id, true);
    assert_eq!(done.conflicts.len(), 1, "{done:?}");
    let asked = setup.waiting();
    // The fork changes another path than that of the review.
    let beside = ["src/lib.rs", "src/b.rs"].into_iter();
    for beside in beside.filter(|beside| asked != [*beside]) {
        fs::write(path.join(beside), "of its own\n").unwrap();
    }
    assert_eq!(
        conflict_paths(&setup.complete(&id, true)),
        asked,
        "it is said again"
    );
    assert_eq!(setup.waiting(), asked, "nobody has decided");
    setup.test.check();
}

/// Rows of reviews as the store has them.
fn change_details(setup: &Setup, change: impl Fn(&mut serde_json::Value)) {
    let store = setup.test.store();
    let rows = store.read(|tx| tx.reviews(None, true)).unwrap();
    for mut row in rows {
        let mut details = serde_json::from_str(&row.details).unwrap();
        change(&mut details);
        row.details = details.to_string();
        let put = store.write(offshoot_store::Durability::Synced, |tx| tx.put_review(&row));
        put.unwrap();
    }
}

#[test]
fn a_review_of_an_earlier_version_does_not_say_that_its_path_has_changed() {
    let setup = Setup::new();
    setup.conflicting(false);
    change_details(&setup, |details| {
        details.as_object_mut().unwrap().remove("there").unwrap();
    });
    let only = || {
        setup
            .test
            .engine
            .merges
            .reviews(None, false)
            .unwrap()
            .remove(0)
    };
    assert!(!only().changed_since);
    setup.test.put(&setup.project, "README", "something else\n");
    assert!(only().changed_since);
}

/// Files, directories and empty directories that replace each other.
#[test]
fn every_review_knows_the_paths_that_it_is_about() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 7] = [
        ("an empty directory", |at| {
            fs::create_dir(at.join("new")).unwrap();
        }),
        ("a file", |at| {
            fs::write(at.join("new"), format!("{at:?}")).unwrap();
        }),
        ("a directory", |at| {
            fs::create_dir(at.join("new")).unwrap();
            fs::write(at.join("new/file"), format!("{at:?}")).unwrap();
        }),
        ("an empty directory for a file", |at| {
            fs::remove_file(at.join("README")).unwrap();
            fs::create_dir(at.join("README")).unwrap();
        }),
        ("another file", |at| {
            fs::write(at.join("README"), format!("{at:?}")).unwrap();
        }),
        ("an emptied directory", |at| {
            fs::remove_file(at.join("docs/a/b")).unwrap();
        }),
        ("a file for a directory", |at| {
            fs::remove_dir_all(at.join("docs")).unwrap();
            fs::write(at.join("docs"), format!("{at:?}")).unwrap();
        }),
    ];
    for (ours, change_ours) in changes {
        for (theirs, change_theirs) in changes {
            let setup = Setup::new();
            let (first, first_path) = setup.fork("one");
            let (second, second_path) = setup.fork("two");
            change_ours(&first_path);
            change_theirs(&second_path);
            setup.complete(&first, false);
            setup.complete(&second, true);
            change_details(&setup, |details| {
                let paths = details["paths"].as_array().unwrap();
                assert!(!paths.is_empty(), "{ours} and {theirs}: {details}");
            });
            let asked = setup.waiting();
            setup.test.put(&setup.project, "something", "else\n");
            setup
                .test
                .engine
                .merges
                .update(&second, false, &user())
                .unwrap();
            assert_eq!(setup.waiting(), asked, "{ours} and {theirs}");
        }
    }
}

/// A review that names no path of its workspace, as a row of an earlier version may.
#[test]
fn a_review_that_names_no_paths_does_not_close_by_itself() {
    let setup = Setup::new();
    let (id, _) = setup.conflicting(true);
    change_details(&setup, |details| details["paths"] = serde_json::json!([]));
    setup.test.put(&setup.project, "something", "else\n");
    setup
        .test
        .engine
        .merges
        .update(&id, false, &user())
        .unwrap();
    assert_eq!(setup.waiting(), ["README"]);
}

#[test]
fn a_workspace_goes_when_its_last_review_closes_by_itself_as_with_a_decision() {
    for (keep, more) in [(false, false), (true, false), (false, true)] {
        let setup = Setup::new();
        let (id, path) = setup.conflicting(keep);
        if more {
            fs::write(path.join("more"), "not merged\n").unwrap();
        }
        let (other, theirs) = setup.fork("two");
        fs::write(theirs.join("README"), "mine\n").unwrap();
        setup.complete(&other, false);
        setup.assert_closed_by_itself();
        let is_gone = setup.test.engine.workspaces.workspace(&id).is_err();
        // A workspace that was asked to stay stays, and so does one with unmerged changes.
        assert_eq!(is_gone, !keep && !more, "{keep} {more}");
        assert_eq!(path.exists(), keep || more);
        if !keep {
            let again = setup.complete(&id, false);
            assert!(again.after.unwrap().removed, "{more}");
        }
        setup.test.check();
    }
}
