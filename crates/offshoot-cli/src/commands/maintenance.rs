//! `offshoot clean`, `purge` and `check`: space, erasure and proof.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use offshoot_core::{Error, ObjectId, Result, WorkspaceId};
use offshoot_engine::{Cleaned, IgnoredFiles, Purged};

use super::Context;
use crate::args::PurgeCommand;
use crate::bytes;
use crate::output::{Align, CommandResult, Exit, count, printable, short, shown, size, when};
use offshoot_wire as wire;

const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) fn clean(
    cx: &mut Context<'_>,
    days: u32,
    include_ignored: bool,
    dry_run: bool,
) -> CommandResult {
    let cleaned = cx
        .engine
        .upkeep
        .clean_with(DAY * days, include_ignored, dry_run, &cx.cause)?;
    if cx.output.json() {
        cx.output.document(&wire::Cleaned::from(&cleaned))?;
        return Ok(Exit::Done);
    }
    show_cleaned(cx, &cleaned)?;
    let number = count(cleaned.workspaces.len() as i64, "directory", "directories");
    let bytes: i64 = cleaned.workspaces.iter().map(|each| each.disk_usage).sum();
    let bytes = size(bytes);
    match &cleaned.collected {
        None => cx.output.line(format_args!(
            "would remove {number} ({bytes}); nothing was changed"
        ))?,
        Some(collected) => {
            cx.output.line(format_args!("removed {number} ({bytes})"))?;
            let freed = collected.blob_bytes + collected.row_bytes;
            cx.output.line(format_args!(
                "collected {} ({})",
                count(collected.objects as i64, "object", "objects"),
                size(i64::try_from(freed).unwrap_or(i64::MAX))
            ))?;
        }
    }
    if !cleaned.workspaces.is_empty() {
        let mut ignored = IgnoredFiles::default();
        for each in &cleaned.workspaces {
            ignored.files += each.ignored.files;
            ignored.bytes += each.ignored.bytes;
        }
        show_ignored(cx, &ignored, include_ignored, dry_run)?;
        cx.output.note(
            "what was kept is still read and written; `workspace path` brings a directory back",
        );
    }
    Ok(Exit::Done)
}

/// Says what went, or would go, because only the ignore rules name it; `included` if ignored files were
/// to be kept.
pub(super) fn show_ignored(
    cx: &mut Context<'_>,
    ignored: &IgnoredFiles,
    included: bool,
    plan: bool,
) -> io::Result<()> {
    if ignored.is_empty() {
        return Ok(());
    }
    let files = i64::try_from(ignored.files).unwrap_or(i64::MAX);
    let bytes = i64::try_from(ignored.bytes).unwrap_or(i64::MAX);
    let verb = if plan { "would go" } else { "went" };
    // What goes in spite of the option are files that `.worktreeinclude` names.
    let hint = match included {
        true => "",
        false => "; `--include-ignored` keeps such files",
    };
    cx.output.line(format_args!(
        "{} ({}) {verb} with it{hint}",
        count(files, "ignored file", "ignored files"),
        size(bytes)
    ))
}

fn show_cleaned(cx: &mut Context<'_>, cleaned: &Cleaned) -> io::Result<()> {
    let rows: Vec<Vec<String>> = cleaned
        .workspaces
        .iter()
        .map(|workspace| {
            let kept = workspace.snapshot.map(ObjectId::to_hex);
            vec![
                workspace.id.to_string(),
                when(workspace.last_used),
                size(workspace.disk_usage),
                kept.as_deref().map_or("-", short).to_owned(),
            ]
        })
        .collect();
    cx.output.table(
        &[
            ("WORKSPACE", Align::Left),
            ("LAST USED", Align::Left),
            ("ON DISK", Align::Right),
            ("KEPT AS", Align::Left),
        ],
        &rows,
    )
}

