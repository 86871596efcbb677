//! Who wrote each line: through merges, decisions, undo, moves and imports.

use std::fs;
use std::path::Path;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{Cause, ErrorCode, Operator, ProjectId, WorkspaceId};
use offshoot_engine::{
    BlameLine, BlameTarget, CompleteOptions, Completed, Content, Policy, Resolution, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_testkit::git;

fn by(name: &str, message: &str) -> Cause {
    Cause {
        operator: Operator::new(name),
        claim: None,
        message_id: Some(message.to_owned()),
    }
}

fn put(test: &TestEngine, project: &ProjectId, path: &str, text: &str, cause: &Cause) {
    let content = Content::Bytes(text.as_bytes());
    test.engine
        .projects
        .put_in_project(project, &p(path), content, &WriteOptions::default(), cause)
        .unwrap();
}

fn write(test: &TestEngine, id: &WorkspaceId, path: &str, text: &str, cause: &Cause) {
    let content = Content::Bytes(text.as_bytes());
    test.engine
        .workspaces
        .write_file(id, &p(path), content, &WriteOptions::default(), cause)
        .unwrap();
}

fn complete(test: &TestEngine, id: &WorkspaceId, policy: Option<Policy>) -> Completed {
    let options = CompleteOptions {
        policy,
        ..CompleteOptions::default()
    };
    test.engine.merges.complete(id, &options, &user()).unwrap()
}

fn blame(test: &TestEngine, project: &ProjectId, path: &str) -> Vec<BlameLine> {
    let of = BlameTarget::Project(project);
    test.engine.history.blame(of, None, &p(path)).unwrap()
}

/// `who text` for each line, where who is the agent or else the operator.
fn authors_and_lines(lines: &[BlameLine]) -> Vec<String> {
    lines
        .iter()
        .map(|line| {
            let who = line.agent.as_deref().unwrap_or(&line.operator);
            let text = String::from_utf8_lossy(&line.text);
            format!("{who} {}", text.trim_end())
        })
        .collect()
}

/// The blame has every line of the file, in order, and nothing else.
fn whole(test: &TestEngine, project: &ProjectId, path: &str) {
    let lines = blame(test, project, path);
    let text: Vec<u8> = lines.into_iter().flat_map(|line| line.text).collect();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        test.project_text(project, path)
    );
}

#[test]
fn lines_of_several_agents_keep_their_writers_through_merges() {
    with_each(|test| {
        let project = test.project("web");
        put(&test, &project, "f", "a\nb\nc\nd\ne\n", &by("eve", "m-0"));
        let (one, _) = test.fork(&project, "one");
        let (two, two_path) = test.fork(&project, "two");
        write(&test, &one, "f", "A1\nb\nc\nd\ne\n", &by("ada", "m-1"));
        write(&test, &one, "f", "A1\nb\nc\nd\ne\nf1\n", &by("abe", "m-2"));
        fs::write(two_path.join("f"), "a\nb\nC2\nd\ne\n").unwrap();
        let first = complete(&test, &one, None);
        let options = CompleteOptions::default();
        let cause = by("boss", "m-9");
        let second = test.engine.merges.complete(&two, &options, &cause).unwrap();

        let lines = blame(&test, &project, "f");
        assert_eq!(
            authors_and_lines(&lines),
            ["one A1", "eve b", "two C2", "eve d", "eve e", "one f1"]
        );
        let operators: Vec<&str> = lines.iter().map(|line| line.operator.as_str()).collect();
        assert_eq!(operators, ["ada", "eve", "outside", "eve", "eve", "abe"]);
        let messages: Vec<&str> = lines
            .iter()
            .map(|line| line.message_id.as_deref().unwrap())
            .collect();
        // Direct writes have no message, so they get that of the merge.
        assert_eq!(messages, ["m-1", "m-0", "m-9", "m-0", "m-0", "m-2"]);
        assert_eq!(lines[0].snapshot, first.snapshot);
        assert_eq!(lines[2].snapshot, second.snapshot);
        assert!(lines[0].at < lines[5].at && lines[1].at < lines[0].at);
        whole(&test, &project, "f");

        // A fork of it has the same blame, and its own lines on top, without a snapshot.
        let (three, path) = test.fork(&project, "three");
        fs::write(path.join("f"), "A1\nb\nC2\nD3\ne\nf1\n").unwrap();
        let of = BlameTarget::Workspace(&three);
        let own = test.engine.history.blame(of, None, &p("f")).unwrap();
        assert_eq!(
            authors_and_lines(&own),
            ["one A1", "eve b", "two C2", "three D3", "eve e", "one f1"]
        );
        assert_eq!(own[3].snapshot, None);
        assert_eq!(own[0].snapshot, first.snapshot);
        let taken = test
            .engine
            .workspaces
            .snapshot(&three, None, false, &user())
            .unwrap();
        let own = test.engine.history.blame(of, None, &p("f")).unwrap();
        assert_eq!(own[3].snapshot, Some(taken.snapshot.id));
        // The blame is as it was.
        let at = first.snapshot.unwrap().to_hex();
        let old = test
            .engine
            .history
            .blame(BlameTarget::Project(&project), Some(&at), &p("f"));
        assert_eq!(
            authors_and_lines(&old.unwrap()),
            ["one A1", "eve b", "eve c", "eve d", "eve e", "one f1"]
        );
    });
}

