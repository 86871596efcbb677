//! `offshoot merge-file`: three versions of one file, like `git merge-file`, and a merge driver.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use offshoot_core::{Error, ErrorCode};
use offshoot_merge::{
    FileMerge, MarkerOptions, MergeFileOptions, Method, Part, PartConflict, PartKind, merge_file,
};
use serde_json::{Value, json};

use crate::output::{CommandResult, Exit, Output};

/// What was typed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MergeFileArgs {
    /// The version that both started from
    base: PathBuf,
    /// Our version
    ours: PathBuf,
    /// Their version
    theirs: PathBuf,
    /// The name that decides how to merge, such as `package.json`; OURS if it is not given
    #[arg(long, value_name = "NAME")]
    path: Option<OsString>,
    /// Write the result here instead of to stdout
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Write conflicts into the result between markers, as git does
    #[arg(long)]
    markers: bool,
}

/// The exit code if it could not merge, which is no conflict. Git takes a merge driver that ends
/// with 128 or less for one that merged, with or without conflicts.
pub(crate) const FAILED: Exit = Exit::Code(255);
/// The exit code if the command line was not understood, as git has it.
pub(crate) const MISUSED: Exit = Exit::Code(129);
/// Conflicts, however many: a script tells them from errors without counting.
const CONFLICT: Exit = Exit::Code(1);

/// Merges. Exit code 0 if clean, 1 if something conflicts.
pub(crate) fn run(args: &MergeFileArgs, output: &mut Output) -> CommandResult {
    let (base, ours, theirs) = (read(&args.base)?, read(&args.ours)?, read(&args.theirs)?);
    let name = args
        .path
        .clone()
        .unwrap_or_else(|| args.ours.clone().into_os_string());
    let options = MergeFileOptions {
        markers: args.markers.then(MarkerOptions::default),
        ..MergeFileOptions::default()
    };
    let merged = merge_file(name.as_bytes(), &base, &ours, &theirs, &options);
    let (bytes, exit) = match &merged {
        FileMerge::Clean { bytes, .. } => (Some(bytes), Exit::Done),
        FileMerge::Conflict { marked, .. } => (marked.as_ref(), CONFLICT),
    };
    if let (Some(bytes), Some(target)) = (bytes, &args.output) {
        write(target, bytes)?;
    }
    if output.json() {
        output.document(&outcome(&merged, bytes, args.output.is_none()))?;
        return Ok(exit);
    }
    if let (Some(bytes), None) = (bytes, &args.output) {
        output.stdout().write_all(bytes)?;
    }
    for part in merged.parts() {
        output.note(format!(
            "conflict: {} ({})",
            place(&part.part),
            kind(part.kind)
        ));
    }
    if !merged.is_clean() && bytes.is_none() {
        output.note("nothing was written; `--markers` writes text with the conflicts marked");
    }
    Ok(exit)
}

fn outcome(merged: &FileMerge, bytes: Option<&Vec<u8>>, with_content: bool) -> Value {
    let method = match merged {
        FileMerge::Conflict { .. } => Value::Null,
        FileMerge::Clean { method, .. } => json!(match method {
            Method::Same => "same",
            Method::Lines => "lines",
            Method::Words => "words",
            Method::Json => "json",
        }),
    };
    let conflicts: Vec<Value> = merged.parts().iter().map(conflict).collect();
    let mut value = json!({ "clean": merged.is_clean(), "method": method, "conflicts": conflicts });
    if let (true, Some(bytes)) = (with_content, bytes) {
        match std::str::from_utf8(bytes) {
            Ok(text) => value["content"] = json!(text),
            Err(_) => value["content"] = json!(offshoot_core::escape_bytes(bytes)),
        }
    }
    value
}

fn conflict(part: &PartConflict) -> Value {
    let range = |range: &Option<std::ops::Range<usize>>| {
        range.as_ref().map(|range| json!([range.start, range.end]))
    };
    json!({
        "part": place(&part.part),
        "kind": kind(part.kind),
        "base": range(&part.base),
        "ours": range(&part.ours),
        "theirs": range(&part.theirs),
    })
}

/// Where a conflict is, as people count.
fn place(part: &Part) -> String {
    match part {
        Part::Whole => "the whole file".to_owned(),
        Part::Lines { ours, .. } if ours.is_empty() => format!("after line {}", ours.start),
        Part::Lines { ours, .. } => format!("lines {} to {}", ours.start + 1, ours.end),
        Part::Json { pointer } if pointer.is_empty() => "the whole document".to_owned(),
        Part::Json { pointer } => pointer.clone(),
    }
}

fn kind(kind: PartKind) -> &'static str {
    match kind {
        PartKind::BothChanged => "both_changed",
        PartKind::BothAdded => "both_added",
        PartKind::RemovedByOurs => "removed_by_ours",
        PartKind::RemovedByTheirs => "removed_by_theirs",
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|cause| {
        Error::new(
            ErrorCode::ReadFailed,
            format!("`{}` could not be read", path.display()),
        )
        .with_source(cause)
    })
}

/// Writes the result whole or not at all: the file of a merge driver is somebody's work.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let failed = |cause: std::io::Error| {
        Error::new(
            ErrorCode::WriteFailed,
            format!("`{}` could not be written; it is as it was", path.display()),
        )
        .with_source(cause)
    };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut temp =
        tempfile::NamedTempFile::new_in(dir.unwrap_or(Path::new("."))).map_err(failed)?;
    temp.write_all(bytes).map_err(failed)?;
    if let Ok(old) = std::fs::metadata(path) {
        temp.as_file()
            .set_permissions(old.permissions())
            .map_err(failed)?;
    }
    temp.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
