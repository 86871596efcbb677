//! What tools and older routes take that the routes of the API do not: backslashes, inner `..`, and
//! requests that leave out what can only mean one thing.

use offshoot_testkit::HostDir;
use serde_json::{Value, json};

use crate::common::{Client, Running, encode};

fn start() -> (HostDir, Running) {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let session = json!({ "id": "chat", "layout": "session" }).to_string();
    let made = running.client().post("/api/v1/workspaces", &session);
    assert_eq!(made.status, 201, "{}", made.text());
    running.client().create("plain");
    (data, running)
}

fn tool(client: &Client, name: &str, arguments: Value) -> (u16, Value) {
    let reply = client.post(&format!("/api/v1/tools/{name}"), &arguments.to_string());
    (reply.status, reply.json())
}

#[test]
fn tools_and_older_routes_read_a_backslash_as_a_slash() {
    let (_data, running) = start();
    let client = running.client_for("plain", &[]);
    let done = |name: &str, arguments: Value| {
        let (status, answer) = tool(&client, name, arguments);
        assert_eq!(status, 200, "{name} {answer}");
        answer
    };
    let write =
        |path: &str| done("write_file", json!({ "path": path, "content": "x" }))["path"].clone();
    assert_eq!(write("src\\deep\\a.txt"), "src/deep/a.txt");
    // Two digits after `\x` are a byte, whatever it is.
    assert_eq!(write("src\\xff"), "src\\xff");
    assert_eq!(write("src\\x5cb"), "src\\x5cb");
    assert_eq!(write("src\\xyz"), "src/xyz");
    for path in [
        "src\\deep\\a.txt",
        "src/deep\\a.txt",
        "src\\xff",
        "src\\x5cb",
    ] {
        assert_eq!(
            done("read_file", json!({ "path": path }))["content"],
            "x",
            "{path}"
        );
        let target = format!("/api/workspace/plain/read/{}", encode(path.as_bytes()));
        assert_eq!(client.get(&target).json()["content"], "x", "{path}");
    }
    let listed = done("list_files", json!({ "path": "src\\deep" }));
    assert_eq!(listed["entries"][0]["path"], "src/deep/a.txt");
    let moved = done(
        "move_file",
        json!({ "from": "src\\xyz", "to": "src\\deep\\b" }),
    );
    assert_eq!(
        (&moved["from"], &moved["to"]),
        (&json!("src/xyz"), &json!("src/deep/b"))
    );
    let shown = done("show_files", json!({ "paths": ["src\\deep\\b"] }));
    assert_eq!(shown["ui"]["paths"], json!(["src/deep/b"]));
    let of = |rest: &str| client.get(&format!("/api/workspace/plain/{rest}"));
    let listed = of("list?path=src%5Cdeep").json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 2, "{listed}");
    let lines = of("history?path=src%5Cdeep%5Ca.txt").json();
    assert_eq!(lines["history"].as_array().unwrap().len(), 1, "{lines}");
    let deleted = client
        .delete("/api/workspace/plain/delete/src%5Cdeep%5Cb")
        .json();
    assert_eq!(deleted["path"], "src/deep/b", "{deleted}");
    // What leads outside by a backslash is refused as by a slash.
    for path in ["..\\x", "\\etc\\passwd", "src\\..\\..\\x", "\\x2e\\x2e/x"] {
        for name in ["read_file", "delete_file", "list_files"] {
            let (status, answer) = tool(&client, name, json!({ "path": path }));
            assert_eq!(
                (status, &answer["error"]["code"]),
                (400, &json!("path_traversal_blocked")),
                "{name} {path}"
            );
        }
        let reply = of(&format!("read/{}", encode(path.as_bytes())));
        assert_eq!(reply.code(), "path_traversal_blocked", "{path}");
    }
    // The routes of the API name bytes: a backslash is one of them.
    let put = client.put("/api/v1/workspaces/plain/files/a%5Cb", b"y");
    assert_eq!(put.status, 201, "{}", put.text());
    assert_eq!(
        done("read_file", json!({ "path": "a\\x5cb" }))["content"],
        "y"
    );
}

