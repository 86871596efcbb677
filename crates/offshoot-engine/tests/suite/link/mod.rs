//! Projects that are linked to a repository, with git as the oracle: commits come in and go out,
//! and neither side loses anything.

mod hostile;
mod included;
mod races;
mod repository;

use std::fs;

use offshoot_core::ErrorCode;
use offshoot_engine::{Landing, MergeSettings, Policy, PullOptions, PullWay, Resolution};

use crate::fixture::{p, user};
use repository::{LINES, Linked};

#[test]
fn commits_become_snapshots_as_they_are_while_only_the_repository_moves() {
    let linked = Linked::new();
    assert_eq!(linked.head(), linked.at("HEAD"));
    let one = linked.commit(&[("README", "hello again\n")]);
    let two = linked.commit(&[("new/file", "new\n"), ("README", "third\n")]);
    let plan = linked
        .try_pull(&PullOptions {
            dry_run: true,
            ..PullOptions::default()
        })
        .unwrap();
    assert_eq!((plan.way, plan.commits), (PullWay::FastForward, 2));
    assert_eq!(plan.changed, [p("README"), p("new/file")]);
    assert_ne!(linked.head(), two);

    let pulled = linked.pull();
    assert_eq!((pulled.way, pulled.commits), (PullWay::FastForward, 2));
    assert_eq!((pulled.snapshot, pulled.rewritten), (Some(two), false));
    assert_eq!(pulled.changed, plan.changed);
    assert_eq!((linked.head(), linked.taken()), (two, two));
    let projects = &linked.test.engine.projects;
    let log = projects.project_snapshots(&linked.app, None, 3).unwrap();
    let ids: Vec<_> = log.iter().map(|one| one.id).collect();
    assert_eq!(ids, [two, one, linked.at("HEAD~2")]);
    let by = log[0].cause.claim.as_deref();
    assert_eq!(by, Some("Test Person"));
    assert_eq!(linked.text("README"), "third\n");
    let project = projects.project(&linked.app).unwrap();
    let listed = linked.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(project.files as usize, listed.lines().count());
    let (_, fork) = linked.test.fork(&linked.app, "ada");
    assert_eq!(fs::read_to_string(fork.join("new/file")).unwrap(), "new\n");

    let again = linked.pull();
    assert_eq!((again.way, again.commits), (PullWay::Nothing, 0));
    linked.check();
}

#[test]
fn what_both_did_is_merged_and_goes_back_without_touching_the_work_tree() {
    let linked = Linked::new();
    linked.agent("ada", &[("lines", &LINES.replace("two", "TWO"))]);
    let ours = linked.head();
    let tip = linked.commit(&[("lines", &LINES.replace("six", "SIX"))]);
    let pulled = linked.pull();
    assert_eq!((pulled.way, pulled.commits), (PullWay::Merge, 1));
    assert_eq!(pulled.changed, [p("lines")]);
    let both = LINES.replace("two", "TWO").replace("six", "SIX");
    assert_eq!(linked.text("lines"), both);
    assert_eq!(linked.taken(), tip);
    assert_eq!(linked.pull().way, PullWay::Nothing);

    fs::write(linked.repo.join("README"), "not committed\n").unwrap();
    fs::write(linked.repo.join("staged"), "staged\n").unwrap();
    linked.git(&["add", "staged"]);
    let before = linked.untouched();
    let pushed = linked.push(None).unwrap();
    assert_eq!(linked.untouched(), before);
    assert_eq!(pushed.branch, "offshoot/main");
    assert_eq!(pushed.before, None);
    assert_eq!(linked.at("offshoot/main"), linked.head());
    let parents = linked.git(&["log", "-1", "--format=%P", "offshoot/main"]);
    assert_eq!(parents, format!("{ours} {tip}"));
    let new = linked.git(&["rev-list", "--count", "main..offshoot/main"]);
    assert_eq!(pushed.commits.to_string(), new);
    let text = linked.git(&["show", "offshoot/main:lines"]);
    assert_eq!(format!("{text}\n"), both);
    let again = linked.push(None).unwrap();
    assert_eq!((again.commits, again.objects), (0, 0));

    // The person takes it over, and there is nothing to bring back.
    linked.git(&["stash", "-q"]);
    linked.git(&["merge", "-q", "--ff-only", "offshoot/main"]);
    assert_eq!(linked.pull().way, PullWay::Nothing);
    assert_eq!(linked.taken(), linked.head());
    linked.check();
}

