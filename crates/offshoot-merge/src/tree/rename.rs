//! Renames: a path that is gone on a side, found again under another name.
//!
//! As git does it: equal content first, then files of the same name that are 75 % alike, then the
//! most alike of the rest from 50 % on. Only paths whose other side was touched are looked for;
//! for all others a rename is a removal and an addition and needs no name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use offshoot_core::{EMPTY_BLOB, RelPath, Result};

use super::{Contents, PathChange, TreeEntry};
use crate::content::is_binary;
use crate::tree::table::Kind;

/// A pair is a rename if at least half of the larger file is in both.
const MIN_SIMILARITY: f64 = 0.5;
/// The threshold for a match by file name alone, higher because no other pair was compared.
const MIN_SIMILARITY_BY_NAME: f64 = 0.75;
/// Beyond this many comparisons only equal content counts.
const MAX_COMPARISONS: usize = 1_000_000;
/// Pieces of a line longer than this are compared on their own.
const MAX_PIECE: usize = 64;

/// Where the `wanted` of a side's removed paths went, among the paths that it added.
///
/// The other removed paths are matched by equal content only, so that their targets are taken.
pub(super) fn find_renames(
    sources: &[(RelPath, TreeEntry)],
    wanted: &HashSet<&RelPath>,
    changes: &[PathChange],
    contents: &dyn Contents,
) -> Result<HashMap<RelPath, RelPath>> {
    let mut search = Search {
        sources: sources.iter().collect(),
        targets: changes
            .iter()
            .filter(|change| change.before.is_none())
            .filter_map(|change| Some((&change.path, change.after?)))
            .collect(),
        renames: HashMap::new(),
        contents,
        pieces: HashMap::new(),
    };
    if wanted.is_empty() {
        return Ok(search.renames);
    }
    search.by_content();
    search.sources.retain(|(path, _)| wanted.contains(path));
    search.renames.retain(|path, _| wanted.contains(path));
    search.by_name()?;
    search.by_similarity()?;
    Ok(search.renames)
}

struct Search<'a> {
    sources: Vec<&'a (RelPath, TreeEntry)>,
    targets: Vec<(&'a RelPath, TreeEntry)>,
    renames: HashMap<RelPath, RelPath>,
    contents: &'a dyn Contents,
    /// How many bytes of each piece a content has.
    pieces: HashMap<offshoot_core::ObjectId, Arc<Pieces>>,
}

struct Pieces {
    size: usize,
    bytes_of: HashMap<Vec<u8>, usize>,
}

impl Search<'_> {
    fn record(&mut self, source: &RelPath, target: &RelPath) {
        self.renames.insert(source.clone(), target.clone());
        self.sources.retain(|(path, _)| path != source);
        self.targets.retain(|(path, _)| *path != target);
    }

    fn by_content(&mut self) {
        for (path, entry) in self.sources.clone() {
            if entry.id == EMPTY_BLOB {
                continue;
            }
            let alike = |target: &&(&RelPath, TreeEntry)| {
                target.1.id == entry.id
                    && Kind::of(target.1).is_file() == Kind::of(*entry).is_file()
            };
            let same_name = self
                .targets
                .iter()
                .filter(alike)
                .find(|(to, _)| to.name() == path.name());
            if let Some((target, _)) = same_name.or_else(|| self.targets.iter().find(alike)) {
                self.record(path, &(*target).clone());
            }
        }
    }

    fn by_name(&mut self) -> Result<()> {
        for (path, entry) in self.sources.clone() {
            let mut named = self
                .targets
                .iter()
                .filter(|(to, _)| to.name() == path.name());
            let (Some(&(target, to)), None) = (named.next(), named.next()) else {
                continue;
            };
            let rivals = self
                .sources
                .iter()
                .filter(|(from, _)| from.name() == path.name())
                .count();
            if rivals == 1 && self.similarity(*entry, to)? >= MIN_SIMILARITY_BY_NAME {
                self.record(path, target);
            }
        }
        Ok(())
    }

    fn by_similarity(&mut self) -> Result<()> {
        if self.sources.len() * self.targets.len() > MAX_COMPARISONS {
            return Ok(());
        }
        let mut scores = Vec::new();
        for (path, entry) in self.sources.clone() {
            for (target, to) in self.targets.clone() {
                let score = self.similarity(*entry, to)?;
                if score >= MIN_SIMILARITY {
                    scores.push((score, path.name() == target.name(), path, target));
                }
            }
        }
        // The best first; the order of paths makes ties come out alike every time.
        scores.sort_by(|one, two| {
            let best = two.0.total_cmp(&one.0).then(two.1.cmp(&one.1));
            best.then_with(|| (one.2, one.3).cmp(&(two.2, two.3)))
        });
        for (_, _, path, target) in scores {
            let free = self.sources.iter().any(|(from, _)| from == path)
                && self.targets.iter().any(|(to, _)| *to == target);
            if free {
                self.record(path, target);
            }
        }
        Ok(())
    }

    /// The share of the larger file that is in both; links are alike only when equal.
    fn similarity(&mut self, from: TreeEntry, to: TreeEntry) -> Result<f64> {
        if !Kind::of(from).is_file() || !Kind::of(to).is_file() {
            return Ok(0.0);
        }
        let (from, to) = (self.pieces(from)?, self.pieces(to)?);
        let (small, large) = (from.size.min(to.size), from.size.max(to.size));
        if small == 0 || (small as f64) < large as f64 * MIN_SIMILARITY {
            return Ok(0.0);
        }
        let copied: usize = from
            .bytes_of
            .iter()
            .map(|(piece, bytes)| to.bytes_of.get(piece).map_or(0, |other| *other.min(bytes)))
            .sum();
        Ok(copied as f64 / large as f64)
    }

    fn pieces(&mut self, entry: TreeEntry) -> Result<Arc<Pieces>> {
        if let Some(known) = self.pieces.get(&entry.id) {
            return Ok(Arc::clone(known));
        }
        let pieces = Arc::new(cut(&self.contents.read(&entry.id)?));
        self.pieces.insert(entry.id, Arc::clone(&pieces));
        Ok(pieces)
    }
}

/// Cuts content into lines and pieces of lines; a carriage return before a newline does not count.
fn cut(bytes: &[u8]) -> Pieces {
    let text = !is_binary(bytes);
    let mut bytes_of: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut piece = Vec::with_capacity(MAX_PIECE);
    let mut finish = |piece: &mut Vec<u8>| {
        if !piece.is_empty() {
            let length = piece.len();
            *bytes_of.entry(std::mem::take(piece)).or_default() += length;
        }
    };
    for (at, &byte) in bytes.iter().enumerate() {
        if text && byte == b'\r' && bytes.get(at + 1) == Some(&b'\n') {
            continue;
        }
        piece.push(byte);
        if byte == b'\n' || piece.len() == MAX_PIECE {
            finish(&mut piece);
        }
    }
    finish(&mut piece);
    Pieces {
        size: bytes.len(),
        bytes_of,
    }
}
