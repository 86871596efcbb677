//! `offshoot init`, `pull` and `push`: projects that are linked to a repository.

use std::path::{Path, PathBuf};

use offshoot_core::{Error, ErrorCode, ProjectId, Result};
use offshoot_engine::{
    Link, LinkOptions, LinkStatus, PullOptions, PullWay, Pulled, PushOptions, Pushed,
};

use super::{Context, clone, merges, project};
use crate::link_args::{Init, LinkMode, Pull, Push};
use crate::output::{CommandResult, Exit, Failure, count, local, printable, short};
use crate::progress::Steps;
use offshoot_wire as wire;

/// Makes a project that is linked to the repository here.
pub(super) fn init(cx: &mut Context<'_>, args: &Init) -> CommandResult {
    let typed = args.name.as_deref();
    let named = typed.map(Path::new).filter(|dir| is_repository(dir));
    let place = match named {
        Some(dir) => dir.to_owned(),
        None => repository_here()?.ok_or_else(no_repository)?,
    };
    let id = match typed.filter(|_| named.is_none()) {
        Some(name) => name.parse()?,
        None => name_of(&place)?,
    };
    let options = LinkOptions {
        place,
        address: None,
        branch: args.branch.clone(),
        auto: args.link == LinkMode::Auto,
    };
    create(cx, &id, &options)
}

/// Makes a linked project, and says how to go on.
pub(super) fn create(cx: &mut Context<'_>, id: &ProjectId, options: &LinkOptions) -> CommandResult {
    let mut steps = Steps::new(cx.output.shows_progress());
    let imported = cx.engine.links.create_linked(
        id,
        options,
        &mut |told| project::show_progress(&mut steps, told, true),
        &cx.cause,
    )?;
    drop(steps);
    if cx.output.json() {
        let document = wire::ImportedProject::from(&imported);
        cx.output.document(&document)?;
        return Ok(Exit::Done);
    }
    cx.output.line(imported.snapshot.id)?;
    project::note_import(cx, &imported, false);
    if let Some(link) = cx.engine.projects.link(id)? {
        let when = match link.auto {
            true => "forks pull first, and merges push",
            false => "`offshoot pull` brings new commits, `offshoot push` gives back what merged",
        };
        let branch = printable(&link.branch);
        cx.output
            .note(format_args!("it follows the branch `{branch}`: {when}"));
    }
    Ok(Exit::Done)
}

/// Brings the new commits of the repository in.
pub(super) fn pull(cx: &mut Context<'_>, args: &Pull) -> CommandResult {
    let id = cx.project(args.project.as_deref())?;
    let policy = args.policy.as_deref().map(str::parse).transpose()?;
    let pulled = pull_now(cx, &id, args.dry_run, policy)?;
    let waits = match &pulled.merge {
        Some(merge) => merges::waiting(cx, merge)?,
        None => !pulled.conflicts.is_empty(),
    };
    if cx.output.json() {
        cx.output
            .document(&wire::Pulled::new(&pulled, args.dry_run))?;
    } else {
        show_pulled(cx, &pulled, args.dry_run)?;
    }
    Ok(if waits { Exit::Conflicts } else { Exit::Done })
}

fn pull_now(
    cx: &mut Context<'_>,
    id: &ProjectId,
    dry_run: bool,
    policy: Option<offshoot_engine::Policy>,
) -> Result<Pulled> {
    let options = PullOptions {
        dry_run,
        policy,
        fetched: fetched(cx, id, true)?,
    };
    let mut steps = Steps::new(cx.output.shows_progress());
    cx.engine.links.pull(
        id,
        &options,
        &mut |told| project::show_progress(&mut steps, told, true),
        &cx.cause,
    )
}

fn show_pulled(
    cx: &mut Context<'_>,
    pulled: &Pulled,
    dry_run: bool,
) -> std::result::Result<(), Failure> {
    let branch = printable(&pulled.branch);
    let id = &pulled.project;
    if pulled.rewritten {
        cx.output.note(format_args!(
            "`{branch}` was rewritten: it is compared with the commit that was taken last"
        ));
    }
    if let Some(merge) = &pulled.merge {
        return merges::show_merge(cx, merge);
    }
    if pulled.way == PullWay::Nothing {
        cx.output.note(format_args!(
            "nothing to pull: `{id}` has all of `{branch}`"
        ));
        return Ok(());
    }
    let did = if dry_run { "would pull" } else { "pulled" };
    let commits = count(pulled.commits as i64, "commit", "commits");
    let paths = count(pulled.changed.len() as i64, "path", "paths");
    cx.output.line(format_args!(
        "{did} {commits} of `{branch}` into `{id}`: {paths} changed"
    ))?;
    merges::show_conflicts(cx, &pulled.conflicts)
}

