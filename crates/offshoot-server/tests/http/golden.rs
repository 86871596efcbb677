//! A dry run of every older route: the shape of each answer, compared with a committed file.
//!
//! A file in `snapshots` has the answer of one call: its status and its body. Where a value is the
//! same in every run it stands there as it is; every other stands as its type in angle brackets,
//! such as `<id>`, `<time>` or `<string>`. A field that comes, goes or changes its type makes the
//! test fail: programs that were written against the older specifications rely on them.
//!
//! To renew the files after a change that is meant:
//!
//! ```sh
//! INSTA_UPDATE=always cargo nextest run -p offshoot-server -E 'test(golden::)'
//! ```
//!
//! and read the difference: fields are added and never renamed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use offshoot_testkit::HostDir;
use serde_json::{Value, json};

use crate::common::{Client, Reply, Running, form};

/// Fields whose values are the same in every run.
const STABLE: [&str; 28] = [
    "change",
    "code",
    "content",
    "created",
    "dir_count",
    "encoding",
    "fileRef",
    "file_count",
    "files",
    "label",
    "landing",
    "merged",
    "message_id",
    "mimeType",
    "mime_type",
    "name",
    "op",
    "operator",
    "project",
    "readLength",
    "size",
    "start",
    "success",
    "total",
    "total_size",
    "type",
    "via",
    "workspace",
];

/// A value with what differs from run to run replaced by its type.
fn shape(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let shaped = fields
                .iter()
                .map(|(key, value)| (key.clone(), shape(key, value)));
            Value::Object(shaped.collect())
        }
        Value::Array(items) => items.iter().map(|item| shape(key, item)).collect(),
        Value::Number(_) | Value::String(_) if STABLE.contains(&key) => value.clone(),
        Value::Number(_) => json!("<number>"),
        Value::String(text) => json!(match text.as_str() {
            text if is_time(text) => "<time>",
            text if text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => "<id>",
            text if text.starts_with('/') => "<host path>",
            _ if key == "path" => return value.clone(),
            _ => "<string>",
        }),
        other => other.clone(),
    }
}

fn is_time(text: &str) -> bool {
    text.len() > 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T'
}

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/snapshots")
}

/// The calls that were made.
#[derive(Default)]
struct Book {
    tried: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Book {
    /// Compares the answer to a call of a route, which is named as the document names it.
    fn note(&mut self, route: &str, name: &str, reply: &Reply) {
        self.tried.insert(route.to_owned());
        assert!(
            self.names.insert(format!("{name}.snap")),
            "{name} is written twice"
        );
        let found = json!({
            "route": route, "status": reply.status, "body": shape("", &reply.json()),
        });
        let text = serde_json::to_string_pretty(&found).unwrap();
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, text);
        });
    }
}

