//! The `.git` directory that a fork begins with, written without a git binary.
//!
//! It holds the whole history of the base in packs of its own and needs nothing beside it, so it
//! works wherever the directory is shown, a container included. Packs never change: the `.git` of
//! the next snapshot takes those of an earlier one as further names of the same files and adds what
//! is new.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use offshoot_core::{ObjectId, Result};

use crate::export::{add_objects, existing_objects};
use crate::history::reachable_objects_shallow;
use crate::object::ObjectReader;
use crate::pack::write_failed;

/// More packs than this are not taken over: git asks each of them for every object.
const MOST_PACKS: usize = 24;

/// The branch that stands at the base and that the agent leaves alone.
pub const BASE_BRANCH: &str = "main";

/// Writes everything but the index and what belongs to one fork: objects, the branch of the base,
/// and `HEAD` on it. `git` must not exist; `earlier` is such a directory on the same file system.
///
/// Returns the bytes of the pack that was written. Costs what the history has beyond `earlier`, and
/// one pass over the ids in it.
pub fn write_fork_git(
    git: &Path,
    earlier: Option<&Path>,
    reader: &dyn ObjectReader,
    base: ObjectId,
    shallow: &HashSet<ObjectId>,
) -> Result<u64> {
    let packs = git.join("objects/pack");
    for dir in [
        "objects/info",
        "objects/pack",
        "refs/heads",
        "refs/tags",
        "info",
    ] {
        fs::create_dir_all(git.join(dir)).map_err(write_failed)?;
    }
    if let Some(earlier) = earlier {
        take_packs(&earlier.join("objects/pack"), &packs).map_err(write_failed)?;
    }
    let mut seen = existing_objects(git)?;
    let ids = reachable_objects_shallow(reader, &[base], shallow, &mut seen)?;
    let report = add_objects(git, reader, &ids, &mut |_| {})?;
    keep_packs(&packs).map_err(write_failed)?;
    let write = |name: &str, text: String| fs::write(git.join(name), text).map_err(write_failed);
    if !shallow.is_empty() {
        let mut lines: Vec<String> = shallow.iter().map(|id| format!("{id}\n")).collect();
        lines.sort();
        write("shallow", lines.concat())?;
    }
    let header = "# pack-refs with: peeled fully-peeled sorted \n";
    write(
        "packed-refs",
        format!("{header}{base} refs/heads/{BASE_BRANCH}\n"),
    )?;
    write("HEAD", format!("ref: refs/heads/{BASE_BRANCH}\n"))?;
    write("config", fork_config(None))?;
    Ok(report.pack_bytes)
}

/// The git configuration of a fork, with the committer unless the agent sets another.
pub fn fork_config(person: Option<(&str, &str)>) -> String {
    let mut text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
                    \tlogallrefupdates = true\n"
        .to_owned();
    if let Some((name, email)) = person {
        let (name, email) = (quoted(name), quoted(email));
        text.push_str(&format!("[user]\n\tname = {name}\n\temail = {email}\n"));
    }
    text
}

/// A value that git's configuration reads back as it is.
fn quoted(text: &str) -> String {
    let shown = text.chars().filter(|c| !c.is_control());
    let escaped = shown.flat_map(|c| {
        let escape = matches!(c, '"' | '\\').then_some('\\');
        escape.into_iter().chain([c])
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Names the packs of another directory here too.
fn take_packs(from: &Path, to: &Path) -> io::Result<()> {
    let entries: Vec<_> = fs::read_dir(from)?.collect::<io::Result<_>>()?;
    if entries.len() > MOST_PACKS * 3 {
        return Ok(());
    }
    for entry in entries {
        fs::hard_link(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// `git gc` in a fork would write the whole history anew: a pack with `.keep` is left alone.
fn keep_packs(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let keep = path.with_extension("keep");
        if path
            .extension()
            .is_some_and(|extension| extension == "pack")
            && !keep.exists()
        {
            fs::write(keep, "")?;
        }
    }
    Ok(())
}
