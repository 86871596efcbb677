//! Ignored files are not read, not stored and in no history. They are removed with their directory,
//! and the answer counts them.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{Layout, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Content, Engine, IgnoredFiles, MergeSettings, Quota, Resolution, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_store::Landing;

/// What an agent has on disk after it has installed and built something.
const MODULES: u64 = 20_000;
const BUILT: u64 = 50 << 20;

/// Fills `node_modules` with so many files and `target` with so many incompressible bytes.
fn install_and_build(root: &Path, modules: u64, built: u64) -> u64 {
    let mut bytes = built;
    for dir in 0..modules / 100 {
        let dir_path = root.join(format!("node_modules/package-{dir}"));
        fs::create_dir_all(&dir_path).unwrap();
        for file in 0..100 {
            let content = format!("module.exports = [{dir}, {file}];\n");
            bytes += content.len() as u64;
            fs::write(dir_path.join(format!("{file}.js")), content).unwrap();
        }
    }
    fs::create_dir_all(root.join("target")).unwrap();
    let noise = fs::File::open("/dev/urandom").unwrap();
    let mut app = fs::File::create(root.join("target/app")).unwrap();
    std::io::copy(&mut noise.take(built), &mut app).unwrap();
    bytes
}

/// The bytes of everything that the store keeps.
fn stored(test: &TestEngine) -> u64 {
    let data = test.host.path().join("data");
    let below = |dir: &Path| -> u64 {
        let mut open = vec![dir.to_owned()];
        let mut sum = 0;
        while let Some(next) = open.pop() {
            for entry in fs::read_dir(next).unwrap().flatten() {
                let found = entry.metadata().unwrap();
                match found.is_dir() {
                    true => open.push(entry.path()),
                    false => sum += found.len(),
                }
            }
        }
        sum
    };
    let rows = ["offshoot.db", "offshoot.db-wal"].map(|name| {
        let found = fs::metadata(data.join(name));
        found.map_or(0, |found| found.len())
    });
    below(&data.join("blobs")) + rows.iter().sum::<u64>()
}

fn last_event(engine: &Engine) -> i64 {
    let events = engine.history.events_after(0, None, 0).unwrap();
    events.last().map_or(0, |event| event.row.seq)
}

fn put(engine: &Engine, id: &WorkspaceId, path: &str, content: &str) {
    let content = Content::Bytes(content.as_bytes());
    engine
        .workspaces
        .write_file(id, &p(path), content, &WriteOptions::default(), &user())
        .unwrap();
}

fn workspace(engine: &Engine, layout: Layout) -> (WorkspaceId, std::path::PathBuf) {
    let made = engine
        .workspaces
        .create_workspace(None, layout, Quota::default(), &user())
        .unwrap();
    let path = engine.workspaces.hand_out_path(&made.id).unwrap();
    (made.id, path)
}

fn synced(engine: &Engine, id: &WorkspaceId) -> Vec<String> {
    let synced = engine.sync.sync_workspace(id).unwrap();
    let changes = synced.changes.iter();
    changes
        .map(|one| format!("{} {}", one.op.as_str(), one.path))
        .collect()
}

