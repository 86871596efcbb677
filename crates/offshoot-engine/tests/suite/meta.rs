//! The history of a path: under earlier names, after its deletion, and before the base of a fork;
//! and which files a sync takes for renamed.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{Cause, Layout, Operator, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Content, Engine, Principal, PrincipalKind, Quota, Reach, Scope, WriteOptions,
};
use offshoot_fs::ProviderName;
use serde_json::Value;

fn workspace(engine: &Engine) -> (WorkspaceId, PathBuf) {
    let made = engine
        .workspaces
        .create_workspace(None, Layout::Plain, Quota::default(), &user())
        .unwrap();
    let path = engine.workspaces.hand_out_path(&made.id).unwrap();
    (made.id, path)
}

fn put(engine: &Engine, id: &WorkspaceId, path: &str, content: &str, cause: &Cause) {
    let content = Content::Bytes(content.as_bytes());
    engine
        .workspaces
        .write_file(id, &p(path), content, &WriteOptions::default(), cause)
        .unwrap();
}

fn meta(engine: &Engine, id: &WorkspaceId, path: &str) -> Value {
    let path = p(&format!(".meta/{path}"));
    let file = engine.workspaces.open_file(id, &path).unwrap();
    assert_eq!(file.mime, "application/json");
    serde_json::from_slice(&engine.workspaces.read_whole(id, &path).unwrap().0).unwrap()
}

fn ops(meta: &Value) -> Vec<String> {
    let lines = meta["history"].as_array().unwrap().iter();
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    lines
        .map(|line| format!("{} {}", text(line, "op"), text(line, "path")))
        .collect()
}

fn synced(engine: &Engine, id: &WorkspaceId) -> Vec<String> {
    let synced = engine.sync.sync_workspace(id).unwrap();
    let told = synced.changes.iter().map(|one| match &one.from {
        Some(from) => format!("{} {from} {}", one.op.as_str(), one.path),
        None => format!("{} {}", one.op.as_str(), one.path),
    });
    told.collect()
}

#[test]
fn the_index_says_when_each_entry_changed_and_what_it_is() {
    let test = TestEngine::new(ProviderName::Copy);
    let (id, _) = workspace(&test.engine);
    put(&test.engine, &id, "d/a.txt", "a\n", &user());
    put(&test.engine, &id, "page", "%PDF-1.7\n", &user());
    let all = meta(&test.engine, &id, ".meta");
    let files = all["files"].as_array().unwrap();
    assert_eq!(files.len(), 3, "{all}");
    let row = test.engine.workspaces.workspace(&id).unwrap();
    for file in files {
        let at: String = file["modified_at"].as_str().unwrap().to_owned();
        assert!(at >= row.created_at.to_string(), "{file}");
    }
    let mime = |path: &str| {
        let found = files.iter().find(|file| file["path"] == path).unwrap();
        found["mime_type"].clone()
    };
    assert_eq!(mime("d/a.txt"), "text/plain");
    assert_eq!(mime("page"), "application/pdf");
    assert_eq!(mime("d"), Value::Null);
}

#[test]
fn what_is_told_of_a_path_follows_moves_and_outlives_it() {
    let test = TestEngine::new(ProviderName::Copy);
    let engine = &test.engine;
    let (id, root) = workspace(engine);
    let mut first = user();
    first.message_id = Some("m-1".to_owned());
    put(engine, &id, "a.txt", "one\n", &first);
    put(engine, &id, "a.txt", "two\n", &user());
    engine
        .workspaces
        .move_file(&id, &p("a.txt"), &p("d/b.txt"), &user())
        .unwrap();
    fs::rename(root.join("d/b.txt"), root.join("c.txt")).unwrap();
    assert_eq!(synced(engine, &id), ["move d/b.txt c.txt"]);
    let told = meta(engine, &id, "c.txt");
    assert_eq!(
        ops(&told),
        ["move c.txt", "move d/b.txt", "write a.txt", "create a.txt"]
    );
    assert_eq!(told["message_ids"], serde_json::json!(["m-1"]));
    assert_eq!(told["deleted"], false);
    // Another file under an old name has its own history.
    put(engine, &id, "a.txt", "new\n", &user());
    assert_eq!(ops(&meta(engine, &id, "c.txt")).len(), 4);

    engine
        .workspaces
        .delete_file(&id, &p("c.txt"), false, &user())
        .unwrap();
    let told = meta(engine, &id, "c.txt");
    assert_eq!(told["deleted"], true);
    assert_eq!(ops(&told)[..2], ["delete c.txt", "move c.txt"]);
    assert_eq!(
        (&told["type"], &told["operator"]),
        (&"file".into(), &"user".into())
    );
    let never = engine
        .workspaces
        .open_file(&id, &p(".meta/never"))
        .map(drop)
        .unwrap_err();
    assert_eq!(never.code(), offshoot_core::ErrorCode::FileNotFound);
    let gone = engine.history.metadata(&id, &p("c.txt")).unwrap_err();
    assert_eq!(gone.code(), offshoot_core::ErrorCode::FileNotFound);
    test.check();
}

