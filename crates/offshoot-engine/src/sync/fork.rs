//! Finding what outside programs changed in a fork: what its provider says differs from the layers,
//! against what the index says differs from them. The cost follows the change, not the project.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use offshoot_core::{EntryKind, RelPath, Result, Timestamp};
use offshoot_fs::{Difference, ForkDirs, SafeDir, Stat};
use offshoot_git::IgnoreRules;
use offshoot_store::{BulkWriter, Durability, EntryRow, ForkRow, WorkspaceRow};

use crate::content::index::{Entry, Index};
use crate::content::inherited::InheritedFlag;
use crate::content::rows::{fork_row, size_of};
use crate::content::snapshot_plan::SnapshotPlan;
use crate::content::state::dir_of_nested_git;
use crate::content::too_large::largest_file;
use crate::directory::disk_entry::DiskEntry;
use crate::directory::layers::Stack;
use crate::sync::Synchronizer;
use crate::sync::changes::{Changes, changes_of};
use crate::sync::changes_cache::ChangesKey;
use crate::sync::disk::{DiskRead, is_too_deep, read_rule_file, too_deep_reason};
use crate::sync::fork_memo::ForkMemo;
use crate::sync::ignored::Ignored;
use crate::sync::scan::{DiskChanges, ROUNDS, Synced, differs};

/// A memo is written anew when the old one let more than this be hashed.
const MEMO_IS_WORTH_FILES: usize = 8;
const MEMO_IS_WORTH_BYTES: u64 = 256 << 10;
/// For so many microseconds the time of the last sync is as good as noted.
const NOTED_FOR: i64 = 1_000_000;

/// What a walk looks at.
struct ForkView<'a> {
    dir: &'a SafeDir,
    /// Where it stands.
    place: &'a Path,
    index: &'a Index<'a>,
    stack: &'a Stack,
    include_ignored: bool,
}

/// One walk over the changes of a fork.
struct ForkWalk<'a> {
    sync: &'a Synchronizer,
    dir: &'a SafeDir,
    index: &'a Index<'a>,
    /// What the index has unrecorded.
    pending: &'a SnapshotPlan,
    stack: &'a Stack,
    bulk: &'a BulkWriter,
    old: &'a ForkMemo,
    memo: ForkMemo,
    hashed_files: usize,
    hashed_bytes: u64,
    newest: Timestamp,
    found: DiskChanges,
    synced: &'a mut Synced,
}

/// What a walk found, and what it leaves for the next one.
#[derive(Default)]
struct WalkOutcome {
    found: DiskChanges,
    newest: Timestamp,
    /// A new memo, if the old one let much be hashed.
    memo: Option<ForkMemo>,
}

