//! MCP over HTTP: the same tools, the same check, the same errors.

use serde_json::{Value, json};

use crate::common::{Client, Reply, Running};

pub(crate) fn post(client: &Client, headers: &[(&str, &str)], message: &Value) -> Reply {
    let mut all = vec![
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    all.extend_from_slice(headers);
    client.send("POST", b"/mcp", &all, message.to_string().as_bytes())
}

pub(crate) fn call(client: &Client, tool: &str, arguments: Value, meta: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let reply = post(client, &[], &message);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

#[test]
fn tools_over_mcp() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let agent = running.agent("a");
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "0" } } });
    let hello = post(&agent, &[], &hello).json();
    assert_eq!(hello["result"]["serverInfo"]["name"], "offshoot", "{hello}");
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let tools = post(&agent, &[], &list).json();
    assert_eq!(
        tools["result"]["tools"].as_array().unwrap().len(),
        21,
        "{tools}"
    );
    assert_eq!(
        tools["result"]["tools"][0]["annotations"]["readOnlyHint"],
        true
    );
    let written = call(
        &agent,
        "write_file",
        json!({ "path": "a.txt", "content": "hello" }),
        json!({ "message_id": "m-9" }),
    );
    assert_eq!(
        written["result"]["structuredContent"]["size"], 5,
        "{written}"
    );
    let read = call(&agent, "read_file", json!({ "path": "a.txt" }), json!({}));
    assert_eq!(read["result"]["structuredContent"]["content"], "hello");
    let history = call(&agent, "history", json!({ "path": "a.txt" }), json!({}));
    let line = &history["result"]["structuredContent"]["history"][0];
    assert_eq!(
        (line["operator"].as_str(), line["message_id"].as_str()),
        (Some("a"), Some("m-9"))
    );
    let refused = call(&agent, "read_file", json!({ "path": "../b" }), json!({}));
    assert_eq!(refused["result"]["isError"], true);
    let error = &refused["result"]["structuredContent"]["error"];
    assert_eq!(error["code"], "path_traversal_blocked");
    let unknown = call(&agent, "nothing", json!({}), json!({}));
    assert!(unknown["error"].is_object(), "{unknown}");
}

#[test]
fn mcp_needs_a_token_and_our_own_host() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let nobody = Client::new(running.address, "");
    assert_eq!(post(&nobody, &[], &list).status, 401);
    let agent = running.agent("a");
    assert_eq!(post(&agent, &[("Host", "evil.example")], &list).status, 403);
    assert_eq!(
        post(&agent, &[("Origin", "http://evil.example")], &list).status,
        403
    );
    let own = format!("http://{}", running.address);
    assert_eq!(post(&agent, &[("Origin", &own)], &list).status, 200);
}

/// A request of the protocol without sessions: all that the server needs to know comes with it.
fn stateless(client: &Client, method: &str, name: Option<&str>, mut params: Value) -> Reply {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let mut headers = vec![
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
    ];
    if let Some(name) = name {
        headers.push(("Mcp-Name", name));
    }
    client.send("POST", b"/mcp", &headers, message.to_string().as_bytes())
}

#[test]
fn the_protocol_without_sessions() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let agent = running.agent("a");
    let found = stateless(&agent, "server/discover", None, json!({})).json();
    let versions = found["result"]["supportedVersions"].to_string();
    assert!(
        versions.contains("2026-07-28") && versions.contains("2025-11-25"),
        "{found}"
    );
    let tools = stateless(&agent, "tools/list", None, json!({})).json();
    assert_eq!(tools["result"]["resultType"], "complete", "{tools}");
    let write = json!({ "name": "write_file", "arguments": { "path": "a", "content": "x" } });
    let written = stateless(&agent, "tools/call", Some("write_file"), write.clone()).json();
    assert_eq!(
        written["result"]["structuredContent"]["size"], 1,
        "{written}"
    );
    // A header that says something else than the body would let a gateway be fooled.
    let fooled = stateless(&agent, "tools/call", Some("read_file"), write);
    assert_eq!(fooled.status, 400, "{}", fooled.text());
    let read = json!({ "uri": "workspace:a" });
    let read = stateless(&agent, "resources/read", Some("workspace:a"), read).json();
    assert_eq!(read["result"]["contents"][0]["text"], "x", "{read}");
    let unknown = stateless(&agent, "no/such", None, json!({}));
    assert_eq!(unknown.status, 404, "{}", unknown.text());
}

