//! `offshoot doctor` and `offshoot config show`: this machine and its settings.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use offshoot_core::{Error, escape_bytes};
use offshoot_engine::{Probe, ProviderName, probe_providers_in, reserve_in};
#[cfg(target_os = "linux")]
use offshoot_engine::{forbidding_setting, try_user_namespace};

use crate::config::{Setting, Settings};
use crate::config_server::SERVER_SETTINGS;
use crate::output::{Align, Color, CommandResult, Exit, Output, printable, size};
use offshoot_wire as wire;

/// Below this a data directory is called full.
const LITTLE_SPACE: u64 = 256 << 20;

pub(super) fn show_settings(settings: &Settings, output: &mut Output) -> CommandResult {
    let shown = wire::Settings {
        settings: list_settings(settings),
    };
    if output.json() {
        output.document(&shown)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = shown
        .settings
        .iter()
        .map(|setting| {
            vec![
                setting.full_name(),
                printable(setting.value.as_deref().unwrap_or("-")),
                setting.origin.to_owned(),
                setting.variable.to_owned(),
            ]
        })
        .collect();
    output.table(
        &[
            ("SETTING", Align::Left),
            ("VALUE", Align::Left),
            ("FROM", Align::Left),
            ("VARIABLE", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn list_settings(settings: &Settings) -> Vec<wire::Setting> {
    let path = |path: &PathBuf| escape_bytes(path.as_os_str().as_bytes());
    let entry = |name, variable, value: Option<(String, &'static str)>| {
        let (value, origin) = value.unzip();
        wire::Setting {
            name,
            value,
            origin: origin.unwrap_or("default"),
            section: None,
            variable,
        }
    };
    let of_path = |setting: &Setting<PathBuf>| (path(&setting.value), setting.origin.as_str());
    let of_text = |setting: &Setting<String>| (setting.value.clone(), setting.origin.as_str());
    let timeout = &settings.lock_timeout_s;
    let timeout = (timeout.value.to_string(), timeout.origin.as_str());
    let mut listed = vec![
        entry(
            "config",
            "OFFSHOOT_CONFIG",
            settings.config.as_ref().map(of_path),
        ),
        entry("data", "OFFSHOOT_DATA", Some(of_path(&settings.data))),
        entry(
            "database",
            "OFFSHOOT_DATABASE",
            Some(of_text(&settings.database)),
        ),
        entry("blobs", "OFFSHOOT_BLOBS", Some(of_text(&settings.blobs))),
        entry(
            "operator",
            "OFFSHOOT_OPERATOR",
            Some(of_text(&settings.operator)),
        ),
        entry(
            "message",
            "OFFSHOOT_MESSAGE",
            settings.message.as_ref().map(of_text),
        ),
        entry("lock_timeout_s", "OFFSHOOT_LOCK_TIMEOUT_S", Some(timeout)),
        entry(
            "max_file_bytes",
            "OFFSHOOT_MAX_FILE_BYTES",
            Some(of_text(&settings.max_file_bytes)),
        ),
        entry(
            "provider",
            "OFFSHOOT_PROVIDER",
            settings.provider.as_ref().map(of_text),
        ),
        entry("log", "OFFSHOOT_LOG", Some(of_text(&settings.log))),
    ];
    for (known, setting) in SERVER_SETTINGS.iter().zip(&settings.server.values) {
        let value = Some(of_text(setting)).filter(|(value, _)| !value.is_empty());
        let mut shown = entry(known.name, known.variable, value);
        shown.section = Some("server");
        listed.push(shown);
    }
    listed
}

pub(super) fn doctor(settings: &Settings, output: &mut Output) -> CommandResult {
    let data = &settings.data.value;
    let mut checks = vec![data_directory(data)];
    // What does not exist yet will be made on the file system of what does.
    let there = data.ancestors().find(|dir| dir.is_dir());
    if let Some(there) = there {
        checks.push(file_system(there));
        checks.push(free_space(there));
        checks.push(reserve(data));
        checks.push(path_resolution());
    }
    let required = settings.provider()?;
    let providers = match there.map(probe_providers_in) {
        Some(Ok(probes)) => {
            checks.push(large_files(&probes));
            let mut providers = list_providers(&probes, required);
            add_namespace(&mut providers, there.unwrap_or(data), required);
            providers
        }
        // The checks above say what is wrong.
        _ => Vec::new(),
    };
    let can_fork = providers.is_empty() || providers.iter().any(|provider| provider.used);
    let healthy = can_fork && checks.iter().all(|check| check.ok);
    let report = wire::Doctor { checks, providers };
    if output.json() {
        output.document(&report)?;
    } else {
        for check in &report.checks {
            let (word, color) = if check.ok {
                ("ok  ", Color::Green)
            } else {
                ("bad ", Color::Red)
            };
            let word = output.paint(color, word);
            let value = printable(&check.value);
            output.line(format_args!("{word}  {:<15}  {value}", check.name))?;
            if let Some(advice) = &check.advice {
                output.line(format_args!("      {:<15}  {advice}", ""))?;
            }
        }
        show_providers(output, &report.providers, required)?;
    }
    Ok(if healthy { Exit::Done } else { Exit::Failed })
}

fn list_providers(probes: &[Probe], required: Option<ProviderName>) -> Vec<wire::ProviderCheck> {
    let best = probes.iter().find(|probe| probe.works);
    let used = required.or(best.map(|probe| probe.name));
    let why = |error: &Error| match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    let check = |probe: &Probe| wire::ProviderCheck {
        name: probe.name.as_str(),
        works: probe.works,
        used: probe.works && used == Some(probe.name),
        why_not: probe.why_not.as_ref().map(why),
        advice: probe.remedy.map(str::to_owned),
    };
    probes.iter().map(check).collect()
}

/// Says of overlays, which only root may mount where everybody sees it, whether they work for this user
/// in a namespace. That is tried in one that ends with this process.
#[cfg(target_os = "linux")]
fn add_namespace(
    providers: &mut [wire::ProviderCheck],
    dir: &Path,
    required: Option<ProviderName>,
) {
    let name = ProviderName::Overlay;
    let mut checks = providers.iter_mut();
    let Some(overlay) = checks.find(|check| check.name == name.as_str() && !check.works) else {
        return;
    };
    if crate::namespace::is_root() {
        return;
    }
    let inside = try_user_namespace().and_then(|()| probe_providers_in(dir));
    let works = |probes: &Vec<Probe>| probes.iter().any(|probe| probe.name == name && probe.works);
    if inside.as_ref().is_ok_and(works) {
        overlay.works = true;
        overlay.used = required == Some(name);
        overlay.why_not = None;
        overlay.advice = Some(IN_NAMESPACE.to_owned());
        return;
    }
    if let Some((setting, allow)) = forbidding_setting() {
        overlay.why_not = Some(format!(
            "only root may mount here: this system forbids user namespaces ({setting})"
        ));
        overlay.advice = Some(format!("allow them with `{allow}`, or run as root"));
    } else if let Err(error) = inside {
        overlay.why_not = Some(format!("only root may mount here: {error}"));
    }
}

/// How an ordinary user gets forks by overlay, and what is different there.
#[cfg(target_os = "linux")]
const IN_NAMESPACE: &str = "as you are not root, ask for it with `--provider overlay` and work in \
    `offshoot shell WS`, where alone its files show; renaming a directory of the project there \
    answers EXDEV, so programs copy it instead";

#[cfg(not(target_os = "linux"))]
fn add_namespace(_: &mut [wire::ProviderCheck], _: &Path, _: Option<ProviderName>) {}

fn show_providers(
    output: &mut Output,
    providers: &[wire::ProviderCheck],
    required: Option<ProviderName>,
) -> std::io::Result<()> {
    for provider in providers {
        let is_required = required.is_some_and(|name| name.as_str() == provider.name);
        let (word, color) = match (provider.works, is_required) {
            (true, _) => ("ok  ", Color::Green),
            (false, true) => ("bad ", Color::Red),
            (false, false) => ("no  ", Color::Cyan),
        };
        let word = output.paint(color, word);
        let name = format!("fork {}", provider.name);
        let value = match (&provider.why_not, provider.used) {
            (Some(why), _) => printable(why),
            (None, true) => "works; new forks are made by it".to_owned(),
            (None, false) => "works".to_owned(),
        };
        output.line(format_args!("{word}  {name:<15}  {value}"))?;
        if let Some(advice) = &provider.advice {
            output.line(format_args!("      {:<15}  {advice}", ""))?;
        }
    }
    Ok(())
}

/// What the first change to a large file of a fork costs.
fn large_files(probes: &[Probe]) -> wire::Check {
    let shares = probes
        .iter()
        .any(|probe| probe.works && probe.name == ProviderName::Reflink);
    wire::Check {
        name: "large files",
        ok: true,
        value: if shares {
            "the first change to a file of a fork shares its blocks, whatever its size".to_owned()
        } else {
            "the first change to a file of a fork copies the whole file".to_owned()
        },
        advice: (!shares)
            .then(|| "on btrfs, or XFS with `reflink=1`, blocks are shared instead".to_owned()),
    }
}

/// Whether the data directory can be used, found out by writing a file. What does not exist yet is
/// tried where it would be made.
fn data_directory(data: &Path) -> wire::Check {
    let shown = escape_bytes(data.as_os_str().as_bytes());
    let is_there = |path: &&Path| std::fs::symlink_metadata(path).is_ok();
    // A relative name has the empty one above it, which stands for where we are.
    let above = data.ancestors().find(is_there);
    let above = above.unwrap_or_else(|| Path::new("."));
    let (can, cannot) = match above == data {
        true => ("(writable)", "cannot be written"),
        false => (
            "(will be made when it is first needed)",
            "does not exist and cannot be made",
        ),
    };
    let tried = tempfile::tempdir_in(above).and_then(|dir| {
        tempfile::tempfile_in(dir.path())?;
        dir.close()
    });
    wire::Check {
        name: "data directory",
        ok: tried.is_ok(),
        value: match &tried {
            Ok(()) => format!("{shown} {can}"),
            Err(cause) => {
                let above = escape_bytes(above.as_os_str().as_bytes());
                format!("{shown} {cannot}: `{above}`: {}", cause_of(cause))
            }
        },
        advice: tried
            .is_err()
            .then(|| "choose another one with `--data DIR` or `OFFSHOOT_DATA`".to_owned()),
    }
}

/// What the system said, without the name of a file that only the trial had.
fn cause_of(error: &std::io::Error) -> String {
    let inner = error.raw_os_error().map(std::io::Error::from_raw_os_error);
    inner.map_or_else(|| error.kind().to_string(), |inner| inner.to_string())
}

/// The file system as `/proc/self/mountinfo` names it: the mount whose number is the directory's.
fn file_system(dir: &Path) -> wire::Check {
    let named = rustix::fs::stat(dir).ok().and_then(|stat| {
        let (major, minor) = (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        );
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        mount_type(&mounts, &format!("{major}:{minor}"))
    });
    let network = matches!(
        named.as_deref(),
        Some("nfs" | "nfs4" | "cifs" | "smb3" | "9p")
    );
    wire::Check {
        name: "file system",
        ok: !network,
        value: named.unwrap_or_else(|| "unknown".to_owned()),
        advice: network.then(|| "use a local disk: SQLite needs locks that work".to_owned()),
    }
}

/// Fields before ` - ` vary in number; the type follows it.
fn mount_type(mounts: &str, device: &str) -> Option<String> {
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some(device))?;
    let (_, after) = line.split_once(" - ")?;
    after.split(' ').next().map(str::to_owned)
}

fn free_space(dir: &Path) -> wire::Check {
    let name = "free space";
    match rustix::fs::statvfs(dir) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let ok = free >= LITTLE_SPACE;
            wire::Check {
                name,
                ok,
                value: size(i64::try_from(free).unwrap_or(i64::MAX)),
                advice: (!ok).then(|| "make room, or choose another disk with `--data`".to_owned()),
            }
        }
        Err(cause) => wire::Check {
            name,
            ok: false,
            value: format!("unknown: {cause}"),
            advice: None,
        },
    }
}

/// What is set aside on the disk of the data directory, so that `rm`, `clean` and `purge` work when
/// it is full.
fn reserve(data: &Path) -> wire::Check {
    let (wanted, held) = reserve_in(data);
    let shown = |bytes: u64| size(i64::try_from(bytes).unwrap_or(i64::MAX));
    let missing = held.filter(|held| *held < wanted);
    wire::Check {
        name: "reserve",
        ok: missing.is_none(),
        value: match (held, missing) {
            (None, _) => format!("{} will be set aside for a full disk", shown(wanted)),
            (_, None) => format!("{} are set aside for a full disk", shown(wanted)),
            (_, Some(held)) => format!("{} of {} are set aside", shown(held), shown(wanted)),
        },
        advice: missing.map(|_| {
            "the disk is full: `rm`, `clean` and `purge` free space; the rest is set aside with the \
             next write"
                .to_owned()
        }),
    }
}

/// Which form of the safe directory works here, asked of the code that chooses it.
fn path_resolution() -> wire::Check {
    let kernel = offshoot_sys::has_open_beneath();
    wire::Check {
        name: "path resolution",
        ok: true,
        value: if kernel {
            "by the kernel (openat2)".to_owned()
        } else {
            "part by part (no openat2 here); as safe, but slower".to_owned()
        },
        advice: (!kernel).then(|| "Linux 5.6 or newer has openat2".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_mount() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            23 22 0:21 / /proc rw shared:5 master:1 - proc proc rw\n";
        assert_eq!(mount_type(mounts, "8:1").as_deref(), Some("ext4"));
        assert_eq!(mount_type(mounts, "0:21").as_deref(), Some("proc"));
        assert_eq!(mount_type(mounts, "9:9"), None);
    }
}
