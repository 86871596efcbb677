//! MCP over HTTP: the same tools, the same check, the same errors.

use serde_json::{Value, json};

use crate::common::{Client, Reply, Running};

fn post(client: &Client, headers: &[(&str, &str)], message: &Value) -> Reply {
    let mut all = vec![
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    all.extend_from_slice(headers);
    client.send("POST", b"/mcp", &all, message.to_string().as_bytes())
}

fn call(client: &Client, tool: &str, arguments: Value, meta: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let reply = post(client, &[], &message);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

#[test]
fn tools_over_mcp() {
    let data = tempfile::tempdir().unwrap();
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
        14,
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
    let data = tempfile::tempdir().unwrap();
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
