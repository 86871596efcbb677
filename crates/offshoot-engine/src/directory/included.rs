//! Files that `.worktreeinclude` names: copied from the working tree of a person into each fork.
//!
//! `.env` files and the like are ignored, so no commit brings them, and still a program does not run
//! without them. The file lies at the top of the person's own working tree and has the syntax of
//! `.gitignore`; one that an agent merges into the project has no effect before the person takes it.
//! What is copied is ignored by the rules of the fork and recorded beside it, so it never becomes part of
//! a snapshot, a merge or the store, also if the agent changes those rules. Nothing outside of the working
//! tree is read: no link is followed.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_fs::{ForkDirs, SafeDir, Sync};
use offshoot_git::{IgnoreRules, ObjectReader};
use offshoot_store::{ForkRow, ProjectRow, WorkspaceKind, WorkspaceRow};
use offshoot_sys::FileKind;

use crate::content::objects::StoredObjects;
use crate::content::rows::fork_row;
use crate::content::state::{State, StateEntry};
use crate::directory::Directories;
use crate::directory::layers::Stack;
use crate::directory::setup_layer::rule_file_of;
use crate::formats::{self, DirectorySource, Link};

/// The file at the top of the working tree.
const INCLUDE_FILE: &[u8] = b".worktreeinclude";
/// The most files that are copied into a fork, and their bytes.
const MOST_FILES: usize = 1_000;
const MOST_BYTES: u64 = 64 << 20;
/// The most names of the working tree that are looked at.
const MOST_NAMES: usize = 200_000;

/// What was copied into a new fork from the person's working tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Included {
    /// The files.
    pub files: Vec<RelPath>,
    /// What was named and not copied, with the reason.
    pub left_out: Vec<(RelPath, String)>,
}

/// The work tree that a project is linked to, if it is one of this machine, or else the directory that
/// the project took files from last.
pub(crate) fn work_tree_of(project: &ProjectRow) -> Result<Option<PathBuf>> {
    let link = project.link.as_ref().map(formats::parse_text::<Link>);
    let tree = match link.transpose()? {
        Some(link) => Some(link.repository),
        None => {
            let source = project.source.as_ref();
            let source = source.map(formats::parse_text::<DirectorySource>);
            source.transpose()?.and_then(|source| source.directory)
        }
    };
    Ok(tree.map(PathBuf::from).filter(|tree| tree.is_absolute()))
}

impl Directories {
    /// The files of a fork that were copied from the person's work tree. No snapshot, merge or archive
    /// takes them, whatever the ignore rules have become: an agent can change those.
    pub(crate) fn included_files(&self, row: &WorkspaceRow, fork: &ForkRow) -> HashSet<RelPath> {
        read_record(&self.fork_dirs(row, fork.place).private)
    }

    /// Like [`included_files`](Self::included_files), of any workspace.
    pub(crate) fn included_of(&self, row: &WorkspaceRow) -> Result<HashSet<RelPath>> {
        if row.kind != WorkspaceKind::Fork {
            return Ok(HashSet::new());
        }
        let fork = self.store().read(|tx| fork_row(tx, row))?;
        Ok(self.included_files(row, &fork))
    }

    /// Lets the record of copied files follow a fork to another private directory. It is there before
    /// the files are.
    pub(crate) fn carry_included(&self, from: &ForkDirs, to: &ForkDirs) -> Result<()> {
        let mut files = read_record(&from.private);
        files.extend(read_record(&to.private));
        write_record(&to.private, files.iter())
    }

    /// Copies the files that `.worktreeinclude` names into the new directory of a fork. What cannot be
    /// copied is named in the answer: a fork without it is better than no fork.
    pub(crate) fn copy_included(&self, stack: &Stack, dirs: &ForkDirs) -> Result<Included> {
        let source = stack.work_tree.as_ref().and_then(|tree| {
            let dir = SafeDir::open(tree).ok()?;
            Some(dir.following_no_links())
        });
        let Some(source) = source else {
            return Ok(Included::default());
        };
        let name = RelPath::root().join_name(INCLUDE_FILE);
        let Some(text) = rule_file_of(&source, &name) else {
            return Ok(Included::default());
        };
        let mut copier = Copier {
            lines: IncludeLines::parse(&text),
            include: IgnoreRules::root().child(&RelPath::root(), Some(&text), None),
            source,
            target: self.open_dir(&dirs.target)?.following_no_links(),
            objects: StoredObjects::new(self.store(), None),
            names_left: MOST_NAMES,
            bytes_left: MOST_BYTES,
            included: Included::default(),
        };
        copier.run(&stack.state)?;
        copier.included.files.sort();
        copier.included.left_out.sort();
        write_record(&dirs.private, copier.included.files.iter())?;
        Ok(copier.included)
    }
}