/// Gives what was merged back to the repository.
pub(super) fn push(cx: &mut Context<'_>, args: &Push) -> CommandResult {
    let id = cx.project(args.project.as_deref())?;
    let pushed = push_now(cx, &id, args.to.as_deref(), args.dry_run)?;
    if cx.output.json() {
        cx.output
            .document(&wire::Pushed::new(&pushed, args.dry_run))?;
        return Ok(Exit::Done);
    }
    let branch = printable(&pushed.branch);
    if pushed.before == Some(pushed.commit) {
        cx.output.note(format_args!(
            "nothing to push: `{branch}` has all of `{id}`"
        ));
        return Ok(Exit::Done);
    }
    let did = if args.dry_run { "would push" } else { "pushed" };
    let commits = count(pushed.commits as i64, "commit", "commits");
    cx.output.line(format_args!(
        "{did} {commits} of `{id}` to the branch `{branch}`: it is at {}",
        short(&pushed.commit.to_hex())
    ))?;
    let link = cx.engine.projects.link(&id)?;
    if !args.dry_run && link.is_some_and(|link| link.branch != pushed.branch) {
        cx.output
            .note(format_args!("take it over there with: git merge {branch}"));
    }
    Ok(Exit::Done)
}

fn push_now(
    cx: &mut Context<'_>,
    id: &ProjectId,
    to: Option<&str>,
    dry_run: bool,
) -> Result<Pushed> {
    let fetched = fetched(cx, id, true)?;
    let options = PushOptions {
        to: to.map(str::to_owned),
        dry_run,
        fetched: fetched.clone(),
    };
    let mut steps = Steps::new(cx.output.shows_progress());
    let pushed = cx.engine.links.push(id, &options, &mut |told| {
        steps.show_named("writing objects: ", told.done, told.total);
    })?;
    drop(steps);
    let link = cx.engine.projects.link(id)?;
    if let (Some(place), Some(link), false) = (fetched, link, dry_run) {
        clone::push(&place, &link.repository, &pushed.branch)?;
        cx.engine.links.note_pushed(&pushed)?;
    }
    Ok(pushed)
}

/// Brings new commits in before a fork, if the link of the project says so. A failure is told and
/// is no failure of the fork.
pub(super) fn pull_before_fork(cx: &mut Context<'_>, id: &ProjectId) {
    if !is_auto(cx, id) {
        return;
    }
    let said = match pull_now(cx, id, false, None) {
        Ok(pulled) if pulled.conflicts.is_empty() => return,
        Ok(pulled) => {
            let paths = count(pulled.conflicts.len() as i64, "path", "paths");
            format!("{paths} of the repository wait for a decision: `offshoot review list`")
        }
        Err(error) => told(&error),
    };
    cx.output
        .note(format_args!("forked without a whole pull: {said}"));
}

/// Gives back what was merged, if the link of the project says so. A failure is told and is no
/// failure of the merge.
pub(super) fn push_after_merge(cx: &mut Context<'_>, id: &ProjectId) {
    if !is_auto(cx, id) {
        return;
    }
    if let Err(error) = push_now(cx, id, None, false) {
        let said = told(&error);
        cx.output
            .note(format_args!("merged, and not pushed: {said}"));
    }
}

fn is_auto(cx: &Context<'_>, id: &ProjectId) -> bool {
    let link = cx.engine.projects.link(id);
    matches!(link, Ok(Some(link)) if link.auto)
}

