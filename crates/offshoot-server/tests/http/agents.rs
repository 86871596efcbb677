//! Agents: the tree, their tokens, and the workspace that each works in.

use offshoot_testkit::HostDir;
use serde_json::Value;

use crate::common::{Client, Running};

fn start() -> (HostDir, Running) {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    running.client().create_project("p", &[("a", "a\n")]);
    (data, running)
}

fn spawn(client: &Client, body: &str) -> Value {
    let made = client.post("/api/v1/agents", body);
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap().to_owned()
}

#[test]
fn agents_work_where_their_ancestors_do() {
    let (_data, running) = start();
    let admin = running.client();
    let lead = spawn(&admin, r#"{"role":"lead","project":"p"}"#);
    assert_eq!(lead["id"], lead["workspace_id"]);
    assert_eq!(lead["parent"], "root");
    let as_lead = Client::new(running.address, &text(&lead, "token"));
    let me = as_lead.get("/api/v1/me").json();
    assert_eq!(me["workspace"], lead["workspace_id"]);
    // An agent spawns below itself; what it spawns works in the same workspace.
    let id = text(&lead, "id");
    let helper = spawn(&as_lead, &format!(r#"{{"parent":"{id}","role":"helper"}}"#));
    assert_eq!(helper["workspace_id"], lead["workspace_id"]);
    let as_helper = Client::new(running.address, &text(&helper, "token"));
    let workspace = format!("/api/v1/workspaces/{id}");
    assert_eq!(
        as_helper.put(&format!("{workspace}/files/h"), b"h").status,
        201
    );
    assert_eq!(as_lead.get(&format!("{workspace}/files/h")).text(), "h");
    let by_tool = as_helper.done("/api/v1/tools/read_file", r#"{"path":"a"}"#);
    assert_eq!(by_tool["content"], "a\n");
    let history = admin.get(&format!("{workspace}/history?path=h")).json();
    assert_eq!(history["history"][0]["operator"], helper["id"]);
    let listed = as_lead.get("/api/v1/workspaces").json();
    assert_eq!(listed["workspaces"].as_array().unwrap().len(), 1);
    // Neither gets a directory of the host, another workspace, or more than it may.
    for client in [&as_lead, &as_helper] {
        assert_eq!(
            client.get(&format!("{workspace}/path")).code(),
            "permission_denied"
        );
        let more = client.post("/api/v1/agents", r#"{"parent":"root","role":"x"}"#);
        assert_eq!(more.code(), "permission_denied");
        assert_eq!(
            client.get("/api/v1/projects").json()["projects"],
            serde_json::json!([])
        );
    }
    let above = as_helper.post(
        "/api/v1/agents",
        &format!(r#"{{"parent":"{id}","role":"x"}}"#),
    );
    assert_eq!(above.code(), "agent_not_found");
    let tree = |client: &Client| {
        client.get("/api/v1/agents").json()["agents"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((tree(&admin), tree(&as_lead), tree(&as_helper)), (2, 2, 1));
    // The agent merges its own work, by its workspace or, as older programs do, by its name.
    let done = as_helper.done(&format!("{workspace}/complete"), r#"{"keep":true}"#);
    assert_eq!(done["merged"], serde_json::json!(["h"]));
    as_lead.put(&format!("{workspace}/files/l"), b"l");
    let done = as_lead.done(&format!("/api/v1/workspace/{id}/complete"), "");
    assert_eq!(done["merged"], serde_json::json!(["l"]));
    assert_eq!(admin.get("/api/v1/projects/p/files/l").text(), "l");
    let again = as_lead.done(&format!("/api/v1/workspace/{id}/complete"), "");
    assert_eq!(again["merge_id"], done["merge_id"]);
    let nothing = as_lead.post("/api/v1/tools/read_file", r#"{"path":"a"}"#);
    assert_eq!(nothing.code(), "workspace_not_assigned");
}

#[test]
fn nobody_gives_more_than_they_have() {
    let (_data, running) = start();
    let admin = running.client();
    let lead = spawn(&admin, r#"{"role":"lead","project":"p"}"#);
    let id = text(&lead, "id");
    let issued = admin.post(
        "/api/v1/tokens",
        &format!(r#"{{"agent":"{id}","ttl_s":60,"allow":["src/**:read"]}}"#),
    );
    let limited = Client::new(running.address, &text(&issued.json(), "secret"));
    let helper = spawn(&limited, &format!(r#"{{"parent":"{id}","role":"helper"}}"#));
    let as_helper = Client::new(running.address, &text(&helper, "token"));
    let me = as_helper.get("/api/v1/me").json();
    assert_eq!(me["allow"], serde_json::json!(["src/**:read"]));
    assert!(
        text(&me, "expires_at") <= text(&issued.json(), "expires_at"),
        "{me}"
    );
    let reply = as_helper.get(&format!("/api/v1/workspaces/{id}/files/a"));
    assert_eq!(reply.code(), "permission_denied");
}

#[test]
fn an_ended_agent_has_no_token_left() {
    let (_data, running) = start();
    let admin = running.client();
    let one = spawn(&admin, r#"{"role":"one","project":"p"}"#);
    let id = text(&one, "id");
    let child = spawn(&admin, &format!(r#"{{"role":"child","parent":"{id}"}}"#));
    let (as_one, as_child) = (
        Client::new(running.address, &text(&one, "token")),
        Client::new(running.address, &text(&child, "token")),
    );
    let ended = admin.delete(&format!("/api/v1/agents/{id}"));
    assert_eq!(
        (ended.status, ended.json()["ended"].as_bool()),
        (200, Some(true))
    );
    assert_eq!(admin.delete(&format!("/api/v1/agents/{id}")).status, 200);
    assert_eq!(as_one.get("/api/v1/me").status, 401);
    // Those below it go on in the workspace that they have.
    assert_eq!(
        as_child
            .get(&format!("/api/v1/workspaces/{id}/files/a"))
            .text(),
        "a\n"
    );
    assert_eq!(
        as_child.delete(&format!("/api/v1/agents/{id}")).code(),
        "agent_not_found"
    );
    let own = text(&child, "id");
    assert_eq!(
        as_child.delete(&format!("/api/v1/agents/{own}")).status,
        200
    );
    assert_eq!(as_child.get("/api/v1/me").status, 401);
}

#[test]
fn an_agent_learns_no_name_of_another() {
    let (_data, running) = start();
    let admin = running.client();
    // Another agent wrote what this one begins with, and what its change loses against.
    let other = admin.fork("p", "somebody-else");
    let write = |agent: &str, path: &str, content: &[u8]| {
        let client = running.agent(agent);
        let put = client.put(&format!("/api/v1/workspaces/{agent}/files/{path}"), content);
        assert!([200, 201].contains(&put.status), "{}", put.text());
    };
    write("somebody-else", "a", b"by another\n");
    admin.done("/api/v1/workspaces/somebody-else/complete", "{}");
    assert_eq!(other["id"], "somebody-else");
    admin.fork("p", "me");
    admin.fork("p", "somebody-else");
    write("somebody-else", "a", b"by another again\n");
    admin.done("/api/v1/workspaces/somebody-else/complete", "{}");
    write("me", "a", b"by me\n");
    write("me", "mine", b"by another\nby me\n");
    let me = running.agent("me");
    for target in [
        "snapshots",
        "history",
        "blame/a",
        "blame/mine",
        "changes",
        "diff",
        "info",
        "list",
        "metadata/a",
        "files/.meta/a",
    ] {
        let reply = me.get(&format!("/api/v1/workspaces/me/{target}"));
        assert_eq!(reply.status, 200, "{target} {}", reply.text());
        assert!(
            !reply.text().contains("somebody"),
            "{target} {}",
            reply.text()
        );
    }
    let first = me.get("/api/v1/workspaces/me/snapshots").json()["snapshots"][0]["id"].clone();
    let first = first.as_str().unwrap();
    let reply = me.get(&format!("/api/v1/workspaces/me/blame/a?at={first}"));
    assert!(
        reply.status == 200 && !reply.text().contains("somebody"),
        "{}",
        reply.text()
    );
    let done = me.post("/api/v1/workspaces/me/complete", r#"{"policy":"theirs"}"#);
    assert_eq!(
        done.json()["decided"][0]["winner"],
        "theirs",
        "{}",
        done.text()
    );
    assert!(!done.text().contains("somebody"), "{}", done.text());
    // A token of the project does learn it.
    let merge = done.json()["merge_id"].as_str().unwrap().to_owned();
    let shown = running
        .client_for_project("p", &[])
        .get(&format!("/api/v1/merges/{merge}"));
    assert!(shown.text().contains("somebody-else"), "{}", shown.text());
}

#[test]
fn an_agent_that_was_given_a_fork_works_in_it() {
    let (_data, running) = start();
    let admin = running.client();
    let lead = spawn(&admin, r#"{"role":"lead","project":"p"}"#);
    let as_lead = Client::new(running.address, &text(&lead, "token"));
    let helper = spawn(&as_lead, r#"{"role":"helper"}"#);
    let id = text(&helper, "id");
    let as_helper = Client::new(running.address, &text(&helper, "token"));
    let place = |client: &Client| client.get("/api/v1/me").json()["workspace"].clone();
    assert_eq!(place(&as_helper), lead["workspace_id"]);
    let below = spawn(&as_helper, r#"{"role":"below"}"#);
    let as_below = Client::new(running.address, &text(&below, "token"));
    // Deep in the tree, by a token of the project; those below it follow.
    let project = running.client_for_project("p", &[]);
    assert_eq!(project.fork("p", &id)["id"], id.as_str());
    assert_eq!(
        (place(&as_helper), place(&as_below)),
        (id.clone().into(), id.clone().into())
    );
    assert_eq!(place(&as_lead), lead["workspace_id"]);
    let write = |client: &Client, path: &str| {
        let body = format!(r#"{{"path":"{path}","content":"x"}}"#);
        client.done("/api/v1/tools/write_file", &body)
    };
    write(&as_helper, "mine");
    write(&as_lead, "theirs");
    let not_there = as_lead.get(&format!("/api/v1/workspaces/{id}/files/mine"));
    assert_eq!(not_there.code(), "workspace_not_found");
    // A further fork does not take it away from what it is about.
    assert_eq!(project.fork("p", &id)["id"], format!("{id}~2"));
    assert_eq!(place(&as_helper), id.as_str());
    // Completing again answers with the receipt, and never merges the workspace of the one above.
    let done = as_helper.done("/api/v1/tools/complete", "{}");
    assert_eq!(done["merged"], serde_json::json!(["mine"]));
    for _ in 0..2 {
        assert_eq!(as_helper.done("/api/v1/tools/complete", "{}"), done);
        let by_name = as_helper.done(&format!("/api/v1/workspace/{id}/complete"), "");
        assert_eq!(by_name, done);
        let by_id = as_helper.done(&format!("/api/v1/workspaces/{id}/complete"), "");
        assert_eq!(by_id, done);
    }
    assert_eq!(
        admin.get("/api/v1/projects/p/files/theirs").code(),
        "file_not_found"
    );
    assert_eq!(place(&as_helper), lead["workspace_id"]);
    // One with an empty workspace of its own, too.
    let alone = spawn(&admin, r#"{"role":"alone"}"#);
    let as_alone = Client::new(running.address, &text(&alone, "token"));
    let forked = admin.fork("p", &text(&alone, "id"));
    assert_eq!(place(&as_alone), forked["id"]);
}

#[test]
fn a_token_of_a_project_moves_no_agent_of_another() {
    let (_data, running) = start();
    running.client().create_project("q", &[("q", "q\n")]);
    let lead = spawn(&running.client(), r#"{"role":"lead","project":"q"}"#);
    let as_lead = Client::new(running.address, &text(&lead, "token"));
    let helper = spawn(&as_lead, r#"{"role":"helper"}"#);
    let as_helper = Client::new(running.address, &text(&helper, "token"));
    running
        .client_for_project("p", &[])
        .fork("p", &text(&helper, "id"));
    let me = as_helper.get("/api/v1/me").json();
    assert_eq!(me["workspace"], lead["workspace_id"]);
}

#[test]
fn an_agent_spawns_below_itself_unless_it_says_otherwise() {
    let (_data, running) = start();
    let admin = running.client();
    let lead = spawn(&admin, r#"{"role":"lead","project":"p"}"#);
    assert_eq!(lead["parent"], "root");
    let as_lead = Client::new(running.address, &text(&lead, "token"));
    let helper = spawn(&as_lead, r#"{"role":"helper"}"#);
    assert_eq!(
        (&helper["parent"], &helper["workspace_id"]),
        (&lead["id"], &lead["workspace_id"])
    );
    let root = as_lead.post("/api/v1/agents", r#"{"role":"x","parent":"root"}"#);
    assert_eq!(root.code(), "permission_denied");
}

#[test]
fn ids_can_be_those_of_another_program() {
    let (_data, running) = start();
    let admin = running.client();
    let project = running.client_for_project("p", &[]);
    let lead = spawn(
        &project,
        r#"{"id":"crew.lead","role":"lead","project":"p"}"#,
    );
    assert_eq!(
        (&lead["id"], &lead["workspace_id"]),
        (&"crew.lead".into(), &"crew.lead".into())
    );
    let helper = r#"{"id":"crew.helper","role":"helper","parent":"crew.lead"}"#;
    let helper = spawn(&project, helper);
    assert_eq!(
        (&helper["id"], &helper["parent"]),
        (&"crew.helper".into(), &lead["id"])
    );
    admin.create("taken");
    admin.delete("/api/v1/agents/crew.helper");
    for body in [
        r#"{"id":"crew.lead","role":"lead"}"#,
        r#"{"id":"crew.helper","role":"again","parent":"crew.lead"}"#,
        r#"{"id":"taken","role":"x"}"#,
        r#"{"id":"taken","role":"x","parent":"crew.lead"}"#,
        r#"{"id":"taken","role":"x","project":"p"}"#,
    ] {
        let reply = admin.post("/api/v1/agents", body);
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (409, "already_exists"),
            "{body}"
        );
        assert!(reply.json()["error"]["hint"].is_string(), "{body}");
    }
    for id in ["root", "user", "system", "", "../x", "-a", "a b"] {
        let body = serde_json::json!({ "id": id, "role": "x" }).to_string();
        let reply = admin.post("/api/v1/agents", &body);
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "invalid_request"),
            "{id}"
        );
    }
    // An agent would learn the names of others by trying.
    let as_lead = Client::new(running.address, &text(&lead, "token"));
    for id in ["taken", "free"] {
        let body = format!(r#"{{"id":"{id}","role":"x"}}"#);
        assert_eq!(
            as_lead.post("/api/v1/agents", &body).code(),
            "permission_denied"
        );
    }
    // A refused one has left nothing.
    let listed = admin.get("/api/v1/workspaces").json();
    assert_eq!(
        listed["workspaces"].as_array().unwrap().len(),
        2,
        "{listed}"
    );
}

#[test]
fn nobody_gets_a_token_for_an_agent_that_does_not_exist() {
    let (_data, running) = start();
    let admin = running.client();
    let issue = |agent: &str| admin.post("/api/v1/tokens", &format!(r#"{{"agent":"{agent}"}}"#));
    let refused = |agent: &str| {
        let reply = issue(agent);
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (404, "agent_not_found"),
            "{agent}"
        );
        assert!(reply.json()["error"]["hint"].is_string());
    };
    refused("nobody");
    let one = text(&spawn(&admin, r#"{"role":"one","project":"p"}"#), "id");
    assert_eq!(issue(&one).status, 201);
    admin.delete(&format!("/api/v1/agents/{one}"));
    refused(&one);
    // One that somebody forked for is known, in the tree or not.
    admin.fork("p", "ada");
    assert_eq!(issue("ada").status, 201);
}
