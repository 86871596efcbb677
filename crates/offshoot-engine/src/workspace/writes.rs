//! Writes of single files, made together.
//!
//! Those who write to one workspace at the same time are gathered. One of them runs the
//! transaction for all, which looks at the workspace and counts its revision on once, and puts the
//! files in place under one lock and after one look at what is newest by then. While it does the
//! latter, the next one runs the transaction of those who came meanwhile.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use offshoot_core::{
    Cause, EntryKind, Error, ErrorCode, ObjectId, PLAIN_FILE_PERM, RelPath, Result, Timestamp,
    WorkspaceId,
};
use offshoot_fs::{SafeDir, Staged, Sync};
use offshoot_store::{
    Durability, EntryRow, Gather, HistoryOp, NewHistory, NewObject, ReadTx, Via, WorkspaceKey,
    WorkspaceRow, WriteTx,
};

use crate::content::counters::Tally;
use crate::content::draft::Draft;
use crate::content::history_writer::{LineFor, changed_row};
use crate::content::incoming::Incoming;
use crate::content::index::{Entry, Index, missing_of, new_dir_rows};
use crate::content::left_out::refuse_ours_in;
use crate::content::workspace_row::check_quota;
use crate::directory::git_layer::refuse_own_git;
use crate::engine::Engine;
use crate::sync::guard::{Held, is_still};
use crate::workspace::files::{
    Target, WriteOptions, Written, check_expectation, refuse_unmakeable,
};

/// The writes of so many are made together.
const MOST_TOGETHER: usize = 256;
/// So many workspaces are remembered as being written to before those that are not are forgotten.
const MOST_LANES: usize = 256;

/// A file to be written: all that the transaction needs.
pub(crate) struct NewFile {
    pub(crate) target: Target,
    pub(crate) id: ObjectId,
    pub(crate) object: NewObject,
    pub(crate) size: i64,
    pub(crate) options: WriteOptions,
    pub(crate) via: Via,
    pub(crate) cause: Cause,
    pub(crate) at: Timestamp,
}

/// A file that is written in the store, and has to be put in place.
pub(crate) struct Landed {
    pub(crate) path: RelPath,
    pub(crate) revision: i64,
    pub(crate) created: bool,
    entry: Entry,
    /// The workspace before.
    pub(crate) row: WorkspaceRow,
}

/// A file that somebody wants written whole.
#[derive(Clone, Debug, Default)]
pub struct FileToWrite {
    /// Where.
    pub path: RelPath,
    /// All of its new content.
    pub content: Vec<u8>,
    /// How.
    pub options: WriteOptions,
}

/// A file that is hashed and compressed.
pub struct ReadyFile {
    target: Target,
    incoming: Incoming,
    options: WriteOptions,
}

impl ReadyFile {
    /// Where it goes.
    pub(crate) fn path(&self) -> &RelPath {
        self.target.path()
    }
}

/// A write that waits for others: what is written, and the file with the content.
pub(crate) type Waiting = (NewFile, Staged);

/// Writes of one who holds the workspace, and as what it is held.
struct Party {
    held: WorkspaceRow,
    writes: Vec<Waiting>,
}

/// What becomes of a write. None, and nothing has changed, if the workspace is not what it was held
/// for.
type Answer = Result<Option<Landed>>;

type Lane = Gather<Party, Vec<Answer>>;

/// Those who write now, by workspace.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<HashMap<WorkspaceKey, Weak<Lane>>>);

impl Lanes {
    fn of(&self, key: WorkspaceKey) -> Arc<Lane> {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(&key).and_then(Weak::upgrade) {
            return lane;
        }
        if lanes.len() >= MOST_LANES {
            lanes.retain(|_, lane| lane.strong_count() > 0);
        }
        let lane = Arc::default();
        lanes.insert(key, Arc::downgrade(&lane));
        lane
    }
}

/// What a write will do, known before anything is done.
struct Planned {
    /// What is there now, with its bytes.
    before: Option<(Entry, i64)>,
    new_dirs: Vec<EntryRow>,
    entry: EntryRow,
}

