//! What can be typed about linked repositories.

use clap::ValueEnum;

/// `init`.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// The name of the project [default: that of the directory], or the directory of a repository
    /// [default: the one that you stand in]
    #[arg(value_name = "NAME|DIR")]
    pub(crate) name: Option<String>,
    /// The branch to follow [default: the one that is checked out]
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<String>,
    /// Whether forks pull first and merges push
    #[arg(long, value_enum, value_name = "HOW", default_value = "manual")]
    pub(crate) link: LinkMode,
}

/// When commits go over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinkMode {
    /// When you say `pull` or `push`
    Manual,
    /// Also before each fork and after each merge
    Auto,
}

/// `pull`.
#[derive(Debug, clap::Args)]
pub(crate) struct Pull {
    /// The project [default: the one that is linked to the repository here]
    pub(crate) project: Option<String>,
    /// Show what would happen and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Decide every conflict by this policy instead of the project's: `review`,
    /// `last-writer-wins`, `priority`, `ours` (the project), `theirs` (the repository) or `union`
    #[arg(long)]
    pub(crate) policy: Option<String>,
}

impl Pull {
    /// A pull as it is without options.
    pub(crate) fn of(project: Option<String>) -> Pull {
        Pull {
            project,
            dry_run: false,
            policy: None,
        }
    }
}

/// `push`.
#[derive(Debug, clap::Args)]
pub(crate) struct Push {
    /// The project [default: the one that is linked to the repository here]
    pub(crate) project: Option<String>,
    /// The branch; it moves forward only [default: offshoot/main]
    #[arg(long, value_name = "BRANCH", visible_alias = "branch")]
    pub(crate) to: Option<String>,
    /// Show what would happen and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}
