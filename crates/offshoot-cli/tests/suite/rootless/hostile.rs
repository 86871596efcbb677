//! Namespaces that must not be entered, and systems that have none.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Command, Stdio};

use offshoot_testkit::{Process, wait_until};

use super::user::{UID, User};
use crate::support::{Ran, ran};

const MY_NAMESPACE: &str = "readlink /proc/self/ns/mnt";

/// The number of a process's mount namespace.
fn namespace_of(pid: u32) -> String {
    let link = fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap();
    let link = link.to_str().unwrap().to_owned();
    link.trim_start_matches("mnt:[")
        .trim_end_matches(']')
        .to_owned()
}

/// A process in other namespaces than this one. It may be asked to do something there first.
fn stranger(mut command: Command) -> Process {
    let own = namespace_of(std::process::id());
    let process = Process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::null()));
    wait_until("the stranger has a namespace of its own", || {
        let name = fs::read_to_string(format!("/proc/{}/comm", process.id()));
        name.is_ok_and(|name| name.trim_end() == "cat") && namespace_of(process.id()) != own
    });
    process
}

#[test]
fn a_forged_note_leads_into_no_stranger_s_namespace() {
    let Some(user) = User::with_project() else {
        return;
    };
    user.overlay_fork("ada");
    user.shell("ada", "echo kept > kept");
    let dir = user.data().join("namespace");
    let dir = dir.to_str().unwrap();
    let marking = "mount --bind \"$0\" \"$0\" && exec cat";
    let mut of_root = Command::new("unshare");
    of_root.args(["-m", "sh", "-c", marking, dir]);
    let strangers = [
        // One of the same user, such as the sandbox of a browser, which lacks the mark.
        stranger(user.plain("unshare", &["-Urm", "cat"])),
        // One with the mark, of another user.
        stranger(of_root),
    ];
    for stranger in &strangers {
        user.kill_holder();
        let forged = namespace_of(stranger.id());
        fs::write(user.note(), format!("{} {forged}\n", stranger.id())).unwrap();
        chown(user.note(), Some(UID), Some(UID)).unwrap();
        let inside = user.shell("ada", MY_NAMESPACE);
        assert_ne!(inside.trim_end(), format!("mnt:[{forged}]"));
        // It got a namespace of its own, with its files.
        let holder = user.holder().unwrap();
        assert_eq!(inside.trim_end(), format!("mnt:[{}]", namespace_of(holder)));
        assert_eq!(user.shell("ada", "cat kept"), "kept\n");
    }

    // What somebody else could have written is not read.
    let holder = user.holder().unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(user.note(), "no note").unwrap();
    assert_eq!(user.shell("ada", "cat kept"), "kept\n");
    assert_ne!(user.holder(), Some(holder));
    for note in [
        "",
        "1 ",
        "-1 5\n",
        "0 0\n",
        "99999999999 1\n",
        "1 99999999999999999999999\n",
    ] {
        fs::write(user.note(), note).unwrap();
        assert_eq!(user.shell("ada", "cat kept"), "kept\n", "{note:?}");
    }
}

/// A sandbox that was started in the shell has a copy of all mounts; it is not the namespace.
#[test]
fn a_copy_of_the_namespace_is_not_taken_for_it() {
    let Some(user) = User::with_project() else {
        return;
    };
    user.overlay_fork("ada");
    let mut inner = Process::spawn(
        user.command(&["shell", "ada", "--", "unshare", "-Urm", "cat"])
            .stdin(Stdio::piped()),
    );
    let place = user.workspace("ada");
    wait_until("the sandbox runs", || {
        let namespaces = user.namespaces_showing(place.to_str().unwrap());
        namespaces.len() == 2
    });
    user.kill_holder();
    // The process of `shell` itself is still in the namespace, and leads there.
    let inside = user.shell("ada", MY_NAMESPACE);
    assert!(user.holders().is_empty());
    assert_eq!(user.overlays_at("ada"), 1);
    let shell = namespace_of(inner.id());
    assert_eq!(inside.trim_end(), format!("mnt:[{shell}]"));
    inner.kill_hard();
}