#[test]
fn what_an_agent_installed_and_built_costs_nothing_when_it_goes() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("app");
    test.put(&project, ".gitignore", "node_modules/\ntarget/\n");
    let (fork, path) = test.fork(&project, "ada");
    fs::write(path.join("README"), "changed\n").unwrap();
    let bytes = install_and_build(&path, MODULES, BUILT);
    let (alone, alone_path) = workspace(&test.engine, Layout::Plain);
    fs::write(alone_path.join(".gitignore"), "node_modules/\ntarget/\n").unwrap();
    let alone_bytes = install_and_build(&alone_path, 1_000, 2 << 20);
    let (stored_before, last) = (stored(&test), last_event(&test.engine));

    test.engine.sync.sync_workspace(&alone).unwrap();
    let options = CompleteOptions::default();
    let plan = test
        .engine
        .merges
        .plan_completion(&fork, &options, &user())
        .unwrap();
    let done = test
        .engine
        .merges
        .complete(&fork, &options, &user())
        .unwrap();
    assert_eq!(done.merged, [p("README")]);
    let gone = done.ignored_removed;
    assert_eq!((gone.files, gone.bytes), (MODULES + 1, bytes));
    assert_eq!(plan.ignored_removed, gone);
    let again = test
        .engine
        .merges
        .complete(&fork, &options, &user())
        .unwrap();
    assert_eq!(again, done, "asked again, the answer is the same");
    let deleted = test
        .engine
        .workspaces
        .delete_workspace(&alone, &user())
        .unwrap();
    let gone = deleted.ignored;
    assert_eq!((gone.files, gone.bytes), (1_001, alone_bytes));
    assert!(!path.join("node_modules").exists() && !alone_path.exists());

    let grown = stored(&test).saturating_sub(stored_before);
    assert!(grown < 1 << 20, "the store grew by {grown} bytes");
    let events = test.engine.history.events_after(last, None, 0).unwrap();
    let ignored = |path: &str| path.starts_with("node_modules") || path.starts_with("target");
    let of_ignored = events.iter().map(|event| event.row.line.path.to_text());
    assert_eq!(of_ignored.filter(|path| ignored(path)).count(), 0);
    assert!(events.len() < 20, "{} events", events.len());
    test.check();
}

#[test]
fn a_tracked_file_below_an_ignored_directory_is_followed_and_nothing_else() {
    with_each(|test| {
        let engine = &test.engine;
        let project = test.project("app");
        test.put(&project, "vendor/kept", "one\n");
        let (fork, fork_path) = test.fork(&project, "ada");
        let (alone, alone_path) = workspace(engine, Layout::Plain);
        put(engine, &alone, "vendor/kept", "one\n");
        engine
            .workspaces
            .snapshot(&alone, None, false, &user())
            .unwrap();
        for (id, root) in [(&fork, &fork_path), (&alone, &alone_path)] {
            fs::write(root.join(".gitignore"), "vendor/\nnode_modules/\n*.log\n").unwrap();
            engine.sync.sync_workspace(id).unwrap();
            // A call writes an ignored file.
            put(engine, id, "node_modules/mine", "mine\n");
            put(engine, id, "a.log", "log\n");
            fs::create_dir_all(root.join("vendor/deep/er")).unwrap();
            fs::write(root.join("vendor/deep/er/x"), "x\n").unwrap();
            fs::write(root.join("vendor/beside"), "x\n").unwrap();
            fs::write(root.join("node_modules/beside"), "x\n").unwrap();
            assert_eq!(synced(engine, id), Vec::<String>::new());
            fs::write(root.join("vendor/kept"), "two\n").unwrap();
            fs::write(root.join("node_modules/mine"), "mine, longer\n").unwrap();
            fs::remove_file(root.join("a.log")).unwrap();
            let found = synced(engine, id);
            assert_eq!(
                found,
                [
                    "delete a.log",
                    "write node_modules/mine",
                    "write vendor/kept"
                ]
            );
            assert_eq!(synced(engine, id), Vec::<String>::new());
            // The rules of the workspace apply: files that they no longer match appear, and nothing
            // else.
            fs::write(root.join(".gitignore"), "node_modules/\n").unwrap();
            let found = synced(engine, id);
            assert_eq!(
                found,
                [
                    "write .gitignore",
                    "create vendor/beside",
                    "mkdir vendor/deep",
                    "mkdir vendor/deep/er",
                    "create vendor/deep/er/x"
                ]
            );
            // What is tracked stays tracked under any rules.
            fs::write(root.join(".gitignore"), "*\n").unwrap();
            fs::write(root.join("vendor/deep/er/x"), "changed\n").unwrap();
            fs::write(root.join("new"), "new\n").unwrap();
            let found = synced(engine, id);
            assert_eq!(found, ["write .gitignore", "write vendor/deep/er/x"]);
            let deleted = engine.workspaces.delete_workspace(id, &user()).unwrap();
            let gone = deleted.ignored;
            assert_eq!(
                (gone.files, gone.bytes),
                (2, 6),
                "`new` and what was beside"
            );
            let back = engine
                .workspaces
                .create_workspace_from(
                    Some(id.clone()),
                    &deleted.snapshot.unwrap().to_hex(),
                    Quota::default(),
                    &user(),
                )
                .unwrap();
            let read = engine
                .workspaces
                .read_whole(&back.id, &p("node_modules/mine"));
            assert_eq!(read.unwrap().0, b"mine, longer\n", "it came through a door");
        }
        test.check();
    });
}

