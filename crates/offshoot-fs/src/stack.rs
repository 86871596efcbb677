//! Reading a stack of layers as the one tree that an overlay of them shows.
//!
//! Only the directories that are being read are open: a stack of 128 layers and a deep
//! tree would otherwise need more descriptors than a process has.

use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use offshoot_core::{Error, MAX_PATH, RelPath, Result};
use offshoot_sys::{DirReader, FileKind, FollowLinks, OverlayXattrs, Stat, get_xattr, lstat_at};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::errors::is;
use crate::path_resolver::PathResolver;
use crate::provider::failed;
use crate::read_error;

/// The most layers that a fork may stand on. The kernel takes 500, but every lookup of a name that
/// does not exist asks each layer.
pub const MAX_LAYERS: usize = 128;

pub(crate) const OPEN_DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags for a file of unknown kind, which is checked by `fstat` after the open.
const OPEN_FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The file name extension of an *own layer*, whose content belongs to the fork and is not project
/// content: the fork shows it and may change it, and no change below the names at its top is ever
/// reported. It is the newest layer of its stack. The `.git` of a fork comes this way.
pub const OWN_LAYER: &str = "own";

/// The file name extension of a *setup layer*, the lowest of its stack: what a project's setup made.
/// The fork shows it and may change it, but it is not part of what the fork is compared with: what
/// only this layer has counts as absent, so it is never told as gone, and a change of it is told as
/// something that only the fork has.
pub const SETUP_LAYER: &str = "setup";

/// Open layers, the newest first.
#[derive(Debug)]
pub struct LayerStack {
    layers: Vec<OwnedFd>,
    /// The names at the top of the own layer, see [`OWN_LAYER`].
    own: Vec<CString>,
    /// Whether the lowest layer is one of [`SETUP_LAYER`].
    has_setup: bool,
    xattrs: OverlayXattrs,
    resolver: PathResolver,
}

/// One path of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerEntry {
    /// Where, below the root.
    pub path: RelPath,
    /// What stands there.
    pub stat: Stat,
    /// The newest layer that has it.
    layer: usize,
}

/// Layers that may contribute to a directory: those that contribute to the one above it.
pub(crate) type LayerIndexes = Vec<usize>;

impl LayerStack {
    /// Opens frozen directories, the newest first.
    pub fn open(layers: &[PathBuf]) -> Result<LayerStack> {
        LayerStack::open_with(layers, OverlayXattrs::best())
    }

    /// Opens frozen directories whose overlay metadata is in the given attributes.
    pub fn open_with(layers: &[PathBuf], xattrs: OverlayXattrs) -> Result<LayerStack> {
        if layers.is_empty() || layers.len() > MAX_LAYERS {
            return Err(Error::invalid(format!(
                "a fork stands on 1 to {MAX_LAYERS} layers, not on {}",
                layers.len()
            )));
        }
        let open = |path: &PathBuf| {
            rustix::fs::open(path, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty())
                .map_err(|errno| failed("a layer cannot be opened", errno.into()))
        };
        let mut stack = LayerStack {
            layers: layers.iter().map(open).collect::<Result<_>>()?,
            own: Vec::new(),
            has_setup: layers.len() > 1 && has_extension(&layers[layers.len() - 1], SETUP_LAYER),
            xattrs,
            resolver: PathResolver::best(),
        };
        if has_extension(&layers[0], OWN_LAYER) {
            let mut reader = DirReader::default();
            let dir = openat(&stack.layers[0], c".", OPEN_DIR, Mode::empty());
            dir.map_err(io::Error::from)
                .and_then(|dir| reader.for_each(&dir, |name, _| stack.own.push(name.to_owned())))
                .map_err(|error| failed("a layer cannot be read", error))?;
        }
        Ok(stack)
    }

    /// Treats the own layer and the setup layer like any other one: their changes are reported.
    pub(crate) fn including_all(mut self) -> LayerStack {
        self.own.clear();
        self.has_setup = false;
        self
    }

