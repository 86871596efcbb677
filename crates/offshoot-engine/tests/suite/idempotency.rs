//! Requests that are repeated with their key make what they ask for once: at the same time, after a
//! failure of any call, after a kill, and by another process.

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

/// What can be asked for with a key.
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

/// No request here makes more calls than this: beyond it the test itself is broken.
const MOST_CALLS: u64 = 3_000;

fn access(engine: &Engine) -> Access {
    let owner = Principal::owner(Operator::user());
    engine.access.acting_as(Arc::new(owner), None)
}

/// What every request here needs.
fn prepare(rig: &TestEngine) {
    rig.project("web");
    for name in ["source", "shared"] {
        let id: WorkspaceId = name.parse().unwrap();
        let quota = Quota::default();
        let made =
            rig.engine
                .workspaces
                .create_workspace(Some(id.clone()), Layout::Plain, quota, &user());
        made.unwrap();
        let content = Content::Bytes(b"begun");
        let options = WriteOptions::default();
        rig.engine
            .workspaces
            .write_file(&id, &p("begun"), content, &options, &user())
            .unwrap();
    }
    rig.engine
        .workspaces
        .snapshot(&"source".parse().unwrap(), None, false, &user())
        .unwrap();
    let dir = rig.host.path().join("import");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("file"), "content").unwrap();
    rig.engine.context.wait_for_jobs();
}

fn name_of(made: &EarlierResult) -> Result<String> {
    Ok(match made {
        EarlierResult::Workspace(id) => id.to_string(),
        EarlierResult::Project(id) => id.to_string(),
        EarlierResult::Agent(id) => id.to_string(),
        EarlierResult::File(written) => written.path.to_text(),
    })
}

/// Asks for something with a key. Returns the names of what there is, and whether this made it.
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
                    // The same for all three of them, so that each but the first gets another.
                    let name = format!("{key}.txt");
                    let written = access.upload(&shared, name.as_bytes(), content, &options)?;
                    written.path.to_text()
                }
                other => return Err(Error::invalid(other)),
            })
        },
    )
}

/// All that requests of these kinds make.
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

/// How many more things there are when a request of the kind is done.
fn size_of(kind: &str) -> usize {
    match kind {
        "forks" | "uploads" => 3,
        "spawn" | "spawn-fork" => 2,
        _ => 1,
    }
}

#[test]
fn each_kind_is_made_once_and_found_again() {
    let mut rig = TestEngine::in_memory(ProviderName::Copy);
    prepare(&rig);
    for kind in KINDS {
        let before = all_things(&rig.engine).len();
        let host = rig.host.path().to_owned();
        let (names, made) = ask(&rig.engine, &host, kind, "k").unwrap();
        assert!(made, "{kind}");
        let after = all_things(&rig.engine);
        assert_eq!(after.len(), before + size_of(kind), "{kind}: {after:?}");
        rig.reopen();
        let again = ask(&rig.engine, &host, kind, "k").unwrap();
        assert_eq!(again, (names, false), "{kind}");
        assert_eq!(all_things(&rig.engine), after, "{kind}");
        // Under another key it is another request, but a name is taken.
        if !["project", "import"].contains(&kind) {
            assert!(ask(&rig.engine, &host, kind, "other").unwrap().1, "{kind}");
        }
    }
    rig.check();
}

