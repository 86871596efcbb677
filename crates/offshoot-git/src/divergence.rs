//! How far two histories are apart: where they met last, and what each has alone since.

use std::collections::{BinaryHeap, HashMap, HashSet};

use offshoot_core::{ObjectId, Result, cancel};

use crate::fetch::CommitGraph;

/// The commit is reached by the one side.
const ONE: u8 = 1;
/// The commit is reached by the other side.
const OTHER: u8 = 2;
/// The commit is below one that both sides reach.
const STALE: u8 = 4;

/// Two histories beside each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergence {
    /// The last commits that both have; several where each side merged the other, none where the
    /// histories have nothing in common.
    pub bases: Vec<ObjectId>,
    /// How many commits only the one side has. Where clocks ran backwards it may be more than are.
    pub one: usize,
    /// How many commits only the other side has. Where clocks ran backwards it may be more than are.
    pub other: usize,
}

impl Divergence {
    /// Whether a commit that was compared is in the history of the other one.
    pub fn is_contained(&self, compared: ObjectId) -> bool {
        self.bases == [compared]
    }
}

impl CommitGraph<'_> {
    /// Compares the histories of two commits. The cost follows what they do not have in common, if
    /// their clocks are right.
    pub fn divergence(&mut self, one: ObjectId, other: ObjectId) -> Result<Divergence> {
        let painted = self.paint(one, other)?;
        let mut bases = painted.met.clone();
        bases.retain(|id| painted.flags[id] & STALE == 0);
        // Clocks that run backwards can leave a base that another one reaches.
        if bases.len() > 1 {
            let mut best = Vec::with_capacity(bases.len());
            for base in &bases {
                let mut is_reached = false;
                for above in bases.iter().filter(|above| *above != base) {
                    is_reached |= self.is_ancestor(*base, *above)?;
                }
                if !is_reached {
                    best.push(*base);
                }
            }
            bases = best;
        }
        let only = |side: u8| {
            let reached = painted.flags.values();
            reached.filter(|flags| **flags == side).count()
        };
        Ok(Divergence {
            one: if bases == [one] { 0 } else { only(ONE) },
            other: if bases == [other] { 0 } else { only(OTHER) },
            bases,
        })
    }

    /// Whether a commit reaches another, or is the same.
    pub fn is_ancestor(&mut self, old: ObjectId, new: ObjectId) -> Result<bool> {
        Ok(self.paint(old, new)?.met.contains(&old))
    }

    /// Marks what each side reaches, until all that is left is below what both reach. A commit is
    /// visited again when another side is found to reach it, so the order of the visits, which
    /// follows the clocks, does not matter for the result.
    fn paint(&mut self, one: ObjectId, other: ObjectId) -> Result<Painted> {
        let mut painted = Painted::default();
        painted.mark(self, one, ONE)?;
        painted.mark(self, other, OTHER)?;
        while !painted.open.is_empty() {
            cancel::check()?;
            let Some((_, id)) = painted.queue.pop() else {
                break;
            };
            painted.open.remove(&id);
            let mut flags = painted.flags[&id];
            if flags & (ONE | OTHER | STALE) == ONE | OTHER && !painted.met.contains(&id) {
                painted.met.push(id);
            }
            if flags & (ONE | OTHER) == ONE | OTHER {
                flags |= STALE;
            }
            for parent in self.parents(&id)? {
                painted.mark(self, parent, flags)?;
            }
        }
        Ok(painted)
    }
}

#[derive(Default)]
struct Painted {
    flags: HashMap<ObjectId, u8>,
    /// Commits to visit, the newest first.
    queue: BinaryHeap<(i64, ObjectId)>,
    /// Those of them that may still lead to something new.
    open: HashSet<ObjectId>,
    /// Commits that both sides reach and that were found first.
    met: Vec<ObjectId>,
}

impl Painted {
    fn mark(&mut self, commits: &mut CommitGraph<'_>, id: ObjectId, add: u8) -> Result<()> {
        let Some(time) = commits.time(&id)? else {
            return Ok(());
        };
        let flags = self.flags.entry(id).or_default();
        let before = *flags;
        if before & add == add {
            return Ok(());
        }
        *flags |= add;
        self.queue.push((time, id));
        // What was seen as one side's alone has to learn that it is not; what is new and below
        // both sides leads to nothing.
        let is_news = *flags & STALE == 0 || (before != 0 && before & STALE == 0);
        match is_news {
            true => self.open.insert(id),
            false => self.open.remove(&id),
        };
        Ok(())
    }
}