#[test]
fn a_kept_workspace_gets_the_lines_of_others_with_their_names() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    put(&test, &project, "f", "a\nb\nc\nd\n", &user());
    let (one, path) = test.fork(&project, "one");
    let keep = CompleteOptions {
        keep: true,
        ..CompleteOptions::default()
    };
    for round in 0..3 {
        let mut text = test.project_text(&project, "f");
        text.push_str(&format!("one {round}\n"));
        fs::write(path.join("f"), text).unwrap();
        let other = format!("top {round}\n{}", test.project_text(&project, "f"));
        put(&test, &project, "f", &other, &by("eve", "m"));
        test.engine.merges.complete(&one, &keep, &user()).unwrap();
    }
    let expected = [
        "eve top 2",
        "eve top 1",
        "eve top 0",
        "user a",
        "user b",
        "user c",
        "user d",
        "one one 0",
        "one one 1",
        "one one 2",
    ];
    assert_eq!(authors_and_lines(&blame(&test, &project, "f")), expected);
    let of = BlameTarget::Workspace(&one);
    let own = test.engine.history.blame(of, None, &p("f")).unwrap();
    assert_eq!(authors_and_lines(&own), expected);
    whole(&test, &project, "f");
}

#[test]
fn what_comes_back_belongs_to_who_wrote_it() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    put(&test, &project, "f", "a\nb\nc\n", &by("eve", "m"));
    let (one, path) = test.fork(&project, "one");
    fs::write(path.join("f"), "a\nONE\nc\n").unwrap();
    let done = complete(&test, &one, None);
    let on_top = "a\nONE\nc\nlater\n";
    put(&test, &project, "f", on_top, &by("zoe", "m"));
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "f")),
        ["eve a", "one ONE", "eve c", "zoe later"]
    );
    let merge = done.merge_id.unwrap();
    test.engine
        .merges
        .undo_merge(&merge, &by("undoer", "m"))
        .unwrap();
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "f")),
        ["eve a", "eve b", "eve c", "zoe later"]
    );

    // A restore in a workspace has the same effect.
    let (two, _) = test.fork(&project, "two");
    write(&test, &two, "f", "a\nb\nTWO\n", &by("two", "m"));
    let snapshot = test
        .engine
        .workspaces
        .snapshot(&two, None, false, &user())
        .unwrap();
    write(&test, &two, "f", "all is different\n", &by("three", "m"));
    let id = snapshot.snapshot.id.to_hex();
    test.engine
        .workspaces
        .restore(&two, &id, None, &by("restorer", "m"))
        .unwrap();
    let of = BlameTarget::Workspace(&two);
    let lines = test.engine.history.blame(of, None, &p("f")).unwrap();
    assert_eq!(authors_and_lines(&lines), ["eve a", "eve b", "two TWO"]);
    test.check();
}

