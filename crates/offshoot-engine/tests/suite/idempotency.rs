//! Requests that are repeated with their key have one result: at the same time, after a failure of
//! any call, after a kill, and by another process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::fixture::child::{Child, Task, say, task};
use crate::fixture::{TestEngine, open, p, user};
use offshoot_core::{Error, ErrorCode, Layout, Operator, ProjectId, Result, WorkspaceId};
use offshoot_engine::{
    Access, Content, EarlierResult, Engine, ForkOptions, ImportOptions, Principal, ProjectSource,
    Quota, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_store::Durability;
use offshoot_testkit::{Rng, soak};
use serde_json::json;

/// The kinds of requests that take a key.
const KINDS: [&str; 8] = [
    "workspace",
    "copy",
    "project",
    "import",
    "forks",
    "spawn",
    "spawn-fork",
    "uploads",
];

/// The most calls of any request here; more mean that the test is broken.
const MOST_CALLS: u64 = 3_000;

fn access(engine: &Engine) -> Access {
    let owner = Principal::owner(Operator::user());
    engine.access.acting_as(Arc::new(owner), None)
}

/// What every request here needs.
fn prepare(test: &TestEngine) {
    test.project("web");
    for name in ["source", "shared"] {
        let id: WorkspaceId = name.parse().unwrap();
        let quota = Quota::default();
        let made = test.engine.workspaces.create_workspace(
            Some(id.clone()),
            Layout::Plain,
            quota,
            &user(),
        );
        made.unwrap();
        let content = Content::Bytes(b"begun");
        let options = WriteOptions::default();
        test.engine
            .workspaces
            .write_file(&id, &p("begun"), content, &options, &user())
            .unwrap();
    }
    test.engine
        .workspaces
        .snapshot(&"source".parse().unwrap(), None, false, &user())
        .unwrap();
    let dir = test.host.path().join("import");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("file"), "content").unwrap();
    test.engine.context.wait_for_jobs();
}

fn name_of(made: &EarlierResult) -> Result<String> {
    Ok(match made {
        EarlierResult::Workspace(id) => id.to_string(),
        EarlierResult::Project(id) => id.to_string(),
        EarlierResult::Agent(id) => id.to_string(),
        EarlierResult::File(written) => written.path.to_text(),
    })
}

/// Sends a request with a key. Returns the names of its results, and whether this call made them.
fn ask(engine: &Engine, host: &Path, kind: &str, key: &str) -> Result<(Vec<String>, bool)> {
    let access = access(engine);
    let asked = json!({ "kind": kind });
    let count = match kind {
        "forks" | "uploads" => 3,
        _ => 1,
    };
    let shared: WorkspaceId = "shared".parse()?;
    access.once(
        kind,
        Some(key.as_bytes()),
        &asked,
        count,
        name_of,
        |access, before| {
            let web: ProjectId = "web".parse()?;
            Ok(match kind {
                "workspace" => {
                    let made = access.create_workspace(None, Layout::Session, Quota::default())?;
                    made.id.to_string()
                }
                "copy" => {
                    let snapshots = engine.workspaces.snapshots(&"source".parse()?, 1)?;
                    let from = snapshots[0].id.to_string();
                    let made = access.create_workspace_from(None, &from, Quota::default())?;
                    made.id.to_string()
                }
                "project" => {
                    let id: ProjectId = format!("p-{key}").parse()?;
                    access.create_project(&id)?.id.to_string()
                }
                "import" => {
                    let id: ProjectId = format!("i-{key}").parse()?;
                    let source = ProjectSource {
                        path: &host.join("import"),
                        files: true,
                        options: ImportOptions::default(),
                    };
                    access.import_project(&id, &source)?.project.id.to_string()
                }
                "forks" => {
                    let (fork, _) = access.fork(&web, &ForkOptions::default())?;
                    fork.workspace.id.to_string()
                }
                "spawn" => access
                    .spawn(None, None, "helper", None, None)?
                    .id
                    .to_string(),
                "spawn-fork" => {
                    let agent = access.spawn(None, None, "coder", Some(&web), None)?;
                    agent.id.to_string()
                }
                "uploads" => {
                    let bytes = format!("{key} {}", before.len());
                    let content = Content::Bytes(bytes.as_bytes());
                    let options = WriteOptions::default();
                    // All three requests ask for the same name, so that all but the first get
                    // another one.
                    let name = format!("{key}.txt");
                    let written =
                        access.upload(&shared, None, name.as_bytes(), content, &options)?;
                    written.path.to_text()
                }
                other => return Err(Error::invalid(other)),
            })
        },
    )
}

