//! Leaves that would stand where a directory stands, or below a leaf.

use std::collections::{BTreeMap, HashMap};

use offshoot_core::{GitMode, RelPath, Result};

use super::merge::{Edits, is_leaf};
use super::{Head, PathChange, TreeEntry};
use crate::outcome::{Conflict, ConflictKind, MergeOutcome, Merged};

/// Turns edits that cannot stand beside the rest of the merged tree into conflicts.
///
/// An edit that is withdrawn may leave something in the way of the next one, so this goes on until
/// nothing more is in the way.
pub(super) fn withdraw_blocked_edits(
    theirs: &[PathChange],
    head: &dyn Head,
    ours: &HashMap<RelPath, Option<TreeEntry>>,
    moved_from: &HashMap<RelPath, RelPath>,
    edits: &mut Edits,
    outcome: &mut MergeOutcome,
) -> Result<()> {
    let mut tree = MergedTree {
        head,
        known: ours.clone(),
    };
    let before: HashMap<&RelPath, Option<TreeEntry>> = theirs
        .iter()
        .map(|change| (&change.path, change.before))
        .collect();
    loop {
        let mut withdrawn = Vec::new();
        for (path, to) in &*edits {
            if let Some(to) = to {
                let blockers = tree.blockers(path, edits)?;
                if !blockers.is_empty() {
                    withdrawn.push((path.clone(), to.clone(), blockers));
                }
            }
        }
        if withdrawn.is_empty() {
            return record_blockers(&mut tree, edits, outcome);
        }
        for (path, to, blockers) in withdrawn {
            edits.remove(&path);
            if let Some(from) = moved_from.get(&path) {
                edits.remove(from);
            }
            outcome
                .auto_resolved
                .retain(|resolved| resolved.path != path);
            let at_path = theirs.iter().find(|change| change.path == path);
            let theirs_entry = at_path.and_then(|change| change.after);
            let mode = match to {
                Merged::Existing(entry) => entry.mode,
                Merged::New { mode, .. } => mode,
            };
            outcome.conflicts.push(Conflict {
                kind: ConflictKind::FileOrDirectory,
                base: before.get(&path).copied().flatten(),
                ours: tree.entry(&blockers[0])?,
                theirs: theirs_entry,
                related: blockers,
                ours_path: moved_from.get(&path).cloned(),
                blockers: BTreeMap::new(),
                content: None,
                mode,
                path,
            });
        }
    }
}

/// Records for each conflict what would have to go if it were resolved in favour of theirs or base.
fn record_blockers(
    tree: &mut MergedTree<'_>,
    edits: &Edits,
    outcome: &mut MergeOutcome,
) -> Result<()> {
    for conflict in &mut outcome.conflicts {
        let targets: Vec<RelPath> = std::iter::once(&conflict.path)
            .chain(&conflict.related)
            .cloned()
            .collect();
        for target in targets {
            let mut leaves = tree.blockers(&target, edits)?;
            leaves.retain(|leaf| Some(leaf) != conflict.ours_path.as_ref());
            if !leaves.is_empty() {
                conflict.blockers.insert(target, leaves);
            }
        }
    }
    Ok(())
}

/// The head with edits on top.
struct MergedTree<'a> {
    head: &'a dyn Head,
    known: HashMap<RelPath, Option<TreeEntry>>,
}

impl MergedTree<'_> {
    fn entry(&mut self, path: &RelPath) -> Result<Option<TreeEntry>> {
        if let Some(known) = self.known.get(path) {
            return Ok(*known);
        }
        let entry = self.head.entry(path)?;
        self.known.insert(path.clone(), entry);
        Ok(entry)
    }

    /// The leaves that keep a path from being written.
    fn blockers(&mut self, path: &RelPath, edits: &Edits) -> Result<Vec<RelPath>> {
        // What is there already has nothing above it but directories.
        let there = self.entry(path)?;
        if there.is_some_and(is_leaf) {
            return Ok(Vec::new());
        }
        for above in path
            .ancestors()
            .into_iter()
            .filter(|above| !above.is_root())
        {
            let leaf = match edits.get(&above) {
                Some(edit) => edit.is_some(),
                None => self.entry(&above)?.is_some_and(is_leaf),
            };
            if leaf {
                return Ok(vec![above]);
            }
        }
        let directory = there.is_some_and(|entry| entry.mode == GitMode::Dir);
        let leaves = if directory {
            self.head.leaves_below(path)?
        } else {
            Vec::new()
        };
        let stays = |leaf: &RelPath| !matches!(edits.get(leaf), Some(None));
        Ok(leaves.into_iter().filter(stays).collect())
    }
}