#[test]
fn policies_and_reviews_leave_each_line_to_its_writer() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    for path in ["union", "ours", "theirs", "reviewed", "proposed"] {
        put(&test, &project, path, "a\nb\nc\nd\n", &by("eve", "m"));
    }
    let fork = |name: &str, path: &str| {
        let (id, dir) = test.fork(&project, name);
        fs::write(dir.join(path), format!("a\n{name}\nc\n{name} d\n")).unwrap();
        id
    };
    let forks: Vec<(&str, WorkspaceId)> = ["union", "ours", "theirs", "reviewed", "proposed"]
        .iter()
        .map(|path| (*path, fork(path, path)))
        .collect();
    for (path, _) in &forks {
        put(&test, &project, path, "a\nZOE\nc\nd\n", &by("zoe", "m"));
    }
    let done = complete(&test, &forks[0].1, Some(Policy::Union));
    assert_eq!(done.decided.len(), 1);
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "union")),
        ["eve a", "zoe ZOE", "union union", "eve c", "union union d"]
    );
    let won_ours = complete(&test, &forks[1].1, Some(Policy::Ours));
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "ours")),
        ["eve a", "zoe ZOE", "eve c", "ours ours d"]
    );
    let won_theirs = complete(&test, &forks[2].1, Some(Policy::Theirs));
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "theirs")),
        ["eve a", "theirs theirs", "eve c", "theirs theirs d"]
    );
    // Restored lines have the name of their author, not of the person who restored them.
    let taker = by("taker", "m");
    let merge = won_ours.merge_id.unwrap();
    test.engine
        .merges
        .take_lost(&merge, &p("ours"), &taker)
        .unwrap();
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "ours")),
        ["eve a", "ours ours", "eve c", "ours ours d"]
    );
    let merge = won_theirs.merge_id.unwrap();
    test.engine
        .merges
        .take_lost(&merge, &p("theirs"), &taker)
        .unwrap();
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "theirs")),
        ["eve a", "zoe ZOE", "eve c", "eve d"]
    );

    let review = |id: &WorkspaceId| {
        let done = complete(&test, id, None);
        done.conflicts[0].review_id.clone().unwrap()
    };
    let id = review(&forks[3].1);
    test.engine
        .merges
        .resolve(&id, Resolution::Theirs, &by("judge", "m"))
        .unwrap();
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "reviewed")),
        ["eve a", "reviewed reviewed", "eve c", "reviewed reviewed d"]
    );
    let id = review(&forks[4].1);
    let text = b"a\nnew words\nc\nproposed d\n";
    test.engine
        .merges
        .propose(&id, Content::Bytes(text), None, &by("proposer", "m-7"))
        .unwrap();
    test.engine
        .merges
        .resolve(&id, Resolution::Candidate(1), &by("judge", "m"))
        .unwrap();
    let lines = blame(&test, &project, "proposed");
    assert_eq!(
        authors_and_lines(&lines),
        [
            "eve a",
            "proposer new words",
            "eve c",
            "proposed proposed d"
        ]
    );
    assert_eq!(lines[1].message_id.as_deref(), Some("m-7"));
    // Direct writes have no message, and the person who decided did not write them.
    assert_eq!(lines[3].message_id, None);
    test.check();
}

#[test]
fn a_move_is_followed_and_so_is_a_rename_outside() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    for path in ["moved", "renamed"] {
        put(&test, &project, path, "a\nb\nc\n", &by("eve", "m"));
    }
    let (one, dir) = test.fork(&project, "one");
    write(&test, &one, "moved", "a\nONE\nc\n", &by("ada", "m"));
    test.engine
        .workspaces
        .move_file(&one, &p("moved"), &p("there"), &by("mover", "m"))
        .unwrap();
    fs::rename(dir.join("renamed"), dir.join("elsewhere")).unwrap();
    complete(&test, &one, None);
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "there")),
        ["eve a", "one ONE", "eve c"]
    );
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "elsewhere")),
        ["eve a", "eve b", "eve c"]
    );
}

