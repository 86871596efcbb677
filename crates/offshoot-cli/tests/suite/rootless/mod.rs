//! What an ordinary user gets: forks by overlay in a namespace of their own, and a shell in it.

mod five_agents;
mod hostile;
mod kills;
mod user;

use std::fs;
use std::process::Stdio;

use offshoot_testkit::{Process, wait_until};
use serde_json::json;

use user::User;

#[test]
fn an_ordinary_user_forks_by_overlay_and_works_in_a_shell() {
    let Some(user) = User::with_project() else {
        return;
    };
    let args = [
        "--json",
        "fork",
        "p",
        "--agent",
        "ada",
        "--provider",
        "overlay",
        "--git",
    ];
    let fork = user.done(&args).json();
    assert_eq!(fork["provider"], "overlay");
    assert!(
        fork["note"]
            .as_str()
            .unwrap()
            .contains("offshoot shell ada"),
        "{fork}"
    );

    // Nobody else sees it, and nothing can be written where it would be lost.
    assert_eq!(fs::read_dir(user.workspace("ada")).unwrap().count(), 0);
    let mut write = user.plain("sh", &["-c", "echo lost > data/workspaces/ada/lost"]);
    assert!(!write.stderr(Stdio::null()).status().unwrap().success());
    let path = user.done(&["workspace", "path", "ada"]);
    assert_eq!(
        path.stdout.trim_end(),
        user.workspace("ada").to_str().unwrap()
    );
    assert!(
        path.stderr.contains("offshoot shell ada"),
        "{}",
        path.stderr
    );

    // Real tools work in the shell, as the same user, with the same home and without any rights.
    let script = "id -u; echo $HOME; pwd; realpath .; git rev-parse --show-toplevel; \
                  grep CapEff /proc/self/status; git status --porcelain; cat deep/file";
    let shown = user.shell("ada", script);
    let place = user.workspace("ada");
    let place = place.to_str().unwrap();
    let home = user.path().to_str().unwrap();
    let expected =
        format!("54321\n{home}\n{place}\n{place}\n{place}\nCapEff:\t0000000000000000\ny\n");
    assert_eq!(shown, expected);
    let umount = user.run(&["shell", "ada", "--", "umount", place]);
    assert_ne!(umount.code, 0);

    let script = "echo new > README; rm gone; mkdir made; echo z > made/file; \
                  git -c user.name=a -c user.email=a@b commit -qam work; git log --format=%s -1";
    let ran = user.run(&["shell", "ada", "--", "sh", "-ec", script]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "work\n"),
        "{}",
        ran.golden()
    );
    assert!(
        ran.stderr.contains("recorded 4 changes in `ada`"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        user.run(&["shell", "ada", "--", "sh", "-c", "exit 7"]).code,
        7
    );
    let status = user.done(&["status", "ada"]).stdout;
    assert_eq!(status, "M  README\nD  gone\nA  made/\nA  made/file\n");
    user.done(&["complete", "ada"]);
    assert_eq!(
        user.done(&["project", "cat", "p", "README"]).stdout,
        "new\n"
    );
    assert!(!user.workspace("ada").exists());
    assert_eq!(user.overlays_at("ada"), 0);
    assert_eq!(user.holders().len(), 1);
}

