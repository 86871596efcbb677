//! What happens to a workspace after its merge: it is removed when everything in it is merged, not
//! before.

use std::fs;

use crate::fixture::{TestEngine, user, with_each};
use offshoot_engine::{CompleteOptions, ProviderName, Resolution};

#[test]
fn work_that_goes_on_while_a_review_waits_is_not_taken_away_with_the_last_decision() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        fs::write(path.join("README"), "mine\n").unwrap();
        test.put(&project, "README", "theirs\n");
        let options = CompleteOptions::default();
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        let review = done.conflicts[0].review_id.clone().unwrap();
        fs::write(path.join("later"), "not merged yet\n").unwrap();
        test.engine
            .merges
            .resolve(&review, Resolution::Theirs, &user())
            .unwrap();
        test.engine.context.wait_for_jobs();
        let later = fs::read_to_string(path.join("later")).unwrap();
        assert_eq!(later, "not merged yet\n");
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
        assert_eq!(test.project_text(&project, "later"), "not merged yet\n");
        assert_eq!(test.project_text(&project, "README"), "mine\n");
        assert!(
            test.engine.workspaces.workspace(&id).is_err(),
            "all of it is merged"
        );
        test.check();
    });
}

#[test]
fn a_workspace_that_was_kept_goes_when_it_is_completed_for_good() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        let keep = CompleteOptions {
            keep: true,
            ..CompleteOptions::default()
        };
        // There is nothing to merge, so that the second merge equals the first.
        test.engine.merges.complete(&id, &keep, &user()).unwrap();
        assert!(path.join("README").exists());
        let done = test
            .engine
            .merges
            .complete(&id, &CompleteOptions::default(), &user())
            .unwrap();
        assert!(!done.keep);
        test.engine.context.wait_for_jobs();
        assert!(test.engine.workspaces.workspace(&id).is_err() && !path.exists());
        test.check();
    });
}

#[test]
fn a_merge_that_waits_as_a_whole_moves_nothing() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("web");
    let (id, path) = test.fork(&project, "one");
    fs::write(path.join("README"), "mine\n").unwrap();
    fs::write(path.join("fits"), "fits\n").unwrap();
    test.put(&project, "README", "theirs\n");
    let options = CompleteOptions {
        keep: true,
        atomic: Some(true),
        ..CompleteOptions::default()
    };
    let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
    assert_eq!((done.conflicts.len(), done.snapshot), (1, None));
    let after = done.after.clone().unwrap();
    assert_eq!((after.moved, after.removed), (Some(false), false));
    assert!(after.waits.is_some());
    // The fork has its files.
    assert_eq!(fs::read(path.join("README")).unwrap(), b"mine\n");
    let review = done.conflicts[0].review_id.clone().unwrap();
    let resolved = test
        .engine
        .merges
        .resolve(&review, Resolution::Theirs, &user());
    assert!(resolved.unwrap().snapshot.is_some());
    assert_eq!(test.project_text(&project, "README"), "mine\n");
    assert_eq!(test.project_text(&project, "fits"), "fits\n");
    let updated = test.engine.merges.update(&id, false, &user()).unwrap();
    assert!(updated.conflicts.is_empty());
    assert_eq!(fs::read(path.join("README")).unwrap(), b"mine\n");
    test.check();
}

