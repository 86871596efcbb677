//! `kill -9` at random points of everything that makes, moves and removes forks and layers: the
//! next start is quick, what was acknowledged is there, and no leftovers stay.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::fixture::child::{Child, Task, say, task};
use crate::fixture::{open, p, user, working};
use offshoot_core::{ErrorCode, ProjectId, WorkspaceId};
use offshoot_engine::{CompleteOptions, Content, Engine, ForkOptions, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_store::{MetaStore, SqliteOptions, SqliteStore};
use offshoot_testkit::{HostDir, Rng, soak};

const PROJECT: &str = "web";

#[test]
fn child() {
    if let Some(task) = task() {
        work_until_killed(&task);
    }
}

/// Runs one random operation after the other. Prints each before and after.
fn work_until_killed(task: &Task) {
    let seed: u64 = task.words[0].parse().unwrap();
    let engine = open(&task.host, task.provider);
    let worker = Worker {
        project: PROJECT.parse().unwrap(),
        engine,
    };
    let mut rng = Rng::new(seed);
    say("ready");
    for number in 0.. {
        let line = worker.choose(&mut rng, &format!("{seed}-{number}"));
        say(&format!("begin {line}"));
        let words: Vec<&str> = line.split(' ').collect();
        match worker.act(&words) {
            Ok(()) => say("ack"),
            // An operation on what is in use right now, such as by upkeep, is refused and changes
            // nothing.
            Err(error) if error.code() == ErrorCode::WorkspaceBusy => say("refused"),
            Err(error) => {
                say(&format!("failed {line}: {error:?}"));
                return;
            }
        }
    }
}

struct Worker {
    engine: Engine,
    project: ProjectId,
}

impl Worker {
    fn choose(&self, rng: &mut Rng, number: &str) -> String {
        // The idle forks stay, so that their number is constant.
        let forks = self.engine.forks.list_forks(&self.project).unwrap();
        let names: Vec<String> = forks
            .iter()
            .map(|fork| fork.workspace.id.to_string())
            .filter(|name| name.starts_with('k'))
            .collect();
        if names.len() < 3 {
            return format!("fork_out k{number}");
        }
        let name = rng.pick(&names);
        match rng.below(20) {
            0 if names.len() < 12 => format!("fork k{number}"),
            1..=2 if names.len() < 12 => format!("fork_out k{number}"),
            3..=5 => format!("write {name} w/{number}"),
            6..=7 => format!("disk {name} w/{number}"),
            8..=10 => format!("put p/{number}"),
            11..=12 => format!("update {name}"),
            13 => format!("complete {name}"),
            14 => format!("keep {name}"),
            15 => format!("delete {name}"),
            16 => "clean".to_owned(),
            17 => format!("snapshot {name}"),
            _ => "collect".to_owned(),
        }
    }

    fn act(&self, words: &[&str]) -> offshoot_core::Result<()> {
        let engine = &self.engine;
        let id = |at: usize| -> WorkspaceId { words[at].parse().unwrap() };
        let options = |keep| CompleteOptions {
            keep,
            ..CompleteOptions::default()
        };
        match words[0] {
            "fork" | "fork_out" => {
                let named = ForkOptions {
                    git: words[1].ends_with(['0', '3', '6', '9']),
                    id: Some(id(1)),
                    ..ForkOptions::default()
                };
                if words[0] == "fork" {
                    engine.forks.fork(&self.project, &named, &user()).map(drop)
                } else {
                    engine
                        .forks
                        .fork_out(&self.project, &named, &user())
                        .map(drop)
                }
            }
            "write" => {
                let content = Content::Bytes(words[2].as_bytes());
                let write = WriteOptions::default();
                engine
                    .workspaces
                    .write_file(&id(1), &p(words[2]), content, &write, &user())
                    .map(drop)
            }
            "disk" => {
                let path = engine.workspaces.hand_out_path(&id(1))?.join(words[2]);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, words[2]).unwrap();
                engine.sync.sync_workspace(&id(1)).map(drop)
            }
            "put" => {
                let content = Content::Bytes(words[1].as_bytes());
                let write = WriteOptions::default();
                engine.projects.put_in_project(
                    &self.project,
                    &p(words[1]),
                    content,
                    &write,
                    &user(),
                )?;
                // Meanwhile the layer is published, and several are compacted.
                engine.context.wait_for_jobs();
                Ok(())
            }
            "update" => engine.merges.update(&id(1), false, &user()).map(drop),
            "complete" => engine
                .merges
                .complete(&id(1), &options(false), &user())
                .map(drop),
            "keep" => engine
                .merges
                .complete(&id(1), &options(true), &user())
                .map(drop),
            "delete" => engine
                .workspaces
                .delete_workspace(&id(1), &user())
                .map(drop),
            "snapshot" => engine
                .workspaces
                .snapshot(&id(1), Some("s"), false, &user())
                .map(drop),
            "clean" => engine
                .upkeep
                .clean(Duration::ZERO, false, &user())
                .map(drop),
            "collect" => {
                engine.directories.collect_layers(Duration::ZERO)?;
                engine.upkeep.collect_garbage(Duration::ZERO).map(drop)
            }
            other => panic!("what is `{other}`?"),
        }
    }
}

