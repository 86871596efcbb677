//! Which providers work in a place, found out by making a fork with each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use offshoot_core::{Error, ErrorCode, RelPath, Result};

use super::{CopyProvider, CopyUp, ForkDirs, Provider, ProviderName, ReflinkProvider, failed};
use crate::layer::remove_host_tree;
use crate::{Difference, DifferenceKind, LayerWriter};

/// Whether a provider works in a place.
#[derive(Debug)]
pub struct Probe {
    /// Which one.
    pub name: ProviderName,
    /// Whether a fork could be made, changed and removed.
    pub works: bool,
    /// What went wrong; the cause is for the log.
    pub why_not: Option<Error>,
    /// What would make it work.
    pub remedy: Option<&'static str>,
}

/// The provider to use, and what was found out about all.
pub struct Choice {
    /// The best one that works, or the one that was required.
    pub provider: Box<dyn Provider>,
    /// All of them, the best first.
    pub probes: Vec<Probe>,
}

impl std::fmt::Debug for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Choice")
            .field("provider", &self.provider.name())
            .field("probes", &self.probes)
            .finish()
    }
}

/// Tries each provider in a temporary directory below `dir`, the best first. A process that is
/// killed meanwhile leaves the directory, perhaps with a mount in it, to the next call of this
/// function or of [`sweep_probes`].
///
/// Costs a mount, an unmount and a few files: milliseconds, more on a disk with much to sync.
pub fn probe(dir: &Path) -> Result<Vec<Probe>> {
    let area = ProbeDir::new(dir)?;
    let copy_up = if try_provider(&ReflinkProvider, &area).is_ok() {
        CopyUp::Shared
    } else {
        CopyUp::WholeFile
    };
    Ok(ProviderName::ALL
        .into_iter()
        .map(|name| {
            let tried = provider_named(name, copy_up)
                .and_then(|provider| try_provider(provider.as_ref(), &area));
            let works = tried.is_ok();
            Probe {
                name,
                works,
                why_not: tried.err(),
                remedy: (!works).then(|| remedy(name)),
            }
        })
        .collect())
}

/// The best provider that works below `dir`, or the required one; `unsupported` if it does not
/// work, with what would make it work. Costs as [`probe`].
pub fn choose(dir: &Path, required: Option<ProviderName>) -> Result<Choice> {
    let probes = probe(dir)?;
    let works = |name: ProviderName| probes.iter().any(|probe| probe.name == name && probe.works);
    let name = match required {
        Some(name) => name,
        None => ProviderName::ALL
            .into_iter()
            .find(|name| works(*name))
            .unwrap_or(ProviderName::Copy),
    };
    if !works(name) {
        return Err(unsupported(name, probes));
    }
    let copy_up = if works(ProviderName::Reflink) {
        CopyUp::Shared
    } else {
        CopyUp::WholeFile
    };
    Ok(Choice {
        provider: provider_named(name, copy_up)?,
        probes,
    })
}

fn unsupported(name: ProviderName, probes: Vec<Probe>) -> Error {
    let why = probes.into_iter().find(|probe| probe.name == name);
    let error = Error::new(
        ErrorCode::Unsupported,
        format!("the provider `{name}` does not work here"),
    )
    .with_hint(remedy(name));
    match why.and_then(|probe| probe.why_not) {
        Some(why) => error.with_source(why),
        None => error,
    }
}

fn remedy(name: ProviderName) -> &'static str {
    match name {
        ProviderName::Overlay => {
            "run on Linux 6.5 or later as root, or as a user who may make user namespaces \
             (`offshoot doctor` tells), with the data directory on ext4, XFS or btrfs \
             itself and not on another overlay"
        }
        ProviderName::Reflink => {
            "put the data directory on btrfs, or on XFS made with `reflink=1` as is the default"
        }
        ProviderName::Copy => "check that the data directory can be written and has space",
    }
}

/// A provider by its name, for forks that it made before. Whether it works here is not tried.
pub fn provider_named(name: ProviderName, copy_up: CopyUp) -> Result<Box<dyn Provider>> {
    match name {
        #[cfg(target_os = "linux")]
        ProviderName::Overlay => Ok(Box::new(super::OverlayProvider::new(copy_up))),
        #[cfg(not(target_os = "linux"))]
        ProviderName::Overlay => {
            let _ = copy_up;
            Err(Error::new(
                ErrorCode::Unsupported,
                "overlays exist on Linux only",
            ))
        }
        ProviderName::Reflink => Ok(Box::new(ReflinkProvider)),
        ProviderName::Copy => Ok(Box::new(CopyProvider)),
    }
}

