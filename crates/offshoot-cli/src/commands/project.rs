//! `offshoot project …`: projects, from anywhere and to anywhere.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;

use offshoot_core::{EntryKind, Error, ErrorCode, ProjectId, RelPath};
use offshoot_engine::{
    Content, Expect, ImportOptions, ImportProgress, ImportStage, Imported, LinkOptions, MAX_WINDOW,
    RefCounts, WriteOptions,
};

use super::clone::Cloned;
use super::workspace::fields;
use super::{Context, clone, files, link, merges, setup, snapshots};
use crate::bytes;
use crate::file_args::DiffForm;
use crate::link_args::{LinkMode, Pull};
use crate::output::{
    Align, CommandResult, Exit, Failure, count, local, printable, short, shown, size, when,
};
use crate::progress::Steps;
use crate::project_args::{ProjectCommand, ProjectCreate};
use offshoot_wire as wire;

/// The most paths left out that are named; `--json` names all.
const MOST_NOTES: usize = 20;

/// Runs one of them.
pub(super) fn run(cx: &mut Context<'_>, command: ProjectCommand) -> CommandResult {
    match command {
        ProjectCommand::Create(args) => create(cx, &args),
        ProjectCommand::List { after, limit } => list(cx, after.as_deref(), limit),
        ProjectCommand::Show { project } => {
            let project = cx.project(project.as_deref())?;
            show(cx, &project)
        }
        ProjectCommand::Log { project, limit } => {
            let project = cx.project(project.as_deref())?;
            log(cx, &project, limit)
        }
        ProjectCommand::Files {
            project,
            path,
            at,
            flat,
        } => {
            let path = bytes::path_or_root(path.as_deref())?;
            list_files(cx, &project.parse()?, &path, at.as_deref(), !flat)
        }
        ProjectCommand::Cat { project, path, at } => {
            cat(cx, &project.parse()?, &bytes::path(&path)?, at.as_deref())
        }
        ProjectCommand::Put {
            project,
            path,
            file,
            executable,
            if_match,
            if_absent,
        } => {
            let expect = match (if_match, if_absent) {
                (Some(content), _) => Expect::Content(content.parse()?),
                (None, true) => Expect::Absent,
                (None, false) => Expect::Anything,
            };
            let options = WriteOptions {
                executable,
                expect,
                ..WriteOptions::default()
            };
            let file = file.as_deref().unwrap_or(Path::new("-"));
            put(cx, &project.parse()?, &bytes::path(&path)?, file, &options)
        }
        ProjectCommand::Policy(args) => super::policies::policy(cx, &args),
        ProjectCommand::Setup(args) => setup::run(cx, &args),
        ProjectCommand::Versions { project, path } => {
            versions(cx, &project.parse()?, &bytes::path(&path)?)
        }
        ProjectCommand::Diff {
            project,
            path,
            form,
        } => diff(cx, &project.parse()?, path, &form),
        ProjectCommand::Sync {
            project,
            dir,
            ignore_rules,
            label,
        } => {
            // Without a directory a linked project takes what its repository has.
            if dir.is_none() {
                let id = cx.project(project.as_deref())?;
                if cx.engine.projects.link(&id)?.is_some() {
                    return link::pull(cx, &Pull::of(project));
                }
            }
            let options = ImportOptions {
                ignore_rules,
                label,
            };
            let project = cx.project(project.as_deref())?;
            sync(cx, &project, dir.as_deref(), &options)
        }
        ProjectCommand::Export {
            project,
            git,
            branch,
        } => {
            let project = cx.project(project.as_deref())?;
            export(cx, &project, &git, branch.as_deref())
        }
        ProjectCommand::Delete { project } => delete(cx, &project.parse()?),
    }
}