/// What must be there.
#[derive(Default)]
struct Facts {
    /// Files of the project.
    project: BTreeSet<String>,
    /// Open forks with the files that they wrote and that may not be merged.
    forks: BTreeMap<String, BTreeSet<String>>,
    /// Forks whose merge was requested by a process that was killed: the next merge does it, and
    /// may remove the fork.
    asked: BTreeSet<String>,
}

impl Facts {
    fn done(&mut self, words: &[&str]) {
        match words[0] {
            "fork" | "fork_out" => {
                self.forks.insert(words[1].to_owned(), BTreeSet::new());
            }
            "write" | "disk" => {
                let files = self.forks.get_mut(words[1]).unwrap();
                files.insert(words[2].to_owned());
            }
            "put" => {
                self.project.insert(words[1].to_owned());
            }
            "complete" => {
                let files = self.forks.remove(words[1]).unwrap();
                self.project.extend(files);
            }
            "keep" => {
                let files = self.forks[words[1]].clone();
                self.project.extend(files);
            }
            "delete" => {
                self.forks.remove(words[1]);
            }
            _ => {}
        }
    }

    /// Decides by what is there whether the interrupted operation happened. It counts as done if
    /// any of it is seen; other checks prove that all of it is there.
    fn settle(&mut self, engine: &Engine, words: &[&str]) {
        let is_open = |name: &str| engine.workspaces.workspace(&name.parse().unwrap()).is_ok();
        let happened = match words[0] {
            "fork" | "fork_out" => is_open(words[1]),
            "write" => engine
                .workspaces
                .read_whole(&words[1].parse().unwrap(), &p(words[2]))
                .is_ok(),
            // A program that is killed while it writes a file leaves a part of it, or nothing.
            "disk" => engine
                .workspaces
                .read_whole(&words[1].parse().unwrap(), &p(words[2]))
                .is_ok_and(|(bytes, _)| bytes == words[2].as_bytes()),
            "put" => in_project(engine, words[1]),
            "delete" => !is_open(words[1]),
            "complete" | "keep" => {
                // Files of an earlier merge, after which the fork was kept, are in the project
                // anyway.
                let files = &self.forks[words[1]];
                let new: BTreeSet<String> = files.difference(&self.project).cloned().collect();
                let there = new.iter().filter(|file| in_project(engine, file)).count();
                let merged = there > 0 || new.is_empty();
                if merged {
                    assert_eq!(there, new.len(), "a merge is there by half");
                    self.project.extend(new);
                }
                // The merge may have landed with the fork still there.
                assert!(
                    merged || is_open(words[1]),
                    "a fork is gone without a merge"
                );
                if !is_open(words[1]) {
                    self.forks.remove(words[1]);
                }
                self.asked.insert(words[1].to_owned());
                false
            }
            _ => false,
        };
        if happened {
            self.done(words);
        }
    }

