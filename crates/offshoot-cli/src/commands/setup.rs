//! `offshoot project setup`: what every fork begins with beside its files.

use std::io;
use std::process::{Command, Stdio};

use offshoot_core::{Error, ProjectId};
use offshoot_engine::{SetupMade, SetupRun, SetupState, SetupStatus};

use super::Context;
use super::workspace::fields;
use crate::output::{CommandResult, Exit, count, local, printable, shown, size};
use crate::project_args::SetupArgs;
use offshoot_wire as wire;

/// The most paths left out that are named; `--json` names all.
const MOST_NOTES: usize = 20;

/// Shows, sets, runs or removes the setup of a project.
pub(super) fn run(cx: &mut Context<'_>, args: &SetupArgs) -> CommandResult {
    let id = cx.project(args.project.as_deref())?;
    let projects = cx.engine.projects.clone();
    if args.off {
        projects.remove_setup(&id, &cx.cause)?;
    }
    let run = match args.command.is_empty() {
        // Only a command that made something takes the place of the one before.
        false => {
            let setup = projects.new_setup(&id, args.command.clone(), args.on.clone())?;
            Some(projects.begin_new_setup(&id, setup, &cx.cause)?)
        }
        true if args.refresh => Some(projects.begin_setup(&id)?),
        true => None,
    };
    let made = run.map(|run| make(cx, run)).transpose()?;
    let status = projects.setup(&id)?;
    if cx.output.json() {
        let document = wire::ProjectSetup::new(status.as_ref(), made.as_ref());
        cx.output.document(&document)?;
        return Ok(Exit::Done);
    }
    if let Some(made) = &made {
        note_made(cx, made);
    }
    let Some(status) = status else {
        let set = cx.command_line(&["project", "setup", id.as_str(), "--", "COMMAND"]);
        cx.output
            .note(format_args!("`{id}` has no setup; `{set}` sets one"));
        return Ok(Exit::Done);
    };
    show(cx, &id, &status)
}

/// Runs the command in a directory of its own, and freezes what it made.
fn make(cx: &mut Context<'_>, run: SetupRun) -> Result<SetupMade, Error> {
    let command = printable(&run.command().join(" "));
    cx.output.note(format_args!("running `{command}`"));
    run_command(&run)?;
    run.finish()
}

fn run_command(run: &SetupRun) -> Result<(), Error> {
    let words = run.command();
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .current_dir(run.dir())
        .env("PWD", run.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::from(io::stderr()));
    let status = command.status().map_err(|cause| {
        Error::invalid(format!(
            "the command `{}` could not be started",
            printable(&words[0])
        ))
        .with_hint("check its name; for shell syntax use `-- sh -c '…'`; the setup is as before")
        .with_source(cause)
    })?;
    if status.success() {
        return Ok(());
    }
    Err(
        Error::invalid(format!("the setup command failed: {status}"))
            .with_hint("the setup is as before; nothing that the command made was kept"),
    )
}

fn note_made(cx: &mut Context<'_>, made: &SetupMade) {
    let paths: Vec<String> = made.taken.iter().take(MOST_NOTES).map(shown).collect();
    cx.output.note(format_args!(
        "forks begin with {}: {} ({})",
        paths.join(", "),
        count(made.entries, "entry", "entries"),
        size(made.bytes)
    ));
    for (path, why) in made.left_out.iter().take(MOST_NOTES) {
        cx.output
            .note(format_args!("left out {}: {why}", shown(path)));
    }
    if made.left_out.len() > MOST_NOTES {
        cx.output.note(format_args!(
            "left out {} more; `--json` names all",
            made.left_out.len() - MOST_NOTES
        ));
    }
}

fn show(cx: &mut Context<'_>, id: &ProjectId, status: &SetupStatus) -> CommandResult {
    let mut rows = rows(status);
    rows.push(("depends on", printable(&status.setup.on.join(", "))));
    for layer in &status.layers {
        let newest = if layer.is_current {
            ""
        } else {
            ", for other files"
        };
        let what = count(layer.entries, "entry", "entries");
        let made = local(layer.made_at);
        rows.push((
            "made",
            format!("{made}: {what} ({}){newest}", size(layer.bytes)),
        ));
    }
    note_if_stale(cx, id, status);
    fields(cx, &rows)
}

/// The lines about a setup in what is shown of a project.
pub(super) fn rows(status: &SetupStatus) -> Vec<(&'static str, String)> {
    let command = printable(&status.setup.command.join(" "));
    vec![("setup", format!("{command} ({})", status.state.as_str()))]
}

/// Says how to get the results of a setup that new forks lack.
pub(super) fn note_if_stale(cx: &mut Context<'_>, id: &ProjectId, status: &SetupStatus) {
    let why = match status.state {
        SetupState::Ready => return,
        SetupState::Stale => "what the setup depends on has changed since it ran",
        SetupState::Missing => "there are no results of the setup",
    };
    let run = cx.command_line(&["project", "setup", id.as_str(), "--refresh"]);
    cx.output.note(format_args!(
        "{why}, so new forks begin without its results; run it with: {run}"
    ));
}
