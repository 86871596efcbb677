//! Operations of one tenant on a large or deep tree do not keep small writes of others waiting.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::fixture::{TestEngine, p, user};
use offshoot_core::cancel::Cancel;
use offshoot_core::{ErrorCode, Operator, ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Content, ImportOptions, MergeSettings, Principal, Resolution, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_store::Landing;

/// The files of a large change.
const MANY: usize = 10_000;
/// The longest that a small write may wait beside it.
const LIMIT: Duration = Duration::from_secs(1);
/// How often a step is repeated, because the machine may have been busy with something else.
const TRIES: usize = 3;

/// Measures how long writes of another tenant wait.
struct Waits {
    test: TestEngine,
    bystander: WorkspaceId,
}

impl Waits {
    fn new() -> Waits {
        // In memory, because the disk is not what is measured.
        let test = TestEngine::in_memory(ProviderName::Copy);
        let bystander = test.create("bystander");
        Waits { test, bystander }
    }

    /// Runs `work` while another tenant writes small files. Returns its longest wait.
    fn longest<T>(&self, work: impl FnOnce(&TestEngine) -> T) -> (Duration, T) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut longest = Duration::ZERO;
                let mut number = 0;
                while !done.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    write(&self.test, &self.bystander, &format!("f{}", number % 100));
                    longest = longest.max(began.elapsed());
                    number += 1;
                    // One write now and then shows as much as a hundred, and leaves the machine to
                    // the work that is measured.
                    std::thread::sleep(Duration::from_millis(2));
                }
                longest
            });
            let result = work(&self.test);
            done.store(true, Ordering::Relaxed);
            (writer.join().unwrap(), result)
        })
    }
}

/// Runs a scenario, which reports its steps and their waits, until each step was quick enough once.
fn nobody_waits(scenario: impl Fn(&mut dyn FnMut(&str, Duration))) {
    let mut best: Vec<(String, Duration)> = Vec::new();
    for _ in 0..TRIES {
        let mut at = 0;
        scenario(&mut |step, wait| {
            println!("{step}: {wait:?}");
            match best.get_mut(at) {
                Some(known) => known.1 = known.1.min(wait),
                None => best.push((step.to_owned(), wait)),
            }
            at += 1;
        });
        if best.iter().all(|(_, wait)| *wait < LIMIT) {
            return;
        }
    }
    panic!("another tenant's write waited too long: {best:?}");
}

fn write(test: &TestEngine, id: &WorkspaceId, path: &str) {
    let content = Content::Bytes(path.as_bytes());
    test.engine
        .workspaces
        .write_file(id, &p(path), content, &WriteOptions::default(), &user())
        .unwrap();
}

/// Many files in a few directories.
fn write_wide(root: &Path, text: &str) {
    for dir in 0..20 {
        let dir = root.join(format!("wide/{dir}"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..MANY / 20 {
            fs::write(dir.join(file.to_string()), text).unwrap();
        }
    }
}

/// Some files in each of as many nested directories as allowed.
fn write_deep(root: &Path, text: &str) {
    let mut dir = root.join("deep");
    for _ in 0..240 {
        fs::create_dir_all(&dir).unwrap();
        for file in 0..3 {
            fs::write(dir.join(file.to_string()), text).unwrap();
        }
        dir.push("d");
    }
}

/// The files below a directory, by their names there.
fn each_file(root: &Path, mut take: impl FnMut(&str, &[u8])) {
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            take(name, &fs::read(&path).unwrap());
        }
    }
}

/// Writes the files of a directory into a workspace, as an archive does.
fn take_in(test: &TestEngine, id: &WorkspaceId, root: &Path) {
    let owner = Principal::owner(Operator::new("ann"));
    let access = test.engine.access.acting_as(Arc::new(owner), None);
    let import = access.begin_workspace_import(id).unwrap();
    each_file(root, |name, content| {
        let taken = access.import_file(&import, &p(name), Content::Bytes(content), false);
        taken.unwrap();
    });
    access.finish_workspace_import(import).unwrap();
}

