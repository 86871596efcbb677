//! Finding what outside programs changed in a workspace directory, and recording it as such
//! (INV-4).
//!
//! A workspace whose path was never handed out cannot have changed behind our back: nothing is
//! walked then. Otherwise one `stat` walk against a memo of the last one says which files to hash.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{
    Cause, EMPTY_TREE, EntryKind, Error, ErrorCode, ObjectId, Operator, RelPath, Result, Timestamp,
    WorkspaceId, cancel,
};
use offshoot_fs::{DirState, Memo, SafeDir, Scan, Seen};
use offshoot_store::{
    Bulk, BulkWriter, Durability, HistoryFilter, HistoryOp, NewObject, ReadTx, Via, WorkspaceKind,
    WorkspaceRow,
};

use crate::content::draft::{Draft, PreparedChange, TRIES, keeps_changing};
use crate::content::history_writer::LineTemplate;
use crate::content::index::{Entry, Index};
use crate::content::objects::{PendingObjects, StoredObjects};
use crate::content::rows::{agent_claim, open_row_by_key};
use crate::content::state::{State, StateEdit, StateEntry};
use crate::content::too_large::{TooLarge, largest_file};
use crate::directory::disk_entry::DiskEntry;
use crate::sync::Synchronizer;
use crate::sync::disk::{DiskRead, SyncFilter, extract_too_deep, is_too_deep};
use crate::sync::ignored::Ignored;
use crate::sync::record::Recorder;
use crate::sync::renames::Renames;

/// A memo is written anew when the old one leaves more than this to look at again.
const MEMO_IS_WORTH_FILES: usize = 256;
const MEMO_IS_WORTH_BYTES: u64 = 4 << 20;
const MEMO_IS_WORTH_LINES: usize = 512;
/// A first sync of at least so many files becomes a state at once instead of rows.
const FOLD_FROM: usize = 1_000;
/// Walks of one sync while outside programs are busy.
pub(crate) const ROUNDS: usize = 3;
const THREADS: usize = 2;
/// So many times a path may turn out to lead elsewhere while its links are looked at.
pub(crate) const MAX_DETOURS: usize = 8;

/// One change that an outside program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideChange {
    /// Where.
    pub path: RelPath,
    /// What happened.
    pub op: HistoryOp,
    /// What stands or stood there.
    pub kind: EntryKind,
    /// Where it was before, if it was only renamed.
    pub from: Option<RelPath>,
}

/// What a sync found.
#[derive(Clone, Debug, Default)]
pub struct Synced {
    /// Whether the directory was walked at all.
    pub walked: bool,
    /// What had changed, in the order of paths.
    pub changes: Vec<OutsideChange>,
    /// What cannot be in a workspace, such as sockets, with the reason.
    pub refused: Vec<(RelPath, String)>,
    /// What the ignore rules left out; a directory stands for all below it.
    pub ignored: Vec<RelPath>,
    /// Files that kept changing while they were read; the next sync takes them.
    pub unsettled: Vec<RelPath>,
    /// Files that were not read for their size. They are in no snapshot and stay where they are.
    pub too_large: Vec<TooLarge>,
    /// Those of `refused` that are files or directories: nothing else holds what is in them.
    pub(crate) unrecorded: Vec<RelPath>,
}

impl Synced {
    /// Refuses to take away a directory with what could not be recorded (INV-5).
    pub(crate) fn refuse_unrecorded(&self) -> Result<()> {
        match self.unrecorded.first() {
            None => Ok(()),
            Some(path) => Err(Error::new(
                ErrorCode::WorkspaceBusy,
                format!("`{path}` cannot be kept, and would be lost with the directory"),
            )
            .with_hint(
                "`offshoot status` says why; move it elsewhere or delete it, then try again",
            )),
        }
    }
}

/// What stands at a path of the disk; none if nothing does.
pub(crate) type DiskChanges = BTreeMap<RelPath, Option<DiskEntry>>;

impl Synchronizer {
    /// Records what outside programs changed.
    pub fn sync_workspace(&self, id: &WorkspaceId, cause: &Cause) -> Result<Synced> {
        let row = self.contents.open_row(id)?;
        if !row.handed_out {
            return Ok(Synced::default());
        }
        let _lock = self.directories.exclusive(&row)?;
        self.sync_locked(&row, false, cause)
    }

