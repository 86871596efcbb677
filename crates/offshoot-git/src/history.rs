//! Following commits: what they reach, and in which order they came about.

use std::collections::HashSet;

use offshoot_core::{Error, ObjectId, Result};

use crate::commit::Commit;
use crate::object::{Kind, ObjectReader, read_object};
use crate::tree_walk::walk_objects;

/// How many tags of tags are followed: more than in any real repository, and an end for a forged
/// one.
pub const MAX_TAG_DEPTH: usize = 32;

/// All commits that the tips reach, each after all of its parents.
///
/// Tips may be annotated tags; what leads to no commit is left out. The parents of commits in
/// `shallow` are not followed: in a shallow clone they are missing.
pub fn parents_first(
    reader: &dyn ObjectReader,
    tips: &[ObjectId],
    shallow: &HashSet<ObjectId>,
) -> Result<Vec<ObjectId>> {
    let mut order = Vec::new();
    let mut seen = HashSet::new();
    for tip in tips {
        let Some(tip) = peel_to_commit(reader, *tip)? else {
            continue;
        };
        // An explicit stack: a history is deeper than any call stack. A commit is popped for
        // the second time when all of its parents are in the order.
        let mut stack = vec![(tip, false)];
        while let Some((id, parents_done)) = stack.pop() {
            if parents_done {
                order.push(id);
                continue;
            }
            if !seen.insert(id) {
                continue;
            }
            stack.push((id, true));
            if !shallow.contains(&id) {
                let parents = read_commit(reader, &id)?.parents;
                stack.extend(parents.iter().rev().map(|parent| (*parent, false)));
            }
        }
    }
    Ok(order)
}

/// Reads a commit that must be there.
pub fn read_commit(reader: &dyn ObjectReader, id: &ObjectId) -> Result<Commit> {
    match read_object(reader, id)? {
        (Kind::Commit, bytes) => Commit::parse(&bytes),
        (kind, _) => Err(Error::internal(format!(
            "`{id}` is a {} where a commit is needed",
            kind.as_str()
        ))),
    }
}

/// The commit that an id stands for: itself, or what an annotated tag points to in the end. None
/// for a tag of something else, and for anything else.
pub fn peel_to_commit(reader: &dyn ObjectReader, id: ObjectId) -> Result<Option<ObjectId>> {
    let mut at = id;
    for _ in 0..MAX_TAG_DEPTH {
        match read_object(reader, &at)? {
            (Kind::Commit, _) => return Ok(Some(at)),
            (Kind::Tag, bytes) => at = tag_target(&bytes)?,
            (Kind::Blob | Kind::Tree, _) => return Ok(None),
        }
    }
    Ok(None)
}

/// Everything that the tips reach and that is not in `seen`, which is extended: commits from the
/// tips down, each followed by its new trees and blobs.
///
/// What is in `seen` is taken to be there with all that it reaches.
pub fn reachable_objects(
    reader: &dyn ObjectReader,
    tips: &[ObjectId],
    seen: &mut HashSet<ObjectId>,
) -> Result<Vec<ObjectId>> {
    reachable_objects_shallow(reader, tips, &HashSet::new(), seen)
}

/// Like [`reachable_objects`], for a shallow history: the parents of commits in `shallow` are not
/// followed.
pub fn reachable_objects_shallow(
    reader: &dyn ObjectReader,
    tips: &[ObjectId],
    shallow: &HashSet<ObjectId>,
    seen: &mut HashSet<ObjectId>,
) -> Result<Vec<ObjectId>> {
    let mut found = Vec::new();
    let mut next: Vec<ObjectId> = tips.to_vec();
    next.reverse();
    while let Some(id) = next.pop() {
        if seen.contains(&id) {
            continue;
        }
        let (kind, bytes) = read_object(reader, &id)?;
        let mut tree = None;
        match kind {
            Kind::Commit => {
                let commit = Commit::parse(&bytes)?;
                if !shallow.contains(&id) {
                    next.extend(commit.parents.iter().rev());
                }
                tree = Some(commit.tree);
            }
            Kind::Tag => next.push(tag_target(&bytes)?),
            Kind::Tree => tree = Some(id),
            Kind::Blob => {}
        }
        if kind != Kind::Tree {
            seen.insert(id);
            found.push(id);
        }
        if let Some(tree) = tree {
            walk_objects(reader, tree, seen, |_, id| {
                found.push(id);
                Ok(())
            })?;
        }
    }
    Ok(found)
}

/// What an annotated tag points to.
pub fn tag_target(bytes: &[u8]) -> Result<ObjectId> {
    let line = bytes
        .strip_prefix(b"object ")
        .and_then(|rest| rest.get(..40));
    line.and_then(|hex| std::str::from_utf8(hex).ok()?.parse().ok())
        .ok_or_else(|| Error::invalid("a tag is damaged: it names no object"))
}
