//! Finding what outside programs changed in a fork.
//!
//! The provider says where the directory differs from the layers, and the index says where the recorded
//! state differs from them. Where the two disagree, a program changed something. The cost follows the
//! change, not the size of the project.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use offshoot_core::{EntryKind, RelPath, Result, Timestamp};
use offshoot_fs::{Difference, ForkDirs, SafeDir, Stat};
use offshoot_store::{Bulk, BulkWriter, Durability, EntryRow, ForkRow, ReadTx, WorkspaceRow};

use crate::content::index::{Entry, Index};
use crate::content::inherited::InheritedFlag;
use crate::content::rows::{fork_row, open_row_by_key, size_of};
use crate::content::snapshot_plan::SnapshotPlan;
use crate::content::too_large::largest_file;
use crate::directory::disk_entry::DiskEntry;
use crate::directory::layers::Stack;
use crate::sync::Synchronizer;
use crate::sync::changes::{Changes, changes_of};
use crate::sync::changes_cache::ChangesKey;
use crate::sync::disk::{DiskRead, is_too_deep, too_deep_reason};
use crate::sync::fork_ignore::{ForkIgnoreRules, rule_file};
use crate::sync::fork_memo::ForkMemo;
use crate::sync::ignored::Ignored;
use crate::sync::scan::{DiskChanges, ROUNDS, Synced, differs};

/// A new memo is written when more than this had to be hashed with the old one.
const MEMO_IS_WORTH_FILES: usize = 8;
const MEMO_IS_WORTH_BYTES: u64 = 256 << 10;
/// The time of the last sync is written at most once in so many microseconds.
const SYNC_TIME_MICROS: i64 = 1_000_000;

/// One sync of a fork, which may walk its directory several times.
struct ForkSync<'a> {
    sync: &'a Synchronizer,
    row: &'a WorkspaceRow,
    dir: &'a SafeDir,
    /// The path of the directory.
    place: &'a Path,
    include_ignored: bool,
    memo_path: PathBuf,
    /// The memo of the last walk, once it was read.
    memo: Option<ForkMemo>,
    /// When the current walk began.
    started: Timestamp,
    /// Receives what the fork changed since its base, if the caller asks for it.
    changes: Option<&'a mut Option<Changes>>,
    synced: Synced,
}

/// The directory of a fork and what it is compared with.
pub(crate) struct ForkView<'a> {
    pub(crate) dir: &'a SafeDir,
    /// The path of the directory.
    pub(crate) place: &'a Path,
    pub(crate) index: &'a Index<'a>,
    pub(crate) stack: &'a Stack,
    pub(crate) include_ignored: bool,
    /// What is left out in any case: files that were copied from the person's work tree.
    pub(crate) included: HashSet<RelPath>,
}

/// One walk over the differences between a fork and its layers.
struct ForkWalk<'a> {
    sync: &'a Synchronizer,
    dir: &'a SafeDir,
    index: &'a Index<'a>,
    /// Where the rows of the index differ from its base.
    plan: &'a SnapshotPlan,
    stack: &'a Stack,
    bulk: &'a BulkWriter,
    old_memo: &'a ForkMemo,
    memo: ForkMemo,
    hashed_files: usize,
    hashed_bytes: u64,
    newest: Timestamp,
    found: DiskChanges,
    synced: &'a mut Synced,
}

/// What a walk found.
#[derive(Default)]
struct WalkOutcome {
    found: DiskChanges,
    /// When the newest of the differing files changed.
    newest: Timestamp,
    /// A new memo, if much had to be hashed with the old one.
    memo: Option<ForkMemo>,
}

