//! One token cannot starve the others, and what is given up in time does not happen later.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use offshoot_engine::{PrincipalKind, Scope};
use offshoot_server::{Limits, ServerOptions};
use offshoot_testkit::HostDir;
use serde_json::json;

use crate::common::{Client, Reply, Running, Stream, cause, options, read_reply};

/// Long enough for a busy machine, and far shorter than anything here lasts by itself.
const SOON: Duration = Duration::from_secs(30);

fn with_limits(change: impl FnOnce(&mut Limits)) -> ServerOptions {
    let mut options = options();
    change(&mut options.limits);
    options
}

fn another_admin(running: &Running) -> Client {
    let scope = Scope::everything(PrincipalKind::Admin);
    let issued = running
        .engine
        .access
        .issue_token(&scope, None, None, &cause());
    Client::new(running.address, &issued.unwrap().secret)
}

/// Begins an upload of which nothing more comes.
fn slow_upload(client: &Client, name: &str) -> TcpStream {
    let mut stream = client.connect();
    let target = format!("/api/v1/workspaces/w/files/{name}");
    let mut head = client.head("PUT", target.as_bytes(), &[("Content-Length", "2000000")]);
    head.extend_from_slice(b"\r\nbegins");
    stream.write_all(&head).unwrap();
    stream
}

/// Asks for a clone and does not say of what.
fn slow_clone(client: &Client) -> TcpStream {
    let mut stream = client.connect();
    let target = b"/git/workspaces/w.git/git-upload-pack";
    let mut head = client.head("POST", target, &[("Content-Length", "1000")]);
    head.extend_from_slice(b"\r\n0014command=");
    stream.write_all(&head).unwrap();
    stream
}

/// Asks until an answer is as it should be.
fn until(ask: impl Fn() -> Reply, wanted: u16) -> Reply {
    let deadline = Instant::now() + SOON;
    loop {
        let reply = ask();
        if reply.status == wanted {
            return reply;
        }
        assert!(Instant::now() < deadline, "{}", reply.text());
    }
}

fn quickly<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    assert!(began.elapsed() < SOON / 2, "{what}: {:?}", began.elapsed());
    done
}

/// What everybody else does meanwhile.
fn others_work(running: &Running, modest: &Client, round: &str) {
    let file = format!("/api/v1/workspaces/w/files/modest-{round}");
    quickly("write", || {
        assert_eq!(modest.put(&file, b"mine").status, 201);
    });
    quickly("read", || assert_eq!(modest.get(&file).text(), "mine"));
    quickly("list", || {
        assert_eq!(modest.get("/api/v1/workspaces/w/list").status, 200);
    });
    quickly("stream", || {
        let mut stream = Stream::open(modest, "/api/v1/events?workspace=w", &[]);
        let written = modest.put(&format!("{file}-too"), b"x");
        assert_eq!(written.status, 201);
        assert!(stream.next().is_some(), "no event");
    });
    quickly("clone", || {
        let refs = "/git/workspaces/w.git/info/refs?service=git-upload-pack";
        assert_eq!(modest.get(refs).status, 200);
    });
    let nobody = Client::new(running.address, "");
    for always in ["/healthz", "/metrics"] {
        quickly(always, || assert_eq!(nobody.get(always).status, 200));
    }
}

#[test]
fn one_token_cannot_starve_the_others() {
    let data = HostDir::new();
    let options = with_limits(|limits| {
        // A quarter of each is what one token gets: 6 requests, 4 streams.
        (limits.max_requests, limits.max_streams) = (24, 16);
        (limits.max_connections, limits.max_wait) = (64, Duration::from_millis(100));
    });
    let running = Running::start_with(data.path(), options);
    let greedy = running.client();
    greedy.create("w");
    let modest = another_admin(&running);
    others_work(&running, &modest, "before");

    let streams: Vec<Stream> = (0..4)
        .map(|_| Stream::open(&greedy, "/api/v1/events", &[]))
        .collect();
    let refused = greedy.get("/api/v1/events");
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "rate_limited")
    );
    // Streams are no requests: those go on.
    assert_eq!(greedy.get("/api/v1/workspaces").status, 200);

    let mut uploads = Vec::new();
    for n in 0..20 {
        uploads.push(match n % 2 {
            0 => slow_upload(&greedy, &format!("slow-{n}")),
            _ => slow_clone(&greedy),
        });
        // The first ones have their places before the others come.
        let patience = Instant::now() + Duration::from_secs(60);
        while n < 6 && running.in_flight() < n + 1 {
            assert!(Instant::now() < patience, "request {n} has no place");
            std::thread::yield_now();
        }
    }
    let refused = until(|| greedy.get("/api/v1/workspaces"), 429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    let error = &refused.json()["error"];
    assert_eq!(error["hint"], "try again in 1 s");
    assert_eq!(error["details"]["retry_after_s"], 1);
    others_work(&running, &modest, "uploads");

    // Heads that never end, and connections without any: more than there may be.
    let mut idle = Vec::new();
    for n in 0..200 {
        let mut stream = modest.connect();
        if n % 2 == 0 {
            let _ = stream.write_all(b"GET /api/v1/workspaces HTTP/1.1\r\nHost: local");
        }
        idle.push(stream);
    }
    others_work(&running, &modest, "heads");

    // None of that has touched those that work: one of them ends well.
    uploads.truncate(6);
    let mut first = uploads.remove(0);
    first.write_all(&vec![b'x'; 2_000_000 - 6]).unwrap();
    assert_eq!(read_reply(&mut first, false).status, 201);
    // And what has ended has given its places back.
    drop((uploads, streams, idle));
    until(|| greedy.get("/api/v1/workspaces"), 200);
    drop(Stream::open(&greedy, "/api/v1/events", &[]));
}

