//! Raw content: entity tags, conditions, ranges, and what a browser is told about it.

use crate::common;
use crate::common::{Reply, Running, Stream};

const FILE: &str = "/api/v1/workspaces/w/files/dir/a.txt";

fn start() -> (offshoot_testkit::HostDir, Running) {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    running.client().create("w");
    (data, running)
}

fn with(running: &Running, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    running
        .client()
        .send(method, FILE.as_bytes(), headers, body)
}

#[test]
fn content_comes_back_with_its_tag_and_nothing_may_act() {
    let (_data, running) = start();
    let client = running.client();
    let put = client.put(FILE, b"hello\n");
    assert_eq!((put.status, put.json()["version"].as_i64()), (201, Some(2)));
    // The tag is git's id of the content.
    let tag = "\"ce013625030ba8dba906f756967f9e9ca394464a\"";
    assert_eq!(put.header("etag"), Some(tag));
    let get = client.get(FILE);
    assert_eq!((get.status, get.text().as_str()), (200, "hello\n"));
    assert_eq!(get.header("etag"), Some(tag));
    assert_eq!(
        get.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert!(
        get.header("content-security-policy")
            .unwrap()
            .starts_with("sandbox;")
    );
    assert_eq!(get.header("x-content-type-options"), Some("nosniff"));
    assert!(
        get.header("content-disposition")
            .unwrap()
            .starts_with("attachment;")
    );
    let preview = client.get(&format!("{FILE}?preview=true"));
    assert!(
        preview
            .header("content-disposition")
            .unwrap()
            .starts_with("inline;")
    );
    assert!(
        preview
            .header("content-security-policy")
            .unwrap()
            .starts_with("sandbox;")
    );
    let head = with(&running, "HEAD", &[], b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("6"))
    );
    assert_eq!(head.header("etag"), Some(tag));
}

#[test]
fn conditions_are_kept() {
    let (_data, running) = start();
    let first = running.client().put(FILE, b"one");
    let tag = first.header("etag").unwrap().to_owned();
    let weak = format!("W/{tag}");
    let list = format!("\"x\", {tag}");
    let status = |method, name, value: &str, body: &[u8]| {
        with(&running, method, &[(name, value)], body).status
    };
    assert_eq!(status("GET", "If-None-Match", &tag, b""), 304);
    assert_eq!(status("GET", "If-None-Match", &weak, b""), 304);
    assert_eq!(status("GET", "If-None-Match", "*", b""), 304);
    assert_eq!(status("GET", "If-None-Match", "\"x\"", b""), 200);
    assert_eq!(status("GET", "If-Match", &tag, b""), 200);
    assert_eq!(status("GET", "If-Match", &weak, b""), 412);
    assert_eq!(status("GET", "If-Match", "nonsense", b""), 400);
    assert_eq!(status("PUT", "If-None-Match", "*", b"no"), 412);
    assert_eq!(status("PUT", "If-Match", "\"x\"", b"no"), 412);
    assert_eq!(status("PUT", "If-Match", &weak, b"no"), 412);
    assert_eq!(running.client().get(FILE).text(), "one");
    assert_eq!(status("PUT", "If-Match", &list, b"two"), 200);
    let refused = with(&running, "PUT", &[("If-Match", &tag)], b"three");
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (412, "precondition_failed")
    );
    assert_eq!(status("PUT", "If-Match", "*", b"three"), 200);
    assert_eq!(status("DELETE", "If-Match", &tag, b""), 412);
    let now = running
        .client()
        .get(FILE)
        .header("etag")
        .unwrap()
        .to_owned();
    assert_eq!(status("DELETE", "If-Match", &now, b""), 200);
    assert_eq!(status("PUT", "If-Match", "*", b"four"), 412);
    assert_eq!(status("PUT", "If-None-Match", "*", b"four"), 201);
}

#[test]
fn a_history_is_read_page_by_page() {
    let (_data, running) = start();
    for number in 0..5 {
        running.client().put(FILE, &[number]);
    }
    let page = |after: &str| {
        let target = format!("/api/v1/workspaces/w/history?limit=2{after}");
        let page = running.client().get(&target).json();
        let seqs = page["history"].as_array().unwrap().iter();
        let seqs: Vec<i64> = seqs.map(|line| line["seq"].as_i64().unwrap()).collect();
        (seqs, page["next"].as_i64())
    };
    let (mut all, mut next) = page("");
    while let Some(after) = next {
        let (seqs, further) = page(&format!("&after={after}"));
        all.extend(seqs);
        next = further;
    }
    assert!(all.is_sorted_by(|newer, older| newer > older), "{all:?}");
    let whole = running.client().get("/api/v1/workspaces/w/history");
    let count = whole.json()["history"].as_array().unwrap().len();
    assert!(all.len() == count && count >= 5, "{all:?}");
    assert!(whole.json().get("next").is_none());
}

