//! `offshoot complete` and `offshoot merge …`: merges, and what to do about them afterwards.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use offshoot_core::{ErrorCode, ProjectId, RelPath};
use offshoot_engine::{CompleteOptions, Completed, Decided, MergeReceipt, PendingConflict, Policy};

use super::{Context, link};
use crate::bytes;
use crate::output::{
    Align, Color, CommandResult, Exit, Failure, count, printable, short, shown, when,
};
use offshoot_wire as wire;

/// `complete`.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// The workspace
    #[arg(value_name = "WS")]
    workspace: String,
    /// Decide every conflict by this policy instead of the project's: `review`,
    /// `last-writer-wins`, `priority`, `ours` (the project), `theirs` (the workspace) or `union`
    #[arg(long)]
    policy: Option<String>,
    /// Land nothing until every conflict is decided [default: as the project says]
    #[arg(long, conflicts_with = "partial")]
    atomic: bool,
    /// Land what does not conflict at once [default: as the project says]
    #[arg(long)]
    partial: bool,
    /// Keep the workspace, moved onto the merged head, to go on working in it
    #[arg(long)]
    keep: bool,
    /// Show what would happen and merge nothing
    #[arg(long)]
    dry_run: bool,
    /// Also merge what the ignore rules leave out
    #[arg(long)]
    include_ignored: bool,
    /// What to call the snapshot that lands [default: `Merge WS`]
    #[arg(
        short = 'm',
        long = "label",
        value_name = "LABEL",
        allow_hyphen_values = true
    )]
    label: Option<String>,
}

