//! Reviews close by themselves when there is nothing left to decide, and not before.

use std::fs;
use std::path::PathBuf;

use crate::fixture::{TestEngine, user};
use offshoot_core::{ErrorCode, ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Content, Landing, ProviderName, Resolution, Review,
};

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

    fn fork(&self, agent: &str) -> (WorkspaceId, PathBuf) {
        self.rig.fork(&self.project, agent)
    }

    fn complete(&self, id: &WorkspaceId, keep: bool) -> Completed {
        let options = CompleteOptions {
            keep,
            ..CompleteOptions::default()
        };
        self.rig
            .engine
            .merges
            .complete(id, &options, &user())
            .unwrap()
    }

    /// Paths of the reviews that wait.
    fn waiting(&self) -> Vec<String> {
        let waiting = self
            .rig
            .engine
            .merges
            .reviews(Some(&self.project), false)
            .unwrap();
        waiting.iter().map(|one| one.path.to_text()).collect()
    }

    /// The only review that there ever was, which must have closed by itself.
    fn settled(&self) {
        let all = self
            .rig
            .engine
            .merges
            .reviews(Some(&self.project), true)
            .unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        let decision = all[0].decision.as_ref().unwrap();
        assert_eq!((all[0].state, &decision.0[..]), ("resolved", "settled"));
        assert_eq!(decision.1.operator, "system");
        self.rig.check();
    }

    /// A fork whose `README` conflicts with the project's, completed.
    fn conflicting(&self, keep: bool) -> (WorkspaceId, PathBuf) {
        let (id, path) = self.fork("one");
        fs::write(path.join("README"), "mine\n").unwrap();
        self.rig.put(&self.project, "README", "theirs\n");
        assert_eq!(self.complete(&id, keep).conflicts.len(), 1);
        assert_eq!(self.waiting(), ["README"]);
        (id, path)
    }
}

#[test]
fn a_completion_that_fits_settles_the_conflict_of_the_one_before() {
    let scene = Scene::new();
    let (id, path) = scene.conflicting(false);
    // The agent takes its own change back and comes to what the project has.
    fs::write(path.join("README"), "theirs\n").unwrap();
    fs::write(path.join("more"), "more\n").unwrap();
    let done = scene.complete(&id, false);
    assert!(done.conflicts.is_empty());
    scene.settled();
    scene.rig.engine.context.wait_for_jobs();
    assert!(!path.exists(), "nothing waits any more");
}

#[test]
fn a_conflict_stays_while_the_workspace_brings_other_things() {
    let scene = Scene::new();
    let (id, path) = scene.conflicting(true);
    fs::write(path.join("more"), "more\n").unwrap();
    scene.complete(&id, true);
    assert_eq!(scene.waiting(), ["README"]);
    // Something of its own there is its answer.
    fs::write(path.join("README"), "both of us\n").unwrap();
    scene.complete(&id, true);
    assert_eq!(
        scene.rig.project_text(&scene.project, "README"),
        "both of us\n"
    );
    scene.settled();
}

#[test]
fn a_conflict_that_an_update_found_is_settled_by_what_the_workspace_puts_there() {
    let scene = Scene::new();
    let (id, path) = scene.fork("one");
    fs::write(path.join("README"), "mine\n").unwrap();
    scene.rig.put(&scene.project, "README", "theirs\n");
    let update = |times: usize| {
        let updated = scene.rig.engine.merges.update(&id, false, &user()).unwrap();
        assert_eq!(updated.conflicts.len(), times);
    };
    update(1);
    scene.rig.put(&scene.project, "other", "1\n");
    update(0);
    assert_eq!(scene.waiting(), ["README"], "nobody has answered");
    fs::write(path.join("README"), "both of us\n").unwrap();
    scene.rig.put(&scene.project, "other", "2\n");
    update(0);
    scene.settled();
}

#[test]
fn a_conflict_is_settled_when_the_project_comes_to_agree() {
    let scene = Scene::new();
    let (id, mine) = scene.conflicting(false);
    let (other, path) = scene.fork("two");
    fs::write(path.join("README"), "something else\n").unwrap();
    scene.complete(&other, true);
    assert_eq!(scene.waiting(), ["README"]);
    fs::write(path.join("README"), "mine\n").unwrap();
    scene.complete(&other, false);
    scene.settled();
    // There is nothing more to merge, and nothing that the workspace waits for.
    scene.complete(&id, false);
    scene.rig.engine.context.wait_for_jobs();
    assert!(!mine.exists());
    assert!(scene.waiting().is_empty());
}

