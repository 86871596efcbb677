//! What a person who looks after everything asks for: the overview, differences, searches.

use std::cell::Cell;
use std::sync::Arc;

use offshoot_agent::find::{SearchQuery, SearchScope, find};
use offshoot_core::Operator;
use offshoot_engine::Principal;
use offshoot_testkit::HostDir;
use serde_json::{Value, json};

use crate::common::{Running, encode};

fn start() -> (HostDir, Running) {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    (data, running)
}

fn texts(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().unwrap().iter();
    items
        .map(|item| item[field].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_overview_tells_projects_and_forks_in_reach() {
    let (_data, running) = start();
    let admin = running.client();
    admin.create_project("p", &[("a.txt", "base\n"), ("b.txt", "base\n")]);
    admin.create_project("q", &[("c.txt", "base\n")]);
    for agent in ["ada", "bob", "cyd"] {
        let project = if agent == "cyd" { "q" } else { "p" };
        assert_eq!(admin.fork(project, agent)["id"], agent);
        let path = if agent == "cyd" { "c.txt" } else { "a.txt" };
        let file = format!("/api/v1/workspaces/{agent}/files/{path}");
        admin.put(&file, format!("{agent}\n").as_bytes());
    }
    let all = admin.get("/api/v1/overview").json();
    assert_eq!(texts(&all["projects"], "name"), ["p", "q"]);
    assert_eq!(texts(&all["forks"], "id"), ["ada", "bob", "cyd"]);
    let ada = &all["forks"][0];
    assert_eq!((&ada["changed"], &ada["behind"]), (&json!(1), &json!(0)));
    assert_eq!(
        ada["overlap"],
        json!([{ "fork": "bob", "paths": ["a.txt"] }])
    );
    assert_eq!(ada["last_operation"]["path"], "a.txt");
    assert_eq!(
        (
            &all["projects"][0]["forks"],
            &all["projects"][0]["open_reviews"]
        ),
        (&json!(2), &json!(0))
    );
    // One lands, the other conflicts.
    admin.done("/api/v1/workspaces/ada/complete", "{}");
    let behind = admin.get("/api/v1/overview?project=p").json();
    assert_eq!(texts(&behind["forks"], "id"), ["bob"]);
    assert_eq!(
        (
            &behind["forks"][0]["behind"],
            &behind["forks"][0]["overlap_with_project"]
        ),
        (&json!(1), &json!(["a.txt"]))
    );
    admin.done("/api/v1/workspaces/bob/complete", "{}");
    let own = running.client_for_project("p", &[]);
    let mine = own.get("/api/v1/overview").json();
    assert_eq!(texts(&mine["projects"], "name"), ["p"]);
    assert_eq!(mine["projects"][0]["open_reviews"], 1);
    assert_eq!(texts(&mine["forks"], "id"), ["bob"]);
    assert_eq!(mine["forks"][0]["open_reviews"], 1);
    assert_eq!(own.get("/api/v1/overview?project=q").status, 404);
    let alone = running
        .client_for("cyd", &[])
        .get("/api/v1/overview")
        .json();
    assert_eq!(alone, json!({ "projects": [], "forks": [] }));
    // Who may read some paths alone is told of no others.
    let limited = running.client_for_project("q", &["x/**:read"]);
    let told = limited.get("/api/v1/overview").json();
    assert_eq!(told["forks"][0]["last_operation"], Value::Null);
}

#[test]
fn projects_and_forks_are_compared() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project(
        "p",
        &[("a.txt", "one\n"), ("a.txt", "two\n"), ("b.txt", "b\n")],
    );
    let log = client.get("/api/v1/projects/p/snapshots").json();
    let ids = texts(&log["snapshots"], "id");
    let diff = |query: &str| client.get(&format!("/api/v1/projects/p/diff{query}"));
    let newest = diff("").json();
    assert_eq!(texts(&newest["changes"], "path"), ["b.txt"]);
    assert_eq!(
        (&newest["from"], &newest["to"]),
        (&json!(ids[1]), &json!(ids[0]))
    );
    let second = diff(&format!("?to={}", ids[1])).json();
    assert_eq!(texts(&second["changes"], "path"), ["a.txt"]);
    assert_eq!(second["changes"][0]["added_lines"], 1);
    let first = diff(&format!("?to={}", ids[2])).json();
    assert_eq!(first["from"], Value::Null);
    let wide = diff(&format!("?from={}&name_only", ids[2])).json();
    assert_eq!(texts(&wide["changes"], "path"), ["a.txt", "b.txt"]);
    assert_eq!(wide["changes"][0]["diff"], Value::Null);
    assert_eq!(diff("?from=ffffffff").status, 404);
    assert_eq!(diff("?from=x").code(), "invalid_request");
    let limited = running.client_for_project("p", &["b.txt:read"]);
    let seen = limited
        .get(&format!("/api/v1/projects/p/diff?from={}", ids[2]))
        .json();
    assert_eq!(texts(&seen["changes"], "path"), ["b.txt"]);

    client.fork("p", "ada");
    let fork = "/api/v1/workspaces/ada";
    client.put(&format!("{fork}/files/mine.txt"), b"mine\n");
    client.post(&format!("{fork}/snapshots"), "{}");
    client.put("/api/v1/projects/p/files/b.txt", b"changed\n");
    let against = |what: &str| {
        let told = client.get(&format!("{fork}/diff?against={what}"));
        texts(&told.json()["changes"], "path")
    };
    assert_eq!(against("base"), ["mine.txt"]);
    assert_eq!(against("head"), ["b.txt", "mine.txt"]);
    let both = client.get(&format!("{fork}/diff?against=base&from={}", ids[0]));
    assert_eq!(both.code(), "invalid_request");
    assert_eq!(
        client.get(&format!("{fork}/diff?against=up")).code(),
        "invalid_request"
    );
    let alone = running.client_for("ada", &[]);
    assert_eq!(alone.get(&format!("{fork}/diff?against=base")).status, 200);
    assert_eq!(alone.get(&format!("{fork}/diff?against=head")).status, 403);
    client.create("plain");
    let plain = client.get("/api/v1/workspaces/plain/diff?against=base");
    assert_eq!(plain.code(), "invalid_request", "{}", plain.text());
}

#[test]
fn files_are_found_by_name_and_by_content() {
    let (_data, running) = start();
    let client = running.client();
    let files = [
        ("README.md", "Hello\nsecond hello\nhello\n"),
        ("docs/Guide.md", "say hello\n"),
        ("src/a.rs", "fn a() {}\n"),
    ];
    client.create_project("p", &files);
    client.fork("p", "ada");
    client.put("/api/v1/workspaces/ada/files/bin", b"hello\0");
    for place in ["workspace=ada", "project=p"] {
        let search = |query: &str| {
            let reply = client.get(&format!("/api/v1/search?{place}&{query}"));
            assert_eq!(reply.status, 200, "{query} {}", reply.text());
            reply.json()
        };
        let by_name = search("name=gui");
        assert_eq!(by_name["matches"], json!([{ "path": "docs/Guide.md" }]));
        let markdown = search("name=*.MD");
        assert_eq!(
            texts(&markdown["matches"], "path"),
            ["README.md", "docs/Guide.md"]
        );
        let text = search("text=hello");
        assert_eq!(
            text["matches"][0],
            json!({ "path": "README.md", "line": 2, "text": "second hello" })
        );
        assert_eq!(
            texts(&text["matches"], "path"),
            ["README.md", "README.md", "docs/Guide.md"]
        );
        assert_eq!(
            search("text=hello&ignore_case")["matches"]
                .as_array()
                .unwrap()
                .len(),
            4
        );
        assert_eq!(
            texts(&search("text=hello&path=docs/**")["matches"], "path"),
            ["docs/Guide.md"]
        );
        assert_eq!(
            texts(&search("text=hello&name=guide")["matches"], "path"),
            ["docs/Guide.md"]
        );
        // Page by page, also within one file.
        let mut after = String::new();
        let mut lines = Vec::new();
        loop {
            let page = search(&format!("text=hello&ignore_case&limit=1{after}"));
            for found in page["matches"].as_array().unwrap() {
                lines.push(format!(
                    "{}:{}",
                    found["path"].as_str().unwrap(),
                    found["line"]
                ));
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", encode(next.as_bytes())),
                None => break,
            }
        }
        assert_eq!(
            lines,
            [
                "README.md:1",
                "README.md:2",
                "README.md:3",
                "docs/Guide.md:1"
            ]
        );
        for bad in ["", "text=", "text=a&after=x", "text=a&limit=0"] {
            let reply = client.get(&format!("/api/v1/search?{place}&{bad}"));
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, "invalid_request"),
                "{bad}"
            );
        }
    }
    for nowhere in ["", "workspace=ada&project=p&"] {
        let reply = client.get(&format!("/api/v1/search?{nowhere}text=a"));
        assert_eq!(reply.code(), "invalid_request");
    }
    assert_eq!(
        client.get("/api/v1/search?workspace=none&text=a").status,
        404
    );
    // What may not be read is not found.
    let limited = running.client_for("ada", &["docs/**:read"]);
    let seen = limited
        .get("/api/v1/search?workspace=ada&text=hello")
        .json();
    assert_eq!(texts(&seen["matches"], "path"), ["docs/Guide.md"]);
    let names = limited.get("/api/v1/search?workspace=ada&name=e").json();
    assert_eq!(texts(&names["matches"], "path"), ["docs/Guide.md"]);
    assert_eq!(limited.get("/api/v1/search?project=p&name=a").status, 404);
    let limited = running.client_for_project("p", &["docs/**:read"]);
    let names = limited.get("/api/v1/search?project=p&name=e").json();
    assert_eq!(texts(&names["matches"], "path"), ["docs/Guide.md"]);
}

