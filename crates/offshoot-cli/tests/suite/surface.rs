//! What can be typed at all: every command of the contract, its help, its JSON, its settings.

use std::collections::BTreeSet;

use crate::support::Place;

/// The commands that the contract lists for workspaces, files, snapshots and upkeep.
const COMMANDS: &[&str] = &[
    "workspace create",
    "workspace list",
    "workspace show",
    "workspace path",
    "workspace delete",
    "workspace export",
    "workspace quota",
    "project create",
    "project list",
    "project show",
    "project log",
    "project files",
    "project cat",
    "project put",
    "project versions",
    "project diff",
    "project sync",
    "project policy",
    "project export",
    "project delete",
    "init",
    "pull",
    "push",
    "fork",
    "update",
    "shell",
    "complete",
    "merge log",
    "merge show",
    "merge undo",
    "merge take",
    "review list",
    "review show",
    "review propose",
    "review resolve",
    "agent spawn",
    "agent list",
    "agent end",
    "agent workspace",
    "blame",
    "ls",
    "cat",
    "put",
    "rm",
    "mv",
    "mkdir",
    "tree",
    "info",
    "metadata",
    "edit",
    "upload",
    "status",
    "diff",
    "snapshot",
    "snapshots",
    "restore",
    "history",
    "sync",
    "clean",
    "purge workspace",
    "purge path",
    "purge content",
    "check",
    "doctor",
    "config show",
    "data remove",
    "forks",
    "workspace convert",
    "completions",
    "demo",
    "merge-file",
    "bench",
];

#[test]
fn every_command_exists_and_has_help() {
    let place = Place::new();
    for command in COMMANDS {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let ran = place.done(&args);
        assert!(ran.stdout.contains("Usage: offshoot"), "{command}");
        for option in ["--data", "--json", "--quiet", "--no-color", "--message"] {
            assert!(ran.stdout.contains(option), "{command} has no {option}");
        }
    }
    let top = place.done(&["--help"]).stdout;
    for command in COMMANDS {
        let word = command.split(' ').next().unwrap();
        assert!(
            top.contains(&format!("  {word}")) || word == "metadata",
            "{word}"
        );
    }
    assert!(place.done(&["--version"]).stdout.starts_with("offshoot "));
}

#[test]
fn docs_name_every_command() {
    let docs = include_str!("../../../../docs/cli.md");
    for command in COMMANDS {
        assert!(
            docs.contains(&format!("offshoot {command}")),
            "docs/cli.md lacks `{command}`"
        );
    }
}

#[test]
fn json_is_one_document_everywhere() {
    let place = Place::new();
    std::fs::write(place.path().join("f"), "text\n").unwrap();
    let json = |args: &[&str]| {
        let ran = place.done(&[&["--json"], args].concat());
        assert_eq!(ran.stderr, "", "{args:?}");
        ran.json()
    };
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let set = |names: &[&str]| {
        names
            .iter()
            .map(|&name| name.to_owned())
            .collect::<BTreeSet<_>>()
    };

    assert_eq!(json(&["workspace", "create", "w"])["id"], "w");
    assert_eq!(json(&["workspace", "list"])["workspaces"][0]["id"], "w");
    assert_eq!(json(&["workspace", "show", "w"])["materialized"], false);
    assert_eq!(
        json(&["workspace", "quota", "w"])["bytes"],
        serde_json::Value::Null
    );
    assert_eq!(json(&["ls", "w"])["entries"], serde_json::json!([]));
    let written = json(&["put", "w", "d/a.txt", "f"]);
    assert_eq!(
        keys(&written),
        set(&["path", "size", "mimeType", "version", "id", "created"])
    );
    assert_eq!(
        json(&["edit", "w", "d/a.txt", "--old", "text", "--new", "TEXT"])["replaced"],
        1
    );
    assert_eq!(json(&["upload", "w", "f"])["path"], "upload/f");
    let listed = json(&["ls", "w", "d"]);
    assert_eq!(
        keys(&listed["entries"][0]),
        set(&[
            "name",
            "path",
            "type",
            "size",
            "modified_at",
            "mime_type",
            "operator"
        ])
    );
    assert_eq!(listed["entries"][0]["type"], "file");
    let window = json(&["cat", "w", "d/a.txt", "--offset", "1", "--length", "2"]);
    assert_eq!(window["content"], "EX");
    assert_eq!(
        keys(&window),
        set(&[
            "content",
            "start",
            "total",
            "readLength",
            "mimeType",
            "encoding"
        ])
    );
    assert_eq!(
        keys(&json(&["tree", "w"])),
        set(&["name", "path", "children"])
    );
    assert_eq!(
        keys(&json(&["info", "w"])),
        set(&[
            "file_count",
            "dir_count",
            "total_size",
            "disk_usage",
            "last_modified",
            "created_at",
            "materialized"
        ])
    );
    assert_eq!(
        json(&["metadata", "w", "d/a.txt"])["history"][0]["op"],
        "write"
    );
    assert_eq!(json(&["status", "w"])["changes"][0]["change"], "added");
    let first = json(&["snapshot", "w", "-m", "one"]);
    assert_eq!(first["created"], true);
    let first = first["id"].as_str().unwrap();
    assert_eq!(json(&["snapshots", "w"])["snapshots"][0]["label"], "one");
    assert_eq!(json(&["mkdir", "w", "e"])["path"], "e");
    assert_eq!(json(&["mv", "w", "d/a.txt", "e/b"])["to"], "e/b");
    assert_eq!(
        json(&["cat", "w", "d/a.txt", "--at", first])["content"],
        "TEXT\n"
    );
    let diff = json(&["diff", "w", "--from", first]);
    assert_eq!(diff["changes"][0]["diff"], "@@ -1 +0,0 @@\n-TEXT\n");
    assert_eq!(json(&["rm", "w", "e", "-r"])["files"], 1);
    let restored = json(&["restore", "w", first]);
    assert_eq!(
        keys(&restored),
        set(&["snapshot", "kept_snapshot", "changes"])
    );
    assert!(json(&["history", "w"])["history"].as_array().unwrap().len() > 5);
    let path = json(&["workspace", "path", "w"]);
    assert!(
        std::path::Path::new(path["path"].as_str().unwrap())
            .join("d/a.txt")
            .is_file()
    );
    assert_eq!(json(&["sync", "w"])["changes"], serde_json::json!([]));
    assert_eq!(
        json(&["workspace", "export", "w", "--git", "w.git"])["snapshots"],
        2
    );
    assert_eq!(json(&["clean"])["dry_run"], false);
    assert_eq!(json(&["check"])["ok"], true);
    assert_eq!(json(&["doctor"])["checks"][0]["name"], "data directory");
    assert_eq!(json(&["config", "show"])["settings"][1]["name"], "data");
    assert_eq!(json(&["workspace", "delete", "w"])["deleted"], true);
    assert_eq!(json(&["purge", "workspace", "w"])["workspaces"], 1);
}