#[test]
fn a_plan_closes_nothing() {
    let scene = Scene::new();
    let (id, path) = scene.conflicting(false);
    fs::write(path.join("README"), "theirs\n").unwrap();
    let options = CompleteOptions::default();
    let plan = scene
        .rig
        .engine
        .merges
        .plan_completion(&id, &options, &user());
    assert!(plan.unwrap().conflicts.is_empty());
    assert_eq!(scene.waiting(), ["README"]);
}

/// Every kind of conflict there is, fresh from a merge and from an update.
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
            let scene = Scene::new();
            let (first, ours_path) = scene.fork("one");
            let (second, theirs_path) = scene.fork("two");
            ours(&ours_path);
            theirs(&theirs_path);
            scene.complete(&first, false);
            if update {
                scene
                    .rig
                    .engine
                    .merges
                    .update(&second, false, &user())
                    .unwrap();
            } else {
                scene.complete(&second, false);
            }
            let all: Vec<Review> = scene.rig.engine.merges.reviews(None, true).unwrap();
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

/// Content that somebody else completes the workspace before it is given.
struct Late<'a> {
    scene: &'a Scene,
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
        assert_eq!(self.scene.complete(self.id, false).conflicts.len(), 1);
        buffer[0] = b'x';
        Ok(1)
    }
}

#[test]
fn a_decision_about_what_is_something_else_by_now_is_refused() {
    for atomic in [false, true] {
        let scene = Scene::new();
        if atomic {
            let mut settings = scene
                .rig
                .engine
                .projects
                .merge_settings(&scene.project)
                .unwrap();
            settings.landing = Landing::Atomic;
            let engine = &scene.rig.engine;
            let set = engine
                .projects
                .set_merge_settings(&scene.project, &settings, &user());
            set.unwrap();
        }
        let (id, path) = scene.conflicting(false);
        let review = scene
            .rig
            .engine
            .merges
            .reviews(None, false)
            .unwrap()
            .remove(0);
        let mut late = Late {
            scene: &scene,
            id: &id,
            path: &path,
            given: false,
        };
        let how = Resolution::Content(Content::Stream(&mut late));
        let refused = scene.rig.engine.merges.resolve(&review.id, how, &user());
        assert_eq!(refused.unwrap_err().code(), ErrorCode::PreconditionFailed);
        let now = scene.rig.engine.merges.review(&review.id).unwrap();
        assert_eq!((now.state, now.theirs == review.theirs), ("open", false));
        assert_eq!(scene.rig.project_text(&scene.project, "README"), "theirs\n");
        scene.rig.check();
    }
}

/// Where the conflicts are that a merge tells of.
fn told(completed: &Completed) -> Vec<String> {
    let paths = completed.conflicts.iter();
    paths.map(|one| one.path.to_text()).collect()
}

#[test]
fn a_protected_change_waits_while_only_another_path_of_it_is_touched() {
    let scene = Scene::new();
    let engine = &scene.rig.engine;
    scene.rig.put(&scene.project, "ci/b.yml", "run: 1\n");
    let mut settings = engine.projects.merge_settings(&scene.project).unwrap();
    settings.protect = vec![".github/**".to_owned()];
    let set = engine
        .projects
        .set_merge_settings(&scene.project, &settings, &user());
    set.unwrap();
    let (id, path) = scene.fork("one");
    fs::create_dir(path.join(".github")).unwrap();
    fs::rename(path.join("ci/b.yml"), path.join(".github/b.yml")).unwrap();
    fs::write(path.join("more"), "more\n").unwrap();
    assert_eq!(scene.complete(&id, true).conflicts.len(), 1);
    assert_eq!(scene.waiting(), [".github/b.yml"]);
    // The fork has moved on, and works on what it has there now.
    fs::write(path.join("ci/b.yml"), "run: 2\n").unwrap();
    let again = scene.complete(&id, true);
    assert_eq!(told(&again), [".github/b.yml"], "it is said again");
    assert_eq!(
        scene.rig.project_text(&scene.project, "ci/b.yml"),
        "run: 2\n"
    );
    assert_eq!(scene.waiting(), [".github/b.yml"], "nobody has decided");
    scene.rig.check();
}

