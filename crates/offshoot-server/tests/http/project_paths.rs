//! The path table through the routes of projects and forks: nothing outside is read or changed
//! (INV-7).

use std::os::unix::fs::symlink;

use offshoot_testkit::HostDir;

use crate::common::{Running, encode};
use crate::paths::{SECRET, check, contents, spellings, table, target};

#[test]
fn no_path_through_a_project_leads_outside() {
    let data = HostDir::new();
    let outside = data.path().join("outside");
    let source = data.path().join("source");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), SECRET).unwrap();
    std::fs::create_dir_all(source.join("inside")).unwrap();
    std::fs::write(source.join("inside/a.txt"), "inside").unwrap();
    // A project takes links as they are, and follows none.
    for (to, link) in [
        ("../outside/secret.txt", "link-out"),
        ("../outside", "dir-out"),
        ("/etc/passwd", "link-absolute"),
        ("/", "root"),
        ("..", "up"),
        ("inside/a.txt", "link-in"),
    ] {
        symlink(to, source.join(link)).unwrap();
    }
    let before = contents(&outside);
    let running = Running::start(&data.path().join("data"));
    let client = running.client();
    let from = source.to_str().unwrap();
    let made = client.post(
        "/api/v1/projects",
        &format!(r#"{{"name":"p","from":"{from}"}}"#),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    client.create_project("neighbour", &[("n.txt", SECRET)]);
    // A fork shows the links, and through the API they lead nowhere.
    client.fork("p", "w");
    for out in [
        "link-out",
        "dir-out/secret.txt",
        "link-absolute",
        "root/etc/passwd",
    ] {
        let reply = client.get(&format!("/api/v1/workspaces/w/files/{out}"));
        check("GET", out.as_bytes(), &reply);
        assert!(reply.status >= 400, "{out} {}", reply.text());
        let blame = client.get(&format!("/api/v1/workspaces/w/blame/{out}"));
        check("GET", out.as_bytes(), &blame);
    }
    let base = "/api/v1/projects/p";
    let mut stream = client.connect();
    let mut requests = 0;
    let paths = table();
    for path in &paths {
        let mut send = |method: &str, target: &[u8], body: &[u8]| {
            requests += 1;
            let reply = client.send_on(&mut stream, method, target, &[], body, false);
            if reply.status == 0 || reply.status >= 400 {
                stream = client.connect();
            }
            check(method, path, &reply);
        };
        for spelled in spellings(path) {
            // Raw blanks and line ends would be another request.
            if !spelled.iter().any(|byte| b" \r\n\0".contains(byte)) {
                send("GET", &target(&format!("{base}/files/"), &spelled, ""), b"");
            }
        }
        let once = encode(path).into_bytes();
        for (method, before, body) in [
            ("GET", format!("{base}/list?path="), &b""[..]),
            ("GET", format!("{base}/files/inside/a.txt?at="), b""),
            ("GET", format!("{base}/versions/"), b""),
            ("GET", format!("{base}/blame/"), b""),
            ("GET", format!("{base}/path?agent_id="), b""),
            ("GET", "/api/v1/projects/".to_owned(), b""),
            ("GET", "/api/v1/merges/".to_owned(), b""),
            ("GET", "/api/v1/reviews/".to_owned(), b""),
            ("DELETE", "/api/v1/agents/".to_owned(), b""),
            ("POST", format!("{base}/import?path="), b"no archive"),
            ("PUT", format!("{base}/files/"), b"written"),
        ] {
            send(method, &target(&before, &once, ""), body);
        }
        let text = serde_json::to_string(&String::from_utf8_lossy(path)).unwrap();
        for (route, body) in [
            ("/api/v1/projects", format!("{{\"name\":{text}}}")),
            (
                "/api/v1/projects/p/workspaces",
                format!("{{\"base\":{text},\"agent_id\":{text}}}"),
            ),
            (
                "/api/v1/agents",
                format!("{{\"role\":\"r\",\"parent\":{text}}}"),
            ),
        ] {
            send("POST", route.as_bytes(), body.as_bytes());
        }
    }
    println!("soak: paths {} requests {requests}", paths.len());
    assert_eq!(contents(&outside), before, "something outside changed");
    assert_eq!(
        client.get("/api/v1/projects/neighbour/files/n.txt").text(),
        SECRET
    );
}
