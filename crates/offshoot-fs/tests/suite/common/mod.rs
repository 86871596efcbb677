//! What several tests of the safe directory share.
#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "not every test program uses everything"
)]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use offshoot_core::{ErrorCode, ObjectId, RelPath, Result};
use offshoot_fs::{FileKind, PathResolver, STAGE_PREFIX, SafeDir};

/// A workspace beside a secret, as in real life.
pub(crate) struct Fixture {
    pub(crate) dir: SafeDir,
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
    _host: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new(resolver: PathResolver) -> Fixture {
        let host = tempfile::tempdir().unwrap();
        let root = host.path().join("root");
        let outside = host.path().join("outside");
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        let dir = SafeDir::open_with(&root, resolver).unwrap();
        Fixture {
            dir,
            root,
            outside,
            _host: host,
        }
    }

    pub(crate) fn stages(&self) -> usize {
        let names = fs::read_dir(&self.root).unwrap();
        names
            .filter(|name| {
                name.as_ref()
                    .unwrap()
                    .file_name()
                    .as_bytes()
                    .starts_with(STAGE_PREFIX)
            })
            .count()
    }
}

pub(crate) fn rel(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T>) -> ErrorCode {
    answer.unwrap_err().code()
}

pub(crate) fn mkfifo(path: &Path) {
    let made = std::process::Command::new("mkfifo")
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}

/// Any function of the content serves as an id here.
pub(crate) fn id_of(dir: &SafeDir, path: &RelPath) -> ObjectId {
    let content = match dir.stat(path).unwrap().unwrap().kind {
        FileKind::Symlink => dir.read_link(path).unwrap(),
        _ => dir.read(path).unwrap(),
    };
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&hasher.finish().to_le_bytes());
    ObjectId::from_bytes(bytes)
}

/// Runs each test with both resolvers.
macro_rules! suite {
    ($($test:ident)*) => {
        mod kernel { $(#[test] fn $test() { super::$test(offshoot_fs::PathResolver::Kernel); })* }
        mod portable { $(#[test] fn $test() { super::$test(offshoot_fs::PathResolver::Portable); })* }
    };
}
pub(crate) use suite;
