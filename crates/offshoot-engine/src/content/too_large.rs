//! Files that are too large to be recorded. They are never read: a sparse file of terabytes costs its
//! owner nothing, and hashing it would take hours. Answers name them, and no operation moves or removes
//! them.

use offshoot_core::{EntryKind, Error, ErrorCode, RelPath, Result};
use offshoot_fs::SafeDir;
use offshoot_store::WorkspaceRow;

use crate::content::Contents;

/// A file that is left out for its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Where.
    pub path: RelPath,
    /// Its bytes.
    pub size: u64,
    /// The most bytes that would have been taken.
    pub limit: u64,
}

impl TooLarge {
    /// Why it was left out, for users.
    pub fn reason(&self) -> String {
        format!(
            "it has {} bytes, and files of more than {} are not read",
            self.size, self.limit
        )
    }

    /// The error of an operation that would have to read or remove it.
    pub(crate) fn refuse(&self) -> Error {
        Error::new(
            ErrorCode::PayloadTooLarge,
            format!(
                "`{}` has {} bytes, and files of more than {} are not read",
                self.path, self.size, self.limit
            ),
        )
        .with_hint(
            "it is where it was; move or delete it in the directory, or raise `max_file_bytes` \
             (OFFSHOOT_MAX_FILE_BYTES) and the quota",
        )
        .with_details(serde_json::json!({ "limit": self.limit, "size": self.size }))
    }
}

/// The most bytes that a file of a workspace may have: the limit of one file, or the quota of the
/// workspace if that is smaller.
pub(crate) fn largest_file(contents: &Contents, row: &WorkspaceRow) -> u64 {
    let quota = row.quota_bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let limit = contents.context.options.max_file_bytes;
    quota.map_or(limit, |quota| quota.min(limit))
}

impl Contents {
    /// Refuses to replace a file that is too large to be recorded.
    pub(crate) fn refuse_too_large(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        path: &RelPath,
    ) -> Result<()> {
        let limit = largest_file(self, row);
        match dir.stat(path)? {
            Some(stat) if stat.entry_kind() == Some(EntryKind::File) && stat.size > limit => {
                Err(TooLarge {
                    path: path.clone(),
                    size: stat.size,
                    limit,
                }
                .refuse())
            }
            _ => Ok(()),
        }
    }
}
