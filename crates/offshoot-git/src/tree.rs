//! Trees: git's raw format, one entry after the other, and finding a path in them.
//!
//! The same format serves two purposes. A snapshot's *tree* is what git checks out. Its *sidecar
//! tree* holds what git cannot: empty directories, unusual permission bits and nested `.git`
//! directories. So modes are kept as raw numbers here and any name but `..` is allowed; in a
//! sidecar tree the name `.` stands for the directory itself.

use std::cmp::Ordering;
use std::sync::Arc;

use offshoot_core::{
    EMPTY_TREE, Error, GitMode, MAX_NAME, ObjectId, RelPath, Result, escape_bytes,
};

use crate::object::{Kind, ObjectReader, read_object};

/// The bits of a mode that say what an entry is.
const TYPE_BITS: u32 = 0o170_000;
/// The longest mode that is read: git writes at most six digits, old tools padded with zeros.
const MAX_MODE_DIGITS: usize = 7;

/// Whether a raw mode is that of a directory, whatever its permission bits.
pub fn is_dir_mode(mode: u32) -> bool {
    mode & TYPE_BITS == GitMode::Dir as u32
}

/// The mode that git would write for a raw mode; none for what git does not know.
pub fn git_mode(mode: u32) -> Option<GitMode> {
    match mode & TYPE_BITS {
        0o040_000 => Some(GitMode::Dir),
        0o100_000 if mode & 0o100 != 0 => Some(GitMode::Exec),
        0o100_000 => Some(GitMode::File),
        0o120_000 => Some(GitMode::Symlink),
        0o160_000 => Some(GitMode::Commit),
        _ => None,
    }
}

/// One entry of a tree, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The name, a single part.
    pub name: &'a [u8],
    /// The raw mode.
    pub mode: u32,
    /// What it refers to.
    pub id: ObjectId,
}

impl EntryRef<'_> {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        is_dir_mode(self.mode)
    }

    /// The mode that git would write; none for what git does not know.
    pub fn git_mode(&self) -> Option<GitMode> {
        git_mode(self.mode)
    }

    /// An entry that owns its name.
    pub fn to_owned(self) -> TreeEntry {
        TreeEntry {
            name: self.name.to_vec(),
            mode: self.mode,
            id: self.id,
        }
    }
}

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name, a single part; empty only for the root itself.
    pub name: Vec<u8>,
    /// The raw mode.
    pub mode: u32,
    /// What it refers to.
    pub id: ObjectId,
}

impl TreeEntry {
    /// Borrows it.
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef {
            name: &self.name,
            mode: self.mode,
            id: self.id,
        }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        is_dir_mode(self.mode)
    }

    /// The mode that git would write; none for what git does not know.
    pub fn git_mode(&self) -> Option<GitMode> {
        git_mode(self.mode)
    }
}

/// git's order of entries: by bytes, a directory as if its name ended in `/`.
pub(crate) fn compare(a: (&[u8], bool), b: (&[u8], bool)) -> Ordering {
    let common = a.0.len().min(b.0.len());
    a.0[..common].cmp(&b.0[..common]).then_with(|| {
        // Zero stands for the end of the name: no name holds that byte.
        let next = |(name, dir): (&[u8], bool)| match name.get(common) {
            Some(&byte) => byte,
            None if dir => b'/',
            None => 0,
        };
        next(a).cmp(&next(b)).then(a.0.len().cmp(&b.0.len()))
    })
}

pub(crate) fn compare_entries(a: &EntryRef<'_>, b: &EntryRef<'_>) -> Ordering {
    compare((a.name, a.is_dir()), (b.name, b.is_dir()))
}