#[test]
fn a_path_that_every_program_must_see_is_a_copy() {
    let Some(user) = User::with_project() else {
        return;
    };
    let ran = user.done(&["fork", "p", "--agent", "bob"]);
    assert!(ran.stderr.contains("`offshoot shell`"), "{}", ran.stderr);
    assert_eq!(
        fs::read(user.workspace("bob").join("README")).unwrap(),
        b"begin\n"
    );
    // No namespace is made for that.
    assert!(user.holders().is_empty() && !user.note().exists());
    let ran = user.done(&["fork", "p", "--agent", "cy", "--provider", "copy"]);
    assert_eq!(ran.stderr, "");

    // The same once there is a namespace, and the shell works everywhere.
    user.overlay_fork("ada");
    let fork = user.done(&["--json", "fork", "p", "--agent", "dot"]).json();
    assert_ne!(fork["provider"], "overlay");
    assert!(
        fork["note"].as_str().unwrap().contains("`offshoot shell`"),
        "{fork}"
    );
    for name in ["bob", "dot"] {
        assert_eq!(user.shell(name, "cat README; echo in > shell"), "begin\n");
        assert_eq!(
            fs::read(user.workspace(name).join("shell")).unwrap(),
            b"in\n"
        );
    }
    user.done(&["workspace", "create", "plain"]);
    user.shell("plain", "echo plain > file");
    assert_eq!(user.done(&["cat", "plain", "file"]).stdout, "plain\n");

    // Who enters needs no directory that others see.
    user.done(&[
        "agent",
        "spawn",
        "--parent",
        "root",
        "--role",
        "eve",
        "--project",
        "p",
    ]);
    let agents = user.done(&["--json", "agent", "list"]).json();
    let eve = agents["agents"][0]["workspace_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(user.shell(&eve, "cat README"), "begin\n");
    let forks = user.done(&["--json", "forks", "p"]).json();
    let forks = forks["forks"].as_array().unwrap();
    let made_by = forks.iter().find(|fork| fork["id"] == json!(eve)).unwrap();
    assert_eq!(made_by["provider"], "overlay");
}

#[test]
fn an_update_and_a_removal_of_a_fork_work_in_the_namespace() {
    let Some(user) = User::with_project() else {
        return;
    };
    user.overlay_fork("ada");
    user.shell("ada", "echo ada > mine");
    user.overlay_fork("bob");
    user.shell("bob", "echo bob > his");
    user.done(&["complete", "bob"]);
    user.done(&["update", "ada"]);
    assert_eq!(user.shell("ada", "cat mine his"), "ada\nbob\n");
    assert_eq!(user.overlays_at("ada"), 1);
    // Without root and without a mount it can become a copy, which everybody sees.
    user.done(&["workspace", "convert", "ada", "--provider", "copy"]);
    assert_eq!(
        fs::read(user.workspace("ada").join("mine")).unwrap(),
        b"ada\n"
    );
    user.done(&["check"]);
    // All of it can be removed, and the holder goes with it.
    user.overlay_fork("cy");
    let ran = user.done(&["data", "remove", "--yes"]);
    assert!(!user.data().exists(), "{}", ran.golden());
    wait_until("the holder ended", || user.holders().is_empty());
}

#[test]
fn a_removed_data_directory_ends_its_holder() {
    let Some(user) = User::with_project() else {
        return;
    };
    user.overlay_fork("ada");
    assert_eq!(user.holders().len(), 1);
    fs::remove_dir_all(user.data()).unwrap();
    wait_until("the holder ended", || user.holders().is_empty());
}

#[test]
fn commands_that_start_a_holder_at_once_start_one() {
    let Some(user) = User::with_project() else {
        return;
    };
    let agents = ["a1", "a2", "a3", "a4", "a5", "a6"];
    for round in 0..3 {
        let started: Vec<_> = agents
            .iter()
            .map(|agent| {
                let agent = format!("{agent}-{round}");
                let args = ["fork", "p", "--agent", &agent, "--provider", "overlay"];
                let mut command = user.command(&args);
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                (agent.clone(), command.spawn().unwrap())
            })
            .collect();
        for (agent, child) in started {
            let output = child.wait_with_output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{agent}: {told}");
            assert_eq!(user.overlays_at(&agent), 1);
        }
        assert_eq!(user.holders().len(), 1);
        assert_eq!(user.holder(), Some(user.holders()[0]));
        user.kill_holder();
    }
}

/// A holder must keep nothing of the command that started it: neither a pipe, whose reader would wait
/// for its end, nor a lock.
#[test]
fn a_holder_keeps_no_file_of_its_command() {
    let Some(user) = User::with_project() else {
        return;
    };
    let script = "exec 5>&1; \"$0\" --quiet fork p --agent ada --provider overlay";
    let mut shell = user.plain("sh", &["-c", script, crate::support::served::OFFSHOOT]);
    let output = shell.output().unwrap();
    assert!(output.status.success());
    let holder = user.holder().unwrap();
    let files = fs::read_dir(format!("/proc/{holder}/fd")).unwrap();
    let files: Vec<_> = files
        .flatten()
        .map(|file| fs::read_link(file.path()).unwrap())
        .filter(|file| file.to_str() != Some("/dev/null"))
        .collect();
    assert_eq!(files, [std::path::PathBuf::from("anon_inode:inotify")]);
    let cwd = fs::read_link(format!("/proc/{holder}/cwd")).unwrap();
    assert_eq!(cwd.to_str(), Some("/"));
}

/// Commands in the shell have no rights to mount, and say so instead of doing half of it.
#[test]
fn commands_in_the_shell_see_what_is_mounted() {
    let Some(user) = User::with_project() else {
        return;
    };
    user.overlay_fork("ada");
    let offshoot = crate::support::served::OFFSHOOT;
    let script =
        format!("echo new > README; {offshoot} status ada; {offshoot} put ada other README");
    assert!(user.shell("ada", &script).starts_with("M  README\n"));
    assert_eq!(user.done(&["cat", "ada", "other"]).stdout, "new\n");
    let script = format!("{offshoot} fork p --agent bob --provider overlay 2>&1 || true");
    assert!(
        user.shell("ada", &script)
            .contains("type this command outside of the shell")
    );
    let script = format!("{offshoot} --quiet fork p --agent bob");
    user.shell("ada", &script);
    assert_eq!(
        fs::read(user.workspace("bob").join("README")).unwrap(),
        b"begin\n"
    );
}

/// `ssh` and the like refuse files of a root that has no name, as in the namespace.
#[test]
fn a_setup_runs_outside_of_the_namespace() {
    let Some(user) = User::with_project() else {
        return;
    };
    user.overlay_fork("ada");
    user.shell("ada", "echo made > .gitignore");
    user.done(&["complete", "ada"]);
    let namespace = "readlink /proc/self/ns/user > made";
    let set = ["project", "setup", "p", "--on", "README", "--", "sh", "-c"];
    let set = [&set[..], &[namespace]].concat();
    let here = fs::read_link("/proc/self/ns/user").unwrap();
    for provider in ["", "overlay"] {
        let mut command = user.command(&set);
        if !provider.is_empty() {
            command.env("OFFSHOOT_PROVIDER", provider);
        }
        let ran = crate::support::ran(command.output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.golden());
        let name = format!("bob{provider}");
        user.overlay_fork(&name);
        let made = user.shell(&name, "cat made");
        assert_eq!(made.trim_end(), here.to_str().unwrap());
    }
}

#[test]
fn a_server_of_an_ordinary_user_uses_the_namespace() {
    let Some(user) = User::with_project() else {
        return;
    };
    let served = user.serve();
    let path = "/api/v1/projects/p/workspaces";
    let body = json!({"agent_id": "ada", "provider": "overlay"}).to_string();
    let (status, answer) = served.send("POST", path, body.as_bytes());
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(
        (status, &answer["provider"]),
        (201, &json!("overlay")),
        "{answer}"
    );
    assert!(
        answer["note"]
            .as_str()
            .unwrap()
            .contains("offshoot shell ada")
    );
    let (status, _) = served.send("PUT", "/api/v1/workspaces/ada/files/by-http", b"http\n");
    assert!(status < 300, "{status}");
    assert_eq!(
        user.shell("ada", "cat by-http; echo shell > by-shell"),
        "http\n"
    );
    let (_, content) = served.send("GET", "/api/v1/workspaces/ada/files/by-shell", b"");
    assert_eq!(content, b"shell\n");

    // Whoever asks for a path without more gets one that every program sees.
    let (status, answer) = served.send("POST", path, br#"{"agent_id": "bob"}"#);
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(status, 201, "{answer}");
    assert!(
        answer["note"]
            .as_str()
            .unwrap()
            .contains("`offshoot shell`")
    );
    assert_eq!(
        fs::read(user.workspace("bob").join("README")).unwrap(),
        b"begin\n"
    );

    // The holder goes, and the server keeps the namespace: no second one, no second mount.
    user.kill_holder();
    assert_eq!(
        user.shell("ada", "cat by-http; echo again > by-shell"),
        "http\n"
    );
    assert!(user.holders().is_empty());
    assert_eq!(user.overlays_at("ada"), 1);
    let (_, content) = served.send("GET", "/api/v1/workspaces/ada/files/by-shell", b"");
    assert_eq!(content, b"again\n");
}

impl User {
    /// A server of this user.
    fn serve(&self) -> crate::support::served::Served {
        let token = self.done(&["token", "issue", "--admin", "--quiet"]).stdout;
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let command = command.env("OFFSHOOT_LOG", "warn").stdout(Stdio::piped());
        let mut process = Process::spawn(command);
        let address = crate::support::served::read_address(&mut process);
        crate::support::served::Served {
            process,
            address,
            token: token.trim().to_owned(),
        }
    }
}
