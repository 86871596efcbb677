//! The path table, through every route that takes a path, by raw sockets: nothing outside is read or
//! changed, every refusal has a code, and nothing is our own failure (INV-7).

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common;
use crate::common::{Client, Reply, Running, encode, form};

pub(crate) const SECRET: &str = "the secret outside";

/// What one run works on: a workspace with links to outside, and files outside to be left alone.
struct Scene {
    outside: PathBuf,
    client: Client,
    before: Vec<(PathBuf, Vec<u8>)>,
    running: Running,
    // Last: it goes when nobody uses it any more.
    _data: offshoot_testkit::HostDir,
}

fn scene() -> Scene {
    let data = offshoot_testkit::HostDir::new();
    let outside = data.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), SECRET).unwrap();
    let running = Running::start(&data.path().join("data"));
    let client = running.client();
    client.create("w");
    client.create("neighbour");
    client.put("/api/v1/workspaces/w/files/inside/a.txt", b"inside");
    client.put(
        "/api/v1/workspaces/neighbour/files/n.txt",
        SECRET.as_bytes(),
    );
    // An outside program may put links into the directory that it was given.
    let path = client.get("/api/v1/workspaces/w/path").json();
    let dir = PathBuf::from(path["path"].as_str().unwrap());
    symlink("../../../outside/secret.txt", dir.join("link-out")).unwrap();
    symlink("../../../outside", dir.join("dir-out")).unwrap();
    symlink("/etc/passwd", dir.join("link-absolute")).unwrap();
    symlink("/", dir.join("root")).unwrap();
    symlink("..", dir.join("up")).unwrap();
    symlink("../neighbour/n.txt", dir.join("next-door")).unwrap();
    symlink("/proc/self/root", dir.join("magic")).unwrap();
    symlink("inside/a.txt", dir.join("link-in")).unwrap();
    symlink("loop", dir.join("loop")).unwrap();
    let before = contents(&outside);
    Scene {
        _data: data,
        outside,
        running,
        client,
        before,
    }
}

pub(crate) fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Paths as bytes, before any encoding.
pub(crate) fn table() -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = Vec::new();
    let targets = [
        "etc/passwd",
        "outside/secret.txt",
        "neighbour/n.txt",
        "offshoot.db",
    ];
    let ups = [
        "..",
        "../..",
        "../../..",
        "../../../../../../../../..",
        "inside/../..",
        "./..",
        "a/../../..",
        ".//..",
        "..//..",
        "inside/../../w/..",
        ".../..",
        "..\\..",
        "..\\/..",
        "inside\\..\\..",
        "..;",
        "..%00",
        "%2e%2e",
        "%252e%252e",
        "..%2f..",
        "%2e%2e%2f%2e%2e",
        "..%5c..",
        "..%c0%af..",
        "..%255c..",
        "..%u2215..",
        "\u{ff0e}\u{ff0e}",
        "\u{2024}\u{2024}",
        "..\u{2215}..",
        ". .",
        " ..",
        ".. ",
        "..\t",
        "\t..",
        "..\r\n",
        "\n..",
        "..\0",
        "\0..",
    ];
    for up in ups {
        paths.push(up.into());
        for target in targets {
            paths.push(format!("{up}/{target}").into());
            paths.push(format!("{up}\\{target}").into());
        }
    }
    for start in [
        "/", "//", "///", "/./", "/../", "\\", "\\\\", "C:\\", "C:/", "file:///", "~/", "//?/",
    ] {
        for target in targets {
            paths.push(format!("{start}{target}").into());
        }
    }
    for link in [
        "link-out",
        "dir-out/secret.txt",
        "dir-out",
        "dir-out/new.txt",
        "link-absolute",
        "root/etc/passwd",
        "root",
        "up/neighbour/n.txt",
        "up",
        "up/up",
        "next-door",
        "magic/etc/passwd",
        "loop",
        "loop/x",
        "link-in/..",
        "link-in/x",
        "inside/../dir-out/secret.txt",
        "root/root",
    ] {
        paths.push(link.into());
    }
    // Overlong and broken UTF-8, whose decoders have let `..` and `/` through.
    for bytes in [
        &b"\xc0\xae\xc0\xae/etc/passwd"[..],
        b"..\xc0\xafetc/passwd",
        b"\xe0\x80\xae\xe0\x80\xae/x",
        b"\xf0\x80\x80\xae\xf0\x80\x80\xae/x",
        b"\xc0\x2e\xc0\x2e/x",
        b"\xff",
        b"\xfe\xff",
        b"a\xffb",
        b"\xed\xa0\x80",
        b"\x80",
        b"..\xff/..",
        b"\xc1\x9c..",
        b"\xf8\x80\x80\x80\xae",
    ] {
        paths.push(bytes.to_vec());
    }
    // Names at and beyond what a file system takes.
    for length in [254, 255, 256, 257, 1000, 4094, 4095, 4096, 5000] {
        paths.push(vec![b'n'; length]);
    }
    paths.push("é".repeat(127).into_bytes());
    paths.push("é".repeat(128).into_bytes());
    paths.push([b"d/".repeat(200), b"x".to_vec()].concat());
    paths.push(b"d/".repeat(2100));
    // Composed and decomposed, and characters that look like others.
    for name in [
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{212b}",
        "\u{200b}..",
        "..\u{200b}",
        "\u{202e}txt",
        "\u{feff}a",
        "\u{0}",
    ] {
        paths.push(name.as_bytes().to_vec());
    }
    for name in [
        "a\r\nX-Injected: 1",
        "a\rb",
        "a\nb",
        "\x1b[31m",
        "a\x7fb",
        "CON",
        "nul",
        "aux.txt",
        "a:b",
        "a|b",
        "a?b",
        "a*b",
        "a<b>",
        "a\"b",
        "'",
        "`id`",
        "$(id)",
        "a;b",
        "a&b",
        "a#b",
        "a%b",
        "%",
        "%2",
        "%zz",
        " ",
        ".",
        "./",
        "",
        "/",
        "-rf",
        "--",
        ".git/config",
        ".git",
        ".meta/.meta",
        ".meta/../..",
        ".meta",
        ".meta/x",
        ".metadata.json",
        ".offshoot-stage-x",
        "..",
        "...",
        "....",
        "a..b",
        "a/./b",
        "a//b",
        "a/",
        "inside/a.txt/x",
        "inside/a.txt/..",
    ] {
        paths.push(name.as_bytes().to_vec());
    }
    paths
}

