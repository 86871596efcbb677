//! Projects by HTTP: made, read, edited, imported into, deleted; and everything that is refused.

use std::io::Write as _;

use offshoot_core::{FaultPlan, RelPath};
use offshoot_engine::{CompleteOptions, Content, Engine, EngineOptions, ForkOptions, WriteOptions};
use offshoot_testkit::HostDir;
use zip::write::SimpleFileOptions;

use crate::common::{Running, cause};

const P: &str = "/api/v1/projects/p";

fn start() -> (HostDir, Running) {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    (data, running)
}

fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn a_project_is_made_read_edited_and_deleted() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[("src/a.txt", "one\n"), ("b.txt", "b\n")]);
    let shown = client.get(P).json();
    assert_eq!(
        (shown["name"].as_str(), shown["file_count"].as_i64()),
        (Some("p"), Some(2))
    );
    let snapshots = client.get(&format!("{P}/snapshots")).json();
    let list = snapshots["snapshots"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    let first = list[1]["id"].as_str().unwrap();
    // After the newest comes the older one.
    let newest = list[0]["id"].as_str().unwrap();
    let rest = client.get(&format!("{P}/snapshots?after={newest}")).json();
    assert_eq!(rest["snapshots"][0]["id"], first);
    let get = client.get(&format!("{P}/files/src/a.txt"));
    assert_eq!(get.text(), "one\n");
    assert!(
        get.header("content-security-policy")
            .unwrap()
            .starts_with("sandbox")
    );
    let tag = get.header("etag").unwrap().to_owned();
    // The tag of an edit is the tag of what is read afterwards, and guards the next.
    let edit = client.send(
        "PUT",
        format!("{P}/files/src/a.txt").as_bytes(),
        &[("If-Match", &tag)],
        b"two\n",
    );
    assert_eq!(edit.status, 200, "{}", edit.text());
    let now = client.get(&format!("{P}/files/src/a.txt"));
    assert_eq!(now.header("etag"), edit.header("etag"));
    let lost = client.send(
        "PUT",
        format!("{P}/files/src/a.txt").as_bytes(),
        &[("If-Match", &tag)],
        b"three\n",
    );
    assert_eq!(
        (lost.status, lost.code().as_str()),
        (412, "precondition_failed")
    );
    let old = client.get(&format!("{P}/files/src/a.txt?at={first}"));
    assert_eq!(old.text(), "one\n");
    let part = client.send(
        "GET",
        format!("{P}/files/src/a.txt").as_bytes(),
        &[("Range", "bytes=1-2")],
        b"",
    );
    assert_eq!((part.status, part.text().as_str()), (206, "wo"));
    let tree = client.get(&format!("{P}/tree")).json();
    assert_eq!(tree["children"][0]["path"], "src");
    let entries = client.get(&format!("{P}/list?deep=true")).json();
    assert_eq!(entries["entries"].as_array().unwrap().len(), 3);
    let top = client.get(&format!("{P}/list?at={first}")).json();
    assert_eq!(top["entries"].as_array().unwrap().len(), 1, "{top}");
    let versions = client.get(&format!("{P}/versions/src/a.txt")).json();
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2);
    let blame = client.get(&format!("{P}/blame/src/a.txt")).json();
    assert_eq!(blame["lines"][0]["text"], "two");
    let blame = client
        .get(&format!("{P}/blame/src/a.txt?at={first}"))
        .json();
    assert_eq!(blame["lines"][0]["text"], "one");
    let deleted = client.delete(P).json();
    assert_eq!(deleted["name"], "p");
    assert!(deleted["kept_snapshot"].is_string());
    assert_eq!(client.get(P).code(), "project_not_found");
}

