//! Completing workspaces: merges, policies, reviews, undo.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ErrorCode, ProjectId, RelPath, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Content, ForkOptions, MergeSettings, PathPolicy, Policy, Resolution,
};
use offshoot_fs::ProviderName;
use offshoot_store::Landing;

fn complete(test: &TestEngine, id: &WorkspaceId) -> Completed {
    test.engine
        .merges
        .complete(id, &CompleteOptions::default(), &user())
        .unwrap()
}

fn paths(list: &[RelPath]) -> Vec<String> {
    list.iter().map(RelPath::to_text).collect()
}

fn set_merge_settings(
    test: &TestEngine,
    project: &ProjectId,
    landing: Landing,
    rules: &[(&str, Policy)],
) {
    let settings = MergeSettings {
        policies: rules
            .iter()
            .map(|(path, policy)| PathPolicy {
                path: (*path).to_owned(),
                policy: *policy,
            })
            .collect(),
        landing,
        include_ignored: false,
        protect: Vec::new(),
    };
    test.engine
        .projects
        .set_merge_settings(project, &settings, &user())
        .unwrap();
}

#[test]
fn work_of_several_agents_comes_together() {
    with_each(|test| {
        let project = test.project("web");
        let (one, one_path) = test.fork(&project, "one");
        let (two, two_path) = test.fork(&project, "two");
        fs::write(one_path.join("one.txt"), "one\n").unwrap();
        fs::remove_file(one_path.join("README")).unwrap();
        fs::create_dir(one_path.join("empty")).unwrap();
        let lib = "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n";
        fs::write(one_path.join("src/lib.rs"), lib).unwrap();
        fs::write(two_path.join("two.txt"), "two\n").unwrap();
        let lib = "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n";
        fs::write(two_path.join("src/lib.rs"), lib).unwrap();
        fs::set_permissions(
            two_path.join("src/main.rs"),
            PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        fs::create_dir(two_path.join("target")).unwrap();
        fs::write(two_path.join("target/out"), "ignored").unwrap();

        let first = complete(&test, &one);
        assert_eq!(paths(&first.merged), ["README", "one.txt", "src/lib.rs"]);
        let plan = test
            .engine
            .merges
            .plan_completion(&two, &CompleteOptions::default(), &user())
            .unwrap();
        let second = complete(&test, &two);
        assert_eq!(plan.merged, second.merged);
        assert_eq!(
            paths(&second.merged),
            ["src/lib.rs", "src/main.rs", "two.txt"]
        );
        assert_eq!(second.auto_resolved[0].path, p("src/lib.rs"));
        assert_eq!(
            test.project_text(&project, "src/lib.rs"),
            "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n"
        );
        let all = test
            .engine
            .projects
            .project_entries(&project, None, &RelPath::root(), true)
            .unwrap();
        let names: Vec<String> = all.iter().map(|one| one.path.to_text()).collect();
        assert!(names.contains(&"empty".to_owned()) && !names.contains(&"README".to_owned()));
        assert!(!names.contains(&"target".to_owned()));
        // The workspaces are gone, and completing them again gives the same answer.
        test.engine.context.wait_for_jobs();
        assert!(!one_path.exists() && test.host.mounts().is_empty());
        let snapshots = test
            .engine
            .projects
            .project_snapshots(&project, None, 0)
            .unwrap()
            .len();
        assert_eq!(complete(&test, &one), first);
        assert_eq!(
            test.engine
                .projects
                .project_snapshots(&project, None, 0)
                .unwrap()
                .len(),
            snapshots
        );
        // Ignored files were removed unread, and the answer counts them.
        let gone = second.ignored_removed;
        assert_eq!((gone.files, gone.bytes), (1, 7));
        assert_eq!(complete(&test, &two), second);
        let versions = test
            .engine
            .projects
            .project_versions(&project, &p("one.txt"))
            .unwrap();
        assert_eq!(versions[0].snapshot.cause.operator.as_str(), "system");
        assert_eq!(versions[0].snapshot.cause.claim.as_deref(), Some("one"));
        test.check();
    });
}

#[test]
fn a_conflict_waits_and_nothing_of_the_rest_is_held_up() {
    with_each(|test| {
        let project = test.project("web");
        let (one, one_path) = test.fork(&project, "one");
        let (two, two_path) = test.fork(&project, "two");
        fs::write(one_path.join("README"), "from one\n").unwrap();
        fs::write(two_path.join("README"), "from two\n").unwrap();
        fs::write(two_path.join("free"), "free\n").unwrap();
        complete(&test, &one);
        let done = complete(&test, &two);
        assert_eq!(paths(&done.merged), ["free"]);
        assert_eq!(done.conflicts.len(), 1);
        assert_eq!(test.project_text(&project, "README"), "from one\n");
        assert!(
            two_path.join("README").exists(),
            "a workspace with reviews is kept"
        );
        assert_eq!(complete(&test, &two), done);
        let reviews = test.engine.merges.reviews(Some(&project), false).unwrap();
        assert_eq!(reviews.len(), 1);
        let review = &reviews[0];
        assert_eq!(Some(&review.id), done.conflicts[0].review_id.as_ref());
        assert_eq!((review.state, review.changed_since), ("open", false));
        assert_eq!(
            review.ours_by.as_ref().unwrap().claim.as_deref(),
            Some("one")
        );
        test.engine
            .merges
            .propose(
                &review.id,
                Content::Bytes(b"from both\n"),
                Some("fair"),
                &user(),
            )
            .unwrap();
        let resolved = test
            .engine
            .merges
            .resolve(&review.id, Resolution::Candidate(1), &user())
            .unwrap();
        assert_eq!(resolved.review.state, "resolved");
        assert!(!resolved.recomputed);
        assert_eq!(test.project_text(&project, "README"), "from both\n");
        assert!(test.engine.merges.reviews(None, false).unwrap().is_empty());
        assert_eq!(test.engine.merges.reviews(None, true).unwrap().len(), 1);
        let again = test
            .engine
            .merges
            .resolve(&review.id, Resolution::Ours, &user());
        assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyExists);
        test.engine.context.wait_for_jobs();
        assert!(!two_path.exists(), "the last review was resolved");
        test.check();
    });
}

