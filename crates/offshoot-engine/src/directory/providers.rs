//! Which provider makes forks on this machine: probed once, and cached until the next boot.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_fs::{CopyUp, Probe, Provider, ProviderName, choose, probe, provider_named};

use crate::context::data_dir::DataDir;
use crate::directory::Directories;

/// The providers that work, once this process knows them.
#[derive(Default)]
pub(crate) struct Providers {
    working: Mutex<Option<Vec<ProviderName>>>,
}

impl Directories {
    /// Tries each provider on the disk where forks are made, the best first. It does so in `tmp/`, which
    /// is cleaned up after a killed process.
    pub fn probe_providers(&self) -> Result<Vec<Probe>> {
        probe(&self.context.data.tmp())
    }

    /// The provider for a new fork: the one that is required, or the best that works and that every
    /// program sees. A path is handed out with it, and a mount in a namespace shows there alone.
    pub(crate) fn provider_for_new(
        &self,
        required: Option<ProviderName>,
    ) -> Result<Box<dyn Provider>> {
        let required = required.or(self.context.options.provider);
        let working = self.working_providers()?;
        let private = self.context.options.private_mounts;
        let mut seen = working.iter().copied();
        let best = seen.find(|name| !private || *name != ProviderName::Overlay);
        match required.or(best).filter(|name| working.contains(name)) {
            Some(name) => provider_named(name, copy_up(&working)),
            // The provider may work by now; if not, the error says why.
            None => choose(&self.context.data.tmp(), required).map(|choice| choice.provider),
        }
    }

    /// The provider for the directory in which a setup runs: that of new forks, or the best where that
    /// one does not work. The command runs outside of the namespace in which a user's overlays are.
    pub(crate) fn provider_for_setup(&self) -> Result<Box<dyn Provider>> {
        match self.provider_for_new(None) {
            Err(error) if error.code() == ErrorCode::Unsupported => {
                choose(&self.context.data.tmp(), None).map(|choice| choice.provider)
            }
            chosen => chosen,
        }
    }

    /// The provider that made a fork.
    pub(crate) fn provider_that_made(&self, name: ProviderName) -> Result<Box<dyn Provider>> {
        provider_named(name, CopyUp::WholeFile)
    }

    /// Finds out which providers work before much is written, because a probe ends with an unmount that
    /// waits for all unwritten data. An error is ignored here: making a fork reports it.
    pub(crate) fn probe_providers_early(&self) {
        let _ = self.working_providers();
    }

    /// The providers that work here, the best first.
    pub fn working_providers(&self) -> Result<Vec<ProviderName>> {
        let mut known = self
            .providers
            .working
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = &*known {
            return Ok(names.clone());
        }
        let names = match self.cached_providers() {
            Some(names) => names,
            None => {
                let probes = self.probe_providers()?;
                let works = |probe: &Probe| probe.works.then_some(probe.name);
                let names: Vec<_> = probes.iter().filter_map(works).collect();
                let full = |probe: &Probe| probe.why_not.as_ref().is_some_and(Error::is_disk_full);
                if probes.iter().any(full) {
                    // A provider that fails on a full disk may work later.
                    return Ok(names);
                }
                self.cache_providers(&names);
                names
            }
        };
        *known = Some(names.clone());
        Ok(names)
    }

    /// The result of another process of this user since the last boot.
    fn cached_providers(&self) -> Option<Vec<ProviderName>> {
        let text = std::fs::read_to_string(self.cache_place()).ok()?;
        let names = text.strip_prefix(&this_user_and_boot()?)?;
        let names: Option<Vec<_>> = names
            .split_whitespace()
            .map(|name| name.parse().ok())
            .collect();
        names.filter(|names| !names.is_empty())
    }

    fn cache_providers(&self, names: &[ProviderName]) {
        let Some(mut text) = this_user_and_boot() else {
            return;
        };
        for name in names {
            text.push_str(name.as_str());
            text.push('\n');
        }
        // Without the file the next process probes again, which costs some milliseconds.
        let _ = offshoot_sys::write_private(&self.cache_place(), text.as_bytes());
    }

    /// More works in the namespace of an ordinary user than outside.
    fn cache_place(&self) -> std::path::PathBuf {
        let name = match self.context.options.private_mounts {
            true => "providers-in-namespace",
            false => "providers",
        };
        self.context.data.cache().join(name)
    }
}

/// Tries each provider where a data directory is or would be, the best first. This does not open it.
pub fn probe_providers_in(dir: &Path) -> Result<Vec<Probe>> {
    let tmp = DataDir::at(dir).tmp();
    probe(if tmp.is_dir() { &tmp } else { dir })
}

fn this_user_and_boot() -> Option<String> {
    let boot = offshoot_sys::boot_id()?;
    Some(format!(
        "{} {}\n",
        boot.trim(),
        offshoot_sys::effective_user()
    ))
}

fn copy_up(working: &[ProviderName]) -> CopyUp {
    if working.contains(&ProviderName::Reflink) {
        CopyUp::Shared
    } else {
        CopyUp::WholeFile
    }
}