#[test]
fn uploads_and_outputs_of_a_session_know_no_ignore_rules() {
    let test = TestEngine::new(ProviderName::Copy);
    let engine = &test.engine;
    let (id, root) = workspace(engine, Layout::Session);
    for dir in ["uploads", "outputs", "temp"] {
        fs::create_dir_all(root.join(dir).join("build")).unwrap();
        fs::write(root.join(dir).join(".gitignore"), "build/\n*.log\n").unwrap();
        fs::write(root.join(dir).join("build/a"), "a\n").unwrap();
        fs::write(root.join(dir).join("b.log"), "b\n").unwrap();
    }
    let found = synced(engine, &id);
    for path in [
        "uploads/build/a",
        "uploads/b.log",
        "outputs/build/a",
        "outputs/b.log",
    ] {
        assert!(
            found.contains(&format!("create {path}")),
            "{path}: {found:?}"
        );
    }
    assert!(!found.iter().any(|one| one.contains("temp/b")), "{found:?}");
    let taken = engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap()
        .snapshot;
    let at = |path| engine.workspaces.file_at(&id, &taken.id.to_hex(), &p(path));
    assert_eq!(at("outputs/build/a").unwrap(), b"a\n");
    assert!(at("temp/b.log").is_err());
    let gone = engine
        .workspaces
        .delete_workspace(&id, &user())
        .unwrap()
        .ignored;
    assert_eq!((gone.files, gone.bytes), (2, 4));
    test.check();
}

#[test]
fn ignored_files_are_kept_when_that_is_asked_for() {
    with_each(|test| {
        let engine = &test.engine;
        let project = test.project("app");
        let (fork, path) = test.fork(&project, "ada");
        fs::write(path.join("build.log"), "built\n").unwrap();
        let options = CompleteOptions {
            include_ignored: true,
            ..CompleteOptions::default()
        };
        let done = engine.merges.complete(&fork, &options, &user()).unwrap();
        assert_eq!(done.merged, [p("build.log")]);
        assert!(done.ignored_removed.is_empty());
        assert_eq!(test.project_text(&project, "build.log"), "built\n");
        let (fork, path) = test.fork(&project, "bob");
        fs::write(path.join("other.log"), "other\n").unwrap();
        let deleted = engine
            .workspaces
            .delete_workspace_with(&fork, true, &user())
            .unwrap();
        assert!(deleted.ignored.is_empty());
        engine
            .workspaces
            .create_workspace_from(
                Some(fork.clone()),
                &deleted.snapshot.unwrap().to_hex(),
                Quota::default(),
                &user(),
            )
            .unwrap();
        let read = engine
            .workspaces
            .read_whole(&fork, &p("other.log"))
            .unwrap();
        assert_eq!(read.0, b"other\n");
        test.check();
    });
}

