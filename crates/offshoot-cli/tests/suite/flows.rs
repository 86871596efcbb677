//! The main flows through the real binary: exit code, stdout and stderr to the letter.

use crate::support::Place;

#[track_caller]
fn golden(ran: &crate::support::Ran, expected: &str) {
    assert_eq!(ran.golden(), expected);
}

#[test]
fn create_write_list_read() {
    let place = Place::new();
    golden(
        &place.run(&["workspace", "create", "w"]),
        "exit 0\n--- stdout\nw\n--- stderr\n",
    );
    assert!(!place.data().join("workspaces/w").exists(), "a row only");
    golden(&place.run(&["ls", "w"]), "exit 0\n--- stdout\n--- stderr\n");
    golden(
        &place.run_with_input(&["put", "w", "src/a.txt", "-"], b"hello\n"),
        "exit 0\n--- stdout\ncreated src/a.txt (6 B, version 2)\n--- stderr\n",
    );
    golden(
        &place.run_with_input(&["put", "w", "src/a.txt"], b"hello again\n"),
        "exit 0\n--- stdout\nwrote src/a.txt (12 B, version 3)\n--- stderr\n",
    );
    golden(
        &place.run(&["ls", "w", "src"]),
        "exit 0\n--- stdout\n\
         TYPE  SIZE  MODIFIED  OPERATOR  NAME\n\
         file  12 B  just now  user      a.txt\n--- stderr\n",
    );
    golden(
        &place.run(&["cat", "w", "src/a.txt"]),
        "exit 0\n--- stdout\nhello again\n--- stderr\n",
    );
    golden(
        &place.run(&["cat", "w", "src/a.txt", "--offset", "6", "--length", "3"]),
        "exit 0\n--- stdout\naga--- stderr\n",
    );
    golden(
        &place.run(&["edit", "w", "src/a.txt", "--old", "again", "--new", "-you-"]),
        "exit 0\n--- stdout\nreplaced 1 place in src/a.txt (version 4)\n--- stderr\n",
    );
    golden(
        &place.run(&["mv", "w", "src/a.txt", "doc/b.txt"]),
        "exit 0\n--- stdout\nmoved src/a.txt to doc/b.txt\n--- stderr\n",
    );
    golden(
        &place.run(&["mkdir", "w", "doc/deep/er"]),
        "exit 0\n--- stdout\ndoc/deep/er/\n--- stderr\n",
    );
    golden(
        &place.run(&["tree", "w"]),
        "exit 0\n--- stdout\n./\n├── doc/\n│   └── deep/\n│       └── er/\n└── src/\n--- stderr\n",
    );
    golden(
        &place.run(&["rm", "w", "doc", "-r"]),
        "exit 0\n--- stdout\ndeleted doc (1 file)\n--- stderr\n",
    );
    golden(
        &place.run(&["workspace", "list"]),
        "exit 0\n--- stdout\n\
         WORKSPACE  LAYOUT  FILES  SIZE  CHANGED   SNAPSHOT\n\
         w          plain       0   0 B  just now  -\n--- stderr\n",
    );
}

#[test]
fn history_names_who_and_why() {
    let place = Place::with_workspace();
    let put = ["put", "w", "a", "--operator", "ada", "--message", "m-1"];
    assert_eq!(place.run_with_input(&put, b"1").code, 0);
    golden(
        &place.run(&["history", "w", "a"]),
        "exit 0\n--- stdout\n\
         VERSION  WHEN      OPERATOR  MESSAGE  WHAT    SIZE  CONTENT       PATH\n      \
         2  just now  ada       m-1      create   1 B  ID  a\n--- stderr\n",
    );
    let history = place.done(&["--json", "history", "w", "-n", "1"]).json();
    assert_eq!(history["history"][0]["operator"], "ada");
    assert_eq!(history["history"][0]["message_id"], "m-1");
    assert_eq!(history["history"].as_array().unwrap().len(), 1);
}

