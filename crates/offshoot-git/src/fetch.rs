//! What a fetch has to send: the commits that the other side lacks, and the objects in which they
//! differ from what it has.
//!
//! The walk goes from new to old and ends where everything left is known to the other side; of the
//! trees only what differs from the parents is entered. So the cost follows what is new.

use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use offshoot_core::{Error, GitMode, ObjectId, Result, cancel};

use crate::commit::Commit;
use crate::history::{MAX_TAG_DEPTH, tag_target};
use crate::object::{Kind, ObjectReader};
use crate::tree::{git_mode, read_tree};

/// How far clocks of commits may be apart before a walk ends too early. Then an object may be sent
/// that was not needed, which costs bytes and nothing else.
const CLOCK_SKEW: i64 = 86_400;

/// What the other side asks for.
#[derive(Clone, Debug, Default)]
pub struct FetchRequest {
    /// The commits it wants.
    pub wants: Vec<ObjectId>,
    /// The commits that both sides have.
    pub common: Vec<ObjectId>,
    /// The commits that it has without their parents.
    pub shallow: HashSet<ObjectId>,
    /// Where the history is to end.
    pub limit: HistoryLimit,
    /// Which contents are left out; the other side asks for them when it needs them.
    pub filter: Filter,
}

/// Where the history that a fetch brings ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryLimit {
    /// Where the other side's history ended before.
    #[default]
    Unchanged,
    /// So many commits below what is wanted.
    Depth(u32),
    /// So many commits below where the other side's history ended before.
    Deeper(u32),
    /// Before the first commit that is older than this, in seconds since 1970.
    Since(i64),
}

/// Which contents a partial clone goes without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// None: all are sent.
    #[default]
    Nothing,
    /// Files of at least so many bytes; 0 means all files.
    BlobsFrom(u64),
}

impl Filter {
    /// Whether a file is sent.
    fn sends(self, reader: &dyn ObjectReader, file: &ObjectId) -> Result<bool> {
        match self {
            Filter::Nothing => Ok(true),
            Filter::BlobsFrom(0) => Ok(false),
            Filter::BlobsFrom(limit) => {
                let object = reader.open(file)?;
                Ok(object.is_none_or(|object| object.size < limit))
            }
        }
    }
}

/// What is to be sent.
#[derive(Clone, Debug, Default)]
pub struct FetchPlan {
    /// The objects: each once, a commit before what it holds.
    pub objects: Vec<ObjectId>,
    /// Commits that come without their parents.
    pub shallow: Vec<ObjectId>,
    /// Commits that the other side had without their parents, which come now.
    pub unshallow: Vec<ObjectId>,
}

struct CommitInfo {
    time: i64,
    tree: ObjectId,
    parents: Vec<ObjectId>,
    /// Some of its parents are missing: it was imported from a shallow repository.
    is_shallow: bool,
}

/// Commits as they were read, each once.
pub struct CommitGraph<'a> {
    reader: &'a dyn ObjectReader,
    known: HashMap<ObjectId, Option<CommitInfo>>,
}

impl<'a> CommitGraph<'a> {
    /// Commits of this reader.
    pub fn new(reader: &'a dyn ObjectReader) -> Self {
        CommitGraph {
            reader,
            known: HashMap::new(),
        }
    }

    /// Those of the ids that the tips reach.
    pub fn reachable(&mut self, tips: &[ObjectId], ids: &[ObjectId]) -> Result<Vec<ObjectId>> {
        let mut pending = HashMap::new();
        let mut times = BTreeSet::new();
        for id in ids {
            if let Some(time) = self.time(id)? {
                pending.insert(*id, time);
                times.insert((time, *id));
            }
        }
        let mut found = HashSet::new();
        let mut queue = Queue::default();
        for tip in tips {
            queue.push(self, *tip)?;
        }
        while let Some((time, id)) = queue.pop() {
            cancel::check()?;
            let Some((oldest, _)) = times.first() else {
                break;
            };
            if time < oldest.saturating_sub(CLOCK_SKEW) {
                break;
            }
            if let Some(time) = pending.remove(&id) {
                times.remove(&(time, id));
                found.insert(id);
            }
            for parent in self.parents(&id)? {
                queue.push(self, parent)?;
            }
        }
        Ok(ids
            .iter()
            .copied()
            .filter(|id| found.contains(id))
            .collect())
    }

