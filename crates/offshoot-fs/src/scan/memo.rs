//! The memo of a scan: what every path looked like and which content it had.
//!
//! A memo is a cache: it is not flushed to disk, and one that is damaged or missing is an empty
//! one, at the cost of hashing everything again. In memory it is the file as it is, so that
//! loading means reading, one checksum and one pass over the bounds.
//!
//! ```text
//! header   magic 8 | tag 8 | scan time 8 | directories 4 | entries 4
//! dirs     path start 4 | path length 4 | first entry 4 | entries 4     sorted by path
//! entries  name start 4 | name length 2 | kind 1 | flags 1 | perm 4 |   sorted by name in each
//!          size 8 | mtime 8 | ctime 8 | inode 8 | content id 20         directory
//! names    bytes of paths and names
//! trailer  checksum 8
//! ```

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::Path;

use offshoot_core::{EntryKind, Error, ErrorCode, ObjectId, RelPath, Result, Timestamp};
use offshoot_sys::Stat;

use super::worker::{FreshEntry, Listing, ListingContent};

/// Changes with every change of the format.
const MAGIC: &[u8; 8] = b"OFFMEMO1";
const HEADER: usize = 32;
const DIR_SIZE: usize = 16;
const ENTRY_SIZE: usize = 64;
const TRAILER: usize = 8;

const FLAG_RACY: u8 = 1;
const FLAG_HAS_ID: u8 = 2;

/// What a scan remembers for the next one.
#[derive(Clone, Debug)]
pub struct Memo {
    /// The file as it is, trailer included.
    bytes: Vec<u8>,
    dirs: usize,
    entries: usize,
}

/// One path of a memo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoEntry {
    /// What it was.
    pub kind: EntryKind,
    /// Its permission bits.
    pub perm: u32,
    /// Its size; 0 for a directory.
    pub size: u64,
    /// Its content; none for a directory.
    pub id: Option<ObjectId>,
    /// Whether it was too young to be trusted.
    pub racy: bool,
}

/// The parts of a `stat` that are equal as long as a path has not changed.
///
/// Of a directory only the permission bits count: its times change with what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    kind: EntryKind,
    perm: u32,
    size: u64,
    mtime_ns: i64,
    ctime_ns: i64,
    ino: u64,
}

impl Fingerprint {
    pub(super) fn of(stat: &Stat, kind: EntryKind) -> Self {
        // Times outside of the years 1678 to 2262 become equal here; those of the far future are
        // racy anyway.
        let clamp = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        match kind {
            EntryKind::Dir => Fingerprint {
                kind,
                perm: stat.perm,
                size: 0,
                mtime_ns: 0,
                ctime_ns: 0,
                ino: 0,
            },
            EntryKind::File | EntryKind::Symlink => Fingerprint {
                kind,
                perm: stat.perm,
                size: stat.size,
                mtime_ns: clamp(stat.mtime_ns),
                ctime_ns: clamp(stat.ctime_ns),
                ino: stat.ino,
            },
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind == EntryKind::Dir
    }
}

/// An entry as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredEntry {
    pub(super) fingerprint: Fingerprint,
    pub(super) racy: bool,
    pub(super) id: Option<ObjectId>,
}

/// One directory of a memo.
pub(super) struct MemoDir<'a> {
    memo: &'a Memo,
    range: Range<usize>,
}

impl<'a> MemoDir<'a> {
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    pub(super) fn name(&self, index: usize) -> &'a [u8] {
        self.memo.entry_name(self.range.start + index)
    }

    pub(super) fn entry(&self, index: usize) -> StoredEntry {
        self.memo.entry(self.range.start + index)
    }
}

impl Default for Memo {
    fn default() -> Self {
        Memo::empty()
    }
}

impl Memo {
    /// A memo that knows nothing.
    pub fn empty() -> Memo {
        Builder::default().finish(0, 0)
    }

    /// Reads a memo. One that is missing, damaged or of another version is empty.
    pub fn load(path: &Path) -> Memo {
        let loaded = std::fs::read(path).ok().and_then(Memo::from_bytes);
        loaded.unwrap_or_default()
    }

