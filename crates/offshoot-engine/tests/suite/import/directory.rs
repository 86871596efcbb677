//! Directories whose changes come into a project beside the work of agents.

use std::fs;
use std::process::Command;

use super::sources::{commit_all, id, write};
use crate::fixture::{TestEngine, p, user};
use offshoot_core::{Error, ErrorCode, FaultPlan};
use offshoot_engine::{
    CompleteOptions, Content, Engine, EngineOptions, ImportOptions, ProjectSynced, Resolution,
    WriteOptions,
};
use offshoot_testkit::{HostDir, git};

impl TestEngine {
    /// Merges one file as the work of an agent.
    fn merge_file(&self, project: &str, agent: &str, path: &str, text: &str) {
        let (fork, place) = self.fork(&id(project), agent);
        fs::write(place.join(path), text).unwrap();
        let options = CompleteOptions::default();
        let merged = self.engine.merges.complete(&fork, &options, &user());
        assert!(merged.unwrap().conflicts.is_empty());
    }

    fn sync_again(&self, project: &str) -> Result<ProjectSynced, Error> {
        let options = ImportOptions::default();
        (self.engine.links).sync_directory(&id(project), None, &options, &mut |_| {}, &user())
    }

    fn head_text(&self, project: &str, path: &str) -> String {
        self.project_text(&id(project), path)
    }
}

#[test]
fn work_that_was_merged_is_not_taken_back_by_a_sync() {
    let test = TestEngine::best();
    let source = test.source("source");
    write(&source, "code", "one\ntwo\nthree\n");
    write(&source, "README", "read me\n");
    fs::create_dir(source.join("empty")).unwrap();
    test.import("p", &source).unwrap();
    test.merge_file("p", "ada", "code", "ONE\ntwo\nthree\n");
    // Nothing changed in the directory, so nothing changes here.
    let nothing = test.sync_again("p").unwrap();
    assert!(!nothing.created && nothing.merge.is_none());
    assert_eq!(test.head_text("p", "code"), "ONE\ntwo\nthree\n");
    // Both sides changed the file, in different places.
    write(&source, "code", "one\ntwo\nTHREE\n");
    fs::remove_file(source.join("README")).unwrap();
    let synced = test.sync_again("p").unwrap();
    assert_eq!((synced.synced, synced.removed), (1, 1));
    assert!(synced.merge.unwrap().conflicts.is_empty());
    assert_eq!(test.head_text("p", "code"), "ONE\ntwo\nTHREE\n");
    assert_eq!(test.paths("p"), ["code", "empty"]);
    // The next one begins where this one ended.
    write(&source, "more", "more\n");
    let synced = test.sync_again("p").unwrap();
    assert_eq!((synced.synced, synced.skipped), (1, 1));
    assert_eq!(test.head_text("p", "code"), "ONE\ntwo\nTHREE\n");
    test.check();
}

#[test]
fn what_conflicts_with_a_directory_waits_and_is_not_asked_twice() {
    let test = TestEngine::best();
    let source = test.source("source");
    write(&source, "line", "base\n");
    write(&source, "other", "base\n");
    test.import("p", &source).unwrap();
    test.merge_file("p", "ada", "line", "ada\n");
    write(&source, "line", "person\n");
    write(&source, "other", "person\n");
    let synced = test.sync_again("p").unwrap();
    let merge = synced.merge.unwrap();
    assert_eq!(merge.conflicts.len(), 1);
    assert_eq!(merge.conflicts[0].path, p("line"));
    assert_eq!(test.head_text("p", "line"), "ada\n");
    assert_eq!(test.head_text("p", "other"), "person\n");
    write(&source, "new", "new\n");
    let synced = test.sync_again("p").unwrap();
    assert!(synced.merge.unwrap().conflicts.is_empty());
    assert_eq!(test.head_text("p", "line"), "ada\n");
    let review = merge.conflicts[0].review_id.clone().unwrap();
    (test.engine.merges)
        .resolve(&review, Resolution::Theirs, &user())
        .unwrap();
    assert_eq!(test.head_text("p", "line"), "person\n");
    assert_eq!(test.head_text("p", "new"), "new\n");
    test.check();
}

