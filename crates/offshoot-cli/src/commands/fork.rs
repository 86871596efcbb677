//! `offshoot fork` and `offshoot update`: private copies of a project.

use std::os::unix::ffi::OsStrExt;

use offshoot_core::WorkspaceId;
use offshoot_engine::{Fork, ForkOptions, Included, ProviderName, copy_note};

use super::{Context, link, merges, setup, snapshots};
use crate::output::{CommandResult, Exit, count, short, shown};
use crate::project_args::ForkArgs;
use offshoot_wire as wire;

/// The most files that were not copied that are named.
const MOST_NOTES: usize = 20;

/// Makes forks and prints their paths.
pub(super) fn fork(cx: &mut Context<'_>, args: &ForkArgs) -> CommandResult {
    let project = cx.project(args.project.as_deref())?;
    let options = ForkOptions {
        agent: args.agent.as_deref().map(str::parse).transpose()?,
        at: args.at.clone(),
        provider: args.provider.as_deref().map(str::parse).transpose()?,
        priority: args.priority,
        git: args.git,
        ..ForkOptions::default()
    };
    if args.at.is_none() {
        link::pull_before_fork(cx, &project);
    }
    if let Some(status) = cx.engine.projects.setup(&project)? {
        setup::note_if_stale(cx, &project, &status);
    }
    let (mut forks, mut note) = (Vec::new(), None);
    for _ in 0..args.count.unwrap_or(1) {
        let (fork, path) = cx.engine.forks.fork_out(&project, &options, &cx.cause)?;
        if !cx.output.json() {
            // The bytes as they are: `cd "$(offshoot fork PROJECT)"` must work for any name.
            cx.output.stdout().write_all(path.as_os_str().as_bytes())?;
            cx.output.line("")?;
        }
        note = note_of(cx, args, &fork);
        // All forks of one command get the same.
        if forks.is_empty() {
            note_included(cx, &fork.included);
        }
        forks.push(wire::Fork::new(&fork, Some(&path)).with_note(note.clone()));
    }
    if cx.output.json() {
        let forks = wire::ForkOrForks::new(args.count.is_some(), forks);
        cx.output.document(&forks)?;
    } else if let Some(note) = note {
        cx.output.note(note);
    }
    Ok(Exit::Done)
}

/// What to tell an ordinary user about the path: who sees the files, or what would be quicker. Nothing
/// to one who asked for a copy.
fn note_of(cx: &Context<'_>, args: &ForkArgs, fork: &Fork) -> Option<String> {
    let made_by = fork.provider?;
    let is_mount = made_by == ProviderName::Overlay;
    let chosen = args.provider.is_some() || cx.settings.provider.is_some();
    if !cfg!(target_os = "linux") || offshoot_sys::effective_user() == 0 || (chosen && !is_mount) {
        return None;
    }
    let note = cx.engine.forks.note_of(fork);
    note.or_else(|| (!is_mount).then(|| copy_note(made_by)))
}

/// Says what was copied from the person's working tree, because the agent can read it.
fn note_included(cx: &mut Context<'_>, included: &Included) {
    if !included.files.is_empty() {
        let files = count(included.files.len() as i64, "file", "files");
        cx.output
            .note(format_args!("copied {files} that `.worktreeinclude` names"));
    }
    for (path, why) in included.left_out.iter().take(MOST_NOTES) {
        cx.output
            .note(format_args!("did not copy {}: {why}", shown(path)));
    }
    if included.left_out.len() > MOST_NOTES {
        let more = included.left_out.len() - MOST_NOTES;
        cx.output.note(format_args!("did not copy {more} more"));
    }
}

/// Moves a fork onto the newest snapshot of its project.
pub(super) fn update(cx: &mut Context<'_>, id: &WorkspaceId, dry_run: bool) -> CommandResult {
    let updated = cx.engine.merges.update(id, dry_run, &cx.cause)?;
    if cx.output.json() {
        let document = wire::Updated::new(id.as_str(), dry_run, &updated);
        cx.output.document(&document)?;
        return Ok(match updated.conflicts.is_empty() {
            true => Exit::Done,
            false => Exit::Conflicts,
        });
    }
    if updated.from == updated.to {
        cx.output
            .note("nothing to do: the fork stands on the newest snapshot");
        return Ok(Exit::Done);
    }
    snapshots::show_changes(cx.output, &updated.changes)?;
    for path in &updated.merged {
        cx.output
            .note(format_args!("merged {}: both changed it", shown(path)));
    }
    merges::show_conflicts(cx, &updated.conflicts)?;
    let (from, to) = (updated.from.to_hex(), updated.to.to_hex());
    let paths = count(updated.changes.changes.len() as i64, "path", "paths");
    let did = if dry_run { "would move" } else { "moved" };
    cx.output.line(format_args!(
        "{did} `{id}` from snapshot {} to {}: {paths} changed",
        short(&from),
        short(&to)
    ))?;
    if let Some(kept) = updated.kept {
        let kept = kept.to_hex();
        let back = cx.command_line(&["restore", id.as_str(), &kept]);
        cx.output.line(format_args!(
            "the state before is kept as snapshot {}\nbring it back with: {back}",
            short(&kept)
        ))?;
    }
    if updated.conflicts.is_empty() {
        return Ok(Exit::Done);
    }
    let number = count(updated.conflicts.len() as i64, "path", "paths");
    let tense = if dry_run { "would have" } else { "has" };
    cx.output.note(format_args!(
        "both changed {number} so that somebody has to decide: the workspace {tense} what the \
         project has there, and a review keeps what it had"
    ));
    if let Some(review) = updated
        .conflicts
        .iter()
        .find_map(|one| one.review_id.as_ref())
    {
        let show = cx.command_line(&["review", "show", short(review)]);
        cx.output.note(format_args!("look at it with: {show}"));
    }
    Ok(Exit::Conflicts)
}
