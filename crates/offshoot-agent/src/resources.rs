//! Files as resources: what an agent's client can list and read by URI, beside the tools.
//!
//! A URI is `workspace:` and the path in the workspace, percent-encoded. It is decoded once and then
//! goes through the same parser and the same check as every other path.

use std::io::Read as _;

use offshoot_core::{Error, ErrorCode, RelPath, Result, Timestamp, percent_decode};
use offshoot_engine::{Access, mime_by_name};

/// The scheme of the URIs.
pub const SCHEME: &str = "workspace:";
/// How a client makes a URI from a path.
pub const TEMPLATE: &str = "workspace:{+path}";
/// The largest file that is read whole.
pub const LARGEST: u64 = 4 << 20;

/// A file that can be read.
pub struct Listed {
    /// Where it is.
    pub path: RelPath,
    /// Its bytes.
    pub size: u64,
    /// Its type, as far as its name tells.
    pub mime: Option<String>,
    /// When it last changed.
    pub modified_at: Timestamp,
}

/// The content of a resource.
pub enum Content {
    /// Text.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

/// The URI of a path.
pub fn uri_of(path: &RelPath) -> String {
    let mut uri = SCHEME.to_owned();
    for &byte in path.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

/// The path of a URI.
pub fn path_of(uri: &str) -> Result<RelPath> {
    let encoded = uri.strip_prefix(SCHEME).ok_or_else(|| {
        Error::invalid("the URI of a resource begins with `workspace:`")
            .with_hint("for example `workspace:src/main.rs`")
    })?;
    RelPath::parse(&percent_decode(encoded)?)
}

/// The files after a path, in the order of a walk, and whether there are more.
pub fn list(access: &Access, after: Option<&RelPath>, limit: usize) -> Result<(Vec<Listed>, bool)> {
    let id = access.own_workspace()?;
    // One more than asked for tells whether there are more.
    let mut entries = access.walk_files(&id, after, limit.saturating_add(1))?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    let listed = entries.into_iter().map(|entry| Listed {
        mime: mime_by_name(entry.path.name()),
        path: entry.path,
        size: entry.size,
        modified_at: entry.modified_at,
    });
    Ok((listed.collect(), more))
}

/// Reads a file whole: its MIME type and its content.
pub fn read(access: &Access, uri: &str) -> Result<(String, Content)> {
    let path = path_of(uri)?;
    let id = access.own_workspace()?;
    let file = access.open_file(&id, &path)?;
    if file.size > LARGEST {
        return Err(Error::new(
            ErrorCode::PayloadTooLarge,
            format!(
                "`{path}` has {} bytes, more than a resource may have",
                file.size
            ),
        )
        .with_hint("read it in parts with the tool `read_file`"));
    }
    let mime = file.mime.clone();
    let mut bytes = Vec::with_capacity(file.size as usize);
    file.take(LARGEST)
        .read_to_end(&mut bytes)
        .map_err(|cause| {
            Error::new(ErrorCode::ReadFailed, format!("`{path}` could not be read"))
                .with_source(cause)
        })?;
    let content = match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Content::Text(text),
        Ok(text) => Content::Bytes(text.into_bytes()),
        Err(error) => Content::Bytes(error.into_bytes()),
    };
    Ok((mime, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_carry_every_name() {
        for name in [&b"a b/c%20.txt"[..], b"\xff\n", "ä/ö?#.md".as_bytes(), b"x"] {
            let path = RelPath::parse(name).unwrap();
            let uri = uri_of(&path);
            assert!(
                uri.is_ascii() && !uri.contains([' ', '?', '#', '\n']),
                "{uri}"
            );
            assert_eq!(path_of(&uri).unwrap(), path);
        }
    }

    #[test]
    fn uris_lead_nowhere_else() {
        for (uri, code) in [
            ("file:///etc/passwd", ErrorCode::InvalidRequest),
            ("workspace:%", ErrorCode::InvalidRequest),
            ("workspace:../x", ErrorCode::PathTraversalBlocked),
            ("workspace:%2e%2e/x", ErrorCode::PathTraversalBlocked),
            ("workspace:/etc/passwd", ErrorCode::PathTraversalBlocked),
            ("workspace:///etc/passwd", ErrorCode::PathTraversalBlocked),
        ] {
            assert_eq!(path_of(uri).unwrap_err().code(), code, "{uri}");
        }
    }
}
