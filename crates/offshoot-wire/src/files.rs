//! Files of a workspace.

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine as _};
use offshoot_core::{EntryKind, RelPath};
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{EntryType, HistoryLine, Time, hex, time};

/// A listing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listing {
    entries: Vec<ListEntry>,
    /// Where the next page begins, to be given as `after`; not there on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// How many entries all pages have together.
    total: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ListEntry {
    name: String,
    path: String,
    #[serde(rename = "type")]
    #[schemars(with = "EntryType")]
    kind: EntryKind,
    size: i64,
    modified_at: Time,
    mime_type: Option<String>,
    operator: Option<String>,
}

impl From<&[engine::ListEntry]> for Listing {
    fn from(entries: &[engine::ListEntry]) -> Self {
        let entry = |entry: &engine::ListEntry| ListEntry {
            name: offshoot_core::escape_bytes(entry.path.name()),
            path: entry.path.to_text(),
            kind: entry.kind,
            size: entry.size,
            modified_at: time(entry.modified_at),
            mime_type: entry.mime.clone(),
            operator: entry.operator.clone(),
        };
        Listing {
            entries: entries.iter().map(entry).collect(),
            next: None,
            total: entries.len(),
        }
    }
}

impl From<engine::ListPage> for Listing {
    fn from(page: engine::ListPage) -> Self {
        Listing {
            next: page.next,
            total: page.total,
            ..Listing::from(page.entries.as_slice())
        }
    }
}

/// A directory with the directories in it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DirNode {
    name: String,
    path: String,
    children: Vec<DirNode>,
}

impl From<&engine::DirNode> for DirNode {
    fn from(node: &engine::DirNode) -> Self {
        DirNode {
            name: offshoot_core::escape_bytes(node.path.name()),
            path: node.path.to_text(),
            children: node.children.iter().map(DirNode::from).collect(),
        }
    }
}

/// Counts of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Info {
    file_count: i64,
    dir_count: i64,
    total_size: i64,
    disk_usage: i64,
    last_modified: Time,
    created_at: Time,
    materialized: bool,
}

impl From<&engine::Info> for Info {
    fn from(info: &engine::Info) -> Self {
        Info {
            file_count: info.file_count,
            dir_count: info.dir_count,
            total_size: info.total_size,
            disk_usage: info.disk_usage,
            last_modified: time(info.last_modified),
            created_at: time(info.created_at),
            materialized: info.materialized,
        }
    }
}

/// Everything known about one path.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Metadata {
    path: String,
    #[serde(rename = "type")]
    #[schemars(with = "EntryType")]
    kind: EntryKind,
    /// What a person would call the kind of file, such as `image`.
    file_type: Option<&'static str>,
    size: i64,
    mode: String,
    id: Option<String>,
    mime_type: Option<String>,
    created_at: Option<Time>,
    modified_at: Option<Time>,
    operator: Option<String>,
    /// On whose behalf: the agent whose merge brought it, or else the operator.
    author: Option<String>,
    message_ids: Vec<String>,
    #[schemars(with = "Vec<HistoryLine>")]
    history: Vec<Value>,
}

impl From<&engine::Metadata> for Metadata {
    fn from(metadata: &engine::Metadata) -> Self {
        let mut message_ids: Vec<String> = Vec::new();
        for row in &metadata.history {
            if let Some(message) = &row.line.cause.message_id
                && !message_ids.contains(message)
            {
                message_ids.push(message.clone());
            }
        }
        Metadata {
            path: metadata.path.to_text(),
            kind: metadata.kind,
            file_type: metadata
                .mime
                .as_deref()
                .map(|mime| engine::type_name(mime, metadata.path.name())),
            size: metadata.size,
            mode: format!("{:04o}", metadata.perm),
            id: hex(metadata.id),
            mime_type: metadata.mime.clone(),
            created_at: metadata.created_at.map(time),
            modified_at: metadata.modified_at.map(time),
            operator: metadata.operator.clone(),
            author: metadata.author.clone(),
            message_ids,
            history: metadata
                .history
                .iter()
                .map(engine::history_as_json)
                .collect(),
        }
    }
}

/// A part of a file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    content: String,
    start: u64,
    total: u64,
    read_length: u64,
    mime_type: Option<String>,
    encoding: &'static str,
}

