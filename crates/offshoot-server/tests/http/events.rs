//! Live events: each once and in order, across a restart, by whichever process wrote them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::{Client, Running, Stream, cause};
use offshoot_core::RelPath;
use offshoot_engine::{Content, Engine, EngineOptions, WriteOptions};
use offshoot_testkit::{soak, wait_until};

/// Follows until `last` has been seen, connecting again wherever it broke off.
fn follow(address: &std::sync::Mutex<Client>, total: usize) -> Vec<String> {
    let mut seen = Vec::new();
    let mut cursor = 0;
    let deadline = Instant::now() + Duration::from_secs(240);
    while seen.len() < total {
        assert!(Instant::now() < deadline, "only {} of {total}", seen.len());
        let client = address.lock().unwrap().clone();
        let Ok(stream) = std::panic::catch_unwind(|| {
            let last = cursor.to_string();
            Stream::open(&client, "/api/v1/events", &[("Last-Event-ID", &last)])
        }) else {
            // The server is just being restarted.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let mut stream = stream;
        while seen.len() < total
            && let Some((id, name, data)) = stream.next()
        {
            assert_eq!(name, "change", "a stream was sent back");
            assert!(id > cursor, "{id} after {cursor}");
            cursor = id;
            if data["op"] == "create" {
                seen.push(data["path"].as_str().unwrap().to_owned());
            }
        }
    }
    seen
}

#[test]
fn every_client_sees_every_event_once_and_in_order_across_a_restart() {
    let (clients, writes) = if soak() { (200, 1000) } else { (24, 120) };
    let data = offshoot_testkit::HostDir::new();
    let mut running = Running::start(data.path());
    running.client().create("w");
    let address = Arc::new(std::sync::Mutex::new(running.client()));
    let written = Arc::new(AtomicUsize::new(0));
    let followers: Vec<_> = (0..clients)
        .map(|_| {
            let address = address.clone();
            std::thread::spawn(move || follow(&address, writes))
        })
        .collect();
    // Half of the writes come through the server, half through an engine of their own, as other
    // processes have it.
    let beside = {
        let (path, written) = (data.path().to_owned(), written.clone());
        std::thread::spawn(move || {
            let engine = Engine::open(EngineOptions::new(path)).unwrap();
            let id = "w".parse().unwrap();
            for n in 0..writes / 2 {
                let path = RelPath::parse(format!("beside/{n}").as_bytes()).unwrap();
                let content = Content::Bytes(b"x");
                engine
                    .workspaces
                    .write_file(&id, &path, content, &WriteOptions::default(), &cause())
                    .unwrap();
                written.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    for n in 0..writes - writes / 2 {
        if n == writes / 4 {
            running.stop();
            drop(running);
            running = Running::start(data.path());
            *address.lock().unwrap() = running.client();
        }
        let reply = running
            .client()
            .put(&format!("/api/v1/workspaces/w/files/served/{n}"), b"x");
        assert_eq!(reply.status, 201);
        written.fetch_add(1, Ordering::Relaxed);
    }
    beside.join().unwrap();
    let all: Vec<Vec<String>> = followers.into_iter().map(|f| f.join().unwrap()).collect();
    let first = &all[0];
    let mut sorted = first.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(
        sorted.len(),
        writes,
        "an event was seen twice or not at all"
    );
    assert!(
        all.iter().all(|seen| seen == first),
        "clients saw different orders"
    );
    println!("soak: events {clients} clients {writes} writes");
}

#[test]
fn streams_begin_where_they_are_asked_to() {
    let data = offshoot_testkit::HostDir::new();
    let mut options = common::options();
    options.limits.max_event_backlog = 3;
    options.limits.heartbeat = Duration::from_millis(100);
    let running = Running::start_with(data.path(), options);
    let client = running.client();
    client.create("w");
    client.create("v");
    client.put("/api/v1/workspaces/w/files/a", b"1");
    client.put("/api/v1/workspaces/w/files/b", b"1");
    client.put("/api/v1/workspaces/w/files/c", b"1");
    // Too far back, or from a future that does not exist.
    for since in ["0", "99", "-1"] {
        let mut stream = Stream::open(&client, &format!("/api/v1/events?since={since}"), &[]);
        let (id, name, data) = stream.next().unwrap();
        assert_eq!(
            (name.as_str(), data["seq"].as_i64()),
            ("reset", Some(id)),
            "{since}"
        );
    }
    let mut stream = Stream::open(&client, "/api/v1/events?since=3&workspace=w", &[]);
    assert_eq!(stream.next().unwrap().2["path"], "b");
    // The header of a client that comes back goes before the URL it began with.
    let header = [("Last-Event-ID", "4")];
    let mut stream = Stream::open(&client, "/api/v1/events?since=2", &header);
    assert_eq!(stream.next().unwrap().2["path"], "c");
    let mut filtered = Stream::open(&client, "/api/v1/events?workspace=v", &[]);
    client.put("/api/v1/workspaces/w/files/d", b"1");
    client.put("/api/v1/workspaces/v/files/e", b"1");
    assert_eq!(filtered.next().unwrap().2["path"], "e");
    for (bad, code) in [("since=x", 400), ("workspace=..", 400), ("project=p", 404)] {
        assert_eq!(
            client.get(&format!("/api/v1/events?{bad}")).status,
            code,
            "{bad}"
        );
    }
}

#[test]
fn outside_changes_arrive_within_a_second() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    client.create("w");
    let path = client.get("/api/v1/workspaces/w/path").json();
    let dir = std::path::PathBuf::from(path["path"].as_str().unwrap());
    wait_until("the workspace is watched", || {
        running.metric("workspaces_watched") == 1
    });
    let mut stream = Stream::open(&client, "/api/v1/events?workspace=w", &[]);
    stream.set_timeout(Duration::from_secs(5));
    std::fs::create_dir(dir.join("sub")).unwrap();
    std::fs::write(dir.join("sub/outside.txt"), "made outside").unwrap();
    let began = Instant::now();
    let mut paths = Vec::new();
    while paths.len() < 2 {
        let (_, _, event) = stream.next().expect("no event of the outside change");
        assert_eq!(
            (event["operator"].as_str(), event["via"].as_str()),
            (Some("outside"), Some("sync"))
        );
        paths.push(event["path"].as_str().unwrap().to_owned());
    }
    println!("soak: outside change after {:?}", began.elapsed());
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(paths, ["sub", "sub/outside.txt"]);
    let watching = client.get("/api/v1/capabilities").json();
    assert_eq!(watching["outside_changes"], "watching");
}

#[test]
fn where_watches_run_out_changes_still_arrive() {
    let data = offshoot_testkit::HostDir::new();
    let mut options = common::options();
    options.limits.max_watches = 1;
    let running = Running::start_with(data.path(), options);
    let client = running.client();
    client.create("w");
    client.post("/api/v1/workspaces/w/mkdir", r#"{"path":"d"}"#);
    let path = client.get("/api/v1/workspaces/w/path").json();
    let dir = std::path::PathBuf::from(path["path"].as_str().unwrap());
    wait_until("no watch is left for the workspace", || {
        running.metric("workspaces_unwatched") == 1
    });
    let mut stream = Stream::open(&client, "/api/v1/events?workspace=w", &[]);
    std::fs::write(dir.join("d/outside.txt"), "made outside").unwrap();
    stream.set_timeout(Duration::from_secs(12));
    assert_eq!(
        stream.next().expect("no fallback").2["path"],
        "d/outside.txt"
    );
    let capabilities = client.get("/api/v1/capabilities").json();
    assert_eq!(capabilities["outside_changes"], "syncing");
}

#[test]
fn a_stop_does_not_wait_for_idle_streams() {
    let data = offshoot_testkit::HostDir::new();
    let mut running = Running::start(data.path());
    let client = running.client();
    let mut streams: Vec<Stream> = (0..20)
        .map(|_| Stream::open(&client, "/api/v1/events", &[]))
        .collect();
    let mut idle = client.connect();
    client.send_on(&mut idle, "GET", b"/healthz", &[], b"", false);
    let began = Instant::now();
    running.stop();
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    assert!(streams.iter_mut().all(|stream| stream.next().is_none()));
}

/// What an agent shows reaches everybody who looks at its workspace, over HTTP and MCP, after the
/// changes before it, and nobody else.
#[test]
fn what_an_agent_shows_reaches_those_who_may_see_it() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let admin = running.client();
    for project in ["p", "q"] {
        admin.create_project(project, &[("a.txt", "a\n"), ("secret/b.txt", "b\n")]);
    }
    admin.fork("p", "ada");
    admin.fork("q", "eve");
    let agent = running.agent("ada");
    let open =
        |client: &Client, query: &str| Stream::open(client, &format!("/api/v1/events{query}"), &[]);
    let of_project = running.client_for_project("p", &[]);
    let mut sees: Vec<Stream> = vec![
        open(&admin, ""),
        open(&admin, "?project=p"),
        open(&admin, "?workspace=ada"),
        open(&of_project, ""),
        open(&agent, ""),
    ];
    let mut limited = open(&running.client_for_project("p", &["a.txt:read"]), "");
    let mut others: Vec<Stream> = vec![
        open(&running.client_for_project("q", &[]), ""),
        open(&running.agent("eve"), ""),
        open(&admin, "?project=q"),
        open(&admin, "?workspace=eve"),
        open(&running.client_for_project("p", &["none/**:read"]), ""),
    ];
    // Through the tools of the API, right after a write that it is about.
    let put = agent.put("/api/v1/workspaces/ada/files/a.txt", b"new\n");
    assert_eq!(put.status, 200, "{}", put.text());
    let body = r#"{"paths":["a.txt","secret/b.txt"]}"#;
    let headers = [("Offshoot-Message-Id", "m-7")];
    let shown = agent.send(
        "POST",
        b"/api/v1/tools/show_files",
        &headers,
        body.as_bytes(),
    );
    assert_eq!(shown.status, 200, "{}", shown.text());
    let next = |stream: &mut Stream| {
        let (id, name, data) = stream.next().expect("nothing came");
        assert_eq!((id > 0, name.as_str()), (true, "change"), "{data}");
        assert_eq!(data["path"], "a.txt");
        let (id, name, data) = stream.next().expect("nothing was shown");
        assert_eq!((id, name.as_str()), (0, "show"));
        data
    };
    let mut told = serde_json::json!({
        "workspace": "ada", "project": "p", "paths": ["a.txt", "secret/b.txt"],
        "operator": "ada", "message_id": "m-7",
    });
    for stream in &mut sees {
        assert_eq!(next(stream), told);
    }
    told["paths"] = serde_json::json!(["a.txt"]);
    assert_eq!(next(&mut limited), told);
    // Over MCP, and what is refused is shown to nobody.
    let arguments = |path: &str| serde_json::json!({ "paths": [path] });
    let none = serde_json::json!({});
    crate::mcp::call(&agent, "show_files", arguments("missing"), none.clone());
    crate::mcp::call(&agent, "show_files", arguments("a.txt"), none);
    for stream in &mut sees {
        let (id, name, data) = stream.next().expect("nothing was shown");
        assert_eq!((id, name.as_str()), (0, "show"));
        assert_eq!(data["paths"], serde_json::json!(["a.txt"]));
    }
    // The first that the others hear of is something of their own.
    admin.put("/api/v1/workspaces/eve/files/none/x", b"x");
    admin.put("/api/v1/workspaces/ada/files/none/x", b"x");
    for stream in &mut others {
        let (_, name, data) = stream.next().expect("nothing came");
        assert_eq!(name, "change", "{data}");
        assert_eq!(
            data["path"].as_str().unwrap().split('/').next(),
            Some("none")
        );
    }
}

/// A stream that takes nothing costs no memory for what is shown meanwhile, and goes on afterwards.
#[test]
fn a_stream_that_does_not_keep_up_misses_what_is_shown() {
    let data = offshoot_testkit::HostDir::new();
    let mut options = common::options();
    // Nobody is cut off meanwhile, however busy the machine is.
    options.limits.idle_timeout = Duration::from_secs(600);
    let running = Running::start_with(data.path(), options);
    running.client().create("w");
    let agent = running.agent("w");
    agent.put("/api/v1/workspaces/w/files/a.txt", b"a\n");
    let long = vec!["n".repeat(250); 15].join("/");
    agent.put(&format!("/api/v1/workspaces/w/files/{long}"), b"a\n");
    let mut slow = Stream::open(&agent, "/api/v1/events", &[]);
    let paths = vec![long; 100];
    let body = serde_json::json!({ "paths": paths }).to_string();
    // Far more than a socket and the queue of the stream take.
    const SHOWN: usize = 80;
    for _ in 0..SHOWN {
        let shown = agent.post("/api/v1/tools/show_files", &body);
        assert_eq!(shown.status, 200, "{}", shown.text());
    }
    // The newest is never the one that is missed.
    let last = agent.post("/api/v1/tools/show_files", r#"{"paths":["a.txt"]}"#);
    assert_eq!(last.status, 200, "{}", last.text());
    let mut count = 0;
    loop {
        let (_, name, data) = slow.next().expect("the stream ended");
        assert_eq!(name, "show", "{data}");
        if data["paths"] == serde_json::json!(["a.txt"]) {
            break;
        }
        count += 1;
    }
    assert!(count < SHOWN, "all {count} were kept");
}
