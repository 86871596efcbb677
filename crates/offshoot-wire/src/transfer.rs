//! Uploads and archives.

use schemars::JsonSchema;
use serde::Serialize;

use offshoot_engine as engine;

use super::Written;

/// Uploaded files, in the order in which they came.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Uploads {
    /// File by file.
    pub files: Vec<Upload>,
}

/// One uploaded file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upload {
    success: bool,
    path: String,
    /// What a person would call the kind of file, such as `image`.
    #[serde(rename = "type")]
    kind: String,
    name: String,
    size: i64,
    mime_type: String,
    /// How a message refers to the file.
    file_ref: String,
}

impl From<&engine::Written> for Upload {
    fn from(written: &engine::Written) -> Self {
        let path = written.path.to_text();
        Upload {
            success: true,
            kind: engine::type_name(&written.mime, written.path.name()).to_owned(),
            name: offshoot_core::escape_bytes(written.path.name()),
            size: written.size,
            mime_type: written.mime.clone(),
            file_ref: format!("workspace:{path}"),
            path,
        }
    }
}

/// One uploaded file in the output of the command line: the fields of HTTP and of every write.
#[derive(Debug, Serialize)]
pub struct UploadedFile {
    #[serde(flatten)]
    written: Written,
    success: bool,
    #[serde(rename = "type")]
    kind: String,
    name: String,
    #[serde(rename = "fileRef")]
    file_ref: String,
}

impl From<&engine::Written> for UploadedFile {
    fn from(written: &engine::Written) -> Self {
        let Upload {
            success,
            kind,
            name,
            file_ref,
            ..
        } = Upload::from(written);
        UploadedFile {
            written: Written::from(written),
            success,
            kind,
            name,
            file_ref,
        }
    }
}

/// What an import did.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Imported {
    /// Files that were written.
    pub file_count: u64,
    /// Directories that were made by name.
    pub dir_count: u64,
    /// Symbolic links that were made.
    pub link_count: u64,
    /// Bytes that were written.
    pub total_size: u64,
    /// Entries that were left out, each with the reason.
    pub refused: Vec<RefusedEntry>,
    /// How many more were left out than are listed.
    pub refused_more: u64,
}

/// What an import into a project did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProjectImported {
    /// The snapshot that holds it; none if nothing was taken.
    pub snapshot: Option<String>,
    /// Whether it is new: an archive that holds what the project holds makes none.
    pub created: bool,
    /// What was taken and what was left out.
    #[serde(flatten)]
    pub imported: Imported,
}

/// An entry of an archive that was left out.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RefusedEntry {
    /// Its name in the archive.
    pub name: String,
    /// The error code, such as `path_traversal_blocked`.
    pub code: &'static str,
    /// Why.
    pub reason: String,
}