impl Synchronizer {
    /// Records what outside programs changed in a fork. The caller holds the exclusive lock.
    ///
    /// If there was nothing to record, `changes` gets what the fork changed since its base, computed
    /// from the rows and trees that the walk has read.
    pub(crate) fn sync_fork(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        place: &Path,
        include_ignored: bool,
        durability: Durability,
        changes: Option<&mut Option<Changes>>,
    ) -> Result<Synced> {
        let mut fork_sync = ForkSync {
            sync: self,
            row,
            dir,
            place,
            include_ignored,
            memo_path: self.context.data.memo(row.key),
            memo: None,
            started: Timestamp::default(),
            changes,
            synced: Synced {
                walked: true,
                ..Synced::default()
            },
        };
        for round in 1..=ROUNDS {
            fork_sync.begin_round();
            let bulk = self.store().bulk();
            let outcome = self.store().read(|tx| fork_sync.walk(tx, &bulk))?;
            let newest = outcome.newest;
            fork_sync.record(outcome, &bulk.finish()?, durability)?;
            // A program that wrote during the walk may have been seen halfway through its work.
            if newest < fork_sync.started || round == ROUNDS {
                break;
            }
        }
        fork_sync.synced.sort_changes();
        Ok(fork_sync.synced)
    }

    /// Where the directory differs from the layers. Ignored directories are not walked.
    fn fork_differences(&self, view: &ForkView<'_>, fork: &ForkRow) -> Result<Vec<Difference>> {
        let ForkView { index, stack, .. } = view;
        let provider = fork.provider.as_deref().unwrap_or("copy").parse()?;
        let private = self.directories.fork_dirs(index.row, fork.place).private;
        let dirs = ForkDirs::new(private, view.place);
        let on_disk = |path: &RelPath| rule_file(view.dir, path);
        let rules = ForkIgnoreRules::new(&on_disk);
        let mut skip = |path: &RelPath, _: &Stat| view.leaves_out(&rules, path, true);
        let seen = self
            .directories
            .provider_that_made(provider)?
            .changes_pruned(&stack.layers, &dirs, &mut skip)?;
        // Removes the stage files of killed writers. The lock keeps other writers away.
        if seen.may_hold_stages {
            view.dir.clear_stages()?;
        }
        Ok(seen.differences)
    }
}

impl ForkSync<'_> {
    /// Forgets what the walk before left out: only the last walk counts.
    fn begin_round(&mut self) {
        self.started = self.sync.context.now();
        self.synced = Synced {
            walked: true,
            changes: std::mem::take(&mut self.synced.changes),
            ..Synced::default()
        };
    }

    /// Compares the directory with the index.
    fn walk(&mut self, tx: &dyn ReadTx, bulk: &BulkWriter) -> Result<WalkOutcome> {
        let sync = self.sync;
        let now = open_row_by_key(tx, self.row)?;
        let fork = fork_row(tx, &now)?;
        let stack = sync.directories.stack_of_fork(&fork)?;
        let index = Index::new(sync.store(), tx, &now);
        let mut view = ForkView {
            dir: self.dir,
            place: self.place,
            index: &index,
            stack: &stack,
            include_ignored: self.include_ignored,
            included: sync.directories.included_files(&now, &fork),
        };
        let differences = sync.fork_differences(&view, &fork)?;
        let key = self.changes_key(tx, &now, &fork, &differences)?;
        if self.take_cached_changes(key.as_ref()) {
            return Ok(WalkOutcome::default());
        }
        let index = Index::new(sync.store(), tx, &now).with_rows()?;
        view.index = &index;
        let differences = view.without_ignored(differences, &mut self.synced);
        let plan = index.plan_snapshot(false)?;
        let mut walk = ForkWalk {
            sync,
            dir: self.dir,
            index: &index,
            plan: &plan,
            stack: &stack,
            bulk,
            old_memo: (self.memo).get_or_insert_with(|| ForkMemo::load(&self.memo_path)),
            memo: ForkMemo::begin(),
            hashed_files: 0,
            hashed_bytes: 0,
            newest: Timestamp::default(),
            found: DiskChanges::new(),
            synced: &mut self.synced,
        };
        walk.compare_differences(&differences)?;
        let unseen = plan.left_out(&index, &walk.synced.ignored)?;
        walk.compare_reverted(&differences, &unseen)?;
        walk.compare_ignored(&differences, &unseen)?;
        let outcome = walk.finish();
        if outcome.found.is_empty() {
            self.compute_changes(&index, &plan, &fork, key.filter(|_| unseen.is_empty()))?;
        }
        Ok(outcome)
    }

    /// The key of the cached changes of the fork; none if the caller does not ask for changes or they
    /// cannot be cached.
    fn changes_key(
        &self,
        tx: &dyn ReadTx,
        now: &WorkspaceRow,
        fork: &ForkRow,
        differences: &[Difference],
    ) -> Result<Option<ChangesKey>> {
        if self.changes.is_none() {
            return Ok(None);
        }
        let project = tx.workspace_by_key(fork.project)?;
        let head = project.and_then(|project| project.head);
        Ok(ChangesKey::new(now, fork, head, differences, self.started))
    }

    /// Answers with cached changes, if there are some for this key.
    fn take_cached_changes(&mut self, key: Option<&ChangesKey>) -> bool {
        let cached = key.and_then(|key| self.sync.changes_cache.get(key));
        let (Some(changes), Some(cached)) = (&mut self.changes, cached) else {
            return false;
        };
        **changes = Some(cached.changes.clone());
        self.synced.ignored.clone_from(&cached.ignored);
        true
    }

    /// Computes what the fork changed since its base, if the caller asks for it, and caches it under
    /// `key` if the walk saw everything.
    fn compute_changes(
        &mut self,
        index: &Index<'_>,
        plan: &SnapshotPlan,
        fork: &ForkRow,
        key: Option<ChangesKey>,
    ) -> Result<()> {
        let Some(changes) = &mut self.changes else {
            return Ok(());
        };
        let computed = changes_of(index, plan, fork)?;
        let synced = &self.synced;
        let all_seen =
            synced.unsettled.is_empty() && synced.refused.is_empty() && synced.too_large.is_empty();
        if let Some(key) = key.filter(|_| all_seen) {
            let ignored = synced.ignored.clone();
            (self.sync.changes_cache).put(key, computed.clone(), ignored);
        }
        **changes = Some(computed);
        Ok(())
    }

    /// Writes what a walk found to the store, and its memo to the disk.
    fn record(&mut self, outcome: WalkOutcome, bulk: &Bulk, durability: Durability) -> Result<()> {
        let last_sync = self.row.last_sync;
        let is_recent = last_sync.is_some_and(|at| self.started.0 - at.0 < SYNC_TIME_MICROS);
        if !(outcome.found.is_empty() && is_recent) {
            let (sync, row) = (self.sync, self.row);
            let recorded =
                sync.record_changes(row, &outcome.found, Some(bulk), None, durability)?;
            self.synced.changes.extend(recorded.changes);
        }
        if let Some(memo) = outcome.memo {
            memo.save(&self.memo_path)?;
            self.memo = Some(memo);
        }
        Ok(())
    }
}

