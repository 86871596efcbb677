//! Writing git's index: what a work tree holds, with the `stat` data that lets git see without
//! reading a file that it was not changed.

use offshoot_core::{GitMode, ObjectId, RelPath, Result};

use crate::object::{ObjectReader, finish};
use crate::tree::{EntryRef, Tree, git_mode, read_tree};
use crate::tree_walk::path_below;

/// What `stat` says about one file of the work tree; times in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStat {
    /// When content or metadata last changed.
    pub ctime_ns: i128,
    /// When the content last changed.
    pub mtime_ns: i128,
    /// The device.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Bytes; of a link, the length of its target.
    pub size: u64,
}

/// A directory of the index whose tree is known, so that git need not compute it.
struct CachedTree {
    name: Vec<u8>,
    id: ObjectId,
    entries: usize,
    subtrees: usize,
}

/// An index (version 2) of a tree, with its cached trees.
///
/// `stat_of` gives what the work tree has at a path. Where it gives nothing git reads the file to
/// see whether it is the one of the tree, and where there is none it is shown as deleted. Costs the
/// whole tree: every tree object is read once.
pub fn write_index(
    reader: &dyn ObjectReader,
    tree: ObjectId,
    stat_of: &mut dyn FnMut(&RelPath) -> Result<Option<IndexStat>>,
) -> Result<Vec<u8>> {
    let mut out = b"DIRC\0\0\0\x02\0\0\0\0".to_vec();
    let mut count = 0u32;
    let mut cached = vec![CachedTree::new(Vec::new(), tree)];
    // An explicit stack, as in every walk: a path may have two thousand parts.
    let mut stack: Vec<(Vec<u8>, usize, Tree, usize)> =
        vec![(Vec::new(), 0, read_tree(reader, &tree)?, 0)];
    while let Some((dir, node, tree, next)) = stack.last_mut() {
        let node = *node;
        let Some(entry) = tree.at(*next) else {
            stack.pop();
            let entries = cached[node].entries;
            if let Some((_, above, ..)) = stack.last() {
                cached[*above].entries += entries;
            }
            continue;
        };
        *next += 1;
        let path = path_below(dir, entry.name)?;
        if entry.is_dir() {
            cached[node].subtrees += 1;
            cached.push(CachedTree::new(entry.name.to_vec(), entry.id));
            let below = read_tree(reader, &entry.id)?;
            stack.push((path, cached.len() - 1, below, 0));
            continue;
        }
        cached[node].entries += 1;
        count += 1;
        let path = RelPath::from_normal(path);
        let stat = stat_of(&path)?.unwrap_or_default();
        push_entry(&mut out, &path, &entry, &stat);
    }
    out[8..12].copy_from_slice(&count.to_be_bytes());
    push_cached_trees(&mut out, &cached);
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(&out);
    let checksum = finish(hasher)?;
    out.extend_from_slice(checksum.as_bytes());
    Ok(out)
}

impl CachedTree {
    fn new(name: Vec<u8>, id: ObjectId) -> CachedTree {
        CachedTree {
            name,
            id,
            entries: 0,
            subtrees: 0,
        }
    }
}

fn push_entry(out: &mut Vec<u8>, path: &RelPath, entry: &EntryRef<'_>, stat: &IndexStat) {
    let begin = out.len();
    let mut put = |number: u32| out.extend_from_slice(&number.to_be_bytes());
    for time in [stat.ctime_ns, stat.mtime_ns] {
        // git keeps the low 32 bits of every number.
        put(time.div_euclid(1_000_000_000) as u32);
        put(time.rem_euclid(1_000_000_000) as u32);
    }
    put(stat.dev as u32);
    put(stat.ino as u32);
    // Old trees may say 100664, which git reads as 100644.
    put(git_mode(entry.mode).unwrap_or(GitMode::File) as u32);
    put(stat.uid);
    put(stat.gid);
    put(stat.size as u32);
    out.extend_from_slice(entry.id.as_bytes());
    let name = path.as_bytes();
    let length = name.len().min(0xfff) as u16;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(name);
    // At least one NUL, up to a multiple of eight.
    let padded = (out.len() - begin) / 8 * 8 + 8;
    out.resize(begin + padded, 0);
}

/// The extension `TREE`: from it git knows at once that the index is what `HEAD` has.
fn push_cached_trees(out: &mut Vec<u8>, cached: &[CachedTree]) {
    let mut body = Vec::new();
    for tree in cached {
        body.extend_from_slice(&tree.name);
        body.push(0);
        body.extend_from_slice(format!("{} {}\n", tree.entries, tree.subtrees).as_bytes());
        body.extend_from_slice(tree.id.as_bytes());
    }
    out.extend_from_slice(b"TREE");
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&body);
}
