//! `offshoot merge-file`, by itself and as git's merge driver.

use std::path::Path;
use std::process::{Command, Output};

use offshoot_testkit::{git, git_command};

const BINARY: &str = env!("CARGO_BIN_EXE_offshoot");

fn merge(dir: &Path, sides: [&str; 3], args: &[&str]) -> Output {
    for (name, content) in ["base", "ours", "theirs"].iter().zip(sides) {
        std::fs::write(dir.join(name), content).unwrap();
    }
    Command::new(BINARY)
        .current_dir(dir)
        .args(["merge-file", "base", "ours", "theirs"])
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn clean_and_conflicting_text() {
    let dir = tempfile::tempdir().unwrap();
    let base = "a\nb\nc\nd\ne\n";
    let clean = merge(
        dir.path(),
        [base, "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n"],
        &[],
    );
    assert_eq!(clean.status.code(), Some(0));
    assert_eq!(clean.stdout, b"A\nb\nc\nd\nE\n");
    let conflict = merge(
        dir.path(),
        [base, "a\nX\nc\nd\ne\n", "a\nY\nc\nd\ne\n"],
        &[],
    );
    assert_eq!(conflict.status.code(), Some(1));
    assert_eq!(
        conflict.stdout, b"",
        "markers are written only when asked for"
    );
    assert!(String::from_utf8_lossy(&conflict.stderr).contains("conflict: lines 2 to 2"));
    let marked = merge(
        dir.path(),
        [base, "a\nX\nc\nd\ne\n", "a\nY\nc\nd\ne\n"],
        &["--markers", "-o", "ours"],
    );
    assert_eq!(marked.status.code(), Some(1));
    let ours = std::fs::read_to_string(dir.path().join("ours")).unwrap();
    assert_eq!(
        ours,
        "a\n<<<<<<< ours\nX\n=======\nY\n>>>>>>> theirs\nc\nd\ne\n"
    );
    let missing = Command::new(BINARY)
        .args(["--json", "merge-file", "no", "such", "file"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(255), "no conflict");
    let body: serde_json::Value = serde_json::from_slice(&missing.stdout).unwrap();
    assert_eq!(body["error"]["code"], "read_failed");
}

/// Git takes a driver that ends with 128 or less for one that merged.
#[test]
fn conflicts_exit_with_1_however_many_and_errors_above_127() {
    let dir = tempfile::tempdir().unwrap();
    let text = |changed: &str| -> String {
        let lines = (0..600).map(|n| match n % 3 {
            0 => format!("{changed} {n}\n"),
            _ => format!("same {n}\n"),
        });
        lines.collect()
    };
    let (base, ours, theirs) = (text("base"), text("ours"), text("theirs"));
    let cut =
        |text: &str, lines: usize| -> String { text.split_inclusive('\n').take(lines).collect() };
    let sides = [cut(&base, 6), cut(&ours, 6), cut(&theirs, 6)];
    let two = merge(dir.path(), [&sides[0], &sides[1], &sides[2]], &[]);
    assert_eq!(two.status.code(), Some(1), "2 conflicts");
    let many = merge(dir.path(), [&base, &ours, &theirs], &["--json"]);
    assert_eq!(many.status.code(), Some(1), "200 conflicts");
    let body: serde_json::Value = serde_json::from_slice(&many.stdout).unwrap();
    assert_eq!(body["conflicts"].as_array().unwrap().len(), 200);

    let unwritable = merge(
        dir.path(),
        ["a\n", "b\n", "a\n"],
        &["-o", "no/such/directory"],
    );
    assert_eq!(unwritable.status.code(), Some(255));
    for args in [&["merge-file", "base"][..], &["merge-file", "--nonsense"]] {
        let misused = Command::new(BINARY).args(args).output().unwrap();
        assert_eq!(misused.status.code(), Some(129), "{args:?}");
    }
}

#[test]
fn json_by_structure_keeps_its_formatting() {
    let dir = tempfile::tempdir().unwrap();
    let base = "{\n  \"a\": 1,\n  \"b\": 1.0\n}\n";
    let ours = "{\n  \"a\": 2,\n  \"b\": 1.0\n}\n";
    let theirs = "{\n  \"a\": 1,\n  \"b\": 1.0,\n  \"c\": 12345678901234567890\n}\n";
    let merged = merge(dir.path(), [base, ours, theirs], &["--path", "x.json"]);
    assert_eq!(merged.status.code(), Some(0), "{merged:?}");
    assert_eq!(
        String::from_utf8(merged.stdout).unwrap(),
        "{\n  \"a\": 2,\n  \"b\": 1.0,\n  \"c\": 12345678901234567890\n}\n"
    );
}

#[test]
fn git_uses_it_as_a_merge_driver() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    git(root, &["init", "-q", "-b", "main"]);
    let driver = format!("{BINARY} merge-file %O %A %B --path %P -o %A --markers");
    git(root, &["config", "merge.offshoot.driver", &driver]);
    std::fs::write(root.join(".gitattributes"), "*.json merge=offshoot\n").unwrap();
    let write = |text: &str| std::fs::write(root.join("list.json"), text).unwrap();
    let commit = |message: &str| {
        git(root, &["add", "-A"]);
        git(root, &["commit", "-q", "-m", message]);
    };
    write("{\n  \"agents\": [\"ada\"]\n}\n");
    commit("base");
    git(root, &["checkout", "-q", "-b", "side"]);
    write("{\n  \"agents\": [\"ada\", \"bob\"]\n}\n");
    commit("side");
    git(root, &["checkout", "-q", "main"]);
    write("{\n  \"agents\": [\"ada\", \"eve\"]\n}\n");
    commit("main");
    let merged = git_command(root)
        .args(["merge", "-q", "-m", "both", "side"])
        .output()
        .unwrap();
    assert!(merged.status.success(), "{merged:?}");
    let text = std::fs::read_to_string(root.join("list.json")).unwrap();
    assert!(
        text.contains("\"bob\"") && text.contains("\"eve\""),
        "{text}"
    );
}
