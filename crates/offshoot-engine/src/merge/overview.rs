//! The forks of a project beside each other: what each changed, how far it is behind, and which of
//! them changed the same paths.
//!
//! The cost follows what the forks and the project changed since the bases, not what they hold: no
//! tree is built and none is walked where it is equal.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use offshoot_core::{AgentId, ObjectId, ProjectId, RelPath, Result, WorkspaceId, cancel};
use offshoot_store::{
    HistoryFilter, HistoryRow, ReadTx, ReviewState, WorkspaceKey, WorkspaceKind, WorkspaceRow,
};

use crate::content::change_set::{leaf_paths, overlapping_paths};
use crate::content::index::Index;
use crate::content::rows::{base_state, fork_row, open_project, state_of_row};
use crate::content::state::State;
use crate::merge::Merges;
use crate::{ProviderName, Workspace};

/// The most paths that are named where two forks, or a fork and its project, changed the same ones.
const NAMED_PATHS: usize = 20;

/// One open fork beside the others of its project.
#[derive(Clone, Debug)]
pub struct ForkOverview {
    /// The workspace.
    pub workspace: Workspace,
    /// The project that it is merged into.
    pub project: ProjectId,
    /// The agent that owns it.
    pub agent: Option<AgentId>,
    /// The snapshot of the project that its changes are relative to.
    pub base: ObjectId,
    /// The provider that made its directory, or that was required for it; none before that.
    pub provider: Option<ProviderName>,
    /// How many paths it changed since its base.
    pub changed: usize,
    /// How many snapshots of the project are newer than its base.
    pub behind: i64,
    /// The first of the paths that it and the project changed since its base.
    pub overlap_with_project: Vec<RelPath>,
    /// How many there are beyond these.
    pub overlap_with_project_more: usize,
    /// The other open forks that changed the same paths, in the order of their ids.
    pub overlap: Vec<ForkOverlap>,
    /// What happened last in it.
    pub last_operation: Option<HistoryRow>,
    /// How many of its conflicts wait for a decision.
    pub open_reviews: usize,
    /// Why its directory could not be synced, so that this is the state recorded before.
    pub not_looked_at: Option<String>,
}

impl ForkOverview {
    /// The fork of this name among those of an answer, which stand in the order of their ids.
    pub fn find<'a>(forks: &'a [ForkOverview], id: &WorkspaceId) -> Option<&'a ForkOverview> {
        let found = forks
            .binary_search_by(|fork| fork.workspace.id.cmp(id))
            .ok()?;
        Some(&forks[found])
    }
}

/// What two forks both changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkOverlap {
    /// The other fork.
    pub fork: WorkspaceId,
    /// The first of the paths that both changed, as this fork has them. A file where the other has
    /// a directory counts.
    pub paths: Vec<RelPath>,
    /// How many there are beyond these.
    pub more: usize,
}

impl ForkOverlap {
    /// How many paths both changed.
    pub fn count(&self) -> usize {
        self.paths.len() + self.more
    }
}

impl Merges {
    /// The open forks of a project, or of all projects, in the order of their ids.
    ///
    /// With `look` the changes of outside programs are recorded first, as
    /// [`Synchronizer::changes`](crate::Synchronizer::changes) does; without it the answer is what is recorded, which is what a server
    /// that watches directories wants. A fork whose directory cannot be looked at is told as it is
    /// recorded, with the reason.
    pub fn overview(&self, project: Option<&ProjectId>, look: bool) -> Result<Vec<ForkOverview>> {
        let looked_at = match look {
            true => self.store().read(|tx| {
                let rows = rows_of(tx, project)?;
                let handed_out = rows.into_iter().filter(|(_, row)| row.handed_out);
                Ok(handed_out.map(|(_, row)| row.id).collect())
            })?,
            false => Vec::new(),
        };
        self.overview_after(project, &looked_at, &|_| true)
    }

    /// The open forks of the project of a fork, that fork included. Of that one alone the changes
    /// of outside programs are recorded first.
    pub fn overview_beside(&self, id: &WorkspaceId) -> Result<Vec<ForkOverview>> {
        match self.forks.fork_of(id)? {
            Some(fork) => {
                let looked_at = fork.workspace.handed_out.then(|| id.clone());
                let looked_at: Vec<WorkspaceId> = looked_at.into_iter().collect();
                self.overview_after(Some(&fork.project), &looked_at, &|_| true)
            }
            None => Ok(Vec::new()),
        }
    }