/// The base of a merge is what came in before, not what the project began with: lines that were
/// merged once are not asked about again.
#[test]
fn each_pull_begins_where_the_last_one_ended() {
    let linked = Linked::new();
    for round in 0..4 {
        linked.agent("ada", &[("agent", &format!("round {round}\n"))]);
        linked.commit(&[("README", &format!("round {round}\n")), ("x/y", "y\n")]);
        let pulled = linked.pull();
        assert_eq!((pulled.way, pulled.commits), (PullWay::Merge, 1), "{round}");
        assert_eq!(pulled.conflicts, [], "{round}");
        assert_eq!(linked.text("README"), format!("round {round}\n"));
        assert_eq!(linked.text("agent"), format!("round {round}\n"));
    }
    let forks = linked.test.engine.forks.list_forks(&linked.app).unwrap();
    assert!(forks.is_empty(), "workspaces of pulls go: {forks:?}");
    linked.check();
}

/// The person merged what agents did, and went on; an agent went on from the same place. Only the
/// commit that both have last tells what each changed since.
#[test]
fn what_the_person_merged_with_git_is_no_change_of_the_person() {
    let linked = Linked::new();
    linked.agent("ada", &[("lines", &LINES.replace("two", "TWO"))]);
    linked.push(None).unwrap();
    linked.commit(&[("README", "mine\n")]);
    linked.git(&["merge", "-q", "--no-edit", "offshoot/main"]);
    linked.agent("bob", &[("lines", &LINES.replace("two", "2"))]);
    let pulled = linked.pull();
    assert_eq!(pulled.way, PullWay::Merge);
    assert_eq!(pulled.conflicts, []);
    assert_eq!(linked.text("lines"), LINES.replace("two", "2"));
    assert_eq!(linked.text("README"), "mine\n");

    // Without new work of agents, a merge of the person is taken as it is.
    linked.push(None).unwrap();
    linked.commit(&[("README", "mine again\n")]);
    linked.git(&["merge", "-q", "--no-edit", "offshoot/main"]);
    let before = linked.head();
    assert_eq!(linked.pull().way, PullWay::FastForward);
    assert_eq!(linked.head(), linked.at("HEAD"));
    let log = linked
        .test
        .engine
        .projects
        .project_snapshots(&linked.app, None, 2);
    assert_eq!(
        log.unwrap()[1].id,
        before,
        "the history of the project is one line"
    );
    linked.agent("eve", &[("agent", "goes on\n")]);
    assert_eq!(linked.text("README"), "mine again\n");
    linked.check();
}

#[test]
fn a_conflict_waits_and_lands_with_both_histories_when_it_is_decided() {
    for landing in [Landing::Atomic, Landing::Partial] {
        let linked = Linked::new();
        set_landing(&linked, landing);
        linked.agent("ada", &[("lines", &LINES.replace("two", "TWO"))]);
        let ours = linked.head();
        let first = linked.at("HEAD");
        let tip = linked.commit(&[
            ("lines", &LINES.replace("two", "2")),
            ("README", "changed\n"),
        ]);
        let plan = linked
            .try_pull(&PullOptions {
                dry_run: true,
                ..PullOptions::default()
            })
            .unwrap();
        assert_eq!(plan.conflicts.len(), 1);
        let pulled = linked.pull();
        assert_eq!(pulled.conflicts.len(), 1, "{landing:?}");
        assert_eq!(linked.text("lines"), LINES.replace("two", "TWO"));
        let atomic = landing == Landing::Atomic;
        assert_eq!(pulled.snapshot.is_none(), atomic);
        assert_eq!(linked.taken(), if atomic { first } else { tip });
        // Asking again asks nothing new.
        let again = linked.pull();
        assert_eq!(again.conflicts, pulled.conflicts, "{landing:?}");
        assert_eq!(
            linked.test.engine.merges.reviews(None, true).unwrap().len(),
            1
        );

        // More commits join the ones that wait.
        let later = linked.commit(&[("later", "later\n")]);
        let more = linked.pull();
        assert_eq!(more.conflicts.len(), 1, "{landing:?}");
        assert_eq!(
            linked.test.engine.merges.reviews(None, true).unwrap().len(),
            1
        );
        let review = more.conflicts[0].review_id.clone().unwrap();
        let merges = &linked.test.engine.merges;
        merges
            .resolve(&review, Resolution::Theirs, &user())
            .unwrap();
        assert_eq!(linked.text("lines"), LINES.replace("two", "2"));
        assert_eq!(linked.text("later"), "later\n");
        assert_eq!(
            (linked.taken(), linked.pull().way),
            (later, PullWay::Nothing)
        );
        linked.push(None).unwrap();
        for has in [ours, later] {
            linked.git(&[
                "merge-base",
                "--is-ancestor",
                &has.to_hex(),
                "offshoot/main",
            ]);
        }
        let forks = linked.test.engine.forks.list_forks(&linked.app).unwrap();
        assert!(forks.is_empty(), "{landing:?}: {forks:?}");
        linked.check();
    }
}