#[test]
fn snapshot_outside_change_sync_diff_restore() {
    let place = Place::with_workspace();
    place.put("a.txt", b"one\ntwo\n");
    let first = place.snapshot("first");
    let path = place.done(&["workspace", "path", "w"]).stdout;
    let dir = std::path::PathBuf::from(path.trim());
    std::fs::write(dir.join("a.txt"), "one\nTWO\n").unwrap();
    std::fs::write(dir.join("b.bin"), b"\0\x01").unwrap();
    golden(
        &place.run(&["sync", "w"]),
        "exit 0\n--- stdout\nwrite   a.txt\ncreate  b.bin\n\
         --- stderr\nrecorded 2 changes made by outside programs\n",
    );
    golden(
        &place.run(&["status", "w"]),
        "exit 0\n--- stdout\nM  a.txt\nA  b.bin\n--- stderr\n2 changes since snapshot ID\n",
    );
    golden(
        &place.run(&["diff", "w"]),
        "exit 0\n--- stdout\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n\
         Binary file b.bin differs\n--- stderr\n",
    );
    golden(
        &place.run(&["diff", "w", "--stat"]),
        "exit 0\n--- stdout\n    +1  -1  a.txt\nbinary      b.bin\n\
         2 paths changed, 1 lines added, 1 removed\n--- stderr\n",
    );
    golden(
        &place.run(&["diff", "w", "--name-only"]),
        "exit 0\n--- stdout\na.txt\nb.bin\n--- stderr\n",
    );
    golden(
        &place.run(&["restore", "w", &first[..8]]),
        "exit 0\n--- stdout\nM  a.txt\nD  b.bin\n\
         restored `w` to snapshot ID: 2 paths changed\n\
         the state before is kept as snapshot ID\n\
         bring it back with: offshoot restore w ID\n--- stderr\n",
    );
    assert_eq!(std::fs::read(dir.join("a.txt")).unwrap(), b"one\ntwo\n");
    assert!(!dir.join("b.bin").exists());
}

/// The command that a restore prints is run as it stands, data directory included.
#[test]
fn the_command_that_restore_prints_brings_the_state_back() {
    let place = Place::with_workspace();
    place.put("dir with space/a", b"old");
    let first = place.snapshot("first");
    place.put("dir with space/a", b"new");
    let data = place.data();
    let data = data.to_str().unwrap();
    let path = "dir with space/a";
    let ran = place.done(&["--data", data, "restore", "w", &first, path]);
    assert_eq!(place.done(&["cat", "w", path]).stdout, "old");
    place.put("other", b"later");
    let (_, command) = ran.stdout.split_once("bring it back with: ").unwrap();
    let script = command.replacen("offshoot", env!("CARGO_BIN_EXE_offshoot"), 1);
    let status = std::process::Command::new("sh")
        .args(["-c", &script])
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{script}");
    assert_eq!(place.done(&["cat", "w", path]).stdout, "new");
    assert_eq!(place.done(&["cat", "w", "other"]).stdout, "later");
}

#[test]
fn a_snapshot_prints_its_id_and_nothing_else() {
    let place = Place::with_workspace();
    place.put("a", b"1");
    let first = place.snapshot("label");
    assert_eq!(first.len(), 40);
    let again = place.run(&["snapshot", "w"]);
    assert_eq!(again.stdout.trim(), first);
    assert_eq!(
        again.stderr,
        "nothing changed since the newest snapshot, which this is\n"
    );
    assert_eq!(place.run(&["snapshot", "w", "--quiet"]).stderr, "");
    golden(
        &place.run(&["snapshots", "w"]),
        "exit 0\n--- stdout\n\
         SNAPSHOT      TAKEN     FILES  SIZE  OPERATOR  LABEL\n\
         ID  just now      1   1 B  user      label\n--- stderr\n",
    );
    assert_eq!(place.done(&["cat", "w", "a", "--at", &first]).stdout, "1");
}

#[test]
fn preconditions_mime_and_mode() {
    let place = Place::with_workspace();
    place.put("a", b"1");
    let id = place.done(&["--json", "info", "w", "a"]).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = place.run_with_input(&["--json", "put", "w", "a", "--if-absent"], b"2");
    assert_eq!(refused.code, 1);
    assert_eq!(refused.json()["error"]["code"], "precondition_failed");
    let put = [
        "--json",
        "put",
        "w",
        "a",
        "--if-match",
        &id,
        "--executable",
        "--mime",
        "x/y",
    ];
    let written = place.run_with_input(&put, b"2").json();
    assert_eq!(written["version"], 3);
    assert_eq!(written["created"], false);
    let info = place.done(&["--json", "info", "w", "a"]).json();
    assert_eq!(
        (&info["mode"], &info["mime_type"]),
        (&"0755".into(), &"x/y".into())
    );
    place.put("a", b"3");
    assert_eq!(
        place.done(&["--json", "metadata", "w", "a"]).json()["mode"],
        "0755"
    );
}

