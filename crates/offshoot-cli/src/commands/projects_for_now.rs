//! The least of `offshoot project …` and `offshoot fork` that merges need.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use offshoot_core::escape_bytes;
use offshoot_engine::{Content, ForkOptions, WriteOptions};

use super::Context;
use super::files::source;
use super::policies::{self, PolicyArgs};
use crate::bytes;
use crate::output::{CommandResult, Exit, short, shown};
use crate::wire;

/// What can be done with projects.
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// Create an empty project
    Create {
        /// Its name
        name: String,
    },
    /// Write a file of a project to stdout
    Cat {
        /// The project
        name: String,
        /// The file
        path: OsString,
        /// As it was in this snapshot
        #[arg(long, value_name = "SNAP")]
        at: Option<String>,
    },
    /// Write a file of a project: one new snapshot
    Put {
        /// The project
        name: String,
        /// Where to
        path: OsString,
        /// The content [default: stdin]
        #[arg(value_name = "FILE|-")]
        file: Option<PathBuf>,
    },
    /// Show or set how merges into a project are decided
    Policy(PolicyArgs),
}

/// `fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The project
    project: String,
    /// The agent that owns it
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Its weight where a policy decides by priority
    #[arg(long, value_name = "N", default_value_t = 0)]
    priority: i64,
}

/// Runs `project …`.
pub(super) fn run(cx: &mut Context<'_>, command: &ProjectCommand) -> CommandResult {
    match command {
        ProjectCommand::Create { name } => {
            let project = cx.engine.create_project(&name.parse()?, &cx.cause)?;
            cx.output.line(&project.id)?;
        }
        ProjectCommand::Cat { name, path, at } => {
            let path = bytes::path(path)?;
            let mut file = cx
                .engine
                .open_project_file(&name.parse()?, at.as_deref(), &path)?;
            std::io::copy(&mut file.content, cx.output.stdout())?;
        }
        ProjectCommand::Put { name, path, file } => {
            let path = bytes::path(path)?;
            let mut content = source(cx, file.as_deref().unwrap_or(Path::new("-")))?;
            let options = WriteOptions::default();
            let snapshot = cx.engine.put_in_project(
                &name.parse()?,
                &path,
                Content::Stream(&mut content),
                &options,
                &cx.cause,
            )?;
            drop(content);
            let id = snapshot.id.to_hex();
            cx.output
                .line(format_args!("{}: snapshot {}", shown(&path), short(&id)))?;
        }
        ProjectCommand::Policy(args) => return policies::policy(cx, args),
    }
    Ok(Exit::Done)
}

/// Forks a project and prints the path.
pub(super) fn fork(cx: &mut Context<'_>, args: &ForkArgs) -> CommandResult {
    let options = ForkOptions {
        agent: args.agent.as_deref().map(str::parse).transpose()?,
        priority: args.priority,
        ..ForkOptions::default()
    };
    let (_, path) = cx
        .engine
        .fork_out(&args.project.parse()?, &options, &cx.cause)?;
    let path = path.as_os_str().as_bytes();
    if cx.output.json() {
        let path = escape_bytes(path);
        cx.output.document(&wire::HostPath { path })?;
    } else {
        cx.output.stdout().write_all(path)?;
        cx.output.line("")?;
    }
    Ok(Exit::Done)
}
