//! What can be typed about projects and forks.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

use crate::file_args::DiffForm;
use crate::link_args::LinkMode;

/// What can be done with projects.
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// Create a project, empty or from a directory or a git repository; prints its newest snapshot
    Create(ProjectCreate),
    /// List projects
    List {
        /// Only those whose name comes after this one
        #[arg(long, value_name = "NAME")]
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
    /// Show one project
    Show {
        /// The project [default: the one that is linked to the repository here]
        #[arg(value_name = "NAME")]
        project: Option<String>,
    },
    /// List its snapshots, newest first
    Log {
        /// The project [default: the one that is linked to the repository here]
        #[arg(value_name = "NAME")]
        project: Option<String>,
        /// At most so many; 0 means all
        #[arg(
            short = 'n',
            long = "limit",
            value_name = "N",
            default_value_t = 0,
            hide_default_value = true
        )]
        limit: usize,
    },
    /// List what it holds
    Files {
        /// The project
        #[arg(value_name = "NAME")]
        project: String,
        /// Only this directory [default: the whole project's]
        path: Option<OsString>,
        /// As it was in this snapshot
        #[arg(long, value_name = "SNAP")]
        at: Option<String>,
        /// Only what is directly there, not what is further below
        #[arg(long)]
        flat: bool,
    },
    /// Write a file of it to stdout
    Cat {
        /// The project
        #[arg(value_name = "NAME")]
        project: String,
        /// The file
        path: OsString,
        /// As it was in this snapshot
        #[arg(long, value_name = "SNAP")]
        at: Option<String>,
    },
    /// Write a file into it, as one new snapshot; prints the snapshot
    Put {
        /// The project
        #[arg(value_name = "NAME")]
        project: String,
        /// Where to; parent directories are made
        path: OsString,
        /// The content [default: stdin]
        #[arg(value_name = "FILE|-")]
        file: Option<PathBuf>,
        /// Whether the file is executable [default: as it was]
        #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        executable: Option<bool>,
        /// Only if the file has this content id now
        #[arg(long, value_name = "ID", conflicts_with = "if_absent")]
        if_match: Option<String>,
        /// Only if there is nothing yet
        #[arg(long)]
        if_absent: bool,
    },
    /// Show every version that a file had, newest first
    Versions {
        /// The project
        #[arg(value_name = "NAME")]
        project: String,
        /// The file
        path: OsString,
    },
    /// Show or set how merges into it are decided
    Policy(crate::commands::PolicyArgs),
    /// Show or set what every fork begins with beside its files: what a command makes, such as
    /// `npm ci`
    Setup(SetupArgs),
    /// Show what differs between two snapshots
    Diff {
        /// The project
        #[arg(value_name = "NAME")]
        project: String,
        /// Only this path and what lies below it
        path: Option<OsString>,
        #[command(flatten)]
        form: DiffForm,
    },
    /// Take what changed in a directory since it was last taken; without one, pull
    Sync {
        /// The project [default: the one that is linked to the repository here]
        #[arg(value_name = "NAME")]
        project: Option<String>,
        /// The directory [default: the linked repository, as `pull` does, or else the directory that
        /// was taken from last]
        dir: Option<PathBuf>,
        /// Leave out what `.gitignore` and `.offshootignore` name
        #[arg(long)]
        ignore_rules: bool,
        /// What to call the snapshot
        #[arg(
            short = 'm',
            long = "label",
            value_name = "LABEL",
            allow_hyphen_values = true
        )]
        label: Option<String>,
    },
    /// Write its snapshots into a bare git repository, or into a branch of an existing one
    Export {
        /// The project [default: the one that is linked to the repository here]
        #[arg(value_name = "NAME")]
        project: Option<String>,
        /// The directory of the repository
        #[arg(long, value_name = "DIR")]
        git: PathBuf,
        /// The branch of an existing repository; it moves forward only
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,
    },
    /// Delete a project that has no open forks; its snapshots stay until purged
    Delete {
        /// The project
        #[arg(value_name = "NAME")]
        project: String,
    },
}

/// `project create`.
#[derive(Debug, clap::Args)]
pub(crate) struct ProjectCreate {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) project: String,
    /// Begin with this directory, or with the history of this git repository
    #[arg(long, value_name = "DIR|GIT")]
    pub(crate) from: Option<PathBuf>,
    /// Stay linked to the git repository: `offshoot pull` and `offshoot push` work, with `auto`
    /// also before each fork and after each merge
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        requires = "from",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "manual",
        conflicts_with_all = ["files", "ignore_rules", "label"]
    )]
    pub(crate) link: Option<LinkMode>,
    /// The branch to follow [default: the one that is checked out]
    #[arg(long, value_name = "BRANCH", requires = "link")]
    pub(crate) branch: Option<String>,
    /// Of a git repository, take the files that are there and not its history
    #[arg(long, requires = "from")]
    pub(crate) files: bool,
    /// Take files, but not what `.gitignore` and `.offshootignore` name
    #[arg(long, requires = "from")]
    pub(crate) ignore_rules: bool,
    /// What to call the snapshot; not with the history of a git repository
    #[arg(
        short = 'm',
        long = "label",
        value_name = "LABEL",
        requires = "from",
        allow_hyphen_values = true
    )]
    pub(crate) label: Option<String>,
}

/// `project setup`.
#[derive(Debug, clap::Args)]
pub(crate) struct SetupArgs {
    /// The project [default: the one that is linked to the repository here]
    #[arg(value_name = "NAME")]
    pub(crate) project: Option<String>,
    /// A file, or a pattern of files, that decides whether the command has to run again
    /// [default: the lock files at the top of the project]
    #[arg(long, value_name = "PATTERN", requires = "command")]
    pub(crate) on: Vec<String>,
    /// Run the command that is set again, for the files as they are now
    #[arg(long, conflicts_with_all = ["command", "off"])]
    pub(crate) refresh: bool,
    /// Remove the setup; forks that have its results keep them
    #[arg(long, conflicts_with = "command")]
    pub(crate) off: bool,
    /// Set this command and run it, as you and with all that you may do: what has been merged into
    /// the project can decide what it does
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `fork`.
#[derive(Debug, clap::Args)]
pub(crate) struct ForkArgs {
    /// The project [default: the one that is linked to the repository here]
    #[arg(value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// The agent that owns it; its name is that of the fork [default: a new name]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// Begin with this snapshot, of the project or of another fork [default: the newest]
    #[arg(long, value_name = "SNAP")]
    pub(crate) at: Option<String>,
    /// Make so many forks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) count: Option<u32>,
    /// Require this provider: overlay, reflink or copy [env: OFFSHOOT_PROVIDER]
    #[arg(long, value_name = "P")]
    pub(crate) provider: Option<String>,
    /// Its weight where a policy decides by priority [default: that of its agent, or 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// With a `.git` at its base, for git commands in it; its commits become parents of the merge
    #[arg(long)]
    pub(crate) git: bool,
}