impl From<engine::Window> for Window {
    fn from(window: engine::Window) -> Self {
        let (content, encoding) = match window.content {
            engine::WindowContent::Text(text) => (text, "utf8"),
            engine::WindowContent::Bytes(bytes) => (base64(&bytes), "base64"),
        };
        Window {
            content,
            start: window.start,
            total: window.total,
            read_length: window.read_length,
            mime_type: Some(window.mime),
            encoding,
        }
    }
}

impl Window {
    /// A window of content that is in memory, such as a file of a snapshot.
    pub fn of(bytes: &[u8], offset: u64, length: usize) -> Self {
        let length = length.min(engine::MAX_WINDOW);
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        match std::str::from_utf8(bytes).ok() {
            Some(text) => {
                let total = text.chars().count() as u64;
                let content: String = text.chars().skip(skip).take(length).collect();
                Window {
                    start: offset.min(total),
                    total,
                    read_length: content.chars().count() as u64,
                    mime_type: None,
                    encoding: "utf8",
                    content,
                }
            }
            None => {
                let rest = bytes.get(skip..).unwrap_or_default();
                let part = &rest[..rest.len().min(length)];
                Window {
                    content: base64(part),
                    start: offset.min(bytes.len() as u64),
                    total: bytes.len() as u64,
                    read_length: part.len() as u64,
                    mime_type: None,
                    encoding: "base64",
                }
            }
        }
    }
}

/// Base64 with padding, as RFC 4648 has it.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of base64 in either alphabet, with or without padding and line ends; none if the text
/// is no base64.
pub fn base64_decode(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::RequireNone)
            .with_decode_allow_trailing_bits(true),
    );
    let mut digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !b"\r\n".contains(byte))
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        })
        .collect();
    for _ in 0..2 {
        digits.pop_if(|last| *last == b'=');
    }
    LENIENT.decode(digits).ok()
}

/// A file that was written or moved.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    path: String,
    size: i64,
    mime_type: String,
    version: i64,
    id: String,
    created: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<usize>,
}

impl From<&engine::Written> for Written {
    fn from(written: &engine::Written) -> Self {
        Written {
            path: written.path.to_text(),
            size: written.size,
            mime_type: written.mime.clone(),
            version: written.version,
            id: written.id.to_hex(),
            created: written.created,
            replaced: None,
        }
    }
}

impl Written {
    /// The answer to an edit, which also says how many places were replaced.
    pub fn edited(written: &engine::Written, replaced: usize) -> Self {
        Written {
            replaced: Some(replaced),
            ..Written::from(written)
        }
    }
}

/// A moved file, link or directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Moved {
    /// From where.
    pub from: String,
    /// To where.
    pub to: String,
    /// The revision of the workspace that this made.
    pub version: i64,
}

/// A made directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Made {
    /// Where.
    pub path: String,
}

/// A deleted path.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Deleted {
    path: String,
    /// Files and links that went with it.
    files: usize,
    /// The revision of the workspace that this made: at the version before it all of them are there.
    version: i64,
}

impl Deleted {
    /// The answer to a deletion.
    pub fn new(path: &RelPath, deleted: &engine::DeletedPath) -> Self {
        Deleted {
            path: path.to_text(),
            files: deleted.files,
            version: deleted.version,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length() {
        for (plain, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"\xff\xfe\xfd\xfc", "//79/A=="),
        ] {
            assert_eq!(base64(plain), text);
            assert_eq!(base64_decode(text).as_deref(), Some(plain));
            assert_eq!(
                base64_decode(text.trim_end_matches('=')).as_deref(),
                Some(plain)
            );
        }
    }

    #[test]
    fn what_is_no_base64() {
        for bad in ["a", "ab=c", "a b c d", "====", "ab====", "abcde", "é"] {
            assert_eq!(base64_decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn base64_is_taken_as_other_programs_write_it() {
        for (text, plain) in [
            ("__79_A", &b"\xff\xfe\xfd\xfc"[..]),
            ("Zm9v\r\nZm9v\n", b"foofoo"),
            ("Zg=", b"f"),
            ("Zh==", b"f"),
            ("==", b""),
        ] {
            assert_eq!(base64_decode(text).as_deref(), Some(plain), "{text}");
        }
    }

    #[test]
    fn windows_never_split_a_character() {
        let window = Window::of("aéz".as_bytes(), 1, 1);
        assert_eq!((window.content.as_str(), window.total), ("é", 3));
        let window = Window::of(b"\xff\x00\x01", 1, 5);
        assert_eq!((window.content.as_str(), window.read_length), ("AAE=", 2));
    }
}