/// How a path can be written into a URL.
pub(crate) fn spellings(path: &[u8]) -> Vec<Vec<u8>> {
    let once = encode(path);
    let slashed = path
        .split(|&byte| byte == b'/')
        .map(encode)
        .collect::<Vec<_>>()
        .join("/");
    let twice = encode(once.as_bytes());
    let raw: Vec<u8> = path.to_vec();
    vec![
        once.into_bytes(),
        slashed.into_bytes(),
        twice.into_bytes(),
        raw,
    ]
}

pub(crate) fn target(before: &str, path: &[u8], after: &str) -> Vec<u8> {
    [before.as_bytes(), path, after.as_bytes()].concat()
}

pub(crate) fn check(what: &str, path: &[u8], reply: &Reply) {
    let shown = format!(
        "{what} {:?} -> {} {}",
        String::from_utf8_lossy(path),
        reply.status,
        reply.text()
    );
    assert!(!reply.text().contains(SECRET), "leaked: {shown}");
    assert!(!reply.text().contains("root:x:"), "leaked: {shown}");
    assert!(!reply.text().contains("/tmp/"), "a host path: {shown}");
    assert!(reply.header("x-injected").is_none(), "{shown}");
    assert!(
        reply.status < 500 || reply.status == 507,
        "our own failure: {shown}"
    );
    // What the HTTP parser itself refuses has no body; everything else has a code.
    if reply.status >= 400 && !reply.body.is_empty() {
        assert!(!reply.code().is_empty(), "no code: {shown}");
    }
}

/// A text as JSON paths have it: bytes that are no UTF-8 escaped.
fn json_text(path: &[u8]) -> String {
    serde_json::to_string(&String::from_utf8_lossy(path)).unwrap()
}

#[test]
fn no_path_through_any_route_leads_outside() {
    let paths = table();
    assert!(paths.len() >= 300, "{}", paths.len());
    // Several servers at once, because each request waits for the disk.
    let requests: usize = std::thread::scope(|scope| {
        let parts = paths.chunks(paths.len().div_ceil(4));
        let runs: Vec<_> = parts.map(|part| scope.spawn(|| try_paths(part))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).sum()
    });
    println!("soak: paths {} requests {requests}", paths.len());
}