impl ForkWalk<'_> {
    /// Compares the index with the directory where the directory differs from the layers.
    fn compare_differences(&mut self, differences: &[Difference]) -> Result<()> {
        for one in differences {
            let known = self.index.entry(&one.path)?;
            let there = match &one.now {
                None => None,
                Some(stat) => match self.entry_at(one, stat, known.as_ref())? {
                    Some(there) => there,
                    None => continue,
                },
            };
            if differs(there.as_ref(), known.as_ref()) {
                let changed = one
                    .now
                    .map(|stat| Timestamp((stat.ctime_ns / 1_000) as i64));
                self.newest = self.newest.max(changed.unwrap_or_default());
                self.found.insert(one.path.clone(), there);
            }
        }
        Ok(())
    }

    /// What is on disk at a path; the outer none if the path cannot be read now, or not be recorded.
    fn entry_at(
        &mut self,
        one: &Difference,
        stat: &Stat,
        known: Option<&Entry>,
    ) -> Result<Option<Option<DiskEntry>>> {
        let entry = |kind, id, size| {
            let (perm, id) = match kind {
                EntryKind::Symlink => (0o777, id),
                _ => (stat.perm, id),
            };
            Some(Some(DiskEntry {
                kind,
                perm,
                id,
                size,
            }))
        };
        let Some(kind) = stat.entry_kind() else {
            let why = "it is neither a file, nor a directory, nor a link".to_owned();
            self.synced.refused.push((one.path.clone(), why));
            return Ok(None);
        };
        if known.is_none() && is_too_deep(one.path.as_bytes()) {
            self.synced
                .refused
                .push((one.path.clone(), too_deep_reason()));
            self.synced.unrecorded.push(one.path.clone());
            return Ok(None);
        }
        if kind == EntryKind::Dir {
            return Ok(entry(kind, None, 0));
        }
        if let Some(id) = self.old_memo.content(&one.path, stat) {
            self.memo.note(&one.path, stat, id);
            return Ok(entry(kind, Some(id), stat.size as i64));
        }
        // An unchanged file of a renamed directory has the content that the layers have.
        if let Some(origin) = &one.content_of
            && let Some(base) = self.stack.state.entry(&self.index.objects, origin)?
            && base.kind == kind
        {
            return Ok(entry(kind, base.id, stat.size as i64));
        }
        let largest = largest_file(&self.sync.contents, self.index.row);
        match self
            .sync
            .read_from_disk(self.dir, &one.path, None, known, largest, self.bulk)?
        {
            DiskRead::Entry(there, _) => {
                self.hashed_files += 1;
                self.hashed_bytes += stat.size;
                if let Some(id) = there.id {
                    self.memo.note(&one.path, stat, id);
                }
                Ok(Some(Some(there)))
            }
            DiskRead::NoFile(dir) => Ok(Some(dir)),
            DiskRead::Unsettled => {
                self.synced.unsettled.push(one.path.clone());
                Ok(None)
            }
            DiskRead::TooLarge(file) => {
                self.synced.too_large.push(file);
                Ok(None)
            }
        }
    }

    /// Compares paths that the index has changed and at which the directory does not differ from the
    /// layers (any more). Rows that the walk did not see are compared by
    /// [`compare_ignored`](Self::compare_ignored).
    fn compare_reverted(&mut self, differences: &[Difference], unseen: &[EntryRow]) -> Result<()> {
        let unseen: HashSet<&RelPath> = unseen.iter().map(|row| &row.path).collect();
        let by_path: HashMap<&RelPath, &Difference> =
            differences.iter().map(|one| (&one.path, one)).collect();
        let gone = InheritedFlag::default();
        for path in self.changed_by_index()? {
            let above = path.parent().unwrap_or_default();
            let hidden = gone.holds(&above, |dir| {
                let one = by_path.get(dir);
                Ok(one.is_some_and(|one| !one.now.is_some_and(|now| now.is_dir())))
            })?;
            let is_known = by_path.contains_key(&path) || unseen.contains(&path);
            if hidden || is_known || self.synced.unsettled.contains(&path) {
                continue;
            }
            let shown = self.stack.state.entry(&self.index.objects, &path)?;
            let known = self.index.entry(&path)?;
            if shown == known.map(Entry::to_state) {
                continue;
            }
            let there = match shown {
                None => None,
                Some(shown) => Some(DiskEntry {
                    kind: shown.kind,
                    perm: shown.perm,
                    id: shown.id,
                    size: size_of(self.index.tx, &shown)?,
                }),
            };
            self.found.insert(path, there);
        }
        Ok(())
    }

    /// Every path at which the index may differ from the layers.
    fn changed_by_index(&self) -> Result<BTreeSet<RelPath>> {
        let (shown, objects) = (&self.stack.state, &self.index.objects);
        let snapshots = shown.diff(objects, &self.index.base(), &RelPath::root())?;
        let mut paths = shown.paths_affected_by(objects, &self.plan.edits)?;
        paths.extend(snapshots.into_iter().map(|one| one.path));
        Ok(paths)
    }

    /// Compares rows of the index that the ignore rules leave out.
    fn compare_ignored(&mut self, differences: &[Difference], unseen: &[EntryRow]) -> Result<()> {
        let seen: HashSet<&RelPath> = differences.iter().map(|one| &one.path).collect();
        let ignored = Ignored {
            rows: unseen,
            seen: &|path| seen.contains(path),
        };
        let too_large = &mut self.synced.too_large;
        let (index, dir, bulk) = (self.index, self.dir, self.bulk);
        (self.sync).compare_ignored_rows(index, dir, bulk, &ignored, &mut self.found, too_large)
    }

    fn finish(self) -> WalkOutcome {
        let worth =
            self.hashed_files > MEMO_IS_WORTH_FILES || self.hashed_bytes > MEMO_IS_WORTH_BYTES;
        WalkOutcome {
            newest: self.newest,
            memo: worth.then_some(self.memo),
            found: self.found,
        }
    }
}
