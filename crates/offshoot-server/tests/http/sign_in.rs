//! Signing a browser in by a token: cookie and page are as by the link, and end with the token.

use offshoot_testkit::HostDir;

use crate::common::{self, Client, Reply, Running};

fn sign_in(client: &Client, token: &str, headers: &[(&str, &str)]) -> Reply {
    let body = serde_json::json!({ "token": token }).to_string();
    client.send("POST", b"/sign-in", headers, body.as_bytes())
}

/// A request of a browser: with the cookie that was set, and nothing else that identifies it.
fn by_cookie(nobody: &Client, set: &str, method: &str, target: &str, page: &str) -> Reply {
    let cookie = set.split(';').next().unwrap();
    let headers = [("Cookie", cookie), ("Offshoot-Page", page)];
    nobody.send(method, target.as_bytes(), &headers, b"{}")
}

fn issue(admin: &Client, body: &str) -> (String, String) {
    let issued = admin.post("/api/v1/tokens", body);
    assert_eq!(issued.status, 201, "{}", issued.text());
    let text = |name: &str| issued.json()[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

#[test]
fn a_token_signs_a_browser_in_until_it_is_revoked() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let (admin, nobody) = (running.client(), Client::new(running.address, ""));
    admin.create("w");
    let (id, secret) = issue(&admin, r#"{"workspace":"w","label":"ci"}"#);
    let own = format!("http://{}", running.address);
    let signed = sign_in(&nobody, &format!(" {secret}\n"), &[("Origin", &own)]);
    assert_eq!(signed.status, 200, "{}", signed.text());
    let half = signed.json()["page"].as_str().unwrap().to_owned();
    let page = half.as_str();
    let set = signed.header("set-cookie").unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains(&secret) && !set.contains(page), "{set}");
    let me = by_cookie(&nobody, &set, "GET", "/api/v1/me", page).json();
    assert_eq!(
        (me["operator"].as_str(), me["kind"].as_str()),
        (Some("ci"), Some("service"))
    );
    // It reaches what the token reaches, by both halves.
    let made = |page: &str| {
        let target = "/api/v1/workspaces/w/snapshots";
        by_cookie(&nobody, &set, "POST", target, page).status
    };
    assert_eq!((made("0"), made(page)), (401, 201));
    let beyond = by_cookie(&nobody, &set, "POST", "/api/v1/workspaces", page);
    assert_eq!(beyond.status, 403, "{}", beyond.text());
    // Whoever signs out keeps the token, which programs may use as well.
    let out = by_cookie(&nobody, &set, "POST", "/sign-out", page);
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    let program = Client::new(running.address, &secret);
    assert_eq!(program.get("/api/v1/workspaces/w").status, 200);
    assert_eq!(
        by_cookie(&nobody, &set, "GET", "/api/v1/me", page).status,
        200
    );
    assert_eq!(admin.delete(&format!("/api/v1/tokens/{id}")).status, 200);
    assert_eq!(
        by_cookie(&nobody, &set, "GET", "/api/v1/me", page).status,
        401
    );
}

#[test]
fn a_browser_forgets_a_token_when_it_ends() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let (_, secret) = issue(&running.client(), r#"{"admin":true,"ttl_s":600}"#);
    let signed = sign_in(&Client::new(running.address, ""), &secret, &[]);
    let set = signed.header("set-cookie").unwrap();
    let lives = set.split("Max-Age=").nth(1).unwrap();
    let lives: u64 = lives.split(';').next().unwrap().parse().unwrap();
    assert!((1..=600).contains(&lives), "{set}");
}

#[test]
fn a_wrong_token_or_another_site_signs_nobody_in() {
    let data = HostDir::new();
    let mut options = common::options();
    options.limits.max_bad_tokens = 4;
    let running = Running::start_with(data.path(), options);
    let nobody = Client::new(running.address, "");
    let refused = |reply: &Reply| {
        assert!(reply.header("set-cookie").is_none());
        (reply.status, reply.code())
    };
    for headers in [
        [("Origin", "http://evil.example")],
        [("Origin", "null")],
        [("Host", "evil.example")],
    ] {
        let reply = sign_in(&nobody, &running.admin, &headers);
        assert_eq!(refused(&reply), (403, "permission_denied".to_owned()));
    }
    for body in ["", "{}", "[]", r#"{"token":1}"#, r#"{"token":"a","x":1}"#] {
        let reply = nobody.post("/sign-in", body);
        assert_eq!(
            refused(&reply),
            (400, "invalid_request".to_owned()),
            "{body}"
        );
    }
    let much = format!("{{\"token\":\"{}\"}}", "x".repeat(20 << 20));
    let reply = nobody.post("/sign-in", &much);
    assert_eq!(refused(&reply), (413, "payload_too_large".to_owned()));
    // A sign-in counts as any other request with a bad token.
    for token in ["", "ofs_", "ofs_\r\nSet-Cookie: x", "code"] {
        let reply = sign_in(&nobody, token, &[]);
        assert_eq!(refused(&reply), (401, "unauthorized".to_owned()), "{token}");
        let hint = reply.json()["error"]["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains("offshoot token issue"), "{hint}");
    }
    let reply = sign_in(&nobody, "ofs_00", &[]);
    assert_eq!(refused(&reply), (429, "rate_limited".to_owned()));
    assert_eq!(sign_in(&nobody, &running.admin, &[]).status, 200);
}
