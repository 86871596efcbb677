//! Conflicts that are decided by priority. Our side has the priority of the author of the
//! conflicting part, and every answer names the authors.

use std::fs;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::{Cause, Operator, ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, Content, Decided, ForkOptions, MergeSettings, PathPolicy, Policy,
    Resolution, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_store::Landing;

struct Setup {
    test: TestEngine,
    project: ProjectId,
}

impl Setup {
    /// A project in which the higher priority wins everywhere.
    fn new(files: &[(&str, &str)]) -> Setup {
        let test = TestEngine::in_memory(ProviderName::Copy);
        let project: ProjectId = "web".parse().unwrap();
        test.engine
            .projects
            .create_project(&project, &user())
            .unwrap();
        for (path, text) in files {
            test.put(&project, path, text);
        }
        let settings = MergeSettings {
            policies: vec![PathPolicy {
                path: "*".to_owned(),
                policy: Policy::Priority,
            }],
            landing: Landing::Partial,
            include_ignored: false,
            protect: Vec::new(),
        };
        let set = test
            .engine
            .projects
            .set_merge_settings(&project, &settings, &user());
        set.unwrap();
        Setup { test, project }
    }

    fn fork(&self, agent: &str, priority: i64) -> WorkspaceId {
        let options = ForkOptions {
            agent: Some(agent.parse().unwrap()),
            priority: Some(priority),
            ..ForkOptions::default()
        };
        let fork = self
            .test
            .engine
            .forks
            .fork(&self.project, &options, &user());
        fork.unwrap().workspace.id
    }

    fn write(&self, id: &WorkspaceId, path: &str, text: &str, message: Option<&str>) {
        let cause = Cause {
            message_id: message.map(str::to_owned),
            ..user()
        };
        let content = Content::Bytes(text.as_bytes());
        let options = WriteOptions::default();
        let written =
            self.test
                .engine
                .workspaces
                .write_file(id, &p(path), content, &options, &cause);
        written.unwrap();
    }

    fn complete(&self, id: &WorkspaceId) -> Completed {
        let options = CompleteOptions::default();
        self.test
            .engine
            .merges
            .complete(id, &options, &user())
            .unwrap()
    }

    fn text(&self, path: &str) -> String {
        self.test.project_text(&self.project, path)
    }
}

/// Twelve lines, some of them replaced; `-` removes one.
fn lines(changes: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let change = changes.iter().find(|(at, _)| *at == number);
        change.map_or_else(|| format!("line {number}"), |(_, text)| (*text).to_owned())
    };
    let all = (1..=12).map(line).filter(|line| line != "-");
    all.map(|line| line + "\n").collect()
}

fn only(done: &Completed) -> &Decided {
    assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
    assert_eq!(done.decided.len(), 1, "{:?}", done.decided);
    &done.decided[0]
}

#[test]
fn what_lost_does_not_count_as_the_author_of_what_stands_there() {
    let setup = Setup::new(&[("f", &lines(&[]))]);
    let forks = [("five", 5), ("one", 1), ("three", 3)];
    let forks = forks.map(|(agent, priority)| {
        let id = setup.fork(agent, priority);
        setup.write(&id, "f", &lines(&[(1, agent)]), Some(&format!("m-{agent}")));
        id
    });
    setup.complete(&forks[0]);
    for (id, loser) in [(&forks[1], "one"), (&forks[2], "three")] {
        let done = setup.complete(id);
        let decided = only(&done);
        assert_eq!(decided.winner, "ours");
        assert_eq!(decided.ours_by.as_deref(), Some("five"));
        assert_eq!(decided.ours_message_id.as_deref(), Some("m-five"));
        assert_eq!(decided.lost_by.as_deref(), Some(loser));
        assert_eq!(decided.lost_message_id, Some(format!("m-{loser}")));
        assert_eq!(setup.text("f"), lines(&[(1, "five")]));
    }
    // The next merge knows the author too, although two losses were recorded since.
    let six = setup.fork("six", 6);
    setup.write(&six, "f", &lines(&[(1, "six")]), None);
    setup.complete(&six);
    assert_eq!(setup.text("f"), lines(&[(1, "six")]));
    setup.test.check();
}

