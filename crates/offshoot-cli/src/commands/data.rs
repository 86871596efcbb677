//! `offshoot data remove`: the data directory as a whole.

use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStrExt as _;

use offshoot_core::{Error, escape_bytes};
use offshoot_engine::remove_data;

use super::maintenance::confirm;
use crate::config::Settings;
use crate::output::{CommandResult, Exit, Output, count, printable};
use offshoot_wire as wire;

/// Removes the data directory after a confirmation.
pub(super) fn remove(settings: &Settings, yes: bool, output: &mut Output) -> CommandResult {
    let data = &settings.data.value;
    let shown = escape_bytes(data.as_os_str().as_bytes());
    // A program must pass `--yes` here: the directory may be another one than its author thinks.
    if !yes && !io::stdin().is_terminal() {
        return Err(Error::invalid(format!(
            "this removes `{shown}` with every project and workspace in it"
        ))
        .with_hint("nothing was removed; say `--yes` if you mean it")
        .into());
    }
    let what = format!("remove `{shown}` with every project and workspace in it");
    confirm(&what, yes)?;
    let removed = remove_data(data)?;
    if output.json() {
        output.document(&wire::RemovedData::new(data, &removed))?;
        return Ok(Exit::Done);
    }
    let workspaces = count(removed.workspaces as i64, "workspace", "workspaces");
    let mounts = count(removed.mounts as i64, "mount", "mounts");
    output.line(format_args!(
        "removed `{shown}`: directories of {workspaces}, {mounts}"
    ))?;
    for name in &removed.left {
        let name = printable(&escape_bytes(name.as_bytes()));
        output.note(format_args!("left `{name}`, which is not Offshoot's"));
    }
    if removed.left.is_empty() && !removed.gone {
        output.note("the directory itself is empty and stays: it could not be removed");
    }
    Ok(Exit::Done)
}
