//! Wrong requests about projects, forks, merges, reviews and agents: each says what is wrong, and
//! leaves no trace.

use offshoot_testkit::HostDir;

use crate::common::Running;

const P: &str = "/api/v1/projects/p";

#[test]
fn wrong_requests_say_what_is_wrong() {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    let client = running.client();
    client.create_project("p", &[("d/a", "a")]);
    for (method, target, body, status, code) in [
        ("POST", "/api/v1/projects", "{}", 400, "invalid_request"),
        (
            "POST",
            "/api/v1/projects",
            r#"{"name":"../x"}"#,
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects",
            r#"{"name":"root"}"#,
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects",
            r#"{"name":"p"}"#,
            409,
            "already_exists",
        ),
        (
            "POST",
            "/api/v1/projects",
            r#"{"name":"n","files":true}"#,
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects",
            r#"{"name":"n","from":"/nowhere"}"#,
            404,
            "file_not_found",
        ),
        (
            "POST",
            "/api/v1/projects",
            r#"{"name":"n","more":1}"#,
            400,
            "invalid_request",
        ),
        ("GET", "/api/v1/projects/none", "", 404, "project_not_found"),
        (
            "DELETE",
            "/api/v1/projects/none",
            "",
            404,
            "project_not_found",
        ),
        (
            "GET",
            "/api/v1/projects?limit=0",
            "",
            400,
            "invalid_request",
        ),
        (
            "GET",
            "/api/v1/projects/p/files/none",
            "",
            404,
            "file_not_found",
        ),
        (
            "GET",
            "/api/v1/projects/p/files/d",
            "",
            400,
            "is_a_directory",
        ),
        (
            "GET",
            "/api/v1/projects/p/files/../x",
            "",
            400,
            "path_traversal_blocked",
        ),
        (
            "GET",
            "/api/v1/projects/p/files/d/a?at=ffffffff",
            "",
            404,
            "snapshot_not_found",
        ),
        (
            "GET",
            "/api/v1/projects/p/tree?at=ffffffff",
            "",
            404,
            "snapshot_not_found",
        ),
        (
            "GET",
            "/api/v1/projects/p/list?path=d/a",
            "",
            400,
            "not_a_directory",
        ),
        (
            "GET",
            "/api/v1/projects/p/list?path=none",
            "",
            404,
            "file_not_found",
        ),
        (
            "GET",
            "/api/v1/projects/p/versions/none",
            "",
            404,
            "file_not_found",
        ),
        (
            "GET",
            "/api/v1/projects/p/blame/d",
            "",
            400,
            "is_a_directory",
        ),
        (
            "PUT",
            "/api/v1/projects/p/files/d",
            "x",
            400,
            "is_a_directory",
        ),
        (
            "PUT",
            "/api/v1/projects/p/files/d/a/b",
            "x",
            400,
            "not_a_directory",
        ),
        (
            "PUT",
            "/api/v1/projects/none/files/a",
            "x",
            404,
            "project_not_found",
        ),
        (
            "PUT",
            "/api/v1/projects/p/policy",
            r#"{"landing":"some"}"#,
            400,
            "invalid_request",
        ),
        (
            "PUT",
            "/api/v1/projects/p/policy",
            r#"{"policies":[{"path":"","policy":"ours"}]}"#,
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects/p/sync",
            "{}",
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects/p/sync",
            r#"{"from":"/nowhere"}"#,
            404,
            "file_not_found",
        ),
        (
            "POST",
            "/api/v1/projects/p/import",
            "no archive",
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects/p/workspaces",
            r#"{"count":0}"#,
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects/p/workspaces",
            r#"{"count":999}"#,
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects/p/workspaces",
            r#"{"provider":"x"}"#,
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects/p/workspaces",
            r#"{"agent_id":"a b"}"#,
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/projects/p/workspaces",
            r#"{"base":"ffff"}"#,
            400,
            "snapshot_not_found",
        ),
        (
            "POST",
            "/api/v1/projects/none/workspaces",
            "{}",
            404,
            "project_not_found",
        ),
        ("GET", "/api/v1/projects/p/path", "", 400, "invalid_request"),
        (
            "GET",
            "/api/v1/projects/p/path?agent_id=a",
            "",
            404,
            "workspace_not_assigned",
        ),
        ("GET", "/api/v1/merges/none", "", 404, "invalid_request"),
        (
            "POST",
            "/api/v1/merges/none/undo",
            "",
            404,
            "invalid_request",
        ),
        ("GET", "/api/v1/reviews/none", "", 404, "review_not_found"),
        (
            "POST",
            "/api/v1/reviews/none/resolve",
            r#"{"choice":"ours"}"#,
            404,
            "review_not_found",
        ),
        (
            "POST",
            "/api/v1/reviews/none/candidates",
            r#"{"content":""}"#,
            404,
            "review_not_found",
        ),
        ("POST", "/api/v1/agents", "{}", 400, "invalid_request"),
        (
            "POST",
            "/api/v1/agents",
            r#"{"role":""}"#,
            400,
            "invalid_request",
        ),
        (
            "POST",
            "/api/v1/agents",
            r#"{"role":"r","parent":"none"}"#,
            404,
            "agent_not_found",
        ),
        (
            "POST",
            "/api/v1/agents",
            r#"{"role":"r","project":"none"}"#,
            404,
            "project_not_found",
        ),
        ("DELETE", "/api/v1/agents/none", "", 404, "agent_not_found"),
        (
            "POST",
            "/api/v1/workspace/none/complete",
            "",
            404,
            "workspace_not_assigned",
        ),
        (
            "GET",
            "/api/v1/workspace/none/path?agent_id=a",
            "",
            404,
            "project_not_found",
        ),
    ] {
        let reply = client.send(method, target.as_bytes(), &[], body.as_bytes());
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (status, code),
            "{method} {target} {body} {}",
            reply.text()
        );
        assert!(
            !reply.text().contains("/nowhere"),
            "a host path: {}",
            reply.text()
        );
    }
    // Nothing of all that left a trace.
    let snapshots = client.get(&format!("{P}/snapshots")).json();
    assert_eq!(snapshots["snapshots"].as_array().unwrap().len(), 1);
    let negative = client.post("/api/v1/workspaces", r#"{"quota":{"bytes":-1}}"#);
    assert_eq!(negative.code(), "invalid_request");
    for (target, body) in [
        ("/api/v1/workspaces", "[null,null]"),
        ("/api/v1/workspaces", r#"{"quota":[null,null]}"#),
        ("/api/v1/projects", r#"["n"]"#),
    ] {
        assert_eq!(
            client.post(target, body).code(),
            "invalid_request",
            "{body}"
        );
    }
    let twice = client.get("/api/v1/projects?limit=1&limit=2");
    assert_eq!(twice.code(), "invalid_request");
    client.create("w");
    let alone = client.post("/api/v1/workspaces/w/complete", "{}");
    assert_eq!(
        (alone.status, alone.code().as_str()),
        (400, "invalid_request")
    );
    client.fork("p", "a");
    let busy = client.delete(P);
    assert_eq!((busy.status, busy.code().as_str()), (423, "workspace_busy"));
}
