//! Reading an existing git repository: its refs and its objects, loose or packed.
//!
//! A repository can name others: a `.git` file names the real directory, alternates name further
//! object stores. Open only repositories that the caller may read anyway.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_core::{Error, ErrorCode, ObjectId, Result};

use crate::export::full_branch_name;
use crate::history::peel_to_commit;
use crate::object::{Kind, ObjectReader, hash};
use crate::pack_read::{Pack, damaged, read_failed, read_loose};

/// How many links from ref to ref, and from store to store, are followed.
const MAX_LINKS: usize = 5;

/// What is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A branch by its full name; in a new repository it does not exist yet.
    Branch(String),
    /// A commit.
    Detached(ObjectId),
}

/// A local git repository, opened for reading.
///
/// Objects that are packed or added after it was opened may not be seen.
pub struct GitRepository {
    /// Where `HEAD` is.
    git_dir: PathBuf,
    /// Where refs and objects are: another place only for a linked worktree.
    common_dir: PathBuf,
    /// The object directories: its own, then the alternates.
    object_dirs: Vec<PathBuf>,
    packs: Vec<Pack>,
}

impl GitRepository {
    /// Opens a repository: a bare one, a work tree with `.git` in it, or a linked worktree.
    pub fn open(path: &Path) -> Result<Self> {
        let git_dir = find_git_dir(path)?;
        let common_dir = match read_text(&git_dir.join("commondir"))? {
            Some(text) => git_dir.join(text.trim_end()),
            None => git_dir.clone(),
        };
        let config = read_text(&common_dir.join("config"))?.unwrap_or_default();
        check_format(&config)?;
        let mut object_dirs = vec![common_dir.join("objects")];
        add_alternates(&mut object_dirs)?;
        let mut packs = Vec::new();
        for dir in &object_dirs {
            open_packs(&dir.join("pack"), &mut packs)?;
        }
        Ok(GitRepository {
            git_dir,
            common_dir,
            object_dirs,
            packs,
        })
    }

    /// What is checked out.
    pub fn head(&self) -> Result<Head> {
        let text = read_text(&self.git_dir.join("HEAD"))?.unwrap_or_default();
        match text.strip_prefix("ref:") {
            Some(name) => Ok(Head::Branch(name.trim().to_owned())),
            None => match text.trim().parse() {
                Ok(id) => Ok(Head::Detached(id)),
                Err(_) => Err(damaged("`HEAD` cannot be read")),
            },
        }
    }

    /// All refs by their full names, symbolic ones resolved; those that lead nowhere left out.
    pub fn refs(&self) -> Result<BTreeMap<String, ObjectId>> {
        let mut refs = BTreeMap::new();
        let packed = read_text(&self.common_dir.join("packed-refs"))?.unwrap_or_default();
        for line in packed.lines().filter(|line| !line.starts_with(['#', '^'])) {
            if let Some((id, name)) = line.split_once(' ') {
                refs.extend(id.parse().ok().map(|id| (name.to_owned(), id)));
            }
        }
        let loose = self.loose_refs()?;
        let mut links = Vec::new();
        for (name, text) in &loose {
            match text.strip_prefix("ref:") {
                Some(target) => links.push((name, target.trim())),
                None => refs.extend(text.trim().parse().ok().map(|id| (name.clone(), id))),
            }
        }
        for (name, mut target) in links {
            for _ in 0..MAX_LINKS {
                match loose.get(target).and_then(|text| text.strip_prefix("ref:")) {
                    Some(next) => target = next.trim(),
                    None => break,
                }
            }
            let id = refs.get(target).copied();
            refs.extend(id.map(|id| (name.clone(), id)));
        }
        Ok(refs)
    }

    /// The commits of a shallow clone whose parents are not there; empty for a full one.
    pub fn shallow(&self) -> Result<HashSet<ObjectId>> {
        let text = read_text(&self.common_dir.join("shallow"))?.unwrap_or_default();
        Ok(text
            .lines()
            .filter_map(|line| line.trim().parse().ok())
            .collect())
    }

    /// Where refs and objects are.
    pub(crate) fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The commit that a branch points at; none if there is no such branch.
    pub fn branch(&self, name: &str) -> Result<Option<ObjectId>> {
        let name = full_branch_name(name)?;
        match self.refs()?.get(&name) {
            Some(id) => peel_to_commit(self, *id),
            None => Ok(None),
        }
    }

