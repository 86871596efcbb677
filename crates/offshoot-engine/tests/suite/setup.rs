//! What a project's setup makes: every fork has it at once, and it is nobody's change.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use crate::fixture::child::{Child, Task, say, task};
use crate::fixture::{TestEngine, open, p, user, with_each};
use offshoot_core::{ErrorCode, ProjectId};
use offshoot_engine::{CompleteOptions, SetupMade, SetupState};
use offshoot_testkit::wait_until;

const SETUP: &str = "setup-command";

/// A project with lock files and rules, and a setup that depends on them.
fn prepared(test: &TestEngine) -> ProjectId {
    let app = test.project("app");
    test.put(&app, ".gitignore", "node_modules/\n.env\n");
    test.put(&app, "package-lock.json", "lock 1\n");
    test.put(&app, "src/main.js", "main\n");
    set(test, &app, &[]);
    app
}

fn set(test: &TestEngine, app: &ProjectId, on: &[&str]) {
    let on = on.iter().map(|&text| text.to_owned()).collect();
    let command = vec![SETUP.to_owned()];
    let set = test.engine.projects.set_setup(app, command, on, &user());
    set.unwrap();
}

/// What `npm ci` would do.
fn install(dir: &Path) {
    let lock = fs::read_to_string(dir.join("package-lock.json")).unwrap();
    let package = dir.join("node_modules/left-pad");
    fs::create_dir_all(package.join("lib")).unwrap();
    fs::write(package.join("version"), lock).unwrap();
    fs::write(package.join("lib/index.js"), "pad\n").unwrap();
    fs::create_dir(dir.join("node_modules/.bin")).unwrap();
    symlink(
        "../left-pad/lib/index.js",
        dir.join("node_modules/.bin/pad"),
    )
    .unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let mut options = fs::File::options();
    let file = options
        .write(true)
        .open(package.join("lib/index.js"))
        .unwrap();
    file.set_modified(old).unwrap();
}

fn run(test: &TestEngine, app: &ProjectId, work: impl FnOnce(&Path)) -> SetupMade {
    let run = test.engine.projects.begin_setup(app).unwrap();
    assert_eq!(run.command(), [SETUP]);
    work(run.dir());
    run.finish().unwrap()
}

