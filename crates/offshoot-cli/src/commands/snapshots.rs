//! Commands on states of a workspace: status, diff, snapshots, restore, history, sync.

use std::io;

use offshoot_core::{
    Change, ChangeKind, ChangeSet, EntryKind, Error, ObjectId, RelPath, WorkspaceId,
};
use offshoot_engine::{BaseMoved, Engine, Point, Snapshot, TooLarge, history_as_json};

use super::Context;
use crate::bytes;
use crate::file_args::{Diff, DiffForm};
use crate::output::{
    Align, Color, CommandResult, Exit, Output, count, printable, short, shown, size, when,
};
use offshoot_wire as wire;
use offshoot_wire::diff::{TextDiff, compare, file_header};

pub(super) fn status(cx: &mut Context<'_>, id: &WorkspaceId) -> CommandResult {
    let changes = cx.engine.sync.changes(id)?;
    if cx.output.json() {
        cx.output
            .document(&wire::Status::new(id.as_str(), &changes))?;
        return Ok(Exit::Done);
    }
    let base = match changes.base {
        Some(base) => format!("snapshot {}", short(&base.to_hex())),
        None => "the empty workspace".to_owned(),
    };
    let set = &changes.set;
    if set.changes.is_empty() {
        cx.output.note(format_args!("nothing changed since {base}"));
    } else {
        let number = count(set.changes.len() as i64, "change", "changes");
        cx.output.note(format_args!("{number} since {base}"));
    }
    show_changes(cx.output, set)?;
    for path in &set.ignored {
        cx.output.line(format_args!("!  {}", shown(path)))?;
    }
    note_refused(cx, &changes.refused);
    note_too_large(cx, &changes.too_large);
    if let Some(moved) = &changes.moved {
        note_moved(cx, id, moved);
    }
    Ok(Exit::Done)
}

/// What is in the directory of a workspace and not in the workspace.
fn note_refused(cx: &mut Context<'_>, refused: &[(RelPath, String)]) {
    for (path, reason) in refused {
        cx.output.note(format_args!(
            "left out {}: {}",
            shown(path),
            printable(reason)
        ));
    }
}

/// Names files that no snapshot holds.
fn note_too_large(cx: &mut Context<'_>, files: &[TooLarge]) {
    let bytes = |bytes: u64| size(i64::try_from(bytes).unwrap_or(i64::MAX));
    for file in files {
        cx.output.note(format_args!(
            "left out {}: it has {}, and files of more than {} are not read",
            shown(&file.path),
            bytes(file.size),
            bytes(file.limit)
        ));
    }
}

/// Tells how far the project is ahead of its fork, and what that means for it.
fn note_moved(cx: &mut Context<'_>, id: &WorkspaceId, moved: &BaseMoved) {
    cx.output.note(format_args!(
        "the project `{}` is {} ahead",
        moved.project,
        count(moved.snapshots, "snapshot", "snapshots")
    ));
    for path in &moved.overlap {
        cx.output.note(format_args!("both changed {}", shown(path)));
    }
    let update = cx.command_line(&["update", id.as_str()]);
    cx.output.note(format_args!("catch up with: {update}"));
}

/// One line for each change: a letter and the path.
pub(super) fn show_changes(output: &mut Output, set: &ChangeSet) -> io::Result<()> {
    for change in &set.changes {
        let (letter, color) = match change.change {
            ChangeKind::Added => ("A", Color::Green),
            ChangeKind::Modified => ("M", Color::Cyan),
            ChangeKind::Deleted => ("D", Color::Red),
            ChangeKind::Mode => ("P", Color::Cyan),
            ChangeKind::Type => ("T", Color::Cyan),
        };
        let slash = if change.kind == EntryKind::Dir {
            "/"
        } else {
            ""
        };
        let letter = output.paint(color, letter);
        output.line(format_args!("{letter}  {}{slash}", shown(&change.path)))?;
    }
    Ok(())
}

