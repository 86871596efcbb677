//! Helpers of the checks: layers from a list, forks that clean up, trees as values.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use offshoot_core::RelPath;

use crate::{
    Difference, DifferenceKind, ForkDirs, LayerWriter, OverlayXattrs, Provider, ProviderName,
    remove_layer,
};

/// What a layer is made of.
pub(super) enum LayerItem<'a> {
    File(&'a str, &'a str),
    FileMode(&'a str, &'a str, u32),
    Dir(&'a str, u32),
    Link(&'a str, &'a str),
    Whiteout(&'a str),
    WhiteoutByAttribute(&'a str),
    Opaque(&'a str, u32),
}

/// The provider and directory of one check. A panicking check prints its name.
pub(super) struct Fixture<'a> {
    pub(super) provider: &'a dyn Provider,
    pub(super) dir: &'a Path,
    check: &'static str,
    next: Cell<u32>,
}

impl Drop for Fixture<'_> {
    #[expect(clippy::print_stderr, reason = "only in a test that fails")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("provider `{}`: {}", self.provider.name(), self.check);
        }
    }
}

impl<'a> Fixture<'a> {
    pub(super) fn new(provider: &'a dyn Provider, dir: &'a Path, check: &'static str) -> Self {
        Fixture {
            provider,
            dir,
            check,
            next: Cell::new(0),
        }
    }

    pub(super) fn is(&self, name: ProviderName) -> bool {
        self.provider.name() == name
    }

    pub(super) fn mounts(&self) -> bool {
        self.provider.capabilities().mounts
    }

    pub(super) fn fresh(&self, what: &str) -> PathBuf {
        self.next.set(self.next.get() + 1);
        self.dir.join(format!("{what}{}", self.next.get()))
    }

    pub(super) fn layer(&self, parts: &[LayerItem<'_>]) -> PathBuf {
        let place = self.fresh("layer");
        write_layer(&place, parts);
        place
    }

    /// A fork of layers, the newest first.
    pub(super) fn fork(&self, layers: &[&PathBuf]) -> Fork<'a> {
        let dirs = ForkDirs::new(self.fresh("private"), self.fresh("target"));
        self.fork_at(layers, dirs)
    }

    pub(super) fn fork_at(&self, layers: &[&PathBuf], dirs: ForkDirs) -> Fork<'a> {
        let layers: Vec<PathBuf> = layers.iter().map(|layer| (*layer).clone()).collect();
        let fork = Fork {
            provider: self.provider,
            layers,
            dirs,
        };
        let created = self.provider.create(&fork.layers, &fork.dirs).unwrap();
        assert_eq!(created.provider, self.provider.name());
        // The file systems of the suite have the flag, but only root may set it.
        assert!(created.guarded || !self.provider.capabilities().needs_root);
        fork
    }
}

pub(super) fn write_layer(place: &Path, parts: &[LayerItem<'_>]) {
    let mut layer = LayerWriter::new(place).unwrap();
    for part in parts {
        match part {
            LayerItem::File(path, content) => {
                let size = layer.file(&rel(path), 0o644, &mut content.as_bytes());
                assert_eq!(size.unwrap(), content.len() as u64);
            }
            LayerItem::FileMode(path, content, perm) => {
                layer
                    .file(&rel(path), *perm, &mut content.as_bytes())
                    .unwrap();
            }
            LayerItem::Dir(path, perm) => layer.dir(&rel(path), *perm).unwrap(),
            LayerItem::Link(path, target) => layer.symlink(&rel(path), target.as_bytes()).unwrap(),
            LayerItem::Whiteout(path) => layer.whiteout(&rel(path)).unwrap(),
            LayerItem::WhiteoutByAttribute(path) => {
                layer.whiteout_by_attribute(&rel(path)).unwrap();
            }
            LayerItem::Opaque(path, perm) => layer.opaque_dir(&rel(path), *perm).unwrap(),
        }
    }
    layer.finish().unwrap();
}

pub(super) fn rel(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

/// A fork that is removed when this is dropped, also by a panic.
pub(super) struct Fork<'a> {
    provider: &'a dyn Provider,
    pub(super) layers: Vec<PathBuf>,
    pub(super) dirs: ForkDirs,
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        let cleaned = self.provider.cleanup(&self.dirs);
        assert!(
            cleaned.is_ok() || std::thread::panicking(),
            "a fork could not be removed: {cleaned:?}"
        );
    }
}

