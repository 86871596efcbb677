//! The changes of one path, from the newest backwards, and which of them made a line come or go.
//!
//! Blame reads all of a file's history to tell the writer of every line. Where two sides conflict
//! only the part in conflict matters, and what happened to it is recent: the versions are read one
//! by one until each unit in question is explained. So the cost follows the conflict.

use std::collections::VecDeque;
use std::rc::Rc;

use offshoot_core::{ObjectId, RelPath, Result, Timestamp};
use offshoot_git::ObjectReader;
use offshoot_merge::{Granularity, Limits, Units};
use offshoot_store::{HistoryFilter, HistoryOp, HistoryRow, NewHistory, ReadTx, Via, WorkspaceKey};

/// How many lines of history are read at once.
const PAGE: usize = 32;

/// The prefix of the claim on a version that lost by a policy.
pub(crate) const LOST: &str = "lost to ";

/// Whether a line records a version that lost by a policy, and so never was the content of the
/// path.
pub(crate) fn is_loss(line: &NewHistory) -> bool {
    line.via == Via::Merge
        && line.op == HistoryOp::Write
        && line.before.is_none()
        && line
            .cause
            .claim
            .as_deref()
            .is_some_and(|claim| claim.starts_with(LOST))
}

/// The changes of one path in one workspace or project, newest first.
pub(crate) struct Trail<'a> {
    tx: &'a dyn ReadTx,
    place: WorkspaceKey,
    path: RelPath,
    /// The oldest line that was read.
    from: Option<i64>,
    page: VecDeque<HistoryRow>,
    ended: bool,
}

impl<'a> Trail<'a> {
    pub(crate) fn new(tx: &'a dyn ReadTx, place: WorkspaceKey, path: &RelPath) -> Trail<'a> {
        Trail {
            tx,
            place,
            path: path.clone(),
            from: None,
            page: VecDeque::new(),
            ended: false,
        }
    }

    /// The next older change. A version that lost by a policy is no change.
    pub(crate) fn next(&mut self) -> Result<Option<HistoryRow>> {
        use HistoryOp::{Create, Delete, Mode, Move, Write};
        loop {
            if let Some(row) = self.page.pop_front() {
                let line = &row.line;
                if [Create, Write, Delete, Mode, Move].contains(&line.op) && !is_loss(line) {
                    return Ok(Some(row));
                }
                continue;
            }
            if self.ended {
                return Ok(None);
            }
            let rows = self.tx.history(&HistoryFilter {
                workspace: Some(self.place),
                path: Some(self.path.clone()),
                before_seq: self.from,
                newest_first: true,
                limit: PAGE,
                ..HistoryFilter::default()
            })?;
            self.ended = rows.len() < PAGE;
            self.from = rows.last().map(|row| row.seq).or(self.from);
            self.page = rows.into();
        }
    }

    /// Skips the changes that are newer than a moment.
    pub(crate) fn upto(mut self, at: Timestamp) -> Result<Trail<'a>> {
        while let Some(row) = self.next()? {
            if row.line.at <= at {
                self.page.push_front(row);
                break;
            }
        }
        Ok(self)
    }

    /// What the path held before the first of the changes; none if it was not there.
    pub(crate) fn began_with(mut self) -> Result<Option<ObjectId>> {
        let mut first = None;
        while let Some(step) = self.next()? {
            first = self.before(&step, &[])?;
        }
        Ok(first)
    }

    /// What a file was before a change of it, and the changes before that: where it stood under
    /// another name, there.
    fn before(&mut self, step: &HistoryRow, other_names: &[RelPath]) -> Result<Option<ObjectId>> {
        let line = &step.line;
        if let (HistoryOp::Move, Some(from)) = (line.op, &line.from) {
            *self = Trail::new(self.tx, self.place, from);
            self.from = Some(step.seq);
            return Ok(line.after);
        }
        if line.op != HistoryOp::Create {
            return Ok(line.before);
        }
        for name in other_names.iter().filter(|name| **name != line.path) {
            let mut elsewhere = Trail::new(self.tx, self.place, name);
            while let Some(row) = elsewhere.next()? {
                if row.line.revision > line.revision {
                    continue;
                }
                if row.line.revision == line.revision && row.line.op == HistoryOp::Delete {
                    *self = elsewhere;
                    return Ok(row.line.before);
                }
                break;
            }
        }
        Ok(None)
    }
}

