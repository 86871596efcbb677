//! Who may do what: another's thing answers as what does not exist, and what protects a browser.

use std::time::{Duration, Instant};

use crate::common;
use crate::common::{Client, Running, Stream};
use crate::reach::send;

fn start() -> (offshoot_testkit::HostDir, Running) {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    for id in ["a", "b"] {
        running.client().create(id);
        running
            .client()
            .put(&format!("/api/v1/workspaces/{id}/files/f"), id.as_bytes());
    }
    (data, running)
}

#[test]
fn an_agent_hears_of_its_own_workspace_alone() {
    let (_data, running) = start();
    let mut stream = Stream::open(&running.agent("a"), "/api/v1/events?since=0", &[]);
    running.client().put("/api/v1/workspaces/b/files/g", b"1");
    running.client().put("/api/v1/workspaces/a/files/g", b"1");
    let seen: Vec<String> = (0..3)
        .map(|_| {
            stream.next().unwrap().2["workspace"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(seen, ["a", "a", "a"]);
}

#[test]
fn rules_hold_on_every_way_to_a_path() {
    let (_data, running) = start();
    let admin = running.client();
    let files = "/api/v1/workspaces/a/files";
    admin.put(&format!("{files}/src/x.rs"), b"code");
    admin.put(&format!("{files}/secret/key"), b"key");
    let path = admin.get("/api/v1/workspaces/a/path").json();
    let dir = std::path::PathBuf::from(path["path"].as_str().unwrap());
    std::os::unix::fs::symlink("../secret/key", dir.join("src/link")).unwrap();
    std::os::unix::fs::symlink("../secret", dir.join("src/dir")).unwrap();
    let taken = admin.post("/api/v1/workspaces/a/snapshots", "{}").json();
    let snapshot = taken["id"].as_str().unwrap();
    let limited = running.client_for("a", &["src/**:read,write"]);
    assert_eq!(limited.get(&format!("{files}/src/x.rs")).text(), "code");
    assert_eq!(limited.put(&format!("{files}/src/y.rs"), b"y").status, 201);
    for (method, target, body) in [
        ("GET", format!("{files}/secret/key"), ""),
        ("GET", format!("{files}/secret/none"), ""),
        ("GET", format!("{files}/secret/key?at={snapshot}"), ""),
        ("GET", format!("{files}/src/link"), ""),
        ("GET", format!("{files}/src/dir/key"), ""),
        ("PUT", format!("{files}/src/link"), "x"),
        ("PUT", format!("{files}/src/dir/new"), "x"),
        ("PUT", format!("{files}/f"), "x"),
        ("DELETE", format!("{files}/src/x.rs"), ""),
        ("GET", format!("{files}/.meta/secret/key"), ""),
        ("GET", format!("{files}/.meta/.meta"), ""),
        (
            "GET",
            "/api/v1/workspaces/a/metadata/secret/key".to_owned(),
            "",
        ),
        (
            "GET",
            "/api/v1/workspaces/a/list?path=secret".to_owned(),
            "",
        ),
        (
            "GET",
            "/api/v1/workspaces/a/list?path=src/dir".to_owned(),
            "",
        ),
        (
            "GET",
            "/api/v1/workspaces/a/history?path=secret/key".to_owned(),
            "",
        ),
        (
            "POST",
            "/api/v1/workspaces/a/move".to_owned(),
            r#"{"from":"secret/key","to":"src/key"}"#,
        ),
        ("POST", "/api/v1/workspaces/a/snapshots".to_owned(), "{}"),
        (
            "POST",
            "/api/v1/workspaces/a/restore".to_owned(),
            &format!("{{\"snapshot\":\"{snapshot}\"}}"),
        ),
        ("POST", "/api/v1/workspaces/a/uploads".to_owned(), "form"),
    ] {
        let reply = send(&limited, method, &target, body);
        assert_eq!(
            reply.code(),
            "permission_denied",
            "{method} {target} {}",
            reply.text()
        );
    }
    for target in ["history", "changes", "diff", "tree", "list", "sync"] {
        let method = if target == "sync" { "POST" } else { "GET" };
        let reply = send(
            &limited,
            method,
            &format!("/api/v1/workspaces/a/{target}"),
            "",
        );
        assert_eq!(reply.status, 200, "{target} {}", reply.text());
        assert!(
            !reply.text().contains("secret"),
            "{target} {}",
            reply.text()
        );
    }
    let archive = limited.get("/api/v1/workspaces/a/archive?format=tar.gz");
    let mut names = Vec::new();
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&archive.body[..]));
    for entry in tar.entries().unwrap() {
        names.push(
            entry
                .unwrap()
                .path()
                .unwrap()
                .to_string_lossy()
                .into_owned(),
        );
    }
    assert!(
        names.iter().all(|name| name.starts_with("src")),
        "{names:?}"
    );
    let mut stream = Stream::open(&limited, "/api/v1/events?since=0", &[]);
    admin.put(&format!("{files}/src/last"), b"");
    while let Some((_, _, data)) = stream.next() {
        assert!(!data.to_string().contains("secret"), "{data}");
        if data["path"] == "src/last" {
            break;
        }
    }
}

#[test]
fn bad_tokens_are_refused_and_then_told_to_wait() {
    let data = offshoot_testkit::HostDir::new();
    let mut options = common::options();
    options.limits.max_bad_tokens = 5;
    let running = Running::start_with(data.path(), options);
    let good = running.client();
    for token in [
        "",
        "ofs_",
        "ofs_00",
        "x",
        &good.token[..good.token.len() - 1],
        &format!("{}0", good.token),
    ] {
        let bad = Client::new(running.address, token);
        let reply = bad.get("/api/v1/workspaces");
        assert!([401, 429].contains(&reply.status), "{token}");
        assert!(!reply.text().contains(&good.token));
    }
    let bad = Client::new(running.address, "ofs_00");
    let reply = bad.get("/api/v1/workspaces");
    assert_eq!((reply.status, reply.code().as_str()), (429, "rate_limited"));
    // The header and the text say the same, and it is true: the count begins anew after a minute.
    let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let hint = format!("try again in {wait} s");
    assert_eq!(reply.json()["error"]["hint"], hint);
    assert_eq!(good.get("/api/v1/workspaces").status, 200);
    let basic = [("Authorization", "Basic YTpi")];
    let none = Client::new(running.address, "");
    assert_ne!(none.send("GET", b"/api/v1/me", &basic, b"").status, 200);
}

#[test]
fn a_revoked_or_expired_token_ends_its_streams() {
    let (_data, running) = start();
    let admin = running.client();
    let issue = |body: &str| {
        let issued = admin.post("/api/v1/tokens", body);
        assert_eq!(issued.status, 201, "{}", issued.text());
        let json = issued.json();
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        (text("id"), Client::new(running.address, &text("secret")))
    };
    let (id, client) = issue(r#"{"workspace":"a","label":"ci"}"#);
    let (_, short) = issue(r#"{"workspace":"a","ttl_s":2}"#);
    assert_eq!(client.get("/api/v1/workspaces/a").status, 200);
    let mut streams = [&client, &short].map(|who| Stream::open(who, "/api/v1/events", &[]));
    let began = Instant::now();
    assert_eq!(
        admin.delete(&format!("/api/v1/tokens/{id}")).json()["revoked"],
        true
    );
    assert_eq!(client.get("/api/v1/workspaces/a").status, 401);
    for stream in &mut streams {
        stream.set_timeout(Duration::from_secs(8));
        assert!(stream.next().is_none());
    }
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(short.get("/api/v1/workspaces/a").status, 401);
    // Another process revokes by the store alone.
    let (id, client) = issue(r#"{"workspace":"a"}"#);
    let mut stream = Stream::open(&client, "/api/v1/events", &[]);
    let began = Instant::now();
    running.engine.access.revoke_token(&id).unwrap();
    stream.set_timeout(Duration::from_secs(8));
    assert!(stream.next().is_none());
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    let list = admin.get("/api/v1/tokens");
    assert!(!list.text().contains("ofs_"), "a secret is listed");
}

#[test]
fn other_hosts_and_other_sites_are_refused() {
    let (_data, running) = start();
    let client = running.client();
    let own = format!("http://{}", running.address);
    let with = |headers: &[(&str, &str)]| client.send("GET", b"/api/v1/me", headers, b"").status;
    assert_eq!(with(&[("Host", "evil.example")]), 403);
    assert_eq!(with(&[("Host", "127.0.0.1.evil.example")]), 403);
    assert_eq!(with(&[("Host", "localhost")]), 200);
    assert_eq!(with(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(with(&[("Origin", "null")]), 403);
    assert_eq!(with(&[("Origin", &own)]), 200);
    // Also on routes that need no token, and on streams.
    for target in ["/healthz", "/metrics", "/docs", "/api/v1/events"] {
        let reply = client.send("GET", target.as_bytes(), &[("Host", "evil.example")], b"");
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (403, "permission_denied"),
            "{target}"
        );
    }
}

#[test]
fn a_cookie_alone_changes_nothing() {
    let data = offshoot_testkit::HostDir::new();
    let (running, url) = Running::start_with_sign_in(data.path());
    let nobody = Client::new(running.address, "");
    let target = url.split_once(&running.address.to_string()).unwrap().1;
    let signed = nobody.get(target);
    assert_eq!(signed.status, 200, "{}", signed.text());
    let set = signed.header("set-cookie").unwrap().to_owned();
    assert!(
        set.contains("HttpOnly") && set.contains("SameSite=Strict"),
        "{set}"
    );
    // The link works once.
    assert_eq!(nobody.get(target).status, 401);
    let cookie = set.split(';').next().unwrap();
    let by_cookie = |method: &str, path: &str, more: &[(&str, &str)]| {
        let headers = [&[("Cookie", cookie)], more].concat();
        nobody.send(method, path.as_bytes(), &headers, b"{}")
    };
    // The other half is in the page and nowhere else, for the one script that may run there.
    let page = signed.text();
    let half = page.split("'offshoot.page', '").nth(1).unwrap();
    let half = half.split('\'').next().unwrap();
    let policy = signed.header("content-security-policy").unwrap();
    let nonce = page.split("nonce=").nth(1).unwrap();
    let nonce = nonce.split('>').next().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(policy.contains(&format!("script-src 'nonce-{nonce}';")));
    assert!(!set.contains(half) && !page.contains(cookie.split_once('=').unwrap().1));
    // What somebody with the cookie alone can do: nothing, also not read or follow.
    let secret = cookie.split_once('=').unwrap().1;
    for (method, target) in [
        ("GET", "/api/v1/me"),
        ("GET", "/api/v1/events"),
        ("GET", "/api/v1/workspaces/w/files/a?preview"),
        ("POST", "/api/v1/workspaces"),
        ("POST", "/api/v1/tickets"),
        ("POST", "/sign-out"),
    ] {
        for wrong in [None, Some(""), Some("0"), Some(secret)] {
            let more: Vec<_> = wrong.iter().map(|half| ("Offshoot-Page", *half)).collect();
            let refused = by_cookie(method, target, &more);
            let got = (refused.status, refused.code());
            assert_eq!(got, (401, "unauthorized".to_owned()), "{target} {wrong:?}");
        }
    }
    let more = [("Offshoot-Page", half)];
    let me = by_cookie("GET", "/api/v1/me", &more).json();
    assert_eq!(
        (me["kind"].as_str(), me["operator"].as_str()),
        (Some("user"), Some("user"))
    );
    let alone = nobody.send("GET", b"/api/v1/me", &more, b"");
    assert_eq!(alone.status, 401, "the other half alone");
    assert_eq!(by_cookie("POST", "/api/v1/workspaces", &more).status, 201);
    assert_eq!(by_cookie("POST", "/sign-out", &more).status, 204);
    assert_eq!(by_cookie("GET", "/api/v1/me", &more).status, 401);
}

#[test]
fn a_ticket_lets_a_browser_fetch_one_address_once() {
    let (_data, running) = start();
    let (admin, nobody) = (running.client(), Client::new(running.address, ""));
    admin.create("w");
    admin.put("/api/v1/workspaces/w/files/a.txt", b"text");
    let ticket = |address: &str| {
        let body = serde_json::json!({ "address": address }).to_string();
        admin.post("/api/v1/tickets", &body)
    };
    for address in [
        "/api/v1/workspaces/w/files/a.txt",
        "/api/v1/workspaces/w/files/a.txt?preview=true",
        "/api/v1/workspaces/w/archive?format=zip",
    ] {
        let given = ticket(address);
        assert_eq!(given.status, 201, "{}", given.text());
        let given = given.json()["address"].as_str().unwrap().to_owned();
        assert!(given.starts_with(address), "{given}");
        let other = given.replace("/workspaces/w/", "/workspaces/v/");
        let got = [&given, &given].map(|address| nobody.get(address).status);
        assert_eq!(got, [200, 401], "once: {given}");
        assert_eq!(nobody.get(&other).status, 401, "elsewhere: {other}");
    }
    // It stands for no more than whoever asked for it.
    let body = r#"{"workspace":"w"}"#;
    let issued = admin.post("/api/v1/tokens", body).json();
    let agent = Client::new(running.address, issued["secret"].as_str().unwrap());
    let given = agent.post("/api/v1/tickets", r#"{"address":"/api/v1/tokens"}"#);
    let given = given.json()["address"].as_str().unwrap().to_owned();
    assert_eq!(nobody.get(&given).status, 403);
    for bad in [
        "",
        "/",
        "//evil/api/",
        "http://evil/api/v1/me",
        "/api/v1/me#x",
        "/api/v1/me?ticket=1",
        "/git/p",
        "/api/ x",
    ] {
        let refused = ticket(bad);
        let got = (refused.status, refused.code());
        assert_eq!(got, (400, "invalid_request".to_owned()), "{bad}");
    }
    assert_eq!(nobody.get("/api/v1/me?ticket=0").status, 401);
}

#[test]
fn a_sign_in_leads_back_to_where_somebody_wanted_to_go() {
    let data = offshoot_testkit::HostDir::new();
    let (running, url) = Running::start_with_sign_in(data.path());
    let nobody = Client::new(running.address, "");
    let target = url.split_once(&running.address.to_string()).unwrap().1;
    // What leads elsewhere is refused, and does not use the link up.
    for bad in [
        "//evil.example",
        "%2F%2Fevil",
        "/%5Cevil",
        "/%252Fevil",
        "https://evil",
        "/%0d%0a",
    ] {
        let refused = nobody.get(&format!("{target}&next={bad}"));
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "invalid_request"),
            "{bad}"
        );
        assert!(refused.header("set-cookie").is_none());
    }
    let signed = nobody.get(&format!("{target}&next=%2Fp%2Fapp%3Fat%3D1%26x%3D%22"));
    assert_eq!(signed.status, 200, "{}", signed.text());
    assert!(signed.header("set-cookie").is_some());
    let page = signed.text();
    assert!(page.contains("href=\"/p/app?at=1&amp;x=%22\""), "{page}");
}
