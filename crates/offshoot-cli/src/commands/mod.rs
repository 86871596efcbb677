//! The commands: each opens the engine if it needs it, calls it, and shows the answer.

mod agents;
mod blame;
mod clone;
mod data;
mod demo;
mod files;
mod fork;
mod forks;
mod link;
mod machine;
mod maintenance;
mod mcp;
mod merge_file;
mod merges;
mod policies;
mod project;
mod reviews;
mod serve;
mod setup;
mod shell;
mod snapshots;
mod token;
mod workspace;

pub(crate) use agents::AgentCommand;
pub(crate) use blame::BlameArgs;
pub(crate) use merge_file::{
    FAILED as MERGE_FILE_FAILED, MISUSED as MERGE_FILE_MISUSED, MergeFileArgs,
};
pub(crate) use merges::{CompleteArgs, MergeCommand};
pub(crate) use policies::PolicyArgs;
pub(crate) use reviews::ReviewCommand;

use std::ffi::OsStr;
use std::io::Write as _;

use clap::CommandFactory as _;
use offshoot_bench::BenchOptions;
use offshoot_core::{Cause, ErrorCode, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_engine::{Engine, EngineOptions, Projects};

use crate::args::{Args, Command, ConfigCommand, DataCommand};
use crate::bytes;
use crate::config::{Origin, Settings};
use crate::output::{CommandResult, Exit, Failure, Output};

/// An open data directory and who is using it.
pub(crate) struct Context<'a> {
    pub(crate) engine: Engine,
    pub(crate) settings: &'a Settings,
    pub(crate) cause: Cause,
    pub(crate) output: &'a mut Output,
}

impl Context<'_> {
    /// A command that the user can paste, with the same data directory as this one.
    pub(crate) fn command_line(&self, words: &[&str]) -> String {
        let mut line = String::from("offshoot");
        if self.settings.data.origin == Origin::Flag {
            line.push_str(" --data ");
            line.push_str(&bytes::shell_word(
                &self.settings.data.value.to_string_lossy(),
            ));
        }
        for word in words {
            line.push(' ');
            line.push_str(&bytes::shell_word(word));
        }
        line
    }
}

impl Context<'_> {
    /// Whether this command was typed in the directory of a workspace.
    fn stands_in(&self, id: &WorkspaceId) -> bool {
        let place = self
            .settings
            .data
            .value
            .join("workspaces")
            .join(id.as_str());
        match (std::env::current_dir(), place.canonicalize()) {
            (Ok(here), Ok(place)) => here.starts_with(place),
            _ => false,
        }
    }

    /// Notes that the current directory was just removed: every further command there fails in
    /// words that explain nothing.
    fn note_gone(&mut self) {
        self.output
            .note("your shell stands in a directory that is gone; leave it with: cd");
    }
}

/// Runs what was typed.
pub(crate) fn run(args: Args, output: &mut Output) -> CommandResult {
    let settings = Settings::resolve(&args);
    match &args.command {
        // These work without settings, and so even with wrong ones.
        Command::Completions { shell } => {
            // The generator panics when it cannot write, so it does not get stdout itself.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "offshoot", &mut script);
            output.stdout().write_all(&script)?;
            return Ok(Exit::Done);
        }
        Command::Demo => return demo::run(output),
        Command::HoldNamespace { dir } => return hold_namespace(dir),
        Command::MergeFile(merge) => return merge_file::run(merge, output),
        Command::Bench {
            groups,
            files,
            dir,
            repeat,
        } => {
            let options = BenchOptions {
                groups: groups.clone(),
                files: files.clone(),
                dir: dir.clone(),
                repeat: usize::from(*repeat),
            };
            return bench(&options, output);
        }
        _ => {}
    }
    let settings = settings?;
    let mut options = EngineOptions::new(&settings.data.value);
    enter_namespace(&settings, &args.command, &mut options)?;
    match &args.command {
        Command::Config {
            command: ConfigCommand::Show,
        } => return machine::show_settings(&settings, output),
        Command::Doctor => return machine::doctor(&settings, output),
        Command::Data {
            command: DataCommand::Remove { yes },
        } => return data::remove(&settings, *yes, output),
        _ => {}
    }
    options.lock_timeout = settings.lock_timeout();
    options.provider = settings.provider()?;
    options.max_file_bytes = settings.max_file_bytes()?;
    let context = Context {
        engine: Engine::open(options.clone())?,
        cause: settings.cause(),
        settings: &settings,
        output,
    };
    match args.command {
        Command::Shell(args) => shell::run(context, &args, options),
        command => {
            let projects = context.engine.projects.clone();
            run_with_engine(context, command).map_err(|failure| hint_at_project(&projects, failure))
        }
    }
}

/// Says so where the name of a project was typed instead of one of its workspaces.
fn hint_at_project(projects: &Projects, failure: Failure) -> Failure {
    let Failure::Request(error) = failure else {
        return failure;
    };
    let missing = (error.message().strip_prefix("there is no workspace `"))
        .and_then(|rest| rest.strip_suffix('`')?.parse::<ProjectId>().ok())
        .filter(|id| error.code() == ErrorCode::WorkspaceNotFound && projects.project(id).is_ok());
    Failure::Request(match missing {
        Some(id) => error.with_hint(format!(
            "`{id}` is a project: `offshoot forks {id}` shows its workspaces, `offshoot fork {id}` \
             makes one, and `offshoot project --help` names what works on the project itself"
        )),
        None => error,
    })
}

