//! Reviews by HTTP: over all projects, their texts and parts, decided by parts and by rule; merges
//! of given texts, and what lost brought back.

use offshoot_testkit::HostDir;
use serde_json::{Value, json};

use crate::common::{Client, Running};

fn start() -> (HostDir, Running) {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    (data, running)
}

/// A text with some lines changed.
fn text(changed: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let found = changed.iter().find(|(at, _)| *at == number);
        found.map_or(format!("line {number}\n"), |(_, line)| format!("{line}\n"))
    };
    (1..=12).map(line).collect()
}

/// Lets two agents complete changes of one file, and returns the id of the review of the second.
fn conflict(client: &Client, project: &str, path: &str, ours: &str, theirs: &str) -> String {
    let forks = ["ada", "bob"].map(|agent| {
        let fork = client.fork(project, agent);
        fork["id"].as_str().unwrap().to_owned()
    });
    let mut last = Value::Null;
    for (fork, content) in forks.iter().zip([ours, theirs]) {
        let at = format!("/api/v1/workspaces/{fork}");
        let put = client.put(&format!("{at}/files/{path}"), content.as_bytes());
        assert!([200, 201].contains(&put.status), "{}", put.text());
        last = client.done(&format!("{at}/complete"), "{}");
    }
    last["conflicts"][0]["review_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn ids(reply: &Value) -> Vec<&str> {
    let reviews = reply["reviews"].as_array().unwrap().iter();
    reviews
        .map(|review| review["id"].as_str().unwrap())
        .collect()
}

#[test]
fn reviews_of_all_projects_come_by_page_and_by_filter() {
    let (_data, running) = start();
    let admin = running.client();
    let mut known = Vec::new();
    for project in ["one", "two"] {
        admin.create_project(project, &[("a.txt", "base\n"), ("docs/b.md", "base\n")]);
        known.push(conflict(&admin, project, "a.txt", "ours\n", "theirs\n"));
    }
    known.push(conflict(&admin, "two", "docs/b.md", "ours\n", "theirs\n"));
    let all = admin.get("/api/v1/reviews").json();
    assert_eq!(ids(&all), known);
    let first = admin.get("/api/v1/reviews?limit=2").json();
    assert_eq!(ids(&first), known[..2]);
    let rest = admin
        .get(&format!("/api/v1/reviews?after={}", known[1]))
        .json();
    assert_eq!(ids(&rest), known[2..]);
    let of = |query: &str| admin.get(&format!("/api/v1/reviews?{query}")).json();
    assert_eq!(ids(&of("project=one")), known[..1]);
    assert_eq!(ids(&of("path=docs/**")), known[2..]);
    assert_eq!(ids(&of("agent=bob")).len(), 3);
    assert!(ids(&of("agent=ada")).is_empty());
    assert_eq!(ids(&of("kind=both_changed")).len(), 3);
    assert!(ids(&of("kind=both_added")).is_empty());
    // A token of a project sees its own, one of a workspace what an update of that left.
    let own = running.client_for_project("one", &[]);
    assert_eq!(ids(&own.get("/api/v1/reviews").json()), known[..1]);
    assert_eq!(own.get("/api/v1/reviews?project=two").status, 404);
    let alone = running.client_for("bob", &[]);
    assert!(ids(&alone.get("/api/v1/reviews").json()).is_empty());
    let limited = running.client_for_project("one", &["docs/**:read"]);
    assert_eq!(limited.get("/api/v1/reviews").status, 403);
    // What is resolved is told where it is asked for.
    let done = format!("/api/v1/reviews/{}/resolve", known[0]);
    admin.done(&done, r#"{"choice":"ours"}"#);
    assert_eq!(ids(&of("")), known[1..]);
    assert_eq!(ids(&of("state=open")), known[1..]);
    assert_eq!(ids(&of("state=resolved")), known[..1]);
    assert_eq!(ids(&of("state=all")), known);
    assert!(ids(&of("state=decided")).is_empty());
    // A page goes on after one that was resolved meanwhile.
    assert_eq!(ids(&of(&format!("after={}", known[0]))), known[1..]);
    assert_eq!(
        admin.get("/api/v1/reviews?state=lost").code(),
        "invalid_request"
    );
}

#[test]
fn a_review_tells_its_texts_and_is_decided_part_by_part() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[("a.txt", &text(&[]))]);
    let ours = text(&[(2, "two of ada"), (10, "ten of ada")]);
    let theirs = text(&[(2, "two of bob"), (6, "six of bob"), (10, "ten of bob")]);
    let id = conflict(&client, "p", "a.txt", &ours, &theirs);
    let at = format!("/api/v1/reviews/{id}");
    let candidate = json!({ "content": "mine\n" }).to_string();
    assert_eq!(
        client.post(&format!("{at}/candidates"), &candidate).status,
        201
    );
    let told = client.get(&format!("{at}/content")).json();
    assert_eq!(told["base"]["content"], text(&[]));
    assert_eq!(told["ours"]["content"], ours);
    assert_eq!(told["theirs"]["content"], theirs);
    assert_eq!(told["candidates"][0]["content"], "mine\n");
    // What fits is in it already: the line that bob alone changed.
    let merged = text(&[(2, "two of ada"), (6, "six of bob"), (10, "ten of ada")]);
    assert_eq!(told["merged"]["content"], merged);
    let regions = told["regions"].as_array().unwrap();
    assert_eq!(regions.len(), 2);
    assert_eq!(
        (&regions[0]["part"], &regions[1]["part"]),
        (&json!("line 2"), &json!("line 10"))
    );
    assert_eq!(
        regions[0]["theirs"],
        json!({ "line": 2, "lines": 1, "text": "two of bob\n" })
    );
    assert_eq!(regions[1]["base"]["text"], "line 10\n");
    assert_eq!(
        regions[0]["choices"],
        json!(["ours", "theirs", "base", "union"])
    );
    for (side, content) in [
        ("base", &text(&[])),
        ("theirs", &theirs),
        ("merged", &merged),
    ] {
        let raw = client.get(&format!("{at}/sides/{side}"));
        assert_eq!(raw.text(), *content, "{side}");
        assert!(raw.header("etag").is_some());
    }
    assert_eq!(client.get(&format!("{at}/sides/1")).text(), "mine\n");
    assert_eq!(client.get(&format!("{at}/sides/2")).status, 404);
    assert_eq!(client.get(&format!("{at}/sides/left")).status, 400);

    let resolve = |body: Value| client.post(&format!("{at}/resolve"), &body.to_string());
    for bad in [
        json!({}),
        json!({ "parts": { "line 3": "ours" } }),
        json!({ "parts": { "line 2": "ours" } }),
        json!({ "parts": { "line 2": "content" } }),
        json!({ "choice": "candidate", "candidate": 1, "parts": { "1": "ours" } }),
        json!({ "choice": "ours", "ours": told["ours"]["id"] }),
    ] {
        let refused = resolve(bad.clone());
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "invalid_request"),
            "{bad}"
        );
    }
    // Parts may be others in another content.
    let stale = resolve(json!({ "choice": "ours", "parts": {}, "ours": told["theirs"]["id"] }));
    assert_eq!(stale.code(), "precondition_failed", "{}", stale.text());
    let done = resolve(json!({
        "choice": "base",
        "parts": { "line 2": "theirs", "2": "union" },
        "ours": told["ours"]["id"],
    }));
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(done.json()["review"]["decision"]["choice"], "parts");
    let now = client.get("/api/v1/projects/p/files/a.txt").text();
    let both = text(&[
        (2, "two of bob"),
        (6, "six of bob"),
        (10, "ten of ada\nten of bob"),
    ]);
    assert_eq!(now, both);
}

