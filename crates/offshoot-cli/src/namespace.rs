//! Where the forks of an ordinary user are mounted: which commands go there, and what starts the holder.
//!
//! Root mounts where everybody sees it, and nothing here concerns it. The namespace is entered before
//! the engine is opened, because a process with several threads cannot enter one.

use std::path::Path;
use std::process::Command as Program;

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_engine::{
    EngineOptions, Entered, ProviderName, UserNamespace, create_data_dir, user_namespace_of,
};

use crate::args::{Command, DataCommand};
use crate::config::Settings;
use crate::project_args::ProjectCommand;
use crate::server_args::McpCommand;

/// What a command has to do with the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Need {
    /// It stays outside.
    Outside,
    /// It goes there if there is one: mounts that were made before may have to be seen or ended.
    IfAlive,
    /// It goes there if there ever was one: forks may have to be mounted again.
    IfMade,
    /// It mounts forks.
    Always,
    /// It does nothing else.
    Required,
}

/// Goes into the namespace if the command has to, and lets the engine know. Where it cannot be had,
/// commands go on without, as far as they come.
pub(crate) fn enter(
    settings: &Settings,
    command: &Command,
    options: &mut EngineOptions,
) -> Result<()> {
    let need = need(settings, command)?;
    let namespace = user_namespace_of(&settings.data.value);
    if is_root() || need == Need::Outside || (need <= Need::IfMade && !namespace.was_made()) {
        return Ok(());
    }
    // As all processes see it that are not in the namespace, or were not yet.
    let outside = std::fs::File::open(&settings.data.value);
    let outside = outside.ok().and_then(offshoot_sys::unique_mount_id);
    match go(&settings.data.value, &namespace, need) {
        Ok(Entered::Inside) => {
            options.private_mounts = true;
            options.mount = outside;
            Ok(())
        }
        // Programs in `offshoot shell` may not mount.
        Ok(Entered::InsideWithoutRights) if need == Need::Required => Err(Error::new(
            ErrorCode::Unsupported,
            "the provider `overlay` does not work in `offshoot shell`",
        )
        .with_hint("type this command outside of the shell")),
        Err(error) if need == Need::Required => Err(error),
        _ => Ok(()),
    }
}

fn go(data: &Path, namespace: &UserNamespace, need: Need) -> Result<Entered> {
    let entered = namespace.enter()?;
    if entered != Entered::NoNamespace || need == Need::IfAlive {
        return Ok(entered);
    }
    create_data_dir(data)?;
    let program = std::env::current_exe()
        .map_err(|cause| Error::internal("this program cannot be found").with_source(cause))?;
    let mut holder = Program::new(program);
    // It outlives this command and must keep nothing of it.
    holder.env_clear().current_dir("/");
    holder.arg("hold-namespace").arg(namespace.dir());
    namespace.start(&mut holder)?;
    namespace.enter()
}

fn need(settings: &Settings, command: &Command) -> Result<Need> {
    let overlay = ProviderName::Overlay.as_str();
    let need = match command {
        // These run git, which may run ssh. It refuses settings of root where root has no name, and
        // nothing here needs the directory of a fork.
        Command::Init(_) | Command::Pull(_) | Command::Push(_) => Need::Outside,
        Command::Project {
            command: ProjectCommand::Create(_) | ProjectCommand::Sync { .. },
        } => Need::Outside,
        // The person's command may run ssh too.
        Command::Project {
            command: ProjectCommand::Setup(_),
        } => Need::Outside,
        // These look at the machine as it is for every program.
        Command::Doctor | Command::Config { .. } => Need::Outside,
        Command::Mcp(args) if matches!(args.command, Some(McpCommand::Config { .. })) => {
            Need::Outside
        }
        Command::Data {
            command: DataCommand::Remove { .. },
        } => Need::IfAlive,
        Command::Fork(args) if args.provider.as_deref() == Some(overlay) => Need::Required,
        Command::Shell(_) | Command::Serve(_) | Command::Mcp(_) => Need::Always,
        _ => Need::IfMade,
    };
    Ok(match settings.provider()? {
        Some(ProviderName::Overlay) if need == Need::IfMade => Need::Always,
        _ => need,
    })
}

/// Whether this process mounts where everybody sees it.
pub(crate) fn is_root() -> bool {
    offshoot_sys::effective_user() == 0
}

/// The body of the hidden command: makes the namespace and sleeps until it is told to end.
pub(crate) fn hold(dir: &Path) -> std::io::Result<()> {
    offshoot_sys::close_inherited_files()?;
    UserNamespace::at(dir).hold()
}