pub(super) fn purge(cx: &mut Context<'_>, command: &PurgeCommand) -> CommandResult {
    let purged = match command {
        PurgeCommand::Workspace { workspace, yes } => {
            let id: WorkspaceId = workspace.parse()?;
            confirm(
                &format!("erase workspace `{id}` with all its snapshots"),
                *yes,
            )?;
            cx.engine.upkeep.purge_workspace(&id)?
        }
        PurgeCommand::Path {
            workspace,
            path,
            yes,
        } => {
            let id: WorkspaceId = workspace.parse()?;
            let path = bytes::path(path)?;
            let what = format!("erase all that {} in `{id}` ever held", shown(&path));
            confirm(&what, *yes)?;
            cx.engine.upkeep.purge_path(&id, &path, &cx.cause)?
        }
        PurgeCommand::Content { id, yes } => {
            let id: ObjectId = id.parse()?;
            confirm(&format!("erase content {id} everywhere"), *yes)?;
            cx.engine.upkeep.purge_content(id, &cx.cause)?
        }
    };
    if cx.output.json() {
        cx.output.document(&wire::Purged::from(&purged))?;
    } else {
        show_purged(cx, &purged)?;
    }
    Ok(Exit::Done)
}

/// Asks a person once more. A program that types this command meant it.
pub(super) fn confirm(what: &str, yes: bool) -> Result<()> {
    if yes || !io::stdin().is_terminal() {
        return Ok(());
    }
    let _ = write!(io::stderr(), "{what}? This cannot be undone. Type `yes`: ");
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    if answer.trim() == "yes" {
        return Ok(());
    }
    Err(Error::invalid("not confirmed, so nothing was erased"))
}

fn show_purged(cx: &mut Context<'_>, purged: &Purged) -> io::Result<()> {
    if purged.workspaces > 0 {
        let workspaces = count(purged.workspaces as i64, "workspace", "workspaces");
        cx.output.line(format_args!("erased {workspaces}"))?;
    }
    let contents = count(purged.contents.len() as i64, "content", "contents");
    cx.output.line(format_args!("erased {contents}"))?;
    for (workspace, path) in &purged.files {
        cx.output.line(format_args!(
            "{} in `{workspace}` holds a placeholder now",
            shown(path)
        ))?;
    }
    for (old, new) in &purged.snapshots {
        let (old, new) = (old.to_hex(), new.to_hex());
        cx.output.line(format_args!(
            "snapshot {} was written anew as {}",
            short(&old),
            short(&new)
        ))?;
    }
    for (project, tag) in &purged.tags {
        cx.output.line(format_args!(
            "{} of `{project}` is gone: what it named was written anew",
            printable(tag)
        ))?;
    }
    if purged.remains {
        cx.output.note(
            "the disk is too full to write the store anew: remains of what was erased are in its \
             files until `offshoot clean` is run with more space",
        );
    }
    Ok(())
}

pub(super) fn check(cx: &mut Context<'_>) -> CommandResult {
    let report = cx.engine.upkeep.check()?;
    let exit = if report.problems.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    };
    if cx.output.json() {
        cx.output.document(&wire::CheckReport::from(&report))?;
        return Ok(exit);
    }
    for problem in &report.problems {
        let message = printable(&problem.message);
        cx.output
            .line(format_args!("{}: {message}", problem.what))?;
    }
    let looked_at = format!(
        "{}, {}, {} ({})",
        count(report.workspaces as i64, "workspace", "workspaces"),
        count(report.snapshots as i64, "snapshot", "snapshots"),
        count(report.objects as i64, "object", "objects"),
        size(i64::try_from(report.bytes).unwrap_or(i64::MAX))
    );
    match report.problems.len() {
        0 => cx.output.line(format_args!("{looked_at}: all is whole"))?,
        n => {
            let problems = count(n as i64, "problem", "problems");
            cx.output.line(format_args!("{looked_at}: {problems}"))?;
        }
    }
    Ok(exit)
}