    pub(crate) fn sync_if_handed_out(&self, id: &WorkspaceId, cause: &Cause) -> Result<()> {
        self.sync_workspace(id, cause).map(drop)
    }

    /// The same before a path is taken away with all below it, while the caller holds the exclusive
    /// lock. Refused if something is there that could not be recorded: nothing would hold it (INV-5).
    pub(crate) fn sync_before_deletion(&self, row: &WorkspaceRow, path: &RelPath) -> Result<()> {
        let synced = self.sync_locked_with(row, false, Durability::Synced)?;
        let below = |one: &&TooLarge| one.path.starts_with(path);
        if let Some(file) = synced.too_large.iter().find(below) {
            return Err(file.refuse());
        }
        let busy = synced.unsettled.iter().find(|one| one.starts_with(path));
        busy.map_or(Ok(()), |busy| Err(is_being_changed(busy)))
    }

    /// Refuses to show a directory as a whole without a file in it that kept changing and that no
    /// sync has ever found at rest. One that was recorded before is shown as it was then.
    pub(crate) fn refuse_never_recorded(
        &self,
        row: &WorkspaceRow,
        synced: &Synced,
        below: &RelPath,
    ) -> Result<()> {
        if synced.unsettled.is_empty() {
            return Ok(());
        }
        self.store().read(|tx| {
            let row = open_row_by_key(tx, row)?;
            let index = Index::new(self.store(), tx, &row);
            for path in synced
                .unsettled
                .iter()
                .filter(|path| path.starts_with(below))
            {
                if index.entry(path)?.is_none() {
                    return Err(is_being_changed(path));
                }
            }
            Ok(())
        })
    }

    /// The same for one path alone.
    pub(crate) fn lock_and_sync_path(&self, id: &WorkspaceId, path: &RelPath) -> Result<()> {
        let row = self.contents.open_row(id)?;
        if !row.handed_out || !row.materialized {
            return Ok(());
        }
        let _lock = self.directories.exclusive(&row)?;
        self.directories.bring_back_held(&row)?;
        let dir = self.directories.dir_of(&row)?;
        self.sync_path(&row, &dir, path, &Cause::by(Operator::outside()))
    }

    /// Walks the directory and records what differs. The caller holds the exclusive lock.
    pub(crate) fn sync_locked(
        &self,
        row: &WorkspaceRow,
        include_ignored: bool,
        _cause: &Cause,
    ) -> Result<Synced> {
        self.sync_locked_with(row, include_ignored, Durability::Synced)
    }

    /// The same with a say in who waits for the disk: a caller that commits something durable
    /// right after need not wait twice.
    pub(crate) fn sync_locked_with(
        &self,
        row: &WorkspaceRow,
        include_ignored: bool,
        durability: Durability,
    ) -> Result<Synced> {
        let row = self.store().read(|tx| open_row_by_key(tx, row))?;
        if !row.handed_out || !row.materialized {
            return Ok(Synced::default());
        }
        self.directories.bring_back_held(&row)?;
        let dir = self.directories.dir_of(&row)?;
        let place = self.context.data.workspace(&row.id);
        self.sync_directory(&row, &dir, &place, include_ignored, durability)
    }

