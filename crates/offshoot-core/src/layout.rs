//! Layouts: which places of a workspace may be written.

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorCode, RelPath, Result};

/// The directories that a session workspace has from the start.
pub const SESSION_DIRS: [&str; 4] = ["outputs", "skills", "temp", "uploads"];
/// The file that describes a session workspace; neither counted nor snapshotted.
pub const SESSION_METADATA: &str = ".metadata.json";

/// How a workspace is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Everything is writable.
    #[default]
    Plain,
    /// Only `uploads/`, `outputs/` and `temp/` are writable; `skills/` is read-only.
    Session,
}

impl Layout {
    /// The layout as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Layout::Plain => "plain",
            Layout::Session => "session",
        }
    }

    /// Where uploads go.
    pub fn upload_dir(self) -> RelPath {
        RelPath::from_normal(match self {
            Layout::Plain => "upload",
            Layout::Session => "uploads",
        })
    }

    /// Whether snapshots of this layout may hold the path, even if an outside program wrote it.
    pub fn may_hold(self, path: &RelPath, is_dir: bool) -> bool {
        let mut parts = path.parts();
        let is_writable = |top: &[u8]| [&b"uploads"[..], b"outputs", b"temp"].contains(&top);
        self == Layout::Plain
            || parts.next().is_some_and(is_writable) && (is_dir || parts.next().is_some())
    }

    /// Whether ignore rules apply to a path. They do not apply to the uploads and outputs of a
    /// session.
    pub fn applies_ignore_rules(self, path: &RelPath) -> bool {
        let top = path.parts().next().unwrap_or_default();
        self == Layout::Plain || ![&b"uploads"[..], b"outputs"].contains(&top)
    }

    /// Refuses a path that must not be written, created, moved or deleted in this layout.
    pub fn check_writable(self, path: &RelPath) -> Result<()> {
        if self == Layout::Plain {
            return Ok(());
        }
        let mut parts = path.parts();
        let top = parts.next().unwrap_or_default();
        let below_a_writable_dir =
            [&b"uploads"[..], b"outputs", b"temp"].contains(&top) && parts.next().is_some();
        if below_a_writable_dir {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("`{path}` is read-only in a session workspace"),
        )
        .with_hint("write below `outputs/`, `uploads/` or `temp/`"))
    }
}

impl std::str::FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "plain" => Ok(Layout::Plain),
            "session" => Ok(Layout::Session),
            _ => Err(Error::invalid(format!("`{text}` is no layout"))
                .with_hint("use `plain` or `session`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_places() {
        let may = |path: &str| {
            Layout::Session
                .check_writable(&RelPath::parse(path.as_bytes()).unwrap())
                .is_ok()
        };
        assert!(may("uploads/a") && may("outputs/a/b") && may("temp/x"));
        let holds = |path: &str, is_dir| {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            Layout::Session.may_hold(&path, is_dir)
        };
        assert!(holds("uploads", true) && holds("temp/x", false));
        assert!(!holds("uploads", false) && !holds("skills", true) && !holds("a", false));
        for no in [
            "a",
            "skills/x",
            "uploads",
            "outputs",
            ".metadata.json",
            ".",
            "uploadsx/a",
        ] {
            assert!(!may(no), "{no}");
        }
        assert!(
            Layout::Plain
                .check_writable(&RelPath::parse(b"skills/x").unwrap())
                .is_ok()
        );
    }
}