    /// The commits below the tips that are there without their parents.
    pub fn shallow_below(&mut self, tips: &[ObjectId]) -> Result<Vec<ObjectId>> {
        let mut seen: HashSet<ObjectId> = tips.iter().copied().collect();
        let mut next = tips.to_vec();
        let mut shallow = Vec::new();
        while let Some(id) = next.pop() {
            for parent in self.parents(&id)? {
                if seen.insert(parent) {
                    next.push(parent);
                }
            }
            if self.is_shallow(&id) {
                shallow.push(id);
            }
        }
        shallow.sort();
        Ok(shallow)
    }

    /// Those of the ids that are trees or files in the history of the tips. The walk begins with
    /// the newest commit and ends when all are found, so what a checkout lacks costs one tree.
    pub fn contained(&mut self, tips: &[ObjectId], ids: &[ObjectId]) -> Result<HashSet<ObjectId>> {
        let mut missing = HashSet::new();
        for id in ids {
            // Without a walk if an id is missing or is no tree or file.
            let is_content = |object: &crate::object::ObjectStream| object.kind != Kind::Commit;
            if self.reader.open(id)?.filter(is_content).is_none() {
                return Ok(HashSet::new());
            }
            missing.insert(*id);
        }
        let mut seen = HashSet::new();
        let mut queue = Queue::default();
        for tip in tips {
            queue.push(self, *tip)?;
        }
        while let Some((_, id)) = queue.pop() {
            cancel::check()?;
            if missing.is_empty() {
                break;
            }
            if let Some(tree) = self.get(&id).map(|known| known.tree) {
                let mut below = Vec::new();
                let all = Filter::Nothing;
                differing_objects(self.reader, tree, Vec::new(), all, &mut seen, &mut below)?;
                for id in &below {
                    missing.remove(id);
                }
            }
            for parent in self.parents(&id)? {
                queue.push(self, parent)?;
            }
        }
        Ok(ids
            .iter()
            .copied()
            .filter(|id| !missing.contains(id))
            .collect())
    }

    /// What a fetch has to send.
    pub fn plan(&mut self, fetch: &FetchRequest) -> Result<FetchPlan> {
        let mut plan = FetchPlan::default();
        let mut wants = Vec::with_capacity(fetch.wants.len());
        let mut contents = Vec::new();
        let mut tags = Vec::new();
        for id in &fetch.wants {
            let id = self.through_tags(*id, &mut tags)?;
            match self.time(&id)? {
                Some(_) => wants.push(id),
                None => contents.push(id),
            }
        }
        let mut stops = fetch.shallow.clone();
        if let Some(boundary) = self.boundary(&wants, fetch)? {
            for id in &fetch.shallow {
                if boundary.within.contains(id)
                    && !boundary.last.contains(id)
                    && !self.is_shallow(id)
                {
                    plan.unshallow.push(*id);
                    stops.remove(id);
                    wants.extend(self.parents(id)?);
                }
            }
            stops.extend(&boundary.last);
            plan.shallow
                .extend(boundary.last.difference(&fetch.shallow));
        }
        let (new, theirs) = self.new_commits(&wants, fetch, &stops)?;
        let shallow = new.iter().filter(|id| self.is_shallow(id));
        plan.shallow
            .extend(shallow.filter(|id| !fetch.shallow.contains(id)));
        plan.shallow.sort();
        plan.shallow.dedup();
        plan.unshallow.sort();
        let mut seen = HashSet::new();
        tags.retain(|id| seen.insert(*id));
        plan.objects = tags;
        plan.objects
            .extend(self.new_objects(&new, &theirs, fetch.filter)?);
        self.add_contents(&contents, fetch.filter, &mut plan.objects)?;
        Ok(plan)
    }