#[test]
fn reviews_are_decided_in_every_way_and_against_the_project_as_it_is() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    for (agent, choice, expected) in [
        ("ours", Resolution::Ours, "one\nOURS\nthree\nfour\n"),
        ("theirs", Resolution::Theirs, "one\nTHEIRS\nthree\nFOUR\n"),
        ("base", Resolution::Base, "one\ntwo\nthree\nFOUR\n"),
        (
            "union",
            Resolution::Union,
            "one\nOURS\nTHEIRS\nthree\nFOUR\n",
        ),
        (
            "content",
            Resolution::Content(Content::Bytes(b"mine\n")),
            "mine\n",
        ),
    ] {
        let name = format!("{agent}.txt");
        test.put(&project, &name, "one\ntwo\nthree\nfour\n");
        let (id, path) = test.fork(&project, agent);
        fs::write(path.join(&name), "one\nTHEIRS\nthree\nFOUR\n").unwrap();
        test.put(&project, &name, "one\nOURS\nthree\nfour\n");
        let done = complete(&test, &id);
        let review = done.conflicts[0].review_id.clone().unwrap();
        assert_eq!(done.conflicts[0].parts, ["line 2"]);
        test.engine
            .merges
            .resolve(&review, choice, &user())
            .unwrap();
        assert_eq!(test.project_text(&project, &name), expected, "{agent}");
    }
    // The project changes while a review waits, and the decision fits its current content.
    test.put(&project, "late.txt", "one\ntwo\nthree\nfour\nfive\nsix\n");
    let (id, path) = test.fork(&project, "late");
    fs::write(
        path.join("late.txt"),
        "one\nTHEIRS\nthree\nfour\nfive\nsix\n",
    )
    .unwrap();
    test.put(&project, "late.txt", "one\nOURS\nthree\nfour\nfive\nsix\n");
    let review = complete(&test, &id).conflicts[0].review_id.clone().unwrap();
    test.put(&project, "late.txt", "one\nOURS\nthree\nfour\nfive\nSIX\n");
    assert!(test.engine.merges.review(&review).unwrap().changed_since);
    let resolved = test
        .engine
        .merges
        .resolve(&review, Resolution::Theirs, &user())
        .unwrap();
    assert!(resolved.recomputed);
    assert_eq!(
        test.project_text(&project, "late.txt"),
        "one\nTHEIRS\nthree\nfour\nfive\nSIX\n"
    );
    let missing = test.engine.merges.review("nothing").unwrap_err();
    assert_eq!(missing.code(), ErrorCode::ReviewNotFound);
    test.check();
}

