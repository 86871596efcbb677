//! One side has a file where the other side has a directory.

use std::fs;

use crate::fixture::{user, with_each};
use offshoot_engine::{CompleteOptions, Policy};
use offshoot_testkit::{Node, NodePath};

fn with(policy: Policy) -> CompleteOptions {
    CompleteOptions {
        policy: Some(policy),
        ..CompleteOptions::default()
    }
}

#[test]
fn a_file_that_makes_way_for_a_directory_is_told_with_its_content() {
    with_each(|test| {
        let project = test.project("web");
        let ((one, file), (two, dir)) = (test.fork(&project, "one"), test.fork(&project, "two"));
        fs::remove_dir_all(file.join("docs")).unwrap();
        fs::write(file.join("docs"), "of one\n").unwrap();
        fs::write(dir.join("docs/a/b"), "of two\n").unwrap();
        test.engine
            .merges
            .complete(&one, &CompleteOptions::default(), &user())
            .unwrap();
        assert_eq!(test.project_text(&project, "docs"), "of one\n");
        let done = test
            .engine
            .merges
            .complete(&two, &with(Policy::Theirs), &user())
            .unwrap();
        assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
        assert_eq!(test.project_text(&project, "docs/a/b"), "of two\n");
        let lost: Vec<_> = done
            .decided
            .iter()
            .filter_map(|one| Some((one.path.to_text(), one.lost_by.clone()?, one.lost?)))
            .collect();
        let [(path, by, content)] = &lost[..] else {
            panic!("{:?}", done.decided);
        };
        assert_eq!((path.as_str(), by.as_str()), ("docs", "one"));
        assert_eq!(
            test.engine.workspaces.content_of(content).unwrap(),
            b"of one\n"
        );
        test.check();
    });
}

#[test]
fn every_file_that_makes_way_for_a_file_is_told_where_it_stood() {
    with_each(|test| {
        let project = test.project("web");
        let ((one, dir), (two, file)) = (test.fork(&project, "one"), test.fork(&project, "two"));
        fs::write(dir.join("docs/a/b"), "changed\n").unwrap();
        fs::write(dir.join("docs/a/c"), "new\n").unwrap();
        fs::remove_dir_all(file.join("docs")).unwrap();
        fs::write(file.join("docs"), "of two\n").unwrap();
        test.engine
            .merges
            .complete(&one, &CompleteOptions::default(), &user())
            .unwrap();
        let done = test
            .engine
            .merges
            .complete(&two, &with(Policy::Theirs), &user())
            .unwrap();
        assert_eq!(test.project_text(&project, "docs"), "of two\n");
        let mut lost: Vec<_> = done
            .decided
            .iter()
            .filter_map(|one| {
                let content = test.engine.workspaces.content_of(&one.lost?).unwrap();
                Some((one.path.to_text(), String::from_utf8(content).unwrap()))
            })
            .collect();
        lost.sort();
        let expected = [("docs/a/b", "changed\n"), ("docs/a/c", "new\n")];
        assert_eq!(
            lost,
            expected.map(|(at, text)| (at.to_owned(), text.to_owned()))
        );
        test.check();
    });
}

#[test]
fn an_empty_directory_where_the_project_has_a_file_is_named() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        fs::create_dir_all(path.join("new/inner")).unwrap();
        fs::create_dir_all(path.join("both/sub")).unwrap();
        fs::create_dir(path.join("fits")).unwrap();
        fs::remove_file(path.join("README")).unwrap();
        fs::create_dir(path.join("README")).unwrap();
        test.put(&project, "new", "a file\n");
        test.put(&project, "both/sub", "another\n");
        let options = CompleteOptions {
            keep: true,
            ..CompleteOptions::default()
        };
        let plan = test
            .engine
            .merges
            .plan_completion(&id, &options, &user())
            .unwrap();
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
        assert_eq!(plan.left_out, done.left_out);
        let named: Vec<_> = done.left_out.iter().map(|one| one.path.to_text()).collect();
        assert_eq!(named, ["both/sub", "new"]);
        assert!(done.left_out.iter().all(|one| !one.reason.is_empty()));
        assert_eq!(test.project_text(&project, "new"), "a file\n");
        // Changes without conflict are merged, also in the place of a file.
        let image = test.project_image(&project, None);
        for dir in ["fits", "README"] {
            let node = image.get(&NodePath(dir.into()));
            assert!(matches!(node, Some(Node::Dir(_))), "{dir}: {node:?}");
        }
        test.check();
    });
}