    /// What an annotated tag leads to. The tags on the way are added.
    fn through_tags(&self, id: ObjectId, tags: &mut Vec<ObjectId>) -> Result<ObjectId> {
        let mut at = id;
        for _ in 0..MAX_TAG_DEPTH {
            match self.known.get(&at) {
                Some(Some(_)) => break,
                _ => match self.reader.read(&at)? {
                    Some((Kind::Tag, bytes)) => {
                        tags.push(at);
                        at = tag_target(&bytes)?;
                    }
                    _ => break,
                },
            }
        }
        Ok(at)
    }

    /// Trees and files that are wanted by their own id. A file that is asked for is sent whatever
    /// the filter says.
    fn add_contents(
        &self,
        wanted: &[ObjectId],
        filter: Filter,
        objects: &mut Vec<ObjectId>,
    ) -> Result<()> {
        let mut seen: HashSet<ObjectId> = objects.iter().copied().collect();
        for id in wanted {
            if seen.contains(id) {
                continue;
            }
            if matches!(self.reader.open(id)?, Some(object) if object.kind == Kind::Tree) {
                differing_objects(self.reader, *id, Vec::new(), filter, &mut seen, objects)?;
            } else if seen.insert(*id) {
                objects.push(*id);
            }
        }
        Ok(())
    }

    fn load(&mut self, id: &ObjectId) -> Result<()> {
        if self.known.contains_key(id) {
            return Ok(());
        }
        let known = match self.reader.read(id)? {
            Some((Kind::Commit, bytes)) => {
                let commit = Commit::parse(&bytes)?;
                Some(CommitInfo {
                    time: commit.committer.seconds(),
                    tree: commit.tree,
                    parents: commit.parents,
                    is_shallow: false,
                })
            }
            _ => None,
        };
        self.known.insert(*id, known);
        Ok(())
    }

    fn get(&self, id: &ObjectId) -> Option<&CommitInfo> {
        self.known.get(id).and_then(Option::as_ref)
    }

    /// When a commit was made; none if there is no such commit.
    pub(crate) fn time(&mut self, id: &ObjectId) -> Result<Option<i64>> {
        self.load(id)?;
        Ok(self.get(id).map(|known| known.time))
    }

    /// The parents that are there.
    pub(crate) fn parents(&mut self, id: &ObjectId) -> Result<Vec<ObjectId>> {
        self.load(id)?;
        let named = self
            .get(id)
            .map_or(Vec::new(), |known| known.parents.clone());
        let mut there = Vec::with_capacity(named.len());
        for parent in &named {
            if self.time(parent)?.is_some() {
                there.push(*parent);
            }
        }
        if there.len() < named.len()
            && let Some(Some(known)) = self.known.get_mut(id)
        {
            known.is_shallow = true;
            known.parents.clone_from(&there);
        }
        Ok(there)
    }

    fn is_shallow(&self, id: &ObjectId) -> bool {
        self.get(id).is_some_and(|known| known.is_shallow)
    }

    /// The commits that the other side is to have, and the last of them: those whose parents it is
    /// not to have. None if the fetch does not say where the history ends.
    fn boundary(&mut self, wants: &[ObjectId], fetch: &FetchRequest) -> Result<Option<Boundary>> {
        match fetch.limit {
            HistoryLimit::Unchanged => Ok(None),
            HistoryLimit::Depth(depth) => self.boundary_at_depth(wants, depth).map(Some),
            HistoryLimit::Deeper(by) => {
                let ends: Vec<ObjectId> = fetch.shallow.iter().copied().collect();
                let ends = self.reachable(wants, &ends)?;
                self.boundary_at_depth(&ends, by.saturating_add(1))
                    .map(Some)
            }
            HistoryLimit::Since(time) => self.boundary_since(wants, time).map(Some),
        }
    }

    /// The commits within a depth, and the last of them that have parents.
    fn boundary_at_depth(&mut self, from: &[ObjectId], depth: u32) -> Result<Boundary> {
        let mut boundary = Boundary::default();
        let mut level: Vec<ObjectId> = from.to_vec();
        boundary.within.extend(from);
        for left in (0..depth).rev() {
            let mut below = Vec::new();
            for id in level {
                let parents = self.parents(&id)?;
                if left == 0 && !parents.is_empty() {
                    boundary.last.insert(id);
                }
                if left > 0 {
                    below.extend(
                        parents
                            .into_iter()
                            .filter(|parent| boundary.within.insert(*parent)),
                    );
                }
            }
            if below.is_empty() {
                break;
            }
            level = below;
        }
        Ok(boundary)
    }

