//! The work of an agent outside: a fork by HTTP, changes through its path, a merge, conflicts, their
//! decisions, and taking it all back.

use std::path::PathBuf;

use offshoot_testkit::HostDir;
use serde_json::Value;

use crate::common::{Client, Running, Stream};

const P: &str = "/api/v1/projects/p";

fn start(files: &[(&str, &str)]) -> (HostDir, Running) {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    running.client().create_project("p", files);
    (data, running)
}

fn path_of(fork: &Value) -> PathBuf {
    PathBuf::from(fork["path"].as_str().unwrap())
}

fn complete(client: &Client, workspace: &str, body: &str) -> Value {
    client.done(&format!("/api/v1/workspaces/{workspace}/complete"), body)
}

fn file(client: &Client, path: &str) -> String {
    client.get(&format!("{P}/files/{path}")).text()
}

/// Two forks that both changed `a`, the first of them merged; the id of the second's review.
fn conflict(client: &Client) -> String {
    let one = client.fork("p", "one");
    let two = client.fork("p", "two");
    std::fs::write(path_of(&one).join("a"), "by one\n").unwrap();
    std::fs::write(path_of(&two).join("a"), "by two\n").unwrap();
    std::fs::write(path_of(&two).join("only-two"), "two\n").unwrap();
    complete(client, "one", "{}");
    let done = complete(client, "two", "{}");
    assert_eq!(done["merged"], serde_json::json!(["only-two"]), "{done}");
    assert_eq!(done["conflicts"][0]["path"], "a");
    done["conflicts"][0]["review_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn ignored_files_go_with_their_workspace_unless_they_are_asked_for() {
    let (_data, running) = start(&[("a", "a\n"), (".gitignore", "*.log\nbuilt/\n")]);
    let client = running.client();
    let build = |agent: &str| {
        let dir = path_of(&client.fork("p", agent));
        std::fs::create_dir_all(dir.join("built/deep")).unwrap();
        std::fs::write(dir.join("built/deep/app"), "12345").unwrap();
        std::fs::write(dir.join("run.log"), "123").unwrap();
    };
    let two = serde_json::json!({ "files": 2, "bytes": 8 });
    let none = serde_json::json!({ "files": 0, "bytes": 0 });
    build("one");
    let plan = complete(&client, "one", r#"{"dry_run":true}"#);
    assert_eq!(plan["ignored_removed"], two, "{plan}");
    let done = complete(&client, "one", "{}");
    assert_eq!(done["ignored_removed"], two, "{done}");
    assert_eq!(complete(&client, "one", "{}"), done);
    build("two");
    let deleted = client.delete("/api/v1/workspaces/two").json();
    assert_eq!(deleted["ignored_removed"], two, "{deleted}");
    build("three");
    let deleted = client.delete("/api/v1/workspaces/three?include_ignored=true");
    assert_eq!(deleted.json()["ignored_removed"], none);
    build("four");
    let tool = running.agent("four");
    let done = tool.post("/api/v1/tools/complete", r#"{"include_ignored":true}"#);
    assert_eq!(done.json()["ignored_removed"], none, "{}", done.text());
    assert_eq!(file(&client, "built/deep/app"), "12345");
    let events = running.engine.history.events_after(0, None, 0).unwrap();
    let of_two = |event: &&offshoot_engine::Event| {
        let name = event
            .workspace
            .as_ref()
            .map(offshoot_core::WorkspaceId::as_str);
        name == Some("two") && !event.row.line.path.is_root()
    };
    assert_eq!(events.iter().filter(of_two).count(), 0);
}

#[test]
fn an_agent_outside_works_from_fork_to_merge() {
    let (_data, running) = start(&[("a", "a\n"), ("gone", "gone\n")]);
    // The least that this takes: a token for the project.
    let client = running.client_for_project("p", &[]);
    let fork = client.fork("p", "coder");
    for field in [
        "id",
        "project",
        "base_snapshot",
        "provider",
        "path",
        "created_at",
    ] {
        assert!(fork[field].is_string(), "{field} {fork}");
    }
    assert_eq!(
        (fork["id"].as_str(), fork["materialized"].as_bool()),
        (Some("coder"), Some(true))
    );
    let path = client.get(&format!("{P}/path?agent_id=coder")).json();
    assert_eq!(path["path"], fork["path"]);
    let older = client.get("/api/v1/workspace/p/path?agent_id=coder").json();
    assert_eq!(older["path"], fork["path"]);
    let dir = path_of(&fork);
    std::fs::write(dir.join("a"), "changed outside\n").unwrap();
    std::fs::write(dir.join("new"), "new\n").unwrap();
    std::fs::remove_file(dir.join("gone")).unwrap();
    let changes = client.get("/api/v1/workspaces/coder/changes").json();
    assert_eq!(changes["changes"].as_array().unwrap().len(), 3, "{changes}");
    assert_eq!(file(&client, "a"), "a\n");
    let plan = complete(&client, "coder", r#"{"dry_run":true}"#);
    assert!(plan["merge_id"].is_null() && plan["merged"].as_array().unwrap().len() == 3);
    let done = complete(&client, "coder", "{}");
    assert_eq!(done["conflicts"], serde_json::json!([]));
    assert_eq!(file(&client, "a"), "changed outside\n");
    assert_eq!(client.get(&format!("{P}/files/gone")).status, 404);
    // Completing again changes nothing, although the workspace is gone.
    assert_eq!(
        complete(&client, "coder", "{}")["merge_id"],
        done["merge_id"]
    );
    assert_eq!(client.get("/api/v1/workspaces/coder").status, 404);
    let blame = client.get(&format!("{P}/blame/a")).json();
    assert_eq!(blame["lines"][0]["agent"], "coder", "{blame}");
    let merge = done["merge_id"].as_str().unwrap();
    let shown = client.get(&format!("/api/v1/merges/{merge}")).json();
    assert_eq!(shown["workspace"], "coder");
    let log = client.get(&format!("{P}/merges")).json();
    assert_eq!(log["merges"][0]["merge_id"], merge);
    let undone = client.done(&format!("/api/v1/merges/{merge}/undo"), "");
    assert_eq!(undone["project"], "p");
    assert_eq!(
        (file(&client, "a"), file(&client, "gone")),
        ("a\n".into(), "gone\n".into())
    );
    let twice = client.post(&format!("/api/v1/merges/{merge}/undo"), "");
    assert_eq!(
        (twice.status, twice.code().as_str()),
        (409, "already_exists")
    );
}

#[test]
fn a_fork_with_a_git_directory_is_asked_for_by_name() {
    let (_data, running) = start(&[("a", "a\n")]);
    let client = running.client();
    let fork = client
        .post(
            &format!("{P}/workspaces"),
            r#"{"agent_id":"one","git":true}"#,
        )
        .json();
    assert_eq!(fork["git"], true, "{fork}");
    let dir = path_of(&fork);
    let head = offshoot_testkit::git(&dir, &["rev-parse", "HEAD"]);
    assert_eq!(fork["base_snapshot"], head.trim());
    assert_eq!(offshoot_testkit::git(&dir, &["status", "--porcelain"]), "");
    assert!(!path_of(&client.fork("p", "two")).join(".git").exists());
}

#[test]
fn an_agent_decides_what_its_own_update_left_open() {
    let (_data, running) = start(&[("a", "a\n")]);
    let admin = running.client();
    let fork = admin.fork("p", "one");
    admin.fork("p", "two");
    std::fs::write(path_of(&fork).join("a"), "mine\n").unwrap();
    assert!(admin.put(&format!("{P}/files/a"), b"theirs\n").status < 300);
    let agent = running.agent("one");
    let updated = agent.done("/api/v1/workspaces/one/update", "{}");
    let waiting = &updated["conflicts"][0];
    assert_eq!(
        (waiting["path"].as_str(), waiting["part"].as_str()),
        (Some("a"), Some("line 1"))
    );
    assert_eq!(
        std::fs::read(path_of(&fork).join("a")).unwrap(),
        b"theirs\n"
    );
    let target = format!("/api/v1/reviews/{}", waiting["review_id"].as_str().unwrap());
    let review = agent.get(&target).json();
    assert_eq!(
        (review["lands_in"].as_str(), &review["merge_id"]),
        (Some("workspace"), &Value::Null)
    );
    assert!(
        review["ours_by"].is_null(),
        "an agent learns nothing about others: {review}"
    );
    assert_eq!(running.agent("two").get(&target).status, 404);
    let resolve = format!("{target}/resolve");
    assert_eq!(
        running
            .agent("two")
            .post(&resolve, r#"{"choice":"theirs"}"#)
            .status,
        404
    );
    let resolved = agent.done(&resolve, r#"{"choice":"theirs"}"#);
    assert_eq!(resolved["review"]["state"], "resolved", "{resolved}");
    assert_eq!(std::fs::read(path_of(&fork).join("a")).unwrap(), b"mine\n");
    assert_eq!(file(&admin, "a"), "theirs\n");
    assert_eq!(
        complete(&agent, "one", "{}")["conflicts"],
        serde_json::json!([])
    );
    assert_eq!(file(&admin, "a"), "mine\n");
}

#[test]
fn a_conflict_waits_and_is_decided() {
    for (body, expected) in [
        (r#"{"choice":"ours"}"#, "by one\n"),
        (r#"{"choice":"theirs"}"#, "by two\n"),
        (r#"{"choice":"base"}"#, "a\n"),
        (r#"{"choice":"union"}"#, "by one\nby two\n"),
        (r#"{"choice":"content","content":"mine\n"}"#, "mine\n"),
        (
            r#"{"choice":"content","content":"AP8=","encoding":"base64"}"#,
            "\0\u{fffd}",
        ),
        (r#"{"choice":"candidate","candidate":1}"#, "proposed\n"),
    ] {
        let (_data, running) = start(&[("a", "a\n")]);
        let client = running.client();
        let review = conflict(&client);
        let target = format!("/api/v1/reviews/{review}");
        let shown = client.get(&target).json();
        assert_eq!(
            (shown["path"].as_str(), shown["state"].as_str()),
            (Some("a"), Some("open"))
        );
        assert!(
            shown["ours_diff"].as_str().unwrap().contains("+by one"),
            "{shown}"
        );
        assert!(
            shown["theirs_diff"].as_str().unwrap().contains("+by two"),
            "{shown}"
        );
        let listed = client.get(&format!("{P}/reviews")).json();
        assert_eq!(listed["reviews"][0]["id"], review.as_str());
        let candidate = r#"{"content":"proposed\n","note":"better"}"#;
        let proposed = client.post(&format!("{target}/candidates"), candidate);
        assert_eq!(proposed.status, 201, "{}", proposed.text());
        assert_eq!(proposed.json()["candidates"][0]["note"], "better");
        for bad in [
            "{}",
            r#"{"choice":"none"}"#,
            r#"{"choice":"content"}"#,
            r#"{"choice":"candidate"}"#,
            r#"{"choice":"candidate","candidate":9}"#,
            r#"{"choice":"ours","content":"x"}"#,
            r#"{"choice":"content","content":"*","encoding":"base64"}"#,
        ] {
            let reply = client.post(&format!("{target}/resolve"), bad);
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, "invalid_request"),
                "{bad}"
            );
        }
        let resolved = client.done(&format!("{target}/resolve"), body);
        assert_eq!(resolved["review"]["state"], "resolved", "{resolved}");
        assert_eq!(file(&client, "a"), expected, "{body}");
        let again = client.post(&format!("{target}/resolve"), body);
        assert_eq!(
            (again.status, again.code().as_str()),
            (409, "already_exists")
        );
        let open = client.get(&format!("{P}/reviews")).json();
        assert_eq!(open["reviews"], serde_json::json!([]));
        let all = client.get(&format!("{P}/reviews?all=true")).json();
        assert_eq!(all["reviews"].as_array().unwrap().len(), 1);
        // With its last review the workspace goes.
        assert_eq!(client.get("/api/v1/workspaces/two").status, 404);
    }
}

#[test]
fn all_or_nothing_is_an_error_only_where_it_was_asked_for() {
    let (_data, running) = start(&[("a", "a\n")]);
    let client = running.client();
    let two = client.fork("p", "two");
    std::fs::write(path_of(&two).join("a"), "by two\n").unwrap();
    std::fs::write(path_of(&two).join("b"), "b\n").unwrap();
    client.put(&format!("{P}/files/a"), b"by somebody\n");
    let target = "/api/v1/workspaces/two/complete";
    let plan = client.done(target, r#"{"landing":"atomic","dry_run":true}"#);
    assert_eq!(plan["conflicts"].as_array().unwrap().len(), 1);
    let refused = client.post(target, r#"{"landing":"atomic"}"#);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "merge_conflict")
    );
    let details = refused.json()["error"]["details"].clone();
    let review = details["conflicts"][0]["review_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(details["conflicts"][0]["path"], "a");
    assert_eq!(
        client.get(&format!("{P}/files/b")).status,
        404,
        "something landed"
    );
    client.done(
        &format!("/api/v1/reviews/{review}/resolve"),
        r#"{"choice":"theirs"}"#,
    );
    assert_eq!(
        (file(&client, "a"), file(&client, "b")),
        ("by two\n".into(), "b\n".into())
    );
    // A project that lands whole answers with 200 if the request did not ask for it.
    client.put(&format!("{P}/policy"), br#"{"landing":"atomic"}"#);
    let three = client.fork("p", "three");
    std::fs::write(path_of(&three).join("a"), "by three\n").unwrap();
    client.put(&format!("{P}/files/a"), b"by somebody else\n");
    let done = complete(&client, "three", "{}");
    assert!(
        done["snapshot"].is_null() && done["landing"] == "atomic",
        "{done}"
    );
    // A policy of the request decides at once.
    let four = client.fork("p", "four");
    std::fs::write(path_of(&four).join("a"), "by four\n").unwrap();
    client.put(&format!("{P}/files/a"), b"once more\n");
    let done = complete(&client, "four", r#"{"policy":"theirs","landing":"atomic"}"#);
    assert_eq!(done["decided"][0]["winner"], "theirs");
    assert_eq!(file(&client, "a"), "by four\n");
}

#[test]
fn a_fork_follows_its_project_and_can_stay() {
    let (_data, running) = start(&[("a", "a\n"), ("b", "b\n")]);
    let client = running.client();
    let fork = client.fork("p", "w");
    std::fs::write(path_of(&fork).join("a"), "own\n").unwrap();
    client.put(&format!("{P}/files/b"), b"newer\n");
    let target = "/api/v1/workspaces/w/update";
    let plan = client.done(target, r#"{"dry_run":true}"#);
    assert_eq!(plan["dry_run"], true);
    assert_eq!(
        std::fs::read_to_string(path_of(&fork).join("b")).unwrap(),
        "b\n"
    );
    client.done(target, "");
    assert_eq!(
        std::fs::read_to_string(path_of(&fork).join("b")).unwrap(),
        "newer\n"
    );
    assert_eq!(
        std::fs::read_to_string(path_of(&fork).join("a")).unwrap(),
        "own\n"
    );
    let done = complete(&client, "w", r#"{"keep":true}"#);
    assert_eq!(
        (done["keep"].as_bool(), file(&client, "a")),
        (Some(true), "own\n".into())
    );
    assert_eq!(client.get("/api/v1/workspaces/w").status, 200);
    let blame = client.get("/api/v1/workspaces/w/blame/a").json();
    assert_eq!(blame["lines"][0]["text"], "own");
    let missing = client.get("/api/v1/workspaces/w/blame/none");
    assert_eq!(missing.code(), "file_not_found");
}

#[test]
fn what_happens_to_projects_is_an_event() {
    let (_data, running) = start(&[("a", "a\n")]);
    let client = running.client();
    client.create_project("q", &[("q", "q\n")]);
    let mut all = Stream::open(&client, "/api/v1/events?since=0", &[]);
    let mut own = Stream::open(&client, "/api/v1/events?since=0&project=p", &[]);
    let token = running.client_for_project("p", &[]);
    let mut by_token = Stream::open(&token, "/api/v1/events?since=0", &[]);
    // The name of an agent is known from the first workspace that it has.
    client.create("two");
    let two = running.agent("two");
    client.delete("/api/v1/workspaces/two");
    let mut agent = Stream::open(&two, "/api/v1/events?since=0", &[]);
    let review = conflict(&client);
    let candidate = client.post(
        &format!("/api/v1/reviews/{review}/candidates"),
        r#"{"content":"x"}"#,
    );
    assert_eq!(candidate.status, 201);
    client.put("/api/v1/projects/q/files/q", b"again\n");
    client.done(
        &format!("/api/v1/reviews/{review}/resolve"),
        r#"{"choice":"ours"}"#,
    );
    client.put(&format!("{P}/policy"), b"{}");
    client.put(&format!("{P}/files/last"), b"");
    client.create("end");
    let until = |stream: &mut Stream, end: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        let mut seen = Vec::new();
        while let Some((_, _, data)) = stream.next() {
            let last = end(&data);
            seen.push(data);
            if last {
                return seen;
            }
        }
        panic!("the stream ended: {seen:?}")
    };
    let is_end = |data: &Value| data["workspace"] == "end";
    let everything = until(&mut all, &is_end);
    let ops = |events: &[Value]| -> Vec<String> {
        events
            .iter()
            .map(|one| one["op"].as_str().unwrap().to_owned())
            .collect()
    };
    for op in [
        "project_create",
        "workspace_create",
        "merge",
        "review_open",
        "review_propose",
        "review_resolve",
        "workspace_update",
        "workspace_delete",
    ] {
        assert!(
            ops(&everything).iter().any(|one| one == op),
            "{op}: {:?}",
            ops(&everything)
        );
    }
    let is_last = |data: &Value| data["path"] == "last";
    let of_project = until(&mut own, &is_last);
    assert!(of_project.iter().all(|one| one["project"] == "p"));
    assert!(of_project.iter().any(|one| one["workspace"] == "two"));
    assert!(of_project.iter().any(|one| one.get("workspace").is_none()));
    assert!(everything.iter().any(|one| one["project"] == "q"));
    assert_eq!(until(&mut by_token, &is_last), of_project);
    // An agent hears of its workspace alone, and of nothing that the project is told.
    let heard = until(&mut agent, &|data| data["op"] == "workspace_delete");
    assert!(
        heard.iter().all(|one| one["workspace"] == "two"),
        "{heard:?}"
    );
}

#[test]
fn a_protected_path_needs_an_admin() {
    let (_data, running) = start(&[("a", "a\n")]);
    let (admin, token) = (running.client(), running.client_for_project("p", &[]));
    let policy = format!("{P}/policy");
    let set = admin.put(&policy, br#"{"protect": ["CLAUDE.md"]}"#);
    assert_eq!(set.json()["protect"], serde_json::json!(["CLAUDE.md"]));
    // A token of the project changes the rest of it, and leaves that alone.
    let landing = token.put(&policy, br#"{"landing": "partial"}"#);
    assert_eq!(landing.json()["protect"], serde_json::json!(["CLAUDE.md"]));
    let denied = |answer: crate::common::Reply| {
        let text = answer.text();
        assert_eq!(answer.status, 403, "{text}");
        let error = &answer.json()["error"];
        assert_eq!(error["code"], "permission_denied");
        assert!(error["hint"].is_string(), "{text}");
    };
    denied(token.put(&policy, br#"{"protect": []}"#));
    denied(token.put(&format!("{P}/files/CLAUDE.md"), b"obey\n"));
    let fork = token.fork("p", "ada");
    std::fs::write(path_of(&fork).join("CLAUDE.md"), "obey\n").unwrap();
    let agent = running.agent("ada");
    let done = complete(&agent, "ada", r#"{"policy": "theirs"}"#);
    assert_eq!(done["conflicts"][0]["kind"], "protected", "{done}");
    let id = done["conflicts"][0]["review_id"].as_str().unwrap();
    let resolve = format!("/api/v1/reviews/{id}/resolve");
    let theirs = r#"{"choice": "theirs"}"#;
    assert_eq!(agent.post(&resolve, theirs).status, 404);
    denied(token.post(&resolve, theirs));
    assert_eq!(admin.get(&format!("{P}/files/CLAUDE.md")).status, 404);
    let resolved = admin.post(&resolve, theirs);
    assert_eq!(resolved.status, 200, "{}", resolved.text());
    assert_eq!(file(&admin, "CLAUDE.md"), "obey\n");
}

#[test]
fn the_priority_of_an_agent_is_for_those_who_have_the_project() {
    let (_data, running) = start(&[("a", "a\n")]);
    let token = running.client_for_project("p", &[]);
    let body = r#"{"role": "lead", "project": "p", "priority": 4}"#;
    let made = |client: &Client, target: &str, body: &str| {
        let reply = client.post(target, body);
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()
    };
    let lead = made(&token, "/api/v1/agents", body);
    assert_eq!(lead["priority"], 4);
    let id = lead["id"].as_str().unwrap();
    let body = format!(r#"{{"agent_id": "{id}"}}"#);
    let fork = made(&token, &format!("{P}/workspaces"), &body);
    assert_eq!(
        (&fork["priority"], &fork["id"]),
        (&lead["priority"], &Value::from(format!("{id}~2")))
    );
    let agent = running.agent(id);
    let raised = format!(r#"{{"parent": "{id}", "role": "helper", "priority": 9}}"#);
    assert_eq!(agent.post("/api/v1/agents", &raised).status, 403);
    let plain = format!(r#"{{"parent": "{id}", "role": "helper"}}"#);
    assert_eq!(made(&agent, "/api/v1/agents", &plain)["priority"], 4);
}
