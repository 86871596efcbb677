//! Uploads as older programs send them: the form says where its files go, in any order.

use offshoot_testkit::HostDir;
use serde_json::{Value, json};

use crate::common::{Client, Reply, Running, encode};

/// A part of a form: a field, or a file with its name.
enum Part<'a> {
    Field(&'a str, &'a str),
    File(&'a str, &'a [u8]),
}
use Part::{Field, File};

fn send(client: &Client, target: &str, headers: &[(&str, &str)], parts: &[Part<'_>]) -> Reply {
    let mut body = Vec::new();
    for part in parts {
        body.extend_from_slice(b"--frontier\r\nContent-Disposition: form-data; ");
        match part {
            Field(name, value) => {
                body.extend_from_slice(format!("name=\"{name}\"\r\n\r\n{value}").as_bytes());
            }
            File(name, content) => {
                let head = format!("name=\"file\"; filename=\"{name}\"\r\n\r\n");
                body.extend_from_slice(head.as_bytes());
                body.extend_from_slice(content);
            }
        }
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--frontier--\r\n");
    let mut all = vec![("Content-Type", "multipart/form-data; boundary=frontier")];
    all.extend_from_slice(headers);
    client.send("POST", target.as_bytes(), &all, &body)
}

fn start() -> (HostDir, Running) {
    let data = HostDir::new();
    let running = Running::start(data.path());
    for id in ["mine", "other"] {
        running.client().create(id);
    }
    (data, running)
}

/// The files of all workspaces.
fn files(running: &Running) -> Vec<String> {
    let mut found = Vec::new();
    for id in ["mine", "other"] {
        let target = format!("/api/v1/workspaces/{id}/list?path=upload");
        let listed = running.client().get(&target).json();
        for entry in listed["entries"].as_array().unwrap_or(&Vec::new()) {
            found.push(format!("{id}/{}", entry["name"].as_str().unwrap()));
        }
    }
    found
}

#[test]
fn a_form_says_where_its_files_go_before_or_after_them() {
    let (_data, running) = start();
    let (admin, mine) = (running.client(), running.client_for("mine", &[]));
    let content: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    let (before, after) = ("before.bin", "after.bin");
    for (name, parts) in [
        (
            before,
            [
                Field("workspaceId", "mine"),
                Field("messageId", "m-1"),
                File(before, &content),
            ],
        ),
        (
            after,
            [
                File(after, &content),
                Field("messageId", "m-1"),
                Field("workspaceId", "mine"),
            ],
        ),
    ] {
        // An admin stands for no workspace, so that the form alone tells.
        let reply = send(&admin, "/api/upload", &[], &parts);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let answer = reply.json();
        assert_eq!(
            (&answer["success"], &answer["path"], &answer["name"]),
            (&json!(true), &json!(format!("upload/{name}")), &json!(name))
        );
        let read = mine.get(&format!("/api/v1/workspaces/mine/files/upload/{name}"));
        assert!(read.body == content, "{name}");
        let history = mine.get(&format!(
            "/api/v1/workspaces/mine/history?path=upload/{name}"
        ));
        assert_eq!(history.json()["history"][0]["message_id"], "m-1", "{name}");
    }
    // The same by the URL, with and without the field.
    for parts in [
        &[File("u", b"1"), Field("workspaceId", "mine")][..],
        &[Field("note", "not ours"), File("v", b"2")],
    ] {
        let reply = send(&mine, "/api/workspace/mine/upload", &[], parts);
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    // Nothing says where: the credential's own.
    assert_eq!(
        send(&mine, "/api/upload", &[], &[File("w", b"3")]).status,
        200
    );
    let expected = ["after.bin", "before.bin", "u", "v", "w"].map(|name| format!("mine/{name}"));
    assert_eq!(files(&running), expected);
}

#[test]
fn nothing_lands_where_the_token_does_not_reach() {
    let (_data, running) = start();
    let mine = running.client_for("mine", &[]);
    let refused = |target: &str, headers: &[(&str, &str)], parts: &[Part<'_>]| {
        let reply = send(&mine, target, headers, parts);
        (reply.status, reply.code())
    };
    let not_found = (404, "workspace_not_found".to_owned());
    let invalid = (400, "invalid_request".to_owned());
    for id in ["other", "none"] {
        for parts in [
            [Field("workspaceId", id), File("a", b"a")],
            [File("a", b"a"), Field("workspaceId", id)],
        ] {
            assert_eq!(refused("/api/upload", &[], &parts), not_found, "{id}");
            let target = "/api/workspace/mine/upload";
            assert_eq!(refused(target, &[], &parts), not_found, "{id}");
            let session = [("X-Session-Id", "mine")];
            assert_eq!(refused("/api/upload", &session, &parts), not_found, "{id}");
        }
    }
    for parts in [
        &[File("a", b"a"), Field("workspaceId", "../x")][..],
        &[File("a", b"a"), Field("workspaceId", "")],
        &[
            Field("workspaceId", "mine"),
            File("a", b"a"),
            Field("workspaceId", "mine"),
        ],
        &[File("a", b"a"), Field("messageId", "")],
        &[File("a", b"a"), Field("messageId", "a\nb")],
        &[File("a", b"a"), Field("workspaceId", &"m".repeat(5000))],
        &[File("a", b"a"), Field("lastModified", "yesterday")],
        &[
            File("a", b"a"),
            File("b", b"b"),
            Field("lastModified", "1000"),
        ],
        &[Field("workspaceId", "mine")],
    ] {
        assert_eq!(refused("/api/upload", &[], parts), invalid);
    }
    // Two places at once, both of them reached.
    let both = send(
        &running.client(),
        "/api/workspace/mine/upload",
        &[],
        &[File("a", b"a"), Field("workspaceId", "other")],
    );
    assert_eq!((both.status, both.code()), invalid);
    assert_eq!(files(&running), Vec::<String>::new());
}

#[test]
fn uploads_keep_the_time_that_the_form_gives() {
    let (_data, running) = start();
    let mine = running.client_for("mine", &[]);
    let time = "1500000000123";
    for (target, parts) in [
        (
            "/api/upload",
            &[
                File("a", b"a"),
                File("b", b"b"),
                Field("lastModified", time),
                Field("lastModified", "1000"),
            ][..],
        ),
        (
            "/api/v1/workspaces/mine/uploads",
            &[
                Field("lastModified", time),
                File("c", b"c"),
                File("d", b"d"),
            ],
        ),
    ] {
        let reply = send(&mine, target, &[], parts);
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    // Also after a file of that workspace was written over.
    for content in [
        &b"a longer content"[..],
        b"another long one",
        b"yet another one",
    ] {
        mine.put("/api/v1/workspaces/mine/files/again", content);
    }
    let short = [Field("lastModified", time), File("e", b"e")];
    assert_eq!(
        send(&mine, "/api/v1/workspaces/mine/uploads", &[], &short).status,
        200
    );
    let mine_on_disk = running
        .engine
        .workspaces
        .hand_out_path(&"mine".parse().unwrap())
        .unwrap();
    let modified = |name: &str| {
        let path = mine_on_disk.join("upload").join(name);
        let time = std::fs::metadata(path).unwrap().modified().unwrap();
        time.duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_millis()
    };
    assert_eq!(
        (modified("a"), modified("b"), modified("c")),
        (1_500_000_000_123, 1000, 1_500_000_000_123)
    );
    assert_eq!(modified("e"), 1_500_000_000_123);
    assert!(modified("d") > 1_600_000_000_000);
    let listed = mine.get("/api/v1/workspaces/mine/list?path=upload").json();
    let first: &Value = &listed["entries"][0];
    assert_eq!(
        first["modified_at"], "2017-07-14T02:40:00.123000Z",
        "{first}"
    );
    // It is no change by an outside program.
    assert_eq!(
        mine.done("/api/v1/workspaces/mine/sync", "")["changes"],
        json!([])
    );
}

#[test]
fn an_upload_that_is_repeated_with_its_key_is_made_once() {
    let (_data, running) = start();
    let mine = running.client_for("mine", &[]);
    let key = [("Idempotency-Key", "k-1")];
    for target in [
        "/api/v1/workspaces/mine/uploads",
        "/api/workspace/mine/upload",
        "/api/upload",
    ] {
        let name = format!("{}.txt", target.len());
        let parts = [
            File(&name, b"one"),
            File(&name, b"two"),
            Field("messageId", "m-1"),
        ];
        let key = [("Idempotency-Key", name.as_str())];
        let first = send(&mine, target, &key, &parts);
        assert_eq!(first.status, 200, "{}", first.text());
        let before = files(&running);
        let again = send(&mine, target, &key, &parts);
        assert_eq!(first.json(), again.json());
        assert_eq!(files(&running), before);
        // Without the key it is another upload, as ever.
        assert_eq!(send(&mine, target, &[], &parts).status, 200);
        assert_eq!(files(&running).len(), before.len() + 2);
    }
    // A key is not taken for another form: other bytes, another name, another place.
    let made = send(&mine, "/api/upload", &key, &[File("a", b"1")]);
    assert_eq!(made.status, 200, "{}", made.text());
    for (name, content, message) in [("a", b"2", "m"), ("b", b"1", "m"), ("a", b"1", "m")] {
        let parts = [File(name, content), Field("messageId", message)];
        let other = send(&mine, "/api/upload", &key, &parts);
        assert_eq!(
            (other.status, other.code().as_str()),
            (400, "invalid_request")
        );
    }
    // Of somebody else it is another key.
    let other = running.client_for("other", &[]);
    let reply = send(&other, "/api/upload", &key, &[File("a", b"2")]);
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[test]
fn uploads_go_into_a_directory_that_the_request_names() {
    let (_data, running) = start();
    let admin = running.client();
    let upload = |client: &Client, dir: &str, headers: &[(&str, &str)]| {
        let target = format!("/api/v1/workspaces/mine/uploads?path={dir}");
        send(client, &target, headers, &[File("C:\\x\\a.txt", b"a")])
    };
    let path = |reply: &Reply| {
        assert_eq!(reply.status, 200, "{}", reply.text());
        let path = reply.json()["files"][0]["path"]
            .as_str()
            .unwrap()
            .to_owned();
        let read = admin.get(&format!(
            "/api/v1/workspaces/mine/files/{}",
            encode(path.as_bytes())
        ));
        assert_eq!(read.text(), "a", "{path}");
        path
    };
    let own = running.client_for("mine", &["docs/**:write"]);
    assert_eq!(path(&upload(&admin, "docs/new", &[])), "docs/new/a.txt");
    assert_eq!(path(&upload(&own, "docs/new", &[])), "docs/new/a (1).txt");
    assert_eq!(path(&upload(&admin, ".", &[])), "a.txt");
    assert_eq!(
        path(&upload(&admin, "./docs//new/", &[])),
        "docs/new/a (2).txt"
    );
    // A key is for one directory.
    let key = [("Idempotency-Key", "once")];
    assert_eq!(path(&upload(&admin, "d", &key)), "d/a.txt");
    assert_eq!(path(&upload(&admin, "d", &key)), "d/a.txt");
    assert_eq!(upload(&admin, "e", &key).code(), "invalid_request");
    let form = [File("a.txt", b"a")];
    let no_dir = send(&admin, "/api/v1/workspaces/mine/uploads", &key, &form);
    assert_eq!(no_dir.code(), "invalid_request");
    // Links are followed inside the workspace, but not for a token that is limited to some paths.
    let handed_out = admin.get("/api/v1/workspaces/mine/path").json();
    let dir = std::path::PathBuf::from(handed_out["path"].as_str().unwrap());
    for (target, link) in [("../d", "docs/in"), ("/tmp", "out"), ("none", "loose")] {
        std::os::unix::fs::symlink(target, dir.join(link)).unwrap();
    }
    std::fs::write(dir.join("d/a (1).txt"), "of an outside program").unwrap();
    assert_eq!(path(&upload(&admin, "docs/in", &[])), "d/a (2).txt");
    assert_eq!(upload(&own, "docs/in", &[]).code(), "permission_denied");
    assert_eq!(upload(&own, "d", &[]).code(), "permission_denied");
    assert_eq!(upload(&own, ".", &[]).code(), "permission_denied");
    // What is no place for a file is none for an upload.
    let deep = vec!["d"; 256].join("/");
    for bad in [
        "..",
        "a/../..",
        "/etc",
        "a%00",
        "",
        "out",
        "a.txt",
        ".offshoot-stage-x",
        &deep,
    ] {
        let refused = upload(&admin, bad, &[]);
        let path = format!("/api/v1/workspaces/mine/files/{bad}/a.txt");
        let put = admin.put(&path, b"a");
        let same = [put.code(), "path_traversal_blocked".to_owned()];
        assert!(same.contains(&refused.code()), "{bad} {}", refused.text());
        assert!(refused.status >= 400 && put.status >= 400, "{bad}");
    }
    assert!(files(&running).is_empty(), "nothing went where uploads go");
}

/// Repetitions that come while the first is under way wait for it.
#[test]
fn repetitions_at_once_make_one_file() {
    let (_data, running) = start();
    let mine = running.client_for("mine", &[]);
    let content = vec![b'x'; 300_000];
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let key = [("Idempotency-Key", "same")];
                let parts = [File("a.bin", &content[..])];
                let reply = send(&mine, "/api/v1/workspaces/mine/uploads", &key, &parts);
                assert_eq!(reply.json()["files"][0]["path"], "upload/a.bin");
            });
        }
    });
    assert_eq!(files(&running), ["mine/a.bin"]);
}

/// What is no content of a file is held in memory, so there is a limit to it.
#[test]
fn a_form_has_little_beside_its_files() {
    let (_data, running) = start();
    let client = running.client();
    let target = "/api/v1/workspaces/mine/uploads";
    let refused = send(&client, target, &[], &[File(&"n".repeat(5_000), b"x")]);
    assert_eq!(refused.code(), "invalid_request", "{}", refused.text());
    let much = "v".repeat(20 << 20);
    for parts in [
        &[Field("unknown", &much), File("a", b"x")][..],
        &[File(&much, b"x")],
    ] {
        let refused = send(&client, target, &[], parts);
        let code = refused.code();
        assert_eq!((refused.status, code.as_str()), (413, "payload_too_large"));
    }
    assert!(files(&running).is_empty());
    let large = vec![7; 24 << 20];
    let sent = send(&client, target, &[], &[File("large", &large)]);
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert_eq!(files(&running), ["mine/large"]);
}