/// Every operation on a tree of a workspace.
fn scenario_of_a_workspace(
    tree: &str,
    fill: impl Fn(&Path, &str),
    note: &mut dyn FnMut(&str, Duration),
) {
    let waits = Waits::new();
    let id = waits.test.create("large");
    let path = waits.test.engine.workspaces.hand_out_path(&id).unwrap();
    fill(&path, "one\n");
    let (wait, _) = waits.longest(|test| test.engine.sync.sync_workspace(&id).unwrap());
    note("sync", wait);
    let snapshot = |test: &TestEngine| {
        let taken = test
            .engine
            .workspaces
            .snapshot(&id, None, false, &user())
            .unwrap();
        taken.snapshot.id.to_hex()
    };
    let (wait, first) = waits.longest(snapshot);
    note("snapshot", wait);
    let (wait, _) = waits.longest(|test| {
        let moved = test
            .engine
            .workspaces
            .move_file(&id, &p(tree), &p("elsewhere/moved"), &user());
        moved.unwrap();
    });
    note("move", wait);
    let (wait, _) = waits.longest(snapshot);
    note("snapshot of what moved", wait);
    let (wait, gone) = waits.longest(|test| {
        let deleted = test
            .engine
            .workspaces
            .delete_file(&id, &p("elsewhere"), true, &user());
        deleted.unwrap()
    });
    note("delete", wait);
    assert!(gone.files >= 700);
    let (wait, restored) = waits.longest(|test| {
        test.engine
            .workspaces
            .restore(&id, &first, None, &user())
            .unwrap()
    });
    note("restore", wait);
    assert!(restored.changes.changes.len() >= 700);
    let other = waits.test.create("archive");
    let (wait, _) = waits.longest(|test| take_in(test, &other, &path));
    note("archive", wait);
    let (wait, _) = waits.longest(|test| test.engine.workspaces.hand_out_path(&other).unwrap());
    note("directory", wait);
    let (wait, _) = waits.longest(|test| {
        test.engine
            .workspaces
            .delete_workspace(&id, &user())
            .unwrap()
    });
    note("delete of the workspace", wait);
    let (wait, cleaned) = waits.longest(|test| {
        let cleaned = test.engine.upkeep.clean(Duration::ZERO, false, &user());
        cleaned.unwrap().workspaces
    });
    note("clean", wait);
    assert!(cleaned.iter().any(|one| one.id == other));
    for gone in [&id, &other] {
        let (wait, _) = waits.longest(|test| test.engine.upkeep.purge_workspace(gone).unwrap());
        note("purge", wait);
    }
}

/// Every operation that brings a tree into a project, and the merge of a fork; if the fork stays,
/// also undoing the merge and updating the fork.
fn scenario_of_a_project(
    stays: bool,
    fill: impl Fn(&Path, &str),
    note: &mut dyn FnMut(&str, Duration),
) {
    let waits = Waits::new();
    let source = offshoot_testkit::scratch();
    fill(source.path(), "one\n");
    let project: ProjectId = "web".parse().unwrap();
    let (wait, _) = waits.longest(|test| {
        let options = ImportOptions::default();
        let imported = test.engine.projects.import_dir(
            &project,
            source.path(),
            &options,
            &mut |_| {},
            &user(),
        );
        imported.unwrap()
    });
    note("import", wait);
    let (id, path) = waits.test.fork(&project, "agent");
    fill(&path, "two, which is longer\n");
    let (wait, done) = waits.longest(|test| {
        let options = CompleteOptions {
            keep: stays,
            ..CompleteOptions::default()
        };
        test.engine.merges.complete(&id, &options, &user()).unwrap()
    });
    note("merge", wait);
    assert!(done.merged.len() >= 700);
    if !stays {
        return;
    }
    let merge = done.merge_id.unwrap();
    let (wait, _) = waits.longest(|test| test.engine.merges.undo_merge(&merge, &user()).unwrap());
    note("undo", wait);
    let (wait, _) = waits.longest(|test| test.engine.merges.update(&id, false, &user()).unwrap());
    note("update", wait);
}

/// A project with many files that were imported as an archive.
fn large_project(waits: &Waits, note: &mut dyn FnMut(&str, Duration)) -> ProjectId {
    let source = offshoot_testkit::scratch();
    write_wide(source.path(), "one\n");
    fs::write(source.path().join("README"), "one\n").unwrap();
    let project: ProjectId = "web".parse().unwrap();
    waits
        .test
        .engine
        .projects
        .create_project(&project, &user())
        .unwrap();
    let (wait, _) = waits.longest(|test| {
        let import = test.engine.projects.begin_import(&project).unwrap();
        each_file(source.path(), |name, content| {
            let taken = import.write_file(&p(name), Content::Bytes(content), false);
            taken.unwrap();
        });
        import.finish(&user()).unwrap();
    });
    note("archive into a project", wait);
    project
}