#[test]
fn renamed_files_are_moves_whatever_made_the_directory() {
    with_each(|test| {
        let engine = &test.engine;
        let project = test.project("app");
        let (fork, fork_root) = test.fork(&project, "ada");
        let (alone, alone_root) = workspace(engine);
        for path in ["README", "src/main.rs", "src/lib.rs"] {
            put(
                engine,
                &alone,
                path,
                &test.project_text(&project, path),
                &user(),
            );
        }
        for (id, root) in [(&fork, &fork_root), (&alone, &alone_root)] {
            fs::write(root.join("twin-1"), "same\n").unwrap();
            fs::write(root.join("twin-2"), "same\n").unwrap();
            fs::write(root.join("empty"), "").unwrap();
            synced(engine, id);
            fs::rename(root.join("README"), root.join("README.md")).unwrap();
            fs::rename(root.join("src"), root.join("lib")).unwrap();
            fs::create_dir(root.join("t")).unwrap();
            // Two files of equal content: those of equal name are paired first, then the others in
            // order.
            fs::rename(root.join("twin-2"), root.join("t/twin-2")).unwrap();
            fs::rename(root.join("twin-1"), root.join("t/a")).unwrap();
            fs::rename(root.join("empty"), root.join("void")).unwrap();
            assert_eq!(
                synced(engine, id),
                [
                    "move README README.md",
                    "delete empty",
                    "mkdir lib",
                    "move src/lib.rs lib/lib.rs",
                    "move src/main.rs lib/main.rs",
                    "delete src",
                    "mkdir t",
                    "move twin-1 t/a",
                    "move twin-2 t/twin-2",
                    "create void"
                ]
            );
            // A copy is no rename, nor is a file that was changed as well.
            fs::copy(root.join("README.md"), root.join("copy")).unwrap();
            fs::rename(root.join("t/a"), root.join("changed")).unwrap();
            fs::write(root.join("changed"), "other\n").unwrap();
            assert_eq!(
                synced(engine, id),
                ["create changed", "create copy", "delete t/a"]
            );
        }
        let told = meta(engine, &fork, "lib/main.rs");
        let ops = ops(&told);
        assert_eq!(ops[0], "move lib/main.rs");
        assert!(ops.len() > 1 && ops[1].ends_with("src/main.rs"), "{ops:?}");
        test.check();
    });
}

#[test]
fn a_fork_names_the_author_of_what_it_did_not_change() {
    let test = TestEngine::new(ProviderName::Copy);
    let engine = &test.engine;
    let project = test.project("app");
    let (fork, root) = test.fork(&project, "ada");
    fs::write(root.join("README"), "by ada\n").unwrap();
    let options = CompleteOptions::default();
    engine.merges.complete(&fork, &options, &user()).unwrap();
    let (fork, _) = test.fork(&project, "bob");
    let later = test.fork(&project, "eve");
    fs::write(later.1.join("README"), "by eve\n").unwrap();
    engine.merges.complete(&later.0, &options, &user()).unwrap();
    let told = meta(engine, &fork, "README");
    assert_eq!(
        (&told["author"], &told["operator"]),
        (&"ada".into(), &"system".into())
    );
    assert!(ops(&told).len() >= 2, "{told}");
    let told = meta(engine, &fork, "docs/a/b");
    assert_eq!(told["author"], "user");
    // A caller that sees one workspace learns no names of others.
    let principal = Principal {
        operator: Operator::new("bob"),
        scope: Scope {
            kind: PrincipalKind::Agent,
            reach: Reach::Workspace(fork.clone()),
            allow: Vec::new(),
        },
        token: None,
        expires_at: None,
        home: None,
    };
    let access = engine.access.acting_as(Arc::new(principal), None);
    let window = access
        .read_window(&fork, &p(".meta/README"), 0, 5000)
        .unwrap();
    assert_eq!(window.mime, "application/json");
    assert!(!format!("{window:?}").contains("ada"), "{window:?}");
    assert_eq!(
        access
            .metadata(&fork, &p("README"))
            .unwrap()
            .author
            .as_deref(),
        Some("system")
    );
    test.check();
}