#[test]
fn policies_decide_the_conflicting_part_alone_and_keep_what_lost() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    set_merge_settings(
        &test,
        &project,
        Landing::Partial,
        &[
            ("*.lww", Policy::LastWriterWins),
            ("*.ours", Policy::Ours),
            ("*.theirs", Policy::Theirs),
            ("*.union", Policy::Union),
            ("*.prio", Policy::Priority),
        ],
    );
    let kinds = ["lww", "ours", "theirs", "union", "prio", "tie"];
    for kind in kinds {
        let name = if kind == "tie" {
            "tie.prio".to_owned()
        } else {
            format!("f.{kind}")
        };
        test.put(&project, &name, "a\nb\nc\nd\ne\n");
    }
    let fork = |agent: &str, priority: i64| {
        let options = ForkOptions {
            agent: Some(agent.parse().unwrap()),
            priority: Some(priority),
            ..ForkOptions::default()
        };
        let (fork, path) = test
            .engine
            .forks
            .fork_out(&project, &options, &user())
            .unwrap();
        (fork.workspace.id, path)
    };
    let (low, low_path) = fork("low", 1);
    let (high, high_path) = fork("high", 5);
    let (even, even_path) = fork("even", 5);
    for name in [
        "f.lww", "f.ours", "f.theirs", "f.union", "f.prio", "tie.prio",
    ] {
        fs::write(low_path.join(name), "a\nLOW\nc\nd\ne\n").unwrap();
        if name != "tie.prio" {
            fs::write(high_path.join(name), "a\nHIGH\nc\nd\nE\n").unwrap();
        }
    }
    fs::write(even_path.join("f.prio"), "a\nEVEN\nc\nd\ne\n").unwrap();
    complete(&test, &low);
    let done = complete(&test, &high);
    assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
    for (name, expected) in [
        ("f.lww", "a\nHIGH\nc\nd\nE\n"),
        ("f.ours", "a\nLOW\nc\nd\nE\n"),
        ("f.theirs", "a\nHIGH\nc\nd\nE\n"),
        ("f.union", "a\nLOW\nHIGH\nc\nd\nE\n"),
        ("f.prio", "a\nHIGH\nc\nd\nE\n"),
    ] {
        assert_eq!(test.project_text(&project, name), expected, "{name}");
    }
    let lost = done
        .decided
        .iter()
        .find(|one| one.path == p("f.lww"))
        .unwrap();
    assert_eq!(
        (lost.winner.as_str(), lost.policy),
        ("theirs", Policy::LastWriterWins)
    );
    assert_eq!(lost.lost_by.as_deref(), Some("low"));
    // A tie has to be decided by a person.
    let tie = complete(&test, &even);
    assert_eq!(tie.conflicts.len(), 1);
    // One call brings back what lost.
    let merge = done.merge_id.unwrap();
    test.engine
        .merges
        .take_lost(&merge, &p("f.lww"), &user())
        .unwrap();
    assert_eq!(test.project_text(&project, "f.lww"), "a\nLOW\nc\nd\ne\n");
    test.check();
}