impl Synchronizer {
    /// Records what outside programs changed in a fork. The caller holds the exclusive lock.
    ///
    /// If there was nothing to record, `changes` gets what the fork changed since its base, from
    /// what the walk read anyway; the walk may be repeated, and the last one counts.
    pub(crate) fn sync_fork(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        place: &Path,
        include_ignored: bool,
        durability: Durability,
        mut changes: Option<&mut Option<Changes>>,
    ) -> Result<Synced> {
        let memo_path = self.context.data.memo(row.key);
        let mut memo = None;
        let mut synced = Synced {
            walked: true,
            ..Synced::default()
        };
        for round in 1..=ROUNDS {
            let started = self.context.now();
            synced.refused.clear();
            synced.unrecorded.clear();
            synced.ignored.clear();
            synced.unsettled.clear();
            synced.too_large.clear();
            let bulk = self.store().bulk();
            let outcome = self.store().read(|tx| {
                let now = crate::content::rows::open_row_by_key(tx, row)?;
                let fork = fork_row(tx, &now)?;
                let stack = self
                    .directories
                    .stack_of(fork.project, fork.layer.unwrap_or_default())?;
                let index = Index::new(self.store(), tx, &now);
                let mut looking = ForkView {
                    dir,
                    place,
                    index: &index,
                    stack: &stack,
                    include_ignored,
                };
                let differences = self.fork_differences(&looking, &fork)?;
                let ground = match &changes {
                    None => None,
                    Some(_) => {
                        let project = tx.workspace_by_key(fork.project)?;
                        let head = project.and_then(|project| project.head);
                        ChangesKey::new(&now, &fork, head, &differences, started)
                    }
                };
                if let (Some(changes), Some(ground)) = (&mut changes, &ground)
                    && let Some(told) = self.told.get(ground)
                {
                    **changes = Some(told.changes.clone());
                    synced.ignored.clone_from(&told.ignored);
                    return Ok(WalkOutcome::default());
                }
                let index = Index::new(self.store(), tx, &now).with_rows()?;
                looking.index = &index;
                let differences = looking.without_ignored(differences, &mut synced);
                let memo = memo.get_or_insert_with(|| ForkMemo::load(&memo_path));
                let pending = index.plan_snapshot(false)?;
                let mut walk = ForkWalk {
                    sync: self,
                    dir,
                    index: &index,
                    pending: &pending,
                    stack: &stack,
                    bulk: &bulk,
                    old: memo,
                    memo: ForkMemo::begin(),
                    hashed_files: 0,
                    hashed_bytes: 0,
                    newest: Timestamp::default(),
                    found: DiskChanges::new(),
                    synced: &mut synced,
                };
                walk.take(&differences)?;
                let unseen = pending.left_out(&index, &walk.synced.ignored)?;
                walk.reverted(&differences, &unseen)?;
                let seen: HashSet<&RelPath> = differences.iter().map(|one| &one.path).collect();
                let ignored = Ignored {
                    rows: &unseen,
                    seen: &|path| seen.contains(path),
                };
                let too_large = &mut walk.synced.too_large;
                self.follow_ignored(&index, dir, &bulk, &ignored, &mut walk.found, too_large)?;
                let worth = walk.hashed_files > MEMO_IS_WORTH_FILES
                    || walk.hashed_bytes > MEMO_IS_WORTH_BYTES;
                let outcome = WalkOutcome {
                    newest: walk.newest,
                    memo: worth.then_some(walk.memo),
                    found: walk.found,
                };
                if let Some(changes) = changes.as_mut().filter(|_| outcome.found.is_empty()) {
                    let seen = changes_of(&index, &pending, &fork)?;
                    let all_seen = synced.unsettled.is_empty()
                        && synced.refused.is_empty()
                        && synced.too_large.is_empty()
                        && unseen.is_empty();
                    if let Some(ground) = ground.filter(|_| all_seen) {
                        let ignored = synced.ignored.clone();
                        self.told.put(ground, seen.clone(), ignored);
                    }
                    **changes = Some(seen);
                }
                Ok(outcome)
            })?;
            let WalkOutcome {
                found,
                newest,
                memo: new_memo,
            } = outcome;
            let bulk = bulk.finish()?;
            // That there was nothing to note is noted once in a while.
            let noted = row.last_sync.is_some_and(|at| started.0 - at.0 < NOTED_FOR);
            if !(found.is_empty() && noted) {
                let recorded = self.record_found(row, &found, Some(&bulk), None, durability)?;
                synced.changes.extend(recorded.changes);
            }
            if let Some(new_memo) = new_memo {
                new_memo.save(&memo_path)?;
                memo = Some(new_memo);
            }
            // Somebody wrote while we looked: what we saw may be half of what they did.
            if newest < started || round == ROUNDS {
                break;
            }
        }
        synced.changes.sort_by(|a, b| a.path.cmp(&b.path));
        synced.changes.dedup();
        Ok(synced)
    }

    /// What differs from the layers. Directories that the ignore rules leave out are not looked
    /// into.
    fn fork_differences(&self, looking: &ForkView<'_>, fork: &ForkRow) -> Result<Vec<Difference>> {
        let ForkView { index, stack, .. } = looking;
        let provider = fork.provider.as_deref().unwrap_or("copy").parse()?;
        let private = self.directories.fork_dirs(index.row, fork.place).private;
        let dirs = ForkDirs::new(private, looking.place);
        let on_disk = |path: &RelPath| rule_file(looking.dir, path);
        let rules = ForkIgnoreRules::new(&on_disk);
        let mut closed = |path: &RelPath, _: &Stat| looking.leaves_out(&rules, path, true);
        let seen = self.directories.provider_that_made(provider)?.changes_but(
            &stack.layers,
            &dirs,
            &mut closed,
        )?;
        // What killed writers staged. Nobody writes now.
        if seen.may_hold_stages {
            looking.dir.clear_stages()?;
        }
        Ok(seen.differences)
    }
}

impl ForkView<'_> {
    /// What the ignore rules do not leave out.
    fn without_ignored(&self, mut all: Vec<Difference>, synced: &mut Synced) -> Vec<Difference> {
        if self.include_ignored {
            return all;
        }
        // What does not differ is what the layers have, and need not be looked for on disk.
        let differs: HashSet<RelPath> = all.iter().map(|one| one.path.clone()).collect();
        let read = |path: &RelPath| match differs.contains(path) {
            true => rule_file(self.dir, path),
            false => {
                let entry = self.stack.state.entry(&self.index.objects, path).ok()??;
                let id = entry.id.filter(|_| entry.kind == EntryKind::File)?;
                self.index.content(&id).ok()
            }
        };
        let rules = ForkIgnoreRules::new(&read);
        all.retain(|one| {
            let is_dir = one.now.is_some_and(|now| now.is_dir());
            if one.now.is_none() || !self.leaves_out(&rules, &one.path, is_dir) {
                return true;
            }
            synced.ignored.push(one.path.clone());
            false
        });
        synced.ignored =
            crate::content::change_set::topmost(std::mem::take(&mut synced.ignored).into_iter());
        all
    }

    /// Whether the ignore rules leave a path out.
    fn leaves_out(&self, rules: &ForkIgnoreRules<'_>, path: &RelPath, is_dir: bool) -> bool {
        !self.include_ignored && leaves_out(self.index, rules, path, is_dir)
    }
}

