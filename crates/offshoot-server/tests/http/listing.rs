//! Listings by page and trees by depth.

use offshoot_engine::ForkOptions;
use offshoot_testkit::HostDir;

use crate::common::{Client, Running, cause, encode};

fn start() -> (HostDir, Running) {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    (data, running)
}

/// The names of every page, one text for each page.
fn pages(client: &Client, of: &str) -> Vec<String> {
    let (mut pages, mut totals) = (Vec::new(), Vec::new());
    let mut after = String::new();
    loop {
        let reply = client.get(&format!("{of}{after}"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let page = reply.json();
        // The same on every page, and no more than what is shown in the end.
        totals.push(page["total"].as_u64().unwrap() as usize);
        let names = page["entries"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|entry| entry["name"].as_str().unwrap()).collect();
        pages.push(names.join(" "));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", encode(next.as_bytes())),
            None => break,
        }
    }
    let shown = pages.iter().flat_map(|page| page.split(' ')).count();
    assert_eq!(totals, vec![shown; pages.len()]);
    pages
}

#[test]
fn listings_come_by_page_on_disk_and_in_the_store() {
    let (_data, running) = start();
    let admin = running.client();
    let files = [("d/a", "1"), ("d/b", "333"), ("d/c/x", ""), ("d/e", "22")];
    admin.create_project("p", &files);
    let on_disk = admin.fork("p", "ada");
    assert_eq!(on_disk["materialized"], true);
    // Whose path nobody asked for, that is in the store alone.
    let stored = running
        .engine
        .forks
        .fork(&"p".parse().unwrap(), &ForkOptions::default(), &cause())
        .unwrap();
    assert!(!stored.workspace.materialized);
    let stored = stored.workspace.id.to_string();
    for fork in [on_disk["id"].as_str().unwrap(), &stored] {
        let of = format!("/api/v1/workspaces/{fork}");
        let list = |query: &str| pages(&admin, &format!("{of}/list?path=d&{query}"));
        assert_eq!(list(""), ["a b c e"]);
        assert_eq!(list("limit=3"), ["a b c", "e"]);
        assert_eq!(list("limit=2&dirs_first"), ["c a", "b e"]);
        assert_eq!(list("limit=2&sort=size&descending"), ["b e", "a c"]);
        assert_eq!(list("limit=2&sort=modified").concat().len(), 6);
        let after = admin
            .get(&format!("{of}/list?path=d&limit=1&after=b"))
            .json();
        assert_eq!(after["entries"][0]["name"], "c");
        for bad in [
            "sort=colour",
            "limit=0",
            "sort=size&after=b",
            "limit=x",
            "at=0123abcd",
        ] {
            let reply = admin.get(&format!("{of}/list?path=d&{bad}"));
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, "invalid_request"),
                "{bad}"
            );
        }
        let tree = admin.get(&format!("{of}/tree?depth=1")).json();
        assert_eq!(tree["children"][0]["path"], "d");
        assert!(
            tree["children"][0]["children"]
                .as_array()
                .unwrap()
                .is_empty()
        );
        let tree = admin.get(&format!("{of}/tree?path=d")).json();
        assert_eq!(
            (&tree["path"], &tree["children"][0]["path"]),
            (&"d".into(), &"d/c".into())
        );
        let none = admin.get(&format!("{of}/tree?path=d/a"));
        assert_eq!(none.code(), "not_a_directory");
        assert_eq!(admin.get(&format!("{of}/tree?path=q")).status, 404);
    }
}

#[test]
fn a_page_leaves_out_what_a_token_does_not_see_before_it_counts() {
    let (_data, running) = start();
    let client = running.client();
    client.create("w");
    for name in ["a", "b/x", "c", "d"] {
        client.put(&format!("/api/v1/workspaces/w/files/{name}"), b"1");
    }
    let limited = running.client_for("w", &["b/**:read", "d:read"]);
    let of = "/api/v1/workspaces/w/list?limit=1";
    assert_eq!(pages(&limited, of), ["b", "d"]);
    let refused = limited.get("/api/v1/workspaces/w/tree?path=a");
    assert_eq!(refused.status, 403, "{}", refused.text());
}

