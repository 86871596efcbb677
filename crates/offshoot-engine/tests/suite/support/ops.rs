//! Random operations on a workspace: through the engine, and by an outside program on its path.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use offshoot_core::{ErrorCode, RelPath, Result, WorkspaceId};
use offshoot_engine::Engine;
use proptest::prelude::*;

use super::{chmod, user, write};

/// One step. The outside ones do nothing while the path was not handed out.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Write(RelPath, Vec<u8>),
    Mkdir(RelPath),
    Delete(RelPath, bool),
    Move(RelPath, RelPath),
    Outside(OutsideOp),
}

/// What an outside program does. Whatever is in its way, it goes on.
#[derive(Clone, Debug)]
pub(crate) enum OutsideOp {
    Write(RelPath, Vec<u8>),
    Mkdir(RelPath),
    Remove(RelPath),
    Rename(RelPath, RelPath),
    Chmod(RelPath, u32),
    Symlink(RelPath, Vec<u8>),
    /// Whatever stands there becomes something else in its place.
    Swap(RelPath, Swapped),
}

/// What an outside program puts in the place of something else.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Swapped {
    File,
    Dir,
    /// A directory with this name in it: a file, or a directory that holds one.
    Holding(&'static [u8], bool),
    Link,
}

/// Paths of few names, so that operations meet each other.
pub(crate) fn path(names: &'static [&'static [u8]]) -> impl Strategy<Value = RelPath> + Clone {
    let depth = prop_oneof![3 => Just(1_usize), 3 => Just(2), 1 => Just(3)];
    let parts =
        depth.prop_flat_map(move |depth| prop::collection::vec(prop::sample::select(names), depth));
    parts.prop_map(|parts| {
        parts
            .into_iter()
            .fold(RelPath::root(), |path, name| path.join_name(name))
    })
}

/// Contents that repeat now and then, so that states come back.
pub(crate) fn content() -> impl Strategy<Value = Vec<u8>> + Clone {
    prop_oneof![
        1 => Just(Vec::new()),
        6 => prop::sample::select(vec![b"one".to_vec(), b"two".to_vec()]),
        2 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn outside(names: &'static [&'static [u8]], links: bool) -> impl Strategy<Value = OutsideOp> {
    let target = prop::sample::select(vec![
        b"a".to_vec(),
        b"b/a".to_vec(),
        b"../b".to_vec(),
        b"../../outside".to_vec(),
        b"/nowhere-of-offshoot".to_vec(),
        b".".to_vec(),
    ]);
    let perm = prop::sample::select(vec![0o644_u32, 0o755, 0o600, 0o700, 0o444, 0o777]);
    prop_oneof![
        4 => (path(names), content()).prop_map(|(path, bytes)| OutsideOp::Write(path, bytes)),
        2 => path(names).prop_map(OutsideOp::Mkdir),
        2 => path(names).prop_map(OutsideOp::Remove),
        2 => (path(names), path(names)).prop_map(|(from, to)| OutsideOp::Rename(from, to)),
        2 => (path(names), perm).prop_map(|(path, perm)| OutsideOp::Chmod(path, perm)),
        if links { 2 } else { 0 } =>
            (path(names), target).prop_map(|(path, target)| OutsideOp::Symlink(path, target)),
        3 => (path(names), swapped_to(names, links)).prop_map(|(path, new)| OutsideOp::Swap(path, new)),
    ]
}

fn swapped_to(
    names: &'static [&'static [u8]],
    links: bool,
) -> impl Strategy<Value = Swapped> + Clone {
    let holding = (prop::sample::select(names), any::<bool>())
        .prop_map(|(name, deep)| Swapped::Holding(name, deep));
    prop_oneof![
        2 => Just(Swapped::File),
        1 => Just(Swapped::Dir),
        3 => holding,
        if links { 2 } else { 0 } => Just(Swapped::Link),
    ]
}

/// One step of a random kind.
pub(crate) fn op(names: &'static [&'static [u8]], links: bool) -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (path(names), content()).prop_map(|(path, bytes)| Op::Write(path, bytes)),
        2 => path(names).prop_map(Op::Mkdir),
        3 => (path(names), any::<bool>()).prop_map(|(path, all)| Op::Delete(path, all)),
        2 => (path(names), path(names)).prop_map(|(from, to)| Op::Move(from, to)),
        6 => outside(names, links).prop_map(Op::Outside),
    ]
}

