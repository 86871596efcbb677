//! Reviews close by themselves when there is nothing left to decide, and not before.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod rig;

use std::fs;
use std::path::PathBuf;

use offshoot_core::{ErrorCode, ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Content, Landing, ProviderName, Resolution, Review,
};
use rig::{Rig, user};

struct Scene {
    rig: Rig,
    project: ProjectId,
}

impl Scene {
    fn new() -> Scene {
        let rig = Rig::in_memory(ProviderName::Copy);
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
        self.rig.engine.complete(id, &options, &user()).unwrap()
    }

    /// Paths of the reviews that wait.
    fn waiting(&self) -> Vec<String> {
        let waiting = self.rig.engine.reviews(Some(&self.project), false).unwrap();
        waiting.iter().map(|one| one.path.to_text()).collect()
    }

    /// The only review that there ever was, which must have closed by itself.
    fn settled(&self) {
        let all = self.rig.engine.reviews(Some(&self.project), true).unwrap();
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
    scene.rig.engine.wait_for_upkeep();
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
        let updated = scene.rig.engine.update(&id, false, &user()).unwrap();
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
    scene.rig.engine.wait_for_upkeep();
    assert!(!mine.exists());
    assert!(scene.waiting().is_empty());
}

#[test]
fn a_plan_closes_nothing() {
    let scene = Scene::new();
    let (id, path) = scene.conflicting(false);
    fs::write(path.join("README"), "theirs\n").unwrap();
    let options = CompleteOptions::default();
    let plan = scene.rig.engine.plan_completion(&id, &options, &user());
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
                scene.rig.engine.update(&second, false, &user()).unwrap();
            } else {
                scene.complete(&second, false);
            }
            let all: Vec<Review> = scene.rig.engine.reviews(None, true).unwrap();
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
            let mut settings = scene.rig.engine.merge_settings(&scene.project).unwrap();
            settings.landing = Landing::Atomic;
            let engine = &scene.rig.engine;
            let set = engine.set_merge_settings(&scene.project, &settings, &user());
            set.unwrap();
        }
        let (id, path) = scene.conflicting(false);
        let review = scene.rig.engine.reviews(None, false).unwrap().remove(0);
        let mut late = Late {
            scene: &scene,
            id: &id,
            path: &path,
            given: false,
        };
        let how = Resolution::Content(Content::Stream(&mut late));
        let refused = scene.rig.engine.resolve(&review.id, how, &user());
        assert_eq!(refused.unwrap_err().code(), ErrorCode::PreconditionFailed);
        let now = scene.rig.engine.review(&review.id).unwrap();
        assert_eq!((now.state, now.theirs == review.theirs), ("open", false));
        assert_eq!(scene.rig.project_text(&scene.project, "README"), "theirs\n");
        scene.rig.check();
    }
}