#[test]
fn words_put_together_belong_to_the_merge() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let before = "let total = price * number;\n";
    put(&test, &project, "f", before, &by("eve", "m"));
    let (one, path) = test.fork(&project, "one");
    fs::write(path.join("f"), "let total = price * count;\n").unwrap();
    put(
        &test,
        &project,
        "f",
        "let sum = price * number;\n",
        &by("zoe", "m"),
    );
    let done = complete(&test, &one, None);
    assert_eq!(
        test.project_text(&project, "f"),
        "let sum = price * count;\n"
    );
    let lines = blame(&test, &project, "f");
    assert_eq!(authors_and_lines(&lines), ["one let sum = price * count;"]);
    assert_eq!(lines[0].operator, "system");
    assert_eq!(lines[0].snapshot, done.snapshot);
}

#[test]
fn imported_history_is_blamed_as_git_does() {
    let test = TestEngine::new(ProviderName::Copy);
    let place = tempfile::tempdir().unwrap();
    let commit = |author: &str, text: &str| commit_file(place.path(), author, text);
    git(place.path(), &["init", "-q", "-b", "main"]);
    commit("Ada", "one\ntwo\nthree\nfour\n");
    commit("Bob", "one\nTWO\nthree\nfour\nfive\n");
    commit("Ada", "zero\none\nTWO\nthree\nFOUR\nfive\n");
    let project: ProjectId = "imported".parse().unwrap();
    import(&test, &project, place.path());
    let expected = told_by_git(place.path());
    assert_eq!(
        expected,
        [
            "Ada zero",
            "Ada one",
            "Bob TWO",
            "Ada three",
            "Ada FOUR",
            "Bob five"
        ]
    );
    assert_eq!(authors_and_lines(&blame(&test, &project, "f")), expected);
    let (one, dir) = test.fork(&project, "one");
    fs::write(dir.join("f"), "zero\none\nTWO\nthree\nFOUR\nmine\n").unwrap();
    complete(&test, &one, None);
    let mut expected = expected;
    expected[5] = "one mine".to_owned();
    assert_eq!(authors_and_lines(&blame(&test, &project, "f")), expected);
}

fn commit_file(repository: &Path, author: &str, text: &str) {
    fs::write(repository.join("f"), text).unwrap();
    let author = format!("--author={author} <{author}@example.org>");
    git(repository, &["add", "f"]);
    git(repository, &["commit", "-q", "-m", "change", &author]);
}

fn import(test: &TestEngine, project: &ProjectId, source: &Path) {
    test.engine
        .projects
        .import_git(project, source, &mut |_| {}, &user())
        .unwrap();
}

fn told_by_git(repository: &Path) -> Vec<String> {
    let output = git(repository, &["blame", "--line-porcelain", "f"]);
    let mut authors_and_lines = Vec::new();
    let mut author = String::new();
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("author ") {
            author = name.to_owned();
        } else if let Some(text) = line.strip_prefix('\t') {
            authors_and_lines.push(format!("{author} {text}"));
        }
    }
    authors_and_lines
}

#[test]
fn what_has_no_lines_is_refused_with_a_hint() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    put(&test, &project, "binary", "a\0b", &user());
    put(&test, &project, "was-binary", "a\0b", &user());
    put(
        &test,
        &project,
        "was-binary",
        "text\nnow\n",
        &by("eve", "m"),
    );
    put(&test, &project, "empty", "", &user());
    let refused = |path: &str| {
        let of = BlameTarget::Project(&project);
        test.engine.history.blame(of, None, &p(path)).unwrap_err()
    };
    assert_eq!(refused("binary").code(), ErrorCode::Unsupported);
    assert!(refused("binary").hint().is_some());
    assert_eq!(refused("src").code(), ErrorCode::IsADirectory);
    assert_eq!(refused("none").code(), ErrorCode::FileNotFound);
    assert_eq!(
        authors_and_lines(&blame(&test, &project, "was-binary")),
        ["eve text", "eve now"]
    );
    assert!(blame(&test, &project, "empty").is_empty());
}