fn set(test: &TestEngine, project: &ProjectId, landing: Landing, protect: &[&str]) {
    let settings = MergeSettings {
        policies: Vec::new(),
        landing,
        include_ignored: false,
        protect: protect.iter().map(ToString::to_string).collect(),
    };
    let set = test
        .engine
        .projects
        .set_merge_settings(project, &settings, &user());
    set.unwrap();
}

/// A merge that lands whole with the decision of its only conflict.
fn scenario_of_a_decision(note: &mut dyn FnMut(&str, Duration)) {
    let waits = Waits::new();
    let project = large_project(&waits, note);
    set(&waits.test, &project, Landing::Atomic, &[]);
    let (id, path) = waits.test.fork(&project, "agent");
    write_wide(&path, "two, which is longer\n");
    fs::write(path.join("README"), "theirs\n").unwrap();
    waits.test.put(&project, "README", "ours\n");
    let done = (waits.test.engine)
        .merges
        .complete(&id, &CompleteOptions::default(), &user())
        .unwrap();
    assert_eq!((done.conflicts.len(), done.snapshot), (1, None));
    let review = done.conflicts[0].review_id.as_deref().unwrap();
    let (wait, resolved) = waits.longest(|test| {
        let resolved = test
            .engine
            .merges
            .resolve(review, Resolution::Theirs, &user());
        resolved.unwrap()
    });
    note("last decision", wait);
    assert!(resolved.snapshot.is_some());
    let now = waits.test.project_text(&project, "wide/0/0");
    assert_eq!(now, "two, which is longer\n");
}

/// A merge of many protected files, each of which waits for a person.
fn scene_of_protected_files(note: &mut dyn FnMut(&str, Duration)) {
    let waits = Waits::new();
    let project = large_project(&waits, note);
    set(&waits.test, &project, Landing::Partial, &["wide/**"]);
    let (id, path) = waits.test.fork(&project, "agent");
    write_wide(&path, "two, which is longer\n");
    let options = CompleteOptions::default();
    // The request is cancelled, so it ends before it has changed anything.
    let cancel = Cancel::default();
    let ended = std::thread::scope(|scope| {
        let merge = scope
            .spawn(|| cancel.run(|| waits.test.engine.merges.complete(&id, &options, &user())));
        while waits.test.engine.merges.waiting_completions().unwrap() == 0 && !merge.is_finished() {
            std::thread::yield_now();
        }
        drop(cancel.on_drop());
        merge.join().unwrap()
    });
    assert_eq!(ended.unwrap_err().code(), ErrorCode::Timeout);
    assert!(
        waits
            .test
            .engine
            .merges
            .reviews(Some(&project), true)
            .unwrap()
            .is_empty()
    );
    let (wait, done) =
        waits.longest(|test| test.engine.merges.complete(&id, &options, &user()).unwrap());
    note("merge of protected files", wait);
    assert_eq!((done.conflicts.len(), done.merged.len()), (MANY, 0));
}

#[test]
fn nobody_waits_for_the_decision_of_a_large_merge() {
    nobody_waits(scenario_of_a_decision);
}

#[test]
fn nobody_waits_for_many_protected_files() {
    nobody_waits(scene_of_protected_files);
}

#[test]
fn nobody_waits_for_a_large_tree_of_a_workspace() {
    nobody_waits(|note| scenario_of_a_workspace("wide", write_wide, note));
}

#[test]
fn nobody_waits_for_a_deep_tree_of_a_workspace() {
    nobody_waits(|note| scenario_of_a_workspace("deep", write_deep, note));
}

#[test]
fn nobody_waits_for_a_large_tree_of_a_project() {
    nobody_waits(|note| scenario_of_a_project(false, write_wide, note));
}

#[test]
fn nobody_waits_for_a_deep_tree_of_a_project() {
    nobody_waits(|note| scenario_of_a_project(true, write_deep, note));
}