/// Splits the first entry off the raw bytes of a tree.
fn split_entry(bytes: &[u8]) -> Result<(EntryRef<'_>, &[u8])> {
    let bad = |what: &str| Error::invalid(format!("a tree is damaged: {what}"));
    let space = bytes
        .iter()
        .take(MAX_MODE_DIGITS + 1)
        .position(|&byte| byte == b' ');
    let space = space
        .filter(|&at| at > 0)
        .ok_or_else(|| bad("an entry has no mode"))?;
    let mut mode = 0;
    for &digit in &bytes[..space] {
        if !(b'0'..=b'7').contains(&digit) {
            return Err(bad("a mode is not octal"));
        }
        mode = mode << 3 | u32::from(digit - b'0');
    }
    if mode & !0o177_777 != 0 {
        return Err(bad("a mode is too large"));
    }
    let rest = &bytes[space + 1..];
    // One more than the longest name, so that a bad tree costs no more than a good one.
    let ends = |&byte: &u8| byte == 0 || byte == b'/';
    let end = rest.iter().take(MAX_NAME + 1).position(ends);
    let name = &rest[..end.ok_or_else(|| bad("a name does not end or is too long"))?];
    if name.is_empty() || name == b".." || rest[name.len()] == b'/' {
        return Err(bad(&format!("`{}` is no name", escape_bytes(name))));
    }
    let after = &rest[name.len() + 1..];
    let (id, after) = after
        .split_at_checked(20)
        .ok_or_else(|| bad("it is cut short"))?;
    Ok((
        EntryRef {
            name,
            mode,
            id: ObjectId::from_slice(id)?,
        },
        after,
    ))
}

/// A tree that was read and checked: its bytes and where each entry begins.
///
/// Costs one allocation however many entries there are, and nothing to clone; entries borrow from
/// the bytes.
#[derive(Clone, Debug)]
pub struct Tree {
    bytes: Arc<[u8]>,
    spans: Arc<[Span]>,
}

/// Where an entry lies in the bytes of its tree.
#[derive(Clone, Copy, Debug)]
struct Span {
    name_at: u32,
    name_len: u16,
    mode: u32,
}

impl Tree {
    /// The tree without entries.
    pub fn empty() -> Self {
        Tree {
            bytes: Arc::default(),
            spans: Arc::default(),
        }
    }

    /// Reads the raw format. Any damage is an error, also names that no file system takes and
    /// entries that are out of order or there twice.
    pub fn parse(bytes: Arc<[u8]>) -> Result<Self> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(Error::invalid("a tree of more than 4 GiB is refused"));
        }
        // Real trees have about 35 bytes per entry.
        let mut spans = Vec::with_capacity(bytes.len() / 32);
        let mut rest = &bytes[..];
        let mut before: Option<EntryRef<'_>> = None;
        while !rest.is_empty() {
            let (entry, after) = split_entry(rest)?;
            if before.is_some_and(|before| compare_entries(&before, &entry) != Ordering::Less) {
                let name = escape_bytes(entry.name);
                return Err(Error::invalid(format!(
                    "a tree is damaged: `{name}` is out of order"
                )));
            }
            let name_at = bytes.len() - after.len() - 21 - entry.name.len();
            spans.push(Span {
                name_at: name_at as u32,
                name_len: entry.name.len() as u16,
                mode: entry.mode,
            });
            before = Some(entry);
            rest = after;
        }
        let tree = Tree {
            bytes,
            spans: spans.into(),
        };
        // A file and a directory of one name need not stand beside each other in git's order, but
        // all that can stand between them begins with that name.
        let mut before: &[u8] = &[];
        for entry in tree.iter() {
            let suspect = entry.is_dir() && !before.is_empty() && before.starts_with(entry.name);
            if suspect && tree.find(entry.name, false).is_some() {
                let name = escape_bytes(entry.name);
                return Err(Error::invalid(format!(
                    "a tree is damaged: `{name}` is there twice"
                )));
            }
            before = entry.name;
        }
        Ok(tree)
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The entry at an index, in git's order; none past the end.
    pub fn at(&self, index: usize) -> Option<EntryRef<'_>> {
        self.spans.get(index).map(|span| self.entry(span))
    }

    /// The entries in git's order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = EntryRef<'_>> + ExactSizeIterator {
        self.spans.iter().map(|span| self.entry(span))
    }

    /// The entry of that name. Costs two binary searches: it may stand where a file of that
    /// name would, or where a directory would.
    pub fn get(&self, name: &[u8]) -> Option<EntryRef<'_>> {
        self.find(name, true).or_else(|| self.find(name, false))
    }

    /// The entry of that name, if it is a directory or, as asked, if it is not.
    fn find(&self, name: &[u8], is_dir: bool) -> Option<EntryRef<'_>> {
        let found = self.spans.binary_search_by(|span| {
            let entry = self.entry(span);
            compare((entry.name, entry.is_dir()), (name, is_dir))
        });
        found.ok().and_then(|index| self.at(index))
    }

    fn entry(&self, span: &Span) -> EntryRef<'_> {
        let name_at = span.name_at as usize;
        let end = name_at + usize::from(span.name_len);
        let mut id = [0; 20];
        // In range: `parse` saw 21 bytes after every name.
        id.copy_from_slice(&self.bytes[end + 1..end + 21]);
        EntryRef {
            name: &self.bytes[name_at..end],
            mode: span.mode,
            id: ObjectId::from_bytes(id),
        }
    }
}