#[test]
fn a_policy_decides_and_undoing_takes_a_pull_back() {
    let linked = Linked::new();
    linked.agent("ada", &[("lines", &LINES.replace("two", "TWO"))]);
    linked.commit(&[("lines", &LINES.replace("two", "2"))]);
    let pulled = linked
        .try_pull(&PullOptions {
            policy: Some(Policy::Theirs),
            ..PullOptions::default()
        })
        .unwrap();
    assert_eq!(pulled.conflicts, []);
    assert_eq!(linked.text("lines"), LINES.replace("two", "2"));
    let merge = pulled.merge.unwrap().merge_id.unwrap();
    linked
        .test
        .engine
        .merges
        .undo_merge(&merge, &user())
        .unwrap();
    assert_eq!(linked.text("lines"), LINES.replace("two", "TWO"));
    // What was undone stays undone; later commits come in without it.
    assert_eq!(linked.pull().way, PullWay::Nothing);
    linked.commit(&[("README", "later\n")]);
    assert_eq!(linked.pull().conflicts, []);
    assert_eq!(linked.text("lines"), LINES.replace("two", "TWO"));
    assert_eq!(linked.text("README"), "later\n");
    linked.check();
}

#[test]
fn a_rewritten_branch_is_merged_against_what_was_taken() {
    let linked = Linked::new();
    linked.commit(&[("README", "wrong\n"), ("gone", "gone\n")]);
    linked.pull();
    linked.agent("ada", &[("agent", "work\n")]);
    linked.git(&["reset", "-q", "--hard", "HEAD~1"]);
    linked.commit(&[("README", "right\n")]);
    let pulled = linked.pull();
    assert_eq!((pulled.way, pulled.rewritten), (PullWay::Merge, true));
    assert_eq!(linked.text("README"), "right\n");
    assert_eq!(linked.text("agent"), "work\n");
    let files = linked.test.project_image(&linked.app, None);
    assert!(!files.keys().any(|path| path.0 == b"gone"), "{files:?}");
    assert_eq!(linked.taken(), linked.at("HEAD"));
    linked.push(None).unwrap();
    linked.check();
}

#[test]
fn a_branch_that_is_checked_out_or_that_moved_is_not_pushed_to() {
    let linked = Linked::new();
    linked.agent("ada", &[("agent", "work\n")]);
    let refused = linked.push(Some("main")).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::AlreadyExists);
    let hint = refused.hint().unwrap_or_default();
    assert!(hint.contains("git merge offshoot/main"), "{hint}");
    // In another work tree, too, and while a rebase holds it there.
    let other = linked.test.host.path().join("other");
    linked.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "side",
        other.to_str().unwrap(),
    ]);
    assert!(linked.push(Some("side")).is_err());
    linked.git(&["worktree", "remove", "--force", other.to_str().unwrap()]);
    linked.push(Some("side")).unwrap();
    assert_eq!(linked.at("side"), linked.head());
    let rebase = linked.repo.join(".git/rebase-merge");
    fs::create_dir(&rebase).unwrap();
    fs::write(rebase.join("head-name"), "refs/heads/held\n").unwrap();
    assert!(linked.push(Some("held")).is_err());
    fs::remove_dir_all(&rebase).unwrap();

    // A branch with a commit of its own.
    linked.git(&["checkout", "-q", "-b", "own"]);
    linked.commit(&[("own", "own\n")]);
    linked.git(&["checkout", "-q", "main"]);
    let before = linked.at("own");
    let refused = linked.push(Some("own")).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PreconditionFailed);
    assert_eq!(linked.at("own"), before);
    linked.check();
}

