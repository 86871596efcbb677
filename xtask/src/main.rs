//! The chores of the repository: `cargo xtask test`, `tidy`, `soak`, `ui` and `api`.
//!
//! Only the standard library, so that the first command a newcomer runs starts within seconds.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod api;
mod date;
mod fuzz;
mod requirements;
mod shell;
mod soak;
mod test;
mod tidy;
mod ui;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [-- ARGS]     install what is missing, then check format, lints, tests, documents, UI and tidy;
                     ARGS go to nextest, for example: cargo xtask test -- -p offshoot-fs race_
  tidy               check that the repository is what its documents say
  soak [NAME…]       run the long torture tests with full counts and note the result in docs/reports
  soak --list        name them
  ui                 build the web UI into the file that the server embeds
  ui --dev           serve it with live reload, in front of an `offshoot serve` that runs
  ui --browse        build the server and drive the UI that it serves in a browser
  api [-- ARGS]      try the HTTP door with Schemathesis, which must be installed; ARGS go to it
";

/// The names of the commands, for the check that the README mentions only those that exist.
const COMMANDS: [&str; 5] = ["test", "tidy", "soak", "ui", "api"];

/// A chore that failed, in words for the terminal.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test"] => test::run(&root(), &[]),
        ["test", "--", rest @ ..] => test::run(&root(), rest),
        ["tidy"] => tidy::run(&root()),
        ["soak", "--list"] => soak::list(),
        ["soak", names @ ..] => soak::run(&root(), names),
        ["ui"] => ui::build(&root()),
        ["ui", "--dev"] => ui::dev(&root()),
        ["ui", "--browse"] => ui::build_and_browse(&root()),
        ["api"] => api::run(&root(), &[]),
        ["api", "--", rest @ ..] => api::run(&root(), rest),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The directory of the workspace.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_names_every_command() {
        for command in COMMANDS {
            assert!(USAGE.contains(&format!("\n  {command} ")), "{command}");
        }
    }
}