/// The prefix of the directories in which providers are tried.
const PROBE_DIR_PREFIX: &str = ".offshoot-probe-";

/// A directory for one probe, removed when this is dropped. It is locked during the probe; an
/// unlocked one was left by a killed process.
struct ProbeDir {
    path: PathBuf,
    _held: fs::File,
}

impl ProbeDir {
    fn new(dir: &Path) -> Result<ProbeDir> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        sweep_probes(dir);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Another process may probe the same place, and so may another thread.
        let path = dir.join(format!("{PROBE_DIR_PREFIX}{}-{number}", std::process::id()));
        let made = || -> io::Result<ProbeDir> {
            // It must not be taken for a leftover between its creation and its lock.
            let _no_sweep = lock_dir(dir, fs::File::lock_shared)?;
            fs::create_dir(&path)?;
            Ok(ProbeDir {
                _held: lock_dir(&path, fs::File::lock)?,
                path: path.clone(),
            })
        };
        made().map_err(|error| failed("the data directory cannot be written", error))
    }
}

impl Drop for ProbeDir {
    fn drop(&mut self) {
        let _ = remove_host_tree(&self.path);
    }
}

fn lock_dir(dir: &Path, lock: impl Fn(&fs::File) -> io::Result<()>) -> io::Result<fs::File> {
    let dir = fs::File::open(dir)?;
    lock(&dir)?;
    Ok(dir)
}

/// Removes what killed probes left below a directory, mounts included. What cannot be removed now
/// is left to the next call.
pub fn sweep_probes(dir: &Path) {
    let free = |path: &Path| lock_dir(path, |dir| dir.try_lock().map_err(io::Error::from)).ok();
    let leftovers = || -> io::Result<Vec<PathBuf>> {
        let names = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
        let ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.as_encoded_bytes()
                .starts_with(PROBE_DIR_PREFIX.as_bytes())
        };
        names
            .filter(|path| path.as_ref().map_or(true, ours))
            .collect()
    };
    let areas = leftovers().unwrap_or_default();
    if areas.is_empty() {
        return;
    }
    let Some(_no_new_ones) = free(dir) else {
        return;
    };
    for area in areas {
        let Some(_dead) = free(&area) else { continue };
        for name in ProviderName::ALL {
            if let Ok(provider) = provider_named(name, CopyUp::WholeFile) {
                let _ = provider.cleanup(&fork_in(&area, name));
            }
        }
        let _ = remove_host_tree(&area);
    }
}

/// Where the fork of a provider is while it is tried.
fn fork_in(area: &Path, name: ProviderName) -> ForkDirs {
    let at = |what: &str| area.join(format!("{name}-{what}"));
    ForkDirs::new(at("private"), at("target"))
}

/// Makes a small fork, changes it, checks that the changes are found, and removes it.
fn try_provider(provider: &dyn Provider, area: &ProbeDir) -> Result<()> {
    let name = provider.name();
    let layer = area.path.join(format!("{name}-layer"));
    let fork = fork_in(&area.path, name);
    let tried = (|| {
        let kept = RelPath::parse(b"dir/kept")?;
        let gone = RelPath::parse(b"dir/gone")?;
        let mut writer = LayerWriter::new(&layer)?;
        writer.file(&kept, 0o644, &mut &b"base"[..])?;
        writer.file(&gone, 0o644, &mut &b"base"[..])?;
        writer.finish()?;
        let layers = [layer.clone()];
        provider.create(&layers, &fork)?;
        let target = fork.target.join("dir");
        fs::write(target.join("kept"), "fork")
            .and_then(|()| fs::remove_file(target.join("gone")))
            .map_err(|error| failed("a file of a fork cannot be changed", error))?;
        let found = provider.changes(&layers, &fork)?;
        let kinds: Vec<DifferenceKind> = found.iter().map(Difference::kind).collect();
        if kinds != [DifferenceKind::Deleted, DifferenceKind::Maybe] {
            return Err(Error::internal("a fork does not show its changes"));
        }
        Ok(())
    })();
    let cleaned = provider.cleanup(&fork);
    let removed = crate::layer::remove_layer(&layer);
    tried.and(cleaned).and(removed)
}
