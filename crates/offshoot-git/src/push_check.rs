//! Whether a pushed commit is whole: all that it reaches is in the pack, or in the history that the
//! sender may see anyway.
//!
//! The store holds the objects of everybody, so it is not enough that an object is there: a commit
//! that names somebody else's file by its id would give its content away. The walk enters only what
//! is in the pack and differs from the parents, so its cost follows the pack.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use offshoot_core::{EMPTY_TREE, Error, MAX_DEPTH, ObjectId, Result, cancel, escape_bytes};

use crate::commit::{Commit, SIDECAR_HEADER};
use crate::dotgit::{has_rules_for_content, refuses_content};
use crate::fetch::CommitGraph;
use crate::fsck::expected_kind;
use crate::object::{Kind, ObjectReader, read_object};
use crate::pack_receive::{ReceivedPack, bad};
use crate::tree::{Tree, read_tree};

/// The largest file whose content git has rules for; git's own limit for `.gitattributes`.
const LARGEST_WITH_RULES: u64 = 100 << 20;

/// What the sender of a push may see: the history of some commits.
pub struct VisibleHistory<'a> {
    reader: &'a dyn ObjectReader,
    tips: Vec<ObjectId>,
    commits: CommitGraph<'a>,
}

impl<'a> VisibleHistory<'a> {
    /// The history of these commits.
    pub fn new(reader: &'a dyn ObjectReader, tips: Vec<ObjectId>) -> Self {
        VisibleHistory {
            reader,
            tips,
            commits: CommitGraph::new(reader),
        }
    }

    /// Reads it, and whatever else the store has.
    pub(crate) fn reader(&self) -> &'a dyn ObjectReader {
        self.reader
    }

    /// Those of the ids that are trees or files of it. The cost follows the newest tree at least.
    pub(crate) fn contents_among(&mut self, ids: &[ObjectId]) -> Result<HashSet<ObjectId>> {
        self.commits.contained(&self.tips, ids)
    }

    /// The first of the ids that is no commit of it. The cost follows how far back they are; it is
    /// that of the whole history if one is missing, or older than its date says.
    pub fn first_unknown(&mut self, ids: &[ObjectId]) -> Result<Option<ObjectId>> {
        let found: HashSet<ObjectId> = (self.commits.reachable(&self.tips, ids)?)
            .into_iter()
            .collect();
        let rest: Vec<ObjectId> = ids
            .iter()
            .copied()
            .filter(|id| !found.contains(id))
            .collect();
        let mut missing: HashSet<ObjectId> = rest.iter().copied().collect();
        let mut seen: HashSet<ObjectId> = HashSet::new();
        let mut next = self.tips.clone();
        while let Some(id) = next.pop() {
            if missing.is_empty() {
                break;
            }
            if seen.insert(id) {
                cancel::check()?;
                missing.remove(&id);
                next.extend(self.commits.parents(&id)?);
            }
        }
        Ok(rest.into_iter().find(|id| missing.contains(id)))
    }
}

/// Objects of a pack and, beside them, of the store.
struct PackAndStore<'a> {
    pack: &'a ReceivedPack,
    store: &'a dyn ObjectReader,
}

impl ObjectReader for PackAndStore<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<(Kind, Arc<[u8]>)>> {
        match self.pack.read(id)? {
            Some(found) => Ok(Some(found)),
            None => self.store.read(id),
        }
    }
}

/// The objects of a pack that a commit reaches, a commit before what it holds. An error if something
/// that it reaches is neither in the pack nor in the history.
pub fn connected_objects(
    pack: &ReceivedPack,
    history: &mut VisibleHistory<'_>,
    tip: ObjectId,
) -> Result<Vec<ObjectId>> {
    let mut check = Check {
        objects: PackAndStore {
            pack,
            store: history.reader(),
        },
        found: Vec::new(),
        seen: HashSet::new(),
        near: HashSet::new(),
        outside: HashMap::new(),
        with_rules: Vec::new(),
    };
    for id in check.new_commits(history, tip)? {
        cancel::check()?;
        check.commit(id)?;
    }
    check.check_outside(history)?;
    check.check_contents()?;
    Ok(check.found)
}

struct Check<'a> {
    objects: PackAndStore<'a>,
    /// Objects of the pack that are reached.
    found: Vec<ObjectId>,
    /// Trees and files that were looked at.
    seen: HashSet<(ObjectId, Kind)>,
    /// What stands in those directories that were compared with and did not come with the pack: it
    /// is in the history. What a pack says of itself proves nothing.
    near: HashSet<(ObjectId, Kind)>,
    /// What is not in the pack, with what it must be.
    outside: HashMap<ObjectId, Kind>,
    /// Files whose names let git look at their content.
    with_rules: Vec<(Vec<u8>, ObjectId)>,
}