    /// The same of a directory that stands at some place.
    pub(crate) fn sync_directory(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        place: &Path,
        include_ignored: bool,
        durability: Durability,
    ) -> Result<Synced> {
        if row.kind == WorkspaceKind::Fork {
            return self.sync_fork(row, dir, place, include_ignored, durability, None);
        }
        dir.clear_stages()?;
        let mut memo = self.load_memo(row.key);
        let mut synced = Synced {
            walked: true,
            ..Synced::default()
        };
        for round in 1..=ROUNDS {
            let filter = SyncFilter {
                sync: self,
                dir,
                row,
                include_ignored,
                misplaced: Mutex::default(),
            };
            let scan = offshoot_fs::scan(dir, &memo, &filter, THREADS)?;
            let started = scan.started();
            let fresh = !include_ignored && row.files + row.dirs == 0;
            let outcome = self.record_scan(row, dir, &memo, &scan, fresh, durability)?;
            synced.refused = scan
                .refused
                .iter()
                .map(|(path, why)| (path.clone(), why.to_string()))
                .collect();
            let misplaced = filter.misplaced.lock();
            let misplaced = misplaced.unwrap_or_else(PoisonError::into_inner);
            let why = "a session workspace has a place only for what is below `uploads`, `outputs` and `temp`";
            synced
                .refused
                .extend(misplaced.iter().map(|path| (path.clone(), why.to_owned())));
            synced.ignored.clone_from(&scan.ignored);
            synced.ignored.retain(|path| !misplaced.contains(path));
            let too_deep = extract_too_deep(&mut synced.ignored);
            synced.unrecorded = misplaced.iter().cloned().collect();
            synced
                .unrecorded
                .extend(too_deep.iter().map(|(path, _)| path.clone()));
            synced.refused.extend(too_deep);
            synced.unsettled = outcome.unsettled;
            synced.too_large = outcome.too_large;
            synced.changes.extend(outcome.recorded.changes);
            let settled = outcome.recorded.all && outcome.compared.settled;
            if !settled {
                // What was seen and not recorded must not be known to the next walk, nor the other
                // way round.
                memo = self.save_memo(row.key, Memo::empty())?;
            } else if is_worth_a_memo(&scan, &memo, outcome.compared.lines_since) {
                let hashed = outcome.hashed;
                let new = scan.finish(outcome.recorded.seq as u64, |path| {
                    hashed.get(path).copied()
                });
                memo = self.save_memo(row.key, new)?;
            }
            // Somebody wrote while we walked: what we saw may be half of what they did.
            let busy = outcome.newest >= started || !settled;
            if !busy || round == ROUNDS {
                break;
            }
        }
        synced.changes.sort_by(|a, b| a.path.cmp(&b.path));
        synced.changes.dedup();
        Ok(synced)
    }