#[test]
fn the_followed_branch_can_be_pushed_to_and_has_nothing_new_then() {
    let linked = Linked::new();
    linked.git(&["checkout", "-q", "-b", "elsewhere"]);
    linked.agent("ada", &[("agent", "work\n")]);
    linked.push(Some("main")).unwrap();
    assert_eq!(
        (linked.at("main"), linked.taken()),
        (linked.head(), linked.head())
    );
    assert_eq!(linked.pull().way, PullWay::Nothing);

    linked.git(&["checkout", "-q", "main"]);
    let mine = linked.commit(&[("README", "mine\n")]);
    linked.git(&["checkout", "-q", "elsewhere"]);
    linked.agent("bob", &[("agent", "more\n")]);
    let refused = linked.push(Some("main")).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PreconditionFailed);
    assert!(refused.hint().unwrap_or_default().contains("pull first"));
    assert_eq!(linked.at("main"), mine);
    assert_eq!(linked.pull().way, PullWay::Merge);
    linked.push(Some("main")).unwrap();
    assert_eq!(linked.at("main"), linked.head());
    linked.check();
}

/// The paths that merges of agents may not change are the owner's, and so is the repository.
#[test]
fn a_pull_passes_protected_paths() {
    let linked = Linked::new();
    linked.agent("ada", &[("agent", "work\n")]);
    linked.commit(&[(".github/workflows/ci.yml", "on: push\n")]);
    let pulled = linked.pull();
    assert_eq!((pulled.way, pulled.conflicts), (PullWay::Merge, vec![]));
    assert_eq!(linked.text(".github/workflows/ci.yml"), "on: push\n");
    // An agent that wants the same is asked about, so the path is protected.
    let id = linked.work("bob", &[(".github/workflows/ci.yml", "on: [pull]\n")]);
    let done = (linked.test.engine.merges).complete(&id, &Default::default(), &user());
    assert_eq!(done.unwrap().conflicts.len(), 1);
}

/// What git cannot hold stays through a pull: the repository says nothing about it.
#[test]
fn empty_directories_and_permissions_survive_a_pull() {
    let linked = Linked::new();
    let (id, path) = linked.test.fork(&linked.app, "ada");
    fs::create_dir_all(path.join("empty/inner")).unwrap();
    fs::write(path.join("secret"), "secret\n").unwrap();
    crate::fixture::chmod(&path.join("secret"), 0o600);
    (linked.test.engine.merges)
        .complete(&id, &Default::default(), &user())
        .unwrap();
    linked.push(None).unwrap();
    linked.git(&["merge", "-q", "--ff-only", "offshoot/main"]);
    for round in ["one\n", "two\n"] {
        linked.commit(&[("secret", round), ("README", round)]);
        let pulled = linked.pull();
        assert_eq!(pulled.conflicts, []);
        let image = linked.test.project_image(&linked.app, None);
        let node = |name: &str| image.iter().find(|(path, _)| path.0 == name.as_bytes());
        let (_, secret) = node("secret").unwrap();
        let kept = offshoot_testkit::Node::File(0o600, round.as_bytes().to_vec());
        assert_eq!(*secret, kept);
        assert!(node("empty/inner").is_some());
        linked.check();
    }
}

#[test]
fn a_purge_of_what_both_have_ends_the_link() {
    let linked = Linked::new();
    linked.commit(&[("secret", "password\n")]);
    linked.pull();
    let content = linked.git(&["rev-parse", "HEAD:secret"]).parse().unwrap();
    linked
        .test
        .engine
        .upkeep
        .purge_content(content, &user())
        .unwrap();
    linked.commit(&[("README", "later\n")]);
    for refused in [
        linked.try_pull(&PullOptions::default()).unwrap_err(),
        linked.push(None).unwrap_err(),
    ] {
        assert_eq!(refused.code(), ErrorCode::InvalidRequest, "{refused}");
    }
    linked.test.check();
}