#[test]
fn forks_get_what_worktreeinclude_names_in_the_directory() {
    let test = TestEngine::best();
    let source = test.source("source");
    write(&source, "code", "code\n");
    write(&source, ".gitignore", ".env\n");
    write(&source, ".worktreeinclude", ".env\n");
    write(&source, ".env", "KEY=1\n");
    let by_the_rules = ImportOptions {
        ignore_rules: true,
        ..ImportOptions::default()
    };
    test.import_with("p", &source, &by_the_rules).unwrap();
    assert!(!test.paths("p").contains(&".env".to_owned()));
    let (fork, place) = test.fork(&id("p"), "ada");
    assert_eq!(fs::read_to_string(place.join(".env")).unwrap(), "KEY=1\n");
    fs::write(place.join("code"), "new\n").unwrap();
    let options = CompleteOptions::default();
    let merged = test.engine.merges.complete(&fork, &options, &user());
    assert_eq!(merged.unwrap().merged, [p("code")]);
    test.check();
}

#[test]
fn a_directory_that_the_project_does_not_know_is_merged_as_new() {
    let test = TestEngine::best();
    let source = test.source("source");
    write(&source, "same", "same\n");
    write(&source, "mine", "mine\n");
    let create = |name: &str| test.engine.projects.create_project(&id(name), &user());
    create("p").unwrap();
    let unknown = test.sync_again("p").unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::InvalidRequest);
    assert!(unknown.hint().unwrap().contains("project sync p DIR"));
    test.put(&id("p"), "same", "same\n");
    test.put(&id("p"), "hers", "hers\n");
    let synced = test.sync("p", &source, &ImportOptions::default());
    assert!(synced.merge.unwrap().conflicts.is_empty());
    assert_eq!(test.paths("p"), ["hers", "mine", "same"]);
    // A project without a snapshot gets the directory as its first one.
    create("q").unwrap();
    let first = test.sync("q", &source, &ImportOptions::default());
    assert!(first.created && first.merge.is_none());
    assert_eq!(test.paths("q"), ["mine", "same"]);
    test.check();
}

#[test]
fn another_directory_takes_nothing_away() {
    let test = TestEngine::best();
    let (first, second) = (test.source("first"), test.source("second"));
    write(&first, "a", "a\n");
    write(&first, "b", "b\n");
    write(&second, "c", "c\n");
    test.import("p", &first).unwrap();
    let synced = test.sync("p", &second, &ImportOptions::default());
    assert_eq!((synced.synced, synced.removed), (1, 0));
    assert_eq!(test.paths("p"), ["a", "b", "c"]);
    // What came can be taken back like every merge.
    let merge = synced.merge.unwrap().merge_id.unwrap();
    test.engine.merges.undo_merge(&merge, &user()).unwrap();
    assert_eq!(test.paths("p"), ["a", "b"]);
    test.check();
}

#[test]
fn what_cannot_be_read_stays_as_it_is() {
    let test = TestEngine::best();
    let source = test.source("source");
    write(&source, "code", "code\n");
    write(&source, "pipe", "a file\n");
    write(&source, "dir/file", "file\n");
    test.import("p", &source).unwrap();
    fs::remove_file(source.join("pipe")).unwrap();
    let made = Command::new("mkfifo").arg(source.join("pipe")).status();
    assert!(made.unwrap().success());
    write(&source, "code", "new\n");
    let synced = test.sync_again("p").unwrap();
    assert_eq!(synced.removed, 0);
    assert_eq!(synced.dropped[0].0, p("pipe"));
    assert_eq!(test.head_text("p", "pipe"), "a file\n");
    assert_eq!(test.head_text("p", "code"), "new\n");
    test.check();
}