#[test]
fn settings_come_from_flag_then_environment_then_file() {
    let place = Place::new();
    let origin = |args: &[&str], envs: &[(&str, &str)], name: &str| {
        let mut command = place.command(&[&["--json", "config", "show"], args].concat());
        command.env_remove("OFFSHOOT_DATA");
        let output = command.envs(envs.iter().copied()).output().unwrap();
        let settings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let settings = settings["settings"].as_array().unwrap().clone();
        let found = settings
            .into_iter()
            .find(|setting| setting["name"] == name)
            .unwrap();
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("value"), text("origin"))
    };
    std::fs::write(
        place.path().join("c.toml"),
        "operator = 'carol'\ndata = '/d/file'\n",
    )
    .unwrap();
    let file: &[&str] = &["--config", "c.toml"];
    let env: &[(&str, &str)] = &[("OFFSHOOT_OPERATOR", "eve"), ("OFFSHOOT_CONFIG", "c.toml")];
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(origin(&[], &[], "operator"), pair("user", "default"));
    assert_eq!(origin(file, &[], "operator"), pair("carol", "file"));
    assert_eq!(origin(&[], env, "operator"), pair("eve", "env"));
    assert_eq!(
        origin(&["--operator", "flo"], env, "operator"),
        pair("flo", "flag")
    );
    assert_eq!(origin(&[], env, "data"), pair("/d/file", "file"));
    let home = place.path().join(".local/share/offshoot");
    assert_eq!(
        origin(&[], &[], "data"),
        pair(home.to_str().unwrap(), "default")
    );
    assert_eq!(
        origin(&[], &[("XDG_DATA_HOME", "/xdg")], "data"),
        pair("/xdg/offshoot", "default")
    );
    let retention = "session_retention";
    assert_eq!(origin(&[], &[], retention), pair("off", "default"));
    let ninety = [("OFFSHOOT_SESSION_RETENTION", "90d")];
    assert_eq!(origin(&[], &ninety, retention), pair("90d", "env"));
    let too_short = "[server]\nsession_retention = '10s'\n";
    std::fs::write(place.path().join("bad.toml"), too_short).unwrap();
    let bad = place.run(&["--config", "bad.toml", "config", "show"]);
    assert_eq!(bad.code, 1);
    assert!(bad.stderr.contains("session_retention"), "{}", bad.stderr);
    std::fs::write(place.path().join("bad.toml"), "colour = 1\n").unwrap();
    let bad = place.run(&["--config", "bad.toml", "config", "show"]);
    assert_eq!(bad.code, 1);
    assert!(bad.stderr.contains("colour"), "{}", bad.stderr);
}

#[test]
fn completions_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = place.done(&["completions", shell]);
        assert!(ran.stdout.contains("snapshots"), "{shell}");
    }
    // A script is longer than a pipe holds: a reader of its head alone must not see a panic.
    let mut child = place
        .command(&["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn doctor_says_what_it_found() {
    let place = Place::with_workspace();
    let ran = place.done(&["doctor"]);
    for name in [
        "data directory",
        "file system",
        "free space",
        "reserve",
        "path resolution",
    ] {
        assert!(ran.stdout.contains(name), "{}", ran.stdout);
    }
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let bad = place.run(&["--data", file.to_str().unwrap(), "doctor"]);
    assert_eq!(bad.code, 1);
    assert!(bad.stdout.contains("--data DIR"), "{}", bad.stdout);
}
