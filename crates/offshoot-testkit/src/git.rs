//! Stock git as the oracle, in an environment that is the same on every machine.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Author and committer of every commit that [`git`] makes.
pub const PERSON: (&str, &str) = ("Test Person", "test@example.com");

/// The time of every commit that [`git`] makes, as git writes it.
pub const DATE: &str = "1700000000 +0000";

/// A `git` command in `dir` that sees no configuration of the user or the machine, commits as
/// [`PERSON`] at [`DATE`], and cannot find a repository above `dir`.
#[must_use]
pub fn git_command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(dir).env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), PERSON.0)
            .env(format!("GIT_{role}_EMAIL"), PERSON.1)
            .env(format!("GIT_{role}_DATE"), DATE);
    }
    command
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir))
        .env("GIT_TERMINAL_PROMPT", "0");
    for setting in [
        "init.defaultBranch=main",
        "core.autocrlf=false",
        "core.excludesFile=",
        // Background work would write into a directory that a test is about to compare or remove.
        "gc.auto=0",
        "maintenance.auto=false",
        // Tests clone bare repositories that another user may own in a container.
        "safe.directory=*",
    ] {
        command.args(["-c", setting]);
    }
    command
}

/// Runs git in `dir` and returns what it printed, without the final newline.
///
/// # Panics
/// If git fails, with its error output, or prints something that is not UTF-8.
pub fn git<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> String {
    let mut output = String::from_utf8(git_bytes(dir, args)).expect("git printed UTF-8");
    if output.ends_with('\n') {
        output.pop();
    }
    output
}

/// Runs git in `dir` and returns the bytes it printed.
///
/// # Panics
/// If git fails, with its error output.
pub fn git_bytes<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> Vec<u8> {
    git_with_input(dir, args, b"")
}

/// Runs git in `dir` with `input` on its standard input and returns the bytes it printed.
///
/// # Panics
/// If git fails, with its error output.
pub fn git_with_input<S: AsRef<OsStr>>(dir: &Path, args: &[S], input: &[u8]) -> Vec<u8> {
    let mut child = git_command(dir)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("git does not start: {error}"));
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let output = std::thread::scope(|scope| {
        // A thread, because git may fill its output pipe before it has read all of the input. A
        // command that does not read its input closes the pipe, which is no error.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("git can be waited for")
    });
    let words: Vec<_> = args
        .iter()
        .map(|arg| arg.as_ref().to_string_lossy())
        .collect();
    assert!(
        output.status.success(),
        "`git {}` failed ({}): {}",
        words.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_the_same_everywhere() {
        let dir = tempfile::tempdir().expect("temp dir");
        git(dir.path(), &["init", "--quiet"]);
        std::fs::write(dir.path().join("a"), "one\n").expect("write");
        git(dir.path(), &["add", "-A"]);
        git(dir.path(), &["commit", "--quiet", "-m", "first"]);
        // The id covers tree, author, committer, dates and message: any leak of the machine's
        // configuration changes it.
        assert_eq!(git(dir.path(), &["rev-parse", "HEAD"]), FIRST_COMMIT);
        assert_eq!(git(dir.path(), &["branch", "--show-current"]), "main");
    }

    const FIRST_COMMIT: &str = "6fb75185760882d350081066c39f8a71b5dc2f8f";

    #[test]
    fn input_and_output_larger_than_a_pipe_do_not_block() {
        let dir = tempfile::tempdir().expect("temp dir");
        git(dir.path(), &["init", "--quiet"]);
        let content = vec![b'x'; 1 << 20];
        let id = git_with_input(dir.path(), &["hash-object", "-w", "--stdin"], &content);
        let id = String::from_utf8(id).expect("an id");
        assert_eq!(
            git_bytes(dir.path(), &["cat-file", "blob", id.trim()]),
            content
        );
    }

    #[test]
    #[should_panic(expected = "not a git repository")]
    fn a_failure_panics_with_the_reason() {
        let dir = tempfile::tempdir().expect("temp dir");
        git(dir.path(), &["status"]);
    }
}