#[test]
fn a_project_follows_the_branch_that_it_was_told_to() {
    let linked = Linked::unlinked();
    linked.git(&["checkout", "-q", "-b", "next"]);
    let next = linked.commit(&[("next", "next\n")]);
    linked.git(&["checkout", "-q", "main"]);
    linked.link(Some("next"));
    assert_eq!(linked.head(), next);
    linked.commit(&[("README", "not followed\n")]);
    assert_eq!(linked.pull().way, PullWay::Nothing);
    linked.git(&["checkout", "-q", "next"]);
    let next = linked.commit(&[("next", "more\n")]);
    assert_eq!(
        (linked.pull().way, linked.head()),
        (PullWay::FastForward, next)
    );
    linked.git(&["checkout", "-q", "main"]);
    linked.git(&["branch", "-q", "-D", "next"]);
    let gone = linked.try_pull(&PullOptions::default()).unwrap_err();
    assert_eq!(gone.code(), ErrorCode::FileNotFound, "{gone}");
}

fn set_landing(linked: &Linked, landing: Landing) {
    let projects = &linked.test.engine.projects;
    let settings = MergeSettings {
        landing,
        ..projects.merge_settings(&linked.app).unwrap()
    };
    projects
        .set_merge_settings(&linked.app, &settings, &user())
        .unwrap();
}

/// A pull brings tags and other branches too, and forgets those that are gone.
#[test]
fn tags_and_other_branches_follow_the_repository() {
    let linked = Linked::unlinked();
    linked.git(&["tag", "-a", "v1", "-m", "one"]);
    linked.git(&["branch", "gone"]);
    linked.link(None);
    let projects = &linked.test.engine.projects;
    let counts = || {
        let counts = projects.ref_counts(&linked.app).unwrap();
        (counts.other_branches, counts.tags)
    };
    assert_eq!(counts(), (1, 1));
    linked.git(&["branch", "-D", "gone"]);
    linked.git(&["checkout", "-q", "-b", "side"]);
    let side = linked.commit(&[("side", "of the side\n")]);
    linked.git(&["tag", "-a", "v2", "-m", "two"]);
    linked.git(&["checkout", "-q", "main"]);
    linked.git(&["tag", "-f", "-a", "v1", "-m", "moved"]);
    // There is nothing new on the branch that is followed.
    let pulled = linked.pull();
    assert_eq!(pulled.way, PullWay::Nothing);
    assert_eq!(counts(), (1, 2));
    linked.agent("ada", &[("agent", "work\n")]);
    linked.push(None).unwrap();
    linked.pull();
    assert_eq!(counts(), (1, 2), "what was pushed is not another branch");
    let out = linked.test.host.path().join("out.git");
    let workspaces = &linked.test.engine.workspaces;
    workspaces
        .export_project_git(&linked.app, &out, None, &mut |_| {})
        .unwrap();
    offshoot_testkit::git(&out, &["fsck", "--strict", "--full"]);
    let there = |name: &str| offshoot_testkit::git(&out, &["rev-parse", name]);
    assert_eq!(there("refs/heads/side"), side.to_hex());
    for tag in ["refs/tags/v1", "refs/tags/v2"] {
        assert_eq!(there(tag), linked.at(tag).to_hex(), "{tag}");
    }
    linked.check();
}

/// Many refs come at once, and those that cannot be read keep none of the others out.
#[test]
fn thousands_of_tags_come_at_once_without_those_that_are_broken() {
    let linked = Linked::unlinked();
    linked.link(None);
    let main = linked.at("main").to_hex();
    linked.git(&["branch", "side"]);
    let tags = (0..3_000).map(|number| (format!("refs/tags/v{number}"), main.clone()));
    let missing = ("refs/tags/missing".to_owned(), "1".repeat(40));
    let tags: std::collections::BTreeMap<String, String> = tags.chain([missing]).collect();
    let mut text = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for (name, id) in &tags {
        text.push_str(&format!("{id} {name}\n"));
    }
    fs::write(linked.repo.join(".git/packed-refs"), text).unwrap();
    linked.pull();
    let counts = linked.test.engine.projects.ref_counts(&linked.app).unwrap();
    assert_eq!((counts.tags, counts.other_branches), (3_000, 1));
    linked.test.check();
}
