//! The tools by which agents work together, over MCP: status, update, blame, reviews, forks, and
//! completions that are asked for twice.

use offshoot_testkit::HostDir;
use serde_json::{Value, json};

use crate::common::{Client, Running};
use crate::mcp::{call, post};

fn start() -> (HostDir, Running) {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    let files = [("a", "a\n"), ("b", "b\n")];
    running.client().create_project("p", &files);
    (data, running)
}

/// An agent with a fork of the project, and a client with its token.
fn spawn(running: &Running, role: &str) -> (String, Client) {
    let body = json!({ "role": role, "project": "p" }).to_string();
    let made = running.client().post("/api/v1/agents", &body).json();
    let client = Client::new(running.address, made["token"].as_str().unwrap());
    (made["id"].as_str().unwrap().to_owned(), client)
}

/// Calls a tool that must succeed.
fn ask(client: &Client, tool: &str, arguments: Value) -> Value {
    let answer = call(client, tool, arguments, json!({}));
    assert_ne!(answer["result"]["isError"], true, "{tool} {answer}");
    answer["result"]["structuredContent"].clone()
}

/// Calls a tool that must be refused, and returns the code. A refusal has a message too.
fn refused(client: &Client, tool: &str, arguments: Value) -> String {
    let answer = call(client, tool, arguments, json!({}));
    assert_eq!(answer["result"]["isError"], true, "{tool} {answer}");
    let error = &answer["result"]["structuredContent"]["error"];
    assert!(error["message"].is_string(), "{tool} {answer}");
    error["code"].as_str().unwrap().to_owned()
}

fn tool_names(client: &Client) -> Vec<String> {
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let over_mcp = post(client, &[], &list).json()["result"]["tools"].clone();
    let over_http = client.get("/api/v1/tools").json()["tools"].clone();
    let names = |tools: &Value| -> Vec<String> {
        let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        tools.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names(&over_mcp), names(&over_http));
    names(&over_mcp)
}

#[test]
fn completing_twice_gives_the_same_answer() {
    let (_data, running) = start();
    let (id, agent) = spawn(&running, "maker");
    let written = json!({ "path": "made", "content": "x\n" });
    ask(&agent, "write_file", written.clone());
    // A workspace that is kept goes on: what was merged is not merged again.
    let kept = ask(&agent, "complete", json!({ "keep": true }));
    assert_eq!(kept["merged"], json!(["made"]));
    let again = ask(&agent, "complete", json!({ "keep": true }));
    assert_eq!(again["merged"], json!([]), "{again}");
    ask(
        &agent,
        "edit_file",
        json!({ "path": "made", "old": "x", "new": "y" }),
    );
    let first = ask(&agent, "complete", json!({}));
    assert_eq!(
        (&first["merged"], &first["removed"]),
        (&json!(["made"]), &json!(true))
    );
    assert_eq!(ask(&agent, "complete", json!({})), first);
    // By name, as older programs do, and with the token of the workspace.
    let target = format!("/api/v1/workspace/{id}/complete");
    assert_eq!(agent.done(&target, ""), first);
    let service = running.client_for(&id, &[]);
    assert_eq!(ask(&service, "complete", json!({})), first);
    // There is nothing else to work in.
    assert_eq!(
        refused(&agent, "write_file", written),
        "workspace_not_assigned"
    );
    assert_eq!(
        refused(&agent, "status", json!({})),
        "workspace_not_assigned"
    );
}

#[test]
fn status_update_and_blame_are_about_the_own_workspace() {
    let (_data, running) = start();
    let (id, agent) = spawn(&running, "maker");
    let (other, _) = spawn(&running, "other");
    ask(
        &agent,
        "write_file",
        json!({ "path": "mine", "content": "one\ntwo\n" }),
    );
    running.client().put("/api/v1/projects/p/files/b", b"new\n");
    let status = ask(&agent, "status", json!({}));
    assert_eq!(
        (&status["workspace"], &status["changes"][0]["path"]),
        (&json!(id), &json!("mine"))
    );
    assert_eq!(status["base_moved"]["snapshots"], 1, "{status}");
    let planned = ask(&agent, "update", json!({ "dry_run": true }));
    assert_eq!(planned["dry_run"], true, "{planned}");
    let read = |path: &str| ask(&agent, "read_file", json!({ "path": path }))["content"].clone();
    assert_eq!(read("b"), "b\n");
    ask(&agent, "update", json!({}));
    assert_eq!(
        (read("b"), read("mine")),
        (json!("new\n"), json!("one\ntwo\n"))
    );
    let blame = ask(&agent, "blame", json!({ "path": "mine", "offset": 1 }));
    assert_eq!(
        (&blame["total"], blame["lines"].as_array().unwrap().len()),
        (&json!(2), 1),
        "{blame}"
    );
    assert_eq!(
        (&blame["lines"][0]["line"], &blame["lines"][0]["operator"]),
        (&json!(2), &json!(id))
    );
    // Nothing names another workspace, and there is no argument by which to reach one.
    for tool in ["status", "update", "blame", "complete", "list_reviews"] {
        let code = refused(&agent, tool, json!({ "workspace": other }));
        assert_eq!(code, "invalid_request", "{tool}");
    }
    assert_eq!(
        refused(&agent, "blame", json!({ "path": "none" })),
        "file_not_found"
    );
    assert_eq!(
        refused(&agent, "blame", json!({ "path": "../x" })),
        "path_traversal_blocked"
    );
    let limited = running.client_for(&id, &["mine:read"]);
    assert_eq!(
        refused(&limited, "blame", json!({ "path": "a" })),
        "permission_denied"
    );
    assert_eq!(refused(&limited, "update", json!({})), "permission_denied");
    assert_eq!(
        refused(&limited, "list_reviews", json!({})),
        "permission_denied"
    );
}