#[test]
fn what_was_taken_and_erased_since_is_new_again() {
    let test = TestEngine::best();
    let source = test.source("source");
    write(&source, "a", "a\n");
    test.import("p", &source).unwrap();
    write(&source, "b", "b\n");
    test.sync_again("p").unwrap();
    // The snapshot that the directory became is not reachable from anything any more.
    let store = test.store();
    let lost = "1".repeat(40);
    store
        .write(offshoot_store::Durability::Synced, |tx| {
            let key = tx.project(&id("p"))?.unwrap().key;
            let mut row = tx.project_settings(key)?.unwrap();
            let text = row.source.unwrap();
            let taken = text.find("\"taken\":\"").unwrap() + 9;
            row.source = Some(format!("{}{lost}{}", &text[..taken], &text[taken + 40..]));
            tx.put_project(&row)
        })
        .unwrap();
    write(&source, "c", "c\n");
    let synced = test.sync_again("p").unwrap();
    assert!(synced.merge.unwrap().conflicts.is_empty());
    assert_eq!(test.paths("p"), ["a", "b", "c"]);
    test.check();
}

#[test]
fn the_files_of_a_repository_are_compared_with_what_was_imported() {
    let test = TestEngine::best();
    let source = test.source("source");
    git(&source, &["init", "-q", "-b", "main"]);
    write(&source, "code", "one\ntwo\nthree\n");
    write(&source, "gone", "gone\n");
    commit_all(&source, "first");
    test.import_git("p", &source).unwrap();
    test.merge_file("p", "ada", "code", "ONE\ntwo\nthree\n");
    write(&source, "code", "one\ntwo\nTHREE\n");
    fs::remove_file(source.join("gone")).unwrap();
    let synced = test.sync("p", &source, &ImportOptions::default());
    let merge = synced.merge.unwrap();
    assert!(merge.conflicts.is_empty(), "{merge:?}");
    assert_eq!(test.head_text("p", "code"), "ONE\ntwo\nTHREE\n");
    assert_eq!(test.paths("p"), ["code"]);
    let target = test.host.path().join("export.git");
    test.export("p", None, &target).unwrap();
    git(&target, &["fsck", "--strict"]);
    test.check();
}

#[test]
fn a_failing_call_at_any_point_loses_nothing_of_either_side() {
    let host = HostDir::new();
    let source = host.path().join("source");
    write(&source, "code", "one\ntwo\nthree\n");
    let plan = FaultPlan::default();
    let mut options = EngineOptions::new(host.path().join("data"));
    options.faults = Some(plan.clone());
    let engine = Engine::open(options).unwrap();
    let import = ImportOptions::default();
    (engine.projects)
        .import_dir(&id("p"), &source, &import, &mut |_| {}, &user())
        .unwrap();
    let code = || {
        let file = (engine.projects)
            .open_project_file(&id("p"), None, &p("code"))
            .unwrap();
        std::io::read_to_string(file).unwrap()
    };
    let mut struck = 0;
    for n in 1.. {
        assert!(n < 3_000, "the faults never end");
        // Somebody changes the project, and the directory changes elsewhere in the file.
        let theirs = code().replacen(code().lines().next().unwrap(), &format!("head {n}"), 1);
        let content = Content::Bytes(theirs.as_bytes());
        (engine.projects)
            .put_in_project(
                &id("p"),
                &p("code"),
                content,
                &WriteOptions::default(),
                &user(),
            )
            .unwrap();
        write(&source, "code", &format!("one\ntwo\nline {n}\n"));
        plan.arm(n);
        let sync = || (engine.links).sync_directory(&id("p"), None, &import, &mut |_| {}, &user());
        let answer = sync();
        engine.context.wait_for_jobs();
        let hit = plan.disarm();
        struck += u32::from(hit);
        if answer.is_err() {
            engine.merges.run_waiting_completions().unwrap();
            sync().unwrap();
        }
        assert_eq!(code(), format!("head {n}\ntwo\nline {n}\n"));
        if !hit {
            break;
        }
    }
    assert!(struck > 10, "{struck}");
}
