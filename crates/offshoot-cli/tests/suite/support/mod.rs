//! Runs the real binary over a data directory of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    dead_code,
    reason = "each test binary uses the part of this that it needs"
)]

pub(crate) mod served;

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a command left behind.
pub(crate) struct Ran {
    /// Its exit code.
    pub(crate) code: i32,
    /// Its stdout, byte for byte.
    pub(crate) bytes: Vec<u8>,
    /// Its stdout.
    pub(crate) stdout: String,
    /// Its stderr.
    pub(crate) stderr: String,
}

impl Ran {
    /// All three in one text, with what differs from run to run replaced.
    pub(crate) fn golden(&self) -> String {
        format!(
            "exit {}\n--- stdout\n{}--- stderr\n{}",
            self.code,
            steady(&self.stdout),
            steady(&self.stderr)
        )
    }

    /// The document on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON document ({error}): {}", self.stdout))
    }
}

/// Commits and local times differ from run to run; contents and everything else do not.
fn steady(text: &str) -> String {
    let mut steady = String::new();
    for line in text.split_inclusive('\n') {
        let mut words = Vec::new();
        for word in line.split(' ') {
            let trimmed = word.trim_end_matches(['\n', ':', ',']);
            let is_id = [12, 40].contains(&trimmed.len())
                && trimmed.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_time = trimmed.len() >= 20 && trimmed.as_bytes()[10] == b'T';
            let replaced = if is_id {
                word.replace(trimmed, "ID")
            } else if is_time {
                word.replace(trimmed, "TIME")
            } else {
                word.to_owned()
            };
            words.push(replaced);
        }
        steady.push_str(&words.join(" "));
    }
    steady
}

/// A data directory for one test.
pub(crate) struct Place {
    dir: offshoot_testkit::HostDir,
}

impl Place {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Place {
            // Forks are mounts, which have to go before the directory can.
            dir: offshoot_testkit::HostDir::new(),
        }
    }

    /// One with the workspace `w`.
    pub(crate) fn with_workspace() -> Self {
        let place = Place::new();
        place.done(&["workspace", "create", "w"]);
        place
    }

    /// Where a test may put files of its own.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The command, not yet started.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_offshoot"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("TZ", "UTC")
            .env("OFFSHOOT_DATA", self.data())
            .stdin(Stdio::null());
        command
    }

    /// Runs it.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    /// Runs it with bytes on stdin.
    pub(crate) fn run_with_input<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // The command may have refused before it read anything.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        ran(output)
    }

    /// Runs it and expects success.
    pub(crate) fn done<S: AsRef<OsStr> + std::fmt::Debug>(&self, args: &[S]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.golden());
        ran
    }

    /// Writes a file into `w`.
    pub(crate) fn put(&self, path: &str, content: &[u8]) {
        let ran = self.run_with_input(&["put", "w", path], content);
        assert_eq!(ran.code, 0, "{}", ran.golden());
    }

    /// Takes a snapshot of `w`.
    pub(crate) fn snapshot(&self, label: &str) -> String {
        let ran = self.done(&["snapshot", "w", "-m", label]);
        ran.stdout.trim().to_owned()
    }
}

pub(crate) fn ran(output: std::process::Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        code: output.status.code().expect("not killed"),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
        bytes: output.stdout,
    }
}