    /// The branches that are checked out in a work tree, or that a rebase there will move, by
    /// their full names.
    pub fn checked_out(&self) -> Result<HashSet<String>> {
        let mut work_trees = Vec::new();
        let config = read_text(&self.common_dir.join("config"))?.unwrap_or_default();
        let is_bare = |line: &str| line.replace(' ', "").trim() == "bare=true";
        if !config.lines().any(is_bare) {
            work_trees.push(self.common_dir.clone());
        }
        match fs::read_dir(self.common_dir.join("worktrees")) {
            Ok(entries) => work_trees.extend(entries.flatten().map(|entry| entry.path())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(read_failed(error)),
        }
        let mut branches = HashSet::new();
        for dir in work_trees {
            let text = read_text(&dir.join("HEAD"))?.unwrap_or_default();
            let name = text.strip_prefix("ref:").map(|name| name.trim().to_owned());
            branches.extend(name);
            for rebase in ["rebase-merge/head-name", "rebase-apply/head-name"] {
                let name = read_text(&dir.join(rebase))?;
                branches.extend(name.map(|name| name.trim().to_owned()));
            }
        }
        Ok(branches)
    }

    /// The content of each file below `refs/`.
    fn loose_refs(&self) -> Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        let mut dirs = vec!["refs".to_owned()];
        while let Some(dir) = dirs.pop() {
            let entries = match fs::read_dir(self.common_dir.join(&dir)) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(read_failed(error)),
            };
            for entry in entries {
                let entry = entry.map_err(read_failed)?;
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                let name = format!("{dir}/{name}");
                let kind = entry.file_type().map_err(read_failed)?;
                if kind.is_dir() {
                    dirs.push(name);
                } else if kind.is_file() && !name.ends_with(".lock") {
                    let text = read_text(&entry.path())?;
                    found.extend(text.map(|text| (name, text)));
                }
            }
        }
        Ok(found)
    }

    fn read_unchecked(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> {
        for pack in &self.packs {
            if let Some(offset) = pack.find(id)? {
                // A base in another pack is not something that git leaves on disk, but a whole
                // loose object may be one.
                return pack.read(offset, &|base| self.read_loose(base)).map(Some);
            }
        }
        self.read_loose(id)
    }

    fn read_loose(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> {
        let hex = id.to_hex();
        for dir in &self.object_dirs {
            if let Some((kind, bytes)) = read_loose(&dir.join(&hex[..2]).join(&hex[2..]))? {
                return Ok(Some((kind, bytes.into())));
            }
        }
        Ok(None)
    }
}

/// Every object is hashed when it is read: what is wrong on disk must not get any further.
impl ObjectReader for GitRepository {
    fn read(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> {
        let Some((kind, bytes)) = self.read_unchecked(id)? else {
            return Ok(None);
        };
        if hash(kind, &bytes)? != *id {
            return Err(damaged(&format!("the object `{id}` has another content")));
        }
        Ok(Some((kind, bytes)))
    }
}

fn read_text(path: &Path) -> Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(read_failed(error)),
        },
    }
}

fn find_git_dir(path: &Path) -> Result<PathBuf> {
    let inner = path.join(".git");
    let named = if inner.is_file() {
        read_text(&inner)?
    } else {
        None
    };
    let linked = named
        .as_deref()
        .and_then(|text| text.strip_prefix("gitdir:"));
    let found = match linked {
        Some(target) => path.join(target.trim()),
        None if inner.is_dir() => inner,
        None => path.to_owned(),
    };
    // A linked worktree has its objects elsewhere.
    let is_store = found.join("objects").is_dir() || found.join("commondir").is_file();
    if is_store && found.join("HEAD").exists() {
        return Ok(found);
    }
    Err(Error::invalid("this is not a git repository")
        .with_hint("name a directory that holds `.git`, or a bare repository"))
}

/// Refuses what is stored in a way that is not known here.
fn check_format(config: &str) -> Result<()> {
    let settings = config.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        Some((
            key.trim().to_ascii_lowercase(),
            value.trim().to_ascii_lowercase(),
        ))
    });
    for (key, value) in settings {
        let unknown = match key.as_str() {
            "repositoryformatversion" => value != "0" && value != "1",
            "objectformat" => value != "sha1",
            "refstorage" => value != "files",
            _ => false,
        };
        if unknown {
            let message = format!("the repository is stored with `{key} = {value}`");
            return Err(Error::new(ErrorCode::Unsupported, message)
                .with_hint("clone it with git into one of the usual format"));
        }
    }
    Ok(())
}

/// Adds the object stores that each store names, and those that these name.
fn add_alternates(dirs: &mut Vec<PathBuf>) -> Result<()> {
    let mut start = 0;
    for _ in 0..MAX_LINKS {
        let end = dirs.len();
        for index in start..end {
            let text = read_text(&dirs[index].join("info/alternates"))?.unwrap_or_default();
            for line in text
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
            {
                let dir = dirs[index].join(line);
                if !dirs.contains(&dir) {
                    dirs.push(dir);
                }
            }
        }
        start = end;
    }
    Ok(())
}

fn open_packs(dir: &Path, packs: &mut Vec<Pack>) -> Result<()> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(read_failed(error)),
    };
    for entry in entries {
        let path = entry.map_err(read_failed)?.path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            packs.push(Pack::open(&path)?);
        }
    }
    Ok(())
}