/// A fork keeps its base while a program uses it. Its own earlier changes are then no conflict.
#[test]
fn a_fork_that_could_not_move_is_not_set_against_its_own_work() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        let standing = fs::File::open(path.join("src")).unwrap();
        let keep = CompleteOptions {
            keep: true,
            ..CompleteOptions::default()
        };
        let complete = || test.engine.merges.complete(&id, &keep, &user()).unwrap();
        fs::write(path.join("new"), "one\n").unwrap();
        fs::write(path.join("README"), "first\n").unwrap();
        fs::create_dir(path.join(".git")).unwrap();
        fs::write(path.join(".git/config"), "[core]\n").unwrap();
        let moved = complete().after.unwrap().moved == Some(true);
        // Other agents continue, and so does the agent, in files that it has merged already.
        test.put(&project, "src/main.rs", "of others\n");
        fs::write(path.join("new"), "one\ntwo\n").unwrap();
        fs::write(path.join("README"), "second\n").unwrap();
        let done = complete();
        assert!(done.conflicts.is_empty(), "moved: {moved}, {done:?}");
        assert_eq!(test.project_text(&project, "new"), "one\ntwo\n");
        assert_eq!(test.project_text(&project, "README"), "second\n");
        assert_eq!(test.project_text(&project, "src/main.rs"), "of others\n");
        // A conflict stays one, and a merge that landed nothing does not change that.
        test.put(&project, "README", "of others\n");
        fs::write(path.join("README"), "third\n").unwrap();
        let review = complete().conflicts[0].review_id.clone().unwrap();
        fs::write(path.join("new"), "one\ntwo\nthree\n").unwrap();
        let done = complete();
        assert_eq!(test.project_text(&project, "new"), "one\ntwo\nthree\n");
        if let Some(again) = done.conflicts.first() {
            assert_eq!(again.review_id.as_ref(), Some(&review));
        }
        let resolved = test
            .engine
            .merges
            .resolve(&review, Resolution::Theirs, &user());
        assert!(resolved.unwrap().snapshot.is_some());
        assert_eq!(test.project_text(&project, "README"), "third\n");
        drop(standing);
        let updated = test.engine.merges.update(&id, false, &user()).unwrap();
        assert!(updated.conflicts.is_empty());
        assert_eq!(fs::read(path.join("src/main.rs")).unwrap(), b"of others\n");
        test.check();
    });
}

/// A fork that kept its base, with merges that land whole or not at all.
#[test]
fn a_merge_that_waits_whole_brings_what_came_since_the_one_before() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        let _standing = fs::File::open(path.join("src")).unwrap();
        let complete = |atomic| {
            let options = CompleteOptions {
                keep: true,
                atomic: Some(atomic),
                ..CompleteOptions::default()
            };
            test.engine.merges.complete(&id, &options, &user()).unwrap()
        };
        fs::write(path.join("new"), "one\n").unwrap();
        complete(false);
        test.put(&project, "new", "one\nof others\n");
        test.put(&project, "README", "of others\n");
        fs::write(path.join("README"), "mine\n").unwrap();
        fs::write(path.join("more"), "more\n").unwrap();
        let done = complete(true);
        assert_eq!((done.conflicts.len(), done.snapshot), (1, None), "{done:?}");
        let review = done.conflicts[0].review_id.clone().unwrap();
        let resolved = test
            .engine
            .merges
            .resolve(&review, Resolution::Theirs, &user());
        assert!(resolved.unwrap().snapshot.is_some());
        // Changes of other agents to the file stay.
        assert_eq!(test.project_text(&project, "new"), "one\nof others\n");
        assert_eq!(test.project_text(&project, "README"), "mine\n");
        assert_eq!(test.project_text(&project, "more"), "more\n");
        test.check();
    });
}

/// A merge that was undone has no effect, also after later merges.
#[test]
fn what_was_undone_counts_as_not_merged() {
    let mut stayed = 0;
    with_each_counted(&mut stayed, |test, stayed| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        let _standing = fs::File::open(path.join("src")).unwrap();
        let complete = || {
            let keep = CompleteOptions {
                keep: true,
                ..CompleteOptions::default()
            };
            test.engine.merges.complete(&id, &keep, &user()).unwrap()
        };
        fs::write(path.join("new"), "one\n").unwrap();
        let first = complete();
        if first.after.as_ref().unwrap().moved == Some(true) {
            return;
        }
        *stayed += 1;
        test.put(&project, "README", "of others\n");
        fs::write(path.join("README"), "mine\n").unwrap();
        let second = complete();
        assert_eq!((second.conflicts.len(), second.snapshot), (1, None));
        let undo = |id: &Option<String>| {
            let undone = test.engine.merges.undo_merge(id.as_ref().unwrap(), &user());
            undone.unwrap();
        };
        undo(&first.merge_id);
        fs::write(path.join("more"), "more\n").unwrap();
        complete();
        assert_eq!(test.project_text(&project, "more"), "more\n");
        assert_eq!(test.project_text(&project, "new"), "one\n");
        test.check();
    });
    assert!(stayed > 0, "no fork stayed where it was");
}