impl Check<'_> {
    /// The commits of the pack that the tip reaches, each after its parents: what one does not bring
    /// because a parent has it must have been seen there by then.
    fn new_commits(
        &self,
        history: &mut VisibleHistory<'_>,
        tip: ObjectId,
    ) -> Result<Vec<ObjectId>> {
        let pack = self.objects.pack;
        let (mut order, mut older) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        let mut stack = vec![(tip, false)];
        while let Some((id, parents_done)) = stack.pop() {
            if parents_done {
                order.push(id);
                continue;
            }
            if !seen.insert(id) {
                continue;
            }
            match pack.kind(&id) {
                Some(Kind::Commit) => {
                    stack.push((id, true));
                    let parents = self.read_commit(&id)?.parents;
                    stack.extend(parents.iter().rev().map(|parent| (*parent, false)));
                }
                Some(kind) => return Err(wrong_kind(&id, kind, Kind::Commit)),
                None => older.push(id),
            }
        }
        match history.first_unknown(&older)? {
            None => Ok(order),
            Some(id) => Err(missing(&id, Kind::Commit)),
        }
    }

    fn is_in_pack(&self, id: &ObjectId) -> bool {
        self.objects.pack.kind(id).is_some()
    }

    fn read_commit(&self, id: &ObjectId) -> Result<Commit> {
        match read_object(&self.objects, id)? {
            (Kind::Commit, bytes) => Commit::parse(&bytes),
            (kind, _) => Err(wrong_kind(id, kind, Kind::Commit)),
        }
    }

    fn commit(&mut self, id: ObjectId) -> Result<()> {
        let commit = self.read_commit(&id)?;
        if commit.header(SIDECAR_HEADER).is_some() {
            return Err(bad(&format!(
                "the commit {id} was made from a snapshot by `git commit --amend` and names what \
                 only that snapshot has; commit anew instead"
            )));
        }
        self.found.push(id);
        let mut bases = Vec::with_capacity(commit.parents.len());
        for parent in &commit.parents {
            let tree = self.read_commit(parent)?.tree;
            if !self.is_in_pack(parent) {
                self.near.insert((tree, Kind::Tree));
            }
            bases.push(tree);
        }
        if !bases.contains(&commit.tree) {
            self.need(commit.tree, Kind::Tree, bases)?;
        }
        Ok(())
    }

    /// Looks at an object that a commit or a tree names, and at all that is below it. The bases are
    /// what stands at its place in the parents.
    fn need(&mut self, id: ObjectId, kind: Kind, bases: Vec<ObjectId>) -> Result<()> {
        let mut next = vec![(id, kind, bases, 0)];
        while let Some((id, kind, bases, depth)) = next.pop() {
            if !self.seen.insert((id, kind)) {
                continue;
            }
            match self.objects.pack.kind(&id) {
                Some(is) if is == kind => self.found.push(id),
                Some(is) => return Err(wrong_kind(&id, is, kind)),
                // Where the history has it, it has all below it.
                None => {
                    self.outside.insert(id, kind);
                    continue;
                }
            }
            if kind != Kind::Tree {
                continue;
            }
            if depth > MAX_DEPTH {
                return Err(bad(&format!(
                    "it holds a path of more than {MAX_DEPTH} levels"
                )));
            }
            let bases = self.read_bases(&bases)?;
            for entry in read_tree(&self.objects, &id)?.iter() {
                let Some(kind) = expected_kind(entry.git_mode()) else {
                    continue;
                };
                let there = bases.iter().filter_map(|base| base.get(entry.name));
                let there: Vec<_> = there
                    .filter(|base| expected_kind(base.git_mode()) == Some(kind))
                    .map(|base| base.id)
                    .collect();
                if there.contains(&entry.id) {
                    continue;
                }
                if kind == Kind::Blob && has_rules_for_content(entry.name) {
                    self.with_rules.push((entry.name.to_vec(), entry.id));
                }
                next.push((entry.id, kind, there, depth + 1));
            }
        }
        Ok(())
    }

    fn read_bases(&mut self, ids: &[ObjectId]) -> Result<Vec<Tree>> {
        let mut trees = Vec::with_capacity(ids.len());
        for id in ids {
            let tree = read_tree(&self.objects, id)?;
            // One of a commit of the pack that did not come with it is looked for in the history
            // itself, and refuses the push if it is not there.
            if !self.is_in_pack(id) {
                let entries = tree.iter();
                self.near.extend(entries.filter_map(|entry| {
                    expected_kind(entry.git_mode()).map(|kind| (entry.id, kind))
                }));
            }
            trees.push(tree);
        }
        Ok(trees)
    }

    /// What is not in the pack must be in the history. Nearly always it stood beside what changed:
    /// a file that was moved or copied.
    fn check_outside(&mut self, history: &mut VisibleHistory<'_>) -> Result<()> {
        let mut far = Vec::new();
        for (id, kind) in &self.outside {
            if self.near.contains(&(*id, *kind)) {
                continue;
            }
            if *id == EMPTY_TREE && *kind == Kind::Tree {
                // git knows it without sending it.
                self.found.push(*id);
                continue;
            }
            far.push(*id);
        }
        if far.is_empty() {
            return Ok(());
        }
        let held = history.contents_among(&far)?;
        for id in &far {
            let kind = self.outside[id];
            let found = match held.contains(id) {
                true => history.reader().open(id)?.map(|stream| stream.kind),
                false => None,
            };
            match found {
                Some(is) if is == kind => {}
                Some(is) => return Err(wrong_kind(id, is, kind)),
                None => return Err(missing(id, kind)),
            }
        }
        Ok(())
    }

    /// `.gitmodules` and `.gitattributes` must be what git would accept.
    fn check_contents(&self) -> Result<()> {
        for (name, id) in &self.with_rules {
            let stream = match self.objects.pack.open(id)? {
                Some(stream) => Some(stream),
                None => self.objects.store.open(id)?,
            };
            let is_large = stream.is_some_and(|stream| stream.size > LARGEST_WITH_RULES);
            let why = match is_large {
                true => Some("git refuses it: it is too large"),
                false => refuses_content(name, &read_object(&self.objects, id)?.1),
            };
            if let Some(why) = why {
                return Err(bad(&format!("`{}`: {why}", escape_bytes(name))));
            }
        }
        Ok(())
    }
}

fn missing(id: &ObjectId, kind: Kind) -> Error {
    bad(&format!(
        "the {} {id} is neither in it nor in the history here",
        kind.as_str()
    ))
}

fn wrong_kind(id: &ObjectId, is: Kind, should: Kind) -> Error {
    let (is, should) = (is.as_str(), should.as_str());
    bad(&format!("{id} is a {is} where a {should} is needed"))
}
