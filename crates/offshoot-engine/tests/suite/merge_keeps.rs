//! What happens to a workspace after its merge: it goes when all it holds is merged, not before.

use std::fs;

use crate::fixture::{TestEngine, user, with_each};
use offshoot_engine::{CompleteOptions, ProviderName, Resolution};

#[test]
fn work_that_goes_on_while_a_review_waits_is_not_taken_away_with_the_last_decision() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        fs::write(path.join("README"), "mine\n").unwrap();
        rig.put(&project, "README", "theirs\n");
        let options = CompleteOptions::default();
        let done = rig.engine.merges.complete(&id, &options, &user()).unwrap();
        let review = done.conflicts[0].review_id.clone().unwrap();
        fs::write(path.join("later"), "not merged yet\n").unwrap();
        rig.engine
            .merges
            .resolve(&review, Resolution::Theirs, &user())
            .unwrap();
        rig.engine.context.wait_for_jobs();
        let later = fs::read_to_string(path.join("later")).unwrap();
        assert_eq!(later, "not merged yet\n");
        let done = rig.engine.merges.complete(&id, &options, &user()).unwrap();
        assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
        assert_eq!(rig.project_text(&project, "later"), "not merged yet\n");
        assert_eq!(rig.project_text(&project, "README"), "mine\n");
        assert!(
            rig.engine.workspaces.workspace(&id).is_err(),
            "all of it is merged"
        );
        rig.check();
    });
}

#[test]
fn a_workspace_that_was_kept_goes_when_it_is_completed_for_good() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        let keep = CompleteOptions {
            keep: true,
            ..CompleteOptions::default()
        };
        // Nothing to merge, so that the second merge is the same as the first.
        rig.engine.merges.complete(&id, &keep, &user()).unwrap();
        assert!(path.join("README").exists());
        let done = rig
            .engine
            .merges
            .complete(&id, &CompleteOptions::default(), &user())
            .unwrap();
        assert!(!done.keep);
        rig.engine.context.wait_for_jobs();
        assert!(rig.engine.workspaces.workspace(&id).is_err() && !path.exists());
        rig.check();
    });
}

#[test]
fn a_merge_that_waits_as_a_whole_moves_nothing() {
    let rig = TestEngine::in_memory(ProviderName::Copy);
    let project = rig.project("web");
    let (id, path) = rig.fork(&project, "one");
    fs::write(path.join("README"), "mine\n").unwrap();
    fs::write(path.join("fits"), "fits\n").unwrap();
    rig.put(&project, "README", "theirs\n");
    let options = CompleteOptions {
        keep: true,
        atomic: Some(true),
        ..CompleteOptions::default()
    };
    let done = rig.engine.merges.complete(&id, &options, &user()).unwrap();
    assert_eq!((done.conflicts.len(), done.snapshot), (1, None));
    let after = done.after.clone().unwrap();
    assert_eq!((after.moved, after.removed), (Some(false), false));
    assert!(after.waits.is_some());
    // The fork has what it had.
    assert_eq!(fs::read(path.join("README")).unwrap(), b"mine\n");
    let review = done.conflicts[0].review_id.clone().unwrap();
    let resolved = rig
        .engine
        .merges
        .resolve(&review, Resolution::Theirs, &user());
    assert!(resolved.unwrap().snapshot.is_some());
    assert_eq!(rig.project_text(&project, "README"), "mine\n");
    assert_eq!(rig.project_text(&project, "fits"), "fits\n");
    let updated = rig.engine.merges.update(&id, false, &user()).unwrap();
    assert!(updated.conflicts.is_empty());
    assert_eq!(fs::read(path.join("README")).unwrap(), b"mine\n");
    rig.check();
}