#[test]
fn a_project_comes_from_a_directory_and_follows_it() {
    let (data, running) = start();
    let client = running.client();
    let source = data.path().join("source");
    std::fs::create_dir_all(source.join("sub")).unwrap();
    std::fs::write(source.join("sub/a"), "a").unwrap();
    std::fs::write(source.join("b"), "b").unwrap();
    let from = source.to_str().unwrap();
    let made = client.post(
        "/api/v1/projects",
        &format!(r#"{{"name":"p","from":"{from}"}}"#),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.json()["file_count"], 2);
    std::fs::write(source.join("b"), "changed").unwrap();
    std::fs::remove_file(source.join("sub/a")).unwrap();
    std::fs::write(source.join("c"), "c").unwrap();
    let synced = client.done(&format!("{P}/sync"), &format!(r#"{{"from":"{from}"}}"#));
    assert_eq!(
        (
            synced["synced"].as_i64(),
            synced["skipped"].as_i64(),
            synced["total"].as_i64()
        ),
        (Some(2), Some(0), Some(2))
    );
    let again = client.done(&format!("{P}/sync"), &format!(r#"{{"from":"{from}"}}"#));
    assert_eq!(
        (again["synced"].as_i64(), again["created"].as_bool()),
        (Some(0), Some(false))
    );
    // A token of the project alone does not read the host.
    let own = running.client_for_project("p", &[]);
    for (target, body) in [
        (format!("{P}/sync"), format!(r#"{{"from":"{from}"}}"#)),
        (
            "/api/v1/projects".to_owned(),
            format!(r#"{{"name":"n","from":"{from}"}}"#),
        ),
    ] {
        assert_eq!(
            own.post(&target, &body).code(),
            "permission_denied",
            "{target}"
        );
    }
}

#[test]
fn an_archive_becomes_one_snapshot() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[("keep", "kept"), ("file", "old"), ("dir/x", "x")]);
    let count = |client: &crate::common::Client| {
        let found = client.get(&format!("{P}/snapshots")).json();
        found["snapshots"].as_array().unwrap().len()
    };
    let before = count(&client);
    let archive = zip_of(&[
        ("file", b"new"),
        ("a/b/c", b"deep"),
        ("../outside", b"x"),
        ("/etc/x", b"x"),
        ("dir", b"a file over a directory"),
        ("keep/below", b"below a file"),
        ("a/b", b"a file over what came with it"),
        ("large", &[7; 400 << 10]),
    ]);
    let reply = client.send("POST", format!("{P}/import").as_bytes(), &[], &archive);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let json = reply.json();
    assert_eq!(
        (json["file_count"].as_i64(), json["created"].as_bool()),
        (Some(3), Some(true))
    );
    let codes: Vec<&str> = json["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes.len(), 5, "{json}");
    assert_eq!(
        codes
            .iter()
            .filter(|code| **code == "path_traversal_blocked")
            .count(),
        2
    );
    assert_eq!(count(&client), before + 1);
    for (path, content) in [
        ("file", "new"),
        ("a/b/c", "deep"),
        ("keep", "kept"),
        ("dir/x", "x"),
    ] {
        assert_eq!(client.get(&format!("{P}/files/{path}")).text(), content);
    }
    let again = client
        .send("POST", format!("{P}/import").as_bytes(), &[], &archive)
        .json();
    assert_eq!(
        (again["created"].as_bool(), count(&client)),
        (Some(false), before + 1)
    );
    let into = client.send(
        "POST",
        format!("{P}/import?path=sub").as_bytes(),
        &[],
        &zip_of(&[("z", b"z")]),
    );
    assert_eq!(into.status, 200);
    assert_eq!(client.get(&format!("{P}/files/sub/z")).text(), "z");
    let nothing = client.send(
        "POST",
        format!("{P}/import").as_bytes(),
        &[],
        &zip_of(&[("../x", b"x")]),
    );
    assert!(nothing.json()["snapshot"].is_null(), "{}", nothing.text());
}

#[test]
fn an_edit_that_breaks_off_makes_no_snapshot() {
    use std::io::{Read as _, Write as _};
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[("a", "whole")]);
    for (target, length) in [
        ("files/a", "100"),
        ("files/a", "5000000"),
        ("import", "5000000"),
    ] {
        let method = if target == "import" { "POST" } else { "PUT" };
        let target = format!("{P}/{target}");
        let mut stream = client.connect();
        let mut request = client.head(method, target.as_bytes(), &[("Content-Length", length)]);
        request.extend_from_slice(b"\r\nonly this");
        stream.write_all(&request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // The server closes the connection when it is done with the request.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(client.get(&format!("{P}/files/a")).text(), "whole");
    let snapshots = client.get(&format!("{P}/snapshots")).json();
    assert_eq!(snapshots["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn policies_are_set_in_part() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[]);
    let policy = format!("{P}/policy");
    assert_eq!(client.get(&policy).json()["landing"], "partial");
    let set = client.put(
        &policy,
        br#"{"policies":[{"path":"*.lock","policy":"last-writer-wins"}],"landing":"atomic"}"#,
    );
    assert_eq!(set.status, 200, "{}", set.text());
    client.put(&policy, br#"{"include_ignored":true}"#);
    let now = client.get(&policy).json();
    assert_eq!(now["policies"][0]["policy"], "last-writer-wins");
    assert_eq!(
        (now["landing"].as_str(), now["include_ignored"].as_bool()),
        (Some("atomic"), Some(true))
    );
}

#[test]
fn lists_go_on_page_by_page() {
    let (_data, running) = start();
    let client = running.client();
    for name in ["a", "b", "c"] {
        client.create_project(name, &[("f", name)]);
    }
    let page = client.get("/api/v1/projects?limit=2").json();
    let names = |page: &serde_json::Value| -> Vec<String> {
        let list = page["projects"].as_array().unwrap().iter();
        list.map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&page), ["a", "b"]);
    assert_eq!(names(&client.get("/api/v1/projects?after=b").json()), ["c"]);
    for agent in ["x", "y", "z"] {
        client.fork("a", agent);
    }
    let forks = client
        .get("/api/v1/projects/a/workspaces?after=x&limit=1")
        .json();
    assert_eq!(forks["workspaces"][0]["id"], "y");
    assert_eq!(forks["workspaces"].as_array().unwrap().len(), 1);
    // All three change the same line: one lands, two wait. Then each adds something of its own.
    for agent in ["x", "y", "z"] {
        client.put(
            &format!("/api/v1/workspaces/{agent}/files/f"),
            agent.as_bytes(),
        );
        client.put(&format!("/api/v1/workspaces/{agent}/files/{agent}"), b"own");
        client.done(
            &format!("/api/v1/workspaces/{agent}/complete"),
            r#"{"keep":true}"#,
        );
    }
    for (list, id, least) in [
        ("snapshots", "id", 4),
        ("merges", "merge_id", 3),
        ("reviews", "id", 2),
    ] {
        let base = format!("/api/v1/projects/a/{list}");
        let ids = |target: &str| -> Vec<String> {
            let page = client.get(target).json();
            let items = page[list].as_array().unwrap_or_else(|| panic!("{page}"));
            let ids = items.iter().map(|one| one[id].as_str().unwrap().to_owned());
            ids.collect()
        };
        let all = ids(&base);
        assert!(all.len() >= least, "{list} {all:?}");
        let mut paged = ids(&format!("{base}?limit=1"));
        while let [next] = &ids(&format!("{base}?limit=1&after={}", paged[paged.len() - 1]))[..] {
            paged.push(next.clone());
        }
        assert_eq!(paged, all, "{list}");
        assert_eq!(ids(&format!("{base}?after={}", all[0])), all[1..], "{list}");
        // After what is not there is nothing.
        assert!(ids(&format!("{base}?after=00000000000000000000000000000000")).is_empty());
    }
}

#[test]
fn a_repeated_creation_makes_nothing_more() {
    let data = HostDir::new();
    let place = data.path().join("data");
    let mut running = Running::start(&place);
    let client = running.client();
    let key = [("Idempotency-Key", "one")];
    let send = |client: &crate::common::Client, target: &str, body: &str| {
        client.send("POST", target.as_bytes(), &key, body.as_bytes())
    };
    let bodies = [
        ("/api/v1/projects", r#"{"name":"p"}"#),
        ("/api/v1/workspaces", "{}"),
        ("/api/v1/agents", r#"{"role":"helper"}"#),
    ];
    let made: Vec<_> = bodies
        .iter()
        .map(|(to, body)| send(&client, to, body))
        .collect();
    client.put(&format!("{P}/files/f"), b"f");
    let fork = send(
        &client,
        &format!("{P}/workspaces"),
        r#"{"agent_id":"a","count":2}"#,
    );
    assert_eq!(fork.status, 201, "{}", fork.text());
    // Also after a restart. Another key, or another caller with the same one, makes more.
    running.stop();
    drop(running);
    let running = Running::start(&place);
    let client = running.client();
    for ((target, body), first) in bodies.iter().zip(made) {
        let again = send(&client, target, body);
        assert_eq!(
            (first.status, again.status),
            (201, 200),
            "{target} {}",
            again.text()
        );
        for field in ["id", "name"] {
            assert_eq!(first.json()[field], again.json()[field]);
        }
    }
    // The same request in another spelling is the same.
    let again = send(
        &client,
        &format!("{P}/workspaces"),
        r#" { "count": 2, "git": false, "base": null, "agent_id": "\u0061" } "#,
    );
    assert_eq!(again.status, 200, "{}", again.text());
    for at in 0..2 {
        assert_eq!(
            fork.json()["workspaces"][at]["id"],
            again.json()["workspaces"][at]["id"]
        );
        assert_eq!(
            fork.json()["workspaces"][at]["path"],
            again.json()["workspaces"][at]["path"]
        );
    }
    // One that was deleted is made again, and the other stays.
    assert_eq!(client.delete("/api/v1/workspaces/a").status, 200);
    let again = send(
        &client,
        &format!("{P}/workspaces"),
        r#"{"agent_id":"a","count":2}"#,
    );
    assert_eq!(again.status, 201, "{}", again.text());
    assert_eq!(again.json()["workspaces"][1]["id"], "a~2");
    assert_eq!(again.json()["workspaces"][0]["id"], "a");
    // The answer to another request would be a lie.
    let fork = format!("{P}/workspaces");
    for (target, body) in [
        ("/api/v1/projects", r#"{"name":"q"}"#),
        ("/api/v1/workspaces", r#"{"id":"w"}"#),
        ("/api/v1/agents", r#"{"role":"helper","parent":"0*"}"#),
        (&fork, r#"{"agent_id":"a","count":3}"#),
    ] {
        let refused = send(&client, target, body);
        let said = (refused.status, refused.code());
        assert_eq!(said, (400, "invalid_request".to_owned()), "{target}");
    }
    assert_eq!(client.get("/api/v1/projects/q").status, 404);
    let other = running.client_for_project("p", &[]);
    let more = send(&other, &format!("{P}/workspaces"), r#"{"agent_id":"a"}"#);
    assert_eq!(
        (more.status, more.json()["id"].as_str()),
        (201, Some("a~3"))
    );
    let empty = client.send(
        "POST",
        b"/api/v1/projects",
        &[("Idempotency-Key", "")],
        b"{\"name\":\"x\"}",
    );
    assert_eq!(empty.code(), "invalid_request");
}

/// Asks for a merge in a new data directory on a disk that is gone after so many calls. Returns
/// whether that left the merge undone.
fn leave_merge(data: &std::path::Path, calls: u64) -> bool {
    let plan = FaultPlan::default();
    let mut options = EngineOptions::new(data);
    options.faults = Some(plan.clone());
    let engine = Engine::open(options).unwrap();
    let project = "web".parse().unwrap();
    engine.projects.create_project(&project, &cause()).unwrap();
    let (path, options) = (RelPath::parse(b"work").unwrap(), WriteOptions::default());
    let content = Content::Bytes(b"begun");
    let put = engine
        .projects
        .put_in_project(&project, &path, content, &options, &cause());
    put.unwrap();
    let fork = engine
        .forks
        .fork(&project, &ForkOptions::default(), &cause());
    let fork = fork.unwrap().workspace.id;
    let content = Content::Bytes(b"done");
    let written = engine
        .workspaces
        .write_file(&fork, &path, content, &options, &cause());
    written.unwrap();
    engine.context.wait_for_jobs();
    plan.arm_from(calls);
    let completed = engine
        .merges
        .complete(&fork, &CompleteOptions::default(), &cause());
    plan.disarm();
    completed.is_err() && engine.merges.waiting_completions().unwrap() == 1
}

#[test]
fn a_server_does_the_merges_that_a_killed_process_left() {
    let host = HostDir::new();
    let data = |calls: u64| host.path().join(format!("data-{calls}"));
    let left = (1..200).find(|&calls| leave_merge(&data(calls), calls));
    let server = Running::start(&data(left.unwrap()));
    let client = server.client();
    offshoot_testkit::wait_until("the merge is done", || {
        client.get("/api/v1/projects/web/files/work").body == b"done"
    });
}

#[test]
fn a_project_says_what_its_forks_begin_with() {
    let data = HostDir::new();
    let place = data.path().join("data");
    let app = "p".parse().unwrap();
    let command = vec!["make".to_owned(), "deps".to_owned()];
    {
        let engine = Engine::open(EngineOptions::new(&place)).unwrap();
        engine.projects.create_project(&app, &cause()).unwrap();
        for (path, content) in [(".gitignore", "deps/\n"), ("go.sum", "sum\n")] {
            let content = Content::Bytes(content.as_bytes());
            let path = RelPath::parse(path.as_bytes()).unwrap();
            let put = WriteOptions::default();
            (engine.projects)
                .put_in_project(&app, &path, content, &put, &cause())
                .unwrap();
        }
        let set = (engine.projects).set_setup(&app, command, Vec::new(), &cause());
        assert_eq!(set.unwrap().on, ["go.sum"]);
    }
    let running = Running::start(&place);
    let client = running.client();
    let setup = &client.get(P).json()["setup"];
    assert_eq!(setup["command"], serde_json::json!(["make", "deps"]));
    assert_eq!(
        (&setup["state"], &setup["on"][0]),
        (&"missing".into(), &"go.sum".into())
    );
    assert_eq!(setup["hash"].as_str().map(str::len), Some(40));
}