#[test]
fn tokens_of_one_workspace_leave_room_for_other_workspaces() {
    let data = HostDir::new();
    let options = with_limits(|limits| {
        // 2 requests a token, 4 a workspace.
        (limits.max_requests, limits.max_wait) = (8, Duration::from_millis(100));
    });
    let running = Running::start_with(data.path(), options);
    let admin = running.client();
    admin.create("w");
    admin.create("other");
    let of_workspace: Vec<Client> = (0..3).map(|_| running.client_for("w", &[])).collect();
    let uploads: Vec<TcpStream> = of_workspace
        .iter()
        .flat_map(|client| (0..2).map(|n| slow_upload(client, &format!("slow-{n}"))))
        .collect();
    let last = running.client_for("w", &[]);
    let full = until(|| last.get("/api/v1/workspaces/w/list"), 429);
    assert_eq!(full.header("retry-after"), Some("1"));
    let other = running.client_for("other", &[]);
    assert_eq!(
        other.put("/api/v1/workspaces/other/files/f", b"x").status,
        201
    );
    drop(uploads);
    until(|| last.get("/api/v1/workspaces/w/list"), 200);
}

#[test]
fn streams_of_one_workspace_leave_room_for_other_workspaces() {
    let data = HostDir::new();
    let options = with_limits(|limits| {
        // 2 streams a token, 4 a workspace.
        (limits.max_streams, limits.max_wait) = (8, Duration::from_millis(100));
    });
    let running = Running::start_with(data.path(), options);
    running.client().create("w");
    running.client().create("other");
    let mut streams = Vec::new();
    for _ in 0..2 {
        let client = running.client_for("w", &[]);
        streams.extend((0..2).map(|_| Stream::open(&client, "/api/v1/events", &[])));
    }
    // A stream that opens has no end to wait for, so only the head of the answer is read.
    let ask = |client: &Client, target: &str| {
        let mut connection = client.connect();
        let mut request = client.head("GET", target.as_bytes(), &[]);
        request.extend_from_slice(b"\r\n");
        connection.write_all(&request).unwrap();
        read_reply(&mut connection, true)
    };
    // Neither a fresh token of the workspace gets a fifth, nor one that names it.
    let last = running.client_for("w", &[]);
    let full = ask(&last, "/api/v1/events");
    assert_eq!((full.status, full.header("retry-after")), (429, Some("1")));
    let named = ask(&running.client(), "/api/v1/events?workspace=w");
    assert_eq!(named.status, 429);
    let other = running.client_for("other", &[]);
    let mut stream = Stream::open(&other, "/api/v1/events", &[]);
    other.put("/api/v1/workspaces/other/files/f", b"x");
    assert_eq!(stream.next().unwrap().2["path"], "f");
    drop(streams);
    // Those that ended give their places back.
    until(|| ask(&last, "/api/v1/events"), 200);
}

/// An agent gets no more by spawning others: their tokens take of its share.
#[test]
fn what_an_agent_spawns_takes_of_its_share() {
    let data = HostDir::new();
    let options = with_limits(|limits| {
        // Four requests for each.
        (limits.max_requests, limits.max_wait) = (16, Duration::from_millis(50));
    });
    let running = Running::start_with(data.path(), options);
    let admin = running.client();
    admin.create_project("p", &[("a", "a")]);
    let spawn = |client: &Client, body: &str| {
        let made = client.post("/api/v1/agents", body);
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()
    };
    let client_of =
        |agent: &serde_json::Value| Client::new(running.address, agent["token"].as_str().unwrap());
    let lead = spawn(&admin, r#"{"role":"lead","project":"p"}"#);
    let id = lead["id"].as_str().unwrap();
    let child = spawn(
        &client_of(&lead),
        &format!(r#"{{"parent":"{id}","role":"child"}}"#),
    );
    let child = client_of(&child);
    let slow: Vec<TcpStream> = (0..4)
        .map(|n| {
            let mut stream = client_of(&lead).connect();
            let target = format!("/api/v1/workspaces/{id}/files/slow-{n}");
            let more = [("Content-Length", "2000000")];
            let mut head = client_of(&lead).head("PUT", target.as_bytes(), &more);
            head.extend_from_slice(b"\r\nbegins");
            stream.write_all(&head).unwrap();
            stream
        })
        .collect();
    let refused = until(|| child.get("/api/v1/me"), 429);
    assert_eq!(refused.code(), "rate_limited");
    assert_eq!(admin.get("/api/v1/workspaces").status, 200);
    drop(slow);
    until(|| child.get("/api/v1/me"), 200);
}

#[test]
fn who_takes_nothing_of_an_answer_loses_it() {
    let data = HostDir::new();
    let options = with_limits(|limits| {
        // One request a token: a slow download is all that it has.
        (limits.max_requests, limits.max_wait) = (4, Duration::from_millis(50));
        limits.idle_timeout = Duration::from_secs(5);
    });
    let running = Running::start_with(data.path(), options);
    let client = running.client();
    client.create("w");
    // More than the kernel takes in for a client that does not read, and nothing that compresses.
    let large: Vec<u8> = (0..16 << 20_u32)
        .map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8 ^ (n >> 5) as u8)
        .collect();
    let put = || client.put("/api/v1/workspaces/w/files/large", &large);
    until(put, 201);
    for target in ["files/large", "archive?format=zip"] {
        let target = format!("/api/v1/workspaces/w/{target}");
        let mut stream = client.connect();
        let mut request = client.head("GET", target.as_bytes(), &[]);
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).unwrap();
        until(|| client.get("/api/v1/workspaces"), 429);
        until(|| client.get("/api/v1/workspaces"), 200);
    }
}

