//! The formats that the engine stores as JSON: one file for each, with its reader and writer.
//!
//! Each format has a version, which is the first member of the JSON object. Text without one has
//! version 1. A newer version than this program knows is refused. A change of a format raises its
//! version, keeps a reader for the version before, and adds a golden file: `golden/NAME/` has one for
//! each version there ever was, and the writer produces the newest byte for byte.
//!
//! | what | where | file |
//! |---|---|---|
//! | how a merge is to be done | `completion.options` | `complete_options.rs` |
//! | the receipt of a merge | `merge.outcome` | `receipt.rs` |
//! | what a review keeps | `review.details` | `review.rs` |
//! | policies and protected paths | `project.policy`, `project.protect` | `settings.rs` |
//! | the repository that a project is linked to | `project.link` | `link.rs` |
//! | what a project took from a directory | `project.source` | `source.rs` |
//! | the command that prepares forks | `project.setup` | `setup.rs` |
//! | what a token may do | `token.scope` | `scope.rs` |
//! | the rows of a fork, beside it | `forks/WS.N/fork.json` | `fork_note.rs` |
//! | an update under way, beside the fork | `forks/WS.N/update.json` | `update_note.rs` |
//!
//! The columns of rows are `offshoot-store`'s. Settings of the store are single words. Caches (memos
//! of walks, the list of working providers) are not here: a cache that is damaged or of another version
//! counts as empty.

mod complete_options;
mod fork_note;
mod link;
mod receipt;
mod review;
mod scope;
mod settings;
mod setup;
mod source;
mod update_note;

use offshoot_core::{Error, ErrorCode, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use complete_options::{complete_options_text, parse_complete_options};
pub(crate) use fork_note::{ForkNote, LayerNote};
pub(crate) use link::PendingPull;
pub use link::{Link, PushedBranch};
pub(crate) use receipt::{parse_receipt, receipt_text, replace_ids_in_receipt};
pub(crate) use review::{ContentAtOpening, Decision, Details};
pub(crate) use scope::{StoredRule, StoredScope};
pub(crate) use settings::{parse_policies, parse_protected, policies_text, protected_text};
pub use setup::Setup;
pub(crate) use source::{DirectorySource, PendingDirectory};
pub(crate) use update_note::UpdateNote;

/// A shape that is stored as a JSON object.
pub(crate) trait StoredFormat: Serialize + DeserializeOwned {
    /// The name of the format in error messages.
    const NAME: &'static str;
    /// The version that is written.
    const VERSION: u32;

    /// Parses an earlier version.
    fn parse_earlier(_version: u32, text: &[u8]) -> serde_json::Result<Self> {
        // Version 2 only added the version number.
        serde_json::from_slice(text)
    }
}

#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    value: &'a T,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default = "first_version")]
    version: u32,
}

fn first_version() -> u32 {
    1
}

/// The JSON text of a value, with its version.
pub(crate) fn to_text<T: StoredFormat>(value: &T) -> Result<String> {
    let numbered = Versioned {
        version: T::VERSION,
        value,
    };
    serde_json::to_string(&numbered).map_err(|cause| {
        Error::internal(format!("{} cannot be written", T::NAME)).with_source(cause)
    })
}

/// Parses JSON text of any known version.
pub(crate) fn parse_text<T: StoredFormat>(text: impl AsRef<[u8]>) -> Result<T> {
    let text = text.as_ref();
    // Text without a version, or that is no object, has version 1.
    let version = serde_json::from_slice::<Version>(text).map_or(1, |found| found.version);
    if version > T::VERSION {
        return Err(Error::new(
            ErrorCode::Unsupported,
            format!(
                "{} has version {version}, this program knows versions up to {}",
                T::NAME,
                T::VERSION
            ),
        )
        .with_hint("a newer offshoot has used this store: use that one"));
    }
    let read = match version == T::VERSION {
        true => serde_json::from_slice(text),
        false => T::parse_earlier(version, text),
    };
    read.map_err(|cause| Error::internal(format!("{} cannot be read", T::NAME)).with_source(cause))
}

#[cfg(test)]
mod golden;
