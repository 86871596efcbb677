//! The tools of agents over plain HTTP: the workspace comes from the credential.

use serde_json::json;

use crate::common::{Client, Running};

fn call(client: &Client, tool: &str, arguments: &str) -> serde_json::Value {
    let reply = client.post(&format!("/api/v1/tools/{tool}"), arguments);
    assert_eq!(reply.status, 200, "{tool} {}", reply.text());
    reply.json()
}

#[test]
fn an_agent_works_with_tools_alone() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let agent = running.agent("a");
    running.client().delete("/api/v1/workspaces/a");
    let unassigned = agent.post("/api/v1/tools/list_files", "{}");
    assert_eq!(
        (unassigned.status, unassigned.code().as_str()),
        (404, "workspace_not_assigned")
    );
    running.client().create("a");
    let written = call(
        &agent,
        "write_file",
        r#"{"path":"src/a.txt","content":"one\ntwo äö\n"}"#,
    );
    assert_eq!(
        (written["path"].as_str(), written["size"].as_i64()),
        (Some("src/a.txt"), Some(13))
    );
    let window = call(
        &agent,
        "read_file",
        r#"{"path":"src/a.txt","offset":4,"length":5}"#,
    );
    assert_eq!(
        (window["content"].as_str(), window["total"].as_i64()),
        (Some("two ä"), Some(11))
    );
    let edited = call(
        &agent,
        "edit_file",
        r#"{"path":"src/a.txt","old":"two","new":"2"}"#,
    );
    assert_eq!(edited["replaced"], 1);
    let binary = r#"{"path":"b.bin","content":"AP8=","encoding":"base64"}"#;
    call(&agent, "write_file", binary);
    let window = call(&agent, "read_file", r#"{"path":"b.bin"}"#);
    assert_eq!(
        (window["content"].as_str(), window["encoding"].as_str()),
        (Some("AP8="), Some("base64"))
    );
    let listed = call(&agent, "list_files", "{}");
    assert_eq!(listed["text"], "[FILE] b.bin (2 bytes)\n[DIR]  src/\n");
    assert_eq!(
        call(&agent, "list_files", r#"{"subDir":"src"}"#)["entries"][0]["name"],
        "a.txt"
    );
    let found = call(
        &agent,
        "search_files",
        r#"{"pattern":"2 ä","glob":"src/**"}"#,
    );
    assert_eq!(
        (
            found["matches"][0]["path"].as_str(),
            found["matches"][0]["line"].as_i64()
        ),
        (Some("src/a.txt"), Some(2))
    );
    let taken = call(&agent, "snapshot", r#"{"label":"x"}"#);
    call(&agent, "move_file", r#"{"from":"src/a.txt","to":"c.txt"}"#);
    call(&agent, "delete_file", r#"{"path":"c.txt"}"#);
    assert_eq!(
        call(&agent, "diff", "{}")["changes"][0]["change"],
        "deleted"
    );
    let restore = format!("{{\"snapshot\":{}}}", taken["id"]);
    assert!(call(&agent, "restore", &restore)["kept_snapshot"].is_string());
    assert_eq!(call(&agent, "get_workspace_info", "{}")["fileCount"], 2);
    assert_eq!(
        call(&agent, "list_snapshots", "{}")["snapshots"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        call(&agent, "history", r#"{"limit":1}"#)["history"][0]["operator"],
        "a"
    );
    let shown = call(&agent, "show_files", r#"{"paths":["src/a.txt"]}"#);
    assert_eq!(shown["ui"]["paths"][0], "src/a.txt");
}

#[test]
fn wrong_calls_say_what_is_wrong() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let agent = running.agent("a");
    for (tool, arguments, code) in [
        ("nothing", "{}", "invalid_request"),
        ("read_file", "{}", "invalid_request"),
        ("read_file", r#"{"path":1}"#, "invalid_request"),
        (
            "read_file",
            r#"{"path":"a","workspace":"b"}"#,
            "invalid_request",
        ),
        ("read_file", r#"{"path":"../b"}"#, "path_traversal_blocked"),
        (
            "read_file",
            r#"{"path":"/etc/passwd"}"#,
            "path_traversal_blocked",
        ),
        ("read_file", r#"{"path":"none"}"#, "file_not_found"),
        (
            "write_file",
            r#"{"path":"x","content":"%","encoding":"base64"}"#,
            "invalid_request",
        ),
        ("write_file", "not json", "invalid_request"),
        ("restore", r#"{"snapshot":"0123456"}"#, "snapshot_not_found"),
        ("search_files", r#"{"pattern":""}"#, "invalid_request"),
    ] {
        let reply = agent.post(&format!("/api/v1/tools/{tool}"), arguments);
        assert_eq!(reply.code(), code, "{tool} {arguments} {}", reply.text());
    }
    // A token for everything stands for no workspace.
    let admin = running.client().post("/api/v1/tools/list_files", "{}");
    assert_eq!(admin.code(), "workspace_not_assigned");
    let tools = agent.get("/api/v1/tools").json();
    let tools = tools["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 21);
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["inputSchema"]["properties"].is_object(), "{tool}");
    }
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
}

/// Writes of many clients are made together. Each is checked by its own credential, answered by its
/// own answer and noted under its own name, and what is refused of one does not touch the others.
#[test]
fn clients_that_write_at_once_are_answered_one_by_one() {
    const CLIENTS: usize = 12;
    const EACH: usize = 12;
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("w");
    running.client().create("other");
    let large = "x".repeat(200_000);
    let written = std::sync::Mutex::new(std::collections::BTreeMap::new());
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (running, written, large) = (&running, &written, &large);
            scope.spawn(move || {
                let all = running.client_for("w", &[]);
                let limited = running.client_for("w", &["open/**:read,write"]);
                let elsewhere = running.client_for("other", &[]);
                for n in 0..EACH {
                    let content = match n % 6 {
                        5 => format!("{client} {n} {large}"),
                        _ => format!("{client} {n}"),
                    };
                    let (sender, path, refusal) = match n % 6 {
                        0 => (&limited, format!("open/{client}/{n}"), None),
                        1 => (
                            &limited,
                            format!("shut/{client}/{n}"),
                            Some("permission_denied"),
                        ),
                        2 => (&all, format!("../{client}"), Some("path_traversal_blocked")),
                        3 => (&elsewhere, format!("{client}/{n}"), None),
                        _ => (&all, format!("{client}/{n}"), None),
                    };
                    let body = serde_json::json!({ "path": path, "content": content });
                    let reply = sender.post("/api/v1/tools/write_file", &body.to_string());
                    if let Some(code) = refusal {
                        assert_eq!((reply.status / 100, reply.code().as_str()), (4, code));
                        continue;
                    }
                    assert_eq!(reply.status, 200, "{path} {}", reply.text());
                    let answer = reply.json();
                    assert_eq!(answer["path"], path.as_str());
                    assert_eq!(answer["size"], content.len());
                    let ws = if n % 6 == 3 { "other" } else { "w" };
                    let version = answer["version"].as_i64().unwrap();
                    let before = written
                        .lock()
                        .unwrap()
                        .insert((ws, version), (path, content));
                    assert_eq!(before, None, "two writes have one version");
                }
            });
        }
    });
    let written = written.into_inner().unwrap();
    assert_eq!(written.len(), CLIENTS * EACH * 4 / 6);
    for ((ws, _), (path, content)) in &written {
        let reply = running
            .client()
            .get(&format!("/api/v1/workspaces/{ws}/files/{path}"));
        assert_eq!(reply.text(), *content, "{ws} {path}");
    }
    for ws in ["w", "other"] {
        let history = format!("/api/v1/workspaces/{ws}/history?limit=1000");
        let history = running.client().get(&history).json();
        let lines = history["history"].as_array().unwrap();
        let creates = lines.iter().filter(|line| line["op"] == "create");
        let mine = written.keys().filter(|(of, _)| *of == ws);
        assert_eq!(creates.count(), mine.count(), "{ws}");
    }
}

/// However much a workspace holds, an answer holds so much of it, says how much there is, and the
/// rest follows part by part.
#[test]
fn answers_do_not_grow_with_the_workspace() {
    const FILES: usize = 10_000;
    const MOST: usize = 1000;
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let admin = running.client();
    admin.create_project("p", &[(".gitignore", "i-*\n")]);
    let fork = admin.fork("p", "a");
    let dir = std::path::PathBuf::from(fork["path"].as_str().unwrap());
    let agent = running.agent("a");
    let begun = call(&agent, "snapshot", r#"{"label":"empty"}"#);
    for n in 0..FILES {
        std::fs::write(dir.join(format!("f-{n:05}")), "x\n").unwrap();
    }
    for n in 0..MOST + 5 {
        std::fs::write(dir.join(format!("i-{n:05}")), "x\n").unwrap();
    }
    // A part of a list by its paths, the whole answer, and where it goes on.
    let part = |tool: &str, list: &str, after: Option<&str>| {
        let asked = after.map_or(json!({}), |after| json!({ "after": after }));
        let reply = agent.post(&format!("/api/v1/tools/{tool}"), &asked.to_string());
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.body.len() < 1_000_000, "{tool}: {}", reply.body.len());
        let answer = reply.json();
        let part = answer[list].as_array().unwrap().iter();
        let part: Vec<String> = part
            .map(|one| one["path"].as_str().unwrap().to_owned())
            .collect();
        assert!(part.len() <= MOST, "{tool}: {}", part.len());
        let next = answer["next"].as_str().map(str::to_owned);
        (part, next, answer)
    };
    let files: Vec<String> = (0..FILES).map(|n| format!("f-{n:05}")).collect();
    let (listed, next, answer) = part("list_files", "entries", None);
    assert_eq!(listed[1..], files[..MOST - 1]);
    assert_eq!(next.as_deref(), Some("f-00998"));
    assert_eq!(answer["total"], 1 + FILES + MOST + 5);
    let text = answer["text"].as_str().unwrap();
    assert_eq!(text.lines().count(), MOST + 1);
    assert!(text.ends_with("go on with `after`: f-00998]\n"), "{text}");
    let (listed, next, answer) = part("list_files", "entries", Some("f-09999"));
    assert_eq!((listed.len(), next.as_deref()), (MOST, Some("i-00999")));
    assert_eq!(answer["total"], 1 + FILES + MOST + 5);
    let (listed, next, _) = part("list_files", "entries", Some("i-00999"));
    assert_eq!((listed.len(), next), (5, None));
    for tool in ["status", "diff"] {
        let (changed, next, answer) = part(tool, "changes", None);
        assert_eq!(changed, files[..MOST], "{tool}");
        assert_eq!(next.as_ref(), Some(&files[MOST - 1]), "{tool}");
        match tool {
            "status" => {
                assert_eq!(answer["total"]["changes"], FILES);
                assert_eq!(answer["total"]["ignored"], MOST + 5);
            }
            _ => assert_eq!(answer["total_changes"], FILES),
        }
        let (changed, ..) = part(tool, "changes", Some("f-09499"));
        assert_eq!(changed, files[9500..], "{tool}");
    }
    // What is ignored is a list of the same paths.
    let (_, next, answer) = part("status", "changes", Some("f-09999"));
    assert_eq!(answer["ignored"].as_array().unwrap().len(), MOST);
    assert_eq!(next.as_deref(), Some("i-00999"));
    let few = call(&agent, "status", r#"{"limit":3,"after":"f-00009"}"#);
    let few = few["changes"].as_array().unwrap().iter();
    let few: Vec<&str> = few.map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(few, ["f-00010", "f-00011", "f-00012"]);
    // What was done once cannot be asked for again part by part, so it says how much it was.
    let restore = format!("{{\"snapshot\":{}}}", begun["id"]);
    let restored = call(&agent, "restore", &restore);
    assert_eq!(restored["changes"].as_array().unwrap().len(), MOST);
    assert_eq!(restored["truncated"]["changes"], FILES);
    let many = serde_json::json!({ "paths": vec!["a"; 101] }).to_string();
    let refused = agent.post("/api/v1/tools/show_files", &many);
    assert_eq!(refused.code(), "invalid_request");
}
