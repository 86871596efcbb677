//! Pulls, pushes, merges and commits of a person at the same time, and kills in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use offshoot_core::{ErrorCode, ProjectId};
use offshoot_engine::{
    CompleteOptions, Engine, ForkOptions, PullOptions, PushOptions, WriteOptions,
};
use offshoot_testkit::{Rng, git_command, soak};

use super::repository::Linked;
use crate::fixture::child::{Child, Task, say, task};
use crate::fixture::{open, p, user};

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn child() {
    if let Some(task) = task() {
        pull_and_push(&task);
    }
}

/// Pulls and pushes until it is killed.
fn pull_and_push(task: &Task) {
    let engine = open(&task.host, task.provider);
    let app: ProjectId = "app".parse().unwrap();
    say("ready");
    loop {
        let pulled = engine
            .links
            .pull(&app, &PullOptions::default(), &mut |_| {}, &user());
        let pushed = engine
            .links
            .push(&app, &PushOptions::default(), &mut |_| {});
        if let (Ok(_), Ok(_)) = (pulled, pushed) {
            say("round");
        }
    }
}

/// The work of one agent, merged.
fn merge_one(engine: &Engine, app: &ProjectId, name: &str) {
    let options = ForkOptions::default();
    let fork = engine.forks.fork(app, &options, &user()).unwrap();
    let id = fork.workspace.id;
    let content = offshoot_engine::Content::Bytes(name.as_bytes());
    (engine.workspaces)
        .write_file(&id, &p(name), content, &WriteOptions::default(), &user())
        .unwrap();
    let done = engine
        .merges
        .complete(&id, &CompleteOptions::default(), &user());
    assert!(done.unwrap().conflicts.is_empty());
}

impl Linked {
    /// A commit of the person that never waits for the work tree.
    fn commit_file(&self, name: &str) {
        std::fs::write(self.repo.join(name), name).unwrap();
        for args in [&["add", name][..], &["commit", "-q", "-m", name]] {
            let done = git_command(&self.repo).args(args).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        }
    }

    /// Every file of the agents and of the person is in the project and on the branch.
    fn holds(&self, names: &[String]) {
        self.pull();
        self.push(None).unwrap();
        let listed = self.git(&["ls-tree", "--name-only", "offshoot/main"]);
        let there: Vec<&str> = listed.lines().collect();
        for name in names {
            assert_eq!(self.text(name), *name);
            assert!(
                there.contains(&name.as_str()),
                "{name} is not on the branch"
            );
        }
        let tip = self.at("main").to_hex();
        self.git(&["merge-base", "--is-ancestor", &tip, "offshoot/main"]);
    }
}

/// A person commits, agents are merged, and two others pull and push all the time.
#[test]
fn link_race_loses_no_commit_and_no_merge() {
    let rounds = if soak() { 1_000 } else { 12 };
    let linked = Linked::new();
    let (engine, app) = (&*linked.test.engine, &linked.app);
    let over = AtomicBool::new(false);
    let mut names: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        let pulls = scope.spawn(|| {
            let mut count = 0;
            while !over.load(Ordering::Relaxed) {
                let pulled = linked.pull();
                assert!(pulled.conflicts.is_empty(), "{pulled:?}");
                count += 1;
            }
            count
        });
        let pushes = scope.spawn(|| {
            let mut count = 0;
            while !over.load(Ordering::Relaxed) {
                match linked.push(None) {
                    Ok(_) => count += 1,
                    Err(error) => assert_eq!(error.code(), ErrorCode::PreconditionFailed),
                }
            }
            count
        });
        let agents = scope.spawn(|| {
            for round in 0..rounds {
                merge_one(engine, app, &format!("agent-{round}"));
            }
        });
        for round in 0..rounds {
            linked.commit_file(&format!("person-{round}"));
        }
        let worked = agents.join();
        over.store(true, Ordering::Relaxed);
        let counts = (pulls.join().unwrap(), pushes.join().unwrap());
        worked.unwrap();
        println!("soak: {rounds} commits beside {rounds} merges, {counts:?} pulls and pushes");
    });
    for round in 0..rounds {
        names.extend([format!("agent-{round}"), format!("person-{round}")]);
    }
    linked.holds(&names);
    linked.check();
}

/// Two programs move the same branch: ours goes forward or not at all.
#[test]
fn link_race_with_a_branch_that_git_moves() {
    let rounds = if soak() { 1_000 } else { 15 };
    let linked = Linked::new();
    let (mut ours, mut refused) = (0, 0);
    for round in 0..rounds {
        linked.test.put(&linked.app, "agent", &format!("{round}\n"));
        let commit = linked.git(&[
            "commit-tree",
            "main^{tree}",
            "-p",
            "main",
            "-m",
            &format!("by git {round}"),
        ]);
        linked.git(&["update-ref", "refs/heads/side", "main"]);
        let main = linked.at("main").to_hex();
        std::thread::scope(|scope| {
            let moved = scope.spawn(|| {
                let args = ["update-ref", "refs/heads/side", &commit, &main];
                let output = git_command(&linked.repo).args(args).output().unwrap();
                output.status.success()
            });
            let pushed = linked.push(Some("side"));
            let moved = moved.join().unwrap();
            let side = linked.at("side");
            match pushed {
                Ok(_) => {
                    ours += 1;
                    assert!(!moved, "both say that they moved it");
                    assert_eq!(side, linked.head());
                }
                Err(error) => {
                    refused += 1;
                    let code = error.code();
                    let expected = [ErrorCode::PreconditionFailed, ErrorCode::AlreadyExists];
                    assert!(expected.contains(&code), "{error}");
                    assert!(side.to_hex() == commit || side.to_hex() == main);
                }
            }
        });
    }
    println!("soak: {rounds} pushes beside git: {ours} moved the branch, {refused} did not");
    linked.check();
}

/// `kill -9` while commits come in and go out: refs and project are as before, or whole.
#[test]
fn link_kill_leaves_both_sides_whole() {
    let rounds = if soak() { 50 } else { 5 };
    let mut linked = Linked::new();
    let mut rng = Rng::new(7);
    let mut names = Vec::new();
    for round in 0..rounds {
        let (host, provider) = (linked.test.host.path().to_owned(), linked.test.provider);
        linked.test.close();
        let child = Child::start("link::races", "run", &host, provider);
        assert_eq!(child.hear(LIMIT).as_deref(), Some("ready"));
        let engine = open(&host, provider);
        for step in 0..2 {
            let (agent, person) = (format!("a-{round}-{step}"), format!("p-{round}-{step}"));
            merge_one(&engine, &linked.app, &agent);
            linked.commit_file(&person);
            names.extend([agent, person]);
        }
        // The moment of the kill is what is tried.
        std::thread::sleep(Duration::from_millis(rng.below(150) as u64));
        child.kill();
        drop(engine);
        linked.test.reopen();
        // A lock that git would leave behind, too, is removed as git says.
        let lock = linked.repo.join(".git/refs/heads/offshoot/main.lock");
        let _ = std::fs::remove_file(lock);
        // Looking at everything costs as much as all rounds before.
        if round % 20 == 0 {
            linked.check();
        }
        let last = names.len() - 4;
        linked.holds(&names[last..]);
    }
    linked.holds(&names);
    linked.check();
    println!("soak: {rounds} kills of a process that pulls and pushes");
}
