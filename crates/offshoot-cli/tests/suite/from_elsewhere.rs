//! What comes from elsewhere: repositories of other machines, and uploads.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use crate::support::Place;
use offshoot_testkit::Process;
use serde_json::{Value, json};

/// A server on a free port of this machine, and a token for it.
struct Served {
    _process: Process,
    address: String,
    token: String,
}

impl Served {
    fn start(place: &Place) -> Served {
        let token = place.done(&["--quiet", "token", "issue", "--admin"]).stdout;
        let mut command = place.command(&["--json", "serve", "--listen", "localhost:0"]);
        let mut process = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let stdout = process.take_stdout().unwrap();
        let mut documents = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
        let told = documents.next().unwrap().unwrap();
        Served {
            _process: process,
            address: told["listen"].as_str().unwrap().to_owned(),
            token: token.trim().to_owned(),
        }
    }

    fn repository(&self, project: &str) -> String {
        let (token, address) = (&self.token, &self.address);
        format!("http://x:{token}@{address}/git/{project}.git")
    }
}

#[test]
fn a_project_from_the_address_of_a_repository() {
    let there = Place::new();
    there.done(&["project", "create", "p"]);
    for (path, content) in [("README", "read me\n"), (".gitignore", "*.log\n")] {
        there.run_with_input(&["project", "put", "p", path], content.as_bytes());
    }
    let served = Served::start(&there);
    assert!(
        served.address.starts_with("127.0.0.1:"),
        "{}",
        served.address
    );
    let from = served.repository("p");

    let here = Place::new();
    let temp = here.path().join("temp");
    fs::create_dir(&temp).unwrap();
    let create = |project: &str, more: &[&str]| {
        let args = [&["project", "create", project, "--from", &from][..], more].concat();
        let output = here.command(&args).env("TMPDIR", &temp).output().unwrap();
        let left: Vec<_> = fs::read_dir(&temp).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, _, stderr) = create("copy", &[]);
    assert_eq!(code, Some(0), "{stderr}");
    let ids = |place: &Place, project: &str| -> Vec<String> {
        let log = place.done(&["--json", "project", "log", project]).json();
        let snapshots = log["snapshots"].as_array().unwrap().clone();
        let id = |one: &Value| one["id"].as_str().unwrap().to_owned();
        snapshots.iter().map(id).collect()
    };
    assert_eq!(
        ids(&here, "copy"),
        ids(&there, "p"),
        "the history with its ids"
    );

    // The files alone, as one snapshot.
    let (code, _, stderr) = create("files", &["--files", "-m", "begin"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(ids(&here, "files").len(), 1);
    let read = here.done(&["project", "cat", "files", "README"]);
    assert_eq!(read.stdout, "read me\n");

    // What goes wrong is told without the secret.
    let (code, stdout, _) = create("copy", &["--json"]);
    assert_eq!(code, Some(1));
    assert!(stdout.contains("already_exists"), "{stdout}");
    let from = served.repository("nothing");
    let ran = here.run(&["--json", "project", "create", "q", "--from", &from]);
    assert_eq!(ran.json()["error"]["code"], "read_failed");
    assert!(!ran.golden().contains(&served.token), "{}", ran.golden());
    let output = here
        .command(&["--json", "project", "create", "q", "--from", &from])
        .env("PATH", &temp)
        .output()
        .unwrap();
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(error["error"]["code"], "unsupported");
    assert!(
        error["error"]["message"]
            .as_str()
            .unwrap()
            .contains("git is not installed")
    );
    assert_eq!(here.run(&["project", "show", "q"]).code, 1);
}

#[test]
fn an_address_to_listen_on_may_be_localhost() {
    let place = Place::new();
    for bad in ["localhost", "localhost:", "localhost:70000", "elsewhere:1"] {
        let ran = place.run(&["--json", "serve", "--listen", bad]);
        assert_eq!(ran.json()["error"]["code"], "invalid_request", "{bad}");
    }
}

#[test]
fn an_upload_answers_as_http_does_and_keeps_its_time() {
    let place = Place::with_workspace();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 500_000_000);
    let source = place.path().join("photo.png");
    fs::write(&source, b"\x89PNG\r\n\x1a\n").unwrap();
    let file = fs::File::options().write(true).open(&source).unwrap();
    file.set_modified(old).unwrap();
    let up = place.done(&["--json", "upload", "w", "photo.png"]).json();
    let named = ["success", "path", "type", "name"].map(|name| up[name].clone());
    let path = up["path"].as_str().unwrap();
    assert_eq!(
        named,
        [
            json!(true),
            json!("upload/photo.png"),
            json!("image"),
            json!("photo.png")
        ]
    );
    assert_eq!(up["mimeType"], "image/png");
    assert_eq!(up["fileRef"], "workspace:upload/photo.png");
    assert!(
        up["version"].is_i64() && up["id"].is_string(),
        "as every write: {up}"
    );
    let there = place.done(&["workspace", "path", "w"]).stdout;
    let there = std::path::Path::new(there.trim_end()).join(path);
    assert_eq!(fs::metadata(there).unwrap().modified().unwrap(), old);
    // What outside programs do is still found, and this was none of it.
    let synced = place.done(&["--json", "sync", "w"]).json();
    assert_eq!(synced["changes"], json!([]));
    let listed = place.done(&["--json", "ls", "w", "upload"]).json();
    assert_eq!(
        listed["entries"][0]["modified_at"],
        "2001-09-09T01:46:40.500000Z"
    );

    for args in [
        &["upload", "w", "nowhere"][..],
        &["put", "w", "a", "nowhere"],
    ] {
        let ran = place.run(&[&["--json"], args].concat());
        assert_eq!(ran.json()["error"]["code"], "file_not_found", "{args:?}");
    }
}