/// Everything that requests of these kinds make.
fn all_things(engine: &Engine) -> Vec<String> {
    let workspaces = engine
        .workspaces
        .list_workspaces(None, 0)
        .unwrap()
        .into_iter();
    let mut all: Vec<String> = workspaces.map(|one| format!("w {}", one.id)).collect();
    let projects = engine.projects.list_projects(None, 0).unwrap().into_iter();
    all.extend(projects.map(|one| format!("p {}", one.id)));
    let agents = engine.access.agents().unwrap().into_iter();
    all.extend(agents.map(|one| format!("a {}", one.id)));
    let files = engine
        .workspaces
        .walk_files(&"shared".parse().unwrap(), None, 1_000, &|_| true);
    let files = files.unwrap().into_iter();
    all.extend(files.map(|file| format!("f {}", file.path.to_text())));
    all.sort();
    all
}

/// How many more results there are after a request of this kind.
fn size_of(kind: &str) -> usize {
    match kind {
        "forks" | "uploads" => 3,
        "spawn" | "spawn-fork" => 2,
        _ => 1,
    }
}

#[test]
fn each_kind_is_made_once_and_found_again() {
    let mut test = TestEngine::in_memory(ProviderName::Copy);
    prepare(&test);
    for kind in KINDS {
        let before = all_things(&test.engine).len();
        let host = test.host.path().to_owned();
        let (names, made) = ask(&test.engine, &host, kind, "k").unwrap();
        assert!(made, "{kind}");
        let after = all_things(&test.engine);
        assert_eq!(after.len(), before + size_of(kind), "{kind}: {after:?}");
        test.reopen();
        let again = ask(&test.engine, &host, kind, "k").unwrap();
        assert_eq!(again, (names, false), "{kind}");
        assert_eq!(all_things(&test.engine), after, "{kind}");
        // Another key makes another request, but the name is taken.
        if !["project", "import"].contains(&kind) {
            assert!(ask(&test.engine, &host, kind, "other").unwrap().1, "{kind}");
        }
    }
    test.check();
}

#[test]
fn a_key_is_refused_for_another_request_and_is_of_its_owner() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let make = |access: &Access, content: serde_json::Value| {
        let key = Some(&b"k"[..]);
        access.once("workspace", key, &content, 1, name_of, |access, _| {
            let made = access.create_workspace(None, Layout::Plain, Quota::default())?;
            Ok(made.id.to_string())
        })
    };
    let mine = access(&test.engine);
    let (names, _) = make(&mine, json!({ "a": 1, "b": null })).unwrap();
    assert_eq!(make(&mine, json!({ "a": 1 })).unwrap(), (names, false));
    let refused = make(&mine, json!({ "a": 2 })).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    let other = Principal::owner(Operator::new("other"));
    let other = test.engine.access.acting_as(Arc::new(other), None);
    assert!(make(&other, json!({ "a": 2 })).unwrap().1);
    assert_eq!(
        test.engine
            .workspaces
            .list_workspaces(None, 0)
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn what_is_gone_is_made_again_and_never_taken_for_another() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    prepare(&test);
    let host = test.host.path().to_owned();
    let ask = |kind: &str| ask(&test.engine, &host, kind, "k").unwrap();
    // Some of many are removed; the others stay.
    let (names, _) = ask("forks");
    let second: WorkspaceId = names[1].parse().unwrap();
    test.engine
        .workspaces
        .delete_workspace(&second, &user())
        .unwrap();
    test.engine.context.wait_for_jobs();
    let named = |name: &str, id: WorkspaceId| {
        let quota = Quota::default();
        let made = test
            .engine
            .workspaces
            .create_workspace(Some(id), Layout::Plain, quota, &user());
        assert_eq!(made.unwrap().id.as_str(), name);
    };
    // Another workspace takes the name.
    named(&names[1], second.clone());
    let (again, made) = ask("forks");
    assert!(made && again[1] != names[1]);
    assert_eq!((&again[0], &again[2]), (&names[0], &names[2]));
    assert_eq!(ask("forks"), (again, false));
    // A workspace and a project.
    for kind in ["workspace", "project"] {
        let (names, _) = ask(kind);
        match kind {
            "workspace" => drop(
                test.engine
                    .workspaces
                    .delete_workspace(&names[0].parse().unwrap(), &user())
                    .unwrap(),
            ),
            _ => drop(
                test.engine
                    .projects
                    .delete_project(&names[0].parse().unwrap(), &user())
                    .unwrap(),
            ),
        }
        let (again, made) = ask(kind);
        assert!(made, "{kind}");
        assert_eq!(again != names, kind == "workspace");
        assert_eq!(ask(kind), (again, false), "{kind}");
    }
    // An agent that has ended.
    let (agent, _) = ask("spawn");
    test.engine
        .access
        .end_agent(&agent[0].parse().unwrap(), &user())
        .unwrap();
    let (again, made) = ask("spawn");
    assert!(made && again != agent);
    // The answer for an upload stays as it was, also after the file has moved.
    let (files, _) = ask("uploads");
    let shared: WorkspaceId = "shared".parse().unwrap();
    let (from, to) = (p(&files[0]), p("elsewhere"));
    test.engine
        .workspaces
        .move_file(&shared, &from, &to, &user())
        .unwrap();
    assert_eq!(ask("uploads"), (files.clone(), false));
    // A file in an earlier workspace of that name does not count.
    test.engine
        .workspaces
        .delete_workspace(&shared, &user())
        .unwrap();
    test.engine.context.wait_for_jobs();
    named("shared", shared.clone());
    assert_eq!(ask("uploads"), (files, true));
    test.check();
}