#[test]
fn the_weight_is_that_of_the_lines_in_conflict() {
    let setup = Setup::new(&[("f", &lines(&[]))]);
    let [five, one, three, both] =
        [("five", 5), ("one", 1), ("three", 3), ("both", 3)].map(|(a, p)| setup.fork(a, p));
    setup.write(&five, "f", &lines(&[(1, "FIVE")]), Some("m-5"));
    setup.write(&one, "f", &lines(&[(11, "ONE")]), Some("m-1"));
    setup.write(&three, "f", &lines(&[(1, "THREE")]), Some("m-3"));
    setup.write(
        &both,
        "f",
        &lines(&[(1, "BOTH"), (11, "BOTH")]),
        Some("m-b"),
    );
    setup.complete(&five);
    setup.complete(&one);
    let done = setup.complete(&three);
    assert_eq!(only(&done).winner, "ours");
    assert_eq!(only(&done).parts, ["line 1"]);
    assert_eq!(only(&done).ours_by.as_deref(), Some("five"));
    assert_eq!(setup.text("f"), lines(&[(1, "FIVE"), (11, "ONE")]));
    // Each part of a file goes to the author with the higher priority there.
    let done = setup.complete(&both);
    assert_eq!(setup.text("f"), lines(&[(1, "FIVE"), (11, "BOTH")]));
    let decided: Vec<_> = done
        .decided
        .iter()
        .map(|one| {
            (
                one.winner.as_str(),
                one.parts.join(","),
                one.lost_by.as_deref(),
            )
        })
        .collect();
    let expected = [
        ("theirs", "line 11".to_owned(), Some("one")),
        ("ours", "line 1".to_owned(), Some("both")),
    ];
    assert_eq!(decided, expected);
    setup.test.check();
}

#[test]
fn a_part_of_several_authors_is_defended_by_the_strongest() {
    let setup = Setup::new(&[("f", &lines(&[]))]);
    let [five, three, later] =
        [("five", 5), ("three", 3), ("later", 3)].map(|(a, p)| setup.fork(a, p));
    setup.write(&five, "f", &lines(&[(5, "FIVE")]), None);
    setup.write(&three, "f", &lines(&[(5, "THREE"), (6, "THREE")]), None);
    setup.complete(&five);
    let one = setup.fork("one", 1);
    setup.write(&one, "f", &lines(&[(5, "FIVE"), (6, "ONE")]), None);
    setup.complete(&one);
    let both = lines(&[(5, "FIVE"), (6, "ONE")]);
    assert_eq!(setup.text("f"), both);
    assert_eq!(only(&setup.complete(&three)).winner, "ours");
    assert_eq!(setup.text("f"), both);
    // A deletion concerns the whole file.
    let delete = setup
        .test
        .engine
        .workspaces
        .delete_file(&later, &p("f"), false, &user());
    delete.unwrap();
    let done = setup.complete(&later);
    assert_eq!(only(&done).ours_by.as_deref(), Some("five"));
    assert_eq!(setup.text("f"), both);
}

#[test]
fn whoever_takes_lines_away_is_their_author() {
    let setup = Setup::new(&[("f", &lines(&[])), ("g", "all of it\n")]);
    let [five, one, three] = [("five", 5), ("one", 1), ("three", 3)].map(|(a, p)| setup.fork(a, p));
    let gone = [(2, "-"), (3, "-"), (4, "-")];
    setup.write(&five, "f", &lines(&gone), Some("m-5"));
    let delete = setup
        .test
        .engine
        .workspaces
        .delete_file(&five, &p("g"), false, &user());
    delete.unwrap();
    setup.write(&one, "f", &lines(&[(11, "ONE")]), None);
    setup.write(&three, "f", &lines(&[(3, "THREE")]), None);
    setup.write(&three, "g", "changed\n", None);
    setup.complete(&five);
    setup.complete(&one);
    let done = setup.complete(&three);
    assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
    for decided in &done.decided {
        assert_eq!(
            (decided.winner.as_str(), decided.ours_by.as_deref()),
            ("ours", Some("five"))
        );
    }
    assert_eq!(done.decided.len(), 2);
    assert_eq!(
        setup.text("f"),
        lines(&[gone[0], gone[1], gone[2], (11, "ONE")])
    );
}