#[test]
fn counts_are_what_is_listed_whoever_found_the_directory() {
    let test = TestEngine::new(ProviderName::Copy);
    let engine = &test.engine;
    for (layout, before) in [
        (Layout::Plain, false),
        (Layout::Plain, true),
        (Layout::Session, false),
        (Layout::Session, true),
    ] {
        let made = engine
            .workspaces
            .create_workspace(None, layout, Quota::default(), &user());
        let id = made.unwrap().id;
        if before {
            engine.workspaces.hand_out_path(&id).unwrap();
        }
        put(engine, &id, "temp/a", "a\n", &user());
        let root = engine.workspaces.hand_out_path(&id).unwrap();
        fs::create_dir(root.join("temp/d")).unwrap();
        fs::write(root.join("temp/d/b"), "outside\n").unwrap();
        let (files, dirs, bytes) = listed(engine, &id);
        let info = engine.workspaces.info(&id).unwrap();
        let counted = (info.file_count, info.dir_count, info.total_size);
        assert_eq!(counted, (files, dirs, bytes), "{layout:?} {before}");
        assert_eq!((files, bytes), (2, 10));
    }
}

/// Later changes of the project do not displace those before the base.
#[test]
fn the_past_of_a_file_in_the_project_is_told_however_much_followed() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("web");
    test.put(&project, "busy", "before\n");
    let (fork, _) = test.fork(&project, "ada");
    for number in 0..1_010 {
        test.put(&project, "busy", &format!("{number}\n"));
    }
    let told = meta(&test.engine, &fork, "busy");
    assert_eq!(ops(&told), ["create busy"], "{told}");
}

#[test]
fn the_index_of_a_large_workspace_ends_and_says_so() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let (id, path) = workspace(&test.engine);
    for number in 0..10_005 {
        fs::write(path.join(format!("{number}.txt")), "").unwrap();
    }
    test.engine.sync.sync_workspace(&id).unwrap();
    let told = meta(&test.engine, &id, ".meta");
    assert_eq!(told["files"].as_array().unwrap().len(), 10_000);
    assert_eq!(told["more_files"], 5);
    fs::remove_file(path.join("0.txt")).unwrap();
    for number in 1..=4 {
        fs::remove_file(path.join(format!("{number}.txt"))).unwrap();
    }
    test.engine.sync.sync_workspace(&id).unwrap();
    let told = meta(&test.engine, &id, ".meta");
    assert_eq!(told.get("more_files"), None);
}

/// Files, directories and bytes, as lists show them.
fn listed(engine: &Engine, id: &WorkspaceId) -> (i64, i64, i64) {
    let (mut files, mut dirs, mut bytes) = (0, 0, 0);
    let mut open = vec![offshoot_core::RelPath::root()];
    while let Some(dir) = open.pop() {
        for entry in engine.workspaces.list(id, &dir).unwrap() {
            match entry.kind {
                offshoot_core::EntryKind::Dir => {
                    dirs += 1;
                    open.push(entry.path);
                }
                _ => {
                    files += 1;
                    bytes += entry.size;
                }
            }
        }
    }
    (files, dirs, bytes)
}

#[test]
fn counts_of_a_fork_are_what_is_listed() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "ada");
        let before = listed(&test.engine, &id);
        fs::create_dir(path.join("src/d")).unwrap();
        fs::write(path.join("src/d/b"), "outside\n").unwrap();
        fs::remove_file(path.join("docs/a/b")).unwrap();
        fs::write(path.join("README"), "longer than before\n").unwrap();
        for _ in 0..2 {
            let info = test.engine.workspaces.info(&id).unwrap();
            let counted = (info.file_count, info.dir_count, info.total_size);
            let now = listed(&test.engine, &id);
            assert_eq!(counted, now);
            assert_eq!((now.0, now.1), (before.0, before.1 + 1));
            assert_eq!(now.2, before.2 + 8 - 5 + 11);
            // The same files by the index.
            test.engine.sync.sync_workspace(&id).unwrap();
        }
    });
}