/// A unit that came or went, and what made it so.
pub(crate) struct UnitChange {
    /// Its number: of what is there now if it came, of the base if it went.
    pub(crate) unit: usize,
    pub(crate) came: bool,
    /// The change that did it; none if none was found.
    pub(crate) by: Option<HistoryRow>,
    /// What that change took away, if it went: the content before the change, and the unit there. It
    /// is another one than that of the base if others took its place first.
    taken: Option<(Rc<Units>, usize)>,
    state: TraceState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceState {
    /// Every version so far has it as it is now.
    Followed,
    /// An undo made it so again: an older version has it so, too.
    Undone,
    Found,
}

/// What a content became of a base, unit by unit.
pub(crate) struct ContentTrace {
    pub(crate) granularity: Granularity,
    pub(crate) base: Units,
    pub(crate) now: Units,
    pub(crate) marks: Vec<UnitChange>,
}

impl ContentTrace {
    /// None if one of the contents cannot be split into units.
    pub(crate) fn new(base: &[u8], now: &[u8], granularity: Granularity) -> Option<ContentTrace> {
        let limits = Limits::default();
        let (base, now) = (
            Units::cut(base, granularity, &limits)?,
            Units::cut(now, granularity, &limits)?,
        );
        let mark = |came: bool| {
            move |(unit, known): (usize, bool)| {
                (!known).then_some(UnitChange {
                    unit,
                    came,
                    by: None,
                    taken: None,
                    state: TraceState::Followed,
                })
            }
        };
        let came = now.found_in(&base, &limits).into_iter().enumerate();
        let went = base.found_in(&now, &limits).into_iter().enumerate();
        let marks = came
            .filter_map(mark(true))
            .chain(went.filter_map(mark(false)))
            .collect();
        Some(ContentTrace {
            granularity,
            base,
            now,
            marks,
        })
    }

    /// What the change that made a mark took away, if it went: a content, and the unit of it.
    pub(crate) fn gone<'a>(&'a self, mark: &'a UnitChange) -> (&'a Units, usize) {
        match &mark.taken {
            Some((units, unit)) => (units, *unit),
            None => (&self.base, mark.unit),
        }
    }

    /// A copy with one change that is not traced yet, to find the change of a workspace that led to
    /// it. `began_with` is what the workspace had at first: what it took away stood there, and may
    /// have been replaced in the project before that landed.
    pub(crate) fn only(&self, mark: &UnitChange, began_with: &Units) -> ContentTrace {
        let (mut base, mut unit) = (&self.base, mark.unit);
        if !mark.came {
            (base, unit) = self.gone(mark);
            let there = base.map_to(began_with, &Limits::default()).unit(unit);
            if let Some(there) = there {
                (base, unit) = (began_with, there);
            }
        }
        ContentTrace {
            granularity: self.granularity,
            base: base.clone(),
            now: self.now.clone(),
            marks: vec![UnitChange {
                unit,
                came: mark.came,
                by: None,
                taken: None,
                state: TraceState::Followed,
            }],
        }
    }

    /// Finds what made each mark. `undoes` tells whether a change took another one back: then the
    /// author is the one before that change.
    pub(crate) fn trace(
        &mut self,
        objects: &dyn ObjectReader,
        mut trail: Trail<'_>,
        other_names: &[RelPath],
        undoes: &dyn Fn(&HistoryRow) -> Result<bool>,
    ) -> Result<()> {
        let limits = Limits::default();
        let tx = trail.tx;
        let mut steps = Vec::new();
        let open = |marks: &[UnitChange]| marks.iter().any(|mark| mark.state != TraceState::Found);
        while open(&self.marks)
            && let Some(step) = trail.next()?
        {
            let before = PreviousContent(trail.before(&step, other_names)?);
            steps.push((step.clone(), before));
            let before = before.cut(tx, objects, self.granularity)?;
            let (now, base) = (
                self.now.found_in(&before, &limits),
                self.base.found_in(&before, &limits),
            );
            let mut is_undo = None;
            for mark in &mut self.marks {
                let same = match mark.came {
                    true => now[mark.unit],
                    false => !base[mark.unit],
                };
                match (mark.state, same) {
                    (TraceState::Undone, true) => mark.state = TraceState::Followed,
                    (TraceState::Followed, false) => {
                        let undone = match is_undo {
                            Some(known) => known,
                            None => *is_undo.insert(undoes(&step)?),
                        };
                        mark.by = Some(step.clone());
                        mark.state = match undone {
                            true => TraceState::Undone,
                            false => TraceState::Found,
                        };
                    }
                    _ => {}
                }
            }
        }
        self.follow_gone(tx, objects, &steps, undoes)
    }