/// See [`crate::namespace::enter`]. Other systems have no such namespaces.
fn enter_namespace(
    settings: &Settings,
    command: &Command,
    options: &mut EngineOptions,
) -> Result<()> {
    #[cfg(target_os = "linux")]
    return crate::namespace::enter(settings, command, options);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (settings, command, options);
        Ok(())
    }
}

/// Ends when the namespace is not needed any more. Who started it learns of an error by its end.
fn hold_namespace(dir: &std::path::Path) -> CommandResult {
    #[cfg(target_os = "linux")]
    return Ok(match crate::namespace::hold(dir) {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    });
    #[cfg(not(target_os = "linux"))]
    {
        let _ = dir;
        Ok(Exit::Failed)
    }
}

/// Measures, and shows the table or the document.
fn bench(options: &BenchOptions, output: &mut Output) -> CommandResult {
    let shows = output.shows_progress();
    let figures = offshoot_bench::run(options, &|step| {
        if shows {
            let _ = writeln!(std::io::stderr(), "measuring {step}");
        }
    })?;
    if output.json() {
        output.document(&figures.to_json())?;
    } else {
        output.line(figures.to_table().trim_end())?;
    }
    Ok(Exit::Done)
}

fn run_with_engine(mut context: Context<'_>, command: Command) -> CommandResult {
    let cx = &mut context;
    match command {
        Command::Serve(args) => serve::run(cx, &args),
        Command::Mcp(args) => mcp::run(cx, &args),
        Command::Token { command } => token::run(cx, &command),
        Command::Workspace { command } => workspace::run(cx, command),
        Command::Project { command } => project::run(cx, command),
        Command::Init(args) => link::init(cx, &args),
        Command::Pull(args) => link::pull(cx, &args),
        Command::Push(args) => link::push(cx, &args),
        Command::Fork(args) => fork::fork(cx, &args),
        Command::Forks { project } => forks::run(cx, project.as_deref()),
        Command::Update { workspace, dry_run } => fork::update(cx, &id(&workspace)?, dry_run),
        Command::Ls { workspace, path } => files::ls(cx, &id(&workspace)?, &below(&path)?),
        Command::Cat(args) => files::cat(cx, &args),
        Command::Put(args) => files::put(cx, &args),
        Command::Upload(args) => files::upload(cx, &args),
        Command::Edit(args) => files::edit(cx, &args),
        Command::Rm {
            workspace,
            path,
            recursive,
        } => files::rm(cx, &id(&workspace)?, &bytes::path(&path)?, recursive),
        Command::Mv {
            workspace,
            from,
            to,
        } => files::mv(
            cx,
            &id(&workspace)?,
            &bytes::path(&from)?,
            &bytes::path(&to)?,
        ),
        Command::Mkdir { workspace, path } => {
            files::mkdir(cx, &id(&workspace)?, &bytes::path(&path)?)
        }
        Command::Tree { workspace, path } => files::tree(cx, &id(&workspace)?, &below(&path)?),
        Command::Info { workspace, path } => files::info(cx, &id(&workspace)?, &below(&path)?),
        Command::Status { workspace } => snapshots::status(cx, &id(&workspace)?),
        Command::Diff(args) => snapshots::diff(cx, &args),
        Command::Snapshot {
            workspace,
            label,
            include_ignored,
        } => snapshots::snapshot(cx, &id(&workspace)?, label.as_deref(), include_ignored),
        Command::Snapshots { workspace, limit } => snapshots::list(cx, &id(&workspace)?, limit),
        Command::Restore {
            workspace,
            snapshot,
            path,
        } => {
            let path = path.as_deref().map(bytes::path).transpose()?;
            snapshots::restore(cx, &id(&workspace)?, &snapshot, path.as_ref())
        }
        Command::History {
            workspace,
            path,
            limit,
        } => {
            let path = path.as_deref().map(bytes::path).transpose()?;
            snapshots::history(cx, &id(&workspace)?, path.as_ref(), limit)
        }
        Command::Sync { workspace } => snapshots::sync(cx, &id(&workspace)?),
        Command::Blame(args) => blame::run(cx, &args),
        Command::Complete(args) => merges::complete(cx, &args),
        Command::Merge { command } => merges::run(cx, &command),
        Command::Review { command } => reviews::run(cx, &command),
        Command::Agent { command } => agents::run(cx, &command),
        Command::Clean {
            days,
            dry_run,
            include_ignored,
        } => maintenance::clean(cx, days, include_ignored, dry_run),
        Command::Purge { command } => maintenance::purge(cx, &command),
        Command::Check => maintenance::check(cx),
        // These need no engine, or one of their own, and were answered before.
        Command::Doctor
        | Command::Config { .. }
        | Command::Data { .. }
        | Command::Demo
        | Command::Shell(_)
        | Command::HoldNamespace { .. }
        | Command::Bench { .. }
        | Command::MergeFile(_)
        | Command::Completions { .. } => Ok(Exit::Done),
    }
}

fn id(typed: &str) -> Result<WorkspaceId> {
    typed.parse()
}

fn below(typed: &Option<std::ffi::OsString>) -> Result<RelPath> {
    bytes::path_or_root(typed.as_deref().map(OsStr::new))
}
