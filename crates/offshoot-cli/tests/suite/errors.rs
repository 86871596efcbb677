//! What goes wrong, through the real binary: exit code, message, hint and code.

use crate::support::Place;

#[test]
fn errors_as_people_see_them() {
    let place = Place::with_workspace();
    place.put("dir/file", b"x");
    place.snapshot("one");
    for (args, stderr) in [
        (
            &["ls", "nix"][..],
            "error: there is no workspace `nix`\n\
             hint: `offshoot workspace list` shows those there are; `offshoot fork PROJECT` makes one\n",
        ),
        (
            &["workspace", "create", "w"],
            "error: the workspace `w` exists\n\
             hint: choose another name, or delete that workspace first\n",
        ),
        (
            &["workspace", "create", "a b"],
            "error: `a b` is not a valid workspace name\n\
             hint: use 1 to 64 of a-z A-Z 0-9 . _ ~ -, starting with a letter or digit\n",
        ),
        (
            &["ls", "w", "../x"],
            "error: the path `../x` is refused: `..` would leave its directory\n",
        ),
        (
            &["cat", "w", "/etc/passwd"],
            "error: the path `/etc/passwd` is refused: it is absolute\n\
             hint: paths are relative to the workspace: drop the leading `/`\n",
        ),
        (&["cat", "w", "dir"], "error: `dir` is a directory\n"),
        (
            &["rm", "w", "dir"],
            "error: `dir` is a directory that holds 1 entries\n\
             hint: `offshoot rm -r` deletes a directory with all that it holds\n",
        ),
        (
            &["restore", "w", "ffffff"],
            "error: there is no snapshot `ffffff` of `w`\n\
             hint: nothing was changed; `offshoot snapshots WS` shows those there are\n",
        ),
        (
            &["ls", "w", "dir/file"],
            "error: `dir/file` is no directory\n",
        ),
        (
            &["ls", "w", "a\\b"],
            "error: the path `a\\b` holds a bare backslash\n\
             hint: write the byte as `\\x5c`, or use `/` between directories\n",
        ),
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{args:?}");
        assert_eq!(ran.stderr, stderr, "{args:?}");
    }
}