#[test]
fn purging_takes_the_notes() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    prepare(&test);
    let host = test.host.path().to_owned();
    let ask = |kind: &str| ask(&test.engine, &host, kind, "k").unwrap();
    let (names, _) = ask("forks");
    let first = names[0].parse().unwrap();
    test.engine.upkeep.purge_workspace(&first).unwrap();
    let (again, made) = ask("forks");
    assert!(made && again[0] != names[0] && again[1..] == names[1..]);
    let (agents, _) = ask("spawn-fork");
    let own = agents[0].parse().unwrap();
    test.engine.upkeep.purge_workspace(&own).unwrap();
    assert!(ask("spawn-fork").1);
    let (files, _) = ask("uploads");
    let shared = "shared".parse().unwrap();
    test.engine
        .upkeep
        .purge_path(&shared, &p(&files[0]), &user())
        .unwrap();
    test.engine.upkeep.purge_workspace(&shared).unwrap();
    test.check();
}

/// A request whose n-th call fails is completed by its repetition, and nothing is made twice.
#[test]
fn a_failure_of_any_call_makes_nothing_twice() {
    for kind in KINDS {
        let mut test = TestEngine::in_memory(ProviderName::Copy);
        prepare(&test);
        let host = test.host.path().to_owned();
        let mut things = all_things(&test.engine).len();
        let step = match kind {
            // The next name depends on the copies before it, which takes more calls.
            "copy" => 7,
            _ => 1,
        };
        for (round, n) in (1..).step_by(step).enumerate() {
            assert!(n < MOST_CALLS, "the fault strikes again and again");
            // A disk that stays away leaves what a kill leaves.
            match round % 2 {
                0 => test.plan.arm(n),
                _ => test.plan.arm_from(n),
            }
            let key = format!("{n}");
            let first = ask(&test.engine, &host, kind, &key);
            test.engine.context.wait_for_jobs();
            let struck = test.plan.disarm();
            assert!(struck || first.is_ok(), "{kind} {n}: {first:?}");
            if round % 3 == 0 {
                test.reopen();
            }
            let (names, _) = ask(&test.engine, &host, kind, &key).unwrap();
            if let Ok((first, _)) = first {
                assert_eq!(first, names, "{kind} {n}");
            }
            test.engine.context.wait_for_jobs();
            let now = all_things(&test.engine);
            things += size_of(kind);
            assert_eq!(now.len(), things, "{kind}, call {n}: {now:?}");
            if !struck {
                println!("{kind}: {n} calls");
                break;
            }
        }
        test.reopen();
        test.check();
    }
}

#[test]
fn repetitions_of_many_threads_make_one_thing() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    prepare(&test);
    for kind in KINDS {
        let before = all_things(&test.engine).len();
        let answers: Vec<_> = std::thread::scope(|scope| {
            let ask = || ask(&test.engine, test.host.path(), kind, "k").unwrap();
            let all: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|(names, _)| *names == answers[0].0));
        assert_eq!(
            answers.iter().filter(|(_, made)| *made).count(),
            1,
            "{kind}"
        );
        let after = all_things(&test.engine);
        assert_eq!(after.len(), before + size_of(kind), "{kind}: {after:?}");
    }
    test.check();
}

#[test]
fn child() {
    if let Some(task) = task() {
        work(&task);
    }
}