#[test]
fn a_file_is_read_as_it_was_at_a_version() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[("base.txt", "from the base")]);
    let fork = client.fork("p", "ada");
    let of = format!("/api/v1/workspaces/{}/files", fork["id"].as_str().unwrap());
    let written = |path: &str, text: &str| {
        let reply = client.put(&format!("{of}/{path}"), text.as_bytes());
        reply.json()["version"].as_i64().unwrap()
    };
    let first = written("a.txt", "one");
    let second = written("a.txt", "two");
    let based = written("base.txt", "changed");
    let deleted = client.delete(&format!("{of}/a.txt")).json();
    assert_eq!(deleted["version"], based + 1, "{deleted}");
    assert_eq!(client.get(&format!("{of}/a.txt")).status, 404);
    let at = |path: &str, version: i64| client.get(&format!("{of}/{path}?version={version}"));
    assert_eq!(at("a.txt", first).text(), "one");
    assert_eq!(at("a.txt", second).text(), "two");
    // Undo of the deletion: what was there in the version before.
    assert_eq!(at("a.txt", based).text(), "two");
    assert_eq!(at("base.txt", second).text(), "from the base");
    assert_eq!(at("base.txt", based).text(), "changed");
    let gone = at("a.txt", based + 1);
    assert_eq!((gone.status, gone.code().as_str()), (404, "file_not_found"));
    assert_eq!(at("a.txt", first - 1).status, 404);
    assert_eq!(at("never.txt", second).status, 404);
    assert_eq!(at("a.txt", 9999).code(), "invalid_request");
    let both = client.get(&format!("{of}/a.txt?version=1&at=abcd"));
    assert_eq!(both.code(), "invalid_request");
    // A directory goes in one version, and an outside change to it is recorded before that.
    written("d/in", "recorded");
    let dir = std::path::PathBuf::from(fork["path"].as_str().unwrap());
    std::fs::write(dir.join("d/in"), "by an outside program").unwrap();
    let deleted = client.delete(&format!("{of}/d?recursive")).json();
    let version = deleted["version"].as_i64().unwrap();
    assert_eq!(at("d/in", version).status, 404);
    assert_eq!(at("d/in", version - 1).text(), "by an outside program");
    // It is a file like any other: tags and ranges hold.
    let part = client.send(
        "GET",
        format!("{of}/a.txt?version={second}").as_bytes(),
        &[("Range", "bytes=1-")],
        b"",
    );
    assert_eq!((part.status, part.text().as_str()), (206, "wo"));
    let stranger = running.client_for(fork["id"].as_str().unwrap(), &["b/**:read"]);
    let refused = stranger.get(&format!("{of}/a.txt?version={first}"));
    assert_eq!(refused.status, 403);
}

#[test]
fn the_older_listing_and_changes_come_by_page_too() {
    let (_data, running) = start();
    let client = running.client();
    client.create("w");
    for name in ["a", "b", "c"] {
        let put = client.put(&format!("/api/v1/workspaces/w/files/{name}"), b"x");
        assert_eq!(put.status, 201, "{}", put.text());
    }
    let page = client.get("/api/workspace/w/list?limit=2").json();
    assert_eq!(page["entries"].as_array().unwrap().len(), 2);
    assert_eq!(page["next"], "b");
    let rest = client.get("/api/workspace/w/list?after=b").json();
    assert_eq!(rest["entries"][0]["name"], "c");
    assert!(rest.get("next").is_none(), "{rest}");

    let of = "/api/v1/workspaces/w/changes";
    let first = client.get(&format!("{of}?limit=2")).json();
    let paths = |part: &serde_json::Value| -> Vec<String> {
        let changes = part["changes"].as_array().unwrap().iter();
        changes
            .map(|one| one["path"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(paths(&first), ["a", "b"]);
    assert_eq!(
        (&first["next"], &first["total"]["changes"]),
        (&"b".into(), &3.into())
    );
    let rest = client.get(&format!("{of}?limit=2&after=b")).json();
    assert_eq!(paths(&rest), ["c"]);
    assert!(rest.get("next").is_none(), "{rest}");
    assert_eq!(paths(&client.get(of).json()), ["a", "b", "c"]);
    assert_eq!(client.get(&format!("{of}?limit=0")).status, 400);
}
