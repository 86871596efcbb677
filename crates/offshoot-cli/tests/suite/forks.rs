//! Forks beside each other, and what is left of one that is gone, through the real binary.

use std::fs;
use std::path::PathBuf;

use crate::support::Place;
use serde_json::{Value, json};

/// A place with the project `p`.
fn with_project() -> Place {
    let place = Place::new();
    place.done(&["project", "create", "p"]);
    for path in ["README", "src/main.rs"] {
        let ran = place.run_with_input(&["project", "put", "p", path], b"begin\n");
        assert_eq!(ran.code, 0, "{}", ran.golden());
    }
    place
}

fn fork(place: &Place, agent: &str) -> PathBuf {
    let ran = place.done(&["fork", "p", "--agent", agent]);
    PathBuf::from(ran.stdout.trim_end())
}

fn json(place: &Place, args: &[&str]) -> Value {
    place.done(&[&["--json"], args].concat()).json()
}

/// Runs a command that was printed, as it stands.
fn typed(place: &Place, line: &str) -> String {
    let script = line.replacen("offshoot", env!("CARGO_BIN_EXE_offshoot"), 1);
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("OFFSHOOT_DATA", place.data())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn printed_way_back(place: &Place, fork: &str) -> String {
    let ran = place.done(&["workspace", "delete", fork]);
    let (_, command) = ran.stdout.split_once("bring it back with: ").unwrap();
    command.trim_end().to_owned()
}

/// A fork that comes back as a plain workspace could never be merged.
#[test]
fn the_command_that_deleting_a_fork_prints_brings_a_fork_back() {
    let place = with_project();
    let path = fork(&place, "ada");
    fs::write(path.join("README"), "ada's\n").unwrap();
    let command = printed_way_back(&place, "ada");
    // Asked again, the answer is the same.
    assert_eq!(printed_way_back(&place, "ada"), command);
    let path = PathBuf::from(typed(&place, &command).trim_end());
    assert_eq!(fs::read_to_string(path.join("README")).unwrap(), "ada's\n");
    assert_eq!(place.done(&["status", "ada"]).stdout, "M  README\n");
    place.done(&["complete", "ada"]);
    let ran = place.done(&["project", "cat", "p", "README"]);
    assert_eq!(ran.stdout, "ada's\n");

    // One without an agent gets a new name; its weight and its `.git` come back too.
    let ran = place.done(&["--json", "fork", "p", "--priority", "-3", "--git"]);
    let id = ran.json()["id"].as_str().unwrap().to_owned();
    let command = printed_way_back(&place, &id);
    let back = typed(&place, &command.replacen("offshoot", "offshoot --json", 1));
    let back: Value = serde_json::from_str(&back).unwrap();
    assert_eq!(
        (&back["priority"], &back["git"]),
        (&json!(-3), &json!(true))
    );

    // Without its project it cannot be a fork again.
    let id = back["id"].as_str().unwrap();
    place.done(&["workspace", "delete", id]);
    place.done(&["project", "delete", "p"]);
    let command = printed_way_back(&place, id);
    typed(&place, &command);
    assert_eq!(place.done(&["cat", id, "README"]).stdout, "ada's\n");
}

#[test]
fn forks_are_shown_beside_each_other() {
    let place = with_project();
    let one = fork(&place, "one");
    let two = fork(&place, "two");
    place.done(&["workspace", "create", "plain"]);
    for path in [&one, &two] {
        fs::write(path.join("README"), path.to_str().unwrap()).unwrap();
    }
    fs::write(two.join("new"), "new\n").unwrap();
    place.run_with_input(&["project", "put", "p", "README"], b"later\n");

    let all = json(&place, &["forks", "p"]);
    let [one, two] = &all["forks"].as_array().unwrap()[..] else {
        panic!("two forks: {all}");
    };
    assert_eq!(
        one["overlap"],
        json!([{"fork": "two", "paths": ["README"]}])
    );
    assert_eq!(one["overlap_with_project"], json!(["README"]));
    let counts = ["changed", "behind", "open_reviews"].map(|name| two[name].as_i64().unwrap());
    assert_eq!(counts, [2, 1, 0]);
    assert_eq!(
        (&two["project"], &two["agent"]),
        (&json!("p"), &json!("two"))
    );
    assert_eq!(two["last_operation"]["path"], "new");
    assert_eq!(json(&place, &["forks"]), all);

    let base = &two["base_snapshot"].as_str().unwrap()[..12];
    let provider = two["provider"].as_str().unwrap();
    let ran = place.done(&["forks", "p"]);
    let lines: Vec<Vec<&str>> = (ran.stdout.lines())
        .map(|line| line.split_whitespace().collect())
        .collect();
    let columns = "FORK PROJECT AGENT BASE CHANGES BEHIND REVIEWS PROVIDER OVERLAP";
    assert_eq!(lines[0].join(" "), columns);
    assert_eq!(
        lines[2].join(" "),
        format!("two p two {base} 2 1 0 {provider} the project (1), one (1)")
    );

    // The same where workspaces are shown.
    let list = json(&place, &["workspace", "list"]);
    assert_eq!(list["workspaces"][0]["fork"]["changed"], 1);
    assert_eq!(list["workspaces"][1]["fork"], Value::Null);
    let ran = place.done(&["workspace", "list"]);
    for column in ["PROJECT", "AGENT", "BASE", "CHANGES", "PROVIDER", "OVERLAP"] {
        assert!(ran.stdout.lines().next().unwrap().contains(column));
    }
    assert_eq!(
        json(&place, &["workspace", "show", "two"])["fork"]["changed"],
        2
    );
    let shown = place.done(&["workspace", "show", "two"]).stdout;
    for line in ["project          p\n", "overlap          one: README\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    let ran = place.run(&["--json", "forks", "nothing"]);
    assert_eq!(ran.json()["error"]["code"], "project_not_found");
}

#[test]
fn a_completed_fork_tells_its_history_snapshots_and_difference() {
    let place = with_project();
    let path = fork(&place, "ada");
    fs::write(path.join("README"), "ada's\n").unwrap();
    place.done(&["snapshot", "ada", "-m", "half"]);
    fs::write(path.join("new"), "new\n").unwrap();
    place.done(&["complete", "ada"]);
    assert!(!path.exists());

    let snapshots = json(&place, &["snapshots", "ada"]);
    let snapshots = snapshots["snapshots"].as_array().unwrap();
    assert_eq!(snapshots[1]["label"], "half");
    let history = json(&place, &["history", "ada", "README"]);
    assert_eq!(history["history"].as_array().unwrap().len(), 1);
    // Everything that it changed, or what came after a snapshot.
    let ran = place.done(&["diff", "ada", "--name-only"]);
    assert_eq!(ran.stdout, "README\nnew\n");
    let half = snapshots[1]["id"].as_str().unwrap();
    let ran = place.done(&["diff", "ada", "--from", half, "--name-only"]);
    assert_eq!(ran.stdout, "new\n");

    // A fork of the same name comes first, and nothing else is there of the one that is gone.
    assert_eq!(place.run(&["ls", "ada"]).code, 1);
    fork(&place, "ada");
    let snapshots = json(&place, &["snapshots", "ada"]);
    assert_eq!(snapshots["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn the_snapshot_of_a_merge_is_called_as_asked() {
    let place = with_project();
    for (agent, label) in [("ada", Some("- a new port")), ("bob", None)] {
        let path = fork(&place, agent);
        fs::write(path.join(agent), "new\n").unwrap();
        match label {
            Some(label) => place.done(&["complete", agent, "-m", label]),
            None => place.done(&["complete", agent]),
        };
    }
    let log = json(&place, &["project", "log", "p", "-n", "2"]);
    let labels: Vec<&str> = (log["snapshots"].as_array().unwrap().iter())
        .map(|one| one["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["Merge bob", "- a new port"]);
    fork(&place, "cleo");
    let long = "x".repeat(100_000);
    let ran = place.run(&["--json", "complete", "cleo", "--label", &long]);
    assert_eq!(ran.json()["error"]["code"], "invalid_request");
}

/// Every further command in such a directory fails in words that explain nothing.
#[test]
fn a_user_in_a_directory_that_is_removed_is_told() {
    let place = with_project();
    let told = "your shell stands in a directory that is gone; leave it with: cd\n";
    for (agent, args) in [
        ("ada", &["complete", "ada"][..]),
        ("bob", &["workspace", "delete", "bob"]),
    ] {
        let path = fork(&place, agent);
        fs::create_dir_all(path.join("deep")).unwrap();
        fs::write(path.join("deep/new"), agent).unwrap();
        let output = (place.command(args).current_dir(path.join("deep")))
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let gone = !path.exists();
        assert_eq!(stderr.contains(told), gone, "{agent}: {stderr}");
    }
    // Neither from elsewhere nor if it stays.
    let path = fork(&place, "cleo");
    fs::write(path.join("cleo"), "new\n").unwrap();
    let kept = (place
        .command(&["complete", "cleo", "--keep"])
        .current_dir(&path))
    .output()
    .unwrap();
    assert!(!String::from_utf8_lossy(&kept.stderr).contains("gone"));
    let ran = place.done(&["complete", "cleo"]);
    assert!(!ran.stderr.contains("gone"), "{}", ran.stderr);
}
