//! Relative paths as bytes: one parser for CLI, HTTP and MCP, and the escape used in their output.

use std::borrow::Borrow;
use std::fmt;

use crate::{Error, ErrorCode, Result};

/// The longest name of one part, as on every file system that Offshoot runs on.
pub const MAX_NAME: usize = 255;
/// The longest path, as in the kernel's interface (with room for the final NUL).
pub const MAX_PATH: usize = 4095;
/// The most parts that a new path may have. Real trees have some dozens; each level is a tree of
/// its own to read and to write for every change below it.
pub const MAX_DEPTH: usize = 256;

/// A path below the root of a workspace or project, in normal form.
///
/// Names are bytes. There is no leading, double or final `/`, no part `.` or `..`, no NUL. The
/// root itself is the empty path. A value of this type is a *name*, not a promise that nothing
/// on the way is a link to outside: that is kept by the directory it is opened from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelPath(Vec<u8>);

/// Paths are equal, in order and hashed as their bytes are.
impl Borrow<[u8]> for RelPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl RelPath {
    /// The root of the workspace.
    pub const fn root() -> Self {
        RelPath(Vec::new())
    }

    /// Parses bytes by the strict rules for agents and names that come from outside.
    ///
    /// `.`, `./` and `/` at the end are dropped; `a//b` becomes `a/b`. Refused are an empty
    /// path, an absolute one, a part `..`, NUL, and names or paths that no file system takes.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Err(refused(bytes, "it is empty").with_hint("use `.` for the workspace itself"));
        }
        if bytes[0] == b'/' {
            return Err(refused(bytes, "it is absolute")
                .with_hint("paths are relative to the workspace: drop the leading `/`"));
        }
        if bytes.contains(&0) {
            return Err(refused(bytes, "it holds a NUL byte"));
        }
        let mut normal = Vec::with_capacity(bytes.len());
        for part in bytes.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => continue,
                b".." => return Err(refused(bytes, "`..` would leave its directory")),
                _ if part.len() > MAX_NAME => {
                    return Err(Error::invalid(format!(
                        "a name in the path has {} bytes; at most {MAX_NAME} are possible",
                        part.len()
                    )));
                }
                _ => {}
            }
            if !normal.is_empty() {
                normal.push(b'/');
            }
            normal.extend_from_slice(part);
        }
        if normal.len() > MAX_PATH {
            return Err(Error::invalid(format!(
                "the path has {} bytes; at most {MAX_PATH} are possible",
                normal.len()
            )));
        }
        Ok(RelPath(normal))
    }

    /// Parses the escaped text of JSON and the command line (`\xNN` for single bytes).
    pub fn parse_text(text: &str) -> Result<Self> {
        Self::parse(&unescape_bytes(text)?)
    }

    /// Parses a path as tools and older routes take it: as [`RelPath::parse_text`], but a backslash
    /// that does not begin `\xNN` stands between directories as `/` does.
    pub fn parse_loose(bytes: &[u8]) -> Result<Self> {
        Self::parse(&unescape_loose(bytes))
    }

    /// Parses as [`RelPath::parse_loose`] does, and removes an inner `..` together with the part
    /// before it. A `..` that would leave the workspace is refused.
    pub fn parse_loose_with_dotdot(bytes: &[u8]) -> Result<Self> {
        let plain = unescape_loose(bytes);
        if plain.contains(&0) {
            return Self::parse(&plain);
        }
        // A leading `/` stays the first, empty part, so that the path stays absolute.
        let mut kept: Vec<&[u8]> = Vec::new();
        for (number, part) in plain.split(|&byte| byte == b'/').enumerate() {
            match part {
                b"" | b"." if number > 0 => {}
                b".." if kept.iter().any(|part| !part.is_empty() && *part != b".") => {
                    kept.pop();
                }
                _ => kept.push(part),
            }
        }
        match kept.is_empty() && !plain.is_empty() {
            true => Ok(RelPath::root()),
            false => Self::parse(&kept.join(&b'/')),
        }
    }

    /// A path from bytes that are in normal form already, such as those of a store row.
    pub fn from_normal(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        debug_assert!(
            bytes.is_empty()
                || bytes.ends_with(b"/.")
                || RelPath::parse(&bytes).is_ok_and(|path| path.0 == bytes),
            "not in normal form: {}",
            escape_bytes(&bytes)
        );
        RelPath(bytes)
    }

    /// The bytes, `/` between the parts.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the workspace itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The parts from the root down.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty())
    }

    /// How many parts it has; 0 for the root.
    pub fn depth(&self) -> usize {
        self.parts().count()
    }

    /// Refuses what is deeper than a new path may be. Not part of the parser: what was stored
    /// before there was this limit must stay within reach.
    pub fn check_depth(&self) -> Result<()> {
        let depth = self.depth();
        if depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the path has {depth} levels; at most {MAX_DEPTH} are possible"
        ))
        .with_hint("put fewer directories inside each other"))
    }

    /// The last part; empty for the root.
    pub fn name(&self) -> &[u8] {
        self.0
            .rsplit(|&byte| byte == b'/')
            .next()
            .unwrap_or_default()
    }

    /// The directory that holds it; none for the root.
    pub fn parent(&self) -> Option<RelPath> {
        if self.is_root() {
            return None;
        }
        let end = self.0.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        Some(RelPath(self.0[..end].to_vec()))
    }

    /// The directories above it, the root first, the path itself not included.
    pub fn ancestors(&self) -> Vec<RelPath> {
        if self.is_root() {
            return Vec::new();
        }
        let mut above = vec![RelPath::root()];
        let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        above.extend(slashes.map(|(index, _)| RelPath(self.0[..index].to_vec())));
        above
    }

    /// The bytes of the directories above it, the root first: to look them up without a copy.
    pub fn prefixes(&self) -> impl Iterator<Item = &[u8]> {
        let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let below = slashes.map(|(index, _)| &self.0[..index]);
        let root = (!self.is_root()).then_some(&self.0[..0]);
        root.into_iter().chain(below)
    }

    /// The directories above it without the root, the topmost first: those that can be anything but
    /// a directory.
    pub fn dirs_above(&self) -> Vec<RelPath> {
        let mut above = self.ancestors();
        if !above.is_empty() {
            above.remove(0);
        }
        above
    }

    /// The path of one name below this one. The name must be a single valid part.
    #[must_use]
    pub fn join_name(&self, name: &[u8]) -> RelPath {
        debug_assert!(!name.is_empty() && !name.contains(&b'/') && name != b"..");
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        RelPath(bytes)
    }

    /// The name `.` inside this directory. No file can have it, so a sidecar tree uses it to speak
    /// of the directory itself.
    #[must_use]
    pub fn dir_marker(&self) -> RelPath {
        self.join_unchecked(b".")
    }

    /// Whether one of its parts is exactly `name`.
    pub fn has_part(&self, name: &[u8]) -> bool {
        self.parts().any(|part| part == name)
    }

    /// The path of `below` under this one.
    #[must_use]
    pub fn join(&self, below: &RelPath) -> RelPath {
        if below.is_root() {
            self.clone()
        } else {
            self.join_unchecked(&below.0)
        }
    }

    fn join_unchecked(&self, below: &[u8]) -> RelPath {
        let mut bytes = self.0.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(below);
        RelPath(bytes)
    }

    /// Whether it is `dir` or lies somewhere below it.
    pub fn starts_with(&self, dir: &RelPath) -> bool {
        dir.is_root()
            || self.0 == dir.0
            || (self.0.len() > dir.0.len()
                && self.0.starts_with(&dir.0)
                && self.0[dir.0.len()] == b'/')
    }

    /// What remains of it below `dir`; none when it does not lie there.
    pub fn strip_prefix(&self, dir: &RelPath) -> Option<RelPath> {
        if !self.starts_with(dir) {
            return None;
        }
        let skip = if dir.is_root() || self.0.len() == dir.0.len() {
            dir.0.len()
        } else {
            dir.0.len() + 1
        };
        Some(RelPath(self.0[skip..].to_vec()))
    }

    /// Text for JSON and terminals: bytes that are not UTF-8, and the backslash, as `\xNN`.
    pub fn to_text(&self) -> String {
        escape_bytes(&self.0)
    }
}