    /// Forks that were removed because their merge had been requested: all that they wrote must be
    /// merged.
    fn follow_asked(&mut self, engine: &Engine) {
        for name in std::mem::take(&mut self.asked) {
            if engine.workspaces.workspace(&name.parse().unwrap()).is_ok() {
                self.asked.insert(name);
            } else if let Some(files) = self.forks.remove(&name) {
                self.project.extend(files);
            }
        }
    }

    fn check(&self, engine: &Engine) {
        for file in &self.project {
            assert!(in_project(engine, file), "`{file}` of the project is lost");
        }
        for (name, files) in &self.forks {
            let id = name.parse().unwrap();
            let base = engine.workspaces.read_whole(&id, &p("README"));
            let base = base.unwrap_or_else(|error| panic!("fork `{name}` is lost: {error:?}"));
            assert_eq!(base.0, b"read me\n");
            for file in files {
                let read = engine.workspaces.read_whole(&id, &p(file));
                let read =
                    read.unwrap_or_else(|error| panic!("`{file}` of `{name}` is lost: {error:?}"));
                assert_eq!(read.0, file.as_bytes());
            }
        }
    }
}

fn in_project(engine: &Engine, file: &str) -> bool {
    let found = engine
        .projects
        .open_project_file(&PROJECT.parse().unwrap(), None, &p(file));
    match found {
        Err(error) if error.code() == ErrorCode::FileNotFound => false,
        other => {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut other.unwrap(), &mut bytes).unwrap();
            assert_eq!(bytes, file.as_bytes());
            true
        }
    }
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Every directory and mount is explained by a row.
fn no_orphans(host: &HostDir, engine: &Engine) {
    let data = host.path().join("data");
    engine.directories.collect_layers(Duration::ZERO).unwrap();
    let all = engine.workspaces.list_workspaces(None, 0).unwrap();
    let with_directory: BTreeSet<String> = all
        .iter()
        .filter(|one| one.materialized)
        .map(|one| one.id.to_string())
        .collect();
    assert_eq!(names_in(&data.join("workspaces")), with_directory);
    let private: BTreeSet<String> = names_in(&data.join("forks"))
        .iter()
        .map(|name| name.rsplit_once('.').unwrap().0.to_owned())
        .collect();
    assert_eq!(private, with_directory, "private directories");
    assert_eq!(
        names_in(&data.join("forks")).len(),
        private.len(),
        "two private directories of one fork: {:?}",
        names_in(&data.join("forks"))
    );
    let mut tmp = names_in(&data.join("tmp"));
    // Made once to find out whether the file system ignores case.
    tmp.remove("case-probe");
    assert!(tmp.is_empty(), "left in tmp: {tmp:?}");
    let store = SqliteStore::open(&data.join("offshoot.db"), SqliteOptions::default()).unwrap();
    let mut rows = BTreeSet::new();
    store
        .read(&mut |tx| {
            rows = tx.layers()?.into_iter().map(|row| row.name).collect();
            Ok(())
        })
        .unwrap();
    let layers: BTreeSet<String> = names_in(&data.join("layers"))
        .iter()
        .map(|name| name.strip_suffix(".complete").unwrap_or(name).to_owned())
        .collect();
    assert!(
        layers.is_subset(&rows),
        "layers of nobody: {:?}",
        layers.difference(&rows)
    );
    for mount in host.mounts() {
        let name = mount.file_name().unwrap().to_str().unwrap().to_owned();
        let stale =
            mount.parent() != Some(&data.join("workspaces")) || !with_directory.contains(&name);
        assert!(!stale, "a stale mount at {}", mount.display());
    }
}

