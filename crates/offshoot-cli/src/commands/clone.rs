//! Repositories of other machines, fetched by the git that is installed here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use offshoot_core::{Error, ErrorCode, Result};

use crate::output::printable;

/// What the address of a repository on another machine begins with.
const SCHEMES: [&str; 4] = ["https://", "http://", "ssh://", "git://"];

/// A clone that is gone when this is dropped.
pub(super) struct Cloned {
    dir: tempfile::TempDir,
}

impl Cloned {
    /// Where it is.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("repository")
    }
}

/// Whether this is the address of a repository on another machine and no path.
pub(super) fn is_address(from: &Path) -> bool {
    let bytes = from.as_os_str().as_encoded_bytes();
    SCHEMES
        .iter()
        .any(|scheme| bytes.starts_with(scheme.as_bytes()))
}

/// Clones a repository: with all its history and no files, or with its newest files and no history.
/// `shows` lets git tell how far it is.
pub(super) fn clone(from: &Path, files: bool, shows: bool) -> Result<Cloned> {
    let dir = tempfile::tempdir().map_err(|cause| {
        Error::new(ErrorCode::WriteFailed, "no temporary directory can be made").with_source(cause)
    })?;
    let cloned = Cloned { dir };
    let mut git = Command::new("git");
    git.arg("clone").args(match files {
        true => ["--depth=1", "--no-tags"],
        false => ["--bare", "--no-hardlinks"],
    });
    if !shows {
        git.arg("--quiet");
    }
    git.args([
        OsStr::new("--"),
        from.as_os_str(),
        cloned.path().as_os_str(),
    ])
    .stdin(Stdio::null())
    .stdout(Stdio::null());
    if shows {
        git.stderr(Stdio::inherit());
    }
    let output = git.output().map_err(|cause| no_git(from, cause))?;
    if output.status.success() {
        return Ok(cloned);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rfind(|line| !line.trim().is_empty());
    let said = said.map_or_else(String::new, |line| {
        format!(": {}", printable(&without_secret(from, line)))
    });
    Err(Error::new(
        ErrorCode::ReadFailed,
        format!("git could not clone `{}`{said}", shown(from)),
    )
    .with_hint("check the address, and that `git clone` of it works here"))
}

fn no_git(from: &Path, cause: std::io::Error) -> Error {
    match cause.kind() {
        std::io::ErrorKind::NotFound => Error::new(
            ErrorCode::Unsupported,
            format!(
                "git is not installed, and `{}` has to be cloned by it",
                shown(from)
            ),
        )
        .with_hint("install git, or clone the repository elsewhere and give its directory"),
        _ => Error::new(ErrorCode::Internal, "git could not be started").with_source(cause),
    }
}

/// The address without the name and the secret that may stand before the host.
fn shown(from: &Path) -> String {
    let text = printable(&from.to_string_lossy());
    let Some((scheme, rest)) = text.split_once("://") else {
        return text;
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}/{path}")
}

/// What git said, without the secret of the address.
fn without_secret(from: &Path, line: &str) -> String {
    line.replace(&*from.to_string_lossy(), &shown(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_paths_and_shown_without_secrets() {
        assert!(is_address(Path::new("https://example.com/a.git")));
        assert!(!is_address(Path::new("https:/a")) && !is_address(Path::new("/tmp/http")));
        let from = Path::new("http://x:secret@localhost:1/git/p.git");
        assert_eq!(shown(from), "http://localhost:1/git/p.git");
        let said = "fatal: unable to access 'http://x:secret@localhost:1/git/p.git'";
        assert!(!without_secret(from, said).contains("secret"));
    }
}