#[test]
fn parts_of_a_merge_that_lands_whole_wait_for_the_other_decisions() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project(
        "p",
        &[("a.json", "{\"x\": 1, \"y\": 1}\n"), ("b.txt", "base\n")],
    );
    let policy = client.put("/api/v1/projects/p/policy", br#"{"landing":"atomic"}"#);
    assert_eq!(policy.status, 200, "{}", policy.text());
    let forks =
        ["ada", "bob"].map(|agent| client.fork("p", agent)["id"].as_str().unwrap().to_owned());
    let mut reviews = Vec::new();
    for (fork, number) in forks.iter().zip([2, 3]) {
        let at = format!("/api/v1/workspaces/{fork}");
        let json = format!("{{\"x\": {number}, \"y\": {number}}}\n");
        client.put(&format!("{at}/files/a.json"), json.as_bytes());
        client.put(
            &format!("{at}/files/b.txt"),
            format!("{number}\n").as_bytes(),
        );
        let done = client.done(&format!("{at}/complete"), "{}");
        for conflict in done["conflicts"].as_array().unwrap() {
            reviews.push(conflict["review_id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(reviews.len(), 2);
    let parts = r#"{"parts":{"/x":"theirs","/y":"ours"}}"#;
    let first = client.done(&format!("/api/v1/reviews/{}/resolve", reviews[0]), parts);
    assert_eq!(first["review"]["state"], "decided");
    client.done(
        &format!("/api/v1/reviews/{}/resolve", reviews[1]),
        r#"{"choice":"theirs"}"#,
    );
    let landed = client.get("/api/v1/projects/p/files/a.json").text();
    assert_eq!(landed, "{\"x\": 3, \"y\": 2}\n");
}

#[test]
fn many_reviews_are_decided_by_a_rule() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project(
        "p",
        &[
            ("a.txt", "base\n"),
            ("docs/b.md", "base\n"),
            ("docs/c", "base\n"),
        ],
    );
    let at = |id: &str| format!("/api/v1/reviews/{id}");
    let a = conflict(&client, "p", "a.txt", "ours\n", "theirs\n");
    let b = conflict(&client, "p", "docs/b.md", "ours\n", "theirs\n");
    let c = conflict(&client, "p", "docs/c", "a\0b", "c\0d");
    let many = |body: Value| client.post("/api/v1/reviews/resolve", &body.to_string());
    let rule = json!({ "choice": "union", "project": "p", "path": "docs/**", "dry_run": true });
    let planned = many(rule.clone());
    assert_eq!(
        ids(&planned.json()),
        [b.as_str(), c.as_str()],
        "{}",
        planned.text()
    );
    assert_eq!(client.get(&at(&b)).json()["state"], "open");
    let mut rule = rule;
    rule["dry_run"] = json!(false);
    let done = many(rule).json();
    assert_eq!(ids(&done), [b.as_str()]);
    // Two images cannot be joined: that one is as it was, with the reason.
    assert_eq!(done["failed"][0]["id"], c);
    assert_eq!(done["failed"][0]["code"], "invalid_request");
    assert_eq!(
        client.get("/api/v1/projects/p/files/docs/b.md").text(),
        "ours\ntheirs\n"
    );
    let done = many(json!({ "choice": "theirs", "reviews": [a, c, "none"] })).json();
    assert_eq!(ids(&done), [a.as_str(), c.as_str()]);
    assert_eq!(done["failed"][0]["code"], "review_not_found");
    for bad in [
        json!({ "choice": "ours" }),
        json!({ "choice": "ours", "reviews": [], "project": "p" }),
        json!({ "choice": "content", "project": "p" }),
    ] {
        assert_eq!(many(bad.clone()).code(), "invalid_request", "{bad}");
    }
    running.client().create("w");
    let stranger = running.client_for("w", &[]);
    let body = json!({ "choice": "ours", "project": "p" }).to_string();
    assert_eq!(stranger.post("/api/v1/reviews/resolve", &body).status, 404);
}

#[test]
fn three_texts_are_merged_for_a_client_that_lost_a_race() {
    let (_data, running) = start();
    let client = running.client();
    let merge = |body: Value| client.post("/api/v1/merge", &body.to_string());
    let base = text(&[]);
    let clean = merge(json!({
        "base": base, "ours": text(&[(2, "b")]), "theirs": text(&[(9, "c")]),
    }));
    assert_eq!(clean.json()["clean"], true, "{}", clean.text());
    assert_eq!(clean.json()["content"], text(&[(2, "b"), (9, "c")]));
    let sides = json!({ "base": base, "ours": text(&[(2, "b")]), "theirs": text(&[(2, "c")]) });
    let told = merge(sides.clone()).json();
    assert_eq!(
        (&told["clean"], &told["content"]),
        (&json!(false), &sides["ours"])
    );
    assert_eq!(told["regions"][0]["part"], "line 2");
    let mut chosen = sides.clone();
    chosen["parts"] = json!({ "1": "theirs" });
    let told = merge(chosen).json();
    assert_eq!(
        (&told["clean"], &told["content"]),
        (&json!(true), &sides["theirs"])
    );
    let by_key = merge(json!({
        "path": "a.json", "base": "{\"x\":1}", "ours": "{\"x\":1,\"y\":1}", "theirs": "{\"x\":2}",
    }));
    assert_eq!(by_key.json()["content"], "{\"x\":2,\"y\":1}");
    let bad = merge(json!({ "base": "", "ours": "?", "theirs": "", "encoding": "base64" }));
    assert_eq!(bad.code(), "invalid_request");
    let nobody = Client::new(running.address, "");
    assert_eq!(nobody.post("/api/v1/merge", "{}").status, 401);
}

#[test]
fn what_lost_by_a_policy_is_taken_back() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[("a.txt", "base\n")]);
    let policy = br#"{"policies":[{"path":"**","policy":"last-writer-wins"}]}"#;
    let set = client.put("/api/v1/projects/p/policy", policy);
    assert_eq!(set.status, 200, "{}", set.text());
    let forks =
        ["ada", "bob"].map(|agent| client.fork("p", agent)["id"].as_str().unwrap().to_owned());
    let mut merge = String::new();
    for (fork, content) in forks.iter().zip(["ours\n", "theirs\n"]) {
        let at = format!("/api/v1/workspaces/{fork}");
        client.put(&format!("{at}/files/a.txt"), content.as_bytes());
        let done = client.done(&format!("{at}/complete"), "{}");
        merge = done["merge_id"].as_str().unwrap().to_owned();
    }
    assert_eq!(
        client.get("/api/v1/projects/p/files/a.txt").text(),
        "theirs\n"
    );
    let take = format!("/api/v1/merges/{merge}/take");
    let none = client.post(&take, r#"{"path":"b.txt"}"#);
    assert_eq!((none.status, none.code().as_str()), (404, "file_not_found"));
    let stranger = running.client_for("ada", &[]);
    assert_eq!(stranger.post(&take, r#"{"path":"a.txt"}"#).status, 404);
    let reader = running.client_for_project("p", &["**:read"]);
    assert_eq!(reader.post(&take, r#"{"path":"a.txt"}"#).status, 403);
    let taken = client.done(&take, r#"{"path":"a.txt"}"#);
    assert_eq!(taken["path"], "a.txt");
    assert_eq!(
        client.get("/api/v1/projects/p/files/a.txt").text(),
        "ours\n"
    );
    let unknown = client.post("/api/v1/merges/none/take", r#"{"path":"a.txt"}"#);
    assert_eq!(unknown.status, 404);
}

#[test]
fn what_an_update_left_is_decided_part_by_part_into_the_workspace() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[("a.txt", &text(&[]))]);
    client.fork("p", "ada");
    let theirs = text(&[(2, "two of ada"), (10, "ten of ada")]);
    client.put("/api/v1/workspaces/ada/files/a.txt", theirs.as_bytes());
    let ours = text(&[(2, "two of you"), (6, "six of you"), (10, "ten of you")]);
    client.put("/api/v1/projects/p/files/a.txt", ours.as_bytes());
    client.done("/api/v1/workspaces/ada/update", "{}");
    // A token of the workspace alone sees what its update left, and decides it.
    let ada = running.client_for("ada", &[]);
    let waiting = ada.get("/api/v1/reviews").json();
    let id = ids(&waiting)[0].to_owned();
    assert_eq!(waiting["reviews"][0]["lands_in"], "workspace");
    let told = ada.get(&format!("/api/v1/reviews/{id}/content")).json();
    assert_eq!(
        (&told["ours"]["content"], &told["theirs"]["content"]),
        (&json!(ours), &json!(theirs))
    );
    assert_eq!(told["regions"].as_array().unwrap().len(), 2);
    let choice = r#"{"choice": "ours", "parts": {"line 10": "theirs"}}"#;
    ada.done(&format!("/api/v1/reviews/{id}/resolve"), choice);
    let now = client.get("/api/v1/workspaces/ada/files/a.txt").text();
    assert_eq!(
        now,
        text(&[(2, "two of you"), (6, "six of you"), (10, "ten of ada")])
    );
    assert!(ids(&ada.get("/api/v1/reviews").json()).is_empty());
}
