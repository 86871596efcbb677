//! What can be typed. What it means is decided later, command by command; nothing is read or opened
//! here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::file_args::{Cat, Diff, Edit, Put, Shell, Upload};
use crate::link_args::{Init, Pull, Push};
use crate::project_args::{ForkArgs, ProjectCommand};
use crate::server_args::{Mcp, Serve, TokenCommand};

/// Workspaces for agents and people that remember every change.
#[derive(Debug, Parser)]
#[command(
    name = "offshoot",
    version,
    propagate_version = true,
    disable_help_subcommand = true
)]
#[command(
    after_help = "Data goes to stdout, everything else to stderr. Exit codes: 0 done, \
    1 the request failed, 2 wrong usage, 3 done with conflicts waiting for review."
)]
pub(crate) struct Args {
    /// The data directory [env: OFFSHOOT_DATA] [default: the user's data directory]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help_heading = "Global options"
    )]
    pub(crate) data: Option<PathBuf>,
    /// Where rows are kept, such as `sqlite:` [env: OFFSHOOT_DATABASE]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help_heading = "Global options"
    )]
    pub(crate) database: Option<String>,
    /// Where large content is kept, such as `file:` [env: OFFSHOOT_BLOBS]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help_heading = "Global options"
    )]
    pub(crate) blobs: Option<String>,
    /// A file with settings, in TOML [env: OFFSHOOT_CONFIG]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Who does it, for the history [env: OFFSHOOT_OPERATOR] [default: user]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    pub(crate) operator: Option<String>,
    /// The message that led to it, for the history [env: OFFSHOOT_MESSAGE]
    #[arg(
        long,
        global = true,
        value_name = "ID",
        help_heading = "Global options"
    )]
    pub(crate) message: Option<String>,
    /// Answer with one JSON document on stdout
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Say nothing but the answer and errors
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// Use no colours [env: NO_COLOR]
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_color: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer over HTTP; prints one URL to open
    Serve(Serve),
    /// Give one workspace to an MCP client over stdin and stdout
    #[command(args_conflicts_with_subcommands = true)]
    Mcp(Mcp),
    /// Issue, list and revoke tokens
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Create, list, show and delete workspaces
    Workspace {
        #[command(subcommand)]
        command: WorkspaceCommand,
    },
    /// Create, fill, look at, export and delete projects
    Project {
        #[command(subcommand)]
        command: ProjectCommand,
    },
    /// Make a project of the git repository here, and link the two
    Init(Init),
    /// Bring the new commits of a linked repository into its project
    Pull(Pull),
    /// Give what was merged back to a linked repository, as a branch
    Push(Push),
    /// Give an agent a private copy of a project; prints its path
    Fork(ForkArgs),
    /// Show the forks of a project beside each other: changes, distance, overlap, reviews
    Forks {
        /// The project [default: the one that is linked to the repository here, or all]
        project: Option<String>,
    },
    /// Move a fork onto the newest snapshot of its project
    Update {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// Show what would happen and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Open a shell in the directory of a workspace, or run a command there
    ///
    /// With your own environment and rights: it is no box. What it changed is recorded when it ends.
    /// Without root, forks that were made by `overlay` show their files only in here.
    Shell(Shell),
    /// List a directory of a workspace
    Ls {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// The directory [default: the whole workspace's]
        path: Option<OsString>,
    },
    /// Write a file to stdout
    Cat(Cat),
    /// Write a file, whole
    Put(Put),
    /// Put a file beside those there are: a taken name becomes `name (1).ext`
    Upload(Upload),
    /// Replace text in a file
    Edit(Edit),
    /// Delete a file, a link or a directory; its content stays in the history
    Rm {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// What to delete
        path: OsString,
        /// Also a directory that holds something
        #[arg(short, long)]
        recursive: bool,
    },
    /// Move a file, a link or a directory; nothing is overwritten
    Mv {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// From where
        from: OsString,
        /// To where
        to: OsString,
    },
    /// Make a directory and those above it
    Mkdir {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// The directory
        path: OsString,
    },
    /// Show the directories of a workspace
    Tree {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// Only below this directory
        path: Option<OsString>,
    },
    /// Count what a workspace holds, or show all that is known about one path
    #[command(visible_alias = "metadata")]
    Info {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// A file, link or directory
        path: Option<OsString>,
    },
    /// Show what changed since the newest snapshot, or since the base of a fork
    Status {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
    },
    /// Show what differs between two snapshots, or between one and now
    Diff(Diff),
    /// Take a snapshot; prints its id
    Snapshot {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// What to call it; with a label it is always a new snapshot
        #[arg(
            short = 'm',
            long = "label",
            value_name = "LABEL",
            allow_hyphen_values = true
        )]
        label: Option<String>,
        /// Also take what the ignore rules leave out
        #[arg(long)]
        include_ignored: bool,
    },
    /// List snapshots, newest first
    Snapshots {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// At most so many
        #[arg(
            short = 'n',
            long = "limit",
            value_name = "N",
            default_value_t = 0,
            hide_default_value = true
        )]
        limit: usize,
    },
    /// Bring back a snapshot, whole or one path; the present state is kept as a snapshot first
    Restore {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// The snapshot, or a prefix of its id
        #[arg(value_name = "SNAP")]
        snapshot: String,
        /// Only this path
        path: Option<OsString>,
    },
    /// Show what happened, newest first
    History {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// Only to this path
        path: Option<OsString>,
        /// At most so many lines; 0 means all
        #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Record what outside programs changed
    Sync {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
    },
    /// Show who wrote each line of a file, when and why
    Blame(crate::commands::BlameArgs),
    /// Merge a workspace into its project
    ///
    /// Completing it again changes nothing and gives the same answer. Exit code 3 if conflicts
    /// wait for review.
    Complete(crate::commands::CompleteArgs),
    /// Look at merges, undo one, or take back what lost in one
    Merge {
        #[command(subcommand)]
        command: crate::commands::MergeCommand,
    },
    /// Look at conflicts that wait, propose resolutions and decide
    Review {
        #[command(subcommand)]
        command: crate::commands::ReviewCommand,
    },
    /// Agents and the workspaces they work in
    Agent {
        #[command(subcommand)]
        command: crate::commands::AgentCommand,
    },
    /// Remove the directories of workspaces that nobody uses, and content that nothing names
    Clean {
        /// Unused for so many days
        #[arg(long, value_name = "N", default_value_t = 7)]
        days: u32,
        /// Show the plan and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Also keep what the ignore rules leave out, which goes unread otherwise
        #[arg(long)]
        include_ignored: bool,
    },
    /// Erase content for good, by name; this cannot be undone
    Purge {
        #[command(subcommand)]
        command: PurgeCommand,
    },
    /// Read everything and name what is not whole; changes nothing
    Check,
    /// Show what this machine can do for Offshoot
    Doctor,
    /// The data directory as a whole
    Data {
        #[command(subcommand)]
        command: DataCommand,
    },
    /// Show the settings
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// A tour on a throw-away data directory
    Demo,
    /// Merge three versions of one file, like `git merge-file`
    ///
    /// By line as git does, then by word where lines conflict; JSON by structure. Exit code 0 if
    /// the result is clean, 1 if something conflicts, above 127 if it could not be merged at all.
    /// Also usable as a git merge driver.
    MergeFile(crate::commands::MergeFileArgs),
    /// Measure what things cost here, beside git and the bare system calls
    ///
    /// Works on a journaled ext4 image that it makes and removes itself, which needs root.
    Bench {
        /// What to measure [default: everything]
        #[arg(value_enum)]
        groups: Vec<offshoot_bench::Group>,
        /// How many files the trees have, one run each
        #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
        files: Vec<usize>,
        /// Measure in this directory instead of an image
        #[arg(long)]
        dir: Option<std::path::PathBuf>,
        /// How often each step is repeated
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
        repeat: u16,
    },
    /// Keep the namespace in which the forks of an ordinary user are mounted
    #[command(hide = true)]
    HoldNamespace {
        /// Where it is noted
        dir: PathBuf,
    },
    /// Write completions for a shell to stdout
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What can be done with workspaces as a whole.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Create a workspace; prints its id
    Create {
        /// Its id [default: a new one]
        id: Option<String>,
        /// Which places may be written [default: plain]
        #[arg(long, value_enum, conflicts_with = "from")]
        layout: Option<LayoutName>,
        /// Begin with this snapshot of any workspace, deleted ones too
        #[arg(long, value_name = "SNAP")]
        from: Option<String>,
        /// The most bytes it may hold, such as `10MiB`
        #[arg(long, value_name = "N")]
        quota_bytes: Option<String>,
        /// The most files and directories it may hold
        #[arg(long, value_name = "N")]
        quota_inodes: Option<String>,
    },
    /// List workspaces; of forks also project, agent, base, changes, provider and overlap
    List {
        /// Only those whose id comes after this one
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// At most so many
        #[arg(
            short = 'n',
            long = "limit",
            value_name = "N",
            default_value_t = 0,
            hide_default_value = true
        )]
        limit: usize,
    },
    /// Show one workspace
    Show {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
    },
    /// Print the path of its directory; from then on outside programs may change it
    Path {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
    },
    /// Delete a workspace; its last state is kept as a snapshot
    Delete {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// Also keep what the ignore rules leave out, which goes unread otherwise
        #[arg(long)]
        include_ignored: bool,
    },
    /// Turn the directory of a fork into a copy, with all that was changed in it
    ///
    /// For a fork that was made by overlay and cannot be mounted any more. It is not mounted for
    /// this.
    Convert {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// How to make it: copy or reflink
        #[arg(long, value_name = "P")]
        provider: String,
    },
    /// Write its snapshots into a bare git repository, new or exported to before
    Export {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// The directory of the repository
        #[arg(long, value_name = "DIR")]
        git: PathBuf,
    },
    /// Show or set the limits of a workspace
    Quota {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// The most bytes it may hold, or `none`
        #[arg(long, value_name = "N", visible_alias = "bytes")]
        quota_bytes: Option<String>,
        /// The most files and directories it may hold, or `none`
        #[arg(long, value_name = "N", visible_alias = "inodes")]
        quota_inodes: Option<String>,
    },
}

/// What can be done with the data directory as a whole.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Remove it with every project and workspace in it; this cannot be undone
    ///
    /// Unmounts forks and takes away what stops `rm -r`. Refused while a server or another command
    /// has it open, and for a directory that is no data directory.
    Remove {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// What can be erased.
#[derive(Debug, Subcommand)]
pub(crate) enum PurgeCommand {
    /// Erase a workspace, deleted or not, with its snapshots and its history
    Workspace {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Erase every content that a file ever had, wherever else it is
    Path {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
        /// The file
        path: OsString,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Erase one content, wherever it is
    Content {
        /// Its id, as `offshoot info WS PATH` and the history show it
        id: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// What can be done with settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show each setting, its value and where it comes from
    Show,
}

/// The layouts by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LayoutName {
    /// Everything is writable
    Plain,
    /// Only `uploads/`, `outputs/` and `temp/` are writable
    Session,
}