fn told(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

/// What was fetched of a repository on another machine; none for one that is here.
fn fetched(cx: &Context<'_>, id: &ProjectId, fetch: bool) -> Result<Option<PathBuf>> {
    let Some(link) = cx.engine.projects.link(id)? else {
        return Ok(None);
    };
    if !clone::is_address(Path::new(&link.repository)) {
        return Ok(None);
    }
    let place = cx.engine.links.fetched_repository(id)?;
    if fetch {
        clone::fetch(
            &place,
            &link.repository,
            &link.branch,
            cx.output.shows_progress(),
        )?;
    }
    Ok(Some(place))
}

/// What a project is linked to, without asking another machine.
pub(super) fn status(cx: &Context<'_>, id: &ProjectId) -> Result<Option<LinkStatus>> {
    let fetched = fetched(cx, id, false)?;
    cx.engine.links.status(id, fetched.as_ref())
}

/// The lines about a link in what `project show` says.
pub(super) fn rows(status: &LinkStatus) -> Vec<(&'static str, String)> {
    let link = &status.link;
    let apart = match &status.tip {
        Ok(_) => format!("{} ahead, {} behind", status.ahead, status.behind),
        Err(problem) => printable(problem),
    };
    let mode = if link.auto { "auto" } else { "manual" };
    let mut rows = vec![
        ("repository", printable(&link.repository)),
        ("follows", format!("{} ({mode})", printable(&link.branch))),
        ("compared", apart),
    ];
    if let Some(at) = link.pulled() {
        rows.push(("pulled", local(at)));
    }
    if let Some(pushed) = &link.pushed {
        let at = local(offshoot_core::Timestamp(pushed.at));
        rows.push(("pushed", format!("{at} to {}", printable(&pushed.branch))));
    }
    if let Some(waiting) = &status.waiting {
        rows.push(("waits", format!("conflicts of `{waiting}`")));
    }
    rows
}

impl Context<'_> {
    /// The project that was named, or else the one that is linked to the repository here.
    pub(super) fn project(&self, typed: Option<&str>) -> Result<ProjectId> {
        if let Some(typed) = typed {
            return typed.parse();
        }
        let here = repository_here()?.ok_or_else(|| {
            Error::invalid("the name of a project is missing")
                .with_hint("name one, or go into a repository that a project is linked to")
        })?;
        let mut linked = self.linked_to(&here)?;
        match (linked.pop(), linked.is_empty()) {
            (Some(one), true) => Ok(one),
            (None, _) => Err(Error::new(
                ErrorCode::ProjectNotFound,
                "no project is linked to the repository here",
            )
            .with_hint("`offshoot init` makes one; or name a project")),
            (Some(last), false) => {
                linked.push(last);
                let names: Vec<String> = linked.iter().map(ToString::to_string).collect();
                Err(
                    Error::invalid("several projects are linked to the repository here")
                        .with_hint(format!("name one of them: `{}`", names.join("`, `"))),
                )
            }
        }
    }

    /// The project that is linked to the repository here, if there is exactly one.
    pub(super) fn project_here(&self) -> Option<ProjectId> {
        let here = repository_here().ok()??;
        let linked = self.linked_to(&here).ok()?;
        <[ProjectId; 1]>::try_from(linked).ok().map(|[one]| one)
    }

    fn linked_to(&self, here: &Path) -> Result<Vec<ProjectId>> {
        let is_here = |link: &Link| {
            let place = Path::new(&link.repository).canonicalize();
            place.is_ok_and(|place| place == *here || place == here.join(".git"))
        };
        let linked = self.engine.projects.linked_projects()?.into_iter();
        Ok(linked
            .filter(|(_, link)| is_here(link))
            .map(|(id, _)| id)
            .collect())
    }
}

/// The repository whose work tree the current directory is in: its main work tree.
fn repository_here() -> Result<Option<PathBuf>> {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let here = here.map_err(|cause| {
        Error::new(ErrorCode::ReadFailed, "the current directory is gone").with_source(cause)
    })?;
    Ok(here.ancestors().find_map(main_work_tree))
}

/// The main work tree of the repository that has a work tree in this directory.
fn main_work_tree(dir: &Path) -> Option<PathBuf> {
    let entry = dir.join(".git");
    if entry.is_dir() {
        return Some(dir.to_owned());
    }
    // A linked work tree has a file instead, which names its place in the repository.
    let text = std::fs::read_to_string(&entry).ok()?;
    let place = dir.join(text.strip_prefix("gitdir:")?.trim());
    let common = std::fs::read_to_string(place.join("commondir")).ok()?;
    let common = place.join(common.trim()).canonicalize().ok()?;
    match common.file_name().is_some_and(|name| name == ".git") {
        true => common.parent().map(Path::to_owned),
        false => Some(common),
    }
}

fn is_repository(dir: &Path) -> bool {
    dir.join(".git").exists() || (dir.join("HEAD").is_file() && dir.join("objects").is_dir())
}

fn no_repository() -> Error {
    Error::invalid("there is no git repository here").with_hint(
        "go into one, or name its directory; `offshoot project create NAME --from DIR` takes a \
         plain directory",
    )
}

/// A name for the project of a directory: what of its name may stand in one.
fn name_of(place: &Path) -> Result<ProjectId> {
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".git").unwrap_or(&name);
    let fits = |c: char| match c.is_ascii_alphanumeric() || "._~-".contains(c) {
        true => c,
        false => '-',
    };
    let name: String = name.chars().map(fits).take(64).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    name.parse().map_err(|_| {
        Error::invalid("the name of the directory cannot be that of a project")
            .with_hint("name the project: `offshoot init NAME`")
    })
}