fn state(test: &TestEngine, app: &ProjectId) -> SetupState {
    test.engine.projects.setup(app).unwrap().unwrap().state
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn every_fork_has_what_the_setup_made_and_nothing_of_it_is_a_change() {
    with_each(|test| {
        let app = prepared(&test);
        assert_eq!(state(&test, &app), SetupState::Missing);
        let (before, early) = test.fork(&app, "early");
        assert!(!early.join("node_modules").exists());
        let made = run(&test, &app, install);
        assert_eq!(made.taken, [p("node_modules")]);
        assert_eq!((made.left_out.len(), made.entries), (0, 7));
        assert_eq!(state(&test, &app), SetupState::Ready);
        assert!(
            !early.join("node_modules").exists(),
            "it never appears later"
        );

        let (ada, fork) = test.fork(&app, "ada");
        let pad = fork.join("node_modules/left-pad");
        assert_eq!(text(pad.join("version")), "lock 1\n");
        assert_eq!(text(fork.join("node_modules/.bin/pad")), "pad\n");
        let index = fs::metadata(pad.join("lib/index.js")).unwrap();
        assert_eq!(index.mtime(), 1_000_000_000, "build tools compare times");
        assert!(test.changes(&ada).is_empty());

        // Changes and deletions of it are ignored files like any other.
        fs::write(pad.join("version"), "mine\n").unwrap();
        fs::remove_dir_all(pad.join("lib")).unwrap();
        fs::write(fork.join("node_modules/.cache"), "cache\n").unwrap();
        assert!(test.changes(&ada).is_empty());
        fs::remove_dir_all(fork.join("node_modules")).unwrap();
        assert!(test.changes(&ada).is_empty());
        install(&fork);
        assert!(test.changes(&ada).is_empty());
        fs::write(fork.join("src/main.js"), "changed\n").unwrap();
        assert_eq!(test.changes(&ada).len(), 1);

        // No other fork sees them, and no snapshot, merge or project holds them.
        let (_, bob) = test.fork(&app, "bob");
        assert_eq!(text(bob.join("node_modules/left-pad/version")), "lock 1\n");
        let options = CompleteOptions::default();
        let done = test
            .engine
            .merges
            .complete(&ada, &options, &user())
            .unwrap();
        assert_eq!(done.merged, [p("src/main.js")]);
        let image = test.project_image(&app, None);
        assert!(
            image
                .keys()
                .all(|path| !format!("{path:?}").contains("node_modules"))
        );
        test.engine
            .workspaces
            .delete_workspace(&before, &user())
            .unwrap();
        test.check();
    });
}

#[test]
fn only_what_the_fork_changed_counts_as_its_ignored_files() {
    with_each(|test| {
        let app = prepared(&test);
        run(&test, &app, install);
        let (ada, fork) = test.fork(&app, "ada");
        fs::write(fork.join("node_modules/own"), "12345").unwrap();
        let done = test
            .engine
            .merges
            .complete(&ada, &CompleteOptions::default(), &user())
            .unwrap();
        let ignored = done.ignored_removed;
        assert_eq!((ignored.files, ignored.bytes), (1, 5));
    });
}

#[test]
fn an_update_brings_the_setup_of_the_new_base_and_what_the_agent_changed_follows() {
    with_each(|test| {
        let app = prepared(&test);
        run(&test, &app, install);
        let (ada, fork) = test.fork(&app, "ada");
        let modules = fork.join("node_modules");
        fs::write(modules.join("own"), "own\n").unwrap();
        fs::create_dir(modules.join("package")).unwrap();
        fs::write(modules.join("package/mine"), "mine\n").unwrap();
        fs::write(fork.join(".env"), "KEY=1\n").unwrap();

        // The files that decide changed, and the setup did not run yet: a fork keeps what it has.
        test.put(&app, "package-lock.json", "lock 2\n");
        assert_eq!(state(&test, &app), SetupState::Stale);
        test.engine.merges.update(&ada, false, &user()).unwrap();
        assert_eq!(text(modules.join("left-pad/version")), "lock 1\n");
        assert_eq!(text(modules.join("own")), "own\n");
        let (_, fresh) = test.fork(&app, "fresh");
        assert!(!fresh.join("node_modules").exists());

        let made = run(&test, &app, |dir| {
            install(dir);
            fs::create_dir(dir.join("node_modules/package")).unwrap();
            fs::write(dir.join("node_modules/package/theirs"), "").unwrap();
        });
        assert_eq!(made.taken, [p("node_modules")]);
        test.put(&app, "src/main.js", "newer\n");
        test.engine.merges.update(&ada, false, &user()).unwrap();
        assert_eq!(text(fork.join("package-lock.json")), "lock 2\n");
        assert_eq!(text(modules.join("left-pad/version")), "lock 2\n");
        assert_eq!(text(modules.join("own")), "own\n");
        assert_eq!(text(modules.join("package/mine")), "mine\n");
        assert!(
            !modules.join("package/theirs").exists(),
            "its own replaces it"
        );
        assert_eq!(text(fork.join(".env")), "KEY=1\n");
        assert!(test.changes(&ada).is_empty());
        test.check();
    });
}

#[test]
fn a_restart_and_a_conversion_keep_it() {
    with_each(|mut test| {
        let app = prepared(&test);
        run(&test, &app, install);
        let (ada, fork) = test.fork(&app, "ada");
        fs::remove_file(fork.join("node_modules/left-pad/version")).unwrap();
        test.reopen();
        assert!(test.changes(&ada).is_empty());
        let copy = offshoot_engine::ProviderName::Copy;
        test.engine.forks.convert_fork(&ada, copy).unwrap();
        assert_eq!(
            text(fork.join("node_modules/left-pad/lib/index.js")),
            "pad\n"
        );
        assert!(!fork.join("node_modules/left-pad/version").exists());
        assert!(test.changes(&ada).is_empty());
        test.check();
    });
}

#[test]
fn rules_that_no_longer_name_it_keep_it_out_of_new_forks() {
    with_each(|test| {
        let app = prepared(&test);
        run(&test, &app, install);
        test.put(&app, ".gitignore", "# nothing\n");
        let (ada, fork) = test.fork(&app, "ada");
        assert!(!fork.join("node_modules").exists());
        assert!(test.changes(&ada).is_empty());
        // A rule file of the tool's own, as `uv` has it, is one of the rules.
        test.put(&app, "uv.lock", "lock\n");
        set(&test, &app, &["uv.lock"]);
        let made = run(&test, &app, |dir| {
            fs::create_dir_all(dir.join(".venv/bin")).unwrap();
            fs::write(dir.join(".venv/.gitignore"), "*\n").unwrap();
            fs::write(dir.join(".venv/bin/python"), "").unwrap();
        });
        assert_eq!(made.taken, [p(".venv/.gitignore"), p(".venv/bin")]);
        assert!(made.left_out.is_empty(), "{:?}", made.left_out);
        let (bob, fork) = test.fork(&app, "bob");
        fs::write(fork.join(".venv/bin/python"), "other").unwrap();
        fs::write(fork.join(".venv/new"), "new").unwrap();
        assert!(test.changes(&bob).is_empty(), "{:?}", test.changes(&bob));
    });
}

#[test]
fn unused_layers_are_collected_and_the_newest_and_used_ones_stay() {
    with_each(|test| {
        let app = prepared(&test);
        run(&test, &app, install);
        let (ada, _) = test.fork(&app, "ada");
        test.put(&app, "package-lock.json", "lock 2\n");
        run(&test, &app, install);
        run(&test, &app, install);
        let layers = || {
            test.engine
                .projects
                .setup(&app)
                .unwrap()
                .unwrap()
                .layers
                .len()
        };
        let collect = || {
            test.engine
                .directories
                .collect_layers(Duration::ZERO)
                .unwrap()
        };
        assert_eq!(layers(), 3);
        collect();
        assert_eq!(layers(), 2, "the one of the fork and the newest");
        test.engine
            .workspaces
            .delete_workspace(&ada, &user())
            .unwrap();
        collect();
        assert_eq!(layers(), 1);
        let (_, bob) = test.fork(&app, "bob");
        assert_eq!(text(bob.join("node_modules/left-pad/version")), "lock 2\n");
        test.engine.projects.remove_setup(&app, &user()).unwrap();
        collect();
        assert!(
            bob.join("node_modules/left-pad").is_dir(),
            "a fork keeps it"
        );
        let (_, late) = test.fork(&app, "late");
        assert!(!late.join("node_modules").exists());
        test.check();
    });
}

#[test]
fn what_fits_the_head_is_kept_though_a_newer_one_does_not() {
    with_each(|test| {
        let app = prepared(&test);
        run(&test, &app, install);
        test.put(&app, "package-lock.json", "lock 2\n");
        run(&test, &app, install);
        test.put(&app, "package-lock.json", "lock 1\n");
        let directories = &test.engine.directories;
        directories.collect_layers(Duration::ZERO).unwrap();
        assert_eq!(state(&test, &app), SetupState::Ready);
        let (_, fork) = test.fork(&app, "ada");
        assert_eq!(text(fork.join("node_modules/left-pad/version")), "lock 1\n");
    });
}

#[test]
fn a_run_keeps_the_layers_that_it_stands_on() {
    with_each(|test| {
        let app = prepared(&test);
        let layers = || {
            let names = fs::read_dir(test.host.path().join("data/layers")).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        test.put(&app, "src/main.js", "before\n");
        test.engine.context.wait_for_jobs();
        let running = test.engine.projects.begin_setup(&app).unwrap();
        install(running.dir());
        let before = layers();
        // So many that their layers are compacted.
        for number in 0..40 {
            test.put(&app, "src/main.js", &format!("{number}\n"));
            test.engine.context.wait_for_jobs();
        }
        let collect = || {
            let directories = &test.engine.directories;
            directories.collect_layers(Duration::ZERO).unwrap()
        };
        assert_eq!(collect(), 0);
        assert!(before.is_subset(&layers()));
        assert_eq!(text(running.dir().join("src/main.js")), "before\n");
        running.finish().unwrap();
        assert!(collect() > 0, "nothing holds them any more");
        assert_eq!(state(&test, &app), SetupState::Ready);
        test.check();
    });
}

#[test]
fn an_erasure_under_a_run_fails_it_and_leaves_the_setup_as_it_was() {
    with_each(|test| {
        let app = prepared(&test);
        let projects = &test.engine.projects;
        let other = projects.new_setup(&app, vec!["other".to_owned()], Vec::new());
        let running = projects.begin_new_setup(&app, other.unwrap(), &user());
        let running = running.unwrap();
        install(running.dir());
        let secret = offshoot_git::hash(offshoot_core::ObjectKind::Blob, b"main\n").unwrap();
        test.engine.upkeep.purge_content(secret, &user()).unwrap();
        let error = running.finish().unwrap_err();
        assert_eq!(error.code(), ErrorCode::WorkspaceBusy);
        let setup = projects.setup(&app).unwrap().unwrap().setup;
        assert_eq!(setup.command, [SETUP]);
        run(&test, &app, install);
    });
}

#[test]
fn hostile_results_are_left_out_and_named() {
    with_each(|test| {
        let app = prepared(&test);
        let outside = test.host.path().join("outside");
        fs::write(&outside, "secret\n").unwrap();
        let target = outside.clone();
        let made = run(&test, &app, move |dir| {
            install(dir);
            let modules = dir.join("node_modules");
            symlink(&target, modules.join("link-out")).unwrap();
            symlink("/", modules.join("root")).unwrap();
            let fifo = modules.join("fifo");
            let fifo = std::process::Command::new("mkfifo").arg(fifo).status();
            assert!(fifo.unwrap().success());
            let tool = modules.join("setuid");
            fs::write(&tool, "").unwrap();
            fs::set_permissions(&tool, PermissionsExt::from_mode(0o6755)).unwrap();
            let huge = fs::File::create(modules.join("huge")).unwrap();
            huge.set_len(1 << 40).unwrap();
            fs::write(dir.join("src/main.js"), "changed by the setup\n").unwrap();
            fs::write(dir.join("new"), "not ignored\n").unwrap();
            fs::hard_link(modules.join("left-pad/version"), modules.join("hard")).unwrap();
        });
        let left_out: Vec<String> = made.left_out.iter().map(|one| one.0.to_text()).collect();
        for path in [
            "new",
            "src/main.js",
            "node_modules/fifo",
            "node_modules/huge",
        ] {
            assert!(left_out.contains(&path.to_owned()), "{path}: {left_out:?}");
        }
        assert_eq!(left_out.len(), 4);
        let (_, fork) = test.fork(&app, "ada");
        let modules = fork.join("node_modules");
        assert_eq!(text(fork.join("src/main.js")), "main\n");
        assert!(!fork.join("new").exists() && !modules.join("fifo").exists());
        assert_eq!(fs::read_link(modules.join("link-out")).unwrap(), outside);
        let mode = fs::metadata(modules.join("setuid")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o755);
        assert_eq!(fs::metadata(modules.join("hard")).unwrap().nlink(), 1);
        test.check();
    });
}

#[test]
fn what_cannot_be_set_or_made_is_refused_and_leaves_nothing() {
    let test = TestEngine::best();
    let app = test.project("app");
    test.put(&app, "README", "no lock file\n");
    let projects = &test.engine.projects;
    let command = || vec![SETUP.to_owned()];
    let refused = projects.set_setup(&app, command(), Vec::new(), &user());
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidRequest);
    let on = vec!["missing.lock".to_owned()];
    let refused = projects.set_setup(&app, command(), on, &user());
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidRequest);
    assert!(projects.setup(&app).unwrap().is_none());
    assert!(projects.begin_setup(&app).is_err());

    test.put(&app, "requirements-dev.txt", "a\n");
    set(&test, &app, &[]);
    assert_eq!(
        projects.setup(&app).unwrap().unwrap().setup.on,
        ["requirements*.txt"]
    );
    let first = projects.begin_setup(&app).unwrap();
    let second = projects.begin_setup(&app).err().unwrap();
    assert_eq!(second.code(), ErrorCode::WorkspaceBusy);
    fs::write(first.dir().join("made"), "not ignored\n").unwrap();
    let nothing = first.finish().unwrap_err();
    assert_eq!(nothing.code(), ErrorCode::InvalidRequest);
    assert_eq!(state(&test, &app), SetupState::Missing);
    assert_eq!(leftovers(test.host.path()), Vec::<String>::new());
    test.check();
}