/// The file beside a fork that names what was copied: paths, each ended by a NUL.
const RECORD: &str = "included";

fn read_record(private: &Path) -> HashSet<RelPath> {
    let text = std::fs::read(private.join(RECORD)).unwrap_or_default();
    let paths = text
        .split(|&byte| byte == 0)
        .filter(|path| !path.is_empty());
    paths.filter_map(|path| RelPath::parse(path).ok()).collect()
}

/// On disk before it counts: a fork whose record a power cut took would merge what it names.
fn write_record<'p>(private: &Path, files: impl Iterator<Item = &'p RelPath>) -> Result<()> {
    let mut text = Vec::new();
    for path in files {
        text.extend_from_slice(path.as_bytes());
        text.push(0);
    }
    if text.is_empty() {
        return Ok(());
    }
    let write = || -> std::io::Result<()> {
        let mut file = offshoot_sys::create_private(&private.join(RECORD))?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::File::open(private)?.sync_all()
    };
    write().map_err(|cause| {
        Error::new(ErrorCode::WriteFailed, "what was copied cannot be noted").with_source(cause)
    })
}

struct Copier<'a> {
    lines: IncludeLines,
    /// What these rules match is copied.
    include: IgnoreRules,
    source: SafeDir,
    target: SafeDir,
    objects: StoredObjects<'a>,
    names_left: usize,
    bytes_left: u64,
    included: Included,
}

/// A directory of the working tree that is to be read.
struct OpenDir {
    path: RelPath,
    /// The rules of the directory above it.
    above: IgnoreRules,
    /// What the fork has there.
    part: State,
}

