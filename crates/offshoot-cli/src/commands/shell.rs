//! `offshoot shell`: a person's own shell in the directory of a workspace.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command as Program, ExitStatus};

use offshoot_core::{Error, ErrorCode, WorkspaceId};
use offshoot_engine::{Engine, EngineOptions};

use super::Context;
use crate::config::Settings;
use crate::file_args::Shell;
use crate::output::{CommandResult, Exit, Output, count};

/// Runs the shell or the command, and records what it changed.
pub(super) fn run(context: Context<'_>, args: &Shell, options: EngineOptions) -> CommandResult {
    let id = args.workspace.parse()?;
    let path = context.engine.forks.path_to_enter(&id)?;
    let Context {
        engine,
        settings,
        output,
        ..
    } = context;
    // A shell may stay open for days; meanwhile this process is none that works on the data directory.
    drop(engine);
    output.finish()?;
    let ended = start(args, &path, settings)?;
    let code = match ended.code() {
        Some(code) => u8::try_from(code).unwrap_or(u8::MAX),
        None => 128 + u8::try_from(ended.signal().unwrap_or(0)).unwrap_or(0),
    };
    match record(&id, options, output) {
        // The command's own failure says more.
        Err(error) if code != 0 => {
            let _ = output.error(&error);
        }
        recorded => recorded?,
    }
    Ok(Exit::Code(code))
}

/// Starts the program and waits for it. A program that an ordinary user starts from here has no rights
/// in the namespace: it cannot unmount anything.
fn start(args: &Shell, path: &Path, settings: &Settings) -> offshoot_core::Result<ExitStatus> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    let shell = shell.unwrap_or_else(|| "/bin/sh".into());
    let (program, words) = match args.command.split_first() {
        Some((program, words)) => (program, words),
        None => (&shell, &[][..]),
    };
    let cannot = |cause| {
        let name = program.to_string_lossy();
        Error::invalid(format!("`{}` cannot be run", name.escape_debug())).with_source(cause)
    };
    let data = &settings.data.value;
    let data = std::path::absolute(data).unwrap_or_else(|_| data.clone());
    offshoot_sys::leave_terminal_signals_to_child().map_err(cannot)?;
    Program::new(program)
        .args(words)
        .current_dir(path)
        // Commands that are typed in there mean the same data directory.
        .env("OFFSHOOT_DATA", data)
        .status()
        .map_err(cannot)
}

fn record(
    id: &WorkspaceId,
    options: EngineOptions,
    output: &mut Output,
) -> offshoot_core::Result<()> {
    let engine = Engine::open(options)?;
    let synced = match engine.sync.sync_workspace(id) {
        // It was completed or deleted meanwhile.
        Err(error) if error.code() == ErrorCode::WorkspaceNotFound => return Ok(()),
        synced => synced?,
    };
    if !synced.changes.is_empty() {
        let number = count(synced.changes.len() as i64, "change", "changes");
        output.note(format_args!("recorded {number} in `{id}`"));
    }
    Ok(())
}
