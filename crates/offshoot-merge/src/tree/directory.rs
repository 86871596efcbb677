//! Directories that one side renamed as a whole while the other side put something new into them.
//!
//! The new file would stay behind alone in the old directory. As in git this is a conflict: that
//! the file belongs to the others is likely, but a guess.

use std::collections::{BTreeMap, HashMap, HashSet};

use offshoot_core::{EMPTY_BLOB, GitMode, RelPath, Result};

use super::merge::{directories_above, is_leaf};
use super::{Head, PathChange, TreeEntry};
use crate::conflict::Side;

/// A leaf that one side added to a directory which the other side renamed.
pub(super) struct Displaced {
    /// The side that added it.
    pub(super) by: Side,
    pub(super) entry: TreeEntry,
    /// Where it was put.
    pub(super) from: RelPath,
    /// Where the directory is now.
    pub(super) to: RelPath,
}

/// What the search looks at.
pub(super) struct Sides<'a> {
    pub(super) theirs: &'a [PathChange],
    /// What the head has, by path; what is looked up is added.
    pub(super) ours: &'a mut HashMap<RelPath, Option<TreeEntry>>,
    pub(super) head: &'a dyn Head,
}

impl Sides<'_> {
    /// What either side put into a directory that is gone from the other.
    pub(super) fn displaced(&mut self) -> Result<Vec<Displaced>> {
        let mut found = self.added_by_theirs()?;
        found.extend(self.added_by_ours()?);
        Ok(found)
    }

    fn entry(&mut self, path: &RelPath) -> Result<Option<TreeEntry>> {
        if let Some(known) = self.ours.get(path) {
            return Ok(*known);
        }
        let entry = self.head.entry(path)?;
        self.ours.insert(path.clone(), entry);
        Ok(entry)
    }

    /// The head renamed the directory: it has nothing there any more.
    fn added_by_theirs(&mut self) -> Result<Vec<Displaced>> {
        let added: Vec<(&RelPath, TreeEntry)> = added(self.theirs).collect();
        let mut missing = HashSet::new();
        for (path, _) in &added {
            let above = path.parent().filter(|above| !above.is_root());
            if let Some(above) = above
                && self.entry(&above)?.is_none()
            {
                missing.insert(above);
            }
        }
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let renamed = renamed_directories(&self.head.changes()?);
        let gone = |directory: &RelPath| missing.contains(directory);
        let mut found = Vec::new();
        for (path, entry) in added {
            if let Some(to) = new_place(path, &renamed, gone)
                && self.is_free(&to)?
            {
                found.push(Displaced {
                    by: Side::Theirs,
                    entry,
                    from: path.clone(),
                    to,
                });
            }
        }
        Ok(found)
    }

    /// The workspace renamed the directory: all that is left there is what the head added.
    fn added_by_ours(&mut self) -> Result<Vec<Displaced>> {
        let renamed = renamed_directories(self.theirs);
        let kept = directories_above(self.theirs.iter().filter(|change| change.after.is_some()));
        let removed: HashSet<&RelPath> = removed(self.theirs).map(|(path, _)| path).collect();
        let mut found: BTreeMap<RelPath, Displaced> = BTreeMap::new();
        for directory in renamed
            .keys()
            .filter(|directory| !kept.contains(*directory))
        {
            if self.entry(directory)?.map(|entry| entry.mode) != Some(GitMode::Dir) {
                continue;
            }
            let mut left = self.head.leaves_below(directory)?;
            left.retain(|leaf| !removed.contains(leaf));
            if left.is_empty() {
                continue;
            }
            let changes = self.head.changes()?;
            let new: HashMap<&RelPath, TreeEntry> = added(&changes).collect();
            // What the head removed there and the workspace did not is still in the workspace.
            let still_there = self::removed(&changes)
                .any(|(path, _)| path.starts_with(directory) && !removed.contains(path));
            if still_there || !left.iter().all(|leaf| new.contains_key(leaf)) {
                continue;
            }
            for leaf in left {
                let to = new_place(&leaf, &renamed, |above| !kept.contains(above));
                if let Some(to) = to
                    && self.is_free(&to)?
                {
                    let displaced = Displaced {
                        by: Side::Ours,
                        entry: new[&leaf],
                        from: leaf.clone(),
                        to,
                    };
                    found.insert(leaf, displaced);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// Whether nothing will stand at a path.
    fn is_free(&mut self, path: &RelPath) -> Result<bool> {
        let by_theirs = self.theirs.iter().find(|change| change.path == *path);
        match by_theirs {
            Some(change) => Ok(change.after.is_none()),
            None => Ok(self.entry(path)?.is_none()),
        }
    }
}

fn added(changes: &[PathChange]) -> impl Iterator<Item = (&RelPath, TreeEntry)> {
    let new = changes.iter().filter(|change| change.before.is_none());
    new.filter_map(|change| Some((&change.path, change.after.filter(|entry| is_leaf(*entry))?)))
}

fn removed(changes: &[PathChange]) -> impl Iterator<Item = (&RelPath, TreeEntry)> {
    let gone = changes.iter().filter(|change| change.after.is_none());
    gone.filter_map(|change| Some((&change.path, change.before?)))
}

/// Where the files of each directory went: files that kept name and content tell, and most of them
/// must agree. Whether the directory is gone is not looked at.
fn renamed_directories(changes: &[PathChange]) -> HashMap<RelPath, RelPath> {
    let mut targets: HashMap<_, Vec<&RelPath>> = HashMap::new();
    for (path, entry) in added(changes).filter(|(_, entry)| entry.id != EMPTY_BLOB) {
        let key = (entry.id, path.name());
        targets.entry(key).or_default().push(path);
    }
    let mut votes: HashMap<RelPath, BTreeMap<RelPath, usize>> = HashMap::new();
    for (path, entry) in removed(changes) {
        let Some([target]) = targets.get(&(entry.id, path.name())).map(Vec::as_slice) else {
            continue;
        };
        let mut pair = (path.parent(), target.parent());
        while let (Some(from), Some(to)) = pair {
            if from.is_root() || from == to {
                break;
            }
            let same_name = from.name() == to.name();
            pair = if same_name {
                (from.parent(), to.parent())
            } else {
                (None, None)
            };
            *votes.entry(from).or_default().entry(to).or_default() += 1;
        }
    }
    let winner = |(from, votes): (RelPath, BTreeMap<RelPath, usize>)| {
        let most = *votes.values().max()?;
        let mut best = votes.into_iter().filter(|(_, count)| *count == most);
        let (to, _) = best.next()?;
        best.next().is_none().then_some((from, to))
    };
    votes.into_iter().filter_map(winner).collect()
}

/// The path in the new place of its directory. What stands in a new directory below stays, as in
/// git: it may have been put there because it is something else.
fn new_place(
    path: &RelPath,
    renamed: &HashMap<RelPath, RelPath>,
    gone: impl Fn(&RelPath) -> bool,
) -> Option<RelPath> {
    let directory = path.parent().filter(|directory| gone(directory))?;
    Some(renamed.get(&directory)?.join_name(path.name()))
}