/// A part that one agent emptied, another filled and a third emptied again belongs to the third.
#[test]
fn whoever_empties_a_place_last_is_its_author() {
    let json = |b: Option<&str>| match b {
        Some(b) => format!("{{\"a\":\"x\",\"b\":\"{b}\",\"c\":\"x\"}}"),
        None => r#"{"a":"x","c":"x"}"#.to_owned(),
    };
    let setup = Setup::new(&[("f", &lines(&[])), ("c.json", &json(Some("base")))]);
    let agents = [
        ("zero", 0),
        ("one", 1),
        ("two", 2),
        ("weak", 0),
        ("strong", 3),
    ];
    let forks = agents.map(|(agent, priority)| setup.fork(agent, priority));
    let texts = [None, Some("one"), None, Some("weak"), Some("strong")];
    for (id, text) in forks.iter().zip(texts) {
        setup.write(id, "f", &lines(&[(6, text.unwrap_or("-"))]), None);
        setup.write(id, "c.json", &json(text), None);
    }
    for id in &forks[..3] {
        setup.complete(id);
    }
    let weak = setup.complete(&forks[3]);
    assert_eq!(weak.decided.len(), 2, "{:?}", weak.conflicts);
    assert!(
        weak.decided
            .iter()
            .all(|one| one.ours_by.as_deref() == Some("two"))
    );
    assert_eq!(
        (setup.text("f"), setup.text("c.json")),
        (lines(&[(6, "-")]), json(None))
    );
    setup.complete(&forks[4]);
    let last = (setup.text("f"), setup.text("c.json"));
    assert_eq!(last, (lines(&[(6, "strong")]), json(Some("strong"))));
}