    /// The commits that are not older than a time, and those of them that have an older parent.
    fn boundary_since(&mut self, wants: &[ObjectId], since: i64) -> Result<Boundary> {
        let mut boundary = Boundary::default();
        let mut next = Vec::new();
        for id in wants {
            if self.time(id)?.is_some_and(|time| time >= since) && boundary.within.insert(*id) {
                next.push(*id);
            }
        }
        if next.is_empty() {
            return Err(Error::invalid("no commit is as young as that")
                .with_hint("choose an earlier date for `--shallow-since`"));
        }
        while let Some(id) = next.pop() {
            for parent in self.parents(&id)? {
                if self.time(&parent)?.is_none_or(|time| time < since) {
                    boundary.last.insert(id);
                } else if boundary.within.insert(parent) {
                    next.push(parent);
                }
            }
        }
        Ok(boundary)
    }

    /// The commits to send, newest first, and those met on the way that the other side has.
    fn new_commits(
        &mut self,
        wants: &[ObjectId],
        fetch: &FetchRequest,
        stops: &HashSet<ObjectId>,
    ) -> Result<(Vec<ObjectId>, HashSet<ObjectId>)> {
        let mut theirs: HashSet<ObjectId> = HashSet::new();
        let mut new = Vec::new();
        let mut queue = Queue::default();
        let mut open = 0usize;
        for id in &fetch.common {
            theirs.insert(*id);
            queue.push(self, *id)?;
        }
        for id in wants {
            open += usize::from(queue.push(self, *id)?);
        }
        while open > 0 {
            let Some((_, id)) = queue.pop() else { break };
            let is_theirs = theirs.contains(&id);
            if !is_theirs {
                open -= 1;
                new.push(id);
            } else if fetch.shallow.contains(&id) {
                continue;
            }
            if !is_theirs && stops.contains(&id) {
                continue;
            }
            for parent in self.parents(&id)? {
                let is_queued = queue.is_queued(&parent);
                if is_theirs && theirs.insert(parent) {
                    if is_queued {
                        open -= 1;
                    } else if queue.has_seen(&parent) {
                        self.mark_common(parent, &fetch.shallow, &queue, &mut theirs, &mut open);
                    }
                }
                let fresh = queue.push(self, parent)?;
                open += usize::from(fresh && !theirs.contains(&parent));
            }
        }
        new.retain(|id| !theirs.contains(id));
        Ok((new, theirs))
    }

    /// Marks a commit that was taken for new, and all visited commits that it reaches, as ones that
    /// the other side has.
    fn mark_common(
        &self,
        from: ObjectId,
        shallow: &HashSet<ObjectId>,
        queue: &Queue,
        theirs: &mut HashSet<ObjectId>,
        open: &mut usize,
    ) {
        let mut next = vec![from];
        while let Some(id) = next.pop() {
            if shallow.contains(&id) {
                continue;
            }
            for parent in self.get(&id).map_or(&[][..], |known| &known.parents) {
                if queue.has_seen(parent) && theirs.insert(*parent) {
                    if queue.is_queued(parent) {
                        *open -= 1;
                    } else {
                        next.push(*parent);
                    }
                }
            }
        }
    }