#[test]
fn files_are_resources() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let agent = running.agent("a");
    agent.put("/api/v1/workspaces/a/files/docs/a%20b.md", b"# hello");
    agent.put("/api/v1/workspaces/a/files/b.bin", b"\x00\xff");
    let ask = |method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        post(&agent, &[], &message).json()
    };
    let listed = ask("resources/list", json!({}));
    let listed = listed["result"]["resources"].as_array().unwrap();
    let uris: Vec<&str> = listed
        .iter()
        .filter_map(|one| one["uri"].as_str())
        .collect();
    assert_eq!(uris, ["workspace:b.bin", "workspace:docs/a%20b.md"]);
    assert_eq!(listed[1]["mimeType"], "text/markdown");
    assert_eq!(listed[1]["size"], 7);
    let templates = ask("resources/templates/list", json!({}));
    let template = &templates["result"]["resourceTemplates"][0];
    assert_eq!(template["uriTemplate"], "workspace:{+path}");
    let read = ask("resources/read", json!({ "uri": uris[1] }));
    assert_eq!(read["result"]["contents"][0]["text"], "# hello");
    let read = ask("resources/read", json!({ "uri": uris[0] }));
    assert_eq!(read["result"]["contents"][0]["blob"], "AP8=");
    for (uri, code) in [
        ("workspace:none", "file_not_found"),
        ("workspace:docs", "is_a_directory"),
        ("workspace:../b", "path_traversal_blocked"),
        ("workspace:%2e%2e/b", "path_traversal_blocked"),
        ("workspace:/etc/passwd", "path_traversal_blocked"),
        ("file:///etc/passwd", "invalid_request"),
    ] {
        let refused = ask("resources/read", json!({ "uri": uri }));
        assert_eq!(refused["error"]["data"]["uri"], uri, "{refused}");
        assert_eq!(
            refused["error"]["data"]["error"]["code"], code,
            "{uri} {refused}"
        );
    }
    // Page by page, and each once.
    for n in 0..501 {
        let id = "a".parse().unwrap();
        let path = offshoot_core::RelPath::parse(format!("many/{n:03}").as_bytes()).unwrap();
        let content = offshoot_engine::Content::Bytes(b"x");
        let options = Default::default();
        let cause = crate::common::cause();
        running
            .engine
            .write_file(&id, &path, content, &options, &cause)
            .unwrap();
    }
    let first = ask("resources/list", json!({}));
    let cursor = first["result"]["nextCursor"].as_str().unwrap();
    let second = ask("resources/list", json!({ "cursor": cursor }));
    let count = |page: &Value| page["result"]["resources"].as_array().unwrap().len();
    assert_eq!((count(&first), count(&second)), (500, 3));
    assert!(second["result"]["nextCursor"].is_null(), "{second}");
    // From any of them the rest follows, wherever in the tree it is.
    let uris = |page: &Value| -> Vec<String> {
        let list = page["result"]["resources"].as_array().unwrap().iter();
        list.map(|one| one["uri"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = [uris(&first), uris(&second)].concat();
    for (index, uri) in all.iter().enumerate().filter(|(index, _)| index % 100 == 1) {
        let rest = ask("resources/list", json!({ "cursor": uri }));
        let end = all.len().min(index + 501);
        assert_eq!(uris(&rest), all[index + 1..end], "{uri}");
    }
}

/// One call of every tool that succeeds, in an order that works.
fn good_calls() -> Vec<(&'static str, Value)> {
    vec![
        ("write_file", json!({ "path": "a.txt", "content": "one\n" })),
        ("read_file", json!({ "path": "a.txt" })),
        (
            "edit_file",
            json!({ "path": "a.txt", "old": "one", "new": "two" }),
        ),
        ("move_file", json!({ "from": "a.txt", "to": "b.txt" })),
        ("list_files", json!({})),
        ("search_files", json!({ "pattern": "two" })),
        ("show_files", json!({ "paths": ["b.txt"] })),
        ("get_workspace_info", json!({})),
        ("snapshot", json!({ "label": "x" })),
        ("list_snapshots", json!({})),
        ("delete_file", json!({ "path": "b.txt" })),
        ("diff", json!({})),
        ("history", json!({})),
        ("restore", json!({ "snapshot": "LAST" })),
        ("spawn_agent", json!({ "role": "helper" })),
        ("status", json!({})),
        ("blame", json!({ "path": "b.txt" })),
        ("update", json!({ "dry_run": true })),
        ("list_reviews", json!({})),
        ("complete", json!({ "keep": true })),
    ]
}

#[test]
fn every_tool_answers_as_its_schema_says() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let admin = running.client();
    assert_eq!(
        admin.post("/api/v1/projects", r#"{"name":"p"}"#).status,
        201
    );
    assert!(admin.put("/api/v1/projects/p/files/x", b"x").status < 300);
    let spawned = admin.post(
        "/api/v1/agents",
        r#"{"parent":"root","role":"maker","project":"p"}"#,
    );
    let agent = Client::new(running.address, spawned.json()["token"].as_str().unwrap());
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let tools = post(&agent, &[], &list).json();
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    let mut last = String::new();
    for (name, mut arguments) in good_calls() {
        if arguments["snapshot"] == "LAST" {
            arguments["snapshot"] = last.clone().into();
        }
        let answer = call(&agent, name, arguments, json!({}));
        let structured = answer["result"]["structuredContent"].as_object().unwrap();
        assert_ne!(answer["result"]["isError"], true, "{name} {answer}");
        if name == "snapshot" {
            last = structured["id"].as_str().unwrap().to_owned();
        }
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        let schema = &tool["outputSchema"];
        assert_eq!(schema["type"], "object", "{name}");
        assert!(
            !tool.to_string().contains("int64"),
            "{name}: no format of JSON Schema"
        );
        for needed in schema["anyOf"][0]["required"].as_array().unwrap() {
            assert!(
                structured.contains_key(needed.as_str().unwrap()),
                "{name} {needed}"
            );
        }
        for key in structured.keys() {
            assert!(schema["properties"][key].is_object(), "{name} {key}");
        }
        // The same as text, for clients that know nothing of structure.
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let text: Value = serde_json::from_str(text).unwrap();
        assert_eq!(text, answer["result"]["structuredContent"], "{name}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name} {hint}");
        }
    }
    // The tests of working together try it: it takes a conflict.
    let elsewhere = ["propose_resolution"];
    assert_eq!(
        good_calls().len() + elsewhere.len(),
        tools.len(),
        "a tool is not tried"
    );
    assert_eq!(admin.get("/api/v1/projects/p/files/b.txt").text(), "two\n");
}

#[test]
fn tools_that_work_together_know_their_limits() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("w");
    let service = running.client_for("w", &[]);
    let refused = call(&service, "spawn_agent", json!({ "role": "x" }), json!({}));
    let code = |answer: &Value| answer["result"]["structuredContent"]["error"]["code"].clone();
    assert_eq!(code(&refused), "permission_denied", "{refused}");
    let refused = call(&service, "complete", json!({}), json!({}));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let limited = running.client_for("w", &["src/**:read,write"]);
    let refused = call(&limited, "complete", json!({}), json!({}));
    assert_eq!(code(&refused), "permission_denied", "{refused}");
}
