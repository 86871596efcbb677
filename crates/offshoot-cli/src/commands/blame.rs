//! `offshoot blame`: who wrote each line of a file.

use std::ffi::OsString;

use clap::Args;
use offshoot_core::{ErrorCode, ProjectId, WorkspaceId};
use offshoot_engine::{BlameLine, BlameTarget};

use super::Context;
use crate::bytes;
use crate::output::{Align, CommandResult, Exit, printable, short, when};
use offshoot_wire as wire;

/// `blame`.
#[derive(Debug, Args)]
pub(crate) struct BlameArgs {
    /// The workspace or project; a workspace if both have that name
    #[arg(value_name = "WS|PROJECT")]
    name: String,
    /// The file
    path: OsString,
    /// It is the project of that name
    #[arg(long)]
    project: bool,
    /// As it was in this snapshot
    #[arg(long, value_name = "SNAP")]
    at: Option<String>,
}

/// Shows each line with its agent, message, snapshot and time.
pub(super) fn run(cx: &mut Context<'_>, args: &BlameArgs) -> CommandResult {
    let path = bytes::path(&args.path)?;
    let (workspace, project): (WorkspaceId, ProjectId) = (args.name.parse()?, args.name.parse()?);
    let of = match args.project || !is_workspace(cx, &workspace)? {
        true => BlameTarget::Project(&project),
        false => BlameTarget::Workspace(&workspace),
    };
    let lines = cx.engine.history.blame(of, args.at.as_deref(), &path)?;
    if cx.output.json() {
        cx.output.document(&wire::Blame::new(&path, &lines))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = lines.iter().enumerate().map(row).collect();
    cx.output.table(
        &[
            ("SNAPSHOT", Align::Left),
            ("WHO", Align::Left),
            ("MESSAGE", Align::Left),
            ("WHEN", Align::Left),
            ("LINE", Align::Right),
            ("TEXT", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn row((index, line): (usize, &BlameLine)) -> Vec<String> {
    let snapshot = line.snapshot.map(offshoot_core::ObjectId::to_hex);
    let text = line.text.strip_suffix(b"\n").unwrap_or(&line.text);
    // A file's bytes must not drive the terminal.
    let text = String::from_utf8_lossy(text);
    let text = text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}");
    vec![
        snapshot.as_deref().map_or("-", short).to_owned(),
        printable(line.agent.as_deref().unwrap_or(&line.operator)),
        printable(line.message_id.as_deref().unwrap_or("-")),
        when(line.at),
        (index + 1).to_string(),
        text,
    ]
}

fn is_workspace(cx: &Context<'_>, id: &WorkspaceId) -> offshoot_core::Result<bool> {
    match cx.engine.workspaces.workspace(id) {
        Ok(_) => Ok(true),
        Err(error) if error.code() == ErrorCode::WorkspaceNotFound => Ok(false),
        Err(error) => Err(error),
    }
}