fn create(cx: &mut Context<'_>, args: &ProjectCreate) -> CommandResult {
    let id: ProjectId = args.project.parse()?;
    let Some(from) = &args.from else {
        let project = cx.engine.projects.create_project(&id, &cx.cause)?;
        if cx.output.json() {
            cx.output.document(&wire::Project::from(&project))?;
        } else {
            cx.output.line(&project.id)?;
        }
        return Ok(Exit::Done);
    };
    let takes_files = args.files || args.ignore_rules;
    let address = match args.link {
        Some(_) if clone::is_address(from) => Some(clone::address(from)?),
        _ => None,
    };
    let cloned = match clone::is_address(from) {
        true => {
            // A taken name is told before anything is fetched.
            cx.engine.projects.refuse_taken_project(&id)?;
            Some(clone::clone(from, takes_files, cx.output.shows_progress())?)
        }
        false => None,
    };
    if let Some(mode) = args.link {
        let here = clone::local_path(from);
        let options = LinkOptions {
            place: cloned.as_ref().map_or(here, Cloned::path),
            address,
            branch: args.branch.clone(),
            auto: mode == LinkMode::Auto,
        };
        return link::create(cx, &id, &options);
    }
    let from = &cloned.as_ref().map_or_else(|| from.clone(), Cloned::path);
    let has_work_tree = from.join(".git").exists();
    let is_bare = from.join("HEAD").is_file() && from.join("objects").is_dir();
    let from_git = (has_work_tree || is_bare) && !takes_files;
    if from_git && args.label.is_some() {
        return Err(
            Error::invalid("the commits of a git repository keep their messages")
                .with_hint("leave `--label` out, or import the files alone with `--files`")
                .into(),
        );
    }
    let mut steps = Steps::new(cx.output.shows_progress());
    let mut progress = |told: ImportProgress| show_progress(&mut steps, told, from_git);
    let projects = &cx.engine.projects;
    let imported = if from_git && cloned.is_some() {
        projects.import_clone(&id, from, &mut progress, &cx.cause)?
    } else if from_git {
        projects.import_git(&id, from, &mut progress, &cx.cause)?
    } else {
        let options = ImportOptions {
            ignore_rules: args.ignore_rules,
            label: args.label.clone(),
        };
        cx.engine
            .projects
            .import_dir(&id, from, &options, &mut progress, &cx.cause)?
    };
    drop(steps);
    if cx.output.json() {
        cx.output
            .document(&wire::ImportedProject::from(&imported))?;
        return Ok(Exit::Done);
    }
    cx.output.line(imported.snapshot.id)?;
    note_import(cx, &imported, from_git && has_work_tree);
    Ok(Exit::Done)
}

pub(super) fn show_progress(steps: &mut Steps, told: ImportProgress, from_git: bool) {
    let what = match told.stage {
        ImportStage::Reading if from_git => "reading objects: ",
        ImportStage::Reading => "reading files: ",
        ImportStage::Layer => "writing the layer for forks: ",
    };
    steps.show_named(what, told.done, told.total);
}

pub(super) fn note_import(cx: &mut Context<'_>, imported: &Imported, only_committed: bool) {
    let project = &imported.project;
    let files = count(project.files, "file", "files");
    let snapshots = count(imported.snapshots as i64, "snapshot", "snapshots");
    cx.output.note(format_args!(
        "created `{}` with {files} ({}) in {snapshots}",
        project.id,
        size(project.bytes)
    ));
    if only_committed {
        cx.output
            .note("what is not committed was not taken; `--files` takes what is there");
    }
    note_left_out(cx, &imported.dropped, &imported.ignored);
    for (name, why) in imported.refs_left_out.iter().take(MOST_NOTES) {
        let (name, why) = (printable(name), printable(why));
        cx.output.note(format_args!("left out {name}: {why}"));
    }
    for path in &imported.unsettled {
        let path = shown(path);
        cx.output
            .note(format_args!("left out {path}: it kept changing"));
    }
    let fork = cx.command_line(&["fork", project.id.as_str()]);
    cx.output.note(format_args!("fork it with: {fork}"));
}

fn note_left_out(cx: &mut Context<'_>, dropped: &[(RelPath, String)], ignored: &[RelPath]) {
    for (path, why) in dropped.iter().take(MOST_NOTES) {
        cx.output
            .note(format_args!("left out {}: {}", shown(path), printable(why)));
    }
    if dropped.len() > MOST_NOTES {
        cx.output.note(format_args!(
            "left out {} more; `--json` names all",
            dropped.len() - MOST_NOTES
        ));
    }
    if !ignored.is_empty() {
        let paths = count(ignored.len() as i64, "path", "paths");
        cx.output
            .note(format_args!("left out {paths} by the ignore rules"));
    }
}