#[test]
fn a_browser_never_takes_a_file_for_a_part_of_a_page() {
    let (_data, running) = start();
    let tag = running.client().put(FILE, b"alert(1)");
    let tag = tag.header("etag").unwrap().to_owned();
    for wanted in ["empty", "document", "iframe", "image"] {
        let reply = with(&running, "GET", &[("Sec-Fetch-Dest", wanted)], b"");
        assert_eq!(reply.status, 200, "{wanted}");
    }
    for wanted in ["script", "style", "worker", "serviceworker", "object", "x"] {
        let headers = [("Sec-Fetch-Dest", wanted), ("If-None-Match", &tag)];
        let reply = with(&running, "GET", &headers, b"");
        let got = (reply.status, reply.code());
        assert_eq!(got, (403, "permission_denied".to_owned()), "{wanted}");
    }
    // What a browser has of a file is kept as safe as it was when it is told that it still holds.
    let whole = with(&running, "GET", &[], b"");
    let same = with(&running, "GET", &[("If-None-Match", &tag)], b"");
    assert_eq!((whole.status, same.status), (200, 304));
    for name in [
        "content-security-policy",
        "content-type",
        "content-disposition",
        "x-content-type-options",
    ] {
        assert_eq!(same.header(name), whole.header(name), "{name}");
    }
}

#[test]
fn ranges_are_exact() {
    let (_data, running) = start();
    let content: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let put = running.client().put(FILE, &content);
    let tag = put.header("etag").unwrap().to_owned();
    let range = |value: &str| with(&running, "GET", &[("Range", value)], b"");
    for (value, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        ("bytes=199999-", 199_999, 200_000),
        ("bytes=-5", 199_995, 200_000),
        ("bytes=1000-900000", 1000, 200_000),
        ("bytes=70000-150000", 70_000, 150_001),
    ] {
        let part = range(value);
        assert_eq!(
            (part.status, &part.body[..]),
            (206, &content[from..to]),
            "{value}"
        );
        let expected = format!("bytes {from}-{}/200000", to - 1);
        assert_eq!(part.header("content-range"), Some(expected.as_str()));
        assert_eq!(part.header("etag"), Some(tag.as_str()));
    }
    let beyond = range("bytes=200000-");
    assert_eq!(
        (beyond.status, beyond.header("content-range")),
        (416, Some("bytes */200000"))
    );
    assert_eq!(beyond.code(), "invalid_request");
    for ignored in ["bytes=5-1", "lines=0-1", "bytes=0-1,4-5", "nonsense"] {
        assert_eq!(range(ignored).body, content, "{ignored}");
    }
    let conditional = |tag: &str| {
        let headers = [("Range", "bytes=0-9"), ("If-Range", tag)];
        with(&running, "GET", &headers, b"").status
    };
    assert_eq!((conditional(&tag), conditional("\"old\"")), (206, 200));
}