/// What can be done with merges.
#[derive(Debug, Subcommand)]
pub(crate) enum MergeCommand {
    /// List the merges into a project, newest first
    Log {
        /// The project [default: the one that is linked to the repository here]
        project: Option<String>,
        /// At most so many; 0 means all
        #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Show what came of a merge
    Show {
        /// The merge, or at least 4 digits of its id
        id: String,
    },
    /// Take a merge out again, as a new snapshot; what was changed since stays
    Undo {
        /// The merge, or at least 4 digits of its id
        id: String,
    },
    /// Bring back what lost at a path when a policy decided
    Take {
        /// The merge, or at least 4 digits of its id
        id: String,
        /// The path
        path: OsString,
    },
}

/// Merges a workspace, or shows the plan.
pub(super) fn complete(cx: &mut Context<'_>, args: &CompleteArgs) -> CommandResult {
    let id = args.workspace.parse()?;
    let options = CompleteOptions {
        policy: args.policy.as_deref().map(str::parse).transpose()?,
        atomic: (args.atomic || args.partial).then_some(args.atomic),
        keep: args.keep,
        include_ignored: args.include_ignored,
        label: args.label.clone(),
        ..CompleteOptions::default()
    };
    let standing = cx.stands_in(&id);
    let completed = match args.dry_run {
        true => cx.engine.merges.plan_completion(&id, &options, &cx.cause)?,
        false => cx.engine.merges.complete(&id, &options, &cx.cause)?,
    };
    let waiting = waiting(cx, &completed)?;
    if completed.snapshot.is_some() && !args.dry_run {
        link::push_after_merge(cx, &completed.project.parse()?);
    }
    if cx.output.json() {
        cx.output.document(&wire::Completed::from(&completed))?;
    } else {
        show_outcome(cx, &completed)?;
        next_steps(cx, &completed, waiting);
    }
    let removed = completed.after.as_ref().is_some_and(|after| after.removed);
    if standing && removed {
        cx.note_gone();
    }
    Ok(if waiting { Exit::Conflicts } else { Exit::Done })
}

/// Whether a conflict of a merge still waits. The receipt of an old merge lists those that were
/// decided since, too.
pub(super) fn waiting(cx: &Context<'_>, completed: &Completed) -> offshoot_core::Result<bool> {
    for conflict in &completed.conflicts {
        match &conflict.review_id {
            None => return Ok(true),
            Some(id) if cx.engine.merges.review(id)?.state != "resolved" => return Ok(true),
            Some(_) => {}
        }
    }
    Ok(false)
}

/// Runs `merge …`.
pub(super) fn run(cx: &mut Context<'_>, command: &MergeCommand) -> CommandResult {
    match command {
        MergeCommand::Log { project, limit } => {
            let project = cx.project(project.as_deref())?;
            log(cx, &project, *limit)
        }
        MergeCommand::Show { id } => show(cx, id),
        MergeCommand::Undo { id } => undo(cx, id),
        MergeCommand::Take { id, path } => take(cx, id, &bytes::path(path)?),
    }
}

fn log(cx: &mut Context<'_>, project: &ProjectId, limit: usize) -> CommandResult {
    let merges = cx.engine.merges.list_merges(project, None, limit)?;
    if cx.output.json() {
        cx.output.document(&wire::Merges::from(merges.as_slice()))?;
        return Ok(Exit::Done);
    }
    if merges.is_empty() {
        cx.output.note("nothing was merged yet");
    }
    let mut rows = Vec::with_capacity(merges.len());
    for merge in &merges {
        rows.push(log_row(merge, state(cx, merge)?));
    }
    cx.output.table(
        &[
            ("MERGE", Align::Left),
            ("WHEN", Align::Left),
            ("WORKSPACE", Align::Left),
            ("PATHS", Align::Right),
            ("CONFLICTS", Align::Right),
            ("DECIDED", Align::Right),
            ("SNAPSHOT", Align::Left),
            ("STATE", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn log_row(merge: &MergeReceipt, state: &str) -> Vec<String> {
    let done = &merge.completed;
    let snapshot = done.snapshot.map(offshoot_core::ObjectId::to_hex);
    vec![
        short(done.merge_id.as_deref().unwrap_or("-")).to_owned(),
        when(merge.at),
        done.workspace.clone(),
        done.merged.len().to_string(),
        done.conflicts.len().to_string(),
        done.decided.len().to_string(),
        snapshot.as_deref().map_or("-", short).to_owned(),
        state.to_owned(),
    ]
}

/// What became of a merge, in a word.
fn state(cx: &Context<'_>, merge: &MergeReceipt) -> offshoot_core::Result<&'static str> {
    let done = &merge.completed;
    let waits = waiting(cx, done)?;
    Ok(match (merge.undone_by, done.snapshot) {
        (Some(_), _) => "undone",
        (None, Some(_)) if waits => "landed in part",
        (None, Some(_)) => "landed",
        (None, None) if waits => "waits",
        (None, None) if done.conflicts.is_empty() => "nothing new",
        (None, None) => "resolved",
    })
}

fn show(cx: &mut Context<'_>, id: &str) -> CommandResult {
    let merge = cx.engine.merges.receipt(&cx.engine.merges.merge_id(id)?)?;
    if cx.output.json() {
        cx.output.document(&wire::Merge::from(&merge))?;
        return Ok(Exit::Done);
    }
    let done = &merge.completed;
    let hex = |id: Option<offshoot_core::ObjectId>| {
        id.map_or_else(|| "-".to_owned(), |id| short(&id.to_hex()).to_owned())
    };
    let rows = [
        ("merge", done.merge_id.clone().unwrap_or_default()),
        ("project", done.project.clone()),
        ("workspace", done.workspace.clone()),
        ("when", when(merge.at)),
        ("asked by", printable(&merge.by.operator)),
        (
            "message",
            printable(merge.by.message_id.as_deref().unwrap_or("-")),
        ),
        ("landing", landing(done).to_owned()),
        ("snapshot", hex(done.snapshot)),
        ("workspace at", hex(done.theirs)),
        ("state", state(cx, &merge)?.to_owned()),
        ("undone by", hex(merge.undone_by)),
    ];
    super::workspace::fields(cx, &rows)?;
    cx.output.line("")?;
    show_outcome(cx, done)?;
    Ok(Exit::Done)
}

fn landing(completed: &Completed) -> &'static str {
    if completed.atomic {
        "atomic"
    } else {
        "partial"
    }
}

/// What a merge did, and what to do next.
pub(super) fn show_merge(cx: &mut Context<'_>, completed: &Completed) -> Result<(), Failure> {
    let waiting = waiting(cx, completed)?;
    show_outcome(cx, completed)?;
    next_steps(cx, completed, waiting);
    Ok(())
}

/// Whether the merge took a path out of the project.
fn is_gone(cx: &Context<'_>, done: &Completed, path: &RelPath) -> bool {
    let (Some(snapshot), Ok(id)) = (done.snapshot, done.project.parse()) else {
        return false;
    };
    let at = snapshot.to_hex();
    let file = (cx.engine.projects).open_project_file(&id, Some(&at), path);
    file.is_err_and(|error| error.code() == ErrorCode::FileNotFound)
}

/// What a merge did, or would do, path by path.
fn show_outcome(cx: &mut Context<'_>, done: &Completed) -> Result<(), Failure> {
    let plan = done.merge_id.is_none();
    let paths = count(done.merged.len() as i64, "path", "paths");
    match (done.snapshot, plan) {
        (Some(snapshot), _) => cx.output.line(format_args!(
            "merged {paths} of `{}` into `{}` as snapshot {}",
            done.workspace,
            done.project,
            short(&snapshot.to_hex())
        ))?,
        (None, true) => cx.output.line(format_args!(
            "would merge {paths} of `{}` into `{}`",
            done.workspace, done.project
        ))?,
        (None, false) => cx.output.line(format_args!(
            "nothing of `{}` went into `{}`",
            done.workspace, done.project
        ))?,
    }
    for path in &done.merged {
        let together = done.auto_resolved.iter().find(|one| one.path == *path);
        let decided = done.decided.iter().find(|one| one.path == *path);
        let how = match (together, decided) {
            (_, Some(one)) => format!("  ({})", decision(one)),
            (Some(one), None) => format!("  (both changed it; put together by {})", one.method),
            (None, None) => String::new(),
        };
        let sign = match is_gone(cx, done, path) {
            true => cx.output.paint(Color::Red, "-"),
            false => cx.output.paint(Color::Green, "+"),
        };
        cx.output
            .line(format_args!("  {sign} {}{how}", shown(path)))?;
    }
    for one in &done.decided {
        if !done.merged.contains(&one.path) {
            let how = decision(one);
            cx.output
                .line(format_args!("  = {}  ({how})", shown(&one.path)))?;
        }
    }
    for path in &done.waiting {
        let path = shown(path);
        cx.output
            .line(format_args!("  . {path}  (fits; waits for the conflicts)"))?;
    }
    for one in &done.left_out {
        let (path, why) = (shown(&one.path), printable(&one.reason));
        cx.output
            .line(format_args!("  - {path}  (left out: {why})"))?;
    }
    show_commits(cx, done)?;
    super::maintenance::show_ignored(cx, &done.ignored_removed, done.include_ignored, plan)?;
    show_conflicts(cx, &done.conflicts)
}

/// What the agent committed, and came along or did not.
fn show_commits(cx: &mut Context<'_>, done: &Completed) -> Result<(), Failure> {
    if done.commits.count > 0 {
        let commits = count(done.commits.count as i64, "commit", "commits");
        let how = match (done.snapshot, done.merge_id.is_some()) {
            (Some(_), _) => "came along as history",
            (None, true) => "will come along as history when the merge lands",
            (None, false) => "would come along as history",
        };
        cx.output
            .line(format_args!("  {commits} of `{}` {how}", done.workspace))?;
    }
    for one in &done.commits.left_out {
        let id = one.id.map(offshoot_core::ObjectId::to_hex);
        let commit = id.as_deref().map_or("its commits", short);
        let why = printable(&one.reason);
        cx.output.line(format_args!(
            "  - {commit}  (left out of the history: {why})"
        ))?;
    }
    Ok(())
}

/// Conflicts that wait, one a line.
pub(super) fn show_conflicts(
    cx: &mut Context<'_>,
    conflicts: &[PendingConflict],
) -> Result<(), Failure> {
    for conflict in conflicts {
        let sign = cx.output.paint(Color::Red, "!");
        let part = match conflict.parts.is_empty() {
            true => String::new(),
            false => format!(" {}", printable(&conflict.parts.join(", "))),
        };
        let review = match &conflict.review_id {
            Some(id) => format!("  review {}", short(id)),
            None => String::new(),
        };
        cx.output.line(format_args!(
            "  {sign} {}{part}  ({}){review}",
            shown(&conflict.path),
            conflict.kind.replace('_', " ")
        ))?;
    }
    Ok(())
}

fn decision(one: &Decided) -> String {
    let policy = match one.policy {
        Policy::Review => "decided before",
        other => other.as_str(),
    };
    match (one.winner.as_str(), &one.lost_by) {
        ("both", _) => format!("{policy}: both kept"),
        (winner, Some(loser)) => format!("{policy}: {winner} won over {}", printable(loser)),
        (winner, None) => format!("{policy}: {winner} won"),
    }
}

/// Which commands come next.
fn next_steps(cx: &mut Context<'_>, done: &Completed, waiting: bool) {
    let Some(merge) = done.merge_id.as_deref().map(short) else {
        let again = cx.command_line(&["complete", &done.workspace]);
        cx.output
            .note(format_args!("nothing was merged; do it with: {again}"));
        return;
    };
    if let Some(why) = done.after.as_ref().and_then(|after| after.waits.as_ref()) {
        cx.output.note(format_args!(
            "the merge is done; `{}` stays where it is: {why}",
            done.workspace
        ));
    }
    if waiting {
        let number = count(
            done.conflicts.len() as i64,
            "conflict waits",
            "conflicts wait",
        );
        let held = if done.atomic && done.snapshot.is_none() {
            "; nothing lands before all are decided"
        } else {
            ""
        };
        cx.output.note(format_args!(
            "{number} for review; `{}` is kept until then{held}",
            done.workspace
        ));
        let first = done
            .conflicts
            .iter()
            .find_map(|one| one.review_id.as_deref());
        if let Some(first) = first.map(short) {
            let show = cx.command_line(&["review", "show", first]);
            let resolve = cx.command_line(&["review", "resolve", first, "ours|theirs|union|…"]);
            cx.output.note(format_args!("look at it with: {show}"));
            cx.output.note(format_args!(
                "decide with:     {}",
                resolve.replace('\'', "")
            ));
        }
    }
    if let Some(lost) = done.decided.iter().find(|one| one.lost.is_some()) {
        let take = cx.command_line(&["merge", "take", merge, &shown(&lost.path)]);
        cx.output.note(format_args!(
            "what lost is kept; bring it back with: {take}"
        ));
    }
    if done.snapshot.is_some() {
        let undo = cx.command_line(&["merge", "undo", merge]);
        cx.output.note(format_args!("undo with: {undo}"));
    }
}

fn undo(cx: &mut Context<'_>, id: &str) -> CommandResult {
    let id = cx.engine.merges.merge_id(id)?;
    let project = cx.engine.merges.receipt(&id)?.completed.project;
    let snapshot = cx.engine.merges.undo_merge(&id, &cx.cause)?;
    if cx.output.json() {
        cx.output
            .document(&wire::Undone::new(&id, &project, &snapshot))?;
        return Ok(Exit::Done);
    }
    cx.output.line(format_args!(
        "undid merge {}: `{project}` is at snapshot {}",
        short(&id),
        short(&snapshot.id.to_hex())
    ))?;
    Ok(Exit::Done)
}

fn take(cx: &mut Context<'_>, id: &str, path: &RelPath) -> CommandResult {
    let id = cx.engine.merges.merge_id(id)?;
    let snapshot = cx.engine.merges.take_lost(&id, path, &cx.cause)?;
    if cx.output.json() {
        cx.output
            .document(&wire::TakenBack::new(&id, path, &snapshot))?;
        return Ok(Exit::Done);
    }
    cx.output.line(format_args!(
        "`{}` is again what lost in merge {}: snapshot {}",
        shown(path),
        short(&id),
        short(&snapshot.id.to_hex())
    ))?;
    Ok(Exit::Done)
}
