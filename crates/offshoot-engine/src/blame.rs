//! Blame: who wrote each line of a file, when and why, followed through merges.
//!
//! The history names every content that a path had, so only those contents are read and compared:
//! the cost follows the versions of the path, not the size of the project. Beside that, the rows of
//! the project's snapshots and merges are read once, and where a line is older than the import of
//! the project, the imported snapshots are looked at one by one.
//!
//! A line that a merge brought is looked up in the workspace it came from, and a line that the
//! workspace had from its base in the project again. What an undo, a restore or `take_lost` brings
//! back belongs to whoever wrote it first. What no source has, such as two edits put together word
//! by word, belongs to whoever made that version. A move that was asked for is followed; a rename
//! that a program made outside is a deletion and a new file, so attribution ends there.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use offshoot_core::{
    Cause, EntryKind, Error, ErrorCode, ObjectId, Operator, ProjectId, RelPath, Result, Timestamp,
    WorkspaceId,
};
use offshoot_git::ObjectReader;
use offshoot_merge::{Limits, equal_lines, is_binary, lines};
use offshoot_store::{
    HistoryFilter, HistoryOp, HistoryRow, MergeRow, ReadTx, ReviewRow, SnapshotRow, Via,
    WorkspaceKey, WorkspaceKind, WorkspaceRow,
};

use crate::engine::{Engine, no_file, open_row_in};
use crate::index::Index;
use crate::objects::StoredObjects;
use crate::project::{open_project, state_of_row};
use crate::snapshot::state_of;

/// How many places a line is followed through before its attribution ends.
const MAX_DEPTH: usize = 64;

/// Whose file it is.
#[derive(Clone, Copy, Debug)]
pub enum BlameOf<'a> {
    /// A workspace's.
    Workspace(&'a WorkspaceId),
    /// A project's.
    Project(&'a ProjectId),
}

/// One line of a file and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlameLine {
    /// The line, with its newline.
    pub text: Vec<u8>,
    /// Who wrote it.
    pub operator: String,
    /// The agent whose workspace it was written in, or on whose behalf the operator said to act.
    pub agent: Option<String>,
    /// The message of a conversation that led to it.
    pub message_id: Option<String>,
    /// The snapshot that has it first: of the project if it is there, else of the workspace; none
    /// if no snapshot was taken since.
    pub snapshot: Option<ObjectId>,
    /// When it was written.
    pub at: Timestamp,
}

impl Engine {
    /// Who wrote each line of a file as it is now, or in a snapshot. What outside programs did in
    /// a workspace is recorded first.
    pub fn blame(
        &self,
        of: BlameOf<'_>,
        at: Option<&str>,
        path: &RelPath,
        cause: &Cause,
    ) -> Result<Vec<BlameLine>> {
        if let (BlameOf::Workspace(id), None) = (of, at) {
            self.sync_if_handed_out(id, cause)?;
        }
        self.store().read(|tx| {
            let row = match of {
                BlameOf::Workspace(id) => open_row_in(tx, id)?,
                BlameOf::Project(id) => open_project(tx, id)?,
            };
            let objects = self.objects_in(tx);
            let (kind, content, upto) = match at {
                Some(text) => {
                    let snapshot = self.find_snapshot(tx, &row, text)?;
                    let entry = state_of(&snapshot).entry(&objects, path)?;
                    let entry = entry.ok_or_else(|| no_file(path))?;
                    (entry.kind, entry.id, snapshot.at)
                }
                None => {
                    let entry = match of {
                        BlameOf::Workspace(_) => Index::new(self.store(), tx, &row)
                            .entry(path)?
                            .map(|entry| (entry.kind, entry.id)),
                        BlameOf::Project(_) => state_of_row(&row)
                            .entry(&objects, path)?
                            .map(|entry| (entry.kind, entry.id)),
                    };
                    let (kind, id) = entry.ok_or_else(|| no_file(path))?;
                    (kind, id, Timestamp(i64::MAX))
                }
            };
            let content = content.filter(|_| kind == EntryKind::File);
            let content = content.ok_or_else(|| match kind {
                EntryKind::Dir => {
                    Error::new(ErrorCode::IsADirectory, format!("`{path}` is a directory"))
                }
                _ => Error::new(ErrorCode::Unsupported, format!("`{path}` is no file")),
            })?;
            let mut tracer = Tracer::new(tx, objects);
            let text = tracer.text(&content)?.ok_or_else(|| not_text(path))?;
            let marked = tracer.marked(row.key, path, content, upto)?;
            let marked = marked.ok_or_else(|| Error::internal("a file has no history"))?;
            Ok(tracer.answer(&text, &marked))
        })
    }
}