/// Sends each path through every route. Returns the number of requests.
fn try_paths(paths: &[Vec<u8>]) -> usize {
    let scene = scene();
    let client = &scene.client;
    let mut requests = 0;
    let mut stream = client.connect();
    let mut send = |method: &str, target: &[u8], headers: &[(&str, &str)], body: &[u8]| {
        requests += 1;
        // A request that the parser refuses ends the connection.
        let reply = client.send_on(&mut stream, method, target, headers, body, false);
        if reply.status == 0 || reply.status >= 400 {
            stream = client.connect();
        }
        reply
    };
    let base = "/api/v1/workspaces/w";
    for path in paths {
        for spelled in spellings(path) {
            if spelled.iter().any(|byte| b" \r\n\0".contains(byte)) {
                // Raw blanks and line ends would be another request, which is the next test.
                continue;
            }
            for before in [format!("{base}/files/"), format!("{base}/list?path=")] {
                let reply = send("GET", &target(&before, &spelled, ""), &[], b"");
                check("GET", path, &reply);
            }
        }
        let once = encode(path).into_bytes();
        for (method, before, body) in [
            ("HEAD", format!("{base}/files/"), &b""[..]),
            ("GET", format!("{base}/metadata/"), b""),
            ("GET", format!("{base}/archive?path="), b""),
            ("GET", "/api/workspace/w/read/".to_owned(), b""),
            ("GET", format!("{base}/history?path="), b""),
            ("GET", format!("{base}/diff?path="), b""),
            ("GET", format!("{base}/blame/"), b""),
            ("GET", "/api/v1/workspaces/".to_owned(), b""),
            ("GET", format!("{base}/files/inside/a.txt?at="), b""),
            ("PUT", format!("{base}/files/"), b"written"),
            ("DELETE", format!("{base}/files/"), b""),
            ("DELETE", "/api/workspace/w/delete/".to_owned(), b""),
            ("POST", format!("{base}/import?path="), b"no archive"),
        ] {
            let reply = send(method, &target(&before, &once, ""), &[], body);
            check(method, path, &reply);
        }
        let text = json_text(path);
        for (route, body) in [
            ("mkdir", format!("{{\"path\":{text}}}")),
            (
                "move",
                format!("{{\"from\":\"inside/a.txt\",\"to\":{text}}}"),
            ),
            (
                "move",
                format!("{{\"from\":{text},\"to\":\"inside/a.txt\"}}"),
            ),
            (
                "restore",
                format!("{{\"snapshot\":{text},\"path\":{text}}}"),
            ),
        ] {
            let reply = send(
                "POST",
                format!("{base}/{route}").as_bytes(),
                &[],
                body.as_bytes(),
            );
            check(route, path, &reply);
        }
        if !path.contains(&b'"') {
            let (kind, body) = form(path, b"uploaded");
            let headers = [("Content-Type", kind.as_str())];
            let reply = send(
                "POST",
                format!("{base}/uploads").as_bytes(),
                &headers,
                &body,
            );
            check("uploads", path, &reply);
        }
        let reply = send(
            "GET",
            &target("/api/v1/events?workspace=", &once, "%00"),
            &[],
            b"",
        );
        check("events", path, &reply);
        // What was made by a name that is allowed goes away again.
        for top in ["d", "upload", "n"] {
            client.delete(&format!("{base}/files/{top}?recursive=true"));
        }
        client.put(&format!("{base}/files/inside/a.txt"), b"inside");
    }
    assert_eq!(
        contents(&scene.outside),
        scene.before,
        "something outside changed"
    );
    let neighbour = client.get("/api/v1/workspaces/neighbour/files/n.txt");
    assert_eq!(neighbour.text(), SECRET);
    assert_eq!(
        client.get(&format!("{base}/files/inside/a.txt")).text(),
        "inside"
    );
    drop(scene.running);
    requests
}

/// Paths through MCP: every tool that takes one, and resources. An answer is either a result of the
/// workspace itself or an error with a code.
#[test]
fn no_path_through_any_tool_leads_outside() {
    let paths = table();
    // Several servers at once, because each change waits for the disk.
    std::thread::scope(|scope| {
        for part in paths.chunks(paths.len().div_ceil(8)) {
            scope.spawn(|| try_tools(part));
        }
    });
}

