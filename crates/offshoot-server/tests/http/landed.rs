//! What landed last, over all projects.

use offshoot_testkit::HostDir;

use crate::common::{Client, Running};

/// A merge into a project, by an agent with that name.
fn land(admin: &Client, project: &str, agent: &str) -> String {
    admin.fork(project, agent);
    let file = format!("/api/v1/workspaces/{agent}/files/{agent}");
    assert_eq!(admin.put(&file, b"x\n").status, 201);
    let done = admin.done(&format!("/api/v1/workspaces/{agent}/complete"), "{}");
    done["merge_id"].as_str().unwrap().to_owned()
}

fn workspaces(client: &Client, query: &str) -> Vec<String> {
    let reply = client.get(&format!("/api/v1/merges{query}"));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let merges = reply.json()["merges"].as_array().unwrap().clone();
    let name = |merge: &serde_json::Value| merge["workspace"].as_str().unwrap().to_owned();
    merges.iter().map(name).collect()
}

#[test]
fn merges_of_all_projects_come_by_page_newest_first() {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    let admin = running.client();
    for project in ["p", "q"] {
        admin.create_project(project, &[("f", "f\n")]);
    }
    let order = [("p", "ada"), ("q", "bob"), ("p", "cyd"), ("q", "dan")];
    let ids = order.map(|(project, agent)| land(&admin, project, agent));
    assert_eq!(workspaces(&admin, ""), ["dan", "cyd", "bob", "ada"]);
    assert_eq!(workspaces(&admin, "?limit=2"), ["dan", "cyd"]);
    let rest = format!("?limit=9&after={}", ids[2]);
    assert_eq!(workspaces(&admin, &rest), ["bob", "ada"]);
    assert_eq!(workspaces(&admin, "?project=q&limit=1"), ["dan"]);
    assert!(workspaces(&admin, "?after=none").is_empty());
    assert_eq!(admin.get("/api/v1/merges?limit=0").status, 400);
    let none = admin.get("/api/v1/merges?project=none");
    assert_eq!(none.code(), "project_not_found");
    // A token sees what it reaches: its project, or nothing.
    let own = running.client_for_project("p", &[]);
    assert_eq!(workspaces(&own, ""), ["cyd", "ada"]);
    assert_eq!(workspaces(&own, &format!("?after={}", ids[2])), ["ada"]);
    assert!(workspaces(&own, &format!("?after={}", ids[3])).is_empty());
    let other = own.get("/api/v1/merges?project=q");
    assert_eq!(other.code(), "project_not_found");
    let limited = running.client_for_project("p", &["src/**:read"]);
    assert_eq!(limited.get("/api/v1/merges").code(), "permission_denied");
    admin.fork("p", "eve");
    let agent = running.client_for("eve", &[]);
    assert!(workspaces(&agent, "").is_empty());
    assert_eq!(agent.get("/api/v1/merges?project=p").status, 404);
    // What landed in a project that is gone is not shown, and the page goes on behind it.
    assert_eq!(admin.delete("/api/v1/projects/q").status, 200);
    assert_eq!(workspaces(&admin, "?limit=1"), ["cyd"]);
    assert_eq!(workspaces(&admin, &rest), ["ada"]);
}