#[test]
fn an_atomic_project_lands_nothing_until_all_is_decided() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    set_merge_settings(&test, &project, Landing::Atomic, &[]);
    let (id, path) = test.fork(&project, "one");
    fs::write(path.join("README"), "mine\n").unwrap();
    fs::write(path.join("docs/a/b"), "mine\n").unwrap();
    fs::write(path.join("free"), "free\n").unwrap();
    test.put(&project, "README", "other\n");
    test.put(&project, "docs/a/b", "other\n");
    let done = complete(&test, &id);
    assert_eq!((done.snapshot, done.conflicts.len()), (None, 2));
    assert_eq!((&*done.merged, &*done.waiting), (&[][..], &[p("free")][..]));
    let names = |test: &TestEngine| -> Vec<String> {
        let all = test
            .engine
            .projects
            .project_entries(&project, None, &RelPath::root(), false)
            .unwrap();
        all.iter().map(|one| one.path.to_text()).collect()
    };
    assert!(!names(&test).contains(&"free".to_owned()));
    let ids: Vec<String> = done
        .conflicts
        .iter()
        .map(|one| one.review_id.clone().unwrap())
        .collect();
    let first = test
        .engine
        .merges
        .resolve(&ids[0], Resolution::Theirs, &user())
        .unwrap();
    assert_eq!(
        (first.review.state, first.snapshot.is_none()),
        ("decided", true)
    );
    assert!(!names(&test).contains(&"free".to_owned()));
    let last = test
        .engine
        .merges
        .resolve(&ids[1], Resolution::Ours, &user())
        .unwrap();
    assert!(last.snapshot.is_some());
    assert!(names(&test).contains(&"free".to_owned()));
    let receipt = test.engine.merges.receipt(done.merge_id.as_ref().unwrap());
    let receipt = receipt.unwrap();
    let expected = [p("README"), p("free")];
    assert_eq!(receipt.completed.merged, expected, "as it landed");
    assert!(receipt.completed.waiting.is_empty());
    let texts = [
        test.project_text(&project, "README"),
        test.project_text(&project, "docs/a/b"),
    ];
    let mut sorted = texts.clone();
    sorted.sort();
    assert_eq!(sorted, ["mine\n", "other\n"]);
    let merge = test.engine.merges.receipt(&done.merge_id.unwrap()).unwrap();
    assert_eq!(merge.completed.snapshot, last.snapshot.map(|one| one.id));
    test.check();
}

#[test]
fn a_kept_workspace_moves_onto_the_merged_head_again_and_again() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        let keep = CompleteOptions {
            keep: true,
            ..CompleteOptions::default()
        };
        for round in 0..3 {
            fs::write(path.join(format!("mine{round}")), "mine\n").unwrap();
            test.put(&project, &format!("theirs{round}"), "theirs\n");
            let done = test.engine.merges.complete(&id, &keep, &user()).unwrap();
            assert_eq!(paths(&done.merged), [format!("mine{round}")]);
            assert!(path.join(format!("theirs{round}")).exists());
            assert!(test.changes(&id).is_empty());
            let again = test.engine.merges.complete(&id, &keep, &user()).unwrap();
            assert_eq!(
                again.merged,
                Vec::<RelPath>::new(),
                "nothing is left to merge"
            );
        }
        // In a conflict the fork gets the project's side, and its own waits in the review.
        fs::write(path.join("README"), "mine\n").unwrap();
        test.put(&project, "README", "theirs\n");
        let done = test.engine.merges.complete(&id, &keep, &user()).unwrap();
        assert_eq!(done.conflicts.len(), 1);
        assert_eq!(fs::read(path.join("README")).unwrap(), b"theirs\n");
        let review = done.conflicts[0].review_id.clone().unwrap();
        test.engine
            .merges
            .resolve(&review, Resolution::Theirs, &user())
            .unwrap();
        assert_eq!(test.project_text(&project, "README"), "mine\n");
        test.check();
    });
}

