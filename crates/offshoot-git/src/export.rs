//! Writing a bare repository that stock git clones, without a git binary.
//!
//! The order keeps the repository whole at every moment: the pack is complete and durable before
//! its index makes it visible, and refs move only after that.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use offshoot_core::{Error, ErrorCode, ObjectId, Result};

use crate::history::reachable_objects_shallow;
use crate::object::ObjectReader;
use crate::pack::{PackSummary, pack_objects, read_index_ids, write_failed, write_pack_index};

/// The config of an exported repository. The last section marks it as an export, which a later
/// export may write to again.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\
                      [offshoot]\n\texport = true\n";

/// How far an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportProgress {
    /// Objects written so far.
    pub done: u64,
    /// Objects to write.
    pub total: u64,
}

/// What an export did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Objects that were not in the repository yet.
    pub objects: u64,
    /// The size of the new pack; 0 when there was nothing new.
    pub pack_bytes: u64,
}

/// Writes the refs and everything they reach into a bare repository at `target`.
///
/// `target` is created, or may be an empty directory, or an earlier export: then only new objects
/// are added, as a second pack, and the refs move; refs that are not given stay as they are.
/// Anything else is refused. `head` is the branch that a clone checks out, such as
/// `refs/heads/main`. Objects are not deltified: `git gc` in the repository makes it smaller.
pub fn export_bare(
    target: &Path,
    reader: &dyn ObjectReader,
    refs: &[(String, ObjectId)],
    head: &str,
    progress: &mut dyn FnMut(ExportProgress),
) -> Result<ExportReport> {
    export_shallow(target, reader, refs, head, &HashSet::new(), progress)
}

/// Like [`export_bare`], for a shallow history: the parents of commits in `shallow` are missing.
/// The repository is then like one of `git clone --depth`.
pub fn export_shallow(
    target: &Path,
    reader: &dyn ObjectReader,
    refs: &[(String, ObjectId)],
    head: &str,
    shallow: &HashSet<ObjectId>,
    progress: &mut dyn FnMut(ExportProgress),
) -> Result<ExportReport> {
    for name in refs.iter().map(|(name, _)| name.as_str()).chain([head]) {
        check_ref_name(name)?;
    }
    let was_there = prepare_target(target)?;
    let exported = fill(target, reader, refs, head, shallow, progress);
    if exported.is_err() {
        clear_target(target, was_there);
    }
    exported
}

/// Takes away what a failed export has made; an earlier export stays as it is. Best effort: what
/// failed is reported, not what could not be tidied up after it.
fn clear_target(target: &Path, was_there: Target) {
    let entries = match was_there {
        Target::Missing => {
            let _ = fs::remove_dir_all(target);
            return;
        }
        Target::Empty => fs::read_dir(target),
        Target::Exported => return,
    };
    for entry in entries.into_iter().flatten().flatten() {
        let _ = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
    }
}

/// Adds what a repository lacks, and moves its refs.
fn fill(
    target: &Path,
    reader: &dyn ObjectReader,
    refs: &[(String, ObjectId)],
    head: &str,
    shallow: &HashSet<ObjectId>,
    progress: &mut dyn FnMut(ExportProgress),
) -> Result<ExportReport> {
    let mut seen = existing_objects(target)?;
    let tips: Vec<ObjectId> = refs.iter().map(|(_, id)| *id).collect();
    let ids = reachable_objects_shallow(reader, &tips, shallow, &mut seen)?;
    drop(seen);
    if !shallow.is_empty() {
        let mut ids: Vec<String> = shallow.iter().map(|id| format!("{id}\n")).collect();
        ids.sort();
        write_ref(target, "shallow", &ids.concat())?;
    }
    let report = add_objects(target, reader, &ids, progress)?;
    for (name, id) in refs {
        write_ref(target, name, &format!("{id}\n"))?;
    }
    write_ref(target, "HEAD", &format!("ref: {head}\n"))?;
    Ok(report)
}

