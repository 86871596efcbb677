//! Who wrote what two sides have where they conflict, and with what weight.
//!
//! Authors of the project's side are those who brought the conflicting lines, or members of JSON,
//! and those who removed what the base had there; a version that lost by a policy counts for
//! nothing. What a merge brought is the work of the agent whose workspace it was, with that
//! workspace's priority. What a person put there, or decided otherwise than the workspace had it,
//! weighs nothing. What an undo brought back is the work of its first author. A part that several
//! have changed belongs to the one of the highest priority.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use offshoot_core::{Cause, EntryKind, ObjectId, RelPath, Result, Timestamp};
use offshoot_git::ObjectReader;
use offshoot_merge::{Conflict, ConflictKind, Granularity, Limits, TreeEntry, Units};
use offshoot_store::{
    ForkRow, HistoryFilter, HistoryOp, HistoryRow, MergeRow, ReadTx, ReviewRow, Via, WorkspaceRow,
};

use crate::content::rows::agent_of;
use crate::history::trail::{ContentTrace, Trail, UnitChange, cut_object};
use crate::merge::review_row::{Who, who};
use crate::merge::three_way::ThreeStates;

/// Who is behind one side of a conflict.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    /// The operator who wrote it, the agent as the claim, and the message that led to it.
    pub(crate) cause: Cause,
    pub(crate) at: Timestamp,
    pub(crate) priority: i64,
}

impl Author {
    pub(crate) fn who(&self) -> Who {
        who(&self.cause, self.at)
    }

    /// The agent, or else the operator.
    pub(crate) fn name(&self) -> String {
        let operator = || self.cause.operator.to_string();
        self.cause.claim.clone().unwrap_or_else(operator)
    }
}

/// The authors of both sides of a conflict, for each of its parts; one of each for all of it.
pub(crate) struct ConflictAuthors {
    pub(crate) ours: Vec<Option<Author>>,
    pub(crate) theirs: Vec<Option<Author>>,
}

impl ConflictAuthors {
    /// Who is named for the whole conflict: of the highest priority, and of those the latest.
    pub(crate) fn first(side: &[Option<Author>]) -> Option<&Author> {
        let known = side.iter().flatten();
        known.max_by_key(|author| (author.priority, author.at))
    }

    pub(crate) fn attributions(&self) -> (Option<Who>, Option<Who>) {
        let of = |side: &[Option<Author>]| ConflictAuthors::first(side).map(Author::who);
        (of(&self.ours), of(&self.theirs))
    }
}

/// Where a change of the project came from.
enum Source {
    Merge(MergeRow),
    /// An edit of the project itself, not a merge.
    Person(Cause),
}

impl Source {
    fn priority(&self) -> i64 {
        match self {
            Source::Merge(merge) => merge.priority,
            Source::Person(_) => 0,
        }
    }
}

/// What landed together with a change of the project.
struct Landed {
    op: HistoryOp,
    merges: Vec<MergeRow>,
    reviews: Vec<ReviewRow>,
}

/// Finds the authors of conflicts between a project and one workspace.
pub(crate) struct Authors<'a> {
    pub(crate) tx: &'a dyn ReadTx,
    pub(crate) objects: &'a dyn ObjectReader,
    pub(crate) project: &'a WorkspaceRow,
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) fork: &'a ForkRow,
    pub(crate) states: ThreeStates<'a>,
    /// The message of the request for the merge.
    pub(crate) message_id: Option<&'a str>,
    /// By the number of the line of history.
    landed: RefCell<HashMap<i64, Rc<Landed>>>,
}