    /// Like [`overview`](Self::overview), after a sync of some of the directories, with the paths
    /// that may be shown.
    pub(crate) fn overview_after(
        &self,
        project: Option<&ProjectId>,
        looked_at: &[WorkspaceId],
        shows: &dyn Fn(&RelPath) -> bool,
    ) -> Result<Vec<ForkOverview>> {
        let mut reasons = HashMap::new();
        for id in looked_at {
            cancel::check()?;
            if let Err(error) = self.sync.sync_if_handed_out(id) {
                reasons.insert(id, error.to_string());
            }
        }
        self.store().read(|tx| {
            let mut projects: BTreeMap<WorkspaceKey, Vec<WorkspaceRow>> = BTreeMap::new();
            for (key, row) in rows_of(tx, project)? {
                projects.entry(key).or_default().push(row);
            }
            let mut found = Vec::new();
            for (key, rows) in projects {
                found.extend(self.side_by_side(tx, key, rows, shows)?);
            }
            for one in &mut found {
                one.not_looked_at = reasons.get(&one.workspace.id).cloned();
            }
            found.sort_by(|a, b| a.workspace.id.cmp(&b.workspace.id));
            Ok(found)
        })
    }

    /// The forks of one project.
    fn side_by_side(
        &self,
        tx: &dyn ReadTx,
        project: WorkspaceKey,
        rows: Vec<WorkspaceRow>,
        shows: &dyn Fn(&RelPath) -> bool,
    ) -> Result<Vec<ForkOverview>> {
        let Some(project) = tx.workspace_by_key(project)? else {
            return Ok(Vec::new());
        };
        let mut reviews: HashMap<WorkspaceKey, usize> = HashMap::new();
        for review in tx.reviews(Some(project.key), true)? {
            if review.state == ReviewState::Open {
                *reviews.entry(review.workspace).or_default() += 1;
            }
        }
        let mut since = ProjectChanges::new(&project);
        let mut found = Vec::new();
        let mut changed = Vec::new();
        for row in rows {
            cancel::check()?;
            let fork = fork_row(tx, &row)?;
            let index = Index::new(self.store(), tx, &row).with_rows()?;
            let edits = index.plan_snapshot(false)?.edits;
            let base = base_state(&fork);
            let changes = base.diff_edited(&index.objects, &index.base(), &edits)?;
            let mut own = leaf_paths(&changes);
            own.retain(|path| shows(path));
            let mut overlap_with_project = overlapping_paths(&own, since.paths(&index, base)?);
            let overlap_with_project_more = overlap_with_project.len().saturating_sub(NAMED_PATHS);
            overlap_with_project.truncate(NAMED_PATHS);
            found.push(ForkOverview {
                project: project.id.as_str().parse()?,
                agent: fork.agent.clone(),
                base: fork.base,
                provider: fork.provider.as_deref().and_then(|name| name.parse().ok()),
                changed: changes.len(),
                behind: since.snapshots(tx, &fork.base)?,
                overlap_with_project,
                overlap_with_project_more,
                overlap: Vec::new(),
                last_operation: last_operation(tx, &row)?,
                open_reviews: reviews.get(&row.key).copied().unwrap_or(0),
                not_looked_at: None,
                workspace: row.clone().into(),
            });
            changed.push(own);
        }
        mark_overlaps(&mut found, &changed)?;
        Ok(found)
    }
}

/// Open forks with the key of their project.
fn rows_of(
    tx: &dyn ReadTx,
    project: Option<&ProjectId>,
) -> Result<Vec<(WorkspaceKey, WorkspaceRow)>> {
    if let Some(project) = project {
        let key = open_project(tx, project)?.key;
        let rows = tx.forks_of(key)?;
        return Ok(rows.into_iter().map(|row| (key, row)).collect());
    }
    let mut found = Vec::new();
    for row in tx.workspaces(None, 0)? {
        if row.kind == WorkspaceKind::Fork {
            found.push((fork_row(tx, &row)?.project, row));
        }
    }
    Ok(found)
}

/// What happened in a project since the bases of its forks. Many forks have the same base.
struct ProjectChanges<'a> {
    project: &'a WorkspaceRow,
    /// By tree and sidecar of the base.
    paths: HashMap<(ObjectId, ObjectId), BTreeSet<RelPath>>,
}

impl<'a> ProjectChanges<'a> {
    fn new(project: &'a WorkspaceRow) -> Self {
        ProjectChanges {
            project,
            paths: HashMap::new(),
        }
    }

    /// The paths that changed since a base.
    fn paths(&mut self, index: &Index<'_>, base: State) -> Result<&BTreeSet<RelPath>> {
        Ok(match self.paths.entry((base.tree, base.sidecar)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let head = state_of_row(self.project);
                let changes = base.diff(&index.objects, &head, &RelPath::root())?;
                free.insert(leaf_paths(&changes))
            }
        })
    }

    /// How many snapshots are newer than a base.
    fn snapshots(&self, tx: &dyn ReadTx, base: &ObjectId) -> Result<i64> {
        let number = |id: &ObjectId| -> Result<i64> {
            let row = tx.snapshot(self.project.key, id)?;
            Ok(row.map_or(0, |row| row.number))
        };
        match self.project.head {
            Some(head) if head != *base => Ok(number(&head)? - number(base)?),
            _ => Ok(0),
        }
    }
}