#[test]
fn a_key_is_refused_for_another_request_and_is_of_its_owner() {
    let rig = TestEngine::in_memory(ProviderName::Copy);
    let make = |access: &Access, content: serde_json::Value| {
        let key = Some(&b"k"[..]);
        access.once("workspace", key, &content, 1, name_of, |access, _| {
            let made = access.create_workspace(None, Layout::Plain, Quota::default())?;
            Ok(made.id.to_string())
        })
    };
    let mine = access(&rig.engine);
    let (names, _) = make(&mine, json!({ "a": 1, "b": null })).unwrap();
    assert_eq!(make(&mine, json!({ "a": 1 })).unwrap(), (names, false));
    let refused = make(&mine, json!({ "a": 2 })).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    let other = Principal::owner(Operator::new("other"));
    let other = rig.engine.access.acting_as(Arc::new(other), None);
    assert!(make(&other, json!({ "a": 2 })).unwrap().1);
    assert_eq!(
        rig.engine
            .workspaces
            .list_workspaces(None, 0)
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn what_is_gone_is_made_again_and_never_taken_for_another() {
    let rig = TestEngine::in_memory(ProviderName::Copy);
    prepare(&rig);
    let host = rig.host.path().to_owned();
    let ask = |kind: &str| ask(&rig.engine, &host, kind, "k").unwrap();
    // Some of many: the others stay what they are.
    let (names, _) = ask("forks");
    let second: WorkspaceId = names[1].parse().unwrap();
    rig.engine
        .workspaces
        .delete_workspace(&second, &user())
        .unwrap();
    rig.engine.context.wait_for_jobs();
    let named = |name: &str, id: WorkspaceId| {
        let quota = Quota::default();
        let made = rig
            .engine
            .workspaces
            .create_workspace(Some(id), Layout::Plain, quota, &user());
        assert_eq!(made.unwrap().id.as_str(), name);
    };
    // Somebody takes the name.
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
                rig.engine
                    .workspaces
                    .delete_workspace(&names[0].parse().unwrap(), &user())
                    .unwrap(),
            ),
            _ => drop(
                rig.engine
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
    // An agent that ended.
    let (agent, _) = ask("spawn");
    rig.engine
        .access
        .end_agent(&agent[0].parse().unwrap(), &user())
        .unwrap();
    let (again, made) = ask("spawn");
    assert!(made && again != agent);
    // What was uploaded is told as it was, also when the file has moved since.
    let (files, _) = ask("uploads");
    let shared: WorkspaceId = "shared".parse().unwrap();
    let (from, to) = (p(&files[0]), p("elsewhere"));
    rig.engine
        .workspaces
        .move_file(&shared, &from, &to, &user())
        .unwrap();
    assert_eq!(ask("uploads"), (files.clone(), false));
    // Not if it was in a workspace of that name before.
    rig.engine
        .workspaces
        .delete_workspace(&shared, &user())
        .unwrap();
    rig.engine.context.wait_for_jobs();
    named("shared", shared.clone());
    assert_eq!(ask("uploads"), (files, true));
    rig.check();
}

#[test]
fn purging_takes_the_notes() {
    let rig = TestEngine::in_memory(ProviderName::Copy);
    prepare(&rig);
    let host = rig.host.path().to_owned();
    let ask = |kind: &str| ask(&rig.engine, &host, kind, "k").unwrap();
    let (names, _) = ask("forks");
    let first = names[0].parse().unwrap();
    rig.engine.upkeep.purge_workspace(&first, &user()).unwrap();
    let (again, made) = ask("forks");
    assert!(made && again[0] != names[0] && again[1..] == names[1..]);
    let (agents, _) = ask("spawn-fork");
    let own = agents[0].parse().unwrap();
    rig.engine.upkeep.purge_workspace(&own, &user()).unwrap();
    assert!(ask("spawn-fork").1);
    let (files, _) = ask("uploads");
    let shared = "shared".parse().unwrap();
    rig.engine
        .upkeep
        .purge_path(&shared, &p(&files[0]), &user())
        .unwrap();
    rig.engine.upkeep.purge_workspace(&shared, &user()).unwrap();
    rig.check();
}

/// A request whose n-th call fails is done by its repetition, and no thing more.
#[test]
fn a_failure_of_any_call_makes_nothing_twice() {
    for kind in KINDS {
        let mut rig = TestEngine::in_memory(ProviderName::Copy);
        prepare(&rig);
        let host = rig.host.path().to_owned();
        let mut things = all_things(&rig.engine).len();
        let step = match kind {
            // The next one looks at the copies before it, which takes calls too.
            "copy" => 7,
            _ => 1,
        };
        for (round, n) in (1..).step_by(step).enumerate() {
            assert!(n < MOST_CALLS, "the fault strikes again and again");
            // That a disk stays away leaves what a kill leaves.
            match round % 2 {
                0 => rig.plan.arm(n),
                _ => rig.plan.arm_from(n),
            }
            let key = format!("{n}");
            let first = ask(&rig.engine, &host, kind, &key);
            rig.engine.context.wait_for_jobs();
            let struck = rig.plan.disarm();
            assert!(struck || first.is_ok(), "{kind} {n}: {first:?}");
            if round % 3 == 0 {
                rig.reopen();
            }
            let (names, _) = ask(&rig.engine, &host, kind, &key).unwrap();
            if let Ok((first, _)) = first {
                assert_eq!(first, names, "{kind} {n}");
            }
            rig.engine.context.wait_for_jobs();
            let now = all_things(&rig.engine);
            things += size_of(kind);
            assert_eq!(now.len(), things, "{kind}, call {n}: {now:?}");
            if !struck {
                println!("{kind}: {n} calls");
                break;
            }
        }
        rig.reopen();
        rig.check();
    }
}

#[test]
fn repetitions_of_many_threads_make_one_thing() {
    let rig = TestEngine::in_memory(ProviderName::Copy);
    prepare(&rig);
    for kind in KINDS {
        let before = all_things(&rig.engine).len();
        let answers: Vec<_> = std::thread::scope(|scope| {
            let ask = || ask(&rig.engine, rig.host.path(), kind, "k").unwrap();
            let all: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|(names, _)| *names == answers[0].0));
        assert_eq!(
            answers.iter().filter(|(_, made)| *made).count(),
            1,
            "{kind}"
        );
        let after = all_things(&rig.engine);
        assert_eq!(after.len(), before + size_of(kind), "{kind}: {after:?}");
    }
    rig.check();
}

#[test]
fn child() {
    if let Some(task) = task() {
        work(&task);
    }
}

/// Asks for all kinds with keys of its task, one after the other, and says what it got.
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

fn start(rig: &TestEngine, key: &str) -> Child {
    let mut child = Child::start("idempotency", key, rig.host.path(), rig.provider);
    let said = child.hear(Duration::from_secs(120));
    assert_eq!(said.as_deref(), Some("ready"));
    child.tell("go");
    child
}

#[test]
fn repetitions_of_two_processes_make_one_thing() {
    let rig = TestEngine::in_memory(ProviderName::Copy);
    prepare(&rig);
    let before = all_things(&rig.engine).len();
    let children = [start(&rig, "k"), start(&rig, "k")];
    let said: Vec<Vec<String>> = children.iter().map(Child::rest).collect();
    for (n, kind) in KINDS.iter().enumerate() {
        let words = |child: usize| -> Vec<&str> { said[child][n].split(' ').collect() };
        let (one, other) = (words(0), words(1));
        assert_eq!((one[0], other[0]), (*kind, *kind));
        assert_eq!(one[2..], other[2..], "{kind}");
        assert_ne!(one[1], other[1], "{kind}: one of the two made it");
    }
    let made: usize = KINDS.iter().map(|kind| size_of(kind)).sum();
    let after = all_things(&rig.engine);
    assert_eq!(after.len(), before + made, "{after:?}");
    for child in children {
        child.end();
    }
    rig.check();
}

/// A process that is killed at any moment leaves nothing that its repetition makes a second time.
#[test]
fn a_kill_at_any_moment_makes_nothing_twice() {
    let mut rig = TestEngine::in_memory(ProviderName::Copy);
    prepare(&rig);
    let mut things = all_things(&rig.engine).len();
    let mut rng = Rng::new(17);
    let rounds = if soak() { 200 } else { 12 };
    for round in 0..rounds {
        let key = format!("k{round}");
        rig.close();
        let child = start(&rig, &key);
        // From the first kind to the last, and somewhere in it.
        let until = KINDS[round % KINDS.len()];
        while let Some(said) = child.hear(Duration::from_secs(120)) {
            assert!(!said.starts_with("failed"), "{said}");
            if said.starts_with(until) {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(rng.below(20_000) as u64));
        child.kill();
        rig.reopen();
        for kind in KINDS {
            let host = rig.host.path().to_owned();
            ask(&rig.engine, &host, kind, &key).unwrap();
            things += size_of(kind);
        }
        rig.engine.context.wait_for_jobs();
        let now = all_things(&rig.engine);
        assert_eq!(now.len(), things, "round {round}: {now:?}");
    }
    rig.check();
}

/// After a power cut a fork is brought back from the file beside it, but not one that was being made
/// under a key: its rows wait for the disk, so without them nobody was answered, and the repetition
/// makes one.
#[test]
fn a_fork_that_was_never_answered_is_not_brought_back_beside_its_repetition() {
    let mut rig = TestEngine::new(ProviderName::Copy);
    prepare(&rig);
    let host = rig.host.path().to_owned();
    let (keyed, _) = ask(&rig.engine, &host, "forks", "k").unwrap();
    let (plain, _) = rig.fork(&"web".parse().unwrap(), "plain");
    rig.close();
    // As if the power had failed before the rows were on disk.
    let store = rig.store();
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
    rig.reopen();
    rig.engine.context.wait_for_jobs();
    let there = |name: &&&str| {
        rig.engine
            .workspaces
            .workspace(&name.parse().unwrap())
            .is_ok()
    };
    let found: Vec<_> = names.iter().filter(there).collect();
    assert_eq!(found, [&plain.as_str()]);
    let before = all_things(&rig.engine).len();
    assert!(ask(&rig.engine, &host, "forks", "k").unwrap().1);
    assert_eq!(all_things(&rig.engine).len(), before + 3);
    rig.check();
}
