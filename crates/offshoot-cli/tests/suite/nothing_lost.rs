//! Nothing of git is lost: five agents commit with real git in forks of a real repository, and the
//! person finds every commit and every author there, with git as the oracle.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Place, Ran, ran};
use offshoot_testkit::{git, git_command};

const AGENTS: [&str; 5] = ["ada", "bob", "cy", "dee", "eve"];

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Commits all that is there, as somebody.
fn commit_as(dir: &Path, name: &str, message: &str) -> String {
    git(dir, &["add", "-A"]);
    let mut command = git_command(dir);
    command.args(["commit", "-q", "-m", message]);
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), name);
        command.env(format!("GIT_{role}_EMAIL"), format!("{name}@example.com"));
    }
    assert!(command.status().unwrap().success());
    git(dir, &["rev-parse", "HEAD"])
}

fn run_in(place: &Place, dir: &Path, args: &[&str]) -> Ran {
    let mut command = place.command(args);
    let ran = ran(command.current_dir(dir).output().unwrap());
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.golden());
    ran
}

/// Forty lines, of which each agent owns eight.
fn lines(changed: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let own = changed.iter().find(|(at, _)| *at == number);
        own.map_or_else(
            || format!("line {number}\n"),
            |(_, who)| format!("{who} was here\n"),
        )
    };
    (0..40).map(line).collect()
}

/// A repository with branches, tags and a work tree in which somebody is at work.
fn repository(place: &Place) -> PathBuf {
    let repo = place.path().join("shop");
    fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q", "-b", "trunk"]);
    write(&repo, "README", "hello\n");
    write(&repo, "src/lines", &lines(&[]));
    commit_as(&repo, "founder", "Begin");
    git(&repo, &["tag", "-a", "v1", "-m", "the first"]);
    git(&repo, &["tag", "light"]);
    git(&repo, &["checkout", "-q", "-b", "feature"]);
    write(&repo, "feature", "not merged\n");
    commit_as(&repo, "founder", "A feature");
    git(&repo, &["checkout", "-q", "trunk"]);
    write(&repo, "src/lib", "one\ntwo\n");
    commit_as(&repo, "founder", "More");
    write(&repo, "README", "hello, changed and not committed\n");
    write(&repo, "staged", "staged\n");
    git(&repo, &["add", "staged"]);
    repo
}

/// What a person would see change: files, index, what is checked out, and settings.
fn state(repo: &Path) -> (String, String, Vec<u8>, Vec<u8>, Vec<u8>) {
    let read = |name: &str| fs::read(repo.join(name)).unwrap();
    (
        git(repo, &["status", "--porcelain=v2", "--branch"]),
        git(repo, &["stash", "list"]),
        read(".git/index"),
        read(".git/HEAD"),
        [read("README"), read("staged"), read(".git/config")].concat(),
    )
}

#[test]
fn five_agents_commit_with_git_and_the_person_has_every_commit_and_author() {
    let place = Place::new();
    let repo = repository(&place);
    // Looking at it refreshes the index, so that happens before.
    git(&repo, &["status"]);
    let before = state(&repo);
    run_in(&place, &repo, &["init"]);
    let author = "Ada Lovelace <ada@example.com>";
    place.done(&["agent", "author", author, "--agent", "ada"]);
    let forks: Vec<PathBuf> = AGENTS
        .iter()
        .map(|agent| {
            let ran = run_in(&place, &repo, &["fork", "--agent", agent, "--git"]);
            PathBuf::from(ran.stdout.trim_end())
        })
        .collect();
    let mut commits = BTreeSet::new();
    for (number, (agent, fork)) in AGENTS.iter().zip(&forks).enumerate() {
        let at = number * 8 + 2;
        write(fork, &format!("by/{agent}"), "first\n");
        commits.insert(commit_as(fork, agent, &format!("First of {agent}")));
        write(fork, "src/lines", &lines(&[(at, agent)]));
        commits.insert(commit_as(
            fork,
            &format!("{agent}-pair"),
            &format!("Second of {agent}"),
        ));
    }
    for agent in AGENTS {
        let label = format!("Work of {agent}");
        let ran = run_in(&place, &repo, &["complete", agent, "-m", &label]);
        let told = format!("2 commits of `{agent}` came along as history");
        assert!(ran.stdout.contains(&told), "{}", ran.golden());
    }
    run_in(&place, &repo, &["push"]);

    assert_eq!(state(&repo), before, "the work tree was touched");
    assert_eq!(git(&repo, &["fsck", "--strict", "--no-dangling"]), "");
    let graph = git(
        &repo,
        &["log", "--graph", "--format=%H %an: %s", "offshoot/main"],
    );
    for commit in &commits {
        assert!(
            graph.contains(commit.as_str()),
            "{commit} is not in\n{graph}"
        );
    }
    for agent in AGENTS {
        let (first, second) = (
            format!("{agent}: First of {agent}"),
            format!("{agent}-pair: Second"),
        );
        assert!(graph.contains(&first) && graph.contains(&second), "{graph}");
    }
    let merges = git(
        &repo,
        &[
            "log",
            "--first-parent",
            "--format=%an <%ae>|%cn|%s|%(trailers:key=Offshoot-Agent,valueonly,separator=%x2C)",
            "trunk..offshoot/main",
        ],
    );
    let expected: Vec<String> = AGENTS
        .iter()
        .rev()
        .map(|agent| match *agent {
            "ada" => format!("{author}|Offshoot|Work of ada|ada"),
            other => format!("{other} <{other}@offshoot.invalid>|Offshoot|Work of {other}|{other}"),
        })
        .collect();
    assert_eq!(merges.lines().collect::<Vec<_>>(), expected);
    // Who wrote a line is who committed it, not who merged it.
    let blame = git(
        &repo,
        &[
            "blame",
            "--line-porcelain",
            "offshoot/main",
            "--",
            "src/lines",
        ],
    );
    for agent in AGENTS {
        let pair = format!("author {agent}-pair");
        assert!(blame.lines().any(|line| line == pair), "{agent}");
    }
    // Each agent's commits are there as they were made.
    for (agent, fork) in AGENTS.iter().zip(&forks) {
        assert!(!fork.exists(), "{agent}");
        let merge = git(
            &repo,
            &[
                "log",
                "--format=%H",
                &format!("--grep=^Work of {agent}"),
                "offshoot/main",
            ],
        );
        let same = format!("{merge}^2");
        let range = git(
            &repo,
            &[
                "range-diff",
                "--no-color",
                &format!("{same}~2..{same}"),
                &format!("trunk..{same}"),
            ],
        );
        assert_eq!(range.lines().count(), 2, "{range}");
        assert!(range.lines().all(|line| line.contains(" = ")), "{range}");
    }
    // Branches, tags and the name of the default branch are in a clone of the project.
    let out = place.path().join("out.git");
    run_in(
        &place,
        &repo,
        &["project", "export", "--git", out.to_str().unwrap()],
    );
    assert_eq!(git(&out, &["symbolic-ref", "HEAD"]), "refs/heads/trunk");
    for name in ["refs/heads/feature", "refs/tags/v1", "refs/tags/light"] {
        let there = |repo: &Path| git(repo, &["rev-parse", name]);
        assert_eq!(there(&out), there(&repo), "{name}");
    }
    let shown = run_in(&place, &repo, &["project", "show"]).stdout;
    assert!(shown.contains("trunk, 1 other branch, 2 tags"), "{shown}");
    assert_eq!(place.done(&["check"]).code, 0);
}