    /// Writes the memo beside its place and renames it. It is not flushed to disk: a torn file
    /// is found by its checksum.
    pub fn save(&self, path: &Path) -> Result<()> {
        let write = || -> io::Result<()> {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}.new", std::process::id()));
            let new = path.with_file_name(name);
            let written = offshoot_sys::write_private(&new, &self.bytes)
                .and_then(|()| std::fs::rename(&new, path));
            if written.is_err() {
                let _ = std::fs::remove_file(&new);
            }
            written
        };
        write().map_err(|error| {
            Error::new(
                ErrorCode::WriteFailed,
                "the memo of a scan could not be written",
            )
            .with_hint("check that the data directory can be written and has space")
            .with_source(error)
        })
    }

    /// What the caller attached to it.
    pub fn tag(&self) -> u64 {
        u64_at(&self.bytes, 8)
    }

    /// When its scan began.
    pub fn scanned_at(&self) -> Timestamp {
        Timestamp(u64_at(&self.bytes, 16) as i64 / 1_000)
    }

    /// How many paths it knows.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// How many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it knows no path.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// What it knows about a path.
    pub fn get(&self, path: &RelPath) -> Option<MemoEntry> {
        let dir = self.dir(self.find_dir(&path.parent()?)?);
        let (mut low, mut high) = (0, dir.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match dir.name(middle).cmp(path.name()) {
                std::cmp::Ordering::Equal => return Some(dir.entry(middle).memo_entry()),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Every path that it knows, directory by directory.
    pub fn iter(&self) -> impl Iterator<Item = (RelPath, MemoEntry)> {
        (0..self.dirs).flat_map(move |index| {
            let path = self.dir_rel_path(index);
            let dir = self.dir(index);
            (0..dir.len()).map(move |entry| {
                (
                    path.join_name(dir.name(entry)),
                    dir.entry(entry).memo_entry(),
                )
            })
        })
    }

    pub(super) fn find_dir(&self, path: &RelPath) -> Option<usize> {
        let index = self.first_dir_from(path.as_bytes());
        (index < self.dirs && self.dir_path(index) == path.as_bytes()).then_some(index)
    }

    pub(super) fn dir(&self, index: usize) -> MemoDir<'_> {
        MemoDir {
            memo: self,
            range: self.dir_entries(index),
        }
    }

    /// Shows every path below a directory, without the directory itself.
    pub(super) fn for_each_below(&self, dir: &RelPath, mut each: impl FnMut(RelPath)) {
        if let Some(index) = self.find_dir(dir) {
            self.for_each_in(index, &mut each);
        }
        // `a-b` sorts between `a` and `a/b`: what is below `a` begins only with `a/`.
        let below = [dir.as_bytes(), b"/"].concat();
        let first = self.first_dir_from(&below);
        for index in (first..self.dirs).take_while(|&i| self.dir_path(i).starts_with(&below)) {
            self.for_each_in(index, &mut each);
        }
    }

    fn for_each_in(&self, index: usize, each: &mut impl FnMut(RelPath)) {
        let path = self.dir_rel_path(index);
        for entry in self.dir_entries(index) {
            each(path.join_name(self.entry_name(entry)));
        }
    }

    fn first_dir_from(&self, path: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.dirs);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.dir_path(middle) < path {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn dir_path(&self, index: usize) -> &[u8] {
        let at = HEADER + index * DIR_SIZE;
        self.text(u32_at(&self.bytes, at), u32_at(&self.bytes, at + 4))
    }

    fn dir_rel_path(&self, index: usize) -> RelPath {
        RelPath::from_normal(self.dir_path(index))
    }

    fn dir_entries(&self, index: usize) -> Range<usize> {
        let at = HEADER + index * DIR_SIZE;
        let first = u32_at(&self.bytes, at + 8);
        first..first + u32_at(&self.bytes, at + 12)
    }

    fn entry_at(&self, index: usize) -> usize {
        HEADER + self.dirs * DIR_SIZE + index * ENTRY_SIZE
    }

    fn names_at(&self) -> usize {
        self.entry_at(self.entries)
    }

    fn text(&self, start: usize, len: usize) -> &[u8] {
        let start = self.names_at() + start;
        &self.bytes[start..start + len]
    }

    fn entry_name(&self, index: usize) -> &[u8] {
        let at = self.entry_at(index);
        self.text(u32_at(&self.bytes, at), u16_at(&self.bytes, at + 4))
    }

    fn entry(&self, index: usize) -> StoredEntry {
        let at = self.entry_at(index);
        let raw = &self.bytes[at..at + ENTRY_SIZE];
        let kind = kind_of(raw[6]).unwrap_or(EntryKind::File);
        let mut id = [0; 20];
        id.copy_from_slice(&raw[44..64]);
        StoredEntry {
            fingerprint: Fingerprint {
                kind,
                perm: u32_at(raw, 8) as u32,
                size: u64_at(raw, 12),
                mtime_ns: u64_at(raw, 20) as i64,
                ctime_ns: u64_at(raw, 28) as i64,
                ino: u64_at(raw, 36),
            },
            racy: raw[7] & FLAG_RACY != 0,
            id: (raw[7] & FLAG_HAS_ID != 0).then(|| ObjectId::from_bytes(id)),
        }
    }

    /// Checks everything that later reads rely on.
    fn from_bytes(bytes: Vec<u8>) -> Option<Memo> {
        if bytes.len() < HEADER + TRAILER || &bytes[..8] != MAGIC {
            return None;
        }
        let content = &bytes[..bytes.len() - TRAILER];
        if checksum(content) != u64_at(&bytes, content.len()) {
            return None;
        }
        let memo = Memo {
            dirs: u32_at(&bytes, 24),
            entries: u32_at(&bytes, 28),
            bytes,
        };
        memo.is_sound().then_some(memo)
    }

    fn is_sound(&self) -> bool {
        let fixed = HEADER + TRAILER + self.dirs * DIR_SIZE + self.entries * ENTRY_SIZE;
        let Some(names) = self.bytes.len().checked_sub(fixed) else {
            return false;
        };
        let dirs_fit = (0..self.dirs).all(|index| {
            let at = HEADER + index * DIR_SIZE;
            let path_end = u32_at(&self.bytes, at) + u32_at(&self.bytes, at + 4);
            path_end <= names && self.dir_entries(index).end <= self.entries
        });
        dirs_fit
            && (0..self.entries).all(|index| {
                let at = self.entry_at(index);
                let name_end = u32_at(&self.bytes, at) + u16_at(&self.bytes, at + 4);
                name_end <= names && kind_of(self.bytes[at + 6]).is_some()
            })
    }
}

impl StoredEntry {
    fn memo_entry(&self) -> MemoEntry {
        MemoEntry {
            kind: self.fingerprint.kind,
            perm: self.fingerprint.perm,
            size: self.fingerprint.size,
            id: self.id,
            racy: self.racy,
        }
    }
}

/// Puts the memo of a finished scan together.
pub(super) fn build(
    old: &Memo,
    (listings, vanished): (&[Listing], &HashSet<RelPath>),
    started_ns: i64,
    tag: u64,
    hashed: impl Fn(&RelPath) -> Option<ObjectId>,
) -> Memo {
    let mut builder = Builder::default();
    for listing in listings {
        let is_there = |name: &[u8], fingerprint: &Fingerprint| {
            vanished.is_empty()
                || !fingerprint.is_dir()
                || !vanished.contains(&listing.path.join_name(name))
        };
        let first = builder.begin_dir(&listing.path);
        match &listing.content {
            ListingContent::Same(index) => {
                for entry in old.dir_entries(*index) {
                    let (name, stored) = (old.entry_name(entry), old.entry(entry));
                    if is_there(name, &stored.fingerprint) {
                        builder.add(name, &stored);
                    }
                }
            }
            ListingContent::Fresh { names, entries } => {
                for entry in entries {
                    let start = entry.name_start as usize;
                    let name = &names[start..start + entry.name_len as usize];
                    if is_there(name, &entry.fingerprint) {
                        add_fresh(&mut builder, &listing.path, name, entry, &hashed);
                    }
                }
            }
        }
        builder.end_dir(first);
    }
    builder.finish(started_ns, tag)
}

fn add_fresh(
    builder: &mut Builder,
    dir: &RelPath,
    name: &[u8],
    entry: &FreshEntry,
    hashed: &impl Fn(&RelPath) -> Option<ObjectId>,
) {
    let id = entry.id.or_else(|| {
        if entry.fingerprint.is_dir() {
            None
        } else {
            hashed(&dir.join_name(name))
        }
    });
    // A file that was not hashed has an entry too, so that its removal is noticed. Each scan
    // reports it as unknown again.
    let unread = id.is_none() && !entry.fingerprint.is_dir();
    builder.add(
        name,
        &StoredEntry {
            fingerprint: entry.fingerprint,
            racy: entry.racy || unread,
            id,
        },
    );
}

/// The three parts of a memo while they grow.
#[derive(Default)]
struct Builder {
    dirs: Vec<u8>,
    entries: Vec<u8>,
    names: Vec<u8>,
}

impl Builder {
    /// Begins a directory; they must come in the order of their paths. Returns its first entry.
    fn begin_dir(&mut self, path: &RelPath) -> usize {
        self.dirs
            .extend_from_slice(&(self.names.len() as u32).to_le_bytes());
        self.dirs
            .extend_from_slice(&(path.as_bytes().len() as u32).to_le_bytes());
        self.names.extend_from_slice(path.as_bytes());
        self.entries.len() / ENTRY_SIZE
    }

    fn end_dir(&mut self, first: usize) {
        let count = self.entries.len() / ENTRY_SIZE - first;
        self.dirs.extend_from_slice(&(first as u32).to_le_bytes());
        self.dirs.extend_from_slice(&(count as u32).to_le_bytes());
    }

    fn add(&mut self, name: &[u8], stored: &StoredEntry) {
        let id = stored.id.as_ref().map_or(&[0; 20], ObjectId::as_bytes);
        let flags = if stored.racy { FLAG_RACY } else { 0 }
            | if stored.id.is_some() { FLAG_HAS_ID } else { 0 };
        let fingerprint = &stored.fingerprint;
        let mut raw = [0; ENTRY_SIZE];
        raw[0..4].copy_from_slice(&(self.names.len() as u32).to_le_bytes());
        raw[4..6].copy_from_slice(&(name.len() as u16).to_le_bytes());
        raw[6] = fingerprint.kind as u8;
        raw[7] = flags;
        raw[8..12].copy_from_slice(&fingerprint.perm.to_le_bytes());
        raw[12..20].copy_from_slice(&fingerprint.size.to_le_bytes());
        raw[20..28].copy_from_slice(&fingerprint.mtime_ns.to_le_bytes());
        raw[28..36].copy_from_slice(&fingerprint.ctime_ns.to_le_bytes());
        raw[36..44].copy_from_slice(&fingerprint.ino.to_le_bytes());
        raw[44..64].copy_from_slice(id);
        self.entries.extend_from_slice(&raw);
        self.names.extend_from_slice(name);
    }

    fn finish(self, started_ns: i64, tag: u64) -> Memo {
        let (dirs, entries) = (self.dirs.len() / DIR_SIZE, self.entries.len() / ENTRY_SIZE);
        if u32::try_from(self.names.len()).is_err() || u32::try_from(entries).is_err() {
            // Beyond four gigabytes of names the format ends; a memo is only a cache.
            return Memo::empty();
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&started_ns.to_le_bytes());
        bytes.extend_from_slice(&(dirs as u32).to_le_bytes());
        bytes.extend_from_slice(&(entries as u32).to_le_bytes());
        bytes.reserve(self.dirs.len() + self.entries.len() + self.names.len() + TRAILER);
        bytes.extend_from_slice(&self.dirs);
        bytes.extend_from_slice(&self.entries);
        bytes.extend_from_slice(&self.names);
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        Memo {
            bytes,
            dirs,
            entries,
        }
    }
}

fn kind_of(byte: u8) -> Option<EntryKind> {
    [EntryKind::File, EntryKind::Symlink, EntryKind::Dir]
        .into_iter()
        .find(|&kind| kind as u8 == byte)
}

/// A checksum against torn and damaged files, not against forged ones: four lanes of multiply and
/// rotate, so that ten megabytes cost a millisecond or two.
fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |lane: u64, word: u64| (lane ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let mut lanes = [1u64, 2, 3, 4];
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (lane, at) in lanes.iter_mut().zip([0, 8, 16, 24]) {
            *lane = mix(*lane, u64_at(block, at));
        }
    }
    let mut sum = bytes.len() as u64;
    for &byte in blocks.remainder() {
        sum = mix(sum, byte.into());
    }
    lanes.into_iter().fold(sum, mix)
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    let mut raw = [0; 2];
    raw.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(raw).into()
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw) as usize
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}