pub(super) fn diff(cx: &mut Context<'_>, args: &Diff) -> CommandResult {
    let id: WorkspaceId = args.workspace.parse()?;
    let below = bytes::path_or_root(args.path.as_deref())?;
    let form = &args.form;
    let from = form.from.as_deref().map_or(Point::Head, Point::Snapshot);
    let to = form.to.as_deref().map_or(Point::Now, Point::Snapshot);
    let mut set = cx.engine.workspaces.diff(&id, from, to)?;
    set.changes.retain(|change| change.path.starts_with(&below));
    show_diff(cx, form, &set)
}

/// Shows a difference in the form that was asked for.
pub(super) fn show_diff(cx: &mut Context<'_>, args: &DiffForm, set: &ChangeSet) -> CommandResult {
    if cx.output.json() {
        return diff_as_json(cx, args, set);
    }
    if args.name_only {
        for change in &set.changes {
            cx.output.line(shown(&change.path))?;
        }
    } else if args.stat {
        show_stat(cx, set)?;
    } else {
        for change in &set.changes {
            show_difference(cx, change)?;
        }
    }
    Ok(Exit::Done)
}

/// What differs in one path.
enum Difference {
    /// Lines of text.
    Text(TextDiff),
    /// Bytes, or too many of them.
    Binary,
    /// The permission bits alone, or a directory.
    NoContent,
}

fn difference(engine: &Engine, change: &Change) -> offshoot_core::Result<Difference> {
    if change.before == change.after {
        return Ok(Difference::NoContent);
    }
    let content = |id: Option<ObjectId>| match id {
        Some(id) => engine.workspaces.content_of(&id),
        None => Ok(Vec::new()),
    };
    let (before, after) = (content(change.before)?, content(change.after)?);
    Ok(compare(&before, &after).map_or(Difference::Binary, Difference::Text))
}

fn diff_as_json(cx: &mut Context<'_>, args: &DiffForm, set: &ChangeSet) -> CommandResult {
    let mut changes = Vec::with_capacity(set.changes.len());
    for change in &set.changes {
        let mut shape = wire::FileDifference {
            change: wire::ChangedPath::from(change),
            binary: false,
            added_lines: None,
            removed_lines: None,
            diff: None,
        };
        if !args.name_only {
            match difference(&cx.engine, change)? {
                Difference::NoContent => {}
                Difference::Binary => shape.binary = true,
                Difference::Text(text) => {
                    shape.added_lines = Some(text.added);
                    shape.removed_lines = Some(text.removed);
                    shape.diff =
                        (!args.stat).then(|| String::from_utf8_lossy(&text.hunks).into_owned());
                }
            }
        }
        changes.push(shape);
    }
    cx.output.document(&wire::Difference {
        from: args.from.clone(),
        to: args.to.clone(),
        changes,
    })?;
    Ok(Exit::Done)
}

fn show_stat(
    cx: &mut Context<'_>,
    set: &ChangeSet,
) -> std::result::Result<(), crate::output::Failure> {
    let mut rows = Vec::with_capacity(set.changes.len());
    let (mut added, mut removed) = (0, 0);
    for change in &set.changes {
        let what = match difference(&cx.engine, change)? {
            Difference::NoContent if change.kind == EntryKind::Dir => {
                vec!["dir".to_owned(), String::new()]
            }
            Difference::NoContent => vec!["mode".to_owned(), String::new()],
            Difference::Binary => vec!["binary".to_owned(), String::new()],
            Difference::Text(text) => {
                added += text.added;
                removed += text.removed;
                vec![format!("+{}", text.added), format!("-{}", text.removed)]
            }
        };
        rows.push([what, vec![shown(&change.path)]].concat());
    }
    let columns = [("", Align::Right), ("", Align::Right), ("", Align::Left)];
    cx.output.table(&columns, &rows)?;
    let paths = count(set.changes.len() as i64, "path", "paths");
    cx.output.line(format_args!(
        "{paths} changed, {added} lines added, {removed} removed"
    ))?;
    Ok(())
}

