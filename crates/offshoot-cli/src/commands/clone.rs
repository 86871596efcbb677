//! Repositories of other machines, fetched by the git that is installed here.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
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
        || is_short_address(from)
}

/// Whether this is `HOST:PATH`, as git writes it for ssh: a colon before the first slash, and no
/// file of that name.
fn is_short_address(from: &Path) -> bool {
    let text = from.to_string_lossy();
    let before = text.split('/').next().unwrap_or_default();
    let Some((host, _)) = before.split_once(':') else {
        return false;
    };
    // `https:/a` lacks a slash; nobody's host is called that.
    let is_scheme = |scheme: &str| scheme.strip_suffix("://") == Some(host);
    host != "file" && !SCHEMES.iter().any(|scheme| is_scheme(scheme)) && !from.exists()
}

/// The path of a repository on this machine, which may be given as a `file://` address.
pub(super) fn local_path(from: &Path) -> PathBuf {
    let text = from.to_str().and_then(|text| text.strip_prefix("file://"));
    text.map_or_else(|| from.to_owned(), PathBuf::from)
}

/// The address as it is remembered. One that holds a secret is refused: git has places for them.
pub(super) fn address(from: &Path) -> Result<String> {
    let text = from.to_str().ok_or_else(|| {
        Error::invalid("the address of the repository is no text").with_hint("check the address")
    })?;
    let host = text.split_once("://").map_or("", |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    let has_secret = host
        .rsplit_once('@')
        .is_some_and(|(user, _)| user.contains(':'));
    if has_secret {
        return Err(Error::invalid(
            "the address holds a secret, which would have to be remembered",
        )
        .with_hint("give git the secret by a credential helper, and the address without it"));
    }
    Ok(text.to_owned())
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
    ]);
    if shows {
        git.stderr(Stdio::inherit());
    }
    let (done, said) = run(git, from)?;
    if done {
        return Ok(cloned);
    }
    Err(Error::new(
        ErrorCode::ReadFailed,
        format!("git could not clone `{}`{said}", shown(from)),
    )
    .with_hint("check the address, and that `git clone` of it works here"))
}

/// Fetches a branch into a repository of ours, which is made if need be.
pub(super) fn fetch(place: &Path, address: &str, branch: &str, shows: bool) -> Result<()> {
    let from = Path::new(address);
    if !place.join("HEAD").is_file() {
        let mut git = Command::new("git");
        git.args(["init", "--quiet", "--bare", "--template="])
            .arg(place);
        let (done, said) = run(git, from)?;
        if !done {
            let message = format!("git could not make a repository for what is fetched{said}");
            return Err(Error::new(ErrorCode::WriteFailed, message));
        }
    }
    let mut git = in_repository(place);
    git.args(["fetch", "--no-tags", "--no-write-fetch-head"]);
    git.arg(if shows { "--progress" } else { "--quiet" });
    if shows {
        git.stderr(Stdio::inherit());
    }
    git.args([
        "--",
        address,
        &format!("+refs/heads/{branch}:refs/heads/{branch}"),
    ]);
    let (done, said) = run(git, from)?;
    if done {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::ReadFailed,
        format!("git could not fetch `{branch}` of `{}`{said}", shown(from)),
    )
    .with_hint("check that `git fetch` of it works here; nothing was changed"))
}

/// Pushes a branch of a repository of ours. It moves forward only.
pub(super) fn push(place: &Path, address: &str, branch: &str) -> Result<()> {
    let to = Path::new(address);
    let mut git = in_repository(place);
    git.args(["push", "--quiet", "--", address]);
    git.arg(format!("refs/heads/{branch}:refs/heads/{branch}"));
    let (done, said) = run(git, to)?;
    if done {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::PreconditionFailed,
        format!("git could not push `{branch}` to `{}`{said}", shown(to)),
    )
    .with_hint("if the branch has moved there, pull first: `offshoot pull`, and push again"))
}

fn in_repository(place: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("--git-dir").arg(place);
    git.args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]);
    git
}

/// Runs git. Returns whether it did what it should, and what it said in the end. It asks for a name
/// or a secret only where somebody can type one.
fn run(mut git: Command, address: &Path) -> Result<(bool, String)> {
    // A git that called us, for example from a hook, means another repository.
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_COMMON_DIR",
    ] {
        git.env_remove(name);
    }
    if !std::io::stdin().is_terminal() {
        git.env("GIT_TERMINAL_PROMPT", "0");
    }
    git.stdin(Stdio::null()).stdout(Stdio::null());
    let output = git.output().map_err(|cause| no_git(address, cause))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rfind(|line| !line.trim().is_empty());
    let said = said.map_or_else(String::new, |line| {
        format!(": {}", printable(&without_secret(address, line)))
    });
    Ok((output.status.success(), said))
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