    /// Whether a path is, or is below, a name of the own layer.
    pub(crate) fn is_own(&self, path: &RelPath) -> bool {
        let first = path.parts().next().unwrap_or_default();
        self.own.iter().any(|name| name.to_bytes() == first)
    }

    /// Whether a name at the top is one of the own layer.
    pub(crate) fn is_own_name(&self, name: &CStr) -> bool {
        self.own.iter().any(|own| own.as_c_str() == name)
    }

    /// The open layers, the newest first.
    pub(crate) fn fds(&self) -> &[OwnedFd] {
        &self.layers
    }

    /// Everything that the stack shows, each directory before what is in it, the root left out.
    ///
    /// Costs one call per name of every layer.
    pub fn flatten(&self) -> Flatten<'_> {
        Flatten {
            stack: self,
            pending: vec![(RelPath::root(), self.all())],
            found: VecDeque::new(),
        }
    }

    /// What the stack shows at a path. Costs one call per layer and part of the path.
    pub fn lookup(&self, path: &RelPath) -> Result<Option<LayerEntry>> {
        self.find(path).map_err(|error| read_error(path, error))
    }

    fn find(&self, path: &RelPath) -> io::Result<Option<LayerEntry>> {
        let Some(parent) = path.parent() else {
            let stat = offshoot_sys::fstat(&self.layers[0])?;
            return Ok(Some(LayerEntry {
                path: path.clone(),
                stat,
                layer: 0,
            }));
        };
        let Some(dir) = self.resolve_dir(&parent)? else {
            return Ok(None);
        };
        let found = dir.lookup(&CString::new(path.name())?)?;
        Ok(found.map(|(layer, stat)| LayerEntry {
            path: path.clone(),
            stat,
            layer,
        }))
    }

    /// The root's bits and owner, which the newest layer gives.
    pub(crate) fn root_metadata(&self) -> io::Result<std::fs::Metadata> {
        File::from(self.layers[0].try_clone()?).metadata()
    }

    /// Opens a file that was found.
    pub fn open_file(&self, entry: &LayerEntry) -> Result<File> {
        let path = entry.path.as_bytes();
        let layer = self.layers[entry.layer].as_fd();
        self.resolver
            .open(layer, path, OPEN_FILE, FollowLinks::Never)
            .map(File::from)
            .map_err(|error| read_error(&entry.path, error))
    }

    /// The target of a link that was found.
    pub fn read_link(&self, entry: &LayerEntry) -> Result<Vec<u8>> {
        let parent = entry.path.parent().unwrap_or_default();
        let layer = self.layers[entry.layer].as_fd();
        let read = || {
            let dir = self
                .resolver
                .open(layer, parent.as_bytes(), OPEN_DIR, FollowLinks::Never)?;
            let target = rustix::fs::readlinkat(&dir, entry.path.name(), Vec::new())?;
            io::Result::Ok(target.into_bytes())
        };
        read().map_err(|error| read_error(&entry.path, error))
    }

    pub(crate) fn all(&self) -> LayerIndexes {
        (0..self.layers.len()).collect()
    }

    /// The layers that a fork is compared with: all but the setup layer.
    pub(crate) fn compared(&self) -> LayerIndexes {
        (0..self.layers.len() - usize::from(self.has_setup)).collect()
    }

    pub(crate) fn has_setup(&self) -> bool {
        self.has_setup
    }

    /// Whether the setup layer has a directory at this path.
    pub(crate) fn setup_has_dir(&self, path: &RelPath) -> bool {
        let Some(setup) = self.layers.last().filter(|_| self.has_setup) else {
            return false;
        };
        let opened =
            (self.resolver).open(setup.as_fd(), path.as_bytes(), OPEN_DIR, FollowLinks::Never);
        opened.is_ok()
    }

    /// Whether only the setup layer has an entry that was found.
    pub(crate) fn is_of_setup(&self, entry: &LayerEntry) -> bool {
        self.has_setup && entry.layer + 1 == self.layers.len()
    }

    /// A directory of the stack by its path; none if the stack shows no directory there.
    pub(crate) fn resolve_dir(&self, path: &RelPath) -> io::Result<Option<MergedDir>> {
        let mut dir = self.open_dir(&RelPath::root(), &self.all())?;
        let mut here = RelPath::root();
        for part in path.parts() {
            here = here.join_name(part);
            dir = self.open_dir(&here, &dir.members())?;
            if dir.is_absent() {
                return Ok(None);
            }
        }
        Ok(Some(dir))
    }

    /// A directory that the stack is known to show, made of parts in some of `members`.
    pub(crate) fn known_dir<'a>(
        &'a self,
        path: &'a RelPath,
        members: &[usize],
    ) -> io::Result<KnownDir<'a>> {
        match *members {
            [layer] => Ok(KnownDir::Sole {
                stack: self,
                layer,
                path,
            }),
            _ => self.open_dir(path, members).map(KnownDir::Merged),
        }
    }

    /// A directory of the stack: the parts of it in those of `members` that show through.
    pub(crate) fn open_dir(&self, path: &RelPath, members: &[usize]) -> io::Result<MergedDir> {
        let mut parts = Vec::new();
        for (position, &layer) in members.iter().enumerate() {
            let fd = self.layers[layer].as_fd();
            match self
                .resolver
                .open(fd, path.as_bytes(), OPEN_DIR, FollowLinks::Never)
            {
                Ok(fd) => {
                    // The lowest part has nothing below it to hide.
                    let opaque = position + 1 < members.len()
                        && get_xattr(&fd, self.xattrs.opaque())?.as_deref() == Some(b"y");
                    parts.push(DirPart {
                        layer,
                        fd,
                        marked: OnceCell::new(),
                    });
                    if opaque {
                        break;
                    }
                }
                Err(error) if is(&error, Errno::NOENT) => {}
                // A file, a link or a whiteout: it hides whatever is below.
                Err(error) if is(&error, Errno::NOTDIR) || is(&error, Errno::LOOP) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(MergedDir {
            parts,
            xattrs: self.xattrs,
        })
    }
}

fn has_extension(layer: &std::path::Path, extension: &str) -> bool {
    layer.extension().is_some_and(|end| end == extension)
}

/// A directory of which it is known that the stack shows it.
#[derive(Debug)]
pub(crate) enum KnownDir<'a> {
    /// One layer alone has it. Its names are looked up from the top of the layer, which saves to
    /// open it. Nothing on the way is a link: the layer is frozen, and each directory on the way
    /// was seen in it.
    Sole {
        stack: &'a LayerStack,
        layer: usize,
        path: &'a RelPath,
    },
    /// Several layers may have a part of it.
    Merged(MergedDir),
}

