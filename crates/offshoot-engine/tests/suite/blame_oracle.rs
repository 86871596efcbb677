//! Blame of imported history against `git blame`, line by line and commit by commit.

use std::fs;
use std::path::Path;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::ProjectId;
use offshoot_engine::BlameTarget;
use offshoot_testkit::{Rng, git, git_command, soak};

/// The commit of each line, as git says.
fn told_by_git(repository: &Path, path: &str) -> Vec<String> {
    let output = git(repository, &["blame", "--porcelain", "HEAD", "--", path]);
    let mut commits = Vec::new();
    let mut commit = String::new();
    for line in output.lines() {
        if line.starts_with('\t') {
            commits.push(commit.clone());
        } else if let Some(id) = line.split(' ').next().filter(|id| id.len() == 40) {
            commit = id.to_owned();
        }
    }
    commits
}

/// The commit of each line, as we say.
fn told_by_us(test: &TestEngine, project: &ProjectId, path: &str) -> Vec<String> {
    let of = BlameTarget::Project(project);
    let lines = test.engine.history.blame(of, None, &p(path)).unwrap();
    let commit = |line: offshoot_engine::BlameLine| line.snapshot.unwrap().to_hex();
    lines.into_iter().map(commit).collect()
}

fn import(test: &TestEngine, name: &str, source: &Path) -> ProjectId {
    let project: ProjectId = name.parse().unwrap();
    let projects = &test.engine.projects;
    projects
        .import_git(&project, source, &mut |_| {}, &user())
        .unwrap();
    project
}

/// One history: commits by several people, at times of their own.
struct History<'a> {
    place: &'a Path,
    clock: u64,
}

impl History<'_> {
    fn new(place: &Path) -> History<'_> {
        git(place, &["init", "-q", "-b", "main"]);
        History {
            place,
            clock: 1_600_000_000,
        }
    }

    fn run(&mut self, args: &[&str]) -> bool {
        self.clock += 60;
        let date = format!("{} +0000", self.clock);
        let mut command = git_command(self.place);
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_DATE"), &date);
        }
        command.args(args).output().unwrap().status.success()
    }

    fn commit(&mut self, message: &str) {
        git(self.place, &["add", "-A"]);
        assert!(self.run(&["commit", "-q", "--allow-empty", "-m", message]));
    }

    /// Merges a branch; where the two conflict, one side wins.
    fn merge(&mut self, branch: &str, side: &str) {
        let how = format!("-X{side}");
        if !self.run(&["merge", "-q", "--no-ff", &how, "-m", "merge", branch]) {
            git(self.place, &["checkout", &format!("--{side}"), "."]);
            self.commit("merge by hand");
        }
    }
}

/// Which lines a history has.
#[derive(Clone, Copy, PartialEq)]
enum Lines {
    /// Each is there once.
    Unique,
    /// Some are there again and again, as in programs.
    Repeated,
}

fn some_line(rng: &mut Rng, kind: Lines) -> String {
    match (kind, rng.below(8)) {
        (Lines::Repeated, 0) => String::new(),
        (Lines::Repeated, 1) => "}".to_owned(),
        (Lines::Repeated, 2) => "    }".to_owned(),
        (Lines::Repeated, 3) => format!("    let value = {};", rng.below(6)),
        _ => format!("    call_{}();", rng.next_u64()),
    }
}

fn edit(rng: &mut Rng, kind: Lines, text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..rng.between(1, 4) {
        let at = rng.below(lines.len() + 1);
        match rng.below(4) {
            0 if !lines.is_empty() => drop(lines.remove(at.min(lines.len() - 1))),
            1 if !lines.is_empty() => {
                let at = at.min(lines.len() - 1);
                lines[at] = some_line(rng, kind);
            }
            2 if lines.len() > 4 => {
                // A block that moves.
                let from = rng.below(lines.len() - 3);
                let block: Vec<String> = lines.drain(from..from + 3).collect();
                let at = rng.below(lines.len());
                lines.splice(at..at, block);
            }
            _ => {
                let count = rng.between(1, 5);
                let new: Vec<String> = (0..count).map(|_| some_line(rng, kind)).collect();
                lines.splice(at..at, new);
            }
        }
    }
    let end = if rng.chance(100) { "" } else { "\n" };
    lines.join("\n") + end
}