/// What lies in `tmp/`, and the layers that no row names.
fn leftovers(host: &Path) -> Vec<String> {
    let names = |dir: &str| {
        let entries = fs::read_dir(host.join("data").join(dir)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
    };
    let building = names("layers").filter(|name| name.contains(".building-"));
    names("tmp").chain(building).collect()
}

#[test]
fn child() {
    if let Some(task) = task() {
        run_until_killed(&task);
    }
}

fn run_until_killed(task: &Task) {
    let engine = open(&task.host, task.provider);
    let run = engine
        .projects
        .begin_setup(&"app".parse().unwrap())
        .unwrap();
    install(run.dir());
    if task.words[0] == "freezing" {
        // Enough files that the parent can kill it in the middle.
        for number in 0..3_000 {
            fs::write(run.dir().join(format!("node_modules/{number}")), "file").unwrap();
        }
        say("ready");
        let _ = run.finish();
    } else {
        say("ready");
    }
    loop {
        std::thread::park();
    }
}

#[test]
fn kill_during_a_setup_leaves_nothing_and_the_next_one_works() {
    with_each(|mut test| {
        let app = prepared(&test);
        for task in ["running", "freezing"] {
            test.close();
            let child = Child::start("setup", task, test.host.path(), test.provider);
            assert_eq!(
                child.hear(Duration::from_secs(120)).as_deref(),
                Some("ready")
            );
            child.kill();
            test.reopen();
            test.engine.context.wait_for_jobs();
            test.engine
                .directories
                .collect_layers(Duration::ZERO)
                .unwrap();
            let host = test.host.path().to_owned();
            wait_until("the leftovers are gone", || leftovers(&host).is_empty());
        }
        run(&test, &app, install);
        let (_, fork) = test.fork(&app, "bob");
        assert_eq!(text(fork.join("node_modules/left-pad/version")), "lock 1\n");
        test.check();
    });
}