impl Planned {
    /// Its line of history.
    fn line(&self, lines: &LineFor<'_>, file: &NewFile) -> NewHistory {
        let op = match self.before {
            None => HistoryOp::Create,
            Some(_) => HistoryOp::Write,
        };
        let mut written = lines.file(op, &self.entry.path, EntryKind::File);
        written.before = self.before.and_then(|(entry, _)| entry.id);
        written.after = Some(file.id);
        written.size = file.size;
        written.mime = file.options.mime.clone();
        written
    }
}

impl Engine {
    /// Makes a file ready to be written. This is all of a write that needs no disk, if the file is
    /// small.
    pub fn make_ready(&self, file: FileToWrite) -> Result<ReadyFile> {
        self.require_space()?;
        Ok(ReadyFile {
            target: Target::Exactly(file.path),
            incoming: self.take_in_bytes(file.content)?,
            options: file.options,
        })
    }

    /// Writes files, each by itself: what one of them is refused for does not concern the others.
    /// They are answered in their order, and survive a power cut then. Faster than one after the
    /// other.
    pub fn write_files(
        &self,
        id: &WorkspaceId,
        files: &mut [(ReadyFile, &Cause)],
    ) -> Vec<Result<Written>> {
        let mut answers = Vec::with_capacity(files.len());
        while let Some(rest) = files
            .get_mut(answers.len()..)
            .filter(|rest| !rest.is_empty())
        {
            match self.hold_as_remembered(id) {
                Ok(Some(held)) => answers.extend(self.write_all_held(id, held, rest)),
                // It has to be held in another way, or cannot be: that is said of each of them.
                _ => answers.extend(rest.first_mut().map(|file| self.write_one(id, file))),
            }
        }
        answers
    }

    fn write_one(
        &self,
        id: &WorkspaceId,
        (file, cause): &mut (ReadyFile, &Cause),
    ) -> Result<Written> {
        let (incoming, options) = (&mut file.incoming, &file.options);
        self.write_incoming(id, &file.target, incoming, options, Via::Call, cause)
    }

    fn write_all_held(
        &self,
        id: &WorkspaceId,
        held: Held,
        files: &mut [(ReadyFile, &Cause)],
    ) -> Vec<Result<Written>> {
        let (mut writes, mut refused) = (Vec::new(), Vec::new());
        for (file, cause) in &mut *files {
            let (target, options) = (&file.target, &file.options);
            let write = self.waiting(&held, target, &mut file.incoming, options, Via::Call, cause);
            refused.push(write.map(|write| writes.push(write)).err());
        }
        let mut landed = self.write_landing(&held, writes).into_iter();
        self.after_writes(held);
        let mut answer = |file: &mut (ReadyFile, &Cause), refused| match refused {
            Some(error) => Err(error),
            None => match landed.next() {
                Some(Ok(Some(landed))) => {
                    Ok(self.written(landed, &file.0.incoming, &file.0.options))
                }
                Some(Err(error)) => Err(error),
                // The workspace is not what it was remembered as.
                Some(Ok(None)) => self.write_one(id, file),
                None => Err(Error::internal("a write has no answer")),
            },
        };
        let files = files.iter_mut().zip(refused);
        files.map(|(file, refused)| answer(file, refused)).collect()
    }

    /// A write as it waits for others. The bytes go to disk before the commit, so that a full disk
    /// is found in time.
    pub(crate) fn waiting(
        &self,
        held: &Held,
        target: &Target,
        incoming: &mut Incoming,
        options: &WriteOptions,
        via: Via,
        cause: &Cause,
    ) -> Result<Waiting> {
        let mut staged = match self.spares_for(&held.row) {
            Some(spares) => SafeDir::stage_from(&spares, PLAIN_FILE_PERM)?,
            None => held.dir.stage(PLAIN_FILE_PERM)?,
        };
        incoming.copy_to(&mut staged)?;
        if let Some(modified) = options.modified {
            staged.set_modified(modified);
        }
        let file = NewFile {
            target: target.clone(),
            id: incoming.id,
            object: incoming.object.clone(),
            size: incoming.size,
            options: options.clone(),
            via,
            cause: cause.clone(),
            at: self.now(),
        };
        Ok((file, staged))
    }

