//! The `offshoot` command: arguments in, engine calls, rendering and exit codes out.

mod args;
mod bytes;
mod commands;
mod config;
mod config_server;
mod file_args;
mod link_args;
mod log;
#[cfg(target_os = "linux")]
mod namespace;
mod output;
mod progress;
mod project_args;
mod server_args;

use std::process::ExitCode;

use clap::Parser as _;
use offshoot_core::Error;

use crate::args::{Args, Command};
use crate::output::{Exit, Failure, Output};

fn main() -> ExitCode {
    let exit = match Args::try_parse() {
        Ok(args) => run(args),
        Err(error) => refuse_usage(&error),
    };
    ExitCode::from(exit.code())
}

/// Runs one command. Everything is dropped before the process ends, above all the engine: one
/// that is not closed looks like a crash to the next process.
fn run(args: Args) -> Exit {
    let mut output = Output::new(args.json, args.quiet, args.no_color);
    let failed = match &args.command {
        Command::MergeFile(_) => commands::MERGE_FILE_FAILED,
        _ => Exit::Failed,
    };
    match commands::run(args, &mut output).and_then(|exit| output.finish().map(|()| exit)) {
        Ok(exit) => exit,
        Err(Failure::Request(error)) => {
            // Nobody is left to tell if this fails too.
            let _ = output.error(&error);
            failed
        }
        // The reader has seen enough, which is no failure of ours.
        Err(Failure::Output(cause)) if cause.kind() == std::io::ErrorKind::BrokenPipe => Exit::Done,
        Err(Failure::Output(cause)) => {
            let _ = output.error(&output::unwritable(cause));
            failed
        }
    }
}

/// Help and versions go to stdout and are no failure; wrong usage goes to stderr, and with
/// `--json` also to stdout as the one document that was asked for.
fn refuse_usage(error: &clap::Error) -> Exit {
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Done;
    }
    let typed = |word: &str| {
        let mut words = std::env::args_os().take_while(|arg| arg != "--");
        words.any(|arg| arg == word)
    };
    if typed("--json") {
        let text = error.render().to_string();
        let first = text.lines().next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(first);
        let body = Error::invalid(message).with_hint("`offshoot --help` shows the usage");
        let _ = Output::new(true, true, true).error(&body);
    }
    match typed("merge-file") {
        true => commands::MERGE_FILE_MISUSED,
        false => Exit::Usage,
    }
}