#[test]
fn blame_has_a_window() {
    let (_data, running) = start();
    let (_, agent) = spawn(&running, "maker");
    let line = "x".repeat(99) + "\n";
    let content = line.repeat(200) + &"y".repeat(9000);
    ask(
        &agent,
        "write_file",
        json!({ "path": "long", "content": content }),
    );
    let part = |offset: usize, length: usize| {
        let asked = json!({ "path": "long", "offset": offset, "length": length });
        let part = ask(&agent, "blame", asked);
        assert_eq!(part["total"], 201, "{part}");
        part["lines"].as_array().unwrap().clone()
    };
    assert_eq!(part(0, 1000).len(), 50);
    assert_eq!(
        (part(50, 3).len(), &part(50, 3)[0]["line"]),
        (3, &json!(51))
    );
    assert_eq!(part(200, 9)[0]["text"].as_str().unwrap().len(), 5000);
    assert!(part(999, 9).is_empty());
}

#[test]
fn an_agent_sees_and_answers_the_conflicts_of_its_updates_alone() {
    let (_data, running) = start();
    let admin = running.client();
    let (_, agent) = spawn(&running, "maker");
    let (_, other) = spawn(&running, "other");
    for client in [&agent, &other] {
        ask(
            client,
            "write_file",
            json!({ "path": "a", "content": "mine\n" }),
        );
    }
    admin.put("/api/v1/projects/p/files/a", b"theirs\n");
    assert_eq!(ask(&agent, "list_reviews", json!({}))["reviews"], json!([]));
    for client in [&agent, &other] {
        ask(client, "update", json!({}));
    }
    let reviews = ask(&agent, "list_reviews", json!({}))["reviews"].clone();
    assert_eq!(reviews.as_array().unwrap().len(), 1, "{reviews}");
    let review = reviews[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&reviews[0]["path"], &reviews[0]["ours_by"]),
        (&json!("a"), &Value::Null)
    );
    let shown = ask(&agent, "list_reviews", json!({ "review": review }));
    let diff = |side: &str| shown["reviews"][0][side].as_str().unwrap().to_owned();
    assert!(diff("ours_diff").contains("+theirs") && diff("theirs_diff").contains("+mine"));
    let proposal = json!({ "review": review, "content": "both\n", "note": "why not" });
    let proposed = ask(&agent, "propose_resolution", proposal.clone());
    assert_eq!(proposed["candidates"][0]["note"], "why not", "{proposed}");
    let bad = json!({ "review": review, "content": "?", "encoding": "base64" });
    assert_eq!(
        refused(&agent, "propose_resolution", bad),
        "invalid_request"
    );
    // A token that does not reach it is told that it is not there.
    assert_eq!(
        refused(&other, "propose_resolution", proposal),
        "review_not_found"
    );
    let one = json!({ "review": review });
    assert_eq!(refused(&other, "list_reviews", one), "review_not_found");
    let named = json!({ "project": "p" });
    assert_eq!(refused(&other, "list_reviews", named), "project_not_found");
    // A token of the project sees all of them, and page by page.
    let project = running.client_for_project("p", &[]);
    let all = ask(&project, "list_reviews", json!({}))["reviews"].clone();
    assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
    for client in [&project, &admin] {
        let asked = json!({ "project": "p", "limit": 1, "after": all[0]["id"] });
        let second = ask(client, "list_reviews", asked)["reviews"].clone();
        assert_eq!(second, json!([all[1]]));
    }
    // Decided, it is no longer listed.
    let decided = json!({ "choice": "candidate", "candidate": 1 }).to_string();
    agent.done(&format!("/api/v1/reviews/{review}/resolve"), &decided);
    assert_eq!(ask(&agent, "list_reviews", json!({}))["reviews"], json!([]));
    let all = ask(&agent, "list_reviews", json!({ "all": true }))["reviews"].clone();
    assert_eq!(all[0]["state"], "resolved", "{all}");
    let read = ask(&agent, "read_file", json!({ "path": "a" }));
    assert_eq!(read["content"], "both\n");
}

#[test]
fn only_a_token_of_a_project_forks_it() {
    let (_data, running) = start();
    let admin = running.client();
    admin.create_project("q", &[("q", "q")]);
    let (id, agent) = spawn(&running, "maker");
    let project = running.client_for_project("p", &[]);
    let forked = ask(&project, "fork", json!({ "agent_id": "ada" }));
    assert_eq!(
        (&forked["id"], &forked["project"]),
        (&json!("ada"), &json!("p"))
    );
    assert!(forked["path"].is_string(), "{forked}");
    let forked = ask(&admin, "fork", json!({ "project": "q" }));
    assert_eq!(forked["project"], "q", "{forked}");
    assert_eq!(refused(&admin, "fork", json!({})), "invalid_request");
    assert_eq!(
        refused(&project, "fork", json!({ "project": "q" })),
        "project_not_found"
    );
    let base = json!({ "base": "0000000" });
    assert_eq!(refused(&project, "fork", base), "snapshot_not_found");
    let limited = running.client_for_project("p", &["a:read"]);
    let service = running.client_for(&id, &[]);
    for (client, may) in [
        (&admin, true),
        (&project, true),
        (&agent, false),
        (&service, false),
        (&limited, false),
    ] {
        assert_eq!(tool_names(client).contains(&"fork".to_owned()), may);
        if !may {
            let named = json!({ "project": "p" });
            assert_eq!(refused(client, "fork", named), "permission_denied");
        }
    }
}
