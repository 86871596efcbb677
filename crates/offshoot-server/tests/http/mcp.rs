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
            .workspaces
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

/// Reads a resource to its end, by what each answer says about the next. Returns the parts.
fn read_on(agent: &Client, uri: &str) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut next = Some(uri.to_owned());
    while let Some(uri) = next {
        let params = json!({ "uri": uri });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params });
        let contents = post(agent, &[], &message).json()["result"]["contents"].clone();
        let part = &contents[0];
        next = part["_meta"]["next"].as_str().map(str::to_owned);
        // A model sees the text alone, so it is told there.
        match &next {
            Some(next) => assert!(contents[1]["text"].as_str().unwrap().contains(next)),
            None => assert_eq!(contents.as_array().unwrap().len(), 1),
        }
        parts.push(part.clone());
        assert!(parts.len() < 1000, "it has no end");
    }
    parts
}

#[test]
fn resources_are_read_through_the_window() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let agent = running.agent("a");
    let text: String = ('a'..='z').chain('ä'..='ö').cycle().take(12_345).collect();
    let bytes: Vec<u8> = (0..=255u8).cycle().take(10_001).collect();
    agent.put("/api/v1/workspaces/a/files/big%3F.txt", text.as_bytes());
    agent.put("/api/v1/workspaces/a/files/big.bin", &bytes);
    let parts = read_on(&agent, "workspace:big%3F.txt");
    let texts: Vec<&str> = parts
        .iter()
        .map(|one| one["text"].as_str().unwrap())
        .collect();
    let lengths: Vec<usize> = texts.iter().map(|one| one.chars().count()).collect();
    assert_eq!((lengths, texts.concat()), (vec![5000, 5000, 2345], text));
    assert_eq!(
        (&parts[1]["_meta"]["start"], &parts[1]["_meta"]["total"]),
        (&json!(5000), &json!(12_345))
    );
    let parts = read_on(&agent, "workspace:big.bin");
    let whole: Vec<u8> = parts
        .iter()
        .flat_map(|one| offshoot_wire::base64_decode(one["blob"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!((parts.len(), whole), (3, bytes));
    let few = read_on(&agent, "workspace:big.bin?offset=9000&length=1");
    assert_eq!(few[0]["_meta"]["readLength"], 1);
    // 900,000 characters are as many as any.
    let large = "x".repeat(900_000);
    agent.put("/api/v1/workspaces/a/files/large", large.as_bytes());
    assert_eq!(read_on(&agent, "workspace:large").len(), 180);
}

#[test]
fn text_with_a_nul_comes_back_as_it_was_written() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let agent = running.agent("a");
    // A small one is held in memory, a large one is read in pieces.
    for (name, content) in [
        ("small", "a\0ä\n".to_owned()),
        ("large", "a\0ä\n".repeat(40_000)),
    ] {
        let written = json!({ "path": name, "content": content });
        call(&agent, "write_file", written, json!({}));
        let shown: String = content.chars().take(5000).collect();
        let read = call(&agent, "read_file", json!({ "path": name }), json!({}));
        let read = &read["result"]["structuredContent"];
        assert_eq!(
            (&read["content"], &read["encoding"]),
            (&json!(shown), &json!("utf8"))
        );
        let older = agent.get(&format!("/api/workspace/a/read/{name}")).json();
        assert_eq!(
            (&older["content"], &older["encoding"]),
            (&json!(shown), &json!("utf8"))
        );
        let total = content.chars().count();
        assert_eq!(
            (&read["total"], &older["total"]),
            (&json!(total), &json!(total))
        );
        let part = &read_on(&agent, &format!("workspace:{name}"))[0];
        assert_eq!(part["text"], json!(shown));
    }
    // What is no UTF-8 is bytes.
    agent.put("/api/v1/workspaces/a/files/bytes", b"a\0\xff");
    let read = call(&agent, "read_file", json!({ "path": "bytes" }), json!({}));
    assert_eq!(read["result"]["structuredContent"]["encoding"], "base64");
}

#[test]
fn differences_are_read_through_the_window() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let agent = running.agent("a");
    agent.post("/api/v1/workspaces/a/snapshots", "{}");
    for (name, content) in [("one", "1\n".repeat(2000)), ("two", "2\n".repeat(4000))] {
        agent.put(
            &format!("/api/v1/workspaces/a/files/{name}"),
            content.as_bytes(),
        );
    }
    let diff = |arguments: Value| {
        let answer = call(&agent, "diff", arguments, json!({}));
        answer["result"]["structuredContent"].clone()
    };
    let text = |part: &Value| -> String {
        let changes = part["changes"].as_array().unwrap().iter();
        changes
            .map(|one| one["diff"].as_str().unwrap_or_default())
            .collect()
    };
    let first = diff(json!({}));
    let total = first["total"].as_u64().unwrap() as usize;
    assert!(total > 18_000, "{total}");
    let mut whole = String::new();
    while whole.len() < total {
        let part = diff(json!({ "offset": whole.len() }));
        assert_eq!(part["start"], whole.len());
        assert!((1..=5000).contains(&text(&part).len()));
        whole.push_str(&text(&part));
    }
    let added = whole.lines().filter(|line| ["+1", "+2"].contains(line));
    assert_eq!(added.count(), 6000);
    let only = diff(json!({ "path": "two" }));
    assert_eq!(only["changes"].as_array().unwrap().len(), 1);
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