#[test]
fn bodies_of_unknown_length_and_broken_ones() {
    use std::io::Write as _;
    let (_data, running) = start();
    let client = running.client();
    let mut stream = client.connect();
    let mut request = client.head("PUT", FILE.as_bytes(), &[("Transfer-Encoding", "chunked")]);
    request.extend_from_slice(b"\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
    stream.write_all(&request).unwrap();
    assert_eq!(common::read_reply(&mut stream, false).status, 201);
    assert_eq!(client.get(FILE).text(), "abcdefg");
    // A body that breaks off changes nothing.
    let route = "/api/v1/workspaces/{workspace}/files/{*path}";
    let before = running.answered("PUT", route);
    for length in ["100", "5000000"] {
        let mut stream = client.connect();
        let mut request = client.head("PUT", FILE.as_bytes(), &[("Content-Length", length)]);
        request.extend_from_slice(b"\r\nonly this");
        stream.write_all(&request).unwrap();
        drop(stream);
    }
    // The server has done with both, whatever it made of them.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while running.answered("PUT", route) < before + 2 || running.in_flight() > 0 {
        assert!(std::time::Instant::now() < deadline, "a request goes on");
        std::thread::yield_now();
    }
    assert_eq!(client.get(FILE).text(), "abcdefg");
    assert_eq!(
        client.get("/api/v1/workspaces/w/history").json()["history"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn limits_answer_with_their_code() {
    let data = offshoot_testkit::HostDir::new();
    let mut options = common::options();
    options.limits.max_body_bytes = 2 << 20;
    options.limits.max_json_bytes = 100;
    let running = Running::start_with(data.path(), options);
    let client = running.client();
    client.create("w");
    client.put(FILE, b"before");
    let large = client.put(FILE, &vec![7; 3 << 20]);
    assert_eq!(
        (large.status, large.code().as_str()),
        (413, "payload_too_large")
    );
    assert_eq!(client.get(FILE).text(), "before");
    let long = format!("{{\"path\":\"{}\"}}", "x".repeat(200));
    let json = client.post("/api/v1/workspaces/w/mkdir", &long);
    assert_eq!(
        (json.status, json.code().as_str()),
        (413, "payload_too_large")
    );
    let quota = client.send("PUT", b"/api/v1/workspaces/w/quota", &[], b"{\"bytes\":10}");
    assert_eq!(quota.status, 200, "{}", quota.text());
    let over = client.put(FILE, b"more than ten bytes");
    assert_eq!((over.status, over.code().as_str()), (507, "quota_exceeded"));
    assert_eq!(client.get(FILE).text(), "before");
}

#[test]
fn the_life_of_a_workspace() {
    let (_data, running) = start();
    let client = running.client();
    let of = |rest: &str| format!("/api/v1/workspaces/w/{rest}");
    client.put(&of("files/a/b"), b"1");
    let taken = client.post(&of("snapshots"), r#"{"label":"first"}"#);
    assert_eq!(taken.status, 201);
    let snapshot = taken.json()["id"].as_str().unwrap().to_owned();
    client.put(&of("files/a/b"), b"2");
    client.post(&of("mkdir"), r#"{"path":"empty"}"#);
    assert_eq!(
        client.get(&of("changes")).json()["changes"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let diff = client.get(&of(&format!("diff?from={snapshot}"))).json();
    assert!(
        diff["changes"][0]["diff"].as_str().unwrap().contains("+2"),
        "{diff}"
    );
    assert_eq!(
        client.get(&of(&format!("files/a/b?at={snapshot}"))).text(),
        "1"
    );
    let unknown = client.get(&of("files/a/b?at=0123456789"));
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "snapshot_not_found")
    );
    let unknown = client.post(&of("restore"), r#"{"snapshot":"0123456789"}"#);
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (400, "snapshot_not_found")
    );
    let restored = client.post(&of("restore"), &format!("{{\"snapshot\":\"{snapshot}\"}}"));
    assert!(
        restored.json()["kept_snapshot"].is_string(),
        "{}",
        restored.text()
    );
    assert_eq!(client.get(&of("files/a/b")).text(), "1");
    let moved = client.post(&of("move"), r#"{"from":"a/b","to":"c/d"}"#);
    assert_eq!(moved.json()["to"], "c/d");
    assert_eq!(
        client
            .post(&of("move"), r#"{"from":"c/d","to":"c/d"}"#)
            .status,
        400
    );
    let tree = client.get(&of("tree")).json();
    assert_eq!(tree["children"].as_array().unwrap().len(), 2, "{tree}");
    let metadata = client.get(&of("metadata/c/d")).json();
    assert_eq!(
        (metadata["size"].as_i64(), metadata["type"].as_str()),
        (Some(1), Some("file"))
    );
    assert_eq!(client.get(&of("info")).json()["file_count"], 1);
    for made_up in [".meta/.meta", ".meta/c/d"] {
        let reply = client.get(&of(&format!("files/{made_up}")));
        let kind = reply.header("content-type").unwrap();
        assert!(kind.starts_with("application/json"), "{made_up} {kind}");
        reply.json();
    }
    let recursive = client.delete(&of("files/c"));
    assert_eq!(
        (recursive.status, recursive.code().as_str()),
        (400, "is_a_directory")
    );
    assert_eq!(
        client.delete(&of("files/c?recursive=true")).json()["files"],
        1
    );
    let deleted = client.delete("/api/v1/workspaces/w");
    assert!(deleted.json()["kept_snapshot"].is_string());
    assert_eq!(
        client.get("/api/v1/workspaces/w").code(),
        "workspace_not_found"
    );
}

#[test]
fn lists_page_and_a_key_creates_once() {
    let (_data, running) = start();
    let client = running.client();
    for id in ["a", "b", "c"] {
        client.create(id);
    }
    let ids = |target: &str| {
        let list = client.get(target).json();
        let list = list["workspaces"].as_array().unwrap().clone();
        list.iter()
            .map(|w| w["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("/api/v1/workspaces?limit=2"), ["a", "b"]);
    assert_eq!(ids("/api/v1/workspaces?limit=2&after=b"), ["c", "w"]);
    let key = [("Idempotency-Key", "k1")];
    let first = client.send("POST", b"/api/v1/workspaces", &key, b"{}");
    let again = client.send("POST", b"/api/v1/workspaces", &key, b"{}");
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let taken = client.post("/api/v1/workspaces", r#"{"id":"a"}"#);
    assert_eq!(
        (taken.status, taken.code().as_str()),
        (409, "already_exists")
    );
}

#[test]
fn who_and_why_are_recorded() {
    let (_data, running) = start();
    let agent = running.agent("w");
    let headers = [("Offshoot-Message-Id", "m-7")];
    agent.send("PUT", FILE.as_bytes(), &headers, b"x");
    let history = running
        .client()
        .get("/api/v1/workspaces/w/history?limit=1")
        .json();
    let line = &history["history"][0];
    assert_eq!(
        (line["operator"].as_str(), line["message_id"].as_str()),
        (Some("w"), Some("m-7"))
    );
    let mut stream = Stream::open(&agent, "/api/v1/events?since=0", &[]);
    assert_eq!(stream.next().unwrap().2["op"], "workspace_create");
}

#[test]
fn older_routes_answer() {
    let (_data, running) = start();
    let client = running.client();
    client.put(FILE, "äbcdef".as_bytes());
    let window = client
        .get("/api/workspace/w/read/dir/a.txt?offset=1&length=3")
        .json();
    assert_eq!(
        (window["content"].as_str(), window["total"].as_i64()),
        (Some("bcd"), Some(6))
    );
    assert_eq!(window["readLength"], 3);
    assert_eq!(
        client.get("/api/workspace/w/list?path=dir").json()["entries"][0]["name"],
        "a.txt"
    );
    assert_eq!(client.get("/api/workspace/w/tree").status, 200);
    let (kind, body) = common::form(b"data.csv", b"a,b\n1,2\n");
    let headers = [("Content-Type", kind.as_str())];
    let once = client.send("POST", b"/api/workspace/w/upload", &headers, &body);
    assert_eq!(
        once.json()["fileRef"],
        "workspace:upload/data.csv",
        "{}",
        once.text()
    );
    let agent = running.agent("w");
    let twice = agent.send("POST", b"/api/upload", &headers, &body);
    assert_eq!(twice.json()["fileRef"], "workspace:upload/data (1).csv");
    assert_eq!(
        client.delete("/api/workspace/w/delete/dir/a.txt").status,
        200
    );
    assert_eq!(client.post("/api/workspace/w/sync", "").status, 200);
}

#[test]
fn a_window_is_never_larger_than_it_may_be() {
    let (_data, running) = start();
    let client = running.client();
    client.put(
        "/api/v1/workspaces/w/files/long",
        "é".repeat(6000).as_bytes(),
    );
    let read = |query: &str| {
        client
            .get(&format!("/api/workspace/w/read/long?{query}"))
            .json()
    };
    for query in ["", "length=5001", "length=18446744073709551615"] {
        let window = read(query);
        assert_eq!(window["content"].as_str().unwrap().chars().count(), 5000);
        assert_eq!(
            (window["readLength"].as_i64(), window["total"].as_i64()),
            (Some(5000), Some(6000)),
            "{query}"
        );
    }
    assert_eq!(read("offset=5999&length=5000")["content"], "é");
    assert_eq!(read("offset=7000")["readLength"], 0);
    let bad = client.get("/api/workspace/w/read/long?length=-1");
    assert_eq!(bad.code(), "invalid_request");
}

#[test]
fn conditions_may_name_several_tags() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[("a.txt", "one")]);
    for target in [
        "/api/v1/workspaces/w/files/a.txt",
        "/api/v1/projects/p/files/a.txt",
    ] {
        client.put(target, b"one");
        let tag = client.get(target).header("etag").unwrap().to_owned();
        let other = format!("\"{}\"", "0".repeat(40));
        let put = |condition: &str, body: &[u8]| {
            client.send("PUT", target.as_bytes(), &[("If-Match", condition)], body)
        };
        // A weak tag never matches, whatever it says.
        for (condition, status) in [
            (format!("W/{tag}"), 412),
            (format!("{other}, W/{tag}"), 412),
            (format!("{other}, \"x\""), 412),
            ("\"a,b\"".to_owned(), 412),
            (tag.replace('"', ""), 400),
            (String::new(), 400),
            (format!("\"foreign, with a comma\", {other},, {tag}"), 200),
        ] {
            let reply = put(&condition, b"one");
            assert_eq!(reply.status, status, "{condition}: {}", reply.text());
        }
        assert_eq!(put("*", b"two").status, 200);
        let read = client.send("GET", target.as_bytes(), &[("If-Match", &tag)], b"");
        assert_eq!(read.status, 412);
        let new = client.get(target).header("etag").unwrap().to_owned();
        let both = format!("{tag} , {new}");
        let read = client.send("GET", target.as_bytes(), &[("If-Match", &both)], b"");
        assert_eq!((read.status, read.text().as_str()), (200, "two"));
    }
    let gone = "/api/v1/workspaces/w/files/none.txt";
    let any = client.send("PUT", gone.as_bytes(), &[("If-Match", "*")], b"x");
    assert_eq!(any.status, 412, "nothing is there");
}
