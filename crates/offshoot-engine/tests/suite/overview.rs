//! Forks compared: what each changed, how far it is behind, and where they overlap; and the files
//! of a project by page.

use std::fs;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::RelPath;
use offshoot_engine::{CompleteOptions, ForkOptions, ForkOverview};
use offshoot_fs::ProviderName;

fn overview(test: &TestEngine) -> Vec<ForkOverview> {
    test.engine.merges.overview(None, true).unwrap()
}

/// The other forks and the paths that `one` shares with each.
fn overlap(one: &ForkOverview) -> Vec<(String, Vec<RelPath>)> {
    let overlap = one.overlap.iter();
    overlap
        .map(|other| (other.fork.to_string(), other.paths.clone()))
        .collect()
}

#[test]
fn an_overview_shows_changes_and_which_forks_changed_the_same_paths() {
    with_each(|test| {
        let web = test.project("web");
        let (_, one) = test.fork(&web, "one");
        let (_, two) = test.fork(&web, "two");
        test.fork(&web, "three");
        fs::write(one.join("README"), "one\n").unwrap();
        fs::write(one.join("notes"), "a file\n").unwrap();
        fs::write(one.join("debug.log"), "ignored\n").unwrap();
        fs::write(two.join("README"), "two\n").unwrap();
        fs::create_dir_all(two.join("notes/deep")).unwrap();
        fs::write(two.join("notes/deep/a"), "below a directory\n").unwrap();
        // A name that is between `notes` and its entries in the order of paths.
        fs::write(two.join("notes-2"), "beside\n").unwrap();
        test.put(&web, "docs/a/b", "later\n");
        test.put(&web, "README", "the project's\n");

        // Another project does not count.
        let other = test.project("other");
        let (_, path) = test.fork(&other, "four");
        fs::write(path.join("README"), "four\n").unwrap();

        let all = overview(&test);
        let ids: Vec<&str> = all.iter().map(|one| one.workspace.id.as_str()).collect();
        assert_eq!(ids, ["four", "one", "three", "two"]);
        let [four, one, three, two] = &all[..] else {
            panic!("four forks");
        };
        assert_eq!((one.project.as_str(), one.behind), ("web", 2));
        assert_eq!(one.agent.as_ref().unwrap().as_str(), "one");
        assert_eq!(one.provider, Some(test.provider));
        assert_eq!(one.changed, 2, "an ignored file is none of its changes");
        assert_eq!(one.overlap_with_project, [p("README")]);
        let shared = vec![p("README"), p("notes")];
        assert_eq!(overlap(one), [("two".to_owned(), shared)]);
        let shared = vec![p("README"), p("notes/deep/a")];
        assert_eq!(overlap(two), [("one".to_owned(), shared)]);
        assert_eq!(
            (three.changed, three.overlap.len(), three.behind),
            (0, 0, 2)
        );
        assert_eq!((four.changed, four.overlap.len(), four.behind), (1, 0, 0));
        assert_eq!(one.last_operation.as_ref().unwrap().line.path, p("notes"));

        let of_web = test.engine.merges.overview(Some(&web), false).unwrap();
        assert_eq!(of_web.len(), 3);
    });
}

#[test]
fn an_overview_counts_open_reviews_and_looks_only_when_told_to() {
    with_each(|test| {
        let web = test.project("web");
        let (one, path) = test.fork(&web, "one");
        fs::write(path.join("README"), "one\n").unwrap();
        let recorded = test.engine.merges.overview(Some(&web), false).unwrap();
        assert_eq!(recorded[0].changed, 0);
        test.put(&web, "README", "the project's\n");
        let options = CompleteOptions::default();
        let completed = test
            .engine
            .merges
            .complete(&one, &options, &user())
            .unwrap();
        assert_eq!(completed.conflicts.len(), 1);
        let all = overview(&test);
        assert_eq!((all[0].open_reviews, all[0].changed), (1, 1));
    });
}

#[test]
fn the_overview_of_no_project_says_so() {
    with_each(|test| {
        let error = test
            .engine
            .merges
            .overview(Some(&"nothing".parse().unwrap()), true)
            .unwrap_err();
        assert_eq!(error.code().as_str(), "project_not_found");
        let web = test.project("web");
        test.engine
            .forks
            .fork(&web, &ForkOptions::default(), &user())
            .unwrap();
        assert_eq!(overview(&test)[0].changed, 0);
    });
}

#[test]
fn of_many_paths_that_two_forks_share_the_first_are_named_and_the_others_counted() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let web = test.project("web");
    let (one_id, one) = test.fork(&web, "one");
    let (_, two) = test.fork(&web, "two");
    for number in 0..25 {
        for place in [&one, &two] {
            fs::write(place.join(format!("f{number:02}")), "new\n").unwrap();
        }
    }
    // A file on one side, a directory on the other.
    fs::write(one.join("z"), "file\n").unwrap();
    fs::create_dir(two.join("z")).unwrap();
    for name in ["a", "b"] {
        fs::write(two.join("z").join(name), "below\n").unwrap();
    }
    let all = overview(&test);
    let named: Vec<RelPath> = (0..20).map(|n| p(&format!("f{n:02}"))).collect();
    assert_eq!(
        (&all[0].overlap[0].paths, all[0].overlap[0].more),
        (&named, 6)
    );
    assert_eq!(
        (&all[1].overlap[0].paths, all[1].overlap[0].more),
        (&named, 7)
    );

    // For one fork, the others are reported as they are recorded.
    fs::write(two.join("unseen"), "new\n").unwrap();
    fs::write(one.join("unseen"), "new\n").unwrap();
    let beside = test.engine.merges.overview_beside(&one_id).unwrap();
    let changed: Vec<usize> = beside.iter().map(|fork| fork.changed).collect();
    assert_eq!(changed, [all[0].changed + 1, all[1].changed]);
}

/// The pages of a project's files together are all of them, in the order of a walk.
#[test]
fn the_files_of_a_project_are_walked_by_page() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("web");
    for path in ["a/z", "a-b", "a/b/c", "z", "b/1", "b/2", "b/3"] {
        test.put(&project, path, "x\n");
    }
    let (fork, _) = test.fork(&project, "ada");
    let walked = test
        .engine
        .workspaces
        .walk_files(&fork, None, 100, &|_| true)
        .unwrap();
    let walked: Vec<_> = walked.into_iter().map(|file| file.path).collect();
    for limit in [1, 2, 3, 100] {
        let mut all = Vec::new();
        loop {
            let page = test
                .engine
                .workspaces
                .walk_project_files(&project, all.last(), limit, &|_| true)
                .unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            all.extend(page);
        }
        assert_eq!(all, walked, "{limit}");
    }
    let only_b = |path: &RelPath| path.to_text().starts_with("b/");
    let some = test
        .engine
        .workspaces
        .walk_project_files(&project, None, 2, &only_b);
    assert_eq!(some.unwrap(), [p("b/1"), p("b/2")]);
}

#[test]
fn paths_that_the_project_changed_too_are_named_up_to_a_number_and_counted() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let web = test.project("web");
    let (_, one) = test.fork(&web, "one");
    for number in 0..25 {
        fs::write(one.join(format!("f{number:02}")), "one\n").unwrap();
        test.put(&web, &format!("f{number:02}"), "the project's\n");
    }
    let all = overview(&test);
    assert_eq!(all[0].overlap_with_project.len(), 20);
    assert_eq!(all[0].overlap_with_project[19], p("f19"));
    assert_eq!(all[0].overlap_with_project_more, 5);
}