/// The older routes, as the document has them.
fn older_routes(client: &Client) -> BTreeSet<String> {
    let document = client.get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let is_older = |path: &str| {
        !path.starts_with("/api/v1/") && path.starts_with("/api/")
            || path.starts_with("/api/v1/workspace/")
    };
    let mut found = BTreeSet::new();
    for (path, methods) in paths.iter().filter(|(path, _)| is_older(path)) {
        let methods = methods.as_object().unwrap().keys();
        let methods =
            methods.filter(|method| ["get", "post", "put", "delete"].contains(&method.as_str()));
        found.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    found
}

/// Calls about files and their history, in a plain workspace.
fn files(book: &mut Book, client: &Client) {
    let of = |rest: &str| format!("/api/workspace/w/{rest}");
    let (kind, body) = form(b"notes.md", b"# notes\n");
    let upload = |target: &str| {
        let headers = [
            ("Content-Type", kind.as_str()),
            ("Offshoot-Message-Id", "m-1"),
        ];
        client.send("POST", target.as_bytes(), &headers, &body)
    };
    let route = "POST /api/workspace/{workspace}/upload";
    book.note(route, "workspace-upload", &upload(&of("upload")));
    let (mut two, end) = (body.clone(), b"--frontier--\r\n".len());
    two.truncate(body.len() - end);
    two.extend_from_slice(&body);
    let headers = [("Content-Type", kind.as_str())];
    let several = client.send("POST", of("upload").as_bytes(), &headers, &two);
    book.note(route, "workspace-upload-several", &several);
    book.note("POST /api/upload", "upload", &upload("/api/upload"));
    let read = "GET /api/workspace/{workspace}/read/{path}";
    let window = client.get(&of("read/upload/notes.md?offset=2&length=5"));
    book.note(read, "workspace-read", &window);
    book.note(
        read,
        "workspace-read-missing",
        &client.get(&of("read/none")),
    );
    book.note(
        read,
        "workspace-read-outside",
        &client.get(&of("read/..%2Fx")),
    );
    let list = "GET /api/workspace/{workspace}/list";
    book.note(list, "workspace-list", &client.get(&of("list")));
    book.note(
        list,
        "workspace-list-path",
        &client.get(&of("list?path=upload")),
    );
    let tree = "GET /api/workspace/{workspace}/tree";
    book.note(tree, "workspace-tree", &client.get(&of("tree")));
    let delete = "DELETE /api/workspace/{workspace}/delete/{path}";
    let deleted = client.delete(&of("delete/upload/notes.md"));
    book.note(delete, "workspace-delete", &deleted);
    let sync = "POST /api/workspace/{workspace}/sync";
    book.note(sync, "workspace-sync", &client.post(&of("sync"), ""));
    let history = "GET /api/workspace/{workspace}/history";
    let lines = client.get(&of("history?path=upload/notes.md"));
    book.note(history, "workspace-history", &lines);
}

/// Calls about the snapshots of a session.
fn sessions(book: &mut Book, client: &Client) {
    let put = client.put("/api/v1/workspaces/chat/files/outputs/a", b"one\n");
    assert_eq!(put.status, 201);
    let target = "/api/session/workspace/snapshots";
    let taken = client.post(target, r#"{"label":"first"}"#);
    book.note(
        "POST /api/session/workspace/snapshots",
        "session-snapshot",
        &taken,
    );
    let listed = client.get(target);
    book.note(
        "GET /api/session/workspace/snapshots",
        "session-snapshots",
        &listed,
    );
    client.put("/api/v1/workspaces/chat/files/outputs/a", b"two\n");
    let route = "POST /api/session/workspace/restore";
    let restore = |snapshot: &str| {
        let body = json!({ "snapshot": snapshot }).to_string();
        client.post("/api/session/workspace/restore", &body)
    };
    let restored = restore(taken.json()["id"].as_str().unwrap());
    book.note(route, "session-restore", &restored);
    book.note(route, "session-restore-missing", &restore(&"0".repeat(40)));
}

/// Calls about the forks of agents.
fn forks(book: &mut Book, client: &Client) {
    client.create_project("p", &[("a", "a\n")]);
    client.fork("p", "ada");
    client.put("/api/v1/workspaces/ada/files/b", b"b\n");
    let route = "GET /api/v1/workspace/{project}/path";
    let path = client.get("/api/v1/workspace/p/path");
    book.note(route, "fork-path", &path);
    let named = client.get("/api/v1/workspace/p/path?agent_id=nobody");
    book.note(route, "fork-path-missing", &named);
    let route = "POST /api/v1/workspace/{agent}/complete";
    let complete = |agent: &str| client.post(&format!("/api/v1/workspace/{agent}/complete"), "");
    book.note(route, "agent-complete", &complete("ada"));
    book.note(route, "agent-complete-missing", &complete("nobody"));
}

#[test]
fn older_routes_answer_in_the_shapes_of_their_specifications() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let admin = running.client();
    admin.create("w");
    let session = json!({ "id": "chat", "layout": "session" }).to_string();
    assert_eq!(admin.post("/api/v1/workspaces", &session).status, 201);
    let mut book = Book::default();
    files(&mut book, &running.agent("w"));
    sessions(&mut book, &admin);
    forks(&mut book, &admin);
    assert_eq!(book.tried, older_routes(&admin), "a route is not tried");
    let files = std::fs::read_dir(dir()).unwrap();
    let files: BTreeSet<String> = files
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, book.names, "a file belongs to no call");
}
