//! The tools of agents over plain HTTP: the workspace comes from the credential.

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
    let agent = running.agent("a");
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
    assert_eq!(tools.len(), 16);
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["inputSchema"]["properties"].is_object(), "{tool}");
    }
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
}