#[test]
fn upload_never_overwrites() {
    let place = Place::with_workspace();
    std::fs::write(place.path().join("r.csv"), "a,b\n").unwrap();
    let first = place.done(&["--json", "upload", "w", "r.csv"]).json();
    let second = place.done(&["--json", "upload", "w", "r.csv"]).json();
    assert_eq!(first["path"], "upload/r.csv");
    assert_eq!(second["path"], "upload/r (1).csv");
}

#[test]
fn delete_keeps_the_last_state() {
    let place = Place::with_workspace();
    place.put("a", b"1");
    let deleted = place.done(&["workspace", "delete", "w"]).stdout;
    assert!(deleted.starts_with("deleted `w`\nits last state is kept as snapshot "));
    let again = place.done(&["--json", "workspace", "delete", "w"]).json();
    assert_eq!(again["deleted"], false);
    assert!(!place.data().join("workspaces/w").exists());
    // The command that is printed brings it back.
    let kept = deleted.trim_end().rsplit(' ').next().unwrap();
    assert!(deleted.contains("workspace create w --from "), "{deleted}");
    place.done(&["workspace", "create", "w", "--from", kept]);
    assert_eq!(place.done(&["cat", "w", "a"]).stdout, "1");
}

#[test]
fn clean_purge_and_check() {
    let place = Place::with_workspace();
    place.put("secret", b"hunter2");
    place.snapshot("with a secret");
    place.done(&["workspace", "path", "w"]);
    let plan = place
        .done(&["--json", "clean", "--days", "0", "--dry-run"])
        .json();
    assert_eq!(
        (&plan["dry_run"], &plan["workspaces"][0]["id"]),
        (&true.into(), &"w".into())
    );
    assert!(place.data().join("workspaces/w").exists());
    let cleaned = place.done(&["--json", "clean", "--days", "0"]).json();
    assert_eq!(cleaned["workspaces"].as_array().unwrap().len(), 1);
    assert!(!place.data().join("workspaces/w").exists());
    assert_eq!(place.done(&["cat", "w", "secret"]).stdout, "hunter2");
    let nothing = place.done(&["clean"]).stdout;
    assert_eq!(
        nothing,
        "removed 0 directories (0 B)\ncollected 0 objects (0 B)\n"
    );
    let purged = place
        .done(&["--json", "purge", "path", "w", "secret"])
        .json();
    assert_eq!(purged["files"][0]["path"], "secret");
    assert_ne!(place.done(&["cat", "w", "secret"]).stdout, "hunter2");
    let check = place.done(&["--json", "check"]).json();
    assert_eq!(check["problems"], serde_json::json!([]));
    place.done(&["purge", "workspace", "w", "--yes"]);
    assert_eq!(place.run(&["ls", "w"]).code, 1);
}

#[test]
fn check_fails_when_content_is_not_what_was_written() {
    let place = Place::with_workspace();
    let mut large = vec![0; 300_000];
    offshoot_testkit::Rng::new(1).fill(&mut large);
    place.put("a", &large);
    let mut dirs = vec![place.data().join("blobs")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => std::fs::write(path, "X").unwrap(),
            }
        }
    }
    let check = place.run(&["--json", "check"]);
    assert_eq!(check.code, 1);
    assert_ne!(check.json()["problems"], serde_json::json!([]));
}

#[test]
fn export_is_a_repository_for_stock_git() {
    let place = Place::with_workspace();
    place.put("src/a.txt", b"one\n");
    place.snapshot("first");
    place.put("src/a.txt", b"two\n");
    place.snapshot("second");
    golden(
        &place.run(&["workspace", "export", "w", "--git", "out.git"]),
        "exit 0\n--- stdout\nexported 2 snapshots of `w` as branch `main`: 8 new objects\n--- stderr\n",
    );
    let repository = place.path().join("out.git");
    let log = offshoot_testkit::git(&repository, &["log", "--format=%s", "main"]);
    assert_eq!(log.trim(), "second\nfirst");
    offshoot_testkit::git(&repository, &["fsck", "--strict"]);
    let again = place.done(&["--json", "workspace", "export", "w", "--git", "out.git"]);
    assert_eq!(again.json()["objects"], 0);
}