#[test]
fn error_codes_as_programs_see_them() {
    let place = Place::with_workspace();
    place.put("dir/file", b"x");
    place.put("other", b"x");
    place.done(&["workspace", "create", "s", "--layout", "session"]);
    place.snapshot("one");
    for (args, code) in [
        (&["ls", "nix"][..], "workspace_not_found"),
        (&["workspace", "show", "nix"], "workspace_not_found"),
        (&["workspace", "delete", "nix"], "workspace_not_found"),
        (&["workspace", "create", "w"], "already_exists"),
        (&["workspace", "create", "root"], "invalid_request"),
        (&["workspace", "create", "../x"], "invalid_request"),
        (
            &["workspace", "create", "q", "--quota-bytes", "lots"],
            "invalid_request",
        ),
        (&["ls", "w", ""], "path_traversal_blocked"),
        (&["ls", "w", ".."], "path_traversal_blocked"),
        (&["rm", "w", "dir/../other"], "path_traversal_blocked"),
        (&["put", "w", "/x"], "path_traversal_blocked"),
        (&["mv", "w", "other", "../x"], "path_traversal_blocked"),
        (&["mkdir", "w", "a/../../b"], "path_traversal_blocked"),
        (&["cat", "w", "nix"], "file_not_found"),
        (&["rm", "w", "nix"], "file_not_found"),
        (&["info", "w", "nix"], "file_not_found"),
        (&["tree", "w", "nix"], "file_not_found"),
        (&["cat", "w", "dir"], "is_a_directory"),
        (&["put", "w", "dir"], "is_a_directory"),
        (&["rm", "w", "dir"], "is_a_directory"),
        (&["rm", "w", ".", "-r"], "is_a_directory"),
        (&["ls", "w", "other"], "not_a_directory"),
        (&["put", "w", "other/x"], "not_a_directory"),
        (&["mv", "w", "other", "dir/file"], "already_exists"),
        (&["put", "s", "top"], "permission_denied"),
        (&["put", "w", "x", "nix.txt"], "file_not_found"),
        (&["put", "w", "x", "--if-match", "zz"], "invalid_request"),
        (&["upload", "w", "-"], "invalid_request"),
        (
            &["edit", "w", "other", "--old", "q", "--new", ""],
            "invalid_request",
        ),
        (&["restore", "w", "0000"], "snapshot_not_found"),
        (&["restore", "w", "not-hex"], "snapshot_not_found"),
        (&["diff", "w", "--from", "0000"], "snapshot_not_found"),
        (&["cat", "w", "other", "--at", "0000"], "snapshot_not_found"),
        (&["purge", "content", "12"], "invalid_request"),
        (&["purge", "workspace", "nix"], "workspace_not_found"),
        (
            &["workspace", "export", "s", "--git", "s.git"],
            "invalid_request",
        ),
        (&["--database", "postgres://x", "ls", "w"], "unsupported"),
        (&["--blobs", "s3://x", "ls", "w"], "unsupported"),
        (&["--operator", "system", "ls", "w"], "invalid_request"),
        (&["--operator", "a<b", "ls", "w"], "invalid_request"),
        (&["--config", "nix.toml", "ls", "w"], "invalid_request"),
        (&["demo"], "unsupported"),
    ] {
        let args = [&["--json"], args].concat();
        let ran = place.run(&args);
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.golden());
        let body = ran.json();
        assert_eq!(body["error"]["code"], code, "{args:?}: {body}");
        let message = body["error"]["message"].as_str().unwrap();
        let host = place.path().to_str().unwrap();
        assert!(
            !message.contains(host),
            "{args:?} shows a host path: {message}"
        );
    }
    let files = place.done(&["--json", "info", "w"]).json()["file_count"].clone();
    assert_eq!(files, 2, "no error changed anything");
}