/// A project with many idle forks, some of them mounted.
fn prepare(host: &HostDir, provider: ProviderName, crowd: usize) {
    let engine = open(host.path(), provider);
    let project: ProjectId = PROJECT.parse().unwrap();
    engine.projects.create_project(&project, &user()).unwrap();
    for (path, text) in [("README", "read me\n"), ("src/a/b", "deep\n")] {
        let content = Content::Bytes(text.as_bytes());
        engine
            .projects
            .put_in_project(
                &project,
                &p(path),
                content,
                &WriteOptions::default(),
                &user(),
            )
            .unwrap();
    }
    for number in 0..crowd {
        let options = ForkOptions {
            id: Some(format!("crowd{number}").parse().unwrap()),
            ..ForkOptions::default()
        };
        if number % 8 == 0 {
            engine.forks.fork_out(&project, &options, &user()).unwrap();
        } else {
            engine.forks.fork(&project, &options, &user()).unwrap();
        }
    }
}

struct Run<'a> {
    host: &'a HostDir,
    provider: ProviderName,
    rng: Rng,
    facts: Facts,
    acknowledged: usize,
    slowest: Duration,
}

impl Run<'_> {
    /// One child from its start to its kill, and all checks afterwards.
    fn kill_once(&mut self, seed: usize) {
        let child = Child::start(
            "fork_kill",
            &seed.to_string(),
            self.host.path(),
            self.provider,
        );
        if self.rng.chance(850) {
            child.hear(Duration::from_secs(60)).expect("it starts");
        }
        std::thread::sleep(Duration::from_micros(self.rng.below(400_000) as u64));
        let said = child.kill();
        let last = said[said.len().saturating_sub(6)..].join(", ");
        let mut begun: Option<String> = None;
        for line in said {
            if let Some(operation) = line.strip_prefix("begin ") {
                begun = Some(operation.to_owned());
            } else if line == "ack" {
                let words = begun.take().unwrap();
                self.facts.done(&words.split(' ').collect::<Vec<_>>());
                self.acknowledged += 1;
            } else if line == "refused" {
                begun = None;
            } else {
                assert_eq!(line, "ready", "{line}");
            }
        }
        let started = Instant::now();
        let engine = open(self.host.path(), self.provider);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(5), "opening took {took:?}");
        self.slowest = self.slowest.max(took);
        let context = format!("kill {seed}, interrupted: {begun:?}, after {last}");
        println!("{context}");
        if let Some(line) = begun {
            self.facts
                .settle(&engine, &line.split(' ').collect::<Vec<_>>());
        }
        engine.context.wait_for_jobs();
        no_orphans(self.host, &engine);
        let report = engine.upkeep.check().unwrap();
        assert!(report.problems.is_empty(), "{context}: {report:?}");
        self.facts.follow_asked(&engine);
        self.facts.check(&engine);
        if self.rng.chance(500) {
            self.work_off(&engine);
        }
        assert_eq!(engine.forks.remount_handed_out().unwrap(), 0);
        no_orphans(self.host, &engine);
    }

    /// A server does the requested merges at its start.
    fn work_off(&mut self, engine: &Engine) {
        assert_eq!(engine.merges.run_waiting_completions().unwrap(), 0);
        engine.context.wait_for_jobs();
        self.facts.follow_asked(engine);
        self.facts.check(engine);
    }
}

#[test]
fn fork_kill_at_random_points() {
    let (kills, crowd): (usize, usize) = if soak() { (200, 1_000) } else { (15, 50) };
    let place = HostDir::new();
    let mut providers = working(place.path());
    providers.retain(|name| *name != ProviderName::Reflink);
    for provider in providers.iter().copied() {
        let host = HostDir::new();
        prepare(&host, provider, crowd);
        let mut run = Run {
            host: &host,
            provider,
            rng: Rng::new(2026),
            facts: Facts::default(),
            acknowledged: 0,
            slowest: Duration::ZERO,
        };
        let share = kills.div_ceil(providers.len());
        for seed in 0..share {
            run.kill_once(seed);
        }
        assert!(run.acknowledged > share, "the children did nothing");
        println!(
            "soak: fork-kill: {share} kills with {provider}, {} acknowledged operations, {} files in the project, {crowd} idle forks, slowest start {} ms, no stale mount, no orphan, check clean",
            run.acknowledged,
            run.facts.project.len(),
            run.slowest.as_millis()
        );
    }
}