fn try_tools(paths: &[Vec<u8>]) {
    let scene = scene();
    let agent = scene.running.agent("w");
    let mut stream = agent.connect();
    let mut ask = |path: &[u8], method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = [
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        let body = message.to_string().into_bytes();
        let reply = agent.send_on(&mut stream, "POST", b"/mcp", &headers, &body, false);
        let what = format!("{params}");
        check(&what, path, &reply);
        assert_eq!(reply.status, 200, "{what} {}", reply.text());
        let answer = reply.json();
        let refused = answer["error"].is_object() || answer["result"]["isError"] == true;
        let code = answer["result"]["structuredContent"]["error"]["code"].as_str();
        let code = code.or_else(|| answer["error"]["data"]["error"]["code"].as_str());
        assert_eq!(refused, code.is_some(), "{what} {answer}");
        let own_fault = ["internal", "read_failed", "write_failed"];
        assert!(
            !code.is_some_and(|code| own_fault.contains(&code)),
            "{what} {answer}"
        );
    };
    for path in paths {
        // Bytes that are no UTF-8 are written as every JSON path has them.
        let text =
            String::from_utf8(path.clone()).unwrap_or_else(|_| offshoot_core::escape_bytes(path));
        for (tool, arguments) in [
            ("read_file", json!({ "path": text })),
            ("write_file", json!({ "path": text, "content": "written" })),
            (
                "edit_file",
                json!({ "path": text, "old": "written", "new": "edited" }),
            ),
            ("list_files", json!({ "path": text })),
            ("search_files", json!({ "pattern": "secret", "glob": text })),
            ("show_files", json!({ "paths": [text] })),
            ("restore", json!({ "snapshot": text, "path": text })),
            ("diff", json!({ "from": text, "to": text })),
            ("history", json!({ "path": text })),
            ("move_file", json!({ "from": "inside/a.txt", "to": text })),
            ("move_file", json!({ "from": text, "to": "inside/a.txt" })),
            ("delete_file", json!({ "path": text })),
        ] {
            ask(
                path,
                "tools/call",
                json!({ "name": tool, "arguments": arguments }),
            );
        }
        for spelled in spellings(path) {
            let uri = format!("workspace:{}", String::from_utf8_lossy(&spelled));
            ask(path, "resources/read", json!({ "uri": uri }));
        }
        let cursor = format!("workspace:{}", encode(path));
        ask(path, "resources/list", json!({ "cursor": cursor }));
        // Directories that were made stay, and would be walked by every later call.
        for top in ["d", "a", "n"] {
            let target = format!("/api/v1/workspaces/w/files/{top}?recursive=true");
            scene.client.delete(&target);
        }
        scene
            .client
            .put("/api/v1/workspaces/w/files/inside/a.txt", b"inside");
    }
    assert_eq!(
        contents(&scene.outside),
        scene.before,
        "something outside changed"
    );
    let neighbour = scene.client.get("/api/v1/workspaces/neighbour/files/n.txt");
    assert_eq!(neighbour.text(), SECRET);
}

#[test]
fn raw_line_ends_and_blanks_in_a_request_are_no_request() {
    use std::io::Write as _;
    let scene = scene();
    for target in [
        &b"/api/v1/workspaces/w/files/a b"[..],
        b"/api/v1/workspaces/w/files/a\r\nX-Injected: 1",
        b"/api/v1/workspaces/w/files/a\nb",
        b"/api/v1/workspaces/w/files/\0",
        b"*",
        b"http://127.0.0.1/api/v1/workspaces/w/files/../x",
        b"//api/v1/workspaces",
        b"/api/v1/../../etc/passwd",
    ] {
        let mut stream = scene.client.connect();
        let mut request = scene.client.head("GET", target, &[]);
        request.extend_from_slice(b"Connection: close\r\n\r\n");
        stream.write_all(&request).unwrap();
        let reply = common::read_reply(&mut stream, false);
        check("raw", target, &reply);
        assert!(reply.status >= 400, "{target:?} {}", reply.text());
    }
}

#[test]
fn names_are_bytes_and_come_back_as_they_are() {
    let scene = scene();
    let base = "/api/v1/workspaces/w";
    for name in [
        &b"caf\xc3\xa9"[..],
        b"cafe\xcc\x81",
        b"\xff\xfe",
        b"a\nb",
        b"a\\b",
        b"a%2fb",
        b"..a",
        &[b'x'; 255],
    ] {
        let target = format!("{base}/files/names/{}", encode(name));
        let put = scene.client.put(&target, name);
        assert_eq!(put.status, 201, "{:?} {}", name, put.text());
        assert_eq!(scene.client.get(&target).body, name);
    }
    let list = scene.client.get(&format!("{base}/list?path=names")).json();
    assert_eq!(list["entries"].as_array().unwrap().len(), 8, "{list}");
    let too_long = scene
        .client
        .put(&format!("{base}/files/{}", "x".repeat(256)), b"");
    assert_eq!(
        (too_long.status, too_long.code().as_str()),
        (400, "invalid_request")
    );
    let linked = scene.client.get(&format!("{base}/files/link-in"));
    assert_eq!(linked.text(), "inside");
    for out in [
        "link-out",
        "dir-out/secret.txt",
        "link-absolute",
        "root/etc/passwd",
        "up/neighbour/n.txt",
        "magic/etc/passwd",
    ] {
        let reply = scene.client.get(&format!("{base}/files/{out}"));
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "path_traversal_blocked"),
            "{out}"
        );
    }
}
