//! Reviews over all projects: filtered, and by page.

use std::collections::HashMap;

use offshoot_core::{AgentId, ProjectId, Result, WorkspaceId};
use offshoot_store::{ReadTx, ReviewRow, ReviewState, WorkspaceKey};

use crate::Pattern;
use crate::content::rows::open_project;
use crate::merge::Merges;
use crate::merge::review_row::{LandsIn, details_of};
use crate::merge::reviews::Review;

/// How many rows are read at once.
const BATCH: usize = 200;

/// The states of reviews that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewStates {
    /// Those that are not resolved.
    #[default]
    Waiting,
    /// Those that nobody has decided.
    Open,
    /// Those that are decided and land with the others of their merge.
    Decided,
    /// Those that are resolved.
    Resolved,
    /// All.
    All,
}

impl ReviewStates {
    fn has(self, state: ReviewState) -> bool {
        match self {
            ReviewStates::Waiting => state != ReviewState::Resolved,
            ReviewStates::Open => state == ReviewState::Open,
            ReviewStates::Decided => state == ReviewState::Decided,
            ReviewStates::Resolved => state == ReviewState::Resolved,
            ReviewStates::All => true,
        }
    }
}

/// Which reviews are wanted.
#[derive(Clone, Debug, Default)]
pub struct ReviewFilter {
    /// Their states.
    pub states: ReviewStates,
    /// Only of this project.
    pub project: Option<ProjectId>,
    /// Only of changes of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Only of changes of the forks of this agent.
    pub agent: Option<AgentId>,
    /// Only of paths like this.
    pub path: Option<Pattern>,
    /// Only those whose decision goes there.
    pub lands_in: Option<LandsIn>,
    /// Only of this kind, such as `both_changed`.
    pub kind: Option<String>,
}

impl Merges {
    /// Some of the reviews of all projects, in the order in which they were opened: those after the
    /// one of this name, or from the first; at most `limit`, 0 means all. After one that does not
    /// exist there is none.
    pub fn find_reviews(
        &self,
        filter: &ReviewFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Review>> {
        self.store().read(|tx| {
            let project = match &filter.project {
                Some(id) => Some(open_project(tx, id)?.key),
                None => None,
            };
            let mut after = after.map(str::to_owned);
            let mut found = Vec::new();
            loop {
                let unresolved =
                    !matches!(filter.states, ReviewStates::Resolved | ReviewStates::All);
                // The cursor may be of a review that was resolved since: it still has its place.
                let rows = tx.reviews_after(project, unresolved, after.as_deref(), BATCH)?;
                let is_last = rows.len() < BATCH;
                after = rows.last().map(|row| row.id.clone());
                for row in rows {
                    if filter.takes(tx, &row)? {
                        found.push(self.as_review(tx, row)?);
                        if found.len() == limit {
                            return Ok(found);
                        }
                    }
                }
                if is_last {
                    return Ok(found);
                }
            }
        })
    }

    /// Like [`find_reviews`](Self::find_reviews), of one workspace: reads its reviews alone.
    pub(crate) fn find_reviews_of(
        &self,
        workspace: &WorkspaceId,
        filter: &ReviewFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Review>> {
        self.store().read(|tx| {
            let Some(workspace) = tx.workspace(workspace)? else {
                return Ok(Vec::new());
            };
            let project = match &filter.project {
                Some(id) => Some(open_project(tx, id)?.key),
                None => None,
            };
            let mut rows = tx.reviews_of(workspace.key)?;
            if let Some(after) = after {
                let place = rows.iter().position(|row| row.id == after);
                rows.drain(..place.map_or(rows.len(), |place| place + 1));
            }
            let mut found = Vec::new();
            for row in rows {
                let is_there = project.is_none_or(|project| row.project == project);
                if is_there && filter.takes(tx, &row)? {
                    found.push(self.as_review(tx, row)?);
                    if found.len() == limit {
                        break;
                    }
                }
            }
            Ok(found)
        })
    }

    /// Some of the reviews of a project: those after another, or from the first; at most `limit`,
    /// 0 means all.
    pub fn reviews_after(
        &self,
        project: &ProjectId,
        all: bool,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Review>> {
        self.store().read(|tx| {
            let key = open_project(tx, project)?.key;
            let rows = tx.reviews_after(Some(key), !all, after, limit)?;
            rows.into_iter()
                .map(|row| self.as_review(tx, row))
                .collect()
        })
    }

    /// How many reviews nobody has decided, by the name of their project; of one project or of all.
    pub fn open_reviews(&self, project: Option<&ProjectId>) -> Result<HashMap<String, usize>> {
        self.store().read(|tx| {
            let project = match project {
                Some(id) => Some(open_project(tx, id)?.key),
                None => None,
            };
            let mut by_key: HashMap<WorkspaceKey, usize> = HashMap::new();
            for row in tx.reviews(project, true)? {
                if row.state == ReviewState::Open {
                    *by_key.entry(row.project).or_default() += 1;
                }
            }
            let mut counts = HashMap::new();
            for (key, count) in by_key {
                if let Some(row) = tx.workspace_by_key(key)? {
                    *counts.entry(row.id.to_string()).or_default() += count;
                }
            }
            Ok(counts)
        })
    }
}

impl ReviewFilter {
    fn takes(&self, tx: &dyn ReadTx, row: &ReviewRow) -> Result<bool> {
        let path_fits = || {
            self.path
                .as_ref()
                .is_none_or(|like| like.matches(&row.path))
        };
        if !self.states.has(row.state) || !path_fits() {
            return Ok(false);
        }
        if self.kind.is_some() || self.lands_in.is_some() {
            let details = details_of(row)?;
            let is_kind = self.kind.as_ref().is_none_or(|kind| details.kind == *kind);
            if !is_kind
                || self
                    .lands_in
                    .is_some_and(|wanted| details.lands_in != wanted)
            {
                return Ok(false);
            }
        }
        if let Some(wanted) = &self.workspace {
            let workspace = tx.workspace_by_key(row.workspace)?;
            if workspace.is_none_or(|workspace| workspace.id != *wanted) {
                return Ok(false);
            }
        }
        if let Some(agent) = &self.agent {
            let fork = tx.fork(row.workspace)?;
            return Ok(fork.is_some_and(|fork| fork.agent.as_ref() == Some(agent)));
        }
        Ok(true)
    }
}