/// One request reads so much and no more, and says where to go on; one that nobody waits for ends.
#[test]
fn a_search_is_bounded_and_ends_when_nobody_waits() {
    let (_data, running) = start();
    let client = running.client();
    client.create("w");
    let path = running
        .engine
        .workspaces
        .hand_out_path(&"w".parse().unwrap())
        .unwrap();
    // One byte less than what is left out for its size, and together more than one request reads.
    let text = "0123456789abcde\n".repeat((4 << 20) / 16 - 1);
    for number in 10..28 {
        std::fs::write(path.join(format!("f{number}")), &text).unwrap();
    }
    std::fs::write(path.join("f99"), "wanted\n").unwrap();
    let of = "/api/v1/search?workspace=w&text=wanted";
    let first = client.get(of).json();
    assert_eq!(
        first["matches"],
        json!([]),
        "the last file is out of reach of the first request"
    );
    let next = encode(first["next"].as_str().unwrap().as_bytes());
    let rest = client.get(&format!("{of}&after={next}")).json();
    assert_eq!(texts(&rest["matches"], "path"), ["f99"]);
    assert_eq!(rest["next"], Value::Null);

    let owner = Principal::owner(Operator::user());
    let access = running.engine.access.acting_as(Arc::new(owner), None);
    let wanted = SearchQuery {
        name: Some("f".to_owned()),
        limit: 100,
        ..SearchQuery::default()
    };
    let asked = Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 3
    };
    let place = SearchScope::Workspace("w".parse().unwrap());
    let found = find(&access, &place, &wanted, &stop).unwrap();
    assert_eq!(found.matches.len(), 3);
}

#[test]
fn a_workspace_says_what_it_is_a_fork_of() {
    let (_data, running) = start();
    let admin = running.client();
    admin.create("alone");
    admin.create_project("p", &[("f", "f\n")]);
    let fork = admin.fork("p", "ada");
    let base = fork["base_snapshot"].clone();
    let fork_of =
        |shown: &Value| ["project", "agent", "base_snapshot"].map(|name| shown[name].clone());
    let shown = admin.get("/api/v1/workspaces/ada").json();
    assert_eq!(fork_of(&shown), [json!("p"), json!("ada"), base]);
    let alone = admin.get("/api/v1/workspaces/alone").json();
    assert_eq!(fork_of(&alone), [Value::Null, Value::Null, Value::Null]);
    let listed = admin.get("/api/v1/workspaces").json();
    assert_eq!(listed["workspaces"], json!([shown, alone]));
    // It moves to a newer head and says so, to its agent too.
    admin.put("/api/v1/projects/p/files/f", b"newer\n");
    let updated = admin.done("/api/v1/workspaces/ada/update", "");
    let moved = running.agent("ada").get("/api/v1/workspaces/ada").json();
    assert_eq!(moved["base_snapshot"], updated["to"]);
    assert_ne!(updated["to"], updated["from"]);
}
