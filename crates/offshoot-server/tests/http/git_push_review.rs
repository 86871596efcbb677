//! Pushes of stock git that do not come after the head: with `-o review` they are merged, and nothing
//! is taken back.

use offshoot_testkit::git;

use crate::git::{errors, try_git};
use crate::git_push::{Pushed, commit, refused};

#[test]
fn a_forced_push_for_review_is_merged_and_takes_nothing_back() {
    let test = Pushed::new();
    let (mine, theirs) = (test.admin("mine"), test.admin("theirs"));
    let landed = commit(&theirs, &[("theirs.txt", "theirs\n")]);
    git(&theirs, &["push", "-q"]);
    let tip = commit(&mine, &[("mine.txt", "mine\n")]);
    // git stops it by itself, and we do if it is forced.
    assert!(refused(&mine, &["-o", "review"]).contains("fetch first"));
    let said = refused(&mine, &["--force"]);
    for part in ["not a fast-forward", "git push --force -o review"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!((test.head(), test.forks()), (landed.clone(), 0));
    let pushed = try_git(&mine, &["push", "--force", "-o", "review"]);
    assert!(pushed.status.success(), "{}", errors(&pushed));
    assert!(errors(&pushed).contains("remote: merged as"));
    let again = test.checked();
    for commit in [&tip, &landed] {
        git(&again, &["merge-base", "--is-ancestor", commit, "HEAD"]);
    }
    assert!(again.join("mine.txt").exists() && again.join("theirs.txt").exists());
    assert_eq!(test.forks(), 0);
}

#[test]
fn conflicts_of_a_forced_push_wait_for_a_review() {
    let test = Pushed::new();
    let (mine, theirs) = (test.admin("mine"), test.admin("theirs"));
    let landed = commit(&theirs, &[("main.txt", "theirs\n"), ("kept.txt", "kept\n")]);
    git(&theirs, &["push", "-q"]);
    let tip = commit(&mine, &[("main.txt", "mine\n"), ("fits.txt", "fits\n")]);
    for _ in 0..2 {
        // Once more is the same push.
        let said = refused(&mine, &["--force", "-o", "review"]);
        assert!(said.contains("1 path waits for review"), "{said}");
        assert_eq!((test.head(), test.forks()), (landed.clone(), 1));
    }
    let client = test.running.client();
    let open = client.get("/api/v1/projects/p/reviews").json();
    assert_eq!(open["reviews"].as_array().unwrap().len(), 1);
    let id = open["reviews"][0]["id"].as_str().unwrap();
    let resolve = format!("/api/v1/reviews/{id}/resolve");
    client.done(&resolve, r#"{"choice":"theirs"}"#);
    let again = test.checked();
    let read = |name: &str| std::fs::read_to_string(again.join(name)).unwrap();
    assert_eq!(
        (read("main.txt"), read("kept.txt")),
        ("mine\n".into(), "kept\n".into())
    );
    assert_eq!(read("fits.txt"), "fits\n");
    git(&again, &["merge-base", "--is-ancestor", &tip, "HEAD"]);
    git(&again, &["merge-base", "--is-ancestor", &landed, "HEAD"]);
    assert_eq!(test.forks(), 0);
}

#[test]
fn a_forced_push_for_review_without_anything_to_merge_is_refused() {
    let test = Pushed::new();
    let clone = test.admin("clone");
    let head = test.head();
    // Back to an older commit: there is nothing new in it.
    git(&clone, &["reset", "-q", "--hard", "HEAD~1"]);
    let said = refused(&clone, &["--force", "-o", "review"]);
    assert!(said.contains("not a fast-forward"), "{said}");
    // A history that has nothing in common.
    git(&clone, &["checkout", "-q", "--orphan", "new"]);
    commit(&clone, &[("c.txt", "c\n")]);
    let said = refused(&clone, &["--force", "-o", "review", "origin", "new:main"]);
    assert!(said.contains("not a fast-forward"), "{said}");
    assert_eq!((test.head(), test.forks()), (head, 0));
}