#[test]
fn wrong_usage_is_exit_2() {
    let place = Place::new();
    for args in [
        &[][..],
        &["nix"],
        &["ls"],
        &["put", "w"],
        &["workspace", "create", "x", "--layout", "odd"],
        &["put", "w", "a", "--if-absent", "--if-match", "x"],
        &["snapshots", "w", "-n", "many"],
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(
            ran.stderr.contains("--help") || ran.stderr.contains("Usage:"),
            "{}",
            ran.stderr
        );
    }
    let ran = place.run(&["--json", "ls"]);
    assert_eq!(ran.code, 2);
    assert_eq!(ran.json()["error"]["code"], "invalid_request");
    assert!(
        !place.data().exists(),
        "wrong usage makes no data directory"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::io::Read as _;
    use std::process::Stdio;
    let place = Place::with_workspace();
    place.put("big", &vec![b'x'; 4 << 20]);
    let mut child = place
        .command(&["cat", "w", "big"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"", "nothing is said");
    // It was no crash either: nothing is left for the next process to recover.
    let marks = std::fs::read_dir(place.data().join("run")).unwrap().count();
    assert_eq!(marks, 0);
}

#[test]
fn a_full_disk_behind_stdout_is_a_failure() {
    let place = Place::with_workspace();
    place.put("a", b"x");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else {
        return offshoot_testkit::skip("there is no /dev/full");
    };
    let output = place
        .command(&["cat", "w", "a"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("the output could not be written"),
        "{stderr}"
    );
    assert!(stderr.contains("cause: "), "{stderr}");
}

#[test]
fn names_cannot_drive_a_terminal() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::with_workspace();
    let name = std::ffi::OsStr::from_bytes(b"a\x1b[2J\xff\nb");
    let put: [&std::ffi::OsStr; 3] = ["put".as_ref(), "w".as_ref(), name];
    assert_eq!(place.run_with_input(&put, b"x").code, 0);
    let shown = "a\\x1b[2J\\xff\\x0ab";
    assert!(
        place
            .done(&["ls", "w"])
            .stdout
            .ends_with(&format!("  {shown}\n"))
    );
    assert_eq!(
        place.done(&["cat", "w", shown]).stdout,
        "x",
        "typed as it is shown"
    );
    let listed = place.done(&["--json", "ls", "w"]).json();
    assert_eq!(listed["entries"][0]["name"], "a\u{1b}[2J\\xff\nb");
    let first = place.snapshot("label \x1b]0;x\x07");
    place.done(&["edit", "w", shown, "--old", "x", "--new", "y"]);
    for args in [
        &["status", "w"][..],
        &["diff", "w"],
        &["diff", "w", "--stat"],
        &["history", "w"],
        &["info", "w", shown],
        &["snapshots", "w"],
        &["restore", "w", &first, shown],
        &["mv", "w", shown, "b\\x1b"],
        &["rm", "w", "b\\x1b"],
        &["rm", "w", "b\\x1b"],
    ] {
        let ran = place.run(args);
        let all = ran.stdout + &ran.stderr;
        assert!(
            !all.is_empty() && !all.contains('\x1b'),
            "{args:?}: {all:?}"
        );
    }
}

#[test]
fn what_is_not_there_yet_is_told_with_the_next_step() {
    let place = Place::new();
    let fork = "fork PROJECT --agent ada";
    let ran = place.run(&["mcp", "--agent", "ada"]);
    assert_eq!(ran.code, 1, "{}", ran.golden());
    assert!(ran.stderr.contains(fork), "{}", ran.golden());
    // The block for a client may be printed before there is anything for it.
    let ran = place.done(&["mcp", "config", "claude", "--agent", "ada"]);
    assert!(
        ran.stderr.contains("not yet") && ran.stderr.contains(fork),
        "{}",
        ran.golden()
    );
    let ran = place.done(&["mcp", "config", "claude", "--workspace", "w"]);
    assert!(
        ran.stderr.contains("not yet: there is no workspace `w`"),
        "{}",
        ran.golden()
    );
    for (flag, missing) in [
        ("--workspace", "there is no workspace `w`"),
        ("--project", "there is no project `w`"),
    ] {
        let ran = place.run(&["token", "issue", flag, "w"]);
        assert_eq!(ran.code, 1, "{}", ran.golden());
        assert!(ran.stderr.contains(missing), "{}", ran.golden());
    }
    place.done(&["workspace", "create", "w"]);
    for args in [
        &["mcp", "config", "claude", "--workspace", "w"][..],
        &["token", "issue", "--workspace", "w"],
    ] {
        let ran = place.done(args);
        assert!(!ran.stderr.contains("yet"), "{}", ran.golden());
    }
}

/// The name of a project where that of a workspace belongs is a slip that is easy to make.
#[test]
fn the_name_of_a_project_is_no_workspace_and_the_hint_says_so() {
    let place = Place::new();
    place.done(&["project", "create", "shop"]);
    for command in ["status", "complete", "update"] {
        let ran = place.run(&[command, "shop"]);
        assert_eq!(ran.code, 1, "{}", ran.golden());
        assert!(
            ran.stderr
                .contains("`shop` is a project: `offshoot forks shop`")
        );
        let ran = place.run(&[command, "other"]);
        assert!(!ran.stderr.contains("is a project"), "{}", ran.golden());
    }
    let ran = place.run(&["cat", "shop", "README"]);
    assert!(ran.stderr.contains("is a project"), "{}", ran.golden());
    let from = place.path().to_str().unwrap();
    let again = place.run(&["project", "create", "shop", "--from", from]);
    assert!(
        again
            .stderr
            .contains("`offshoot pull shop` if it is linked")
    );
}