fn not_text(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::Unsupported,
        format!("`{path}` has no lines: it is binary or too large"),
    )
    .with_hint("the history of the path shows who wrote each version")
}

/// Where lines come from.
#[derive(Clone)]
struct Origin {
    /// The workspace or project in which they were written.
    place: WorkspaceKey,
    operator: String,
    agent: Option<String>,
    message_id: Option<String>,
    snapshot: Option<ObjectId>,
    at: Timestamp,
}

/// A content, and the origin of each of its lines.
#[derive(Clone)]
struct Marked {
    content: Option<ObjectId>,
    lines: Rc<[usize]>,
}

/// The versions of one path in one place, oldest first.
struct Chain {
    versions: Rc<[HistoryRow]>,
    /// Contents that lost when a policy decided. They are versions that never stood there.
    lost: Rc<[(ObjectId, Timestamp)]>,
    /// What stood there before the first version.
    beginning: Option<Marked>,
    /// As many of the versions as have been looked at.
    done: Vec<Marked>,
    busy: bool,
}

/// A workspace or project, with what its lines of history do not say themselves.
struct Place {
    row: WorkspaceRow,
    /// For a fork.
    project: Option<WorkspaceKey>,
    agent: Option<String>,
    /// Oldest first.
    snapshots: Vec<SnapshotRow>,
    /// How many of them came with the import that the project began with.
    imported: usize,
    /// For a fork: the revision of each update and the base that it moved to.
    updates: HashMap<i64, ObjectId>,
    /// Whether it began as a snapshot of something else.
    has_origin: bool,
    /// For a project, newest first.
    merges: Vec<MergeRow>,
    reviews: Vec<ReviewRow>,
}

impl Place {
    /// The first snapshot that has what was written at that time.
    fn snapshot_since(&self, at: Timestamp) -> Option<&SnapshotRow> {
        // Those that came with an import have times of their own.
        let taken_here = &self.snapshots[self.imported..];
        let first = taken_here.partition_point(|one| one.at < at);
        taken_here.get(first)
    }

    fn is_project(&self) -> bool {
        self.row.kind == WorkspaceKind::Project
    }
}

struct Tracer<'a> {
    tx: &'a dyn ReadTx,
    objects: StoredObjects<'a>,
    origins: Vec<Origin>,
    chains: HashMap<(WorkspaceKey, RelPath), Chain>,
    places: HashMap<WorkspaceKey, Option<Rc<Place>>>,
    depth: usize,
}

impl<'a> Tracer<'a> {
    fn new(tx: &'a dyn ReadTx, objects: StoredObjects<'a>) -> Self {
        Tracer {
            tx,
            objects,
            origins: Vec::new(),
            chains: HashMap::new(),
            places: HashMap::new(),
            depth: 0,
        }
    }

    fn answer(&self, text: &[u8], marked: &Marked) -> Vec<BlameLine> {
        let with_origin = lines(text).into_iter().zip(marked.lines.iter());
        with_origin
            .map(|(line, &origin)| {
                let origin = &self.origins[origin];
                BlameLine {
                    text: line.to_vec(),
                    operator: origin.operator.clone(),
                    agent: origin.agent.clone(),
                    message_id: origin.message_id.clone(),
                    snapshot: origin.snapshot,
                    at: origin.at,
                }
            })
            .collect()
    }

    /// The lines of a content that a path had at a time. None if attribution ends here.
    fn marked(
        &mut self,
        key: WorkspaceKey,
        path: &RelPath,
        content: ObjectId,
        upto: Timestamp,
    ) -> Result<Option<Marked>> {
        if self.depth >= MAX_DEPTH || self.place(key)?.is_none() {
            return Ok(None);
        }
        self.depth += 1;
        let chain = self.chain(key, path)?;
        let found = chain
            .versions
            .iter()
            .rposition(|one| one.line.at <= upto && one.line.after == Some(content));
        let marked = match found {
            Some(index) => self.version(key, path, index),
            None => self.beginning(key, path, content).map(Some),
        };
        self.depth -= 1;
        marked
    }