/// A fork stays on its base while a program stands in it. Its own work is no conflict then.
#[test]
fn a_fork_that_could_not_move_is_not_set_against_its_own_work() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        let standing = fs::File::open(path.join("src")).unwrap();
        let keep = CompleteOptions {
            keep: true,
            ..CompleteOptions::default()
        };
        let complete = || rig.engine.merges.complete(&id, &keep, &user()).unwrap();
        fs::write(path.join("new"), "one\n").unwrap();
        fs::write(path.join("README"), "first\n").unwrap();
        fs::create_dir(path.join(".git")).unwrap();
        fs::write(path.join(".git/config"), "[core]\n").unwrap();
        let moved = complete().after.unwrap().moved == Some(true);
        // Others work on, and so does the agent, at what it has brought already.
        rig.put(&project, "src/main.rs", "of others\n");
        fs::write(path.join("new"), "one\ntwo\n").unwrap();
        fs::write(path.join("README"), "second\n").unwrap();
        let done = complete();
        assert!(done.conflicts.is_empty(), "moved: {moved}, {done:?}");
        assert_eq!(rig.project_text(&project, "new"), "one\ntwo\n");
        assert_eq!(rig.project_text(&project, "README"), "second\n");
        assert_eq!(rig.project_text(&project, "src/main.rs"), "of others\n");
        // What is a conflict is one, and what landed nothing changes nothing of that.
        rig.put(&project, "README", "of others\n");
        fs::write(path.join("README"), "third\n").unwrap();
        let review = complete().conflicts[0].review_id.clone().unwrap();
        fs::write(path.join("new"), "one\ntwo\nthree\n").unwrap();
        let done = complete();
        assert_eq!(rig.project_text(&project, "new"), "one\ntwo\nthree\n");
        if let Some(again) = done.conflicts.first() {
            assert_eq!(again.review_id.as_ref(), Some(&review));
        }
        let resolved = rig
            .engine
            .merges
            .resolve(&review, Resolution::Theirs, &user());
        assert!(resolved.unwrap().snapshot.is_some());
        assert_eq!(rig.project_text(&project, "README"), "third\n");
        drop(standing);
        let updated = rig.engine.merges.update(&id, false, &user()).unwrap();
        assert!(updated.conflicts.is_empty());
        assert_eq!(fs::read(path.join("src/main.rs")).unwrap(), b"of others\n");
        rig.check();
    });
}

/// The same for merges that land whole or not at all.
#[test]
fn a_merge_that_waits_whole_brings_what_came_since_the_one_before() {
    with_each(|rig| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        let _standing = fs::File::open(path.join("src")).unwrap();
        let complete = |atomic| {
            let options = CompleteOptions {
                keep: true,
                atomic: Some(atomic),
                ..CompleteOptions::default()
            };
            rig.engine.merges.complete(&id, &options, &user()).unwrap()
        };
        fs::write(path.join("new"), "one\n").unwrap();
        complete(false);
        rig.put(&project, "new", "one\nof others\n");
        rig.put(&project, "README", "of others\n");
        fs::write(path.join("README"), "mine\n").unwrap();
        fs::write(path.join("more"), "more\n").unwrap();
        let done = complete(true);
        assert_eq!((done.conflicts.len(), done.snapshot), (1, None), "{done:?}");
        let review = done.conflicts[0].review_id.clone().unwrap();
        let resolved = rig
            .engine
            .merges
            .resolve(&review, Resolution::Theirs, &user());
        assert!(resolved.unwrap().snapshot.is_some());
        // What others made of the file meanwhile stays.
        assert_eq!(rig.project_text(&project, "new"), "one\nof others\n");
        assert_eq!(rig.project_text(&project, "README"), "mine\n");
        assert_eq!(rig.project_text(&project, "more"), "more\n");
        rig.check();
    });
}

/// A merge that was undone is not there any more, whatever came after it.
#[test]
fn what_was_undone_counts_as_not_merged() {
    let mut stayed = 0;
    with_each_counted(&mut stayed, |rig, stayed| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        let _standing = fs::File::open(path.join("src")).unwrap();
        let complete = || {
            let keep = CompleteOptions {
                keep: true,
                ..CompleteOptions::default()
            };
            rig.engine.merges.complete(&id, &keep, &user()).unwrap()
        };
        fs::write(path.join("new"), "one\n").unwrap();
        let first = complete();
        if first.after.as_ref().unwrap().moved == Some(true) {
            return;
        }
        *stayed += 1;
        rig.put(&project, "README", "of others\n");
        fs::write(path.join("README"), "mine\n").unwrap();
        let second = complete();
        assert_eq!((second.conflicts.len(), second.snapshot), (1, None));
        let undo = |id: &Option<String>| {
            let undone = rig.engine.merges.undo_merge(id.as_ref().unwrap(), &user());
            undone.unwrap();
        };
        undo(&first.merge_id);
        fs::write(path.join("more"), "more\n").unwrap();
        complete();
        assert_eq!(rig.project_text(&project, "more"), "more\n");
        assert_eq!(rig.project_text(&project, "new"), "one\n");
        rig.check();
    });
    assert!(stayed > 0, "no fork stayed where it was");
}