fn show_difference(
    cx: &mut Context<'_>,
    change: &Change,
) -> std::result::Result<(), crate::output::Failure> {
    let path = shown(&change.path);
    match difference(&cx.engine, change)? {
        Difference::NoContent if change.kind == EntryKind::Dir => {
            let did = match change.change {
                ChangeKind::Added => "added",
                ChangeKind::Deleted => "deleted",
                _ => "changed its mode",
            };
            cx.output.line(format_args!("Directory {path}/ {did}"))?;
        }
        Difference::NoContent => cx
            .output
            .line(format_args!("File {path} changed its mode"))?,
        Difference::Binary => cx.output.line(format_args!("Binary file {path} differs"))?,
        Difference::Text(text) => {
            if change.change == ChangeKind::Type {
                cx.output.line(format_args!("{path} changed its type"))?;
            }
            let side = |id: Option<ObjectId>| id.map(|_| path.as_str());
            let header = file_header(side(change.before), side(change.after));
            let header = cx.output.paint(Color::Bold, header.trim_end_matches('\n'));
            cx.output.line(header)?;
            show_hunks(cx.output, &text.hunks)?;
        }
    }
    Ok(())
}

/// The hunks as they are, or for a terminal line by line.
pub(super) fn show_hunks(output: &mut Output, hunks: &[u8]) -> io::Result<()> {
    if !output.is_terminal() {
        return output.stdout().write_all(hunks);
    }
    for line in hunks.split_inclusive(|&byte| byte == b'\n') {
        let color = match line.first() {
            Some(b'@') => Some(Color::Cyan),
            Some(b'+') => Some(Color::Green),
            Some(b'-') => Some(Color::Red),
            _ => None,
        };
        // A file's bytes must not drive the terminal: they are shown as text.
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
        let text = text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}");
        let text = color.map_or(text.clone(), |color| output.paint(color, &text));
        output.line(text)?;
    }
    Ok(())
}

pub(super) fn snapshot(
    cx: &mut Context<'_>,
    id: &WorkspaceId,
    label: Option<&str>,
    include_ignored: bool,
) -> CommandResult {
    let taken = cx
        .engine
        .workspaces
        .snapshot(id, label, include_ignored, &cx.cause)?;
    if cx.output.json() {
        cx.output.document(&wire::Taken::from(&taken))?;
        return Ok(Exit::Done);
    }
    cx.output.line(taken.snapshot.id)?;
    if !taken.created {
        cx.output
            .note("nothing changed since the newest snapshot, which this is");
    }
    Ok(Exit::Done)
}

pub(super) fn list(cx: &mut Context<'_>, id: &WorkspaceId, limit: usize) -> CommandResult {
    let snapshots = cx.engine.workspaces.snapshots(id, limit)?;
    if snapshots.is_empty() && !cx.output.json() {
        cx.output
            .note("there are no snapshots; `offshoot snapshot WS` takes one");
    }
    show_list(cx, &snapshots)
}

/// On whose behalf a snapshot was taken, or else by whom.
pub(super) fn who(snapshot: &Snapshot) -> &str {
    let cause = &snapshot.cause;
    cause.claim.as_deref().unwrap_or(cause.operator.as_str())
}