/// Writes entries, which must be in git's order, in the raw format.
pub fn encode_tree<'a>(entries: impl IntoIterator<Item = EntryRef<'a>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        push_octal(&mut bytes, entry.mode);
        bytes.push(b' ');
        bytes.extend_from_slice(entry.name);
        bytes.push(0);
        bytes.extend_from_slice(entry.id.as_bytes());
    }
    bytes
}

/// Octal without leading zeros, as git writes modes; without the allocation of `format!`.
fn push_octal(bytes: &mut Vec<u8>, mode: u32) {
    let digits = (32 - mode.leading_zeros()).div_ceil(3).max(1);
    bytes.extend(
        (0..digits)
            .rev()
            .map(|digit| b'0' + (mode >> (3 * digit) & 7) as u8),
    );
}

/// Reads a tree that must be there.
pub fn read_tree(reader: &dyn ObjectReader, id: &ObjectId) -> Result<Tree> {
    reader.tree(id)
}

/// The raw bytes of a tree that must be there.
pub fn tree_bytes<R: ObjectReader + ?Sized>(reader: &R, id: &ObjectId) -> Result<Arc<[u8]>> {
    match read_object(reader, id)? {
        (Kind::Tree, bytes) => Ok(bytes),
        (kind, _) => Err(Error::internal(format!(
            "`{id}` is a {} where a tree is needed",
            kind.as_str()
        ))),
    }
}

/// Finds a path. The root is the tree itself with mode 040000 and an empty name.
///
/// Looks into one tree per part of the path, or fewer where the reader remembers the directory.
pub fn lookup(
    reader: &dyn ObjectReader,
    root: ObjectId,
    path: &RelPath,
) -> Result<Option<TreeEntry>> {
    let Some(parent) = path.parent() else {
        return Ok(Some(TreeEntry {
            name: Vec::new(),
            mode: GitMode::Dir as u32,
            id: root,
        }));
    };
    match reader.subtree(root, &parent)? {
        Some(dir) if dir != EMPTY_TREE => reader.find(&dir, path.name()),
        _ => Ok(None),
    }
}

/// The tree of a directory, found part by part; none if there is no such directory.
pub fn walk_to<R: ObjectReader + ?Sized>(
    reader: &R,
    root: ObjectId,
    dir: &RelPath,
) -> Result<Option<ObjectId>> {
    let mut at = root;
    for part in dir.parts() {
        if at == EMPTY_TREE {
            return Ok(None);
        }
        match reader.find(&at, part)? {
            Some(entry) if entry.is_dir() => at = entry.id,
            _ => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// One entry out of the raw bytes of a tree, without parsing what comes after it.
pub fn find_in(mut bytes: &[u8], name: &[u8]) -> Result<Option<TreeEntry>> {
    while !bytes.is_empty() {
        let (entry, after) = split_entry(bytes)?;
        if entry.name == name {
            return Ok(Some(entry.to_owned()));
        }
        bytes = after;
    }
    Ok(None)
}