fn list(cx: &mut Context<'_>, after: Option<&str>, limit: usize) -> CommandResult {
    let after = after.map(str::parse).transpose()?;
    let projects = cx.engine.projects.list_projects(after.as_ref(), limit)?;
    if cx.output.json() {
        cx.output
            .document(&wire::Projects::from(projects.as_slice()))?;
        return Ok(Exit::Done);
    }
    if projects.is_empty() {
        cx.output
            .note("there are no projects; `offshoot project create NAME --from DIR` makes one");
    }
    let rows: Vec<Vec<String>> = projects
        .iter()
        .map(|project| {
            vec![
                project.id.to_string(),
                project.files.to_string(),
                size(project.bytes),
                when(project.changed_at),
                project
                    .head
                    .map_or_else(|| "-".to_owned(), |head| short(&head.to_hex()).to_owned()),
            ]
        })
        .collect();
    cx.output.table(
        &[
            ("PROJECT", Align::Left),
            ("FILES", Align::Right),
            ("SIZE", Align::Right),
            ("CHANGED", Align::Left),
            ("SNAPSHOT", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn show(cx: &mut Context<'_>, id: &ProjectId) -> CommandResult {
    let project = cx.engine.projects.project(id)?;
    let status = link::status(cx, id)?;
    let refs = cx.engine.projects.ref_counts(id)?;
    let setup = cx.engine.projects.setup(id)?;
    if cx.output.json() {
        let document = wire::LinkedProject::new(&project, &refs, status.as_ref(), setup.as_ref());
        cx.output.document(&document)?;
        return Ok(Exit::Done);
    }
    let forks = cx.engine.forks.list_forks(id)?;
    let mut rows = vec![
        ("project", project.id.to_string()),
        ("files", project.files.to_string()),
        ("directories", project.dirs.to_string()),
        ("size", size(project.bytes)),
        (
            "snapshot",
            project
                .head
                .map_or_else(|| "-".to_owned(), |head| short(&head.to_hex()).to_owned()),
        ),
        ("branch", branch_row(&refs)),
        ("open forks", forks.len().to_string()),
        ("landing", wire::landing(project.landing).to_owned()),
        ("created", local(project.created_at)),
        ("changed", local(project.changed_at)),
    ];
    rows.extend(status.iter().flat_map(link::rows));
    rows.extend(setup.iter().flat_map(setup::rows));
    if let Some(setup) = &setup {
        setup::note_if_stale(cx, id, setup);
    }
    fields(cx, &rows)
}

/// The branch, and what there is beside it.
fn branch_row(refs: &RefCounts) -> String {
    let branch = printable(&refs.branch);
    if refs.other_branches + refs.tags == 0 {
        return branch;
    }
    let others = count(refs.other_branches as i64, "other branch", "other branches");
    let tags = count(refs.tags as i64, "tag", "tags");
    format!("{branch}, {others}, {tags}")
}

fn log(cx: &mut Context<'_>, id: &ProjectId, limit: usize) -> CommandResult {
    let found = cx.engine.projects.project_snapshots(id, None, limit)?;
    if found.is_empty() && !cx.output.json() {
        let put = cx.command_line(&["project", "put", id.as_str(), "PATH"]);
        cx.output
            .note(format_args!("there are no snapshots; `{put}` makes one"));
    }
    snapshots::show_list(cx, &found)
}

fn list_files(
    cx: &mut Context<'_>,
    id: &ProjectId,
    dir: &RelPath,
    at: Option<&str>,
    deep: bool,
) -> CommandResult {
    let entries = cx.engine.projects.project_entries(id, at, dir, deep)?;
    if cx.output.json() {
        cx.output
            .document(&wire::ProjectEntries::from(entries.as_slice()))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let path = shown(&entry.path);
            let (kind, size, path) = match entry.entry.kind {
                EntryKind::Dir => ("dir", "-".to_owned(), format!("{path}/")),
                EntryKind::File => ("file", size(entry.size), path),
                EntryKind::Symlink => ("link", size(entry.size), path),
            };
            vec![kind.to_owned(), size, path]
        })
        .collect();
    cx.output.table(
        &[
            ("TYPE", Align::Left),
            ("SIZE", Align::Right),
            ("PATH", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn cat(cx: &mut Context<'_>, id: &ProjectId, path: &RelPath, at: Option<&str>) -> CommandResult {
    let mut file = cx.engine.projects.open_project_file(id, at, path)?;
    if cx.output.json() {
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(|cause| {
            Error::new(ErrorCode::ReadFailed, "the content could not be read").with_source(cause)
        })?;
        cx.output
            .document(&wire::Window::of(&content, 0, MAX_WINDOW))?;
        return Ok(Exit::Done);
    }
    files::copy_out(cx, &mut file)?;
    Ok(Exit::Done)
}

fn put(
    cx: &mut Context<'_>,
    id: &ProjectId,
    path: &RelPath,
    file: &Path,
    options: &WriteOptions,
) -> CommandResult {
    // An unknown project is told before anyone types a text for it.
    cx.engine.projects.project(id)?;
    let mut content = files::source(cx, file)?;
    let stream = Content::Stream(&mut content);
    let snapshot = cx
        .engine
        .projects
        .put_in_project(id, path, stream, options, &cx.cause)?;
    drop(content);
    if cx.output.json() {
        cx.output.document(&wire::Snapshot::from(&snapshot))?;
    } else {
        cx.output.line(snapshot.id)?;
    }
    Ok(Exit::Done)
}

fn versions(cx: &mut Context<'_>, id: &ProjectId, path: &RelPath) -> CommandResult {
    let versions = cx.engine.projects.project_versions(id, path)?;
    if cx.output.json() {
        cx.output.document(&wire::Versions::new(path, &versions))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = versions
        .iter()
        .map(|version| {
            let content = match version.entry {
                None => "removed".to_owned(),
                Some(entry) => entry
                    .id
                    .map_or_else(|| "dir".to_owned(), |id| short(&id.to_hex()).to_owned()),
            };
            let snapshot = &version.snapshot;
            vec![
                short(&snapshot.id.to_hex()).to_owned(),
                when(snapshot.at),
                printable(snapshots::who(snapshot)),
                content,
                printable(snapshot.label.as_deref().unwrap_or("-")),
            ]
        })
        .collect();
    cx.output.table(
        &[
            ("SNAPSHOT", Align::Left),
            ("TAKEN", Align::Left),
            ("OPERATOR", Align::Left),
            ("CONTENT", Align::Left),
            ("LABEL", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn diff(
    cx: &mut Context<'_>,
    id: &ProjectId,
    path: Option<OsString>,
    form: &DiffForm,
) -> CommandResult {
    let below = bytes::path_or_root(path.as_deref())?;
    let from = match &form.from {
        Some(from) => from.clone(),
        // What the newest snapshot brought.
        None => match cx.engine.projects.project_snapshots(id, None, 2)?.get(1) {
            Some(before) => before.id.to_hex(),
            None => {
                return Err(Failure::from(
                    Error::invalid(format!("`{id}` has no two snapshots to compare"))
                        .with_hint("`offshoot project log NAME` shows those there are"),
                ));
            }
        },
    };
    let mut set = cx
        .engine
        .projects
        .project_diff(id, &from, form.to.as_deref())?;
    set.changes.retain(|change| change.path.starts_with(&below));
    snapshots::show_diff(cx, form, &set)
}

fn sync(
    cx: &mut Context<'_>,
    id: &ProjectId,
    dir: Option<&Path>,
    options: &ImportOptions,
) -> CommandResult {
    let mut steps = Steps::new(cx.output.shows_progress());
    let mut progress = |told: ImportProgress| show_progress(&mut steps, told, false);
    let synced = cx
        .engine
        .links
        .sync_directory(id, dir, options, &mut progress, &cx.cause)?;
    drop(steps);
    let waits = match &synced.merge {
        Some(merge) => merges::waiting(cx, merge)?,
        None => false,
    };
    let exit = if waits { Exit::Conflicts } else { Exit::Done };
    if cx.output.json() {
        cx.output.document(&wire::ProjectSynced::from(&synced))?;
        return Ok(exit);
    }
    cx.output.line(synced.snapshot.id)?;
    if let Some(merge) = &synced.merge {
        merges::show_merge(cx, merge)?;
    } else if synced.created {
        cx.output.note(format_args!(
            "{} of {} came or changed, {} went",
            synced.synced,
            count(synced.total as i64, "file", "files"),
            synced.removed
        ));
    } else {
        cx.output
            .note("nothing changed in the directory since it was last taken");
    }
    note_left_out(cx, &synced.dropped, &synced.ignored);
    for path in &synced.unsettled {
        let path = shown(path);
        cx.output
            .note(format_args!("left {path} as it was: it kept changing"));
    }
    Ok(exit)
}

fn export(
    cx: &mut Context<'_>,
    id: &ProjectId,
    target: &Path,
    branch: Option<&str>,
) -> CommandResult {
    let mut steps = Steps::new(cx.output.shows_progress());
    let exported =
        cx.engine
            .workspaces
            .export_project_git(id, target, branch, &mut |progress| {
                steps.show(progress.done, progress.total);
            })?;
    drop(steps);
    if cx.output.json() {
        cx.output.document(&wire::Exported::from(&exported))?;
    } else {
        let snapshots = count(exported.snapshots as i64, "snapshot", "snapshots");
        let objects = count(exported.report.objects as i64, "new object", "new objects");
        cx.output.line(format_args!(
            "exported {snapshots} of `{id}` as branch `{}`: {objects}",
            branch.unwrap_or("main")
        ))?;
    }
    Ok(Exit::Done)
}

fn delete(cx: &mut Context<'_>, id: &ProjectId) -> CommandResult {
    let kept = cx.engine.projects.delete_project(id, &cx.cause)?;
    if cx.output.json() {
        cx.output.document(&wire::DeletedProject {
            name: id.to_string(),
            kept_snapshot: kept.map(offshoot_core::ObjectId::to_hex),
        })?;
        return Ok(Exit::Done);
    }
    cx.output.line(format_args!("deleted `{id}`"))?;
    match kept {
        Some(kept) => {
            cx.output
                .line(format_args!("its last state is kept as snapshot {kept}"))?;
            let words = ["workspace", "create", id.as_str(), "--from", &kept.to_hex()];
            let command = cx.command_line(&words);
            cx.output
                .note(format_args!("look at it again with: {command}"));
        }
        None => cx.output.line("it held nothing to keep")?,
    }
    Ok(Exit::Done)
}
