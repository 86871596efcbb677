//! The data directory as a whole: whether it can be made, and how it goes away.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Place, Ran};
use offshoot_testkit::skip;

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
    place.done(&["workspace", "path", "w"]);
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

/// A project with one file and a fork of it, whose path is returned if it is a mount.
fn with_mounted_fork(place: &Place) -> Option<std::path::PathBuf> {
    place.done(&["project", "create", "p"]);
    place.run_with_input(&["project", "put", "p", "README"], b"begin\n");
    let path = place.done(&["fork", "p", "--agent", "ada"]).stdout;
    let forks = place.done(&["--json", "forks"]).json();
    if forks["forks"][0]["provider"] != "overlay" {
        skip("forks are no mounts here");
        return None;
    }
    Some(path.trim_end().into())
}

fn unmount(path: &Path) {
    let ended = Command::new("umount").arg(path).status().unwrap();
    assert!(ended.success());
}

#[test]
fn data_remove_after_a_restart_of_the_machine() {
    let place = Place::new();
    let Some(path) = with_mounted_fork(&place) else {
        return;
    };
    // A restart leaves the place of the mount, which nothing can be written into or removed from.
    unmount(&path);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    assert!(fs::write(path.join("lost"), "work").is_err());
    assert!(fs::remove_dir_all(place.data()).is_err(), "`rm -r` cannot");

    let ran = place.done(&["data", "remove", "--yes"]);
    assert!(ran.stdout.contains("0 mounts"), "{}", ran.golden());
    assert!(!place.data().exists());
}

#[test]
fn workspace_convert_makes_a_copy_of_a_fork_that_cannot_be_mounted() {
    let place = Place::new();
    let Some(path) = with_mounted_fork(&place) else {
        return;
    };
    fs::write(path.join("README"), "changed\n").unwrap();
    fs::write(path.join("new"), "new\n").unwrap();
    place.done(&["status", "ada"]);
    // Nobody has recorded this one when the mount goes.
    fs::write(path.join("late"), "late\n").unwrap();
    unmount(&path);
    // Without a work directory of its own an overlay cannot be mounted.
    let work = place.data().join("forks/ada.1/work");
    fs::remove_dir_all(&work).unwrap();
    std::os::unix::fs::symlink("/proc", &work).unwrap();

    let ran = place.run(&["status", "ada"]);
    assert_eq!(ran.code, 1, "{}", ran.golden());
    let convert = "workspace convert ada --provider copy";
    assert!(ran.stderr.contains(convert), "{}", ran.golden());
    let ran = place.done(&convert.split(' ').collect::<Vec<_>>());
    assert_eq!(ran.stdout, "`ada` is made by copy now\n");
    assert_eq!(fs::read(path.join("README")).unwrap(), b"changed\n");
    assert_eq!(fs::read(path.join("late")).unwrap(), b"late\n");
    let forks = place.done(&["--json", "forks"]).json();
    assert_eq!(forks["forks"][0]["provider"], "copy");
    let ran = place.done(&convert.split(' ').collect::<Vec<_>>());
    assert!(ran.stdout.starts_with("nothing to do"), "{}", ran.golden());

    // It is a fork like any other.
    place.done(&["complete", "ada"]);
    assert_eq!(
        place.done(&["project", "cat", "p", "README"]).stdout,
        "changed\n"
    );
    assert_eq!(
        place.done(&["project", "cat", "p", "late"]).stdout,
        "late\n"
    );
    place.done(&["check"]);
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
        let mut shell = Command::new("sleep")
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
