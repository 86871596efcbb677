//! A data directory with the database of each earlier schema opens, and everything in it works.

use crate::fixture::{open, p, user};
use offshoot_core::WorkspaceId;
use offshoot_engine::{CompleteOptions, Content, ForkOptions, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_store::conformance::{earlier_schemas, make_earlier_database};
use offshoot_testkit::scratch;

#[test]
fn a_store_of_every_earlier_schema_works() {
    for schema in earlier_schemas() {
        let host = scratch();
        std::fs::create_dir(host.path().join("data")).unwrap();
        make_earlier_database(schema, &host.path().join("data/offshoot.db"));
        let engine = open(host.path(), ProviderName::Copy);
        let check = || {
            engine.context.wait_for_jobs();
            let report = engine.upkeep.check().unwrap();
            assert!(
                report.problems.is_empty(),
                "{schema}: {:?}",
                report.problems
            );
        };
        check();
        let names: Vec<String> = engine
            .workspaces
            .list_workspaces(None, 0)
            .unwrap()
            .into_iter()
            .map(|one| one.id.to_string())
            .collect();
        let notes: WorkspaceId = "notes2".parse().unwrap();
        assert!(names.contains(&notes.to_string()), "{schema}: {names:?}");
        let text = |path: &str| engine.workspaces.read_whole(&notes, &p(path)).unwrap().0;
        assert_eq!(
            (text("k.txt"), text("l.txt")),
            (b"kept\n".to_vec(), b"later\n".to_vec())
        );
        let (content, options) = (Content::Bytes(b"new"), WriteOptions::default());
        let written = engine
            .workspaces
            .write_file(&notes, &p("new"), content, &options, &user());
        written.unwrap();
        let snapshots = engine.workspaces.snapshots(&notes, 0).unwrap();
        let newest = snapshots[0].id.to_string();
        engine
            .workspaces
            .restore(&notes, &newest, None, &user())
            .unwrap();
        assert!(engine.workspaces.read_whole(&notes, &p("new")).is_err());
        if schema >= 2 {
            use_project(&engine, schema);
        }
        if schema >= 4 {
            assert_eq!(engine.access.tokens(None, 0).unwrap().len(), 3, "{schema}");
        }
        check();
    }
}

fn use_project(engine: &offshoot_engine::Engine, schema: usize) {
    let web = "web".parse().unwrap();
    let settings = engine.projects.merge_settings(&web).unwrap();
    assert_eq!(settings.policies.len(), 2, "{schema}");
    let protects = if schema >= 5 {
        &["conf/rules"][..]
    } else {
        &[]
    };
    assert_eq!(settings.protect, protects, "{schema}");
    engine
        .projects
        .set_merge_settings(&web, &settings, &user())
        .unwrap();
    assert_eq!(engine.projects.merge_settings(&web).unwrap(), settings);
    if schema >= 3 {
        // A merge that was requested and not done when the program ended.
        assert_eq!(engine.merges.waiting_completions().unwrap(), 1, "{schema}");
        assert_eq!(
            engine.merges.run_waiting_completions().unwrap(),
            0,
            "{schema}"
        );
        let merges = engine.merges.list_merges(&web, None, 0).unwrap();
        assert_eq!(merges.len(), 4, "{schema}");
        let decided = merges.iter().flat_map(|one| &one.completed.decided);
        assert_eq!(decided.count(), 1, "{schema}");
        let open = engine.merges.reviews(Some(&web), true).unwrap();
        assert_eq!(open[0].path, p("a.txt"), "{schema}");
        assert_eq!(open[0].candidates.len(), 1, "{schema}");
    }
    let (fork, path) = engine
        .forks
        .fork_out(&web, &ForkOptions::default(), &user())
        .unwrap();
    std::fs::write(path.join("made"), "now\n").unwrap();
    let id = &fork.workspace.id;
    let done = engine
        .merges
        .complete(id, &CompleteOptions::default(), &user())
        .unwrap();
    assert_eq!(done.merged, [p("made")], "{schema}");
}
