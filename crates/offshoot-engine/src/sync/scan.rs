//! Finding what outside programs changed in the directory of a workspace, and recording it (INV-4).
//!
//! A workspace whose path was never handed out has no directory that a program could have changed, so
//! nothing is walked. Otherwise one `stat` walk against the memo of the last walk says which files to
//! hash (`hash.rs`); directories and deletions are compared after it (`compare.rs`). Forks have a walk
//! of their own (`fork.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{
    EntryKind, Error, ErrorCode, ObjectId, RelPath, Result, Timestamp, WorkspaceId,
};
use offshoot_fs::{DirState, Memo, SafeDir, Scan};
use offshoot_store::{Durability, HistoryOp, WorkspaceKind, WorkspaceRow};

use crate::content::index::{Entry, Index};
use crate::content::rows::open_row_by_key;
use crate::content::too_large::TooLarge;
use crate::directory::disk_entry::DiskEntry;
use crate::sync::Synchronizer;
use crate::sync::compare::{ComparedScan, ScanComparison};
use crate::sync::disk::{SyncFilter, extract_too_deep};
use crate::sync::hash::HashResults;
use crate::sync::record::RecordedChanges;

/// A new memo is written when the old one left more than this to hash or to compare.
const MEMO_IS_WORTH_FILES: usize = 256;
const MEMO_IS_WORTH_BYTES: u64 = 4 << 20;
const MEMO_IS_WORTH_LINES: usize = 512;
/// A first sync of at least so many files becomes a state at once instead of rows.
const FOLD_FROM: usize = 1_000;
/// How often one sync walks a directory that programs are writing to.
pub(crate) const ROUNDS: usize = 3;
pub(crate) const THREADS: usize = 2;

/// One change that an outside program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideChange {
    /// Where.
    pub path: RelPath,
    /// What happened.
    pub op: HistoryOp,
    /// The kind of the entry that is or was there.
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
    /// Files that kept changing while they were read; the next sync reads them.
    pub unsettled: Vec<RelPath>,
    /// Files that were not read for their size. They are in no snapshot and stay where they are.
    pub too_large: Vec<TooLarge>,
    /// Those of `refused` that are files or directories: nothing else holds what is in them.
    pub(crate) unrecorded: Vec<RelPath>,
}

impl Synced {
    /// Refuses to remove a directory that holds something that could not be recorded (INV-5).
    pub(crate) fn refuse_unrecorded(&self) -> Result<()> {
        self.refuse_unrecorded_below(&RelPath::root())
    }