/// Shows snapshots, newest first.
pub(super) fn show_list(cx: &mut Context<'_>, snapshots: &[Snapshot]) -> CommandResult {
    if cx.output.json() {
        cx.output.document(&wire::Snapshots::from(snapshots))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = snapshots
        .iter()
        .map(|snapshot| {
            vec![
                short(&snapshot.id.to_hex()).to_owned(),
                when(snapshot.at),
                snapshot.files.to_string(),
                size(snapshot.bytes),
                printable(who(snapshot)),
                printable(snapshot.label.as_deref().unwrap_or("-")),
            ]
        })
        .collect();
    cx.output.table(
        &[
            ("SNAPSHOT", Align::Left),
            ("TAKEN", Align::Left),
            ("FILES", Align::Right),
            ("SIZE", Align::Right),
            ("OPERATOR", Align::Left),
            ("LABEL", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

pub(super) fn restore(
    cx: &mut Context<'_>,
    id: &WorkspaceId,
    snapshot: &str,
    path: Option<&RelPath>,
) -> CommandResult {
    let restored = cx
        .engine
        .workspaces
        .restore(id, snapshot, path, &cx.cause)?;
    if cx.output.json() {
        cx.output.document(&wire::Restored::from(&restored))?;
        return Ok(Exit::Done);
    }
    show_changes(cx.output, &restored.changes)?;
    let hex = restored.snapshot.to_hex();
    let paths = count(restored.changes.changes.len() as i64, "path", "paths");
    let what = path.map_or_else(
        || format!("`{id}`"),
        |path| format!("{} in `{id}`", shown(path)),
    );
    cx.output.line(format_args!(
        "restored {what} to snapshot {}: {paths} changed",
        short(&hex)
    ))?;
    if let Some(kept) = restored.kept {
        let kept = kept.to_hex();
        let mut words = vec!["restore", id.as_str(), &kept];
        let path = path.map(shown);
        words.extend(path.as_deref());
        let command = cx.command_line(&words);
        cx.output.line(format_args!(
            "the state before is kept as snapshot {}",
            short(&kept)
        ))?;
        cx.output
            .line(format_args!("bring it back with: {command}"))?;
    }
    Ok(Exit::Done)
}

pub(super) fn history(
    cx: &mut Context<'_>,
    id: &WorkspaceId,
    path: Option<&RelPath>,
    limit: usize,
) -> CommandResult {
    let lines = cx.engine.history.lines(id, path, limit)?;
    if cx.output.json() {
        let history = lines.iter().map(history_as_json).collect();
        cx.output.document(&wire::History {
            history,
            next: None,
        })?;
        return Ok(Exit::Done);
    }
    let mut rows = Vec::with_capacity(lines.len());
    for row in &lines {
        let line: wire::HistoryLine = serde_json::from_value(history_as_json(row))
            .map_err(|cause| Error::internal("a line of history is wrong").with_source(cause))?;
        rows.push(history_row(&line, when(row.line.at)));
    }
    cx.output.table(
        &[
            ("VERSION", Align::Right),
            ("WHEN", Align::Left),
            ("OPERATOR", Align::Left),
            ("MESSAGE", Align::Left),
            ("WHAT", Align::Left),
            ("SIZE", Align::Right),
            ("CONTENT", Align::Left),
            ("PATH", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn history_row(line: &wire::HistoryLine, at: String) -> Vec<String> {
    let path = match &line.from {
        Some(from) => format!("{} (from {})", line.path, from),
        None => line.path.clone(),
    };
    let what = match line.via.as_str() {
        "call" => line.op.replace('_', " "),
        via => format!("{} ({via})", line.op.replace('_', " ")),
    };
    vec![
        line.version.to_string(),
        at,
        printable(&line.operator),
        line.message_id
            .as_deref()
            .map_or_else(|| "-".to_owned(), printable),
        what,
        line.size
            .filter(|_| !path.is_empty())
            .map_or_else(|| "-".to_owned(), size),
        line.after.as_deref().map_or("-", short).to_owned(),
        printable(if path.is_empty() { "." } else { &path }),
    ]
}

pub(super) fn sync(cx: &mut Context<'_>, id: &WorkspaceId) -> CommandResult {
    let synced = cx.engine.sync.sync_workspace(id)?;
    if cx.output.json() {
        cx.output.document(&wire::Synced::from(&synced))?;
        return Ok(Exit::Done);
    }
    for change in &synced.changes {
        let slash = if change.kind == EntryKind::Dir {
            "/"
        } else {
            ""
        };
        let from = match &change.from {
            Some(from) => format!("  (from {})", shown(from)),
            None => String::new(),
        };
        cx.output.line(format_args!(
            "{:<6}  {}{slash}{from}",
            change.op.as_str(),
            shown(&change.path)
        ))?;
    }
    let number = count(synced.changes.len() as i64, "change", "changes");
    if synced.walked {
        cx.output
            .note(format_args!("recorded {number} made by outside programs"));
    } else {
        cx.output
            .note("nothing to look for: the path of this workspace was never handed out");
    }
    note_refused(cx, &synced.refused);
    note_too_large(cx, &synced.too_large);
    for path in &synced.unsettled {
        cx.output.note(format_args!(
            "left {} for the next sync: it kept changing",
            shown(path)
        ));
    }
    Ok(Exit::Done)
}
