//! Everything that the engine stores as JSON: one file for each, one place that reads and writes it.
//!
//! Each has a version, which stands first in what is written. Text without one is of version 1, from
//! before there were versions. What is newer than this program knows is refused and never guessed.
//! A change of a shape raises its version, keeps a reader for the one before, and adds a golden file:
//! `golden/NAME/` has one for each version there ever was, and what is written is the newest of them
//! byte for byte.
//!
//! | what | where | file |
//! |---|---|---|
//! | how a merge is to be done | `completion.options` | `complete_options.rs` |
//! | the receipt of a merge | `merge.outcome` | `receipt.rs` |
//! | what a review keeps | `review.details` | `review.rs` |
//! | policies and protected paths | `project.policy`, `project.protect` | `settings.rs` |
//! | what a token may do | `token.scope` | `scope.rs` |
//! | the rows of a fork, beside it | `forks/WS.N/fork.json` | `fork_note.rs` |
//! | an update under way, beside the fork | `forks/WS.N/update.json` | `update_note.rs` |
//!
//! Rows are `offshoot-store`'s. Settings of the store are single words. Caches (memos of walks, what
//! was found out about providers) are no formats: each begins with its version, and one that is
//! damaged or of another version is none.

mod complete_options;
mod fork_note;
mod receipt;
mod review;
mod scope;
mod settings;
mod update_note;

use offshoot_core::{Error, ErrorCode, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use complete_options::{complete_options_of, complete_options_text};
pub(crate) use fork_note::{ForkNote, LayerNote};
pub(crate) use receipt::{receipt_of, receipt_text, replace_ids_in_receipt};
pub(crate) use review::{Decision, Details, There};
pub(crate) use scope::{StoredRule, StoredScope};
pub(crate) use settings::{policies_of, policies_text, protected_of, protected_text};
pub(crate) use update_note::UpdateNote;

/// A shape that is stored as a JSON object.
pub(crate) trait Stored: Serialize + DeserializeOwned {
    /// What it is, for messages.
    const NAME: &'static str;
    /// The version that is written.
    const VERSION: u32;

    /// Reads an earlier version; what changed between the versions is done here.
    fn of_earlier(_version: u32, text: &[u8]) -> serde_json::Result<Self> {
        // Version 2 only added the number.
        serde_json::from_slice(text)
    }
}

#[derive(Serialize)]
struct Numbered<'a, T> {
    version: u32,
    #[serde(flatten)]
    value: &'a T,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default = "first")]
    version: u32,
}

fn first() -> u32 {
    1
}

/// The text that is stored.
pub(crate) fn to_text<T: Stored>(value: &T) -> Result<String> {
    let numbered = Numbered {
        version: T::VERSION,
        value,
    };
    serde_json::to_string(&numbered).map_err(|cause| {
        Error::internal(format!("{} cannot be written", T::NAME)).with_source(cause)
    })
}

/// What is stored as this text.
pub(crate) fn of_text<T: Stored>(text: impl AsRef<[u8]>) -> Result<T> {
    let text = text.as_ref();
    // What has no version, or is no object, is of the first.
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
        false => T::of_earlier(version, text),
    };
    read.map_err(|cause| Error::internal(format!("{} cannot be read", T::NAME)).with_source(cause))
}

#[cfg(test)]
mod golden;
