//! `offshoot workspace …`: workspaces as a whole.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use offshoot_core::{Layout, WorkspaceId, escape_bytes};
use offshoot_engine::{Fork, ForkOverview, Quota, Workspace};

use super::{Context, forks};
use crate::args::{LayoutName, WorkspaceCommand};
use crate::bytes;
use crate::output::{Align, CommandResult, Exit, count, local, short, shown, size, when};
use crate::progress::Steps;
use offshoot_wire as wire;

/// Runs one of them.
pub(super) fn run(cx: &mut Context<'_>, command: WorkspaceCommand) -> CommandResult {
    match command {
        WorkspaceCommand::Create {
            id,
            layout,
            from,
            quota_bytes,
            quota_inodes,
        } => {
            let quota = Quota {
                bytes: limit(quota_bytes.as_deref(), None)?,
                inodes: limit(quota_inodes.as_deref(), None)?,
            };
            let id = id.map(|id| id.parse()).transpose()?;
            create(cx, id, layout, from.as_deref(), quota)
        }
        WorkspaceCommand::List { after, limit } => list(cx, after.as_deref(), limit),
        WorkspaceCommand::Show { workspace } => show(cx, &workspace.parse()?),
        WorkspaceCommand::Path { workspace } => path(cx, &workspace.parse()?),
        WorkspaceCommand::Delete {
            workspace,
            include_ignored,
        } => delete(cx, &workspace.parse()?, include_ignored),
        WorkspaceCommand::Convert {
            workspace,
            provider,
        } => convert(cx, &workspace.parse()?, &provider),
        WorkspaceCommand::Export { workspace, git } => export(cx, &workspace.parse()?, &git),
        WorkspaceCommand::Quota {
            workspace,
            quota_bytes,
            quota_inodes,
        } => quota(
            cx,
            &workspace.parse()?,
            quota_bytes.as_deref(),
            quota_inodes.as_deref(),
        ),
    }
}

/// What was typed, or what was there if nothing was.
fn limit(typed: Option<&str>, before: Option<i64>) -> offshoot_core::Result<Option<i64>> {
    typed.map_or(Ok(before), bytes::limit)
}

fn create(
    cx: &mut Context<'_>,
    id: Option<WorkspaceId>,
    layout: Option<LayoutName>,
    from: Option<&str>,
    quota: Quota,
) -> CommandResult {
    let layout = match layout {
        None | Some(LayoutName::Plain) => Layout::Plain,
        Some(LayoutName::Session) => Layout::Session,
    };
    let workspace = match from {
        Some(snapshot) => cx
            .engine
            .workspaces
            .create_workspace_from(id, snapshot, quota, &cx.cause)?,
        None => cx
            .engine
            .workspaces
            .create_workspace(id, layout, quota, &cx.cause)?,
    };
    if cx.output.json() {
        cx.output.document(&wire::Workspace::from(&workspace))?;
    } else {
        cx.output.line(&workspace.id)?;
    }
    Ok(Exit::Done)
}

fn list(cx: &mut Context<'_>, after: Option<&str>, limit: usize) -> CommandResult {
    let after = after.map(str::parse).transpose()?;
    let workspaces = cx
        .engine
        .workspaces
        .list_workspaces(after.as_ref(), limit)?;
    let forks = forks_beside(cx, &workspaces)?;
    if cx.output.json() {
        cx.output
            .document(&wire::WorkspacesAndForks::new(&workspaces, &forks))?;
        return Ok(Exit::Done);
    }
    if workspaces.is_empty() {
        cx.output
            .note("there are no workspaces; `offshoot workspace create` makes one");
    }
    // What only a fork has is left out where there is none.
    let number = if forks.is_empty() { 6 } else { 12 };
    let rows: Vec<Vec<String>> = workspaces
        .iter()
        .map(|workspace| {
            vec![
                workspace.id.to_string(),
                workspace.layout.as_str().to_owned(),
                workspace.files.to_string(),
                size(workspace.bytes),
                when(workspace.changed_at),
                head(workspace),
            ]
            .into_iter()
            .chain(fork_columns(ForkOverview::find(&forks, &workspace.id)))
            .take(number)
            .collect()
        })
        .collect();
    let columns = [
        ("WORKSPACE", Align::Left),
        ("LAYOUT", Align::Left),
        ("FILES", Align::Right),
        ("SIZE", Align::Right),
        ("CHANGED", Align::Left),
        ("SNAPSHOT", Align::Left),
        ("PROJECT", Align::Left),
        ("AGENT", Align::Left),
        ("BASE", Align::Left),
        ("CHANGES", Align::Right),
        ("PROVIDER", Align::Left),
        ("OVERLAP", Align::Left),
    ];
    cx.output.table(&columns[..number], &rows)?;
    Ok(Exit::Done)
}

