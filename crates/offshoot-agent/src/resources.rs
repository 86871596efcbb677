//! Files as resources: what an agent's client can list and read by URI, beside the tools.
//!
//! A URI is `workspace:` and the path in the workspace, percent-encoded. It is decoded once and
//! then goes through the same parser and the same check as every other path. What is read of a file
//! is the window that the tool `read_file` gives; `?offset=N` at the end of the URI is where it
//! begins.

use offshoot_core::{Error, RelPath, Result, Timestamp, percent_decode};
use offshoot_engine::{Access, MAX_WINDOW, Window, WindowContent, mime_by_name};

/// The scheme of the URIs.
pub const SCHEME: &str = "workspace:";
/// How a client makes a URI from a path.
pub const TEMPLATE: &str = "workspace:{+path}";
/// How it makes the URI of a part of a file.
pub const PART_TEMPLATE: &str = "workspace:{+path}{?offset,length}";

/// A file that can be read.
pub struct Resource {
    /// Where it is.
    pub path: RelPath,
    /// Its bytes.
    pub size: u64,
    /// Its type, as far as its name tells.
    pub mime: Option<String>,
    /// When it last changed.
    pub modified_at: Timestamp,
}

/// What was read of a file.
pub struct ResourceWindow {
    /// The window.
    pub window: Window,
    /// The URI of what follows; none at the end of the file.
    pub next: Option<String>,
}

impl ResourceWindow {
    /// How to read on, for a model; none at the end of the file.
    pub fn continuation_hint(&self) -> Option<String> {
        let (next, window) = (self.next.as_ref()?, &self.window);
        let unit = match window.content {
            WindowContent::Text(_) => "characters",
            WindowContent::Bytes(_) => "bytes",
        };
        let end = window.start + window.read_length;
        Some(format!(
            "[{unit} {} to {end} of {}; read on with `{next}`, or with `read_file` and `offset` {end}]",
            window.start, window.total
        ))
    }
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

/// The path of a URI, without what it says about a part.
pub fn path_of(uri: &str) -> Result<RelPath> {
    window_of(uri).map(|(path, ..)| path)
}

/// The path of a URI, and where the window begins and how long it is.
fn window_of(uri: &str) -> Result<(RelPath, u64, usize)> {
    let rest = uri.strip_prefix(SCHEME).ok_or_else(|| {
        Error::invalid("the URI of a resource begins with `workspace:`")
            .with_hint("for example `workspace:src/main.rs`")
    })?;
    // Clients that fill in the template leave a `?` in a name as it is. So only the known query is
    // taken for one.
    let (encoded, query) = match rest.rsplit_once('?') {
        Some((path, query)) if query.starts_with("offset=") || query.starts_with("length=") => {
            (path, query)
        }
        _ => (rest, ""),
    };
    let (mut offset, mut length) = (0, MAX_WINDOW);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let bad = |_| {
            Error::invalid("what follows `?` in the URI of a resource is no number")
                .with_hint("for example `workspace:src/main.rs?offset=5000`")
        };
        match pair.split_once('=') {
            Some(("offset", number)) => offset = number.parse().map_err(bad)?,
            Some(("length", number)) => length = number.parse().map_err(bad)?,
            _ => {
                return Err(Error::invalid(
                    "the URI of a resource takes `offset` and `length` after `?`",
                ));
            }
        }
    }
    Ok((RelPath::parse(&percent_decode(encoded)?)?, offset, length))
}

/// The files after a path, in the order of a walk, and whether there are more.
pub fn list(
    access: &Access,
    after: Option<&RelPath>,
    limit: usize,
) -> Result<(Vec<Resource>, bool)> {
    let id = access.own_workspace()?;
    // One more than requested shows whether there are more.
    let mut entries = access.walk_files(&id, after, limit.saturating_add(1))?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    let listed = entries.into_iter().map(|entry| Resource {
        mime: mime_by_name(entry.path.name()),
        path: entry.path,
        size: entry.size,
        modified_at: entry.modified_at,
    });
    Ok((listed.collect(), more))
}

/// Reads a part of a file: at most 5000 characters of text, or bytes of anything else.
pub fn read(access: &Access, uri: &str) -> Result<ResourceWindow> {
    let (path, offset, length) = window_of(uri)?;
    let id = access.own_workspace()?;
    let window = access.read_window(&id, &path, offset, length)?;
    let end = window.start + window.read_length;
    let next = (end < window.total).then(|| format!("{}?offset={end}", uri_of(&path)));
    Ok(ResourceWindow { window, next })
}

#[cfg(test)]
mod tests {
    use offshoot_core::ErrorCode;

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
            let (found, offset, length) = window_of(&format!("{uri}?offset=7&length=9")).unwrap();
            assert_eq!((found, offset, length), (path, 7, 9));
        }
        // As a client fills in the template.
        assert_eq!(path_of("workspace:why?").unwrap().as_bytes(), b"why?");
    }

    #[test]
    fn uris_lead_nowhere_else() {
        for (uri, code) in [
            ("file:///etc/passwd", ErrorCode::InvalidRequest),
            ("workspace:%", ErrorCode::InvalidRequest),
            ("workspace:a?offset=-1", ErrorCode::InvalidRequest),
            ("workspace:a?offset=1&at=2", ErrorCode::InvalidRequest),
            ("workspace:../x", ErrorCode::PathTraversalBlocked),
            ("workspace:../x?offset=1", ErrorCode::PathTraversalBlocked),
            ("workspace:%2e%2e/x", ErrorCode::PathTraversalBlocked),
            ("workspace:/etc/passwd", ErrorCode::PathTraversalBlocked),
            ("workspace:///etc/passwd", ErrorCode::PathTraversalBlocked),
        ] {
            assert_eq!(path_of(uri).unwrap_err().code(), code, "{uri}");
        }
    }
}