#[test]
fn members_of_json_are_parts_also_in_one_line() {
    let setup = Setup::new(&[("c.json", r#"{"a":{"x":"o","y":"o"},"l":["o","p"]}"#)]);
    let [five, one, three] = [("five", 5), ("one", 1), ("three", 3)].map(|(a, p)| setup.fork(a, p));
    setup.write(
        &five,
        "c.json",
        r#"{"a":{"x":"five","y":"o"},"l":["o","p"]}"#,
        Some("m-5"),
    );
    setup.write(
        &one,
        "c.json",
        r#"{"a":{"x":"o","y":"one"},"l":["o","p"]}"#,
        Some("m-1"),
    );
    setup.write(
        &three,
        "c.json",
        r#"{"a":{"x":"three","y":"three"},"l":["o","p"]}"#,
        Some("m-3"),
    );
    setup.complete(&five);
    setup.complete(&one);
    let done = setup.complete(&three);
    assert_eq!(
        setup.text("c.json"),
        r#"{"a":{"x":"five","y":"three"},"l":["o","p"]}"#
    );
    let decided: Vec<_> = done
        .decided
        .iter()
        .map(|one| {
            (
                one.parts.join(","),
                one.ours_by.as_deref(),
                one.ours_message_id.as_deref(),
            )
        })
        .collect();
    let expected = [
        ("/a/y".to_owned(), Some("one"), Some("m-1")),
        ("/a/x".to_owned(), Some("five"), Some("m-5")),
    ];
    assert_eq!(decided, expected);
}

#[test]
fn what_an_undo_brings_back_has_its_own_weight() {
    // A text, and a file without lines.
    let setup = Setup::new(&[("f", &lines(&[])), ("b", "\0base")]);
    let write = |id: &WorkspaceId, name: &str| {
        setup.write(id, "f", &lines(&[(1, name)]), None);
        setup.write(id, "b", &format!("\0{name}"), None);
    };
    let (five, three) = (setup.fork("five", 5), setup.fork("three", 3));
    write(&five, "FIVE");
    write(&three, "THREE");
    setup.complete(&five);
    let nine = setup.fork("nine", 9);
    write(&nine, "NINE");
    let merge = setup.complete(&nine).merge_id.unwrap();
    setup
        .test
        .engine
        .merges
        .undo_merge(&merge, &user())
        .unwrap();
    let done = setup.complete(&three);
    assert_eq!(done.decided.len(), 2, "{:?}", done.conflicts);
    for decided in &done.decided {
        assert_eq!(decided.ours_by.as_deref(), Some("five"));
    }
    assert_eq!(setup.text("f"), lines(&[(1, "FIVE")]));
    assert_eq!(setup.text("b"), "\0FIVE");
}

#[test]
fn a_decision_gives_the_part_to_whoever_wrote_it() {
    let setup = Setup::new(&[("f", &lines(&[]))]);
    let [one, even, tie, three] =
        [("one", 4), ("even", 4), ("tie", 4), ("three", 3)].map(|(a, p)| setup.fork(a, p));
    for (id, text) in [
        (&one, "ONE"),
        (&even, "EVEN"),
        (&tie, "TIE"),
        (&three, "THREE"),
    ] {
        setup.write(id, "f", &lines(&[(1, text)]), Some(text));
    }
    setup.complete(&one);
    let waiting = setup.complete(&even).conflicts[0]
        .review_id
        .clone()
        .unwrap();
    let review = setup.test.engine.merges.review(&waiting).unwrap();
    let who = |who: Option<offshoot_engine::Who>| {
        let who = who.unwrap();
        (who.operator, who.claim, who.message_id)
    };
    let expected = |agent: &str, message: &str| {
        let operator = user().operator.to_string();
        (operator, Some(agent.to_owned()), Some(message.to_owned()))
    };
    assert_eq!(who(review.ours_by), expected("one", "ONE"));
    assert_eq!(who(review.theirs_by), expected("even", "EVEN"));
    let cause = Cause::by(Operator::new("judge"));
    setup
        .test
        .engine
        .merges
        .resolve(&waiting, Resolution::Theirs, &cause)
        .unwrap();
    // The line is now by `even`, with its priority: a tie with `tie`, more than `three`.
    let tied = setup.complete(&tie).conflicts[0].review_id.clone().unwrap();
    let review = setup.test.engine.merges.review(&tied).unwrap();
    assert_eq!(who(review.ours_by), expected("even", "EVEN"));
    assert_eq!(
        only(&setup.complete(&three)).ours_by.as_deref(),
        Some("even")
    );
    assert_eq!(setup.text("f"), lines(&[(1, "EVEN")]));
}

#[test]
fn what_a_program_does_in_a_fork_is_claimed_for_its_agent() {
    let setup = Setup::new(&[("f", &lines(&[]))]);
    let (id, path) = setup.test.fork(&setup.project, "ada");
    fs::write(path.join("f"), lines(&[(1, "by a program")])).unwrap();
    setup.test.engine.sync.sync_workspace(&id).unwrap();
    let last = setup
        .test
        .engine
        .history
        .lines(&id, Some(&p("f")), 1)
        .unwrap();
    let cause = &last[0].line.cause;
    assert_eq!(cause.operator, Operator::outside());
    assert_eq!(cause.claim.as_deref(), Some("ada"));
    setup.complete(&id);
    let versions = setup
        .test
        .engine
        .projects
        .project_versions(&setup.project, &p("f"))
        .unwrap();
    assert_eq!(versions[0].snapshot.cause.claim.as_deref(), Some("ada"));
}

#[test]
fn forks_have_the_priority_of_their_agent() {
    let setup = Setup::new(&[("f", "x\n")]);
    let engine = &setup.test.engine;
    let agent = engine
        .access
        .spawn("root", "builder", Some(&setup.project), Some(7), &user())
        .unwrap();
    assert_eq!(agent.priority, 7);
    let own = engine
        .forks
        .fork_of(agent.workspace.as_ref().unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(own.priority, 7);
    let fork = |priority: Option<i64>| {
        let options = ForkOptions {
            agent: Some(agent.id.clone()),
            priority,
            ..ForkOptions::default()
        };
        engine
            .forks
            .fork(&setup.project, &options, &user())
            .unwrap()
    };
    let second = fork(None);
    assert_eq!(second.workspace.id.as_str(), format!("{}~2", agent.id));
    assert_eq!((second.priority, fork(Some(-1)).priority), (7, -1));
    let (below, plain) = (
        engine
            .access
            .spawn(agent.id.as_str(), "helper", None, None, &user())
            .unwrap(),
        engine
            .access
            .spawn("root", "other", None, None, &user())
            .unwrap(),
    );
    assert_eq!((below.priority, plain.priority), (7, 0));
    assert_eq!(engine.access.agent(&agent.id).unwrap().priority, 7);
}
