//! What can be typed after the commands about files and differences.

use std::ffi::OsString;
use std::path::PathBuf;

/// `cat`.
#[derive(Debug, clap::Args)]
pub(crate) struct Cat {
    /// The workspace
    #[arg(value_name = "WS")]
    pub(crate) workspace: String,
    /// The file
    pub(crate) path: OsString,
    /// As it was in this snapshot
    #[arg(long, value_name = "SNAP")]
    pub(crate) at: Option<String>,
    /// Begin after so many bytes; with `--json`, characters of text
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) offset: u64,
    /// At most so many bytes; with `--json`, characters of text and never more than 5000
    #[arg(long, value_name = "N")]
    pub(crate) length: Option<u64>,
}

/// `put`.
#[derive(Debug, clap::Args)]
pub(crate) struct Put {
    /// The workspace
    #[arg(value_name = "WS")]
    pub(crate) workspace: String,
    /// Where to; parent directories are made
    pub(crate) path: OsString,
    /// The content [default: stdin]
    #[arg(value_name = "FILE|-")]
    pub(crate) file: Option<PathBuf>,
    /// The MIME type, if content and name do not tell it
    #[arg(long, value_name = "TYPE")]
    pub(crate) mime: Option<String>,
    /// Whether the file is executable [default: as it was]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) executable: Option<bool>,
    /// Only if the file has this content id now
    #[arg(long, value_name = "ID", conflicts_with = "if_absent")]
    pub(crate) if_match: Option<String>,
    /// Only if there is nothing yet
    #[arg(long)]
    pub(crate) if_absent: bool,
}

/// `upload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Upload {
    /// The workspace
    #[arg(value_name = "WS")]
    pub(crate) workspace: String,
    /// The file, or `-` for stdin (then with `--name`)
    #[arg(value_name = "FILE|-")]
    pub(crate) file: PathBuf,
    /// The name it gets [default: that of the file]
    #[arg(long)]
    pub(crate) name: Option<OsString>,
    /// The MIME type, if content and name do not tell it
    #[arg(long, value_name = "TYPE")]
    pub(crate) mime: Option<String>,
}

/// `edit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Edit {
    /// The workspace
    #[arg(value_name = "WS")]
    pub(crate) workspace: String,
    /// The file
    pub(crate) path: OsString,
    /// The text to replace; it must occur exactly once
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) old: String,
    /// The text to put there
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) new: String,
    /// Replace every occurrence
    #[arg(long)]
    pub(crate) all: bool,
}

/// `diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The workspace
    #[arg(value_name = "WS")]
    pub(crate) workspace: String,
    /// Only this path and what lies below it
    pub(crate) path: Option<OsString>,
    #[command(flatten)]
    pub(crate) form: DiffForm,
}

/// What is compared, and how it is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffForm {
    /// From this snapshot [default: the newest, of a project the one before]
    #[arg(long, value_name = "SNAP")]
    pub(crate) from: Option<String>,
    /// To this snapshot [default: the state now]
    #[arg(long, value_name = "SNAP")]
    pub(crate) to: Option<String>,
    /// Only how many lines differ in each file
    #[arg(long, conflicts_with = "name_only")]
    pub(crate) stat: bool,
    /// Only the paths that differ
    #[arg(long)]
    pub(crate) name_only: bool,
}

/// `shell`
#[derive(Debug, clap::Args)]
pub(crate) struct Shell {
    /// The workspace
    #[arg(value_name = "WS")]
    pub(crate) workspace: String,
    /// Run this instead of a shell, and end with its exit code
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
