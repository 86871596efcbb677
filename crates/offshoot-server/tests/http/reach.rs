//! What is out of a token's reach answers byte for byte as what does not exist, on every route that
//! names a workspace, a project, a merge, a review, an agent or a snapshot.

use std::path::PathBuf;

use offshoot_testkit::HostDir;

use crate::common;
use crate::common::{Client, Reply, Running, form};

/// A request: method, target, body. The body `form` stands for an upload.
type Request = (&'static str, String, String);

/// Two worlds: the project `p` with the fork `a`, and `q` with everything that is another's.
struct Scene {
    running: Running,
    other: Names,
    // The last to go: the server works in it.
    _data: HostDir,
}

/// The names of things of one owner.
#[derive(Clone)]
struct Names {
    workspace: String,
    project: String,
    agent: String,
    merge: String,
    review: String,
    snapshot: String,
}

/// Names as long as those of real things, of nothing.
fn nobodys() -> Names {
    Names {
        workspace: "z".into(),
        project: "y".into(),
        agent: "nobody-000000000000".into(),
        merge: "0123456789abcdef0123456789abcdef".into(),
        review: "fedcba9876543210fedcba9876543210".into(),
        snapshot: "0123456789abcdef0123456789abcdef01234567".into(),
    }
}

impl Names {
    /// The text with these names replaced by the others.
    fn replace(&self, other: &Names, text: &str) -> String {
        let pairs = [
            (&self.agent, &other.agent),
            (&self.merge, &other.merge),
            (&self.review, &other.review),
            (&self.snapshot, &other.snapshot),
            (&self.workspace, &other.workspace),
            (&self.project, &other.project),
        ];
        let mut text = text.to_owned();
        for (from, to) in pairs {
            text = text.replace(&format!("`{from}`"), &format!("`{to}`"));
        }
        text
    }
}

fn scene() -> Scene {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    let admin = running.client();
    for (project, first, second) in [("p", "a", "a2"), ("q", "b", "b2")] {
        admin.create_project(project, &[("f", "f\n")]);
        let forks = [admin.fork(project, first), admin.fork(project, second)];
        for (fork, content) in forks.iter().zip(["one\n", "two\n"]) {
            let dir = PathBuf::from(fork["path"].as_str().unwrap());
            std::fs::write(dir.join("f"), content).unwrap();
        }
        admin.done(&format!("/api/v1/workspaces/{second}/complete"), "{}");
    }
    let done = admin.done("/api/v1/workspaces/b/complete", "{}");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let agent = admin.post("/api/v1/agents", r#"{"role":"other","project":"q"}"#);
    let other = Names {
        workspace: "b".into(),
        project: "q".into(),
        agent: text(&agent.json()["id"]),
        merge: text(&done["merge_id"]),
        review: text(&done["conflicts"][0]["review_id"]),
        snapshot: text(&done["workspace_snapshot"]),
    };
    Scene {
        running,
        other,
        _data: data,
    }
}

/// Every route that names something, with a body that is right.
fn routes(names: &Names) -> Vec<Request> {
    let mut all = workspace_routes(&names.workspace, &names.snapshot);
    all.extend(project_routes(&names.project, &names.snapshot));
    let Names {
        workspace,
        project,
        agent,
        merge,
        review,
        snapshot,
    } = names;
    let to = |method, target: String, body: &str| (method, target, body.to_owned());
    all.extend([
        to("GET", format!("/api/v1/merges/{merge}"), ""),
        to("POST", format!("/api/v1/merges/{merge}/undo"), ""),
        to("GET", format!("/api/v1/reviews/{review}"), ""),
        to(
            "POST",
            format!("/api/v1/reviews/{review}/candidates"),
            r#"{"content":"x"}"#,
        ),
        to(
            "POST",
            format!("/api/v1/reviews/{review}/resolve"),
            r#"{"choice":"ours"}"#,
        ),
        to("DELETE", format!("/api/v1/agents/{agent}"), ""),
        to(
            "POST",
            "/api/v1/agents".into(),
            &format!(r#"{{"parent":"{agent}","role":"x"}}"#),
        ),
        to(
            "POST",
            "/api/v1/agents".into(),
            &format!(r#"{{"role":"x","project":"{project}"}}"#),
        ),
        to("POST", format!("/api/v1/workspace/{agent}/complete"), "{}"),
        to(
            "POST",
            format!("/api/v1/workspace/{workspace}/complete"),
            "{}",
        ),
        to(
            "GET",
            format!("/api/v1/workspace/{project}/path?agent_id=b"),
            "",
        ),
        to("GET", format!("/api/v1/events?workspace={workspace}"), ""),
        to("GET", format!("/api/v1/events?project={project}"), ""),
        // Within reach itself, with something in the body that is not.
        to(
            "POST",
            "/api/v1/workspaces/a/restore".into(),
            &format!(r#"{{"snapshot":"{snapshot}"}}"#),
        ),
        to(
            "GET",
            format!("/api/v1/workspaces/a/files/f?at={snapshot}"),
            "",
        ),
        to(
            "GET",
            format!("/api/v1/workspaces/a/diff?from={snapshot}"),
            "",
        ),
        to(
            "GET",
            format!("/api/v1/workspaces/a/blame/f?at={snapshot}"),
            "",
        ),
        to(
            "POST",
            "/api/v1/projects/p/workspaces".into(),
            &format!(r#"{{"base":"{snapshot}"}}"#),
        ),
        to(
            "GET",
            format!("/api/v1/projects/p/files/f?at={snapshot}"),
            "",
        ),
        to(
            "GET",
            format!("/api/v1/projects/p/snapshots?after={snapshot}"),
            "",
        ),
        to(
            "GET",
            format!("/api/v1/projects/p/merges?after={merge}"),
            "",
        ),
        to("GET", format!("/api/v1/merges?after={merge}"), ""),
        to("GET", format!("/api/v1/merges?project={project}"), ""),
        to(
            "GET",
            format!("/api/v1/projects/p/reviews?after={review}"),
            "",
        ),
        to(
            "GET",
            format!("/api/v1/projects/p/path?agent_id={agent}"),
            "",
        ),
        to(
            "GET",
            format!("/api/v1/projects/p/path?agent_id={workspace}"),
            "",
        ),
    ]);
    all
}

fn workspace_routes(workspace: &str, snapshot: &str) -> Vec<Request> {
    let v1 = |method, rest: &str, body: &str| {
        let target = format!("/api/v1/workspaces/{workspace}{rest}");
        (method, target, body.to_owned())
    };
    let older = |method, rest: &str, body: &str| {
        let target = format!("/api/workspace/{workspace}{rest}");
        (method, target, body.to_owned())
    };
    vec![
        v1("GET", "", ""),
        v1("DELETE", "", ""),
        v1("GET", "/quota", ""),
        v1("PUT", "/quota", "{}"),
        v1("GET", "/path", ""),
        v1("GET", "/info", ""),
        v1("GET", "/files/f", ""),
        v1("GET", "/files/none", ""),
        v1("GET", &format!("/files/f?at={snapshot}"), ""),
        v1("HEAD", "/files/f", ""),
        v1("PUT", "/files/f", "x"),
        v1("DELETE", "/files/f", ""),
        v1("GET", "/list", ""),
        v1("GET", "/list?path=none", ""),
        v1("GET", "/tree", ""),
        v1("GET", "/metadata/f", ""),
        v1("POST", "/mkdir", r#"{"path":"d"}"#),
        v1("POST", "/move", r#"{"from":"f","to":"g"}"#),
        v1("POST", "/uploads", "form"),
        v1("POST", "/uploads?path=d", "form"),
        v1("GET", "/archive", ""),
        v1("POST", "/import", "x"),
        v1("GET", "/history", ""),
        v1("GET", "/changes", ""),
        v1("GET", "/blame/f", ""),
        v1("GET", "/blame/none", ""),
        v1("POST", "/update", "{}"),
        v1("POST", "/complete", "{}"),
        v1("POST", "/complete", r#"{"dry_run":true}"#),
        v1("POST", "/complete", r#"{"landing":"atomic"}"#),
        v1("GET", "/diff", ""),
        v1("GET", &format!("/diff?from={snapshot}"), ""),
        v1("GET", "/snapshots", ""),
        v1("POST", "/snapshots", "{}"),
        v1(
            "POST",
            "/restore",
            &format!("{{\"snapshot\":\"{snapshot}\"}}"),
        ),
        v1("POST", "/sync", ""),
        older("GET", "/list", ""),
        older("GET", "/tree", ""),
        older("GET", "/history", ""),
        older("GET", "/read/f", ""),
        older("POST", "/sync", ""),
        older("POST", "/upload", "form"),
        older("DELETE", "/delete/f", ""),
    ]
}

fn project_routes(project: &str, snapshot: &str) -> Vec<Request> {
    let of = |method, rest: &str, body: &str| {
        let target = format!("/api/v1/projects/{project}{rest}");
        (method, target, body.to_owned())
    };
    vec![
        of("GET", "", ""),
        of("DELETE", "", ""),
        of("GET", "/policy", ""),
        of("PUT", "/policy", "{}"),
        of("POST", "/sync", r#"{"from":"/nowhere"}"#),
        of("POST", "/import", "x"),
        of("GET", "/snapshots", ""),
        of("GET", "/tree", ""),
        of("GET", &format!("/tree?at={snapshot}"), ""),
        of("GET", "/list", ""),
        of("GET", "/list?path=none&deep=true", ""),
        of("GET", "/files/f", ""),
        of("GET", "/files/none", ""),
        of("HEAD", "/files/f", ""),
        of("GET", &format!("/files/f?at={snapshot}"), ""),
        of("PUT", "/files/f", "x"),
        of("GET", "/versions/f", ""),
        of("GET", "/blame/f", ""),
        of("POST", "/workspaces", "{}"),
        of("POST", "/workspaces", r#"{"agent_id":"b","count":2}"#),
        of("GET", "/workspaces", ""),
        of("GET", "/path?agent_id=b", ""),
        of("GET", "/merges", ""),
        of("GET", "/reviews", ""),
        of("GET", "/reviews?all=true", ""),
    ]
}

pub(crate) fn send(client: &Client, method: &str, target: &str, body: &str) -> Reply {
    let (kind, form) = form(b"f.txt", b"x");
    let (headers, body) = match body {
        "form" => (vec![("Content-Type", kind.as_str())], form),
        other => (vec![], other.as_bytes().to_vec()),
    };
    client.send(method, target.as_bytes(), &headers, &body)
}

#[test]
fn what_is_another_ones_answers_as_what_does_not_exist() {
    let scene = scene();
    let running = &scene.running;
    for (who, caller) in [
        ("agent", running.agent("a")),
        ("workspace", running.client_for("a", &[])),
        ("limited workspace", running.client_for("a", &["**:read"])),
        ("project", running.client_for_project("p", &[])),
        (
            "limited project",
            running.client_for_project("p", &["**:read"]),
        ),
    ] {
        let nobodys = nobodys();
        let unknown = routes(&nobodys);
        for ((method, target, body), (_, missing, empty)) in
            routes(&scene.other).into_iter().zip(unknown)
        {
            let theirs = send(&caller, method, &target, &body);
            let none = send(&caller, method, &missing, &empty);
            let what = format!("{who}: {method} {target} {body} {}", theirs.text());
            assert!(theirs.status != 500, "{what}");
            // The answers differ by the names that were asked for and by nothing else.
            let (mut theirs, mut none) = (theirs.comparable(), none.comparable());
            theirs.body = scene.other.replace(&nobodys, &theirs.text()).into_bytes();
            for reply in [&mut theirs, &mut none] {
                reply.headers.retain(|(name, _)| name != "content-length");
            }
            assert_eq!(theirs, none, "{what}");
            let own = ["/workspaces/a/", "/projects/p/", "/v1/merges?after="];
            let within = own.iter().any(|part| target.contains(part));
            if !within {
                assert!([403, 404].contains(&theirs.status), "{what}");
            }
        }
        for list in ["workspaces", "projects", "agents", "merges"] {
            let listed = caller.get(&format!("/api/v1/{list}"));
            assert_eq!(listed.status, 200);
            for name in ["\"b\"", "\"q\"", &scene.other.agent] {
                assert!(
                    !listed.text().contains(name),
                    "{who} {list} {}",
                    listed.text()
                );
            }
        }
    }
    // None of it did anything.
    let admin = running.client();
    assert_eq!(admin.get("/api/v1/workspaces/b/files/f").text(), "one\n");
    assert_eq!(admin.get("/api/v1/projects/q/files/f").text(), "two\n");
    let review = admin.get(&format!("/api/v1/reviews/{}", scene.other.review));
    assert_eq!(review.json()["state"], "open");
    assert_eq!(review.json()["candidates"], serde_json::json!([]));
}

#[test]
fn a_project_token_has_its_project_and_its_forks() {
    let scene = scene();
    let running = &scene.running;
    let own = running.client_for_project("p", &[]);
    let me = own.get("/api/v1/me").json();
    assert!(me["workspace"].is_null(), "{me}");
    // A fork is reached from the moment it exists, also if the owner made it.
    for (who, client) in [("by-token", own.clone()), ("by-admin", running.client())] {
        let fork = client.fork("p", who);
        assert!(fork["path"].is_string());
        let target = format!("/api/v1/workspaces/{who}/files/new");
        assert_eq!(own.put(&target, b"x").status, 201);
        assert_eq!(own.get(&target).text(), "x");
    }
    let listed = own.get("/api/v1/workspaces").json();
    let names: Vec<&str> = listed["workspaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "by-admin", "by-token"]);
    assert_eq!(own.delete("/api/v1/workspaces/by-admin").status, 200);
    let agent = own.post("/api/v1/agents", r#"{"role":"own","project":"p"}"#);
    assert_eq!(agent.status, 201, "{}", agent.text());
    assert_eq!(
        own.get("/api/v1/agents").json()["agents"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // What concerns the store, or the host, is for admins.
    for (method, target, body) in [
        ("POST", "/api/v1/projects", r#"{"name":"n"}"#),
        ("DELETE", "/api/v1/projects/p", ""),
        ("POST", "/api/v1/projects/p/sync", r#"{"from":"/etc"}"#),
        ("POST", "/api/v1/workspaces", "{}"),
        ("POST", "/api/v1/agents", r#"{"role":"x"}"#),
        ("GET", "/api/v1/tokens", ""),
        ("PUT", "/api/v1/workspaces/a/quota", "{}"),
    ] {
        let reply = send(&own, method, target, body);
        assert_eq!(
            reply.code(),
            "permission_denied",
            "{method} {target} {}",
            reply.text()
        );
    }
}

#[test]
fn rules_hold_in_a_project_too() {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    let admin = running.client();
    admin.create_project("p", &[("src/x", "code\n"), ("secret/key", "key\n")]);
    let fork = admin.fork("p", "w");
    let limited = running.client_for_project("p", &["src/**:read,write"]);
    let p = "/api/v1/projects/p";
    assert_eq!(limited.get(&format!("{p}/files/src/x")).text(), "code\n");
    assert_eq!(limited.put(&format!("{p}/files/src/y"), b"y").status, 200);
    assert_eq!(
        limited.get("/api/v1/workspaces/w/files/src/x").text(),
        "code\n"
    );
    for (method, target, body) in [
        ("GET", format!("{p}/files/secret/key"), ""),
        ("GET", format!("{p}/files/secret/none"), ""),
        ("PUT", format!("{p}/files/secret/key"), "x"),
        ("GET", format!("{p}/versions/secret/key"), ""),
        ("GET", format!("{p}/blame/secret/key"), ""),
        ("GET", format!("{p}/list?path=secret"), ""),
        ("GET", format!("{p}/merges"), ""),
        ("GET", format!("{p}/reviews"), ""),
        ("PUT", format!("{p}/policy"), "{}"),
        ("POST", format!("{p}/import"), "x"),
        ("POST", format!("{p}/workspaces"), "{}"),
        ("GET", format!("{p}/path?agent_id=w"), ""),
        ("GET", "/api/v1/workspaces/w/files/secret/key".into(), ""),
        ("GET", "/api/v1/workspaces/w/blame/secret/key".into(), ""),
        ("GET", "/api/v1/workspaces/w/path".into(), ""),
        ("POST", "/api/v1/workspaces/w/complete".into(), "{}"),
        ("POST", "/api/v1/workspaces/w/update".into(), "{}"),
        ("DELETE", "/api/v1/workspaces/w".into(), ""),
        (
            "POST",
            "/api/v1/agents".into(),
            r#"{"role":"x","project":"p"}"#,
        ),
    ] {
        let reply = send(&limited, method, &target, body);
        assert_eq!(
            reply.code(),
            "permission_denied",
            "{method} {target} {}",
            reply.text()
        );
    }
    for target in ["tree", "list", "list?deep=true"] {
        let reply = limited.get(&format!("{p}/{target}"));
        assert!(
            reply.status == 200 && !reply.text().contains("secret"),
            "{}",
            reply.text()
        );
    }
    assert!(fork["path"].is_string());
}

#[test]
fn what_concerns_the_store_as_a_whole_is_for_admins() {
    let scene = scene();
    let agent = scene.running.agent("a");
    for (method, target, body) in [
        ("POST", "/api/v1/workspaces", "{}"),
        ("POST", "/api/v1/workspaces", r#"{"id":"b"}"#),
        ("POST", "/api/v1/projects", r#"{"name":"q"}"#),
        ("POST", "/api/v1/projects", r#"{"name":"n"}"#),
        ("POST", "/api/v1/agents", r#"{"role":"x"}"#),
        ("GET", "/api/v1/tokens", ""),
        ("POST", "/api/v1/tokens", r#"{"admin":true}"#),
        ("DELETE", "/api/v1/tokens/tok-x", ""),
        ("DELETE", "/api/v1/workspaces/a", ""),
        ("GET", "/api/v1/workspaces/a/path", ""),
        ("PUT", "/api/v1/workspaces/a/quota", "{}"),
    ] {
        let reply = send(&agent, method, target, body);
        assert_eq!(reply.code(), "permission_denied", "{method} {target}");
    }
    let me = agent.get("/api/v1/me").json();
    assert_eq!(
        (me["operator"].as_str(), me["workspace"].as_str()),
        (Some("a"), Some("a"))
    );
    // Exactly one: a further fork of the same agent has a token of its own.
    scene.running.client().fork("p", "a");
    let second = agent.get("/api/v1/workspaces/a~2");
    assert_eq!(second.code(), "workspace_not_found");
    let mut own = common::Stream::open(&agent, "/api/v1/events?since=0", &[]);
    scene
        .running
        .client()
        .put("/api/v1/workspaces/a~2/files/x", b"");
    scene
        .running
        .client()
        .put("/api/v1/workspaces/a/files/last", b"");
    while let Some((_, _, data)) = own.next() {
        assert_eq!(data["workspace"], "a", "{data}");
        if data["path"] == "last" {
            break;
        }
    }
}