#[test]
fn a_fork_is_not_set_against_what_it_merged_before_the_merge_that_was_undone() {
    let mut stayed = 0;
    with_each_counted(&mut stayed, |rig, stayed| {
        let project = rig.project("web");
        let (id, path) = rig.fork(&project, "one");
        let _standing = fs::File::open(path.join("src")).unwrap();
        let complete = || {
            let keep = CompleteOptions {
                keep: true,
                ..CompleteOptions::default()
            };
            rig.engine.merges.complete(&id, &keep, &user()).unwrap()
        };
        fs::write(path.join("new"), "one\n").unwrap();
        if complete().after.unwrap().moved == Some(true) {
            return;
        }
        *stayed += 1;
        rig.put(&project, "new", "one\nof others\n");
        fs::write(path.join("more"), "more\n").unwrap();
        let second = complete();
        let undone = rig
            .engine
            .merges
            .undo_merge(&second.merge_id.unwrap(), &user());
        undone.unwrap();
        fs::write(path.join("last"), "last\n").unwrap();
        let third = complete();
        assert!(third.conflicts.is_empty(), "{third:?}");
        assert_eq!(rig.project_text(&project, "more"), "more\n");
        assert_eq!(rig.project_text(&project, "new"), "one\nof others\n");
        rig.check();
    });
    assert!(stayed > 0, "no fork stayed where it was");
}

/// Undoing takes what a merge brought from the project, not from the fork that was kept.
#[test]
fn a_fork_that_moved_onto_what_was_undone_keeps_its_work_and_merges_it_again() {
    // Whether it is completed once more before the undoing, and whether it is updated after it.
    for (again, update) in [(false, false), (true, false), (false, true)] {
        with_each(|rig| {
            let project = rig.project("web");
            let (id, path) = rig.fork(&project, "one");
            let complete = || {
                let keep = CompleteOptions {
                    keep: true,
                    ..CompleteOptions::default()
                };
                rig.engine.merges.complete(&id, &keep, &user()).unwrap()
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
            rig.engine.merges.undo_merge(merge, &user()).unwrap();
            assert_eq!(rig.project_text(&project, "README"), "read me\n");
            let before = offshoot_testkit::dir_image(&path);
            if update {
                rig.engine.merges.update(&id, false, &user()).unwrap();
                assert_eq!(offshoot_testkit::dir_image(&path), before);
            }
            let second = complete();
            assert!(second.conflicts.is_empty(), "{second:?}");
            assert_eq!(offshoot_testkit::dir_image(&path), before);
            assert_eq!(rig.project_text(&project, "sub/dir/new"), "one\n");
            assert_eq!(rig.project_text(&project, "README"), "read me\nmine\n");
            let image = rig.project_image(&project, None);
            let has = |at: &str| image.contains_key(&offshoot_testkit::NodePath(at.into()));
            assert!(has("empty") && !has("docs/a/b"));
            // What others have by now is not undone a second time.
            let (_, other) = rig.fork(&project, "two");
            assert_eq!(fs::read(other.join("sub/dir/new")).unwrap(), b"one\n");
            assert!(complete().merged.is_empty());
            rig.check();
        });
    }
}

/// Runs a test with each provider, which counts.
fn with_each_counted(count: &mut usize, test: impl Fn(TestEngine, &mut usize)) {
    let counted = std::cell::RefCell::new(count);
    with_each(|rig| test(rig, &mut counted.borrow_mut()));
}