#[test]
fn an_inner_step_up_is_taken_out_in_a_session_alone() {
    let (_data, running) = start();
    let chat = running.client_for("chat", &[]);
    let path = "a/../outputs/x/../y.txt";
    let (status, written) = tool(&chat, "write_file", json!({ "path": path, "content": "y" }));
    assert_eq!(
        (status, &written["path"]),
        (200, &json!("outputs/y.txt")),
        "{written}"
    );
    let (_, read) = tool(
        &chat,
        "read_file",
        json!({ "path": "temp\\..\\outputs\\y.txt" }),
    );
    assert_eq!(read["content"], "y", "{read}");
    let target = format!("/api/workspace/chat/read/{}", encode(path.as_bytes()));
    assert_eq!(chat.get(&target).json()["content"], "y");
    let (_, listed) = tool(&chat, "list_files", json!({ "path": "outputs/.." }));
    assert!(
        listed["text"].as_str().unwrap().contains("outputs/"),
        "{listed}"
    );
    // What it leads to is checked, not what it begins with.
    let arguments = json!({ "path": "outputs/../skills/x", "content": "y" });
    let (status, refused) = tool(&chat, "write_file", arguments);
    assert_eq!(
        (status, &refused["error"]["code"]),
        (403, &json!("permission_denied"))
    );
    let limited = running.client_for("chat", &["uploads/**:read"]);
    let (status, _) = tool(
        &limited,
        "read_file",
        json!({ "path": "uploads/../outputs/y.txt" }),
    );
    assert_eq!(status, 403);
    let blocked = json!("path_traversal_blocked");
    for path in [
        "../x",
        "a/../../x",
        "/outputs/../y",
        "outputs/../../outputs/y.txt",
    ] {
        let (status, answer) = tool(&chat, "read_file", json!({ "path": path }));
        assert_eq!(
            (status, &answer["error"]["code"]),
            (400, &blocked),
            "{path}"
        );
    }
    // Elsewhere it is refused: an agent that is told so makes no mistake of it.
    let plain = running.client_for("plain", &[]);
    let (status, answer) = tool(&plain, "read_file", json!({ "path": path }));
    assert_eq!((status, &answer["error"]["code"]), (400, &blocked));
    let v1 = chat.get("/api/v1/workspaces/chat/files/a%2F..%2Foutputs%2Fy.txt");
    assert_eq!(v1.code(), "path_traversal_blocked");
}

#[test]
fn histories_have_a_hundred_lines_unless_asked_otherwise() {
    let (_data, running) = start();
    let client = running.client_for("plain", &[]);
    for n in 0..120 {
        let id = "plain".parse().unwrap();
        let path = offshoot_core::RelPath::parse(format!("{n}").as_bytes()).unwrap();
        let content = offshoot_engine::Content::Bytes(b"x");
        let (options, cause) = (Default::default(), crate::common::cause());
        running
            .engine
            .workspaces
            .write_file(&id, &path, content, &options, &cause)
            .unwrap();
    }
    let count = |answer: &Value| answer["history"].as_array().unwrap().len();
    let (_, by_tool) = tool(&client, "history", json!({}));
    assert_eq!(count(&by_tool), 100);
    for target in [
        "/api/workspace/plain/history",
        "/api/v1/workspaces/plain/history",
    ] {
        assert_eq!(count(&client.get(target).json()), 100, "{target}");
        let few = client.get(&format!("{target}?limit=7")).json();
        assert_eq!(count(&few), 7, "{target}");
    }
}

#[test]
fn the_path_of_the_only_fork_needs_no_agent() {
    let (_data, running) = start();
    let admin = running.client();
    admin.create_project("p", &[("a", "a")]);
    let target = "/api/v1/workspace/p/path";
    let none = admin.get(target);
    assert_eq!(
        (none.status, none.code().as_str()),
        (404, "workspace_not_assigned")
    );
    let forked = admin.fork("p", "ada");
    let project = running.client_for_project("p", &[]);
    for client in [&admin, &project] {
        assert_eq!(client.get(target).json()["path"], forked["path"]);
    }
    // Nobody else learns a path of the host.
    for client in [running.agent("ada"), running.client_for("ada", &[])] {
        assert_eq!(client.get(target).code(), "project_not_found");
    }
    let second = admin.fork("p", "ada");
    assert_eq!(second["id"], "ada~2");
    let several = project.get(target);
    assert_eq!(
        (several.status, several.code().as_str()),
        (400, "invalid_request")
    );
    let error = several.json()["error"].clone();
    assert_eq!(error["details"]["workspaces"], json!(["ada", "ada~2"]));
    assert!(
        error["hint"].as_str().unwrap().contains("agent_id"),
        "{error}"
    );
    // Each of those that the error names is a way to choose.
    for fork in [&forked, &second] {
        let chosen = format!("{target}?agent_id={}", fork["id"].as_str().unwrap());
        assert_eq!(project.get(&chosen).json()["path"], fork["path"]);
    }
}
