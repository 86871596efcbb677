//! Commands of an ordinary user, in a data directory of their own, and what they left behind.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use offshoot_testkit::{HostDir, is_root, skip, wait_until};

use crate::support::served::OFFSHOOT;
use crate::support::{Ran, ran};

/// Of no user of the machine; not that of `nobody`, which the kernel also shows for users it cannot name.
pub(crate) const UID: u32 = 54_321;

/// An ordinary user with a project `p`. Dropping it ends the holder.
pub(crate) struct User {
    dir: HostDir,
}

impl User {
    /// None, and the test is counted as skipped, where an ordinary user cannot be tried.
    pub(crate) fn new() -> Option<User> {
        if !is_root() {
            skip("needs root, to become an ordinary user");
            return None;
        }
        let dir = HostDir::new();
        chown(dir.path(), Some(UID), Some(UID)).unwrap();
        let user = User { dir };
        let runs = user.plain(OFFSHOOT, &["--version"]).output();
        if !runs.is_ok_and(|output| output.status.success()) {
            skip("an ordinary user may not run the built program where it lies");
            return None;
        }
        let possible = user.plain("unshare", &["-Urm", "true"]).status();
        if !possible.is_ok_and(|status| status.success()) {
            skip("user namespaces are not allowed here");
            return None;
        }
        Some(user)
    }

    /// Like [`new`](Self::new), with the project `p`.
    pub(crate) fn with_project() -> Option<User> {
        let user = User::new()?;
        let script = "mkdir -p src/deep && cd src && echo begin > README && echo x > gone \
                      && echo y > deep/file";
        assert!(
            user.plain("sh", &["-c", script])
                .status()
                .unwrap()
                .success()
        );
        user.done(&["project", "create", "p", "--from", "src"]);
        Some(user)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.data().join("workspaces").join(name)
    }

    /// Any program as this user.
    pub(crate) fn plain(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("SHELL", "/bin/sh")
            .env("TZ", "UTC")
            .env("OFFSHOOT_DATA", self.data())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null())
            .uid(UID)
            .gid(UID);
        command
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.plain(OFFSHOOT, args)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    #[track_caller]
    pub(crate) fn done(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.golden());
        ran
    }

    /// What a script in the shell of a workspace wrote to stdout.
    #[track_caller]
    pub(crate) fn shell(&self, workspace: &str, script: &str) -> String {
        let args = ["--quiet", "shell", workspace, "--", "sh", "-ec", script];
        self.done(&args).stdout
    }

    pub(crate) fn overlay_fork(&self, agent: &str) -> Ran {
        self.done(&[
            "--json",
            "fork",
            "p",
            "--agent",
            agent,
            "--provider",
            "overlay",
        ])
    }

    pub(crate) fn note(&self) -> PathBuf {
        self.data().join("namespace/holder")
    }

    /// The process id in the note.
    pub(crate) fn holder(&self) -> Option<u32> {
        let note = fs::read_to_string(self.note()).ok()?;
        note.split(' ').next()?.parse().ok()
    }

    /// All holders of this data directory that run.
    pub(crate) fn holders(&self) -> Vec<u32> {
        let dir = self.data().join("namespace");
        let is_holder = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
            words.get(1) == Some(&&b"hold-namespace"[..])
                && words.get(2) == Some(&dir.as_os_str().as_encoded_bytes())
        };
        processes().into_iter().filter(is_holder).collect()
    }

    /// Kills the holder as hard as it gets, and waits for its end.
    pub(crate) fn kill_holder(&self) {
        // A command that runs meanwhile may start the next one at once.
        let killed = self.holders();
        for pid in &killed {
            kill(*pid);
        }
        let is_gone = |pid| !self.holders().contains(pid);
        wait_until("the holder ended", || killed.iter().all(is_gone));
    }

    /// How many different overlays are mounted at the place of a workspace, in all namespaces.
    pub(crate) fn overlays_at(&self, workspace: &str) -> usize {
        let place = self.workspace(workspace);
        let place = place.to_str().unwrap();
        let mut devices: Vec<String> = Vec::new();
        for pid in processes() {
            let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
            for line in table.lines().filter(|line| line.contains(" - overlay ")) {
                let fields: Vec<&str> = line.split(' ').collect();
                if fields[4] == place && !devices.iter().any(|seen| seen == fields[2]) {
                    devices.push(fields[2].to_owned());
                }
            }
        }
        devices.len()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // The end of the data directory is what ends a holder; a test that failed does not wait.
        for pid in self.holders() {
            kill(pid);
        }
    }
}

fn processes() -> Vec<u32> {
    let names = fs::read_dir("/proc").unwrap().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}