/// Does one step through the engine.
pub(crate) fn run(engine: &Engine, ws: &WorkspaceId, op: &Op) -> Result<()> {
    match op {
        Op::Write(path, bytes) => write(engine, ws, path, bytes).map(drop),
        Op::Mkdir(path) => engine.make_dir_in(ws, path, &user()).map(drop),
        Op::Delete(path, all) => engine.delete_file(ws, path, *all, &user()).map(drop),
        Op::Move(from, to) => engine.move_file(ws, from, to, &user()).map(drop),
        Op::Outside(_) => Ok(()),
    }
}

/// Whether an operation may answer this although engine and disk are well.
pub(crate) fn is_an_answer(code: ErrorCode) -> bool {
    [
        ErrorCode::FileNotFound,
        ErrorCode::NotADirectory,
        ErrorCode::IsADirectory,
        ErrorCode::AlreadyExists,
        ErrorCode::InvalidRequest,
        ErrorCode::PathTraversalBlocked,
    ]
    .contains(&code)
}

/// Where a path is on the host; none if a link is on the way, so that no test ever writes outside.
fn host(root: &Path, path: &RelPath) -> Option<PathBuf> {
    let mut at = root.to_owned();
    let parts: Vec<&[u8]> = path.parts().collect();
    for (index, part) in parts.iter().enumerate() {
        at.push(OsStr::from_bytes(part));
        let is_link = fs::symlink_metadata(&at).is_ok_and(|stat| stat.is_symlink());
        if is_link && index + 1 < parts.len() {
            return None;
        }
    }
    Some(at)
}

fn remove(path: &Path) {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|stat| stat.is_dir());
    let _ = if is_dir {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
}

/// Does what an outside program does.
pub(crate) fn run_outside(root: &Path, op: &OutsideOp) {
    let make_parents = |path: &Path| {
        path.parent()
            .is_some_and(|parent| fs::create_dir_all(parent).is_ok())
    };
    match op {
        OutsideOp::Write(path, bytes) => {
            if let Some(at) = host(root, path)
                && make_parents(&at)
                && !at.is_symlink()
                && !at.is_dir()
            {
                let _ = fs::write(at, bytes);
            }
        }
        OutsideOp::Mkdir(path) => {
            if let Some(at) = host(root, path) {
                let _ = fs::create_dir_all(at);
            }
        }
        OutsideOp::Remove(path) => {
            if let Some(at) = host(root, path) {
                remove(&at);
            }
        }
        OutsideOp::Rename(from, to) => {
            if let (Some(from), Some(to)) = (host(root, from), host(root, to))
                && fs::symlink_metadata(&from).is_ok()
                && !to.starts_with(&from)
                && make_parents(&to)
            {
                let _ = fs::rename(from, to);
            }
        }
        OutsideOp::Chmod(path, perm) => {
            if let Some(at) = host(root, path)
                && fs::symlink_metadata(&at).is_ok_and(|stat| !stat.is_symlink())
            {
                chmod(&at, *perm);
            }
        }
        OutsideOp::Symlink(path, target) => {
            if let Some(at) = host(root, path)
                && make_parents(&at)
            {
                remove(&at);
                let _ = std::os::unix::fs::symlink(OsStr::from_bytes(target), at);
            }
        }
        OutsideOp::Swap(path, new) => {
            if let Some(at) = host(root, path)
                && make_parents(&at)
            {
                swap(&at, *new);
            }
        }
    }
}

/// Puts something else in the place of whatever stands there.
pub(crate) fn swap(at: &Path, new: Swapped) {
    remove(at);
    let _ = match new {
        Swapped::File => fs::write(at, "swapped"),
        Swapped::Dir => fs::create_dir(at),
        Swapped::Link => std::os::unix::fs::symlink("elsewhere", at),
        Swapped::Holding(name, false) => {
            fs::create_dir(at).and_then(|()| fs::write(at.join(OsStr::from_bytes(name)), "held"))
        }
        Swapped::Holding(name, true) => {
            let inner = at.join(OsStr::from_bytes(name));
            fs::create_dir_all(&inner).and_then(|()| fs::write(inner.join("deep"), "held"))
        }
    };
}