fn refused(bytes: &[u8], why: &str) -> Error {
    Error::new(
        ErrorCode::PathTraversalBlocked,
        format!("the path `{}` is refused: {why}", escape_bytes(bytes)),
    )
}

/// Decodes `%NN` once, as in a URL.
pub fn percent_decode(text: &str) -> Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            plain.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => plain.push((high * 16 + low) as u8),
            _ => return Err(Error::invalid("the URL holds a `%` without two digits")),
        }
    }
    Ok(plain)
}

/// Writes bytes as text: what is not UTF-8, and the backslash itself, becomes `\xNN`.
pub fn escape_bytes(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' {
                text.push_str("\\x5c");
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The value of `\xNN` at the start of these bytes.
fn escaped_byte(bytes: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = bytes else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(*high)? * 16 + digit(*low)?) as u8)
}

/// The bytes that a path stands for in which a backslash is a byte (`\xNN`) or else a `/`.
fn unescape_loose(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = escaped_byte(&bytes[at..]);
        plain.push(match (escaped, byte) {
            (Some(value), _) => value,
            (None, b'\\') => b'/',
            (None, byte) => byte,
        });
        at += if escaped.is_some() { 4 } else { 1 };
    }
    plain
}

/// The reverse of [`escape_bytes`]. A backslash that does not begin `\xNN` is refused.
pub fn unescape_bytes(text: &str) -> Result<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            plain.push(bytes[at]);
            at += 1;
            continue;
        }
        let Some(value) = escaped_byte(&bytes[at..]) else {
            return Err(
                Error::invalid(format!("the path `{text}` holds a bare backslash"))
                    .with_hint("write the byte as `\\x5c`, or use `/` between directories"),
            );
        };
        plain.push(value);
        at += 4;
    }
    Ok(plain)
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&if self.is_root() {
            ".".to_owned()
        } else {
            self.to_text()
        })
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_form() {
        for (input, normal) in [
            ("a", "a"),
            ("a/b", "a/b"),
            ("./a//b/", "a/b"),
            ("a/./b/.", "a/b"),
            (".", ""),
            ("a..b/..c/d..", "a..b/..c/d.."),
            ("...", "..."),
        ] {
            assert_eq!(
                RelPath::parse(input.as_bytes()).unwrap().as_bytes(),
                normal.as_bytes()
            );
        }
    }

    #[test]
    fn refused_forms() {
        for bad in [
            "",
            "/",
            "/a",
            "..",
            "../a",
            "a/..",
            "a/../b",
            "a\0b",
            "./..",
            "a/b/../../..",
        ] {
            let error = RelPath::parse(bad.as_bytes()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::PathTraversalBlocked, "{bad:?}");
        }
        assert!(RelPath::parse(&[b'a'; 256]).is_err());
        assert!(RelPath::parse(&[b'a'; 255]).is_ok());
    }

    #[test]
    fn depth_is_limited_for_new_paths_only() {
        let deep = |parts: usize| RelPath::parse(vec!["a"; parts].join("/").as_bytes()).unwrap();
        assert_eq!((RelPath::root().depth(), deep(3).depth()), (0, 3));
        assert!(deep(MAX_DEPTH).check_depth().is_ok());
        let error = deep(MAX_DEPTH + 1).check_depth().unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidRequest);
        assert!(error.to_string().contains("at most 256"), "{error}");
    }

    #[test]
    fn escaping_round_trips() {
        for bytes in [
            &b"a\\b"[..],
            b"\xff\xfe/x",
            "caf\u{e9}\u{301}\n\x1b".as_bytes(),
            b"\\x41",
        ] {
            assert_eq!(unescape_bytes(&escape_bytes(bytes)).unwrap(), bytes);
        }
        assert_eq!(escape_bytes(b"\xff\\"), "\\xff\\x5c");
        assert!(unescape_bytes("a\\b").is_err());
        assert!(unescape_bytes("a\\x4").is_err());
    }

    #[test]
    fn relations() {
        let path = RelPath::parse(b"a/b/c").unwrap();
        assert_eq!(path.name(), b"c");
        assert_eq!(path.parent().unwrap().as_bytes(), b"a/b");
        let above: Vec<_> = path.ancestors().iter().map(RelPath::to_text).collect();
        assert_eq!(above, ["", "a", "a/b"]);
        let dir = RelPath::parse(b"a/b").unwrap();
        assert!(path.starts_with(&dir) && path.starts_with(&RelPath::root()));
        assert!(!RelPath::parse(b"a/bc").unwrap().starts_with(&dir));
        assert_eq!(path.strip_prefix(&dir).unwrap().as_bytes(), b"c");
        assert_eq!(dir.strip_prefix(&dir).unwrap(), RelPath::root());
        assert_eq!(path.strip_prefix(&RelPath::root()).unwrap(), path);
    }

    #[test]
    fn loose_paths_read_a_backslash_as_a_slash() {
        for (text, bytes) in [
            (&b"a\\b"[..], Some(&b"a/b"[..])),
            (b"a\\\\b\\", Some(b"a/b")),
            (b"a\\xffb", Some(b"a\xffb")),
            (b"a\\x5cb", Some(b"a\\b")),
            (b"a\\xfgb", Some(b"a/xfgb")),
            (b"a\\x", Some(b"a/x")),
            (b"\xff\\b", Some(b"\xff/b")),
            (b"\\etc", None),
            (b"..\\x", None),
            (b"a\\..\\b", None),
            (b"\\x2e\\x2e/b", None),
            (b"a\\x00", None),
        ] {
            let found = RelPath::parse_loose(text).ok();
            assert_eq!(found.as_ref().map(RelPath::as_bytes), bytes, "{text:?}");
        }
    }

    #[test]
    fn an_inner_step_up_stays_inside() {
        for (text, bytes) in [
            (&b"a/../outputs/x"[..], Some(&b"outputs/x"[..])),
            (b"a\\b\\..\\..\\c", Some(b"c")),
            (b"./a/./..//c/", Some(b"c")),
            (b"a/..", Some(b"")),
            (b"a/\\x2e\\x2e/c", Some(b"c")),
            (b"a..b/...", Some(b"a..b/...")),
            (b"..", None),
            (b"../a", None),
            (b"a/../..", None),
            (b"a/../../b/c", None),
            (b"./../a", None),
            (b"/a/../b", None),
            (b"/..", None),
            (b"\\a\\..\\b", None),
            (b"", None),
            (b"a/../b\x00", None),
            (b"a\x00/../b", None),
        ] {
            let found = RelPath::parse_loose_with_dotdot(text).ok();
            assert_eq!(found.as_ref().map(RelPath::as_bytes), bytes, "{text:?}");
        }
    }
}