#[test]
fn a_fork_is_not_set_against_what_it_merged_before_the_merge_that_was_undone() {
    let mut stayed = 0;
    with_each_counted(&mut stayed, |test, stayed| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        let _standing = fs::File::open(path.join("src")).unwrap();
        let complete = || {
            let keep = CompleteOptions {
                keep: true,
                ..CompleteOptions::default()
            };
            test.engine.merges.complete(&id, &keep, &user()).unwrap()
        };
        fs::write(path.join("new"), "one\n").unwrap();
        if complete().after.unwrap().moved == Some(true) {
            return;
        }
        *stayed += 1;
        test.put(&project, "new", "one\nof others\n");
        fs::write(path.join("more"), "more\n").unwrap();
        let second = complete();
        let undone = test
            .engine
            .merges
            .undo_merge(&second.merge_id.unwrap(), &user());
        undone.unwrap();
        fs::write(path.join("last"), "last\n").unwrap();
        let third = complete();
        assert!(third.conflicts.is_empty(), "{third:?}");
        assert_eq!(test.project_text(&project, "more"), "more\n");
        assert_eq!(test.project_text(&project, "new"), "one\nof others\n");
        test.check();
    });
    assert!(stayed > 0, "no fork stayed where it was");
}

/// Undoing removes the changes of a merge from the project, not from the fork that was kept.
#[test]
fn a_fork_that_moved_onto_what_was_undone_keeps_its_work_and_merges_it_again() {
    // Whether the fork is completed again before the undo, and whether it is updated after it.
    for (again, update) in [(false, false), (true, false), (false, true)] {
        with_each(|test| {
            let project = test.project("web");
            let (id, path) = test.fork(&project, "one");
            let complete = || {
                let keep = CompleteOptions {
                    keep: true,
                    ..CompleteOptions::default()
                };
                test.engine.merges.complete(&id, &keep, &user()).unwrap()
            };
            fs::create_dir_all(path.join("sub/dir")).unwrap();
            fs::create_dir_all(path.join("empty")).unwrap();
            fs::write(path.join("sub/dir/new"), "one\n").unwrap();
            fs::write(path.join("README"), "read me\nmine\n").unwrap();
            fs::remove_file(path.join("docs/a/b")).unwrap();
            let first = complete();
            assert_eq!(first.after.as_ref().unwrap().moved, Some(true));
            if again {
                complete();
            }
            let merge = first.merge_id.as_ref().unwrap();
            test.engine.merges.undo_merge(merge, &user()).unwrap();
            assert_eq!(test.project_text(&project, "README"), "read me\n");
            let before = offshoot_testkit::dir_image(&path);
            if update {
                test.engine.merges.update(&id, false, &user()).unwrap();
                assert_eq!(offshoot_testkit::dir_image(&path), before);
            }
            let second = complete();
            assert!(second.conflicts.is_empty(), "{second:?}");
            assert_eq!(offshoot_testkit::dir_image(&path), before);
            assert_eq!(test.project_text(&project, "sub/dir/new"), "one\n");
            assert_eq!(test.project_text(&project, "README"), "read me\nmine\n");
            let image = test.project_image(&project, None);
            let has = |at: &str| image.contains_key(&offshoot_testkit::NodePath(at.into()));
            assert!(has("empty") && !has("docs/a/b"));
            // What others have changed by now is not undone again.
            let (_, other) = test.fork(&project, "two");
            assert_eq!(fs::read(other.join("sub/dir/new")).unwrap(), b"one\n");
            assert!(complete().merged.is_empty());
            test.check();
        });
    }
}

/// Runs a test with each provider and lets it count.
fn with_each_counted(count: &mut usize, run: impl Fn(TestEngine, &mut usize)) {
    let counted = std::cell::RefCell::new(count);
    with_each(|test| run(test, &mut counted.borrow_mut()));
}