impl KnownDir<'_> {
    pub(crate) fn members(&self) -> LayerIndexes {
        match self {
            KnownDir::Sole { layer, .. } => vec![*layer],
            KnownDir::Merged(dir) => dir.members(),
        }
    }

    /// What stands at one name.
    pub(crate) fn lookup(&self, name: &CStr) -> io::Result<Option<Stat>> {
        let (stack, layer, path) = match self {
            KnownDir::Sole { stack, layer, path } => (stack, *layer, path),
            KnownDir::Merged(dir) => return Ok(dir.lookup(name)?.map(|(_, stat)| stat)),
        };
        let open = || stack.open_dir(path, &[layer])?.lookup(name);
        let below = path.join_name(name.to_bytes());
        if below.as_bytes().len() > MAX_PATH {
            return Ok(open()?.map(|(_, stat)| stat));
        }
        match lstat_at(&stack.layers[layer], &CString::new(below.as_bytes())?) {
            Ok(stat) if stat.is_whiteout() => Ok(None),
            // It may be a whiteout by its attribute.
            Ok(stat) if stat.kind == FileKind::File && stat.size == 0 => {
                Ok(open()?.map(|(_, stat)| stat))
            }
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is(&error, Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// One directory as the stack shows it.
#[derive(Debug)]
pub(crate) struct MergedDir {
    parts: Vec<DirPart>,
    xattrs: OverlayXattrs,
}

#[derive(Debug)]
struct DirPart {
    layer: usize,
    fd: OwnedFd,
    /// Whether empty files in it may be whiteouts; asked when the first one is seen.
    marked: OnceCell<bool>,
}

impl MergedDir {
    /// Whether no layer has this directory.
    pub(crate) fn is_absent(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn members(&self) -> LayerIndexes {
        self.parts.iter().map(|part| part.layer).collect()
    }

    /// What stands at one name, and the layer that has it.
    pub(crate) fn lookup(&self, name: &CStr) -> io::Result<Option<(usize, Stat)>> {
        for part in &self.parts {
            match lstat_at(&part.fd, name) {
                Ok(stat) => {
                    let hidden = part.is_whiteout(name, &stat, self.xattrs)?;
                    return Ok((!hidden).then_some((part.layer, stat)));
                }
                Err(error) if is(&error, Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// All names with what stands there, in order.
    pub(crate) fn list(&self) -> io::Result<BTreeMap<CString, (usize, Stat)>> {
        let mut found: BTreeMap<CString, Option<(usize, Stat)>> = BTreeMap::new();
        let mut reader = DirReader::default();
        for part in &self.parts {
            let mut names = Vec::new();
            let dir = openat(&part.fd, c".", OPEN_DIR, Mode::empty())?;
            reader.for_each(&dir, |name, _| {
                if !found.contains_key(name) {
                    names.push(name.to_owned());
                }
            })?;
            for name in names {
                let stat = lstat_at(&part.fd, &name)?;
                let hidden = part.is_whiteout(&name, &stat, self.xattrs)?;
                found.insert(name, (!hidden).then_some((part.layer, stat)));
            }
        }
        Ok(found
            .into_iter()
            .filter_map(|(name, shown)| Some((name, shown?)))
            .collect())
    }
}

impl DirPart {
    fn is_whiteout(&self, name: &CStr, stat: &Stat, xattrs: OverlayXattrs) -> io::Result<bool> {
        if stat.is_whiteout() {
            return Ok(true);
        }
        if stat.kind != FileKind::File || stat.size > 0 {
            return Ok(false);
        }
        let marked = match self.marked.get() {
            Some(marked) => *marked,
            None => {
                let value = get_xattr(&self.fd, xattrs.opaque())?;
                *self.marked.get_or_init(|| value.as_deref() == Some(b"x"))
            }
        };
        Ok(marked && has_whiteout_xattr(&self.fd, name, xattrs)?)
    }
}

/// Whether an empty file has the attribute of a whiteout.
pub(crate) fn has_whiteout_xattr(
    dir: impl AsFd,
    name: &CStr,
    xattrs: OverlayXattrs,
) -> io::Result<bool> {
    let file = openat(dir, name, OPEN_FILE, Mode::empty())?;
    Ok(get_xattr(&file, xattrs.whiteout())?.is_some())
}

/// See [`LayerStack::flatten`].
#[derive(Debug)]
pub struct Flatten<'a> {
    stack: &'a LayerStack,
    pending: Vec<(RelPath, LayerIndexes)>,
    found: VecDeque<LayerEntry>,
}

impl Iterator for Flatten<'_> {
    type Item = Result<LayerEntry>;

    fn next(&mut self) -> Option<Result<LayerEntry>> {
        while self.found.is_empty() {
            let (path, members) = self.pending.pop()?;
            if let Err(error) = self.read_dir(&path, &members) {
                return Some(Err(read_error(&path, error)));
            }
        }
        self.found.pop_front().map(Ok)
    }
}

impl Flatten<'_> {
    fn read_dir(&mut self, path: &RelPath, members: &[usize]) -> io::Result<()> {
        let dir = self.stack.open_dir(path, members)?;
        let first = self.pending.len();
        for (name, (layer, stat)) in dir.list()? {
            let path = path.join_name(name.to_bytes());
            if stat.is_dir() {
                self.pending.push((path.clone(), dir.members()));
            }
            self.found.push_back(LayerEntry { path, stat, layer });
        }
        self.pending[first..].reverse();
        Ok(())
    }
}
