//! The data directory as a whole: whether it can be made, and how it goes away.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::process::Stdio;

use support::{Place, Ran};

fn refused(ran: &Ran) -> String {
    assert_eq!(ran.code, 1, "{}", ran.golden());
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn doctor_fails_if_the_data_directory_cannot_be_made() {
    let place = Place::new();
    fs::write(place.path().join("file"), "no directory").unwrap();
    for data in ["file/data", "file/deep/data", "/proc/offshoot-data"] {
        let ran = place.run(&["--data", data, "doctor"]);
        assert_eq!(ran.code, 1, "{}", ran.golden());
        let line = ran.stdout.lines().next().unwrap();
        assert!(line.starts_with("bad "), "{line}");
        assert!(line.contains("cannot be made"), "{line}");
        let report = place.run(&["--json", "--data", data, "doctor"]).json();
        assert_eq!(report["checks"][0]["ok"], false);
        assert!(report["checks"][0]["advice"].is_string());
    }
    let ran = place.done(&["--data", "new/deep", "doctor"]);
    assert!(
        ran.stdout.contains("new/deep (will be made"),
        "{}",
        ran.stdout
    );
    assert!(
        !place.path().join("new").exists(),
        "nothing stays of the trial"
    );
}

#[test]
fn data_remove_takes_everything_away() {
    let place = Place::with_workspace();
    place.put("a", b"1");
    place.done(&["project", "create", "p"]);
    place.run_with_input(&["project", "put", "p", "README"], b"begin\n");
    for agent in ["ada", "bob"] {
        place.done(&["fork", "p", "--agent", agent]);
    }
    // Neither a program nor a slip of the finger removes it.
    let ran = place.run(&["--json", "data", "remove"]);
    assert_eq!(refused(&ran), "invalid_request");
    assert!(place.data().join("offshoot.db").exists());
    place.done(&["cat", "w", "a"]);

    let ran = place.done(&["data", "remove", "--yes"]);
    assert!(ran.stdout.contains("3 workspaces"), "{}", ran.golden());
    assert!(!place.data().exists());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(place.data().to_str().unwrap()), "{mounts}");

    let ran = place.run(&["--json", "data", "remove", "--yes"]);
    assert_eq!(refused(&ran), "file_not_found");
}

#[test]
fn data_remove_touches_nothing_that_is_not_offshoots() {
    let place = Place::with_workspace();
    let other = place.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("precious"), "mine").unwrap();
    let ran = place.run(&["--json", "--data", "other", "data", "remove", "--yes"]);
    assert_eq!(refused(&ran), "invalid_request");
    assert_eq!(fs::read(other.join("precious")).unwrap(), b"mine");
    let named: Vec<_> = fs::read_dir(&other).unwrap().collect();
    assert_eq!(named.len(), 1, "nothing was made there either");

    // Somebody else's file in a data directory stays, and with it the directory.
    fs::write(place.data().join("notes"), "mine").unwrap();
    let ran = place.done(&["data", "remove", "--yes"]);
    assert!(ran.stderr.contains("left `notes`"), "{}", ran.golden());
    let named: Vec<_> = fs::read_dir(place.data()).unwrap().collect();
    assert_eq!(named.len(), 1);
}

#[test]
fn data_remove_waits_for_no_server_and_no_shell() {
    let place = Place::with_workspace();
    place.done(&["project", "create", "p"]);
    place.run_with_input(&["project", "put", "p", "README"], b"begin\n");
    let path = place.done(&["fork", "p", "--agent", "ada"]).stdout;
    let path = path.trim_end();

    // A program works in a fork. Only a mount shows that; a copy is removed under its hands.
    let mounted = place.done(&["--json", "forks"]).json()["forks"][0]["provider"] == "overlay";
    if mounted {
        let mut shell = std::process::Command::new("sleep")
            .arg("1000")
            .current_dir(path)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let ran = place.run(&["--json", "data", "remove", "--yes"]);
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert_eq!(refused(&ran), "workspace_busy");
    }

    let mut serve = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    serve.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = serve.spawn().unwrap();
    let mut line = String::new();
    let stdout = server.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let ran = place.run(&["--json", "data", "remove", "--yes"]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(refused(&ran), "workspace_busy");
    assert!(fs::read_dir(path).unwrap().count() > 0);
    place.done(&["data", "remove", "--yes"]);
    assert!(!place.data().exists());
}