    /// What the writer of a file is told.
    pub(crate) fn written(
        &self,
        landed: Landed,
        incoming: &Incoming,
        options: &WriteOptions,
    ) -> Written {
        if Self::checkpoint_is_due(&landed.row, landed.revision) {
            self.inner.checkpoint_due.store(true, Ordering::Relaxed);
        }
        let path = landed.path;
        let mime = crate::content::mime::of(options.mime.as_deref(), path.name(), &incoming.head);
        Written {
            path,
            size: incoming.size,
            mime,
            version: landed.revision,
            id: incoming.id,
            created: landed.created,
        }
    }

    /// Lets a workspace go after writes, and does what is due then.
    pub(crate) fn after_writes(&self, held: Held) {
        drop(held);
        if self.inner.checkpoint_due.swap(false, Ordering::Relaxed) {
            // The writes are done; a checkpoint that fails is tried again with a later one.
            let _ = self.checkpoint_if_due();
        }
    }

    /// Writes files to a workspace that is held, together with others who do.
    pub(crate) fn write_landing(&self, held: &Held, writes: Vec<Waiting>) -> Vec<Answer> {
        let count = writes.len();
        let party = Party {
            held: held.row.clone(),
            writes,
        };
        let answers = if held.exclusive {
            self.write_together(held, vec![party], &mut || {}).pop()
        } else {
            let lane = self.inner.lanes.of(held.row.key);
            lane.run(party, MOST_TOGETHER, |parties, pass_on| {
                self.write_together(held, parties, pass_on)
            })
        };
        answers.unwrap_or_else(|| {
            // Whoever led has panicked, and may have left files that are not in place.
            self.inner.needs_recovery.store(true, Ordering::Relaxed);
            let forgotten = || Err(Error::internal("a write was forgotten"));
            std::iter::repeat_with(forgotten).take(count).collect()
        })
    }

    /// Answers writes to one workspace, all of whose owners hold it. Calls `committed` when another
    /// transaction may follow.
    fn write_together(
        &self,
        held: &Held,
        parties: Vec<Party>,
        committed: &mut dyn FnMut(),
    ) -> Vec<Vec<Answer>> {
        let counts: Vec<usize> = parties.iter().map(|party| party.writes.len()).collect();
        let (mut files, mut staged) = (Vec::new(), Vec::new());
        for party in parties {
            for (file, content) in party.writes {
                files.push((party.held.clone(), file));
                staged.push(content);
            }
        }
        let files = Arc::new(files);
        let mut answers = match self.land_together(&files, 0, files.len()) {
            Ok(answers) => answers,
            Err(error) if files.len() == 1 => vec![Err(error)],
            // One of them may have spoilt it for all: each for itself.
            Err(_) => (0..files.len())
                .map(|n| {
                    let mut answers = self.land_together(&files, n, n + 1)?;
                    answers.pop().unwrap_or(Ok(None))
                })
                .collect(),
        };
        committed();
        let landed = answers.iter().zip(staged);
        let landed: Vec<(&Landed, Staged)> = landed
            .filter_map(|(answer, staged)| Some((answer.as_ref().ok()?.as_ref()?, staged)))
            .collect();
        let mut placed = self.put_in_place(held, landed).into_iter();
        for answer in &mut answers {
            if let Ok(Some(_)) = answer
                && let Some(Err(error)) = placed.next()
            {
                *answer = Err(error);
            }
        }
        let mut answers = answers.into_iter();
        counts
            .into_iter()
            .map(|count| answers.by_ref().take(count).collect())
            .collect()
    }