impl Fork<'_> {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dirs.target.join(name)
    }

    pub(super) fn read(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub(super) fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(super) fn changes(&self) -> Vec<Difference> {
        self.provider.changes(&self.layers, &self.dirs).unwrap()
    }

    /// The changes as text, one `SIGN path` each; see [`sign`].
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |found: &Difference| format!("{} {}", sign(found), found.path);
        self.changes().iter().map(line).collect()
    }

    pub(super) fn image(&self) -> TreeImage {
        image(&self.dirs.target)
    }

    /// Writes what changed as a new layer, which a stack may have on top of those of the fork.
    pub(super) fn delta(&self, place: &Path) {
        let mut layer = LayerWriter::new(place).unwrap();
        for found in self.changes() {
            for above in found.path.ancestors() {
                let dir = self
                    .dirs
                    .target
                    .join(std::ffi::OsStr::from_bytes(above.as_bytes()));
                layer.dir(&above, mode(&dir)).unwrap();
            }
            let host = std::ffi::OsStr::from_bytes(found.path.as_bytes());
            let host = self.dirs.target.join(host);
            let Some(now) = &found.now else {
                layer.whiteout(&found.path).unwrap();
                continue;
            };
            if now.is_dir() {
                layer.dir(&found.path, now.perm).unwrap();
            } else if let Ok(target) = fs::read_link(&host) {
                let target = target.as_os_str().as_bytes();
                layer.symlink(&found.path, target).unwrap();
            } else {
                let mut file = fs::File::open(&host).unwrap();
                layer.file(&found.path, now.perm, &mut file).unwrap();
            }
        }
        layer.finish().unwrap();
    }
}

/// `+` added, `-` deleted, `t` type, `m` mode of a directory, `?` maybe.
pub(super) fn sign(found: &Difference) -> char {
    match found.kind() {
        DifferenceKind::Added => '+',
        DifferenceKind::Deleted => '-',
        DifferenceKind::Type => 't',
        DifferenceKind::DirMode => 'm',
        DifferenceKind::Maybe => '?',
    }
}

/// What stands at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Dir(u32),
    File(u32, Vec<u8>),
    Link(Vec<u8>),
}

/// The content of a directory as a value.
pub(super) type TreeImage = BTreeMap<RelPath, Node>;

pub(super) fn image(dir: &Path) -> TreeImage {
    let mut image = TreeImage::new();
    read_image(dir, &RelPath::root(), &mut image);
    image
}

fn read_image(dir: &Path, path: &RelPath, image: &mut TreeImage) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let host = entry.path();
        let path = path.join_name(entry.file_name().as_bytes());
        let stat = fs::symlink_metadata(&host).unwrap();
        let perm = stat.permissions().mode() & 0o7777;
        if stat.is_dir() {
            image.insert(path.clone(), Node::Dir(perm));
            read_image(&host, &path, image);
        } else if stat.is_symlink() {
            let target = fs::read_link(&host).unwrap().into_os_string();
            image.insert(path, Node::Link(target.as_bytes().to_vec()));
        } else {
            image.insert(path, Node::File(perm, fs::read(&host).unwrap()));
        }
    }
}

pub(super) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(super) fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = names
        .map(|name| name.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Whether this is root and not just called so in a user namespace.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root() && OverlayXattrs::best() == OverlayXattrs::Trusted
}

pub(super) fn remove(layer: &Path) {
    remove_layer(layer).unwrap();
}
