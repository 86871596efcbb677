//! Child processes that are this very test program: it runs the test `child`, which does nothing
//! unless an environment variable says what to do.
//!
//! Mounts outlive the process that made them, so a killed child leaves what a killed server leaves.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use offshoot_fs::ProviderName;
use offshoot_testkit::Process;

const TASK: &str = "OFFSHOOT_ENGINE_TEST_TASK";
const HOST: &str = "OFFSHOOT_ENGINE_TEST_HOST";
const PROVIDER: &str = "OFFSHOOT_ENGINE_TEST_PROVIDER";

/// What a child was started for.
pub(crate) struct Task {
    pub(crate) words: Vec<String>,
    pub(crate) host: PathBuf,
    pub(crate) provider: ProviderName,
}

/// What this process was started for, if it is a child.
pub(crate) fn task() -> Option<Task> {
    let words = std::env::var(TASK).ok()?;
    Some(Task {
        words: words.split(' ').map(str::to_owned).collect(),
        host: std::env::var_os(HOST)?.into(),
        provider: std::env::var(PROVIDER).ok()?.parse().unwrap(),
    })
}

/// Says something to the parent. One call, so that no line is torn.
pub(crate) fn say(line: &str) {
    let line = format!("\nsays {line}\n");
    let mut out = std::io::stdout().lock();
    // The parent may be gone; then nobody has to hear it.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// A running child and what it says.
pub(crate) struct Child {
    pub(crate) process: Process,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Child {
    /// Starts the test `child` of a module of this program.
    pub(crate) fn start(module: &str, task: &str, host: &Path, provider: ProviderName) -> Child {
        let mut process = Process::spawn(
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &format!("{module}::child")])
                .args(["--nocapture", "--test-threads=1"])
                .env(TASK, task)
                .env(HOST, host)
                .env(PROVIDER, provider.as_str())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        let stdin = process.take_stdin().unwrap();
        let stdout = process.take_stdout().unwrap();
        let (sender, lines) = channel();
        // Ends with the child, whose end closes the pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix("says ")
                    && sender.send(said.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Child {
            process,
            stdin,
            lines,
        }
    }

    /// Sends a line to the child.
    pub(crate) fn tell(&mut self, line: &str) {
        self.stdin
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }

    /// What it says next; none if it ends, or says nothing for so long.
    pub(crate) fn hear(&self, limit: Duration) -> Option<String> {
        self.lines.recv_timeout(limit).ok()
    }

    /// `kill -9`, and all that it said before.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.process.kill_hard();
        self.rest()
    }

    /// Lets it end well, with all that it does in the background.
    pub(crate) fn end(mut self) {
        drop(self.stdin);
        assert!(self.process.wait().success());
    }

    /// Everything it says until its end.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.lines.iter().collect()
    }
}