    /// Refuses to remove a part of a directory that holds something that could not be recorded (INV-5).
    fn refuse_unrecorded_below(&self, top: &RelPath) -> Result<()> {
        match self.unrecorded.iter().find(|path| path.starts_with(top)) {
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

    /// Notes what a walk left out, and why. `misplaced` are paths that the layout does not allow.
    fn set_left_out(&mut self, scan: &Scan<'_>, misplaced: &BTreeSet<RelPath>) {
        let refused = scan.refused.iter();
        self.refused = refused
            .map(|(path, why)| (path.clone(), why.to_string()))
            .collect();
        let why = "a session workspace has a place only for what is below `uploads`, `outputs` and `temp`";
        self.refused
            .extend(misplaced.iter().map(|path| (path.clone(), why.to_owned())));
        self.ignored.clone_from(&scan.ignored);
        self.ignored.retain(|path| !misplaced.contains(path));
        let too_deep = extract_too_deep(&mut self.ignored);
        self.unrecorded = misplaced.iter().cloned().collect();
        self.unrecorded
            .extend(too_deep.iter().map(|(path, _)| path.clone()));
        self.refused.extend(too_deep);
    }

    pub(crate) fn sort_changes(&mut self) {
        self.changes.sort_by(|a, b| a.path.cmp(&b.path));
        self.changes.dedup();
    }
}

/// The paths at which the disk differs from the index, with what is on disk; none if nothing is.
pub(crate) type DiskChanges = BTreeMap<RelPath, Option<DiskEntry>>;

/// What one walk led to.
struct ScanOutcome {
    recorded: RecordedChanges,
    compared: ComparedScan,
    hashed: HashMap<RelPath, ObjectId>,
    unsettled: Vec<RelPath>,
    too_large: Vec<TooLarge>,
    /// When the newest of the differing files changed.
    newest: Timestamp,
}

impl Synchronizer {
    /// Records what outside programs changed.
    pub fn sync_workspace(&self, id: &WorkspaceId) -> Result<Synced> {
        let row = self.contents.open_row(id)?;
        if !row.handed_out {
            return Ok(Synced::default());
        }
        let _lock = self.directories.exclusive(&row)?;
        self.sync_locked(&row, false)
    }

    pub(crate) fn sync_if_handed_out(&self, id: &WorkspaceId) -> Result<()> {
        self.sync_workspace(id).map(drop)
    }

    /// Records what outside programs changed before a path is deleted with everything below it. Fails
    /// if something there could not be recorded, because no version would hold it (INV-5). The caller
    /// holds the exclusive lock.
    pub(crate) fn sync_before_deletion(&self, row: &WorkspaceRow, path: &RelPath) -> Result<()> {
        let synced = self.sync_locked_with(row, false, Durability::Synced)?;
        let below = |one: &&TooLarge| one.path.starts_with(path);
        if let Some(file) = synced.too_large.iter().find(below) {
            return Err(file.refuse());
        }
        synced.refuse_unrecorded_below(path)?;
        let busy = synced.unsettled.iter().find(|one| one.starts_with(path));
        busy.map_or(Ok(()), |busy| Err(is_being_changed(busy)))
    }

    /// Fails if a file below a directory kept changing during this sync and was never recorded before,
    /// because an answer about the whole directory would lack it.
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

    /// Walks the directory and records what differs. The caller holds the exclusive lock.
    pub(crate) fn sync_locked(&self, row: &WorkspaceRow, include_ignored: bool) -> Result<Synced> {
        self.sync_locked_with(row, include_ignored, Durability::Synced)
    }

    /// Walks the directory and records what differs, with a chosen durability: a caller that commits
    /// something durable right after need not wait for the disk twice.
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
        self.directories.ensure_directory_locked(&row)?;
        let dir = self.directories.dir_of(&row)?;
        let place = self.context.data.workspace(&row.id);
        self.sync_directory(&row, &dir, &place, include_ignored, durability)
    }

    /// Walks an open directory, which need not be at the path of its workspace, and records what
    /// differs.
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
            let misplaced = filter.misplaced.lock();
            synced.set_left_out(&scan, &misplaced.unwrap_or_else(PoisonError::into_inner));
            synced.unsettled = outcome.unsettled;
            synced.too_large = outcome.too_large;
            synced.changes.extend(outcome.recorded.changes);
            let settled = outcome.recorded.all && outcome.compared.settled;
            if !settled {
                // The walk and the index do not agree, so the next walk must not rely on a memo.
                memo = self.save_memo(row.key, Memo::empty())?;
            } else if is_worth_a_memo(&scan, &memo, outcome.compared.lines_since) {
                let hashed = outcome.hashed;
                let new = scan.finish(outcome.recorded.seq as u64, |path| {
                    hashed.get(path).copied()
                });
                memo = self.save_memo(row.key, new)?;
            }
            // A program that wrote during the walk may have been seen halfway through its work.
            let busy = outcome.newest >= started || !settled;
            if !busy || round == ROUNDS {
                break;
            }
        }
        synced.sort_changes();
        Ok(synced)
    }

    /// Compares a walk with the index and records what differs.
    fn record_scan(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        memo: &Memo,
        scan: &Scan<'_>,
        fresh: bool,
        durability: Durability,
    ) -> Result<ScanOutcome> {
        let bulk = self.store().bulk();
        let HashResults {
            mut found,
            hashed,
            unsettled,
            mut too_large,
            newest,
        } = self.hash_files(row, dir, &scan.unknown, &bulk)?;
        let files = scan.unknown.iter().map(|seen| &seen.path);
        let dirs = scan.dirs.iter().map(|dir| &dir.path);
        let compared = ScanComparison {
            sync: self,
            row,
            dir,
            memo,
            scan,
            seen: files.chain(dirs).chain(&unsettled).collect(),
            bulk: &bulk,
            found: &mut found,
            too_large: &mut too_large,
        }
        .run()?;
        let folds = fresh && found.len() >= FOLD_FROM && found.values().all(Option::is_some);
        // Trees are built while the packs are written.
        let (bulk, folded) = std::thread::scope(|scope| {
            let folding = folds.then(|| scope.spawn(|| self.fold_first_sync(dir, &found)));
            let bulk = bulk.finish();
            let folded = folding.map(|folding| {
                let folded = folding.join();
                folded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            Ok((bulk?, folded.transpose()?))
        })?;
        let recorded =
            self.record_changes(row, &found, Some(&bulk), folded.as_ref(), durability)?;
        Ok(ScanOutcome {
            recorded,
            compared,
            hashed,
            unsettled,
            too_large,
            newest,
        })
    }
}

pub(crate) fn is_being_changed(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::WorkspaceBusy,
        format!("`{path}` is being changed by another program"),
    )
    .with_hint("try again when nothing writes to it, or let `.gitignore` name it")
}

/// Whether the disk differs from the index at a path.
pub(crate) fn differs(there: Option<&DiskEntry>, known: Option<&Entry>) -> bool {
    match (there, known) {
        (Some(there), Some(known)) => !there.equals(known),
        (None, None) => false,
        _ => true,
    }
}

/// Whether a new memo is worth writing, which takes as long as hashing some hundred small files.
///
/// An old memo serves as well for files: a file that changed since has other `stat` data and is
/// hashed again. It does not serve for directories, which it knows by their permission bits alone: a
/// directory that was removed and made again, or whose bits changed twice, would look unchanged.
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