/// Holds the lock of the store as another process would, from before until it is dropped.
fn hold_store(data: &HostDir) -> std::fs::File {
    let lock = data.path().join("offshoot.db-write.lock");
    let file = std::fs::File::options().write(true).open(lock).unwrap();
    file.lock().unwrap();
    file
}

fn landed(reply: &Reply) -> bool {
    assert_eq!((reply.status, reply.code().as_str()), (504, "timeout"));
    let error = &reply.json()["error"];
    let may = error["details"]["may_have_landed"].as_bool().unwrap();
    let hint = error["hint"].as_str().unwrap();
    assert_eq!(hint.contains("may still be done"), may, "{hint}");
    may
}

#[test]
fn a_request_that_timed_out_and_is_repeated_is_done_once() {
    let data = HostDir::new();
    let options = with_limits(|limits| limits.request_timeout = Duration::from_secs(3));
    let running = Running::start_with(data.path(), options);
    let client = running.client();
    client.create("before");
    let create = || {
        let key = [("Idempotency-Key", "once")];
        client.send("POST", b"/api/v1/workspaces", &key, b"{}")
    };
    let held = hold_store(&data);
    assert!(landed(&create()));
    assert!(landed(&create()));
    assert_eq!(client.get("/healthz").status, 200);
    drop(held);
    let made = until(create, 200).json();
    let listed = client.get("/api/v1/workspaces").json();
    let listed = listed["workspaces"].as_array().unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.iter().any(|found| found["id"] == made["id"]));
}

#[test]
fn work_that_had_not_begun_in_time_never_does() {
    let data = HostDir::new();
    // A quarter of the places is for one token.
    let options = with_limits(|limits| {
        (limits.max_requests, limits.max_wait) = (8, Duration::from_secs(60));
        limits.request_timeout = Duration::from_secs(3);
    });
    let running = Running::start_with(data.path(), options);
    running.client().create("w");
    let agent = running.client_for("w", &[]);
    let write = |name: &str| {
        let body = json!({ "path": name, "content": name }).to_string();
        agent.post("/api/v1/tools/write_file", &body)
    };
    assert_eq!(write("before").status, 200);
    let held = hold_store(&data);
    // The first two are being written and hold the places of the token; the next one waits for one.
    assert!(landed(&write("first")));
    assert!(landed(&write("second")));
    assert!(!landed(&write("third")));
    drop(held);
    until(|| write("after"), 200);
    for (name, status) in [("first", 200), ("second", 200), ("third", 404)] {
        let target = format!("/api/v1/workspaces/w/files/{name}");
        assert_eq!(
            until(|| agent.get(&target), status).status,
            status,
            "{name}"
        );
    }
}

#[test]
fn only_our_own_names_are_answered() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    let status = |target: &str, hosts: &[&str]| {
        let headers: Vec<(&str, &str)> = hosts.iter().map(|host| ("Host", *host)).collect();
        client.send("GET", target.as_bytes(), &headers, b"").status
    };
    assert_eq!(status("/healthz", &["LOCALHOST"]), 200);
    assert_eq!(status("http://localhost/healthz", &["localhost"]), 200);
    for hosts in [
        &["[::1].evil.com"][..],
        &["localhost", "localhost"],
        &["localhost", "evil.com"],
        &["evil.com", "localhost"],
        &["localhost."],
        &["a@localhost"],
        &["localhost:0x50"],
        &["[::1%25lo]"],
    ] {
        assert_eq!(status("/healthz", hosts), 403, "{hosts:?}");
    }
    assert_eq!(status("http://evil.com/healthz", &["localhost"]), 403);
    assert_eq!(status("http://localhost/healthz", &["evil.com"]), 403);
}