/// What both say of the lines of a history.
fn random_history(seed: u64, kind: Lines, merged: bool) -> (Vec<String>, Vec<String>) {
    let mut rng = Rng::new(seed);
    let test = TestEngine::plain();
    let place = tempfile::tempdir().unwrap();
    let mut history = History::new(place.path());
    let file = place.path().join("f");
    let start: String = (0..30).map(|_| some_line(&mut rng, kind) + "\n").collect();
    fs::write(&file, start).unwrap();
    history.commit("first");
    let change = |rng: &mut Rng| {
        let text = edit(rng, kind, &fs::read_to_string(&file).unwrap());
        fs::write(&file, text).unwrap();
    };
    for round in 0..rng.between(6, 20) {
        if merged && rng.chance(350) {
            let branch = format!("side-{round}");
            git(place.path(), &["checkout", "-q", "-b", &branch]);
            for _ in 0..rng.between(1, 3) {
                change(&mut rng);
                history.commit("side");
            }
            git(place.path(), &["checkout", "-q", "main"]);
            if rng.chance(700) {
                change(&mut rng);
                history.commit("meanwhile");
            }
            let side = *rng.pick(&["ours", "theirs"]);
            history.merge(&branch, side);
        } else {
            change(&mut rng);
            history.commit("change");
        }
    }
    let project = import(&test, "p", place.path());
    (
        told_by_us(&test, &project, "f"),
        told_by_git(place.path(), "f"),
    )
}

#[test]
fn random_histories_are_blamed_as_git_does() {
    let rounds = if soak() { 1_000 } else { 20 };
    for seed in 0..rounds {
        let (ours, gits) = random_history(seed, Lines::Unique, seed % 2 == 1);
        assert_eq!(ours, gits, "seed {seed}");
    }
}

/// Where the same line is there several times, it is open which of them was there before, and git
/// may choose another one. That is rare.
#[test]
fn lines_that_are_there_several_times_are_blamed_as_git_does_with_few_exceptions() {
    let rounds = if soak() { 1_000 } else { 20 };
    let (mut lines, mut differ) = (0, 0);
    for seed in 0..rounds {
        let (ours, gits) = random_history(seed, Lines::Repeated, seed % 2 == 1);
        assert_eq!(ours.len(), gits.len(), "seed {seed}");
        lines += ours.len();
        differ += ours
            .iter()
            .zip(&gits)
            .filter(|(our, git)| our != git)
            .count();
    }
    println!("soak: {differ} of {lines} lines of repeated texts are blamed on another commit");
    assert!(differ * 50 < lines, "{differ} of {lines} lines differ");
}

/// A history as people make it: functions that move, a file that gets another name, a merge.
#[test]
fn a_history_of_a_program_is_blamed_as_git_does() {
    let test = TestEngine::plain();
    let place = tempfile::tempdir().unwrap();
    let mut history = History::new(place.path());
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    let function = |name: &str, lines: &[&str]| {
        let body: String = lines.iter().map(|line| format!("    {line}\n")).collect();
        format!("fn {name}() {{\n{body}}}\n")
    };
    let (load, save) = (
        function("load", &["let text = read();", "parse(text)"]),
        function("save", &["let text = print();", "write(text)"]),
    );
    write("store.rs", &format!("{load}\n{save}"));
    history.commit("Load and save");
    let check = function("check", &["if broken() {", "    repair();", "}"]);
    write("store.rs", &format!("{load}\n{check}\n{save}"));
    history.commit("Check between them");
    git(place.path(), &["checkout", "-q", "-b", "feature"]);
    let better = function(
        "save",
        &["let text = print();", "write_atomically(text)", "sync()"],
    );
    write("store.rs", &format!("{load}\n{check}\n{better}"));
    history.commit("Save for good");
    git(place.path(), &["checkout", "-q", "main"]);
    write(
        "store.rs",
        &format!("//! The store.\n\n{load}\n{check}\n{save}"),
    );
    history.commit("Say what it is");
    history.merge("feature", "theirs");
    git(place.path(), &["mv", "store.rs", "storage.rs"]);
    history.commit("Another name");
    write(
        "storage.rs",
        &format!("//! The storage.\n\n{check}\n{load}\n{better}\n{check}"),
    );
    history.commit("Turn them round");
    write("other.rs", "fn other() {}\n");
    history.commit("Something else");
    let project = import(&test, "p", place.path());
    assert_eq!(
        told_by_us(&test, &project, "storage.rs"),
        told_by_git(place.path(), "storage.rs")
    );
}