    /// Commits some of these writes. An error says that none of them is.
    fn land_together(
        &self,
        files: &Arc<Vec<(WorkspaceRow, NewFile)>>,
        from: usize,
        to: usize,
    ) -> Result<Vec<Answer>> {
        let (engine, files) = (self.clone(), Arc::clone(files));
        self.store().write_shared(Durability::Synced, move |tx| {
            let files = files.get(from..to).unwrap_or_default();
            let Some((first, _)) = files.first() else {
                return Ok(Vec::new());
            };
            let Some(mut row) = tx.workspace_by_key(first.key)? else {
                return Ok(files.iter().map(|_| Ok(None)).collect());
            };
            let began = row.revision;
            let mut answers = Vec::with_capacity(files.len());
            for (held, file) in files {
                if !is_still(held, &row) {
                    answers.push(Ok(None));
                    continue;
                }
                let landed = match engine.plan_write(tx, &row, file) {
                    Err(refused) => Err(refused),
                    Ok((planned, next)) => {
                        let before = std::mem::replace(&mut row, next);
                        Ok(Some(put_planned(tx, before, &row, file, planned)?))
                    }
                };
                answers.push(landed);
            }
            if row.revision > began {
                tx.update_workspace(&row)?;
            }
            Ok(answers)
        })
    }

    /// Commits one write to a workspace as it is.
    pub(crate) fn land_write(
        &self,
        tx: &mut dyn WriteTx,
        row: WorkspaceRow,
        file: &NewFile,
    ) -> Result<Landed> {
        let (planned, next) = self.plan_write(tx, &row, file)?;
        tx.update_workspace(&next)?;
        put_planned(tx, row, &next, file, planned)
    }

    /// Says why a write would be refused, if it would be now.
    pub(crate) fn refuse_write(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        file: &NewFile,
    ) -> Result<()> {
        self.plan_write(tx, row, file).map(drop)
    }

    /// Finds out what a write does to a workspace, or why it is refused. Also gives the row of the
    /// workspace that goes with it.
    fn plan_write(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        file: &NewFile,
    ) -> Result<(Planned, WorkspaceRow)> {
        let mut next = changed_row(row, file.at);
        next.materialized = true;
        let planned = plan_file(&Index::new(self.store(), tx, row), next.revision, file)?;
        // Of what `put_planned` puts, before it does: a write that is refused has put nothing.
        let mut tally = Tally::default();
        for dir in &planned.new_dirs {
            tally.put(None, dir)?;
        }
        tally.put(planned.before, &planned.entry)?;
        tally.add_to(&mut next);
        check_quota(row, &next)?;
        Ok((planned, next))
    }

    /// Puts files in place that are committed.
    fn put_in_place(&self, held: &Held, files: Vec<(&Landed, Staged)>) -> Vec<Result<()>> {
        let landed: Vec<&Landed> = files.iter().map(|(landed, _)| *landed).collect();
        let mut placed = vec![false; files.len()];
        // What fails is tried once more from the store; if that fails too, the next start of any
        // process puts it right.
        let _ = self.place(held, files, &mut placed);
        landed
            .into_iter()
            .zip(placed)
            .map(|(landed, placed)| match placed {
                true => Ok(()),
                false => self.project_again(held, std::slice::from_ref(&landed.path)),
            })
            .collect()
    }

    /// Puts files in place and marks those for which the directory holds a version at least as new:
    /// our caller would otherwise read one from before its write.
    fn place(&self, held: &Held, files: Vec<(&Landed, Staged)>, placed: &mut [bool]) -> Result<()> {
        let _turn = self.turn(held)?;
        let mut newest = vec![true; files.len()];
        if !held.exclusive {
            self.store().read(|tx| {
                for ((landed, _), newest) in files.iter().zip(&mut newest) {
                    *newest = self.is_newest(tx, &held.row, landed)?;
                }
                Ok(())
            })?;
        }
        let several = files.len() > 1;
        let mut done: HashSet<&RelPath> = HashSet::new();
        for (n, (landed, mut staged)) in files.into_iter().enumerate().rev() {
            if !newest[n] {
                placed[n] = done.contains(&landed.path);
                continue;
            }
            staged.set_replaces(!landed.created);
            staged.set_perm(landed.entry.perm);
            let Ok(stat) = held.dir.commit(staged, &landed.path, true, Sync::None) else {
                continue;
            };
            if let (Some(id), false) = (landed.entry.id, held.row.handed_out) {
                self.inner.content_ids.put(&stat, id, true);
            }
            placed[n] = true;
            if several {
                done.insert(&landed.path);
            }
        }
        Ok(())
    }