/// Notes for each fork which others changed the same paths.
///
/// Paths that the same forks changed are counted together, so that the cost follows the paths plus
/// the pairs of forks, and not their product where all forks changed the same.
fn mark_overlaps(forks: &mut [ForkOverview], changed: &[BTreeSet<RelPath>]) -> Result<()> {
    let mut shared: BTreeMap<(usize, usize), SharedPaths<'_>> = BTreeMap::new();
    for (OverlapKey { here, meets }, group) in overlaps_by_forks(changed)? {
        for of in here {
            cancel::check()?;
            for with in meets.iter().filter(|with| **with != of) {
                shared.entry((of, *with)).or_default().add(&group);
            }
        }
    }
    let ids: Vec<WorkspaceId> = forks.iter().map(|fork| fork.workspace.id.clone()).collect();
    for ((of, with), group) in shared {
        forks[of].overlap.push(ForkOverlap {
            fork: ids[with].clone(),
            more: group.count - group.first.len(),
            paths: group.first.into_iter().cloned().collect(),
        });
    }
    for fork in forks {
        fork.overlap.sort_by(|a, b| a.fork.cmp(&b.fork));
    }
    Ok(())
}

/// The key of a group of paths: which forks, by their numbers, changed the path, and which changed
/// it or something above or below.
#[derive(PartialEq, Eq, Hash)]
struct OverlapKey {
    here: Vec<usize>,
    meets: BTreeSet<usize>,
}

/// Paths, of which the first are named.
#[derive(Default)]
struct SharedPaths<'a> {
    count: usize,
    first: BTreeSet<&'a RelPath>,
}

impl<'a> SharedPaths<'a> {
    fn add(&mut self, other: &SharedPaths<'a>) {
        self.count += other.count;
        self.first.extend(&other.first);
        while self.first.len() > NAMED_PATHS {
            self.first.pop_last();
        }
    }
}

/// The paths at which forks meet, those of the same forks together.
fn overlaps_by_forks(
    changed: &[BTreeSet<RelPath>],
) -> Result<HashMap<OverlapKey, SharedPaths<'_>>> {
    let mut at: BTreeMap<&RelPath, Vec<usize>> = BTreeMap::new();
    for (number, paths) in changed.iter().enumerate() {
        for path in paths {
            at.entry(path).or_default().push(number);
        }
    }
    let above = |path: &RelPath| -> Vec<&RelPath> {
        std::iter::successors(path.parent(), RelPath::parent)
            .filter_map(|above| at.get_key_value(&above).map(|(above, _)| *above))
            .collect()
    };
    let mut below: HashMap<&RelPath, BTreeSet<usize>> = HashMap::new();
    for (path, here) in &at {
        for above in above(path) {
            below.entry(above).or_default().extend(here);
        }
    }
    let mut found: HashMap<OverlapKey, SharedPaths<'_>> = HashMap::new();
    for (number, (path, here)) in at.iter().enumerate() {
        if number % 1024 == 0 {
            cancel::check()?;
        }
        let mut meets: BTreeSet<usize> = here.iter().copied().collect();
        meets.extend(above(path).into_iter().flat_map(|above| &at[above]));
        meets.extend(below.get(path).into_iter().flatten());
        if meets.len() > 1 {
            let here = here.clone();
            let group = found.entry(OverlapKey { here, meets }).or_default();
            group.count += 1;
            // They come in order.
            if group.first.len() < NAMED_PATHS {
                group.first.insert(path);
            }
        }
    }
    Ok(found)
}

fn last_operation(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<Option<HistoryRow>> {
    let lines = tx.history(&HistoryFilter {
        workspace: Some(row.key),
        newest_first: true,
        limit: 1,
        ..HistoryFilter::default()
    })?;
    Ok(lines.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of every shared path for each of two forks would be 10^8 paths.
    #[test]
    fn many_forks_that_changed_the_same_many_paths_are_one_group() {
        let parse = |number: usize| RelPath::parse(format!("dir/{number}").as_bytes()).unwrap();
        let paths: BTreeSet<RelPath> = (0..10_000).map(parse).collect();
        let mut changed = vec![paths.clone(); 100];
        changed[99].insert(RelPath::parse(b"alone").unwrap());
        let found = overlaps_by_forks(&changed).unwrap();
        assert_eq!(found.len(), 1);
        for (key, shared) in &found {
            assert_eq!((key.here.len(), key.meets.len()), (100, 100));
            assert_eq!((shared.count, shared.first.len()), (10_000, NAMED_PATHS));
            assert!(
                shared
                    .first
                    .iter()
                    .copied()
                    .eq(paths.iter().take(NAMED_PATHS))
            );
        }
    }
}
