//! A directory as a value, so that two of them can be compared whole, and scratch space in memory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What stands at one path of a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A directory with these permission bits.
    Dir(u32),
    /// A file with these permission bits and these bytes.
    File(u32, Vec<u8>),
    /// A link with this target.
    Symlink(Vec<u8>),
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Node::Dir(perm) => write!(f, "dir {perm:o}"),
            Node::File(perm, bytes) => {
                let start = &bytes[..bytes.len().min(24)];
                write!(
                    f,
                    "file {perm:o} {}b `{}`",
                    bytes.len(),
                    start.escape_ascii()
                )
            }
            Node::Symlink(target) => write!(f, "link `{}`", target.escape_ascii()),
        }
    }
}

/// A path relative to the directory, as bytes that print readably.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePath(pub Vec<u8>);

impl std::fmt::Debug for NodePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// Everything below a directory, links not followed.
pub type DirImage = BTreeMap<NodePath, Node>;

/// Reads a whole directory. One that does not exist is empty.
///
/// # Panics
/// If something in it cannot be read or is no file, link or directory.
#[must_use]
pub fn dir_image(dir: &Path) -> DirImage {
    let mut image = DirImage::new();
    if dir.exists() {
        read_into(dir, &mut Vec::new(), &mut image);
    }
    image
}

fn read_into(dir: &Path, prefix: &mut Vec<u8>, image: &mut DirImage) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries {
        let entry = entry.expect("a directory can be listed");
        let path = entry.path();
        let length = prefix.len();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        prefix.extend_from_slice(entry.file_name().as_bytes());
        let stat = fs::symlink_metadata(&path).expect("an entry can be looked at");
        let perm = stat.permissions().mode() & 0o7777;
        let key = NodePath(prefix.clone());
        if stat.is_dir() {
            image.insert(key, Node::Dir(perm));
            read_into(&path, prefix, image);
        } else if stat.is_symlink() {
            let target = fs::read_link(&path).expect("a link has a target");
            image.insert(key, Node::Symlink(target.as_os_str().as_bytes().to_vec()));
        } else {
            assert!(stat.is_file(), "{} is special", path.display());
            let bytes = fs::read(&path).expect("a file can be read");
            image.insert(key, Node::File(perm, bytes));
        }
        prefix.truncate(length);
    }
}

/// A temporary directory in memory where the machine has such a place, else on disk: for tests
/// that are about logic and would only wait for syncs.
///
/// # Panics
/// If no directory can be made.
#[must_use]
pub fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory)
        .or_else(|_| tempfile::tempdir())
        .expect("a temporary directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_sees_content_modes_links_and_empty_directories() {
        let dir = scratch();
        let at = |name: &str| dir.path().join(name);
        assert!(dir_image(&at("absent")).is_empty());
        fs::create_dir_all(at("a/empty")).expect("mkdir");
        fs::write(at("a/f"), b"x").expect("write");
        std::os::unix::fs::symlink("f", at("a/l")).expect("link");
        let before = dir_image(dir.path());
        assert_eq!(before.len(), 4);
        assert_eq!(
            before[&NodePath(b"a/l".to_vec())],
            Node::Symlink(b"f".to_vec())
        );
        fs::set_permissions(at("a/f"), fs::Permissions::from_mode(0o600)).expect("chmod");
        assert_ne!(dir_image(dir.path()), before);
    }
}