    /// A unit of the base that others took the place of went with the last of these, unless what took
    /// that one away brought back that the place was empty. One whose place is taken now did not go:
    /// what stands there has an author of its own.
    fn follow_gone(
        &mut self,
        tx: &dyn ReadTx,
        objects: &dyn ObjectReader,
        steps: &[(HistoryRow, PreviousContent)],
        undoes: &dyn Fn(&HistoryRow) -> Result<bool>,
    ) -> Result<()> {
        let limits = Limits::default();
        let first = |mark: &UnitChange| {
            let by = mark.by.as_ref().filter(|_| !mark.came)?;
            steps.iter().position(|(step, _)| step.seq == by.seq)
        };
        let begins: Vec<Option<usize>> = self.marks.iter().map(first).collect();
        let Some(oldest) = begins.iter().flatten().max() else {
            return Ok(());
        };
        let mut places: Vec<Option<UnitPosition>> = vec![None; self.marks.len()];
        let mut before = Rc::new(steps[*oldest].1.cut(tx, objects, self.granularity)?);
        for at in (0..=*oldest).rev() {
            let after = match at.checked_sub(1) {
                Some(newer) => steps[newer].1.cut(tx, objects, self.granularity)?,
                None => self.now.clone(),
            };
            let followed = before.map_to(&after, &limits);
            let in_base = self.base.places_in(&before, &limits);
            for (number, mark) in self.marks.iter_mut().enumerate() {
                if begins[number] == Some(at) {
                    places[number] = in_base[mark.unit].map(UnitPosition::Unit);
                }
                let lead = self.base.lead(mark.unit);
                places[number] = match places[number] {
                    Some(UnitPosition::Unit(unit)) => Some(match followed.unit(unit) {
                        Some(unit) => UnitPosition::Unit(unit),
                        None => {
                            let step = &steps[at].0;
                            if mark.taken.is_none() || !undoes(step)? {
                                mark.by = Some(step.clone());
                                mark.taken = Some((Rc::clone(&before), unit));
                            }
                            UnitPosition::Gap(followed.gap(unit))
                        }
                    }),
                    Some(UnitPosition::Gap(gap)) => Some(match followed.filled(gap, lead) {
                        Some(unit) => UnitPosition::Unit(unit),
                        None => UnitPosition::Gap(followed.gap(gap)),
                    }),
                    None => None,
                };
            }
            before = Rc::new(after);
        }
        let mut places = places.into_iter();
        self.marks
            .retain(|_| !matches!(places.next(), Some(Some(UnitPosition::Unit(_)))));
        Ok(())
    }
}

/// Where a unit stands, or what took its place, or where it stood: before the unit of this number.
#[derive(Clone, Copy)]
enum UnitPosition {
    Unit(usize),
    Gap(usize),
}

/// What a path held before a change.
#[derive(Clone, Copy)]
struct PreviousContent(Option<ObjectId>);

impl PreviousContent {
    fn cut(
        self,
        tx: &dyn ReadTx,
        objects: &dyn ObjectReader,
        granularity: Granularity,
    ) -> Result<Units> {
        match self.0 {
            Some(id) => Ok(cut_object(tx, objects, &id, granularity)?.unwrap_or_default()),
            None => Ok(Units::default()),
        }
    }
}

/// An object, cut into its units. None if it cannot be, or is gone.
pub(crate) fn cut_object(
    tx: &dyn ReadTx,
    objects: &dyn ObjectReader,
    id: &ObjectId,
    granularity: Granularity,
) -> Result<Option<Units>> {
    let limits = Limits::default();
    if tx.object_size(id)?.is_none_or(|size| size > limits.bytes) {
        return Ok(None);
    }
    let bytes = objects.read(id)?;
    Ok(bytes.and_then(|(_, bytes)| Units::cut(&bytes, granularity, &limits)))
}