/// What `diff` prints is what `git apply` reads.
#[test]
fn diff_is_a_patch() {
    let place = Place::with_workspace();
    let lines = |from: usize, to: usize| -> Vec<u8> {
        (from..to)
            .flat_map(|n| format!("line {n}\n").into_bytes())
            .collect()
    };
    let before: &[(&str, Vec<u8>)] = &[
        ("many", lines(0, 100)),
        ("no-newline", b"x\ny".to_vec()),
        ("gone", b"bye\n".to_vec()),
        ("latin", b"caf\xe9\nx\n".to_vec()),
    ];
    let tree = place.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for (path, content) in before {
        place.put(path, content);
        std::fs::write(tree.join(path), content).unwrap();
    }
    place.snapshot("before");
    let mut many = lines(0, 10);
    many.extend(b"new\n");
    many.extend(lines(12, 60));
    many.extend(lines(61, 100));
    let after: &[(&str, Vec<u8>)] = &[
        ("many", many),
        ("no-newline", b"x\ny\nz".to_vec()),
        ("latin", b"caf\xe9\ny\n".to_vec()),
        ("came", b"hello\n".to_vec()),
    ];
    for (path, content) in after {
        place.put(path, content);
    }
    place.done(&["rm", "w", "gone"]);
    let patch = place.done(&["diff", "w"]).bytes;
    offshoot_testkit::git_with_input(&tree, &["apply", "-"], &patch);
    for (path, content) in after {
        assert_eq!(&std::fs::read(tree.join(path)).unwrap(), content, "{path}");
    }
    assert!(!tree.join("gone").exists());
}

#[test]
fn quota() {
    let place = Place::new();
    place.done(&["workspace", "create", "w", "--quota-bytes", "1k"]);
    golden(
        &place.run_with_input(&["put", "w", "big"], &[b'x'; 2000]),
        "exit 1\n--- stdout\n--- stderr\n\
         error: the workspace would hold 2000 bytes; its quota is 1024\n\
         hint: delete files, or raise the quota\n",
    );
    golden(
        &place.run(&[
            "workspace",
            "quota",
            "w",
            "--bytes",
            "none",
            "--inodes",
            "5",
        ]),
        "exit 0\n--- stdout\nquota: any size, 5 files and directories\n\
         used:  0 B, 0 files and directories\n--- stderr\n",
    );
    assert_eq!(
        place
            .run_with_input(&["put", "w", "big"], &[b'x'; 2000])
            .code,
        0
    );
}

#[test]
fn large_files_stream_in_and_out() {
    let place = Place::with_workspace();
    let mut rng = offshoot_testkit::Rng::new(7);
    let mut content = vec![0; 12 << 20];
    rng.fill(&mut content);
    place.put("big", &content);
    assert_eq!(place.done(&["cat", "w", "big"]).bytes, content);
    let tail = place
        .done(&["cat", "w", "big", "--offset", "12582900"])
        .bytes;
    assert_eq!(tail, &content[12_582_900..]);
}

#[test]
fn the_tour_runs_and_leaves_nothing() {
    let place = Place::new();
    let temp = place.path().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let output = place
        .command(&["demo"])
        .env("TMPDIR", &temp)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for part in [
        "$ offshoot diff tour",
        "+four",
        "restored `tour`",
        "all is whole",
    ] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
    assert!(!place.data().exists());
}

#[test]
fn status_names_files_that_are_too_large() {
    let place = Place::with_workspace();
    place.put("small", b"small");
    let path = place.done(&["workspace", "path", "w"]).stdout;
    let large = std::path::Path::new(path.trim_end()).join("large");
    // A hole of 15 TB takes no space and would take hours to read.
    let size: u64 = 15 << 40;
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(size).unwrap();
    drop(file);

    for command in ["status", "sync"] {
        let ran = place.done(&[command, "w"]);
        let named = ran.stderr.lines().find(|line| line.contains("large"));
        let named = named.unwrap_or_else(|| panic!("{command}: {}", ran.golden()));
        assert!(
            named.contains("left out large: it has 15.0 TiB") && named.contains("16.0 GiB"),
            "{named}"
        );
        let answer = place.done(&["--json", command, "w"]).json();
        let told = serde_json::json!([{ "path": "large", "size": size, "limit": 16u64 << 30 }]);
        assert_eq!(answer["too_large"], told, "{command}");
    }
    // The rest of the workspace is as usable as before, and nothing takes the file away.
    place.put("small", b"changed");
    let ran = place.done(&["status", "w"]);
    assert!(
        ran.stdout.contains("small") && !ran.stdout.contains("large"),
        "{}",
        ran.golden()
    );
    let ran = place.run(&["--json", "workspace", "delete", "w"]);
    assert_eq!(ran.code, 1, "{}", ran.golden());
    assert!(large.exists());
    std::fs::remove_file(&large).unwrap();
    let answer = place.done(&["--json", "status", "w"]).json();
    assert_eq!(answer["too_large"], serde_json::json!([]));
    place.done(&["workspace", "delete", "w"]);
}