    /// The same for what a snapshot has at a path. None also if there is no file.
    fn marked_at(
        &mut self,
        key: WorkspaceKey,
        path: &RelPath,
        snapshot: &ObjectId,
    ) -> Result<Option<Marked>> {
        let Some(row) = self.tx.snapshot(key, snapshot)? else {
            return Ok(None);
        };
        let entry = state_of(&row).entry(&self.objects, path)?;
        match entry.filter(|entry| entry.kind == EntryKind::File) {
            Some(entry) => match entry.id {
                Some(content) => self.marked(key, path, content, row.at),
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    fn chain(&mut self, key: WorkspaceKey, path: &RelPath) -> Result<&mut Chain> {
        let at = (key, path.clone());
        if !self.chains.contains_key(&at) {
            let rows = self.tx.history(&HistoryFilter {
                workspace: Some(key),
                path: Some(path.clone()),
                ..HistoryFilter::default()
            })?;
            let (lost, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_lost);
            let versions = rows.into_iter().filter(|row| {
                use HistoryOp::{Create, Delete, Move, Write};
                [Create, Write, Delete, Move].contains(&row.line.op)
            });
            let lost = lost
                .iter()
                .filter_map(|row| row.line.after.map(|id| (id, row.line.at)));
            self.chains.insert(
                at.clone(),
                Chain {
                    versions: versions.collect(),
                    lost: lost.collect(),
                    beginning: None,
                    done: Vec::new(),
                    busy: false,
                },
            );
        }
        self.chains
            .get_mut(&at)
            .ok_or_else(|| Error::internal("a chain of versions is gone"))
    }

    /// One version of a path, and before it all the older ones, so that none is compared twice.
    fn version(
        &mut self,
        key: WorkspaceKey,
        path: &RelPath,
        index: usize,
    ) -> Result<Option<Marked>> {
        loop {
            let chain = self.chain(key, path)?;
            if let Some(done) = chain.done.get(index) {
                return Ok(Some(done.clone()));
            }
            // Something older asks for something newer only if a clock was set back.
            if chain.busy {
                return Ok(None);
            }
            chain.busy = true;
            let next = chain.done.len();
            let marked = self.step(key, path, next);
            let chain = self.chain(key, path)?;
            chain.busy = false;
            chain.done.push(marked?);
        }
    }

    /// Marks the version after those that are done.
    fn step(&mut self, key: WorkspaceKey, path: &RelPath, index: usize) -> Result<Marked> {
        let chain = self.chain(key, path)?;
        let (version, lost) = (chain.versions[index].clone(), chain.lost.clone());
        let line = &version.line;
        let content = line.after.filter(|_| line.kind == Some(EntryKind::File));
        let text = match content {
            Some(id) => self.text(&id)?.map(|text| (id, text)),
            None => None,
        };
        let Some((content, text)) = text else {
            return Ok(Marked {
                content: line.after,
                lines: Rc::from([]),
            });
        };
        let Some(place) = self.place(key)? else {
            return Err(Error::internal("a version belongs to nothing"));
        };
        let mut taken = vec![None; lines(&text).len()];
        if let (HistoryOp::Move, Some(from)) = (line.op, &line.from) {
            let just_before = Timestamp(line.at.0 - 1);
            if let Some(moved) = self.marked(key, from, content, just_before)? {
                self.take(&mut taken, &text, &moved)?;
            }
        } else if let Some(before) = line.before {
            let done = &self.chain(key, path)?.done;
            let before = match done.iter().rev().find(|one| one.content == Some(before)) {
                Some(done) => done.clone(),
                None => self.beginning(key, path, before)?,
            };
            self.take(&mut taken, &text, &before)?;
        }
        let chain = self.chain(key, path)?;
        let earlier: Vec<Marked> = match line.via {
            Via::Sync => Vec::new(),
            _ => chain.beginning.iter().chain(&chain.done).cloned().collect(),
        };
        let is_lost = lost.iter().find(|(id, at)| *id == content && *at < line.at);
        let landed = place.snapshot_since(line.at);
        let sources = match line.via {
            Via::Merge => self.merged_from(&place, path, landed, &earlier)?,
            Via::Restore => back_to(&earlier, content),
            Via::Update => self.base_of_update(&place, path, line.revision)?,
            _ => match is_lost {
                Some((_, at)) => self.what_lost(&place, path, content, *at, &earlier)?,
                None => Vec::new(),
            },
        };
        for source in sources {
            if taken.iter().all(Option::is_some) {
                break;
            }
            self.take(&mut taken, &text, &source)?;
        }
        let own = self.add_origin(Origin {
            place: key,
            operator: line.cause.operator.to_string(),
            agent: place.agent.clone().or_else(|| line.cause.claim.clone()),
            message_id: line.cause.message_id.clone(),
            snapshot: landed.map(|row| row.id),
            at: line.at,
        });
        let mut marks: Vec<usize> = taken.into_iter().map(|one| one.unwrap_or(own)).collect();
        if place.is_project() {
            let merge = landed.and_then(|row| merges_behind(&place, path, row.id).next());
            let message = merge.map_or(&line.cause, |merge| &merge.cause);
            self.land(&mut marks, key, landed.map(|row| row.id), message);
        }
        Ok(Marked {
            content: Some(content),
            lines: marks.into(),
        })
    }

    /// Lines of a workspace that are in the project now have their snapshot there.
    fn land(
        &mut self,
        marks: &mut [usize],
        project: WorkspaceKey,
        landed: Option<ObjectId>,
        cause: &Cause,
    ) {
        let mut known: HashMap<usize, usize> = HashMap::new();
        for mark in marks {
            if self.origins[*mark].place == project {
                continue;
            }
            let here = match known.get(mark) {
                Some(here) => *here,
                None => {
                    let mut origin = self.origins[*mark].clone();
                    origin.place = project;
                    origin.snapshot = landed;
                    // A program that writes files says nothing; who had them merged may have.
                    origin.message_id = origin.message_id.or_else(|| cause.message_id.clone());
                    self.add_origin(origin)
                }
            };
            known.insert(*mark, here);
            *mark = here;
        }
    }

    /// What a merge, a decision about a conflict, or an undo could have its lines from.
    fn merged_from(
        &mut self,
        place: &Place,
        path: &RelPath,
        landed: Option<&SnapshotRow>,
        earlier: &[Marked],
    ) -> Result<Vec<Marked>> {
        let Some(landed) = landed.map(|row| row.id) else {
            return Ok(Vec::new());
        };
        if place.merges.iter().any(|one| one.undone_by == Some(landed)) {
            return Ok(earlier.iter().rev().cloned().collect());
        }
        let reviews = place.reviews.iter();
        let decided: Vec<&ReviewRow> = reviews
            .filter(|one| one.snapshot == Some(landed) && one.path == *path)
            .collect();
        let mut sources = Vec::new();
        for merge in merges_behind(place, path, landed) {
            sources.extend(self.marked_at(merge.workspace, path, &merge.theirs)?);
        }
        for review in decided {
            if let Some(base) = review.base {
                sources.extend(
                    earlier
                        .iter()
                        .rev()
                        .find(|one| one.content == Some(base))
                        .cloned(),
                );
            }
            for candidate in self.tx.candidates(&review.id)? {
                let origin = self.add_origin(Origin {
                    place: place.row.key,
                    operator: candidate.cause.operator.to_string(),
                    agent: candidate.cause.claim,
                    message_id: candidate.cause.message_id,
                    snapshot: Some(landed),
                    at: candidate.at,
                });
                sources.push(self.all_from(candidate.content, origin)?);
            }
        }
        Ok(sources)
    }

    /// What lost at a path, brought back: it stood there before, or in the workspace of the merge.
    fn what_lost(
        &mut self,
        place: &Place,
        path: &RelPath,
        content: ObjectId,
        at: Timestamp,
        earlier: &[Marked],
    ) -> Result<Vec<Marked>> {
        let stood = earlier
            .iter()
            .rev()
            .find(|one| one.content == Some(content));
        if let Some(stood) = stood {
            return Ok(vec![stood.clone()]);
        }
        let merge = place.merges.iter().find(|merge| merge.at == at);
        let found = match merge {
            Some(merge) => self.marked_at(merge.workspace, path, &merge.theirs)?,
            None => None,
        };
        Ok(found.into_iter().collect())
    }

    fn base_of_update(
        &mut self,
        place: &Place,
        path: &RelPath,
        revision: i64,
    ) -> Result<Vec<Marked>> {
        let found = match (place.project, place.updates.get(&revision)) {
            (Some(project), Some(base)) => self.marked_at(project, path, base)?,
            _ => None,
        };
        Ok(found.into_iter().collect())
    }

    /// What stood at a path before its history in this place begins: it was there in the snapshot
    /// that the place began with, or came with an import.
    fn beginning(
        &mut self,
        key: WorkspaceKey,
        path: &RelPath,
        content: ObjectId,
    ) -> Result<Marked> {
        if let Some(known) = &self.chain(key, path)?.beginning
            && known.content == Some(content)
        {
            return Ok(known.clone());
        }
        let Some(place) = self.place(key)? else {
            return Err(Error::internal("a version belongs to nothing"));
        };
        let found = match place.has_origin {
            true => self.from_origin(&place, path)?,
            false => self.imported(&place, path, content)?,
        };
        let marked = match found.filter(|one| one.content == Some(content)) {
            Some(marked) => marked,
            // Nothing tells, such as after a purge: it was there when the place came into being.
            None => {
                let origin = self.add_origin(Origin {
                    place: key,
                    operator: Operator::system().to_string(),
                    agent: None,
                    message_id: None,
                    snapshot: place.snapshots.first().map(|row| row.id),
                    at: place.row.created_at,
                });
                self.all_from(content, origin)?
            }
        };
        self.chain(key, path)?.beginning = Some(marked.clone());
        Ok(marked)
    }

    /// What an import brought, through the snapshots that came with it. The history has no lines
    /// for these, so each of them is looked at, as git would.
    fn imported(
        &mut self,
        place: &Place,
        path: &RelPath,
        content: ObjectId,
    ) -> Result<Option<Marked>> {
        let mut versions: Vec<(&SnapshotRow, ObjectId)> = Vec::new();
        for row in place.snapshots[..place.imported].iter().rev() {
            let entry = state_of(row).entry(&self.objects, path)?;
            let id = entry
                .filter(|entry| entry.kind == EntryKind::File)
                .and_then(|entry| entry.id);
            match (versions.last_mut(), id) {
                (None, Some(id)) if id == content => versions.push((row, id)),
                (None, _) => {}
                (Some(_), None) => break,
                (Some((since, last)), Some(id)) if *last == id => *since = row,
                (Some(_), Some(id)) => versions.push((row, id)),
            }
        }
        let mut marked: Option<Marked> = None;
        for (row, content) in versions.into_iter().rev() {
            let own = self.add_origin(Origin {
                place: place.row.key,
                operator: row.cause.operator.to_string(),
                agent: row.cause.claim.clone(),
                message_id: row.cause.message_id.clone(),
                snapshot: Some(row.id),
                at: row.at,
            });
            let mut next = self.all_from(content, own)?;
            if let (Some(before), Some(text)) = (&marked, self.text(&content)?) {
                let mut taken = vec![None; next.lines.len()];
                self.take(&mut taken, &text, before)?;
                next.lines = taken.into_iter().map(|one| one.unwrap_or(own)).collect();
            }
            marked = Some(next);
        }
        Ok(marked)
    }

    /// What the snapshot that a workspace began with has, in the place that made the snapshot.
    fn from_origin(&mut self, place: &Place, path: &RelPath) -> Result<Option<Marked>> {
        let Some(origin) = place.snapshots.first().map(|row| row.id) else {
            return Ok(None);
        };
        if let Some(project) = place.project
            && self.tx.snapshot(project, &origin)?.is_some()
        {
            return self.marked_at(project, path, &origin);
        }
        let mut rows = self.tx.all_workspaces()?;
        rows.sort_by_key(|row| row.key);
        for row in rows {
            if row.key < place.row.key && self.tx.snapshot(row.key, &origin)?.is_some() {
                return self.marked_at(row.key, path, &origin);
            }
        }
        Ok(None)
    }

    /// Gives lines that have no origin yet the one that an equal line of the source has.
    fn take(&self, taken: &mut [Option<usize>], text: &[u8], source: &Marked) -> Result<()> {
        let Some(content) = source.content else {
            return Ok(());
        };
        let Some(other) = self.text(&content)? else {
            return Ok(());
        };
        for run in equal_lines(&other, text, &Limits::default()) {
            for step in 0..run.len {
                let slot = &mut taken[run.after + step];
                *slot = slot.or(source.lines.get(run.before + step).copied());
            }
        }
        Ok(())
    }

    fn all_from(&self, content: ObjectId, origin: usize) -> Result<Marked> {
        let count = self.text(&content)?.map_or(0, |text| lines(&text).len());
        Ok(Marked {
            content: Some(content),
            lines: vec![origin; count].into(),
        })
    }

    /// The text of a content. None if it has no lines, or was erased.
    fn text(&self, id: &ObjectId) -> Result<Option<Arc<[u8]>>> {
        let size = self.tx.object_size(id)?;
        if size.is_none_or(|size| size > Limits::default().bytes) {
            return Ok(None);
        }
        let bytes = self.objects.read(id)?.map(|(_, bytes)| bytes);
        Ok(bytes.filter(|bytes| !is_binary(bytes)))
    }

    fn add_origin(&mut self, origin: Origin) -> usize {
        self.origins.push(origin);
        self.origins.len() - 1
    }

    /// A workspace or project, closed ones too. None if it was erased.
    fn place(&mut self, key: WorkspaceKey) -> Result<Option<Rc<Place>>> {
        if let Some(known) = self.places.get(&key) {
            return Ok(known.clone());
        }
        let place = match self.tx.workspace_by_key(key)? {
            Some(row) => Some(Rc::new(self.read_place(row)?)),
            None => None,
        };
        self.places.insert(key, place.clone());
        Ok(place)
    }

    /// An import is the first thing that happens to a project, if it happens.
    fn imported_snapshots(&self, place: &Place) -> Result<usize> {
        let first = self.tx.history(&HistoryFilter {
            workspace: Some(place.row.key),
            path: Some(RelPath::root()),
            limit: 1,
            ..HistoryFilter::default()
        })?;
        let import = first
            .first()
            .filter(|row| row.line.op == HistoryOp::Import)
            .and_then(|row| row.line.after);
        let last = place
            .snapshots
            .iter()
            .position(|row| Some(row.id) == import);
        Ok(last.map_or(0, |last| last + 1))
    }

    fn read_place(&self, row: WorkspaceRow) -> Result<Place> {
        let mut snapshots = self.tx.snapshots(row.key, 0)?;
        snapshots.reverse();
        let mut place = Place {
            project: None,
            agent: None,
            snapshots,
            imported: 0,
            updates: HashMap::new(),
            has_origin: false,
            merges: Vec::new(),
            reviews: Vec::new(),
            row,
        };
        let key = place.row.key;
        if place.is_project() {
            place.imported = self.imported_snapshots(&place)?;
            place.merges = self.tx.merges(key, 0)?;
            place.reviews = self.tx.reviews(Some(key), false)?;
            return Ok(place);
        }
        if let Some(fork) = self.tx.fork(key)? {
            place.project = Some(fork.project);
            let agent = fork.agent.as_ref().map(ToString::to_string);
            place.agent = Some(agent.unwrap_or_else(|| place.row.id.to_string()));
        }
        let about_all = self.tx.history(&HistoryFilter {
            workspace: Some(key),
            path: Some(RelPath::root()),
            ..HistoryFilter::default()
        })?;
        for HistoryRow { line, .. } in about_all {
            match (line.op, line.after) {
                (HistoryOp::WorkspaceCreate, after) => place.has_origin = after.is_some(),
                (HistoryOp::Update, Some(base)) => {
                    place.updates.insert(line.revision, base);
                }
                _ => {}
            }
        }
        Ok(place)
    }
}

/// The merges that a snapshot of a project brought to a path: it landed one, or a decision about a
/// conflict that one had found.
fn merges_behind<'a>(
    place: &'a Place,
    path: &'a RelPath,
    landed: ObjectId,
) -> impl Iterator<Item = &'a MergeRow> {
    let reviews = place.reviews.iter();
    let decided: Vec<&str> = reviews
        .filter(|review| review.snapshot == Some(landed) && review.path == *path)
        .map(|review| review.merge.as_str())
        .collect();
    place
        .merges
        .iter()
        .filter(move |merge| merge.snapshot == Some(landed) || decided.contains(&merge.id.as_str()))
}

/// What lost by a policy is kept as a write over nothing, which no other line is.
fn is_lost(row: &HistoryRow) -> bool {
    let line = &row.line;
    line.via == Via::Merge && line.op == HistoryOp::Write && line.before.is_none()
}

/// The versions that a restore can have its lines from: the one with that very content, or any.
fn back_to(earlier: &[Marked], content: ObjectId) -> Vec<Marked> {
    let same = earlier
        .iter()
        .rev()
        .find(|one| one.content == Some(content));
    match same {
        Some(same) => vec![same.clone()],
        None => earlier.iter().rev().cloned().collect(),
    }
}