    /// The new commits with all objects in which they differ from parents that the other side has
    /// or gets. Parents come before their children: what a child does not send because its parent
    /// has it must be there by then. In any other order two commits that exchange directories could
    /// each rely on the other.
    fn new_objects(
        &self,
        new: &[ObjectId],
        theirs: &HashSet<ObjectId>,
        filter: Filter,
    ) -> Result<Vec<ObjectId>> {
        let mut seen = HashSet::new();
        let mut objects = Vec::new();
        let order = self.parents_first(new);
        let sent: HashSet<&ObjectId> = order.iter().collect();
        for id in &order {
            let Some(commit) = self.get(id) else { continue };
            objects.push(*id);
            let has = |parent: &&ObjectId| theirs.contains(*parent) || sent.contains(*parent);
            let parents = commit.parents.iter().filter(has);
            let bases = parents.filter_map(|parent| self.get(parent).map(|known| known.tree));
            differing_objects(
                self.reader,
                commit.tree,
                bases.collect(),
                filter,
                &mut seen,
                &mut objects,
            )?;
        }
        Ok(objects)
    }

    /// These commits in another order: each after those of its parents that are among them.
    fn parents_first(&self, commits: &[ObjectId]) -> Vec<ObjectId> {
        let among: HashSet<&ObjectId> = commits.iter().collect();
        let mut entered = HashSet::new();
        let mut order = Vec::with_capacity(commits.len());
        // An explicit stack, because a history is deeper than any call stack.
        let mut stack: Vec<(ObjectId, bool)> = commits.iter().map(|id| (*id, false)).collect();
        while let Some((id, parents_done)) = stack.pop() {
            if parents_done {
                order.push(id);
            } else if entered.insert(id) {
                stack.push((id, true));
                let parents = self.get(&id).map_or(&[][..], |known| &known.parents);
                let parents = parents.iter().filter(|parent| among.contains(parent));
                stack.extend(parents.map(|parent| (*parent, false)));
            }
        }
        order
    }
}

#[derive(Default)]
struct Boundary {
    within: HashSet<ObjectId>,
    last: HashSet<ObjectId>,
}

/// Commits to visit, newest first, each once.
#[derive(Default)]
struct Queue {
    heap: BinaryHeap<(i64, ObjectId)>,
    seen: HashSet<ObjectId>,
    done: HashSet<ObjectId>,
}

impl Queue {
    /// Whether it was new; what is no commit is left out.
    fn push(&mut self, commits: &mut CommitGraph<'_>, id: ObjectId) -> Result<bool> {
        let Some(time) = commits.time(&id)? else {
            return Ok(false);
        };
        let fresh = self.seen.insert(id);
        if fresh {
            self.heap.push((time, id));
        }
        Ok(fresh)
    }

    fn pop(&mut self) -> Option<(i64, ObjectId)> {
        let next = self.heap.pop()?;
        self.done.insert(next.1);
        Some(next)
    }

    fn has_seen(&self, id: &ObjectId) -> bool {
        self.seen.contains(id)
    }

    fn is_queued(&self, id: &ObjectId) -> bool {
        self.seen.contains(id) && !self.done.contains(id)
    }
}

/// Adds what a tree reaches and none of the base trees has at the same place. Subtrees that are
/// equal to one of the bases' are not entered, and files that the filter means are left out.
fn differing_objects(
    reader: &dyn ObjectReader,
    tree: ObjectId,
    bases: Vec<ObjectId>,
    filter: Filter,
    seen: &mut HashSet<ObjectId>,
    found: &mut Vec<ObjectId>,
) -> Result<()> {
    if bases.contains(&tree) || !seen.insert(tree) {
        return Ok(());
    }
    let mut next = vec![(tree, bases)];
    while let Some((id, bases)) = next.pop() {
        found.push(id);
        let mut base_trees = Vec::with_capacity(bases.len());
        for base in &bases {
            base_trees.push(read_tree(reader, base)?);
        }
        for entry in read_tree(reader, &id)?.iter() {
            if git_mode(entry.mode) == Some(GitMode::Commit) || seen.contains(&entry.id) {
                continue;
            }
            let there = base_trees.iter().filter_map(|base| base.get(entry.name));
            let there: Vec<_> = there.collect();
            if there.iter().any(|base| base.id == entry.id) {
                continue;
            }
            seen.insert(entry.id);
            if entry.is_dir() {
                let below = there.iter().filter(|base| base.is_dir());
                next.push((entry.id, below.map(|base| base.id).collect()));
            } else if filter.sends(reader, &entry.id)? {
                found.push(entry.id);
            }
        }
    }
    Ok(())
}