/// A build goes on while the fork moves to another base, and its output moves too.
#[test]
fn what_a_build_writes_meanwhile_does_not_stop_an_update() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("app");
    test.put(&project, ".gitignore", "target/\n*.log\n");
    let (fork, path) = test.fork(&project, "ada");
    fs::create_dir_all(path.join("target/deep")).unwrap();
    fs::write(path.join("own"), "mine\n").unwrap();
    test.put(&project, "later", "later\n");
    let done = AtomicBool::new(false);
    let rounds = AtomicUsize::new(0);
    let updated = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let number = rounds.fetch_add(1, Ordering::Relaxed).to_string();
                // The files may be missing for a moment, while they move.
                let _ = fs::write(path.join("target/deep/object"), &number);
                let _ = fs::write(path.join("target").join(&number), "");
                let _ = fs::write(path.join("build.log"), &number);
            }
        });
        while rounds.load(Ordering::Relaxed) < 10 {
            std::thread::yield_now();
        }
        let updated = test.engine.merges.update(&fork, false, &user());
        done.store(true, Ordering::Relaxed);
        updated
    });
    updated.unwrap();
    assert_eq!(fs::read_to_string(path.join("later")).unwrap(), "later\n");
    assert_eq!(fs::read_to_string(path.join("own")).unwrap(), "mine\n");
    assert!(path.join("target/deep/object").exists() && path.join("target/0").exists());
}

/// The last decision removes the workspace, and its answer counts the ignored files.
#[test]
fn the_last_decision_says_what_went_with_the_workspace() {
    with_each(|test| {
        for landing in [Landing::Partial, Landing::Atomic] {
            let project = test.project(&format!("{landing:?}").to_lowercase());
            let settings = MergeSettings {
                policies: Vec::new(),
                landing,
                include_ignored: false,
                protect: Vec::new(),
            };
            let set = (test.engine)
                .projects
                .set_merge_settings(&project, &settings, &user());
            set.unwrap();
            let (id, path) = test.fork(&project, &format!("ada-{project}"));
            for file in ["README", "docs/a/b"] {
                fs::write(path.join(file), "theirs\n").unwrap();
                test.put(&project, file, "ours\n");
            }
            fs::create_dir(path.join("target")).unwrap();
            fs::write(path.join("target/app"), "built").unwrap();
            let options = CompleteOptions::default();
            let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
            assert_eq!(done.conflicts.len(), 2);
            let resolve = |at: usize| {
                let review = done.conflicts[at].review_id.as_deref().unwrap();
                let resolved = test
                    .engine
                    .merges
                    .resolve(review, Resolution::Theirs, &user());
                resolved.unwrap().ignored_removed
            };
            assert_eq!(resolve(0), IgnoredFiles::default());
            assert!(path.join("target/app").exists());
            assert_eq!(resolve(1), IgnoredFiles { files: 1, bytes: 5 });
            assert!(test.engine.workspaces.workspace(&id).is_err());
        }
    });
}

#[test]
fn a_plan_names_ignored_files_and_stores_nothing_of_them() {
    with_each(|test| {
        let engine = &test.engine;
        let project = test.project("app");
        let (fork, path) = test.fork(&project, "ada");
        let size = 4 << 20;
        install_and_build(&path, 100, size);
        fs::write(path.join("taken.log"), "mine\n").unwrap();
        test.put(&project, "taken.log", "of others\n");
        engine
            .merges
            .plan_completion(&fork, &CompleteOptions::default(), &user())
            .unwrap();
        let before = stored(&test);
        let options = CompleteOptions {
            include_ignored: true,
            ..CompleteOptions::default()
        };
        let plan = engine
            .merges
            .plan_completion(&fork, &options, &user())
            .unwrap();
        let more = stored(&test).saturating_sub(before);
        assert!(more < size / 4, "{more} bytes were stored");
        assert!(plan.merged.contains(&p("target/app")), "{:?}", plan.merged);
        assert!(plan.ignored_removed.is_empty());
        let conflicts: Vec<_> = plan.conflicts.iter().map(|one| &one.path).collect();
        assert_eq!(conflicts, [&p("taken.log")]);
        let done = engine.merges.complete(&fork, &options, &user()).unwrap();
        assert_eq!(done.merged, plan.merged);
        assert_eq!(done.conflicts.len(), 1);
        test.check();
    });
}
