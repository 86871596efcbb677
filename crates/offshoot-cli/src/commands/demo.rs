//! `offshoot demo`: the tour. Every line that it shows is run by a shell as it stands.

use std::path::Path;
use std::process::{Command, Stdio};

use offshoot_core::{Error, ErrorCode};

use crate::output::{Color, CommandResult, Exit, Failure, Output, short};

/// One stop of the tour.
enum Step {
    /// A sentence.
    Say(&'static str),
    /// A command.
    Run(&'static str),
    /// A command whose output is an id that later commands name in the place of the word given.
    Remember(&'static str, &'static str),
    /// A command that leaves a conflict waiting; later commands name its review by the word given.
    Waits(&'static str, &'static str),
    /// A command that needs stock git.
    IfGit(&'static str),
}

use Step::{IfGit, Remember, Run, Say, Waits};

/// The agents of the tour, whose workspaces must not outlive it.
const AGENTS: [&str; 2] = ["ada", "bob"];

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
    Say("Now many agents on one project. Each gets a private copy of all of it, at once."),
    Run(
        "mkdir app; echo '{\"port\": 8080, \"debug\": false}' > app/app.json; echo Welcome > app/README",
    ),
    Run("offshoot project create app --from app"),
    Run(
        "cd \"$(offshoot fork app --agent ada)\"; sed -i s/8080/9090/ app.json; echo 'Hi from Ada' > README",
    ),
    Run(
        "cd \"$(offshoot fork app --agent bob)\"; sed -i s/false/true/ app.json; echo 'Hi from Bob' > README",
    ),
    Say("Both changed the same line of JSON, which git calls a conflict. Both changes fit."),
    Run("offshoot complete ada --message m-3"),
    Waits("offshoot complete bob --message m-4", "REVIEW"),
    Run("offshoot project cat app app.json"),
    Say("A true conflict waits, holds nothing else up, and loses nothing."),
    Run("offshoot review show REVIEW"),
    Run("offshoot review resolve REVIEW union"),
    Say(
        "Every line knows its agent and its message, through all merges. Every merge can be undone.",
    ),
    Run("offshoot blame app README"),
    Run("offshoot merge log app"),
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
    let toured = tour(output, place.path(), &program, has_git);
    for agent in AGENTS.iter().filter(|_| toured.is_err()) {
        // A tour that stopped half-way must not leave a mount behind.
        let line = format!("offshoot workspace delete {agent}");
        let _ = run_line(place.path(), &program, &line);
    }
    toured?;
    output.note("\nThe tour's data directory is removed again.");
    Ok(Exit::Done)
}

/// Takes every step.
fn tour(output: &mut Output, place: &Path, program: &Path, has_git: bool) -> Result<(), Failure> {
    let mut remembered: Vec<(&str, String)> = Vec::new();
    for step in TOUR {
        let (line, word) = match step {
            Say(text) => {
                output.line(format_args!("\n# {text}"))?;
                continue;
            }
            IfGit(_) if !has_git => continue,
            Run(line) | IfGit(line) => (*line, None),
            Remember(line, word) | Waits(line, word) => (*line, Some(*word)),
        };
        let line = remembered
            .iter()
            .fold(line.to_owned(), |line, (word, id)| line.replace(word, id));
        let prompt = output.paint(Color::Bold, &format!("$ {line}"));
        output.line(prompt)?;
        let (code, answer) = run_line(place, program, &line)?;
        let expected = match step {
            Waits(..) => Exit::Conflicts,
            _ => Exit::Done,
        };
        if code != Some(i32::from(expected.code())) {
            let told = String::from_utf8_lossy(&answer).into_owned();
            return Err(Error::internal(format!("the tour stopped at `{line}`"))
                .with_source(told)
                .into());
        }
        output.stdout().write_all(&answer)?;
        if let Some(word) = word {
            let answer = String::from_utf8_lossy(&answer);
            let id = match step {
                // The id stands behind the word.
                Waits(..) => {
                    let mut words = answer.split_whitespace();
                    words.find(|word| *word == "review");
                    words.next().unwrap_or_default()
                }
                _ => answer.trim(),
            };
            remembered.push((word, short(id).to_owned()));
        }
    }
    Ok(())
}

/// Runs one line as a user's shell would. Gives its exit code, and stdout and stderr as they were
/// mixed.
fn run_line(
    place: &Path,
    program: &Path,
    line: &str,
) -> offshoot_core::Result<(Option<i32>, Vec<u8>)> {
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
    Ok((done.status.code(), done.stdout))
}

fn impossible(cause: std::io::Error) -> Error {
    Error::new(ErrorCode::Unsupported, "the tour cannot be given here")
        .with_hint("it needs a temporary directory and `sh`")
        .with_source(cause)
}