impl Copier<'_> {
    fn run(&mut self, state: &State) -> Result<()> {
        let mut open = vec![OpenDir {
            path: RelPath::root(),
            above: IgnoreRules::root(),
            part: *state,
        }];
        while let Some(dir) = open.pop() {
            let Ok(mut names) = self.source.names(&dir.path) else {
                self.leave_out(&dir.path, "it cannot be read");
                continue;
            };
            names.sort();
            if names.len() > self.names_left {
                self.leave_out(&dir.path, "the working tree has too many names");
                return Ok(());
            }
            self.names_left -= names.len();
            let tracked = dir.part.list(&self.objects, &dir.path)?;
            let rules = self.rules_in(&dir, &tracked)?;
            for (name, kind) in names {
                let path = dir.path.join_name(&name);
                if offshoot_git::is_dot_git(&name) {
                    continue;
                }
                let known = tracked.get(&name);
                if kind != FileKind::Dir {
                    self.file(&path, kind, &rules, known.is_some())?;
                } else if self.may_hold_some(&path, &rules) {
                    open.push(OpenDir {
                        path,
                        above: rules.clone(),
                        part: known.map(|(_, part)| *part).unwrap_or_default(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The ignore rules of the fork in a directory.
    fn rules_in(
        &self,
        dir: &OpenDir,
        tracked: &BTreeMap<Vec<u8>, (StateEntry, State)>,
    ) -> Result<IgnoreRules> {
        let read = |name: &[u8]| -> Result<Option<Vec<u8>>> {
            let id = tracked.get(name).and_then(|(entry, _)| entry.id);
            let content = id.map(|id| self.objects.read(&id)).transpose()?;
            Ok(content.flatten().map(|(_, bytes)| bytes.to_vec()))
        };
        let (git, own) = (read(b".gitignore")?, read(b".offshootignore")?);
        Ok(dir.above.child(&dir.path, git.as_deref(), own.as_deref()))
    }

    /// Whether a directory is to be read. An ignored one, which may be as large as `node_modules`, only
    /// if it is named itself or on the way to a name.
    fn may_hold_some(&self, path: &RelPath, rules: &IgnoreRules) -> bool {
        self.lines.lead_to(path)
            || self.include.is_ignored(path, true)
            || (self.lines.anywhere && !rules.is_ignored(path, true))
    }

    fn file(
        &mut self,
        path: &RelPath,
        kind: FileKind,
        rules: &IgnoreRules,
        is_tracked: bool,
    ) -> Result<()> {
        // What the project has comes from the project.
        if is_tracked || !self.include.is_ignored(path, false) {
            return Ok(());
        }
        if kind != FileKind::File {
            self.leave_out(path, "it is no regular file");
        } else if !rules.is_ignored(path, false) {
            self.leave_out(path, "the project does not ignore it");
        } else if self.included.files.len() == MOST_FILES {
            self.leave_out(path, "there are too many files");
        } else if let Err(error) = self.copy(path) {
            if error.code() == ErrorCode::QuotaExceeded {
                return Err(error);
            }
            self.leave_out(path, "it cannot be copied");
        }
        Ok(())
    }

    fn copy(&mut self, path: &RelPath) -> Result<()> {
        if self.target.stat(path)?.is_some() {
            return Ok(());
        }
        let (file, stat) = self.source.open_file(path)?;
        if stat.size > self.bytes_left {
            self.leave_out(path, "it is too large");
            return Ok(());
        }
        let mut staged = self.target.stage(stat.perm & 0o777)?;
        // It may grow meanwhile.
        let copied = std::io::copy(&mut file.take(stat.size), &mut staged)
            .map_err(|cause| offshoot_fs::write_error(path, cause))?;
        self.target.commit(staged, path, true, Sync::None)?;
        self.bytes_left -= copied;
        self.included.files.push(path.clone());
        Ok(())
    }

    fn leave_out(&mut self, path: &RelPath, why: &str) {
        if self.included.left_out.len() < MOST_FILES {
            self.included.left_out.push((path.clone(), why.to_owned()));
        }
    }
}

/// Where the lines of `.worktreeinclude` may match, so that not all of the working tree is read.
struct IncludeLines {
    /// Whether a line matches at any depth.
    anywhere: bool,
    /// The parts of the lines that match from the top.
    from_top: Vec<Vec<Vec<u8>>>,
}

impl IncludeLines {
    fn parse(text: &[u8]) -> IncludeLines {
        let mut lines = IncludeLines {
            anywhere: false,
            from_top: Vec::new(),
        };
        for line in text.split(|&byte| byte == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"!") {
                continue;
            }
            let inner = line.strip_suffix(b"/").unwrap_or(line);
            if !inner.contains(&b'/') || inner.starts_with(b"**/") {
                lines.anywhere = true;
                continue;
            }
            let parts = inner.split(|&byte| byte == b'/');
            let parts = parts.filter(|part| !part.is_empty()).map(<[u8]>::to_vec);
            lines.from_top.push(parts.collect());
        }
        lines
    }

    /// Whether a line that matches from the top may match below a directory.
    fn lead_to(&self, dir: &RelPath) -> bool {
        let leads = |line: &Vec<Vec<u8>>| {
            for (at, part) in dir.parts().enumerate() {
                match line.get(at) {
                    None => return false,
                    Some(wanted) if wanted.iter().any(|byte| b"*?[\\".contains(byte)) => {
                        return true;
                    }
                    Some(wanted) if wanted != part => return false,
                    Some(_) => {}
                }
            }
            true
        };
        self.from_top.iter().any(leads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_which_directories_are_read() {
        let lines = IncludeLines::parse(b"# no\n/.env\nconf/secret/*.key\npackages/*/.env\n!x\n");
        assert!(!lines.anywhere);
        let leads = |path: &str| lines.lead_to(&RelPath::parse(path.as_bytes()).unwrap());
        for yes in ["conf", "conf/secret", "packages", "packages/a"] {
            assert!(leads(yes), "{yes}");
        }
        for no in ["src", "conf/other", "node_modules", ".env"] {
            assert!(leads(no) == (no == ".env"), "{no}");
        }
        assert!(IncludeLines::parse(b".env\n").anywhere);
        assert!(IncludeLines::parse(b"secrets/\n").anywhere);
        assert!(IncludeLines::parse(b"**/.env\n").anywhere);
    }
}