/// Whether the ignore rules of a fork leave a path out.
fn leaves_out(
    index: &Index<'_>,
    rules: &ForkIgnoreRules<'_>,
    path: &RelPath,
    is_dir: bool,
) -> bool {
    // What is tracked stays tracked; when in doubt, it is looked at.
    let tracked = index.base().entry(&index.objects, path);
    if !matches!(tracked, Ok(None)) {
        return false;
    }
    match dir_of_nested_git(path) {
        Some(around) => rules.ignores(&around, true),
        None => rules.ignores(path, is_dir),
    }
}

/// Says of directories below `dir` whether the ignore rules leave them out, for a walk that need not
/// look into those.
pub(crate) fn leaves_out_dirs(
    index: &Index<'_>,
    dir: &SafeDir,
    ask: impl FnOnce(SkipDir<'_>) -> Result<()>,
) -> Result<()> {
    let on_disk = |path: &RelPath| rule_file(dir, path);
    let rules = ForkIgnoreRules::new(&on_disk);
    ask(&mut |path, _| leaves_out(index, &rules, path, true))
}

/// What [`offshoot_fs::Provider::changes_but`] asks.
pub(crate) type SkipDir<'a> = &'a mut dyn FnMut(&RelPath, &Stat) -> bool;

impl ForkWalk<'_> {
    /// What the directory holds where it differs from the layers.
    fn take(&mut self, differences: &[Difference]) -> Result<()> {
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

    /// What stands at a path; the outer none if that cannot be told now, or not be kept.
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
        if let Some(id) = self.old.content(&one.path, stat) {
            self.memo.note(&one.path, stat, id);
            return Ok(entry(kind, Some(id), stat.size as i64));
        }
        // A file of a renamed directory that nobody touched is what the layers have.
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
            DiskRead::Gone => Ok(Some(
                self.sync.directories.entry_on_disk(self.dir, &one.path)?,
            )),
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

    /// Paths that the index has changed and the directory has not, or not any more: there the
    /// layers show through. Those that the walk did not see are followed by themselves.
    fn reverted(&mut self, differences: &[Difference], unseen: &[EntryRow]) -> Result<()> {
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

    /// Every path at which the index may say something else than the layers show.
    fn changed_by_index(&self) -> Result<BTreeSet<RelPath>> {
        let (shown, objects) = (&self.stack.state, &self.index.objects);
        let snapshots = shown.diff(objects, &self.index.base(), &RelPath::root())?;
        let mut paths = shown.paths_affected_by(objects, &self.pending.edits)?;
        paths.extend(snapshots.into_iter().map(|one| one.path));
        Ok(paths)
    }
}

/// The ignore rules of a fork, read as far as they are needed.
struct ForkIgnoreRules<'a> {
    read: &'a dyn Fn(&RelPath) -> Option<Arc<[u8]>>,
    rules: RefCell<HashMap<RelPath, IgnoreRules>>,
    ignored: InheritedFlag,
}

impl<'a> ForkIgnoreRules<'a> {
    fn new(read: &'a dyn Fn(&RelPath) -> Option<Arc<[u8]>>) -> Self {
        ForkIgnoreRules {
            read,
            rules: RefCell::default(),
            ignored: InheritedFlag::default(),
        }
    }

    /// Whether the path, or a directory above it, is ignored.
    fn ignores(&self, path: &RelPath, is_dir: bool) -> bool {
        let Some(parent) = path.parent() else {
            return false;
        };
        let own = |path: &RelPath, is_dir| match path.parent() {
            Some(above) => self.rules_in(&above).is_ignored(path, is_dir),
            None => false,
        };
        let above = self.ignored.holds(&parent, |dir| Ok(own(dir, true)));
        above.unwrap_or(false) || own(path, is_dir)
    }

    fn rules_in(&self, dir: &RelPath) -> IgnoreRules {
        if let Some(rules) = self.rules.borrow().get(dir) {
            return rules.clone();
        }
        let above = match dir.parent() {
            Some(parent) => self.rules_in(&parent),
            None => IgnoreRules::root(),
        };
        let read = |name: &[u8]| (self.read)(&dir.join_name(name));
        let (git, own) = (read(b".gitignore"), read(b".offshootignore"));
        let rules = if git.is_none() && own.is_none() {
            above
        } else {
            above.child(dir, git.as_deref(), own.as_deref())
        };
        self.rules.borrow_mut().insert(dir.clone(), rules.clone());
        rules
    }
}

/// A rule file as it is on disk.
fn rule_file(dir: &SafeDir, path: &RelPath) -> Option<Arc<[u8]>> {
    read_rule_file(dir, path).map(Arc::from)
}