    /// Whether nobody has changed the path since.
    fn is_newest(&self, tx: &dyn ReadTx, row: &WorkspaceRow, landed: &Landed) -> Result<bool> {
        // A row of that revision was written by that write and by nobody else.
        let own = tx.entry_at(row.key, &landed.path)?;
        if own.is_some_and(|row| row.revision == landed.revision) {
            return Ok(true);
        }
        self.still(tx, row, &landed.path, Some(&landed.entry))
    }
}

/// Finds out what a write does to an index, but for quotas.
fn plan_file(index: &Index<'_>, revision: i64, file: &NewFile) -> Result<Planned> {
    let options = &file.options;
    let (path, steps) = file.target.settle(index)?;
    refuse_unmakeable(index.row, &path)?;
    refuse_own_git(index.tx, index.row, &path)?;
    refuse_ours_in(index, &path)?;
    let before = steps.last().and_then(|(_, entry)| *entry);
    check_expectation(&path, before.as_ref(), options.expect)?;
    if before.is_some_and(|entry| entry.is_dir()) {
        return Err(Error::new(
            ErrorCode::IsADirectory,
            format!("`{path}` is a directory"),
        ));
    }
    let perm = match (options.executable, before) {
        (Some(true), _) => offshoot_core::EXEC_FILE_PERM,
        (Some(false), _) => PLAIN_FILE_PERM,
        (None, Some(before)) if before.kind == EntryKind::File => before.perm,
        (None, _) => PLAIN_FILE_PERM,
    };
    let before = match before {
        Some(entry) => Some((entry, index.size(&entry)?)),
        None => None,
    };
    Ok(Planned {
        before,
        new_dirs: new_dir_rows(index, &missing_of(&steps)?, revision)?,
        entry: EntryRow {
            path,
            kind: Some(EntryKind::File),
            opaque: false,
            perm,
            id: Some(file.id),
            size: file.size,
            revision,
        },
    })
}

/// Writes a file as part of a larger change; its content is stored already. Returns the directories
/// that came into being, and at the end the file.
pub(crate) fn draft_file(draft: &mut Draft<'_>, file: &NewFile) -> Result<Vec<RelPath>> {
    draft.next.materialized = true;
    let planned = plan_file(&draft.index, draft.next.revision, file)?;
    let line = planned.line(&draft.call(&file.cause), file);
    let mut changed = Vec::new();
    for dir in planned.new_dirs {
        changed.push(dir.path.clone());
        draft.make_dir(dir, &file.cause)?;
    }
    draft.content(file.object.clone());
    draft.line(line);
    changed.push(planned.entry.path.clone());
    draft.replace(planned.before, planned.entry)?;
    Ok(changed)
}

/// Does what was planned, but for the row of the workspace.
fn put_planned(
    tx: &mut dyn WriteTx,
    row: WorkspaceRow,
    next: &WorkspaceRow,
    file: &NewFile,
    planned: Planned,
) -> Result<Landed> {
    tx.put_object(&file.object)?;
    let line = LineFor {
        row: next,
        at: file.at,
        via: file.via,
        cause: &file.cause,
    };
    for dir in &planned.new_dirs {
        tx.put_entry(row.key, dir)?;
        tx.add_history(&line.mkdir(&dir.path))?;
    }
    tx.put_entry(row.key, &planned.entry)?;
    tx.add_history(&planned.line(&line, file))?;
    let entry = Entry::of_row(&planned.entry);
    Ok(Landed {
        entry: entry.ok_or_else(|| Error::internal("a write left no entry"))?,
        path: planned.entry.path,
        revision: next.revision,
        created: planned.before.is_none(),
        row,
    })
}
