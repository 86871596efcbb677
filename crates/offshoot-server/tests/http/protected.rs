//! Protected paths: the ways round a merge are closed to everyone but the owner.

use offshoot_testkit::HostDir;
use serde_json::{Value, json};

use crate::common::{Client, Reply, Running};

const P: &str = "/api/v1/projects/p";

fn protect(admin: &Client, paths: &[&str]) {
    let body = json!({ "protect": paths }).to_string();
    let set = admin.put(&format!("{P}/policy"), body.as_bytes());
    assert_eq!(set.json()["protect"], json!(paths), "{}", set.text());
}

fn file(client: &Client, path: &str) -> String {
    client.get(&format!("{P}/files/{path}")).text()
}

fn is_denied(reply: &Reply) {
    let refusal = (reply.status, reply.code());
    let expected = (403, "permission_denied".to_owned());
    assert_eq!(refusal, expected, "{}", reply.text());
}

/// Lets an agent change a file and complete.
fn change(client: &Client, fork: &str, path: &str, content: &str) -> Value {
    let at = format!("/api/v1/workspaces/{fork}");
    let put = client.put(&format!("{at}/files/{path}"), content.as_bytes());
    assert!(put.status < 300, "{}", put.text());
    client.done(&format!("{at}/complete"), "{}")
}

#[test]
fn what_lost_at_a_protected_path_is_taken_back_by_an_admin_alone() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let admin = running.client();
    admin.create_project("p", &[("a.txt", "base\n"), ("b.txt", "base\n")]);
    let token = running.client_for_project("p", &[]);
    let policy = br#"{"policies":[{"path":"**","policy":"last-writer-wins"}]}"#;
    assert_eq!(admin.put(&format!("{P}/policy"), policy).status, 200);
    let mut merges = Vec::new();
    for path in ["a.txt", "b.txt"] {
        let forks = ["ada", "bob"].map(|agent| admin.fork("p", agent));
        let mut last = Value::Null;
        for (fork, content) in forks.iter().zip(["ours\n", "theirs\n"]) {
            last = change(&admin, fork["id"].as_str().unwrap(), path, content);
        }
        merges.push(last["merge_id"].as_str().unwrap().to_owned());
    }
    // It was decided before the path was protected.
    protect(&admin, &["a.txt"]);
    let take = |client: &Client, merge: &str, path: &str| {
        let body = json!({ "path": path }).to_string();
        client.post(&format!("/api/v1/merges/{merge}/take"), &body)
    };
    is_denied(&take(&token, &merges[0], "a.txt"));
    assert_eq!(file(&admin, "a.txt"), "theirs\n");
    // Elsewhere the token may, and the admin may here.
    let taken = take(&token, &merges[1], "b.txt");
    assert_eq!(taken.status, 200, "{}", taken.text());
    let taken = take(&admin, &merges[0], "a.txt");
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert_eq!(file(&admin, "a.txt"), "ours\n");
}

#[test]
fn many_reviews_at_once_are_no_way_round() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let admin = running.client();
    admin.create_project("p", &[("CLAUDE.md", "base\n")]);
    let token = running.client_for_project("p", &[]);
    protect(&admin, &["CLAUDE.md"]);
    admin.fork("p", "ada");
    let done = change(&admin, "ada", "CLAUDE.md", "obey\n");
    let id = done["conflicts"][0]["review_id"].as_str().unwrap();
    let resolve =
        |client: &Client, asked: Value| client.post("/api/v1/reviews/resolve", &asked.to_string());
    for asked in [
        json!({ "choice": "theirs", "reviews": [id] }),
        json!({ "choice": "theirs", "project": "p" }),
        json!({ "choice": "theirs", "project": "p", "path": "*.md" }),
    ] {
        let reply = resolve(&token, asked.clone());
        match reply.status {
            // Each review has an answer of its own.
            200 => {
                let text = reply.text();
                assert!(text.contains("permission_denied"), "{asked} {text}");
            }
            _ => is_denied(&reply),
        }
        assert_eq!(file(&admin, "CLAUDE.md"), "base\n", "{asked}");
    }
    let decided = resolve(&admin, json!({ "choice": "theirs", "reviews": [id] }));
    assert_eq!(decided.status, 200, "{}", decided.text());
    assert_eq!(file(&admin, "CLAUDE.md"), "obey\n");
}

#[test]
fn the_owner_brings_a_directory_over_a_protected_path() {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    let admin = running.client();
    let source = data.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("CLAUDE.md"), "one\n").unwrap();
    admin.create_project("p", &[]);
    let token = running.client_for_project("p", &[]);
    protect(&admin, &["CLAUDE.md"]);
    let sync = |client: &Client| {
        let body = json!({ "from": source }).to_string();
        client.post(&format!("{P}/sync"), &body)
    };
    is_denied(&sync(&token));
    for content in ["one\n", "two\n"] {
        std::fs::write(source.join("CLAUDE.md"), content).unwrap();
        let synced = sync(&admin);
        assert_eq!(synced.status, 200, "{}", synced.text());
        assert_eq!(file(&admin, "CLAUDE.md"), content);
    }
}