/// The forks of the projects that a list shows forks of, in the order of their ids. They are shown
/// as recorded, like the other columns: `forks` syncs the directories first.
fn forks_beside(
    cx: &Context<'_>,
    workspaces: &[Workspace],
) -> offshoot_core::Result<Vec<ForkOverview>> {
    let mut projects = BTreeSet::new();
    for workspace in workspaces {
        // A fork that is closed meanwhile stays in the list, as a workspace like any other.
        if let Ok(Some(fork)) = cx.engine.forks.fork_of(&workspace.id) {
            projects.insert(fork.project);
        }
    }
    let mut forks = Vec::new();
    for project in &projects {
        forks.extend(cx.engine.merges.overview(Some(project), false)?);
    }
    forks.sort_by(|a, b| a.workspace.id.cmp(&b.workspace.id));
    Ok(forks)
}

/// What only a fork has.
fn fork_columns(fork: Option<&ForkOverview>) -> [String; 6] {
    match fork {
        Some(fork) => [
            fork.project.to_string(),
            forks::agent(fork),
            short(&fork.base.to_hex()).to_owned(),
            fork.changed.to_string(),
            forks::provider(fork),
            forks::overlap(fork),
        ],
        None => std::array::from_fn(|_| "-".to_owned()),
    }
}

fn head(workspace: &Workspace) -> String {
    match workspace.head {
        Some(head) => short(&head.to_hex()).to_owned(),
        None => "-".to_owned(),
    }
}

fn show(cx: &mut Context<'_>, id: &WorkspaceId) -> CommandResult {
    // The other forks are shown as recorded: `forks` syncs all of their directories.
    let overview = cx.engine.merges.overview_beside(id)?;
    let workspace = cx.engine.workspaces.workspace(id)?;
    if cx.output.json() {
        cx.output
            .document(&wire::WorkspaceOrFork::new(&workspace, &overview))?;
        return Ok(Exit::Done);
    }
    let yes_no = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let mut rows = vec![
        ("workspace", workspace.id.to_string()),
        ("layout", workspace.layout.as_str().to_owned()),
        ("files", workspace.files.to_string()),
        ("directories", workspace.dirs.to_string()),
        ("size", size(workspace.bytes)),
        ("version", workspace.revision.to_string()),
        ("snapshot", head(&workspace)),
        ("created", local(workspace.created_at)),
        ("changed", local(workspace.changed_at)),
        ("materialized", yes_no(workspace.materialized)),
        ("path handed out", yes_no(workspace.handed_out)),
        (
            "last sync",
            workspace
                .last_sync
                .map_or_else(|| "never".to_owned(), local),
        ),
        ("quota", quota_text(&workspace)),
    ];
    if let Some(fork) = ForkOverview::find(&overview, id) {
        rows.splice(1..1, forks::fields(fork));
    }
    fields(cx, &rows)
}

/// Names and values below each other.
pub(super) fn fields(cx: &mut Context<'_>, rows: &[(&str, String)]) -> CommandResult {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, value)| vec![(*name).to_owned(), value.clone()])
        .collect();
    cx.output
        .table(&[("", Align::Left), ("", Align::Left)], &rows)?;
    Ok(Exit::Done)
}

fn quota_text(workspace: &Workspace) -> String {
    let bytes = workspace
        .quota_bytes
        .map_or_else(|| "any size".to_owned(), size);
    let inodes = workspace
        .quota_inodes
        .map_or_else(|| "any number of".to_owned(), |n| n.to_string());
    format!("{bytes}, {inodes} files and directories")
}

fn path(cx: &mut Context<'_>, id: &WorkspaceId) -> CommandResult {
    let path = cx.engine.workspaces.hand_out_path(id)?;
    let note = cx.engine.forks.path_note(id)?;
    let bytes = path.as_os_str().as_bytes();
    if cx.output.json() {
        let path = escape_bytes(bytes);
        cx.output.document(&wire::HostPath { path, note })?;
    } else {
        // The bytes as they are: `cd "$(offshoot workspace path WS)"` must work for any name.
        cx.output.stdout().write_all(bytes)?;
        cx.output.line("")?;
        if let Some(note) = note {
            cx.output.note(note);
        }
    }
    Ok(Exit::Done)
}