/// Sends requests of all kinds with keys of its task, one after the other, and prints the results.
fn work(task: &Task) {
    let engine = open(&task.host, task.provider);
    let key = &task.words[0];
    say("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    for kind in KINDS {
        match ask(&engine, &task.host, kind, key) {
            Ok((names, made)) => say(&format!("{kind} {made} {}", names.join(" "))),
            Err(error) => say(&format!("failed {kind}: {error:?}")),
        }
    }
    say("end");
}

fn start(test: &TestEngine, key: &str) -> Child {
    let mut child = Child::start("idempotency", key, test.host.path(), test.provider);
    let said = child.hear(Duration::from_secs(120));
    assert_eq!(said.as_deref(), Some("ready"));
    child.tell("go");
    child
}

#[test]
fn repetitions_of_two_processes_make_one_thing() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    prepare(&test);
    let before = all_things(&test.engine).len();
    let children = [start(&test, "k"), start(&test, "k")];
    let said: Vec<Vec<String>> = children.iter().map(Child::rest).collect();
    for (n, kind) in KINDS.iter().enumerate() {
        let words = |child: usize| -> Vec<&str> { said[child][n].split(' ').collect() };
        let (one, other) = (words(0), words(1));
        assert_eq!((one[0], other[0]), (*kind, *kind));
        assert_eq!(one[2..], other[2..], "{kind}");
        assert_ne!(one[1], other[1], "{kind}: one of the two made it");
    }
    let made: usize = KINDS.iter().map(|kind| size_of(kind)).sum();
    let after = all_things(&test.engine);
    assert_eq!(after.len(), before + made, "{after:?}");
    for child in children {
        child.end();
    }
    test.check();
}

/// A process that is killed at any moment leaves nothing that its repetition makes twice.
#[test]
fn a_kill_at_any_moment_makes_nothing_twice() {
    let mut test = TestEngine::in_memory(ProviderName::Copy);
    prepare(&test);
    let mut things = all_things(&test.engine).len();
    let mut rng = Rng::new(17);
    let rounds = if soak() { 200 } else { 12 };
    for round in 0..rounds {
        let key = format!("k{round}");
        test.close();
        let child = start(&test, &key);
        // The kills are spread from the first kind to the last.
        let until = KINDS[round % KINDS.len()];
        while let Some(said) = child.hear(Duration::from_secs(120)) {
            assert!(!said.starts_with("failed"), "{said}");
            if said.starts_with(until) {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(rng.below(20_000) as u64));
        child.kill();
        test.reopen();
        for kind in KINDS {
            let host = test.host.path().to_owned();
            ask(&test.engine, &host, kind, &key).unwrap();
            things += size_of(kind);
        }
        test.engine.context.wait_for_jobs();
        let now = all_things(&test.engine);
        assert_eq!(now.len(), things, "round {round}: {now:?}");
    }
    test.check();
}

/// After a power cut a fork is restored from the file beside it, but not a fork that was being made
/// under a key: its rows are durable before the answer, so without them there was no answer, and
/// the repetition makes one.
#[test]
fn a_fork_that_was_never_answered_is_not_brought_back_beside_its_repetition() {
    let mut test = TestEngine::new(ProviderName::Copy);
    prepare(&test);
    let host = test.host.path().to_owned();
    let (keyed, _) = ask(&test.engine, &host, "forks", "k").unwrap();
    let (plain, _) = test.fork(&"web".parse().unwrap(), "plain");
    test.close();
    // As if the power had failed before the rows were on disk.
    let store = test.store();
    let mut names: Vec<&str> = keyed.iter().map(String::as_str).collect();
    names.push(plain.as_str());
    for name in &names {
        let lost = store.write(Durability::Synced, |tx| {
            tx.put_setting("boot_id", "that of another start")?;
            let row = tx.workspace(&name.parse()?)?.unwrap();
            tx.erase_workspace(row.key)
        });
        lost.unwrap();
        let note = host.join(format!("data/forks/{name}.1/fork.json"));
        let text = std::fs::read_to_string(&note).unwrap();
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["boot"] = json!("another");
        std::fs::write(&note, value.to_string()).unwrap();
    }
    drop(store);
    test.reopen();
    test.engine.context.wait_for_jobs();
    let there = |name: &&&str| {
        test.engine
            .workspaces
            .workspace(&name.parse().unwrap())
            .is_ok()
    };
    let found: Vec<_> = names.iter().filter(there).collect();
    assert_eq!(found, [&plain.as_str()]);
    let before = all_things(&test.engine).len();
    assert!(ask(&test.engine, &host, "forks", "k").unwrap().1);
    assert_eq!(all_things(&test.engine).len(), before + 3);
    test.check();
}
