//! Blame: who wrote each line of a file, when and why, followed through merges.
//!
//! The history names every content that a path had, so only those contents are read and compared:
//! the cost follows the versions of the path, not the size of the project. Beside that, the rows of
//! the project's snapshots and merges are read once, and where a line is older than the import of
//! the project, the imported snapshots are looked at one by one.
//!
//! A line that a merge brought is looked up in the workspace it came from, and a line that the
//! workspace had from its base in the project again. What an undo, a restore or `take_lost` brings
//! back keeps its first author. A line that no source has, such as two edits put together word by
//! word, belongs to the author of that version. A move that was asked for is followed; a rename
//! that a program made outside is a deletion and a new file, so attribution ends there.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use offshoot_core::{
    Cause, EntryKind, Error, ErrorCode, ObjectId, ProjectId, RelPath, Result, Timestamp,
    WorkspaceId,
};
use offshoot_git::ObjectReader;
use offshoot_merge::{Limits, equal_lines, is_binary, lines};
use offshoot_store::{HistoryFilter, HistoryOp, HistoryRow, ReadTx, Via, WorkspaceKey};

use crate::content::index::Index;
use crate::content::objects::StoredObjects;
use crate::content::rows::{no_file, open_project, open_row_in, state_of, state_of_row};
use crate::history::History;
use crate::history::blame_places::HistoryOwner;
use crate::history::blame_sources::restore_sources;
use crate::history::trail::is_loss;

/// How many workspaces and projects a line is followed through before its attribution ends.
const MAX_DEPTH: usize = 64;

/// The workspace or project whose file is blamed.
#[derive(Clone, Copy, Debug)]
pub enum BlameTarget<'a> {
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

