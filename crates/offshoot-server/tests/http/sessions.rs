//! The routes that older specifications name for the workspace of a session.

use crate::common::{Client, Reply, Running};

const SNAPSHOTS: &str = "/api/session/workspace/snapshots";
const RESTORE: &str = "/api/session/workspace/restore";

fn ask(client: &Client, method: &str, target: &str, session: Option<&str>, body: &str) -> Reply {
    let headers: Vec<(&str, &str)> = session.map(|id| ("X-Session-Id", id)).into_iter().collect();
    client.send(method, target.as_bytes(), &headers, body.as_bytes())
}

fn create_session(client: &Client, id: &str) {
    let body = format!(r#"{{"id":"{id}","layout":"session"}}"#);
    assert_eq!(client.post("/api/v1/workspaces", &body).status, 201);
}

fn refused(reply: &Reply, status: u16, code: &str) {
    let shown = reply.text();
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (status, code),
        "{shown}"
    );
}

#[test]
fn snapshots_of_a_session() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    // A workspace that is no session does not count.
    client.create("chat-plain");
    for (method, target, body) in [
        ("GET", SNAPSHOTS, ""),
        ("POST", SNAPSHOTS, "{}"),
        ("POST", RESTORE, r#"{"snapshot":"1234"}"#),
    ] {
        refused(
            &ask(&client, method, target, None, body),
            400,
            "session_not_found",
        );
        let named = ask(&client, method, target, Some("chat-plain"), body);
        refused(&named, 400, "session_not_found");
    }
    create_session(&client, "chat-one");
    let file = "/api/v1/workspaces/chat-one/files/outputs/a.txt";
    client.put(file, b"first");
    let taken = ask(&client, "POST", SNAPSHOTS, None, r#"{"label":"turn 1"}"#);
    assert_eq!(taken.status, 201, "{}", taken.text());
    let snapshot = taken.json()["id"].as_str().unwrap().to_owned();
    let again = ask(&client, "POST", SNAPSHOTS, Some("chat"), "{}");
    assert_eq!(again.status, 200, "nothing changed: {}", again.text());
    client.put(file, b"second");
    let listed = ask(&client, "GET", SNAPSHOTS, Some("chat-o"), "").json();
    assert_eq!(listed["snapshots"][0]["id"], *snapshot, "{listed}");
    assert_eq!(
        listed,
        client.get("/api/v1/workspaces/chat-one/snapshots").json()
    );
    let body = format!(r#"{{"snapshot":"{snapshot}"}}"#);
    let restored = ask(&client, "POST", RESTORE, None, &body);
    assert_eq!(restored.status, 200, "{}", restored.text());
    assert_eq!(client.get(file).text(), "first");
    // It is in the history like every other restore.
    let history = client.get("/api/v1/workspaces/chat-one/history").text();
    assert!(history.contains("restore"), "{history}");
}

#[test]
fn what_is_not_so_is_a_wrong_request() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    create_session(&client, "chat-one");
    create_session(&client, "chat-one-more");
    create_session(&client, "other");
    let several = ask(&client, "GET", SNAPSHOTS, None, "");
    refused(&several, 400, "ambiguous_prefix");
    let matches = &several.json()["error"]["details"]["matches"];
    assert_eq!(matches.as_array().unwrap().len(), 3, "{matches}");
    refused(
        &ask(&client, "GET", SNAPSHOTS, Some("chat"), ""),
        400,
        "ambiguous_prefix",
    );
    refused(
        &ask(&client, "GET", SNAPSHOTS, Some("none"), ""),
        400,
        "session_not_found",
    );
    refused(
        &ask(&client, "GET", SNAPSHOTS, Some(""), ""),
        400,
        "invalid_request",
    );
    // A whole id is no beginning of another.
    let whole = ask(&client, "GET", SNAPSHOTS, Some("chat-one"), "");
    assert_eq!(whole.status, 200, "{}", whole.text());
    let unknown = r#"{"snapshot":"00000000"}"#;
    let restored = ask(&client, "POST", RESTORE, Some("other"), unknown);
    refused(&restored, 400, "snapshot_not_found");
    let out = r#"{"snapshot":"00000000","path":"../x"}"#;
    let restored = ask(&client, "POST", RESTORE, Some("other"), out);
    refused(&restored, 400, "path_traversal_blocked");
    let twice = [("X-Session-Id", "other"), ("X-Session-Id", "chat-one")];
    let twice = client.send("GET", SNAPSHOTS.as_bytes(), &twice, b"");
    refused(&twice, 400, "invalid_request");
    client.delete("/api/v1/workspaces/other");
    refused(
        &ask(&client, "GET", SNAPSHOTS, Some("other"), ""),
        400,
        "session_not_found",
    );
}

#[test]
fn a_token_reaches_its_own_session_alone() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    create_session(&client, "mine");
    create_session(&client, "theirs");
    for own in [running.agent("mine"), running.client_for("mine", &[])] {
        // Without a name: there is one for it.
        let listed = ask(&own, "GET", SNAPSHOTS, None, "");
        assert_eq!(listed.status, 200, "{}", listed.text());
        for begins in ["m", "mine"] {
            assert_eq!(ask(&own, "GET", SNAPSHOTS, Some(begins), "").status, 200);
        }
        // What is not its own answers like what does not exist.
        for (method, target, body) in [
            ("GET", SNAPSHOTS, ""),
            ("POST", SNAPSHOTS, "{}"),
            ("POST", RESTORE, r#"{"snapshot":"1234"}"#),
        ] {
            let theirs = ask(&own, method, target, Some("theirs"), body);
            let none = ask(&own, method, target, Some("nobody"), body);
            refused(&theirs, 400, "session_not_found");
            assert_eq!(
                theirs.text().replace("theirs", "nobody"),
                none.text(),
                "{method} {target}"
            );
        }
    }
    // What a token may not do, it may not do here.
    let reader = running.client_for("mine", &["**:read"]);
    refused(
        &ask(&reader, "POST", SNAPSHOTS, None, "{}"),
        403,
        "permission_denied",
    );
    let body = r#"{"snapshot":"1234"}"#;
    refused(
        &ask(&reader, "POST", RESTORE, None, body),
        403,
        "permission_denied",
    );
    let nobody = Client::new(client.address, "");
    refused(
        &ask(&nobody, "GET", SNAPSHOTS, None, ""),
        401,
        "unauthorized",
    );
}

#[test]
fn sessions_go_by_themselves_once_the_owner_switched_it_on() {
    let data = offshoot_testkit::HostDir::new();
    let options = offshoot_server::ServerOptions {
        session_retention: Some(std::time::Duration::from_secs(1)),
        ..crate::common::options()
    };
    let running = Running::start_with(data.path(), options);
    let client = running.client();
    create_session(&client, "talk");
    client.create("plain");
    offshoot_testkit::wait_until("the session is gone", || {
        client.get("/api/v1/workspaces/talk").status == 404
    });
    assert_eq!(client.get("/api/v1/workspaces/plain").status, 200);
}