fn delete(cx: &mut Context<'_>, id: &WorkspaceId, include_ignored: bool) -> CommandResult {
    let standing = cx.stands_in(id);
    let deleted = cx
        .engine
        .workspaces
        .delete_workspace_with(id, include_ignored, &cx.cause)?;
    if standing && deleted.gone {
        cx.note_gone();
    }
    let fork = cx.engine.forks.last_fork_of(id)?;
    if cx.output.json() {
        cx.output
            .document(&wire::DeletedWorkspace::new(id.as_str(), &deleted))?;
        return Ok(Exit::Done);
    }
    if deleted.existed {
        cx.output.line(format_args!("deleted `{id}`"))?;
    } else {
        cx.output.line(format_args!("`{id}` was deleted before"))?;
    }
    super::maintenance::show_ignored(cx, &deleted.ignored, include_ignored, false)?;
    match deleted.snapshot {
        Some(kept) => {
            cx.output
                .line(format_args!("its last state is kept as snapshot {kept}"))?;
            let kept = kept.to_hex();
            let back = way_back(cx, id, &kept, fork.as_ref());
            cx.output.line(format_args!("bring it back with: {back}"))?;
        }
        None => cx.output.line("it held nothing to keep")?,
    }
    Ok(Exit::Done)
}

/// The command that brings a deleted workspace back from its last snapshot. What was a fork becomes
/// one again, so that it can be merged, as long as its project is there.
fn way_back(cx: &Context<'_>, id: &WorkspaceId, kept: &str, fork: Option<&Fork>) -> String {
    let fork = fork.filter(|fork| cx.engine.projects.project(&fork.project).is_ok());
    let Some(fork) = fork else {
        return cx.command_line(&["workspace", "create", id.as_str(), "--from", kept]);
    };
    let mut words = vec!["fork", fork.project.as_str()];
    if let Some(agent) = &fork.agent {
        words.extend(["--agent", agent.as_str()]);
    }
    words.extend(["--at", kept]);
    let priority = fork.priority.to_string();
    if fork.priority != 0 {
        words.extend(["--priority", &priority]);
    }
    if fork.git {
        words.push("--git");
    }
    cx.command_line(&words)
}

fn convert(cx: &mut Context<'_>, id: &WorkspaceId, provider: &str) -> CommandResult {
    let converted = cx.engine.forks.convert_fork(id, provider.parse()?)?;
    if cx.output.json() {
        cx.output
            .document(&wire::ConvertedFork::new(id.as_str(), &converted))?;
        return Ok(Exit::Done);
    }
    let made_by = converted.provider;
    if converted.converted {
        cx.output
            .line(format_args!("`{id}` is made by {made_by} now"))?;
    } else {
        cx.output
            .line(format_args!("nothing to do: `{id}` is made by {made_by}"))?;
    }
    for path in &converted.left_out {
        cx.output.note(format_args!(
            "left out {}: a copy has no sockets and devices",
            shown(path)
        ));
    }
    Ok(Exit::Done)
}

fn export(cx: &mut Context<'_>, id: &WorkspaceId, target: &Path) -> CommandResult {
    let mut steps = Steps::new(cx.output.shows_progress());
    let exported = cx
        .engine
        .workspaces
        .export_git(id, target, &mut |progress| {
            steps.show(progress.done, progress.total);
        })?;
    drop(steps);
    if cx.output.json() {
        cx.output.document(&wire::Exported::from(&exported))?;
    } else {
        let snapshots = count(exported.snapshots as i64, "snapshot", "snapshots");
        let objects = count(exported.report.objects as i64, "new object", "new objects");
        cx.output.line(format_args!(
            "exported {snapshots} of `{id}` as branch `main`: {objects}"
        ))?;
    }
    Ok(Exit::Done)
}

fn quota(
    cx: &mut Context<'_>,
    id: &WorkspaceId,
    bytes: Option<&str>,
    inodes: Option<&str>,
) -> CommandResult {
    let mut workspace = cx.engine.workspaces.workspace(id)?;
    if bytes.is_some() || inodes.is_some() {
        let quota = Quota {
            bytes: limit(bytes, workspace.quota_bytes)?,
            inodes: limit(inodes, workspace.quota_inodes)?,
        };
        workspace = cx.engine.workspaces.set_quota(id, quota, &cx.cause)?;
    }
    if cx.output.json() {
        cx.output.document(&wire::Quota::from(&workspace))?;
    } else {
        let inodes = workspace.files + workspace.dirs;
        let text = quota_text(&workspace);
        let used = size(workspace.bytes);
        cx.output.line(format_args!(
            "quota: {text}\nused:  {used}, {inodes} files and directories"
        ))?;
    }
    Ok(Exit::Done)
}