impl User {
    /// The mount namespaces in which something is mounted at a place.
    fn namespaces_showing(&self, place: &str) -> std::collections::BTreeSet<String> {
        let mut found = std::collections::BTreeSet::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let table = fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
            let shows = |line: &str| line.split(' ').nth(4) == Some(place);
            if table.lines().any(shows)
                && let Ok(link) = fs::read_link(entry.path().join("ns/mnt"))
            {
                found.insert(link.to_str().unwrap().to_owned());
            }
        }
        found
    }

    /// Runs a command where this user may make no user namespace.
    fn run_without_namespaces(&self, args: &[&str]) -> Ran {
        let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                      exec setpriv --inh-caps=-all --ambient-caps=-all \"$@\"";
        let mut words = vec![
            "-U",
            "--map-current-user",
            "--keep-caps",
            "sh",
            "-c",
            script,
            "sh",
        ];
        words.push(crate::support::served::OFFSHOOT);
        words.extend(args);
        ran(self.plain("unshare", &words).output().unwrap())
    }
}

#[test]
fn without_user_namespaces_forks_are_copies_and_doctor_says_why() {
    let Some(user) = User::with_project() else {
        return;
    };
    let allow = "sudo sysctl -w user.max_user_namespaces=";
    let ran = user.run_without_namespaces(&["fork", "p", "--agent", "ada"]);
    assert_eq!(ran.code, 0, "{}", ran.golden());
    assert_eq!(
        fs::read(user.workspace("ada").join("README")).unwrap(),
        b"begin\n"
    );
    let ran = user.run_without_namespaces(&["shell", "ada", "--", "cat", "README"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "begin\n"),
        "{}",
        ran.golden()
    );
    let args = ["fork", "p", "--agent", "bob", "--provider", "overlay"];
    let ran = user.run_without_namespaces(&args);
    assert_eq!(ran.code, 1, "{}", ran.golden());
    assert!(
        ran.stderr.contains("user.max_user_namespaces = 0"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains(allow), "{}", ran.stderr);
    let ran = user.run_without_namespaces(&["doctor"]);
    assert_eq!(ran.code, 0, "{}", ran.golden());
    assert!(ran.stdout.contains("no    fork overlay"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("user.max_user_namespaces = 0"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains(allow), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("works; new forks are made by it"),
        "{}",
        ran.stdout
    );

    // A fork that was made where they are allowed says what it needs, and can become a copy.
    user.overlay_fork("cy");
    user.shell("cy", "echo kept > kept");
    user.kill_holder();
    let ran = user.run_without_namespaces(&["shell", "cy", "--", "true"]);
    assert_eq!(ran.code, 1, "{}", ran.golden());
    assert!(
        ran.stderr.contains("workspace convert cy"),
        "{}",
        ran.stderr
    );
    let ran = user.run_without_namespaces(&["workspace", "convert", "cy", "--provider", "copy"]);
    assert_eq!(ran.code, 0, "{}", ran.golden());
    assert_eq!(
        fs::read(user.workspace("cy").join("kept")).unwrap(),
        b"kept\n"
    );
}

#[test]
fn doctor_says_what_an_ordinary_user_can_do() {
    let Some(user) = User::with_project() else {
        return;
    };
    for _ in 0..2 {
        let ran = user.done(&["doctor"]);
        assert!(
            ran.stdout.contains("ok    fork overlay     works\n"),
            "{}",
            ran.stdout
        );
        assert!(ran.stdout.contains("`offshoot shell WS`"), "{}", ran.stdout);
        assert!(ran.stdout.contains("EXDEV"), "{}", ran.stdout);
        assert!(
            ran.stdout.contains("works; new forks are made by it"),
            "{}",
            ran.stdout
        );
        // The same while there is a namespace.
        user.overlay_fork("ada");
    }
}