/// Adds objects to a repository as one pack; none if there is nothing to add.
pub(crate) fn add_objects(
    target: &Path,
    reader: &dyn ObjectReader,
    ids: &[ObjectId],
    progress: &mut dyn FnMut(ExportProgress),
) -> Result<ExportReport> {
    let mut report = ExportReport {
        objects: ids.len() as u64,
        pack_bytes: 0,
    };
    if !ids.is_empty() {
        let total = report.objects;
        let mut step = |done| progress(ExportProgress { done, total });
        report.pack_bytes = add_pack(&target.join("objects/pack"), reader, ids, &mut step)?.bytes;
    }
    Ok(report)
}

/// What was at the target of an export.
#[derive(Clone, Copy)]
enum Target {
    Missing,
    Empty,
    Exported,
}

/// Makes sure that `target` is a repository that an export may write to. Returns what was there.
fn prepare_target(target: &Path) -> Result<Target> {
    let was_there = match fs::read_dir(target).map(|mut entries| entries.next()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Target::Missing,
        Ok(None) => Target::Empty,
        Ok(Some(_)) => {
            let config = fs::read_to_string(target.join("config")).unwrap_or_default();
            if !is_our_config(&config) {
                return Err(taken("the target is not empty and not an earlier export"));
            }
            Target::Exported
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(taken("the target exists and is not a directory"));
        }
        Err(error) => return Err(write_failed(error)),
    };
    let made = make_repository(target);
    if made.is_err() {
        clear_target(target, was_there);
    }
    made.map(|()| was_there)
}

fn make_repository(target: &Path) -> Result<()> {
    for dir in ["objects/pack", "objects/info", "refs/heads", "refs/tags"] {
        fs::create_dir_all(target.join(dir)).map_err(write_failed)?;
    }
    if !target.join("config").exists() {
        write_ref(target, "config", CONFIG)?;
    }
    Ok(())
}

/// Whether this is the config of an export. The user may have added settings, but none that change
/// the format of the repository.
fn is_our_config(config: &str) -> bool {
    let has = |line: &str| config.lines().any(|other| other.trim() == line);
    has("[offshoot]") && has("export = true") && has("repositoryformatversion = 0")
}

fn taken(message: &str) -> Error {
    Error::new(ErrorCode::AlreadyExists, message)
        .with_hint("name a new or empty directory, or one that was exported to before")
}

/// The ids of all objects in the packs and loose files of a repository.
pub(crate) fn existing_objects(target: &Path) -> Result<HashSet<ObjectId>> {
    let mut ids = HashSet::new();
    for entry in fs::read_dir(target.join("objects/pack")).map_err(write_failed)? {
        let path = entry.map_err(write_failed)?.path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            let index = fs::read(&path).map_err(write_failed)?;
            ids.extend(read_index_ids(&index)?);
        }
    }
    for first in 0..=255u8 {
        let first = format!("{first:02x}");
        let Ok(entries) = fs::read_dir(target.join("objects").join(&first)) else {
            continue;
        };
        for entry in entries {
            let name = entry.map_err(write_failed)?.file_name();
            // Other names are files that git is still writing.
            ids.extend(
                format!("{first}{}", name.to_string_lossy())
                    .parse::<ObjectId>()
                    .ok(),
            );
        }
    }
    Ok(ids)
}

/// Writes a pack and its index under temporary names, and renames them when they are durable.
fn add_pack(
    dir: &Path,
    reader: &dyn ObjectReader,
    ids: &[ObjectId],
    progress: &mut dyn FnMut(u64),
) -> Result<PackSummary> {
    // git removes what is named `tmp_*` when it cleans up after a crash.
    let unique = format!("{}_{}", std::process::id(), ids[0]);
    let (pack_temp, index_temp) = (
        dir.join(format!("tmp_pack_{unique}")),
        dir.join(format!("tmp_idx_{unique}")),
    );
    let written = write_pack_files(&pack_temp, &index_temp, reader, ids, progress);
    let renamed = written.and_then(|pack| {
        let name = format!("pack-{}", pack.checksum);
        // The index last: a pack without one is invisible.
        fs::rename(&pack_temp, dir.join(format!("{name}.pack"))).map_err(write_failed)?;
        fs::rename(&index_temp, dir.join(format!("{name}.idx"))).map_err(write_failed)?;
        sync_dir(dir)?;
        Ok(pack)
    });
    if renamed.is_err() {
        // Best effort: what failed is reported, not what could not be tidied up after it.
        let _ = fs::remove_file(&pack_temp);
        let _ = fs::remove_file(&index_temp);
    }
    renamed
}