#[test]
fn undoing_a_merge_is_a_new_snapshot_that_spares_later_work() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (one, path) = test.fork(&project, "one");
    fs::write(path.join("README"), "one\n").unwrap();
    fs::write(path.join("added"), "one\n").unwrap();
    fs::remove_file(path.join("docs/a/b")).unwrap();
    let done = complete(&test, &one);
    test.put(&project, "later", "later\n");
    let merge = done.merge_id.unwrap();
    test.engine.merges.undo_merge(&merge, &user()).unwrap();
    assert_eq!(test.project_text(&project, "README"), "read me\n");
    assert_eq!(test.project_text(&project, "docs/a/b"), "deep\n");
    assert_eq!(test.project_text(&project, "later"), "later\n");
    let gone = test
        .engine
        .projects
        .open_project_file(&project, None, &p("added"));
    assert_eq!(gone.err().unwrap().code(), ErrorCode::FileNotFound);
    let again = test.engine.merges.undo_merge(&merge, &user()).unwrap_err();
    assert_eq!(again.code(), ErrorCode::AlreadyExists);
    let log = test.engine.merges.list_merges(&project, None, 0).unwrap();
    assert!(log[0].undone_by.is_some());
    // If later changes build on those of the merge, nothing is undone.
    let (two, path) = test.fork(&project, "two");
    fs::write(path.join("README"), "two\n").unwrap();
    let done = complete(&test, &two);
    test.put(&project, "README", "on top of two\n");
    let refused = test
        .engine
        .merges
        .undo_merge(&done.merge_id.unwrap(), &user())
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::MergeConflict);
    assert_eq!(test.project_text(&project, "README"), "on top of two\n");
    test.check();
}

#[test]
fn touched_but_equal_files_do_not_undo_what_others_did() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        fs::set_permissions(path.join("README"), PermissionsExt::from_mode(0o600)).unwrap();
        fs::set_permissions(path.join("README"), PermissionsExt::from_mode(0o644)).unwrap();
        fs::write(path.join("new"), "new\n").unwrap();
        test.put(&project, "README", "newer\n");
        test.engine.merges.update(&id, false, &user()).unwrap();
        let done = complete(&test, &id);
        assert_eq!(paths(&done.merged), ["new"]);
        assert_eq!(test.project_text(&project, "README"), "newer\n");
        test.check();
    });
}

#[test]
fn what_was_asked_for_is_done_by_whoever_comes_next() {
    let mut test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (one, path) = test.fork(&project, "one");
    fs::write(path.join("one"), "one\n").unwrap();
    // A process was killed right after it requested the merge.
    leave_completion(&test, &one);
    test.reopen();
    assert_eq!(test.engine.merges.run_waiting_completions().unwrap(), 0);
    assert_eq!(test.project_text(&project, "one"), "one\n");
    test.check();
}

/// Requests a merge without doing it, as a process that is killed at that moment does.
fn leave_completion(test: &TestEngine, id: &WorkspaceId) {
    use offshoot_store::{CompletionRow, Durability, MetaStore, SqliteOptions, SqliteStore};
    let database = test.host.path().join("data/offshoot.db");
    let store = SqliteStore::open(&database, SqliteOptions::default()).unwrap();
    store
        .write(Durability::Synced, &mut |tx| {
            let row = tx.workspace(id)?.unwrap();
            let fork = tx.fork(row.key)?.unwrap();
            tx.put_completion(&CompletionRow {
                id: "left".to_owned(),
                project: fork.project,
                workspace: row.key,
                options: r#"{"version":2,"policy":null,"atomic":null,"keep":false,"include_ignored":false,"label":null}"#
                    .to_owned(),
                cause: user(),
                at: offshoot_core::Timestamp::now(),
                landed: false,
            })
        })
        .unwrap();
}

#[test]
fn a_workspace_that_is_no_fork_cannot_be_completed() {
    let test = TestEngine::new(ProviderName::Copy);
    let id = test
        .engine
        .workspaces
        .create_workspace(
            None,
            offshoot_core::Layout::Plain,
            Default::default(),
            &user(),
        )
        .unwrap()
        .id;
    let refused = test
        .engine
        .merges
        .complete(&id, &CompleteOptions::default(), &user());
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidRequest);
    let unknown = "nobody".parse().unwrap();
    let refused = test
        .engine
        .merges
        .complete(&unknown, &CompleteOptions::default(), &user());
    assert_eq!(refused.unwrap_err().code(), ErrorCode::WorkspaceNotFound);
}
