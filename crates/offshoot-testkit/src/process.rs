//! Child processes that a test can kill hard and that never outlive it.
//!
//! The path of the product's binary: inside the tests of `offshoot-cli` cargo gives it as
//! `env!("CARGO_BIN_EXE_offshoot")`. Other crates do not get it, and looking for it beside the test
//! binary would find a stale one: tests that need the real binary live in `offshoot-cli`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// A running child in a process group of its own. Dropping it kills the group with `SIGKILL` and
/// reaps the child, also when the test panics.
#[derive(Debug)]
pub struct Process {
    child: Child,
    exited: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` as the leader of a new process group.
    ///
    /// # Panics
    /// If the program does not start.
    pub fn spawn(command: &mut Command) -> Self {
        let child = command
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        Self {
            child,
            exited: None,
        }
    }

    /// The process id, which is also the id of the group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The write end of the child's standard input, once, if it was piped.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The read end of the child's standard output, once, if it was piped.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// `kill -9` for the whole group, then reaps the child. Its descendants get the same signal at
    /// the same time but are reaped by init.
    pub fn kill_hard(&mut self) -> ExitStatus {
        self.signal_group(Signal::KILL);
        self.wait()
    }

    /// Asks the whole group to end (`SIGTERM`), as an administrator would.
    pub fn terminate(&self) {
        self.signal_group(Signal::TERM);
    }

    /// Stops the whole group (`SIGSTOP`) until [`Process::resume`].
    pub fn pause(&self) {
        self.signal_group(Signal::STOP);
    }

    /// Lets a paused group run on (`SIGCONT`).
    pub fn resume(&self) {
        self.signal_group(Signal::CONT);
    }

    /// Waits for the child's end, however long it takes.
    ///
    /// # Panics
    /// If the child cannot be waited for.
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().expect("a child can be waited for");
        self.exited = Some(status);
        status
    }

    /// Waits for the child's end, at most `limit`. `None`: it still runs.
    ///
    /// # Panics
    /// If the child cannot be waited for.
    pub fn wait_at_most(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                self.exited = Some(status);
                return Some(status);
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Signals the group. Not after the child was reaped: its id may belong to another process by
    /// then.
    fn signal_group(&self, signal: Signal) {
        if self.exited.is_some() {
            return;
        }
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let group = group.expect("a process id is a positive i32");
        match rustix::process::kill_process_group(group, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => panic!("cannot signal a child: {}", io::Error::from(error)),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.exited.is_none() {
            self.kill_hard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    /// A shell that starts a grandchild and prints its process id.
    fn shell_with_grandchild() -> (Process, i32) {
        let mut shell = Process::spawn(
            Command::new("sh")
                .args(["-c", "sleep 600 & echo $!; wait"])
                .stdout(Stdio::piped()),
        );
        let mut line = String::new();
        let stdout = shell.take_stdout().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        (shell, line.trim().parse().expect("a process id"))
    }

    /// A killed process may wait for its reaper: a zombie counts as gone.
    fn gone(pid: i32) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
                Err(_) => return true,
                Ok(stat) if stat.contains(") Z ") => return true,
                Ok(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        false
    }

    #[test]
    fn dropping_kills_child_and_grandchild() {
        let (shell, grandchild) = shell_with_grandchild();
        let child = i32::try_from(shell.id()).expect("an i32");
        drop(shell);
        assert!(gone(child) && gone(grandchild));
    }

    #[test]
    fn a_panicking_test_leaves_no_process() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let outcome = std::thread::spawn(move || {
            let (_shell, grandchild) = shell_with_grandchild();
            sender.send(grandchild).expect("the other end lives");
            panic!("on purpose");
        })
        .join();
        assert!(outcome.is_err());
        assert!(gone(receiver.recv().expect("a process id")));
    }

    #[test]
    fn kill_hard_is_sigkill() {
        let (mut shell, _) = shell_with_grandchild();
        assert_eq!(shell.kill_hard().signal(), Some(9));
    }

    #[test]
    fn waiting_ends_at_the_limit_or_with_the_child() {
        let mut quick = Process::spawn(&mut Command::new("true"));
        let status = quick
            .wait_at_most(Duration::from_secs(10))
            .expect("it ends");
        assert!(status.success());
        let mut slow = Process::spawn(Command::new("sleep").arg("600"));
        assert!(slow.wait_at_most(Duration::from_millis(30)).is_none());
        slow.terminate();
        assert!(slow.wait_at_most(Duration::from_secs(10)).is_some());
    }
}
