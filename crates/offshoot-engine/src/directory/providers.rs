//! Which provider makes forks here: found out once by trying, and remembered until the next boot.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{Error, Result};
use offshoot_fs::{CopyUp, Probe, Provider, ProviderName, choose, probe, provider_named};

use crate::context::data_dir::DataDir;
use crate::directory::Directories;

/// What is known about the providers in this process.
#[derive(Default)]
pub(crate) struct Providers {
    working: Mutex<Option<Vec<ProviderName>>>,
}

impl Directories {
    /// Tries each provider on the disk where forks are made, the best first: below `tmp/`, where
    /// what a killed process leaves is nobody's.
    pub fn probe_providers(&self) -> Result<Vec<Probe>> {
        probe(&self.context.data.tmp())
    }

    /// The provider for a new fork: the one that is required, or the best that works.
    pub(crate) fn provider_for_new(
        &self,
        required: Option<ProviderName>,
    ) -> Result<Box<dyn Provider>> {
        let required = required.or(self.context.options.provider);
        let working = self.working_providers()?;
        let wanted = required.or(working.first().copied());
        match wanted.filter(|name| working.contains(name)) {
            Some(name) => provider_named(name, copy_up(&working)),
            // It may work by now; if not, the answer says why.
            None => choose(&self.context.data.tmp(), required).map(|choice| choice.provider),
        }
    }

    /// The provider that made a fork.
    pub(crate) fn provider_that_made(&self, name: ProviderName) -> Result<Box<dyn Provider>> {
        provider_named(name, CopyUp::WholeFile)
    }

    /// Finds out which providers work before much is written: trying one ends with an unmount,
    /// which waits for all that is not on disk yet. Whoever needs one is told what is wrong then.
    pub(crate) fn try_providers_early(&self) {
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
        let names = match self.remembered_providers() {
            Some(names) => names,
            None => {
                let probes = self.probe_providers()?;
                let works = |probe: &Probe| probe.works.then_some(probe.name);
                let names: Vec<_> = probes.iter().filter_map(works).collect();
                let full = |probe: &Probe| probe.why_not.as_ref().is_some_and(Error::is_disk_full);
                if probes.iter().any(full) {
                    // What does not work on a full disk may well do so later.
                    return Ok(names);
                }
                self.remember_providers(&names);
                names
            }
        };
        *known = Some(names.clone());
        Ok(names)
    }

    /// What another process of this user found out since the machine was started.
    fn remembered_providers(&self) -> Option<Vec<ProviderName>> {
        let text = std::fs::read_to_string(self.context.data.cache().join("providers")).ok()?;
        let names = text.strip_prefix(&this_user_and_boot()?)?;
        let names: Option<Vec<_>> = names
            .split_whitespace()
            .map(|name| name.parse().ok())
            .collect();
        names.filter(|names| !names.is_empty())
    }

    fn remember_providers(&self, names: &[ProviderName]) {
        let Some(mut text) = this_user_and_boot() else {
            return;
        };
        for name in names {
            text.push_str(name.as_str());
            text.push('\n');
        }
        // Without it the next process tries again, which costs some milliseconds.
        let place = self.context.data.cache().join("providers");
        let _ = offshoot_sys::write_private(&place, text.as_bytes());
    }
}

/// Tries each provider where a data directory is, or would be, the best first. It is not opened.
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