impl<'a> Authors<'a> {
    pub(crate) fn new(
        tx: &'a dyn ReadTx,
        objects: &'a dyn ObjectReader,
        project: &'a WorkspaceRow,
        (row, fork): (&'a WorkspaceRow, &'a ForkRow),
        states: ThreeStates<'a>,
        message_id: Option<&'a str>,
    ) -> Authors<'a> {
        Authors {
            tx,
            objects,
            project,
            row,
            fork,
            states,
            message_id,
            landed: RefCell::default(),
        }
    }

    /// The authors of both sides of a conflict.
    pub(crate) fn sides(&self, conflict: &Conflict) -> Result<ConflictAuthors> {
        Ok(ConflictAuthors {
            ours: self.ours(conflict)?,
            theirs: self.theirs(conflict)?,
        })
    }

    /// The author of what the project has at a path: of its last change, or of the change that an
    /// undo brought back.
    pub(crate) fn last_of_ours(&self, path: &RelPath) -> Result<Option<Author>> {
        let mut trail = Trail::new(self.tx, self.project.key, path);
        let Some(last) = trail.next()? else {
            return Ok(None);
        };
        let undoes = |step: &HistoryRow| Ok(self.landed(step)?.op == HistoryOp::MergeUndo);
        if undoes(&last)? {
            while let Some(older) = trail.next()? {
                if older.line.after == last.line.after && !undoes(&older)? {
                    return self.author(&older, None, path).map(Some);
                }
            }
        }
        self.author(&last, None, path).map(Some)
    }

    /// Who changed a path of the workspace last.
    pub(crate) fn last_of_theirs(&self, path: &RelPath) -> Result<Option<Author>> {
        let step = Trail::new(self.tx, self.row.key, path).next()?;
        Ok(step.map(|step| self.own(&step)))
    }

    fn ours(&self, conflict: &Conflict) -> Result<Vec<Option<Author>>> {
        let at = conflict.ours_path.as_ref().unwrap_or(&conflict.path);
        let mut names = conflict.related.clone();
        names.push(conflict.path.clone());
        let trail = || Trail::new(self.tx, self.project.key, at);
        if let Some(content) = &conflict.content {
            let (base, ours) = (&content.sides.base, &content.sides.ours);
            if let Some(mut changed) = ContentTrace::new(base, ours, content.granularity()) {
                self.trace_ours(&mut changed, trail(), &names)?;
                let parts = content.parts.iter().map(|part| {
                    let in_part = |mark: &&UnitChange| match mark.came {
                        true => (part.ours.as_ref())
                            .is_some_and(|range| changed.now.is_in(mark.unit, range)),
                        false => (part.base.as_ref())
                            .is_some_and(|range| changed.base.is_in(mark.unit, range)),
                    };
                    let marks: Vec<&UnitChange> = changed.marks.iter().filter(in_part).collect();
                    match self.strongest_author(&changed, &marks, at)? {
                        Some(author) => Ok(Some(author)),
                        None => self.last_of_ours(at),
                    }
                });
                return parts.collect();
            }
        }
        let mut known: Vec<Author> = Vec::new();
        if let Some(mut changed) = self.changed_file(conflict.base, conflict.ours)? {
            self.trace_ours(&mut changed, trail(), &names)?;
            let marks: Vec<&UnitChange> = changed.marks.iter().collect();
            known.extend(self.strongest_author(&changed, &marks, at)?);
        }
        if known.is_empty() {
            for path in self.changed_paths(conflict)? {
                known.extend(self.last_of_ours(&path)?);
            }
        }
        let first = known.into_iter().max_by_key(|one| (one.priority, one.at));
        let parts = conflict
            .content
            .as_ref()
            .map_or(1, |content| content.parts.len());
        Ok(vec![first; parts])
    }

    /// A file that ours has changed, as lines. None if it has none.
    fn changed_file(
        &self,
        base: Option<TreeEntry>,
        ours: Option<TreeEntry>,
    ) -> Result<Option<ContentTrace>> {
        let is_file = |entry: &TreeEntry| entry.mode.kind() == EntryKind::File;
        let Some(ours) = ours.filter(is_file) else {
            return Ok(None);
        };
        let read = |id: &ObjectId| -> Result<Option<_>> {
            let size = self.tx.object_size(id)?;
            match size.is_some_and(|size| size <= Limits::default().bytes) {
                true => Ok(self.objects.read(id)?.map(|(_, bytes)| bytes)),
                false => Ok(None),
            }
        };
        let now = read(&ours.id)?;
        let base = match base.filter(is_file) {
            Some(base) => read(&base.id)?,
            None => Some(Vec::new().into()),
        };
        let (Some(base), Some(now)) = (base, now) else {
            return Ok(None);
        };
        Ok(ContentTrace::new(&base, &now, Granularity::Lines))
    }

    /// The paths of a conflict that ours has changed, where it stands there as a whole.
    fn changed_paths(&self, conflict: &Conflict) -> Result<Vec<RelPath>> {
        let blocking = conflict.blockers.values().flatten();
        let mut paths: Vec<RelPath> = [&conflict.path]
            .into_iter()
            .chain(&conflict.ours_path)
            .chain(&conflict.related)
            .chain(blocking)
            .cloned()
            .collect();
        paths.sort();
        paths.dedup();
        let mut changed = Vec::new();
        for path in paths {
            let before = self.states.base.entry(self.objects, &path)?;
            if self.states.ours.entry(self.objects, &path)? != before {
                changed.push(path);
            }
        }
        Ok(changed)
    }

    fn trace_ours(
        &self,
        changed: &mut ContentTrace,
        trail: Trail<'_>,
        names: &[RelPath],
    ) -> Result<()> {
        let undoes = |step: &HistoryRow| Ok(self.landed(step)?.op == HistoryOp::MergeUndo);
        changed.trace(self.objects, trail, names, &undoes)
    }

    /// Of the authors who added or removed these units, the one with the highest priority.
    fn strongest_author(
        &self,
        changed: &ContentTrace,
        marks: &[&UnitChange],
        path: &RelPath,
    ) -> Result<Option<Author>> {
        let mut best: Option<(i64, Timestamp, &UnitChange, &HistoryRow)> = None;
        for mark in marks {
            let Some(step) = &mark.by else { continue };
            let priority = self.source(step, Some((changed, mark)))?.priority();
            let is_better = best
                .as_ref()
                .is_none_or(|(known, at, ..)| (*known, *at) < (priority, step.line.at));
            if is_better {
                best = Some((priority, step.line.at, mark, step));
            }
        }
        match best {
            Some((_, _, mark, step)) => self.author(step, Some((changed, mark)), path).map(Some),
            None => Ok(None),
        }
    }

    /// What landed together with a change of the project. It is found by its snapshot, which is
    /// named by the line about the whole project that precedes the lines of its paths.
    fn landed(&self, step: &HistoryRow) -> Result<Rc<Landed>> {
        if let Some(known) = self.landed.borrow().get(&step.seq) {
            return Ok(Rc::clone(known));
        }
        let top = self.tx.history(&HistoryFilter {
            workspace: Some(self.project.key),
            path: Some(RelPath::root()),
            before_seq: Some(step.seq),
            newest_first: true,
            limit: 1,
            ..HistoryFilter::default()
        })?;
        let top = top
            .first()
            .filter(|top| top.line.revision == step.line.revision);
        let mut landed = Landed {
            op: top.map_or(step.line.op, |top| top.line.op),
            merges: Vec::new(),
            reviews: Vec::new(),
        };
        if let Some(snapshot) = top.and_then(|top| top.line.after) {
            landed.merges = self.tx.merges_landed_as(self.project.key, &snapshot)?;
            landed.reviews = self.tx.reviews_landed_as(self.project.key, &snapshot)?;
        }
        let landed = Rc::new(landed);
        self.landed
            .borrow_mut()
            .insert(step.seq, Rc::clone(&landed));
        Ok(landed)
    }

    fn source(
        &self,
        step: &HistoryRow,
        unit: Option<(&ContentTrace, &UnitChange)>,
    ) -> Result<Source> {
        let landed = self.landed(step)?;
        let person = || Source::Person(step.line.cause.clone());
        let merge = || {
            landed
                .merges
                .first()
                .cloned()
                .map_or_else(person, Source::Merge)
        };
        Ok(match landed.op {
            HistoryOp::Merge => merge(),
            HistoryOp::ReviewResolve => {
                let reviews = landed.reviews.iter();
                match reviews.clone().find(|review| review.path == step.line.path) {
                    None => merge(),
                    Some(review) if self.is_theirs(review, step, unit)? => self
                        .tx
                        .merge(&review.merge)?
                        .map_or_else(person, Source::Merge),
                    Some(_) => person(),
                }
            }
            _ => person(),
        })
    }

    /// Whether a decision took this from the workspace.
    fn is_theirs(
        &self,
        review: &ReviewRow,
        step: &HistoryRow,
        unit: Option<(&ContentTrace, &UnitChange)>,
    ) -> Result<bool> {
        let Some((changed, mark)) = unit else {
            return Ok(step.line.after == review.theirs);
        };
        let theirs = match review.theirs {
            Some(id) => {
                cut_object(self.tx, self.objects, &id, changed.granularity)?.unwrap_or_default()
            }
            None => return Ok(!mark.came),
        };
        let limits = Limits::default();
        Ok(match mark.came {
            true => changed.now.found_in(&theirs, &limits)[mark.unit],
            false => {
                let (units, unit) = changed.gone(mark);
                !units.found_in(&theirs, &limits)[unit]
            }
        })
    }

    /// The author of a change of the project, or of one unit of it.
    fn author(
        &self,
        step: &HistoryRow,
        unit: Option<(&ContentTrace, &UnitChange)>,
        path: &RelPath,
    ) -> Result<Author> {
        let merge = match self.source(step, unit)? {
            Source::Merge(merge) => merge,
            Source::Person(cause) => {
                return Ok(Author {
                    cause,
                    at: step.line.at,
                    priority: 0,
                });
            }
        };
        let written = self.written(&merge, unit, path)?;
        let mut cause = merge.cause.clone();
        cause.claim = self.agent_of_merge(&merge)?;
        if let Some(line) = &written {
            cause.operator = line.line.cause.operator.clone();
            cause.message_id = line.line.cause.message_id.clone().or(cause.message_id);
        }
        Ok(Author {
            cause,
            at: written.map_or(step.line.at, |line| line.line.at),
            priority: merge.priority,
        })
    }

    fn agent_of_merge(&self, merge: &MergeRow) -> Result<Option<String>> {
        let row = self.tx.workspace_by_key(merge.workspace)?;
        let fork = self.tx.fork(merge.workspace)?;
        Ok(match (row, fork) {
            (Some(row), Some(fork)) => Some(agent_of(&row, &fork)),
            _ => merge.cause.claim.clone(),
        })
    }

    /// The line of a workspace's history with which something that its merge brought was written.
    fn written(
        &self,
        merge: &MergeRow,
        unit: Option<(&ContentTrace, &UnitChange)>,
        path: &RelPath,
    ) -> Result<Option<HistoryRow>> {
        let trail = || Trail::new(self.tx, merge.workspace, path).upto(merge.at);
        let Some((changed, mark)) = unit else {
            let last = trail()?.next()?;
            return Ok(last.filter(|row| row.line.via != Via::Update));
        };
        let first = match mark.came {
            true => None,
            false => trail()?.began_with()?,
        };
        let began_with = match first {
            Some(id) => {
                cut_object(self.tx, self.objects, &id, changed.granularity)?.unwrap_or_default()
            }
            None => Units::default(),
        };
        let mut one = changed.only(mark, &began_with);
        one.trace(self.objects, trail()?, &[], &|_| Ok(false))?;
        let by = one.marks.pop().and_then(|mark| mark.by);
        Ok(by.filter(|row| row.line.via != Via::Update))
    }

    /// Who wrote the parts of the workspace's side: always its agent, but with the operator and
    /// the message of the write.
    fn theirs(&self, conflict: &Conflict) -> Result<Vec<Option<Author>>> {
        let at = match conflict.kind {
            ConflictKind::BothRenamed => conflict.related.last().unwrap_or(&conflict.path),
            _ => &conflict.path,
        };
        let mut names = conflict.related.clone();
        names.push(conflict.path.clone());
        if let Some(content) = &conflict.content
            && let Some(mut changed) = ContentTrace::new(
                &content.sides.base,
                &content.sides.theirs,
                content.granularity(),
            )
        {
            let trail = Trail::new(self.tx, self.row.key, at);
            changed.trace(self.objects, trail, &names, &|_| Ok(false))?;
            let parts = content.parts.iter().map(|part| {
                let in_part = |mark: &&UnitChange| match mark.came {
                    true => (part.theirs.as_ref())
                        .is_some_and(|range| changed.now.is_in(mark.unit, range)),
                    false => (part.base.as_ref())
                        .is_some_and(|range| changed.base.is_in(mark.unit, range)),
                };
                let steps = changed
                    .marks
                    .iter()
                    .filter(in_part)
                    .filter_map(|mark| mark.by.as_ref());
                let newest = steps.max_by_key(|step| step.seq);
                Some(newest.map_or_else(|| self.author_without_history(), |step| self.own(step)))
            });
            return Ok(parts.collect());
        }
        let mut last = None;
        for path in [at].into_iter().chain(&conflict.related) {
            let step = Trail::new(self.tx, self.row.key, path).next()?;
            let own = step.filter(|step| step.line.via != Via::Update);
            last = last.or(own);
        }
        let author = last.map_or_else(|| self.author_without_history(), |step| self.own(&step));
        let parts = conflict
            .content
            .as_ref()
            .map_or(1, |content| content.parts.len());
        Ok(vec![Some(author); parts])
    }

    fn own(&self, step: &HistoryRow) -> Author {
        let mut cause = step.line.cause.clone();
        cause.claim = Some(agent_of(self.row, self.fork));
        cause.message_id = cause.message_id.or(self.message_id.map(str::to_owned));
        Author {
            cause,
            at: step.line.at,
            priority: self.fork.priority,
        }
    }

    /// The author where the workspace's history has no line, such as for what it began with.
    fn author_without_history(&self) -> Author {
        let mut cause = Cause::by(offshoot_core::Operator::system());
        cause.claim = Some(agent_of(self.row, self.fork));
        cause.message_id = self.message_id.map(str::to_owned);
        Author {
            cause,
            at: self.row.changed_at,
            priority: self.fork.priority,
        }
    }
}
