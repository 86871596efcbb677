//! Reading a `.git` directory that nobody vouches for, such as that of an agent's fork.
//!
//! Only `HEAD`, refs, loose objects and packs are read, each through a [`GitFiles`] that opens
//! regular files below the directory and follows no link. Settings, hooks, alternates and grafts
//! mean nothing here. What is read is limited, and every object is hashed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use offshoot_core::{ObjectId, Result};

use crate::export::{BRANCHES, check_ref_name, full_branch_name};
use crate::object::{Kind, ObjectReader, hash};
use crate::pack_read::{Pack, ReadLimits, damaged, read_failed, read_loose_file};

/// The largest `HEAD` or ref.
const MAX_REF: u64 = 4 << 10;
/// The largest file of packed refs.
const MAX_PACKED_REFS: u64 = 4 << 20;
/// How many links from ref to ref are followed.
const MAX_LINKS: usize = 5;
/// The most packs that are opened. git itself puts them together at fifty.
const MAX_PACKS: usize = 64;
/// What is cached of each pack.
const CACHE_BYTES: usize = 2 << 20;

/// The files of a `.git` directory. Paths are below it, with `/` between their parts.
pub trait GitFiles {
    /// Opens a file; none unless a regular file is there. Links are not followed.
    fn open(&self, path: &str) -> Result<Option<File>>;

    /// The names in a directory; none unless one is there.
    fn names(&self, dir: &str) -> Result<Vec<String>>;
}

/// A `.git` directory that nobody vouches for.
pub struct UntrustedRepository<'a> {
    files: &'a dyn GitFiles,
    packs: Vec<Pack>,
    limits: ReadLimits,
}

impl<'a> UntrustedRepository<'a> {
    /// Opens it. Packs of the names for which `skip` says so are left alone. Objects larger than
    /// `object` are refused, and all are once `total` bytes were inflated.
    pub fn open(
        files: &'a dyn GitFiles,
        skip: &dyn Fn(&str) -> bool,
        object: u64,
        total: u64,
    ) -> Result<Self> {
        let limits = ReadLimits {
            object,
            cache: CACHE_BYTES,
            left: Some(Arc::new(AtomicU64::new(total))),
        };
        let mut packs = Vec::new();
        let mut names = files.names("objects/pack")?;
        names.retain(|name| name.ends_with(".idx") && !skip(name));
        names.sort();
        for name in names.iter().take(MAX_PACKS) {
            let place = format!("objects/pack/{name}");
            let pack = format!("{}pack", place.trim_end_matches("idx"));
            // One that cannot be opened has no objects; a commit that needs them is refused.
            if let (Some(index), Some(pack)) = (files.open(&place)?, files.open(&pack)?)
                && let Ok(pack) = Pack::of_files(index, pack, limits.clone())
            {
                packs.push(pack);
            }
        }
        Ok(UntrustedRepository {
            files,
            packs,
            limits,
        })
    }

    /// Whether one of its packs has an object.
    pub fn has_packed(&self, id: &ObjectId) -> Result<bool> {
        for pack in &self.packs {
            if pack.find(id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is checked out; none if that is no commit, or cannot be read.
    pub fn head(&self) -> Result<Option<ObjectId>> {
        self.resolve("HEAD")
    }

    /// The loose branches whose names begin so, and what they point at; at most so many.
    pub fn branches(&self, prefix: &str, limit: usize) -> Result<Vec<ObjectId>> {
        let mut names = self.files.names("refs/heads")?;
        names.retain(|name| name.starts_with(prefix) && full_branch_name(name).is_ok());
        names.sort();
        let mut found = Vec::new();
        for name in names.iter().take(limit) {
            found.extend(self.resolve(&format!("refs/heads/{name}"))?);
        }
        Ok(found)
    }

    /// Its branches and tags by their whole names, and what they point at. It looks at so many names
    /// at most.
    pub fn branches_and_tags(&self, limit: usize) -> Result<BTreeMap<String, ObjectId>> {
        let mut found = BTreeMap::new();
        let is_shown = |name: &str| name.starts_with(BRANCHES) || name.starts_with("refs/tags/");
        let packed = self.text("packed-refs", MAX_PACKED_REFS)?;
        for line in packed.unwrap_or_default().lines() {
            if let Some((id, name)) = line.split_once(' ')
                && is_shown(name)
                && let Ok(id) = id.parse()
                && found.len() < limit
            {
                found.insert(name.to_owned(), id);
            }
        }
        // A loose one is newer than a packed one of its name.
        let mut next = vec!["refs/heads".to_owned(), "refs/tags".to_owned()];
        let mut left = limit;
        while let Some(place) = next.pop() {
            let names = self.files.names(&place)?;
            for name in names.iter().take(left) {
                left -= 1;
                let name = format!("{place}/{name}");
                if check_ref_name(&name).is_err() || name.len() > MAX_REF as usize {
                    continue;
                }
                match self.text(&name, MAX_REF)? {
                    Some(text) => found.extend(text.trim().parse().ok().map(|id| (name, id))),
                    None => next.push(name),
                }
            }
        }
        Ok(found)
    }

    fn resolve(&self, name: &str) -> Result<Option<ObjectId>> {
        let mut name = name.to_owned();
        for _ in 0..MAX_LINKS {
            let Some(text) = self.text(&name, MAX_REF)? else {
                return self.packed_ref(&name);
            };
            match text.trim().strip_prefix("ref:").map(str::trim) {
                Some(target) if full_branch_name(target).is_ok_and(|full| full == target) => {
                    name = target.to_owned();
                }
                Some(_) => return Ok(None),
                None => return Ok(text.trim().parse().ok()),
            }
        }
        Ok(None)
    }

    fn packed_ref(&self, name: &str) -> Result<Option<ObjectId>> {
        let text = self.text("packed-refs", MAX_PACKED_REFS)?;
        Ok(text.unwrap_or_default().lines().find_map(|line| {
            let (id, other) = line.split_once(' ')?;
            (other == name).then(|| id.parse().ok())?
        }))
    }

    /// The text of a small file; what is longer is cut off.
    fn text(&self, path: &str, limit: u64) -> Result<Option<String>> {
        let Some(file) = self.files.open(path)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let read = file.take(limit).read_to_end(&mut bytes);
        read.map_err(read_failed)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn loose(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> {
        let hex = id.to_hex();
        let file = self
            .files
            .open(&format!("objects/{}/{}", &hex[..2], &hex[2..]))?;
        let Some(file) = file else { return Ok(None) };
        let (kind, bytes) = read_loose_file(&file, &self.limits)?;
        Ok(Some((kind, bytes.into())))
    }

    fn read_unchecked(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> {
        if let Some(found) = self.loose(id)? {
            return Ok(Some(found));
        }
        for pack in &self.packs {
            if let Some(offset) = pack.find(id)? {
                return pack.read(offset, &|base| self.loose(base)).map(Some);
            }
        }
        Ok(None)
    }
}

impl ObjectReader for UntrustedRepository<'_> {
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