#[test]
fn a_conflict_waits_while_only_what_is_beside_it_is_touched() {
    let scene = Scene::new();
    let (other, theirs) = scene.fork("two");
    let (id, path) = scene.fork("one");
    fs::rename(theirs.join("src/lib.rs"), theirs.join("src/a.rs")).unwrap();
    scene.complete(&other, false);
    fs::rename(path.join("src/lib.rs"), path.join("src/b.rs")).unwrap();
    let done = scene.complete(&id, true);
    assert_eq!(done.conflicts.len(), 1, "{done:?}");
    let asked = scene.waiting();
    // Some path beside the one that the review is at: the fork puts something of its own there.
    let beside = ["src/lib.rs", "src/b.rs"].into_iter();
    for beside in beside.filter(|beside| asked != [*beside]) {
        fs::write(path.join(beside), "of its own\n").unwrap();
    }
    assert_eq!(told(&scene.complete(&id, true)), asked, "it is said again");
    assert_eq!(scene.waiting(), asked, "nobody has decided");
    scene.rig.check();
}

/// Rows of reviews as the store has them.
fn change_details(scene: &Scene, change: impl Fn(&mut serde_json::Value)) {
    let store = scene.rig.store();
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
    let scene = Scene::new();
    scene.conflicting(false);
    change_details(&scene, |details| {
        details.as_object_mut().unwrap().remove("there").unwrap();
    });
    let only = || {
        scene
            .rig
            .engine
            .merges
            .reviews(None, false)
            .unwrap()
            .remove(0)
    };
    assert!(!only().changed_since);
    scene.rig.put(&scene.project, "README", "something else\n");
    assert!(only().changed_since);
}

/// Files, directories and empty directories in each other's place.
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
            let scene = Scene::new();
            let (first, first_path) = scene.fork("one");
            let (second, second_path) = scene.fork("two");
            change_ours(&first_path);
            change_theirs(&second_path);
            scene.complete(&first, false);
            scene.complete(&second, true);
            change_details(&scene, |details| {
                let paths = details["paths"].as_array().unwrap();
                assert!(!paths.is_empty(), "{ours} and {theirs}: {details}");
            });
            let asked = scene.waiting();
            scene.rig.put(&scene.project, "something", "else\n");
            scene
                .rig
                .engine
                .merges
                .update(&second, false, &user())
                .unwrap();
            assert_eq!(scene.waiting(), asked, "{ours} and {theirs}");
        }
    }
}

/// One that names no path of its workspace, as a row of an earlier version may.
#[test]
fn a_review_that_names_no_paths_does_not_close_by_itself() {
    let scene = Scene::new();
    let (id, _) = scene.conflicting(true);
    change_details(&scene, |details| details["paths"] = serde_json::json!([]));
    scene.rig.put(&scene.project, "something", "else\n");
    scene.rig.engine.merges.update(&id, false, &user()).unwrap();
    assert_eq!(scene.waiting(), ["README"]);
}

#[test]
fn a_workspace_goes_when_its_last_review_closes_by_itself_as_with_a_decision() {
    for (keep, more) in [(false, false), (true, false), (false, true)] {
        let scene = Scene::new();
        let (id, path) = scene.conflicting(keep);
        if more {
            fs::write(path.join("more"), "not merged\n").unwrap();
        }
        let (other, theirs) = scene.fork("two");
        fs::write(theirs.join("README"), "mine\n").unwrap();
        scene.complete(&other, false);
        scene.settled();
        let is_gone = scene.rig.engine.workspaces.workspace(&id).is_err();
        // One that was asked to stay stays, and so does one with work that is not merged.
        assert_eq!(is_gone, !keep && !more, "{keep} {more}");
        assert_eq!(path.exists(), keep || more);
        if !keep {
            let again = scene.complete(&id, false);
            assert!(again.after.unwrap().removed, "{more}");
        }
        scene.rig.check();
    }
}