    fn record_scan(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        memo: &Memo,
        scan: &Scan<'_>,
        fresh: bool,
        durability: Durability,
    ) -> Result<Outcome> {
        let bulk = self.store().bulk();
        let hashing = HashResults::default();
        let chunk = scan.unknown.len().div_ceil(THREADS).max(1);
        let outcomes: Vec<Result<()>> = if scan.unknown.len() < 64 {
            vec![self.hash_unknown(row, dir, &scan.unknown, &bulk, &hashing)]
        } else {
            std::thread::scope(|scope| {
                let workers: Vec<_> = scan
                    .unknown
                    .chunks(chunk)
                    .map(|part| {
                        let (bulk, hashing) = (&bulk, &hashing);
                        let cancel = cancel::current().unwrap_or_default();
                        scope.spawn(move || {
                            cancel.run(|| self.hash_unknown(row, dir, part, bulk, hashing))
                        })
                    })
                    .collect();
                workers
                    .into_iter()
                    .map(|worker| {
                        worker
                            .join()
                            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    })
                    .collect()
            })
        };
        for outcome in outcomes {
            outcome?;
        }
        let HashResults {
            found,
            hashed,
            unsettled,
            too_large,
            newest,
        } = hashing;
        let mut found = found.into_inner().unwrap_or_default();
        let unsettled = unsettled.into_inner().unwrap_or_default();
        let mut too_large = too_large.into_inner().unwrap_or_default();
        let compared = self.compare_the_rest(
            row,
            dir,
            memo,
            scan,
            &unsettled,
            &bulk,
            &mut found,
            &mut too_large,
        )?;
        let folds = fresh && found.len() >= FOLD_FROM && found.values().all(Option::is_some);
        // Trees are built while the packs are written.
        let (bulk, folded) = std::thread::scope(|scope| {
            let folding = folds.then(|| scope.spawn(|| self.fold_fresh(dir, &found)));
            let bulk = bulk.finish();
            let folded = folding.map(|folding| {
                let folded = folding.join();
                folded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            Ok((bulk?, folded.transpose()?))
        })?;
        let recorded = self.record_found(row, &found, Some(&bulk), folded.as_ref(), durability)?;
        Ok(Outcome {
            recorded,
            compared,
            hashed: hashed.into_inner().unwrap_or_default(),
            unsettled,
            too_large,
            newest: newest.into_inner().unwrap_or_default(),
        })
    }

    /// Hashes files and links, and keeps the content of those that the index does not have.
    fn hash_unknown(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        unknown: &[Seen],
        bulk: &BulkWriter,
        hashing: &HashResults,
    ) -> Result<()> {
        let largest = largest_file(&self.contents, row);
        self.store().read(|tx| {
            let index = Index::new(self.store(), tx, row).with_tree_cache();
            let mut parent: Option<(RelPath, BTreeMap<Vec<u8>, Entry>)> = None;
            for seen in unknown {
                let above = seen.path.parent().unwrap_or_default();
                if parent.as_ref().is_none_or(|(path, _)| *path != above) {
                    parent = Some((above.clone(), index.children(&above)?));
                }
                let known = parent
                    .as_ref()
                    .and_then(|(_, names)| names.get(seen.path.name()));
                let stat = Some(seen.stat);
                match self.read_from_disk(dir, &seen.path, stat, known, largest, bulk)? {
                    DiskRead::Gone => {
                        hashing.note(|h| &h.found, |found| found.insert(seen.path.clone(), None));
                    }
                    DiskRead::Unsettled => {
                        hashing.note(|h| &h.unsettled, |list| list.push(seen.path.clone()));
                    }
                    DiskRead::TooLarge(file) => {
                        hashing.note(|h| &h.too_large, |list| list.push(file));
                    }
                    DiskRead::Entry(entry, stat) => {
                        if let Some(id) = entry.id {
                            hashing.note(|h| &h.hashed, |map| map.insert(seen.path.clone(), id));
                        }
                        if known.is_none_or(|known| !entry.is(known)) {
                            let changed = Timestamp((stat.ctime_ns / 1_000) as i64);
                            hashing.note(|h| &h.newest, |newest| *newest = changed.max(*newest));
                            hashing.note(
                                |h| &h.found,
                                |found| found.insert(seen.path.clone(), Some(entry)),
                            );
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Directories, deletions, and what the walk did not look at.
    fn compare_the_rest(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        memo: &Memo,
        scan: &Scan<'_>,
        unsettled: &[RelPath],
        bulk: &BulkWriter,
        found: &mut DiskChanges,
        too_large: &mut Vec<TooLarge>,
    ) -> Result<ComparedScan> {
        let seen: BTreeSet<&RelPath> = scan
            .unknown
            .iter()
            .map(|seen| &seen.path)
            .chain(scan.dirs.iter().map(|dir| &dir.path))
            .chain(unsettled)
            .collect();
        self.store().read(|tx| {
            let index = Index::new(self.store(), tx, row).with_rows()?;
            // Whatever came, changed or went through us since the last walk, the memo does not
            // know: a directory that it knows may be one that we removed and somebody made again.
            // Asked for by number, which the index leads to; by revision, every line of the
            // workspace would be looked at.
            let since = match memo.is_empty() {
                true => Vec::new(),
                false => tx.history(&HistoryFilter {
                    workspace: Some(row.key),
                    after_seq: memo.tag() as i64,
                    ..HistoryFilter::default()
                })?,
            };
            let lines_since = since.len();
            let touched: BTreeSet<RelPath> = since
                .into_iter()
                .flat_map(|line| [Some(line.line.path), line.line.from])
                .flatten()
                .collect();
            for seen in scan
                .dirs
                .iter()
                .filter(|seen| seen.state != DirState::Known || touched.contains(&seen.path))
            {
                let entry = DiskEntry {
                    kind: EntryKind::Dir,
                    perm: seen.perm,
                    id: None,
                    size: 0,
                };
                if index
                    .entry(&seen.path)?
                    .is_none_or(|known| !entry.is(&known))
                {
                    found.insert(seen.path.clone(), Some(entry));
                }
            }
            let mut gone: BTreeSet<RelPath> = scan.missing.iter().cloned().collect();
            if memo.is_empty() {
                index.walk(&RelPath::root(), &mut |path, _| {
                    gone.insert(path.clone());
                    Ok(())
                })?;
            } else {
                gone.extend(touched);
                // What is left out now and was not then took the place of something.
                let left_out = scan
                    .ignored
                    .iter()
                    .chain(scan.refused.iter().map(|(path, _)| path));
                gone.extend(left_out.filter(|path| memo.get(path).is_some()).cloned());
            }
            let largest = largest_file(&self.contents, row);
            let mut replaced = Vec::new();
            let mut settled = true;
            for path in gone {
                if path.is_root() || seen.contains(&path) || found.contains_key(&path) {
                    continue;
                }
                let (known, stat) = (index.entry(&path)?, dir.stat(&path)?);
                let walked_by = |(above, _): &(RelPath, _)| path.starts_with(above);
                let left_out = scan.ignored.iter().any(|above| path.starts_with(above))
                    || scan.refused.iter().any(walked_by);
                // The walk has just seen it as the memo says.
                let is_known =
                    memo.get(&path).is_some() && scan.missing.binary_search(&path).is_err();
                match (known, stat) {
                    (Some(_), None) => drop(found.insert(path, None)),
                    (Some(known), Some(stat))
                        if known.is_dir() != stat.is_dir() || stat.entry_kind().is_none() =>
                    {
                        replaced.push(path);
                    }
                    // It looks as it did when the memo was written; but a moment ago it was not
                    // there, and that is recorded.
                    (None, Some(stat)) if is_known && !left_out => {
                        match self.read_from_disk(dir, &path, Some(stat), None, largest, bulk)? {
                            DiskRead::Entry(entry, _) => drop(found.insert(path, Some(entry))),
                            DiskRead::TooLarge(file) => too_large.push(file),
                            DiskRead::Gone | DiskRead::Unsettled => {}
                        }
                    }
                    // The walk did not see it, and now it is there: somebody is at work.
                    (Some(known), Some(_)) if !left_out && (known.is_dir() || !is_known) => {
                        settled = false;
                    }
                    _ => {}
                }
            }
            let rows = index
                .plan_snapshot(false)?
                .left_out(&index, &scan.ignored)?;
            let ignored = Ignored {
                rows: &rows,
                seen: &|path| seen.contains(path),
            };
            self.follow_ignored(&index, dir, bulk, &ignored, found, too_large)?;
            // Something that the walk leaves out took its place, such as an ignored directory that
            // of a file.
            for path in replaced {
                found.entry(path).or_insert(None);
            }
            Ok(ComparedScan {
                lines_since,
                settled,
            })
        })
    }

    /// Records outside changes to one path and to the directories above it, so that a change
    /// through us starts from what is really there. The caller holds the exclusive lock.
    pub(crate) fn sync_path(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        path: &RelPath,
        _cause: &Cause,
    ) -> Result<()> {
        // Links lead a change to another place, and what is there now must be recorded as well. A
        // link may be as new to us as what it leads to, so this goes on until nothing new shows.
        let mut at = path.clone();
        for _ in 0..MAX_DETOURS {
            self.directories.refuse_own_git(row, &at)?;
            let leads_to = match self.sync_steps_towards(row, dir, &at, Some(path))? {
                Some(known) => known,
                None => self.store().read(|tx| {
                    let now = open_row_by_key(tx, row)?;
                    Index::new(self.store(), tx, &now).resolve(path)
                }),
            };
            match leads_to {
                Ok(next) if next != at => at = next,
                // Where no link may lead, the change itself says so.
                _ => break,
            }
        }
        Ok(())
    }

    /// Records outside changes to the parts of one path as it is written.
    pub(crate) fn sync_steps(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        path: &RelPath,
    ) -> Result<()> {
        self.sync_steps_towards(row, dir, path, None).map(drop)
    }

    /// The same. If there was nothing to record it also says where the index leads from another
    /// path, which costs no view of its own then.
    fn sync_steps_towards(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        path: &RelPath,
        from: Option<&RelPath>,
    ) -> Result<Option<Result<RelPath>>> {
        let bulk = self.store().bulk();
        let mut found = DiskChanges::new();
        let largest = largest_file(&self.contents, row);
        let leads_to = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let index = Index::new(self.store(), tx, &now);
            found.clear();
            for step in path.dirs_above().into_iter().chain([path.clone()]) {
                if step.is_root() {
                    continue;
                }
                let known = index.entry(&step)?;
                if known.is_none() && is_too_deep(step.as_bytes()) {
                    break;
                }
                let there = match dir.stat(&step)?.and_then(|stat| stat.entry_kind()) {
                    None => None,
                    Some(EntryKind::Dir) => self.directories.entry_on_disk(dir, &step)?,
                    Some(_) => {
                        let known = known.as_ref();
                        match self.read_from_disk(dir, &step, None, known, largest, &bulk)? {
                            DiskRead::Entry(entry, _) => Some(entry),
                            DiskRead::Gone => None,
                            // Nothing else holds it, so nothing may take its place.
                            DiskRead::TooLarge(file) => return Err(file.refuse()),
                            DiskRead::Unsettled => return Err(is_being_changed(&step)),
                        }
                    }
                };
                if differs(there.as_ref(), known.as_ref()) {
                    found.insert(step, there);
                }
            }
            let from = from.filter(|_| found.is_empty());
            Ok(from.map(|from| index.resolve(from)))
        })?;
        if found.is_empty() {
            return Ok(leads_to);
        }
        let bulk = bulk.finish()?;
        self.record_found(row, &found, Some(&bulk), None, Durability::Synced)?;
        Ok(None)
    }

    /// The state of a first sync of many files, which needs no rows above it: there was nothing.
    fn fold_fresh(&self, dir: &SafeDir, found: &DiskChanges) -> Result<FoldedState> {
        let objects = StoredObjects::new(self.store(), None);
        let mut bench = PendingObjects::new(&objects);
        bench.add_files_git_checks(dir, found.keys())?;
        let put = |entry: &DiskEntry| {
            StateEdit::Put(StateEntry {
                kind: entry.kind,
                perm: entry.perm,
                id: entry.id,
            })
        };
        let edits = found
            .iter()
            .filter_map(|(path, entry)| Some((path.clone(), put(entry.as_ref()?))))
            .collect();
        let state = State::default().edit(&mut bench, &edits)?;
        Ok((state, bench.prepare(self.store())?))
    }

    /// Writes outside changes into the index and the history.
    pub(crate) fn record_found(
        &self,
        row: &WorkspaceRow,
        found: &DiskChanges,
        bulk: Option<&Bulk>,
        folded: Option<&FoldedState>,
        durability: Durability,
    ) -> Result<RecordedChanges> {
        let at = self.context.now();
        if found.is_empty() {
            // Only the time of the sync is noted, and nobody waits for that.
            return self.store().write(Durability::Relaxed, |tx| {
                let mut now = open_row_by_key(tx, row)?;
                now.last_sync = Some(at);
                tx.update_workspace(&now)?;
                Ok(RecordedChanges {
                    changes: Vec::new(),
                    seq: tx.last_seq()?,
                    all: true,
                })
            });
        }
        for _ in 0..TRIES {
            let drafted = self
                .store()
                .read(|tx| self.draft_found(tx, row, found, folded, at))?;
            let seq = self.store().write(durability, |tx| {
                let Some((_, mut next)) = drafted.change.write(tx, at)? else {
                    return Ok(None);
                };
                if let Some(bulk) = bulk {
                    bulk.insert(tx)?;
                }
                if let Some((state, objects)) = drafted.folded {
                    for object in objects {
                        tx.put_object(object)?;
                    }
                    (next.tree, next.sidecar) = (state.tree, state.sidecar);
                }
                next.last_sync = Some(at);
                // Outside programs are not stopped by a quota: the next write through us is.
                tx.update_workspace(&next)?;
                tx.last_seq().map(Some)
            })?;
            if let Some(seq) = seq {
                let DraftedChanges { changes, all, .. } = drafted;
                return Ok(RecordedChanges { changes, seq, all });
            }
        }
        Err(keeps_changing(row))
    }

    /// What recording outside changes does. The state of a first sync is used only if the
    /// workspace still holds nothing.
    fn draft_found<'f>(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        found: &DiskChanges,
        folded: Option<&'f FoldedState>,
        at: Timestamp,
    ) -> Result<DraftedChanges<'f>> {
        let now = open_row_by_key(tx, row)?;
        let still_empty = folded.is_some()
            && (now.tree, now.sidecar) == (EMPTY_TREE, EMPTY_TREE)
            && tx.entries_below(now.key, &RelPath::root())?.is_empty();
        // What runs in the directory of a fork is taken for the work of its agent.
        let mut cause = Cause::by(Operator::outside());
        if row.kind == WorkspaceKind::Fork {
            cause.claim = agent_claim(tx, row.key)?;
        }
        let mut draft = Draft::new(self.store(), tx, &now, at);
        let renames = Renames::find(&draft.index, found)?;
        let next = draft.next.clone();
        let mut recorder = Recorder {
            draft: &mut draft,
            line: LineTemplate {
                row: &next,
                at,
                via: Via::Sync,
                cause: &cause,
            },
            new_dirs: HashSet::new(),
            renames,
        };
        let mut changes = Vec::with_capacity(found.len());
        let mut all = true;
        let folded = folded.filter(|_| still_empty);
        if folded.is_some() {
            recorder.all_new(found, &mut changes);
        } else {
            for (path, there) in found {
                match there {
                    None => recorder.gone(path, found, &mut changes)?,
                    Some(entry) => all &= recorder.there(path, entry, &mut changes)?,
                }
            }
        }
        Ok(DraftedChanges {
            changes,
            all,
            change: draft.finish(),
            folded,
        })
    }
}

fn is_being_changed(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::WorkspaceBusy,
        format!("`{path}` is being changed by another program"),
    )
    .with_hint("try again when nothing writes to it, or let `.gitignore` name it")
}

/// Whether the disk is not what the index says of a path.
pub(crate) fn differs(there: Option<&DiskEntry>, known: Option<&Entry>) -> bool {
    match (there, known) {
        (Some(there), Some(known)) => !there.is(known),
        (None, None) => false,
        _ => true,
    }
}

/// Whether a new memo is worth writing, which takes as long as to hash some hundred small files.
///
/// An old memo is as good for files: one that changed since looks different from it and is
/// compared again. It is not for directories, which are known by their bits alone: one that went
/// and came back, or had its bits changed and changed back, would look as if nothing had happened.
fn is_worth_a_memo(scan: &Scan<'_>, memo: &Memo, lines_since: usize) -> bool {
    let sizes = scan.unknown.iter().map(|seen| seen.stat.size);
    let to_hash = sizes.fold(0, u64::saturating_add);
    memo.is_empty()
        || !scan.missing.is_empty()
        || scan.dirs.iter().any(|dir| dir.state != DirState::Known)
        || scan.unknown.len() > MEMO_IS_WORTH_FILES
        || to_hash > MEMO_IS_WORTH_BYTES
        || lines_since > MEMO_IS_WORTH_LINES
}

/// A state and the objects that it is made of.
pub(crate) type FoldedState = (State, Vec<NewObject>);

/// Outside changes that are ready to be written.
struct DraftedChanges<'f> {
    changes: Vec<OutsideChange>,
    /// Whether that is all that was found.
    all: bool,
    change: PreparedChange,
    /// The state that they become, if they are a first sync.
    folded: Option<&'f FoldedState>,
}

/// What a walk was compared with.
struct ComparedScan {
    /// The lines of history that the memo of the walk did not know.
    lines_since: usize,
    /// Whether everything was still as the walk had seen it.
    settled: bool,
}

/// What was written into the index.
pub(crate) struct RecordedChanges {
    pub(crate) changes: Vec<OutsideChange>,
    /// The last line of the history once they were recorded.
    seq: i64,
    /// Whether that was all that was found.
    all: bool,
}

/// What one walk led to.
struct Outcome {
    recorded: RecordedChanges,
    compared: ComparedScan,
    hashed: HashMap<RelPath, ObjectId>,
    unsettled: Vec<RelPath>,
    too_large: Vec<TooLarge>,
    /// The newest change among those found.
    newest: Timestamp,
}

/// What the hashing threads collect.
#[derive(Default)]
struct HashResults {
    found: Mutex<DiskChanges>,
    hashed: Mutex<HashMap<RelPath, ObjectId>>,
    unsettled: Mutex<Vec<RelPath>>,
    too_large: Mutex<Vec<TooLarge>>,
    newest: Mutex<Timestamp>,
}

impl HashResults {
    fn note<T, R>(&self, which: impl Fn(&Self) -> &Mutex<T>, add: impl FnOnce(&mut T) -> R) {
        let mut guard = which(self)
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        add(&mut guard);
    }
}