impl History {
    /// Who wrote each line of a file as it is now, or in a snapshot. What outside programs did in
    /// a workspace is recorded first.
    pub fn blame(
        &self,
        of: BlameTarget<'_>,
        at: Option<&str>,
        path: &RelPath,
    ) -> Result<Vec<BlameLine>> {
        if let (BlameTarget::Workspace(id), None) = (of, at) {
            self.sync.sync_if_handed_out(id)?;
        }
        self.store().read(|tx| {
            let row = match of {
                BlameTarget::Workspace(id) => open_row_in(tx, id)?,
                BlameTarget::Project(id) => open_project(tx, id)?,
            };
            let objects = self.contents.objects_in(tx);
            let (kind, content, upto) = match at {
                Some(text) => {
                    let snapshot = self.contents.find_snapshot(tx, &row, text)?;
                    let entry = state_of(&snapshot).entry(&objects, path)?;
                    let entry = entry.ok_or_else(|| no_file(path))?;
                    (entry.kind, entry.id, snapshot.at)
                }
                None => {
                    let entry = match of {
                        BlameTarget::Workspace(_) => Index::new(self.store(), tx, &row)
                            .entry(path)?
                            .map(|entry| (entry.kind, entry.id)),
                        BlameTarget::Project(_) => state_of_row(&row)
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
                _ => Error::invalid(format!("`{path}` is a link, which has no lines")),
            })?;
            let mut tracer = Tracer::new(tx, objects);
            let text = tracer.text(&content)?.ok_or_else(|| not_text(path))?;
            let attributed = tracer.attributed(row.key, path, content, upto)?;
            let attributed = attributed.ok_or_else(|| Error::internal("a file has no history"))?;
            Ok(tracer.answer(&text, &attributed))
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
pub(crate) struct LineOrigin {
    /// The workspace or project in which they were written.
    pub(crate) place: WorkspaceKey,
    pub(crate) operator: String,
    pub(crate) agent: Option<String>,
    pub(crate) message_id: Option<String>,
    pub(crate) snapshot: Option<ObjectId>,
    pub(crate) at: Timestamp,
}

/// A content, and the origin of each of its lines.
#[derive(Clone)]
pub(crate) struct AttributedContent {
    pub(crate) content: Option<ObjectId>,
    pub(crate) lines: Rc<[usize]>,
}

/// The versions of one path in one place, oldest first.
pub(crate) struct PathVersions {
    pub(crate) versions: Rc<[HistoryRow]>,
    /// Contents that lost when a policy decided. They are versions that never stood there.
    pub(crate) lost: Rc<[(ObjectId, Timestamp)]>,
    /// What stood there before the first version.
    pub(crate) beginning: Option<AttributedContent>,
    /// The oldest versions, as many as are attributed so far.
    pub(crate) done: Vec<AttributedContent>,
    pub(crate) busy: bool,
}

pub(crate) struct Tracer<'a> {
    pub(crate) tx: &'a dyn ReadTx,
    pub(crate) objects: StoredObjects<'a>,
    pub(crate) origins: Vec<LineOrigin>,
    pub(crate) chains: HashMap<(WorkspaceKey, RelPath), PathVersions>,
    pub(crate) places: HashMap<WorkspaceKey, Option<Rc<HistoryOwner>>>,
    pub(crate) depth: usize,
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

    fn answer(&self, text: &[u8], attributed: &AttributedContent) -> Vec<BlameLine> {
        let with_origin = lines(text).into_iter().zip(attributed.lines.iter());
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
    fn attributed(
        &mut self,
        key: WorkspaceKey,
        path: &RelPath,
        content: ObjectId,
        upto: Timestamp,
    ) -> Result<Option<AttributedContent>> {
        if self.depth >= MAX_DEPTH || self.place(key)?.is_none() {
            return Ok(None);
        }
        self.depth += 1;
        let chain = self.chain(key, path)?;
        let found = chain
            .versions
            .iter()
            .rposition(|one| one.line.at <= upto && one.line.after == Some(content));
        let attributed = match found {
            Some(index) => self.version(key, path, index),
            None => self.beginning(key, path, content).map(Some),
        };
        self.depth -= 1;
        attributed
    }

    /// The lines of what a snapshot has at a path. None if there is no file, or if attribution ends
    /// here.
    pub(crate) fn attributed_at(
        &mut self,
        key: WorkspaceKey,
        path: &RelPath,
        snapshot: &ObjectId,
    ) -> Result<Option<AttributedContent>> {
        let Some(row) = self.tx.snapshot(key, snapshot)? else {
            return Ok(None);
        };
        let entry = state_of(&row).entry(&self.objects, path)?;
        match entry.filter(|entry| entry.kind == EntryKind::File) {
            Some(entry) => match entry.id {
                Some(content) => self.attributed(key, path, content, row.at),
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    pub(crate) fn chain(&mut self, key: WorkspaceKey, path: &RelPath) -> Result<&mut PathVersions> {
        let at = (key, path.clone());
        if !self.chains.contains_key(&at) {
            let rows = self.tx.history(&HistoryFilter {
                workspace: Some(key),
                path: Some(path.clone()),
                ..HistoryFilter::default()
            })?;
            let (lost, rows): (Vec<_>, Vec<_>) =
                rows.into_iter().partition(|row| is_loss(&row.line));
            let versions = rows.into_iter().filter(|row| {
                use HistoryOp::{Create, Delete, Move, Write};
                [Create, Write, Delete, Move].contains(&row.line.op)
            });
            let lost = lost
                .iter()
                .filter_map(|row| row.line.after.map(|id| (id, row.line.at)));
            self.chains.insert(
                at.clone(),
                PathVersions {
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
    ) -> Result<Option<AttributedContent>> {
        loop {
            let chain = self.chain(key, path)?;
            if let Some(done) = chain.done.get(index) {
                return Ok(Some(done.clone()));
            }
            // An older version depends on a newer one only if a clock was set back.
            if chain.busy {
                return Ok(None);
            }
            chain.busy = true;
            let next = chain.done.len();
            let attributed = self.step(key, path, next);
            let chain = self.chain(key, path)?;
            chain.busy = false;
            chain.done.push(attributed?);
        }
    }

    /// Attributes the lines of the next version.
    fn step(
        &mut self,
        key: WorkspaceKey,
        path: &RelPath,
        index: usize,
    ) -> Result<AttributedContent> {
        let chain = self.chain(key, path)?;
        let (version, lost) = (chain.versions[index].clone(), chain.lost.clone());
        let line = &version.line;
        let content = line.after.filter(|_| line.kind == Some(EntryKind::File));
        let text = match content {
            Some(id) => self.text(&id)?.map(|text| (id, text)),
            None => None,
        };
        let Some((content, text)) = text else {
            return Ok(AttributedContent {
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
            if let Some(moved) = self.attributed(key, from, content, just_before)? {
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
        let earlier: Vec<AttributedContent> = match line.via {
            Via::Sync => Vec::new(),
            _ => chain.beginning.iter().chain(&chain.done).cloned().collect(),
        };
        let is_lost = lost.iter().find(|(id, at)| *id == content && *at < line.at);
        let landed = place.snapshot_since(line.at);
        let sources = match line.via {
            Via::Merge => self.merged_from(&place, path, landed, &earlier)?,
            Via::Restore => restore_sources(&earlier, content),
            Via::Update => self.base_of_update(&place, path, line.revision)?,
            _ => match is_lost {
                Some((_, at)) => self.lost_to_policy(&place, path, content, *at, &earlier)?,
                None => Vec::new(),
            },
        };
        for source in sources {
            if taken.iter().all(Option::is_some) {
                break;
            }
            self.take(&mut taken, &text, &source)?;
        }
        let own = self.add_origin(LineOrigin {
            place: key,
            operator: line.cause.operator.to_string(),
            agent: place.agent.clone().or_else(|| line.cause.claim.clone()),
            message_id: line.cause.message_id.clone(),
            snapshot: landed.map(|row| row.id),
            at: line.at,
        });
        let mut marks: Vec<usize> = taken.into_iter().map(|one| one.unwrap_or(own)).collect();
        if place.is_project() {
            let merge = landed.and_then(|row| place.merges_behind(path, row.id).next());
            let message = merge.map_or(&line.cause, |merge| &merge.cause);
            self.land(&mut marks, key, landed.map(|row| row.id), message);
        }
        Ok(AttributedContent {
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
                    // An outside program gives no message; the request that merged its files may
                    // have one.
                    origin.message_id = origin.message_id.or_else(|| cause.message_id.clone());
                    self.add_origin(origin)
                }
            };
            known.insert(*mark, here);
            *mark = here;
        }
    }

    /// Gives lines that have no origin yet the one that an equal line of the source has.
    pub(crate) fn take(
        &self,
        taken: &mut [Option<usize>],
        text: &[u8],
        source: &AttributedContent,
    ) -> Result<()> {
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

    pub(crate) fn all_from(&self, content: ObjectId, origin: usize) -> Result<AttributedContent> {
        let count = self.text(&content)?.map_or(0, |text| lines(&text).len());
        Ok(AttributedContent {
            content: Some(content),
            lines: vec![origin; count].into(),
        })
    }

    /// The text of a content. None if it has no lines, or was erased.
    pub(crate) fn text(&self, id: &ObjectId) -> Result<Option<Arc<[u8]>>> {
        let size = self.tx.object_size(id)?;
        if size.is_none_or(|size| size > Limits::default().bytes) {
            return Ok(None);
        }
        let bytes = self.objects.read(id)?.map(|(_, bytes)| bytes);
        Ok(bytes.filter(|bytes| !is_binary(bytes)))
    }

    pub(crate) fn add_origin(&mut self, origin: LineOrigin) -> usize {
        self.origins.push(origin);
        self.origins.len() - 1
    }

    /// A workspace or project, closed ones too. None if it was erased.
    pub(crate) fn place(&mut self, key: WorkspaceKey) -> Result<Option<Rc<HistoryOwner>>> {
        if let Some(known) = self.places.get(&key) {
            return Ok(known.clone());
        }
        let place = match self.tx.workspace_by_key(key)? {
            Some(row) => Some(Rc::new(HistoryOwner::read(self.tx, row)?)),
            None => None,
        };
        self.places.insert(key, place.clone());
        Ok(place)
    }
}