fn write_pack_files(
    pack_temp: &Path,
    index_temp: &Path,
    reader: &dyn ObjectReader,
    ids: &[ObjectId],
    progress: &mut dyn FnMut(u64),
) -> Result<PackSummary> {
    let mut file =
        BufWriter::with_capacity(1 << 20, File::create(pack_temp).map_err(write_failed)?);
    let pack = pack_objects(&mut file, reader, ids, progress)?;
    make_durable(file)?;
    let mut file =
        BufWriter::with_capacity(1 << 20, File::create(index_temp).map_err(write_failed)?);
    write_pack_index(&mut file, &pack)?;
    make_durable(file)?;
    Ok(pack)
}

/// Everything on disk, and read-only as git has it: what a pack holds never changes.
fn make_durable(file: BufWriter<File>) -> Result<()> {
    let file = file
        .into_inner()
        .map_err(|error| write_failed(error.into_error()))?;
    let mut permissions = file.metadata().map_err(write_failed)?.permissions();
    permissions.set_readonly(true);
    file.set_permissions(permissions).map_err(write_failed)?;
    file.sync_all().map_err(write_failed)
}

fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(write_failed)
}

/// Replaces a small file below the repository as git does: a `.lock` beside it, then a rename.
fn write_ref(target: &Path, name: &str, content: &str) -> Result<()> {
    write_ref_if(target, name, content, &|| Ok(()))
}

/// Replaces a small file as [`write_ref`] does, unless `check`, which is called while the lock is
/// held, returns an error.
pub(crate) fn write_ref_if(
    target: &Path,
    name: &str,
    content: &str,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let path = target.join(name);
    let dir = path.parent().unwrap_or(target);
    fs::create_dir_all(dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => taken(&format!(
            "`{name}` cannot be written: a ref stands where its directory would be"
        )),
        _ => write_failed(error),
    })?;
    let lock = target.join(format!("{name}.lock"));
    let file = OpenOptions::new().write(true).create_new(true).open(&lock);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::new(
            ErrorCode::AlreadyExists,
            format!("`{name}` is locked by another program"),
        )
        .with_hint("if no git runs there, remove the `.lock` file beside it"),
        _ => write_failed(error),
    })?;
    if let Err(refused) = check() {
        let _ = fs::remove_file(&lock);
        return Err(refused);
    }
    let written = file
        .write_all(content.as_bytes())
        .and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&lock, &path));
    if renamed.is_err() {
        let _ = fs::remove_file(&lock);
    }
    renamed.map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory | io::ErrorKind::DirectoryNotEmpty => taken(&format!(
            "`{name}` cannot be written: there are refs below it"
        )),
        _ => write_failed(error),
    })?;
    sync_dir(dir)
}

/// What the whole names of branches begin with.
pub const BRANCHES: &str = "refs/heads/";

/// The whole name of a branch, if git would take it.
pub fn full_branch_name(branch: &str) -> Result<String> {
    let name = match branch.starts_with(BRANCHES) {
        true => branch.to_owned(),
        false => format!("{BRANCHES}{branch}"),
    };
    check_ref_name(&name).map(|()| name)
}

/// The name of a branch as people say it: `main` for `refs/heads/main`.
pub fn short_branch_name(name: &str) -> &str {
    name.strip_prefix(BRANCHES).unwrap_or(name)
}

/// git's rules for the names of refs; a name that breaks them could also leave the repository.
pub fn check_ref_name(name: &str) -> Result<()> {
    let bad_part = |part: &str| {
        part.is_empty() || part.starts_with('.') || part.ends_with(".lock") || part.ends_with('.')
    };
    let bad_char = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    let bad = !name.starts_with("refs/")
        || name.split('/').count() < 3
        || name.split('/').any(bad_part)
        || name.contains(bad_char)
        || name.contains("..")
        || name.contains("@{");
    if bad {
        return Err(
            Error::invalid(format!("`{name}` is not the name of a git ref"))
                .with_hint("branches are named like `refs/heads/main`"),
        );
    }
    Ok(())
}
