//! `offshoot demo`: the tour. Every line that it shows is run by a shell as it stands.

use std::path::Path;
use std::process::{Command, Stdio};

use offshoot_core::{Error, ErrorCode};

use crate::output::{Color, CommandResult, Exit, Output, short};

/// One stop of the tour.
enum Step {
    /// A sentence.
    Say(&'static str),
    /// A command.
    Run(&'static str),
    /// A command whose output is an id that later commands name in the place of the word given.
    Remember(&'static str, &'static str),
    /// A command that needs stock git.
    IfGit(&'static str),
}

use Step::{IfGit, Remember, Run, Say};

const TOUR: &[Step] = &[
    Say("A workspace is a row until someone writes."),
    Run("offshoot workspace create tour"),
    Run("offshoot info tour"),
    Say("Two agents write. Who and why is remembered with every version."),
    Run("printf 'one\\ntwo\\nthree\\n' | offshoot put tour notes.txt --operator ada --message m-1"),
    Run("echo 'print(42)' | offshoot put tour src/main.py --operator bob"),
    Run("offshoot edit tour notes.txt --old two --new TWO --operator bob --message m-2"),
    Run("offshoot ls tour"),
    Run("offshoot history tour notes.txt"),
    Say("A snapshot is a state that can be brought back: a git commit."),
    Remember("offshoot snapshot tour -m 'both are done'", "SNAP"),
    Say("Any program may work in the directory. Sync finds what it did."),
    Run("echo four >> \"$(offshoot workspace path tour)/notes.txt\""),
    Run("rm \"$(offshoot workspace path tour)/src/main.py\""),
    Run("offshoot sync tour"),
    Run("offshoot diff tour"),
    Say("Back to the snapshot. The state before is kept, too."),
    Run("offshoot restore tour SNAP"),
    Run("offshoot cat tour notes.txt"),
    Run("offshoot snapshots tour"),
    Say("Snapshots are git's own: what is exported, stock git reads."),
    Run("offshoot workspace export tour --git tour.git"),
    IfGit("git --git-dir tour.git log --stat --format='%h %an: %s'"),
    Say("Everything that was said to be kept is there, and hashes."),
    Run("offshoot check"),
];

/// Runs the tour on a data directory of its own, which is removed at the end.
pub(super) fn run(output: &mut Output) -> CommandResult {
    if output.json() {
        return Err(Error::new(
            ErrorCode::Unsupported,
            "the tour is for people: it has no JSON form",
        )
        .with_hint("run it without `--json`")
        .into());
    }
    let place = tempfile::tempdir().map_err(impossible)?;
    let program = std::env::current_exe().map_err(impossible)?;
    let has_git = Command::new("git")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let mut remembered: Vec<(&str, String)> = Vec::new();
    for step in TOUR {
        let (line, word) = match step {
            Say(text) => {
                output.line(format_args!("\n# {text}"))?;
                continue;
            }
            IfGit(_) if !has_git => continue,
            Run(line) | IfGit(line) => (*line, None),
            Remember(line, word) => (*line, Some(*word)),
        };
        let line = remembered
            .iter()
            .fold(line.to_owned(), |line, (word, id)| line.replace(word, id));
        let prompt = output.paint(Color::Bold, &format!("$ {line}"));
        output.line(prompt)?;
        let answer = run_line(place.path(), &program, &line)?;
        output.stdout().write_all(&answer)?;
        if let Some(word) = word {
            let id = String::from_utf8_lossy(&answer).trim().to_owned();
            remembered.push((word, short(&id).to_owned()));
        }
    }
    output.note("\nThe tour's data directory is removed again.");
    Ok(Exit::Done)
}

/// Runs one line as a user's shell would; stdout and stderr come back as they were mixed.
fn run_line(place: &Path, program: &Path, line: &str) -> offshoot_core::Result<Vec<u8>> {
    let script = format!("offshoot() {{ \"$OFFSHOOT_PROGRAM\" \"$@\"; }}\nexec 2>&1\n{line}");
    let mut command = Command::new("sh");
    command
        .args(["-eu", "-c", &script])
        .current_dir(place)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OFFSHOOT_") {
            command.env_remove(name);
        }
    }
    let done = command
        .env("OFFSHOOT_PROGRAM", program)
        .env("OFFSHOOT_DATA", place.join("data"))
        .output()
        .map_err(impossible)?;
    if !done.status.success() {
        return Err(Error::internal(format!("the tour stopped at `{line}`"))
            .with_source(String::from_utf8_lossy(&done.stdout).into_owned()));
    }
    Ok(done.stdout)
}

fn impossible(cause: std::io::Error) -> Error {
    Error::new(ErrorCode::Unsupported, "the tour cannot be given here")
        .with_hint("it needs a temporary directory and `sh`")
        .with_source(cause)
}
